use std::time::Duration;

use base::rng::{RngExt, seeded};
use memory::{CacheConfig, Clock, ItemOptions, PoolConfig};

use super::look::CURVES_PART;
use super::*;

/// Two pools of values of 1,000 bytes. Of the small one nearly all reads are for 6,000 keys, and
/// one in `rare` is for any of a million; all reads of the large one are for 20,000 keys. So both
/// want all memory, and more of it is of use to the large one alone.
struct Load {
    cache: Cache,
    clock: Clock,
    pools: [PoolId; 2],
    /// 0: never.
    rare: u32,
    /// False once nobody reads the small pool any more.
    reads_small: bool,
    rng: base::rng::SeededRng,
}

const KEYS: [u32; 2] = [6_000, 20_000];

impl Load {
    fn new() -> Self {
        let clock = Clock::manual(1_000_000);
        let config = CacheConfig {
            memory: ByteSize::mib(32),
            clock: clock.clone(),
            hash_seed: Some(1),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("a cache");
        let pools = ["small", "large"].map(|name| cache.add_pool(PoolConfig::named(name)).expect("a pool"));
        Self { cache, clock, pools, rare: 20, reads_small: true, rng: seeded(1) }
    }

    /// Ten seconds, with this number of reads of each pool.
    fn run(&mut self, reads: u32) {
        for _ in 0..10 {
            for (pool, keys) in self.pools.into_iter().zip(KEYS) {
                let reads = if self.reads_small || keys == KEYS[1] { reads } else { 0 };
                for _ in 0..reads / 10 {
                    let is_rare =
                        keys == KEYS[0] && self.rare > 0 && self.rng.random_range(0..self.rare) == 0;
                    let keys = if is_rare { 1_000_000 } else { keys };
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
    let curves = Some(CurveConfig { rate: 1.0, ..CurveConfig::default() });
    ControlConfig { policy: policy.to_owned(), curves, ..ControlConfig::default() }
}

fn granted(round: &Round) -> u64 {
    round.pools.iter().map(|pool| pool.granted_bytes).sum()
}

/// The mean difference between predicted and measured miss ratios, over the later half of rounds.
fn mean_error(rounds: &[Round]) -> f64 {
    let told = rounds[rounds.len() / 2..].iter().flat_map(|round| &round.pools);
    let errors: Vec<f64> = told.filter_map(|pool| Some((pool.predicted? - pool.missed?).abs())).collect();
    assert!(errors.len() >= rounds.len() / 2, "{rounds:#?}");
    errors.iter().sum::<f64>() / errors.len() as f64
}

#[test]
fn memory_goes_to_the_pool_that_misses_less_with_it() {
    let mut load = Load::new();
    load.rare = 4;
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    let mut rounds = Vec::new();
    for _ in 0..14 {
        load.run(40_000);
        let round = controller.round(&load.cache).expect("a round");
        assert!(!round.is_decided || granted(&round) <= round.memory_bytes, "{round:?}");
        rounds.push(round);
    }
    let last = rounds.last().expect("there are some");
    let [small, large] = &last.pools[..] else { panic!("two pools") };
    // 6,000 keys take some 7 MiB: half of the memory is more than they need.
    assert!(large.slab_bytes > 2 * small.slab_bytes, "{last:?}");
    assert!(large.granted_bytes > 2 * small.granted_bytes, "{last:?}");
    assert!(small.missed.expect("it was read") < 0.3, "{last:?}");
    assert!(rounds.iter().any(|round| round.is_applied && !round.moves.is_empty()));
    assert!(mean_error(&rounds) < 0.02, "{rounds:#?}");
    load.cache.validate();
}

#[test]
fn a_pool_keeps_what_it_would_have_to_fill_again_after_a_pause() {
    let mut load = Load::new();
    // Half of the keys fit: while both are read, those of the small pool are worth three times as
    // much as the others.
    load.cache.set_memory(ByteSize::mib(16)).expect("it is empty");
    load.rare = 0;
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    let mut granted = |load: &mut Load, rounds: usize| {
        let mut last = 0;
        for _ in 0..rounds {
            load.run(40_000);
            last = controller.round(&load.cache).expect("a round").pools[0].granted_bytes;
        }
        last
    };
    let before = granted(&mut load, 10);
    load.reads_small = false;
    let kept = granted(&mut load, 3);
    assert!(kept >= before / 4 * 3, "{kept} of {before} after 30 s");
    let gone = granted(&mut load, 40);
    assert!(gone < before / 2, "{gone} of {before} after some minutes");
}

#[test]
fn nothing_is_decided_while_memory_is_free() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("equal")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    load.run(2_000);
    let round = controller.round(&load.cache).expect("a round");
    assert!(!round.is_decided && !round.is_applied && round.moves.is_empty(), "{round:?}");
    assert_eq!(round.idle, Some(Idle::Free));
    assert!(load.cache.stats().pools.iter().all(|pool| pool.granted_bytes.is_none()));
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_the_policy_would_do() {
    let mut load = Load::new();
    let dry = ControlConfig { dry_run: true, ..config("most-hits") };
    let mut controller = Controller::new(dry).expect("a policy");
    let mut rounds = Vec::new();
    for _ in 0..6 {
        rounds.push(controller.round(&load.cache).expect("a round"));
        load.run(40_000);
    }
    let last = rounds.last().expect("there are some");
    assert!(last.is_decided && !last.moves.is_empty(), "{last:#?}");
    let [small, large] = &last.pools[..] else { panic!("two pools") };
    assert!(large.granted_bytes > large.before_bytes && small.granted_bytes < small.before_bytes);
    assert!(rounds.iter().all(|round| !round.is_applied));
    assert!(load.cache.stats().pools.iter().all(|pool| pool.granted_bytes.is_none()));
}

#[test]
fn a_dry_run_that_follows_moves_nothing_either() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    let grants =
        |load: &Load| load.cache.stats().pools.iter().map(|pool| pool.granted_bytes).collect::<Vec<_>>();
    for _ in 0..6 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let before = grants(&load);
    assert!(before.iter().all(Option::is_some));
    controller.set_dry_run(true);
    // The other one would be granted more now.
    load.reads_small = false;
    for _ in 0..6 {
        assert!(!controller.round(&load.cache).expect("a round").is_applied);
        load.run(40_000);
    }
    assert_eq!(grants(&load), before);
}

#[test]
fn a_policy_that_knows_no_promises_says_so() {
    let mut load = Load::new();
    let promises = HashMap::from([("small".to_owned(), 100.0)]);
    let mut controller =
        Controller::new(ControlConfig { promises, ..config("most-hits") }).expect("a policy");
    for _ in 0..2 {
        let round = controller.round(&load.cache).expect("a round");
        assert!(
            round.unmet.iter().any(|unmet| unmet.contains("promises to small are not looked at")),
            "{round:?}"
        );
        load.run(2_000);
    }
}

/// While memory is free nothing is decided, and grants stayed above what there was left.
#[test]
fn grants_follow_memory_that_is_lowered() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    for _ in 0..3 {
        load.run(10_000);
        controller.round(&load.cache).expect("curves can be learnt");
    }
    for pool in load.pools {
        load.cache.set_pool_limit(pool, Some(ByteSize::mib(4))).expect("nothing is held");
    }
    load.cache.set_memory(ByteSize::mib(16)).expect("nothing is held");
    load.clock.advance(Duration::from_secs(10));
    let round = controller.round(&load.cache).expect("curves can be learnt");
    assert!(!round.is_decided && granted(&round) <= round.memory_bytes, "{round:#?}");
    let granted: u64 = load.cache.stats().pools.iter().filter_map(|pool| pool.granted_bytes).sum();
    assert!(granted <= round.memory_bytes, "{granted} of {}", round.memory_bytes);
}

#[test]
fn a_reserve_that_is_raised_holds_while_decisions_wait() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    for _ in 0..6 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let granted = |load: &Load| load.cache.stats().pools[0].granted_bytes.expect("it was granted some");
    let reserve = granted(&load) + (4 << 20);
    // The wait begins anew.
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    load.cache.set_pool_share(load.pools[0], ByteSize::new(reserve), 1).expect("there is one");
    load.clock.advance(Duration::from_secs(1));
    let round = controller.round(&load.cache).expect("a round");
    assert!(!round.is_decided && round.is_applied, "{round:#?}");
    assert!(granted(&load) >= reserve, "{} of {reserve}", granted(&load));
    assert!(round.fitted.iter().any(|step| step.reason.contains("is to have")), "{round:#?}");
    // And so does memory that is lowered by less than a move that is told.
    load.cache.set_memory(ByteSize::new((32 << 20) - (64 << 10))).expect("nothing is held");
    load.clock.advance(Duration::from_secs(1));
    let round = controller.round(&load.cache).expect("a round");
    let sum: u64 = load.cache.stats().pools.iter().filter_map(|pool| pool.granted_bytes).sum();
    assert!(!round.is_decided && sum <= round.memory_bytes, "{sum} of {}", round.memory_bytes);
}

#[test]
fn what_a_pool_does_not_use_of_its_grant_others_use() {
    let mut load = Load::new();
    load.rare = 0;
    // Nothing is gained by it.
    let mut controller =
        Controller::new(ControlConfig { rails: Rails::default(), ..config("equal") }).expect("a policy");
    for _ in 0..4 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let granted = controller.round(&load.cache).expect("a round");
    let [small, large] = &granted.pools[..] else { panic!("two pools") };
    assert!(small.granted_bytes.abs_diff(large.granted_bytes) < 16, "{granted:#?}");
    assert!(large.slab_bytes > large.granted_bytes + (4 << 20), "{granted:#?}");
    // Nobody takes what the small one has grown into.
    assert!(small.missed.expect("it was read") < 0.02, "{granted:#?}");
}

#[test]
fn reserves_and_limits_bound_what_is_granted() {
    let mut load = Load::new();
    let [small, large] = load.pools;
    load.cache.set_pool_share(small, ByteSize::mib(12), 1).expect("there is one");
    load.cache.set_pool_limit(large, Some(ByteSize::mib(17))).expect("there is one");
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    for _ in 0..6 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let last = controller.round(&load.cache).expect("a round");
    assert!(last.is_decided, "{last:#?}");
    assert!(last.pools[0].granted_bytes >= 12 << 20 && last.pools[1].granted_bytes <= 17 << 20, "{last:#?}");
}

#[test]
fn reserves_beyond_the_memory_are_told_and_count_in_part() {
    let mut load = Load::new();
    for pool in load.pools {
        load.cache.set_pool_share(pool, ByteSize::mib(20), 1).expect("there is one");
    }
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    load.run(40_000);
    let round = controller.round(&load.cache).expect("a round");
    assert!(granted(&round) <= round.memory_bytes, "{round:#?}");
    assert!(round.unmet.iter().any(|unmet| unmet.contains("reserves add up to 40MiB")), "{round:#?}");
}

#[test]
fn pools_without_a_curve_have_their_shares_by_weight() {
    let mut load = Load::new();
    load.cache.set_pool_share(load.pools[0], ByteSize::new(0), 3).expect("there is one");
    let without = ControlConfig { curves: None, ..config("most-hits") };
    let mut controller = Controller::new(without).expect("a policy");
    load.rare = 2;
    for _ in 0..6 {
        controller.round(&load.cache).expect("a round");
        load.run(60_000);
    }
    let last = controller.round(&load.cache).expect("a round");
    assert!(last.is_decided, "{last:#?}");
    assert!(last.pools[0].granted_bytes.abs_diff(last.memory_bytes / 4 * 3) < 64 << 10, "{last:#?}");
    assert!(last.unmet.iter().any(|unmet| unmet.contains("of 2 pools") && unmet.contains("small, large")));
}

/// A hundred and fifty pools, of which few have curves: nobody has a hundredth of all reads.
#[test]
fn pools_without_a_curve_lose_nothing_to_those_that_have_one() {
    let mut load = Load::new();
    let others = |number: u32| format!("p{number}");
    for number in 0..150 {
        load.cache.add_pool(PoolConfig::named(others(number))).expect("a pool");
    }
    let curves = Some(CurveConfig { rate: 1.0, ..CurveConfig::default() });
    for pool in load.pools {
        load.cache.set_curve(pool, curves).expect("there is room");
    }
    let without = ControlConfig { curves: None, ..config("most-hits") };
    let mut controller = Controller::new(without).expect("a policy");
    for _ in 0..6 {
        for number in 0..150 {
            let pool = load.cache.pool_id(&others(number)).expect("it was added");
            for key in 0..40_u32 {
                if load.cache.keys(pool).find(&key.to_le_bytes()).is_none() {
                    let item = load.cache.allocate(pool, &key.to_le_bytes(), 1_000, &ItemOptions::default());
                    load.cache.put(item.expect("room"));
                }
            }
        }
        load.run(2_000);
        controller.round(&load.cache).expect("a round");
    }
    load.run(20_000);
    let last = controller.round(&load.cache).expect("a round");
    assert!(last.is_decided, "{last:#?}");
    let share = last.memory_bytes / 152;
    for pool in &last.pools[2..] {
        // Twice what they use, as they may soon use that.
        let soon = share.min(2 * pool.slab_bytes);
        assert!(pool.slab_bytes > 0 && pool.granted_bytes + 4096 >= soon, "{pool:?} has not {soon}");
    }
}

#[test]
fn a_pool_that_is_not_read_gives_what_others_can_use() {
    let mut load = Load::new();
    load.cache.add_pool(PoolConfig::named("idle")).expect("a pool");
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    for _ in 0..4 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    load.reads_small = false;
    for _ in 0..24 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let round = controller.round(&load.cache).expect("a round");
    let [small, large, idle] = &round.pools[..] else { panic!("three pools") };
    // All 20,000 items of the large one fit, without the memory of the small one's.
    assert!(small.granted_bytes < 7 << 20, "{round:#?}");
    // Nothing is known of the idle one, which has a part of its share to begin with.
    let share = round.memory_bytes / 3;
    assert!((share / 20..share / 8).contains(&idle.granted_bytes), "{round:#?}");
    assert!(large.missed.expect("it was read") < 0.01, "{round:#?}");
}

/// The small pool gains fewer hits by a byte than the large one, but each of its misses costs its
/// clients ten thousand times as much.
#[test]
fn time_saved_counts_misses_by_what_they_cost() {
    let granted = |objective, miss_costs: &[(&str, u64)]| {
        let mut load = Load::new();
        let costs =
            miss_costs.iter().map(|(name, millis)| ((*name).to_owned(), Duration::from_millis(*millis)));
        let config = ControlConfig { objective, miss_costs: costs.collect(), ..config("most-hits") };
        let mut controller = Controller::new(config).expect("a policy");
        for _ in 0..10 {
            controller.round(&load.cache).expect("a round");
            load.run(40_000);
        }
        let round = controller.round(&load.cache).expect("a round");
        (round.pools[0].granted_bytes, round.pools[0].miss_cost)
    };
    let (by_hits, _) = granted(Objective::Hits, &[("small", 10_000), ("large", 1)]);
    let (by_time, cost) = granted(Objective::TimeSaved, &[("small", 10_000), ("large", 1)]);
    assert!(by_time > by_hits + (1 << 20), "{by_time} is not more than {by_hits}");
    assert_eq!(cost, Some(Duration::from_secs(10)));
}

/// The large pool gains more throughput by memory; the small one is promised what it has with most
/// of its items.
#[test]
fn a_promise_gets_the_memory_that_it_needs_and_one_that_cannot_be_kept_is_told() {
    let after = |promised: f64| {
        let mut load = Load::new();
        load.rare = 2;
        let promises = HashMap::from([("small".to_owned(), promised)]);
        let backends = HashMap::from([("small".to_owned(), 1_000.0), ("large".to_owned(), 1_000.0)]);
        let config = ControlConfig { promises, backends, ..config("exact-throughput") };
        let mut controller = Controller::new(config).expect("a policy");
        for _ in 0..12 {
            controller.round(&load.cache).expect("a round");
            load.run(40_000);
        }
        controller.round(&load.cache).expect("a round")
    };
    let (none, kept) = (after(0.0), after(1_900.0));
    let (without, with) = (&none.pools[0], &kept.pools[0]);
    assert!(with.granted_bytes > without.granted_bytes + (1 << 20), "{none:#?} {kept:#?}");
    // With half of its reads beyond what memory holds, 1,000 misses/s are 2,000 reads/s at most.
    assert!(kept.unmet.is_empty(), "{kept:#?}");
    let broken = after(4_000.0);
    assert!(broken.unmet.iter().any(|unmet| unmet.contains("small was promised 4000.0")), "{broken:#?}");
    assert!(granted(&broken) <= broken.memory_bytes);
}

#[test]
fn a_promise_that_is_not_kept_is_told_while_decisions_wait() {
    let mut load = Load::new();
    // Curves stay after one that decides nothing.
    Controller::new(config("most-hits")).expect("a policy").round(&load.cache).expect("a round");
    (0..3).for_each(|_| load.run(40_000));
    let promises = HashMap::from([("small".to_owned(), 400_000.0)]);
    let backends = HashMap::from([("small".to_owned(), 1_000.0)]);
    let config = ControlConfig { promises, backends, ..config("exact-throughput") };
    let mut controller = Controller::new(config).expect("a policy");
    controller.round(&load.cache).expect("a round");
    for _ in 0..3 {
        load.clock.advance(Duration::from_secs(1));
        let round = controller.round(&load.cache).expect("a round");
        assert!(!round.is_decided && round.moves.is_empty() && round.pools[0].curve.is_some());
        assert!(round.unmet.iter().any(|unmet| unmet.contains("small was promised 400000.0")), "{round:#?}");
    }
}

#[test]
fn a_pool_that_comes_later_takes_nothing_before_it_wants_it() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    for _ in 0..8 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let before = controller.round(&load.cache).expect("a round");
    load.cache.add_pool(PoolConfig::named("third")).expect("a pool");
    load.run(40_000);
    let after = controller.round(&load.cache).expect("a round");
    for (before, after) in before.pools.iter().zip(&after.pools) {
        assert!(before.slab_bytes.abs_diff(after.slab_bytes) < 2 << 20, "{before:?} {after:?}");
    }
}

#[test]
fn shares_by_weight_are_followed_though_they_save_no_misses() {
    let mut load = Load::new();
    load.cache.set_pool_share(load.pools[0], ByteSize::new(0), 4).expect("there is one");
    let mut controller = Controller::new(config("weighted")).expect("a policy");
    for _ in 0..10 {
        controller.round(&load.cache).expect("a round");
        load.run(40_000);
    }
    let round = controller.round(&load.cache).expect("a round");
    assert!(round.pools[0].granted_bytes.abs_diff(round.memory_bytes / 5 * 4) < 64 << 10, "{round:#?}");
}

#[test]
fn a_round_at_the_same_moment_decides_nothing_and_loses_no_count() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    load.run(60_000);
    controller.round(&load.cache).expect("a round");
    assert!(!controller.round(&load.cache).expect("a round").is_decided);
    load.run(60_000);
    let round = controller.round(&load.cache).expect("a round");
    assert!(round.pools.iter().all(|pool| (pool.reads_per_sec - 6_000.0).abs() < 1.0), "{round:#?}");
}

#[test]
fn of_pools_that_share_keys_no_miss_ratio_is_told() {
    let mut load = Load::new();
    for name in ["hot", "cold"] {
        load.cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named(name) }).expect("a pool");
    }
    let hot = load.cache.pool_id("hot").expect("it was added");
    load.pools[0] = hot;
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    load.run(40_000);
    let round = controller.round(&load.cache).expect("a round");
    let hot = round.pools.iter().find(|pool| pool.name == "hot").expect("it is told of");
    assert_eq!((hot.missed, (hot.reads_per_sec - 4_000.0).abs() < 40.0), (None, true), "{hot:?}");
}

#[test]
fn curves_take_a_small_part_of_the_memory_however_many_pools_there_are() {
    let load = Load::new();
    for number in 0..200 {
        load.cache.add_pool(PoolConfig::named(format!("p{number}"))).expect("a pool");
    }
    let fixed = || load.cache.ledger().part(Part::Fixed);
    let before = fixed();
    let mut controller = Controller::new(config("most-hits")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    assert!(fixed() - before <= ByteSize::mib(32).as_u64() / CURVES_PART, "{}", fixed() - before);
}

#[test]
fn rails_that_are_no_shares_are_refused() {
    for step in [-0.1, 1.5, f64::NAN] {
        let rails = Rails { step, ..Rails::default() };
        let Err(refused) = Controller::new(ControlConfig { rails, ..config("equal") }) else {
            panic!("{step} is no share")
        };
        assert!(refused.to_string().contains("shares from 0 to 1"), "{refused}");
    }
}

#[test]
fn the_end_takes_all_grants_back() {
    let mut load = Load::new();
    let mut controller = Controller::new(config("equal")).expect("a policy");
    controller.round(&load.cache).expect("a round");
    load.run(200_000);
    assert!(controller.round(&load.cache).expect("a round").is_applied);
    controller.end(&load.cache);
    assert!(load.cache.stats().pools.iter().all(|pool| pool.granted_bytes.is_none()));
}

#[test]
fn the_time_to_the_next_round_is_the_period_or_chosen() {
    let mut load = Load::new();
    let fixed = ControlConfig { period: Some(Duration::from_secs(7)), ..config("equal") };
    let mut controller = Controller::new(fixed).expect("a policy");
    assert_eq!(controller.round(&load.cache).expect("a round").next, Duration::from_secs(7));
    let mut controller = Controller::new(config("equal")).expect("a policy");
    assert_eq!(controller.round(&load.cache).expect("a round").next, Duration::from_secs(2));
    let mut longest = Duration::ZERO;
    for _ in 0..14 {
        load.run(40_000);
        longest = longest.max(controller.round(&load.cache).expect("a round").next);
    }
    assert_eq!(longest, Duration::from_secs(30), "the load does not change");
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
        let mut decided = 0;
        for round in 0..5 {
            let told = controller.round(&load.cache).expect("a round");
            decided += u32::from(told.is_decided);
            assert!(!told.is_decided || granted(&told) <= told.memory_bytes, "{}: {told:?}", entry.name);
            let mut expected = told.pools.iter().filter_map(|pool| pool.expected);
            assert!(expected.all(|expected| (0.0..=1.0).contains(&expected)), "{told:?}");
            // Another pool comes, and goes.
            match round {
                2 => {
                    load.cache.add_pool(PoolConfig::named("third")).expect("a pool");
                }
                3 => {
                    let third = load.cache.pool_id("third").expect("it was added");
                    load.cache.remove_pool(third).expect("nothing is held");
                }
                _ => {}
            }
            load.run(30_000);
        }
        assert!(decided >= 2, "{}", entry.name);
        load.cache.validate();
    }
}
