//! S3-FIFO against a plain one, and its behaviour under removals and held items.

use crate::PolicyKind;
use crate::testing::{Sim, keys, plain_lru, plain_s3fifo};
use proptest::prelude::*;

#[test]
fn hit_ratios_are_those_of_a_plain_s3fifo() {
    for (alpha, capacity) in [(0.6, 12), (0.6, 1_000), (0.9, 100), (0.9, 3_000), (1.2, 30), (1.2, 1_000)] {
        let keys = keys(2, 200_000, 10_000, alpha);
        let ours = Sim::new(PolicyKind::S3_FIFO, capacity).hit_ratio(&keys);
        let exact = plain_s3fifo(capacity, &keys);
        assert!((ours - exact).abs() < 0.004, "Zipf {alpha}, {capacity} items: {ours} against {exact}");
    }
}

#[test]
fn scans_do_less_harm_than_under_lru() {
    let keys = keys(3, 200_000, 10_000, 0.9);
    let (s3fifo, lru) = (Sim::new(PolicyKind::S3_FIFO, 500).hit_ratio(&keys), plain_lru(500, &keys));
    assert!(s3fifo > lru + 0.02, "{s3fifo} against {lru}");
}

#[test]
fn a_returning_key_enters_the_main_queue() {
    let mut sim = Sim::new(PolicyKind::S3_FIFO, 10);
    (0..11).for_each(|key| {
        sim.access(key);
    });
    assert!(!sim.contains(0), "the first one in was evicted");
    sim.access(0);
    // It sits in the main queue now: newcomers push each other out of the small one.
    (100..120).for_each(|key| {
        sim.access(key);
    });
    assert!(sim.contains(0));
}

#[test]
fn what_is_held_is_passed_over() {
    let mut sim = Sim::new(PolicyKind::S3_FIFO, 3);
    (1..=3).for_each(|key| {
        sim.access(key);
    });
    sim.hold(1, true);
    sim.access(4);
    assert!(sim.contains(1) && !sim.contains(2));
    [3, 4].iter().for_each(|key| sim.hold(*key, true));
    assert!(!sim.evict(), "all are held");
    sim.hold(3, false);
    assert!(sim.evict() && !sim.contains(3));
    sim.validate();
}

#[test]
fn overwriting_for_ever_takes_bounded_memory() {
    let mut sim = Sim::new(PolicyKind::S3_FIFO, 2_000);
    for i in 0..400_000_u64 {
        let key = i % 1_000;
        sim.remove(key);
        sim.access(key);
    }
    assert!(sim.policy.queue_bytes() <= 128 << 10, "{}", sim.policy.queue_bytes());
    sim.validate();
}

/// Found by the property test: a ghost of a class that shrank to nothing.
#[test]
fn evicting_the_last_items_of_a_class_is_fine() {
    let mut sim = Sim::new(PolicyKind::S3_FIFO, 2);
    sim.access(0);
    sim.access(1);
    assert!(sim.evict() && sim.evict() && !sim.evict());
    sim.validate();
}

proptest! {
    #[test]
    fn invariants_hold_under_any_operations(
        ops in prop::collection::vec((0_u8..8, 0_u64..200), 1..2_000),
        capacity in 1_usize..150,
    ) {
        let mut sim = Sim::new(PolicyKind::S3_FIFO, capacity);
        for (op, key) in ops {
            match op {
                0 => sim.remove(key),
                1 => { sim.evict(); }
                2 => sim.hold(key, true),
                3 => sim.hold(key, false),
                _ => { sim.access(key); }
            }
            prop_assert!(sim.len() <= capacity);
        }
        sim.validate();
    }
}
