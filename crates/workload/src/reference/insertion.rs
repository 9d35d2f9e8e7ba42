//! LRU with an insertion point, by number of objects.
//!
//! One list. A hit moves the object to the newest end, as in LRU; a new object is put where
//! `objects >> shift` others lie between it and the oldest end. With `shift` 1 this is the
//! mid-point insertion that Cliffhanger (NSDI 2016, section 5.5) reports of Facebook's caches;
//! `shift` is `lruInsertionPointSpec` in CacheLib's MMLru.
//!
//! The list is kept as the part above the insertion point and the part below it, whose sizes are
//! put right after each step by moving the object next to the insertion point across it, which
//! changes no object's place in the list.

use super::Simulator;
use super::list::List;

/// A cache that takes new objects in below the top.
pub struct LruInsertion {
    capacity: usize,
    shift: u8,
    above: List,
    below: List,
    evictions: u64,
}

impl LruInsertion {
    /// Room for `capacity` objects.
    pub fn new(capacity: u64, shift: u8) -> Self {
        let (above, below) = (List::default(), List::default());
        Self { capacity: capacity as usize, shift, above, below, evictions: 0 }
    }

    /// Lets as many objects lie below the insertion point as belong there among `objects`.
    fn settle(&mut self, objects: usize) {
        while self.below.len() < objects >> self.shift
            && let Some(key) = self.above.pop_oldest()
        {
            self.below.push_newest(key);
        }
        while self.below.len() > objects >> self.shift
            && let Some(key) = self.below.pop_newest()
        {
            self.above.push_oldest(key);
        }
    }
}

impl Simulator for LruInsertion {
    /// Every object takes one place, whatever its `size`.
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        if self.capacity > 0 {
            while self.len() >= self.capacity {
                if self.below.pop_oldest().is_none() {
                    self.above.pop_oldest();
                }
                self.evictions += 1;
            }
            self.settle(self.len() + 1);
            self.above.push_oldest(key);
        }
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        let found = self.remove(key);
        if found {
            self.above.push_newest(key);
            self.settle(self.len());
        }
        found
    }

    fn remove(&mut self, key: u64) -> bool {
        self.above.remove(key) || self.below.remove(key)
    }

    fn len(&self) -> usize {
        self.above.len() + self.below.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
