//! The world: tenants that send requests through caches, limits and a backend, in virtual time.
//!
//! Virtual time moves from event to event; between two of them nothing happens. A request that hits
//! and waits nowhere is one event. Its way: it is looked up; if it misses or writes, it passes the
//! limits before the backend and is answered by it; it passes the limits on the way back; its
//! client gets the answer, thinks, and sends the next.
//!
//! The simplifications, and their effect on figures, are in `docs/simulation.md`.
//!
//! Invariants, checked by `World::validate`:
//! 1. Caches together may hold no more than all memory, at every moment of a migration too.
//! 2. Each request under way is at one place: in one limiter's queue, at the backend, or waiting
//!    for it.

mod cache;
mod control;
mod events;
mod learn;
mod limiter_queue;
mod migrate;
mod record;
mod setup;
mod stream;
mod tenant;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use allocate::Grant;
use allocate::talus::Split;
use base::hash::mix64;
use base::rng::{SeededRng, seeded};
use limit::{FrameLimiter, Limiter, Nanos, SECOND, TokenBucket};

pub use cache::{Cache, Eviction};
pub use record::{Decided, Figures, Interval, Round, Run};
pub use setup::Setup;
pub use stream::{Action, Operation, Prepared, Trace};

use control::Controller;
use events::{Event, Events};
use limiter_queue::LimiterQueue;
use tenant::{Tenant, exponential};

use crate::scenario::{Cost, LimiterKind, Load, Scenario, Spread};

/// A request under way.
#[derive(Clone, Copy)]
struct Request {
    tenant: u32,
    /// [`NO_CLIENT`] in an open loop.
    client: u32,
    size: u32,
    is_write: bool,
    is_miss: bool,
    /// The next place on its way, as [`World::proceed`] counts them.
    stage: u32,
    sent: Nanos,
}

/// No client waits for the answer.
const NO_CLIENT: u32 = u32::MAX;

/// The backend behind the caches.
struct Backend {
    latency_secs: f64,
    spread: Spread,
    concurrency: u32,
    busy: u32,
    waiting: VecDeque<u32>,
    rng: SeededRng,
    round_trip: Nanos,
}

/// The simulation of one policy.
struct World<'a> {
    scenario: &'a Scenario,
    now: Nanos,
    events: Events,
    tenants: Vec<Tenant>,
    caches: Vec<Cache>,
    shared_cache: bool,
    /// For each resource one for each tenant; if resources are shared, one.
    limiters: Vec<LimiterQueue>,
    gates_each: usize,
    costs: Vec<Cost>,
    behind: Backend,
    requests: Vec<Request>,
    free: Vec<u32>,
    /// The present grant of each tenant.
    grants: Vec<Grant>,
    /// The cliff on which each tenant's cache is by the last decision, in bytes: it is split
    /// between the two.
    cliffs: Vec<Option<(u64, u64)>>,
    run: Run,
    /// End of the last interval of the record, and the measured time, in seconds.
    recorded: Nanos,
    measured_secs: f64,
}

/// Runs a scenario under a policy. `prepared` are the sources of the tenants, in their order.
/// `progress` is called now and then with the share of virtual time that has passed.
///
/// # Panics
/// If there is no tenant, or not one source for each.
pub fn run(
    scenario: &Scenario,
    prepared: &[Prepared],
    setup: Setup,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Run {
    let mut world = World::new(scenario, prepared, &setup, seed);
    let mut controller = Controller::new(scenario, setup);
    world.start(controller.decides());
    let end = nanos(scenario.duration_secs);
    let mut steps = 0_u32;
    while let Some((at, event)) = world.events.next() {
        if at > end {
            world.now = end;
            break;
        }
        if world.is_over() {
            break;
        }
        world.now = at;
        match event {
            Event::Decide => controller.decide(&mut world),
            Event::Poll { migration } => controller.poll(&mut world, migration),
            other => world.step(other),
        }
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(1 << 16) {
            progress(at as f64 / end as f64);
        }
    }
    world.finish(controller.name().to_owned())
}

/// Reads the sources of a scenario's tenants, for [`run`].
///
/// # Errors
/// If a file cannot be read.
pub fn prepare(scenario: &Scenario, seed: u64) -> anyhow::Result<Vec<Prepared>> {
    let seeds = (0..).map(|i| mix64(seed.wrapping_add(i)));
    scenario.tenants.iter().zip(seeds).map(|(tenant, seed)| Prepared::new(&tenant.source, seed)).collect()
}

/// Returns how a cache of `bytes` bytes is split on a cliff; `None` if it is not on the cliff, as
/// may happen on the way there.
fn split(cliff: Option<(u64, u64)>, bytes: u64) -> Option<Split> {
    let (a, b) = cliff.filter(|&(a, b)| a < bytes && bytes < b)?;
    Some(Split::with_margin(a as f64, b as f64, bytes, Split::MARGIN))
}

fn nanos(secs: f64) -> Nanos {
    (secs * SECOND as f64).round() as Nanos
}

/// The limiters of all resources: one for each grant, or one for all tenants.
fn limiters(scenario: &Scenario, setup: &Setup, grants: &[Grant]) -> Vec<LimiterQueue> {
    let mut limiters = Vec::new();
    for (number, resource) in scenario.resources.iter().enumerate() {
        for grant in grants {
            let rate = if setup.shared_resources { resource.total_per_sec } else { grant.resources[number] };
            limiters.push(LimiterQueue::new(match resource.limiter {
                LimiterKind::TokenBucket => Limiter::Bucket(TokenBucket::new(rate, TokenBucket::BURST_SECS)),
                LimiterKind::Frames => Limiter::Frames(FrameLimiter::new(rate)),
            }));
        }
    }
    limiters
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, prepared: &[Prepared], setup: &Setup, seed: u64) -> Self {
        assert!(!scenario.tenants.is_empty(), "a scenario has tenants");
        assert_eq!(scenario.tenants.len(), prepared.len(), "each tenant has one source");
        let count = scenario.tenants.len();
        let grants = control::equal_shares(scenario);
        let learns = setup.policy.is_some() && !setup.shared_cache;
        let seeds = (0..).map(|i| mix64(mix64(seed) ^ i));
        let tenants = scenario.tenants.iter().zip(prepared).zip(seeds);
        let tenants = tenants
            .map(|((spec, prepared), seed)| Tenant::new(spec, prepared, scenario, seed, learns))
            .collect();
        let caches = if setup.shared_cache {
            vec![scenario.item_cost.cache(scenario.eviction, scenario.memory.as_u64(), count)]
        } else {
            let cache = |grant: &Grant| scenario.item_cost.cache(scenario.eviction, grant.memory, 1);
            grants.iter().map(cache).collect()
        };
        let gates_each = if setup.shared_resources { 1 } else { count };
        let limiters = limiters(scenario, setup, &grants[..gates_each]);
        let backend = scenario.backend;
        let behind = Backend {
            latency_secs: backend.latency_ms / 1e3,
            spread: backend.spread,
            concurrency: if backend.concurrency == 0 { u32::MAX } else { backend.concurrency },
            busy: 0,
            waiting: VecDeque::new(),
            rng: seeded(mix64(seed ^ 0xbac0)),
            // Without any time on the way, a client whose requests all hit would stop time.
            round_trip: nanos(backend.round_trip_ms / 1e3).max(1_000),
        };
        let run = Run {
            policy: String::new(),
            names: scenario.tenants.iter().map(|tenant| tenant.name.clone()).collect(),
            totals: Vec::new(),
            intervals: Vec::new(),
            decisions: Vec::new(),
            rounds: Vec::new(),
            passes: Vec::new(),
            ended_secs: 0.0,
            simulated: 0,
        };
        Self {
            scenario,
            now: 0,
            events: Events::default(),
            tenants,
            caches,
            shared_cache: setup.shared_cache,
            limiters,
            gates_each,
            costs: scenario.resources.iter().map(|resource| resource.cost).collect(),
            behind,
            requests: Vec::new(),
            free: Vec::new(),
            cliffs: vec![None; count],
            grants,
            run,
            recorded: 0,
            measured_secs: 0.0,
        }
    }

    fn start(&mut self, decides: bool) {
        for tenant in 0..self.tenants.len() {
            self.wake(tenant);
            for (change, what) in (0..).zip(&self.scenario.tenants[tenant].changes) {
                self.events.plan(nanos(what.at_secs), Event::Change { tenant: tenant as u32, change });
            }
        }
        self.events.plan(nanos(self.scenario.record_secs), Event::Record);
        if decides {
            self.events.plan(nanos(self.scenario.control.interval_secs), Event::Decide);
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Send { tenant, client } => self.send(tenant, client),
            Event::Arrive { tenant } => self.arrive(tenant),
            Event::LimiterQueue { gate } => self.open(gate),
            Event::Answered { request } => self.answered(request),
            Event::Change { tenant, change } => {
                let tenant = tenant as usize;
                self.tenants[tenant].change(&self.scenario.tenants[tenant].changes[change as usize]);
                self.wake(tenant);
            }
            Event::Record => self.record(),
            Event::Decide | Event::Poll { .. } => unreachable!("the controller's"),
        }
    }

    /// Wakes the clients that do not send yet, and plans an arrival if none is planned.
    fn wake(&mut self, number: usize) {
        let tenant = &mut self.tenants[number];
        let clients = tenant.clients();
        tenant.sending.resize(tenant.sending.len().max(clients as usize), false);
        for client in 0..clients {
            if !std::mem::replace(&mut tenant.sending[client as usize], true) {
                self.events.plan(self.now, Event::Send { tenant: number as u32, client });
            }
        }
        if !tenant.arrival_is_planned
            && let Some(gap) = tenant.gap(self.now)
        {
            tenant.arrival_is_planned = true;
            self.events.plan(self.now + gap, Event::Arrive { tenant: number as u32 });
        }
    }

    fn send(&mut self, tenant: u32, client: u32) {
        let sender = &mut self.tenants[tenant as usize];
        if client >= sender.clients() || sender.stream.has_ended() {
            sender.sending[client as usize] = false;
            return;
        }
        self.begin(tenant, client);
    }

    fn arrive(&mut self, number: u32) {
        let tenant = &mut self.tenants[number as usize];
        tenant.arrival_is_planned = false;
        let goes_on = match tenant.load {
            Load::Open { rate_per_sec } => rate_per_sec > 0.0,
            Load::Timed => true,
            Load::Closed { .. } => false,
        };
        if !goes_on || tenant.stream.has_ended() {
            return;
        }
        if tenant.has_room() {
            tenant.under_way += 1;
            self.begin(number, NO_CLIENT);
        } else {
            tenant.tally.refused += 1;
            // A trace continues without it.
            if matches!(tenant.load, Load::Timed) {
                tenant.draw();
            }
        }
        self.wake(number as usize);
    }

    /// Handles a request that reaches the cache. A missing object is inserted now, so that requests
    /// that come before the backend has answered share the answer, as in HopperKV.
    fn begin(&mut self, number: u32, client: u32) {
        self.run.simulated += 1;
        let scenario = self.scenario;
        let (cache, owner) = self.cache_of(number as usize);
        let tenant = &mut self.tenants[number as usize];
        let operation = tenant.draw();
        let size = scenario.item_cost.of(operation.size);
        let len = scenario.item_cost.length(operation.size);
        let now_secs = (self.now / SECOND) as u32;
        let expires = if operation.ttl_secs > 0 { now_secs.saturating_add(operation.ttl_secs) } else { 0 };
        let cache = &mut self.caches[cache];
        let hit = match operation.action {
            Action::Read => cache.access_until(owner, operation.key, len, now_secs, expires),
            Action::Write if scenario.admit_writes => {
                cache.store(owner, operation.key, len, now_secs, expires);
                false
            }
            Action::Write | Action::Remove => {
                cache.remove(owner, operation.key);
                false
            }
        };
        tenant.observe(operation, &self.costs, size, hit);
        let is_read = operation.action == Action::Read;
        tenant.tally.reads += u64::from(is_read);
        tenant.tally.hits += u64::from(hit);
        let request = Request {
            tenant: number,
            client,
            size: operation.size,
            is_write: !is_read,
            is_miss: is_read && !hit,
            stage: 0,
            sent: self.now,
        };
        self.proceed(request, None);
    }

    /// Stores a request that waits somewhere, and returns its place; most requests never wait.
    fn put(&mut self, request: Request, at: Option<u32>) -> u32 {
        match at.or_else(|| self.free.pop()) {
            Some(at) => {
                self.requests[at as usize] = request;
                at
            }
            None => {
                self.requests.push(request);
                (self.requests.len() - 1) as u32
            }
        }
    }

    /// Takes a request as far as it gets; `at` is its place if it waited. Its stages: each resource
    /// before the backend, in the order of the scenario; the backend; each resource on the way
    /// back; the client.
    fn proceed(&mut self, mut request: Request, at: Option<u32>) {
        let resources = self.costs.len() as u32;
        let Request { tenant, size, is_write, is_miss, .. } = request;
        loop {
            let stage = request.stage;
            request.stage += 1;
            if stage == resources {
                if is_write || is_miss {
                    let at = self.put(request, at);
                    self.ask_backend(at);
                    return;
                }
                continue;
            }
            let (resource, before) =
                if stage < resources { (stage, true) } else { (stage - resources - 1, false) };
            if resource >= resources {
                self.free.extend(at);
                self.answer(request);
                return;
            }
            let cost = self.costs[resource as usize];
            if cost.is_before_backend() != before {
                continue;
            }
            let units = cost.units(size, is_write, is_miss);
            if units > 0.0 {
                let gate = resource as usize * self.gates_each
                    + if self.gates_each == 1 { 0 } else { tenant as usize };
                if !self.limiters[gate].pass(self.now, units) {
                    let at = self.put(request, at);
                    self.limiters[gate].wait(at, units);
                    self.watch(gate);
                    return;
                }
            }
        }
    }

    /// Plans to come back to a gate when the first before it may go.
    fn watch(&mut self, gate: usize) {
        if let Some(due) = self.limiters[gate].new_due(self.now) {
            self.events.plan(due, Event::LimiterQueue { gate: gate as u32 });
        }
    }

    fn open(&mut self, number: u32) {
        let number = number as usize;
        if !self.limiters[number].is_due(self.now) {
            return;
        }
        while let Some(at) = self.limiters[number].next(self.now) {
            self.proceed(self.requests[at as usize], Some(at));
        }
        self.watch(number);
    }

    /// Hands a request to the backend, or lets it wait for its turn.
    fn ask_backend(&mut self, request: u32) {
        if self.behind.busy == self.behind.concurrency {
            self.behind.waiting.push_back(request);
            return;
        }
        self.behind.busy += 1;
        let behind = &mut self.behind;
        let time = match behind.spread {
            Spread::Fixed => nanos(behind.latency_secs),
            Spread::Exponential => exponential(&mut behind.rng, behind.latency_secs),
        };
        self.events.plan(self.now + time, Event::Answered { request });
    }

    fn answered(&mut self, request: u32) {
        self.behind.busy -= 1;
        if let Some(next) = self.behind.waiting.pop_front() {
            self.ask_backend(next);
        }
        self.proceed(self.requests[request as usize], Some(request));
    }

    /// The answer is on its way to the client, which thinks and sends again.
    fn answer(&mut self, request: Request) {
        let Request { tenant: number, client, sent, .. } = request;
        let arrives = self.now + self.behind.round_trip;
        let tenant = &mut self.tenants[number as usize];
        tenant.tally.requests += 1;
        tenant.tally.latencies.record(arrives - sent);
        if client == NO_CLIENT {
            tenant.under_way -= 1;
        } else {
            let next = arrives + tenant.think();
            self.events.plan(next, Event::Send { tenant: number, client });
        }
    }

    /// The cache of a tenant, and as which of its owners.
    fn cache_of(&self, tenant: usize) -> (usize, usize) {
        if self.shared_cache { (0, tenant) } else { (tenant, 0) }
    }

    /// Applies `grants` to each tenant: first takes memory from those that get less.
    fn grant(&mut self, grants: &[Grant], is_unlimited: &dyn Fn(usize) -> bool) {
        if !self.shared_cache {
            for shrinks in [true, false] {
                for ((cache, grant), cliff) in self.caches.iter_mut().zip(grants).zip(&self.cliffs) {
                    if (grant.memory < cache.capacity()) == shrinks {
                        cache.set_room(grant.memory, split(*cliff, grant.memory));
                    }
                }
            }
        }
        if self.gates_each > 1 || self.tenants.len() == 1 {
            for number in 0..self.limiters.len() {
                let (resource, tenant) = (number / self.gates_each, number % self.gates_each);
                let total = self.scenario.resources[resource].total_per_sec;
                let rate = if is_unlimited(tenant) { total } else { grants[tenant].resources[resource] };
                self.limiters[number].set_rate(self.now, rate);
                self.watch(number);
            }
        }
        self.grants.clone_from_slice(grants);
    }

    /// Returns whether every trace has been read as often as it should, and every request been
    /// answered.
    fn is_over(&self) -> bool {
        self.requests.len() == self.free.len()
            && self.tenants.iter().all(|tenant| {
                tenant.stream.has_ended()
                    && tenant.sending.iter().all(|sends| !sends)
                    && tenant.under_way == 0
            })
    }

    /// Ends an interval of the record, and plans the end of the next.
    fn record(&mut self) {
        self.end_interval();
        #[cfg(test)]
        self.validate();
        self.events.plan(self.now + nanos(self.scenario.record_secs), Event::Record);
    }

    fn end_interval(&mut self) {
        let secs = (self.now - self.recorded) as f64 / SECOND as f64;
        self.recorded = self.now;
        let is_measured = self.now > nanos(self.scenario.warm_up_secs);
        self.measured_secs += if is_measured { secs } else { 0.0 };
        let mut figures = Vec::with_capacity(self.tenants.len());
        for number in 0..self.tenants.len() {
            let (cache, owner) = self.cache_of(number);
            let used = self.caches[cache].used_by(owner) as f64;
            let grant = &self.grants[number];
            let memory = if self.shared_cache { used } else { grant.memory as f64 };
            let tenant = &mut self.tenants[number];
            figures.push(Figures {
                memory,
                used,
                grants: grant.resources.clone(),
                ..tenant.tally.figures(secs)
            });
            if is_measured {
                tenant.tally.move_to(&mut tenant.total);
                tenant.sums.0 += memory * secs;
                tenant.sums.1 += used * secs;
                let granted = tenant.sums.2.iter_mut().zip(&grant.resources);
                granted.for_each(|(sum, granted)| *sum += granted * secs);
            } else {
                tenant.tally.clear();
            }
        }
        self.run.intervals.push(Interval { at_secs: self.now as f64 / SECOND as f64, tenants: figures });
    }

    fn finish(mut self, policy: String) -> Run {
        // The rest after the last whole interval.
        if self.now > self.recorded {
            self.end_interval();
        }
        let secs = self.measured_secs.max(f64::MIN_POSITIVE);
        self.run.ended_secs = self.now as f64 / SECOND as f64;
        self.run.passes = self.tenants.iter().map(|tenant| tenant.stream.passes()).collect();
        self.run.totals = self
            .tenants
            .iter()
            .map(|tenant| {
                let (memory, used, grants) = &tenant.sums;
                Figures {
                    memory: memory / secs,
                    used: used / secs,
                    grants: grants.iter().map(|sum| sum / secs).collect(),
                    ..tenant.total.figures(secs)
                }
            })
            .collect();
        self.run.policy = policy;
        self.run
    }

    /// Checks every invariant; for tests.
    #[cfg(test)]
    fn validate(&self) {
        let room: u64 = self.caches.iter().map(Cache::capacity).sum();
        assert!(room <= self.scenario.memory.as_u64(), "{room} of {}", self.scenario.memory);
        let before_gates: usize = self.limiters.iter().map(LimiterQueue::waiting).sum();
        let behind = self.behind.waiting.len() + self.behind.busy as usize;
        assert_eq!(before_gates + behind, self.requests.len() - self.free.len(), "each is at one place");
    }
}
