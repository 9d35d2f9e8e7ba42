//! Information about the server: `INFO`, `CONFIG GET`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use base::Part;
use config::Address;
use millpond::ClassStats;

use super::arguments::{is, subcommand};
use super::commands::Commands;
use super::settings::fitting;
use super::writer::{Outcome, Writer};
use protocol::resp::commands::{NUMBERS, name_of};
use tenancy::Tenant;
use tenancy::metrics::ERROR_CODES;
use tenancy::metrics::{CommandFigures, Counter, Ended, ListenerCounters};

/// The release of Redis whose behaviour is served; clients choose features by it.
pub(super) const REDIS_VERSION: &str = "7.0.15";

/// The sections in their order, and whether they come without being asked for.
const SECTIONS: [(&str, bool); 13] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
    ("keyspace", true),
];

/// Bytes as Redis writes them for people.
fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P"];
    let above = (1..=units.len()).rev().find(|power| bytes >= 1 << (10 * power));
    match above.and_then(|power| Some((power, units.get(power - 1)?))) {
        Some((power, unit)) => format!("{:.2}{unit}", bytes as f64 / (1_u64 << (10 * power)) as f64),
        None => format!("{bytes}B"),
    }
}

/// The percentiles that `latencystats` reports for each command.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

impl<'c> Commands<'_, 'c> {
    pub(super) fn info(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let wanted = args.get(1..).unwrap_or_default();
        let is_wanted = |section: &str, is_default: bool| {
            let names_it = |name: &&[u8]| {
                is(name, section)
                    || is(name, "all")
                    || is(name, "everything")
                    || (is_default && is(name, "default"))
            };
            (wanted.is_empty() && is_default) || wanted.iter().any(names_it)
        };
        let mut text = String::new();
        for (section, _) in
            SECTIONS.into_iter().filter(|(section, is_default)| is_wanted(section, *is_default))
        {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let title = match section {
                "cpu" => "CPU".to_owned(),
                name => {
                    name.get(..1).unwrap_or_default().to_ascii_uppercase() + name.get(1..).unwrap_or_default()
                }
            };
            let _ = write!(text, "# {title}\r\n");
            for (name, value) in self.section(section) {
                let _ = write!(text, "{name}:{value}\r\n");
            }
        }
        w.verbatim(text.as_bytes());
        Ok(())
    }

    fn section(&self, section: &str) -> Vec<(Cow<'static, str>, String)> {
        match section {
            "keyspace" => return self.key_space(),
            "commandstats" => return self.calls_seen(),
            "latencystats" => return self.times_seen(),
            "errorstats" => return self.errors_seen(),
            _ => {}
        }
        self.plain_section(section).into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    fn plain_section(&self, section: &str) -> Vec<(&'static str, String)> {
        let shared = self.shared;
        let uptime = shared.clock.unix_secs().saturating_sub(shared.started_secs);
        match section {
            "server" => vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("millpond_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("os", std::env::consts::OS.to_owned()),
                ("arch_bits", usize::BITS.to_string()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", self.port().to_string()),
                ("server_time_usec", (shared.clock.unix_nanos() / 1000).to_string()),
                ("uptime_in_seconds", uptime.to_string()),
                ("uptime_in_days", (uptime / 86_400).to_string()),
            ],
            "clients" => {
                let tenant = &self.account.tenant;
                let mut lines = vec![
                    ("connected_clients", shared.connections_seen_by(tenant).to_string()),
                    ("maxclients", tenant.max_connections(self.settings.max_connections).to_string()),
                    ("blocked_clients", "0".to_owned()),
                ];
                // Who tracks is counted over all tenants.
                if !shared.has_several_tenants() {
                    lines.push(("tracking_clients", shared.tracking.figures().0.to_string()));
                }
                lines
            }
            "memory" => self.memory_seen(),
            // Nothing is loaded and nothing saved; clients and proxies wait for the first before
            // they send anything.
            "persistence" => [
                "loading",
                "async_loading",
                "rdb_changes_since_last_save",
                "rdb_bgsave_in_progress",
                "aof_enabled",
                "aof_rewrite_in_progress",
            ]
            .map(|name| (name, "0".to_owned()))
            .to_vec(),
            "stats" => self.counts_seen(),
            "replication" => vec![
                ("role", "master".to_owned()),
                ("connected_slaves", "0".to_owned()),
                ("master_failover_state", "no-failover".to_owned()),
                ("master_repl_offset", "0".to_owned()),
            ],
            // The time of the process is that of all tenants.
            "cpu" if shared.has_several_tenants() => Vec::new(),
            "cpu" => {
                let (user, system) = frontend::machine::processor_seconds();
                vec![("used_cpu_sys", system), ("used_cpu_user", user)]
            }
            "cluster" => vec![("cluster_enabled", "0".to_owned())],
            _ => Vec::new(),
        }
    }

    fn memory_seen(&self) -> Vec<(&'static str, String)> {
        let ledger = self.shared.cache.ledger();
        let pools = self.shared.pools_seen_by(&self.account.tenant);
        let (mut used, mut items) = (ledger.total(), ledger.part(Part::Slabs));
        if self.shared.has_several_tenants() {
            items = pools.iter().map(|pool| pool.slab_bytes).sum();
            used = items;
        }
        let most = self.shared.memory_limit_seen(&pools);
        vec![
            ("used_memory", used.to_string()),
            ("used_memory_human", human(used)),
            ("used_memory_items", items.to_string()),
            ("maxmemory", most.to_string()),
            ("maxmemory_human", human(most)),
            ("maxmemory_policy", self.policy()),
        ]
    }

    fn counts_seen(&self) -> Vec<(&'static str, String)> {
        let pools = self.shared.pools_seen_by(&self.account.tenant);
        let sum =
            |field: fn(&ClassStats) -> u64| pools.iter().map(|pool| pool.sum(field)).sum::<u64>().to_string();
        let seen = |of: &dyn Fn(&ListenerCounters) -> u64| self.shared.seen_by(&self.account.tenant, of);
        let count = |counter| seen(&|counters| counters.since_reset(counter));
        let refused = count(Counter::RefusedConnection) + count(Counter::RefusedDescriptor);
        let mut lines = vec![
            ("total_connections_received", count(Counter::Accepted).to_string()),
            ("total_commands_processed", seen(&ListenerCounters::calls_since_reset).to_string()),
            ("total_net_input_bytes", count(Counter::ReceivedBytes).to_string()),
            ("total_net_output_bytes", count(Counter::SentBytes).to_string()),
            ("rejected_connections", refused.to_string()),
            ("expired_keys", sum(|class| class.expired)),
            ("evicted_keys", sum(|class| class.evictions)),
            ("keyspace_hits", count(Counter::GetHits).to_string()),
            ("keyspace_misses", count(Counter::GetMisses).to_string()),
            ("total_error_replies", seen(&|counters| errors(counters).sum()).to_string()),
        ];
        if !self.shared.has_several_tenants() {
            let (_, tracked) = self.shared.tracking.figures();
            lines.push(("tracking_total_keys", self.shared.tracking.tracked_keys().to_string()));
            lines.push(("tracking_total_items", tracked.to_string()));
        }
        lines
    }

    /// Returns the figures of commands that the client may see, by command number.
    pub(super) fn figures_seen(&self) -> Vec<CommandFigures> {
        let mut figures = vec![CommandFigures::default(); NUMBERS];
        self.shared.each_seen(&self.account.tenant, |counters| counters.add_to(&mut figures));
        figures
    }

    fn calls_seen(&self) -> Vec<(Cow<'static, str>, String)> {
        let line = |(number, figures): (usize, &CommandFigures)| {
            let (calls, failed) = (figures.calls(), figures.count(Ended::Failed));
            let rejected = figures.count(Ended::Rejected);
            if calls + rejected == 0 {
                return None;
            }
            let micros = figures.times.micros(calls);
            let each = micros as f64 / calls.max(1) as f64;
            let text = format!(
                "calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
            );
            Some((format!("cmdstat_{}", name_of(number)).into(), text))
        };
        self.figures_seen().iter().enumerate().filter_map(line).collect()
    }

    fn times_seen(&self) -> Vec<(Cow<'static, str>, String)> {
        let line = |(number, figures): (usize, &CommandFigures)| {
            if figures.times.timed() == 0 {
                return None;
            }
            let shown = |percent: f64| format!("p{percent}={:.3}", figures.times.percentile_micros(percent));
            let text = PERCENTILES.map(shown).join(",");
            Some((format!("latency_percentiles_usec_{}", name_of(number)).into(), text))
        };
        self.figures_seen().iter().enumerate().filter_map(line).collect()
    }

    fn errors_seen(&self) -> Vec<(Cow<'static, str>, String)> {
        let tenant = &self.account.tenant;
        let count = |code| self.shared.seen_by(tenant, |counters| counters.errors_since_reset(code));
        let line = |(code, name): (usize, &&str)| {
            let count = count(code);
            (count > 0).then(|| (format!("errorstat_{name}").into(), format!("count={count}")))
        };
        ERROR_CODES.iter().enumerate().filter_map(line).collect()
    }

    fn key_space(&self) -> Vec<(Cow<'static, str>, String)> {
        let line = |(number, tenant): (u32, Arc<Tenant>)| {
            let pool = self.shared.cache.pool_stats(tenant.pool.id);
            let items = pool.map_or(0, |pool| pool.sum(|class| class.items));
            (items > 0).then(|| (format!("db{number}").into(), format!("keys={items},expires=0,avg_ttl=0")))
        };
        self.databases().into_iter().filter_map(line).collect()
    }

    fn port(&self) -> u16 {
        match &self.info.listener.address {
            Address::Tcp(address) => address.port(),
            Address::Unix(_) => 0,
        }
    }

    /// The eviction policy in Redis's words: the nearest that it has.
    fn policy(&self) -> String {
        "allkeys-lru".to_owned()
    }

    pub(super) fn config(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let patterns = args.get(2..).unwrap_or_default();
        match subcommand(args) {
            "resetstat" => {
                self.shared.reset_counters(&self.account.tenant);
                w.ok();
            }
            "get" => {
                let mut found = self.all_settings();
                let shown = self.settings_shown().into_iter();
                found.extend(shown.map(|(name, value)| (name.to_owned(), value)));
                fitting(&mut found, patterns);
                w.map(found.len());
                for (name, value) in found {
                    w.bulk(name.as_bytes());
                    w.bulk(value.as_bytes());
                }
            }
            "set" => return self.config_set(patterns, w),
            "rewrite" => return self.config_rewrite(w),
            _ => w.help(args),
        }
        Ok(())
    }

    /// Returns values that are not settings here, under their names in Redis: they are what they
    /// are.
    pub(super) fn settings_shown(&self) -> Vec<(&'static str, String)> {
        vec![
            ("appendonly", "no".to_owned()),
            ("databases", self.database_count().to_string()),
            ("io-threads", self.shared.workers.len().to_string()),
            ("latency-tracking", "yes".to_owned()),
            ("latency-tracking-info-percentiles", PERCENTILES.map(|percent| percent.to_string()).join(" ")),
            ("maxmemory-policy", self.policy()),
            ("port", self.port().to_string()),
            ("requirepass", String::new()),
            ("save", String::new()),
        ]
    }
}

/// Returns the counts of each error since the last reset.
fn errors(counters: &ListenerCounters) -> impl Iterator<Item = u64> {
    (0..ERROR_CODES.len()).map(|code| counters.errors_since_reset(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_redis_writes_them() {
        let written = [0, 1023, 1024, 1_536_000, 64 << 20, 5 << 30, 3 << 40].map(human);
        assert_eq!(written, ["0B", "1023B", "1.00K", "1.46M", "64.00M", "5.00G", "3.00T"]);
    }
}
