//! Plain caches that are easy to check by reading, with which the engine's hit ratios are compared.
//!
//! They hold keys only, know nothing of slabs, classes or threads, and favour the shortest code
//! that follows the definition. Keys are 64-bit numbers; [`key_id`] turns any trace key into one.

mod arc;
mod insertion;
mod list;
mod lru;
mod s3fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod tiny_lfu;
mod two_q;

use std::hash::{BuildHasherDefault, Hasher};

pub use arc::Arc;
pub use insertion::LruInsertion;
pub use lru::ExactLru;
use millpond::PolicyKind;
pub use s3fifo::S3Fifo;
pub use sieve::Sieve;
pub use tiny_lfu::TinyLfu;
pub use two_q::TwoQ;

use crate::trace::TraceKey;

/// A cache of keys with a fixed capacity.
pub trait Simulator {
    /// Asks for `key`, whose object has `size` units of space, and takes it in when it is absent.
    /// True on a hit.
    fn access(&mut self, key: u64, size: u64) -> bool;

    /// Asks for `key` and takes nothing in. True on a hit.
    fn access_if_held(&mut self, key: u64) -> bool;

    /// Takes `key` out; true when it was there. Not an eviction.
    fn remove(&mut self, key: u64) -> bool;

    /// Returns the number of objects held.
    fn len(&self) -> usize;

    /// Returns whether no object is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of objects evicted so far.
    fn evictions(&self) -> u64;
}

/// The simulator of a policy with room for `capacity` objects, and its name.
pub fn simulator(kind: PolicyKind, capacity: u64) -> (&'static str, Box<dyn Simulator>) {
    match kind {
        // Nobody gives it a split here.
        PolicyKind::Lru { .. } | PolicyKind::LruSplit => {
            ("exact LRU", Box::new(ExactLru::by_items(capacity)))
        }
        PolicyKind::LruInsertion { shift } => {
            ("exact LRU with an insertion point", Box::new(LruInsertion::new(capacity, shift)))
        }
        PolicyKind::TwoQ { hot_percent, cold_percent } => {
            ("plain 2Q", Box::new(TwoQ::new(capacity, hot_percent, cold_percent)))
        }
        PolicyKind::TinyLfu { window_percent } => {
            ("plain TinyLFU", Box::new(TinyLfu::new(capacity, window_percent)))
        }
        PolicyKind::WTinyLfu { window_percent } => {
            ("plain W-TinyLFU", Box::new(TinyLfu::segmented(capacity, window_percent)))
        }
        PolicyKind::S3Fifo { small_percent } => {
            ("plain S3-FIFO", Box::new(S3Fifo::with_small_percent(capacity, small_percent)))
        }
        PolicyKind::Sieve => ("plain SIEVE", Box::new(Sieve::new(capacity))),
        PolicyKind::Arc => ("plain ARC", Box::new(Arc::new(capacity))),
    }
}

/// The number by which the simulators know a key: a number is itself, a text its 64-bit hash (for a
/// million texts, the chance that any two share one is below 10^-7).
pub fn key_id(key: TraceKey<'_>) -> u64 {
    match key {
        TraceKey::Number(number) => number,
        TraceKey::Text(text) => base::hash::key_hash(0, text),
        TraceKey::Piece(object, piece) => base::hash::key_hash(piece.wrapping_add(1), object),
    }
}

/// A hash map from key numbers; the keys come from a file, not from an adversary.
pub(crate) type KeyMap<V> = std::collections::HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// Spreads a 64-bit key by a bijection.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = base::hash::key_hash(self.0, bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = base::hash::mix64(key);
    }
}
