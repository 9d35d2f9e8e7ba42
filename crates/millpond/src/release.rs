//! Emptying runs of a class and giving their memory back, in a time that holders, vetoes and
//! readers do not decide.
//!
//! A run, a whole slab or a part of a split one, leaves in steps: its free chunks are withheld and
//! new frees go to the same list; its items move to other chunks of the class
//! ([`crate::relocate`]), in the place of what would be evicted next; those that find none are
//! evicted; when all chunks are in, the class forgets the run. From then on it is *retired*: when
//! no reader can still look into it (a grace period), it is given back: units to those of their
//! split slab, a slab to the system. Nobody waits for that: whoever takes memory, adds some or
//! maintains the cache asks whether the periods of retired runs have passed.
//!
//! Of the runs of a class that are about as long as is wanted, the first is chosen in which nobody
//! holds an item, or else that with the fewest held ones of [`MOST_LOOKED_AT`]; the next attempt
//! begins behind one that failed. Holders are waited for [`WAITS`] milliseconds at most, in all
//! runs together that one operation tries until it gets one, and [`WAITS_IN_ALL`] in one operation
//! or round; after that only runs are tried in which nothing is held. What a [`crate::Lifecycle`]
//! keeps is not waited for at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::Part;
use base::pin::Grace;
use evict::PolicyKind;
use parking_lot::Mutex;
use slab::item::Claim;
use slab::run::{FREE_UNITS, UNIT_BYTES, UNITS};
use slab::{ItemPtr, Run, SlabId, SlabInfo, Withheld};

use crate::allocate::metadata_x100_of;
use crate::cache::Core;
use crate::class::{
    Class, EVICTIONS, LIMIT_EVICTIONS, MOVE_EVICTIONS, RELEASES_ABORTED, RUNS_RELEASED, SHIFT_EVICTIONS,
};
use crate::life::RemovalCause;
use crate::pool::Pool;

/// Chunks that are looked at under one hold of a class's lock.
const STEP: usize = 64;
/// Runs of a class among which one to release is chosen, at most.
const MOST_LOOKED_AT: usize = 64;
/// Held items of a run that an operation which does not wait tries to empty, at most.
const FEW_HELD: u32 = 8;
/// How often held items are waited for in one operation before it gets a slab, and how long each
/// time.
pub(crate) const WAITS: u32 = 10;
/// The same when slabs are rebalanced, which another round may do as well.
pub(crate) const MOVE_WAITS: u32 = 2;
/// How often held items are waited for in one operation, or one round for all pools, however many
/// slabs it gets.
const WAITS_IN_ALL: u32 = 50;
pub(crate) const WAIT: Duration = Duration::from_millis(1);
/// Looks whether the readers of a slab have gone that are taken at once, before others are left to
/// do so.
const SPINS: u32 = 200;
/// How often an operation sleeps at its end while readers are at slabs that it took, and how long
/// each time.
const READER_WAITS: u32 = 50;

/// Why a slab leaves its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// For another class or pool, or because the class or its pool goes.
    Moved,
    /// A limit was lowered.
    Limit,
}

/// How much memory is to be given back. As runs are given back whole, it may become more or less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    /// More is never given back, in bytes.
    pub(crate) most_bytes: u64,
}

impl Amount {
    /// About `bytes`, or one run if none is as short.
    pub(crate) fn about(bytes: u64) -> Self {
        Self { bytes, most_bytes: u64::MAX }
    }
}

/// One operation that takes memory.
pub(crate) struct Taking {
    why: Why,
    /// How many times it waits for held items between two slabs that it gets.
    waits: u32,
    waits_left: u32,
    /// How many times it may yet wait, whatever it gets.
    left_in_all: u32,
}

impl Taking {
    /// One that waits so many times, in all slabs together that it tries until it gets one.
    pub(crate) fn new(why: Why, waits: u32) -> Self {
        Self { why, waits, waits_left: waits, left_in_all: WAITS_IN_ALL }
    }

    /// Has it wait so many times from here on until it gets a slab, as far as it may wait yet.
    pub(crate) fn waiting(&mut self, waits: u32) -> &mut Self {
        self.waits = waits;
        self.got_one();
        self
    }

    /// Notes that it got a slab.
    fn got_one(&mut self) {
        self.waits_left = self.waits.min(self.left_in_all);
    }

    /// Takes one of the waits that are left. `false`: there is none.
    fn take_wait(&mut self) -> bool {
        let is_left = self.waits_left > 0;
        self.waits_left -= u32::from(is_left);
        self.left_in_all -= u32::from(is_left);
        is_left
    }

    /// Whether it may yet wait for held items.
    pub(crate) fn waits_for_holders(&self) -> bool {
        self.waits_left > 0
    }

    /// Whether a run in which so many items are held is worth an attempt: all others of it would be
    /// moved or evicted, in vain if the held ones stay. Operations that never wait try where a few
    /// are, which may be let go of meanwhile.
    fn tries(&self, held: u32) -> bool {
        held == 0 || self.waits_left > 0 || (self.waits == 0 && held <= FEW_HELD)
    }
}

/// Runs that have left their classes and that readers may still be looking at. They are on the bill
/// yet.
#[derive(Default)]
pub(crate) struct RetiredRuns {
    runs: Mutex<Vec<RetiredRun>>,
    /// How many there are.
    count: AtomicUsize,
}

struct RetiredRun {
    run: Run,
    info: SlabInfo,
    grace: Grace,
    /// Its chunks, and the policy by which metadata is expected for them.
    expected: (u64, PolicyKind),
}

impl RetiredRuns {
    fn note(&self, runs: &[RetiredRun]) {
        self.count.store(runs.len(), Ordering::Relaxed);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether one of them was the pool's; or the class's, if that is asked for.
    pub(crate) fn has_one_of(&self, pool: u16, class: Option<u8>) -> bool {
        let is_of = |retired: &RetiredRun| {
            retired.info.pool == pool && class.is_none_or(|class| class == retired.info.class)
        };
        self.count() > 0 && self.runs.lock().iter().any(is_of)
    }

    /// Metadata that is expected for all of them, in hundredths of a byte.
    pub(crate) fn metadata_x100(&self) -> u64 {
        let of = |retired: &RetiredRun| metadata_x100_of(retired.expected.0, retired.expected.1);
        self.runs.lock().iter().map(of).sum()
    }

    /// Memory of all of them, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.lock().iter().map(|retired| retired.run.bytes()).sum()
    }
}

impl Core {
    /// Empties runs of the class that have about `amount` together and gives them back: of those
    /// that are as long as is wanted the first in which nobody holds anything, or one in which
    /// little is held. Returns how many bytes they had: 0 if items of them are held for too long or
    /// may not be evicted, or there is none. The caller holds the pool's `resizing`.
    pub(crate) fn release_bytes(
        &self,
        pool: &Pool,
        class: &Class,
        amount: Amount,
        taking: &mut Taking,
    ) -> u64 {
        let mut released = 0;
        while released < amount.bytes {
            let lacking = Amount { bytes: amount.bytes - released, most_bytes: amount.most_bytes - released };
            let Some((run, held)) = self.run_to_release(class, lacking) else { break };
            if !taking.tries(held) {
                class.counters.add(RELEASES_ABORTED, 1);
                break;
            }
            if !self.release_run(pool, class, run, taking) {
                break;
            }
            released += run.bytes();
        }
        released
    }

    /// The same with one run, unless so much of it is held that an attempt would be in vain.
    pub(crate) fn try_to_release(&self, pool: &Pool, class: &Class, run: Run, taking: &mut Taking) -> bool {
        let used = class.inner.lock().chunks.used_chunks_of(run);
        let held = self.held_in(run, used, FEW_HELD + 1);
        taking.tries(held) && self.release_run(pool, class, run, taking)
    }

    /// The run of the class that promises to be emptied, of those that come nearest to what is
    /// lacking: the smallest that are enough, or else the largest; and how many of its items are
    /// held.
    fn run_to_release(&self, class: &Class, lacking: Amount) -> Option<(Run, u32)> {
        let mut runs: Vec<(Run, u32)> = {
            let inner = class.inner.lock();
            let runs = inner.chunks.runs().filter(|run| run.bytes() <= lacking.most_bytes);
            runs.map(|run| (run, inner.chunks.used_chunks_of(run))).collect()
        };
        let is_enough = |(run, _): &(Run, u32)| run.bytes() >= lacking.bytes;
        let first = class.release_from.load(Ordering::Relaxed) as usize % runs.len().max(1);
        runs.rotate_left(first);
        // A stable sort, so that the next attempt begins behind the last.
        runs.sort_by_key(|run| if is_enough(run) { (0, run.0.units) } else { (1, u32::MAX - run.0.units) });
        let mut best = None;
        for (run, used) in runs.iter().take(MOST_LOOKED_AT) {
            let most = best.map_or(u32::MAX, |(held, _)| held);
            let held = self.held_in(*run, *used, most);
            if held < most {
                best = Some((held, *run));
            }
            if held == 0 {
                break;
            }
        }
        best.map(|(held, run)| (run, held))
    }

    /// How many items are held, or being made, in the first `used` chunks of a run, up to `most`.
    /// Takes no lock.
    pub(crate) fn held_in(&self, run: Run, used: u32, most: u32) -> u32 {
        let mut held = 0;
        for number in 0..used {
            held += u32::from(self.arena.item(run.chunk(number)).0.state().references() > 0);
            if held >= most {
                break;
            }
        }
        held
    }

    /// Empties a run of the class and gives it back. `false`: items of it are held for too long, or
    /// may not be evicted. The caller holds the pool's `resizing`.
    pub(crate) fn release_run(&self, pool: &Pool, class: &Class, run: Run, taking: &mut Taking) -> bool {
        if self.arena.is_parted() {
            return false;
        }
        let evicted = class.counters.sum(EVICTIONS);
        let left = self.empty_run(pool, class, run, taking);
        let counter = if taking.why == Why::Limit { LIMIT_EVICTIONS } else { SHIFT_EVICTIONS };
        class.counters.add(counter, class.counters.sum(EVICTIONS).saturating_sub(evicted));
        left
    }

    fn empty_run(&self, pool: &Pool, class: &Class, run: Run, taking: &mut Taking) -> bool {
        let used = self.begin_leave(class, run);
        // The class's only run has nowhere to move its items to, unless others have taken its
        // place.
        let moves = !pool.is_leaving()
            && (class.inner.lock().chunks.run_count() > 1 || pool.is_class_leaving(class.info.class));
        let mut was_vetoed = false;
        loop {
            if moves {
                self.move_items(pool, class, run, used);
            }
            self.evict_items(class, run, used);
            self.empty_magazines(class);
            if self.end_leave(pool, class, run) {
                taking.got_one();
                return true;
            }
            // What may not be evicted stays, however long one waits. It may have been held a moment
            // ago: that is not the same.
            if class.life.is_some() && self.has_idle_items(run, used) {
                if was_vetoed {
                    break;
                }
                was_vetoed = true;
                continue;
            }
            if !taking.take_wait() {
                break;
            }
            base::thread::sleep(WAIT);
        }
        self.abort_leave(class, run);
        false
    }

    /// Withholds the chunks of a run that is to leave. How many of its chunks were ever used.
    fn begin_leave(&self, class: &Class, run: Run) -> u32 {
        let mut inner = class.inner.lock();
        let used = inner.chunks.used_chunks_of(run);
        let withheld = inner.chunks.withhold(&self.arena, run);
        let _ = class.set_leaving(&mut inner, Some(withheld));
        used
    }

    /// Has the class forget the run, if all its chunks are in.
    fn end_leave(&self, pool: &Pool, class: &Class, run: Run) -> bool {
        let mut inner = class.inner.lock();
        if !inner.leaving.as_ref().is_some_and(Withheld::is_whole) {
            return false;
        }
        inner.chunks.remove_run(&self.arena, run);
        let _ = class.set_leaving(&mut inner, None);
        class.note_chunks(&inner);
        let policy = inner.policy.kind();
        inner.settle(self);
        let is_idle = inner.chunks.run_count() == 0;
        drop(inner);
        if is_idle {
            self.note_idle(class);
        }
        self.retire_run(pool, class, run, policy);
        class.counters.add(RUNS_RELEASED, 1);
        true
    }

    /// Gives the chunks back to the class that could not be emptied of the run.
    fn abort_leave(&self, class: &Class, run: Run) {
        let mut inner = class.inner.lock();
        if let Some(withheld) = class.set_leaving(&mut inner, None) {
            inner.chunks.restore(&self.arena, withheld);
        }
        let place = inner.chunks.runs().position(|other| other == run).map_or(0, |place| place + 1);
        class.release_from.store(place as u32, Ordering::Relaxed);
        class.counters.add(RELEASES_ABORTED, 1);
    }

    /// Whether the run has items in the index that nobody holds. Takes no lock.
    fn has_idle_items(&self, run: Run, used: u32) -> bool {
        (0..used).any(|number| self.is_idle(run.chunk(number)))
    }

    fn is_idle(&self, ptr: ItemPtr) -> bool {
        let state = self.arena.item(ptr).0.state();
        state.is_indexed() && state.references() == 0
    }

    /// Evicts the items of a leaving run that nobody holds. Takes the class's lock only for such.
    fn evict_items(&self, class: &Class, run: Run, used: u32) {
        let chunks = (0..used).map(|number| run.chunk(number));
        let idle: Vec<ItemPtr> = chunks.filter(|ptr| self.is_idle(*ptr)).collect();
        idle.chunks(STEP).for_each(|some| self.evict_some(class, some));
    }

    /// Evicts those of some items of a leaving run that nobody holds.
    fn evict_some(&self, class: &Class, some: &[ItemPtr]) {
        let (mut evicted, mut parents) = (Vec::new(), Vec::new());
        let mut inner = class.inner.lock();
        for ptr in some.iter().copied() {
            let item = self.arena.item(ptr).0;
            if !item.state().is_indexed() {
                continue;
            }
            let life = class.life.as_deref();
            // SAFETY: the item was in the index or in a chain with the lock of the class held,
            // without which no chunk that was freed since then is used again.
            unsafe {
                if item.is_link() {
                    if self.claim_by_link(item, life) == Claim::Taken {
                        parents.extend(self.parent_of_claimed(ptr));
                    }
                } else if life.is_none_or(|life| self.may_evict(life, ptr)) && inner.claim(self, ptr).is_ok()
                {
                    evicted.push(ptr);
                }
            }
        }
        drop(inner);
        class.counters.add(MOVE_EVICTIONS, (evicted.len() + parents.len()) as u64);
        self.end_claimed(class, RemovalCause::Evicted, evicted);
        parents.into_iter().for_each(|parent| self.unlink_held(parent, RemovalCause::Evicted));
    }

    /// Gives an emptied run, which its class has forgotten under `policy`, back once its readers
    /// have gone.
    fn retire_run(&self, pool: &Pool, class: &Class, run: Run, policy: PolicyKind) {
        self.fold_magazines(class);
        let chunks = u64::from(run.chunks(class.info));
        let expected = (chunks, policy);
        // A thread that walks over chunks from here on finds the run gone.
        self.arena.retire(run);
        let retired = RetiredRun { run, info: class.info, grace: self.pins.grace(), expected };
        {
            let mut runs = self.retired_runs.runs.lock();
            runs.push(retired);
            self.retired_runs.note(&runs);
        }
        pool.remove(run.bytes());
        for _ in 0..SPINS {
            if self.free_retired_runs() == 0 {
                break;
            }
            std::hint::spin_loop();
        }
    }

    /// Gives those retired runs back that nobody can look into any more. Says how many are left.
    /// Never waits.
    pub(crate) fn free_retired_runs(&self) -> usize {
        if self.retired_runs.count() == 0 {
            return 0;
        }
        let mut runs = self.retired_runs.runs.lock();
        for freed in runs.extract_if(.., |retired| retired.grace.has_passed(&self.pins)) {
            // SAFETY: the class has forgotten the run, all its chunks were free and unprotected, no
            // slot of the index points to them, all readers that might have read such a slot
            // before, or have found the run in the table, are done, as the period has passed that
            // began then, and no magazine names its chunks (invariant 3 of `magazine`).
            let bytes = unsafe { self.arena.give_back(freed.run) };
            let (chunks, policy) = freed.expected;
            self.remove_chunks(chunks, policy);
            self.ledger.release(Part::Slabs, bytes);
        }
        self.retired_runs.note(&runs);
        runs.len()
    }

    /// Waits until the readers of all retired runs have gone, for 50 ms or a little more at most.
    /// Whoever calls this may be one of them. Says whether they have gone.
    pub(crate) fn wait_for_retired_runs(&self) -> bool {
        for _ in 0..READER_WAITS {
            if self.free_retired_runs() == 0 {
                return true;
            }
            base::thread::sleep(WAIT);
        }
        false
    }

    /// Bytes that retired runs are about to give back. First those of the ledger: whole slabs, and
    /// split ones that are withdrawn and in which nothing else is in use. Then those of other runs,
    /// which will be free units.
    pub(crate) fn retired_bytes(&self) -> (u64, u64) {
        if self.retired_runs.count() == 0 {
            return (0, 0);
        }
        let runs = self.retired_runs.runs.lock();
        let whole = runs.iter().filter(|retired| retired.run.is_whole()).count();
        let mut split: HashMap<SlabId, u32> = HashMap::new();
        for retired in runs.iter().filter(|retired| !retired.run.is_whole()) {
            *split.entry(retired.run.id.slab()).or_default() += retired.run.units;
        }
        let (mut of_slabs, mut units) = (whole as u64 * u64::from(UNITS), 0);
        for (slab, retired) in split {
            match self.arena.free_units_of_withdrawn(slab) {
                Some((free, bare)) if free + bare + retired == FREE_UNITS => {
                    of_slabs += u64::from(UNITS - bare)
                }
                _ => units += u64::from(retired),
            }
        }
        (of_slabs * UNIT_BYTES as u64, units * UNIT_BYTES as u64)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use base::{ByteSize, Part};
    use slab::SLAB_BYTES;

    use super::{MOVE_WAITS, Taking, WAITS, WAITS_IN_ALL, Why};
    use crate::{Cache, CacheConfig, ItemOptions, PoolConfig, PoolId};

    /// A round that gets a little from each of many pools would else wait as often as there are
    /// pools and steps.
    #[test]
    fn an_operation_waits_a_limited_number_of_times_whatever_it_gets() {
        let mut taking = Taking::new(Why::Limit, WAITS);
        let mut waits = 0;
        for slab in 0..1_000 {
            let most = if slab % 2 == 0 { MOVE_WAITS } else { WAITS };
            taking.waiting(most);
            let before = waits;
            while taking.take_wait() {
                waits += 1;
            }
            assert!(waits - before <= most, "for one slab");
            taking.got_one();
        }
        assert_eq!(waits, WAITS_IN_ALL);
        assert!(taking.tries(0) && !taking.tries(1), "what nobody holds is taken yet");
    }

    fn fill(cache: &Cache, pool: PoolId) {
        for key in 0..100_000_u32 {
            let item =
                cache.allocate(pool, &key.to_le_bytes(), 200, &ItemOptions::default()).expect("memory");
            cache.put(item);
        }
    }

    /// Does `work` while another thread is pinned, as one is that reads.
    pub(crate) fn while_read<T>(cache: &Cache, work: impl FnOnce() -> T) -> T {
        let (is_pinned, pinned) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let _pinned = cache.core().pins.pin();
                is_pinned.send(()).expect("it is waited for");
                // Until the other end is dropped.
                let _ = ended.recv();
            });
            pinned.recv().expect("a thread");
            let done = work();
            drop(end);
            done
        })
    }

    #[test]
    fn a_slab_that_is_looked_into_leaves_its_pool_and_goes_back_later() {
        let cache =
            Cache::new(CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() }).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
        fill(&cache, pool);
        let before = cache.ledger().part(Part::Slabs);
        let limit = before - SLAB_BYTES as u64;
        while_read(&cache, || {
            cache.set_pool_limit(pool, Some(ByteSize::new(limit))).expect("readers are not waited for");
            assert!(cache.stats().pools[0].slab_bytes <= limit);
            assert_eq!(cache.ledger().part(Part::Slabs), before, "it is memory that is used yet");
            cache.maintain().expect("nothing is over its limit");
            assert_eq!(cache.ledger().part(Part::Slabs), before);
            assert!(cache.core().retired_runs.count() > 0);
        });
        cache.maintain().expect("nothing is over its limit");
        assert_eq!(cache.core().retired_runs.count(), 0);
        cache.validate();
    }

    /// The runs of a split slab that was emptied wait for readers: to empty it again and again
    /// frees nothing.
    #[test]
    fn memory_is_lowered_while_the_runs_of_split_slabs_are_looked_into() {
        let config = CacheConfig { memory: ByteSize::mib(40), ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
        for key in 0..20_000_u32 {
            let len = [60, 200, 700, 1_500, 4_000][key as usize % 5];
            let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
            cache.put(item.expect("memory"));
        }
        assert!(cache.core().arena.split_slabs() > 4, "small classes share slabs");
        for memory in [30, 24, 20, 16] {
            let memory = ByteSize::mib(memory);
            let items = cache.stats().pools[0].sum(|class| class.items);
            while_read(&cache, || cache.set_memory(memory).expect("readers are not waited for"));
            cache.maintain().expect("nothing is held");
            assert!(cache.ledger().total() <= memory.as_u64());
            let left = cache.stats().pools[0].sum(|class| class.items);
            assert!(left * 3 > items, "no more went than had to");
        }
        cache.validate();
    }

    #[test]
    fn a_pool_whose_slabs_are_looked_into_goes_later() {
        let cache =
            Cache::new(CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() }).expect("a cache");
        let pool = cache.add_pool(PoolConfig::named("a")).expect("a pool");
        fill(&cache, pool);
        while_read(&cache, || {
            let removal = cache.remove_pool(pool).expect("there is one");
            assert!(removal.items == 100_000 && !removal.is_gone, "{removal:?}");
            assert!(cache.add_pool(PoolConfig::named("a")).is_err(), "its slabs name it yet");
        });
        assert!(cache.remove_pool(pool).expect("it is there yet").is_gone);
        assert_eq!(cache.ledger().part(Part::Slabs), 0);
        cache.validate();
    }

    #[test]
    fn memory_that_readers_keep_is_had_by_the_first_allocation_after_them() {
        let memory = ByteSize::mib(16);
        let cache = Cache::new(CacheConfig { memory, ..CacheConfig::default() }).expect("a cache");
        let (first, second) = (PoolConfig::named("first"), PoolConfig::named("second"));
        let (first, second) =
            (cache.add_pool(first).expect("a pool"), cache.add_pool(second).expect("a pool"));
        fill(&cache, first);
        let slabs = cache.stats().pools[0].slab_bytes;
        let limit = ByteSize::new(slabs - SLAB_BYTES as u64);
        while_read(&cache, || cache.set_pool_limit(first, Some(limit)).expect("nothing is held"));
        let item = cache.allocate(second, b"key", 200, &ItemOptions::default()).expect("a slab has left");
        cache.put(item);
        assert_eq!(cache.stats().pools[0].slab_bytes, limit.as_u64(), "none was taken besides");
        cache.validate();
    }
}
