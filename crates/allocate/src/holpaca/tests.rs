//! HOLPACA's rules, round by round.

use curve::che;
use curve::{MissRatioCurve, Unit};

use super::*;

const KEYS: u64 = 2_000;
const MEMORY: u64 = 800_000;
/// Misses per second that each backend carries.
const BACKEND: f64 = 5000.0;

/// The paper's four tenants, a hundredth as large: Zipf 1.2, 0.9, 0.6, uniform.
fn view() -> View {
    let pools = [1.2, 0.9, 0.6, 0.0].into_iter().enumerate().map(|(i, exponent)| {
        let keys = che::zipf(KEYS, exponent, 1000.0);
        let curve = che::curve(Unit::Bytes, &keys, KEYS * 1000, 100);
        Pool::new(format!("T{}", i + 1), curve, MEMORY / 4)
    });
    let mut view = View { memory: MEMORY, resources: Vec::new(), pools: pools.collect(), ..View::default() };
    measure(&mut view);
    view
}

/// Sets the rates at which the backends carry what is missed.
fn measure(view: &mut View) {
    for pool in &mut view.pools {
        pool.request_rate = BACKEND / pool.curve.miss_ratio(pool.size as f64);
    }
}

fn apply(view: &mut View, decision: &Decision) {
    for (pool, grant) in view.pools.iter_mut().zip(&decision.grants) {
        (pool.size, pool.used) = (grant.memory, grant.memory);
    }
    measure(view);
}

fn run(policy: &mut Holpaca, view: &mut View, rounds: u32) -> Vec<Decision> {
    let decisions = (0..rounds).map(|_| {
        let decision = policy.decide(view);
        apply(view, &decision);
        decision
    });
    decisions.collect()
}

fn shares(view: &View) -> Vec<f64> {
    view.pools.iter().map(|pool| pool.size as f64 / view.memory as f64).collect()
}

fn total(view: &View) -> f64 {
    view.pools.iter().map(|pool| pool.request_rate).sum()
}

#[test]
fn memory_goes_to_the_most_skewed_by_a_hundredth_per_round_and_nobody_starves() {
    for mut policy in [Holpaca::default(), Holpaca::exact()] {
        let mut view = view();
        let equal = total(&view);
        let mut before = shares(&view);
        for round in 0..60 {
            run(&mut policy, &mut view, 1);
            let now = shares(&view);
            assert!((now.iter().sum::<f64>() - 1.0).abs() < 1e-12, "round {round}");
            for (now, before) in now.iter().zip(&before) {
                assert!((now - before).abs() <= 0.01 + 1e-6, "round {round}: {before} to {now}");
                assert!(*now >= 0.1 - 1e-6, "round {round}: {now} is under the floor");
            }
            before = now;
        }
        let gain = total(&view) / equal;
        assert!(gain > 1.4, "{}: {gain}, {before:?}", policy.name());
        assert!(before[0] > 0.69, "{before:?}");
    }
}

#[test]
fn without_a_floor_the_skewed_take_all() {
    let (mut policy, mut view) = (Holpaca::described(), view());
    run(&mut policy, &mut view, 52);
    let shares = shares(&view);
    assert!(shares[2] < 0.01 && shares[3] < 0.01, "{shares:?}");
}

#[test]
fn the_published_program_walks_at_random() {
    let (mut published, mut view) = (Holpaca::published(), view());
    let equal = total(&view);
    run(&mut published, &mut view, 20);
    assert!(total(&view) < 1.2 * equal, "{} of {equal}", total(&view));
}

#[test]
fn a_promise_is_grown_toward_and_then_kept() {
    let (mut policy, mut view) = (Holpaca::default(), view());
    let promise = 1.1 * view.pools[3].request_rate;
    view.pools[3].min_request_rate = promise;
    let decisions = run(&mut policy, &mut view, 30);
    assert!(decisions.iter().all(|decision| decision.unmet.is_empty()));
    assert!(view.pools[3].request_rate >= promise);
    let sizes = view.pools[3].size;
    run(&mut policy, &mut view, 20);
    assert!(view.pools[3].request_rate >= promise, "{sizes} then {}", view.pools[3].size);
    assert!(decisions[0].moves[0].reason.contains("was promised"), "{:?}", decisions[0].moves);
}

#[test]
fn what_nobody_could_keep_is_told_and_blocks_nobody() {
    let (mut policy, mut view) = (Holpaca::default(), view());
    view.pools[3].min_request_rate = 1e6;
    let decisions = run(&mut policy, &mut view, 60);
    let unmet = &decisions[0].unmet;
    assert_eq!((unmet.len(), unmet[0].pool), (1, 3));
    assert!(
        unmet[0].reason.starts_with("T4 was promised 1000000 requests per second; with all of the 781.25KiB")
    );
    assert!(shares(&view)[0] > 0.69, "{:?}", shares(&view));
}

#[test]
fn promises_that_need_more_than_there_is_are_kept_by_weight() {
    let mut view = view();
    for i in [2, 3] {
        let most = BACKEND / view.pools[i].curve.miss_ratio(0.7 * MEMORY as f64);
        view.pools[i].min_request_rate = most;
    }
    view.pools[3].weight = 2.0;
    let decision = Holpaca::exact().decide(&view);
    assert_eq!(decision.unmet.len(), 1);
    assert_eq!(decision.unmet[0].pool, 2);
    assert!(
        decision.unmet[0].reason.contains("beside the promises to others"),
        "{}",
        decision.unmet[0].reason
    );
}

#[test]
fn a_new_pool_gets_an_equal_share_at_once_and_one_that_left_leaves_its_memory_to_the_others() {
    let (mut policy, mut view) = (Holpaca::default(), view());
    let late = view.pools.pop().unwrap();
    for pool in &mut view.pools {
        pool.size = MEMORY / 3;
    }
    run(&mut policy, &mut view, 10);
    let before = shares(&view);
    assert!((before.iter().sum::<f64>() - 1.0).abs() < 1e-9, "what rounding left is given too: {before:?}");
    view.pools.push(Pool { size: 0, used: 0, ..late });
    run(&mut policy, &mut view, 1);
    let after = shares(&view);
    assert!((after[3] - 0.25).abs() < 1e-6, "{after:?}");
    for (before, after) in before.iter().zip(&after) {
        assert!((after - before * 0.75).abs() < 0.011, "others shrink in proportion: {before} to {after}");
    }
    view.pools.remove(0);
    run(&mut policy, &mut view, 1);
    assert!((shares(&view).iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn pools_that_know_and_serve_nothing_make_no_trouble() {
    let nothing = MissRatioCurve::new(Unit::Bytes, [curve::Point { size: 0, miss_ratio: 1.0 }]).unwrap();
    let pools = (0..3).map(|i| Pool::new(format!("p{i}"), nothing.clone(), 0));
    let view = View { memory: 999, resources: Vec::new(), pools: pools.collect(), ..View::default() };
    for entry in crate::registry::policies().iter().filter(|entry| entry.name.contains("holpaca")) {
        let decision = entry.make().decide(&view);
        assert_eq!(decision.grants.iter().map(|grant| grant.memory).sum::<u64>(), 999, "{}", entry.name);
    }
    let nobody = View { memory: 10, ..View::default() };
    assert!(Holpaca::default().decide(&nobody).grants.is_empty());
}
