//! The caches that are compared in process, each in its best form.
//!
//! A contestant is a file that says how its cache is built for a number of bytes and how it finds
//! and inserts. Peers have 16-byte array keys, which need no allocation, `Arc<[u8]>` values, of
//! which a reader takes a reference (none of them shows a value in place), and a fast hash. Calls
//! are generic, so that nothing stands between the timed loop and the cache.

mod foyer;
mod millpond;
mod moka;
mod nothing;
mod quick_cache;

use std::fmt;
use std::str::FromStr;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::child::Bill;
use crate::keys::Key;

pub(crate) use self::foyer::Foyer;
pub(crate) use self::millpond::Millpond;
pub(crate) use self::moka::Moka;
pub(crate) use self::nothing::Nothing;
pub(crate) use self::quick_cache::QuickCache;

/// A value as peers hold it.
pub(crate) type Value = std::sync::Arc<[u8]>;

/// The size of a cache.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Memory limit, in bytes.
    pub(crate) memory_bytes: u64,
    /// Bytes that a peer's weigher adds to key and value of an entry, found by measuring. Millpond
    /// needs none.
    pub(crate) overhead_bytes: u64,
    /// The length of all values, in bytes, from which peers are told how many items to expect.
    pub(crate) value_len: usize,
}

impl Spec {
    /// Returns the weight of an entry, in bytes.
    pub(crate) fn entry_bytes(&self) -> u64 {
        size_of::<Key>() as u64 + self.value_len as u64 + self.overhead_bytes
    }

    /// Returns the number of entries that fit by weight.
    pub(crate) fn entries(&self) -> u64 {
        self.memory_bytes / self.entry_bytes()
    }
}

/// A cache inside this process.
pub(crate) trait Contestant: Sync + Sized {
    /// An empty cache.
    fn build(name: Name, spec: &Spec) -> Result<Self>;

    /// Calls `seen` with the value of `key` while it is held.
    fn find<T>(&self, key: &Key, seen: impl FnOnce(&[u8]) -> T) -> Option<T>;

    /// Finds up to [`crate::keys::BATCH`] keys at once and adds up the first bytes of their values.
    /// Returns the number of hits.
    fn find_many(&self, keys: &[Key], sum: &mut u64) -> u64 {
        let mut hits = 0;
        for key in keys {
            if let Some(byte) = self.find(key, |value| value[0]) {
                *sum += u64::from(byte);
                hits += 1;
            }
        }
        hits
    }

    /// Inserts or replaces. False where the cache refuses.
    fn insert(&self, key: &Key, value: &[u8]) -> bool;

    /// Finishes what the cache has put off.
    fn settle(&self) {}

    /// Items it holds.
    fn items(&self) -> u64;

    /// Returns the memory by part, if the contestant keeps an account.
    fn bill(&self) -> Option<Bill> {
        None
    }
}

/// A contestant by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Name {
    /// The loop alone.
    Nothing,
    /// Millpond under S3-FIFO, its default.
    Millpond,
    /// Millpond under LRU.
    MillpondLru,
    /// quick_cache (a variant of CLOCK-Pro and S3-FIFO).
    QuickCache,
    /// moka's sync cache under TinyLFU, its default.
    Moka,
    /// foyer's in-memory cache under S3-FIFO, whose hits take a shared lock.
    Foyer,
    /// foyer's in-memory cache under w-TinyLFU.
    FoyerLfu,
}

impl Name {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Millpond,
        Self::MillpondLru,
        Self::QuickCache,
        Self::Moka,
        Self::Foyer,
        Self::FoyerLfu,
    ];

    /// Returns whether the weigher has to be calibrated: Millpond counts its own memory.
    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Self::Nothing | Self::Millpond | Self::MillpondLru)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Millpond => "millpond",
            Self::MillpondLru => "millpond-lru",
            Self::QuickCache => "quick_cache",
            Self::Moka => "moka",
            Self::Foyer => "foyer",
            Self::FoyerLfu => "foyer-lfu",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::text).join(", ");
        Self::ALL
            .into_iter()
            .find(|name| name.text() == text)
            .ok_or_else(|| format!("`{text}` is none of {}", names()))
    }
}
