//! The application of a decision (HARE, FAST '26, section 4.3, "Smooth Cache Migrations"; BunnyFS,
//! section 5).
//!
//! By rounds: enough that no tenant gets or gives more than a chunk of memory in one, with all
//! resources on the straight line from the old to the new grants. The next round begins when each
//! receiver is warm: when it has filled 97 % of what the round gave it, or evicts, or its curve
//! says that it misses less than 1 % with what it has. HopperKV asks that 97 % of all it was
//! granted be used: a chunk is less than the other 3 %, so that rounds run several chunks ahead of
//! what is populated.

use allocate::Grant;
use limit::SECOND;

use super::World;
use super::record::Round;
use crate::scenario::Apply;

/// A receiver that has filled this share of what a round gave it is warm.
const WARM_SHARE: f64 = 0.97;
/// One that misses less than this with what it was granted is warm, too.
const WARM_MISS_RATIO: f64 = 0.01;

/// A decision on its way.
pub(super) struct Migration {
    number: u32,
    from: Vec<Grant>,
    to: Vec<Grant>,
    /// The grant of each tenant until its memory is warm, under [`Apply::Boost`].
    boosted: Vec<Grant>,
    /// Rounds that have begun, and all.
    round: u32,
    rounds: u32,
    chunk: u64,
    /// The memory that each had before the round that is under way, and the evictions of its cache
    /// until then.
    before: Vec<u64>,
    evicted: Vec<u64>,
}

impl Migration {
    pub(super) fn new(number: u32, world: &World<'_>, to: Vec<Grant>, baseline: &[Grant]) -> Self {
        let control = &world.scenario.control;
        let from = world.grants.clone();
        let most = from.iter().zip(&to).map(|(from, to)| from.memory.abs_diff(to.memory)).max().unwrap_or(0);
        let chunk = control.chunk.as_u64().max(1);
        let rounds = match control.apply {
            // HopperKV takes the quotient and one more, which is a round too many if there is no
            // remainder.
            Apply::Rounds => u32::try_from(most.div_ceil(chunk)).unwrap_or(u32::MAX).max(1),
            _ => 1,
        };
        let boost = |(to, base): (&Grant, &Grant)| Grant {
            memory: to.memory,
            resources: to.resources.iter().zip(&base.resources).map(|(to, base)| to.max(*base)).collect(),
        };
        let boosted = to.iter().zip(baseline).map(boost).collect();
        let before = from.iter().map(|grant| grant.memory).collect();
        Self { number, from, to, boosted, round: 0, rounds, chunk, before, evicted: Vec::new() }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the grants of tenants after `round` rounds.
    fn after(&self, round: u32) -> Vec<Grant> {
        let share = f64::from(round) / f64::from(self.rounds);
        let between = |(from, to): (&Grant, &Grant)| {
            // Rounded down, so that the sum of all is never more than the whole.
            let step = (i128::from(to.memory) - i128::from(from.memory)) * i128::from(round);
            let memory = i128::from(from.memory) + step.div_euclid(i128::from(self.rounds));
            let line = |(from, to): (&f64, &f64)| from + (to - from) * share;
            Grant {
                memory: memory as u64,
                resources: from.resources.iter().zip(&to.resources).map(line).collect(),
            }
        };
        self.from.iter().zip(&self.to).map(between).collect()
    }

    fn receives(&self, tenant: usize) -> bool {
        self.to[tenant].memory > self.from[tenant].memory
    }

    /// Begins the next round, or ends the grants that were made until receivers are warm. False if
    /// there is nothing left to do.
    pub(super) fn advance(&mut self, world: &mut World<'_>) -> bool {
        if self.round >= self.rounds {
            if world.scenario.control.apply != Apply::Rounds {
                world.grant(&self.to, &|_| false);
            }
            return false;
        }
        let least_full = if self.round == 0 { 1.0 } else { self.least_full(world) };
        self.before = world.grants.iter().map(|grant| grant.memory).collect();
        self.round += 1;
        match world.scenario.control.apply {
            Apply::Rounds | Apply::AtOnce => world.grant(&self.after(self.round), &|_| false),
            Apply::Boost => {
                let receives: Vec<bool> = (0..self.to.len()).map(|tenant| self.receives(tenant)).collect();
                let pick =
                    |tenant: usize| if receives[tenant] { &self.boosted[tenant] } else { &self.to[tenant] };
                let grants: Vec<Grant> = (0..self.to.len()).map(|tenant| pick(tenant).clone()).collect();
                world.grant(&grants, &|_| false);
            }
            Apply::Unthrottled => {
                let receives: Vec<bool> = (0..self.to.len()).map(|tenant| self.receives(tenant)).collect();
                world.grant(&self.to, &|tenant| receives[tenant]);
            }
        }
        self.evicted = world.caches.iter().map(super::Cache::evictions).collect();
        let moved =
            self.before.iter().zip(&world.grants).map(|(before, grant)| before.abs_diff(grant.memory));
        let bytes = moved.max().unwrap_or(0);
        debug_assert!(world.scenario.control.apply != Apply::Rounds || bytes <= self.chunk + 1);
        if bytes > 0 {
            let at_secs = world.now as f64 / SECOND as f64;
            world.run.rounds.push(Round { at_secs, migration: self.number, bytes, least_full });
        }
        true
    }

    /// Returns whether every receiver is warm.
    pub(super) fn is_warm(&self, world: &World<'_>) -> bool {
        self.least_full(world) > WARM_SHARE
    }

    /// The least share of what the round gave it that a receiver has filled, among those that are
    /// not warm by their curve; 1 if there is none.
    fn least_full(&self, world: &World<'_>) -> f64 {
        if world.shared_cache {
            return 1.0;
        }
        let fullness = |tenant: usize| {
            let granted = world.grants[tenant].memory;
            let given = granted.saturating_sub(self.before[tenant]).max(1);
            let cache = &world.caches[tenant];
            // With large objects a full cache may have room for a good part of a chunk.
            if cache.evictions() > self.evicted[tenant] {
                return 1.0;
            }
            let share = 1.0 - granted.saturating_sub(cache.used()) as f64 / given as f64;
            if share > WARM_SHARE {
                return share;
            }
            let learner = world.tenants[tenant].learner.as_ref();
            let curve = learner.and_then(super::learn::Learner::curve);
            let fits = curve.is_some_and(|curve| curve.miss_ratio(granted as f64) < WARM_MISS_RATIO);
            if fits { 1.0 } else { share.max(0.0) }
        };
        (0..self.to.len()).filter(|tenant| self.receives(*tenant)).map(fullness).fold(1.0, f64::min)
    }
}
