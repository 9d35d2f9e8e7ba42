//! The cost of Cliffhanger at its highest: all keys are new, so that every request looks into the
//! shadows and every insertion feeds them.

use allocate::cliffhanger::{CliffConfig, Edge, HillClimber, Queue, Side, SplitQueue};
use base::hash::mix64;
use base::thread::processor_time;
use evict::ghost::GhostQueue;
use millpond::strategy::{HillClimbing, Strategy};
use millpond::watch::CurveConfig;
use millpond::{ByteSize, Cache, CacheConfig, Error, ItemOptions, PolicyKind, PoolConfig, PoolId, Split};
use simulate::table::Table;

use crate::report::{Chart, Criterion, Report};
use crate::{CLIFFHANGER, Context, Experiment, median};

/// The worst case of section 5.6.
pub(super) const OVERHEAD: Experiment = Experiment {
    name: "C9",
    paper: CLIFFHANGER,
    figure: "section 5.6, table 7",
    title: "the cost of shadows, credits and routing where every key is new",
    run: overhead,
};

/// Keys in the long shadow: 1 MB of items of 64 bytes, the paper's largest.
const FAR_KEYS: usize = 16_384;
const VALUE_BYTES: usize = 256;
const CHUNK: u64 = 20_000;
const ROUNDS: u64 = 25;

/// The state that a queue needs besides its items: shadows as the engine has ghosts, credits, and
/// two partitions.
struct Beside {
    /// The small shadow of cliff scaling, if that is done, of the keys that are followed.
    near: Option<GhostQueue>,
    /// The long shadow of hill climbing, of the keys that are followed.
    far: GhostQueue,
    hills: HillClimber,
    split: SplitQueue,
    /// Found in shadows, by error of their 16 bits: no key comes twice.
    found: u64,
}

impl Beside {
    fn new(items: u64, way: Way, seed: u64) -> Self {
        let Way { one_in, scales, .. } = way;
        let sampled = if one_in > 1 { CliffConfig::sampled() } else { CliffConfig::default() };
        let config = CliffConfig { one_in, ..sampled };
        let ghost = |keys| {
            let mut ghost = GhostQueue::default();
            ghost.set_capacity(keys);
            ghost
        };
        Self {
            near: scales.then(|| ghost((config.window / one_in) as usize)),
            far: ghost(FAR_KEYS / one_in as usize),
            hills: HillClimber::new([Queue::new(items, 128); 2], one_in, one_in, seed),
            split: SplitQueue::new(items, config),
            found: 0,
        }
    }

    /// Handles a miss: looks into the shadows if they follow the key. Its partition is determined
    /// by the insertion.
    fn on_miss(&mut self, hash: u64) {
        if !self.split.watches(hash) {
            return;
        }
        if let Some(near) = &mut self.near
            && near.remove(hash as u32).is_some()
        {
            self.split.update_pointers(self.split.route(hash), Edge::Shadow);
            self.found += 1;
        }
        if self.far.remove(hash as u32).is_some() {
            self.hills.on_shadow_hit(0);
            self.found += 1;
        }
    }

    /// Handles an insertion: routes the key to its partition and adds the evicted key to the
    /// shadows.
    fn on_insertion(&mut self, hash: u64, evicted: u64) {
        if self.near.is_some() {
            self.found += u64::from(self.split.route(hash) == Side::Left && self.split.is_split());
        }
        if !self.split.watches(evicted) {
            return;
        }
        if let Some(near) = &mut self.near {
            near.insert(0, evicted as u32);
        }
        self.far.insert(0, evicted as u32);
    }
}

/// The engine's cache, full of keys that never come again.
struct Full {
    cache: Cache,
    pool: PoolId,
    next: u64,
    resident: u64,
}

impl Full {
    fn new(policy: PolicyKind) -> Result<Self, Error> {
        let cache = Cache::new(CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() })?;
        let pool = cache.add_pool(PoolConfig { policy, ..PoolConfig::named("new-keys") })?;
        let mut full = Self { cache, pool, next: 0, resident: (48 << 20) / 320 };
        for _ in 0..3 * full.resident {
            full.set(&mut None)?;
        }
        Ok(full)
    }

    fn key(number: u64) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn set(&mut self, beside: &mut Option<Beside>) -> Result<(), Error> {
        self.next += 1;
        let key = Self::key(self.next);
        let mut item = self.cache.allocate(self.pool, &key, VALUE_BYTES, &ItemOptions::default())?;
        item.value_mut().fill(7);
        self.cache.insert_or_replace(item);
        if let Some(beside) = beside {
            // New keys only: the evicted key was inserted as many keys ago as the cache holds.
            beside.on_insertion(mix64(self.next), mix64(self.next - self.resident));
        }
        Ok(())
    }

    fn get(&mut self, beside: &mut Option<Beside>) {
        self.next += 1;
        let key = Self::key(self.next | 1 << 63);
        // The engine hashes the key anyway, so that the hash does not belong to the cost of
        // shadows.
        let hash = std::hint::black_box(mix64(self.next | 1 << 63));
        let missed = self.cache.find_with(&key, |_| ()).is_none();
        if missed && let Some(beside) = beside {
            beside.on_miss(hash);
        }
    }

    /// Nanoseconds of this thread per request, of one chunk.
    fn chunk(&mut self, gets_in_thousand: u64, beside: &mut Option<Beside>) -> Result<f64, Error> {
        let began = processor_time();
        for i in 0..CHUNK {
            if i * 379 % 1000 < gets_in_thousand {
                self.get(beside);
            } else {
                self.set(beside)?;
            }
        }
        Ok((processor_time() - began).as_nanos() as f64 / CHUNK as f64)
    }
}

/// The reason that splits cost more where all keys are new.
const SPREAD: &str = "two lists take more than one, probably as one queue of new keys hands out chunks in the order of their \
                      addresses and two do not";

/// GETs in a thousand requests, and the paper's loss.
const MIXES: [(u64, &str); 3] = [(967, "1.5 %"), (500, "3 %"), (100, "3.7 %")];

/// The work that is done beside serving.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// One key in this many is in the long shadow.
    one_in: u64,
    /// True if cliffs are scaled.
    scales: bool,
}

const WAYS: [Way; 3] = [
    Way { name: "hill climbing, shadow of every key", one_in: 1, scales: false },
    Way { name: "hill climbing, shadow of one key in 8", one_in: 8, scales: false },
    Way { name: "the same, and cliff scaling", one_in: 8, scales: true },
];

fn overhead(context: &mut Context) -> Report {
    let mut report = Report::new();
    if let Err(error) = measure(context, &mut report) {
        report.check(Criterion::holds("the engine serves", false, error.to_string(), "no error"));
    }
    report.note("Measured in processor time of one thread, in turns with and without, on the engine itself; all keys are new, so that nothing is ever hit.");
    report.note("A hit of the long shadow of one key in 8 counts for 8 credits; hill climbing does as well with them (C5).");
    report
}

fn measure(context: &Context, report: &mut Report) -> Result<(), Error> {
    const REASON: &str = "a request of the engine takes so little time that a look into a shadow weighs more than in memcached";
    let mut full = Full::new(PolicyKind::default())?;
    let mut table = Table::new(
        "nanoseconds per request, medians of 25 chunks",
        ["beside", "GETs", "without", "with", "lost"],
    );
    let shares = MIXES.map(|(gets, _)| format!("{:.1} % GETs", gets as f64 / 10.0));
    let mut chart =
        Chart::new("The cost where every key is new", "requests", "% of throughput lost").over(shares);
    for way in WAYS {
        let mut losses = Vec::new();
        for (gets, paper) in MIXES {
            let mut beside = Some(Beside::new(full.resident, way, context.seed(0)));
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                without.push(full.chunk(gets, &mut None)?);
                with.push(full.chunk(gets, &mut beside)?);
            }
            let (without, with) = (median(without), median(with));
            let lost = 100.0 * (1.0 - without / with);
            losses.push(lost);
            let share = format!("{:.1} %", gets as f64 / 10.0);
            table.row([
                way.name.to_owned(),
                share.clone(),
                format!("{without:.1}"),
                format!("{with:.1}"),
                format!("{lost:.1} %"),
            ]);
            let what = format!("throughput lost at {share} GETs: {}", way.name);
            let criterion = Criterion::number(what, lost).decimals(1).unit("%").paper(paper);
            report.check(if way.one_in > 1 {
                criterion.at_most(10.0).missed_because(REASON)
            } else {
                criterion
            });
        }
        chart = chart.bars(way.name, losses);
    }
    let lru = PolicyKind::Lru { refresh_secs: 0 };
    for (losses, name, reason) in [
        (in_engine(&mut full)?, "hill climbing, as the engine has it", None),
        (splits_in_engine(lru)?, "splits by a live curve, against LRU", Some(SPREAD)),
        (splits_in_engine(PolicyKind::TWO_Q)?, "the same, against 2Q", Some(SPREAD)),
    ] {
        for ((gets, paper), lost) in MIXES.into_iter().zip(losses) {
            let what = format!("throughput lost at {:.1} % GETs: {name}", gets as f64 / 10.0);
            let criterion = Criterion::number(what, lost).decimals(1).unit("%").paper(paper).at_most(10.0);
            report.check(match reason {
                Some(reason) => criterion.missed_because(reason),
                None => criterion,
            });
        }
        chart = chart.bars(name, losses);
    }
    report.table(table).chart(chart);
    Ok(())
}

/// The loss in per cent if the pool's strategy is hill climbing, whose shadow queues are hit by
/// nothing and fed by all.
fn in_engine(full: &mut Full) -> Result<[f64; MIXES.len()], Error> {
    let mut losses = [0.0; MIXES.len()];
    for (lost, (gets, _)) in losses.iter_mut().zip(MIXES) {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            full.cache.set_pool_strategy(full.pool, Strategy::OnFailures)?;
            without.push(full.chunk(gets, &mut None)?);
            full.cache.set_pool_strategy(full.pool, Strategy::HillClimbing(HillClimbing::default()))?;
            with.push(full.chunk(gets, &mut None)?);
        }
        *lost = 100.0 * (1.0 - median(without) / median(with));
    }
    Ok(losses)
}

/// The loss in per cent if queues are split and the curve is learnt by which that is done, against
/// another policy in another cache.
fn splits_in_engine(policy: PolicyKind) -> Result<[f64; MIXES.len()], Error> {
    let mut plain = Full::new(policy)?;
    let mut split = Full::new(PolicyKind::LruSplit)?;
    split.cache.set_curve(split.pool, Some(CurveConfig { rate: 1.0 / 16.0, ..CurveConfig::default() }))?;
    split.cache.set_pool_split(split.pool, Some(Split { keys: 0.5, memory: 0.1 }))?;
    let mut losses = [0.0; MIXES.len()];
    for (lost, (gets, _)) in losses.iter_mut().zip(MIXES) {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            without.push(plain.chunk(gets, &mut None)?);
            with.push(split.chunk(gets, &mut None)?);
        }
        *lost = 100.0 * (1.0 - median(without) / median(with));
    }
    Ok(losses)
}
