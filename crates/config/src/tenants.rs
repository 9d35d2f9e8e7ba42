//! Tenants: who shares the server, and how much each may use.

use std::collections::{BTreeSet, HashSet};

use base::ByteSize;

use super::error::hint;
use super::{Auto, Config, PoolSettings, UserSettings};

/// The highest database: more would be of no use, and `CONFIG GET databases` reports it.
const MAX_DATABASE: u32 = 65_535;
/// The longest prefix: as long as a key of memcached.
const MAX_PREFIX_BYTES: usize = 250;

settings! {
    /// One of the tenants that share the server.
    pub struct TenantSettings in "tenant." {
        /// The tenant's name in listeners, logs and metrics. Tenants can be added and removed while
        /// serving (docs/tenants.md).
        online name: String = String::new();

        /// The pool of its items; tenants that name one pool share its memory and its keys. Empty:
        /// a pool with the tenant's name, which is made for it if there is no such `[[pool]]`.
        restart pool: String = String::new();

        /// The most memory that the pool made for it may hold, slack included. "auto": all free
        /// memory.
        online limit: Auto<ByteSize> = Auto::Auto;

        /// Memory that others cannot take from that pool. Others may use the idle part meanwhile.
        online reserve: ByteSize = ByteSize::new(0);

        /// Its share of a worker's rounds, and of the memory beyond the reserves, relative to other
        /// tenants that want it.
        online weight: u32 = 1, in 1..=100;

        /// The cost of a miss to its clients, in microseconds, for `control.objective = "time"`.
        /// "auto": learnt, as the time from a miss until the key is stored (docs/control.md).
        online miss_cost_micros: Auto<u32> = Auto::Auto, in 1..;

        /// The databases, from 1, by which SELECT selects it.
        online databases: Vec<u32> = Vec::new();

        /// Prefixes of its keys, for listeners with `by_prefix`; the longest that matches a key
        /// decides.
        online prefixes: Vec<String> = Vec::new();

        /// Most connections at a time. A further one is rejected, as by `limits.max_connections`.
        /// 0: no limit of its own.
        online max_connections: usize = 0;

        /// Most requests answered per second, each key of a retrieval counting as one. Above that
        /// its clients wait; nothing is rejected. 0: no limit.
        online operations_per_sec: u64 = 0;

        /// Requests per second that it is promised, for a `control.policy` that knows promises
        /// (docs/control.md): such a policy gives it the memory with which its backend can carry
        /// them. 0: no promise.
        online min_operations_per_sec: u64 = 0;

        /// Misses per second that its backend carries, for such a policy. 0: the most that it had
        /// lately, of which half is forgotten in ten minutes.
        online backend_per_sec: u64 = 0;

        /// Most bytes received from its clients per second. 0: no limit.
        online in_bytes_per_sec: ByteSize = ByteSize::new(0);

        /// Most bytes sent to its clients per second. 0: no limit.
        online out_bytes_per_sec: ByteSize = ByteSize::new(0);

        /// How much of its rates it may save up, in milliseconds of that rate.
        online burst_millis: u32 = 1_000, in 1..=3_600_000;
    }
}

impl TenantSettings {
    /// The pool that has its items.
    pub fn pool(&self) -> &str {
        if self.pool.is_empty() { &self.name } else { &self.pool }
    }

    /// The settings by name.
    pub fn as_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// A tenant without limits in a pool of its name.
    pub fn unlimited(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

impl Config {
    /// Returns the defaults, with an entry in each list, so that every setting is shown.
    pub(super) fn with_examples() -> Self {
        let tenant = TenantSettings { name: "shop".to_owned(), ..TenantSettings::default() };
        let user = UserSettings { name: "alice".to_owned(), ..UserSettings::default() };
        Self { tenants: vec![tenant], users: vec![user], ..Self::default() }
    }

    /// All tenants: those that are configured, and one without limits for each pool that a listener
    /// names and no tenant is called after.
    pub fn all_tenants(&self) -> Vec<TenantSettings> {
        let mut tenants = self.tenants.clone();
        for listener in &self.listeners {
            let name = listener.tenant();
            if !tenants.iter().any(|tenant| tenant.name == name) {
                tenants.push(TenantSettings::unlimited(name));
            }
        }
        tenants
    }

    /// Removes the pool that exists when none is configured, if no tenant's items would be in it.
    pub(super) fn remove_idle_pool(&mut self) {
        let used = self.all_tenants();
        let pools = self.all_pools();
        let names: HashSet<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        // While some tenant's pool is missing, this one may be meant.
        if !used.iter().all(|tenant| names.contains(tenant.pool())) {
            return;
        }
        self.pools.retain(|pool| used.iter().any(|tenant| tenant.pool() == pool.name));
    }

    /// All pools: those that are configured, and those of tenants that have one made for them.
    pub fn all_pools(&self) -> Vec<PoolSettings> {
        let mut pools = self.pools.clone();
        let mut names: HashSet<&str> = self.pools.iter().map(|pool| pool.name.as_str()).collect();
        for tenant in &self.tenants {
            if tenant.pool.is_empty() && names.insert(&tenant.name) {
                let name = tenant.name.clone();
                let TenantSettings { limit, reserve, .. } = *tenant;
                pools.push(PoolSettings { name, limit, reserve, ..PoolSettings::default() });
            }
        }
        pools
    }

    /// The weight of a pool against others: that of all its tenants.
    pub fn pool_weight(&self, pool: &str) -> u32 {
        let tenants = self.tenants.iter().filter(|tenant| tenant.pool() == pool);
        tenants.map(|tenant| tenant.weight).sum::<u32>().max(1)
    }
}

/// Reports tenants that cannot work together with the other settings.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    let mut names = HashSet::new();
    let mut databases = HashSet::new();
    let mut prefixes = HashSet::new();
    let pools = config.all_pools();
    let pools = pools.iter().map(|pool| pool.name.as_str()).collect();
    for tenant in &config.tenants {
        let name = &tenant.name;
        let is_odd = |c: char| matches!(c, '/' | '*' | '"' | '\\') || c.is_control();
        if name.is_empty() || name.len() > 64 || name.contains(is_odd) {
            let shown = name.escape_debug();
            problems.push(format!(
                "tenant.name: `{shown}` is not 1 to 64 bytes without a slash, asterisk, quote, backslash or control character"
            ));
        }
        if !names.insert(name) {
            problems.push(format!("tenant.name: two tenants are called `{name}`; give each its own name"));
        }
        for database in &tenant.databases {
            if !(1..=MAX_DATABASE).contains(database) {
                problems.push(format!(
                    "tenant.{name}.databases: {database} is not between 1 and {MAX_DATABASE}; 0 is where a client begins"
                ));
            } else if !databases.insert(*database) {
                problems.push(format!("tenant.{name}.databases: {database} is another tenant's already"));
            }
        }
        for prefix in &tenant.prefixes {
            if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES {
                problems.push(format!(
                    "tenant.{name}.prefixes: `{prefix}` is not 1 to {MAX_PREFIX_BYTES} bytes long"
                ));
            } else if !prefixes.insert(prefix) {
                problems.push(format!("tenant.{name}.prefixes: `{prefix}` is there twice"));
            }
        }
        let (least, most) = (tenant.min_operations_per_sec, tenant.operations_per_sec);
        if most > 0 && least > most {
            problems.push(format!(
                "tenant.{name}.min_operations_per_sec: {least} is more than the {most} that operations_per_sec allows"
            ));
        }
        check_tenant_pool(config, tenant, &pools, problems);
    }
}

/// Checks the pool of a tenant; `all` are the names of all pools.
fn check_tenant_pool(
    config: &Config,
    tenant: &TenantSettings,
    all: &BTreeSet<&str>,
    problems: &mut Vec<String>,
) {
    let name = &tenant.name;
    if !all.contains(tenant.pool()) {
        let hint = hint(tenant.pool(), all.iter().copied(), "pools");
        problems.push(format!("tenant.{name}.pool: there is no pool `{}`; {hint}", tenant.pool()));
    }
    let is_configured = config.pools.iter().any(|pool| pool.name == tenant.pool());
    let is_made = !is_configured && tenant.pool.is_empty();
    for (key, is_set) in [("limit", tenant.limit != Auto::Auto), ("reserve", tenant.reserve.as_u64() > 0)] {
        if is_set && !is_made {
            problems.push(format!(
                "tenant.{name}.{key}: its pool is not made for it; set pool.{}.{key} instead",
                tenant.pool()
            ));
        }
    }
}
