//! The statistics of a policy's queues.

use crate::contract::{Items, Queue};
use crate::policy::Policy;

impl Policy {
    /// The queues, in the order in which items pass through them. `now` in seconds. Costs very
    /// little. During a conversion, items that are not moved yet are in none of them.
    pub fn queues(&self, items: &impl Items, now: u32) -> Vec<Queue> {
        self.order.queues(items, now)
    }

    /// The number of remembered keys of evicted items.
    pub fn ghosts(&self) -> usize {
        self.order.ghosts()
    }

    /// The seconds since the last use of the item that would be evicted after the next `items`
    /// items, if the policy knows. `None` too if there are no more than that.
    pub fn projected_age_secs(&self, items: usize, now: u32) -> Option<u32> {
        self.order.projected_age_secs(items, now)
    }
}

#[cfg(test)]
mod tests {
    use crate::PolicyKind;
    use crate::testing::Sim;

    #[test]
    fn queues_are_those_of_the_policy_and_have_all_items() {
        for kind in PolicyKind::ALL {
            let mut sim = Sim::new(kind, 1_000);
            for i in 0..20_000_u64 {
                sim.now = (i / 10) as u32;
                // Numbers below 300 come again and again.
                sim.access(if i % 2 == 0 { i % 300 } else { i });
            }
            let queues = sim.policy.queues(&sim.table, sim.now);
            assert!(
                queues.len() <= crate::MAX_QUEUES
                    && queues.iter().all(|queue| queue.number < crate::MAX_QUEUES)
            );
            assert_eq!(
                queues.iter().map(|queue| queue.items).sum::<usize>(),
                sim.len(),
                "{kind}: {queues:?}"
            );
            let known = |queue: &&crate::Queue| {
                queue.items > 0 && (queue.age_secs.is_some() != queue.oldest.is_some())
            };
            assert!(
                queues.iter().filter(|queue| queue.items > 0).all(|queue| known(&queue)),
                "{kind}: {queues:?}"
            );
            assert_eq!(
                sim.policy.ghosts() > 0,
                matches!(kind, PolicyKind::S3Fifo { .. } | PolicyKind::Arc),
                "{kind}"
            );
        }
    }

    #[test]
    fn hits_are_told_by_queue() {
        for kind in PolicyKind::ALL {
            let mut sim = Sim::new(kind, 100);
            let mut hits = [0; crate::MAX_QUEUES];
            (0..100).for_each(|key| assert!(!sim.access(key)));
            for round in 0..40_u64 {
                // Ten keys stay, and others pass by.
                (0..10).for_each(|key| hits[sim.queue_of_hit(key)] += 1);
                (0..20).for_each(|i| assert!(!sim.access(1_000 + round * 20 + i)));
            }
            let names = sim.policy.queues(&sim.table, sim.now);
            let told: usize = names.iter().map(|queue| hits[queue.number]).sum();
            assert_eq!(told, 400, "{kind}: {hits:?}");
            assert!(
                hits[names.last().map_or(0, |last| last.number)] > 0 || names.len() == 3,
                "{kind}: {hits:?}"
            );
        }
    }

    #[test]
    fn the_projected_age_is_that_behind_a_slab() {
        for kind in [PolicyKind::Lru { refresh_secs: 0 }, PolicyKind::Arc] {
            let mut sim = Sim::new(kind, 1_000);
            for i in 0..1_000_u64 {
                sim.now = i as u32;
                sim.access(i);
            }
            // One came each second: what is behind the last 500 has waited for some 500 s.
            let tail = sim.policy.tail_age_secs(sim.now).expect("known");
            let behind = sim.policy.projected_age_secs(500, sim.now).expect("known");
            assert!(
                (940..=1_000).contains(&tail) && (430..=560).contains(&behind),
                "{kind}: {tail}, {behind}"
            );
            assert_eq!(sim.policy.projected_age_secs(1_000, sim.now), None, "{kind}: nothing is left");
        }
        let sim = Sim::new(PolicyKind::Sieve, 10);
        assert_eq!(sim.policy.projected_age_secs(1, 0), None);
    }
}
