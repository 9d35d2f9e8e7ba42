//! Collections of byte strings in an item: hashes, sets, lists and sorted sets, as clients of Redis
//! know them.
//!
//! A [`Collection`] is a view of one that an item holds. Reading is a function of a [`View`], which
//! runs without a lock and again where somebody wrote meanwhile; writing is a list of [`Edit`]s,
//! made as one step if nothing has changed since the reading that they come from. So every change
//! that depends on what is there is a reading, a decision with no lock held, and an attempt
//! (invariant 7 of [the module](crate)).
//!
//! ```
//! use millpond::structured::{Collection, CollectionKind, Edit};
//! use millpond::{Cache, CacheConfig, PoolConfig};
//! # fn main() -> Result<(), millpond::Error> {
//! let cache = Cache::new(CacheConfig::default())?;
//! let pool = cache.add_pool(PoolConfig::named("default"))?;
//! let edits = [Edit::put(b"name", b"Alice"), Edit::put(b"visits", b"1")];
//! cache.put(Collection::make(&cache, pool, b"user:7", CollectionKind::Hash, &edits)?);
//!
//! let item = cache.find(b"user:7").expect("there");
//! let user = Collection::of(&cache, &item).expect("a collection");
//! let (sequence, visits) = user.read(|view| view.get(b"visits"))?.expect("still there");
//! assert_eq!(visits.map(|field| field.value).as_deref(), Some(&b"1"[..]));
//! assert!(
//!     user.apply(sequence, &[Edit::put(b"visits", b"2")])?,
//!     "nobody has changed it meanwhile"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! Invariants, beside those of [the module](crate):
//! 9. A collection has an entry. One that has none any more is gone: nobody adds to it, who finds
//!    it removes it.
//! 10. Nothing is written before it is known that all of it fits, as it lies, or in a copy that
//!     takes the item's place with the changes made.

mod bag;
mod edit;
mod view;

pub use self::edit::Edit;
pub use self::view::View;

use parking_lot::MutexGuard;

use self::bag::Bag;
use super::access::{ATTEMPTS, Change, WORD, pause};
use super::entries::Room;
use super::header::{Header, Kind, Shape, VARIES};
use memory::Cache;
use memory::PoolId;
use memory::cells::{CellResult, Cells as Tail, Corrupt};
use memory::tail::{self, Tailed};
use memory::{Error, ErrorKind};
use memory::{Expiry, ItemOptions};
use memory::{ReadHandle, WriteHandle};

/// Words that an item may have for nothing before it is copied to a smaller one: at most this many
/// times what it needs.
const SHRINK: usize = 8;
/// The part of an item that must be free beside what is there for it to grow.
const SLACK: usize = 16;
/// Items of fewer words are left as large as they are.
const SMALL: usize = 256;

/// The kinds of collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollectionKind {
    /// Fields with values.
    Hash,
    /// Members.
    Set,
    /// Elements in the order that they were put into.
    List,
    /// Members with scores, in the order of scores and, where these are the same, of the members'
    /// bytes.
    Sorted,
}

impl CollectionKind {
    const fn kind(self) -> Kind {
        match self {
            Self::Hash => Kind::Hash,
            Self::Set => Kind::Set,
            Self::List => Kind::List,
            Self::Sorted => Kind::Sorted,
        }
    }

    fn of(kind: u8) -> Option<Self> {
        [Self::Hash, Self::Set, Self::List, Self::Sorted].into_iter().find(|known| known.kind() as u8 == kind)
    }
}

/// A copy of an entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// A field, a member, or an element.
    pub key: Vec<u8>,
    /// The value of a field.
    pub value: Vec<u8>,
    /// The score of a sorted set's member, else 0.
    pub score: f64,
}

/// A collection that an item holds: see the [module](crate). It is the collection of this item,
/// whatever the key has meanwhile.
pub struct Collection<'a> {
    cache: &'a Cache,
    item: &'a ReadHandle<'a>,
    bag: Bag<'a>,
}

impl std::fmt::Debug for Collection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection").field("kind", &self.bag.kind).field("item", self.item).finish()
    }
}

/// A current item whose stripe is locked.
type Locked<'a> = MutexGuard<'a, ()>;

impl<'a> Collection<'a> {
    /// The collection that an item holds. `None`: it holds none, or one that is gone (invariant 9),
    /// or is an item of another cache.
    pub fn of(cache: &'a Cache, item: &'a ReadHandle<'a>) -> Option<Self> {
        if !tail::is_of(item, cache) {
            return None;
        }
        let bag = Bag::of(Tail(item.tail()?)).ok()?;
        // While it is written to, there may be none for a moment.
        let is_gone = || -> CellResult<bool> {
            let before = bag.tail.sequence()?;
            Ok(before.is_multiple_of(2) && bag.len()? == 0 && bag.tail.is_still(before)?)
        };
        is_gone().is_ok_and(|is_gone| !is_gone).then_some(Self { cache, item, bag })
    }

    /// Returns its kind.
    pub fn kind(&self) -> CollectionKind {
        self.bag.kind
    }

    /// Returns what tells this state from every other one of any collection of the cache: the
    /// collection's identity, and the number of its changes. `None`: it is gone.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn version(&self) -> Result<Option<(u64, u32)>, Error> {
        Ok(self.read(|_| Ok(()))?.map(|(sequence, ())| (self.bag.id, sequence)))
    }

    /// The expiration time in Unix milliseconds, `Some(None)` for never. `None`: the collection is
    /// not in this item any more. If the item is still [current](ReadHandle::is_current), the last
    /// entry was removed; if not, the key may have another item, into which the collection has
    /// grown.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn deadline(&self) -> Result<Option<Option<u64>>, Error> {
        Ok(self.read(|view| view.deadline())?.map(|(_, deadline)| deadline))
    }

    /// An item with a collection to which these changes were made. To be put into the cache by the
    /// caller: there is none of no entries.
    ///
    /// # Errors
    /// As for [`Cache::allocate`]; [`ErrorKind::TooLarge`] where one item cannot hold it.
    pub fn make<'c>(
        cache: &'c Cache,
        pool: PoolId,
        key: &[u8],
        kind: CollectionKind,
        edits: &[Edit<'_>],
    ) -> Result<WriteHandle<'c>, Error> {
        let room = edit::room_for(kind, edits);
        let words = most_words(cache, pool, key, kind.tail_words(room))?.0;
        let new = allocate(cache, pool, key, words)?;
        let id = tail::structures(cache).new_id();
        let made = new.tail().map(Tail).ok_or(Corrupt).and_then(|tail| {
            let bag = begin(tail, kind, id, 0)?;
            if !bag.lay_out(room)? {
                return Err(Corrupt);
            }
            bag.edit(edits)
        });
        made.map_err(|Corrupt| corrupt(key))?;
        Ok(with_end(new, edits))
    }

    /// An item for another key with a copy of the collection, its end and its mark. `None`: it is
    /// gone.
    ///
    /// # Errors
    /// As for [`Self::make`].
    pub fn copy(&self, pool: PoolId, key: &[u8]) -> Result<Option<WriteHandle<'a>>, Error> {
        let Some((_, (taken, deadline))) = self.read(|view| Ok((view.0.taken()?, view.deadline()?)))? else {
            return Ok(None);
        };
        let words = most_words(self.cache, pool, key, self.kind().tail_words(taken))?.0;
        let new = allocate(self.cache, pool, key, words)?;
        let id = tail::structures(self.cache).new_id();
        let Some(_locked) = self.lock(tail::is_current)? else { return Ok(None) };
        let copied = new.tail().map(Tail).ok_or(Corrupt).and_then(|tail| {
            begin(tail, self.kind(), id, 0)?;
            self.bag.copy_to(tail, Room::default())
        });
        // `false`: it has grown since it was measured.
        let fits = copied.map_err(|Corrupt| corrupt(key))?;
        Ok(fits.then(|| with_end(new, &[Edit::Deadline(deadline)])))
    }

    /// Returns what `look` sees at one moment, with the sequence that it belongs to. `None`: the
    /// collection is gone. `look` may run several times, and on torn content. Takes no lock, unless
    /// writers keep it from reading.
    ///
    /// # Errors
    /// [`ErrorKind::WrongType`] where it is corrupt.
    pub fn read<R>(&self, look: impl Fn(View<'_>) -> Result<R, Corrupt>) -> Result<Option<(u32, R)>, Error> {
        let tail = self.bag.tail;
        let attempt = || -> CellResult<Option<(u32, usize, CellResult<R>)>> {
            for _ in 0..ATTEMPTS {
                let before = tail.sequence()?;
                if before.is_multiple_of(2) {
                    let (seen, len) = (look(View(self.bag)), self.bag.len()?);
                    if tail.is_still(before)? {
                        return Ok(Some((before, len, seen)));
                    }
                }
                std::hint::spin_loop();
            }
            Ok(None)
        };
        let seen = match attempt() {
            Ok(Some(seen)) => seen,
            Ok(None) => match self.read_locked(&look)? {
                Some(seen) => seen,
                None => return Ok(None),
            },
            Err(Corrupt) => return Err(corrupt(self.item.key())),
        };
        match seen {
            (_, 0, _) => Ok(None),
            (sequence, _, Ok(seen)) => Ok(Some((sequence, seen))),
            (_, _, Err(Corrupt)) => Err(corrupt(self.item.key())),
        }
    }

    /// The same with writers kept out while the words are copied.
    fn read_locked<R>(
        &self,
        look: impl Fn(View<'_>) -> CellResult<R>,
    ) -> Result<Option<(u32, usize, CellResult<R>)>, Error> {
        let Some(locked) = self.lock(tail::is_current)? else { return Ok(None) };
        let (sequence, words) = self.copied().map_err(|Corrupt| corrupt(self.item.key()))?;
        drop(locked);
        let bag = Bag { tail: Tail(&words), ..self.bag };
        Ok(Some((sequence, bag.len().unwrap_or(0), look(View(bag)))))
    }

    fn copied(&self) -> CellResult<(u32, Vec<std::sync::atomic::AtomicU32>)> {
        let tail = self.bag.tail;
        let words: Vec<_> = (0..tail.len()).map(|_| 0.into()).collect();
        tail.copy(0, Tail(&words), 0, words.len())?;
        Ok((tail.sequence()?, words))
    }

    /// Locks the stripe, if the collection is there, may be written to, and is current according to
    /// `begin`.
    fn lock(&self, begin: fn(&ReadHandle<'_>, &Cache) -> bool) -> Result<Option<Locked<'a>>, Error> {
        let structures = tail::structures(self.cache);
        let tail = self.bag.tail;
        let mut waits = 0;
        loop {
            let stripe = structures.lock(self.bag.id);
            let state = tail
                .is_frozen(structures.mark())
                .and_then(|frozen| Ok((frozen, tail.sequence()?.is_multiple_of(2), self.bag.len()? > 0)));
            let is_current = self.item.is_current();
            match state {
                _ if !is_current => return Ok(None),
                // It grows: what it becomes is another item.
                Ok((true, ..)) => {
                    drop(stripe);
                    pause(&mut waits);
                }
                Ok((false, true, true)) => return Ok(begin(self.item, self.cache).then_some(stripe)),
                // Invariants 4 and 9.
                Ok((false, false, _) | (false, _, false)) => {
                    drop(stripe);
                    self.cache.remove_matching(self.item);
                    return Ok(None);
                }
                Err(Corrupt) => return Err(corrupt(self.item.key())),
            }
        }
    }

    /// Makes changes as one step, if nothing was changed since the reading that had this sequence.
    /// `false`: it was, or the collection is gone or has grown; the caller finds the item anew.
    /// Where no entry is left, the item is removed.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where one item cannot hold what is there and what is written, and
    /// [`ErrorKind::OutOfMemory`] where there is no room to grow: then nothing has changed.
    pub fn apply(&self, expected: u32, edits: &[Edit<'_>]) -> Result<bool, Error> {
        let more = edit::room_for(self.kind(), edits);
        let Some(locked) = self.lock(tail::begin_change)? else { return Ok(false) };
        let tail = self.bag.tail;
        let changed = tail.is_still(expected).and_then(|is_still| {
            if !is_still {
                return Ok(Change::Done(false));
            }
            if !self.bag.has_room(more)? {
                let taken = self.bag.taken()?;
                let room = Room { entries: taken.entries + more.entries, words: taken.words + more.words };
                let words = self.kind().tail_words(room);
                // Where enough is garbage, the rest moves together; else all of it moves.
                if words > tail.len() / 4 * 3 || words < tail.len() / SHRINK {
                    return Ok(Change::Full(words, more));
                }
                let (_, copy) = self.copied()?;
                tail.change(|tail| Bag { tail: Tail(&copy), ..self.bag }.copy_to(tail, more))?;
            }
            tail.change(|_| self.bag.edit(edits))?;
            self.set_end(edits);
            Ok(Change::Done(true))
        });
        drop(locked);
        match changed.map_err(|Corrupt| corrupt(self.item.key()))? {
            Change::Done(true) => {
                tail::note_change(self.cache.keys(self.item.pool()), self.item.pool(), self.item.key());
                self.tidy()?;
                Ok(true)
            }
            Change::Done(false) => Ok(false),
            Change::Full(words, more) => self.grow(expected, words, more, edits),
        }
    }

    /// Sets the item's end after that of the collection. The stripe is locked.
    fn set_end(&self, edits: &[Edit<'_>]) {
        if let Some(expiry) = end_of(edits) {
            self.item.set_expiry(expiry);
        }
    }

    /// Removes the item after the last entry, and gives memory back after most of them.
    fn tidy(&self) -> Result<(), Error> {
        let Some((sequence, taken)) = self.read(|view| view.0.taken())? else {
            // Whoever else sees it does the same.
            self.cache.remove_matching(self.item);
            return Ok(());
        };
        let (words, has) = (self.kind().tail_words(taken), self.bag.tail.len());
        if has > SMALL && words < has / SHRINK {
            // There may be no memory for it: then it stays as it is.
            let _ = self.grow(sequence, words, Room::default(), &[]);
        }
        Ok(())
    }

    /// Copies the collection, with the changes, to an item with at least `words` words, which takes
    /// the place of the old one.
    fn grow(&self, expected: u32, words: usize, more: Room, edits: &[Edit<'_>]) -> Result<bool, Error> {
        let key = self.item.key();
        // What fills the largest chunk to the last word would be copied at every other change.
        let slack = words / SLACK;
        let (_, most) = most_words(self.cache, self.item.pool(), key, words + slack)?;
        // Made with no lock held, as it may evict.
        let mut new = allocate(self.cache, self.item.pool(), key, (words + words / 2).min(most))?;
        let Some(locked) = self.lock(tail::is_current)? else { return Ok(false) };
        let copied = self.bag.tail.is_still(expected).and_then(|is_still| {
            let to = new.tail().map(Tail).ok_or(Corrupt)?;
            if !is_still {
                return Ok(false);
            }
            let to = begin(to, self.kind(), self.bag.id, expected.wrapping_add(2))?;
            if !self.bag.copy_to(to.tail, more)? {
                return Err(Corrupt);
            }
            to.edit(edits)?;
            self.bag.tail.freeze(tail::structures(self.cache).mark())?;
            Ok(true)
        });
        drop(locked);
        if !copied.map_err(|Corrupt| corrupt(key))? {
            return Ok(false);
        }
        #[cfg(test)]
        super::tests::pause_before_exchange();
        let expiry = self.item.expires_at();
        new.set_expiry(end_of(edits).unwrap_or(expiry.map_or(Expiry::Never, Expiry::At)));
        new.set_user_bits(self.item.user_bits());
        match self.cache.replace_matching(self.item, new) {
            // Who touched the old one in the meantime meant this one too.
            Ok(new) => {
                if self.item.expires_at() != expiry {
                    new.set_expiry(self.item.expires_at().map_or(Expiry::Never, Expiry::At));
                }
                if Collection::of(self.cache, &new).is_none() {
                    // The last of the changes have left nothing.
                    self.cache.remove_matching(&new);
                }
                Ok(true)
            }
            // It is not the item of its key any more, or has expired; it might be given more time
            // yet.
            Err(_) => {
                let _ = self.bag.tail.freeze(0);
                Ok(false)
            }
        }
    }

    /// The words that it lies in.
    #[cfg(fuzzing)]
    pub fn words(&self) -> usize {
        self.bag.tail.len()
    }

    /// Overwrites one of them, as nobody does, so that it can be seen what a reader makes of that.
    #[cfg(fuzzing)]
    pub fn damage(&self, at: usize, word: u32) {
        let _ = self.bag.tail.set(at, word);
    }

    /// Returns the memory that it takes.
    ///
    /// # Errors
    /// As for [`Self::read`]; `None`: it is gone.
    pub fn usage(&self) -> Result<Option<super::Usage>, Error> {
        let seen = self.read(|view| {
            let taken = view.0.taken()?;
            Ok(super::Usage {
                entries: taken.entries,
                used_bytes: self.kind().tail_words(taken) * WORD,
                garbage_bytes: view.0.tail.get(super::header::GARBAGE)? as usize * WORD,
                capacity_bytes: view.0.tail.len() * WORD,
            })
        })?;
        Ok(seen.map(|(_, usage)| usage))
    }
}

/// Writes the header of a collection that nobody sees yet.
fn begin(tail: Tail<'_>, kind: CollectionKind, id: u64, sequence: u32) -> CellResult<Bag<'_>> {
    tail.begin(Shape { kind: kind.kind(), key_bytes: VARIES, value_bytes: 0 }, id, sequence)?;
    Ok(Bag { tail, kind, id })
}

fn allocate<'c>(cache: &'c Cache, pool: PoolId, key: &[u8], words: usize) -> Result<WriteHandle<'c>, Error> {
    let options = ItemOptions { expirable: true, ..ItemOptions::default() };
    tail::make(cache, pool, key, words * WORD, &options)
}

/// Returns this many words, if one item of the pool has as many, and how many it has.
fn most_words(cache: &Cache, pool: PoolId, key: &[u8], words: usize) -> Result<(usize, usize), Error> {
    let most = tail::largest(cache, pool, key.len())? / WORD;
    if words > most {
        let context = format!(
            "the collection of `{}` needs {} bytes, and one item holds {}: split it over several keys",
            key.escape_ascii(),
            words * WORD,
            most * WORD
        );
        return Err(Error::new(ErrorKind::TooLarge, context));
    }
    Ok((words, most))
}

fn corrupt(key: &[u8]) -> Error {
    let context = format!("the collection of `{}` is corrupt: remove it", key.escape_ascii());
    Error::new(ErrorKind::WrongType, context)
}

/// Returns the item's expiry time after these changes.
fn end_of(edits: &[Edit<'_>]) -> Option<Expiry> {
    edits.iter().rev().find_map(|edit| match edit {
        Edit::Deadline(None) => Some(Expiry::Never),
        // Second 0 is the engine's word for never.
        Edit::Deadline(Some(millis)) => {
            let secs = u32::try_from(millis.div_ceil(1000).max(1));
            Some(secs.map_or(Expiry::Never, Expiry::At))
        }
        _ => None,
    })
}

fn with_end<'c>(mut new: WriteHandle<'c>, edits: &[Edit<'_>]) -> WriteHandle<'c> {
    if let Some(expiry) = end_of(edits) {
        new.set_expiry(expiry);
    }
    new
}
