//! The local loop: a policy of [`allocate`] that moves memory between the pools of one cache.
//!
//! A [`Controller`] looks at the cache once in a round, about every ten seconds: the requests and
//! misses of each pool since the last round, and its miss-ratio curve ([`Cache::curve`]), which the
//! controller switches on. From these the policy decides, between rails, what each pool shall have,
//! and the controller sets the pools' limits: those that give first. Slabs follow in the next
//! rounds of [`Cache::maintain`]. Each round says what was decided and why, and how often the pools
//! missed in fact, beside what was predicted.
//!
//! The controller owns the limits of the pools: it sets one for each pool that has none. Pools that
//! are to keep their limits are left out ([`ControlConfig::pools`]). Their memory, and all that is
//! not slabs (index, queues, connections), is not distributed. If the rest is not enough for what
//! the pools are granted, because the index grew, all have a little less in the next round.
//!
//! Pools should have keys of their own: misses in a key space that pools share belong to none of
//! them. Resources besides memory are not measured yet, so policies that trade them (HARE, DRF) see
//! none.
//!
//! (HOLPACA, ICPE 2026, section 4, has this loop in an agent; HARE, FAST 2026, section 4.3, its
//! hysteresis.)

use std::collections::HashMap;

use allocate::guard::Guarded;
pub use allocate::guard::{Aim, Rails};
use allocate::registry::{self, Registered};
use allocate::{Decision, Grant, Outcome, Policy, Pool, View, partition};
use memory::watch::{CurveConfig, PoolCurve};
use memory::{ByteSize, Cache, Error, ErrorKind, Part, PoolId, PoolStats};

/// The smallest change of a limit that is made, in bytes: less is not worth moving items.
const GRAIN: u64 = 64 << 10;
/// One byte in this many of the memory for slabs is not granted: for index and queues that grow.
const SPARE_PART: u64 = 32;
/// Reads since the last round below which a pool's miss ratio is not told.
const LEAST_READS: u64 = 100;

/// The settings of a [`Controller`].
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// The policy, by its name in [`allocate::registry`]. Default `exact-hit-rate`: most hits per
    /// second, by curves.
    pub policy: String,
    /// The rails. Default: a pool keeps at least a tenth of an equal share, at most a tenth of all
    /// memory moves in a round, and nothing moves for less than 1 % fewer misses.
    pub rails: Rails,
    /// The pools, by name; empty, the default, stands for all.
    pub pools: Vec<String>,
    /// True if rounds decide and tell, and change nothing. Default false.
    pub dry_run: bool,
    /// The curves that are learnt of pools that have none.
    pub curves: CurveConfig,
}

impl Default for ControlConfig {
    fn default() -> Self {
        let rails =
            Rails { least_share: 0.1, step: 0.1, smoothing: 0.3, hysteresis: 0.01, ..Rails::default() };
        Self {
            policy: "exact-hit-rate".to_owned(),
            rails,
            pools: Vec::new(),
            dry_run: false,
            curves: CurveConfig::default(),
        }
    }
}

/// The controller of one cache: a plain value, whose rounds a thread of the caller makes.
///
/// ```
/// use millpond::control::{ControlConfig, Controller};
/// use millpond::{Cache, CacheConfig, PoolConfig};
/// # fn main() -> Result<(), millpond::Error> {
/// let cache = Cache::new(CacheConfig::default())?;
/// cache.add_pool(PoolConfig::named("users"))?;
/// cache.add_pool(PoolConfig::named("posts"))?;
/// let mut controller = Controller::new(ControlConfig::default())?;
/// // The first round gives each pool its share, and begins to learn.
/// let round = controller.round(&cache)?;
/// assert_eq!(round.pools.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Controller {
    policy: Guarded<Registered>,
    pools: Vec<String>,
    dry_run: bool,
    curves: CurveConfig,
    /// The counts of the last round.
    before: HashMap<PoolId, Counts>,
    /// The miss ratios that were predicted for the present limits.
    predicted: HashMap<PoolId, f64>,
    last_nanos: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
}

/// The outcome of a round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The pools, in the order of their ids.
    pub pools: Vec<PoolRound>,
    /// The memory that was distributed, in bytes of slabs.
    pub memory_bytes: u64,
    /// The reasons of what moves, in words.
    pub reasons: Vec<String>,
    /// The promises that cannot be kept, in words.
    pub unmet: Vec<String>,
    /// True if limits were changed.
    pub applied: bool,
}

/// A pool in a round.
#[derive(Clone, Debug)]
pub struct PoolRound {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Its limit before the round, in bytes of slabs.
    pub before_bytes: u64,
    /// Its limit as decided, in bytes of slabs.
    pub granted_bytes: u64,
    /// Reads per second since the last round.
    pub reads_per_sec: f64,
    /// The miss ratio since the last round. `None`: there were fewer than 100 reads.
    pub missed: Option<f64>,
    /// The miss ratio that an earlier round predicted for the limit that the pool had since.
    pub predicted: Option<f64>,
    /// The miss ratio that is predicted for what was decided.
    pub expected: f64,
}

impl Controller {
    /// Creates a controller.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no policy of this name.
    pub fn new(config: ControlConfig) -> Result<Self, Error> {
        let Some(entry) = registry::entry(&config.policy) else {
            let names: Vec<&str> = registry::policies().iter().map(|entry| entry.name).collect();
            let context =
                format!("there is no allocation policy `{}`: choose {}", config.policy, names.join(", "));
            return Err(Error::new(ErrorKind::Config, context));
        };
        Ok(Self {
            policy: Guarded::new(entry.registered(), config.rails),
            pools: config.pools,
            dry_run: config.dry_run,
            curves: config.curves,
            before: HashMap::new(),
            predicted: HashMap::new(),
            last_nanos: None,
        })
    }

    /// Makes a round: looks, decides, and sets limits unless it only tells. To be called by one
    /// thread, about every ten seconds, beside [`Cache::maintain`].
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`] if a pool is removed meanwhile, [`ErrorKind::OutOfMemory`] if
    /// there is no memory to learn a curve: the next round may succeed.
    pub fn round(&mut self, cache: &Cache) -> Result<Round, Error> {
        let now = cache.clock().monotonic_nanos();
        let secs = self.last_nanos.replace(now).map_or(0.0, |last| now.saturating_sub(last) as f64 / 1e9);
        let stats = cache.stats();
        let is_ours = |pool: &&PoolStats| {
            !pool.is_leaving && (self.pools.is_empty() || self.pools.contains(&pool.name))
        };
        let (ours, others): (Vec<&PoolStats>, Vec<&PoolStats>) = stats.pools.iter().partition(is_ours);
        let theirs: u64 = others.iter().map(|pool| pool.slab_bytes).sum();
        let memory = to_distribute(cache, theirs);
        let (mut pools, reads) = self.look(cache, &ours, secs)?;
        let without_limit = ours.iter().any(|pool| pool.limit_bytes.is_none());
        let granted: u64 = pools.iter().map(|pool| pool.size).sum();
        if !without_limit && granted > memory {
            // Index and queues have grown since: all have a little less.
            let part = memory as f64 / granted as f64;
            pools.iter_mut().for_each(|pool| pool.size = (pool.size as f64 * part) as u64);
        }
        let view =
            View { memory, pools, interval_secs: if secs > 0.0 { secs } else { 1.0 }, ..View::default() };
        view.validate().map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        // Without limits there is no present state to improve.
        let decision = if without_limit {
            let weights: Vec<f64> = view.pools.iter().map(|pool| pool.weight).collect();
            Decision::to(&view, partition::shares(&view, &weights), |_, _| {
                "a first limit, by weight".to_owned()
            })
        } else {
            self.policy.decide(&view)
        };
        let grants: Vec<u64> = decision.grants.iter().map(|grant| grant.memory).collect();
        let applied = !self.dry_run && self.apply(cache, &ours, &grants)?;
        let told_moves = decision.moves.iter().filter(|step| step.bytes >= GRAIN);
        let name = |number: usize| ours.get(number).map_or("", |pool| &pool.name);
        let unmet = decision.unmet.iter().map(|unmet| format!("{}: {}", name(unmet.pool), unmet.reason));
        Ok(Round {
            memory_bytes: memory,
            reasons: told_moves.map(|step| step.reason.clone()).collect(),
            unmet: unmet.collect(),
            applied,
            pools: self.tell(&ours, &view.pools, &reads, &grants),
        })
    }

    /// The pools as the policy sees them, and what was read of each since the last round.
    fn look(
        &mut self,
        cache: &Cache,
        ours: &[&PoolStats],
        secs: f64,
    ) -> Result<(Vec<Pool>, Vec<Counts>), Error> {
        let mut seen = HashMap::with_capacity(ours.len());
        let (mut pools, mut reads) = (Vec::with_capacity(ours.len()), Vec::with_capacity(ours.len()));
        for pool in ours {
            let counts = Counts { hits: pool.sum(|class| class.hits), misses: pool.misses };
            let before = self.before.get(&pool.id).copied().unwrap_or(counts);
            let read = Counts {
                hits: counts.hits.saturating_sub(before.hits),
                misses: counts.misses.saturating_sub(before.misses),
            };
            seen.insert(pool.id, counts);
            pools.push(self.pool_of(cache, pool, read, secs)?);
            reads.push(read);
        }
        self.before = seen;
        self.predicted.retain(|id, _| self.before.contains_key(id));
        Ok((pools, reads))
    }

    /// Says what the pools missed and what is expected of their grants, and keeps the latter for
    /// the next round.
    fn tell(
        &mut self,
        ours: &[&PoolStats],
        pools: &[Pool],
        reads: &[Counts],
        grants: &[u64],
    ) -> Vec<PoolRound> {
        let mut told = Vec::with_capacity(ours.len());
        for (((pool, shown), read), granted) in ours.iter().zip(pools).zip(reads).zip(grants) {
            let reads = read.hits + read.misses;
            let missed = (reads >= LEAST_READS).then(|| read.misses as f64 / reads as f64);
            let expected = expected(shown, *granted, missed);
            let predicted = if self.dry_run { None } else { self.predicted.insert(pool.id, expected) };
            told.push(PoolRound {
                id: pool.id,
                name: pool.name.clone(),
                before_bytes: pool.limit_bytes.unwrap_or(pool.slab_bytes),
                granted_bytes: *granted,
                reads_per_sec: shown.request_rate,
                missed,
                predicted,
                expected,
            });
        }
        told
    }

    /// A pool as the policy sees it, in bytes of slabs.
    fn pool_of(&self, cache: &Cache, pool: &PoolStats, read: Counts, secs: f64) -> Result<Pool, Error> {
        let curve = match cache.curve(pool.id)? {
            Some(curve) => curve,
            None => {
                cache.set_curve(pool.id, Some(self.curves))?;
                cache.curve(pool.id)?.ok_or_else(|| {
                    Error::new(ErrorKind::Config, format!("somebody stops the curve of `{}`", pool.name))
                })?
            }
        };
        let mut seen = Pool::new(pool.name.clone(), in_slabs(&curve, pool.slab_bytes), 0);
        seen.size = pool.limit_bytes.unwrap_or(pool.slab_bytes);
        seen.used = pool.slab_bytes;
        seen.floor = pool.reserve_bytes;
        seen.weight = f64::from(pool.weight);
        let reads = (read.hits + read.misses) as f64;
        seen.request_rate = if secs > 0.0 { reads / secs } else { 0.0 };
        Ok(seen)
    }

    /// Sets the limits that differ: lower ones first, so that the sum never exceeds what there is.
    /// Returns whether any did.
    fn apply(&self, cache: &Cache, pools: &[&PoolStats], grants: &[u64]) -> Result<bool, Error> {
        let changes = |pool: &PoolStats, grant: u64| {
            pool.limit_bytes.is_none_or(|limit| limit.abs_diff(grant) >= GRAIN)
        };
        let lowers = |pool: &PoolStats, grant: u64| pool.limit_bytes.is_none_or(|limit| grant < limit);
        let mut applied = false;
        for lowering in [true, false] {
            for (pool, grant) in pools.iter().zip(grants) {
                if changes(pool, *grant) && lowers(pool, *grant) == lowering {
                    cache.set_pool_limit_lazily(pool.id, Some(ByteSize::new(*grant)))?;
                    applied = true;
                }
            }
        }
        Ok(applied)
    }
}

/// The memory for slabs that pools may be granted, beside slabs of others, in bytes.
fn to_distribute(cache: &Cache, theirs: u64) -> u64 {
    let ledger = cache.ledger();
    let fixed = ledger.total().saturating_sub(ledger.part(Part::Slabs));
    let slabs = ledger.limit().saturating_sub(fixed).saturating_sub(theirs);
    slabs - slabs / SPARE_PART
}

/// The miss ratio that a pool will have with this memory: what it missed lately, and the difference
/// that its curve sees. The curve alone also counts what was missed while the pool filled.
fn expected(pool: &Pool, granted: u64, missed: Option<f64>) -> f64 {
    let at = |memory| Outcome::of(pool, &Grant { memory, resources: Vec::new() }).miss_ratio;
    let missed = missed.unwrap_or_else(|| at(pool.size));
    (missed + at(granted) - at(pool.size)).clamp(0.0, 1.0)
}

/// The curve by bytes of slabs, of which the pool has `slab_bytes`.
fn in_slabs(learnt: &PoolCurve, slab_bytes: u64) -> curve::MissRatioCurve {
    let chunk_bytes = learnt.memory_bytes as f64 / learnt.memory_per_byte;
    let per_byte = if chunk_bytes > 0.0 { (slab_bytes as f64 / chunk_bytes).max(1.0) } else { 1.0 };
    learnt.curve.scaled(curve::Unit::Bytes, per_byte)
}

#[cfg(test)]
mod tests;
