//! A bound on tail latency, by a queueing model: deals that would break it are not made.
//!
//! HARE leaves this as future work (section 4.3, "Tail latency"): a tenant that relinquishes resources for cache keeps its
//! throughput, but its few misses are then served slowly, so that a burst of them waits long.
//!
//! The model: what a tenant is granted of a resource is a server of its own, whose queue is that of an M/G/1 system. A request of which
//! a share `m` comes to the queue, each with work for `s` seconds at the granted rate, waits longer than `x` with a chance of
//! about `m * exp(-x * (1 - u) / (s * (1 + c²) / 2))`, where `u` is the utilisation and `c²` the squared coefficient of variation of the
//! work (exact for M/M/1, where `c²` = 1; otherwise the heavy-traffic approximation, Kleinrock, "Queueing Systems", volume 2).

use crate::{Grant, Misses, Pool, View, fairness};

/// No deal may bring the tail latency of a pool above this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailBound {
    /// The share of requests that may take longer: 0.01 for p99. Default: 0.01.
    pub share: f64,
    /// How long the others wait at most for any of the resources, in seconds. Default: 0.1.
    pub seconds: f64,
    /// The squared coefficient of variation of the work that a request brings. Default: 1.
    pub variation: f64,
}

impl Default for TailBound {
    fn default() -> Self {
        Self { share: 0.01, seconds: 0.1, variation: 1.0 }
    }
}

impl TailBound {
    /// The time that all but `share` of the requests of `pool` wait for resources at most, in seconds, at its request rate; infinite where
    /// the grants do not carry that rate.
    pub fn latency(&self, pool: &Pool, misses: Misses, grants: &[f64]) -> f64 {
        let waits = grants.iter().enumerate().map(|(k, &grant)| {
            let demand = pool.demands[k];
            let cost = pool.cost(k, misses);
            if cost <= 0.0 {
                return 0.0;
            }
            let used = pool.request_rate * cost / grant;
            if used.is_nan() || used >= 1.0 {
                return f64::INFINITY;
            }
            // Where hits need nothing, only misses come to the queue.
            let (comes, work) =
                if demand.fixed > 0.0 { (1.0, cost) } else { (misses.all, cost / misses.all) };
            let seconds = work / grant * f64::midpoint(1.0, self.variation);
            (comes * used / self.share).ln().max(0.0) * seconds / (1.0 - used)
        });
        waits.fold(0.0, f64::max)
    }
}

/// The bound of each pool: the one that is set or, where its baseline breaks that already, what its baseline gives.
pub(super) struct Tail<'a> {
    bound: &'a TailBound,
    /// By the place of the pool in the view.
    seconds: Vec<f64>,
}

impl<'a> Tail<'a> {
    pub(super) fn new(bound: &'a TailBound, view: &View) -> Self {
        let latency = |(pool, grant): (&Pool, Grant)| {
            let misses = pool.misses(grant.memory, &grant.resources);
            bound.latency(pool, misses, &grant.resources).max(bound.seconds)
        };
        Self { bound, seconds: view.pools.iter().zip(fairness::baseline(view)).map(latency).collect() }
    }

    /// Whether the pool at `place` that holds these units, and gets `more` times as much in the end, keeps its bound.
    pub(super) fn allows(&self, place: usize, pool: &Pool, misses: Misses, units: &[f64], more: f64) -> bool {
        let granted: Vec<f64> = units.iter().map(|units| units * more).collect();
        self.bound.latency(pool, misses, &granted) <= self.seconds[place]
    }
}

/// The tail latency of each pool with these grants, by the model.
pub fn latencies(view: &View, grants: &[Grant], bound: &TailBound) -> Vec<f64> {
    let each = view.pools.iter().zip(grants);
    each.map(|(pool, grant)| {
        bound.latency(pool, pool.misses(grant.memory, &grant.resources), &grant.resources)
    })
    .collect()
}
