//! More memory for a class: runs of whole slabs or of units, within the limits of the pool and the
//! cache.
//!
//! A run is charged before it is assigned, and only if the metadata of its items finds room too.

use std::sync::atomic::Ordering;

use base::Part;
use evict::PolicyKind;
use index::Index;
use slab::run::{UNIT_BYTES, UNIT_TABLE_BYTES, UNITS, least_units, units_to_grow};
use slab::{Run, SLAB_BYTES, SlabInfo};

use super::metadata_of;
use crate::cache::Core;
use crate::class::{Class, Inner, RUNS_ADDED};
use crate::pool::Pool;
use crate::rebalance::step_for;

impl Core {
    /// Returns whether a class that got no run may get one by [`Self::feed`].
    pub(crate) fn could_have_more(&self, pool: &Pool, inner: &Inner) -> bool {
        // Most classes have more than moves at a time, and need not be told what that is of the
        // pool's classes.
        let has = inner.chunks.bytes();
        (has < step_for(pool.slab_bytes()) && has < pool.least_share())
            || pool.has_room_for(UNIT_BYTES as u64) && self.arena.free_unit_bytes() >= SLAB_BYTES as u64
    }

    /// Gives a class that evicts more memory. If free units that make a slab lie apart, for which
    /// there is no metadata, they are brought together and their slab given back, for runs and
    /// metadata as they come. Else a class is brought up to its least share of the pool
    /// ([`Pool::least_share`]): while there is memory, classes grow with what is stored in them;
    /// one that has many items only later would go on with the little that it had until then.
    #[cold]
    pub(super) fn feed(&self, pool: &Pool, class: &Class) {
        class.is_starved.store(false, Ordering::Relaxed);
        if self.take_vacant(pool, class) {
            return;
        }
        let has = class.inner.lock().chunks.bytes();
        let lacking = pool.least_share().saturating_sub(has);
        let idle = self.arena.free_unit_bytes();
        let Some(turn) = pool.turn_to_move(lacking.max(UNIT_BYTES as u64)) else { return };
        if idle >= SLAB_BYTES as u64 && self.bring_together() {
            pool.note_move(turn);
        } else if lacking > 0 {
            // There may be no room for metadata besides. What gives it is free units, or a slab if
            // those keep their memory.
            let metadata = metadata_of(lacking / u64::from(class.info.chunk_bytes), pool.policy());
            let has_room = self.ledger.total() + self.metadata_to_come() + metadata <= self.ledger.limit();
            let bytes = if has_room {
                lacking
            } else if self.arena.has_bare_units() {
                lacking + metadata
            } else {
                step_for(pool.slab_bytes())
            };
            self.move_within_pool(pool, class, 2, bytes);
        }
    }

    /// The memory that runs can still have, in bytes: what metadata will not take, and free units.
    fn free_for_runs(&self) -> u64 {
        self.ledger.free().saturating_sub(self.metadata_to_come()) + self.arena.free_unit_bytes()
    }

    /// Free memory beyond a tenth of the cache, in bytes. As long as there is some, no pool has
    /// items evicted for another, nor is one held back so that it evicts its own.
    pub(crate) fn idle_bytes(&self) -> u64 {
        let free = self.ledger.free() + self.arena.free_unit_bytes();
        free.saturating_sub(self.ledger.limit() / 10)
    }

    /// Gives a class that has used up its free chunks vacant memory of others, unless it will grow
    /// by as much as it takes at a time.
    #[cold]
    pub(super) fn take_vacant_before_eviction(&self, pool: &Pool, class: &Class) {
        let free = self.free_for_runs();
        // A run needs metadata besides, and the table of a split slab if free units lie apart.
        let needed = 2 * class.bytes_to_take() + UNIT_TABLE_BYTES as u64;
        if free.min(pool.room_bytes()) < needed {
            self.take_vacant(pool, class);
        } else {
            class.is_used_up.store(false, Ordering::Relaxed);
        }
    }

    /// Gives the class one more run of chunks, if the pool's limit and the cache's memory allow: as
    /// much as fits the memory that it has and the remaining memory, or else less.
    pub(crate) fn add_run(&self, pool: &Pool, class: &Class, inner: &mut Inner) -> bool {
        if inner.is_gone || inner.leaving.is_some() || !inner.chunks.has_room_for_run() {
            return false;
        }
        let info = inner.chunks.info();
        let least = least_units(info.chunk_bytes);
        if pool.is_held_back() {
            // Whoever the idle memory was freed for.
            pool.raise_ceiling(self.idle_bytes());
        }
        let free = self.free_for_runs();
        let wanted = units_to_grow(info.chunk_bytes, inner.chunks.bytes(), free.min(pool.room_bytes()));
        let mut units = wanted;
        loop {
            if let Some(run) = self.take_run(pool, info, units, inner.policy.kind()) {
                self.adopt_run(class, inner, run);
                return true;
            }
            if units == least {
                break;
            }
            units = (units / 2).max(least);
        }
        if pool.has_room_for(u64::from(least) * UNIT_BYTES as u64) {
            self.note_short(pool);
        } else {
            pool.set_wants_memory(false);
        }
        false
    }

    /// Gives the class a run of units that are free in split slabs, whatever the cache's limit:
    /// they are on the bill already.
    pub(crate) fn add_units(&self, pool: &Pool, class: &Class, inner: &mut Inner, units: u32) -> bool {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if inner.is_gone || !inner.chunks.has_room_for_run() || !pool.try_add(bytes) {
            return false;
        }
        let Some(run) = self.arena.assign_units(class.info, units) else {
            pool.remove(bytes);
            return false;
        };
        let chunks = u64::from(run.chunks(class.info));
        self.add_chunks(chunks, inner.policy.kind());
        self.adopt_run(class, inner, run);
        true
    }

    /// Gives the class a run that was assigned to it.
    fn adopt_run(&self, class: &Class, inner: &mut Inner, run: Run) {
        inner.chunks.add_run(&self.arena, run);
        inner.filling += u64::from(run.chunks(class.info));
        class.counters.add(RUNS_ADDED, 1);
        class.note_chunks(self, inner);
        inner.settle(self);
    }

    /// Gives the class memory that was taken from another, as far as that is to be had. Returns how
    /// much it got, in bytes.
    pub(crate) fn grow(&self, pool: &Pool, class: &Class, bytes: u64) -> u64 {
        let mut inner = class.inner.lock();
        let had = inner.chunks.bytes();
        while inner.chunks.bytes() < had + bytes && self.add_run(pool, class, &mut inner) {}
        inner.chunks.bytes() - had
    }

    /// A run of `units` for a class of the pool, if its limits, the cache's memory and the
    /// units that are free in a row allow.
    fn take_run(&self, pool: &Pool, info: SlabInfo, units: u32, policy: PolicyKind) -> Option<Run> {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if !pool.try_add(bytes) {
            return None;
        }
        let chunks = u64::from(bytes as u32 / info.chunk_bytes);
        let metadata = metadata_of(chunks, policy);
        let run = if units == UNITS {
            self.take_slab(info, metadata)
        } else {
            self.take_units(info, units, metadata)
        };
        match run {
            Some(_) => self.add_chunks(chunks, policy),
            None => pool.remove(bytes),
        }
        run
    }

    /// A whole slab, with room for the metadata of its items.
    fn take_slab(&self, info: SlabInfo, metadata: u64) -> Option<Run> {
        if !self.charge_slabs(SLAB_BYTES as u64, metadata) {
            return None;
        }
        let run = self.arena.assign(info);
        if run.is_none() {
            self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
        }
        run
    }

    /// Units of a split slab, of one more if those that there are have not as many in a row. If
    /// there is no memory for a whole slab, all units of the new one but these are bare.
    fn take_units(&self, info: SlabInfo, units: u32, metadata: u64) -> Option<Run> {
        if !self.charge_slabs(0, metadata) {
            return None;
        }
        if let Some(run) = self.arena.assign_units(info, units) {
            return Some(run);
        }
        if let Some(run) = self.take_bare_units(info, units, metadata) {
            return Some(run);
        }
        if self.ledger.free() >= SLAB_BYTES as u64 && self.charge_slabs(SLAB_BYTES as u64, metadata) {
            if self.arena.split() {
                return self.arena.assign_units(info, units);
            }
            self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
        }
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if !self.charge_slabs(bytes + UNIT_TABLE_BYTES as u64, metadata) {
            return None;
        }
        let Some(slab) = self.arena.split_bare() else {
            self.ledger.release(Part::Slabs, bytes + UNIT_TABLE_BYTES as u64);
            return None;
        };
        let run = self.assign_charged_units(info, units);
        // Another slab may have got a shorter row meanwhile.
        self.ledger.release(Part::Slabs, self.arena.give_back_if_empty(slab));
        run
    }

    /// Units of a split slab that has bare ones.
    fn take_bare_units(&self, info: SlabInfo, units: u32, metadata: u64) -> Option<Run> {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        if self.arena.bare_bytes() == 0 || !self.charge_slabs(bytes, metadata) {
            return None;
        }
        self.assign_charged_units(info, units)
    }

    /// Units that may be bare, all of which were charged. Those that have memory are on the bill
    /// already.
    fn assign_charged_units(&self, info: SlabInfo, units: u32) -> Option<Run> {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        let assigned = self.arena.assign_bare_units(info, units);
        let spent = assigned.map_or(0, |(_, bytes)| bytes);
        self.ledger.release(Part::Slabs, bytes - spent);
        assigned.map(|(run, _)| run)
    }

    /// Puts memory of slabs on the bill, if there is room for it and for metadata to come, or if
    /// that is to be had from free units.
    fn charge_slabs(&self, bytes: u64, metadata: u64) -> bool {
        let headroom = || self.metadata_to_come() + metadata;
        let charge = || self.ledger.try_charge(Part::Slabs, bytes, headroom());
        if charge() {
            return true;
        }
        let before = self.retired_runs.count();
        if before > 0 && self.free_retired_runs() < before && charge() {
            return true;
        }
        let needed = self.ledger.total() + bytes + headroom();
        let lacking = needed.saturating_sub(self.ledger.limit());
        lacking <= self.arena.free_unit_bytes() && self.release_free_units(lacking) > 0 && charge()
    }

    /// Gives about `bytes` of the memory of free units back to the system. Returns how much it was.
    pub(crate) fn release_free_units(&self, bytes: u64) -> u64 {
        let released = self.arena.release_units(bytes);
        self.ledger.release(Part::Slabs, released);
        released
    }

    /// Notes that there was no memory for a run of the pool.
    fn note_short(&self, pool: &Pool) {
        pool.set_wants_memory(true);
        self.is_short.store(true, Ordering::Release);
    }

    /// Memory that queues, ghosts and index will yet take when all chunks are in use, and what is
    /// kept spare.
    pub(crate) fn metadata_to_come(&self) -> u64 {
        let index = Index::bytes_for(self.chunks.load(Ordering::Relaxed));
        let index = index.saturating_sub(self.ledger.part(Part::Index));
        self.awaited_bytes.load(Ordering::Relaxed) + index + self.spare_bytes()
    }

    /// Returns the number of entries that the index will hold when the cache is full, if its slabs
    /// go on being used as they are.
    pub(crate) fn expected_entries(&self) -> u64 {
        let chunks = self.chunks.load(Ordering::Relaxed);
        let metadata = self.metadata_x100.load(Ordering::Relaxed) / 100;
        let slabs = self.ledger.part(Part::Slabs).max(1);
        let spent = slabs + metadata;
        let others = [Part::Fixed, Part::Connections, Part::Compact]
            .iter()
            .map(|part| self.ledger.part(*part))
            .sum::<u64>();
        let all = self.ledger.limit().saturating_sub(others).max(spent);
        (chunks as u128 * all as u128 / spent as u128) as u64
    }
}
