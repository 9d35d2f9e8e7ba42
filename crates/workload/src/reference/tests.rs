use std::collections::BTreeMap;
use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::testing::{trace_file, traces};
use crate::trace::TraceReader;

/// LRU written as its definition: a list that is searched from end to end.
struct NaiveLru {
    capacity: u64,
    newest_first: Vec<(u64, u64)>,
}

impl NaiveLru {
    fn access(&mut self, key: u64, size: u64) -> bool {
        let found = self.newest_first.iter().position(|(held, _)| *held == key);
        if let Some(at) = found {
            self.newest_first.remove(at);
        }
        if found.is_some() || size <= self.capacity {
            self.newest_first.insert(0, (key, size));
        }
        while self.newest_first.iter().map(|(_, size)| size).sum::<u64>() > self.capacity {
            self.newest_first.pop();
        }
        found.is_some()
    }
}

/// S3-FIFO written as its definition; each queue has its newest entry first.
struct NaiveS3Fifo {
    capacity: usize,
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghost: Vec<u64>,
}

impl NaiveS3Fifo {
    fn access(&mut self, key: u64) -> bool {
        let mut held = self.small.iter_mut().chain(&mut self.main);
        if let Some((_, hits)) = held.find(|(held, _)| *held == key) {
            *hits = 3.min(*hits + 1);
            return true;
        }
        let target = 1.max(self.capacity / 10);
        while self.small.len() + self.main.len() == self.capacity {
            if self.small.len() >= target {
                match self.small.pop().expect("small is not empty") {
                    (key, 0 | 1) => {
                        self.ghost.insert(0, key);
                        self.ghost.truncate(self.capacity - target);
                    }
                    (key, _) => self.main.insert(0, (key, 0)),
                }
            } else {
                match self.main.pop().expect("main is not empty") {
                    (_, 0) => {}
                    (key, hits) => self.main.insert(0, (key, hits - 1)),
                }
            }
        }
        if let Some(at) = self.ghost.iter().position(|ghost| *ghost == key) {
            self.ghost.remove(at);
            self.main.insert(0, (key, 0));
        } else {
            self.small.insert(0, (key, 0));
        }
        false
    }

    fn remove(&mut self, key: u64) -> bool {
        let before = self.small.len() + self.main.len();
        self.small.retain(|(held, _)| *held != key);
        self.main.retain(|(held, _)| *held != key);
        before > self.small.len() + self.main.len()
    }
}

proptest! {
    #[test]
    fn lru_is_its_definition(
        capacity in 0_u64..40,
        requests in prop::collection::vec((0_u64..30, 1_u64..12), 0..600),
    ) {
        let mut by_bytes = (ExactLru::by_bytes(capacity), NaiveLru { capacity, newest_first: vec![] });
        let mut by_items = (ExactLru::by_items(capacity), NaiveLru { capacity, newest_first: vec![] });
        for (key, size) in requests {
            prop_assert_eq!(by_bytes.0.access(key, size), by_bytes.1.access(key, size));
            prop_assert_eq!(by_items.0.access(key, size), by_items.1.access(key, 1));
            prop_assert_eq!(by_bytes.0.len(), by_bytes.1.newest_first.len());
            prop_assert_eq!(by_bytes.0.used(), by_bytes.1.newest_first.iter().map(|(_, size)| size).sum::<u64>());
            prop_assert_eq!(by_items.0.len(), by_items.1.newest_first.len());
        }
    }

    #[test]
    fn s3_fifo_is_its_definition(
        capacity in 1_u64..60,
        requests in prop::collection::vec((0_u64..90, prop::bool::weighted(0.03)), 0..1_500),
    ) {
        let mut fast = S3Fifo::new(capacity);
        let mut naive =
            NaiveS3Fifo { capacity: capacity as usize, small: vec![], main: vec![], ghost: vec![] };
        for (key, is_removal) in requests {
            if is_removal {
                prop_assert_eq!(fast.remove(key), naive.remove(key));
            } else {
                prop_assert_eq!(fast.access(key, 1), naive.access(key), "key {}", key);
            }
            prop_assert_eq!(fast.len(), naive.small.len() + naive.main.len());
        }
    }
}

#[test]
fn a_capacity_of_nothing_holds_nothing() {
    let mut lru = ExactLru::by_items(0);
    let mut s3 = S3Fifo::new(0);
    for _ in 0..3 {
        assert!(!lru.access(1, 1));
        assert!(!s3.access(1, 1));
    }
    assert!(lru.is_empty() && s3.is_empty());
}

#[test]
fn evictions_are_counted_and_removals_are_not() {
    let mut lru = ExactLru::by_items(2);
    for key in 0..5 {
        lru.access(key, 1);
    }
    assert_eq!(lru.evictions(), 3);
    assert!(lru.remove(4));
    assert!(!lru.remove(4));
    assert_eq!((lru.evictions(), lru.len()), (3, 1));
}

/// A scan must not push out what was asked for three times, which is what the small queue is for.
#[test]
fn s3_fifo_survives_a_scan_that_lru_does_not() {
    let (mut lru, mut s3) = (ExactLru::by_items(100), S3Fifo::new(100));
    let mut hits = (0, 0);
    for round in 0..20_u64 {
        for key in (0..50).chain(0..50).chain(0..50) {
            hits.0 += u64::from(lru.access(key, 1));
            hits.1 += u64::from(s3.access(key, 1));
        }
        for key in 0..500 {
            lru.access(1_000 + round * 500 + key, 1);
            s3.access(1_000 + round * 500 + key, 1);
        }
    }
    assert_eq!(hits.0, 20 * 100, "LRU loses the 50 keys in every scan");
    assert_eq!(hits.1, 20 * 150 - 50, "S3-FIFO loses them never");
}

/// The published curves: for each trace, the cache sizes in objects and the LRU miss ratio there.
fn curves(folder: &std::path::Path) -> BTreeMap<String, Vec<(u64, f64, f64)>> {
    let file = std::fs::File::open(folder.join("lru_miss_ratio_curves.csv.zst")).expect("the curves");
    let mut text = String::new();
    zstd::Decoder::new(file).expect("zstd").read_to_string(&mut text).expect("text");
    let mut curves: BTreeMap<String, Vec<(u64, f64, f64)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let point = (fields[1].parse().expect("objects"), fields[2].parse().expect("share"));
        curves.entry(fields[0].to_owned()).or_default().push((
            point.0,
            point.1,
            fields[3].parse().expect("ratio"),
        ));
    }
    curves
}

/// Every trace, at the published points nearest to 1, 10 and 25 % of its keys: the same miss ratio
/// to six digits.
#[test]
fn exact_lru_agrees_with_the_published_curves() {
    let Some(folder) = traces() else { return };
    let mut checked = 0;
    for (name, curve) in curves(&folder) {
        let path = trace_file(&folder, &name);
        let mut reader = TraceReader::open(&path).expect("an open trace");
        let mut points: Vec<_> = [0.01, 0.1, 0.25]
            .iter()
            .filter_map(|share: &f64| {
                curve.iter().min_by(|a, b| (a.1 - share).abs().total_cmp(&(b.1 - share).abs())).copied()
            })
            .collect();
        if name.ends_with("_512B") {
            // Thirteen million requests each: one point is enough.
            points.truncate(2);
            points.remove(0);
        }
        let mut caches: Vec<_> =
            points.iter().map(|(objects, ..)| (ExactLru::by_items(*objects), 0)).collect();
        let mut requests = 0_u64;
        while let Some(request) = reader.next_request().expect("a readable trace") {
            requests += 1;
            let key = key_id(request.key);
            for (cache, misses) in &mut caches {
                *misses += u64::from(!cache.access(key, 1));
            }
        }
        for ((objects, _, published), (_, misses)) in points.iter().zip(&caches) {
            let found = *misses as f64 / requests as f64;
            assert!((found - published).abs() < 1e-6, "{name} at {objects}: {found} is not {published}");
            checked += 1;
        }
        println!("{name}: {requests} requests, {} points agree", points.len());
    }
    assert!(checked > 100, "only {checked} points were checked");
}
