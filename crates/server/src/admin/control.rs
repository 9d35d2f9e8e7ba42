//! `/decisions.json`, `/decisions/NUMBER`, and the metrics of the policy that moves memory between
//! pools.

use frontend::control::{ControlStatus, DecidedPool, Decision};
use frontend::shared::Shared;
use millpond::control::{Move, PoolRound};
use page::{Asked, Outcome, PoolOutcome};
use serde_json::{Map, Value, json};

use super::metric::{Metric, counter, gauge, ratio};

/// The state of the controller, the pools in its latest round, and the latest decisions, the latest
/// first, as far as they are asked for.
pub(super) fn decisions(shared: &Shared, asked: &Asked) -> Value {
    let status = shared.control.status();
    let decisions: Vec<Value> = shared
        .control
        .decisions()
        .iter()
        .filter_map(|made| decision(made, asked))
        .take(asked.most())
        .collect();
    let Some(ControlStatus { config, last, figures }) = status else {
        let is_led = shared.control.is_led();
        let why = if is_led { None } else { shared.config().why_control_is_off() };
        return json!({"mode": "off", "led": is_led, "why": why, "decisions": decisions});
    };
    json!({
        "mode": if config.dry_run { "dry-run" } else { "on" },
        // True while an orchestrator decides instead.
        "led": shared.control.is_led(),
        "policy": config.policy,
        // False while memory is free, or what the last moves brought is not known yet.
        "decides": last.as_ref().is_some_and(|last| last.is_decided),
        "idle": last.as_ref().and_then(|last| last.idle).map(|idle| idle.to_string()),
        "next_secs": last.as_ref().map(|last| last.next.as_secs_f64()),
        "memory_bytes": last.as_ref().map(|last| last.memory_bytes),
        "rounds": figures.rounds,
        "moved_bytes": figures.moved_bytes,
        "errors": figures.errors,
        "predictions": figures.predictions,
        "prediction_error": mean_error(&figures),
        "unmet": last.as_ref().map(|last| &last.unmet),
        "pools": last.iter().flat_map(|last| &last.pools).map(pool).collect::<Vec<_>>(),
        "decisions": decisions,
    })
}

/// A decision with the curves that its pools had then; `None` if it is not kept any more.
pub(super) fn decision_with_curves(shared: &Shared, number: u64) -> Option<Value> {
    let made = shared.control.decision(number)?;
    let known = made.pools.iter().filter(|pool| !pool.curve.is_empty());
    let curves: Map<String, Value> = known.map(|pool| (pool.name.clone(), json!(&pool.curve[..]))).collect();
    let mut shown = decision(&made, &Asked::default())?;
    shown["curves"] = Value::Object(curves);
    Some(shown)
}

fn mean_error(figures: &frontend::control::ControlFigures) -> Option<f64> {
    (figures.predictions > 0).then(|| figures.prediction_error_sum / figures.predictions as f64)
}

fn pool(pool: &PoolRound) -> Value {
    json!({
        "name": pool.name,
        "slab_bytes": pool.slab_bytes,
        "before_bytes": pool.before_bytes,
        "granted_bytes": pool.granted_bytes,
        "reads_per_sec": pool.reads_per_sec,
        "promised_per_sec": pool.promised_per_sec,
        "miss_ratio": pool.missed,
        "miss_cost_secs": pool.miss_cost.map(|cost| cost.as_secs_f64()),
        "predicted_miss_ratio": pool.predicted,
        "expected_miss_ratio": pool.expected,
    })
}

/// Returns a decision; `None` if it is not asked for.
fn decision(decision: &Decision, asked: &Asked) -> Option<Value> {
    let wanted = |step: &Move| asked.has_move(step.from.as_deref(), step.to.as_deref(), &step.reason);
    let outcome = decision.pools.iter().map(|pool| PoolOutcome {
        reads_per_sec: pool.reads_per_sec,
        missed: pool.missed,
        expected: pool.expected,
        missed_since: pool.missed_since,
    });
    let mut shown = json!({
        "number": decision.number,
        "at_secs": decision.at_secs,
        "policy": decision.policy,
        "dry_run": decision.is_dry_run,
        "memory_bytes": decision.memory_bytes,
        "moves": asked.moves(&decision.moves, wanted)?.into_iter().map(step).collect::<Vec<_>>(),
        "moves_count": decision.moves_count,
        "moved_bytes": decision.moved_bytes,
        "outcome": Outcome::of(outcome),
        "pools_count": decision.pools_count,
    });
    if !asked.brief {
        shown["pools"] = decision.pools.iter().map(decided).collect();
    }
    Some(shown)
}

fn step(step: &Move) -> Value {
    json!({
        "from": step.from,
        "to": step.to,
        "bytes": step.bytes,
        "saved_misses_per_sec": step.saved_misses_per_sec,
        "reason": step.reason,
    })
}

fn decided(pool: &DecidedPool) -> Value {
    json!({
        "name": pool.name,
        "before_bytes": pool.before_bytes,
        "granted_bytes": pool.granted_bytes,
        "miss_ratio": pool.missed,
        "expected_miss_ratio": pool.expected,
        "miss_ratio_since": pool.missed_since,
        "reads_per_sec": pool.reads_per_sec,
    })
}

/// The metrics; without a controller, and without orchestrators, they have no lines.
pub(super) fn metrics(shared: &Shared) -> Vec<Metric> {
    let status = shared.control.status();
    let one = |value: fn(&ControlStatus) -> u64| {
        status.iter().map(|status| (vec![], value(status))).collect::<Vec<_>>()
    };
    let pools = || status.iter().filter_map(|status| status.last.as_ref()).flat_map(|last| &last.pools);
    let per_pool = |value: fn(&PoolRound) -> Option<f64>| {
        pools().filter_map(|pool| Some((vec![("pool", pool.name.clone())], value(pool)?))).collect()
    };
    let error = status.iter().filter_map(|status| Some((vec![], mean_error(&status.figures)?)));
    let is_in_fleet = !shared.config().fleet.orchestrators.is_empty();
    let led = is_in_fleet.then(|| (vec![], u64::from(shared.control.is_led())));
    vec![
        gauge(
            "millpond_control_led",
            "1 while an orchestrator sets the memory of the server.",
            led.into_iter().collect(),
        ),
        counter(
            "millpond_control_rounds",
            "Rounds in which a policy looked at the memory of pools.",
            one(|status| status.figures.rounds),
        ),
        counter(
            "millpond_control_decisions",
            "Rounds that moved memory between pools, or in a dry run would have.",
            one(|status| status.figures.decisions),
        ),
        counter(
            "millpond_control_moved_bytes",
            "Memory that was granted to another pool.",
            one(|status| status.figures.moved_bytes),
        ),
        counter("millpond_control_errors", "Rounds that failed.", one(|status| status.figures.errors)),
        gauge(
            "millpond_control_unmet",
            "Bounds that the latest round could not keep.",
            one(|status| status.last.as_ref().map_or(0, |last| last.unmet.len() as u64)),
        ),
        ratio(
            "millpond_control_prediction_error",
            "Mean difference of predicted and measured miss ratios, over all rounds.",
            error.collect(),
        ),
        ratio(
            "millpond_pool_measured_miss_ratio",
            "Misses per read of a pool between the two latest rounds.",
            per_pool(|pool| pool.missed),
        ),
        ratio(
            "millpond_pool_expected_miss_ratio",
            "Misses per read that are predicted for the present grant of a pool.",
            per_pool(|pool| pool.expected),
        ),
    ]
}
