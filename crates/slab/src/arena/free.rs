//! Free slabs: assignment, memory taken ahead of need, and what is given back.
//!
//! The list of free slabs has a lock of its own, which is never held while the system is asked for
//! memory. The invariants are those of [`super`].

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{self, Advice};

use super::table::SlabInfo;
use super::{Arena, PAGE_BYTES};
use crate::ptr::SlabId;
use crate::run::{Run, UNIT_BYTES};
use crate::shared::{clear, free_bytes, reserve};
use crate::{CHUNK_ALIGN, MIN_CHUNK_BYTES, SLAB_BYTES};

/// Slabs that nobody holds.
#[derive(Default)]
pub(super) struct FreeSlabs {
    /// Slabs from here on were never used.
    pub(super) fresh: u32,
    returned: Vec<SlabId>,
    /// Those that have memory already.
    pub(super) touched: Vec<SlabId>,
    /// Taken out while memory is taken for them or given back.
    touching: u32,
    /// Never to be used again, as their memory could not be cleared.
    lost: u32,
    /// Calls of [`Arena::assign`] that yet fail without asking the system for memory, which it
    /// refused.
    refusing: u32,
    /// Number of times that it refused some.
    refused: u64,
}

/// Number of times that [`Arena::assign`] does without memory that the system refused before it
/// asks again. Asking costs about as much as getting it.
const REFUSALS: u32 = 64;

impl FreeSlabs {
    /// One without memory.
    fn untouched(&mut self, max_slabs: u32) -> Option<SlabId> {
        self.returned.pop().or_else(|| {
            (self.fresh < max_slabs).then(|| {
                self.fresh += 1;
                SlabId((self.fresh - 1) as u16)
            })
        })
    }

    /// Takes back a slab without memory, if that was cleared.
    pub(super) fn give_back(&mut self, slab: SlabId, is_cleared: bool) {
        if is_cleared {
            self.returned.push(slab);
        } else {
            self.lost += 1;
        }
    }
}

impl Arena {
    /// The number of slabs that are assigned now.
    pub fn assigned_slabs(&self) -> u32 {
        let free = self.free.lock();
        free.fresh - (free.returned.len() + free.touched.len()) as u32 - free.touching - free.lost
    }

    /// Takes a free slab and assigns it whole. Returns `None` if all are taken, or if the file
    /// system has no room for another one. Locks the list of free slabs.
    ///
    /// # Panics
    /// If the chunk size is out of range, or no multiple of 8.
    pub fn assign(&self, info: SlabInfo) -> Option<Run> {
        assert!((MIN_CHUNK_BYTES..=SLAB_BYTES as u32).contains(&info.chunk_bytes));
        assert!(info.chunk_bytes.is_multiple_of(CHUNK_ALIGN), "a split slab is known by a size that is not");
        let run = Run::whole(self.take_slab()?);
        self.mark(run, info);
        Some(run)
    }

    pub(super) fn take_slab(&self) -> Option<SlabId> {
        let touched = self.free.lock().touched.pop();
        touched.or_else(|| self.take_untouched(false, SLAB_BYTES))
    }

    /// Takes a free slab without memory, for whose first `bytes` a file system has set some aside.
    /// Unless it `insists`, does not ask a file system again that has just refused. The caller puts
    /// the slab into the table or into a list.
    pub(super) fn take_untouched(&self, insists: bool, bytes: usize) -> Option<SlabId> {
        let mut free = self.free.lock();
        if free.refusing > 0 && !insists {
            free.refusing -= 1;
            return None;
        }
        let slab = free.untouched(self.max_slabs())?;
        if self.shared.is_none() {
            return Some(slab);
        }
        free.touching += 1;
        drop(free);
        let has_memory = self.reserve_part(slab, 0, bytes);
        // What the file system could not set aside as a whole, it may keep in part.
        let is_cleared = has_memory || self.release_memory(slab);
        let mut free = self.free.lock();
        free.touching -= 1;
        free.refusing = if has_memory { 0 } else { REFUSALS };
        if !has_memory {
            free.refused += 1;
            free.give_back(slab, is_cleared);
        }
        has_memory.then_some(slab)
    }

    /// Returns the number of times that the file system that the slabs lie in had no room for one.
    pub fn refusals(&self) -> u64 {
        self.free.lock().refused
    }

    /// The bytes for further slabs in the file system of the slabs: free ones, and those that free
    /// slabs keep. `None` without a limit.
    pub fn file_system_bytes(&self) -> Option<u64> {
        let kept = self.free.lock().touched.len() as u64 * SLAB_BYTES as u64;
        Some(free_bytes(self.shared.as_ref()?.slabs())?.saturating_add(kept))
    }

    /// Has the file system set memory aside for a slab (invariant 4 of [`super`]). Keeps what is in
    /// it.
    pub(super) fn reserve_memory(&self, slab: SlabId) -> bool {
        self.reserve_part(slab, 0, SLAB_BYTES)
    }

    /// The same for a part of one.
    pub(super) fn reserve_part(&self, slab: SlabId, from: usize, bytes: usize) -> bool {
        let at = u64::from(slab.0) * SLAB_BYTES as u64 + from as u64;
        self.shared.as_ref().is_none_or(|shared| reserve(shared.slabs(), at, bytes).is_ok())
    }

    /// Takes memory from the system for free slabs until `slabs` have some, so that whoever is
    /// given one need not wait for it, and gives back that of free slabs beyond `most`. For a
    /// thread of the background: each slab takes up to some milliseconds, without a lock. Meanwhile
    /// it is nobody else's. Returns for how many it took memory.
    pub fn touch_ahead(&self, slabs: u32, most: u32) -> u32 {
        let mut taken = 0;
        loop {
            let mut free = self.free.lock();
            let excess = (free.touched.len() > most as usize).then(|| free.touched.pop()).flatten();
            if let Some(slab) = excess {
                free.touching += 1;
                drop(free);
                let is_cleared = self.release_memory(slab);
                let mut free = self.free.lock();
                free.touching -= 1;
                free.give_back(slab, is_cleared);
                continue;
            }
            if free.touched.len() >= slabs.min(most) as usize {
                return taken;
            }
            drop(free);
            let Some(slab) = self.take_untouched(true, SLAB_BYTES) else { return taken };
            self.free.lock().touching += 1;
            let start = self.slab_start(slab).as_ptr();
            for page in (0..SLAB_BYTES).step_by(PAGE_BYTES) {
                // SAFETY: the slab lies within the mapping, is assigned to nobody and reads as
                // zeros (invariant 5 of `arena`). Told to the system instead
                // (`MADV_POPULATE_WRITE`), the address space would be locked for others all the
                // while.
                unsafe { start.add(page).write_volatile(0) };
            }
            taken += 1;
            let mut free = self.free.lock();
            free.touching -= 1;
            free.touched.push(slab);
        }
    }

    /// Gives a run back: a slab's memory to the system and the slab to the free list, units to
    /// those of their split slab, and that in the same way once all are free. Returns how much
    /// memory the slab had that got free with it, in bytes; 0 = none did.
    ///
    /// # Safety
    /// The caller holds the run, no chunk of it is in use, and no reader can still reach one
    /// (invariant 3 of [`super`]).
    pub unsafe fn give_back(&self, run: Run) -> u64 {
        let slab = run.id.slab();
        if run.is_whole() {
            self.give_back_slab(slab);
            return SLAB_BYTES as u64;
        }
        self.clear(run);
        let words = &self.unit_table(slab).words[run.id.unit() as usize..][..run.units as usize];
        for word in words {
            word.store(0, Ordering::Release);
        }
        let mut free = self.units.lock();
        let freed = free.give_back(slab, run.id.unit(), run.units);
        self.note_free(&free);
        freed.map_or(0, |units| self.give_back_split(free, slab, units))
    }

    /// Gives a slab's memory to the system, and the slab to the free list.
    pub(super) fn give_back_slab(&self, slab: SlabId) {
        self.word(slab).store(0, Ordering::Release);
        let is_cleared = self.release_memory(slab);
        let mut free = self.free.lock();
        free.refusing = 0;
        free.give_back(slab, is_cleared);
    }

    /// Lets a run of a split slab read as zeros. It keeps its memory, which the slab is charged
    /// for.
    fn clear(&self, run: Run) {
        let start = run.id.unit() as usize * UNIT_BYTES;
        // SAFETY: the run lies within its slab, and the slab within the mapping (invariant 6 of
        // `arena`).
        let start = unsafe { self.slab_start(run.id.slab()).add(start) }.cast::<AtomicU64>();
        for word in 0..run.bytes() as usize / size_of::<AtomicU64>() {
            // SAFETY: the word lies in the run, which stays mapped (invariant 1 of `arena`). Nobody
            // can reach a chunk of the run by an `ItemPtr` any more (the caller's duty, invariant
            // 3). A thread that is late to look at a state word there sees either what it was or
            // zero.
            unsafe { start.add(word).as_ref() }.store(0, Ordering::Relaxed);
        }
    }

    /// Lets a slab that is in no table read as zeros, which are the state words of chunks that were
    /// never used. Returns whether it does.
    pub(super) fn release_memory(&self, slab: SlabId) -> bool {
        let advice = if self.shared.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: the slab lies within the mapping (invariant 6 of `arena`), and belongs to nobody:
        // it is not in the table (invariant 2).
        let released = unsafe { mm::madvise(self.slab_start(slab).as_ptr().cast(), SLAB_BYTES, advice) };
        // A file system that cannot punch holes is written to, and not through the mapping, which
        // may have some.
        let at = u64::from(slab.0) * SLAB_BYTES as u64;
        released.is_ok() || self.shared.as_ref().is_none_or(|shared| clear(shared.slabs(), at).is_ok())
    }
}
