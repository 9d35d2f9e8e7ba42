//! Random: from any class to any other. For tests of the code that moves slabs, and as a baseline
//! in comparisons.

use base::rng::{RngExt, SeededRng};

use super::Move;
use super::view::{ClassView, Round};

/// Moves a slab from any class to any other, in every round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
}

impl Default for Random {
    fn default() -> Self {
        Self { min_slabs: 1 }
    }
}

impl Random {
    pub(super) fn victim<'r>(
        &self,
        round: &'r Round,
        except: Option<u8>,
        rng: &mut SeededRng,
    ) -> Option<(&'r ClassView, String)> {
        let class = any(&round.victims(self.min_slabs, except), rng)?;
        Some((class, format!("{class} was drawn")))
    }

    pub(super) fn pick(&self, round: &Round, rng: &mut SeededRng) -> Option<Move> {
        let (victim, why) = self.victim(round, None, rng)?;
        let others: Vec<_> = round.classes.iter().filter(|class| class.number != victim.number).collect();
        let receiver = any(&others, rng)?;
        let reason = format!("{why}, and for the other end {receiver}");
        Some(Move { victim: victim.number, receiver: Some(receiver.number), reason })
    }
}

fn any<'r>(classes: &[&'r ClassView], rng: &mut SeededRng) -> Option<&'r ClassView> {
    if classes.is_empty() {
        return None;
    }
    classes.get(rng.random_range(0..classes.len())).copied()
}
