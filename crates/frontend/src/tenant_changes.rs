//! Tenants come, change and go while the server serves.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, Error, ErrorKind, TenantSettings};
use millpond::ErrorKind as EngineError;
use tenancy::key_space::Pool;
use tenancy::spikes::Event;
use tenancy::{Directory, Tenant};

use crate::shared::Shared;

/// The interval between checks whether a pool has been removed.
const LOOK: Duration = Duration::from_millis(10);
/// Longest wait for that, beyond the time that connections have to take their last responses; and
/// the most that counts of that time.
const BEYOND: Duration = Duration::from_secs(3);
const MOST_DRAINING: Duration = Duration::from_secs(30);

/// Brings the tenants to the state of `config`: new ones are created with their pools, the limits
/// of others changed, and those that are not in it removed. The connections of removed tenants are
/// closed once their output is sent; see [`bury`].
///
/// # Errors
/// If a pool cannot be created, such as one that is still being removed; the changes before that
/// stay.
pub fn apply(
    shared: &Shared,
    config: &Config,
    make_pool: impl Fn(&config::PoolSettings) -> Result<Arc<Pool>, Error>,
) -> Result<(), Error> {
    let present = shared.directory();
    let wanted = config.all_tenants();
    let mut pools: Vec<Arc<Pool>> = Vec::new();
    for settings in &config.all_pools() {
        let pool = match present.pool(&settings.name) {
            Some(pool) => Arc::clone(pool),
            None => {
                wait_until_gone(shared, &settings.name)?;
                make_pool(settings)?
            }
        };
        pools.push(pool);
    }
    let (stay, leave): (Vec<_>, Vec<_>) = present
        .tenants
        .iter()
        .cloned()
        .partition(|tenant| wanted.iter().any(|settings| settings.name == tenant.name));
    let mut tenants = stay;
    for settings in &wanted {
        match tenants.iter().find(|tenant| tenant.name == settings.name) {
            Some(tenant) => tenant.set(settings),
            None => tenants.push(make(&pools, settings)?),
        }
    }
    let directory = Directory::new(tenants, pools);
    leave.iter().for_each(|tenant| tenant.begin_removal());
    let unused = present.pools.iter().filter(|pool| directory.pool(&pool.name).is_none()).cloned();
    shared.departing().extend(leave, unused);
    shared.set_directory(directory);
    Ok(())
}

/// A tenant that comes back at once finds its former pool on the way out, for as long as its former
/// connections take to end. That is waited for, within limits.
///
/// # Errors
/// If it is still there.
fn wait_until_gone(shared: &Shared, pool: &str) -> Result<(), Error> {
    let draining = Duration::from_secs(shared.settings().drain_timeout_secs.into());
    let most = (draining.min(MOST_DRAINING) + BEYOND).as_millis() / LOOK.as_millis();
    for _ in 0..most {
        if shared.departing().pools.iter().all(|departing| departing.name != pool) {
            return Ok(());
        }
        bury(shared);
        base::thread::sleep(LOOK);
    }
    let context = format!(
        "pool {pool} cannot be made yet: the former pool of that name is being removed, and a client holds items of it; try again"
    );
    Err(Error::new(ErrorKind::Engine, context))
}

fn make(pools: &[Arc<Pool>], settings: &TenantSettings) -> Result<Arc<Tenant>, Error> {
    let pool = pools.iter().find(|pool| pool.name == settings.pool()).ok_or_else(|| {
        let context =
            format!("tenant {}: pool {} is there from the next start on", settings.name, settings.pool());
        Error::new(ErrorKind::Engine, context)
    })?;
    Ok(Arc::new(Tenant::new(settings, Arc::clone(pool))))
}

/// Removes tenants without connections that have left the directory, and pools that no tenant uses
/// any more.
pub fn bury(shared: &Shared) {
    let mut departing = shared.departing();
    departing.tenants.retain(|tenant| {
        if tenant.connections() > 0 {
            return true;
        }
        shared.listeners.iter().for_each(|listener| listener.accounts.forget(tenant, shared.cache.ledger()));
        for event in Event::ALL {
            tenant.spikes.forget(event, shared.cache.ledger());
        }
        tenant.prefix_counts.clear(shared.cache.ledger());
        tracing::info!(tenant = tenant.name, "A tenant was removed.");
        false
    });
    let pools_before = departing.pools.len();
    let in_use: Vec<Arc<Pool>> = departing.tenants.iter().map(|tenant| Arc::clone(&tenant.pool)).collect();
    departing.pools.retain(|pool| {
        if in_use.iter().any(|used| Arc::ptr_eq(used, pool)) {
            return true;
        }
        match shared.cache.remove_pool(pool.id) {
            Ok(removal) if !removal.is_gone => true,
            Ok(removal) => {
                tracing::info!(pool = pool.name, items = removal.items, "A pool was removed.");
                false
            }
            // Maintenance of the cache has freed the rest of it.
            Err(error) if error.kind() == EngineError::NoSuchPool => {
                tracing::info!(pool = pool.name, "A pool was removed.");
                false
            }
            Err(error) => {
                tracing::warn!(pool = pool.name, %error, "A pool cannot be removed.");
                false
            }
        }
    });
    if departing.pools.len() < pools_before {
        // What they were granted is for others now.
        shared.control.hasten();
    }
}
