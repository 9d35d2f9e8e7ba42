//! The resizer: how many slabs pools over their limit give back in one run.

use base::ByteSize;
use slab::SLAB_BYTES;

/// What a pool has and may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// The pool's number.
    pub number: u16,
    /// Its slabs.
    pub slabs: u64,
    /// Its limit, in bytes; only whole slabs count. `None` = no limit.
    pub limit_bytes: Option<u64>,
}

/// Slabs that a pool should give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// The pool.
    pub pool: u16,
    /// How many, in this run.
    pub slabs: u64,
    /// Why, for people.
    pub reason: String,
}

/// What each pool over its limit gives back in one run: what it has too much, at most `most_slabs` (CacheLib: 5), so that
/// a run stays short. Which class gives them, [`super::Rebalancer::victim_for_resizing`] says.
pub fn resize(pools: &[PoolSize], most_slabs: u64) -> Vec<Shrink> {
    let shrink = |pool: &PoolSize| {
        let limit = pool.limit_bytes? / SLAB_BYTES as u64;
        let over = pool.slabs.checked_sub(limit).filter(|over| *over > 0)?;
        let bytes = ByteSize::new(over.saturating_mul(SLAB_BYTES as u64));
        Some(Shrink {
            pool: pool.number,
            slabs: over.min(most_slabs),
            reason: format!("pool {} is {bytes} over its limit", pool.number),
        })
    };
    pools.iter().filter_map(shrink).filter(|shrink| shrink.slabs > 0).collect()
}
