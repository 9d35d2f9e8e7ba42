//! The figures of the orchestrator for Prometheus (docs/operations.md).

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::shared::Shared;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Node {
    node: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Instance {
    node: String,
    instance: String,
}

type Gauges<L> = Family<L, Gauge<i64>>;

fn gauge(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Writes all metrics.
pub(crate) fn write(shared: &Shared) -> String {
    let mut registry = Registry::with_prefix("millpond_fleet");
    register_memory(&mut registry, shared);
    register_counts(&mut registry, shared);
    let mut written = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut written, &registry);
    written
}

fn register_memory(registry: &mut Registry, shared: &Shared) {
    let members = shared.members();
    let leased = members.iter().filter(|member| member.is_leased).count();
    registry.register("instances", "Instances that are known", ConstGauge::new(members.len() as i64));
    registry.register("leased_instances", "Instances that answer", ConstGauge::new(leased as i64));
    let (memory, held) = (Gauges::<Node>::default(), Gauges::<Node>::default());
    let limit = Gauges::<Instance>::default();
    let (used, can_have) = (Gauges::<Instance>::default(), Gauges::<Instance>::default());
    let unmet = Gauges::<Node>::default();
    for decided in &shared.history().latest {
        let node = Node { node: decided.node.clone() };
        unmet.get_or_create(&node).set(gauge(decided.unmet.len() as u64));
    }
    let fleet = shared.fleet();
    for (node, (may, can)) in fleet.nodes() {
        let node = Node { node: node.to_owned() };
        memory.get_or_create(&node).set(gauge(may));
        held.get_or_create(&node).set(gauge(can));
    }
    for member in &members {
        let labels = Instance { node: member.instance.node.clone(), instance: member.instance.name.clone() };
        limit.get_or_create(&labels).set(gauge(member.limit_bytes));
        used.get_or_create(&labels).set(gauge(member.used_bytes));
        can_have.get_or_create(&labels).set(gauge(member.held_bytes));
    }
    registry.register("unmet", "Promises and bounds that the latest round could not keep", unmet);
    let leads = ConstGauge::new(i64::from(shared.leads()));
    registry.register("is_leader", "1 if this orchestrator decides", leads);
    let term = ConstGauge::new(gauge(fleet.leader().term));
    registry.register("term", "Term in which this orchestrator leads, 0 if it does not", term);
    let superseded = ConstGauge::new(i64::from(fleet.superseded().is_some()));
    registry.register("superseded", "1 if another orchestrator leads agents", superseded);
    let bytes = || Unit::Bytes;
    registry.register_with_unit("node_memory", "Memory that instances of a node may have", bytes(), memory);
    registry.register_with_unit(
        "node_held",
        "Memory that instances of a node can have at most",
        bytes(),
        held,
    );
    registry.register_with_unit("instance_limit", "Limit of an instance", bytes(), limit);
    registry.register_with_unit("instance_used", "Memory that an instance uses", bytes(), used);
    registry.register_with_unit(
        "instance_held",
        "Memory that an instance can have at most",
        bytes(),
        can_have,
    );
}

fn register_counts(registry: &mut Registry, shared: &Shared) {
    let figures = shared.history().figures;
    let failures = *shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
    let counters = [
        ("rounds", "Rounds with instances", figures.rounds),
        ("decisions", "Decisions that moved memory", figures.decisions),
        ("predictions", "Predicted miss ratios that were compared with measured ones", figures.predictions),
        ("silent_calls", "Calls to agents without an answer in time", failures.silent),
        ("refused_calls", "Calls to agents at whose address nobody listens", failures.refused),
        ("failed_saves", "Failed attempts to save the state", failures.unsaved),
    ];
    for (name, help, count) in counters {
        registry.register(name, help, ConstCounter::new(count));
    }
    let moved = ConstCounter::new(figures.moved_bytes);
    registry.register_with_unit("moved", "Memory that was moved", Unit::Bytes, moved);
    let secs = shared.compute_nanos.load(Ordering::Relaxed) as f64 / 1e9;
    let (secs, help) = (ConstCounter::new(secs), "Processor time of rounds, without that of messages");
    registry.register_with_unit("compute", help, Unit::Seconds, secs);
    let help = "Sum of the differences between predicted and measured miss ratios";
    registry.register("prediction_error", help, ConstCounter::new(figures.prediction_error_sum));
}
