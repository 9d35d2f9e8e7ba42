//! Splits of the queues of pools, as set by a caller or by the pools' live curves: see
//! [`crate::split`].

use evict::PolicyKind;
use evict::split::Split;
use rebalance::cliff::CliffView;

use crate::cache::Cache;
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::watch::CurveConfig;

/// The curve of a pool that has none takes at most one byte in this many of the memory.
const CURVE_PART: u64 = 64;
/// About what a curve takes, and each key that it follows, in bytes.
const CURVE_BYTES: u64 = 170 << 10;
const CURVE_KEY_BYTES: u64 = 60;
const LEAST_KEYS: usize = 64;
/// The largest share of keys that is followed for it. More than for a curve that is only read: the
/// upper end of a cliff has to be known within a few percent, also in a pool of 10,000 items.
const CURVE_RATE: f64 = 1.0 / 16.0;

impl Cache {
    /// Has the queues of a pool with the policy `lru+split` be split so, while serving, until this
    /// is called again. `None`: by the pool's live curve, as at the start ([`Self::maintain`]).
    ///
    /// No item moves or is lost: those of the wrong partition stay until they are evicted, or until
    /// an eviction meets them and they were hit. Costs the same whatever the pool holds.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`]; [`ErrorKind::Config`] if the pool has another policy, or a share
    /// is not from 0 to 1.
    pub fn set_pool_split(&self, pool: PoolId, split: Option<Split>) -> Result<(), Error> {
        let pool = self.core().pool(pool)?;
        let (name, policy) = (&pool.name, pool.policy());
        if policy != PolicyKind::LruSplit {
            let context = format!(
                "pool `{name}` has policy {policy}, whose queues are not split: give it {}",
                PolicyKind::LruSplit
            );
            return Err(Error::new(ErrorKind::Config, context));
        }
        if let Some(split) = split.filter(|split| !split.is_valid()) {
            let context = format!("a split of pool `{name}` by {split:?}: give shares from 0 to 1");
            return Err(Error::new(ErrorKind::Config, context));
        }
        pool.splits.set(split);
        Ok(())
    }

    /// Splits the queues of pools by their curves, where a look is due.
    pub(crate) fn scale_cliffs(&self) {
        let now = self.core().now();
        let is_due = |pool: &&Pool| pool.policy() == PolicyKind::LruSplit && pool.splits.take_due(now);
        let due: Vec<PoolId> = self.core().pools.all().iter().filter(is_due).map(|pool| pool.id()).collect();
        for pool in due {
            // A pool that was removed meanwhile needs no split, and without memory for a curve
            // there is none.
            let _ = self.scale_cliffs_of(pool, now);
        }
    }

    fn scale_cliffs_of(&self, id: PoolId, now_secs: u32) -> Result<(), Error> {
        let Some(learnt) = self.curve(id)? else {
            let room = self.core().ledger.limit() / CURVE_PART;
            let keys = (room.saturating_sub(CURVE_BYTES) / CURVE_KEY_BYTES) as usize;
            let wanted = CurveConfig::default();
            let keys = keys.clamp(LEAST_KEYS, wanted.keys);
            return self.set_curve(id, Some(CurveConfig { keys, rate: CURVE_RATE, ..wanted }));
        };
        let core = self.core();
        let pool = core.pool(id)?;
        let (reads, misses) = core.reads_and_misses_of(&pool);
        let (items, bytes) = pool.used_classes().fold((0, 0), |(items, bytes), (_, class)| {
            let of_class = class.items() + class.links();
            (items + of_class, bytes + of_class * u64::from(class.info.chunk_bytes))
        });
        let curve = &learnt.curve;
        let samples = learnt.samples;
        let view = CliffView { curve, samples, bytes, items, reads, misses, now_secs };
        pool.splits.choose(&view);
        Ok(())
    }
}
