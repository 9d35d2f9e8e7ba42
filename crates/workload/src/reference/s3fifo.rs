//! S3-FIFO by number of objects.
//!
//! Source: J. Yang, Y. Zhang, Z. Qiu, Y. Yue, R. Vinayak, "FIFO queues are all you need for cache
//! eviction", SOSP 2023, section 4 and algorithm 1. Details that the text leaves open, as decided
//! here:
//! - The small queue's target is 10 % of the capacity, at least 1; the main queue has the rest as
//!   its target.
//! - An object counts its hits since it entered its queue, up to 3, and starts at 0.
//! - Room is made only when the cache as a whole is full: from the small queue while that holds its
//!   target or more, else from the main queue.
//! - The tail of the small queue moves to the main one if it was hit more than once, with its count
//!   cleared; else it leaves, and the ghost queue remembers it. The tail of the main queue goes
//!   round again with its count lowered if it was hit at all; else it leaves.
//! - The ghost queue remembers as many keys as the main queue's target, oldest out first. A key
//!   that is taken in again while remembered goes to the main queue and is no longer remembered.

use std::collections::VecDeque;

use super::{KeyMap, Simulator};

const MAX_HITS: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

struct Object {
    queue: Queue,
    hits: u8,
    /// Tells this stay of the key from earlier ones, whose places in the queues may still stand.
    stay: u64,
}

/// A cache of three first-in-first-out queues.
pub struct S3Fifo {
    capacity: usize,
    small_target: usize,
    small: VecDeque<(u64, u64)>,
    main: VecDeque<(u64, u64)>,
    small_len: usize,
    main_len: usize,
    objects: KeyMap<Object>,
    ghosts: VecDeque<(u64, u64)>,
    ghost_stays: KeyMap<u64>,
    stays: u64,
    evictions: u64,
}

impl S3Fifo {
    /// Room for `capacity` objects, a tenth of them in the small queue.
    pub fn new(capacity: u64) -> Self {
        Self::with_small_percent(capacity, 10)
    }

    /// Room for `capacity` objects, `small_percent` of them (at least one) in the small queue.
    pub fn with_small_percent(capacity: u64, small_percent: u8) -> Self {
        let capacity = capacity as usize;
        Self {
            capacity,
            small_target: (capacity * usize::from(small_percent) / 100).max(1),
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_len: 0,
            main_len: 0,
            objects: KeyMap::default(),
            ghosts: VecDeque::new(),
            ghost_stays: KeyMap::default(),
            stays: 0,
            evictions: 0,
        }
    }

    fn evict_one(&mut self) {
        loop {
            if self.small_len >= self.small_target || self.main_len == 0 {
                let Some((key, stay)) = self.small.pop_front() else { return };
                let Some(object) = self.objects.get_mut(&key).filter(|object| object.stay == stay) else {
                    continue;
                };
                self.small_len -= 1;
                if object.hits > 1 {
                    (object.queue, object.hits) = (Queue::Main, 0);
                    self.main.push_back((key, stay));
                    self.main_len += 1;
                    continue;
                }
                self.objects.remove(&key);
                self.remember(key, stay);
            } else {
                let Some((key, stay)) = self.main.pop_front() else { return };
                let Some(object) = self.objects.get_mut(&key).filter(|object| object.stay == stay) else {
                    continue;
                };
                if object.hits > 0 {
                    object.hits -= 1;
                    self.main.push_back((key, stay));
                    continue;
                }
                self.main_len -= 1;
                self.objects.remove(&key);
            }
            self.evictions += 1;
            return;
        }
    }

    fn remember(&mut self, key: u64, stay: u64) {
        self.ghosts.push_back((key, stay));
        self.ghost_stays.insert(key, stay);
        let most = self.capacity.saturating_sub(self.small_target);
        while self.ghost_stays.len() > most {
            let Some((key, stay)) = self.ghosts.pop_front() else { return };
            if self.ghost_stays.get(&key) == Some(&stay) {
                self.ghost_stays.remove(&key);
            }
        }
        // Places of keys that are no longer remembered are dropped before they outnumber the
        // others.
        if self.ghosts.len() > 2 * most + 64 {
            let stays = &self.ghost_stays;
            self.ghosts.retain(|(key, stay)| stays.get(key) == Some(stay));
        }
    }
}

impl Simulator for S3Fifo {
    /// Every object takes one place, whatever its `size`.
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        if self.capacity == 0 {
            return false;
        }
        while self.objects.len() >= self.capacity {
            self.evict_one();
        }
        self.stays += 1;
        let stay = self.stays;
        let queue = if self.ghost_stays.remove(&key).is_some() {
            self.main.push_back((key, stay));
            self.main_len += 1;
            Queue::Main
        } else {
            self.small.push_back((key, stay));
            self.small_len += 1;
            Queue::Small
        };
        self.objects.insert(key, Object { queue, hits: 0, stay });
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        let found = self.objects.get_mut(&key);
        let is_found = found.is_some();
        if let Some(object) = found {
            object.hits = (object.hits + 1).min(MAX_HITS);
        }
        is_found
    }

    fn remove(&mut self, key: u64) -> bool {
        let Some(object) = self.objects.remove(&key) else { return false };
        match object.queue {
            Queue::Small => self.small_len -= 1,
            Queue::Main => self.main_len -= 1,
        }
        true
    }

    fn len(&self) -> usize {
        self.objects.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
