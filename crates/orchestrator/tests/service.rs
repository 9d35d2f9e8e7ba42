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
use millpond_orchestrator::{Budget, FleetConfig};

const MIB: u64 = 1 << 20;
const PERIOD: Duration = Duration::from_millis(50);
const LEASE: Duration = Duration::from_millis(600);

/// A cache that fills at once what it may have, up to its appetite.
#[derive(Clone)]
struct Cache {
    name: &'static str,
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
            node: "here".to_owned(),
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
        })
    }

    fn resize(&mut self, limits: &[Amount], _: &[PoolGrant]) -> Result<(), InstanceError> {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = amounts::memory(limits);
        Ok(())
    }
}

fn orchestrator(listen: &str, state: Option<&Path>, access: &Access) -> Service {
    let config = ServiceConfig {
        listen: listen.parse().expect("an address"),
        admin: Some("127.0.0.1:0".parse().expect("an address")),
        period: PERIOD,
        fleet: FleetConfig {
            id: 7,
            budget: Budget { each: Some(64 * MIB), spare: 4 * MIB, ..Budget::default() },
            lease: LEASE.as_nanos() as u64,
            policy: "most-hits".to_owned(),
            objective: allocate::cost::Objective::Hits,
            rails: allocate::guard::Rails { least_share: 0.1, step: 0.2, ..Default::default() },
        },
        state: state.map(Path::to_owned),
        etcd: None,
        history: 100,
    };
    Service::start(config, access.clone(), Clock::System).expect("it starts")
}

fn agent(cache: &Cache, orchestrator: &str, access: &Access) -> Agent {
    let config = AgentConfig {
        listen: "127.0.0.1:0".parse().expect("an address"),
        advertise: None,
        orchestrators: vec![orchestrator.to_owned()],
    };
    Agent::start(config, access.clone(), cache.clone(), Clock::System).expect("it starts")
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
    assert!(last.contains("curves") && page(&second, "/decisions/1") == last, "{last}");
    let caches = [Cache { appetite: 300 * MIB, ..caches[0].clone() }, caches[1].clone()];
    let agents = caches.each_ref().map(|cache| agent(cache, &address, &access));
    until("a decision after those", || numbers(&second)[0] > before[0]);
    agents.into_iter().for_each(Agent::stop);
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
