//! A compact cache as a store of its host: memory and statistics.

use super::store::{EVICTIONS, HITS, INSERTS, MISSES, REMOVED, REPLACED, RESIZES, Store};
use memory::stores::CompactStats;
use memory::stores::{Host, SharesMemory};

impl SharesMemory for Store {
    fn bytes(&self) -> u64 {
        u64::from(self.buckets()) * self.form.bucket_bytes as u64
    }

    fn shrink(&self, host: &dyn Host) -> bool {
        self.give_up_some(host)
    }

    fn stats(&self) -> CompactStats {
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
