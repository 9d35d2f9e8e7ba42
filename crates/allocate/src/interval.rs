//! The control interval, chosen from observations rather than by hand. HOLPACA (ICPE '26, section
//! 4.2) leaves this to future work: short intervals cost, long ones leave pools with memory that
//! they no longer need.
//!
//! Four quantities are weighed after each decision:
//! - *change*: the distance of curves and request rates from those at the previous decision, in
//!   misses per request;
//! - *doubt*: the distance that chance alone would cause, given the samples that they were learnt
//!   from;
//! - *unfinished business*: the gain that the decision's moves promise beyond their cost;
//! - *cost*: the items in moved memory must be fetched again.
//!
//! The duration of a gain is unknown. The estimate is that conditions will stay stable for as long
//! as they have been, or were before the last change. Change beyond doubt, or unfinished business,
//! shortens the interval to the least that samples allow; without either it grows by half.

use std::collections::HashMap;
use std::sync::Arc;

use curve::MissRatioCurve;
use serde::{Deserialize, Serialize};

use crate::{Decision, Pool, View};

/// Bounds and thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Tempo {
    /// The shortest interval, in seconds; 1 by default.
    pub shortest_secs: f64,
    /// The longest, in seconds; 30 by default.
    pub longest_secs: f64,
    /// Change counts if it is at least this many times the doubt; 3 by default.
    pub beyond_doubt: f64,
    /// Change below this many misses per request does not count, however certain; 0.01 by default.
    pub least_change: f64,
    /// The factor by which a quiet interval grows; 1.5 by default.
    pub growth: f64,
    /// The mean size of an item, in bytes, which converts the cost of a move into misses; 1000 by
    /// default.
    pub item_bytes: f64,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            shortest_secs: 1.0,
            longest_secs: 30.0,
            beyond_doubt: 3.0,
            least_change: 0.01,
            growth: 1.5,
            item_bytes: 1000.0,
        }
    }
}

/// The time for which intervals stay short once the load has become another one, in seconds; and
/// the number of shortest ones that such an interval lasts at most.
const ALERT_SECS: f64 = 120.0;
const ALERT_INTERVALS: f64 = 3.0;

/// The reason for the length of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There was no earlier decision.
    First,
    /// Curves or rates changed beyond doubt.
    Change,
    /// Further moves are worthwhile.
    Unfinished,
    /// There is no change, and no worthwhile move.
    Quiet,
}

/// Chooses the interval until the next decision.
#[derive(Clone, Debug)]
pub struct Interval {
    tempo: Tempo,
    secs: f64,
    /// The time without change, in seconds.
    calm_secs: f64,
    /// The time without change before the last change, in seconds.
    last_calm_secs: f64,
    /// The time for which intervals stay short, in seconds.
    alert_secs: f64,
    /// The curve and request rate of each pool at the last decision, by name.
    seen: HashMap<Arc<str>, (Arc<MissRatioCurve>, f64)>,
}

impl Interval {
    /// Starts with the shortest interval.
    pub fn new(tempo: Tempo) -> Self {
        Self {
            tempo,
            secs: tempo.shortest_secs,
            calm_secs: 0.0,
            last_calm_secs: 0.0,
            alert_secs: 0.0,
            seen: HashMap::new(),
        }
    }

    /// Seconds until the next decision, as last chosen.
    pub fn secs(&self) -> f64 {
        self.secs
    }

    /// Chooses the seconds until the next decision, from a view and the decision on it. Costs a
    /// pass over the points of all curves.
    pub fn after(&mut self, view: &View, decision: &Decision) -> Cause {
        let cause = self.cause(view, decision);
        if matches!(cause, Cause::First | Cause::Change) {
            // A change shows until all observations are new, so a short time between two of its
            // signs does not count as calm.
            if self.calm_secs > 3.0 * self.tempo.shortest_secs {
                self.last_calm_secs = self.calm_secs;
            }
            self.calm_secs = 0.0;
        } else {
            self.calm_secs += self.secs;
        }
        let is_alert = self.alert_secs > 0.0;
        self.alert_secs -= self.secs;
        let longest = if is_alert { ALERT_INTERVALS * self.tempo.shortest_secs } else { f64::INFINITY };
        self.secs = match cause {
            Cause::First | Cause::Change | Cause::Unfinished => self.tempo.shortest_secs,
            Cause::Quiet => (self.secs * self.tempo.growth).min(self.tempo.longest_secs.min(longest)),
        };
        self.seen = view
            .pools
            .iter()
            .map(|pool| (pool.name.clone(), (Arc::clone(&pool.curve), pool.request_rate)))
            .collect();
        cause
    }

    /// Chooses the shortest time until the next decision, and short ones for two minutes, as the
    /// load has become another one: until curves have learnt it, their doubt hides the change.
    pub fn shorten(&mut self) {
        self.hasten();
        (self.calm_secs, self.alert_secs) = (0.0, ALERT_SECS);
    }

    /// Chooses the shortest time until the next decision.
    pub fn hasten(&mut self) {
        self.secs = self.tempo.shortest_secs;
    }

    fn cause(&self, view: &View, decision: &Decision) -> Cause {
        if self.seen.is_empty() || view.pools.iter().any(|pool| !self.seen.contains_key(&pool.name)) {
            return Cause::First;
        }
        if self.changed(view) {
            return Cause::Change;
        }
        // The savings of a move while conditions stay stable, against the misses that it causes
        // once.
        let lasts_secs = self.calm_secs.max(self.last_calm_secs) + self.secs;
        let gained: f64 = decision.moves.iter().map(|step| step.gain).sum::<f64>() * lasts_secs;
        let cost = decision.moved_bytes() as f64 / self.tempo.item_bytes;
        if decision.moved_bytes() > 0 && gained > cost { Cause::Unfinished } else { Cause::Quiet }
    }

    /// Returns whether the misses per second of some pool, over its possible sizes, changed by more
    /// than chance and the least change explain, relative to all requests.
    fn changed(&self, view: &View) -> bool {
        let requests: f64 = view.pools.iter().map(|pool| pool.request_rate).sum();
        view.pools.iter().any(|pool| {
            let (curve, rate) = &self.seen[&pool.name];
            let weight = if requests > 0.0 { pool.request_rate / requests } else { 0.0 };
            let by_curve = weight.sqrt() * distance(view.memory, &pool.curve, curve);
            let by_rate = (pool.request_rate - rate).abs() / (requests + rate).max(f64::MIN_POSITIVE);
            let doubt = weight.sqrt() * (doubt(pool).powi(2) + error(curve).powi(2)).sqrt();
            by_curve > (self.tempo.beyond_doubt * doubt).max(self.tempo.least_change)
                || by_rate > 10.0 * self.tempo.least_change
        })
    }
}

/// The mean difference of two curves over the sizes up to `memory`.
fn distance(memory: u64, a: &MissRatioCurve, b: &MissRatioCurve) -> f64 {
    const SIZES: u32 = 32;
    let at = |i: u32| memory as f64 * f64::from(i) / f64::from(SIZES);
    let sum: f64 = (1..=SIZES).map(|i| (a.miss_ratio(at(i)) - b.miss_ratio(at(i))).abs()).sum();
    sum / f64::from(SIZES)
}

/// The standard error of a pool's curve.
fn doubt(pool: &Pool) -> f64 {
    error(&pool.curve)
}

/// The standard error of a curve, from the sampling of keys and from the random number of requests
/// for them; 0 if the curve has no confidence.
fn error(curve: &MissRatioCurve) -> f64 {
    curve.confidence().map_or(0.0, |confidence| {
        let by_chance = 0.5 / confidence.samples.max(1.0).sqrt();
        confidence.standard_error().hypot(by_chance)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grant, Pool};
    use curve::{Confidence, Point, Unit};

    fn curve(falls_at: u64, samples: f64) -> MissRatioCurve {
        let points =
            [Point { size: falls_at, miss_ratio: 0.9 }, Point { size: falls_at + 100, miss_ratio: 0.1 }];
        let confidence =
            Confidence { keys: 100, samples, requests: samples, seen: samples as u64, error: 0.0 };
        MissRatioCurve::new(Unit::Bytes, points).unwrap().with_confidence(confidence)
    }

    fn view(falls_at: u64, samples: f64) -> View {
        let pools = ["a", "b"].map(|name| {
            let mut pool = Pool::new(name, curve(falls_at, samples), 500);
            pool.request_rate = 1000.0;
            pool
        });
        View { memory: 1000, resources: Vec::new(), pools: pools.into(), ..View::default() }
    }

    #[test]
    fn quiet_makes_it_longer_and_change_makes_it_short() {
        let mut interval = Interval::new(Tempo::default());
        let calm = view(300, 1e6);
        assert_eq!(interval.after(&calm, &Decision::stay(&calm)), Cause::First);
        for _ in 0..20 {
            assert_eq!(interval.after(&calm, &Decision::stay(&calm)), Cause::Quiet);
        }
        assert_eq!(interval.secs(), 30.0);
        let other = view(600, 1e6);
        assert_eq!(interval.after(&other, &Decision::stay(&other)), Cause::Change);
        assert_eq!(interval.secs(), 1.0);
    }

    #[test]
    fn what_few_samples_say_is_no_change() {
        let mut interval = Interval::new(Tempo::default());
        let (calm, noisy) = (view(300, 20.0), view(400, 20.0));
        interval.after(&calm, &Decision::stay(&calm));
        assert_eq!(interval.after(&noisy, &Decision::stay(&noisy)), Cause::Quiet);
    }

    #[test]
    fn a_decision_that_pays_is_followed_up_and_one_that_does_not_is_not() {
        let calm = view(450, 1e6);
        let moved = |bytes: u64| {
            let grants = [500 - bytes, 500 + bytes].map(|memory| Grant { memory, resources: Vec::new() });
            Decision::to(&calm, grants.into(), |_, _| String::new())
        };
        let mut interval = Interval::new(Tempo { item_bytes: 1.0, ..Tempo::default() });
        interval.after(&calm, &moved(50));
        assert_eq!(interval.after(&calm, &moved(1)), Cause::Quiet, "what b gains a loses");
        let mut steep = calm.clone();
        steep.pools[1].request_rate = 9000.0;
        interval.after(&steep, &Decision::stay(&steep));
        let grants = [450, 550].map(|memory| Grant { memory, resources: Vec::new() });
        let decision = Decision::to(&steep, grants.into(), |_, _| String::new());
        assert_eq!(interval.after(&steep, &decision), Cause::Unfinished);
    }
}
