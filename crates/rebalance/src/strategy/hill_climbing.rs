//! Hill climbing: a slab goes to the class whose shadow is hit most, from those whose shadows are
//! hit least.

use super::Move;
use super::credits::Credits;
use super::view::{ClassView, Round};

/// Moves slabs by the hits in shadow queues (Cidon et al., "Cliffhanger", NSDI 2016, Algorithm 1).
///
/// A hit in a class's shadow, which holds the keys that the class would still have with a slab
/// more, earns the class a credit, which another class pays, each with equal chance. Here it is
/// each in equal parts: the mean of the paper's draws. Once a class has credits for a slab, it gets
/// one from the class that owes most. At rest all shadows are hit equally often: a slab more would
/// bring each class as much.
#[derive(Clone, Debug, PartialEq)]
pub struct HillClimbing {
    /// Hits in a shadow that are worth a slab. Default 256: the paper's credit of 4 KB for pages of
    /// 1 MB.
    pub hits_per_slab: u64,
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A receiver has less free memory than this many slabs. Default 1.
    pub max_free_slabs: u64,
}

impl Default for HillClimbing {
    fn default() -> Self {
        Self { hits_per_slab: 256, min_slabs: 1, max_free_slabs: 1 }
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
