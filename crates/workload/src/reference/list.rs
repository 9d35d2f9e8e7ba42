//! A list of keys that knows where each key is: what the simulators of LRU-like policies are made
//! of.
//!
//! Invariant: `index` holds exactly the nodes of the list; the list runs from the newest end to the
//! oldest.

use super::KeyMap;

const NONE: u32 = u32::MAX;

struct Node {
    key: u64,
    newer: u32,
    older: u32,
}

/// A list of different keys with a newest and an oldest end. Every operation takes constant time.
pub(super) struct List {
    nodes: Vec<Node>,
    free: Vec<u32>,
    index: KeyMap<u32>,
    newest: u32,
    oldest: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), index: KeyMap::default(), newest: NONE, oldest: NONE }
    }
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        self.index.contains_key(&key)
    }

    /// The key at the oldest end.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.nodes.get(self.oldest as usize).map(|node| node.key)
    }

    /// The key that lies next to `key` towards the newest end.
    pub(super) fn newer_than(&self, key: u64) -> Option<u64> {
        let node = &self.nodes[*self.index.get(&key)? as usize];
        self.nodes.get(node.newer as usize).map(|node| node.key)
    }

    /// Adds a key that is not in the list at the newest end.
    pub(super) fn push_newest(&mut self, key: u64) {
        let at = self.node(Node { key, newer: NONE, older: self.newest });
        match std::mem::replace(&mut self.newest, at) {
            NONE => self.oldest = at,
            second => self.nodes[second as usize].newer = at,
        }
    }

    /// Adds a key that is not in the list at the oldest end.
    pub(super) fn push_oldest(&mut self, key: u64) {
        let at = self.node(Node { key, newer: self.oldest, older: NONE });
        match std::mem::replace(&mut self.oldest, at) {
            NONE => self.newest = at,
            second => self.nodes[second as usize].older = at,
        }
    }

    fn node(&mut self, node: Node) -> u32 {
        let key = node.key;
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
        self.index.insert(key, at);
        at
    }

    /// Takes a key out; true when it was there.
    pub(super) fn remove(&mut self, key: u64) -> bool {
        let Some(at) = self.index.remove(&key) else { return false };
        let Node { newer, older, .. } = self.nodes[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        self.free.push(at);
        true
    }

    /// Takes the oldest key out.
    pub(super) fn pop_oldest(&mut self) -> Option<u64> {
        let key = self.oldest()?;
        self.remove(key);
        Some(key)
    }

    /// Takes the newest key out.
    pub(super) fn pop_newest(&mut self) -> Option<u64> {
        let key = self.nodes.get(self.newest as usize)?.key;
        self.remove(key);
        Some(key)
    }

    /// Moves a key to the newest end; true when it was there.
    pub(super) fn renew(&mut self, key: u64) -> bool {
        let found = self.remove(key);
        if found {
            self.push_newest(key);
        }
        found
    }
}
