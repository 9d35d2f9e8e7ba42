//! `/config`: the settings that hold, and changes of them.
//!
//! Whoever may change settings may make the server useless, so it is for operators alone: those on this machine, and those who
//! have shown a certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use serde_json::{Map, Value, json};

use super::serve::PatientListener;
use crate::config::change::{self, as_json};
use crate::config::keys;
use crate::config::load::Override;
use crate::shared::Shared;

/// Who has connected.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    address: SocketAddr,
    /// Whether it has shown a certificate.
    is_verified: bool,
}

impl Connected<IncomingStream<'_, PatientListener>> for Operator {
    fn connect_info(stream: IncomingStream<'_, PatientListener>) -> Self {
        Self { address: *stream.remote_addr(), is_verified: stream.io().is_verified() }
    }
}

impl Operator {
    /// Says why this operator may not, if so. A page in a browser on this machine that had its own name lead here would show by
    /// that name.
    fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        let why = |why: &'static str| Some((StatusCode::FORBIDDEN, why).into_response());
        if !self.address.ip().is_loopback() && !self.is_verified {
            return why("only from this machine, or with a certificate (admin.tls_client_ca)\n");
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if !self.is_verified && name != "localhost" && name.parse::<std::net::IpAddr>().is_err() {
            return why("the Host of the request is no address: ask for the server by its address\n");
        }
        None
    }
}

/// `GET /config`: every setting with its value and whether it can be changed while serving.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(operator): ConnectInfo<Operator>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = operator.refusal(&headers) {
        return refusal;
    }
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
    ConnectInfo(operator): ConnectInfo<Operator>,
    headers: HeaderMap,
    Json(wanted): Json<Map<String, Value>>,
) -> Response {
    if let Some(refusal) = operator.refusal(&headers) {
        return refusal;
    }
    let setting = |(path, value): (String, Value)| Override {
        source: "PUT /config".to_owned(),
        path,
        value: match value {
            Value::String(text) => text,
            value => value.to_string(),
        },
    };
    let settings: Vec<Override> = wanted.into_iter().map(setting).collect();
    match shared.change(&settings, &format!("PUT /config by {}", operator.address)) {
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
pub(super) async fn rewrite(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(operator): ConnectInfo<Operator>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = operator.refusal(&headers) {
        return refusal;
    }
    match shared.rewrite_config() {
        Ok(settings) => Json(json!({"settings": settings})).into_response(),
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    }
}
