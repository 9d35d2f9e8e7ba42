//! A listener while serving: its address, its certificates, and the accounts of its tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize};

use config::{Address, Auto, ListenerConfig, Protocol};
use tenancy::{Accounts, Tenant};

use crate::tls::TlsSlot;

/// A listener as everyone but the accepting workers sees it.
pub struct ListenerState {
    /// The name in the configuration.
    pub name: String,
    /// The address that it listens on.
    pub address: Address,
    /// The protocol that its clients speak.
    pub protocol: Protocol,
    /// The setting of whether its clients must authenticate.
    pub auth: Auto<bool>,
    /// TLS settings of its next connections, if they use TLS.
    pub tls: TlsSlot,
    /// The accounts of its clients, and the tenants to which they may switch.
    pub accounts: Accounts,
    /// True if a key that begins with another tenant's prefix is routed to that tenant.
    pub by_prefix: bool,
    /// Connections open now.
    pub connections: AtomicUsize,
    /// The number of its socket's descriptor.
    pub descriptor: AtomicI32,
}

impl ListenerState {
    /// Creates a listener whose clients begin as `tenant`.
    pub fn new(settings: &ListenerConfig, address: Address, tenant: Arc<Tenant>) -> Self {
        Self {
            name: settings.name.clone(),
            address,
            protocol: settings.protocol,
            auth: settings.auth,
            tls: TlsSlot::default(),
            accounts: Accounts::new(tenant, settings.tenants.clone()),
            by_prefix: settings.by_prefix,
            connections: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
        }
    }
}
