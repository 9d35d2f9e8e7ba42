//! The state of tenants that share one cache and one queue: the baseline without any allocation.
//!
//! This is a mode of simulation rather than advice: it computes the state in which tenants settle,
//! so that policies can be compared with it. It keeps no bounds, as none are enforced. HARE (FAST
//! 2026, sections 4.4 and 5.2) calls it *NonPart* and, if only the cache is shared,
//! *NonPartCache+DRF*.
//!
//! *The cache.* In a shared LRU an item of any tenant stays for the same *characteristic time*
//! after its last request (Che, Tung and Wang, JSAC 2002). A tenant whose curve is `m` and that
//! sends `n` requests fills `c` bytes, where `n` is the integral of `dx / (s * m(x))` up to `c`,
//! with `s` the size of an item: each miss inserts one (Xiang et al., "HOTL: a Higher Order Theory
//! of Locality", ASPLOS 2013). So curves and request rates give the bytes that each tenant
//! occupies; the characteristic time is the one at which their sum is the whole cache.
//!
//! *The queues.* Tenants with the same number of clients in a closed loop wait in the same queues,
//! each in proportion to the cost of its requests. In the limit of many clients their throughputs
//! are proportionally fair: `clients = rate * sum of (cost * wait)`, where only exhausted resources
//! cause waits (Massoulié and Roberts, "Bandwidth sharing: objectives and algorithms", INFOCOM
//! 1999).
//!
//! The two depend on each other: a slower tenant gets fewer requests, loses its part of the cache,
//! and becomes slower still.

use curve::MissRatioCurve;

use crate::drf::{self, Drf};
use crate::rank::in_order_of_names;
use crate::{Decision, Demand, Grant, Outcome, Policy, Pool, View, fairness};

/// Steps towards the fixed point, and the relative change of a request rate at which it is reached.
const STEPS: usize = 400;
const STILL: f64 = 1e-6;
/// Steps in which the cache settles between two decisions.
const LAG: usize = 30;

/// The shared resources.
#[derive(Clone, Debug, Default)]
pub enum Shared {
    /// The cache and every resource, each with a queue of its own.
    #[default]
    Everything,
    /// The cache and every resource, some of them behind one common queue.
    OneQueue(OneQueue),
    /// Only the cache; the other resources are divided by DRF.
    Cache(Drf),
}

/// Resources behind one common queue with head-of-line blocking: HopperKV hands every miss and
/// every write to one thread, which waits until there is a unit for the request it holds.
#[derive(Clone, Debug, Default)]
pub struct OneQueue {
    /// The resources.
    pub resources: Vec<usize>,
    /// For each pool of the view, how often a request enters the queue.
    pub visits: Vec<Demand>,
    /// Requests per second that the clients of one pool can send at most; 0 = any. A pool without
    /// misses sends this many.
    pub most_sent: f64,
}

/// The state in which tenants that share one cache settle.
#[derive(Clone, Debug, Default)]
pub struct NonPartitioned {
    /// The shared resources. Default: everything.
    pub shared: Shared,
}

impl Policy for NonPartitioned {
    fn name(&self) -> &'static str {
        match self.shared {
            Shared::Everything | Shared::OneQueue(_) => "non-partitioned",
            Shared::Cache(_) => "non-partitioned-drf",
        }
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let grants = self.state(view);
            Decision::to(view, grants, |_, _| {
                "nobody divides the cache; who asks more often occupies more".to_owned()
            })
        })
    }
}

impl NonPartitioned {
    /// The final grant of each tenant.
    fn state(&self, view: &View) -> Vec<Grant> {
        let baseline = fairness::baseline(view);
        let start = view.pools.iter().zip(&baseline).map(|(pool, grant)| {
            let rate = Outcome::of(pool, grant).throughput;
            if rate.is_finite() && rate > 0.0 { rate } else { pool.request_rate }
        });
        let mut rates: Vec<f64> = start.collect();
        let mut waits = waits_of(view);
        let nothing = OneQueue::default();
        let one = if let Shared::OneQueue(one) = &self.shared { one } else { &nothing };
        let mut occupied = occupied(view, &rates);
        for _ in 0..STEPS {
            let grants = match &self.shared {
                Shared::Everything | Shared::OneQueue(_) => queued(view, one, &occupied, &rates, &mut waits),
                Shared::Cache(drf) => {
                    // The enforced rates were computed from the previous misses; the cache settles
                    // under them.
                    let grants = drf::with_memory(view, drf, &occupied);
                    for _ in 0..LAG {
                        approach(view, &grants, &occupied, &mut rates);
                        occupied = self::occupied(view, &rates);
                    }
                    grants
                }
            };
            let change = approach(view, &grants, &occupied, &mut rates);
            occupied = self::occupied(view, &rates);
            if change < STILL {
                break;
            }
        }
        match &self.shared {
            Shared::Everything | Shared::OneQueue(_) => queued(view, one, &occupied, &rates, &mut waits),
            Shared::Cache(drf) => drf::with_memory(view, drf, &occupied),
        }
    }
}

/// Moves rates half of the way, in their logarithm, to the rates that pools with this memory carry,
/// so that rates and memory do not oscillate. Returns the largest remaining change.
fn approach(view: &View, grants: &[Grant], memory: &[u64], rates: &mut [f64]) -> f64 {
    let mut change = 0.0_f64;
    for (((rate, pool), grant), &memory) in rates.iter_mut().zip(&view.pools).zip(grants).zip(memory) {
        let next = pool.carried(pool.misses(memory, &[]), &grant.resources);
        if next.is_finite() && next > 0.0 && *rate > 0.0 {
            change = change.max((next / *rate - 1.0).abs());
            *rate = (*rate * next).sqrt();
        }
    }
    change
}

/// The bytes of a shared LRU that each pool occupies at these request rates.
pub fn occupied(view: &View, rates: &[f64]) -> Vec<u64> {
    let fillings: Vec<Filling> = view.pools.iter().map(Filling::of).collect();
    let memory = view.memory as f64;
    let sizes =
        |time: f64| fillings.iter().zip(rates).map(move |(filling, rate)| filling.size_after(rate * time));
    let full = |time: f64| sizes(time).sum::<f64>() >= memory;
    let mut above = 1.0;
    while !full(above) && above < 1e18 {
        above *= 4.0;
    }
    let mut below = 0.0;
    for _ in 0..60 {
        let middle = if below == 0.0 { above / 4.0 } else { f64::midpoint(below, above) };
        if full(middle) {
            above = middle
        } else {
            below = middle
        }
        if above < 1e-18 || above - below < 1e-9 * above {
            break;
        }
    }
    // Rounded down from the time at which it is not quite full.
    sizes(if full(below) { 0.0 } else { below }).map(|size| size as u64).collect()
}

/// The filling of a cache by a pool's requests.
struct Filling {
    /// Requests after which each point of the curve is reached.
    reached: Vec<f64>,
    points: Vec<curve::Point>,
    item_size: f64,
}

impl Filling {
    fn of(pool: &Pool) -> Self {
        let curve: &MissRatioCurve = &pool.curve;
        let item_size = if pool.item_size > 0.0 { pool.item_size } else { 1.0 };
        let mut reached = vec![0.0];
        for pair in curve.points().windows(2) {
            let bytes = (pair[1].size - pair[0].size) as f64;
            let (from, to) = (pair[0].miss_ratio, pair[1].miss_ratio);
            // The integral of 1 / m over a straight piece of m.
            let requests =
                if from - to > 1e-12 { bytes * (from / to).ln() / (from - to) } else { bytes / from };
            reached.push(reached[reached.len() - 1] + requests / item_size);
        }
        Self { reached, points: curve.points().to_vec(), item_size }
    }

    /// The bytes that `requests` fill.
    fn size_after(&self, requests: f64) -> f64 {
        let i = self.reached.partition_point(|&reached| reached <= requests).max(1) - 1;
        let (left, more) = (self.points[i], (requests - self.reached[i]) * self.item_size);
        let Some(right) = self.points.get(i + 1) else {
            // Beyond the curve each miss still inserts a new item.
            return left.size as f64 + more * left.miss_ratio;
        };
        let bytes = (right.size - left.size) as f64;
        let slope = (left.miss_ratio - right.miss_ratio) / bytes;
        let filled = if slope * bytes > 1e-12 {
            -(-slope * more).exp_m1() * left.miss_ratio / slope
        } else {
            more * left.miss_ratio
        };
        left.size as f64 + filled.clamp(0.0, bytes)
    }
}

/// An initial guess of the wait for a unit of each resource, and for a place in the common queue.
fn waits_of(view: &View) -> Vec<f64> {
    let totals = view.resources.iter().map(|resource| resource.total);
    totals.chain([1.0]).map(|total| 1.0 / total.max(f64::MIN_POSITIVE)).collect()
}

/// The use of shared queues by each pool, with this memory. `waits` are the result of the last
/// search.
fn queued(view: &View, one: &OneQueue, memory: &[u64], rates: &[f64], waits: &mut [f64]) -> Vec<Grant> {
    let resources = view.resources.len();
    // For each pool, the demand of a request for each resource, and how often it enters the common
    // queue.
    let costs: Vec<Vec<f64>> = (view.pools.iter().zip(memory).enumerate())
        .map(|(i, (pool, &memory))| {
            let misses = pool.misses(memory, &[]);
            let visits = one.visits.get(i).map_or(0.0, |visits| visits.at(misses.all));
            (0..resources).map(|k| pool.cost(k, misses)).chain([visits]).collect()
        })
        .collect();
    let mut carried = rates.to_vec();
    let used = |carried: &[f64], k: usize| {
        let over = carried.iter().zip(&costs).map(|(rate, costs)| rate * costs[k]).sum::<f64>();
        let total = view.resources[k].total;
        if total > 0.0 { over / total } else { 0.0 }
    };
    let in_line = |k: &usize| one.resources.contains(k);
    for _ in 0..20 {
        for (rate, costs) in carried.iter_mut().zip(&costs) {
            let each = costs.iter().zip(&*waits).enumerate().filter(|(k, _)| !in_line(k));
            let wait: f64 = each.map(|(_, (cost, wait))| cost * wait).sum();
            // One client: more clients, equally many for each pool, only wait longer.
            if wait > 0.0 {
                *rate = 1.0 / wait;
            }
            if one.most_sent > 0.0 {
                *rate = rate.min(one.most_sent);
            }
        }
        // The scarcest resource of the common queue blocks all of it.
        let line = one.resources.iter().map(|&k| used(&carried, k)).fold(0.0, f64::max);
        for (k, wait) in waits.iter_mut().enumerate() {
            let over = if k == resources { line } else { used(&carried, k) };
            if over > 0.0 {
                *wait = (*wait * over.powf(0.7)).clamp(1e-30, 1e30);
            }
        }
    }
    let over = (0..resources).map(|k| used(&carried, k)).fold(1.0, f64::max);
    let each = carried.iter().zip(&costs).zip(memory);
    each.map(|((rate, costs), &memory)| {
        let used = costs[..resources].iter().zip(&view.resources);
        // The pool may also use what others leave, but none of that is guaranteed to it.
        let used = used.map(|(cost, resource)| if resource.total > 0.0 { rate * cost / over } else { 0.0 });
        Grant { memory, resources: used.collect() }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demand, Resource};
    use curve::{Unit, che};

    fn tenant(name: &str, curve: MissRatioCurve) -> Pool {
        let mut pool = Pool::new(name, curve, 0);
        (pool.demands, pool.grants) = (vec![Demand::new(1.0, 1.0)], vec![0.0]);
        pool
    }

    fn view(pools: Vec<Pool>, memory: u64) -> View {
        View {
            memory,
            resources: vec![Resource { name: "reads".into(), total: 1000.0 }],
            pools,
            ..View::default()
        }
    }

    /// Two tenants in one LRU are one tenant with both popularities.
    #[test]
    fn what_each_occupies_agrees_with_che() {
        let curve = |exponent| che::curve(Unit::Items, &che::zipf(2000, exponent, 1.0), 2000, 200);
        let view = view(vec![tenant("a", curve(0.9)), tenant("b", curve(0.3))], 1000);
        let rates = [300.0, 100.0];
        let shared = occupied(&view, &rates);
        let weigh = |exponent, rate: f64| {
            let mut keys = che::zipf(2000, exponent, 1.0);
            let sum: f64 = keys.iter().map(|key| key.weight).sum();
            keys.iter_mut().for_each(|key| key.weight *= rate / sum);
            keys
        };
        let both = [weigh(0.9, 300.0), weigh(0.3, 100.0)];
        let all: Vec<_> = both.iter().flatten().copied().collect();
        let misses = che::miss_ratio(&all, 1000.0) * 400.0;
        let by_shares: f64 =
            (0..2).map(|i| rates[i] * view.pools[i].curve.miss_ratio(shared[i] as f64)).sum();
        assert!(
            (misses - by_shares).abs() < 0.01 * misses,
            "{misses} a second together, {by_shares} by what each occupies"
        );
        assert!((shared.iter().sum::<u64>()).abs_diff(1000) <= 2);
    }

    #[test]
    fn backend_units_of_one_queue_go_to_all_alike() {
        let uniform = |size| MissRatioCurve::uniform(Unit::Bytes, size);
        let view = view(vec![tenant("a", uniform(10_000)), tenant("b", uniform(40_000))], 10_000);
        let decision = NonPartitioned::default().decide(&view);
        for grant in &decision.grants {
            assert!((grant.resources[0] - 500.0).abs() < 1.0, "{:?}", decision.grants);
        }
        assert!(decision.grants[0].memory > decision.grants[1].memory * 5 / 10, "{:?}", decision.grants);
    }

    #[test]
    fn a_tenant_that_fits_loses_its_cache_to_a_scan() {
        let uniform = |size| MissRatioCurve::uniform(Unit::Bytes, size);
        let scan =
            MissRatioCurve::new(Unit::Bytes, [curve::Point { size: 1 << 40, miss_ratio: 1.0 }]).unwrap();
        let mut view = view(vec![tenant("fits", uniform(4_900)), tenant("scan", scan)], 10_000);
        // Something bounds the rate of hits; a tenant that asks at any rate would push out
        // everything else.
        view.resources.push(Resource { name: "network".into(), total: 3000.0 });
        for pool in &mut view.pools {
            (pool.demands, pool.grants) = (vec![Demand::new(1.0, 1.0), Demand::new(1.0, 0.0)], vec![0.0; 2]);
        }
        for shared in [Shared::Everything, Shared::Cache(Drf::default())] {
            let decision = NonPartitioned { shared }.decide(&view);
            assert!(decision.grants[0].memory < 4_800, "{:?}", decision.grants);
            assert!(decision.after[0].miss_ratio > 0.03, "{:?}", decision.after);
        }
    }
}
