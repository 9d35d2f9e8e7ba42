//! Hits that the slabs of classes have earned lately.

use std::collections::BTreeMap;

use base::geometry::SLAB_BYTES;

use super::view::{ClassView, Round};

/// Tail hits that are enough to go by, and rounds that are long enough: half of all hits is
/// forgotten then.
const ENOUGH: f64 = 64.0;
const MOST_ROUNDS: u32 = 128;

/// Hits of a class lately, per slab.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Earned {
    /// The mean of its slabs.
    pub(super) mean: f64,
    /// Of its last slab.
    pub(super) tail: f64,
}

impl Earned {
    /// The hits of a round.
    fn in_round(class: &ClassView, step_bytes: u64) -> Self {
        let bytes = class.slabs.saturating_mul(step_bytes).max(step_bytes);
        // Tail hits are those of 4 MiB, or of the whole class if it has less.
        let part = step_bytes as f64 / bytes.min(SLAB_BYTES as u64).max(step_bytes) as f64;
        Self {
            mean: class.counts.hits as f64 / class.slabs.max(1) as f64,
            tail: class.counts.tail_hits as f64 * part,
        }
    }
}

/// Hits of all classes of a pool lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Earnings {
    by_class: BTreeMap<u8, Earned>,
    /// Rounds since half was last forgotten.
    rounds: u32,
}

impl Earnings {
    /// Adds the hits of a round. Few hits count for long, and many for few rounds.
    pub(super) fn add(&mut self, round: &Round) {
        let earned = round.classes.iter().map(|class| {
            let (mut before, now) = (self.of(class), Earned::in_round(class, round.step_bytes));
            // A class that is not read any more is worth less from round to round, whatever it was.
            if class.counts.hits == 0 {
                before.mean /= 2.0;
            }
            (class.number, Earned { mean: before.mean + now.mean, tail: before.tail + now.tail })
        });
        self.by_class = earned.collect();
        self.rounds += 1;
        if self.rounds >= MOST_ROUNDS || self.by_class.values().any(|earned| earned.tail >= ENOUGH) {
            self.forget_half();
        }
    }

    /// Forgets half of it: a move changes what slabs earn.
    pub(super) fn forget_half(&mut self) {
        self.rounds = 0;
        self.by_class.values_mut().for_each(|earned| {
            (earned.mean, earned.tail) = (earned.mean / 2.0, earned.tail / 2.0);
        });
    }

    pub(super) fn of(&self, class: &ClassView) -> Earned {
        self.by_class.get(&class.number).copied().unwrap_or_default()
    }
}
