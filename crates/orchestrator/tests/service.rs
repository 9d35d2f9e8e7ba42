//! An orchestrator and agents over real sockets.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::service::{Service as Agent, ServiceConfig as AgentConfig};
use agent::{Instance, InstanceError, Look};
use base::Clock;
use control::access::{Access, Files};
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};
use millpond_orchestrator::service::{Service, ServiceConfig};
use millpond_orchestrator::{Budget, FleetConfig, Whole};

const MIB: u64 = 1 << 20;
const PERIOD: Duration = Duration::from_millis(50);
const LEASE: Duration = Duration::from_millis(600);

/// A cache that fills at once what it may have, up to its appetite.
#[derive(Clone)]
struct Cache {
    name: &'static str,
    node: &'static str,
    appetite: u64,
    limit: Arc<Mutex<u64>>,
    reads: u64,
    /// Nobody reads or stores, so that nothing is known of it.
    is_idle: bool,
}

impl Cache {
    fn new(name: &'static str, appetite: u64) -> Self {
        Self {
            name,
            node: "here",
            appetite: appetite * MIB,
            limit: Arc::new(Mutex::new(4 * MIB)),
            reads: 0,
            is_idle: false,
        }
    }

    fn limit(&self) -> u64 {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Instance for Cache {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let limit = self.limit();
        let used = if self.is_idle { 0 } else { limit.min(self.appetite) };
        self.reads += if self.is_idle { 0 } else { 1_000 };
        let points = [(self.appetite / 2, 0.5), (self.appetite, 0.0)];
        let pool = PoolReport {
            id: 1,
            name: "all".to_owned(),
            used: amounts::of_memory(used),
            weight: 1.0,
            reads: self.reads,
            misses: (self.reads as f64 * (1.0 - used as f64 / self.appetite as f64)) as u64,
            curve: (!self.is_idle).then(|| v1::Curve { samples: 1e4, ..control::curve::write(points) }),
            ..PoolReport::default()
        };
        let instance = v1::Instance {
            name: self.name.to_owned(),
            node: self.node.to_owned(),
            incarnation: 1,
            kind: "model".to_owned(),
            ..v1::Instance::default()
        };
        Ok(Look {
            instance,
            limits: amounts::of_memory(limit),
            used: amounts::of_memory(used),
            least: amounts::of_memory(2 * MIB),
            most: Vec::new(),
            pools: vec![pool],
            learning: None,
        })
    }

    fn resize(&mut self, limits: &[Amount], _: &[PoolGrant]) -> Result<(), InstanceError> {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = amounts::memory(limits);
        Ok(())
    }
}

fn orchestrator(listen: &str, state: Option<&Path>, access: &Access) -> Service {
    let budget = Budget { each: Some(64 * MIB), spare: 4 * MIB, ..Budget::default() };
    start(listen, budget, state, access, None)
}

/// One with this memory in MiB of a node, whose memory a fleet's orchestrator sets if it is `led`.
fn orchestrator_of(
    access: &Access,
    spare: u64,
    (node, memory): (&str, u64),
    state: Option<&Path>,
    led: Option<&str>,
) -> Service {
    let nodes = [(node.to_owned(), memory * MIB)].into();
    start("127.0.0.1:0", Budget { each: None, nodes, spare: spare * MIB }, state, access, led)
}

fn start(listen: &str, budget: Budget, state: Option<&Path>, access: &Access, led: Option<&str>) -> Service {
    let config = ServiceConfig {
        state: state.map(Path::to_owned),
        led_node: led.map(str::to_owned),
        ..config(listen, budget, PERIOD, LEASE)
    };
    Service::start(config, access.clone(), Clock::System).expect("it starts")
}

fn config(listen: &str, budget: Budget, period: Duration, lease: Duration) -> ServiceConfig {
    ServiceConfig {
        listen: listen.parse().expect("an address"),
        admin: Some("127.0.0.1:0".parse().expect("an address")),
        period,
        fleet: FleetConfig {
            id: 7,
            budget,
            lease: lease.as_nanos() as u64,
            policy: "most-hits".to_owned(),
            objective: allocate::cost::Objective::Hits,
            rails: allocate::guard::Rails { least_share: 0.1, step: 0.2, ..Default::default() },
        },
        state: None,
        etcd: None,
        history: 100,
        led_node: None,
    }
}

fn agent(cache: &Cache, orchestrator: &str, access: &Access) -> Agent {
    agent_of(cache.clone(), orchestrator, access)
}

fn agent_of(instance: impl Instance, orchestrator: &str, access: &Access) -> Agent {
    let config = AgentConfig {
        listen: "127.0.0.1:0".parse().expect("an address"),
        advertise: None,
        orchestrators: vec![orchestrator.to_owned()],
    };
    Agent::start(config, access.clone(), instance, Clock::System).expect("it starts")
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        base::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} is not seen within 30 s");
}

fn page(service: &Service, path: &str) -> String {
    let address = service.admin_address().expect("it is served");
    let mut response = ureq::get(format!("http://{address}{path}")).call().expect("it answers");
    response.body_mut().read_to_string().expect("text")
}

#[test]
fn memory_moves_between_instances_and_returns_from_one_that_leaves() {
    let access = Access::default();
    let orchestrator = orchestrator("127.0.0.1:0", None, &access);
    let address = orchestrator.address().to_string();
    let caches = [Cache::new("small", 16), Cache::new("large", 200)];
    let agents = caches.each_ref().map(|cache| agent(cache, &address, &access));
    until("the large one's growth", || {
        assert!(caches.iter().map(Cache::limit).sum::<u64>() <= 64 * MIB);
        caches[1].limit() > 36 * MIB
    });
    assert!(agents.iter().all(Agent::is_led));
    let fleet = page(&orchestrator, "/fleet.json");
    assert!(fleet.contains("\"large\"") && fleet.contains("\"is_leased\":true"), "{fleet}");
    assert!(page(&orchestrator, "/metrics").contains("millpond_fleet_leased_instances 2"));
    let decided = || -> serde_json::Value {
        serde_json::from_str(&page(&orchestrator, "/decisions.json")).expect("JSON")
    };
    until("an outcome", || {
        let decided = decided();
        let pools = decided.as_array().into_iter().flatten().filter_map(|told| told["pools"].as_array());
        pools.flatten().any(|pool| pool["missed_since"].is_number())
    });
    let number = decided()[0]["number"].as_u64().expect("a number");
    let told = page(&orchestrator, &format!("/decisions/{number}"));
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert!(told["curves"]["large/all"][1][1].is_f64() && told["moves"].is_array(), "{told}");
    let brief = page(&orchestrator, "/decisions.json?brief=true&words=LARGE");
    let brief: serde_json::Value = serde_json::from_str(&brief).expect("JSON");
    assert!(brief[0]["pools"].is_null() && brief[0]["moved_bytes"].is_u64(), "{brief}");
    assert!(brief[0]["outcome"].is_object() && brief[0]["moves_count"].is_u64(), "{brief}");
    assert_eq!(page(&orchestrator, "/decisions.json?pool=nobody"), "[]");
    let gone =
        ureq::get(format!("http://{}/decisions/123456", orchestrator.admin_address().expect("it is served")));
    assert!(matches!(gone.call(), Err(ureq::Error::StatusCode(404))));
    let more = page(&orchestrator, "/what-if?pool=large/all&bytes=209715200");
    assert!(more.contains("\"would_miss\":0.0"), "{more}");
    let curve = page(&orchestrator, "/curve?pool=large/all");
    let curve: serde_json::Value = serde_json::from_str(&curve).expect("JSON");
    assert!(curve["points"][1][0].is_u64() && curve["samples"] == 1e4, "{curve}");
    // The model's curve falls to 0 in a straight line, so that its last 1 % saves 1 %.
    assert!(curve["working_set_bytes"].as_u64().is_some_and(|bytes| bytes > 190 * MIB), "{curve}");
    assert!(curve["age_secs"].as_f64().is_some_and(|secs| secs < 60.0), "{curve}");
    let curves: serde_json::Value = serde_json::from_str(&page(&orchestrator, "/curves.json")).expect("JSON");
    assert_eq!(curves.as_array().map(Vec::len), Some(2), "{curves}");
    let html = page(&orchestrator, "/");
    assert!(html.contains("/page/fleet.js") && !html.contains("http://"));
    assert!(page(&orchestrator, "/page/fleet.js").contains("/fleet.json"));
    let documented = include_str!("../../../docs/operations.md");
    for line in page(&orchestrator, "/metrics").lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert!(documented.contains(name), "{name} is not documented");
    }
    let [small, large] = agents;
    large.stop();
    until("the memory of the one that left", || {
        page(&orchestrator, "/metrics").contains("millpond_fleet_instances 1")
    });
    small.stop();
}

#[test]
fn a_new_orchestrator_goes_on_with_the_state_of_the_last_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.redb");
    let access = Access::default();
    let first = orchestrator("127.0.0.1:0", Some(&state), &access);
    let address = first.address().to_string();
    let cache = Cache::new("one", 200);
    let agent = agent(&cache, &address, &access);
    until("growth", || cache.limit() > 32 * MIB);
    first.stop();
    let limit = cache.limit();
    base::thread::sleep(LEASE * 2);
    assert_eq!(cache.limit(), limit, "it goes on with its last limit");
    let second = orchestrator(&address, Some(&state), &access);
    until("the instance", || page(&second, "/metrics").contains("millpond_fleet_leased_instances 1"));
    assert!(page(&second, "/fleet.json").contains("\"term\":2"));
    // And one whose state was lost learns from the agent that there was another.
    second.stop();
    let third = orchestrator(&address, None, &access);
    until("the instance", || page(&third, "/metrics").contains("millpond_fleet_leased_instances 1"));
    agent.stop();
}

/// Returns whether two values are the same but for the last digits of fractions, which JSON that is
/// read again may lose.
fn are_alike(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_alike(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| are_alike(a, b)))
        }
        (Number(a), Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= 1e-12 * a.abs()
        }
        (a, b) => a == b,
    }
}

#[test]
fn decisions_outlast_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.redb");
    let access = Access::default();
    let first = orchestrator("127.0.0.1:0", Some(&state), &access);
    let address = first.address().to_string();
    let caches = [Cache::new("small", 16), Cache::new("large", 200)];
    let agents = caches.each_ref().map(|cache| agent(cache, &address, &access));
    let numbers = |service: &Service| -> Vec<u64> {
        let decided: serde_json::Value =
            serde_json::from_str(&page(service, "/decisions.json")).expect("JSON");
        let numbers = decided.as_array().into_iter().flatten().filter_map(|told| told["number"].as_u64());
        numbers.collect()
    };
    until("decisions", || numbers(&first).len() > 1);
    agents.into_iter().for_each(Agent::stop);
    let (before, last) = (numbers(&first), page(&first, "/decisions/1"));
    first.stop();
    let second = orchestrator(&address, Some(&state), &access);
    assert_eq!(numbers(&second), before);
    let again = page(&second, "/decisions/1");
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert!(last.contains("curves") && are_alike(&read(&last), &read(&again)), "{last}\n{again}");
    let caches = [Cache { appetite: 300 * MIB, ..caches[0].clone() }, caches[1].clone()];
    let agents = caches.each_ref().map(|cache| agent(cache, &address, &access));
    until("a decision after those", || numbers(&second)[0] > before[0]);
    agents.into_iter().for_each(Agent::stop);
}

/// A node's orchestrator as an instance of the fleet's.
struct Node(Whole, &'static str);

impl Instance for Node {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let look = self.0.look().map_err(|error| InstanceError::new(error.to_string()))?;
        let instance = v1::Instance {
            name: self.1.to_owned(),
            node: "fleet".to_owned(),
            incarnation: self.0.id(),
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
        let set = self.0.set_memory(amounts::memory(limits), grants);
        set.map_err(|error| InstanceError::new(error.to_string()))
    }
}

/// Two nodes with two caches each; those of the second want much more. Each machine has nearly as
/// much as the fleet's orchestrator divides.
#[test]
fn memory_moves_between_nodes_whose_orchestrators_are_led() {
    let access = Access::default();
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = orchestrator_of(&access, 0, ("fleet", 64), None, None);
    let above = fleet.address().to_string();
    let nodes = ["a", "b"];
    let start_node = |name: &'static str| {
        let state = folder.path().join(name);
        let service = orchestrator_of(&access, 2, (name, 56), Some(&state), Some(name));
        let node = Node(service.whole().expect("it is led"), name);
        let agent = agent_of(node, &above, &access);
        (service, agent)
    };
    let led = nodes.map(start_node);
    let caches = [[Cache::new("a1", 6), Cache::new("a2", 6)], [Cache::new("b1", 200), Cache::new("b2", 200)]];
    let _agents: Vec<Agent> = caches
        .iter()
        .zip(&nodes)
        .zip(&led)
        .flat_map(|((caches, node), (service, _))| {
            let address = service.address().to_string();
            let access = &access;
            caches.each_ref().map(move |cache| agent(&Cache { node, ..cache.clone() }, &address, access))
        })
        .collect();
    let sum = |caches: &[Cache; 2]| caches.iter().map(Cache::limit).sum::<u64>();
    let check = || {
        let all = caches.iter().map(sum).sum::<u64>();
        assert!(all <= 64 * MIB, "{all} of all nodes");
        sum(&caches[1])
    };
    until("growth beyond half of what there is", || check() > 40 * MIB);
    // A restart knows what the fleet's orchestrator has set, at once.
    drop(led);
    let grown = check();
    base::thread::sleep(LEASE * 2);
    assert_eq!(check(), grown, "instances go on");
    let service = orchestrator_of(&access, 2, ("b", 56), Some(&folder.path().join("b")), Some("b"));
    let look = service.whole().expect("it is led").look().expect("its memory is known");
    assert!((grown..=56 * MIB).contains(&look.limit_bytes), "{look:?} of {grown}");
    // A limit that was under way as the orchestrator ended counts, though the instance has it not.
    assert!(look.used_bytes >= look.limit_bytes.min(grown + 2 * MIB), "{look:?} of {grown}");
}

/// An instance with as many pools as can be led, and curves as long as agents tell them.
#[derive(Clone)]
struct Large(Arc<Vec<PoolReport>>);

impl Large {
    fn new() -> Self {
        let curve = |pool: u64| {
            let points = control::MOST_CURVE_POINTS as u64;
            let size = |point: u64| (pool << 20) + (point << 36);
            let curve =
                control::curve::write((1..=points).map(|point| (size(point), 1.0 / (point + 1) as f64)));
            v1::Curve { samples: 1e4, ..curve }
        };
        let pool = |id: u32| PoolReport {
            id,
            name: format!("a pool whose name is as long as those of tenants {id}"),
            used: amounts::of_memory(1 << 40),
            weight: 1.0,
            curve: Some(curve(id.into())),
            ..PoolReport::default()
        };
        Self(Arc::new((1..=control::MOST_POOLS as u32).map(pool).collect()))
    }
}

impl Instance for Large {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let instance = v1::Instance { name: "large".to_owned(), incarnation: 1, ..v1::Instance::default() };
        let limits = amounts::of_memory(1 << 50);
        Ok(Look { instance, limits, pools: self.0.to_vec(), ..Look::default() })
    }

    fn resize(&mut self, _: &[Amount], _: &[PoolGrant]) -> Result<(), InstanceError> {
        Ok(())
    }
}

#[test]
fn a_report_of_as_many_pools_as_can_be_led_is_read() {
    let all = Large::new();
    let whole = v1::StatsResponse { pools: all.0.to_vec(), ..v1::StatsResponse::default() };
    let bytes = prost::Message::encoded_len(&whole);
    assert!(bytes > 4 << 20 && bytes < control::LONGEST_ANSWER, "{bytes}");
    let access = Access::default();
    let budget = Budget { each: Some(1 << 50), ..Budget::default() };
    let config = config("127.0.0.1:0", budget, Duration::from_secs(4), Duration::from_secs(12));
    let orchestrator = Service::start(config, access.clone(), Clock::System).expect("it starts");
    let agent = agent_of(all, &orchestrator.address().to_string(), &access);
    until("the report", || page(&orchestrator, "/metrics").contains("millpond_fleet_leased_instances 1"));
    agent.stop();
}

#[test]
fn nobody_speaks_without_the_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let access = |token: &str| {
        let path = folder.path().join(token);
        std::fs::write(&path, token.repeat(8)).expect("written");
        Access::read(&Files { token: Some(path), ..Files::default() }).expect("a token")
    };
    let right = access("right");
    let orchestrator = orchestrator("127.0.0.1:0", None, &right);
    let address = orchestrator.address().to_string();
    let caches = [Cache::new("known", 200), Cache::new("unknown", 200)];
    let known = agent(&caches[0], &address, &right);
    let unknown = agent(&caches[1], &address, &access("wrong"));
    until("the one with the token", || known.is_led());
    assert!(!unknown.is_led());
    let admin = orchestrator.admin_address().expect("it is served");
    let refused = ureq::get(format!("http://{admin}/fleet.json")).call().expect_err("no token");
    assert!(matches!(refused, ureq::Error::StatusCode(401)), "{refused}");
    for open in ["/healthz", "/", "/page/app.js"] {
        assert!(ureq::get(format!("http://{admin}{open}")).call().is_ok(), "{open}");
    }
}

#[test]
fn a_server_that_nobody_uses_leaves_its_memory_to_others() {
    let access = Access::default();
    let orchestrator = orchestrator("127.0.0.1:0", None, &access);
    let address = orchestrator.address().to_string();
    let idle = Cache { is_idle: true, ..Cache::new("idle", 200) };
    let busy = Cache::new("busy", 200);
    let agents = [&idle, &busy].map(|cache| agent(cache, &address, &access));
    until("the busy one's growth", || busy.limit() > 48 * MIB);
    assert!(idle.limit() < 10 * MIB);
    drop(agents);
}
