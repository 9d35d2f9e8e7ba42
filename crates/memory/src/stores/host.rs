//! The cache as the host of stores.

use std::sync::{Arc, Weak};

use base::Ledger;
use base::pin::Pins;

use super::{Host, SharesMemory};
use crate::cache::{Cache, Core};
use crate::error::Error;

/// The host of the cache's stores.
pub fn of(cache: &Cache) -> &dyn Host {
    cache.core()
}

/// The list of threads that read the cache's memory in place.
#[inline]
pub fn pins(cache: &Cache) -> &Pins {
    &cache.core().pins
}

/// Adds a store, whose memory the cache may reclaim and whose statistics it reports.
pub fn add(cache: &Cache, store: Weak<dyn SharesMemory>) {
    let mut stores = cache.core().stores.lock();
    stores.retain(|store| store.strong_count() > 0);
    stores.push(store);
}

impl Host for Core {
    fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn pins(&self) -> &Pins {
        &self.pins
    }

    fn metadata_to_come(&self) -> u64 {
        Self::metadata_to_come(self)
    }

    fn shrink_to_limit(&self) -> Result<(), Error> {
        Self::shrink_to_limit(self)
    }

    fn uses_huge_pages(&self) -> bool {
        self.huge_pages
    }
}

impl Core {
    /// All stores in use.
    pub(crate) fn stores(&self) -> Vec<Arc<dyn SharesMemory>> {
        self.stores.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Reclaims memory of the largest store that can give some up. `false`: none can.
    pub(crate) fn shrink_a_store(&self) -> bool {
        let mut stores = self.stores();
        stores.sort_by_key(|store| std::cmp::Reverse(store.bytes()));
        stores.iter().any(|store| store.shrink(self))
    }
}
