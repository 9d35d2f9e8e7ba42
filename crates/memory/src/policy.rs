//! Changing the eviction policy of a pool.
//!
//! The items of a class are queued anew a batch at a time, and whoever waits for the class's lock
//! gets it between two batches.

use base::ByteSize;
use evict::{Conversion, PolicyKind};
use parking_lot::MutexGuard;

use crate::allocate::LEAST_FOR_CHUNKS;
use crate::cache::{Cache, Core};
use crate::class::{Class, Inner, View};
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::PoolId;

/// Items that are queued anew under one hold of a class's lock, at most: some 0.1 to 0.3 ms.
const CONVERTED_AT_ONCE: usize = 1_024;
/// Holds of such locks by one round of maintenance, at most: some 0.1 to 0.3 s.
const STEPS_PER_ROUND: u32 = 1_024;

impl Cache {
    /// Changes the eviction policy of a pool, while serving. The order of eviction is kept as far
    /// as the new policy has one. In a full cache items leave if the new policy's queues take more
    /// than the old one's; otherwise none is lost. The calling thread queues all items of
    /// the pool anew, some 100 to 300 ns for each, 1,024 of a size class at a time; other threads
    /// use the class in between. Hits of a class leave no trace meanwhile.
    ///
    /// # Errors
    /// As [`Self::check_pool_policy`].
    pub fn set_pool_policy(&self, pool: PoolId, policy: PolicyKind) -> Result<(), Error> {
        self.set_pool_policy_lazily(pool, policy)?;
        let core = self.core();
        core.convert(&*core.pool(pool)?, &mut { u32::MAX });
        Ok(())
    }

    /// Changes the eviction policy of a pool as [`Self::set_pool_policy`], and leaves it to
    /// [`Self::maintain`] to queue the items anew, a million in each round: for threads that
    /// others wait for. Until then size classes keep the policy that they have.
    ///
    /// # Errors
    /// As [`Self::check_pool_policy`].
    pub fn set_pool_policy_lazily(&self, pool: PoolId, policy: PolicyKind) -> Result<(), Error> {
        self.check_pool_policy(pool, policy)?;
        self.core().pool(pool)?.set_policy(policy);
        Ok(())
    }

    /// The eviction policy of a pool.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn pool_policy(&self, pool: PoolId) -> Result<PolicyKind, Error> {
        Ok(self.core().pool(pool)?.policy())
    }

    /// Returns an error if a pool could not be given this policy. Changes nothing.
    ///
    /// A size class takes 2 KB with S3-FIFO and SIEVE and up to 11 KB with other policies, whatever
    /// it holds.
    ///
    /// # Errors
    /// - [`crate::ErrorKind::NoSuchPool`];
    /// - [`crate::ErrorKind::OutOfMemory`] if the size classes of all pools would then take over
    ///   half of the memory.
    pub fn check_pool_policy(&self, pool: PoolId, policy: PolicyKind) -> Result<(), Error> {
        let core = self.core();
        let changed = core.pool(pool)?;
        if Class::bytes_with(policy) <= Class::bytes_with(changed.policy()) {
            return Ok(());
        }
        let mut by_kind: Vec<(PolicyKind, u64)> = Vec::new();
        for pool in core.pools.all().iter() {
            let kind = if pool.number == changed.number { policy } else { pool.policy() };
            let classes = pool.used_classes().count() as u64;
            match by_kind.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, sum)) => *sum += classes,
                None => by_kind.push((kind, classes)),
            }
        }
        let bytes = by_kind.iter().map(|(kind, classes)| classes * Class::bytes_with(*kind)).sum();
        let (memory, all) = (ByteSize::new(core.ledger.limit()), ByteSize::new(bytes));
        if bytes <= memory.as_u64() / LEAST_FOR_CHUNKS {
            return Ok(());
        }
        let name = &changed.name;
        let context = format!(
            "the size classes of all pools would take {all} if pool `{name}` had policy {policy}: over half of {memory}; choose \
             s3-fifo or sieve, fewer size classes, or more memory"
        );
        Err(Error::new(ErrorKind::OutOfMemory, context))
    }
}

impl Core {
    /// Gives the classes of pools whose policy was changed that policy, as far as a round gets.
    pub(crate) fn convert_where_due(&self) {
        self.convert_due(STEPS_PER_ROUND);
    }

    fn convert_due(&self, mut steps: u32) {
        for pool in self.pools.all().iter().filter(|pool| pool.upkeep.take_conversion()) {
            self.convert(pool, &mut steps);
            if steps == 0 {
                // The next round goes on with it.
                pool.upkeep.note_conversion();
                return;
            }
        }
    }

    /// Gives the classes of a pool the policy of the pool, in up to `steps` holds of their locks.
    /// Several threads may do so at once.
    fn convert(&self, pool: &Pool, steps: &mut u32) {
        for (_, class) in pool.used_classes() {
            while *steps > 0 && !pool.is_leaving() && self.convert_some(pool, class) {
                *steps -= 1;
                // Queues of the new policy may take more than those of the old one.
                self.keep_room();
            }
        }
    }

    /// Queues some items of a class anew, if it has another policy than its pool. Returns whether
    /// it had.
    fn convert_some(&self, pool: &Pool, class: &Class) -> bool {
        let mut inner = class.inner.lock();
        let seed = self.hash_seed(self.keyspace(class.info.keyspace));
        let Inner { chunks, policy, .. } = &mut *inner;
        let before = policy.kind();
        let view = View::with_seed(self, chunks, seed);
        let Conversion::Unfinished(emptied) =
            policy.convert(pool.policy(), CONVERTED_AT_ONCE, &view, self.now())
        else {
            return false;
        };
        let after = policy.kind();
        if after != before {
            // Runs that come and go count by the policy of the class, under this lock.
            let chunks = chunks.chunks();
            self.add_chunks(chunks, after);
            self.remove_chunks(chunks, before);
            inner.set_rate(after, self.now());
        }
        if after != before || emptied.is_some() {
            class.begin_hits_of_queues();
        }
        inner.settle(self);
        MutexGuard::unlock_fair(inner);
        // The memory of the old queues is given back without the lock.
        drop(emptied);
        true
    }
}

#[cfg(test)]
mod tests;
