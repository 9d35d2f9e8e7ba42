//! The slope of the hull under a split queue, which hill climbing follows while cliff scaling is
//! active.
//!
//! Cliffhanger (NSDI '16, section 4.3) puts the long shadow of hill climbing behind both
//! partitions. But cliff scaling leads one partition to the foot of the cliff and the other to its
//! top, and behind either the curve is flat: the shadows get almost no hits, and hill climbing
//! takes memory away from the very queue that gains most from it (measured in the experiment C6).
//!
//! The gain of a split queue from more memory is the slope of the line between the two queues that
//! its partitions behave as. The partitions themselves measure it: the difference of their hit
//! ratios over the difference of those sizes. A shadow of `s` items on that line would have `s`
//! times the slope hits per request, and that many hits are reported to hill climbing.

use super::split::{Side, SplitQueue};

/// Requests over which the hit ratio of a partition is averaged.
const AVERAGED: f64 = 4096.0;

/// The hit ratios of both partitions, and the fraction of a shadow hit that has accumulated from
/// their slope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slope {
    /// Moving averages by side.
    hit_ratio: [f64; 2],
    gathered: f64,
}

impl Slope {
    /// Records a request to the partition `side` of `queue`. Returns `Some` if the slope replaces
    /// hits in a shadow of `shadow` items, because the partitions behave as queues whose sizes
    /// differ by more than the shadow covers: the number of shadow hits that the accumulated slope
    /// amounts to.
    pub fn on_request(&mut self, queue: &SplitQueue, side: Side, is_hit: bool, shadow: u64) -> Option<u32> {
        let average = &mut self.hit_ratio[side as usize];
        *average += (f64::from(u8::from(is_hit)) - *average) / AVERAGED;
        let (Some(left), Some(right)) = queue.split().simulated() else { return None };
        let distance = right - left;
        if !queue.is_split() || distance <= shadow as f64 {
            return None;
        }
        let [left, right] = self.hit_ratio;
        self.gathered += shadow as f64 * (right - left).max(0.0) / distance;
        let whole = self.gathered.floor();
        self.gathered -= whole;
        Some(whole as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::CliffConfig;
    use super::*;
    use crate::talus::Split;
    use base::rng::{RngExt, seeded};

    #[test]
    fn it_counts_as_often_as_a_shadow_on_the_hull_would_be_hit() {
        let mut queue = SplitQueue::new(8000, CliffConfig::default());
        queue.steer(Split::between(2000.0, 13_500.0, 8000));
        let (mut slope, mut rng, mut counted) = (Slope::default(), seeded(1), 0);
        for i in 0..300_000 {
            // Hit ratios of 35 and 80 %, as at both ends of the cliff.
            let (side, ratio) = if rng.random::<f64>() < queue.split().ratio {
                (Side::Left, 0.35)
            } else {
                (Side::Right, 0.8)
            };
            let hits = slope.on_request(&queue, side, rng.random::<f64>() < ratio, 1000);
            counted += if i < 100_000 { 0 } else { hits.unwrap() };
        }
        // 0.45 / 11,500 per item and request.
        let expected = 200_000.0 * 1000.0 * 0.45 / 11_500.0;
        assert!((f64::from(counted) / expected - 1.0).abs() < 0.03, "{counted} against {expected}");
    }

    #[test]
    fn a_queue_whose_partitions_are_alike_has_no_slope() {
        let mut queue = SplitQueue::new(8000, CliffConfig::default());
        assert_eq!(Slope::default().on_request(&queue, Side::Left, true, 1), None);
        queue.steer(Split::between(7500.0, 8500.0, 8000));
        assert_eq!(Slope::default().on_request(&queue, Side::Left, true, 1001), None);
        assert!(Slope::default().on_request(&queue, Side::Left, true, 900).is_some());
    }
}
