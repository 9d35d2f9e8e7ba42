//! Answers to people: the misses of a pool with other memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use curve::MissRatioCurve;
use serde::Serialize;

use crate::Nanos;
use crate::fleet::Fleet;
use crate::member::{Member, PoolState};

/// The name of a pool in decisions, and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolName<'a> {
    /// The node; `None` asks for the pool of this name on whichever node has one.
    pub node: Option<&'a str>,
    /// The name, as `instance/pool`.
    pub pool: &'a str,
}

/// The reason why a question about a pool has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No pool has the name.
    #[error("There is no pool {0:?}.")]
    Unknown(String),
    /// Too few reads of the pool were seen.
    #[error("The curve of pool {0:?} is not known yet.")]
    NotLearnt(String),
    /// Pools of several nodes have the name, and the question names no node.
    #[error("The name {pool:?} is ambiguous: nodes {} have such a pool. Name one as node.", nodes.join(", "))]
    Ambiguous {
        /// The name.
        pool: String,
        /// The nodes.
        nodes: Vec<String>,
    },
}

/// The predicted outcome of another grant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The node of the pool.
    pub node: String,
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
    /// A bound on the mean error of the curve, in misses per read; `None` if it is not known.
    pub error: Option<f64>,
    /// The most memory that a read so far needed, in bytes: with more, the pool misses as much at
    /// most.
    pub known_bytes: u64,
}

/// A miss ratio that is this close to the least on a curve is as good as that.
const LEAST_GAIN: f64 = 0.01;

/// A pool's curve, with what it has and misses now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolCurve {
    /// The node.
    pub node: String,
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

/// A pool's curve as it was told, with what the pool has and misses now: taken under the lock of
/// the fleet, so that the work of drawing it is done after.
#[derive(Clone, Debug)]
pub struct Learnt {
    shown: PoolCurve,
    curve: Arc<MissRatioCurve>,
}

impl Learnt {
    fn of(node: &str, pool: &PoolState, now: Nanos) -> Option<Self> {
        let curve = Arc::clone(pool.curve.as_ref().filter(|_| pool.is_known())?);
        let shown = PoolCurve {
            node: node.to_owned(),
            name: Arc::clone(&pool.decided_name),
            granted_bytes: pool.granted.unwrap_or_else(|| pool.used()),
            used_bytes: pool.used(),
            reads_per_sec: pool.reads_per_sec,
            miss_ratio: pool.missed,
            miss_cost_secs: pool.miss_cost_secs(),
            floor_bytes: pool.floor(),
            samples: pool.samples,
            error: pool.error(),
            age_secs: now.saturating_sub(pool.curve_at) as f64 / 1e9,
            working_set_bytes: 0,
            points: Vec::new(),
        };
        Some(Self { shown, curve })
    }

    /// Returns the curve with at most this many points.
    pub fn drawn(self, most: usize) -> PoolCurve {
        let Self { shown, curve } = self;
        let least = curve.miss_ratio(curve.max_size() as f64);
        let kept = curve.thinned(most);
        PoolCurve {
            working_set_bytes: curve.size_for(least + LEAST_GAIN).unwrap_or(curve.max_size()),
            points: kept.points().iter().map(|point| (point.size, point.miss_ratio)).collect(),
            ..shown
        }
    }
}

/// A pool with the order in which pools of one name are asked: an instance that has ended may still
/// be known beside the one that follows it.
struct Candidate<'a> {
    pool: &'a PoolState,
    is_leased: bool,
    reported_at: Option<Nanos>,
}

impl<'a> Candidate<'a> {
    fn of(member: &Member, pool: &'a PoolState, now: Nanos) -> Self {
        Self { pool, is_leased: member.is_leased(now), reported_at: member.reported_at }
    }

    fn is_before(&self, other: &Self) -> bool {
        (self.is_leased, self.reported_at) > (other.is_leased, other.reported_at)
    }
}

/// Keeps the candidate that is asked.
fn keep<'a, K: Ord>(all: &mut BTreeMap<K, Candidate<'a>>, place: K, candidate: Candidate<'a>) {
    match all.entry(place) {
        Entry::Vacant(entry) => {
            entry.insert(candidate);
        }
        Entry::Occupied(mut entry) if candidate.is_before(entry.get()) => {
            entry.insert(candidate);
        }
        Entry::Occupied(_) => {}
    }
}

impl Fleet {
    /// Returns the outcome of another grant for a pool.
    ///
    /// # Errors
    /// [`Unanswered`] if no single pool has the name, or its curve is not known.
    pub fn what_if(&self, asked: PoolName<'_>, bytes: u64, now: Nanos) -> Result<WhatIf, Unanswered> {
        let (node, pool) = self.pool(asked, now)?;
        let granted_bytes = pool.granted.unwrap_or_else(|| pool.used());
        let misses = pool.would_miss(granted_bytes).zip(pool.would_miss(bytes));
        let (miss_ratio, would_miss) = misses.ok_or_else(|| Unanswered::NotLearnt(asked.pool.to_owned()))?;
        let saved_misses_per_sec = pool.reads_per_sec * (miss_ratio - would_miss);
        Ok(WhatIf {
            node: node.to_owned(),
            granted_bytes,
            bytes,
            miss_ratio,
            would_miss,
            saved_misses_per_sec,
            error: pool.error(),
            known_bytes: pool.curve.as_ref().map_or(0, |curve| curve.max_size()),
        })
    }

    /// Returns the curve of a pool.
    ///
    /// # Errors
    /// [`Unanswered`] if no single pool has the name, or its curve is not known.
    pub fn curve(&self, asked: PoolName<'_>, now: Nanos) -> Result<Learnt, Unanswered> {
        let (node, pool) = self.pool(asked, now)?;
        Learnt::of(node, pool, now).ok_or_else(|| Unanswered::NotLearnt(asked.pool.to_owned()))
    }

    /// Returns the curves of all pools that are known, in the order of nodes and names.
    pub fn curves(&self, now: Nanos) -> Vec<Learnt> {
        let mut all = BTreeMap::new();
        for member in self.members.values() {
            for pool in member.pools.values() {
                let place = (member.instance.node.as_str(), &*pool.decided_name);
                keep(&mut all, place, Candidate::of(member, pool, now));
            }
        }
        all.iter().filter_map(|((node, _), found)| Learnt::of(node, found.pool, now)).collect()
    }

    /// Returns a pool and its node. An instance that does not answer counts only if none of the
    /// name does.
    fn pool<'a>(&'a self, asked: PoolName<'_>, now: Nanos) -> Result<(&'a str, &'a PoolState), Unanswered> {
        let mut found = BTreeMap::new();
        for member in self.members.values() {
            let node = member.instance.node.as_str();
            if asked.node.is_some_and(|wanted| wanted != node) {
                continue;
            }
            for pool in member.pools.values().filter(|pool| *pool.decided_name == *asked.pool) {
                keep(&mut found, node, Candidate::of(member, pool, now));
            }
        }
        if found.values().any(|candidate| candidate.is_leased) {
            found.retain(|_, candidate| candidate.is_leased);
        }
        let mut each = found.iter();
        match (each.next(), each.next()) {
            (None, _) => Err(Unanswered::Unknown(asked.pool.to_owned())),
            (Some((node, candidate)), None) => Ok((node, candidate.pool)),
            _ => {
                let nodes = found.into_keys().map(str::to_owned).collect();
                Err(Unanswered::Ambiguous { pool: asked.pool.to_owned(), nodes })
            }
        }
    }
}
