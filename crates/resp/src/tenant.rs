//! The tenant of a connection: `SELECT`, and the state of a connection that switches to another
//! tenant.

use std::sync::Arc;

use super::commands::Commands;
use super::writer::{Failure, Outcome};
use frontend::tracking::Space;
use protocol::resp::commands::{Category, Spec};
use tenancy::{Account, Directory, Rejected, Route, Tenant, may_switch_to};

impl Commands<'_, '_> {
    /// Returns the account that a connection has by default: its user's, or else its listener's.
    pub(super) fn home(&self) -> Arc<Account> {
        let listener = &self.info.listener;
        let directory = self.shared.directory();
        let of_user = directory.tenant(&self.identity.user.tenant);
        of_user
            .map_or_else(|| Arc::clone(&listener.accounts.home), |tenant| listener.accounts.account(tenant))
    }

    /// Returns whether the connection may switch to the tenant.
    fn may_switch_to(&self, tenant: &Tenant) -> bool {
        tenant.name == self.home().tenant.name
            || may_switch_to(&self.identity.user, &self.info.listener.accounts, tenant)
    }

    /// Switches to the tenant with the database; 0 is the connection's own.
    pub(super) fn select(&mut self, number: u32) -> Outcome {
        let account = if number == 0 {
            self.home()
        } else {
            let directory = self.shared.directory();
            let tenant = directory.with_database(number).filter(|tenant| self.may_switch_to(tenant));
            self.info.listener.accounts.account(tenant.ok_or(Failure::BAD_DATABASE)?)
        };
        self.turn_to(account)?;
        self.client.database = number;
        self.info.named().database = number;
        Ok(())
    }

    /// Has the connection be another tenant's, from its next turn on.
    pub(super) fn turn_to(&mut self, account: Arc<Account>) -> Outcome {
        if self.client.is_executing && !Arc::ptr_eq(&account, self.account) {
            return Err(Failure::new("ERR a transaction cannot switch to another tenant"));
        }
        let turned = self.info.turn(self.account, account).map_err(|closed| match closed {
            Rejected::LimitReached => Failure::new("ERR max number of clients reached"),
            Rejected::Removing => Failure::BAD_DATABASE,
        })?;
        if !turned {
            return Ok(());
        }
        // Keys that were watched are another tenant's now: the transaction must not go by what is
        // under their names here.
        self.client.watched.iter_mut().for_each(|watched| watched.is_elsewhere = true);
        if self.client.tracking.is_some() {
            self.shared.tracking.turn(self.info.id, Space::of(&self.account.tenant.pool));
        }
        Ok(())
    }

    /// The account that a request is to go to which has this key, or none, where that is not the
    /// one of this turn.
    #[inline]
    pub(super) fn elsewhere(&self, key: Option<&[u8]>) -> Option<Arc<Account>> {
        self.directory.and_then(|directory| self.route(directory).elsewhere(key))
    }

    fn route<'r>(&'r self, directory: &'r Directory) -> Route<'r> {
        Route::new(directory, self.account, self.present, &self.identity.user, &self.info.listener.accounts)
    }

    /// The account that the request is to go to, where that is not the one of this turn.
    ///
    /// # Errors
    /// Where its keys are of several tenants, or a transaction has begun with another.
    pub(super) fn leads_elsewhere(
        &mut self,
        spec: &Spec,
        args: &[&[u8]],
    ) -> Result<Option<Arc<Account>>, Failure> {
        let Some(directory) = self.directory else { return Ok(None) };
        let places = spec.guarded_places(args);
        let mut keys = places.iter().filter_map(|place| args.get(*place));
        let first = keys.next();
        // Without a key it matters to those that are about all keys.
        if first.is_none() && !spec.categories.has(Category::Keyspace) {
            return Ok(None);
        }
        let route = self.route(directory);
        if let Some(first) = first
            && !keys.all(|key| Arc::ptr_eq(route.tenant(key), route.tenant(first)))
        {
            return Err(Failure::new("CROSSSLOT Keys in request are of several tenants, by their prefixes"));
        }
        let Some(account) = route.elsewhere(first.copied()) else { return Ok(None) };
        if self
            .client
            .transaction
            .as_ref()
            .is_some_and(|begun| begun.count > 0 || !self.client.watched.is_empty())
        {
            return Err(Failure::new(
                "CROSSSLOT Keys of a transaction are of several tenants, by their prefixes",
            ));
        }
        // As when it switches to another by `SELECT`.
        self.client.watched.iter_mut().for_each(|watched| watched.is_elsewhere = true);
        Ok(Some(account))
    }

    /// The databases that the connection may choose, with whose they are, in their order.
    pub(super) fn databases(&self) -> Vec<(u32, Arc<Tenant>)> {
        let mut found = vec![(0, Arc::clone(&self.home().tenant))];
        for tenant in self.shared.directory().tenants.iter().filter(|tenant| self.may_switch_to(tenant)) {
            let numbers = tenant.settings().databases;
            found.extend(numbers.into_iter().map(|number| (number, Arc::clone(tenant))));
        }
        found.sort_by_key(|(number, _)| *number);
        found
    }

    /// One more than the highest of them.
    pub(super) fn database_count(&self) -> u32 {
        self.databases().last().map_or(1, |(number, _)| number + 1)
    }
}
