//! The credits of classes under hill climbing.

use std::collections::BTreeMap;

use super::view::{ClassView, Round};

/// The most slabs that a class is owed, or owes.
const MOST_OWED: f64 = 4.0;

/// The slabs that classes are owed; a class with a negative number owes some.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits(BTreeMap<u8, f64>);

impl Credits {
    pub(super) fn of(&self, class: &ClassView) -> f64 {
        self.0.get(&class.number).copied().unwrap_or(0.0)
    }

    /// Adds the hits of a round, of which `hits_per_slab` are worth a slab.
    pub(super) fn add(&mut self, round: &Round, hits_per_slab: u64) {
        let worth = hits_per_slab.max(1) as f64;
        let hits = |class: &ClassView| class.counts.shadow_hits as f64 / worth;
        let all: f64 = round.classes.iter().map(hits).sum();
        let others = (round.classes.len().max(2) - 1) as f64;
        let credited = round.classes.iter().map(|class| {
            let own = hits(class);
            let owed = self.of(class) + own - (all - own) / others;
            (class.number, owed.clamp(-MOST_OWED, MOST_OWED))
        });
        self.0 = credited.collect();
    }

    /// Notes that a slab goes from one class to another.
    pub(super) fn pay(&mut self, victim: u8, receiver: u8) {
        *self.0.entry(victim).or_default() += 1.0;
        *self.0.entry(receiver).or_default() -= 1.0;
    }
}
