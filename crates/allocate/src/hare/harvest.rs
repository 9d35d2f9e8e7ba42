//! The harvest phase: chunks of cache are traded for resources, as long as that leaves more of the
//! dominant resource for all.
//!
//! HARE, section 3.2.1 for one resource and section 3.4, step 2, for many. [`harvest`] repeats what
//! the paper's box "Harvest Phase: Trade for the Dominant Resource" lists:
//!
//! | the paper's step | here |
//! |---|---|
//! | for every tenant, the compensated and the relinquished resources | `Market::report_all` at first, then `Market::report` for those that traded |
//! | the system-wide dominant resource, `argmin r_harvest / r_sum` | `Market::system_wide_dominant` |
//! | `t_1` with the smallest compensation and `t_2` with the largest amount relinquished of it; a deal, if that is profitable | [`most_profitable_pair`] and [`make_deal`]; as printed [`printed_pair`] |
//! | until no profitable deal can be made | the loop, and [`Settings::acceptance`] says what is profitable |
//!
//! The trade as printed, and in the authors' engine, ends at the first deal that does not pay. That
//! is repaired in three ways. If the best donor `t_1` is also the best receiver `t_2`, both
//! alternatives are tried. A rejected pair is followed by the next best one. If no single chunk
//! pays, the *window* doubles (`wide`): two, four, … chunks at once, from as many donors as
//! necessary, so that no plateau or cliff narrower than the whole cache ends the trade.

use std::collections::BinaryHeap;

use super::market::{GOODS, MEMORY, Market};
use super::{Deal, Settings};
use crate::rank::Rank;

mod wide;

/// Pairs tried in one round before the window doubles.
const PAIRS: usize = 4096;

/// A profitable deal.
struct Offer {
    good: usize,
    /// The receiver, `t_2` in the paper.
    to: usize,
    /// The donors, with the number of chunks that each gives. The paper has one, `t_1`.
    from: Vec<(usize, u64)>,
    /// The further lift of all tenants after the deal.
    improvement: f64,
}

/// The harvest phase: trades until no deal pays (section 3.4, step 2). Costs `O(log tenants)` for
/// each round except the last of each window, which costs `O(tenants)`.
pub(super) fn harvest(market: &mut Market<'_>) -> Vec<Deal> {
    market.report_all();
    let settings = market.settings;
    let most_rounds = settings.max_rounds.unwrap_or_else(|| (64 * market.tenants.len()).max(10_000));
    let step = settings.acceptance_among(market.tenants.len());
    let mut deals = Vec::new();
    while deals.len() < most_rounds {
        let Some((dominant, improvement)) = market.system_wide_dominant() else { break };
        market.order_by(dominant);
        let Some(offer) = find_deal(market, dominant, improvement, step) else { break };
        deals.push(make_deal(market, &offer, dominant));
    }
    deals
}

/// "Find a tenant `t_1` … and another tenant `t_2` …": the next deal, which must lift all tenants
/// from `now` by `step`.
fn find_deal(market: &Market<'_>, dominant: usize, now: f64, step: f64) -> Option<Offer> {
    if market.settings.repaired() {
        most_profitable_pair(market, dominant, now + step)
            .or_else(|| wide::wide_deal(market, dominant, now, step))
    } else {
        printed_pair(market, dominant, now + step)
    }
}

/// "Take the relinquished resources from `t_2`, give `t_1` the compensation, harvest the
/// difference", and relocate the cache.
fn make_deal(market: &mut Market<'_>, offer: &Offer, dominant: usize) -> Deal {
    let chunk = market.chunk[offer.good];
    let chunks: u64 = offer.from.iter().map(|&(_, chunks)| chunks).sum();
    let settle = |market: &mut Market<'_>, who: usize, chunks: u64, sign: i128| {
        let bytes = sign * i128::from(chunks * chunk);
        let then = match chunks {
            1 => Some(market.reported(who, offer.good, sign > 0)),
            _ => market.needs_after(who, offer.good, bytes),
        };
        market.settle(who, offer.good, bytes, then.expect("the deal was offered"))
    };
    let relinquished = settle(market, offer.to, chunks, 1);
    let mut compensated = vec![0.0; market.resources()];
    for &(from, chunks) in &offer.from {
        let saved = settle(market, from, chunks, -1);
        compensated.iter_mut().zip(saved).for_each(|(sum, saved)| *sum -= saved);
    }
    let place = |who: usize| market.tenants[who].place;
    Deal {
        good: offer.good,
        to: place(offer.to),
        from: offer.from.iter().map(|&(who, chunks)| (place(who), chunks * chunk)).collect(),
        dominant,
        relinquished,
        compensated,
        improvement: offer.improvement,
    }
}

/// The further lift of all tenants after a deal, if that is at least `needed`.
fn improvement(market: &Market<'_>, profit: impl Fn(usize) -> f64, needed: f64) -> Option<f64> {
    let (_, after) = market.system_wide_dominant_after(profit)?;
    (after >= needed).then_some(after)
}

/// The pair whose deal over one chunk harvests most of the dominant resource, among those that pay:
/// the paper's `t_2` with the largest amount relinquished and `t_1` with the smallest compensation,
/// or the next ones if those are one tenant or do not pay (repaired).
///
/// Receivers and donors are ordered, so the profit falls along both. Pairs are visited from the
/// most profitable on, and the search ends once the profit alone is too small.
fn most_profitable_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    // The best pair is nearly always the first of both sides in one of the goods.
    let firsts = (0..GOODS).filter_map(|good| {
        let [gets, costs] = market.first_pair(good, dominant)?;
        Some((Rank(gets.0 - costs.0), std::cmp::Reverse(good), gets.1, costs.1))
    });
    let (Rank(profit), std::cmp::Reverse(good), to, from) = firsts.max()?;
    if profit <= 0.0 || !reaches(market, dominant, profit, needed) {
        return None;
    }
    if to != from
        && let Some(improvement) = improvement(market, market.profit(good, to, from), needed)
    {
        return Some(Offer { good, to, from: vec![(from, 1)], improvement });
    }
    next_pair(market, dominant, needed)
}

/// The same if the pair is not the first of both sides.
fn next_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    let mut sides: Vec<Sides> = (0..GOODS)
        .map(|good| Sides {
            receivers: Ordered::of(market.receivers(good, dominant)),
            donors: Ordered::of(market.donors(good, dominant)),
        })
        .collect();
    let mut heap = BinaryHeap::new();
    let reach = |heap: &mut BinaryHeap<_>, sides: &mut Vec<Sides>, good: usize, i: usize, j: usize| {
        if let (Some(gets), Some(costs)) = (sides[good].receivers.at(i), sides[good].donors.at(j)) {
            // Among equal profits the first in order is visited first.
            heap.push((Rank(gets.0 - costs.0), std::cmp::Reverse((good, i, j)), gets.1, costs.1));
        }
    };
    for good in 0..GOODS {
        reach(&mut heap, &mut sides, good, 0, 0);
    }
    for _ in 0..PAIRS {
        let (Rank(profit), std::cmp::Reverse((good, i, j)), to, from) = heap.pop()?;
        if profit <= 0.0 || !reaches(market, dominant, profit, needed) {
            return None;
        }
        if to != from
            && let Some(improvement) = improvement(market, market.profit(good, to, from), needed)
        {
            return Some(Offer { good, to, from: vec![(from, 1)], improvement });
        }
        reach(&mut heap, &mut sides, good, i, j + 1);
        if j == 0 {
            reach(&mut heap, &mut sides, good, i + 1, 0);
        }
    }
    None
}

/// Returns whether this profit is enough to lift the dominant resource itself.
fn reaches(market: &Market<'_>, dominant: usize, profit: f64, needed: f64) -> bool {
    let sum = market.sums[dominant] - profit;
    sum <= 0.0 || (market.harvest(dominant) + profit) / sum >= needed
}

/// Both sides of the market in a good.
struct Sides<'m> {
    receivers: Ordered<'m>,
    donors: Ordered<'m>,
}

/// An ordered side, evaluated only as far as needed.
struct Ordered<'m> {
    seen: Vec<(f64, usize)>,
    rest: Box<dyn Iterator<Item = (f64, usize)> + 'm>,
}

impl<'m> Ordered<'m> {
    fn of(side: impl Iterator<Item = (f64, usize)> + 'm) -> Self {
        Self { seen: Vec::new(), rest: Box::new(side) }
    }

    fn at(&mut self, i: usize) -> Option<(f64, usize)> {
        while self.seen.len() <= i {
            self.seen.push(self.rest.next()?);
        }
        Some(self.seen[i])
    }
}

/// The pair as printed, and as the authors' engine takes it: `t_2` with the largest amount
/// relinquished and `t_1` with the smallest compensation; if they are the same tenant, the second
/// smallest. If that does not pay, the trade ends.
fn printed_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    let good = MEMORY;
    let [(_, to), (_, mut from)] = market.first_pair(good, dominant)?;
    if from == to {
        (_, from) = market.donors(good, dominant).find(|&(_, from)| from != to)?;
    }
    let improvement = improvement(market, market.profit(good, to, from), needed)?;
    Some(Offer { good, to, from: vec![(from, 1)], improvement })
}

impl Settings {
    /// The least lift of all tenants by a deal. With many tenants each deal concerns only a few of
    /// them, and so lifts all by less: the printed bound, which is for two tenants, would end the
    /// trade of a hundred at once.
    fn acceptance_among(&self, tenants: usize) -> f64 {
        if self.repaired() { self.acceptance * 2.0 / tenants.max(2) as f64 } else { self.acceptance }
    }
}

#[cfg(test)]
mod tests;
