//! Statistics by key prefix, as memcached's `stats detail` has them: how often keys that begin
//! alike up to the first colon were asked for, found, stored and removed. Kept while a client has
//! switched them on.
//!
//! There are at most [`MAX_PREFIXES`] of them, on the bill. Keys of others are not counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Ledger, Part};

/// The delimiter that ends a prefix.
const DELIMITER: u8 = b':';
/// Most prefixes that are counted.
const MAX_PREFIXES: usize = 1_024;
/// The memory charged for a prefix besides its own bytes.
const PREFIX_BYTES: usize = 96;

/// The effect of a request on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// It looks the key up.
    Read,
    /// It stores a value.
    Write,
    /// It sets the time to live alone.
    Touch,
    /// It removes the key.
    Remove,
}

impl KeyEffect {
    /// As traces have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "get",
            Self::Write => "set",
            Self::Touch => "touch",
            Self::Remove => "delete",
        }
    }
}

/// How often something was done with keys of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that were looked up.
    pub gets: u64,
    /// Those of them that were found.
    pub hits: u64,
    /// Values that were stored.
    pub sets: u64,
    /// Keys that were to be removed.
    pub deletes: u64,
}

/// See the module.
#[derive(Default)]
pub struct Details {
    is_on: AtomicBool,
    prefixes: Mutex<BTreeMap<Box<[u8]>, Counts>>,
}

impl Details {
    /// Returns whether requests are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts from now on, or no more. What was counted stays.
    pub fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Counts a request for a key, and whether it found something.
    pub fn note(&self, key: &[u8], does: KeyEffect, is_hit: bool, ledger: &Ledger) {
        let Some(prefix) = key.iter().position(|byte| *byte == DELIMITER).and_then(|end| key.get(..end))
        else {
            return;
        };
        let mut prefixes = self.lock();
        if !prefixes.contains_key(prefix) {
            if prefixes.len() >= MAX_PREFIXES {
                return;
            }
            ledger.charge(Part::Fixed, bytes_of(prefix));
        }
        let counts = prefixes.entry(prefix.into()).or_default();
        match does {
            KeyEffect::Read => {
                counts.gets += 1;
                counts.hits += u64::from(is_hit);
            }
            KeyEffect::Write => counts.sets += 1,
            KeyEffect::Remove => counts.deletes += 1,
            KeyEffect::Touch => {}
        }
    }

    /// All prefixes in their order.
    pub fn all(&self) -> Vec<(Box<[u8]>, Counts)> {
        self.lock().iter().map(|(prefix, counts)| (prefix.clone(), *counts)).collect()
    }

    /// Forgets what was counted.
    pub fn clear(&self, ledger: &Ledger) {
        let mut prefixes = self.lock();
        ledger.release(Part::Fixed, prefixes.keys().map(|prefix| bytes_of(prefix)).sum());
        prefixes.clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Counts>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn bytes_of(prefix: &[u8]) -> u64 {
    (prefix.len() + PREFIX_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_what_is_before_their_first_colon_within_a_limit() {
        let (details, ledger) = (Details::default(), Ledger::new(1 << 20));
        for (key, does, is_hit) in [
            ("foo:1", KeyEffect::Read, true),
            ("foo:2:3", KeyEffect::Read, false),
            ("foo:1", KeyEffect::Write, true),
            ("foo:1", KeyEffect::Remove, false),
            (":x", KeyEffect::Read, false),
            ("bar", KeyEffect::Read, true),
        ] {
            details.note(key.as_bytes(), does, is_hit, &ledger);
        }
        let foo = Counts { gets: 2, hits: 1, sets: 1, deletes: 1 };
        let empty = Counts { gets: 1, ..Counts::default() };
        assert_eq!(details.all(), [(b""[..].into(), empty), (b"foo"[..].into(), foo)]);
        for number in 0..2 * MAX_PREFIXES {
            details.note(format!("{number}:x").as_bytes(), KeyEffect::Read, false, &ledger);
        }
        assert_eq!(details.all().len(), MAX_PREFIXES);
        assert!(ledger.total() > 0);
        details.clear(&ledger);
        assert_eq!((details.all().len(), ledger.total()), (0, 0));
    }
}
