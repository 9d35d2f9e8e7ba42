//! X41: "how much memory for this hit ratio?", answered by the curve of each shared trace and then
//! by the engine.

use std::path::Path;

use curve::{Correction, Unit};
use std::sync::Arc;
use workload::curves::{Answer, CurveOptions, Method, Source, Tried, Writes, answer, learn, traces_in};
use workload::engine_memory::EngineMemory;
use workload::replay::ReplayOptions;

use base::ByteSize;
use evict::PolicyKind;
use simulate::table::Table;

use crate::report::{Criterion, Report};
use crate::{Context, Experiment, OURS, median};

/// The memory that is told is the memory that is needed.
pub(super) const X41: Experiment = Experiment {
    name: "X41",
    paper: OURS,
    figure: "miss-ratio curves",
    title: "the memory that is told for a hit ratio is what the engine needs for it, within a point",
    run,
};

/// At most this many requests of each trace.
const REQUESTS: u64 = 1_000_000;
/// All keys of a trace take about this much, whatever their number: enough for several engines to
/// be told apart.
const FOOTPRINT: u64 = 192 << 20;
/// The share of all hits that there are which is asked for.
const OF_ALL_HITS: f64 = 0.9;

/// The answer for a trace and a policy; `None` where nothing is hit.
fn ask(trace: &Path, policy: PolicyKind) -> anyhow::Result<Option<Answer>> {
    let mut source = Source { limit: Some(REQUESTS), ..Source::default() };
    let options = |unit| CurveOptions {
        method: Method::Shards,
        policy,
        unit: Some(unit),
        rate: None,
        keys: curve::shards::DEFAULT_KEYS,
        max_size: None,
        ticks: 1,
        correction: Correction::default(),
        at: None,
    };
    let by_items = learn(trace, &source, &options(Unit::Items))?;
    let keys = by_items.curve.max_size().max(1);
    source.value_size = (FOOTPRINT / keys).clamp(100, 1 << 20) as u32;
    source.engine = Some(Arc::new(EngineMemory::ask(policy, &source.examples(trace)?)?));
    let report = learn(trace, &source, &options(Unit::Bytes))?;
    let most = 1.0 - report.curve.miss_ratio(report.curve.max_size() as f64);
    if most < 0.05 {
        return Ok(None);
    }
    let replayed = ReplayOptions {
        policy,
        value_size: source.value_size,
        limit: Some(REQUESTS),
        ..ReplayOptions::default()
    };
    let most_tried = ByteSize::gib(2);
    answer(&report.curve, trace, OF_ALL_HITS * most, Writes::Count, &replayed, most_tried).map(Some)
}

/// Returns whether no smaller memory than `memory` is an answer: engines cannot be smaller, or one
/// that is smaller by no more than the tolerance of answers, a mebibyte or 2 %, hits too little.
fn is_nearest(answer: &Answer, memory: u64) -> bool {
    let next = memory - (memory / 50).max(1 << 20).min(memory);
    let hits_too_little = |tried: &Tried| tried.hit_ratio < answer.hits && tried.memory_bytes >= next;
    memory <= 16 << 20 || answer.tried.iter().any(hits_too_little)
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let Some(folder) = context.traces() else {
        report.note("There are no traces here, so nothing was run; --traces names their folder.");
        return report;
    };
    let traces: Vec<_> = traces_in(&folder).unwrap_or_default();
    let traces: Vec<_> = traces.iter().filter(|path| !path.to_string_lossy().contains(".lis")).collect();
    let mut table = Table::new(
        "hits asked for; memory by the curve, and what the engine hits with it; the answer, and its hits",
        ["trace", "hits", "by the curve", "hits with it", "answer", "hits with it", "tried"],
    );
    let (mut off, mut first_off, mut known) = (0.0_f64, Vec::new(), 0);
    for (done, trace) in traces.iter().enumerate() {
        context.progress(done as f64 / traces.len() as f64);
        let answer = match ask(trace, PolicyKind::Lru { refresh_secs: 0 }) {
            Ok(Some(answer)) => answer,
            Ok(None) => continue,
            Err(error) => {
                report.note(format!("skipped: {error:#}"));
                continue;
            }
        };
        let (Some(first), Some(memory)) = (answer.tried.first().copied(), answer.memory_bytes) else {
            continue;
        };
        let last =
            answer.tried.iter().rev().find(|tried| tried.memory_bytes == memory).copied().unwrap_or(first);
        let distance = if is_nearest(&answer, memory) {
            (answer.hits - last.hit_ratio).max(0.0)
        } else {
            (last.hit_ratio - answer.hits).abs()
        };
        off = off.max(100.0 * distance);
        first_off.push(100.0 * (first.hit_ratio - answer.hits).abs());
        known += 1;
        let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table.row([
            name.trim_end_matches(".csv.zst").to_owned(),
            format!("{:.1} %", 100.0 * answer.hits),
            ByteSize::new(first.memory_bytes).to_string(),
            format!("{:.1} %", 100.0 * first.hit_ratio),
            ByteSize::new(memory).to_string(),
            format!("{:.1} %", 100.0 * last.hit_ratio),
            answer.tried.len().to_string(),
        ]);
    }
    report
        .check(Criterion::number("traces with an answer", f64::from(known)).decimals(0).at_least(1.0))
        .check(
            Criterion::number("the answer's hits, off what was asked for, at most", off)
                .decimals(2)
                .unit("points")
                .at_most(1.0),
        );
    if !first_off.is_empty() {
        report.check(
            Criterion::number("the curve's own answer, off in the median", median(first_off))
                .decimals(2)
                .unit("points"),
        );
    }
    report.table(table);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_nearest_if_the_next_smaller_engine_hits_too_little() {
        let tried = |mib: u64, hit_ratio| Tried { memory_bytes: mib << 20, hit_ratio };
        let is_nearest = |memory: u64, tried: Vec<Tried>| {
            let memory_bytes = Some(memory << 20);
            let (policy, note) = ("lru:0".to_owned(), String::new());
            let answer = Answer {
                hits: 0.85,
                policy,
                memory_bytes,
                most_hits: 0.9,
                by_curve_bytes: None,
                tried,
                note,
            };
            is_nearest(&answer, memory << 20)
        };
        assert!(is_nearest(25, vec![tried(26, 0.87), tried(24, 0.83), tried(25, 0.87)]));
        assert!(is_nearest(200, vec![tried(196, 0.83), tried(200, 0.87)]));
        assert!(!is_nearest(25, vec![tried(23, 0.83), tried(25, 0.87)]), "24 MiB might be enough");
        assert!(!is_nearest(25, vec![tried(24, 0.86), tried(25, 0.87)]), "24 MiB were enough");
        assert!(!is_nearest(200, vec![tried(190, 0.83), tried(200, 0.87)]));
        assert!(is_nearest(16, vec![tried(16, 0.9)]), "engines have no less");
    }
}
