//! A live cache as a policy sees it.

use std::collections::HashMap;

use allocate::{Grant, Outcome, Pool, View, partition};
use curve::{MissRatioCurve, Unit};
use memory::watch::PoolCurve;
use memory::{ByteSize, Cache, Error, ErrorKind, PoolId, PoolStats};

use super::{Controller, Last};

/// Reads since the last round below which a pool's miss ratio is not told.
const LEAST_READS: u64 = 100;
/// Reads that a curve is learnt from before it counts.
const LEAST_SAMPLES: u64 = 100;
/// A pool with fewer than one read in this many of all may lose memory without a curve.
const FEW_READS: u64 = 100;

/// A pool as the policy sees it, and what was read of it since the last round.
pub(super) struct Seen {
    /// In bytes of slabs, with the size as it is.
    pub(super) pool: Pool,
    /// The miss ratio, if there were reads enough.
    pub(super) missed: Option<f64>,
    reads: u64,
    /// True if the curve was learnt from reads enough.
    is_known: bool,
}

impl Seen {
    /// The miss ratio that the pool will have with this memory: what it missed lately, and the
    /// difference that its curve sees between then and that. The curve alone also counts what was
    /// missed while the pool filled. `slab_bytes_before` is what the pool had at the last round.
    pub(super) fn expected(&self, slab_bytes_before: Option<u64>, granted: u64) -> Option<f64> {
        if !self.is_known {
            return None;
        }
        let at = |memory| Outcome::of(&self.pool, &Grant { memory, resources: Vec::new() }).miss_ratio;
        let Some(missed) = self.missed else { return Some(at(granted)) };
        let had = (at(slab_bytes_before.unwrap_or(self.pool.used)) + at(self.pool.used)) / 2.0;
        Some((missed + at(granted) - had).clamp(0.0, 1.0))
    }
}

impl Controller {
    /// The pools as they are now.
    pub(super) fn look(&self, cache: &Cache, pools: &[PoolStats], secs: f64) -> Result<Vec<Seen>, Error> {
        pools.iter().map(|pool| self.look_at(cache, pool, secs)).collect()
    }

    fn look_at(&self, cache: &Cache, pool: &PoolStats, secs: f64) -> Result<Seen, Error> {
        let (reads, misses) = reads_since(&self.last, pool);
        let learnt = self.curve(cache, pool.id)?;
        let is_known = learnt.as_ref().is_some_and(|learnt| learnt.samples >= LEAST_SAMPLES);
        let curve = match &learnt {
            Some(learnt) => in_slabs(learnt, pool.slab_bytes),
            None => MissRatioCurve::uniform(Unit::Bytes, 1),
        };
        let mut seen = Pool::new(pool.name.clone(), curve, pool.granted_bytes.unwrap_or(pool.slab_bytes));
        seen.used = pool.slab_bytes;
        seen.floor = pool.reserve_bytes;
        seen.ceiling = pool.limit_bytes.unwrap_or(u64::MAX).max(seen.floor);
        seen.weight = f64::from(pool.weight.max(1));
        seen.request_rate = if secs > 0.0 { reads as f64 / secs } else { 0.0 };
        let missed = (reads >= LEAST_READS).then(|| misses as f64 / reads as f64);
        Ok(Seen { pool: seen, missed, reads, is_known })
    }

    /// The curve of a pool, which is learnt from now on if the settings say so. `None`: it is not
    /// learnt.
    fn curve(&self, cache: &Cache, pool: PoolId) -> Result<Option<PoolCurve>, Error> {
        let learnt = cache.curve(pool)?;
        if learnt.is_none() && self.curves.is_some() {
            match cache.set_curve(pool, self.curves) {
                // There is no memory to learn from: the pool keeps what it has.
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {}
                begun => begun?,
            }
        }
        Ok(learnt)
    }
}

/// Reads of a pool since the last round, and misses of them.
fn reads_since(last: &HashMap<PoolId, Last>, pool: &PoolStats) -> (u64, u64) {
    let Some(last) = last.get(&pool.id) else { return (0, 0) };
    let hits = pool.sum(|class| class.hits).saturating_sub(last.hits);
    let misses = pool.misses.saturating_sub(last.misses);
    (hits + misses, misses)
}

/// The input of the policy, and what cannot be had, in words. Pools whose curve is not known keep
/// what they have, unless they are hardly read.
pub(super) fn view(seen: &[Seen], memory: u64, secs: f64, least_share: f64) -> (View, Vec<String>) {
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
            "the reserves add up to {}, and {} are left beside index, queues and connections: each counts in part; lower \
             one, or give the cache more memory",
            ByteSize::new(floors),
            ByteSize::new(memory)
        ));
    }
    let sizes = present(&view, least_share);
    view.pools.iter_mut().zip(sizes).for_each(|(pool, size)| pool.size = size);
    let all: u64 = seen.iter().map(|seen| seen.reads).sum();
    for (pool, seen) in view.pools.iter_mut().zip(seen) {
        if !seen.is_known && seen.reads * FEW_READS > all {
            (pool.floor, pool.ceiling) = (pool.size, pool.size);
        }
    }
    (view, unmet)
}

/// The present sizes, fitted to the memory and the bounds: those of the view, and the least share
/// that the rails leave to each pool, so that a pool that has just come is no reason to move all at
/// once.
fn present(view: &View, least_share: f64) -> Vec<u64> {
    let least = (least_share * view.mean_share()) as u64;
    let mut raised = view.clone();
    raised.pools.iter_mut().for_each(|pool| pool.floor = pool.floor.max(least.min(pool.ceiling)));
    partition::present(if raised.validate().is_ok() { &raised } else { view })
}

/// The curve by bytes of slabs, of which the pool has `slab_bytes`.
fn in_slabs(learnt: &PoolCurve, slab_bytes: u64) -> MissRatioCurve {
    let chunk_bytes = learnt.memory_bytes as f64 / learnt.memory_per_byte;
    let per_byte = if chunk_bytes > 0.0 { (slab_bytes as f64 / chunk_bytes).max(1.0) } else { 1.0 };
    learnt.curve.scaled(Unit::Bytes, per_byte)
}
