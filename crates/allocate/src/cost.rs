//! The cost of a miss as a part of a pool's weight: memory then saves most of the time that clients
//! wait, rather than most misses.

/// A miss costs at most this many times the mean cost, and at least that part of it.
const MOST_COST: f64 = 100.0;

/// The aim of policies that save misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Misses, each worth as much as any other of a pool of the same weight.
    #[default]
    Hits,
    /// The time that clients wait for misses: a pool's misses count by what one costs.
    TimeSaved,
}

/// The factor of each pool's weight by which its misses count by what one costs, relative to the
/// mean cost over all misses whose cost is known. `pools` has each pool's misses, and the cost of
/// one in seconds. A pool of which no cost is known counts as if one cost the mean.
pub fn factors(pools: &[(f64, Option<f64>)]) -> Vec<f64> {
    let known = pools.iter().filter_map(|&(misses, cost)| Some((misses, misses * cost?)));
    let (misses, secs) = known.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    if misses <= 0.0 || secs <= 0.0 {
        return vec![1.0; pools.len()];
    }
    let factor = |&(_, cost): &(f64, Option<f64>)| {
        cost.map_or(1.0, |cost| (cost * misses / secs).clamp(1.0 / MOST_COST, MOST_COST))
    };
    pools.iter().map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_count_relative_to_the_mean_cost_of_all() {
        let pools = [(30.0, Some(0.001)), (10.0, Some(0.005)), (100.0, None)];
        // 40 misses cost 80 ms.
        assert_eq!(factors(&pools), [0.5, 2.5, 1.0]);
    }

    #[test]
    fn without_a_known_cost_all_misses_are_alike() {
        assert_eq!(factors(&[(1.0, None), (5.0, None)]), [1.0, 1.0]);
        assert_eq!(factors(&[(0.0, Some(1.0)), (5.0, None)]), [1.0, 1.0]);
    }

    #[test]
    fn no_cost_counts_for_all() {
        let factors = factors(&[(1e6, Some(1e-6)), (1.0, Some(1e3))]);
        assert_eq!((factors[0], factors[1]), (1.0 / MOST_COST, MOST_COST));
    }
}
