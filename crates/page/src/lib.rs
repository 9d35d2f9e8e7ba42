//! The web page for operators: one set of views, which a server and an orchestrator serve.
//!
//! The page is a few files of this crate, and uPlot for its charts, unchanged; nothing is built,
//! and a browser asks no other host for anything. It has no figure in it: it reads those of the
//! server that it came from, as JSON, with a token if one is needed. `assets/server.js` and
//! `assets/fleet.js` turn what is read into one model, and the views show that, so that a figure
//! that both know looks the same in both.
//!
//! What both serve as JSON in the same way is here too: which decisions are asked for ([`Asked`])
//! and what came of one ([`Outcome`]).

#![forbid(unsafe_code)]

mod decisions;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

pub use decisions::{Asked, LISTED_MOVES, Outcome, PoolOutcome};

/// The content security policy: the page runs the files of this server alone and asks this server
/// alone, and no other page can frame it. The icon is an empty `data:`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The path of the files, which have no figures in them: a browser may read them without a token.
pub const FILES: &str = "/page/";

/// The page of a server, or of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Tenants of one server.
    Server,
    /// Instances of an orchestrator.
    Fleet,
}

impl Page {
    /// Returns the page itself.
    pub fn response(self) -> Response {
        let source = match self {
            Self::Server => "server",
            Self::Fleet => "fleet",
        };
        let html = include_str!("../assets/page.html").replace("SOURCE", source);
        (about("text/html; charset=utf-8"), html).into_response()
    }
}

/// Returns the routes of the files.
pub fn files<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/page/{name}", get(file))
}

async fn file(Path(name): Path<String>) -> Response {
    match asset(&name) {
        Some((kind, text)) => (about(kind), text).into_response(),
        None => (StatusCode::NOT_FOUND, format!("There is no file {name:?}.\n")).into_response(),
    }
}

fn about(kind: &'static str) -> [(HeaderName, &'static str); 5] {
    [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // After an upgrade no browser has half of the page before.
        (header::CACHE_CONTROL, "no-cache"),
    ]
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The files: names, kinds and texts.
const ASSETS: &[(&str, &str, &str)] = &[
    ("app.js", SCRIPT, include_str!("../assets/app.js")),
    ("charts.js", SCRIPT, include_str!("../assets/charts.js")),
    ("curve.js", SCRIPT, include_str!("../assets/curve.js")),
    ("decisions.js", SCRIPT, include_str!("../assets/decisions.js")),
    ("dom.js", SCRIPT, include_str!("../assets/dom.js")),
    ("fleet.js", SCRIPT, include_str!("../assets/fleet.js")),
    ("format.js", SCRIPT, include_str!("../assets/format.js")),
    ("overview.js", SCRIPT, include_str!("../assets/overview.js")),
    ("pool.js", SCRIPT, include_str!("../assets/pool.js")),
    ("server.js", SCRIPT, include_str!("../assets/server.js")),
    ("style.css", STYLE, include_str!("../assets/style.css")),
    ("uplot.css", STYLE, include_str!("../assets/vendored/uPlot.min.css")),
    ("uplot.js", SCRIPT, include_str!("../assets/vendored/uPlot.iife.min.js")),
    ("what-if.js", SCRIPT, include_str!("../assets/what-if.js")),
];

fn asset(name: &str) -> Option<(&'static str, &'static str)> {
    ASSETS.iter().find(|(of, ..)| *of == name).map(|&(_, kind, text)| (kind, text))
}

#[cfg(test)]
mod tests;
