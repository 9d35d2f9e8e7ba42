//! Exact LRU, by number of objects or by bytes.
//!
//! Invariants:
//! 1. `index` holds exactly the nodes of the list; the list runs from the most to the least
//!    recently used one.
//! 2. `used` is the sum of the sizes of the nodes, and never above `capacity` after a call.

use super::{KeyMap, Simulator};

const NONE: u32 = u32::MAX;

struct Node {
    key: u64,
    size: u64,
    newer: u32,
    older: u32,
}

/// A cache that always gives up the object that was asked for longest ago.
pub struct ExactLru {
    capacity: u64,
    by_bytes: bool,
    used: u64,
    nodes: Vec<Node>,
    free: Vec<u32>,
    index: KeyMap<u32>,
    newest: u32,
    oldest: u32,
    evictions: u64,
}

impl ExactLru {
    /// Room for `capacity` objects, whatever their sizes.
    pub fn by_items(capacity: u64) -> Self {
        Self::new(capacity, false)
    }

    /// Room for objects of together `capacity` bytes. An object larger than that is never taken in.
    /// An access that tells another size than the last one changes the object's size.
    pub fn by_bytes(capacity: u64) -> Self {
        Self::new(capacity, true)
    }

    fn new(capacity: u64, by_bytes: bool) -> Self {
        Self {
            capacity,
            by_bytes,
            used: 0,
            nodes: Vec::new(),
            free: Vec::new(),
            index: KeyMap::default(),
            newest: NONE,
            oldest: NONE,
            evictions: 0,
        }
    }

    /// The space in use, in the units of the capacity.
    pub fn used(&self) -> u64 {
        self.used
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = self.nodes[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let second = std::mem::replace(&mut self.newest, at);
        let node = &mut self.nodes[at as usize];
        (node.newer, node.older) = (NONE, second);
        match second {
            NONE => self.oldest = at,
            second => self.nodes[second as usize].newer = at,
        }
    }

    fn drop_node(&mut self, at: u32) {
        self.unlink(at);
        let Node { key, size, .. } = self.nodes[at as usize];
        self.used -= size;
        self.index.remove(&key);
        self.free.push(at);
    }

    fn make_room(&mut self, size: u64) {
        while self.used + size > self.capacity && self.oldest != NONE {
            self.drop_node(self.oldest);
            self.evictions += 1;
        }
    }
}

impl Simulator for ExactLru {
    fn access(&mut self, key: u64, size: u64) -> bool {
        let size = if self.by_bytes { size } else { 1 };
        if let Some(at) = self.index.get(&key).copied() {
            let old = std::mem::replace(&mut self.nodes[at as usize].size, size);
            self.used = self.used - old + size;
            self.unlink(at);
            self.link_newest(at);
            // The object itself is the newest, so that it goes last, and only if it no longer fits
            // alone.
            self.make_room(0);
            return true;
        }
        if size > self.capacity {
            return false;
        }
        self.make_room(size);
        let node = Node { key, size, newer: NONE, older: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.used += size;
        self.index.insert(key, at);
        self.link_newest(at);
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        let found = self.index.get(&key).copied();
        if let Some(at) = found {
            self.unlink(at);
            self.link_newest(at);
        }
        found.is_some()
    }

    fn remove(&mut self, key: u64) -> bool {
        let found = self.index.get(&key).copied();
        if let Some(at) = found {
            self.drop_node(at);
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.index.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
