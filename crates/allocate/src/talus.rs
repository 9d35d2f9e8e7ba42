//! Talus: a queue that is split in two behaves as the concave hull of its hit-rate curve. Beckmann
//! and Sanchez, "Talus: A Simple Way to Remove Cliffs in Cache Performance", HPCA 2015; Cliffhanger
//! (NSDI '16, section 4.2) describes it in terms of web caches.
//!
//! A queue that sees a share of the requests, drawn by key, behaves as one that is larger by the
//! inverse of that share. To reach the line between the curve's points at sizes `α < β` with `s`
//! between them, the share `ρ = (β - s) / (β - α)` of the requests goes to a partition of
//! `s1 = ρ α`, which behaves as a queue of `α`, and the rest to one of `s2 = s - s1 = (1 - ρ) β`,
//! which behaves as one of `β`. Both together are as large as the queue. Every point of a hull lies
//! on a line between two points of the curve, so two partitions suffice for any number of cliffs.
//!
//! | Talus | here |
//! |---|---|
//! | the curve's convex hull, once per interval | [`Talus::new`] |
//! | `α` and `β`, the hull's neighbours of `s` | [`Talus::anchors`] |
//! | `ρ`, `s1` and `s2`, with a margin on `ρ` | [`Split::with_margin`] |
//! | `ρ m(s1 / ρ) + (1 - ρ) m(s2 / (1 - ρ))`, the misses of both | [`Split::miss_ratio`] |
//! | any allocation by hulls, such as hill climbing | [`OnHulls`] |

use curve::MissRatioCurve;

use crate::dynacache;
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Policy, View};

/// The split of a queue into two partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// `ρ`, the share of the requests, by key, that goes to the left partition: from 0 to 1.
    pub ratio: f64,
    /// `s1`, the size of the left partition, which behaves as a smaller queue than the whole.
    pub left: u64,
    /// `s2`, the size of the right partition, which behaves as a larger one.
    pub right: u64,
}

impl Split {
    /// One queue: all requests and all memory go to the right partition.
    pub fn whole(size: u64) -> Self {
        Self { ratio: 0.0, left: 0, right: size }
    }

    /// Two halves, which behave as one queue of the same size.
    pub fn half(size: u64) -> Self {
        Self { ratio: 0.5, left: size / 2, right: size - size / 2 }
    }

    /// The margin that Talus takes.
    pub const MARGIN: f64 = 0.05;

    /// One queue, or two halves if there are more than 1,000 items: starting from halves, a later
    /// split moves fewer keys.
    fn unsplit(size: u64) -> Self {
        if size <= 1000 { Self::whole(size) } else { Self::half(size) }
    }

    /// The split of a queue of `size` whose partitions behave as queues of the sizes `alpha` and
    /// `beta`; halves, unless `size` is between them. Sizes are rounded to the nearest, and add up
    /// to `size`.
    ///
    /// ```
    /// use millpond_allocate::talus::Split;
    ///
    /// let split = Split::between(2000.0, 13_500.0, 8000);
    /// assert_eq!((split.left, split.right), (957, 7043));
    /// assert!((split.ratio - 0.478).abs() < 0.001);
    /// ```
    pub fn between(alpha: f64, beta: f64, size: u64) -> Self {
        Self::with_margin(alpha, beta, size, 0.0)
    }

    /// The same with a margin: the share of the left partition is larger by the factor
    /// `1 + margin`, so that the right one gets fewer requests and behaves as a queue a little
    /// larger than `beta`. Talus takes 5 %, so that an error of the curve does not push the queue
    /// off the upper edge of the cliff.
    pub fn with_margin(alpha: f64, beta: f64, size: u64, margin: f64) -> Self {
        let whole = size as f64;
        if !(alpha < whole && whole < beta) {
            return Self::half(size);
        }
        let rho = ((beta - whole) / (beta - alpha) * (1.0 + margin)).clamp(0.0, 1.0);
        let left = ((rho * alpha.max(0.0)).round() as u64).min(size);
        Self { ratio: rho, left, right: size - left }
    }

    /// The sizes of the queues that the partitions behave as: `None` for a partition that gets no
    /// requests.
    pub fn simulated(&self) -> (Option<f64>, Option<f64>) {
        let scaled = |size: u64, share: f64| (share > 0.0).then(|| size as f64 / share);
        (scaled(self.left, self.ratio), scaled(self.right, 1.0 - self.ratio))
    }

    /// The miss ratio of a queue of this curve with this split: that of both partitions, weighted
    /// by their shares of the requests.
    pub fn miss_ratio(&self, curve: &MissRatioCurve) -> f64 {
        let (left, right) = self.simulated();
        let part = |size: Option<f64>, share: f64| size.map_or(0.0, |size| share * curve.miss_ratio(size));
        part(left, self.ratio) + part(right, 1.0 - self.ratio)
    }
}

/// A curve and its hull, for splits at any size.
#[derive(Clone, Debug)]
pub struct Talus {
    curve: MissRatioCurve,
    hull: MissRatioCurve,
    margin: f64,
}

impl Talus {
    /// Creates splits on the hull of `curve`, with a margin on the share of the left partition
    /// ([`Split::with_margin`]; 0 = none, 0.05 = Talus'). Costs a pass over the curve's points.
    pub fn new(curve: MissRatioCurve, margin: f64) -> Self {
        Self { hull: curve.hull(), curve, margin }
    }

    /// The miss-ratio curve of a split queue.
    pub fn hull(&self) -> &MissRatioCurve {
        &self.hull
    }

    /// `α` and `β`: the sizes between which the hull leaves the curve at `size`; `None` if it does
    /// not, as there is no cliff.
    pub fn anchors(&self, size: u64) -> Option<(u64, u64)> {
        let points = self.hull.points();
        let above = points.partition_point(|point| point.size <= size);
        let (alpha, beta) = (points.get(above.checked_sub(1)?)?, points.get(above)?);
        let gap = self.curve.miss_ratio(size as f64) - self.hull.miss_ratio(size as f64);
        (alpha.size < size && gap > 1e-9).then_some((alpha.size, beta.size))
    }

    /// The split of a queue of `size`: between the hull's neighbours if it is on a cliff, otherwise
    /// in halves, or not at all if it has at most 1,000 items, as few items divide unevenly.
    pub fn split(&self, size: u64) -> Split {
        self.anchors(size).map_or_else(
            || Split::unsplit(size),
            |(alpha, beta)| Split::with_margin(alpha as f64, beta as f64, size, self.margin),
        )
    }
}

/// A policy that gives memory to the steepest hulls, for caches that split their queues. Exact, as
/// hulls are concave.
///
/// The decision's outcomes are those of the hulls, which a cache reaches if it splits each pool by
/// [`Talus`].
#[derive(Clone, Copy, Debug, Default)]
pub struct OnHulls;

impl Policy for OnHulls {
    fn name(&self) -> &'static str {
        "talus"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let mut hulls = view.clone();
            for pool in &mut hulls.pools {
                pool.curve = pool.curve.hull().into();
            }
            let grants = dynacache::solve(&hulls);
            let cliffs = cliffs(view, &grants);
            Decision::by_worth_on_cliffs(&hulls, grants, cliffs)
        })
    }
}

/// For each pool the ends of the cliff that it lies on with `grants`, if any.
pub(crate) fn cliffs(view: &View, grants: &[Grant]) -> Vec<Option<(u64, u64)>> {
    let each = view.pools.iter().zip(grants);
    each.map(|(pool, grant)| Talus::new(pool.curve.as_ref().clone(), 0.0).anchors(grant.memory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use curve::{Point, Unit};
    use proptest::prelude::*;

    fn curve(points: &[(u64, f64)]) -> MissRatioCurve {
        MissRatioCurve::new(Unit::Items, points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio }))
            .unwrap()
    }

    /// The example of Cliffhanger, section 4.2.
    #[test]
    fn the_papers_example_comes_out() {
        let split = Split::between(2000.0, 13_500.0, 8000);
        assert!((split.ratio - 5500.0 / 11_500.0).abs() < 1e-12);
        assert_eq!((split.left, split.right), (957, 7043));
        let (left, right) = split.simulated();
        assert!((left.unwrap() - 2000.0).abs() < 2.0 && (right.unwrap() - 13_500.0).abs() < 2.0);
    }

    #[test]
    fn a_queue_on_a_cliff_is_split_to_the_hull() {
        let talus = Talus::new(curve(&[(100, 0.6), (500, 0.6), (600, 0.1), (900, 0.1)]), 0.0);
        assert_eq!(talus.anchors(350), Some((100, 600)));
        let split = talus.split(350);
        assert_eq!((split.left, split.right), (50, 300));
        assert!((split.miss_ratio(&talus.curve) - 0.35).abs() < 1e-9);
        assert_eq!(talus.anchors(100), None);
        assert_eq!(talus.anchors(700), None, "the hull is the curve there");
        assert_eq!(talus.split(1000), Split::whole(1000));
    }

    #[test]
    fn a_margin_lets_the_right_partition_behave_as_a_larger_queue() {
        let split = Split::with_margin(2000.0, 13_500.0, 8000, 0.05);
        let (left, right) = split.simulated();
        assert!((left.unwrap() - 2000.0).abs() < 2.0);
        assert!(right.unwrap() > 13_900.0);
    }

    #[test]
    fn memory_goes_by_hulls_and_the_reason_names_the_cliff() {
        let cliff = curve(&[(10, 0.99), (500, 0.9), (600, 0.1)]);
        let gentle = curve(&[(1000, 0.6)]);
        let mut view = View { memory: 1000, ..View::default() };
        view.pools = vec![Pool::new("cliff", cliff, 100), Pool::new("gentle", gentle, 900)];
        view.pools.iter_mut().for_each(|pool| pool.request_rate = 10.0);
        let decision = OnHulls.decide(&view);
        assert_eq!(decision.grants.iter().map(|grant| grant.memory).collect::<Vec<_>>(), [600, 400]);
        view.memory = 500;
        (view.pools[0].size, view.pools[1].size) = (100, 400);
        let decision = OnHulls.decide(&view);
        assert_eq!(decision.grants[0].memory, 500);
        assert!(
            decision.moves[0].reason.contains("cliff is on a cliff and is split between 0 and 600 bytes")
        );
        assert!((decision.after[0].miss_ratio - (1.0 - 0.9 * 500.0 / 600.0)).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn a_split_reaches_the_hull_at_any_size(
            steps in prop::collection::vec((1_u64..2000, 0.0..0.2_f64), 1..30), at in 0.0..1.2_f64,
        ) {
            let (mut size, mut miss_ratio) = (0, 1.0_f64);
            let points: Vec<_> = steps.iter().map(|&(width, fall)| {
                (size, miss_ratio) = (size + width, (miss_ratio - fall).max(0.0));
                (size, miss_ratio)
            }).collect();
            let talus = Talus::new(curve(&points), 0.0);
            let size = (at * size as f64) as u64;
            let split = talus.split(size);
            prop_assert_eq!(split.left + split.right, size);
            // Rounding to whole items moves each partition by at most one, and so the queue that it
            // behaves as by 1 / share.
            let steepest = talus.curve.points().windows(2).map(|pair| talus.curve.gain_per_unit(pair[0].size as f64));
            let rounding = 2.0 * steepest.fold(0.0, f64::max) + 1e-9;
            let reached = split.miss_ratio(&talus.curve);
            prop_assert!((reached - talus.hull.miss_ratio(size as f64)).abs() <= rounding);
        }
    }
}
