//! Deals over more than one chunk, for when no single chunk pays: beyond the paper, whose trade
//! ends there.
//!
//! A plateau wider than a chunk makes each single chunk worthless to a receiver, and a cliff behind
//! it unreachable. So a tenant is offered as many chunks at once as take it down its next cliff,
//! then two, four, …, from as many donors as necessary.

use std::collections::BinaryHeap;

use super::super::market::{Market, Units};
use super::{GOODS, Offer, Rank, improvement, reaches};

/// Receivers tried with each window of more than one chunk.
const RECEIVERS: usize = 8;

/// Donors considered for one wide deal, those that ask least for one chunk first.
const DONORS: usize = 256;

/// A deal over more than one chunk: first over as many as take a tenant down its next cliff, then
/// over two, four, … for any tenant. Each chunk of the deal must lift all tenants as far as a
/// single one must, by `step`.
///
/// For most tenants not all windows are tried: if the curves of a tenant and of all donors only
/// flatten, a wide deal pays no more per chunk than a single one, which did not pay.
pub(super) fn wide_deal(market: &Market<'_>, dominant: usize, now: f64, step: f64) -> Option<Offer> {
    for good in (0..GOODS).filter(|&good| market.chunk[good] > 0) {
        let chunk = market.chunk[good];
        let all = most_bytes(market, good);
        let donors = Donors::of(market, good, dominant, all / chunk);
        let price = donors.price();
        // The profit that each chunk must bring falls slightly with the number of chunks, so the
        // largest number gives the bound.
        let chunks = (all / chunk) as f64;
        let must = market.sums[dominant] * step / (1.0 + now.max(0.0) + step * chunks);
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

/// The bytes of a good that all tenants together can give and some tenant can gain from: no tenant
/// gains beyond the end of its curve.
pub(super) fn most_bytes(market: &Market<'_>, good: usize) -> u64 {
    let all: u64 = market.tenants.iter().map(|tenant| tenant.spare(good)).sum();
    let end = market.tenants.iter().map(|tenant| tenant.pool.curve.max_size()).max().unwrap_or(0);
    all.min(end)
}

/// The first profitable deal in which a tenant gets a window of chunks, tried in the order of the
/// amount that tenants relinquish per chunk, the most first. No donor gives a chunk for less than
/// `price`, and no tenant relinquishes more than its bound for a chunk; `windows` are ordered by
/// those bounds, the highest first.
pub(super) fn best_of(
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
        let Some(units) = market.relinquish(dominant, to, good, window * market.chunk[good]) else {
            continue;
        };
        let (each, chunks) = (units / window as f64, window as f64);
        // The least cost, less a margin for rounding.
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

/// The tenants that would give chunks of a good, and their prices in the dominant resource.
pub(super) struct Donors<'m, 'a> {
    market: &'m Market<'a>,
    good: usize,
    dominant: usize,
    /// The tenants that ask least for one chunk, the least first.
    who: Vec<usize>,
    /// The price of each for one chunk, two, four, … together.
    asked: Vec<Vec<Option<f64>>>,
}

impl<'m, 'a> Donors<'m, 'a> {
    /// Collects donors for deals of at most `most` chunks.
    pub(super) fn of(market: &'m Market<'a>, good: usize, dominant: usize, most: u64) -> Self {
        // One more than are considered, as one may be the receiver.
        let who: Vec<usize> = market.donors(good, dominant).map(|(_, who)| who).take(DONORS + 1).collect();
        let ask =
            |who: usize, chunks: u64| market.compensation(dominant, who, good, chunks * market.chunk[good]);
        let powers = |&who: &usize| powers(most).map(|chunks| ask(who, chunks)).collect();
        Self { market, good, dominant, asked: who.iter().map(powers).collect(), who }
    }

    /// The price of the donor at `place` for `chunks` chunks.
    fn ask(&self, place: usize, chunks: u64) -> Option<f64> {
        if chunks.is_power_of_two()
            && let Some(&asked) = self.asked[place].get(chunks.ilog2() as usize)
        {
            return asked;
        }
        self.market.compensation(
            self.dominant,
            self.who[place],
            self.good,
            chunks * self.market.chunk[self.good],
        )
    }

    /// A lower bound on the price of a chunk.
    fn price(&self) -> f64 {
        let asked = self.who.iter().map(|&from| self.market.least_asked(from, self.good, self.dominant));
        asked.fold(f64::INFINITY, f64::min)
    }

    /// The cheapest way, per chunk, in which a donor gives some of the `missing` chunks, beyond
    /// those that it already gives at their price. This may be several chunks at once: the first
    /// may be expensive and the others, behind the donor's cliff, free.
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

    /// Gathers `window` chunks for `to` from the donors that ask least per chunk. Returns the
    /// chunks of each donor, and their total price in each resource.
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
pub(super) fn powers(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |&power| power.checked_mul(2)).take_while(move |&power| power <= most)
}
