//! 2Q with hot, warm and cold queues, by number of objects.
//!
//! Source: CacheLib's MM2Q (B. Berg et al., "The CacheLib caching engine", OSDI 2020, section 4.2,
//! and its documented behaviour), after T. Johnson and D. Shasha, "2Q", VLDB 1994. Three LRU lists.
//! A new object enters hot. A hit in hot or warm moves the object to the newest end of that list; a
//! hit in cold, to that of warm. After each access what warm and then hot have beyond their shares
//! goes, oldest first, to the newest end of cold. The oldest of cold is evicted; where cold is
//! empty, that of hot, and then that of warm.

use super::Simulator;
use super::list::List;

/// A cache of three LRU lists.
pub struct TwoQ {
    capacity: usize,
    hot_percent: usize,
    warm_percent: usize,
    hot: List,
    warm: List,
    cold: List,
    evictions: u64,
}

impl TwoQ {
    /// Room for `capacity` objects; what is neither hot nor cold is warm.
    pub fn new(capacity: u64, hot_percent: u8, cold_percent: u8) -> Self {
        Self {
            capacity: capacity as usize,
            hot_percent: hot_percent.into(),
            warm_percent: 100 - usize::from(hot_percent) - usize::from(cold_percent),
            hot: List::default(),
            warm: List::default(),
            cold: List::default(),
            evictions: 0,
        }
    }

    fn rebalance(&mut self) {
        let objects = self.len();
        for (list, percent) in [(&mut self.warm, self.warm_percent), (&mut self.hot, self.hot_percent)] {
            while list.len() > objects * percent / 100
                && let Some(key) = list.pop_oldest()
            {
                self.cold.push_newest(key);
            }
        }
    }
}

impl Simulator for TwoQ {
    /// Every object takes one place, whatever its `size`.
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        if self.capacity > 0 {
            while self.len() >= self.capacity {
                for list in [&mut self.cold, &mut self.hot, &mut self.warm] {
                    if list.pop_oldest().is_some() {
                        self.evictions += 1;
                        break;
                    }
                }
            }
            self.hot.push_newest(key);
            self.rebalance();
        }
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        if self.hot.renew(key) || self.warm.renew(key) {
            return true;
        }
        let is_cold = self.cold.remove(key);
        if is_cold {
            self.warm.push_newest(key);
            self.rebalance();
        }
        is_cold
    }

    fn remove(&mut self, key: u64) -> bool {
        self.hot.remove(key) || self.warm.remove(key) || self.cold.remove(key)
    }

    fn len(&self) -> usize {
        self.hot.len() + self.warm.len() + self.cold.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
