//! The engine's hit ratios beside those of plain simulators that hold as many objects.
//!
//! Every published trace without sizes is replayed at 1, 10 and 25 % of its footprint. LRU (refresh
//! time 0) must be within half a point of exact LRU, S3-FIFO within half a point of plain S3-FIFO.
//! The traces are read in place; where they are not, the tests say so and pass. The generated
//! sample, which is always there, is replayed besides. The other policies are compared without an
//! engine, in [`policies`].

#[path = "hit_ratio/driver.rs"]
mod driver;
#[path = "hit_ratio/policies.rs"]
mod policies;

use std::path::{Path, PathBuf};

use base::ByteSize;
use millpond::{PolicyKind, SizeClassConfig};
use millpond_workload::replay::{ReplayOptions, replay};
use millpond_workload::testing::traces;

/// The most that the engine may differ, in points.
const TOLERANCE_POINTS: f64 = 0.5;
/// A slab, and what an item needs besides its value: a header and a key of 8 bytes.
const SLAB_BYTES: u64 = 4 << 20;
const AROUND_VALUE_BYTES: u64 = 12 + 8;

const LRU: PolicyKind = PolicyKind::Lru { refresh_secs: 0 };

/// Name, file and number of keys of each trace without sizes.
fn traces_without_sizes(folder: &Path) -> Vec<(String, PathBuf, u64)> {
    let stats = std::fs::read_to_string(folder.join("STATS.csv")).expect("STATS.csv");
    let mut traces = Vec::new();
    for line in stats.lines().skip(1) {
        let name = line.split(',').next().expect("a name");
        let file = folder.join(name).join(format!("{name}.csv.zst"));
        // A kind may hold commas between quotes.
        let rest = match line.split_once(",\"") {
            Some((before, rest)) if before == name => rest.split_once("\",").expect("a quoted kind").1,
            _ => line.splitn(3, ',').nth(2).expect("figures"),
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let (unique, mean_size) = (fields[1].parse().expect("a number of keys"), fields[8]);
        if mean_size.is_empty() && file.is_file() {
            traces.push((name.to_owned(), file, unique));
        }
    }
    traces
}

/// A cache of one size class whose slabs have, together, about `items` chunks.
fn options_for(items: u64, policy: PolicyKind) -> ReplayOptions {
    const LEAST_CHUNK: u64 = 64;
    let slabs = (items * LEAST_CHUNK).div_ceil(SLAB_BYTES).max(1);
    // Chunks are a multiple of 8 bytes.
    let chunk = (slabs * SLAB_BYTES / items.max(1)).min(SLAB_BYTES) / 8 * 8;
    ReplayOptions {
        memory: ByteSize::new(slabs * SLAB_BYTES + (64 << 20)),
        pool_limit: Some(ByteSize::new(slabs * SLAB_BYTES)),
        classes: SizeClassConfig::List(vec![chunk as u32]),
        value_size: (chunk - AROUND_VALUE_BYTES) as u32,
        policy,
        compare: true,
        ..ReplayOptions::default()
    }
}

fn check_all(policy: PolicyKind) {
    let Some(folder) = traces() else { return };
    let traces = traces_without_sizes(&folder);
    let (mut checked, mut too_far) = (0, Vec::new());
    println!(
        "{policy}: trace, share of the keys, objects held, hit ratio, plain simulator, difference in points"
    );
    for (name, file, unique) in &traces {
        let name = name.as_str();
        for percent in [1, 10, 25] {
            let items = (unique * percent / 100).max(1);
            let report = replay(file, &options_for(items, policy)).expect(name);
            assert_eq!(report.wrong_values, 0, "{name}");
            let rival = &report.comparison.as_ref().expect("a comparison").rivals[0];
            let line = format!(
                "{name:24} {percent:>3} % {:>8} {:.5} {:.5} {:+.3}",
                rival.capacity, report.hit_ratio, rival.hit_ratio, rival.engine_is_ahead_points
            );
            println!("{line}");
            let held = report.memory.items as f64 / items as f64;
            assert!((0.8..=1.35).contains(&held) || items < 20, "{name} holds {held} of what it should");
            let away = rival.engine_is_ahead_points.abs();
            if away > TOLERANCE_POINTS {
                too_far.push(line);
            }
            checked += 1;
        }
    }
    assert!(checked >= 60, "only {checked} replays were checked");
    assert!(too_far.is_empty(), "more than {TOLERANCE_POINTS} points away:\n{}", too_far.join("\n"));
}

#[test]
fn lru_is_as_good_as_exact_lru() {
    check_all(LRU);
}

#[test]
fn s3_fifo_is_as_good_as_the_plain_one() {
    check_all(PolicyKind::S3_FIFO);
}

/// The shipped sample has sizes; with all values in one class, the engine still must be as good as
/// the simulators.
#[test]
fn the_shipped_sample_is_cached_as_well_as_by_the_simulators() {
    let sample = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sample-trace.csv.zst"));
    for policy in PolicyKind::ALL.map(|kind| if kind == PolicyKind::LRU { LRU } else { kind }) {
        // 500 chunks of 64 KiB less 8 bytes: a twentieth of the keys.
        let options = ReplayOptions {
            memory: ByteSize::mib(48),
            pool_limit: Some(ByteSize::mib(32)),
            classes: SizeClassConfig::List(vec![64 << 10]),
            policy,
            compare: true,
            ..ReplayOptions::default()
        };
        let report = replay(sample, &options).expect("a replay");
        let rival = &report.comparison.as_ref().expect("a comparison").rivals[0];
        assert!(report.evictions > 10_000 && report.hit_ratio > 0.3, "{report}");
        // TinyLFU without a segmented main part is the most sensitive to which of two equally
        // frequent keys stays.
        let tolerance = policies::tolerance(policy).unwrap_or(3.0);
        println!("{policy}: {:.5} {:+.3}", report.hit_ratio, rival.engine_is_ahead_points);
        assert!(rival.engine_is_ahead_points.abs() < tolerance, "{policy}: {report}");
    }
}
