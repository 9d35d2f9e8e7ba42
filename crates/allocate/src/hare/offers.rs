//! The tenants' reported offers for a chunk, in the order in which the harvest reads them: by most
//! relinquished, and by least needed.

use super::order::Tournament;
use super::tenant::Tenant;

/// The offers of all tenants for one chunk of one good on one side of the market, ordered for each
/// resource on which a deal was ever chosen.
#[derive(Clone, Default)]
pub(super) struct Offers {
    /// For each tenant, true if it has an offer.
    made: Vec<bool>,
    /// Tenant by tenant, the need of each resource after the deal.
    then: Vec<f64>,
    /// Resource by resource, tenants by the increase of their need: the tenant that relinquishes
    /// most, or asks least, comes first. Created at the first request.
    orders: Vec<Option<Tournament>>,
}

impl Offers {
    /// Creates an empty set for `tenants` tenants and `resources` resources.
    pub(super) fn none(tenants: usize, resources: usize) -> Self {
        Self {
            made: vec![false; tenants],
            then: vec![0.0; tenants * resources],
            orders: vec![None; resources],
        }
    }

    /// The need of a tenant for each resource after the deal.
    pub(super) fn of(&self, who: usize) -> &[f64] {
        let resources = self.orders.len();
        &self.then[who * resources..][..resources]
    }

    /// The figure that orders a tenant for a resource.
    fn figure(&self, tenant: &Tenant<'_>, who: usize, resource: usize) -> Option<f64> {
        self.made[who].then(|| self.of(who)[resource] - tenant.stakes[resource].needs)
    }

    /// Enters the need of a tenant for each resource, in place of its previous offer. There is no
    /// offer if the deal is not `possible`, or no amount of one resource would suffice.
    pub(super) fn enter(
        &mut self,
        tenant: &Tenant<'_>,
        who: usize,
        possible: bool,
        need: impl Fn(usize) -> Option<f64>,
    ) {
        let resources = self.orders.len();
        let row = &mut self.then[who * resources..][..resources];
        self.made[who] = possible
            && row.iter_mut().enumerate().all(|(k, then)| {
                let need = need(k);
                *then = need.unwrap_or(0.0);
                need.is_some()
            });
        for resource in 0..resources {
            let figure = self.figure(tenant, who, resource);
            if let Some(order) = &mut self.orders[resource] {
                order.set(who, figure);
            }
        }
    }

    /// Orders tenants by their offers of a resource, unless they are already.
    pub(super) fn sort(&mut self, tenants: &[Tenant<'_>], resource: usize) {
        if self.orders[resource].is_none() {
            let figures = tenants.iter().enumerate().map(|(who, tenant)| self.figure(tenant, who, resource));
            self.orders[resource] = Some(Tournament::of(figures));
        }
    }

    /// Tenants by their offers of a resource that they are sorted by.
    pub(super) fn order(&self, resource: usize) -> &Tournament {
        self.orders[resource].as_ref().expect("tenants are sorted by the dominant resource")
    }
}

/// Both sides of the market in one good.
#[derive(Clone, Default)]
pub(super) struct Book {
    /// With a chunk more; the tenant that relinquishes most for it comes first.
    pub(super) receivers: Offers,
    /// With a chunk less; the tenant that asks least for it comes first.
    pub(super) donors: Offers,
}
