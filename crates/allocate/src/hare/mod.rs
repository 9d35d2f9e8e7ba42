//! HARE: harvest and redistribute.
//!
//! Ye, Zhong, Arpaci-Dusseau and Arpaci-Dusseau, "Cache-Centric Multi-Resource Allocation for
//! Storage Services", FAST 2026, section 3. Each tenant starts with the *baseline*, its share by
//! weight of everything. Then, with the paper's numbers (section 3.4):
//!
//! 1. *initialization* collects the resources that each tenant cannot use because another resource
//!    limits it (`Market::initialize`);
//! 2. the *harvest phase* moves chunks of cache from tenants that need little compensation for them
//!    to tenants that relinquish much. Each keeps exactly the throughput of its baseline; the
//!    surplus is harvested. The deal is chosen on the *system-wide dominant resource*, the one with
//!    the smallest harvest relative to the tenants' property (`harvest`);
//! 3. the *redistribute phase* increases each tenant's property by the same share (`redistribute`).
//!
//! So no tenant is ever worse off than with its baseline (the *sharing incentive*), and the least
//! normalised throughput is at least DRF's. If only memory is limited there is nothing to trade it
//! for, and each tenant keeps its baseline. Every run starts from the baseline, not from the
//! present grants: the same view gives the same decision. Of section 4.3, the salt is added in
//! `Tenant::need`, and "selectively apply new allocations" is `Hare::worthwhile`; migration by
//! chunks is left to the caller that applies a decision. A single resource (section 3.2) is a
//! special case, a cache-independent one (section 3.3) has `α = 0`.
//!
//! Beyond the paper: the baseline must hold by the curve without salt too ([`Settings::mode`]);
//! plateaus and cliffs do not end the trade (`harvest::wide`); promises
//! ([`Pool::min_request_rate`](crate::Pool::min_request_rate)) and tail latencies ([`tail`]) count;
//! and the capacity of flash is traded like memory ([`Flash`](crate::Flash)).

mod bounds;
mod explain;
mod harvest;
mod market;
mod offers;
mod order;
mod redistribute;
pub mod tail;
mod tenant;
#[cfg(test)]
mod tests;

use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Outcome, Policy, View, fairness, guard};
pub use tail::TailBound;

/// The rules of the trade: repaired, or as printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Repaired: a rejected deal is followed by the next best, wide deals cross plateaus, the bound
    /// of acceptance depends on the number of tenants, and the sharing incentive holds by the curve
    /// without salt.
    #[default]
    Repaired,
    /// As printed in the paper, and as in the authors' engine: the first deal that does not pay
    /// ends the trade.
    Published,
}

/// The settings of HARE's trade.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Repaired or as published. Default: repaired.
    pub mode: Mode,
    /// True if the harvest beyond the common lift is given out too, in proportion to each tenant's
    /// property (section 3.5, "conserving redistribution"). If false, it stays unassigned, as in
    /// strategy-proof DRF. Default: true.
    pub conserving: bool,
    /// Added to each miss ratio, so that an error of the curve near 0 leaves no tenant without
    /// backend (section 4.3). Default: 0.01.
    pub salt: f64,
    /// Bytes of memory in one deal; `None` = a 64th of a mean baseline, of 2 GB 32 MB as in
    /// HopperKV, and more where that would be over 2^17 chunks. For flash, the same share of its
    /// capacity. Default: `None`.
    pub chunk: Option<u64>,
    /// The least increase of the least relative harvest by a deal, for two tenants; for more, in
    /// inverse proportion to their number. Default: 0.0001.
    pub acceptance: f64,
    /// The gain in least normalised throughput at which a new allocation replaces the present one
    /// (section 4.3). If the present one breaks the sharing incentive or a promise, it is replaced
    /// anyway. 0 = always. Default: 0.05.
    pub apply_threshold: f64,
    /// For each resource, the share of its baseline that a tenant always keeps, so that the first
    /// request that needs the resource is served. Default: 0.01.
    pub least_share: f64,
    /// Deals after which the harvest ends; `None` = 64 per tenant, at least 10,000. Default:
    /// `None`.
    pub max_rounds: Option<usize>,
    /// The goods to trade: memory, and the capacity of flash. A good that is not traded stays split
    /// by weight. Default: both.
    pub goods: [bool; 2],
    /// True if promises to pools ([`min_request_rate`](crate::Pool::min_request_rate)) take
    /// precedence over gains of others. Default: true.
    pub promises: bool,
    /// A bound on tail latency, which pools keep. Default: none.
    pub tail: Option<TailBound>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Repaired,
            conserving: true,
            salt: 0.01,
            chunk: None,
            acceptance: 1e-4,
            apply_threshold: 0.05,
            least_share: 0.01,
            max_rounds: None,
            goods: [true, true],
            promises: true,
            tail: None,
        }
    }
}

impl Settings {
    /// The settings as printed in the paper, with the constants of HopperKV's driver.
    pub fn published() -> Self {
        Self { mode: Mode::Published, least_share: 0.0, promises: false, ..Self::default() }
    }

    fn repaired(&self) -> bool {
        self.mode == Mode::Repaired
    }

    /// Returns whether needs are those of the worse of two curves, with salt and without. With salt
    /// alone, the misses of a tenant that nearly fits seem twice as many as they are, so the tenant
    /// gives its cache away for half of the compensation that it then needs.
    fn holds_by_plain_curve(&self) -> bool {
        self.repaired()
    }

    /// The bytes of a chunk, if all tenants together have `all`.
    fn chunk_of(&self, all: u64, tenants: usize) -> u64 {
        let mean = all / tenants.max(1) as u64;
        let largest_number = 1 << 17;
        self.chunk.unwrap_or(mean / 64).max(all / largest_number).max(u64::from(all > 0))
    }
}

/// A trade of cache for resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Deal {
    /// The traded good: 0 = memory, 1 = the capacity of flash.
    pub good: usize,
    /// The receiver, by its place in the view.
    pub to: usize,
    /// The donors, by their places in the view, with the bytes that each gives.
    pub from: Vec<(usize, u64)>,
    /// The system-wide dominant resource, on which the deal was chosen.
    pub dominant: usize,
    /// For each resource, the units that the receiver relinquishes.
    pub relinquished: Vec<f64>,
    /// For each resource, the units that the donors get as compensation.
    pub compensated: Vec<f64>,
    /// The share by which all tenants could be lifted after the deal.
    pub improvement: f64,
}

/// The result of HARE, with its derivation.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// One for each pool, in the order of the view.
    pub grants: Vec<Grant>,
    /// All deals, in order.
    pub deals: Vec<Deal>,
    /// The share by which each pool is lifted over its baseline, except for those that a promise
    /// lifts further.
    pub improvement: f64,
    /// For each resource, the harvest of initialisation and trade before its redistribution.
    pub harvest: Vec<f64>,
    /// The units of each resource that each pool holds before redistribution.
    pub held: Vec<Vec<f64>>,
}

/// The three steps of section 3.4: initialization, harvest phase, redistribute phase.
pub fn allocate(view: &View, settings: &Settings) -> Allocation {
    allocate_from(view, settings, &fairness::baseline(view))
}

fn allocate_from(view: &View, settings: &Settings, baseline: &[Grant]) -> Allocation {
    let promised = settings.promises && view.pools.iter().any(|pool| pool.min_request_rate > 0.0);
    let kept = promised.then(|| run(view, settings, true, true, baseline)).flatten();
    kept.or_else(|| run(view, settings, false, true, baseline)).expect("a baseline is not more than there is")
}

/// Initializes and redistributes, without a trade in between: DRF, over memory that is split by
/// `baseline` (section 3.5, "Compatibility with DRF").
pub(crate) fn without_trade(view: &View, settings: &Settings, baseline: &[Grant]) -> Allocation {
    run(view, settings, false, false, baseline).expect("a baseline is not more than there is")
}

/// The three steps, with and without promises and trade. `None` if trades for promises that cannot
/// be kept leave others below their baseline.
fn run(
    view: &View,
    settings: &Settings,
    promised: bool,
    trade: bool,
    baseline: &[Grant],
) -> Option<Allocation> {
    let mut market = market::Market::initialize(view, settings, promised, baseline);
    let deals = if trade { harvest::harvest(&mut market) } else { Vec::new() };
    let (grants, improvement) = redistribute::redistribute(view, &market)?;
    let harvest = (0..market.resources()).map(|k| market.harvest(k)).collect();
    let mut held = vec![Vec::new(); view.pools.len()];
    for tenant in &market.tenants {
        held[tenant.place] = tenant.needs().collect();
    }
    Some(Allocation { grants, deals, improvement, harvest, held })
}

/// HARE as a policy.
#[derive(Clone, Debug, Default)]
pub struct Hare {
    /// The settings of the trade.
    pub settings: Settings,
}

impl Policy for Hare {
    fn name(&self) -> &'static str {
        if self.settings.repaired() { "hare" } else { "hare-published" }
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let baseline = fairness::baseline(view);
            let allocation = allocate_from(view, &self.settings, &baseline);
            let alone = view.pools.iter().zip(&baseline).map(|(pool, grant)| Outcome::of(pool, grant));
            let alone: Vec<Outcome> = alone.collect();
            let mut decision = Decision::by_place(view, allocation.grants.clone(), |_, _| String::new());
            if self.worthwhile(view, &alone, &decision) {
                explain::explain(view, &alone, &allocation, &mut decision);
            } else {
                decision = Decision::stay(view);
            }
            decision.unmet = guard::unmet(view, &decision);
            decision
        })
    }
}

impl Hare {
    /// "Selectively apply new allocations" (section 4.3): returns whether a decision is better than
    /// the present state by the threshold, or the present state cannot or should not stay. `alone`
    /// is the outcome of each pool with its baseline.
    fn worthwhile(&self, view: &View, alone: &[Outcome], decision: &Decision) -> bool {
        let present: Vec<Grant> = view.pools.iter().map(Grant::present).collect();
        if self.settings.apply_threshold <= 0.0 || !guard::possible(view, &present) {
            return true;
        }
        let breaks = |outcomes: &[Outcome]| {
            let each = view.pools.iter().zip(outcomes);
            each.filter(|(pool, outcome)| outcome.throughput < pool.min_request_rate * (1.0 - 1e-6)).count()
        };
        let least = |outcomes: &[Outcome]| {
            let each = alone.iter().zip(outcomes);
            each.map(|(&alone, &outcome)| fairness::relative(alone, outcome)).reduce(f64::min).unwrap_or(1.0)
        };
        let (now, then) = (least(&decision.before), least(&decision.after));
        let promised = self.settings.promises && breaks(&decision.before) > breaks(&decision.after);
        promised || now < 1.0 - 1e-9 || then > now + self.settings.apply_threshold
    }
}
