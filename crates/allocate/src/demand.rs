//! The rate of requests by which a pool has memory: what is taken has to be filled again when
//! the pool's clients come back, so that it is not taken for a pause of some seconds.
//!
//! The rate is that of the last round, or the mean of the last minutes if that is higher. A pool
//! that is read more counts at once. One that is not read any more counts by half after a minute,
//! and by a quarter after two.
//!
//! What a backend carries, if nobody said so, is the most that it carried lately. What it carries
//! now follows from the memory that its pool has, and a promise that is looked at by that takes
//! memory and gives it back for ever.

/// The time in which half of a mean rate is forgotten, in seconds.
pub const HALF_LIFE_SECS: f64 = 60.0;

/// Returns the mean rate after `secs` seconds at `rate`, from the one before.
pub fn mean_rate(former: f64, rate: f64, secs: f64) -> f64 {
    rate + (former - rate) * (-secs / HALF_LIFE_SECS).exp2()
}

/// The time in which half of what a backend carried is forgotten, in seconds.
const CARRIED_HALF_LIFE_SECS: f64 = 600.0;

/// Returns the misses per second that a backend carries, after `secs` seconds with `now`, from
/// those before.
pub fn carried(former: f64, now: f64, secs: f64) -> f64 {
    now.max(former * (-secs / CARRIED_HALF_LIFE_SECS).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_carries_what_it_carried_before_its_pool_had_more_memory() {
        let after = (0..30).fold(carried(0.0, 500.0, 2.0), |before, _| carried(before, 100.0, 2.0));
        assert!((460.0..500.0).contains(&after), "{after}");
        assert_eq!(carried(after, 600.0, 2.0), 600.0);
        assert_eq!(carried(500.0, 100.0, 86_400.0), 100.0);
    }

    #[test]
    fn half_is_forgotten_in_a_half_life_however_many_rounds_it_has() {
        assert_eq!(mean_rate(100.0, 0.0, HALF_LIFE_SECS), 50.0);
        let stepwise = (0..30).fold(100.0, |mean, _| mean_rate(mean, 0.0, HALF_LIFE_SECS / 30.0));
        assert!((stepwise - 50.0).abs() < 1e-9, "{stepwise}");
        assert_eq!(mean_rate(100.0, 20.0, 0.0), 100.0);
    }

    #[test]
    fn turns_of_less_than_a_half_life_leave_a_pool_a_third_of_its_rate_or_more() {
        let mut mean = 100.0;
        let mut least = f64::MAX;
        for turn in 0..20 {
            let rate = if turn % 2 == 0 { 0.0 } else { 100.0 };
            (0..10).for_each(|_| mean = mean_rate(mean, rate, HALF_LIFE_SECS / 10.0));
            least = mean.min(least);
        }
        assert!(least > 33.0, "{least}");
    }
}
