//! A simulated cache of keys and sizes, whose capacity changes while it runs.
//!
//! It evicts by exact LRU or by one of the engine's policies (`evict`), which see the same as in
//! the engine: entries, policy bits, fingerprints. Its memory is the sum of sizes, with one queue
//! for all items ([`Cache::new`]); or it is the engine's, with a queue and chunks for each size
//! class, which share it by the engine's rules ([`Cache::of_engine`]; `memory`). There are two
//! queues in the place of each if a decision splits the cache on a cliff ([`Cache::set_room`]).
//!
//! A read changes no item. A write of another length makes a new one, as in the engine. An item
//! that was removed, or has expired, takes no room.
//!
//! Invariants, checked by [`Cache::validate`]:
//! 1. `used` is the sum of the sizes of the items held, by owner and in all, and after a call at
//!    most the capacity.
//! 2. Each of the two partitions holds the items of its queues; without a split the left one
//!    empties as items are evicted from it.
//! 3. The index of an owner names exactly the nodes of that owner.
//! 4. A size class holds no more items than its memory has chunks, and the memory of all classes,
//!    with the metadata of their chunks, is within the capacity.

mod classes;
mod eviction;
mod expiry;
mod index;
mod memory;

use std::cell::Cell;
use std::sync::Arc;

use allocate::talus::Split;
use base::hash::mix64;
use evict::{Claim, Entry, HitRule, Items, Policy};
use workload::engine_memory::EngineMemory;

use classes::Classes;
pub use eviction::Eviction;
use expiry::Expiries;
use index::Index;

const NONE: u32 = u32::MAX;

/// Something that is held, or a place for it.
struct Node {
    key: u64,
    /// Bytes that it takes, and the length that it was stored with.
    size: u32,
    len: u32,
    owner: u16,
    /// True if it holds an item.
    is_there: bool,
    /// True if the item was hit since it was inserted.
    was_hit: bool,
    /// Expiry time, in seconds; 0 = never.
    expires: u32,
    /// In which partition and class it is queued.
    side: u8,
    class: u8,
    bits: Cell<u8>,
    newer: u32,
    older: u32,
}

/// The items of one queue. Entries of others, and of items that have left, are stale.
struct View<'a> {
    nodes: &'a [Node],
    side: u8,
    class: u8,
}

impl View<'_> {
    fn node(&self, entry: Entry) -> Option<&Node> {
        let node = self.nodes.get(entry.0 as usize)?;
        (node.is_there && node.side == self.side && node.class == self.class).then_some(node)
    }
}

impl Items for View<'_> {
    fn bits(&self, entry: Entry) -> Option<u8> {
        self.node(entry).map(|node| node.bits.get())
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if let Some(node) = self.node(entry) {
            node.bits.set((node.bits.get() & !mask) | (value & mask));
        }
    }

    fn claim(&self, entry: Entry) -> Claim {
        self.node(entry).map_or(Claim::Gone, |_| Claim::Taken)
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        let node = &self.nodes[entry.0 as usize];
        fingerprint(node.owner, node.key)
    }
}

fn fingerprint(owner: u16, key: u64) -> u32 {
    mix64(key ^ (u64::from(owner) << 48)) as u32
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

/// The queue of a size class in a partition.
struct Queue {
    order: Order,
    newest: u32,
    oldest: u32,
}

/// A partition: queues of its own.
struct Part {
    /// Bytes that it should hold, and that it holds.
    size: u64,
    used: u64,
    /// By class; one if there are no classes.
    queues: Vec<Queue>,
}

impl Part {
    fn new(eviction: Eviction, size: u64, classes: usize) -> Self {
        let queue = || Queue { order: Order::new(eviction), newest: NONE, oldest: NONE };
        Self { size, used: 0, queues: (0..classes).map(|_| queue()).collect() }
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
    nodes: Vec<Node>,
    free: Vec<u32>,
    index: Vec<Index>,
    eviction: Eviction,
    /// The size classes; `None` if memory is the sum of sizes.
    classes: Option<Classes>,
    /// One partition, and another from the first split on.
    parts: Vec<Part>,
    /// A key belongs to the left partition if 32 bits of its hash are below this; 0 = there is no
    /// split.
    threshold: u64,
    expiries: Expiries,
    evictions: u64,
}

impl Cache {
    /// An empty cache of `capacity` bytes for `owners` owners, whose keys are separate. The memory
    /// of an item is its length.
    pub fn new(eviction: Eviction, capacity: u64, owners: usize) -> Self {
        Self::with(eviction, capacity, owners, None)
    }

    /// The same with the engine's memory: an item of some length takes a chunk of its size class.
    /// Runs and the metadata of their chunks may take `share` of the capacity.
    pub fn of_engine(
        eviction: Eviction,
        capacity: u64,
        owners: usize,
        asked: &Arc<EngineMemory>,
        share: f64,
    ) -> Self {
        Self::with(eviction, capacity, owners, Some(Classes::new(asked, share, capacity)))
    }

    fn with(eviction: Eviction, capacity: u64, owners: usize, classes: Option<Classes>) -> Self {
        let queues = classes.as_ref().map_or(1, Classes::count);
        Self {
            capacity,
            used: 0,
            used_by: vec![0; owners],
            nodes: Vec::new(),
            free: Vec::new(),
            index: (0..owners).map(|_| Index::default()).collect(),
            eviction,
            classes,
            parts: vec![Part::new(eviction, capacity, queues)],
            threshold: 0,
            expiries: Expiries::default(),
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

    /// Returns the number of objects evicted so far.
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
            let queues = self.parts[RIGHT].queues.len();
            self.parts.push(Part::new(self.eviction, 0, queues));
        }
        self.parts.iter_mut().zip([right, left]).for_each(|(part, size)| part.size = size);
        match &mut self.classes {
            Some(classes) => {
                classes.set_capacity(bytes);
                self.shrink_classes();
            }
            None => self.make_room(RIGHT, 0),
        }
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

    /// Requests a key of an owner, and inserts it at this length if it is absent. True on a hit. An
    /// object that is larger than the cache is not inserted. `now_secs` is for policies that know
    /// time.
    pub fn access(&mut self, owner: usize, key: u64, len: u32, now_secs: u32) -> bool {
        self.access_until(owner, key, len, now_secs, 0)
    }

    /// The same; if the key is inserted, it is there until `expires`, in seconds, or for ever if
    /// that is 0.
    pub fn access_until(&mut self, owner: usize, key: u64, len: u32, now_secs: u32, expires: u32) -> bool {
        if let Some(at) = self.find(owner, key, now_secs) {
            self.hit(at, now_secs);
            return true;
        }
        self.insert(owner, key, len, now_secs, expires);
        false
    }

    /// Removes a key; true if it was there. Not an eviction.
    pub fn remove(&mut self, owner: usize, key: u64) -> bool {
        let found = self.index[owner].get(key);
        if let Some(at) = found {
            self.take_out(at);
        }
        found.is_some()
    }

    /// A write: inserts the object, or counts as a use of it; one of another length takes its
    /// place.
    pub fn store(&mut self, owner: usize, key: u64, len: u32, now_secs: u32, expires: u32) {
        if let Some(at) = self.find(owner, key, now_secs) {
            self.hit(at, now_secs);
            if self.nodes[at as usize].len == len {
                self.nodes[at as usize].expires = expires;
                self.expiries.note(at, expires);
                return;
            }
            self.take_out(at);
        }
        self.insert(owner, key, len, now_secs, expires);
    }

    /// The node of a key that is there and has not expired.
    fn find(&mut self, owner: usize, key: u64, now_secs: u32) -> Option<u32> {
        self.reap(now_secs);
        self.index[owner].get(key)
    }

    fn hit(&mut self, at: u32, now_secs: u32) {
        let node = &mut self.nodes[at as usize];
        match &self.parts[usize::from(node.side)].queues[usize::from(node.class)].order {
            Order::ExactLru => {
                let (key, size, was) = (node.key, u64::from(node.size), usize::from(node.side));
                self.unlink(at);
                let side = self.side_of(key);
                if side != was {
                    self.parts[was].used -= size;
                    self.parts[side].used += size;
                    self.nodes[at as usize].side = side as u8;
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

    /// Inserts an object that is absent, if there is room to be had.
    fn insert(&mut self, owner: usize, key: u64, len: u32, now_secs: u32, expires: u32) {
        let side = self.side_of(key);
        let Some((class, size)) = self.room_for(side, len) else { return };
        let node = Node {
            key,
            size,
            len,
            owner: owner as u16,
            is_there: true,
            was_hit: false,
            expires,
            side: side as u8,
            class: class as u8,
            bits: Cell::new(0),
            newer: NONE,
            older: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.index[owner].set(key, at);
        self.expiries.note(at, expires);
        let part = &mut self.parts[side];
        for used in [&mut self.used, &mut self.used_by[owner], &mut part.used] {
            *used += u64::from(size);
        }
        match &mut part.queues[class].order {
            Order::ExactLru => self.link_newest(at),
            Order::Engine { policy, .. } => {
                let bits = policy.admit(fingerprint(owner as u16, key));
                self.nodes[at as usize].bits.set(bits);
                policy.push(Entry(at), bits, now_secs);
                policy.restore_shares(&View { nodes: &self.nodes, side: side as u8, class: class as u8 });
            }
        }
    }

    /// Has room for an object of this length, if there is any to be had: its class, and the bytes
    /// that it takes.
    fn room_for(&mut self, side: usize, len: u32) -> Option<(usize, u32)> {
        if self.classes.is_some() {
            return self.take_chunk(len);
        }
        let room = if self.threshold == 0 { self.capacity } else { self.parts[side].size };
        if u64::from(len) > room {
            return None;
        }
        self.make_room(side, u64::from(len));
        Some((0, len))
    }

    /// Evicts until `size` bytes that are added to partition `side` have room.
    fn make_room(&mut self, side: usize, size: u64) {
        while self.used + size > self.capacity {
            if !self.evict_one(side, size, 0) {
                break;
            }
        }
    }

    /// Evicts an item of a class from the partition that exceeds its size by most if `size` bytes
    /// are added to partition `side`; from the other one if that has nothing.
    fn evict_one(&mut self, side: usize, size: u64, class: usize) -> bool {
        let over = |at: usize| {
            let part = &self.parts[at];
            part.used as i64 + if at == side { size as i64 } else { 0 } - part.size as i64
        };
        let from = if self.parts.len() > 1 && over(LEFT) > over(RIGHT) { LEFT } else { RIGHT };
        self.evict(from, class) || self.parts.len() > 1 && self.evict(LEFT + RIGHT - from, class)
    }

    /// Evicts one from a queue, if there is any.
    fn evict(&mut self, side: usize, class: usize) -> bool {
        let queue = &mut self.parts[side].queues[class];
        let victim = match &mut queue.order {
            Order::ExactLru => (queue.oldest != NONE).then_some(queue.oldest),
            Order::Engine { policy, .. } => {
                let view = View { nodes: &self.nodes, side: side as u8, class: class as u8 };
                policy.evict_unhurried(&view).map(|entry| entry.0)
            }
        };
        let Some(at) = victim else { return false };
        if matches!(self.eviction, Eviction::ExactLru) {
            self.unlink(at);
        }
        self.evictions += 1;
        self.forget(at);
        true
    }

    /// Takes an item out that is not evicted.
    fn take_out(&mut self, at: u32) {
        if matches!(self.eviction, Eviction::ExactLru) {
            self.unlink(at);
            return self.forget(at);
        }
        let node = &self.nodes[at as usize];
        let (side, class, bits) = (node.side, node.class, node.bits.get());
        self.forget(at);
        let view = View { nodes: &self.nodes, side, class };
        let queue = &mut self.parts[usize::from(side)].queues[usize::from(class)];
        if let Order::Engine { policy, .. } = &mut queue.order {
            policy.removed(bits, &view, || Entry(at));
        }
    }

    /// Frees the node of an item that is in no queue any more.
    fn forget(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        node.is_there = false;
        let (owner, key, size) = (usize::from(node.owner), node.key, u64::from(node.size));
        let part = &mut self.parts[usize::from(node.side)];
        for used in [&mut self.used, &mut self.used_by[owner], &mut part.used] {
            *used -= size;
        }
        if let Some(classes) = &mut self.classes {
            classes.item_left(usize::from(node.class));
        }
        self.index[owner].remove(key);
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, side, class, .. } = self.nodes[at as usize];
        let queue = &mut self.parts[usize::from(side)].queues[usize::from(class)];
        match newer {
            NONE => queue.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => queue.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let queue = &mut self.parts[usize::from(node.side)].queues[usize::from(node.class)];
        let second = std::mem::replace(&mut queue.newest, at);
        (node.newer, node.older) = (NONE, second);
        match second {
            NONE => queue.oldest = at,
            second => self.nodes[second as usize].newer = at,
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn validate(&self) {
        let (mut used_by, mut used_in) = (vec![0; self.used_by.len()], vec![0; self.parts.len()]);
        let mut in_class = vec![0; self.parts[RIGHT].queues.len()];
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_there) {
            used_by[usize::from(node.owner)] += u64::from(node.size);
            used_in[usize::from(node.side)] += u64::from(node.size);
            in_class[usize::from(node.class)] += 1;
            assert_eq!(self.index[usize::from(node.owner)].get(node.key), Some(at as u32), "indexed");
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
        let held = self.nodes.len() - self.free.len();
        assert_eq!(in_class.iter().sum::<u64>(), held as u64, "nodes are held or free");
        if let Some(classes) = &self.classes {
            classes.validate(&in_class);
        }
        let queues = self.parts.iter().flat_map(|part| &part.queues);
        let queued = queues.map(|queue| match &queue.order {
            Order::ExactLru => None,
            Order::Engine { policy, .. } => Some(policy.len()),
        });
        if let Some(queued) = queued.sum::<Option<usize>>() {
            assert_eq!(queued, held, "queued");
        }
    }
}

#[cfg(test)]
mod tests;
