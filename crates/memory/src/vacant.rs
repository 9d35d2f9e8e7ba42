//! Vacant memory: free chunks of a class beyond those that the class keeps for its own next items.
//!
//! A class grows with what is stored in it, and keeps what it got when its items are removed or
//! expire. If another class then has to evict, the cache would lose items though much of its memory
//! holds none. So each class counts what is vacant in it, a pool and the cache have the sums, and a
//! class that is about to evict takes a run of that first: of its own pool, or if the limits of its
//! pool and of the cache allow it, of another pool that has more than its reserve. The run that
//! leaves is one whose items, if it has any, find room in other free chunks of their class: nothing
//! is evicted for that.
//!
//! A class keeps a sixteenth of its chunks ([`slab::run::vacant_chunks`]), so that what is freed
//! and used again in turn does not go from class to class; and what it got itself, until it has
//! used that or a round of maintenance comes. So what moves is at most what is inserted: into the
//! pool that takes it, as the one that gives may be idle. Whoever lowers a limit, or the cache's
//! memory, takes vacant memory first, too, however much is copied for it: else items would be
//! evicted.
//!
//! Invariants:
//! 1. The sums are those of the classes, whose own counts change under their locks. They may be
//!    older than the free chunks by what changed since the lock was last given back.

pub(crate) mod count;

use std::sync::atomic::Ordering;

use slab::Run;
use slab::run::{bytes_to_take, vacant_bytes, vacant_chunks};

use crate::cache::Core;
use crate::class::{Class, Inner};
use crate::pool::Pool;
use crate::release::{Amount, Taking, Why};

/// Runs of a class in which held items are looked for, at most.
const MOST_LOOKED_AT: usize = 8;
/// Looks for vacant memory that a pool does without after one was in vain.
const AFTER_VAIN: u32 = 64;
/// Number of times that a class takes from others at a time, at most: each gives what it has, which
/// is little in small classes.
const MOST_TAKEN_FROM: usize = 64;
/// Number of times that as much is taken again if it does not make a run: with the metadata of the
/// run's items it may be too little.
const MOST_ROUNDS: u32 = 4;

/// The number of vacant chunks of a class.
fn vacant_in(inner: &Inner) -> u64 {
    let chunks = &inner.chunks;
    vacant_chunks(chunks.info().chunk_bytes, chunks.chunks(), chunks.free_chunks().into(), inner.filling)
}

/// Vacant memory that a class takes, in bytes.
#[derive(Clone, Copy)]
struct Needed {
    /// From several classes, if one has not as much.
    least: u64,
    /// From one class.
    bytes: u64,
}

impl Needed {
    /// Returns what remains after `released` bytes.
    fn without(self, released: u64) -> Self {
        Self { least: self.least.saturating_sub(released), bytes: self.bytes.saturating_sub(released) }
    }
}

/// A demand for vacant memory of a pool.
#[derive(Clone, Copy)]
struct Request {
    needed: Needed,
    /// The class that does not give.
    except: Option<u8>,
    most_bytes: u64,
}

impl Request {
    /// Of what the pool has over its reserve.
    fn over_reserve(pool: &Pool, needed: Needed) -> Self {
        let most_bytes = pool.slab_bytes().saturating_sub(pool.reserve_bytes());
        Self { needed, except: None, most_bytes }
    }
}

impl Class {
    /// Brings the count of its vacant memory up to date.
    pub(crate) fn note_vacant(&self, core: &Core, inner: &Inner) {
        let bytes = vacant_bytes(self.info.chunk_bytes, inner.chunks.chunks(), vacant_in(inner));
        let before = self.vacant_bytes.load(Ordering::Relaxed);
        if bytes != before {
            self.vacant_bytes.store(bytes, Ordering::Relaxed);
            self.upkeep.vacant.change(before, bytes);
            core.vacant.change(before, bytes);
        }
    }

    /// Has what it got a while ago, and has not used yet, count as vacant.
    pub(crate) fn end_filling(&self, core: &Core) {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.filling) > 0 {
            self.note_vacant(core, &inner);
        }
    }

    /// The vacant memory of others that it takes at a time, in bytes.
    pub(crate) fn bytes_to_take(&self) -> u64 {
        bytes_to_take(self.info.chunk_bytes, self.chunks())
    }

    /// Runs of the class that can leave without an eviction, with how many of their chunks are in
    /// use: those of which the smallest part is come first.
    fn vacant_runs(&self, most_bytes: u64) -> Vec<(Run, u32)> {
        let inner = self.inner.lock();
        let vacant = vacant_in(&inner);
        let chunks = |run: &Run| run.chunks(self.info);
        // Its own free chunks leave with it, and its items take as many others as it has used.
        let can_leave = |(run, _): &(Run, u32)| run.bytes() <= most_bytes && u64::from(chunks(run)) <= vacant;
        let mut runs: Vec<_> = inner.chunks.used_of_runs().filter(can_leave).collect();
        drop(inner);
        let used_part = |(run, used): &(Run, u32)| (u64::from(*used) << 32) / u64::from(chunks(run).max(1));
        let first = |run: &(Run, u32)| (used_part(run), std::cmp::Reverse(run.0.units));
        if runs.len() > MOST_LOOKED_AT {
            runs.select_nth_unstable_by_key(MOST_LOOKED_AT, first);
            runs.truncate(MOST_LOOKED_AT);
        }
        runs.sort_by_key(first);
        runs
    }
}

impl Core {
    /// Returns whether there is vacant memory for a class that has no free chunk any more.
    #[inline]
    pub(crate) fn has_vacant(&self) -> bool {
        self.vacant.bytes() > 0
    }

    /// Gives a class that is about to evict vacant memory of others, if there is any. Waits for
    /// nobody. The caller holds no lock. Returns whether the class got some.
    #[cold]
    pub(crate) fn take_vacant(&self, pool: &Pool, class: &Class) -> bool {
        class.is_used_up.store(false, Ordering::Relaxed);
        let may_have_some =
            pool.upkeep.vacant.bytes() > 0 || self.has_vacant() && pool.room_bytes() >= class.least_bytes();
        if !may_have_some || pool.upkeep.vain.does_without() {
            return false;
        }
        let wanted = class.bytes_to_take();
        let mut turns = MOST_TAKEN_FROM;
        for _ in 0..MOST_ROUNDS {
            // Small chunks need more metadata than the large ones whose memory they get.
            let free = self.ledger.free() + self.arena.free_unit_bytes();
            let lacking = self.metadata_to_come().saturating_sub(free);
            let needed = Needed { least: class.least_bytes() + lacking, bytes: wanted + lacking };
            let released = self.release_vacant_for(pool, class, needed, &mut turns);
            if released == 0 {
                break;
            }
            self.free_retired_runs();
            // Others may have the rest, unless the pool has no more than its reserve.
            let is_reserved = pool.slab_bytes() <= pool.reserve_bytes();
            let bytes = if is_reserved { wanted.max(released) } else { wanted };
            if self.grow(pool, class, bytes) > 0 || self.bring_together() && self.grow(pool, class, bytes) > 0
            {
                pool.set_wants_memory(false);
                return true;
            }
        }
        // If it has taken from as many as it may, the next one goes on with that.
        if turns > 0 {
            pool.upkeep.vain.note(AFTER_VAIN);
        }
        false
    }

    /// Has classes of the pool, or of others if its limits allow it more, give back vacant memory
    /// as `needed` for `class`, in at most `turns`. Returns how much it was.
    fn release_vacant_for(&self, pool: &Pool, class: &Class, needed: Needed, turns: &mut usize) -> u64 {
        let of_its_own = Request { needed, except: Some(class.info.class), most_bytes: u64::MAX };
        let mut released = self.release_vacant_of(pool, of_its_own, Some(pool), turns);
        if released >= needed.least || pool.room_bytes().saturating_add(released) < class.least_bytes() {
            return released;
        }
        let pools = self.pools.all();
        let others = pools.iter().filter(|other| other.number != pool.number && !other.is_leaving());
        for other in others {
            let request = Request::over_reserve(other, needed.without(released));
            released += self.release_vacant_of(other, request, Some(pool), turns);
            if released >= needed.least || *turns == 0 {
                break;
            }
        }
        released
    }

    /// Has pools give back about so much vacant memory that they have over their reserves, because
    /// somebody must give some. Evicts nothing, and waits for nobody. Returns how much it was.
    pub(crate) fn release_vacant(&self, bytes: u64) -> u64 {
        if !self.has_vacant() {
            return 0;
        }
        let pools = self.pools.all();
        let mut released = 0;
        for pool in pools.iter().filter(|pool| !pool.is_leaving()) {
            released += self.release_vacant_over_reserve(pool, bytes - released);
            if released >= bytes {
                break;
            }
        }
        released
    }

    /// Has the pool give back about so much vacant memory that it has over its reserve, as
    /// [`Self::release_vacant`]. Returns how much it was.
    pub(crate) fn release_vacant_over_reserve(&self, pool: &Pool, bytes: u64) -> u64 {
        let request = Request::over_reserve(pool, Needed { least: bytes, bytes });
        self.release_vacant_of(pool, request, None, &mut { MOST_TAKEN_FROM })
    }

    /// Has classes of the pool give back vacant memory as `request` says, in at most `turns`.
    /// Passes over a pool in which somebody else takes memory. Returns how much it was.
    fn release_vacant_of(
        &self,
        pool: &Pool,
        request: Request,
        payer: Option<&Pool>,
        turns: &mut usize,
    ) -> u64 {
        if pool.upkeep.vacant.bytes() == 0 || request.most_bytes == 0 {
            return 0;
        }
        let Some(_resizing) = pool.resizing.try_lock() else { return 0 };
        let Request { needed, except, most_bytes } = request;
        let mut taking = Taking::new(Why::Moved, 0);
        let mut released = 0;
        while released < needed.least && *turns > 0 {
            let most_bytes = most_bytes.saturating_sub(released);
            let amount = Amount { bytes: needed.without(released).bytes.min(most_bytes), most_bytes };
            let Some((_, more)) = self.release_vacant_from(pool, except, amount, payer, &mut taking) else {
                break;
            };
            released += more;
            *turns -= 1;
        }
        released
    }

    /// Takes about as much as `amount` says from the class of the pool, other than `except`, in
    /// which most is vacant, or from the next one. If there is a `payer`, no more is copied than
    /// was inserted into it. Evicts nothing, and waits for nobody. Returns the number of the class,
    /// and how much it gave. The caller holds the pool's `resizing`.
    pub(crate) fn release_vacant_from(
        &self,
        pool: &Pool,
        except: Option<u8>,
        amount: Amount,
        payer: Option<&Pool>,
        taking: &mut Taking,
    ) -> Option<(u8, u64)> {
        if pool.upkeep.vacant.bytes() == 0 {
            return None;
        }
        let vacant = |class: &Class| class.vacant_bytes.load(Ordering::Relaxed);
        let mut classes: Vec<&Class> = pool
            .used_classes()
            .map(|(_, class)| class)
            .filter(|class| Some(class.info.class) != except && vacant(class) > 0)
            .collect();
        classes.sort_by_key(|class| std::cmp::Reverse(vacant(class)));
        classes.into_iter().find_map(|class| {
            let released = self.release_vacant_runs(pool, class, amount, payer, taking);
            (released > 0).then_some((class.info.class, released))
        })
    }

    /// Has the class give back runs that can leave without an eviction, of about `amount` together,
    /// as [`Self::release_vacant_from`].
    fn release_vacant_runs(
        &self,
        pool: &Pool,
        class: &Class,
        amount: Amount,
        payer: Option<&Pool>,
        taking: &mut Taking,
    ) -> u64 {
        let mut released = 0;
        while released < amount.bytes {
            let runs = class.vacant_runs(amount.most_bytes - released);
            let is_free =
                |(run, used): &&(Run, u32)| *used == 0 || self.held_in(*run, run.chunks(class.info), 1) == 0;
            let Some((run, used)) = runs.iter().find(is_free) else { break };
            let copied = u64::from(*used) * u64::from(class.info.chunk_bytes);
            let paid = match payer.filter(|_| copied > 0) {
                None => None,
                Some(payer) => {
                    let Some(turn) = payer.turn_to_move(copied) else { break };
                    Some((payer, turn))
                }
            };
            if !self.release_run(pool, class, *run, taking) {
                break;
            }
            if let Some((payer, turn)) = paid {
                payer.note_move(turn);
            }
            pool.slabs_moved.fetch_add(1, Ordering::Relaxed);
            released += run.bytes();
        }
        released
    }
}
