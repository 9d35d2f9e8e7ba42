//! The pace of decisions: what a move brought is measured before the next one, and memory that goes
//! to and fro makes all moves rarer.
//!
//! A move costs the items that it evicts, so moves that undo each other cost hits for nothing.
//! Curves that are off, or loads that swing, cause such moves.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::decision::LEAST_TOLD;
use crate::{Decision, View};

/// The time with one size after which what a pool misses with that is known, and the longest one
/// that is waited for it, in seconds.
const SETTLED_SECS: f64 = 4.0;
const MOST_UNSETTLED_SECS: f64 = 10.0;
/// The share of the memory that, moved in vain, doubles the time between moves, which is at most as
/// many seconds.
const DOUBLING_SHARE: f64 = 0.05;
const MOST_SECS: f64 = 120.0;
/// The time in which half of that is forgotten, in seconds.
const HALF_LIFE_SECS: f64 = 120.0;

/// The gains and losses of a pool lately, as shares of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Flow {
    net: f64,
    gross: f64,
}

/// The time since memory moved, and of that the time for which pools had about one size
/// ([`is_steady`](crate::measured::is_steady)), in seconds, with what moved lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    since_secs: f64,
    steady_secs: f64,
    /// By name.
    flows: HashMap<Arc<str>, Flow>,
}

impl Pace {
    /// Returns whether what pools miss with the memory that they have now could be measured, or it
    /// was waited for that for long enough: a pool may have no use for what it was granted.
    pub fn has_settled(&self) -> bool {
        let in_vain = self.in_vain();
        let settled = (SETTLED_SECS * (in_vain / DOUBLING_SHARE).exp2()).min(MOST_SECS);
        self.steady_secs >= settled || self.since_secs >= settled.max(MOST_UNSETTLED_SECS)
    }

    /// The part of the memory that moved in vain lately, there and back.
    pub fn in_vain(&self) -> f64 {
        // Of each move a pool gave and another one received.
        self.flows.values().map(|flow| flow.gross - flow.net.abs()).sum::<f64>() / 2.0
    }

    /// Notes that `secs` more seconds went by, over which pools had one size or not.
    pub fn pass(&mut self, secs: f64, is_steady: bool) {
        self.since_secs += secs;
        self.steady_secs = if is_steady { self.steady_secs + secs } else { 0.0 };
        let left = (-secs / HALF_LIFE_SECS).exp2();
        self.flows.values_mut().for_each(|flow| {
            flow.net *= left;
            flow.gross *= left;
        });
        self.flows.retain(|_, flow| flow.gross > 1e-4);
    }

    /// Notes what was decided.
    pub fn decided(&mut self, view: &View, decision: &Decision) {
        if decision.moved_bytes() < LEAST_TOLD {
            return;
        }
        (self.since_secs, self.steady_secs) = (0.0, 0.0);
        for (pool, grant) in view.pools.iter().zip(&decision.grants) {
            let change = (grant.memory as f64 - pool.size as f64) / view.memory.max(1) as f64;
            if change != 0.0 {
                let flow = self.flows.entry(Arc::clone(&pool.name)).or_default();
                flow.net += change;
                flow.gross += change.abs();
            }
        }
    }

    /// Forgets what moved: the load has become another one, and memory that comes back is not in
    /// vain.
    pub fn forget(&mut self) {
        self.flows.clear();
    }
}

/// The reason why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Nothing was seen twice yet.
    Unknown,
    /// Nobody goes short.
    Free,
    /// The outcome of the last moves is not known yet.
    Measuring,
    /// The policy wants nothing else, or not for so little.
    Nothing,
}

impl Idle {
    /// The reason in a round that decides `decision`; `None` if memory moves.
    pub fn of(is_known: bool, is_short: bool, is_paced: bool, decision: &Decision) -> Option<Self> {
        match (is_known, is_short, is_paced) {
            (false, ..) => Some(Self::Unknown),
            (_, false, _) => Some(Self::Free),
            (_, _, false) => Some(Self::Measuring),
            _ => (decision.moved_bytes() < LEAST_TOLD).then_some(Self::Nothing),
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "request rates are not known yet",
            Self::Free => "memory is free",
            Self::Measuring => "what the last moves brought is being measured",
            Self::Nothing => "no move saves enough",
        })
    }
}

#[cfg(test)]
mod tests {
    use curve::{MissRatioCurve, Unit};

    use super::*;
    use crate::{Grant, Pool};

    #[test]
    fn a_decision_waits_until_pools_have_one_size_and_not_for_ever() {
        let rounds = |steady: [bool; 5]| {
            let mut pace = Pace::default();
            steady.map(|is_steady| {
                pace.pass(2.0, is_steady);
                pace.has_settled()
            })
        };
        assert_eq!(rounds([true; 5]), [false, true, true, true, true]);
        assert_eq!(rounds([true, false, true, true, true]), [false, false, false, true, true]);
        assert_eq!(rounds([false; 5]), [false, false, false, false, true]);
    }

    /// The seconds until the next move may be made, after a pool had these parts of 1,000 MiB one
    /// after the other.
    fn waits(pace: &mut Pace, sizes: &[u64]) -> Vec<u32> {
        let curve = Arc::new(MissRatioCurve::uniform(Unit::Bytes, 1 << 30));
        let grants = |one: u64| [one << 20, (1_000 - one) << 20];
        let after = |step: &[u64]| {
            let pools = ["one", "other"].into_iter().zip(grants(step[0]));
            let pools = pools.map(|(name, size)| Pool::new(name, Arc::clone(&curve), size));
            let view = View { memory: 1_000 << 20, pools: pools.collect(), ..View::default() };
            let to = grants(step[1]).map(|memory| Grant { memory, resources: Vec::new() });
            pace.decided(&view, &Decision::to(&view, to.to_vec(), |_, _| String::new()));
            let waited = (1..).find(|_| {
                pace.pass(1.0, true);
                pace.has_settled()
            });
            waited.expect("it ends")
        };
        sizes.windows(2).map(after).collect()
    }

    #[test]
    fn memory_that_goes_to_and_fro_makes_moves_rarer_and_one_way_does_not() {
        let mut pace = Pace::default();
        assert_eq!(waits(&mut pace, &[500, 600, 700, 800, 900]), [4; 4]);
        pace.forget();
        let swings = waits(&mut pace, &[900, 800, 900, 800, 900]);
        assert_eq!(swings[0], 4);
        assert!((30..=45).contains(&swings[1]) && (60..=120).contains(&swings[3]), "{swings:?}");
        // After some minutes, or if the load became another one, it is forgotten.
        (0..600).for_each(|_| pace.pass(1.0, true));
        assert!(waits(&mut pace, &[900, 800])[0] <= 6);
        pace.forget();
        assert_eq!(waits(&mut pace, &[800, 900])[0], 4);
    }
}
