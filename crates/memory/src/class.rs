//! A size class of a pool: its chunks and its policy behind one lock.
//!
//! `inner` works under the lock, `view` shows the items to the policy, and `counters` has the names
//! and sums of statistics.

mod counters;
mod inner;
mod view;

pub(crate) use counters::*;
pub(crate) use view::{Keyed, View};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::counter::Counters;
use base::pin::RetireList;
use base::{Ledger, Part};
use evict::{HitRule, MAX_QUEUES, Policy, PolicyKind};
use parking_lot::Mutex;
use slab::run::{UNIT_BYTES, least_units};
use slab::{ChunkNumber, Chunks, ItemPtr, Run, RunId, SLAB_BYTES, SlabInfo, Withheld};

use crate::cache::Core;
use crate::lifecycle::{Hooks, RemovalCause};
use crate::magazine::{Magazines, batch_for, retired_for};
use crate::upkeep::Upkeep;
use crate::wheel::Wheel;

/// A size class of a pool.
pub(crate) struct Class {
    /// The mark of its slabs.
    pub(crate) info: SlabInfo,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) rule: HitRule,
    pub(crate) counters: Counters<COUNTERS>,
    /// The hits of each queue when the policy was last changed.
    hits_before: [AtomicU64; MAX_QUEUES],
    /// For how long the item that was evicted last had not been used, in seconds; where that is not
    /// known, since it was made.
    last_idle_secs: AtomicU32,
    pub(crate) magazines: Magazines,
    pub(crate) retired: RetireList<ItemPtr>,
    /// Hooks that are called when its items end.
    pub(crate) hooks: Option<Arc<Hooks>>,
    /// Number of chunks that a thread takes at once, from the chunks of the class and the threads
    /// that have a magazine.
    batch: AtomicU32,
    chunks: AtomicU64,
    threads: AtomicU32,
    /// The run that is being emptied: its name, and its units below; [`NO_RUN`] = none.
    leaving: AtomicU64,
    /// The time at which something of it may be due, as [`Upkeep`] says; and the marks of its pool.
    reap_at: AtomicU32,
    pub(crate) upkeep: Arc<Upkeep>,
    /// Memory that it was charged for besides queues and ghosts, in bytes.
    fixed_bytes: AtomicU64,
    /// The place among its runs from which on one to release is looked for.
    pub(crate) release_from: AtomicU32,
    /// True if it is among those that have no run, or had none a while ago ([`crate::idle`]).
    pub(crate) is_noted_idle: AtomicBool,
    /// True if it had to evict while it has less than its share, or while memory lies idle
    /// ([`Core::feed`]).
    pub(crate) is_starved: AtomicBool,
    /// True if it has given out its last free chunk while others have vacant ones.
    pub(crate) is_used_up: AtomicBool,
    /// Memory of free chunks beyond those that it keeps, in bytes ([`crate::vacant`]).
    pub(crate) vacant_bytes: AtomicU64,
}

const NO_RUN: u64 = 0;

const _: () = assert!(evict::PLACE_BITS == ChunkNumber::BITS, "an entry's place is a chunk's number");

/// The part of a class that its lock protects.
pub(crate) struct Inner {
    pub(crate) chunks: Chunks,
    pub(crate) policy: Policy,
    /// The expiry times of its items, once one of them has one.
    pub(crate) wheel: Option<Box<Wheel>>,
    /// Chunks of the runs that it got since it last had no free one: it is about to use them
    /// ([`crate::vacant`]).
    pub(crate) filling: u64,
    /// The free chunks of a run that is being emptied.
    pub(crate) leaving: Option<Withheld>,
    /// True if the class has left its pool, and takes no run any more ([`crate::idle`]).
    pub(crate) is_gone: bool,
    queue_bytes: usize,
    ghost_bytes: usize,
    /// Memory of the policy per item at most, in hundredths of a byte, and what it takes without
    /// items, in bytes.
    rate_x100: u64,
    base_bytes: usize,
    /// Memory that queues and ghosts will yet take when all chunks are in use, as counted in
    /// [`Core::awaited_bytes`].
    awaited: u64,
}

impl Class {
    pub(crate) fn new(
        info: SlabInfo,
        mut policy: Policy,
        hooks: Option<Arc<Hooks>>,
        upkeep: Arc<Upkeep>,
    ) -> Self {
        let rate_x100 = policy.kind().bytes_per_item_x100();
        policy.set_tail_items(info.chunks_per_slab() as usize);
        Self {
            info,
            rule: policy.hit_rule(),
            inner: Mutex::new(Inner {
                chunks: Chunks::new(info),
                base_bytes: policy.queue_bytes() + policy.ghost_bytes(),
                policy,
                wheel: None,
                filling: 0,
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
            retired: RetireList::new(retired_for(0)),
            hooks,
            batch: AtomicU32::new(1),
            chunks: AtomicU64::new(0),
            threads: AtomicU32::new(0),
            leaving: AtomicU64::new(NO_RUN),
            release_from: AtomicU32::new(0),
            is_noted_idle: AtomicBool::new(false),
            is_starved: AtomicBool::new(false),
            is_used_up: AtomicBool::new(false),
            vacant_bytes: AtomicU64::new(0),
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

    /// The memory that leaves the class if about `bytes` of it are taken, in bytes. Not more than a
    /// slab is taken at a time, and nothing is shorter than a slab in a class of whole ones.
    pub(crate) fn would_give(&self, bytes: u64) -> u64 {
        if bytes >= SLAB_BYTES as u64 {
            return SLAB_BYTES as u64;
        }
        let inner = self.inner.lock();
        let runs = || inner.chunks.runs().map(Run::bytes);
        let shortest = runs().filter(|run| *run >= bytes).min();
        // Several that are shorter: less than twice as much.
        shortest.unwrap_or(bytes)
    }

    /// Returns the number of chunks that a thread takes at once.
    #[inline]
    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Ordering::Relaxed)
    }

    fn set_batch(&self) {
        let (chunks, threads) = (self.chunks.load(Ordering::Relaxed), self.threads.load(Ordering::Relaxed));
        self.batch.store(batch_for(chunks, threads), Ordering::Relaxed);
        self.retired.set_target(retired_for(chunks));
    }

    /// Notes how many chunks the class has now.
    pub(crate) fn note_chunks(&self, core: &Core, inner: &Inner) {
        self.chunks.store(inner.chunks.chunks(), Ordering::Relaxed);
        self.note_vacant(core, inner);
        self.set_batch();
    }

    /// Returns the number of chunks of the class.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
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

    /// Returns whether something may be due. If so, the caller looks, and says when the next is
    /// due; if not, this tells the pool when that is.
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
        let bytes = size_of::<Self>() + self.counters.bytes() + self.retired.bytes() + self.magazines.bytes();
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

    /// Returns the memory that it has been charged for, in bytes.
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

    /// Returns the number of its items in the index; exact if no thread changes that.
    pub(crate) fn items(&self) -> u64 {
        let sum =
            |counters: &[usize]| counters.iter().map(|counter| self.counters.sum(*counter)).sum::<u64>();
        sum(&[INSERTS, MOVED_IN]).saturating_sub(sum(&[EVICTIONS, EXPIRED, REMOVED, REPLACED, MOVED_OUT]))
    }

    /// Returns the number of its links in chains.
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

/// Changes what was charged from `before` to `after` bytes.
pub(crate) fn adjust(ledger: &Ledger, part: Part, before: u64, after: u64) {
    if after > before {
        ledger.charge(part, after - before);
    } else if after < before {
        ledger.release(part, before - after);
    }
}

/// The bits of a key's hash that the ghost queue knows it by: neither those that choose its bucket
/// alone nor its tag.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u32 {
    (hash >> 16) as u32
}
