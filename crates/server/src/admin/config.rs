//! `/config`: the settings that hold, and changes of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::operator::Operator;
use crate::config::change::{self, Change, as_json};
use crate::config::keys;
use crate::config::load::{Override, lay_over};
use crate::error::Error;
use crate::shared::Shared;

/// `GET /config`: every setting with its value and whether it can be changed while serving.
pub(super) async fn show(State(shared): State<Arc<Shared>>, _: Operator) -> Response {
    let settings = match change::settings_as_json(&shared.config()) {
        Ok(settings) => settings,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let shown = settings.into_iter().map(|(path, value)| {
        let online = keys::find(&path).is_some_and(|key| key.online);
        (path, json!({"value": value, "online": online}))
    });
    Json(Value::Object(shown.collect())).into_response()
}

/// `PUT /config`: changes the settings that the object has, all or none.
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    operator: Operator,
    Json(wanted): Json<Map<String, Value>>,
) -> Response {
    let source = "PUT /config";
    let settings = overrides(source, "", wanted);
    let by = format!("{source} by {}", operator.address);
    answer(shared.change(&by, |old| lay_over(old, &settings)))
}

/// The settings that an object has, by their names behind `prefix`.
pub(super) fn overrides(source: &str, prefix: &str, wanted: Map<String, Value>) -> Vec<Override> {
    let setting = |(name, value): (String, Value)| Override {
        source: source.to_owned(),
        path: format!("{prefix}{name}"),
        value: match value {
            Value::String(text) => text,
            value => value.to_string(),
        },
    };
    wanted.into_iter().map(setting).collect()
}

/// Tells what was changed, or why nothing was.
pub(super) fn answer(changed: Result<Vec<Change>, Error>) -> Response {
    match changed {
        Ok(changes) => {
            let changes = changes.iter().map(|change| {
                json!({"setting": change.path, "old": as_json(&change.old), "new": as_json(&change.new)})
            });
            Json(Value::Array(changes.collect())).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// `POST /config/rewrite`: writes what was changed into the file.
pub(super) async fn rewrite(State(shared): State<Arc<Shared>>, _: Operator) -> Response {
    match shared.rewrite_config() {
        Ok(settings) => Json(json!({"settings": settings})).into_response(),
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    }
}
