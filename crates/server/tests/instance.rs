//! An instance as an agent sees it: observed and changed through one trait, while clients use it.

mod support;

use millpond_server::config::edit::lay_over;
use millpond_server::config::load::Override;
use millpond_server::config::{ErrorKind, TenantSettings};
use millpond_server::{Observation, TenantFigures};
use support::{Client, address, config};

const BY: &str = "an agent";

fn setting(path: &str, value: &str) -> Override {
    Override { source: BY.to_owned(), path: path.to_owned(), value: value.to_owned() }
}

fn tenant<'o>(observation: &'o Observation, name: &str) -> &'o TenantFigures {
    observation.tenants.iter().find(|tenant| tenant.name == name).expect("the tenant")
}

#[test]
fn an_agent_moves_memory_between_tenants_by_what_it_observes() {
    let mut config = config();
    config.tenants = vec![TenantSettings::unlimited("shop"), TenantSettings::unlimited("blog")];
    config.listeners[0].tenant = "shop".to_owned();
    let server = support::start(config).expect("a server");
    let instance = server.instance();
    let mut client = Client::connect(address(&server));

    let before = instance.observe();
    assert_eq!(client.ask("set key 0 0 5\r\nhello\r\n"), "STORED");
    client.send("get key absent\r\n");
    assert_eq!([(); 3].map(|()| client.line()), ["VALUE key 0 5", "hello", "END"]);
    let after = instance.observe();
    let grown = |of: fn(&TenantFigures) -> u64| of(tenant(&after, "shop")) - of(tenant(&before, "shop"));
    let shown = [grown(|shop| shop.sets), grown(|shop| shop.hits), grown(|shop| shop.misses)];
    assert_eq!(shown, [1, 1, 1]);
    assert_eq!(tenant(&after, "blog").requests, 0);
    assert!(after.monotonic_nanos > before.monotonic_nanos);
    assert!(after.cache.pools.iter().any(|pool| pool.name == tenant(&after, "shop").pool));

    let moves = [setting("tenant.shop.limit", "48MiB"), setting("tenant.blog.limit", "16MiB")];
    let changes = instance.change(BY, &|old| lay_over(old, &moves)).expect("it is made");
    let changed: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    assert!(changed.contains(&"tenant.shop.limit"), "{changed:?}");
    let moved = instance.observe();
    let limits = ["shop", "blog"].map(|name| tenant(&moved, name).limit_bytes >> 20);
    assert_eq!(limits, [48, 16]);
    assert_eq!(client.ask("get key\r\n"), "VALUE key 0 5", "clients go on");
}

#[test]
fn a_change_that_is_refused_changes_nothing_and_names_the_setting() {
    let server = support::start(config()).expect("a server");
    let instance = server.instance();
    let settings = [setting("limits.max_connections", "77"), setting("threads", "9")];
    let error = instance.change(BY, &|old| lay_over(old, &settings)).expect_err("threads need a restart");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("threads: it takes effect at the next start only"), "{error}");
    assert_ne!(instance.config().limits.max_connections, 77);
    let unwritable = instance.write(None).expect_err("there is no file");
    assert!(unwritable.to_string().contains("without a config file"), "{unwritable}");
}

#[test]
fn an_instance_is_observed_after_its_server_has_stopped() {
    let server = support::start(config()).expect("a server");
    let instance = server.instance();
    server.stop();
    assert_eq!(instance.observe().tenants.iter().map(|tenant| tenant.connections).sum::<u64>(), 0);
    let error = instance.change(BY, &|old| lay_over(old, &[])).expect_err("nobody serves");
    assert_eq!(error.kind(), ErrorKind::System);
}
