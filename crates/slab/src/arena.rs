//! The reserved range of addresses and the table of its slabs.
//!
//! Address space is reserved once, for the largest size that the cache may ever be given, and costs
//! nothing until a slab is first touched. A slab is *free*, *assigned* to one pool and class, or
//! *split* into runs that are ([`crate::run`]).
//!
//! Here are the look-ups; `table` has the words of the table, `open` maps the range, and `free` and
//! `split` assign and give back slabs and their units.
//!
//! Invariants:
//! 1. The range stays mapped, readable and writable until the `Arena` is dropped: a pointer
//!    computed from any in-range `ItemPtr` may be read at any time. The bytes read may be stale;
//!    the state word tells.
//! 2. A slab's table entry changes only from free to assigned or split and back, by whoever holds
//!    the slab, and the words of a split slab's units only from free to those of a run and back, by
//!    whoever holds the units. `chunk_bytes` is at least 64 while assigned, so that the place of an
//!    `ItemPtr` made for that run lies inside it.
//! 3. An assigned run is handed back only after no reader can still hold an `ItemPtr` into it.
//! 4. A slab in a file is assigned or split only after the file system has set memory aside for all
//!    of it, or, if some of its units are to be bare, for its table; a bare unit is assigned only
//!    after the same for the unit. Touching a hole in a file system without room ends the process
//!    by SIGBUS.
//! 5. Free slabs, and free units of split slabs, read as zeros: the state words of chunks that were
//!    never used.
//! 6. The mapping belongs to the `Arena` alone. It is one slab longer than the range, which begins
//!    at the first multiple of the slab size in it: so slab `n`, for each `n` below `max_slabs`,
//!    lies within the mapping and begins at such a multiple.
//! 7. The word of a split slab's table changes to free with `units` locked, after the last of the
//!    slab's runs was given back. So a thread that found the slab split, and has that lock or a run
//!    of the slab, may look at the table of the slab's units.

mod free;
mod open;
mod split;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

pub use split::SplitSlab;
pub use table::SlabInfo;
pub(crate) use table::{SPLIT, runs_of};

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use self::free::FreeSlabs;
use self::table::{LEAVING, UnitTable, is_split};
use crate::SLAB_BYTES;
use crate::item::Item;
use crate::ptr::{ItemPtr, SlabId};
use crate::run::{NUMBERS_PER_UNIT, Run, RunId, UNIT_BYTES};
use crate::shared::Shared;
use crate::units::Units;
use crate::words::Words;

/// The reserved range.
pub struct Arena {
    base: NonNull<u8>,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// A word for each slab: those of `words` from some word on.
    table: NonNull<[AtomicU64]>,
    words: Arc<Words>,
    /// The files that hold the slabs, if they lie in files; the lock on them keeps other processes
    /// out.
    shared: Option<Shared>,
    forks: u32,
    /// The ordinal of each slab within its class.
    ordinals: Box<[AtomicU32]>,
    free: Mutex<FreeSlabs>,
    /// The free units of split slabs.
    units: Mutex<Units>,
    /// Number of them that are free and have memory, and number that are bare, for those who only
    /// ask. Written under the lock.
    free_units: AtomicU64,
    bare_units: AtomicU64,
    /// True if large pages were asked for.
    huge_pages: bool,
    /// Size of a page of the file, or of memory.
    page_bytes: usize,
    /// Memory of slabs that another process left and that were not kept, in bytes.
    lost_bytes: u64,
}

/// The smallest page of this kind of machine: each may need memory of its own.
pub const PAGE_BYTES: usize = 4096;

// SAFETY: the mapping belongs to the arena alone (invariant 6). All shared access to it goes
// through atomics or through items, whose invariants (`slab::item`) say who may touch what.
unsafe impl Send for Arena {}
// SAFETY: as for `Send` (invariant 6).
unsafe impl Sync for Arena {}

impl Arena {
    fn runs_in(&self, slab: SlabId) -> Vec<(Run, SlabInfo)> {
        runs_of(slab, self.unit_table(slab).words.iter().map(|word| word.load(Ordering::Acquire)))
    }

    /// The runs that are assigned, in order. Right after [`Self::open`]: those that the last
    /// process left.
    pub fn found(&self) -> Vec<(Run, SlabInfo)> {
        let mut found = Vec::new();
        for slab in (0..self.max_slabs()).map(|slab| SlabId(slab as u16)) {
            match self.word(slab).load(Ordering::Acquire) {
                SPLIT => found.extend(self.runs_in(slab)),
                0 => {}
                word => found.push((Run::whole(slab), SlabInfo::unpack(word))),
            }
        }
        found
    }

    /// Assigns an assigned run to another owner. Its chunks keep their size.
    ///
    /// # Panics
    /// If the run has chunks of another size.
    pub fn reassign(&self, run: Run, info: SlabInfo) {
        assert_eq!(self.info(run.id).chunk_bytes, info.chunk_bytes, "a run's chunks keep their size");
        self.mark(run, info);
    }

    /// Writes the owner of a run into the tables. The word of its first unit comes last: a run that
    /// was not written whole does not exist.
    fn mark(&self, run: Run, info: SlabInfo) {
        let slab = run.id.slab();
        if run.is_whole() {
            return self.word(slab).store(info.pack(), Ordering::Release);
        }
        let words = &self.unit_table(slab).words[run.id.unit() as usize..][..run.units as usize];
        for (back, word) in words.iter().enumerate().rev() {
            word.store(info.pack_unit(back as u32), Ordering::Release);
        }
    }

    /// Notes that a run has left its class and is about to be given back: [`Self::is_there`]
    /// returns false from now on. A pinned thread that found the run there before must have stopped
    /// before the run is given back.
    pub fn retire(&self, run: Run) {
        let word = if run.is_whole() {
            self.word(run.id.slab())
        } else {
            &self.unit_table(run.id.slab()).words[run.id.unit() as usize]
        };
        word.fetch_or(LEAVING, Ordering::AcqRel);
    }

    /// Returns whether a run that was seen before is still there, with the same length and with
    /// what `info` says. A pinned thread may look at its chunks until it is unpinned.
    pub fn is_there(&self, run: Run, info: SlabInfo) -> bool {
        let slab = run.id.slab();
        if run.is_whole() {
            return self.word(slab).load(Ordering::Acquire) == info.pack();
        }
        // Another thread may be giving the slab back: the lock keeps its table where it is.
        let _units = self.units.lock();
        if self.word(slab).load(Ordering::Acquire) != SPLIT {
            return false;
        }
        let (first, last) = (run.id.unit() as usize, run.units - 1);
        let words = &self.unit_table(slab).words;
        words[first].load(Ordering::Acquire) == info.pack_unit(0)
            && words[first + last as usize].load(Ordering::Acquire) & !LEAVING == info.pack_unit(last)
    }

    /// The table at the start of a split slab. The caller holds a run of the slab or a reference to
    /// an item of one, opens the arena, or has found the slab split with `units` locked and holds
    /// that lock yet (invariant 7).
    #[inline]
    fn unit_table(&self, slab: SlabId) -> &UnitTable {
        // SAFETY: the start of a slab is mapped until the arena is dropped and aligned (invariants
        // 1 and 6), and of a split slab only ever touched as these atomics. The slab stays split
        // for as long as the caller looks (invariant 7).
        unsafe { self.slab_start(slab).cast::<UnitTable>().as_ref() }
    }

    #[inline]
    fn table(&self) -> &[AtomicU64] {
        // SAFETY: the table is a part of `words`, which stay where they are for as long as `self`
        // holds them (invariant 1 of `slab::words`).
        unsafe { self.table.as_ref() }
    }

    #[inline]
    fn word(&self, slab: SlabId) -> &AtomicU64 {
        &self.table()[usize::from(slab.0)]
    }

    /// The number of slabs that the range has room for.
    pub fn max_slabs(&self) -> u32 {
        self.ordinals.len() as u32
    }

    /// Returns what the run of this chunk holds.
    ///
    /// # Panics
    /// If there is no such slab.
    #[inline]
    pub fn info_of(&self, ptr: ItemPtr) -> SlabInfo {
        let word = self.word(ptr.slab()).load(Ordering::Relaxed);
        SlabInfo::unpack(if is_split(word) { self.chunk_in_split(ptr).0 } else { word })
    }

    /// Returns what the run of a chunk of a split slab holds, in the form of a slab's word, and the
    /// offset of the chunk within the slab. In a large cache most chunks lie in whole slabs: two
    /// registers are returned so that their path stays short.
    #[cold]
    #[inline(never)]
    fn chunk_in_split(&self, ptr: ItemPtr) -> (u64, usize) {
        let (info, first) = self.unit_of(ptr);
        let number = u32::from(ptr.number()).wrapping_sub(first * NUMBERS_PER_UNIT);
        (info.pack(), first as usize * UNIT_BYTES + number as usize * info.chunk_bytes as usize)
    }

    /// Returns what a run holds.
    pub fn info(&self, run: RunId) -> SlabInfo {
        self.info_of(run.chunk(0))
    }

    /// Returns what the run of a chunk of a split slab holds, and the run's first unit.
    #[inline]
    fn unit_of(&self, ptr: ItemPtr) -> (SlabInfo, u32) {
        let unit = u32::from(ptr.number()) / NUMBERS_PER_UNIT;
        let (info, back) =
            SlabInfo::unpack_unit(self.unit_table(ptr.slab()).words[unit as usize].load(Ordering::Relaxed));
        (info, unit.saturating_sub(back))
    }

    /// The ordinal within its class of the run that the chunk lies in, and the chunk's number
    /// within the run.
    #[inline]
    pub(crate) fn ordinal_of(&self, ptr: ItemPtr) -> (u32, u32) {
        let slab = ptr.slab();
        if is_split(self.word(slab).load(Ordering::Relaxed)) {
            return self.ordinal_in_split(ptr);
        }
        (self.ordinals[usize::from(slab.0)].load(Ordering::Relaxed), ptr.number().into())
    }

    #[cold]
    #[inline(never)]
    fn ordinal_in_split(&self, ptr: ItemPtr) -> (u32, u32) {
        let first = self.unit_of(ptr).1;
        let ordinal = self.unit_table(ptr.slab()).ordinals[first as usize].load(Ordering::Relaxed);
        (ordinal, u32::from(ptr.number()) - first * NUMBERS_PER_UNIT)
    }

    pub(crate) fn set_ordinal(&self, run: Run, ordinal: u32) {
        let slab = run.id.slab();
        let at = if run.is_whole() {
            &self.ordinals[usize::from(slab.0)]
        } else {
            &self.unit_table(slab).ordinals[run.id.unit() as usize]
        };
        at.store(ordinal, Ordering::Relaxed);
    }

    #[inline]
    fn slab_start(&self, slab: SlabId) -> NonNull<u8> {
        debug_assert!(usize::from(slab.0) < self.ordinals.len());
        // SAFETY: a `SlabId` names a slab that was taken out of the range, so that its number is
        // below `max_slabs` and the slab lies within the mapping (invariant 6).
        unsafe { self.base.add(usize::from(slab.0) * SLAB_BYTES) }
    }

    /// The item in the chunk that `ptr` names, and what its run holds.
    ///
    /// The reference says nothing about the chunk being in use: see the rules of [`Item`].
    #[inline]
    pub fn item(&self, ptr: ItemPtr) -> (Item<'_>, SlabInfo) {
        let word = self.word(ptr.slab()).load(Ordering::Relaxed);
        let (word, offset) = if is_split(word) {
            self.chunk_in_split(ptr)
        } else {
            (word, usize::from(ptr.number()) * SlabInfo::unpack(word).chunk_bytes as usize)
        };
        let info = SlabInfo::unpack(word);
        debug_assert!(offset < SLAB_BYTES);
        // A pointer that outlived its run must still yield an address inside the slab, which costs
        // one instruction.
        let offset = offset & (SLAB_BYTES - 1);
        // SAFETY: the pointer was made for this run while it had this chunk size (invariants 2 and
        // 3), so the offset is that of a chunk inside the slab, which is mapped (invariant 1).
        let chunk = unsafe { self.slab_start(ptr.slab()).add(offset) };
        // SAFETY: the chunk is 8-byte aligned (sizes are multiples of 8, units of 4 KiB), has at
        // least 64 bytes (invariant 2), and stays mapped until the arena is dropped (invariant 1).
        (unsafe { Item::at(chunk, info.chunk_bytes) }, info)
    }
}
