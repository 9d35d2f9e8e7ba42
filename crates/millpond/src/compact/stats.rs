//! Statistics of a compact cache.

use super::store::{EVICTIONS, HITS, INSERTS, MISSES, REMOVED, REPLACED, RESIZES, Store};

/// A compact cache at one moment. Counters only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactStats {
    /// Its name.
    pub name: String,
    /// Memory of its buckets, in bytes.
    pub bytes: u64,
    /// Entries that it has room for.
    pub capacity: u64,
    /// Entries in it.
    pub entries: u64,
    /// Bytes of a bucket.
    pub bucket_bytes: u64,
    /// Entries of a bucket.
    pub bucket_entries: u64,
    /// Gets that found an entry.
    pub hits: u64,
    /// Gets that found none.
    pub misses: u64,
    /// Entries put in.
    pub inserts: u64,
    /// Values that took the place of another.
    pub replaced: u64,
    /// Entries removed or purged.
    pub removed: u64,
    /// Entries that left because their bucket was full, also because buckets became fewer.
    pub evictions: u64,
    /// How often the number of buckets was changed.
    pub resizes: u64,
}

impl Store {
    pub(crate) fn stats(&self) -> CompactStats {
        let count = |counter| self.counters.sum(counter);
        let (buckets, bucket_entries) = (u64::from(self.buckets()), self.form.entries as u64);
        let gone = count(REMOVED) + count(EVICTIONS);
        CompactStats {
            name: self.name.clone(),
            bytes: self.bytes(),
            capacity: buckets * bucket_entries,
            entries: count(INSERTS).saturating_sub(gone),
            bucket_bytes: self.form.bucket_bytes as u64,
            bucket_entries,
            hits: count(HITS),
            misses: count(MISSES),
            inserts: count(INSERTS),
            replaced: count(REPLACED),
            removed: count(REMOVED),
            evictions: count(EVICTIONS),
            resizes: count(RESIZES),
        }
    }
}
