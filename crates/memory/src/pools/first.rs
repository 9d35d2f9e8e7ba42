//! The pool that was added first.

use std::sync::atomic::{AtomicU64, Ordering};

use super::PoolId;

/// The key space of the pool that was added first, in a word that is 0 before: generation and
/// number of the pool, and the key space.
#[derive(Default)]
pub(crate) struct FirstKeys(AtomicU64);

impl FirstKeys {
    /// Notes a pool that is being added, which nobody else does meanwhile. The first one stays.
    pub(crate) fn note(&self, PoolId(number, life): PoolId, keyspace: u16) {
        if self.0.load(Ordering::Relaxed) == 0 {
            let word = u64::from(life) << 32 | u64::from(number) << 16 | u64::from(keyspace);
            self.0.store(word, Ordering::Release);
        }
    }

    /// The key space, and the pool with which it ends, if it is that pool's own.
    #[inline]
    pub(crate) fn get(&self) -> (Option<PoolId>, u16) {
        let word = self.0.load(Ordering::Acquire);
        let keyspace = word as u16;
        ((keyspace != 0).then_some(PoolId((word >> 16) as u16, (word >> 32) as u32)), keyspace)
    }
}
