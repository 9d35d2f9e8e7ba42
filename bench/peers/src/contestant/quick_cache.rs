//! quick_cache: its sync cache with all defaults, told how many items to expect.

use anyhow::Result;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::{Contestant, Name, Spec, Value};
use crate::keys::Key;

/// quick_cache's concurrent cache.
pub(crate) struct QuickCache(Cache<Key, Value, Weight>);

#[derive(Clone)]
struct Weight {
    overhead_bytes: u64,
}

impl Weighter<Key, Value> for Weight {
    fn weight(&self, key: &Key, value: &Value) -> u64 {
        (key.len() + value.len()) as u64 + self.overhead_bytes
    }
}

impl Contestant for QuickCache {
    fn build(_: Name, spec: &Spec) -> Result<Self> {
        let weight = Weight { overhead_bytes: spec.overhead_bytes };
        Ok(Self(Cache::with_weighter(spec.entries() as usize, spec.memory_bytes, weight)))
    }

    #[inline]
    fn find<T>(&self, key: &Key, seen: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.0.get(key).map(|value| seen(&value))
    }

    #[inline]
    fn insert(&self, key: &Key, value: &[u8]) -> bool {
        self.0.insert(*key, Value::from(value));
        true
    }

    fn items(&self) -> u64 {
        self.0.len() as u64
    }
}
