//! The harvest against itself with nothing remembered and nothing left out: everybody is asked anew
//! for every deal, by section 3.4 word for word. What is found by orders that are kept, and by
//! bounds that spare a look, must be what that finds, deal for deal.

use base::rng::{RngExt, SeededRng, seeded};
use curve::{MissRatioCurve, Point, Unit};

use super::super::market::{FLASH, Units};
use super::wide::{Donors, best_of, most_bytes, powers, wide_deal};
use super::*;
use crate::{Demand, Flash, Pool, Resource, View, fairness};

/// The deal over one chunk that harvests most of the dominant resource, among those that lift
/// everybody to `needed`.
fn plain_pair(market: &Market<'_>, dominant: usize, needed: f64) -> Option<Offer> {
    let mut best: Option<(Rank, Rank, Offer)> = None;
    for good in [MEMORY, FLASH].into_iter().filter(|&good| market.chunk[good] > 0) {
        let chunk = i128::from(market.chunk[good]);
        let tenants = 0..market.tenants.len();
        let saved = |who: usize, bytes: i128| -> Option<Units> {
            let then = market.needs_after(who, good, bytes)?;
            Some(market.saved(who, &then).collect())
        };
        let costs: Vec<Option<Units>> = tenants.clone().map(|from| saved(from, -chunk)).collect();
        for to in tenants.clone() {
            let Some(gets) = saved(to, chunk) else { continue };
            for from in tenants.clone().filter(|&from| from != to) {
                let Some(costs) = &costs[from] else { continue };
                let profit = |k: usize| gets[k] + costs[k];
                let Some(improvement) = improvement(market, profit, needed) else { continue };
                // Of equal profits, who relinquishes most comes first, then who is first by name.
                let (all, gets) = (Rank(profit(dominant)), Rank(gets[dominant]));
                if all.0 > 0.0 && best.as_ref().is_none_or(|held| (all, gets) > (held.0, held.1)) {
                    best = Some((all, gets, Offer { good, to, from: vec![(from, 1)], improvement }));
                }
            }
        }
    }
    best.map(|(.., offer)| offer)
}

/// A wide deal, where everybody and every window is looked at.
fn plain_wide(market: &Market<'_>, dominant: usize, now: f64, step: f64) -> Option<Offer> {
    for good in (0..GOODS).filter(|&good| market.chunk[good] > 0) {
        let most = most_bytes(market, good) / market.chunk[good];
        let donors = Donors::of(market, good, dominant, most);
        let unknown = Rank(f64::NEG_INFINITY);
        let tenants = 0..market.tenants.len();
        let cliffs = tenants.clone().map(|to| (unknown, to, market.to_cliff(to, good)));
        let cliffs = cliffs.filter(|&(.., window)| window > 1);
        let found = best_of(&donors, f64::NEG_INFINITY, (now, step), cliffs).or_else(|| {
            powers(most).skip(1).find_map(|window| {
                let anybody = tenants.clone().map(|to| (unknown, to, window));
                best_of(&donors, f64::NEG_INFINITY, (now, step), anybody)
            })
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

fn curve(rng: &mut SeededRng, memory: u64) -> MissRatioCurve {
    let mut points = Vec::new();
    let (mut size, mut misses) = (0, 1.0);
    let smooth = rng.random_bool(0.4);
    for _ in 0..rng.random_range(1..20) {
        size += rng.random_range(1..memory / 8 + 2);
        let falls = if smooth { 0.2 } else { [0.0, 0.02, 0.3, 0.9][rng.random_range(0..4)] };
        misses *= 1.0 - rng.random_range(0.0..=falls);
        points.push(Point { size, miss_ratio: if rng.random_bool(0.02) { 0.0 } else { misses } });
    }
    MissRatioCurve::new(Unit::Bytes, points).expect("sizes rise")
}

/// A market of a few tenants with curves of any shape, of whom some are alike.
fn view(rng: &mut SeededRng) -> View {
    let (tenants, memory) = (rng.random_range(2..8_u64), rng.random_range(1_000..1_000_000_u64));
    let rates = rng.random_range(1..4);
    let total = |_| rng.random_range(10.0..1e4);
    let mut totals: Vec<f64> = (0..rates).map(total).collect();
    let flash = rng.random_bool(0.2).then_some(rates);
    totals.extend(flash.map(|_| memory as f64 * 3.0));
    let resources = totals.iter().enumerate();
    let resources = resources.map(|(k, &total)| Resource { name: format!("r{k}"), total }).collect();
    let mut pools: Vec<Pool> = Vec::new();
    for i in 0..tenants {
        let mut pool = match pools.last() {
            Some(last) if rng.random_bool(0.2) => Pool { name: format!("p{i}").into(), ..last.clone() },
            _ => Pool::new(format!("p{i}"), curve(rng, memory), 0),
        };
        pool.weight = rng.random_range(0.5..2.0);
        pool.floor = if rng.random_bool(0.2) { memory / tenants / 2 } else { 0 };
        pool.ceiling = if rng.random_bool(0.2) { memory / 2 } else { u64::MAX };
        let saved = [0.0, 0.5, 1.0, 1.0];
        let demand = |_| Demand::new(rng.random_range(0.1..3.0), saved[rng.random_range(0..4)]);
        pool.demands = (0..rates).map(demand).collect();
        pool.flash = flash.map(|capacity| {
            pool.demands.push(Demand::default());
            let mut units = |k| if k < capacity { rng.random_range(0.0..0.5) } else { 0.0 };
            let on_hit = (0..=capacity).map(&mut units).collect();
            Flash { capacity, on_hit, on_eviction: (0..=capacity).map(&mut units).collect() }
        });
        pool.grants = vec![0.0; pool.demands.len()];
        pools.push(pool);
    }
    let view = View { memory, resources, pools, ..View::default() };
    view.validate().expect("it is a view");
    view
}

#[track_caller]
fn assert_same(found: Option<&Offer>, expected: Option<&Offer>, case: &str) {
    let terms = |offer: &Offer| (offer.good, offer.to, offer.from.clone(), offer.improvement);
    assert_eq!(found.map(terms), expected.map(terms), "{case}");
}

#[test]
fn every_deal_is_the_one_that_asking_everybody_finds() {
    let (mut singles, mut wides) = (0, 0);
    for seed in 0..2_000 {
        let rng = &mut seeded(seed);
        let view = view(rng);
        let salt = if rng.random_bool(0.5) { 0.01 } else { 0.0 };
        let mean = view.memory / view.pools.len() as u64;
        let chunk = Some((mean / rng.random_range(4..40)).max(1));
        let settings = Settings { salt, chunk, ..Settings::default() };
        let baseline = fairness::baseline(&view);
        let mut market = Market::initialize(&view, &settings, false, &baseline);
        market.report_all();
        let step = settings.acceptance_among(market.tenants.len());
        for round in 0..60 {
            let case = format!("seed {seed}, round {round}");
            let Some((dominant, now)) = market.system_wide_dominant() else { break };
            market.order_by(dominant);
            let single = most_profitable_pair(&market, dominant, now + step);
            assert_same(single.as_ref(), plain_pair(&market, dominant, now + step).as_ref(), &case);
            singles += usize::from(single.is_some());
            let offer = single.or_else(|| {
                let offer = wide_deal(&market, dominant, now, step);
                assert_same(offer.as_ref(), plain_wide(&market, dominant, now, step).as_ref(), &case);
                wides += usize::from(offer.is_some());
                offer
            });
            let Some(offer) = offer else { break };
            make_deal(&mut market, &offer, dominant);
        }
    }
    assert!(singles > 10_000 && wides > 500, "{singles} deals over one chunk, {wides} wide ones");
}
