use std::time::Duration;

use base::rng::{RngExt, seeded};
use memory::{CacheConfig, Clock, ItemOptions, PoolConfig};

use super::*;

/// Two pools of values of 1,000 bytes: one is asked for 6,000 keys, the other for 20,000, each as
/// often as any other of its pool.
struct Load {
    cache: Cache,
    clock: Clock,
    pools: [PoolId; 2],
    rng: base::rng::SeededRng,
}

const KEYS: [u32; 2] = [6_000, 20_000];

impl Load {
    fn new() -> Self {
        let clock = Clock::manual(1_000_000);
        let config = CacheConfig {
            memory: ByteSize::mib(32),
            clock: clock.clone(),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("a cache");
        let pools = ["small", "large"].map(|name| cache.add_pool(PoolConfig::named(name)).expect("a pool"));
        Self { cache, clock, pools, rng: seeded(1) }
    }

    /// Ten seconds, with this number of reads of each pool.
    fn run(&mut self, reads: u32) {
        for _ in 0..10 {
            for (pool, keys) in self.pools.into_iter().zip(KEYS) {
                for _ in 0..reads / 10 {
                    let key = self.rng.random_range(0..keys).to_le_bytes();
                    if self.cache.keys(pool).find(&key).is_none() {
                        let item = self.cache.allocate(pool, &key, 1_000, &ItemOptions::default());
                        self.cache.put(item.expect("room"));
                    }
                }
            }
            self.clock.advance(Duration::from_secs(1));
            self.cache.maintain().expect("nothing is held");
        }
    }
}

fn config(policy: &str) -> ControlConfig {
    let curves = CurveConfig { rate: 1.0, ..CurveConfig::default() };
    ControlConfig { policy: policy.to_owned(), curves, ..ControlConfig::default() }
}

#[test]
fn memory_goes_to_the_pool_that_misses_less_with_it() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("exact-hit-rate")).expect("a policy");
    let first = controller.round(&load.cache).expect("a round");
    assert!(first.applied);
    let (mut rounds, mut told) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        load.run(40_000);
        let round = controller.round(&load.cache).expect("a round");
        let sum: u64 = round.pools.iter().map(|pool| pool.granted_bytes).sum();
        assert!(sum <= round.memory_bytes, "{round:?}");
        for pool in &round.pools {
            told.extend(pool.predicted.zip(pool.missed));
        }
        rounds.push(round);
    }
    let last = rounds.last().expect("there are some");
    let [small, large] = &last.pools[..] else { panic!("two pools") };
    // 6,000 keys take some 7 MiB: half of the memory is more than they need.
    assert!(large.granted_bytes > 2 * small.granted_bytes, "{last:?}");
    assert!(small.missed.expect("it was read") < 0.05, "{last:?}");
    assert!(rounds.iter().any(|round| round.applied && !round.reasons.is_empty()));
    let errors: Vec<f64> = told[told.len() / 2..].iter().map(|(told, seen)| (told - seen).abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean < 0.02, "{errors:?}");
    load.cache.validate();
}

#[test]
fn a_dry_run_changes_nothing_and_tells_all() {
    let mut load = Load::new();
    let mut controller =
        Controller::new(ControlConfig { dry_run: true, ..config("exact-hit-rate") }).expect("a policy");
    for _ in 0..3 {
        let round = controller.round(&load.cache).expect("a round");
        assert!(!round.applied && round.pools.len() == 2);
        load.run(10_000);
    }
    assert!(load.cache.stats().pools.iter().all(|pool| pool.limit_bytes.is_none()));
}

#[test]
fn pools_that_are_not_named_keep_their_limits() {
    let load = Load::new();
    load.cache.set_pool_limit(load.pools[0], Some(ByteSize::mib(4))).expect("there is one");
    let mut controller =
        Controller::new(ControlConfig { pools: vec!["large".to_owned()], ..config("equal") }).expect("one");
    let round = controller.round(&load.cache).expect("a round");
    assert_eq!(round.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), ["large"]);
    let limits: Vec<Option<u64>> = load.cache.stats().pools.iter().map(|pool| pool.limit_bytes).collect();
    assert_eq!(limits, [Some(4 << 20), Some(round.pools[0].granted_bytes)]);
}

#[test]
fn a_policy_that_does_not_exist_is_refused_with_those_that_do() {
    let Err(refused) = Controller::new(config("best")) else { panic!("there is none") };
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("`best`") && refused.to_string().contains("hill-climbing"));
}

#[test]
fn every_policy_distributes_what_there_is_whatever_pools_there_are() {
    for entry in registry::policies() {
        let cache = Cache::new(CacheConfig::default()).expect("a cache");
        let mut controller = Controller::new(config(entry.name)).expect("a policy");
        assert!(controller.round(&cache).expect("a round").pools.is_empty(), "{}", entry.name);
        let mut load = Load::new();
        for round in 0..4 {
            let told = controller.round(&load.cache).expect("a round");
            let sum: u64 = told.pools.iter().map(|pool| pool.granted_bytes).sum();
            assert!(sum <= told.memory_bytes, "{}: {told:?}", entry.name);
            assert!(told.pools.iter().all(|pool| (0.0..=1.0).contains(&pool.expected)), "{told:?}");
            // Another pool comes, and goes.
            match round {
                1 => {
                    load.cache.add_pool(PoolConfig::named("third")).expect("a pool");
                }
                2 => {
                    let third = load.cache.pool_id("third").expect("it was added");
                    load.cache.remove_pool(third).expect("nothing is held");
                }
                _ => {}
            }
            load.run(4_000);
        }
        load.cache.validate();
    }
}
