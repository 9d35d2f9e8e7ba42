//! HTTP for operators: a page at `/`, `/healthz`, `/fleet.json`, `/decisions.json`,
//! `/decisions/NUMBER`, `/what-if`, `/curve`, `/curves.json`, `/metrics`, and
//! `POST /forget/NAME?node=NODE`.
//!
//! If there is a token, each request must show it, but for `/healthz` and the page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use control::patient::{Bounded, Patient};
use page::{Asked, Outcome, Page, PoolOutcome};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::ask::{PoolCurve, PoolName, Unanswered};
use crate::decide::{DecidedPool, Move};
use crate::exchange::MemberStatus;
use crate::metrics;
use crate::shared::{LONGEST_SAVE, Shared};
use crate::told::Told;

/// Connections of operators at the same time: others wait, so that agents find room.
pub(crate) const MOST_CONNECTIONS: usize = 64;

/// The connections of operators.
struct Operators(Bounded);

impl axum::serve::Listener for Operators {
    type Io = Patient<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        self.0.accept().await
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// The fleet as it stands.
#[derive(Debug, Serialize)]
struct Status {
    term: u64,
    policy: String,
    /// True if this orchestrator decides.
    is_leader: bool,
    /// If there are several orchestrators: the address at which agents register with the leader.
    leader: Option<String>,
    /// True if another orchestrator leads agents, so that nothing is decided.
    is_superseded: bool,
    /// Predicted miss ratios that were compared with measured ones, and the mean difference.
    predictions: u64,
    prediction_error: Option<f64>,
    nodes: Vec<NodeStatus>,
}

#[derive(Debug, Serialize)]
struct NodeStatus {
    name: String,
    /// The memory that instances may have together.
    memory_bytes: u64,
    /// The most that they can have at this moment.
    held_bytes: u64,
    /// True if a pool has filled what it has, so that the policy decides.
    is_short: bool,
    /// The reason why nothing moves, in words; `None` if memory does.
    idle: Option<String>,
    unmet: Vec<String>,
    instances: Vec<InstanceStatus>,
    pools: Vec<DecidedPool>,
}

#[derive(Debug, Serialize)]
struct InstanceStatus {
    name: String,
    kind: String,
    version: String,
    address: String,
    is_leased: bool,
    limit_bytes: u64,
    used_bytes: u64,
    held_bytes: u64,
    target_bytes: Option<u64>,
}

/// Serves until it is stopped.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let router = Router::new()
        .route("/fleet.json", get(fleet))
        .route("/decisions.json", get(decisions))
        .route("/what-if", get(what_if))
        .route("/decisions/{number}", get(decision))
        .route("/curve", get(curve))
        .route("/curves.json", get(curves))
        .route("/metrics", get(metrics))
        .route("/forget/{name}", post(forget))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), check))
        .route("/", get(async || Page::Fleet.response()))
        .merge(page::files())
        .route("/healthz", get(async || "ok\n"))
        .with_state(shared);
    let until = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let listener = Operators(Bounded::new(listener, MOST_CONNECTIONS));
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(until).await {
        tracing::error!(%error, "The figures of the orchestrator cannot be read any more.");
    }
}

async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // Without a token, no web page shall ask through a browser of this machine.
    let is_foreign = headers.contains_key(header::ORIGIN) || !text(header::HOST).is_none_or(is_local);
    if is_foreign && !shared.access.has_token() {
        let words = "Requests of web pages, and to other names than localhost, need a token.\n";
        return (StatusCode::FORBIDDEN, words).into_response();
    }
    if shared.access.lets_in(headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes)) {
        return next.run(request).await;
    }
    let words = "Show the token: `Authorization: Bearer TOKEN`.\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], words).into_response()
}

/// Returns whether a `Host` header is an address, or this machine's own name for itself.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

async fn fleet(State(shared): State<Arc<Shared>>) -> Response {
    let members = shared.members();
    let (latest, figures) = {
        let history = shared.history();
        (history.latest.clone(), history.figures)
    };
    let (leader, is_superseded, held) = {
        let fleet = shared.fleet();
        let held = fleet.nodes().into_iter().map(|(node, sums)| (node.to_owned(), sums));
        (fleet.leader(), fleet.superseded().is_some(), held.collect::<Vec<_>>())
    };
    let nodes = held.into_iter().map(|(name, (memory_bytes, held_bytes))| {
        let decided = latest.iter().find(|decided| decided.node == name);
        let here = members.iter().filter(|member| member.instance.node == name);
        NodeStatus {
            memory_bytes,
            held_bytes,
            is_short: decided.is_some_and(|decided| decided.is_short),
            idle: decided.and_then(|decided| decided.idle).map(|idle| idle.to_string()),
            unmet: decided.map(|decided| decided.unmet.clone()).unwrap_or_default(),
            instances: here.map(instance).collect(),
            pools: decided.map(|decided| decided.pools.clone()).unwrap_or_default(),
            name,
        }
    });
    let compared = figures.predictions;
    let status = Status {
        term: leader.term,
        policy: shared.policy.clone(),
        is_leader: shared.leads(),
        leader: shared.leader(),
        is_superseded,
        predictions: compared,
        prediction_error: (compared > 0).then(|| figures.prediction_error_sum / compared as f64),
        nodes: nodes.collect(),
    };
    Json(status).into_response()
}

fn instance(member: &MemberStatus) -> InstanceStatus {
    InstanceStatus {
        name: member.instance.name.clone(),
        kind: member.instance.kind.clone(),
        version: member.instance.version.clone(),
        address: member.address.clone(),
        is_leased: member.is_leased,
        limit_bytes: member.limit_bytes,
        used_bytes: member.used_bytes,
        held_bytes: member.held_bytes,
        target_bytes: member.target_bytes,
    }
}

/// A decision as it is listed.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    number: u64,
    at_secs: u32,
    policy: &'a str,
    node: &'a str,
    memory_bytes: u64,
    /// The moves that are asked for, of the largest of `moves_count`, which move `moved_bytes`.
    moves: Vec<&'a Move>,
    moves_count: usize,
    moved_bytes: u64,
    outcome: Outcome,
    /// Those that change most, of `pools_count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pools: Option<&'a [DecidedPool]>,
    pools_count: usize,
    unmet: &'a [String],
}

impl<'a> Listed<'a> {
    /// `None`: the decision is not asked for.
    fn of(told: &'a Told, asked: &Asked) -> Option<Self> {
        let Told { number, at_secs, policy, decided, totals, .. } = told;
        if asked.node.as_ref().is_some_and(|node| *node != decided.node) {
            return None;
        }
        let wanted = |step: &Move| asked.has_move(step.from.as_deref(), step.to.as_deref(), &step.reason);
        let outcome = decided.pools.iter().map(|pool| PoolOutcome {
            reads_per_sec: pool.reads_per_sec,
            missed: pool.missed,
            expected: pool.expected,
            missed_since: pool.missed_since,
        });
        Some(Self {
            number: *number,
            at_secs: *at_secs,
            policy,
            node: &decided.node,
            memory_bytes: decided.memory_bytes,
            moves: asked.moves(&decided.moves, wanted)?,
            moves_count: totals.moves,
            moved_bytes: totals.moved_bytes,
            outcome: Outcome::of(outcome),
            pools: (!asked.brief).then_some(&decided.pools),
            pools_count: totals.pools,
            unmet: &decided.unmet,
        })
    }
}

async fn decisions(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Response {
    let kept = shared.history().decisions();
    let asked_for = kept.iter().filter_map(|told| Listed::of(told, &asked)).take(asked.most());
    Json(asked_for.collect::<Vec<_>>()).into_response()
}

/// A decision with the curves that its pools had then: sizes in bytes, with the miss ratio at each.
#[derive(Debug, Serialize)]
struct WithCurves<'a> {
    #[serde(flatten)]
    listed: Listed<'a>,
    curves: BTreeMap<&'a str, Vec<(u64, f64)>>,
}

async fn decision(State(shared): State<Arc<Shared>>, Path(number): Path<u64>) -> Response {
    let told = shared.history().decision(number);
    let listed = told.as_ref().and_then(|told| Some((told, Listed::of(told, &Asked::default())?)));
    let Some((told, listed)) = listed else {
        let words = format!("There is no decision {number}, or it is not kept any more.\n");
        return (StatusCode::NOT_FOUND, words).into_response();
    };
    let curves = told.decided.pools.iter().filter_map(|pool| {
        let points = pool.curve.as_ref()?.points().iter();
        Some((&*pool.name, points.map(|point| (point.size, point.miss_ratio)).collect()))
    });
    Json(WithCurves { listed, curves: curves.collect() }).into_response()
}

/// The pool and the grant to ask about.
#[derive(Debug, Deserialize)]
struct Question {
    node: Option<String>,
    pool: String,
    bytes: u64,
}

async fn what_if(State(shared): State<Arc<Shared>>, Query(question): Query<Question>) -> Response {
    let asked = PoolName { node: question.node.as_deref(), pool: &question.pool };
    let answer = shared.fleet().what_if(asked, question.bytes, shared.now());
    answer.map_or_else(|reason| unanswered(&reason), |answer| Json(answer).into_response())
}

/// The pool whose curve is asked for.
#[derive(Debug, Deserialize)]
struct Named {
    node: Option<String>,
    pool: String,
}

async fn curve(State(shared): State<Arc<Shared>>, Query(Named { node, pool }): Query<Named>) -> Response {
    let asked = PoolName { node: node.as_deref(), pool: &pool };
    let learnt = shared.fleet().curve(asked, shared.now());
    learnt.map_or_else(|reason| unanswered(&reason), |learnt| Json(learnt.drawn(usize::MAX)).into_response())
}

/// Points of a curve where all are asked for.
const SOME_POINTS: usize = 48;

async fn curves(State(shared): State<Arc<Shared>>) -> Response {
    let learnt = shared.fleet().curves(shared.now());
    let curves: Vec<PoolCurve> = learnt.into_iter().map(|learnt| learnt.drawn(SOME_POINTS)).collect();
    Json(curves).into_response()
}

fn unanswered(reason: &Unanswered) -> Response {
    let status = match reason {
        Unanswered::Unknown(_) | Unanswered::NotLearnt(_) => StatusCode::NOT_FOUND,
        Unanswered::Ambiguous { .. } => StatusCode::BAD_REQUEST,
    };
    (status, format!("{reason}\n")).into_response()
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::write(&shared)).into_response()
}

/// The node of the instance to forget.
#[derive(Debug, Deserialize)]
struct OfNode {
    node: Option<String>,
}

/// A person says that an instance has ended, which nobody else can know.
async fn forget(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Query(OfNode { node }): Query<OfNode>,
) -> Response {
    if !shared.leads() {
        let leader = shared.leader().unwrap_or_else(|| "none, at this moment".to_owned());
        let words =
            format!("This orchestrator does not lead; the one that agents register with is {leader}.\n");
        return (StatusCode::CONFLICT, words).into_response();
    }
    let node = match node_of(&shared.members(), &name, node.as_deref()) {
        Ok(node) => node,
        Err(refusal) => return refusal.into_response(),
    };
    let (forgotten, outgoing) = shared.fleet().forget_instance(&node, &name, shared.now());
    let ticket = shared.carry_out(outgoing);
    if forgotten == 0 {
        let words = format!("{name:?} answers, or did within the lease: it has not ended.\n");
        return (StatusCode::CONFLICT, words).into_response();
    }
    tracing::info!(node, name, "An instance is forgotten, as an operator said.");
    if let Some(ticket) = ticket
        && !tokio::time::timeout(LONGEST_SAVE, ticket.saved()).await.unwrap_or(false)
    {
        let words = format!(
            "{name:?} is forgotten, but that is not saved yet: after a restart the orchestrator may know it again.\n"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    }
    "ok\n".into_response()
}

/// Returns the node of an instance that may have ended. One of its name on another node may only
/// hang, and use its memory, while the lease of the one that has ended still runs.
///
/// # Errors
/// The status and its words: no instance has the name, or instances of several nodes do.
fn node_of(members: &[MemberStatus], name: &str, node: Option<&str>) -> Result<String, (StatusCode, String)> {
    let is_asked = |member: &&MemberStatus| {
        member.instance.name == name && node.is_none_or(|node| node == member.instance.node)
    };
    let nodes: BTreeSet<&str> =
        members.iter().filter(is_asked).map(|member| &*member.instance.node).collect();
    let mut each = nodes.iter();
    match (each.next(), each.next()) {
        (Some(node), None) => Ok((*node).to_owned()),
        (None, _) => Err((StatusCode::NOT_FOUND, format!("There is no instance {name:?}.\n"))),
        _ => {
            let nodes = nodes.into_iter().collect::<Vec<_>>().join(", ");
            let words = format!("The name {name:?} is ambiguous: nodes {nodes} have such an instance.\n");
            Err((StatusCode::BAD_REQUEST, words))
        }
    }
}

#[cfg(test)]
mod tests;
