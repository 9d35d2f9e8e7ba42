//! The exact solver against trying everything, and the annealer against the exact solver.

use base::rng::{RngExt, SeededRng, seeded};
use curve::che::{self, Popularity};
use curve::{MissRatioCurve, Point, Unit};
use proptest::prelude::*;

use super::*;
use crate::anneal::{Annealer, Annealing};
use crate::problem::{Choice, Worth};

fn straight(gains: &[f64]) -> Choice {
    let mut sum = 0.0;
    let mut points = vec![(0.0, 0.0)];
    points.extend(gains.iter().enumerate().map(|(i, gain)| {
        sum += gain;
        (i as f64 + 1.0, sum)
    }));
    Choice { low: 0, high: gains.len() as u64, worth: Worth::Straight(points) }
}

/// Curves of LRU over popularities of all kinds, a third of them with a cliff as a scan makes it.
fn curves(rng: &mut SeededRng, n: usize) -> Vec<MissRatioCurve> {
    let curves = (0..n).map(|_| {
        let keys = rng.random_range(50..300);
        let size = 1000.0 * f64::from(rng.random_range(1..5));
        let keys: Vec<Popularity> = che::zipf(keys, rng.random_range(0.0..1.4), size);
        let max = keys.iter().map(|key| key.size).sum::<f64>() as u64;
        let curve = che::curve(Unit::Bytes, &keys, max, 32);
        let (cliff, scan) = (rng.random_range(0..max), rng.random_range(0.0..0.5));
        if rng.random_bool(0.67) {
            return curve;
        }
        let points = curve.points().iter().map(|point| Point {
            miss_ratio: point.miss_ratio * (1.0 - scan) + if point.size < cliff { scan } else { 0.0 },
            ..*point
        });
        MissRatioCurve::new(Unit::Bytes, points).unwrap()
    });
    curves.collect()
}

/// Pools around an equal split of a tenth to a half of all their data, in a window around that or
/// free.
fn problem(rng: &mut SeededRng, n: usize, concave: bool, window: f64) -> (Problem, Vec<u64>) {
    let curves = curves(rng, n);
    let data: u64 = curves.iter().map(MissRatioCurve::max_size).sum();
    let memory = data / 10 * rng.random_range(1..5);
    let equal = memory / n as u64;
    let step = (memory as f64 * window) as u64;
    let choices = curves.iter().map(|curve| {
        let rate = 10_f64.powf(rng.random_range(2.0..4.0));
        let worth = if concave {
            Worth::hit_rate(curve.hull(), rate, 1.0)
        } else {
            Worth::throughput(curve, 1.0, |_, miss_ratio| rate / miss_ratio)
        };
        Choice { low: equal.saturating_sub(step), high: equal + step, worth }
    });
    let problem = Problem { memory, choices: choices.collect() };
    let start = problem.nearest(&vec![equal; n]);
    (problem, start)
}

proptest! {
    #[test]
    fn nothing_on_a_small_grid_is_worth_more(
        gains in proptest::collection::vec(proptest::collection::vec(0.0_f64..10.0, 6), 3),
        memory in 0_u64..20,
    ) {
        let problem = Problem { memory, choices: gains.iter().map(|gains| straight(gains)).collect() };
        let solution = solve(&problem);
        prop_assert!(problem.admits(&solution.sizes));
        prop_assert!((problem.value(&solution.sizes) - solution.value).abs() < 1e-9);
        prop_assert!(solution.value <= solution.bound + 1e-9);
        for a in 0..=6_u64 {
            for b in 0..=6_u64 {
                let Some(c) = problem.total().checked_sub(a + b).filter(|&c| c <= 6) else { continue };
                let value = problem.value(&[a, b, c]);
                prop_assert!(value <= solution.value + 1e-9, "{:?} is worth {}, {:?} {}", [a, b, c], value,
                    solution.sizes, solution.value);
            }
        }
    }

    #[test]
    fn nearest_sizes_keep_bounds_and_add_up(
        pools in proptest::collection::vec((0_u64..1000, 0_u64..1000, 0_u64..3000), 1..8),
        above in 0_u64..4000,
    ) {
        let choices: Vec<Choice> = pools.iter().map(|&(low, room, _)| {
            Choice { low, high: low + room, worth: Worth::Straight(vec![(0.0, 0.0)]) }
        }).collect();
        let memory = choices.iter().map(|choice| choice.low).sum::<u64>() + above;
        let problem = Problem { memory, choices };
        let wanted: Vec<u64> = pools.iter().map(|pool| pool.2).collect();
        prop_assert!(problem.admits(&problem.nearest(&wanted)));
    }
}

#[test]
fn neither_solver_is_beaten_by_the_other_search() {
    let mut rng = seeded(11);
    for round in 0..60 {
        let (concave, window) = (round % 2 == 0, if round % 3 == 0 { 0.01 } else { 1.0 });
        let n = rng.random_range(2..33);
        let (problem, start) = problem(&mut rng, n, concave, window);
        let exact = solve(&problem);
        assert!(problem.admits(&exact.sizes), "round {round}");
        assert!(!concave || exact.is_optimal(), "round {round}: over hulls the bound is reached");
        let annealed = Annealer::new(Annealing::REPAIRED, round).solve(&problem, &start);
        assert!(problem.admits(&annealed), "round {round}");
        let annealed = problem.value(&annealed);
        assert!(
            annealed <= exact.value * (1.0 + 1e-9),
            "round {round}, {n} pools: annealing found {annealed}, exact {}, bound {}",
            exact.value,
            exact.bound
        );
    }
}

#[test]
fn annealing_comes_within_a_hundredth_of_the_best_in_windows_as_holpaca_sets_them() {
    let mut rng = seeded(5);
    let (mut near, mut worst) = (0, 0.0_f64);
    let rounds = 40;
    for round in 0..rounds {
        let n = rng.random_range(2..33);
        let (problem, start) = problem(&mut rng, n, false, if round % 2 == 0 { 0.01 } else { 0.05 });
        let best = problem.value(&by_chunks(&problem, 256)).max(solve(&problem).value);
        let annealed = problem.value(&Annealer::new(Annealing::REPAIRED, round).solve(&problem, &start));
        let short = 1.0 - annealed / best;
        near += u32::from(short <= 0.01);
        worst = worst.max(short);
    }
    assert!(near >= rounds as u32 * 95 / 100, "{near} of {rounds} within 1 %, the worst {worst} short");
}

#[test]
fn chunks_find_the_corner_that_hulls_alone_cannot() {
    // Two cliffs and memory for one of them: the hull takes a part of the larger, and the smaller
    // is what fits.
    let cliff = |at: u64, worth: f64| {
        let points = vec![(0.0, 0.0), (at as f64 - 1.0, 0.0), (at as f64, worth)];
        Choice { low: 0, high: at, worth: Worth::Straight(points) }
    };
    let problem = Problem { memory: 60, choices: vec![cliff(100, 300.0), cliff(60, 100.0)] };
    assert_eq!(by_chunks(&problem, 60), [0, 60]);
    assert_eq!(solve(&problem).sizes, [0, 60]);
}

#[test]
fn published_faults_make_a_walk_of_a_search() {
    let mut rng = seeded(3);
    let (problem, start) = problem(&mut rng, 4, false, 1.0);
    let mut search = Annealer::new(Annealing::PUBLISHED, 0);
    let (walked, again) = (search.solve(&problem, &start), search.solve(&problem, &start));
    assert_eq!(walked, again, "each call walks the same way");
    let found = Annealer::new(Annealing::REPAIRED, 0).solve(&problem, &start);
    assert!(problem.value(&walked) < 0.95 * problem.value(&found), "a walk is no search");
}
