//! A thread's own store of a class's chunks, so that most insertions take no lock that others want.
//!
//! A thread that allocates takes a batch of chunks at a time: free ones, those of a new slab, or
//! those of the class's *stock* ([`base::pin::Stock`]) of what was evicted or removed. What it
//! inserts joins the eviction queue a batch at a time, and so does what is freed: the chunk leaves
//! the queue, and goes to the stock, with a batch of others. The lock of the class, and the cold
//! memory that eviction reads, are so paid for once for many items.
//!
//! Whoever finds the stock short evicts a batch for it, mostly *ahead*, at a moment when nobody
//! else is at the class: so threads hardly ever wait for the class's lock, nor for the answer to
//! who still reads what was evicted.
//!
//! A class of few chunks has batches of one, and one magazine for all threads.
//!
//! Invariants:
//! 1. A chunk is *ready* only after everybody who protected it before it was freed protects it no
//!    more (invariant 5 of `slab::item`). *Freed* ones leave the queue first, and then are in the
//!    stock until that.
//! 2. A *pending* entry may be out of date: its item was removed, and its chunk may hold another.
//!    Its incarnation and the state word tell; what is queued already is not queued twice.
//! 3. No magazine names a chunk of a slab that has left the class. All are emptied
//!    ([`Core::empty_magazines`]), and the stock, after the class was told which slab leaves, and
//!    who takes from the stock looks for that, so that none of its chunks gets ready again; and
//!    once all its chunks are in, so that no item can be made in it, what is pending of it is
//!    dropped ([`Core::fold_magazines`]).
//! 4. Where several are held, a magazine is locked before the class or the stock. Neither of those
//!    is while the other is held.

use std::sync::atomic::Ordering;

use base::counter::stripe;
use base::striped::Striped;
use base::{Ledger, Part};
use parking_lot::{Mutex, MutexGuard};
use slab::{ChunkNumber, Item, ItemPtr};

use crate::cache::Core;
use crate::class::{Class, Gone, Inner, Keyed, View, adjust, fingerprint};
use crate::life::RemovalCause;
use crate::plant::Plant;
use crate::pool::Pool;
use crate::watch::gone_for;

/// Most chunks that a thread takes at once.
const MAX_BATCH: u64 = 256;
/// How many chunks a thread uses between two looks whether it may have the lock of the class
/// without waiting.
const LOOK_EACH: usize = 8;
/// A thread's batch is at most this part of the chunks of the class, divided by the number of
/// threads that use it, or by two if there is one: what all magazines keep from use is a small part
/// of the class. Up to 64 the part may be larger.
const PART_OF_CLASS: u64 = 512;
const PART_OF_SMALL_CLASS: u64 = 64;
const MAX_SMALL_BATCH: u64 = 64;
/// A class's chunks are divided by this for the number that its stock should have.
const PART_IN_STOCK: u64 = 128;
const MAX_STOCK: u64 = 2_048;
/// Entries at which a batch of evictions looks under one hold of the class's lock; the last
/// eviction may add what one takes ([`evict::MOST_LOOKS`]). A batch stays smaller where much has to
/// be looked at for each.
const LOOKS_PER_BATCH: u32 = 2_048;
/// How often eviction is tried where what was evicted turns out to be read.
const ATTEMPTS: u32 = 4;
/// How often a policy is asked to evict in a pool whose [`crate::Lifecycle`] may object, where it
/// finds nothing. Each time it tries [`evict::MAX_HELD_TRIES`] items and more.
const ROUNDS_ASKING: u32 = 64;

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
    evicted: Vec<Keyed>,
    /// Evicted, held by this thread, and to be ended once no lock is held, of any class: empty but
    /// meanwhile.
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
    /// Chunks in the stock and in the magazines that no thread used.
    pub(crate) chunks: usize,
    /// Whether no magazine was in use.
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

/// The lock of the class for a thread that has gathered so much to do under it: `None` below a
/// batch, and up to two while another thread has the lock, which is then looked for now and then.
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
            let mut magazine = class.magazines.mine(class).lock();
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
                // Others have the lock between two turns of what has to drop many stale entries.
                while self.gather(pool, class, class.inner.lock(), magazine, attempt > 0) {}
            }
            if !magazine.ready.is_empty() || class.stock.level() == 0 {
                return;
            }
            class.stock.pass_now(&self.pins);
        }
        self.take_clear(class, magazine);
    }

    /// Brings the stock up to what it should be, at a moment when nobody else is at the class:
    /// looks for that now and then, once half of what is ready is used up.
    fn fill_ahead(&self, pool: &Pool, class: &Class, magazine: &mut Magazine) {
        let (batch, left) = (class.batch() as usize, magazine.ready.len());
        // A chunk ahead is a large part of a class that has few.
        if batch == 1
            || left * 2 > batch
            || !left.is_multiple_of(LOOK_EACH)
            || class.stock.level() >= class.stock.target()
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
        if let Some(leaving) = class.leaving_run() {
            for ptr in magazine.ready.extract_if(.., |ptr| leaving.has(*ptr)) {
                class.inner.lock().free(self, ptr);
            }
        }
        if class.stock.is_low() {
            class.stock.pass_ahead(&self.pins);
        }
    }

    /// Brings the queue up to date, and takes a batch of chunks: free ones and those of a new slab,
    /// to be ready; or those of evicted items, for the stock, as many as it lacks; or one more than
    /// that, if the caller `insists` because all that it has is still read. Returns whether it got
    /// none because it came upon stale entries alone, and has to go on.
    fn gather(
        &self,
        pool: &Pool,
        class: &Class,
        mut inner: MutexGuard<'_, Inner>,
        magazine: &mut Magazine,
        insists: bool,
    ) -> bool {
        let (batch, left) = (class.batch() as usize, magazine.ready.len());
        self.fold(class, &mut inner, magazine);
        if batch > 1 {
            self.take_common(class, &mut inner, magazine);
        }
        self.pop_free(&mut inner, magazine, batch);
        let lacking = class.stock.target().saturating_sub(class.stock.level() + magazine.freed.len());
        let wanted = lacking.max(usize::from(insists)).min(batch);
        let mut goes_on = false;
        if magazine.ready.len() == left && wanted > 0 {
            if self.add_run(pool, class, &mut inner) {
                self.pop_free(&mut inner, magazine, batch);
            } else {
                class.is_starved.store(self.could_have_more(pool, &inner), Ordering::Relaxed);
                goes_on = self.evict(class, &mut inner, magazine, wanted);
            }
        }
        inner.settle(self);
        drop(inner);
        class.upkeep.note_work();
        self.unlink_evicted(class, magazine);
        class.stock.append(&self.pins, &mut magazine.freed);
        magazine.settle(&self.ledger);
        goes_on
    }

    /// Takes over what was left in the common magazine when the class came to have more chunks, and
    /// nobody would look at again. Does not wait for the magazine, whose place is before the
    /// class's lock.
    fn take_common(&self, class: &Class, inner: &mut Inner, magazine: &mut Magazine) {
        let Some(mut common) = class.magazines.common.try_lock() else { return };
        self.fold(class, inner, &mut common);
        magazine.ready.append(&mut common.ready);
        magazine.freed.append(&mut common.freed);
        magazine.evicted.append(&mut common.evicted);
        magazine.ending.append(&mut common.ending);
    }

    fn pop_free(&self, inner: &mut Inner, magazine: &mut Magazine, batch: usize) {
        while magazine.ready.len() < batch
            && let Some(ptr) = inner.chunks.pop(&self.arena)
        {
            magazine.ready.push(ptr);
        }
    }

    /// Evicts up to `wanted` items, as far as [`LOOKS_PER_BATCH`] lets it. They are still in the
    /// index. Returns whether there were none but stale entries to be looked at this time.
    fn evict(&self, class: &Class, inner: &mut Inner, magazine: &mut Magazine, wanted: usize) -> bool {
        let keyspace = self.keyspace(inner.chunks.info().keyspace);
        let Inner { chunks, policy, .. } = inner;
        let view = View::with_seed(self, chunks, self.hash_seed(keyspace)).asking(class.life.as_deref());
        // Where an embedder may keep items, more of them may stand in a row than are held
        // otherwise.
        let mut rounds = if class.life.is_some() { ROUNDS_ASKING } else { 1 };
        let mut looks = 0;
        let chosen = |magazine: &Magazine| magazine.evicted.len() + magazine.ending.len();
        while chosen(magazine) < wanted && (looks < LOOKS_PER_BATCH || chosen(magazine) == 0) {
            let evicted = policy.evict(&view);
            looks += policy.looks();
            let Some(entry) = evicted else {
                if policy.is_unfinished() {
                    break;
                }
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
            // SAFETY: the item was claimed by the policy, and is no link, as none of those stays
            // claimed.
            let keyed = unsafe { view.keyed(ptr) };
            self.index.prefetch(keyed.hash());
            magazine.evicted.push(keyed);
        }
        chosen(magazine) == 0 && policy.is_unfinished()
    }

    /// Takes what was evicted out of the index.
    fn unlink_evicted(&self, class: &Class, magazine: &mut Magazine) {
        let (cause, plant) = (RemovalCause::Evicted, Plant::EvictedUnderAnother);
        self.unlink(class, (cause, plant), magazine.evicted.iter().copied());
        magazine.freed.extend(magazine.evicted.drain(..).map(Keyed::ptr));
    }

    /// Takes items that this thread has claimed out of the index, and counts them as gone for
    /// `cause`, those that were evicted when they were over as expired.
    fn unlink(
        &self,
        class: &Class,
        (cause, plant): (RemovalCause, Plant),
        claimed: impl Iterator<Item = Keyed>,
    ) {
        let space = self.keyspace(class.info.keyspace);
        let (now, mut gone, mut expired) = (self.now(), Gone::default(), Gone::default());
        let mut before = None;
        for keyed in claimed {
            let (ptr, hash) = (keyed.ptr(), keyed.hash());
            let another = before.replace(hash).filter(|_| self.strikes(plant));
            self.index.remove(another.unwrap_or(hash), ptr);
            self.check_unlinked(ptr);
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

    /// Takes items that this thread has claimed out of the index, counts them as gone for `cause`,
    /// and frees them.
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
        let keyed = claimed.iter().map(|ptr| unsafe { Keyed::of(self, *ptr) });
        let plant = match cause {
            RemovalCause::Expired => Plant::ExpiredUnderAnother,
            _ => Plant::ReleasedUnderAnother,
        };
        self.unlink(class, (cause, plant), keyed);
        self.free_evicted(class, claimed);
    }

    /// Takes an item out of the index that this thread has taken out of sight, with a reference,
    /// and gives that back.
    pub(crate) fn unlink_held(&self, ptr: ItemPtr, cause: RemovalCause) {
        if !self.strikes(Plant::FinishedStays) {
            // SAFETY: this thread holds a reference.
            self.index.remove(unsafe { self.hash_of_item(ptr) }, ptr);
        }
        self.retire(ptr, cause, false);
    }

    /// Checks, in builds with debug assertions, that no entry of the index leads to an item whose
    /// chunk this thread owns and is about to free. Whoever calls this holds no lock of the index
    /// and none of a class.
    #[inline]
    pub(crate) fn check_unlinked(&self, ptr: ItemPtr) {
        if cfg!(debug_assertions) && self.checks_ends() {
            // SAFETY: this thread owns the chunk.
            let entry = unsafe {
                (!self.arena.item(ptr).0.is_link()).then(|| self.index.contains(self.hash_of_item(ptr), ptr))
            };
            assert!(entry != Some(true), "the index leads to an item whose chunk is being freed");
        }
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
            // SAFETY: the item was in the index while this thread held the lock of the class,
            // without which no chunk that was freed since then is used again.
            if let Some(expiry) = unsafe { item.expiry() } {
                self.put_in_wheel(class, inner, entry, expiry.load(Ordering::Relaxed));
            }
        }
        let Inner { chunks, policy, .. } = inner;
        policy.tend(&View::new(self, chunks));
        for ptr in &magazine.freed {
            inner.dequeue(self, *ptr);
        }
    }

    /// Ends an item that is neither in the index nor held, and frees its chunk. The caller holds no
    /// lock.
    pub(crate) fn free(&self, ptr: ItemPtr) {
        let _using = self.pools.enter();
        // SAFETY: this thread uses the table of pools.
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
        class.stock.append(&self.pins, &mut magazine.freed);
        magazine.settle(&self.ledger);
        let target = class.stock.target();
        if class.stock.level() > 2 * target {
            let spare = class.stock.take_out(&self.pins, target);
            let mut inner = class.inner.lock();
            spare.into_iter().for_each(|ptr| inner.free(self, ptr));
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
        class.stock.append(&self.pins, &mut later);
        let mut inner = class.inner.lock();
        for ptr in now {
            inner.free(self, ptr);
        }
    }

    /// Queues an item that has just become visible, or was given an expiry, sooner or later. The
    /// caller holds a reference or protects the item.
    pub(crate) fn queue(&self, class: &Class, (ptr, item): (ItemPtr, Item<'_>), hash: u64) {
        let incarnation = item.state().incarnation();
        let mut magazine = class.magazines.mine(class).lock();
        // SAFETY: the caller holds a reference, or protects the item.
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
        let mut folded = Folded { chunks: class.stock.level(), is_complete: true };
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

    /// Gives the chunks of all magazines, and of the stock, back to the class; those that are still
    /// read stay. The caller holds no magazine.
    pub(crate) fn empty_magazines(&self, class: &Class) {
        for magazine in class.magazines.all() {
            let mut magazine: MutexGuard<'_, Magazine> = magazine.lock();
            let mut inner = class.inner.lock();
            self.fold(class, &mut inner, &mut magazine);
            for ptr in magazine.ready.drain(..) {
                inner.free(self, ptr);
            }
            inner.settle(self);
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

    /// A thread that has chosen the common magazine may put something into it when the class has
    /// already outgrown that.
    #[test]
    fn what_is_left_in_the_common_magazine_is_taken_over() {
        use crate::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig};
        let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        let put = |i: u32| {
            let item = cache.allocate(pool, &i.to_le_bytes(), 200, &ItemOptions::default()).expect("room");
            cache.put(item);
        };
        // So many that the class has outgrown it.
        (0..4_000).for_each(put);
        let core = cache.core();
        let held = cache.find(&7_u32.to_le_bytes()).expect("put");
        let pools = core.pools.all();
        let class =
            pools.iter().next().and_then(|pool| pool.used_class(held.class_number())).expect("in use");
        assert!(class.batch() > 1);
        core.fold_magazines(class);
        let (mut mine, mut common) = (class.magazines.mine(class).lock(), class.magazines.common.lock());
        // A chunk that is free, and an item that is to be queued.
        common.ready.extend(mine.ready.pop());
        assert!(core.arena.item(held.ptr()).0.state().dequeue());
        let mut inner = class.inner.lock();
        let Inner { chunks, policy, .. } = &mut *inner;
        let (bits, view) = (core.arena.item(held.ptr()).0.state().policy(), View::new(core, chunks));
        policy.removed(bits, &view, || unreachable!("no conversion is under way"));
        drop(inner);
        let incarnation = core.arena.item(held.ptr()).0.state().incarnation();
        common.pending.push(Pending { ptr: held.ptr(), incarnation, fingerprint: 0 });
        drop((mine, common));
        (100..1_000).for_each(put);
        assert!(core.arena.item(held.ptr()).0.state().is_queued());
        assert!(class.magazines.common.lock().ready.is_empty());
        drop(held);
        cache.validate();
    }

    /// The thread that uses a magazine may wait for a processor, which takes seconds beside a
    /// thousand others.
    #[test]
    fn a_round_waits_for_no_magazine_in_use() {
        use std::sync::mpsc;
        use std::time::Duration;

        use crate::{Cache, CacheConfig, Expiry, ItemOptions, PoolConfig};
        let clock = base::Clock::manual(1_000_000);
        let cache = Cache::new(CacheConfig { clock, ..CacheConfig::default() }).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        let options = ItemOptions { expiry: Expiry::After(5), ..ItemOptions::default() };
        let item = cache.allocate(pool, b"key", 100, &options).expect("memory");
        cache.put(item);
        let core = cache.core();
        let pools = core.pools.all();
        let (_, class) = pools.iter().next().and_then(|pool| pool.used_classes().next()).expect("in use");
        let in_use = class.magazines.mine(class).lock();
        cache.clock().advance(Duration::from_secs(10));
        base::thread::scope(|threads| {
            let (done, is_done) = mpsc::channel();
            let cache = &cache;
            let round = move || {
                let classes = cache.pool_stats(pool).expect("it is there").classes.len();
                done.send((cache.maintain().is_ok(), cache.rebalance().len(), classes)).expect("waited for");
            };
            base::thread::spawn_in(threads, "round", round).expect("a thread");
            let round = is_done.recv_timeout(Duration::from_secs(60));
            drop(in_use);
            assert_eq!(round, Ok((true, 0, 1)));
        });
        assert_eq!(cache.stats().index_entries, 0, "what is in the wheel is reaped");
        assert!(class.take_due(0), "the next round looks for what the magazine may have");
        cache.validate();
    }

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
