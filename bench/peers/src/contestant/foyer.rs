//! foyer: its in-memory cache alone, under the policy whose hits lock least (S3-FIFO) or its own
//! recommendation (w-TinyLFU), with a faster hash than its default.

use anyhow::Result;
use foldhash::fast::RandomState;
use foyer_memory::{Cache, CacheBuilder, EvictionConfig, LfuConfig, S3FifoConfig};

use super::{Contestant, Name, Spec, Value};
use crate::keys::Key;

/// foyer's in-memory cache.
pub(crate) struct Foyer(Cache<Key, Value, RandomState>);

impl Contestant for Foyer {
    fn build(name: Name, spec: &Spec) -> Result<Self> {
        let overhead = spec.overhead_bytes as usize;
        let policy: EvictionConfig =
            if name == Name::FoyerLfu { LfuConfig::default().into() } else { S3FifoConfig::default().into() };
        let cache = CacheBuilder::new(spec.memory_bytes as usize)
            .with_eviction_config(policy)
            .with_hash_builder(RandomState::default())
            .with_weighter(move |key: &Key, value: &Value| key.len() + value.len() + overhead)
            .build();
        Ok(Self(cache))
    }

    #[inline]
    fn find<T>(&self, key: &Key, seen: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.0.get(key).map(|entry| seen(entry.value()))
    }

    #[inline]
    fn insert(&self, key: &Key, value: &[u8]) -> bool {
        self.0.insert(*key, Value::from(value));
        true
    }

    fn items(&self) -> u64 {
        self.0.entries() as u64
    }
}
