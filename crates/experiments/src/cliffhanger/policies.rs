//! Cliffhanger compared with reserves and credits (Memshare), and with other eviction policies
//! (insertion in the middle, ARC).

use allocate::arbiter::{Arbiter, RESERVED};
use allocate::cliffhanger::Side;
use base::rng::{RngExt, SeededRng, seeded};
use evict::PolicyKind;
use rand_distr::{Distribution, Zipf};
use simulate::table::Table;
use simulate::world::{Cache, Eviction};
use workload::queues::{LruQueue, Place};

use super::median;
use crate::report::{Chart, Criterion, Report};
use crate::{CLIFFHANGER, Context, Experiment};

/// Memshare.
pub(super) const MEMSHARE: Experiment = Experiment {
    name: "C8",
    paper: "Memshare (ATC '17), by Cliffhanger's authors",
    figure: "section 3",
    title: "an idle tenant keeps its reserve, a busy one gets the rest",
    run: memshare,
};

/// Eviction policies.
pub(super) const POLICIES: Experiment = Experiment {
    name: "C10",
    paper: CLIFFHANGER,
    figure: "section 5.5, table 5",
    title: "insertion in the middle and ARC beside LRU",
    run: policies,
};

const TARGET: u64 = 4000;
const CREDIT: u64 = 8;

/// Two tenants in one memory, whose limits an arbiter sets.
struct Shared {
    tenants: [LruQueue; 2],
    arbiter: Arbiter,
}

impl Shared {
    fn new(reserved: f64, seed: u64) -> Self {
        let mut tenants = [LruQueue::new(0), LruQueue::new(0)];
        tenants.iter_mut().for_each(|queue| queue.set_far(Side::Right, 1000));
        Self { tenants, arbiter: Arbiter::new(&[TARGET; 2], reserved, CREDIT, seed) }
    }

    fn used(&self) -> [u64; 2] {
        [self.tenants[0].len(), self.tenants[1].len()]
    }

    fn access(&mut self, tenant: usize, key: u64) {
        if let Some((_, Place::Far)) = self.tenants[tenant].access(key, Side::Right) {
            self.arbiter.on_shadow_hit(tenant);
        }
        while self.used().iter().sum::<u64>() > 2 * TARGET
            && let Some(victim) = self.arbiter.victim(&self.used())
        {
            self.tenants[victim].evict(Side::Right);
        }
    }
}

fn memshare(context: &mut Context) -> Report {
    const REQUESTS: usize = 600_000;
    let mut report = Report::new();
    for (done, reserved) in [RESERVED, 0.5].into_iter().enumerate() {
        let mut shared = Shared::new(reserved, context.seed(10));
        let mut rng = seeded(context.seed(0));
        let law = Zipf::new(20_000.0, 0.8).expect("keys and an exponent");
        let (mut least, mut over_time) = (u64::MAX, [Vec::new(), Vec::new()]);
        for i in 0..REQUESTS {
            let busy = i < REQUESTS / 2 && rng.random::<bool>();
            shared.access(usize::from(busy), law.sample(&mut rng) as u64);
            if i > REQUESTS / 4 {
                least = least.min(shared.used()[1]);
            }
            if i % (REQUESTS / 100) == 0 {
                for (points, used) in over_time.iter_mut().zip(shared.used()) {
                    points.push((i as f64 / 1e6, used as f64));
                }
            }
        }
        let part = |items: u64| items as f64 / TARGET as f64;
        let percent = 100.0 * reserved;
        report
            .check(
                Criterion::number(
                    format!("{percent:.0} % reserved: least that the idle tenant held, of its target"),
                    part(least),
                )
                .at_least(reserved),
            )
            .check(
                Criterion::number(
                    format!("{percent:.0} % reserved: what the busy tenant has at the end"),
                    part(shared.used()[0]),
                )
                .within(2.0 - reserved, 0.01),
            );
        let [busy, idle] = over_time;
        report.chart(
            Chart::new(format!("Memshare, {percent:.0} % reserved"), "million requests", "items")
                .line("busy", busy)
                .line("idle from the middle on", idle),
        );
        context.progress((done + 1) as f64 / 2.0);
    }
    report.note("Two tenants with 4,000 items each and the same load; from the middle of the run the second asks for nothing.");
    report
}

/// Zipf's law, into which scans come of keys that never come again.
struct Scanned {
    law: Zipf<f64>,
    rng: SeededRng,
    scan: u64,
    scanned: u64,
    next: u64,
}

impl Iterator for Scanned {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.scan > 0 && self.scanned == 0 && self.rng.random_range(0..20_000) == 0 {
            self.scanned = self.scan;
        }
        if self.scanned > 0 {
            self.scanned -= 1;
            self.next += 1;
            return Some((1 << 20) + self.next);
        }
        Some(self.law.sample(&mut self.rng) as u64)
    }
}

fn policies(context: &mut Context) -> Report {
    const REQUESTS: usize = 2_000_000;
    const ITEMS: u64 = 8000;
    let ways = [
        ("exact LRU", Eviction::ExactLru),
        ("insertion in the middle", Eviction::Engine(PolicyKind::LruInsertion { shift: 1 })),
        ("ARC", Eviction::Engine(PolicyKind::Arc)),
    ];
    let mut report = Report::new();
    let mut table = Table::new(
        "8,000 items, Zipf 0.8 over 100,000 keys; medians of three seeds",
        ["policy", "Zipf", "Zipf and scans"],
    );
    let mut ratios = Vec::new();
    for (done, (name, eviction)) in ways.into_iter().enumerate() {
        let [plain, scanned] = [0, 10_000].map(|scan| {
            median([0, 1, 2].map(|part| {
                let law = Zipf::new(100_000.0, 0.8).expect("keys and an exponent");
                let rng = seeded(context.seed(part));
                let keys = Scanned { law, rng, scan, scanned: 0, next: 0 };
                let mut cache = Cache::new(eviction, ITEMS, 1);
                // An item a microsecond: the engine's policies see a clock in seconds.
                let hits = keys.take(REQUESTS).enumerate().filter(|(i, key)| {
                    cache.access(0, *key, 1, (*i / 1_000_000) as u32) && *i >= REQUESTS / 2
                });
                hits.count() as f64 / (REQUESTS / 2) as f64
            }))
        });
        table.row([name.to_owned(), format!("{plain:.4}"), format!("{scanned:.4}")]);
        ratios.push((plain, scanned));
        context.progress((done + 1) as f64 / 3.0);
    }
    let [lru, middle, arc] = ratios[..] else { unreachable!("three policies") };
    report
        .check(Criterion::number("ARC above LRU, Zipf and scans", arc.1 - lru.1).at_least(0.001))
        .check(
            Criterion::number("insertion in the middle above LRU, Zipf and scans", middle.1 - lru.1)
                .paper("+0.1 to +0.2 points"),
        )
        .check(Criterion::number("ARC above LRU, Zipf alone", arc.0 - lru.0).paper("no gain (Memcachier)"))
        .check(Criterion::number("insertion in the middle above LRU, Zipf alone", middle.0 - lru.0));
    let chart = Chart::new("8,000 items of 100,000 keys", "policy", "hits per request")
        .over(ways.map(|way| way.0))
        .bars("Zipf 0.8", ratios.iter().map(|ratio| ratio.0))
        .bars("Zipf 0.8 and scans", ratios.iter().map(|ratio| ratio.1));
    report.table(table).chart(chart);
    report.note("The engine's own policies, with a clock that stands nearly still. The paper's traces are not public; that ARC gains nothing on them says that they have few scans.");
    report
}
