//! The problem that HOLPACA's annealer and the exact solvers solve: maximise a sum of functions,
//! each of one pool's size, while the sizes add up to the memory and each stays within its bounds.
//!
//! The functions are of two kinds. The hit rate of a pool, over the hull of its curve, is concave:
//! the gain from one more unit falls with size, and sorting yields the exact solution. The
//! throughput of a pool whose misses go to a backend of limited rate is that rate divided by the
//! miss ratio (HOLPACA, ICPE '26, section 4.3). It rises the faster the larger the pool is: the
//! largest pool gains most from more memory. Its best allocations lie in corners of the feasible
//! region.

use std::sync::Arc;

use curve::{MissRatioCurve, MonotoneCubic};
use serde::{Deserialize, Serialize};

use crate::{Misses, Pool};

/// The function to maximise, summed over pools by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Requests per second, with misses served by a backend of limited rate.
    #[default]
    Throughput,
    /// Hits per second at the present request rates.
    HitRate,
}

/// The least miss ratio that throughput is divided by: below it, something other than the backend
/// limits a pool.
pub const LEAST_MISS_RATIO: f64 = 1e-3;

/// The worth of a pool's size.
#[derive(Clone, Debug, PartialEq)]
pub enum Worth {
    /// The hits per second of a pool by its curve, times its weight.
    Hits {
        /// The curve.
        curve: Arc<MissRatioCurve>,
        /// Requests per second, times the weight.
        scale: f64,
    },
    /// Linear between points, flat beyond them. Sizes rise from 0 on.
    Straight(Vec<(f64, f64)>),
    /// Smooth between points, and without overshoot.
    Smooth(MonotoneCubic),
}

impl Worth {
    /// The worth of `size` bytes.
    pub fn value(&self, size: f64) -> f64 {
        match self {
            Self::Hits { curve, scale } => scale * (1.0 - curve.miss_ratio(size)),
            Self::Smooth(function) => function.value(size),
            Self::Straight(points) => {
                let above = points.partition_point(|point| point.0 <= size);
                let Some(&right) = points.get(above) else {
                    return points[points.len() - 1].1;
                };
                let Some(&left) = above.checked_sub(1).and_then(|i| points.get(i)) else {
                    return right.1;
                };
                left.1 + (right.1 - left.1) * (size - left.0) / (right.0 - left.0)
            }
        }
    }

    /// Hits per second of `request_rate` requests, times `weight`. Concave if `curve` is a hull.
    pub fn hit_rate(curve: impl Into<Arc<MissRatioCurve>>, request_rate: f64, weight: f64) -> Self {
        Self::Hits { curve: curve.into(), scale: weight * request_rate }
    }

    /// The result of `carried` for a size and its miss ratio, times `weight`, smooth over the
    /// curve's points and some between them: if the miss ratio falls by much from one point to the
    /// next, throughput is not linear between the two.
    pub fn throughput(curve: &MissRatioCurve, weight: f64, carried: impl Fn(f64, f64) -> f64) -> Self {
        let value = |size: f64, miss_ratio: f64| weight * carried(size, miss_ratio.max(LEAST_MISS_RATIO));
        let mut points = Vec::with_capacity(2 * curve.points().len());
        points.push((0.0, value(0.0, curve.points()[0].miss_ratio)));
        for pair in curve.points().windows(2) {
            let (left, right) = (pair[0], pair[1]);
            let (from, to) = (left.miss_ratio.max(LEAST_MISS_RATIO), right.miss_ratio.max(LEAST_MISS_RATIO));
            let width = (right.size - left.size) as f64;
            // Most points are near enough to each other that no logarithm is needed to see it.
            let near = from / to <= 1.3;
            let steps = if near { 1.0 } else { ((from / to).ln() / 1.3_f64.ln()).ceil().clamp(1.0, 32.0) };
            let steps = steps.min(width.max(1.0));
            for step in 1..steps as u32 {
                // The miss ratio falls by the same factor with each step, along the straight line
                // between the two points.
                let miss_ratio = from * (to / from).powf(f64::from(step) / steps);
                let size = left.size as f64 + width * (from - miss_ratio) / (from - to);
                points.push((size, value(size, miss_ratio)));
            }
            points.push((right.size as f64, value(right.size as f64, right.miss_ratio)));
        }
        points.dedup_by(|later, earlier| later.0 <= earlier.0);
        Self::Smooth(MonotoneCubic::new(points))
    }

    /// The worth of `pool` under `objective`, with a backend that serves `backend_rate` misses per
    /// second for it. If the view has demands and grants of resources that a miss needs, those
    /// count instead.
    pub fn of(pool: &Pool, objective: Objective, backend_rate: f64) -> Self {
        match objective {
            Objective::HitRate => Self::hit_rate(pool.curve.hull(), pool.request_rate, pool.weight),
            Objective::Throughput if needs_on_miss(pool) => {
                let carried = |size: f64, _| {
                    let Misses { memory, all } = pool.misses(size as u64, &pool.grants);
                    let (memory, all) = (memory.max(LEAST_MISS_RATIO), all.max(LEAST_MISS_RATIO));
                    pool.carried(Misses { memory, all }, &pool.grants)
                };
                Self::throughput(&pool.curve, pool.weight, carried)
            }
            Objective::Throughput => {
                Self::throughput(&pool.curve, pool.weight, |_, miss_ratio| backend_rate / miss_ratio)
            }
        }
    }

    /// The least size, in whole bytes, with a worth of `value`; `None` if there is none. Worth
    /// never falls with size.
    pub fn least_size(&self, value: f64, largest: u64) -> Option<u64> {
        if self.value(largest as f64) < value {
            return None;
        }
        let (mut below, mut enough) = (0, largest);
        while below < enough {
            let middle = u64::midpoint(below, enough);
            if self.value(middle as f64) >= value { enough = middle } else { below = middle + 1 }
        }
        Some(enough)
    }

    /// The size of one of the points, chosen by `share` from 0 to 1.
    pub(crate) fn point(&self, share: f64) -> u64 {
        let draw = |points: usize| ((share * points as f64) as usize).min(points - 1);
        match self {
            Self::Hits { curve, .. } => curve.points()[draw(curve.points().len())].size,
            Self::Straight(points) => points[draw(points.len())].0 as u64,
            Self::Smooth(function) => function.point(draw(function.len())).0 as u64,
        }
    }

    /// Takes sizes within bounds, in whole bytes, with their worth: the bounds, the points between
    /// them, and for a smooth worth further sizes, about `detail` in all. They rise.
    fn landmarks(&self, low: u64, high: u64, detail: usize, mut take: impl FnMut((u64, f64))) {
        let inside = |size: f64| size > low as f64 && size < high as f64;
        let at = |size: u64| (size, self.value(size as f64));
        take(at(low));
        match self {
            Self::Hits { curve, scale } => {
                let from = curve.points().partition_point(|point| point.size <= low);
                let inner = curve.points()[from..].iter().take_while(|point| point.size < high);
                inner.for_each(|point| take((point.size, scale * (1.0 - point.miss_ratio))));
                take(at(high));
            }
            Self::Straight(points) => {
                let from = points.partition_point(|point| point.0 <= low as f64);
                let inner = points[from..].iter().take_while(|point| inside(point.0));
                inner.for_each(|&(size, worth)| take((size as u64, worth)));
                take(at(high));
            }
            Self::Smooth(function) => {
                let from = function.points_up_to(low as f64);
                let knots: Vec<(f64, f64)> = (from..function.len())
                    .map(|i| function.point(i))
                    .take_while(|knot| inside(knot.0))
                    .collect();
                let between = (detail / (knots.len() + 1)).max(1) as u64;
                let mut from = low;
                for (next, worth) in
                    knots.into_iter().map(|(size, worth)| (size as u64, worth)).chain([at(high)])
                {
                    let part = next.saturating_sub(from) / between;
                    (1..between).for_each(|i| take(at(from + part * i)));
                    take((next, worth));
                    from = from.max(next);
                }
            }
        }
    }

    /// The corners of the least concave function that is nowhere below the worth at its landmarks.
    pub(crate) fn concave(&self, low: u64, high: u64, detail: usize) -> Vec<(u64, f64)> {
        let most = match self {
            Self::Hits { curve, .. } => curve.points().len(),
            Self::Straight(points) => points.len(),
            Self::Smooth(_) => detail,
        };
        let mut corners: Vec<(u64, f64)> = Vec::with_capacity(most + 2);
        let mut last = None;
        self.landmarks(low, high, detail, |next| {
            // Of equal sizes the first counts.
            if last.is_some_and(|last| next.0 <= last) {
                return;
            }
            last = Some(next.0);
            while let [.., a, b] = corners[..] {
                if rise(a, b) <= rise(b, next) {
                    corners.pop();
                } else {
                    break;
                }
            }
            corners.push(next);
        });
        corners
    }
}

/// Returns whether a miss needs more of some resource than a hit.
pub(crate) fn needs_on_miss(pool: &Pool) -> bool {
    pool.demands.iter().zip(&pool.grants).any(|(demand, &grant)| demand.on_miss > 0.0 && grant > 0.0)
}

/// The gain per byte from `a` to `b`.
pub(crate) fn rise(a: (u64, f64), b: (u64, f64)) -> f64 {
    (b.1 - a.1) / (b.0 - a.0) as f64
}

/// One pool: its bounds, and the worth of its size.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The least size, in bytes.
    pub low: u64,
    /// The largest, in bytes; at least `low`.
    pub high: u64,
    /// The worth of sizes between the bounds; never falls with size.
    pub worth: Worth,
}

/// The problem of finding sizes, one for each choice, that add up to [`Problem::total`] and have
/// the greatest worth together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// The memory to allocate, in bytes; at least the sum of the least sizes.
    pub memory: u64,
    /// The pools.
    pub choices: Vec<Choice>,
}

impl Problem {
    /// The required sum of the sizes: all memory, or the sum of the largest sizes if that is less.
    pub fn total(&self) -> u64 {
        let most = self.choices.iter().fold(0_u64, |sum, choice| sum.saturating_add(choice.high));
        self.memory.min(most)
    }

    /// The total worth of sizes.
    pub fn value(&self, sizes: &[u64]) -> f64 {
        self.choices.iter().zip(sizes).map(|(choice, &size)| choice.worth.value(size as f64)).sum()
    }

    /// Returns whether sizes keep their bounds and add up to the total.
    pub fn admits(&self, sizes: &[u64]) -> bool {
        sizes.len() == self.choices.len()
            && sizes.iter().sum::<u64>() == self.total()
            && self
                .choices
                .iter()
                .zip(sizes)
                .all(|(choice, &size)| (choice.low..=choice.high).contains(&size))
    }

    /// Admitted sizes near `wanted`: clamped to the bounds, with the surplus or shortfall then
    /// shared out in proportion to the room of each.
    pub fn nearest(&self, wanted: &[u64]) -> Vec<u64> {
        let bounds: Vec<(u64, u64)> = self.choices.iter().map(|choice| (choice.low, choice.high)).collect();
        nearest(self.total(), &bounds, wanted)
    }
}

/// Sizes near `wanted` that keep `bounds` and add up to `total`.
pub(crate) fn nearest(total: u64, bounds: &[(u64, u64)], wanted: &[u64]) -> Vec<u64> {
    let mut sizes: Vec<u64> =
        bounds.iter().zip(wanted).map(|(&(low, high), &size)| size.clamp(low, high)).collect();
    let sum = sizes.iter().sum::<u64>();
    let room = |(low, high): (u64, u64), size: u64| if sum < total { high - size } else { size - low };
    let rooms: u128 = bounds.iter().zip(&sizes).map(|(&bounds, &size)| u128::from(room(bounds, size))).sum();
    let missing = sum.abs_diff(total);
    let mut left = missing;
    for exactly in [false, true] {
        for (&bounds, size) in bounds.iter().zip(&mut sizes) {
            let room = room(bounds, *size);
            // Shares are rounded down; the few remaining bytes then go to the first pools with
            // room.
            let share = (u128::from(missing) * u128::from(room)).checked_div(rooms).unwrap_or(0) as u64;
            let taken = if exactly { left } else { share }.min(left).min(room);
            *size = if sum < total { *size + taken } else { *size - taken };
            left -= taken;
        }
    }
    sizes
}
