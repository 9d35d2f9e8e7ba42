//! The miss-ratio curve: the share of requests that a cache misses, as a function of the cache's
//! size.
//!
//! A curve is a list of points whose sizes rise and whose miss ratios do not. Between points it is
//! linear; beyond the last it is flat; below the first it runs to a miss ratio of 1 at size 0, as a
//! cache without memory misses every request.
//!
//! [`arithmetic`] merges, scales and thins curves, [`cliff`] finds the sizes at which more memory
//! helps only in large pieces.

pub mod arithmetic;
pub mod cliff;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// The unit of a curve's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes of memory.
    Bytes,
    /// Items, whatever their size.
    Items,
}

/// A size and the miss ratio of a cache that has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// In the curve's [`Unit`].
    pub size: u64,
    /// Misses per request, from 0 to 1.
    pub miss_ratio: f64,
}

/// The reason why points are not a curve.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// There is no point.
    #[error("a curve needs at least one point")]
    Empty,
    /// A miss ratio is below 0, above 1 or not a number.
    #[error("the miss ratio {miss_ratio} at size {size} is not between 0 and 1")]
    NotARatio {
        /// The size of the point.
        size: u64,
        /// The given miss ratio.
        miss_ratio: f64,
    },
    /// Sizes do not rise.
    #[error("the size {size} does not exceed the size before it, {before}")]
    OutOfOrder {
        /// The size before.
        before: u64,
        /// The size that should be larger.
        size: u64,
    },
    /// Curves of bytes and of items do not mix.
    #[error(
        "curves over bytes and curves over items cannot be merged; scale the ones to the unit of the others"
    )]
    Units,
}

/// The basis of a curve: the keys and requests that it was learnt from, and a bound on its error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// Keys that the estimator tracks now.
    pub keys: u64,
    /// Requests that the estimator recorded. Ageing lowers this as it lowers their weight.
    pub samples: f64,
    /// Requests that the samples represent, sampled or not, lowered by ageing too. The weight of
    /// the curve in a merge.
    pub requests: f64,
    /// Requests since the estimator began, whatever their weight is now. Compared with `requests`,
    /// this shows how old the curve is.
    pub seen: u64,
    /// A bound on the curve's distance from the exact curve, which holds for 95 % of curves. The
    /// distance is averaged over sizes spread evenly up to the total size of all keys. The median
    /// bound is about 2.7 times the true distance. 0 if unknown.
    pub error: f64,
}

impl Confidence {
    /// The standard error of a miss ratio: half of the bound that 95 % of curves keep.
    pub fn standard_error(&self) -> f64 {
        self.error / 2.0
    }
}

/// The miss ratio of a cache at any size.
///
/// ```
/// use millpond_curve::{MissRatioCurve, Point, Unit};
///
/// let points = [Point { size: 100, miss_ratio: 0.6 }, Point { size: 300, miss_ratio: 0.2 }];
/// let curve = MissRatioCurve::new(Unit::Items, points)?;
/// assert!((curve.miss_ratio(200.0) - 0.4).abs() < 1e-9);
/// assert_eq!(curve.miss_ratio(0.0), 1.0);
/// assert_eq!(curve.miss_ratio(1e9), 0.2);
/// # Ok::<(), millpond_curve::CurveError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissRatioCurve {
    unit: Unit,
    /// The first has size 0; sizes rise, miss ratios never do.
    points: Vec<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<Confidence>,
}

impl MissRatioCurve {
    /// Creates a curve through `points`. A point at size 0 may be missing: the miss ratio is 1
    /// there. If a point's miss ratio exceeds that of the point before it, which noise can cause,
    /// it gets the miss ratio of that point.
    ///
    /// # Errors
    /// If there is no point, a miss ratio is not between 0 and 1, or sizes do not rise.
    pub fn new(unit: Unit, points: impl IntoIterator<Item = Point>) -> Result<Self, CurveError> {
        let mut kept: Vec<Point> = Vec::new();
        for Point { size, miss_ratio } in points {
            if !(0.0..=1.0).contains(&miss_ratio) {
                return Err(CurveError::NotARatio { size, miss_ratio });
            }
            match kept.last() {
                Some(last) if last.size >= size => {
                    return Err(CurveError::OutOfOrder { before: last.size, size });
                }
                Some(last) => kept.push(Point { size, miss_ratio: miss_ratio.min(last.miss_ratio) }),
                None if size == 0 => kept.push(Point { size, miss_ratio }),
                None => kept.extend([Point { size: 0, miss_ratio: 1.0 }, Point { size, miss_ratio }]),
            }
        }
        if kept.is_empty() {
            return Err(CurveError::Empty);
        }
        Ok(Self { unit, points: kept, confidence: None })
    }

    /// The curve of a cache whose requests are uniform over `working_set` units: a straight line
    /// that falls to 0.
    ///
    /// # Panics
    /// If `working_set` is 0.
    pub fn uniform(unit: Unit, working_set: u64) -> Self {
        assert!(working_set > 0, "a working set is at least one unit");
        let points = vec![Point { size: 0, miss_ratio: 1.0 }, Point { size: working_set, miss_ratio: 0.0 }];
        Self { unit, points, confidence: None }
    }

    /// Returns the curve with this confidence.
    #[must_use]
    pub fn with_confidence(self, confidence: Confidence) -> Self {
        Self { confidence: Some(confidence), ..self }
    }

    /// The confidence of a curve that was learnt; `None` if the curve was computed.
    pub fn confidence(&self) -> Option<Confidence> {
        self.confidence
    }

    /// The unit of the sizes.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The points, from size 0 on.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The largest size with a known miss ratio. Beyond it, the miss ratio is only known not to
    /// rise.
    pub fn max_size(&self) -> u64 {
        self.points[self.points.len() - 1].size
    }

    /// The miss ratio at `size`; a size below 0 counts as 0.
    pub fn miss_ratio(&self, size: f64) -> f64 {
        let above = self.points.partition_point(|point| point.size as f64 <= size);
        let Some(left) = above.checked_sub(1).map(|i| self.points[i]) else {
            return self.points[0].miss_ratio;
        };
        let Some(right) = self.points.get(above) else {
            return left.miss_ratio;
        };
        let share = (size - left.size as f64) / (right.size - left.size) as f64;
        left.miss_ratio + share * (right.miss_ratio - left.miss_ratio)
    }

    /// Returns [`Self::miss_ratio`], and the number of the point at or before `size`. The search
    /// begins at the point `near`, usually the number that the previous search returned. Costs a
    /// step for each point between the two.
    pub fn miss_ratio_near(&self, size: f64, near: usize) -> (f64, usize) {
        let last = self.points.len() - 1;
        let mut at = near.min(last);
        while at > 0 && self.points[at].size as f64 > size {
            at -= 1;
        }
        while at < last && self.points[at + 1].size as f64 <= size {
            at += 1;
        }
        let left = self.points[at];
        let miss_ratio = match self.points.get(at + 1) {
            Some(right) if size > left.size as f64 => {
                let share = (size - left.size as f64) / (right.size - left.size) as f64;
                left.miss_ratio + share * (right.miss_ratio - left.miss_ratio)
            }
            _ => left.miss_ratio,
        };
        (miss_ratio, at)
    }

    /// The misses per request that one more unit would save at `size`: the steepness of the curve
    /// to the right of it. 0 beyond the last point.
    pub fn gain_per_unit(&self, size: f64) -> f64 {
        let above = self.points.partition_point(|point| point.size as f64 <= size).max(1);
        let Some(right) = self.points.get(above) else {
            return 0.0;
        };
        let left = self.points[above - 1];
        (left.miss_ratio - right.miss_ratio) / (right.size - left.size) as f64
    }

    /// The misses per request that `more` units would save at `size`.
    pub fn gain(&self, size: f64, more: f64) -> f64 {
        self.miss_ratio(size) - self.miss_ratio(size + more)
    }

    /// The lower convex hull: the largest convex curve that nowhere exceeds this one. In terms of
    /// hit ratio it is the concave hull, which a cache reaches by splitting its keys between two
    /// partitions (Beckmann and Sanchez, "Talus", HPCA 2015).
    #[must_use]
    pub fn hull(&self) -> Self {
        let mut hull: Vec<Point> = Vec::with_capacity(self.points.len());
        for &point in &self.points {
            while let [.., a, b] = hull[..] {
                if falls(a, b) < falls(b, point) {
                    hull.pop();
                } else {
                    break;
                }
            }
            hull.push(point);
        }
        Self { unit: self.unit, points: hull, confidence: self.confidence }
    }
}

/// Returns the misses per request that each further unit saves between `a` and `b`.
fn falls(a: Point, b: Point) -> f64 {
    (a.miss_ratio - b.miss_ratio) / (b.size - a.size) as f64
}
