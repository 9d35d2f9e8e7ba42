//! Negative caching: what is known not to be there, in a few bytes a key.
//!
//! A cache in front of a database is asked again and again for keys that the database does not
//! have; each such miss costs a query. (Berg et al., "The CacheLib Caching Engine", OSDI 2020,
//! section 2: caching of negative results.) A [`NegativeCache`] remembers such keys by a
//! *fingerprint* of 64 or 128 bits, in a [`crate::compact`] cache: 12.2 or 21.3 bytes each, however
//! long the key is, beside the 64 and more of an item that says so.
//!
//! ```
//! use millpond::negative::{NegativeCache, NegativeConfig};
//! use millpond::{ByteSize, Cache, CacheConfig};
//! # fn main() -> Result<(), millpond::Error> {
//! # let database_has = |_: &[u8]| false;
//! let cache = Cache::new(CacheConfig::default())?;
//! let absent = NegativeCache::new(&cache, NegativeConfig::new("absent users", ByteSize::mib(4)))?;
//!
//! let key = b"user:1";
//! if !absent.is_absent(key) {
//!     // Before the database is asked, so that an insertion in the meantime is noticed.
//!     let ticket = absent.begin(key);
//!     if !database_has(key) {
//!         absent.note(ticket);
//!     }
//! }
//! assert!(absent.is_absent(key));
//!
//! // Whoever inserts the key into the database says so after that.
//! absent.void(key);
//! assert!(!absent.is_absent(key));
//! # Ok(())
//! # }
//! ```
//!
//! What must hold:
//! 1. Once [`NegativeCache::void`] has returned, nothing that was found before the call began makes
//!    the key appear absent: no entry, and no [`Ticket`] that was begun before. This is the lease
//!    of Nishtala et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.2.1. A call of
//!    `void` marks the fences of the fingerprint ([`Fences`]), and then locks the key's bucket to
//!    remove the entry. A call of `note` checks its fence while it holds the lock of that bucket.
//!    So either `note` sees the mark, or `void` sees the entry of `note`.
//! 2. An expired entry says nothing.
//! 3. An entry has a fingerprint, not the key. A key with the same fingerprint as an entry is
//!    therefore reported absent too: with `n` entries, a present key collides with one of them with
//!    a probability of `n / 2^64`, or `n / 2^128`. With ten million entries of 64 bits and a
//!    million look-ups of present keys a second, that is one wrong answer in three weeks, which
//!    lasts until the entry expires. The hash has a random seed, so that a client that does not
//!    know the seed cannot construct collisions; XXH3 is not a cryptographic hash, however. Use 64
//!    bits if a wrong answer is a nuisance, and 128, the default, if it is a fault.

use std::sync::Arc;
use std::sync::atomic::{self, Ordering};

use base::counter::Counters;
use base::hash::{key_hash, key_hash_128};
use base::{ByteSize, Part};

use crate::compact::{CompactCache, CompactConfig, CompactStats};
use memory::Cache;
use memory::Error;
use memory::fence::{self, Fences};

const HITS: usize = 0;
const MISSES: usize = 1;
const NOTED: usize = 2;
const REFUSED: usize = 3;
const VOIDED: usize = 4;
const EXPIRED: usize = 5;

/// The part of a key that is kept: see [`crate::negative`], 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fingerprint {
    /// 64 bits: 12.2 bytes an entry.
    Bits64,
    /// 128 bits: 21.3 bytes an entry.
    #[default]
    Bits128,
}

/// Configuration of a negative cache.
#[derive(Clone, Debug)]
pub struct NegativeConfig {
    /// Its name in statistics.
    pub name: String,
    /// Its memory: see [`CompactConfig::memory`].
    pub memory: ByteSize,
    /// See [`CompactConfig::max_memory`].
    pub max_memory: Option<ByteSize>,
    /// For how long a key is known to be absent, in seconds; `None` = until it is evicted or
    /// voided. Default 60.
    pub ttl_secs: Option<u32>,
    /// The part of a key that is kept. Default 128 bits.
    pub fingerprint: Fingerprint,
    /// Seed of the hash of its keys. Default: from the operating system.
    pub hash_seed: Option<u64>,
}

impl NegativeConfig {
    /// One of this name and size with all defaults.
    pub fn new(name: impl Into<String>, memory: ByteSize) -> Self {
        Self {
            name: name.into(),
            memory,
            max_memory: None,
            ttl_secs: Some(60),
            fingerprint: Fingerprint::default(),
            hash_seed: None,
        }
    }
}

/// Statistics of a negative cache at one moment. Counters only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NegativeStats {
    /// Look-ups that found the key to be absent.
    pub hits: u64,
    /// Look-ups that found no entry: the backend has to be asked.
    pub misses: u64,
    /// Notes that were taken.
    pub noted: u64,
    /// Notes that came too late, because the key was voided meanwhile.
    pub refused: u64,
    /// Entries that were voided.
    pub voided: u64,
    /// Entries that were found to be expired.
    pub expired: u64,
    /// The entries.
    pub entries: CompactStats,
}

/// A note of what a backend was about to be asked for, and when: from [`NegativeCache::begin`].
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    fingerprint: u128,
    fence: fence::Ticket,
}

/// Entries by fingerprint: when they expire, Unix seconds, 0 = never.
enum Entries {
    Narrow(CompactCache<[u32; 2], u32>),
    Wide(CompactCache<[u32; 4], u32>),
}

/// Runs `$body` with the entries and the key that a fingerprint has in them.
macro_rules! with_entries {
    ($self:expr, $fingerprint:expr, |$entries:ident, $key:ident| $body:expr) => {
        match &$self.entries {
            Entries::Narrow($entries) => {
                let $key = &halves($fingerprint as u64);
                $body
            }
            Entries::Wide($entries) => {
                let $key = &{
                    let ([a, b], [c, d]) = (halves($fingerprint as u64), halves(($fingerprint >> 64) as u64));
                    [a, b, c, d]
                };
                $body
            }
        }
    };
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

struct Inner {
    cache: Cache,
    entries: Entries,
    seed: u64,
    ttl_secs: Option<u32>,
    /// Tickets, by the lower half of their fingerprints.
    fences: Arc<Fences>,
    counters: Counters<6>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cache.ledger().release(Part::Compact, Fences::BYTES);
    }
}

/// A cache of keys that the backend does not have: see [`crate::negative`]. Clones share the same
/// entries.
#[derive(Clone)]
pub struct NegativeCache {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for NegativeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NegativeCache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl NegativeCache {
    /// Makes an empty one.
    ///
    /// # Errors
    /// As for [`CompactCache::new`].
    pub fn new(cache: &Cache, config: NegativeConfig) -> Result<Self, Error> {
        let compact = CompactConfig {
            name: config.name,
            memory: config.memory,
            max_memory: config.max_memory,
            hash_seed: config.hash_seed,
        };
        let entries = match config.fingerprint {
            Fingerprint::Bits64 => Entries::Narrow(CompactCache::new(cache, compact)?),
            Fingerprint::Bits128 => Entries::Wide(CompactCache::new(cache, compact)?),
        };
        let inner = Inner {
            cache: cache.clone(),
            entries,
            seed: config.hash_seed.unwrap_or_else(base::rng::entropy_seed),
            ttl_secs: config.ttl_secs,
            fences: Fences::new(),
            counters: Counters::default(),
        };
        cache.ledger().charge(Part::Compact, Fences::BYTES);
        Ok(Self { inner: Arc::new(inner) })
    }

    fn fingerprint(&self, key: &[u8]) -> u128 {
        match self.inner.entries {
            Entries::Narrow(_) => key_hash(self.inner.seed, key).into(),
            Entries::Wide(_) => key_hash_128(self.inner.seed, key),
        }
    }

    fn now(&self) -> u32 {
        self.inner.cache.clock().unix_secs()
    }

    fn count(&self, counter: usize, n: u64) {
        self.inner.counters.add(counter, n);
    }

    /// Returns whether `key` is known to be absent. A use of its entry.
    pub fn is_absent(&self, key: &[u8]) -> bool {
        let fingerprint = self.fingerprint(key);
        let known = with_entries!(self.inner, fingerprint, |entries, key| match entries.get(key) {
            None => false,
            Some(expiry) if expiry == 0 || expiry > self.now() => true,
            Some(expiry) => {
                let gone = entries.exchange(key, Some(expiry), None).is_some();
                self.count(EXPIRED, gone.into());
                false
            }
        });
        self.count(if known { HITS } else { MISSES }, 1);
        known
    }

    /// Begins to find out whether `key` is absent: to be called before the backend is asked.
    pub fn begin(&self, key: &[u8]) -> Ticket {
        let fingerprint = self.fingerprint(key);
        Ticket { fingerprint, fence: self.inner.fences.begin(fingerprint as u64) }
    }

    /// Notes that the key of this ticket is absent, for [`NegativeConfig::ttl_secs`]. `false`: it
    /// was voided since the ticket was begun, or the ticket is of another negative cache, and
    /// nothing is noted.
    pub fn note(&self, ticket: Ticket) -> bool {
        self.note_for(ticket, self.inner.ttl_secs)
    }

    /// The same for this many seconds; `None` = until it is evicted or voided.
    pub fn note_for(&self, ticket: Ticket, ttl_secs: Option<u32>) -> bool {
        let Ticket { fingerprint, fence } = ticket;
        let expiry = ttl_secs.map_or(0, |secs| self.now().saturating_add(secs).max(1));
        let is_valid = || !fence.is_void();
        let noted = fence.is_of(&self.inner.fences)
            && with_entries!(self.inner, fingerprint, |entries, key| entries.set_if(key, &expiry, is_valid));
        self.count(if noted { NOTED } else { REFUSED }, 1);
        noted
    }

    /// Forgets that `key` is absent, and makes tickets void that were begun before: to be called
    /// once the key was inserted into the backend. `false`: it was not known to be absent.
    pub fn void(&self, key: &[u8]) -> bool {
        let fingerprint = self.fingerprint(key);
        // With that of `Fences::begin`: whoever is not seen here begins after the insertion.
        atomic::fence(Ordering::SeqCst);
        self.inner.fences.void(fingerprint as u64);
        let was = with_entries!(self.inner, fingerprint, |entries, key| entries.remove(key).is_some());
        self.count(VOIDED, was.into());
        was
    }

    /// The same for all keys.
    pub fn void_all(&self) {
        self.inner.fences.void_all();
        match &self.inner.entries {
            Entries::Narrow(entries) => entries.purge(),
            Entries::Wide(entries) => entries.purge(),
        }
    }

    /// Changes its memory: see [`CompactCache::resize`].
    ///
    /// # Errors
    /// As for [`CompactCache::resize`].
    pub fn resize(&self, memory: ByteSize) -> Result<(), Error> {
        match &self.inner.entries {
            Entries::Narrow(entries) => entries.resize(memory),
            Entries::Wide(entries) => entries.resize(memory),
        }
    }

    /// Returns what it holds, and what was done so far.
    pub fn stats(&self) -> NegativeStats {
        let count = |counter| self.inner.counters.sum(counter);
        NegativeStats {
            hits: count(HITS),
            misses: count(MISSES),
            noted: count(NOTED),
            refused: count(REFUSED),
            voided: count(VOIDED),
            expired: count(EXPIRED),
            entries: match &self.inner.entries {
                Entries::Narrow(entries) => entries.stats(),
                Entries::Wide(entries) => entries.stats(),
            },
        }
    }
}
