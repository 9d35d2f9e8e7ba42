//! All tenants and pools of the server at some moment.

use std::sync::Arc;

use crate::key_space::Pool;
use crate::prefixes::Prefixes;
use crate::tenant::Tenant;

/// All tenants, and the pools of the server, as they are at some moment.
#[derive(Default)]
pub struct Directory {
    /// The tenants, in the order of the configuration.
    pub tenants: Vec<Arc<Tenant>>,
    /// The pools, those that no tenant uses included.
    pub pools: Vec<Arc<Pool>>,
    pub(crate) prefixes: Prefixes,
}

impl Directory {
    /// Creates a directory, with the table of the tenants' prefixes.
    pub fn new(tenants: Vec<Arc<Tenant>>, pools: Vec<Arc<Pool>>) -> Self {
        Self { prefixes: Prefixes::new(&tenants), tenants, pools }
    }

    /// Returns the tenant of this name.
    pub fn tenant(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.name == name)
    }

    /// Returns the pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// The tenant with this database.
    pub fn with_database(&self, number: u32) -> Option<&Arc<Tenant>> {
        self.tenants.iter().find(|tenant| tenant.has_database(number))
    }
}

/// Returns whether a list of names contains this name, or `*` for all.
pub(crate) fn names(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| listed == "*" || listed == name)
}
