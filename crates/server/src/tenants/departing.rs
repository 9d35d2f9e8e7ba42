//! Tenants and pools that have left the directory and still have connections or memory.

use std::sync::Arc;

use super::Tenant;
use crate::key_space::Pool;

/// Those who have left the directory and are not gone.
#[derive(Default)]
pub(crate) struct Departing {
    pub(crate) tenants: Vec<Arc<Tenant>>,
    pub(crate) pools: Vec<Arc<Pool>>,
}

impl Departing {
    pub(crate) fn extend(&mut self, tenants: Vec<Arc<Tenant>>, pools: impl Iterator<Item = Arc<Pool>>) {
        self.tenants.extend(tenants);
        self.pools.extend(pools);
    }
}
