use std::sync::atomic::Ordering;
use std::time::Duration;

use allocate::cost::Objective;
use allocate::guard::Rails;
use base::Clock;
use control::access::Access;
use control::v1::{Holding, Instance, RegisterRequest, StatsResponse};

use super::*;
use crate::exchange::{Answer, Request};
use crate::fleet::{Budget, FleetConfig};
use crate::led::Led;
use crate::service::{Service, ServiceConfig};
use crate::store::Store;

const MIB: u64 = 1 << 20;
const SECOND: Nanos = 1_000 * MILLI;

fn config(nodes: &[(&str, u64)], spare: u64) -> FleetConfig {
    FleetConfig {
        id: 1,
        budget: Budget {
            each: None,
            nodes: nodes.iter().map(|&(name, memory)| (name.to_owned(), memory)).collect(),
            spare,
        },
        lease: SECOND,
        policy: "most-hits".to_owned(),
        objective: Objective::Hits,
        rails: Rails::default(),
    }
}

fn start(state: &std::path::Path, nodes: &[(&str, u64)], led: Option<&str>) -> Service {
    let config = ServiceConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: None,
        period: Duration::from_millis(50),
        fleet: config(nodes, 0),
        state: Some(state.to_owned()),
        etcd: None,
        history: 10,
        led_node: led.map(str::to_owned),
    };
    Service::start(config, Access::default(), Clock::System).expect("it starts")
}

/// The memory that a node says it has; `None`: none was set.
fn memory(service: &Service) -> Option<u64> {
    let mut whole = service.whole().expect("it is led");
    whole.look().ok().map(|look| look.limit_bytes)
}

/// Sets the memory, whatever the disk takes.
fn set(whole: &mut Whole, bytes: u64) {
    until("the memory that is set", || whole.set_memory(bytes, &[]) != Err(WholeError::Saving));
    assert_eq!(whole.look().map(|look| look.limit_bytes), Ok(bytes));
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        base::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} is not seen within 30 s");
}

#[test]
fn memory_that_was_set_is_that_of_the_node_alone_and_while_it_is_led() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let begin = |led: &'static str| start(&state, &[(led, 100 * MIB)], Some(led));
    let begin_with_50 = || {
        let service = begin("a");
        // More is in force at once, and saved soon: less waits for that.
        set(&mut service.whole().unwrap(), 60 * MIB);
        set(&mut service.whole().unwrap(), 50 * MIB);
    };
    begin_with_50();
    assert_eq!(memory(&begin("a")), Some(50 * MIB));
    assert_eq!(memory(&begin("b")), None, "another node");
    assert_eq!(memory(&begin("a")), None, "it was another one meanwhile");

    begin_with_50();
    let alone = start(&state, &[("a", 100 * MIB)], None);
    assert!(alone.whole().is_none());
    drop(alone);
    assert_eq!(memory(&begin("a")), None, "it was not led meanwhile");

    // A machine that has less now never says that it has more.
    begin_with_50();
    let small = start(&state, &[("a", 30 * MIB)], Some("a"));
    assert_eq!(memory(&small), Some(30 * MIB));
    drop(small);
    assert_eq!(memory(&begin("a")), Some(30 * MIB));
}

#[test]
fn less_memory_is_said_only_once_it_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let nodes = [("a", 100 * MIB)];
    let service = start(&state, &nodes, Some("a"));
    let mut whole = service.whole().unwrap();
    set(&mut whole, 60 * MIB);
    set(&mut whole, 50 * MIB);

    let shared = Arc::clone(service.shared());
    let planted = &shared.store.as_ref().unwrap().planted;
    planted.is_full.store(true, Ordering::Relaxed);
    until("the error", || {
        let set = whole.set_memory(40 * MIB, &[]);
        matches!(set, Err(WholeError::Unsaved(reason)) if reason.contains("state.redb"))
    });
    assert_eq!(whole.look().unwrap().limit_bytes, 50 * MIB);
    whole.set_memory(70 * MIB, &[]).unwrap();
    assert_eq!(whole.look().unwrap().limit_bytes, 70 * MIB, "the fleet's orchestrator counts it");
    assert!(whole.set_memory(45 * MIB, &[]).is_err());
    assert_eq!(whole.look().unwrap().limit_bytes, 70 * MIB);
    // It is saved as soon as it can be, though nobody asks again.
    planted.is_full.store(false, Ordering::Relaxed);
    until("what was asked for", || whole.look().unwrap().limit_bytes == 45 * MIB);
    drop((whole, service, shared));
    assert_eq!(memory(&start(&state, &nodes, Some("a"))), Some(45 * MIB));
}

#[test]
fn a_disk_that_hangs_keeps_no_agent_from_looking() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(&folder.path().join("state.redb"), &[("a", 100 * MIB)], Some("a"));
    let mut whole = service.whole().unwrap();
    whole.set_memory(60 * MIB, &[]).unwrap();
    let shared = Arc::clone(service.shared());
    let planted = &shared.store.as_ref().unwrap().planted;
    let hangs = planted.hang.lock().unwrap();
    // Each returns while the disk hangs.
    assert_eq!(whole.set_memory(40 * MIB, &[]), Err(WholeError::Saving));
    assert_eq!(whole.look().unwrap().limit_bytes, 60 * MIB);
    whole.set_memory(80 * MIB, &[]).unwrap();
    assert_eq!(whole.look().unwrap().limit_bytes, 80 * MIB);
    assert_eq!(whole.set_memory(30 * MIB, &[]), Err(WholeError::Saving));
    drop(hangs);
    until("what was asked for last", || whole.look().unwrap().limit_bytes == 30 * MIB);
}

#[test]
fn a_node_that_is_led_needs_a_state() {
    let config = ServiceConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: None,
        period: Duration::from_millis(50),
        fleet: config(&[("a", MIB)], 0),
        state: None,
        etcd: None,
        history: 10,
        led_node: Some("a".to_owned()),
    };
    let error = Service::start(config, Access::default(), Clock::System).unwrap_err();
    assert!(error.to_string().contains("--state"), "{error}");
}

/// A node with instances whose agents report these pools, by name and session.
struct Node {
    fleet: Fleet,
    numbers: PoolNumbers,
    now: Nanos,
}

impl Node {
    fn new(memory: Option<u64>) -> Self {
        let mut fleet = Fleet::new(config(&[("a", 100 * MIB)], 3 * MIB), 1, [], 0).unwrap();
        fleet.led = Some(Led::new("a".to_owned(), 100 * MIB, memory, 0));
        Self { fleet, numbers: PoolNumbers::default(), now: 2 * SECOND }
    }

    fn holding(limit: u64, used: u64) -> Option<Holding> {
        let (limits, used) = (amounts::of_memory(limit), amounts::of_memory(used));
        Some(Holding { limits, used, ..Holding::default() })
    }

    fn register(&mut self, name: &str, session: u64, limit: u64) {
        let request = RegisterRequest {
            revision: control::REVISION,
            instance: Some(Instance {
                name: name.to_owned(),
                node: "a".to_owned(),
                incarnation: 1,
                ..Instance::default()
            }),
            session,
            address: format!("{name}:1"),
            holding: Self::holding(limit, 0),
            least: amounts::of_memory(MIB),
            ..RegisterRequest::default()
        };
        self.fleet.register(&request, self.now);
    }

    /// A round in which these answer, by name, with a limit, what they use and pools.
    fn round(&mut self, answers: &[(&str, u64, u64, &[u32])]) {
        self.now += SECOND / 2;
        for call in self.fleet.begin(self.now).calls {
            let Request::Stats(request) = &call.request else { continue };
            let Some((_, limit, used, pools)) = answers.iter().find(|answer| *answer.0 == *call.key.name)
            else {
                continue;
            };
            let curve =
                || Curve { samples: 1e4, ..messages::write((1..=300).map(|i| (i * MIB, 1.0 / i as f64))) };
            let pool = |&id: &u32| PoolReport {
                id,
                name: format!("p{id}"),
                reads: 10 * self.now / MILLI,
                curve: Some(curve()),
                ..PoolReport::default()
            };
            let answer = StatsResponse {
                accepted: true,
                session: request.session,
                leader: request.leader,
                holding: Self::holding(*limit, *used),
                number: 1,
                is_whole: true,
                pools: pools.iter().map(pool).collect(),
                ..StatsResponse::default()
            };
            self.fleet.note_answer(&call, Ok(&Answer::Stats(answer)), self.now);
        }
    }

    fn look(&mut self) -> WholeLook {
        self.fleet.whole(&mut self.numbers, self.now).expect("it is complete")
    }

    fn pools(&mut self) -> Vec<(u32, String)> {
        self.look().pools.into_iter().map(|pool| (pool.id, pool.name)).collect()
    }
}

#[test]
fn a_node_has_what_is_in_force_or_what_its_instances_can_have_with_the_spare() {
    let mut node = Node::new(Some(40 * MIB));
    let figures = |look: WholeLook| {
        [look.limit_bytes, look.used_bytes, look.least_bytes, look.most_bytes].map(|bytes| bytes / MIB)
    };
    assert_eq!(figures(node.look()), [40, 3, 3, 100], "the spare alone");
    node.register("x", 1, 20 * MIB);
    node.register("y", 2, 10 * MIB);
    node.round(&[("x", 20 * MIB, 12 * MIB, &[1]), ("y", 10 * MIB, 4 * MIB, &[1])]);
    assert_eq!(figures(node.look()), [40, 3 + 12 + 4, 3 + 2, 100]);
    node.round(&[("x", 20 * MIB, 25 * MIB, &[1]), ("y", 13 * MIB, 4 * MIB, &[1])]);
    assert_eq!(figures(node.look())[..2], [25 + 13 + 3, 3 + 25 + 4], "more than is in force");
    // One is silent.
    (0..4).for_each(|_| node.round(&[("y", 10 * MIB, 4 * MIB, &[1])]));
    assert_eq!(figures(node.look())[1], 3 + 25 + 4, "all that it can have");
    assert_eq!(node.pools().len(), 1);

    let mut unset = Node::new(None);
    unset.register("x", 1, 20 * MIB);
    unset.round(&[("x", 20 * MIB, 12 * MIB, &[1])]);
    assert_eq!(figures(unset.look()), [20 + 3, 12 + 3, 1 + 3, 100]);
    assert!(!unset.fleet.may_raise("a", 9 * SECOND) && unset.fleet.memory("a") == 20 * MIB);
}

#[test]
fn a_number_of_a_pool_is_never_that_of_another() {
    let mut node = Node::new(Some(40 * MIB));
    node.register("x", 1, 10 * MIB);
    node.register("y", 2, 10 * MIB);
    let all: (&str, u64, u64, &[u32]) = ("x", 10 * MIB, MIB, &[1, 2]);
    node.round(&[all, ("y", 10 * MIB, MIB, &[1])]);
    let named = |pools: &[(u32, &str)]| -> Vec<(u32, String)> {
        pools.iter().map(|&(id, name)| (id, name.to_owned())).collect()
    };
    assert_eq!(node.pools(), named(&[(1, "x/p1"), (2, "x/p2"), (3, "y/p1")]));
    node.round(&[("x", 10 * MIB, MIB, &[1]), ("y", 10 * MIB, MIB, &[1])]);
    assert_eq!(node.pools(), named(&[(1, "x/p1"), (3, "y/p1")]));
    node.round(&[all, ("y", 10 * MIB, MIB, &[1])]);
    assert_eq!(node.pools(), named(&[(1, "x/p1"), (3, "y/p1"), (4, "x/p2")]));
    assert_eq!(node.numbers.numbers.len(), 3, "the one that is gone is forgotten");
    // Silent for a while, it keeps its number.
    (0..4).for_each(|_| node.round(&[all]));
    assert_eq!(node.pools(), named(&[(1, "x/p1"), (4, "x/p2")]));
    node.register("y", 2, 10 * MIB);
    node.round(&[all, ("y", 10 * MIB, MIB, &[1])]);
    assert_eq!(node.pools(), named(&[(1, "x/p1"), (3, "y/p1"), (4, "x/p2")]));
    // Another agent of the instance may number its pools in another way.
    node.now += 10 * SECOND;
    node.register("y", 7, 10 * MIB);
    node.register("x", 1, 10 * MIB);
    node.round(&[all, ("y", 10 * MIB, MIB, &[1])]);
    assert_eq!(node.pools(), named(&[(1, "x/p1"), (4, "x/p2"), (5, "y/p1")]));
}

#[test]
fn a_report_has_the_grants_that_were_told_and_thin_curves() {
    let mut node = Node::new(Some(40 * MIB));
    node.register("x", 1, 10 * MIB);
    let all: (&str, u64, u64, &[u32]) = ("x", 10 * MIB, MIB, &[1, 2]);
    node.round(&[all]);
    node.fleet.decide(node.now);
    let granted = |look: WholeLook| -> Vec<u64> {
        look.pools.iter().map(|pool| amounts::memory(&pool.granted) / MIB).collect()
    };
    assert_eq!(granted(node.look()), [0, 0], "not what the node decided");
    let grant = |id, bytes| PoolGrant { id, amounts: amounts::of_memory(bytes) };
    node.numbers.note_told(&[grant(1, 7 * MIB), grant(2, 9 * MIB), grant(3, 1)]);
    node.numbers.note_told(&[grant(2, 5 * MIB)]);
    assert_eq!(granted(node.look()), [7, 5]);
    let points = |pool: &PoolReport| pool.curve.as_ref().map(|curve| curve.sizes.len());
    let is_thin = |pool: &PoolReport| (100..=MOST_CURVE_POINTS).contains(&points(pool).unwrap_or(0));
    assert!(node.look().pools.iter().all(is_thin));
    assert!(node.look().pools.iter().all(|pool| pool.counted_at_millis == node.now / MILLI));
}

#[test]
fn the_memory_of_a_node_outlasts_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let store = Store::open(&path).unwrap();
    store.save_memory("a", 7).unwrap();
    store.save_memory("b", 8).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.led_memory(Some("b"), 100).unwrap(), Some(8));
    assert_eq!(store.led_memory(Some("a"), 100).unwrap(), None, "forgotten for another node");
    assert_eq!(store.led_memory(Some("b"), 100).unwrap(), None);
}
