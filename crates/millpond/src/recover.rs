//! Taking over what another process left in shared memory.
//!
//! Slabs, their table, item headers and what was flushed lie in files in memory ([`crate::CacheConfig::shared`]); the index,
//! the queues and the free lists do not. They are made anew from the slabs: each chunk is looked at once. So it does not
//! matter how the last process ended: by its own will, by `kill -9`, or by a crash in the middle of an insertion.
//!
//! What a reader must never see is something older than what it saw before. An item is complete before its state word says
//! that it is in the index, and the word says otherwise before a removal returns; so the word alone tells what is there. Between the two
//! stores of a replacement both items of the key are marked: then a reader may have seen the new one, and nobody
//! knows which it is. Neither survives. An item whose chain was being changed does not either.
//!
//! Invariants:
//! 1. A pool's name, by its hash, stands in the words before the first of its slabs is assigned. A number is not given to
//!    another pool while slabs of its old one are unclaimed.
//! 2. Slabs that are unclaimed are charged to the ledger.

mod chains;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Part;
use base::hash::key_hash;
use slab::{ItemPtr, SLAB_BYTES, SizeClasses, SlabId, SlabInfo, Words};

use chains::Chains;

use crate::allocate::metadata_of_slab;
use crate::cache::{Cache, Core, MAX_POOLS, PoolId};
use crate::class::{BYTES_IN, Class, Gone, INSERTS};
use crate::keyspace::Keyspace;
use crate::life::RemovalCause;
use crate::pool::Pool;
use crate::sizing::{self, Range, SizeHistogram};

/// Chunks that are asked for ahead of the one that is looked at.
const CHUNKS_AHEAD: u32 = 8;
/// Buckets of the index that are asked for ahead of the one that is put into.
const BUCKETS_AHEAD: usize = 12;
/// A seed of its own for the hashes of names, which outlive processes.
const NAME_SEED: u64 = 0x6d69_6c6c_706f_6e64;

/// The engine's words in shared memory: names of pools by number, then two words for each key space.
pub(crate) struct Kept {
    words: Arc<Words>,
    first_word: usize,
}

/// What the words know a pool's name by; zero means that there is none.
pub(crate) fn name_hash(name: &str) -> u64 {
    key_hash(NAME_SEED, name.as_bytes()).max(1)
}

/// The first of the two words of a key space, among the engine's.
pub(crate) fn flush_words(keyspace: u16) -> usize {
    MAX_POOLS + 2 * usize::from(keyspace)
}

impl Kept {
    pub(crate) fn new((words, first_word): (Arc<Words>, usize)) -> Self {
        Self { words, first_word }
    }

    pub(crate) fn note_name(&self, id: u16, name: &str) {
        self.words[self.first_word + usize::from(id)].store(name_hash(name), Ordering::Release);
    }

    /// Forgets the pool with this number, which has no slab any more.
    pub(crate) fn forget_name(&self, id: u16) {
        self.words[self.first_word + usize::from(id)].store(0, Ordering::Release);
    }

    pub(crate) fn keyspace(&self, id: u16) -> Keyspace {
        Keyspace::kept(id, Arc::clone(&self.words), self.word_of(id))
    }

    fn word_of(&self, keyspace: u16) -> usize {
        self.first_word + flush_words(keyspace)
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
        self.ids.get(&name_hash(name)).copied()
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
    /// Items that are in the cache again, also those that have expired or were flushed and leave as such items do.
    pub items: u64,
    /// Items that are not, because they, or what is chained to them, were being replaced or written, or because their pool
    /// had chunks of more than 255 sizes.
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

    /// The chunk sizes of the slabs that the pool with this number left, as far as it may have so many.
    pub(crate) fn sizes_left(&self, number: u16, range: &Range) -> Option<SizeClasses> {
        let unclaimed = self.core().unclaimed.lock();
        let slabs = unclaimed.slabs.get(&number)?;
        // As if each were full of items that fill their chunks: then the best sizes are theirs.
        let mut items = SizeHistogram::new();
        slabs.iter().for_each(|(_, info)| items.add(info.chunk_bytes, info.chunks_per_slab().into()));
        SizeClasses::by_list(&sizing::choose(&items, range)).ok()
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
                    core.pool(id).map_or_else(|_| Chains::default(), |pool| core.recover_slabs(&pool, &slabs))
                })
            })
            .collect();
        let mut chains = Chains::default();
        for (worker, slabs) in workers.into_iter().zip(slabs.chunks(slabs.len().div_ceil(threads))) {
            let found = match worker {
                Ok(worker) => worker.join().unwrap_or_default(),
                // No thread is to be had: this one does it.
                Err(_) => core.recover_slabs(&pool, slabs),
            };
            chains.items.extend(found.items);
            chains.links.extend(found.links);
        }
        core.recover_chains(chains);
    }
}

impl Core {
    /// Gives a slab back that belongs to no pool of this process.
    fn discard_slab(&self, slab: SlabId) {
        // SAFETY: no index entry, queue or free list of this process names the slab.
        unsafe { self.arena.give_back(slab) };
        self.ledger.release(Part::Slabs, SLAB_BYTES as u64);
    }

    fn recover_slabs(&self, pool: &Pool, slabs: &[(SlabId, SlabInfo)]) -> Chains {
        let mut chains = Chains::default();
        slabs.iter().for_each(|(slab, info)| self.recover_slab(pool, *slab, *info, &mut chains));
        chains
    }

    fn recover_slab(&self, pool: &Pool, slab: SlabId, info: SlabInfo, chains: &mut Chains) {
        let Some(class) = self.class_for_found(pool, info.chunk_bytes) else {
            let lost = self.items_of(slab, info).0.len() as u64;
            self.recovered.lock().dropped += lost;
            return self.discard_slab(slab);
        };
        let info = class.info;
        self.arena.reassign(slab, info);
        pool.add_slab();
        let (chunks, metadata) = metadata_of_slab(info, pool.policy());
        self.add_chunks(chunks, metadata);
        // What has expired or was flushed is not found, as ever; but it must not leave before its twin, if it has one.
        let (found, free) = self.items_of(slab, info);
        let mut items = Vec::with_capacity(found.len());
        for (ptr, hash) in found {
            let item = self.arena.item(ptr).0;
            // SAFETY: the item is complete, and this thread alone knows of it.
            if unsafe { item.is_link() } {
                chains.links.insert(ptr.to_bits());
            } else if item.state().is_chained() {
                chains.items.push(ptr);
            } else {
                items.push((ptr, hash));
            }
        }
        {
            let mut inner = class.inner.lock();
            inner.chunks.add_used_slab(&self.arena, slab);
            free.iter().rev().for_each(|ptr| inner.chunks.push(&self.arena, *ptr));
            class.note_slabs(&inner);
        }
        // A twin of what is put into the index may be taken out of it at once, and must have been counted.
        class.counters.add(INSERTS, items.len() as u64);
        class.counters.add(BYTES_IN, items.iter().map(|(ptr, _)| self.recovered_bytes(*ptr)).sum());
        let mut revived = 0;
        for (i, &(ptr, hash)) in items.iter().enumerate() {
            if let Some((_, ahead)) = items.get(i + BUCKETS_AHEAD) {
                self.index.prefetch(*ahead);
            }
            revived += u64::from(self.index_recovered(ptr, hash));
        }
        self.queue_recovered(class, &items);
        self.note_recovered(items.len() as u64, revived);
    }

    /// Counts what became of so many items, of which some are in the index now.
    fn note_recovered(&self, items: u64, revived: u64) {
        // The twin of an item that found its key taken was counted, or will be, by whoever took it over.
        let twins = items - revived;
        let mut recovered = self.recovered.lock();
        recovered.items = recovered.items.wrapping_add(revived).wrapping_sub(twins);
        recovered.dropped += 2 * twins;
    }

    /// Gives up an item that was taken over and then found to be doubtful, and is out of sight: nobody is told.
    fn forget(&self, ptr: ItemPtr) {
        // SAFETY: this thread holds the reference that taking it out of sight gave it.
        let class = unsafe { self.class_of(self.arena.info(ptr.slab())) };
        self.count_given_up(class, ptr);
        self.release(ptr);
    }

    /// Counts an item that was taken over as gone.
    fn count_given_up(&self, class: &Class, ptr: ItemPtr) {
        let mut gone = Gone::default();
        // SAFETY: the item is complete, and this thread alone knows of it, or holds a reference.
        unsafe { gone.add(self.arena.item(ptr).0, 0) };
        class.count_gone(RemovalCause::Removed, &gone);
    }

    /// The chunks of a slab that hold an item, with the hashes of their keys, and those that do not.
    fn items_of(&self, slab: SlabId, info: SlabInfo) -> (Vec<(ItemPtr, u64)>, Vec<ItemPtr>) {
        let per_slab = info.chunks_per_slab();
        let (mut items, mut free) = (Vec::with_capacity(per_slab as usize), Vec::new());
        for number in 0..per_slab {
            let ptr = ItemPtr::new(slab, number as u16);
            if number + CHUNKS_AHEAD < per_slab {
                self.arena.item(ItemPtr::new(slab, (number + CHUNKS_AHEAD) as u16)).0.prefetch();
            }
            let item = self.arena.item(ptr).0;
            // SAFETY: this thread alone knows of the slab.
            if item.state().revive() && unsafe { item.is_plausible() } {
                items.push((ptr, self.recovered_hash(ptr)));
            } else {
                item.state().discard();
                free.push(ptr);
            }
        }
        (items, free)
    }

    /// What an item takes that was left behind.
    fn recovered_bytes(&self, ptr: ItemPtr) -> u64 {
        // SAFETY: the item is complete, and this thread alone knows of it, or holds a reference.
        unsafe { self.arena.item(ptr).0.used_bytes() as u64 }
    }

    /// What the index or, of a link, its chain knows an item by that was left behind.
    fn recovered_hash(&self, ptr: ItemPtr) -> u64 {
        let item = self.arena.item(ptr).0;
        // SAFETY: the item is complete, and this thread alone knows of it.
        unsafe { if item.is_link() { u64::from(item.link_tag()) << 16 } else { self.hash_of_item(ptr) } }
    }

    /// Puts an item into the index. `false`: its key has another, and both are out now.
    fn index_recovered(&self, ptr: ItemPtr, hash: u64) -> bool {
        let (item, info) = self.arena.item(ptr);
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
                    self.forget(other);
                }
                item.state().discard();
                // SAFETY: this thread owns the chunk.
                let class = unsafe { self.class_of(info) };
                self.count_given_up(class, ptr);
                self.free(ptr);
                return false;
            }
            if guard.add(ptr).is_ok() {
                break;
            }
            self.make_room(guard);
        }
        self.grow_index(hash);
        true
    }

    /// Queues those items of a class that are in the index or in a chain.
    fn queue_recovered(&self, class: &Class, items: &[(ItemPtr, u64)]) {
        let now = self.now();
        let mut inner = class.inner.lock();
        for &(ptr, hash) in items {
            let item = self.arena.item(ptr).0;
            let state = item.state();
            if !state.is_indexed() || state.is_queued() {
                continue;
            }
            // SAFETY: the item is in the index or a chain, and cannot be used again while this thread holds the class's lock.
            let expiry = unsafe { item.expiry() }.map_or(0, |time| time.load(Ordering::Relaxed));
            if let Some(entry) = inner.queue_again(self, ptr, state.policy(), hash, now) {
                self.put_in_wheel(&mut inner, entry, expiry);
            }
        }
        inner.settle(&self.ledger);
    }
}
