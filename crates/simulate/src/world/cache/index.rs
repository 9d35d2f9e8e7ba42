//! The places of the items of an owner in a simulated cache.

use std::collections::HashMap;

use base::hash::mix64;

use super::NONE;

/// The places of an owner's keys: small numbers in a table, others in a map.
#[derive(Default)]
pub(super) struct Index {
    table: Vec<u32>,
    map: HashMap<u64, u32, std::hash::BuildHasherDefault<Spread>>,
}

/// Keys below this are found by one look into a table of 4 bytes for each.
pub(super) const TABLE_KEYS: u64 = 1 << 25;

impl Index {
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<u32> {
        if key < TABLE_KEYS {
            self.table.get(key as usize).copied().filter(|at| *at != NONE)
        } else {
            self.map.get(&key).copied()
        }
    }

    pub(super) fn set(&mut self, key: u64, at: u32) {
        if key < TABLE_KEYS {
            let place = key as usize;
            if place >= self.table.len() {
                self.table.resize((place + 1).next_power_of_two(), NONE);
            }
            self.table[place] = at;
        } else {
            self.map.insert(key, at);
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        if key < TABLE_KEYS {
            self.table[key as usize] = NONE;
        } else {
            self.map.remove(&key);
        }
    }
}

/// Spreads key numbers; they come from a generator or a file, not from an adversary.
#[derive(Default)]
pub(super) struct Spread(u64);

impl std::hash::Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = base::hash::key_hash(self.0, bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = mix64(key);
    }
}
