//! A cache of plain maps around a policy, and the plain policies that it is held against.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use rand_distr::{Distribution, Zipf};

use crate::split::SplitTarget;
use crate::{
    Claim, Conversion, Entry, HitRule, Items, MAX_HELD_TRIES, MAX_SCANNED, MAX_STALE, Policy, PolicyKind,
};

#[derive(Clone, Copy)]
struct Item {
    key: u64,
    bits: u8,
    hit: bool,
    held: bool,
}

/// Looks at live items, and at entries of any kind, that one eviction may take: twice the held
/// items, as it tries twice, and a step of a sweep.
const MOST_LIVE: u32 = MAX_SCANNED + 2 * MAX_HELD_TRIES + 75;
const MOST: (u32, u32) = (MOST_LIVE, MOST_LIVE + MAX_STALE);

#[derive(Default)]
pub(crate) struct Table {
    items: RefCell<HashMap<u32, Item>>,
    /// Live items and entries that the eviction has looked at which is under way.
    scan: Cell<Option<(u32, u32)>>,
    /// The most that it may look at of both.
    most: Cell<(u32, u32)>,
    /// The effect of hits on an item each time that its bits are changed: they are always faster.
    races: RefCell<Option<HitRule>>,
}

impl Table {
    /// Counts what is looked at meanwhile, and fails beyond `most`: no loop is waited for that has
    /// no end.
    fn limited<R>(&self, most: (u32, u32), work: impl FnOnce() -> R) -> R {
        self.most.set(most);
        self.scan.set(Some((0, 0)));
        let result = work();
        self.scan.set(None);
        result
    }

    fn count_look(&self, is_live: bool) {
        let Some((live, entries)) = self.scan.get() else { return };
        let (live, entries) = (live + u32::from(is_live), entries + 1);
        let (most_live, most) = self.most.get();
        assert!(live <= most_live && entries <= most, "{live} items and {entries} entries looked at");
        self.scan.set(Some((live, entries)));
    }
}

impl Items for Table {
    fn bits(&self, entry: Entry) -> Option<u8> {
        let bits = self.items.borrow().get(&entry.0).map(|item| item.bits);
        self.count_look(bits.is_some());
        bits
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if let Some(item) = self.items.borrow_mut().get_mut(&entry.0) {
            item.bits = item.bits & !mask | value & mask;
            if let Some(rule) = &*self.races.borrow() {
                item.bits = rule.apply(item.bits, false, || 0);
            }
        }
    }

    fn claim(&self, entry: Entry) -> Claim {
        match self.items.borrow().get(&entry.0) {
            None => Claim::Gone,
            Some(item) if item.held => Claim::Held,
            Some(_) => Claim::Taken,
        }
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        fingerprint(self.items.borrow()[&entry.0].key)
    }
}

pub(crate) fn fingerprint(key: u64) -> u32 {
    mix64(key) as u32
}

/// A look-aside cache of `capacity` items around a policy.
pub(crate) struct Sim {
    pub(crate) policy: Policy,
    pub(crate) table: Table,
    rule: HitRule,
    entries: HashMap<u64, u32>,
    capacity: usize,
    serial: u32,
    pub(crate) now: u32,
}

impl Sim {
    pub(crate) fn new(kind: PolicyKind, capacity: usize) -> Self {
        Self::following(kind, Arc::default(), capacity)
    }

    pub(crate) fn following(kind: PolicyKind, split: Arc<SplitTarget>, capacity: usize) -> Self {
        let policy = Policy::following(kind, split, 0);
        let rule = policy.hit_rule();
        Self { policy, rule, table: Table::default(), entries: HashMap::new(), capacity, serial: 0, now: 0 }
    }

    pub(crate) fn contains(&self, key: u64) -> bool {
        self.entries.contains_key(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The queue that an access hits, or 0 for a miss.
    pub(crate) fn queue_of_hit(&mut self, key: u64) -> usize {
        let bits = self.entries.get(&key).map(|entry| self.table.items.borrow()[entry].bits);
        self.access(key);
        bits.map_or(0, |bits| self.rule.apply_in(bits, false, || self.now).1)
    }

    /// A hit, or a miss that inserts.
    pub(crate) fn access(&mut self, key: u64) -> bool {
        if let Some(entry) = self.entries.get(&key) {
            self.rule.count(|| fingerprint(key));
            let mut items = self.table.items.borrow_mut();
            let item = items.get_mut(entry).expect("in both maps");
            item.bits = self.rule.apply(item.bits, !item.hit, || self.now);
            item.hit = true;
            return true;
        }
        while self.entries.len() >= self.capacity {
            if !self.evict() {
                return false;
            }
        }
        let bits = self.policy.admit(fingerprint(key));
        self.serial += 1;
        self.table.items.borrow_mut().insert(self.serial, Item { key, bits, hit: false, held: false });
        self.entries.insert(key, self.serial);
        self.policy.push(Entry(self.serial), bits, self.now);
        self.table.limited(MOST, || self.policy.restore_shares(&self.table));
        false
    }

    pub(crate) fn evict(&mut self) -> bool {
        let Some(entry) = self.choose() else { return false };
        let item = self.table.items.borrow_mut().remove(&entry.0).expect("claimed items exist");
        assert!(!item.held, "a held item was evicted");
        self.entries.remove(&item.key);
        true
    }

    /// Returns the entry that the policy would evict, within the looks that it may take each time.
    fn choose(&mut self) -> Option<Entry> {
        loop {
            let evicted = self.table.limited(MOST, || self.policy.evict(&self.table));
            if evicted.is_some() || !self.policy.is_unfinished() {
                return evicted;
            }
        }
    }

    /// Lets an item be hit whenever its bits have been changed.
    pub(crate) fn race(&mut self) {
        *self.table.races.borrow_mut() = Some(self.rule.clone());
    }

    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            let item = self.table.items.borrow_mut().remove(&entry).expect("in both maps");
            self.policy.removed(item.bits, &self.table, || Entry(entry));
        }
    }

    pub(crate) fn hold(&mut self, key: u64, held: bool) {
        if let Some(entry) = self.entries.get(&key) {
            self.table.items.borrow_mut().get_mut(entry).expect("in both maps").held = held;
        }
    }

    /// A step of a conversion, within the looks that it may take. Whether another one is needed.
    pub(crate) fn convert_some(&mut self, kind: PolicyKind, most: usize) -> bool {
        let before = self.policy.unconverted();
        let scan = 2 * most as u32 + MOST_LIVE;
        let step = self
            .table
            .limited((scan, scan + MAX_STALE), || self.policy.convert(kind, most, &self.table, self.now));
        let left = self.policy.unconverted();
        assert!(before == 0 || left + most >= before, "{before} to {left} in one step");
        matches!(step, Conversion::Unfinished(_))
    }

    pub(crate) fn convert(&mut self, kind: PolicyKind) {
        while self.convert_some(kind, 64) {}
    }

    /// Bits that a hit under another policy may have left behind.
    pub(crate) fn set_bits(&mut self, key: u64, bits: u8) {
        if let Some(entry) = self.entries.get(&key) {
            self.table.set_bits(Entry(*entry), 0xff, bits);
        }
    }

    /// Evicts everything and returns the keys in that order.
    pub(crate) fn drain(&mut self) -> Vec<u64> {
        let mut keys = Vec::new();
        while let Some(entry) = self.choose() {
            let item = self.table.items.borrow_mut().remove(&entry.0).expect("claimed items exist");
            self.entries.remove(&item.key);
            keys.push(item.key);
        }
        assert_eq!((self.policy.len(), self.entries.len()), (0, 0), "all are evicted");
        keys
    }

    pub(crate) fn validate(&self) {
        assert_eq!(self.policy.len(), self.entries.len());
        self.policy.validate(&self.table);
    }

    pub(crate) fn hit_ratio(mut self, keys: &[u64]) -> f64 {
        let hits = keys.iter().filter(|key| self.access(**key)).count();
        self.validate();
        hits as f64 / keys.len() as f64
    }
}

/// Hit ratio of a plain LRU.
pub(crate) fn plain_lru(capacity: usize, keys: &[u64]) -> f64 {
    let (mut time_of, mut by_time) = (HashMap::new(), std::collections::BTreeMap::new());
    let mut hits = 0;
    for (time, key) in keys.iter().enumerate() {
        if let Some(before) = time_of.insert(*key, time) {
            hits += 1;
            by_time.remove(&before);
        } else if time_of.len() > capacity {
            let (_, oldest) = by_time.pop_first().expect("not empty");
            time_of.remove(&oldest);
        }
        by_time.insert(time, *key);
    }
    hits as f64 / keys.len() as f64
}

/// Hit ratio of a plain S3-FIFO, with an exact ghost queue.
pub(crate) fn plain_s3fifo(capacity: usize, keys: &[u64]) -> f64 {
    let small_target = (capacity / 10).max(1);
    let (mut small, mut main, mut ghost) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let (mut count, mut ghosts) = (HashMap::<u64, u8>::new(), HashSet::new());
    let mut hits = 0;
    for &key in keys {
        if let Some(count) = count.get_mut(&key) {
            *count = (*count + 1).min(3);
            hits += 1;
            continue;
        }
        while count.len() >= capacity {
            if !small.is_empty() && (small.len() >= small_target || main.is_empty()) {
                let tail: u64 = small.pop_front().expect("not empty");
                if count[&tail] > 1 {
                    count.insert(tail, 0);
                    main.push_back(tail);
                } else {
                    count.remove(&tail);
                    ghost.push_back(tail);
                    ghosts.insert(tail);
                    while ghost.len() > (capacity - small_target).max(1) {
                        ghosts.remove(&ghost.pop_front().expect("not empty"));
                    }
                }
            } else {
                let tail: u64 = main.pop_front().expect("not empty");
                if count[&tail] > 0 {
                    *count.get_mut(&tail).expect("queued") -= 1;
                    main.push_back(tail);
                } else {
                    count.remove(&tail);
                }
            }
        }
        count.insert(key, 0);
        if ghosts.remove(&key) {
            ghost.retain(|k| *k != key);
            main.push_back(key);
        } else {
            small.push_back(key);
        }
    }
    hits as f64 / keys.len() as f64
}

/// Zipf-distributed keys with a scan now and then.
pub(crate) fn keys(seed: u64, requests: usize, keys: u64, alpha: f64) -> Vec<u64> {
    let mut rng = seeded(seed);
    let zipf = Zipf::new(keys as f64, alpha).expect("valid parameters");
    let mut scanned = 1 << 40;
    let mut all = Vec::with_capacity(requests);
    while all.len() < requests {
        if rng.random_range(0..2_000) == 0 {
            for _ in 0..keys / 20 {
                scanned += 1;
                all.push(scanned);
            }
        }
        all.push(mix64(zipf.sample(&mut rng) as u64));
    }
    all
}
