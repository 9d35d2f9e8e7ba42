//! Hot keys of a pool: on, off, and the list of them.

use base::Part;
use base::rng::Share;

use super::{HotKey, HotKeys, HotKeysConfig};
use crate::cache::{Cache, Core};
use crate::error::Error;
use crate::pools::PoolId;

impl Cache {
    /// Begins to look for the hot keys of a pool, or ends it (`None`), while serving. Finds count,
    /// and where a pool has keys of its own, also those that find nothing; others find nothing in
    /// no pool. What was counted before is forgotten. Off at the start.
    ///
    /// A find pays for a random draw then; one that is in the sample counts under the lock of the
    /// pool's hot keys, and is left out where another thread has that.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`]; [`crate::ErrorKind::Config`] for figures out of range;
    /// [`crate::ErrorKind::OutOfMemory`] where held items keep the cache from making room.
    pub fn set_hot_keys(&self, pool: PoolId, config: Option<HotKeysConfig>) -> Result<(), Error> {
        config.as_ref().map_or(Ok(()), HotKeys::check)?;
        let core = self.core();
        drop(core.pool(pool)?);
        let spent = core.spend(config.map_or(0, |config| config.bytes()))?;
        let switching = core.watch.switching.lock();
        let found = core.pool(pool)?;
        spent.keep();
        let made = config.map(|config| Box::new(HotKeys::new(config, core.now())));
        let share = config.map_or(Share::one_in(0), |config| Share::one_in(config.one_in));
        let before = std::mem::replace(&mut *found.hot.keys.lock(), made);
        if let Some(before) = before {
            core.ledger.release(Part::Fixed, before.bytes() as u64);
        }
        found.hot.set_share(share);
        drop((found, switching));
        core.watch_as_pools_want();
        Ok(())
    }

    /// The `k` keys of a pool that had most accesses of late, the hottest first. Empty where nobody
    /// looks for them.
    ///
    /// ```
    /// use millpond::watch::HotKeysConfig;
    /// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// cache.set_hot_keys(pool, Some(HotKeysConfig { one_in: 1, ..HotKeysConfig::default() }))?;
    /// cache.put(cache.allocate(pool, b"popular", 0, &ItemOptions::default())?);
    /// for _ in 0..100 {
    ///     cache.find(b"popular");
    /// }
    /// let hot = cache.hot_keys(pool, 10)?;
    /// assert_eq!((hot[0].key.as_slice(), hot[0].accesses), (&b"popular"[..], 100));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn hot_keys(&self, pool: PoolId, k: usize) -> Result<Vec<HotKey>, Error> {
        let core = self.core();
        let found = core.pool(pool)?;
        let mut keys = found.hot.keys.lock();
        Ok(keys.as_mut().map_or_else(Vec::new, |keys| keys.top(k, core.now())))
    }
}

impl Core {
    /// Looks at as many finds for hot keys, and follows as many keys for curves, as the pools want
    /// that are there now.
    pub(crate) fn watch_as_pools_want(&self) {
        let _switching = self.watch.switching.lock();
        self.watch.sample_for_hot_keys(self.pools.all().iter().map(|pool| pool.hot.share()));
        self.watch.follow(self.pools.all().iter().map(|pool| pool.curves.below().max(pool.shadows.below())));
    }
}
