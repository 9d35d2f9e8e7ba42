//! A cache of keys alone around one of the engine's policies, as it is: what runs in miniature.
//!
//! The policy is that of `evict`, the very code that a pool runs for each of its size classes; here
//! one covers all sizes, and items are evicted until the new one fits. Time stands still, so that
//! an LRU that promotes now and then promotes always.

use std::cell::RefCell;

use base::hash::mix64;
use curve::Simulated;
use evict::{Claim, Entry, HitRule, Items, Policy, PolicyKind};

use crate::reference::KeyMap;

#[derive(Clone, Copy)]
struct Item {
    key: u64,
    size: u32,
    bits: u8,
    hit: bool,
    live: bool,
}

/// The items by their entries.
#[derive(Default)]
struct Table(RefCell<Vec<Item>>);

impl Table {
    fn with<R>(&self, entry: Entry, seen: impl FnOnce(&mut Item) -> R) -> Option<R> {
        self.0.borrow_mut().get_mut(entry.0 as usize).filter(|item| item.live).map(seen)
    }
}

impl Items for Table {
    fn bits(&self, entry: Entry) -> Option<u8> {
        self.with(entry, |item| item.bits)
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        self.with(entry, |item| item.bits = item.bits & !mask | value & mask);
    }

    fn claim(&self, entry: Entry) -> Claim {
        if self.with(entry, |_| ()).is_some() { Claim::Taken } else { Claim::Gone }
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        self.0.borrow().get(entry.0 as usize).map_or(0, |item| fingerprint(item.key))
    }
}

fn fingerprint(key: u64) -> u32 {
    mix64(key) as u32
}

/// A cache of keys around a policy of the engine.
pub struct PolicyCache {
    policy: Policy,
    rule: HitRule,
    table: Table,
    free: Vec<u32>,
    by_key: KeyMap<u32>,
    capacity: u64,
    used: u64,
}

impl PolicyCache {
    /// Room for keys of together `capacity` units.
    pub fn new(kind: PolicyKind, capacity: u64) -> Self {
        // Without a clock every hit must promote.
        let kind = if let PolicyKind::Lru { .. } = kind { PolicyKind::Lru { refresh_secs: 0 } } else { kind };
        let policy = Policy::new(kind, 0);
        let rule = policy.hit_rule();
        let (table, by_key) = (Table::default(), KeyMap::default());
        Self { policy, rule, table, free: Vec::new(), by_key, capacity, used: 0 }
    }

    /// Returns the used size, which never exceeds the capacity.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Evicts an item; false where there is none.
    fn evict(&mut self) -> bool {
        let Some(entry) = self.policy.evict_unhurried(&self.table) else { return false };
        let Some((key, size)) = self.table.with(entry, |item| {
            item.live = false;
            (item.key, item.size)
        }) else {
            return false;
        };
        // A key that was removed may have come again, as another item.
        if self.by_key.get(&key) == Some(&entry.0) {
            self.by_key.remove(&key);
        }
        self.used -= u64::from(size);
        self.free.push(entry.0);
        true
    }

    fn hit(&mut self, entry: u32, hash: u64, size: u32) {
        self.rule.count(|| fingerprint(hash));
        let rule = &self.rule;
        let before = self.table.with(Entry(entry), |item| {
            item.bits = rule.apply(item.bits, !item.hit, || 0);
            item.hit = true;
            std::mem::replace(&mut item.size, size)
        });
        self.used = self.used - u64::from(before.unwrap_or(size)) + u64::from(size);
        while self.used > self.capacity && self.evict() {}
    }
}

impl Simulated for PolicyCache {
    fn access(&mut self, hash: u64, size: u32) -> bool {
        if let Some(&entry) = self.by_key.get(&hash) {
            self.hit(entry, hash, size);
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
        let bits = self.policy.admit(fingerprint(hash));
        let item = Item { key: hash, size, bits, hit: false, live: true };
        let items = self.table.0.get_mut();
        let entry = match self.free.pop() {
            Some(entry) => {
                items[entry as usize] = item;
                entry
            }
            None => {
                items.push(item);
                items.len() as u32 - 1
            }
        };
        self.by_key.insert(hash, entry);
        self.used += u64::from(size);
        self.policy.push(Entry(entry), bits, 0);
        self.policy.restore_shares(&self.table);
        false
    }

    fn has(&self, hash: u64) -> bool {
        self.by_key.contains_key(&hash)
    }

    /// The item stays queued until the policy comes by it, and takes no room meanwhile.
    fn remove(&mut self, hash: u64) {
        let Some(entry) = self.by_key.remove(&hash) else { return };
        let size = self.table.with(Entry(entry), |item| std::mem::replace(&mut item.size, 0));
        self.used -= u64::from(size.unwrap_or(0));
    }

    fn bytes(&self) -> usize {
        let keys = self.by_key.capacity() * (size_of::<(u64, u32)>() + 1);
        let items = self.table.0.borrow().capacity() * size_of::<Item>();
        keys + items
            + self.free.capacity() * size_of::<u32>()
            + self.policy.queue_bytes()
            + self.policy.ghost_bytes()
    }
}
