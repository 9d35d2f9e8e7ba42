//! Hill climbing between queues: Algorithm 1 of Cliffhanger (NSDI '16, section 4.1).
//!
//! A hit in a queue's shadow means that the queue would have hit with a little more memory. The
//! frequency of shadow hits is proportional to the slope of the hit-rate curve, so a queue that
//! gets a credit for each of its own shadow hits and pays for those of others grows until all
//! curves are equally steep. That is the optimum if the curves are concave.
//!
//! Algorithm 1's lines: the request that is in `shadowQueue(i)` (line 1) is
//! [`HillClimber::on_shadow_hit`]; there `queue(i)` gets its credit (line 2), `pick_random` chooses
//! the queue that pays (line 3), and the credits of that queue go down (line 4). "Once a queue
//! reaches a certain amount of credits, it is allocated additional memory at the expense of another
//! queue": `pay_out`. So a size changes by whole pages, while the printed lines add the credit to
//! it.
//!
//! Cases that the paper leaves open: a queue that would fall below its least size is not chosen to
//! pay, and another one is; a queue at its largest size earns nothing; credits become memory by
//! whole pages, from the queue that owes most.
//!
//! Invariants:
//! 1. Balances of credits add up to 0, so the sum of the sizes never changes.
//! 2. No queue is below its least size or above its largest, including the credits that it owes or
//!    has earned.

use base::rng::{RngExt, SeededRng, seeded};

/// One of the queues between which memory moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The present size.
    pub size: u64,
    /// The least size. The paper has none; 128 items keep a queue measurable.
    pub least: u64,
    /// The largest size.
    pub most: u64,
    /// The weight of a hit of this queue, relative to the other queues (`w` in the paper's equation
    /// 1). Default 1.
    pub weight: f64,
}

impl Queue {
    /// Creates a queue of this size that may not fall below `least`.
    pub fn new(size: u64, least: u64) -> Self {
        Self { size, least, most: u64::MAX, weight: 1.0 }
    }
}

/// Memory that moves from one queue to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The queue that gives.
    pub from: usize,
    /// The queue that receives.
    pub to: usize,
    /// The amount, in the unit of the sizes; whole pages.
    pub amount: u64,
}

/// Algorithm 1: credits for hits in shadows, paid by another queue, at random.
///
/// ```
/// use millpond_allocate::cliffhanger::{HillClimber, Queue};
///
/// let mut hills = HillClimber::new([Queue::new(1000, 128), Queue::new(1000, 128)], 4, 16, 1);
/// for _ in 0..3 {
///     assert_eq!(hills.on_shadow_hit(0), None); // Credits gather until they make a page.
/// }
/// let moved = hills.on_shadow_hit(0).unwrap();
/// assert_eq!((moved.from, moved.to, moved.amount), (1, 0, 16));
/// assert_eq!(hills.size(0), 1016);
/// ```
#[derive(Clone, Debug)]
pub struct HillClimber {
    queues: Vec<Queue>,
    /// Credits not yet converted into memory; negative = owed.
    balances: Vec<i64>,
    credit: u64,
    page: u64,
    rng: SeededRng,
}

impl HillClimber {
    /// Creates a climber for `queues`, which starts from their sizes. `credit` is the reward of a
    /// hit in a shadow (paper: 1 to 4 KiB; at most a thousandth of the memory is best), and `page`
    /// the least amount that moves; both in the unit of the sizes. `seed` determines the random
    /// choice of the queue that pays.
    ///
    /// # Panics
    /// If there is no queue, the credit or the page is 0, or a queue is below its least size or
    /// above its largest.
    pub fn new(queues: impl IntoIterator<Item = Queue>, credit: u64, page: u64, seed: u64) -> Self {
        let queues: Vec<Queue> = queues.into_iter().collect();
        assert!(!queues.is_empty() && credit > 0 && page > 0, "there are queues, credits and pages");
        let within = |queue: &Queue| queue.least <= queue.size && queue.size <= queue.most;
        assert!(queues.iter().all(within), "each queue is between its least and its largest size");
        let balances = vec![0; queues.len()];
        Self { queues, balances, credit, page, rng: seeded(seed) }
    }

    /// Algorithm 1: a hit in the shadow of `queue` gives it a credit, which another queue pays.
    /// Returns `Some` if that completes a page, which moves now.
    ///
    /// Costs a random number, and a pass over the queues if a page moves or the first queue drawn
    /// cannot pay.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn on_shadow_hit(&mut self, queue: usize) -> Option<Transfer> {
        let credit = (self.credit as f64 * self.queues[queue].weight).round() as u64;
        if credit == 0 || self.worth(queue).saturating_add(credit) > self.queues[queue].most {
            return None;
        }
        let chosen_queue = self.pick_random(queue, credit)?;
        self.balances[queue] += credit as i64;
        self.balances[chosen_queue] -= credit as i64;
        self.pay_out(queue, chosen_queue)
    }

    /// The size of `queue`, without credits.
    pub fn size(&self, queue: usize) -> u64 {
        self.queues[queue].size
    }

    /// The sizes of all queues, in their order.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.queues.iter().map(|queue| queue.size)
    }

    /// The credits of `queue` that are not yet converted into memory; negative = owed.
    pub fn balance(&self, queue: usize) -> i64 {
        self.balances[queue]
    }

    /// The size that `queue` will have once its credits are converted into memory.
    fn worth(&self, queue: usize) -> u64 {
        self.queues[queue].size.saturating_add_signed(self.balances[queue])
    }

    /// Line 3: `pickRandom({queues} - {queue(i)})`, among those that can pay.
    fn pick_random(&mut self, queue: usize, credit: u64) -> Option<usize> {
        let others = self.queues.len() - 1;
        if others == 0 {
            return None;
        }
        let can_pay = |this: &Self, other: usize| {
            other != queue && this.worth(other) >= this.queues[other].least.saturating_add(credit)
        };
        let drawn = self.rng.random_range(0..others);
        let drawn = drawn + usize::from(drawn >= queue);
        if can_pay(self, drawn) {
            return Some(drawn);
        }
        let able = (0..self.queues.len()).filter(|other| can_pay(self, *other)).count();
        if able == 0 {
            return None;
        }
        let place = self.rng.random_range(0..able);
        (0..self.queues.len()).filter(|other| can_pay(self, *other)).nth(place)
    }

    /// Converts credits of `queue` into pages, at the expense of `chosen` or of the queue that owes
    /// most.
    fn pay_out(&mut self, queue: usize, chosen: usize) -> Option<Transfer> {
        let pages = u64::try_from(self.balances[queue]).unwrap_or(0) / self.page;
        let amount = pages * self.page;
        let owes = |this: &Self, other: usize| this.balances[other] <= -(amount as i64);
        let can_give = |this: &Self, other: usize| {
            other != queue && this.queues[other].size >= this.queues[other].least.saturating_add(amount)
        };
        if amount == 0 || self.queues[queue].size.saturating_add(amount) > self.queues[queue].most {
            return None;
        }
        let from = if owes(self, chosen) && can_give(self, chosen) {
            chosen
        } else {
            (0..self.queues.len())
                .filter(|other| can_give(self, *other))
                .min_by_key(|other| self.balances[*other])?
        };
        self.queues[from].size -= amount;
        self.balances[from] += amount as i64;
        self.queues[queue].size += amount;
        self.balances[queue] -= amount as i64;
        Some(Transfer { from, to: queue, amount })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn validate(hills: &HillClimber, total: u64) {
        assert_eq!(hills.balances.iter().sum::<i64>(), 0);
        assert_eq!(hills.sizes().sum::<u64>(), total);
        for (i, queue) in hills.queues.iter().enumerate() {
            assert!((queue.least..=queue.most).contains(&queue.size), "{hills:?}");
            assert!((queue.least..=queue.most).contains(&hills.worth(i)), "{hills:?}");
        }
    }

    #[test]
    fn a_credit_of_a_page_moves_at_once() {
        let mut hills = HillClimber::new([Queue::new(100, 0), Queue::new(100, 0)], 8, 8, 1);
        assert_eq!(hills.on_shadow_hit(1), Some(Transfer { from: 0, to: 1, amount: 8 }));
        assert_eq!(hills.sizes().collect::<Vec<_>>(), [92, 108]);
    }

    #[test]
    fn who_is_at_its_least_size_does_not_pay() {
        let queues = [Queue::new(100, 0), Queue::new(50, 50), Queue::new(24, 20)];
        let mut hills = HillClimber::new(queues, 4, 4, 7);
        let moves: Vec<_> = (0..3).map(|_| hills.on_shadow_hit(0)).collect();
        assert_eq!(moves, [Some(Transfer { from: 2, to: 0, amount: 4 }), None, None]);
    }

    #[test]
    fn who_may_have_no_more_earns_nothing() {
        let mut queues = [Queue::new(100, 0), Queue::new(100, 0)];
        queues[0].most = 106;
        let mut hills = HillClimber::new(queues, 4, 4, 7);
        assert!(hills.on_shadow_hit(0).is_some());
        assert_eq!(hills.on_shadow_hit(0), None);
        assert_eq!(hills.size(0), 104);
    }

    #[test]
    fn one_queue_alone_stays_as_it_is() {
        let mut hills = HillClimber::new([Queue::new(100, 0)], 4, 4, 7);
        assert_eq!(hills.on_shadow_hit(0), None);
    }

    #[test]
    fn others_pay_alike() {
        let mut hills = HillClimber::new([Queue::new(1 << 20, 0); 5], 1, 1, 3);
        for _ in 0..40_000 {
            hills.on_shadow_hit(2);
        }
        // 10,000 expected of each; ten standard deviations.
        for other in [0, 1, 3, 4] {
            let paid = (1 << 20) - hills.size(other);
            assert!((9_130..10_870).contains(&paid), "queue {other} paid {paid}");
        }
    }

    #[test]
    fn weighted_hits_earn_weighted_credits() {
        let mut queues = [Queue::new(1000, 0), Queue::new(1000, 0)];
        queues[1].weight = 2.5;
        let mut hills = HillClimber::new(queues, 4, 1, 1);
        assert_eq!(hills.on_shadow_hit(1).map(|moved| moved.amount), Some(10));
    }

    proptest! {
        #[test]
        fn sizes_add_up_and_stay_within_bounds(
            queues in prop::collection::vec((0_u64..500, 0_u64..500, 0_u64..500, 0.0..3.0_f64), 1..6),
            credit in 1_u64..20, page in 1_u64..100, seed: u64,
            hits in prop::collection::vec(0_usize..6, 0..300),
        ) {
            let queues: Vec<Queue> = queues.iter().map(|&(least, above, room, weight)| {
                Queue { size: least + above, least, most: least + above + room, weight }
            }).collect();
            let total = queues.iter().map(|queue| queue.size).sum();
            let mut hills = HillClimber::new(queues.clone(), credit, page, seed);
            for hit in hits {
                if let Some(moved) = hills.on_shadow_hit(hit % queues.len()) {
                    prop_assert_eq!((moved.to, moved.amount % page), (hit % queues.len(), 0));
                }
                validate(&hills, total);
            }
        }
    }
}
