//! A tenant of the server: its pool, its limits, and its usage.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::TenantSettings;

use crate::bucket::{Bucket, Rate};
use crate::budget::TenantHeld;
use crate::details::Details;
use crate::key_space::Pool;
use crate::latency::TenantLatencies;
use crate::pause::Pause;
use crate::spikes::Spikes;

/// A tenant of the server.
pub struct Tenant {
    /// The name in the configuration.
    pub name: String,
    /// The pool of its items.
    pub pool: Arc<Pool>,
    settings: Mutex<TenantSettings>,
    weight: AtomicU32,
    /// Most connections; 0 = as many as there may be.
    max_connections: AtomicUsize,
    /// Number of open connections that belong to the tenant.
    connections: AtomicUsize,
    /// The memory of the connections whose next turn is this tenant's, on all workers.
    pub connection_memory: TenantHeld,
    /// True if one of its buckets has a rate.
    is_limited: AtomicBool,
    operations: Bucket,
    received: Bucket,
    sent: Bucket,
    /// The pause of its clients.
    pub pause: Pause,
    /// Slow requests.
    pub spikes: Spikes,
    /// How long its requests take.
    pub latencies: TenantLatencies,
    /// The requests counted by the prefixes of keys.
    pub prefix_counts: Details,
    /// True once the tenant is being removed.
    is_being_removed: AtomicBool,
}

/// The work of one turn of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Requests, or keys of them, that were answered.
    pub requests: u64,
    /// Bytes that were received.
    pub received: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes of requests that were not done with, and are parsed again.
    pub parsed_again: u64,
}

/// The reason for which a tenant rejects a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The tenant has reached its limit of connections.
    LimitReached,
    /// The tenant is being removed.
    Removing,
}

impl Tenant {
    /// Creates a tenant with the limits of its settings.
    pub fn new(settings: &TenantSettings, pool: Arc<Pool>) -> Self {
        let tenant = Self {
            name: settings.name.clone(),
            pool,
            settings: Mutex::new(settings.clone()),
            weight: AtomicU32::new(1),
            max_connections: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            connection_memory: TenantHeld::default(),
            is_limited: AtomicBool::new(false),
            operations: Bucket::default(),
            received: Bucket::default(),
            sent: Bucket::default(),
            pause: Pause::default(),
            spikes: Spikes::default(),
            latencies: TenantLatencies::default(),
            prefix_counts: Details::default(),
            is_being_removed: AtomicBool::new(false),
        };
        tenant.set(settings);
        tenant
    }

    /// Puts changed limits in force.
    pub fn set(&self, settings: &TenantSettings) {
        let TenantSettings { operations_per_sec, in_bytes_per_sec, out_bytes_per_sec, .. } = settings;
        let burst_nanos = u64::from(settings.burst_millis) * 1_000_000;
        let rates = [*operations_per_sec, in_bytes_per_sec.as_u64(), out_bytes_per_sec.as_u64()];
        for (bucket, per_sec) in [&self.operations, &self.received, &self.sent].into_iter().zip(rates) {
            bucket.set_rate(Rate { per_sec, burst_nanos });
        }
        self.is_limited.store(rates.iter().any(|rate| *rate > 0), Ordering::Relaxed);
        self.weight.store(settings.weight, Ordering::Relaxed);
        self.max_connections.store(settings.max_connections, Ordering::Relaxed);
        *self.lock() = settings.clone();
    }

    /// The settings in force.
    pub fn settings(&self) -> TenantSettings {
        self.lock().clone()
    }

    /// Returns whether `SELECT` finds the tenant under this number.
    pub fn has_database(&self, number: u32) -> bool {
        self.lock().databases.contains(&number)
    }

    fn lock(&self) -> MutexGuard<'_, TenantSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its share of turns, in relation to others'.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed).max(1)
    }

    /// The number of open connections that belong to the tenant.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the limit of the tenant's connections, if the limit of the server is `most`.
    pub fn max_connections(&self, most: usize) -> usize {
        match self.max_connections.load(Ordering::Relaxed) {
            0 => most,
            own => own.min(most),
        }
    }

    /// Counts one more connection.
    ///
    /// # Errors
    /// [`Rejected`] if the tenant is at its limit or is being removed; nothing is counted then.
    pub fn admit_connection(&self) -> Result<(), Rejected> {
        let most = self.max_connections(usize::MAX);
        let before = self.connections.fetch_add(1, Ordering::SeqCst);
        let refused = if self.is_being_removed() {
            Rejected::Removing
        } else if before >= most {
            Rejected::LimitReached
        } else {
            return Ok(());
        };
        self.release_connection();
        Err(refused)
    }

    /// Counts one connection less.
    pub fn release_connection(&self) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether the tenant is being removed.
    pub fn is_being_removed(&self) -> bool {
        self.is_being_removed.load(Ordering::SeqCst)
    }

    /// Starts the removal of the tenant: no connection can join it any more.
    pub fn begin_removal(&self) {
        self.is_being_removed.store(true, Ordering::SeqCst);
    }

    /// Returns whether any of the tenant's rates is limited. Reading this alone is cheap.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Takes what was spent out of its buckets. `now` in nanoseconds of the monotonic clock.
    pub fn charge(&self, now: u64, spent: Spent) {
        self.operations.take(now, spent.requests);
        self.received.take(now, spent.received);
        self.sent.take(now, spent.sent);
    }

    /// The nanoseconds until none of its buckets is empty; 0 = none is empty now.
    pub fn wait(&self, now: u64) -> u64 {
        self.operations.wait(now).max(self.received.wait(now)).max(self.sent.wait(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(settings: &TenantSettings) -> Tenant {
        let cache = millpond::Cache::new(millpond::CacheConfig {
            memory: base::ByteSize::mib(16),
            ..millpond::CacheConfig::default()
        })
        .expect("a cache");
        let id = cache.add_pool(millpond::PoolConfig::default()).expect("a pool");
        Tenant::new(settings, Arc::new(Pool { name: "p".to_owned(), id, gate: Arc::default() }))
    }

    #[test]
    fn connections_are_limited_and_nobody_joins_who_leaves() {
        let tenant = tenant(&TenantSettings { max_connections: 2, ..TenantSettings::unlimited("a") });
        assert_eq!(
            (tenant.admit_connection(), tenant.admit_connection(), tenant.admit_connection()),
            (Ok(()), Ok(()), Err(Rejected::LimitReached))
        );
        tenant.release_connection();
        tenant.begin_removal();
        assert_eq!((tenant.admit_connection(), tenant.connections()), (Err(Rejected::Removing), 1));
    }

    #[test]
    fn the_emptiest_bucket_decides() {
        let limited = TenantSettings {
            operations_per_sec: 1_000,
            in_bytes_per_sec: base::ByteSize::new(1_000),
            ..TenantSettings::unlimited("a")
        };
        let tenant = tenant(&limited);
        assert!(tenant.is_limited());
        tenant.charge(0, Spent { requests: 10, received: 3_000, sent: 1 << 40, ..Spent::default() });
        assert_eq!(tenant.wait(0), 2_000_000_001, "three seconds' worth, of which one is the burst");
        tenant.set(&TenantSettings::unlimited("a"));
        assert!(!tenant.is_limited() && tenant.wait(0) == 0);
    }
}
