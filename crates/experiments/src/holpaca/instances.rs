//! Random instances of the question that annealing and the exact solver answer.

use std::sync::{Arc, LazyLock};

use allocate::problem::{Choice, Problem, Worth};
use allocate::{Demand, Pool, Resource, View};
use base::rng::{RngExt, SeededRng, seeded};
use curve::{MissRatioCurve, Point, Unit, che};

/// Curves of LRU by Che's approximation, over 64 sizes up to all of 2000 to 10,000 keys of 1 KB,
/// under Zipf's law with exponents from 0 to 1.4.
static CURVES: LazyLock<Vec<MissRatioCurve>> = LazyLock::new(|| {
    let mut rng = seeded(64);
    let curves = (0..64).map(|_| {
        let keys = rng.random_range(2_000..10_000_u64);
        let popularity = che::zipf(keys, rng.random_range(0.0..1.4), 1000.0);
        che::curve(Unit::Bytes, &popularity, keys * 1000, 64)
    });
    curves.collect()
});

/// One of the curves, for caches 1 to 16 times as large; with `cliffs`, a third of the tenants also
/// scan, which makes a cliff.
fn curve(rng: &mut SeededRng, cliffs: bool) -> MissRatioCurve {
    let curve = &CURVES[rng.random_range(0..CURVES.len())];
    let curve = curve.scaled(Unit::Bytes, rng.random_range(1.0..16.0));
    if !cliffs || rng.random_bool(0.67) {
        return curve;
    }
    let (cliff, scan) = (rng.random_range(0..curve.max_size()), rng.random_range(0.0..0.5));
    let points = curve.points().iter().map(|point| Point {
        miss_ratio: point.miss_ratio * (1.0 - scan) + if point.size < cliff { scan } else { 0.0 },
        ..*point
    });
    MissRatioCurve::new(Unit::Bytes, points).expect("a scan keeps a curve's points in order")
}

/// The aim of an instance, and the bounds of its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Throughput, in a window of this share of memory around an equal split, as HOLPACA sets it.
    Window(f64),
    /// Throughput, wherever sizes lie, above two fifths of an equal share.
    Anywhere,
    /// Hits over hulls, wherever sizes lie.
    Hits,
}

/// Creates an instance of `pools` pools, with memory for a tenth to a half of all data, and the
/// start of its search.
pub(super) fn instance(rng: &mut SeededRng, pools: usize, kind: Kind, cliffs: bool) -> (Problem, Vec<u64>) {
    let curves: Vec<MissRatioCurve> = (0..pools).map(|_| curve(rng, cliffs)).collect();
    let data: u64 = curves.iter().map(MissRatioCurve::max_size).sum();
    let memory = (data as f64 * rng.random_range(0.1..0.5)) as u64;
    let equal = memory / pools as u64;
    let choices = curves.iter().map(|curve| {
        // Backends and request rates between 100 and 10,000 per second.
        let rate = 10_f64.powf(rng.random_range(2.0..4.0));
        let (low, high) = match kind {
            Kind::Window(share) => {
                let step = (memory as f64 * share) as u64;
                (equal.saturating_sub(step), equal + step)
            }
            Kind::Anywhere => (equal * 2 / 5, memory),
            Kind::Hits => (0, memory),
        };
        let worth = match kind {
            Kind::Hits => Worth::hit_rate(curve.hull(), rate, 1.0),
            _ => Worth::throughput(curve, 1.0, |_, miss_ratio| rate / miss_ratio),
        };
        Choice { low, high, worth }
    });
    let problem = Problem { memory, choices: choices.collect() };
    let start = problem.nearest(&vec![equal; pools]);
    (problem, start)
}

/// Creates a view of `pools` pools with curves of 64 points, request rates that follow from
/// backends, and an equal split of a fifth of all data.
pub(super) fn view(rng: &mut SeededRng, pools: usize) -> View {
    let curves: Vec<Arc<MissRatioCurve>> = (0..pools).map(|_| Arc::new(curve(rng, false))).collect();
    let memory = curves.iter().map(|curve| curve.max_size()).sum::<u64>() / 5;
    let size = memory / pools as u64;
    let pools = curves.into_iter().enumerate().map(|(i, curve)| {
        let rate = 10_f64.powf(rng.random_range(2.0..4.0)) / curve.miss_ratio(size as f64).max(1e-3);
        let mut pool = Pool::new(format!("pool {i}"), curve, size);
        pool.request_rate = rate;
        pool
    });
    View { memory: memory / size * size, resources: Vec::new(), pools: pools.collect(), ..View::default() }
}

/// The same view, except that requests need read units, write units and network as well, in shares
/// that differ from pool to pool, as for HARE's tenants.
pub(super) fn with_resources(rng: &mut SeededRng, view: &View) -> View {
    let mut view = view.clone();
    let totals = [("read-units", 1000.0), ("write-units", 1000.0), ("network", 3000.0)];
    let pools = view.pools.len() as f64;
    let all = |(name, each): (&str, f64)| Resource { name: name.into(), total: each * pools };
    view.resources = totals.map(all).to_vec();
    for pool in &mut view.pools {
        let writes = rng.random_range(0.0..0.5);
        let network = Demand::new(1.0, rng.random_range(0.2..0.5));
        pool.demands = vec![Demand::new(1.0 - writes, 1.0), Demand::new(writes, 0.0), network];
        pool.grants = totals.map(|(_, each)| each).to_vec();
    }
    view
}
