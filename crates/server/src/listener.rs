//! A listener while serving: its address, its certificates, and the accounts of its tenants.

use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Ledger;
use config::{Address, Auto, ListenerConfig, Protocol};
use protocol::resp::commands::SPECS;

use crate::metrics::{Counter, Ended, ListenerCounters};
use crate::tenants::{Account, Tenant};
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
    /// The account of its clients until they choose another.
    pub(crate) home: Arc<Account>,
    /// Other tenants to which they may switch.
    pub(crate) tenants: Vec<String>,
    /// True if a key that begins with another tenant's prefix is routed to that tenant.
    pub(crate) by_prefix: bool,
    /// One account for each tenant that its clients have been, `home` the first.
    accounts: Mutex<Vec<Arc<Account>>>,
    /// The counts of clients of tenants that have been removed.
    past: ListenerCounters,
    /// Connections open now.
    pub(crate) connections: AtomicUsize,
    /// The number of its socket's descriptor.
    pub(crate) descriptor: AtomicI32,
}

impl ListenerState {
    pub(crate) fn new(settings: &ListenerConfig, address: Address, tenant: Arc<Tenant>) -> Self {
        let home = Arc::new(Account::new(tenant));
        Self {
            name: settings.name.clone(),
            address,
            protocol: settings.protocol,
            auth: settings.auth,
            tls: TlsSlot::default(),
            accounts: Mutex::new(vec![Arc::clone(&home)]),
            home,
            tenants: settings.tenants.clone(),
            by_prefix: settings.by_prefix,
            past: ListenerCounters::default(),
            connections: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
        }
    }

    /// Returns the account of a tenant; created on first use.
    pub(crate) fn account(&self, tenant: &Arc<Tenant>) -> Arc<Account> {
        let mut accounts = self.accounts();
        if let Some(known) = accounts.iter().find(|account| Arc::ptr_eq(&account.tenant, tenant)) {
            return Arc::clone(known);
        }
        let account = Arc::new(Account::new(Arc::clone(tenant)));
        accounts.push(Arc::clone(&account));
        account
    }

    /// The account of a tenant, if it has one.
    pub(crate) fn account_of(&self, tenant: &Arc<Tenant>) -> Option<Arc<Account>> {
        self.accounts().iter().find(|account| Arc::ptr_eq(&account.tenant, tenant)).cloned()
    }

    /// Keeps the counts of a tenant that has been removed, and nothing else of it.
    pub(crate) fn forget(&self, tenant: &Arc<Tenant>, ledger: &Ledger) {
        let mut accounts = self.accounts();
        for account in accounts.extract_if(.., |account| Arc::ptr_eq(&account.tenant, tenant)) {
            self.past.take_over(&account.counters, ledger);
        }
    }

    fn accounts(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn each(&self, mut look: impl FnMut(&ListenerCounters)) {
        self.accounts().iter().for_each(|account| look(&account.counters));
        look(&self.past);
    }

    fn sum(&self, of: impl Fn(&ListenerCounters) -> u64) -> u64 {
        let mut sum = 0;
        self.each(|counters| sum += of(counters));
        sum
    }

    /// The count since the start, over all tenants.
    pub(crate) fn total(&self, counter: Counter) -> u64 {
        self.sum(|counters| counters.total(counter))
    }

    /// Commands of RESP that were carried out, by name and outcome, without those that never were.
    pub(crate) fn calls(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut calls = Vec::new();
        for (outcome, ends) in [("ok", &[Ended::Well][..]), ("error", &[Ended::Failed, Ended::Rejected])] {
            for spec in &SPECS {
                let of = |counters: &ListenerCounters, ended: &Ended| -> u64 {
                    spec.numbers().map(|number| counters.calls_of(number, *ended)).sum()
                };
                let count = self.sum(|counters| ends.iter().map(|ended| of(counters, ended)).sum());
                if count > 0 {
                    calls.push((spec.name, outcome, count));
                }
            }
        }
        calls
    }
}
