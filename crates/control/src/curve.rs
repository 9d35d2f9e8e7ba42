//! A miss-ratio curve in a message: differences, which the format writes in few bytes.

use crate::v1::Curve;

/// Miss ratios are whole numbers of this part.
const PARTS: f64 = (1 << 20) as f64;
/// More points are refused: a curve has a few hundred.
const MOST_POINTS: usize = 65_536;

/// The reason why a message holds no curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// There are not as many sizes as miss ratios, none, or too many.
    #[error("a curve needs 1 to {MOST_POINTS} sizes and as many miss ratios, and has {sizes} and {misses}")]
    Points {
        /// Sizes.
        sizes: usize,
        /// Miss ratios.
        misses: usize,
    },
    /// Sizes exceed 64 bits, or miss ratios are not between 0 and 1.
    #[error("the point {0} of a curve is out of range")]
    Range(usize),
}

/// Writes points of rising sizes, in bytes, and falling miss ratios.
pub fn write(points: impl IntoIterator<Item = (u64, f64)>) -> Curve {
    let mut curve = Curve::default();
    let (mut last_size, mut last_misses) = (0, 0);
    for (size, miss_ratio) in points {
        let misses = (miss_ratio.clamp(0.0, 1.0) * PARTS).round() as u32;
        let misses = if curve.misses.is_empty() { misses } else { misses.min(last_misses) };
        curve.misses.push(if curve.misses.is_empty() { misses } else { last_misses - misses });
        curve.sizes.push(size.saturating_sub(last_size));
        (last_size, last_misses) = (size, misses);
    }
    curve
}

/// Reads the points: sizes in bytes, and miss ratios.
///
/// # Errors
/// If the message is not what [`write()`] writes.
pub fn read(curve: &Curve) -> Result<Vec<(u64, f64)>, CurveError> {
    let (sizes, misses) = (curve.sizes.len(), curve.misses.len());
    if sizes != misses || sizes == 0 || sizes > MOST_POINTS {
        return Err(CurveError::Points { sizes, misses });
    }
    let mut at: (u64, Option<u32>) = (0, None);
    let points = curve.sizes.iter().zip(&curve.misses).enumerate();
    points
        .map(|(i, (&more, &misses))| {
            let size = at.0.checked_add(more).ok_or(CurveError::Range(i))?;
            let misses = match at.1 {
                None => misses,
                Some(before) => before.checked_sub(misses).ok_or(CurveError::Range(i))?,
            };
            if f64::from(misses) > PARTS {
                return Err(CurveError::Range(i));
            }
            at = (size, Some(misses));
            Ok((size, f64::from(misses) / PARTS))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_curve_is_read_as_it_was_written(
            steps in proptest::collection::vec((1_u64..1 << 30, 0.0..0.1_f64), 1..300)
        ) {
            let mut at = (0, 1.0_f64);
            let points: Vec<(u64, f64)> = steps.into_iter().map(|(more, less)| {
                at = (at.0 + more, (at.1 - less).max(0.0));
                at
            }).collect();
            let read = read(&write(points.iter().copied())).expect("it was just written");
            prop_assert_eq!(read.len(), points.len());
            for (was, is) in points.iter().zip(read) {
                prop_assert_eq!(was.0, is.0);
                prop_assert!((was.1 - is.1).abs() <= 0.5 / PARTS);
            }
        }

        #[test]
        fn whatever_a_message_holds_is_read_or_refused(
            sizes in proptest::collection::vec(any::<u64>(), 0..6),
            misses in proptest::collection::vec(any::<u32>(), 0..6),
        ) {
            if let Ok(points) = read(&Curve { sizes, misses, samples: 0.0, error: 0.0 }) {
                prop_assert!(points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 >= two[1].1));
                prop_assert!(points.iter().all(|point| (0.0..=1.0).contains(&point.1)));
            }
        }
    }

    #[test]
    fn a_message_without_points_is_refused_in_words() {
        let error = read(&Curve::default()).unwrap_err().to_string();
        assert_eq!(error, "a curve needs 1 to 65536 sizes and as many miss ratios, and has 0 and 0");
    }
}
