//! Smooth interpolation that never overshoots: the monotone cubic of Fritsch and Carlson, "Monotone
//! Piecewise Cubic Interpolation", SIAM Journal on Numerical Analysis 1980.
//!
//! A curve is known at a few sizes only. Straight lines between them have a corner at each, and an
//! optimiser stops at corners. An ordinary cubic spline overshoots the points it joins, and
//! promises gains that do not exist. This one keeps to the range between neighbours, so that a
//! function which does not fall at the points falls nowhere.

/// A smooth function through points; beyond the first and the last it is flat.
///
/// ```
/// use millpond_curve::MonotoneCubic;
///
/// let smooth = MonotoneCubic::new([(0.0, 0.0), (10.0, 5.0), (20.0, 5.0)]);
/// assert_eq!(smooth.value(10.0), 5.0);
/// assert_eq!(smooth.value(15.0), 5.0, "between equal points it stays equal");
/// assert_eq!(smooth.value(99.0), 5.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MonotoneCubic {
    knots: Vec<Knot>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    x: f64,
    y: f64,
    /// The slope of the function here.
    tangent: f64,
}

impl MonotoneCubic {
    /// The function through `points`, whose first coordinates rise. Costs one pass.
    ///
    /// # Panics
    /// If there is no point, or first coordinates do not rise.
    pub fn new(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut knots: Vec<Knot> = points.into_iter().map(|(x, y)| Knot { x, y, tangent: 0.0 }).collect();
        assert!(!knots.is_empty(), "a function needs at least one point");
        assert!(knots.windows(2).all(|pair| pair[0].x < pair[1].x), "the points of a function must rise");
        let secants: Vec<f64> =
            knots.windows(2).map(|pair| (pair[1].y - pair[0].y) / (pair[1].x - pair[0].x)).collect();
        set_tangents(&mut knots, &secants);
        Self { knots }
    }

    /// The function's value at `x`. Costs a binary search over the points.
    pub fn value(&self, x: f64) -> f64 {
        let above = self.knots.partition_point(|knot| knot.x <= x);
        let Some(right) = self.knots.get(above) else {
            return self.knots[above - 1].y;
        };
        let Some(left) = above.checked_sub(1).map(|i| self.knots[i]) else {
            return right.y;
        };
        // The cubic Hermite form on the unit interval.
        let width = right.x - left.x;
        let t = (x - left.x) / width;
        let rest = 1.0 - t;
        let (left_share, right_share) = (rest * rest * (1.0 + 2.0 * t), t * t * (3.0 - 2.0 * t));
        left_share * left.y
            + right_share * right.y
            + width * t * rest * (rest * left.tangent - t * right.tangent)
    }

    /// The number of points.
    #[expect(clippy::len_without_is_empty, reason = "it has at least one point")]
    pub fn len(&self) -> usize {
        self.knots.len()
    }

    /// The point of this number, from 0 on.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn point(&self, number: usize) -> (f64, f64) {
        (self.knots[number].x, self.knots[number].y)
    }

    /// The number of points at or before `x`. Costs a binary search.
    pub fn points_up_to(&self, x: f64) -> usize {
        self.knots.partition_point(|knot| knot.x <= x)
    }

    /// The points.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.knots.iter().map(|knot| (knot.x, knot.y))
    }
}

/// Tangents after section 4 of the paper: the mean of the secants beside a point, or 0 if they
/// differ in sign, and pulled back into the circle of radius 3 in which a cubic is known to be
/// monotone.
fn set_tangents(knots: &mut [Knot], secants: &[f64]) {
    let last = knots.len() - 1;
    for (i, knot) in knots.iter_mut().enumerate() {
        knot.tangent = match (i.checked_sub(1).map(|i| secants[i]), secants.get(i)) {
            (Some(left), Some(&right)) if left * right > 0.0 => f64::midpoint(left, right),
            (Some(_), Some(_)) | (None, None) => 0.0,
            (Some(only), None) => only,
            (None, Some(&only)) => only,
        };
    }
    for i in 0..last {
        let secant = secants[i];
        if secant == 0.0 {
            (knots[i].tangent, knots[i + 1].tangent) = (0.0, 0.0);
            continue;
        }
        let (left, right) = (knots[i].tangent / secant, knots[i + 1].tangent / secant);
        let radius = left.hypot(right);
        if radius > 3.0 {
            knots[i].tangent = 3.0 / radius * left * secant;
            knots[i + 1].tangent = 3.0 / radius * right * secant;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_straight_line_stays_straight() {
        let line = MonotoneCubic::new([(0.0, 1.0), (3.0, 7.0), (10.0, 21.0)]);
        for i in 0..100 {
            let x = f64::from(i) / 10.0;
            assert!((line.value(x) - (1.0 + 2.0 * x)).abs() < 1e-9, "at {x}");
        }
    }

    #[test]
    fn it_is_smoother_than_a_polygon() {
        let square = MonotoneCubic::new((0..11).map(|i| (f64::from(i), f64::from(i * i))));
        for i in 10..90 {
            let x = f64::from(i) / 10.0;
            assert!((square.value(x) - x * x).abs() < 0.05, "at {x}: {}", square.value(x));
        }
    }

    #[test]
    fn one_point_is_a_constant() {
        let constant = MonotoneCubic::new([(5.0, 2.0)]);
        assert_eq!([constant.value(0.0), constant.value(5.0), constant.value(9.0)], [2.0; 3]);
    }

    proptest! {
        #[test]
        fn it_goes_through_its_points_and_keeps_between_neighbours(
            steps in proptest::collection::vec((0.01_f64..5.0, 0.0_f64..10.0), 1..30),
        ) {
            let mut point = (0.0, 0.0);
            let points: Vec<(f64, f64)> = steps.iter().map(|&(dx, dy)| {
                point = (point.0 + dx, point.1 + if dy < 2.0 { 0.0 } else { dy });
                point
            }).collect();
            let smooth = MonotoneCubic::new(points.iter().copied());
            for pair in points.windows(2) {
                let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
                prop_assert!((smooth.value(x0) - y0).abs() < 1e-9);
                let mut before = y0;
                for i in 0..=50 {
                    let y = smooth.value(x0 + (x1 - x0) * f64::from(i) / 50.0);
                    prop_assert!(y >= before - 1e-9 && y <= y1 + 1e-9, "{} after {} in {:?}", y, before, pair);
                    before = y;
                }
            }
        }
    }
}
