//! Names of pools.

/// Most pools of a cache.
pub(crate) const MAX_POOLS: usize = 4096;

/// Names a pool of the cache that made it: its number, and what tells it from pools that had the
/// number before. No other pool ever has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub(crate) u16, pub(crate) u32);

impl PoolId {
    /// The pool's number: the lowest that was free when it was added.
    pub fn number(self) -> u16 {
        self.0
    }
}
