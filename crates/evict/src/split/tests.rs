use proptest::prelude::*;

use super::*;
use crate::PolicyKind;
use crate::testing::{Sim, fingerprint, keys, plain_lru};

/// A cache whose split is `target`.
fn sim(capacity: usize, split: Split) -> (Sim, Arc<SplitTarget>) {
    let target = Arc::new(SplitTarget::default());
    target.set(split);
    (Sim::following(PolicyKind::LruSplit, Arc::clone(&target), capacity), target)
}

fn hits_of_loop(sim: &mut Sim, keys: u64, rounds: usize) -> f64 {
    let hits = (0..rounds).flat_map(|_| 0..keys).filter(|key| sim.access(*key)).count();
    hits as f64 / (rounds as u64 * keys) as f64
}

#[test]
fn target_returns_the_split_that_was_set() {
    let target = SplitTarget::default();
    assert_eq!(target.get(), Split::NONE);
    for split in [(0.0, 0.0), (1.0, 1.0), (0.25, 0.01), (0.5, 0.0)] {
        target.set(Split { keys: split.0, memory: split.1 });
        let got = target.get();
        assert!((got.keys - split.0).abs() < 1e-9 && (got.memory - split.1).abs() < 1e-9, "{got:?}");
    }
    assert!(Split { keys: 0.3, memory: 1.0 }.is_valid());
    assert!(
        !Split { keys: f64::NAN, memory: 1.0 }.is_valid() && !Split { keys: 1.1, memory: 0.0 }.is_valid()
    );
}

#[test]
fn without_a_split_it_is_lru() {
    let keys = keys(11, 60_000, 8_000, 0.8);
    let (sim, _) = sim(1_500, Split::NONE);
    let (ours, plain) = (sim.hit_ratio(&keys), plain_lru(1_500, &keys));
    assert!((ours - plain).abs() < 0.003, "{ours} against {plain}");
}

/// While a cache fills no generation ends; if hits left no trace then, the first items to be
/// evicted would be the first that came.
#[test]
fn hits_while_the_cache_fills_count() {
    let (mut sim, _) = sim(50_000, Split::NONE);
    (0..50_000).for_each(|key| {
        sim.access(key);
        // The first ten thousand are hit again after they came.
        if key >= 40_000 {
            sim.access(key - 40_000);
        }
    });
    (100_000..115_000).for_each(|key| {
        sim.access(key);
    });
    let kept = (0..10_000).filter(|key| sim.contains(*key)).count();
    assert!(kept > 9_900, "{kept} of 10,000");
    sim.validate();
}

/// A loop over 10,000 keys in a cache of 6,000: LRU never hits, its hull promises 60 %.
#[test]
fn loop_that_does_not_fit_hits_along_the_hull() {
    let (mut sim, target) = sim(6_000, Split::NONE);
    assert!(hits_of_loop(&mut sim, 10_000, 3) < 0.01);
    // Between no memory and 5 % more than the loop needs.
    target.set(Split { keys: 1.0 - 6_000.0 / 10_500.0, memory: 0.0 });
    hits_of_loop(&mut sim, 10_000, 2);
    let hits = hits_of_loop(&mut sim, 10_000, 5);
    assert!((0.55..0.6).contains(&hits), "{hits}");
    sim.validate();
}

/// Hot keys are hit all the time, so that they would stay in the right partition for ever; with
/// them, it could not hold its keys of the loop.
#[test]
fn hot_items_change_to_the_partition_of_their_key() {
    let (hot, cycle) = (2_000_u64, 10_000_u64);
    let mut next = 0;
    let mut run = |sim: &mut Sim, requests: u64| {
        let hits = (0..requests).filter(|i| {
            next += 1;
            let key = if i % 2 == 0 { 1 << 32 | (next / 2 * 7 % hot) } else { next / 2 % cycle };
            sim.access(key)
        });
        hits.count() as f64 / requests as f64
    };
    let (mut sim, target) = sim(8_000, Split::NONE);
    run(&mut sim, 100_000);
    let plain = run(&mut sim, 40_000);
    assert!((0.49..0.51).contains(&plain), "the hot keys: {plain}");
    // Hot keys are hit with 4,000 in the cache, and all keys with 12,000.
    let (alpha, beta, size) = (4_200.0, 12_600.0, 8_000.0);
    let keys = (beta - size) / (beta - alpha);
    target.set(Split { keys, memory: keys * alpha / size });
    run(&mut sim, 100_000);
    let split = run(&mut sim, 40_000);
    let hull = 0.5 + 0.5 * (1.0 - keys);
    assert!(split > hull - 0.02, "{split}, and {hull} by the hull");
    sim.validate();
}

#[test]
fn items_of_a_split_that_is_no_more_are_kept() {
    let (mut sim, target) = sim(1_000, Split { keys: 0.5, memory: 0.5 });
    (0..1_000).for_each(|key| {
        sim.access(key);
    });
    let left = |sim: &Sim| sim.policy.queues(&sim.table, 0)[0].items;
    assert!(left(&sim) > 400);
    target.set(Split::NONE);
    (2_000..2_100).for_each(|key| {
        sim.access(key);
    });
    assert_eq!(left(&sim), 0, "they have moved");
    let kept = (0..1_000).filter(|key| sim.contains(*key)).count();
    assert_eq!(kept, 900, "as many left as came");
    let of_left = Shares { keys: u32::MAX / 2, memory: 0 };
    // The first ones came before there were enough to be split.
    let lost = (LEAST_ITEMS as u64..1_000).filter(|key| !sim.contains(*key));
    let lost_left = lost.filter(|key| of_left.home(fingerprint(*key)) == LEFT).count();
    assert_eq!(lost_left, 0, "those that moved are at the top");
    sim.validate();
}

#[test]
fn each_partition_is_held_to_its_share() {
    for (share, memory) in [(0.5, 0.1), (0.9, 0.3), (0.1, 0.6)] {
        let (mut sim, _) = sim(2_000, Split { keys: share, memory });
        (0..40_000).for_each(|key| {
            sim.access(key);
        });
        let queues = sim.policy.queues(&sim.table, 0);
        let left = queues[0].items as f64 / 2_000.0;
        assert!((left - memory).abs() < 0.01, "{left} of {memory}: {queues:?}");
    }
}

/// The class of the large items of a pool: most of its keys belong to the left partition, which may
/// hold less than one of them.
#[test]
fn class_of_few_items_is_lru() {
    let (mut sim, _) = sim(8, Split { keys: 0.6, memory: 0.1 });
    (0..100).for_each(|key| {
        sim.access(key);
    });
    assert!((92..100).all(|key| sim.contains(key)), "the last ones are there");
    sim.validate();
}

proptest! {
    #[test]
    fn no_item_is_lost_while_splits_change(
        ops in prop::collection::vec((0_u8..24, 0_u64..400), 1..3_000),
        capacity in 1_usize..300,
    ) {
        let (mut sim, target) = sim(capacity, Split::NONE);
        for (op, key) in ops {
            match op {
                0..3 => sim.remove(key),
                3 => { sim.evict(); }
                4 => sim.hold(key, true),
                5..8 => sim.hold(key, false),
                8 => target.set(Split { keys: key as f64 / 400.0, memory: (key * 7 % 400) as f64 / 400.0 }),
                9 => target.set(Split::NONE),
                10 => { sim.convert_some([PolicyKind::LRU, PolicyKind::LruSplit][key as usize % 2], 20); }
                _ => { sim.access(key); }
            }
            prop_assert!(sim.len() <= capacity);
        }
        sim.validate();
        (0..400).for_each(|key| sim.hold(key, false));
        sim.drain();
    }
}
