//! The list of all settings: name, help, and whether each changes while serving.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its dotted name; entries of `[[listener]]`, `[[pool]]` and `[[tenant]]` are named as if they
    /// were tables.
    pub path: &'static str,
    /// True if SIGHUP applies a new value; otherwise it needs a restart.
    pub online: bool,
    /// The effect of the setting, with unit and default, as shown in the example file.
    pub help: &'static str,
}

const fn online(path: &'static str, help: &'static str) -> Key {
    Key { path, online: true, help }
}

const fn restart(path: &'static str, help: &'static str) -> Key {
    Key { path, online: false, help }
}

/// Every setting, in the order of the example file.
pub const KEYS: &[Key] = &[
    online(
        "memory",
        "All memory of the cache: items, index, queues, connection buffers. A size, as in \"512MiB\" or \"1.5GiB\".\n\
         \"auto\": a quarter of the machine's (or the container's) memory, at most 1GiB. Default \"auto\".",
    ),
    restart(
        "max_memory",
        "How far `memory` may be raised while serving: so much address space is reserved, and no memory. At most 256GiB.\n\
         \"auto\": what the machine (or the container) has. Default \"auto\".",
    ),
    restart(
        "threads",
        "Worker threads. \"auto\": one for each processor the process may use. Default \"auto\".",
    ),
    restart("pin_threads", "Whether each worker stays on one processor. Default false."),
    online(
        "busy_poll_micros",
        "For so many microseconds after there was work a worker looks for more before it sleeps. Saves the time of\n\
         waking up, which on virtual machines can exceed that of answering, and costs processor time. Use it only where\n\
         workers have processors for themselves; 50 is much. Default 0 (sleeps at once).",
    ),
    restart(
        "huge_pages",
        "Whether item memory asks the kernel for huge pages, which make lookups in large caches faster. Default true.",
    ),
    restart(
        "shared_memory",
        "A folder in memory, as in \"/dev/shm/millpond\", for what shall outlive the process: the next start takes over what\n\
         this one held, however it ended. One server at a time. Default \"\" (a restart begins with an empty cache).",
    ),
    restart(
        "allow_remote",
        "Whether clients on other machines may connect without saying who they are: whoever can connect can then read,\n\
         write and flush. Default false: a listener that is not on loopback or a unix socket needs [[user]] with passwords.",
    ),
    restart("listener.name", "The listener's name in logs and metrics."),
    restart(
        "listener.address",
        "\"tcp://IP:PORT\" or \"unix:///PATH\". Default \"tcp://127.0.0.1:11211\". Port 0 lets the kernel choose one.",
    ),
    restart("listener.mode", "Permissions of a unix socket, in octal. Default \"0700\"."),
    restart(
        "listener.pool",
        "The pool that clients of this listener read and write, where no tenant is named. Default \"default\".",
    ),
    restart(
        "listener.tenant",
        "The tenant that clients of this listener are, which has the pool. Default \"\": the one called as the pool, or, where there\n\
         is none, one without limits.",
    ),
    restart(
        "listener.tenants",
        "Other tenants that its clients may turn to by SELECT with one of their databases; \"*\" is all. Default [] (none).",
    ),
    restart(
        "listener.by_prefix",
        "Whether a key that begins with a prefix of one of those tenants is that tenant's, and all others are of the client's own\n\
         (docs/tenants.md). Default false.",
    ),
    restart(
        "listener.protocol",
        "What is spoken: \"auto\" (all of what follows, told by the first request of a connection, docs/resp.md), \"resp\" or\n\
         \"redis\" (that of Redis, versions 2 and 3), \"memcached\" (text, meta and binary), \"memcached-text\" or\n\
         \"memcached-binary\". memcached has deprecated the binary protocol. Default \"auto\".",
    ),
    restart(
        "listener.auth",
        "Whether its clients must authenticate before they may do anything. false: they need not, and may do everything as its\n\
         tenant, whatever users there are. \"auto\": if there is any [[user]], but for what \"default\" may without a password.\n\
         Default \"auto\".",
    ),
    restart(
        "listener.optional",
        "Whether the server starts without this listener, with a warning, if another program has its address; one listener at\n\
         least must be left. Default false; true for the two that there are when none is configured.",
    ),
    online(
        "listener.tls_certificate",
        "For TLS: a file in PEM with the server's certificate and those that lead to its root. Read again, as the files below,\n\
         on SIGHUP; connections stay, and new ones get the new certificate (docs/tls.md). Default \"\" (no TLS).",
    ),
    online("listener.tls_key", "A file in PEM with the certificate's private key. Default \"\"."),
    online(
        "listener.tls_client_ca",
        "For mutual TLS: a file in PEM with the roots of clients' certificates. Default \"\" (clients are not asked for one).",
    ),
    online(
        "listener.tls_client_auth",
        "Whether a client must have a certificate where it is asked for one: \"required\" or \"optional\". Default \"required\".",
    ),
    online(
        "listener.tls_min_version",
        "The oldest version of TLS that is spoken: \"1.2\" or \"1.3\". Default \"1.2\".",
    ),
    restart("pool.name", "The pool's name in listeners, logs and metrics."),
    online(
        "pool.limit",
        "The most the pool may hold, slack included. \"auto\": whatever is free. Default \"auto\".",
    ),
    online(
        "pool.reserve",
        "Memory that other pools do not take from it. Beyond that they share what there is (docs/tenants.md). Default 0.",
    ),
    online(
        "pool.policy",
        "Which items leave when it is full: \"s3-fifo\", \"sieve\", \"lru\", \"lru+mid\", \"2q\", \"tinylfu\", \"w-tinylfu\" or\n\
         \"arc\"; with parameters as in \"lru:30\" (docs/policies.md). A change queues all items anew, on the maintenance thread; it is\n\
         refused if size classes would take over half of the memory (2 to 11 KB each, by policy). Default \"s3-fifo\".",
    ),
    online(
        "pool.rebalance",
        "How its size classes trade slabs, about once a second: \"base\" (only for classes whose allocations fail),\n\
         \"tail-age\", \"hits-per-slab\", \"marginal-hits\", \"free-memory\" or \"random\" (docs/rebalancing.md). Default \"base\".",
    ),
    restart("pool.own_keys", "Whether the pool's keys are apart from those of other pools. Default true."),
    online(
        "pool.classes",
        "Whether its size classes stay as they are (\"fixed\") or follow the sizes of its items (\"tuned\"), which saves most of\n\
         what items leave of their chunks (docs/size-classes.md); the settings below are then those that it begins with, and\n\
         bound them. Default \"fixed\".",
    ),
    restart("pool.class_factor", "How much larger each size class is than the one before. Default 1.25."),
    restart("pool.class_min_bytes", "The smallest size class. Default 64, which is also the least."),
    restart(
        "pool.class_max_bytes",
        "The largest size class, which bounds an item with its header and key. Default 4MiB, which is also the most.",
    ),
    restart(
        "pool.class_sizes_bytes",
        "The size classes one by one, ascending; replaces factor, min and max. Default [] (not used).",
    ),
    online(
        "tenant.name",
        "The tenant's name in listeners, logs and metrics. Tenants may come and go (docs/tenants.md).",
    ),
    restart(
        "tenant.pool",
        "The pool that has its items; tenants that name one pool share its memory and its keys. Default \"\": the pool of the\n\
         tenant's name, which is made for it where there is no such [[pool]].",
    ),
    online(
        "tenant.limit",
        "The most that the pool which is made for it may hold, slack included. \"auto\": whatever is free. Default \"auto\".",
    ),
    online(
        "tenant.reserve",
        "Memory that others do not take from that pool. What it does not use of that, others may use meanwhile. Default 0.",
    ),
    online(
        "tenant.weight",
        "How much a worker does for it in a round, and how much of the memory beyond the reserves is its pool's, against others that\n\
         want it: 1 to 100. Default 1.",
    ),
    online("tenant.databases", "The databases, from 1, under which SELECT finds it. Default [] (none)."),
    online(
        "tenant.prefixes",
        "What its keys begin with, for listeners with by_prefix; the longest that fits a key decides. Default [] (none).",
    ),
    online(
        "tenant.max_connections",
        "Its connections at a time. One more is refused, as by limits.max_connections. 0: as many as there may be. Default 0.",
    ),
    online(
        "tenant.operations_per_sec",
        "Requests that are answered in a second, each key of a retrieval as one. Above that its clients wait; nothing is refused.\n\
         0: as many as come. Default 0.",
    ),
    online(
        "tenant.in_bytes_per_sec",
        "Bytes that are received from its clients in a second. 0: as many as come. Default 0.",
    ),
    online(
        "tenant.out_bytes_per_sec",
        "Bytes that are sent to its clients in a second. 0: as many as go. Default 0.",
    ),
    online(
        "tenant.burst_millis",
        "How much of its rates it may save up, as what comes to it in so many milliseconds, 1 to 3600000. Default 1000.",
    ),
    online(
        "user.name",
        "What the user is called in AUTH (docs/security.md). Without any [[user]] every client may do everything; with some, who has\n\
         not said who it is may do what \"default\" may, and nothing where there is no user of that name.",
    ),
    online(
        "user.password_hash",
        "\"sha256:\" and the SHA-256 of its password, as `millpond hash-password` makes it. Default \"\": rules says by what it is known.",
    ),
    online("user.tenant", "The tenant that it is, whatever the listener. Default \"\": the listener's."),
    online(
        "user.tenants",
        "Other tenants that it may turn to by SELECT; \"*\" is all. Default []: those of the listener, where it has no tenant either.",
    ),
    online(
        "user.rules",
        "What it may do, in the words of Redis's ACLs; for memcached's commands docs/security.md says which. Default \"allkeys allcommands\".",
    ),
    online(
        "limits.max_connections",
        "Connections at a time, over all listeners. One more is told \"ERROR Too many open connections\" and closed.\n\
         Default 4096.",
    ),
    online(
        "limits.max_line_bytes",
        "The longest command line, other than of a retrieval. A longer one is answered \"CLIENT_ERROR line too long\" and\n\
         the connection is closed. Default 2KiB.",
    ),
    online(
        "limits.max_get_line_bytes",
        "The longest command line of get, gets, gat and gats. A longer one is treated in the same way. Default 1MiB.",
    ),
    online(
        "limits.max_get_keys",
        "The most keys in one retrieval. More are answered \"CLIENT_ERROR too many keys\". Default 65536.",
    ),
    online(
        "limits.max_request_bytes",
        "The longest request of RESP that is kept while it comes, and the most that a transaction keeps. A longer one is dropped and\n\
         answered with an error. A value that is being set does not count: it is received into its item. Default 16MiB.",
    ),
    online(
        "limits.max_tracked_keys",
        "The most copies of keys that clients have after CLIENT TRACKING, over all of them. One more, and the client of another\n\
         is told to forget that. A copy takes its key and 96 bytes. Default 1000000.",
    ),
    online(
        "limits.max_item_bytes",
        "The largest item, counted as memcached does for its -I: the key, the value and 59 bytes, or 63 with client flags.\n\
         A larger one is answered \"SERVER_ERROR object too large for cache\". Default 1MiB; at most 4MiB.",
    ),
    online(
        "limits.skip_refused_data",
        "Whether the data behind a storage command is skipped when its line was refused. memcached reads it as commands,\n\
         which a client that does not check its keys can be tricked with. Default false, as memcached.",
    ),
    online(
        "limits.max_output_buffer_bytes",
        "Unsent responses of one connection above which its requests wait until it reads. Default 1MiB.",
    ),
    online(
        "limits.max_connection_memory_bytes",
        "Buffers of all connections together. A request that would need more is answered with SERVER_ERROR out of\n\
         memory. \"auto\": an eighth of `memory`, at least 16MiB. Default \"auto\".",
    ),
    online(
        "limits.max_requests_per_turn",
        "Pipelined requests of one connection that are answered before the others get their turn. Default 256.",
    ),
    online(
        "limits.idle_timeout_secs",
        "Seconds without a request after which a connection is closed. 0: never. Default 0.",
    ),
    online(
        "limits.stall_timeout_secs",
        "Seconds without progress in the middle of a request, or with responses the client does not take, after which\n\
         a connection is closed. 0: never. Default 60.",
    ),
    online(
        "limits.handshake_timeout_secs",
        "Seconds that a client has for the handshake of TLS. 0: for as long as it likes. Default 10.",
    ),
    online(
        "limits.drain_timeout_secs",
        "Seconds that clients are given to take their last responses when the server stops. Default 5.",
    ),
    restart(
        "admin.enabled",
        "Whether the HTTP server with /metrics, /healthz, /stats.json, /hotkeys.json and /curves.json runs. Default true.",
    ),
    restart(
        "admin.address",
        "Where it listens, \"tcp://IP:PORT\". \"auto\": \"tcp://127.0.0.1:11212\"; if another program has that, the server goes on\n\
         without /metrics and the rest, and warns. Default \"auto\".",
    ),
    online(
        "admin.hosts",
        "Names and addresses besides its own under which it may be asked for, as in [\"cache-1.example\"]; others are refused, so\n\
         that no page in a browser can read it by a name that leads here. \"*\" is any. Default [].",
    ),
    online(
        "admin.token",
        "A token that operators must show, as in `Authorization: Bearer TOKEN` or `millpond --token` (docs/security.md), unless they\n\
         have a certificate. At least 16 bytes. Default \"\" (none is asked for).",
    ),
    online(
        "admin.tokens_file",
        "A file with further tokens, one a line, # before comments; read again on SIGHUP. Default \"\" (none).",
    ),
    online(
        "admin.tls_certificate",
        "For TLS: a file in PEM with the server's certificate and those that lead to its root. Read again, as the files below,\n\
         on SIGHUP; connections stay, and new ones get the new certificate (docs/tls.md). Default \"\" (no TLS).",
    ),
    online("admin.tls_key", "A file in PEM with the certificate's private key. Default \"\"."),
    online(
        "admin.tls_client_ca",
        "For mutual TLS: a file in PEM with the roots of clients' certificates. Default \"\" (clients are not asked for one).",
    ),
    online(
        "admin.tls_client_auth",
        "Whether a client must have a certificate where it is asked for one: \"required\" or \"optional\". Default \"required\".",
    ),
    online(
        "admin.tls_min_version",
        "The oldest version of TLS that is spoken: \"1.2\" or \"1.3\". Default \"1.2\".",
    ),
    online(
        "watch.latency_one_in",
        "One call of the engine in so many is timed: find, allocate, insert and remove, shown as percentiles in /metrics and\n\
         /stats.json. 0: none. Default 0; 1000 costs about 1 %.",
    ),
    online(
        "watch.slow_log_micros",
        "A request of RESP that takes at least so many microseconds is kept for SLOWLOG GET. 0: every one. -1: none.\n\
         Below 1000 lookups are no longer gathered, so that each can be timed, which costs speed. Default 10000.",
    ),
    online("watch.slow_log_entries", "How many requests the slow log keeps, at most 65536. Default 128."),
    online(
        "watch.latency_monitor_millis",
        "A command of RESP that takes at least so many milliseconds is kept as an event for LATENCY HISTORY. 0: none is. Default 0.",
    ),
    online(
        "watch.hot_keys",
        "How many hot keys are kept of each pool, at most 1024, shown by `stats hotkeys` and in /hotkeys.json. All pools take a\n\
         64th of the memory at most for this and for curves: of many, the first are looked at. 0: none are looked for. Default 16.",
    ),
    online(
        "watch.hot_keys_one_in",
        "One find in so many is looked at for hot keys, at least 1. Default 1000.",
    ),
    online(
        "watch.curve_keys",
        "How many keys of each pool are followed to learn its miss-ratio curve, 64 to 1048576, shown in /curves.json: what it would\n\
         miss with less memory and with more (docs/curves.md). 2048 take 270 KiB a pool. 0: nothing is learnt. Default 2048.",
    ),
    online(
        "watch.curve_one_in",
        "Of all keys at most one in so many is followed for that, at least 1. Default 64.",
    ),
    online(
        "watch.trace_file",
        "A file to which the events of a sample of keys are written, for `millpond bench replay` (docs/watching.md). It is\n\
         overwritten, and grows for as long as this is set. Default \"\" (none).",
    ),
    online(
        "watch.trace_one_in",
        "The events of one key in so many are written there, at least 1. Default 1000.",
    ),
    online(
        "watch.request_log",
        "A file to which the requests for a sample of keys are written, for `millpond bench replay` and `curve` (docs/watching.md). It is\n\
         added to, and opened anew on SIGHUP. Default \"\" (none).",
    ),
    online(
        "watch.request_log_one_in",
        "The requests for one key in so many are written there, at least 1. Default 100.",
    ),
    online(
        "watch.request_log_plain_keys",
        "Whether keys are written there as they are. Default false: as numbers, by which nobody can tell the keys.",
    ),
    online(
        "watch.request_log_max_bytes",
        "A log of requests of so many bytes is put aside under its name with \".1\", in place of the one before. Default 256MiB.",
    ),
    online(
        "monitor.mode",
        "What is watched, so that the cache gives memory back when others run short (docs/memory-monitor.md): \"off\",\n\
         \"free-memory\" (of the machine), \"resident-memory\" (of this process) or \"cgroup\". Default \"off\".",
    ),
    online("monitor.interval_millis", "How often, in milliseconds. Default 1000."),
    online(
        "monitor.lower_bytes",
        "Below so much available memory the cache gives back; below so much resident memory it takes back. Default 10GiB.",
    ),
    online(
        "monitor.upper_bytes",
        "Above so much available memory the cache takes back; above so much resident memory it gives back. Default 15GiB.",
    ),
    online(
        "monitor.give_percent",
        "How much is given back at once, in percent of what lies between lower and upper. Default 5.",
    ),
    online(
        "monitor.take_percent",
        "How much is taken back at once, in percent of what lies between lower and upper. Default 5.",
    ),
    online("monitor.max_given_percent", "The most that is given back, in percent of `memory`. Default 20."),
    online(
        "monitor.take_window_secs",
        "Seconds over which the rate is measured at which memory gets short, by which taking back is slowed.\n\
         0: it is not slowed. Default 0.",
    ),
    online(
        "monitor.max_pressure_percent",
        "In mode \"cgroup\": memory is given back while tasks waited for memory for more than so many percent of the last ten\n\
         seconds (PSI). 0: pressure is not read. Default 10.0.",
    ),
    online(
        "telemetry.otlp_endpoint",
        "Where spans of a sample of turns go, by OTLP over HTTP, as \"http://127.0.0.1:4318\" (docs/watching.md); without a path it is /v1/traces\n\
         there. For a binary that was built with the feature `opentelemetry`. Default \"\" (none).",
    ),
    online(
        "telemetry.sample_one_in",
        "One turn of a connection in so many is traced, at random. 0: none. Default 1000.",
    ),
    online(
        "telemetry.slow_command_micros",
        "A command in such a turn that takes at least so many microseconds has a span of its own. 0: every one. Default 1000.",
    ),
    online("telemetry.service_name", "What the server calls itself in spans. Default \"millpond\"."),
    online(
        "telemetry.timeout_millis",
        "Milliseconds that sending some spans may take, 1 to 60000; then they are dropped. Default 2000.",
    ),
    online(
        "log.level",
        "What is logged to standard error: \"error\", \"warn\", \"info\", \"debug\" or \"trace\". Default \"info\".",
    ),
];

/// The sections that may be repeated.
pub(super) const LISTS: [&str; 4] = ["listener", "pool", "tenant", "user"];

/// Returns whether the setting called `path` is a size in bytes.
pub fn is_size(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    let ends = ["_bytes", "_bytes_per_sec"];
    ["memory", "max_memory", "limit", "reserve"].contains(&name) || ends.iter().any(|end| name.ends_with(end))
}

/// A size as a person writes it, if a text with a unit says exactly the same.
pub fn written_size(bytes: u64) -> Option<String> {
    let size = base::ByteSize::new(bytes);
    Some(size.to_string()).filter(|text| bytes >= 1024 && text.parse() == Ok(size))
}

/// Returns the setting called `path`, in which entries of lists may carry their name:
/// `pool.default.limit`.
pub fn find(path: &str) -> Option<&'static Key> {
    let plain = plain(path);
    KEYS.iter().find(|key| key.path == plain)
}

/// `path` without the name of an entry: `pool.limit` for `pool.default.limit`.
pub(super) fn plain(path: &str) -> String {
    match path.split('.').collect::<Vec<_>>().as_slice() {
        [list @ ("pool" | "listener" | "tenant" | "user"), .., key] => format!("{list}.{key}"),
        _ => path.to_owned(),
    }
}

/// The environment variable for a setting that is not part of a list.
pub fn environment_name(key: &Key) -> Option<String> {
    let in_list = key.path.split_once('.').is_some_and(|(section, _)| LISTS.contains(&section));
    (!in_list).then(|| format!("MILLPOND_{}", key.path.replace('.', "_").to_ascii_uppercase()))
}
