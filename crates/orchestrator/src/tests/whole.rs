//! A fleet's orchestrator over those of nodes, in simulated time: it never counts less for a node
//! than the node has, may get, or would have after a restart, whatever fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::{Agent, AgentConfig, Instance, InstanceError, Look, Next};
use allocate::cost::Objective;
use allocate::guard::Rails;
use base::rng::{RngExt, SeededRng, seeded};
use control::amounts;
use control::v1::{self, Amount, PoolGrant};

use super::site::{Cache, Handle, START};
use super::world::SECOND;
use crate::led::{Led, Setting};
use crate::whole::PoolNumbers;
use crate::{
    Answer, Budget, Call, Decided, Failure, Fleet, FleetConfig, Key, Nanos, Outgoing, Record, Request,
};

const MIB: u64 = 1 << 20;
/// The memory of the fleet, of which some is spared.
const TOTAL: u64 = 512 * MIB;
const FLEET_SPARE: u64 = 64 * MIB;
/// The most that a node can have.
const MOST: u64 = 400 * MIB;
/// Spared in each node, for servers that are started.
const SPARE: u64 = 2 * START;
/// Seconds between two rounds of the fleet's orchestrator; those of nodes make one in each.
const FLEET_PERIOD: u64 = 4;

/// An orchestrator with the agents that it calls, each by the name of its instance.
struct Level<I: Instance> {
    fleet: Fleet,
    records: BTreeMap<Key, Record>,
    agents: BTreeMap<String, Agent<I>>,
    /// Those that do not answer.
    hung: BTreeSet<String>,
    /// The share of requests, and of answers, that are lost.
    lost: f64,
    rng: SeededRng,
    /// Requests to resize.
    resizes: usize,
    /// The decisions of the last round.
    decided: Vec<Decided>,
}

fn config(name: &str, memory: u64, spare: u64, lease: Nanos) -> FleetConfig {
    FleetConfig {
        id: 1,
        budget: Budget { each: None, nodes: [(name.to_owned(), memory)].into(), spare },
        lease,
        policy: "most-hits".to_owned(),
        objective: Objective::Hits,
        rails: Rails { least_share: 0.1, step: 0.1, hysteresis: 0.01, smoothing: 0.3, ..Rails::default() },
    }
}

impl<I: Instance> Level<I> {
    fn new(config: FleetConfig, seed: u64) -> Self {
        Self {
            fleet: Fleet::new(config, 1, [], 0).expect("the policy is there"),
            records: BTreeMap::new(),
            agents: BTreeMap::new(),
            hung: BTreeSet::new(),
            lost: 0.0,
            rng: seeded(seed),
            resizes: 0,
            decided: Vec::new(),
        }
    }

    fn begin_agent(&mut self, name: &str, instance: I) {
        let session = self.rng.random_range(1..u64::MAX);
        let config = AgentConfig { address: format!("{name}:1"), session };
        self.agents.insert(name.to_owned(), Agent::new(config, instance));
    }

    /// The process ends, and begins again in a later term.
    fn restart(&mut self, config: FleetConfig, now: Nanos) {
        let (term, records) = (self.fleet.leader().term + 1, self.records.values().cloned());
        self.fleet = Fleet::new(config, term, records, now).expect("the policy is there");
    }

    fn round(&mut self, now: Nanos) {
        let names = self.agents.keys().filter(|name| !self.hung.contains(*name));
        let names: Vec<String> = names.cloned().collect();
        for name in names {
            let Some(agent) = self.agents.get_mut(&name) else { continue };
            if agent.next(now) != Next::Register {
                continue;
            }
            if let Ok(request) = agent.registration(now) {
                let (response, outgoing) = self.fleet.register(&request, now);
                agent.registered(&response);
                self.carry_out(outgoing, now);
            }
        }
        let outgoing = self.fleet.begin(now);
        self.carry_out(outgoing, now);
        let (decided, outgoing) = self.fleet.decide(now);
        self.decided = decided;
        self.carry_out(outgoing, now);
    }

    fn carry_out(&mut self, outgoing: Outgoing, now: Nanos) {
        for (key, record) in outgoing.save {
            match record {
                Some(record) => self.records.insert(key, record),
                None => self.records.remove(&key),
            };
        }
        for call in outgoing.calls {
            let answer = self.answer(&call, now);
            let answer = answer.as_ref().map_err(|failure| *failure);
            let outgoing = self.fleet.note_answer(&call, answer, now);
            self.carry_out(outgoing, now);
        }
    }

    fn answer(&mut self, call: &Call, now: Nanos) -> Result<Answer, Failure> {
        let name = call.key.name.to_string();
        self.resizes += usize::from(matches!(call.request, Request::Resize(_)));
        let is_lost = self.rng.random_bool(self.lost) || self.hung.contains(&name);
        let agent = self.agents.get_mut(&name).filter(|_| !is_lost).ok_or(Failure::Silent)?;
        let answer = match &call.request {
            Request::Stats(request) => agent.stats(request, now).map(Answer::Stats),
            Request::Resize(request) => agent.resize(request, now).map(Answer::Resize),
        };
        answer.ok().filter(|_| !self.rng.random_bool(self.lost)).ok_or(Failure::Silent)
    }
}

/// A node: its orchestrator, its servers, and the disk of the former.
struct Node {
    name: String,
    level: Level<Handle>,
    numbers: PoolNumbers,
    caches: BTreeMap<String, Handle>,
    /// The amounts that may be saved: those of attempts that failed too.
    disk: Vec<Option<u64>>,
    fails: f64,
    now: Nanos,
}

impl Node {
    fn config(name: &str) -> FleetConfig {
        config(name, MOST, SPARE, 5 * SECOND)
    }

    /// Begins to be led, with what the disk has.
    fn begin(&mut self) {
        let at = self.level.rng.random_range(0..self.disk.len());
        self.disk = vec![self.disk[at]];
        let complete_at = self.level.fleet.raises_from;
        self.level.fleet.led = Some(Led::new(self.name.clone(), MOST, self.disk[0], complete_at));
        self.numbers = PoolNumbers::default();
    }

    fn led(&mut self) -> &mut Led {
        self.level.fleet.led.as_mut().expect("it is led")
    }

    fn save(&mut self) {
        while let Some(bytes) = self.led().begin_save() {
            let fails = self.level.rng.random_bool(self.fails);
            if fails {
                self.disk.push(Some(bytes));
            } else {
                self.disk = vec![Some(bytes)];
            }
            let outcome = if fails { Err("the disk is full".to_owned()) } else { Ok(()) };
            self.led().note_save(bytes, outcome);
            if fails {
                break;
            }
        }
    }

    fn start_cache(&mut self, name: &str) {
        let incarnation = self.level.rng.random();
        let cache = Cache::new(name, &self.name, incarnation, false, self.now);
        let cache = Handle(Arc::new(Mutex::new(cache)));
        self.caches.insert(name.to_owned(), cache.clone());
        self.level.begin_agent(name, cache);
    }

    fn has(&self) -> u64 {
        self.caches.values().map(|cache| lock(&cache.0).has()).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A node as its agent sees it.
#[derive(Clone)]
struct NodeHandle(Arc<Mutex<Node>>);

impl Instance for NodeHandle {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let node = &mut *lock(&self.0);
        let look = node.level.fleet.whole(&mut node.numbers, node.now);
        let look = look.map_err(|error| InstanceError::new(error.to_string()))?;
        assert!(look.used_bytes <= look.limit_bytes, "{look:?}");
        let instance = v1::Instance {
            name: node.name.clone(),
            node: "fleet".to_owned(),
            incarnation: 1,
            outlives_agent: true,
            ..v1::Instance::default()
        };
        Ok(Look {
            instance,
            limits: amounts::of_memory(look.limit_bytes),
            used: amounts::of_memory(look.used_bytes),
            least: amounts::of_memory(look.least_bytes),
            most: amounts::of_memory(look.most_bytes),
            pools: look.pools,
            learning: None,
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        let mut node = lock(&self.0);
        node.numbers.note_told(grants);
        node.led().set(amounts::memory(limits));
        node.save();
        let is_in_force = node.led().setting() == Setting::InForce;
        is_in_force.then_some(()).ok_or_else(|| InstanceError::new("not saved"))
    }
}

struct World {
    fleet: Level<NodeHandle>,
    nodes: Vec<Arc<Mutex<Node>>>,
    rng: SeededRng,
    seconds: u64,
    /// Nodes whose orchestrators hang, until then.
    hung: BTreeMap<usize, u64>,
}

impl World {
    /// A fleet of nodes, each with caches of these names.
    fn new(seed: u64, nodes: &[&[&str]]) -> Self {
        let node = |(number, caches): (usize, &&[&str])| {
            let name = format!("node-{number}");
            let mut node = Node {
                level: Level::new(Node::config(&name), seed + 7 * number as u64),
                name,
                numbers: PoolNumbers::default(),
                caches: BTreeMap::new(),
                disk: vec![None],
                fails: 0.0,
                now: 0,
            };
            caches.iter().for_each(|cache| node.start_cache(cache));
            node.begin();
            Arc::new(Mutex::new(node))
        };
        let mut world = Self {
            fleet: Level::new(Self::config(), seed),
            nodes: nodes.iter().enumerate().map(node).collect(),
            rng: seeded(seed),
            seconds: 0,
            hung: BTreeMap::new(),
        };
        (0..nodes.len()).for_each(|number| world.begin_agent(number));
        world
    }

    fn config() -> FleetConfig {
        config("fleet", TOTAL, FLEET_SPARE, 3 * FLEET_PERIOD * SECOND)
    }

    fn begin_agent(&mut self, number: usize) {
        let handle = NodeHandle(Arc::clone(&self.nodes[number]));
        self.fleet.begin_agent(&format!("node-{number}"), handle);
    }

    fn node(&self, number: usize) -> MutexGuard<'_, Node> {
        lock(&self.nodes[number])
    }

    fn now(&self) -> Nanos {
        self.seconds * SECOND
    }

    /// The memory that the fleet's orchestrator counts for a node; `None`: it does not know the
    /// node.
    fn counted(&self, number: usize) -> Option<u64> {
        let name = format!("node-{number}");
        let members = self.fleet.fleet.members(self.now());
        members.iter().find(|member| member.instance.name == name).map(|member| member.held_bytes)
    }

    /// The invariants that are the whole point. A node has what its servers have, and what is in
    /// force or may be saved: the next process would have that.
    fn check(&self, when: &str) -> Result<(), String> {
        let mut all = 0;
        for number in 0..self.nodes.len() {
            let node = self.node(number);
            let in_force = node.level.fleet.led.as_ref().and_then(Led::in_force).unwrap_or(0);
            let may_be_saved = node.disk.iter().flatten().copied().max().unwrap_or(0);
            let has = [node.has(), in_force, may_be_saved];
            let most = has.into_iter().max().unwrap_or(0);
            all += most;
            if let Some(counted) = self.counted(number).filter(|&counted| counted < most) {
                let (counted, has) = (counted / MIB, has.map(|bytes| bytes / MIB));
                return Err(format!(
                    "{} s, {when}: node {number} counts for {counted} MiB, and its servers, the memory in \
                     force and the disk have {has:?}",
                    self.seconds
                ));
            }
        }
        (all <= TOTAL)
            .then_some(())
            .ok_or_else(|| format!("{} s, {when}: {} MiB in all", self.seconds, all / MIB))
    }

    /// A second: a round in each node, and every few seconds one of the fleet.
    fn second(&mut self) -> Result<(), String> {
        self.seconds += 1;
        let (now, seconds) = (self.now(), self.seconds);
        self.hung.retain(|_, until| *until > seconds);
        self.fleet.hung = self.hung.keys().map(|number| format!("node-{number}")).collect();
        for (number, node) in self.nodes.iter().enumerate() {
            let node = &mut *lock(node);
            node.now = now;
            node.caches.values().for_each(|cache| lock(&cache.0).advance(now));
            if !self.hung.contains_key(&number) {
                node.level.round(now);
                node.save();
            }
        }
        self.check("after the nodes' round")?;
        if self.seconds.is_multiple_of(FLEET_PERIOD) {
            self.fleet.round(now);
            self.check("after the fleet's round")?;
        }
        Ok(())
    }

    fn run(&mut self, seconds: u64) -> Result<(), String> {
        (0..seconds).try_for_each(|_| self.second())
    }

    /// Something fails.
    fn disturb(&mut self) {
        let number = self.rng.random_range(0..self.nodes.len());
        let (now, seconds) = (self.now(), self.seconds);
        let of_caches = self.rng.random_range(0..100);
        match self.rng.random_range(0..6) {
            0 => {
                self.hung.insert(number, seconds + self.rng.random_range(1..30));
            }
            1 => {
                let node = &mut *self.node(number);
                node.level.restart(Node::config(&node.name), now);
                node.begin();
            }
            2 => self.fleet.restart(Self::config(), now),
            3 => {
                let node = &mut *self.node(number);
                let names: Vec<String> = node.caches.keys().cloned().collect();
                if let Some(name) = names.get(of_caches % names.len().max(1))
                    && !node.level.hung.remove(name)
                {
                    node.level.hung.insert(name.clone());
                }
                return;
            }
            4 => {
                let mut node = self.node(number);
                let names: Vec<String> = node.caches.keys().cloned().collect();
                if let Some(name) = names.get(of_caches % names.len().max(1)) {
                    node.start_cache(name);
                }
                return;
            }
            _ => {
                self.node(number).fails = [0.0, 0.5, 1.0][of_caches % 3];
                return;
            }
        }
        if self.rng.random_bool(0.5) {
            // Another process of the agent.
            self.begin_agent(number);
        }
    }

    fn heal(&mut self) {
        self.fleet.lost = 0.0;
        self.hung.clear();
        for node in &self.nodes {
            let mut node = lock(node);
            (node.fails, node.level.lost) = (0.0, 0.0);
            node.level.hung.clear();
        }
    }
}

/// Two modest servers, two large ones, and a node without any.
const NODES: [&[&str]; 3] = [&["a-2", "b-2"], &["c-1", "d-1"], &[]];

#[test]
fn memory_moves_between_nodes_and_then_the_fleets_orchestrator_rests() {
    let mut world = World::new(1, &NODES);
    world.run(200).unwrap();
    let counted = |world: &World| [0, 1, 2].map(|number| world.counted(number).unwrap_or(0) / MIB);
    let [modest, large, none] = counted(&world);
    // What each wants, with the spare.
    assert!((128..160).contains(&modest), "{modest} MiB");
    assert!(modest + large + none > (TOTAL - FLEET_SPARE) / MIB / 16 * 15, "{modest}, {large}, {none} MiB");
    assert_eq!(none, SPARE / MIB, "the least of a node without servers");
    let before = world.fleet.resizes;
    world.run(20 * FLEET_PERIOD).unwrap();
    assert_eq!(world.fleet.resizes, before, "requests though nothing changes");
}

#[test]
fn a_node_whose_servers_have_left_gives_its_memory_back() {
    // All that there is, and more, is wanted by the others.
    let mut world = World::new(2, &[&["a-2", "b-2"], &["c-1"], &["d-1"]]);
    world.run(200).unwrap();
    let others = |world: &World| world.counted(1).unwrap_or(0) + world.counted(2).unwrap_or(0);
    let before = others(&world);
    {
        let node = &mut *world.node(0);
        for agent in std::mem::take(&mut node.level.agents).into_values() {
            let outgoing = node.level.fleet.leave(&agent.departure(), node.now);
            node.level.carry_out(outgoing, node.now);
        }
        node.caches.clear();
    }
    world.run(200).unwrap();
    // And the remainder of rounding to 32 bytes.
    let left = world.counted(0).expect("it is counted");
    assert!((SPARE..=SPARE + 32).contains(&left), "nothing but the spare: {left}");
    let after = others(&world);
    assert!(after > before + 64 * MIB, "{} MiB after {}", after / MIB, before / MIB);
}

#[test]
fn a_node_raises_nothing_before_its_memory_was_set() {
    let mut world = World::new(3, &NODES);
    world.fleet.hung = BTreeSet::new();
    for second in 0..100 {
        // The fleet's orchestrator hangs.
        world.seconds = second;
        let node = &mut *world.node(1);
        node.now = second * SECOND;
        node.caches.values().for_each(|cache| lock(&cache.0).advance(node.now));
        node.level.round(node.now);
        assert!(node.has() <= 2 * START, "{} MiB at {second} s", node.has() / MIB);
        let look = node.level.fleet.whole(&mut node.numbers, node.now);
        // Servers that run already have come before it says what it has.
        assert!(look.is_err() || look.is_ok_and(|look| look.limit_bytes == 2 * START + SPARE));
    }
    world.run(200).unwrap();
    assert!(world.node(1).has() > 200 * MIB);
}

/// Nodes make a round in a second, and the fleet's orchestrator four, so that it reads most
/// counters several times before they change.
#[test]
fn counters_that_were_not_read_again_are_no_lack_of_requests() {
    let mut world = World::new(4, &[&["a-2", "c-1"]]);
    world.run(60).unwrap();
    let mut rates = Vec::new();
    for second in 60..90 {
        for quarter in 0..4 {
            let now = second * SECOND + quarter * SECOND / 4;
            let mut node = world.node(0);
            node.now = now;
            node.caches.values().for_each(|cache| lock(&cache.0).advance(now));
            if quarter == 0 {
                node.level.round(now);
            }
            drop(node);
            world.fleet.round(now);
            let pools = world.fleet.decided.iter().flat_map(|decided| &decided.pools);
            rates.extend(pools.map(|pool| (pool.name.to_string(), pool.reads_per_sec)));
        }
    }
    assert!(rates.len() > 200, "two pools in each round");
    // As many as the model makes, and as the node sees.
    let is_right = |(name, rate): &(String, f64)| {
        let wanted = if name.contains("a-2") { 3_000.0 } else { 2_000.0 };
        (rate - wanted).abs() < 30.0
    };
    assert!(rates.iter().skip(8).all(is_right), "{rates:?}");
}

/// A minute and more with faults, and then without.
fn history(seed: u64) -> Result<World, String> {
    let mut world = World::new(seed, &NODES);
    world.fleet.lost = 0.05;
    world.nodes.iter().for_each(|node| lock(node).level.lost = 0.05);
    for _ in 0..150 {
        world.second()?;
        if world.rng.random_bool(0.3) {
            world.disturb();
        }
    }
    world.heal();
    world.run(200)?;
    Ok(world)
}

#[test]
fn a_node_counts_for_no_less_than_it_has_whatever_fails() {
    let seeds = std::env::var("MILLPOND_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    let first = std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let world = history(seed).unwrap_or_else(|error| panic!("MILLPOND_SEED={seed}: {error}"));
        let has = world.node(1).has();
        assert!(has > 200 * MIB, "MILLPOND_SEED={seed}: {} MiB", has / MIB);
    }
}
