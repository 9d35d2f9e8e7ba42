//! A cache of several LRU queues, between which memory moves by hill climbing, and each of which
//! may be split on its cliff.

use allocate::cliffhanger::{CliffConfig, Edge, Form, HillClimber, Queue, Side, Slope, SplitQueue};
use allocate::talus::Split;
use base::hash::mix64;

use super::queue::{LruQueue, Place};

/// The way in which a queue is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Splitting {
    /// Not at all: LRU.
    Whole,
    /// As directed, at first and by [`QueueCache::steer`]: Talus.
    Told(Split),
    /// As hits at the edges of its partitions say: Cliffhanger's cliff scaling.
    ByHits(CliffConfig),
}

/// The settings of a queue at its creation.
#[derive(Clone, Copy, Debug)]
pub struct QueueConfig {
    /// Its size, in units of memory.
    pub size: u64,
    /// Units of memory per item: 1 if sizes are in items, a chunk if they are in bytes.
    pub item_size: u64,
    /// It never has less memory.
    pub least: u64,
    /// The memory that the long shadow stands for, which hill climbing goes by. Default 0.
    pub shadow: u64,
    /// Way in which the queue is split.
    pub splitting: Splitting,
    /// True if hill climbing in a split queue goes by the slope between the pointers ([`Slope`]),
    /// rather than by the long shadow as in the paper. Default true; without cliff scaling it makes
    /// no difference.
    pub by_slope: bool,
}

impl QueueConfig {
    /// A queue of `size` items that is not split, with room for at least 128 of them.
    pub fn items(size: u64) -> Self {
        Self { size, item_size: 1, least: 128, shadow: 0, splitting: Splitting::Whole, by_slope: true }
    }

    /// The same with cliff scaling.
    #[must_use]
    pub fn scaled(self, config: CliffConfig) -> Self {
        Self { splitting: Splitting::ByHits(config), ..self }
    }

    /// The same with a long shadow of this much memory.
    #[must_use]
    pub fn shadowed(self, shadow: u64) -> Self {
        Self { shadow, ..self }
    }
}

#[derive(Clone, Debug)]
struct Part {
    queue: LruQueue,
    split: SplitQueue,
    splitting: Splitting,
    item_size: u64,
    /// Keys in the long shadow.
    shadow: u64,
    /// The substitute for hits in the long shadow while the queue is split.
    slope: Option<Slope>,
}

impl Part {
    fn new(config: &QueueConfig) -> Self {
        let items = config.size / config.item_size;
        let (by_hits, window, rules) = match config.splitting {
            Splitting::ByHits(rules) => (true, rules.window, rules),
            Splitting::Whole | Splitting::Told(_) => (false, 0, CliffConfig::default()),
        };
        let mut split = SplitQueue::new(items, rules);
        if let Splitting::Told(told) = config.splitting {
            split.steer(told);
        }
        let mut part = Self {
            queue: LruQueue::new(window),
            split,
            splitting: config.splitting,
            item_size: config.item_size,
            shadow: config.shadow / config.item_size,
            slope: (config.by_slope && by_hits).then(Slope::default),
        };
        part.share_shadow();
        part
    }

    /// Returns whether the key was there, and how many hits in the long shadow the access counts
    /// as.
    fn access(&mut self, key: u64) -> (bool, u32) {
        let side = self.side_of(key);
        let found = self.queue.access(self.id_of(key, side), side);
        let edge = match found {
            // Before the queue is full there is nothing behind its oldest items.
            Some((from, Place::Tail)) if self.is_full() => Some((from, Edge::Tail)),
            Some((from, Place::Near)) => Some((from, Edge::Shadow)),
            _ => None,
        };
        if let Some((from, edge)) = edge
            && matches!(self.splitting, Splitting::ByHits(_))
            && self.split.watches(mix64(key))
            && self.split.update_pointers(from, edge).is_some()
        {
            self.share_shadow();
        }
        let is_hit = matches!(found, Some((_, Place::Body | Place::Tail)));
        if !is_hit {
            self.trim();
        }
        let slope = self.slope.as_mut();
        let by_slope = slope.and_then(|slope| slope.on_request(&self.split, side, is_hit, self.shadow));
        (is_hit, by_slope.unwrap_or_else(|| u32::from(matches!(found, Some((_, Place::Far))))))
    }

    fn side_of(&self, key: u64) -> Side {
        match self.splitting {
            Splitting::Whole => Side::Right,
            Splitting::Told(_) | Splitting::ByHits(_) => self.split.route(key),
        }
    }

    /// Under which name a key is looked up: under the printed rules only in the partition that it
    /// belongs to at present.
    fn id_of(&self, key: u64, side: Side) -> u64 {
        match self.splitting {
            Splitting::ByHits(CliffConfig { form: Form::Printed, .. }) if side == Side::Left => !key,
            _ => key,
        }
    }

    fn items(&self) -> u64 {
        match self.splitting {
            Splitting::Whole => self.split.size(),
            Splitting::Told(_) | Splitting::ByHits(_) => {
                self.split.size_of(Side::Left) + self.split.size_of(Side::Right)
            }
        }
    }

    fn is_full(&self) -> bool {
        self.queue.len() >= self.items()
    }

    /// Evicts the excess, from the partition that exceeds its size by most.
    fn trim(&mut self) {
        while self.queue.len() > self.items() {
            let over = |side| self.queue.len_of(side) as i64 - self.split.size_of(side) as i64;
            let whole = self.splitting == Splitting::Whole;
            let side = if whole || over(Side::Right) >= over(Side::Left) { Side::Right } else { Side::Left };
            if self.queue.evict(side).is_none() {
                break;
            }
        }
    }

    /// The long shadow is behind both partitions, in proportion to their sizes.
    fn share_shadow(&mut self) {
        if self.splitting == Splitting::Whole {
            self.queue.set_far(Side::Right, self.shadow);
            return;
        }
        let items = self.items().max(1);
        for side in [Side::Left, Side::Right] {
            self.queue.set_far(side, self.shadow * self.split.size_of(side) / items);
        }
    }

    fn resize(&mut self, size: u64) {
        self.split.resize(size / self.item_size);
        self.share_shadow();
    }
}

/// Several queues that share a memory.
#[derive(Clone, Debug)]
pub struct QueueCache {
    parts: Vec<Part>,
    hills: Option<HillClimber>,
}

impl QueueCache {
    /// Queues of fixed sizes.
    pub fn new(queues: impl IntoIterator<Item = QueueConfig>) -> Self {
        Self { parts: queues.into_iter().map(|config| Part::new(&config)).collect(), hills: None }
    }

    /// Queues between which memory moves at hits in their long shadows, by `credit` units in pages
    /// of `page`.
    pub fn climbing(
        queues: impl IntoIterator<Item = QueueConfig>,
        credit: u64,
        page: u64,
        seed: u64,
    ) -> Self {
        let queues: Vec<QueueConfig> = queues.into_iter().collect();
        let sizes = queues.iter().map(|queue| Queue::new(queue.size, queue.least.min(queue.size)));
        let hills = HillClimber::new(sizes, credit, page, seed);
        Self { hills: Some(hills), ..Self::new(queues) }
    }

    /// Asks `queue` for `key`, which is there then. True on a hit.
    pub fn access(&mut self, queue: usize, key: u64) -> bool {
        let (is_hit, in_shadow) = self.parts[queue].access(key);
        for _ in 0..in_shadow {
            let Some(hills) = &mut self.hills else { break };
            let Some(moved) = hills.on_shadow_hit(queue) else { continue };
            for changed in [moved.from, moved.to] {
                self.parts[changed].resize(hills.size(changed));
            }
            // Moved memory must be free; a queue that never misses would not give it back by
            // itself.
            self.parts[moved.from].trim();
        }
        is_hit
    }

    /// Returns the number of items that each queue may have.
    pub fn items(&self) -> Vec<u64> {
        self.parts.iter().map(Part::items).collect()
    }

    /// The partitions of a queue.
    pub fn split(&self, queue: usize) -> &SplitQueue {
        &self.parts[queue].split
    }

    /// Returns the number of items in a queue.
    pub fn len_of(&self, queue: usize) -> u64 {
        self.parts[queue].queue.len()
    }

    /// Gives a queue another size and split, and evicts the excess.
    pub fn steer(&mut self, queue: usize, split: Split) {
        let part = &mut self.parts[queue];
        part.split.steer(split);
        part.share_shadow();
        part.trim();
    }

    /// Checks that every queue is whole; for tests.
    ///
    /// # Panics
    /// If one is not.
    pub fn validate(&self) {
        for part in &self.parts {
            part.queue.validate();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::distances::Profile;
    use super::*;

    fn ratio(cache: &mut QueueCache, requests: usize, seed: u64) -> f64 {
        let keys = Profile::one_cliff().requests(seed).take(requests);
        let hits: Vec<bool> = keys.map(|key| cache.access(0, key)).collect();
        let second_half = &hits[requests / 2..];
        second_half.iter().filter(|hit| **hit).count() as f64 / second_half.len() as f64
    }

    #[test]
    fn lru_and_talus_have_the_ratios_of_the_curve_and_of_its_hull() {
        let seed = 3;
        let mut lru = QueueCache::new([QueueConfig::items(8000)]);
        let hits = ratio(&mut lru, 200_000, seed);
        assert!((hits - 0.4725).abs() < 0.01, "{hits}");
        let split = Split::between(2000.0, 13_500.0, 8000);
        let told = QueueConfig { splitting: Splitting::Told(split), ..QueueConfig::items(8000) };
        let hits = ratio(&mut QueueCache::new([told]), 200_000, seed);
        assert!((hits - 0.585).abs() < 0.012, "{hits}");
        let halves =
            QueueConfig { splitting: Splitting::Told(Split::half(8000)), ..QueueConfig::items(8000) };
        let hits = ratio(&mut QueueCache::new([halves]), 200_000, seed);
        assert!((hits - 0.4725).abs() < 0.012, "two halves do as one queue does: {hits}");
    }

    #[test]
    fn a_split_queue_never_holds_more_than_its_size() {
        let mut cache = QueueCache::new([
            QueueConfig::items(8000).scaled(CliffConfig { credit: Some(64), ..CliffConfig::default() })
        ]);
        for (i, key) in Profile::one_cliff().requests(4).take(120_000).enumerate() {
            cache.access(0, key);
            assert!(cache.len_of(0) <= 8000);
            assert_eq!(cache.items(), [8000]);
            if i % 20_000 == 0 {
                cache.validate();
            }
        }
        let (left, right) = cache.split(0).pointers();
        assert!(left < 8000 && right > 8000, "it looks for the cliff: {left}, {right}");
    }

    #[test]
    fn memory_moves_to_the_queue_whose_shadow_is_hit() {
        let queues = [QueueConfig::items(3000).shadowed(500); 2];
        let mut cache = QueueCache::climbing(queues, 8, 8, 1);
        for (i, key) in Profile::one_cliff().requests(4).take(100_000).enumerate() {
            cache.access(0, key);
            // The second queue has one key.
            cache.access(1, (i % 2) as u64);
        }
        assert_eq!(cache.items(), [5872, 128]);
        assert_eq!(cache.len_of(1), 2);
        cache.validate();
    }

    /// A queue that holds all that it is asked for never misses; it gives its memory away all the
    /// same.
    #[test]
    fn what_moves_is_free() {
        let queues = [QueueConfig::items(3000).shadowed(500); 2];
        let mut cache = QueueCache::climbing(queues, 8, 8, 1);
        (0..3000).for_each(|key| assert!(!cache.access(1, key)));
        for (i, key) in Profile::one_cliff().requests(4).take(100_000).enumerate() {
            cache.access(0, key);
            // The newest keys only: the second queue does not miss.
            assert!(cache.access(1, 2900 + (i % 100) as u64));
            assert!(cache.len_of(1) <= cache.items()[1]);
        }
        assert_eq!(cache.items(), [5872, 128]);
    }
}
