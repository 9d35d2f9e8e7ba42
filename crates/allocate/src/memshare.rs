//! Memshare: each pool keeps a reserved part of its memory, and competes for the rest.
//!
//! Cidon et al., "Memshare: a Dynamic Multi-tenant Key-value Cache", ATC 2017, in the form that
//! HARE (FAST 2026, section 4.4) compares itself with: chunk by chunk, memory goes from the pool
//! that loses least to the pool that gains most, while the gain exceeds the loss. It considers only
//! misses: a pool that gives is not compensated.
//!
//! This policy computes the whole window between two decisions from curves: *reserved* memory is
//! never given ([`Memshare::reserved`]); a gain is the hits of the shadow queue, a chunk long, and
//! a loss those in the last chunk of a pool's memory ([`Memshare::memory`]). The form that works
//! request by request is [`arbiter`](crate::arbiter).

use std::collections::BTreeSet;

use crate::drf::{self, Drf};
use crate::rank::{Rank, in_order_of_names};
use crate::{Decision, Grant, Policy, Pool, View, fairness};

/// The measure of a gain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gains {
    /// Misses per second: hits in the shadow queue, which earn Memshare's credits.
    #[default]
    PerSecond,
    /// Misses per request, whatever the request rate: the form in the comparison of HARE's authors.
    PerRequest,
}

/// Memory by Memshare; the other resources by weight.
#[derive(Clone, Debug)]
pub struct Memshare {
    /// The part of its share by weight that a pool never loses. Default: 0.5, as in the paper's and
    /// HARE's evaluation.
    pub reserved: f64,
    /// Bytes that move at once; `None` = a 64th of a mean share. Default: `None`.
    pub chunk: Option<u64>,
    /// The measure of a gain. Default: misses per second.
    pub gains: Gains,
}

impl Default for Memshare {
    fn default() -> Self {
        Self { reserved: 0.5, chunk: None, gains: Gains::PerSecond }
    }
}

/// Memory by Memshare, the other resources by dominant resource fairness: the best combination of
/// cache-oblivious and resource-oblivious allocation.
#[derive(Clone, Debug, Default)]
pub struct MemshareDrf {
    /// The memory.
    pub memshare: Memshare,
    /// The other resources.
    pub drf: Drf,
}

impl Memshare {
    /// The memory of each pool.
    ///
    /// Costs `O(log pools)` for each chunk that moves. It terminates since each move saves misses.
    pub fn memory(&self, view: &View) -> Vec<u64> {
        // By name, so that ties do not depend on the order of the view.
        let places = crate::rank::by_name(view);
        let baseline = fairness::baseline(view);
        let mut sizes: Vec<u64> = places.iter().map(|&place| baseline[place].memory).collect();
        let least: Vec<u64> = sizes
            .iter()
            .zip(&places)
            .map(|(&size, &place)| {
                view.pools[place].floor.max((size as f64 * self.reserved) as u64).min(size)
            })
            .collect();
        let pools: Vec<&Pool> = places.iter().map(|&place| &view.pools[place]).collect();
        let mean = sizes.iter().sum::<u64>() / sizes.len().max(1) as u64;
        self.compete(&pools, &least, &mut sizes, self.chunk.unwrap_or(mean / 64).max(1));
        let mut memory = vec![0; sizes.len()];
        for (&place, size) in places.iter().zip(sizes) {
            memory[place] = size;
        }
        memory
    }

    /// Moves chunks while one pool gains more from a chunk than another loses.
    fn compete(&self, pools: &[&Pool], least: &[u64], sizes: &mut [u64], chunk: u64) {
        let saved = |pool: &Pool, small: u64| {
            let rate = match self.gains {
                Gains::PerSecond => pool.request_rate,
                Gains::PerRequest => 1.0,
            };
            rate * (pool.curve.miss_ratio(small as f64) - pool.curve.miss_ratio((small + chunk) as f64))
        };
        let gain = |i: usize, size: u64| {
            (pools[i].ceiling.saturating_sub(size) >= chunk).then(|| (Rank(-saved(pools[i], size)), i))
        };
        let loss = |i: usize, size: u64| {
            (size.saturating_sub(least[i]) >= chunk).then(|| (Rank(saved(pools[i], size - chunk)), i))
        };
        let mut gains: BTreeSet<(Rank, usize)> = (0..pools.len()).filter_map(|i| gain(i, sizes[i])).collect();
        let mut losses: BTreeSet<(Rank, usize)> =
            (0..pools.len()).filter_map(|i| loss(i, sizes[i])).collect();
        // The number of rounds is bounded, as rounding could make two pools pass a chunk back and
        // forth for ever. On average each chunk crosses each pool at most once.
        for _ in 0..256 * pools.len() {
            // The pool that gains most may also be the one that loses least; then the next best
            // replaces one of them.
            let pairs = gains.iter().take(2).flat_map(|to| losses.iter().take(2).map(move |from| (to, from)));
            let apart = pairs.filter(|(to, from)| to.1 != from.1);
            let best = apart.min_by_key(|(to, from)| Rank(to.0.0 + from.0.0));
            let Some((&(Rank(gained), to), &(Rank(lost), from))) = best else { return };
            if -gained <= lost * (1.0 + 1e-12) {
                return;
            }
            for (i, bytes) in [(to, i128::from(chunk)), (from, -i128::from(chunk))] {
                gain(i, sizes[i]).map(|entry| gains.remove(&entry));
                loss(i, sizes[i]).map(|entry| losses.remove(&entry));
                sizes[i] = u64::try_from(i128::from(sizes[i]) + bytes).expect("it has that much to give");
                gains.extend(gain(i, sizes[i]));
                losses.extend(loss(i, sizes[i]));
            }
        }
    }
}

impl Policy for Memshare {
    fn name(&self) -> &'static str {
        "memshare"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let mut grants = fairness::baseline(view);
            for (grant, memory) in grants.iter_mut().zip(self.memory(view)) {
                grant.memory = memory;
            }
            decided(view, grants)
        })
    }
}

impl Policy for MemshareDrf {
    fn name(&self) -> &'static str {
        "memshare-drf"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let memory = self.memshare.memory(view);
            decided(view, drf::with_memory(view, &self.drf, &memory))
        })
    }
}

fn decided(view: &View, grants: Vec<Grant>) -> Decision {
    let mut decision = Decision::to(view, grants, |from, to| match (from, to) {
        (Some(from), Some(to)) => {
            format!("{} misses more for want of memory than {} would", to.name, from.name)
        }
        _ => "part of what is reserved by weight".to_owned(),
    });
    decision.unmet = crate::guard::unmet(view, &decision);
    decision
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{MissRatioCurve, Unit};

    fn view(rates: [f64; 2]) -> View {
        let pools = [(0, 1000), (1, 4000)].map(|(i, working_set)| {
            let curve = MissRatioCurve::uniform(Unit::Bytes, working_set);
            let mut pool = Pool::new(format!("p{i}"), curve, 640);
            pool.request_rate = rates[i];
            pool
        });
        View { memory: 1280, resources: Vec::new(), pools: pools.to_vec(), ..View::default() }
    }

    #[test]
    fn memory_goes_where_it_saves_misses_but_not_what_is_reserved() {
        let mut memshare = Memshare { chunk: Some(10), ..Memshare::default() };
        // A byte saves p0 1 miss in 1000 requests, p1 1 in 4000.
        assert_eq!(memshare.memory(&view([100.0, 100.0])), [960, 320]);
        assert_eq!(memshare.memory(&view([100.0, 500.0])), [320, 960]);
        memshare.reserved = 0.75;
        assert_eq!(memshare.memory(&view([100.0, 500.0])), [480, 800]);
        memshare.gains = Gains::PerRequest;
        assert_eq!(memshare.memory(&view([100.0, 500.0])), [800, 480]);
    }

    #[test]
    fn idle_pools_do_not_move_anything() {
        assert_eq!(Memshare::default().memory(&view([0.0, 0.0])), [640, 640]);
    }

    #[test]
    fn a_pool_takes_no_more_than_it_can_use() {
        let mut view = view([1000.0, 1.0]);
        view.memory = 2560;
        let sizes = Memshare { chunk: Some(10), ..Memshare::default() }.memory(&view);
        assert_eq!(sizes, [1000, 1560]);
    }
}
