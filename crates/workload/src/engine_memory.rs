//! The engine's memory use for items, as measured by the engine itself.
//!
//! Curves and simulations count what items take. A cache needs more than its values: headers, the
//! rest of chunks, chunks that are free while they change hands, the index, queues and ghosts, and
//! tables that are there before the first item. None of that is written down here: a small engine
//! is filled with items of the sizes in question, at several sizes of its memory, and its own
//! statistics tell what they took.
//!
//! An item's cost is its chunk and its part of index, queues and ghosts
//! ([`EngineMemory::item_bytes`]). What a cache holds in such costs is less than its memory, by
//! what is there once for all and by chunks that are not full ([`EngineMemory::memory_for`]). A
//! simulation that divides memory between size classes itself takes what is there for chunks, full
//! or not, and their metadata ([`EngineMemory::for_chunks`]).

use anyhow::{Context, Result};
use base::{ByteSize, Part};
use millpond::{Cache, CacheConfig, ErrorKind, ItemOptions, PolicyKind, PoolConfig, PoolId};

/// The smallest cache that is filled: the smallest that the engine makes.
const LEAST: ByteSize = ByteSize::mib(8);
/// A cache of more items than that tells nothing new.
const MOST_ITEMS: u64 = 150_000;
/// No larger cache is filled: an engine in this memory is the same many times over.
const MOST: ByteSize = ByteSize::gib(1);
/// As many times the items that it holds are put into a cache, so that its classes and ghosts are
/// as they stay.
const TURNS: u64 = 3;

/// The length of a key and of a value, in bytes.
pub type ItemSize = (u8, u32);

/// The memory use of items.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineMemory {
    /// Chunk sizes, ascending.
    chunks: Vec<u32>,
    header: u32,
    metadata: u32,
    /// Memory, and the sum of the costs of what it holds. Both rise; the first is 0 and 0.
    holds: Vec<(u64, u64)>,
    /// Memory, and what of it the runs of classes and the metadata of all their chunks take.
    runs: Vec<(u64, u64)>,
}

impl EngineMemory {
    /// Asks the engine about a pool with this policy, the default chunk sizes, and items of which
    /// `items` are examples, in the order in which they come.
    ///
    /// # Errors
    /// Where the engine refuses the policy or the memory, or there is no example.
    pub fn ask(policy: PolicyKind, items: &[ItemSize]) -> Result<Self> {
        anyhow::ensure!(!items.is_empty(), "there is no item to ask the engine about");
        let (chunks, header) = chunks()?;
        let mut asked = Self { chunks, header, metadata: 0, holds: Vec::new(), runs: vec![(0, 0)] };
        let mut filled = Vec::new();
        let mut memory = LEAST;
        loop {
            let full = fill(policy, memory, items)?;
            let enough = full.items > MOST_ITEMS || memory >= MOST;
            filled.push(full);
            if enough {
                break;
            }
            memory = ByteSize::new(memory.as_u64() * 2);
        }
        // Of the largest, where steps by which the index grows matter least.
        let largest = filled.last().context("one was filled")?;
        asked.metadata = (largest.metadata as f64 / largest.items.max(1) as f64).ceil() as u32;
        let metadata = u64::from(asked.metadata);
        asked.holds.push((0, 0));
        for full in &filled {
            let spent = full.runs + full.all_chunks * metadata;
            if asked.runs.last().is_some_and(|last| last.1 < spent) {
                asked.runs.push((full.memory, spent));
            }
            let cost = full.chunks + full.items * metadata;
            if asked.holds.last().is_some_and(|last| last.1 < cost) {
                asked.holds.push((full.memory, cost));
            }
        }
        Ok(asked)
    }

    /// The cost of an item, in bytes: its chunk, and its part of index, queues and ghosts. One that
    /// no chunk holds costs what its bytes are.
    pub fn item_bytes(&self, key_len: u32, value_len: u32) -> u32 {
        let bytes = self.header.saturating_add(key_len).saturating_add(value_len);
        let chunk = self.place_of(bytes).map_or(bytes, |place| self.chunks[place]);
        chunk.saturating_add(self.metadata)
    }

    /// The chunk sizes of the size classes, in bytes, ascending.
    pub fn chunks(&self) -> &[u32] {
        &self.chunks
    }

    /// The place among [`Self::chunks`] of the class for a key and value of this many bytes
    /// together; `None` if no chunk holds them.
    pub fn class_of(&self, len: u32) -> Option<usize> {
        self.place_of(self.header.saturating_add(len))
    }

    fn place_of(&self, bytes: u32) -> Option<usize> {
        let place = self.chunks.partition_point(|chunk| *chunk < bytes);
        (place < self.chunks.len()).then_some(place)
    }

    /// The index, queues and ghosts of one item, in bytes.
    pub fn metadata(&self) -> u32 {
        self.metadata
    }

    /// The largest key and value together that the engine takes as one item, in bytes.
    pub fn largest_item(&self) -> u32 {
        self.chunks.last().map_or(0, |chunk| chunk - self.header)
    }

    /// The memory of a cache that holds items of this cost together.
    pub fn memory_for(&self, cost: u64) -> u64 {
        along(&self.holds, cost, |point| point.1, |point| point.0)
    }

    /// The cost of the items that a cache with this memory holds.
    pub fn held_by(&self, memory: u64) -> u64 {
        along(&self.holds, memory, |point| point.0, |point| point.1)
    }

    /// The bytes that a full cache with this memory spends on the runs of its classes and on the
    /// metadata of all chunks in them.
    pub fn for_chunks(&self, memory: u64) -> u64 {
        along(&self.runs, memory, |point| point.0, |point| point.1)
    }

    /// Returns the share of `memory` that is available for the costs of items, from 0 to 1.
    pub fn usable(&self, memory: u64) -> f64 {
        self.held_by(memory) as f64 / memory.max(1) as f64
    }
}

/// Interpolates `at` linearly between the points, from their `from` to their `to`; extrapolates
/// beyond the last in its proportion.
fn along(
    points: &[(u64, u64)],
    at: u64,
    from: impl Fn(&(u64, u64)) -> u64,
    to: impl Fn(&(u64, u64)) -> u64,
) -> u64 {
    let after = points.partition_point(|point| from(point) <= at);
    let (Some(a), Some(b)) = (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after)) else {
        let Some(last) = points.last().filter(|last| from(last) > 0) else { return at };
        return (to(last) as f64 * at as f64 / from(last) as f64) as u64;
    };
    let run = (from(b) - from(a)).max(1) as f64;
    let rise = to(b) as f64 - to(a) as f64;
    (to(a) as f64 + rise * (at - from(a)) as f64 / run).max(0.0) as u64
}

/// A cache that was filled.
struct Full {
    memory: u64,
    items: u64,
    /// Bytes of chunks with an item.
    chunks: u64,
    /// All chunks, and the bytes of the runs that have them.
    all_chunks: u64,
    runs: u64,
    /// Index, queues and ghosts.
    metadata: u64,
}

fn cache(memory: ByteSize, policy: PolicyKind) -> Result<(Cache, PoolId)> {
    let cache = Cache::new(CacheConfig { memory, hash_seed: Some(1), ..CacheConfig::default() })?;
    let pool = cache.add_pool(PoolConfig { policy, own_keys: true, ..PoolConfig::named("asked") })?;
    Ok((cache, pool))
}

/// Puts examples in, under keys of their own, until each chunk has been used several times.
fn fill(policy: PolicyKind, memory: ByteSize, items: &[ItemSize]) -> Result<Full> {
    let (cache, pool) = cache(memory, policy)?;
    let mut key = [0_u8; 255];
    let (mut put, mut until) = (0_u64, u64::MAX);
    while put < until {
        let (key_len, value_len) = items[(put % items.len() as u64) as usize];
        // Keys are told apart by their first eight bytes; shorter ones are lengthened.
        let key_len = usize::from(key_len).max(8);
        key[..8].copy_from_slice(&put.to_le_bytes());
        match cache.allocate(pool, &key[..key_len], value_len as usize, &ItemOptions::default()) {
            Ok(item) => {
                cache.put(item);
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {}
            Err(_) if until == u64::MAX => until = put,
            Err(_) => {}
        }
        put += 1;
        if put.is_multiple_of(1_024) {
            // Items that are held keep slabs, and the next time will do.
            let _ = cache.maintain();
            let stats = cache.stats();
            let evicts = stats.pools.iter().any(|pool| pool.sum(|class| class.evictions) > 0);
            if until == u64::MAX && (evicts || put > 64 * MOST_ITEMS) {
                until = (put * TURNS).max(items.len() as u64).min(put + TURNS * MOST_ITEMS);
            }
        }
    }
    let stats = cache.stats();
    let mut full = Full { memory: memory.as_u64(), items: 0, chunks: 0, all_chunks: 0, runs: 0, metadata: 0 };
    for class in stats.pools.iter().flat_map(|pool| &pool.classes) {
        full.items += class.items;
        full.all_chunks += class.chunks;
        full.runs += class.bytes;
        full.chunks += (class.chunks - class.free_chunks.min(class.chunks)) * u64::from(class.chunk_bytes);
    }
    let per_item = [Part::Index, Part::Queues, Part::Ghosts];
    let parts = stats.memory.iter().filter(|(part, _)| per_item.contains(part));
    full.metadata = parts.map(|(_, bytes)| bytes).sum();
    Ok(full)
}

/// The default chunk sizes, and the header of an item that does not expire, by making items that
/// are larger and larger.
fn chunks() -> Result<(Vec<u32>, u32)> {
    let (cache, pool) = cache(ByteSize::mib(512), PolicyKind::default())?;
    let key = [0_u8; 8];
    // The bytes of an item with a value of this length, and those of its chunk; `None` where no
    // chunk holds it.
    let made = |value_len: usize| {
        let item = cache.allocate(pool, &key, value_len, &ItemOptions::default()).ok()?;
        let (item, _) = cache.insert_or_replace(item);
        Some((item.size_bytes(), item.chunk_bytes()))
    };
    let (bytes, mut last) = made(0).context("the engine takes an item without a value")?;
    let header = bytes - key.len();
    let mut chunks = vec![last];
    while let Some((_, chunk)) = made(last as usize + 1 - header - key.len()) {
        chunks.push(chunk);
        last = chunk;
    }
    Ok((chunks, u32::try_from(header)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_take_their_chunk_and_what_is_kept_of_them_elsewhere() {
        let asked = EngineMemory::ask(PolicyKind::LRU, &[(8, 1_000)]).unwrap();
        let item = asked.item_bytes(8, 1_000);
        assert!((1_020 + 8..1_020 + 300).contains(&item), "{item}");
        assert!(asked.item_bytes(8, 1) >= 64 && asked.item_bytes(8, 3_000_000) > 3_000_000);
        assert!(asked.largest_item() > 1 << 20);
    }

    /// The predicted contents are those that a cache with that memory then holds.
    #[test]
    fn memory_and_what_it_holds_are_each_others_inverse_and_true() {
        let items: Vec<ItemSize> = (0..1_000).map(|i| (8, 100 + i * i % 3_000)).collect();
        let asked = EngineMemory::ask(PolicyKind::default(), &items).unwrap();
        for memory in [64 << 20, 100 << 20, 200 << 20, 4 << 30] {
            let held = asked.held_by(memory);
            assert!(held < memory && held > memory / 2, "{held} of {memory}");
            let back = asked.memory_for(held);
            assert!(back.abs_diff(memory) < memory / 1_000 + 16, "{back} for {memory}");
        }
        // Between two engines that were asked; of items of many sizes some classes have slabs that
        // others would use.
        for (items, parts) in [(items, 8), (vec![(8, 1_000)], 20)] {
            let asked = EngineMemory::ask(PolicyKind::default(), &items).unwrap();
            let full = fill(PolicyKind::default(), ByteSize::mib(100), &items).unwrap();
            let cost = full.chunks + full.items * u64::from(asked.metadata);
            let told = asked.held_by(100 << 20);
            assert!(cost.abs_diff(told) * parts < told, "{cost} in fact, {told} as told");
        }
    }
}
