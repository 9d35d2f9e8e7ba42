//! Orders that do not depend on the arrangement of a view.

use crate::{Decision, View};

/// A figure with a total order. No figure here should be NaN; one that is sorts last.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Rank(pub(crate) f64);

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The places of all pools in the order of their names.
pub(crate) fn by_name(view: &View) -> Vec<usize> {
    let mut places: Vec<usize> = (0..view.pools.len()).collect();
    places.sort_by(|&a, &b| view.pools[a].name.cmp(&view.pools[b].name).then(a.cmp(&b)));
    places
}

/// Runs `decide` with the pools in the order of their names, and returns the decision in the order
/// of `view`. So a decision depends on the order of pools neither in ties nor in the last bit of a
/// sum. Costs a copy of the view if its pools are in another order.
pub(crate) fn in_order_of_names(view: &View, decide: impl FnOnce(&View) -> Decision) -> Decision {
    let order = by_name(view);
    if order.is_sorted() {
        return decide(view);
    }
    let pools = order.iter().map(|&place| view.pools[place].clone()).collect();
    let sorted = View {
        memory: view.memory,
        resources: view.resources.clone(),
        pools,
        interval_secs: view.interval_secs,
    };
    let mut decision = decide(&sorted);
    decision.grants = back(&order, decision.grants);
    decision.before = back(&order, decision.before);
    decision.after = back(&order, decision.after);
    decision.cliffs = back(&order, decision.cliffs);
    for step in &mut decision.moves {
        step.from = step.from.map(|i| order[i]);
        step.to = step.to.map(|i| order[i]);
    }
    decision.unmet.iter_mut().for_each(|unmet| unmet.pool = order[unmet.pool]);
    decision
}

/// Restores the original order of elements that stand in `order`.
fn back<T>(order: &[usize], sorted: Vec<T>) -> Vec<T> {
    let mut placed: Vec<(usize, T)> = order.iter().copied().zip(sorted).collect();
    placed.sort_unstable_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, value)| value).collect()
}
