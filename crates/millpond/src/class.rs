//! A size class of a pool: its chunks and its policy behind one lock.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::counter::Counters;
use base::hash::key_hash;
use base::pin::Stock;
use base::{Ledger, Part};
use evict::{Claim, Entry, HitRule, Items, MAX_QUEUES, Policy, PolicyKind};
use parking_lot::Mutex;
use slab::run::{UNIT_BYTES, least_units};
use slab::{ChunkNumber, Chunks, Item, ItemPtr, Run, RunId, SlabInfo, Withheld};

use crate::cache::Core;
use crate::life::{Life, RemovalCause};
use crate::magazine::{Magazines, batch_for, stock_for};
use crate::upkeep::Upkeep;
use crate::wheel::Wheel;

/// Counters of a class. Hits have one for each queue of the policy, from this one on.
pub(crate) const HITS: usize = 0;
pub(crate) const INSERTS: usize = MAX_QUEUES;
pub(crate) const EVICTIONS: usize = INSERTS + 1;
pub(crate) const EXPIRED: usize = INSERTS + 2;
pub(crate) const REMOVED: usize = INSERTS + 3;
pub(crate) const REPLACED: usize = INSERTS + 4;
pub(crate) const ALLOCATION_FAILURES: usize = INSERTS + 5;
/// Bytes of items ever put in and ever taken out of the queue, header included.
pub(crate) const BYTES_IN: usize = INSERTS + 6;
pub(crate) const BYTES_OUT: usize = INSERTS + 7;
/// Links ever put into a chain and ever taken out of one.
pub(crate) const LINKS_IN: usize = INSERTS + 8;
pub(crate) const LINKS_OUT: usize = INSERTS + 9;
pub(crate) const ALLOCATIONS: usize = INSERTS + 10;
/// Of evicted items: those never found, those that would have expired, and the sum of the times
/// since they were made.
pub(crate) const EVICTED_UNREAD: usize = INSERTS + 11;
pub(crate) const EVICTED_EXPIRING: usize = INSERTS + 12;
pub(crate) const EVICTED_AGE_SECS: usize = INSERTS + 13;
/// Of expired items: those never found, and those that nobody came upon.
pub(crate) const EXPIRED_UNREAD: usize = INSERTS + 14;
pub(crate) const REAPED: usize = INSERTS + 15;
/// Items of slabs that left: those that were moved, and those that were evicted.
pub(crate) const MOVED: usize = INSERTS + 16;
pub(crate) const MOVE_EVICTIONS: usize = INSERTS + 17;
/// Runs that came, that left, and that could not be emptied.
pub(crate) const RUNS_ADDED: usize = INSERTS + 18;
pub(crate) const RUNS_RELEASED: usize = INSERTS + 19;
pub(crate) const RELEASES_ABORTED: usize = INSERTS + 20;
/// Items that came from another class of the pool, or went to one, when chunk sizes changed.
pub(crate) const MOVED_IN: usize = INSERTS + 21;
pub(crate) const MOVED_OUT: usize = INSERTS + 22;
/// Of expired items, those that were flushed.
pub(crate) const FLUSHED: usize = INSERTS + 23;
/// Of evicted items, those that were while a slab of the class was on its way elsewhere, and while
/// one was for a lower limit.
pub(crate) const SHIFT_EVICTIONS: usize = INSERTS + 24;
pub(crate) const LIMIT_EVICTIONS: usize = INSERTS + 25;
const COUNTERS: usize = INSERTS + 26;

/// A size class of a pool.
pub(crate) struct Class {
    /// What its slabs are marked with.
    pub(crate) info: SlabInfo,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) rule: HitRule,
    pub(crate) counters: Counters<COUNTERS>,
    /// What the hits of each queue were when the policy was last changed.
    hits_before: [AtomicU64; MAX_QUEUES],
    /// For how long the item that was evicted last had not been used, in seconds; where that is not
    /// known, since it was made.
    last_idle_secs: AtomicU32,
    pub(crate) magazines: Magazines,
    pub(crate) stock: Stock<ItemPtr>,
    /// Who is told of its items' ends.
    pub(crate) life: Option<Arc<Life>>,
    /// How many chunks a thread takes at once, from the chunks of the class and the threads that
    /// have a magazine.
    batch: AtomicU32,
    chunks: AtomicU64,
    threads: AtomicU32,
    /// The run that is being emptied: its name, and its units below; [`NO_RUN`] = none.
    leaving: AtomicU64,
    /// When something of it may be due, as [`Upkeep`] says; and what of its pool is.
    reap_at: AtomicU32,
    pub(crate) upkeep: Arc<Upkeep>,
    /// What it was charged for besides queues and ghosts, in bytes.
    fixed_bytes: AtomicU64,
    /// The place among its runs from which on one to release is looked for.
    pub(crate) release_from: AtomicU32,
    /// Whether it is among those that have no run, or had none a while ago ([`crate::idle`]).
    pub(crate) is_noted_idle: AtomicBool,
    /// Whether it had to evict while it has less than its share, or while memory lies idle
    /// ([`Core::feed`]).
    pub(crate) is_starved: AtomicBool,
}

const NO_RUN: u64 = 0;

const _: () = assert!(evict::PLACE_BITS == ChunkNumber::BITS, "an entry's place is a chunk's number");

/// What the lock of a class protects.
pub(crate) struct Inner {
    pub(crate) chunks: Chunks,
    pub(crate) policy: Policy,
    /// When items expire, once one of them does.
    pub(crate) wheel: Option<Box<Wheel>>,
    /// The free chunks of a run that is being emptied.
    pub(crate) leaving: Option<Withheld>,
    /// Whether the class has left its pool, and takes no run any more ([`crate::idle`]).
    pub(crate) is_gone: bool,
    queue_bytes: usize,
    ghost_bytes: usize,
    /// Memory of the policy per item at most, in hundredths of a byte, and what it takes without
    /// items, in bytes.
    rate_x100: u64,
    base_bytes: usize,
    /// What queues and ghosts will yet take when all chunks are in use, as counted in
    /// [`Core::awaited_bytes`].
    awaited: u64,
}

impl Class {
    pub(crate) fn new(
        info: SlabInfo,
        policy: PolicyKind,
        life: Option<Arc<Life>>,
        upkeep: Arc<Upkeep>,
        now: u32,
    ) -> Self {
        let rate_x100 = policy.bytes_per_item_x100();
        let mut policy = Policy::new(policy, now);
        policy.set_tail_items(info.chunks_per_slab() as usize);
        Self {
            info,
            rule: policy.hit_rule(),
            inner: Mutex::new(Inner {
                chunks: Chunks::new(info),
                base_bytes: policy.queue_bytes() + policy.ghost_bytes(),
                policy,
                wheel: None,
                leaving: None,
                is_gone: false,
                queue_bytes: 0,
                ghost_bytes: 0,
                rate_x100,
                awaited: 0,
            }),
            counters: Counters::default(),
            hits_before: Default::default(),
            last_idle_secs: AtomicU32::new(0),
            magazines: Magazines::default(),
            stock: Stock::new(stock_for(0)),
            life,
            batch: AtomicU32::new(1),
            chunks: AtomicU64::new(0),
            threads: AtomicU32::new(0),
            leaving: AtomicU64::new(NO_RUN),
            release_from: AtomicU32::new(0),
            is_noted_idle: AtomicBool::new(false),
            is_starved: AtomicBool::new(false),
            reap_at: AtomicU32::new(u32::MAX),
            upkeep,
            fixed_bytes: AtomicU64::new(0),
        }
    }

    /// Memory that a class takes besides its chunks and what its items need, with one thread, in
    /// bytes.
    pub(crate) fn bytes_with(policy: PolicyKind) -> u64 {
        let policy = Policy::new(policy, 0);
        let magazines = size_of::<[u64; COUNTERS]>() + size_of::<Magazines>();
        (size_of::<Self>() + policy.queue_bytes() + policy.ghost_bytes() + magazines) as u64
    }

    /// Memory of the shortest run that it can have, in bytes.
    pub(crate) fn least_bytes(&self) -> u64 {
        u64::from(least_units(self.info.chunk_bytes)) * UNIT_BYTES as u64
    }

    /// How many chunks a thread takes at once.
    #[inline]
    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Ordering::Relaxed)
    }

    fn set_batch(&self) {
        let (chunks, threads) = (self.chunks.load(Ordering::Relaxed), self.threads.load(Ordering::Relaxed));
        self.batch.store(batch_for(chunks, threads), Ordering::Relaxed);
        self.stock.set_target(stock_for(chunks));
    }

    /// Notes how many chunks the class has now.
    pub(crate) fn note_chunks(&self, inner: &Inner) {
        self.chunks.store(inner.chunks.chunks(), Ordering::Relaxed);
        self.set_batch();
    }

    /// Notes that one more thread has a magazine.
    pub(crate) fn note_magazine(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.set_batch();
    }

    /// Something in its wheel is due at that second, or an item that expires waits in a magazine
    /// (0).
    pub(crate) fn note_due(&self, at: u32) {
        if at < self.reap_at.load(Ordering::Relaxed) {
            self.reap_at.fetch_min(at, Ordering::Relaxed);
            self.upkeep.note_due(at);
        }
    }

    /// Whether something may be due. If so, whoever asks looks, and says when the next is due; else
    /// the pool is told when that is.
    pub(crate) fn take_due(&self, now: u32) -> bool {
        let at = self.reap_at.load(Ordering::Relaxed);
        if at > now {
            self.upkeep.note_due(at);
            return false;
        }
        self.reap_at.store(u32::MAX, Ordering::Relaxed);
        true
    }

    /// Brings the bill up to date for what it takes besides queues, ghosts, and what magazines
    /// hold.
    pub(crate) fn settle_fixed(&self, ledger: &Ledger) {
        let bytes = size_of::<Self>() + self.counters.bytes() + self.stock.bytes() + self.magazines.bytes();
        let before = self.fixed_bytes.swap(bytes as u64, Ordering::Relaxed);
        adjust(ledger, Part::Fixed, before, bytes as u64);
    }

    /// The run that is being emptied.
    #[inline]
    pub(crate) fn leaving_run(&self) -> Option<Run> {
        let bits = self.leaving.load(Ordering::Relaxed);
        (bits != NO_RUN).then(|| Run { id: RunId::from_bits((bits >> 32) as u32), units: bits as u32 })
    }

    /// Says which run is being emptied. Magazines that are locked from now on know of it.
    pub(crate) fn set_leaving(&self, inner: &mut Inner, withheld: Option<Withheld>) -> Option<Withheld> {
        let bits = withheld.as_ref().map_or(NO_RUN, |withheld| {
            let run = withheld.run();
            u64::from(run.id.to_bits()) << 32 | u64::from(run.units)
        });
        self.leaving.store(bits, Ordering::Relaxed);
        std::mem::replace(&mut inner.leaving, withheld)
    }

    /// What it has been charged for, in bytes.
    pub(crate) fn billed_bytes(&self) -> u64 {
        let inner = self.inner.lock();
        (inner.queue_bytes + inner.ghost_bytes) as u64 + self.fixed_bytes.load(Ordering::Relaxed)
    }

    /// Takes all that the class has been charged for off the bill: nobody uses it any more.
    pub(crate) fn end_bill(&self, core: &Core) {
        let ledger = &core.ledger;
        let mut inner = self.inner.lock();
        core.awaited_bytes.fetch_sub(std::mem::take(&mut inner.awaited), Ordering::Relaxed);
        ledger.release(Part::Queues, std::mem::take(&mut inner.queue_bytes) as u64);
        ledger.release(Part::Ghosts, std::mem::take(&mut inner.ghost_bytes) as u64);
        drop(inner);
        ledger.release(Part::Fixed, self.fixed_bytes.swap(0, Ordering::Relaxed));
        self.magazines.end_bill(ledger);
    }

    /// How many items are in the index; exact when nobody changes that.
    pub(crate) fn items(&self) -> u64 {
        let sum =
            |counters: &[usize]| counters.iter().map(|counter| self.counters.sum(*counter)).sum::<u64>();
        sum(&[INSERTS, MOVED_IN]).saturating_sub(sum(&[EVICTIONS, EXPIRED, REMOVED, REPLACED, MOVED_OUT]))
    }

    /// How many links are in a chain.
    pub(crate) fn links(&self) -> u64 {
        self.counters.sum(LINKS_IN).saturating_sub(self.counters.sum(LINKS_OUT))
    }

    /// Finds that found something.
    pub(crate) fn hits(&self) -> u64 {
        (HITS..HITS + MAX_QUEUES).map(|queue| self.counters.sum(queue)).sum()
    }

    /// Those of the queue with this number, since the policy was last changed.
    pub(crate) fn hits_of_queue(&self, queue: usize) -> u64 {
        self.counters.sum(HITS + queue).saturating_sub(self.hits_before[queue].load(Ordering::Relaxed))
    }

    /// Lets the hits of queues count from now on.
    pub(crate) fn begin_hits_of_queues(&self) {
        for (queue, before) in self.hits_before.iter().enumerate() {
            before.store(self.counters.sum(HITS + queue), Ordering::Relaxed);
        }
    }

    /// For how long the item that was evicted last had not been used, in seconds.
    pub(crate) fn last_idle_secs(&self) -> u32 {
        self.last_idle_secs.load(Ordering::Relaxed)
    }

    /// Counts items that are gone for `cause`.
    pub(crate) fn count_gone(&self, cause: RemovalCause, gone: &Gone) {
        if gone.items == 0 {
            return;
        }
        self.counters.add(cause.counter(), gone.items);
        self.counters.add(BYTES_OUT, gone.bytes);
        if cause == RemovalCause::Evicted {
            self.counters.add(EVICTED_UNREAD, gone.unread);
            self.counters.add(EVICTED_EXPIRING, gone.expiring);
            self.counters.add(EVICTED_AGE_SECS, gone.age_secs);
            self.last_idle_secs.store(gone.last_idle_secs, Ordering::Relaxed);
        } else if cause == RemovalCause::Expired {
            self.counters.add(EXPIRED_UNREAD, gone.unread);
            self.counters.add(FLUSHED, gone.in_time);
        }
    }
}

/// What is known of items that are gone.
#[derive(Default)]
pub(crate) struct Gone {
    items: u64,
    bytes: u64,
    unread: u64,
    expiring: u64,
    /// Whose time had not come.
    in_time: u64,
    age_secs: u64,
    last_idle_secs: u32,
}

impl Gone {
    /// One more.
    ///
    /// # Safety
    /// As for [`slab::Item::key`].
    pub(crate) unsafe fn add(&mut self, item: Item<'_>, now: u32) {
        // SAFETY: passed on.
        let (bytes, created, expiry, used) =
            unsafe { (item.used_bytes(), item.created(), item.expiry(), item.last_access()) };
        self.items += 1;
        self.bytes += bytes as u64;
        self.unread += u64::from(!item.state().is_fetched());
        let expiry = expiry.map_or(0, |time| time.load(Ordering::Relaxed));
        self.expiring += u64::from(expiry != 0);
        self.in_time += u64::from(expiry == 0 || expiry > now);
        self.age_secs += u64::from(now.saturating_sub(created));
        self.last_idle_secs = now.saturating_sub(used.map_or(created, |time| time.load(Ordering::Relaxed)));
    }
}

impl Inner {
    /// Gives a chunk back that nobody uses.
    pub(crate) fn free(&mut self, core: &Core, ptr: ItemPtr) {
        match &mut self.leaving {
            Some(leaving) if leaving.run().has(ptr) => leaving.push(ptr),
            _ => self.chunks.push(&core.arena, ptr),
        }
    }

    /// Takes an item that left the index out of the queue, if it is in.
    pub(crate) fn dequeue(&mut self, core: &Core, ptr: ItemPtr) {
        let state = core.arena.item(ptr).0.state();
        if state.dequeue() {
            self.forget_queued(core, ptr, state.policy());
        }
    }

    /// Notes that an item, which had these policy bits, is no longer queued.
    fn forget_queued(&mut self, core: &Core, ptr: ItemPtr, bits: u8) {
        let entry = || Entry(self.chunks.number(&core.arena, ptr).0);
        self.policy.removed(bits, &View::new(core, &self.chunks), entry);
    }

    /// Claims an item that nobody holds and takes it out of the queue, if it is in. Says what its
    /// policy bits were. The caller owns the chunk then, and the index still has the item.
    pub(crate) fn claim(&mut self, core: &Core, ptr: ItemPtr) -> Result<u8, slab::item::Claim> {
        let state = core.arena.item(ptr).0.state();
        let (queued, bits) = (state.is_queued(), state.policy());
        match state.claim() {
            slab::item::Claim::Taken => {
                if queued {
                    self.forget_queued(core, ptr, bits);
                }
                Ok(bits)
            }
            refused => Err(refused),
        }
    }

    /// Queues an item that was queued before, by this process or another, with these policy bits.
    /// The caller holds a reference, or the item is in the index. Its entry, unless it has left or
    /// is queued.
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

    /// Memory of the wheel, in bytes.
    pub(crate) fn wheel_bytes(&self) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| size_of::<Wheel>() + wheel.bytes())
    }

    /// Notes that it goes by another policy now.
    pub(crate) fn set_rate(&mut self, policy: PolicyKind, now: u32) {
        let empty = Policy::new(policy, now);
        self.rate_x100 = policy.bytes_per_item_x100();
        self.base_bytes = empty.queue_bytes() + empty.ghost_bytes();
    }

    /// Brings the bill for queues and ghosts up to date, and what is expected to come to that.
    pub(crate) fn settle(&mut self, core: &Core) {
        let ledger = &core.ledger;
        let queues = self.policy.queue_bytes() + self.wheel_bytes();
        let ghosts = self.policy.ghost_bytes();
        for (part, before, after) in
            [(Part::Queues, &mut self.queue_bytes, queues), (Part::Ghosts, &mut self.ghost_bytes, ghosts)]
        {
            adjust(ledger, part, *before as u64, after as u64);
            *before = after;
        }
        let spent = (self.policy.queue_bytes() + ghosts).saturating_sub(self.base_bytes) as u64;
        let awaited = (self.chunks.chunks() * self.rate_x100).div_ceil(100).saturating_sub(spent);
        if awaited != self.awaited {
            // The sum wraps around if it becomes less.
            core.awaited_bytes.fetch_add(awaited.wrapping_sub(self.awaited), Ordering::Relaxed);
            self.awaited = awaited;
        }
    }
}

/// Changes what was charged from `before` to `after` bytes.
pub(crate) fn adjust(ledger: &Ledger, part: Part, before: u64, after: u64) {
    if after > before {
        ledger.charge(part, after - before);
    } else if after < before {
        ledger.release(part, before - after);
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
    /// The item whose fingerprint was last asked for.
    asked: Cell<Option<Keyed>>,
}

/// An item with the hash of its key, under which the index has it. Only the hash of that very item
/// is ever put beside its pointer, so that no item is unlinked under the hash of another.
#[derive(Clone, Copy)]
pub(crate) struct Keyed {
    ptr: ItemPtr,
    hash: u64,
}

impl Keyed {
    /// # Safety
    /// As for [`Core::hash_of_item`]; and as long as the result is used, the chunk holds no other
    /// item.
    pub(crate) unsafe fn of(core: &Core, ptr: ItemPtr) -> Self {
        // SAFETY: passed on.
        Self { ptr, hash: unsafe { core.hash_of_item(ptr) } }
    }

    pub(crate) fn ptr(self) -> ItemPtr {
        self.ptr
    }

    pub(crate) fn hash(self) -> u64 {
        self.hash
    }
}

impl<'a> View<'a> {
    /// One for what neither asks for fingerprints nor evicts.
    pub(crate) fn new(core: &'a Core, chunks: &'a Chunks) -> Self {
        Self::with_seed(core, chunks, 0)
    }

    pub(crate) fn with_seed(core: &'a Core, chunks: &'a Chunks, seed: u64) -> Self {
        Self { core, chunks, seed, life: None, asked: Cell::new(None) }
    }

    /// Asks before an item is claimed.
    pub(crate) fn asking(self, life: Option<&'a Life>) -> Self {
        Self { life, ..self }
    }

    /// An item that was claimed through this view, with its hash: that which the policy has asked
    /// for, if it asked for this item last.
    ///
    /// # Safety
    /// The item in the chunk was claimed through this view, and is no link.
    pub(crate) unsafe fn keyed(&self, ptr: ItemPtr) -> Keyed {
        // SAFETY: the claim makes the chunk the caller's, and no chunk is used again for as long as
        // the view is there.
        self.asked
            .take()
            .filter(|asked| asked.ptr == ptr)
            .unwrap_or_else(|| unsafe { Keyed::of(self.core, ptr) })
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
        // SAFETY: the item is queued and this thread holds the lock of the class, without which no
        // chunk that was freed since it was queued is used again.
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
        let Some((ptr, item)) = self.resolve(entry) else { return 0 };
        // SAFETY: the item is queued, or was claimed a moment ago, and this thread holds the lock
        // of the class, without which no chunk that was freed since it was queued is used again.
        unsafe {
            if item.is_link() {
                return item.link_tag();
            }
            let hash = key_hash(self.seed, item.key());
            self.asked.set(Some(Keyed { ptr, hash }));
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

/// The bits of a key's hash that the ghost queue knows it by: neither those that choose its bucket
/// alone nor its tag.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u32 {
    (hash >> 16) as u32
}
