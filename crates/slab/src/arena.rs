//! The reserved range of addresses and the table of its slabs.
//!
//! Address space is reserved once, for the largest size that the cache may ever be given, and costs nothing until a
//! slab is first touched. A slab is *free* or *assigned* to one pool and class.
//!
//! Invariants:
//! 1. The range stays mapped, readable and writable for the whole life of the `Arena`: a pointer computed from any
//!    in-range `ItemPtr` may be read at any time. What is read may be stale; the state word tells.
//! 2. A slab's table entry changes only from free to assigned and back, by whoever holds the slab. `chunk_bytes` is
//!    at least 64 while assigned, so `number * chunk_bytes` of an `ItemPtr` made for that slab stays inside it.
//! 3. An assigned slab is handed back only after no reader can still hold an `ItemPtr` into it.

use std::io::{self, ErrorKind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::item::Item;
use crate::ptr::{ItemPtr, SlabId};
use crate::shared::Shared;
use crate::words::Words;
use crate::{MIN_CHUNK_BYTES, SLAB_BYTES};

/// What a slab holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabInfo {
    /// Size of its chunks in bytes; 0 for a free slab.
    pub chunk_bytes: u32,
    /// The pool that holds it.
    pub pool: u16,
    /// The size class within the pool.
    pub class: u8,
    /// The key space of the pool.
    pub keyspace: u16,
}

impl SlabInfo {
    /// 24 bits of chunk size, 8 of class, 16 of pool, 16 of key space.
    const fn pack(self) -> u64 {
        (self.chunk_bytes as u64) << 40
            | (self.class as u64) << 32
            | (self.pool as u64) << 16
            | self.keyspace as u64
    }

    #[inline]
    pub(crate) const fn unpack(bits: u64) -> Self {
        Self {
            chunk_bytes: (bits >> 40) as u32,
            class: (bits >> 32) as u8,
            pool: (bits >> 16) as u16,
            keyspace: bits as u16,
        }
    }

    /// How many chunks such a slab has.
    #[inline]
    pub const fn chunks_per_slab(self) -> u32 {
        SLAB_BYTES as u32 / self.chunk_bytes
    }
}

/// The reserved range.
pub struct Arena {
    base: NonNull<u8>,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// A word for each slab, from `first_word` on.
    words: Arc<Words>,
    first_word: usize,
    /// Whether the slabs lie in a file, which the lock on it protects from other processes.
    shared: Option<Shared>,
    /// The ordinal of each slab within its class.
    ordinals: Box<[AtomicU32]>,
    free: Mutex<FreeSlabs>,
}

/// The smallest page of this kind of machine: each may need memory of its own.
pub const PAGE_BYTES: usize = 4096;

/// Slabs that nobody holds.
struct FreeSlabs {
    /// Slabs from here on were never used.
    fresh: u32,
    returned: Vec<SlabId>,
    /// Those that have memory already.
    touched: Vec<SlabId>,
    /// Taken out while memory is taken for them.
    touching: u32,
}

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
}

// SAFETY: the mapping belongs to the arena alone; all shared access to it goes through atomics or through items,
// whose own rules (module `item`) say who may touch what.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves room for `max_slabs` slabs (at most 65,536). `huge_pages` asks for transparent 2 MiB pages.
    ///
    /// # Errors
    /// Where the system refuses that much address space.
    ///
    /// # Panics
    /// Where `max_slabs` is 0 or above 65,536.
    pub fn reserve(max_slabs: u32, huge_pages: bool) -> io::Result<Self> {
        Self::with_words(max_slabs, huge_pages, Arc::new(Words::on_heap(max_slabs as usize)), 0, None)
    }

    /// The slabs in a file. Those that were assigned when the last process ended still are ([`Self::found`]), but for
    /// those beyond `max_slabs`, which are free; all others read as zeros.
    ///
    /// # Errors
    /// Where the system refuses that much address space, or the file cannot be made longer or mapped.
    ///
    /// # Panics
    /// As [`Self::reserve`].
    pub fn open(shared: Shared, max_slabs: u32, huge_pages: bool) -> io::Result<Self> {
        let (words, first_word) = shared.table();
        let bytes = u64::from(max_slabs) * SLAB_BYTES as u64;
        let was_bytes = shared.slabs().metadata()?.len();
        for word in words.iter().skip(first_word + max_slabs as usize) {
            word.store(0, Ordering::Release);
        }
        if was_bytes != bytes {
            shared.slabs().set_len(bytes)?;
        }
        let arena = Self::with_words(max_slabs, huge_pages, words, first_word, Some(shared))?;
        let assigned: Vec<u32> = arena.found().iter().map(|(slab, _)| slab.0.into()).collect();
        let mut free = arena.free.lock();
        free.fresh = assigned.last().map_or(0, |last| last + 1);
        let vacant = (0..free.fresh).filter(|slab| assigned.binary_search(slab).is_err());
        free.returned = vacant.map(|slab| SlabId(slab as u16)).collect();
        // A process may have died between taking a slab out of the table and giving its memory back.
        for slab in &free.returned {
            arena.release_memory(*slab);
        }
        let (after, end) = (u64::from(free.fresh) * SLAB_BYTES as u64, was_bytes.min(bytes));
        if after < end {
            let shared = arena.shared.as_ref().map(Shared::slabs).ok_or(ErrorKind::NotFound)?;
            shared.set_len(after)?;
            shared.set_len(bytes)?;
        }
        drop(free);
        Ok(arena)
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
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
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
        // SAFETY: `shift` is below one slab, and the mapping is one slab longer than the range.
        let base = unsafe { mapping.add(shift) };
        let arena = Self {
            base,
            mapping,
            mapping_bytes,
            words,
            first_word,
            shared,
            ordinals: (0..max_slabs).map(|_| AtomicU32::new(0)).collect(),
            free: Mutex::new(FreeSlabs { fresh: 0, returned: Vec::new(), touched: Vec::new(), touching: 0 }),
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

    /// The slabs that are assigned, in order. Right after [`Self::open`]: those that the last process left.
    pub fn found(&self) -> Vec<(SlabId, SlabInfo)> {
        let infos = (0..self.max_slabs()).map(|slab| (SlabId(slab as u16), self.info(SlabId(slab as u16))));
        infos.filter(|(_, info)| info.chunk_bytes != 0).collect()
    }

    /// Says anew to whom an assigned slab belongs. Its chunks keep their size.
    ///
    /// # Panics
    /// Where the slab has chunks of another size.
    pub fn reassign(&self, slab: SlabId, info: SlabInfo) {
        assert_eq!(self.info(slab).chunk_bytes, info.chunk_bytes, "a slab's chunks keep their size");
        self.word(slab).store(info.pack(), Ordering::Release);
    }

    #[inline]
    fn word(&self, slab: SlabId) -> &AtomicU64 {
        &self.words[self.first_word + usize::from(slab.0)]
    }

    /// The number of slabs that the range has room for.
    pub fn max_slabs(&self) -> u32 {
        self.ordinals.len() as u32
    }

    /// The number of slabs that are assigned now.
    pub fn assigned_slabs(&self) -> u32 {
        let free = self.free.lock();
        free.fresh - (free.returned.len() + free.touched.len()) as u32 - free.touching
    }

    /// Takes a free slab and assigns it, or returns `None` where all are taken. Locks the list of free slabs.
    ///
    /// # Panics
    /// Where the chunk size is out of range.
    pub fn assign(&self, info: SlabInfo) -> Option<SlabId> {
        assert!((MIN_CHUNK_BYTES..=SLAB_BYTES as u32).contains(&info.chunk_bytes));
        let mut free = self.free.lock();
        let slab = match free.touched.pop() {
            Some(slab) => slab,
            None => free.untouched(self.max_slabs())?,
        };
        self.word(slab).store(info.pack(), Ordering::Release);
        Some(slab)
    }

    /// Takes memory from the system for free slabs until `slabs` have some, so that whoever is given one need not wait for it, and
    /// gives back that of free slabs beyond `most`. For a thread of the background: each slab takes up to some milliseconds, without a
    /// lock. Meanwhile it is nobody else's. Returns for how many it took memory.
    pub fn touch_ahead(&self, slabs: u32, most: u32) -> u32 {
        let mut taken = 0;
        loop {
            let mut free = self.free.lock();
            let excess = (free.touched.len() > most as usize).then(|| free.touched.pop()).flatten();
            if let Some(slab) = excess {
                free.touching += 1;
                drop(free);
                self.release_memory(slab);
                let mut free = self.free.lock();
                free.touching -= 1;
                free.returned.push(slab);
                continue;
            }
            if free.touched.len() >= slabs.min(most) as usize {
                return taken;
            }
            let Some(slab) = free.untouched(self.max_slabs()) else { return taken };
            free.touching += 1;
            drop(free);
            let start = self.slab_start(slab).as_ptr();
            for page in (0..SLAB_BYTES).step_by(PAGE_BYTES) {
                // SAFETY: the slab lies within the mapping, is assigned to nobody and reads as zeros (invariant 3). Told to the
                // system instead (`MADV_POPULATE_WRITE`), the address space would be locked for others all the while.
                unsafe { start.add(page).write_volatile(0) };
            }
            taken += 1;
            let mut free = self.free.lock();
            free.touching -= 1;
            free.touched.push(slab);
        }
    }

    /// Gives a slab's memory back to the system and the slab to the free list.
    ///
    /// # Safety
    /// The caller holds the slab, no chunk of it is in use, and no reader can still reach one (invariant 3).
    pub unsafe fn give_back(&self, slab: SlabId) {
        self.word(slab).store(0, Ordering::Release);
        self.release_memory(slab);
        self.free.lock().returned.push(slab);
    }

    /// Lets a slab that is in no table read as zeros, which are the state words of chunks that were never used.
    fn release_memory(&self, slab: SlabId) {
        let advice = if self.shared.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: the slab lies within the mapping, and belongs to nobody: it is not in the table.
        let released = unsafe { mm::madvise(self.slab_start(slab).as_ptr().cast(), SLAB_BYTES, advice) };
        if released.is_err() && self.shared.is_some() {
            // A file system that cannot punch holes.
            // SAFETY: as above.
            unsafe { self.slab_start(slab).write_bytes(0, SLAB_BYTES) };
        }
    }

    /// What `slab` holds.
    ///
    /// # Panics
    /// Where there is no such slab.
    #[inline]
    pub fn info(&self, slab: SlabId) -> SlabInfo {
        SlabInfo::unpack(self.word(slab).load(Ordering::Relaxed))
    }

    /// The ordinal of `slab` within its class.
    #[inline]
    pub(crate) fn ordinal(&self, slab: SlabId) -> u32 {
        self.ordinals[usize::from(slab.0)].load(Ordering::Relaxed)
    }

    pub(crate) fn set_ordinal(&self, slab: SlabId, ordinal: u32) {
        self.ordinals[usize::from(slab.0)].store(ordinal, Ordering::Relaxed);
    }

    #[inline]
    fn slab_start(&self, slab: SlabId) -> NonNull<u8> {
        debug_assert!(usize::from(slab.0) < self.ordinals.len());
        // SAFETY: a `SlabId` comes from `assign`, so it is below `max_slabs` and the offset within the range.
        unsafe { self.base.add(usize::from(slab.0) * SLAB_BYTES) }
    }

    /// The item in the chunk that `ptr` names, and what its slab holds.
    ///
    /// The reference says nothing about the chunk being in use: see the rules of [`Item`].
    #[inline]
    pub fn item(&self, ptr: ItemPtr) -> (Item<'_>, SlabInfo) {
        let info = self.info(ptr.slab());
        // A pointer that outlived its slab's assignment must still yield an address inside the slab.
        let offset = usize::from(ptr.number()) * info.chunk_bytes as usize;
        debug_assert!(offset < SLAB_BYTES);
        // SAFETY: `ptr` was made for this slab while it had this chunk size (invariants 2 and 3), so the offset is
        // that of a chunk inside the slab, which is mapped (invariant 1).
        let chunk = unsafe { self.slab_start(ptr.slab()).add(offset) };
        // SAFETY: the chunk is 8-byte aligned (sizes are multiples of 8, slabs of 4 MiB), at least 64 bytes long and
        // mapped for the life of the arena.
        (unsafe { Item::at(chunk, info.chunk_bytes) }, info)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
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
        assert_eq!(arena.info(b), info(4096));
        // SAFETY: nothing was ever allocated from it.
        unsafe { arena.give_back(a) };
        assert_eq!(arena.assigned_slabs(), 1);
        assert_eq!(arena.info(a).chunk_bytes, 0);
        assert_eq!(arena.assign(info(128)), Some(a));
    }

    #[test]
    fn slabs_that_have_memory_are_assigned_first_and_no_more_than_allowed_keep_it() {
        let arena = Arena::reserve(8, false).unwrap();
        assert_eq!(arena.touch_ahead(2, 8), 2);
        assert_eq!(arena.touch_ahead(2, 8), 0, "they have it already");
        assert_eq!(arena.assigned_slabs(), 0);
        let slab = arena.assign(info(64)).unwrap();
        assert_eq!((slab.0, arena.assigned_slabs()), (1, 1));
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
        let ptr = ItemPtr::new(slab, 65_535);
        arena.item(ptr).0.state().set_bits_for_test(0xffff_ffff);
        // SAFETY: the only user of the chunk is this test, which is done with it.
        unsafe { arena.give_back(slab) };
        assert_eq!(arena.assign(info(64)), Some(slab));
        assert_eq!(arena.item(ptr).0.state().bits_for_test(), 0);
    }

    #[test]
    fn a_shared_arena_is_found_as_it_was_left() {
        let folder = std::env::temp_dir().join(format!("millpond-arena-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let open = |slabs| Arena::open(Shared::open(&folder).expect("opens"), slabs, false).expect("maps");
        let bits =
            |arena: &Arena, slab, number| arena.item(ItemPtr::new(slab, number)).0.state().bits_for_test();
        let arena = open(4);
        assert!(arena.found().is_empty());
        let slabs: Vec<SlabId> = (0..4).map(|i| arena.assign(info(64 << i)).expect("free")).collect();
        for (i, slab) in slabs.iter().enumerate() {
            arena.item(ItemPtr::new(*slab, 7)).0.state().set_bits_for_test(i as u32 + 1);
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
        assert_eq!(arena.info(slabs[2]).pool, 1);
        let fourth = arena.assign(info(512)).expect("free");
        assert_eq!((fourth, bits(&arena, fourth, 7)), (slabs[3], 0));
        drop(arena);
        std::fs::write(folder.join("words"), [7; 8192]).expect("writes");
        let refused = Shared::open(&folder).expect_err("not ours");
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
        assert!(refused.to_string().contains("remove it"), "{refused}");
        std::fs::remove_dir_all(&folder).expect("removes");
    }
}
