//! Hits per slab: a slab goes from the class in which it earns fewest hits to the class whose slabs
//! earn most.

use super::Move;
use super::free_memory::by_free_memory;
use super::tail_age::weight;
use super::view::{ClassView, Round};

/// Moves slabs toward the classes with most hits per slab.
///
/// Hits count since the last move. Victim: by free memory, else the smallest ⌊hits ÷ (slabs − 1)⌋ ×
/// weight, which its slabs would earn with one less. Receiver: among the classes that evict, the
/// largest ⌊hits ÷ slabs⌋ × weight. They must differ by both thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct HitsPerSlab {
    /// Least difference, in hits per slab. Default 100.
    pub min_difference: f64,
    /// Least difference, as a part of the victim's hits per slab. Default 0.1.
    pub min_difference_ratio: f64,
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A class that evicts nothing and has more free memory than this many slabs is the first
    /// victim. Default 3.
    pub free_slabs: u64,
    /// True if there are victims by free memory. Default: true.
    pub by_free_memory: bool,
    /// A class whose tail is younger than this, in seconds, cannot be a victim, and is preferred as
    /// a receiver. Default 0: off.
    pub min_tail_age_secs: u32,
    /// A class whose tail is older than this, in seconds, is preferred as a victim, and is not a
    /// receiver if there is another. Default 0: off.
    pub max_tail_age_secs: u32,
    /// By class, the target of its tail age, in seconds: a class below it cannot be a victim and
    /// comes first as a receiver. Default: none.
    pub target_tail_age_secs: Vec<(u8, u32)>,
    /// True if hits count since the last round rather than since the last move. Default: false.
    pub reset_hits_always: bool,
    /// Weights of hits by class; 1 if none is given. Default: none.
    pub weights: Vec<(u8, f64)>,
}

impl Default for HitsPerSlab {
    fn default() -> Self {
        Self {
            min_difference: 100.0,
            min_difference_ratio: 0.1,
            min_slabs: 1,
            free_slabs: 3,
            by_free_memory: true,
            min_tail_age_secs: 0,
            max_tail_age_secs: 0,
            target_tail_age_secs: Vec::new(),
            reset_hits_always: false,
            weights: Vec::new(),
        }
    }
}

impl HitsPerSlab {
    /// The hits that each of the victim's slabs would earn with one slab less; infinite for its
    /// only slab.
    fn projected(&self, round: &Round, class: &ClassView) -> f64 {
        match round.hits(class).checked_div(class.slabs.saturating_sub(1)) {
            Some(hits) => hits as f64 * weight(&self.weights, class),
            None => f64::INFINITY,
        }
    }

    /// The hits that each of the receiver's slabs earns.
    fn earned(&self, round: &Round, class: &ClassView) -> f64 {
        round.hits(class).checked_div(class.slabs).unwrap_or(0) as f64 * weight(&self.weights, class)
    }

    fn is_below_target(&self, class: &ClassView) -> bool {
        let target = self.target_tail_age_secs.iter().find(|(number, _)| *number == class.number);
        target.is_some_and(|(_, secs)| class.tail_age_secs.unwrap_or(0) < *secs)
    }

    fn is_too_old(&self, class: &ClassView) -> bool {
        self.max_tail_age_secs > 0 && class.tail_age_secs.unwrap_or(0) > self.max_tail_age_secs
    }

    fn is_too_young(&self, class: &ClassView) -> bool {
        class.tail_age_secs.unwrap_or(0) < self.min_tail_age_secs
    }

    pub(super) fn victim<'r>(&self, round: &'r Round, except: Option<u8>) -> Option<(&'r ClassView, String)> {
        let mut victims = round.victims(self.min_slabs, except);
        victims.retain(|class| !self.is_too_young(class) && !self.is_below_target(class));
        let by_free_memory = self
            .by_free_memory
            .then(|| by_free_memory(&victims, self.free_slabs.saturating_mul(round.step_bytes)))
            .flatten();
        by_free_memory.or_else(|| {
            let victims = preferred(victims, |class| self.is_too_old(class));
            let earning = victims.into_iter().map(|class| (class, self.projected(round, class)));
            let (class, hits) = earning.reduce(|a, b| if b.1 < a.1 { b } else { a })?;
            Some((class, format!("{class} would have {hits:.0} hits per slab with one less")))
        })
    }

    fn receiver<'r>(&self, round: &'r Round, victim: &ClassView) -> Option<&'r ClassView> {
        let may = |class: &&ClassView| {
            class.counts.evictions > 0 && class.slabs > 0 && class.number != victim.number
        };
        let receivers: Vec<_> = round.classes.iter().filter(may).collect();
        let receivers = preferred(receivers, |class| !self.is_too_old(class));
        let receivers = preferred(receivers, |class| self.is_below_target(class));
        let receivers = preferred(receivers, |class| self.is_too_young(class));
        let earning = receivers.into_iter().map(|class| (class, self.earned(round, class)));
        earning.reduce(|a, b| if b.1 > a.1 { b } else { a }).map(|(class, _)| class)
    }

    pub(super) fn pick(&self, round: &Round) -> Option<Move> {
        if !round.is_full {
            return None;
        }
        let (victim, why) = self.victim(round, None)?;
        let receiver = self.receiver(round, victim)?;
        let (little, much) = (self.projected(round, victim), self.earned(round, receiver));
        let difference = much - little;
        let is_enough = difference >= 0.0
            && difference >= self.min_difference
            && difference >= self.min_difference_ratio * little;
        is_enough.then(|| Move {
            victim: victim.number,
            receiver: Some(receiver.number),
            reason: format!("{why}, and {receiver} has {much:.0}"),
        })
    }
}

/// The classes for which `is_preferred` holds, or all if it holds for none.
fn preferred(classes: Vec<&ClassView>, is_preferred: impl Fn(&ClassView) -> bool) -> Vec<&ClassView> {
    let some: Vec<_> = classes.iter().copied().filter(|class| is_preferred(class)).collect();
    if some.is_empty() { classes } else { some }
}
