//! The buckets of one compact cache, whatever its types: finding, locking, counting, and changing
//! their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::counter::Counters;
use base::hash::key_hash;
use base::{Ledger, Part};
use parking_lot::Mutex;

use super::bucket::{Bucket, Form, Head, Locked, pause};
use super::shape::{Shape, View, place};
use super::table::Table;
use crate::cache::Core;
use crate::cells::Look;
use crate::error::{Error, ErrorKind};

pub(super) const HITS: usize = 0;
pub(super) const MISSES: usize = 1;
pub(super) const INSERTS: usize = 2;
pub(super) const REPLACED: usize = 3;
pub(super) const REMOVED: usize = 4;
pub(super) const EVICTIONS: usize = 5;
pub(super) const RESIZES: usize = 6;

/// The buckets of a compact cache.
pub(crate) struct Store {
    pub(super) name: String,
    pub(super) form: Form,
    pub(super) max_buckets: u32,
    pub(super) counters: Counters<7>,
    table: Table,
    shape: Shape,
    seed: u64,
    /// Held by the one thread that changes the number of buckets, or empties them all.
    resizer: Mutex<()>,
    /// Buckets that are paid for.
    charged: AtomicU32,
    ledger: Arc<Ledger>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.name).field("shape", &self.shape.load()).finish()
    }
}

/// Where an entry was found, and when.
pub(super) struct Place<'t> {
    pub(super) bucket: Bucket<'t>,
    pub(super) head: Head,
    pub(super) number: usize,
}

impl Store {
    /// One with its memory charged.
    ///
    /// # Errors
    /// As for [`super::CompactCache::new`].
    pub(super) fn new(
        core: &Core,
        name: String,
        form: Form,
        buckets: u32,
        max_buckets: u32,
        seed: u64,
    ) -> Result<Self, Error> {
        let table = Table::reserve(form, max_buckets)
            .map_err(|error| Error::with_source(ErrorKind::System, "cannot reserve address space", error))?;
        let store = Self {
            name,
            form,
            max_buckets,
            counters: Counters::default(),
            table,
            shape: Shape::new(buckets),
            seed,
            resizer: Mutex::new(()),
            charged: AtomicU32::new(0),
            ledger: Arc::clone(&core.ledger),
        };
        store.charge(core, buckets)?;
        Ok(store)
    }

    /// Pays for so many buckets more, with slabs of pools where need be.
    fn charge(&self, core: &Core, buckets: u32) -> Result<(), Error> {
        let bytes = u64::from(buckets) * self.form.bucket_bytes as u64;
        if !self.ledger.try_charge(Part::Compact, bytes, core.metadata_to_come()) {
            self.ledger.charge(Part::Compact, bytes);
            if let Err(error) = core.shrink_to_limit() {
                self.ledger.release(Part::Compact, bytes);
                let context = format!("no memory for {bytes} bytes of the compact cache `{}`", self.name);
                return Err(Error::with_source(ErrorKind::OutOfMemory, context, error));
            }
        }
        let buckets = self.charged.fetch_add(buckets, Ordering::Relaxed) + buckets;
        if core.huge_pages {
            self.table.use_huge_pages(buckets);
        }
        Ok(())
    }

    fn refund(&self, buckets: u32) {
        self.charged.fetch_sub(buckets, Ordering::Relaxed);
        self.ledger.release(Part::Compact, u64::from(buckets) * self.form.bucket_bytes as u64);
    }

    /// Buckets that are paid for.
    pub(super) fn buckets(&self) -> u32 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.buckets()) * self.form.bucket_bytes as u64
    }

    pub(super) fn count(&self, counter: usize, n: u64) {
        self.counters.add(counter, n);
    }

    /// Where a key belongs, as a fraction of all buckets.
    #[inline]
    pub(super) fn fraction(&self, key: &[u8]) -> u32 {
        (key_hash(self.seed, key) >> 32) as u32
    }

    /// The entry of a key, with what `seen` makes of it: as they were at one moment. The caller has
    /// pinned.
    #[inline]
    pub(super) fn find<R>(
        &self,
        key: &[u8],
        seen: impl Fn(Bucket<'_>, usize) -> Look<R>,
    ) -> Option<(Place<'_>, R)> {
        let fraction = self.fraction(key);
        let mut spins = 0;
        loop {
            let home = self.shape.load().home(fraction);
            let bucket = self.table.bucket(home);
            let head = bucket.head();
            if !head.is_locked() {
                let found = bucket.find(key, head.count());
                let found = found.and_then(|found| found.map(|at| Ok((at, seen(bucket, at)?))).transpose());
                // The home of a key changes only while its bucket is locked, so that where both are
                // still the same, this was its bucket all the time.
                if bucket.is_still(head) && self.shape.load().home(fraction) == home {
                    let (number, seen) = found.ok().flatten()?;
                    return Some((Place { bucket, head, number }, seen));
                }
            }
            pause(&mut spins);
        }
    }

    /// The bucket of a key, locked. The caller has pinned.
    pub(super) fn lock(&self, key: &[u8]) -> Locked<'_> {
        let fraction = self.fraction(key);
        loop {
            let home = self.shape.load().home(fraction);
            let locked = self.table.bucket(home).lock();
            if self.shape.load().home(fraction) == home {
                return locked;
            }
        }
    }

    /// The words of the entries of the home of `fraction`, if they lie before the next home, and
    /// where that begins. The caller has pinned.
    pub(super) fn read_home(&self, fraction: u32) -> (Vec<Vec<u32>>, u64) {
        loop {
            let view = self.shape.load();
            let locked = self.table.bucket(view.home(fraction)).lock();
            if self.shape.load() != view {
                continue;
            }
            let entries = locked.words().unwrap_or_default();
            drop(locked);
            let next = view.next_home(fraction);
            let here = |entry: &Vec<u32>| {
                let at = self.fraction_of(entry);
                at >= fraction && u64::from(at) < next
            };
            return (entries.into_iter().filter(here).collect(), next);
        }
    }

    fn fraction_of(&self, entry: &[u32]) -> u32 {
        let key: &[u8] = bytemuck::cast_slice(entry);
        self.fraction(key.get(..self.form.key_bytes).unwrap_or_default())
    }

    /// Empties all buckets, one after the other.
    pub(super) fn purge(&self, core: &Core) {
        let _resizing = self.resizer.lock();
        for number in 0..self.buckets() {
            let _pinned = core.pins.pin();
            let mut locked = self.table.bucket(number).lock();
            self.count(REMOVED, locked.count() as u64);
            let _ = locked.replace(&[]);
        }
    }

    /// Changes the number of buckets while others use them.
    pub(super) fn resize(&self, core: &Core, buckets: u32) -> Result<(), Error> {
        let _resizing = self.resizer.lock();
        let now = self.buckets();
        if buckets > now {
            self.charge(core, buckets - now)?;
        }
        self.move_all(core, now, buckets);
        Ok(())
    }

    /// Gives up some buckets because the cache has no memory. `false`: another thread resizes it,
    /// or there is nothing to give.
    pub(crate) fn shrink(&self, core: &Core) -> bool {
        let Some(_resizing) = self.resizer.try_lock() else { return false };
        let now = self.buckets();
        let after = now - (now / 16).max(1);
        if after == 0 {
            return false;
        }
        self.move_all(core, now, after);
        true
    }

    /// Moves all buckets to where `new` has them. The caller holds the `resizer`.
    fn move_all(&self, core: &Core, old: u32, new: u32) {
        if old == new {
            return;
        }
        let frontier = if new > old { old } else { 0 };
        self.shape.store(View { old, new, frontier });
        for step in 0..old {
            let number = if new > old { old - 1 - step } else { step };
            let _pinned = core.pins.pin();
            self.move_bucket(
                number,
                View { old, new, frontier: if new > old { number } else { number + 1 } },
            );
        }
        self.shape.store(View { old: new, new, frontier: 0 });
        self.count(RESIZES, 1);
        if new < old {
            // Who loaded the shape before may still be looking at what is given back.
            core.pins.synchronize();
            self.table.give_back(new);
            self.refund(old - new);
        }
    }

    /// Moves the entries of one bucket, after which the mapping is `after`.
    fn move_bucket(&self, number: u32, after: View) {
        let mut source = self.table.bucket(number).lock();
        let mut entries: Vec<_> = source
            .words()
            .unwrap_or_default()
            .into_iter()
            .map(|entry| (place(self.fraction_of(&entry), after.new), entry))
            .collect();
        // Stable: of those that go to one bucket, the order of use stays.
        entries.sort_by_key(|(target, _)| *target);
        let mut dropped = 0;
        for group in entries.chunk_by(|a, b| a.0 == b.0) {
            let words: Vec<Vec<u32>> = group.iter().map(|(_, entry)| entry.clone()).collect();
            let target = group[0].0;
            if target != number {
                // Nobody looks for these keys there before this bucket's lock is given back.
                let mut target = self.table.bucket(target).lock();
                let merged = interleave(&target.words().unwrap_or_default(), &words);
                dropped += target.replace(&merged).unwrap_or(0);
            }
        }
        let staying: Vec<Vec<u32>> =
            entries.into_iter().filter(|(target, _)| *target == number).map(|(_, entry)| entry).collect();
        let _ = source.replace(&staying);
        self.count(EVICTIONS, dropped as u64);
        self.shape.store(after);
    }

    /// Checks that every entry is where it is looked for. For tests, at rest. Returns how many
    /// there are.
    pub(super) fn validate(&self) -> u64 {
        let view = self.shape.load();
        assert_eq!((view.old, view.new), (self.buckets(), self.buckets()), "at rest");
        let mut entries = 0;
        for number in 0..self.buckets() {
            let locked = self.table.bucket(number).lock();
            let words = locked.words().expect("inside");
            assert!(words.iter().all(|entry| view.home(self.fraction_of(entry)) == number), "at home");
            let mut keys: Vec<_> =
                words.iter().map(|entry| &entry[..self.form.key_bytes.div_ceil(4)]).collect();
            keys.sort_unstable();
            assert!(keys.is_sorted_by(|a, b| a < b), "each key has one entry");
            entries += words.len() as u64;
        }
        entries
    }
}

/// Two orders of use made one: nobody knows which of two entries was used later, but what is at the
/// same part of its list was probably used at about the same time.
fn interleave(a: &[Vec<u32>], b: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let (mut i, mut j) = (0, 0);
    let mut merged = Vec::with_capacity(a.len() + b.len());
    while i + j < a.len() + b.len() {
        // The middle of the entry's place, as a part of its list.
        let a_is_earlier = (2 * i + 1) * b.len() <= (2 * j + 1) * a.len();
        if j == b.len() || i < a.len() && a_is_earlier {
            merged.push(a[i].clone());
            i += 1;
        } else {
            merged.push(b[j].clone());
            j += 1;
        }
    }
    merged
}

impl Drop for Store {
    fn drop(&mut self) {
        self.refund(self.buckets());
    }
}
