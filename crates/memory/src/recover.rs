//! Taking over what another process left in shared memory.
//!
//! Slabs, their table, item headers and what was flushed lie in files in memory
//! ([`crate::CacheConfig::shared`]); the index, the queues and the free lists do not. They are made
//! anew from the slabs: each chunk is looked at once. So it does not matter how the last process
//! ended: by its own will, by `kill -9`, or by a crash in the middle of an insertion.
//!
//! What a reader must never see is something older than what it saw before. An item is complete
//! before its state word says that it is in the index, and the word says otherwise before a removal
//! returns; so the word alone tells what is there. Between the two stores of a replacement both
//! items of the key are marked: then a reader may have seen the new one, and recovery cannot tell
//! which of the two is newer. Neither survives. An item whose chain was being changed does not
//! either.
//!
//! Invariants:
//! 1. A pool's name, by its hash, stands in the words before the first of its slabs is assigned. A
//!    number is not given to another pool while slabs of its old one are unclaimed.
//! 2. Slabs that are unclaimed, whole or in part, are charged to the ledger.
//! 3. Once a key space is written to, no run of it is unclaimed, nor will be in a later process:
//!    what lies there is older than what was written. A pool takes its runs over while nobody
//!    writes to their key space, with the lock on what is unclaimed.
//! 4. The words are another process's, or a damaged file's: what they name is checked here, before
//!    it is used.
//! 5. Until a run is added to its class, the thread that recovers the run alone uses its chunks.
//! 6. Until a pool is recovered, other threads reach only those of its items that are in the index,
//!    by their keys. Whoever asks for the pool by its id waits, so that nobody allocates or evicts
//!    in the pool, walks over it or picks of it. So an item that is not in the index yet, and the
//!    links of such an item, are known to the recovering threads alone, and an item of the index to
//!    whoever has its bucket locked or holds a reference.
//! 7. The threads that recover a pool call no hook but [`crate::Lifecycle::may_evict`], and so
//!    evict nothing to make room: whatever a hook calls may wait for the recovery.

mod chains;
mod left;

pub use left::Recovered;
pub(crate) use left::{EngineWords, Unclaimed, flush_word, name_hash};

use std::sync::atomic::Ordering;

use base::{ByteSize, Part};
use index::{BucketGuard, Slot};
use slab::{ItemPtr, Run, SizeClasses, SlabInfo};

use chains::Chains;

use crate::allocate::LEAST_FOR_CHUNKS;
use crate::cache::{Cache, Core};
use crate::class::{BYTES_IN, Class, Gone, INSERTS};
use crate::keyspace::{Keyspace, LATEST};
use crate::lifecycle::RemovalCause;
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::sizing::{self, Range, SizeHistogram};

/// Chunks that are prefetched ahead of the one that is looked at.
const CHUNKS_AHEAD: u32 = 8;
/// Buckets of the index that are prefetched ahead of the one that is written.
const BUCKETS_AHEAD: usize = 12;
impl Cache {
    /// Returns what this cache took over from the last process, so far: each pool does so when it
    /// is added.
    pub fn recovered(&self) -> Recovered {
        *self.core().recovered.lock()
    }

    /// Gives the memory of those pools back that another process left and that were not added
    /// again. To be called once all pools are there. Until then that memory is kept for them,
    /// unless something is written to their key space: what is kept is older than that, so the
    /// first write to a key space gives back what nobody has added of it. An allocation that finds
    /// no memory and nothing to evict gives it all back too. Returns how much memory there was.
    pub fn discard_unclaimed(&self) -> ByteSize {
        self.core().discard_unclaimed()
    }

    /// The chunk sizes of the slabs that the pool with this number left, as far as it may have that
    /// many.
    pub(crate) fn sizes_left(&self, number: u16, range: &Range) -> Option<SizeClasses> {
        let unclaimed = self.core().unclaimed.lock();
        let runs = unclaimed.runs.get(&number)?;
        // As if all chunks were full, so that the old sizes are chosen again.
        let mut items = SizeHistogram::new();
        runs.iter().for_each(|(run, info)| items.add(info.chunk_bytes, run.chunks(*info).into()));
        SizeClasses::by_list(&sizing::choose(&items, range)).ok()
    }

    /// Takes over what the pool of this name left. The pool was just added and is not in use yet.
    /// Returns items that had to leave the index, held: the caller finishes their removal once it
    /// holds no lock, as hooks may be called for them. No hook is called before (invariant 7).
    #[must_use]
    pub(crate) fn recover_pool(&self, id: PoolId) -> Vec<ItemPtr> {
        let Some(pool) = self.core().pools.get_even_leaving(id) else { return Vec::new() };
        let displaced = self.take_over(&pool);
        pool.recovered.get_or_init(|| ());
        displaced
    }

    /// Returns items that had to leave the index, held.
    fn take_over(&self, pool: &Pool) -> Vec<ItemPtr> {
        let (core, id) = (self.core(), pool.id());
        // The pool is in the table: until all is there, nobody is to take a run of it, or a class
        // that has none yet.
        let _resizing = pool.resizing.lock();
        // Held as long: whoever writes to the key space waits (invariant 3).
        let mut unclaimed = core.unclaimed.lock();
        let Some(mut runs) = unclaimed.runs.remove(&id.0) else { return Vec::new() };
        // Nobody knows what was written to the shared key space while these were in another.
        let strange: Vec<_> =
            runs.extract_if(.., |(_, info)| info.keyspace != pool.keyspace && pool.keyspace == 0).collect();
        strange.into_iter().for_each(|(run, _)| core.discard_run(run));
        if let (Some(kept), true) = (&core.kept, runs.iter().any(|(_, info)| info.keyspace != pool.keyspace))
        {
            core.keyspace(pool.keyspace).inherit(kept.flushes(0));
        }
        if runs.is_empty() {
            return Vec::new();
        }
        let threads = base::thread::available_cpus().min(runs.len()).max(1);
        let workers: Vec<_> = runs
            .chunks(runs.len().div_ceil(threads))
            .map(|runs| {
                let (cache, runs) = (self.clone(), runs.to_vec());
                base::thread::spawn("recover", move || {
                    let core = cache.core();
                    let pool = core.pools.get_even_leaving(id);
                    pool.map_or_else(Chains::default, |pool| core.recover_runs(&pool, &runs))
                })
            })
            .collect();
        let mut chains = Chains::default();
        for (worker, runs) in workers.into_iter().zip(runs.chunks(runs.len().div_ceil(threads))) {
            let found = match worker {
                Ok(worker) => worker.join().unwrap_or_default(),
                // No thread is to be had: this one does it.
                Err(_) => core.recover_runs(pool, runs),
            };
            chains.items.extend(found.items);
            chains.links.extend(found.links);
            chains.displaced.extend(found.displaced);
        }
        core.recover_chains(&mut chains);
        pool.flushed.begin_again();
        chains.displaced
    }
}

impl Core {
    /// To be called before the first write to a key space: gives up what is unclaimed of it
    /// (invariant 3). No lock is held meanwhile but by whoever adds a pool.
    #[cold]
    pub(crate) fn begin_writing(&self, space: &Keyspace, id: u16) {
        let mut unclaimed = self.unclaimed.lock();
        unclaimed.take_keyspace(id).into_iter().for_each(|run| self.discard_run(run));
        space.note_written();
    }

    /// Gives up as much of what was found as is beyond the limit, with the cache's tables.
    pub(crate) fn keep_limit_of_found(&self) {
        let mut unclaimed = self.unclaimed.lock();
        while self.ledger.total() > self.ledger.limit()
            && let Some(run) = unclaimed.take_run()
        {
            self.recovered.lock().lost_bytes += run.bytes();
            self.discard_run(run);
        }
    }

    /// Takes from the pools that have claimed what they left what is beyond the limit with their
    /// metadata: that is more than it was if there is less memory now, or another policy. If they
    /// have nothing more to give, what nobody has claimed yet is given up.
    pub(crate) fn keep_limit_of_claimed(&self) {
        if self.ledger.total() > self.ledger.limit() {
            self.find_room(0);
            self.keep_limit_of_found();
        }
    }

    /// Gives back all that no pool has claimed. Returns how much it was.
    #[cold]
    pub(crate) fn discard_unclaimed(&self) -> ByteSize {
        let unclaimed = std::mem::take(&mut *self.unclaimed.lock());
        let bytes = unclaimed.bytes();
        for (run, _) in unclaimed.runs.into_values().flatten() {
            self.discard_run(run);
        }
        ByteSize::new(bytes)
    }

    /// Gives a run back that belongs to no pool of this process.
    fn discard_run(&self, run: Run) {
        // SAFETY: no index entry, queue or free list of this process names the run, so that no
        // reader holds a pointer into it (invariant 3 of `slab::arena`).
        let bytes = unsafe { self.arena.give_back(run) };
        self.ledger.release(Part::Slabs, bytes);
    }

    fn recover_runs(&self, pool: &Pool, runs: &[(Run, SlabInfo)]) -> Chains {
        let mut chains = Chains::default();
        runs.iter().for_each(|(run, info)| self.recover_run(pool, *run, *info, &mut chains));
        chains
    }

    fn recover_run(&self, pool: &Pool, run: Run, info: SlabInfo, chains: &mut Chains) {
        // With another policy, or less memory, there may be too little for all classes that were
        // there.
        let place = pool.sizes().place_of_size(info.chunk_bytes);
        let is_there = place.is_some_and(|place| pool.used_class(pool.sizes().number(place)).is_some());
        let fits = is_there || self.has_room_for_class(pool, LEAST_FOR_CHUNKS);
        let class = fits.then(|| self.class_for_found(pool, info.chunk_bytes)).flatten();
        let Some(class) = class.filter(|class| class.inner.lock().chunks.has_room_for_run()) else {
            let lost = self.items_of(run, info).0.len() as u64;
            self.recovered.lock().dropped += lost;
            return self.discard_run(run);
        };
        let info = class.info;
        self.arena.reassign(run, info);
        pool.add(run.bytes());
        // What has expired or was flushed is not found, as ever; but it must not leave before its
        // twin, if it has one.
        let (found, free) = self.items_of(run, info);
        let (mut items, mut latest) = (Vec::with_capacity(found.len()), 0);
        for (ptr, hash) in found {
            let item = self.arena.item(ptr).0;
            // SAFETY: this thread alone uses the run (invariant 5), and the item's header was
            // checked (invariant 4).
            let (is_link, created) = unsafe { (item.is_link(), item.created()) };
            if is_link {
                chains.links.insert(ptr.to_bits());
                continue;
            }
            latest = latest.max(created);
            if item.state().is_chained() {
                chains.items.push(ptr);
            } else {
                items.push((ptr, hash));
            }
        }
        self.keyspace(info.keyspace).note_made(latest);
        {
            let mut inner = class.inner.lock();
            let chunks = u64::from(run.chunks(info));
            self.add_chunks(chunks, inner.policy.kind());
            inner.chunks.add_used_run(&self.arena, run);
            free.iter().rev().for_each(|ptr| inner.chunks.push(&self.arena, *ptr));
            class.note_chunks(self, &inner);
            inner.settle(self);
        }
        // A twin of what is put into the index may be taken out of it at once, and must have been
        // counted.
        class.counters.add(INSERTS, items.len() as u64);
        class.counters.add(BYTES_IN, items.iter().map(|(ptr, _)| self.recovered_bytes(*ptr)).sum());
        let mut revived = 0;
        for (i, &(ptr, hash)) in items.iter().enumerate() {
            if let Some((_, ahead)) = items.get(i + BUCKETS_AHEAD) {
                self.index.prefetch(*ahead);
            }
            revived += u64::from(self.index_recovered(ptr, hash, &mut chains.displaced));
        }
        self.queue_recovered(class, &items);
        self.note_recovered(items.len() as u64, revived);
    }

    /// Counts this many items as handled, of which `revived` are in the index now.
    fn note_recovered(&self, items: u64, revived: u64) {
        // The twin of an item that found its key taken was counted, or will be, by whoever took it
        // over.
        let twins = items - revived;
        let mut recovered = self.recovered.lock();
        recovered.items = recovered.items.wrapping_add(revived).wrapping_sub(twins);
        recovered.dropped += 2 * twins;
    }

    /// Gives up an item that was taken over and then found to be doubtful, and is out of sight:
    /// nobody is told.
    fn forget(&self, ptr: ItemPtr) {
        // SAFETY: this thread holds the reference that taking the item out of sight gave it, so
        // that pool and class are there (invariants 1 and 2 of `pools`).
        let class = unsafe { self.class_of(self.arena.info_of(ptr)) };
        self.count_given_up(class, ptr);
        self.release(ptr);
    }

    /// Counts an item that was taken over as gone.
    fn count_given_up(&self, class: &Class, ptr: ItemPtr) {
        let mut gone = Gone::default();
        // SAFETY: the item is complete, and this thread alone knows of it (invariant 6), or holds a
        // reference.
        unsafe { gone.add(self.arena.item(ptr).0, 0) };
        class.count_gone(RemovalCause::Removed, &gone);
    }

    /// The chunks of a run that hold an item, with the hashes of their keys, and those that do not.
    fn items_of(&self, run: Run, info: SlabInfo) -> (Vec<(ItemPtr, u64)>, Vec<ItemPtr>) {
        let chunks = run.chunks(info);
        let (mut items, mut free) = (Vec::with_capacity(chunks as usize), Vec::new());
        for number in 0..chunks {
            let ptr = run.chunk(number);
            if number + CHUNKS_AHEAD < chunks {
                self.arena.item(run.chunk(number + CHUNKS_AHEAD)).0.prefetch();
            }
            let item = self.arena.item(ptr).0;
            // SAFETY: this thread alone uses the run (invariant 5), and what the header says is
            // checked before it is used (invariant 4).
            let is_plausible = unsafe {
                item.state().revive() && item.is_plausible() && (item.is_link() || item.created() <= LATEST)
            };
            if is_plausible {
                items.push((ptr, self.recovered_hash(ptr)));
            } else {
                item.state().discard();
                free.push(ptr);
            }
        }
        (items, free)
    }

    /// Returns the memory of an item that was left behind.
    fn recovered_bytes(&self, ptr: ItemPtr) -> u64 {
        // SAFETY: the item is complete, and this thread alone knows of it (invariant 6), or holds a
        // reference.
        unsafe { self.arena.item(ptr).0.used_bytes() as u64 }
    }

    /// Returns the hash by which the index or, for a link, its chain knows an item that was left
    /// behind.
    fn recovered_hash(&self, ptr: ItemPtr) -> u64 {
        let item = self.arena.item(ptr).0;
        // SAFETY: the item is complete, and this thread alone knows of it (invariant 6).
        unsafe { if item.is_link() { u64::from(item.link_tag()) << 16 } else { self.hash_of_item(ptr) } }
    }

    /// Another entry with the key of an item that was left behind; the bucket is locked.
    fn twin_of(&self, guard: &BucketGuard<'_>, ptr: ItemPtr) -> Option<Slot> {
        let (item, info) = self.arena.item(ptr);
        // SAFETY: the item is complete, and this thread alone knows of it (invariant 6).
        guard.find(|other| self.is_item_of(other, info.keyspace, unsafe { item.key() }))
    }

    /// Gives up the item of such an entry, unless another thread removes it.
    fn take_twin(&self, mut guard: BucketGuard<'_>, slot: Slot) {
        let other = guard.ptr(slot);
        let unindexed = self.arena.item(other).0.state().unindex();
        guard.clear(slot);
        drop(guard);
        if unindexed {
            self.forget(other);
        }
    }

    /// Puts an item into the index. `false`: its key has another, and both are out now. Items that
    /// had to leave for it are `displaced`.
    fn index_recovered(&self, ptr: ItemPtr, hash: u64, displaced: &mut Vec<ItemPtr>) -> bool {
        let (item, info) = self.arena.item(ptr);
        loop {
            let mut guard = self.index.lock(hash);
            if let Some(slot) = self.twin_of(&guard, ptr) {
                self.take_twin(guard, slot);
                item.state().discard();
                // SAFETY: the run is assigned to the pool, so that pool and class are there
                // (invariants 1 and 2 of `pools`).
                let class = unsafe { self.class_of(info) };
                self.count_given_up(class, ptr);
                self.free(ptr);
                return false;
            }
            if guard.add(ptr).is_ok() {
                break;
            }
            displaced.extend(self.displace(guard));
        }
        displaced.extend(self.displace_by_recovery(hash));
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
            // SAFETY: the item is in the index or a chain, and this thread holds the lock of the
            // class since it saw that (invariant 5 of `magazine`).
            let expiry = unsafe { item.expiry() }.map_or(0, |time| time.load(Ordering::Relaxed));
            if let Some(entry) = inner.queue_again(self, ptr, state.policy(), hash, now) {
                self.put_in_wheel(class, &mut inner, entry, expiry);
            }
        }
        inner.settle(self);
    }
}

#[cfg(test)]
mod tests;
