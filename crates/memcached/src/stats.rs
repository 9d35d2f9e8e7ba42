//! `stats` and its sub-commands, under the names that memcached's tools read.
//!
//! `stats items` and `stats slabs` are of the pool that the client is connected to. Everything else
//! is over all pools and listeners where there is one tenant. Where there are several, a client
//! sees what is its own tenant's, and of the process what tells nothing of what others do; all of
//! it is the operator's to see, in `/metrics` and `/stats.json`. `stats` has every name of
//! memcached 1.6.18, as programs look for them: what Millpond has no counterpart of, and so never
//! happens, is 0.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Part;
use config::{Address, Config, Protocol};
use frontend::curves::Outlook;
use frontend::instance::Instance as _;
use frontend::listener::ListenerState;
use frontend::output::Output;
use frontend::tenant_figures::TENANT_FIGURES;
use millpond::{ClassStats, PoolStats, ReadHandle};
use protocol::memcached::{Reply, Tokens, WireError, reply};
use tenancy::Counts;
use tenancy::metrics::Counter;
use tenancy::users::Identity;

use super::commands::Commands;
use super::wire::VERSION;

/// Most keys of `stats hotkeys`.
const MAX_HOT_KEYS: usize = 50;

/// Which counters `stats` shows under which names.
const COUNTERS: &[(&str, &[Counter])] = &[
    ("cmd_get", &[Counter::GetHits, Counter::GetMisses]),
    ("cmd_set", &[Counter::Stored, Counter::NotStored]),
    ("cmd_flush", &[Counter::Flushes]),
    ("cmd_touch", &[Counter::Touches]),
    ("cmd_meta", &[Counter::Meta]),
    ("get_hits", &[Counter::GetHits]),
    ("get_misses", &[Counter::GetMisses]),
    ("delete_misses", &[Counter::DeleteMisses]),
    ("delete_hits", &[Counter::DeleteHits]),
    ("incr_misses", &[Counter::IncrMisses]),
    ("incr_hits", &[Counter::IncrHits]),
    ("decr_misses", &[Counter::DecrMisses]),
    ("decr_hits", &[Counter::DecrHits]),
    ("cas_misses", &[Counter::CasMisses]),
    ("cas_hits", &[Counter::CasHits]),
    ("cas_badval", &[Counter::CasBadValue]),
    ("touch_hits", &[Counter::TouchHits]),
    ("touch_misses", &[Counter::TouchMisses]),
    ("store_too_large", &[Counter::RefusedSize]),
    ("store_no_memory", &[Counter::RefusedMemory]),
    ("auth_cmds", &[Counter::LoggedIn, Counter::RefusedPassword]),
    ("auth_errors", &[Counter::RefusedPassword]),
    ("listen_disabled_num", &[Counter::RefusedDescriptor]),
    ("read_buf_oom", &[Counter::ClosedMemory]),
    ("idle_kicks", &[Counter::ClosedIdle]),
    ("bytes_read", &[Counter::ReceivedBytes]),
    ("bytes_written", &[Counter::SentBytes]),
    ("conn_yields", &[Counter::PausedTurn]),
];

/// Statistics of memcached that have no meaning here: memcached has pools of response objects and
/// of read buffers, other queues and other ways to move slabs.
const NEVER: [&str; 32] = [
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes_free",
    "get_expired",
    "get_flushed",
    "time_in_listen_disabled_us",
    "slab_reassign_chunk_rescues",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_running",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "malloc_fails",
    "unexpected_napi_ids",
    "round_robin_fallback",
    "slab_global_page_pool",
    "evicted_active",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "lru_bumps_dropped",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
];

impl<'c> Commands<'_, 'c> {
    pub(super) fn stats(&mut self, arguments: Tokens<'_>, output: &mut Output<ReadHandle<'c>>) {
        output.compose(|out| match self.write_stats(arguments, out) {
            Ok(end) => out.extend_from_slice(end),
            Err(error) => out.extend_from_slice(error),
        });
    }

    /// Writes the lines that `arguments` ask for, and returns the one that ends them.
    ///
    /// # Errors
    /// What to answer in place of them.
    pub(super) fn write_stats(
        &mut self,
        mut arguments: Tokens<'_>,
        out: &mut Vec<u8>,
    ) -> Result<&'static [u8], &'static [u8]> {
        let (first, second, third) = (arguments.next(), arguments.next(), arguments.next());
        match (first, second) {
            (None, _) => self.general(out),
            (Some(b"settings"), _) => self.settings(out),
            (Some(b"items"), _) => self.items(out),
            (Some(b"slabs"), _) => self.slabs(out),
            (Some(b"conns"), _) => self.connections(out),
            (Some(b"sizes"), _) => self.sizes(out),
            (Some(b"tenants"), _) => self.tenants(out),
            (Some(b"hotkeys"), _) => self.hot_keys(out),
            (Some(b"curves"), _) => self.curves(out),
            (Some(b"reset"), _) => {
                self.shared.reset_counters(self.tenant);
                self.tenant.prefix_counts.clear(self.shared.cache.ledger());
                return Ok(Reply::Reset.as_bytes());
            }
            (Some(b"detail"), Some(switch @ (b"on" | b"off"))) => {
                self.tenant.prefix_counts.set(switch == b"on");
                return Ok(Reply::Ok.as_bytes());
            }
            (Some(b"detail"), Some(b"dump")) => self.details(out),
            // Keys are listed by `lru_crawler`; clients of this older command take an empty list
            // well.
            (Some(b"cachedump"), Some(_)) if third.is_some() => {}
            (Some(b"cachedump"), _) => return Err(b"CLIENT_ERROR bad command line\r\n"),
            (Some(b"detail"), _) => return Err(WireError::StatsDetailUsage.as_bytes()),
            _ => return Err(WireError::UnknownCommand.as_bytes()),
        }
        Ok(Reply::End.as_bytes())
    }

    fn general(&self, out: &mut Vec<u8>) {
        let shared = self.shared;
        let now = shared.clock.unix_secs();
        let number = reply::stat_number;
        number(out, "pid", u64::from(std::process::id()));
        number(out, "uptime", u64::from(now.saturating_sub(shared.started_secs)));
        number(out, "time", u64::from(now));
        reply::stat(out, "version", VERSION);
        reply::stat(out, "libevent", "none");
        number(out, "pointer_size", u64::from(usize::BITS));
        if !shared.has_several_tenants() {
            let (user, system) = frontend::machine::processor_seconds();
            reply::stat(out, "rusage_user", &user);
            reply::stat(out, "rusage_system", &system);
        }
        let seen = |counter: Counter| shared.seen_by(self.tenant, |counters| counters.since_reset(counter));
        number(out, "max_connections", self.max_connections());
        let open = shared.connections_seen_by(self.tenant) as u64;
        number(out, "curr_connections", open);
        number(out, "total_connections", seen(Counter::Accepted));
        let rejected = seen(Counter::RefusedConnection) + seen(Counter::RefusedDescriptor);
        number(out, "rejected_connections", rejected);
        number(out, "connection_structures", open);
        number(out, "reserved_fds", shared.listeners.len() as u64);
        number(out, "read_buf_bytes", self.tenant.connection_memory.bytes());
        for (name, counters) in COUNTERS {
            number(out, name, counters.iter().map(|counter| seen(*counter)).sum());
        }
        NEVER.iter().for_each(|name| number(out, name, 0));
        self.general_pools(out);
        if !shared.has_several_tenants() {
            self.general_engine(out);
        }
    }

    /// The most connections that the client and those of its kind may have.
    fn max_connections(&self) -> u64 {
        self.tenant.max_connections(self.settings.max_connections) as u64
    }

    /// Writes the totals of the pools that the client may see.
    fn general_pools(&self, out: &mut Vec<u8>) {
        let shared = self.shared;
        let pools = shared.pools_seen_by(self.tenant);
        let sum = |field: fn(&ClassStats) -> u64| pools.iter().map(|pool| pool.sum(field)).sum::<u64>();
        let number = reply::stat_number;
        number(out, "limit_maxbytes", shared.memory_limit_seen(&pools));
        number(out, "accepting_conns", u64::from(!shared.draining.load(Ordering::Relaxed)));
        number(out, "threads", shared.workers.len() as u64);
        number(out, "bytes", sum(|class| class.item_bytes));
        number(out, "curr_items", sum(|class| class.items));
        number(out, "total_items", sum(|class| class.inserts));
        number(out, "evictions", sum(|class| class.evictions));
        number(out, "reclaimed", sum(|class| class.expired));
        number(out, "expired_unfetched", sum(|class| class.expired_unread));
        number(out, "evicted_unfetched", sum(|class| class.evicted_unread));
        number(out, "crawler_reclaimed", sum(|class| class.reaped));
        number(out, "slabs_moved", pools.iter().map(|pool| pool.slabs_moved).sum());
        number(out, "slab_reassign_rescues", sum(|class| class.items_moved));
        number(out, "slab_reassign_evictions_nomem", sum(|class| class.move_evictions));
        number(out, "slab_reassign_busy_deletes", sum(|class| class.run_releases_aborted));
        if shared.has_several_tenants() {
            number(out, "memory_slabs", pools.iter().map(|pool| pool.slab_bytes).sum());
        }
    }

    /// Writes the statistics of the whole process.
    fn general_engine(&self, out: &mut Vec<u8>) {
        let shared = self.shared;
        let stats = shared.cache.stats();
        let number = reply::stat_number;
        number(out, "hash_power_level", u64::from(stats.index_capacity.max(1).ilog2()));
        number(out, "hash_bytes", shared.cache.ledger().part(Part::Index));
        number(out, "hash_is_expanding", u64::from(stats.index_growing));
        if let Some(status) = shared.monitoring.status() {
            number(out, "monitor_given_bytes", status.given_bytes);
        }
        for (part, bytes) in &stats.memory {
            number(out, &format!("memory_{}", part.name()), *bytes);
        }
    }

    /// The first address of TCP and the first of a unix socket, or of several tenants' listeners
    /// the client's own alone.
    fn addresses(&self, config: &Config) -> (Option<SocketAddr>, Option<String>) {
        let own = [self.info.listener.address.clone()];
        let all: Vec<_> = config.listeners.iter().map(|listener| listener.address.clone()).collect();
        let seen = if self.shared.has_several_tenants() { &own[..] } else { &all };
        let tcp = seen.iter().find_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        });
        let unix = seen.iter().find_map(|address| match address {
            Address::Unix(path) => Some(path.display().to_string()),
            Address::Tcp(_) => None,
        });
        (tcp, unix)
    }

    fn settings(&self, out: &mut Vec<u8>) {
        let config = self.shared.config();
        let (tcp, unix) = self.addresses(&config);
        let number = reply::stat_number;
        let limit = self.shared.memory_limit_seen(&self.shared.pools_seen_by(self.tenant));
        number(out, "maxbytes", limit);
        number(out, "maxconns", self.max_connections());
        number(out, "tcpport", tcp.map_or(0, |address| u64::from(address.port())));
        number(out, "udpport", 0);
        reply::stat(out, "inter", &tcp.map_or_else(|| "NULL".to_owned(), |address| address.ip().to_string()));
        reply::stat(out, "evictions", "on");
        reply::stat(out, "domain_socket", unix.as_deref().unwrap_or("NULL"));
        reply::stat(out, "shutdown_command", "no");
        if let Some(pool) = config.all_pools().iter().find(|pool| pool.name == self.pool.name) {
            reply::stat(out, "growth_factor", &format!("{:.2}", pool.class_factor));
            number(out, "chunk_size", pool.class_min_bytes.as_u64());
            reply::stat(out, "eviction_policy", &pool.policy.to_string());
        }
        reply::stat(out, "pool", &self.pool.name);
        number(out, "num_threads", self.shared.workers.len() as u64);
        number(out, "reqs_per_event", config.limits.max_requests_per_turn as u64);
        reply::stat(out, "cas_enabled", "yes");
        reply::stat(out, "binding_protocol", binding(self.info.listener.protocol));
        reply::stat(out, "auth_enabled_sasl", "no");
        reply::stat(out, "auth_enabled_ascii", if self.takes_passwords() { "yes" } else { "no" });
        number(out, "item_size_max", self.settings.protocol.max_item_bytes as u64);
        reply::stat(out, "maxconns_fast", "yes");
        reply::stat(out, "flush_enabled", "yes");
        reply::stat(out, "hash_algorithm", "xxh3");
        number(out, "idle_timeout", u64::from(self.settings.idle_timeout_secs));
        reply::stat(out, "track_sizes", "no");
    }

    /// Returns whether the first `set` of a new client of this listener must contain its user and
    /// password. memcached reports the name of the password file, or `no` if there is none.
    fn takes_passwords(&self) -> bool {
        let listener = &self.info.listener;
        let is_text = !matches!(listener.protocol, Protocol::MemcachedBinary | Protocol::Resp);
        is_text && Identity::new(&self.shared.users, listener.auth).takes_passwords()
    }

    /// The pool that the client is connected to.
    fn pool_stats(&self) -> Option<PoolStats> {
        self.shared.cache.pool_stats(self.pool.id).ok()
    }

    /// Writes the statistics of the client's own tenant. Only the operator sees other tenants.
    fn tenants(&self, out: &mut Vec<u8>) {
        for tenant in self.shared.observe().tenants.iter().filter(|tenant| tenant.name == self.tenant.name) {
            reply::stat(out, &format!("{}:pool", tenant.name), &tenant.pool);
            for figure in TENANT_FIGURES {
                reply::stat_number(out, &format!("{}:{}", tenant.name, figure.name), (figure.of)(tenant));
            }
        }
        let settings = self.tenant.settings();
        for (name, value) in [
            ("weight", u64::from(settings.weight)),
            ("max_connections", self.max_connections()),
            ("operations_per_sec", settings.operations_per_sec),
            ("in_bytes_per_sec", settings.in_bytes_per_sec.as_u64()),
            ("out_bytes_per_sec", settings.out_bytes_per_sec.as_u64()),
        ] {
            reply::stat_number(out, &format!("{}:{name}", settings.name), value);
        }
    }

    fn items(&self, out: &mut Vec<u8>) {
        for class in self.pool_stats().iter().flat_map(|pool| &pool.classes).filter(|class| class.items > 0) {
            let mut stat = |name: &str, value: u64| {
                reply::stat_number(out, &format!("items:{}:{name}", class_number(class.number)), value);
            };
            stat("number", class.items);
            // memcached has `hot`, `warm` and `cold` here, as the policy 2q has; others have queues
            // of other names.
            for queue in &class.queues {
                stat(&format!("number_{}", queue.name), queue.items);
                if let Some(age) = queue.age_secs {
                    stat(&format!("age_{}", queue.name), u64::from(age));
                }
                stat(&format!("hits_to_{}", queue.name), queue.hits);
            }
            if let Some(age) = class.tail_age_secs {
                stat("age", u64::from(age));
            }
            if let Some(age) = class.projected_tail_age_secs {
                stat("age_projected", u64::from(age));
            }
            stat("mem_requested", class.item_bytes);
            stat("mem_slack", class.slack_bytes());
            stat("evicted", class.evictions);
            stat("evicted_nonzero", class.evicted_expiring);
            stat("evicted_time", u64::from(class.last_evicted_idle_secs));
            stat("evicted_unfetched", class.evicted_unread);
            stat("expired_unfetched", class.expired_unread);
            stat("outofmemory", class.allocation_failures);
            stat("reclaimed", class.expired);
            stat("crawler_reclaimed", class.reaped);
            stat("ghosts", class.ghosts);
        }
    }

    fn slabs(&self, out: &mut Vec<u8>) {
        let pool = self.pool_stats();
        let classes = pool.iter().flat_map(|pool| &pool.classes).filter(|class| class.bytes > 0);
        let mut active = 0;
        for class in classes {
            active += 1;
            let mut stat = |name: &str, value: u64| {
                reply::stat_number(out, &format!("{}:{name}", class_number(class.number)), value);
            };
            stat("chunk_size", u64::from(class.chunk_bytes));
            // A page is what the class was given in one piece: a slab, or less.
            let pages = class.runs_added.saturating_sub(class.runs_released).max(1);
            stat("chunks_per_page", class.chunks / pages);
            stat("total_pages", pages);
            stat("total_chunks", class.chunks);
            stat("used_chunks", class.chunks.saturating_sub(class.free_chunks));
            stat("free_chunks", class.free_chunks);
            stat("mem_requested", class.item_bytes);
            stat("mem_wasted", class.slack_bytes() + class.unused_slab_bytes());
            stat("get_hits", class.hits);
            stat("cmd_set", class.inserts);
            stat("delete_hits", class.removed);
            stat("allocations", class.allocations);
            stat("pages_added", class.runs_added);
            stat("pages_released", class.runs_released);
            stat("page_releases_aborted", class.run_releases_aborted);
            stat("items_moved", class.items_moved);
            stat("move_evictions", class.move_evictions);
        }
        reply::stat_number(out, "active_slabs", active);
        reply::stat_number(out, "total_malloced", pool.map_or(0, |pool| pool.slab_bytes));
    }

    /// The keys of the pool that are found most often, the hottest first, if they are looked for.
    /// Keys are written as in listings.
    fn hot_keys(&self, out: &mut Vec<u8>) {
        let keys = self.shared.cache.hot_keys(self.pool.id, MAX_HOT_KEYS).unwrap_or_default();
        for (hot, rank) in keys.iter().zip(1..) {
            let mut stat = |name: &str, value: &str| {
                reply::stat(out, &format!("hotkeys:{rank}:{name}"), value);
            };
            stat("key", &reply::shown_key(&hot.key));
            stat("accesses", &hot.accesses.to_string());
            stat("percent", &format!("{:.2}", hot.share * 100.0));
        }
    }

    /// Writes the pool's miss-ratio curve, if the pool learns one.
    fn curves(&self, out: &mut Vec<u8>) {
        let Some(outlook) = self.pool_stats().and_then(|pool| Outlook::of(&self.shared.cache, &pool)) else {
            return;
        };
        let mut number = |name: &str, value: u64| reply::stat_number(out, &format!("curves:{name}"), value);
        number("samples", outlook.samples);
        number("lost", outlook.lost);
        number("keys", outlook.keys);
        number("bytes", outlook.bytes);
        number("present_bytes", outlook.present_bytes);
        let mut share = |name: &str, value: f64| {
            reply::stat(out, &format!("curves:{name}"), &format!("{value:.6}"));
        };
        share("rate", outlook.rate);
        share("error", outlook.error);
        for (size, miss_ratio) in outlook.miss_ratios {
            share(&format!("miss_ratio_{size}"), miss_ratio);
        }
    }

    /// Items by the size of their chunks: the classes are finer than memcached's steps of 32 bytes
    /// for small items, and need no counting that would have to be switched on.
    fn sizes(&self, out: &mut Vec<u8>) {
        for class in self.pool_stats().iter().flat_map(|pool| &pool.classes).filter(|class| class.items > 0) {
            reply::stat_number(out, &class.chunk_bytes.to_string(), class.items);
        }
    }

    /// Writes the counts by prefixes of keys.
    fn details(&self, out: &mut Vec<u8>) {
        for (prefix, counts) in self.tenant.prefix_counts.all() {
            let Counts { gets, hits, sets, deletes } = counts;
            let shown = reply::shown_key(&prefix);
            let line = format!("PREFIX {shown} get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.extend_from_slice(line.as_bytes());
        }
    }

    fn connections(&self, out: &mut Vec<u8>) {
        let wire = |address: &Address| match address {
            Address::Tcp(address) => format!("tcp:{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        };
        let is_seen = |listener: &&Arc<ListenerState>| {
            !self.shared.has_several_tenants() || Arc::ptr_eq(listener, &self.info.listener)
        };
        for listener in self.shared.listeners.iter().filter(is_seen) {
            let mut stat = |name: &str, value: &str| {
                let descriptor = listener.descriptor.load(Ordering::Relaxed);
                reply::stat(out, &format!("{descriptor}:{name}"), value);
            };
            stat("addr", &wire(&listener.address));
            stat("state", "conn_listening");
            stat("secs_since_last_cmd", "0");
        }
        for info in self.shared.registry.list().iter().filter(|info| info.named().tenant == self.tenant.name)
        {
            let mut stat = |name: &str, value: &str| {
                reply::stat(out, &format!("{}:{name}", info.descriptor), value);
            };
            stat("addr", &info.peer.to_string());
            stat("listen_addr", &wire(&info.listener.address));
            stat("state", info.activity().name());
            let idle = self.now_secs.saturating_sub(info.active_secs.load(Ordering::Relaxed));
            stat("secs_since_last_cmd", &idle.to_string());
        }
    }
}

/// memcached's name for what a listener speaks.
const fn binding(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Memcached | Protocol::Auto | Protocol::Resp => "auto-negotiate",
        Protocol::MemcachedText => "ascii",
        Protocol::MemcachedBinary => "binary",
    }
}

/// The number under which a size class is shown: memcached counts them from 1.
pub(super) fn class_number(number: u8) -> u16 {
    u16::from(number) + 1
}
