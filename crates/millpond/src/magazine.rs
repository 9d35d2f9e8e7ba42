//! A thread's own store of a class's chunks, so that most insertions take no lock that others want.
//!
//! A thread that allocates takes a batch of chunks at a time: free ones, those of a new slab, or those of the class's *stock*
//! ([`base::pin::Stock`]) of what was evicted or removed. What it inserts joins the eviction queue a batch at a time, and so does what is
//! freed: the chunk leaves the queue, and goes to the stock, with a batch of others. The lock of the class, and the cold memory that
//! eviction reads, are so paid for once for many items.
//!
//! Whoever finds the stock short evicts a batch for it, mostly *ahead*, at a moment when nobody else is at the class: so threads
//! hardly ever wait for the class's lock, nor for the answer to who still reads what was evicted.
//!
//! A class of few chunks has batches of one, and one magazine for all threads.
//!
//! Invariants:
//! 1. A chunk is *ready* only after everybody who protected it before it was freed protects it no more (invariant 5 of
//!    `slab::item`). *Freed* ones leave the queue first, and then are in the stock until that.
//! 2. A *pending* entry may be out of date: its item was removed, and its chunk may hold another. Its incarnation and the
//!    state word tell; what is queued already is not queued twice.
//! 3. No magazine names a chunk of a slab that has left the class. All are emptied ([`Core::empty_magazines`]), and the stock, after the
//!    class was told which slab leaves, and who takes from the stock looks for that, so that none of its chunks gets ready again; and
//!    once all its chunks are in, so that no item can be made in it, what is pending of it is dropped ([`Core::fold_magazines`]).
//! 4. Where several are held, a magazine is locked before the class or the stock. Neither of those is while the other is held.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use base::counter::{STRIPES, stripe};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use slab::{ChunkNumber, ItemPtr};

use crate::cache::Core;
use crate::class::{Class, Gone, Inner, View, fingerprint};
use crate::life::RemovalCause;
use crate::pool::Pool;
use crate::watch::gone_for;

/// Most chunks that a thread takes at once.
const MAX_BATCH: u64 = 256;
/// How many chunks a thread uses between two looks whether it may have the lock of the class without waiting.
const LOOK_EACH: usize = 8;
/// A thread's batch is at most this part of the chunks of the class, divided by the number of threads that use it, or by two if there is
/// one: what all magazines keep from use is a small part of the class. Up to 64 the part may be larger.
const PART_OF_CLASS: u64 = 512;
const PART_OF_SMALL_CLASS: u64 = 64;
const MAX_SMALL_BATCH: u64 = 64;
/// A class's chunks are divided by this for the number that its stock should have.
const PART_IN_STOCK: u64 = 128;
const MAX_STOCK: u64 = 2_048;
/// Memory of a stock, in bytes, at most about: what waits and is clear, up to twice what it should have, and what is in hand.
const STOCK_BYTES: u64 = 3 * MAX_STOCK * size_of::<ItemPtr>() as u64;
/// How often eviction is tried where what was evicted turns out to be read.
const ATTEMPTS: u32 = 4;
/// How often a policy is asked to evict in a pool whose [`crate::Lifecycle`] may object, where it finds nothing. Each time it tries
/// [`evict::MAX_HELD_TRIES`] items and more.
const ROUNDS_ASKING: u32 = 64;
/// What a magazine takes, in bytes, about.
const MAGAZINE_BYTES: u64 = MAX_BATCH * (4 + 2 * 4 + 2 * 12 + 2 * 16);

/// Chunks and entries that one thread has for itself.
#[derive(Default)]
pub(crate) struct Magazine {
    /// To be given out.
    ready: Vec<ItemPtr>,
    /// Items to be queued.
    pending: Vec<Pending>,
    /// Freed, perhaps still queued, perhaps still read.
    freed: Vec<ItemPtr>,
    /// Evicted, and still in the index: empty but while a batch is evicted.
    evicted: Vec<(ItemPtr, u64)>,
    /// Evicted, held by this thread, and to be ended once no lock is held, of any class: empty but meanwhile.
    ending: Vec<ItemPtr>,
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
    own: OnceLock<Box<[Own; STRIPES]>>,
}

/// The magazine of one thread, made when it first needs it.
type Own = OnceLock<Box<CachePadded<Mutex<Magazine>>>>;

impl Magazines {
    /// The magazine of the calling thread.
    fn mine(&self, core: &Core, class: &Class) -> &Mutex<Magazine> {
        if class.batch() == 1 {
            return &self.common;
        }
        let own = self.own.get_or_init(|| Box::new([const { OnceLock::new() }; STRIPES]));
        own[stripe()].get_or_init(|| {
            let stock = if class.note_magazine() == 1 { STOCK_BYTES } else { 0 };
            core.ledger.charge(base::Part::Fixed, MAGAZINE_BYTES + stock);
            Box::default()
        })
    }

    /// Memory of those that were made, and of the stock then, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let made = self.own.get().into_iter().flat_map(|own| own.iter()).filter_map(OnceLock::get).count();
        made as u64 * MAGAZINE_BYTES + if made > 0 { STOCK_BYTES } else { 0 }
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = &Mutex<Magazine>> {
        let own = self.own.get().into_iter().flat_map(|own| own.iter()).filter_map(OnceLock::get);
        std::iter::once(&self.common).chain(own.map(|magazine| &***magazine))
    }
}

/// How many chunks a thread takes at once, of a class of `chunks` that `threads` use.
pub(crate) fn batch_for(chunks: u64, threads: u32) -> u32 {
    let of_thread = chunks / u64::from(threads.max(2));
    let small = (of_thread / PART_OF_SMALL_CLASS).min(MAX_SMALL_BATCH);
    (of_thread / PART_OF_CLASS).min(MAX_BATCH).max(small).max(1) as u32
}

/// How many chunks the stock of a class of `chunks` should have.
pub(crate) fn stock_for(chunks: u64) -> usize {
    (chunks / PART_IN_STOCK).clamp(1, MAX_STOCK) as usize
}

/// The lock of the class for a thread that has gathered so much to do under it: `None` below a batch, and up to two while
/// another thread has the lock, which is then looked for now and then.
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
    /// A free chunk of the class, one of a new slab, or that of an evicted item.
    pub(crate) fn take_from_class(&self, pool: &Pool, class: &Class) -> Option<ItemPtr> {
        for _ in 0..ATTEMPTS {
            let mut magazine = class.magazines.mine(self, class).lock();
            let mut ptr = magazine.ready.pop();
            match ptr {
                Some(_) => self.fill_ahead(pool, class, &mut magazine),
                None => {
                    self.fill(pool, class, &mut magazine);
                    ptr = magazine.ready.pop();
                }
            }
            if magazine.ending.is_empty() {
                return ptr;
            }
            let ending = std::mem::take(&mut magazine.ending);
            drop(magazine);
            // Their chunks, and those of their links, come to magazines like this one.
            ending.into_iter().for_each(|ptr| self.unlink_held(ptr, RemovalCause::Evicted));
            if ptr.is_some() {
                return ptr;
            }
        }
        None
    }

    /// Gets a batch of chunks ready, if there are any to be had.
    fn fill(&self, pool: &Pool, class: &Class, magazine: &mut Magazine) {
        for attempt in 0..ATTEMPTS {
            self.take_clear(class, magazine);
            if !magazine.ready.is_empty() {
                return;
            }
            if attempt > 0 || class.stock.level() < class.stock.target() {
                self.gather(pool, class, class.inner.lock(), magazine, attempt > 0);
            }
            if !magazine.ready.is_empty() || class.stock.level() == 0 {
                return;
            }
            class.stock.pass_now(&self.pins);
        }
        self.take_clear(class, magazine);
    }

    /// Brings the stock up to what it should be, at a moment when nobody else is at the class: looks for that now and then, once
    /// half of what is ready is used up.
    fn fill_ahead(&self, pool: &Pool, class: &Class, magazine: &mut Magazine) {
        let (batch, left) = (class.batch() as usize, magazine.ready.len());
        if left * 2 > batch || !left.is_multiple_of(LOOK_EACH) || class.stock.level() >= class.stock.target()
        {
            return;
        }
        if let Some(inner) = class.inner.try_lock() {
            self.gather(pool, class, inner, magazine, false);
        }
    }

    /// Takes a batch of clear chunks from the stock.
    fn take_clear(&self, class: &Class, magazine: &mut Magazine) {
        class.stock.take(class.batch() as usize, &mut magazine.ready);
        if let Some(leaving) = class.leaving_slab() {
            for ptr in magazine.ready.extract_if(.., |ptr| ptr.slab() == leaving) {
                class.inner.lock().free(self, ptr);
            }
        }
        if class.stock.is_low() {
            class.stock.pass_ahead(&self.pins);
        }
    }

    /// Brings the queue up to date, and takes a batch of chunks: free ones and those of a new slab, to be ready; or those of
    /// evicted items, for the stock, as many as it lacks; or one more than that, if the caller `insists` because all that it has is
    /// still read.
    fn gather(
        &self,
        pool: &Pool,
        class: &Class,
        mut inner: MutexGuard<'_, Inner>,
        magazine: &mut Magazine,
        insists: bool,
    ) {
        let (batch, left) = (class.batch() as usize, magazine.ready.len());
        self.fold(class, &mut inner, magazine);
        self.pop_free(&mut inner, magazine, batch);
        let lacking = class.stock.target().saturating_sub(class.stock.level() + magazine.freed.len());
        let wanted = lacking.max(usize::from(insists)).min(batch);
        if magazine.ready.len() == left && wanted > 0 {
            if self.add_slab(pool, class, &mut inner) {
                self.pop_free(&mut inner, magazine, batch);
            } else {
                self.evict(class, &mut inner, magazine, wanted);
            }
        }
        inner.settle(&self.ledger);
        drop(inner);
        self.unlink_evicted(class, magazine);
        class.stock.append(&self.pins, &mut magazine.freed);
    }

    fn pop_free(&self, inner: &mut Inner, magazine: &mut Magazine, batch: usize) {
        while magazine.ready.len() < batch
            && let Some(ptr) = inner.chunks.pop(&self.arena)
        {
            magazine.ready.push(ptr);
        }
    }

    /// Evicts up to `wanted` items. They are still in the index.
    fn evict(&self, class: &Class, inner: &mut Inner, magazine: &mut Magazine, wanted: usize) {
        let keyspace = self.keyspace(inner.chunks.info().keyspace);
        let Inner { chunks, policy, .. } = inner;
        let view = View::with_seed(self, chunks, self.hash_seed(keyspace)).asking(class.life.as_deref());
        // Where an embedder may keep items, more of them may stand in a row than are held otherwise.
        let mut rounds = if class.life.is_some() { ROUNDS_ASKING } else { 1 };
        while magazine.evicted.len() + magazine.ending.len() < wanted {
            let Some(entry) = policy.evict(&view) else {
                rounds -= 1;
                if rounds == 0 {
                    break;
                }
                continue;
            };
            let Some(ptr) = view.chunks.locate(ChunkNumber(entry.0)) else { break };
            // SAFETY: the item was claimed under the lock that is held.
            if let Some(parent) = unsafe { self.parent_of_claimed(ptr) } {
                magazine.ending.push(parent);
                continue;
            }
            if self.wants_finish(class, ptr) {
                self.arena.item(ptr).0.state().hold_claimed();
                magazine.ending.push(ptr);
                continue;
            }
            // SAFETY: the item was claimed, so this thread owns its chunk.
            let hash = view.hash.take().unwrap_or_else(|| unsafe { self.hash_of_item(ptr) });
            self.index.prefetch(hash);
            magazine.evicted.push((ptr, hash));
        }
    }

    /// Takes what was evicted out of the index.
    fn unlink_evicted(&self, class: &Class, magazine: &mut Magazine) {
        self.unlink(class, RemovalCause::Evicted, magazine.evicted.iter().copied());
        magazine.freed.extend(magazine.evicted.drain(..).map(|(ptr, _)| ptr));
    }

    /// Takes items that this thread has claimed, with the hashes of their keys, out of the index, and counts them as gone
    /// for `cause`, those that were evicted when they were over as expired.
    pub(crate) fn unlink(
        &self,
        class: &Class,
        cause: RemovalCause,
        claimed: impl Iterator<Item = (ItemPtr, u64)>,
    ) {
        let space = self.keyspace(class.info.keyspace);
        let (now, mut gone, mut expired) = (self.now(), Gone::default(), Gone::default());
        for (ptr, hash) in claimed {
            self.index.remove(hash, ptr);
            let item = self.arena.item(ptr).0;
            // SAFETY: the item was claimed, so this thread owns its chunk.
            unsafe {
                let cause = self.cause_of_end(cause, item, space);
                if cause == RemovalCause::Expired { &mut expired } else { &mut gone }.add(item, now);
                self.note_item(gone_for(cause), hash, ptr);
            }
        }
        class.count_gone(cause, &gone);
        class.count_gone(RemovalCause::Expired, &expired);
    }

    /// Takes items that this thread has claimed out of the index, counts them as gone for `cause`, and frees them.
    pub(crate) fn end_claimed(&self, class: &Class, cause: RemovalCause, mut claimed: Vec<ItemPtr>) {
        claimed.retain(|ptr| {
            let wants_finish = self.wants_finish(class, *ptr);
            if wants_finish {
                self.arena.item(*ptr).0.state().hold_claimed();
                self.unlink_held(*ptr, cause);
            }
            !wants_finish
        });
        // SAFETY: the items were claimed, so this thread owns their chunks.
        let with_hash = claimed.iter().map(|ptr| (*ptr, unsafe { self.hash_of_item(*ptr) }));
        self.unlink(class, cause, with_hash);
        self.free_evicted(class, claimed);
    }

    /// Takes an item out of the index that this thread has taken out of sight, with a reference, and gives that back.
    pub(crate) fn unlink_held(&self, ptr: ItemPtr, cause: RemovalCause) {
        // SAFETY: this thread holds a reference.
        self.index.remove(unsafe { self.hash_of_item(ptr) }, ptr);
        self.retire(ptr, cause, false);
    }

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
            // SAFETY: the item was in the index while this thread held the lock of the class, without which no chunk that
            // was freed since then is used again.
            if let Some(expiry) = unsafe { item.expiry() } {
                self.put_in_wheel(inner, entry, expiry.load(Ordering::Relaxed));
            }
        }
        let Inner { chunks, policy, .. } = inner;
        policy.tend(&View::new(self, chunks));
        for ptr in &magazine.freed {
            inner.dequeue(self, *ptr);
        }
    }

    /// Ends an item that is neither in the index nor held, and frees its chunk. The caller holds no lock.
    pub(crate) fn free(&self, ptr: ItemPtr) {
        let _using = self.pools.enter();
        // SAFETY: this thread uses the table of pools.
        let class = unsafe { self.class_of(self.arena.item(ptr).1) };
        if self.wants_finish(class, ptr) {
            self.finish(class, ptr);
        }
        self.free_chunk(class, ptr);
    }

    /// Frees a chunk that this thread owns, whatever it held.
    pub(crate) fn free_chunk(&self, class: &Class, ptr: ItemPtr) {
        let mut magazine = class.magazines.mine(self, class).lock();
        magazine.freed.push(ptr);
        let Some(mut inner) = lock_for(class, magazine.freed.len()) else { return };
        self.fold(class, &mut inner, &mut magazine);
        inner.settle(&self.ledger);
        drop(inner);
        class.stock.append(&self.pins, &mut magazine.freed);
        let target = class.stock.target();
        if class.stock.level() > 2 * target {
            let spare = class.stock.take_out(&self.pins, target);
            let mut inner = class.inner.lock();
            spare.into_iter().for_each(|ptr| inner.free(self, ptr));
        }
    }

    /// Frees chunks that are neither in the index nor in the queue; those that are still read, later.
    pub(crate) fn free_evicted(&self, class: &Class, evicted: Vec<ItemPtr>) {
        if evicted.is_empty() {
            return;
        }
        let protected = self.pins.protected();
        let (mut later, now): (Vec<_>, Vec<_>) =
            evicted.into_iter().partition(|ptr| protected.contains(ptr.to_bits()));
        class.stock.append(&self.pins, &mut later);
        let mut inner = class.inner.lock();
        for ptr in now {
            inner.free(self, ptr);
        }
    }

    /// Queues an item that has just become visible, or was given an expiry, sooner or later. The caller holds a reference
    /// or protects the item.
    pub(crate) fn queue(&self, class: &Class, ptr: ItemPtr, hash: u64) {
        let incarnation = self.arena.item(ptr).0.state().incarnation();
        let mut magazine = class.magazines.mine(self, class).lock();
        magazine.pending.push(Pending { ptr, incarnation, fingerprint: fingerprint(hash) });
        if let Some(mut inner) = lock_for(class, magazine.pending.len()) {
            self.fold(class, &mut inner, &mut magazine);
            inner.settle(&self.ledger);
        }
    }

    /// Brings the queue of the class up to date with all magazines, and says how many chunks they and the stock have.
    pub(crate) fn fold_magazines(&self, class: &Class) -> usize {
        let in_magazines: usize = class
            .magazines
            .all()
            .map(|magazine| {
                let mut magazine = magazine.lock();
                self.fold(class, &mut class.inner.lock(), &mut magazine);
                magazine.ready.len() + magazine.freed.len()
            })
            .sum();
        in_magazines + class.stock.level()
    }

    /// Gives the chunks of all magazines, and of the stock, back to the class; those that are still read stay. The caller holds no
    /// magazine.
    pub(crate) fn empty_magazines(&self, class: &Class) {
        for magazine in class.magazines.all() {
            let mut magazine: MutexGuard<'_, Magazine> = magazine.lock();
            let mut inner = class.inner.lock();
            self.fold(class, &mut inner, &mut magazine);
            for ptr in magazine.ready.drain(..) {
                inner.free(self, ptr);
            }
            inner.settle(&self.ledger);
            drop(inner);
            class.stock.append(&self.pins, &mut magazine.freed);
        }
        let unread = class.stock.take_out(&self.pins, 0);
        let mut inner = class.inner.lock();
        unread.into_iter().for_each(|ptr| inner.free(self, ptr));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_is_a_small_part_of_a_class() {
        assert_eq!(stock_for(0), 1);
        assert_eq!(stock_for(32_768), 256);
        assert_eq!(stock_for(1 << 30), MAX_STOCK as usize);
    }

    #[test]
    fn batches_are_a_small_part_of_a_class() {
        assert_eq!(batch_for(0, 0), 1);
        assert_eq!(batch_for(64, 1), 1);
        assert_eq!(batch_for(4_096, 1), 32);
        assert_eq!(batch_for(32_768, 1), 64);
        assert_eq!(batch_for(1 << 20, 1), 256);
        for threads in 1..=64 {
            for chunks in [1, 100, 10_000, 1_000_000] {
                let batch = u64::from(batch_for(chunks, threads));
                assert!(batch == 1 || batch * u64::from(threads) * 64 <= chunks);
            }
        }
    }
}
