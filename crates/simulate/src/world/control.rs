//! The control loop: it passes observations and learnt curves to the policy, and applies its
//! decisions.
//!
//! After HopperKV (HARE, FAST '26, section 4.3): a decision at each interval from the statistics of
//! a sliding window. The policy decides whether a new allocation is worth its migration; if it is
//! not, the policy returns the present one.

use std::sync::Arc;

use allocate::partition::shares;
use allocate::{Demand, Grant, Policy, Pool, Resource, View};
use curve::{MissRatioCurve, Point, Unit};
use limit::SECOND;

use super::events::Event;
use super::migrate::Migration;
use super::record::Decided;
use super::{Setup, World, nanos};
use crate::scenario::Scenario;

/// The controller of a run.
pub(super) struct Controller {
    name: String,
    policy: Option<Box<dyn Policy>>,
    migration: Option<Migration>,
    migrations: u32,
    baseline: Vec<Grant>,
}

impl Controller {
    pub(super) fn new(scenario: &Scenario, setup: Setup) -> Self {
        let baseline = equal_shares(scenario);
        Self { name: setup.name, policy: setup.policy, migration: None, migrations: 0, baseline }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether there is anything to decide.
    pub(super) fn decides(&self) -> bool {
        self.policy.is_some()
    }

    /// Makes a round of decisions. A migration that is under way stops where it is.
    pub(super) fn decide(&mut self, world: &mut World<'_>) {
        let control = &world.scenario.control;
        world.events.plan(world.now + nanos(control.interval_secs), Event::Decide);
        self.migration = None;
        for tenant in &mut world.tenants {
            tenant.end_interval(control.window);
        }
        let Some(policy) = &mut self.policy else { return };
        let decided = view(world).map(|view| policy.decide(&view));
        for tenant in &mut world.tenants {
            if let Some(learner) = &mut tenant.learner {
                learner.age();
            }
        }
        let at_secs = world.now as f64 / SECOND as f64;
        let decision = match decided {
            Ok(decision) => decision,
            Err(reason) => {
                let nothing =
                    Decided { at_secs, applied: false, reasons: vec![reason], ..Decided::default() };
                return world.run.decisions.push(nothing);
            }
        };
        let mut cliffs = decision.cliffs;
        cliffs.resize(world.tenants.len(), None);
        let applied = decision.grants != world.grants || cliffs != world.cliffs;
        world.cliffs = cliffs;
        let memory = decision.grants.iter().map(|grant| grant.memory).collect();
        let resources = decision.grants.iter().map(|grant| grant.resources.clone()).collect();
        let reasons = decision.moves.iter().map(|step| step.reason.clone()).collect();
        let name = |pool: usize| world.scenario.tenants.get(pool).map_or("", |tenant| &tenant.name);
        let unmet = decision.unmet.iter().map(|unmet| format!("{}: {}", name(unmet.pool), unmet.reason));
        let unmet = unmet.collect();
        world.run.decisions.push(Decided { at_secs, applied, memory, resources, reasons, unmet });
        if applied {
            self.migrations += 1;
            let mut migration = Migration::new(self.migrations, world, decision.grants, &self.baseline);
            migration.advance(world);
            self.migration = Some(migration);
            let poll = nanos(world.scenario.control.poll_secs);
            world.events.plan(world.now + poll, Event::Poll { migration: self.migrations });
        }
    }

    /// Looks whether the migration under way may go on.
    pub(super) fn poll(&mut self, world: &mut World<'_>, number: u32) {
        let Some(migration) = self.migration.as_mut().filter(|migration| migration.number() == number) else {
            return;
        };
        if migration.is_warm(world) && !migration.advance(world) {
            self.migration = None;
            return;
        }
        let poll = nanos(world.scenario.control.poll_secs);
        world.events.plan(world.now + poll, Event::Poll { migration: number });
    }
}

/// Returns the grants of all tenants at the beginning: shares of everything in proportion to their
/// weights, within their bounds.
pub(super) fn equal_shares(scenario: &Scenario) -> Vec<Grant> {
    let view = View {
        memory: scenario.memory.as_u64(),
        resources: resources(scenario),
        pools: (0..scenario.tenants.len())
            .map(|number| bare_pool(scenario, number, Arc::new(MissRatioCurve::uniform(Unit::Bytes, 1))))
            .collect(),
        ..View::default()
    };
    let weights: Vec<f64> = scenario.tenants.iter().map(|tenant| tenant.weight).collect();
    shares(&view, &weights)
}

fn resources(scenario: &Scenario) -> Vec<Resource> {
    let resource =
        |spec: &crate::scenario::Resource| Resource { name: spec.name.clone(), total: spec.total_per_sec };
    scenario.resources.iter().map(resource).collect()
}

/// A tenant's pool, with its declared properties.
fn bare_pool(scenario: &Scenario, number: usize, curve: Arc<MissRatioCurve>) -> Pool {
    let tenant = &scenario.tenants[number];
    let mut pool = Pool::new(tenant.name.clone(), curve, 0);
    (pool.floor, pool.ceiling) = (tenant.floor.as_u64(), tenant.ceiling.as_u64());
    (pool.weight, pool.min_request_rate) = (tenant.weight, tenant.min_request_rate);
    pool
}

/// Returns the view of the policy, or why there is nothing to decide on.
fn view(world: &World<'_>) -> Result<View, String> {
    let scenario = world.scenario;
    let mut pools = Vec::with_capacity(world.tenants.len());
    for (number, tenant) in world.tenants.iter().enumerate() {
        let seen = tenant.in_window();
        let window_secs = tenant.window.len() as f64 * scenario.control.interval_secs;
        // HopperKV: without progress there is no demand to be known, and nothing is decided.
        if seen.requests == 0.0 && !scenario.resources.is_empty() {
            return Err(format!("{} made no request within the window", scenario.tenants[number].name));
        }
        let learnt = tenant.learner.as_ref().map(|learner| learner.curve().map(Arc::new));
        let curve = match learnt {
            Some(Some(curve)) => curve,
            // A tenant that reads nothing that was followed gains nothing from memory.
            Some(None) => Arc::new(flat(1.0)),
            None => {
                let missed = if seen.reads > 0.0 { 1.0 - seen.hits / seen.reads } else { 1.0 };
                Arc::new(flat(missed))
            }
        };
        let mut pool = bare_pool(scenario, number, curve);
        let (cache, owner) = world.cache_of(number);
        pool.size = world.grants[number].memory;
        pool.used = world.caches[cache].used_by(owner);
        pool.grants = world.grants[number].resources.clone();
        pool.request_rate = seen.requests / window_secs;
        pool.item_size = (seen.bytes / seen.requests.max(1.0)).max(1.0);
        let per_request = |sum: f64| sum / seen.requests.max(1.0);
        let demand = |resource: usize| Demand {
            fixed: per_request(seen.if_hit[resource]),
            on_miss: per_request(seen.if_missed[resource] - seen.if_hit[resource]),
        };
        pool.demands = (0..scenario.resources.len()).map(demand).collect();
        pools.push(pool);
    }
    let interval_secs = scenario.control.interval_secs;
    let view =
        View { memory: scenario.memory.as_u64(), resources: resources(scenario), pools, interval_secs };
    view.validate().map_err(|error| error.to_string())?;
    Ok(view)
}

/// The curve of a cache whose misses do not depend on its size.
fn flat(miss_ratio: f64) -> MissRatioCurve {
    let point = Point { size: 0, miss_ratio: miss_ratio.clamp(0.0, 1.0) };
    MissRatioCurve::new(Unit::Bytes, [point]).expect("one point with a ratio is a curve")
}
