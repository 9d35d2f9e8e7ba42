//! The pools of a configuration, in the engine's terms.

use std::sync::Arc;

use config::{Classes, Config, Error, ErrorKind, PoolSettings};
use millpond::sizing::Tuning;
use millpond::strategy::Strategy;
use millpond::{Cache, PoolConfig, SizeClassConfig};
use tenancy::key_space::{KeySpaceGate, Pool};

/// Adds a pool to the cache, whose key space is behind `gate`.
///
/// # Errors
/// [`ErrorKind::Engine`] if the cache refuses it.
pub fn add_pool(cache: &Cache, settings: &PoolSettings, gate: Arc<KeySpaceGate>) -> Result<Arc<Pool>, Error> {
    let id = cache.add_pool(pool_config(settings)).map_err(|e| {
        Error::with_source(ErrorKind::Engine, format!("pool {} cannot be made", settings.name), e)
    })?;
    Ok(Arc::new(Pool { name: settings.name.clone(), id, gate }))
}

/// Sets the share of the memory that each pool is entitled to.
///
/// # Errors
/// [`ErrorKind::Engine`] if the cache refuses one.
pub fn set_shares(cache: &Cache, config: &Config, pools: &[Arc<Pool>]) -> Result<(), Error> {
    for settings in &config.all_pools() {
        let Some(pool) = pools.iter().find(|pool| pool.name == settings.name) else { continue };
        cache.set_pool_share(pool.id, settings.reserve, config.pool_weight(&settings.name)).map_err(|e| {
            Error::with_source(ErrorKind::Engine, format!("pool {} cannot have its share", pool.name), e)
        })?;
    }
    Ok(())
}

fn pool_config(settings: &PoolSettings) -> PoolConfig {
    let bytes = |size: base::ByteSize| u32::try_from(size.as_u64()).unwrap_or(u32::MAX);
    PoolConfig {
        name: settings.name.clone(),
        limit: settings.limit.set(),
        policy: settings.policy,
        strategy: strategy(settings),
        classes: if settings.class_sizes_bytes.is_empty() {
            SizeClassConfig::Factor {
                factor: settings.class_factor,
                min: bytes(settings.class_min_bytes),
                max: bytes(settings.class_max_bytes),
            }
        } else {
            SizeClassConfig::List(settings.class_sizes_bytes.clone())
        },
        tuning: tuning(settings),
        own_keys: settings.own_keys,
        ..PoolConfig::default()
    }
}

/// The policy by which the pool's classes trade slabs; the name was checked with the configuration.
pub(crate) fn strategy(settings: &PoolSettings) -> Strategy {
    Strategy::by_name(&settings.rebalance).unwrap_or_default()
}

/// Returns the tuning of the pool's size classes, if they follow its items.
pub(crate) fn tuning(settings: &PoolSettings) -> Option<Tuning> {
    (settings.classes == Classes::Tuned).then(Tuning::default)
}

/// The error of a change of `pool`'s policy that the engine refuses.
pub(crate) fn policy_refused(pool: &str, error: millpond::Error) -> Error {
    let context = format!("how pool {pool} evicts cannot be changed");
    Error::with_source(ErrorKind::Engine, context, error)
}
