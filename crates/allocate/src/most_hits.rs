//! Most hits for caches that do not split their queues: equation 1 of Cliffhanger (NSDI '16,
//! section 2.1) over the curves themselves, of any shape, by the exact solver.
//!
//! A hull promises what a queue on a cliff does not give, unless it is split ([`crate::talus`]). A
//! policy that goes by hulls ([`crate::dynacache`]) then moves memory for no gain, or is held back
//! by rails that measure the gain by the curves.

use std::sync::Arc;

use crate::exact::solve;
use crate::problem::{Choice, Problem, Worth};
use crate::rank::in_order_of_names;
use crate::view::{Pool, View};
use crate::{Decision, Grant, Policy, dynacache};

/// Memory by curves as they are. Memory that saves nothing stays with its present pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct MostHits;

impl Policy for MostHits {
    fn name(&self) -> &'static str {
        "most-hits"
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let choices: Vec<Choice> = view.pools.iter().map(|pool| choice(pool, view.memory)).collect();
            let problem = Problem { memory: view.memory, choices };
            let sizes = solve(&problem).sizes;
            let needed = problem.choices.iter().zip(sizes).map(|(choice, size)| needed(choice, size));
            let sizes = dynacache::settle(view, needed.collect());
            let grants = view.pools.iter().zip(sizes);
            let grants = grants.map(|(pool, memory)| Grant { memory, resources: pool.grants.clone() });
            Decision::by_worth(view, grants.collect(), |_, _| String::new())
        })
    }
}

/// The hits per second of a pool, times its weight, by its memory.
fn choice(pool: &Pool, memory: u64) -> Choice {
    let worth = Worth::hit_rate(Arc::clone(&pool.curve), pool.request_rate, pool.weight);
    Choice { low: pool.floor, high: pool.ceiling.min(memory).max(pool.floor), worth }
}

/// The least size that is worth as much.
fn needed(choice: &Choice, size: u64) -> u64 {
    let worth = choice.worth.value(size as f64);
    choice.worth.least_size(worth, size).map_or(size, |least| least.max(choice.low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynacache::tests::{falling, pool};
    use proptest::prelude::*;

    fn sizes(view: &View) -> Vec<u64> {
        view.validate().unwrap();
        MostHits.decide(view).grants.iter().map(|grant| grant.memory).collect()
    }

    #[test]
    fn a_cliff_that_memory_does_not_reach_gets_none() {
        let mut view = View { memory: 600, ..View::default() };
        view.pools = vec![pool(&[(900, 0.99), (1000, 0.1)], 10.0), pool(&[(1000, 0.5)], 10.0)];
        view.pools[1].name = "q".into();
        assert_eq!(sizes(&view), [0, 600]);
        view.memory = 1_100;
        assert_eq!(sizes(&view), [1_000, 100], "the whole cliff is worth more");
    }

    #[test]
    fn what_saves_nothing_stays_where_it_is() {
        let mut view = View { memory: 1000, ..View::default() };
        view.pools = vec![pool(&[(100, 0.0)], 1.0), pool(&[(100, 0.0)], 1.0)];
        view.pools[1].name = "q".into();
        (view.pools[0].size, view.pools[1].size) = (700, 300);
        assert_eq!(sizes(&view), [700, 300]);
    }

    proptest! {
        /// No exchange of memory between two pools, of any of these amounts, brings more hits.
        #[test]
        fn no_exchange_brings_more(
            memory in 1_u64..60,
            pools in prop::collection::vec(
                (prop::collection::vec((1_u64..12, 0.0..0.4_f64), 1..6), 0.0..5.0_f64, 0.0..2.0_f64),
                2..5,
            ),
        ) {
            let mut view = View { memory, ..View::default() };
            view.pools = pools.iter().enumerate().map(|(at, (steps, rate, weight))| {
                let mut pool = pool(&falling(steps), *rate);
                (pool.name, pool.weight) = (format!("p{at}").into(), *weight);
                pool
            }).collect();
            let sizes = sizes(&view);
            prop_assert_eq!(sizes.iter().sum::<u64>(), memory);
            let hits = |at: usize, size: u64| {
                let pool = &view.pools[at];
                pool.weight * pool.request_rate * (1.0 - pool.curve.miss_ratio(size as f64))
            };
            for from in 0..sizes.len() {
                for to in (0..sizes.len()).filter(|to| *to != from) {
                    for bytes in 1..=sizes[from] {
                        let lost = hits(from, sizes[from]) - hits(from, sizes[from] - bytes);
                        let won = hits(to, sizes[to] + bytes) - hits(to, sizes[to]);
                        prop_assert!(won <= lost + 1e-6, "{sizes:?}: {bytes} from {from} to {to}");
                    }
                }
            }
        }
    }
}
