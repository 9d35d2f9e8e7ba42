//! H11: a tenant gets the rate that it was given, no more over any window, whatever the sizes of
//! its requests; HopperKV's frames give more.

use std::collections::VecDeque;

use base::rng::{RngExt, SeededRng, seeded};
use limit::{FrameLimiter, Limiter, Nanos, SECOND, TokenBucket};
use simulate::table::Table;

use crate::report::{Chart, Criterion, Report, Style};
use crate::{Context, Experiment, HARE};

/// A tenant gets its rate and no more.
pub(super) const H11: Experiment = Experiment {
    name: "H11",
    paper: HARE,
    figure: "section 4, rate limits",
    title: "a tenant gets the rate that it was given, in the long run and over any window",
    run,
};

/// Virtual time of a run.
const RUN: Nanos = 60 * SECOND;
/// The window over which bursts are watched.
const WINDOW: Nanos = SECOND / 10;
/// HopperKV's network limit in its microbenchmarks, in bytes per second.
const NETWORK: f64 = 50e6;
/// HopperKV's read units per second there.
const READ_UNITS: f64 = 1000.0;
/// A request that takes longer than a frame at a tenant's share of the network.
const LARGE: f64 = 10e6;
/// That share, in bytes per second.
const LARGE_RATE: f64 = 20e6;

/// The amounts that a limiter let through, with their times.
struct Gone {
    events: Vec<(Nanos, f64)>,
}

impl Gone {
    /// Lets a tenant that always has a request waiting send for a minute. With `pauses`, it has
    /// none for a while now and then.
    fn backlog(
        mut limiter: Limiter,
        rng: &mut SeededRng,
        pauses: bool,
        size: impl Fn(&mut SeededRng) -> f64,
    ) -> Self {
        let (mut now, mut events) = (0, Vec::new());
        loop {
            if pauses && rng.random_bool(0.01) {
                now += rng.random_range(0..SECOND / 2);
            }
            let units = size(rng);
            let Some(at) = limiter.ready_at(now, units).filter(|at| *at < RUN) else { break };
            limiter.take(at, units);
            events.push((at, units));
            now = at;
        }
        Self { events }
    }

    /// Units per second over the whole run.
    fn rate(&self) -> f64 {
        self.events.iter().map(|event| event.1).sum::<f64>() / (RUN as f64 / SECOND as f64)
    }

    /// The most units that went in any window.
    fn most_in_window(&self) -> f64 {
        let (mut inside, mut sum, mut most) = (VecDeque::new(), 0.0, 0.0_f64);
        for &(at, units) in &self.events {
            inside.push_back((at, units));
            sum += units;
            while inside.front().is_some_and(|first: &(Nanos, f64)| at - first.0 >= WINDOW) {
                sum -= inside.pop_front().map_or(0.0, |first| first.1);
            }
            most = most.max(sum);
        }
        most
    }

    /// Bytes that had passed by each event of the first seconds, in megabytes.
    fn course(&self, until: Nanos) -> Vec<(f64, f64)> {
        let mut sum = 0.0;
        let first = self.events.iter().take_while(|event| event.0 <= until);
        first
            .map(|&(at, units)| {
                sum += units;
                (at as f64 / SECOND as f64, sum / 1e6)
            })
            .collect()
    }
}

fn run(context: &mut Context) -> Report {
    let mut report = Report::new();
    let bucket = |rate| Limiter::Bucket(TokenBucket::new(rate, TokenBucket::BURST_SECS));
    let whole_units = |rng: &mut SeededRng| f64::from(rng.random_range(1_u32..=8));
    let packets = |rng: &mut SeededRng| rng.random_range(64.0..65_536.0);
    let mut table = Table::new(
        "token bucket, three seeds",
        ["limit", "seed", "long-run rate / limit", "fullest 100 ms / allowed"],
    );
    let (mut off, mut fullest) = (0.0_f64, 0.0_f64);
    for part in 0..3 {
        let mut rng = seeded(context.seed(part));
        for (name, rate) in [("1000 read units/s", READ_UNITS), ("50 MB/s", NETWORK)] {
            let is_network = rate == NETWORK;
            let size = |rng: &mut SeededRng| if is_network { packets(rng) } else { whole_units(rng) };
            let always = Gone::backlog(bucket(rate), &mut rng, false, size);
            let paused = Gone::backlog(bucket(rate), &mut rng, true, size);
            let allowed = rate * 0.1 + rate * TokenBucket::BURST_SECS;
            let window = always.most_in_window().max(paused.most_in_window()) / allowed;
            off = off.max((always.rate() / rate - 1.0).abs());
            fullest = fullest.max(window);
            table.row([
                name.to_owned(),
                part.to_string(),
                format!("{:.5}", always.rate() / rate),
                format!("{window:.5}"),
            ]);
        }
    }
    report.check(
        Criterion::number("long-run rate off the limit, random sizes", off * 100.0).unit("%").at_most(1.0),
    );
    report.check(Criterion::number("fullest 100 ms, of what rate and burst allow", fullest).at_most(1.0));
    large_requests(context, &mut report);
    report.table(table);
    report
}

/// Requests of 10 MB at 20 MB/s: each needs half a second, and a frame lasts 0.37 s.
fn large_requests(context: &Context, report: &mut Report) {
    let mut rng = seeded(context.seed(9));
    let bucket = Limiter::Bucket(TokenBucket::new(LARGE_RATE, TokenBucket::BURST_SECS));
    let bucket = Gone::backlog(bucket, &mut rng, false, |_| LARGE);
    let frames = Gone::backlog(Limiter::Frames(FrameLimiter::new(LARGE_RATE)), &mut rng, false, |_| LARGE);
    let over = |gone: &Gone| (gone.rate() / LARGE_RATE - 1.0) * 100.0;
    let computed = (FrameLimiter::rate_of_backlog(LARGE_RATE, LARGE) / LARGE_RATE - 1.0) * 100.0;
    report.check(
        Criterion::number("token bucket, 10 MB requests at 20 MB/s: over the limit", over(&bucket))
            .unit("%")
            .decimals(1)
            .between(-1.0, 1.0),
    );
    report.check(
        Criterion::number("HopperKV's frames, the same: over the limit", over(&frames))
            .paper("not said")
            .unit("%")
            .decimals(1)
            .within(computed, 1.0),
    );
    let until = 3 * SECOND;
    let limit = [(0.0, 0.0), (3.0, LARGE_RATE * 3.0 / 1e6)];
    report.chart(
        Chart::new("10 MB requests under a limit of 20 MB/s", "time (s)", "sent (MB)")
            .line("the limit", limit)
            .with("token bucket", bucket.course(until), Style::Step)
            .with("HopperKV's frames", frames.course(until), Style::Step),
    );
    report
        .note("A frame forgets at its end what large requests owe; the token bucket makes them pay it back.");
}
