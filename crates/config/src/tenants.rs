//! Tenants: who shares the server, and how much each may use.

use std::collections::HashSet;

use base::ByteSize;
use serde::{Deserialize, Serialize};

use super::{Auto, Config, PoolSettings, UserSettings};

/// One of the tenants that share the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantSettings {
    /// Its name in listeners, users, logs and metrics.
    pub name: String,
    /// The pool of its items. Empty: the pool of its own name, which is created if there is no such
    /// `[[pool]]`.
    pub pool: String,
    /// The limit of the pool that is created for it. Auto: whatever is free.
    pub limit: Auto<ByteSize>,
    /// The memory that other pools cannot take from that pool.
    pub reserve: ByteSize,
    /// Its turns in a worker, and its part of the memory, against those of the others that want
    /// some.
    pub weight: u32,
    /// The databases under which `SELECT` finds it.
    pub databases: Vec<u32>,
    /// The prefixes of its keys, for listeners that route by prefix.
    pub prefixes: Vec<String>,
    /// Connections at a time; 0 = as many as there may be.
    pub max_connections: usize,
    /// Requests answered in a second, each key of a retrieval as one; 0 = as many as come.
    pub operations_per_sec: u64,
    /// Bytes received in a second; 0 = as many as come.
    pub in_bytes_per_sec: ByteSize,
    /// Bytes sent in a second; 0 = as many as go.
    pub out_bytes_per_sec: ByteSize,
    /// How much of its rates it may save up: the amount of this many milliseconds.
    pub burst_millis: u32,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            pool: String::new(),
            limit: Auto::Auto,
            reserve: ByteSize::new(0),
            weight: 1,
            databases: Vec::new(),
            prefixes: Vec::new(),
            max_connections: 0,
            operations_per_sec: 0,
            in_bytes_per_sec: ByteSize::new(0),
            out_bytes_per_sec: ByteSize::new(0),
            burst_millis: 1_000,
        }
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
