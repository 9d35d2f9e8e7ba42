//! One tenant of the trade: its goods, the throughput that it keeps, and its need of each resource
//! for that throughput. HARE, sections 3.3 and 3.4.

use curve::MissRatioCurve;

use super::Settings;
use super::market::{FLASH, GOODS, MEMORY, Units};
use super::tail::Tail;
use crate::{Demand, Grant, Misses, Pool};

/// A tenant, with its property.
pub(super) struct Tenant<'a> {
    pub(super) pool: &'a Pool,
    /// Its place in the view.
    pub(super) place: usize,
    /// For each good, the bytes that the tenant holds; below, the least and the most that it may
    /// hold.
    pub(super) has: [u64; GOODS],
    pub(super) least: [u64; GOODS],
    most: [u64; GOODS],
    /// `T(r_c, r_1, …, r_n)` of section 3.4: the requests per second that it keeps whatever it
    /// trades. They are those of the baseline or, if that is more and promises count, the promised
    /// ones. By the curve with salt; infinite if it needs only memory.
    pub(super) throughput: f64,
    /// The same by the curve without salt.
    pub(super) plain_throughput: f64,
    /// The promise relative to the baseline if that is more than 1; otherwise 1.
    pub(super) promise: f64,
    /// Its stake in each resource. These and the curve are stored here beside the other fields that
    /// a deal reads, as a market of thousands does not fit in the processor's caches.
    pub(super) stakes: Vec<Stake>,
    pub(super) curve: &'a MissRatioCurve,
    /// True if it has a second level.
    pub(super) flash: bool,
    /// The point of the curve that its memory is at.
    pub(super) near: usize,
}

/// The relation of a tenant to a resource.
#[derive(Clone, Copy)]
pub(super) struct Stake {
    /// The demand of a request for the resource without a second level: `d_i` and `α_i`.
    pub(super) demand: Demand,
    /// Units per second that the tenant must keep whatever its need.
    pub(super) keeps: f64,
    /// `r_i`, the units per second that it owns while it trades: exactly its need for its
    /// throughput.
    pub(super) needs: f64,
}

/// The common inputs of all tenants' initialization.
pub(super) struct Opening<'s, 'a> {
    pub(super) settings: &'s Settings,
    /// True if promises to tenants count.
    pub(super) promises: bool,
    /// The resource that is the capacity of flash.
    pub(super) capacity: Option<usize>,
    pub(super) tail: Option<&'s Tail<'a>>,
}

impl<'a> Tenant<'a> {
    /// Initialization (section 3.4, step 1) of one tenant: it starts with its baseline, `grant` and
    /// its share of flash, and owns the part of it that its dominant resource lets it use. The rest
    /// is harvested.
    pub(super) fn at_baseline(
        (place, pool): (usize, &'a Pool),
        grant: &Grant,
        flash: u64,
        opening: &Opening<'_, '_>,
    ) -> Self {
        let Opening { settings, capacity, .. } = *opening;
        let keeps = without(capacity, &grant.resources, 0.0).into_iter().map(|g| g * settings.least_share);
        let stake = |(&demand, keeps): (&Demand, f64)| Stake { demand, keeps, needs: 0.0 };
        let mut tenant = Self {
            pool,
            place,
            has: [grant.memory, flash],
            least: [pool.floor, 0],
            most: [pool.ceiling, if pool.flash.is_some() { u64::MAX } else { 0 }],
            throughput: 0.0,
            plain_throughput: 0.0,
            promise: 1.0,
            stakes: pool.demands.iter().zip(keeps).map(stake).collect(),
            curve: &pool.curve,
            flash: pool.flash.is_some(),
            near: pool.curve.miss_ratio_near(grant.memory as f64, 0).1,
        };
        tenant.set_throughput(grant, opening);
        // An unlimited throughput is that of requests without cost; it is kept only while they
        // remain without cost.
        let misses = tenant.misses(tenant.has);
        for resource in 0..tenant.stakes.len() {
            let need = tenant.need(misses, resource, settings, opening.tail);
            tenant.stakes[resource].needs = need.expect("the baseline carries its own throughput");
        }
        tenant
    }

    /// The throughput of its baseline: the least that any of its resources supports,
    /// `min T_i(r_c, r_i)`. That resource is its dominant one.
    fn set_throughput(&mut self, grant: &Grant, opening: &Opening<'_, '_>) {
        let resources = without(opening.capacity, &grant.resources, f64::INFINITY);
        let misses = self.misses(self.has);
        self.throughput = self.pool.carried(salted(misses, opening.settings.salt), &resources);
        self.plain_throughput = self.pool.carried(misses, &resources);
        let promised = self.pool.min_request_rate;
        if opening.promises && promised > self.plain_throughput {
            self.promise = promised / self.plain_throughput;
            self.plain_throughput = promised;
            self.throughput = self.throughput.max(promised);
        }
    }

    /// Its misses with these goods, by its curve.
    pub(super) fn misses(&self, has: [u64; GOODS]) -> Misses {
        let (memory, near) = self.curve.miss_ratio_near(has[MEMORY] as f64, self.near);
        let all = |size: u64| self.curve.miss_ratio_near(size as f64, near).0;
        Misses { memory, all: if has[FLASH] == 0 { memory } else { all(has[MEMORY] + has[FLASH]) } }
    }

    /// `(1 - α_i + α_i · m) · d_i` of section 3.3: the mean units of a resource that a request
    /// needs.
    fn cost(&self, resource: usize, misses: Misses) -> f64 {
        if self.flash {
            self.pool.cost(resource, misses)
        } else {
            self.stakes[resource].demand.at(misses.all)
        }
    }

    /// Its need of a resource to keep its throughput with these misses; `None` if no amount
    /// suffices.
    ///
    /// Section 3.3 models the throughput that a resource supports as
    /// `T_i = r_i / ((1 - α_i + α_i · m) · d_i)`. Solved for the resource that is
    /// `r_i = T · (1 - α_i + α_i · m) · d_i`, and with `Δm` more misses there must be
    /// `Δr_i = r_i · α_i · Δm / (1 - α_i + α_i · m)` more of it: the paper's compensation or, with
    /// the sign reversed, the amount relinquished. So both are differences of needs here, which
    /// exist even if `m` is 0. `m` is the curve's with salt (section 4.3); repaired, the need is at
    /// least that by the curve without salt.
    pub(super) fn need(
        &self,
        plain: Misses,
        resource: usize,
        settings: &Settings,
        tail: Option<&Tail<'_>>,
    ) -> Option<f64> {
        let mut need = times(self.throughput, self.cost(resource, salted(plain, settings.salt)))?;
        if settings.holds_by_plain_curve() {
            need = need.max(times(self.plain_throughput, self.cost(resource, plain))?);
        }
        if let Some(tail) = tail {
            need = need.max(tail.needs(self.place, self.pool, plain, resource));
        }
        Some(need.max(self.stakes[resource].keeps))
    }

    /// The units of each resource that it owns.
    pub(super) fn needs(&self) -> impl Iterator<Item = f64> + '_ {
        self.stakes.iter().map(|stake| stake.needs)
    }

    /// Its need of each resource with these goods; `None` if no amount of one keeps its throughput.
    pub(super) fn needs_with(
        &self,
        has: [u64; GOODS],
        settings: &Settings,
        tail: Option<&Tail<'_>>,
    ) -> Option<Units> {
        let misses = self.misses(has);
        (0..self.stakes.len()).map(|resource| self.need(misses, resource, settings, tail)).collect()
    }

    /// The reduction of each resource from its present property to `then`: relinquished if
    /// positive, a compensation if negative.
    pub(super) fn saved(&self, then: &[f64]) -> impl Iterator<Item = f64> {
        self.stakes.iter().zip(then).map(|(stake, then)| stake.needs - then)
    }

    /// Bytes of `good` that it can give.
    pub(super) fn spare(&self, good: usize) -> u64 {
        self.has[good].saturating_sub(self.least[good])
    }

    /// Bytes of `good` that it can take.
    pub(super) fn room(&self, good: usize) -> u64 {
        self.most[good].saturating_sub(self.has[good])
    }
}

/// `throughput * cost`, with 0 for requests without cost at any throughput; `None` if the product
/// is infinite.
pub(super) fn times(throughput: f64, cost: f64) -> Option<f64> {
    let product = if cost > 0.0 { throughput * cost } else { 0.0 };
    product.is_finite().then_some(product)
}

/// "Take MRC with a grain of salt" (section 4.3): misses with `salt` added to those of a curve, but
/// at most 1.
fn salted(plain: Misses, salt: f64) -> Misses {
    Misses { memory: (plain.memory + salt).min(1.0), all: (plain.all + salt).min(1.0) }
}

/// These grants, with `value` in place of the flash capacity.
fn without(capacity: Option<usize>, grants: &[f64], value: f64) -> Vec<f64> {
    let mut grants = grants.to_vec();
    if let Some(capacity) = capacity {
        grants[capacity] = value;
    }
    grants
}
