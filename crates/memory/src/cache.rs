//! The cache itself: what its clones share, and how pools are added.

mod validate;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use base::hash::key_hash;
use base::pin::Pins;
use base::{ByteSize, Clock, Ledger, Part, rng};
use evict::PolicyKind;
use index::Index;
use parking_lot::{Mutex, MutexGuard};
use slab::{Arena, ItemPtr, Run, SLAB_BYTES, Shared};

use crate::allocate::metadata_x100_of;
use crate::chain::ChainLocks;
use crate::class::Class;
use crate::config::{CacheConfig, PoolConfig};
use crate::error::{Error, ErrorKind};
use crate::fence::Fences;
use crate::idle::list::Idle;
use crate::keyspace::Keyspace;
use crate::lifecycle::{Hooks, LowerTier, RemovalCause};
use crate::maintenance::{MaintenanceStatus, MaintenanceThread};
use crate::pool::Pool;
use crate::pools::{FirstKeys, MAX_POOLS, PoolId, PoolRef, Pools};
use crate::recover::{EngineWords, Recovered, Unclaimed};
use crate::release::RetiredRuns;
use crate::room::search::Room;
use crate::share::sharing::Sharing;
use crate::sizing::Range;
use crate::stores::SharesMemory;
use crate::tail::Structures;
use crate::touch::touched::Touched;
use crate::tune::Tuner;
use crate::upkeep::PoolCursor;
use crate::vacant::count::Sum;
use crate::watch::Watch;

/// Least memory of a cache: a slab, and what is around it.
const MIN_MEMORY: u64 = 8 << 20;
/// Most memory of a cache: the slabs that pointers of 32 bits can name.
const MAX_MEMORY: u64 = (SLAB_BYTES as u64) << 16;

/// A cache. Cloning is cheap and shares it.
#[derive(Clone)]
pub struct Cache {
    /// Before `core`, so that the thread ends and drops its reference first.
    maintenance: Option<Arc<MaintenanceThread>>,
    core: Arc<Core>,
}

/// The state that all clones share.
pub(crate) struct Core {
    /// Itself, for handles that keep it alive.
    pub(crate) me: Weak<Core>,
    pub(crate) arena: Arena,
    pub(crate) index: Index,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Clock,
    pub(crate) pins: Pins,
    pub(crate) watch: Watch,
    /// Made for the first fence.
    pub(crate) fences: OnceLock<Arc<Fences>>,
    /// The store beneath memory, if there is one.
    pub(crate) lower_tier: OnceLock<Arc<dyn LowerTier>>,
    pub(crate) chain_locks: ChainLocks,
    seed: u64,
    max_memory: u64,
    /// The most memory that it was given yet, for which tables are charged.
    pub(crate) most_memory: AtomicU64,
    pub(crate) pools: Pools,
    /// Key space 0 is shared; pool `i` with keys of its own has key space `i + 1`.
    keyspaces: Box<[OnceLock<Box<Keyspace>>]>,
    /// The pool that was added first, and its key space.
    pub(crate) first_keys: FirstKeys,
    names: Mutex<HashMap<String, PoolId>>,
    /// The state that outlives the process, if any does.
    pub(crate) kept: Option<EngineWords>,
    pub(crate) sharing: Mutex<Sharing>,
    pub(crate) unclaimed: Mutex<Unclaimed>,
    pub(crate) recovered: Mutex<Recovered>,
    pub(crate) huge_pages: bool,
    pub(crate) structures: Structures,
    /// Slabs on their way back to the system.
    pub(crate) retired_runs: RetiredRuns,
    /// The stores whose memory is part of this cache's.
    pub(crate) stores: Mutex<Vec<Weak<dyn SharesMemory>>>,
    /// Chunks of all assigned slabs, and the memory that their queues, ghosts and index entries
    /// take when all are in use: in hundredths of a byte, so that it is the same whether runs are
    /// counted one by one or together.
    pub(crate) chunks: AtomicU64,
    pub(crate) metadata_x100: AtomicU64,
    /// Memory that queues and ghosts of all classes will yet take of that, in bytes.
    pub(crate) awaited_bytes: AtomicU64,
    /// Vacant memory of all pools.
    pub(crate) vacant: Sum,
    pub(crate) room: Room,
    pub(crate) idle: Idle,
    pub(crate) touched: Touched,
    pub(crate) rebalance_turn: PoolCursor,
    pub(crate) tune_turn: PoolCursor,
    pub(crate) flush_turn: PoolCursor,
    /// Pools that are being removed.
    pub(crate) removals: AtomicU64,
    /// True if a pool has wanted a slab in vain, or was held back for another one, since memory was
    /// last shared out.
    pub(crate) is_short: AtomicBool,
    /// Items that were removed with their pools.
    pub(crate) removed_with_pools: AtomicU64,
    #[cfg(test)]
    pub(crate) planted: crate::plant::Planted,
}

/// A weak reference to a [`Cache`], for objects that the cache owns, such as a
/// [`crate::secondary::SecondaryCache`]. Made by [`Cache::downgrade`].
#[derive(Clone)]
pub struct WeakCache(Weak<Core>);

impl WeakCache {
    /// The cache, if it is still in use.
    pub fn upgrade(&self) -> Option<Cache> {
        self.0.upgrade().map(|core| Cache { maintenance: None, core })
    }
}

impl std::fmt::Debug for WeakCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WeakCache")
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("ledger", &self.core.ledger).finish_non_exhaustive()
    }
}

/// The arena, and what outlives the process besides, if something does.
fn open_arena(
    config: &CacheConfig,
    memory: u64,
    max_slabs: u32,
) -> Result<(Arena, Option<EngineWords>), Error> {
    let failed = |what: &'static str| move |error| Error::with_source(ErrorKind::System, what, error);
    let Some(folder) = &config.shared else {
        let arena = Arena::reserve(max_slabs, config.huge_pages);
        return Ok((arena.map_err(failed("cannot reserve address space"))?, None));
    };
    let shared = failed("cannot open the shared cache");
    let files = Shared::open(folder).map_err(shared)?;
    let kept = EngineWords::new(files.engine_words());
    Ok((Arena::open(files, max_slabs, memory, config.huge_pages).map_err(shared)?, Some(kept)))
}

/// Gives runs back that no pool can have left. Returns how much memory they had, in bytes.
fn give_up_damaged(arena: &Arena, damaged: Vec<Run>) -> u64 {
    let bytes = damaged.iter().map(|run| run.bytes()).sum();
    for run in damaged {
        // SAFETY: nobody has seen the run, so that no pointer leads into it (invariant 3 of
        // `slab::arena`).
        unsafe { arena.give_back(run) };
    }
    bytes
}

/// The memory of a cache, and the most that it may ever have, in bytes.
fn limits(config: &CacheConfig) -> Result<(u64, u64), Error> {
    let memory = config.memory.as_u64();
    let refused = |context: String| Err(Error::new(ErrorKind::Config, context));
    if memory < MIN_MEMORY {
        let least = ByteSize::new(MIN_MEMORY);
        return refused(format!(
            "memory of {} is too little for a cache: give it at least {least}",
            config.memory
        ));
    }
    let most = ByteSize::new(MAX_MEMORY);
    if memory > MAX_MEMORY || config.max_memory.is_some_and(|bytes| bytes > most) {
        let asked = config.max_memory.unwrap_or(config.memory).max(config.memory);
        return refused(format!("a cache has at most {most}, not {asked}: make several for more"));
    }
    if let Some(machine) = base::machine::total_bytes()
        && memory > machine
    {
        return refused(format!(
            "memory of {} is more than this machine has, {}: give the cache less, so that others have some too",
            config.memory,
            ByteSize::new(machine)
        ));
    }
    let max_memory = match config.max_memory {
        Some(max_memory) => max_memory.as_u64(),
        None => default_max_memory(config, memory),
    };
    if max_memory < memory {
        return refused("max_memory is below memory: raise it or leave it out".to_owned());
    }
    Ok((memory, max_memory))
}

/// As much as the machine has, if address space for that is to be had and a file may be that long;
/// else `memory`.
fn default_max_memory(config: &CacheConfig, memory: u64) -> u64 {
    let machine = base::machine::memory_bytes().min(MAX_MEMORY);
    let is_there = Arena::may_reserve(slabs_for(machine), config.shared.is_some());
    if is_there { machine.max(memory) } else { memory }
}

/// Returns the number of slabs for this much memory: one for each part of a slab's length, and a
/// few more, as units of split slabs may be without memory.
fn slabs_for(memory: u64) -> u32 {
    let slabs = memory.div_ceil(SLAB_BYTES as u64);
    (slabs + slabs / SPARE_PART + 1).min(1 << 16) as u32
}

/// There is one spare slab for this many.
const SPARE_PART: u64 = 16;

/// Memory of the tables of an arena of as many slabs as `memory` has, in bytes: a word and an
/// ordinal for each. Those of more slabs take none until there are some.
pub(crate) fn table_bytes(memory: u64) -> u64 {
    memory / SLAB_BYTES as u64 * 12
}

impl Cache {
    /// A cache without pools. Reserves address space; memory is taken as items come.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for sizes out of range, and for more memory than the machine has, swap
    /// included; [`ErrorKind::System`] where no address space is to be had.
    pub fn new(config: CacheConfig) -> Result<Self, Error> {
        let (memory, max_memory) = limits(&config)?;
        let max_slabs = slabs_for(max_memory);
        let system = |error| Error::with_source(ErrorKind::System, "cannot reserve address space", error);
        let ledger = Arc::new(Ledger::new(memory));
        let (arena, kept) = open_arena(&config, memory, max_slabs)?;
        let (unclaimed, damaged) =
            kept.as_ref().map(|kept| Unclaimed::new(kept, arena.found())).unwrap_or_default();
        let lost_bytes = arena.lost_bytes() + give_up_damaged(&arena, damaged);
        ledger.charge(Part::Slabs, arena.bytes());
        // The smallest item takes a chunk of 64 bytes.
        let max_entries = u64::from(max_slabs) * (SLAB_BYTES as u64 / u64::from(slab::MIN_CHUNK_BYTES));
        // All chunks that were left behind must find a place.
        let entries = (unclaimed.chunks() + unclaimed.chunks() / 16).max(INITIAL_ENTRIES);
        let index = Index::new(entries, max_entries, Arc::clone(&ledger)).map_err(system)?;
        let keyspaces: Box<[_]> = (0..=MAX_POOLS).map(|_| OnceLock::new()).collect();
        let _ = keyspaces[0].set(Box::new(keyspace(kept.as_ref(), 0)));
        let pools = Pools::new();
        let tables = pools.table_bytes() + size_of_val::<[OnceLock<Box<Keyspace>>]>(&keyspaces);
        let structures = Structures::new();
        ledger.charge(Part::Fixed, tables as u64 + table_bytes(memory) + structures.bytes());
        let cache = Self {
            maintenance: None,
            core: Arc::new_cyclic(|me| Core {
                me: Weak::clone(me),
                arena,
                index,
                ledger,
                clock: config.clock,
                pins: Pins::new(),
                watch: Watch::default(),
                fences: OnceLock::new(),
                lower_tier: OnceLock::new(),
                chain_locks: ChainLocks::default(),
                seed: config.hash_seed.unwrap_or_else(rng::entropy_seed),
                max_memory,
                most_memory: AtomicU64::new(memory),
                pools,
                keyspaces,
                first_keys: FirstKeys::default(),
                names: Mutex::new(HashMap::new()),
                kept,
                sharing: Mutex::new(Sharing::new(config.optimizer, config.resize_slabs)),
                unclaimed: Mutex::new(unclaimed),
                recovered: Mutex::new(Recovered { lost_bytes, ..Recovered::default() }),
                huge_pages: config.huge_pages,
                structures,
                retired_runs: RetiredRuns::default(),
                stores: Mutex::default(),
                chunks: AtomicU64::new(0),
                metadata_x100: AtomicU64::new(0),
                awaited_bytes: AtomicU64::new(0),
                vacant: Sum::default(),
                room: Room::default(),
                idle: Idle::default(),
                touched: Touched::default(),
                rebalance_turn: PoolCursor::default(),
                tune_turn: PoolCursor::default(),
                flush_turn: PoolCursor::default(),
                removals: AtomicU64::new(0),
                is_short: AtomicBool::new(false),
                removed_with_pools: AtomicU64::new(0),
                #[cfg(test)]
                planted: crate::plant::Planted::default(),
            }),
        };
        cache.core.keep_limit_of_found();
        Ok(cache)
    }

    /// A reference that does not keep the cache in use.
    pub fn downgrade(&self) -> WeakCache {
        WeakCache(Arc::downgrade(&self.core))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// The same cache without a hold of the thread that maintains it.
    pub(crate) fn unattended(&self) -> Self {
        Self { maintenance: None, core: Arc::clone(&self.core) }
    }

    /// Returns what the thread that [`Self::maintained`] started has done. `None`: this cache was
    /// made without it.
    pub fn maintenance_status(&self) -> Option<MaintenanceStatus> {
        self.maintenance.as_ref().map(|thread| thread.status())
    }

    /// The same cache, which the thread maintains as long as there are clones of it.
    pub(crate) fn attended_by(self, thread: MaintenanceThread) -> Self {
        Self { maintenance: Some(Arc::new(thread)), core: self.core }
    }

    /// Adds a pool, while serving.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for size classes that make no sense, [`ErrorKind::PoolExists`] for a
    /// name that is taken or where there are 4,096 pools.
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
        let make = || {
            self.core.ledger.charge(Part::Fixed, size_of::<Keyspace>() as u64);
            Box::new(keyspace(kept, keyspace_id))
        };
        let space = self.core.keyspaces[usize::from(keyspace_id)].get_or_init(make);
        if keyspace_id != 0 && !self.core.unclaimed.lock().reserves(number) {
            space.reset();
        }
        if let Some(kept) = kept {
            kept.note_name(number, &config.name);
        }
        let limit = config.limit.map_or(u64::MAX, ByteSize::as_u64);
        let name = config.name.clone();
        let range = Range::of(sizes.sizes());
        let sizes =
            if config.tuning.is_some() { self.sizes_left(number, &range).unwrap_or(sizes) } else { sizes };
        let mut pool = Pool::new(id, keyspace_id, name, config.policy, sizes, limit, config.strategy);
        pool.range = range;
        pool.set_share(config.reserve, config.weight);
        pool.hooks = config.lifecycle.map(|hooks| Arc::new(Hooks::new(hooks)));
        if config.tuning.is_some() {
            pool.upkeep.note_tuning();
        }
        *pool.tuner.lock() = config.tuning.map(|tuning| Box::new(Tuner::new(tuning, self.core.now())));
        let has_shadows = pool.rebalancer.get_mut().strategy().needs_shadows();
        pool.shadows.switch(has_shadows);
        self.core.ledger.charge(Part::Fixed, pool.fixed_bytes());
        self.core.pools.add(pool);
        if has_shadows {
            self.core.watch_as_pools_want();
        }
        self.core.first_keys.note(id, keyspace_id);
        let displaced = self.recover_pool(id);
        names.insert(config.name, id);
        drop(names);
        displaced.into_iter().for_each(|ptr| self.core.finish_removal(ptr, RemovalCause::Evicted, false));
        if self.core.kept.is_some() {
            self.core.keep_limit_of_claimed();
        }
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

pub(crate) fn no_such_pool(id: PoolId) -> Error {
    Error::new(ErrorKind::NoSuchPool, format!("there is no pool number {} in this cache", id.0))
}

/// A key space: kept with what outlives the process, where something does.
fn keyspace(kept: Option<&EngineWords>, id: u16) -> Keyspace {
    kept.map_or_else(|| Keyspace::new(id), |kept| kept.keyspace(id))
}

/// Entries that the index has room for at the start: 64 KiB of buckets.
const INITIAL_ENTRIES: u64 = 8_192;

impl Core {
    /// The pool, if it exists. If it is still being recovered, waits until that is over (invariant
    /// 6 of [`crate::recover`]).
    #[inline]
    pub(crate) fn pool(&self, id: PoolId) -> Result<PoolRef<'_>, Error> {
        let pool = self.pools.get(id).ok_or_else(|| no_such_pool(id))?;
        pool.recovered.wait();
        Ok(pool)
    }

    /// The number that a pool of this name shall have: that of the slabs that it left, or the first
    /// one that is free.
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
    /// For as long as the result is used, the caller has an item or a chunk of the slab, as
    /// [`crate::pools`] says, or uses the table of pools.
    #[inline]
    pub(crate) unsafe fn class_of(&self, info: slab::SlabInfo) -> &Class {
        // SAFETY: the caller has an item or a chunk of the run, or uses the table, so that the pool
        // is there (invariants 1 and 2 of `pools`).
        let pool = unsafe { self.pools.of_run(info.pool) };
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

    /// The hash of the key of an item that is in the index, whose bucket is locked, or whose chunk
    /// is owned.
    ///
    /// # Safety
    /// As for [`slab::Item::key`].
    pub(crate) unsafe fn hash_of_item(&self, ptr: ItemPtr) -> u64 {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the caller meets the duties of `key`, so that the item is not freed (invariants 2
        // and 5 of `slab::item`).
        self.hash(self.keyspace(info.keyspace), unsafe { item.key() })
    }

    /// Gives one reference back, and the chunk with the last.
    #[inline]
    pub(crate) fn release(&self, ptr: ItemPtr) {
        self.check_unpinned();
        if self.arena.item(ptr).0.state().release() {
            self.free(ptr);
        }
    }

    /// Counts the chunks of a run that a class with `policy` got.
    pub(crate) fn add_chunks(&self, chunks: u64, policy: PolicyKind) {
        self.chunks.fetch_add(chunks, Ordering::Relaxed);
        self.metadata_x100.fetch_add(metadata_x100_of(chunks, policy), Ordering::Relaxed);
    }

    /// Counts the chunks of a run that left a class with `policy`.
    pub(crate) fn remove_chunks(&self, chunks: u64, policy: PolicyKind) {
        self.chunks.fetch_sub(chunks, Ordering::Relaxed);
        self.metadata_x100.fetch_sub(metadata_x100_of(chunks, policy), Ordering::Relaxed);
    }
}
