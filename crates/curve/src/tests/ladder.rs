//! Miniatures around the present size of a cache, beside caches of each size.

use std::collections::{HashMap, VecDeque};

use base::hash::mix64;
use base::rng::{Rng, SeededRng, seeded};

use crate::ladder::RUNGS;
use crate::{Access, Estimator, Eviction, Kind, Ladder, Shards, Unit};

/// The order of a FIFO.
#[derive(Default)]
struct Fifo(VecDeque<u32>);

impl Eviction for Fifo {
    fn hit(&mut self, slot: u32, _hash: u64) {
        assert!(self.0.contains(&slot), "a key that is hit is queued");
    }

    fn push(&mut self, slot: u32, _hashes: &dyn Fn(u32) -> u64) {
        self.0.push_back(slot);
    }

    fn pop(&mut self, _hashes: &dyn Fn(u32) -> u64) -> Option<u32> {
        self.0.pop_front()
    }

    fn bytes(&self) -> usize {
        self.0.len() * 4
    }
}

/// A cache with that order out of plain maps.
struct Plain {
    queue: VecDeque<u64>,
    sizes: HashMap<u64, u32>,
    used: u64,
    capacity: u64,
}

impl Plain {
    fn new(capacity: u64) -> Self {
        Self { queue: VecDeque::new(), sizes: HashMap::new(), used: 0, capacity }
    }

    fn read(&mut self, key: u64) -> bool {
        let is_hit = self.sizes.contains_key(&key);
        if !is_hit {
            self.used += u64::from(size_of(key));
            self.sizes.insert(key, size_of(key));
            self.queue.push_back(key);
            while self.used > self.capacity {
                let oldest = self.queue.pop_front().expect("what is used is queued");
                self.used -= u64::from(self.sizes.remove(&oldest).expect("what is queued is there"));
            }
        }
        is_hit
    }
}

fn size_of(key: u64) -> u32 {
    50 + mix64(key) as u32 % 100
}

/// A key out of `keys`, the first ones far more often.
fn draw(rng: &mut SeededRng, keys: u64) -> u64 {
    let uniform = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (uniform.powi(3) * keys as f64) as u64
}

fn read(key: u64) -> Access {
    Access { hash: mix64(key), size: size_of(key), kind: Kind::Read }
}

/// A ladder and LRU's curve of these reads, in batches as a live pool has them.
fn learnt(rate: f64, max_keys: usize, size: u64, reads: impl Iterator<Item = u64>) -> (Ladder<Fifo>, Shards) {
    let mut ladder = Ladder::new(rate, max_keys, Fifo::default);
    let mut lru = Shards::new(Unit::Bytes, rate, max_keys);
    let accesses: Vec<Access> = reads.map(read).collect();
    for batch in accesses.chunks(100) {
        ladder.follow(size, size / 100);
        ladder.record_all(batch);
        ladder.count(0);
        lru.record_all(batch);
    }
    (ladder, lru)
}

/// The misses per read of the second half in a FIFO of this size.
fn missed(size: u64, reads: &[u64]) -> f64 {
    let mut cache = Plain::new(size);
    let hits: Vec<bool> = reads.iter().map(|&key| cache.read(key)).collect();
    let half = &hits[hits.len() / 2..];
    half.iter().filter(|is_hit| !**is_hit).count() as f64 / half.len() as f64
}

#[test]
fn the_curve_near_the_size_is_that_of_the_policy() {
    let mut rng = seeded(1);
    let reads: Vec<u64> = (0..400_000).map(|_| draw(&mut rng, 20_000)).collect();
    for (rate, max_keys, most) in [(1.0, 1 << 20, 0.005), (0.25, 1 << 20, 0.015), (1.0, 2_000, 0.02)] {
        let (ladder, lru) = learnt(rate, max_keys, 300_000, reads.iter().copied());
        let lru = lru.curve();
        let curve = ladder.curve(&lru).expect("all are counted");
        for size in [180_000_u64, 220_000, 300_000, 420_000, 500_000] {
            let (learnt, came) = (curve.miss_ratio(size as f64), missed(size, &reads));
            assert!((learnt - came).abs() < most, "{learnt} and {came} at {size}, one key in {}", 1.0 / rate);
            // Which LRU's would not have told.
            let by_lru = (came - lru.miss_ratio(size as f64)).abs();
            assert!(rate < 1.0 || max_keys < 1 << 20 || by_lru > 0.02, "{by_lru} at {size}");
        }
        // Below and above it falls, from everything to what LRU would miss or more.
        let points = curve.points();
        assert_eq!(points[0].miss_ratio, 1.0);
        assert!(points.windows(2).all(|pair| pair[1].miss_ratio <= pair[0].miss_ratio));
    }
}

/// All keys are alike, so that the curve is a straight line. Miniatures that come as the size
/// changes have seen few reads, by chance more or fewer hits than others, and the curve was flat or
/// steep between those and the ones that stay.
#[test]
fn the_slope_is_right_while_the_size_changes_all_the_time() {
    const KEYS: u64 = 20_000;
    let mut rng = seeded(1);
    let mut ladder = Ladder::new(0.25, 1 << 20, Fifo::default);
    let mut lru = Shards::new(Unit::Bytes, 0.25, 1 << 20);
    let (mut off, mut looks) = (0.0, 0);
    for turn in 0..60 {
        let size = [250_000_u64, 330_000, 440_000, 330_000][turn % 4];
        for _ in 0..30 {
            ladder.follow(size, size / 100);
            let accesses: Vec<Access> = (0..100).map(|_| read(rng.next_u64() % KEYS)).collect();
            ladder.record_all(&accesses);
            ladder.count(0);
            lru.record_all(&accesses);
            let Some(curve) = ladder.curve(&lru.curve()).filter(|_| turn >= 8) else { continue };
            let [smaller, larger] = [0.84, 1.19].map(|times| times * size as f64);
            let falls = curve.miss_ratio(smaller) - curve.miss_ratio(larger);
            let right = (larger - smaller) / (KEYS as f64 * 99.5);
            off += (falls / right - 1.0).abs();
            looks += 1;
        }
    }
    let mean = off / f64::from(looks);
    assert!(looks > 1_000 && mean < 0.08, "off by {mean} of it, {looks} looks");
}

#[test]
fn keys_stay_within_bounds_while_ever_new_ones_come() {
    let mut ladder = Ladder::new(1.0, 1_000, Fifo::default);
    ladder.follow(1_000_000, 0);
    for batch in 0..4_000_u64 {
        let accesses: Vec<Access> = (0..100).map(|i| read(batch * 100 + i)).collect();
        ladder.record_all(&accesses);
        ladder.count(0);
        assert!(ladder.bytes() < 1_000 * 160, "{}", ladder.bytes());
    }
    // The largest is of 1.7 megabytes, or 17,000 items of 100 B.
    assert!(f64::from(ladder.threshold()) / f64::from(crate::sample::PLACES) > 0.01);
}

#[test]
fn miniatures_follow_the_size_and_keep_what_they_know() {
    let mut rng = seeded(2);
    let reads: Vec<u64> = (0..100_000).map(|_| draw(&mut rng, 5_000)).collect();
    let (mut ladder, lru) = learnt(1.0, 1 << 20, 100_000, reads.iter().copied());
    let lru = lru.curve();
    let before = ladder.curve(&lru).expect("all are counted");
    let ends = |ladder: &Ladder<Fifo>| {
        let curve = ladder.curve(&lru).expect("some are counted");
        [70_000.0, 100_000.0, 140_000.0].map(|size| curve.miss_ratio(size))
    };
    let known = ends(&ladder);
    // A little more, and back: nothing is lost.
    [108_000, 100_000, 92_000, 100_000].into_iter().for_each(|size| ladder.follow(size, size / 100));
    assert_eq!(ends(&ladder), known);
    // Twice as much: new ones are not told before they are full.
    ladder.follow(200_000, 2_000);
    let after = ladder.curve(&lru).expect("some are counted");
    assert!((after.miss_ratio(140_000.0) - before.miss_ratio(140_000.0)).abs() < 0.01);
    for batch in reads.chunks(100) {
        let batch: Vec<Access> = batch.iter().map(|&key| read(key)).collect();
        ladder.record_all(&batch);
        ladder.count(0);
    }
    let learnt = ladder.curve(&lru).expect("all are counted").miss_ratio(282_000.0);
    let came = missed(282_000, &[&reads[..], &reads[..]].concat());
    assert!((learnt - came).abs() < 0.02, "{learnt} and {came}");
    // Far away: nothing is known yet.
    ladder.follow(100_000_000, 1_000_000);
    assert!(ladder.curve(&lru).is_none());
    for size in [0, 1, u64::MAX] {
        ladder.follow(size, size / 100);
    }
    const { assert!(RUNGS == 7) };
}

/// A live pool reports a find that misses, and then what is stored.
#[test]
fn finds_that_miss_and_what_is_stored_then_count_once() {
    let (mut by_reads, mut by_stores) =
        (Ladder::new(1.0, 1 << 20, Fifo::default), Ladder::new(1.0, 1 << 20, Fifo::default));
    let mut rng = seeded(3);
    let mut pool = Plain::new(50_000);
    let lru = crate::MissRatioCurve::uniform(Unit::Bytes, 500_000);
    for _ in 0..60_000 {
        let key = draw(&mut rng, 2_000);
        let access = read(key);
        by_reads.follow(50_000, 500);
        by_stores.follow(50_000, 500);
        by_reads.record_all(&[access]);
        by_reads.count(0);
        if pool.read(key) {
            by_stores.record_all(&[access]);
            by_stores.count(0);
        } else {
            let found_nothing = Access { size: 0, kind: Kind::Lookup, ..access };
            by_stores.record_all(&[found_nothing, Access { kind: Kind::Write, ..access }]);
            by_stores.count(0);
        }
    }
    let [by_reads, by_stores] = [by_reads, by_stores].map(|ladder| ladder.curve(&lru).expect("counted"));
    for size in [25_000.0, 50_000.0, 100_000.0] {
        let (one, other) = (by_reads.miss_ratio(size), by_stores.miss_ratio(size));
        assert!((one - other).abs() < 1e-4, "{one} and {other} at {size}");
    }
}

#[test]
fn ageing_forgets_and_removed_keys_are_missed() {
    let mut ladder = Ladder::new(1.0, 1 << 20, Fifo::default);
    ladder.follow(50_000, 500);
    let lru = crate::MissRatioCurve::uniform(Unit::Bytes, 500_000);
    let mut rng = seeded(4);
    let mut run = |ladder: &mut Ladder<Fifo>, removes: bool| {
        for _ in 0..40_000 {
            let access = read(draw(&mut rng, 2_000));
            ladder.record_all(&[access]);
            ladder.count(0);
            if removes && access.hash.is_multiple_of(2) {
                ladder.record_all(&[Access { kind: Kind::Remove, ..access }]);
                ladder.count(0);
            }
        }
    };
    run(&mut ladder, false);
    let before = ladder.curve(&lru).expect("counted").miss_ratio(50_000.0);
    run(&mut ladder, true);
    let mixed = ladder.curve(&lru).expect("counted").miss_ratio(50_000.0);
    for _ in 0..12 {
        ladder.age();
    }
    run(&mut ladder, true);
    let after = ladder.curve(&lru).expect("counted").miss_ratio(50_000.0);
    assert!(
        before < 0.6 && mixed > before && after > mixed + 0.02 && after > 0.6,
        "{before}, {mixed}, {after}"
    );
}

/// The reads that were not recorded are told at the end of a second, and most are of the time
/// before a miniature was full.
#[test]
fn reads_before_a_miniature_counts_are_not_counted_as_its_hits() {
    let mut rng = seeded(5);
    let mut ladder = Ladder::new(1.0 / 16.0, 1 << 20, Fifo::default);
    let lru = crate::MissRatioCurve::uniform(Unit::Bytes, 20_000_000);
    ladder.follow(4_000_000, 40_000);
    for second in 0..30 {
        let mut unrecorded = 0;
        for _ in 0..40_000 {
            let access = read(draw(&mut rng, 200_000));
            if crate::sample::place(access.hash) < ladder.threshold() {
                ladder.record_all(&[access]);
            } else {
                unrecorded += 1;
            }
        }
        ladder.count(unrecorded);
        if let Some(curve) = ladder.curve(&lru) {
            // With room for a fifth of the keys.
            let told = curve.miss_ratio(4_000_000.0);
            assert!((0.45..0.65).contains(&told), "{told} after {second} s");
        }
    }
    assert!(ladder.curve(&lru).is_some());
}

/// Ten times as many keys fit as the cache has on average: the rate that fits is found, and kept.
#[test]
fn small_items_among_large_ones_do_not_begin_it_anew_for_ever() {
    let mut rng = seeded(6);
    let mut ladder = Ladder::new(1.0, 2_000, Fifo::default);
    let lru = crate::MissRatioCurve::uniform(Unit::Bytes, 20_000_000);
    let mut told = 0;
    for _ in 0..40 {
        ladder.follow(2_000_000, 2_000);
        told += u32::from(ladder.curve(&lru).is_some());
        for _ in 0..20_000 {
            let access = read(draw(&mut rng, 60_000));
            ladder.record_all(&[access]);
        }
        ladder.count(0);
    }
    assert!(told >= 30, "told in {told} of 40 rounds");
}

/// Sessions: stored, read, and removed before anything is full.
#[test]
fn keys_that_are_removed_do_not_pile_up() {
    let mut ladder = Ladder::new(1.0, 300, Fifo::default);
    ladder.follow(30_000, 300);
    for batch in 0..2_000_u64 {
        let of_key = |key: u64| {
            let access = read(batch * 50 + key);
            [Kind::Lookup, Kind::Write, Kind::Remove].map(|kind| Access { kind, ..access })
        };
        let accesses: Vec<Access> = (0..50).flat_map(of_key).collect();
        ladder.record_all(&accesses);
        assert!(ladder.bytes() < 40_000, "{} bytes after {batch} batches", ladder.bytes());
    }
}
