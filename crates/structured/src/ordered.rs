//! An ordered map in an item.
//!
//! The directory is the entries' numbers in the order of their keys: a search is binary, and an
//! insertion moves the numbers behind its place, 4 bytes each. CacheLib's `RangeMap` does the same.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use bytemuck::{Pod, bytes_of};

use super::access::{Change, OpenStructure};
use super::entries::{ENTRY, Entries, Put, Room, directory};
use super::header::{HEADER, Kind, LEN};
use super::value::{Value, read};
use super::{StructureOptions, Usage};
use memory::Cache;
use memory::Error;
use memory::PoolId;
use memory::cells::{CellResult, Cells as Tail, Corrupt};

/// A map in the order of its keys, from plain data to plain data or byte strings, in an item of the
/// cache: see [the module](crate).
///
/// The order is that of the keys' [`Ord`], which runs with no lock held.
///
/// ```
/// use millpond::structured::{OrderedMap, StructureOptions};
/// # use millpond::{Cache, CacheConfig, PoolConfig};
/// # fn main() -> Result<(), millpond::Error> {
/// # let cache = Cache::new(CacheConfig::default())?;
/// # let pool = cache.add_pool(PoolConfig::named("default"))?;
/// let (events, _) = OrderedMap::<u64, [u8]>::open_or_create(
///     &cache,
///     pool,
///     b"events",
///     &StructureOptions::default(),
/// )?;
/// for (time, what) in [(30, "leave"), (10, "enter"), (20, "look")] {
///     events.insert(&time, what.as_bytes())?;
/// }
/// assert_eq!(events.range(15.., 1)?, [(20, b"look".to_vec())]);
/// assert_eq!(events.last()?, Some((30, b"leave".to_vec())));
/// # Ok(())
/// # }
/// ```
pub struct OrderedMap<K, V: ?Sized> {
    handle: OpenStructure,
    types: PhantomData<fn(&K, &V)>,
}

/// The place at which a key stands, or would stand, and its entry.
type Place = (usize, Option<usize>);

impl<K: Pod + Ord, V: Value + ?Sized> OrderedMap<K, V> {
    const ENTRIES: Entries = Entries::new(Kind::Ordered, size_of::<K>(), V::BYTES);

    /// Updates the value of a key as one step: `update` is given its value now, or `None`, and what
    /// it returns takes that value's place; `None` removes the key. Returns the value before.
    /// `update` runs with no lock held, and again if another thread has changed the map meanwhile.
    ///
    /// # Errors
    /// As for [`Self::insert`].
    pub fn update(
        &self,
        key: &K,
        mut update: impl FnMut(Option<V::Owned>) -> Option<V::Owned>,
    ) -> Result<Option<V::Owned>, Error> {
        use std::borrow::Borrow;
        loop {
            let (sequence, (place, old)) = self.handle.read(|tail| {
                let place = self.search(tail, key)?;
                Ok((place, place.1.map(|entry| self.value_of(tail, entry)).transpose()?))
            })?;
            let done = match update(old) {
                Some(new) => {
                    self.change(sequence, |tail| self.store(tail, place, key, new.borrow().bytes()))?
                }
                None => self.change(sequence, |tail| self.take(tail, place).map(Change::Done))?,
            };
            if let Some(old) = done {
                return Ok(old);
            }
        }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn get(&self, key: &K) -> Result<Option<V::Owned>, Error> {
        let look =
            |tail: Tail<'_>| self.search(tail, key)?.1.map(|entry| self.value_of(tail, entry)).transpose();
        Ok(self.handle.read(look)?.1)
    }

    /// Returns whether `key` has a value.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn contains(&self, key: &K) -> Result<bool, Error> {
        Ok(self.handle.read(|tail| self.search(tail, key))?.1.1.is_some())
    }

    /// Sets the value of `key` and returns what it was.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`]; [`memory::ErrorKind::TooLarge`] where one item cannot hold it
    /// all, and [`memory::ErrorKind::OutOfMemory`] where there is no room to grow: then the map is
    /// as it was.
    pub fn insert(&self, key: &K, value: &V) -> Result<Option<V::Owned>, Error> {
        loop {
            let (sequence, place) = self.handle.read(|tail| self.search(tail, key))?;
            if let Some(old) = self.change(sequence, |tail| self.store(tail, place, key, value.bytes()))? {
                return Ok(old);
            }
        }
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn remove(&self, key: &K) -> Result<Option<V::Owned>, Error> {
        loop {
            let (sequence, place) = self.handle.read(|tail| self.search(tail, key))?;
            if place.1.is_none() {
                return Ok(None);
            }
            if let Some(old) = self.change(sequence, |tail| self.take(tail, place).map(Change::Done))? {
                return Ok(old);
            }
        }
    }

    /// The first `limit` entries whose keys are in `range`, in order, as they were at one moment.
    /// To go on, ask for what is behind the last one.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn range(&self, range: impl RangeBounds<K>, limit: usize) -> Result<Vec<(K, V::Owned)>, Error> {
        let (start, end) = (range.start_bound(), range.end_bound());
        let look = |tail: Tail<'_>| {
            let first = match start {
                Bound::Included(key) => self.bound(tail, |at| at.cmp(key) == Ordering::Less)?,
                Bound::Excluded(key) => self.bound(tail, |at| at.cmp(key) != Ordering::Greater)?,
                Bound::Unbounded => 0,
            };
            let end = match end {
                Bound::Included(key) => self.bound(tail, |at| at.cmp(key) != Ordering::Greater)?,
                Bound::Excluded(key) => self.bound(tail, |at| at.cmp(key) == Ordering::Less)?,
                Bound::Unbounded => tail.get(LEN)? as usize,
            };
            (first..end.min(first.saturating_add(limit)))
                .map(|at| {
                    let entry = self.entry(tail, at)?;
                    Ok((tail.pod::<K>(entry)?, self.value_of(tail, entry)?))
                })
                .collect()
        };
        Ok(self.handle.read(look)?.1)
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn first(&self) -> Result<Option<(K, V::Owned)>, Error> {
        Ok(self.range(.., 1)?.pop())
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn last(&self) -> Result<Option<(K, V::Owned)>, Error> {
        let look = |tail: Tail<'_>| {
            let Some(last) = (tail.get(LEN)? as usize).checked_sub(1) else { return Ok(None) };
            let entry = self.entry(tail, last)?;
            Ok(Some((tail.pod::<K>(entry)?, self.value_of(tail, entry)?)))
        };
        Ok(self.handle.read(look)?.1)
    }

    /// A change at what was found at this sequence. `None`: it has moved on.
    fn change<R>(
        &self,
        sequence: u32,
        change: impl Fn(Tail<'_>) -> CellResult<Change<R>>,
    ) -> Result<Option<R>, Error> {
        self.handle.write(Some(sequence), change, |from, to, room| self.rebuild(from, to, room))
    }

    /// The entry at a place of the directory.
    fn entry(&self, tail: Tail<'_>, at: usize) -> CellResult<usize> {
        Ok((tail.get(HEADER + at)? & ENTRY) as usize)
    }

    /// Returns the number of keys before the first one for which `is_before` is false.
    fn bound(&self, tail: Tail<'_>, is_before: impl Fn(&K) -> bool) -> CellResult<usize> {
        let (mut low, mut high) = (0, tail.get(LEN)? as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(&tail.pod::<K>(self.entry(tail, middle)?)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn search(&self, tail: Tail<'_>, key: &K) -> CellResult<Place> {
        let at = self.bound(tail, |at| at.cmp(key) == Ordering::Less)?;
        if at < tail.get(LEN)? as usize {
            let entry = self.entry(tail, at)?;
            if tail.pod::<K>(entry)?.cmp(key) == Ordering::Equal {
                return Ok((at, Some(entry)));
            }
        }
        Ok((at, None))
    }

    fn store(
        &self,
        tail: Tail<'_>,
        (at, found): Place,
        key: &K,
        value: &[u8],
    ) -> CellResult<Change<Option<V::Owned>>> {
        let old = found.map(|entry| self.value_of(tail, entry)).transpose()?;
        let len = tail.get(LEN)? as usize;
        match Self::ENTRIES.put(tail, found, bytes_of(key), value)? {
            Put::Full(room) => return Ok(Change::Full(Self::ENTRIES.tail_words(room), room)),
            Put::New(entry) => {
                for slot in (at..len).rev() {
                    tail.set(HEADER + slot + 1, tail.get(HEADER + slot)?)?;
                }
                tail.set(HEADER + at, entry)?;
            }
            Put::Moved(entry) => tail.set(HEADER + at, entry)?,
            Put::InPlace => {}
        }
        Ok(Change::Done(old))
    }

    fn take(&self, tail: Tail<'_>, (at, found): Place) -> CellResult<Option<V::Owned>> {
        let Some(entry) = found else { return Ok(None) };
        let value = self.value_of(tail, entry)?;
        let len = tail.get(LEN)? as usize;
        for slot in at + 1..len {
            tail.set(HEADER + slot - 1, tail.get(HEADER + slot)?)?;
        }
        Self::ENTRIES.give_back(tail, entry)?;
        Self::ENTRIES.count(tail, LEN, -1)?;
        Ok(Some(value))
    }

    fn rebuild(&self, from: Tail<'_>, to: Tail<'_>, room: Room) -> CellResult<bool> {
        if !Self::ENTRIES.lay_out_for(from, to, room)? {
            return Ok(false);
        }
        to.set(LEN, from.get(LEN)?)?;
        for (slot, entry) in (HEADER..).zip(directory(from, Kind::Ordered)?) {
            let entry = Self::ENTRIES.copy(from, entry, to)?;
            to.set(slot, entry)?;
        }
        Ok(true)
    }
}

super::whole_map!(OrderedMap, Pod + Ord);
