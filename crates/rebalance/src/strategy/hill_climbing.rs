//! Hill climbing: a slab goes to the class whose shadow is hit most, from those whose shadows are
//! hit least.

use std::collections::BTreeMap;

use super::Move;
use super::view::{ClassView, Round};

/// The most slabs that a class is owed, or owes.
const MOST_OWED: f64 = 4.0;

/// Moves slabs by the hits in shadow queues (Cidon et al., "Cliffhanger", NSDI 2016, Algorithm 1).
///
/// A hit in a class's shadow, which holds the keys that the class would still have with a slab
/// more, earns the class a credit, which another class pays, each with equal chance. Here it is
/// each in equal parts: the mean of the paper's draws. Once a class has credits for a slab, it gets
/// one from the class that owes most. At rest all shadows are hit equally often: a slab more would
/// bring each class as much.
#[derive(Clone, Debug, PartialEq)]
pub struct HillClimbing {
    /// The memory that a hit in a shadow earns, in bytes. Default 4 KiB: the paper has 1 to 4 KB.
    pub credit_bytes: u64,
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A receiver has less free memory than this many slabs. Default 1.
    pub max_free_slabs: u64,
}

impl Default for HillClimbing {
    fn default() -> Self {
        Self { credit_bytes: 4_096, min_slabs: 1, max_free_slabs: 1 }
    }
}

/// What classes are owed, in slabs, and those with a negative amount owe.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits(BTreeMap<u8, f64>);

impl Credits {
    fn of(&self, class: &ClassView) -> f64 {
        self.0.get(&class.number).copied().unwrap_or(0.0)
    }

    /// Adds the hits of a round.
    pub(super) fn add(&mut self, round: &Round, config: &HillClimbing) {
        let credit = config.credit_bytes as f64 / round.step_bytes.max(1) as f64;
        let hits = |class: &ClassView| class.counts.shadow_hits as f64 * credit;
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

impl HillClimbing {
    pub(super) fn victim<'r>(
        &self,
        round: &'r Round,
        credits: &Credits,
        except: Option<u8>,
    ) -> Option<(&'r ClassView, String)> {
        let owed = round.victims(self.min_slabs, except).into_iter();
        let owed = owed.map(|class| (class, credits.of(class)));
        let (class, _) = owed.reduce(|a, b| if b.1 < a.1 { b } else { a })?;
        Some((class, format!("the shadow of {class} was hit {} times", class.counts.shadow_hits)))
    }

    pub(super) fn pick(&self, round: &Round, credits: &Credits) -> Option<Move> {
        if !round.is_full {
            return None;
        }
        let has_little =
            |class: &&ClassView| class.free_bytes() < self.max_free_slabs.saturating_mul(round.step_bytes);
        let owed = round.classes.iter().filter(has_little).map(|class| (class, credits.of(class)));
        let (receiver, owed) = owed.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        if owed < 1.0 {
            return None;
        }
        let (victim, why) = self.victim(round, credits, Some(receiver.number))?;
        let hits = receiver.counts.shadow_hits;
        (credits.of(victim) < 0.0).then(|| Move {
            victim: victim.number,
            receiver: Some(receiver.number),
            reason: format!("{why}, and that of {receiver} {hits} times"),
        })
    }
}
