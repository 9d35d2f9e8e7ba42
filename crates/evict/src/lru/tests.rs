//! LRU against a plain one, and its behaviour under removals, held items and time.

use super::*;
use crate::PolicyKind;
use crate::testing::{Sim, keys, plain_lru};
use proptest::prelude::*;

const EXACT: PolicyKind = PolicyKind::Lru { refresh_secs: 0 };

#[test]
fn hit_ratios_are_those_of_a_plain_lru() {
    for (alpha, capacity) in [(0.6, 12), (0.6, 1_000), (0.9, 100), (0.9, 3_000), (1.2, 30), (1.2, 1_000)] {
        let keys = keys(1, 200_000, 10_000, alpha);
        let (ours, exact) = (Sim::new(EXACT, capacity).hit_ratio(&keys), plain_lru(capacity, &keys));
        assert!((ours - exact).abs() < 0.002, "Zipf {alpha}, {capacity} items: {ours} against {exact}");
    }
}

#[test]
fn a_loop_larger_than_the_cache_never_hits() {
    let keys: Vec<u64> = (0..20_000).map(|i| i % 1_000).collect();
    for capacity in [10, 500, 999] {
        assert_eq!(Sim::new(EXACT, capacity).hit_ratio(&keys), 0.0);
    }
    assert!(Sim::new(EXACT, 1_000).hit_ratio(&keys) > 0.94);
}

#[test]
fn few_items_are_evicted_in_exact_order() {
    let mut sim = Sim::new(EXACT, 4);
    for key in [1, 2, 3, 4, 1, 3, 2] {
        sim.access(key);
    }
    for (new, gone) in [(5, 4), (6, 1), (7, 3), (8, 2)] {
        sim.access(new);
        assert!(!sim.contains(gone), "{gone}");
    }
}

#[test]
fn the_refresh_time_holds_back_all_but_the_first_hit() {
    let mut sim = Sim::new(PolicyKind::Lru { refresh_secs: 60 }, 3);
    sim.access(1);
    sim.access(2);
    sim.access(3);
    // The first hit promotes at once; the second, within the refresh time, does not.
    sim.now = 10;
    sim.access(1);
    sim.access(2);
    sim.access(3);
    sim.access(1);
    sim.access(4);
    assert!(!sim.contains(1), "its second hit came within 60 s");
    sim.now = 100;
    sim.access(2);
    sim.access(5);
    assert!(sim.contains(2) && !sim.contains(3), "2 was promoted after 90 s");
    assert_eq!(sim.policy.tail_age_secs(100), Some(90));
}

#[test]
fn a_generation_that_a_hit_begins_has_its_time() {
    let mut sim = Sim::new(EXACT, 2);
    sim.now = 10;
    for key in [1, 2, 1, 2] {
        sim.access(key);
    }
    // What is there now was queued in a generation that a hit began.
    for key in [3, 4] {
        sim.access(key);
    }
    sim.now = 100;
    assert_eq!(sim.policy.tail_age_secs(100), Some(90));
}

#[test]
fn what_is_held_is_passed_over() {
    let mut sim = Sim::new(EXACT, 3);
    (1..=3).for_each(|key| {
        sim.access(key);
    });
    sim.hold(1, true);
    sim.access(4);
    assert!(sim.contains(1) && !sim.contains(2));
    [3, 4].iter().for_each(|key| sim.hold(*key, true));
    assert!(!sim.evict(), "all are held");
    sim.hold(1, false);
    assert!(sim.evict());
    sim.validate();
}

#[test]
fn overwriting_for_ever_takes_bounded_memory() {
    let mut sim = Sim::new(EXACT, 2_000);
    for i in 0..400_000_u64 {
        let key = i % 1_000;
        sim.remove(key);
        sim.access(key);
    }
    assert!(sim.policy.queue_bytes() < 60_000, "{}", sim.policy.queue_bytes());
    sim.validate();
}

proptest! {
    #[test]
    fn invariants_hold_under_any_operations(
        ops in prop::collection::vec((0_u8..8, 0_u64..200), 1..2_000),
        refresh_secs in 0_u32..3,
        capacity in 1_usize..150,
    ) {
        let mut sim = Sim::new(PolicyKind::Lru { refresh_secs }, capacity);
        for (op, key) in ops {
            match op {
                0 => sim.remove(key),
                1 => { sim.evict(); }
                2 => sim.hold(key, true),
                3 => sim.hold(key, false),
                4 => sim.now += 1,
                _ => { sim.access(key); }
            }
            prop_assert!(sim.len() <= capacity);
        }
        sim.validate();
    }
}

#[test]
fn generations_stay_within_the_window_without_evictions() {
    let clock = LruClock::default();
    let mut stamp = 0_u8;
    for _ in 0..100_000 {
        stamp = clock.hit(stamp.wrapping_sub(1), false, || 0);
    }
    assert!(clock.present.load(Ordering::Relaxed) <= WINDOW);
}
