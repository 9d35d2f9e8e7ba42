//! The need of each pool: the size that keeps a promise, or prevents starvation.
//!
//! HOLPACA, section 4.3, "QoS enforcement with throughput maximization". The paper discards
//! candidates that would violate a minimum throughput, and says in the same paragraph that a tenant
//! below its minimum is only excluded from reductions: as described and as published that is all
//! ([`Need::lacking`]). Repaired, the curve gives the size at which a promise is kept; no pool is
//! shrunk below that, and a smaller pool grows toward it ([`Need::bytes`]).

use base::ByteSize;

use super::{Mode, Options};
use crate::problem::{Objective, Worth};
use crate::{Pool, Unmet, View};

/// The least size that a pool should have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Need {
    /// In bytes; 0 if there is no need.
    pub(super) bytes: u64,
    /// The promise behind the need, in requests per second; 0 if the need is the common floor.
    promise: f64,
    /// True if the pool is below its promise, and so gives no memory.
    pub(super) lacking: bool,
}

impl Need {
    /// The reason of the need, in words.
    pub(super) fn why(&self) -> String {
        if self.promise > 0.0 {
            format!("it needs for the {:.0} requests per second that it was promised", self.promise)
        } else {
            "the least share that each pool has".to_owned()
        }
    }
}

/// Turns promises into sizes.
pub(super) struct Promises<'a> {
    view: &'a View,
    options: &'a Options,
    /// The throughput at each size, for active pools with a promise.
    promised: Vec<Option<Worth>>,
}

impl<'a> Promises<'a> {
    /// The promises of a view to pools that are not `new`. `backend_rate` is the rate of a pool's
    /// backend, in misses per second.
    pub(super) fn new(
        view: &'a View,
        options: &'a Options,
        new: &[bool],
        backend_rate: impl Fn(usize) -> f64,
    ) -> Self {
        let promised = view.pools.iter().zip(new).enumerate().map(|(i, (pool, &new))| {
            // Weights set the priority of promises, not their amount.
            let unweighted = || Pool { weight: 1.0, ..pool.clone() };
            (pool.min_request_rate > 0.0 && !new)
                .then(|| Worth::of(&unweighted(), Objective::Throughput, backend_rate(i)))
        });
        Self { view, options, promised: promised.collect() }
    }

    /// The need of each pool, and the promises that cannot be kept. `throughput` is the smoothed
    /// measurement.
    pub(super) fn needs(&self, throughput: &[f64]) -> (Vec<Need>, Vec<Unmet>) {
        let n = self.view.pools.len();
        let floor = (self.options.floor_of_equal * self.view.memory as f64 / n as f64) as u64;
        let mut needs: Vec<Need> = self
            .view
            .pools
            .iter()
            .map(|pool| Need { bytes: floor.clamp(pool.floor, pool.ceiling), ..Need::default() })
            .collect();
        if self.options.mode == Mode::Published {
            // The published rule: a pool below 1.1 of its promise is not shrunk.
            for (i, pool) in self.view.pools.iter().enumerate() {
                needs[i].lacking = pool.min_request_rate > 0.0
                    && throughput[i] < pool.min_request_rate * (1.0 + self.options.margin);
            }
            return (needs, Vec::new());
        }
        let (kept, unmet) = self.keepable(&needs);
        let margin = self.margin(&needs, &kept);
        for &i in &kept {
            let promise = self.view.pools[i].min_request_rate;
            let bytes = self.size_for(i, promise * (1.0 + margin)).or_else(|| self.size_for(i, promise));
            needs[i].bytes = needs[i].bytes.max(bytes.unwrap_or(0));
            needs[i].promise = promise;
            needs[i].lacking = throughput[i] < promise;
        }
        (needs, unmet)
    }

    /// The promises that can be kept together, and the reasons why the others cannot: those of more
    /// weight come first, then those that need less memory.
    fn keepable(&self, floors: &[Need]) -> (Vec<usize>, Vec<Unmet>) {
        let pools = &self.view.pools;
        let least: u64 = floors.iter().map(|need| need.bytes).sum();
        let (mut wanted, mut unmet) = (Vec::new(), Vec::new());
        for (i, pool) in pools.iter().enumerate() {
            let Some(worth) = &self.promised[i] else { continue };
            match self.size_for(i, pool.min_request_rate) {
                Some(bytes) => wanted.push((i, bytes)),
                None => {
                    let most = self.most(i);
                    let reason = format!(
                        "{} was promised {:.0} requests per second; with all of the {} that it may have its curve gives {:.0}",
                        pool.name,
                        pool.min_request_rate,
                        ByteSize::new(most),
                        worth.value(most as f64),
                    );
                    unmet.push(Unmet { pool: i, reason });
                }
            }
        }
        wanted.sort_by(|a, b| {
            pools[b.0].weight.total_cmp(&pools[a.0].weight).then(a.1.cmp(&b.1)).then(a.0.cmp(&b.0))
        });
        let mut left = self.view.memory.saturating_sub(least);
        let mut kept = Vec::new();
        for (i, bytes) in wanted {
            let more = bytes.saturating_sub(floors[i].bytes);
            if more <= left {
                left -= more;
                kept.push(i);
                continue;
            }
            let reason = format!(
                "{} needs {} for the {:.0} requests per second that it was promised; beside the promises to others and the \
                 floors there are {}",
                pools[i].name,
                ByteSize::new(bytes),
                pools[i].min_request_rate,
                ByteSize::new(floors[i].bytes + left),
            );
            unmet.push(Unmet { pool: i, reason });
        }
        (kept, unmet)
    }

    /// The largest of several margins that takes at most half of the memory which promises leave
    /// free, so that the rest still serves the objective.
    fn margin(&self, floors: &[Need], kept: &[usize]) -> f64 {
        let needed = |margin: f64| -> Option<u64> {
            kept.iter()
                .map(|&i| {
                    let bytes = self.size_for(i, self.view.pools[i].min_request_rate * (1.0 + margin))?;
                    Some(bytes.saturating_sub(floors[i].bytes))
                })
                .sum()
        };
        let least: u64 = floors.iter().map(|need| need.bytes).sum();
        let bare = needed(0.0).unwrap_or(0);
        let free = self.view.memory.saturating_sub(least + bare);
        let margins = [1.0, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1].map(|share| share * self.options.margin);
        margins
            .into_iter()
            .find(|&margin| needed(margin).is_some_and(|bytes| bytes <= bare + free / 2))
            .unwrap_or(0.0)
    }

    /// The largest size of a pool.
    fn most(&self, i: usize) -> u64 {
        self.view.pools[i].ceiling.min(self.view.memory)
    }

    /// The least size at which a pool's curve gives `throughput` requests per second.
    fn size_for(&self, i: usize, throughput: f64) -> Option<u64> {
        self.promised[i].as_ref()?.least_size(throughput, self.most(i))
    }
}
