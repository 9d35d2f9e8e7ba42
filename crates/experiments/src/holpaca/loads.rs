//! X44: the local loop on loads that mislead it, over the engine in virtual time, beside the same
//! load without a policy.

use std::time::Duration;

use base::rng::{RngExt, SeededRng, seeded};
use millpond::control::{ControlConfig, Controller};
use millpond::watch::CurveConfig;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PolicyKind, PoolConfig, PoolId};
use rand_distr::{Distribution, Zipf};
use simulate::table::Table;

use crate::report::{Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// The gain and the cost of the loop if curves, sizes or changes mislead it.
pub(super) const X44: Experiment = Experiment {
    name: "X44",
    paper: HOLPACA,
    figure: "loads that it does not have",
    title: "memory that moves costs hits nowhere, and reaches a loop that needs much of it",
    run,
};

const WARM_SECS: u32 = 60;
const RUN_SECS: u32 = 240;
/// The last seconds, which show where it rests.
const LAST_SECS: u32 = 60;
const TICKS_PER_SEC: u32 = 100;
const SEEDS: u64 = 3;
/// Keys of a second load begin here.
const OTHER: u64 = 1 << 32;

/// Keys of a tenant.
#[derive(Clone, Copy)]
enum Load {
    /// Of this many, by an exponent of popularity.
    Zipf(f64, f64),
    /// This many, one after the other.
    Loop(u64),
    /// Three of five requests like the first, and two of five in a loop.
    Mixed(f64, f64, u64),
    /// The first until some time after the start, and then the second, of the same number of keys.
    Changes(u32, [f64; 2], f64),
    /// The first and the second in turn, for some seconds each.
    Swings(u32, [f64; 2], f64),
}

/// A tenant: its load, requests per second, and bytes of values.
type Tenant = (Load, u32, &'static [usize]);

struct Case {
    name: &'static str,
    policy: PolicyKind,
    memory: ByteSize,
    tenants: &'static [Tenant],
    /// The least of all hits, of those without a policy.
    least: f64,
}

const ONE: &[usize] = &[1_000];
const UNLIKE: &[usize] = &[100, 300, 700, 1_500, 4_000];
const MIXED: [Tenant; 4] = [
    (Load::Mixed(40_000.0, 1.1, 10_000), 3_000, UNLIKE),
    (Load::Mixed(40_000.0, 0.9, 20_000), 3_000, UNLIKE),
    (Load::Mixed(40_000.0, 0.6, 5_000), 3_000, UNLIKE),
    (Load::Mixed(40_000.0, 0.3, 30_000), 3_000, UNLIKE),
];
const SWAPPED: [Tenant; 3] = [
    (Load::Changes(120, [1.0, 0.3], 40_000.0), 4_000, ONE),
    (Load::Zipf(40_000.0, 0.8), 3_000, ONE),
    (Load::Changes(120, [0.3, 1.0], 40_000.0), 4_000, ONE),
];
const SWINGING: [Tenant; 3] = [
    (Load::Swings(20, [1.0, 0.3], 40_000.0), 4_000, ONE),
    (Load::Zipf(40_000.0, 0.8), 3_000, ONE),
    (Load::Swings(20, [0.3, 1.0], 40_000.0), 4_000, ONE),
];
const BY_POPULARITY: [Tenant; 4] = [
    (Load::Zipf(60_000.0, 1.1), 3_000, UNLIKE),
    (Load::Zipf(60_000.0, 0.9), 3_000, UNLIKE),
    (Load::Zipf(60_000.0, 0.6), 3_000, UNLIKE),
    (Load::Zipf(60_000.0, 0.0), 3_000, UNLIKE),
];
const ON_A_CLIFF: [Tenant; 2] = [(Load::Loop(30_000), 4_000, ONE), (Load::Zipf(60_000.0, 0.7), 4_000, ONE)];

const LOOP: &str = "a loop of 30,000 keys beside popularity";
const LOOPS: &str = "popularity and loops, values of 100 to 4,000 B";
const SWAP: &str = "two tenants swap their loads after two minutes";

const CASES: [Case; 8] = [
    case(LOOP, PolicyKind::LRU, 48, &ON_A_CLIFF, 1.5),
    case(LOOP, PolicyKind::S3_FIFO, 48, &ON_A_CLIFF, 1.2),
    case(LOOPS, PolicyKind::LRU, 64, &MIXED, 0.98),
    case(LOOPS, PolicyKind::S3_FIFO, 64, &MIXED, 0.98),
    case("popularity, values of 100 to 4,000 B", PolicyKind::LRU, 48, &BY_POPULARITY, 1.0),
    case(SWAP, PolicyKind::LRU, 64, &SWAPPED, 1.0),
    case(SWAP, PolicyKind::S3_FIFO, 64, &SWAPPED, 1.0),
    case("two tenants swap their loads each 20 s", PolicyKind::LRU, 64, &SWINGING, 0.98),
];

const fn case(
    name: &'static str,
    policy: PolicyKind,
    mib: u64,
    tenants: &'static [Tenant],
    least: f64,
) -> Case {
    Case { name, policy, memory: ByteSize::mib(mib), tenants, least }
}

/// A tenant's keys, one after the other.
struct Keys {
    load: Load,
    zipf: [Option<Zipf<f64>>; 2],
    at: u64,
    rng: SeededRng,
}

impl Keys {
    fn new(load: Load, seed: u64) -> Result<Self, String> {
        let zipf =
            |keys: f64, exponent: f64| Zipf::new(keys, exponent).map(Some).map_err(|error| error.to_string());
        let zipf = match load {
            Load::Zipf(keys, exponent) | Load::Mixed(keys, exponent, _) => [zipf(keys, exponent)?, None],
            Load::Changes(_, exponents, keys) | Load::Swings(_, exponents, keys) => {
                [zipf(keys, exponents[0])?, zipf(keys, exponents[1])?]
            }
            Load::Loop(_) => [None, None],
        };
        Ok(Self { load, zipf, at: 0, rng: seeded(seed) })
    }

    fn in_turn(&mut self, keys: u64) -> u64 {
        self.at = (self.at + 1) % keys;
        OTHER + self.at
    }

    /// The next key, in this second since the policy began, or before that.
    fn next(&mut self, second: Option<u32>) -> u64 {
        let second = second.unwrap_or(0);
        let which = match self.load {
            Load::Loop(keys) => return self.in_turn(keys),
            Load::Mixed(.., keys) if self.rng.random_bool(0.4) => return self.in_turn(keys),
            Load::Zipf(..) | Load::Mixed(..) => 0,
            Load::Changes(at, ..) => usize::from(second >= at),
            Load::Swings(secs, ..) => (second / secs % 2) as usize,
        };
        self.zipf[which].map_or(0, |zipf| zipf.sample(&mut self.rng) as u64)
    }
}

struct Machine {
    cache: Cache,
    clock: Clock,
    tenants: Vec<(PoolId, Keys, Tenant)>,
}

impl Machine {
    fn new(case: &Case, seed: u64) -> Result<Self, String> {
        let clock = Clock::manual(1_000);
        let config = CacheConfig {
            memory: case.memory,
            clock: clock.clone(),
            hash_seed: Some(seed),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let failed = |error: millpond::Error| error.to_string();
        let cache = Cache::new(config).map_err(failed)?;
        let tenants = case.tenants.iter().zip(1..).map(|(&tenant, number)| {
            let pool = PoolConfig { policy: case.policy, ..PoolConfig::named(format!("T{number}")) };
            Ok((cache.add_pool(pool).map_err(failed)?, Keys::new(tenant.0, seed + number)?, tenant))
        });
        let tenants = tenants.collect::<Result<_, String>>()?;
        Ok(Self { cache, clock, tenants })
    }

    /// One second; returns reads and hits.
    fn second(&mut self, second: Option<u32>) -> Result<(u64, u64), String> {
        let (mut reads, mut hits) = (0, 0);
        for _ in 0..TICKS_PER_SEC {
            for (pool, keys, (_, rate, sizes)) in &mut self.tenants {
                for _ in 0..*rate / TICKS_PER_SEC {
                    let number = keys.next(second);
                    let key = number.to_le_bytes();
                    reads += 1;
                    if self.cache.keys(*pool).find_with(&key, |_| ()).is_some() {
                        hits += 1;
                        continue;
                    }
                    let size = sizes[(number.wrapping_mul(2_654_435_761) >> 7) as usize % sizes.len()];
                    let item = self.cache.allocate(*pool, &key, size, &ItemOptions::default());
                    self.cache.put(item.map_err(|error| error.to_string())?);
                }
            }
            self.clock.advance(Duration::from_secs(1) / TICKS_PER_SEC);
        }
        self.cache.maintain().map_err(|error| error.to_string())?;
        Ok((reads, hits))
    }
}

/// The outcome of a run: hit ratios of all, and of the last seconds, and what moved, of the memory.
struct Outcome {
    hit: f64,
    last: f64,
    moved: f64,
}

fn simulate(case: &Case, seed: u64, has_policy: bool) -> Result<Outcome, String> {
    let mut machine = Machine::new(case, seed)?;
    for _ in 0..WARM_SECS {
        machine.second(None)?;
    }
    let config = ControlConfig {
        curves: Some(CurveConfig { keys: 1_024, rate: 1.0 / 8.0, ..CurveConfig::default() }),
        ..ControlConfig::default()
    };
    let mut controller = Controller::new(config).map_err(|error| error.to_string())?;
    let (mut next, mut moved, mut all, mut last) = (Duration::ZERO, 0, (0, 0), (0, 0));
    for second in 0..RUN_SECS {
        let now = Duration::from_secs(second.into());
        if has_policy && next <= now {
            let round = controller.round(&machine.cache).map_err(|error| error.to_string())?;
            next = now + round.next;
            moved += round.moves.iter().map(|step| step.bytes).sum::<u64>();
        }
        let (reads, hits) = machine.second(Some(second))?;
        all = (all.0 + reads, all.1 + hits);
        if second >= RUN_SECS - LAST_SECS {
            last = (last.0 + reads, last.1 + hits);
        }
    }
    let ratio = |(reads, hits): (u64, u64)| hits as f64 / reads as f64;
    Ok(Outcome { hit: ratio(all), last: ratio(last), moved: moved as f64 / case.memory.as_u64() as f64 })
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut table = Table::new(
        "hit ratios without a policy and with it, over four minutes and in the last one, and what moved, of the memory",
        ["load", "eviction", "seed", "without", "with", "last, without", "with", "moved"],
    );
    for (at, case) in CASES.iter().enumerate() {
        let mut least = f64::INFINITY;
        for number in 1..=SEEDS {
            let seed = context.seed(1_000 * at as u64 + 10 * number);
            let outcomes = [false, true].map(|has_policy| simulate(case, seed, has_policy));
            match outcomes {
                [Ok(without), Ok(with)] => {
                    least = least.min(with.hit / without.hit);
                    let mut row = vec![case.name.to_owned(), case.policy.to_string(), number.to_string()];
                    row.extend(
                        [without.hit, with.hit, without.last, with.last].map(|ratio| format!("{ratio:.4}")),
                    );
                    row.push(format!("{:.2}", with.moved));
                    table.row(row);
                }
                [one, other] => {
                    let error = one.err().or(other.err()).unwrap_or_default();
                    report.check(Criterion::holds("it runs", false, error, "no error"));
                }
            }
            context
                .progress((at as f64 * SEEDS as f64 + number as f64) / (CASES.len() as f64 * SEEDS as f64));
        }
        report.check(
            Criterion::number(
                format!("{}, {}: hits, of those without a policy", case.name, case.policy),
                least,
            )
            .decimals(3)
            .unit("x")
            .at_least(case.least),
        );
    }
    report.table(table);
    report.note("Each is the worst of three seeds.");
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps that bring nothing by themselves were doubted, and a pool was brought to the edge.
    #[test]
    fn a_loop_gets_what_it_needs_on_a_seed_that_is_not_reported() {
        let [without, with] = [false, true].map(|has_policy| simulate(&CASES[0], 7, has_policy));
        let (without, with) = (without.expect("it runs"), with.expect("it runs"));
        assert!(with.last > 2.0 * without.last, "{} and {}", with.last, without.last);
        assert!(with.moved < 0.5, "{} moved", with.moved);
    }
}
