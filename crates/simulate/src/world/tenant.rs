//! A tenant in the world: its stream, its clients, and its learnt curve.

use base::hash::mix64;
use base::rng::{RngExt, SeededRng, seeded};
use limit::{Nanos, SECOND};

use super::learn::Learner;
use super::record::Tally;
use super::stream::{Action, Operation, Prepared, Stream};
use crate::scenario::{Change, Cost, Load, Scenario, Tenant as Spec};

/// Most requests of one tenant that are under way in an open loop; further ones are refused.
const MOST_UNDER_WAY: u32 = 1 << 16;

/// Counts between two decisions, as in HopperKV; they include what requests would need if all of
/// them hit, and if all missed.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) requests: f64,
    pub(super) reads: f64,
    pub(super) hits: f64,
    /// For each resource.
    pub(super) if_hit: Vec<f64>,
    /// For each resource.
    pub(super) if_missed: Vec<f64>,
    pub(super) bytes: f64,
}

impl Observed {
    fn new(resources: usize) -> Self {
        Self { if_hit: vec![0.0; resources], if_missed: vec![0.0; resources], ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.hits += other.hits;
        self.bytes += other.bytes;
        for (sums, others) in [(&mut self.if_hit, &other.if_hit), (&mut self.if_missed, &other.if_missed)] {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
    }
}

pub(super) struct Tenant {
    pub(super) stream: Stream,
    pub(super) rng: SeededRng,
    pub(super) load: Load,
    /// Clients that are not to send again, because there are fewer now.
    pub(super) sending: Vec<bool>,
    pub(super) under_way: u32,
    /// Of an open loop: whether its next arrival is planned.
    pub(super) arrival_is_planned: bool,
    pub(super) tally: Tally,
    pub(super) total: Tally,
    /// Sums over the intervals that are measured: memory, used, grants.
    pub(super) sums: (f64, f64, Vec<f64>),
    pub(super) observed: Observed,
    pub(super) window: Vec<Observed>,
    pub(super) learner: Option<Learner>,
    salt: u64,
}

impl Tenant {
    pub(super) fn new(
        spec: &Spec,
        prepared: &Prepared,
        scenario: &Scenario,
        seed: u64,
        learns: bool,
    ) -> Self {
        let resources = scenario.resources.len();
        Self {
            stream: Stream::new(prepared, seed),
            rng: seeded(seed),
            load: spec.load,
            sending: Vec::new(),
            under_way: 0,
            arrival_is_planned: false,
            tally: Tally::default(),
            total: Tally::default(),
            sums: (0.0, 0.0, vec![0.0; resources]),
            observed: Observed::new(resources),
            window: Vec::new(),
            learner: learns.then(|| Learner::new(&scenario.control, scenario.memory.as_u64())),
            salt: mix64(seed),
        }
    }

    /// The next operation.
    #[inline]
    pub(super) fn draw(&mut self) -> Operation {
        self.stream.next(&mut self.rng)
    }

    /// Counts an operation, which takes `takes` bytes of a cache, for the next decision and shows
    /// it to the estimator of the curve.
    #[inline]
    pub(super) fn observe(&mut self, operation: Operation, costs: &[Cost], takes: u32, hit: bool) {
        let write = operation.action != Action::Read;
        let observed = &mut self.observed;
        observed.requests += 1.0;
        observed.bytes += f64::from(takes);
        if !write {
            observed.reads += 1.0;
            observed.hits += f64::from(u8::from(hit));
        }
        for (resource, cost) in costs.iter().enumerate() {
            observed.if_hit[resource] += cost.units(operation.size, write, false);
            observed.if_missed[resource] += cost.units(operation.size, write, !write);
        }
        if let Some(learner) = &mut self.learner {
            learner.record(mix64(operation.key ^ self.salt), takes, operation.action);
        }
    }

    /// Adds the interval to the window of the last `window` intervals.
    pub(super) fn end_interval(&mut self, window: usize) {
        let resources = self.observed.if_hit.len();
        self.window.push(std::mem::replace(&mut self.observed, Observed::new(resources)));
        let surplus = self.window.len().saturating_sub(window.max(1));
        self.window.drain(..surplus);
    }

    /// The sum over the window.
    pub(super) fn in_window(&self) -> Observed {
        let mut sum = Observed::new(self.observed.if_hit.len());
        self.window.iter().for_each(|interval| sum.add(interval));
        sum
    }

    /// Returns the number of clients.
    pub(super) fn clients(&self) -> u32 {
        match self.load {
            Load::Closed { clients, .. } => clients,
            Load::Open { .. } | Load::Timed => 0,
        }
    }

    /// Draws the time that a client thinks before its next request.
    pub(super) fn think(&mut self) -> Nanos {
        match self.load {
            Load::Closed { think_ms, .. } if think_ms > 0.0 => exponential(&mut self.rng, think_ms / 1e3),
            _ => 0,
        }
    }

    /// Draws the time until the next arrival; `None` if there is none.
    pub(super) fn gap(&mut self, now: Nanos) -> Option<Nanos> {
        if self.stream.has_ended() {
            return None;
        }
        match self.load {
            Load::Timed => self.stream.due().map(|due| due.saturating_sub(now)),
            Load::Open { rate_per_sec } if rate_per_sec > 0.0 => {
                Some(exponential(&mut self.rng, 1.0 / rate_per_sec))
            }
            _ => None,
        }
    }

    /// Returns whether another request of an open loop may start.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < MOST_UNDER_WAY
    }

    pub(super) fn change(&mut self, change: &Change) {
        let Change { keys, popularity, writes, scan_length, clients, rate_per_sec, at_secs: _ } =
            change.clone();
        if keys.is_some() || popularity.is_some() || writes.is_some() || scan_length.is_some() {
            self.stream.change(|pattern| {
                pattern.keys = keys.unwrap_or(pattern.keys);
                pattern.popularity = popularity.unwrap_or(pattern.popularity);
                pattern.writes = writes.unwrap_or(pattern.writes);
                pattern.scan_length = scan_length.unwrap_or(pattern.scan_length);
            });
        }
        match &mut self.load {
            Load::Closed { clients: present, .. } => *present = clients.unwrap_or(*present),
            Load::Open { rate_per_sec: present } => *present = rate_per_sec.unwrap_or(*present),
            Load::Timed => {}
        }
    }
}

/// A time from an exponential distribution with this mean, at least a nanosecond.
pub(super) fn exponential(rng: &mut SeededRng, mean_secs: f64) -> Nanos {
    let share: f64 = rng.random();
    ((-(1.0 - share).ln() * mean_secs * SECOND as f64) as Nanos).max(1)
}
