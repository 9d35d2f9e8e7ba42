//! Size classes of traces with sizes: the loss of a cache that leaves memory with the classes that
//! asked first, and the results of Cliffhanger and learnt curves.

use allocate::cliffhanger::CliffConfig;
use simulate::scenario::TraceSource;
use simulate::table::Table;
use simulate::world::Trace;
use workload::queues::{ByCurves, CurveRules, QueueCache, QueueConfig, Splitting};

use super::run;
use crate::report::{Chart, Criterion, Report};
use crate::{Context, Experiment, OURS};

/// Slab classes.
pub(super) const SLABS: Experiment = Experiment {
    name: "X21",
    paper: OURS,
    figure: "beyond Cliffhanger, figures 6 and 8",
    title: "memory between the size classes of traces with sizes",
    run: slabs,
};

/// Traces with sizes: two real ones, which are short, and a long one from the descriptors of a
/// content network.
const TRACES: [&str; 3] = ["adaptsize_cdn", "cloudphysics_io", "tragen_tc-0"];

/// Requests of a trace by class: a class has chunks of a power of two.
struct Classes {
    requests: Vec<(usize, u64)>,
    chunks: Vec<u64>,
    /// All distinct items in their chunks, in bytes.
    footprint: u64,
}

impl Classes {
    fn of(trace: &Trace) -> Self {
        // In 64 bits, as a trace may have sizes above 2 GiB.
        let class = |size: u32| u64::from(size.max(64)).next_power_of_two().trailing_zeros();
        let mut classes: Vec<u32> = (0..trace.len()).map(|i| class(trace.get(i).size)).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut known = std::collections::HashSet::new();
        let mut footprint = 0;
        let requests = (0..trace.len()).map(|i| {
            let operation = trace.get(i);
            let class = class(operation.size);
            let place = classes.binary_search(&class).expect("each class is listed");
            if known.insert((place, operation.key)) {
                footprint += 1_u64 << class;
            }
            (place, operation.key)
        });
        let requests = requests.collect();
        Self { requests, chunks: classes.iter().map(|class| 1 << class).collect(), footprint }
    }

    /// Returns the memory of each class if memory goes to the first that asks, until there is no
    /// more; at least a chunk.
    fn first_come(&self, memory: u64) -> Vec<u64> {
        let mut sizes = self.chunks.clone();
        let mut left = memory.saturating_sub(sizes.iter().sum());
        let mut known = std::collections::HashSet::new();
        for &(class, key) in &self.requests {
            if known.insert((class, key)) && left >= self.chunks[class] {
                sizes[class] += self.chunks[class];
                left -= self.chunks[class];
            }
        }
        sizes
    }
}

fn slabs(context: &mut Context) -> Report {
    let mut report = Report::new();
    let Some(folder) = context.traces() else {
        report.note("skipped: there are no shared traces here.");
        return report;
    };
    let mut table = Table::new(
        "hits per request of the second half; memory for a tenth of all items",
        ["trace", "classes", "first come", "hill climbing", "and cliffs", "curves", "and splits"],
    );
    let (mut names, mut hits) = (Vec::new(), Vec::new());
    for (done, name) in TRACES.into_iter().enumerate() {
        let path = folder.join(name).join(format!("{name}.csv.zst"));
        let trace = match Trace::read(&TraceSource {
            path,
            requests: 2_000_000,
            default_size: 64,
            ..TraceSource::default()
        }) {
            Ok(trace) => trace,
            Err(error) => {
                report.note(format!("skipped: {error}"));
                continue;
            }
        };
        let classes = Classes::of(&trace);
        let all = compare(&classes, context);
        let mut cells = vec![name.to_owned(), classes.chunks.len().to_string()];
        cells.extend(all.iter().map(|hits| format!("{hits:.4}")));
        table.row(cells);
        names.push(name);
        hits.push(all);
        report
            .check(
                Criterion::number(format!("{name}: hill climbing above first come"), all[1] - all[0])
                    .decimals(4)
                    .at_least(0.0),
            )
            .check(
                Criterion::number(format!("{name}: with cliff scaling, above first come"), all[2] - all[0])
                    .decimals(4),
            )
            .check(
                Criterion::number(format!("{name}: curves and splits above first come"), all[4] - all[0])
                    .decimals(4),
            );
        context.progress((done + 1) as f64 / TRACES.len() as f64);
    }
    let ways = ["first come", "hill climbing", "and cliffs", "curves", "and splits"];
    report.table(table);
    if !names.is_empty() {
        let chart = Chart::new("Size classes of traces", "trace", "hits per request").over(names);
        let each = ways.into_iter().enumerate();
        report.chart(each.fold(chart, |chart, (i, way)| chart.bars(way, hits.iter().map(|all| all[i]))));
    }
    report
}

/// First come, hill climbing, with cliff scaling, by learnt curves, and with splits on them.
fn compare(classes: &Classes, context: &Context) -> [f64; 5] {
    let memory = classes.footprint / 10;
    let sizes = classes.first_come(memory);
    let queues = |splitting: Splitting| -> Vec<QueueConfig> {
        let queues = sizes.iter().zip(&classes.chunks);
        queues
            .map(|(&size, &item_size)| QueueConfig {
                size,
                item_size,
                least: item_size,
                shadow: memory / 50,
                splitting,
                by_slope: true,
            })
            .collect()
    };
    let credit = (memory / 2000).max(1);
    let count = classes.requests.len();
    let stream = || classes.requests.iter().copied();
    let of = |mut cache: QueueCache| run(&mut cache, stream(), count, |_, _| {}).total;
    let by_curves = |splits| {
        let rules = CurveRules { splits, period: (count as u64 / 40).max(1), ..CurveRules::default() };
        let mut cache = ByCurves::new(queues(Splitting::Whole), rules);
        let hits =
            stream().enumerate().filter(|(i, (queue, key))| cache.access(*queue, *key) && *i >= count / 2);
        hits.count() as f64 / (count - count / 2) as f64
    };
    let scaled = Splitting::ByHits(CliffConfig::default());
    [
        of(QueueCache::new(queues(Splitting::Whole))),
        of(QueueCache::climbing(queues(Splitting::Whole), credit, credit, context.seed(0))),
        of(QueueCache::climbing(queues(scaled), credit, credit, context.seed(0))),
        by_curves(false),
        by_curves(true),
    ]
}
