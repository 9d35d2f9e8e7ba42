//! Structured items: maps, ordered maps and arrays that live in an item's own memory and are
//! changed in place.
//!
//! Such an item is found, evicted, replaced and expires like any other; what is in it is read and
//! written through its type, one entry at a time, without decoding or encoding the rest. (Berg et
//! al., "The CacheLib Caching Engine", OSDI 2020, section 3.3: "structured items"; CacheLib's
//! `Map`, `RangeMap` and `FixedSizeArray`.)
//!
//! ```
//! use millpond::structured::{Map, StructureOptions};
//! use millpond::{Cache, CacheConfig, PoolConfig};
//! # fn main() -> Result<(), millpond::Error> {
//! let cache = Cache::new(CacheConfig::default())?;
//! let pool = cache.add_pool(PoolConfig::named("sessions"))?;
//!
//! let (visits, _is_new) =
//!     Map::<u64, u32>::open_or_create(&cache, pool, b"visits", &StructureOptions::default())?;
//! assert_eq!(visits.insert(&17, &1)?, None);
//! visits.update(&17, |count| Some(count.unwrap_or(0) + 1))?;
//! assert_eq!(visits.get(&17)?, Some(2));
//!
//! // It is an item of the cache: once that is gone, so is the map, and the handle says so.
//! cache.remove(b"visits");
//! assert_eq!(visits.get(&17).unwrap_err().kind(), millpond::ErrorKind::Gone);
//! # Ok(())
//! # }
//! ```
//!
//! Keys and values are plain data ([`Pod`]: every bit pattern is a value, and there is no padding);
//! values of a map may also be byte strings of any length (`Map<K, [u8]>`). Keys of a [`Map`] are
//! the same if their bytes are; those of an [`OrderedMap`] if they compare equal. What is read is
//! copied out.
//!
//! One item holds it all, so that a structure has room for at most what the largest chunk of its
//! pool has: 4 MiB by default. A map that is full is copied, without the gaps that removals left,
//! to a larger item that takes its place; beyond the largest chunk an insertion fails with
//! [`memory::ErrorKind::TooLarge`].
//!
//! A handle names a key and the one structure that it was opened for. Each call looks the structure
//! up again (as [`memory::Keys::find_with`] does, which the eviction policy counts as an access);
//! no memory is held between calls. If the structure was evicted, removed or replaced, or has
//! expired, calls fail with [`memory::ErrorKind::Gone`], even if the key has a new structure.
//! Handles may be cloned and shared by threads. Calls are linearizable; readers take no lock unless
//! writers keep them from it, and writers lock one of 64 stripes for the time of one change.
//!
//! To a plain find a structured item is one with an empty value
//! ([`memory::ReadHandle::is_structured`]).
//!
//! Invariants:
//! 1. A structure is the tail of its item (invariant 6 of `slab::item`): nobody ever has a plain
//!    reference to memory that changes.
//! 2. Its words change only under the lock of its stripe, and only by a thread that holds a
//!    reference to the item and has checked under that lock that the item is current and not
//!    frozen; the item's sequence is odd meanwhile. Exceptions: the mark of invariant 5, and items
//!    that no other thread can see yet.
//! 3. A reader believes what it read only if the sequence was even before and the same after. What
//!    it reads meanwhile may be torn: every offset is checked against the tail, every loop is
//!    bounded, and nothing read is trusted.
//! 4. A sequence that is odd under the lock was left so by a process that ended in the middle of a
//!    change: the structure is not what anybody wrote, and is removed.
//! 5. To grow, a writer freezes the old item under the lock, in the state that was copied, and then
//!    puts the new item in its place without a lock. A frozen item bears the mark of this process.
//!    It does not change, so no write is lost. The mark disappears with the item, or is cleared if
//!    the item stays.
//! 6. The sequence of a structure grows, through growth as well: the same number means the same
//!    content.
//! 7. No code of the caller runs under a lock: comparisons and updates run on what was read before,
//!    and the change is made if the sequence is still the same.
//! 8. The identity of a structure is given out once (a random beginning in each process, and then
//!    by ones), and growth keeps it.

#![forbid(unsafe_code)]

/// Methods of every structure about itself.
macro_rules! all_structures {
    () => {
        /// The key of its item.
        pub fn key(&self) -> &[u8] {
            self.handle.key()
        }

        /// Returns the number of entries, or of elements.
        ///
        /// # Errors
        /// [`memory::ErrorKind::Gone`].
        pub fn len(&self) -> Result<usize, Error> {
            Ok(self.handle.read(|tail| Ok(tail.get(LEN)? as usize))?.1)
        }

        /// Returns whether there is none.
        ///
        /// # Errors
        /// [`memory::ErrorKind::Gone`].
        pub fn is_empty(&self) -> Result<bool, Error> {
            Ok(self.len()? == 0)
        }
    };
}
use all_structures;

/// Methods of both maps on all that is in them. `$bounds`: those of their keys.
macro_rules! whole_map {
    ($map:ident, $($bounds:tt)+) => {
        impl<K, V: ?Sized> Clone for $map<K, V> {
            fn clone(&self) -> Self {
                Self { handle: self.handle.clone(), types: PhantomData }
            }
        }

        impl<K, V: ?Sized> std::fmt::Debug for $map<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($map)).field(&self.handle).finish()
            }
        }

        impl<K: $($bounds)+, V: Value + ?Sized> $map<K, V> {
            /// The value of an entry.
            fn value_of(&self, tail: Tail<'_>, entry: usize) -> CellResult<V::Owned> {
                let (at, len) = Self::ENTRIES.value(tail, entry)?;
                read::<V>(tail, at, len)
            }

            /// Makes an empty map. `None`: the key has an item already.
            ///
            /// # Errors
            /// As for [`Cache::allocate`].
            pub fn create(
                cache: &Cache,
                pool: PoolId,
                key: &[u8],
                options: &StructureOptions,
            ) -> Result<Option<Self>, Error> {
                let (entries, room) = (Self::ENTRIES, Self::ENTRIES.room(options));
                let fill = |tail: Tail<'_>| match entries.lay_out(tail, room.entries, room.words)? {
                    true => Ok(()),
                    false => Err(Corrupt),
                };
                let handle = OpenStructure::create(
                    cache,
                    pool,
                    key,
                    entries.shape(),
                    (options, entries.tail_words(room)),
                    fill,
                )?;
                Ok(handle.map(|handle| Self { handle, types: PhantomData }))
            }

            /// The map that the key has. `None`: it has no item.
            ///
            /// # Errors
            /// [`memory::ErrorKind::WrongType`] where its item is no such map with keys and values
            /// of these sizes.
            pub fn open(cache: &Cache, pool: PoolId, key: &[u8]) -> Result<Option<Self>, Error> {
                let handle = OpenStructure::open(cache, pool, key, Self::ENTRIES.shape())?;
                Ok(handle.map(|handle| Self { handle, types: PhantomData }))
            }

            /// The map that the key has, or a new one; `true`: a new one.
            ///
            /// # Errors
            /// As for [`Self::open`] and [`Self::create`].
            pub fn open_or_create(
                cache: &Cache,
                pool: PoolId,
                key: &[u8],
                options: &StructureOptions,
            ) -> Result<(Self, bool), Error> {
                loop {
                    if let Some(map) = Self::open(cache, pool, key)? {
                        return Ok((map, false));
                    }
                    if let Some(map) = Self::create(cache, pool, key, options)? {
                        return Ok((map, true));
                    }
                }
            }

            super::all_structures!();

            /// All entries, as they were at one moment: copied at once.
            ///
            /// # Errors
            /// [`memory::ErrorKind::Gone`].
            pub fn entries(&self) -> Result<Vec<(K, V::Owned)>, Error> {
                let look = |tail: Tail<'_>| {
                    directory(tail, Self::ENTRIES.shape().kind)?
                        .map(|entry| Ok((tail.pod::<K>(entry)?, self.value_of(tail, entry)?)))
                        .collect()
                };
                Ok(self.handle.read(look)?.1)
            }

            /// Returns the memory that it takes.
            ///
            /// # Errors
            /// [`memory::ErrorKind::Gone`].
            pub fn usage(&self) -> Result<Usage, Error> {
                self.handle.usage(|tail| Self::ENTRIES.usage(tail))
            }

            /// Removes all entries, as one step. The item stays as large as it is.
            ///
            /// # Errors
            /// [`memory::ErrorKind::Gone`].
            pub fn clear(&self) -> Result<(), Error> {
                let clear = |tail: Tail<'_>| Self::ENTRIES.clear(tail).map(Change::Done);
                self.handle.write(None, clear, |_, _, _| Err(Corrupt)).map(drop)
            }

            /// Copies it to the smallest item that holds it, without garbage.
            ///
            /// # Errors
            /// [`memory::ErrorKind::Gone`]; [`memory::ErrorKind::OutOfMemory`] where there is no
            /// room for the copy: then the map is as it was.
            pub fn compact(&self) -> Result<(), Error> {
                let (_, room) = self.handle.read(|tail| Self::ENTRIES.taken(tail))?;
                self.handle.rebuild(Self::ENTRIES.tail_words(room), |from, to| self.rebuild(from, to, room))
            }
        }
    };
}
use whole_map;

mod access;
mod array;
mod collection;
mod entries;
mod header;
mod map;
mod ordered;
mod value;

pub use array::Array;
pub use bytemuck::{self, Pod, Zeroable};
pub use collection::{Collection, CollectionKind, Edit, Member, View};
pub use map::Map;
pub use memory::cells::Corrupt;
pub use ordered::OrderedMap;
pub use value::Value;

use memory::Expiry;

/// Options for a new structure.
#[derive(Clone, Copy, Debug)]
pub struct StructureOptions {
    /// The expiry time of the structure as a whole. Default: never. [`memory::Keys::touch`] changes
    /// it.
    pub expiry: Expiry,
    /// The number of entries that it is to have room for at once; it grows beyond. Default 16.
    /// Ignored by arrays.
    pub entries: usize,
    /// The mean length of values of varying length, in bytes: with `entries`, the size to begin
    /// with. Default 32. Ignored where values are of one length.
    pub value_bytes: usize,
}

impl Default for StructureOptions {
    fn default() -> Self {
        Self { expiry: Expiry::Never, entries: 16, value_bytes: 32 }
    }
}

/// Memory of a structure, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Entries, or elements of an array.
    pub entries: usize,
    /// Bytes of the item that they take, with the directory and the header.
    pub used_bytes: usize,
    /// Bytes that removed and overwritten entries left behind: [`Map::compact`] or the next growth
    /// gets them back.
    pub garbage_bytes: usize,
    /// Bytes that the item has for all this.
    pub capacity_bytes: usize,
}

#[cfg(test)]
mod tests;
