//! SIEVE by number of objects.
//!
//! Source: Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is simpler than LRU", NSDI
//! 2024, section 3 and algorithm 1. One list in order of insertion; a hit marks the object as
//! visited. To evict, the hand moves from the oldest end towards the newest, and then begins again
//! at the oldest; it clears the marks that it meets and evicts the first object without one. It
//! stays at the object next to that.

use super::list::List;
use super::{KeyMap, Simulator};

/// A cache in which a hand sifts the objects.
pub struct Sieve {
    capacity: usize,
    list: List,
    visited: KeyMap<bool>,
    hand: Option<u64>,
    evictions: u64,
}

impl Sieve {
    /// Room for `capacity` objects.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity: capacity as usize,
            list: List::default(),
            visited: KeyMap::default(),
            hand: None,
            evictions: 0,
        }
    }

    fn evict_one(&mut self) {
        while let Some(key) = self.hand.or_else(|| self.list.oldest()) {
            self.hand = self.list.newer_than(key);
            if self.visited.insert(key, false) == Some(true) {
                continue;
            }
            self.list.remove(key);
            self.visited.remove(&key);
            self.evictions += 1;
            return;
        }
    }
}

impl Simulator for Sieve {
    /// Every object takes one place, whatever its `size`.
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        if self.capacity > 0 {
            while self.list.len() >= self.capacity {
                self.evict_one();
            }
            self.list.push_newest(key);
            self.visited.insert(key, false);
        }
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        self.visited.get_mut(&key).map(|visited| *visited = true).is_some()
    }

    fn remove(&mut self, key: u64) -> bool {
        if self.hand == Some(key) {
            self.hand = self.list.newer_than(key);
        }
        self.visited.remove(&key);
        self.list.remove(key)
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
