use super::*;
use proptest::prelude::*;

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
            self.held.remove(place);
        } else if u64::from(size) > self.capacity {
            return false;
        }
        self.held.insert(0, (key, size));
        self.shrink();
        found.is_some()
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
