//! The pools of a cache for somebody else who decides: an orchestrator of several caches.

use std::sync::Arc;
use std::time::Duration;

use curve::MissRatioCurve;
use memory::{Cache, Error, PoolId};

use super::{Controller, Glance, Last, forget};

/// A pool as a [`Controller`] sees it.
#[derive(Clone, Debug)]
pub struct PoolSurvey {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// The slabs that it has, in bytes.
    pub slab_bytes: u64,
    /// Its grant, in bytes of slabs; `None`: there is none.
    pub granted_bytes: Option<u64>,
    /// The least and the most that it may have, in bytes of slabs.
    pub least_bytes: u64,
    /// In bytes of slabs; `None`: any.
    pub most_bytes: Option<u64>,
    /// Its share relative to that of other pools.
    pub weight: f64,
    /// Reads and misses since the cache was created.
    pub reads: u64,
    /// Misses since the cache was created.
    pub misses: u64,
    /// Requests per second that it is promised; 0 = none.
    pub promised_per_sec: f64,
    /// Misses per second that its backend carries, as configured or as it had lately.
    pub backend_per_sec: f64,
    /// The mean cost of a miss, as configured or learnt.
    pub miss_cost: Option<Duration>,
    /// Its curve by bytes of slabs, for the policy in use; `None`: it is not known yet.
    pub curve: Option<Arc<MissRatioCurve>>,
    /// Reads that the curve was learnt from.
    pub curve_samples: f64,
}

impl Controller {
    /// Looks at the pools, and decides nothing. To be called by one thread, about as often as
    /// [`Self::round`] would be, and not beside that.
    ///
    /// # Errors
    /// [`memory::ErrorKind::Config`] if the settings of curves are refused.
    pub fn survey(&mut self, cache: &Cache) -> Result<Vec<PoolSurvey>, Error> {
        let Glance { now, pools, mut seen, .. } = self.glance(cache)?;
        self.last_nanos = Some(now);
        for (pool, seen) in pools.iter().zip(&mut seen) {
            forget(cache, pool, seen, (None, self.last.get(&pool.id)))?;
        }
        let last = pools.iter().zip(&seen).map(|(pool, seen)| (pool.id, Last::of(pool, seen, None)));
        self.last = last.collect();
        let surveyed = pools.iter().zip(seen).map(|(pool, seen)| {
            let (reads, misses) = seen.counts.reads_and_misses();
            PoolSurvey {
                id: pool.id,
                name: pool.name.clone(),
                slab_bytes: pool.slab_bytes,
                granted_bytes: pool.granted_bytes,
                least_bytes: seen.pool.floor,
                most_bytes: pool.limit_bytes,
                weight: seen.pool.weight,
                reads,
                misses,
                promised_per_sec: seen.pool.min_request_rate,
                backend_per_sec: seen.backend_per_sec,
                miss_cost: seen.miss_cost,
                curve_samples: seen.samples(),
                curve: seen.known_curve(),
            }
        });
        Ok(surveyed.collect())
    }
}
