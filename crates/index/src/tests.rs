//! The index against a plain map, alone and under many threads. An "item" is its pointer; its hash
//! follows from it.

use super::*;
use base::hash::mix64;
use base::rng::{RngExt, seeded};
use proptest::prelude::*;
use slab::ItemPtr;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn index(initial: u64, max: u64) -> Index {
    Index::new(initial, max, Arc::new(Ledger::new(u64::MAX))).expect("address space")
}

fn hash_of(ptr: ItemPtr) -> u64 {
    mix64(u64::from(ptr.to_bits()) + 1)
}

fn present(index: &Index, ptr: ItemPtr) -> bool {
    index.find(hash_of(ptr), |found| (found == ptr).then_some(())).is_some()
}

fn add(index: &Index, ptr: ItemPtr) {
    // Another thread may have been put to sleep in the middle of growth, with no room to spare.
    for _ in 0..10_000 {
        if index.lock(hash_of(ptr)).add(ptr).is_ok() {
            return;
        }
        base::thread::sleep(std::time::Duration::from_micros(100));
        grow(index, 8);
    }
    panic!("there is no room for {ptr:?}");
}

fn grow(index: &Index, buckets: u32) {
    let dropped = index.grow(buckets, hash_of, |_| ());
    assert!(dropped.is_empty(), "growth dropped {dropped:?}");
}

#[derive(Clone, Debug)]
enum Op {
    Add(u32),
    Remove(u32),
    Find(u32),
    Begin(u64),
    Grow(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0_u32..2_000).prop_map(Op::Add),
        3 => (0_u32..2_000).prop_map(Op::Remove),
        4 => (0_u32..2_000).prop_map(Op::Find),
        1 => (0_u64..4_000).prop_map(Op::Begin),
        3 => (1_u32..20).prop_map(Op::Grow),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_set(ops in prop::collection::vec(op(), 1..1_500)) {
        let index = index(1_000, 8_000);
        let mut model = HashSet::new();
        for op in ops {
            match op {
                Op::Add(i) if model.insert(i) => add(&index, ItemPtr::from_bits(i)),
                Op::Add(_) => {}
                Op::Remove(i) => {
                    let ptr = ItemPtr::from_bits(i);
                    prop_assert_eq!(index.remove(hash_of(ptr), ptr), model.remove(&i));
                }
                Op::Find(i) => prop_assert_eq!(present(&index, ItemPtr::from_bits(i)), model.contains(&i)),
                Op::Begin(expected) => { index.begin_growth(expected); }
                Op::Grow(buckets) => grow(&index, buckets),
            }
        }
        prop_assert_eq!(index.len(), model.len() as u64);
        for i in 0..2_000 {
            prop_assert_eq!(present(&index, ItemPtr::from_bits(i)), model.contains(&i));
        }
    }
}

#[test]
fn fills_to_the_target_and_grows_under_insertion() {
    let index = index(100, 1_000_000);
    for i in 0..300_000 {
        add(&index, ItemPtr::from_bits(i));
        if index.is_growing() {
            grow(&index, 4);
        } else if i % 16 == 0 && index.wants_growth() {
            assert!(index.begin_growth(u64::MAX >> 32));
        }
    }
    assert_eq!(index.len(), 300_000);
    for i in 0..300_000 {
        assert!(present(&index, ItemPtr::from_bits(i)), "{i}");
    }
    for i in 300_000..400_000 {
        assert!(!present(&index, ItemPtr::from_bits(i)), "{i}");
    }
    assert!(index.bytes() >= Index::bytes_for(300_000));
}

#[test]
fn growth_stops_at_what_is_expected() {
    let index = index(1_000, 100_000);
    assert!(index.begin_growth(1_500));
    while index.is_growing() {
        grow(&index, 1);
    }
    assert!((1_500..1_600).contains(&index.capacity()), "{}", index.capacity());
}

#[test]
fn a_full_neighbourhood_is_refused_and_leaves_no_trace() {
    let index = index(1, 1);
    let mut added = 0;
    loop {
        // The same hash for all: one home, and the 15 buckets behind it.
        let mut guard = index.lock(7);
        if guard.add(ItemPtr::from_bits(added)).is_err() {
            assert!(guard.home_slots().next().is_some());
            break;
        }
        added += 1;
    }
    assert_eq!(u64::from(added), 16 * 12);
    assert_eq!(index.len(), u64::from(added));
    for i in 0..added {
        assert!(index.remove(7, ItemPtr::from_bits(i)));
    }
    assert!(index.is_empty());
}

/// Keys that are never removed must be found at every moment, whatever moves around them.
#[test]
fn readers_never_miss_what_stays_while_writers_change_and_grow() {
    const KEEP: u32 = 20_000;
    let index = Arc::new(index(2_000, 400_000));
    for i in 0..KEEP {
        while index.lock(hash_of(ItemPtr::from_bits(i))).add(ItemPtr::from_bits(i)).is_err() {
            index.begin_growth(u64::from(KEEP));
            grow(&index, u32::MAX);
        }
        if index.wants_growth() {
            index.begin_growth(u64::from(KEEP) / 4);
            grow(&index, u32::MAX);
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|seed| {
            let (index, stop) = (Arc::clone(&index), Arc::clone(&stop));
            base::thread::spawn("reader", move || {
                let mut rng = seeded(seed);
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..1_000 {
                        let ptr = ItemPtr::from_bits(rng.random_range(0..KEEP));
                        assert!(present(&index, ptr), "{ptr:?} was missed");
                        let absent = ItemPtr::from_bits(u32::MAX - rng.random_range(0..KEEP));
                        assert!(!present(&index, absent));
                    }
                }
            })
            .expect("a thread")
        })
        .collect();
    let writers: Vec<_> = (0..2_u32)
        .map(|id| {
            let index = Arc::clone(&index);
            base::thread::spawn("writer", move || {
                let mut rng = seeded(u64::from(id) + 100);
                let first = KEEP * (id + 1) * 4;
                for round in 0..6 {
                    for i in first..first + KEEP {
                        add(&index, ItemPtr::from_bits(i));
                        grow(&index, 2);
                        if i % 64 == 0 && index.wants_growth() {
                            index.begin_growth(rng.random_range(0..400_000));
                        }
                    }
                    for i in first..first + KEEP {
                        let ptr = ItemPtr::from_bits(i);
                        assert!(index.remove(hash_of(ptr), ptr), "round {round}");
                    }
                }
            })
            .expect("a thread")
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("no panic");
    }
    assert_eq!(index.len(), u64::from(KEEP));
}
