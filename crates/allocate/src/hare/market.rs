//! What tenants hold while they trade, and what they would give and ask for a chunk.

use curve::{MissRatioCurve, Point};

use super::Settings;
use super::order::Tournament;
use super::tail::Tail;
use crate::rank::{Rank, by_name};
use crate::{Demand, Grant, Misses, Pool, View};

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
    /// Its part in each resource. These and the curve stand here beside what else a deal looks at, for a market of thousands is not in the
    /// processor's caches.
    stakes: Vec<Stake>,
    curve: &'a MissRatioCurve,
    /// Whether it has a second level.
    flash: bool,
    /// The point of the curve that its memory is at.
    near: usize,
}

/// What a tenant has to do with a resource.
#[derive(Clone, Copy)]
struct Stake {
    /// What a request needs of it, where there is no second level.
    demand: Demand,
    /// Units per second that the tenant must keep whatever it needs.
    keeps: f64,
    /// Units per second that it needs for its rate.
    needs: f64,
}

impl Tenant<'_> {
    /// Its misses with these goods, as its curve says.
    fn misses(&self, has: [u64; GOODS]) -> Misses {
        let (memory, near) = self.curve.miss_ratio_near(has[MEMORY] as f64, self.near);
        let all = |size: u64| self.curve.miss_ratio_near(size as f64, near).0;
        Misses { memory, all: if has[FLASH] == 0 { memory } else { all(has[MEMORY] + has[FLASH]) } }
    }

    /// Units of a resource that a request needs.
    fn cost(&self, resource: usize, misses: Misses) -> f64 {
        if self.flash {
            self.pool.cost(resource, misses)
        } else {
            self.stakes[resource].demand.at(misses.all)
        }
    }

    /// What it needs of a resource for its rate with these misses; `None` where no amount keeps its rate.
    fn need(
        &self,
        plain: Misses,
        resource: usize,
        settings: &Settings,
        tail: Option<&Tail<'_>>,
    ) -> Option<f64> {
        let mut need = times(self.rate, self.cost(resource, salted(plain, settings.salt)))?;
        if settings.holds_by_plain_curve() {
            need = need.max(times(self.plain_rate, self.cost(resource, plain))?);
        }
        if let Some(tail) = tail {
            need = need.max(tail.needs(self.place, self.pool, plain, resource));
        }
        Some(need.max(self.stakes[resource].keeps))
    }

    /// Of each resource, what it needs for its rate.
    pub(super) fn needs(&self) -> impl Iterator<Item = f64> + '_ {
        self.stakes.iter().map(|stake| stake.needs)
    }

    /// What it needs of each resource with these goods; `None` where no amount of one keeps its rate.
    fn needs_with(&self, has: [u64; GOODS], settings: &Settings, tail: Option<&Tail<'_>>) -> Option<Units> {
        let misses = self.misses(has);
        (0..self.stakes.len()).map(|resource| self.need(misses, resource, settings, tail)).collect()
    }

    /// How much less of each resource that is than it needs now.
    fn saved(&self, then: &[f64]) -> impl Iterator<Item = f64> {
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

/// `rate * cost`, where a request that costs nothing needs nothing at any rate; `None` where the product is infinite.
fn times(rate: f64, cost: f64) -> Option<f64> {
    let product = if cost > 0.0 { rate * cost } else { 0.0 };
    product.is_finite().then_some(product)
}

/// Misses with `salt` more than a curve says, but never more than all.
fn salted(plain: Misses, salt: f64) -> Misses {
    Misses { memory: (plain.memory + salt).min(1.0), all: (plain.all + salt).min(1.0) }
}

/// What all tenants offer for one chunk of one good on one side of the market, ordered for each resource on which a deal was ever
/// chosen.
#[derive(Clone, Default)]
struct Offers {
    /// Whether a tenant offers anything.
    made: Vec<bool>,
    /// Tenant by tenant, what each would need of each resource then.
    then: Vec<f64>,
    /// Resource by resource, tenants by how much more they would need: who relinquishes most, or asks least, comes first. Made when it
    /// is first asked for.
    orders: Vec<Option<Tournament>>,
}

impl Offers {
    /// What a tenant would need of each resource.
    fn of(&self, who: usize) -> &[f64] {
        let resources = self.orders.len();
        &self.then[who * resources..][..resources]
    }

    /// By what a tenant stands in the order of a resource.
    fn figure(&self, tenant: &Tenant<'_>, who: usize, resource: usize) -> Option<f64> {
        self.made[who].then(|| self.of(who)[resource] - tenant.stakes[resource].needs)
    }

    /// Puts a tenant's offers into the orders.
    fn enter(&mut self, tenant: &Tenant<'_>, who: usize) {
        for resource in 0..self.orders.len() {
            let figure = self.figure(tenant, who, resource);
            if let Some(order) = &mut self.orders[resource] {
                order.set(who, figure);
            }
        }
    }

    /// Orders tenants by what they offer of a resource, if they are not yet.
    fn sort(&mut self, tenants: &[Tenant<'_>], resource: usize) {
        if self.orders[resource].is_none() {
            let figures = tenants.iter().enumerate().map(|(who, tenant)| self.figure(tenant, who, resource));
            self.orders[resource] = Some(Tournament::of(figures));
        }
    }

    /// Tenants by what they offer of a resource that they are sorted by.
    fn order(&self, resource: usize) -> &Tournament {
        self.orders[resource].as_ref().expect("tenants are sorted by the dominant resource")
    }
}

/// Both sides of the market in one good.
#[derive(Clone, Default)]
struct Book {
    /// With a chunk more; who relinquishes most for it comes first.
    receivers: Offers,
    /// With a chunk less; who asks least for it comes first.
    donors: Offers,
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
            let stake = |(&demand, keeps): (&Demand, f64)| Stake { demand, keeps, needs: 0.0 };
            let mut tenant = Tenant {
                pool,
                place,
                has: [grant.memory, flash_shares[place]],
                least: [pool.floor, 0],
                most: [pool.ceiling, if pool.flash.is_some() { u64::MAX } else { 0 }],
                rate: 0.0,
                plain_rate: 0.0,
                promise: 1.0,
                stakes: pool.demands.iter().zip(keeps).map(stake).collect(),
                curve: &pool.curve,
                flash: pool.flash.is_some(),
                near: 0,
            };
            tenant.near = tenant.curve.miss_ratio_near(grant.memory as f64, 0).1;
            let misses = tenant.misses(tenant.has);
            tenant.rate = rate(salted(misses, settings.salt));
            tenant.plain_rate = rate(misses);
            if promises && pool.min_request_rate > tenant.plain_rate {
                tenant.promise = pool.min_request_rate / tenant.plain_rate;
                tenant.plain_rate = pool.min_request_rate;
                tenant.rate = tenant.rate.max(pool.min_request_rate);
            }
            // A rate without limit is that of requests that cost nothing; it is kept only where they go on to cost nothing.
            for resource in 0..tenant.stakes.len() {
                let need = tenant.need(misses, resource, settings, tail.as_ref());
                tenant.stakes[resource].needs = need.expect("the baseline carries its own rate");
            }
            tenant
        });
        let tenants: Vec<Tenant<'a>> = tenants.collect();
        let sum = |resource: usize| tenants.iter().map(|tenant| tenant.stakes[resource].needs).sum();
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
        self.dominant_after(|_| 0.0)
    }

    /// The same, if so much of each resource were harvested beyond that.
    pub(super) fn dominant_after(&self, profit: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
        let relative = (0..self.resources()).map(|k| {
            let held = (self.held[k] - profit(k)).max(0.0);
            (k, if held > 0.0 { (self.harvest(k) + profit(k)) / held } else { f64::INFINITY })
        });
        relative.filter(|(_, relative)| relative.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What tenant `who` would need with so many bytes of a good more or, where negative, less; `None` where it can't have or does not
    /// give them.
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

    /// How much less of each resource `who` needs `then`.
    pub(super) fn saved(&self, who: usize, then: &[f64]) -> impl Iterator<Item = f64> {
        self.tenants[who].saved(then)
    }

    /// What tenant `who` would relinquish of one resource for `bytes` of `good`; `None` where it can't have them.
    pub(super) fn relinquish_of(&self, resource: usize, who: usize, good: usize, bytes: u64) -> Option<f64> {
        let tenant = &self.tenants[who];
        if tenant.room(good) < bytes {
            return None;
        }
        let mut has = tenant.has;
        has[good] += bytes;
        let need = tenant.need(tenant.misses(has), resource, self.settings, self.tail.as_ref())?;
        Some(tenant.stakes[resource].needs - need)
    }

    /// What tenant `who` would ask of one resource as compensation for `bytes` of `good`; `None` where it does not give them.
    pub(super) fn compensate_of(&self, resource: usize, who: usize, good: usize, bytes: u64) -> Option<f64> {
        let tenant = &self.tenants[who];
        if tenant.spare(good) < bytes {
            return None;
        }
        if tenant.rate.is_infinite() {
            // It gives only what leaves it without need of any resource.
            let then = self.needs_after(who, good, -i128::from(bytes))?;
            return Some(then[resource] - tenant.stakes[resource].needs);
        }
        let mut has = tenant.has;
        has[good] -= bytes;
        let need = tenant.need(tenant.misses(has), resource, self.settings, self.tail.as_ref())?;
        Some(need - tenant.stakes[resource].needs)
    }

    /// What tenant `who` would need with one chunk more, or one less, which it has offered to take or to give.
    pub(super) fn needs_after_chunk(&self, who: usize, good: usize, more: bool) -> Units {
        let Book { receivers, donors } = &self.books[good];
        if more { receivers.of(who) } else { donors.of(who) }.to_vec()
    }

    /// Moves `bytes` of `good` to (or, where negative, from) a tenant, which needs so much of each resource `then`. Says how much less
    /// that is.
    pub(super) fn settle(&mut self, who: usize, good: usize, bytes: i128, mut then: Units) -> Units {
        let tenant = &mut self.tenants[who];
        let has = i128::from(tenant.has[good]) + bytes;
        tenant.has[good] = u64::try_from(has).expect("nobody gives more than it has");
        for ((stake, held), then) in tenant.stakes.iter_mut().zip(&mut self.held).zip(&mut then) {
            let saved = stake.needs - *then;
            *held -= saved;
            stake.needs = std::mem::replace(then, saved);
        }
        tenant.near = tenant.curve.miss_ratio_near(tenant.has[MEMORY] as f64, tenant.near).1;
        for good in 0..GOODS {
            self.list(who, good);
        }
        then
    }

    /// Enters everybody's offers for one chunk.
    pub(super) fn list_all(&mut self) {
        let (tenants, resources) = (self.tenants.len(), self.resources());
        let offers = Offers {
            made: vec![false; tenants],
            then: vec![0.0; tenants * resources],
            orders: vec![None; resources],
        };
        for good in 0..GOODS {
            self.books[good] = Book { receivers: offers.clone(), donors: offers.clone() };
            for who in 0..tenants {
                self.list(who, good);
            }
        }
    }

    /// Enters what a tenant offers for one chunk of a good, in place of what it offered.
    fn list(&mut self, who: usize, good: usize) {
        let chunk = self.chunk[good];
        if chunk == 0 {
            return;
        }
        let (tenant, resources) = (&self.tenants[who], self.totals.len());
        let (mut more, mut less) = (tenant.has, tenant.has);
        let (takes, gives) = (tenant.room(good) >= chunk, tenant.spare(good) >= chunk);
        more[good] = more[good].saturating_add(chunk);
        less[good] = less[good].saturating_sub(chunk);
        let Book { receivers, donors } = &mut self.books[good];
        for (offers, has, possible) in [(receivers, more, takes), (donors, less, gives)] {
            let misses = tenant.misses(has);
            let row = &mut offers.then[who * resources..][..resources];
            offers.made[who] = possible
                && row.iter_mut().enumerate().all(|(k, then)| {
                    let need = tenant.need(misses, k, self.settings, self.tail.as_ref());
                    *then = need.unwrap_or(0.0);
                    need.is_some()
                });
            offers.enter(tenant, who);
        }
    }

    /// Orders tenants by what they offer of a resource, so that [`Self::receivers`] and [`Self::donors`] know. From then on the order is
    /// kept.
    pub(super) fn sort(&mut self, resource: usize) {
        for Book { receivers, donors } in &mut self.books {
            receivers.sort(&self.tenants, resource);
            donors.sort(&self.tenants, resource);
        }
    }

    /// No deal over one chunk or more gives a tenant more than this off its need of a resource per chunk; infinite where no such bound is
    /// known. Costs a look at all points of its curve beyond what it has.
    pub(super) fn most_relinquished(&self, who: usize, good: usize, resource: usize) -> f64 {
        let Some(support) = self.support(who, good, resource) else { return f64::INFINITY };
        let (tenant, chunk) = (&self.tenants[who], self.chunk[good]);
        let (curve, has) = (tenant.curve, tenant.has[MEMORY]);
        let nearest = has.saturating_add(chunk);
        let first = curve.points().partition_point(|point| point.size <= nearest);
        let ends = curve.points()[first..].iter().map(|point| (point.size, point.miss_ratio));
        let ends = std::iter::once((nearest, curve.miss_ratio(nearest as f64))).chain(ends);
        let now = support.need(curve.miss_ratio(has as f64));
        let each = ends.map(|(size, misses)| (now - support.need(misses)) / (size - has) as f64);
        each.fold(0.0, f64::max) * chunk as f64
    }

    /// No deal over one chunk or more is had from a tenant for less of a resource per chunk than this; negatively infinite where no such
    /// bound is known. Costs a look at all points of its curve below what it has.
    pub(super) fn least_asked(&self, who: usize, good: usize, resource: usize) -> f64 {
        let Some(support) = self.support(who, good, resource) else { return f64::NEG_INFINITY };
        let (tenant, chunk) = (&self.tenants[who], self.chunk[good]);
        let (curve, has) = (tenant.curve, tenant.has[MEMORY]);
        let nearest = has.saturating_sub(chunk);
        let at = |size: u64| (size, curve.miss_ratio(size as f64));
        let points = curve.points().iter().map(|point| (point.size, point.miss_ratio));
        let points =
            points.take_while(|point| point.0 < nearest).filter(|point| point.0 > tenant.least[MEMORY]);
        let ends = points.chain([at(nearest), at(tenant.least[MEMORY].min(nearest))]);
        let now = support.need(curve.miss_ratio(has as f64));
        let each = ends.map(|(size, misses)| (support.need(misses) - now) / (has - size) as f64);
        each.fold(f64::INFINITY, f64::min) * chunk as f64
    }

    /// A function of misses that meets a tenant's need of a resource where it is and is nowhere above it. A need is the largest of
    /// several such functions; the one that is largest now will do. `None` where need follows from more than misses of memory.
    fn support(&self, who: usize, good: usize, resource: usize) -> Option<Support> {
        let tenant = &self.tenants[who];
        if good != MEMORY || tenant.flash || self.tail.is_some() {
            return None;
        }
        let demand = tenant.stakes[resource].demand;
        let misses = tenant.misses(tenant.has).all;
        let salted = Support { demand, rate: tenant.rate, salt: self.settings.salt };
        let plain = Support { demand, rate: tenant.plain_rate, salt: 0.0 };
        let larger = if self.settings.holds_by_plain_curve() && plain.need(misses) > salted.need(misses) {
            plain
        } else {
            salted
        };
        let kept = tenant.stakes[resource].keeps > larger.need(misses);
        Some(if kept { Support { demand, rate: 0.0, salt: 0.0 } } else { larger })
    }

    /// The chunks after which a tenant's misses have fallen most steeply, seen from what it has; 0 where they fall no more. They
    /// are more than one where its curve is flat at first and then falls.
    pub(super) fn to_cliff(&self, who: usize, good: usize) -> u64 {
        let tenant = &self.tenants[who];
        let has: u64 = tenant.has.iter().sum();
        let curve = tenant.curve;
        let now = curve.miss_ratio(has as f64);
        let beyond = curve.points().iter().filter(|point| point.size > has);
        let steep = |point: &Point| Rank((now - point.miss_ratio) / (point.size - has) as f64);
        // Of equally steep ones the nearest.
        let steepest = beyond
            .filter(|point| point.miss_ratio < now)
            .reduce(|a, b| if steep(b) > steep(a) { b } else { a });
        steepest.map_or(0, |point| (point.size - has).div_ceil(self.chunk[good]))
    }

    /// Who relinquishes how much of a resource for one chunk, the most first; equals in the order of names.
    pub(super) fn receivers(&self, good: usize, resource: usize) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.books[good].receivers.order(resource).iter().map(|(units, who)| (-units, who))
    }

    /// Who asks how much of a resource for one chunk, the least first; equals in the order of names.
    pub(super) fn donors(&self, good: usize, resource: usize) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.books[good].donors.order(resource).iter()
    }

    /// The first receiver and the first donor of those.
    pub(super) fn first_pair(&self, good: usize, resource: usize) -> Option<[(f64, usize); 2]> {
        let Book { receivers, donors } = &self.books[good];
        let (units, to) = receivers.order(resource).first()?;
        Some([(-units, to), donors.order(resource).first()?])
    }

    /// What is harvested of each resource if `to` gets one chunk from `from`, who both offer that.
    pub(super) fn profit(&self, good: usize, to: usize, from: usize) -> impl Fn(usize) -> f64 + '_ {
        let (after_it, after_that) = (self.books[good].receivers.of(to), self.books[good].donors.of(from));
        let (to, from) = (&self.tenants[to].stakes, &self.tenants[from].stakes);
        move |k| (to[k].needs - after_it[k]) + (from[k].needs - after_that[k])
    }
}

/// What a tenant needs for a rate, by its misses and salt.
struct Support {
    demand: Demand,
    rate: f64,
    salt: f64,
}

impl Support {
    fn need(&self, misses: f64) -> f64 {
        times(self.rate, self.demand.at((misses + self.salt).min(1.0))).unwrap_or(f64::INFINITY)
    }
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
