//! The miss-ratio curve: the share of requests that a cache misses, as a function of the cache's size.
//!
//! A curve is a list of points whose sizes rise and whose miss ratios do not. Between points it is linear; beyond the last it
//! is flat; below the first it runs to a miss ratio of 1 at size 0, for a cache without memory misses all.

use serde::{Deserialize, Serialize};

/// What the sizes of a curve count.
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

/// Why points are not a curve.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// There is no point.
    #[error("a curve needs at least one point")]
    Empty,
    /// A miss ratio is below 0, above 1 or not a number.
    #[error("the miss ratio {miss_ratio} at size {size} is not between 0 and 1")]
    NotARatio {
        /// Where.
        size: u64,
        /// What was given.
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
}

/// What a cache would miss at any size.
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
}

impl MissRatioCurve {
    /// A curve through `points`. A point at size 0 may be missing: the miss ratio is 1 there. Where a miss ratio is higher than
    /// that of a smaller size, as noise may have it, the lower one is kept.
    ///
    /// # Errors
    /// Where there is no point, a miss ratio is not between 0 and 1, or sizes do not rise.
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
        Ok(Self { unit, points: kept })
    }

    /// The curve of a cache whose requests all have the same chance to be for any of `working_set` units: it falls in a straight
    /// line to 0.
    ///
    /// # Panics
    /// Where `working_set` is 0.
    pub fn uniform(unit: Unit, working_set: u64) -> Self {
        assert!(working_set > 0, "a working set is at least one unit");
        let points = vec![Point { size: 0, miss_ratio: 1.0 }, Point { size: working_set, miss_ratio: 0.0 }];
        Self { unit, points }
    }

    /// What its sizes count.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Its points, from size 0 on.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The largest size of which it knows more than that the miss ratio does not rise.
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

    /// What one more unit would save at `size`, in misses per request: how steeply the curve falls to the right of it. 0 beyond
    /// the last point.
    pub fn gain_per_unit(&self, size: f64) -> f64 {
        let above = self.points.partition_point(|point| point.size as f64 <= size).max(1);
        let Some(right) = self.points.get(above) else {
            return 0.0;
        };
        let left = self.points[above - 1];
        (left.miss_ratio - right.miss_ratio) / (right.size - left.size) as f64
    }

    /// The lower convex hull: the largest convex curve that nowhere exceeds this one. In terms of hit ratio it is the concave
    /// hull, which a cache reaches by splitting its keys between two partitions (Beckmann and Sanchez, "Talus", HPCA 2015).
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
        Self { unit: self.unit, points: hull }
    }
}

/// Misses saved per unit from `a` to `b`.
fn falls(a: Point, b: Point) -> f64 {
    (a.miss_ratio - b.miss_ratio) / (b.size - a.size) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> MissRatioCurve {
        let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        MissRatioCurve::new(Unit::Items, points).unwrap()
    }

    #[test]
    fn it_is_linear_between_points_and_flat_beyond_the_last() {
        let curve = curve(&[(10, 0.5), (20, 0.1)]);
        assert_eq!(curve.miss_ratio(5.0), 0.75);
        assert!((curve.miss_ratio(15.0) - 0.3).abs() < 1e-12);
        assert_eq!(curve.miss_ratio(20.0), 0.1);
        assert_eq!(curve.miss_ratio(1e12), 0.1);
        assert_eq!(curve.miss_ratio(-1.0), 1.0);
    }

    #[test]
    fn noise_does_not_make_it_rise() {
        let curve = curve(&[(10, 0.5), (20, 0.6), (30, 0.2)]);
        assert_eq!(curve.miss_ratio(20.0), 0.5);
    }

    #[test]
    fn one_more_unit_saves_what_the_slope_to_the_right_says() {
        let curve = curve(&[(10, 0.5), (20, 0.1)]);
        assert!((curve.gain_per_unit(0.0) - 0.05).abs() < 1e-12);
        assert!((curve.gain_per_unit(10.0) - 0.04).abs() < 1e-12);
        assert_eq!(curve.gain_per_unit(20.0), 0.0);
    }

    #[test]
    fn the_hull_spans_a_cliff() {
        let cliff = curve(&[(100, 0.9), (500, 0.9), (600, 0.1), (700, 0.1)]);
        let hull = cliff.hull();
        assert_eq!(hull.points().iter().map(|point| point.size).collect::<Vec<_>>(), [0, 600, 700]);
        for size in 0..800 {
            assert!(hull.miss_ratio(f64::from(size)) <= cliff.miss_ratio(f64::from(size)) + 1e-12);
        }
    }

    #[test]
    fn points_that_are_no_curve_are_refused_by_name() {
        let refuse = |points: &[(u64, f64)]| {
            let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
            MissRatioCurve::new(Unit::Bytes, points).unwrap_err().to_string()
        };
        assert_eq!(refuse(&[]), "a curve needs at least one point");
        assert_eq!(refuse(&[(5, 1.5)]), "the miss ratio 1.5 at size 5 is not between 0 and 1");
        assert_eq!(refuse(&[(5, 0.5), (5, 0.4)]), "the size 5 does not exceed the size before it, 5");
        assert!(refuse(&[(5, f64::NAN)]).contains("NaN"));
    }
}
