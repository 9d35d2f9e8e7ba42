//! Clear gain: a slab goes to the class in which its hits would be clearly more than those that it
//! costs the class that gives it.

use super::Move;
use super::earnings::{Earned, Earnings};
use super::view::{ClassView, Round};

/// Moves slabs from classes that hardly use them to classes that would.
///
/// A slab more gains a class about its tail hits. A slab less costs a class its tail hits, but by
/// this estimate no less than half of what its slabs have on average: a policy may know its gains
/// better than its losses, and a class whose sizes come back is not emptied. A slab moves if the
/// gain clearly exceeds the cost, so that slabs which nobody reads any more leave their class, and
/// classes that all serve are left as they are. Of a policy that tracks no tail hits, as LRU and
/// SIEVE, a slab less is taken to cost the mean hits per slab, and one more to gain half of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearGain {
    /// The gain is at least this many times the cost. Default 1.25.
    pub ratio: f64,
    /// The cost is at least this part of the mean hits per slab. Default 0.5.
    pub mean_part: f64,
    /// The gain exceeds the cost by at least this many hits, counted over as many rounds as that
    /// takes. Default 10.
    pub min_difference: f64,
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A receiver has less free memory than this many slabs. Default 1.
    pub max_free_slabs: u64,
    /// Rounds without evictions for which a receiver cannot be a victim. Default 10.
    pub hold_off_rounds: u32,
}

impl Default for ClearGain {
    fn default() -> Self {
        Self {
            ratio: 1.25,
            mean_part: 0.5,
            min_difference: 10.0,
            min_slabs: 1,
            max_free_slabs: 1,
            hold_off_rounds: 10,
        }
    }
}

/// Standard deviations of a difference of counts that chance may make.
const DOUBT: f64 = 2.0;

impl ClearGain {
    /// The hits that it costs the class to give a slab, or the longer piece that leaves it then.
    fn cost(&self, class: &ClassView, earnings: &Earnings, round: &Round) -> f64 {
        let Earned { mean, tail } = earnings.of(class);
        let of_slab = if round.lacks_tail_hits { mean } else { tail.max(self.mean_part * mean) };
        of_slab * round.slabs_given(class)
    }

    /// The hits that a slab more gains the class.
    fn gain(&self, class: &ClassView, earnings: &Earnings, round: &Round) -> f64 {
        let Earned { mean, tail } = earnings.of(class);
        if round.lacks_tail_hits { self.mean_part * mean } else { tail }
    }

    /// Returns whether the gain exceeds the cost by more than chance does.
    fn is_clear(&self, gain: f64, cost: f64) -> bool {
        let by_chance = DOUBT * (gain + cost).sqrt();
        gain >= self.ratio * cost && gain - cost >= self.min_difference.max(by_chance)
    }

    pub(super) fn victim<'r>(
        &self,
        round: &'r Round,
        earnings: &Earnings,
        except: Option<u8>,
    ) -> Option<(&'r ClassView, String)> {
        let classes = round.victims(self.min_slabs, except).into_iter();
        let costs = classes.map(|class| (class, self.cost(class, earnings, round)));
        // Of those that cost the same, as all of an idle pool do, the one that has most.
        let cheaper = |a: (&'r ClassView, f64), b: (&'r ClassView, f64)| {
            if b.1 < a.1 || b.1 == a.1 && b.0.slabs > a.0.slabs { b } else { a }
        };
        let (class, cost) = costs.reduce(cheaper)?;
        Some((class, format!("{class} loses {cost:.0} hits with a slab less")))
    }

    pub(super) fn pick(&self, round: &Round, earnings: &Earnings) -> Option<Move> {
        if !round.is_full {
            return None;
        }
        let wants = |class: &&ClassView| {
            class.counts.evictions > 0
                && class.free_bytes() < self.max_free_slabs.saturating_mul(round.step_bytes)
        };
        let gains =
            round.classes.iter().filter(wants).map(|class| (class, self.gain(class, earnings, round)));
        let (receiver, gain) = gains.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        let (victim, why) = self.victim(round, earnings, Some(receiver.number))?;
        self.is_clear(gain, self.cost(victim, earnings, round)).then(|| Move {
            victim: victim.number,
            receiver: Some(receiver.number),
            reason: format!("{why}, and {receiver} gains {gain:.0} with one more"),
        })
    }
}
