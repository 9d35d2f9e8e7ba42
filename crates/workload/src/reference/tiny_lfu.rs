//! TinyLFU and W-TinyLFU by number of objects.
//!
//! Source: G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache admission
//! policy", ACM Transactions on Storage 13(4), 2017, sections 3 and 4. A new object enters the
//! window, an LRU of 1 %. What the window cannot hold goes to the main part while there is room;
//! once there is none, it competes with the object that the main part would give up, and the one
//! that was asked for less often lately is evicted; at a tie the newcomer stays (CacheLib's
//! default).
//!
//! The main part is an LRU, or for W-TinyLFU a segmented one: winners enter probation; a hit there
//! moves the object to the protected segment, which has 80 % of the main part and gives its oldest
//! back to the newest end of probation.
//!
//! Here frequencies are counted exactly, up to 15, and all are halved when ten times the capacity
//! was counted; the sum is halved with them.

use super::list::List;
use super::{KeyMap, Simulator};

const MOST: u8 = 15;
const COUNTS_PER_OBJECT: usize = 10;
const PROTECTED_PERCENT: usize = 80;

/// A cache that keeps what is asked for more often.
pub struct TinyLfu {
    capacity: usize,
    window_share: usize,
    is_segmented: bool,
    window: List,
    /// The main part; for W-TinyLFU, what of it is not protected.
    probation: List,
    protected: List,
    seen: KeyMap<u8>,
    counted: usize,
    evictions: u64,
}

impl TinyLfu {
    /// Room for `capacity` objects, `window_percent` of them (at least one) in the window, before a
    /// plain LRU.
    pub fn new(capacity: u64, window_percent: u8) -> Self {
        Self::with_main(capacity, window_percent, false)
    }

    /// The same before a segmented LRU: W-TinyLFU.
    pub fn segmented(capacity: u64, window_percent: u8) -> Self {
        Self::with_main(capacity, window_percent, true)
    }

    fn with_main(capacity: u64, window_percent: u8, is_segmented: bool) -> Self {
        let capacity = capacity as usize;
        Self {
            capacity,
            window_share: (capacity * usize::from(window_percent) / 100).max(1),
            is_segmented,
            window: List::default(),
            probation: List::default(),
            protected: List::default(),
            seen: KeyMap::default(),
            counted: 0,
            evictions: 0,
        }
    }

    fn count(&mut self, key: u64) {
        let seen = self.seen.entry(key).or_default();
        if *seen < MOST {
            *seen += 1;
            self.counted += 1;
        }
        if self.counted >= COUNTS_PER_OBJECT * self.capacity.max(8) {
            self.counted /= 2;
            self.seen.retain(|_, seen| {
                *seen /= 2;
                *seen > 0
            });
        }
    }

    fn seen(&self, key: u64) -> u8 {
        self.seen.get(&key).copied().unwrap_or(0)
    }

    fn make_room(&mut self) {
        while self.window.len() > self.window_share {
            let Some(newcomer) = self.window.pop_oldest() else { return };
            if self.len() < self.capacity {
                self.probation.push_newest(newcomer);
                continue;
            }
            self.evictions += 1;
            let incumbent = self.probation.oldest().or_else(|| self.protected.oldest());
            if let Some(incumbent) =
                incumbent.filter(|incumbent| self.seen(newcomer) >= self.seen(*incumbent))
            {
                self.remove(incumbent);
                self.probation.push_newest(newcomer);
            }
        }
        while self.len() > self.capacity {
            let _ = self
                .probation
                .pop_oldest()
                .or_else(|| self.protected.pop_oldest())
                .or_else(|| self.window.pop_oldest());
            self.evictions += 1;
        }
    }
}

impl Simulator for TinyLfu {
    /// Every object takes one place, whatever its `size`.
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        if self.capacity > 0 {
            self.count(key);
            self.window.push_newest(key);
            self.make_room();
        }
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        let found = self.window.contains(key) || self.probation.contains(key) || self.protected.contains(key);
        if !found {
            return false;
        }
        self.count(key);
        if self.window.renew(key) || self.protected.renew(key) {
            return true;
        }
        if !self.is_segmented {
            return self.probation.renew(key);
        }
        self.probation.remove(key);
        self.protected.push_newest(key);
        let share = self.capacity.saturating_sub(self.window_share) * PROTECTED_PERCENT / 100;
        while self.protected.len() > share
            && let Some(key) = self.protected.pop_oldest()
        {
            self.probation.push_newest(key);
        }
        true
    }

    fn remove(&mut self, key: u64) -> bool {
        self.window.remove(key) || self.probation.remove(key) || self.protected.remove(key)
    }

    fn len(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
