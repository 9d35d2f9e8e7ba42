//! Watching a cache at work: a sample of its events, how long a sample of its calls takes, which
//! keys are hot, and which of those that somebody has a copy of have changed.
//!
//! All of it is off until somebody asks, and can be switched while serving. One word says whether
//! anything is on: a call that nobody watches pays for one branch on it. Where something is on, the
//! call goes a way of its own; what is sampled there is decided by a comparison (keys, by their
//! hash) or a random draw (calls). Hot keys and curves are those of pools ([`Cache::set_hot_keys`],
//! [`Cache::set_curve`]).
//!
//! What must hold:
//! 1. No code of the user is called with a lock held: events go through a buffer.
//! 2. What watching takes is charged to the ledger, and given back when it ends.
//! 3. The locks of the event buffer and of the buffer of changes, and those of a pool's hot keys
//!    and of its curve, are taken last, and nothing is taken under them but by `curves`, which says
//!    in what order; calls that are watched only try the latter. That of what is switched is taken
//!    before any other but the names of pools, and by no call that is watched.

mod changes;
mod curves;
mod events;
mod hot;
mod latency;
mod shadow;
mod trace;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use base::rng::{Share, draw};
use base::{Clock, Part};
use crossbeam_utils::CachePadded;
use curve::Kind;
use parking_lot::Mutex;
use slab::ItemPtr;

use crate::cache::{Cache, Core};
use crate::error::Error;
use crate::handle::{ItemRef, View};
use crate::lifecycle::RemovalCause;
use crate::pools::PoolId;
use latency::Histogram;

pub use changes::{Change, ChangeReader, set_author};
pub(crate) use curves::Curves;
pub use curves::{CurveConfig, MissCost, PolicyQueue, PoolCurve};
pub use events::{
    Event, EventConfig, EventKind, EventReader, EventResult, EventSink, EventStats, EventThread,
};
pub(crate) use hot::PoolHeat;
pub use hot::{HotKey, HotKeysConfig};
pub use latency::{LatencyStats, Timed};
pub(crate) use shadow::Shadows;
pub use trace::TraceWriter;

/// Bits of [`Watch::on`].
const EVENTS: u32 = 1;
const LATENCY: u32 = 2;
const HOT: u32 = 4;
const CURVES: u32 = 8;
const CHANGES: u32 = 16;

/// The parts of watching that are on, and their data.
#[derive(Default)]
pub(crate) struct Watch {
    on: AtomicU32,
    /// Keys whose mixed hash is at most this are sampled.
    events_upto: AtomicU64,
    /// The share of calls that is timed: a [`Share`].
    timed: AtomicU64,
    /// The largest share of finds that is looked at for hot keys: that of the pool with the
    /// largest.
    heated: AtomicU64,
    /// Keys whose place lies below are followed for a curve: the most that any pool follows.
    curved_below: AtomicU32,
    /// Apart from what every call reads.
    buffer: CachePadded<Mutex<Option<events::Buffer>>>,
    histograms: OnceLock<Box<[Histogram; Timed::ALL.len()]>>,
    changes: OnceLock<changes::Changes>,
    /// Held while something is switched on or off.
    switching: Mutex<()>,
}

/// The parts of watching that one call is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    what: u32,
    draw: u32,
}

impl Wanted {
    /// Returns whether anything is wanted.
    #[inline]
    pub(crate) fn any(self) -> bool {
        self.what != 0
    }

    fn event(self) -> bool {
        self.what & EVENTS != 0
    }

    /// Returns whether the key is followed for a curve.
    #[inline]
    pub(crate) fn follows(self) -> bool {
        self.what & CURVES != 0
    }
}

/// Memory that is charged, and taken off the bill again unless somebody keeps it.
#[must_use]
struct Spent<'c> {
    core: &'c Core,
    bytes: u64,
}

impl Spent<'_> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        self.core.ledger.release(Part::Fixed, self.bytes);
    }
}

/// A call that is being timed, or not.
#[must_use]
pub(crate) struct Stopwatch {
    /// The time at which it began, if it is timed and running.
    since: Option<u64>,
    nanos: u64,
    is_timed: bool,
}

impl Watch {
    /// Returns whether anything is watched.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed) != 0
    }

    fn has(&self, bit: u32) -> bool {
        self.on.load(Ordering::Relaxed) & bit != 0
    }

    fn switch(&self, bit: u32, on: bool) {
        if on {
            self.on.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.on.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns whether events of the key with this hash are recorded.
    #[inline]
    pub(crate) fn samples(&self, hash: u64) -> bool {
        // The product's upper bits depend on all bits of the hash, and not on those alone that
        // choose its bucket.
        self.has(EVENTS)
            && hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) <= self.events_upto.load(Ordering::Relaxed)
    }

    /// Returns whether events of any key are recorded, or its changes reported.
    #[inline]
    pub(crate) fn records(&self) -> bool {
        self.has(EVENTS | CHANGES)
    }

    /// Returns whether anything that is watched depends on a key's being gone for this reason.
    #[inline]
    pub(crate) fn asks_of_end(&self, cause: RemovalCause) -> bool {
        match cause {
            RemovalCause::Replaced => false,
            RemovalCause::Evicted | RemovalCause::Removed | RemovalCause::Expired => {
                self.has(EVENTS | CHANGES | CURVES)
            }
        }
    }

    /// Records the events of one key in `one_in`; 0 = of none.
    fn sample_events(&self, one_in: u32) {
        self.events_upto.store(u64::MAX / u64::from(one_in.max(1)), Ordering::Relaxed);
        self.switch(EVENTS, one_in > 0);
    }

    /// Returns what is wanted of a call on the key with this hash. One branch if nothing is on.
    #[inline]
    pub(crate) fn wants(&self, hash: u64) -> Wanted {
        let on = self.on.load(Ordering::Relaxed);
        // Changes are asked for when they have happened.
        let on = on & !CHANGES;
        // With curves alone, which may be on for ever, what is not followed pays for no more than
        // the comparison.
        if on == 0 || (on == CURVES && !self.follows(hash)) {
            return Wanted { what: 0, draw: 0 };
        }
        self.draws(on, hash)
    }

    /// Returns whether the key with this hash is followed for a curve.
    #[inline]
    fn follows(&self, hash: u64) -> bool {
        curve::sample::place(hash) < self.curved_below.load(Ordering::Relaxed)
    }

    /// Returns whether any key is followed for a curve.
    fn follows_any(&self) -> bool {
        self.curved_below.load(Ordering::Relaxed) > 0
    }

    /// Follows keys whose place lies below the largest of these.
    fn follow(&self, below: impl Iterator<Item = u32>) {
        let most = below.max().unwrap_or(0);
        self.curved_below.store(most, Ordering::Relaxed);
        self.switch(CURVES, most > 0);
    }

    #[inline(never)]
    fn draws(&self, on: u32, hash: u64) -> Wanted {
        let mut what = if self.samples(hash) { EVENTS } else { 0 };
        if on & CURVES != 0 && self.follows(hash) {
            what |= CURVES;
        }
        let mut drawn = 0;
        if on & (LATENCY | HOT) != 0 {
            drawn = draw();
            for (bit, share) in [(LATENCY, &self.timed), (HOT, &self.heated)] {
                if on & bit != 0 && Share::from_bits(share.load(Ordering::Relaxed)).has(drawn) {
                    what |= bit;
                }
            }
        }
        Wanted { what, draw: drawn }
    }

    /// Looks at the largest of these shares of finds for hot keys.
    fn sample_for_hot_keys(&self, shares: impl Iterator<Item = Share>) {
        let most = shares.map(Share::to_bits).max().unwrap_or(0);
        self.heated.store(most, Ordering::Relaxed);
        self.switch(HOT, most > 0);
    }

    /// Begins to time a call, if that is wanted of it.
    #[inline]
    pub(crate) fn stopwatch(&self, wanted: Wanted, clock: &Clock) -> Stopwatch {
        let is_timed = wanted.what & LATENCY != 0;
        Stopwatch { since: is_timed.then(|| clock.monotonic_nanos()), nanos: 0, is_timed }
    }

    /// Ends the timing of what was done for `keys` keys.
    #[inline]
    pub(crate) fn stop(&self, mut stopwatch: Stopwatch, clock: &Clock, what: Timed, keys: usize) {
        if !stopwatch.is_timed || keys == 0 {
            return;
        }
        stopwatch.pause(clock);
        if let Some(histograms) = self.histograms.get() {
            histograms[what as usize].add(stopwatch.nanos / keys as u64, keys as u64);
        }
    }
}

impl Stopwatch {
    /// Stops counting for now.
    #[inline]
    pub(crate) fn pause(&mut self, clock: &Clock) {
        if let Some(since) = self.since.take() {
            self.nanos += clock.monotonic_nanos().saturating_sub(since);
        }
    }

    /// Goes on counting.
    #[inline]
    pub(crate) fn resume(&mut self, clock: &Clock) {
        if self.is_timed {
            self.since = Some(clock.monotonic_nanos());
        }
    }
}

impl Cache {
    /// Times one call in `one_in`, at random, from now on; 0 = none, as at the start. What was
    /// measured before is forgotten when timing is switched on. A call that is not timed pays for a
    /// random draw while others are; the first time, 75 KiB are charged to the ledger.
    ///
    /// ```
    /// use millpond::watch::Timed;
    /// use millpond::{Cache, CacheConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// cache.time_calls(1)?;
    /// cache.find(b"nobody");
    /// let find = cache.latencies()[Timed::Find as usize];
    /// assert_eq!(find.samples, 1);
    /// println!("half of all finds take {} ns at most", find.p50_nanos);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`] where held items keep the cache from making room.
    pub fn time_calls(&self, one_in: u32) -> Result<(), Error> {
        let watch = &self.core().watch;
        let is_first = one_in > 0 && watch.histograms.get().is_none();
        let bytes = (Timed::ALL.len() * Histogram::BYTES) as u64;
        let spent = if is_first { Some(self.core().spend(bytes)?) } else { None };
        let _switching = watch.switching.lock();
        if one_in > 0 && !watch.has(LATENCY) {
            let was_there = watch.histograms.get().is_some();
            watch.histograms.get_or_init(Box::default).iter().for_each(Histogram::clear);
            spent.into_iter().filter(|_| !was_there).for_each(Spent::keep);
        }
        watch.timed.store(Share::one_in(one_in).to_bits(), Ordering::Relaxed);
        watch.switch(LATENCY, one_in > 0);
        Ok(())
    }

    /// Returns the times that calls took, by kind, in the order of [`Timed::ALL`]. Empty if none
    /// was ever timed. Costs about 10 µs.
    pub fn latencies(&self) -> Vec<LatencyStats> {
        let histograms = self.core().watch.histograms.get().into_iter().flat_map(|all| all.iter());
        histograms.zip(Timed::ALL).map(|(histogram, what)| histogram.summary(what)).collect()
    }
}

/// The kind of event that an item's going for this reason is: a counter of its class.
pub(crate) const fn gone_for(cause: RemovalCause) -> EventKind {
    match cause {
        RemovalCause::Removed => EventKind::Remove,
        RemovalCause::Expired => EventKind::Expire,
        RemovalCause::Replaced => EventKind::Replace,
        RemovalCause::Evicted => EventKind::Evict,
    }
}

impl Core {
    /// Charges the ledger for something that somebody switches on, and makes room for it. The
    /// caller holds no lock: items that are evicted may have hooks, which may switch things on.
    fn spend(&self, bytes: u64) -> Result<Spent<'_>, Error> {
        self.ledger.charge(Part::Fixed, bytes);
        let spent = Spent { core: self, bytes };
        // What is switched off needs no room, and succeeds in a cache that is over its limit.
        if bytes == 0 { Ok(spent) } else { self.shrink_to_limit().map(|()| spent) }
    }

    /// Notes for the curve of its pool that an item was inserted. In the shared key space, one
    /// whose key was absent stands for the find before that found nothing.
    #[cold]
    pub(crate) fn note_insertion(&self, hash: u64, new: ItemRef<'_>, replaced: bool) {
        if let Some(pool) = self.pools.get(new.pool()) {
            let is_miss = pool.keyspace == 0 && !replaced;
            let kind = if is_miss { Kind::Read } else { Kind::Write };
            pool.curves.note(hash, new.chunk_bytes(), kind);
            pool.curves.note_cost(hash, self.clock.monotonic_nanos(), true);
        }
    }

    /// Notes for the curve of its pool that a key has gone, by a removal or because it expired.
    #[cold]
    pub(crate) fn note_end(&self, hash: u64, pool: PoolId) {
        if let Some(pool) = self.pools.get(pool) {
            pool.curves.note(hash, 0, Kind::Remove);
        }
    }

    /// Switches the shadow queues of a pool on or off.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`](crate::ErrorKind::NoSuchPool);
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if held items keep the cache from
    /// making room.
    pub(crate) fn watch_shadows(&self, pool: PoolId, is_on: bool) -> Result<(), Error> {
        let has_table = self.pool(pool)?.shadows.bytes() > 0;
        let bytes = if is_on && !has_table { Shadows::bytes_wanted() as u64 } else { 0 };
        let spent = self.spend(bytes)?;
        if self.pool(pool)?.shadows.switch(is_on) {
            spent.keep();
        }
        self.watch_as_pools_want();
        Ok(())
    }

    /// Notes for the shadow queues of its pool that an item was evicted.
    #[cold]
    fn note_eviction(&self, hash: u64, found: ItemRef<'_>) {
        if let Some(pool) = self.pools.get(found.pool()) {
            pool.shadows.note_eviction(hash, found.class_number());
        }
    }

    fn record(&self, event: Event<'_>) {
        if let Some(buffer) = &mut *self.watch.buffer.lock() {
            // Under the lock, so that events are in the order of their times.
            buffer.record(&Event { time_nanos: self.clock.unix_nanos(), ..event });
        }
    }

    /// Tells those who watch what a look-up found, or that it found nothing in the pool that has
    /// these keys to itself.
    pub(crate) fn tell_find(
        &self,
        wanted: Wanted,
        (key, hash): (&[u8], u64),
        found: Option<ItemRef<'_>>,
        own: Option<PoolId>,
    ) {
        if wanted.what & HOT != 0
            && let Some(pool) = found.map(|found| found.pool()).or(own)
            && let Some(pool) = self.pools.get(pool)
        {
            pool.hot.count(wanted.draw, hash, key, || self.now());
        }
        if wanted.follows()
            && let Some(pool) = found.map(|found| found.pool()).or(own)
            && let Some(pool) = self.pools.get(pool)
        {
            match found {
                Some(found) => pool.curves.note(hash, found.chunk_bytes(), Kind::Read),
                None => {
                    pool.curves.note(hash, 0, Kind::Lookup);
                    pool.curves.note_cost(hash, self.clock.monotonic_nanos(), false);
                    pool.shadows.note_miss(hash);
                }
            }
        }
        if wanted.event() {
            match found {
                Some(found) => self.record_found(EventKind::Find, EventResult::Done, found),
                None => self.record_absent(EventKind::Find, EventResult::Miss, key, own, None),
            }
        }
    }

    /// Records what happened to an item, if its key is sampled, and reports it as a change, if it
    /// is one and the key is followed.
    #[inline]
    pub(crate) fn note(&self, kind: EventKind, hash: u64, found: ItemRef<'_>) {
        match kind {
            EventKind::Allocate | EventKind::Find => {}
            EventKind::Evict | EventKind::Expire => {
                self.note_change_by_itself(hash, || (found.pool(), found.key()));
            }
            _ => self.note_change(hash, || (found.pool(), found.key())),
        }
        if kind == EventKind::Evict && self.watch.follows(hash) {
            self.note_eviction(hash, found);
        }
        if matches!(kind, EventKind::Remove | EventKind::Expire) && self.watch.follows(hash) {
            self.note_end(hash, found.pool());
        }
        if self.watch.samples(hash) {
            self.record_found(kind, EventResult::Done, found);
        }
    }

    #[cold]
    pub(crate) fn record_found(&self, kind: EventKind, result: EventResult, found: ItemRef<'_>) {
        self.record(Event {
            kind,
            result,
            key: found.key(),
            pool: Some(found.pool()),
            class: Some(found.class_number()),
            value_bytes: Some(found.whole_len() as u64),
            ttl_secs: found.ttl_secs_left(),
            time_nanos: 0,
        });
    }

    /// Records that there was no item, if the key is sampled. `pool` is the one whose keys were
    /// looked through, if it has keys of its own.
    #[inline]
    pub(crate) fn note_absent(&self, kind: EventKind, hash: u64, key: &[u8], pool: Option<PoolId>) {
        if self.watch.samples(hash) {
            self.record_absent(kind, EventResult::Miss, key, pool, None);
        }
    }

    #[cold]
    pub(crate) fn record_absent(
        &self,
        kind: EventKind,
        result: EventResult,
        key: &[u8],
        pool: Option<PoolId>,
        value_bytes: Option<u64>,
    ) {
        let (class, ttl_secs, time_nanos) = (None, None, 0);
        self.record(Event { kind, result, key, pool, class, value_bytes, ttl_secs, time_nanos });
    }

    /// Records an eviction, if the key is sampled, and reports no change.
    ///
    /// # Safety
    /// As for [`slab::Item::key`].
    #[inline]
    pub(crate) unsafe fn record_eviction(&self, hash: u64, ptr: ItemPtr) {
        if self.watch.samples(hash) {
            // SAFETY: the caller meets the duties of `key` while the item is shown (invariant 1 of
            // `handle`).
            let found = ItemRef(unsafe { View::new(self, self.arena.item(ptr).0, ptr) });
            self.record_found(EventKind::Evict, EventResult::Done, found);
        }
    }

    /// Records what happened to the item in a chunk, if its key is sampled.
    ///
    /// # Safety
    /// As for [`slab::Item::key`].
    #[inline]
    pub(crate) unsafe fn note_item(&self, kind: EventKind, hash: u64, ptr: ItemPtr) {
        // SAFETY: the caller meets the duties of `key` while the item is shown (invariant 1 of
        // `handle`).
        self.note(kind, hash, ItemRef(unsafe { View::new(self, self.arena.item(ptr).0, ptr) }));
    }
}
