//! A size class of a pool: its chunks and its policy behind one lock.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use base::counter::Counters;
use base::hash::key_hash;
use base::{Ledger, Part};
use evict::{Claim, Entry, HitRule, Items, Policy, PolicyKind};
use parking_lot::Mutex;
use slab::{ChunkNumber, Chunks, Item, ItemPtr, SlabId, SlabInfo, Withheld};

use crate::cache::Core;
use crate::life::{Life, RemovalCause};
use crate::magazine::{Magazines, batch_for};
use crate::wheel::Wheel;

/// Counters of a class.
pub(crate) const HITS: usize = 0;
pub(crate) const INSERTS: usize = 1;
pub(crate) const EVICTIONS: usize = 2;
pub(crate) const EXPIRED: usize = 3;
pub(crate) const REMOVED: usize = 4;
pub(crate) const REPLACED: usize = 5;
pub(crate) const ALLOCATION_FAILURES: usize = 6;
/// Bytes of items ever put in and ever taken out of the queue, header included.
pub(crate) const BYTES_IN: usize = 7;
pub(crate) const BYTES_OUT: usize = 8;
/// Links ever put into a chain and ever taken out of one.
pub(crate) const LINKS_IN: usize = 9;
pub(crate) const LINKS_OUT: usize = 10;

/// A size class of a pool.
pub(crate) struct Class {
    /// What its slabs are marked with.
    pub(crate) info: SlabInfo,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) rule: HitRule,
    pub(crate) counters: Counters<11>,
    pub(crate) magazines: Magazines,
    /// Who is told of its items' ends.
    pub(crate) life: Option<Arc<Life>>,
    /// How many chunks a thread takes at once, from the chunks of the class and the threads that have a magazine.
    batch: AtomicU32,
    chunks: AtomicU64,
    threads: AtomicU32,
    /// The slab that is being emptied; [`NO_SLAB`] = none.
    leaving: AtomicU32,
}

const NO_SLAB: u32 = u32::MAX;

/// What the lock of a class protects.
pub(crate) struct Inner {
    pub(crate) chunks: Chunks,
    pub(crate) policy: Policy,
    /// When items expire.
    pub(crate) wheel: Wheel,
    /// The free chunks of a slab that is being emptied.
    pub(crate) leaving: Option<Withheld>,
    queue_bytes: usize,
    ghost_bytes: usize,
}

impl Class {
    pub(crate) fn new(info: SlabInfo, policy: PolicyKind, life: Option<Arc<Life>>, now: u32) -> Self {
        let mut policy = Policy::new(policy, now);
        policy.set_tail_items(info.chunks_per_slab() as usize);
        Self {
            info,
            rule: policy.hit_rule(),
            inner: Mutex::new(Inner {
                chunks: Chunks::new(info),
                policy,
                wheel: Wheel::new(now),
                leaving: None,
                queue_bytes: 0,
                ghost_bytes: 0,
            }),
            counters: Counters::default(),
            magazines: Magazines::default(),
            life,
            batch: AtomicU32::new(1),
            chunks: AtomicU64::new(0),
            threads: AtomicU32::new(0),
            leaving: AtomicU32::new(NO_SLAB),
        }
    }

    /// How many chunks a thread takes at once.
    #[inline]
    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Ordering::Relaxed)
    }

    fn set_batch(&self) {
        let (chunks, threads) = (self.chunks.load(Ordering::Relaxed), self.threads.load(Ordering::Relaxed));
        self.batch.store(batch_for(chunks, threads), Ordering::Relaxed);
    }

    /// Notes how many slabs the class has now.
    pub(crate) fn note_slabs(&self, inner: &Inner) {
        let per_slab = u64::from(inner.chunks.info().chunks_per_slab());
        self.chunks.store(inner.chunks.slab_count() as u64 * per_slab, Ordering::Relaxed);
        self.set_batch();
    }

    /// Notes that one more thread has a magazine.
    pub(crate) fn note_magazine(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.set_batch();
    }

    /// The slab that is being emptied.
    #[inline]
    pub(crate) fn leaving_slab(&self) -> Option<SlabId> {
        let slab = self.leaving.load(Ordering::Relaxed);
        (slab != NO_SLAB).then_some(SlabId(slab as u16))
    }

    /// Says which slab is being emptied. Magazines that are locked from now on know of it.
    pub(crate) fn set_leaving(&self, inner: &mut Inner, withheld: Option<Withheld>) -> Option<Withheld> {
        let slab = withheld.as_ref().map_or(NO_SLAB, |withheld| withheld.slab().0.into());
        self.leaving.store(slab, Ordering::Relaxed);
        std::mem::replace(&mut inner.leaving, withheld)
    }

    /// Takes all that the class has been charged for off the bill: nobody uses it any more.
    pub(crate) fn end_bill(&self, ledger: &Ledger) {
        let inner = self.inner.lock();
        ledger.release(Part::Queues, inner.queue_bytes as u64);
        ledger.release(Part::Ghosts, inner.ghost_bytes as u64);
        ledger.release(Part::Fixed, size_of::<Self>() as u64 + self.magazines.bytes());
    }

    /// How many items are in the index; exact when nobody changes that.
    pub(crate) fn items(&self) -> u64 {
        let gone = [EVICTIONS, EXPIRED, REMOVED, REPLACED].iter().map(|counter| self.counters.sum(*counter));
        self.counters.sum(INSERTS).saturating_sub(gone.sum())
    }

    /// How many links are in a chain.
    pub(crate) fn links(&self) -> u64 {
        self.counters.sum(LINKS_IN).saturating_sub(self.counters.sum(LINKS_OUT))
    }

    /// Counts items that are gone for `cause`, and their bytes.
    pub(crate) fn count_gone(&self, cause: RemovalCause, items: u64, bytes: u64) {
        if items > 0 {
            self.counters.add(cause.counter(), items);
            self.counters.add(BYTES_OUT, bytes);
        }
    }
}

impl Inner {
    /// Gives a chunk back that nobody uses.
    pub(crate) fn free(&mut self, core: &Core, ptr: ItemPtr) {
        match &mut self.leaving {
            Some(leaving) if leaving.slab() == ptr.slab() => leaving.push(ptr),
            _ => self.chunks.push(&core.arena, ptr),
        }
    }

    /// Takes an item that left the index out of the queue, if it is in.
    pub(crate) fn dequeue(&mut self, core: &Core, ptr: ItemPtr) {
        let state = core.arena.item(ptr).0.state();
        if state.dequeue() {
            self.policy.removed(state.policy(), &View::new(core, &self.chunks));
        }
    }

    /// Claims an item that nobody holds and takes it out of the queue, if it is in. Says what its policy bits were. The
    /// caller owns the chunk then, and the index still has the item.
    pub(crate) fn claim(&mut self, core: &Core, ptr: ItemPtr) -> Result<u8, slab::item::Claim> {
        let state = core.arena.item(ptr).0.state();
        let (queued, bits) = (state.is_queued(), state.policy());
        match state.claim() {
            slab::item::Claim::Taken => {
                if queued {
                    self.policy.removed(bits, &View::new(core, &self.chunks));
                }
                Ok(bits)
            }
            refused => Err(refused),
        }
    }

    /// Queues an item that was queued before, by this process or another, with these policy bits. The caller holds a
    /// reference, or the item is in the index. Its entry, unless it has left or is queued.
    pub(crate) fn queue_again(
        &mut self,
        core: &Core,
        ptr: ItemPtr,
        bits: u8,
        hash: u64,
        now: u32,
    ) -> Option<Entry> {
        let state = core.arena.item(ptr).0.state();
        let bits = self.policy.readmit(bits, fingerprint(hash));
        state.enqueue(bits, |bits, _| bits)?;
        let entry = Entry(self.chunks.number(&core.arena, ptr).0);
        self.policy.push(entry, bits, now);
        Some(entry)
    }

    /// Brings the bill for queues and ghosts up to date.
    pub(crate) fn settle(&mut self, ledger: &Ledger) {
        let queues = self.policy.queue_bytes() + self.wheel.bytes();
        let ghosts = self.policy.ghost_bytes();
        for (part, before, after) in
            [(Part::Queues, &mut self.queue_bytes, queues), (Part::Ghosts, &mut self.ghost_bytes, ghosts)]
        {
            if after > *before {
                ledger.charge(part, (after - *before) as u64);
            } else if after < *before {
                ledger.release(part, (*before - after) as u64);
            }
            *before = after;
        }
    }
}

/// What a policy sees of the items of a class whose lock is held.
pub(crate) struct View<'a> {
    core: &'a Core,
    pub(crate) chunks: &'a Chunks,
    /// Seed of the key hash in this key space.
    seed: u64,
    /// Who may keep items from being evicted.
    life: Option<&'a Life>,
    /// The hash of the key that was last asked for.
    pub(crate) hash: Cell<Option<u64>>,
}

impl<'a> View<'a> {
    /// One for what neither asks for fingerprints nor evicts.
    pub(crate) fn new(core: &'a Core, chunks: &'a Chunks) -> Self {
        Self::with_seed(core, chunks, 0)
    }

    pub(crate) fn with_seed(core: &'a Core, chunks: &'a Chunks, seed: u64) -> Self {
        Self { core, chunks, seed, life: None, hash: Cell::new(None) }
    }

    /// Asks before an item is claimed.
    pub(crate) fn asking(self, life: Option<&'a Life>) -> Self {
        Self { life, ..self }
    }

    #[inline]
    fn resolve(&self, entry: Entry) -> Option<(ItemPtr, Item<'a>)> {
        self.chunks.resolve(&self.core.arena, ChunkNumber(entry.0))
    }
}

impl Items for View<'_> {
    #[inline]
    fn bits(&self, entry: Entry) -> Option<u8> {
        let (_, item) = self.resolve(entry)?;
        item.state().is_queued().then(|| item.state().policy())
    }

    #[inline]
    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if let Some((_, item)) = self.resolve(entry) {
            item.state().set_policy(mask, value);
        }
    }

    #[inline]
    fn claim(&self, entry: Entry) -> Claim {
        let Some((ptr, item)) = self.resolve(entry) else { return Claim::Gone };
        // SAFETY: the item is queued and this thread holds the lock of the class, without which no chunk that was freed
        // since it was queued is used again.
        let claimed = unsafe {
            if item.is_link() {
                let claimed = self.core.claim_by_link(item, self.life);
                if claimed == slab::item::Claim::Taken {
                    item.state().dequeue();
                }
                claimed
            } else if self.life.is_some_and(|life| !self.core.may_evict(life, ptr)) {
                slab::item::Claim::Held
            } else {
                item.state().claim()
            }
        };
        match claimed {
            slab::item::Claim::Taken => Claim::Taken,
            slab::item::Claim::Held => Claim::Held,
            slab::item::Claim::Gone => {
                // Whoever removed it finds that it is not queued any more.
                item.state().dequeue();
                Claim::Gone
            }
        }
    }

    #[inline]
    fn fingerprint(&self, entry: Entry) -> u32 {
        let Some((_, item)) = self.resolve(entry) else { return 0 };
        // SAFETY: the item is queued, or was claimed a moment ago, and this thread holds the lock of the class, without which
        // no chunk that was freed since it was queued is used again.
        unsafe {
            if item.is_link() {
                return item.link_tag();
            }
            let hash = key_hash(self.seed, item.key());
            self.hash.set(Some(hash));
            fingerprint(hash)
        }
    }

    #[inline]
    fn prefetch(&self, entry: Entry) {
        if let Some(ptr) = self.chunks.locate(ChunkNumber(entry.0)) {
            self.core.arena.item(ptr).0.prefetch();
        }
    }
}

/// The bits of a key's hash that the ghost queue knows it by: neither those that choose its bucket alone nor its tag.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u32 {
    (hash >> 16) as u32
}
