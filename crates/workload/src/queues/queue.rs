//! An LRU queue of keys in one or two partitions, which tells where a key was found: in the body,
//! in the tail, or in the shadows behind (Cliffhanger, NSDI '16, section 5.1 and figure 5).
//!
//! ```text
//!                     items                    |            keys only
//! newest  body ... ... ... ... ... tail (128)  |  near shadow (128)   far shadow (1 MB of items)
//! ```
//!
//! Each partition is such a row. A key is in at most one place, so that a key whose partition
//! changes is neither missed nor there twice.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use allocate::cliffhanger::Side;
use base::hash::mix64;

/// The part of a queue in which a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Among the items, not at their end.
    Body,
    /// Among the last items of its partition.
    Tail,
    /// In the small shadow right behind the items.
    Near,
    /// In the long shadow behind that.
    Far,
}

const PLACES: [Place; 4] = [Place::Body, Place::Tail, Place::Near, Place::Far];
const SIDES: [Side; 2] = [Side::Left, Side::Right];
const NONE: u32 = u32::MAX;

/// Hashes keys that are numbers already.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = mix64(key);
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    newer: u32,
    older: u32,
    side: Side,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    len: u64,
}

impl Default for List {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }
}

/// An LRU queue of keys in two partitions, with shadows. It does not know its size: its owner calls
/// [`Self::evict`].
#[derive(Clone, Debug)]
pub struct LruQueue {
    nodes: Vec<Node>,
    free: Vec<u32>,
    index: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    lists: [[List; 4]; 2],
    window: u64,
    far: [u64; 2],
}

impl LruQueue {
    /// An empty queue whose tails and near shadows have `window` keys each; 0 = there are none. The
    /// far shadows are empty until [`Self::set_far`].
    pub fn new(window: u64) -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            index: HashMap::default(),
            lists: Default::default(),
            window,
            far: [0; 2],
        }
    }

    /// Requests `key`, which belongs to the partition `side`, and makes it the newest item there.
    /// Returns where it was: in the tail or the body, it is a hit; elsewhere a miss, after which
    /// the caller evicts the excess.
    pub fn access(&mut self, key: u64, side: Side) -> Option<(Side, Place)> {
        let found = self.index.get(&key).copied();
        let (node, was) = match found {
            Some(node) => {
                let Node { side, place, .. } = self.nodes[node as usize];
                self.unlink(node);
                (node, Some((side, place)))
            }
            None => {
                let node = self.add(key, side);
                self.index.insert(key, node);
                (node, None)
            }
        };
        self.push(node, side, Place::Body);
        self.fill_tail(side);
        if let Some((other, Place::Tail)) = was
            && other != side
        {
            self.fill_tail(other);
        }
        was
    }

    /// Returns the partition and the part in which `key` is.
    pub fn find(&self, key: u64) -> Option<(Side, Place)> {
        self.index.get(&key).map(|node| (self.nodes[*node as usize].side, self.nodes[*node as usize].place))
    }

    /// Returns the number of items in a partition.
    pub fn len_of(&self, side: Side) -> u64 {
        self.list(side, Place::Body).len + self.list(side, Place::Tail).len
    }

    /// Returns the number of items.
    pub fn len(&self) -> u64 {
        self.len_of(Side::Left) + self.len_of(Side::Right)
    }

    /// Returns whether the queue has no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the most keys that the far shadow of a partition may have.
    pub fn set_far(&mut self, side: Side, keys: u64) {
        self.far[side as usize] = keys;
        self.trim_far(side);
    }

    /// Lets the oldest item of a partition go to its shadow, if there is one.
    pub fn evict(&mut self, side: Side) -> Option<u64> {
        let place = if self.list(side, Place::Tail).len > 0 { Place::Tail } else { Place::Body };
        let node = self.list(side, place).oldest;
        if node == NONE {
            return None;
        }
        let key = self.nodes[node as usize].key;
        self.unlink(node);
        self.push(node, side, Place::Near);
        self.fill_tail(side);
        while self.list(side, Place::Near).len > self.window {
            let node = self.list(side, Place::Near).oldest;
            self.unlink(node);
            self.push(node, side, Place::Far);
        }
        self.trim_far(side);
        Some(key)
    }

    fn trim_far(&mut self, side: Side) {
        while self.list(side, Place::Far).len > self.far[side as usize] {
            let node = self.list(side, Place::Far).oldest;
            self.unlink(node);
            self.index.remove(&self.nodes[node as usize].key);
            self.free.push(node);
        }
    }

    /// The tail has the oldest items, as many as the window has.
    fn fill_tail(&mut self, side: Side) {
        while self.list(side, Place::Tail).len < self.window && self.list(side, Place::Body).len > 0 {
            let node = self.list(side, Place::Body).oldest;
            self.unlink(node);
            self.push(node, side, Place::Tail);
        }
    }

    fn list(&self, side: Side, place: Place) -> &List {
        &self.lists[side as usize][place as usize]
    }

    fn add(&mut self, key: u64, side: Side) -> u32 {
        let node = Node { key, newer: NONE, older: NONE, side, place: Place::Body };
        if let Some(free) = self.free.pop() {
            self.nodes[free as usize] = node;
            return free;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn unlink(&mut self, node: u32) {
        let Node { newer, older, side, place, .. } = self.nodes[node as usize];
        let list = &mut self.lists[side as usize][place as usize];
        list.len -= 1;
        match newer {
            NONE => list.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn push(&mut self, node: u32, side: Side, place: Place) {
        let list = &mut self.lists[side as usize][place as usize];
        list.len += 1;
        let older = std::mem::replace(&mut list.newest, node);
        match older {
            NONE => list.oldest = node,
            older => self.nodes[older as usize].newer = node,
        }
        let key = self.nodes[node as usize].key;
        self.nodes[node as usize] = Node { key, newer: NONE, older, side, place };
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn validate(&self) {
        let mut seen = 0;
        for (side, place) in SIDES.into_iter().flat_map(|side| PLACES.map(|place| (side, place))) {
            let list = self.list(side, place);
            let (mut node, mut newer, mut len) = (list.newest, NONE, 0);
            while node != NONE {
                let this = self.nodes[node as usize];
                assert_eq!((this.side, this.place, this.newer), (side, place, newer));
                assert_eq!(self.index.get(&this.key), Some(&node), "each key is in one place");
                (newer, node, len) = (node, this.older, len + 1);
            }
            assert_eq!((list.oldest, list.len), (newer, len));
            seen += len;
        }
        assert_eq!(seen as usize, self.index.len());
        assert_eq!(self.nodes.len(), self.index.len() + self.free.len());
        for side in SIDES {
            assert_eq!(self.list(side, Place::Tail).len, self.window.min(self.len_of(side)));
            assert!(self.list(side, Place::Near).len <= self.window);
            assert!(self.list(side, Place::Far).len <= self.far[side as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_item_passes_from_place_to_place() {
        let mut queue = LruQueue::new(2);
        queue.set_far(Side::Left, 3);
        for key in 1..=10 {
            queue.access(key, Side::Left);
            if queue.len() > 4 {
                queue.evict(Side::Left);
            }
        }
        let places: Vec<_> = (1..=10).map(|key| queue.find(key).map(|(_, place)| place)).collect();
        use Place::{Body, Far, Near, Tail};
        let expected = [None, Some(Far), Some(Far), Some(Far), Some(Near), Some(Near)];
        assert_eq!(places[..6], expected);
        assert_eq!(places[6..], [Some(Tail), Some(Tail), Some(Body), Some(Body)]);
        assert_eq!(queue.access(5, Side::Right), Some((Side::Left, Near)), "it moves to where it belongs");
        assert_eq!(queue.find(5), Some((Side::Right, Tail)));
        queue.validate();
    }

    proptest! {
        /// Against plain lists, the newest first.
        #[test]
        fn it_does_as_plain_lists_do(
            window in 0_u64..4, far in 0_u64..6, size in 1_u64..12,
            requests in prop::collection::vec((0_u64..40, any::<bool>()), 1..300),
        ) {
            let mut queue = LruQueue::new(window);
            SIDES.iter().for_each(|side| queue.set_far(*side, far));
            let mut items: [Vec<u64>; 2] = Default::default();
            let mut shadows: [Vec<u64>; 2] = Default::default();
            for (key, left) in requests {
                let side = if left { Side::Left } else { Side::Right };
                let was_item = items.iter().position(|items| items.contains(&key));
                let was_shadow = shadows.iter().position(|keys| keys.contains(&key));
                let found = queue.access(key, side);
                let is_hit = matches!(found, Some((_, Place::Body | Place::Tail)));
                prop_assert_eq!(was_item.is_some(), is_hit);
                prop_assert_eq!(was_item.or(was_shadow), found.map(|(side, _)| side as usize));
                items.iter_mut().chain(&mut shadows).for_each(|keys| keys.retain(|other| *other != key));
                items[side as usize].insert(0, key);
                while queue.len() > size {
                    let fuller = if queue.len_of(Side::Left) > size / 2 { Side::Left } else { Side::Right };
                    let evicted = items[fuller as usize].pop();
                    prop_assert_eq!(queue.evict(fuller), evicted);
                    shadows[fuller as usize].insert(0, evicted.unwrap());
                    shadows[fuller as usize].truncate((window + far) as usize);
                }
                queue.validate();
            }
        }
    }
}
