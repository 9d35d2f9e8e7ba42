use std::io::Write as _;

use base::rng::{RngExt, seeded};
use curve::{Simulated, Unit};
use millpond::PolicyKind;

use super::*;
use crate::reference::simulator;

/// Keys with a hot end, each with a size of its own.
fn requests(seed: u64, count: usize) -> Vec<(u64, u32)> {
    let mut rng = seeded(seed);
    let draw = |_| {
        let key = (rng.random::<f64>().powi(4) * 20_000.0) as u64;
        (base::hash::mix64(key), 1)
    };
    (0..count).map(draw).collect()
}

/// The engine's policies around a table of keys hit about as often as the plain ones do.
#[test]
fn a_cache_around_each_policy_agrees_with_the_plain_simulator() {
    for kind in PolicyKind::ALL {
        let mut ours = PolicyCache::new(kind, 1_000);
        let (_, mut plain) = simulator(kind, 1_000);
        let (mut hits, mut expected) = (0, 0);
        for (hash, size) in requests(4, 30_000) {
            hits += i32::from(ours.access(hash, size));
            expected += i32::from(plain.access(hash, 1));
        }
        let off = f64::from(hits - expected).abs() / 30_000.0;
        assert!(off < 0.02, "{kind}: {hits} hits, the plain one has {expected}");
    }
}

#[test]
fn a_cache_never_holds_more_than_fits() {
    let mut cache = PolicyCache::new(PolicyKind::S3_FIFO, 10_000);
    let mut rng = seeded(8);
    for (hash, _) in requests(1, 20_000) {
        cache.access(hash, rng.random_range(1..3_000));
        assert!(cache.used() <= 10_000);
    }
    assert!(!cache.access(77, 10_001), "what is larger than the cache is not taken in");
}

fn trace(lines: impl Iterator<Item = String>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    lines.for_each(|line| writeln!(file, "{line}").unwrap());
    file
}

fn options(method: Method) -> CurveOptions {
    let policy = PolicyKind::Lru { refresh_secs: 0 };
    let correction = Correction::default();
    CurveOptions {
        method,
        policy,
        unit: None,
        rate: Some(0.25),
        keys: 1_000,
        max_size: None,
        at: None,
        ticks: 50,
        correction,
    }
}

/// Every method finds the cliff of a loop, in bytes.
#[test]
fn every_method_finds_the_cliff_of_a_loop() {
    let header = std::iter::once("key,size".to_owned());
    let file = trace(header.chain((0..60_000).map(|i| format!("{},500", i % 2_000))));
    let whole = |method: &Method| !matches!(method, Method::Shadow | Method::Tail);
    for (name, method) in Method::NAMES.into_iter().filter(|(_, method)| whole(method)) {
        let report = learn(file.path(), &Source::default(), &options(method)).unwrap();
        assert_eq!((report.requests, report.curve.unit()), (60_000, Unit::Bytes), "{name}");
        assert!(report.curve.miss_ratio(500_000.0) > 0.95, "{name}: {:?}", report.curve);
        assert!(report.curve.miss_ratio(1_100_000.0) < 0.1, "{name}: {:?}", report.curve);
        let [cliff] = report.cliffs[..] else { panic!("{name}: {:?}", report.cliffs) };
        assert!(cliff.depth > 0.7 && cliff.from < 100_000, "{name}: {cliff:?}");
        let table = report.table(report.default_more()).to_string();
        assert!(table.contains("cliff") && table.contains("more"), "{table}");
    }
}

/// The estimators of the slope know the curve around one size, here on both sides of the cliff.
#[test]
fn local_methods_tell_the_curve_around_one_size() {
    let header = std::iter::once("key,size".to_owned());
    let file = trace(header.chain((0..60_000).map(|i| format!("{},500", i % 2_000))));
    let misses = |method, at| {
        let options = CurveOptions { at: Some(at), rate: None, ..options(method) };
        learn(file.path(), &Source::default(), &options).unwrap().curve.miss_ratio(at as f64)
    };
    for method in [Method::Shadow, Method::Tail] {
        assert!(misses(method, 1_100_000) < 0.04, "{method}: {}", misses(method, 1_100_000));
    }
    assert!(misses(Method::Shadow, 800_000) > 0.99);
}

#[test]
fn writes_count_refresh_or_are_passed_over() {
    let file = trace("key,op 1,r 2,w 2,w 1,r".split(' ').map(str::to_owned));
    let misses = |writes| {
        let source = Source { writes, ..Source::default() };
        let report = learn(file.path(), &source, &options(Method::Exact)).unwrap();
        let requests = report.curve.confidence().unwrap().requests;
        (requests, report.curve.miss_ratio(1.0) * requests, report.curve.miss_ratio(2.0) * requests)
    };
    assert_eq!(misses(Writes::Count), (4.0, 3.0, 2.0));
    assert_eq!(misses(Writes::Refresh), (2.0, 2.0, 1.0));
    assert_eq!(misses(Writes::Ignore), (2.0, 1.0, 1.0));
}

/// A key that expired, or was removed, before it is read again is hit by no memory.
#[test]
fn in_a_servers_log_keys_end_by_their_times_to_live_and_removals() {
    let header = "ts,tenant,protocol,command,op,key,key_size,size,ttl,outcome,latency_us";
    let request = |ts: u32, op: &str, key: u32, size: &str, ttl: &str| {
        format!("{ts}000000,a,resp,{op},{op},{key},2,{size},{ttl},ok,1")
    };
    let lines = [
        header.to_owned(),
        request(1, "get", 1, "", ""),
        request(1, "set", 1, "50", "10"),
        request(5, "get", 1, "50", ""),
        request(12, "get", 1, "", ""), // expired
        request(12, "set", 1, "50", ""),
        request(30, "get", 1, "", ""), // evicted: more memory had it
        request(30, "set", 1, "50", ""),
        request(31, "delete", 1, "", ""),
        request(32, "get", 1, "", ""), // removed
        request(33, "get", 1, "", ""), // and not filled
    ];
    let file = trace(lines.into_iter());
    let source = Source { writes: Writes::Fill, ..Source::default() };
    let report = learn(file.path(), &source, &options(Method::Exact)).unwrap();
    assert_eq!((report.requests, report.curve.miss_ratio(1e9)), (6, 4.0 / 6.0));
}

#[test]
fn a_folder_stands_for_its_traces() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("web")).unwrap();
    for file in ["web/web.csv", "web/other.csv", "web/OLTP.lis.zst", "STATS.csv"] {
        std::fs::write(folder.path().join(file), "1\n").unwrap();
    }
    let found = traces_in(folder.path()).unwrap();
    assert_eq!(found, ["web/OLTP.lis.zst", "web/web.csv"].map(|file| folder.path().join(file)));
    let empty = tempfile::tempdir().unwrap();
    assert!(traces_in(empty.path()).unwrap_err().to_string().contains("no trace"));
}

#[test]
fn a_trace_without_requests_is_refused() {
    let file = trace(std::iter::once("key,size".to_owned()));
    let error = learn(file.path(), &Source::default(), &options(Method::Shards)).unwrap_err();
    assert!(error.to_string().contains("no request"), "{error}");
}

/// At full rate a miniature is the cache itself; at a quarter it is near, and says where it is
/// worst.
#[test]
fn miniatures_of_every_policy_are_held_against_full_caches() {
    let file =
        trace(std::iter::once("key".to_owned()).chain(requests(5, 30_000).iter().map(|it| it.0.to_string())));
    let compare = |rate| {
        miniature::compare_policies(file.path(), &Source::default(), &PolicyKind::ALL, Some(rate)).unwrap()
    };
    for (full, small) in compare(1.0).into_iter().zip(compare(0.25)) {
        assert_eq!((full.error, full.worst, full.requests), (0.0, 0.0, 30_000), "{}", full.policy);
        assert!(small.error > 0.0 && small.error < 0.05, "{}: {}", small.policy, small.error);
        assert!(small.worst >= small.error && (0.004..=0.7).contains(&small.worst_at), "{}", small.policy);
    }
}

/// Below the first of 24 even sizes a straight line from 1 was told, drawn and believed: S3-FIFO
/// seemed ruinous in small caches.
#[test]
fn small_caches_are_simulated_or_nothing_is_said_of_them() {
    let lines = requests(5, 60_000).into_iter().map(|(hash, _)| hash.to_string());
    let file = trace(std::iter::once("key".to_owned()).chain(lines));
    let policy = PolicyKind::S3_FIFO;
    let options = CurveOptions { policy, rate: Some(1.0), ..options(Method::Mini) };
    let report = learn(file.path(), &Source::default(), &options).unwrap();
    let most = report.curve.max_size();
    assert!(report.known_from > 0 && report.known_from < most / 50, "{} of {most}", report.known_from);
    for size in [most / 100, most / 40, most / 15, most / 4] {
        let mut cache = PolicyCache::new(policy, size);
        let misses = requests(5, 60_000).into_iter().filter(|(hash, _)| !cache.access(*hash, 1)).count();
        let (real, told) = (misses as f64 / 60_000.0, report.curve.miss_ratio(size as f64));
        assert!((real - told).abs() < 0.01, "{size}: {real}, told {told}");
    }
    let text = report.table(report.default_more()).to_string();
    assert!(text.contains("unknown    below"), "{text}");
    let drawn = chart(std::slice::from_ref(&report), true);
    assert!(drawn.series.iter().all(|series| series.points[0].0 >= report.known_from as f64));
}

/// A line between two points is straight on a linear axis alone: the hull of a cliff was drawn .2
/// too low on a logarithmic one.
#[test]
fn lines_and_hulls_on_a_logarithmic_axis_are_where_they_should_be() {
    let header = std::iter::once("key".to_owned());
    let file = trace(header.chain((0..60_000).map(|i| (i % 2_000).to_string())));
    let report = learn(file.path(), &Source::default(), &options(Method::Exact)).unwrap();
    let hull = report.curve.hull();
    let drawn = chart(std::slice::from_ref(&report), true);
    for (series, curve) in drawn.series.iter().zip([&report.curve, &hull]) {
        for pair in series.points.windows(2) {
            // Where the picture has the line half way between two points, against where it is.
            let size = (pair[0].0 * pair[1].0).sqrt();
            let shown = (pair[0].1 + pair[1].1) / 2.0;
            let is_cliff = (pair[0].1 - pair[1].1).abs() > 0.3;
            assert!(is_cliff || (shown - curve.miss_ratio(size)).abs() < 0.01, "{size}: {shown}");
        }
    }
    let plain = chart(std::slice::from_ref(&report), false);
    assert!(plain.series[1].points.len() < 10, "straight lines need no more points");
}
