use std::io::Write;

use super::*;
use crate::generate::{GenerateOptions, generate};

fn trace(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn sample() -> tempfile::NamedTempFile {
    let mut text = Vec::new();
    generate(&GenerateOptions { requests: 20_000, ..GenerateOptions::default() }, &mut text)
        .expect("generated");
    trace(&String::from_utf8(text).expect("text"))
}

fn small() -> ReplayOptions {
    ReplayOptions { memory: ByteSize::mib(16), ..ReplayOptions::default() }
}

/// Two size classes, so that a few slabs are enough for each to have one and evict.
fn two_classes() -> ReplayOptions {
    ReplayOptions { classes: SizeClassConfig::List(vec![640, 32 << 10]), ..small() }
}

#[test]
fn a_cache_with_room_for_all_misses_each_key_once() {
    let file = sample();
    let report =
        replay(file.path(), &ReplayOptions { memory: ByteSize::mib(256), ..small() }).expect("a replay");
    let mut reader = TraceReader::open(file.path()).expect("a trace");
    let (mut held, mut hits) = (std::collections::HashSet::new(), 0);
    while let Some(request) = reader.next_request().expect("a request") {
        let id = crate::reference::key_id(request.key);
        hits += match request.op {
            Op::Delete => {
                held.remove(&id);
                0
            }
            _ => u64::from(!held.insert(id)),
        };
    }
    assert_eq!((report.requests, report.hits, report.evictions), (20_000, hits, 0));
    assert_eq!(report.memory.items, held.len() as u64);
    assert_eq!((report.wrong_values, report.too_large, report.out_of_memory), (0, 0, 0));
    assert!(report.has_sizes && report.byte_hit_ratio > 0.0 && report.byte_hit_ratio < report.hit_ratio);
}

#[test]
fn json_has_the_promised_keys() {
    let report = replay(sample().path(), &two_classes()).expect("a replay");
    let json = serde_json::to_value(&report).expect("json");
    for key in ["requests", "hits", "evictions"] {
        assert!(json[key].is_u64(), "{key}");
    }
    for key in ["hit_ratio", "byte_hit_ratio", "requests_per_second"] {
        assert!(json[key].is_f64(), "{key}");
    }
    let number = |key: &str| json[key].as_f64().expect("a number");
    let ratio = number("hits") / (number("gets") + number("writes"));
    assert!((ratio - json["hit_ratio"].as_f64().expect("a ratio")).abs() < 1e-12);
}

#[test]
fn writes_and_look_aside_are_as_asked_for() {
    let file =
        trace("key,size,op\n1,10,r\n1,10,r\n2,10,w\n2,10,w\n2,20,w\n1,10,delete\n1,10,r\n9,10,touch\n");
    let report = replay(file.path(), &small()).expect("a replay");
    assert_eq!((report.requests, report.hits, report.inserted), (8, 3, 4));
    assert_eq!((report.gets, report.get_hits, report.writes, report.deletes), (3, 1, 3, 1));
    assert_eq!(report.hit_ratio, 0.5, "of reads and writes");
    assert_eq!(report.byte_hit_ratio, 40.0 / 70.0);
    let replacing =
        replay(file.path(), &ReplayOptions { writes_replace: true, ..small() }).expect("a replay");
    assert_eq!((replacing.hits, replacing.inserted), (3, 5));
    let not_filling = replay(file.path(), &ReplayOptions { look_aside: false, ..small() }).expect("a replay");
    assert_eq!((not_filling.hits, not_filling.inserted), (2, 2));
    let limited = replay(file.path(), &ReplayOptions { limit: Some(3), ..small() }).expect("a replay");
    assert_eq!(limited.requests, 3);
}

#[test]
fn items_expire_as_the_trace_says_when_the_clock_follows_it() {
    let file = trace("ts,key,op,ttl\n5,1,set,10\n14,1,get,\n15,1,get,\n16,1,get,\n");
    let trace_time = Some("s".parse().expect("a unit"));
    let report = replay(file.path(), &ReplayOptions { trace_time, ..small() }).expect("a replay");
    assert_eq!(report.hits, 2, "alive at 14, expired at 15, filled again for 16");
    assert_eq!(replay(file.path(), &small()).expect("a replay").hits, 3);
    assert!("fortnight".parse::<TimeUnit>().expect_err("no unit").contains("ms"));
}

#[test]
fn what_cannot_be_stored_is_counted_and_told() {
    let file = trace("key,size\n1,4194304\n1,9999999999999\n2,5\n2,5\n");
    let report = replay(file.path(), &small()).expect("a replay");
    assert_eq!((report.requests, report.too_large, report.hits), (4, 2, 1));
    assert!(report.to_string().contains("2 too large"), "{report}");
}

#[test]
fn a_bad_line_ends_the_replay_with_its_place() {
    let file = trace("key,size\n1,5\n2,x\n");
    let error = replay(file.path(), &small()).expect_err("a bad line").to_string();
    assert!(error.contains("line 3") && error.contains("size"), "{error}");
    assert!(replay(Path::new("/no/such/file"), &small()).is_err());
    let tiny = ReplayOptions { memory: ByteSize::kib(1), ..small() };
    assert!(format!("{:#}", replay(file.path(), &tiny).expect_err("too small")).contains("8MiB"));
}

/// Requests of several traces alternate, and a key of one is not one of another.
#[test]
fn traces_together_share_memory_and_not_keys() {
    let files = [trace("key\n1\n1\n2\n"), trace("key\n1\n1\n1\n1\n")];
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    let reports = replay_together(&paths, &small()).expect("a replay");
    assert_eq!([reports[0].hits, reports[1].hits], [1, 3]);
    let twice = [paths[0].clone(), paths[0].clone()];
    let reports = replay_together(&twice, &small()).expect("a replay");
    assert_eq!([reports[0].hits, reports[1].hits], [1, 1]);
    assert!(replay_together(&paths, &ReplayOptions { compare: true, ..small() }).is_err());
}

#[test]
fn a_comparison_shows_the_rivals_and_the_causes() {
    let lru = PolicyKind::Lru { refresh_secs: 60 };
    let options = ReplayOptions { compare: true, policy: lru, ..two_classes() };
    let report = replay(sample().path(), &options).expect("a replay");
    let comparison = report.comparison.as_ref().expect("a comparison");
    assert_eq!(comparison.rivals.len(), 3);
    for rival in &comparison.rivals {
        assert!(rival.hit_ratio > 0.1 && rival.hit_ratio < 1.0, "{rival:?}");
        let ahead = (report.hit_ratio - rival.hit_ratio) * 100.0;
        assert!((ahead - rival.engine_is_ahead_points).abs() < 1e-9);
    }
    let text = report.to_string();
    let place =
        if comparison.rivals[0].engine_is_ahead_points < 0.0 { "points behind" } else { "points ahead" };
    for word in [place, "promotes nothing", "holds keys and values", "size classes evict each on its own"] {
        assert!(text.contains(word), "{text}");
    }
}
