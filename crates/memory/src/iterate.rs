//! Walking over the items of a live cache.
//!
//! The walk goes through the runs of the classes as they are when it reaches each class, chunk by
//! chunk, and takes references as [`crate::Keys::find`] does. It holds no lock while the caller
//! works, and stops nobody.

use std::collections::VecDeque;

use slab::item::Acquired;
use slab::{ItemPtr, Run, SlabInfo};

use crate::cache::{Cache, Core};
use crate::error::Error;
use crate::handle::ReadHandle;
use crate::pools::PoolId;

/// Chunks that are looked at under one pin.
const STEP: u32 = 64;

impl Cache {
    /// The items of a pool, in no particular order, while others change them.
    ///
    /// An item that is there from the beginning to the end is seen, and seen once unless it is
    /// moved to another slab meanwhile ([`Cache::move_slab`], [`Cache::maintain`], a limit that is
    /// lowered): then it may be seen twice or not at all. One that is inserted or goes meanwhile
    /// may be seen or not; of a key whose item is replaced, the old one, the new one or both.
    /// Expired and flushed items are left out. Each item is held until its handle is dropped; at
    /// most 64 are held ahead. The walk ends when the pool is removed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn items(&self, pool: PoolId) -> Result<Items<'_>, Error> {
        self.items_from(pool, Cursor::START)
    }

    /// The items of a pool from the cursor of another walk ([`Items::cursor`]) of this process.
    /// Nothing is kept for a walk that is not continued. What [`Cache::items`] says of one walk
    /// holds of all its parts together.
    ///
    /// # Errors
    /// As there.
    pub fn items_from(&self, pool: PoolId, place: Cursor) -> Result<Items<'_>, Error> {
        let core = self.core();
        let keyspace = core.pool(pool)?.keyspace;
        Ok(Items {
            core,
            pool,
            keyspace,
            next_class: Some((place.0 >> 32) as u8),
            class: 0,
            first: ItemPtr::from_bits(place.0 as u32),
            info: None,
            runs: Vec::new(),
            next_chunk: 0,
            held: VecDeque::new(),
        })
    }
}

/// The position of a walk: see [`Items::cursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(u64);

impl Cursor {
    /// Before everything.
    pub const START: Self = Self(0);

    fn new(class: u8, chunk: ItemPtr) -> Self {
        Self(u64::from(class) << 32 | u64::from(chunk.to_bits()))
    }

    /// As a number below 2^40, which ascends as a walk goes on.
    pub fn to_number(self) -> u64 {
        self.0
    }

    /// The place of a number. Any number is some place; bits from 2^40 on are ignored.
    pub fn from_number(number: u64) -> Self {
        Self(number & ((1 << 40) - 1))
    }
}

/// The held items of a pool: see [`Cache::held`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Items that somebody has a handle of, those that are being made and those that were removed
    /// meanwhile included. Each keeps its slab where it is.
    pub items: u64,
    /// Handles of them.
    pub handles: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
}

impl Cache {
    /// Counts what is held of a pool, by looking at each of its chunks: some 10 ns for each, and
    /// nothing where nobody asks. For whoever wonders why a slab does not leave, or why memory does
    /// not come back.
    ///
    /// ```
    /// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// cache.put(cache.allocate(pool, b"a", 10, &ItemOptions::default())?);
    /// let handles = [cache.find(b"a"), cache.find(b"a")];
    /// let held = cache.held(pool)?;
    /// assert_eq!((held.items, held.handles), (1, 2));
    /// # drop(handles);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn held(&self, pool: PoolId) -> Result<Held, Error> {
        let core = self.core();
        let mut held = Held::default();
        for (_, class) in core.pool(pool)?.used_classes() {
            let runs: Vec<Run> = class.inner.lock().chunks.runs().collect();
            for run in runs {
                let chunks = run.chunks(class.info);
                for first in (0..chunks).step_by(STEP as usize) {
                    // No run is given back while it is looked at.
                    let _pinned = core.pins.pin();
                    if !core.arena.is_there(run, class.info) {
                        break;
                    }
                    for number in first..chunks.min(first + STEP) {
                        let (item, _) = core.arena.item(run.chunk(number));
                        let handles = item.state().references();
                        held.items += u64::from(handles > 0);
                        held.handles += u64::from(handles);
                        held.bytes += u64::from(handles > 0) * u64::from(class.info.chunk_bytes);
                    }
                }
            }
        }
        Ok(held)
    }
}

/// The result of a step of a walk: see [`Items::step`].
#[derive(Debug)]
pub enum Step<'c> {
    /// An item.
    Item(ReadHandle<'c>),
    /// There may be more: this step has looked at as many chunks as it may.
    Later,
    /// The walk is over.
    End,
}

/// The items of a pool: see [`Cache::items`].
pub struct Items<'c> {
    core: &'c Core,
    pool: PoolId,
    keyspace: u16,
    /// The class to go on with after `runs`.
    next_class: Option<u8>,
    /// That of `runs`, and what its runs are marked with.
    class: u8,
    info: Option<SlabInfo>,
    /// Chunks before it are not walked, in the class that is walked next.
    first: ItemPtr,
    /// The runs of the present class that are yet to be walked, from the last to the first.
    runs: Vec<Run>,
    /// The chunk to go on with in the last of them.
    next_chunk: u32,
    held: VecDeque<ReadHandle<'c>>,
}

impl<'c> Items<'c> {
    /// Takes the next run up, of this class or a further one. `None`: the walk is over.
    fn run(&mut self) -> Option<Run> {
        while self.runs.is_empty() {
            self.class = self.next_class?;
            self.next_class = self.class.checked_add(1);
            // A pool that was removed meanwhile has no items.
            let pool = self.core.pools.get(self.pool)?;
            if let Some(class) = pool.used_class(self.class) {
                let first = std::mem::replace(&mut self.first, ItemPtr::from_bits(0));
                self.info = Some(class.info);
                let is_after = |run: &Run| run.id.to_bits() >= first.to_bits() || run.has(first);
                self.runs = class.inner.lock().chunks.runs().filter(is_after).collect();
                // By number, so that a place stays one while runs come and go.
                self.runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.id));
                self.next_chunk = self.runs.last().and_then(|run| run.number_of(first)).unwrap_or(0);
            } else {
                self.first = ItemPtr::from_bits(0);
            }
        }
        self.runs.last().copied()
    }

    /// Returns the place of the walk, for [`Cache::items_from`]: before the item that
    /// [`Self::step`] would give next. `None`: it is over.
    pub fn cursor(&self) -> Option<Cursor> {
        if let Some(next) = self.held.front() {
            return Some(Cursor::new(self.class, next.ptr()));
        }
        match self.runs.last() {
            Some(run) => Some(Cursor::new(self.class, run.chunk(self.next_chunk))),
            None => self.next_class.map(|class| Cursor::new(class, self.first)),
        }
    }

    /// The next item, after a look at about as many chunks as `chunks` says at most, which are
    /// taken off it: for whoever must not be held up by a pool of which most chunks are free or
    /// were flushed. Some 50 ns for each chunk.
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, PoolConfig, Step};
    /// # fn main() -> Result<(), millpond::Error> {
    /// # let cache = Cache::new(CacheConfig::default())?;
    /// # let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// let mut items = cache.items(pool)?;
    /// 'walk: loop {
    ///     let mut chunks = 4_096;
    ///     loop {
    ///         match items.step(&mut chunks) {
    ///             Step::Item(item) => println!("{}", item.key().escape_ascii()),
    ///             Step::Later => break,
    ///             Step::End => break 'walk,
    ///         }
    ///     }
    ///     // Something else, before the walk goes on.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn step(&mut self, chunks: &mut u32) -> Step<'c> {
        loop {
            if let Some(handle) = self.held.pop_front() {
                return Step::Item(handle);
            }
            if *chunks == 0 {
                return Step::Later;
            }
            let Some(run) = self.run() else { return Step::End };
            *chunks = chunks.saturating_sub(self.look(run).max(1));
        }
    }

    /// Looks at the next chunks of `run`, and says at how many.
    fn look(&mut self, run: Run) -> u32 {
        // The last handle of an item may call the embedder, so those that are left out are dropped
        // when nothing is pinned.
        let mut left_out = Vec::new();
        let pinned = self.core.pins.pin();
        // A run that has left the class since then may belong to another: its items were evicted or
        // will be seen there.
        let info = self.info.filter(|info| self.core.arena.is_there(run, *info));
        let chunks = info.map_or(0, |info| run.chunks(info));
        let start = self.next_chunk.min(chunks);
        let end = chunks.min(start + STEP);
        for number in start..end {
            let ptr = run.chunk(number);
            let (item, _) = self.core.arena.item(ptr);
            if item.state().acquire() != Acquired::Yes {
                continue;
            }
            let handle = ReadHandle::adopt(self.core, ptr);
            // SAFETY: the handle holds a reference (invariant 2 of `handle`).
            if unsafe { !item.is_link() && !self.core.is_dead(item, self.core.keyspace(self.keyspace)) } {
                self.held.push_back(handle);
            } else {
                left_out.push(handle);
            }
        }
        drop(pinned);
        if !self.core.pools.has(self.pool) {
            // They may be items of the pool that has the number now (invariant 5 of `pools`).
            left_out.extend(self.held.drain(..));
            self.runs.clear();
            self.next_class = None;
            return end.saturating_sub(start);
        }
        self.next_chunk = end;
        if end == chunks {
            self.runs.pop();
            self.next_chunk = 0;
        }
        end.saturating_sub(start)
    }
}

impl<'c> Iterator for Items<'c> {
    type Item = ReadHandle<'c>;

    fn next(&mut self) -> Option<ReadHandle<'c>> {
        loop {
            let mut chunks = u32::MAX;
            match self.step(&mut chunks) {
                Step::Item(handle) => return Some(handle),
                Step::Later => {}
                Step::End => return None,
            }
        }
    }
}

impl std::fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Items").field("pool", &self.pool).finish_non_exhaustive()
    }
}
