//! The samples of the server, and the memory monitor, through configuration, commands and admin
//! pages.

mod support;

use base::ByteSize;
use millpond_server::config::{Auto, MonitorMode, PoolSettings, TenantSettings};
use millpond_server::{Config, ErrorKind};
use support::{Client, address, config, get_page, metric, wait_until};

/// The lines of an answer up to `END`.
fn lines(client: &mut Client, request: &str) -> Vec<String> {
    client.send(request);
    let mut lines = Vec::new();
    loop {
        let line = client.line();
        if line == "END" {
            return lines;
        }
        assert!(!line.is_empty(), "the answer broke off");
        lines.push(line);
    }
}

/// Without hot keys and curves, which are looked for by default.
fn unwatched() -> Config {
    let mut config = config();
    config.watch.hot_keys = 0;
    config.watch.curve_keys = 0;
    config
}

#[test]
fn hot_keys_latencies_and_events_are_switched_while_serving() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("events.csv");
    let server = support::start_in_memory(unwatched()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set popular 0 0 1\r\n1\r\n"), "STORED");
    assert_eq!(lines(&mut client, "stats hotkeys\r\n"), Vec::<String>::new(), "off at the start");
    assert!(!get_page(&server, "/metrics").1.contains("quantile="));

    let mut changed = unwatched();
    changed.watch.latency_one_in = 1;
    changed.watch.hot_keys = 8;
    changed.watch.hot_keys_one_in = 1;
    changed.watch.curve_keys = 100;
    changed.watch.curve_one_in = 1;
    changed.watch.trace_file = trace.clone();
    changed.watch.trace_one_in = 1;
    let changes = server.reload(&changed).expect("good");
    assert!(changes.iter().filter(|change| change.path.starts_with("watch.")).all(|change| change.online));
    for _ in 0..9 {
        assert_eq!(client.ask("mg popular s\r\n"), "HD s1");
    }
    assert_eq!(client.ask("mg none s\r\n"), "EN");
    let hot = lines(&mut client, "stats hotkeys\r\n");
    assert_eq!(hot[0], "STAT hotkeys:1:key popular");
    assert_eq!(hot[1], "STAT hotkeys:1:accesses 9");
    assert_eq!(hot[2], "STAT hotkeys:1:percent 90.00");
    let page: serde_json::Value = serde_json::from_str(&get_page(&server, "/hotkeys.json").1).expect("JSON");
    assert_eq!(
        (page["default"][0]["key"].as_str(), page["default"][0]["accesses"].as_u64()),
        (Some("popular"), Some(9))
    );
    let page: serde_json::Value = serde_json::from_str(&get_page(&server, "/curves.json").1).expect("JSON");
    assert_eq!(page["default"]["curve"]["confidence"]["keys"].as_u64(), Some(1), "{page}");
    assert_eq!(page["default"]["rate"].as_f64(), Some(1.0));
    let slabs = server.cache().stats().pools[0].slab_bytes;
    assert!(page["default"]["present_bytes"].as_u64() > Some(slabs), "{page} of {slabs} bytes of slabs");
    assert_eq!(metric(&server, "millpond_call_samples_total{call=\"find\"}"), 10);
    assert!(metric(&server, "millpond_call_latency_nanoseconds{call=\"find\",quantile=\"0.99\"}") > 0);
    assert_eq!(metric(&server, "millpond_events_recorded_total{}"), 10);

    // A reload that changes nothing of it forgets nothing.
    changed.limits.max_connections = 77;
    server.reload(&changed).expect("good");
    assert_eq!(lines(&mut client, "stats hotkeys\r\n")[1], "STAT hotkeys:1:accesses 9");
    changed.watch.trace_one_in = 1_000_000_000;
    server.reload(&changed).expect("good");
    assert_eq!(client.ask("mg popular s\r\n"), "HD s1");
    assert_eq!(metric(&server, "millpond_events_recorded_total{}"), 10);

    server.reload(&unwatched()).expect("good");
    let written = std::fs::read_to_string(&trace).expect("a trace");
    let finds = written.lines().filter(|line| line.contains(",get,1,,find,")).count();
    assert_eq!((written.lines().count(), finds), (11, 10), "{written}");
    assert_eq!(lines(&mut client, "stats hotkeys\r\n"), Vec::<String>::new());
    assert!(get_page(&server, "/curves.json").1.contains("\"default\":null"));
    assert!(!get_page(&server, "/metrics").1.contains("millpond_events_recorded_total{}"));
}

#[test]
fn curves_are_shown_as_statistics_and_metrics_while_they_are_learnt() {
    let server = support::start(unwatched()).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set popular 0 0 1\r\n1\r\n"), "STORED");
    let mut changed = unwatched();
    changed.watch.curve_keys = 100;
    changed.watch.curve_one_in = 1;
    let without = |client: &mut Client| {
        assert_eq!(lines(client, "stats curves\r\n"), Vec::<String>::new());
        assert!(!get_page(&server, "/metrics").1.contains("millpond_pool_curve_miss_ratio{"));
    };
    without(&mut client);
    server.reload(&changed).expect("good");
    let unread = lines(&mut client, "stats curves\r\n");
    assert!(unread.iter().all(|line| !line.contains("miss_ratio")), "nothing was read yet: {unread:?}");
    for _ in 0..9 {
        assert_eq!(client.ask("mg popular s\r\n"), "HD s1");
    }
    assert_eq!(client.ask("mg none s\r\n"), "EN");
    // Ten reads of two keys: the first of one is a miss, and that of the other, which nobody
    // stores. So that one is none of the curve's keys.
    let curves = lines(&mut client, "stats curves\r\n");
    assert_eq!(curves[..3], ["STAT curves:samples 10", "STAT curves:lost 0", "STAT curves:keys 1"]);
    assert_eq!(curves[5], "STAT curves:rate 1.000000");
    // All keys are followed: the remaining error is the width of the curve's steps.
    let error = curves[6].strip_prefix("STAT curves:error ").and_then(|error| error.parse::<f64>().ok());
    assert!(error.is_some_and(|error| error < 0.01), "{curves:?}");
    let sizes = ["half", "present", "gib_more", "double"];
    assert_eq!(curves[7..], sizes.map(|size| format!("STAT curves:miss_ratio_{size} 0.200000")));
    assert_eq!(metric(&server, "millpond_pool_curve_samples_total{pool=\"default\"}"), 10);
    assert_eq!(metric(&server, "millpond_pool_curve_keys{pool=\"default\"}"), 1);
    let page = get_page(&server, "/metrics").1;
    for size in sizes {
        let line = format!("millpond_pool_curve_miss_ratio{{pool=\"default\",size=\"{size}\"}} 0.2\n");
        assert!(page.contains(&line), "{page}");
    }
    server.reload(&unwatched()).expect("good");
    without(&mut client);
}

/// Of six pools, three had curves and the others nothing to go by.
#[test]
fn a_small_cache_learns_the_curves_of_several_pools_from_fewer_keys() {
    let with = |pools: usize| {
        // Of 64 MiB.
        let mut config = config();
        let pool = |number: usize| PoolSettings { name: format!("p{number}"), ..PoolSettings::default() };
        config.pools.extend((1..pools).map(pool));
        config
    };
    let learnt = |pools: usize| {
        let server = support::start(with(pools)).expect("a server");
        let page = get_page(&server, "/curves.json").1;
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        let bytes = page.as_object().expect("an object").values().filter_map(|curve| curve["bytes"].as_u64());
        bytes.collect::<Vec<u64>>()
    };
    let (one, six) = (learnt(1), learnt(6));
    assert_eq!((one.len(), six.len()), (1, 6));
    assert!(six.iter().sum::<u64>() <= 64 << 20 >> 6, "{six:?}");
    assert!(six[0] < one[0], "{six:?} and {one:?}");
    // There is an end to that.
    let many = learnt(40);
    assert!((6..20).contains(&many.len()), "{many:?}");
}

/// Each of them took what its part of the 64th would have been, and forty together four times that.
#[test]
fn pools_that_are_added_one_by_one_do_not_take_more_and_more_for_curves() {
    let mut config = config();
    let server = support::start(config.clone()).expect("a server");
    let mut learnt = 0;
    for number in 1..40 {
        config.tenants.push(TenantSettings { name: format!("t{number}"), ..TenantSettings::default() });
        server.reload(&config).expect("good");
        let page = get_page(&server, "/curves.json").1;
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        let curves = page.as_object().expect("an object").values();
        let bytes: Vec<u64> = curves.filter_map(|curve| curve["bytes"].as_u64()).collect();
        assert!(bytes.iter().sum::<u64>() <= 64 << 20 >> 5, "{bytes:?}");
        learnt = bytes.len();
    }
    assert!((4..20).contains(&learnt), "{learnt} curves");
}

#[test]
fn a_trace_that_cannot_be_written_stops_the_start_and_says_so() {
    let mut config = config();
    config.watch.trace_file = "/nowhere/at/all/events.csv".into();
    let error = support::start(config).map(drop).expect_err("there is no such folder");
    assert_eq!(error.kind(), ErrorKind::System);
    assert!(error.to_string().contains("watch.trace_file: /nowhere/at/all/events.csv"), "{error}");
}

fn monitored(mode: MonitorMode) -> Config {
    let mut config = config();
    config.monitor.mode = mode;
    config.monitor.interval_millis = 5;
    // This process has more resident than that, whatever the cache does.
    config.monitor.lower_bytes = ByteSize::mib(1);
    config.monitor.upper_bytes = ByteSize::mib(5);
    config.monitor.give_percent = 100;
    config
}

#[test]
fn the_monitor_gives_memory_back_and_the_figures_tell() {
    let server = support::start(monitored(MonitorMode::ResidentMemory)).expect("a server");
    let limit = || metric(&server, "millpond_memory_limit_bytes{}");
    // A fifth of the 16 slabs is all that may be given.
    wait_until("all is given that may be", || metric(&server, "millpond_monitor_exhausted_total{}") > 0);
    assert_eq!(metric(&server, "millpond_monitor_given_bytes{}"), (64 << 20) - limit());
    assert!(limit() < 64 << 20 && limit() >= 51 << 20, "{}", limit());
    assert!(metric(&server, "millpond_monitor_gives_total{}") > 0);
    let page: serde_json::Value = serde_json::from_str(&get_page(&server, "/stats.json").1).expect("JSON");
    assert!(
        page["monitor"]["last_decision"].as_str().is_some_and(|text| text.contains("resident")),
        "{page}"
    );
    let mut client = Client::connect(address(&server));
    assert!(client.stat("monitor_given_bytes") > 0);

    // A reload that changes nothing of it takes nothing back.
    let mut changed = monitored(MonitorMode::ResidentMemory);
    changed.limits.max_connections = 77;
    let before = limit();
    server.reload(&changed).expect("good");
    assert_eq!(limit(), before);
    // Switched off, the cache has what is configured; and again as much when the machine has
    // plenty.
    server.reload(&config()).expect("good");
    assert_eq!(limit(), 64 << 20);
    assert!(!get_page(&server, "/metrics").1.contains("millpond_monitor_runs_total{}"));
    server.reload(&monitored(MonitorMode::FreeMemory)).expect("good");
    wait_until("it runs", || metric(&server, "millpond_monitor_runs_total{}") > 2);
    assert_eq!(limit(), 64 << 20);
}

#[test]
fn a_monitor_that_makes_no_sense_is_refused_by_name() {
    let mut wrong = monitored(MonitorMode::FreeMemory);
    wrong.monitor.upper_bytes = wrong.monitor.lower_bytes;
    let error = support::start(wrong).map(drop).expect_err("nothing lies between");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("monitor: upper is"), "{error}");
    let server = support::start(config()).expect("a server");
    let mut wrong = monitored(MonitorMode::FreeMemory);
    wrong.monitor.give_percent = 0;
    assert!(server.reload(&wrong).expect_err("nothing to give").to_string().contains("give_percent is 0"));
    wrong = config();
    wrong.watch.hot_keys_one_in = 0;
    assert!(server.reload(&wrong).expect_err("none").to_string().contains("watch.hot_keys_one_in"));
}

#[test]
fn items_and_slabs_are_told_in_full() {
    let mut config = config();
    config.memory = Auto::Set(ByteSize::mib(16));
    config.pools[0] = PoolSettings { policy: "2q".parse().expect("a policy"), ..PoolSettings::default() };
    let server = support::start_in_memory(config).expect("a server");
    let mut client = Client::connect(address(&server));
    let value = "v".repeat(20_000);
    for number in 0..2_000 {
        assert_eq!(client.ask(format!("set key{number} 0 1000 20000\r\n{value}\r\n")), "STORED");
    }
    assert_eq!(client.ask("mg key1999 s\r\n"), "HD s20000");
    let items = lines(&mut client, "stats items\r\n").join("\n");
    for name in
        ["number_hot", "number_warm", "number_cold", "age_hot", "hits_to_hot", "mem_slack", "age_projected"]
    {
        assert!(items.contains(&format!(":{name} ")), "{name} in {items}");
    }
    let stat = |text: &str, name: &str| -> u64 {
        let line =
            text.lines().find(|line| line.contains(&format!(":{name} "))).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    assert!(stat(&items, "evicted") > 1_000);
    assert_eq!(stat(&items, "evicted_unfetched"), stat(&items, "evicted"));
    assert_eq!(stat(&items, "evicted_nonzero"), stat(&items, "evicted"));
    let slabs = lines(&mut client, "stats slabs\r\n").join("\n");
    assert_eq!(stat(&slabs, "allocations"), 2_000);
    assert_eq!(stat(&slabs, "pages_added"), stat(&slabs, "total_pages"));
    assert!(stat(&slabs, "mem_wasted") > 0);
    assert_eq!(client.stat("evicted_unfetched"), stat(&items, "evicted"));
    let (_, text) = get_page(&server, "/metrics");
    for name in
        ["millpond_queue_items", "millpond_class_slack_bytes", "millpond_class_evicted_age_seconds_total"]
    {
        assert!(text.contains(&format!("{name}{{pool=\"default\",class=")), "{name}");
    }
}

/// The device takes nothing, as a disk that is full.
#[test]
fn events_that_cannot_be_written_are_counted_as_dropped() {
    let mut config = config();
    config.watch.trace_file = "/dev/full".into();
    config.watch.trace_one_in = 1;
    let server = support::start(config).expect("a server");
    let mut client = Client::connect(address(&server));
    let dropped = || metric(&server, "millpond_events_dropped_total{}");
    for _ in 0..3 {
        let before = dropped();
        assert_eq!(client.ask("mg none s\r\n"), "EN");
        wait_until("the event is counted as dropped", || dropped() > before);
    }
    assert_eq!(metric(&server, "millpond_events_recorded_total{}"), dropped());
}

/// The names of `stats` of memcached 1.6.18, as Debian has it.
const NAMES: &str = "pid uptime time version libevent pointer_size rusage_user rusage_system max_connections \
    curr_connections total_connections rejected_connections connection_structures \
    response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes \
    read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch \
    cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits \
    incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits \
    touch_misses store_too_large store_no_memory auth_cmds auth_errors bytes_read \
    bytes_written limit_maxbytes accepting_conns listen_disabled_num \
    time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes \
    hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues \
    slab_reassign_evictions_nomem slab_reassign_inline_reclaim slab_reassign_busy_items \
    slab_reassign_busy_deletes slab_reassign_running slabs_moved lru_crawler_running \
    lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped \
    log_worker_written log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids \
    round_robin_fallback bytes curr_items total_items slab_global_page_pool \
    expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed \
    crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru \
    direct_reclaims lru_bumps_dropped";

#[test]
fn stats_has_every_name_of_memcached() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    let lines = lines(&mut client, "stats\r\n");
    let has = |name: &str| lines.iter().any(|line| line.starts_with(&format!("STAT {name} ")));
    let missing: Vec<&str> = NAMES.split_whitespace().filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let mut names: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "each is there once");
}

#[test]
fn watch_says_what_there_is_in_its_stead() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    let answer = client.ask("watch fetchers mutations\r\n");
    assert!(answer.starts_with("CLIENT_ERROR watch is not supported: set watch.request_log"), "{answer}");
    assert_eq!(client.ask("mn\r\n"), "MN");
}

#[test]
fn stats_conns_shows_listening_sockets() {
    let server = support::start(config()).expect("a server");
    let address = address(&server);
    let mut client = Client::connect(address);
    let lines = lines(&mut client, "stats conns\r\n");
    let listening =
        lines.iter().position(|line| line.ends_with(":state conn_listening")).expect("a listener");
    let descriptor = lines[listening].trim_start_matches("STAT ").split(':').next().expect("a number");
    assert!(descriptor.parse::<u32>().is_ok(), "{descriptor}");
    assert!(lines.contains(&format!("STAT {descriptor}:addr tcp:{address}")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(&format!(":listen_addr tcp:{address}"))), "{lines:?}");
}

#[test]
fn requests_are_counted_by_the_prefixes_of_their_keys_while_that_is_on() {
    let server = support::start(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    let dump = || lines(&mut Client::connect(address(&server)), "stats detail dump\r\n");
    client.ask("set foo:0 0 0 1\r\nx\r\n");
    assert_eq!(dump(), Vec::<String>::new(), "off at the start");
    assert_eq!(client.ask("stats detail on\r\n"), "OK");
    assert_eq!(client.ask("set foo:1 0 0 1\r\nx\r\n"), "STORED");
    assert_eq!(lines(&mut client, "get foo:1 foo:2 bar\r\n").len(), 2);
    assert_eq!(client.ask("set bar:1 0 0 1\r\n1\r\n"), "STORED");
    assert_eq!(client.ask("incr bar:1 1\r\n"), "2");
    assert_eq!(client.ask("delete foo:1\r\n"), "DELETED");
    assert_eq!(dump(), ["PREFIX bar get 0 hit 0 set 1 del 0", "PREFIX foo get 2 hit 1 set 1 del 1"]);
    assert_eq!(client.ask("stats detail off\r\n"), "OK");
    assert_eq!(lines(&mut client, "get foo:1\r\n").len(), 0);
    assert_eq!(dump().len(), 2, "what was counted stays");
    assert_eq!(client.ask("stats detail x\r\n"), "CLIENT_ERROR usage: stats detail on|off|dump");
    assert_eq!(client.ask("stats reset\r\n"), "RESET");
    assert_eq!(dump(), Vec::<String>::new());
}
