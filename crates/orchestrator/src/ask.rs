//! Answers to people: the misses of a pool with other memory.

use std::sync::Arc;

use serde::Serialize;

use crate::Nanos;
use crate::fleet::Fleet;
use crate::member::PoolState;

/// The predicted outcome of another grant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The grant now, in bytes.
    pub granted_bytes: u64,
    /// The other grant, in bytes.
    pub bytes: u64,
    /// The miss ratio that is predicted with the grant.
    pub miss_ratio: f64,
    /// The miss ratio that is predicted with the other one.
    pub would_miss: f64,
    /// The misses per second that the other one saves; negative if it adds some.
    pub saved_misses_per_sec: f64,
}

/// A miss ratio that is this close to the least on a curve is as good as that.
const LEAST_GAIN: f64 = 0.01;

/// A pool's curve, with what it has and misses now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolCurve {
    /// The pool, as it is named in decisions.
    pub name: Arc<str>,
    /// The grant, in bytes.
    pub granted_bytes: u64,
    /// The memory that the pool uses, in bytes.
    pub used_bytes: u64,
    /// Reads per second.
    pub reads_per_sec: f64,
    /// The miss ratio since the last round, if there were reads enough.
    pub miss_ratio: Option<f64>,
    /// The mean cost of a miss, in seconds, if it is known.
    pub miss_cost_secs: Option<f64>,
    /// The least that it may be granted, in bytes.
    pub floor_bytes: u64,
    /// Reads that the curve was learnt from.
    pub samples: f64,
    /// A bound on its mean error, in misses per read; `None` if it is not known.
    pub error: Option<f64>,
    /// The time since the agent told it: it tells one that differs.
    pub age_secs: f64,
    /// The memory beyond which the pool would save less than 1 % of its reads.
    pub working_set_bytes: u64,
    /// Sizes in bytes, with the miss ratio at each.
    pub points: Vec<(u64, f64)>,
}

impl Fleet {
    /// The outcome of another grant for a pool, which is named as in decisions. `None`: there is no
    /// such pool, or its curve is not known.
    pub fn what_if(&self, pool: &str, bytes: u64) -> Option<WhatIf> {
        let pool = self.pool(pool)?;
        let granted_bytes = pool.granted.unwrap_or_else(|| pool.used());
        let (now, then) = (pool.would_miss(granted_bytes)?, pool.would_miss(bytes)?);
        let saved_misses_per_sec = pool.reads_per_sec * (now - then);
        Some(WhatIf { granted_bytes, bytes, miss_ratio: now, would_miss: then, saved_misses_per_sec })
    }

    /// The curve of a pool, which is named as in decisions. `None`: there is no such pool, or its
    /// curve is not known.
    pub fn curve(&self, pool: &str, now: Nanos) -> Option<PoolCurve> {
        curve_of(self.pool(pool)?, usize::MAX, now)
    }

    /// The curves of all pools that are known, each with at most this many points.
    pub fn curves(&self, points: usize, now: Nanos) -> impl Iterator<Item = PoolCurve> {
        self.pools().filter_map(move |pool| curve_of(pool, points, now))
    }

    fn pool(&self, name: &str) -> Option<&PoolState> {
        self.pools().find(|pool| *pool.name == *name)
    }

    fn pools(&self) -> impl Iterator<Item = &PoolState> {
        self.members.values().flat_map(|member| member.pools.values())
    }
}

fn curve_of(pool: &PoolState, points: usize, now: Nanos) -> Option<PoolCurve> {
    let curve = pool.curve.as_ref().filter(|_| pool.is_known())?;
    let least = curve.miss_ratio(curve.max_size() as f64);
    let kept = curve.thinned(points);
    Some(PoolCurve {
        name: Arc::clone(&pool.name),
        granted_bytes: pool.granted.unwrap_or_else(|| pool.used()),
        used_bytes: pool.used(),
        reads_per_sec: pool.reads_per_sec,
        miss_ratio: pool.missed,
        miss_cost_secs: pool.miss_cost_secs(),
        floor_bytes: pool.floor(),
        samples: pool.samples,
        error: Some(pool.error).filter(|error| *error > 0.0),
        age_secs: now.saturating_sub(pool.curve_at) as f64 / 1e9,
        working_set_bytes: curve.size_for(least + LEAST_GAIN).unwrap_or(curve.max_size()),
        points: kept.points().iter().map(|point| (point.size, point.miss_ratio)).collect(),
    })
}
