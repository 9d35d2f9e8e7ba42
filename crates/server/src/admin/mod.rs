//! HTTP for operators: a page at `/`, `/metrics` for Prometheus, `/healthz`, `/stats.json`,
//! `/hotkeys.json`, `/curves.json`, `/decisions.json`, `/decisions/NUMBER`, `/config`, `/tenants`.
//!
//! It runs on one thread of its own with tokio, so that a scrape takes no time from workers.
//! Another one makes changes ([`changes`]). Connections are few and short by construction: beyond a
//! bound they wait to be accepted, and one that is silent for a while is closed.

mod access;
mod changes;
mod control;
mod figures;
mod metric;
mod metrics;
mod serve;
mod settings;
mod stats;
mod tenants;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::{FromRef, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use config::{Error, ErrorKind};
use frontend::instance::Instance;
use frontend::shared::Shared;
use page::Page;
use tokio::sync::oneshot;

use self::access::Caller;
use self::changes::Changes;
use self::serve::PatientListener;

/// The running admin server; stops when it is dropped.
pub(crate) struct AdminServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    changes: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Serves the clients that connect to `socket`, on a thread of its own.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the socket is not a TCP socket, or the thread cannot be started.
    pub(crate) fn start(shared: Arc<Shared>, socket: TcpListener) -> Result<Self, Error> {
        let system = |e| Error::with_source(ErrorKind::System, "the admin server cannot be started", e);
        socket.set_nonblocking(true).map_err(system)?;
        let address = socket.local_addr().map_err(system)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (changes, changing) = Changes::start().map_err(system)?;
        let body = move || {
            // A scrape of many tenants takes milliseconds.
            if let Err(error) = base::thread::lower_priority() {
                tracing::debug!(%error, "The admin server answers while others may want the processor.");
            }
            runtime.block_on(async move {
                let listener = match PatientListener::new(socket, Arc::clone(&shared)) {
                    Ok(listener) => listener,
                    Err(error) => return tracing::error!(%error, "The admin server cannot listen."),
                };
                tokio::select! {
                    result = axum::serve(listener, router(shared, changes).into_make_service_with_connect_info::<Caller>()).into_future() => {
                        if let Err(error) = result {
                            tracing::error!(%error, "The admin server has ended.");
                        }
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = base::thread::spawn("admin", body).map_err(system)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread), changes: Some(changing) })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        for thread in self.thread.take().into_iter().chain(self.changes.take()) {
            let _ = thread.join();
        }
    }
}

fn router(shared: Arc<Shared>, changes: Changes) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .route("/stats.json", get(stats_json))
        .route("/hotkeys.json", get(hot_keys_json))
        .route("/curves.json", get(curves_json))
        .route("/decisions.json", get(decisions_json))
        .route("/decisions/{number}", get(decision))
        .route("/config", get(settings::show).put(settings::set))
        .route("/config/rewrite", post(settings::rewrite))
        .route("/tenants", get(tenants::list))
        .route("/tenants/{name}", get(tenants::show).put(tenants::set).delete(tenants::remove))
        .merge(page::files())
        .fallback(no_such_page)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), access::guard))
        .with_state(Pages { shared, changes })
}

/// The state of the pages, of which each takes the part that it uses.
#[derive(Clone)]
struct Pages {
    shared: Arc<Shared>,
    changes: Changes,
}

impl FromRef<Pages> for Arc<Shared> {
    fn from_ref(pages: &Pages) -> Self {
        Self::clone(&pages.shared)
    }
}

impl FromRef<Pages> for Arc<dyn Instance> {
    fn from_ref(pages: &Pages) -> Self {
        Arc::<Shared>::clone(&pages.shared)
    }
}

impl FromRef<Pages> for Changes {
    fn from_ref(pages: &Pages) -> Self {
        pages.changes.clone()
    }
}

const PAGES: &str = "\
/metrics       for Prometheus
/healthz       200 while serving, 503 while stopping
/stats.json    everything, as JSON
/hotkeys.json  hot keys by pool
/curves.json   miss-ratio curves by pool
/decisions.json  memory moved between pools, and why; /decisions/NUMBER one of them with its curves
/config        settings; PUT changes them
/tenants       who shares the server; PUT and DELETE /tenants/NAME change that
";

/// Answers a browser with a page about the server, and others with a list of paths.
async fn index(headers: HeaderMap) -> Response {
    let is_browser = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    if !is_browser {
        return format!("millpond\n{PAGES}").into_response();
    }
    Page::Server.response()
}

async fn no_such_page(uri: Uri) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("there is no page {}; there are:\n{PAGES}", uri.path()))
}

async fn healthz(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.draining.load(std::sync::atomic::Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics::render(&shared) {
        Ok(text) => {
            give_back_after(text.len());
            ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The pool that a page asks for.
#[derive(Debug, Default, serde::Deserialize)]
struct Asked {
    /// Of `/curves.json` and `/hotkeys.json`: the only pool.
    pool: Option<String>,
    /// Of `/stats.json`: the only pool with its classes and curve; empty: none.
    detailed: Option<String>,
}

async fn stats_json(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Response {
    json(&stats::Document { shared: &shared, detailed: asked.detailed.as_deref() })
}

async fn hot_keys_json(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Response {
    json(&stats::hot_keys(&shared, asked.pool.as_deref()))
}

async fn curves_json(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Response {
    json(&stats::curves(&shared, asked.pool.as_deref()))
}

async fn decision(State(shared): State<Arc<Shared>>, Path(number): Path<u64>) -> Response {
    match control::decision_with_curves(&shared, number) {
        Some(decision) => json(&decision),
        None => {
            let words = format!("there is no decision {number}, or it is not kept any more\n");
            (StatusCode::NOT_FOUND, words).into_response()
        }
    }
}

async fn decisions_json(State(shared): State<Arc<Shared>>, Query(asked): Query<page::Asked>) -> Response {
    json(&control::decisions(&shared, &asked))
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => {
            give_back_after(text.len());
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Returns the memory of a long answer to the system: the allocator would keep it for the next one.
fn give_back_after(bytes: usize) {
    const LONG: usize = 1 << 20;
    if bytes >= LONG {
        base::machine::give_free_heap_back();
    }
}
