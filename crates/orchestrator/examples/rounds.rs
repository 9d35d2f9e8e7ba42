//! The cost of a round over many agents, with real messages over loopback: processor time of the
//! orchestrator's thread, without that of messages and with it, and bytes.
//!
//!     unshare -rn sh -c 'ip link set lo up && cargo run --release -p millpond-orchestrator \
//!       --example rounds -- AGENTS POOLS-OF-EACH MACHINES POLICY ROUNDS'
//!
//! A network of its own (`unshare -n`) is for the bytes alone, which are those of the loopback
//! interface: with all headers, of both directions. In each round all pools have read, and a tenth
//! of the curves has changed.

use std::fs;
use std::time::Duration;

use agent::service::{Service as Agent, ServiceConfig as AgentConfig};
use agent::{Instance, InstanceError, Look};
use anyhow::{Context as _, Result};
use base::Clock;
use base::rng::{SeededRng, seeded};
use control::access::Access;
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};
use millpond_orchestrator::service::{Service, ServiceConfig};
use millpond_orchestrator::{Budget, FleetConfig};
use rand::RngExt as _;

const MIB: u64 = 1 << 20;
const PERIOD: Duration = Duration::from_secs(1);
/// Points of a curve.
const POINTS: u64 = 64;
/// One curve in this many changes in each round.
const CHANGES_PART: u32 = 10;

/// A cache whose pools fill at once what they are granted.
struct Model {
    instance: v1::Instance,
    limit: u64,
    pools: Vec<PoolReport>,
    /// The bytes beyond which each pool misses nothing.
    appetites: Vec<u64>,
    rng: SeededRng,
}

impl Model {
    fn new(number: usize, pools: u32, machines: usize) -> Self {
        let mut rng = seeded(number as u64);
        let appetites: Vec<u64> = (0..pools).map(|_| rng.random_range(4..64) * MIB).collect();
        let limit = u64::from(pools) * 8 * MIB;
        let of = |(id, appetite): (u32, &u64)| PoolReport {
            id,
            name: format!("pool-{id}"),
            weight: 1.0,
            used: amounts::of_memory(8 * MIB),
            curve: Some(curve(*appetite, 0.5)),
            ..PoolReport::default()
        };
        let instance = v1::Instance {
            name: format!("instance-{number}"),
            node: format!("machine-{}", number % machines),
            incarnation: 1,
            kind: "model".to_owned(),
            ..v1::Instance::default()
        };
        Self { instance, limit, pools: (1..).zip(&appetites).map(of).collect(), appetites, rng }
    }
}

/// A curve that falls to nothing at `appetite` bytes.
fn curve(appetite: u64, shape: f64) -> v1::Curve {
    let at = |i: u64| (appetite * i / POINTS, 1.0 - (i as f64 / POINTS as f64).powf(shape));
    v1::Curve { samples: 1e4, ..control::curve::write((1..=POINTS).map(at)) }
}

impl Instance for Model {
    fn look(&mut self) -> Result<Look, InstanceError> {
        for (pool, appetite) in self.pools.iter_mut().zip(&self.appetites) {
            let used = amounts::memory(&pool.used);
            let reads = self.rng.random_range(1_000..2_000);
            pool.reads += reads;
            pool.misses += (reads as f64 * (1.0 - used as f64 / *appetite as f64).max(0.0)) as u64;
            if self.rng.random_ratio(1, CHANGES_PART) {
                pool.curve = Some(curve(*appetite, self.rng.random_range(0.3..0.7)));
            }
        }
        let used = self.pools.iter().map(|pool| amounts::memory(&pool.used)).sum();
        Ok(Look {
            instance: self.instance.clone(),
            limits: amounts::of_memory(self.limit),
            used: amounts::of_memory(used),
            least: amounts::of_memory(MIB),
            most: Vec::new(),
            pools: self.pools.clone(),
            learning: None,
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        self.limit = amounts::memory(limits);
        for grant in grants {
            if let Some(pool) = self.pools.iter_mut().find(|pool| pool.id == grant.id) {
                (pool.used, pool.granted) = (grant.amounts.clone(), grant.amounts.clone());
            }
        }
        Ok(())
    }
}

/// The counts at a moment.
#[derive(Clone, Copy, Default)]
struct Counts {
    rounds: f64,
    compute_secs: f64,
    decisions: f64,
    silent: f64,
    leased: f64,
    thread_secs: f64,
    loopback_bytes: f64,
}

impl Counts {
    fn read(admin: &str) -> Result<Self> {
        let text = ureq::get(format!("http://{admin}/metrics")).call()?.body_mut().read_to_string()?;
        let figure = |name: &str| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(name));
            line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0.0)
        };
        Ok(Self {
            rounds: figure("millpond_fleet_rounds_total"),
            compute_secs: figure("millpond_fleet_compute_seconds_total"),
            decisions: figure("millpond_fleet_decisions_total"),
            silent: figure("millpond_fleet_silent_calls_total"),
            leased: figure("millpond_fleet_leased_instances"),
            thread_secs: thread_secs("orchestrator")?,
            loopback_bytes: loopback_bytes()?,
        })
    }
}

/// Processor time of the thread of this name.
fn thread_secs(name: &str) -> Result<f64> {
    for task in fs::read_dir("/proc/self/task")? {
        let folder = task?.path();
        let is_named = fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim() == name);
        if is_named {
            let stat = fs::read_to_string(folder.join("schedstat"))?;
            let nanos: f64 = stat.split(' ').next().context("a figure")?.parse()?;
            return Ok(nanos / 1e9);
        }
    }
    anyhow::bail!("there is no thread {name}")
}

fn loopback_bytes() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:")).context("no loopback")?;
    Ok(line.split_whitespace().next().context("a figure")?.parse()?)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: usize| arguments.next().map_or(Ok(or), |text| text.parse());
    let (agents, pools, machines) = (number(1_000)?, number(10)?, number(100)?);
    let policy = std::env::args().nth(4).unwrap_or_else(|| "most-hits".to_owned());
    let rounds = std::env::args().nth(5).map_or(Ok(20.0), |text| text.parse())?;
    let each = (agents / machines) as u64 * pools as u64 * 8 * MIB;
    let fleet = FleetConfig {
        id: 1,
        budget: Budget { each: Some(each), ..Budget::default() },
        lease: 10_000_000_000,
        policy,
        objective: allocate::cost::Objective::Hits,
        rails: Default::default(),
    };
    let config = ServiceConfig {
        listen: "127.0.0.1:0".parse()?,
        admin: Some("127.0.0.1:0".parse()?),
        period: PERIOD,
        fleet,
        state: None,
        etcd: None,
        history: 10,
        led_node: None,
    };
    let orchestrator = Service::start(config, Access::default(), Clock::default())?;
    let admin = orchestrator.admin_address().context("it has an address")?.to_string();
    let started = (0..agents).map(|number| {
        let config = AgentConfig {
            listen: "127.0.0.1:0".parse()?,
            advertise: None,
            orchestrators: vec![orchestrator.address().to_string()],
        };
        let model = Model::new(number, u32::try_from(pools)?, machines);
        Ok(Agent::start(config, Access::default(), model, Clock::default())?)
    });
    let started: Vec<Agent> = started.collect::<Result<_>>()?;
    let mut before = Counts::read(&admin)?;
    while before.leased < agents as f64 {
        base::thread::sleep(PERIOD);
        before = Counts::read(&admin)?;
    }
    // The first rounds fill the pools.
    base::thread::sleep(10 * PERIOD);
    before = Counts::read(&admin)?;
    let mut now = before;
    while now.rounds < before.rounds + rounds {
        base::thread::sleep(PERIOD);
        now = Counts::read(&admin)?;
    }
    let rounds = now.rounds - before.rounds;
    println!("{agents} agents, {} pools, {machines} machines, {rounds} rounds", agents * pools);
    println!("decisions that moved memory: {}", now.decisions - before.decisions);
    println!("agents that answer: {}; calls without an answer: {}", now.leased, now.silent - before.silent);
    println!("computing, ms in a round: {:.1}", 1e3 * (now.compute_secs - before.compute_secs) / rounds);
    println!("with messages, ms in a round: {:.1}", 1e3 * (now.thread_secs - before.thread_secs) / rounds);
    let bytes = (now.loopback_bytes - before.loopback_bytes) / rounds;
    println!("bytes in a round: {bytes:.0}, {:.1} of each pool", bytes / (agents * pools) as f64);
    started.into_iter().for_each(Agent::abandon);
    Ok(())
}
