use std::collections::HashMap;
use std::io::Cursor;

use super::*;
use crate::trace::{TraceOptions, TraceReader};

fn text(options: &GenerateOptions) -> String {
    let mut out = Vec::new();
    generate(options, &mut out).expect("generated");
    String::from_utf8(out).expect("text")
}

fn of_cluster(number: u32, requests: u32) -> GenerateOptions {
    GenerateOptions { requests, clusters: vec![number], max_frequency: 1e9, ..GenerateOptions::default() }
}

/// The file in the repository is what the command with its defaults makes.
#[test]
fn the_shipped_sample_is_what_the_generator_makes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sample-trace.csv.zst");
    let shipped = std::fs::read(path).expect("examples/sample-trace.csv.zst");
    assert!(shipped.len() <= 300 << 10, "the sample has {} bytes", shipped.len());
    let shipped = String::from_utf8(zstd::decode_all(&shipped[..]).expect("zstd")).expect("text");
    let made = text(&GenerateOptions::default());
    let differing = shipped.lines().zip(made.lines()).enumerate().find(|(_, (old, new))| old != new);
    assert_eq!(differing, None, "make it again by `millpond bench generate`");
    assert_eq!(shipped.len(), made.len());
}

#[test]
fn a_seed_names_one_sample() {
    let options = |seed| GenerateOptions { requests: 3_000, seed, ..GenerateOptions::default() };
    assert_eq!(text(&options(5)), text(&options(5)));
    assert_ne!(text(&options(5)), text(&options(6)));
}

#[test]
fn what_is_generated_can_be_replayed() {
    let mut out = Vec::new();
    let done = generate_zstd(&GenerateOptions::default(), &mut out).expect("generated");
    let mut reader = TraceReader::from_source("sample", Box::new(Cursor::new(out)), &TraceOptions::default())
        .expect("a trace");
    let (mut requests, mut last_ts, mut sizes) = (0, 0, HashMap::new());
    while let Some(request) = reader.next_request().expect("a request") {
        let ts = request.ts.expect("a time");
        assert!(ts >= last_ts && ts < 3_600);
        last_ts = ts;
        let mut key = Vec::new();
        request.write_key(&mut key);
        let size = (request.size.expect("a size"), request.key_size.expect("a key size"));
        assert_eq!(key.len(), size.1 as usize);
        assert_eq!(*sizes.entry(key).or_insert(size), size, "a key has one size");
        requests += 1;
    }
    assert_eq!((requests, sizes.len() as u64), (done.requests, done.keys));
    assert_eq!(sizes.values().map(|(size, key)| size + u64::from(*key)).sum::<u64>(), done.footprint_bytes);
}

/// Every cluster's sample has the published mean size, one-hit share, operations and lifetimes.
#[test]
fn samples_have_the_published_statistics() {
    for cluster in &CLUSTERS {
        let name = format!("cluster {}", cluster.number);
        let text = text(&of_cluster(cluster.number, 400_000));
        let (mut uses, mut ops) = (HashMap::<&str, (u32, f64)>::new(), HashMap::<&str, f64>::new());
        let (mut ttls, mut writes) = (HashMap::<u32, f64>::new(), 0.0);
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields[2].parse(), Ok(cluster.key_size), "{name}");
            let entry = uses.entry(fields[1]).or_insert((0, fields[3].parse().expect("a size")));
            entry.0 += 1;
            *ops.entry(fields[4]).or_default() += 1.0 / 400_000.0;
            if !fields[5].is_empty() {
                *ttls.entry(fields[5].parse().expect("a ttl")).or_default() += 1.0;
                writes += 1.0;
            }
        }
        let once = uses.values().filter(|(uses, _)| *uses == 1).count() as f64 / uses.len() as f64;
        assert!((once - cluster.one_hit_share).abs() < 0.002, "{name}: {once} used once");
        // Few objects are left of the most skewed cluster; their mean size strays more.
        let mean = uses.values().map(|(_, size)| size).sum::<f64>() / uses.len() as f64;
        let tolerance = 0.02 + 3.0 / (uses.len() as f64).sqrt();
        assert!((mean / f64::from(cluster.value_size) - 1.0).abs() < tolerance, "{name}: mean size {mean}");
        let named: f64 = cluster.ops.iter().map(|(_, share)| share).sum();
        for (op, share) in cluster.ops {
            assert!((ops[op] - share / named).abs() < 0.005, "{name}: {op} {}", ops[op]);
        }
        let named: f64 = cluster.ttls.iter().map(|(_, share)| share).sum();
        let (ttl, share) = cluster.ttls[0];
        if cluster.ttls.len() > 1 && uses.len() > 10_000 && cluster.zipf_alpha < 1.0 {
            assert!((ttls[&ttl] / writes - share / named).abs() < 0.05, "{name}: {ttl} s");
        }
        assert!(cluster.ttls.iter().any(|(ttl, _)| ttls.contains_key(ttl)), "{name}");
        let frequency = 400_000.0 / uses.len() as f64;
        assert!((frequency / cluster.mean_frequency - 1.0).abs() < 0.02, "{name}: {frequency} uses each");
    }
}

/// Among the objects that are used more than the two times that each gets, uses fall with the rank
/// as published.
#[test]
fn popularity_falls_as_published() {
    for cluster in &CLUSTERS {
        let text = text(&of_cluster(cluster.number, 400_000));
        let mut uses = HashMap::<&str, f64>::new();
        for line in text.lines().skip(1) {
            *uses.entry(line.split(',').nth(1).expect("a key")).or_default() += 1.0;
        }
        let mut uses: Vec<f64> = uses.into_values().collect();
        uses.sort_by(|a, b| b.total_cmp(a));
        let (near, far) = (1_usize, 10_usize);
        if uses[far - 1] < 200.0 {
            println!("cluster {}: too flat for so short a sample", cluster.number);
            continue;
        }
        let alpha = ((uses[near - 1] - 2.0) / (uses[far - 1] - 2.0)).ln() / (far as f64 / near as f64).ln();
        assert!((alpha - cluster.zipf_alpha).abs() < 0.1, "cluster {}: {alpha}", cluster.number);
    }
}

#[test]
fn tiny_samples_have_as_many_requests_as_asked_for() {
    for requests in 0..60 {
        let options = GenerateOptions { requests, ..GenerateOptions::default() };
        let done = generate(&options, &mut Vec::new()).expect("generated");
        assert_eq!(done.requests, u64::from(requests));
    }
}

#[test]
fn an_unknown_cluster_is_refused_by_number() {
    let error = generate(&of_cluster(7, 10), &mut Vec::new()).expect_err("no cluster 7").to_string();
    assert!(error.contains("cluster 7") && error.contains("12, 14"), "{error}");
}
