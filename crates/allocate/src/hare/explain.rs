//! A decision's reasons, in words and figures.

use super::Allocation;
use crate::{Decision, Grant, Outcome, View, fairness};

/// Gives each move its reason: what both sides have in relation to their baseline, and what everybody has from it.
pub(super) fn explain(view: &View, allocation: &Allocation, decision: &mut Decision) {
    let baseline = fairness::baseline(view);
    let dominant = allocation.deals.last().map(|deal| deal.dominant);
    let sums = dominant.map_or_else(Vec::new, |k| deals_by_pool(allocation, view.pools.len(), k));
    let side = |place: usize| {
        let (pool, before, after) = (&view.pools[place], &baseline[place], &allocation.grants[place]);
        let misses = |grant: &Grant| 100.0 * Outcome::of(pool, grant).miss_ratio;
        let mut words =
            format!("{} misses {:.1} % instead of {:.1} %", pool.name, misses(after), misses(before));
        if let Some(k) = dominant {
            let (less, more) = sums[place];
            let resource = &view.resources[k].name;
            if less > more {
                words += &format!(" and does with {:.4} {resource}/s less", less - more);
            } else if more > less {
                words += &format!(" and is compensated with {:.4} {resource}/s", more - less);
            }
        }
        words
    };
    let lifted = if allocation.improvement > 0.0 {
        format!("everybody gets {:.1} % more than its share would carry", 100.0 * allocation.improvement)
    } else {
        "everybody keeps what its share would carry".to_owned()
    };
    for step in &mut decision.moves {
        let sides: Vec<String> = [step.from, step.to].into_iter().flatten().map(side).collect();
        step.reason = format!("{}; {lifted}", sides.join("; "));
    }
}

/// What each pool relinquished of a resource in all deals, and what it was compensated with. Of a deal with several donors each
/// has its part by what it gave.
fn deals_by_pool(allocation: &Allocation, pools: usize, resource: usize) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0); pools];
    for deal in &allocation.deals {
        sums[deal.to].0 += deal.relinquished[resource];
        let given: u64 = deal.from.iter().map(|&(_, bytes)| bytes).sum();
        for &(from, bytes) in &deal.from {
            sums[from].1 += deal.compensated[resource] * bytes as f64 / given as f64;
        }
    }
    sums
}
