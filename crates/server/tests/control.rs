//! The policy that moves memory between the pools of tenants: when it is on, and what it shows.

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use base::ByteSize;
use base::rng::{RngExt, SeededRng, seeded};
use control::access::Access;
use millpond_server::config::{Address, Auto, ControlMode, ListenerConfig, TenantSettings};
use millpond_server::{Config, Server};
use orchestrator::service::{Service as Orchestrator, ServiceConfig};
use orchestrator::{Budget, FleetConfig};
use support::{Client, ask_admin, config, get_page, metric, tcp, wait_until};

/// Keys that a batch asks for.
const BATCH: usize = 200;

/// Two tenants on listeners of their own: more memory is of use to `large` alone.
fn two_tenants() -> Config {
    let mut config = config();
    config.pools = Vec::new();
    config.tenants = ["small", "large"].map(TenantSettings::unlimited).to_vec();
    config.listeners = ["small", "large"]
        .map(|name| ListenerConfig {
            name: name.to_owned(),
            tenant: name.to_owned(),
            address: Address::loopback(0),
            ..ListenerConfig::default()
        })
        .to_vec();
    config.watch.hot_keys = 0;
    config.watch.curve_keys = 1_024;
    config.watch.curve_one_in = 1;
    config.control.period_secs = Auto::Set(1);
    config
}

/// A client that stores what it does not find.
struct Load {
    client: Client,
    /// Keys that it asks for, and how often for one of a million others: once in this many.
    keys: u32,
    rare: u32,
    rng: SeededRng,
}

impl Load {
    fn of_both(server: &Server) -> [Self; 2] {
        let addresses: Vec<SocketAddr> = server.addresses().iter().map(|(_, address)| tcp(address)).collect();
        [(0, 8_000, 4), (1, 40_000, u32::MAX)].map(|(at, keys, rare)| Self {
            client: Client::connect(addresses[at]),
            keys,
            rare,
            rng: seeded(at as u64),
        })
    }

    fn run(&mut self) {
        let keys: Vec<u32> = (0..BATCH)
            .map(|_| {
                let keys = if self.rng.random_range(0..self.rare) == 0 { 1_000_000 } else { self.keys };
                self.rng.random_range(0..keys)
            })
            .collect();
        let gets: String = keys.iter().map(|key| format!("mg {key}\r\n")).collect();
        self.client.send(gets);
        let missing: Vec<u32> = keys.into_iter().filter(|_| self.client.line() == "EN").collect();
        let value = "v".repeat(1_000);
        let sets: String = missing.iter().map(|key| format!("ms {key} 1000\r\n{value}\r\n")).collect();
        self.client.send(sets);
        for _ in missing {
            assert_eq!(self.client.line(), "HD");
        }
    }
}

fn decisions(server: &Server) -> serde_json::Value {
    serde_json::from_str(&get_page(server, "/decisions.json").1).expect("JSON")
}

fn grants(server: &Server) -> Vec<Option<u64>> {
    server.cache().stats().pools.iter().map(|pool| pool.granted_bytes).collect()
}

/// Runs the load until there is a decision that `is_wanted`.
fn run_until(server: &Server, what: &str, is_wanted: impl Fn(&serde_json::Value) -> bool) {
    let mut loads = Load::of_both(server);
    wait_until(what, || {
        (0..40).for_each(|_| loads.iter_mut().for_each(Load::run));
        is_wanted(&decisions(server))
    });
}

#[test]
fn memory_goes_to_the_tenant_to_which_it_is_of_use() {
    let server = support::start_in_memory(two_tenants()).expect("a server");
    let slabs = |pool: &str| metric(&server, &format!("millpond_pool_slab_bytes{{pool=\"{pool}\"}}"));
    run_until(&server, "most of the memory is large's", |page| {
        assert_eq!(page["mode"], "on", "several pools, and none has a limit");
        page["decisions"][0].is_object() && slabs("large") > 2 * slabs("small")
    });
    let page = decisions(&server);
    let first = page["decisions"].as_array().and_then(|all| all.last()).expect("a decision");
    let step = &first["moves"][0];
    assert_eq!((&step["from"], &step["to"]), (&"small".into(), &"large".into()), "{page:#}");
    assert!(step["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{page:#}");
    assert!(first["pools"][0]["miss_ratio_since"].is_number(), "{page:#}");
    let (status, told) = get_page(&server, &format!("/decisions/{}", first["number"]));
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(
        (&told["moves"], &told["curves"]["large"][0]),
        (&first["moves"], &serde_json::json!([0, 1.0]))
    );
    assert_eq!(get_page(&server, "/decisions/123456").0, "HTTP/1.1 404 Not Found");
    let listed = |query: &str| -> serde_json::Value {
        serde_json::from_str(&get_page(&server, &format!("/decisions.json?{query}")).1).expect("JSON")
    };
    let brief = &listed("brief=true&pool=large")["decisions"][0];
    assert!(brief["pools"].is_null() && brief["moved_bytes"].is_u64(), "{brief}");
    assert!(first["outcome"]["predicted_saved_misses_per_sec"].is_f64(), "{first}");
    assert_eq!(listed("words=nobody")["decisions"], serde_json::json!([]));
    let curves: serde_json::Value =
        serde_json::from_str(&get_page(&server, "/curves.json?pool=large").1).expect("JSON");
    assert!(curves["small"].is_null() && curves["large"]["policy_points"][1][1].is_f64(), "{curves}");
    let stats: serde_json::Value =
        serde_json::from_str(&get_page(&server, "/stats.json?detailed=large").1).expect("JSON");
    let has_classes = |pool: &serde_json::Value| (pool["name"] == "large") == pool["classes"].is_array();
    assert!(stats["pools"].as_array().is_some_and(|pools| pools.iter().all(has_classes)), "{stats}");
    assert!(metric(&server, "millpond_control_moved_bytes_total{}") > 1 << 20);
    assert!(metric(&server, "millpond_pool_granted_bytes{pool=\"large\"}") > 32 << 20);

    // What was granted is taken back at once.
    let (status, _) = ask_admin(&server, "PUT", "/config", "localhost", r#"{"control.mode": "off"}"#);
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(grants(&server), [None, None]);
    assert_eq!(decisions(&server)["mode"], "off");
}

#[test]
fn a_dry_run_shows_what_it_would_move() {
    let mut config = two_tenants();
    config.control.mode = ControlMode::DryRun;
    let server = support::start_in_memory(config).expect("a server");
    run_until(&server, "a decision", |page| page["decisions"][0]["moves"][0]["to"] == "large");
    let page = decisions(&server);
    assert_eq!((&page["mode"], &page["decisions"][0]["dry_run"]), (&"dry-run".into(), &true.into()));
    assert_eq!(grants(&server), [None, None]);
    assert_eq!(metric(&server, "millpond_control_moved_bytes_total{}"), 0);
}

#[test]
fn it_is_off_if_a_person_has_given_limits_and_when_there_is_one_pool() {
    let server = support::start_in_memory(two_tenants()).expect("a server");
    assert_eq!(decisions(&server)["mode"], "on");
    let limit = r#"{"limit": "16MiB"}"#;
    let (status, _) = ask_admin(&server, "PUT", "/tenants/small", "localhost", limit);
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(decisions(&server)["mode"], "off");
    // With limits too, if the configuration says so.
    ask_admin(&server, "PUT", "/config", "localhost", r#"{"control.mode": "on"}"#);
    assert_eq!(decisions(&server)["mode"], "on");

    let server = support::start_in_memory(config()).expect("a server");
    assert_eq!(decisions(&server)["mode"], "off");
    assert!(!get_page(&server, "/metrics").1.contains("millpond_control_rounds_total{}"));
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_remedy() {
    let server = support::start_in_memory(two_tenants()).expect("a server");
    let refused = |body: &str, says: &str| {
        let (status, text) = ask_admin(&server, "PUT", "/config", "localhost", body);
        assert_eq!(status, "HTTP/1.1 400 Bad Request");
        assert!(text.contains(says), "{text}");
    };
    refused(
        r#"{"control.policy": "best"}"#,
        "control.policy: there is no allocation policy `best`: choose static",
    );
    refused(r#"{"control.step_percent": 0}"#, "control.step_percent: 0 is not between 1 and 100");
    refused(
        r#"{"control.mode": "on", "watch.curve_keys": 0}"#,
        "control.mode: decisions need curves, and watch.curve_keys is 0; set it to 2048",
    );
    assert_eq!(decisions(&server)["policy"], "most-hits");
}

/// An orchestrator with this memory for each node.
fn orchestrator(memory: u64) -> Orchestrator {
    let local = "127.0.0.1:0".parse().expect("an address");
    let config = ServiceConfig {
        listen: local,
        admin: None,
        period: Duration::from_millis(100),
        fleet: FleetConfig {
            id: 1,
            budget: Budget { each: Some(memory), ..Budget::default() },
            lease: 1_000_000_000,
            policy: "most-hits".to_owned(),
            objective: allocate::cost::Objective::Hits,
            rails: allocate::guard::Rails { least_share: 0.1, step: 0.1, ..Default::default() },
        },
        state: None,
        etcd: None,
        history: 10,
        led_node: None,
    };
    Orchestrator::start(config, Access::default(), base::Clock::System).expect("it starts")
}

#[test]
fn an_orchestrator_sets_the_memory_and_divides_it_between_tenants() {
    let memory = 56 << 20;
    let orchestrator = orchestrator(memory);
    let mut config = two_tenants();
    config.memory = Auto::Set(ByteSize::mib(32));
    config.max_memory = Auto::Set(ByteSize::mib(128));
    config.fleet.orchestrators = vec![orchestrator.address().to_string()];
    let before = config.memory();
    let server = support::start_in_memory(config.clone()).expect("a server");
    let slabs = |pool: &str| metric(&server, &format!("millpond_pool_slab_bytes{{pool=\"{pool}\"}}"));
    let limit = || server.cache().ledger().limit();
    assert!(before.as_u64() < memory);
    run_until(&server, "the memory is larger, and most of it is large's", |_| {
        assert!(limit() <= memory);
        limit() > memory / 10 * 9 && slabs("large") > 2 * slabs("small")
    });
    assert!(grants(&server).iter().all(Option::is_some), "both are granted something");
    let own = decisions(&server)["decisions"].as_array().map_or(0, Vec::len);
    assert_eq!(own, 0, "the server's own policy decides nothing");

    // Whoever reads the file again, or asks for other memory, does not change what was set.
    let led_by = decisions(&server);
    assert_eq!(led_by["led"], true, "{led_by}");
    assert_eq!(metric(&server, "millpond_control_led{}"), 1);
    let told = limit();
    assert_eq!(server.reload(&config).expect("it is the same").len(), 0);
    let mut changed = config;
    changed.memory = Auto::Set(ByteSize::mib(100));
    changed.limits.max_connections = 77;
    let changes = server.reload(&changed).expect("the rest can be changed");
    let online: Vec<(&str, bool)> =
        changes.iter().map(|change| (change.path.as_str(), change.online)).collect();
    assert_eq!(online, [("limits.max_connections", true), ("memory", false)]);
    assert!(limit() <= memory && limit() > told / 10 * 9, "{} after {told}", limit());
    let (_, refused) = ask_admin(&server, "PUT", "/config", "localhost", r#"{"memory": "100MiB"}"#);
    assert!(refused.contains("memory: an orchestrator sets it"), "{refused}");

    // Without an orchestrator the server goes on with that memory, and decides again itself.
    orchestrator.stop();
    let last = limit();
    wait_until("the server's own rounds", || metric(&server, "millpond_control_rounds_total{}") > 1);
    assert_eq!(limit(), last);
}

/// Rounds are rare, and the pool is gone some time after the answer.
#[test]
fn what_a_removed_tenant_was_granted_is_for_others_at_once() {
    let mut config = two_tenants();
    config.control.period_secs = Auto::Set(3_600);
    let server = support::start_in_memory(config).expect("a server");
    let has_third = || {
        let page = decisions(&server);
        let pools = page["pools"].as_array().cloned().unwrap_or_default();
        pools.iter().any(|pool| pool["name"] == "third")
    };
    let change = |method, body| ask_admin(&server, method, "/tenants/third", "127.0.0.1", body).0;
    assert_eq!(change("PUT", "{}"), "HTTP/1.1 200 OK");
    wait_until("it has a share", has_third);
    assert_eq!(change("DELETE", ""), "HTTP/1.1 200 OK");
    wait_until("it has none", || !has_third());
}
