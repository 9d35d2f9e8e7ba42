//! ARC by number of objects.
//!
//! Source: N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST
//! 2003, figure 4, followed line by line. The names are the paper's.

use super::Simulator;
use super::list::List;

/// A cache that balances what was asked for once against what was asked for more often.
pub struct Arc {
    c: usize,
    p: f64,
    t1: List,
    t2: List,
    b1: List,
    b2: List,
    evictions: u64,
}

impl Arc {
    /// Room for `capacity` objects.
    pub fn new(capacity: u64) -> Self {
        Self {
            c: capacity as usize,
            p: 0.0,
            t1: List::default(),
            t2: List::default(),
            b1: List::default(),
            b2: List::default(),
            evictions: 0,
        }
    }

    fn replace(&mut self, is_in_b2: bool) {
        let t1 = self.t1.len() as f64;
        let from_t1 = self.t1.len() >= 1 && (t1 > self.p || (is_in_b2 && t1 == self.p));
        if from_t1 || self.t2.len() == 0 {
            let Some(key) = self.t1.pop_oldest() else { return };
            self.b1.push_newest(key);
        } else {
            let Some(key) = self.t2.pop_oldest() else { return };
            self.b2.push_newest(key);
        }
        self.evictions += 1;
    }

    /// Makes room where the cache is full; after removals it may not be.
    fn replace_if_full(&mut self, is_in_b2: bool) {
        if self.len() >= self.c {
            self.replace(is_in_b2);
        }
    }

    /// Case IV of the paper, up to the insertion.
    fn make_room_for_stranger(&mut self) {
        if self.t1.len() + self.b1.len() >= self.c {
            if self.t1.len() < self.c {
                self.b1.pop_oldest();
                self.replace_if_full(false);
            } else {
                self.t1.pop_oldest();
                self.evictions += 1;
            }
        } else if self.len() + self.b1.len() + self.b2.len() >= self.c {
            if self.len() + self.b1.len() + self.b2.len() >= 2 * self.c {
                self.b2.pop_oldest();
            }
            self.replace_if_full(false);
        }
    }
}

impl Simulator for Arc {
    /// Every object takes one place, whatever its `size`.
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        if self.c == 0 {
            return false;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(key) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
            self.replace_if_full(false);
            self.b1.remove(key);
            self.t2.push_newest(key);
        } else if self.b2.contains(key) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            self.replace_if_full(true);
            self.b2.remove(key);
            self.t2.push_newest(key);
        } else {
            self.make_room_for_stranger();
            self.t1.push_newest(key);
        }
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        let found = self.t1.remove(key) || self.t2.remove(key);
        if found {
            self.t2.push_newest(key);
        }
        found
    }

    fn remove(&mut self, key: u64) -> bool {
        self.t1.remove(key) || self.t2.remove(key)
    }

    fn len(&self) -> usize {
        self.t1.len() + self.t2.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
