//! A thread's own store of a class's chunks, so that most insertions take no contended lock.
//! Threads beyond the 63rd share one, and so do all threads of a class of few chunks.
//!
//! A thread that allocates takes a batch of chunks at a time: free ones, those of a new run, or
//! those of the class's *retire list* ([`base::pin::RetireList`]), which holds chunks of items that
//! were evicted or removed. What it inserts joins the eviction queue a batch at a time, and so does
//! what is freed: the chunk leaves the queue, and goes to the retire list, with a batch of others.
//! The lock of the class, and the cold memory that eviction reads, are so paid for once for many
//! items.
//!
//! A thread that finds the retire list short evicts a batch of items for it, mostly *ahead* of
//! need and when no other thread holds the class's lock. So threads rarely wait for that lock, or
//! for a scan for threads that still read evicted items.
//!
//! A class of few chunks has batches of one, and one magazine for all threads.
//!
//! Invariants:
//! 1. A chunk becomes *ready* only when no thread still protects it from before it was freed
//!    (invariant 5 of `slab::item`). A *freed* chunk first leaves the eviction queue, and then
//!    waits in the retire list.
//! 2. A *pending* entry may be out of date: its item was removed, and its chunk may hold another.
//!    Its incarnation and the state word tell; what is queued already is not queued twice.
//! 3. No magazine names a chunk of a run that its class has given up. First the class records
//!    which run is leaving. Then [`Core::empty_magazines`] empties all magazines and the retire
//!    list, and a thread that takes chunks from the retire list returns those of the leaving run
//!    to the class, so that none becomes ready. When all chunks of the run are free, no item can be
//!    made in it, and [`Core::fold_magazines`] drops the pending entries that name it.
//! 4. Where several are held, a magazine is locked before the class or the retire list. Neither of
//!    those is while the other is held.
//! 5. A thread that holds the lock of a class, and since it took the lock has seen an item of the
//!    class in the index, in a chain or in the queue, may read the item as a holder of a reference
//!    may: the chunk is not used again before the lock is given back. For items are claimed under
//!    that lock, and a chunk that is freed otherwise leaves the queue under that lock before it is
//!    retired.
//!
//! `fill` gets chunks ready, `unlink` takes claimed items out of the index, and `depart` hands them
//! down.

mod depart;
mod fill;
#[cfg(test)]
mod tests;
mod unlink;

use std::sync::atomic::Ordering;

use base::counter::stripe;
use base::striped::Striped;
use base::{Ledger, Part};
use parking_lot::{Mutex, MutexGuard};
use slab::{Item, ItemPtr};

pub(crate) use depart::has_image;

use crate::cache::Core;
use crate::class::{Class, Inner, Keyed, View, adjust, fingerprint};

/// Most chunks that a thread takes at once.
const MAX_BATCH: u64 = 256;
/// Number of chunks that a thread uses before it looks again whether it may have the lock of the
/// class without waiting.
const LOOK_EACH: usize = 8;
/// The chunks of a class are divided by this and by the number of threads that use the class (two
/// if there is one) for a thread's batch: what all magazines keep from use is a small part of the
/// class. For batches of up to [`MAX_SMALL_BATCH`] the divisor is [`SMALL_CLASS_DIVISOR`].
const CLASS_DIVISOR: u64 = 512;
const SMALL_CLASS_DIVISOR: u64 = 64;
const MAX_SMALL_BATCH: u64 = 64;
/// A class's chunks are divided by this for the number that its retire list should have.
const RETIRED_DIVISOR: u64 = 128;
const MAX_RETIRED: u64 = 2_048;

/// Chunks and entries that one thread has for itself.
#[derive(Default)]
pub(crate) struct Magazine {
    /// To be given out.
    ready: Vec<ItemPtr>,
    /// Items to be queued.
    pending: Vec<Pending>,
    /// Unlinked chunks, perhaps still in the eviction queue, perhaps still protected by readers.
    freed: Vec<ItemPtr>,
    /// Evicted, and still in the index. Empty except while this thread evicts a batch.
    evicted: Vec<Keyed>,
    /// Evicted, held by this thread, and to be ended once the thread holds no lock of a class.
    /// Empty otherwise.
    ending: Vec<ItemPtr>,
    /// Memory of all these that was charged, in bytes.
    billed: u32,
}

impl Magazine {
    /// Brings the bill up to date for what it holds.
    fn settle(&mut self, ledger: &Ledger) {
        let pointers = self.ready.capacity() + self.freed.capacity() + self.ending.capacity();
        let bytes = pointers * size_of::<ItemPtr>()
            + self.pending.capacity() * size_of::<Pending>()
            + self.evicted.capacity() * size_of::<(ItemPtr, u64)>();
        if bytes as u32 != self.billed {
            adjust(ledger, Part::Fixed, self.billed.into(), bytes as u64);
            self.billed = bytes as u32;
        }
    }
}

/// Outcome of [`Core::fold_idle_magazines`].
pub(crate) struct Folded {
    /// Chunks in the retire list and in the magazines that no thread used.
    pub(crate) chunks: usize,
    /// True if no magazine was in use.
    pub(crate) is_complete: bool,
}

/// An item to be queued.
struct Pending {
    ptr: ItemPtr,
    incarnation: u8,
    fingerprint: u32,
}

/// The magazines of a class.
#[derive(Default)]
pub(crate) struct Magazines {
    /// That of all threads while batches are of one.
    common: Mutex<Magazine>,
    own: Striped<Own>,
}

/// The magazine of one thread, made when it first needs it.
#[derive(Default)]
#[repr(align(64))]
struct Own(Mutex<Magazine>);

impl Magazines {
    /// The magazine of the calling thread.
    fn mine(&self, class: &Class) -> &Mutex<Magazine> {
        if class.batch() == 1 {
            return &self.common;
        }
        let own = self.own.get_or_make(stripe(), || {
            class.note_magazine();
            Own::default()
        });
        &own.0
    }

    /// Memory of those that were made, in bytes, without what they hold.
    pub(crate) fn bytes(&self) -> usize {
        self.own.bytes()
    }

    /// Takes what they hold off the bill: nobody uses them any more.
    pub(crate) fn end_bill(&self, ledger: &Ledger) {
        for magazine in self.all() {
            ledger.release(Part::Fixed, std::mem::take(&mut magazine.lock().billed).into());
        }
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = &Mutex<Magazine>> {
        std::iter::once(&self.common).chain(self.own.iter().map(|own| &own.0))
    }
}

/// Returns the number of chunks that a thread takes at once, of a class of `chunks` that `threads`
/// use.
pub(crate) fn batch_for(chunks: u64, threads: u32) -> u32 {
    let of_thread = chunks / u64::from(threads.max(2));
    let small = (of_thread / SMALL_CLASS_DIVISOR).min(MAX_SMALL_BATCH);
    (of_thread / CLASS_DIVISOR).min(MAX_BATCH).max(small).max(1) as u32
}

/// Returns the number of chunks that the retire list of a class of `chunks` should have.
pub(crate) fn retired_for(chunks: u64) -> usize {
    (chunks / RETIRED_DIVISOR).clamp(1, MAX_RETIRED) as usize
}

/// Returns the lock of the class if the thread is to process its `gathered` chunks now. Below one
/// batch: `None`. Up to two batches: tries the lock at every [`LOOK_EACH`]th chunk. From two on,
/// or if batches are small: waits for it.
fn lock_for(class: &Class, gathered: usize) -> Option<MutexGuard<'_, Inner>> {
    let batch = class.batch() as usize;
    if gathered < batch {
        None
    } else if gathered >= 2 * batch || batch < LOOK_EACH {
        Some(class.inner.lock())
    } else if gathered.is_multiple_of(LOOK_EACH) {
        class.inner.try_lock()
    } else {
        None
    }
}

impl Core {
    /// Queues what is pending, and takes what was freed out of the queue.
    fn fold(&self, class: &Class, inner: &mut Inner, magazine: &mut Magazine) {
        for pending in &magazine.pending {
            inner.policy.prefetch(pending.fingerprint);
        }
        for Pending { ptr, incarnation, fingerprint } in magazine.pending.drain(..) {
            let (item, state) = (self.arena.item(ptr).0, self.arena.item(ptr).0.state());
            if state.incarnation() != incarnation || !state.is_indexed() {
                continue;
            }
            let entry = evict::Entry(inner.chunks.number(&self.arena, ptr).0);
            if !state.is_queued() {
                let bits = inner.policy.admit(fingerprint);
                let hit = |bits, earlier| class.rule.apply_unqueued(bits, earlier, || self.now());
                let Some(bits) = state.enqueue(bits, hit) else { continue };
                inner.policy.push(entry, bits, self.now());
            }
            // SAFETY: the item was in the index while this thread held the lock of the class, so
            // that its chunk is not used again before the lock is given back (invariant 5).
            if let Some(expiry) = unsafe { item.expiry() } {
                self.put_in_wheel(class, inner, entry, expiry.load(Ordering::Relaxed));
            }
        }
        let Inner { chunks, policy, .. } = inner;
        policy.restore_shares(&View::new(self, chunks));
        for ptr in &magazine.freed {
            inner.dequeue(self, *ptr);
        }
    }

    /// Ends an item that is neither in the index nor held, and frees its chunk. The caller holds no
    /// lock.
    pub(crate) fn free(&self, ptr: ItemPtr) {
        let _using = self.pools.enter();
        // SAFETY: this thread uses the table of pools, so that the class is not freed (invariants 2
        // and 3 of `pools`).
        let class = unsafe { self.class_of(self.arena.item(ptr).1) };
        self.check_unlinked(ptr);
        if self.wants_finish(class, ptr) {
            self.finish(class, ptr);
        }
        self.free_chunk(class, ptr);
    }

    /// Frees a chunk that this thread owns, whatever it held.
    pub(crate) fn free_chunk(&self, class: &Class, ptr: ItemPtr) {
        let mut magazine = class.magazines.mine(class).lock();
        magazine.freed.push(ptr);
        let Some(mut inner) = lock_for(class, magazine.freed.len()) else { return };
        self.fold(class, &mut inner, &mut magazine);
        inner.settle(self);
        drop(inner);
        class.upkeep.note_work();
        class.retired.append(&self.pins, &mut magazine.freed);
        magazine.settle(&self.ledger);
        let target = class.retired.target();
        if class.retired.count() > 2 * target {
            let spare = class.retired.scan_and_take(&self.pins, target);
            let mut inner = class.inner.lock();
            spare.into_iter().for_each(|ptr| inner.free(self, ptr));
            class.note_vacant(self, &inner);
        }
    }

    /// Frees chunks that are neither in the index nor in the queue; those that are still read,
    /// later.
    pub(crate) fn free_evicted(&self, class: &Class, evicted: Vec<ItemPtr>) {
        if evicted.is_empty() {
            return;
        }
        let protected = self.pins.protected();
        let (mut later, now): (Vec<_>, Vec<_>) =
            evicted.into_iter().partition(|ptr| protected.contains(ptr.to_bits()));
        class.retired.append(&self.pins, &mut later);
        let mut inner = class.inner.lock();
        for ptr in now {
            inner.free(self, ptr);
        }
        class.note_vacant(self, &inner);
    }

    /// Queues an item that has just become visible, or was given an expiry, sooner or later. The
    /// caller holds a reference or protects the item.
    pub(crate) fn queue(&self, class: &Class, (ptr, item): (ItemPtr, Item<'_>), hash: u64) {
        let incarnation = item.state().incarnation();
        let mut magazine = class.magazines.mine(class).lock();
        // SAFETY: the caller holds a reference or protects the item, so that the item is not freed
        // (invariants 2 and 5 of `slab::item`).
        if unsafe { item.expiry() }.is_some_and(|at| at.load(Ordering::Relaxed) != 0) {
            // Whoever reaps looks into the magazine, which is locked until it has the item.
            class.note_due(0);
        }
        magazine.pending.push(Pending { ptr, incarnation, fingerprint: fingerprint(hash) });
        if let Some(mut inner) = lock_for(class, magazine.pending.len()) {
            self.fold(class, &mut inner, &mut magazine);
            inner.settle(self);
            drop(inner);
            magazine.settle(&self.ledger);
        }
    }

    /// Brings the queue of the class up to date with all magazines, waiting for those in use. Takes
    /// the class's lock for magazines with something to fold only.
    pub(crate) fn fold_magazines(&self, class: &Class) {
        for magazine in class.magazines.all() {
            self.fold_magazine(class, &mut magazine.lock());
        }
        class.settle_fixed(&self.ledger);
    }

    /// Does the same with the magazines that no thread uses right now. A thread that uses one may
    /// have lost its processor, and with a thousand threads does not have it again for a second;
    /// what it has gathered is folded later.
    pub(crate) fn fold_idle_magazines(&self, class: &Class) -> Folded {
        let mut folded = Folded { chunks: class.retired.count(), is_complete: true };
        for magazine in class.magazines.all() {
            match magazine.try_lock() {
                Some(mut magazine) => folded.chunks += self.fold_magazine(class, &mut magazine),
                None => folded.is_complete = false,
            }
        }
        class.settle_fixed(&self.ledger);
        folded
    }

    /// Brings the queue of the class up to date with one magazine. Returns how many chunks the
    /// magazine has.
    fn fold_magazine(&self, class: &Class, magazine: &mut Magazine) -> usize {
        if !magazine.pending.is_empty() || !magazine.freed.is_empty() {
            let mut inner = class.inner.lock();
            self.fold(class, &mut inner, magazine);
            inner.settle(self);
            drop(inner);
            magazine.settle(&self.ledger);
        }
        magazine.ready.len() + magazine.freed.len()
    }

    /// Gives the chunks of all magazines, and of the retire list, back to the class; those that are
    /// still read stay. The caller holds no magazine.
    pub(crate) fn empty_magazines(&self, class: &Class) {
        class.magazines.all().for_each(|magazine| self.empty_magazine(class, &mut magazine.lock()));
        self.drain_retire_list(class);
    }

    /// Does the same, but passes over magazines that a thread uses right now.
    pub(crate) fn empty_idle_magazines(&self, class: &Class) {
        let idle = class.magazines.all().filter_map(Mutex::try_lock);
        idle.for_each(|mut magazine| self.empty_magazine(class, &mut magazine));
        self.drain_retire_list(class);
    }

    /// Gives the chunks of a magazine back to the class, and those that may still be read to its
    /// retire list.
    fn empty_magazine(&self, class: &Class, magazine: &mut Magazine) {
        let mut inner = class.inner.lock();
        self.fold(class, &mut inner, magazine);
        for ptr in magazine.ready.drain(..) {
            inner.free(self, ptr);
        }
        inner.settle(self);
        drop(inner);
        class.retired.append(&self.pins, &mut magazine.freed);
    }

    /// Gives the chunks of the retire list that nobody reads any more back to the class.
    fn drain_retire_list(&self, class: &Class) {
        let unread = class.retired.scan_and_take(&self.pins, 0);
        let mut inner = class.inner.lock();
        unread.into_iter().for_each(|ptr| inner.free(self, ptr));
        class.note_vacant(self, &inner);
    }
}
