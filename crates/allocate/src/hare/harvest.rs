//! The harvest phase: chunks of cache change hands for resources, as long as that leaves more of the dominant one to everybody.
//!
//! HARE, sections 3.2.1 and 3.4. What is printed there, and in the authors' engine, ends at the first deal that does not pay. That is
//! repaired in three ways. Where the best donor is the best receiver too, both alternatives are tried; a rejected pair is
//! followed by the next best one; and where no single chunk pays, the *window* doubles: two, four, … chunks at once, from as many donors
//! as it takes, so that no plateau and no cliff ends the trade that is narrower than all of the cache.

use std::collections::BinaryHeap;

use super::market::{GOODS, Market, Units};
use super::{Deal, Settings};
use crate::rank::Rank;

/// Pairs that are tried in one round before the window doubles.
const PAIRS: usize = 4096;
/// Receivers that are tried with each window beyond one chunk.
const RECEIVERS: usize = 8;

/// Donors that are looked at for one wide deal, who asks least for one chunk first.
const DONORS: usize = 256;

/// A deal that would pay.
struct Offer {
    good: usize,
    to: usize,
    /// Donors, and how many chunks each gives.
    from: Vec<(usize, u64)>,
    /// How much more everybody could have then.
    improvement: f64,
}

/// Trades until no deal pays. Costs `O(log tenants)` for each round but the last of each window, which costs `O(tenants)`.
pub(super) fn harvest(market: &mut Market<'_>) -> Vec<Deal> {
    market.list_all();
    let settings = market.settings;
    let most_rounds = settings.max_rounds.unwrap_or_else(|| (64 * market.tenants.len()).max(10_000));
    let mut deals = Vec::new();
    while deals.len() < most_rounds {
        let Some((dominant, now)) = market.dominant() else { break };
        let step = settings.acceptance_among(market.tenants.len());
        let needed = now + step;
        let offer = if settings.repaired() {
            best_pair(market, dominant, needed).or_else(|| wide(market, dominant, now, step))
        } else {
            published_pair(market, dominant, needed)
        };
        let Some(offer) = offer else { break };
        deals.push(close(market, &offer, dominant));
    }
    deals
}

/// Carries out a deal.
fn close(market: &mut Market<'_>, offer: &Offer, dominant: usize) -> Deal {
    let chunk = market.chunk[offer.good];
    let before = market.held.clone();
    let chunks: u64 = offer.from.iter().map(|&(_, chunks)| chunks).sum();
    market.settle(offer.to, offer.good, i128::from(chunks * chunk));
    let relinquished = before.iter().zip(&market.held).map(|(before, after)| before - after).collect();
    let between = market.held.clone();
    for &(from, chunks) in &offer.from {
        market.settle(from, offer.good, -i128::from(chunks * chunk));
    }
    let compensated = market.held.iter().zip(&between).map(|(after, before)| after - before).collect();
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

/// What everybody could have more of after a deal, if that is at least `needed`.
fn improvement(market: &Market<'_>, profit: &[f64], needed: f64) -> Option<f64> {
    let (_, after) = market.dominant_after(profit)?;
    (after >= needed).then_some(after)
}

/// The pair whose deal over one chunk harvests most of the dominant resource, among those that pay.
///
/// Receivers and donors are ordered, so that the profit falls along both: pairs are met from the most profitable on, and the search
/// ends where the profit alone is too little.
fn best_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    let mut sides: Vec<Sides> = (0..GOODS)
        .map(|good| Sides {
            receivers: Ordered::of(market.receivers(good, dominant)),
            donors: Ordered::of(market.donors(good, dominant)),
        })
        .collect();
    let mut heap = BinaryHeap::new();
    let reach = |heap: &mut BinaryHeap<_>, sides: &mut Vec<Sides>, good: usize, i: usize, j: usize| {
        if let (Some(gets), Some(costs)) = (sides[good].receivers.at(i), sides[good].donors.at(j)) {
            // Of equal profits the first in order is met first.
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
            && let Some(improvement) = improvement(market, &market.profit(good, to, from), needed)
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

/// Whether this profit lifts the dominant resource itself far enough.
fn reaches(market: &Market<'_>, dominant: usize, profit: f64, needed: f64) -> bool {
    let held = market.held[dominant] - profit;
    held <= 0.0 || (market.harvest(dominant) + profit) / held >= needed
}

/// Both sides of the market in a good.
struct Sides<'m> {
    receivers: Ordered<'m>,
    donors: Ordered<'m>,
}

/// An ordered side, of which only so much is looked at as is asked for.
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

/// The pair as the authors' engine takes it: the most generous receiver and the cheapest donor; if they are one, the
/// second cheapest donor. If that does not pay, the trade is over.
fn published_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    let good = super::market::MEMORY;
    let (_, to) = market.receivers(good, dominant).next()?;
    let (_, from) = market.donors(good, dominant).find(|&(_, from)| from != to)?;
    let improvement = improvement(market, &market.profit(good, to, from), needed)?;
    Some(Offer { good, to, from: vec![(from, 1)], improvement })
}

/// A deal over more than one chunk: first over as many as take a tenant down its next cliff, then over two, four, … for anybody. Each
/// chunk of it must lift everybody as far as a single one must, by `step`.
fn wide(market: &Market<'_>, dominant: usize, now: f64, step: f64) -> Option<Offer> {
    for good in (0..GOODS).filter(|&good| market.chunk[good] > 0) {
        let all: u64 = market.tenants.iter().map(|tenant| tenant.spare(good)).sum();
        // Nobody gains anything beyond the end of its curve.
        let end = market.tenants.iter().map(|tenant| tenant.pool.curve.max_size()).max().unwrap_or(0);
        let all = all.min(end);
        let cliffs = (0..market.tenants.len()).map(|to| (to, market.to_cliff(to, good)));
        let cliffs = cliffs.filter(|&(_, window)| window > 1).collect();
        if let Some(offer) = best_of(market, good, dominant, (now, step), cliffs) {
            return Some(offer);
        }
        let windows = std::iter::successors(Some(2_u64), |window| Some(window * 2));
        for window in windows.take_while(|window| window * market.chunk[good] <= all) {
            let anybody = (0..market.tenants.len()).map(|to| (to, window)).collect();
            if let Some(offer) = best_of(market, good, dominant, (now, step), anybody) {
                return Some(offer);
            }
        }
    }
    None
}

/// The first deal that pays among those in which a tenant gets so many chunks, who relinquishes most for a chunk first.
fn best_of(
    market: &Market<'_>,
    good: usize,
    dominant: usize,
    (now, step): (f64, f64),
    windows: Vec<(usize, u64)>,
) -> Option<Offer> {
    let needed = |window: u64| now + step * window as f64;
    let offers = windows.into_iter().filter_map(|(to, window)| {
        let units = market.relinquish(to, good, window * market.chunk[good])?;
        let each = units[dominant] / window as f64;
        reaches(market, dominant, units[dominant], needed(window)).then_some((Rank(-each), to, window, units))
    });
    let mut receivers: Vec<(Rank, usize, u64, Units)> = offers.collect();
    receivers.sort_by_key(|receiver| (receiver.0, receiver.1));
    receivers.into_iter().take(RECEIVERS).find_map(|(_, to, window, relinquished)| {
        let (from, asked) = gather(market, good, dominant, to, window)?;
        let profit: Units = relinquished.iter().zip(&asked).map(|(gets, costs)| gets - costs).collect();
        let improvement = improvement(market, &profit, needed(window))?;
        Some(Offer { good, to, from, improvement })
    })
}

/// Gathers `window` chunks for `to` from whoever asks least of the dominant resource per chunk, and says what they ask together.
/// A donor may give several chunks at once: the first may be dear and the others, behind its cliff, for nothing.
fn gather(
    market: &Market<'_>,
    good: usize,
    dominant: usize,
    to: usize,
    window: u64,
) -> Option<(Vec<(usize, u64)>, Units)> {
    let chunk = market.chunk[good];
    let mut given = vec![0_u64; market.tenants.len()];
    let nothing = vec![0.0; market.resources()];
    let mut asked: Vec<Units> = vec![nothing; market.tenants.len()];
    // The cheapest way, per chunk, in which a donor gives some of what is missing, beyond what it gives already.
    let cheapest = |given: &[u64], asked: &[Units], from: usize, missing: u64| {
        let powers = std::iter::successors(Some(1_u64), |&chunks| Some(chunks * 2));
        let mut best: Option<(Rank, u64)> = None;
        for chunks in powers.take_while(|&chunks| chunks < missing * 2).map(|chunks| chunks.min(missing)) {
            let Some(units) = market.compensate(from, good, (given[from] + chunks) * chunk) else { continue };
            let each = Rank((units[dominant] - asked[from][dominant]) / chunks as f64);
            if best.is_none_or(|(least, _)| each < least) {
                best = Some((each, chunks));
            }
        }
        best
    };
    let mut heap = BinaryHeap::new();
    let cheapest_first = market.donors(good, dominant).map(|(_, from)| from).filter(|&from| from != to);
    for from in cheapest_first.take(DONORS) {
        if let Some((each, chunks)) = cheapest(&given, &asked, from, window) {
            heap.push(std::cmp::Reverse((each, from, chunks)));
        }
    }
    let mut missing = window;
    while missing > 0 {
        let std::cmp::Reverse((_, from, chunks)) = heap.pop()?;
        if chunks <= missing {
            let units = market.compensate(from, good, (given[from] + chunks) * chunk)?;
            (given[from], asked[from]) = (given[from] + chunks, units);
            missing -= chunks;
        }
        if missing > 0
            && let Some((each, chunks)) = cheapest(&given, &asked, from, missing)
        {
            heap.push(std::cmp::Reverse((each, from, chunks)));
        }
    }
    let sum = |k: usize| asked.iter().map(|units| units[k]).sum();
    let total = (0..market.resources()).map(sum).collect();
    let donors = given.into_iter().enumerate().filter(|&(_, chunks)| chunks > 0).collect();
    Some((donors, total))
}

impl Settings {
    /// By how much a deal must lift everybody. With many tenants each deal concerns only a few of them, so that it lifts
    /// all by less: the printed bound, which is for two tenants, would end the trade of a hundred at once.
    fn acceptance_among(&self, tenants: usize) -> f64 {
        if self.repaired() { self.acceptance * 2.0 / tenants.max(2) as f64 } else { self.acceptance }
    }
}
