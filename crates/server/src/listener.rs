//! A listener while serving: its address, its certificates, and the accounts of its tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize};

use config::{Address, Auto, ListenerConfig, Protocol};
use tenancy::{Accounts, Tenant};

use crate::tls::TlsSlot;

/// A listener as everyone but the accepting workers sees it.
pub(crate) struct ListenerState {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) protocol: Protocol,
    /// The setting of whether its clients must authenticate.
    pub(crate) auth: Auto<bool>,
    /// How its next connections speak TLS, if they do.
    pub(crate) tls: TlsSlot,
    /// The accounts of its clients, and the tenants to which they may switch.
    pub(crate) accounts: Accounts,
    /// True if a key that begins with another tenant's prefix is routed to that tenant.
    pub(crate) by_prefix: bool,
    /// Connections open now.
    pub(crate) connections: AtomicUsize,
    /// The number of its socket's descriptor.
    pub(crate) descriptor: AtomicI32,
}

impl ListenerState {
    pub(crate) fn new(settings: &ListenerConfig, address: Address, tenant: Arc<Tenant>) -> Self {
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
