//! A bound on tail latency, by a queueing model: what a tenant needs to keep it counts as what it
//! needs.
//!
//! HARE leaves this as future work (section 4.3, "Tail latency"): a tenant that relinquishes
//! resources for cache keeps its throughput, but its few misses are then served slowly, so that a
//! burst of them waits long. Even without a deal, a tenant that gives up what its throughput does
//! not need gives up what kept its queue short. So what the bound needs is kept by all, and a deal
//! pays only if it pays after that.
//!
//! The model: what a tenant is granted of a resource is a server of its own, whose queue is that of
//! an M/G/1 system. A request of which a share `m` comes to the queue, each with work for `s`
//! seconds at the granted rate, waits longer than `x` with a chance of about
//! `m * exp(-x * (1 - u) / (s * (1 + c²) / 2))`, where `u` is the utilisation and `c²` the squared
//! coefficient of variation of the work (exact for M/M/1, where `c²` = 1; otherwise the
//! heavy-traffic approximation, Kleinrock, "Queueing Systems", volume 2).

use crate::{Grant, Misses, Pool, View};

/// A bound that the tail latency of each pool must keep, or the latency of its baseline where that
/// is longer.
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
    /// The time that all but `share` of the requests of `pool` wait for resources at most, in
    /// seconds, at its request rate; infinite where the grants do not carry that rate.
    pub fn latency(&self, pool: &Pool, misses: Misses, grants: &[f64]) -> f64 {
        grants.iter().enumerate().map(|(k, &grant)| self.wait(pool, misses, k, grant)).fold(0.0, f64::max)
    }

    /// The same for one resource of which `grant` is given.
    fn wait(&self, pool: &Pool, misses: Misses, resource: usize, grant: f64) -> f64 {
        let cost = pool.cost(resource, misses);
        if cost <= 0.0 || pool.request_rate <= 0.0 {
            return 0.0;
        }
        let used = pool.request_rate * cost / grant;
        if used.is_nan() || used >= 1.0 {
            return f64::INFINITY;
        }
        // Where hits need nothing, only misses come to the queue.
        let all_come = pool.demands[resource].fixed > 0.0 || misses.all <= 0.0;
        let (comes, work) = if all_come { (1.0, cost) } else { (misses.all, cost / misses.all) };
        let seconds = work / grant * f64::midpoint(1.0, self.variation);
        (comes * used / self.share).ln().max(0.0) * seconds / (1.0 - used)
    }

    /// The least of a resource with which nobody but `share` waits longer than `seconds`.
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

/// The bound of each pool: the one that is set or, where its baseline breaks that already, what its
/// baseline gives.
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

    /// What the pool at `place` must have of a resource to keep its bound.
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
