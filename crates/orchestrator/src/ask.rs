//! Answers to people: the misses of a pool with other memory.

use serde::Serialize;

use crate::decide;
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

/// A pool's curve, with what it has and misses now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolCurve {
    /// The grant, in bytes.
    pub granted_bytes: u64,
    /// The memory that the pool uses, in bytes.
    pub used_bytes: u64,
    /// Reads per second.
    pub reads_per_sec: f64,
    /// The miss ratio since the last round, if there were reads enough.
    pub miss_ratio: Option<f64>,
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
    pub fn curve(&self, pool: &str) -> Option<PoolCurve> {
        let pool = self.pool(pool)?;
        let curve = pool.curve.as_ref().filter(|_| pool.is_known())?;
        Some(PoolCurve {
            granted_bytes: pool.granted.unwrap_or_else(|| pool.used()),
            used_bytes: pool.used(),
            reads_per_sec: pool.reads_per_sec,
            miss_ratio: pool.missed,
            points: curve.points().iter().map(|point| (point.size, point.miss_ratio)).collect(),
        })
    }

    fn pool(&self, name: &str) -> Option<&PoolState> {
        let all = self.members.iter().flat_map(|(key, member)| {
            member.pools.values().map(move |pool| (decide::name(&key.name, &pool.report.name), pool))
        });
        all.into_iter().find(|(of, _)| of == name).map(|(_, pool)| pool)
    }
}
