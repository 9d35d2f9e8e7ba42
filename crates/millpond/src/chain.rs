//! Chained items: more items under one key.
//!
//! An item that was allocated with [`crate::ItemOptions::chainable`] can have any number of *links* chained to it: items without a key, each in a
//! chunk of its own, which live and end with it. The latest comes first. `slab::item::link` says how they lie in memory.
//!
//! Links have a place in the eviction queue of their own size class. When a link's turn to be evicted comes, the item that
//! it is chained to is evicted, with all its links, unless it is held.
//!
//! Invariants:
//! 1. Those of `slab::item::link`. The lock of a chain is one of [`ChainLocks`], chosen by its tag, which comes from the hash of the
//!    key; it is the last lock that a thread takes.
//! 2. A link that is in a chain belongs to an item that is in memory: an item's chain is empty when its chunk is freed.

use std::ops::Deref;

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use slab::item::link::link_item_bytes;
use slab::item::{Acquired, Claim, MAX_VALUE_BYTES};
use slab::{Item, ItemPtr};

use crate::cache::{Cache, Core};
use crate::class::{BYTES_IN, BYTES_OUT, LINKS_IN, LINKS_OUT, fingerprint};
use crate::error::{Error, ErrorKind};
use crate::handle::{ReadHandle, WriteHandle};
use crate::life::Life;

const STRIPES: usize = 64;

/// The locks of all chains: see invariant 1.
pub(crate) struct ChainLocks([CachePadded<Mutex<()>>; STRIPES]);

impl Default for ChainLocks {
    fn default() -> Self {
        Self([const { CachePadded::new(Mutex::new(())) }; STRIPES])
    }
}

/// A link that is in no chain yet: what it holds is to be written. Dropping it frees it.
pub struct Link<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
}

// SAFETY: it holds the only reference to an item that nobody else can see.
unsafe impl Send for Link<'_> {}
// SAFETY: shared access only reads.
unsafe impl Sync for Link<'_> {}

impl Link<'_> {
    /// Its bytes, to be written. What is not written keeps what another item left there.
    pub fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: this is the only reference, and `&mut self` keeps other views away.
        unsafe { self.item.link_value_mut() }
    }

    /// Its bytes.
    pub fn value(&self) -> &[u8] {
        // SAFETY: this is the only reference, and `&self` keeps `value_mut` away.
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

/// A reference to a link: its bytes, without a copy. It stays as it is while the handle lives, whatever becomes of the
/// chain.
pub struct LinkHandle<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
}

// SAFETY: as for `ReadHandle`.
unsafe impl Send for LinkHandle<'_> {}
// SAFETY: as above.
unsafe impl Sync for LinkHandle<'_> {}

impl<'c> LinkHandle<'c> {
    /// Takes over a reference.
    fn adopt(core: &'c Core, ptr: ItemPtr) -> Self {
        Self { core, item: core.arena.item(ptr).0, ptr }
    }

    /// Its bytes.
    pub fn value(&self) -> &[u8] {
        // SAFETY: the handle holds a reference; what a link holds is not written once it is in a chain.
        unsafe { self.item.link_value() }
    }

    /// Whether it still is in its chain.
    pub fn is_current(&self) -> bool {
        self.item.state().is_indexed()
    }
}

impl Deref for LinkHandle<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.value()
    }
}

impl Clone for LinkHandle<'_> {
    fn clone(&self) -> Self {
        self.item.state().duplicate();
        Self { ..*self }
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

/// The links of an item, the latest first, while others change the chain: what is chained meanwhile is not seen, what is taken
/// away may be seen or not, and all others are seen once.
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

    /// Where to go on, and how many links are left from there. Called with the chain's lock held.
    fn upcoming(&self) -> Option<(ItemPtr, u32)> {
        let core = self.core;
        // SAFETY: somebody holds or owns the item, and the lock is held.
        let (first, count) = unsafe { core.arena.item(self.parent).0.chain() };
        let (last, left) = match &self.at {
            At::Start => return first.map(|first| (first, count)),
            At::End => return None,
            At::After(last, left) => (last, (*left).min(count)),
        };
        if left == 0 {
            return None;
        }
        // SAFETY: a reference to it is held; in a chain, under its lock, the pointers are those of the chain.
        let (next, parent) = unsafe { last.item.link() };
        let next = if last.item.state().is_indexed() && parent == Some(self.parent) {
            next
        } else {
            // It was taken away or replaced. Those that come after it are still the last of the chain.
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
            if acquired != Acquired::Yes {
                // 16,382 others read it now.
                std::thread::yield_now();
                continue;
            }
            let link = LinkHandle::adopt(self.core, ptr);
            // SAFETY: `link` holds a reference.
            let class = unsafe { self.core.class_of(self.core.arena.info(ptr.slab())) };
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

/// What can be done with the chain of an item, for [`ReadHandle`] and [`WriteHandle`] alike.
macro_rules! chain_methods {
    () => {
        /// Makes a link for this item's chain, in the item's pool, with room for `len` bytes. It is seen by nobody until it is
        /// [pushed](Self::push_link).
        ///
        /// # Errors
        /// [`ErrorKind::NotChainable`] where the item was not allocated with [`crate::ItemOptions::chainable`];
        /// [`ErrorKind::TooLarge`] beyond the largest chunk of the pool; [`ErrorKind::OutOfMemory`] where nothing can be evicted.
        pub fn allocate_link(&self, len: usize) -> Result<Link<'c>, Error> {
            let (core, ptr) = self.parts();
            core.allocate_link(ptr, len)
        }

        /// Puts a link that was allocated for this item, or another of the same key, in front of its chain.
        ///
        /// # Errors
        /// The link, where it was allocated for another key or in another pool.
        pub fn push_link(&self, link: Link<'c>) -> Result<(), Link<'c>> {
            let (core, ptr) = self.parts();
            core.push_link(ptr, link)
        }

        /// Takes the first link away: the one that was pushed last.
        pub fn pop_link(&self) -> Option<LinkHandle<'c>> {
            let (core, ptr) = self.parts();
            core.pop_link(ptr)
        }

        /// Puts a link in the place of another one.
        ///
        /// # Errors
        /// The new link, where the old one is not in this item's chain, or the new one was allocated for another key.
        pub fn replace_link(&self, old: &LinkHandle<'_>, new: Link<'c>) -> Result<(), Link<'c>> {
            let (core, ptr) = self.parts();
            core.replace_link(ptr, old.ptr, new)
        }

        /// What is chained to it, the latest first.
        pub fn links(&self) -> Links<'_> {
            let (core, ptr) = self.parts();
            Links::of(core, ptr)
        }

        /// How many links are chained to it.
        pub fn link_count(&self) -> u32 {
            let (core, ptr) = self.parts();
            core.link_count(ptr)
        }

        /// Whether links can be chained to it.
        pub fn is_chainable(&self) -> bool {
            let (core, ptr) = self.parts();
            core.arena.item(ptr).0.state().is_chained()
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
    /// Makes `new` visible in the place of `old`, of the same pool, if that still is the item of its key, and moves what is chained to `old` over
    /// to it. Handles of `old` have an empty chain from then on.
    ///
    /// # Errors
    /// `new`, and the chain stays where it is: where [`Self::replace_matching`] fails, where one of the two is not
    /// [`crate::ItemOptions::chainable`], or where `new` has links already.
    pub fn transfer_chain_and_replace<'c>(
        &'c self,
        old: &ReadHandle<'_>,
        new: WriteHandle<'c>,
    ) -> Result<ReadHandle<'c>, WriteHandle<'c>> {
        if old.key() != new.key()
            || old.pool() != new.pool()
            || !old.is_chainable()
            || !new.is_chainable()
            || new.link_count() > 0
        {
            return Err(new);
        }
        let (core, from, to) = (new.core(), old.ptr(), new.ptr());
        core.move_chain(from, to);
        self.replace_matching(old, new).inspect_err(|_| core.move_chain(to, from))
    }
}

impl Core {
    fn lock_chain(&self, tag: u32) -> MutexGuard<'_, ()> {
        self.chain_locks.0[tag as usize % STRIPES].lock()
    }

    /// What all links have in common that are ever chained to the key of an item that somebody holds or owns.
    fn chain_tag(&self, parent: ItemPtr) -> u32 {
        // SAFETY: the caller's duty.
        fingerprint(unsafe { self.hash_of_item(parent) })
    }

    fn allocate_link(&self, parent: ItemPtr, len: usize) -> Result<Link<'_>, Error> {
        let (item, info) = self.arena.item(parent);
        if !item.state().is_chained() {
            return Err(Error::new(
                ErrorKind::NotChainable,
                "the item has no room for a chain: allocate it with `chainable`",
            ));
        }
        let pool = self.pool(self.pools.id_of(info.pool))?;
        let sizes = pool.sizes();
        let place = sizes.place_within(link_item_bytes(len), len <= MAX_VALUE_BYTES, &pool)?;
        let tag = self.chain_tag(parent);
        let ptr = self.take_chunk(&pool, sizes, place)?;
        let item = self.arena.item(ptr).0;
        item.state().begin();
        // SAFETY: this thread owns the chunk, which is of a class that they fit into.
        unsafe { item.init_link(self.now(), tag, len) };
        Ok(Link { core: self, item, ptr })
    }

    /// The tag of an item and a link that may be chained to it: of one pool and one key.
    fn common_tag(&self, parent: ItemPtr, link: &Link<'_>) -> Option<u32> {
        let (item, info) = self.arena.item(parent);
        let tag = self.chain_tag(parent);
        let same_pool = info.pool == self.arena.info(link.ptr.slab()).pool;
        // SAFETY: `link` owns its item.
        let fits = item.state().is_chained() && same_pool && unsafe { link.item.link_tag() } == tag;
        fits.then_some(tag)
    }

    fn push_link<'c>(&'c self, parent: ItemPtr, link: Link<'c>) -> Result<(), Link<'c>> {
        let item = self.arena.item(parent).0;
        let Some(tag) = self.common_tag(parent, &link) else { return Err(link) };
        let locked = self.lock_chain(tag);
        // SAFETY: the lock is held, the caller holds the item, and `link` is owned until it is published.
        unsafe {
            let (first, count) = item.chain();
            link.item.set_link(first, Some(parent));
            link.item.state().publish();
            item.set_chain(Some(link.ptr), count + 1);
        }
        drop(locked);
        self.count_link(link.ptr, tag);
        Ok(())
    }

    /// Counts and queues a link that has just been put into a chain. The caller holds a reference.
    fn count_link(&self, ptr: ItemPtr, tag: u32) {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the caller holds a reference.
        let (class, bytes) = unsafe { (self.class_of(info), item.used_bytes()) };
        class.counters.add(LINKS_IN, 1);
        class.counters.add(BYTES_IN, bytes as u64);
        self.queue(class, ptr, u64::from(tag) << 16);
    }

    /// Counts a link that this thread has taken out of a chain. The caller holds a reference.
    fn uncount_link(&self, ptr: ItemPtr) {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the caller holds a reference.
        let (class, bytes) = unsafe { (self.class_of(info), item.used_bytes()) };
        class.counters.add(LINKS_OUT, 1);
        class.counters.add(BYTES_OUT, bytes as u64);
    }

    fn pop_link(&self, parent: ItemPtr) -> Option<LinkHandle<'_>> {
        let item = self.arena.item(parent).0;
        if !item.state().is_chained() {
            return None;
        }
        let locked = self.lock_chain(self.chain_tag(parent));
        // SAFETY: the lock is held and the caller holds the item; what is in its chain is in memory.
        let first = unsafe {
            let (first, count) = item.chain();
            let link = self.arena.item(first?).0;
            item.set_chain(link.link().0, count - 1);
            let _taken = link.state().unindex();
            first?
        };
        drop(locked);
        self.uncount_link(first);
        Some(LinkHandle::adopt(self, first))
    }

    fn replace_link<'c>(&'c self, parent: ItemPtr, old: ItemPtr, new: Link<'c>) -> Result<(), Link<'c>> {
        let Some(tag) = self.common_tag(parent, &new) else { return Err(new) };
        let locked = self.lock_chain(tag);
        // SAFETY: the lock is held, the caller holds the item and the old link, and `new` is owned until it is published.
        let replaced = unsafe { self.exchange_link(parent, old, new.item, new.ptr) };
        if replaced {
            let _taken = self.arena.item(old).0.state().unindex();
        }
        drop(locked);
        if !replaced {
            return Err(new);
        }
        self.uncount_link(old);
        self.release(old);
        self.count_link(new.ptr, tag);
        Ok(())
    }

    /// Puts the link `new`, which nobody sees yet, in the place of `old` in the chain of `parent`. `false`: it is not there.
    ///
    /// # Safety
    /// The chain's lock is held, the caller holds the item and `old` or owns them, and owns `new`.
    unsafe fn exchange_link(&self, parent: ItemPtr, old: ItemPtr, new: Item<'_>, new_ptr: ItemPtr) -> bool {
        let (item, link) = (self.arena.item(parent).0, self.arena.item(old).0);
        // SAFETY: passed on; all that is in the chain is in memory.
        unsafe {
            let (first, count) = item.chain();
            let (next, _) = link.link();
            let mut before = None;
            let mut at = first;
            while let Some(ptr) = at.filter(|ptr| *ptr != old) {
                before = Some(ptr);
                at = self.arena.item(ptr).0.link().0;
            }
            if at.is_none() {
                return false;
            }
            new.set_link(next, Some(parent));
            new.state().publish();
            match before {
                None => item.set_chain(Some(new_ptr), count),
                Some(before) => self.arena.item(before).0.set_link(Some(new_ptr), Some(parent)),
            }
        }
        true
    }

    /// Moves the chain of an item to another one of the same key, which has none. The caller holds both.
    fn move_chain(&self, from: ItemPtr, to: ItemPtr) {
        let _locked = self.lock_chain(self.chain_tag(from));
        let (source, target) = (self.arena.item(from).0, self.arena.item(to).0);
        // SAFETY: the lock is held, and the caller holds both items.
        unsafe {
            let (first, count) = source.chain();
            source.set_chain(None, 0);
            target.set_chain(first, count);
            self.set_parents(first, to);
        }
    }

    /// Says to all links from `at` on which item they are chained to.
    ///
    /// # Safety
    /// The chain's lock is held.
    unsafe fn set_parents(&self, mut at: Option<ItemPtr>, parent: ItemPtr) {
        while let Some(ptr) = at {
            let link = self.arena.item(ptr).0;
            // SAFETY: passed on; what is in a chain is in memory.
            unsafe {
                at = link.link().0;
                link.set_link(at, Some(parent));
            }
        }
    }

    fn link_count(&self, parent: ItemPtr) -> u32 {
        let item = self.arena.item(parent).0;
        if !item.state().is_chained() {
            return 0;
        }
        let _locked = self.lock_chain(self.chain_tag(parent));
        // SAFETY: the lock is held, and the caller holds the item.
        unsafe { item.chain().1 }
    }

    /// The link with this number, from 0, in the chain of an item. Called with the chain's lock held.
    fn nth_link(&self, parent: ItemPtr, number: u32) -> Option<ItemPtr> {
        // SAFETY: the lock is held, and somebody holds or owns the item.
        let mut at = unsafe { self.arena.item(parent).0.chain().0 };
        for _ in 0..number {
            // SAFETY: as above; what is in a chain is in memory.
            at = unsafe { self.arena.item(at?).0.link().0 };
        }
        at
    }

    /// Gives up all links of an item that this thread owns. The caller holds no lock.
    pub(crate) fn end_chain(&self, parent: ItemPtr) {
        let item = self.arena.item(parent).0;
        let mut links = Vec::new();
        {
            let _locked = self.lock_chain(self.chain_tag(parent));
            // SAFETY: the lock is held, and this thread owns the item; what is in its chain is in memory.
            unsafe {
                let (mut at, _) = item.chain();
                item.set_chain(None, 0);
                while let Some(ptr) = at {
                    let link = self.arena.item(ptr).0;
                    at = link.link().0;
                    let _taken = link.state().unindex();
                    links.push(ptr);
                }
            }
        }
        for ptr in links {
            self.uncount_link(ptr);
            self.release(ptr);
        }
    }

    /// Claims the item that a link is chained to, because the link's turn to be evicted has come. The caller holds a reference to that item
    /// then ([`Self::parent_of_claimed`]) and has to end it.
    ///
    /// # Safety
    /// `link` is a link that was in a chain when the caller took the lock of its class, or since, and the caller holds that.
    pub(crate) unsafe fn claim_by_link(&self, link: Item<'_>, life: Option<&Life>) -> Claim {
        // SAFETY: the link's chunk is not used again before the lock of its class is given back; and while it is in a chain,
        // the item that it is chained to is in memory.
        unsafe {
            let _locked = self.lock_chain(link.link_tag());
            let Some(parent) = link.link().1.filter(|_| link.state().is_indexed()) else {
                return Claim::Gone;
            };
            if life.is_some_and(|life| !self.may_evict(life, parent)) {
                return Claim::Held;
            }
            self.arena.item(parent).0.state().unindex_if_idle()
        }
    }

    /// The item that a link is chained to, if the chunk is a link, which was just claimed.
    ///
    /// # Safety
    /// The caller has claimed the item in the chunk, and still holds the lock of its class.
    pub(crate) unsafe fn parent_of_claimed(&self, ptr: ItemPtr) -> Option<ItemPtr> {
        let item = self.arena.item(ptr).0;
        // SAFETY: passed on; the claim keeps the item that it is chained to, and with it its chain, as they are.
        unsafe { if item.is_link() { item.link().1 } else { None } }
    }

    /// Moves the link at `from`, if nobody holds it, to `to`, which the caller owns. The caller owns `from` then.
    /// Returns its policy bits, and its tag.
    pub(crate) fn relocate_link(
        &self,
        class: &crate::class::Class,
        from: ItemPtr,
        to: ItemPtr,
    ) -> Option<(u8, u32)> {
        let (link, target) = (self.arena.item(from).0, self.arena.item(to).0);
        let mut inner = class.inner.lock();
        // SAFETY: with the lock of the class held, no chunk that was freed since then is used again: what was a link when
        // the caller looked, and is in a chain under the chain's lock, is a link still.
        unsafe {
            if !link.state().is_indexed() || !link.is_link() {
                return None;
            }
            let tag = link.link_tag();
            let _locked = self.lock_chain(tag);
            let parent = link.link().1.filter(|_| link.state().is_indexed() && link.link_tag() == tag)?;
            if link.used_bytes() > self.arena.item(to).1.chunk_bytes as usize {
                return None;
            }
            let bits = inner.claim(self, from).ok()?;
            drop(inner);
            link.copy_to(target);
            // The chain has it, as it was claimed from there.
            let exchanged = self.exchange_link(parent, from, target, to);
            debug_assert!(exchanged, "a link that is in a chain is found there");
            Some((bits, tag))
        }
    }

    /// Tells the links of an item that was claimed and copied to another chunk where it is now.
    ///
    /// # Safety
    /// The caller holds the chain's lock and owns the item.
    pub(crate) unsafe fn follow(&self, to: ItemPtr) {
        // SAFETY: passed on.
        unsafe { self.set_parents(self.arena.item(to).0.chain().0, to) };
    }

    /// The lock of the chain of the key with this hash.
    pub(crate) fn lock_chain_of(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.lock_chain(fingerprint(hash))
    }

    /// Whether a link is in the chain of the item that it names, and that chain has as many links as it says. For tests, on a cache
    /// at rest.
    pub(crate) fn is_chained(&self, link: ItemPtr) -> bool {
        // SAFETY: nobody changes anything.
        unsafe {
            let Some(parent) = self.arena.item(link).0.link().1 else { return false };
            let (mut at, count) = self.arena.item(parent).0.chain();
            let (mut seen, mut found) = (0, false);
            while let Some(ptr) = at {
                (seen, found) = (seen + 1, found || ptr == link);
                at = self.arena.item(ptr).0.link().0;
            }
            found && seen == count
        }
    }
}
