//! Rebalancing strategies in the engine, on traces with sizes and with sizes that change: the
//! default beside those of CacheLib, and Cliffhanger's hill climbing by shadow queues.

use std::collections::HashMap;
use std::time::Duration;

use base::hash::mix64;
use base::rng::seeded;
use millpond::strategy::Strategy;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};
use rand_distr::{Distribution, LogNormal};
use simulate::scenario::TraceSource;
use simulate::table::Table;
use simulate::world::Trace;

use crate::report::{Chart, Criterion, Report};
use crate::zipf::ZipfKeys;
use crate::{Context, Experiment, OURS};

/// Strategies of the engine.
pub(super) const ENGINE: Experiment = Experiment {
    name: "X22",
    paper: OURS,
    figure: "beyond Cliffhanger, figure 6, in the engine",
    title: "rebalancing strategies of the engine on traces with sizes, and with sizes that change",
    run: engine,
};

/// Rounds of rebalancing in a run, and the time between two.
const ROUNDS: usize = 400;
const ROUND_SECS: u64 = 30;
/// The largest value; longer ones are stored with this length.
const LONGEST: u32 = 1 << 19;
/// Requests that are read of a trace.
const REQUESTS: usize = 1_000_000;
/// The median of log-normal sizes, and the deviation of their logarithm.
const LOG_NORMAL: (f64, f64) = (1_000.0, 1.0);
/// The place of the default strategy, and the hits that it may lose of base's.
const DEFAULT: usize = 1;
const MOST_LOST: f64 = 0.01;

/// A trace, or several, with sizes.
pub(super) struct Load {
    pub(super) name: &'static str,
    /// Traces, with the divisor of the sizes of their objects, or if that is 0, with the
    /// size of all.
    parts: &'static [(&'static str, u32, u32)],
    /// If there is no trace, the number of keys that are drawn by Zipf's law, with log-normal sizes
    /// of 1 KB in the median: many classes, of which none has much of the memory.
    keys: u64,
    /// True if they follow each other, rather than take turns request by request.
    in_sequence: bool,
    /// By how much sizes have grown at the end of the run.
    growth: u32,
    /// The part of all objects that memory holds.
    pub(super) memory_part: u64,
}

impl Load {
    const fn new(name: &'static str, parts: &'static [(&'static str, u32, u32)], memory_part: u64) -> Self {
        Self { name, parts, keys: 0, in_sequence: false, growth: 1, memory_part }
    }

    const fn log_normal(name: &'static str, keys: u64, memory_part: u64) -> Self {
        Self { keys, ..Self::new(name, &[], memory_part) }
    }

    const fn in_sequence(self) -> Self {
        Self { in_sequence: true, ..self }
    }

    const fn growing(self, growth: u32) -> Self {
        Self { growth, ..self }
    }
}

pub(super) const LOADS: [Load; 5] = [
    Load::new("adaptsize_cdn", &[("adaptsize_cdn", 1, 0)], 10),
    Load::new("cloudphysics_io", &[("cloudphysics_io", 1, 0)], 20),
    Load::new("tragen_tc-0 / 64", &[("tragen_tc-0", 64, 0)], 20),
    Load::new(
        "c18, c34 and c53",
        &[("twlike_c18", 0, 300), ("twlike_c34", 0, 3_000), ("twlike_c53", 0, 10_000)],
        10,
    ),
    Load::new(
        "c8, c40 and c19",
        &[("twlike_c8", 0, 2_000), ("twlike_c40", 0, 500), ("twlike_c19", 0, 8_000)],
        10,
    ),
];

/// Loads that no strategy was made for: others that take turns, sizes that change, and many classes
/// in little memory.
const OTHERS: [Load; 10] = [
    Load::new("scarab_recs, ibm_docker", &[("scarab_recs", 0, 400), ("ibm_docker", 0, 9_000)], 5),
    Load::new("orm_busy, weblog424", &[("orm_busy", 0, 1_500), ("weblog424", 0, 250)], 5),
    Load::new("arc_OLTP, arc_P6", &[("arc_OLTP", 0, 3_500), ("arc_P6", 0, 700)], 5),
    Load::new("meta_kv1, mooncake", &[("mrclike_meta_kv1", 0, 300), ("mooncake_conversation", 0, 5_000)], 5),
    Load::new("c53, then c18", &[("twlike_c53", 0, 1_000), ("twlike_c18", 0, 2_000)], 10).in_sequence(),
    Load::new("orm_busy, then c34", &[("orm_busy", 0, 4_000), ("twlike_c34", 0, 500)], 10).in_sequence(),
    Load::new("c19, eight times as large", &[("twlike_c19", 0, 400)], 10).growing(8),
    Load::new("weblog424, four times as large", &[("weblog424", 0, 1_000)], 5).growing(4),
    Load::log_normal("log-normal sizes, 40,000 keys", 40_000, 5),
    Load::log_normal("log-normal sizes, 200,000 keys", 200_000, 10),
];

/// Keys and sizes of all requests.
pub(super) fn requests_of(load: &Load, context: &Context) -> Result<Vec<(u64, u32)>, String> {
    if load.keys > 0 {
        let sizes = LogNormal::new(LOG_NORMAL.0.ln(), LOG_NORMAL.1).map_err(|error| error.to_string())?;
        let keys = ZipfKeys::new(context.seed(load.keys), load.keys, 0.9);
        let size_of = |key| (sizes.sample(&mut seeded(key)) as u32).clamp(1, LONGEST);
        return Ok(keys.take(REQUESTS).map(|key| (key, size_of(key))).collect());
    }
    let folder = context.traces().ok_or("there are no shared traces here")?;
    let traces = load.parts.iter().map(|&(name, _, _)| {
        let source = TraceSource {
            path: folder.join(name).join(format!("{name}.csv.zst")),
            requests: REQUESTS / load.parts.len(),
            default_size: 64,
            ..TraceSource::default()
        };
        Trace::read(&source).map_err(|error| error.to_string())
    });
    let traces: Vec<Trace> = traces.collect::<Result<_, _>>()?;
    let shortest = traces.iter().map(Trace::len).min().unwrap_or(0);
    let requests = (0..shortest * traces.len()).map(|at| {
        let (i, part) = match load.in_sequence {
            true => (at % shortest, at / shortest),
            false => (at / traces.len(), at % traces.len()),
        };
        let (operation, (_, divisor, size)) = (traces[part].get(i), load.parts[part]);
        let size = operation.size.checked_div(divisor).unwrap_or(size).max(1);
        let growth = f64::from(load.growth).powf(at as f64 / (shortest * traces.len()) as f64);
        let size = (f64::from(size) * growth).min(f64::from(LONGEST)) as u32;
        (mix64(operation.key ^ (part as u64) << 60), size)
    });
    Ok(requests.collect())
}

/// A cache of the engine with one pool, in which what a request misses is stored.
pub(crate) struct Replay {
    pub(crate) cache: Cache,
    pub(crate) pool: PoolId,
    clock: Clock,
}

impl Replay {
    /// One without items; the policy by its name.
    pub(crate) fn new(memory: ByteSize, policy: &str, strategy: Strategy) -> Result<Self, String> {
        let clock = Clock::manual(1_000);
        let config = CacheConfig {
            memory,
            clock: clock.clone(),
            hash_seed: Some(1),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let policy = policy.parse().map_err(|error| format!("{error}"))?;
        let cache = Cache::new(config).map_err(|error| error.to_string())?;
        let pool = PoolConfig { policy, strategy, ..PoolConfig::named("pool") };
        let pool = cache.add_pool(pool).map_err(|error| error.to_string())?;
        Ok(Self { cache, pool, clock })
    }

    /// Asks for a key, and returns whether that is a hit.
    pub(crate) fn request(&self, (key, size): (u64, u32)) -> bool {
        let key = key.to_le_bytes();
        let is_hit = self.cache.keys(self.pool).find_with(&key, |_| ()).is_some();
        if !is_hit
            && let Ok(item) = self.cache.allocate(self.pool, &key, size as usize, &ItemOptions::default())
        {
            self.cache.put(item);
        }
        is_hit
    }

    /// Has this time pass, and maintenance run.
    pub(crate) fn maintain_after(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
        let _ = self.cache.maintain();
    }
}

/// Hits per request of the second half, and moves of slabs in all of it.
fn run(
    requests: &[(u64, u32)],
    memory: ByteSize,
    (policy, strategy): (&str, &str),
) -> Result<(f64, u64), String> {
    let replay = Replay::new(memory, policy, Strategy::by_name(strategy)?)?;
    let (mut hits, half) = (0_u64, requests.len() / 2);
    for (i, &request) in requests.iter().enumerate() {
        hits += u64::from(replay.request(request) && i >= half);
        if (i + 1) % requests.len().div_ceil(ROUNDS) == 0 {
            replay.maintain_after(ROUND_SECS);
        }
    }
    let moves = replay.cache.pool_stats(replay.pool).map_or(0, |stats| stats.rebalances);
    Ok((hits as f64 / (requests.len() - half).max(1) as f64, moves))
}

/// The strategies, of which the second is the default.
const STRATEGIES: [&str; 6] =
    ["base", "clear-gain", "tail-age", "hits-per-slab", "marginal-hits", "hill-climbing"];
/// The policies: one that knows the hits of its last items, the default, and one that knows nothing
/// of gains.
const POLICIES: [&str; 3] = ["2q", "s3-fifo", "lru"];
/// The memory of runs, in times of that of the load.
const SIZES: [u64; 2] = [1, 3];

/// Hits per request of a case, by strategy.
type Hits = [f64; STRATEGIES.len()];

/// Runs a load with all strategies.
fn compare(
    load: &Load,
    policy: &str,
    tables: &mut [Table; 2],
    context: &Context,
) -> Result<Vec<Hits>, String> {
    let requests = requests_of(load, context)?;
    let sizes: HashMap<u64, u32> = requests.iter().copied().collect();
    let footprint: u64 = sizes.values().map(|&size| u64::from(size) + 64).sum();
    let runs = SIZES.map(|times| {
        let memory = ByteSize::new((times * footprint / load.memory_part).max(times * (16 << 20)));
        let mut results = [(0.0, 0); STRATEGIES.len()];
        for (result, strategy) in results.iter_mut().zip(STRATEGIES) {
            *result = run(&requests, memory, (policy, strategy))?;
        }
        let cells = || [load.name.to_owned(), memory.to_string()].into_iter();
        tables[0].row(cells().chain(results.iter().map(|(hits, _)| format!("{hits:.4}"))));
        tables[1].row(cells().chain(results.iter().map(|(_, moves)| moves.to_string())));
        Ok(results.map(|(hits, _)| hits))
    });
    runs.into_iter().collect()
}

fn engine(context: &mut Context) -> Report {
    let mut report = Report::new();
    let loads: Vec<&Load> = LOADS.iter().chain(&OTHERS).collect();
    for (number, policy) in POLICIES.into_iter().enumerate() {
        let headings = || ["load", "memory"].into_iter().chain(STRATEGIES);
        let mut tables = [
            Table::new(format!("{policy}: hits per request of the second half"), headings()),
            Table::new(format!("{policy}: moves of slabs, or of less"), headings()),
        ];
        let mut all: Vec<Hits> = Vec::new();
        for (done, load) in loads.iter().enumerate() {
            match compare(load, policy, &mut tables, context) {
                Ok(hits) => all.extend(hits),
                Err(error) => {
                    report.note(format!("skipped: {}: {error}", load.name));
                }
            }
            let part = (number * loads.len() + done + 1) as f64 / (POLICIES.len() * loads.len()) as f64;
            context.progress(part);
        }
        let [hits, moves] = tables;
        report.table(hits).table(moves);
        if !all.is_empty() {
            check(&mut report, policy, &all);
        }
    }
    report
}

/// Compares the strategies with base, over all cases of a policy.
fn check(report: &mut Report, policy: &str, all: &[Hits]) {
    let beyond = |strategy: usize| all.iter().map(move |hits| hits[strategy] - hits[0]);
    for (strategy, name) in STRATEGIES.into_iter().enumerate().skip(1) {
        let worst = beyond(strategy).fold(f64::INFINITY, f64::min);
        let worst = Criterion::number(format!("{policy}: {name} above base, at worst"), worst).decimals(4);
        report.check(if strategy == DEFAULT { worst.at_least(-MOST_LOST) } else { worst });
        let mean = beyond(strategy).sum::<f64>() / all.len() as f64;
        let mean = Criterion::number(format!("{policy}: {name} above base, on average"), mean).decimals(4);
        report.check(if strategy == DEFAULT { mean.at_least(0.0) } else { mean });
    }
    let chart =
        Chart::new(format!("Strategies of the engine, {policy}"), "case", "hits per request above base");
    let cases = (1..=all.len()).map(|case| case.to_string());
    let each = STRATEGIES.into_iter().enumerate().skip(1);
    report.chart(each.fold(chart.over(cases), |chart, (strategy, name)| chart.bars(name, beyond(strategy))));
}
