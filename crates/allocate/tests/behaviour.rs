//! The contract of every policy: one suite, run over all of the registry on random instances.
//!
//! [`claims`] lists the further claims of each policy.

use base::rng::{RngExt, seeded};
use millpond_allocate as allocate;

use allocate::drf::Drf;
use allocate::guard::{Aim, Guarded, Rails};
use allocate::hare::{self, Hare, Settings};
use allocate::memshare::Memshare;
use allocate::{Decision, Demand, Flash, Grant, Policy, Pool, Resource, View, fairness, registry};
use curve::{MissRatioCurve, Point, Unit};

/// A policy, and what it claims.
struct Subject {
    name: String,
    make: Box<dyn Fn() -> Box<dyn Policy>>,
    claims: Claims,
}

struct Claims {
    /// It keeps each pool between its floor and its ceiling.
    bounds: bool,
    /// Nobody is worse off than with its share by weight.
    sharing_incentive: bool,
    /// It decides on ten thousand pools in a moment, and on a few in no time.
    fast: bool,
}

fn claims(name: &str) -> Claims {
    let plain = Claims { bounds: true, sharing_incentive: false, fast: true };
    match name {
        "weighted" | "drf" | "hare" => Claims { sharing_incentive: true, ..plain },
        // What breaks a bound already stays as it is.
        "static" => Claims { bounds: false, ..plain },
        // Nobody enforces anything where everything is shared.
        "non-partitioned" | "non-partitioned-drf" => Claims { bounds: false, ..plain },
        // Annealers take half a million steps.
        "holpaca" | "holpaca-as-described" | "holpaca-as-published" => Claims { fast: false, ..plain },
        _ => plain,
    }
}

/// All of the registry, and some of it between rails.
fn subjects() -> Vec<Subject> {
    let mut subjects: Vec<Subject> = registry::policies()
        .iter()
        .map(|entry| Subject {
            name: entry.name.to_owned(),
            make: Box::new(|| entry.make()),
            claims: claims(entry.name),
        })
        .collect();
    // With salt the claim is one of HARE's own, which counts by two curves; DRF counts by one.
    let unsalted = || Box::new(Drf { salt: 0.0, ..Drf::default() }) as Box<dyn Policy>;
    let drf = subjects.iter_mut().find(|subject| subject.name == "drf").expect("it is in the registry");
    drf.make = Box::new(unsalted);
    let mut add = |name: &str, claims: Claims, make: fn() -> Box<dyn Policy>| {
        subjects.push(Subject { name: name.to_owned(), make: Box::new(make), claims });
    };
    add("hare, always applied", claims("hare"), always_applied);
    add("memshare in small steps", claims("memshare"), || {
        let rails = Rails { least_share: 0.1, pool_step: 0.01, step: 0.02, ..Rails::default() };
        Box::new(Guarded::new(Memshare::default(), rails))
    });
    add("hare between rails", claims("memshare"), || {
        let rails = Rails { hysteresis: 0.05, aim: Aim::Fairness, most_share: 0.6, ..Rails::default() };
        Box::new(Guarded::new(Hare::default(), rails))
    });
    subjects
}

fn always_applied() -> Box<dyn Policy> {
    Box::new(Hare { settings: Settings { apply_threshold: 0.0, ..Settings::default() } })
}

/// Whatever a curve may look like.
fn any_curve(rng: &mut impl RngExt, memory: u64) -> MissRatioCurve {
    let largest = memory.max(16);
    let at = |share: f64| (share * largest as f64) as u64 + 1;
    let points = match rng.random_range(0..6) {
        0 => return MissRatioCurve::uniform(Unit::Bytes, at(rng.random_range(0.01..3.0))),
        1 => vec![(at(0.0), 0.0)],
        2 => vec![(at(1.0), 1.0)],
        3 => {
            // A cliff behind a plateau.
            let edge = at(rng.random_range(0.05..1.5));
            vec![(edge, 0.95), (edge + edge / 20 + 1, 0.05)]
        }
        4 => {
            let exponent = rng.random_range(0.2..0.9);
            let misses = |i: u64| (1.0 - (i as f64 / 64.0).powf(exponent)).clamp(0.0, 1.0);
            (1..=64).map(|i| (at(i as f64 / 32.0), misses(i))).collect()
        }
        _ => {
            let (mut miss_ratio, mut size) = (1.0, 0);
            let mut step = |_| {
                size += at(rng.random_range(0.0..0.15));
                miss_ratio *= rng.random_range(0.5..1.0_f64);
                (size, miss_ratio)
            };
            (0..20).map(&mut step).collect()
        }
    };
    let mut distinct: Vec<(u64, f64)> = points;
    distinct.dedup_by_key(|point| point.0);
    let points = distinct.into_iter().map(|(size, miss_ratio)| Point { size, miss_ratio });
    MissRatioCurve::new(Unit::Bytes, points).expect("sizes rise")
}

/// Shares of a whole that are random and add up to at most 1.
fn split(rng: &mut impl RngExt, parts: usize) -> Vec<f64> {
    let weights: Vec<f64> = (0..parts).map(|_| rng.random_range(0.0..1.0_f64)).collect();
    let sum: f64 = weights.iter().sum::<f64>() * 1.0001 + 1e-9;
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn any_view(rng: &mut impl RngExt, pools: usize) -> View {
    let memory = (10.0_f64).powf(rng.random_range(2.0..11.0)) as u64;
    let resources: Vec<Resource> = (0..rng.random_range(0..4))
        .map(|k| Resource { name: format!("r{k}"), total: (10.0_f64).powf(rng.random_range(0.0..6.0)) })
        .collect();
    let (sizes, floors) = (split(rng, pools), split(rng, pools));
    let given: Vec<Vec<f64>> = resources.iter().map(|_| split(rng, pools)).collect();
    let mut all = Vec::with_capacity(pools);
    for i in 0..pools {
        let mut pool =
            Pool::new(format!("p{i:05}"), any_curve(rng, memory), (sizes[i] * memory as f64) as u64);
        pool.weight = if rng.random_bool(0.5) { 1.0 } else { rng.random_range(0.1..8.0) };
        if rng.random_bool(0.3) {
            pool.floor = (floors[i] * memory as f64) as u64;
        }
        if rng.random_bool(0.2) {
            pool.ceiling = pool.floor + (rng.random_range(0.0..1.0) * memory as f64) as u64;
        }
        if rng.random_bool(0.9) {
            pool.request_rate = (10.0_f64).powf(rng.random_range(0.0..5.0));
        }
        if rng.random_bool(0.2) {
            pool.min_request_rate = (10.0_f64).powf(rng.random_range(0.0..5.0));
        }
        for (k, resource) in resources.iter().enumerate() {
            let saved = [0.0, 0.5, 1.0, rng.random_range(0.0..1.0)][rng.random_range(0..4)];
            let units = if rng.random_bool(0.1) { 0.0 } else { rng.random_range(0.01..5.0) };
            pool.demands.push(Demand::new(units, saved));
            pool.grants.push(given[k][i] * resource.total);
        }
        all.push(pool);
    }
    let view = View { memory, resources, pools: all, ..View::default() };
    view.validate().expect("it is a view");
    view
}

/// Checks the rules that hold for any decision of any policy.
#[track_caller]
fn check(subject: &Subject, view: &View, decision: &Decision, which: &str) {
    let name = &subject.name;
    assert_eq!(decision.grants.len(), view.pools.len(), "{name}, {which}");
    let memory: u128 = decision.grants.iter().map(|grant| u128::from(grant.memory)).sum();
    assert!(memory <= u128::from(view.memory), "{name}, {which}: {memory} of {} bytes", view.memory);
    for (k, resource) in view.resources.iter().enumerate() {
        let given: f64 = decision.grants.iter().map(|grant| grant.resources[k]).sum();
        let most = resource.total * (1.0 + 1e-6);
        assert!(given <= most, "{name}, {which}: {given} of {} {}", resource.total, resource.name);
    }
    for (pool, grant) in view.pools.iter().zip(&decision.grants) {
        let bounds = pool.floor..=pool.ceiling;
        let within = !subject.claims.bounds || bounds.contains(&grant.memory);
        assert!(within, "{name}, {which}: {} in {bounds:?}", grant.memory);
        let quantities = grant.resources.iter().all(|units| *units >= 0.0 && units.is_finite());
        assert!(quantities && grant.resources.len() == view.resources.len(), "{name}, {which}: {grant:?}");
    }
    for outcome in decision.before.iter().chain(&decision.after) {
        let sane = !outcome.throughput.is_nan() && (0.0..=1.0).contains(&outcome.miss_ratio);
        assert!(sane, "{name}, {which}: {outcome:?}");
    }
    assert!(decision.moves.iter().all(|step| step.gain.is_finite() && step.bytes > 0), "{name}, {which}");
    assert!(decision.unmet.iter().all(|unmet| !unmet.reason.is_empty()), "{name}, {which}");
    if subject.claims.sharing_incentive {
        let least = fairness::least_normalised(view, &decision.grants);
        assert!(least >= 1.0 - 1e-6, "{name}, {which}: somebody has {least} of its share");
    }
}

fn each(rounds: u64, pools: impl Fn(u64) -> usize, change: impl Fn(&mut View)) {
    for subject in subjects() {
        let rounds = if subject.claims.fast { rounds } else { rounds / 20 };
        for seed in 0..rounds {
            let mut view = any_view(&mut seeded(seed), pools(seed));
            change(&mut view);
            let decision = (subject.make)().decide(&view);
            check(&subject, &view, &decision, &format!("seed {seed}"));
        }
    }
}

#[test]
fn totals_bounds_and_claims_are_kept() {
    each(200, |seed| 1 + seed as usize % 12, |_| ());
}

#[test]
fn pools_that_miss_nothing_need_nothing_and_give_no_nan() {
    let never = MissRatioCurve::new(Unit::Bytes, [Point { size: 0, miss_ratio: 0.0 }]).unwrap();
    each(
        60,
        |seed| 1 + seed as usize % 6,
        |view| view.pools.iter_mut().for_each(|pool| pool.curve = never.clone().into()),
    );
}

#[test]
fn pools_that_nobody_asks_give_no_nan() {
    each(
        60,
        |seed| 1 + seed as usize % 6,
        |view| view.pools.iter_mut().for_each(|pool| pool.request_rate = 0.0),
    );
}

#[test]
fn nothing_to_give_is_given() {
    let empty = |view: &mut View| {
        view.memory = 0;
        view.resources.iter_mut().for_each(|resource| resource.total = 0.0);
        for pool in &mut view.pools {
            (pool.floor, pool.size) = (0, 0);
            pool.grants.fill(0.0);
        }
    };
    each(30, |seed| 1 + seed as usize % 4, empty);
}

#[test]
fn no_pools_are_no_trouble() {
    for subject in subjects() {
        let decision = (subject.make)().decide(&View { memory: 100, ..View::default() });
        assert!(decision.grants.is_empty() && decision.moves.is_empty());
    }
}

#[test]
fn ten_thousand_pools_are_decided_on() {
    let view = any_view(&mut seeded(7), 10_000);
    for subject in subjects().iter().filter(|subject| subject.claims.fast) {
        check(subject, &view, &(subject.make)().decide(&view), "10,000 pools");
    }
}

/// A view in which some pools are twins but for their names, so that there are ties.
fn with_twins(rng: &mut impl RngExt, pools: usize) -> View {
    let mut view = any_view(rng, pools);
    for i in 1..pools {
        if rng.random_bool(0.3) {
            let twin = view.pools[i - 1].clone();
            let (floor, size) = (view.pools[i].floor.min(twin.floor), view.pools[i].size);
            view.pools[i] = Pool { name: view.pools[i].name.clone(), floor, size, ..twin };
            view.pools[i - 1].floor = floor;
            for k in 0..view.resources.len() {
                let mean = f64::midpoint(view.pools[i].grants[k], view.pools[i - 1].grants[k]) / 2.0;
                (view.pools[i].grants[k], view.pools[i - 1].grants[k]) = (mean, mean);
            }
        }
    }
    view.validate().expect("it is a view");
    view
}

/// Not by a byte, nor in a tie, nor by what a policy remembers of earlier rounds: pools are told
/// apart by their names.
#[test]
fn the_order_of_pools_does_not_matter() {
    for subject in subjects() {
        for seed in 0..if subject.claims.fast { 150 } else { 6 } {
            let rng = &mut seeded(seed);
            let mut view = with_twins(rng, 2 + seed as usize % 8);
            let (mut one, mut other) = ((subject.make)(), (subject.make)());
            for round in 0..3 {
                let mut order: Vec<usize> = (0..view.pools.len()).collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, rng.random_range(0..=i));
                }
                let mut shuffled = view.clone();
                shuffled.pools = order.iter().map(|&i| view.pools[i].clone()).collect();
                let (here, there) = (one.decide(&view), other.decide(&shuffled));
                let case = format!("{}, seed {seed}, round {round}, {order:?}", subject.name);
                for (place, &i) in order.iter().enumerate() {
                    assert_eq!(here.grants[i], there.grants[place], "{case}");
                    assert_eq!(here.before[i], there.before[place], "{case}");
                    assert_eq!(here.after[i], there.after[place], "{case}");
                }
                let named = |view: &View, decision: &Decision| -> Vec<_> {
                    let name = |i: usize| view.pools[i].name.clone();
                    let moves = decision.moves.iter();
                    moves.map(|step| (step.from.map(name), step.to.map(name), step.bytes)).collect()
                };
                assert_eq!(named(&view, &here), named(&shuffled, &there), "{case}");
                for (pool, grant) in view.pools.iter_mut().zip(here.grants) {
                    (pool.size, pool.grants) = (grant.memory, grant.resources);
                    pool.used = pool.size;
                }
            }
        }
    }
}

/// HARE, section 3.5: "a better or equal throughput for every tenant compared to the baseline and
/// DRF with an equal cache partition".
#[test]
fn hare_is_no_worse_than_drf_and_drf_no_worse_than_a_share_of_ones_own() {
    for seed in 0..1000 {
        let mut view = any_view(&mut seeded(seed), 2 + seed as usize % 7);
        view.pools.iter_mut().for_each(|pool| pool.min_request_rate = 0.0);
        let settings = Settings { salt: 0.0, apply_threshold: 0.0, least_share: 0.0, ..Settings::default() };
        let least = |grants: &[Grant]| fairness::least_normalised(&view, grants);
        let drf = least(&Drf { salt: 0.0, conserving: false }.decide(&view).grants);
        let strict = hare::allocate(&view, &Settings { conserving: false, ..settings.clone() });
        let hare = least(&strict.grants);
        assert!(drf >= 1.0 - 1e-9, "seed {seed}: DRF {drf}");
        assert!(hare >= drf - 1e-6 * drf, "seed {seed}: HARE {hare}, DRF {drf}");
        let conserving = least(&hare::allocate(&view, &settings).grants);
        assert!(conserving >= hare * (1.0 - 1e-6), "seed {seed}: conserving {conserving}, not {hare}");
        assert!(strict.deals.len() < 10_000, "seed {seed}: it does not end");
    }
}

/// Whatever is said of one level holds for two.
#[test]
fn flash_is_divided_within_its_capacity_and_nobody_loses_by_it() {
    let subject = Subject { name: "hare".into(), make: Box::new(always_applied), claims: claims("hare") };
    for seed in 0..300 {
        let rng = &mut seeded(seed);
        let mut view = any_view(rng, 2 + seed as usize % 6);
        if view.memory < 1 << 24 {
            // Where a byte of flash is more than a millionth of it, rounding it down breaks what is
            // claimed to a millionth.
            continue;
        }
        let capacity = view.resources.len();
        let total = view.memory as f64 * rng.random_range(0.5..8.0);
        view.resources.push(Resource { name: "flash".into(), total });
        for pool in &mut view.pools {
            pool.demands.push(Demand::default());
            pool.grants.push(0.0);
            let mut units = |k| if k < capacity { rng.random_range(0.0..0.5) } else { 0.0 };
            let on_hit = (0..=capacity).map(&mut units).collect();
            let on_eviction = (0..=capacity).map(&mut units).collect();
            pool.flash = Some(Flash { capacity, on_hit, on_eviction });
        }
        view.validate().unwrap();
        check(&subject, &view, &(subject.make)().decide(&view), &format!("flash, seed {seed}"));
    }
}
