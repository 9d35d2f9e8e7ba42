//! Millpond itself: one pool that may use all memory; read in place, as its documentation advises.

use anyhow::Result;
use base::ByteSize;
use millpond::{Cache, CacheConfig, ItemOptions, PolicyKind, PoolConfig, PoolId};

use super::{Contestant, Name, Spec};
use crate::child::Bill;
use crate::keys::{BATCH, Key};

/// A cache with one pool.
pub(crate) struct Millpond {
    cache: Cache,
    pool: PoolId,
}

impl Contestant for Millpond {
    fn build(name: Name, spec: &Spec) -> Result<Self> {
        let policy = if name == Name::MillpondLru { "lru" } else { "s3-fifo" };
        let cache =
            Cache::new(CacheConfig { memory: ByteSize::new(spec.memory_bytes), ..CacheConfig::default() })?;
        let policy = policy.parse::<PolicyKind>().map_err(anyhow::Error::msg)?;
        let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("all") })?;
        Ok(Self { cache, pool })
    }

    #[inline]
    fn find<T>(&self, key: &Key, seen: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.cache.find_with(key, |item| seen(&item))
    }

    #[inline]
    fn find_many(&self, keys: &[Key], sum: &mut u64) -> u64 {
        let mut slices = [&[][..]; BATCH];
        for (slice, key) in slices.iter_mut().zip(keys) {
            *slice = key;
        }
        let mut hits = 0;
        self.cache.keys(self.pool).find_many_with(&slices[..keys.len().min(BATCH)], |_, item| {
            if let Some(item) = item {
                *sum += u64::from(item[0]);
                hits += 1;
            }
        });
        hits
    }

    #[inline]
    fn insert(&self, key: &Key, value: &[u8]) -> bool {
        let Ok(mut item) = self.cache.allocate(self.pool, key, value.len(), &ItemOptions::default()) else {
            return false;
        };
        item.value_mut().copy_from_slice(value);
        self.cache.put(item);
        true
    }

    fn items(&self) -> u64 {
        self.cache.stats().index_entries
    }

    fn bill(&self) -> Option<Bill> {
        let stats = self.cache.stats();
        Some(Bill {
            limit_bytes: stats.memory_limit_bytes,
            parts: stats.memory.iter().map(|(part, bytes)| (part.name().to_owned(), *bytes)).collect(),
            item_bytes: stats.pools.iter().map(|pool| pool.sum(|class| class.item_bytes)).sum(),
        })
    }
}
