//! Changing the eviction policy of a pool.

use evict::PolicyKind;

use crate::allocate::metadata_of_slab;
use crate::cache::{Cache, PoolId};
use crate::class::{Inner, View};
use crate::error::Error;

impl Cache {
    /// Changes the eviction policy of a pool, while serving. No item is lost, and the order of eviction is kept as far as
    /// the new policy has one. Insertions into a size class wait while its items are queued anew, some 100 to 200 ns
    /// for each; finds do not.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn set_pool_policy(&self, pool: PoolId, policy: PolicyKind) -> Result<(), Error> {
        let core = self.core();
        let pool = core.pool(pool)?;
        // Nobody takes slabs away meanwhile, which the bill for the future goes by.
        let _resizing = pool.resizing.lock();
        let before = pool.set_policy(policy);
        for (_, class) in pool.used_classes() {
            let mut inner = class.inner.lock();
            let slabs = inner.chunks.slab_count() as u64;
            let info = inner.chunks.info();
            let seed = core.hash_seed(core.keyspace(info.keyspace));
            let Inner { chunks, policy: queues, .. } = &mut *inner;
            let view = View::with_seed(core, chunks, seed);
            queues.convert(policy, &view, core.now());
            class.begin_hits_of_queues();
            inner.settle(&core.ledger);
            let (chunks, now) = metadata_of_slab(info, policy);
            core.add_chunks(chunks * slabs, now * slabs);
            let (chunks, then) = metadata_of_slab(info, before);
            core.remove_chunks(chunks * slabs, then * slabs);
        }
        Ok(())
    }
}
