//! The latest decisions, and what came of what they predicted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;

use crate::decide::{Decided, DecidedPool};

/// Pools, and moves, that are kept of a decision: the largest.
const MAX_KEPT: usize = 64;
/// Points that are kept of a curve: half a kibibyte.
const MAX_POINTS: usize = 32;
/// The time after a decision in which its outcome is measured.
const OUTCOME_SECS: u32 = 600;

/// A decision that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// Its number since the orchestrator was started.
    pub number: u64,
    /// Time of the decision, Unix seconds.
    pub at_secs: u32,
    /// The policy.
    pub policy: String,
    /// The decision.
    #[serde(flatten)]
    pub decided: Decided,
    /// Rounds of which [`DecidedPool::missed_since`] is the mean, for each pool.
    #[serde(skip)]
    measured: Vec<u32>,
}

/// The counts of all rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) rounds: u64,
    pub(crate) decisions: u64,
    pub(crate) moved_bytes: u64,
    /// Predictions that were compared with what came, and the sum of the differences.
    pub(crate) predictions: u64,
    pub(crate) prediction_error_sum: f64,
}

/// The latest decisions, the latest last, and the state of each node in the latest round.
#[derive(Debug, Default)]
pub(crate) struct History {
    decisions: VecDeque<Told>,
    pub(crate) latest: Vec<Decided>,
    pub(crate) figures: Figures,
    warned: Vec<String>,
}

impl History {
    /// Notes the decisions of a round, and logs those that move memory.
    pub(crate) fn note(&mut self, decided: Vec<Decided>, policy: &str, at_secs: u32, most: usize) {
        self.figures.rounds += 1;
        for pool in decided.iter().flat_map(|decided| &decided.pools) {
            if let Some((predicted, missed)) = pool.predicted.zip(pool.missed) {
                self.figures.predictions += 1;
                self.figures.prediction_error_sum += (predicted - missed).abs();
            }
        }
        self.measure(&decided, at_secs);
        let without_figures = |unmet: &String| unmet.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        let unmet: Vec<&String> = decided.iter().flat_map(|decided| &decided.unmet).collect();
        for unmet in unmet.iter().filter(|unmet| !self.warned.contains(&without_figures(unmet))) {
            tracing::warn!(%unmet, "Not all pools can have the memory that they are to have.");
        }
        self.warned = unmet.into_iter().map(without_figures).collect();
        for decided in decided.iter().filter(|decided| !decided.moves.is_empty()) {
            self.figures.decisions += 1;
            let bytes: u64 = decided.moves.iter().map(|step| step.bytes).sum();
            self.figures.moved_bytes += bytes;
            let mut told = Told {
                number: self.figures.decisions,
                at_secs,
                policy: policy.to_owned(),
                decided: decided.clone(),
                measured: Vec::new(),
            };
            told.decided.moves.sort_by_key(|step| std::cmp::Reverse(step.bytes));
            told.decided.moves.truncate(MAX_KEPT);
            let change = |pool: &DecidedPool| pool.granted_bytes.abs_diff(pool.before_bytes);
            told.decided.pools.sort_by_key(|pool| std::cmp::Reverse(change(pool)));
            told.decided.pools.truncate(MAX_KEPT);
            told.measured = vec![0; told.decided.pools.len()];
            for pool in &mut told.decided.pools {
                pool.curve = pool.curve.take().map(|curve| Arc::new(curve.thinned(MAX_POINTS)));
            }
            tracing::info!(
                number = told.number,
                node = told.decided.node,
                memory = %base::ByteSize::new(bytes),
                reason = told.decided.moves.first().map_or("", |step| &step.reason),
                "Memory is moved between pools."
            );
            self.decisions.push_back(told);
        }
        while self.decisions.len() > most {
            self.decisions.pop_front();
        }
        self.latest = decided;
    }

    /// Notes in the latest decision about each pool what it has missed with its grant since.
    fn measure(&mut self, decided: &[Decided], at_secs: u32) {
        let now: HashMap<&str, &DecidedPool> =
            decided.iter().flat_map(|decided| &decided.pools).map(|pool| (&*pool.name, pool)).collect();
        let mut seen = HashSet::new();
        let is_recent = |told: &&mut Told| at_secs.saturating_sub(told.at_secs) <= OUTCOME_SECS;
        for told in self.decisions.iter_mut().rev().take_while(is_recent) {
            for (pool, measured) in told.decided.pools.iter_mut().zip(&mut told.measured) {
                let Some(now) = now.get(&*pool.name).filter(|now| seen.insert(&*now.name)) else { continue };
                // A round has a prediction if the pool had its grant.
                let had_grant = now.predicted.is_some() && now.before_bytes == pool.granted_bytes;
                let Some(missed) = now.missed.filter(|_| had_grant) else { continue };
                let before = pool.missed_since.unwrap_or(0.0);
                pool.missed_since = Some(before + (missed - before) / f64::from(*measured + 1));
                *measured += 1;
            }
        }
    }

    /// The latest decisions, the latest first.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = &Told> {
        self.decisions.iter().rev()
    }
}
