//! One queue on a cliff: the arithmetic of a split, Talus with a known curve, Cliffhanger's search
//! with an unknown one, and the cost of the search without a cliff.

use allocate::cliffhanger::{CliffConfig, Form, SplitQueue};
use allocate::talus::{Split, Talus};
use simulate::table::Table;
use workload::queues::{Profile, QueueCache, QueueConfig, Splitting};

use super::{Run, median, run};
use crate::report::{Chart, Criterion, Report};
use crate::{CLIFFHANGER, Context, Experiment};

/// The queue of the paper's example.
const ITEMS: u64 = 8000;

/// The example of section 4.2.
pub(super) const ARITHMETIC: Experiment = Experiment {
    name: "C1",
    paper: CLIFFHANGER,
    figure: "section 4.2, figure 4",
    title: "the arithmetic of a split: 8,000 items between 2,000 and 13,500",
    run: arithmetic,
};

/// Talus with the known curve.
pub(super) const STATIC: Experiment = Experiment {
    name: "C2",
    paper: CLIFFHANGER,
    figure: "section 4.2 (Talus)",
    title: "a queue that is split by its known curve reaches the hull",
    run: known_curve,
};

/// Cliff scaling.
pub(super) const DYNAMIC: Experiment = Experiment {
    name: "C3",
    paper: CLIFFHANGER,
    figure: "algorithms 2 and 3, figure 9",
    title: "cliff scaling finds the ends of a cliff from hits at its edges",
    run: search,
};

/// Cliff scaling without a cliff.
pub(super) const NO_HARM: Experiment = Experiment {
    name: "C4",
    paper: CLIFFHANGER,
    figure: "section 4.2, last paragraphs",
    title: "cliff scaling does no harm where the curve is concave or flat",
    run: no_harm,
};

fn arithmetic(_: &mut Context) -> Report {
    let split = Split::between(2000.0, 13_500.0, ITEMS);
    let exact = (13_500.0 - ITEMS as f64) / 11_500.0 * 2000.0;
    let talus = Talus::new(Profile::one_cliff().curve(135), 0.0);
    let mut report = Report::new();
    report
        .check(
            Criterion::number("share of the left partition", split.ratio).paper("0.48").within(0.478, 0.0005),
        )
        .check(
            Criterion::number("left partition", split.left as f64)
                .decimals(0)
                .paper("957")
                .within(957.0, 0.0),
        )
        .check(
            Criterion::number("right partition", split.right as f64)
                .decimals(0)
                .paper("7043")
                .within(7043.0, 0.0),
        )
        .check(Criterion::number("left partition before rounding", exact).decimals(2).within(956.52, 0.005));
    let anchors = talus.anchors(ITEMS);
    let found = anchors.map_or("none".to_owned(), |(a, b)| format!("{a} and {b}"));
    let holds = anchors.is_some_and(|(a, b)| a.abs_diff(2000) <= 100 && b == 13_500);
    report.check(
        Criterion::holds("ends of the cliff on the curve's hull", holds, found, "2000 ± 100 and 13500")
            .paper("2000 and 13500"),
    );
    report.chart(curve_chart());
    report
}

fn curve_chart() -> Chart {
    let profile = Profile::one_cliff();
    let hull = profile.curve(135).hull();
    let sizes = || (0..=160).map(|i| f64::from(i) * 100.0);
    Chart::new("One cliff: hit ratio of LRU and its hull", "items", "hits per request")
        .line("LRU", sizes().map(|size| (size, profile.hit_ratio(size))))
        .line("hull", sizes().map(|size| (size, 1.0 - hull.miss_ratio(size))))
}

/// The hit ratio of a queue of `items` under `profile`.
fn simulate(items: u64, splitting: Splitting, requests: usize, seed: u64) -> (Run, SplitQueue) {
    let mut cache = QueueCache::new([QueueConfig { splitting, ..QueueConfig::items(items) }]);
    let stream = Profile::one_cliff().requests(seed).map(|key| (0, key));
    let run = run(&mut cache, stream, requests, |_, _| {});
    (run, *cache.split(0))
}

fn of_three(context: &Context, items: u64, splitting: Splitting, requests: usize) -> f64 {
    median([0, 1, 2].map(|part| simulate(items, splitting, requests, context.seed(part)).0.total))
}

fn known_curve(context: &mut Context) -> Report {
    const REQUESTS: usize = 2_000_000;
    let told = |margin| Splitting::Told(Split::with_margin(2000.0, 13_500.0, ITEMS, margin));
    let lru = of_three(context, ITEMS, Splitting::Whole, REQUESTS);
    context.progress(0.3);
    let halves = of_three(context, ITEMS, Splitting::Told(Split::half(ITEMS)), REQUESTS);
    let talus = of_three(context, ITEMS, told(0.0), REQUESTS);
    context.progress(0.7);
    let margin = of_three(context, ITEMS, told(0.05), REQUESTS);
    let mut report = Report::new();
    report
        .check(Criterion::number("hit ratio of LRU", lru).within(0.473, 0.003))
        .check(Criterion::number("hit ratio split by the curve (hull: 0.585)", talus).at_least(0.575))
        .check(
            Criterion::number("two halves, against LRU", halves - lru)
                .paper("behave exactly the same")
                .within(0.0, 0.003),
        )
        .check(Criterion::number("hit ratio with Talus' margin of 5 %", margin));
    report.chart(curve_chart());
    report
}

/// The window of the paper.
const PAPERS_WINDOW: u64 = 128;

fn rules(form: Form, credit: u64, dead_band: Option<u64>) -> CliffConfig {
    let window = match form {
        Form::Printed => PAPERS_WINDOW,
        Form::Repaired => CliffConfig::default().window,
    };
    CliffConfig { form, credit: Some(credit), dead_band, window, ..CliffConfig::default() }
}

fn search(context: &mut Context) -> Report {
    const REQUESTS: usize = 4_000_000;
    let mut report = Report::new();
    let mut table = Table::new(
        "8,000 items, 4 M requests, medians of three seeds",
        ["rules", "window", "credit", "hit ratio", "left pointer", "right pointer"],
    );
    let repaired = |credit| rules(Form::Repaired, credit, Some(256));
    let with_papers_window = CliffConfig { window: PAPERS_WINDOW, ..repaired(8) };
    let sampled = CliffConfig::sampled();
    let variants = [
        ("printed", rules(Form::Printed, 1, None)),
        ("printed", rules(Form::Printed, 8, None)),
        ("repaired, no dead band", rules(Form::Repaired, 8, Some(0))),
        ("repaired", with_papers_window),
        ("repaired", repaired(4)),
        ("repaired", repaired(8)),
        ("repaired", repaired(16)),
        ("repaired, one key in 8", sampled),
    ];
    for (done, (name, rules)) in variants.into_iter().enumerate() {
        let runs =
            [0, 1, 2].map(|part| simulate(ITEMS, Splitting::ByHits(rules), REQUESTS, context.seed(part)));
        let total = median([0, 1, 2].map(|i| runs[i].0.total));
        let left = median([0, 1, 2].map(|i| runs[i].1.pointers().0 as f64));
        let right = median([0, 1, 2].map(|i| runs[i].1.pointers().1 as f64));
        table.row([
            name.to_owned(),
            rules.window.to_string(),
            rules.credit.unwrap_or(2 * ITEMS / 1000).to_string(),
            format!("{total:.4}"),
            format!("{left:.0}"),
            format!("{right:.0}"),
        ]);
        if rules == repaired(8) {
            let what = format!("hit ratio with the default window of {}", rules.window);
            report.check(Criterion::number(what, total));
        }
        if rules == with_papers_window {
            judge(&mut report, total, left, right);
        }
        if rules == sampled {
            let what = "hit ratio by one key in 8 at the edges";
            report.check(Criterion::number(what, total).at_least(0.54));
        }
        context.progress((done + 1) as f64 / 9.0);
    }
    report.table(table);
    let (sums, chart) = watched(context, REQUESTS);
    report.check(Criterion::holds(
        "partitions add up to the queue",
        sums.iter().all(|sum| *sum == ITEMS),
        format!("{} of {} looks", sums.iter().filter(|sum| **sum == ITEMS).count(), sums.len()),
        "always",
    ));
    report.chart(chart.0).chart(chart.1);
    report
}

/// Reports the criteria for the repaired rules with the paper's window.
fn judge(report: &mut Report, total: f64, left: f64, right: f64) {
    report
        .check(
            Criterion::number("hit ratio with the paper's window of 128 (LRU 0.473, hull 0.585)", total)
                .at_least(0.54),
        )
        .check(Criterion::number("left pointer", left).decimals(0).paper("2000 (example)").at_most(3000.0))
        .check(
            Criterion::number("right pointer", right).decimals(0).paper("13500 (example)").at_least(11_000.0),
        );
}

/// One run of the repaired rules with the paper's window, observed as it goes: the sums of its
/// partitions, its pointers and its hit ratio.
fn watched(context: &Context, requests: usize) -> (Vec<u64>, (Chart, Chart)) {
    let rules = CliffConfig { window: PAPERS_WINDOW, ..rules(Form::Repaired, 8, Some(256)) };
    let splitting = Splitting::ByHits(rules);
    let mut cache = QueueCache::new([QueueConfig { splitting, ..QueueConfig::items(ITEMS) }]);
    let stream = Profile::one_cliff().requests(context.seed(0)).map(|key| (0, key));
    let (mut sums, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new());
    let run = run(&mut cache, stream, requests, |share, cache| {
        let queue = cache.split(0);
        let at = share * requests as f64 / 1e6;
        left.push((at, queue.pointers().0 as f64));
        right.push((at, queue.pointers().1 as f64));
        sums.push(queue.split().left + queue.split().right);
    });
    let hits = run.over_time.iter().map(|(share, ratio)| (share * requests as f64 / 1e6, *ratio));
    let pointers = Chart::new("Cliff scaling: pointers", "million requests", "items")
        .line("right pointer", right)
        .line("left pointer", left);
    (
        sums,
        (
            pointers,
            Chart::new("Cliff scaling: hit ratio", "million requests", "hits per request").line("hits", hits),
        ),
    )
}

fn no_harm(context: &mut Context) -> Report {
    const REQUESTS: usize = 3_000_000;
    let mut report = Report::new();
    let mut table = Table::new(
        "medians of three seeds",
        ["items", "curve there", "rules", "credit", "hit ratio", "against LRU"],
    );
    let mut chart = Chart::new("Where there is no cliff", "rules", "points of hit ratio against LRU").over([
        "printed",
        "no dead band",
        "repaired, credit 8",
        "repaired",
        "one key in 8",
    ]);
    for (items, word) in [(1500, "concave"), (16_000, "flat")] {
        let mut points = Vec::new();
        let lru = of_three(context, items, Splitting::Whole, REQUESTS);
        table.row([
            items.to_string(),
            word.into(),
            "LRU".into(),
            String::new(),
            format!("{lru:.4}"),
            String::new(),
        ]);
        let own = (items / 1000).max(1);
        let sampled = CliffConfig { credit: Some(2 * own), ..CliffConfig::sampled() };
        let variants = [
            ("printed", rules(Form::Printed, 8, None)),
            ("repaired, no dead band", rules(Form::Repaired, 8, Some(0))),
            ("repaired", rules(Form::Repaired, 8, None)),
            ("repaired", rules(Form::Repaired, own, None)),
            ("repaired, one key in 8", sampled),
        ];
        for (name, rules) in variants {
            let hits = of_three(context, items, Splitting::ByHits(rules), REQUESTS);
            let credit = rules.credit.unwrap_or(own);
            let against = hits - lru;
            points.push(100.0 * against);
            table.row([
                items.to_string(),
                word.to_owned(),
                name.to_owned(),
                credit.to_string(),
                format!("{hits:.4}"),
                format!("{against:+.4}"),
            ]);
            let what = format!("{items} items ({word}), {name}, credit {credit}: against LRU");
            let criterion = Criterion::number(what, against).decimals(4);
            match name {
                "repaired" | "repaired, one key in 8" => {
                    report.check(criterion.paper("no change").at_least(-0.003))
                }
                _ => report.check(criterion),
            };
        }
        chart = chart.bars(format!("{items} items, {word}"), points);
        context.progress(if items == 1500 { 0.5 } else { 1.0 });
    }
    report.table(table).chart(chart);
    report.note("As printed, the ratio of the partitions follows the jitter of the pointers, so that one partition sees most requests.");
    report
}
