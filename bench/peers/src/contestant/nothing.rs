//! A contestant that finds every key at once, to measure the cost of the timed loop itself.

use std::hint::black_box;

use anyhow::Result;

use super::{Contestant, Name, Spec};
use crate::keys::Key;

/// Stores nothing.
pub(crate) struct Nothing {
    value: Vec<u8>,
}

impl Contestant for Nothing {
    fn build(_: Name, spec: &Spec) -> Result<Self> {
        Ok(Self { value: vec![0; spec.value_len] })
    }

    #[inline]
    fn find<T>(&self, key: &Key, seen: impl FnOnce(&[u8]) -> T) -> Option<T> {
        black_box(key);
        Some(seen(&self.value))
    }

    #[inline]
    fn insert(&self, key: &Key, value: &[u8]) -> bool {
        black_box((key, value));
        true
    }

    fn items(&self) -> u64 {
        0
    }
}
