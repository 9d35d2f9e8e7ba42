//! A cache of keys alone around one of the engine's policies, as it is: what runs in miniature.
//!
//! One policy covers all sizes, and items are evicted until the new one fits.

use curve::{Eviction, Simulated};
use millpond::PolicyKind;
use millpond::watch::PolicyQueue;

use crate::reference::KeyMap;

#[derive(Clone, Copy)]
struct Item {
    key: u64,
    size: u32,
}

/// A cache of keys around a policy of the engine.
pub struct PolicyCache {
    queue: PolicyQueue,
    /// The items by their slots; those of free slots are left over.
    items: Vec<Item>,
    free: Vec<u32>,
    by_key: KeyMap<u32>,
    capacity: u64,
    used: u64,
}

impl PolicyCache {
    /// Room for keys of together `capacity` units.
    pub fn new(kind: PolicyKind, capacity: u64) -> Self {
        Self {
            queue: PolicyQueue::new(kind),
            items: Vec::new(),
            free: Vec::new(),
            by_key: KeyMap::default(),
            capacity,
            used: 0,
        }
    }

    /// Returns the used size, which never exceeds the capacity.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Evicts an item; false if there is none.
    fn evict(&mut self) -> bool {
        let items = &self.items;
        let Some(slot) = self.queue.pop(&|slot| items[slot as usize].key) else { return false };
        let Item { key, size } = self.items[slot as usize];
        // A key that was removed may have come again, as another item.
        if self.by_key.get(&key) == Some(&slot) {
            self.by_key.remove(&key);
        }
        self.used -= u64::from(size);
        self.free.push(slot);
        true
    }

    fn hit(&mut self, slot: u32, hash: u64, size: u32) {
        self.queue.hit(slot, hash);
        let before = std::mem::replace(&mut self.items[slot as usize].size, size);
        self.used = self.used - u64::from(before) + u64::from(size);
        while self.used > self.capacity && self.evict() {}
    }
}

impl Simulated for PolicyCache {
    fn access(&mut self, hash: u64, size: u32) -> bool {
        if let Some(&slot) = self.by_key.get(&hash) {
            self.hit(slot, hash, size);
            return true;
        }
        if u64::from(size) > self.capacity {
            return false;
        }
        while self.used + u64::from(size) > self.capacity {
            if !self.evict() {
                return false;
            }
        }
        let item = Item { key: hash, size };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.items[slot as usize] = item;
                slot
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        };
        self.by_key.insert(hash, slot);
        self.used += u64::from(size);
        let items = &self.items;
        self.queue.push(slot, &|slot| items[slot as usize].key);
        false
    }

    fn has(&self, hash: u64) -> bool {
        self.by_key.contains_key(&hash)
    }

    /// The item stays queued until the policy comes by it, and takes no room meanwhile.
    fn remove(&mut self, hash: u64) {
        let Some(slot) = self.by_key.remove(&hash) else { return };
        self.used -= u64::from(std::mem::replace(&mut self.items[slot as usize].size, 0));
    }

    fn bytes(&self) -> usize {
        let keys = self.by_key.capacity() * (size_of::<(u64, u32)>() + 1);
        let items = self.items.capacity() * size_of::<Item>();
        keys + items + self.free.capacity() * size_of::<u32>() + self.queue.bytes()
    }
}
