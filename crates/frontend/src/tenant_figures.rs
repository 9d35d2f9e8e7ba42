//! The figures of each tenant: for `/metrics`, `/stats.json` and `stats tenants`.

use std::sync::Arc;

use millpond::CacheStats;
use tenancy::metrics::{Counter, ListenerCounters};
use tenancy::{Directory, Tenant};

use crate::listener::ListenerState;
use crate::shared::Shared;

/// One of them, and how it is shown.
pub struct TenantFigure {
    /// In statistics.
    pub name: &'static str,
    /// In Prometheus, without the `_total` of a counter.
    pub metric: &'static str,
    /// The help text in Prometheus.
    pub help: &'static str,
    /// True if it never goes back.
    pub is_total: bool,
    /// Reads the figure.
    pub of: fn(&TenantFigures) -> u64,
}

/// Declares the figures: field, metric, whether it is a total, help.
macro_rules! figures {
    ($($field:ident, $metric:literal, $is_total:literal, $help:literal;)+) => {
        /// The figures of a tenant at some moment; totals are since the start.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct TenantFigures {
            /// The tenant's name.
            pub name: String,
            /// The name of its pool.
            pub pool: String,
            $(#[doc = $help] pub $field: u64,)+
        }

        /// All figures, in the order in which they are shown.
        pub const TENANT_FIGURES: &[TenantFigure] = &[$(TenantFigure {
            name: stringify!($field),
            metric: $metric,
            help: $help,
            is_total: $is_total,
            of: |tenant| tenant.$field,
        }),+];
    };
}

figures! {
    connections, "millpond_tenant_connections", false, "Connections that are the tenant's now.";
    connection_memory_bytes, "millpond_tenant_connection_memory_bytes", false, "Bytes of the memory for connections that those of the tenant hold.";
    requests, "millpond_tenant_requests", true, "Requests of the tenant answered; each key of a retrieval is one.";
    hits, "millpond_tenant_hits", true, "Keys that were looked up by the tenant and found.";
    misses, "millpond_tenant_misses", true, "Keys that were looked up by the tenant and not found.";
    sets, "millpond_tenant_sets", true, "Values that the tenant stored.";
    received_bytes, "millpond_tenant_received_bytes", true, "Bytes received from the tenant's clients.";
    sent_bytes, "millpond_tenant_sent_bytes", true, "Bytes sent to the tenant's clients.";
    throttled, "millpond_tenant_throttled", true, "Times that a connection had to wait because the tenant's rate was spent.";
    refused_connections, "millpond_tenant_refused_connections", true, "Connections refused because there were enough.";
    items, "millpond_tenant_items", false, "Items in the tenant's pool.";
    evictions, "millpond_tenant_evictions", true, "Items of the tenant's pool that had to leave.";
    memory_bytes, "millpond_tenant_memory_bytes", false, "Bytes of the slabs of the tenant's pool.";
    limit_bytes, "millpond_tenant_limit_bytes", false, "Limit of the tenant's pool; 0 where it has none.";
    reserve_bytes, "millpond_tenant_reserve_bytes", false, "Memory that others do not take from the tenant's pool.";
}

/// Returns the present figures of each tenant of the directory; `stats` are those of the cache.
pub fn tenants(shared: &Shared, directory: &Directory, stats: &CacheStats) -> Vec<TenantFigures> {
    let of = |tenant: &Arc<Tenant>| {
        let count = |counter| sum(&shared.listeners, tenant, |counters| counters.total(counter));
        let pool = stats.pools.iter().find(|pool| pool.id == tenant.pool.id);
        TenantFigures {
            name: tenant.name.clone(),
            pool: tenant.pool.name.clone(),
            connections: tenant.connections() as u64,
            connection_memory_bytes: tenant.connection_memory.bytes(),
            requests: count(Counter::Answered),
            hits: count(Counter::GetHits),
            misses: count(Counter::GetMisses),
            sets: count(Counter::Stored),
            received_bytes: count(Counter::ReceivedBytes),
            sent_bytes: count(Counter::SentBytes),
            throttled: count(Counter::PausedRate),
            refused_connections: count(Counter::RefusedConnection),
            items: pool.map_or(0, |pool| pool.sum(|class| class.items)),
            evictions: pool.map_or(0, |pool| pool.sum(|class| class.evictions)),
            memory_bytes: pool.map_or(0, |pool| pool.slab_bytes),
            limit_bytes: pool.and_then(|pool| pool.limit_bytes).unwrap_or(0),
            reserve_bytes: pool.map_or(0, |pool| pool.reserve_bytes),
        }
    };
    directory.tenants.iter().map(of).collect()
}

/// The sum of what `of` reads of the counters of a tenant's clients, over all listeners.
fn sum(listeners: &[Arc<ListenerState>], tenant: &Arc<Tenant>, of: impl Fn(&ListenerCounters) -> u64) -> u64 {
    let account = |listener: &Arc<ListenerState>| listener.accounts.account_of(tenant);
    listeners.iter().filter_map(account).map(|account| of(&account.counters)).sum()
}
