//! The resizer: the memory that pools over their limit give back in one run.

use base::ByteSize;

/// The size and the limit of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// The pool's number.
    pub number: u16,
    /// Its memory, in bytes.
    pub bytes: u64,
    /// Its limit, in bytes. `None` = no limit.
    pub limit_bytes: Option<u64>,
}

/// Memory that a pool should give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// The pool.
    pub pool: u16,
    /// The bytes to give back in this run.
    pub bytes: u64,
    /// The reason, for people.
    pub reason: String,
}

/// The memory that each pool over its limit gives back in one run: its excess, but at most
/// `most_bytes` (CacheLib: five slabs), so that a run stays short.
/// [`super::Rebalancer::victim_for_resizing`] chooses the classes that give it.
pub fn resize(pools: &[PoolSize], most_bytes: u64) -> Vec<Shrink> {
    let shrink = |pool: &PoolSize| {
        let over = pool.bytes.checked_sub(pool.limit_bytes?).filter(|over| *over > 0)?;
        Some(Shrink {
            pool: pool.number,
            bytes: over.min(most_bytes),
            reason: format!("pool {} is {} over its limit", pool.number, ByteSize::new(over)),
        })
    };
    pools.iter().filter_map(shrink).filter(|shrink| shrink.bytes > 0).collect()
}
