//! Queues whose sizes and splits follow curves that are learnt while they serve: SHARDS for each
//! queue, memory by the hulls of all, and each queue split on its hull by Talus. It sees cliffs at
//! any distance, and any number of them.

use allocate::dynacache;
use allocate::talus::{Split, Talus};
use allocate::{Pool, View};
use base::hash::mix64;
use curve::{Estimator, Kind, MissRatioCurve, Shards, Unit};

use super::cache::{QueueCache, QueueConfig, Splitting};

/// The settings for learning and following curves.
#[derive(Clone, Copy, Debug)]
pub struct CurveRules {
    /// Keys that SHARDS follows for each queue. Default 8192.
    pub sampled_keys: usize,
    /// Requests between decisions. Default 100,000.
    pub period: u64,
    /// True if queues are split on their hulls (Talus); if false, memory goes by hulls that the
    /// queues do not reach (Dynacache). Default true.
    pub splits: bool,
    /// The margin of splits: 0.05 in Talus. Default 0.02.
    pub margin: f64,
    /// True if memory moves between queues. Default true.
    pub moves: bool,
}

impl Default for CurveRules {
    fn default() -> Self {
        Self { sampled_keys: 8192, period: 100_000, splits: true, margin: 0.02, moves: true }
    }
}

/// A cache that is steered by curves.
#[derive(Clone, Debug)]
pub struct ByCurves {
    cache: QueueCache,
    queues: Vec<QueueConfig>,
    sizes: Vec<u64>,
    curves: Vec<Shards>,
    asked: Vec<u64>,
    rules: CurveRules,
    requests: u64,
}

impl ByCurves {
    /// Queues with these sizes at first.
    pub fn new(queues: impl IntoIterator<Item = QueueConfig>, rules: CurveRules) -> Self {
        let whole = |queue: QueueConfig| {
            let splitting = Splitting::Told(Split::whole(queue.size / queue.item_size));
            QueueConfig { splitting, ..queue }
        };
        let queues: Vec<QueueConfig> = queues.into_iter().map(whole).collect();
        Self {
            cache: QueueCache::new(queues.iter().copied()),
            sizes: queues.iter().map(|queue| queue.size).collect(),
            curves: queues.iter().map(|_| Shards::fixed_size(Unit::Items, rules.sampled_keys)).collect(),
            asked: vec![0; queues.len()],
            queues,
            rules,
            requests: 0,
        }
    }

    /// Asks `queue` for `key`, which is there then. True on a hit.
    pub fn access(&mut self, queue: usize, key: u64) -> bool {
        self.curves[queue].record(mix64(key ^ (queue as u64) << 48), 1, Kind::Read);
        self.asked[queue] += 1;
        self.requests += 1;
        if self.requests.is_multiple_of(self.rules.period) {
            self.decide();
        }
        self.cache.access(queue, key)
    }

    /// The queues as they are.
    pub fn cache(&self) -> &QueueCache {
        &self.cache
    }

    fn decide(&mut self) {
        let curves: Vec<MissRatioCurve> = self.curves.iter().map(Estimator::curve).collect();
        if self.rules.moves && self.queues.len() > 1 {
            self.sizes = self.best_sizes(&curves);
        }
        for (i, curve) in curves.into_iter().enumerate() {
            let items = self.sizes[i] / self.queues[i].item_size;
            let split = if self.rules.splits {
                Talus::new(curve, self.rules.margin).split(items)
            } else {
                Split::whole(items)
            };
            self.cache.steer(i, split);
        }
    }

    /// Memory by hulls, in the unit of the sizes.
    fn best_sizes(&self, curves: &[MissRatioCurve]) -> Vec<u64> {
        let pools = self.queues.iter().zip(curves).zip(&self.asked).zip(&self.sizes);
        let pools = pools.map(|(((queue, curve), &asked), &size)| {
            let curve = curve.scaled(Unit::Bytes, queue.item_size as f64);
            let mut pool = Pool::new("queue", curve, size);
            (pool.request_rate, pool.floor) = (asked as f64, queue.least.min(queue.size));
            pool
        });
        let view = View { memory: self.sizes.iter().sum(), pools: pools.collect(), ..View::default() };
        dynacache::solve(&view).iter().map(|grant| grant.memory).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::distances::Profile;
    use super::*;

    #[test]
    fn it_learns_a_cliff_and_splits_the_queue_on_it() {
        let mut cache = ByCurves::new([QueueConfig::items(8000)], CurveRules::default());
        let keys: Vec<u64> = Profile::one_cliff().requests(9).take(300_000).collect();
        let hits = keys.iter().enumerate().filter(|(i, key)| cache.access(0, **key) && *i >= 200_000).count();
        let split = cache.cache().split(0).split();
        let (left, right) = split.simulated();
        assert!((1000.0..3500.0).contains(&left.unwrap()), "{split:?}");
        assert!((12_000.0..16_000.0).contains(&right.unwrap()), "{split:?}");
        assert!(hits > 54_000, "{hits} of 100,000; LRU has 47,250");
        cache.cache().validate();
    }
}
