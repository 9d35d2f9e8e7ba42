//! Millpond's engine inside this process.

use std::path::PathBuf;

use millpond::{
    ByteSize, Cache, CacheConfig, Clock, Error, Expiry, ItemOptions, Keys, PolicyKind, PoolConfig, PoolId,
    ReadHandle, SizeClassConfig, strategy::Strategy,
};

use super::{Direct, DirectSession, Holdings};

/// The settings of an embedded cache.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// All memory of the cache. Default 64 MiB.
    pub memory: ByteSize,
    /// The eviction policy of its pools. Default S3-FIFO.
    pub policy: PolicyKind,
    /// The chunk sizes of its pools. Default by factor 1.25.
    pub classes: SizeClassConfig,
    /// The policy that rebalances slabs, whenever [`Cache::rebalance`] is called. Default as the
    /// engine has it.
    pub strategy: Strategy,
    /// The source of time. Default the system.
    pub clock: Clock,
    /// A folder in memory that keeps the cache when it ends. Default none.
    pub shared: Option<PathBuf>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(64),
            policy: PolicyKind::default(),
            classes: SizeClassConfig::default(),
            strategy: PoolConfig::default().strategy,
            clock: Clock::System,
            shared: None,
        }
    }
}

/// A pool to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// The name.
    pub name: String,
    /// The most memory for its slabs; none: whatever is free.
    pub limit: Option<ByteSize>,
}

/// A cache with a pool for each of the workload's.
#[derive(Debug)]
pub struct Embedded {
    cache: Cache,
    pools: Vec<PoolId>,
    description: String,
}

impl Embedded {
    /// Makes a cache with pools of these names, at least one.
    ///
    /// # Errors
    /// Where the engine refuses the options.
    pub fn new(options: &EmbeddedOptions, pools: &[&str]) -> Result<Self, Error> {
        let shapes: Vec<_> =
            pools.iter().map(|name| PoolShape { name: (*name).to_owned(), limit: None }).collect();
        Self::shaped(options, &shapes)
    }

    /// Makes a cache with these pools, at least one.
    ///
    /// # Errors
    /// Where the engine refuses the options.
    pub fn shaped(options: &EmbeddedOptions, pools: &[PoolShape]) -> Result<Self, Error> {
        let clock = options.clock.clone();
        let cache = Cache::new(CacheConfig {
            memory: options.memory,
            clock,
            shared: options.shared.clone(),
            ..CacheConfig::default()
        })?;
        let pool = |shape: &PoolShape| {
            cache.add_pool(PoolConfig {
                policy: options.policy,
                classes: options.classes.clone(),
                limit: shape.limit,
                strategy: options.strategy.clone(),
                own_keys: false,
                ..PoolConfig::named(shape.name.clone())
            })
        };
        let pools = pools.iter().map(pool).collect::<Result<_, _>>()?;
        let description = format!("embedded, {}, {}", options.memory, options.policy);
        Ok(Self { cache, pools, description })
    }

    /// Its pools, in the order in which they were asked for.
    pub fn pools(&self) -> &[PoolId] {
        &self.pools
    }

    /// The cache itself.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

impl Direct for Embedded {
    type Session<'a> = EmbeddedSession<'a>;

    fn session(&self) -> EmbeddedSession<'_> {
        let keys = self.pools.iter().map(|pool| (*pool, self.cache.keys(*pool))).collect();
        EmbeddedSession { cache: &self.cache, pools: keys, found: Vec::new() }
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn holdings(&self) -> Option<Holdings> {
        let stats = self.cache.stats();
        let sum =
            |field: fn(&millpond::ClassStats) -> u64| stats.pools.iter().map(|pool| pool.sum(field)).sum();
        Some(Holdings {
            items: sum(|class| class.items),
            evictions: sum(|class| class.evictions),
            memory_bytes: stats.memory.iter().map(|(_, bytes)| bytes).sum(),
        })
    }
}

/// One thread's calls.
pub struct EmbeddedSession<'a> {
    cache: &'a Cache,
    pools: Vec<(PoolId, Keys<'a>)>,
    found: Vec<Option<ReadHandle<'a>>>,
}

impl DirectSession for EmbeddedSession<'_> {
    #[inline]
    fn get(&mut self, pool: u16, key: &[u8], seen: impl FnOnce(&[u8])) -> bool {
        let found = self.pools[usize::from(pool)].1.find(key);
        if let Some(item) = &found {
            seen(item.value());
        }
        found.is_some()
    }

    fn get_many(&mut self, pool: u16, keys: &[&[u8]], mut seen: impl FnMut(usize, &[u8])) {
        self.pools[usize::from(pool)].1.find_many(keys, &mut self.found);
        for (i, item) in self.found.drain(..).enumerate() {
            if let Some(item) = item {
                seen(i, item.value());
            }
        }
    }

    #[inline]
    fn set(&mut self, pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> bool {
        let options = ItemOptions { expiry: expiry(ttl_secs), ..ItemOptions::default() };
        match self.cache.allocate(self.pools[usize::from(pool)].0, key, value.len(), &options) {
            Ok(mut item) => {
                item.value_mut().copy_from_slice(value);
                self.cache.put(item);
                true
            }
            Err(_) => false,
        }
    }

    fn delete(&mut self, pool: u16, key: &[u8]) -> bool {
        self.pools[usize::from(pool)].1.remove(key)
    }

    fn touch(&mut self, pool: u16, key: &[u8], ttl_secs: u32) -> bool {
        self.pools[usize::from(pool)].1.touch(key, expiry(ttl_secs))
    }
}

fn expiry(ttl_secs: u32) -> Expiry {
    if ttl_secs == 0 { Expiry::Never } else { Expiry::After(ttl_secs) }
}
