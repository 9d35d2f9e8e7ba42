//! Split slabs: runs of their units, and units that have no memory.
//!
//! A slab is split whole if there is memory for it. Otherwise its units are *bare* at first: they
//! have no memory, and nobody is charged for them, until they are assigned. Free units become bare
//! again if their memory is wanted elsewhere ([`Arena::release_units`]). So the last part of a
//! limit, less than a slab, can be used, and memory that lies apart is not lost. Pages larger than
//! units, of `hugetlbfs`, cannot be taken apart: there slabs are whole.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use rustix::mm::{self, Advice};

use super::{Arena, SPLIT, SlabInfo};
use crate::ptr::SlabId;
use crate::run::{FREE_UNITS, Run, RunId, TABLE_UNITS, UNIT_BYTES, UNIT_TABLE_BYTES, UNITS};
use crate::units::Units;
use crate::{MIN_CHUNK_BYTES, SLAB_BYTES};

/// A split slab at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitSlab {
    /// The slab.
    pub slab: SlabId,
    /// Memory of its free units, in bytes.
    pub free_bytes: u64,
    /// Memory of its runs, in bytes.
    pub used_bytes: u64,
}

impl Arena {
    /// Finds which units of a split slab are free, of which the last process may have died in the
    /// middle of giving some back. They are bare, if units can be. `false`: nothing is in it, or it
    /// has more than `most_bytes`, or there is no memory for it.
    pub(super) fn find_units(&self, slab: SlabId, most_bytes: u64) -> bool {
        if !self.reserve_part(slab, 0, UNIT_TABLE_BYTES) {
            return false;
        }
        let runs = self.runs_in(slab);
        let mut is_free = [true; UNITS as usize];
        for (run, _) in &runs {
            is_free[run.id.unit() as usize..][..run.units as usize].fill(false);
        }
        let free: Vec<u32> = (TABLE_UNITS..UNITS).filter(|unit| is_free[*unit as usize]).collect();
        for unit in &free {
            self.unit_table(slab).words[*unit as usize].store(0, Ordering::Relaxed);
        }
        let bytes_in_use = u64::from(UNITS - free.len() as u32) * UNIT_BYTES as u64;
        if runs.is_empty() || bytes_in_use > most_bytes {
            return false;
        }
        let runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
        self.keep_bare(slab, &runs, &free)
            || most_bytes >= SLAB_BYTES as u64 && self.keep_whole(slab, &runs, &free)
    }

    /// Has the runs of a split slab that was found have memory, and no other unit.
    fn keep_bare(&self, slab: SlabId, runs: &[Run], free: &[u32]) -> bool {
        let reserve =
            |run: &Run| self.reserve_part(slab, run.id.unit() as usize * UNIT_BYTES, run.bytes() as usize);
        let rows = free.chunk_by(|a, b| a + 1 == *b);
        let mut release = rows.map(|row| self.release_part(slab, row[0], row.len() as u32));
        if !(self.has_bare_units() && runs.iter().all(reserve) && release.all(|is_done| is_done)) {
            return false;
        }
        let mut units = self.units.lock();
        units.add_bare(slab);
        runs.iter().for_each(|run| units.take_bare(slab, run.id.unit(), run.units));
        self.note_free(&units);
        true
    }

    /// Has all units of a split slab that was found have memory.
    fn keep_whole(&self, slab: SlabId, runs: &[Run], free: &[u32]) -> bool {
        if !self.reserve_memory(slab) {
            return false;
        }
        for unit in free {
            // SAFETY: the unit lies within the slab and so within the mapping (invariant 6 of
            // `arena`), has memory (invariant 4), and belongs to nobody: it is in no run.
            unsafe { self.slab_start(slab).add(*unit as usize * UNIT_BYTES).write_bytes(0, UNIT_BYTES) };
        }
        let mut units = self.units.lock();
        units.add(slab);
        runs.iter().for_each(|run| units.take_these(slab, run.id.unit(), run.units));
        self.note_free(&units);
        true
    }

    /// Splits a free slab, so that runs can be made of its units. `false`: none is free, or the
    /// file system has no room for it.
    pub fn split(&self) -> bool {
        let Some(slab) = self.take_slab() else { return false };
        self.word(slab).store(SPLIT, Ordering::Release);
        let mut free = self.units.lock();
        free.add(slab);
        self.note_free(&free);
        true
    }

    /// Returns whether units can be without memory while others of their slab have some: the pages
    /// of memory, or of the file, are no larger than a unit.
    pub fn has_bare_units(&self) -> bool {
        self.page_bytes <= UNIT_BYTES
    }

    /// Splits a free slab of which the table alone is given memory: its units are bare. `None`: as
    /// for [`Self::split`], or units cannot be bare.
    pub fn split_bare(&self) -> Option<SlabId> {
        if !self.has_bare_units() {
            return None;
        }
        let slab = self.take_untouched(false, UNIT_TABLE_BYTES)?;
        self.advise_huge_pages(slab, false);
        self.word(slab).store(SPLIT, Ordering::Release);
        let mut free = self.units.lock();
        free.add_bare(slab);
        self.note_free(&free);
        Some(slab)
    }

    /// Assigns `units` neighbouring units of a split slab, or returns `None` if no slab has as many
    /// in a row. Locks the list of free units.
    ///
    /// # Panics
    /// If no chunk fits.
    pub fn assign_units(&self, info: SlabInfo, units: u32) -> Option<Run> {
        assert!(
            info.chunk_bytes >= MIN_CHUNK_BYTES && info.chunk_bytes as usize <= units as usize * UNIT_BYTES
        );
        let mut free = self.units.lock();
        let (slab, first) = free.take(units)?;
        let run = Run { id: RunId::at_unit(slab, first), units };
        // Under the lock, so that a thread which empties the slab ([`Self::withdraw`]) sees the
        // run.
        self.mark(run, info);
        self.note_free(&free);
        Some(run)
    }

    /// The same with units of which some are bare, which are given memory. Returns of how many
    /// bytes.
    ///
    /// # Panics
    /// If no chunk fits.
    pub fn assign_bare_units(&self, info: SlabInfo, units: u32) -> Option<(Run, u64)> {
        assert!(
            info.chunk_bytes >= MIN_CHUNK_BYTES && info.chunk_bytes as usize <= units as usize * UNIT_BYTES
        );
        let mut free = self.units.lock();
        let (slab, first, bare) = free.take_with_bare(units)?;
        let reserve = |(first, len): &(u32, u32)| {
            self.reserve_part(slab, *first as usize * UNIT_BYTES, *len as usize * UNIT_BYTES)
        };
        if !bare.iter().all(reserve) {
            bare.iter().for_each(|(first, len)| {
                self.release_part(slab, *first, *len);
            });
            free.give_back_with_bare(slab, first, units, &bare);
            self.note_free(&free);
            return None;
        }
        let run = Run { id: RunId::at_unit(slab, first), units };
        self.mark(run, info);
        self.note_free(&free);
        if free.bare_of(slab) == 0 {
            self.advise_huge_pages(slab, true);
        }
        Some((run, bare.iter().map(|(_, len)| u64::from(*len) * UNIT_BYTES as u64).sum()))
    }

    /// Makes free units of about `bytes` bytes bare, so that their memory goes back to the system.
    /// Returns the number of bytes given back.
    pub fn release_units(&self, bytes: u64) -> u64 {
        let mut released = 0;
        while released < bytes && self.has_bare_units() {
            let most = (bytes - released).div_ceil(UNIT_BYTES as u64).min(u64::from(UNITS)) as u32;
            let mut free = self.units.lock();
            let Some((slab, rows)) = free.take_to_bare(most) else { break };
            self.note_free(&free);
            drop(free);
            self.advise_huge_pages(slab, false);
            let mut is_done = true;
            for (first, units) in rows {
                let is_bare = self.release_part(slab, first, units);
                let mut free = self.units.lock();
                if is_bare {
                    free.give_bare(slab, first, units);
                    released += u64::from(units) * UNIT_BYTES as u64;
                } else {
                    free.give_free(slab, first, units);
                    is_done = false;
                }
                self.note_free(&free);
            }
            released += self.give_back_if_empty(slab);
            if !is_done {
                break;
            }
        }
        released
    }

    /// Gives a split slab back if nothing of it is in use. Returns the memory that it had yet, in
    /// bytes.
    pub fn give_back_if_empty(&self, slab: SlabId) -> u64 {
        let mut free = self.units.lock();
        if !free.is_empty(slab) {
            return 0;
        }
        let units = free.forget(slab);
        self.note_free(&free);
        self.give_back_split(free, slab, units)
    }

    /// Gives back a split slab, `units` of whose units had memory, which was just taken out of
    /// those that `free` protects. Returns how much memory the slab had with its table, in bytes.
    pub(super) fn give_back_split(&self, free: MutexGuard<'_, Units>, slab: SlabId, units: u32) -> u64 {
        self.word(slab).store(0, Ordering::Release);
        drop(free);
        if units < FREE_UNITS {
            self.advise_huge_pages(slab, true);
        }
        self.give_back_slab(slab);
        u64::from(units + TABLE_UNITS) * UNIT_BYTES as u64
    }

    /// Lets some units of a split slab, which are nobody's, read as zeros and have no memory.
    /// Returns whether they do.
    fn release_part(&self, slab: SlabId, first: u32, units: u32) -> bool {
        let advice = if self.shared.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: the units lie within the slab and so within the mapping (invariant 6 of `arena`),
        // and belong to nobody: they are in no run, and the caller has taken them (invariant 2).
        unsafe {
            let start = self.slab_start(slab).add(first as usize * UNIT_BYTES);
            mm::madvise(start.as_ptr().cast(), units as usize * UNIT_BYTES, advice).is_ok()
        }
    }

    /// Says whether a slab may have large pages, if they were asked for: one that has bare units
    /// may not, as a large page would give memory to those. A refusal only means small pages, or
    /// more memory than need be.
    fn advise_huge_pages(&self, slab: SlabId, may_have: bool) {
        if self.huge_pages {
            let advice = if may_have { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // SAFETY: the slab lies within the mapping (invariant 6 of `arena`), and the advice
            // changes no byte.
            let _ = unsafe { mm::madvise(self.slab_start(slab).as_ptr().cast(), SLAB_BYTES, advice) };
        }
    }

    /// Memory that bare units would have, in bytes. Takes no lock.
    pub fn bare_bytes(&self) -> u64 {
        self.bare_units.load(Ordering::Relaxed) * UNIT_BYTES as u64
    }

    pub(super) fn bare_units_of(&self, slab: SlabId) -> u32 {
        self.units.lock().bare_of(slab)
    }

    /// Memory of slabs that are assigned or split, tables included, and bare units not, in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.assigned_slabs()) * SLAB_BYTES as u64 - self.bare_bytes()
    }

    /// Free memory of split slabs, in bytes, without bare units, which have none. Takes no lock.
    pub fn free_unit_bytes(&self) -> u64 {
        self.free_units.load(Ordering::Relaxed) * UNIT_BYTES as u64
    }

    /// The caller has the lock of `units`, and has changed them.
    pub(super) fn note_free(&self, units: &Units) {
        self.free_units.store(units.free(), Ordering::Relaxed);
        self.bare_units.store(units.bare(), Ordering::Relaxed);
    }

    /// Returns the number of split slabs.
    pub fn split_slabs(&self) -> usize {
        self.units.lock().slabs()
    }

    /// The split slabs, those first of which least is in use; without those that are withdrawn.
    pub fn emptiest_split_slabs(&self) -> Vec<SplitSlab> {
        let slabs = self.units.lock().emptiest();
        let bytes = |units: u32| u64::from(units) * UNIT_BYTES as u64;
        let split = |(slab, free, used)| SplitSlab { slab, free_bytes: bytes(free), used_bytes: bytes(used) };
        slabs.into_iter().map(split).collect()
    }

    /// Returns the numbers of free units, with memory and bare, of a split slab that is withdrawn
    /// ([`Self::withdraw`]); `None` for any other slab.
    pub fn free_units_of_withdrawn(&self, slab: SlabId) -> Option<(u32, u32)> {
        self.units.lock().free_of_withdrawn(slab)
    }

    /// Has no more runs be made of a split slab's units, so that it can be emptied, or has them be
    /// made again. Returns its runs.
    pub fn withdraw(&self, slab: SlabId, is_withdrawn: bool) -> Vec<(Run, SlabInfo)> {
        let mut free = self.units.lock();
        free.withdraw(slab, is_withdrawn);
        let is_split = self.word(slab).load(Ordering::Acquire) == SPLIT;
        if is_split { self.runs_in(slab) } else { Vec::new() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Shared;

    fn info(chunk_bytes: u32) -> SlabInfo {
        SlabInfo { chunk_bytes, pool: 513, class: 7, keyspace: 9 }
    }

    #[test]
    fn runs_share_a_split_slab_and_leave_it_as_it_was() {
        let arena = Arena::reserve(1, false).expect("address space");
        assert_eq!(arena.assign_units(info(64), 1), None, "no slab is split");
        assert!(arena.split() && !arena.split());
        let (a, b) = (arena.assign_units(info(64), 4), arena.assign_units(info(96), 3));
        let (a, b) = (a.expect("free"), b.expect("free"));
        assert_eq!((arena.info(a.id), arena.info(b.id), arena.assigned_slabs()), (info(64), info(96), 1));
        // Every chunk is one of its run, and none overlaps another.
        let mut places = Vec::new();
        for run in [a, b] {
            for number in 0..run.chunks(arena.info(run.id)) {
                let (item, of) = arena.item(run.chunk(number));
                assert_eq!((of, arena.info_of(run.chunk(number))), (arena.info(run.id), of));
                places.push((std::ptr::from_ref(item.state()) as usize, of.chunk_bytes as usize));
                item.state().set_bits_for_test(0xffff_ffff);
            }
        }
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert_eq!(places.len(), 4 * 64 + 3 * 4096 / 96);
        let before = arena.free_unit_bytes();
        // SAFETY: the only user of the chunks is this test, which is done with them (invariant 3 of
        // `arena`).
        assert_eq!(unsafe { arena.give_back(a) }, 0);
        assert_eq!(arena.free_unit_bytes() - before, a.bytes());
        let again = arena.assign_units(info(64), 4).expect("free again");
        assert_eq!(again, a);
        assert!((0..256).all(|number| arena.item(a.chunk(number)).0.state().bits_for_test() == 0));
        // SAFETY: the only user of the chunks is this test, which is done with them (invariant 3 of
        // `arena`).
        assert_eq!(unsafe { (arena.give_back(b), arena.give_back(again)) }, (0, SLAB_BYTES as u64));
        assert_eq!((arena.assigned_slabs(), arena.split_slabs(), arena.free_unit_bytes()), (0, 0, 0));
        assert!(arena.assign(info(64)).is_some());
    }

    #[test]
    fn a_withdrawn_slab_tells_its_runs_and_makes_no_more() {
        let arena = Arena::reserve(2, false).expect("address space");
        assert!(arena.split());
        let run = arena.assign_units(info(64), 2).expect("free");
        let SplitSlab { slab, free_bytes, used_bytes } = arena.emptiest_split_slabs()[0];
        assert_eq!((free_bytes, used_bytes), (arena.free_unit_bytes(), run.bytes()));
        assert_eq!(arena.withdraw(slab, true), [(run, info(64))]);
        assert_eq!(arena.assign_units(info(64), 2), None);
        arena.withdraw(slab, false);
        assert!(arena.assign_units(info(64), 2).is_some());
    }

    #[test]
    fn a_split_slab_of_which_nothing_is_used_is_given_back() {
        let arena = Arena::reserve(2, true).expect("address space");
        let (first, second) = (arena.split_bare().expect("one"), arena.split_bare().expect("another"));
        let (run, _) = arena.assign_bare_units(info(64), 4).expect("bare ones");
        let (used, unused) = if run.id.slab() == first { (first, second) } else { (second, first) };
        assert_eq!(arena.give_back_if_empty(used), 0);
        assert_eq!(arena.give_back_if_empty(unused), UNIT_TABLE_BYTES as u64);
        assert_eq!(arena.bytes(), UNIT_TABLE_BYTES as u64 + 4 * UNIT_BYTES as u64);
        assert!(arena.split_bare().is_some(), "it is free again");
    }

    #[test]
    fn bare_units_are_given_memory_once_and_only_free_ones_lose_it() {
        let arena = Arena::reserve(3, true).expect("address space");
        assert!(arena.split_bare().is_some());
        let unit = UNIT_BYTES as u64;
        let (table, all) = (UNIT_TABLE_BYTES as u64, u64::from(FREE_UNITS) * unit);
        assert_eq!((arena.bytes(), arena.bare_bytes(), arena.free_unit_bytes()), (table, all, 0));
        assert_eq!(arena.assign_units(info(64), 1), None, "no free unit has memory");
        let (a, bytes) = arena.assign_bare_units(info(64), 4).expect("bare ones");
        assert_eq!((bytes, arena.bytes()), (4 * unit, table + 4 * unit));
        let (b, _) = arena.assign_bare_units(info(64), 2).expect("bare ones");
        arena.item(a.chunk(9)).0.state().set_bits_for_test(5);
        arena.item(b.chunk(9)).0.state().set_bits_for_test(6);
        // SAFETY: the only user of the chunks is this test, which is done with them (invariant 3 of
        // `arena`).
        assert_eq!(unsafe { arena.give_back(a) }, 0);
        assert_eq!((arena.free_unit_bytes(), arena.bytes()), (4 * unit, table + 6 * unit));
        assert_eq!(arena.release_units(unit + 1), 2 * unit, "no more than was asked for");
        assert_eq!(arena.release_units(SLAB_BYTES as u64), 2 * unit, "no more than there is");
        assert_eq!((arena.free_unit_bytes(), arena.bytes()), (0, table + 2 * unit));
        assert_eq!(arena.item(b.chunk(9)).0.state().bits_for_test(), 6);
        let (again, bytes) = arena.assign_bare_units(info(64), 4).expect("bare again");
        assert_eq!((again, bytes), (a, 4 * unit));
        assert_eq!(arena.item(a.chunk(9)).0.state().bits_for_test(), 0);
        // SAFETY: the only user of the chunks is this test, which is done with them (invariant 3 of
        // `arena`).
        assert_eq!(unsafe { (arena.give_back(b), arena.give_back(a)) }, (0, table + 6 * unit));
        assert_eq!((arena.bytes(), arena.bare_bytes(), arena.split_slabs()), (0, 0, 0));
    }

    #[test]
    fn a_row_of_bare_units_and_others_is_given_memory_where_it_has_none() {
        let arena = Arena::reserve(1, false).expect("address space");
        assert!(arena.split());
        let half = arena.assign_units(info(64), FREE_UNITS / 2).expect("free");
        let unit = UNIT_BYTES as u64;
        assert_eq!(arena.release_units(100 * unit), 100 * unit);
        let rest = FREE_UNITS - FREE_UNITS / 2;
        assert_eq!(arena.assign_units(info(64), rest), None);
        let (run, bytes) = arena.assign_bare_units(info(64), rest).expect("a row");
        assert_eq!((bytes, arena.bytes()), (100 * unit, SLAB_BYTES as u64));
        // SAFETY: none of the chunks was ever used, so that nobody can reach one (invariant 3 of
        // `arena`).
        assert_eq!(unsafe { (arena.give_back(half), arena.give_back(run)) }, (0, SLAB_BYTES as u64));
    }

    #[test]
    fn a_shared_arena_finds_its_runs() {
        let folder = std::env::temp_dir().join(format!("millpond-arena-runs-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let open = || Arena::open(Shared::open(&folder).expect("opens"), 4, 16 << 20, false).expect("maps");
        let arena = open();
        assert!(arena.split());
        let runs = [(64, 1), (64, 2), (3000, 3)]
            .map(|(chunk, units)| (arena.assign_units(info(chunk), units).expect("free"), info(chunk)));
        let whole = arena.assign(info(64)).expect("free");
        for (run, _) in runs {
            arena.item(run.chunk(1)).0.state().set_bits_for_test(5);
        }
        // A process that dies as it gives a run back leaves its memory as it is.
        let words = &arena.unit_table(runs[1].0.id.slab()).words[runs[1].0.id.unit() as usize..];
        words[0].store(0, Ordering::Relaxed);
        let free = arena.free_unit_bytes();
        drop(arena);
        let arena = open();
        assert_eq!(arena.found(), [runs[0], runs[2], (whole, info(64))]);
        assert_eq!((arena.free_unit_bytes(), arena.bare_bytes()), (0, free + runs[1].0.bytes()));
        let (again, bytes) = arena.assign_bare_units(info(64), 2).expect("free again");
        assert_eq!(bytes, again.bytes());
        assert_eq!((again, arena.item(again.chunk(1)).0.state().bits_for_test()), (runs[1].0, 0));
        assert_eq!(arena.item(runs[2].0.chunk(1)).0.state().bits_for_test(), 5);
        arena.reassign(runs[2].0, SlabInfo { pool: 1, ..info(3000) });
        assert_eq!(arena.info(runs[2].0.id).pool, 1);
        drop(arena);
        std::fs::remove_dir_all(&folder).expect("removes");
    }
}
