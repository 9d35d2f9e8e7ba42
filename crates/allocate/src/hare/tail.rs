//! A bound on tail latency, by a queueing model: the resources that a tenant needs to keep the
//! bound count as its needs.
//!
//! HARE leaves this as future work (section 4.3, "Tail latency"): a tenant that relinquishes
//! resources for cache keeps its throughput, but its few misses are then served slowly, so that a
//! burst of them has long waits. Even without a deal, a tenant that gives up resources beyond those
//! for its throughput gives up the slack that kept its queue short. So each tenant keeps the
//! resources that the bound needs, and a deal must be profitable beyond those.
//!
//! The model: a tenant's grant of a resource is a server of its own, whose queue is an M/G/1
//! system. If a share `m` of requests enters the queue, each with work for `s` seconds at the
//! granted rate, a request waits longer than `x` with a probability of about
//! `m * exp(-x * (1 - u) / (s * (1 + c²) / 2))`, where `u` is the utilisation and `c²` the squared
//! coefficient of variation of the work (exact for M/M/1, where `c²` = 1; otherwise the
//! heavy-traffic approximation, Kleinrock, "Queueing Systems", volume 2).

use crate::{Grant, Misses, Pool, View};

/// A bound on the tail latency of each pool, or the latency of its baseline if that is longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailBound {
    /// The share of requests that may take longer: 0.01 for p99. Default: 0.01.
    pub share: f64,
    /// The longest wait of the other requests for any of the resources, in seconds. Default: 0.1.
    pub seconds: f64,
    /// The squared coefficient of variation of the work of a request. Default: 1.
    pub variation: f64,
}

impl Default for TailBound {
    fn default() -> Self {
        Self { share: 0.01, seconds: 0.1, variation: 1.0 }
    }
}

impl TailBound {
    /// The longest wait for resources of all requests of `pool` except `share` of them, in seconds,
    /// at its request rate; infinite if the grants do not carry that rate.
    pub fn latency(&self, pool: &Pool, misses: Misses, grants: &[f64]) -> f64 {
        grants.iter().enumerate().map(|(k, &grant)| self.wait(pool, misses, k, grant)).fold(0.0, f64::max)
    }

    /// The same for one resource with this `grant`.
    fn wait(&self, pool: &Pool, misses: Misses, resource: usize, grant: f64) -> f64 {
        let cost = pool.cost(resource, misses);
        if cost <= 0.0 || pool.request_rate <= 0.0 {
            return 0.0;
        }
        let used = pool.request_rate * cost / grant;
        if used.is_nan() || used >= 1.0 {
            return f64::INFINITY;
        }
        // If hits need none of the resource, only misses enter the queue.
        let all_come = pool.demands[resource].fixed > 0.0 || misses.all <= 0.0;
        let (comes, work) = if all_come { (1.0, cost) } else { (misses.all, cost / misses.all) };
        let seconds = work / grant * f64::midpoint(1.0, self.variation);
        (comes * used / self.share).ln().max(0.0) * seconds / (1.0 - used)
    }

    /// The least amount of a resource with which at most `share` of requests wait longer than
    /// `seconds`.
    fn units(&self, pool: &Pool, misses: Misses, resource: usize, seconds: f64) -> f64 {
        let load = pool.request_rate * pool.cost(resource, misses);
        if load <= 0.0 || seconds.is_infinite() {
            return 0.0;
        }
        let (mut low, mut high) = (load, load * 2.0);
        while self.wait(pool, misses, resource, high) > seconds && high < f64::MAX / 4.0 {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.wait(pool, misses, resource, middle) > seconds { low = middle } else { high = middle }
        }
        high
    }
}

/// The bound of each pool: the configured one or, if its baseline already exceeds that, the latency
/// of the baseline.
pub(super) struct Tail<'a> {
    bound: &'a TailBound,
    /// By the place of the pool in the view.
    seconds: Vec<f64>,
}

impl<'a> Tail<'a> {
    pub(super) fn new(bound: &'a TailBound, view: &View, baseline: &[Grant]) -> Self {
        let latency = |(pool, grant): (&Pool, &Grant)| {
            bound
                .latency(pool, pool.misses(grant.memory, &grant.resources), &grant.resources)
                .max(bound.seconds)
        };
        Self { bound, seconds: view.pools.iter().zip(baseline).map(latency).collect() }
    }

    /// The units of a resource that the pool at `place` needs to keep its bound.
    pub(super) fn needs(&self, place: usize, pool: &Pool, misses: Misses, resource: usize) -> f64 {
        self.bound.units(pool, misses, resource, self.seconds[place])
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
