//! The record of a run: figures of each tenant in each interval, and over the whole measured time.

use serde::Serialize;
use workload::histogram::Latencies;

/// The figures of a tenant over a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests that were answered.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Requests of an open loop that were refused, because too many were under way.
    pub refused: u64,
    /// Requests answered per second.
    pub requests_per_sec: f64,
    /// Hits per read; 0 if there were no reads.
    pub hit_ratio: f64,
    /// The median time to the answer, in milliseconds.
    pub p50_ms: f64,
    /// The time in which 99 % were answered, in milliseconds.
    pub p99_ms: f64,
    /// The time in which 99.9 % were answered, in milliseconds.
    pub p999_ms: f64,
    /// The memory that it was granted at the end, in bytes; in totals the mean.
    pub memory: f64,
    /// The memory that it used at the end, in bytes; in totals the mean.
    pub used: f64,
    /// The amount of each resource granted at the end, in units per second; in totals the mean.
    pub grants: Vec<f64>,
}

/// An interval of the record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// End of the interval, in seconds.
    pub at_secs: f64,
    /// The tenants in it.
    pub tenants: Vec<Figures>,
}

/// A round of a migration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Start of the round, in seconds.
    pub at_secs: f64,
    /// Which migration it belongs to, from 1.
    pub migration: u32,
    /// The most memory that a tenant got or gave, in bytes.
    pub bytes: u64,
    /// The least share of what the round before gave it that a receiver had filled when this round
    /// began, from 0 to 1; receivers that were warm by their curve alone do not count. 1 in a first
    /// round.
    pub least_full: f64,
}

/// A decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decided {
    /// Time of the decision, in seconds.
    pub at_secs: f64,
    /// True if the decision changed anything.
    pub applied: bool,
    /// The memory that each tenant should have, in bytes.
    pub memory: Vec<u64>,
    /// The amount of each resource that each tenant should have, in units per second.
    pub resources: Vec<Vec<f64>>,
    /// Reasons in words: of each move of memory; or why nothing was decided.
    pub reasons: Vec<String>,
    /// Promises that cannot be kept, in words, tenant by tenant.
    pub unmet: Vec<String>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The policy.
    pub policy: String,
    /// The tenants, by name.
    pub names: Vec<String>,
    /// Each tenant after the warm-up.
    pub totals: Vec<Figures>,
    /// All intervals, from the beginning.
    pub intervals: Vec<Interval>,
    /// The decisions.
    pub decisions: Vec<Decided>,
    /// The rounds of migrations.
    pub rounds: Vec<Round>,
    /// Number of replays of each tenant's trace; `None` for tenants without a trace.
    pub passes: Vec<Option<f64>>,
    /// The virtual time at which it ended, in seconds.
    pub ended_secs: f64,
    /// Requests that were simulated, warm-up included.
    pub simulated: u64,
}

impl Run {
    /// A tenant's throughput over time: seconds, and requests per second.
    pub fn throughput(&self, tenant: usize) -> Vec<(f64, f64)> {
        self.over_time(tenant, |figures| figures.requests_per_sec)
    }

    /// Any figure of a tenant over time.
    pub fn over_time(&self, tenant: usize, figure: impl Fn(&Figures) -> f64) -> Vec<(f64, f64)> {
        self.intervals.iter().map(|interval| (interval.at_secs, figure(&interval.tenants[tenant]))).collect()
    }

    /// Hits per read of all tenants after the warm-up.
    pub fn hit_ratio(&self) -> f64 {
        let sum = |figure: fn(&Figures) -> u64| self.totals.iter().map(figure).sum::<u64>() as f64;
        let reads = sum(|figures| figures.reads);
        if reads > 0.0 { sum(|figures| figures.hits) / reads } else { 0.0 }
    }

    /// Requests per second of all tenants after the warm-up.
    pub fn requests_per_sec(&self) -> f64 {
        self.totals.iter().map(|figures| figures.requests_per_sec).sum()
    }

    /// Each tenant's throughput relative to another run's; 1 if it had none there.
    pub fn normalised(&self, baseline: &Self) -> Vec<f64> {
        let pairs = self.totals.iter().zip(&baseline.totals);
        let relative = |(ours, theirs): (&Figures, &Figures)| {
            if theirs.requests_per_sec > 0.0 { ours.requests_per_sec / theirs.requests_per_sec } else { 1.0 }
        };
        pairs.map(relative).collect()
    }

    /// Each tenant's throughput relative to another run's, over the same requests: those that both
    /// answered after `warm_up_secs`. A tenant that replays a trace is further on in the run that
    /// answers it faster, and the same seconds are not the same requests. 1 if there are none that
    /// both answered.
    pub fn normalised_by_requests(&self, baseline: &Self, warm_up_secs: f64) -> Vec<f64> {
        let relative = |tenant: usize| {
            let (ours, theirs) = (self.progress(tenant), baseline.progress(tenant));
            let end = |progress: &[(f64, f64)]| progress.last().map_or(0.0, |(_, answered)| *answered);
            let from = at(&ours, warm_up_secs).max(at(&theirs, warm_up_secs));
            let until = end(&ours).min(end(&theirs));
            let takes = |progress: &[(f64, f64)]| when(progress, until) - when(progress, from);
            if until > from { takes(&theirs) / takes(&ours) } else { 1.0 }
        };
        (0..self.names.len()).map(relative).collect()
    }

    /// The number of a tenant's requests that were answered since the start, at the end of each
    /// interval.
    fn progress(&self, tenant: usize) -> Vec<(f64, f64)> {
        let each = self.intervals.iter().scan(0.0, |sum, interval| {
            *sum += interval.tenants[tenant].requests as f64;
            Some((interval.at_secs, *sum))
        });
        std::iter::once((0.0, 0.0)).chain(each).collect()
    }

    /// The least of the tenants' throughputs relative to another run's.
    pub fn least_normalised(&self, baseline: &Self) -> f64 {
        self.normalised(baseline).into_iter().fold(f64::INFINITY, f64::min)
    }
}

/// Interpolates a course linearly at a time.
fn at(progress: &[(f64, f64)], secs: f64) -> f64 {
    let after = progress.partition_point(|(time, _)| *time < secs).clamp(1, progress.len() - 1);
    let ((t0, n0), (t1, n1)) = (progress[after - 1], progress[after]);
    n0 + (n1 - n0) * ((secs - t0) / (t1 - t0)).clamp(0.0, 1.0)
}

/// The time at which `count` of a course has passed.
fn when(progress: &[(f64, f64)], count: f64) -> f64 {
    let after = progress.partition_point(|(_, answered)| *answered < count).clamp(1, progress.len() - 1);
    let ((t0, n0), (t1, n1)) = (progress[after - 1], progress[after]);
    if n1 > n0 { t0 + (t1 - t0) * ((count - n0) / (n1 - n0)).clamp(0.0, 1.0) } else { t1 }
}

/// Counts the activity of a tenant until the interval's end.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) reads: u64,
    pub(super) hits: u64,
    pub(super) refused: u64,
    pub(super) latencies: Latencies,
}

impl Tally {
    pub(super) fn figures(&self, secs: f64) -> Figures {
        let ms =
            |quantile| if self.latencies.is_empty() { 0.0 } else { self.latencies.at(quantile) as f64 / 1e6 };
        Figures {
            requests: self.requests,
            reads: self.reads,
            hits: self.hits,
            refused: self.refused,
            requests_per_sec: self.requests as f64 / secs,
            hit_ratio: if self.reads > 0 { self.hits as f64 / self.reads as f64 } else { 0.0 },
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            ..Figures::default()
        }
    }

    /// Adds this to `all` and begins anew.
    pub(super) fn move_to(&mut self, all: &mut Self) {
        all.requests += self.requests;
        all.reads += self.reads;
        all.hits += self.hits;
        all.refused += self.refused;
        all.latencies.add(&self.latencies);
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        (self.requests, self.reads, self.hits, self.refused) = (0, 0, 0, 0);
        self.latencies.clear();
    }
}
