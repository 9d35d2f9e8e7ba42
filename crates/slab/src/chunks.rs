//! The chunks of one pool and class: which are free, and what number each has within the class.
//!
//! Eviction queues name a chunk by its *number within the class* (28 bits) and its incarnation (4 bits): an entry
//! whose incarnation is not the chunk's any more is stale. Slabs get an *ordinal* in the class; the number is
//! `ordinal * chunks_per_slab + number within the slab`.
//!
//! Free chunks form a stack through their own memory (offset 4, so that the state word keeps its incarnation). A
//! plain value without a lock: the engine keeps it behind the lock of the class.

use crate::arena::{Arena, SlabInfo};
use crate::item::Item;
use crate::ptr::{ItemPtr, SlabId};

/// Names a chunk within its class, together with its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkNumber(pub u32);

const INCARNATION_SHIFT: u32 = 28;
const NUMBER: u32 = (1 << INCARNATION_SHIFT) - 1;
const NONE: u32 = u32::MAX;

/// Chunks of one class of one pool.
pub struct Chunks {
    info: SlabInfo,
    per_slab: u32,
    /// By ordinal; `None` once a slab was taken away.
    slabs: Vec<Option<SlabId>>,
    vacant_ordinals: Vec<u32>,
    free_head: u32,
    free: u32,
    /// Chunks from this number on, of the newest slab, were never used.
    fresh: Option<(SlabId, u32)>,
}

impl Chunks {
    /// A class without slabs; `info` is what its slabs will be marked with.
    pub fn new(info: SlabInfo) -> Self {
        Self {
            info,
            per_slab: info.chunks_per_slab(),
            slabs: Vec::new(),
            vacant_ordinals: Vec::new(),
            free_head: NONE,
            free: 0,
            fresh: None,
        }
    }

    /// What the slabs of this class are marked with.
    pub fn info(&self) -> SlabInfo {
        self.info
    }

    /// The slabs of this class.
    pub fn slabs(&self) -> impl Iterator<Item = SlabId> + '_ {
        self.slabs.iter().filter_map(|slab| *slab)
    }

    /// How many slabs the class has.
    pub fn slab_count(&self) -> usize {
        self.slabs.len() - self.vacant_ordinals.len()
    }

    /// How many chunks are free.
    pub fn free_chunks(&self) -> u32 {
        self.free + self.fresh.map_or(0, |(_, next)| self.per_slab - next)
    }

    /// Whether one more slab can be numbered (at most 268 million chunks in a class).
    pub fn has_room_for_slab(&self) -> bool {
        !self.vacant_ordinals.is_empty()
            || (self.slabs.len() as u64 + 1) * u64::from(self.per_slab) <= u64::from(NUMBER)
    }

    /// Adds a slab that was assigned to this class. Its chunks are free.
    pub fn add_slab(&mut self, arena: &Arena, slab: SlabId) {
        self.drain_fresh(arena);
        self.number_slab(arena, slab);
        self.fresh = Some((slab, 0));
    }

    /// Adds a slab that was assigned to this class and has items in it. The caller [`Self::push`]es those of its chunks
    /// that are free.
    pub fn add_used_slab(&mut self, arena: &Arena, slab: SlabId) {
        self.number_slab(arena, slab);
    }

    fn number_slab(&mut self, arena: &Arena, slab: SlabId) {
        let ordinal = match self.vacant_ordinals.pop() {
            Some(ordinal) => {
                self.slabs[ordinal as usize] = Some(slab);
                ordinal
            }
            None => {
                self.slabs.push(Some(slab));
                self.slabs.len() as u32 - 1
            }
        };
        arena.set_ordinal(slab, ordinal);
    }

    /// Puts the never-used chunks of the newest slab on the free list, where another slab is about to be the newest.
    fn drain_fresh(&mut self, arena: &Arena) {
        while let Some(ptr) = self.pop_fresh() {
            self.push(arena, ptr);
        }
    }

    fn pop_fresh(&mut self) -> Option<ItemPtr> {
        let (slab, next) = self.fresh?;
        self.fresh = (next + 1 < self.per_slab).then_some((slab, next + 1));
        Some(ItemPtr::new(slab, next as u16))
    }

    /// Takes a free chunk.
    #[inline]
    pub fn pop(&mut self, arena: &Arena) -> Option<ItemPtr> {
        if self.free_head == NONE {
            return self.pop_fresh();
        }
        let ptr = ItemPtr::from_bits(self.free_head);
        // SAFETY: a chunk on the free list is free, and `&mut self` stands for the lock of the class.
        self.free_head = unsafe { arena.item(ptr).0.free_link().read() };
        self.free -= 1;
        Some(ptr)
    }

    /// Gives a chunk back.
    #[inline]
    pub fn push(&mut self, arena: &Arena, ptr: ItemPtr) {
        // SAFETY: the caller owns the chunk and gives it up here; `&mut self` stands for the lock of the class.
        unsafe { arena.item(ptr).0.free_link().write(self.free_head) };
        self.free_head = ptr.to_bits();
        self.free += 1;
    }

    /// The queue's name for the chunk of `ptr` in its present incarnation.
    #[inline]
    pub fn number(&self, arena: &Arena, ptr: ItemPtr) -> ChunkNumber {
        let number = arena.ordinal(ptr.slab()) * self.per_slab + u32::from(ptr.number());
        let incarnation = u32::from(arena.item(ptr).0.state().incarnation());
        ChunkNumber(incarnation << INCARNATION_SHIFT | number)
    }

    /// The chunk that a queue's entry names, if the entry still speaks of the chunk's present incarnation.
    #[inline]
    pub fn resolve<'a>(&self, arena: &'a Arena, number: ChunkNumber) -> Option<(ItemPtr, Item<'a>)> {
        let ptr = self.locate(number)?;
        let (item, _) = arena.item(ptr);
        (u32::from(item.state().incarnation()) == number.0 >> INCARNATION_SHIFT).then_some((ptr, item))
    }

    /// The chunk that a queue's entry names, whatever its incarnation.
    #[inline]
    pub fn locate(&self, number: ChunkNumber) -> Option<ItemPtr> {
        let number = number.0 & NUMBER;
        let slab = (*self.slabs.get((number / self.per_slab) as usize)?)?;
        Some(ItemPtr::new(slab, (number % self.per_slab) as u16))
    }

    /// Takes all free chunks of `slab` out of the free list. They stay out until [`Self::restore`] or
    /// [`Self::remove_slab`]. Costs a walk of the free list.
    pub fn withhold(&mut self, arena: &Arena, slab: SlabId) -> Withheld {
        let fresh = self.fresh.filter(|(fresh, _)| *fresh == slab).map(|(_, next)| next);
        if fresh.is_some() {
            self.fresh = None;
        }
        let (mut kept, mut freed) = (Vec::new(), Vec::new());
        while self.free_head != NONE {
            match self.pop(arena) {
                Some(ptr) if ptr.slab() == slab => freed.push(ptr),
                Some(ptr) => kept.push(ptr),
                None => break,
            }
        }
        for ptr in kept.into_iter().rev() {
            self.push(arena, ptr);
        }
        let fresh = fresh.unwrap_or(self.per_slab)..self.per_slab;
        Withheld { slab, freed, fresh }
    }

    /// Puts withheld chunks on the free list again.
    pub fn restore(&mut self, arena: &Arena, withheld: Withheld) {
        let fresh = withheld.fresh.map(|number| ItemPtr::new(withheld.slab, number as u16));
        for ptr in withheld.freed.into_iter().chain(fresh) {
            self.push(arena, ptr);
        }
    }

    /// Forgets `slab`. Queue entries that name its chunks are stale from now on.
    pub fn remove_slab(&mut self, arena: &Arena, slab: SlabId) {
        let ordinal = arena.ordinal(slab);
        self.slabs[ordinal as usize] = None;
        self.vacant_ordinals.push(ordinal);
    }
}

/// The free chunks of a slab that is about to leave its class.
pub struct Withheld {
    slab: SlabId,
    freed: Vec<ItemPtr>,
    /// The numbers of chunks that were never used.
    fresh: std::ops::Range<u32>,
}

impl Withheld {
    /// The slab.
    pub fn slab(&self) -> SlabId {
        self.slab
    }

    /// How many chunks are withheld.
    pub fn len(&self) -> usize {
        self.freed.len() + self.fresh.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the chunk with this number was never used.
    pub fn is_fresh(&self, number: u16) -> bool {
        self.fresh.contains(&u32::from(number))
    }

    /// Adds a chunk of the slab that has become free.
    pub fn push(&mut self, ptr: ItemPtr) {
        debug_assert_eq!(ptr.slab(), self.slab);
        self.freed.push(ptr);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn setup(slabs: u32) -> (Arena, Chunks) {
        let arena = Arena::reserve(slabs, false).expect("address space");
        let info = SlabInfo { chunk_bytes: 1 << 20, pool: 0, class: 0, keyspace: 0 };
        (arena, Chunks::new(info))
    }

    fn add(arena: &Arena, chunks: &mut Chunks) -> SlabId {
        let slab = arena.assign(chunks.info()).expect("a free slab");
        chunks.add_slab(arena, slab);
        slab
    }

    #[test]
    fn each_chunk_is_given_out_once() {
        let (arena, mut chunks) = setup(2);
        assert_eq!(chunks.pop(&arena), None);
        add(&arena, &mut chunks);
        let first = chunks.pop(&arena).expect("a fresh chunk");
        add(&arena, &mut chunks);
        assert_eq!(chunks.free_chunks(), 7);
        let mut seen = HashSet::from([first]);
        while let Some(ptr) = chunks.pop(&arena) {
            assert!(seen.insert(ptr));
        }
        assert_eq!((seen.len(), chunks.free_chunks()), (8, 0));
        chunks.push(&arena, first);
        assert_eq!(chunks.pop(&arena), Some(first));
    }

    #[test]
    fn numbers_resolve_until_the_chunk_is_reused() {
        let (arena, mut chunks) = setup(2);
        add(&arena, &mut chunks);
        add(&arena, &mut chunks);
        for _ in 0..8 {
            let ptr = chunks.pop(&arena).expect("a chunk");
            let state = arena.item(ptr).0.state();
            state.begin();
            let number = chunks.number(&arena, ptr);
            assert_eq!(chunks.resolve(&arena, number).map(|found| found.0), Some(ptr));
            state.begin();
            assert!(chunks.resolve(&arena, number).is_none());
            assert_eq!(chunks.locate(number), Some(ptr));
        }
    }

    #[test]
    fn a_slab_is_withheld_and_removed() {
        let (arena, mut chunks) = setup(2);
        let a = add(&arena, &mut chunks);
        let used = chunks.pop(&arena).expect("a chunk of the first slab");
        let b = add(&arena, &mut chunks);
        let number = chunks.number(&arena, used);
        assert_eq!(chunks.withhold(&arena, a).len(), 3);
        assert_eq!(chunks.free_chunks(), 4);
        chunks.remove_slab(&arena, a);
        assert_eq!(chunks.slabs().collect::<Vec<_>>(), [b]);
        assert!(chunks.resolve(&arena, number).is_none());
        while let Some(ptr) = chunks.pop(&arena) {
            assert_eq!(ptr.slab(), b);
        }
    }
}
