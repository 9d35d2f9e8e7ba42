//! The cache itself: what is shared, and how pools come to be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use base::hash::key_hash;
use base::pin::Pins;
use base::{ByteSize, Clock, Ledger, Part, rng};
use index::Index;
use parking_lot::{Mutex, MutexGuard};
use slab::{Arena, ItemPtr, SLAB_BYTES, Shared};

use crate::chain::ChainLocks;
use crate::class::Class;
use crate::compact::Store;
use crate::config::{CacheConfig, PoolConfig};
use crate::error::{Error, ErrorKind};
use crate::keyspace::Keyspace;
use crate::life::Life;
use crate::pool::Pool;
use crate::pools::{PoolRef, Pools};
use crate::recover::{Kept, Recovered, Unclaimed};
use crate::share::Sharing;
use crate::sizing::Range;
use crate::structured::Structures;
use crate::touch::Touched;
use crate::tune::Tuner;
use crate::watch::Watch;

/// Most pools of a cache.
pub(crate) const MAX_POOLS: usize = 4096;
/// Least memory of a cache: a slab, and what is around it.
const MIN_MEMORY: u64 = 8 << 20;

/// Names a pool of the cache that made it: its number, and how many pools have had that number before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub(crate) u16, pub(crate) u16);

impl PoolId {
    /// The pool's number: the lowest that was free when it was added.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// A cache. Cloning is cheap and shares it.
#[derive(Clone)]
pub struct Cache {
    core: Arc<Core>,
}

/// What all clones share.
pub(crate) struct Core {
    pub(crate) arena: Arena,
    pub(crate) index: Index,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Clock,
    pub(crate) pins: Pins,
    pub(crate) watch: Watch,
    pub(crate) chain_locks: ChainLocks,
    seed: u64,
    max_memory: u64,
    pub(crate) pools: Pools,
    /// Key space 0 is shared; pool `i` with keys of its own has key space `i + 1`.
    keyspaces: Box<[OnceLock<Box<Keyspace>>]>,
    names: Mutex<HashMap<String, PoolId>>,
    /// What outlives the process, where something does.
    pub(crate) kept: Option<Kept>,
    pub(crate) sharing: Mutex<Sharing>,
    pub(crate) unclaimed: Mutex<Unclaimed>,
    pub(crate) recovered: Mutex<Recovered>,
    pub(crate) huge_pages: bool,
    pub(crate) structures: Structures,
    /// The compact caches whose memory is part of this cache's.
    pub(crate) compact: Mutex<Vec<Weak<Store>>>,
    /// Chunks of all assigned slabs, and the memory that their queues, ghosts and index entries take when all are in
    /// use.
    pub(crate) chunks: AtomicU64,
    pub(crate) metadata_bytes: AtomicU64,
    pub(crate) touched: Touched,
    /// Items that were removed with their pools.
    pub(crate) removed_with_pools: AtomicU64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("ledger", &self.core.ledger).finish_non_exhaustive()
    }
}

/// The memory of a cache, and the most that it may ever have, in bytes.
fn limits(config: &CacheConfig) -> Result<(u64, u64), Error> {
    let memory = config.memory.as_u64();
    let max_memory = config.max_memory.map_or(memory, ByteSize::as_u64);
    if memory < MIN_MEMORY {
        let least = ByteSize::new(MIN_MEMORY);
        return Err(Error::new(
            ErrorKind::Config,
            format!("memory of {} is too little for a cache: give it at least {least}", config.memory),
        ));
    }
    if max_memory < memory {
        return Err(Error::new(ErrorKind::Config, "max_memory is below memory: raise it or leave it out"));
    }
    Ok((memory, max_memory))
}

impl Cache {
    /// A cache without pools. Reserves address space; memory is taken as items come.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for sizes out of range, [`ErrorKind::System`] where no address space is to be had.
    pub fn new(config: CacheConfig) -> Result<Self, Error> {
        let (memory, max_memory) = limits(&config)?;
        let max_slabs = (max_memory / SLAB_BYTES as u64).min(1 << 16) as u32;
        let system = |error| Error::with_source(ErrorKind::System, "cannot reserve address space", error);
        let ledger = Arc::new(Ledger::new(memory));
        let (arena, kept) = match &config.shared {
            None => (Arena::reserve(max_slabs, config.huge_pages).map_err(system)?, None),
            Some(folder) => {
                let shared =
                    |error| Error::with_source(ErrorKind::System, "cannot open the shared cache", error);
                let files = Shared::open(folder).map_err(shared)?;
                let kept = Kept::new(files.engine_words());
                (Arena::open(files, max_slabs, config.huge_pages).map_err(shared)?, Some(kept))
            }
        };
        let unclaimed = kept.as_ref().map(|kept| Unclaimed::new(kept, arena.found())).unwrap_or_default();
        ledger.charge(Part::Slabs, unclaimed.slab_count() as u64 * SLAB_BYTES as u64);
        // The smallest item takes a chunk of 64 bytes.
        let max_entries = u64::from(max_slabs) * (SLAB_BYTES as u64 / u64::from(slab::MIN_CHUNK_BYTES));
        // What was left behind is all to find a place.
        let entries = (unclaimed.chunks() + unclaimed.chunks() / 16).max(INITIAL_ENTRIES);
        let index = Index::new(entries, max_entries, Arc::clone(&ledger)).map_err(system)?;
        let keyspaces: Box<[_]> = (0..=MAX_POOLS).map(|_| OnceLock::new()).collect();
        let _ = keyspaces[0].set(Box::new(keyspace(kept.as_ref(), 0)));
        let pools = Pools::new();
        let fixed = pools.table_bytes()
            + size_of_val::<[OnceLock<Box<Keyspace>>]>(&keyspaces)
            + max_slabs as usize * 12;
        let structures = Structures::new();
        ledger.charge(Part::Fixed, fixed as u64 + structures.bytes());
        Ok(Self {
            core: Arc::new(Core {
                arena,
                index,
                ledger,
                clock: config.clock,
                pins: Pins::new(),
                watch: Watch::default(),
                chain_locks: ChainLocks::default(),
                seed: config.hash_seed.unwrap_or_else(rng::entropy_seed),
                max_memory,
                pools,
                keyspaces,
                names: Mutex::new(HashMap::new()),
                kept,
                sharing: Mutex::new(Sharing::new(config.optimizer, config.resize_slabs)),
                unclaimed: Mutex::new(unclaimed),
                recovered: Mutex::default(),
                huge_pages: config.huge_pages,
                structures,
                compact: Mutex::default(),
                chunks: AtomicU64::new(0),
                metadata_bytes: AtomicU64::new(0),
                touched: Touched::default(),
                removed_with_pools: AtomicU64::new(0),
            }),
        })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Adds a pool, while serving.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for size classes that make no sense, [`ErrorKind::PoolExists`] for a name that is taken
    /// or where there are 4,096 pools.
    pub fn add_pool(&self, config: PoolConfig) -> Result<PoolId, Error> {
        let sizes = config.classes.build().map_err(|error| {
            Error::with_source(ErrorKind::Config, format!("size classes of pool `{}`", config.name), error)
        })?;
        self.core.free_retired();
        let mut names = self.names();
        if names.contains_key(&config.name) {
            return Err(Error::new(
                ErrorKind::PoolExists,
                format!("there is a pool `{}` already, or one is being removed", config.name),
            ));
        }
        let number = self.core.vacant_number(&config.name)?;
        let id = self.core.pools.id_of(number);
        let keyspace_id = if config.own_keys { number + 1 } else { 0 };
        let kept = self.core.kept.as_ref();
        let make = || Box::new(keyspace(kept, keyspace_id));
        let space = self.core.keyspaces[usize::from(keyspace_id)].get_or_init(make);
        if keyspace_id != 0 && !self.core.unclaimed.lock().reserves(number) {
            space.reset();
        }
        if let Some(kept) = kept {
            kept.note_name(number, &config.name);
        }
        let limit = config.limit.map_or(u64::MAX, ByteSize::as_u64);
        let name = config.name.clone();
        let range = Range::of(&sizes);
        let sizes =
            if config.tuning.is_some() { self.sizes_left(number, &range).unwrap_or(sizes) } else { sizes };
        let mut pool = Pool::new(id, keyspace_id, name, config.policy, sizes, limit, config.strategy);
        pool.range = range;
        pool.set_share(config.reserve, config.weight);
        pool.hooks = config.lifecycle.map(|hooks| Arc::new(Life::new(hooks)));
        *pool.tuner.lock() = config.tuning.map(|tuning| Box::new(Tuner::new(tuning, self.core.now())));
        self.core.ledger.charge(Part::Fixed, pool.fixed_bytes());
        self.core.pools.add(pool);
        self.recover_pool(id);
        names.insert(config.name, id);
        Ok(id)
    }

    /// The pool of this name.
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        let id = self.names().get(name).copied()?;
        self.core.pools.get(id).map(|_| id)
    }

    /// The pools by name. Who has it locked is the only one who adds or removes pools.
    pub(crate) fn names(&self) -> MutexGuard<'_, HashMap<String, PoolId>> {
        self.core.names.lock()
    }

    /// The bill of all memory. An embedder charges its own buffers here, so that they count.
    pub fn ledger(&self) -> &Ledger {
        &self.core.ledger
    }

    /// The clock that expiry goes by.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The most memory that [`Self::set_memory`] accepts.
    pub fn max_memory(&self) -> ByteSize {
        ByteSize::new(self.core.max_memory)
    }
}

/// A key space: kept with what outlives the process, where something does.
fn keyspace(kept: Option<&Kept>, id: u16) -> Keyspace {
    kept.map_or_else(|| Keyspace::new(id), |kept| kept.keyspace(id))
}

/// Entries that the index has room for at the start: 64 KiB of buckets.
const INITIAL_ENTRIES: u64 = 8_192;

impl Core {
    /// The pool, if it exists.
    #[inline]
    pub(crate) fn pool(&self, id: PoolId) -> Result<PoolRef<'_>, Error> {
        self.pools.get(id).ok_or_else(|| {
            Error::new(ErrorKind::NoSuchPool, format!("there is no pool number {} in this cache", id.0))
        })
    }

    /// The number that a pool of this name shall have: that of the slabs that it left, or the first one that is free.
    fn vacant_number(&self, name: &str) -> Result<u16, Error> {
        let unclaimed = self.unclaimed.lock();
        if let Some(number) = unclaimed.id_of(name).filter(|number| self.pools.is_vacant(*number)) {
            return Ok(number);
        }
        let is_free = |number: &u16| !unclaimed.reserves(*number) && self.pools.is_vacant(*number);
        (0..MAX_POOLS as u16).find(is_free).ok_or_else(|| {
            Error::new(ErrorKind::PoolExists, format!("a cache has at most {MAX_POOLS} pools"))
        })
    }

    /// A key space that is known to exist: that of a pool, or 0.
    #[inline]
    pub(crate) fn keyspace(&self, id: u16) -> &Keyspace {
        self.keyspaces[usize::from(id)].get().expect("a key space is made before its pool")
    }

    /// The class that a chunk belongs to.
    ///
    /// # Safety
    /// For as long as the result is used, the caller has an item or a chunk of the slab, as [`crate::pools`] says, or uses the
    /// table of pools.
    #[inline]
    pub(crate) unsafe fn class_of(&self, info: slab::SlabInfo) -> &Class {
        // SAFETY: passed on.
        let pool = unsafe { self.pools.of_slab(info.pool) };
        pool.used_class(info.class).expect("a slab is assigned to a class that exists")
    }

    /// Now, in Unix seconds.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.clock.unix_secs()
    }

    /// The seed of key hashes in a key space.
    #[inline]
    pub(crate) fn hash_seed(&self, keyspace: &Keyspace) -> u64 {
        self.seed ^ keyspace.salt
    }

    #[inline]
    pub(crate) fn hash(&self, keyspace: &Keyspace, key: &[u8]) -> u64 {
        key_hash(self.hash_seed(keyspace), key)
    }

    /// The hash of the key of an item that is in the index, whose bucket is locked, or whose chunk is owned.
    ///
    /// # Safety
    /// As for [`slab::Item::key`].
    pub(crate) unsafe fn hash_of_item(&self, ptr: ItemPtr) -> u64 {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: passed on.
        self.hash(self.keyspace(info.keyspace), unsafe { item.key() })
    }

    /// Gives one reference back, and the chunk with the last.
    #[inline]
    pub(crate) fn release(&self, ptr: ItemPtr) {
        if self.arena.item(ptr).0.state().release() {
            self.free(ptr);
        }
    }

    /// The compact caches that there are.
    pub(crate) fn compact_stores(&self) -> Vec<Arc<Store>> {
        self.compact.lock().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn add_chunks(&self, chunks: u64, metadata_bytes: u64) {
        self.chunks.fetch_add(chunks, Ordering::Relaxed);
        self.metadata_bytes.fetch_add(metadata_bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_chunks(&self, chunks: u64, metadata_bytes: u64) {
        self.chunks.fetch_sub(chunks, Ordering::Relaxed);
        self.metadata_bytes.fetch_sub(metadata_bytes, Ordering::Relaxed);
    }
}

impl Cache {
    /// Walks everything and checks the invariants that tie the parts together. For tests, on a cache at rest.
    ///
    /// # Panics
    /// Where one does not hold, naming it.
    pub fn validate(&self) {
        let core = &self.core;
        let mut indexed = 0;
        for pool in core.pools.all().iter() {
            let mut slabs = 0;
            for (number, class) in pool.used_classes() {
                core.fold_magazines(class);
                let inner = class.inner.lock();
                let info = inner.chunks.info();
                assert_eq!((info.pool, info.class), (pool.number, number), "a class's slabs name the class");
                let view = crate::class::View::new(core, &inner.chunks);
                inner.policy.validate(&view);
                slabs += inner.chunks.slab_count() as u64;
                let (mut items, mut queued, mut links) = (0, 0, 0);
                for slab in inner.chunks.slabs().collect::<Vec<_>>() {
                    assert_eq!(core.arena.info(slab), info, "the slab table says whose a slab is");
                    for number in 0..info.chunks_per_slab() {
                        let ptr = ItemPtr::new(slab, number as u16);
                        let state = core.arena.item(ptr).0.state();
                        queued += usize::from(state.is_queued());
                        // SAFETY: the item is in the index or in a chain, and nobody changes that.
                        if state.is_indexed() && unsafe { core.arena.item(ptr).0.is_link() } {
                            links += 1;
                            assert!(core.is_chained(ptr), "a link is in the chain of its item");
                        } else if state.is_indexed() {
                            items += 1;
                            assert!(state.is_queued(), "an item in the index is in its queue");
                            // SAFETY: the item is in the index, and the class's lock keeps it from being evicted.
                            let hash = unsafe { core.hash_of_item(ptr) };
                            assert!(core.index.contains(hash, ptr), "an indexed item is found in the index");
                        }
                    }
                }
                assert_eq!(queued, inner.policy.len(), "the policy counts what is queued");
                assert_eq!(items, class.items(), "the counters count the items");
                assert_eq!(links, class.links(), "the counters count the links");
                indexed += items;
            }
            assert_eq!(slabs * SLAB_BYTES as u64, pool.slab_bytes(), "a pool counts its slabs");
        }
        assert_eq!(core.index.len(), indexed, "the index has an entry per item");
        let slabs = u64::from(core.arena.assigned_slabs()) * SLAB_BYTES as u64;
        assert_eq!(core.ledger.part(Part::Slabs), slabs, "the bill counts the slabs");
    }
}
