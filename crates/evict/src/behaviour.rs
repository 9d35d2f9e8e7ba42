//! Checks of what every policy must do.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::PolicyKind;
use crate::testing::{Sim, keys};

/// Every policy with its default and with other parameters.
fn kinds() -> Vec<PolicyKind> {
    let others = [
        PolicyKind::Lru { refresh_secs: 0 },
        PolicyKind::LruInsertion { shift: 3 },
        PolicyKind::TwoQ { hot_percent: 10, cold_percent: 60 },
        PolicyKind::TinyLfu { window_percent: 20 },
        PolicyKind::WTinyLfu { window_percent: 50 },
        PolicyKind::S3Fifo { small_percent: 50 },
    ];
    PolicyKind::ALL.into_iter().chain(others).collect()
}

#[test]
fn what_is_held_is_passed_over() {
    for kind in kinds() {
        let mut sim = Sim::new(kind, 3);
        (1..=3).for_each(|key| {
            sim.access(key);
        });
        sim.hold(1, true);
        sim.access(4);
        assert!(sim.contains(1) && sim.len() == 3, "{kind}");
        (2..=4).for_each(|key| sim.hold(key, true));
        assert!(!sim.evict(), "{kind}: all are held");
        sim.hold(1, false);
        assert!(sim.evict() && !sim.contains(1), "{kind}");
        sim.validate();
    }
}

#[test]
fn the_last_items_are_evicted_and_then_none() {
    for kind in kinds() {
        let mut sim = Sim::new(kind, 100);
        (0..250).for_each(|i| {
            sim.access(i % 130);
        });
        let drained = sim.drain();
        assert_eq!(drained.iter().collect::<HashSet<_>>().len(), 100, "{kind}");
        assert!(!sim.evict(), "{kind}");
        sim.access(1);
        assert_eq!(sim.drain(), [1], "{kind}");
    }
}

#[test]
fn overwriting_for_ever_takes_bounded_memory() {
    for kind in kinds() {
        let mut sim = Sim::new(kind, 2_000);
        for i in 0..200_000_u64 {
            let key = i % 1_000;
            sim.remove(key);
            sim.access(key);
            if i % 3 == 0 {
                sim.access(key);
            }
        }
        assert!(sim.policy.queue_bytes() <= 128 << 10, "{kind}: {}", sim.policy.queue_bytes());
        sim.validate();
    }
}

#[test]
fn memory_per_item_is_what_the_kind_says() {
    const ITEMS: usize = 60_000;
    let keys = keys(5, 250_000, 200_000, 0.7);
    for kind in PolicyKind::ALL {
        let mut sim = Sim::new(kind, ITEMS);
        for key in &keys {
            sim.access(*key);
        }
        let bytes = sim.policy.queue_bytes() + sim.policy.ghost_bytes();
        // Segments, generations and the like do not grow with the items.
        let most = ITEMS as u64 * kind.bytes_per_item_x100() / 100 + (96 << 10);
        assert!(bytes as u64 <= most, "{kind}: {bytes} bytes, {most} at most");
    }
}

#[test]
fn scans_do_less_harm_than_under_lru() {
    let keys = keys(3, 150_000, 10_000, 0.9);
    let lru = Sim::new(PolicyKind::Lru { refresh_secs: 0 }, 500).hit_ratio(&keys);
    // Without a split, `lru+split` is LRU.
    let is_lru = |kind: &PolicyKind| matches!(kind, PolicyKind::Lru { .. } | PolicyKind::LruSplit);
    for kind in PolicyKind::ALL.into_iter().filter(|kind| !is_lru(kind)) {
        let ours = Sim::new(kind, 500).hit_ratio(&keys);
        assert!(ours > lru + 0.015, "{kind}: {ours} against {lru}");
    }
}

#[test]
fn whatever_bits_an_item_has_it_is_evicted_in_time() {
    for kind in kinds() {
        let mut sim = Sim::new(kind, 300);
        for i in 0..20_000_u64 {
            sim.access(base::hash::mix64(i) % 500);
            sim.set_bits(base::hash::mix64(i + 1) % 500, base::hash::mix64(i) as u8);
        }
        assert_eq!(sim.drain().len(), 300, "{kind}");
    }
}

/// Every item was hit, several times, and so it would be spared: [`Sim`] counts what an eviction
/// looks at.
#[test]
fn an_eviction_looks_at_a_limited_number_of_items_however_often_they_were_hit() {
    for kind in kinds() {
        for races in [false, true] {
            let mut sim = Sim::new(kind, 10_000);
            (0..10_000).for_each(|key| {
                sim.access(key);
            });
            (0..4).flat_map(|_| 0..10_000).for_each(|key| {
                sim.access(key);
            });
            if races {
                sim.race();
            }
            for key in 10_000..11_000 {
                sim.access(key);
                assert!(sim.len() == 10_000 && sim.contains(key), "{kind}: nothing was evicted");
            }
            assert_eq!(sim.drain().len(), 10_000, "{kind}");
        }
    }
}

/// All removed items are neighbours in the queues, so that their entries are met in a row.
#[test]
fn an_eviction_drops_a_limited_number_of_stale_entries_and_says_so() {
    for kind in kinds() {
        let mut sim = Sim::new(kind, 100_000);
        (0..100_000).for_each(|key| {
            sim.access(key);
        });
        (0..20_000).for_each(|key| sim.remove(key));
        (0..20_000).for_each(|_| assert!(sim.evict(), "{kind}"));
        sim.validate();
        assert_eq!(sim.drain().len(), 60_000, "{kind}");
    }
}

#[test]
fn conversion_keeps_items_and_their_order() {
    for from in kinds() {
        for to in kinds() {
            let mut sim = Sim::new(from, 400);
            let rule = sim.policy.hit_rule();
            keys(7, 6_000, 2_000, 0.8).into_iter().for_each(|key| {
                sim.access(key);
            });
            sim.convert(to);
            assert_eq!((sim.policy.kind(), sim.policy.len()), (to, 400), "{from} to {to}");
            sim.validate();
            let _ = rule.apply(0, false, || 0);
            let hits = keys(8, 3_000, 2_000, 0.8).into_iter().filter(|key| sim.access(*key)).count();
            assert!(hits > 900, "{from} to {to}: {hits}");
            sim.validate();
            assert_eq!(sim.drain().len(), 400, "{from} to {to}");
        }
    }
}

#[test]
fn conversion_from_lru_evicts_the_least_recently_used_first() {
    // With half of the items in each of its queues, S3-FIFO takes from them in turn.
    for to in kinds().into_iter().filter(|to| *to != PolicyKind::S3Fifo { small_percent: 50 }) {
        let mut sim = Sim::new(PolicyKind::Lru { refresh_secs: 0 }, 200);
        (0..200).chain(0..50).for_each(|key| {
            sim.access(key);
        });
        sim.convert(to);
        (0..20).for_each(|_| assert!(sim.evict()));
        // The 20 that were used longest ago are those after the 50 that were hit.
        assert!((0..50).chain(100..200).all(|key| sim.contains(key)), "{to}");
    }
}

/// [`Sim`] counts what a step looks at; all items were hit, so that there is much to look at.
#[test]
fn conversion_step_is_limited_however_many_items_there_are() {
    for (from, to) in kinds().into_iter().zip(kinds().into_iter().cycle().skip(3)) {
        let mut sim = Sim::new(from, 10_000);
        (0..10_000).chain(0..10_000).for_each(|key| {
            sim.access(key);
        });
        let mut steps = 0;
        while sim.convert_some(to, 100) {
            steps += 1;
        }
        assert!(steps >= 100, "{from} to {to}: {steps}");
        sim.validate();
    }
}

#[test]
fn cache_serves_between_the_steps_of_a_conversion() {
    for (i, from) in kinds().into_iter().enumerate() {
        for to in kinds().into_iter().filter(|to| *to != from) {
            let mut sim = Sim::new(from, 400);
            let mut keys = keys(i as u64, 20_000, 1_500, 0.8).into_iter();
            keys.by_ref().take(4_000).for_each(|key| {
                sim.access(key);
            });
            for round in 0.. {
                // Another conversion that is asked for meanwhile begins when this one has ended.
                if !sim.convert_some(if round < 5 { to } else { PolicyKind::Sieve }, 20) {
                    break;
                }
                for key in keys.by_ref().take(20) {
                    sim.access(key);
                    if key % 7 == 0 {
                        sim.remove(key);
                    }
                }
                sim.validate();
            }
            assert_eq!((sim.policy.kind(), sim.policy.unconverted()), (PolicyKind::Sieve, 0));
            keys.take(1_000).for_each(|key| {
                sim.access(key);
            });
            let items = sim.len();
            assert_eq!(sim.drain().len(), items, "{from} to {to}");
        }
    }
}

#[test]
fn evictions_during_a_conversion_spare_what_was_used_last() {
    for to in kinds().into_iter().skip(1) {
        for steps in [1, 5, 9] {
            let mut sim = Sim::new(PolicyKind::LRU, 1_000);
            (0..1_000).for_each(|key| {
                sim.access(key);
            });
            (0..steps).for_each(|_| assert!(sim.convert_some(to, 100)));
            (0..100).for_each(|_| assert!(sim.evict()));
            assert!((700..1_000).all(|key| sim.contains(key)), "{to} after {steps} steps");
            sim.validate();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_item_is_lost_or_evicted_twice(
        ops in prop::collection::vec((0_u8..24, 0_u64..200), 1..1_500),
        kind in 0_usize..15,
        capacity in 1_usize..150,
    ) {
        let kinds = kinds();
        let mut sim = Sim::new(kinds[kind], capacity);
        for (op, key) in ops {
            match op {
                0..3 => sim.remove(key),
                3..5 => { sim.evict(); }
                5..8 => sim.hold(key, true),
                8..12 => sim.hold(key, false),
                12 => sim.now += 1,
                13 => { sim.convert_some(kinds[key as usize % kinds.len()], 1 + key as usize % 40); }
                14 => sim.policy.set_tail_items(key as usize),
                _ => { sim.access(key); }
            }
            prop_assert!(sim.len() <= capacity);
        }
        sim.validate();
        (0..200).for_each(|key| sim.hold(key, false));
        sim.drain();
    }
}
