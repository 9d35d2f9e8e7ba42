//! Changing the eviction policy of a pool.

use evict::PolicyKind;

use crate::allocate::metadata_of;
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
        // Nobody takes runs away meanwhile, which the bill for the future goes by.
        let _resizing = pool.resizing.lock();
        let before = pool.set_policy(policy);
        for (_, class) in pool.used_classes() {
            let mut inner = class.inner.lock();
            let chunks_now = inner.chunks.chunks();
            let info = inner.chunks.info();
            let seed = core.hash_seed(core.keyspace(info.keyspace));
            let Inner { chunks, policy: queues, .. } = &mut *inner;
            let view = View::with_seed(core, chunks, seed);
            queues.convert(policy, &view, core.now());
            class.begin_hits_of_queues();
            inner.settle(&core.ledger);
            core.add_chunks(0, metadata_of(chunks_now, policy));
            core.remove_chunks(0, metadata_of(chunks_now, before));
        }
        Ok(())
    }
}
