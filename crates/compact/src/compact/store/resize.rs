//! Memory of a store: charged, resized while others use it, and emptied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::Part;
use base::counter::Counters;
use parking_lot::Mutex;

use super::super::bucket::BucketLayout;
use super::super::shape::{Shape, View, place};
use super::super::table::Table;
use super::{EVICTIONS, REMOVED, RESIZES, Store};
use memory::stores::Host;
use memory::{Error, ErrorKind};

impl Store {
    /// One with its memory charged.
    ///
    /// # Errors
    /// As for [`crate::compact::CompactCache::new`].
    pub(in crate::compact) fn new(
        host: &dyn Host,
        name: String,
        form: BucketLayout,
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
            ledger: Arc::clone(host.ledger()),
        };
        store.charge(host, buckets)?;
        Ok(store)
    }

    /// Pays for this many buckets more, with slabs of pools if need be.
    fn charge(&self, host: &dyn Host, buckets: u32) -> Result<(), Error> {
        let bytes = u64::from(buckets) * self.form.bucket_bytes as u64;
        if !self.ledger.try_charge(Part::Compact, bytes, host.metadata_to_come()) {
            self.ledger.charge(Part::Compact, bytes);
            if let Err(error) = host.shrink_to_limit() {
                self.ledger.release(Part::Compact, bytes);
                let context = format!("no memory for {bytes} bytes of the compact cache `{}`", self.name);
                return Err(Error::with_source(ErrorKind::OutOfMemory, context, error));
            }
        }
        let buckets = self.charged.fetch_add(buckets, Ordering::Relaxed) + buckets;
        if host.uses_huge_pages() {
            self.table.use_huge_pages(buckets);
        }
        Ok(())
    }

    /// Empties all buckets, one after the other.
    pub(in crate::compact) fn purge(&self, host: &dyn Host) {
        let _resizing = self.resizer.lock();
        for number in 0..self.buckets() {
            let _pinned = host.pins().pin();
            let mut locked = self.table.bucket(number).lock();
            self.count(REMOVED, locked.count() as u64);
            let _ = locked.replace(&[]);
        }
    }

    /// Changes the number of buckets while others use them.
    pub(in crate::compact) fn resize(&self, host: &dyn Host, buckets: u32) -> Result<(), Error> {
        let _resizing = self.resizer.lock();
        let now = self.buckets();
        if buckets > now {
            self.charge(host, buckets - now)?;
        }
        self.move_all(host, now, buckets);
        Ok(())
    }

    /// Gives up some buckets because the cache has no memory. `false`: another thread resizes it,
    /// or there is nothing to give.
    pub(in crate::compact) fn give_up_some(&self, host: &dyn Host) -> bool {
        let Some(_resizing) = self.resizer.try_lock() else { return false };
        let now = self.buckets();
        let after = now - (now / 16).max(1);
        if after == 0 {
            return false;
        }
        self.move_all(host, now, after);
        true
    }

    /// Moves all buckets to where `new` has them. The caller holds the `resizer`.
    fn move_all(&self, host: &dyn Host, old: u32, new: u32) {
        if old == new {
            return;
        }
        let frontier = if new > old { old } else { 0 };
        self.shape.store(View { old, new, frontier });
        for step in 0..old {
            let number = if new > old { old - 1 - step } else { step };
            let _pinned = host.pins().pin();
            self.move_bucket(
                number,
                View { old, new, frontier: if new > old { number } else { number + 1 } },
            );
        }
        self.shape.store(View { old: new, new, frontier: 0 });
        self.count(RESIZES, 1);
        if new < old {
            // Who loaded the shape before may still be looking at what is given back.
            host.pins().synchronize();
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
