//! Key spaces with the pools that they end with, and that of the pool that was added first.

use std::sync::atomic::{AtomicU64, Ordering};

use super::PoolId;

/// A key space, and the pool with whose removal it becomes invalid.
///
/// It is one word, which the calls of a look-up pass in a register: the pool's generation and
/// number, and the key space. Generation 0, which no pool has, stands for no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope(u64);

impl Scope {
    /// The shared key space, for as long as the cache exists.
    const SHARED: Self = Self((u16::MAX as u64) << 16);

    pub(crate) fn new(keyspace: u16, PoolId(number, generation): PoolId) -> Self {
        debug_assert_ne!(generation, 0, "generations of pools begin with 1");
        Self(u64::from(generation) << 32 | u64::from(number) << 16 | u64::from(keyspace))
    }

    #[inline]
    pub(crate) fn keyspace(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub(crate) fn pool(self) -> Option<PoolId> {
        let generation = (self.0 >> 32) as u32;
        (generation != 0).then_some(PoolId((self.0 >> 16) as u16, generation))
    }
}

/// The scope of the keys of the pool that was added first; a word of 0 before.
#[derive(Default)]
pub(crate) struct FirstKeys(AtomicU64);

impl FirstKeys {
    /// Notes a pool that is being added, which nobody else does meanwhile. The first one stays.
    pub(crate) fn note(&self, pool: PoolId, keyspace: u16) {
        let scope = if keyspace == 0 { Scope::SHARED } else { Scope::new(keyspace, pool) };
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.store(scope.0, Ordering::Release);
        }
    }

    /// The key space, and the pool with which it ends, if it is that pool's own.
    #[inline]
    pub(crate) fn get(&self) -> Scope {
        Scope(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_keeps_what_it_is_made_of_and_the_first_pool_stays_the_first() {
        let pools = [PoolId(0, 1), PoolId(u16::MAX, u32::MAX), PoolId(7, 3)];
        for (keyspace, pool) in [0, 1, u16::MAX].into_iter().flat_map(|space| pools.map(|pool| (space, pool)))
        {
            let scope = Scope::new(keyspace, pool);
            assert_eq!((scope.keyspace(), scope.pool()), (keyspace, Some(pool)));
            let first = FirstKeys::default();
            assert_eq!((first.get().keyspace(), first.get().pool()), (0, None));
            first.note(pool, keyspace);
            first.note(PoolId(9, 9), 9);
            assert_eq!(first.get().keyspace(), keyspace);
            assert_eq!(first.get().pool(), (keyspace != 0).then_some(pool));
        }
    }
}
