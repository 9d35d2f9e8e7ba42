//! The input of an allocation policy: pools with their grants, their demands per request, and the
//! totals.
//!
//! Memory substitutes for the other resources: the more of it a pool has, the fewer of its requests
//! miss, and the less the pool needs of the resources that a miss uses. The others are rates
//! (backend units, network bytes, device bandwidth, processor time), except the capacity of flash.

use std::sync::Arc;

use curve::MissRatioCurve;

/// A resource other than memory, in units per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The name in reports: `read-units`, `network`.
    pub name: String,
    /// The total to allocate, in units per second.
    pub total: f64,
}

/// The demand of one request for a resource: `fixed` in any case, and `on_miss` more if it misses.
///
/// The cost at a miss ratio `m` is `fixed + on_miss * m`. HARE (FAST '26, section 3) writes it
/// `n * (1 - alpha + alpha * m)`, with `n` the cost of a miss and `alpha` the share of it that a
/// hit saves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Units per request, hit or miss.
    pub fixed: f64,
    /// Further units that a miss needs.
    pub on_miss: f64,
}

impl Demand {
    /// The demand of requests that cost `per_miss` units when they miss, of which a hit saves the
    /// share `saved_by_hit` (HARE's alpha, from 0 to 1).
    pub fn new(per_miss: f64, saved_by_hit: f64) -> Self {
        Self { fixed: per_miss * (1.0 - saved_by_hit), on_miss: per_miss * saved_by_hit }
    }

    /// Units per request at a miss ratio.
    pub fn at(self, miss_ratio: f64) -> f64 {
        self.fixed + self.on_miss * miss_ratio
    }
}

/// A second level below memory: a flash cache that takes the items that memory evicts, and is
/// looked up on a miss in memory.
///
/// Its capacity is one of the view's resources, in bytes rather than units per second; no request
/// has a demand for it. With `m` bytes of memory and `f` of flash, the miss ratio of memory is that
/// of the pool's curve at `m`, and the miss ratio of both together is that at `m + f`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flash {
    /// The number of the view's resource that is its capacity.
    pub capacity: usize,
    /// For each resource, the units that a request needs if it misses memory and hits flash.
    pub on_hit: Vec<f64>,
    /// For each resource, the units that a request needs if it misses memory, for the eviction to
    /// flash that this causes: the cost of one write, times the share of evicted items that flash
    /// admits.
    pub on_eviction: Vec<f64>,
}

/// The misses per request of a pool, by level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misses {
    /// Of memory.
    pub memory: f64,
    /// Of memory and flash together; equal to `memory` if there is no flash.
    pub all: f64,
}

/// The place of a pool. The engine moves memory freely within an instance; between instances,
/// memory moves by resizing both; between nodes it cannot move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The machine.
    pub node: u32,
    /// The process on that machine.
    pub instance: u32,
}

/// A pool: a tenant's cache, with its demands and bounds.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name in reports.
    pub name: Arc<str>,
    /// The place of the pool.
    pub place: Place,
    /// The miss ratio at any size.
    pub curve: Arc<MissRatioCurve>,
    /// The memory granted now, in bytes: its limit.
    pub size: u64,
    /// The memory in use, in bytes; less than `size` while the pool fills.
    pub used: u64,
    /// The least memory that the pool may have, in bytes: its reserve.
    pub floor: u64,
    /// The most memory that the pool may have, in bytes.
    pub ceiling: u64,
    /// The share relative to other pools, for policies that use shares; 1 by default.
    pub weight: f64,
    /// Requests per second that the pool serves now.
    pub request_rate: f64,
    /// The promised requests per second. 0 = no promise.
    pub min_request_rate: f64,
    /// The demand of a request for each of the view's resources.
    pub demands: Vec<Demand>,
    /// The present grant of each of the view's resources, in units per second.
    pub grants: Vec<f64>,
    /// The mean size of the items, in the unit of the curve; 1 by default. Matters only relative to
    /// other pools that share one eviction queue.
    pub item_size: f64,
    /// The distance by which predictions for the pool were off lately, in misses per request; 0 by
    /// default.
    pub doubt: f64,
    /// The second level, if there is one.
    pub flash: Option<Flash>,
}

impl Pool {
    /// Creates a pool of this name and curve, with a weight of 1, no floor, no ceiling, no promise,
    /// and no demand except for memory.
    pub fn new(name: impl Into<Arc<str>>, curve: impl Into<Arc<MissRatioCurve>>, size: u64) -> Self {
        Self {
            name: name.into(),
            place: Place::default(),
            curve: curve.into(),
            size,
            used: size,
            floor: 0,
            ceiling: u64::MAX,
            weight: 1.0,
            request_rate: 0.0,
            min_request_rate: 0.0,
            demands: Vec::new(),
            grants: Vec::new(),
            item_size: 1.0,
            doubt: 0.0,
            flash: None,
        }
    }

    /// The misses with this memory and these grants of the view's resources.
    pub fn misses(&self, memory: u64, grants: &[f64]) -> Misses {
        let memory = memory as f64;
        let flash = self.flash.as_ref().and_then(|flash| grants.get(flash.capacity)).copied().unwrap_or(0.0);
        let missed = self.curve.miss_ratio(memory);
        let all = if flash > 0.0 { self.curve.miss_ratio(memory + flash) } else { missed };
        Misses { memory: missed, all }
    }

    /// Units of a resource that a request needs on average.
    pub fn cost(&self, resource: usize, misses: Misses) -> f64 {
        let direct = self.demands[resource].at(misses.all);
        match &self.flash {
            None => direct,
            Some(flash) => {
                let hits = misses.memory - misses.all;
                direct + flash.on_hit[resource] * hits + flash.on_eviction[resource] * misses.memory
            }
        }
    }

    /// The requests per second that these grants carry at these misses: the minimum over all
    /// resources. Infinite if the pool needs no resource.
    pub fn carried(&self, misses: Misses, grants: &[f64]) -> f64 {
        let carried = grants.iter().enumerate().map(|(resource, grant)| {
            let cost = self.cost(resource, misses);
            if cost > 0.0 { grant / cost } else { f64::INFINITY }
        });
        carried.fold(f64::INFINITY, f64::min)
    }
}

/// The whole input of a policy.
#[derive(Clone, Debug)]
pub struct View {
    /// The memory of all pools together, in bytes.
    pub memory: u64,
    /// The other resources.
    pub resources: Vec<Resource>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The time between two decisions, in seconds; 1 by default. Policies that act step by step
    /// count the events in it.
    pub interval_secs: f64,
}

impl Default for View {
    fn default() -> Self {
        Self { memory: 0, resources: Vec::new(), pools: Vec::new(), interval_secs: 1.0 }
    }
}

impl View {
    /// Adds the misses per second that the backends of all pools carry as a resource: a miss needs
    /// a unit of its pool's.
    pub fn add_backends(&mut self, backends: &[f64]) {
        self.resources = vec![Resource { name: "backend".to_owned(), total: backends.iter().sum() }];
        for (pool, &backend) in self.pools.iter_mut().zip(backends) {
            pool.demands = vec![Demand { fixed: 0.0, on_miss: 1.0 }];
            pool.grants = vec![backend];
        }
    }

    /// The mean memory per pool, in bytes, against which steps are sized; at least 1.
    pub fn mean_share(&self) -> f64 {
        (self.memory as f64 / self.pools.len().max(1) as f64).max(1.0)
    }
}

/// The reason why a view is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ViewError {
    /// Floors add up to more than the memory of the view.
    #[error(
        "the floors of the pools add up to {floors} bytes, more than the {memory} that there are; lower a floor"
    )]
    FloorsExceedMemory {
        /// The sum of floors.
        floors: u64,
        /// The memory of the view.
        memory: u64,
    },
    /// A pool's floor is above its ceiling.
    #[error("pool {pool}: its floor of {floor} bytes is above its ceiling of {ceiling}")]
    FloorAboveCeiling {
        /// Its name.
        pool: String,
        /// Its floor.
        floor: u64,
        /// Its ceiling.
        ceiling: u64,
    },
    /// A pool lacks the demand or the grant for a resource, or has one too many.
    #[error("pool {pool}: {given} {what} for {resources} resources")]
    WrongCount {
        /// Its name.
        pool: String,
        /// `demands` or `grants`.
        what: &'static str,
        /// The number given.
        given: usize,
        /// The number required.
        resources: usize,
    },
    /// A figure is negative, infinite or not a number.
    #[error("pool {pool}: its {what} is {value}, not a number from 0 on")]
    NotAQuantity {
        /// Its name, or that of a resource.
        pool: String,
        /// The name of the wrong figure.
        what: &'static str,
        /// The given value.
        value: f64,
    },
}

impl View {
    /// Checks that the view is valid.
    ///
    /// # Errors
    /// The first error found, with the pool's name.
    pub fn validate(&self) -> Result<(), ViewError> {
        for resource in &self.resources {
            quantity(&resource.name, "total", resource.total)?;
        }
        quantity("the view", "interval", self.interval_secs)?;
        let mut floors: u64 = 0;
        for pool in &self.pools {
            if pool.floor > pool.ceiling {
                let Pool { name, floor, ceiling, .. } = pool.clone();
                return Err(ViewError::FloorAboveCeiling { pool: name.to_string(), floor, ceiling });
            }
            floors = floors.saturating_add(pool.floor);
            let flash = pool.flash.as_ref().map(|flash| {
                [
                    ("flash hit demands", flash.on_hit.len()),
                    ("flash eviction demands", flash.on_eviction.len()),
                ]
            });
            let counts = [("demands", pool.demands.len()), ("grants", pool.grants.len())];
            for (what, given) in counts.into_iter().chain(flash.into_iter().flatten()) {
                if given != self.resources.len() {
                    let resources = self.resources.len();
                    return Err(ViewError::WrongCount {
                        pool: pool.name.to_string(),
                        what,
                        given,
                        resources,
                    });
                }
            }
            let rates = [
                ("weight", pool.weight),
                ("request rate", pool.request_rate),
                ("promise", pool.min_request_rate),
                ("item size", pool.item_size),
                ("doubt", pool.doubt),
            ];
            let flash = pool.flash.iter().flat_map(|flash| flash.on_hit.iter().chain(&flash.on_eviction));
            let flash = flash.map(|&units| ("flash demand", units));
            let demands =
                pool.demands.iter().flat_map(|demand| [("demand", demand.fixed), ("demand", demand.on_miss)]);
            let grants = pool.grants.iter().map(|&grant| ("grant", grant));
            for (what, value) in rates.into_iter().chain(demands).chain(grants).chain(flash) {
                quantity(&pool.name, what, value)?;
            }
        }
        if floors > self.memory {
            return Err(ViewError::FloorsExceedMemory { floors, memory: self.memory });
        }
        Ok(())
    }
}

fn quantity(pool: &str, what: &'static str, value: f64) -> Result<(), ViewError> {
    if value >= 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(ViewError::NotAQuantity { pool: pool.to_owned(), what, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::Unit;

    fn pool(name: &str) -> Pool {
        Pool::new(name, MissRatioCurve::uniform(Unit::Bytes, 1000), 100)
    }

    #[test]
    fn a_view_that_contradicts_itself_is_refused_by_name() {
        let refuse = |change: fn(&mut View)| {
            let mut view = View {
                memory: 100,
                resources: Vec::new(),
                pools: vec![pool("a"), pool("b")],
                ..View::default()
            };
            view.validate().unwrap();
            change(&mut view);
            view.validate().unwrap_err().to_string()
        };
        assert!(
            refuse(|view| view.pools[0].floor = 101)
                .starts_with("the floors of the pools add up to 101 bytes")
        );
        let above = |view: &mut View| (view.pools[1].floor, view.pools[1].ceiling) = (7, 6);
        assert_eq!(refuse(above), "pool b: its floor of 7 bytes is above its ceiling of 6");
        assert!(refuse(|view| view.pools[1].weight = f64::NAN).contains("pool b: its weight is NaN"));
        assert!(refuse(|view| view.pools[1].grants.push(1.0)).contains("pool b: 1 grants for 0 resources"));
    }

    #[test]
    fn the_scarcest_resource_limits_what_grants_carry() {
        let mut pool = pool("a");
        pool.demands = vec![Demand::new(1.0, 1.0), Demand { fixed: 0.5, on_miss: 0.0 }];
        let at = |ratio| Misses { memory: ratio, all: ratio };
        assert_eq!(pool.carried(at(0.5), &[100.0, 400.0]), 200.0);
        assert_eq!(pool.carried(at(0.5), &[1000.0, 400.0]), 800.0);
        assert_eq!(pool.carried(at(0.0), &[0.0, 400.0]), 800.0);
    }
}
