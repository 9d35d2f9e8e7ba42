//! Taking over what another process left in shared memory.
//!
//! Slabs, their table, item headers and what was flushed lie in files in memory ([`crate::CacheConfig::shared`]); the index,
//! the queues and the free lists do not. They are made anew from the slabs: each chunk is looked at once. So it does not
//! matter how the last process ended: by its own will, by `kill -9`, or by a crash in the middle of an insertion.
//!
//! What a reader must never see is something older than what it saw before. An item is complete before its state word says
//! that it is in the index, and the word says otherwise before a removal returns; so the word alone tells what is there. Between the two
//! stores of a replacement both items of the key are marked: then a reader may have seen the new one, and nobody
//! knows which it is. Neither survives.
//!
//! Invariants:
//! 1. A pool's name, by its hash, stands in the words before the first of its slabs is assigned. A number is not given to
//!    another pool while slabs of its old one are unclaimed.
//! 2. Slabs that are unclaimed are charged to the ledger.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Part;
use base::hash::key_hash;
use slab::{ItemPtr, SLAB_BYTES, SlabId, SlabInfo, Words};

use crate::allocate::metadata_of_slab;
use crate::cache::{Cache, Core, MAX_POOLS, PoolId};
use crate::class::{BYTES_IN, Class, INSERTS, REMOVED};
use crate::keyspace::Keyspace;
use crate::pool::Pool;

/// Chunks that are asked for ahead of the one that is looked at.
const AHEAD: u32 = 8;
/// A seed of its own for the hashes of names, which outlive processes.
const NAME_SEED: u64 = 0x6d69_6c6c_706f_6e64;

/// The engine's words in shared memory: names of pools by number, then two words for each key space.
pub(crate) struct Kept {
    words: Arc<Words>,
    first_word: usize,
}

impl Kept {
    pub(crate) fn new((words, first_word): (Arc<Words>, usize)) -> Self {
        Self { words, first_word }
    }

    fn name_hash(name: &str) -> u64 {
        // Zero means that there is none.
        key_hash(NAME_SEED, name.as_bytes()).max(1)
    }

    pub(crate) fn note_name(&self, id: u16, name: &str) {
        self.words[self.first_word + usize::from(id)].store(Self::name_hash(name), Ordering::Release);
    }

    /// Forgets the pool with this number, which has no slab any more.
    pub(crate) fn forget_name(&self, id: u16) {
        self.words[self.first_word + usize::from(id)].store(0, Ordering::Release);
    }

    pub(crate) fn keyspace(&self, id: u16) -> Keyspace {
        Keyspace::kept(id, Arc::clone(&self.words), self.word_of(id))
    }

    fn word_of(&self, keyspace: u16) -> usize {
        self.first_word + MAX_POOLS + 2 * usize::from(keyspace)
    }

    /// What was flushed in a key space, as the last process left it.
    fn flushes(&self, keyspace: u16) -> (u64, u64) {
        let at = self.word_of(keyspace);
        (self.words[at].load(Ordering::Acquire), self.words[at + 1].load(Ordering::Acquire))
    }
}

/// What the last process left and no pool has taken over yet.
#[derive(Default)]
pub(crate) struct Unclaimed {
    /// Numbers of pools by the hash of their names.
    ids: HashMap<u64, u16>,
    slabs: HashMap<u16, Vec<(SlabId, SlabInfo)>>,
}

impl Unclaimed {
    pub(crate) fn new(kept: &Kept, found: Vec<(SlabId, SlabInfo)>) -> Self {
        let mut unclaimed = Self::default();
        for (slab, info) in found {
            unclaimed.slabs.entry(info.pool).or_default().push((slab, info));
        }
        for id in unclaimed.slabs.keys() {
            let hash = kept.words[kept.first_word + usize::from(*id)].load(Ordering::Acquire);
            unclaimed.ids.insert(hash, *id);
        }
        unclaimed
    }

    /// The number that the pool of this name had, if it left slabs.
    pub(crate) fn id_of(&self, name: &str) -> Option<u16> {
        self.ids.get(&Kept::name_hash(name)).copied()
    }

    /// Whether slabs of the pool that had this number are unclaimed.
    pub(crate) fn reserves(&self, id: u16) -> bool {
        self.slabs.contains_key(&id)
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.slabs.values().flatten().map(|(_, info)| u64::from(info.chunks_per_slab())).sum()
    }

    pub(crate) fn slab_count(&self) -> usize {
        self.slabs.values().map(Vec::len).sum()
    }
}

/// What was taken over: see [`Cache::recovered`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Items that are in the cache again.
    pub items: u64,
    /// Items that are not, because they had expired or were flushed, were being replaced or written, or because their pool
    /// has no size class of their chunks any more.
    pub dropped: u64,
}

impl Cache {
    /// What this cache took over from the last process, so far: each pool does so when it is added.
    pub fn recovered(&self) -> Recovered {
        *self.core().recovered.lock()
    }

    /// Gives the memory of those pools back that another process left and that were not added again. To be called once all
    /// pools are there; until then that memory is kept for them. Returns how many slabs they had.
    pub fn discard_unclaimed(&self) -> usize {
        let unclaimed = std::mem::take(&mut *self.core().unclaimed.lock());
        let count = unclaimed.slab_count();
        for (slab, _) in unclaimed.slabs.into_values().flatten() {
            self.core().discard_slab(slab);
        }
        count
    }

    /// Takes over what the pool of this name left. The pool was just added and is not in use yet.
    pub(crate) fn recover_pool(&self, id: PoolId) {
        let core = self.core();
        let Some(slabs) = core.unclaimed.lock().slabs.remove(&id.0) else { return };
        let Ok(pool) = core.pool(id) else { return };
        if let (Some(kept), Some((_, info))) = (&core.kept, slabs.first())
            && info.keyspace != pool.keyspace
        {
            core.keyspace(pool.keyspace).inherit(kept.flushes(info.keyspace));
        }
        let threads = base::thread::available_cpus().min(slabs.len()).max(1);
        let workers: Vec<_> = slabs
            .chunks(slabs.len().div_ceil(threads))
            .map(|slabs| {
                let (cache, slabs) = (self.clone(), slabs.to_vec());
                base::thread::spawn("recover", move || {
                    let core = cache.core();
                    if let Ok(pool) = core.pool(id) {
                        slabs.into_iter().for_each(|(slab, info)| core.recover_slab(&pool, slab, info));
                    }
                })
            })
            .collect();
        for (worker, slabs) in workers.into_iter().zip(slabs.chunks(slabs.len().div_ceil(threads))) {
            match worker {
                Ok(worker) => drop(worker.join()),
                // No thread is to be had: this one does it.
                Err(_) => slabs.iter().for_each(|(slab, info)| core.recover_slab(&pool, *slab, *info)),
            }
        }
    }
}

impl Core {
    /// Gives a slab back that belongs to no pool of this process.
    fn discard_slab(&self, slab: SlabId) {
        // SAFETY: no index entry, queue or free list of this process names the slab.
        unsafe { self.arena.give_back(slab) };
        self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
    }

    fn recover_slab(&self, pool: &Pool, slab: SlabId, info: SlabInfo) {
        let sizes = pool.sizes();
        let Some(place) = sizes.place_of_size(info.chunk_bytes) else {
            let lost = self.items_of(slab, info).0.len() as u64;
            self.recovered.lock().dropped += lost;
            return self.discard_slab(slab);
        };
        let class = self.class_at(pool, sizes, place);
        let info = class.info;
        self.arena.reassign(slab, info);
        pool.add_slab();
        let (chunks, metadata) = metadata_of_slab(info, pool.policy());
        self.add_chunks(chunks, metadata);
        let (items, free, dropped) = {
            let (items, free) = self.items_of(slab, info);
            let space = self.keyspace(pool.keyspace);
            // SAFETY: the items are complete, and this thread alone knows of them.
            let (dead, items): (Vec<_>, Vec<_>) =
                items.into_iter().partition(|ptr| unsafe { self.is_dead(self.arena.item(*ptr).0, space) });
            dead.iter().for_each(|ptr| self.arena.item(*ptr).0.state().discard());
            let dropped = dead.len() as u64;
            (items, [free, dead].concat(), dropped)
        };
        {
            let mut inner = class.inner.lock();
            inner.chunks.add_used_slab(&self.arena, slab);
            free.iter().rev().for_each(|ptr| inner.chunks.push(&self.arena, *ptr));
            class.note_slabs(&inner);
        }
        let revived = items.iter().filter(|ptr| self.index_recovered(class, **ptr)).count() as u64;
        self.queue_recovered(class, &items);
        // The twin of an item that found its key taken was counted, or will be, by whoever took it over.
        let twins = items.len() as u64 - revived;
        let mut recovered = self.recovered.lock();
        recovered.items = recovered.items.wrapping_add(revived).wrapping_sub(twins);
        recovered.dropped += dropped + 2 * twins;
    }

    /// The chunks of a slab that hold an item, and those that do not.
    fn items_of(&self, slab: SlabId, info: SlabInfo) -> (Vec<ItemPtr>, Vec<ItemPtr>) {
        let per_slab = info.chunks_per_slab();
        (0..per_slab).map(|number| ItemPtr::new(slab, number as u16)).partition(|ptr| {
            let ahead = u32::from(ptr.number()) + AHEAD;
            if ahead < per_slab {
                self.arena.item(ItemPtr::new(slab, ahead as u16)).0.prefetch();
            }
            let (item, _) = self.arena.item(*ptr);
            // SAFETY: this thread alone knows of the slab.
            let is_item = item.state().revive() && unsafe { item.is_plausible() };
            if !is_item {
                item.state().discard();
            }
            is_item
        })
    }

    /// Puts an item into the index. `false`: its key has another, and both are out now.
    fn index_recovered(&self, class: &Class, ptr: ItemPtr) -> bool {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the item is complete, and this thread alone knows of it.
        let (hash, bytes) = unsafe { (self.hash_of_item(ptr), item.used_bytes()) };
        loop {
            let mut guard = self.index.lock(hash);
            // SAFETY: as above.
            let twin = guard.find(|other| self.is_item_of(other, info.keyspace, unsafe { item.key() }));
            if let Some(slot) = twin {
                let other = guard.ptr(slot);
                let unindexed = self.arena.item(other).0.state().unindex();
                guard.clear(slot);
                drop(guard);
                if unindexed {
                    self.retire(other, REMOVED, false);
                }
                item.state().discard();
                self.free(ptr);
                return false;
            }
            if guard.add(ptr).is_ok() {
                break;
            }
            self.make_room(guard);
        }
        class.counters.add(INSERTS, 1);
        class.counters.add(BYTES_IN, bytes as u64);
        self.grow_index(hash);
        true
    }

    /// Queues those items of a slab that are in the index.
    fn queue_recovered(&self, class: &Class, items: &[ItemPtr]) {
        let now = self.now();
        let mut inner = class.inner.lock();
        for &ptr in items {
            let (item, info) = self.arena.item(ptr);
            let state = item.state();
            if !state.is_indexed() || state.is_queued() {
                continue;
            }
            // SAFETY: the item is in the index, and cannot be used again while this thread holds the class's lock.
            let (hash, expiry) = unsafe {
                let space = self.keyspace(info.keyspace);
                (self.hash(space, item.key()), item.expiry().map_or(0, |time| time.load(Ordering::Relaxed)))
            };
            if let Some(entry) = inner.queue_again(&self.arena, ptr, state.policy(), hash, now) {
                self.put_in_wheel(&mut inner, entry, expiry);
            }
        }
        inner.settle(&self.ledger);
    }
}
