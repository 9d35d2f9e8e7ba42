//! Chained items: more items under one key.
//!
//! An item that was allocated with [`crate::ItemOptions::chainable`] can have any number of *links*
//! chained to it: items without a key, each in a chunk of its own, which live and end with it. The
//! latest comes first. `slab::item::link` says how they lie in memory.
//!
//! Links have a place in the eviction queue of their own size class. If a link is to be
//! evicted, the item that it is chained to is evicted, with all its links, unless it is held.
//!
//! Invariants:
//! 1. Those of `slab::item::link`. The lock of a chain is one of [`ChainLocks`], chosen by its tag,
//!    which comes from the hash of the key; it is the last lock that a thread takes.
//! 2. A link that is in a chain belongs to an item that is in memory: an item's chain is empty when
//!    its chunk is freed.
//! 3. A [`Link`] holds the first reference to a link that enters a chain only in a call that
//!    consumes the [`Link`]. Before, nobody else has a reference (invariant 1 of `slab::item`). A
//!    [`LinkHandle`] holds a reference.
//! 4. While the lock of a chain is held, none of its links is freed, nor is the item that they are
//!    chained to: links leave a chain, and an item gives its chain up, under that lock alone.

mod ops;

use std::ops::Deref;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use slab::item::Acquired;
use slab::{Item, ItemPtr};

use crate::cache::{Cache, Core};
use crate::error::Error;
use crate::handle::{MOST_HELD, ReadHandle, WriteHandle};

const STRIPES: usize = 64;

/// The locks of all chains: see invariant 1.
pub(crate) struct ChainLocks([CachePadded<Mutex<()>>; STRIPES]);

impl Default for ChainLocks {
    fn default() -> Self {
        Self([const { CachePadded::new(Mutex::new(())) }; STRIPES])
    }
}

/// A link that is in no chain yet: what it holds is to be written. Dropping it frees it.
///
/// ```
/// # use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
/// # fn main() -> Result<(), millpond::Error> {
/// # let cache = Cache::new(CacheConfig::default())?;
/// # let pool = cache.add_pool(PoolConfig::named("logs"))?;
/// let options = ItemOptions { chainable: true, ..ItemOptions::default() };
/// let (log, _) = cache.insert_or_replace(cache.allocate(pool, b"log", 0, &options)?);
/// for line in ["first", "second"] {
///     let mut link = log.allocate_link(line.len())?;
///     link.value_mut().copy_from_slice(line.as_bytes());
///     log.push_link(link).expect("allocated for this item");
/// }
/// let lines: Vec<_> = log.links().map(|link| link.to_vec()).collect();
/// assert_eq!(lines, [&b"second"[..], b"first"]);
/// assert_eq!(&*log.pop_link().expect("there are two"), b"second");
/// # Ok(())
/// # }
/// ```
pub struct Link<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
}

// SAFETY: nobody else has a reference to the item of such a link (invariant 3).
unsafe impl Send for Link<'_> {}
// SAFETY: shared access only reads what nobody else writes (invariant 3).
unsafe impl Sync for Link<'_> {}

impl Link<'_> {
    /// Its bytes, to be written. What is not written keeps what another item left there.
    pub fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: this is the only reference (invariant 3), and `&mut self` keeps other views away.
        unsafe { self.item.link_value_mut() }
    }

    /// Its bytes.
    pub fn value(&self) -> &[u8] {
        // SAFETY: this is the only reference (invariant 3), and `&self` keeps `value_mut` away.
        unsafe { self.item.link_value() }
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        self.core.release(self.ptr);
    }
}

impl std::fmt::Debug for Link<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("len", &self.value().len()).finish()
    }
}

/// A reference to a link: its bytes, without a copy. It stays as it is while the handle lives,
/// whatever becomes of the chain.
pub struct LinkHandle<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
}

// SAFETY: it holds a reference (invariant 3), and reads what is not written once a link is in a
// chain (invariant 3 of `slab::item`).
unsafe impl Send for LinkHandle<'_> {}
// SAFETY: as for `Send` (invariant 3).
unsafe impl Sync for LinkHandle<'_> {}

impl<'c> LinkHandle<'c> {
    /// Takes over a reference.
    fn adopt(core: &'c Core, ptr: ItemPtr) -> Self {
        Self { core, item: core.arena.item(ptr).0, ptr }
    }

    /// Its bytes.
    pub fn value(&self) -> &[u8] {
        // SAFETY: the handle holds a reference (invariant 3); what a link holds is not written once
        // it is in a chain (invariant 3 of `slab::item`).
        unsafe { self.item.link_value() }
    }

    /// Returns whether it still is in its chain.
    pub fn is_current(&self) -> bool {
        self.item.state().is_indexed()
    }

    /// Another handle of the same link. `None`: 16,382 are held, and nothing has changed.
    pub fn try_clone(&self) -> Option<Self> {
        self.item.state().duplicate().then(|| Self { ..*self })
    }
}

impl Deref for LinkHandle<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.value()
    }
}

impl Clone for LinkHandle<'_> {
    /// Another handle of the same link.
    ///
    /// # Panics
    /// Where 16,382 are held, with nothing changed: see [`Self::try_clone`].
    fn clone(&self) -> Self {
        self.try_clone().expect(MOST_HELD)
    }
}

impl Drop for LinkHandle<'_> {
    fn drop(&mut self) {
        self.core.release(self.ptr);
    }
}

impl std::fmt::Debug for LinkHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkHandle").field("len", &self.value().len()).finish()
    }
}

/// The links of an item, the latest first, while others change the chain: what is chained meanwhile
/// is not seen, what is taken away may be seen or not, and all others are seen once.
/// [`Iterator::next`] panics where 16,382 handles of a link are held.
pub struct Links<'c> {
    core: &'c Core,
    parent: ItemPtr,
    tag: u32,
    at: At<'c>,
}

enum At<'c> {
    Start,
    /// The link that was seen last, and how many come after it.
    After(LinkHandle<'c>, u32),
    End,
}

impl<'c> Links<'c> {
    /// Those of an item that somebody holds, or owns, for as long as the result is used.
    pub(crate) fn of(core: &'c Core, parent: ItemPtr) -> Self {
        let chained = core.arena.item(parent).0.state().is_chained();
        let tag = if chained { core.chain_tag(parent) } else { 0 };
        Self { core, parent, tag, at: if chained { At::Start } else { At::End } }
    }

    /// Returns the link to go on with, and the number of links from there on. Called with the
    /// chain's lock held.
    fn upcoming(&self) -> Option<(ItemPtr, u32)> {
        let core = self.core;
        // SAFETY: somebody holds or owns the item, and the lock is held under which alone the ends
        // of its chain change (invariant 1).
        let (first, count) = unsafe { core.arena.item(self.parent).0.chain() };
        let (last, left) = match &self.at {
            At::Start => return first.map(|first| (first, count)),
            At::End => return None,
            At::After(last, left) => (last, (*left).min(count)),
        };
        if left == 0 {
            return None;
        }
        // SAFETY: `last` holds a reference (invariant 3). The lock is held under which the pointers
        // of a link change (invariant 1): in a chain they are those of the chain.
        let (next, parent) = unsafe { last.item.link() };
        let next = if last.item.state().is_indexed() && parent == Some(self.parent) {
            next
        } else {
            // It was taken away or replaced. Those that come after it are still the last of the
            // chain.
            core.nth_link(self.parent, count - left)
        };
        next.map(|next| (next, left))
    }
}

impl<'c> Iterator for Links<'c> {
    type Item = LinkHandle<'c>;

    fn next(&mut self) -> Option<LinkHandle<'c>> {
        loop {
            let locked = self.core.lock_chain(self.tag);
            let Some((ptr, left)) = self.upcoming() else {
                drop(locked);
                self.at = At::End;
                return None;
            };
            let state = self.core.arena.item(ptr).0.state();
            let acquired = state.acquire();
            drop(locked);
            // Nothing waits for those who hold it: this thread may be one of them.
            assert!(acquired != Acquired::Overflow, "{MOST_HELD}");
            if acquired == Acquired::Gone {
                continue;
            }
            let link = LinkHandle::adopt(self.core, ptr);
            // SAFETY: `link` holds a reference, so that its pool and class are there (invariants 1
            // and 2 of `pools`).
            let class = unsafe { self.core.class_of(self.core.arena.info_of(ptr)) };
            state.record_access(|bits, first| class.rule.apply(bits, first, || self.core.now()));
            self.at = At::After(link.clone(), left - 1);
            return Some(link);
        }
    }
}

impl std::fmt::Debug for Links<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Links")
    }
}

/// Methods for the chain of an item, for [`ReadHandle`] and [`WriteHandle`] alike.
macro_rules! chain_methods {
    () => {
        /// Makes a link for this item's chain, in the item's pool, with room for `len` bytes. It is
        /// seen by nobody until it is [pushed](Self::push_link).
        ///
        /// # Errors
        /// [`crate::ErrorKind::NotChainable`] where the item was not allocated with
        /// [`crate::ItemOptions::chainable`]; [`crate::ErrorKind::TooLarge`] beyond the largest
        /// chunk of the pool; [`crate::ErrorKind::OutOfMemory`] where nothing can be evicted.
        pub fn allocate_link(&self, len: usize) -> Result<Link<'c>, Error> {
            let (core, ptr) = self.parts();
            core.check_open(ptr)?;
            core.allocate_link(ptr, len)
        }

        /// Puts a link that was allocated for this item, or another of the same key, in front of
        /// its chain.
        ///
        /// # Errors
        /// The link, where it was allocated for another key, or in another pool or cache.
        pub fn push_link(&self, link: Link<'c>) -> Result<(), Link<'c>> {
            let (core, ptr) = self.parts();
            if core.is_open(ptr) { core.push_link(ptr, link) } else { Err(link) }
        }

        /// Takes the first link away: the one that was pushed last.
        pub fn pop_link(&self) -> Option<LinkHandle<'c>> {
            let (core, ptr) = self.parts();
            if core.is_open(ptr) { core.pop_link(ptr) } else { None }
        }

        /// Puts a link in the place of another one.
        ///
        /// # Errors
        /// The new link, where the old one is not in this item's chain, or the new one was
        /// allocated for another key, or in another pool or cache.
        pub fn replace_link(&self, old: &LinkHandle<'_>, new: Link<'c>) -> Result<(), Link<'c>> {
            let (core, ptr) = self.parts();
            if core.is_open(ptr) { core.replace_link(ptr, old, new) } else { Err(new) }
        }

        /// Returns the links that are chained to it, the latest first.
        pub fn links(&self) -> Links<'_> {
            let (core, ptr) = self.parts();
            Links::of(core, ptr)
        }

        /// Returns the number of links that are chained to it.
        pub fn link_count(&self) -> u32 {
            let (core, ptr) = self.parts();
            core.link_count(ptr)
        }

        /// Returns whether links can be chained to it: not to a
        /// [long value](crate::Cache::allocate_value), which lies in links of its own: those can be
        /// read, and stay as they are.
        pub fn is_chainable(&self) -> bool {
            let (core, ptr) = self.parts();
            core.is_open(ptr)
        }
    };
}

impl<'c> ReadHandle<'c> {
    chain_methods!();
}

impl<'c> WriteHandle<'c> {
    chain_methods!();
}

impl Cache {
    /// Makes `new` visible in the place of `old`, of the same pool, if that still is the item of
    /// its key, and moves what is chained to `old` over to it. Handles of `old` have an empty chain
    /// from then on.
    ///
    /// # Errors
    /// `new`, and the chain stays where it is: where [`Self::replace_matching`] fails, where one of
    /// the two is not [`crate::ItemOptions::chainable`] or is an item of another cache, or where
    /// `new` has links already.
    pub fn transfer_chain_and_replace<'c>(
        &'c self,
        old: &ReadHandle<'_>,
        new: WriteHandle<'c>,
    ) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        let core = new.core();
        if !old.is_of(core)
            || !std::ptr::eq(core, self.core())
            || old.key() != new.key()
            || old.pool() != new.pool()
            || !old.is_chainable()
            || !new.is_chainable()
            || new.link_count() > 0
        {
            return Err(new);
        }
        let (from, to) = (old.ptr(), new.ptr());
        core.move_chain(from, to, false);
        // What others have pushed to the old item meanwhile stays in front.
        self.replace_matching(old, new).inspect_err(|_| core.move_chain(to, from, true))
    }
}
