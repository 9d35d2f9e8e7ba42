//! Tenants as HARE's evaluation has them, by model: curves computed rather than learnt, demands as
//! its two systems count them.

use allocate::drf::Drf;
use allocate::hare::{Hare, Mode, Settings};
use allocate::memshare::{Gains, Memshare, MemshareDrf};
use allocate::partition::Equal;
use allocate::shared::{NonPartitioned, OneQueue, Shared};
use allocate::{Demand, Grant, Policy, Pool, Resource, View, fairness};
use base::rng::{RngExt, seeded};
use curve::che::{self, Popularity};
use curve::{MissRatioCurve, Point, Unit};

/// A million bytes.
pub(super) const MB: u64 = 1_000_000;

/// Keys of the paper for each key of a model: with fewer keys, but the same bytes, a curve is
/// computed in no time.
const KEYS_PER_KEY: u64 = 100;

/// The workload of a tenant of HopperKV.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hopper {
    pub(super) keys: u64,
    /// Zipf's exponent; 0 is uniform.
    pub(super) theta: f64,
    pub(super) reads: f64,
    pub(super) value_bytes: u64,
    /// Keys that a read asks for: 1, or those of a scan of 1 to 100.
    pub(super) scan: bool,
}

impl Hopper {
    /// The microbenchmarks' tenant: 95 % reads of 500-byte values.
    pub(super) fn micro(keys: u64, theta: f64) -> Self {
        Self { keys, theta, reads: 0.95, value_bytes: 500, scan: false }
    }

    /// Bytes of Redis memory for a key: 550 with a value of 500 bytes.
    fn bytes_per_key(&self) -> u64 {
        self.value_bytes + 50
    }

    fn curve(&self, seed: u64) -> MissRatioCurve {
        let bytes = self.keys * self.bytes_per_key();
        if self.theta == 0.0 && !self.scan {
            return MissRatioCurve::uniform(Unit::Bytes, bytes);
        }
        let size = (self.bytes_per_key() * KEYS_PER_KEY) as f64;
        let mut keys = che::zipf(self.keys / KEYS_PER_KEY, self.theta, size);
        if self.scan {
            keys = scanned(&keys, seed);
        }
        che::curve(Unit::Bytes, &keys, bytes, 256)
    }

    /// Read units, write units and network bytes for a request.
    fn demands(&self) -> Vec<Demand> {
        let Self { reads, value_bytes, .. } = *self;
        let writes = 1.0 - reads;
        let keys = if self.scan { 50.5 } else { 1.0 };
        // A unit reads up to 4 KB, or writes up to 1 KB.
        let read_units = (value_bytes + 16).div_ceil(4096) as f64;
        let write_units = (value_bytes + 16).div_ceil(1024) as f64;
        let leg = (value_bytes + 16) as f64;
        vec![
            Demand { fixed: 0.0, on_miss: reads * keys * read_units },
            Demand { fixed: writes * write_units, on_miss: 0.0 },
            // A read crosses to the tenant, and on a miss from the backend too; a write always
            // crosses both.
            Demand { fixed: (reads * keys + writes * 2.0) * leg, on_miss: reads * keys * leg },
        ]
    }

    /// Returns the number of visits to the backend per request.
    fn visits(&self) -> Demand {
        let keys = if self.scan { 50.5 } else { 1.0 };
        Demand { fixed: 1.0 - self.reads, on_miss: self.reads * keys }
    }

    pub(super) fn pool(&self, name: impl Into<std::sync::Arc<str>>, seed: u64) -> Pool {
        let mut pool = Pool::new(name, self.curve(seed), 0);
        pool.demands = self.demands();
        pool.grants = vec![0.0; 3];
        pool.item_size = self.bytes_per_key() as f64;
        pool.floor = 10 * MB;
        pool
    }
}

/// The popularity of keys if scans of 1 to 100 begin at keys of this popularity, which lie in no
/// order of it.
fn scanned(starts: &[Popularity], seed: u64) -> Vec<Popularity> {
    let mut order: Vec<f64> = starts.iter().map(|key| key.weight).collect();
    let mut rng = seeded(seed);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    // A scan that begins `ahead` keys before reaches this one if it is longer than that.
    let weight = |key: usize| -> f64 {
        (0..100)
            .map(|ahead| order[(key + order.len() - ahead) % order.len()] * (100 - ahead) as f64 / 100.0)
            .sum()
    };
    (0..order.len()).map(|key| Popularity { weight: weight(key), size: starts[key].size }).collect()
}

/// Tenants of HopperKV with 2 GB, 1000 read units, 1000 write units and 50 MB/s each.
pub(super) fn hopper(tenants: &[Hopper], seed: u64) -> View {
    let names = (1..).map(|number| format!("T{number:02}"));
    let pools: Vec<Pool> = tenants.iter().zip(names).map(|(tenant, name)| tenant.pool(name, seed)).collect();
    let n = pools.len() as f64;
    let resources = [("read-units", 1000.0), ("write-units", 1000.0), ("network", 50e6)];
    let resources = resources.map(|(name, each)| Resource { name: name.into(), total: each * n });
    presently_equal(View {
        memory: 2000 * MB * pools.len() as u64,
        resources: resources.to_vec(),
        pools,
        ..View::default()
    })
}

/// The tenants have the baseline now, and send as much as that carries.
pub(super) fn presently_equal(mut view: View) -> View {
    let baseline = fairness::baseline(&view);
    for (pool, grant) in view.pools.iter_mut().zip(baseline) {
        let rate = pool.carried(pool.misses(grant.memory, &grant.resources), &grant.resources);
        pool.request_rate = if rate.is_finite() { rate } else { 0.0 };
        (pool.size, pool.used, pool.grants) = (grant.memory, grant.memory, grant.resources);
    }
    view
}

/// A curve that misses all until the whole of it fits.
pub(super) fn sequential(bytes: u64) -> MissRatioCurve {
    let points = [Point { size: bytes - 1, miss_ratio: 1.0 }, Point { size: bytes, miss_ratio: 0.0 }];
    MissRatioCurve::new(Unit::Bytes, points).expect("it is a curve")
}

/// HARE with the constants of the paper's evaluation, whatever is there now.
pub(super) fn hare(mode: Mode, salt: f64) -> Settings {
    let settings = if mode == Mode::Published { Settings::published() } else { Settings::default() };
    Settings { salt, apply_threshold: 0.0, ..settings }
}

/// The policies that HARE's evaluation compares, HARE last.
///
/// If nothing is partitioned, HopperKV's one storage thread takes misses and writes from one line,
/// a key at a time, and waits for the units of the one that it holds. A tenant's 32 clients send up
/// to 100,000 requests a second.
pub(super) fn compared(tenants: &[Hopper]) -> Vec<(&'static str, Box<dyn Policy>)> {
    let visits = tenants.iter().map(Hopper::visits).collect();
    let one = OneQueue { resources: vec![0, 1], visits, most_sent: 100_000.0 };
    let memshare = Memshare { gains: Gains::PerRequest, ..Memshare::default() };
    vec![
        ("equal", Box::new(Equal)),
        ("DRF", Box::new(Drf::default())),
        ("Memshare+DRF", Box::new(MemshareDrf { memshare, drf: Drf::default() })),
        ("non-partitioned", Box::new(NonPartitioned { shared: Shared::OneQueue(one) })),
        ("HARE", Box::new(Hare { settings: hare(Mode::Repaired, 0.01) })),
    ]
}

/// The normalised throughput of each pool.
pub(super) fn normalised(view: &View, grants: &[Grant]) -> Vec<f64> {
    fairness::normalised(view, &fairness::baseline(view), grants)
}

/// The least of some figures.
pub(super) fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}
