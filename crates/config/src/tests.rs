use super::load::{Flags, Override, load_text, unsurveyed};
use super::*;

fn parse(text: &str) -> Config {
    load_text("test.toml", text, &[], &Flags::default(), &unsurveyed).expect("a good configuration").config
}

fn refusal(text: &str) -> String {
    load_text("test.toml", text, &[], &Flags::default(), &unsurveyed).expect_err("a refusal").to_string()
}

fn example_file() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/millpond.toml");
    std::fs::read_to_string(path).expect("config/millpond.toml")
}

#[test]
fn the_example_file_has_the_defaults() {
    assert_eq!(parse(&example_file()), Config::default());
}

#[test]
fn nothing_configured_is_the_defaults() {
    assert_eq!(parse(""), Config::default());
}

/// A limit of one tenant turned it off for all, and nothing said so.
#[test]
fn why_no_policy_moves_memory_is_known() {
    let tenants = "[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\n";
    let why = |text: &str| parse(text).why_control_is_off();
    assert_eq!(why(tenants), None);
    for (text, expected) in [
        ("", "there is one pool"),
        (&format!("{tenants}limit = \"8MiB\""), "b has a limit"),
        (&format!("[watch]\ncurve_keys = 0\n{tenants}"), "watch.curve_keys is 0"),
        (&format!("[control]\nmode = \"off\"\n{tenants}"), "control.mode is off"),
    ] {
        assert!(why(text).is_some_and(|why| why.ends_with(expected)), "{text}");
        assert!(parse(text).control().is_none(), "{text}");
    }
}

#[test]
fn every_setting_is_listed_once() {
    let table = load::to_table(&Config::with_examples()).expect("writable");
    let mut paths = Vec::new();
    for (key, value) in &table {
        match value {
            toml::Value::Table(section) => paths.extend(section.keys().map(|name| format!("{key}.{name}"))),
            toml::Value::Array(entries) => {
                let entry = entries.first().and_then(toml::Value::as_table).expect("a default entry");
                paths.extend(entry.keys().map(|name| format!("{key}.{name}")));
            }
            _ => paths.push(key.clone()),
        }
    }
    let mut listed: Vec<String> = keys::all().map(|key| key.path.to_owned()).collect();
    paths.sort();
    listed.sort();
    assert_eq!(paths, listed);
}

#[test]
fn an_unknown_key_is_refused_with_line_and_nearest() {
    let error = refusal("memory = \"64MiB\"\n\n[limits]\nmax_conections = 5\n");
    assert!(error.contains("test.toml:4: "), "{error}");
    assert!(error.contains("`limits.max_conections`; did you mean `limits.max_connections`?"), "{error}");
    let error = refusal("[[pool]]\nname = \"default\"\n[[pool]]\nname = \"b\"\npolcy = \"lru\"\n");
    assert!(error.contains("test.toml:5: ") && error.contains("`pool.policy`"), "{error}");
    let error = refusal("[limts]\nmax_connections = 5\n");
    assert!(error.contains("did you mean `limits`?"), "{error}");
    let error = refusal("max_connections = 5\n");
    assert!(error.contains("did you mean `limits.max_connections`?"), "{error}");
    let error = refusal("colour = 5\n");
    assert!(error.contains("millpond config print"), "{error}");
}

#[test]
fn reserves_must_fit_into_limits_and_memory() {
    for (text, parts) in [
        (
            "[[tenant]]\nname = \"a\"\npool = \"default\"\nreserve = \"8MiB\"",
            ["tenant.a.reserve", "pool.default.reserve"],
        ),
        (
            "[[tenant]]\nname = \"a\"\nlimit = \"8MiB\"\nreserve = \"9MiB\"",
            ["tenant.a.reserve: 9MiB", "more than its limit"],
        ),
        (
            "memory = \"64MiB\"\n[[tenant]]\nname = \"a\"\nreserve = \"40MiB\"\n[[pool]]\nname = \"b\"\nreserve = \"30MiB\"",
            ["total 70MiB", "memory is 64MiB"],
        ),
    ] {
        let error = refusal(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
}

fn assert_refused(text: &str, parts: &[&str]) {
    let error = refusal(text);
    for part in parts {
        assert!(error.contains(part), "{text:?} gave {error:?}, which lacks {part:?}");
    }
}

#[test]
fn wrong_values_are_refused_by_name() {
    for (text, parts) in [
        ("memory = \"12 parsecs\"", &["test.toml:1: memory: ", "12 parsecs"][..]),
        ("memory = \"1MiB\"", &["memory", "16MiB"]),
        ("memory = \"900TiB\"", &["memory", "more than this machine has", "give the cache less", "256GiB"]),
        ("max_memory = \"257GiB\"", &["max_memory", "256GiB"]),
        ("memory = \"2GiB\"\nmax_memory = \"1GiB\"", &["max_memory", "raise"]),
        ("threads = 0", &["threads"]),
        ("[telemetry]\ntimeout_millis = 0", &["telemetry.timeout_millis", "60000"]),
        ("[telemetry]\nservice_name = \"\"", &["telemetry.service_name"]),
        ("threads = \"many\"", &["test.toml:1: threads: ", "the text \"many\"", "a whole number"]),
        (
            "[[listener]]\naddress = \"tcp://0.0.0.0:11211\"",
            &["listener.main.address", "allow_remote = true"],
        ),
        ("[admin]\naddress = \"tcp://0.0.0.0:11212\"", &["admin.address", "allow_remote"]),
        ("[admin]\naddress = \"tcp://127.0.0.1:11211\"", &["admin.address", "own port"]),
        ("allow_remote = true\n[admin]\naddress = \"tcp://[::]:11211\"", &["admin.address", "own port"]),
        ("[[listener]]\naddress = \"unix://relative\"", &["unix:///run"]),
        ("[[listener]]\naddress = \"example.com:1\"", &["IP address"]),
        ("[[listener]]\npool = \"defalt\"", &["listener.main.pool", "did you mean `default`"]),
        ("[[listener]]\n[[listener]]\n", &["two listeners", "used twice"]),
        (
            "allow_remote = true\n[[listener]]\n[[listener]]\nname = \"b\"\naddress = \"0.0.0.0:11211\"",
            &["test.toml:5: listener.b.address: ", "tcp://127.0.0.1:11211", "own port"],
        ),
        ("limits.max_connections = -1", &["test.toml:1: ", "the number `-1`", "0 or more"]),
        ("maxmemory = \"2GiB\"", &["no setting `maxmemory`; did you mean `memory`?"]),
        (
            "[limits]\nmaxclients = 1",
            &["no setting `limits.maxclients`; did you mean `limits.max_connections`?"],
        ),
        ("[[listener]]\nport = 1", &["no setting `listener.port`; did you mean `listener.address`?"]),
        ("[[listener]]\nmode = \"rwx\"", &["octal"]),
    ] {
        assert_refused(text, parts);
    }
}

#[test]
fn wrong_values_of_tenants_users_and_limits_are_refused_by_name() {
    for (text, parts) in [
        ("[[tenant]]\nname = \"\"", &["tenant.name", "1 to 64"][..]),
        ("[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"a\"", &["two tenants are called `a`"]),
        ("[[tenant]]\nname = \"a\"\npool = \"defalt\"", &["tenant.a.pool", "did you mean `default`"]),
        (
            "[[tenant]]\nname = \"a\"\npool = \"default\"\nlimit = \"8MiB\"",
            &["tenant.a.limit", "pool.default.limit"],
        ),
        ("[[tenant]]\nname = \"a\"\nlimit = 64", &["tenant.a.limit: 64B", "64KiB; did you mean 64MiB?"]),
        ("[[tenant]]\nname = \"a\"\nlimit = 0", &["tenant.a.limit: 0B", "\"auto\" is none"]),
        ("[[tenant]]\nname = \"a\"\nreserve = 64", &["tenant.a.reserve: 64B", "did you mean 64MiB?"]),
        ("[[pool]]\nname = \"default\"\nlimit = 99", &["pool.default.limit: 99B", "did you mean 99MiB?"]),
        ("[[tenant]]\nname = \"a\"\nprefixes = [\"\"]", &["tenant.a.prefixes", "1 to 250 bytes"]),
        (
            "[[tenant]]\nname = \"a\"\nprefixes = [\"x:\"]\n[[tenant]]\nname = \"b\"\nprefixes = [\"x:\"]",
            &["tenant.b.prefixes: `x:` is there twice"],
        ),
        ("[[tenant]]\nname = \"a\"\nweight = 0", &["tenant.a.weight", "between 1 and 100"]),
        ("[[tenant]]\nname = \"a\"\nburst_millis = 0", &["tenant.a.burst_millis"]),
        ("[[tenant]]\nname = \"a\"\ndatabases = [0]", &["tenant.a.databases", "0 is where a client begins"]),
        (
            "[[tenant]]\nname = \"a\"\ndatabases = [1]\n[[tenant]]\nname = \"b\"\ndatabases = [1]",
            &["tenant.b.databases: 1 is another tenant's"],
        ),
        ("[[listener]]\ntenant = \"shp\"\n[[tenant]]\nname = \"shop\"", &["listener.main.tenant", "`shop`"]),
        (
            "[[listener]]\ntenants = [\"shp\"]\n[[tenant]]\nname = \"shop\"",
            &["listener.main.tenants", "`shop`"],
        ),
        ("[[user]]\nname = \"a\"", &["user.a.password_hash", "millpond hash-password"]),
        ("[[user]]\nname = \"a\"\npassword_hash = \"hunter2\"", &["user.a.password_hash", "sha256:"]),
        ("[[user]]\nname = \"a\"\nrules = \"nopass +gett\"", &["user.a.rules", "`+gett`", "Unknown command"]),
        ("[[user]]\nname = \"a b\"\nrules = \"nopass\"", &["user.name", "without spaces"]),
        ("[[user]]\nname = \"a\"\nrules = \"nopass\"\ntenant = \"x\"", &["user.a.tenant", "no tenant `x`"]),
        ("[[pool]]\npolicy = \"fifo\"", &["s3-fifo, sieve, lru"]),
        ("[[pool]]\nrebalance = \"hits\"", &["pool.default.rebalance", "hits-per-slab"]),
        (
            "[[tenant]]\nname = \"t\"\noperations_per_sec = 10\nmin_operations_per_sec = 11",
            &["tenant.t.min_operations_per_sec", "11 is more than the 10"],
        ),
        ("[control]\npolicy = \"best\"", &["control.policy", "choose static"]),
        ("[[pool]]\nclasses = \"tune\"", &["fixed", "tuned"]),
        ("[[pool]]\nclass_factor = 1.0", &["pool.default.class_factor"]),
        ("[[pool]]\nclass_max_bytes = \"8MiB\"", &["class_max_bytes", "4MiB"]),
        ("[[pool]]\nclass_sizes_bytes = [128, 64]", &["ascend"]),
        ("[[pool]]\nclass_sizes_bytes = [10]", &["test.toml:2: ", "from 64B to 4MiB"]),
        ("[[pool]]\nclass_min_bytes = 4194303\nclass_max_bytes = 4194302", &["4194303 B is more than"]),
        ("[limits]\nmax_item_bytes = 4194305", &["4194305 B is not between 1KiB and 4MiB"]),
        ("[[pool]]\nlimit = \"9223372036854775808\"", &["test.toml:2: pool.default.limit: "]),
        ("[limits]\nmax_line_bytes = 100", &["limits.max_line_bytes", "between 2KiB and"]),
        ("[limits]\nmax_item_bytes = \"5MiB\"", &["limits.max_item_bytes", "and 4MiB"]),
        ("# no\nmemory = 99999999999999999999", &["test.toml:2: ", "cannot be used", "99999999999999999999"]),
        ("[limits]\nmax_connections = -1", &["test.toml:2: limits.max_connections: "]),
        ("[log]\nlevel = \"loud\"", &["error, warn"]),
    ] {
        assert_refused(text, parts);
    }
}

#[test]
fn a_fleet_that_cannot_be_joined_is_refused() {
    for (text, parts) in [
        ("[fleet]\norchestrators = [\"here\"]", &["fleet.orchestrators", "`here` is not HOST:PORT"][..]),
        ("[fleet]\norchestrators = [\"a:1\", \"b\"]", &["fleet.orchestrators", "`b` is not HOST:PORT"]),
        (
            "[fleet]\norchestrators = [\"http://a:1\", \"b\"]",
            &["`http://a:1` is not HOST:PORT", "`b` is not HOST:PORT"],
        ),
        ("[fleet]\norchestrators = [\"10.0.0.7:1\"]", &["fleet.listen", "is on another machine"]),
        ("[fleet]\norchestrators = [\"a:1\"]\nlisten = \"b\"", &["fleet.listen", "IP:PORT"]),
        ("[fleet]\norchestrators = [\"a:1\"]\nlisten = \"10.0.0.7:0\"", &["fleet.listen", "token_file"]),
        (
            "[fleet]\norchestrators = [\"a:1\"]\nlisten = \"0.0.0.0:0\"\ntoken_file = \"t\"",
            &["fleet.listen", "fleet.advertise"],
        ),
        ("[fleet]\norchestrators = [\"a:1\"]\ncert_file = \"c\"", &["fleet.key_file"]),
        (
            "[fleet]\norchestrators = [\"a:1\"]\n[monitor]\nmode = \"free-memory\"",
            &["fleet.orchestrators", "monitor.mode"],
        ),
    ] {
        assert_refused(text, parts);
    }
}

#[test]
fn values_outside_of_their_bounds_are_refused() {
    for (text, problem) in [
        ("threads = 1025", "threads: 1025 is not between 1 and 1024"),
        ("[watch]\nhot_keys = 1025", "watch.hot_keys: 1025 is too much; give at most 1024"),
        ("[watch]\ncurve_one_in = 0", "watch.curve_one_in: 0 is too small; give at least 1"),
    ] {
        let error = refusal(text);
        assert!(error.contains(problem), "{text:?} gave {error:?}");
    }
}

#[test]
fn environment_goes_over_the_file_and_flags_over_both() {
    let file = "memory = \"64MiB\"\n[limits]\nmax_connections = 1\nidle_timeout_secs = 1\n";
    let environment = [
        ("MILLPOND_LIMITS_MAX_CONNECTIONS".to_owned(), "2".to_owned()),
        ("MILLPOND_MEMORY".to_owned(), "128MiB".to_owned()),
        ("MILLPOND_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned()),
    ];
    let flag = |assignment| Override::parse("--set", assignment).expect("a setting");
    let settings =
        vec![flag("memory=256MiB"), flag("pool.default.limit = 32MiB"), flag("admin.enabled=false")];
    let flags = Flags { settings, ..Flags::default() };
    let loaded = load_text("test.toml", file, &environment, &flags, &unsurveyed).expect("good");
    assert_eq!(loaded.config.limits.idle_timeout_secs, 1);
    assert_eq!(loaded.config.limits.max_connections, 2);
    assert_eq!(loaded.config.memory, Auto::Set(ByteSize::mib(256)));
    assert_eq!(loaded.config.pools[0].limit, Auto::Set(ByteSize::mib(32)));
    assert!(!loaded.config.admin.enabled);
    assert_eq!(loaded.warnings, [""; 0]);
}

#[test]
fn a_text_that_looks_like_a_number_needs_no_quotes_on_the_command_line() {
    let given = |assignment: &str| {
        let settings = vec![Override::parse("--set", assignment).expect("a setting")];
        load_text("", "", &[], &Flags { settings, ..Flags::default() }, &unsurveyed)
    };
    let text = "[admin]\ntls_min_version = \"1.3\"";
    let config = given("admin.tls_min_version=1.3").expect("good").config;
    assert_eq!(config.admin.tls_min_version, parse(text).admin.tls_min_version);
    let error = given("admin.tls_min_version=1.4").expect_err("refused").to_string();
    assert!(error.contains("cannot be `1.4`"), "{error}");
    let error = given("limits.max_connections=1.5").expect_err("refused").to_string();
    assert!(error.contains("the number `1.5`"), "{error}");
}

/// Those that are near none are left alone: orchestrators make some.
#[test]
fn a_misspelt_variable_is_refused() {
    for (variable, near) in [
        ("MILLPOND_LIMITS_MAX_CONECTIONS", "MILLPOND_LIMITS_MAX_CONNECTIONS"),
        ("MILLPOND_MEMROY", "MILLPOND_MEMORY"),
        ("MILLPOND_LISTENS", "MILLPOND_LISTEN"),
        ("MILLPOND_MAXMEMORY", "MILLPOND_MEMORY"),
        ("MILLPOND_MAXCLIENTS", "MILLPOND_LIMITS_MAX_CONNECTIONS"),
    ] {
        let environment = [(variable.to_owned(), "9".to_owned())];
        let error =
            load_text("", "", &environment, &Flags::default(), &unsurveyed).expect_err("refused").to_string();
        assert_eq!(error, format!("{variable}: there is no such variable; did you mean {near}?"));
    }
    let others =
        ["MILLPOND_SERVICE_HOST", "MILLPOND_PORT", "MILLPOND_PORT_11211_TCP_ADDR", "MILLPOND_CONFIG"];
    let environment = others.map(|name| (name.to_owned(), "tcp://10.0.0.1:11211".to_owned()));
    load_text("", "", &environment, &Flags::default(), &unsurveyed).expect("good");
}

#[test]
fn all_mistakes_are_told_at_once_each_with_its_line() {
    let text = "\
memory = \"512\"
threads = \"many\"

[listener]
address = \"tcp://127.0.0.1:1\"

[[limits]]
max_connections = 5

[watch]
hot_kees = 5
latency_one_in = -1

[[tenant]]
name = \"shop\"
weight = 500
[[tenant]]
name = \"shop\"

[[user]]
name = \"alice\"
password_hash = \"none\"
rules = \"nopass +@reads +gett\"
[[user]]
name = \"bob\"

[log]
level = \"wran\"
";
    let environment = [("MILLPOND_LIMITS_IDLE_TIMEOUT_SECS".to_owned(), "soon".to_owned())];
    let flag = Override::parse("--set", "limits.max_item_bytes=9MiB").expect("a setting");
    let flags = Flags { settings: vec![flag], ..Flags::default() };
    let error = load_text("f", text, &environment, &flags, &unsurveyed).expect_err("refused").to_string();
    let lines: Vec<&str> = error.lines().collect();
    let expected = [
        "MILLPOND_LIMITS_IDLE_TIMEOUT_SECS: `limits.idle_timeout_secs` cannot be `soon`",
        "--set: limits.max_item_bytes: 9MiB is not between",
        "f:1: memory: 512B is too little; give at least 16MiB; did you mean 512MiB?",
        "f:2: threads: it cannot be the text \"many\", expected a whole number, or \"auto\"",
        "f:4: there may be several of `listener`: write [[listener]] in place of [listener]",
        "f:7: there is one `limits` only: write [limits] in place of [[limits]]",
        "f:11: there is no setting `watch.hot_kees`; did you mean `watch.hot_keys`?",
        "f:12: watch.latency_one_in: it cannot be the number `-1`",
        "f:16: tenant.shop.weight: 500 is not between 1 and 100",
        "f:18: tenant.name: two tenants are called `shop`",
        "f:22: user.alice.password_hash: ",
        "f:23: user.alice.rules: `+@reads`: Unknown command or category name in ACL; did you mean `+@read`?",
        "f:23: user.alice.rules: `+gett`: Unknown command or category name in ACL; did you mean `+get`?",
        "f:25: user.bob.password_hash: it has none",
        "f:28: log.level: `wran` is none of error, warn, info, debug, trace; did you mean \"warn\"?",
    ];
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line:?} does not begin with {start:?} in\n{error}");
    }
    assert_eq!(lines.len(), expected.len(), "{error}");
}

/// It took a minute and more when each tenant looked for its pool by making the list of all.
#[test]
fn a_file_of_thousands_of_tenants_is_read() {
    let tenant = |number| format!("[[tenant]]\nname = \"t{number}\"\nprefixes = [\"t{number}:\"]\n");
    let tenants: String = (0..4_000).map(tenant).collect();
    let config =
        parse(&format!("[[listener]]\ntenant = \"t0\"\ntenants = [\"*\"]\nby_prefix = true\n{tenants}"));
    assert_eq!(config.all_pools().len(), 4_000);
}

#[test]
fn values_without_quotes_are_told_of_with_what_to_write() {
    let error = refusal("memory = 512MiB # much\n[limits]\nmax_item_bytes=1.5 MiB\nmax_conections = 1\n");
    let expected = "test.toml:1: a size with a unit is a text: write memory = \"512MiB\"\n\
                    test.toml:3: a size with a unit is a text: write max_item_bytes = \"1.5 MiB\"\n\
                    test.toml:4: there is no setting `limits.max_conections`; did you mean `limits.max_connections`?";
    assert_eq!(error, expected);
    let error = refusal(
        "[[listener]]\naddress = 127.0.0.1:11311\nmode = 0700 # ours\nname = \"good\"\n[log]\nlevel = warn\n[[user]]\nname = a\nrules = >secret +@all\nweight = x\n",
    );
    let expected = "test.toml:2: a text stands in quotes: write address = \"127.0.0.1:11311\"\n\
                    test.toml:3: permissions are a text: write mode = \"0700\"\n\
                    test.toml:6: a text stands in quotes: write level = \"warn\"\n\
                    test.toml:8: a text stands in quotes: write name = \"a\"\n\
                    test.toml:9: a text stands in quotes: write rules = \"…\"\n\
                    test.toml:10: this is not TOML: ";
    assert!(error.starts_with(expected), "{error}");
    let error = refusal("[[listener]]\nmode = 0o770\n");
    assert!(error.contains("expected octal permissions in quotes, as in \"0770\""), "{error}");
    let error = refusal("memory = \n[limits\nthreads = 1 1\n");
    assert!(
        error.lines().count() >= 2 && error.lines().all(|line| line.contains("this is not TOML")),
        "{error}"
    );
}

#[test]
fn listeners_on_a_command_line_say_who_is_served() {
    let flags = |texts: &[&str]| Flags {
        listen: texts.iter().map(|text| text.parse().expect("a listener")).collect(),
        ..Flags::default()
    };
    let all = [
        "redis://localhost",
        "memcached://127.0.0.1:11311/",
        "resp://127.0.0.1:7000",
        "tcp://[::1]:5",
        "redis://[::1]",
    ];
    let config = load_text("", "", &[], &flags(&all), &unsurveyed).expect("good").config;
    let listeners: Vec<String> = config
        .listeners
        .iter()
        .map(|it| format!("{} {} {} {}", it.name, it.address, it.protocol, it.optional))
        .collect();
    let expected = [
        "redis tcp://127.0.0.1:6379 resp false",
        "main tcp://127.0.0.1:11311 memcached false",
        "redis-2 tcp://127.0.0.1:7000 resp false",
        "main-2 tcp://[::1]:5 auto false",
        "redis-3 tcp://[::1]:6379 resp false",
    ];
    assert_eq!(listeners, expected);
    for (text, address) in
        [("6380", "tcp://127.0.0.1:6380"), ("127.0.0.1:1", "tcp://127.0.0.1:1"), ("[::1]:2", "tcp://[::1]:2")]
    {
        let listen = Listen::redis(text).expect(text);
        assert_eq!((listen.address.to_string().as_str(), listen.protocol), (address, Protocol::Resp));
    }
    assert!("http://127.0.0.1:1".parse::<Listen>().is_err());
    let error = refusal("[[listener]]\naddress = \"redis://127.0.0.1:6379\"\n");
    assert!(error.contains("write tcp://127.0.0.1:6379 and protocol = \"resp\""), "{error}");
    assert_eq!(parse("[[listener]]\nprotocol = \"redis\"\n").listeners[0].protocol, Protocol::Resp);
}

#[test]
fn a_pool_that_nobody_would_use_is_not_made() {
    let pools = |text: &str| parse(text).pools.into_iter().map(|pool| pool.name).collect::<Vec<_>>();
    let shop = "[[tenant]]\nname = \"shop\"\n[[listener]]\ntenant = \"shop\"\n";
    assert_eq!(pools(shop), [""; 0]);
    assert_eq!(parse(shop).all_pools().len(), 1);
    assert_eq!(pools(""), ["default"]);
    assert_eq!(pools("[[tenant]]\nname = \"shop\"\n"), ["default"], "the usual listeners serve it");
    assert_eq!(pools(&format!("{shop}[[pool]]\nname = \"spare\"\n")), ["spare"], "who asks for one gets it");
}

#[test]
fn who_needs_no_password_has_no_tenant_of_its_own() {
    let tenant = "[[tenant]]\nname = \"shop\"\n[[user]]\nname = \"default\"\ntenant = \"shop\"\n";
    let error = refusal(&format!("{tenant}rules = \"nopass allkeys +@all\"\n"));
    assert!(
        error.starts_with("test.toml:5: user.default.tenant: ") && error.contains("listener.NAME.tenant"),
        "{error}"
    );
    parse(&format!("{tenant}rules = \">secret allkeys +@all\"\n"));
}

#[test]
fn rules_can_be_read_back_without_their_passwords() {
    let config = parse("[[user]]\nname = \"a\"\nrules = \">secret ~cart:* +@read\"\n");
    let json = change::settings_as_json(&config).expect("settings");
    assert_eq!(json["user.a.rules"], "(hidden) ~cart:* +@read");
    let mut changed = config.clone();
    changed.users[0].rules = Secret(">other ~* +get".to_owned());
    let changes = change::between(&config, &changed).expect("comparable");
    let shown: Vec<String> =
        changes.iter().map(|change| format!("{} -> {}", change.old, change.new)).collect();
    assert_eq!(shown, ["\"(hidden) ~cart:* +@read\" -> \"(hidden) ~* +get\""]);
    let printed = render(&config).expect("printable");
    assert!(
        printed.contains("rules = \"(hidden) ~cart:* +@read\"") && !printed.contains("secret\""),
        "{printed}"
    );
    let open = parse("[[user]]\nname = \"a\"\nrules = \"nopass ~cart:* +@read\"\n");
    assert_eq!(parse(&render(&open).expect("printable")), open, "what has no secret is printed whole");
}

#[test]
fn authentication_is_asked_for_by_listener() {
    let user = "[[user]]\nname = \"a\"\nrules = \">secret allkeys +@all\"\n";
    let error = refusal("[[listener]]\nauth = true\n");
    assert!(error.starts_with("test.toml:2: listener.main.auth: nobody has a password"), "{error}");
    let remote = "[[listener]]\naddress = \"tcp://0.0.0.0:1\"\n";
    parse(&format!("{user}{remote}"));
    let error = refusal(&format!("{user}{remote}auth = false\n"));
    assert!(error.contains("listener.main.address") && error.contains("allow_remote"), "{error}");
    let open = "[[user]]\nname = \"default\"\nrules = \"nopass allkeys +@all\"\n";
    assert!(refusal(&format!("{user}{open}{remote}")).contains("allow_remote"));
    parse(&format!("{user}{open}{remote}auth = true\n"));
}

#[test]
fn a_wrong_override_names_its_source() {
    // With the others, and not alone.
    let flags = Flags { mistakes: vec!["--set: `memory` is no setting".to_owned()], ..Flags::default() };
    let error = load_text("f", "threads = 0\n", &[], &flags, &unsurveyed).expect_err("refused").to_string();
    assert!(error.starts_with("--set: `memory` is no setting\nf:1: threads: 0 is not"), "{error}");
    let environment = [("MILLPOND_THREADS".to_owned(), "lots".to_owned())];
    let error =
        load_text("", "", &environment, &Flags::default(), &unsurveyed).expect_err("refused").to_string();
    assert!(error.contains("MILLPOND_THREADS") && error.contains("lots"), "{error}");
    for (assignment, part) in [
        ("memry=1GiB", "did you mean `memory`"),
        ("pool.other.limit=1GiB", "no `pool.other.limit`"),
        ("tenant.shop.limt=1GiB", "did you mean `tenant.shop.limit`"),
    ] {
        let flag = Override::parse("--set", assignment).expect("a setting");
        let error = load_text("", "", &[], &Flags { settings: vec![flag], ..Flags::default() }, &unsurveyed)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("--set") && error.contains(part), "{error}");
    }
    assert!(Override::parse("--set", "memory").is_err());
    let odd = Override::parse("--set", "tenant.a=b.weight=7").expect("a setting");
    assert_eq!((odd.path.as_str(), odd.value.as_str()), ("tenant.a=b.weight", "7"));
    let unknown = Override::parse("--set", "user.a.rules_=on ~k=1").expect("a setting");
    assert_eq!((unknown.path.as_str(), unknown.value.as_str()), ("user.a.rules_", "on ~k=1"));
}

#[test]
fn a_reload_tells_online_from_restart() {
    let old = parse("memory = \"64MiB\"\n");
    let new = parse(
        "memory = \"32MiB\"\nthreads = 7\n[limits]\nmax_connections = 9\n[[pool]]\nname = \"default\"\nlimit = \"20MiB\"\n\
         policy = \"lru\"\n[[pool]]\nname = \"second\"\n",
    );
    let changes = change::between(&old, &new).expect("comparable");
    let online: Vec<&str> = changes.iter().filter(|c| c.online).map(|c| c.path.as_str()).collect();
    assert_eq!(online, ["limits.max_connections", "memory", "pool.default.limit", "pool.default.policy"]);
    let restart: Vec<&str> = changes.iter().filter(|c| !c.online).map(|c| c.path.as_str()).collect();
    assert!(restart.contains(&"threads"), "{restart:?}");
    assert!(restart.contains(&"pool.second.limit"), "a pool that is new needs a restart: {restart:?}");

    let merged = change::with_online(&old, &new);
    assert_eq!((merged.memory, merged.threads), (new.memory, old.threads));
    let left = change::between(&merged, &new).expect("comparable");
    assert!(left.iter().all(|change| !change.online), "with_online applies exactly what is online: {left:?}");
    assert_eq!(change::between(&new, &new).expect("comparable"), Vec::new());
}

#[test]
fn printing_parses_back() {
    let config = parse(
        "memory = \"100MB\"\nallow_remote = true\n[[listener]]\nname = \"a\"\naddress = \"unix:///tmp/a.sock\"\nmode = \"0660\"\n\
         [[listener]]\nname = \"b\"\naddress = \"tcp://[::]:0\"\n[limits]\nmax_item_bytes = 123456\n",
    );
    assert_eq!(parse(&render(&config).expect("printable")), config);
}

#[test]
fn listen_flags_replace_the_listeners_of_the_file() {
    let file = "[[pool]]\nname = \"a\"\n[[pool]]\nname = \"b\"\n[[listener]]\nname = \"x\"\npool = \"b\"\n";
    let listen = ["127.0.0.1:1", "unix:///tmp/x"].map(|text| text.parse().expect("an address")).to_vec();
    let flags = Flags { listen, ..Flags::default() };
    let config = load_text("test.toml", file, &[], &flags, &unsurveyed).expect("good").config;
    let listeners: Vec<String> =
        config.listeners.iter().map(|l| format!("{} {} {}", l.name, l.address, l.pool)).collect();
    assert_eq!(listeners, ["main tcp://127.0.0.1:1 a", "main-2 unix:///tmp/x a"]);
}
