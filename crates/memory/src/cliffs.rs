//! Splits of the queues of pools, as set by a caller or by the pools' live curves: see
//! [`crate::split`].

use evict::PolicyKind;
use evict::split::Split;
use rebalance::cliff::CliffView;

use crate::cache::Cache;
use crate::error::{Error, ErrorKind};
use crate::pools::PoolId;
use crate::watch::CurveConfig;

/// The curves of all pools that have none take at most one byte in this many of the memory
/// together, but for [`LEAST_KEYS`] of each.
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
    /// No item is lost: those of the wrong partition stay until they are evicted, or until an
    /// eviction meets them and they were hit; without a split, some of the left partition move with
    /// each eviction. Costs the same whatever the pool holds. A split that was set ends as the pool
    /// gets another policy.
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
        let mut split = 0;
        let mut due: Vec<PoolId> = Vec::new();
        for pool in self.core().pools.all().iter() {
            let is_split = pool.policy() == PolicyKind::LruSplit;
            split += u64::from(is_split);
            if is_split && pool.splits.take_due(now) {
                due.push(pool.id());
            } else if !is_split && pool.splits.take_begun() {
                // A pool that was removed meanwhile has no curve.
                let _ = self.set_curve(pool.id(), None);
            }
        }
        for pool in due {
            // A pool that was removed meanwhile needs no split, and without memory for a curve
            // there is none.
            let _ = self.scale_cliffs_of(pool, now, split);
        }
    }

    /// Splits the queues of one of `split` pools by its curve, or begins to learn that.
    fn scale_cliffs_of(&self, id: PoolId, now_secs: u32, split: u64) -> Result<(), Error> {
        let Some(learnt) = self.curve(id)? else {
            // Whoever has ended a curve that was begun here wants none.
            if !self.core().pool(id)?.splits.begin_curve() {
                return Ok(());
            }
            let room = self.core().ledger.limit() / CURVE_PART / split.max(1);
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
        let (samples, error) =
            curve.confidence().map_or((0.0, 0.0), |known| (known.samples, known.standard_error()));
        let view = CliffView { curve, samples, error, bytes, items, reads, misses, now_secs };
        pool.splits.choose(&view);
        Ok(())
    }
}
