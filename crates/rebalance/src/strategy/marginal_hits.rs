//! Marginal hits: a slab goes from the class whose last slab has fewest hits to the class in which
//! one more would have most.

use allocate::marginal::Ranks;

use super::Move;
use super::view::{ClassView, Round};

/// Moves slabs toward the classes with most hits in their last slab.
///
/// Classes are ranked by the tail hits of the round, and ranks smoothed: new = `moving_average` ·
/// old + (1 − `moving_average`) · rank. Victim: the lowest smoothed rank. Receiver: the highest,
/// among those with little free memory. Needs a policy that tracks tail hits.
///
/// With ranks alone some class is always the lowest and some the highest, and a slab moves in every
/// round, for ever. So the tail hits of the round must also differ by two thresholds, and a
/// receiver is held off as under the other strategies.
#[derive(Clone, Debug, PartialEq)]
pub struct MarginalHits {
    /// The weight of the old average. Default 0.3.
    pub moving_average: f64,
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A receiver has less free memory than this many slabs. Default 1.
    pub max_free_slabs: u64,
    /// Least difference of tail hits in the round. Default 10; CacheLib: none.
    pub min_difference: u64,
    /// Least difference of tail hits in the round, as a part of the receiver's. Default 0.1;
    /// CacheLib: none.
    pub min_difference_ratio: f64,
    /// Rounds without evictions for which a receiver cannot be a victim. Default 10; CacheLib:
    /// none.
    pub hold_off_rounds: u32,
}

impl Default for MarginalHits {
    fn default() -> Self {
        Self {
            moving_average: 0.3,
            min_slabs: 1,
            max_free_slabs: 1,
            min_difference: 10,
            min_difference_ratio: 0.1,
            hold_off_rounds: 10,
        }
    }
}

impl MarginalHits {
    /// Creates the strategy without thresholds and hold-off.
    pub fn as_in_cachelib() -> Self {
        Self { min_difference: 0, min_difference_ratio: 0.0, hold_off_rounds: 0, ..Self::default() }
    }

    /// Returns whether a receiver's tail hits exceed a victim's by enough.
    pub(super) fn is_enough(&self, victim: u64, receiver: u64) -> bool {
        let has_threshold = self.min_difference > 0 || self.min_difference_ratio > 0.0;
        match receiver.checked_sub(victim) {
            Some(difference) => {
                difference >= self.min_difference
                    && difference as f64 >= self.min_difference_ratio * receiver as f64
            }
            None => !has_threshold,
        }
    }

    pub(super) fn victim<'r>(
        &self,
        round: &'r Round,
        ranks: &Ranks<u16>,
        except: Option<u8>,
    ) -> Option<(&'r ClassView, String)> {
        let ranked = round.victims(self.min_slabs, except).into_iter();
        let ranked = ranked.map(|class| (class, ranks.of(class.number.into())));
        let (class, _) = ranked.reduce(|a, b| if b.1 < a.1 { b } else { a })?;
        Some((class, format!("{class} has {} hits in its last slab", class.counts.tail_hits)))
    }

    pub(super) fn pick(&self, round: &Round, ranks: &Ranks<u16>) -> Option<Move> {
        if !round.is_full {
            return None;
        }
        let (victim, why) = self.victim(round, ranks, None)?;
        let has_little = |class: &&ClassView| {
            class.free_bytes() < self.max_free_slabs.saturating_mul(round.step_bytes)
                && class.number != victim.number
        };
        let ranked = round.classes.iter().filter(has_little);
        let ranked = ranked.map(|class| (class, ranks.of(class.number.into())));
        let (receiver, rank) = ranked.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        let tail_hits = receiver.counts.tail_hits;
        let is_higher = rank > ranks.of(victim.number.into());
        (is_higher && self.is_enough(victim.counts.tail_hits, tail_hits)).then(|| Move {
            victim: victim.number,
            receiver: Some(receiver.number),
            reason: format!("{why}, and {receiver} has {tail_hits}"),
        })
    }
}
