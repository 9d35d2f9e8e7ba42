//! Size classes that follow the items: looking at what a pool holds, changing its sizes, and
//! emptying the classes of before.
//!
//! What a pool *holds* is looked at, by a sample of the chunks of its slabs, and not what is
//! inserted: slack is what held items leave of their chunks, so that an item counts by how long it
//! stays; and insertions pay nothing for it.
//!
//! When the sizes change ([`crate::sizing`]), the table that allocations go by is swapped; readers
//! never look at it. A class whose size and items are kept keeps its number and all that it has.
//! The others *leave*: nothing new is allocated in them once those who had seen the old table have
//! stopped (a grace period of [`crate::pools`]), and slab by slab their items move to the chunks of
//! the class that now fits them ([`crate::relocate`]). A class without slabs is taken out and freed
//! a grace period later; from then on its number may be another's.
//!
//! Invariants:
//! 1. The table is changed, and classes are emptied and taken out, with the pool's `resizing` held.
//! 2. A number stands for one chunk size until nobody can know it by that any more: it is not given
//!    again while it is in the table, is leaving, or belongs to a class that was taken out and not
//!    freed.

mod tuner;

pub(crate) use tuner::{LeavingClass, Tuner};

use base::Part;
use base::hash::mix64;
use base::rng::{RngExt, seeded};
use slab::{Run, SLAB_BYTES, SizeClasses, SlabInfo};

use crate::cache::{Cache, Core};
use crate::class::Class;
use crate::error::Error;
use crate::pool::Pool;
use crate::pools::{PoolId, Remains};
use crate::release::{MOVE_WAITS, Taking, WAIT, WAITS, Why};
use crate::sizes::Sizes;
use crate::sizing::{Decision, SizeHistogram, Tuning};

/// Chunks of a pool that one look takes in at most; each costs a cache miss, some 100 ns.
const MOST_LOOKS: u64 = 32_768;
/// Chunks of each class that it takes in at least.
const LEAST_LOOKS: u64 = 256;
/// Chunks that are looked at under one pin.
const STEP: usize = 64;
/// Memory of leaving classes that one call of [`Cache::maintain`] empties in one pool, in bytes.
const BYTES_PER_ROUND: u64 = 32 << 20;

/// The chunks of a class, numbered over its runs.
struct Places {
    /// Each with how many chunks come before it.
    runs: Vec<(u64, Run)>,
    chunks: u64,
}

impl Places {
    fn new(runs: impl Iterator<Item = Run>, info: SlabInfo) -> Self {
        let mut chunks = 0;
        let mut number = |run: Run| {
            let before = chunks;
            chunks += u64::from(run.chunks(info));
            (before, run)
        };
        let runs = runs.map(&mut number).collect();
        Self { runs, chunks }
    }

    /// The run of a chunk, and the chunk's number within the run.
    fn at(&self, place: u64) -> Option<(Run, u32)> {
        let after = self.runs.partition_point(|(before, _)| *before <= place);
        let (before, run) = self.runs.get(after.checked_sub(1)?)?;
        Some((*run, (place - before) as u32))
    }
}

/// The result of a call to tune: see [`Cache::tune_classes`].
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The decision, and why.
    pub decision: Decision,
    /// Memory of the classes of before that held items keep, in bytes.
    pub bytes_left: u64,
}

impl Cache {
    /// Looks at what a pool holds and gives it the chunk sizes that suit it best, if that saves
    /// enough memory ([`Tuning::least_gain`]; by that of [`crate::PoolConfig::tuning`], or else by
    /// the default). A pool that has a tuning does so by itself ([`Self::maintain`]).
    ///
    /// Readers and writers go on meanwhile. Items move to chunks of the new sizes and keep all that
    /// they have; where a full pool has no room for that, what would be evicted next goes. Held
    /// items stay where they are, and [`Self::maintain`] goes on with their slabs. Costs a look at
    /// up to 32,768 items, some milliseconds for the choice, and a copy of each item that moves, on
    /// the calling thread.
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// for i in 0..20_000_u32 {
    ///     cache.put(cache.allocate(pool, &i.to_le_bytes(), 300, &ItemOptions::default())?);
    /// }
    /// let before = cache.stats().pools[0].slack_bytes();
    /// let tuned = cache.tune_classes(pool)?;
    /// assert!(tuned.decision.applies, "{}", tuned.decision.reason);
    /// assert!(cache.stats().pools[0].slack_bytes() < before / 10);
    /// assert_eq!(cache.stats().index_entries, 20_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn tune_classes(&self, pool: PoolId) -> Result<Tuned, Error> {
        let core = self.core();
        let decision = {
            let pool = core.pool(pool)?;
            let tuning = pool.tuner.lock().as_ref().map(|tuner| tuner.tuning.clone()).unwrap_or_default();
            let mut seen = SizeHistogram::new();
            core.look_at_sizes(&pool, &mut seen);
            // Others that take memory from the pool do not wait for the decision.
            let present = pool.sizes().sizes().to_vec();
            let decision = pool.decide(&tuning, &seen);
            let _resizing = pool.resizing.lock();
            let is_late = pool.sizes().sizes() != present;
            let decision = if is_late { pool.decide(&tuning, &seen) } else { decision };
            core.act_on(&pool, decision, &seen)
        };
        // What leaves is emptied once those who saw the old table have stopped, and this thread was
        // one of them.
        let (mut bytes_left, mut taking) = (0, Taking::new(Why::Moved, WAITS));
        for wait in 0..=WAITS {
            if wait > 0 {
                base::thread::sleep(WAIT);
            }
            let Ok(pool) = core.pool(pool) else { break };
            bytes_left = core.empty_all_leaving(&pool, &mut taking);
            core.free_retired_runs();
            if pool.leaving_classes.lock().is_empty() {
                break;
            }
        }
        core.free_retired();
        Ok(Tuned { decision, bytes_left })
    }

    /// Has a pool's size classes follow its items, or stay as they are (`None`), while serving.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn set_pool_tuning(&self, pool: PoolId, tuning: Option<Tuning>) -> Result<(), Error> {
        let core = self.core();
        let pool = core.pool(pool)?;
        let mut tuner = pool.tuner.lock();
        match (&mut *tuner, tuning) {
            (Some(tuner), Some(tuning)) => tuner.tuning = tuning,
            (none @ None, Some(tuning)) => {
                core.ledger.charge(Part::Fixed, Tuner::bytes());
                *none = Some(Box::new(Tuner::new(tuning, core.now())));
                pool.upkeep.note_tuning();
            }
            (some, None) => {
                if some.take().is_some() {
                    core.ledger.release(Part::Fixed, Tuner::bytes());
                }
            }
        }
        Ok(())
    }

    /// Tunes the pools whose time has come, and goes on emptying classes that leave.
    pub(crate) fn tune(&self) {
        let core = self.core();
        let mut taking = Taking::new(Why::Moved, MOVE_WAITS);
        core.tune_turn.go_round(&core.pools.all(), crate::upkeep::BYTES_PER_ROUND, |pool| {
            if !pool.upkeep.take_tuning() {
                return 0;
            }
            let (mut left, mut looked_at) = (BYTES_PER_ROUND, 0);
            // If another thread that takes memory is at work, the next round will do.
            if let Some(_resizing) = pool.resizing.try_lock() {
                looked_at = core.tune_if_due(pool);
                core.empty_leaving(pool, &mut left, taking.waiting(MOVE_WAITS));
            }
            if pool.tuner.lock().is_some() || !pool.leaving_classes.lock().is_empty() {
                pool.upkeep.note_tuning();
            }
            BYTES_PER_ROUND - left + looked_at
        });
        core.free_retired();
    }
}

impl Pool {
    /// Decides whether its sizes should change, given items as `seen`.
    fn decide(&self, tuning: &Tuning, seen: &SizeHistogram) -> Decision {
        let mut range = self.range;
        range.most_classes = tuning.most_classes.unwrap_or(range.most_classes).clamp(1, MOST_CLASSES);
        tuning.decide(seen, self.sizes().sizes(), &range)
    }
}

impl Core {
    /// Tunes the pool if its time has come. Returns the memory whose move would take about as long,
    /// in bytes.
    fn tune_if_due(&self, pool: &Pool) -> u64 {
        // One change at a time.
        if !pool.leaving_classes.lock().is_empty() {
            return 0;
        }
        let mut tuner = pool.tuner.lock();
        let Some(tuner) = &mut *tuner else { return 0 };
        let now = self.now();
        if now.saturating_sub(tuner.looked_at) < tuner.tuning.every_secs {
            return 0;
        }
        tuner.looked_at = now;
        tuner.seen.age();
        self.look_at_sizes(pool, &mut tuner.seen);
        let decision = pool.decide(&tuner.tuning, &tuner.seen);
        self.act_on(pool, decision, &tuner.seen);
        pool.slab_bytes().min(SLAB_BYTES as u64)
    }

    /// Changes the sizes of the pool, which holds items as `seen`, if that was decided. The caller
    /// holds the pool's `resizing`.
    fn act_on(&self, pool: &Pool, mut decision: Decision, seen: &SizeHistogram) -> Decision {
        if decision.applies && !self.change_sizes(pool, &decision.sizes, seen) {
            decision.applies = false;
            decision.reason = "the classes of earlier sizes still hold too many of the 255 numbers".into();
        }
        decision
    }

    /// Adds the sizes of a sample of the pool's items, each for as many as it stands for.
    fn look_at_sizes(&self, pool: &Pool, seen: &mut SizeHistogram) {
        let classes: Vec<(&Class, Places)> = pool
            .used_classes()
            .map(|(_, class)| (class, Places::new(class.inner.lock().chunks.runs(), class.info)))
            .collect();
        let all: u64 = classes.iter().map(|(_, places)| places.chunks).sum();
        let mut rng = seeded(mix64(u64::from(pool.number) << 32 | u64::from(self.now())));
        for (class, of_class) in &classes {
            let chunks = of_class.chunks;
            let looks = (MOST_LOOKS * chunks / all.max(1)).max(LEAST_LOOKS).min(chunks);
            // One of each of this many equal parts.
            let part = |look: u64| look * chunks / looks.max(1);
            let places: Vec<u64> =
                (0..looks).map(|look| rng.random_range(part(look)..part(look + 1))).collect();
            let found: Vec<u32> =
                places.chunks(STEP).flat_map(|places| self.sizes_at(class, of_class, places)).collect();
            let (items, count) = (class.items() + class.links(), found.len() as u64);
            for (i, bytes) in (0_u64..).zip(found) {
                // The whole number of items that this one stands for, such that all stand for all.
                seen.add(bytes, (i + 1) * items / count - i * items / count);
            }
        }
    }

    /// The sizes of the items in some of the chunks of a class, numbered over its runs.
    fn sizes_at(&self, class: &Class, of_class: &Places, places: &[u64]) -> Vec<u32> {
        // The last handle of an item may call the embedder, so all are dropped when nothing is
        // pinned.
        let mut held = Vec::with_capacity(places.len());
        let pinned = self.pins.pin();
        let size = |place: &u64| {
            let (run, number) = of_class.at(*place)?;
            // A run that has left the class since then may have other chunks.
            if !self.arena.is_there(run, class.info) {
                return None;
            }
            let (handle, bytes) = self.hold_with_size(run.chunk(number))?;
            held.push(handle);
            Some(bytes as u32)
        };
        let sizes = places.iter().filter_map(size).collect();
        drop(pinned);
        sizes
    }

    /// Has the pool, which holds items as `seen`, allocate from classes of these sizes. `false`:
    /// too many numbers are in use. The caller holds the pool's `resizing`.
    fn change_sizes(&self, pool: &Pool, sizes: &[u32], seen: &SizeHistogram) -> bool {
        self.free_retired();
        let Ok(classes) = SizeClasses::by_list(sizes) else { return false };
        let mut leaving = pool.leaving_classes.lock();
        let present = pool.sizes();
        let mut vacant = self.vacant_numbers(pool, &leaving);
        let number = |place: usize| {
            let below = place.checked_sub(1).map_or(0, |below| classes.sizes()[below]);
            let kept = present.place_of_size(classes.sizes()[place]);
            let kept = kept.filter(|kept| is_kept(present, *kept, below, seen));
            kept.map(|kept| present.number(kept)).or_else(|| vacant.next())
        };
        let Some(numbers) = (0..classes.sizes().len()).map(number).collect::<Option<Box<[u8]>>>() else {
            return false;
        };
        drop(vacant);
        let sizes = Sizes::numbered(classes, numbers);
        self.ledger.charge(Part::Fixed, sizes.table_bytes() as u64);
        let Some(before) = pool.swap_sizes(sizes) else { return false };
        let grace = self.pools.grace();
        let goes = |(place, size): (usize, &u32)| {
            let number = before.number(place);
            let grace = Some(grace.clone());
            pool.is_class_leaving(number).then_some(LeavingClass { number, chunk_bytes: *size, grace })
        };
        pool.upkeep.note_tuning();
        leaving.extend(before.sizes().iter().enumerate().filter_map(goes));
        self.pools.retire(Remains::Sizes(before));
        true
    }

    /// The numbers that no class of the pool has or had a moment ago.
    fn vacant_numbers<'a>(
        &'a self,
        pool: &'a Pool,
        leaving: &'a [LeavingClass],
    ) -> Box<dyn Iterator<Item = u8> + 'a> {
        let in_use = |number: u8| {
            pool.used_class(number).is_some()
                || pool.sizes().place_of(number).is_some()
                || leaving.iter().any(|class| class.number == number)
                || self.pools.has_retired_class(pool.number, number)
        };
        Box::new((0..MOST_CLASSES as u8).filter(move |number| !in_use(*number)))
    }

    /// The class for a slab of the pool that another process left: one that the pool allocates
    /// from, or one that leaves. `None`: there are too many.
    pub(crate) fn class_for_found<'p>(&self, pool: &'p Pool, chunk_bytes: u32) -> Option<&'p Class> {
        let sizes = pool.sizes();
        if let Some(place) = sizes.place_of_size(chunk_bytes) {
            return Some(self.class_at(pool, sizes, place));
        }
        let mut leaving = pool.leaving_classes.lock();
        let number = match number_of_leaving(&leaving, chunk_bytes) {
            Some(number) => number,
            None => {
                let number = self.vacant_numbers(pool, &leaving).next()?;
                leaving.push(LeavingClass { number, chunk_bytes, grace: None });
                pool.upkeep.note_tuning();
                number
            }
        };
        Some(self.class_numbered(pool, number, chunk_bytes))
    }

    /// Empties the classes that the pool allocates from no more, with the pool's `resizing` given
    /// back after each slab's worth of runs. Returns how many bytes they have left.
    fn empty_all_leaving(&self, pool: &Pool, taking: &mut Taking) -> u64 {
        let mut before = u64::MAX;
        loop {
            let resizing = pool.resizing.lock();
            let mut one_slab = SLAB_BYTES as u64;
            let left = self.empty_leaving(pool, &mut one_slab, taking);
            drop(resizing);
            if left == 0 || left >= before {
                return left;
            }
            before = left;
            pool.resizing.let_lookers_have_it();
        }
    }

    /// Empties runs of classes that the pool allocates from no more until they total `left` bytes,
    /// and takes out the classes that have none. The caller holds the pool's `resizing`. Returns
    /// how many bytes the classes have left.
    fn empty_leaving(&self, pool: &Pool, left: &mut u64, taking: &mut Taking) -> u64 {
        let mut leaving = std::mem::take(&mut *pool.leaving_classes.lock());
        leaving.retain_mut(|class| !self.empty_class(pool, class, left, taking));
        let bytes_of = |class: &LeavingClass| {
            pool.used_class(class.number).map_or(0, |class| class.inner.lock().chunks.bytes())
        };
        let bytes_left = leaving.iter().map(bytes_of).sum();
        if !leaving.is_empty() {
            pool.upkeep.note_tuning();
        }
        pool.leaving_classes.lock().extend(leaving);
        bytes_left
    }

    /// Empties runs of a class until `left` bytes have come, and takes the class out when it has
    /// none. `true`: its number is free, or will be.
    fn empty_class(
        &self,
        pool: &Pool,
        leaving: &mut LeavingClass,
        left: &mut u64,
        taking: &mut Taking,
    ) -> bool {
        if leaving.grace.as_mut().is_some_and(|grace| !self.pools.has_passed(grace)) {
            return false;
        }
        let Some(class) = pool.used_class(leaving.number) else { return true };
        let runs: Vec<Run> = class.inner.lock().chunks.runs().collect();
        for run in runs {
            if *left == 0 {
                return false;
            }
            // What held items keep is for another round.
            if self.try_to_release(pool, class, run, taking) {
                *left = left.saturating_sub(run.bytes());
            }
        }
        self.retire_if_idle(pool, class)
    }
}

/// Most classes of a pool.
const MOST_CLASSES: usize = slab::classes::MAX_CLASSES;

/// Returns whether the class at a place of `present` stays, if a class of `below` bytes is to come
/// below it: not if many of its items would then be in the wrong one.
fn is_kept(present: &Sizes, place: usize, below: u32, seen: &SizeHistogram) -> bool {
    let (size, lowest) =
        (present.sizes()[place], place.checked_sub(1).map_or(0, |below| present.sizes()[below]));
    let fit_below = seen.items_between(lowest, below);
    fit_below * MOVES_FOR_ONE_THAT_STAYS <= seen.items_between(lowest, size)
}

/// A class is given up if more than one of this many of its items would fit into a smaller one.
const MOVES_FOR_ONE_THAT_STAYS: u64 = 20;

fn number_of_leaving(leaving: &[LeavingClass], chunk_bytes: u32) -> Option<u8> {
    leaving.iter().find(|class| class.chunk_bytes == chunk_bytes).map(|class| class.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSize, CacheConfig, ItemOptions, PoolConfig};

    #[test]
    fn a_class_that_leaves_is_given_no_memory_back() {
        let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
        let cache = Cache::new(config).expect("a cache");
        let id = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        for key in 0..100_u32 {
            let item = cache.allocate(id, &key.to_le_bytes(), 1_000, &ItemOptions::default()).expect("room");
            cache.put(item);
        }
        let core = cache.core();
        let pool = core.pool(id).expect("added");
        let (number, class) = pool.used_classes().next().expect("one has the items");
        let bytes = || class.inner.lock().chunks.bytes();
        let grows = || {
            let before = bytes();
            core.give_back_to(&pool, number, 1 << 16);
            bytes() > before
        };
        assert!(grows(), "while it stays");
        assert!(core.change_sizes(&pool, &[512, 4096], &SizeHistogram::new()));
        assert!(pool.is_class_leaving(number) && !grows());
        cache.validate();
    }
}
