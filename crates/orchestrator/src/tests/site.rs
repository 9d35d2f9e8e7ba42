//! A cache instance of the simulation, and the process of its agent.

use std::sync::{Arc, Mutex, PoisonError};

use agent::{Agent, Instance, InstanceError, Look};
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};

use crate::Nanos;

/// Limits with which instances start.
pub(super) const START: u64 = 8 << 20;
/// The least that they can have.
pub(super) const LEAST: u64 = 4 << 20;
/// Bytes per second by which what is used follows a limit, up and down.
const FILLS: f64 = 40e6;

/// A cache: fills what it may have, and frees what it may not have any more, in time.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) incarnation: u64,
    pub(super) outlives_agent: bool,
    pub(super) limit: u64,
    pub(super) used: f64,
    /// The most that it would fill.
    appetite: u64,
    /// Reads per second, and in all.
    rate: f64,
    reads: f64,
    misses: f64,
    at: Nanos,
}

impl Cache {
    pub(super) fn new(name: &str, node: &str, incarnation: u64, outlives_agent: bool, at: Nanos) -> Self {
        let number = u64::from(name.as_bytes()[name.len() - 1]);
        Self {
            name: name.to_owned(),
            node: node.to_owned(),
            incarnation,
            outlives_agent,
            limit: START,
            used: 0.0,
            appetite: (64 + 48 * (number % 5)) << 20,
            rate: 1_000.0 * (1 + number % 3) as f64,
            reads: 0.0,
            misses: 0.0,
            at,
        }
    }

    /// The memory that it can have at this moment.
    pub(super) fn has(&self) -> u64 {
        self.limit.max(self.used as u64)
    }

    pub(super) fn advance(&mut self, now: Nanos) {
        let secs = now.saturating_sub(self.at) as f64 / 1e9;
        self.at = now;
        let goal = self.limit.min(self.appetite) as f64;
        let most = FILLS * secs;
        self.used += (goal - self.used).clamp(-most, most);
        let missed = 1.0 - (self.used / self.appetite as f64).min(1.0);
        self.reads += self.rate * secs;
        self.misses += self.rate * secs * missed;
    }
}

/// The cache as its agent sees it.
#[derive(Clone, Debug)]
pub(super) struct Handle(pub(super) Arc<Mutex<Cache>>);

impl Instance for Handle {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let points = [(cache.appetite / 2, 0.5), (cache.appetite, 0.0)];
        let curve = v1::Curve { samples: 1e4, ..control::curve::write(points) };
        let used = amounts::of_memory(cache.used as u64);
        let pool = PoolReport {
            id: 1,
            name: "all".to_owned(),
            used: used.clone(),
            weight: 1.0,
            reads: cache.reads as u64,
            misses: cache.misses as u64,
            curve: Some(curve),
            ..PoolReport::default()
        };
        Ok(Look {
            instance: v1::Instance {
                name: cache.name.clone(),
                node: cache.node.clone(),
                incarnation: cache.incarnation,
                outlives_agent: cache.outlives_agent,
                is_alone: cache.outlives_agent,
                ..v1::Instance::default()
            },
            limits: amounts::of_memory(cache.limit),
            used,
            least: amounts::of_memory(LEAST),
            most: Vec::new(),
            pools: vec![pool],
            learning: None,
        })
    }

    fn resize(&mut self, limits: &[Amount], _: &[PoolGrant]) -> Result<(), InstanceError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).limit = amounts::memory(limits);
        Ok(())
    }
}

/// The process of an agent. That of an embedded cache holds the cache as well.
pub(super) struct Process {
    pub(super) agent: Agent<Handle>,
    /// How fast its clock goes.
    pub(super) clock_rate: f64,
    /// Stopped until then: nothing that reaches it is handled before.
    pub(super) paused_until: Nanos,
}

/// A place for an instance: a name on a node, and what runs there now.
pub(super) struct Site {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) outlives_agent: bool,
    pub(super) cache: Option<Handle>,
    pub(super) process: Option<Process>,
}

impl Site {
    pub(super) fn has(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.0.lock().unwrap_or_else(PoisonError::into_inner).has())
    }

    pub(super) fn advance(&self, now: Nanos) {
        if let Some(cache) = &self.cache {
            cache.0.lock().unwrap_or_else(PoisonError::into_inner).advance(now);
        }
    }
}
