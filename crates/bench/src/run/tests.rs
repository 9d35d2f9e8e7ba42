use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use workload::OpKind;

use super::*;
use crate::targets::DirectSession;
use crate::targets::memcached::Memcached;

fn workload(toml: &str) -> Arc<Workload> {
    Arc::new(Workload::new(&toml.parse().expect(toml), 7).expect(toml))
}

fn operations(count: u64) -> RunOptions {
    RunOptions {
        length: Length::Operations(count),
        wake_fast: false,
        latency_sample: 1,
        ..RunOptions::default()
    }
}

/// A cache of a map, which can be told to misbehave.
#[derive(Default)]
struct MapCache {
    map: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// Hand out the value of another key on every n-th hit; 0 never.
    mix_up: usize,
    gets: AtomicUsize,
    /// A clock that each call moves by a microsecond, and the 100th by a second.
    clock: Option<Clock>,
}

impl Direct for MapCache {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }

    fn describe(&self) -> String {
        "map".into()
    }
}

impl DirectSession for &MapCache {
    fn get(&mut self, _pool: u16, key: &[u8], seen: impl FnOnce(&[u8])) -> bool {
        let number = self.gets.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(clock) = &self.clock {
            clock.advance(if number == 100 { Duration::from_secs(1) } else { Duration::from_micros(1) });
        }
        let map = self.map.lock().expect("no panic");
        let Some(value) = map.get(key) else { return false };
        let wrong = self.mix_up > 0 && number.is_multiple_of(self.mix_up);
        let other = map.values().find(|other| *other != value);
        seen(if wrong { other.expect("another value") } else { value });
        true
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], _ttl_secs: u32) -> bool {
        self.map.lock().expect("no panic").insert(key.to_vec(), value.to_vec());
        true
    }

    fn delete(&mut self, _pool: u16, key: &[u8]) -> bool {
        self.map.lock().expect("no panic").remove(key).is_some()
    }

    fn touch(&mut self, _pool: u16, key: &[u8], _ttl_secs: u32) -> bool {
        self.map.lock().expect("no panic").contains_key(key)
    }
}

#[test]
fn a_loaded_cache_hits_always_and_counts_add_up() {
    let workload = workload("keys = 2000\nvalue_size = \"1-300\"\nmix = \"get=6,set=3,touch=1,lone-get=1\"");
    for (threads, pipeline) in [(1, 1), (3, 1), (2, 7)] {
        let cache = Arc::new(MapCache::default());
        let options = RunOptions { threads, pipeline, ..operations(10_001) };
        let report = run_direct(&cache, &workload, &options).expect("a run");
        assert_eq!(report.operations, 10_001);
        let done: HashMap<&str, u64> = report.kinds.iter().map(|kind| (kind.kind, kind.operations)).collect();
        let lone = done["get"] - report.hits;
        assert!(lone > 700 && lone < 1_200, "{lone} lone reads must miss, and nothing else may");
        assert_eq!((report.refused, report.wrong_values, report.not_found, report.fills), (0, 0, 0, 0));
        assert!(
            report.kinds.iter().all(|kind| kind.latency.as_ref().is_some_and(|l| l.count == kind.operations))
        );
        assert!(report.bytes_written > done["set"] && report.bytes_read > report.hits);
        assert_eq!(cache.map.lock().expect("no panic").len(), 2_000);
    }
}

#[test]
fn what_misses_is_written_where_the_workload_is_look_aside() {
    let workload = workload("keys = 500\nmix = \"get=1\"\nlook_aside = true");
    let cache = Arc::new(MapCache::default());
    let report = run_direct(&cache, &workload, &operations(20_000)).expect("a run");
    let held = cache.map.lock().expect("no panic").len() as u64;
    assert_eq!(report.fills, held);
    assert_eq!(report.hits + report.fills, 20_000);
}

#[test]
fn a_cache_that_mixes_up_values_is_found_out() {
    let workload = workload("keys = 50\nmix = \"get=1\"");
    for pipeline in [1, 4] {
        let cache = Arc::new(MapCache { mix_up: 10, ..MapCache::default() });
        let options = RunOptions { pipeline, ..operations(1_000) };
        let report = run_direct(&cache, &workload, &options).expect("a run");
        assert_eq!(report.wrong_values, 100);
        assert!(report.to_string().contains("WRONG VALUES 100"), "{report}");
    }
}

/// A stall of a second at 1,000 requests a second delays about a thousand of them. In closed loop
/// one is seen.
#[test]
fn open_loop_charges_a_stall_to_all_that_it_delayed() {
    let workload = workload("keys = 50\nmix = \"get=1\"");
    let slow = |rate: Option<f64>| {
        let clock = Clock::manual(1_000);
        let cache = MapCache { clock: Some(clock.clone()), ..MapCache::default() };
        let progress = AtomicU64::new(0);
        let mut source = Source::Draw(Sampler::new(Arc::clone(&workload), 1, 0, 1));
        let mut phase = Phase::new(&mut source, clock.clone(), &progress);
        phase.left = 2_000;
        phase.pace = rate.map(|rate| Pace::new(rate, Arrivals::Even, 1, clock.monotonic_nanos()));
        let tally = DirectThread::new(cache.session(), 100).drive(&mut phase);
        assert_eq!(tally.operations(), 2_000);
        tally.latencies[OpKind::Get as usize].clone()
    };
    let (closed, open) = (slow(None), slow(Some(1_000.0)));
    assert!(closed.at(0.999) < 2_000 && closed.at(1.0) >= 999_000_000);
    assert!(open.at(0.45) < 2_000, "half of the requests were not delayed");
    let (p75, p999) = (open.at(0.75) as f64 / 1e9, open.at(0.999) as f64 / 1e9);
    assert!((p75 - 0.5).abs() < 0.02 && (p999 - 1.0).abs() < 0.02, "{p75} s, {p999} s");
}

#[test]
fn a_panic_of_the_target_ends_the_run() {
    struct Broken;
    impl Direct for Broken {
        type Session<'a> = Self;
        fn session(&self) -> Self {
            Self
        }
        fn describe(&self) -> String {
            "broken".into()
        }
    }
    impl DirectSession for Broken {
        fn get(&mut self, _: u16, _: &[u8], _: impl FnOnce(&[u8])) -> bool {
            panic!("this panic is part of the test")
        }
        fn set(&mut self, _: u16, _: &[u8], _: &[u8], _: u32) -> bool {
            true
        }
        fn delete(&mut self, _: u16, _: &[u8]) -> bool {
            true
        }
        fn touch(&mut self, _: u16, _: &[u8], _: u32) -> bool {
            true
        }
    }
    let workload = workload("keys = 50\nmix = \"get=1,set=9\"");
    let options = RunOptions { threads: 3, ..operations(1_000) };
    let error = run_direct(&Arc::new(Broken), &workload, &options).expect_err("a panic").to_string();
    assert!(error.contains("panicked"), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let workload = workload("keys = 5");
    for options in [
        RunOptions { threads: 0, ..operations(1) },
        RunOptions { pipeline: 0, ..operations(1) },
        RunOptions { rate: Some(0.0), ..operations(1) },
        RunOptions { rate: Some(f64::NAN), ..operations(1) },
        RunOptions { rate: Some(5.0), multi_get: 2, ..operations(1) },
        RunOptions { pin: Some(vec![1_000_000]), ..operations(1) },
    ] {
        assert!(run_direct(&Arc::new(Null), &workload, &options).is_err(), "{options:?}");
    }
}

#[test]
fn connections_are_shared_out_among_threads() {
    for (threads, connections, wanted) in [(1, 1, vec![1]), (2, 5, vec![3, 2]), (3, 1, vec![1, 1, 1])] {
        let options = RunOptions { threads, connections, ..RunOptions::default() };
        let found: Vec<usize> = (0..threads).map(|thread| options.connections_of(thread)).collect();
        assert_eq!(found, wanted);
    }
}

/// A memcached server of a few lines; `break_after` requests it closes the connection.
fn serve(break_after: usize) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Tcp(listener.local_addr().expect("an address").to_string());
    let map = Arc::new(Mutex::new(HashMap::<String, Vec<u8>>::new()));
    let accept = move || {
        while let Ok((stream, _)) = listener.accept() {
            let map = Arc::clone(&map);
            let session = move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
                stream.set_nodelay(true).expect("a socket option");
                let mut writer = stream;
                for _ in 0..break_after {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    let words: Vec<&str> = line.split_whitespace().collect();
                    let mut map = map.lock().expect("no panic");
                    let mut reply = Vec::new();
                    match words[0] {
                        "get" => {
                            for key in &words[1..] {
                                if let Some(value) = map.get(*key) {
                                    reply.extend(format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes());
                                    reply.extend(value);
                                    reply.extend(b"\r\n");
                                }
                            }
                            reply.extend(b"END\r\n");
                        }
                        "set" => {
                            let mut value = vec![0; words[4].parse::<usize>().expect("a length") + 2];
                            reader.read_exact(&mut value).expect("a value");
                            value.truncate(value.len() - 2);
                            if value.len() > 5_000 {
                                reply.extend(b"SERVER_ERROR object too large for cache\r\n");
                            } else {
                                map.insert(words[1].to_owned(), value);
                                reply.extend(b"STORED\r\n");
                            }
                        }
                        "delete" if map.remove(words[1]).is_some() => reply.extend(b"DELETED\r\n"),
                        "touch" if map.contains_key(words[1]) => reply.extend(b"TOUCHED\r\n"),
                        "delete" | "touch" => reply.extend(b"NOT_FOUND\r\n"),
                        _ => reply.extend(b"ERROR\r\n"),
                    }
                    if writer.write_all(&reply).is_err() {
                        return;
                    }
                }
            };
            drop(base::thread::spawn("test-session", session));
        }
    };
    drop(base::thread::spawn("test-server", accept));
    address
}

/// Every way of driving a server gives the same counts.
#[test]
fn a_server_is_driven_over_any_number_of_connections() {
    let workload = workload("keys = 300\nvalue_size = \"1-3000\"\nmix = \"get=7,set=2,touch=1,lone-get=1\"");
    let ways = [
        RunOptions { ..operations(3_000) },
        RunOptions { pipeline: 16, ..operations(3_000) },
        RunOptions { connections: 5, ..operations(3_000) },
        RunOptions { threads: 2, connections: 3, pipeline: 4, multi_get: 10, ..operations(3_000) },
        RunOptions { rate: Some(50_000.0), connections: 2, pipeline: 8, ..operations(3_000) },
        RunOptions { warm_up: Some(Length::Operations(500)), ..operations(3_000) },
    ];
    for options in ways {
        let report = run_wire(Memcached, &serve(usize::MAX), "test", &workload, &options).expect("a run");
        assert_eq!(report.operations, 3_000, "{options:?}");
        let gets = report.kinds.iter().find(|kind| kind.kind == "get").expect("reads").operations;
        let lone = gets - report.hits;
        assert!((200..360).contains(&lone), "{options:?}: {lone} of {gets} reads missed");
        assert_eq!((report.wrong_values, report.refused, report.not_found), (0, 0, 0), "{options:?}");
        let json = serde_json::to_value(&report).expect("json");
        assert_eq!(json["operations"], 3_000);
    }
}

#[test]
fn a_server_is_filled_look_aside() {
    let workload = workload("keys = 200\nmix = \"get=1\"\nlook_aside = true");
    for options in [
        RunOptions { ..operations(4_000) },
        RunOptions { connections: 3, pipeline: 5, multi_get: 3, ..operations(4_000) },
        RunOptions { rate: Some(100_000.0), pipeline: 3, ..operations(4_000) },
    ] {
        let report = run_wire(Memcached, &serve(usize::MAX), "test", &workload, &options).expect("a run");
        assert_eq!(report.hits + report.fills, 4_000);
        assert!(report.hits > 3_500 && report.fills >= 100, "{} fills", report.fills);
    }
}

#[test]
fn refusals_are_counted_with_their_reason() {
    let workload = workload("keys = 10\nvalue_size = 6000\nmix = \"set=1\"");
    let report = run_wire(Memcached, &serve(usize::MAX), "test", &workload, &operations(20)).expect("a run");
    assert_eq!(report.refused, 20);
    assert!(report.first_refusal.as_deref().is_some_and(|reason| reason.contains("too large")));
}

#[test]
fn a_server_that_hangs_up_fails_the_run_with_a_reason() {
    let workload = workload("keys = 10");
    for options in [operations(5_000), RunOptions { threads: 2, connections: 4, ..operations(5_000) }] {
        let error = run_wire(Memcached, &serve(100), "test", &workload, &options).expect_err("a hang-up");
        let text = format!("{error:#}");
        assert!(
            text.contains("closed the connection") || text.contains("reset") || text.contains("pipe"),
            "{text}"
        );
    }
    let nobody = Address::Tcp("127.0.0.1:1".into());
    let error = run_wire(Memcached, &nobody, "test", &workload, &operations(1)).expect_err("nobody listens");
    assert!(format!("{error:#}").contains("connecting to 127.0.0.1:1"), "{error:#}");
}
