//! Removals: estimators against plain LRU caches of each size.

use std::collections::HashSet;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use proptest::prelude::*;

use crate::{Estimator, GhostCache, Kind, Shards, StackDistance, Unit};

/// An LRU cache, the most recent key last. A lookup fills it like a read if the key exists
/// anywhere: a cache of another size has it.
struct PlainCache {
    room: u64,
    list: Vec<(u64, u64)>,
    misses: u64,
}

impl PlainCache {
    fn new(room: u64) -> Self {
        Self { room, list: Vec::new(), misses: 0 }
    }

    fn record(&mut self, key: u64, size: u64, kind: Kind, exists: bool) {
        let held = self.list.iter().position(|held| held.0 == key);
        let held = held.map(|at| self.list.remove(at));
        if kind == Kind::Remove {
            return;
        }
        self.misses += u64::from(kind.counts() && held.is_none());
        if kind == Kind::Lookup && !exists {
            return;
        }
        self.list.push((key, size));
        while self.list.iter().map(|held| held.1).sum::<u64>() > self.room {
            self.list.remove(0);
        }
    }
}

/// The keys that a cache of any size would have.
#[derive(Default)]
struct Existing(HashSet<u64>);

impl Existing {
    /// Records an access, and returns whether the key existed before.
    fn record(&mut self, key: u64, kind: Kind) -> bool {
        match kind {
            Kind::Lookup => self.0.contains(&key),
            Kind::Read | Kind::Write => !self.0.insert(key),
            Kind::Remove => self.0.remove(&key),
        }
    }
}

/// Checks the curves of all estimators at every `step` up to 40 of them.
fn check(unit: Unit, size: u32, accesses: &[(u64, Kind)]) -> Result<(), TestCaseError> {
    let step = if unit == Unit::Items { 1 } else { u64::from(size) };
    let mut plain: Vec<PlainCache> = (1..=40).map(|items| PlainCache::new(items * step)).collect();
    let mut exact = StackDistance::new(unit);
    let mut shards = Shards::fixed_rate(unit, 1.0);
    let mut ghost = GhostCache::new(unit, plain.iter().map(|cache| cache.room), 1.0);
    let (mut reads, mut existing) = (0.0, Existing::default());
    for &(key, kind) in accesses {
        reads += f64::from(u8::from(kind.counts()));
        let exists = existing.record(key, kind);
        plain.iter_mut().for_each(|cache| cache.record(key, step, kind, exists));
        let estimators: [&mut dyn Estimator; 3] = [&mut exact, &mut shards, &mut ghost];
        estimators.into_iter().for_each(|it| it.record(mix64(key), size, kind));
        exact.stack.validate();
    }
    shards.stack.validate();
    if reads > 0.0 {
        for (name, curve) in [("exact", exact.curve()), ("shards", shards.curve()), ("ghost", ghost.curve())]
        {
            for cache in &plain {
                let (learnt, true_one) = (curve.miss_ratio(cache.room as f64), cache.misses as f64 / reads);
                prop_assert!(
                    (learnt - true_one).abs() < 1e-9,
                    "{name} at {}: {learnt}, not {true_one}",
                    cache.room
                );
            }
        }
    }
    Ok(())
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::Read), 2 => Just(Kind::Remove), 1 => Just(Kind::Lookup), 1 => Just(Kind::Write)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn curves_with_removals_are_those_of_lru_caches_of_items(
        accesses in prop::collection::vec((0_u64..36, kinds()), 1..700),
    ) {
        check(Unit::Items, 1, &accesses)?;
    }

    /// Below 2^7 SHARDS tells distances apart, so sizes are small.
    #[test]
    fn curves_with_removals_are_those_of_lru_caches_of_bytes(
        accesses in prop::collection::vec((0_u64..36, kinds()), 1..700),
    ) {
        check(Unit::Bytes, 3, &accesses)?;
    }
}

/// The half of the keys that each cycle removes leaves free slots, which the next cycle takes.
/// Curves had 0.525 from 500 items on.
#[test]
fn a_cycle_of_reads_and_removals_misses_as_an_lru_cache_does() {
    let mut exact = StackDistance::new(Unit::Items);
    let mut shards = Shards::fixed_rate(Unit::Items, 1.0);
    let mut small = Shards::fixed_size(Unit::Items, 256);
    let mut ghost = GhostCache::new(Unit::Items, (1..=10).map(|hundreds| hundreds * 100), 1.0);
    for (key, kind) in (0..20).flat_map(|_| {
        (0..1000).map(|key| (key, Kind::Read)).chain((500..1000).map(|key| (key, Kind::Remove)))
    }) {
        let estimators: [&mut dyn Estimator; 4] = [&mut exact, &mut shards, &mut ghost, &mut small];
        estimators.into_iter().for_each(|it| it.record(mix64(key), 1, kind));
    }
    for (size, misses) in [(500.0, 1.0), (600.0, 0.905), (900.0, 0.62), (1000.0, 0.525)] {
        let curves = [(exact.curve(), 1e-9), (ghost.curve(), 1e-9), (shards.curve(), 0.015)];
        for (curve, most) in curves.into_iter().chain([(small.curve(), 0.1)]) {
            let error = curve.miss_ratio(size) - misses;
            assert!(error.abs() < most, "{} instead of {misses} at {size}", curve.miss_ratio(size));
        }
    }
    small.stack.validate();
    assert!(small.stack.extent() <= 256 && small.bytes() <= Shards::bytes_for(256, u64::MAX));
}

/// A read that fills nothing counted as a hit the next time, and so did that of a key that had been
/// removed.
#[test]
fn reads_that_fill_nothing_and_removals_are_as_in_caches_of_bytes() {
    let mut plain: Vec<PlainCache> = (1..=20).map(|i| PlainCache::new(i * 6_000)).collect();
    let mut exact = StackDistance::new(Unit::Bytes);
    let mut ghost = GhostCache::new(Unit::Bytes, plain.iter().map(|cache| cache.room), 1.0);
    let mut shards = Shards::fixed_size(Unit::Bytes, 10_000);
    let (mut rng, mut existing) = (seeded(11), Existing::default());
    for _ in 0..6_000 {
        let key = (rng.random::<f64>().powi(2) * 600.0) as u64;
        let size = 1 + mix64(key) as u32 % 300;
        let kind =
            [Kind::Lookup, Kind::Write, Kind::Remove, Kind::Lookup, Kind::Read][rng.random_range(0..5)];
        let exists = existing.record(key, kind);
        plain.iter_mut().for_each(|cache| cache.record(key, u64::from(size), kind, exists));
        let estimators: [&mut dyn Estimator; 3] = [&mut exact, &mut ghost, &mut shards];
        estimators
            .into_iter()
            .for_each(|it| it.record(mix64(key), if kind == Kind::Lookup { 0 } else { size }, kind));
    }
    let requests = exact.curve().confidence().unwrap().requests;
    for cache in &plain {
        let (size, misses) = (cache.room as f64, cache.misses as f64 / requests);
        for (curve, most) in [(exact.curve(), 0.001), (shards.curve(), 0.01), (ghost.curve(), 1e-9)] {
            let error = curve.miss_ratio(size) - misses;
            assert!(error.abs() < most, "{} instead of {misses} at {size}", curve.miss_ratio(size));
        }
    }
    exact.stack.validate();
    shards.stack.validate();
}

/// Items of many sizes that come and go leave more holes than there are keys; the fixed size counts
/// them.
#[test]
fn memory_stays_within_bounds_while_keys_are_removed() {
    let mut shards = Shards::fixed_size(Unit::Bytes, 200);
    let bound = Shards::bytes_for(200, u64::MAX);
    let mut rng = seeded(7);
    for step in 0..100_000_u32 {
        let key = rng.random_range(0_u64..2_000);
        let kind = if rng.random_bool(0.4) { Kind::Remove } else { Kind::Read };
        let size = 1 << rng.random_range(0..16);
        shards.record(mix64(key), size, kind);
        assert!(shards.stack.extent() <= 200, "step {step}");
    }
    assert!(shards.bytes() <= bound, "{} bytes, and at most {bound}", shards.bytes());
    assert!(shards.keys() > 20, "{}", shards.keys());
    shards.stack.validate();
}
