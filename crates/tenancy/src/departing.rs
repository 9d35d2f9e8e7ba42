//! Tenants and pools that have left the directory and still have connections or memory.

use std::sync::Arc;

use crate::key_space::Pool;
use crate::tenant::Tenant;

/// Those who have left the directory and are not gone.
#[derive(Default)]
pub struct Draining {
    /// Tenants that may still have connections.
    pub tenants: Vec<Arc<Tenant>>,
    /// Pools that may still have memory.
    pub pools: Vec<Arc<Pool>>,
}

impl Draining {
    /// Adds tenants and pools that have just left the directory.
    pub fn extend(&mut self, tenants: Vec<Arc<Tenant>>, pools: impl Iterator<Item = Arc<Pool>>) {
        self.tenants.extend(tenants);
        self.pools.extend(pools);
    }
}
