//! The exact solver over hulls: sizes of the greatest total worth, with each worth replaced by its
//! concave hull.
//!
//! On a concave function each further byte brings at most as much as the previous one. So the best
//! allocation gives memory piece by piece to the pool that gains most from it. Since a hull is a
//! chain of straight pieces, it suffices to find the slope at which memory runs out: steeper pieces
//! are handed out, flatter ones are not. The slope is found by bisection, in `O(S)` for `S` pieces:
//! some tens of milliseconds for 10,000 pools with 64 points each. HOLPACA (ICPE '26, section 4.3)
//! searches by simulated annealing instead.
//!
//! If worths are concave, as hit rates over hulls are, the result is exact. If not, its worth over
//! the hulls is an upper bound for any allocation, and all pools except one have a size at which
//! hull and worth agree. The exception is the pool at which memory ran out within a piece;
//! [`exact`](crate::exact) corrects its size.

use crate::problem::{Problem, rise};

/// Memory handed out over hulls.
#[derive(Clone, Debug, PartialEq)]
pub struct Filled {
    /// The size of each pool.
    pub sizes: Vec<u64>,
    /// The worth of the sizes over the hulls. No sizes are worth more, over hulls or worths.
    pub bound: f64,
    /// The pool whose size lies within a piece of its hull, with the two sizes at which the piece
    /// begins and ends.
    pub split: Option<(usize, u64, u64)>,
}

/// A straight piece of a hull.
struct Piece {
    pool: u32,
    /// The size at which the piece begins; `bytes` is its length.
    from: u64,
    bytes: u64,
    /// The gain of each of its bytes.
    slope: f64,
}

/// The corners of a pool's concave hull: sizes and their worth.
pub(crate) type Corners = Vec<(u64, f64)>;

/// Hands out the memory of `problem` over the concave hulls of its worths, within bounds.
///
/// Among pieces with the same slope, that of the first pool is handed out first.
///
/// # Panics
/// If the least sizes add up to more than the memory.
pub fn fill(problem: &Problem) -> Filled {
    let hulls: Vec<Corners> = hulls(problem).collect();
    fill_over(problem.total(), hulls.iter())
}

/// The number of sizes at which a smooth worth is sampled: fewer with more pools.
pub(crate) fn detail(problem: &Problem) -> usize {
    (8192 / problem.choices.len().max(1)).clamp(16, 64)
}

/// The hull of each pool, up to its largest possible size.
pub(crate) fn hulls(problem: &Problem) -> impl Iterator<Item = Corners> + '_ {
    let least: u64 = problem.choices.iter().map(|choice| choice.low).sum();
    let spare = problem.total().saturating_sub(least);
    let detail = detail(problem);
    problem.choices.iter().map(move |choice| {
        choice.worth.concave(choice.low, choice.high.min(choice.low.saturating_add(spare)), detail)
    })
}

/// Hands out `total` bytes over hulls.
///
/// # Panics
/// If their first sizes add up to more than `total`.
pub(crate) fn fill_over<'a>(total: u64, hulls: impl Iterator<Item = &'a Corners>) -> Filled {
    let (mut sizes, mut pieces, mut bound) = (Vec::new(), Vec::new(), 0.0);
    for (pool, corners) in hulls.enumerate() {
        sizes.push(corners[0].0);
        bound += corners[0].1;
        pieces.extend(corners.windows(2).map(|pair| Piece {
            pool: pool as u32,
            from: pair[0].0,
            bytes: pair[1].0 - pair[0].0,
            slope: rise(pair[0], pair[1]),
        }));
    }
    let least = sizes.iter().sum();
    let mut left = total.checked_sub(least).expect("the least sizes of a problem fit into its memory");
    // Steepest first; among equals the first pool.
    let order = |a: &Piece, b: &Piece| b.slope.total_cmp(&a.slope).then(a.pool.cmp(&b.pool));
    let mut open = &mut pieces[..];
    while open.len() > 64 {
        let middle = open.len() / 2;
        open.select_nth_unstable_by(middle, order);
        let (steep, flat) = open.split_at_mut(middle);
        let wanted: u64 = steep.iter().map(|piece| piece.bytes).sum();
        if wanted > left {
            open = steep;
        } else {
            for piece in steep.iter() {
                sizes[piece.pool as usize] += piece.bytes;
                bound += piece.slope * piece.bytes as f64;
            }
            left -= wanted;
            open = flat;
        }
    }
    open.sort_unstable_by(order);
    let mut split = None;
    for piece in open.iter() {
        let given = piece.bytes.min(left);
        if given == 0 {
            break;
        }
        let pool = piece.pool as usize;
        sizes[pool] += given;
        bound += piece.slope * given as f64;
        left -= given;
        if given < piece.bytes {
            split = Some((pool, piece.from, piece.from + piece.bytes));
        }
    }
    Filled { sizes, bound, split }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Choice, Worth};
    use proptest::prelude::*;

    fn straight(points: &[(u64, f64)]) -> Choice {
        let worth = Worth::Straight(points.iter().map(|&(size, value)| (size as f64, value)).collect());
        Choice { low: 0, high: points[points.len() - 1].0, worth }
    }

    #[test]
    fn memory_goes_where_a_byte_brings_most() {
        let steep = straight(&[(0, 0.0), (10, 50.0), (40, 65.0)]);
        let flat = straight(&[(0, 0.0), (30, 60.0)]);
        let filled = fill(&Problem { memory: 35, choices: vec![flat, steep] });
        assert_eq!((filled.sizes, filled.bound, filled.split), (vec![25, 10], 100.0, Some((0, 0, 30))));
    }

    #[test]
    fn a_cliff_is_climbed_as_a_whole_or_not_at_all() {
        let cliff = straight(&[(0, 0.0), (50, 0.0), (60, 90.0)]);
        let slope = straight(&[(0, 0.0), (60, 60.0)]);
        let filled = fill(&Problem { memory: 60, choices: vec![cliff.clone(), slope.clone()] });
        assert_eq!(filled.sizes, [60, 0]);
        let short = fill(&Problem { memory: 40, choices: vec![cliff, slope] });
        assert_eq!((short.sizes, short.split), (vec![0, 40], None), "a cliff out of reach is no gain");
    }

    proptest! {
        /// Over concave worths on a small grid every allocation can be tried.
        #[test]
        fn nothing_is_worth_more_than_the_fill_of_concave_worths(
            gains in proptest::collection::vec(proptest::collection::vec(0.0_f64..10.0, 6), 3),
            memory in 0_u64..20,
        ) {
            let choices: Vec<Choice> = gains.into_iter().map(|mut gains| {
                gains.sort_by(|a, b| b.total_cmp(a));
                let mut sum = 0.0;
                let mut points = vec![(0, 0.0)];
                points.extend(gains.iter().enumerate().map(|(i, gain)| { sum += gain; (i as u64 + 1, sum) }));
                straight(&points)
            }).collect();
            let problem = Problem { memory, choices };
            let filled = fill(&problem);
            prop_assert!(problem.admits(&filled.sizes));
            let value = problem.value(&filled.sizes);
            prop_assert!((value - filled.bound).abs() < 1e-9);
            for a in 0..=6_u64 {
                for b in 0..=6_u64 {
                    let Some(c) = problem.total().checked_sub(a + b).filter(|&c| c <= 6) else { continue };
                    prop_assert!(problem.value(&[a, b, c]) <= value + 1e-9);
                }
            }
        }
    }
}
