//! The choice of the class that gives a slab and the class that gets it: rebalancing within a pool,
//! resizing, and limits between pools, as plain values.
//!
//! Slabs go to the classes that ask first. When sizes or popularity change, the slabs are in the
//! wrong classes (*slab calcification*; Cidon et al., "Cliffhanger", NSDI 2016, section 2). A
//! strategy receives a view of a pool, about once a second, and decides which class gives a slab
//! and which class gets it, with the reason in words. It moves nothing itself; the owner of the
//! pool does, one slab per pool and round; in a pool below 64 MiB, a sixteenth of a slab.
//!
//! The strategies, their formulas, thresholds and defaults are those of CacheLib (Berg et al., OSDI
//! 2020, section 4.2, and its sources as of 2026), but for hill climbing, which is Cliffhanger's,
//! and clear gain, which is Millpond's own; `docs/rebalancing.md` lists them. The differences:
//! marginal hits has a threshold and a hold-off (CacheLib's moves a slab each round for ever, and
//! [`MarginalHits::as_in_cachelib`] does too), ties share one rank, a class is never its own
//! victim, and if every class evicts there is no victim by free memory.
//!
//! What must hold:
//! 1. No lock, clock, thread or I/O. Random choices come from a seed.
//! 2. A victim has slabs and is not the receiver; the last slab of a class is taken only for
//!    resizing.
//! 3. The first round of a pool only records counts, as there are none to compare with. The
//!    exception is [`Rebalancer::of_a_new_pool`].
//!
//! ```
//! use millpond_rebalance::strategy::{ClassView, Counts, PoolView, Rebalancer, Strategy, TailAge};
//!
//! let class = |number, slabs, tail_age_secs, evictions| ClassView {
//!     number,
//!     chunk_bytes: 1024 << number,
//!     slabs,
//!     tail_age_secs: Some(tail_age_secs),
//!     counts: Counts { evictions, ..Counts::default() },
//!     ..ClassView::default()
//! };
//! let pool = |evictions| PoolView {
//!     classes: vec![class(0, 9, 3_600, evictions), class(1, 2, 60, evictions)],
//!     is_full: true,
//!     ..PoolView::default()
//! };
//! let mut rebalancer = Rebalancer::new(Strategy::TailAge(TailAge::default()));
//! assert!(rebalancer.decide(&pool(0)).is_none());
//! let decided = rebalancer.decide(&pool(50)).expect("class 1 evicts what is 59 minutes younger");
//! assert_eq!((decided.victim, decided.receiver), (0, Some(1)));
//! ```

mod clear_gain;
mod credits;
mod earnings;
mod failures;
mod free_memory;
mod hill_climbing;
mod hits_per_slab;
mod manual;
mod marginal_hits;
mod optimizer;
mod random;
mod resizer;
mod tail_age;
mod view;

use allocate::marginal::Ranks;
use base::rng::{SeededRng, seeded};

pub use clear_gain::ClearGain;
use credits::Credits;
use earnings::Earnings;
pub use failures::VictimRule;
pub use free_memory::FreeMemory;
pub use hill_climbing::HillClimbing;
pub use hits_per_slab::HitsPerSlab;
pub use manual::Manual;
pub use marginal_hits::MarginalHits;
pub use optimizer::{LimitMove, Optimizer, OptimizerConfig};
pub use random::Random;
pub use resizer::{PoolSize, Shrink, resize};
pub use tail_age::TailAge;
pub use view::{ClassView, Counts, PoolView};
use view::{History, Round};

/// A slab that should move, or in a pool below 64 MiB a sixteenth of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The class that gives it.
    pub victim: u8,
    /// The class that gets it; `None` = it goes back to the pool.
    pub receiver: Option<u8>,
    /// The reason, for people.
    pub reason: String,
}

/// The strategy for rebalancing a pool's slabs.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Moves slabs only to classes whose allocations fail.
    OnFailures,
    /// Moves slabs from classes that hardly use them to those that would: the default.
    ClearGain(ClearGain),
    /// Evens out the age of evicted items.
    TailAge(TailAge),
    /// Moves slabs toward the classes with most hits per slab.
    HitsPerSlab(HitsPerSlab),
    /// Moves slabs toward the classes with most hits in their last slab.
    MarginalHits(MarginalHits),
    /// Moves slabs toward the classes whose shadow queues are hit most.
    HillClimbing(HillClimbing),
    /// Takes slabs from classes with much free memory.
    FreeMemory(FreeMemory),
    /// Moves slabs from any class to any other.
    Random(Random),
    /// Moves slabs toward given numbers per class.
    Manual(Manual),
}

impl Default for Strategy {
    fn default() -> Self {
        Self::ClearGain(ClearGain::default())
    }
}

impl Strategy {
    /// The name, as in a configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OnFailures => "base",
            Self::ClearGain(_) => "clear-gain",
            Self::TailAge(_) => "tail-age",
            Self::HitsPerSlab(_) => "hits-per-slab",
            Self::MarginalHits(_) => "marginal-hits",
            Self::HillClimbing(_) => "hill-climbing",
            Self::FreeMemory(_) => "free-memory",
            Self::Random(_) => "random",
            Self::Manual(_) => "manual",
        }
    }

    /// All names except that of the manual strategy, which needs numbers.
    pub const NAMES: [&'static str; 8] = [
        "base",
        "clear-gain",
        "tail-age",
        "hits-per-slab",
        "marginal-hits",
        "hill-climbing",
        "free-memory",
        "random",
    ];

    /// The strategy of this name with its defaults.
    ///
    /// # Errors
    /// A text with the valid names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        Ok(match name {
            "base" => Self::OnFailures,
            "clear-gain" => Self::ClearGain(ClearGain::default()),
            "tail-age" => Self::TailAge(TailAge::default()),
            "hits-per-slab" => Self::HitsPerSlab(HitsPerSlab::default()),
            "marginal-hits" => Self::MarginalHits(MarginalHits::default()),
            "hill-climbing" => Self::HillClimbing(HillClimbing::default()),
            "free-memory" => Self::FreeMemory(FreeMemory::default()),
            "random" => Self::Random(Random::default()),
            _ => {
                return Err(format!(
                    "`{name}` is not a rebalancing strategy: use one of {}",
                    Self::NAMES.join(", ")
                ));
            }
        })
    }

    /// Returns whether it goes by hits in shadow queues, which somebody must keep then.
    pub fn needs_shadows(&self) -> bool {
        matches!(self, Self::HillClimbing(_))
    }

    /// Rounds for which a class that has received a slab cannot be a victim.
    fn hold_off_rounds(&self) -> u32 {
        match self {
            Self::TailAge(_) | Self::HitsPerSlab(_) => view::HOLD_OFF_ROUNDS,
            Self::MarginalHits(config) => config.hold_off_rounds,
            Self::ClearGain(config) => config.hold_off_rounds,
            _ => 0,
        }
    }
}

/// A strategy applied to one pool, with the counts of the last round and the recent receivers.
#[derive(Clone, Debug)]
pub struct Rebalancer {
    strategy: Strategy,
    victim_rule: VictimRule,
    history: History,
    /// The history before the last move was decided.
    before: Option<Box<(History, Credits, Earnings)>>,
    ranks: Ranks<u16>,
    credits: Credits,
    earnings: Earnings,
    has_left_out: bool,
    rng: SeededRng,
}

impl Rebalancer {
    /// Creates a rebalancer. If allocations fail and the strategy has no victim, the class with
    /// most slabs gives one.
    pub fn new(strategy: Strategy) -> Self {
        Self::with(strategy, VictimRule::default(), 0)
    }

    /// The same with a given rule for victims, and a given seed for random choices.
    pub fn with(strategy: Strategy, victim_rule: VictimRule, seed: u64) -> Self {
        Self {
            strategy,
            victim_rule,
            history: History::default(),
            before: None,
            ranks: Ranks::default(),
            credits: Credits::default(),
            earnings: Earnings::default(),
            has_left_out: false,
            rng: seeded(seed),
        }
    }

    /// Prepares for a new pool: under [`Strategy::OnFailures`] and [`Strategy::ClearGain`], the
    /// first round already counts what happened before it. No effect under other strategies.
    #[must_use]
    pub fn of_a_new_pool(mut self) -> Self {
        if matches!(self.strategy, Strategy::OnFailures | Strategy::ClearGain(_)) {
            self.history.end(&PoolView::default(), true);
        }
        self
    }

    /// The strategy.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Returns whether a pool with this many classes can have a move. If not, the round may be left
    /// out: what happens until the next one counts for allocations that fail alone.
    pub fn has_choice(&mut self, classes: usize) -> bool {
        let has_choice = classes > 1 || matches!(self.strategy, Strategy::FreeMemory(_));
        self.has_left_out |= !has_choice;
        has_choice
    }

    /// Changes the strategy. The history is kept, and nothing is owed.
    pub fn set_strategy(&mut self, strategy: Strategy) {
        if strategy.name() != self.strategy.name() {
            self.credits = Credits::default();
            self.earnings = Earnings::default();
            self.before = None;
        }
        self.strategy = strategy;
    }

    /// One round: the slab that should move now, if any. `pool` carries counts since the pool was
    /// made; the first call only records them. The move is assumed to be executed, unless
    /// [`Self::failed`] is called. Classes whose allocations fail come first, under every strategy.
    pub fn decide(&mut self, pool: &PoolView) -> Option<Move> {
        let before = (self.credits.clone(), self.earnings.clone());
        let round = self.begin(pool)?;
        let decided = self.for_failures(&round).or_else(|| self.by_strategy(&round));
        let resets_hits = matches!(&self.strategy, Strategy::HitsPerSlab(config) if config.reset_hits_always);
        self.before = decided.is_some().then(|| Box::new((self.history.clone(), before.0, before.1)));
        self.history.end(pool, decided.is_some() || resets_hits);
        if let Some(Move { victim, receiver: Some(receiver), .. }) = decided {
            self.history.hold_off(receiver, self.strategy.hold_off_rounds());
            if self.strategy.needs_shadows() {
                self.credits.pay(victim, receiver);
            }
            self.earnings.forget_half();
        }
        decided
    }

    /// Reports that the last move was not executed, for instance because items of the slab are
    /// held. No class has received a slab, so none is held off, and the counts of that round are
    /// added to the next one.
    pub fn failed(&mut self) {
        if let Some(before) = self.before.take() {
            (self.history, self.credits, self.earnings) = *before;
        }
    }

    /// The class of a pool over its limit that should give a slab. Even a class's only slab may be
    /// taken.
    pub fn victim_for_resizing(&mut self, pool: &PoolView) -> Option<Move> {
        let by_strategy = match self.history.peek(pool) {
            Some(round) => self.victim(&round, None),
            None => None,
        };
        let (victim, why) = by_strategy.or_else(|| failures::most_slabs(&pool.classes, None, 1))?;
        Some(Move { victim, receiver: None, reason: format!("the pool is over its limit, and {why}") })
    }

    fn begin(&mut self, pool: &PoolView) -> Option<Round> {
        let round = self.history.begin(pool)?;
        if std::mem::take(&mut self.has_left_out) {
            // These are the counts of all rounds that were left out.
            return Some(round);
        }
        if let Strategy::HillClimbing(config) = &self.strategy {
            self.credits.add(&round, config.hits_per_slab);
        }
        if let Strategy::ClearGain(_) = &self.strategy {
            self.earnings.add(&round);
        }
        if let Strategy::MarginalHits(config) = &self.strategy {
            let scores = round.classes.iter().map(|class| (u16::from(class.number), class.counts.tail_hits));
            self.ranks.update(scores.collect(), config.moving_average);
        }
        Some(round)
    }

    /// A slab for the class whose allocations fail most.
    fn for_failures(&mut self, round: &Round) -> Option<Move> {
        let receiver = failures::receiver(&round.classes)?;
        let Self { victim_rule, rng, .. } = self;
        let rule = victim_rule.clone();
        let fallback = rule.pick(&round.classes, receiver.number, rng);
        let (victim, why) = self.victim(round, Some(receiver.number)).or(fallback)?;
        let failed = receiver.counts.allocation_failures;
        let reason = format!("{failed} allocations of {receiver} failed, and {why}");
        Some(Move { victim, receiver: Some(receiver.number), reason })
    }

    /// The strategy's own victim, with the reason.
    fn victim(&mut self, round: &Round, except: Option<u8>) -> Option<(u8, String)> {
        match &self.strategy {
            Strategy::OnFailures => None,
            Strategy::ClearGain(config) => config.victim(round, &self.earnings, except),
            Strategy::TailAge(config) => config.victim(round, except),
            Strategy::HitsPerSlab(config) => config.victim(round, except),
            Strategy::MarginalHits(config) => config.victim(round, &self.ranks, except),
            Strategy::HillClimbing(config) => config.victim(round, &self.credits, except),
            Strategy::FreeMemory(config) => config.victim(round, except),
            Strategy::Random(config) => config.victim(round, except, &mut self.rng),
            Strategy::Manual(config) => config.victim(round, except),
        }
        .map(|(class, why)| (class.number, why))
    }

    fn by_strategy(&mut self, round: &Round) -> Option<Move> {
        match &self.strategy {
            Strategy::OnFailures => None,
            Strategy::ClearGain(config) => config.pick(round, &self.earnings),
            Strategy::TailAge(config) => config.pick(round),
            Strategy::HitsPerSlab(config) => config.pick(round),
            Strategy::MarginalHits(config) => config.pick(round, &self.ranks),
            Strategy::HillClimbing(config) => config.pick(round, &self.credits),
            Strategy::FreeMemory(config) => config.pick(round),
            Strategy::Random(config) => config.pick(round, &mut self.rng),
            Strategy::Manual(config) => config.pick(round),
        }
    }
}
