//! Finding a structure, reading it without a lock, changing it under one, and letting it grow.

use parking_lot::MutexGuard;

use super::entries::Room;
use super::header::{Header, Shape};
use super::{StructureOptions, Usage};
use memory::Cache;
use memory::Keys;
use memory::PoolId;
use memory::ReadHandle;
use memory::cells::{CellResult, Cells as Tail, Corrupt};
use memory::tail::{self, Tailed};
use memory::{Error, ErrorKind};
use memory::{Expiry, ItemOptions};

/// Number of times that a reader tries before it keeps writers out.
pub(super) const ATTEMPTS: u32 = 16;
/// The calls of [`pause`] in which a thread that waits for another thread's growth yields; after
/// them, it sleeps.
const YIELDS: u32 = 64;
pub(super) const WORD: usize = size_of::<u32>();

/// An opened structure: its pool and key, the shape that it must have, and its identity, which
/// tells it from other structures that the key has had or will have. Holds no reference: the item
/// may be evicted meanwhile.
#[derive(Clone)]
pub(super) struct OpenStructure {
    cache: Cache,
    pool: PoolId,
    key: Box<[u8]>,
    shape: Shape,
    id: u64,
}

/// The result of a change.
pub(super) enum Change<R> {
    Done(R),
    /// There is not enough room, and nothing was changed: the change needs a tail of this many
    /// words, with this room in it.
    Full(usize, Room),
}

/// The reason that a look at an item did not succeed.
enum ReadFailure {
    Gone,
    Corrupt,
    /// Writers are in the way.
    Busy,
}

impl From<Corrupt> for ReadFailure {
    fn from(Corrupt: Corrupt) -> Self {
        Self::Corrupt
    }
}

/// A current item whose stripe is locked. The fields are dropped in order: first the lock, as
/// dropping the last reference may call the embedder.
struct Locked<'c> {
    _stripe: MutexGuard<'c, ()>,
    item: ReadHandle<'c>,
}

impl Locked<'_> {
    fn tail(&self) -> CellResult<Tail<'_>> {
        self.item.tail().map(Tail).ok_or(Corrupt)
    }
}

impl OpenStructure {
    /// Makes a structure with a tail of at least `words`, which `fill` lays out. `None`: the key
    /// has an item.
    pub(super) fn create(
        cache: &Cache,
        pool: PoolId,
        key: &[u8],
        shape: Shape,
        (options, words): (&StructureOptions, usize),
        fill: impl FnOnce(Tail<'_>) -> CellResult<()>,
    ) -> Result<Option<Self>, Error> {
        let item_options = ItemOptions { expiry: options.expiry, expirable: true, ..ItemOptions::default() };
        let item = tail::make(cache, pool, key, words * WORD, &item_options)?;
        let handle = Self { id: tail::structures(cache).new_id(), ..Self::named(cache, pool, key, shape) };
        let tail = item.tail().map(Tail).ok_or_else(|| handle.wrong_type())?;
        tail.begin(shape, handle.id, 0).and_then(|()| fill(tail)).map_err(|Corrupt| handle.wrong_type())?;
        Ok(cache.insert(item).is_ok().then_some(handle))
    }

    fn named(cache: &Cache, pool: PoolId, key: &[u8], shape: Shape) -> Self {
        Self { cache: cache.clone(), pool, key: key.into(), shape, id: 0 }
    }

    /// The structure that the key has. `None`: it has no item.
    pub(super) fn open(cache: &Cache, pool: PoolId, key: &[u8], shape: Shape) -> Result<Option<Self>, Error> {
        let handle = Self::named(cache, pool, key, shape);
        let Some(item) = cache.keys(pool).find(key) else { return Ok(None) };
        let id = item.tail().map(Tail).ok_or(Corrupt).and_then(|tail| tail.identify(shape));
        let id = id.map_err(|Corrupt| handle.wrong_type())?;
        Ok(Some(Self { id, ..handle }))
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    fn keys(&self) -> Keys<'_> {
        self.cache.keys(self.pool)
    }

    fn name(&self) -> std::slice::EscapeAscii<'_> {
        self.key.escape_ascii()
    }

    fn gone(&self) -> Error {
        let context = format!(
            "the structure that `{}` had is gone: it was evicted, removed, replaced or has expired; make it anew",
            self.name()
        );
        Error::new(ErrorKind::Gone, context)
    }

    fn wrong_type(&self) -> Error {
        let Shape { kind, key_bytes, value_bytes } = self.shape;
        let context = format!(
            "the item of `{}` is not a {kind:?} with keys of {key_bytes} and values of {value_bytes} bytes, or is corrupt: \
             open it as what it was made as, or remove it",
            self.name()
        );
        Error::new(ErrorKind::WrongType, context)
    }

    fn error(&self, miss: &ReadFailure) -> Error {
        match miss {
            ReadFailure::Gone | ReadFailure::Busy => self.gone(),
            ReadFailure::Corrupt => self.wrong_type(),
        }
    }

    /// The structure in this item, if it is the one of this handle.
    fn ours<'t>(&self, tail: Option<Tail<'t>>) -> Result<Tail<'t>, ReadFailure> {
        // An item of another kind, or another structure, has taken the key.
        let tail = tail.ok_or(ReadFailure::Gone)?;
        if tail.identify(self.shape).is_ok_and(|id| id == self.id) {
            Ok(tail)
        } else {
            Err(ReadFailure::Gone)
        }
    }

    /// Returns what `look` sees, with the sequence that it belongs to. `look` may run several
    /// times, and on torn content.
    pub(super) fn read<R>(&self, look: impl Fn(Tail<'_>) -> CellResult<R>) -> Result<(u32, R), Error> {
        let seen = self.keys().find_with(&self.key, |found| {
            let tail = self.ours(found.tail().map(Tail))?;
            for _ in 0..ATTEMPTS {
                let before = tail.sequence()?;
                if before.is_multiple_of(2) {
                    let seen = look(tail);
                    if tail.is_still(before)? {
                        return Ok((before, seen?));
                    }
                }
                std::hint::spin_loop();
            }
            Err(ReadFailure::Busy)
        });
        match seen.unwrap_or(Err(ReadFailure::Gone)) {
            Ok(seen) => Ok(seen),
            Err(ReadFailure::Busy) => self.read_locked(look),
            Err(miss) => Err(self.error(&miss)),
        }
    }

    /// The same with writers kept out while the words are copied; `look` runs on the copy, with no
    /// lock held.
    fn read_locked<R>(&self, look: impl Fn(Tail<'_>) -> CellResult<R>) -> Result<(u32, R), Error> {
        let locked = self.lock(tail::is_current)?;
        let copy = locked.tail().and_then(|tail| {
            let words: Vec<_> = (0..tail.len()).map(|_| 0.into()).collect();
            tail.copy(0, Tail(&words), 0, words.len())?;
            Ok((tail.sequence()?, words))
        });
        drop(locked);
        let seen = copy.and_then(|(sequence, words)| Ok((sequence, look(Tail(&words))?)));
        seen.map_err(|Corrupt| self.wrong_type())
    }

    /// The item, not frozen and current according to `begin`, with its stripe locked.
    fn lock(&self, begin: fn(&ReadHandle<'_>, &Cache) -> bool) -> Result<Locked<'_>, Error> {
        let structures = tail::structures(&self.cache);
        let mut waits = 0;
        loop {
            let item = self.keys().find(&self.key).ok_or_else(|| self.gone())?;
            let tail = self.ours(item.tail().map(Tail)).map_err(|miss| self.error(&miss))?;
            let stripe = structures.lock(self.id);
            let state = tail.is_frozen(structures.mark()).and_then(|frozen| Ok((frozen, tail.sequence()?)));
            match state {
                Ok((true, _)) => {}
                Ok(_) if !begin(&item, &self.cache) => {}
                Ok((false, sequence)) if sequence.is_multiple_of(2) => {
                    return Ok(Locked { _stripe: stripe, item });
                }
                // Invariant 4.
                _ => {
                    drop(stripe);
                    self.cache.remove_matching(&item);
                    return Err(self.gone());
                }
            }
            // Another thread is copying the structure to a larger item, or the item was just
            // replaced or removed.
            drop(stripe);
            drop(item);
            pause(&mut waits);
        }
    }

    /// Makes a change, letting the structure grow if it has no room for it. `rebuild` copies all
    /// that is in one tail to an empty one with the given room, and says whether it fits.
    ///
    /// With `expected`, returns `None` and makes no change if the sequence is another, or if the
    /// structure had to be rebuilt first.
    pub(super) fn write<R>(
        &self,
        expected: Option<u32>,
        change: impl Fn(Tail<'_>) -> CellResult<Change<R>>,
        rebuild: impl Fn(Tail<'_>, Tail<'_>, Room) -> CellResult<bool>,
    ) -> Result<Option<R>, Error> {
        loop {
            let locked = self.lock(tail::begin_change)?;
            let changed = locked.tail().and_then(|tail| {
                if expected.is_some_and(|expected| !tail.is_still(expected).unwrap_or(false)) {
                    return Ok(None);
                }
                tail.change(&change).map(Some)
            });
            drop(locked);
            match changed.map_err(|Corrupt| self.wrong_type())? {
                None => return Ok(None),
                Some(Change::Done(result)) => {
                    tail::note_change(self.keys(), self.pool, &self.key);
                    return Ok(Some(result));
                }
                Some(Change::Full(words, room)) => {
                    let words = self.wanted(words)?;
                    self.rebuild(words, |from, to| rebuild(from, to, room))?;
                    if expected.is_some() {
                        // The sequence has moved on.
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Returns the number of words for the next tail if at least `words` are needed: half as many
    /// more, but no more than an item can hold.
    fn wanted(&self, words: usize) -> Result<usize, Error> {
        let most = tail::largest(&self.cache, self.pool, self.key.len())? / WORD;
        // A structure that filled the largest chunk to the last word would have to be copied at
        // every other change, so a sixteenth stays free.
        if words + most / 16 > most {
            let context = format!(
                "the structure of `{}` needs {} bytes, and one item holds {} with room to move: split it over several keys",
                self.name(),
                words * WORD,
                (most - most / 16) * WORD
            );
            return Err(Error::new(ErrorKind::TooLarge, context));
        }
        Ok((words + words / 2).min(most))
    }

    /// Copies the structure to a new item with a tail of at least `words`, which takes the place of
    /// the old one.
    pub(super) fn rebuild(
        &self,
        words: usize,
        rebuild: impl FnOnce(Tail<'_>, Tail<'_>) -> CellResult<bool>,
    ) -> Result<(), Error> {
        let options = ItemOptions { expirable: true, ..ItemOptions::default() };
        // Made with no lock held, as it may evict.
        let mut new = tail::make(&self.cache, self.pool, &self.key, words * WORD, &options)?;
        let locked = self.lock(tail::is_current)?;
        let copied = locked.tail().and_then(|from| {
            let to = new.tail().map(Tail).ok_or(Corrupt)?;
            to.begin(self.shape, self.id, from.sequence()?.wrapping_add(2))?;
            let fits = rebuild(from, to)?;
            if fits {
                from.freeze(tail::structures(&self.cache).mark())?;
            }
            Ok(fits)
        });
        let Locked { _stripe: stripe, item: old } = locked;
        drop(stripe);
        if !copied.map_err(|Corrupt| self.wrong_type())? {
            // It has grown meanwhile; the caller looks again.
            return Ok(());
        }
        #[cfg(test)]
        super::tests::pause_before_exchange();
        let expiry = old.expires_at();
        new.set_expiry(expiry.map_or(Expiry::Never, Expiry::At));
        new.set_user_bits(old.user_bits());
        match self.cache.replace_matching(&old, new) {
            // Another thread has changed the expiry time of the old item meanwhile: apply it to the
            // new.
            Ok(new) if old.expires_at() != expiry => {
                new.set_expiry(old.expires_at().map_or(Expiry::Never, Expiry::At));
            }
            Ok(_) => {}
            // The old item was replaced or removed, or has expired. It is unfrozen, since a new
            // expiry time may make it live again, and no thread could change it then.
            Err(_) => {
                let _ = old.tail().map(Tail).map(|tail| tail.freeze(0));
            }
        }
        Ok(())
    }

    /// Returns the memory that the structure takes. `look` returns the number of entries, the words
    /// in use, and the words of garbage that former entries left.
    pub(super) fn usage(
        &self,
        look: impl Fn(Tail<'_>) -> CellResult<(usize, usize, usize)>,
    ) -> Result<Usage, Error> {
        let (_, ((entries, used, garbage), capacity)) = self.read(|tail| Ok((look(tail)?, tail.len())))?;
        Ok(Usage {
            entries,
            used_bytes: used * WORD,
            garbage_bytes: garbage * WORD,
            capacity_bytes: capacity * WORD,
        })
    }
}

impl std::fmt::Debug for OpenStructure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenStructure")
            .field("key", &self.name().to_string())
            .field("shape", &self.shape)
            .finish()
    }
}

/// Yields to the thread that this one waits for; from call [`YIELDS`] on, sleeps for 50 µs instead.
pub(super) fn pause(waits: &mut u32) {
    *waits += 1;
    if *waits < YIELDS {
        std::thread::yield_now();
    } else {
        base::thread::sleep(std::time::Duration::from_micros(50));
    }
}
