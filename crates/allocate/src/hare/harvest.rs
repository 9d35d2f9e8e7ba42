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
        market.sort(dominant);
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
    let chunks: u64 = offer.from.iter().map(|&(_, chunks)| chunks).sum();
    let settle = |market: &mut Market<'_>, who: usize, chunks: u64, sign: i128| {
        let bytes = sign * i128::from(chunks * chunk);
        let then = match chunks {
            1 => Some(market.needs_after_chunk(who, offer.good, sign > 0)),
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

/// What everybody could have more of after a deal, if that is at least `needed`.
fn improvement(market: &Market<'_>, profit: impl Fn(usize) -> f64, needed: f64) -> Option<f64> {
    let (_, after) = market.dominant_after(profit)?;
    (after >= needed).then_some(after)
}

/// The pair whose deal over one chunk harvests most of the dominant resource, among those that pay.
///
/// Receivers and donors are ordered, so that the profit falls along both: pairs are met from the most profitable on, and the search
/// ends where the profit alone is too little.
fn best_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    // Nearly always it is the first of both sides in one of the goods.
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

/// The same where it is not the first of both sides.
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
    let [(_, to), (_, mut from)] = market.first_pair(good, dominant)?;
    if from == to {
        (_, from) = market.donors(good, dominant).find(|&(_, from)| from != to)?;
    }
    let improvement = improvement(market, market.profit(good, to, from), needed)?;
    Some(Offer { good, to, from: vec![(from, 1)], improvement })
}

/// A deal over more than one chunk: first over as many as take a tenant down its next cliff, then over two, four, … for anybody. Each
/// chunk of it must lift everybody as far as a single one must, by `step`.
///
/// Most tenants need no look at all windows: where the curves of a tenant and of all donors only flatten, a wide deal pays no more
/// per chunk than a single one, which has been seen not to pay.
fn wide(market: &Market<'_>, dominant: usize, now: f64, step: f64) -> Option<Offer> {
    for good in (0..GOODS).filter(|&good| market.chunk[good] > 0) {
        let chunk = market.chunk[good];
        let all = most_bytes(market, good);
        let donors = Donors::of(market, good, dominant, all / chunk);
        let price = donors.price();
        // What each of so many chunks must bring at least falls with their number, if hardly: the last of all counts.
        let chunks = (all / chunk) as f64;
        let must = market.held[dominant] * step / (1.0 + now.max(0.0) + step * chunks);
        let bound = |to| market.most_relinquished(to, good, dominant);
        let receivers = (0..market.tenants.len()).map(|to| (Rank(-bound(to)), to));
        let may = |&(bound, _): &(Rank, usize)| -bound.0 - price >= must * (1.0 - 1e-6);
        let mut receivers: Vec<(Rank, usize)> = receivers.filter(may).collect();
        receivers.sort_unstable();
        let cliff = |&(bound, to): &(Rank, usize)| (bound, to, market.to_cliff(to, good));
        let cliffs = receivers.iter().map(cliff).filter(|&(.., window)| window > 1);
        if let Some(offer) = best_of(&donors, price, (now, step), cliffs) {
            return Some(offer);
        }
        for window in powers(all / chunk).skip(1) {
            let anybody = receivers.iter().map(|&(bound, to)| (bound, to, window));
            if let Some(offer) = best_of(&donors, price, (now, step), anybody) {
                return Some(offer);
            }
        }
    }
    None
}

/// What all tenants together can give of a good, as far as anybody gains by it: nobody does beyond the end of its curve.
fn most_bytes(market: &Market<'_>, good: usize) -> u64 {
    let all: u64 = market.tenants.iter().map(|tenant| tenant.spare(good)).sum();
    let end = market.tenants.iter().map(|tenant| tenant.pool.curve.max_size()).max().unwrap_or(0);
    all.min(end)
}

/// The first deal that pays among those in which a tenant gets so many chunks, who relinquishes most for a chunk first. No donor gives
/// a chunk for less than `price`, and no tenant relinquishes more than its bound for one; who has the highest comes first.
fn best_of(
    donors: &Donors<'_, '_>,
    price: f64,
    (now, step): (f64, f64),
    windows: impl Iterator<Item = (Rank, usize, u64)>,
) -> Option<Offer> {
    let Donors { market, good, dominant, .. } = *donors;
    let needed = |window: u64| now + step * window as f64;
    let mut best: Vec<(Rank, usize, u64)> = Vec::with_capacity(RECEIVERS + 1);
    for (bound, to, window) in windows {
        if best.len() == RECEIVERS && best[RECEIVERS - 1].0 < bound {
            break;
        }
        let Some(units) = market.relinquish_of(dominant, to, good, window * market.chunk[good]) else {
            continue;
        };
        let (each, chunks) = (units / window as f64, window as f64);
        // What it costs at least, less what rounding may have added to it.
        if reaches(market, dominant, units - price.max(0.0) * chunks * (1.0 - 1e-9), needed(window)) {
            let receiver = (Rank(-each), to, window);
            best.insert(best.partition_point(|better| *better < receiver), receiver);
            best.truncate(RECEIVERS);
        }
    }
    best.into_iter().find_map(|(_, to, window)| {
        let then = market.needs_after(to, good, i128::from(window * market.chunk[good]))?;
        let (from, asked) = donors.gather(to, window)?;
        let profit: Units = market.saved(to, &then).zip(asked).map(|(gets, costs)| gets - costs).collect();
        let improvement = improvement(market, |k| profit[k], needed(window))?;
        Some(Offer { good, to, from, improvement })
    })
}

/// Who would give chunks of a good, and for how much of the dominant resource.
struct Donors<'m, 'a> {
    market: &'m Market<'a>,
    good: usize,
    dominant: usize,
    /// Those who ask least for one chunk, the least first.
    who: Vec<usize>,
    /// What each asks for one chunk, two, four, … together.
    asked: Vec<Vec<Option<f64>>>,
}

impl<'m, 'a> Donors<'m, 'a> {
    /// Donors for deals of at most so many chunks.
    fn of(market: &'m Market<'a>, good: usize, dominant: usize, most: u64) -> Self {
        // One more than are looked at, for one may be the receiver.
        let who: Vec<usize> = market.donors(good, dominant).map(|(_, who)| who).take(DONORS + 1).collect();
        let ask =
            |who: usize, chunks: u64| market.compensate_of(dominant, who, good, chunks * market.chunk[good]);
        let powers = |&who: &usize| powers(most).map(|chunks| ask(who, chunks)).collect();
        Self { market, good, dominant, asked: who.iter().map(powers).collect(), who }
    }

    /// What the donor at `place` asks for so many chunks.
    fn ask(&self, place: usize, chunks: u64) -> Option<f64> {
        if chunks.is_power_of_two()
            && let Some(&asked) = self.asked[place].get(chunks.ilog2() as usize)
        {
            return asked;
        }
        self.market.compensate_of(
            self.dominant,
            self.who[place],
            self.good,
            chunks * self.market.chunk[self.good],
        )
    }

    /// No chunk is had for less than this.
    fn price(&self) -> f64 {
        let asked = self.who.iter().map(|&from| self.market.least_asked(from, self.good, self.dominant));
        asked.fold(f64::INFINITY, f64::min)
    }

    /// The cheapest way, per chunk, in which a donor gives some of what is missing, beyond the chunks that it gives already for what it
    /// asks already. It may be several chunks at once: the first may be dear and the others, behind its cliff, for nothing.
    fn cheapest(&self, place: usize, (given, asked): (u64, f64), missing: u64) -> Option<(Rank, u64)> {
        let mut best: Option<(Rank, u64)> = None;
        for chunks in powers(missing * 2 - 1).map(|chunks| chunks.min(missing)) {
            let Some(together) = self.ask(place, given + chunks) else { continue };
            let each = Rank((together - asked) / chunks as f64);
            if best.is_none_or(|(least, _)| each < least) {
                best = Some((each, chunks));
            }
        }
        best
    }

    /// Gathers `window` chunks for `to` from whoever asks least per chunk: who gives how many, and what they ask of each resource together.
    fn gather(&self, to: usize, window: u64) -> Option<(Vec<(usize, u64)>, Units)> {
        let mut given: Vec<(u64, f64)> = vec![(0, 0.0); self.who.len()];
        let mut heap = BinaryHeap::new();
        let others = (0..self.who.len()).filter(|&place| self.who[place] != to);
        for place in others.take(DONORS) {
            if let Some((each, chunks)) = self.cheapest(place, given[place], window) {
                heap.push(std::cmp::Reverse((each, self.who[place], place, chunks)));
            }
        }
        let mut missing = window;
        while missing > 0 {
            let std::cmp::Reverse((_, who, place, chunks)) = heap.pop()?;
            if chunks <= missing {
                let chunks_given = given[place].0 + chunks;
                given[place] = (chunks_given, self.ask(place, chunks_given)?);
                missing -= chunks;
            }
            if missing > 0
                && let Some((each, chunks)) = self.cheapest(place, given[place], missing)
            {
                heap.push(std::cmp::Reverse((each, who, place, chunks)));
            }
        }
        let gives = self.who.iter().zip(given).map(|(&who, (chunks, _))| (who, chunks));
        let mut gives: Vec<(usize, u64)> = gives.filter(|&(_, chunks)| chunks > 0).collect();
        gives.sort_unstable();
        let mut total = vec![0.0; self.market.resources()];
        for &(who, chunks) in &gives {
            let bytes = i128::from(chunks * self.market.chunk[self.good]);
            let then = self.market.needs_after(who, self.good, -bytes)?;
            total.iter_mut().zip(self.market.saved(who, &then)).for_each(|(sum, saved)| *sum -= saved);
        }
        Some((gives, total))
    }
}

/// 1, 2, 4, … up to `most`.
fn powers(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |&power| power.checked_mul(2)).take_while(move |&power| power <= most)
}

impl Settings {
    /// By how much a deal must lift everybody. With many tenants each deal concerns only a few of them, so that it lifts
    /// all by less: the printed bound, which is for two tenants, would end the trade of a hundred at once.
    fn acceptance_among(&self, tenants: usize) -> f64 {
        if self.repaired() { self.acceptance * 2.0 / tenants.max(2) as f64 } else { self.acceptance }
    }
}

#[cfg(test)]
mod tests;
