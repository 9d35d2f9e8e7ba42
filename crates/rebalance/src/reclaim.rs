//! Memory that pools share beyond their reserves: the choice of the pool that gives and the pool
//! that takes, a step at a time.
//!
//! Limits may exceed the memory in total, so that a pool can use memory that another leaves idle.
//! When the other pool wants its part, some pool has to give. Each pool has a reserve, which no
//! pool takes from it, and a weight. Its *level* is its memory above the reserve, divided by its
//! weight. A pool that wants a step more takes it from the pool of the highest level, if its own
//! level with the step does not exceed the other pool's level without that step. So levels even
//! out, as in weighted max-min fairness (Bertsekas and Gallager, "Data Networks", section 6.5.2),
//! among the pools that want memory; other pools keep theirs for as long as no such pool has a
//! lower level.
//!
//! What must hold:
//! 1. A victim keeps its reserve.
//! 2. A pool below its reserve takes from any that is above its own.
//! 3. No memory goes back and forth: a pool that another has taken a step from cannot take that
//!    step back.

use std::cmp::Ordering;

/// The memory of a pool, and its entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stake {
    /// The pool's number.
    pub pool: u16,
    /// The memory of the pool, in bytes.
    pub bytes: u64,
    /// Bytes that no pool takes from it.
    pub reserve_bytes: u64,
    /// Its share of the memory beyond the reserves, relative to the other pools; 0 = it takes
    /// nothing beyond its reserve.
    pub weight: u32,
    /// True if the pool's last request for memory could not be met.
    pub wants: bool,
}

impl Stake {
    /// The level with this many bytes more.
    fn level(&self, more: i128) -> Level {
        Level { over: i128::from(self.bytes) - i128::from(self.reserve_bytes) + more, weight: self.weight }
    }

    /// Returns whether the pool may take from others until it has a step more.
    fn may_take(&self, step: i128) -> bool {
        self.weight > 0 || self.level(step).over <= 0
    }
}

/// Bytes above a reserve, relative to a weight.
#[derive(Clone, Copy, Debug)]
struct Level {
    over: i128,
    weight: u32,
}

impl Level {
    fn compare(&self, other: &Self) -> Ordering {
        let by_weight = |over: i128, weight: u32| over * i128::from(weight);
        match (self.over <= 0, other.over <= 0) {
            (true, true) => self.over.cmp(&other.over),
            // Without a weight every byte above the reserve is excess.
            (false, false) if self.weight == 0 && other.weight == 0 => self.over.cmp(&other.over),
            (false, false) => by_weight(self.over, other.weight).cmp(&by_weight(other.over, self.weight)),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

/// The pool that should give `step_bytes` to the pool `taker`, if any.
pub fn victim(stakes: &[Stake], taker: u16, step_bytes: u64) -> Option<u16> {
    let step = i128::from(step_bytes);
    let taker = stakes.iter().find(|stake| stake.pool == taker).filter(|taker| taker.may_take(step))?;
    let others = stakes.iter().filter(|stake| stake.pool != taker.pool && stake.level(-step).over >= 0);
    let highest = others.max_by(|a, b| a.level(0).compare(&b.level(0)))?;
    let gives = highest.weight == 0 || highest.level(-step).compare(&taker.level(step)).is_ge();
    gives.then_some(highest.pool)
}

/// The pool that should give to the pool `taker`, and how much: `step_bytes`, or if no pool should
/// give as much, half of that, and so on down to `least_bytes`. So a large pool takes from many
/// small ones, too.
pub fn victim_and_step(
    stakes: &[Stake],
    taker: u16,
    step_bytes: u64,
    least_bytes: u64,
) -> Option<(u16, u64)> {
    // If nobody gives the least, nobody gives more.
    victim(stakes, taker, least_bytes.min(step_bytes))?;
    let mut halves = std::iter::successors(Some(step_bytes), |step| {
        (*step > least_bytes).then(|| (step / 2).max(least_bytes))
    });
    halves.find_map(|step| Some((victim(stakes, taker, step)?, step)))
}

/// Among the pools that want memory and may take it from others, the one that would have the lowest
/// level with a step more.
pub fn lowest_that_wants(stakes: &[Stake]) -> Option<Stake> {
    let wanting = stakes.iter().filter(|stake| stake.wants && stake.may_take(1));
    wanting.min_by(|a, b| a.level(1).compare(&b.level(1))).copied()
}

/// Returns whether free memory must not go to `pool`, because `lowest` wants it and would have a
/// lower level with it.
pub fn goes_first(lowest: &Stake, pool: &Stake) -> bool {
    lowest.pool != pool.pool && lowest.level(1).compare(&pool.level(1)).is_lt()
}

/// The pool that should give memory for uses other than pools: that of the highest level or, if
/// none is above its reserve, the largest.
pub fn first_to_give(stakes: &[Stake]) -> Option<u16> {
    let with_memory = || stakes.iter().filter(|stake| stake.bytes > 0);
    let over =
        with_memory().filter(|stake| stake.level(0).over > 0).max_by(|a, b| a.level(0).compare(&b.level(0)));
    Some(over.or_else(|| with_memory().max_by_key(|stake| stake.bytes))?.pool)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stake(pool: u16, bytes: u64, reserve_bytes: u64, weight: u32) -> Stake {
        Stake { pool, bytes, reserve_bytes, weight, wants: true }
    }

    fn is_held_back(stakes: &[Stake], pool: u16) -> bool {
        lowest_that_wants(stakes).is_some_and(|lowest| goes_first(&lowest, &stakes[usize::from(pool)]))
    }

    fn take(stakes: &mut [Stake], from: u16, to: u16, step: u64) {
        for stake in stakes {
            stake.bytes =
                stake.bytes + step * u64::from(stake.pool == to) - step * u64::from(stake.pool == from);
        }
    }

    #[test]
    fn a_pool_takes_less_at_a_time_if_nobody_has_more() {
        let mut stakes = vec![stake(0, 0, 24, 1)];
        stakes.extend((1..20).map(|pool| stake(pool, 3, 0, 1)));
        assert_eq!(victim(&stakes, 0, 6), None);
        while let Some((from, step)) = victim_and_step(&stakes, 0, 6, 1) {
            take(&mut stakes, from, 0, step);
        }
        assert!((24..=26).contains(&stakes[0].bytes), "{stakes:?}");
    }

    #[test]
    fn a_pool_gets_its_reserve_and_its_part_of_the_rest() {
        let mut stakes = [stake(0, 20, 4, 1), stake(1, 0, 4, 3)];
        while victim(&stakes, 1, 1).is_some() {
            take(&mut stakes, 0, 1, 1);
        }
        assert_eq!([stakes[0].bytes, stakes[1].bytes], [7, 13], "4 and 3 against 4 and 9");
        assert_eq!(victim(&stakes, 0, 1), None);
    }

    #[test]
    fn without_a_weight_a_pool_takes_no_more_than_its_reserve() {
        let mut stakes = [stake(0, 20, 0, 0), stake(1, 0, 2, 0), stake(2, 0, 0, 0)];
        assert_eq!((victim(&stakes, 1, 1), victim(&stakes, 2, 1)), (Some(0), None));
        assert!(is_held_back(&stakes, 0) && is_held_back(&stakes, 2) && !is_held_back(&stakes, 1));
        take(&mut stakes, 0, 1, 2);
        assert_eq!(victim(&stakes, 1, 1), None);
        assert!(!is_held_back(&stakes, 0));
        let weighted = [stake(0, 20, 19, 0), stake(1, 50, 0, 1)];
        assert_eq!(victim(&weighted, 1, 1), Some(0), "what is over its reserve goes first");
    }

    #[test]
    fn memory_that_nobody_wants_stays() {
        let mut stakes = [stake(0, 20, 0, 1), stake(1, 0, 4, 1)];
        stakes[1].wants = false;
        assert!(!is_held_back(&stakes, 0));
        stakes[1].wants = true;
        assert!(is_held_back(&stakes, 0) && !is_held_back(&stakes, 1));
    }

    #[test]
    fn the_largest_gives_where_nobody_is_over_its_reserve() {
        assert_eq!(first_to_give(&[stake(0, 3, 3, 1), stake(1, 5, 9, 1)]), Some(1));
        assert_eq!(first_to_give(&[stake(0, 3, 1, 1), stake(1, 5, 9, 1)]), Some(0));
        assert_eq!(first_to_give(&[stake(0, 0, 0, 1)]), None);
    }

    proptest! {
        /// Whichever pools take, in whatever order: reserves are kept, reclaiming ends, and then
        /// the pools that want memory are even with the others.
        #[test]
        fn levels_even_out(
            pools in prop::collection::vec((0..40_u64, 0..20_u64, 0..4_u32, any::<bool>()), 1..6),
            order in prop::collection::vec(0..6_u16, 1..200),
            most in 1..9_u64,
        ) {
            let mut stakes: Vec<Stake> = (0..).zip(&pools)
                .map(|(pool, (slabs, reserve, weight, wants))| Stake { wants: *wants, ..stake(pool, *slabs, *reserve, *weight) })
                .collect();
            let all: u64 = stakes.iter().map(|stake| stake.bytes).sum();
            let takers: Vec<u16> = stakes.iter().filter(|stake| stake.wants).map(|stake| stake.pool).collect();
            let mut moves = 0;
            let mut step = |stakes: &mut Vec<Stake>, taker: u16| -> bool {
                let Some((from, step)) = victim_and_step(stakes, taker, most, 1) else { return false };
                let before = stakes[usize::from(from)];
                assert!(before.bytes >= before.reserve_bytes + step, "invariant 1");
                take(stakes, from, taker, step);
                let back = victim_and_step(stakes, from, most, 1).map(|(from, _)| from);
                assert_ne!(back, Some(taker), "invariant 3");
                moves += 1;
                assert!(moves <= 2_000, "it does not come to an end");
                true
            };
            for taker in order {
                if takers.contains(&taker) {
                    step(&mut stakes, taker);
                }
            }
            while takers.iter().any(|taker| step(&mut stakes, *taker)) {}
            prop_assert_eq!(stakes.iter().map(|stake| stake.bytes).sum::<u64>(), all);
            let below = stakes.iter().any(|stake| stake.wants && stake.bytes < stake.reserve_bytes);
            let above = stakes.iter().any(|stake| stake.bytes > stake.reserve_bytes);
            prop_assert!(!(below && above), "invariant 2: {:?}", stakes);
        }
    }
}
