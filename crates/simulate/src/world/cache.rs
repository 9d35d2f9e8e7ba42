//! A simulated cache of keys and sizes, whose capacity changes while it runs.
//!
//! It evicts by exact LRU or by one of the engine's policies (`evict`), which see the same as in
//! the engine: entries, policy bits, fingerprints. There are no slabs and no size classes: memory
//! is the sum of sizes, and there is one queue, or two if a decision splits it on a cliff
//! ([`Cache::set_room`]).
//!
//! Invariants, checked by [`Cache::validate`]:
//! 1. `used` is the sum of the sizes of the items held, by owner and in all, and after a call at
//!    most the capacity.
//! 2. Each of the two partitions holds the items of its queue; without a split the left one empties
//!    as items are evicted from it.
//! 3. The index of an owner names exactly the nodes of that owner, including those that were
//!    removed and are still queued, which have no size.

use std::cell::Cell;
use std::collections::HashMap;
use std::str::FromStr;

use allocate::talus::Split;
use base::hash::mix64;
use evict::{Claim, Entry, HitRule, Items, Policy, PolicyKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How a simulated cache chooses its victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The least recently used item, exactly: `exact-lru`.
    #[default]
    ExactLru,
    /// A policy of the engine, by its name there: `s3-fifo`, `lru:0`.
    Engine(PolicyKind),
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "exact-lru" {
            return Ok(Self::ExactLru);
        }
        text.parse().map(Self::Engine).map_err(|error: evict::UnknownPolicy| format!("{error}; or exact-lru"))
    }
}

impl Serialize for Eviction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::ExactLru => serializer.serialize_str("exact-lru"),
            Self::Engine(kind) => kind.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Eviction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

const NONE: u32 = u32::MAX;

/// Something that is, or was, held.
struct Node {
    key: u64,
    size: u32,
    owner: u16,
    /// True if the item can be found; one that was removed keeps its place in the queue.
    is_there: bool,
    /// True if the item was hit since it was inserted.
    was_hit: bool,
    /// When it expires, in seconds; 0 = never.
    expires: u32,
    /// In which partition it is queued.
    side: u8,
    bits: Cell<u8>,
    newer: u32,
    older: u32,
}

#[derive(Default)]
struct Nodes(Vec<Node>);

impl Items for Nodes {
    fn bits(&self, entry: Entry) -> Option<u8> {
        self.0.get(entry.0 as usize).map(|node| node.bits.get())
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if let Some(node) = self.0.get(entry.0 as usize) {
            node.bits.set((node.bits.get() & !mask) | (value & mask));
        }
    }

    fn claim(&self, _entry: Entry) -> Claim {
        Claim::Taken
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        let node = &self.0[entry.0 as usize];
        fingerprint(node.owner, node.key)
    }
}

fn fingerprint(owner: u16, key: u64) -> u32 {
    mix64(key ^ (u64::from(owner) << 48)) as u32
}

/// The places of an owner's keys: small numbers in a table, others in a map.
#[derive(Default)]
struct Index {
    table: Vec<u32>,
    map: HashMap<u64, u32, std::hash::BuildHasherDefault<Spread>>,
}

/// Keys below this are found by one look into a table of 4 bytes for each.
const TABLE_KEYS: u64 = 1 << 25;

impl Index {
    #[inline]
    fn get(&self, key: u64) -> Option<u32> {
        if key < TABLE_KEYS {
            self.table.get(key as usize).copied().filter(|at| *at != NONE)
        } else {
            self.map.get(&key).copied()
        }
    }

    fn set(&mut self, key: u64, at: u32) {
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

    fn remove(&mut self, key: u64) {
        if key < TABLE_KEYS {
            self.table[key as usize] = NONE;
        } else {
            self.map.remove(&key);
        }
    }
}

/// Spreads key numbers; they come from a generator or a file, not from an adversary.
#[derive(Default)]
struct Spread(u64);

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

enum Order {
    ExactLru,
    Engine { policy: Box<Policy>, rule: HitRule },
}

impl Order {
    fn new(eviction: Eviction) -> Self {
        match eviction {
            Eviction::ExactLru => Self::ExactLru,
            Eviction::Engine(kind) => {
                let policy = Box::new(Policy::new(kind, 0));
                let rule = policy.hit_rule();
                Self::Engine { policy, rule }
            }
        }
    }
}

/// A partition: a queue of its own.
struct Part {
    /// Bytes that it should hold, and that it holds.
    size: u64,
    used: u64,
    order: Order,
    newest: u32,
    oldest: u32,
}

impl Part {
    fn new(eviction: Eviction, size: u64) -> Self {
        Self { size, used: 0, order: Order::new(eviction), newest: NONE, oldest: NONE }
    }
}

/// The partition of all that no split sends to the other.
const RIGHT: usize = 0;
const LEFT: usize = 1;

/// A cache of one owner, or of several that share it.
pub struct Cache {
    capacity: u64,
    used: u64,
    used_by: Vec<u64>,
    nodes: Nodes,
    free: Vec<u32>,
    index: Vec<Index>,
    eviction: Eviction,
    /// One partition, and another from the first split on.
    parts: Vec<Part>,
    /// A key belongs to the left partition if 32 bits of its hash are below this; 0 = there is no
    /// split.
    threshold: u64,
    evictions: u64,
}

impl Cache {
    /// An empty cache of `capacity` bytes for `owners` owners, whose keys are separate.
    pub fn new(eviction: Eviction, capacity: u64, owners: usize) -> Self {
        Self {
            capacity,
            used: 0,
            used_by: vec![0; owners],
            nodes: Nodes::default(),
            free: Vec::new(),
            index: (0..owners).map(|_| Index::default()).collect(),
            eviction,
            parts: vec![Part::new(eviction, capacity)],
            threshold: 0,
            evictions: 0,
        }
    }

    /// Bytes that it may hold.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that it holds.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that it holds of one owner.
    pub fn used_by(&self, owner: usize) -> u64 {
        self.used_by[owner]
    }

    /// How many objects were evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Gives the cache more or less room, and evicts the excess.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.set_room(bytes, None);
    }

    /// The same, and splits the cache: the left partition sees `ratio` of the keys and has `left`
    /// of the room, the right one has the rest.
    ///
    /// Nothing is moved for that. When there is no room, the partition that exceeds its size by
    /// most evicts, so that misses bring both to their sizes. Under exact LRU, an item that is hit
    /// in the partition where it does not belong moves to the other.
    pub fn set_room(&mut self, bytes: u64, split: Option<Split>) {
        let Split { ratio, left, right } = split.unwrap_or(Split::whole(bytes));
        debug_assert_eq!(left + right, bytes, "partitions are all of it");
        self.capacity = bytes;
        self.threshold = (ratio * (1_u64 << 32) as f64) as u64;
        if split.is_some() && self.parts.len() == 1 {
            self.parts.push(Part::new(self.eviction, 0));
        }
        self.parts.iter_mut().zip([right, left]).for_each(|(part, size)| part.size = size);
        self.make_room(RIGHT, 0);
    }

    /// The partition that a key belongs to.
    #[inline]
    fn side_of(&self, key: u64) -> usize {
        if self.threshold == 0 {
            return RIGHT;
        }
        // Other bits than those by which curves are sampled.
        if mix64(key ^ 0x7a1c_05b1) >> 32 < self.threshold { LEFT } else { RIGHT }
    }

    /// Requests a key of an owner, and inserts it at this size if it is absent. True on a hit. An
    /// object that is larger than the cache is not inserted. `now_secs` is for policies that know
    /// time.
    pub fn access(&mut self, owner: usize, key: u64, size: u32, now_secs: u32) -> bool {
        self.access_until(owner, key, size, now_secs, 0)
    }

    /// The same; if the key is inserted, it is there until `expires`, in seconds, or for ever if
    /// that is 0. An expired item misses, and takes room until it is evicted or inserted again.
    pub fn access_until(&mut self, owner: usize, key: u64, size: u32, now_secs: u32, expires: u32) -> bool {
        let found = self.index[owner].get(key);
        if let Some(at) = found {
            let node = &mut self.nodes.0[at as usize];
            node.is_there &= node.expires == 0 || now_secs < node.expires;
            if !node.is_there {
                node.expires = expires;
            }
        }
        if let Some(at) = found.filter(|at| self.nodes.0[*at as usize].is_there) {
            self.hit(at, now_secs);
            self.resize_node(at, size);
            return true;
        }
        let side = self.side_of(key);
        let room = if self.threshold == 0 { self.capacity } else { self.parts[side].size };
        if u64::from(size) > room {
            return false;
        }
        // A removed item that is requested again keeps its place in the queue until it is evicted.
        if let Some(at) = found {
            let node = &mut self.nodes.0[at as usize];
            node.is_there = true;
            self.hit(at, now_secs);
            self.resize_node(at, size);
        } else {
            self.make_room(side, u64::from(size));
            self.insert(owner, side, key, size, now_secs);
            if expires > 0 {
                self.expire_at(owner, key, expires);
            }
        }
        false
    }

    /// Removes a key; true if it was there. Not an eviction.
    pub fn remove(&mut self, owner: usize, key: u64) -> bool {
        let found = self.index[owner].get(key).filter(|at| self.nodes.0[*at as usize].is_there);
        if let Some(at) = found {
            self.resize_node(at, 0);
            self.nodes.0[at as usize].is_there = false;
        }
        found.is_some()
    }

    /// A write: replaces or takes in the object, and counts as a use of it.
    pub fn store(&mut self, owner: usize, key: u64, size: u32, now_secs: u32, expires: u32) {
        self.access_until(owner, key, size, now_secs, expires);
        self.expire_at(owner, key, expires);
    }

    /// Has a key that is there expire at that time, or never.
    fn expire_at(&mut self, owner: usize, key: u64, expires: u32) {
        if let Some(at) = self.index[owner].get(key) {
            self.nodes.0[at as usize].expires = expires;
        }
    }

    fn hit(&mut self, at: u32, now_secs: u32) {
        let node = &mut self.nodes.0[at as usize];
        match &self.parts[usize::from(node.side)].order {
            Order::ExactLru => {
                let (key, size, was) = (node.key, u64::from(node.size), usize::from(node.side));
                self.unlink(at);
                let side = self.side_of(key);
                if side != was {
                    self.parts[was].used -= size;
                    self.parts[side].used += size;
                    self.nodes.0[at as usize].side = side as u8;
                }
                self.link_newest(at);
            }
            Order::Engine { rule, .. } => {
                rule.count(|| fingerprint(node.owner, node.key));
                node.bits.set(rule.apply(node.bits.get(), !node.was_hit, || now_secs));
                node.was_hit = true;
            }
        }
    }

    fn resize_node(&mut self, at: u32, size: u32) {
        let node = &mut self.nodes.0[at as usize];
        let old = std::mem::replace(&mut node.size, size);
        if old == size {
            return;
        }
        let (owner, part) = (usize::from(node.owner), &mut self.parts[usize::from(node.side)]);
        for used in [&mut self.used, &mut self.used_by[owner], &mut part.used] {
            *used = *used - u64::from(old) + u64::from(size);
        }
        self.make_room(RIGHT, 0);
    }

    fn insert(&mut self, owner: usize, side: usize, key: u64, size: u32, now_secs: u32) {
        let node = Node {
            key,
            size,
            owner: owner as u16,
            is_there: true,
            was_hit: false,
            expires: 0,
            side: side as u8,
            bits: Cell::new(0),
            newer: NONE,
            older: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes.0[at as usize] = node;
                at
            }
            None => {
                self.nodes.0.push(node);
                (self.nodes.0.len() - 1) as u32
            }
        };
        self.index[owner].set(key, at);
        let part = &mut self.parts[side];
        for used in [&mut self.used, &mut self.used_by[owner], &mut part.used] {
            *used += u64::from(size);
        }
        match &mut part.order {
            Order::ExactLru => self.link_newest(at),
            Order::Engine { policy, .. } => {
                let bits = policy.admit(fingerprint(owner as u16, key));
                self.nodes.0[at as usize].bits.set(bits);
                policy.push(Entry(at), bits, now_secs);
                policy.tend(&self.nodes);
            }
        }
    }

    /// Evicts until `size` bytes that are added to partition `side` have room.
    fn make_room(&mut self, side: usize, size: u64) {
        while self.used + size > self.capacity {
            let over = |at: usize| {
                let part = &self.parts[at];
                part.used as i64 + if at == side { size as i64 } else { 0 } - part.size as i64
            };
            let from = if self.parts.len() > 1 && over(LEFT) > over(RIGHT) { LEFT } else { RIGHT };
            // The other one, if that has nothing.
            if !self.evict(from) && (self.parts.len() == 1 || !self.evict(LEFT + RIGHT - from)) {
                break;
            }
        }
    }

    /// Evicts one from a partition, if there is any.
    fn evict(&mut self, side: usize) -> bool {
        let part = &mut self.parts[side];
        let victim = match &mut part.order {
            Order::ExactLru => (part.oldest != NONE).then_some(part.oldest),
            Order::Engine { policy, .. } => policy.evict_unhurried(&self.nodes).map(|entry| entry.0),
        };
        let Some(at) = victim else { return false };
        if matches!(self.eviction, Eviction::ExactLru) {
            self.unlink(at);
        }
        let node = &self.nodes.0[at as usize];
        let (owner, key, size) = (usize::from(node.owner), node.key, u64::from(node.size));
        self.evictions += u64::from(node.is_there);
        for used in [&mut self.used, &mut self.used_by[owner], &mut self.parts[side].used] {
            *used -= size;
        }
        self.index[owner].remove(key);
        self.free.push(at);
        true
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, side, .. } = self.nodes.0[at as usize];
        match newer {
            NONE => self.parts[usize::from(side)].newest = older,
            newer => self.nodes.0[newer as usize].older = older,
        }
        match older {
            NONE => self.parts[usize::from(side)].oldest = newer,
            older => self.nodes.0[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let node = &mut self.nodes.0[at as usize];
        let part = &mut self.parts[usize::from(node.side)];
        let second = std::mem::replace(&mut part.newest, at);
        (node.newer, node.older) = (NONE, second);
        match second {
            NONE => part.oldest = at,
            second => self.nodes.0[second as usize].newer = at,
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn validate(&self) {
        let (mut used_by, mut used_in) = (vec![0; self.used_by.len()], vec![0; self.parts.len()]);
        let mut live = vec![true; self.nodes.0.len()];
        for &at in &self.free {
            live[at as usize] = false;
        }
        for (at, node) in self.nodes.0.iter().enumerate().filter(|(at, _)| live[*at]) {
            used_by[usize::from(node.owner)] += u64::from(node.size);
            used_in[usize::from(node.side)] += u64::from(node.size);
            assert_eq!(self.index[usize::from(node.owner)].get(node.key), Some(at as u32), "indexed");
            assert!(node.is_there || node.size == 0, "what was removed has no size");
        }
        assert_eq!(used_by, self.used_by, "by owner");
        assert_eq!(used_in, self.parts.iter().map(|part| part.used).collect::<Vec<_>>(), "by partition");
        assert_eq!(
            self.parts.iter().map(|part| part.size).sum::<u64>(),
            self.capacity,
            "partitions are all of it"
        );
        assert_eq!(used_by.iter().sum::<u64>(), self.used, "in all");
        assert!(self.used <= self.capacity, "{} of {} bytes", self.used, self.capacity);
        let queued = self.parts.iter().map(|part| match &part.order {
            Order::ExactLru => None,
            Order::Engine { policy, .. } => Some(policy.len()),
        });
        if let Some(queued) = queued.sum::<Option<usize>>() {
            assert_eq!(queued, self.nodes.0.len() - self.free.len(), "queued");
        }
    }
}

#[cfg(test)]
mod tests;
