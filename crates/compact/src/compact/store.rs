//! The buckets of one compact cache, whatever its types: finding, locking, counting, and changing
//! their number.

mod resize;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::counter::Counters;
use base::hash::key_hash;
use base::{Ledger, Part};
use parking_lot::Mutex;

use super::bucket::{Bucket, BucketLayout, HeaderWord, Locked, pause};
use super::shape::Shape;
use super::table::Table;
use memory::cells::CellResult;

pub(super) const HITS: usize = 0;
pub(super) const MISSES: usize = 1;
pub(super) const INSERTS: usize = 2;
pub(super) const REPLACED: usize = 3;
pub(super) const REMOVED: usize = 4;
pub(super) const EVICTIONS: usize = 5;
pub(super) const RESIZES: usize = 6;

/// The buckets of a compact cache.
pub(super) struct Store {
    pub(super) name: String,
    pub(super) form: BucketLayout,
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

/// The place where an entry was found, and the bucket's head at that moment.
pub(super) struct Place<'t> {
    pub(super) bucket: Bucket<'t>,
    pub(super) head: HeaderWord,
    pub(super) number: usize,
}

impl Store {
    fn refund(&self, buckets: u32) {
        self.charged.fetch_sub(buckets, Ordering::Relaxed);
        self.ledger.release(Part::Compact, u64::from(buckets) * self.form.bucket_bytes as u64);
    }

    /// Buckets that are paid for.
    pub(super) fn buckets(&self) -> u32 {
        self.charged.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, counter: usize, n: u64) {
        self.counters.add(counter, n);
    }

    /// Returns the place where a key belongs, as a fraction of all buckets.
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
        seen: impl Fn(Bucket<'_>, usize) -> CellResult<R>,
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

impl Drop for Store {
    fn drop(&mut self) {
        self.refund(self.buckets());
    }
}
