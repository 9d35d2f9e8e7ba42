//! The world as a whole: against theory, against itself, and whatever happens.

use allocate::Policy;
use allocate::drf::Drf;
use allocate::hare::Hare;
use allocate::partition::Weighted;
use base::ByteSize;
use proptest::prelude::*;
use workload::{Popularity, Sizes};

use super::*;
use crate::scenario::{Apply, Backend, Change, Control, ItemCost, Pattern, Resource, Source, Tenant as Spec};

fn pattern(keys: u64, popularity: Popularity) -> Pattern {
    Pattern { keys, popularity, value_size: Sizes::fixed(84), ..Pattern::default() }
}

/// A tenant with objects of 100 bytes.
fn tenant(name: &str, keys: u64, popularity: Popularity, clients: u32) -> Spec {
    let load = Load::Closed { clients, think_ms: 0.0 };
    Spec { load, ..Spec::new(name, Source::Pattern(pattern(keys, popularity))) }
}

fn scenario(memory: u64, tenants: Vec<Spec>) -> Scenario {
    Scenario {
        duration_secs: 40.0,
        warm_up_secs: 10.0,
        memory: ByteSize::new(memory),
        item_cost: ItemCost::Bytes(0),
        tenants,
        ..Scenario::default()
    }
}

fn run_with(scenario: &Scenario, setup: Setup, seed: u64) -> Run {
    run(scenario, &prepare(scenario, seed).unwrap(), setup, seed, &mut |_| {})
}

/// Little's law: clients that each wait for a round trip, and for the backend where they miss.
#[test]
fn a_closed_loop_has_the_throughput_of_littles_law() {
    let scenario = scenario(50_000, vec![tenant("a", 1_000, Popularity::Uniform, 8)]);
    let run = run_with(&scenario, Setup::equal(), 1);
    let missed = 1.0 - run.totals[0].hit_ratio;
    let expected = 8.0 / (0.0002 + missed * 0.005);
    assert!((missed - 0.5).abs() < 0.01, "half of the keys fit, {missed} missed");
    assert!(
        (run.requests_per_sec() / expected - 1.0).abs() < 0.01,
        "{} for {expected}",
        run.requests_per_sec()
    );
    assert!(
        (run.totals[0].p50_ms / 0.2 - 1.0).abs() < 0.01 || (run.totals[0].p50_ms / 5.2 - 1.0).abs() < 0.01
    );
}

/// Mean value analysis of a closed network with one exponential server and a think time (Reiser and
/// Lavenberg, JACM 1980).
#[test]
fn a_queue_at_the_backend_has_the_throughput_of_mean_value_analysis() {
    let mut scenario = scenario(0, vec![tenant("a", 1_000, Popularity::Uniform, 6)]);
    scenario.duration_secs = 200.0;
    scenario.tenants[0].load = Load::Closed { clients: 6, think_ms: 20.0 };
    scenario.backend =
        Backend { latency_ms: 5.0, spread: Spread::Exponential, concurrency: 1, round_trip_ms: 0.2 };
    let (mut queue, mut throughput) = (0.0, 0.0);
    for clients in 1..=6 {
        let time_at_server = 0.005 * (1.0 + queue);
        throughput = f64::from(clients) / (0.0202 + time_at_server);
        queue = throughput * time_at_server;
    }
    let run = run_with(&scenario, Setup::equal(), 3);
    assert!(
        (run.requests_per_sec() / throughput - 1.0).abs() < 0.02,
        "{} for {throughput}",
        run.requests_per_sec()
    );
}

#[test]
fn a_limit_is_the_throughput_of_those_who_wait_for_it() {
    let mut scenario = scenario(
        0,
        vec![tenant("a", 1_000, Popularity::Uniform, 32), tenant("b", 1_000, Popularity::Uniform, 32)],
    );
    scenario.resources = vec![Resource::new("reads", Cost::ReadUnits, 2_000.0)];
    let run = run_with(&scenario, Setup::equal(), 1);
    for figures in &run.totals {
        assert!((figures.requests_per_sec - 1_000.0).abs() < 1.0, "{}", figures.requests_per_sec);
    }
}

/// An open loop at one exponential server is an M/M/1 queue: the time in it is exponential with
/// mean 1 / (service rate - arrival rate).
#[test]
fn an_open_loop_waits_as_a_queue_does() {
    let mut scenario = scenario(0, vec![tenant("a", 1_000, Popularity::Uniform, 1)]);
    scenario.duration_secs = 300.0;
    scenario.tenants[0].load = Load::Open { rate_per_sec: 500.0 };
    scenario.backend =
        Backend { latency_ms: 1.0, spread: Spread::Exponential, concurrency: 1, round_trip_ms: 0.2 };
    let figures = run_with(&scenario, Setup::equal(), 5).totals.remove(0);
    assert!((figures.requests_per_sec - 500.0).abs() < 8.0, "no more comes out than comes in");
    let quantile = |share: f64| 0.2 - 2.0 * (1.0 - share).ln();
    assert!((figures.p50_ms / quantile(0.5) - 1.0).abs() < 0.05, "{} ms", figures.p50_ms);
    assert!((figures.p99_ms / quantile(0.99) - 1.0).abs() < 0.1, "{} ms", figures.p99_ms);
}

/// Requests that arrive faster than they can be served wait, and are refused when too many wait.
#[test]
fn an_overload_is_refused_in_the_end() {
    let mut scenario = scenario(0, vec![tenant("a", 1_000, Popularity::Uniform, 1)]);
    scenario.tenants[0].load = Load::Open { rate_per_sec: 20_000.0 };
    scenario.resources = vec![Resource::new("reads", Cost::ReadUnits, 1_000.0)];
    let figures = run_with(&scenario, Setup::equal(), 5).totals.remove(0);
    assert!((figures.requests_per_sec - 1_000.0).abs() < 2.0);
    assert!((figures.refused as f64 / 30.0 - 19_000.0).abs() < 200.0, "{} refused", figures.refused);
}

/// Che's approximation against the simulated LRU.
#[test]
fn lru_misses_what_che_computes() {
    for alpha in [0.6, 0.9, 1.2] {
        let scenario = scenario(200_000, vec![tenant("a", 10_000, Popularity::Zipf { alpha }, 64)]);
        let run = run_with(&scenario, Setup::equal(), 2);
        let computed = curve::che::miss_ratio(&curve::che::zipf(10_000, alpha, 100.0), 200_000.0);
        let missed = 1.0 - run.totals[0].hit_ratio;
        assert!((missed - computed).abs() < 0.01, "{alpha}: {missed} simulated, {computed} computed");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let mut scenario = scenario(
        100_000,
        vec![
            tenant("a", 2_000, Popularity::Zipf { alpha: 0.9 }, 8),
            tenant("b", 1_000, Popularity::Uniform, 8),
        ],
    );
    scenario.duration_secs = 10.0;
    scenario.warm_up_secs = 1.0;
    scenario.control.interval_secs = 2.0;
    let weighted = || Setup::of(Box::new(Weighted));
    assert_eq!(run_with(&scenario, weighted(), 4), run_with(&scenario, weighted(), 4));
    assert_ne!(run_with(&scenario, weighted(), 4), run_with(&scenario, weighted(), 5));
}

/// A policy that moves everything about at random, within the totals.
struct Restless(SeededRng);

impl Policy for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn decide(&mut self, view: &allocate::View) -> allocate::Decision {
        use base::rng::RngExt as _;
        let weights: Vec<f64> = view.pools.iter().map(|_| self.0.random::<f64>()).collect();
        let grants = allocate::partition::shares(view, &weights);
        allocate::Decision::to(view, grants, |_, _| "a whim".to_owned())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Each record of a test run validates the world: memory is never given twice, no request is
    /// lost.
    #[test]
    fn nothing_is_lost_whatever_is_decided(
        seed in 0_u64..1000,
        apply in 0_usize..4,
        chunk in 1_000_u64..50_000,
        clients in proptest::collection::vec(0_u32..12, 2..4),
        scan_length in 1_u32..5,
        concurrency in 0_u32..3,
    ) {
        let tenants = clients.iter().enumerate().map(|(i, &clients)| {
            let mut spec = tenant(&format!("t{i}"), 500 + 300 * i as u64, Popularity::Zipf { alpha: 0.7 }, clients);
            spec.changes.push(Change { at_secs: 3.0, clients: Some(6), keys: Some(900), ..Change::default() });
            spec.changes.push(Change { at_secs: 5.0, clients: Some(2), writes: Some(0.5), scan_length: Some(scan_length), ..Change::default() });
            spec
        });
        let mut scenario = scenario(60_000, tenants.collect());
        scenario.duration_secs = 8.0;
        scenario.warm_up_secs = 1.0;
        scenario.record_secs = 0.25;
        scenario.backend.concurrency = concurrency;
        scenario.resources = vec![
            Resource::new("reads", Cost::ReadUnits, 900.0),
            Resource { limiter: LimiterKind::Frames, ..Resource::new("writes", Cost::WriteUnits, 500.0) },
            Resource::new("network", Cost::Network, 400_000.0),
        ];
        let apply = [Apply::Rounds, Apply::Boost, Apply::Unthrottled, Apply::AtOnce][apply];
        scenario.control = Control {
            interval_secs: 1.0, chunk: ByteSize::new(chunk), apply, poll_secs: 0.1,
            ..Control::default()
        };
        let run = run_with(&scenario, Setup::of(Box::new(Restless(seeded(seed)))), seed);
        prop_assert!(run.intervals.len() >= 31);
        for interval in &run.intervals {
            for figures in &interval.tenants {
                prop_assert!(figures.used <= figures.memory);
            }
        }
        if apply == Apply::Rounds {
            prop_assert!(run.rounds.iter().all(|round| round.bytes <= chunk + 1));
        }
    }
}

#[test]
fn a_shared_cache_favours_who_asks_most() {
    let mut scenario = scenario(
        100_000,
        vec![tenant("busy", 2_000, Popularity::Uniform, 30), tenant("calm", 2_000, Popularity::Uniform, 2)],
    );
    let shared = run_with(&scenario, Setup::non_partitioned(), 1);
    assert!(shared.totals[0].memory > 5.0 * shared.totals[1].memory);
    scenario.tenants[1].weight = 3.0;
    let apart = run_with(&scenario, Setup::equal(), 1);
    assert_eq!([apart.totals[0].memory, apart.totals[1].memory], [25_000.0, 75_000.0], "by weight");
}

/// A loop that an equal share just holds is all hits there. A curve that has its cliff a little
/// further on says that it misses all: then HARE and DRF take the processor from it that it seems
/// not to use, and leave it a fraction of its equal share.
#[test]
fn a_loop_that_just_fits_its_share_keeps_what_it_has_there() {
    for keys in [656, 1_000, 1_024] {
        let share = keys * 100;
        let mut scenario = scenario(
            2 * share,
            vec![
                tenant("loop", keys, Popularity::Scan, 16),
                tenant("other", 4 * keys, Popularity::Uniform, 16),
            ],
        );
        scenario.resources = vec![
            Resource::new("device", Cost::FetchedBytes, 2e5),
            Resource::new("processor", Cost::RequestBytes, 1e6),
        ];
        scenario.backend.latency_ms = 0.5;
        let now = Control { interval_secs: 1.0, window: 1, apply: Apply::Unthrottled, ..Control::default() };
        scenario.control = Control { poll_secs: 0.1, sample_one_in: 1, ..now };
        let equal = run_with(&scenario, Setup::equal(), 1);
        assert!(equal.totals[0].hit_ratio > 0.999, "it fits");
        for policy in [Box::<Drf>::default() as Box<dyn Policy>, Box::<Hare>::default()] {
            let run = run_with(&scenario, Setup::of(policy), 1);
            let least = run.least_normalised(&equal);
            assert!(least > 0.98, "{} with {keys} keys: {:?}", run.policy, run.normalised(&equal));
        }
    }
}

/// A scan that does not fit hits nothing under LRU, however much it has. Split on its cliff, it
/// hits as its curve's hull says.
#[test]
fn a_cache_on_a_cliff_follows_the_hull_where_a_decision_splits_it() {
    let tenants =
        vec![tenant("scan", 8_000, Popularity::Scan, 8), tenant("hot", 6_000, Popularity::Uniform, 8)];
    let mut scenario = scenario(1_000_000, tenants);
    scenario.control = Control { interval_secs: 2.0, sample_one_in: 4, ..Control::default() };
    for eviction in ["exact-lru", "lru:0"] {
        scenario.eviction = eviction.parse().unwrap();
        let hits = |policy: &str| {
            let policy = allocate::registry::by_name(policy).unwrap();
            let run = run_with(&scenario, Setup::of(policy), 7);
            let figures = &run.totals[0];
            (figures.hit_ratio, figures.memory / 800_000.0)
        };
        let (whole, _) = hits("dynacache");
        assert!(whole < 0.01, "{eviction}: {whole} without a split");
        let (hit_ratio, hull) = hits("talus");
        let case = format!("{eviction}: {hit_ratio}, the hull says {hull}");
        assert!(hull > 0.3 && hull < 0.99, "{case}: it shows nothing");
        // A margin of 5 % of the left partition's share, which hits nothing here.
        assert!(hit_ratio > hull - 0.06 && hit_ratio < hull + 0.01, "{case}");
        // The other one moves memory in every round, so that its queues are never quite filled.
        let (hit_ratio, _) = hits("cliffhanger");
        assert!(hit_ratio > 0.25, "{eviction}: {hit_ratio} by cliffhanger");
    }
}
