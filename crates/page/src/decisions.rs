//! Which decisions a page asks for, and what came of one.

use serde::{Deserialize, Serialize};

/// Moves of a decision that a list shows.
pub const LISTED_MOVES: usize = 4;

/// The query of `/decisions.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// True for a list: at most [`LISTED_MOVES`] moves of each decision, and no pools.
    pub brief: bool,
    /// Only decisions about this node; a server has none, and does not look at this.
    pub node: Option<String>,
    /// Only moves from or to this pool, and decisions that have one.
    pub pool: Option<String>,
    /// Only moves that have these words, in the name of a pool or the reason, and decisions that
    /// have one.
    pub words: Option<String>,
    /// Only as many, the latest.
    pub last: Option<usize>,
}

impl Asked {
    /// Most decisions that are asked for.
    pub fn most(&self) -> usize {
        self.last.unwrap_or(usize::MAX)
    }

    /// Returns whether a move is asked for.
    pub fn has_move(&self, from: Option<&str>, to: Option<&str>, reason: &str) -> bool {
        let is_of = |pool: &String| [from, to].contains(&Some(pool.as_str()));
        let has = |words: &String| {
            let words = words.to_lowercase();
            let texts = [from.unwrap_or_default(), to.unwrap_or_default(), reason];
            texts.iter().any(|text| text.to_lowercase().contains(&words))
        };
        self.pool.as_ref().is_none_or(is_of) && self.words.as_ref().is_none_or(has)
    }

    /// Returns the moves that are asked for; `None` if the decision is not.
    pub fn moves<'a, M>(&self, moves: &'a [M], is_asked: impl Fn(&M) -> bool) -> Option<Vec<&'a M>> {
        let all = moves.iter().filter(|step| is_asked(step));
        let most = if self.brief { LISTED_MOVES } else { usize::MAX };
        let moves: Vec<&M> = all.take(most).collect();
        (!moves.is_empty()).then_some(moves)
    }
}

/// A pool of a decision, as far as its outcome goes by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolOutcome {
    /// Reads per second.
    pub reads_per_sec: f64,
    /// The miss ratio before.
    pub missed: Option<f64>,
    /// The one that was predicted.
    pub expected: Option<f64>,
    /// The one that was measured since.
    pub missed_since: Option<f64>,
}

/// The outcome of a decision in misses per second, over those pools of which both are known; as
/// long as nothing was measured, the prediction for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// As predicted. `None`: no miss ratio was.
    pub predicted_saved_misses_per_sec: Option<f64>,
    /// As measured. `None`: not yet.
    pub measured_saved_misses_per_sec: Option<f64>,
}

impl Outcome {
    /// Returns the outcome of a decision about these pools.
    pub fn of(pools: impl IntoIterator<Item = PoolOutcome>) -> Self {
        let (mut all, mut both): (Option<f64>, Option<(f64, f64)>) = (None, None);
        for pool in pools {
            let Some((missed, expected)) = pool.missed.zip(pool.expected) else { continue };
            let predicted = pool.reads_per_sec * (missed - expected);
            *all.get_or_insert(0.0) += predicted;
            if let Some(since) = pool.missed_since {
                let (sum_predicted, sum_measured) = both.get_or_insert((0.0, 0.0));
                *sum_predicted += predicted;
                *sum_measured += pool.reads_per_sec * (missed - since);
            }
        }
        Self {
            predicted_saved_misses_per_sec: both.map_or(all, |(predicted, _)| Some(predicted)),
            measured_saved_misses_per_sec: both.map(|(_, measured)| measured),
        }
    }
}
