//! Configuration of a cache, of a pool and of an item, by the embedder.

use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteSize, Clock};
use evict::PolicyKind;
use slab::{ClassError, SLAB_BYTES, SizeClasses};

use crate::lifecycle::Lifecycle;
use crate::sizing::Tuning;
use crate::strategy::{OptimizerConfig, Strategy};

/// A cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// All memory that the cache may use. At least 8 MiB, at most 256 GiB and what the machine has.
    /// Default 64 MiB.
    pub memory: ByteSize,
    /// The most that [`crate::Cache::set_memory`] may ever be given: address space is reserved for
    /// it now, no memory. At most 256 GiB. Default: what the machine or the container has, or
    /// `memory` if there is no address space for that.
    pub max_memory: Option<ByteSize>,
    /// The source of time. Default: the system.
    pub clock: Clock,
    /// Seed of the key hash. Default: from the operating system, so that clients cannot aim at one
    /// bucket.
    pub hash_seed: Option<u64>,
    /// True to ask for transparent 2 MiB pages, which make look-ups in large caches faster.
    /// Default: yes.
    pub huge_pages: bool,
    /// A folder for the slabs, in a file system in memory such as `/dev/shm/my-cache`: the next
    /// cache that is made with it takes over what this one held, however this process ended. Made
    /// where it is not there; for one process at a time. Default: none, and the cache ends with the
    /// process.
    pub shared: Option<PathBuf>,
    /// Most slabs that a pool over its limit gives back in one round of
    /// [`crate::Cache::resize_pools`] and so of [`crate::Cache::maintain`], so that a round stays
    /// short. Default 5, as in CacheLib.
    pub resize_slabs: u64,
    /// Settings by which [`crate::Cache::maintain`] moves limits from pool to pool
    /// ([`crate::Cache::optimize`]). Default: none, and limits stay.
    pub optimizer: Option<OptimizerConfig>,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(64),
            max_memory: None,
            clock: Clock::System,
            hash_seed: None,
            huge_pages: true,
            shared: None,
            resize_slabs: 5,
            optimizer: None,
        }
    }
}

/// The choice of the chunk sizes of a pool.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeClassConfig {
    /// From `min` to `max` bytes, each `factor` times the one before.
    Factor {
        /// Default 1.25.
        factor: f64,
        /// Smallest chunk, in bytes. Default and least 64.
        min: u32,
        /// Largest chunk, in bytes. Default and most 4 MiB.
        max: u32,
    },
    /// These, in bytes.
    List(Vec<u32>),
}

impl Default for SizeClassConfig {
    fn default() -> Self {
        Self::Factor { factor: 1.25, min: slab::MIN_CHUNK_BYTES, max: SLAB_BYTES as u32 }
    }
}

impl SizeClassConfig {
    pub(crate) fn build(&self) -> Result<SizeClasses, ClassError> {
        match self {
            Self::Factor { factor, min, max } => SizeClasses::by_factor(*factor, *min, *max),
            Self::List(sizes) => SizeClasses::by_list(sizes),
        }
    }
}

/// A pool: a part of the cache with its own limit, policy and size classes.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its name, unique in the cache.
    pub name: String,
    /// Most memory that its slabs may take; rounded down to whole slabs of 4 MiB. Default: whatever
    /// is free.
    pub limit: Option<ByteSize>,
    /// Memory that other pools do not take from it ([`crate::Cache::reclaim`]), rounded down to
    /// whole slabs; what it does not use of that they may use meanwhile. All reserves and the index
    /// must fit into the memory together. Default: none.
    pub reserve: ByteSize,
    /// Its part of the memory beyond the reserves, against other pools that want some. 0: it takes
    /// nothing from others beyond its reserve, and gives what it has over that first. Default 1:
    /// equal parts.
    pub weight: u32,
    /// Its eviction policy. Default S3-FIFO.
    pub policy: PolicyKind,
    /// Its chunk sizes. Default by factor 1.25 from 64 B to 4 MiB.
    pub classes: SizeClassConfig,
    /// Settings by which its chunk sizes follow its items ([`crate::Cache::tune_classes`]): then
    /// `classes` are those that it begins with, and bound what they may become. Default: they stay
    /// as they are.
    pub tuning: Option<Tuning>,
    /// The strategy by which classes give slabs to each other, about once a second
    /// ([`crate::Cache::maintain`]). Default: if the one would clearly gain more hits than the
    /// other loses, or if its allocations fail ([`crate::strategy::ClearGain`]).
    pub strategy: Strategy,
    /// Hooks that are called when its items end, and that are asked whether they may be evicted.
    /// Default: none.
    pub lifecycle: Option<Arc<dyn Lifecycle>>,
    /// True if its keys are apart from those of other pools. Default: yes. Pools with `false` share
    /// one key space, as all do in CacheLib: inserting a key in one of them replaces it in another.
    pub own_keys: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            limit: None,
            reserve: ByteSize::new(0),
            weight: 1,
            policy: PolicyKind::default(),
            classes: SizeClassConfig::default(),
            tuning: None,
            strategy: Strategy::default(),
            lifecycle: None,
            own_keys: true,
        }
    }
}

impl PoolConfig {
    /// A pool of this name with all defaults.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// The time at which an item expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    #[default]
    Never,
    /// This many seconds from now; 0 = at once.
    After(u32),
    /// At this Unix time, in seconds. It is expired from the start of that second on.
    At(u32),
}

impl Expiry {
    /// This long from now. Items keep whole seconds: a part of one counts as a whole.
    /// (`millpond::typed::TypedCache` keeps milliseconds.)
    pub fn after(ttl: std::time::Duration) -> Self {
        let secs = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
        Self::After(u32::try_from(secs).unwrap_or(u32::MAX))
    }

    /// The Unix time, in seconds, with 0 for never.
    #[inline]
    pub(crate) fn to_unix_secs(self, now: impl Fn() -> u32) -> u32 {
        match self {
            Self::Never => 0,
            Self::After(secs) => now().saturating_add(secs),
            Self::At(time) => time.max(1),
        }
    }
}

/// The properties of an item besides key and value.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemOptions {
    /// The expiry time. An item that never does has no room for an expiry time (4 bytes) unless it
    /// has a tag or `expirable` is set.
    pub expiry: Expiry,
    /// True to keep room for an expiry time, so that one can be set later in place. Default: no;
    /// [`crate::Keys::touch`] then copies the item.
    pub expirable: bool,
    /// True if links can be chained to it ([`crate::WriteHandle::push_link`]), which takes 8 bytes.
    /// Implies `expirable`.
    pub chainable: bool,
    /// The number that memcached calls flags, for servers. Unless they are 0, they take 4 bytes and
    /// imply `expirable`. With a tag, they are the tag's.
    pub client_flags: u32,
    /// A tag, for servers: with an expiry time 20 bytes. An item that was made without one can be
    /// given it later ([`crate::Keys::give_tag`]). Implies `expirable`.
    pub tag: Option<ItemTag>,
    /// The item's two user bits at the start.
    pub user_bits: u8,
}

/// The values that memcached keeps with an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemTag {
    /// The CAS token.
    pub cas: u64,
    /// The client's flags.
    pub client_flags: u32,
}
