//! Operations on chains, under their locks. The invariants are those of [`super`].

use parking_lot::MutexGuard;
use slab::item::link::link_item_bytes;
use slab::item::{Claim, MAX_VALUE_BYTES};
use slab::{Item, ItemPtr};

use super::{Link, LinkHandle, STRIPES};
use crate::cache::Core;
use crate::class::{BYTES_IN, BYTES_OUT, Class, LINKS_IN, LINKS_OUT, fingerprint};
use crate::error::{Error, ErrorKind};
use crate::lifecycle::Hooks;
use crate::plant::Plant;

/// Links of an item that is moved to another chunk, at most: it takes a millisecond or so to tell
/// them, with the item's bucket locked. An item with more of them is evicted, with its chain, where
/// it should be moved.
const MOST_FOLLOWED: u32 = 16_384;

impl Core {
    pub(super) fn lock_chain(&self, tag: u32) -> MutexGuard<'_, ()> {
        self.chain_locks.0[tag as usize % STRIPES].lock()
    }

    /// Returns the tag of all links that are ever chained to the key of an item that somebody holds
    /// or owns.
    pub(super) fn chain_tag(&self, parent: ItemPtr) -> u32 {
        // SAFETY: the caller holds or owns the item, so that its chunk is not freed (invariant 2 of
        // `slab::item`).
        fingerprint(unsafe { self.hash_of_item(parent) })
    }

    /// Returns whether an item that somebody holds has a chain that may be changed: not that in
    /// which a long value lies.
    pub(super) fn is_open(&self, parent: ItemPtr) -> bool {
        let item = self.arena.item(parent).0;
        // SAFETY: the caller holds the item, so that its chunk is not freed and its lengths do not
        // change (invariants 2 and 3 of `slab::item`).
        item.state().is_chained() && unsafe { !item.is_long() }
    }

    pub(super) fn check_open(&self, parent: ItemPtr) -> Result<(), Error> {
        if self.is_open(parent) {
            return Ok(());
        }
        let context = "the item has no room for a chain, or a long value in it: allocate it with `chainable`";
        Err(Error::new(ErrorKind::NotChainable, context))
    }

    /// Makes a link for an item that somebody holds, which has room for a chain.
    pub(crate) fn allocate_link(&self, parent: ItemPtr, len: usize) -> Result<Link<'_>, Error> {
        let info = self.arena.info_of(parent);
        let pool = self.pool(self.pools.id_of(info.pool))?;
        let sizes = pool.sizes();
        let bytes = len.saturating_add(link_item_bytes(0));
        let place = sizes.place_within(bytes, len <= MAX_VALUE_BYTES, &pool)?;
        let tag = self.chain_tag(parent);
        let ptr = self.take_chunk(&pool, sizes, place)?;
        let item = self.arena.item(ptr).0;
        item.state().begin();
        // SAFETY: this thread owns the chunk, which it has just taken (invariant 1 of `magazine`),
        // and which is of a class that the link fits into.
        unsafe { item.init_link(self.now(), tag, len) };
        Ok(Link { core: self, item, ptr })
    }

    /// The tag of an item and a link that may be chained to it: of one cache, one pool and one key.
    fn common_tag(&self, parent: ItemPtr, link: &Link<'_>) -> Option<u32> {
        // A link of another cache has a pointer that names some chunk of this one.
        if !std::ptr::eq(self, link.core) {
            return None;
        }
        let (item, info) = self.arena.item(parent);
        let tag = self.chain_tag(parent);
        let same_pool = info.pool == self.arena.info_of(link.ptr).pool;
        // SAFETY: `link` holds a reference to its item (invariant 3).
        let fits = item.state().is_chained() && same_pool && unsafe { link.item.link_tag() } == tag;
        fits.then_some(tag)
    }

    pub(crate) fn push_link<'c>(&'c self, parent: ItemPtr, link: Link<'c>) -> Result<(), Link<'c>> {
        let item = self.arena.item(parent).0;
        let Some(tag) = self.common_tag(parent, &link) else { return Err(link) };
        let locked = self.lock_chain(tag);
        // SAFETY: the lock is held under which alone the chain changes (invariant 1), and its links
        // are not freed (invariant 4). The caller holds the item, and `link` is nobody else's until
        // it is published (invariant 3).
        unsafe {
            let (first, count) = item.chain();
            link.item.set_link(first, Some(parent));
            link.item.state().publish();
            self.set_before(first, Some(link.ptr));
            item.set_chain(Some(link.ptr), count + 1);
        }
        drop(locked);
        self.count_link(link.ptr, tag);
        Ok(())
    }

    /// Counts and queues a link that has just been put into a chain. The caller holds a reference.
    fn count_link(&self, ptr: ItemPtr, tag: u32) {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the caller holds a reference, so that pool and class are there (invariants 1 and
        // 2 of `pools`) and the item is not freed (invariant 2 of `slab::item`).
        let (class, bytes) = unsafe { (self.class_of(info), item.used_bytes()) };
        class.counters.add(LINKS_IN, 1);
        class.counters.add(BYTES_IN, bytes as u64);
        self.queue(class, (ptr, item), u64::from(tag) << 16);
    }

    /// Counts a link that this thread has taken out of a chain. The caller holds a reference.
    fn uncount_link(&self, ptr: ItemPtr) {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the caller holds a reference, so that pool and class are there (invariants 1 and
        // 2 of `pools`) and the item is not freed (invariant 2 of `slab::item`).
        let (class, bytes) = unsafe { (self.class_of(info), item.used_bytes()) };
        class.counters.add(LINKS_OUT, 1);
        class.counters.add(BYTES_OUT, bytes as u64);
    }

    pub(super) fn pop_link(&self, parent: ItemPtr) -> Option<LinkHandle<'_>> {
        let item = self.arena.item(parent).0;
        if !item.state().is_chained() {
            return None;
        }
        let locked = self.lock_chain(self.chain_tag(parent));
        // SAFETY: the caller holds the item. The lock is held under which alone its chain changes
        // (invariant 1), and under which no link of the chain is freed (invariant 4).
        let first = unsafe {
            let (first, count) = item.chain();
            let link = self.arena.item(first?).0;
            let second = link.link().0;
            item.set_chain(second, count - 1);
            self.set_before(second, None);
            let _taken = link.state().unindex();
            first?
        };
        drop(locked);
        self.uncount_link(first);
        Some(LinkHandle::adopt(self, first))
    }

    pub(super) fn replace_link<'c>(
        &'c self,
        parent: ItemPtr,
        old: &LinkHandle<'_>,
        new: Link<'c>,
    ) -> Result<(), Link<'c>> {
        let Some(tag) = self.common_tag(parent, &new) else { return Err(new) };
        if !std::ptr::eq(self, old.core) {
            return Err(new);
        }
        let old = old.ptr;
        let locked = self.lock_chain(tag);
        let link = self.arena.item(old).0;
        // SAFETY: the caller holds the item and the old link. The lock is held under which alone
        // the chain changes (invariant 1), and `new` is nobody else's until it is published
        // (invariant 3).
        let replaced = unsafe {
            let is_there = link.state().is_indexed() && link.link().1 == Some(parent);
            if is_there {
                self.exchange_link(parent, old, new.item, new.ptr);
                let _taken = link.state().unindex();
            }
            is_there
        };
        drop(locked);
        if !replaced {
            return Err(new);
        }
        self.uncount_link(old);
        self.release(old);
        self.count_link(new.ptr, tag);
        Ok(())
    }

    /// Puts the link `new`, which nobody sees yet, in the place of `old` in the chain of `parent`.
    /// Takes the same time in any chain.
    ///
    /// # Safety
    /// The chain's lock is held; `old` is in the chain, or was when it was claimed under that lock;
    /// the caller holds `old` or owns it, and owns `new`. The caller need not hold the item, which
    /// is not freed while the chain's lock is held (invariant 4 of [`super`]).
    unsafe fn exchange_link(&self, parent: ItemPtr, old: ItemPtr, new: Item<'_>, new_ptr: ItemPtr) {
        let (item, link) = (self.arena.item(parent).0, self.arena.item(old).0);
        // SAFETY: the chain's lock is held, and `new` is the caller's. Under that lock alone the
        // chain changes (invariant 1), and neither its links nor the item are freed (invariant 4).
        unsafe {
            let ((next, _), before) = (link.link(), link.link_before());
            new.set_link(next, Some(parent));
            new.set_link_before(before);
            new.state().publish();
            match before {
                None if self.strikes(Plant::ExchangedLinkStays) => {}
                None => item.set_chain(Some(new_ptr), item.chain().1),
                Some(before) => self.arena.item(before).0.set_link(Some(new_ptr), Some(parent)),
            }
            self.set_before(next, Some(new_ptr));
        }
    }

    /// Says to a link, if there is one, which comes before it.
    ///
    /// # Safety
    /// The chain's lock is held, and the link is in the chain.
    unsafe fn set_before(&self, link: Option<ItemPtr>, before: Option<ItemPtr>) {
        if let Some(link) = link {
            // SAFETY: the chain's lock is held, so that none of its links is freed (invariant 4).
            unsafe { self.arena.item(link).0.set_link_before(before) };
        }
    }

    /// Moves the chain of an item to another one of the same key, behind what that has. The item
    /// that has it before the call is marked as not whole until `is_settled`, which says that the
    /// one that gets it is in the index. The caller holds both.
    pub(crate) fn move_chain(&self, from: ItemPtr, to: ItemPtr, is_settled: bool) {
        let _locked = self.lock_chain(self.chain_tag(from));
        let (source, target) = (self.arena.item(from).0, self.arena.item(to).0);
        // SAFETY: the caller holds both items. The lock is held under which alone their chains
        // change (invariant 1), and under which no link of them is freed (invariant 4).
        unsafe {
            let ((first, count), (own_first, own_count)) = (source.chain(), target.chain());
            self.set_parents(first, to);
            let mut last = None;
            let mut at = own_first;
            while let Some(ptr) = at {
                last = Some(ptr);
                at = self.arena.item(ptr).0.link().0;
            }
            if let Some(last) = last {
                self.arena.item(last).0.set_link(first, Some(to));
                self.set_before(first, Some(last));
            }
            source.mark_chain(!is_settled);
            source.set_chain(None, 0);
            target.set_chain(own_first.or(first), own_count + count);
            target.mark_chain(false);
        }
    }

    /// Says to all links from `at` on which item they are chained to.
    ///
    /// # Safety
    /// The chain's lock is held.
    unsafe fn set_parents(&self, mut at: Option<ItemPtr>, parent: ItemPtr) {
        while let Some(ptr) = at {
            let link = self.arena.item(ptr).0;
            // SAFETY: the chain's lock is held, under which alone the pointers change (invariant
            // 1), and under which none of its links is freed (invariant 4).
            unsafe {
                at = link.link().0;
                link.set_link(at, Some(parent));
            }
        }
    }

    pub(crate) fn link_count(&self, parent: ItemPtr) -> u32 {
        let item = self.arena.item(parent).0;
        if !item.state().is_chained() {
            return 0;
        }
        let _locked = self.lock_chain(self.chain_tag(parent));
        // SAFETY: the caller holds or owns the item, and the lock is held under which alone the
        // ends of its chain change (invariant 1).
        unsafe { item.chain().1 }
    }

    /// The link with this number, from 0, in the chain of an item. Called with the chain's lock
    /// held.
    pub(super) fn nth_link(&self, parent: ItemPtr, number: u32) -> Option<ItemPtr> {
        // SAFETY: somebody holds or owns the item, and the lock is held under which alone the ends
        // of its chain change (invariant 1).
        let mut at = unsafe { self.arena.item(parent).0.chain().0 };
        for _ in 0..number {
            // SAFETY: the lock is held, so that no link of the chain is freed (invariant 4).
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
            // SAFETY: this thread owns the item. The lock is held under which alone its chain
            // changes (invariant 1), and under which no link of the chain is freed (invariant 4).
            unsafe {
                let (mut at, _) = item.chain();
                at = at.filter(|_| !self.strikes(Plant::LinksStay));
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

    /// Claims the item that a link is chained to, as the link is to be evicted.
    /// The caller holds a reference to that item then ([`Self::parent_of_claimed`]) and has to end
    /// it.
    ///
    /// # Safety
    /// `link` is a link that was in a chain when the caller took the lock of its class, or since,
    /// and the caller holds that.
    pub(crate) unsafe fn claim_by_link(&self, link: Item<'_>, hooks: Option<&Hooks>) -> Claim {
        // SAFETY: the link was in a chain with the lock of its class held, so that its chunk is not
        // used again (invariant 5 of `magazine`). While it is in a chain and the chain's lock is
        // held, the item that it is chained to is not freed (invariant 4).
        unsafe {
            let _locked = self.lock_chain(link.link_tag());
            let Some(parent) = link.link().1.filter(|_| link.state().is_indexed()) else {
                return Claim::Gone;
            };
            if self.is_kept_by_tag(link.link_tag()) {
                return Claim::Held;
            }
            let state = self.arena.item(parent).0.state();
            // An item that is not published yet is its writer's alone, who may be writing: it is
            // not shown to the hook.
            if hooks.is_some_and(|hooks| !state.is_indexed() || !self.hooks_let_go(hooks, parent)) {
                return Claim::Held;
            }
            state.unindex_if_idle()
        }
    }

    /// The item that a link is chained to, if the chunk is a link, which was just claimed.
    ///
    /// # Safety
    /// The caller has claimed the item in the chunk, and still holds the lock of its class.
    pub(crate) unsafe fn parent_of_claimed(&self, ptr: ItemPtr) -> Option<ItemPtr> {
        let item = self.arena.item(ptr).0;
        // SAFETY: if the chunk holds no link, the claim made it the caller's (invariant 2 of
        // `slab::item`). If it holds one, the caller has claimed the item that the link is chained
        // to, and the lock of the link's class, still held, keeps the chunk from being used again
        // (invariant 5 of `magazine`).
        unsafe { if item.is_link() { item.link().1 } else { None } }
    }

    /// Moves the link at `from`, if nobody holds it, to `to`, which the caller owns. The caller
    /// owns `from` then. Returns its policy bits, and its tag.
    pub(crate) fn relocate_link(&self, class: &Class, from: ItemPtr, to: ItemPtr) -> Option<(u8, u32)> {
        let (link, target) = (self.arena.item(from).0, self.arena.item(to).0);
        let mut inner = class.inner.lock();
        // SAFETY: the link was in a chain with the lock of the class held, so that its chunk is not
        // used again before it is claimed (invariant 5 of `magazine`). Under the chain's lock the
        // item that it is chained to is not freed (invariant 4), and the claim makes the link this
        // thread's.
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
            self.exchange_link(parent, from, target, to);
            Some((bits, tag))
        }
    }

    /// Returns whether the item's chain is short enough for the item to be moved with it: each of
    /// its links is told where the item is then.
    ///
    /// # Safety
    /// The caller holds the chain's lock, and the item is in the index.
    pub(crate) unsafe fn is_movable(&self, parent: ItemPtr) -> bool {
        // SAFETY: the item is in the index, and the caller holds the lock under which alone the
        // ends of its chain change (invariant 1).
        unsafe { self.arena.item(parent).0.chain().1 <= MOST_FOLLOWED }
    }

    /// Tells the links of an item that was claimed and copied to another chunk where it is now.
    ///
    /// # Safety
    /// The caller holds the chain's lock and owns the item.
    pub(crate) unsafe fn follow(&self, to: ItemPtr) {
        // SAFETY: the caller owns the item and holds the lock under which alone its chain changes
        // (invariant 1), and under which none of its links is freed (invariant 4).
        unsafe { self.set_parents(self.arena.item(to).0.chain().0, to) };
    }

    /// The lock of the chain of the key with this hash.
    pub(crate) fn lock_chain_of(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.lock_chain(fingerprint(hash))
    }

    /// Returns whether a link is in the chain of the item that it names, as far as its neighbours
    /// say. For tests, on a cache at rest.
    pub(crate) fn is_chained(&self, link: ItemPtr) -> bool {
        // SAFETY: the cache is at rest: no other thread changes a chain or frees a link meanwhile
        // (invariant 1).
        unsafe {
            let item = self.arena.item(link).0;
            let (next, parent) = item.link();
            let Some(parent) = parent else { return false };
            let leads_here = match item.link_before() {
                None => self.arena.item(parent).0.chain().0 == Some(link),
                Some(before) => self.arena.item(before).0.link() == (Some(link), Some(parent)),
            };
            leads_here && next.is_none_or(|next| self.arena.item(next).0.link_before() == Some(link))
        }
    }

    /// Returns whether the chain of an item has as many links as it says, all in memory and of this
    /// item. For tests, on a cache at rest.
    pub(crate) fn is_whole(&self, parent: ItemPtr) -> bool {
        // SAFETY: the cache is at rest: no other thread changes a chain or frees a link meanwhile
        // (invariant 1).
        unsafe {
            let (mut at, count) = self.arena.item(parent).0.chain();
            let mut seen = 0;
            while let Some(ptr) = at.filter(|_| seen < count) {
                let link = self.arena.item(ptr).0;
                if !link.state().is_indexed() || link.link().1 != Some(parent) {
                    return false;
                }
                seen += 1;
                at = link.link().0;
            }
            at.is_none() && seen == count
        }
    }
}
