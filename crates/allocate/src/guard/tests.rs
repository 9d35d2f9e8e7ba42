//! Each rail by itself.

use super::*;
use crate::holpaca::Holpaca;
use crate::most_hits::MostHits;
use crate::partition::Equal;
use crate::{Demand, Resource};
use curve::{MissRatioCurve, Point, Unit};

/// Wants all memory for the first pool.
#[derive(Clone)]
struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn decide(&mut self, view: &View) -> Decision {
        let floors: u64 = view.pools.iter().skip(1).map(|pool| pool.floor).sum();
        let grants = view.pools.iter().enumerate().map(|(i, pool)| Grant {
            memory: if i == 0 { (view.memory - floors).min(pool.ceiling) } else { pool.floor },
            ..Grant::present(pool)
        });
        Decision::to(view, grants.collect(), |_, _| "greed".to_owned())
    }
}

fn view(sizes: &[u64]) -> View {
    let pools = sizes.iter().enumerate().map(|(i, &size)| {
        let mut pool = Pool::new(format!("p{i}"), MissRatioCurve::uniform(Unit::Bytes, 10_000), size);
        pool.request_rate = 100.0;
        pool.place.node = 0;
        pool
    });
    View { memory: sizes.iter().sum(), resources: Vec::new(), pools: pools.collect(), ..View::default() }
}

fn sizes(decision: &Decision) -> Vec<u64> {
    decision.grants.iter().map(|grant| grant.memory).collect()
}

fn decide(view: &View, rails: Rails) -> Decision {
    Guarded::new(Greedy, rails).decide(view)
}

#[test]
fn no_pool_starves_and_none_has_all() {
    let view = view(&[1000, 1000, 1000, 1000]);
    let rails = Rails { least_share: 0.1, most_share: 0.5, ..Rails::default() };
    assert_eq!(sizes(&decide(&view, rails)), [2000, 100, 100, 100]);
}

#[test]
fn a_share_that_there_is_no_room_for_is_refused_in_words() {
    let mut view = view(&[1000, 1000]);
    view.pools[0].floor = 1200;
    let decision = decide(&view, Rails { least_share: 1.0, ..Rails::default() });
    assert_eq!(decision.unmet[0].pool, 1);
    assert!(
        decision.unmet[0].reason.starts_with("p1 cannot be kept at 1000B: with the floors"),
        "{}",
        decision.unmet[0].reason
    );
}

#[test]
fn a_round_moves_no_more_than_it_may() {
    let view = view(&[1000, 1000, 1000, 1000]);
    let by_pool = decide(&view, Rails { pool_step: 0.03, ..Rails::default() });
    assert_eq!(sizes(&by_pool), [1120, 960, 960, 960]);
    assert!(
        by_pool.moves[0].reason.ends_with("4.0 % of the way in this round"),
        "{}",
        by_pool.moves[0].reason
    );
    let in_sum = decide(&view, Rails { step: 0.015, ..Rails::default() });
    assert_eq!(sizes(&in_sum), [1060, 980, 980, 980]);
}

#[test]
fn what_is_hardly_better_is_left() {
    let mut view = view(&[1000, 1000]);
    view.pools[0].request_rate = 101.0;
    let rails = |hysteresis| Rails { hysteresis, ..Rails::default() };
    assert!(decide(&view, rails(0.01)).moves.is_empty());
    assert_eq!(decide(&view, rails(0.0001)).moves.len(), 1);
    // What breaks a bound cannot stay, whatever it would gain.
    view.memory = 1500;
    assert_eq!(sizes(&decide(&view, rails(0.5))), [1500, 0]);
}

/// Half of the memory saves half of 400 misses a second, and costs as many of 100 ones.
#[test]
fn nothing_moves_for_less_than_predictions_were_off() {
    let curve = MissRatioCurve::uniform(Unit::Bytes, 4 << 20);
    let mut view = view(&[2 << 20, 2 << 20]);
    view.pools.iter_mut().for_each(|pool| pool.curve = curve.clone().into());
    view.pools[0].request_rate = 400.0;
    let moved = |view: &mut View, doubt: [f64; 2]| {
        view.pools.iter_mut().zip(doubt).for_each(|(pool, doubt)| pool.doubt = doubt);
        decide(view, Rails { step: 0.1, ..Rails::default() }).moved_bytes()
    };
    assert!(moved(&mut view, [0.0, 0.0]) > 400 << 10);
    assert!(moved(&mut view, [0.25, 0.49]) > 400 << 10);
    assert_eq!(moved(&mut view, [0.25, 0.51]), 0);
    assert_eq!(moved(&mut view, [0.38, 0.0]), 0);
    // The first steps on the way to the end of a loop save nothing yet.
    let points =
        [(1, 1.0), (7 << 19, 1.0), (4 << 20, 0.0)].map(|(size, miss_ratio)| Point { size, miss_ratio });
    view.pools[0].curve = MissRatioCurve::new(Unit::Bytes, points).expect("a curve").into();
    assert!(moved(&mut view, [0.01, 0.01]) > 400 << 10);
}

#[test]
fn a_pool_whose_load_swings_does_not_hold_up_the_others() {
    let mut view = view(&[2 << 20; 3]);
    let steep = [(1, 1.0), (4 << 20, 0.0)].map(|(size, miss_ratio)| Point { size, miss_ratio });
    let flat = [(1, 0.52), (4 << 20, 0.5)].map(|(size, miss_ratio)| Point { size, miss_ratio });
    for (pool, (rate, points)) in view.pools.iter_mut().zip([(400.0, steep), (2_000.0, flat), (100.0, steep)])
    {
        pool.curve = MissRatioCurve::new(Unit::Bytes, points).expect("a curve").into();
        pool.request_rate = rate;
    }
    let mut decided = |doubt| {
        view.pools[1].doubt = doubt;
        let decision = Guarded::new(MostHits, Rails::default()).decide(&view);
        sizes(&decision).into_iter().map(|size| (size + (1 << 19)) >> 20).collect::<Vec<u64>>()
    };
    assert_eq!(decided(0.0), [4, 0, 2]);
    assert_eq!(decided(0.4), [4, 2, 0]);
}

#[test]
fn request_rates_are_smoothed() {
    /// Remembers what it was shown.
    #[derive(Clone)]
    struct Watch(Vec<f64>);
    impl Policy for Watch {
        fn name(&self) -> &'static str {
            "watch"
        }
        fn decide(&mut self, view: &View) -> Decision {
            self.0.push(view.pools[0].request_rate);
            Decision::stay(view)
        }
    }
    let mut guarded = Guarded::new(Watch(Vec::new()), Rails { smoothing: 0.3, ..Rails::default() });
    let mut view = view(&[1000]);
    for rate in [100.0, 200.0, 200.0] {
        view.pools[0].request_rate = rate;
        guarded.decide(&view);
    }
    assert_eq!(guarded.policy.0.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [100.0, 170.0, 191.0]);
}

#[test]
fn memory_stays_on_its_node() {
    let mut view = view(&[100, 300, 500, 700]);
    view.pools[2].place.node = 1;
    view.pools[3].place.node = 1;
    let decision = Guarded::new(Equal, Rails::default()).decide(&view);
    assert_eq!(sizes(&decision), [200, 200, 600, 600]);
    let rails = Rails { nodes: vec![(1, 1000)], ..Rails::default() };
    assert_eq!(sizes(&Guarded::new(Equal, rails).decide(&view)), [200, 200, 500, 500]);
}

/// A policy that remembers pools from round to round forgets who is not in the view: two nodes must
/// not be two views of one.
#[test]
fn what_a_policy_remembers_of_one_node_outlives_the_decision_on_the_other() {
    let mut both = view(&[4000, 4000, 4000, 4000]);
    for (i, pool) in both.pools.iter_mut().enumerate() {
        pool.request_rate = [900.0, 100.0, 200.0, 800.0][i];
        pool.place.node = i as u32 / 2;
    }
    let alone = |node: usize| {
        let pools = both.pools[2 * node..][..2].to_vec();
        View { memory: 8000, resources: Vec::new(), pools, ..View::default() }
    };
    let rounds = |policy: &mut dyn Policy, mut view: View| {
        for _ in 0..5 {
            let decision = policy.decide(&view);
            for (pool, grant) in view.pools.iter_mut().zip(&decision.grants) {
                (pool.size, pool.used) = (grant.memory, grant.memory);
            }
        }
        view.pools.iter().map(|pool| pool.size).collect::<Vec<_>>()
    };
    let expected = [0, 1].map(|node| rounds(&mut Holpaca::exact(), alone(node))).concat();
    assert_ne!(expected, [4000; 4], "nothing moves, so that nothing is shown");
    let guarded = &mut Guarded::new(Holpaca::exact(), Rails::default());
    assert_eq!(rounds(guarded, both), expected);
}

#[test]
fn an_instance_keeps_its_own_bound_and_its_neighbours_have_the_rest() {
    let mut view = view(&[100, 100, 100, 100]);
    for (i, pool) in view.pools.iter_mut().enumerate() {
        pool.place.instance = i as u32 / 2;
    }
    let rails = Rails { instances: vec![(view.pools[0].place, 250)], ..Rails::default() };
    let decision = decide(&view, rails);
    assert_eq!(sizes(&decision), [250, 0, 150, 0]);
}

#[test]
fn what_cannot_be_kept_is_said_with_figures() {
    let mut view = view(&[1000, 1000]);
    view.resources.push(Resource { name: "reads".into(), total: 100.0 });
    for pool in &mut view.pools {
        (pool.demands, pool.grants) = (vec![Demand::new(1.0, 1.0)], vec![50.0]);
    }
    view.pools[0].min_request_rate = 1e6;
    view.pools[1].min_request_rate = 60.0;
    let decision = Guarded::new(Equal, Rails::default()).decide(&view);
    let reasons: Vec<&str> = decision.unmet.iter().map(|unmet| unmet.reason.as_str()).collect();
    assert!(reasons[0].contains("can have 125.0 even alone: with 1.95KiB"), "{reasons:?}");
    assert!(reasons[1].contains("needs 54.0 reads/s") && !reasons[1].contains("even alone"), "{reasons:?}");
}
