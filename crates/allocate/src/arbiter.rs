//! Memshare's arbiter: a part of each tenant's memory is reserved, and the rest follows hits in
//! shadow queues. Cidon, Rushton, Rumble and Stutsman, "Memshare: a Dynamic Multi-tenant Key-value
//! Cache", USENIX ATC '17, section 3.
//!
//! A tenant has a *target*, of which a part is *reserved*; its present *limit* is the target plus
//! the credits that it has won, less those it has lost. A miss that would have been a hit with a
//! little more memory wins a credit from another tenant that stays above its reserve. That is
//! Cliffhanger's hill climbing ([`HillClimber`]) with a least size per queue, which is the
//! implementation here. The authors' simulator draws up to ten victims and then gives up; here a
//! victim is found if there is one.
//!
//! *Need* decides which tenant must give memory: the limit divided by the memory that the tenant
//! holds. The tenant with the least need is evicted from first, so an idle tenant keeps its memory
//! until another has won a credit from it.
//!
//! | Memshare | here |
//! |---|---|
//! | reserved memory, and what is pooled beyond it | [`Arbiter::reserve`], and [`Arbiter::limit`] less that |
//! | a miss that hits the application's shadow queue: a credit from a random application that can pay it | [`Arbiter::on_shadow_hit`] |
//! | need = target memory / actual memory | [`Arbiter::need`] |
//! | the cleaner keeps what belongs to applications with most need | [`Arbiter::victim`]: the tenant with the least need gives first |

use crate::cliffhanger::{HillClimber, Queue, Transfer};

/// The default reserved part of a tenant's target: 75 %, the middle of the values that the authors
/// tried.
pub const RESERVED: f64 = 0.75;

/// The default credit for a hit in a shadow queue: 64 KiB.
pub const CREDIT_BYTES: u64 = 64 << 10;

/// Limits of tenants that share one memory.
#[derive(Clone, Debug)]
pub struct Arbiter {
    limits: HillClimber,
    reserves: Vec<u64>,
}

impl Arbiter {
    /// Creates an arbiter of tenants with these targets, of which the part `reserved` is reserved.
    /// `credit` is in the unit of the targets; `seed` determines the random victims.
    ///
    /// # Panics
    /// If there is no tenant, the credit is 0, or `reserved` is not between 0 and 1.
    pub fn new(targets: &[u64], reserved: f64, credit: u64, seed: u64) -> Self {
        assert!((0.0..=1.0).contains(&reserved), "a part of the target is reserved");
        let reserves: Vec<u64> =
            targets.iter().map(|&target| (target as f64 * reserved).ceil() as u64).collect();
        let queues =
            targets.iter().zip(&reserves).map(|(&target, &reserve)| Queue::new(target, reserve.min(target)));
        Self { limits: HillClimber::new(queues, credit, credit, seed), reserves }
    }

    /// Records a miss of `tenant` that hits its shadow queue: the tenant wins a credit from another
    /// one, if any can pay.
    pub fn on_shadow_hit(&mut self, tenant: usize) -> Option<Transfer> {
        self.limits.on_shadow_hit(tenant)
    }

    /// The present limit of `tenant`.
    pub fn limit(&self, tenant: usize) -> u64 {
        self.limits.size(tenant)
    }

    /// The reserve of `tenant`.
    pub fn reserve(&self, tenant: usize) -> u64 {
        self.reserves[tenant]
    }

    /// The need of `tenant` for memory when it holds `used`: above 1 it is below its limit, below 1
    /// it is over its limit.
    pub fn need(&self, tenant: usize, used: u64) -> f64 {
        if used == 0 { f64::INFINITY } else { self.limit(tenant) as f64 / used as f64 }
    }

    /// The tenant that must give memory when the tenants hold `used`: the one with the least need
    /// among those that hold any.
    pub fn victim(&self, used: &[u64]) -> Option<usize> {
        let holders = used.iter().enumerate().filter(|(_, used)| **used > 0);
        let needs = holders.map(|(tenant, &used)| (tenant, self.need(tenant, used)));
        needs.reduce(|a, b| if b.1 < a.1 { b } else { a }).map(|(tenant, _)| tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_tenant_keeps_its_reserve() {
        let mut arbiter = Arbiter::new(&[1000, 1000], RESERVED, 64, 1);
        while arbiter.on_shadow_hit(0).is_some() {}
        assert_eq!((arbiter.limit(0), arbiter.limit(1)), (1192, 808), "a credit less would be below 750");
        assert_eq!(arbiter.reserve(1), 750);
        let mut all = Arbiter::new(&[1000, 1000], 1.0, 64, 1);
        assert_eq!(all.on_shadow_hit(0), None, "all is reserved");
        let mut none = Arbiter::new(&[1000, 1000], 0.0, 10, 1);
        while none.on_shadow_hit(0).is_some() {}
        assert_eq!(none.limit(1), 0);
    }

    #[test]
    fn the_least_need_gives() {
        let mut arbiter = Arbiter::new(&[1000, 1000], 0.5, 100, 1);
        assert_eq!(arbiter.victim(&[900, 1000]), Some(1));
        for _ in 0..5 {
            arbiter.on_shadow_hit(1);
        }
        assert_eq!(arbiter.victim(&[900, 1000]), Some(0), "it may have 500 now");
        assert_eq!(arbiter.victim(&[0, 1]), Some(1), "who holds nothing gives nothing");
        assert_eq!(arbiter.victim(&[0, 0]), None);
    }
}
