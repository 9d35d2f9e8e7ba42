//! The model that HOLPACA's experiments run on: four tenants with the distributions of the paper's
//! section 3, a hundredth as large.
//!
//! Each tenant has 200,000 keys of 1 KB, requested by Zipf's law with the exponents 1.2, 0.9 and
//! 0.6, or uniformly; all have 80 MB together, a tenth of their data. Each has a backend of its own
//! that carries 5000 requests per second, and clients that request as much as it carries: a
//! tenant's throughput is its backend's divided by its miss ratio, which Che's approximation gives
//! for any size. A change of size acts at once; that leaves out the warming of the moved memory.

use std::sync::{Arc, LazyLock};

use allocate::{Decision, Policy, Pool, View};
use base::rng::{RngExt, SeededRng};
use curve::{MissRatioCurve, Unit, che};

/// Keys of each tenant.
pub(super) const KEYS: u64 = 200_000;
/// The size of each, in bytes.
pub(super) const KEY_BYTES: u64 = 1_000;
/// The memory of all, in bytes.
pub(super) const MEMORY: u64 = 80_000_000;
/// Misses per second that each tenant's backend carries.
pub(super) const BACKEND: f64 = 5_000.0;
/// The exponents of Zipf's law; 0 is uniform.
pub(super) const EXPONENTS: [f64; 4] = [1.2, 0.9, 0.6, 0.0];
/// Control cycles, of a second each, of most experiments.
pub(super) const CYCLES: u32 = 60;

static CURVES: LazyLock<[Arc<MissRatioCurve>; 4]> = LazyLock::new(|| {
    EXPONENTS.map(|exponent| {
        let keys = che::zipf(KEYS, exponent, KEY_BYTES as f64);
        Arc::new(che::curve(Unit::Bytes, &keys, MEMORY, 200))
    })
});

/// The tenants, and their grants.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The view of a policy.
    pub(super) view: View,
    /// The true curve of each tenant; the view's curves may be learnt.
    truth: Vec<Arc<MissRatioCurve>>,
}

/// One control cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    /// The sizes of all tenants after it.
    pub(super) sizes: Vec<u64>,
    /// Their throughputs then, in requests per second.
    pub(super) throughputs: Vec<f64>,
    /// The decision of the policy.
    pub(super) decision: Decision,
}

impl Cycle {
    /// The throughput of all tenants together.
    pub(super) fn total(&self) -> f64 {
        self.throughputs.iter().sum()
    }

    /// Each tenant's share of the memory.
    pub(super) fn shares(&self) -> Vec<f64> {
        self.sizes.iter().map(|&size| size as f64 / MEMORY as f64).collect()
    }
}

impl Model {
    /// The first `tenants` of the four, with equal shares.
    pub(super) fn new(tenants: usize) -> Self {
        let truth: Vec<Arc<MissRatioCurve>> = CURVES[..tenants].to_vec();
        let pools = truth
            .iter()
            .enumerate()
            .map(|(i, curve)| Pool::new(format!("T{}", i + 1), Arc::clone(curve), MEMORY / tenants as u64));
        let view = View { memory: MEMORY, resources: Vec::new(), pools: pools.collect(), ..View::default() };
        let mut model = Self { view, truth };
        model.measure(&mut |_| 1.0);
        model
    }

    /// Another tenant of the four, with no memory yet.
    pub(super) fn join(&mut self, tenant: usize) {
        self.truth.push(Arc::clone(&CURVES[tenant]));
        self.view.pools.push(Pool::new(format!("T{}", tenant + 1), Arc::clone(&CURVES[tenant]), 0));
        self.measure(&mut |_| 1.0);
    }

    /// Removes the tenant at this place; its memory is free.
    pub(super) fn leave(&mut self, place: usize) {
        self.truth.remove(place);
        self.view.pools.remove(place);
    }

    /// From now on two tenants ask by each other's distribution. Policies go on seeing the curves
    /// that they were given.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        self.truth.swap(a, b);
    }

    /// Lets the view see a learnt curve.
    pub(super) fn learn(&mut self, tenant: usize, curve: MissRatioCurve) {
        self.view.pools[tenant].curve = Arc::new(curve);
    }

    /// Returns the true miss ratio of each tenant with the memory that it uses.
    pub(super) fn miss_ratios(&self) -> Vec<f64> {
        let pools = self.view.pools.iter().zip(&self.truth);
        pools.map(|(pool, truth)| truth.miss_ratio(pool.used as f64).max(1e-3)).collect()
    }

    /// The throughput of each tenant.
    pub(super) fn throughputs(&self) -> Vec<f64> {
        self.miss_ratios().iter().map(|miss_ratio| BACKEND / miss_ratio).collect()
    }

    /// The throughput of all together.
    pub(super) fn total(&self) -> f64 {
        self.throughputs().iter().sum()
    }

    /// The throughput of all at these shares of the memory.
    pub(super) fn total_at(&self, shares: &[f64]) -> f64 {
        let pairs = self.truth.iter().zip(shares);
        pairs.map(|(truth, share)| BACKEND / truth.miss_ratio(share * MEMORY as f64)).sum()
    }

    /// The throughput of one tenant with `bytes` of memory.
    pub(super) fn throughput_with(&self, tenant: usize, bytes: u64) -> f64 {
        BACKEND / self.truth[tenant].miss_ratio(bytes as f64).max(1e-3)
    }

    /// The least memory with which a tenant has this throughput; `None` if all of it is not enough.
    pub(super) fn memory_for(&self, tenant: usize, throughput: f64) -> Option<u64> {
        let enough = |bytes: u64| self.throughput_with(tenant, bytes) >= throughput;
        let (mut low, mut high) = (0, MEMORY);
        while low < high {
            let middle = u64::midpoint(low, high);
            (low, high) = if enough(middle) { (low, middle) } else { (middle + 1, high) };
        }
        enough(low).then_some(low)
    }

    /// Reports each tenant's throughput to the view, times the factor that `noise` gives.
    fn measure(&mut self, noise: &mut impl FnMut(usize) -> f64) {
        let throughputs = self.throughputs();
        for (i, (pool, throughput)) in self.view.pools.iter_mut().zip(throughputs).enumerate() {
            pool.request_rate = throughput * noise(i);
        }
    }

    /// A cycle: measure, decide, resize.
    pub(super) fn cycle(&mut self, policy: &mut dyn Policy, noise: &mut impl FnMut(usize) -> f64) -> Cycle {
        self.measure(noise);
        let decision = policy.decide(&self.view);
        for (pool, grant) in self.view.pools.iter_mut().zip(&decision.grants) {
            (pool.size, pool.used) = (grant.memory, grant.memory);
        }
        let sizes = self.view.pools.iter().map(|pool| pool.size).collect();
        Cycle { sizes, throughputs: self.throughputs(), decision }
    }

    /// Simulates a second in which pools fill the memory they were given: each miss brings in an
    /// item. Reports the measurements to the view.
    pub(super) fn second(&mut self, noise: &mut impl FnMut(usize) -> f64) {
        for pool in &mut self.view.pools {
            pool.used = pool.size.min(pool.used + BACKEND as u64 * KEY_BYTES);
        }
        self.measure(noise);
    }

    /// Resizes pools: a pool that loses memory loses its contents, and one that gains memory gets
    /// it empty.
    pub(super) fn resize(&mut self, decision: &Decision) {
        for (pool, grant) in self.view.pools.iter_mut().zip(&decision.grants) {
            pool.size = grant.memory;
            pool.used = pool.used.min(pool.size);
        }
    }

    /// Runs `cycles` cycles, measured exactly.
    pub(super) fn run(&mut self, policy: &mut dyn Policy, cycles: u32) -> Vec<Cycle> {
        (0..cycles).map(|_| self.cycle(policy, &mut |_| 1.0)).collect()
    }
}

/// Noise of a measure: up to `part` of it, up or down.
pub(super) fn noise(rng: &mut SeededRng, part: f64) -> impl FnMut(usize) -> f64 + '_ {
    move |_| 1.0 + part * (2.0 * rng.random::<f64>() - 1.0)
}
