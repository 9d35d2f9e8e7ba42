//! A tenant's pool as its clients use it, and the gate of its key space.

use std::ops::Deref;
use std::sync::Arc;

use base::pin::Gate;
use millpond::PoolId;

use crate::multi_key::MultiKeyLock;

/// A pool as the server sees it.
pub struct Pool {
    /// The name in the configuration.
    pub name: String,
    /// The pool in the cache.
    pub id: PoolId,
    /// Before its key space, which other pools may share. Turns of connections, which are bounded,
    /// pass it; transactions close it.
    pub gate: Arc<KeySpaceGate>,
}

/// The gate of a key space, with its marks of several writes.
#[derive(Default)]
pub struct KeySpaceGate {
    /// The gate that turns of connections pass and transactions close.
    pub gate: Gate,
    /// Writes of several keys, as reads of several keys see them.
    pub several: MultiKeyLock,
}

impl Deref for KeySpaceGate {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

#[cfg(test)]
impl Pool {
    /// One for tests that need a pool and look at nothing in it.
    pub fn alone() -> Arc<Self> {
        let memory = base::ByteSize::mib(16);
        let cache =
            millpond::Cache::new(millpond::CacheConfig { memory, ..millpond::CacheConfig::default() });
        let id = cache.expect("a cache").add_pool(millpond::PoolConfig::default()).expect("a pool");
        Arc::new(Self { name: "p".to_owned(), id, gate: Arc::default() })
    }
}
