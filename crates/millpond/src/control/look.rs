//! A live cache as a policy sees it.

use std::sync::Arc;
use std::time::Duration;

use allocate::drift::Drift;
use allocate::guard::Rails;
use allocate::measured::Measured;
use allocate::{Grant, Outcome, Pool, View, demand, partition};
use curve::{MissRatioCurve, Unit};
use memory::watch::{CurveConfig, PoolCurve};
use memory::{ByteSize, Cache, Error, ErrorKind, PoolId, PoolStats};

use super::{Controller, absent};

/// Reads since the last round below which a pool's miss ratio is not told.
const LEAST_READS: u64 = 100;
/// Reads that a curve is learnt from before it counts.
const LEAST_SAMPLES: u64 = 100;
/// The curves that a controller begins to learn take at most one byte in this many of the memory.
pub(super) const CURVES_PART: u64 = 32;
/// Pools without a curve that are named.
const NAMED: usize = 8;
/// Misses from which a cost is learnt before it counts.
const LEAST_MISSES: u64 = 100;
/// A pool of which nothing is known has at least one byte in this many of its share, and then up to
/// twice what it has filled.
const BEGIN_PART: u64 = 16;
/// The fewest keys that a curve is learnt from.
const LEAST_KEYS: usize = 64;

/// A pool as the policy sees it, and what was read of it since the last round.
pub(super) struct Seen {
    /// In bytes of slabs, with the size as it is, and its rate by [`demand`].
    pub(super) pool: Pool,
    /// Reads per second since the last round.
    pub(super) reads_per_sec: f64,
    /// Their mean over the last minutes, once a rate is known.
    pub(super) mean_rate: Option<f64>,
    /// Its reads and misses lately.
    pub(super) measured: Measured,
    /// The curve as it was compared last, and true if it shows that the load has become another.
    pub(super) drift: Drift,
    pub(super) has_changed: bool,
    /// The counts now.
    pub(super) counts: Counts,
    /// The misses per second that its backend carries: as configured, or the most that it carried
    /// lately.
    pub(super) backend_per_sec: f64,
    /// The mean cost of a miss, if it is known.
    pub(super) miss_cost: Option<Duration>,
    /// The miss ratio, if there were reads enough and the misses are known.
    pub(super) missed: Option<f64>,
    /// Reads since the last round.
    pub(super) reads: u64,
    /// True if there is a curve, though it may not be learnt from reads enough yet.
    is_learnt: bool,
    /// True if the curve was learnt from reads enough.
    is_known: bool,
    /// Reads that it was learnt from.
    samples: u64,
}

/// The reads of a pool so far.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    hits: u64,
    misses: u64,
}

impl Counts {
    fn of(pool: &PoolStats) -> Self {
        let misses = if pool.has_own_keys {
            pool.misses
        } else {
            // In a key space that pools share, misses are nobody's: what is inserted anew was
            // missed by whoever stores what it does not find.
            pool.sum(|class| class.inserts).saturating_sub(pool.sum(|class| class.replaced))
        };
        Self { hits: pool.sum(|class| class.hits), misses }
    }

    /// Reads and misses so far.
    pub(super) fn reads_and_misses(self) -> (u64, u64) {
        (self.hits.saturating_add(self.misses), self.misses)
    }

    /// Reads since then, and misses of them.
    fn since(self, then: Self) -> (u64, u64) {
        let misses = self.misses.saturating_sub(then.misses);
        (self.hits.saturating_sub(then.hits) + misses, misses)
    }
}

impl Seen {
    /// Reads that the curve was learnt from.
    pub(super) fn samples(&self) -> f64 {
        self.samples as f64
    }

    /// The curve, if it was learnt from reads enough.
    pub(super) fn known_curve(&self) -> Option<Arc<MissRatioCurve>> {
        self.is_known.then(|| Arc::clone(&self.pool.curve))
    }

    /// The miss ratio that the pool will have with this memory: what it missed lately, and the
    /// difference that its curve sees between then and that. The curve alone also counts what was
    /// missed while the pool filled. `slab_bytes_before` is what the pool had at the last round.
    pub(super) fn expected(&self, slab_bytes_before: Option<u64>, granted: u64) -> Option<f64> {
        if !self.is_known {
            return None;
        }
        let at = |memory| Outcome::of(&self.pool, &Grant { memory, resources: Vec::new() }).miss_ratio;
        let Some(missed) = self.missed else { return Some(at(granted)) };
        let had = f64::midpoint(at(slab_bytes_before.unwrap_or(self.pool.used)), at(self.pool.used));
        Some((missed + at(granted) - had).clamp(0.0, 1.0))
    }
}

impl Controller {
    /// The pools as they are now.
    pub(super) fn look(&self, cache: &Cache, pools: &[PoolStats], secs: f64) -> Result<Vec<Seen>, Error> {
        let mut room = cache.ledger().limit() / CURVES_PART;
        // Half of it is for pools that come later.
        let of_each = room / 2 / pools.len().max(1) as u64;
        pools.iter().map(|pool| self.look_at(cache, pool, secs, (of_each, &mut room))).collect()
    }

    /// A pool as it is now; the last are the room for its curve, and for all that are yet to be
    /// learnt.
    fn look_at(
        &self,
        cache: &Cache,
        pool: &PoolStats,
        secs: f64,
        (of_each, room): (u64, &mut u64),
    ) -> Result<Seen, Error> {
        let wanted = self.curves.map(|config| (config, of_each));
        let learnt = curve(cache, pool.id, (wanted, room))?;
        let is_known = learnt.as_ref().is_some_and(|learnt| learnt.samples >= LEAST_SAMPLES);
        let counts = Counts::of(pool);
        let last = self.last.get(&pool.id);
        let (reads, misses) = last.map_or((0, 0), |last| counts.since(last.counts));
        let missed = (pool.has_own_keys && reads >= LEAST_READS).then(|| misses as f64 / reads as f64);
        let measured = self.measured(pool, secs, (reads, misses));
        let mut drift = last.map(|last| last.drift.clone()).unwrap_or_default();
        let changed = |learnt: &PoolCurve| {
            drift.changed(&learnt.curve, learnt.memory_bytes as f64 / learnt.memory_per_byte)
        };
        let has_changed = learnt.as_ref().is_some_and(changed);
        let curve = match &learnt {
            Some(learnt) if is_known => {
                let learnt = measured.correct(&in_slabs(learnt, pool.slab_bytes));
                // A pool whose queues are split is on no cliff.
                let is_split = pool.split.is_some_and(|split| split.split.keys > 0.0);
                if is_split { learnt.hull() } else { learnt }
            }
            // Nothing is known to be gained by more memory.
            _ => MissRatioCurve::uniform(Unit::Bytes, 1),
        };
        let mut seen = Pool::new(pool.name.clone(), curve, pool.granted_bytes.unwrap_or(pool.slab_bytes));
        seen.used = pool.slab_bytes;
        seen.floor = pool.reserve_bytes;
        seen.ceiling = pool.limit_bytes.unwrap_or(u64::MAX).max(seen.floor);
        seen.weight = f64::from(pool.weight);
        let reads_per_sec = if secs > 0.0 { reads as f64 / secs } else { 0.0 };
        let mean_rate = last.filter(|_| secs > 0.0).map(|last| {
            let former = last.mean_rate.unwrap_or(reads_per_sec);
            demand::mean_rate(former, reads_per_sec, secs)
        });
        seen.request_rate = reads_per_sec.max(mean_rate.unwrap_or(0.0));
        seen.min_request_rate = self.promises.get(&pool.name).copied().unwrap_or(0.0);
        let backend_per_sec = self.backends.get(&pool.name).copied().unwrap_or_else(|| {
            let now = if secs > 0.0 { misses as f64 / secs } else { 0.0 };
            demand::carried(last.map_or(0.0, |last| last.backend_per_sec), now, secs)
        });
        let cost_learnt = || {
            let cost = learnt.as_ref()?.miss_cost?;
            (cost.samples >= LEAST_MISSES).then_some(cost.mean)
        };
        let miss_cost = self.miss_costs.get(&pool.name).copied().or_else(cost_learnt);
        Ok(Seen {
            pool: seen,
            reads_per_sec,
            mean_rate,
            measured,
            drift,
            has_changed,
            counts,
            backend_per_sec,
            miss_cost,
            missed,
            reads,
            is_learnt: learnt.is_some(),
            is_known,
            samples: learnt.as_ref().map_or(0, |learnt| learnt.samples),
        })
    }

    /// The reads and misses of a pool lately, with these since the last round.
    fn measured(&self, pool: &PoolStats, secs: f64, counts: (u64, u64)) -> Measured {
        let Some(last) = self.last.get(&pool.id).filter(|_| pool.has_own_keys) else {
            return Measured::default();
        };
        last.measured.after(secs, counts, (last.slab_bytes, pool.slab_bytes))
    }
}

/// The curve of a pool, which is learnt from now on as wanted if there is `room` for it: from fewer
/// keys if it takes more than it should. `None`: it is not learnt.
fn curve(
    cache: &Cache,
    pool: PoolId,
    (wanted, room): (Option<(CurveConfig, u64)>, &mut u64),
) -> Result<Option<PoolCurve>, Error> {
    if let Some(learnt) = cache.curve(pool).or_else(absent)? {
        *room = room.saturating_sub(learnt.bytes as u64);
        return Ok(Some(learnt));
    }
    let (Some((wanted, of_each)), Ok(policy)) = (wanted, cache.pool_policy(pool)) else { return Ok(None) };
    let memory = cache.ledger().limit();
    let least = wanted.keys.min(LEAST_KEYS);
    let fitting = wanted.fitting(of_each, least, (memory, policy));
    let fitting = fitting.unwrap_or(CurveConfig { keys: least, ..wanted });
    let Some(left) = room.checked_sub(fitting.bytes(memory, policy)) else { return Ok(None) };
    *room = left;
    match cache.set_curve(pool, Some(fitting)) {
        Ok(()) => cache.curve(pool).or_else(absent),
        Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::NoSuchPool) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Has a pool's misses count by what one costs.
pub(super) fn weigh_by_cost(seen: &mut [Seen]) {
    let costs: Vec<(f64, Option<f64>)> = seen
        .iter()
        .map(|seen| {
            let misses = seen.missed.unwrap_or(1.0) * seen.reads as f64;
            (misses, seen.miss_cost.map(|cost| cost.as_secs_f64()))
        })
        .collect();
    for (seen, factor) in seen.iter_mut().zip(allocate::cost::factors(&costs)) {
        seen.pool.weight *= factor;
    }
}

/// The input of the policy, and what cannot be had, in words. If the policy goes by curves, pools
/// whose curve is not known, or not known yet, have their shares by weight.
pub(super) fn view(
    seen: &[Seen],
    memory: u64,
    secs: f64,
    (rails, goes_by_curves): (&Rails, bool),
) -> (View, Vec<String>) {
    let mut view = View {
        memory,
        pools: seen.iter().map(|seen| seen.pool.clone()).collect(),
        interval_secs: if secs > 0.0 { secs } else { 1.0 },
        ..View::default()
    };
    let mut unmet = Vec::new();
    let floors: u64 = view.pools.iter().map(|pool| pool.floor).fold(0, u64::saturating_add);
    if floors > memory {
        let part = memory as f64 / floors as f64;
        view.pools.iter_mut().for_each(|pool| pool.floor = (pool.floor as f64 * part) as u64);
        unmet.push(format!(
            "the reserves add up to {}, and {} are left beside index, queues and connections: grants count them in part; \
             lower one, or give the cache more memory",
            ByteSize::new(floors),
            ByteSize::new(memory)
        ));
    }
    if goes_by_curves {
        unmet.extend(pin_unknown(&mut view, seen));
    }
    let sizes = rails.present(&view);
    view.pools.iter_mut().zip(sizes).for_each(|(pool, size)| pool.size = size);
    (view, unmet)
}

/// Gives pools whose curve is not known their shares by weight, as far as they will soon fill them,
/// and no policy may change that. Returns of which none is learnt, in words.
fn pin_unknown(view: &mut View, seen: &[Seen]) -> Option<String> {
    if seen.iter().all(|seen| seen.is_known) {
        return None;
    }
    let weights: Vec<f64> = view.pools.iter().map(|pool| pool.weight).collect();
    let shares = partition::shares(view, &weights);
    for ((pool, share), _) in view.pools.iter_mut().zip(shares).zip(seen).filter(|(_, seen)| !seen.is_known) {
        let soon = pool.used.saturating_mul(2).max(share.memory / BEGIN_PART).max(pool.floor);
        let size = share.memory.min(soon);
        (pool.floor, pool.ceiling) = (size, size);
    }
    let without: Vec<&str> =
        seen.iter().filter(|seen| !seen.is_learnt).map(|seen| &*seen.pool.name).collect();
    (!without.is_empty()).then(|| {
        let (count, more) = (without.len(), if without.len() > NAMED { " …" } else { "" });
        let first = without[..count.min(NAMED)].join(", ");
        format!("no curves are learnt of {count} pools, which have their shares by weight: {first}{more}")
    })
}

/// The curve by bytes of slabs, of which the pool has `slab_bytes`.
fn in_slabs(learnt: &PoolCurve, slab_bytes: u64) -> MissRatioCurve {
    let chunk_bytes = learnt.memory_bytes as f64 / learnt.memory_per_byte;
    let per_byte = if chunk_bytes > 0.0 { (slab_bytes as f64 / chunk_bytes).max(1.0) } else { 1.0 };
    learnt.best().scaled(Unit::Bytes, per_byte)
}
