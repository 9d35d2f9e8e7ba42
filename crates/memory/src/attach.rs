//! Looking at a cache in shared memory from another process, without disturbing it.
//!
//! Nothing is written, no lock is taken and no memory of the cache is mapped: what is looked at is
//! copied, and what has changed meanwhile is found out ([`slab::onlooker`] says how, and what it
//! rests on). It does not matter whether the cache's own process works, stands still or is gone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base::Clock;
use base::hash::key_hash;
use slab::onlooker::{Chunk, Copied, Copies};
use slab::{ItemPtr, Onlooker, Run, Shared, SlabInfo};

use crate::cache::Cache;
use crate::config::ItemTag;
use crate::error::{Error, ErrorKind};
use crate::keyspace::Flushes;
use crate::pools::MAX_POOLS;
use crate::recover::{flush_word, name_hash};

/// A cache in shared memory ([`crate::CacheConfig::shared`]), as another process sees it.
///
/// What it returns was complete, unexpired and in the cache at one moment of the call: items that
/// are written, replaced or removed meanwhile are whole or not there. Of a key that is being
/// replaced, the old item, the new one or both may be seen in a walk. An item that is moved from
/// one slab to another during a walk may be seen twice or not at all.
///
/// ```
/// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig, ReadOnlyCache};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("millpond-attach-doc-{}", std::process::id()));
/// let cache = Cache::new(CacheConfig { shared: Some(folder.clone()), ..CacheConfig::default() })?;
/// let pool = cache.add_pool(PoolConfig::named("users"))?;
/// let mut item = cache.allocate(pool, b"user:1", 5, &ItemOptions::default())?;
/// item.value_mut().copy_from_slice(b"Alice");
/// cache.put(item);
///
/// // In another process:
/// let mut onlooker = ReadOnlyCache::attach(&folder)?;
/// onlooker.refresh()?;
/// let users = onlooker.pool_named("users")?.expect("there is one");
/// assert_eq!(onlooker.find(users, b"user:1")?.expect("there is one").value, b"Alice");
/// # drop((cache, onlooker));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReadOnlyCache {
    folder: PathBuf,
    files: Onlooker,
    clock: Clock,
    copies: Copies,
    /// Places where the last walk found items, by the hash of their key.
    index: Vec<Place>,
    /// By pool, as the last walk found them.
    keyspaces: HashMap<u16, u16>,
}

/// The place of a key's item.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    ptr: ItemPtr,
    run: Run,
    info: SlabInfo,
}

/// A pool of such a cache. Pools are known by number, and by the hash of their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedPool {
    /// Its number.
    pub number: u16,
    /// True if it has keys of its own.
    pub own_keys: bool,
    /// Its memory by the size of its chunks, both in bytes, ascending.
    pub classes: Vec<(u32, u64)>,
    name_hash: u64,
}

impl AttachedPool {
    /// Returns whether this is its name.
    pub fn is_named(&self, name: &str) -> bool {
        self.name_hash == name_hash(name)
    }

    /// All its memory, in bytes.
    pub fn slab_bytes(&self) -> u64 {
        self.classes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// An item, for as long as a walk shows it: in a copy that nobody else writes to.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    copied: Copied<'a>,
    run: Run,
    info: SlabInfo,
}

impl<'a> Seen<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.copied.key()
    }

    /// The value; of a structured item nothing, nor of one whose value [is long](Self::is_long).
    pub fn value(&self) -> &'a [u8] {
        self.copied.value()
    }

    /// The number of its pool.
    pub fn pool(&self) -> u16 {
        self.info.pool
    }

    /// Size of its chunk, in bytes.
    pub fn chunk_bytes(&self) -> u32 {
        self.info.chunk_bytes
    }

    /// Bytes of its chunk that it uses.
    pub fn size_bytes(&self) -> usize {
        self.copied.used_bytes()
    }

    /// Returns the number of links of its chain, about.
    pub fn links(&self) -> u32 {
        self.copied.links()
    }

    /// Returns whether its value is longer than a chunk, and lies in its links.
    pub fn is_long(&self) -> bool {
        self.copied.is_long()
    }

    /// Returns whether it is a structured item, which has no value.
    pub fn is_structured(&self) -> bool {
        self.copied.has_tail()
    }

    /// Returns the time at which it was made, in Unix seconds.
    pub fn created_at(&self) -> u32 {
        self.copied.created()
    }

    /// Returns its expiry time, in Unix seconds; `None` = never.
    pub fn expires_at(&self) -> Option<u32> {
        Some(self.copied.expiry()).filter(|time| *time != 0)
    }

    /// Returns the time at which it was last found, in Unix seconds, for items with a tag.
    pub fn last_access(&self) -> Option<u32> {
        self.copied.last_access()
    }

    /// The tag, if it was made with one.
    pub fn tag(&self) -> Option<ItemTag> {
        self.copied.tag().map(|(cas, client_flags)| ItemTag { cas, client_flags })
    }

    /// Returns whether it was ever found.
    pub fn was_fetched(&self) -> bool {
        self.copied.is_fetched()
    }
}

/// An item that [`ReadOnlyCache::find`] found: a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The value, as in [`Seen::value`].
    pub value: Vec<u8>,
    /// The time at which it was made, in Unix seconds.
    pub created_at: u32,
    /// Its expiry time, in Unix seconds; `None` = never.
    pub expires_at: Option<u32>,
    /// The tag, if it was made with one.
    pub tag: Option<ItemTag>,
    /// The number of links of its chain, about.
    pub links: u32,
    /// True if the value is longer than a chunk, and lies in the links: then it is not here.
    pub is_long: bool,
}

/// Counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Items that were shown.
    pub items: u64,
    /// Items that have expired or were flushed, and were not shown.
    pub dead: u64,
    /// Links of chains.
    pub links: u64,
    /// Chunks without an item.
    pub free_chunks: u64,
    /// Chunks that changed while they were looked at.
    pub changing: u64,
    /// Runs of chunks that were given away or to another class while they were looked at.
    pub changing_runs: u64,
}

impl Cache {
    /// Returns an error if a cache cannot be opened in `folder` ([`crate::CacheConfig::shared`])
    /// because of the files that are there. Changes nothing, and does not mind a process that has
    /// them open.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the files cannot be opened, or are of another layout; the text says
    /// which, and what to do.
    pub fn check_shared(folder: &Path) -> Result<(), Error> {
        Shared::check(folder)
            .map_err(|error| Error::with_source(ErrorKind::System, "cannot open the shared cache", error))
    }
}

impl ReadOnlyCache {
    /// Looks at the cache in `folder`, by the system's clock. The index is empty until
    /// [`Self::refresh`].
    ///
    /// # Errors
    /// [`ErrorKind::System`] where there is no cache, where its files may not be read, or where it
    /// is of another layout; the text says which, and what to do.
    pub fn attach(folder: &Path) -> Result<Self, Error> {
        Self::attach_with_clock(folder, Clock::System)
    }

    /// The same, by another clock: what expires is told by it.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn attach_with_clock(folder: &Path, clock: Clock) -> Result<Self, Error> {
        let files = Onlooker::open(folder).map_err(|error| {
            Error::with_source(ErrorKind::System, "cannot look at the shared cache", error)
        })?;
        let copies = Copies::default();
        Ok(Self {
            folder: folder.to_owned(),
            files,
            clock,
            copies,
            index: Vec::new(),
            keyspaces: HashMap::new(),
        })
    }

    fn failed(&self, error: std::io::Error) -> Error {
        let context = format!("cannot look at the cache in {}", self.folder.display());
        Error::with_source(ErrorKind::System, context, error)
    }

    /// Returns whether the cache's files were removed: what is seen then does not change any more.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the system does not tell.
    pub fn is_removed(&self) -> Result<bool, Error> {
        self.files.is_removed().map_err(|error| self.failed(error))
    }

    fn flushes(&self, keyspace: u16) -> Result<Flushes, Error> {
        if usize::from(keyspace) > MAX_POOLS {
            // No cache writes that: what stands there is of no meaning.
            return Ok(Flushes { before: u32::MAX, at: 0 });
        }
        let words = self.files.engine_words(flush_word(keyspace), 1);
        let words = words.map_err(|error| self.failed(error))?;
        Ok(words.first().map_or_else(Flushes::default, |word| Flushes::of_word(*word)))
    }

    /// The pools that have slabs, by number.
    ///
    /// # Errors
    /// [`ErrorKind::System`] where the files cannot be read.
    pub fn pools(&self) -> Result<Vec<AttachedPool>, Error> {
        let words = self.files.engine_words(0, MAX_POOLS).map_err(|error| self.failed(error))?;
        let mut pools: Vec<AttachedPool> = Vec::new();
        for (run, info) in self.files.runs().map_err(|error| self.failed(error))? {
            let at = match pools.binary_search_by_key(&info.pool, |pool| pool.number) {
                Ok(at) => at,
                Err(at) => {
                    let name_hash = words.get(usize::from(info.pool)).copied().unwrap_or(0);
                    let own_keys = info.keyspace != 0;
                    let pool = AttachedPool { number: info.pool, own_keys, classes: Vec::new(), name_hash };
                    pools.insert(at, pool);
                    at
                }
            };
            let classes = &mut pools[at].classes;
            match classes.binary_search_by_key(&info.chunk_bytes, |(chunk_bytes, _)| *chunk_bytes) {
                Ok(at) => classes[at].1 += run.bytes(),
                Err(at) => classes.insert(at, (info.chunk_bytes, run.bytes())),
            }
        }
        Ok(pools)
    }

    /// The number of the pool of this name, if it has slabs.
    ///
    /// # Errors
    /// As [`Self::pools`].
    pub fn pool_named(&self, name: &str) -> Result<Option<u16>, Error> {
        Ok(self.pools()?.iter().find(|pool| pool.is_named(name)).map(|pool| pool.number))
    }

    /// Shows every item of a pool, or of all, to `seen`. Copies each slab three times, some
    /// milliseconds for each.
    ///
    /// # Errors
    /// [`ErrorKind::System`] where the files cannot be read.
    pub fn walk(&mut self, pool: Option<u16>, mut seen: impl FnMut(Seen<'_>)) -> Result<Walked, Error> {
        let runs = self.files.runs().map_err(|error| self.failed(error))?;
        let mut walked = Walked::default();
        for (run, info) in runs.into_iter().filter(|(_, info)| pool.is_none_or(|pool| info.pool == pool)) {
            let (flushes, clock) = (self.flushes(info.keyspace)?, &self.clock);
            let looked = self.files.look_at_run(run, info, &mut self.copies, |chunk| match chunk {
                Chunk::Free => walked.free_chunks += 1,
                Chunk::Changing => walked.changing += 1,
                Chunk::Item(copied) if copied.is_link() => walked.links += 1,
                Chunk::Item(copied) if is_dead(copied, flushes, clock) => walked.dead += 1,
                Chunk::Item(copied) => {
                    walked.items += 1;
                    seen(Seen { copied, run, info });
                }
            });
            let is_there = looked.map_err(|error| self.failed(error))?;
            walked.changing_runs += u64::from(!is_there);
        }
        Ok(walked)
    }

    /// Builds the index anew, by a walk over all pools: 24 bytes for each item. What is inserted or
    /// moved later is not found before the next call.
    ///
    /// # Errors
    /// As [`Self::walk`].
    pub fn refresh(&mut self) -> Result<Walked, Error> {
        let mut index = std::mem::take(&mut self.index);
        index.clear();
        let runs = self.files.runs().map_err(|error| self.failed(error))?;
        self.keyspaces = runs.into_iter().map(|(_, info)| (info.pool, info.keyspace)).collect();
        let walked = self.walk(None, |item| {
            let hash = hash_of(item.info.keyspace, item.key());
            index.push(Place { hash, ptr: item.copied.ptr(), run: item.run, info: item.info });
        })?;
        index.sort_unstable_by_key(|place| place.hash);
        self.index = index;
        Ok(walked)
    }

    /// The item of `key` among the keys of `pool`, if the last [`Self::refresh`] found it and it
    /// still lies there; a pool that had no slab then has no keys. Reads the item three times, some
    /// microseconds.
    ///
    /// # Errors
    /// [`ErrorKind::System`] where the files cannot be read.
    pub fn find(&mut self, pool: u16, key: &[u8]) -> Result<Option<Snapshot>, Error> {
        let Some(&keyspace) = self.keyspaces.get(&pool) else { return Ok(None) };
        let hash = hash_of(keyspace, key);
        let first = self.index.partition_point(|place| place.hash < hash);
        let candidates = self.index[first..].iter().take_while(|place| place.hash == hash);
        let (flushes, clock) = (self.flushes(keyspace)?, &self.clock);
        for Place { ptr, run, info, .. } in
            candidates.copied().filter(|place| place.info.keyspace == keyspace)
        {
            let found = self.files.look_at_chunk((ptr, run), info, &mut self.copies, |chunk| match chunk {
                Chunk::Item(copied) if copied.key() == key && !is_dead(copied, flushes, clock) => {
                    Some(Snapshot::of(Seen { copied, run, info }))
                }
                _ => None,
            });
            let found = match found {
                Ok(found) => found.flatten(),
                Err(error) => return Err(self.failed(error)),
            };
            if let Some(found) = found {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Snapshot {
    fn of(item: Seen<'_>) -> Self {
        Self {
            value: item.value().to_vec(),
            created_at: item.created_at(),
            expires_at: item.expires_at(),
            tag: item.tag(),
            links: item.links(),
            is_long: item.is_long(),
        }
    }
}

fn is_dead(copied: Copied<'_>, flushes: Flushes, clock: &Clock) -> bool {
    let (now, expiry) = (clock.unix_secs(), copied.expiry());
    (expiry != 0 && now >= expiry) || flushes.has(copied.created(), now)
}

/// Of the index here: it need not be that of the cache, whose seed is its own.
fn hash_of(keyspace: u16, key: &[u8]) -> u64 {
    key_hash(keyspace.into(), key)
}
