//! moka: its sync cache with TinyLFU admission, its default, and a faster hash than its default.

use anyhow::Result;
use foldhash::fast::RandomState;

use super::{Contestant, Name, Spec, Value};
use crate::keys::Key;

/// moka's concurrent cache.
pub(crate) struct Moka(moka::sync::Cache<Key, Value, RandomState>);

impl Contestant for Moka {
    fn build(_: Name, spec: &Spec) -> Result<Self> {
        let overhead = spec.overhead_bytes as u32;
        let cache = moka::sync::Cache::builder()
            .weigher(move |key: &Key, value: &Value| (key.len() + value.len()) as u32 + overhead)
            .max_capacity(spec.memory_bytes)
            .build_with_hasher(RandomState::default());
        Ok(Self(cache))
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

    fn settle(&self) {
        self.0.run_pending_tasks();
    }

    fn items(&self) -> u64 {
        self.0.run_pending_tasks();
        self.0.entry_count()
    }
}
