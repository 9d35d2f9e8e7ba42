//! Allocation policies: deterministic decisions, from observations, on the share of each pool.
//!
//! A policy receives a [`View`] of all pools and returns a [`Decision`]: the grant of each pool,
//! and moves, each with its predicted gain and its reason in words. No policy reads a clock, starts
//! a thread or does I/O; random choices come from the policy's own seeded generator. So the engine,
//! the simulator and the tests run the same code.
//!
//! | module | what it is |
//! |---|---|
//! | [`view`] | the input of a policy |
//! | [`decision`] | the result of a policy |
//! | [`partition`] | equal and weighted shares, which ignore all observations |
//! | [`cliffhanger`] | hill climbing and cliff scaling by shadow queues |
//! | [`talus`] | splitting a queue on the hull of its curve, and memory by hulls |
//! | [`dynacache`] | memory by the hulls of curves, for queues that are not split |
//! | [`most_hits`] | memory by curves as they are, for queues that are not split |
//! | [`marginal`] | steps of memory by hits in the last step |
//! | [`arbiter`] | Memshare's arbiter: reserved memory, and credits won by hits in shadow queues |
//! | [`problem`] | the optimisation problem that `anneal`, `hull`, `exact` and `holpaca` solve |
//! | [`anneal`] | HOLPACA's simulated annealing in three variants: repaired, as in the paper, as in its program |
//! | [`hull`], [`exact`] | exact solutions, over hulls and for worths of any shape |
//! | [`holpaca`] | throughput maximisation and minimum throughputs, with either solver |
//! | [`cost`] | misses that count by what one costs |
//! | [`demand`] | the rate of requests by which a pool has memory |
//! | [`registry`] | all policies by name |
//! | [`interval`] | the time until the next decision |
//! | [`pace`] | the time that decisions wait for what the last one brought |
//! | [`measured`] | curves corrected by what pools missed in fact |
//! | [`drift`] | loads that become others, as curves show them |
//! | [`fairness`] | the normalised throughput: the gain or loss of a pool against its share |
//! | [`fair`] | the highest least normalised throughput if memory alone moves |
//! | [`drf`] | dominant resource fairness, with memory by weight |
//! | [`hare`] | HARE: memory is traded for other resources to raise the least normalised throughput |
//! | [`steady`] | HARE without trades with pools whose curves are unstable |
//! | [`memshare`] | Memshare: part of the memory goes to the pools that gain most hits, alone and with DRF |
//! | [`shared`] | the state of tenants that share one cache and one queue |
//! | [`guard`] | rails for any policy: bounds, caps, hysteresis, smoothing, the hierarchy |

#![forbid(unsafe_code)]

pub mod anneal;
pub mod arbiter;
pub mod cliffhanger;
pub mod cost;
pub mod decision;
pub mod demand;
pub mod drf;
pub mod drift;
pub mod dynacache;
pub mod exact;
pub mod fair;
pub mod fairness;
pub mod guard;
pub mod hare;
pub mod holpaca;
pub mod hull;
pub mod interval;
pub mod marginal;
pub mod measured;
pub mod memshare;
pub mod most_hits;
pub mod pace;
pub mod partition;
pub mod problem;
mod rank;
pub mod registry;
pub mod shared;
pub mod steady;
pub mod talus;
pub mod view;

pub use decision::{Decision, Grant, Move, Outcome, Unmet};
pub use view::{Demand, Flash, Misses, Place, Pool, Resource, View, ViewError};

/// Decides the share of each pool.
///
/// A policy owns the state that it keeps between rounds (smoothed figures, a generator of random
/// numbers); each view is complete in itself.
pub trait Policy: Send {
    /// The name in configurations and reports: lower case, words joined by hyphens.
    fn name(&self) -> &'static str;

    /// Decides the grant of each pool of `view`. The grants of a decision never exceed the view's
    /// totals, and keep each pool between its floor and its ceiling.
    ///
    /// `view` has passed [`View::validate`].
    fn decide(&mut self, view: &View) -> Decision;
}
