use std::sync::OnceLock;

use evict::PolicyKind;
use proptest::prelude::*;

use super::index::TABLE_KEYS;
use super::*;

/// A plain LRU by bytes: the newest first.
#[derive(Default)]
struct Plain {
    held: Vec<(u64, u32)>,
    capacity: u64,
}

impl Plain {
    fn access(&mut self, key: u64, size: u32) -> bool {
        let found = self.held.iter().position(|held| held.0 == key);
        if let Some(place) = found {
            let held = self.held.remove(place);
            self.held.insert(0, held);
            return true;
        }
        if u64::from(size) <= self.capacity {
            self.held.insert(0, (key, size));
            self.shrink();
        }
        false
    }

    fn shrink(&mut self) {
        while self.held.iter().map(|held| u64::from(held.1)).sum::<u64>() > self.capacity {
            self.held.pop();
        }
    }
}

proptest! {
    #[test]
    fn exact_lru_is_exact_whatever_happens_to_its_size(
        steps in proptest::collection::vec((0_u64..30, 1_u32..20, 0_u8..20), 1..400),
    ) {
        let mut cache = Cache::new(Eviction::ExactLru, 100, 1);
        let mut plain = Plain { capacity: 100, ..Plain::default() };
        for (key, size, action) in steps {
            // Keys of both kinds of index.
            let name = if key % 2 == 0 { key } else { key + TABLE_KEYS };
            match action {
                0 => {
                    let capacity = u64::from(size) * 12;
                    cache.set_capacity(capacity);
                    plain.capacity = capacity;
                    plain.shrink();
                }
                _ => prop_assert_eq!(cache.access(0, name, size, 0), plain.access(name, size)),
            }
            prop_assert_eq!(cache.used(), plain.held.iter().map(|held| u64::from(held.1)).sum::<u64>());
        }
        cache.validate();
    }

    #[test]
    fn the_engines_policies_keep_within_bounds(
        kind in 0..PolicyKind::ALL.len(),
        steps in proptest::collection::vec((0_u64..200, 1_u32..50, 0_u8..40), 1..600),
    ) {
        let mut cache = Cache::new(Eviction::Engine(PolicyKind::ALL[kind]), 1_000, 2);
        for (key, size, action) in steps {
            match action {
                0 => cache.set_capacity(u64::from(size) * 40),
                2 => {
                    let bytes = u64::from(size) * 40;
                    let left = bytes * (key % 5) / 8;
                    let split = Split { ratio: key as f64 / 400.0, left, right: bytes - left };
                    cache.set_room(bytes, Some(split));
                }
                1 => {
                    cache.remove((key % 2) as usize, key);
                }
                _ => {
                    cache.access((key % 2) as usize, key, size, 0);
                }
            }
        }
        cache.validate();
    }
}

/// The engine's memory for items of this test's sizes.
fn engine_memory() -> &'static Arc<EngineMemory> {
    static ASKED: OnceLock<Arc<EngineMemory>> = OnceLock::new();
    ASKED.get_or_init(|| {
        let items: Vec<_> = (1..200).map(|i| (8, i * i)).collect();
        Arc::new(EngineMemory::ask(PolicyKind::default(), &items).unwrap())
    })
}

proptest! {
    #[test]
    fn size_classes_share_the_memory_and_keep_within_it(
        kind in 0..=PolicyKind::ALL.len(),
        steps in proptest::collection::vec((0_u64..500, 0_u32..200, 0_u8..60), 1..3_000),
    ) {
        let eviction = PolicyKind::ALL.get(kind).map_or(Eviction::ExactLru, |kind| Eviction::Engine(*kind));
        let mut cache = Cache::of_engine(eviction, 1 << 20, 2, engine_memory(), 0.95);
        for (at, (key, size, action)) in (0..).zip(steps) {
            let (owner, len, now) = ((key % 2) as usize, size * size, at / 8);
            match action {
                0 => cache.set_capacity((u64::from(size) + 1) << 14),
                1 => {
                    let (bytes, part) = ((u64::from(size) + 1) << 14, key % 5);
                    let left = bytes * part / 8;
                    cache.set_room(bytes, Some(Split { ratio: part as f64 / 5.0, left, right: bytes - left }));
                }
                2..5 => {
                    cache.remove(owner, key);
                }
                5..20 => cache.store(owner, key, len, now, if action < 10 { now + 20 } else { 0 }),
                _ => {
                    let was_there = cache.access(owner, key, len, now);
                    prop_assert!(!was_there || cache.access(owner, key, 0, now), "a hit does not evict");
                }
            }
            prop_assert!(cache.used() <= cache.capacity());
        }
        cache.validate();
    }
}

#[test]
fn a_class_that_comes_late_gets_memory_from_the_largest() {
    let mut cache = Cache::of_engine(Eviction::ExactLru, 4 << 20, 1, engine_memory(), 0.95);
    for key in 0..10_000 {
        cache.access(0, key, 500, 0);
    }
    let before = cache.evictions();
    assert!(before > 0, "the memory is full");
    for key in 10_000..11_000 {
        cache.access(0, key, 5_000, 0);
    }
    let held = (10_000..11_000).filter(|key| cache.remove(0, *key)).count();
    assert!((20..200).contains(&held), "a sixteenth of the memory, or more: {held}");
    // Something that no class has room for takes what it needs.
    assert!(!cache.access(0, 20_000, 900_000, 0) && cache.access(0, 20_000, 900_000, 0));
    // The whole cache is not enough for this.
    assert!(!cache.access(0, 20_001, 4_000_000, 0) && !cache.access(0, 20_001, 4_000_000, 0));
    cache.validate();
}

#[test]
fn a_read_changes_no_item_and_a_write_of_another_length_makes_a_new_one() {
    for eviction in [Eviction::ExactLru, Eviction::Engine(PolicyKind::S3_FIFO)] {
        let mut cache = Cache::new(eviction, 100, 1);
        cache.access(0, 7, 10, 0);
        assert!(cache.access(0, 7, 30, 0));
        assert_eq!(cache.used(), 10);
        cache.store(0, 7, 30, 0, 0);
        assert_eq!((cache.used(), cache.evictions()), (30, 0));
        cache.validate();
    }
}

#[test]
fn what_has_expired_takes_no_room() {
    for eviction in [Eviction::ExactLru, Eviction::Engine(PolicyKind::S3_FIFO)] {
        let mut cache = Cache::new(eviction, 100, 1);
        for key in 0..10 {
            cache.access_until(0, key, 10, 5, 8);
        }
        cache.store(0, 0, 10, 6, 20);
        assert!(cache.access(0, 1, 10, 7));
        assert!(!cache.access(0, 1, 10, 8));
        assert_eq!((cache.used(), cache.evictions()), (20, 0));
        cache.validate();
    }
}

#[test]
fn what_was_removed_is_missed_and_comes_back() {
    for eviction in [Eviction::ExactLru, Eviction::Engine(PolicyKind::S3_FIFO)] {
        let mut cache = Cache::new(eviction, 100, 1);
        assert!(!cache.access(0, 7, 10, 0));
        assert!(cache.access(0, 7, 10, 0));
        assert!(cache.remove(0, 7) && !cache.remove(0, 7));
        assert_eq!(cache.used(), 0);
        assert!(!cache.access(0, 7, 12, 0));
        assert_eq!((cache.used(), cache.evictions()), (12, 0));
        cache.validate();
    }
}

#[test]
fn names_are_those_of_the_engine_and_one_more() {
    assert_eq!("exact-lru".parse(), Ok(Eviction::ExactLru));
    assert_eq!("s3-fifo".parse(), Ok(Eviction::Engine(PolicyKind::S3_FIFO)));
    assert!("fifo".parse::<Eviction>().unwrap_err().ends_with("or exact-lru"));
}
