//! The latest decisions, and what came of what they predicted.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::decide::{Decided, DecidedPool};
use crate::told::Told;

/// The time after a decision in which its outcome is measured.
const OUTCOME_SECS: u32 = 600;

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

/// The latest decisions, the latest last, and the state of each node in the latest round. Readers
/// take shares of both, so that none serialises under the lock.
#[derive(Debug, Default)]
pub(crate) struct History {
    decisions: VecDeque<Arc<Told>>,
    pub(crate) latest: Vec<Arc<Decided>>,
    pub(crate) figures: Figures,
    /// The number of the last decision; an earlier process may have made it.
    last: u64,
    /// The numbers of those that are to be saved: they are new, or their outcome is.
    unsaved: BTreeSet<u64>,
    /// True if one of these is new: its number is not to be given to another after a crash.
    is_new_unsaved: bool,
    /// The promises that were not kept in the latest round, without figures.
    warned: HashSet<String>,
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
        self.warn(&decided);
        for decided in decided.iter().filter(|decided| !decided.moves.is_empty()) {
            self.figures.decisions += 1;
            self.last += 1;
            let told = Told::new(self.last, at_secs, policy, decided.clone());
            self.unsaved.insert(self.last);
            self.is_new_unsaved = true;
            self.figures.moved_bytes += told.totals.moved_bytes;
            tracing::info!(
                number = told.number,
                node = told.decided.node,
                memory = %base::ByteSize::new(told.totals.moved_bytes),
                reason = told.decided.moves.first().map_or("", |step| &step.reason),
                "Memory is moved between pools."
            );
            self.decisions.push_back(Arc::new(told));
        }
        while self.decisions.len() > most {
            self.decisions.pop_front();
        }
        // Without a store nobody takes them.
        self.unsaved = match self.decisions.front() {
            Some(oldest) => self.unsaved.split_off(&oldest.number),
            None => BTreeSet::new(),
        };
        self.latest = decided.into_iter().map(Arc::new).collect();
    }

    /// Logs the promises that are not kept, unless they were not kept in the last round either.
    fn warn(&mut self, decided: &[Decided]) {
        let without_figures = |unmet: &String| unmet.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        let mut warned = HashSet::new();
        for unmet in decided.iter().flat_map(|decided| &decided.unmet) {
            let words = without_figures(unmet);
            if !self.warned.contains(&words) {
                tracing::warn!(%unmet, "Not all that was asked for can be had.");
            }
            warned.insert(words);
        }
        self.warned = warned;
    }

    /// Notes in the latest decision about each pool what it has missed with its grant since.
    fn measure(&mut self, decided: &[Decided], at_secs: u32) {
        let pools = decided
            .iter()
            .flat_map(|decided| decided.pools.iter().map(move |pool| ((&*decided.node, &*pool.name), pool)));
        // Two nodes may have instances of one name.
        let now: HashMap<(&str, &str), (usize, &DecidedPool)> =
            pools.enumerate().map(|(i, (name, pool))| (name, (i, pool))).collect();
        let mut seen = HashSet::new();
        let is_recent = |told: &&mut Arc<Told>| at_secs.saturating_sub(told.at_secs) <= OUTCOME_SECS;
        for told in self.decisions.iter_mut().rev().take_while(is_recent) {
            for place in 0..told.decided.pools.len() {
                let name = (&*told.decided.node, &*told.decided.pools[place].name);
                // An earlier decision about the pool is not in force any more.
                let Some((_, now)) = now.get(&name).filter(|(i, _)| seen.insert(*i)) else { continue };
                if let Some(missed) = told.outcome(place, now) {
                    Arc::make_mut(told).measure(place, missed);
                    self.unsaved.insert(told.number);
                }
            }
        }
    }

    /// Begins with the decisions of an earlier process, the latest last; `last` is the number of
    /// its last one, which may be another that cannot be read.
    pub(crate) fn remember(&mut self, decisions: Vec<Told>, last: u64) {
        self.last = last;
        self.decisions = decisions.into_iter().map(Arc::new).collect();
    }

    /// Takes the decisions that are to be saved, with the number of the oldest one that is kept.
    pub(crate) fn take_unsaved(&mut self) -> (Vec<Arc<Told>>, u64) {
        let numbers = std::mem::take(&mut self.unsaved);
        self.is_new_unsaved = false;
        let unsaved = self.decisions.iter().filter(|told| numbers.contains(&told.number));
        let oldest = self.decisions.front().map_or(self.last, |told| told.number);
        (unsaved.cloned().collect(), oldest)
    }

    /// Returns whether a decision is not saved yet.
    pub(crate) fn has_new(&self) -> bool {
        self.is_new_unsaved
    }

    /// Has decisions saved again, as that has failed.
    pub(crate) fn note_unsaved(&mut self, decisions: &[Arc<Told>]) {
        self.unsaved.extend(decisions.iter().map(|told| told.number));
    }

    /// Returns the latest decisions, the latest first.
    pub(crate) fn decisions(&self) -> Vec<Arc<Told>> {
        self.decisions.iter().rev().cloned().collect()
    }

    /// Returns a decision by its number, if it is still kept.
    pub(crate) fn decision(&self, number: u64) -> Option<Arc<Told>> {
        self.decisions.iter().find(|told| told.number == number).cloned()
    }
}

#[cfg(test)]
mod tests;
