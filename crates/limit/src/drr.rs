//! Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round
//! Robin", SIGCOMM 1995): flows with work are served in turn, and each may spend a quantum per
//! round.
//!
//! The cost of a turn is known when the turn is over. So a flow may overdraw by one turn, while the
//! paper's flows wait until the head of their queue is paid for; the overdraft is deducted from its
//! next rounds. Flows do not save: a flow that did not spend its quantum begins the next round with
//! one quantum.
//!
//! The value holds no work, only the order of flows and the amount that each may spend. Queues,
//! weights and costs belong to the caller.
//!
//! What must hold:
//! 1. A flow is in the ring at most once.
//! 2. Between two grants to a flow without debt, its turns cost at most the quantum and one turn.
//!
//! ```
//! use millpond_limit::DeficitRoundRobin;
//!
//! let mut flows = DeficitRoundRobin::default();
//! for flow in [0, 1] {
//!     flows.open(flow);
//!     flows.activate(flow);
//! }
//! let mut turns = [0, 0];
//! for _ in 0..100 {
//!     let flow = flows.begin().expect("both have something to do");
//!     flows.grant(flow, 12);
//!     while flows.may_spend(flow) {
//!         turns[flow] += 1;
//!         flows.spend(flow, [3, 1][flow]);
//!     }
//!     flows.activate(flow);
//! }
//! assert_eq!(turns, [200, 600], "turns of 3 and of 1, for the same cost");
//! ```

use std::collections::VecDeque;

/// Flows, numbered by the caller from 0 on. Memory is proportional to the largest number. Calls for
/// a flow that is not open do nothing.
#[derive(Clone, Debug, Default)]
pub struct DeficitRoundRobin {
    flows: Vec<Option<Flow>>,
    ring: VecDeque<usize>,
}

/// The amount that a flow may spend, below 0 if it owes, and whether it is in the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    deficit: i64,
    is_active: bool,
}

impl DeficitRoundRobin {
    /// Adds `flow` as a new one, without work and without debt.
    pub fn open(&mut self, flow: usize) {
        self.close(flow);
        if flow >= self.flows.len() {
            self.flows.resize(flow + 1, None);
        }
        self.flows[flow] = Some(Flow::default());
    }

    /// Removes `flow`.
    pub fn close(&mut self, flow: usize) {
        let closed = self.flows.get_mut(flow).and_then(Option::take);
        if closed.is_some_and(|closed| closed.is_active) {
            self.ring.retain(|active| *active != flow);
        }
    }

    /// Puts `flow` at the end of the ring, unless it is in it. This also puts back a flow that was
    /// begun and has more work.
    pub fn activate(&mut self, flow: usize) {
        let Some(state) = self.flow_mut(flow) else { return };
        if !state.is_active {
            state.is_active = true;
            self.ring.push_back(flow);
        }
    }

    /// Returns the number of flows in the ring: the turns of a round.
    pub fn active(&self) -> usize {
        self.ring.len()
    }

    /// Returns the flows in the ring, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.ring.iter().copied()
    }

    /// Takes the next flow out of the ring.
    pub fn begin(&mut self) -> Option<usize> {
        let flow = self.ring.pop_front()?;
        self.flow_mut(flow)?.is_active = false;
        Some(flow)
    }

    /// Lets `flow` spend `quantum` in this round, less what it owes.
    pub fn grant(&mut self, flow: usize, quantum: i64) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.deficit = flow.deficit.min(0).saturating_add(quantum);
        }
    }

    /// Lets `flow` spend `quantum` in this round, whatever it owes. For rounds in which no other
    /// flow competes.
    pub fn grant_anew(&mut self, flow: usize, quantum: i64) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.deficit = quantum;
        }
    }

    /// Returns whether `flow` may have another turn in this round.
    pub fn may_spend(&self, flow: usize) -> bool {
        matches!(self.flows.get(flow), Some(Some(flow)) if flow.deficit > 0)
    }

    /// Charges `flow` for a turn.
    pub fn spend(&mut self, flow: usize, cost: i64) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.deficit = flow.deficit.saturating_sub(cost);
        }
    }

    fn flow_mut(&mut self, flow: usize) -> Option<&mut Flow> {
        self.flows.get_mut(flow)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Open(usize),
        Close(usize),
        Activate(usize),
        /// A flow's share of a round: its quantum, whether its debt is forgotten, what its turns
        /// cost, and whether it has more to do.
        Serve {
            quantum: i64,
            anew: bool,
            costs: Vec<i64>,
            again: bool,
        },
    }

    fn op() -> impl Strategy<Value = Op> {
        let serve =
            (1..100_i64, prop::bool::weighted(0.1), prop::collection::vec(0..80_i64, 0..8), any::<bool>());
        prop_oneof![
            1 => (0..6_usize).prop_map(Op::Open),
            1 => (0..6_usize).prop_map(Op::Close),
            3 => (0..6_usize).prop_map(Op::Activate),
            5 => serve.prop_map(|(quantum, anew, costs, again)| Op::Serve { quantum, anew, costs, again }),
        ]
    }

    proptest! {
        /// The model: a list of who is active, and a map of what each owes.
        #[test]
        fn it_is_a_list_and_a_map(ops in prop::collection::vec(op(), 1..200)) {
            let mut flows = DeficitRoundRobin::default();
            let (mut ring, mut open): (Vec<usize>, BTreeMap<usize, i64>) = Default::default();
            for op in ops {
                match op {
                    Op::Open(flow) => {
                        flows.open(flow);
                        ring.retain(|active| *active != flow);
                        open.insert(flow, 0);
                    }
                    Op::Close(flow) => {
                        flows.close(flow);
                        ring.retain(|active| *active != flow);
                        open.remove(&flow);
                    }
                    Op::Activate(flow) => {
                        flows.activate(flow);
                        if open.contains_key(&flow) && !ring.contains(&flow) {
                            ring.push(flow);
                        }
                    }
                    Op::Serve { quantum, anew, costs, again } => {
                        let expected = (!ring.is_empty()).then(|| ring.remove(0));
                        prop_assert_eq!(flows.begin(), expected);
                        let Some(flow) = expected else { continue };
                        let deficit = open.entry(flow).or_default();
                        if anew {
                            flows.grant_anew(flow, quantum);
                            *deficit = quantum;
                        } else {
                            flows.grant(flow, quantum);
                            *deficit = quantum + (*deficit).min(0);
                        }
                        for cost in costs {
                            prop_assert_eq!(flows.may_spend(flow), *deficit > 0);
                            if *deficit > 0 {
                                flows.spend(flow, cost);
                                *deficit -= cost;
                            }
                        }
                        if again {
                            flows.activate(flow);
                            ring.push(flow);
                        }
                    }
                }
                prop_assert_eq!(flows.iter().collect::<Vec<_>>(), ring.clone());
                prop_assert_eq!(flows.active(), ring.len());
            }
        }

        /// The paper's theorem, with an overdraft of a turn: flows that always have something to do
        /// get what their quanta say, to within a quantum and a turn of each.
        #[test]
        fn backlogged_flows_get_what_their_quanta_say(
            kinds in prop::collection::vec((1..100_i64, 1..300_i64), 2..6),
            rounds in 1..300_i64,
        ) {
            let mut flows = DeficitRoundRobin::default();
            for flow in 0..kinds.len() {
                flows.open(flow);
                flows.activate(flow);
            }
            let mut spent = vec![0; kinds.len()];
            for _ in 0..rounds * kinds.len() as i64 {
                let flow = flows.begin().expect("all are active");
                let (quantum, most) = kinds[flow];
                flows.grant(flow, quantum);
                let mut turn = 0;
                while flows.may_spend(flow) {
                    turn += 1;
                    // From 1 to `most`, differently in each round.
                    let cost = 1 + (spent[flow] * 7 + turn * 13) % most;
                    flows.spend(flow, cost);
                    spent[flow] += cost;
                }
                flows.activate(flow);
            }
            for (spent, (quantum, most)) in spent.into_iter().zip(kinds) {
                let over = spent - rounds * quantum;
                prop_assert!((0..most).contains(&over), "{over} over {rounds} quanta of {quantum}");
            }
        }
    }

    #[test]
    fn a_flow_that_spends_nothing_saves_nothing() {
        let mut flows = DeficitRoundRobin::default();
        flows.open(3);
        for _ in 0..1_000 {
            flows.grant(3, 10);
        }
        flows.spend(3, 10);
        assert!(!flows.may_spend(3));
    }

    #[test]
    fn unknown_flows_and_large_costs_do_no_harm() {
        let mut flows = DeficitRoundRobin::default();
        flows.activate(9);
        flows.grant(9, 1);
        flows.spend(9, 1);
        flows.close(9);
        assert!(flows.begin().is_none() && !flows.may_spend(9));
        flows.open(0);
        for _ in 0..3 {
            flows.spend(0, i64::MAX);
        }
        flows.grant(0, i64::MAX);
        assert!(!flows.may_spend(0));
    }
}
