//! Rejects settings that cannot work, each by its name and with the remedy.

use base::ByteSize;

use super::{
    Config, MAX_MEMORY, TenantSettings, admin, control, fleet, folder, listeners, pools, telemetry, tenants,
    tls, users, watch,
};
use crate::error::{Error, ErrorKind};

/// The smallest cache that has room for the fixed tables and a slab or two.
const MIN_MEMORY: ByteSize = ByteSize::mib(16);

/// Checks every setting and every reference between settings.
///
/// # Errors
/// [`ErrorKind::Config`] with all problems, one to a line.
pub fn check(config: &Config) -> Result<(), Error> {
    let problems = problems(config);
    if problems.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::Config, problems.join("\n"))) }
}

/// Everything that cannot work, each beginning with the name of its setting.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    check_bounds(config, &mut problems);
    check_memory(config, &mut problems);
    pools::check(config, &mut problems);
    pools::check_reserves(config, &mut problems);
    tenants::check(config, &mut problems);
    users::check(config, &mut problems);
    listeners::check(config, &mut problems);
    admin::check(config, &mut problems);
    tls::check(config, &mut problems);
    watch::check(&config.watch, &mut problems);
    control::check(config, &mut problems);
    fleet::check(config, &mut problems);
    telemetry::check(&config.telemetry, &mut problems);
    if let Some(Err(error)) = config.monitor.engine().map(|monitor| monitor.check()) {
        problems.push(format!("monitor: {error}"));
    }
    problems
}

/// Reports the settings outside of their bounds; those of an entry of a list by its name.
fn check_bounds(config: &Config, problems: &mut Vec<String>) {
    let Config {
        listeners,
        pools,
        tenants,
        users,
        limits,
        admin,
        watch,
        control,
        fleet,
        monitor,
        telemetry,
        log,
        ..
    } = config;
    config.check_bounds("", problems);
    for listener in listeners {
        listener.check_bounds(&format!("listener.{}.", listener.name), problems);
    }
    for pool in pools {
        pool.check_bounds(&format!("pool.{}.", pool.name), problems);
    }
    for tenant in tenants {
        tenant.check_bounds(&format!("tenant.{}.", tenant.name), problems);
    }
    for user in users {
        user.check_bounds(&format!("user.{}.", user.name), problems);
    }
    limits.check_bounds("limits.", problems);
    admin.check_bounds("admin.", problems);
    watch.check_bounds("watch.", problems);
    control.check_bounds("control.", problems);
    fleet.check_bounds("fleet.", problems);
    monitor.check_bounds("monitor.", problems);
    telemetry.check_bounds("telemetry.", problems);
    log.check_bounds("log.", problems);
}

/// Returns warnings about settings that can work but are probably not intended.
pub fn warnings(config: &Config) -> Vec<String> {
    let memory = config.memory();
    let above = config.all_pools().into_iter().filter_map(|pool| {
        let limit = pool.limit.set().filter(|limit| *limit > memory)?;
        let list = if config.pools.iter().any(|it| it.name == pool.name) { "pool" } else { "tenant" };
        let name = &pool.name;
        Some(format!(
            "{list}.{name}.limit: {limit} is more than all memory, which is {memory}: it limits nothing"
        ))
    });
    let unreached = config.tenants.iter().filter(|tenant| !is_reached(config, &tenant.name));
    let unreached = unreached.map(|TenantSettings { name, .. }| {
        format!(
            "tenant.{name}.name: no client can be this tenant: no listener and no user has it as tenant, or among tenants"
        )
    });
    above.chain(unreached).chain(folder::warnings(&config.shared_memory, memory)).collect()
}

/// Returns whether a client can be a tenant of that name: by its listener, by its user, or by
/// switching to the tenant.
fn is_reached(config: &Config, name: &str) -> bool {
    let is_among = |tenants: &[String]| tenants.iter().any(|tenant| tenant == name || tenant == "*");
    config.listeners.iter().any(|listener| listener.tenant() == name || is_among(&listener.tenants))
        || config.users.iter().any(|user| user.tenant == name || is_among(&user.tenants))
}

fn check_memory(config: &Config, problems: &mut Vec<String>) {
    if config.memory() < MIN_MEMORY {
        let hint = pools::meant(config.memory()).filter(|_| config.memory().as_u64() >= 16);
        let hint = hint.unwrap_or_default();
        problems.push(format!("memory: {} is too little; give at least {MIN_MEMORY}{hint}", config.memory()));
    }
    if let Some(machine) = base::machine::total_bytes()
        && config.memory() > ByteSize::new(machine)
    {
        problems.push(format!(
            "memory: {} is more than this machine has, {}; give the cache less, so that others have some too",
            config.memory(),
            ByteSize::new(machine)
        ));
    }
    let most = config.memory().max(config.max_memory());
    if most > MAX_MEMORY {
        problems.push(format!("memory, max_memory: {most} is more than one cache can have, {MAX_MEMORY}"));
    }
    if config.max_memory() < config.memory() {
        problems.push(format!(
            "max_memory: {} is less than memory ({}); raise it, or set it to \"auto\"",
            config.max_memory(),
            config.memory()
        ));
    }
}
