//! Which tenant serves the request at hand, on a connection whose listener goes by prefixes.
//!
//! A turn is one tenant's, whose lane it waited in, whose pool it works on and whose account it
//! counts in. So a connection that gets to a key of another tenant ends its turn and has the next
//! as that one. Nothing else needs to know of prefixes: rates, turns and statistics follow the key.
//!
//! Its own tenant is what it is without a key, and what its connection counts as.

use std::sync::Arc;

use crate::accounts::{Account, Accounts};
use crate::directory::{Directory, names};
use crate::tenant::Tenant;
use crate::users::User;

/// Returns whether a client of the listener with these accounts, or its user, may switch to a
/// tenant that is not its own.
pub fn may_switch_to(user: &User, accounts: &Accounts, tenant: &Tenant) -> bool {
    // What a user has been given goes over what a listener has.
    let is_told = !user.tenant.is_empty() || !user.tenants.is_empty();
    names(if is_told { &user.tenants } else { &accounts.tenants }, &tenant.name)
}

/// The routing of a connection's requests to tenants.
pub struct Route<'a> {
    directory: &'a Directory,
    /// The connection's own account.
    own: &'a Arc<Account>,
    /// The account of the present turn.
    present: &'a Arc<Account>,
    user: &'a User,
    accounts: &'a Accounts,
}

/// Notes whose the next turn of a connection is, where that is to be another's.
pub fn note_next_account(
    elsewhere: &mut Option<Arc<Account>>,
    own: &Arc<Account>,
    next: Option<Arc<Account>>,
) {
    if let Some(account) = next {
        *elsewhere = Some(account).filter(|account| !Arc::ptr_eq(account, own));
    }
}

impl<'a> Route<'a> {
    /// Creates the route of a connection whose own account is `own`, for a turn that is
    /// `present`'s.
    pub fn new(
        directory: &'a Directory,
        own: &'a Arc<Account>,
        present: &'a Arc<Account>,
        user: &'a User,
        accounts: &'a Accounts,
    ) -> Self {
        Self { directory, own, present, user, accounts }
    }

    /// Returns the tenant of the key: the connection's own, unless the key belongs to another
    /// tenant that the client may access.
    pub fn tenant(&self, key: &[u8]) -> &Arc<Tenant> {
        let own = &self.own.tenant;
        let is_allowed =
            |tenant: &Tenant| tenant.name == own.name || may_switch_to(self.user, self.accounts, tenant);
        self.directory.prefixes.tenant(key, is_allowed).unwrap_or(own)
    }

    /// The account that a request is to go to which has this key, or none, where that is not the
    /// one of the present turn.
    pub fn elsewhere(&self, key: Option<&[u8]>) -> Option<Arc<Account>> {
        let tenant = key.map_or(&self.own.tenant, |key| self.tenant(key));
        if Arc::ptr_eq(tenant, &self.present.tenant) {
            return None;
        }
        let is_own = Arc::ptr_eq(tenant, &self.own.tenant);
        Some(if is_own { Arc::clone(self.own) } else { self.accounts.account(tenant) })
    }
}
