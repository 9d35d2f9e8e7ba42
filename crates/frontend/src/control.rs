//! The policy that moves memory between pools: run as the configuration says, by the maintenance
//! thread, and reported in the log.
//!
//! Invariant 1: pools have grants only while there is a controller whose rounds act, or an
//! orchestrator has led the server. [`apply`] takes them back with the lock held in which rounds
//! are made.
//!
//! Invariant 2: once an orchestrator has led the server, nobody else changes its memory
//! ([`Control::was_led`]).
//!
//! [`apply`]: Control::apply

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ByteSize, Clock, Ledger, Part};
use config::{Config, Error, ErrorKind};
use millpond::control::{ControlConfig, Controller, Move, PoolRound, Round};
use millpond::{Cache, PoolId};

/// Moves, and pools, that are kept of a decision: the largest.
const MAX_KEPT: usize = 32;
/// Points that are kept of the curve of each such pool.
const MAX_POINTS: usize = 32;

/// Decisions take at most one byte in this many of the memory.
const KEPT_PART: u64 = 256;
/// Dry runs decide the same if grants differ by less than one byte in this many.
const LIKE_PART: u64 = 16;

/// Named as the policy of moves that no policy decided.
const BOUNDS: &str = "bounds";

/// The controller, if there is one, and its latest decisions.
#[derive(Default)]
pub struct Control(Mutex<State>);

#[derive(Default)]
struct State {
    config: Option<ControlConfig>,
    /// True while an orchestrator decides.
    is_led: bool,
    /// True once one has.
    was_led: bool,
    controller: Option<Controller>,
    /// The next round, in nanoseconds of the monotonic clock.
    due_nanos: u64,
    /// The latest round.
    last: Option<Round>,
    /// The latest decision last.
    decisions: VecDeque<Decision>,
    /// Number of decisions that are kept, and the bytes that they take.
    most: usize,
    held_bytes: u64,
    /// True if the latest decision was made in the latest round.
    has_just_decided: bool,
    figures: ControlFigures,
}

/// A round in which memory was moved, or in a dry run would have been.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Its number since the server was started.
    pub number: u64,
    /// Time of the decision, Unix seconds.
    pub at_secs: u32,
    /// The policy; `bounds` if grants follow from memory, reserves, limits or weights that were
    /// set, or from pools that fill and whose curves are not known.
    pub policy: String,
    /// True if nothing was moved.
    pub is_dry_run: bool,
    /// The memory that was distributed, in bytes of slabs.
    pub memory_bytes: u64,
    /// The largest moves, the largest first.
    pub moves: Vec<Move>,
    /// The number of all moves.
    pub moves_count: usize,
    /// The memory that all moves together move, in bytes of slabs.
    pub moved_bytes: u64,
    /// The pools whose grants changed most, with those that changed most first.
    pub pools: Vec<DecidedPool>,
    /// The number of all pools whose grants changed.
    pub pools_count: usize,
}

/// A pool in a decision.
#[derive(Clone, Debug)]
pub struct DecidedPool {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Its grant before, in bytes of slabs.
    pub before_bytes: u64,
    /// Its grant since, in bytes of slabs.
    pub granted_bytes: u64,
    /// The miss ratio before the decision, as measured.
    pub missed: Option<f64>,
    /// The miss ratio that was predicted.
    pub expected: Option<f64>,
    /// The miss ratio until the next round, as measured.
    pub missed_since: Option<f64>,
    /// Reads per second before the decision.
    pub reads_per_sec: f64,
    /// Its curve when this was decided: bytes of slabs, with the miss ratio at each. Empty if it
    /// was not known.
    pub curve: Arc<[(u64, f64)]>,
}

/// The counts of all rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlFigures {
    /// Rounds that were made.
    pub rounds: u64,
    /// Rounds in which memory was moved, or in a dry run would have been.
    pub decisions: u64,
    /// Bytes of slabs that were granted to other pools.
    pub moved_bytes: u64,
    /// Rounds that failed.
    pub errors: u64,
    /// Predictions that were compared with what came.
    pub predictions: u64,
    /// The sum of the differences of those, in misses per read.
    pub prediction_error_sum: f64,
}

/// The state of the controller at one moment.
#[derive(Clone, Debug)]
pub struct ControlStatus {
    /// Its settings.
    pub config: ControlConfig,
    /// The latest round.
    pub last: Option<Round>,
    /// The counts of all rounds.
    pub figures: ControlFigures,
}

impl Decision {
    fn of(round: &Round, number: u64, at_secs: u32, config: &ControlConfig) -> Self {
        let mut moves = round.moves.clone();
        let (moves_count, moved_bytes) = (moves.len(), moves.iter().map(|step| step.bytes).sum());
        moves.sort_by_key(|step| std::cmp::Reverse(step.bytes));
        moves.truncate(MAX_KEPT);
        let change = |pool: &PoolRound| pool.granted_bytes.abs_diff(pool.before_bytes);
        let mut changed: Vec<&PoolRound> = round.pools.iter().filter(|pool| change(pool) > 0).collect();
        let pools_count = changed.len();
        changed.sort_by_key(|pool| std::cmp::Reverse(change(pool)));
        changed.truncate(MAX_KEPT);
        let pools = changed.into_iter().map(|pool| DecidedPool {
            id: pool.id,
            name: pool.name.clone(),
            before_bytes: pool.before_bytes,
            granted_bytes: pool.granted_bytes,
            missed: pool.missed,
            expected: pool.expected,
            missed_since: None,
            reads_per_sec: pool.reads_per_sec,
            curve: pool.curve.as_ref().map_or_else(Arc::default, |curve| {
                let kept = curve.thinned(MAX_POINTS);
                kept.points().iter().map(|point| (point.size, point.miss_ratio)).collect()
            }),
        });
        Self {
            number,
            at_secs,
            policy: config.policy.clone(),
            is_dry_run: config.dry_run,
            memory_bytes: round.memory_bytes,
            moves,
            moves_count,
            moved_bytes,
            pools: pools.collect(),
            pools_count,
        }
    }

    /// The moves by which grants changed before anything was decided, as a decision.
    fn fitted(round: &Round, number: u64, at_secs: u32) -> Self {
        let config = ControlConfig { policy: BOUNDS.to_owned(), dry_run: false, ..ControlConfig::default() };
        // The pools of a decision show that.
        let pools = if round.is_decided { Vec::new() } else { round.pools.clone() };
        Self::of(&Round { moves: round.fitted.clone(), pools, ..round.clone() }, number, at_secs, &config)
    }

    /// Returns whether another decision would give about the same.
    fn is_like(&self, other: &Self) -> bool {
        let is_near = |a: u64, b: u64| a.abs_diff(b) <= a / LIKE_PART;
        let find = |pool: &DecidedPool| other.pools.iter().find(|of_other| of_other.id == pool.id);
        self.is_dry_run == other.is_dry_run
            && self.pools.len() == other.pools.len()
            && self.pools.iter().all(|pool| {
                find(pool).is_some_and(|of_other| is_near(pool.granted_bytes, of_other.granted_bytes))
            })
    }

    fn held_bytes(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        let moves = self
            .moves
            .iter()
            .map(|step| size_of::<Move>() + text(&step.from) + text(&step.to) + step.reason.capacity());
        let pools = self.pools.iter().map(|pool| {
            let curve = pool.curve.len() * size_of::<(u64, f64)>();
            size_of::<DecidedPool>() + pool.name.capacity() + curve
        });
        (size_of::<Self>() + self.policy.capacity() + moves.sum::<usize>() + pools.sum::<usize>()) as u64
    }
}

impl Control {
    /// Has rounds be made as `config` says from now on. A controller whose settings stay goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no such policy.
    pub fn apply(&self, cache: &Cache, config: &Config) -> Result<(), Error> {
        let wanted = config.control();
        let mut state = self.lock();
        state.most = config.control.history;
        state.forget_oldest(cache.ledger());
        // Tenants may have come, which are to have something at once.
        state.due_nanos = 0;
        if state.config == wanted {
            return Ok(());
        }
        // What was learnt goes on, and grants stay.
        if let (Some(before), Some(after)) = (&state.config, &wanted)
            && (ControlConfig { dry_run: after.dry_run, ..before.clone() }) == *after
            && let Some(controller) = &mut state.controller
        {
            controller.set_dry_run(after.dry_run);
            state.config = wanted;
            state.tell_mode();
            return Ok(());
        }
        let refused = |error| Error::with_source(ErrorKind::Config, "control.policy", error);
        let controller = wanted.clone().map(Controller::new).transpose().map_err(refused)?;
        if let Some(before) = state.controller.take().filter(|_| wanted.is_none()) {
            before.end(cache);
        }
        if wanted.is_none() && state.config.is_some() {
            let why = config.why_control_is_off();
            tracing::info!(why, "No policy moves memory between pools any more.");
        }
        (state.controller, state.config) = (controller, wanted);
        state.last = None;
        state.tell_mode();
        Ok(())
    }

    /// Has the next round be made at once.
    pub fn hasten(&self) {
        self.lock().due_nanos = 0;
    }

    /// Makes a round if one is due.
    pub fn round_if_due(&self, cache: &Cache, clock: &Clock) {
        let mut state = self.lock();
        let now = clock.monotonic_nanos();
        if now < state.due_nanos {
            return;
        }
        if state.is_led {
            return;
        }
        let Some(controller) = &mut state.controller else { return };
        match controller.round(cache) {
            Ok(round) => {
                let next = u64::try_from(round.next.as_nanos()).unwrap_or(u64::MAX);
                state.due_nanos = now.saturating_add(next);
                state.note(round, clock.unix_secs(), cache.ledger());
            }
            // The next one may succeed.
            Err(error) => {
                state.figures.errors += 1;
                tracing::debug!(%error, "Memory could not be moved between pools.");
            }
        }
    }

    /// Leaves all decisions to an orchestrator, or takes them up again: from the grants that it
    /// left.
    pub fn set_led(&self, is_led: bool) {
        let mut state = self.lock();
        state.is_led = is_led;
        state.was_led |= is_led;
    }

    /// Returns whether an orchestrator leads the server.
    pub fn is_led(&self) -> bool {
        self.lock().is_led
    }

    /// Returns whether an orchestrator has led the server since it was started. Then the memory of
    /// the server is what the orchestrator has set: it counts on that even while it is away.
    pub fn was_led(&self) -> bool {
        self.lock().was_led
    }

    /// Returns the state of the controller; `None` if there is none.
    pub fn status(&self) -> Option<ControlStatus> {
        let state = self.lock();
        let config = state.config.clone()?;
        Some(ControlStatus { config, last: state.last.clone(), figures: state.figures })
    }

    /// Returns a decision by its number, if it is still kept.
    pub fn decision(&self, number: u64) -> Option<Decision> {
        self.lock().decisions.iter().find(|decision| decision.number == number).cloned()
    }

    /// Returns the latest decisions, the latest first.
    pub fn decisions(&self) -> Vec<Decision> {
        self.lock().decisions.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell_mode(&self) {
        match &self.config {
            Some(ControlConfig { policy, dry_run: false, .. }) => {
                tracing::info!(policy, "A policy moves memory between pools while memory is short.");
            }
            Some(ControlConfig { policy, .. }) => {
                tracing::info!(policy, "A policy decides about the memory of pools, and moves nothing.");
            }
            None => {}
        }
    }

    /// Compares what came with what was predicted, and keeps and reports what was decided.
    fn note(&mut self, round: Round, at_secs: u32, ledger: &Ledger) {
        self.figures.rounds += 1;
        if std::mem::take(&mut self.has_just_decided)
            && let Some(decision) = self.decisions.back_mut()
        {
            for pool in &mut decision.pools {
                let now = round.pools.iter().find(|now| now.id == pool.id);
                pool.missed_since = now.and_then(|now| now.missed);
            }
        }
        for (predicted, missed) in round.pools.iter().filter_map(|pool| pool.predicted.zip(pool.missed)) {
            self.figures.predictions += 1;
            self.figures.prediction_error_sum += (predicted - missed).abs();
        }
        // But for the figures in them.
        let words = |unmet: &String| unmet.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        let told: HashSet<String> = self.last.iter().flat_map(|last| &last.unmet).map(words).collect();
        for unmet in round.unmet.iter().filter(|unmet| !told.contains(&words(unmet))) {
            tracing::warn!(unmet, "Not all that was asked for can be had.");
        }
        if !round.fitted.is_empty() {
            self.figures.decisions += 1;
            let decision = Decision::fitted(&round, self.figures.decisions, at_secs);
            self.keep(decision, &round.fitted, ledger);
        }
        let config = self.config.as_ref().filter(|_| !round.moves.is_empty());
        if let Some(config) = config {
            self.figures.decisions += 1;
            let decision = Decision::of(&round, self.figures.decisions, at_secs, config);
            self.keep(decision, &round.moves, ledger);
        }
        self.last = Some(round);
    }

    /// Keeps a decision, and reports it.
    fn keep(&mut self, decision: Decision, moves: &[Move], ledger: &Ledger) {
        self.figures.moved_bytes += if decision.is_dry_run { 0 } else { decision.moved_bytes };
        // In a dry run the next round would decide the same.
        let is_told =
            decision.is_dry_run && self.decisions.back().is_some_and(|last| last.is_like(&decision));
        if !is_told {
            report(&decision, moves);
            self.held_bytes += decision.held_bytes();
            ledger.charge(Part::Fixed, decision.held_bytes());
            self.decisions.push_back(decision);
            self.has_just_decided = true;
            self.forget_oldest(ledger);
        }
    }

    fn forget_oldest(&mut self, ledger: &Ledger) {
        let most_bytes = ledger.limit() / KEPT_PART;
        while self.decisions.len() > self.most || self.held_bytes > most_bytes && self.decisions.len() > 1 {
            if let Some(gone) = self.decisions.pop_front() {
                self.held_bytes -= gone.held_bytes();
                ledger.release(Part::Fixed, gone.held_bytes());
            }
        }
    }
}

/// Logs a decision, with the reason of its largest move.
fn report(decision: &Decision, moves: &[Move]) {
    let (number, policy) = (decision.number, &decision.policy);
    let memory = ByteSize::new(decision.moved_bytes).to_string();
    let reason = decision.moves.first().map_or("", |step| &step.reason);
    let saved = moves.iter().map(|step| step.saved_misses_per_sec).sum::<f64>();
    let saved_misses_per_sec = format!("{saved:.1}");
    let moves = decision.moves_count;
    let what = if decision.is_dry_run { "would be" } else { "is" };
    tracing::info!(
        number,
        policy,
        moves,
        memory,
        saved_misses_per_sec,
        reason,
        "Memory {what} moved between pools."
    );
}

#[cfg(test)]
mod tests;
