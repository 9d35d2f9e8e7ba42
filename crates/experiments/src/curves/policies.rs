//! Predictions of the misses that a live pool would have with less memory and with more, by the
//! curve of LRU and by that of its own policy, beside what it has there.

use std::collections::HashSet;

use curve::MissRatioCurve;
use millpond::ByteSize;
use millpond::strategy::Strategy;
use millpond::watch::{CurveConfig, PoolCurve};
use simulate::table::Table;

use crate::cliffhanger::engine::Replay;
use crate::cliffhanger::splits::{MEMORY, PER_SECOND, TRACES, unsized_requests, value_bytes};
use crate::report::{Criterion, Report};
use crate::{Context, Experiment, OURS};

/// Curves of the policy in use.
pub(super) const X42: Experiment = Experiment {
    name: "X42",
    paper: OURS,
    figure: "beyond SHARDS, of other policies than LRU",
    title: "misses of live pools with less memory and more, as predicted by curves and as they are",
    run,
};

const POLICIES: [&str; 4] = ["s3-fifo", "2q", "sieve", "w-tinylfu"];
/// Parts of a trace's keys that memory holds, in percent.
const SHARES: [u64; 2] = [10, 30];
/// Sizes that are predicted, in times of the memory.
const TIMES: [f64; 5] = [0.5, 0.8, 1.25, 1.5, 2.0];
/// Two loops, of more keys than memory holds, and what hides them: keys that come once.
const LOOPS: [(&str, u64); 2] = [("a loop of 20,000 keys", 0), ("the same, every second key new", 1)];
/// Requests that are replayed of a trace.
const REQUESTS: usize = 400_000;
/// The seconds between two looks at a curve.
const LOOK_SECS: usize = 2;

/// The misses per request of the second half, and the curve at its end.
fn replay(keys: &[u64], value: u32, memory: ByteSize, policy: &str) -> Result<(f64, PoolCurve, u64), String> {
    let replay = Replay::new(memory, policy, Strategy::default())?;
    // As a server has it, but for the rate: the traces are short.
    let curve = CurveConfig { keys: 2_048, rate: 1.0 / 16.0, ..CurveConfig::default() };
    let failed = |error: millpond::Error| error.to_string();
    replay.cache.set_curve(replay.pool, Some(curve)).map_err(failed)?;
    let (mut misses, half) = (0_u64, keys.len() / 2);
    for (i, &key) in keys.iter().enumerate() {
        misses += u64::from(!replay.request((key, value)) && i >= half);
        if (i + 1) % PER_SECOND == 0 {
            replay.maintain_after(1);
        }
        if (i + 1) % (LOOK_SECS * PER_SECOND) == 0 {
            let _ = replay.cache.curve(replay.pool).map_err(failed)?;
        }
    }
    let learnt = replay.cache.curve(replay.pool).map_err(failed)?.ok_or("it is not learnt")?;
    let bytes = (learnt.memory_bytes as f64 / learnt.memory_per_byte) as u64;
    Ok((misses as f64 / (keys.len() - half).max(1) as f64, learnt, bytes))
}

/// The mean distance of predictions by this curve from what came.
fn error(curve: &MissRatioCurve, size: f64, missed: f64, came: &[f64]) -> f64 {
    let predicted =
        |times: f64| (missed + curve.miss_ratio(times * size) - curve.miss_ratio(size)).clamp(0.0, 1.0);
    TIMES.iter().zip(came).map(|(&times, &came)| (predicted(times) - came).abs()).sum::<f64>()
        / TIMES.len() as f64
}

/// The errors by LRU's curve, by that at the size at which it misses as much as the pool, and by
/// the policy's.
fn errors(keys: &[u64], value: u32, policy: &str) -> Result<[f64; 3], String> {
    let (missed, learnt, bytes) = replay(keys, value, MEMORY, policy)?;
    let came = TIMES.map(|times| {
        let memory = ByteSize::new((times * MEMORY.as_u64() as f64) as u64);
        replay(keys, value, memory, policy).map(|(missed, ..)| missed)
    });
    let came: Vec<f64> = came.into_iter().collect::<Result<_, _>>()?;
    let size = bytes as f64;
    let of_lru = &learnt.curve;
    let alike = if (of_lru.miss_ratio(size) - missed).abs() <= 0.01 {
        size
    } else {
        of_lru.size_for(missed).map_or(4.0 * size, |alike| alike as f64).clamp(size / 4.0, 4.0 * size)
    };
    let of_policy = learnt.of_policy.as_ref().unwrap_or(of_lru);
    Ok([(of_lru, size), (of_lru, alike), (of_policy, size)]
        .map(|(curve, size)| error(curve, size, missed, &came)))
}

fn keys_of(name: &str, context: &Context) -> Result<Vec<u64>, String> {
    const KEYS: u64 = 20_000;
    let Some(&(_, news)) = LOOPS.iter().find(|(of_loop, _)| *of_loop == name) else {
        let mut keys = unsized_requests(name, context)?;
        keys.truncate(REQUESTS);
        return Ok(keys);
    };
    let key = |i: u64| if i.is_multiple_of(news + 1) { (i / (news + 1)) % KEYS } else { KEYS + i };
    Ok((0..REQUESTS as u64).map(|i| base::hash::mix64(key(i))).collect())
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let names: Vec<&str> = TRACES.into_iter().chain(LOOPS.map(|(name, _)| name)).collect();
    for (at, policy) in POLICIES.into_iter().enumerate() {
        let mut table = Table::new(
            format!(
                "{policy}: mean error of the miss ratios that were predicted for {TIMES:?} times the memory"
            ),
            ["trace", "keys held", "LRU's curve", "scaled to what is missed", "the policy's"],
        );
        let mut all: Vec<[f64; 3]> = Vec::new();
        for (done, name) in names.iter().enumerate() {
            let keys = match keys_of(name, context) {
                Ok(keys) => keys,
                Err(error) => {
                    report.note(format!("skipped: {name}: {error}"));
                    continue;
                }
            };
            let distinct = keys.iter().collect::<HashSet<_>>().len() as u64;
            for share in SHARES {
                match errors(&keys, value_bytes(distinct * share / 100), policy) {
                    Ok(errors) => {
                        let cells = errors.map(|error| format!("{error:.4}"));
                        table.row([(*name).to_owned(), format!("{share} %")].into_iter().chain(cells));
                        all.push(errors);
                    }
                    Err(error) => {
                        report.note(format!("skipped: {name}, {share} %: {error}"));
                    }
                }
            }
            let part = (at * names.len() + done + 1) as f64 / (POLICIES.len() * names.len()) as f64;
            context.progress(part);
        }
        report.table(table);
        let mean = |at: usize| all.iter().map(|errors| errors[at]).sum::<f64>() / all.len().max(1) as f64;
        let worst = all.iter().map(|errors| errors[2]).fold(0.0, f64::max);
        for (at, what) in ["LRU's curve", "LRU's, scaled", "its own curve"].into_iter().enumerate() {
            let criterion =
                Criterion::number(format!("{policy}: mean error by {what}"), mean(at)).decimals(4);
            report.check(if at == 2 { criterion.at_most(0.02) } else { criterion });
        }
        report
            .check(Criterion::number(format!("{policy}: largest error by its own curve"), worst).decimals(4));
    }
    report
}
