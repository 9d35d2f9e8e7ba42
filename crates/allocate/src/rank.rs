//! Orders that do not depend on how a view is arranged.

use crate::View;

/// A figure that can be ordered; no figure here is NaN, and if one were it would come last.
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
