//! The curve of a pool: on, off, and the estimate so far.

use std::sync::atomic::Ordering;

use base::{ByteSize, Part};
use curve::sample::threshold;
use curve::{Estimator, Shards, Unit};

use super::{BUFFER, CurveConfig, Learner, POINTS, PoolCurve, miniature_bytes};
use crate::allocate::metadata_of;
use crate::cache::{Cache, Core};
use crate::class::{Class, INSERTS, REPLACED};
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::pools::PoolId;

impl Cache {
    /// Begins to learn the miss-ratio curve of a pool, or ends it (`None`), while serving. What was
    /// learnt before is forgotten. Off at the start.
    ///
    /// Calls on keys that are not followed pay for one comparison; what the others pay is in
    /// `docs/curves.md`. [`Self::maintain`] ages the curve.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`]; [`ErrorKind::Config`] for figures out of range;
    /// [`ErrorKind::OutOfMemory`] if less than a quarter of the memory would be left to items, or
    /// held items keep the cache from making room.
    pub fn set_curve(&self, pool: PoolId, config: Option<CurveConfig>) -> Result<(), Error> {
        config.as_ref().map_or(Ok(()), CurveConfig::check)?;
        let core = self.core();
        drop(core.pool(pool)?);
        let memory = core.ledger.limit();
        let bytes = config.map_or(0, |config| config.bytes_of_lru(memory));
        if bytes > 0 && !core.leaves_room_for_chunks(bytes) {
            let (limit, bytes) = (ByteSize::new(memory), ByteSize::new(bytes));
            let context = format!(
                "the curve takes {bytes}, which would leave less than a quarter of {limit} to items: follow fewer keys, watch \
                 fewer pools, or give the cache more memory"
            );
            return Err(Error::new(ErrorKind::OutOfMemory, context));
        }
        let spent = core.spend(bytes)?;
        let switching = core.watch.switching.lock();
        let found = core.pool(pool)?;
        spent.keep();
        let learner = config.map(|config| {
            let most = config.most_bytes(memory);
            Box::new(Learner {
                shards: Shards::new(Unit::Bytes, config.rate, config.keys).with_max_size(most),
                miniatures: None,
                charged_for_miniatures: 0,
                config,
                spare: Vec::with_capacity(BUFFER),
                reads_before: core.reads_of(&found),
                recorded: 0,
                passed: 0,
                aged_at_secs: core.now(),
                charged: bytes,
            })
        });
        let curves = &found.curves;
        let before = std::mem::replace(&mut *curves.learner.lock(), learner);
        *curves.costs.lock() = config.map(|_| Box::default());
        *curves.buffer.lock() = Vec::with_capacity(if config.is_some() { BUFFER } else { 0 });
        curves.lost.store(0, Ordering::Relaxed);
        curves.below.store(config.map_or(0, |config| threshold(config.rate)), Ordering::Relaxed);
        if let Some(before) = before {
            core.ledger.release(Part::Fixed, before.bytes());
        }
        drop((found, switching));
        core.watch_as_pools_want();
        Ok(())
    }

    /// The miss-ratio curve of a pool, as learnt so far; `None` where nobody learns it. Costs some
    /// 100 µs.
    ///
    /// ```
    /// use millpond::watch::CurveConfig;
    /// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig { own_keys: true, ..PoolConfig::named("users") })?;
    /// // So few keys that all can be followed.
    /// cache.set_curve(pool, Some(CurveConfig { rate: 1.0, ..CurveConfig::default() }))?;
    /// let keys = cache.keys(pool);
    /// for request in 0..3_000_u32 {
    ///     let key = (request % 1_000).to_le_bytes();
    ///     if keys.find(&key).is_none() {
    ///         cache.put(cache.allocate(pool, &key, 50, &ItemOptions::default())?);
    ///     }
    /// }
    /// let learnt = cache.curve(pool)?.expect("it is learnt");
    /// let (few, all) = (learnt.curve.miss_ratio(10_000.0), learnt.curve.miss_ratio(200_000.0));
    /// assert!(few > 0.99, "a loop misses everything in a cache that is too small");
    /// assert!(
    ///     (0.3..0.4).contains(&all),
    ///     "and only what comes for the first time in one that is not"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`].
    pub fn curve(&self, pool: PoolId) -> Result<Option<PoolCurve>, Error> {
        let core = self.core();
        core.charge_for_miniatures(pool)?;
        let found = core.pool(pool)?;
        let (memory_bytes, chunk_bytes, chunks) = core.memory_of(&found);
        let curves = &found.curves;
        let mut learner = curves.learner.lock();
        let Some(learner) = &mut *learner else { return Ok(None) };
        core.catch_up(&found, learner);
        learner.follow(found.policy(), (chunk_bytes, chunks));
        curves.below.store(learner.threshold(), Ordering::Relaxed);
        let curve = learner.shards.curve();
        let of_policy = learner.miniatures.as_ref().and_then(|(_, miniatures)| miniatures.curve(&curve));
        Ok(Some(PoolCurve {
            curve: curve.thinned(POINTS),
            of_policy: of_policy.map(|curve| curve.thinned(POINTS)),
            memory_per_byte: memory_bytes.max(1) as f64 / chunk_bytes.max(1) as f64,
            memory_bytes,
            rate: learner.shards.rate(),
            samples: learner.recorded,
            lost: curves.lost.load(Ordering::Relaxed),
            bytes: learner.bytes() as usize,
            miss_cost: curves.costs.lock().as_ref().and_then(|costs| costs.cost()),
        }))
    }

    /// Has what a pool's curve was learnt from so far count half, this many times: its load has
    /// become another one. Does nothing if the curve is not learnt.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchPool`].
    pub fn age_curve(&self, pool: PoolId, times: u32) -> Result<(), Error> {
        let found = self.core().pool(pool)?;
        if let Some(learner) = &mut *found.curves.learner.lock() {
            (0..times).for_each(|_| learner.age());
        }
        Ok(())
    }
}

impl Core {
    /// Charges the ledger for miniatures of the pool's policy, if there is room for them: they
    /// begin when the curve is first asked for, or when the policy becomes another. Of a policy
    /// that needs less, the rest is given back.
    fn charge_for_miniatures(&self, pool: PoolId) -> Result<(), Error> {
        let wanted = |pool: &Pool, learner: &Learner| miniature_bytes(pool.policy(), learner.config.keys);
        let (bytes, charged) = {
            let pool = self.pool(pool)?;
            let mut learner = pool.curves.learner.lock();
            let Some(learner) = &mut *learner else { return Ok(()) };
            let (bytes, charged) = (wanted(&pool, learner), learner.charged_for_miniatures);
            if bytes < charged {
                learner.miniatures = None;
                learner.charged_for_miniatures = bytes;
                self.ledger.release(Part::Fixed, charged - bytes);
            }
            (bytes, charged)
        };
        if bytes <= charged || !self.leaves_room_for_chunks(bytes - charged) {
            return Ok(());
        }
        // No lock is held, and no pool, while items make room.
        let Ok(spent) = self.spend(bytes - charged) else { return Ok(()) };
        let pool = self.pool(pool)?;
        // Another thread may have been as quick, or learning has begun anew.
        if let Some(learner) = &mut *pool.curves.learner.lock()
            && (wanted(&pool, learner), learner.charged_for_miniatures) == (bytes, charged)
        {
            learner.charged_for_miniatures = bytes;
            spent.keep();
        }
        Ok(())
    }

    /// Returns the pool's memory, as [`PoolCurve::memory_bytes`] has it, the number of bytes of
    /// chunks that makes, and the number of chunks.
    fn memory_of(&self, pool: &Pool) -> (u64, u64, u64) {
        let of_class = |(_, class): (u8, &Class)| {
            let inner = class.inner.lock();
            let chunks = inner.chunks.chunks();
            let memory = inner.chunks.bytes() + metadata_of(chunks, pool.policy());
            (memory, chunks * u64::from(class.info.chunk_bytes), chunks)
        };
        let classes = pool.used_classes().map(of_class);
        classes.fold((0, 0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2))
    }

    /// Requests to a pool, as its curve counts them.
    fn reads_of(&self, pool: &Pool) -> u64 {
        self.reads_and_misses_of(pool).0
    }

    /// The same, and the misses among them.
    pub(crate) fn reads_and_misses_of(&self, pool: &Pool) -> (u64, u64) {
        let (hits, new_keys) = pool.see_counts(|| {
            let past = pool.past.lock().as_deref().map(|past| (past.hits, past.inserts, past.replaced));
            let (mut hits, mut inserts, mut replaced) = past.unwrap_or_default();
            for (_, class) in pool.used_classes() {
                hits += class.hits();
                inserts += class.counters.sum(INSERTS);
                replaced += class.counters.sum(REPLACED);
            }
            (hits, inserts.saturating_sub(replaced))
        });
        let misses = if pool.keyspace == 0 { new_keys } else { self.keyspace(pool.keyspace).misses() };
        (hits + misses, misses)
    }

    fn catch_up(&self, pool: &Pool, learner: &mut Learner) {
        let reads = self.reads_of(pool);
        pool.curves.drain(learner);
        let halvings = learner.catch_up(reads, self.now());
        if let Some(costs) = pool.curves.costs.lock().as_deref_mut() {
            (0..halvings).for_each(|_| costs.age());
        }
        pool.curves.below.store(learner.threshold(), Ordering::Relaxed);
    }

    /// Lets the curves of all pools follow the time.
    pub(crate) fn tend_curves(&self) {
        if !self.watch.follows_any() {
            return;
        }
        let pools = self.pools.all();
        let mut learns = false;
        for pool in pools.iter().filter(|pool| pool.curves.below() > 0) {
            learns = true;
            if let Some(learner) = &mut *pool.curves.learner.lock() {
                self.catch_up(pool, learner);
            }
        }
        drop(pools);
        if learns {
            self.watch_as_pools_want();
        }
    }
}
