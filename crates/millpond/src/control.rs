//! The local loop: a policy of [`allocate`] that moves memory between the pools of one cache.
//!
//! A [`Controller`] looks at the cache once in a round: the requests and misses of each pool since
//! the last round, and its miss-ratio curve ([`Cache::curve`]). From these the policy decides,
//! between rails, what each pool shall have, and the controller grants the pools that
//! ([`Cache::set_pool_grant`]). A grant counts as a reserve: if no memory is free, a pool that
//! wants memory and has less than its grant takes it, in the next rounds of [`Cache::maintain`],
//! from the pool that is farthest over its own. So memory moves as fast as the pool that gets it
//! fills it, what a pool does not use of its grant others use meanwhile, and one rule of the engine
//! takes memory from pools, whoever decides. Each round says what was decided and why, and how
//! often the pools missed in fact, beside what was predicted.
//!
//! While a tenth of the memory for slabs is free, nobody goes short, and nothing is decided.
//! Reserves are floors and limits ceilings of what a policy grants; a pool whose limit is its
//! reserve keeps just that. All that is not slabs (index, queues, connections) is not granted, nor
//! is a thirty-second of the rest, for when they grow. If they grow beyond that, all grants become
//! a little less in the next round.
//!
//! Of pools that share a key space, misses are nobody's, so their miss ratios are unknown, and what
//! they insert anew counts as missed. [`Cache::set_optimizer`] moves limits, and with them the
//! ceilings of the policy: leave one of the two off. Resources besides memory are not measured yet,
//! so policies that trade them (HARE, DRF) see none.
//!
//! (HOLPACA, ICPE 2026, section 4, has this loop in an agent; HARE, FAST 2026, section 4.3, its
//! hysteresis.)

mod look;
mod survey;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use allocate::decision::LEAST_TOLD;
use allocate::drift::Drift;
pub use allocate::guard::Rails;
use allocate::guard::{self, Aim, Guarded};
use allocate::interval::{Interval, Tempo};
use allocate::measured::{Measured, is_same, is_steady};
use allocate::pace::Pace;
use allocate::registry::{self, Registered};
use allocate::{Decision, Grant, Policy, View, partition};
use curve::MissRatioCurve;
use memory::watch::CurveConfig;
use memory::{ByteSize, Cache, Error, ErrorKind, Part, PoolId, PoolStats};

use self::look::{Counts, Seen};
pub use self::survey::PoolSurvey;
pub use allocate::cost::Objective;
pub use allocate::pace::Idle;

/// One byte in this many of the memory for slabs is not granted: for index and queues that grow.
const SPARE_PART: u64 = 32;
/// One byte in this many of the memory for slabs is free while nothing is decided.
const FREE_PART: u64 = 10;
/// Grants that are fitted to other bounds are told if one byte in this many moves.
const FITTED_PART: u64 = 32;
/// A prediction is compared with what came if the pool had its grant but for one byte in this many.
const NEAR_PART: u64 = 16;

/// The settings of a [`Controller`].
#[derive(Clone, Debug, PartialEq)]
pub struct ControlConfig {
    /// The policy, by its name in [`allocate::registry`]. Default `most-hits`: most hits per
    /// second, each times the pool's weight, by the curves as they are.
    pub policy: String,
    /// The aim of policies that save misses. Default hits. The cost of a miss is the learnt one
    /// ([`MissCost`](memory::watch::MissCost)), or that of [`Self::miss_costs`].
    pub objective: Objective,
    /// The costs of a miss of pools, by name, in place of the learnt ones. Default none.
    pub miss_costs: HashMap<String, Duration>,
    /// The requests per second that pools are promised, by name, for policies that know promises
    /// (`exact-throughput`, `holpaca`, `holpaca-exact`). Such a policy takes a pool's throughput to
    /// be limited by its backend, so that it grows as its miss ratio falls. Default none.
    pub promises: HashMap<String, f64>,
    /// The misses per second that the backends of pools carry, by name, for the same policies.
    /// Default: those that each pool has.
    pub backends: HashMap<String, f64>,
    /// The rails. Default: a pool keeps at least a tenth of an equal share, at most a tenth of all
    /// memory moves in a round, and a policy that is to save misses moves nothing for less than 1 %
    /// of them. The hysteresis of other policies is not used, as their aims cannot be measured
    /// here, nor are nodes and instances.
    pub rails: Rails,
    /// The time between two rounds ([`Round::next`]). `None`, the default, chooses it from what
    /// was seen: 2 s while request rates or curves change or more is to be moved, and up to 30 s
    /// while all is quiet ([`allocate::interval`]).
    pub period: Option<Duration>,
    /// True if rounds decide and tell, and grant nothing. Default false.
    pub dry_run: bool,
    /// The curves that are learnt of pools that have none, from fewer keys if all together would
    /// take more than a thirty-second of the memory. `None`: such pools keep the memory that have
    /// their shares by weight, if the policy goes by curves. [`Controller::end`] leaves curves on.
    pub curves: Option<CurveConfig>,
}

impl Default for ControlConfig {
    fn default() -> Self {
        let rails =
            Rails { least_share: 0.1, step: 0.1, smoothing: 0.3, hysteresis: 0.01, ..Rails::default() };
        Self {
            policy: "most-hits".to_owned(),
            objective: Objective::default(),
            miss_costs: HashMap::new(),
            promises: HashMap::new(),
            backends: HashMap::new(),
            rails,
            period: None,
            dry_run: false,
            curves: Some(CurveConfig::default()),
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
/// // The first round begins to learn.
/// let round = controller.round(&cache)?;
/// assert_eq!(round.pools.len(), 2);
/// std::thread::sleep(round.next.min(std::time::Duration::from_millis(1)));
/// # Ok(())
/// # }
/// ```
pub struct Controller {
    policy: Guarded<Registered>,
    objective: Objective,
    miss_costs: HashMap<String, Duration>,
    promises: HashMap<String, f64>,
    backends: HashMap<String, f64>,
    period: Option<Duration>,
    interval: Interval,
    dry_run: bool,
    /// The aim of the policy by curves. `None`: it divides memory by another rule.
    aim: Option<Aim>,
    curves: Option<CurveConfig>,
    /// The pools at the last round.
    last: HashMap<PoolId, Last>,
    last_nanos: Option<u64>,
    /// The progress of measuring what pools miss with the memory that they have.
    pace: Pace,
}

/// A pool at the last round.
struct Last {
    counts: Counts,
    /// Misses per second, smoothed.
    backend_per_sec: f64,
    /// The mean rate of reads; `None` before the first one is known.
    mean_rate: Option<f64>,
    measured: Measured,
    drift: Drift,
    slab_bytes: u64,
    /// Its miss ratio, if there were reads enough.
    missed: Option<f64>,
    /// Its grant, and the miss ratio that was predicted for that; `None` if nothing was.
    promised: Option<(u64, f64)>,
}

impl Last {
    fn of(pool: &PoolStats, seen: &Seen, promised: Option<(u64, f64)>) -> Self {
        let Seen { counts, backend_per_sec, mean_rate, .. } = *seen;
        let (measured, drift) = (seen.measured.clone(), seen.drift.clone());
        let (slab_bytes, missed) = (pool.slab_bytes, seen.missed);
        Self { counts, backend_per_sec, mean_rate, measured, drift, slab_bytes, missed, promised }
    }

    /// The miss ratio that was predicted for the time since, if the pool had about the memory that
    /// the prediction was for: neither much more because others did not use theirs, nor much less
    /// because it still fills.
    fn prediction(&self, slab_bytes: u64) -> Option<f64> {
        let (granted, predicted) = self.promised?;
        let most = (granted / NEAR_PART).max(LEAST_TOLD);
        let is_near = |bytes: u64| bytes.abs_diff(granted) <= most;
        (is_near(self.slab_bytes) && is_near(slab_bytes)).then_some(predicted)
    }
}

/// The pools at one moment.
struct Glance {
    /// In nanoseconds of the monotonic clock.
    now: u64,
    /// The time since the last round; 0 = there was none.
    secs: f64,
    pools: Vec<PoolStats>,
    seen: Vec<Seen>,
}

/// The outcome of a round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The pools, in the order of their ids.
    pub pools: Vec<PoolRound>,
    /// The memory that can be granted, in bytes of slabs.
    pub memory_bytes: u64,
    /// The moves, each with its reason; empty if nothing moves.
    pub moves: Vec<Move>,
    /// Bounds and curves that are lacking, in words.
    pub unmet: Vec<String>,
    /// True if a decision was made: false while memory is free, or what the last moves brought is
    /// not known yet.
    pub is_decided: bool,
    /// The reason why nothing moves; `None` if memory does.
    pub idle: Option<Idle>,
    /// True if grants were changed.
    pub is_applied: bool,
    /// The moves that follow from memory, or bounds, that became others, and not from a policy.
    pub fitted: Vec<Move>,
    /// The time until the next round should be made.
    pub next: Duration,
}

/// A move of memory that was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The pool that gives; `None` for memory that nobody was granted.
    pub from: Option<String>,
    /// The pool that receives; `None` for memory that nobody is granted any more.
    pub to: Option<String>,
    /// Bytes of slabs.
    pub bytes: u64,
    /// The misses per second that the move saves, as predicted; negative if it adds misses.
    pub saved_misses_per_sec: f64,
    /// The reason, in words.
    pub reason: String,
}

/// A pool in a round.
#[derive(Clone, Debug)]
pub struct PoolRound {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// The slabs that it has, in bytes.
    pub slab_bytes: u64,
    /// Its grant before the round, in bytes of slabs: what it has, if it had none.
    pub before_bytes: u64,
    /// Its grant as decided, in bytes of slabs; as before if nothing was decided.
    pub granted_bytes: u64,
    /// Reads per second since the last round.
    pub reads_per_sec: f64,
    /// The requests per second that it is promised; 0 = none.
    pub promised_per_sec: f64,
    /// The miss ratio since the last round. `None`: there were fewer than 100 reads.
    pub missed: Option<f64>,
    /// The miss ratio that the last round predicted for the time since. `None`: there was no
    /// prediction, or the pool had not the memory that it was for: because it still fills, or uses
    /// what others do not.
    pub predicted: Option<f64>,
    /// The mean cost of a miss, as configured or learnt; `None` if it is neither.
    pub miss_cost: Option<Duration>,
    /// The miss ratio that is predicted for its grant. `None`: its curve is not known yet.
    pub expected: Option<f64>,
    /// Its curve by bytes of slabs, for the policy in use; `None`: it is not known yet.
    pub curve: Option<Arc<MissRatioCurve>>,
}

impl Controller {
    /// Creates a controller.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no policy of this name, or a rail is not a share.
    pub fn new(config: ControlConfig) -> Result<Self, Error> {
        let entry = policy_named(&config.policy)?;
        let Rails { least_share, most_share, pool_step, step, smoothing, hysteresis, .. } = config.rails;
        let shares = [least_share, most_share, pool_step, step, smoothing, hysteresis];
        if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
            let context = format!("rails must be shares from 0 to 1: {:?}", config.rails);
            return Err(Error::new(ErrorKind::Config, context));
        }
        let tempo = Tempo { shortest_secs: 2.0, ..Tempo::default() };
        Ok(Self {
            policy: Guarded::new(entry.registered(), config.rails.for_aim(entry.aim)),
            objective: config.objective,
            miss_costs: config.miss_costs,
            promises: config.promises,
            backends: config.backends,
            period: config.period,
            interval: Interval::new(tempo),
            dry_run: config.dry_run,
            aim: entry.aim,
            curves: config.curves,
            last: HashMap::new(),
            last_nanos: None,
            pace: Pace::default(),
        })
    }

    /// Makes a round: looks, decides if memory is short, and grants unless it only tells. To be
    /// called by one thread, when [`Round::next`] is over, beside [`Cache::maintain`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the settings of curves are refused.
    pub fn round(&mut self, cache: &Cache) -> Result<Round, Error> {
        let Glance { now, secs, pools, mut seen } = self.glance(cache)?;
        if self.objective == Objective::TimeSaved {
            look::weigh_by_cost(&mut seen);
        }
        // What curves take is not there to be granted.
        let memory = to_grant(cache);
        let in_use: u64 = pools.iter().map(|pool| pool.slab_bytes).sum();
        let (mut view, mut unmet) = look::view(&seen, memory, secs, (&self.policy.rails, self.aim.is_some()));
        unmet.extend(self.ignored_promises(&seen));
        if self.aim == Some(Aim::Misses) {
            let off = seen.iter().map(|seen| seen.measured.off());
            view.pools.iter_mut().zip(off).for_each(|(pool, off)| pool.doubt = off);
        }
        if self.aim == Some(Aim::Throughput) {
            let backends: Vec<f64> = seen.iter().map(|seen| seen.backend_per_sec).collect();
            view.add_backends(&backends);
        }
        let present = Decision::stay(&view);
        let is_short = !pools.is_empty() && in_use >= memory - memory / FREE_PART;
        // Rates are not known before the second round, nor at the same moment.
        self.pace.pass(secs, self.is_steady(&pools));
        let is_paced =
            self.period.is_some() || self.pace.has_settled() || !guard::possible(&view, &present.grants);
        let is_decided = secs > 0.0 && is_short && is_paced;
        let decision = if is_decided { self.decide(&view) } else { self.policy.stay(&view) };
        // There is less memory now than was granted, or more is needed beside slabs, or bounds
        // became others.
        let is_fitted = is_off(&pools, &present, memory);
        // Before anything is decided each keeps what it has, as after a restart.
        let is_first = is_short && self.last_nanos.is_none();
        let is_applied = if !self.dry_run && (is_decided || is_first) {
            apply(cache, &pools, &decision.grants)?
        } else {
            is_fitted && apply(cache, &pools, &present.grants)?
        };
        unmet.extend(decision.unmet.iter().map(|unmet| unmet.reason.clone()));
        let told = self.tell(&pools, &seen, &decision, is_decided || is_fitted);
        let mut is_surprised = false;
        for ((pool, seen), told) in pools.iter().zip(&mut seen).zip(&told) {
            is_surprised |= forget(cache, pool, seen, (told.predicted, self.last.get(&pool.id)))?;
        }
        self.pace.decided(&view, &decision);
        if self.last_nanos.is_none() || secs > 0.0 {
            self.choose_interval(&view, &decision, is_surprised);
            self.last_nanos = Some(now);
            self.keep(&pools, &seen, &told, is_decided);
        }
        Ok(Round {
            pools: told,
            memory_bytes: memory,
            moves: moves(&view, &decision),
            fitted: if is_fitted { fitted(&view, &pools, present) } else { Vec::new() },
            unmet,
            is_decided,
            idle: Idle::of(secs > 0.0, is_short, is_paced, &decision),
            is_applied,
            next: self.period.unwrap_or_else(|| Duration::from_secs_f64(self.interval.secs())),
        })
    }

    /// The promises that the policy does not know, in words.
    fn ignored_promises(&self, seen: &[Seen]) -> Option<String> {
        let promised = |seen: &&Seen| seen.pool.min_request_rate > 0.0;
        let first = seen.iter().find(promised).filter(|_| self.aim != Some(Aim::Throughput))?;
        let more = match seen.iter().filter(promised).count() {
            1 => String::new(),
            count => format!(" and {} others", count - 1),
        };
        Some(format!(
            "the promises to {}{more} are not looked at by this policy: `exact-throughput` keeps promises",
            first.pool.name
        ))
    }

    fn choose_interval(&mut self, view: &View, decision: &Decision, is_surprised: bool) {
        self.interval.after(view, decision);
        if is_surprised {
            self.pace.forget();
            self.interval.shorten();
        }
        if !self.pace.has_settled() {
            self.interval.hasten();
        }
    }

    /// Has rounds only tell from now on, or grant again. Grants stay as they are.
    pub fn set_dry_run(&mut self, dry_run: bool) {
        self.dry_run = dry_run;
    }

    /// Looks at the pools that stay.
    fn glance(&self, cache: &Cache) -> Result<Glance, Error> {
        let now = cache.clock().monotonic_nanos();
        let secs = self.last_nanos.map_or(0.0, |last| now.saturating_sub(last) as f64 / 1e9);
        let pools: Vec<PoolStats> = cache.stats().pools.into_iter().filter(|pool| !pool.is_leaving).collect();
        let seen = self.look(cache, &pools, secs)?;
        Ok(Glance { now, secs, pools, seen })
    }

    /// Returns whether all pools have about the size that they had at the last round.
    fn is_steady(&self, pools: &[PoolStats]) -> bool {
        pools.iter().all(|pool| {
            let last = self.last.get(&pool.id);
            last.is_some_and(|last| is_steady(last.slab_bytes, pool.slab_bytes))
        })
    }

    /// The decision of the policy, within bounds and totals whatever the policy.
    fn decide(&mut self, view: &View) -> Decision {
        let decision = self.policy.decide(view);
        if guard::possible(view, &decision.grants) {
            return decision;
        }
        // Of a policy that shows what becomes of pools without bounds.
        let wanted: Vec<f64> = decision.grants.iter().map(|grant| grant.memory as f64).collect();
        Decision::to(view, partition::shares(view, &wanted), |_, _| "bounds are kept".to_owned())
    }

    /// Takes all grants back: pools share memory by their reserves and weights again.
    pub fn end(self, cache: &Cache) {
        for pool in cache.stats().pools {
            // One that is gone meanwhile has no grant.
            let _ = cache.set_pool_grant(pool.id, None);
        }
    }

    /// Says what each pool missed, and what is expected of its grant.
    fn tell(
        &self,
        pools: &[PoolStats],
        seen: &[Seen],
        decision: &Decision,
        is_changed: bool,
    ) -> Vec<PoolRound> {
        let told = pools.iter().zip(seen).zip(&decision.grants).map(|((pool, seen), grant)| {
            let last = self.last.get(&pool.id);
            let before_bytes = pool.granted_bytes.unwrap_or(pool.slab_bytes);
            let granted_bytes = if is_changed { grant.memory } else { before_bytes };
            PoolRound {
                id: pool.id,
                name: pool.name.clone(),
                slab_bytes: pool.slab_bytes,
                before_bytes,
                granted_bytes,
                reads_per_sec: seen.reads_per_sec,
                promised_per_sec: seen.pool.min_request_rate,
                missed: seen.missed,
                miss_cost: seen.miss_cost,
                predicted: last.and_then(|last| last.prediction(pool.slab_bytes)),
                expected: seen.expected(last.map(|last| last.slab_bytes), granted_bytes),
                curve: seen.known_curve(),
            }
        });
        told.collect()
    }

    /// Keeps what the next round compares with.
    fn keep(&mut self, pools: &[PoolStats], seen: &[Seen], told: &[PoolRound], is_decided: bool) {
        let last = pools.iter().zip(seen).zip(told).map(|((pool, seen), told)| {
            let promised = told.expected.filter(|_| is_decided && !self.dry_run);
            let promised = promised.map(|expected| (told.granted_bytes, expected));
            (pool.id, Last::of(pool, seen, promised))
        });
        self.last = last.collect();
    }
}

/// The halvings of what a curve was learnt from, if the load has become another one.
const SURPRISED_HALVINGS: u32 = 5;

/// Has a pool's curve forget most of what it was learnt from if the load has become another one:
/// the pool misses clearly more or less than was predicted, or than at the last round with as much
/// memory, or the curve itself shows it. Returns whether that is so.
fn forget(
    cache: &Cache,
    pool: &PoolStats,
    seen: &mut Seen,
    (predicted, last): (Option<f64>, Option<&Last>),
) -> Result<bool, Error> {
    let before = last.filter(|last| is_same(last.slab_bytes, pool.slab_bytes));
    let before = before.and_then(|last| last.missed);
    let measured = &mut seen.measured;
    let is_surprised = seen.missed.is_some_and(|missed| {
        predicted.is_some_and(|predicted| measured.compare(predicted, missed, seen.reads))
            || before.is_some_and(|before| measured.compare_with_before(before, missed, seen.reads))
    });
    let has_changed = seen.has_changed && measured.change();
    let is_surprised = is_surprised || has_changed || measured.change_if_due();
    if is_surprised {
        // One that is gone meanwhile has no curve.
        cache.age_curve(pool.id, SURPRISED_HALVINGS).or_else(absent)?;
    }
    Ok(is_surprised)
}

/// Nothing, if the error is that a pool is gone.
fn absent<T: Default>(error: Error) -> Result<T, Error> {
    if error.kind() == ErrorKind::NoSuchPool { Ok(T::default()) } else { Err(error) }
}

/// Checks that there is a policy of this name.
///
/// # Errors
/// [`ErrorKind::Config`] if there is none, with those that there are.
pub fn check_policy(name: &str) -> Result<(), Error> {
    policy_named(name).map(|_| ())
}

fn policy_named(name: &str) -> Result<&'static registry::Entry, Error> {
    registry::entry(name).ok_or_else(|| {
        let names: Vec<&str> = registry::policies().iter().map(|entry| entry.name).collect();
        let context = format!("there is no allocation policy `{name}`: choose {}", names.join(", "));
        Error::new(ErrorKind::Config, context)
    })
}

/// The memory for slabs that pools may be granted, in bytes.
fn to_grant(cache: &Cache) -> u64 {
    let slabs = cache.ledger().room_for(Part::Slabs);
    slabs - slabs / SPARE_PART
}

/// Grants what was decided: what is lowered first, so that the sum never exceeds what there is.
/// Returns whether anything differs from before.
fn apply(cache: &Cache, pools: &[PoolStats], grants: &[Grant]) -> Result<bool, Error> {
    let mut differs = false;
    for lowering in [true, false] {
        for (pool, grant) in pools.iter().zip(grants) {
            let before = pool.granted_bytes.unwrap_or(0);
            if (grant.memory < before) == lowering && grant.memory != before {
                match cache.set_pool_grant(pool.id, Some(ByteSize::new(grant.memory))) {
                    // It was removed meanwhile.
                    Err(error) if error.kind() == ErrorKind::NoSuchPool => {}
                    granted => granted?,
                }
                differs = true;
            }
        }
    }
    Ok(differs)
}

/// Returns whether the grants of pools are not those of `present`, which keeps their bounds and
/// takes no more than `memory`.
fn is_off(pools: &[PoolStats], present: &Decision, memory: u64) -> bool {
    let granted: u64 = pools.iter().filter_map(|pool| pool.granted_bytes).sum();
    let differs = |(pool, grant): (&PoolStats, &Grant)| {
        pool.granted_bytes.is_some_and(|granted| granted.abs_diff(grant.memory) >= LEAST_TOLD)
    };
    granted > memory || pools.iter().zip(&present.grants).any(differs)
}

/// The moves from the grants of pools to those of `present`, unless little moves: what indexes take
/// changes all the time.
fn fitted(view: &View, pools: &[PoolStats], present: Decision) -> Vec<Move> {
    let mut before = view.clone();
    let granted = pools.iter().map(|pool| pool.granted_bytes);
    before.pools.iter_mut().zip(granted).for_each(|(pool, granted)| pool.size = granted.unwrap_or(pool.size));
    let fitted = Decision::to(&before, present.grants, |from, to| match (from, to) {
        (_, Some(to)) if to.size < to.floor => {
            format!("{} is to have {} at least", to.name, ByteSize::new(to.floor))
        }
        (Some(from), _) if from.size > from.ceiling => {
            format!("{} may have {} at most", from.name, ByteSize::new(from.ceiling))
        }
        (Some(_), None) => "there is less memory than was granted".to_owned(),
        (None, _) => "there is more memory than was granted".to_owned(),
        (Some(_), Some(_)) => "bounds or weights of pools were set".to_owned(),
    });
    let is_little = fitted.moved_bytes() < view.memory / FITTED_PART;
    if is_little { Vec::new() } else { moves(view, &fitted) }
}

/// The moves of a decision that are worth telling.
fn moves(view: &View, decision: &Decision) -> Vec<Move> {
    let name = |pool: Option<usize>| pool.map(|pool| view.pools[pool].name.to_string());
    let told = decision.moves.iter().filter(|step| step.bytes >= LEAST_TOLD);
    told.map(|step| Move {
        from: name(step.from),
        to: name(step.to),
        bytes: step.bytes,
        saved_misses_per_sec: step.gain,
        reason: step.reason.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests;
