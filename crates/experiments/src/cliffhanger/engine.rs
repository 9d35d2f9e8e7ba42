//! Rebalancing strategies in the engine, on traces with sizes: Cliffhanger's hill climbing by
//! shadow queues beside those of CacheLib.

use std::time::Duration;

use base::hash::mix64;
use millpond::strategy::Strategy;
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};
use simulate::scenario::TraceSource;
use simulate::table::Table;
use simulate::world::Trace;

use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, OURS};

/// Strategies of the engine.
pub(super) const ENGINE: Experiment = Experiment {
    name: "X22",
    paper: OURS,
    figure: "beyond Cliffhanger, figure 6, in the engine",
    title: "rebalancing strategies of the engine on traces with sizes",
    run: engine,
};

/// Rounds of rebalancing in a run, and the time between two.
const ROUNDS: usize = 400;
const ROUND_SECS: u64 = 30;
/// The largest value; longer ones are stored with this length.
const LONGEST: u32 = 1 << 19;
/// Requests that are read of a trace.
const REQUESTS: usize = 1_000_000;

/// A trace, or several that take turns, with sizes.
pub(super) struct Load {
    pub(super) name: &'static str,
    /// Traces, with the divisor of the sizes of their objects, or if that is 0, with the
    /// size of all.
    parts: &'static [(&'static str, u32, u32)],
    /// The part of all objects that memory holds.
    pub(super) memory_part: u64,
}

pub(super) const LOADS: [Load; 5] = [
    Load { name: "adaptsize_cdn", parts: &[("adaptsize_cdn", 1, 0)], memory_part: 10 },
    Load { name: "cloudphysics_io", parts: &[("cloudphysics_io", 1, 0)], memory_part: 20 },
    Load { name: "tragen_tc-0 / 64", parts: &[("tragen_tc-0", 64, 0)], memory_part: 20 },
    Load {
        name: "c18, c34 and c53",
        parts: &[("twlike_c18", 0, 300), ("twlike_c34", 0, 3_000), ("twlike_c53", 0, 10_000)],
        memory_part: 10,
    },
    Load {
        name: "c8, c40 and c19",
        parts: &[("twlike_c8", 0, 2_000), ("twlike_c40", 0, 500), ("twlike_c19", 0, 8_000)],
        memory_part: 10,
    },
];

/// Keys and sizes of all requests.
pub(super) fn requests_of(load: &Load, context: &Context) -> Result<Vec<(u64, u32)>, String> {
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
    let requests = (0..shortest).flat_map(|i| {
        traces.iter().zip(load.parts).zip(0_u64..).map(move |((trace, &(_, divisor, size)), part)| {
            let operation = trace.get(i);
            let size = operation.size.checked_div(divisor).unwrap_or(size);
            (mix64(operation.key ^ part << 60), size.clamp(1, LONGEST))
        })
    });
    Ok(requests.collect())
}

/// A cache of the engine with one pool, in which what a request misses is stored.
pub(super) struct Replay {
    pub(super) cache: Cache,
    pub(super) pool: PoolId,
    clock: Clock,
}

impl Replay {
    /// One without items; the policy by its name.
    pub(super) fn new(memory: ByteSize, policy: &str, strategy: Strategy) -> Result<Self, String> {
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
    pub(super) fn request(&self, (key, size): (u64, u32)) -> bool {
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
    pub(super) fn maintain_after(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
        let _ = self.cache.maintain();
    }
}

/// Hits per request of the second half, and moves of slabs in all of it.
fn run(requests: &[(u64, u32)], memory: ByteSize, strategy: Strategy) -> Result<(f64, u64), String> {
    // Marginal hits need a policy that knows the hits of its last items.
    let replay = Replay::new(memory, "2q", strategy)?;
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

fn engine(context: &mut Context) -> Report {
    let mut report = Report::new();
    let names = ["base", "tail-age", "hits-per-slab", "marginal-hits", "hill-climbing"];
    let headings = ["trace", "memory"].into_iter().chain(names);
    let mut table = Table::new("hits per request of the second half", headings);
    let mut moves_of =
        Table::new("slabs, or sixteenths of one, that moved", ["trace", "memory"].into_iter().chain(names));
    let (mut shown, mut all) = (Vec::new(), Vec::new());
    for (done, load) in LOADS.iter().enumerate() {
        let requests = match requests_of(load, context) {
            Ok(requests) => requests,
            Err(error) => {
                report.note(format!("skipped: {}: {error}", load.name));
                continue;
            }
        };
        let mut known = std::collections::HashSet::new();
        let bytes = |&(key, size): &(u64, u32)| if known.insert(key) { u64::from(size) + 64 } else { 0 };
        let footprint: u64 = requests.iter().map(bytes).sum();
        let memory = ByteSize::new((footprint / load.memory_part).max(16 << 20));
        let results = names.map(|name| {
            Strategy::by_name(name).and_then(|strategy| run(&requests, memory, strategy)).unwrap_or((0.0, 0))
        });
        let cells = [load.name.to_owned(), memory.to_string()];
        table.row(cells.clone().into_iter().chain(results.iter().map(|(hits, _)| format!("{hits:.4}"))));
        moves_of.row(cells.into_iter().chain(results.iter().map(|(_, moves)| moves.to_string())));
        let hits = results.map(|(hits, _)| hits);
        report.check(
            Criterion::number(format!("{}: hill climbing above base", load.name), hits[4] - hits[0])
                .decimals(4)
                .at_least(-0.002),
        );
        let best = hits[..4].iter().copied().fold(0.0, f64::max);
        report.check(
            Criterion::number(
                format!("{}: hill climbing above the best of CacheLib's", load.name),
                hits[4] - best,
            )
            .decimals(4),
        );
        shown.push(load.name);
        all.push(hits);
        context.progress((done + 1) as f64 / LOADS.len() as f64);
    }
    report.table(table).table(moves_of);
    if !shown.is_empty() {
        let chart = Chart::new("Strategies of the engine", "trace", "hits per request").over(shown);
        let each = names.into_iter().enumerate();
        report.chart(each.fold(chart, |chart, (i, name)| chart.bars(name, all.iter().map(|hits| hits[i]))));
    }
    report
}
