//! Listeners: the addresses to which clients connect.

use std::collections::HashSet;

use super::error::hint;
use super::values::{self, Address, Auto, FileMode, Protocol};
use super::{Config, UserSettings};

settings! {
    /// An address to which clients connect, and the tenant of those clients.
    pub struct ListenerConfig in "listener." and tls {
        /// The listener's name in logs and metrics.
        restart name: String = "main".to_owned();

        /// "tcp://IP:PORT" or "unix:///PATH". Port 0 lets the kernel choose one.
        restart address: Address = Address::default();

        /// Permissions of a unix socket, in octal.
        restart mode: FileMode = FileMode::default();

        /// The pool that clients of this listener read and write, if no tenant is named.
        restart pool: String = "default".to_owned();

        /// The tenant of this listener's clients, which has the pool. Empty: the tenant named like
        /// the pool, or, if there is none, one without limits.
        restart tenant: String = String::new();

        /// Other tenants that its clients may select by SELECT with one of their databases; "*" is
        /// all.
        restart tenants: Vec<String> = Vec::new();

        /// Routes keys that begin with a prefix of one of those tenants to that tenant, and all
        /// others to the client's own tenant (docs/tenants.md#by-prefix).
        restart by_prefix: bool = false;

        /// The protocol: "auto" (any of the following, detected from the first request of a
        /// connection, docs/resp.md#auto), "resp" or "redis" (Redis's, versions 2 and 3),
        /// "memcached" (text, meta and binary), "memcached-text" or "memcached-binary". memcached
        /// has deprecated the binary protocol.
        restart protocol: Protocol = Protocol::default();

        /// Demands that its clients authenticate first. false: they need not, and may do everything
        /// as its tenant, whatever users there are. "auto": if there is any `[[user]]`, except for
        /// what "default" may do without a password.
        restart auth: Auto<bool> = Auto::Auto;

        /// Starts the server without this listener, with a warning, if another program has its
        /// address; at least one listener must remain. The two default listeners are optional.
        restart optional: bool = false;
    }
}

impl ListenerConfig {
    /// The listeners of a server without configured ones: the ports that clients of memcached and
    /// of Redis expect, each unless another program has it.
    pub(super) fn usual() -> Vec<Self> {
        let usual = |name: &str, port| Self {
            name: name.to_owned(),
            address: Address::loopback(port),
            optional: true,
            ..Self::default()
        };
        vec![usual("main", values::MEMCACHED_PORT), usual("redis", values::REDIS_PORT)]
    }

    /// The name of the tenant that its clients are.
    pub fn tenant(&self) -> &str {
        if self.tenant.is_empty() { &self.pool } else { &self.tenant }
    }
}

impl Config {
    /// Returns whether a client of that listener must authenticate before it may do anything.
    pub fn needs_users_at(&self, listener: &ListenerConfig) -> bool {
        match listener.auth {
            Auto::Auto => self.needs_users(),
            Auto::Set(is_asked) => is_asked && !self.users.is_empty(),
        }
    }
}

/// Reports listeners that cannot work together with the other settings.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    if config.listeners.is_empty() {
        problems.push("listener: there is none; add [[listener]] with an address".to_owned());
    }
    let mut names = HashSet::new();
    let mut addresses: Vec<&Address> = Vec::new();
    for listener in &config.listeners {
        let ListenerConfig { name, address, .. } = listener;
        if name.is_empty() || name.len() > 64 {
            problems.push(format!("listener.name: `{name}` is not 1 to 64 bytes long"));
        }
        if !names.insert(name) {
            problems
                .push(format!("listener.name: two listeners are called `{name}`; give each its own name"));
        }
        match addresses.iter().find(|other| address.clashes_with(other)) {
            Some(other) if *other == address => problems.push(format!(
                "listener.{name}.address: {address} is used twice; give each listener its own"
            )),
            Some(other) => problems.push(format!(
                "listener.{name}.address: {address} and {other} cannot both be listened on; give each listener its own port"
            )),
            None => {}
        }
        addresses.push(address);
        check_listener_tenants(config, listener, problems);
        let has_password =
            |user: &UserSettings| user.rules().is_ok_and(|rules| rules.is_on && !rules.passwords.is_empty());
        if listener.auth == Auto::Set(true) && !config.users.iter().any(has_password) {
            problems.push(format!(
                "listener.{name}.auth: nobody has a password to authenticate with; add [[user]] with one"
            ));
        }
        if address.is_remote() && !config.allow_remote && !config.needs_users_at(listener) {
            problems.push(address.remote_problem(&format!("listener.{name}.address")));
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
