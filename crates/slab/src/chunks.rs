//! The chunks of one pool and class: which are free, and what number each has within the class.
//!
//! Eviction queues name a chunk by its *number within the class* (28 bits) and its incarnation (4
//! bits): an entry whose incarnation is not the chunk's any more is stale. Runs get an *ordinal* in
//! the class; the number is `ordinal * chunks_per_slab + number within the run`, so that a short
//! run leaves numbers unused.
//!
//! The free chunks of each run form a stack through their own memory (offset 4, so that the state
//! word keeps its incarnation), so that a run that leaves takes its free chunks along, however many
//! the class has. Runs with free chunks form a stack, too. A plain value without a lock: the engine
//! keeps it behind the lock of the class.
//!
//! Invariants:
//! 1. A chunk on the stack of its run is nobody's, but for readers of its state word. The four
//!    bytes behind the state word are the pointer of the next chunk on the stack, or say that there
//!    is none.
//! 2. Whoever has `&mut Chunks` is the only thread that touches these pointers.

use crate::arena::{Arena, SlabInfo};
use crate::item::Item;
use crate::ptr::ItemPtr;
use crate::run::Run;
use crate::{MIN_CHUNK_BYTES, SLAB_BYTES};

/// Names a chunk within its class, together with its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkNumber(pub u32);

const INCARNATION_SHIFT: u32 = 28;
const NUMBER: u32 = (1 << INCARNATION_SHIFT) - 1;

impl ChunkNumber {
    /// Lower bits that name the chunk; the others are its incarnation.
    pub const BITS: u32 = INCARNATION_SHIFT;
}
const NONE: u32 = u32::MAX;

/// A number of chunks by which numbers of chunks are divided, several times for each eviction: by a
/// multiplication.
struct Divisor {
    by: u32,
    /// The least that times `by` is above `2^SHIFT`, by at most `by`: that times any number is less
    /// than `2^SHIFT`, so that no quotient comes out too large.
    reciprocal: u64,
}

const SHIFT: u32 = INCARNATION_SHIFT + 16;
const _: () = assert!(SLAB_BYTES / MIN_CHUNK_BYTES as usize <= 1 << 16);

impl Divisor {
    fn new(by: u32) -> Self {
        Self { by, reciprocal: (1 << SHIFT) / u64::from(by) + 1 }
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(&self, number: u32) -> (u32, u32) {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> SHIFT) as u32;
        (quotient, number - quotient * self.by)
    }
}

/// The place of a run in its class.
#[derive(Default)]
struct Place {
    /// With how many chunks it has; `None` once it was taken away.
    run: Option<(Run, u32)>,
    /// The free chunk that was given back last, and how many there are; but those that were never
    /// used.
    free_head: u32,
    free: u32,
    /// True if the place is in [`Chunks::open`].
    is_open: bool,
}

/// Chunks of one class of one pool.
pub struct Chunks {
    info: SlabInfo,
    per_slab: Divisor,
    /// By ordinal.
    runs: Vec<Place>,
    vacant_ordinals: Vec<u32>,
    /// The ordinals of runs that have free chunks, each once, and of some that have none any more.
    open: Vec<u32>,
    /// Chunks and bytes of all runs.
    chunks: u64,
    bytes: u64,
    free: u32,
    /// Chunks from this number on, of the newest run, were never used.
    fresh: Option<(Run, u32)>,
}

impl Chunks {
    /// A class without runs; `info` is what its runs will be marked with.
    pub fn new(info: SlabInfo) -> Self {
        Self {
            info,
            per_slab: Divisor::new(info.chunks_per_slab()),
            runs: Vec::new(),
            vacant_ordinals: Vec::new(),
            open: Vec::new(),
            chunks: 0,
            bytes: 0,
            free: 0,
            fresh: None,
        }
    }

    /// The mark of the runs of this class.
    pub fn info(&self) -> SlabInfo {
        self.info
    }

    /// The runs of this class, by their ordinals.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs.iter().filter_map(|place| place.run.map(|(run, _)| run))
    }

    /// Returns the number of runs of the class.
    pub fn run_count(&self) -> usize {
        self.runs.len() - self.vacant_ordinals.len()
    }

    /// Returns the number of chunks of the class.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Memory of its runs, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of free chunks.
    pub fn free_chunks(&self) -> u32 {
        self.free + self.fresh.map_or(0, |(run, next)| run.chunks(self.info) - next)
    }

    /// Returns the number of free chunks that do not lie in `run`.
    pub fn free_chunks_beside(&self, arena: &Arena, run: Run) -> u64 {
        let (ordinal, _) = arena.ordinal_of(run.chunk(0));
        let fresh = run.chunks(self.info) - self.used_chunks_of(run);
        u64::from(self.free_chunks() - self.runs[ordinal as usize].free - fresh)
    }

    /// The runs of this class, by their ordinals, with how many of their chunks are not free.
    pub fn used_of_runs(&self) -> impl Iterator<Item = (Run, u32)> + '_ {
        let used = |place: &Place| {
            let (run, _) = place.run?;
            Some((run, self.used_chunks_of(run) - place.free))
        };
        self.runs.iter().filter_map(used)
    }

    /// Returns the number of chunks of one of its runs that were ever used: the first ones. The
    /// memory of the others was never touched.
    pub fn used_chunks_of(&self, run: Run) -> u32 {
        self.fresh.filter(|(fresh, _)| *fresh == run).map_or(run.chunks(self.info), |(_, next)| next)
    }

    /// Returns whether one more run can be numbered (at most 268 million chunks in a class).
    pub fn has_room_for_run(&self) -> bool {
        !self.vacant_ordinals.is_empty()
            || (self.runs.len() as u64 + 1) * u64::from(self.per_slab.by) <= u64::from(NUMBER)
    }

    /// Adds a run that was assigned to this class. Its chunks are free.
    pub fn add_run(&mut self, arena: &Arena, run: Run) {
        self.drain_fresh(arena);
        self.number_run(arena, run);
        self.fresh = Some((run, 0));
    }

    /// Adds a run that was assigned to this class and has items in it. The caller [`Self::push`]es
    /// those of its chunks that are free.
    pub fn add_used_run(&mut self, arena: &Arena, run: Run) {
        self.number_run(arena, run);
    }

    fn number_run(&mut self, arena: &Arena, run: Run) {
        let chunks = run.chunks(self.info);
        self.chunks += u64::from(chunks);
        self.bytes += run.bytes();
        let ordinal = self.vacant_ordinals.pop().unwrap_or_else(|| {
            self.runs.push(Place { free_head: NONE, ..Place::default() });
            self.runs.len() as u32 - 1
        });
        self.runs[ordinal as usize].run = Some((run, chunks));
        arena.set_ordinal(run, ordinal);
    }

    /// Puts the never-used chunks of the newest run on the free list, as another run is about to be
    /// the newest.
    fn drain_fresh(&mut self, arena: &Arena) {
        while let Some(ptr) = self.pop_fresh() {
            self.push(arena, ptr);
        }
    }

    fn pop_fresh(&mut self) -> Option<ItemPtr> {
        let (run, next) = self.fresh?;
        self.fresh = (next + 1 < run.chunks(self.info)).then_some((run, next + 1));
        Some(run.chunk(next))
    }

    /// Takes a free chunk.
    #[inline]
    pub fn pop(&mut self, arena: &Arena) -> Option<ItemPtr> {
        while let Some(ordinal) = self.open.last() {
            let place = &mut self.runs[*ordinal as usize];
            if place.free_head != NONE {
                self.free -= 1;
                return place.pop(arena);
            }
            place.is_open = false;
            self.open.pop();
        }
        self.pop_fresh()
    }

    /// Gives a chunk back.
    #[inline]
    pub fn push(&mut self, arena: &Arena, ptr: ItemPtr) {
        let (ordinal, _) = arena.ordinal_of(ptr);
        let place = &mut self.runs[ordinal as usize];
        debug_assert!(place.run.is_some_and(|(run, _)| run.has(ptr)), "a chunk is given back to its run");
        // SAFETY: the caller owns the chunk and gives it up here, so that nobody else uses the
        // place of the pointer (invariants 1 and 2).
        unsafe { arena.item(ptr).0.free_link().write(place.free_head) };
        place.free_head = ptr.to_bits();
        place.free += 1;
        self.free += 1;
        if !std::mem::replace(&mut place.is_open, true) {
            self.open.push(ordinal);
        }
    }

    /// The queue's name for the chunk of `ptr` in its present incarnation.
    #[inline]
    pub fn number(&self, arena: &Arena, ptr: ItemPtr) -> ChunkNumber {
        let (ordinal, number) = arena.ordinal_of(ptr);
        let number = ordinal * self.per_slab.by + number;
        let incarnation = u32::from(arena.item(ptr).0.state().incarnation());
        ChunkNumber(incarnation << INCARNATION_SHIFT | number)
    }

    /// The chunk that a queue's entry names, if the entry still speaks of the chunk's present
    /// incarnation.
    #[inline]
    pub fn resolve<'a>(&self, arena: &'a Arena, number: ChunkNumber) -> Option<(ItemPtr, Item<'a>)> {
        let ptr = self.locate(number)?;
        let (item, _) = arena.item(ptr);
        (u32::from(item.state().incarnation()) == number.0 >> INCARNATION_SHIFT).then_some((ptr, item))
    }

    /// The chunk that a queue's entry names, whatever its incarnation.
    #[inline]
    pub fn locate(&self, number: ChunkNumber) -> Option<ItemPtr> {
        let (ordinal, number) = self.per_slab.divide(number.0 & NUMBER);
        let (run, chunks) = self.runs.get(ordinal as usize)?.run?;
        // The ordinal may be that of a longer run which is gone.
        (number < chunks).then(|| run.chunk(number))
    }

    /// The first chunk that was ever used whose number within the class is `number` or a later one,
    /// and its number.
    pub fn first_from(&self, number: u32) -> Option<(u32, ItemPtr)> {
        let (first, within) = self.per_slab.divide(number & NUMBER);
        let places = self.runs.iter().zip(0..).skip(first as usize);
        let mut chunks = places.filter_map(|(place, ordinal): (&Place, u32)| {
            let (run, _) = place.run?;
            let within = if ordinal == first { within } else { 0 };
            (within < self.used_chunks_of(run))
                .then(|| (ordinal * self.per_slab.by + within, run.chunk(within)))
        });
        chunks.next()
    }

    /// Takes all free chunks of `run` out of the free ones. They stay out until [`Self::restore`]
    /// or [`Self::remove_run`].
    pub fn withhold(&mut self, arena: &Arena, run: Run) -> Withheld {
        let fresh = self.fresh.filter(|(fresh, _)| *fresh == run).map(|(_, next)| next);
        if fresh.is_some() {
            self.fresh = None;
        }
        let (ordinal, _) = arena.ordinal_of(run.chunk(0));
        let place = &mut self.runs[ordinal as usize];
        self.free -= place.free;
        let freed = std::iter::from_fn(|| place.pop(arena)).collect();
        let chunks = run.chunks(self.info);
        Withheld { run, chunks, freed, fresh: fresh.unwrap_or(chunks)..chunks }
    }

    /// Puts withheld chunks back.
    pub fn restore(&mut self, arena: &Arena, withheld: Withheld) {
        let fresh = withheld.fresh.map(|number| withheld.run.chunk(number));
        for ptr in withheld.freed.into_iter().chain(fresh) {
            self.push(arena, ptr);
        }
    }

    /// Forgets `run`. Queue entries that name its chunks are stale from now on.
    pub fn remove_run(&mut self, arena: &Arena, run: Run) {
        let (ordinal, _) = arena.ordinal_of(run.chunk(0));
        if let Some((run, chunks)) = self.runs[ordinal as usize].run.take() {
            self.chunks -= u64::from(chunks);
            self.bytes -= run.bytes();
        }
        self.vacant_ordinals.push(ordinal);
    }
}

impl Place {
    /// Takes the free chunk that was given back last.
    #[inline]
    fn pop(&mut self, arena: &Arena) -> Option<ItemPtr> {
        if self.free_head == NONE {
            return None;
        }
        let ptr = ItemPtr::from_bits(self.free_head);
        // SAFETY: the chunk is on the stack, so that nobody else uses it, and begins with such a
        // pointer behind its state word (invariant 1); no other thread has the class (invariant 2).
        self.free_head = unsafe { arena.item(ptr).0.free_link().read() };
        self.free -= 1;
        Some(ptr)
    }
}

/// The free chunks of a run that is about to leave its class.
pub struct Withheld {
    run: Run,
    /// All of the run's, free or not.
    chunks: u32,
    freed: Vec<ItemPtr>,
    /// The numbers of chunks that were never used.
    fresh: std::ops::Range<u32>,
}

impl Withheld {
    /// The run.
    pub fn run(&self) -> Run {
        self.run
    }

    /// Returns whether all chunks of the run are withheld.
    pub fn is_whole(&self) -> bool {
        self.len() == self.chunks as usize
    }

    /// Returns the number of chunks that are withheld.
    fn len(&self) -> usize {
        self.freed.len() + self.fresh.len()
    }

    /// Adds a chunk of the run that has become free.
    pub fn push(&mut self, ptr: ItemPtr) {
        debug_assert!(self.run.has(ptr));
        self.freed.push(ptr);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use base::rng::{RngExt, seeded};

    use super::*;

    fn setup(slabs: u32) -> (Arena, Chunks) {
        let arena = Arena::reserve(slabs, false).expect("address space");
        let info = SlabInfo { chunk_bytes: 1 << 20, pool: 0, class: 0, keyspace: 0 };
        (arena, Chunks::new(info))
    }

    fn add(arena: &Arena, chunks: &mut Chunks) -> Run {
        let run = arena.assign(chunks.info()).expect("a free slab");
        chunks.add_run(arena, run);
        run
    }

    #[test]
    fn numbers_are_divided_as_by_a_division() {
        for by in 1..=1 << 16 {
            let divisor = Divisor::new(by);
            let last = NUMBER / by * by;
            for number in [0, 1, by - 1, by, by + 1, last.wrapping_sub(1), last, NUMBER - 1, NUMBER] {
                let number = number & NUMBER;
                assert_eq!(divisor.divide(number), (number / by, number % by), "{number} by {by}");
            }
        }
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

    /// Against a set: what is given out is free, and what leaves with a run is what was free of it.
    #[test]
    fn free_chunks_are_those_of_a_model_as_runs_come_and_go() {
        let arena = Arena::reserve(40, false).expect("address space");
        let info = SlabInfo { chunk_bytes: 1 << 16, pool: 0, class: 0, keyspace: 0 };
        let mut chunks = Chunks::new(info);
        let (mut rng, mut used) = (seeded(5), Vec::new());
        let mut free: HashSet<ItemPtr> = HashSet::new();
        for _ in 0..20_000 {
            match rng.random_range(0..100) {
                0..45 => {
                    let popped = chunks.pop(&arena);
                    assert_eq!(popped.is_some(), !free.is_empty());
                    used.extend(popped.inspect(|ptr| assert!(free.remove(ptr))));
                }
                45..92 if !used.is_empty() => {
                    let ptr = used.swap_remove(rng.random_range(0..used.len()));
                    chunks.push(&arena, ptr);
                    free.insert(ptr);
                }
                92..96 if chunks.run_count() < 20 => {
                    let run = arena.assign(info).expect("a free slab");
                    chunks.add_run(&arena, run);
                    free.extend((0..run.chunks(info)).map(|number| run.chunk(number)));
                }
                96.. if chunks.run_count() > 0 => {
                    let run = chunks.runs().nth(rng.random_range(0..chunks.run_count())).expect("counted");
                    let of_run: HashSet<ItemPtr> = free.iter().copied().filter(|ptr| run.has(*ptr)).collect();
                    assert_eq!(chunks.free_chunks_beside(&arena, run), (free.len() - of_run.len()) as u64);
                    let mut withheld = chunks.withhold(&arena, run);
                    assert_eq!(
                        (withheld.len(), chunks.free_chunks() as usize),
                        (of_run.len(), free.len() - of_run.len())
                    );
                    if rng.random_bool(0.3) {
                        chunks.restore(&arena, withheld);
                        continue;
                    }
                    used.extract_if(.., |ptr| run.has(*ptr)).for_each(|ptr| withheld.push(ptr));
                    assert!(withheld.is_whole());
                    free.retain(|ptr| !run.has(*ptr));
                    chunks.remove_run(&arena, run);
                    // SAFETY: nothing is in the run, and nobody has a pointer into it (invariant 3
                    // of `slab::arena`).
                    unsafe { arena.give_back(run) };
                }
                _ => {}
            }
            assert_eq!(chunks.free_chunks() as usize, free.len());
            if rng.random_bool(0.05) {
                for (run, used) in chunks.used_of_runs() {
                    let free = free.iter().filter(|ptr| run.has(**ptr)).count() as u32;
                    assert_eq!(used, run.chunks(info) - free);
                }
            }
        }
        assert!(chunks.open.len() <= chunks.runs.len(), "each place is there once");
    }

    /// A run that leaves looks at no chunk of others: one of them may be as damaged as it likes.
    #[test]
    fn what_is_withheld_is_found_without_the_free_chunks_of_others() {
        let (arena, mut chunks) = setup(2);
        let (leaves, stays) = (add(&arena, &mut chunks), add(&arena, &mut chunks));
        let all: Vec<ItemPtr> = std::iter::from_fn(|| chunks.pop(&arena)).collect();
        all.iter().for_each(|ptr| chunks.push(&arena, *ptr));
        // SAFETY: the chunk is free, and nobody takes it from here on (invariant 1).
        unsafe { arena.item(stays.chunk(0)).0.free_link().write(leaves.chunk(0).to_bits()) };
        let mut withheld = chunks.withhold(&arena, leaves).freed;
        withheld.sort_unstable_by_key(|ptr| ptr.to_bits());
        assert_eq!(withheld, (0..4).map(|number| leaves.chunk(number)).collect::<Vec<_>>());
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
        chunks.remove_run(&arena, a);
        assert_eq!(chunks.runs().collect::<Vec<_>>(), [b]);
        assert!(chunks.resolve(&arena, number).is_none());
        while let Some(ptr) = chunks.pop(&arena) {
            assert!(b.has(ptr));
        }
    }
}
