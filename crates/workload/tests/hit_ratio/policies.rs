//! Every policy of `evict`, driven as a plain value, beside its plain simulator.
//!
//! The traces without sizes, or their first [`MOST_REQUESTS`] requests, at 1, 10 and 25 % of the
//! keys among those, as far as that is [`LEAST_KEYS`] or more: LRU, 2Q, S3-FIFO and SIEVE must be
//! within half a point of the plain ones. What the others are allowed, and why:
//!
//! - LRU with an insertion point: 1.25 points. While the cache fills up, the order of what was put
//!   below the top is kept by generation only; it shows in the shortest traces (of LIRS), elsewhere
//!   the difference is below 0.4.
//! - LRU in two partitions, which are not split here: 1 point, in the shortest traces as well. Hits
//!   while the cache fills up use up its generations, so that its order is coarser than LRU's. In
//!   the traces that are not LIRS's the difference is below 0.15.
//! - ARC: 1 point. Its ghosts are parts of hashes that are forgotten by the 64th, and the target
//!   moves an eviction later than in the paper.
//! - TinyLFU and W-TinyLFU: three quarters of a point in the mean over all traces but those of
//!   loops and of few keys, and none of these may be 3 points worse. The plain ones count
//!   frequencies exactly; which of several keys of the same frequency stays is decided by what else
//!   fell on their counters, and in a loop all keys have the same frequency.
//!
//! And a generated trace of Zipf-distributed keys with scans, which is always there, whose hit
//! ratios are pinned.

use std::collections::HashSet;
use std::path::Path;

use base::rng::{RngExt, seeded};
use millpond::PolicyKind;
use millpond_workload::reference::{Simulator, key_id, simulator};
use millpond_workload::trace::TraceReader;
use rand_distr::{Distribution, Zipf};

use super::driver::Driven;
use super::{TOLERANCE_POINTS, traces, traces_without_sizes};

/// Requests of a trace that are replayed.
const MOST_REQUESTS: usize = 60_000;
/// Smaller caches are not compared: there, a single place is a point.
const LEAST_KEYS: u64 = 64;

fn most_requests() -> usize {
    std::env::var("MILLPOND_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(MOST_REQUESTS)
}

/// The keys of the first requests of a trace.
fn keys_of(file: &Path, most: usize) -> Vec<u64> {
    let mut reader = TraceReader::open(file).expect("an open trace");
    let mut keys = Vec::new();
    while keys.len() < most
        && let Some(request) = reader.next_request().expect("a readable trace")
    {
        keys.push(key_id(request.key));
    }
    keys
}

/// Zipf-distributed keys, with a scan of a twentieth as many new ones now and then.
fn generated(seed: u64, requests: usize, keys: u64, alpha: f64) -> Vec<u64> {
    let mut rng = seeded(seed);
    let zipf = Zipf::new(keys as f64, alpha).expect("valid parameters");
    let mut scanned = 1 << 40;
    let mut all = Vec::with_capacity(requests);
    while all.len() < requests {
        if rng.random_range(0..5_000) == 0 {
            all.extend(scanned..scanned + keys / 20);
            scanned += keys / 20;
        }
        all.push(zipf.sample(&mut rng) as u64);
    }
    all.truncate(requests);
    all
}

fn hit_ratio(cache: &mut dyn Simulator, keys: &[u64]) -> f64 {
    let hits = keys.iter().filter(|key| cache.access(**key, 1)).count();
    hits as f64 / keys.len() as f64
}

/// The hit ratios of the policy and of its plain simulator, and the bytes per key that the policy
/// takes.
fn both(kind: PolicyKind, capacity: u64, keys: &[u64]) -> (f64, f64, f64) {
    let mut driven = Driven::new(kind, capacity);
    let ours = hit_ratio(&mut driven, keys);
    driven.validate();
    let bytes = driven.bytes() as f64 / driven.len().max(1) as f64;
    (ours, hit_ratio(&mut *simulator(kind, capacity).1, keys), bytes)
}

/// All policies but LRU, which with a refresh time is meant to differ.
fn kinds() -> Vec<PolicyKind> {
    PolicyKind::ALL
        .into_iter()
        .map(|kind| if kind == PolicyKind::LRU { PolicyKind::Lru { refresh_secs: 0 } } else { kind })
        .collect()
}

/// The tolerance of a policy, in points; `None`: compared by the mean.
pub(crate) fn tolerance(kind: PolicyKind) -> Option<f64> {
    match kind {
        PolicyKind::LruInsertion { .. } => Some(1.25),
        PolicyKind::LruSplit | PolicyKind::Arc => Some(1.0),
        PolicyKind::TinyLfu { .. } | PolicyKind::WTinyLfu { .. } => None,
        _ => Some(TOLERANCE_POINTS),
    }
}

/// Traces of loops and other patterns, and of few keys.
fn is_pattern(trace: &str) -> bool {
    trace.starts_with("lirs_") || trace.starts_with("agent_")
}

/// `MILLPOND_POLICY` names one policy, `MILLPOND_REQUESTS` another number of requests.
#[test]
fn policies_are_as_good_as_plain_ones_on_published_traces() {
    let Some(folder) = traces() else { return };
    let only = std::env::var("MILLPOND_POLICY").ok();
    let is_wanted = |kind: &PolicyKind| only.as_ref().is_none_or(|only| *only == kind.to_string());
    let traces: Vec<_> = traces_without_sizes(&folder)
        .into_iter()
        .map(|(name, file, _)| (name, keys_of(&file, most_requests())))
        .collect();
    println!("policy, trace, share of the keys, keys held, hit ratio, plain simulator, difference in points");
    for kind in kinds().into_iter().filter(is_wanted) {
        let (mut differences, mut too_far) = (Vec::new(), Vec::new());
        for (name, keys) in &traces {
            let unique = keys.iter().collect::<HashSet<_>>().len() as u64;
            for percent in [1, 10, 25] {
                let capacity = (unique * percent / 100).max(1);
                let (ours, plain, _) = both(kind, capacity, keys);
                let away = (ours - plain) * 100.0;
                let line = format!(
                    "{kind:10} {name:24} {percent:>3} % {capacity:>8} {ours:.5} {plain:.5} {away:+.3}"
                );
                println!("{line}");
                if capacity < LEAST_KEYS {
                    continue;
                }
                let is_too_far = match tolerance(kind) {
                    Some(tolerance) => away.abs() > tolerance,
                    None => away < -3.0 && !is_pattern(name),
                };
                if is_too_far {
                    too_far.push(line);
                }
                if !is_pattern(name) {
                    differences.push(away.abs());
                }
            }
        }
        assert!(differences.len() >= 40, "only {} replays were checked", differences.len());
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        println!("{kind}: {mean:.3} points in the mean");
        assert!(mean < if tolerance(kind).is_some() { 0.25 } else { 0.75 }, "{kind}: {mean} points");
        assert!(too_far.is_empty(), "too far away:\n{}", too_far.join("\n"));
    }
}

/// Hit ratios on generated keys, at 1 and 10 % of them: they change only where a policy does.
#[test]
fn hit_ratios_on_generated_keys_are_pinned() {
    let keys = generated(11, 150_000, 20_000, 0.9);
    let mut found = Vec::new();
    for kind in kinds() {
        let ratios = [200, 2_000].map(|capacity| {
            let (ours, plain, _) = both(kind, capacity, &keys);
            let tolerance = if tolerance(kind).is_some() { 0.004 } else { 0.012 };
            assert!((ours - plain).abs() < tolerance, "{kind}, {capacity} keys: {ours} against {plain}");
            format!("{ours:.4}")
        });
        found.push(format!("{kind} {}", ratios.join(" ")));
    }
    assert_eq!(found, PINNED);
}

const PINNED: [&str; 9] = [
    "lru:0 0.2316 0.4280",
    "lru+split 0.2314 0.4281",
    "lru+mid 0.2945 0.4871",
    "2q 0.2851 0.4751",
    "tinylfu 0.2594 0.4817",
    "w-tinylfu 0.3227 0.5069",
    "s3-fifo 0.3298 0.5103",
    "sieve 0.3248 0.5079",
    "arc 0.3239 0.5111",
];

/// A cache that is converted again and again keeps all its keys and goes on hitting.
#[test]
fn a_cache_is_converted_while_it_serves() {
    let keys = generated(12, 60_000, 20_000, 0.9);
    let mut cache = Driven::new(PolicyKind::S3_FIFO, 1_000);
    let mut hits = 0;
    for (i, key) in keys.iter().enumerate() {
        hits += usize::from(cache.access(*key, 1));
        if i % 3_001 == 3_000 {
            let kinds = kinds();
            cache.convert(kinds[i / 3_001 % kinds.len()]);
        }
    }
    let lru = hit_ratio(&mut Driven::new(PolicyKind::Lru { refresh_secs: 0 }, 1_000), &keys);
    let converted = hits as f64 / keys.len() as f64;
    assert!(converted > lru - 0.01, "{converted} converted every 3,000 requests, {lru} by LRU throughout");
}
