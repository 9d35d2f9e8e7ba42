//! X43: the local loop over the engine, in virtual time: what L1 and L3 measure with a server and
//! a clock, on several seeds.

use std::time::Duration;

use base::rng::{SeededRng, seeded};
use millpond::control::{ControlConfig, Controller, Rails};
use millpond::watch::CurveConfig;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};
use rand_distr::{Distribution, Zipf};
use simulate::table::Table;

use crate::report::{Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// The loop with live curves, and nothing that depends on a machine.
pub(super) const X43: Experiment = Experiment {
    name: "X43",
    paper: HOLPACA,
    figure: "figures 5 and 6, synthetic, over the engine",
    title: "promises are kept and throughput grows by curves that are learnt while memory moves",
    run,
};

/// L1's tenants: exponents of popularity, keys, bytes of a value, and fetches per second of each
/// one's backend.
const EXPONENTS: [f64; 4] = [1.2, 0.9, 0.6, 0.0];
const KEYS: f64 = 200_000.0;
const VALUE_BYTES: usize = 1_000;
const BACKEND_PER_SEC: u32 = 2_000;
const MEMORY: ByteSize = ByteSize::mib(90);
/// Most reads of a tenant per second.
const READS_PER_SEC: u32 = 60_000;
/// Reads that a client has under way at a time.
const BATCH: f64 = 64.0;
const TICKS_PER_SEC: u32 = 100;
/// Seconds with equal shares, of which the last are measured, and under the policy, of which the
/// first third is for memory to move.
const EQUAL_SECS: usize = 60;
const BASE_SECS: usize = 30;
const MOVED_SECS: usize = 180;
/// Seconds over which a promise is to be kept.
const SPELL_SECS: usize = 5;
const SEEDS: u64 = 3;

/// The aim of a run.
struct Aim {
    name: &'static str,
    policy: &'static str,
    /// The promise to each tenant, as a part of its throughput with equal shares.
    promised: f64,
    /// The part of an equal share that each tenant keeps.
    least_share: f64,
    /// The least throughput of all, of that with equal shares.
    least_gain: f64,
}

const AIMS: [Aim; 3] = [
    Aim {
        name: "0.95 promised",
        policy: "exact-throughput",
        promised: 0.95,
        least_share: 0.1,
        least_gain: 1.1,
    },
    Aim {
        name: "most throughput",
        policy: "exact-throughput",
        promised: 0.0,
        least_share: 0.4,
        least_gain: 1.4,
    },
    Aim { name: "most hits", policy: "most-hits", promised: 0.0, least_share: 0.4, least_gain: 1.0 },
];

/// A tenant, whose client looks aside.
struct Tenant {
    pool: PoolId,
    keys: Zipf<f64>,
    rng: SeededRng,
    /// Fetches that its backend can make now.
    fetches: f64,
}

struct Machine {
    cache: Cache,
    clock: Clock,
    tenants: Vec<Tenant>,
}

impl Machine {
    fn new(context: &Context, seed: u64) -> Result<Self, String> {
        let clock = Clock::manual(1_000);
        let config = CacheConfig {
            memory: MEMORY,
            clock: clock.clone(),
            hash_seed: Some(context.seed(100 * seed)),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let failed = |error: millpond::Error| error.to_string();
        let cache = Cache::new(config).map_err(failed)?;
        let tenants = EXPONENTS.into_iter().zip(1..).map(|(exponent, number)| {
            Ok(Tenant {
                pool: cache.add_pool(PoolConfig::named(format!("T{number}"))).map_err(failed)?,
                keys: Zipf::new(KEYS, exponent).map_err(|error| error.to_string())?,
                rng: seeded(context.seed(100 * seed + number)),
                fetches: 0.0,
            })
        });
        let tenants = tenants.collect::<Result<_, String>>()?;
        Ok(Self { cache, clock, tenants })
    }

    /// One second; returns the reads of each tenant.
    fn second(&mut self) -> Result<[f64; 4], String> {
        let mut reads = [0; 4];
        for _ in 0..TICKS_PER_SEC {
            for (tenant, reads) in self.tenants.iter_mut().zip(&mut reads) {
                let fetches = tenant.fetches + f64::from(BACKEND_PER_SEC / TICKS_PER_SEC);
                tenant.fetches = fetches.min(BATCH);
                let most = *reads + READS_PER_SEC / TICKS_PER_SEC;
                while tenant.fetches >= 1.0 && *reads < most {
                    *reads += 1;
                    let key = (tenant.keys.sample(&mut tenant.rng) as u64).to_le_bytes();
                    if self.cache.keys(tenant.pool).find_with(&key, |_| ()).is_none() {
                        tenant.fetches -= 1.0;
                        let item =
                            self.cache.allocate(tenant.pool, &key, VALUE_BYTES, &ItemOptions::default());
                        self.cache.put(item.map_err(|error| error.to_string())?);
                    }
                }
            }
            self.clock.advance(Duration::from_secs(1) / TICKS_PER_SEC);
        }
        self.cache.maintain().map_err(|error| error.to_string())?;
        Ok(reads.map(f64::from))
    }
}

/// The outcome of a run.
struct Outcome {
    /// The part of spells in which the worst served tenant has what it was promised.
    kept: f64,
    /// Throughput of all, of that with equal shares.
    gain: f64,
    /// Of each tenant.
    gains: [f64; 4],
    /// Bytes that moved once all had had time to, of the memory.
    moved: f64,
    /// The mean difference of predicted and measured miss ratios, and how many were compared.
    error: f64,
    compared: usize,
}

fn simulate(context: &Context, aim: &Aim, seed: u64) -> Result<Outcome, String> {
    let mut machine = Machine::new(context, seed)?;
    let mut equal = [0.0; 4];
    for second in 0..EQUAL_SECS {
        let reads = machine.second()?;
        if second >= EQUAL_SECS - BASE_SECS {
            std::iter::zip(&mut equal, reads).for_each(|(sum, reads)| *sum += reads / BASE_SECS as f64);
        }
    }
    let names = (1..).map(|number| format!("T{number}"));
    let of_all = |value: &dyn Fn(usize) -> f64| names.clone().zip((0..4).map(value)).collect();
    let config = ControlConfig {
        policy: aim.policy.to_owned(),
        promises: of_all(&|tenant| aim.promised * equal[tenant]),
        backends: of_all(&|_| f64::from(BACKEND_PER_SEC)),
        rails: Rails { least_share: aim.least_share, ..ControlConfig::default().rails },
        curves: Some(CurveConfig { keys: 1_024, rate: 1.0 / 8.0, ..CurveConfig::default() }),
        ..ControlConfig::default()
    };
    let mut controller = Controller::new(config).map_err(|error| error.to_string())?;
    let (mut next, mut moved, mut errors, mut course) = (Duration::ZERO, 0, Vec::new(), Vec::new());
    for second in 0..MOVED_SECS {
        if next <= Duration::from_secs(second as u64) {
            let round = controller.round(&machine.cache).map_err(|error| error.to_string())?;
            next = Duration::from_secs(second as u64) + round.next;
            let told = round.pools.iter().filter_map(|pool| Some((pool.predicted? - pool.missed?).abs()));
            errors.extend(told);
            if second >= MOVED_SECS / 3 {
                moved += round.moves.iter().map(|step| step.bytes).sum::<u64>();
            }
        }
        course.push(machine.second()?);
    }
    let warm = &course[MOVED_SECS / 3..];
    let mean = |seconds: &[[f64; 4]], tenant: usize| {
        seconds.iter().map(|second| second[tenant]).sum::<f64>() / seconds.len() as f64
    };
    let kept = (0..4).map(|tenant| {
        let spells = warm.chunks_exact(SPELL_SECS);
        let all = spells.len() as f64;
        spells.filter(|spell| mean(spell, tenant) >= aim.promised * equal[tenant]).count() as f64 / all
    });
    let after = [0, 1, 2, 3].map(|tenant| mean(warm, tenant));
    Ok(Outcome {
        kept: kept.fold(f64::INFINITY, f64::min),
        gain: after.iter().sum::<f64>() / equal.iter().sum::<f64>(),
        gains: [0, 1, 2, 3].map(|tenant| after[tenant] / equal[tenant]),
        moved: moved as f64 / MEMORY.as_u64() as f64,
        error: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
        compared: errors.len(),
    })
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let mut table = Table::new(
        "throughputs, of those with equal shares, and what moved after the first third, of the memory",
        ["aim", "seed", "kept %", "all", "T1", "T2", "T3", "T4", "moved", "predictions off by", "compared"],
    );
    for (at, aim) in AIMS.iter().enumerate() {
        let mut outcomes = Vec::new();
        for seed in 1..=SEEDS {
            match simulate(context, aim, seed) {
                Ok(outcome) => {
                    let mut row = vec![aim.name.to_owned(), seed.to_string()];
                    row.push(format!("{:.1}", 100.0 * outcome.kept));
                    row.push(format!("{:.3}", outcome.gain));
                    row.extend(outcome.gains.map(|gain| format!("{gain:.2}")));
                    row.push(format!("{:.2}", outcome.moved));
                    row.extend([format!("{:.4}", outcome.error), outcome.compared.to_string()]);
                    table.row(row);
                    outcomes.push(outcome);
                }
                Err(error) => {
                    report.check(Criterion::holds("it runs", false, error, "no error"));
                }
            }
            context.progress((at as f64 * SEEDS as f64 + seed as f64) / (AIMS.len() as f64 * SEEDS as f64));
        }
        let least = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).fold(0.0, f64::max);
        if aim.promised > 0.0 {
            report.check(
                Criterion::number(
                    format!("{}: spells of 5 s in which the worst served has that", aim.name),
                    100.0 * least(|outcome| outcome.kept),
                )
                .paper("all")
                .unit("%")
                .decimals(1)
                .at_least(95.0),
            );
        }
        report.check(
            Criterion::number(
                format!("{}: throughput of all, of equal shares", aim.name),
                least(|outcome| outcome.gain),
            )
            .unit("x")
            .at_least(aim.least_gain),
        );
        report.check(
            Criterion::number(
                format!("{}: predicted and measured miss ratios, mean difference", aim.name),
                most(|outcome| outcome.error),
            )
            .decimals(4)
            .at_most(0.02),
        );
        report.check(Criterion::number(
            format!("{}: memory that moved in the last two minutes, of all", aim.name),
            most(|outcome| outcome.moved),
        ));
    }
    report.table(table);
    report.note("Each is the worst of three seeds.");
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By curves that were not levelled, and by miniatures of unlike age, it was about half.
    #[test]
    fn promises_are_kept_on_a_seed_that_is_not_reported() {
        let outcome = simulate(&Context::new(7, None), &AIMS[0], 1).expect("it runs");
        assert!(outcome.kept >= 0.95 && outcome.gain > 1.1, "{} kept, {}x", outcome.kept, outcome.gain);
        assert!(outcome.compared > 8 && outcome.error < 0.02, "off by {}", outcome.error);
    }
}
