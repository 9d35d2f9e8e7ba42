//! Rejects settings that cannot work, each by its name and with the remedy.

use std::collections::{BTreeSet, HashSet};

use base::ByteSize;
use millpond::strategy::Strategy;

use super::{
    Address, Auto, ClientAuth, Config, Limits, ListenerConfig, MAX_MEMORY, PoolSettings, TenantSettings,
    UserSettings, Watch,
};
use crate::acl::DEFAULT_USER;
use crate::error::{Error, ErrorKind};

/// The fewest bytes of a token: fewer can be guessed.
pub const MIN_TOKEN_BYTES: usize = 16;

/// The largest item that the engine can hold: one slab.
const MAX_ITEM: ByteSize = ByteSize::mib(4);
/// The highest database: more would be of no use, and `CONFIG GET databases` reports it.
const MAX_DATABASE: u32 = 65_535;
/// The longest prefix: as long as a key of memcached.
const MAX_PREFIX_BYTES: usize = 250;
/// The largest weight of a tenant.
const MAX_WEIGHT: u32 = 100;
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
    check_memory(config, &mut problems);
    check_pools(config, &mut problems);
    check_reserves(config, &mut problems);
    check_tenants(config, &mut problems);
    check_users(config, &mut problems);
    check_listeners(config, &mut problems);
    check_limits(config, &config.limits, &mut problems);
    check_admin(config, &mut problems);
    super::tls::check(config, &mut problems);
    check_watch(&config.watch, &mut problems);
    super::telemetry::check(&config.telemetry, &mut problems);
    if let Some(Err(error)) = config.monitor.engine().map(|monitor| monitor.check()) {
        problems.push(format!("monitor: {error}"));
    }
    problems
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
    above.chain(unreached).chain(super::folder::warnings(&config.shared_memory, memory)).collect()
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
        // Of memcached's -m and Redis's users some mean MiB.
        let bytes = config.memory().as_u64();
        let hint = match ByteSize::mib(bytes) {
            meant if (16..1 << 20).contains(&bytes) => format!("; did you mean {meant}?"),
            _ => String::new(),
        };
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
    if config.busy_poll_micros > 10_000 {
        problems.push(format!(
            "busy_poll_micros: {} is above 10000, after which a sleep does not matter any more",
            config.busy_poll_micros
        ));
    }
    if let Auto::Set(threads) = config.threads
        && !(1..=1024).contains(&threads)
    {
        problems.push(format!("threads: {threads} is not between 1 and 1024; \"auto\" is one per processor"));
    }
}

fn check_pools(config: &Config, problems: &mut Vec<String>) {
    let pools = &config.pools;
    if config.all_pools().is_empty() {
        problems.push("pool: there is none; add [[pool]] with a name".to_owned());
    }
    let mut names = HashSet::new();
    for pool in pools {
        let name = &pool.name;
        if name.is_empty() || name.len() > 64 {
            problems.push(format!("pool.name: `{name}` is not 1 to 64 bytes long"));
        }
        if !names.insert(name) {
            problems.push(format!("pool.name: two pools are called `{name}`; give each its own name"));
        }
        check_pool(pool, problems);
    }
}

fn check_pool(pool: &PoolSettings, problems: &mut Vec<String>) {
    let name = &pool.name;
    if let Err(problem) = Strategy::by_name(&pool.rebalance) {
        problems.push(format!("pool.{name}.rebalance: {problem}"));
    }
    if !(pool.class_factor > 1.0 && pool.class_factor <= 10.0) {
        problems.push(format!(
            "pool.{name}.class_factor: {} is not above 1 and at most 10; 1.25 wastes about a tenth",
            pool.class_factor
        ));
    }
    if pool.class_max_bytes > MAX_ITEM {
        problems.push(format!("pool.{name}.class_max_bytes: {} is above {MAX_ITEM}", pool.class_max_bytes));
    }
    if pool.class_min_bytes < ByteSize::new(64) || pool.class_min_bytes > pool.class_max_bytes {
        problems.push(format!(
            "pool.{name}.class_min_bytes: {} is not between 64 and class_max_bytes ({})",
            pool.class_min_bytes, pool.class_max_bytes
        ));
    }
    let sizes = &pool.class_sizes_bytes;
    if !sizes.is_sorted_by(|a, b| a < b) || sizes.iter().any(|size| u64::from(*size) > MAX_ITEM.as_u64()) {
        problems.push(format!(
            "pool.{name}.class_sizes_bytes: the sizes must ascend and be at most {MAX_ITEM} each"
        ));
    }
}

/// The limits may total more than the memory, the reserves may not.
fn check_reserves(config: &Config, problems: &mut Vec<String>) {
    let pools = config.all_pools();
    let setting = |name: &str| {
        let list = if config.pools.iter().any(|pool| pool.name == name) { "pool" } else { "tenant" };
        format!("{list}.{name}.reserve")
    };
    for PoolSettings { name, limit, reserve, .. } in &pools {
        if let Auto::Set(limit) = limit
            && reserve > limit
        {
            problems.push(format!("{}: {reserve} is more than its limit, {limit}", setting(name)));
        }
    }
    let all = ByteSize::new(pools.iter().fold(0, |sum, pool| pool.reserve.as_u64().saturating_add(sum)));
    if let Some(largest) = pools.iter().max_by_key(|pool| pool.reserve)
        && all > config.memory()
    {
        problems.push(format!(
            "{}: the reserves of all pools and tenants total {all}, and memory is {}; lower this one, which is the \
             largest, or others",
            setting(&largest.name),
            config.memory()
        ));
    }
}

fn check_tenants(config: &Config, problems: &mut Vec<String>) {
    let mut names = HashSet::new();
    let mut databases = HashSet::new();
    let mut prefixes = HashSet::new();
    let pools = config.all_pools();
    let pools = pools.iter().map(|pool| pool.name.as_str()).collect();
    for tenant in &config.tenants {
        let TenantSettings { name, weight, burst_millis, .. } = tenant;
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
        if !(1..=MAX_WEIGHT).contains(weight) {
            problems.push(format!("tenant.{name}.weight: {weight} is not between 1 and {MAX_WEIGHT}"));
        }
        if !(1..=3_600_000).contains(burst_millis) {
            problems.push(format!("tenant.{name}.burst_millis: {burst_millis} is not between 1 and 3600000"));
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

/// Returns a hint for a name that does not exist.
pub(super) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, what: &str) -> String {
    match base::suggest::nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.clone().next().is_none() => "there are none".to_owned(),
        None => format!("the {what} are: {}", known.collect::<Vec<_>>().join(", ")),
    }
}

fn check_listeners(config: &Config, problems: &mut Vec<String>) {
    if config.listeners.is_empty() {
        problems.push("listener: there is none; add [[listener]] with an address".to_owned());
    }
    let mut names = HashSet::new();
    let mut addresses = HashSet::new();
    for listener in &config.listeners {
        let ListenerConfig { name, address, .. } = listener;
        if name.is_empty() || name.len() > 64 {
            problems.push(format!("listener.name: `{name}` is not 1 to 64 bytes long"));
        }
        if !names.insert(name) {
            problems
                .push(format!("listener.name: two listeners are called `{name}`; give each its own name"));
        }
        let any_port = matches!(address, Address::Tcp(address) if address.port() == 0);
        if !any_port && !addresses.insert(address) {
            problems.push(format!(
                "listener.{name}.address: {address} is used twice; give each listener its own"
            ));
        }
        check_listener_tenants(config, listener, problems);
        let has_password =
            |user: &UserSettings| user.rules().is_ok_and(|rules| rules.is_on && !rules.passwords.is_empty());
        if listener.auth == Auto::Set(true) && !config.users.iter().any(has_password) {
            problems.push(format!(
                "listener.{name}.auth: nobody has a password to authenticate with; add [[user]] with one"
            ));
        }
        if address.is_remote() && !config.allow_remote && !config.needs_users_at(listener) {
            problems.push(remote(&format!("listener.{name}.address"), address));
        }
    }
}

fn check_users(config: &Config, problems: &mut Vec<String>) {
    let mut names = HashSet::new();
    let is_tenant = |name: &str| config.tenants.iter().any(|known| known.name == name);
    let known = || config.tenants.iter().map(|known| known.name.as_str());
    for user in &config.users {
        let UserSettings { name, tenant, tenants, .. } = user;
        if name.is_empty() || name.len() > 64 || name.contains(char::is_whitespace) {
            problems.push(format!("user.name: `{name}` is not 1 to 64 bytes without spaces"));
        }
        if !names.insert(name) {
            problems.push(format!("user.name: two users are called `{name}`; give each its own name"));
        }
        let of_rules = user.rules().err().unwrap_or_default();
        problems.extend(of_rules.iter().map(|problem| format!("user.{name}.{problem}")));
        if !tenant.is_empty() && !is_tenant(tenant) {
            problems.push(format!(
                "user.{name}.tenant: there is no tenant `{tenant}`; {}",
                hint(tenant, known(), "tenants")
            ));
        }
        if name == DEFAULT_USER && !tenant.is_empty() && user.is_open() {
            problems.push(format!(
                "user.{name}.tenant: who authenticates as nobody is its listener's tenant; set listener.NAME.tenant = \
                 \"{tenant}\" instead, or give `{name}` a password"
            ));
        }
        for other in tenants.iter().filter(|other| *other != "*" && !is_tenant(other)) {
            problems.push(format!(
                "user.{name}.tenants: there is no tenant `{other}`; {}",
                hint(other, known(), "tenants")
            ));
        }
    }
}

fn check_listener_tenants(config: &Config, listener: &ListenerConfig, problems: &mut Vec<String>) {
    let ListenerConfig { name, pool, tenant, tenants, .. } = listener;
    let is_tenant = |name: &str| config.tenants.iter().any(|known| known.name == name);
    let known = || config.tenants.iter().map(|known| known.name.as_str());
    if tenant.is_empty() {
        if !is_tenant(pool) && !config.pools.iter().any(|known| known.name == *pool) {
            let hint = hint(pool, config.pools.iter().map(|known| known.name.as_str()), "pools");
            problems.push(format!("listener.{name}.pool: there is no pool `{pool}`; {hint}"));
        }
    } else if !is_tenant(tenant) {
        let hint = hint(tenant, known(), "tenants");
        problems.push(format!("listener.{name}.tenant: there is no tenant `{tenant}`; {hint}"));
    }
    for other in tenants.iter().filter(|other| *other != "*" && !is_tenant(other)) {
        let hint = hint(other, known(), "tenants");
        problems.push(format!("listener.{name}.tenants: there is no tenant `{other}`; {hint}"));
    }
}

/// Why an address that other machines can reach is refused.
pub fn remote(setting: &str, address: &Address) -> String {
    format!(
        "{setting}: {address} can be reached from other machines, and no authentication is required: whoever connects can \
         read, write and flush. Use a loopback address or a unix socket, add [[user]] with a password for listeners, or set \
         allow_remote = true if the network is trusted"
    )
}

fn check_limits(config: &Config, limits: &Limits, problems: &mut Vec<String>) {
    let mut at_least = |name: &str, value: u64, least: u64| {
        if value < least {
            problems.push(format!("limits.{name}: {value} is too small; give at least {least}"));
        }
    };
    at_least("max_connections", limits.max_connections as u64, 1);
    at_least("max_line_bytes", limits.max_line_bytes.as_u64(), 2048);
    at_least("max_get_line_bytes", limits.max_get_line_bytes.as_u64(), 2048);
    at_least("max_get_keys", limits.max_get_keys as u64, 1);
    at_least("max_request_bytes", limits.max_request_bytes.as_u64(), 64 << 10);
    at_least("max_tracked_keys", limits.max_tracked_keys as u64, 1);
    at_least("max_item_bytes", limits.max_item_bytes.as_u64(), 1024);
    at_least("max_output_buffer_bytes", limits.max_output_buffer_bytes.as_u64(), 4096);
    at_least("max_connection_memory_bytes", config.max_connection_memory().as_u64(), 1 << 20);
    at_least("max_requests_per_turn", limits.max_requests_per_turn as u64, 1);

    let mut at_most = |name: &str, value: ByteSize, most: ByteSize| {
        if value > most {
            problems.push(format!("limits.{name}: {value} is too much; give at most {most}"));
        }
    };
    at_most("max_line_bytes", limits.max_line_bytes, ByteSize::mib(64));
    at_most("max_get_line_bytes", limits.max_get_line_bytes, ByteSize::mib(64));
    at_most("max_output_buffer_bytes", limits.max_output_buffer_bytes, ByteSize::gib(1));
    at_most("max_request_bytes", limits.max_request_bytes, ByteSize::gib(1));
    at_most("max_item_bytes", limits.max_item_bytes, MAX_ITEM);
}

fn check_watch(watch: &Watch, problems: &mut Vec<String>) {
    if watch.hot_keys > 1_024 {
        problems.push(format!("watch.hot_keys: {} is too many; give at most 1024", watch.hot_keys));
    }
    if watch.slow_log_entries > 65_536 {
        problems.push(format!(
            "watch.slow_log_entries: {} is too many; give at most 65536",
            watch.slow_log_entries
        ));
    }
    if watch.slow_log_micros < -1 {
        problems.push(format!(
            "watch.slow_log_micros: {} is below -1, which means that none is kept",
            watch.slow_log_micros
        ));
    }
    if watch.curve_keys != 0 && !(64..=1 << 20).contains(&watch.curve_keys) {
        problems.push(format!("watch.curve_keys: {} is neither 0 nor 64 to 1048576", watch.curve_keys));
    }
    let shares = [
        ("hot_keys_one_in", watch.hot_keys_one_in),
        ("curve_one_in", watch.curve_one_in),
        ("trace_one_in", watch.trace_one_in),
        ("request_log_one_in", watch.request_log_one_in),
    ];
    for (name, _) in shares.into_iter().filter(|(_, one_in)| *one_in == 0) {
        problems.push(format!("watch.{name}: must be at least 1"));
    }
}

fn check_admin(config: &Config, problems: &mut Vec<String>) {
    if !config.admin.enabled {
        return;
    }
    let address = &config.admin.address();
    if matches!(address, Address::Unix(_)) {
        problems.push(format!("admin.address: {address} is not tcp://IP:PORT, which is all that it can be"));
    }
    let admin = &config.admin;
    let token = admin.token.0.len();
    if token > 0 && token < MIN_TOKEN_BYTES {
        problems.push(format!(
            "admin.token: it has {token} bytes and can be guessed; give at least {MIN_TOKEN_BYTES}"
        ));
    }
    let has_tokens = token > 0 || !admin.tokens_file.as_os_str().is_empty();
    let has_certificates =
        !admin.tls_client_ca.as_os_str().is_empty() && admin.tls_client_auth == ClientAuth::Required;
    if address.is_remote() && !config.allow_remote && !has_tokens && !has_certificates {
        problems.push(format!(
            "admin.address: {address} can be reached from other machines, and whoever does sees keys and figures. Use a loopback \
             address, set admin.token or require certificates (admin.tls_client_ca), or set allow_remote = true if the \
             network is trusted"
        ));
    }
    if config.listeners.iter().any(|listener| listener.address == *address)
        && !matches!(address, Address::Tcp(address) if address.port() == 0)
    {
        problems.push(format!("admin.address: {address} is also a listener's; give it its own port"));
    }
}
