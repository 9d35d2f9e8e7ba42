//! The optimizer: limits move from pool to pool by marginal hits.

use std::collections::BTreeMap;

use allocate::marginal::Ranks;

use super::marginal_hits::MarginalHits;
use super::view::{Counts, PoolView};

/// The configuration of moves of limits between pools.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// The weight of the old average rank. Default 0.3.
    pub moving_average: f64,
    /// A receiver has less free memory than this many slabs, in its classes and unassigned. Default
    /// 2.
    pub max_free_slabs: u64,
    /// Least difference of tail hits in the round. Default 10; CacheLib: none.
    pub min_difference: u64,
    /// Least difference of tail hits in the round, as a part of the receiver's. Default 0.1;
    /// CacheLib: none.
    pub min_difference_ratio: f64,
    /// Rounds for which a receiver cannot be a victim. Default 10; CacheLib: none.
    pub hold_off_rounds: u32,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            moving_average: 0.3,
            max_free_slabs: 2,
            min_difference: 10,
            min_difference_ratio: 0.1,
            hold_off_rounds: 10,
        }
    }
}

/// A part of a pool's limit that should go to another pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitMove {
    /// The pool whose limit is lowered.
    pub victim: u16,
    /// The pool whose limit is raised.
    pub receiver: u16,
    /// The amount: one slab, in bytes.
    pub bytes: u64,
    /// The reason, for people.
    pub reason: String,
}

/// Moves a slab's worth of limit per round from the pool that loses least to the one that gains
/// most.
///
/// A pool's score is the largest number of tail hits in the round of any of its classes, as a
/// further slab would go to that class. Ranks are smoothed as in [`MarginalHits`]. A victim evicts
/// and has more than one slab; a receiver has little free memory.
#[derive(Clone, Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    last: Option<BTreeMap<(u16, u8), Counts>>,
    ranks: Ranks<u16>,
    hold_off: BTreeMap<u16, u32>,
}

/// A pool in one round.
struct Scored<'p> {
    pool: &'p PoolView,
    tail_hits: u64,
    evictions: u64,
    rank: f64,
}

impl Optimizer {
    /// Creates an optimizer without history.
    pub fn new(config: OptimizerConfig) -> Self {
        Self { config, last: None, ranks: Ranks::default(), hold_off: BTreeMap::new() }
    }

    /// One round over the pools whose limits may change: the limit that should move now, if any.
    /// The first call only records their counts.
    pub fn decide(&mut self, pools: &[PoolView]) -> Option<LimitMove> {
        let now = pools
            .iter()
            .flat_map(|pool| pool.classes.iter().map(|class| ((pool.number, class.number), class.counts)));
        let last = self.last.replace(now.collect())?;
        let mut scored: Vec<_> = pools.iter().map(|pool| score(pool, &last)).collect();
        let scores = scored.iter().map(|scored| (scored.pool.number, scored.tail_hits)).collect();
        self.ranks.update(scores, self.config.moving_average);
        for scored in &mut scored {
            scored.rank = self.ranks.of(scored.pool.number);
        }
        let decided = self.pick(&scored);
        self.hold_off.retain(|_, rounds| {
            *rounds -= 1;
            *rounds > 0
        });
        if let Some(decided) = &decided
            && self.config.hold_off_rounds > 0
        {
            self.hold_off.insert(decided.receiver, self.config.hold_off_rounds);
        }
        decided
    }

    fn pick(&self, pools: &[Scored<'_>]) -> Option<LimitMove> {
        let may_give = |scored: &&Scored<'_>| {
            scored.evictions > 0
                && scored.pool.slabs() > 1
                && !self.hold_off.contains_key(&scored.pool.number)
        };
        let victim = pools.iter().filter(may_give).reduce(|a, b| if b.rank < a.rank { b } else { a })?;
        let may_take = |scored: &&Scored<'_>| {
            let free = scored.pool.classes.iter().map(|class| class.free_bytes());
            let in_classes = free.fold(0_u64, u64::saturating_add);
            let step = scored.pool.step_bytes();
            in_classes.saturating_add(scored.pool.free_slabs.saturating_mul(step))
                < self.config.max_free_slabs.saturating_mul(step)
                && scored.pool.number != victim.pool.number
        };
        let receiver = pools.iter().filter(may_take).reduce(|a, b| if b.rank > a.rank { b } else { a })?;
        let thresholds = MarginalHits {
            min_difference: self.config.min_difference,
            min_difference_ratio: self.config.min_difference_ratio,
            ..MarginalHits::default()
        };
        let is_enough =
            receiver.rank > victim.rank && thresholds.is_enough(victim.tail_hits, receiver.tail_hits);
        is_enough.then(|| LimitMove {
            victim: victim.pool.number,
            receiver: receiver.pool.number,
            bytes: victim.pool.step_bytes(),
            reason: format!(
                "pool {} has {} hits in its last slab, and pool {} has {}",
                victim.pool.number, victim.tail_hits, receiver.pool.number, receiver.tail_hits
            ),
        })
    }
}

fn score<'p>(pool: &'p PoolView, last: &BTreeMap<(u16, u8), Counts>) -> Scored<'p> {
    let deltas = pool
        .classes
        .iter()
        .map(|class| class.counts.since(last.get(&(pool.number, class.number)).copied().unwrap_or_default()));
    let mut scored = Scored { pool, tail_hits: 0, evictions: 0, rank: 0.0 };
    for delta in deltas {
        scored.tail_hits = scored.tail_hits.max(delta.tail_hits);
        scored.evictions = scored.evictions.saturating_add(delta.evictions);
    }
    scored
}
