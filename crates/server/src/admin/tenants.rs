//! `/tenants`: the tenants of the server, their limits and usage, and changes of them.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use config::{Config, TenantSettings};
use frontend::shared::Shared;
use frontend::tenant_figures::{TENANT_FIGURES, TenantFigures, tenants};
use serde_json::{Map, Value, json};

use super::access::Operator;
use super::changes::Changes;
use super::settings::{make, overrides};

/// `GET /tenants`: the settings and figures of each.
pub(super) async fn list(State(shared): State<Arc<Shared>>, _: Operator) -> Response {
    let config = shared.config();
    Json(tenants(&shared).iter().map(|tenant| shown(&config, tenant)).collect::<Vec<_>>()).into_response()
}

/// `GET /tenants/NAME`.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    _: Operator,
    Path(name): Path<String>,
) -> Response {
    let config = shared.config();
    match tenants(&shared).iter().find(|tenant| tenant.name == name) {
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
    State(shared): State<Arc<Shared>>,
    Extension(changes): Extension<Changes>,
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
        make(&shared, query, &settings, || shared.change(&by, |old| old.with_tenant(&name, &settings)))
    };
    changes.carry_out(change).await
}

/// `DELETE /tenants/NAME`.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Extension(changes): Extension<Changes>,
    operator: Operator,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let config = shared.config();
    if !config.tenants.iter().any(|tenant| tenant.name == name) {
        return (StatusCode::NOT_FOUND, format!("{}\n", config.no_such_tenant(&name))).into_response();
    }
    let by = format!("DELETE /tenants/{name} by {}", operator.address);
    let change =
        move || make(&shared, query, &[], || shared.change(&by, |old| old.without_tenant(&name).into()));
    changes.carry_out(change).await
}
