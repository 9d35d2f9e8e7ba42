//! Tail age: a slab goes from the class that would evict the oldest item to the class that evicts
//! the youngest.

use super::Move;
use super::free_memory::by_free_memory;
use super::view::{ClassView, Round};

/// Evens out the age of the items that classes evict.
///
/// Victim: by free memory, else the largest projected age × weight. Receiver: among the classes
/// that evict, the smallest tail age × weight. They must differ by both thresholds; with weights,
/// the thresholds do not apply.
#[derive(Clone, Debug, PartialEq)]
pub struct TailAge {
    /// Least difference of the ages, as a part of the victim's. Default 0.25.
    pub min_difference_ratio: f64,
    /// Least difference of the ages, in seconds. Default 100.
    pub min_difference_secs: u32,
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A class that evicts nothing and has more free memory than this many slabs is the first
    /// victim. Default 3.
    pub free_slabs: u64,
    /// The distance from the tail at which the projected age is measured, in slabs' worth of items.
    /// Used by the code that fills in [`ClassView::projected_age_secs`]. Default 1.
    pub projected_slabs: u64,
    /// Weights of ages by class; 1 if none is given. Default: none.
    pub weights: Vec<(u8, f64)>,
}

impl Default for TailAge {
    fn default() -> Self {
        Self {
            min_difference_ratio: 0.25,
            min_difference_secs: 100,
            min_slabs: 1,
            free_slabs: 3,
            projected_slabs: 1,
            weights: Vec::new(),
        }
    }
}

/// The weight of a class; 1 if none is given.
pub(super) fn weight(weights: &[(u8, f64)], class: &ClassView) -> f64 {
    weights.iter().find(|(number, _)| *number == class.number).map_or(1.0, |(_, weight)| *weight)
}

impl TailAge {
    fn weighted(&self, class: &ClassView, age_secs: Option<u32>) -> Option<f64> {
        age_secs.map(|age| f64::from(age) * weight(&self.weights, class))
    }

    pub(super) fn victim<'r>(&self, round: &'r Round, except: Option<u8>) -> Option<(&'r ClassView, String)> {
        let victims = round.victims(self.min_slabs, except);
        by_free_memory(&victims, self.free_slabs).or_else(|| {
            let aged = victims
                .iter()
                .filter_map(|class| Some((*class, self.weighted(class, class.projected_age())?)));
            let (class, _) = aged.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
            let age = class.projected_age()?;
            Some((class, format!("{class} would evict what has not been used for {age} s")))
        })
    }

    fn receiver<'r>(&self, round: &'r Round, victim: &ClassView) -> Option<&'r ClassView> {
        let evicting = round
            .classes
            .iter()
            .filter(|class| class.counts.evictions > 0 && class.number != victim.number)
            .filter_map(|class| Some((class, self.weighted(class, class.tail_age_secs)?)));
        evicting.reduce(|a, b| if b.1 < a.1 { b } else { a }).map(|(class, _)| class)
    }

    pub(super) fn pick(&self, round: &Round) -> Option<Move> {
        if !round.is_full {
            return None;
        }
        let (victim, why) = self.victim(round, None)?;
        let receiver = self.receiver(round, victim)?;
        let young = receiver.tail_age_secs?;
        // A victim of unknown age is one by free memory, so its slab can move at no cost.
        if let Some(old) = victim.projected_age()
            && self.weights.is_empty()
        {
            let difference = old.checked_sub(young)?;
            let is_enough = difference >= self.min_difference_secs
                && f64::from(difference) >= self.min_difference_ratio * f64::from(old);
            if !is_enough {
                return None;
            }
        }
        let reason = format!("{why}, and {receiver} evicts what has not been used for {young} s");
        Some(Move { victim: victim.number, receiver: Some(receiver.number), reason })
    }
}
