//! Reservation of the range, and the slabs that another process left in a file.

use std::io::{self, ErrorKind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use super::table::{SPLIT, SlabInfo};
use super::{Arena, PAGE_BYTES};
use crate::SLAB_BYTES;
use crate::fork::{self, Mapped};
use crate::ptr::SlabId;
use crate::run::UNIT_BYTES;
use crate::shared::{Shared, page_bytes, set_len};
use crate::words::Words;

impl Arena {
    /// Reserves room for `max_slabs` slabs (at most 65,536). `huge_pages` asks for transparent 2
    /// MiB pages.
    ///
    /// # Errors
    /// If the system refuses that much address space.
    ///
    /// # Panics
    /// If `max_slabs` is 0 or above 65,536.
    pub fn reserve(max_slabs: u32, huge_pages: bool) -> io::Result<Self> {
        Self::with_words(max_slabs, huge_pages, Arc::new(Words::on_heap(max_slabs as usize)), 0, None)
    }

    /// Returns whether the system would let this process reserve `slabs` slabs, `in_file` or not,
    /// and an index for them.
    pub fn may_reserve(slabs: u32, in_file: bool) -> bool {
        let bytes = slabs as usize * SLAB_BYTES;
        let is_too_long = |most: u64| in_file && most < bytes as u64;
        if getrlimit(Resource::Fsize).current.is_some_and(is_too_long) {
            return false;
        }
        // An index has 64 bytes for up to 12 items of 64.
        let bytes = bytes + bytes / 8;
        // SAFETY: a mapping at an address of the kernel's choice replaces no other, such as that of
        // an arena (invariant 6 of `arena`), and goes at once.
        unsafe {
            mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
            .is_ok_and(|at| mm::munmap(at, bytes).is_ok())
        }
    }

    /// The slabs in a file. Those that were assigned when the last process ended still are
    /// ([`Self::found`]), as far as they have no more than `keep_bytes` of memory; all others are
    /// free, and read as zeros.
    ///
    /// # Errors
    /// If the system refuses that much address space, or the file cannot be made longer or mapped.
    ///
    /// # Panics
    /// As [`Self::reserve`].
    pub fn open(shared: Shared, max_slabs: u32, keep_bytes: u64, huge_pages: bool) -> io::Result<Self> {
        let (words, first_word) = shared.table();
        let bytes = u64::from(max_slabs) * SLAB_BYTES as u64;
        let was_bytes = shared.slabs().metadata()?.len();
        let mut lost_bytes = shared.lost_bytes();
        for word in words.iter().skip(first_word + max_slabs as usize) {
            let was_used = word.swap(0, Ordering::AcqRel) != 0;
            lost_bytes += if was_used { SLAB_BYTES as u64 } else { 0 };
        }
        if was_bytes != bytes {
            set_len(shared.slabs(), bytes)?;
        }
        let mut arena = Self::with_words(max_slabs, huge_pages, words, first_word, Some(shared))?;
        let mut left = keep_bytes;
        for (slab, word) in (0..max_slabs).map(|slab| SlabId(slab as u16)).zip(arena.table()) {
            // A damaged word names no slab; and the file may have lost its end, or have been copied
            // without its blocks.
            let bits = word.load(Ordering::Acquire);
            let was_there = u64::from(slab.0) * (SLAB_BYTES as u64) < was_bytes;
            let is_kept = was_there
                && match SlabInfo::checked(bits) {
                    Some(_) if left < SLAB_BYTES as u64 => false,
                    Some(_) => arena.reserve_memory(slab),
                    None => bits == SPLIT && arena.find_units(slab, left),
                };
            if is_kept {
                left -= SLAB_BYTES as u64 - u64::from(arena.bare_units_of(slab)) * UNIT_BYTES as u64;
            } else if bits != 0 {
                word.store(0, Ordering::Release);
                lost_bytes += SLAB_BYTES as u64;
            }
        }
        let is_assigned = |slab: &u32| arena.word(SlabId(*slab as u16)).load(Ordering::Relaxed) != 0;
        let assigned: Vec<u32> = (0..max_slabs).filter(is_assigned).collect();
        let mut free = arena.free.lock();
        free.fresh = assigned.last().map_or(0, |last| last + 1);
        let vacant = (0..free.fresh).filter(|slab| assigned.binary_search(slab).is_err());
        // A process may have died between taking a slab out of the table and giving its memory
        // back.
        for slab in vacant.map(|slab| SlabId(slab as u16)) {
            free.give_back(slab, arena.release_memory(slab));
        }
        let (after, end) = (u64::from(free.fresh) * SLAB_BYTES as u64, was_bytes.min(bytes));
        if after < end {
            let shared = arena.shared.as_ref().map(Shared::slabs).ok_or(ErrorKind::NotFound)?;
            shared.set_len(after)?;
            set_len(shared, bytes)?;
        }
        drop(free);
        arena.lost_bytes = lost_bytes;
        arena.mapped().into_iter().for_each(fork::register);
        Ok(arena)
    }

    /// Memory of the slabs that were assigned when the last process ended and were not kept, in
    /// bytes: there was too little memory for them, or the files had lost or damaged them.
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Returns whether this process was forked from the one that opened the files: if so, the slabs
    /// are empty and must stay so.
    #[inline]
    pub fn is_parted(&self) -> bool {
        self.shared.is_some() && self.forks != fork::forks()
    }

    /// The mappings and files that a forked child must give up.
    fn mapped(&self) -> Option<Mapped> {
        let shared = self.shared.as_ref()?;
        let slabs = (self.base, self.ordinals.len() * SLAB_BYTES);
        Some(Mapped { slabs, words: self.words.mapped()?, files: fork::numbers(shared.files()) })
    }

    fn with_words(
        max_slabs: u32,
        huge_pages: bool,
        words: Arc<Words>,
        first_word: usize,
        shared: Option<Shared>,
    ) -> io::Result<Self> {
        assert!((1..=1 << 16).contains(&max_slabs), "{max_slabs} slabs cannot be named by 16 bits");
        let bytes = max_slabs as usize * SLAB_BYTES;
        // One slab more, so that the range can start at a multiple of the slab size.
        let mapping_bytes = bytes + SLAB_BYTES;
        // SAFETY: a mapping at an address of the kernel's choice replaces no other, and becomes the
        // arena's own (invariant 6 of `arena`).
        let mapping = unsafe {
            mm::mmap_anonymous(
                std::ptr::null_mut(),
                mapping_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let mapping =
            NonNull::new(mapping.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        let shift = mapping.as_ptr().align_offset(SLAB_BYTES);
        let page_bytes = shared.as_ref().map_or(Ok(PAGE_BYTES), |shared| page_bytes(shared.slabs()))?;
        // SAFETY: `shift` is below one slab, and the mapping is one slab longer than the range
        // (invariant 6 of `arena`).
        let base = unsafe { mapping.add(shift) };
        let arena = Self {
            base,
            mapping,
            mapping_bytes,
            table: NonNull::from(&words[first_word..]),
            words,
            shared,
            forks: fork::forks(),
            // SAFETY: zeros are atomics. Those that nobody touches take no memory.
            ordinals: unsafe { Box::new_zeroed_slice(max_slabs as usize).assume_init() },
            free: Mutex::default(),
            units: Mutex::default(),
            free_units: AtomicU64::new(0),
            bare_units: AtomicU64::new(0),
            huge_pages,
            page_bytes,
            lost_bytes: 0,
        };
        if let Some(shared) = &arena.shared {
            // SAFETY: the range lies within the arena's own mapping (invariant 6 of `arena`), and
            // nobody uses it yet, as the arena is not returned before.
            unsafe {
                mm::mmap(
                    base.as_ptr().cast(),
                    bytes,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                    shared.slabs(),
                    0,
                )
            }?;
        }
        if huge_pages {
            // SAFETY: the range lies within the mapping (invariant 6 of `arena`). A refusal only
            // means small pages.
            let _ = unsafe { mm::madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(arena)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.mapped().into_iter().for_each(fork::unregister);
        // SAFETY: the mapping is the arena's own (invariant 6 of `arena`), and `&mut self` means
        // that nobody borrows from it any more.
        let _ = unsafe { mm::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}
