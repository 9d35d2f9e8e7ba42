//! The size classes of a simulated cache, and the memory that each has.
//!
//! A class has runs of chunks. It begins with a few units, and grows by the engine's own rule
//! ([`slab::run::units_to_grow`]) as long as there is memory. Which run leaves a class is the
//! engine's choice as well: the shortest that is enough, or else the longest; and of vacant memory
//! (free chunks beyond those that a class keeps) the longest. How memory moves between classes is
//! in `memory`.

use std::sync::Arc;

use slab::SLAB_BYTES;
use slab::run::{
    UNIT_BYTES, UNITS, bytes_to_take, least_units, step_for, units_to_grow, vacant_bytes, vacant_chunks,
};
use workload::engine_memory::EngineMemory;

/// The memory of one size class.
#[derive(Default)]
struct Class {
    chunk: u32,
    /// The units of each run.
    runs: Vec<u32>,
    bytes: u64,
    chunks: u64,
    items: u64,
    /// Chunks that it got since it last had used all, or since the last second.
    filling: u64,
    is_starved: bool,
}

/// The size classes of a cache, and their memory.
pub(super) struct Classes {
    asked: Arc<EngineMemory>,
    classes: Vec<Class>,
    /// The share of the capacity that runs and the metadata of their chunks may take.
    share: f64,
    /// That in bytes, and what of it is spent.
    budget: u64,
    spent: u64,
    /// Bytes of all runs.
    bytes: u64,
    /// Bytes that were ever inserted.
    inserted: u64,
    /// Number of moves of memory between classes, and the bytes inserted before the last move.
    moves: (u64, u64),
    /// Classes that do without vacant memory, after one has looked for it in vain.
    vain: u32,
}

/// Moves of memory between classes that allocations may make as fast as they like; after them there
/// is one for each time that as much was inserted.
const FREE_MOVES: u64 = 64;
/// Classes that do without vacant memory after one has looked for it in vain.
const AFTER_VAIN: u32 = 64;

impl Classes {
    pub(super) fn new(asked: &Arc<EngineMemory>, share: f64, capacity: u64) -> Self {
        let class = |chunk: &u32| Class { chunk: *chunk, ..Class::default() };
        let mut classes = Self {
            asked: Arc::clone(asked),
            classes: asked.chunks().iter().map(class).collect(),
            share,
            budget: 0,
            spent: 0,
            bytes: 0,
            inserted: 0,
            moves: (0, 0),
            vain: 0,
        };
        classes.set_capacity(capacity);
        classes
    }

    pub(super) fn count(&self) -> usize {
        self.classes.len()
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.budget = (bytes as f64 * self.share) as u64;
    }

    /// The class of an object of this length.
    pub(super) fn class_of(&self, len: u32) -> Option<usize> {
        self.asked.class_of(len)
    }

    /// Counts an item that takes a chunk of the class. Returns the bytes that it takes.
    pub(super) fn item_came(&mut self, class: usize, len: u32) -> u32 {
        self.inserted += u64::from(len);
        let class = &mut self.classes[class];
        class.items += 1;
        class.chunk + self.asked.metadata()
    }

    pub(super) fn item_left(&mut self, class: usize) {
        self.classes[class].items -= 1;
    }

    pub(super) fn has_free_chunk(&self, class: usize) -> bool {
        self.classes[class].items < self.classes[class].chunks
    }

    /// Returns whether the class should grow, or evict, before it gives out a chunk: the engine
    /// keeps some free.
    pub(super) fn is_short(&self, class: usize) -> bool {
        let class = &self.classes[class];
        class.items + kept_free(class.chunks) >= class.chunks
    }

    pub(super) fn has_runs(&self, class: usize) -> bool {
        !self.classes[class].runs.is_empty()
    }

    /// Returns whether the class has more items than chunks.
    pub(super) fn is_over(&self, class: usize) -> bool {
        self.classes[class].items > self.classes[class].chunks
    }

    /// The bytes beyond the budget.
    pub(super) fn over_budget(&self) -> u64 {
        self.spent.saturating_sub(self.budget)
    }

    pub(super) fn is_starved(&self, class: usize) -> bool {
        self.classes[class].is_starved
    }

    /// Notes that the class has to evict: it is starved if it has less than its least share.
    pub(super) fn note_starved(&mut self, class: usize) {
        let is_starved = self.lacking(class) > 0;
        self.classes[class].is_starved = is_starved;
    }

    pub(super) fn end_starved(&mut self, class: usize) {
        self.classes[class].is_starved = false;
    }

    /// The bytes that a class that evicts lacks of its least share: as much as moves at a time, but
    /// at most half of the mean of all classes.
    pub(super) fn lacking(&self, class: usize) -> u64 {
        let used = self.classes.iter().filter(|class| !class.runs.is_empty()).count().max(1);
        let least = self.step_bytes().min(self.bytes / (2 * used as u64));
        least.saturating_sub(self.classes[class].bytes)
    }

    /// The bytes that move between classes at a time.
    pub(super) fn step_bytes(&self) -> u64 {
        step_for(self.bytes)
    }

    /// Bytes of the shortest run of a class.
    pub(super) fn least_bytes(&self, class: usize) -> u64 {
        u64::from(least_units(self.classes[class].chunk)) * UNIT_BYTES as u64
    }

    /// Bytes of all runs.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The metadata of as many bytes of chunks of a class.
    pub(super) fn metadata_of(&self, class: usize, bytes: u64) -> u64 {
        bytes / u64::from(self.classes[class].chunk) * u64::from(self.asked.metadata())
    }

    /// Returns whether an allocation may move this many bytes now.
    pub(super) fn may_move(&self, bytes: u64) -> bool {
        self.moves.0 < FREE_MOVES || self.inserted >= self.moves.1 + bytes
    }

    pub(super) fn note_move(&mut self) {
        self.moves = (self.moves.0 + 1, self.inserted);
    }

    /// Gives a class one more run, if there is memory for it.
    pub(super) fn add_run(&mut self, class: usize) -> bool {
        let Class { chunk, bytes: held, .. } = self.classes[class];
        let free = self.budget.saturating_sub(self.spent);
        let least = least_units(chunk);
        let mut units = units_to_grow(chunk, held, free);
        while self.cost(chunk, units) > free {
            if units == least {
                return false;
            }
            units = (units / 2).max(least);
        }
        self.spent += self.cost(chunk, units);
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        self.bytes += bytes;
        let class = &mut self.classes[class];
        class.runs.push(units);
        class.bytes += bytes;
        class.chunks += bytes / u64::from(chunk);
        class.filling += bytes / u64::from(chunk);
        true
    }

    /// Gives a class `bytes` bytes, as far as there is memory. Returns whether it got any.
    pub(super) fn grow(&mut self, class: usize, bytes: u64) -> bool {
        let had = self.classes[class].bytes;
        while self.classes[class].bytes < had + bytes && self.add_run(class) {}
        self.classes[class].bytes > had
    }

    /// Gives a class that is about to evict vacant memory of others, unless it will grow by as
    /// much.
    pub(super) fn take_vacant_before_eviction(&mut self, class: usize) {
        if self.budget.saturating_sub(self.spent) < self.bytes_to_take(class) {
            self.take_vacant(class);
        }
    }

    /// Gives a class vacant memory of others. Returns whether it got some. The engine does without
    /// for a while if there was some that it could not have; here that also follows if there was
    /// none, which spares a look at all classes for each eviction.
    pub(super) fn take_vacant(&mut self, class: usize) -> bool {
        if let Some(left) = self.vain.checked_sub(1) {
            self.vain = left;
            return false;
        }
        let wanted = self.bytes_to_take(class);
        let has_grown = self.release_vacant(Some(class), wanted).is_some() && self.grow(class, wanted);
        self.vain = if has_grown { 0 } else { AFTER_VAIN };
        has_grown
    }

    /// Notes that the class has used up what it got.
    pub(super) fn note_used_up(&mut self, class: usize) {
        self.classes[class].filling = 0;
    }

    /// Has what classes got a while ago, and have not used yet, count as vacant: maintenance of the
    /// engine, once a second.
    pub(super) fn end_filling(&mut self) {
        self.classes.iter_mut().for_each(|class| class.filling = 0);
    }

    /// The vacant memory of others that a class takes at a time, in bytes: a quarter of its own.
    fn bytes_to_take(&self, class: usize) -> u64 {
        let Class { chunk, chunks, .. } = self.classes[class];
        bytes_to_take(chunk, chunks)
    }

    /// Takes about `bytes` from the class, other than `except`, in which most is vacant, or from
    /// the next one that can give some, and returns it.
    fn release_vacant(&mut self, except: Option<usize>, bytes: u64) -> Option<usize> {
        let mut classes: Vec<(u64, usize)> = (0..self.classes.len())
            .filter(|class| Some(*class) != except)
            .map(|class| (self.classes[class].vacant_bytes(), class))
            .filter(|(vacant, _)| *vacant > 0)
            .collect();
        classes.sort_by_key(|(vacant, _)| std::cmp::Reverse(*vacant));
        classes.into_iter().map(|(_, class)| class).find(|class| self.release_vacant_runs(*class, bytes) > 0)
    }

    /// Has a class give back runs whose items find room in other free chunks of it.
    fn release_vacant_runs(&mut self, class: usize, bytes: u64) -> u64 {
        let mut released = 0;
        while released < bytes {
            let giver = &self.classes[class];
            let vacant = giver.vacant();
            let runs = giver.runs.iter().enumerate().map(|(run, units)| (giver.chunks_of(*units), run));
            let can_leave = |(chunks, _): &(u64, usize)| *chunks <= vacant;
            let Some((chunks, run)) = runs.filter(can_leave).max() else { break };
            // Items are taken to be spread evenly over runs.
            let copied = chunks * giver.items / giver.chunks.max(1) * u64::from(giver.chunk);
            if !self.may_move(copied) {
                break;
            }
            if copied > 0 {
                self.note_move();
            }
            released += self.remove_run(class, run);
        }
        released
    }

    /// Takes about `bytes` from a class other than `except`, and returns it: vacant memory; or else
    /// from the largest class with at least `least_runs` runs, which may have more items than
    /// chunks then.
    pub(super) fn take_bytes(
        &mut self,
        except: Option<usize>,
        least_runs: usize,
        bytes: u64,
    ) -> Option<usize> {
        if let Some(giver) = self.release_vacant(except, bytes) {
            return Some(giver);
        }
        let could = |(at, class): &(usize, &Class)| Some(*at) != except && class.runs.len() >= least_runs;
        // The first of several that have as much.
        let largest =
            self.classes.iter().enumerate().filter(could).rev().max_by_key(|(_, class)| class.bytes);
        let giver = largest.filter(|(_, class)| !class.runs.is_empty())?.0;
        let mut taken = 0;
        while taken < bytes {
            let Some(run) = self.classes[giver].run_to_release(bytes - taken) else { break };
            taken += self.remove_run(giver, run);
        }
        Some(giver)
    }

    fn remove_run(&mut self, class: usize, run: usize) -> u64 {
        let Class { chunk, .. } = self.classes[class];
        let units = self.classes[class].runs.remove(run);
        self.spent -= self.cost(chunk, units);
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        self.bytes -= bytes;
        let class = &mut self.classes[class];
        class.bytes -= bytes;
        class.chunks -= bytes / u64::from(chunk);
        bytes
    }

    /// The bytes of a run of chunks of this size, with the metadata of its chunks.
    fn cost(&self, chunk: u32, units: u32) -> u64 {
        let bytes = u64::from(units) * UNIT_BYTES as u64;
        bytes + bytes / u64::from(chunk) * u64::from(self.asked.metadata())
    }

    /// Checks what each class has, given the items in each; for tests.
    pub(super) fn validate(&self, items: &[u64]) {
        let mut spent = 0;
        for (class, items) in self.classes.iter().zip(items) {
            let bytes = |units: &u32| u64::from(*units) * UNIT_BYTES as u64;
            assert_eq!(class.items, *items, "items of {} B", class.chunk);
            assert!(class.items <= class.chunks, "more items than chunks of {} B", class.chunk);
            assert_eq!(class.bytes, class.runs.iter().map(bytes).sum::<u64>(), "bytes of runs");
            let chunks = class.runs.iter().map(|units| bytes(units) / u64::from(class.chunk));
            assert_eq!(class.chunks, chunks.sum::<u64>(), "chunks of runs");
            spent += class.runs.iter().map(|units| self.cost(class.chunk, *units)).sum::<u64>();
            assert!(class.runs.iter().all(|units| *units <= UNITS), "no run is longer than a slab");
        }
        assert_eq!((spent, self.bytes), (self.spent, self.classes.iter().map(|class| class.bytes).sum()));
        assert!(self.spent <= self.budget, "{} of {}", self.spent, self.budget);
    }

    /// The most bytes that are taken at a time when the capacity shrinks.
    pub(super) const MOST_AT_A_TIME: u64 = SLAB_BYTES as u64;
}

/// Returns the mean number of chunks that a class that evicts keeps free for the next items: the
/// engine evicts batches (`magazine` there) of one in 128, after the last one is used up or, in
/// larger classes, ahead of that.
fn kept_free(chunks: u64) -> u64 {
    const BATCH: u64 = 128;
    const AHEAD_FROM: u64 = 2_048;
    const MOST: u64 = 2_048;
    if chunks < AHEAD_FROM { chunks / (2 * BATCH) } else { (chunks / BATCH).min(MOST) }
}

impl Class {
    /// Returns the number of chunks in a run of the class.
    fn chunks_of(&self, units: u32) -> u64 {
        u64::from(units) * UNIT_BYTES as u64 / u64::from(self.chunk)
    }

    /// Free chunks beyond those that the class keeps.
    fn vacant(&self) -> u64 {
        vacant_chunks(self.chunk, self.chunks, self.chunks.saturating_sub(self.items), self.filling)
    }

    fn vacant_bytes(&self) -> u64 {
        vacant_bytes(self.chunk, self.chunks, self.vacant())
    }

    /// The run whose release is nearest to what is lacking.
    fn run_to_release(&self, lacking: u64) -> Option<usize> {
        let runs = || self.runs.iter().enumerate();
        let is_enough = |units: u32| u64::from(units) * UNIT_BYTES as u64 >= lacking;
        let shortest = runs().filter(|(_, units)| is_enough(**units)).min_by_key(|(_, units)| **units);
        shortest.or_else(|| runs().max_by_key(|(_, units)| **units)).map(|(at, _)| at)
    }
}
