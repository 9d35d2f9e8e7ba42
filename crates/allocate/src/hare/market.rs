//! All tenants, the harvest, and the offers of each tenant: what it would relinquish, and what it
//! would need as compensation. HARE, section 3.4, steps 1 and 2.
//!
//! The paper's symbols: `r_c` and `r_i` are [`Tenant::has`] and
//! [`Stake::needs`](super::tenant::Stake::needs), `r_sum` is [`Market::sums`], `r_harvest`
//! [`Market::harvest`], `Δr_c` [`Market::chunk`], `t_1` a donor and `t_2` a receiver.

use super::Settings;
use super::offers::{Book, Offers};
use super::tail::Tail;
use super::tenant::{Opening, Tenant};
use crate::rank::by_name;
use crate::{Grant, Pool, View};

/// The number of goods, which are traded for resources: memory, and the capacity of flash if there
/// is any.
pub(super) const GOODS: usize = 2;
/// Memory, among the goods.
pub(super) const MEMORY: usize = 0;
/// Flash, among the goods.
pub(super) const FLASH: usize = 1;

/// For each resource, units per second: the needs of a tenant, or the amounts relinquished or
/// compensated.
pub(super) type Units = Vec<f64>;

/// All tenants, their property, and the harvest.
pub(super) struct Market<'a> {
    pub(super) settings: &'a Settings,
    pub(super) tail: Option<Tail<'a>>,
    /// In the order of their names, so that the outcome does not depend on the order of the view.
    pub(super) tenants: Vec<Tenant<'a>>,
    /// For each resource, the total.
    totals: Vec<f64>,
    /// `r_sum`: for each resource, the sum that tenants own, that is, the part that is not
    /// harvested.
    pub(super) sums: Vec<f64>,
    /// For each good, the bytes of a chunk; 0 if it is not traded.
    pub(super) chunk: [u64; GOODS],
    /// The resource that is the capacity of flash, if one is. It is traded as a good; no tenant
    /// needs it as a rate.
    pub(super) capacity: Option<usize>,
    books: [Book; GOODS],
}

impl<'a> Market<'a> {
    /// Initialization (section 3.4, step 1): every tenant with its baseline, less the parts that it
    /// cannot use because of its dominant resource. Those parts are the initial harvest. If
    /// `promises` count, a tenant owns the resources that it needs for them, which may exceed the
    /// totals.
    pub(super) fn initialize(
        view: &'a View,
        settings: &'a Settings,
        promises: bool,
        baseline: &[Grant],
    ) -> Self {
        let order = if settings.repaired() { by_name(view) } else { (0..view.pools.len()).collect() };
        let capacity = view.pools.iter().find_map(|pool| pool.flash.as_ref()).map(|flash| flash.capacity);
        let flash_shares = flash_shares(view);
        let tail = settings.tail.as_ref().map(|bound| Tail::new(bound, view, baseline));
        let opening = Opening { settings, promises, capacity, tail: tail.as_ref() };
        let tenants = order.into_iter().map(|place| {
            Tenant::at_baseline((place, &view.pools[place]), &baseline[place], flash_shares[place], &opening)
        });
        let tenants: Vec<Tenant<'a>> = tenants.collect();
        let sum = |resource: usize| tenants.iter().map(|tenant| tenant.stakes[resource].needs).sum();
        let sums = (0..view.resources.len()).map(sum).collect();
        let mut totals: Vec<f64> = view.resources.iter().map(|resource| resource.total).collect();
        if let Some(capacity) = capacity {
            totals[capacity] = 0.0;
        }
        let all = |good: usize| tenants.iter().map(|tenant| tenant.has[good]).sum();
        let chunk_of = |good| settings.chunk_of(all(good), view.pools.len());
        let chunk = [MEMORY, FLASH].map(|good| if settings.goods[good] { chunk_of(good) } else { 0 });
        let books = [Book::default(), Book::default()];
        Self { settings, tail, tenants, totals, sums, chunk, capacity, books }
    }

    /// The number of resources.
    pub(super) fn resources(&self) -> usize {
        self.totals.len()
    }

    /// `r_harvest`: the harvested units of a resource.
    pub(super) fn harvest(&self, resource: usize) -> f64 {
        self.totals[resource] - self.sums[resource]
    }

    /// The system-wide dominant resource, `r_dom = argmin r_harvest / r_sum`: the resource that is
    /// relatively scarcest in the harvest, with that least ratio, by which all tenants could be
    /// lifted. `None` if no tenant needs any resource.
    pub(super) fn system_wide_dominant(&self) -> Option<(usize, f64)> {
        self.system_wide_dominant_after(|_| 0.0)
    }

    /// The same, with `profit` of each resource added to the harvest.
    pub(super) fn system_wide_dominant_after(&self, profit: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
        let relative = (0..self.resources()).map(|k| {
            let sum = (self.sums[k] - profit(k)).max(0.0);
            (k, if sum > 0.0 { (self.harvest(k) + profit(k)) / sum } else { f64::INFINITY })
        });
        relative.filter(|(_, relative)| relative.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The needs of tenant `who` with `bytes` more of a good or, if negative, less; `None` if it
    /// cannot take or give them.
    pub(super) fn needs_after(&self, who: usize, good: usize, bytes: i128) -> Option<Units> {
        let tenant = &self.tenants[who];
        let most = if bytes < 0 { tenant.spare(good) } else { tenant.room(good) };
        if bytes.unsigned_abs() > u128::from(most) {
            return None;
        }
        let mut has = tenant.has;
        has[good] = u64::try_from(i128::from(has[good]) + bytes).ok()?;
        tenant.needs_with(has, self.settings, self.tail.as_ref())
    }

    /// The reduction of each need of `who` with the needs `then`.
    pub(super) fn saved(&self, who: usize, then: &[f64]) -> impl Iterator<Item = f64> {
        self.tenants[who].saved(then)
    }

    /// `Δr_relinq`: what tenant `who` would relinquish of one resource for `bytes` of `good`;
    /// `None` if it cannot take them.
    pub(super) fn relinquish(&self, resource: usize, who: usize, good: usize, bytes: u64) -> Option<f64> {
        let tenant = &self.tenants[who];
        if tenant.room(good) < bytes {
            return None;
        }
        let mut has = tenant.has;
        has[good] += bytes;
        let need = tenant.need(tenant.misses(has), resource, self.settings, self.tail.as_ref())?;
        Some(tenant.stakes[resource].needs - need)
    }

    /// `Δr_compen`: the compensation of one resource that tenant `who` would need for `bytes` of
    /// `good`; `None` if it cannot give them.
    pub(super) fn compensation(&self, resource: usize, who: usize, good: usize, bytes: u64) -> Option<f64> {
        let tenant = &self.tenants[who];
        if tenant.spare(good) < bytes {
            return None;
        }
        if tenant.throughput.is_infinite() {
            // It gives only as much as leaves it without need of any resource.
            let then = self.needs_after(who, good, -i128::from(bytes))?;
            return Some(then[resource] - tenant.stakes[resource].needs);
        }
        let mut has = tenant.has;
        has[good] -= bytes;
        let need = tenant.need(tenant.misses(has), resource, self.settings, self.tail.as_ref())?;
        Some(need - tenant.stakes[resource].needs)
    }

    /// The needs that tenant `who` reported for one chunk more, or one less.
    pub(super) fn reported(&self, who: usize, good: usize, more: bool) -> Units {
        let Book { receivers, donors } = &self.books[good];
        if more { receivers.of(who) } else { donors.of(who) }.to_vec()
    }

    /// Settles one side of a deal: moves `bytes` of `good` to (or, if negative, from) a tenant,
    /// which then owns `then` of each resource. The difference is harvested, and returned.
    pub(super) fn settle(&mut self, who: usize, good: usize, bytes: i128, mut then: Units) -> Units {
        let tenant = &mut self.tenants[who];
        let has = i128::from(tenant.has[good]) + bytes;
        tenant.has[good] = u64::try_from(has).expect("nobody gives more than it has");
        for ((stake, sum), then) in tenant.stakes.iter_mut().zip(&mut self.sums).zip(&mut then) {
            let saved = stake.needs - *then;
            *sum -= saved;
            stake.needs = std::mem::replace(then, saved);
        }
        tenant.near = tenant.curve.miss_ratio_near(tenant.has[MEMORY] as f64, tenant.near).1;
        for good in 0..GOODS {
            self.report(who, good);
        }
        then
    }

    /// "For every tenant, compute the compensated and the relinquished resources to trade", for one
    /// chunk of each good.
    pub(super) fn report_all(&mut self) {
        let (tenants, resources) = (self.tenants.len(), self.resources());
        let offers = Offers::none(tenants, resources);
        for good in 0..GOODS {
            self.books[good] = Book { receivers: offers.clone(), donors: offers.clone() };
            for who in 0..tenants {
                self.report(who, good);
            }
        }
    }

    /// "Each tenant reports": its needs of each resource with a chunk of a good more, and with one
    /// less. The differences to its property are the vectors `Δr_relinq` and `Δr_compen`. Replaces
    /// the tenant's earlier report; only tenants that have traded need to report again.
    fn report(&mut self, who: usize, good: usize) {
        let chunk = self.chunk[good];
        if chunk == 0 {
            return;
        }
        let tenant = &self.tenants[who];
        let (mut more, mut less) = (tenant.has, tenant.has);
        let (takes, gives) = (tenant.room(good) >= chunk, tenant.spare(good) >= chunk);
        more[good] = more[good].saturating_add(chunk);
        less[good] = less[good].saturating_sub(chunk);
        let Book { receivers, donors } = &mut self.books[good];
        for (offers, has, possible) in [(receivers, more, takes), (donors, less, gives)] {
            let misses = tenant.misses(has);
            let need = |k| tenant.need(misses, k, self.settings, self.tail.as_ref());
            offers.enter(tenant, who, possible, need);
        }
    }

    /// Orders tenants by their offers of a resource, for [`Self::receivers`] and [`Self::donors`].
    /// From then on the order is maintained.
    pub(super) fn order_by(&mut self, resource: usize) {
        for Book { receivers, donors } in &mut self.books {
            receivers.sort(&self.tenants, resource);
            donors.sort(&self.tenants, resource);
        }
    }

    /// Tenants with the units of a resource that each relinquishes for one chunk, the most first;
    /// equals in the order of names.
    pub(super) fn receivers(&self, good: usize, resource: usize) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.books[good].receivers.order(resource).iter().map(|(units, who)| (-units, who))
    }

    /// Tenants with the units of a resource that each asks for one chunk, the least first; equals
    /// in the order of names.
    pub(super) fn donors(&self, good: usize, resource: usize) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.books[good].donors.order(resource).iter()
    }

    /// The first receiver and the first donor in these orders.
    pub(super) fn first_pair(&self, good: usize, resource: usize) -> Option<[(f64, usize); 2]> {
        let Book { receivers, donors } = &self.books[good];
        let (units, to) = receivers.order(resource).first()?;
        Some([(-units, to), donors.order(resource).first()?])
    }

    /// The harvest of each resource if `to` gets one chunk from `from`, given that both offer that.
    pub(super) fn profit(&self, good: usize, to: usize, from: usize) -> impl Fn(usize) -> f64 + '_ {
        let (after_it, after_that) = (self.books[good].receivers.of(to), self.books[good].donors.of(from));
        let (to, from) = (&self.tenants[to].stakes, &self.tenants[from].stakes);
        move |k| (to[k].needs - after_it[k]) + (from[k].needs - after_that[k])
    }
}

/// The capacity of flash, by weight among the pools that have a second level; 0 for the others.
fn flash_shares(view: &View) -> Vec<u64> {
    let weigh = |pool: &Pool| if pool.flash.is_some() { pool.weight } else { 0.0 };
    let weights: f64 = view.pools.iter().map(weigh).sum();
    let share = |pool: &Pool| {
        let capacity = pool.flash.as_ref().map_or(0.0, |flash| view.resources[flash.capacity].total);
        if weights > 0.0 { (capacity * weigh(pool) / weights) as u64 } else { 0 }
    };
    view.pools.iter().map(share).collect()
}
