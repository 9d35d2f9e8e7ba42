//! The accounts of a listener's clients: one for each tenant that they have been.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Ledger;
use protocol::resp::commands::SPECS;

use crate::metrics::{Counter, Ended, ListenerCounters};
use crate::tenant::{Rejected, Tenant};

/// The activity of one listener's clients as one tenant.
pub struct Account {
    /// The tenant that the clients are.
    pub tenant: Arc<Tenant>,
    /// The counts of their requests.
    pub counters: ListenerCounters,
}

impl Account {
    /// Creates the account of a tenant at one listener, with nothing counted.
    pub fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant, counters: ListenerCounters::default() }
    }

    /// Switches a connection from the account `own` to `next`. Returns whether these differ.
    ///
    /// # Errors
    /// Why it cannot be `next`'s, and it stays what it is.
    pub fn turn(own: &mut Arc<Self>, next: Arc<Self>) -> Result<bool, Rejected> {
        if Arc::ptr_eq(own, &next) {
            return Ok(false);
        }
        next.tenant.admit_connection()?;
        own.tenant.release_connection();
        *own = next;
        Ok(true)
    }
}

/// The accounts of one listener, and the tenants to which its clients may switch.
pub struct Accounts {
    /// The account of its clients until they choose another.
    pub home: Arc<Account>,
    /// Other tenants to which they may switch.
    pub tenants: Vec<String>,
    /// One account for each tenant that its clients have been, `home` the first.
    all: Mutex<Vec<Arc<Account>>>,
    /// The counts of clients of tenants that have been removed.
    past: ListenerCounters,
}

impl Accounts {
    /// Creates those of a listener whose clients begin as `tenant` and may switch to `tenants`.
    pub fn new(tenant: Arc<Tenant>, tenants: Vec<String>) -> Self {
        let home = Arc::new(Account::new(tenant));
        let all = Mutex::new(vec![Arc::clone(&home)]);
        Self { home, tenants, all, past: ListenerCounters::default() }
    }

    /// Returns the account of a tenant; created on first use.
    pub fn account(&self, tenant: &Arc<Tenant>) -> Arc<Account> {
        let mut accounts = self.lock();
        if let Some(known) = accounts.iter().find(|account| Arc::ptr_eq(&account.tenant, tenant)) {
            return Arc::clone(known);
        }
        let account = Arc::new(Account::new(Arc::clone(tenant)));
        accounts.push(Arc::clone(&account));
        account
    }

    /// The account of a tenant, if it has one.
    pub fn account_of(&self, tenant: &Arc<Tenant>) -> Option<Arc<Account>> {
        self.lock().iter().find(|account| Arc::ptr_eq(&account.tenant, tenant)).cloned()
    }

    /// Keeps the counts of a tenant that has been removed, and nothing else of it.
    pub fn forget(&self, tenant: &Arc<Tenant>, ledger: &Ledger) {
        let mut accounts = self.lock();
        for account in accounts.extract_if(.., |account| Arc::ptr_eq(&account.tenant, tenant)) {
            self.past.take_over(&account.counters, ledger);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the counters of all tenants, those that have been removed last.
    pub fn each(&self, mut look: impl FnMut(&ListenerCounters)) {
        self.lock().iter().for_each(|account| look(&account.counters));
        look(&self.past);
    }

    fn sum(&self, of: impl Fn(&ListenerCounters) -> u64) -> u64 {
        let mut sum = 0;
        self.each(|counters| sum += of(counters));
        sum
    }

    /// The count since the start, over all tenants.
    pub fn total(&self, counter: Counter) -> u64 {
        self.sum(|counters| counters.total(counter))
    }

    /// Commands of RESP that were carried out, by name and outcome, without those that never were.
    pub fn calls(&self) -> Vec<(&'static str, &'static str, u64)> {
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
