//! The redistribute phase: the harvest lifts all tenants by the same share. HARE, sections 3.2.1
//! and 3.4, step 3.
//!
//! The paper's one step, "Weighted-Partition the Harvest", gives tenant `t` of each resource
//! `r_harvest · r_t / r_sum` beside its `r_t`. On the system-wide dominant resource that is the
//! lift of all tenants ([`Lift`]); on the others it is the *conserving redistribution* of section
//! 3.5 ([`conserving_redistribution`]), which can be left out as DRF does. Without promises both
//! together are the paper's formula. With them, a tenant whose promise exceeds the lift gets its
//! promise, and the others share the rest (beyond the paper).

use super::market::{FLASH, MEMORY, Market};
use crate::partition::shares;
use crate::{Grant, View};

/// The redistribute phase: the final grant of each pool, in the order of the view, and the share by
/// which each is lifted over its baseline. `None` if the needs exceed the totals even without
/// promises.
pub(super) fn redistribute(view: &View, market: &Market<'_>) -> Option<(Vec<Grant>, f64)> {
    let lift = Lift::of(market)?;
    let mut granted: Vec<Vec<f64>> = (0..market.tenants.len()).map(|who| lift.granted(market, who)).collect();
    if market.settings.conserving {
        conserving_redistribution(view, market, &mut granted);
    }
    let mut grants = vec![Grant::default(); view.pools.len()];
    for (tenant, mut resources) in market.tenants.iter().zip(granted) {
        if let Some(flash) = &tenant.pool.flash {
            resources[flash.capacity] = tenant.has[FLASH] as f64;
        }
        grants[tenant.place] = Grant { memory: tenant.has[MEMORY], resources };
    }
    Some((grants, lift.share - 1.0))
}

/// The lift of tenants: their throughput is the larger of `share` of the baseline and `promised` of
/// their promise. Without promises `share` is `1 + r_harvest / r_sum` of the system-wide dominant
/// resource.
struct Lift {
    share: f64,
    promised: f64,
}

impl Lift {
    /// The largest lift that the totals allow: of all tenants as far as promises permit or, if
    /// promises alone need too much, as much of the promises as leaves each tenant its baseline.
    fn of(market: &Market<'_>) -> Option<Self> {
        let relative = market.system_wide_dominant().map_or(0.0, |(_, relative)| relative);
        let promises = market.tenants.iter().any(|tenant| tenant.promise > 1.0);
        if !promises {
            return (relative >= -1e-9).then_some(Self { share: 1.0 + relative.max(0.0), promised: 1.0 });
        }
        let fits = |lift: &Self| lift.fits(market);
        if relative >= 0.0 {
            // Beyond this share, every tenant would be lifted by more than the harvest allows.
            let most = market.tenants.iter().map(|tenant| tenant.promise);
            let most = most.filter(|promise| promise.is_finite()).fold(1.0, f64::max) * (1.0 + relative);
            Some(Self {
                share: largest(1.0, most, |share| fits(&Self { share, promised: 1.0 })),
                promised: 1.0,
            })
        } else if fits(&Self { share: 1.0, promised: 0.0 }) {
            Some(Self {
                share: 1.0,
                promised: largest(0.0, 1.0, |promised| fits(&Self { share: 1.0, promised })),
            })
        } else {
            None
        }
    }

    /// The factor for a tenant's needs.
    fn factor(&self, promise: f64) -> f64 {
        if promise.is_finite() { self.share.max(self.promised * promise) / promise } else { self.promised }
    }

    fn granted(&self, market: &Market<'_>, who: usize) -> Vec<f64> {
        let tenant = &market.tenants[who];
        tenant.needs().map(|need| need * self.factor(tenant.promise)).collect()
    }

    fn fits(&self, market: &Market<'_>) -> bool {
        let mut sums = vec![0.0; market.resources()];
        for tenant in &market.tenants {
            let factor = self.factor(tenant.promise);
            sums.iter_mut().zip(tenant.needs()).for_each(|(sum, need)| *sum += need * factor);
        }
        sums.into_iter().enumerate().all(|(k, sum)| sum <= market.harvest(k) + market.sums[k])
    }
}

/// The largest value between `low` and `high` that fits, to a billionth, given that smaller ones
/// do.
fn largest(low: f64, high: f64, fits: impl Fn(f64) -> bool) -> f64 {
    if fits(high) {
        return high;
    }
    let (mut low, mut high) = (low, high);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// Conserving redistribution (section 3.5): the remainder of each resource, in proportion to each
/// tenant's property of it; by weight if no tenant has any.
fn conserving_redistribution(view: &View, market: &Market<'_>, granted: &mut [Vec<f64>]) {
    let weights: Vec<f64> = view.pools.iter().map(|pool| pool.weight).collect();
    let by_weight = shares(view, &weights);
    for k in (0..market.resources()).filter(|&k| market.capacity != Some(k)) {
        let total = market.harvest(k) + market.sums[k];
        let sum: f64 = granted.iter().map(|units| units[k]).sum();
        for (units, tenant) in granted.iter_mut().zip(&market.tenants) {
            units[k] =
                if sum > 0.0 { units[k] * (total / sum) } else { by_weight[tenant.place].resources[k] };
        }
    }
}
