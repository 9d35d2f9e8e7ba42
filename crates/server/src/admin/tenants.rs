//! `/tenants`: the tenants of the server, their limits and usage, and changes of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use config::{Config, TenantSettings};
use frontend::instance::Instance;
use frontend::tenant_figures::{TENANT_FIGURES, TenantFigures};
use serde_json::{Map, Value, json};

use super::access::Operator;
use super::changes::Changes;
use super::settings::{make, overrides};

/// `GET /tenants`: the settings and figures of each.
pub(super) async fn list(State(instance): State<Arc<dyn Instance>>, _: Operator) -> Response {
    let config = instance.config();
    Json(instance.observe().tenants.iter().map(|tenant| shown(&config, tenant)).collect::<Vec<_>>())
        .into_response()
}

/// `GET /tenants/NAME`.
pub(super) async fn show(
    State(instance): State<Arc<dyn Instance>>,
    _: Operator,
    Path(name): Path<String>,
) -> Response {
    let config = instance.config();
    match instance.observe().tenants.iter().find(|tenant| tenant.name == name) {
        Some(tenant) => Json(shown(&config, tenant)).into_response(),
        None => (StatusCode::NOT_FOUND, format!("{}\n", config.no_such_tenant(&name))).into_response(),
    }
}

fn shown(config: &Config, tenant: &TenantFigures) -> Value {
    let figures: Map<String, Value> =
        TENANT_FIGURES.iter().map(|figure| (figure.name.to_owned(), json!((figure.of)(tenant)))).collect();
    let settings = config.tenants.iter().find(|settings| settings.name == tenant.name);
    json!({
        "name": tenant.name,
        "pool": tenant.pool,
        // Without settings of its own it is there because a listener names its pool.
        "settings": settings.map(TenantSettings::as_json),
        "figures": figures,
    })
}

/// `PUT /tenants/NAME`: changes the settings of a tenant that the object has, and creates the
/// tenant if there is none.
pub(super) async fn set(
    State(instance): State<Arc<dyn Instance>>,
    State(changes): State<Changes>,
    operator: Operator,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    Json(wanted): Json<Map<String, Value>>,
) -> Response {
    let source = format!("PUT /tenants/{name}");
    let settings = match overrides(&source, &format!("tenant.{name}."), wanted) {
        Ok(settings) => settings,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem).into_response(),
    };
    let by = format!("{source} by {}", operator.address);
    let change = move || {
        make(&*instance, query, &settings, || instance.change(&by, &|old| old.with_tenant(&name, &settings)))
    };
    changes.carry_out(change).await
}

/// `DELETE /tenants/NAME`.
pub(super) async fn remove(
    State(instance): State<Arc<dyn Instance>>,
    State(changes): State<Changes>,
    operator: Operator,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let config = instance.config();
    if !config.tenants.iter().any(|tenant| tenant.name == name) {
        return (StatusCode::NOT_FOUND, format!("{}\n", config.no_such_tenant(&name))).into_response();
    }
    let by = format!("DELETE /tenants/{name} by {}", operator.address);
    let change = move || {
        make(&*instance, query, &[], || instance.change(&by, &|old| old.without_tenant(&name).into()))
    };
    changes.carry_out(change).await
}
