//! What tenants hold while they trade, and what they would give and ask for a chunk.

use std::collections::BTreeSet;

use super::Settings;
use super::tail::Tail;
use crate::rank::{Rank, by_name};
use crate::{Grant, Misses, Pool, View};

/// What is traded for resources: memory, and the capacity of flash where there is one.
pub(super) const GOODS: usize = 2;
/// Memory, among the goods.
pub(super) const MEMORY: usize = 0;
/// Flash, among the goods.
pub(super) const FLASH: usize = 1;

/// A change that a tenant offers: for each resource, the units that it needs less (more, where negative).
pub(super) type Units = Vec<f64>;

/// A tenant, with what it holds.
pub(super) struct Tenant<'a> {
    pub(super) pool: &'a Pool,
    /// Its place in the view.
    pub(super) place: usize,
    /// Of each good, the bytes that it holds, and the least and the most that it may.
    pub(super) has: [u64; GOODS],
    least: [u64; GOODS],
    most: [u64; GOODS],
    /// The requests per second that it keeps whatever it trades: those of the baseline or, where that is more and promises
    /// count, those that it was promised. By the curve with salt; infinite where it needs nothing but memory.
    rate: f64,
    /// The same by the curve as it is.
    plain_rate: f64,
    /// What it was promised in relation to the baseline, where that is more; else 1.
    pub(super) promise: f64,
    /// Of each resource, units per second that it must keep whatever it needs.
    keeps: Vec<f64>,
    /// Of each resource, units per second that it needs for that rate.
    pub(super) needs: Units,
}

impl Tenant<'_> {
    /// Its misses with these goods: `salt` more than its curve says, but never more than all.
    fn misses(&self, has: [u64; GOODS], salt: f64) -> Misses {
        let curve = &self.pool.curve;
        let memory = curve.miss_ratio(has[MEMORY] as f64);
        let all = curve.miss_ratio((has[MEMORY] + has[FLASH]) as f64);
        Misses { memory: (memory + salt).min(1.0), all: (all + salt).min(1.0) }
    }

    /// What it needs for its rate with these goods; `None` where no amount of resources keeps its rate.
    fn needs_with(&self, has: [u64; GOODS], settings: &Settings, tail: Option<&Tail<'_>>) -> Option<Units> {
        let salted = self.misses(has, settings.salt);
        let plain = self.misses(has, 0.0);
        let mut needs = Vec::with_capacity(self.keeps.len());
        for (resource, keeps) in self.keeps.iter().enumerate() {
            let mut need = times(self.rate, self.pool.cost(resource, salted))?;
            if settings.holds_by_plain_curve() {
                need = need.max(times(self.plain_rate, self.pool.cost(resource, plain))?);
            }
            if let Some(tail) = tail {
                need = need.max(tail.needs(self.place, self.pool, plain, resource));
            }
            needs.push(need.max(*keeps));
        }
        Some(needs)
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

/// `rate * cost`, where a request that costs nothing needs nothing at any rate; `None` where the product is infinite.
fn times(rate: f64, cost: f64) -> Option<f64> {
    let product = if cost > 0.0 { rate * cost } else { 0.0 };
    product.is_finite().then_some(product)
}

/// Tenants by what they offer.
type Order = BTreeSet<(Rank, usize)>;

/// Who offers what for one chunk of one good, ordered for each resource.
#[derive(Clone, Default)]
struct Book {
    /// For each tenant: what it relinquishes for a chunk, and what it asks as compensation for one; `None` = it takes or gives none.
    relinquish: Vec<Option<Units>>,
    compensate: Vec<Option<Units>>,
    /// For each resource, tenants by those; who relinquishes most and who asks least come first.
    receivers: Vec<Order>,
    donors: Vec<Order>,
}

/// All tenants, what they hold, and what has been harvested.
pub(super) struct Market<'a> {
    pub(super) settings: &'a Settings,
    tail: Option<Tail<'a>>,
    /// In the order of their names, so that the outcome does not depend on that of the view.
    pub(super) tenants: Vec<Tenant<'a>>,
    /// Of each resource, all that there is, and the sum of what tenants need.
    totals: Vec<f64>,
    pub(super) held: Vec<f64>,
    /// Of each good, the bytes of a chunk; 0 where it is not traded.
    pub(super) chunk: [u64; GOODS],
    /// The resource that is the capacity of flash, if one is. It is traded as a good; nobody needs it as a rate.
    pub(super) capacity: Option<usize>,
    books: [Book; GOODS],
}

impl<'a> Market<'a> {
    /// Every tenant with its baseline, less what it does not need (initialisation; "collects underutilised resources"). Where
    /// `promises` count, a tenant holds what it needs for those, which may be more than there is.
    pub(super) fn open(view: &'a View, settings: &'a Settings, promises: bool, baseline: &[Grant]) -> Self {
        let order = if settings.repaired() { by_name(view) } else { (0..view.pools.len()).collect() };
        let capacity = view.pools.iter().find_map(|pool| pool.flash.as_ref()).map(|flash| flash.capacity);
        let flash_shares = flash_shares(view);
        let tail = settings.tail.as_ref().map(|bound| Tail::new(bound, view, baseline));
        let tenants = order.into_iter().map(|place| {
            let (pool, grant) = (&view.pools[place], &baseline[place]);
            let rate = |misses| pool.carried(misses, &without(capacity, &grant.resources, f64::INFINITY));
            let keeps =
                without(capacity, &grant.resources, 0.0).into_iter().map(|g| g * settings.least_share);
            let mut tenant = Tenant {
                pool,
                place,
                has: [grant.memory, flash_shares[place]],
                least: [pool.floor, 0],
                most: [pool.ceiling, if pool.flash.is_some() { u64::MAX } else { 0 }],
                rate: 0.0,
                plain_rate: 0.0,
                promise: 1.0,
                keeps: keeps.collect(),
                needs: Vec::new(),
            };
            tenant.rate = rate(tenant.misses(tenant.has, settings.salt));
            tenant.plain_rate = rate(tenant.misses(tenant.has, 0.0));
            if promises && pool.min_request_rate > tenant.plain_rate {
                tenant.promise = pool.min_request_rate / tenant.plain_rate;
                tenant.plain_rate = pool.min_request_rate;
                tenant.rate = tenant.rate.max(pool.min_request_rate);
            }
            // A rate without limit is that of requests that cost nothing; it is kept only where they go on to cost nothing.
            tenant.needs = tenant
                .needs_with(tenant.has, settings, tail.as_ref())
                .expect("the baseline carries its own rate");
            tenant
        });
        let tenants: Vec<Tenant<'a>> = tenants.collect();
        let sum = |resource: usize| tenants.iter().map(|tenant| tenant.needs[resource]).sum();
        let held = (0..view.resources.len()).map(sum).collect();
        let mut totals: Vec<f64> = view.resources.iter().map(|resource| resource.total).collect();
        if let Some(capacity) = capacity {
            totals[capacity] = 0.0;
        }
        let all = |good: usize| tenants.iter().map(|tenant| tenant.has[good]).sum();
        let chunk_of = |good| settings.chunk_of(all(good), view.pools.len());
        let chunk = [MEMORY, FLASH].map(|good| if settings.goods[good] { chunk_of(good) } else { 0 });
        let books = [Book::default(), Book::default()];
        Self { settings, tail, tenants, totals, held, chunk, capacity, books }
    }

    /// How many resources there are.
    pub(super) fn resources(&self) -> usize {
        self.totals.len()
    }

    /// What is harvested of a resource.
    pub(super) fn harvest(&self, resource: usize) -> f64 {
        self.totals[resource] - self.held[resource]
    }

    /// How much more everybody could have of each resource, relative to what they hold; the least of it, and the resource on which
    /// it is: the system-wide dominant one. `None` where nobody needs any.
    pub(super) fn dominant(&self) -> Option<(usize, f64)> {
        self.dominant_after(&vec![0.0; self.resources()])
    }

    /// The same, if `profit` were harvested.
    pub(super) fn dominant_after(&self, profit: &[f64]) -> Option<(usize, f64)> {
        let relative = (0..self.resources()).map(|k| {
            let held = (self.held[k] - profit[k]).max(0.0);
            (k, if held > 0.0 { (self.harvest(k) + profit[k]) / held } else { f64::INFINITY })
        });
        relative.filter(|(_, relative)| relative.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What tenant `who` would relinquish for `bytes` of `good`; `None` where it can't have them.
    pub(super) fn relinquish(&self, who: usize, good: usize, bytes: u64) -> Option<Units> {
        let tenant = &self.tenants[who];
        if tenant.room(good) < bytes {
            return None;
        }
        let mut has = tenant.has;
        has[good] += bytes;
        let needs = tenant.needs_with(has, self.settings, self.tail.as_ref())?;
        Some(tenant.needs.iter().zip(needs).map(|(before, after)| before - after).collect())
    }

    /// What tenant `who` would ask as compensation for `bytes` of `good`; `None` where it does not give them.
    pub(super) fn compensate(&self, who: usize, good: usize, bytes: u64) -> Option<Units> {
        let tenant = &self.tenants[who];
        if tenant.spare(good) < bytes {
            return None;
        }
        let mut has = tenant.has;
        has[good] -= bytes;
        let needs = tenant.needs_with(has, self.settings, self.tail.as_ref())?;
        Some(needs.iter().zip(&tenant.needs).map(|(after, before)| after - before).collect())
    }

    /// Moves `bytes` of `good` to (or, where negative, from) a tenant, and takes (or gives) what it needs less (or more).
    pub(super) fn settle(&mut self, who: usize, good: usize, bytes: i128) {
        let tenant = &mut self.tenants[who];
        let has = i128::from(tenant.has[good]) + bytes;
        tenant.has[good] = u64::try_from(has).expect("nobody gives more than it has");
        let needs =
            tenant.needs_with(tenant.has, self.settings, self.tail.as_ref()).expect("the deal was offered");
        for (k, (before, after)) in tenant.needs.iter().zip(&needs).enumerate() {
            self.held[k] += after - before;
        }
        tenant.needs = needs;
        for good in 0..GOODS {
            self.list(who, good);
        }
    }

    /// Enters everybody's offers for one chunk.
    pub(super) fn list_all(&mut self) {
        let (tenants, resources) = (self.tenants.len(), self.resources());
        for good in 0..GOODS {
            self.books[good] = Book {
                relinquish: vec![None; tenants],
                compensate: vec![None; tenants],
                receivers: vec![BTreeSet::new(); resources],
                donors: vec![BTreeSet::new(); resources],
            };
            for who in 0..tenants {
                self.list(who, good);
            }
        }
    }

    /// Enters what a tenant offers for one chunk of a good, in place of what it offered.
    fn list(&mut self, who: usize, good: usize) {
        let chunk = self.chunk[good];
        let (relinquish, compensate) = if chunk == 0 {
            (None, None)
        } else {
            (self.relinquish(who, good, chunk), self.compensate(who, good, chunk))
        };
        let book = &mut self.books[good];
        replace(&mut book.receivers, &mut book.relinquish[who], relinquish, who, -1.0);
        replace(&mut book.donors, &mut book.compensate[who], compensate, who, 1.0);
    }

    /// The chunks after which a tenant's misses have fallen most steeply, seen from what it has; 0 where they fall no more. They
    /// are more than one where its curve is flat at first and then falls.
    pub(super) fn to_cliff(&self, who: usize, good: usize) -> u64 {
        let tenant = &self.tenants[who];
        let has: u64 = tenant.has.iter().sum();
        let curve = &tenant.pool.curve;
        let now = curve.miss_ratio(has as f64);
        let beyond = curve.points().iter().filter(|point| point.size > has);
        let steep = |point: &curve::Point| Rank((now - point.miss_ratio) / (point.size - has) as f64);
        // Of equally steep ones the nearest.
        let steepest = beyond
            .filter(|point| point.miss_ratio < now)
            .reduce(|a, b| if steep(b) > steep(a) { b } else { a });
        steepest.map_or(0, |point| (point.size - has).div_ceil(self.chunk[good]))
    }

    /// Who relinquishes how much of a resource for one chunk, the most first; equals in the order of names.
    pub(super) fn receivers(&self, good: usize, resource: usize) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.books[good].receivers[resource].iter().map(|&(rank, who)| (-rank.0, who))
    }

    /// Who asks how much of a resource for one chunk, the least first; equals in the order of names.
    pub(super) fn donors(&self, good: usize, resource: usize) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.books[good].donors[resource].iter().map(|&(rank, who)| (rank.0, who))
    }

    /// What is harvested if `to` gets one chunk from `from`.
    pub(super) fn profit(&self, good: usize, to: usize, from: usize) -> Units {
        let book = &self.books[good];
        let (relinquished, asked) = (&book.relinquish[to], &book.compensate[from]);
        match (relinquished, asked) {
            (Some(gets), Some(costs)) => gets.iter().zip(costs).map(|(gets, costs)| gets - costs).collect(),
            _ => vec![f64::NEG_INFINITY; self.resources()],
        }
    }
}

/// Puts a tenant's new offer in the place of its old one; `sign` is negative where the largest comes first.
fn replace(orders: &mut [Order], old: &mut Option<Units>, new: Option<Units>, who: usize, sign: f64) {
    for (k, order) in orders.iter_mut().enumerate() {
        if let Some(units) = old {
            order.remove(&(Rank(sign * units[k]), who));
        }
        if let Some(units) = &new {
            order.insert((Rank(sign * units[k]), who));
        }
    }
    *old = new;
}

/// The capacity of flash, by weight among the pools that have a second level; nothing for the others.
fn flash_shares(view: &View) -> Vec<u64> {
    let weigh = |pool: &Pool| if pool.flash.is_some() { pool.weight } else { 0.0 };
    let weights: f64 = view.pools.iter().map(weigh).sum();
    let share = |pool: &Pool| {
        let capacity = pool.flash.as_ref().map_or(0.0, |flash| view.resources[flash.capacity].total);
        if weights > 0.0 { (capacity * weigh(pool) / weights) as u64 } else { 0 }
    };
    view.pools.iter().map(share).collect()
}

/// These grants, but `value` in the place of the flash capacity.
fn without(capacity: Option<usize>, grants: &[f64], value: f64) -> Vec<f64> {
    let mut grants = grants.to_vec();
    if let Some(capacity) = capacity {
        grants[capacity] = value;
    }
    grants
}
