//! Those who share the server: what each may use, what it has used, and who is which.
//!
//! A connection is a tenant's at every moment. It begins as its listener's; a user may be
//! another's, and `SELECT` turns to another that the user, or without one the listener, names.
//! Where the listener goes by prefixes, it has single turns as the tenants of its keys ([`Route`]).
//! What it counts goes to its [`Account`]: one for each tenant at each listener, so that both can
//! be told apart at the price of one counter.
//!
//! Invariants:
//! 1. A tenant's pool is there for as long as a connection is the tenant's own: it is removed only
//!    once the tenant has left the directory, no connection can join it ([`Tenant::open`]), and
//!    none is left. A turn by prefix does not keep it: for such a turn a pool that goes is an empty
//!    one.
//! 2. A listener's own tenant is never removed while the server runs.

mod accounts;
mod bucket;
mod departing;
mod details;
mod pause;
mod prefixes;
mod route;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::TenantSettings;

pub(crate) use self::accounts::{Account, Accounts};
use self::bucket::{Bucket, Rate};
pub(crate) use self::departing::Departing;
pub(crate) use self::details::Counts;
use self::details::Details;
pub(crate) use self::pause::{Pause, Paused};
use self::prefixes::Prefixes;
pub(crate) use self::route::{Route, go_on, may_turn_to};
use crate::budget::TenantHeld;
use crate::key_space::Pool;
use crate::latency::TenantLatencies;
use crate::spikes::Spikes;

/// One of those who share the server.
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) pool: Arc<Pool>,
    settings: Mutex<TenantSettings>,
    weight: AtomicU32,
    /// Most connections; 0 = as many as there may be.
    max_connections: AtomicUsize,
    /// Connections that are its now.
    connections: AtomicUsize,
    /// The memory of these connections and of those whose latest turn was this tenant's.
    pub(crate) held: TenantHeld,
    /// True if one of its buckets has a rate.
    is_limited: AtomicBool,
    operations: Bucket,
    received: Bucket,
    sent: Bucket,
    /// The pause of its clients.
    pub(crate) pause: Pause,
    /// Requests that took long.
    pub(crate) spikes: Spikes,
    /// How long its requests take.
    pub(crate) latencies: TenantLatencies,
    /// The requests counted by the prefixes of keys.
    pub(crate) details: Details,
    /// True once the tenant is being removed.
    is_leaving: AtomicBool,
}

/// The work of one turn of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) requests: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Bytes of requests that were not done with, and are parsed again.
    pub(crate) parsed_again: u64,
}

/// Why a connection cannot be a tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It has as many as it may have.
    Full,
    /// It is being removed.
    Leaving,
}

impl Tenant {
    pub(crate) fn new(settings: &TenantSettings, pool: Arc<Pool>) -> Self {
        let tenant = Self {
            name: settings.name.clone(),
            pool,
            settings: Mutex::new(settings.clone()),
            weight: AtomicU32::new(1),
            max_connections: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            held: TenantHeld::default(),
            is_limited: AtomicBool::new(false),
            operations: Bucket::default(),
            received: Bucket::default(),
            sent: Bucket::default(),
            pause: Pause::default(),
            spikes: Spikes::default(),
            latencies: TenantLatencies::default(),
            details: Details::default(),
            is_leaving: AtomicBool::new(false),
        };
        tenant.set(settings);
        tenant
    }

    /// Puts changed limits in force.
    pub(crate) fn set(&self, settings: &TenantSettings) {
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
    pub(crate) fn settings(&self) -> TenantSettings {
        self.lock().clone()
    }

    /// Returns whether `SELECT` finds the tenant under this number.
    pub(crate) fn has_database(&self, number: u32) -> bool {
        self.lock().databases.contains(&number)
    }

    fn lock(&self) -> MutexGuard<'_, TenantSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed).max(1)
    }

    /// Connections that are its now.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The most connections that it may have, where all together may have `most`.
    pub(crate) fn max_connections(&self, most: usize) -> usize {
        match self.max_connections.load(Ordering::Relaxed) {
            0 => most,
            own => own.min(most),
        }
    }

    /// Counts one more connection, if there may be one.
    ///
    /// # Errors
    /// Why there may not.
    pub(crate) fn open(&self) -> Result<(), Closed> {
        let most = self.max_connections(usize::MAX);
        let before = self.connections.fetch_add(1, Ordering::SeqCst);
        let refused = if self.is_leaving() {
            Closed::Leaving
        } else if before >= most {
            Closed::Full
        } else {
            return Ok(());
        };
        self.close();
        Err(refused)
    }

    /// Counts one connection less.
    pub(crate) fn close(&self) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether the tenant is being removed.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    /// Lets nobody join it any more.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
    }

    /// Returns whether any of the tenant's rates is limited. Reading this alone is cheap.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Takes what was spent out of its buckets. `now` in nanoseconds of the monotonic clock.
    pub(crate) fn charge(&self, now: u64, spent: Spent) {
        self.operations.take(now, spent.requests);
        self.received.take(now, spent.received);
        self.sent.take(now, spent.sent);
    }

    /// In how many nanoseconds all of its buckets have something in them; 0 = now.
    pub(crate) fn wait(&self, now: u64) -> u64 {
        self.operations.wait(now).max(self.received.wait(now)).max(self.sent.wait(now))
    }
}

/// All tenants, and the pools of the server, as they are at some moment.
#[derive(Default)]
pub(crate) struct Directory {
    pub(crate) tenants: Vec<Arc<Tenant>>,
    pub(crate) pools: Vec<Arc<Pool>>,
    prefixes: Prefixes,
}

impl Directory {
    pub(crate) fn new(tenants: Vec<Arc<Tenant>>, pools: Vec<Arc<Pool>>) -> Self {
        Self { prefixes: Prefixes::new(&tenants), tenants, pools }
    }

    pub(crate) fn tenant(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.name == name)
    }

    pub(crate) fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// The tenant with this database.
    pub(crate) fn with_database(&self, number: u32) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.has_database(number))
    }
}

/// Returns whether a list of names contains this name, or `*` for all.
pub(crate) fn names(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| listed == "*" || listed == name)
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
        assert_eq!((tenant.open(), tenant.open(), tenant.open()), (Ok(()), Ok(()), Err(Closed::Full)));
        tenant.close();
        tenant.leave();
        assert_eq!((tenant.open(), tenant.connections()), (Err(Closed::Leaving), 1));
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
