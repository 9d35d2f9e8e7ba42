//! Memory for a class from other classes of its pool.

use std::sync::atomic::Ordering;

use slab::run::UNIT_TABLE_BYTES;

use crate::cache::Core;
use crate::class::{BYTES_IN, Class};
use crate::pool::Pool;
use crate::release::{Amount, Taking, Why};

/// Number of times that other classes are asked for memory for an item that would be refused.
const MOST_GIVERS: u32 = 64;
/// Moves of memory within a pool that allocations may make as fast as they like.
const FREE_MOVES: u64 = 64;

impl Pool {
    /// Returns, if an allocation may move about this many bytes now, the bytes that were inserted
    /// until then, for [`Self::note_move`].
    pub(crate) fn turn_to_move(&self, bytes: u64) -> Option<u64> {
        let of_classes: u64 = self.used_classes().map(|(_, class)| class.counters.sum(BYTES_IN)).sum();
        let inserted = of_classes + self.past_bytes_in.load(Ordering::Relaxed);
        let (count, inserted_before) = *self.moves.lock();
        (count < FREE_MOVES || inserted >= inserted_before + bytes).then_some(inserted)
    }

    /// Notes that an allocation has moved memory, in a turn that it was given.
    pub(crate) fn note_move(&self, turn: u64) {
        let mut moves = self.moves.lock();
        *moves = (moves.0 + 1, turn);
    }
}

impl Core {
    /// Takes about this many bytes from another class than `class`, one of at least `least_runs`
    /// runs, for an allocation. A move empties a whole run, so that after the first [`FREE_MOVES`]
    /// there is one for each time as many bytes were inserted.
    ///
    /// Does not wait, neither for another thread that takes memory nor for held items: the caller
    /// may hold some itself.
    pub(crate) fn move_within_pool(&self, pool: &Pool, class: &Class, least_runs: usize, bytes: u64) -> bool {
        let least = class.least_bytes();
        let bytes = least.max(bytes);
        let Some(turn) = pool.turn_to_move(bytes) else { return false };
        let before = pool.slab_bytes();
        let giver = {
            let Some(_resizing) = pool.resizing.try_lock() else { return false };
            let mut taking = Taking::new(Why::Moved, 0);
            let amount = Amount::about(bytes);
            self.take_bytes(pool, Some(class.info.class), least_runs, amount, &mut taking)
        };
        if let Some(giver) = giver {
            self.wait_for_retired_runs();
            // All of it, so that no other pool has what may be this one's reserve.
            let taken = before.saturating_sub(pool.slab_bytes());
            if self.grow(pool, class, taken) == 0 && self.bring_together() {
                self.grow(pool, class, taken);
            }
            // The rest may be too short a row for this class, but not for the one that it comes
            // from.
            let left = before.saturating_sub(pool.slab_bytes());
            if left > 0 {
                self.give_back_to(pool, giver, left);
            }
            pool.slabs_moved.fetch_add(1, Ordering::Relaxed);
            pool.note_move(turn);
        }
        giver.is_some()
    }

    /// Takes memory for `class`, which has none that it can use, from other classes of the pool
    /// until it gets a run, however often memory was moved lately; or, if that is not enough, from
    /// other pools that should give, all of it or what is lacking: else an item would be refused.
    /// Does not wait, as [`Self::move_within_pool`]. Returns whether the class got one.
    pub(crate) fn insist_on_run(&self, pool: &Pool, class: &Class) -> bool {
        let least = class.least_bytes();
        // So that all that is given is for the class.
        self.find_room(self.metadata_to_come() + UNIT_TABLE_BYTES as u64);
        self.wait_for_retired_runs();
        // If all that the pool has would not do, its items would leave in vain.
        let lacking = least.saturating_sub(pool.slab_bytes());
        lacking == 0 && self.move_until_grown(pool, class, least)
            || self.reclaim_bytes(pool, least, least) && self.grow(pool, class, least) > 0
            || lacking > 0
                && self.reclaim_bytes(pool, lacking, lacking)
                && self.move_until_grown(pool, class, least)
    }

    /// Takes this many bytes at a time from the largest other classes of the pool, until this one
    /// gets a run.
    fn move_until_grown(&self, pool: &Pool, class: &Class, bytes: u64) -> bool {
        let before = pool.slab_bytes();
        let mut taking = Taking::new(Why::Moved, 0);
        let mut giver = None;
        // One class may not have as much, and what it gave may lie apart.
        let has_grown = (0..MOST_GIVERS).map_while(|_| {
            let resizing = pool.resizing.try_lock()?;
            giver =
                Some(self.take_bytes(pool, Some(class.info.class), 1, Amount::about(bytes), &mut taking)?);
            drop(resizing);
            let is_free = self.wait_for_retired_runs();
            let has_grown = self.grow(pool, class, bytes) > 0;
            // What readers keep is of no use yet, nor would more be.
            (has_grown || is_free).then_some(has_grown)
        });
        let has_grown = has_grown.into_iter().any(|grew| grew);
        let left = before.saturating_sub(pool.slab_bytes());
        if let Some(giver) = giver.filter(|_| left > 0) {
            self.give_back_to(pool, giver, left);
        }
        pool.slabs_moved.fetch_add(u64::from(has_grown), Ordering::Relaxed);
        has_grown
    }

    /// Gives the class with this number memory that was taken from it, unless it leaves: then it
    /// may be gone in a moment, with what it was given. Nor if somebody else is at work in the
    /// pool.
    pub(crate) fn give_back_to(&self, pool: &Pool, number: u8, bytes: u64) {
        let Some(_resizing) = pool.resizing.try_lock() else { return };
        if !pool.is_class_leaving(number)
            && let Some(class) = pool.used_class(number)
        {
            self.grow(pool, class, bytes);
        }
    }
}
