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
        "Upper bound for `memory` while serving: this much address space is reserved, and no memory. At most\n\
         256GiB. \"auto\": the memory of the machine (or the container). Default \"auto\".",
    ),
    restart(
        "threads",
        "Worker threads. \"auto\": one for each processor the process may use. Default \"auto\".",
    ),
    restart("pin_threads", "Whether each worker stays on one processor. Default false."),
    online(
        "busy_poll_micros",
        "Microseconds for which a worker without work polls before it sleeps. Saves the time of waking up, which\n\
         on virtual machines can exceed that of answering, and costs processor time. Use it only if workers have\n\
         processors to themselves; 50 is much. Default 0 (sleeps at once).",
    ),
    restart(
        "huge_pages",
        "Whether item memory asks the kernel for huge pages, which make lookups in large caches faster. Default true.",
    ),
    restart(
        "shared_memory",
        "A folder in memory, as in \"/dev/shm/millpond\", for a cache that outlives the process: the next start\n\
         takes it over, however this process ended. One server at a time. Default \"\" (a restart begins with an empty\n\
         cache).",
    ),
    restart(
        "allow_remote",
        "Allow unauthenticated clients from other machines: anyone who can connect can then read, write and\n\
         flush. Default false: a listener that is not on loopback or a unix socket needs [[user]] with passwords.",
    ),
    restart("listener.name", "The listener's name in logs and metrics."),
    restart(
        "listener.address",
        "\"tcp://IP:PORT\" or \"unix:///PATH\". Default \"tcp://127.0.0.1:11211\". Port 0 lets the kernel choose one.",
    ),
    restart("listener.mode", "Permissions of a unix socket, in octal. Default \"0700\"."),
    restart(
        "listener.pool",
        "The pool that clients of this listener read and write, if no tenant is named. Default \"default\".",
    ),
    restart(
        "listener.tenant",
        "The tenant of this listener's clients, which has the pool. Default \"\": the tenant named like the pool,\n\
         or, if there is none, one without limits.",
    ),
    restart(
        "listener.tenants",
        "Other tenants that its clients may select by SELECT with one of their databases; \"*\" is all.\n\
         Default [] (none).",
    ),
    restart(
        "listener.by_prefix",
        "Whether keys that begin with a prefix of one of those tenants are routed to that tenant, and all\n\
         others to the client's own tenant (docs/tenants.md). Default false.",
    ),
    restart(
        "listener.protocol",
        "The protocol: \"auto\" (any of the following, detected from the first request of a connection,\n\
         docs/resp.md), \"resp\" or \"redis\" (Redis's, versions 2 and 3), \"memcached\" (text, meta and binary),\n\
         \"memcached-text\" or \"memcached-binary\". memcached has deprecated the binary protocol. Default \"auto\".",
    ),
    restart(
        "listener.auth",
        "Whether its clients must authenticate first. false: they need not, and may do everything as its\n\
         tenant, whatever users there are. \"auto\": if there is any [[user]], except for what \"default\" may do without a\n\
         password. Default \"auto\".",
    ),
    restart(
        "listener.optional",
        "Whether the server starts without this listener, with a warning, if another program has its address;\n\
         at least one listener must remain. Default false; true for the two default listeners.",
    ),
    online(
        "listener.tls_certificate",
        "For TLS: a PEM file with the server's certificate and its chain. SIGHUP reads it, and the files below,\n\
         again; open connections are kept, and new ones get the new certificate (docs/tls.md). Default \"\" (no TLS).",
    ),
    online("listener.tls_key", "A PEM file with the certificate's private key. Default \"\"."),
    online(
        "listener.tls_client_ca",
        "For mutual TLS: a PEM file with the roots of clients' certificates. Default \"\" (clients are not asked\n\
         for one).",
    ),
    online(
        "listener.tls_client_auth",
        "Whether clients that are asked for a certificate must have one: \"required\" or \"optional\".\n\
         Default \"required\".",
    ),
    online(
        "listener.tls_min_version",
        "The oldest accepted version of TLS: \"1.2\" or \"1.3\". Default \"1.2\".",
    ),
    restart("pool.name", "The pool's name in listeners, logs and metrics."),
    online(
        "pool.limit",
        "The most memory the pool may hold, slack included. \"auto\": all free memory. Default \"auto\".",
    ),
    online(
        "pool.reserve",
        "Memory that other pools cannot take from it. Pools share the memory beyond the reserves\n\
         (docs/tenants.md). Default 0.",
    ),
    online(
        "pool.policy",
        "The eviction policy: \"s3-fifo\", \"sieve\", \"lru\", \"lru+mid\", \"2q\", \"tinylfu\", \"w-tinylfu\" or \"arc\"; with\n\
         parameters as in \"lru:30\" (docs/policies.md). After a change the maintenance thread queues all items anew; a\n\
         change is rejected if size classes would take over half of the memory (2 to 11 KB each, by policy).\n\
         Default \"s3-fifo\".",
    ),
    online(
        "pool.rebalance",
        "How its size classes trade slabs, about once a second: \"base\" (only for classes whose allocations fail),\n\
         \"tail-age\", \"hits-per-slab\", \"marginal-hits\", \"free-memory\" or \"random\" (docs/rebalancing.md). Default \"base\".",
    ),
    restart("pool.own_keys", "Whether the pool has its own key space. Default true."),
    online(
        "pool.classes",
        "Whether its size classes are fixed (\"fixed\") or follow the sizes of its items (\"tuned\"), which saves\n\
         most of the slack in chunks (docs/size-classes.md); the settings below are then the initial classes and their\n\
         bounds. Default \"fixed\".",
    ),
    restart("pool.class_factor", "Ratio of each size class to the one before. Default 1.25."),
    restart("pool.class_min_bytes", "The smallest size class, at least 64. Default 64."),
    restart(
        "pool.class_max_bytes",
        "The largest size class, which bounds an item with its header and key. At most 4MiB. Default 4MiB.",
    ),
    restart(
        "pool.class_sizes_bytes",
        "A list of size classes, ascending; replaces factor, min and max. Default [] (not used).",
    ),
    online(
        "tenant.name",
        "The tenant's name in listeners, logs and metrics. Tenants can be added and removed while serving\n\
         (docs/tenants.md).",
    ),
    restart(
        "tenant.pool",
        "The pool of its items; tenants that name one pool share its memory and its keys. Default \"\": a pool\n\
         with the tenant's name, which is made for it if there is no such [[pool]].",
    ),
    online(
        "tenant.limit",
        "The most memory that the pool made for it may hold, slack included. \"auto\": all free memory.\n\
         Default \"auto\".",
    ),
    online(
        "tenant.reserve",
        "Memory that others cannot take from that pool. Others may use the idle part meanwhile. Default 0.",
    ),
    online(
        "tenant.weight",
        "Its share of a worker's rounds, and of the memory beyond the reserves, relative to other tenants that\n\
         want it: 1 to 100. Default 1.",
    ),
    online("tenant.databases", "The databases, from 1, by which SELECT selects it. Default [] (none)."),
    online(
        "tenant.prefixes",
        "Prefixes of its keys, for listeners with by_prefix; the longest that matches a key decides.\n\
         Default [] (none).",
    ),
    online(
        "tenant.max_connections",
        "Most connections at a time. A further one is rejected, as by limits.max_connections. 0: no limit of its\n\
         own. Default 0.",
    ),
    online(
        "tenant.operations_per_sec",
        "Most requests answered per second, each key of a retrieval counting as one. Above that its clients\n\
         wait; nothing is rejected. 0: no limit. Default 0.",
    ),
    online(
        "tenant.in_bytes_per_sec",
        "Most bytes received from its clients per second. 0: no limit. Default 0.",
    ),
    online("tenant.out_bytes_per_sec", "Most bytes sent to its clients per second. 0: no limit. Default 0."),
    online(
        "tenant.burst_millis",
        "How much of its rates it may save up, in milliseconds of that rate, 1 to 3600000. Default 1000.",
    ),
    online(
        "user.name",
        "The user's name in AUTH (docs/security.md). Without any [[user]] every client may do everything. With\n\
         users, an unauthenticated client may do what \"default\" may, and nothing if there is no such user.",
    ),
    online(
        "user.password_hash",
        "\"sha256:\" and the SHA-256 of its password, as `millpond hash-password` prints it. Default \"\": `rules`\n\
         sets its passwords.",
    ),
    online(
        "user.tenant",
        "Its tenant, whatever the listener. Not for a \"default\" without a password: such a client has its\n\
         listener's tenant. Default \"\": the listener's.",
    ),
    online(
        "user.tenants",
        "Other tenants that it may select by SELECT; \"*\" is all. Default []: those of the listener, if the user\n\
         has no tenant either.",
    ),
    online(
        "user.rules",
        "Its permissions, in the syntax of Redis's ACLs; docs/security.md gives their meaning for memcached's\n\
         commands. Default \"allkeys allcommands\".",
    ),
    online(
        "limits.max_connections",
        "Most connections at a time, over all listeners. A further one gets \"ERROR Too many open connections\"\n\
         and is closed. Default 4096.",
    ),
    online(
        "limits.max_line_bytes",
        "The longest command line, except for retrievals. A longer one gets \"CLIENT_ERROR line too long\" and the\n\
         connection is closed. Default 2KiB.",
    ),
    online(
        "limits.max_get_line_bytes",
        "The longest command line of get, gets, gat and gats. A longer one gets the same error. Default 1MiB.",
    ),
    online(
        "limits.max_get_keys",
        "The most keys in one retrieval. More get \"CLIENT_ERROR too many keys\". Default 65536.",
    ),
    online(
        "limits.max_request_bytes",
        "The longest RESP request that is buffered, and the most that a transaction buffers. A longer one is\n\
         dropped and gets an error. A value being set does not count: it is received into its item. Default 16MiB.",
    ),
    online(
        "limits.max_tracked_keys",
        "The most keys that are remembered for CLIENT TRACKING, over all clients. Beyond that, another\n\
         remembered key is invalidated. Each takes its key and 96 bytes. Default 1000000.",
    ),
    online(
        "limits.max_item_bytes",
        "The largest item, counted as memcached does for its -I: the key, the value and 59 bytes, or 63 with\n\
         client flags. A larger one gets \"SERVER_ERROR object too large for cache\". At most 4MiB. Default 1MiB.",
    ),
    online(
        "limits.skip_refused_data",
        "Whether the data after a rejected storage command is skipped. memcached reads it as commands, which an\n\
         attacker can exploit if a client does not check its keys. Default false, as memcached.",
    ),
    online(
        "limits.max_output_buffer_bytes",
        "Unsent responses of one connection above which its requests wait until the client reads. Default 1MiB.",
    ),
    online(
        "limits.max_connection_memory_bytes",
        "Buffers of all connections together. A request that would need more gets SERVER_ERROR out of memory.\n\
         \"auto\": an eighth of `memory`, at least 16MiB. Default \"auto\".",
    ),
    online(
        "limits.max_requests_per_turn",
        "Pipelined requests of one connection that are answered before other connections get their turn.\n\
         Default 256.",
    ),
    online(
        "limits.idle_timeout_secs",
        "Seconds without a request after which a connection is closed. 0: never. Default 0.",
    ),
    online(
        "limits.stall_timeout_secs",
        "Seconds without progress within a request, or with responses that the client does not read, after which\n\
         a connection is closed. 0: never. Default 60.",
    ),
    online(
        "limits.handshake_timeout_secs",
        "Seconds that a client has for the TLS handshake. 0: no limit. Default 10.",
    ),
    online(
        "limits.drain_timeout_secs",
        "Seconds that clients have to read their last responses when the server stops or their tenant is removed. Default 5.",
    ),
    restart(
        "admin.enabled",
        "Whether the HTTP server with /metrics, /healthz, /stats.json, /hotkeys.json and /curves.json runs. Default true.",
    ),
    restart(
        "admin.address",
        "Its address, \"tcp://IP:PORT\". \"auto\": \"tcp://127.0.0.1:11212\"; if another program has that, the server\n\
         warns and has no /metrics and other pages. Default \"auto\".",
    ),
    online(
        "admin.hosts",
        "Accepted host names and addresses besides its own, as in [\"cache-1.example\"]; others are rejected, so\n\
         that no web page can read it through a name that resolves to this server. \"*\" is any. Default [].",
    ),
    online(
        "admin.token",
        "A token that operators must send, as in `Authorization: Bearer TOKEN` or `millpond --token`\n\
         (docs/security.md), unless they have a certificate. At least 16 bytes. Default \"\" (no token is needed).",
    ),
    online(
        "admin.tokens_file",
        "A file with further tokens, one per line, # before comments; read again on SIGHUP. Default \"\" (none).",
    ),
    online(
        "admin.tls_certificate",
        "For TLS: a PEM file with the server's certificate and its chain. SIGHUP reads it, and the files below,\n\
         again; open connections are kept, and new ones get the new certificate (docs/tls.md). Default \"\" (no TLS).",
    ),
    online("admin.tls_key", "A PEM file with the certificate's private key. Default \"\"."),
    online(
        "admin.tls_client_ca",
        "For mutual TLS: a PEM file with the roots of clients' certificates. Default \"\" (clients are not asked\n\
         for one).",
    ),
    online(
        "admin.tls_client_auth",
        "Whether clients that are asked for a certificate must have one: \"required\" or \"optional\".\n\
         Default \"required\".",
    ),
    online(
        "admin.tls_min_version",
        "The oldest accepted version of TLS: \"1.2\" or \"1.3\". Default \"1.2\".",
    ),
    online(
        "watch.latency_one_in",
        "One call of the engine in this many is timed: find, allocate, insert and remove, shown as percentiles\n\
         in /metrics and /stats.json. 0: none. Default 0; 1000 costs about 1 %.",
    ),
    online(
        "watch.slow_log_micros",
        "A RESP request that takes at least this many microseconds is kept for SLOWLOG GET. 0: every request.\n\
         -1: none. Below 1000, lookups are no longer batched, so that each can be timed, which costs speed.\n\
         Default 10000.",
    ),
    online("watch.slow_log_entries", "Number of requests in the slow log, at most 65536. Default 128."),
    online(
        "watch.latency_monitor_millis",
        "A RESP command that takes at least this many milliseconds is kept as an event for LATENCY HISTORY. 0:\n\
         none. Default 0.",
    ),
    online(
        "watch.hot_keys",
        "Number of hot keys per pool, at most 1024, shown by `stats hotkeys` and in /hotkeys.json. Hot keys and\n\
         curves of all pools take at most a 64th of the memory; if pools are many, only the first have them. 0: none.\n\
         Default 16.",
    ),
    online(
        "watch.hot_keys_one_in",
        "One find in this many is sampled for hot keys, at least 1. Default 1000.",
    ),
    online(
        "watch.curve_keys",
        "Number of keys of each pool that are followed to learn its miss-ratio curve, 64 to 1048576, shown in\n\
         /curves.json: its misses with less memory and with more (docs/curves.md). 2048 take 270 KiB per pool. 0: no\n\
         curves. Default 2048.",
    ),
    online(
        "watch.curve_one_in",
        "At most one key in this many is followed for that, at least 1. Default 64.",
    ),
    online(
        "watch.trace_file",
        "A file for the events of a sample of keys, for `millpond bench replay` (docs/watching.md). It is\n\
         overwritten, and grows as long as this is set. Default \"\" (none).",
    ),
    online(
        "watch.trace_one_in",
        "The events of one key in this many are written there, at least 1. Default 1000.",
    ),
    online(
        "watch.request_log",
        "A file for the requests for a sample of keys, for `millpond bench replay` and `curve`\n\
         (docs/watching.md). It is appended to, and reopened on SIGHUP. Default \"\" (none).",
    ),
    online(
        "watch.request_log_one_in",
        "The requests for one key in this many are written there, at least 1. Default 100.",
    ),
    online(
        "watch.request_log_plain_keys",
        "Whether keys are written there in plain text; otherwise as numbers that do not reveal them.\n\
         Default false.",
    ),
    online(
        "watch.request_log_max_bytes",
        "Size at which the request log is renamed with \".1\" appended, replacing the previous one.\n\
         Default 256MiB.",
    ),
    online(
        "monitor.mode",
        "What is monitored, so that the cache gives memory back when the machine or container is short of it\n\
         (docs/memory-monitor.md): \"off\", \"free-memory\" (of the machine), \"resident-memory\" (of this process) or\n\
         \"cgroup\". Default \"off\".",
    ),
    online("monitor.interval_millis", "Milliseconds between two checks. Default 1000."),
    online(
        "monitor.lower_bytes",
        "Below this much available memory the cache gives memory back; below this much resident memory it\n\
         retakes memory. Default 10GiB.",
    ),
    online(
        "monitor.upper_bytes",
        "Above this much available memory the cache retakes memory; above this much resident memory it gives\n\
         memory back. Default 15GiB.",
    ),
    online(
        "monitor.give_percent",
        "Amount given back at once, in percent of the distance between lower and upper. Default 5.",
    ),
    online(
        "monitor.take_percent",
        "Amount retaken at once, in percent of the distance between lower and upper. Default 5.",
    ),
    online("monitor.max_given_percent", "The most memory given back, in percent of `memory`. Default 20."),
    online(
        "monitor.take_window_secs",
        "Seconds over which the rate of decline of memory is measured, by which retaking is slowed. 0: not\n\
         slowed. Default 0.",
    ),
    online(
        "monitor.max_pressure_percent",
        "In mode \"cgroup\": memory is given back while tasks waited for memory for more than this percentage of\n\
         the last ten seconds (PSI). 0: pressure is not read. Default 10.0.",
    ),
    online(
        "telemetry.otlp_endpoint",
        "Collector for spans of a sample of turns, by OTLP over HTTP, as \"http://127.0.0.1:4318\"\n\
         (docs/watching.md); without a path, /v1/traces there. Needs a binary built with the feature `opentelemetry`.\n\
         Default \"\" (none).",
    ),
    online(
        "telemetry.sample_one_in",
        "One turn of a connection in this many is traced, at random. 0: none. Default 1000.",
    ),
    online(
        "telemetry.slow_command_micros",
        "A command in such a turn that takes at least this many microseconds has its own span. 0: every command.\n\
         Default 1000.",
    ),
    online("telemetry.service_name", "The server's service name in spans. Default \"millpond\"."),
    online(
        "telemetry.timeout_millis",
        "Milliseconds that sending a batch of spans may take, 1 to 60000; then they are dropped. Default 2000.",
    ),
    online(
        "log.level",
        "Lowest level logged to standard error: \"error\", \"warn\", \"info\", \"debug\" or \"trace\". Default \"info\".",
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
