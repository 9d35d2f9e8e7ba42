//! What tenants reported for a chunk, kept in the order in which the harvest asks for it: who
//! relinquishes most, who needs least.

use super::order::Tournament;
use super::tenant::Tenant;

/// What all tenants offer for one chunk of one good on one side of the market, ordered for each
/// resource on which a deal was ever chosen.
#[derive(Clone, Default)]
pub(super) struct Offers {
    /// For each tenant, true if it offers anything.
    made: Vec<bool>,
    /// Tenant by tenant, what each would need of each resource then.
    then: Vec<f64>,
    /// Resource by resource, tenants by how much more they would need: who relinquishes most, or
    /// asks least, comes first. Made when it is first asked for.
    orders: Vec<Option<Tournament>>,
}

impl Offers {
    /// Of so many tenants and resources, nothing yet.
    pub(super) fn none(tenants: usize, resources: usize) -> Self {
        Self {
            made: vec![false; tenants],
            then: vec![0.0; tenants * resources],
            orders: vec![None; resources],
        }
    }

    /// What a tenant would need of each resource.
    pub(super) fn of(&self, who: usize) -> &[f64] {
        let resources = self.orders.len();
        &self.then[who * resources..][..resources]
    }

    /// By what a tenant stands in the order of a resource.
    fn figure(&self, tenant: &Tenant<'_>, who: usize, resource: usize) -> Option<f64> {
        self.made[who].then(|| self.of(who)[resource] - tenant.stakes[resource].needs)
    }

    /// Enters what a tenant would need of each resource, in place of what it offered: nothing where
    /// that is not `possible`, or no amount of one resource would do.
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

    /// Orders tenants by what they offer of a resource, if they are not yet.
    pub(super) fn sort(&mut self, tenants: &[Tenant<'_>], resource: usize) {
        if self.orders[resource].is_none() {
            let figures = tenants.iter().enumerate().map(|(who, tenant)| self.figure(tenant, who, resource));
            self.orders[resource] = Some(Tournament::of(figures));
        }
    }

    /// Tenants by what they offer of a resource that they are sorted by.
    pub(super) fn order(&self, resource: usize) -> &Tournament {
        self.orders[resource].as_ref().expect("tenants are sorted by the dominant resource")
    }
}

/// Both sides of the market in one good.
#[derive(Clone, Default)]
pub(super) struct Book {
    /// With a chunk more; who relinquishes most for it comes first.
    pub(super) receivers: Offers,
    /// With a chunk less; who asks least for it comes first.
    pub(super) donors: Offers,
}
