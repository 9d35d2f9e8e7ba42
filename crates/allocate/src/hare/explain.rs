//! The reasons of a decision, in words and figures.

use super::Allocation;
use crate::{Decision, Move, Outcome, View};

/// Gives each move its reason: the throughput of both sides relative to that with their baseline
/// (`alone`), and the gain of all pools.
pub(super) fn explain(view: &View, alone: &[Outcome], allocation: &Allocation, decision: &mut Decision) {
    let dominant = allocation.deals.last().map(|deal| deal.dominant);
    let sums = dominant.map_or_else(Vec::new, |k| deals_by_pool(allocation, view.pools.len(), k));
    let side = |place: usize| {
        let mut words = format!(
            "{} misses {:.1} % instead of {:.1} %",
            view.pools[place].name,
            100.0 * decision.after[place].miss_ratio,
            100.0 * alone[place].miss_ratio,
        );
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
    let reason = |step: &Move| {
        let sides: Vec<String> = [step.from, step.to].into_iter().flatten().map(side).collect();
        format!("{}; {lifted}", sides.join("; "))
    };
    let reasons: Vec<String> = decision.moves.iter().map(reason).collect();
    decision.moves.iter_mut().zip(reasons).for_each(|(step, reason)| step.reason = reason);
}

/// The units of a resource that each pool relinquished in all deals, and those it got as
/// compensation. In a deal with several donors, each donor's part is proportional to the bytes it
/// gave.
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
