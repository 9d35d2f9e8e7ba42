//! A hash map in an item.
//!
//! The directory is hashed, with linear probing: a word names the entry and has 12 bits of the
//! key's hash, so that a probe that is not the one hardly ever reads a key. Removal moves what
//! follows back (Knuth, TAOCP vol. 3, 6.4, algorithm R), so that no tombstones are left. CacheLib's
//! `Map` probes by Robin Hood's rule.

use std::marker::PhantomData;

use base::hash::key_hash;
use bytemuck::{Pod, bytes_of};

use super::access::{Change, OpenStructure};
use super::entries::{ENTRY, ENTRY_BITS, Entries, Put, Room, directory};
use super::header::{HEADER, Kind, LEN, SLOTS};
use super::value::{Value, read};
use super::{StructureOptions, Usage};
use memory::Cache;
use memory::Error;
use memory::PoolId;
use memory::cells::{CellResult, Cells as Tail, Corrupt};

/// A map from plain data to plain data or byte strings, in an item of the cache: see
/// [the module](crate).
///
/// ```
/// use millpond::structured::{Map, StructureOptions};
/// # use millpond::{Cache, CacheConfig, PoolConfig};
/// # fn main() -> Result<(), millpond::Error> {
/// # let cache = Cache::new(CacheConfig::default())?;
/// # let pool = cache.add_pool(PoolConfig::named("default"))?;
/// let names = Map::<u64, [u8]>::create(&cache, pool, b"names", &StructureOptions::default())?
///     .expect("the key has no item yet");
/// names.insert(&1, b"Alice")?;
/// assert_eq!(names.insert(&1, b"Alice Liddell")?, Some(b"Alice".to_vec()));
/// assert_eq!(names.get(&1)?.as_deref(), Some(&b"Alice Liddell"[..]));
/// assert_eq!(names.remove(&2)?, None);
/// # Ok(())
/// # }
/// ```
pub struct Map<K, V: ?Sized> {
    handle: OpenStructure,
    types: PhantomData<fn(&K, &V)>,
}

impl<K: Pod, V: Value + ?Sized> Map<K, V> {
    const ENTRIES: Entries = Entries::new(Kind::Map, size_of::<K>(), V::BYTES);

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
            let (sequence, old) = self.handle.read(|tail| self.value(tail, key))?;
            let done = match update(old) {
                Some(new) => self.put(Some(sequence), key, new.borrow())?,
                None => self.change(Some(sequence), |tail| self.take(tail, key).map(Change::Done))?,
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
        Ok(self.handle.read(|tail| self.value(tail, key))?.1)
    }

    /// Returns whether `key` has a value.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn contains(&self, key: &K) -> Result<bool, Error> {
        Ok(self.handle.read(|tail| self.find(tail, bytes_of(key)))?.1.is_some())
    }

    /// Sets the value of `key` and returns what it was.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`]; [`memory::ErrorKind::TooLarge`] where one item cannot hold it
    /// all, and [`memory::ErrorKind::OutOfMemory`] where there is no room to grow: then the map is
    /// as it was.
    pub fn insert(&self, key: &K, value: &V) -> Result<Option<V::Owned>, Error> {
        self.put(None, key, value).map(Option::flatten)
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Gone`].
    pub fn remove(&self, key: &K) -> Result<Option<V::Owned>, Error> {
        self.change(None, |tail| self.take(tail, key).map(Change::Done)).map(Option::flatten)
    }

    fn put(&self, expected: Option<u32>, key: &K, value: &V) -> Result<Option<Option<V::Owned>>, Error> {
        self.change(expected, |tail| self.store(tail, key, value.bytes()))
    }

    fn change<R>(
        &self,
        expected: Option<u32>,
        change: impl Fn(Tail<'_>) -> CellResult<Change<R>>,
    ) -> Result<Option<R>, Error> {
        self.handle.write(expected, change, |from, to, room| self.rebuild(from, to, room))
    }

    fn hash(&self, key: &[u8]) -> u64 {
        key_hash(self.handle.id(), key)
    }

    /// The slot and the entry of a key.
    fn find(&self, tail: Tail<'_>, key: &[u8]) -> CellResult<Option<(usize, usize)>> {
        let hash = self.hash(key);
        let slots = tail.get(SLOTS)? as usize;
        let mut slot = home(hash, slots);
        for _ in 0..slots {
            let word = tail.get(HEADER + slot)?;
            if word == 0 {
                return Ok(None);
            }
            let entry = (word & ENTRY) as usize;
            if word >> ENTRY_BITS == tag(hash) && tail.equals(entry, key)? {
                return Ok(Some((slot, entry)));
            }
            slot = after(slot, slots);
        }
        // A directory always has an empty slot.
        Err(Corrupt)
    }

    fn value(&self, tail: Tail<'_>, key: &K) -> CellResult<Option<V::Owned>> {
        match self.find(tail, bytes_of(key))? {
            Some((_, entry)) => self.value_of(tail, entry).map(Some),
            None => Ok(None),
        }
    }

    fn store(&self, tail: Tail<'_>, key: &K, value: &[u8]) -> CellResult<Change<Option<V::Owned>>> {
        let key = bytes_of(key);
        let found = self.find(tail, key)?;
        let old = found.map(|(_, entry)| self.value_of(tail, entry)).transpose()?;
        match (Self::ENTRIES.put(tail, found.map(|(_, entry)| entry), key, value)?, found) {
            (Put::Full(room), _) => return Ok(Change::Full(Self::ENTRIES.tail_words(room), room)),
            (Put::Moved(entry), Some((slot, _))) => {
                tail.set(HEADER + slot, entry | tag(self.hash(key)) << ENTRY_BITS)?;
            }
            (Put::New(entry) | Put::Moved(entry), _) => self.link(tail, self.hash(key), entry)?,
            (Put::InPlace, _) => {}
        }
        Ok(Change::Done(old))
    }

    /// Names an entry in the directory, whose key is not in it.
    fn link(&self, tail: Tail<'_>, hash: u64, entry: u32) -> CellResult<()> {
        let slots = tail.get(SLOTS)? as usize;
        let mut slot = home(hash, slots);
        for _ in 0..slots {
            if tail.get(HEADER + slot)? == 0 {
                return tail.set(HEADER + slot, entry | tag(hash) << ENTRY_BITS);
            }
            slot = after(slot, slots);
        }
        Err(Corrupt)
    }

    fn take(&self, tail: Tail<'_>, key: &K) -> CellResult<Option<V::Owned>> {
        let Some((slot, entry)) = self.find(tail, bytes_of(key))? else { return Ok(None) };
        let value = self.value_of(tail, entry)?;
        self.unlink(tail, slot)?;
        Self::ENTRIES.give_back(tail, entry)?;
        Self::ENTRIES.count(tail, LEN, -1)?;
        Ok(Some(value))
    }

    /// Empties a slot, and moves back what would not be found behind an empty one.
    fn unlink(&self, tail: Tail<'_>, mut empty: usize) -> CellResult<()> {
        let slots = tail.get(SLOTS)? as usize;
        let mut slot = empty;
        for _ in 0..slots {
            slot = after(slot, slots);
            let word = tail.get(HEADER + slot)?;
            if word == 0 {
                break;
            }
            let home = home(self.hash(bytes_of(&tail.pod::<K>((word & ENTRY) as usize)?)), slots);
            // How far the entry is from its home, and how far the empty slot is.
            let distance = |to: usize| (to + slots - home) % slots;
            if distance(empty) < distance(slot) {
                tail.set(HEADER + empty, word)?;
                empty = slot;
            }
        }
        tail.set(HEADER + empty, 0)
    }

    fn rebuild(&self, from: Tail<'_>, to: Tail<'_>, room: Room) -> CellResult<bool> {
        if !Self::ENTRIES.lay_out_for(from, to, room)? {
            return Ok(false);
        }
        to.set(LEN, from.get(LEN)?)?;
        for entry in directory(from, Kind::Map)? {
            let hash = self.hash(bytes_of(&from.pod::<K>(entry)?));
            let entry = Self::ENTRIES.copy(from, entry, to)?;
            self.link(to, hash, entry)?;
        }
        Ok(true)
    }
}

/// Returns the place at which a directory begins to look for a hash.
pub(super) fn home(hash: u64, slots: usize) -> usize {
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

pub(super) fn after(slot: usize, slots: usize) -> usize {
    if slot + 1 < slots { slot + 1 } else { 0 }
}

/// The bits of a hash that stand in the directory: not those that choose the home.
pub(super) fn tag(hash: u64) -> u32 {
    hash as u32 & ((1 << (u32::BITS - ENTRY_BITS)) - 1)
}

super::whole_map!(Map, Pod);
