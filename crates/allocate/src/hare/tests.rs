//! Against the paper's figures, and the values that the authors' own engine is tested with.

use super::*;
use crate::drf::Drf;
use crate::{Demand, Grant, Pool, Resource};
use curve::{MissRatioCurve, Point, Unit};

const MB: u64 = 1_000_000;

fn resources(totals: &[(&str, f64)]) -> Vec<Resource> {
    totals.iter().map(|&(name, total)| Resource { name: name.into(), total }).collect()
}

fn pool(name: &str, curve: MissRatioCurve, demands: &[Demand]) -> Pool {
    let mut pool = Pool::new(name, curve, 0);
    (pool.demands, pool.grants) = (demands.to_vec(), vec![0.0; demands.len()]);
    pool
}

fn uniform(bytes: u64) -> MissRatioCurve {
    MissRatioCurve::uniform(Unit::Bytes, bytes)
}

fn curve(points: &[(u64, f64)]) -> MissRatioCurve {
    MissRatioCurve::new(Unit::Bytes, points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio }))
        .unwrap()
}

fn exact() -> Settings {
    Settings { salt: 0.0, least_share: 0.0, apply_threshold: 0.0, ..Settings::default() }
}

#[track_caller]
fn assert_near(figures: &[f64], expected: &[f64], tolerance: f64) {
    let near = figures.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance);
    assert!(near && figures.len() == expected.len(), "{figures:?}, expected {expected:?}");
}

/// Section 3.2.2: 4 GB and 3 GB/s between a working set of 5 GB and one of 8 GB.
fn two_tenants() -> View {
    let megabyte = [Demand::new(1.0, 1.0)];
    View {
        memory: 4000 * MB,
        resources: resources(&[("bandwidth", 3000.0)]),
        pools: vec![pool("A", uniform(5000 * MB), &megabyte), pool("B", uniform(8000 * MB), &megabyte)],
        ..View::default()
    }
}

#[test]
fn the_papers_example_comes_out_exactly_at_any_chunk() {
    for (mode, megabytes, rounds) in
        [512, 256, 64, 32].into_iter().zip([4, 8, 32, 64]).flat_map(|(megabytes, rounds)| {
            [Mode::Repaired, Mode::Published].map(|mode| (mode, megabytes, rounds))
        })
    {
        let view = two_tenants();
        let chunk = 2000 * MB * megabytes / 2048;
        let allocation = allocate(&view, &Settings { chunk: Some(chunk), mode, ..exact() });
        assert_eq!(allocation.deals.len(), rounds, "{mode:?}, chunks of {megabytes} of 2048");
        assert_eq!(allocation.grants[0].memory, 4000 * MB);
        assert_near(&allocation.harvest, &[500.0], 1.0);
        let bandwidth: Vec<f64> = allocation.grants.iter().map(|grant| grant.resources[0]).collect();
        assert_near(&bandwidth, &[600.0, 2400.0], 0.01);
        let normalised = fairness::normalised(&view, &fairness::baseline(&view), &allocation.grants);
        assert_near(&normalised, &[1.2, 1.2], 1e-6);
    }
}

#[test]
fn drf_shares_dominant_resources_equally() {
    let rigid =
        |reads, writes| [Demand { fixed: reads, on_miss: 0.0 }, Demand { fixed: writes, on_miss: 0.0 }];
    let view = View {
        memory: 100,
        resources: resources(&[("read-units", 1200.0), ("write-units", 1200.0)]),
        pools: vec![pool("A", uniform(10), &rigid(1.0, 2.0)), pool("B", uniform(10), &rigid(4.0, 1.0))],
        ..View::default()
    };
    let strict = Drf { conserving: false, ..Drf::default() }.decide(&view);
    assert_near(&strict.grants[0].resources, &[400.0, 800.0], 1e-6);
    assert_near(&strict.grants[1].resources, &[800.0, 200.0], 1e-6);
    let conserving = Drf::default().decide(&view);
    assert_near(&conserving.grants[0].resources, &[400.0, 960.0], 1e-6);
    assert_near(&conserving.grants[1].resources, &[800.0, 240.0], 1e-6);
    for decision in [strict, conserving] {
        let throughput: Vec<f64> = decision.after.iter().map(|outcome| outcome.throughput).collect();
        assert_near(&throughput, &[400.0, 200.0], 1e-6);
    }
}

/// Read units, write units and network, of which hits save all, nothing and nothing.
fn units(reads: f64, writes: f64, network: f64) -> [Demand; 3] {
    [Demand::new(reads, 1.0), Demand::new(writes, 0.0), Demand::new(network, 0.0)]
}

fn engine_totals(tenants: f64) -> Vec<Resource> {
    resources(&[("read-units", 2.0 * tenants), ("write-units", 2.0 * tenants), ("network", 16.0 * tenants)])
}

#[test]
fn opposite_ratios_of_reads_and_writes_swap_units() {
    let all_missed = || curve(&[(10, 1.0), (100, 1.0)]);
    let view = View {
        memory: 40,
        resources: engine_totals(2.0),
        pools: vec![
            pool("1", all_missed(), &units(0.8, 0.2, 4.0)),
            pool("2", all_missed(), &units(0.2, 0.8, 4.0)),
        ],
        ..View::default()
    };
    let allocation = allocate(&view, &Settings { chunk: Some(10), ..exact() });
    assert_near(&allocation.grants[0].resources, &[3.2, 0.8, 16.0], 0.01);
    assert_near(&allocation.grants[1].resources, &[0.8, 3.2, 16.0], 0.01);
}

#[test]
fn trade_ends_where_a_resource_that_hits_do_not_save_becomes_dominant() {
    let view = View {
        memory: 80,
        resources: engine_totals(2.0),
        pools: vec![
            pool(
                "1",
                curve(&[(20, 0.9), (40, 0.85), (60, 0.8), (80, 0.7), (100, 0.5)]),
                &units(0.8, 0.2, 4.0),
            ),
            pool(
                "2",
                curve(&[(20, 0.8), (40, 0.6), (60, 0.3), (80, 0.2), (100, 0.15)]),
                &units(0.8, 0.2, 4.0),
            ),
        ],
        ..View::default()
    };
    for mode in [Mode::Repaired, Mode::Published] {
        let allocation = allocate(&view, &Settings { chunk: Some(10), mode, ..exact() });
        let memory: Vec<u64> = allocation.grants.iter().map(|grant| grant.memory).collect();
        assert_eq!(memory, [20, 60]);
        assert_near(&allocation.grants[0].resources, &[2.75, 1.69, 13.56], 0.01);
        assert_near(&allocation.grants[1].resources, &[1.25, 2.31, 18.44], 0.01);
    }
}

#[test]
fn tenants_that_are_alike_do_not_trade() {
    let alike = || curve(&[(10, 0.9), (20, 0.8), (40, 0.7), (80, 0.6), (100, 0.4)]);
    let pools = (0..4).map(|i| pool(&i.to_string(), alike(), &units(0.5, 0.5, 4.0)));
    let view = View { memory: 80, resources: engine_totals(4.0), pools: pools.collect(), ..View::default() };
    let allocation = allocate(&view, &Settings { mode: Mode::Published, chunk: Some(10), ..exact() });
    for grant in &allocation.grants {
        assert_eq!(grant, &Grant { memory: 20, resources: vec![2.0, 2.0, 16.0] });
    }
}

#[test]
fn tenants_that_miss_nothing_get_what_drf_gives() {
    let demands = [Demand::new(1.0, 1.0)];
    let view = View {
        memory: 4000,
        resources: resources(&[("bandwidth", 3000.0)]),
        pools: vec![pool("A", uniform(500), &demands), pool("B", uniform(1800), &demands)],
        ..View::default()
    };
    for salt in [0.0, 0.01] {
        for mode in [Mode::Repaired, Mode::Published] {
            let hare = allocate(&view, &Settings { salt, mode, ..exact() });
            let drf = without_trade(&view, &Settings { salt, mode, ..exact() }, &fairness::baseline(&view));
            assert_eq!(hare.grants, drf.grants);
            assert_eq!(hare.grants[0].resources, [1500.0]);
        }
    }
}

#[test]
fn a_cliff_that_is_wider_than_a_chunk_is_crossed_by_a_wide_deal() {
    // A scan of 3000 gets nothing from less; the others get little from more.
    let demands = [Demand::new(1.0, 1.0)];
    let scan = || curve(&[(2999, 1.0), (3000, 0.02)]);
    let view = View {
        memory: 4000,
        resources: resources(&[("bandwidth", 3000.0)]),
        pools: vec![
            pool("scan", scan(), &demands),
            pool("b", uniform(100_000), &demands),
            pool("c", uniform(100_000), &demands),
            pool("d", uniform(100_000), &demands),
        ],
        ..View::default()
    };
    let settings = Settings { chunk: Some(10), ..exact() };
    let published = allocate(&view, &Settings { mode: Mode::Published, ..settings.clone() });
    assert!(published.improvement < 0.011, "{}", published.improvement);
    let repaired = allocate(&view, &settings);
    assert!(repaired.grants[0].memory >= 3000, "{:?}", repaired.grants);
    assert!(repaired.improvement > 0.25, "{}", repaired.improvement);
}

#[test]
fn a_promise_comes_before_what_others_gain_but_not_before_their_baseline() {
    let mut view = two_tenants();
    view.pools[1].min_request_rate = 2450.0;
    let decision = Hare { settings: exact() }.decide(&view);
    assert!(decision.unmet.is_empty(), "{:?}", decision.unmet);
    assert!(decision.after[1].throughput >= 2450.0 * (1.0 - 1e-6), "{:?}", decision.after);
    assert!(decision.after[0].throughput >= 2500.0 * (1.0 - 1e-6), "{:?}", decision.after);
    view.pools[1].min_request_rate = 20_000.0;
    let decision = Hare { settings: exact() }.decide(&view);
    assert!(decision.after[0].throughput >= 2500.0 * (1.0 - 1e-6), "{:?}", decision.after);
    assert_eq!(decision.unmet[0].pool, 1);
    assert!(
        decision.unmet[0].reason.starts_with("B was promised 20000.0 requests/s"),
        "{}",
        decision.unmet[0].reason
    );
}

#[test]
fn an_allocation_that_is_hardly_better_is_not_applied() {
    let mut view = two_tenants();
    let best = Hare { settings: exact() }.decide(&view);
    let mut hare = Hare { settings: Settings { apply_threshold: 0.05, ..exact() } };
    for (pool, grant) in view.pools.iter_mut().zip(&best.grants) {
        (pool.size, pool.grants) = (grant.memory, grant.resources.clone());
    }
    assert!(hare.decide(&view).after[1].throughput < 2450.0);
    view.pools[1].min_request_rate = 2450.0;
    assert!(hare.decide(&view).after[1].throughput >= 2450.0 * (1.0 - 1e-6), "a promise is kept at once");
    view.pools[1].min_request_rate = 0.0;
    // 4 % less of the working set doesn't justify a move; a quarter is.
    view.pools[1].curve = uniform(7700 * MB).into();
    assert!(hare.decide(&view).moves.is_empty());
    view.pools[1].curve = uniform(2500 * MB).into();
    let decision = hare.decide(&view);
    assert!(!decision.moves.is_empty());
    assert!(decision.moves[0].reason.contains("bandwidth/s"), "{}", decision.moves[0].reason);
}

#[test]
fn a_bound_on_tail_latency_is_kept_by_what_a_tenant_needs() {
    let mut view = two_tenants();
    // Misses that are work for 10 ms of an equal share; clients that ask for nine tenths of what it
    // carries.
    view.resources[0].total = 200.0;
    view.pools[0].curve = curve(&[(2000 * MB, 0.3), (4000 * MB, 0.01)]).into();
    let baseline = fairness::baseline(&view);
    for (pool, grant) in view.pools.iter_mut().zip(&baseline) {
        pool.request_rate = 0.9 * crate::Outcome::of(pool, grant).throughput;
    }
    let bound = TailBound { share: 0.001, seconds: 0.2, ..TailBound::default() };
    let latencies = |settings: &Settings| tail::latencies(&view, &allocate(&view, settings).grants, &bound);
    let equal = tail::latencies(&view, &baseline, &bound);
    let most: Vec<f64> = equal.iter().map(|before| before.max(bound.seconds) * (1.0 + 1e-6)).collect();
    let free = latencies(&exact());
    assert!(free[0] > most[0], "{free:?} without a bound, {equal:?} at first: this example shows nothing");
    let kept = latencies(&Settings { tail: Some(bound), ..exact() });
    assert!(kept.iter().zip(&most).all(|(after, most)| after <= most), "{kept:?}, not {most:?}");
}

/// Section 3.3: `Δr_i = r_i · α_i · Δm / (1 - α_i + α_i · m)`, with salt in `m` (section 4.3).
#[test]
fn what_is_relinquished_and_compensated_is_the_papers_equation() {
    let alphas = [1.0, 0.5, 0.0];
    let demands = [1.0, 500.0, 2.0].into_iter().zip(alphas).map(|(d, alpha)| Demand::new(d, alpha));
    let demands: Vec<Demand> = demands.collect();
    let view = View {
        memory: 400,
        resources: resources(&[("read-units", 1000.0), ("network", 2e5), ("write-units", 3000.0)]),
        pools: vec![
            pool("A", curve(&[(100, 0.7), (190, 0.4), (230, 0.1)]), &demands),
            pool("B", curve(&[(150, 0.9), (300, 0.6)]), &demands),
        ],
        ..View::default()
    };
    for salt in [0.0, 0.01] {
        let settings = Settings { mode: Mode::Published, salt, chunk: Some(20), ..exact() };
        let market = market::Market::initialize(&view, &settings, false, &fairness::baseline(&view));
        for (who, tenant) in market.tenants.iter().enumerate() {
            let misses = |size: u64| tenant.pool.curve.miss_ratio(size as f64);
            let size = tenant.has[market::MEMORY];
            for ((i, owned), alpha) in tenant.needs().enumerate().zip(alphas) {
                let units =
                    |delta_m: f64| owned * alpha * delta_m / (1.0 - alpha + alpha * (misses(size) + salt));
                let relinquished = market.relinquish(i, who, market::MEMORY, 20).expect("there is room");
                let compensated = market.compensation(i, who, market::MEMORY, 20).expect("it has a chunk");
                let expected = [misses(size) - misses(size + 20), misses(size - 20) - misses(size)];
                assert_near(&[relinquished, compensated], &expected.map(units), 1e-9);
                assert_eq!(relinquished > 0.0, alpha > 0.0, "{} of {i}", tenant.pool.name);
            }
        }
    }
}

/// Section 3.4, step 3: each gets `r_harvest · r_t / r_sum` of each resource beside what it owns.
#[test]
fn the_harvest_is_weighted_by_what_tenants_own() {
    let demands = [Demand::new(1.0, 1.0), Demand::new(3.0, 0.5)];
    let view = View {
        memory: 4000 * MB,
        resources: resources(&[("bandwidth", 3000.0), ("network", 30_000.0)]),
        pools: vec![pool("A", uniform(5000 * MB), &demands), pool("B", uniform(8000 * MB), &demands)],
        ..View::default()
    };
    let allocation = allocate(&view, &exact());
    assert!(!allocation.deals.is_empty() && allocation.harvest.iter().all(|&harvest| harvest > 100.0));
    for resource in 0..2 {
        let sum: f64 = allocation.held.iter().map(|held| held[resource]).sum();
        for (grant, held) in allocation.grants.iter().zip(&allocation.held) {
            let more = allocation.harvest[resource] * held[resource] / sum;
            assert_near(&[grant.resources[resource]], &[held[resource] + more], 1e-6);
        }
    }
}
