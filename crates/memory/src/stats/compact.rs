//! Statistics of a compact cache.

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
    /// Number of times the number of buckets was changed.
    pub resizes: u64,
}
