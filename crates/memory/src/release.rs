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
//! runs together that one operation tries until it gets one, and [`taking::WAITS_IN_ALL`] in one
//! operation or round; after that only runs are tried in which nothing is held. What a
//! [`crate::Lifecycle`] keeps is not waited for at all.

mod retired;
mod taking;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use retired::RetiredRuns;
pub(crate) use taking::{Amount, MOVE_WAITS, Taking, WAIT, WAITS, Why};

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use base::Part;
use evict::PolicyKind;
use slab::item::Claim;
use slab::run::{FREE_UNITS, UNIT_BYTES, UNITS};
use slab::{ItemPtr, Run, SlabId, Withheld};

use self::retired::RetiredRun;
use self::taking::FEW_HELD;
use crate::cache::Core;
use crate::class::{
    Class, EVICTIONS, LIMIT_EVICTIONS, MOVE_EVICTIONS, RELEASES_ABORTED, RUNS_RELEASED, SHIFT_EVICTIONS,
};
use crate::lifecycle::RemovalCause;
use crate::pool::Pool;

/// Chunks that are looked at under one hold of a class's lock.
const STEP: usize = 64;
/// Runs of a class among which one to release is chosen, at most.
const MOST_LOOKED_AT: usize = 64;
/// Looks whether the readers of a slab have gone that are taken at once, before others are left to
/// do so.
const SPINS: u32 = 200;
/// Number of times that an operation sleeps at its end while readers are at slabs that it took, and
/// how long each time.
const READER_WAITS: u32 = 50;

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

    /// The same with one run, unless too much of it is held, so that an attempt would be in vain.
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

    /// Returns the number of items that are held, or being made, in the first `used` chunks of a
    /// run, up to `most`. Takes no lock.
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
            if class.hooks.is_some() && self.has_idle_items(run, used) {
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
        class.note_chunks(self, &inner);
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

    /// Returns whether the run has items in the index that nobody holds. Takes no lock.
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
            let hooks = class.hooks.as_deref();
            // SAFETY: the item was in the index or in a chain with the lock of the class held,
            // which this thread still holds (invariant 5 of `magazine`).
            unsafe {
                if item.is_link() {
                    if self.claim_by_link(item, hooks) == Claim::Taken {
                        parents.extend(self.parent_of_claimed(ptr));
                    }
                } else if self.may_evict(hooks, ptr) && inner.claim(self, ptr).is_ok() {
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
