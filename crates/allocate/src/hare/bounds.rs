//! Bounds on the profit of a deal of any width, so that most tenants need not be examined when no
//! single chunk pays. Beyond the paper.

use curve::Point;

use super::market::{MEMORY, Market};
use super::tenant::times;
use crate::Demand;
use crate::rank::Rank;

impl Market<'_> {
    /// An upper bound on the reduction of a tenant's need of a resource per chunk, for deals over
    /// any number of chunks; infinite if no bound is known. Costs a pass over the points of the
    /// tenant's curve beyond its present size.
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

    /// A lower bound on the compensation per chunk that a tenant asks in a resource, for deals over
    /// any number of chunks; negative infinity if no bound is known. Costs a pass over the points
    /// of the tenant's curve below its present size.
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

    /// A function of misses that equals a tenant's need of a resource at its present state and is
    /// nowhere above the need. A need is the largest of several such functions; the one that is
    /// largest now suffices. `None` if the need depends on more than misses of memory.
    fn support(&self, who: usize, good: usize, resource: usize) -> Option<Support> {
        let tenant = &self.tenants[who];
        if good != MEMORY || tenant.flash || self.tail.is_some() {
            return None;
        }
        let demand = tenant.stakes[resource].demand;
        let misses = tenant.misses(tenant.has).all;
        let salted = Support { demand, throughput: tenant.throughput, salt: self.settings.salt };
        let plain = Support { demand, throughput: tenant.plain_throughput, salt: 0.0 };
        let larger = if self.settings.holds_by_plain_curve() && plain.need(misses) > salted.need(misses) {
            plain
        } else {
            salted
        };
        let kept = tenant.stakes[resource].keeps > larger.need(misses);
        Some(if kept { Support { demand, throughput: 0.0, salt: 0.0 } } else { larger })
    }

    /// The number of chunks after which a tenant's misses have fallen most steeply from its present
    /// size; 0 if they fall no further. More than one if the curve is flat at first and then falls.
    pub(super) fn to_cliff(&self, who: usize, good: usize) -> u64 {
        let tenant = &self.tenants[who];
        let has: u64 = tenant.has.iter().sum();
        let curve = tenant.curve;
        let now = curve.miss_ratio(has as f64);
        let beyond = curve.points().iter().filter(|point| point.size > has);
        let steep = |point: &Point| Rank((now - point.miss_ratio) / (point.size - has) as f64);
        // Among equally steep points the nearest.
        let steepest = beyond
            .filter(|point| point.miss_ratio < now)
            .reduce(|a, b| if steep(b) > steep(a) { b } else { a });
        steepest.map_or(0, |point| (point.size - has).div_ceil(self.chunk[good]))
    }
}

/// The need of a tenant for a throughput, by its misses and salt.
struct Support {
    demand: Demand,
    throughput: f64,
    salt: f64,
}

impl Support {
    fn need(&self, misses: f64) -> f64 {
        times(self.throughput, self.demand.at((misses + self.salt).min(1.0))).unwrap_or(f64::INFINITY)
    }
}
