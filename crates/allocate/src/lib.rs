//! Who should get how much: allocation policies as pure functions of what is observed.
//!
//! A policy is handed a [`View`] of all pools and returns a [`Decision`]: what each pool should
//! have, as moves, each with its predicted gain and its reason in words. No policy reads a clock,
//! starts a thread or does I/O; what is random in one is drawn from its own seeded generator. So
//! the engine, the orchestrator, the simulator and the tests run the same code.
//!
//! | module | what it is |
//! |---|---|
//! | [`view`] | what a policy may see |
//! | [`decision`] | what it returns |
//! | [`partition`] | equal and weighted shares, which look at nothing |
//! | [`cliffhanger`] | hill climbing and cliff scaling by shadow queues |
//! | [`talus`] | splitting a queue on the hull of its curve, and memory by hulls |
//! | [`dynacache`] | memory by the hulls of curves that are not split |
//! | [`marginal`] | steps of memory by hits in the last step |
//! | [`arbiter`] | reserves, and credits for the rest |
//! | [`problem`] | sizes that are worth most together: the question of the three below |
//! | [`anneal`] | HOLPACA's simulated annealing, repaired, as described and as published |
//! | [`hull`], [`exact`] | exact answers, over hulls and beyond |
//! | [`holpaca`] | throughput maximisation and least throughputs, by either |
//! | [`registry`] | all policies by name |
//! | [`interval`] | when to decide next |
//! | [`fairness`] | what a pool gains or loses against its share: the normalised throughput |
//! | [`drf`] | dominant resource fairness, with memory by weight |
//! | [`hare`] | HARE: memory changes hands for other resources until everybody has most |
//! | [`steady`] | HARE without pools whose curves do not hold still |
//! | [`memshare`] | Memshare: part of the memory to who misses most for want of it, alone and with DRF |
//! | [`shared`] | what becomes of tenants that share one cache and one queue |
//! | [`guard`] | rails that any policy can be put between: bounds, caps, hysteresis, smoothing, the hierarchy |

#![forbid(unsafe_code)]

pub mod anneal;
pub mod arbiter;
pub mod cliffhanger;
pub mod decision;
pub mod drf;
pub mod dynacache;
pub mod exact;
pub mod fairness;
pub mod guard;
pub mod hare;
pub mod holpaca;
pub mod hull;
pub mod interval;
pub mod marginal;
pub mod memshare;
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

/// Decides who should get how much.
///
/// What a policy keeps between rounds (smoothed figures, a generator of random numbers) is its own;
/// a view is whole in itself.
pub trait Policy: Send {
    /// Its name in configurations and reports: lower case, words joined by hyphens.
    fn name(&self) -> &'static str;

    /// What each pool of `view` should have. The grants of a decision never exceed the view's
    /// totals, and keep each pool between its floor and its ceiling.
    ///
    /// `view` has passed [`View::validate`].
    fn decide(&mut self, view: &View) -> Decision;
}
