//! The reserved range of addresses and the table of its slabs.
//!
//! Address space is reserved once, for the largest size that the cache may ever be given, and costs
//! nothing until a slab is first touched. A slab is *free*, *assigned* to one pool and class, or
//! *split* into runs that are ([`crate::run`]).
//!
//! Invariants:
//! 1. The range stays mapped, readable and writable for the whole life of the `Arena`: a pointer
//!    computed from any in-range `ItemPtr` may be read at any time. What is read may be stale; the
//!    state word tells.
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

mod split;

pub use split::SplitSlab;

use std::io::{self, ErrorKind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::fork::{self, Mapped};
use crate::item::Item;
use crate::ptr::{ItemPtr, SlabId};
use crate::run::{NUMBERS_PER_UNIT, Run, RunId, UNIT_BYTES, UNITS};
use crate::shared::{Shared, clear, free_bytes, page_bytes, reserve, set_len};
use crate::units::Units;
use crate::words::Words;
use crate::{CHUNK_ALIGN, MIN_CHUNK_BYTES, SLAB_BYTES};

/// What a run, a whole slab or a part of a split one, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabInfo {
    /// Size of its chunks in bytes; 0 for a free slab or unit.
    pub chunk_bytes: u32,
    /// The pool that holds it.
    pub pool: u16,
    /// The size class within the pool.
    pub class: u8,
    /// The key space of the pool.
    pub keyspace: u16,
}

impl SlabInfo {
    /// [`LEAVING`], 23 bits of chunk size, 8 of class, 16 of pool, 16 of key space.
    const fn pack(self) -> u64 {
        (self.chunk_bytes as u64) << 40
            | (self.class as u64) << 32
            | (self.pool as u64) << 16
            | self.keyspace as u64
    }

    #[inline]
    pub(crate) const fn unpack(bits: u64) -> Self {
        Self {
            chunk_bytes: (bits >> 40) as u32 & 0x7f_ffff,
            class: (bits >> 32) as u8,
            pool: (bits >> 16) as u16,
            keyspace: bits as u16,
        }
    }

    /// A word of a split slab's table: [`LEAVING`], 19 bits of chunk size in multiples of 8, 8 of
    /// class, 13 of pool, 13 of key space, and 10 that say how many units before this one the run
    /// begins.
    pub(crate) const fn pack_unit(self, back: u32) -> u64 {
        debug_assert!(self.pool < 1 << 13 && self.keyspace < 1 << 13 && back < UNITS);
        (self.chunk_bytes as u64 / 8) << 44
            | (self.class as u64) << 36
            | (self.pool as u64) << 23
            | (self.keyspace as u64) << 10
            | back as u64
    }

    /// Takes apart what [`Self::pack_unit`] gave.
    #[inline]
    pub(crate) const fn unpack_unit(bits: u64) -> (Self, u32) {
        let info = Self {
            chunk_bytes: (bits >> 44) as u32 % (1 << 19) * 8,
            class: (bits >> 36) as u8,
            pool: (bits >> 23) as u16 & 0x1fff,
            keyspace: (bits >> 10) as u16 & 0x1fff,
        };
        (info, bits as u32 & (UNITS - 1))
    }

    /// What a word of a table says that another process left. `None`: the slab is free or split, or
    /// there is no such slab.
    pub(crate) fn checked(bits: u64) -> Option<Self> {
        let info = Self::unpack(bits);
        let is_size = (MIN_CHUNK_BYTES..=SLAB_BYTES as u32).contains(&info.chunk_bytes);
        (is_size && info.chunk_bytes.is_multiple_of(CHUNK_ALIGN)).then_some(info)
    }

    /// How many chunks a whole slab of them has.
    #[inline]
    pub const fn chunks_per_slab(self) -> u32 {
        SLAB_BYTES as u32 / self.chunk_bytes
    }
}

/// In the word of a slab, or of the first unit of a run: it has left its class, and those who look
/// at chunks without having come to them by the index are to leave it alone.
const LEAVING: u64 = 1 << 63;

/// The table's word for a split slab. No chunk has this size.
pub(crate) const SPLIT: u64 = SlabInfo { chunk_bytes: 1, pool: 0, class: 0, keyspace: 0 }.pack();

/// Whether the word of a slab's table is [`SPLIT`]. A single bit tells: chunk sizes are multiples
/// of 8.
#[inline]
const fn is_split(word: u64) -> bool {
    word & SPLIT != 0
}

const _: () = assert!(SPLIT.is_power_of_two() && CHUNK_ALIGN.is_multiple_of(2));

/// The words of the units of a split slab, and the ordinals of the runs that begin there, as they
/// lie at its start.
#[repr(C)]
struct UnitTable {
    words: [AtomicU64; UNITS as usize],
    ordinals: [AtomicU32; UNITS as usize],
}

const _: () = assert!(size_of::<UnitTable>() == crate::run::UNIT_TABLE_BYTES);

/// The runs that the words of a split slab's table tell of. Units whose words make no sense are in
/// none.
pub(crate) fn runs_of(slab: SlabId, words: impl Iterator<Item = u64>) -> Vec<(Run, SlabInfo)> {
    let mut runs: Vec<(Run, SlabInfo)> = Vec::new();
    for (unit, bits) in (0..UNITS).zip(words) {
        let (info, back) = SlabInfo::unpack_unit(bits);
        if unit < crate::run::TABLE_UNITS || info.chunk_bytes < MIN_CHUNK_BYTES {
            continue;
        }
        match runs.last_mut() {
            _ if back == 0 && info.chunk_bytes <= SLAB_BYTES as u32 => {
                runs.push((Run { id: RunId::at_unit(slab, unit), units: 1 }, info))
            }
            Some((run, of)) if *of == info && run.units == back && run.id.unit() + back == unit => {
                run.units += 1
            }
            _ => {}
        }
    }
    runs.retain(|(run, info)| run.bytes() >= u64::from(info.chunk_bytes));
    runs
}

/// The reserved range.
pub struct Arena {
    base: NonNull<u8>,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// A word for each slab: those of `words` from some word on.
    table: NonNull<[AtomicU64]>,
    words: Arc<Words>,
    /// Whether the slabs lie in a file, which the lock on it protects from other processes.
    shared: Option<Shared>,
    forks: u32,
    /// The ordinal of each slab within its class.
    ordinals: Box<[AtomicU32]>,
    free: Mutex<FreeSlabs>,
    /// The free units of split slabs.
    units: Mutex<Units>,
    /// How many of them are free and have memory, and how many are bare, for those who only ask.
    /// Written under the lock.
    free_units: AtomicU64,
    bare_units: AtomicU64,
    /// Whether large pages were asked for.
    huge_pages: bool,
    /// Size of a page of the file, or of memory.
    page_bytes: usize,
    /// Memory of slabs that another process left and that were not kept, in bytes.
    lost_bytes: u64,
}

/// The smallest page of this kind of machine: each may need memory of its own.
pub const PAGE_BYTES: usize = 4096;

/// Slabs that nobody holds.
#[derive(Default)]
struct FreeSlabs {
    /// Slabs from here on were never used.
    fresh: u32,
    returned: Vec<SlabId>,
    /// Those that have memory already.
    touched: Vec<SlabId>,
    /// Taken out while memory is taken for them or given back.
    touching: u32,
    /// Never to be used again, as their memory could not be cleared.
    lost: u32,
    /// Calls of [`Arena::assign`] that yet fail without asking the system for memory, which it
    /// refused.
    refusing: u32,
    /// How often it refused some.
    refused: u64,
}

/// How often [`Arena::assign`] does without memory that the system refused before it asks again.
/// Asking costs about as much as getting it.
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
    fn give_back(&mut self, slab: SlabId, is_cleared: bool) {
        if is_cleared {
            self.returned.push(slab);
        } else {
            self.lost += 1;
        }
    }
}

// SAFETY: the mapping belongs to the arena alone; all shared access to it goes through atomics or
// through items, whose own rules (module `item`) say who may touch what.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves room for `max_slabs` slabs (at most 65,536). `huge_pages` asks for transparent 2
    /// MiB pages.
    ///
    /// # Errors
    /// Where the system refuses that much address space.
    ///
    /// # Panics
    /// Where `max_slabs` is 0 or above 65,536.
    pub fn reserve(max_slabs: u32, huge_pages: bool) -> io::Result<Self> {
        Self::with_words(max_slabs, huge_pages, Arc::new(Words::on_heap(max_slabs as usize)), 0, None)
    }

    /// Whether the system would let this process reserve so many slabs, `in_file` or not, and an
    /// index for them.
    pub fn may_reserve(slabs: u32, in_file: bool) -> bool {
        let bytes = slabs as usize * SLAB_BYTES;
        let is_too_long = |most: u64| in_file && most < bytes as u64;
        if getrlimit(Resource::Fsize).current.is_some_and(is_too_long) {
            return false;
        }
        // An index has 64 bytes for up to 12 items of 64.
        let bytes = bytes + bytes / 8;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that
        // exists, and goes at once.
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
    /// Where the system refuses that much address space, or the file cannot be made longer or
    /// mapped.
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

    /// Whether this process was forked from the one that opened the files: then nothing is in the
    /// slabs, nor may be put there.
    #[inline]
    pub fn is_parted(&self) -> bool {
        self.shared.is_some() && self.forks != fork::forks()
    }

    /// What a forked child must not have of this.
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
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that
        // exists.
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
        // SAFETY: `shift` is below one slab, and the mapping is one slab longer than the range.
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
            // SAFETY: the range lies within our own mapping, and nobody uses it yet.
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
            // SAFETY: the range lies within the mapping. A refusal only means small pages.
            let _ = unsafe { mm::madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(arena)
    }

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

    /// Says anew to whom an assigned run belongs. Its chunks keep their size.
    ///
    /// # Panics
    /// Where the run has chunks of another size.
    pub fn reassign(&self, run: Run, info: SlabInfo) {
        assert_eq!(self.info(run.id).chunk_bytes, info.chunk_bytes, "a run's chunks keep their size");
        self.mark(run, info);
    }

    /// Writes down whose a run is. That of its first unit comes last: a run that was not written
    /// down whole is not there.
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

    /// Notes that a run has left its class and is about to be given back: [`Self::is_there`] says
    /// no from now on. Who found it there before, and is pinned, must have stopped before the run
    /// is given back.
    pub fn retire(&self, run: Run) {
        let word = if run.is_whole() {
            self.word(run.id.slab())
        } else {
            &self.unit_table(run.id.slab()).words[run.id.unit() as usize]
        };
        word.fetch_or(LEAVING, Ordering::AcqRel);
    }

    /// Whether a run, of which somebody heard before, is still there, as long as it was, with what
    /// `info` says. Who is pinned may look at its chunks for as long as that.
    pub fn is_there(&self, run: Run, info: SlabInfo) -> bool {
        let slab = run.id.slab();
        let word = self.word(slab).load(Ordering::Acquire);
        if run.is_whole() {
            return word == info.pack();
        }
        let (first, last) = (run.id.unit() as usize, run.units - 1);
        let words = &self.unit_table(slab).words;
        word == SPLIT
            && words[first].load(Ordering::Acquire) == info.pack_unit(0)
            && words[first + last as usize].load(Ordering::Acquire) & !LEAVING == info.pack_unit(last)
    }

    /// The table at the start of a split slab. Of another slab, what lies there makes no sense, and
    /// may change.
    #[inline]
    fn unit_table(&self, slab: SlabId) -> &UnitTable {
        // SAFETY: the start of a slab is mapped for the life of the arena and aligned, and of a
        // split slab only ever touched as these atomics.
        unsafe { self.slab_start(slab).cast::<UnitTable>().as_ref() }
    }

    #[inline]
    fn table(&self) -> &[AtomicU64] {
        // SAFETY: a part of `words`, which lie where they are for as long as `self` holds them.
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

    /// The number of slabs that are assigned now.
    pub fn assigned_slabs(&self) -> u32 {
        let free = self.free.lock();
        free.fresh - (free.returned.len() + free.touched.len()) as u32 - free.touching - free.lost
    }

    /// Takes a free slab and assigns it whole. Returns `None` if all are taken, or if the file
    /// system has no room for another one. Locks the list of free slabs.
    ///
    /// # Panics
    /// Where the chunk size is out of range, or no multiple of 8.
    pub fn assign(&self, info: SlabInfo) -> Option<Run> {
        assert!((MIN_CHUNK_BYTES..=SLAB_BYTES as u32).contains(&info.chunk_bytes));
        assert!(info.chunk_bytes.is_multiple_of(CHUNK_ALIGN), "a split slab is known by a size that is not");
        let run = Run::whole(self.take_slab()?);
        self.mark(run, info);
        Some(run)
    }

    fn take_slab(&self) -> Option<SlabId> {
        let touched = self.free.lock().touched.pop();
        touched.or_else(|| self.take_untouched(false, SLAB_BYTES))
    }

    /// Takes a free slab without memory, for whose first `bytes` a file system has set some aside.
    /// Unless it `insists`, does not ask a file system again that has just refused. The caller puts
    /// the slab into the table or into a list.
    fn take_untouched(&self, insists: bool, bytes: usize) -> Option<SlabId> {
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

    /// How often the file system that the slabs lie in had no room for one.
    pub fn refusals(&self) -> u64 {
        self.free.lock().refused
    }

    /// The bytes for further slabs in the file system of the slabs: free ones, and those that free
    /// slabs keep. `None` without a limit.
    pub fn file_system_bytes(&self) -> Option<u64> {
        let kept = self.free.lock().touched.len() as u64 * SLAB_BYTES as u64;
        Some(free_bytes(self.shared.as_ref()?.slabs())?.saturating_add(kept))
    }

    /// Has the file system set memory aside for a slab (invariant 4). Keeps what is in it.
    fn reserve_memory(&self, slab: SlabId) -> bool {
        self.reserve_part(slab, 0, SLAB_BYTES)
    }

    /// The same for a part of one.
    fn reserve_part(&self, slab: SlabId, from: usize, bytes: usize) -> bool {
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
                // zeros (invariant 3). Told to the system instead (`MADV_POPULATE_WRITE`), the
                // address space would be locked for others all the while.
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
    /// (invariant 3).
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
        drop(free);
        freed.map_or(0, |units| self.give_back_split(slab, units))
    }

    /// Gives a slab's memory to the system, and the slab to the free list.
    fn give_back_slab(&self, slab: SlabId) {
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
        // SAFETY: the run lies within its slab.
        let start = unsafe { self.slab_start(run.id.slab()).add(start) }.cast::<AtomicU64>();
        for word in 0..run.bytes() as usize / size_of::<AtomicU64>() {
            // SAFETY: nobody owns the run any more (the caller's duty), and it is as long as that.
            // A thread that is late to look at a state word there sees either what it was or zero.
            unsafe { start.add(word).as_ref() }.store(0, Ordering::Relaxed);
        }
    }

    /// Lets a slab that is in no table read as zeros, which are the state words of chunks that were
    /// never used. Returns whether it does.
    fn release_memory(&self, slab: SlabId) -> bool {
        let advice = if self.shared.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: the slab lies within the mapping, and belongs to nobody: it is not in the table.
        let released = unsafe { mm::madvise(self.slab_start(slab).as_ptr().cast(), SLAB_BYTES, advice) };
        // A file system that cannot punch holes is written to, and not through the mapping, which
        // may have some.
        let at = u64::from(slab.0) * SLAB_BYTES as u64;
        released.is_ok() || self.shared.as_ref().is_none_or(|shared| clear(shared.slabs(), at).is_ok())
    }

    /// What the run of this chunk holds.
    ///
    /// # Panics
    /// Where there is no such slab.
    #[inline]
    pub fn info_of(&self, ptr: ItemPtr) -> SlabInfo {
        let word = self.word(ptr.slab()).load(Ordering::Relaxed);
        SlabInfo::unpack(if is_split(word) { self.chunk_in_split(ptr).0 } else { word })
    }

    /// What the run of a chunk of a split slab holds, as the word of a slab would say it, and where
    /// in the slab the chunk begins. In a large cache most chunks lie in whole slabs: two registers
    /// are returned so that their way stays short.
    #[cold]
    #[inline(never)]
    fn chunk_in_split(&self, ptr: ItemPtr) -> (u64, usize) {
        let (info, first) = self.unit_of(ptr);
        let number = u32::from(ptr.number()).wrapping_sub(first * NUMBERS_PER_UNIT);
        (info.pack(), first as usize * UNIT_BYTES + number as usize * info.chunk_bytes as usize)
    }

    /// What a run holds.
    pub fn info(&self, run: RunId) -> SlabInfo {
        self.info_of(run.chunk(0))
    }

    /// What the run of a chunk of a split slab holds, and the run's first unit.
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
        // SAFETY: a `SlabId` comes from `assign`, so it is below `max_slabs` and the offset within
        // the range.
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
        // SAFETY: the chunk is 8-byte aligned (sizes are multiples of 8, units of 4 KiB), at least
        // 64 bytes long and mapped for the life of the arena.
        (unsafe { Item::at(chunk, info.chunk_bytes) }, info)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.mapped().into_iter().for_each(fork::unregister);
        // SAFETY: the mapping is ours, and `&mut self` means that nobody borrows from it any more.
        let _ = unsafe { mm::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn info(chunk_bytes: u32) -> SlabInfo {
        SlabInfo { chunk_bytes, pool: 513, class: 7, keyspace: 9 }
    }

    #[test]
    fn slabs_are_assigned_once_and_come_back() {
        let arena = Arena::reserve(2, false).expect("address space");
        let a = arena.assign(info(64)).expect("first");
        let b = arena.assign(info(4096)).expect("second");
        assert_ne!(a, b);
        assert_eq!(arena.assign(info(64)), None);
        assert_eq!(arena.info(b.id), info(4096));
        // SAFETY: nothing was ever allocated from it.
        unsafe { arena.give_back(a) };
        assert_eq!(arena.assigned_slabs(), 1);
        assert_eq!(arena.info(a.id).chunk_bytes, 0);
        assert_eq!(arena.assign(info(128)), Some(a));
    }

    #[test]
    fn slabs_that_have_memory_are_assigned_first_and_no_more_than_allowed_keep_it() {
        let arena = Arena::reserve(8, false).unwrap();
        assert_eq!(arena.touch_ahead(2, 8), 2);
        assert_eq!(arena.touch_ahead(2, 8), 0, "they have it already");
        assert_eq!(arena.assigned_slabs(), 0);
        let slab = arena.assign(info(64)).unwrap();
        assert_eq!((slab.id.slab().0, arena.assigned_slabs()), (1, 1));
        assert_eq!(arena.touch_ahead(3, 8), 2);
        assert_eq!(arena.touch_ahead(3, 1), 0);
        assert_eq!(arena.free.lock().touched.len(), 1, "the others gave it back");
        assert_eq!(arena.touch_ahead(100, 100), 6, "there are no more");
        while arena.assign(info(64)).is_some() {}
        assert_eq!(arena.assigned_slabs(), 8);
        // SAFETY: none of its chunks was ever used.
        unsafe { arena.give_back(slab) };
        assert_eq!((arena.touch_ahead(1, 1), arena.assign(info(64))), (1, Some(slab)));
    }

    #[test]
    fn memory_of_a_returned_slab_reads_as_zeros() {
        let arena = Arena::reserve(1, true).expect("address space");
        let slab = arena.assign(info(64)).expect("a slab");
        let ptr = slab.chunk(65_535);
        arena.item(ptr).0.state().set_bits_for_test(0xffff_ffff);
        // SAFETY: the only user of the chunk is this test, which is done with it.
        unsafe { arena.give_back(slab) };
        assert_eq!(arena.assign(info(64)), Some(slab));
        assert_eq!(arena.item(ptr).0.state().bits_for_test(), 0);
    }

    #[test]
    fn what_a_table_of_units_cannot_mean_is_in_no_run() {
        let slab = SlabId(3);
        let good = info(128).pack_unit(0);
        let mut words = [0; UNITS as usize];
        words[3] = good;
        words[4] = info(128).pack_unit(1);
        words[5] = info(128).pack_unit(3);
        words[6] = info(64).pack_unit(1);
        words[7] = info(8).pack_unit(0);
        words[8] = info(8192).pack_unit(0);
        words[1] = good;
        words[1023] = good;
        let found = runs_of(slab, words.into_iter());
        let expected = [(Run { id: RunId::at_unit(slab, 3), units: 2 }, info(128))];
        assert_eq!(found[..1], expected);
        assert_eq!(found[1..], [(Run { id: RunId::at_unit(slab, 1023), units: 1 }, info(128))]);
    }

    #[test]
    fn a_shared_arena_is_found_as_it_was_left() {
        let folder = std::env::temp_dir().join(format!("millpond-arena-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let open = |slabs| {
            Arena::open(Shared::open(&folder).expect("opens"), slabs, u64::from(slabs) << 22, false)
                .expect("maps")
        };
        let bits = |arena: &Arena, run: Run, number| arena.item(run.chunk(number)).0.state().bits_for_test();
        let arena = open(4);
        assert!(arena.found().is_empty());
        let slabs: Vec<Run> = (0..4).map(|i| arena.assign(info(64 << i)).expect("free")).collect();
        for (i, slab) in slabs.iter().enumerate() {
            arena.item(slab.chunk(7)).0.state().set_bits_for_test(i as u32 + 1);
        }
        // SAFETY: nobody reads it.
        unsafe { arena.give_back(slabs[1]) };
        let refused = Shared::open(&folder).expect_err("in use");
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        drop(arena);
        // With fewer slabs, what does not fit is gone; what was free is zero; the rest is there.
        let arena = open(3);
        assert_eq!(arena.found(), [(slabs[0], info(64)), (slabs[2], info(256))]);
        assert_eq!((bits(&arena, slabs[0], 7), bits(&arena, slabs[2], 7)), (1, 3));
        arena.reassign(slabs[2], SlabInfo { pool: 1, ..info(256) });
        let again = arena.assign(info(128)).expect("the one that was given back");
        assert_eq!((again, bits(&arena, again, 7), arena.assign(info(64))), (slabs[1], 0, None));
        drop(arena);
        let arena = open(8);
        assert_eq!(arena.info(slabs[2].id).pool, 1);
        let fourth = arena.assign(info(512)).expect("free");
        assert_eq!((fourth, bits(&arena, fourth, 7)), (slabs[3], 0));
        let found = arena.found();
        // No slab of these words: one that is split does not leave, and no chunk has 65 bytes.
        arena.word(SlabId(5)).store(SPLIT | LEAVING, Ordering::Relaxed);
        arena.word(SlabId(6)).store(65 << 40, Ordering::Relaxed);
        drop(arena);
        assert_eq!(open(8).found(), found);
        std::fs::write(folder.join("words"), [7; 8192]).expect("writes");
        let refused = Shared::open(&folder).expect_err("not ours");
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
        assert!(refused.to_string().contains("remove it"), "{refused}");
        std::fs::remove_dir_all(&folder).expect("removes");
    }
}
