//! Picking an item of a pool at random.

use slab::item::Acquired;
use slab::{Run, SlabInfo};

use crate::cache::Cache;
use crate::error::Error;
use crate::handle::ReadHandle;
use crate::pools::PoolId;

impl Cache {
    /// Some item of a pool, each with as much chance as any other: the first item that is met by
    /// looking at chunks of the pool's memory at random, at most `tries` of them. `None` if all of
    /// these were free or held something that is not a live item.
    ///
    /// The chance to find one at a look is the part of the pool's chunks that hold items. A caller
    /// that needs an item of a pool which is nearly empty walks over it ([`Cache::items`]). `draw`
    /// gives random numbers. Cost: a lock of each class that has memory, for as long as its runs
    /// are listed, and some 50 ns for each try.
    ///
    /// ```
    /// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// cache.put(cache.allocate(pool, b"a", 10, &ItemOptions::default())?);
    /// let mut draw = 0_u64;
    /// let picked = cache.pick(pool, 100_000_000, || {
    ///     draw = draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
    ///     draw
    /// })?;
    /// assert_eq!(picked.expect("the only item").key(), b"a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSuchPool`].
    pub fn pick(
        &self,
        pool: PoolId,
        tries: u32,
        mut draw: impl FnMut() -> u64,
    ) -> Result<Option<ReadHandle<'_>>, Error> {
        let core = self.core();
        let pool = core.pool(pool)?;
        // What each run adds to the number of chunks, so that a draw below that number names a
        // chunk.
        let mut ends: Vec<(u64, Run, SlabInfo)> = Vec::new();
        let mut chunks = 0_u64;
        for (_, class) in pool.used_classes() {
            for run in class.inner.lock().chunks.runs() {
                chunks += u64::from(run.chunks(class.info));
                ends.push((chunks, run, class.info));
            }
        }
        for _ in 0..if chunks == 0 { 0 } else { tries } {
            let chosen = draw() % chunks;
            let place = ends.partition_point(|(end, ..)| *end <= chosen);
            let Some(&(end, run, info)) = ends.get(place) else { break };
            // No run is given back while it is looked at.
            let pinned = core.pins.pin();
            if !core.arena.is_there(run, info) {
                continue;
            }
            let ptr = run.chunk((end - chosen - 1) as u32);
            let (item, _) = core.arena.item(ptr);
            if item.state().acquire() != Acquired::Yes {
                continue;
            }
            let handle = ReadHandle::adopt(core, ptr);
            // The last handle of an item may call the embedder, which must not happen while the
            // thread is pinned.
            drop(pinned);
            // SAFETY: the handle holds a reference (invariant 2 of `handle`).
            if unsafe { !item.is_link() && !core.is_dead(item, core.keyspace(pool.keyspace)) } {
                return Ok(Some(handle));
            }
        }
        Ok(None)
    }
}
