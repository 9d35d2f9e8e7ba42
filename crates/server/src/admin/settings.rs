//! `/config`: the settings that hold, and changes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::change::{self, Change, as_json};
use config::edit::lay_over;
use config::load::Override;
use config::{Error, check, keys, rewrite};
use frontend::instance::Instance;
use serde_json::{Map, Value, json};

use super::access::Operator;
use super::changes::Changes;

/// The header for warnings about a change that was made but is probably not intended.
const WARNING: HeaderName = HeaderName::from_static("millpond-warning");

/// `GET /config`: every setting with its value and whether it can be changed while serving.
pub(super) async fn show(State(instance): State<Arc<dyn Instance>>, _: Operator) -> Response {
    let settings = match change::settings_as_json(&instance.config()) {
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
    State(instance): State<Arc<dyn Instance>>,
    State(changes): State<Changes>,
    operator: Operator,
    RawQuery(query): RawQuery,
    Json(wanted): Json<Map<String, Value>>,
) -> Response {
    let source = "PUT /config";
    let settings = match overrides(source, "", wanted) {
        Ok(settings) => settings,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem).into_response(),
    };
    let by = format!("{source} by {}", operator.address);
    let change =
        move || make(&*instance, query, &settings, || instance.change(&by, &|old| lay_over(old, &settings)));
    changes.carry_out(change).await
}

/// Makes a change, and, if the query asks for it, writes the given settings, and nothing else, into
/// the configuration file.
pub(super) fn make(
    instance: &dyn Instance,
    query: Option<String>,
    asked: &[Override],
    make: impl FnOnce() -> Result<Vec<Change>, Error>,
) -> Response {
    let writes = match query.as_deref() {
        None | Some("" | "write=false") => false,
        Some("write=true") => true,
        Some(query) => {
            let problem =
                format!("`?{query}` means nothing here; `?write=true` writes into the file as well\n");
            return (StatusCode::BAD_REQUEST, problem).into_response();
        }
    };
    if writes && let Err(error) = instance.config_file() {
        return (StatusCode::CONFLICT, format!("{error}\n")).into_response();
    }
    let changed = make();
    let mut overridden = Vec::new();
    if writes && let Ok(changes) = &changed {
        let changed = changes.iter().map(|change| change.path.clone());
        let paths: BTreeSet<String> =
            changed.chain(asked.iter().map(|setting| setting.path.clone())).collect();
        let source = |path: &String| Some((path.clone(), instance.override_of(path)?.to_owned()));
        overridden.extend(paths.iter().filter_map(source));
        if let Err(error) = instance.write(Some(&paths)) {
            let problem = format!("the change holds, but not in the file: {error}\n");
            return (StatusCode::CONFLICT, problem).into_response();
        }
    }
    let removed_later = changed.as_ref().map_or_else(|_| Vec::new(), |changes| new_tenants(changes));
    let mut answer = answer(instance, changed);
    for (path, source) in overridden {
        warn(&mut answer, &format!("{path}: {source} overrides the file at the next reload and start"));
    }
    if !writes && instance.config_file().is_ok() {
        for tenant in removed_later {
            let said =
                format!("{tenant}: not in the file, so the next reload or start removes it, with its items");
            warn(&mut answer, &said);
        }
    }
    if writes
        && answer.status().is_success()
        && let Ok(file) = instance.config_file()
        && let Some(target) = rewrite::link_target(file)
    {
        let said = format!("{} is a symbolic link: {} was written", file.display(), target.display());
        warn(&mut answer, &said);
    }
    answer
}

/// Puts a warning beside an answer.
fn warn(answer: &mut Response, warning: &str) {
    if let Ok(warning) = HeaderValue::from_bytes(warning.as_bytes()) {
        answer.headers_mut().append(WARNING, warning);
    }
}

/// The settings that an object has, by their names behind `prefix`.
///
/// # Errors
/// If the value of one is nothing that a setting can be.
pub(super) fn overrides(
    source: &str,
    prefix: &str,
    wanted: Map<String, Value>,
) -> Result<Vec<Override>, String> {
    let setting = |(name, value): (String, Value)| {
        let path = format!("{prefix}{name}");
        let value = match value {
            Value::String(text) => text,
            Value::Null | Value::Object(_) => {
                return Err(format!("{source}: {path}: give it a number, a text, a list, true or false\n"));
            }
            value => value.to_string(),
        };
        Ok(Override { source: source.to_owned(), path, value })
    };
    wanted.into_iter().map(setting).collect()
}

/// The tenants that changes have made, as the settings of one are called: `tenant.shop`.
fn new_tenants(changes: &[Change]) -> Vec<String> {
    let new = changes.iter().filter(|change| change.old.is_empty());
    let names = new.filter_map(|change| change.path.strip_suffix(".name"));
    names.filter(|path| path.starts_with("tenant.")).map(str::to_owned).collect()
}

/// Reports the changes, or why nothing was changed; warnings are in headers.
fn answer(instance: &dyn Instance, changed: Result<Vec<Change>, Error>) -> Response {
    let changes = match changed {
        Ok(changes) => changes,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let shown = changes.iter().filter(|change| !change.is_default).map(
        |change| json!({"setting": change.path, "old": as_json(&change.old), "new": as_json(&change.new)}),
    );
    let mut answer = Json(Value::Array(shown.collect())).into_response();
    let config = instance.config();
    let (tenants, new) = (config.all_tenants().len(), new_tenants(&changes).len());
    if tenants > 1 && tenants <= new + 1 {
        warn(
            &mut answer,
            "several tenants share the server from now on: clients' CONFIG SET and cache_memlimit are refused",
        );
    }
    for warning in check::warnings(&config) {
        let is_of_it = |change: &Change| warning.starts_with(&change.path);
        if changes.iter().any(is_of_it) {
            warn(&mut answer, &warning);
        }
    }
    answer
}

/// `POST /config/rewrite`: writes all unwritten changes into the file. A page in a browser cannot
/// send JSON to another server unasked.
pub(super) async fn rewrite(
    State(instance): State<Arc<dyn Instance>>,
    State(changes): State<Changes>,
    _: Operator,
    headers: HeaderMap,
) -> Response {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json\n").into_response();
    }
    let rewrite = move || match instance.write(None) {
        Ok(settings) => Json(json!({"settings": settings})).into_response(),
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    };
    changes.carry_out(rewrite).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::edit::Edited;
    use config::{Config, ErrorKind};
    use frontend::instance::Observation;

    use super::*;

    /// An instance whose configuration file cannot be written, and one of whose settings a flag
    /// gives.
    struct Unwritable;

    const FLAG: &str = "limits.max_connections";

    impl Instance for Unwritable {
        fn config(&self) -> Arc<Config> {
            Arc::default()
        }

        fn observe(&self) -> Observation {
            unreachable!("a change needs no figures")
        }

        fn change(&self, _: &str, edit: &dyn Fn(&Config) -> Edited) -> Result<Vec<Change>, Error> {
            change::between(&Config::default(), &edit(&Config::default()).config)
        }

        fn reload(&self, _: &Config, _: &str) -> Result<Vec<Change>, Error> {
            unreachable!("single settings are changed")
        }

        fn config_file(&self) -> Result<&Path, Error> {
            Ok(Path::new("/millpond.toml"))
        }

        fn write(&self, _: Option<&BTreeSet<String>>) -> Result<usize, Error> {
            Err(Error::new(ErrorKind::System, "the disk is full"))
        }

        fn override_of(&self, path: &str) -> Option<&str> {
            (path == FLAG).then_some("--max-connections")
        }
    }

    fn put(query: Option<&str>) -> Response {
        let settings =
            [Override { source: "a test".to_owned(), path: FLAG.to_owned(), value: "77".to_owned() }];
        make(&Unwritable, query.map(str::to_owned), &settings, || {
            Unwritable.change("a test", &|old| lay_over(old, &settings))
        })
    }

    fn text(answer: Response) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let body = runtime.block_on(axum::body::to_bytes(answer.into_body(), 1 << 20)).expect("a body");
        String::from_utf8(body.to_vec()).expect("text")
    }

    #[test]
    fn a_change_that_does_not_reach_the_file_is_told_to_hold_until_the_next_start() {
        let answer = put(Some("write=true"));
        assert_eq!(answer.status(), StatusCode::CONFLICT);
        assert_eq!(text(answer), "the change holds, but not in the file: the disk is full\n");
        let answer = put(None);
        assert_eq!(answer.status(), StatusCode::OK, "without the file");
        assert!(text(answer).contains(r#"{"new":77,"old":"#));
    }
}
