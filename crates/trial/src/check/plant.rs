//! Faults that are planted on purpose, between the checker and the cache, to show that the checker
//! finds them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use parking_lot::Mutex;

use super::subject::{Caller, Touched};
use super::value::LEAST_VALUE_BYTES;

/// The effect of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlantKind {
    /// A get returns a value that was overwritten or removed long ago.
    StaleRead,
    /// A delete says that it was done, and does nothing.
    LostRemove,
    /// A set says that it was done, and does nothing.
    LostWrite,
    /// A get returns a value whose end is that of another.
    TornValue,
    /// A get returns the value of another key.
    OtherKey,
    /// A set forgets the time to live.
    LostExpiry,
}

impl fmt::Display for PlantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StaleRead => "stale-read",
            Self::LostRemove => "lost-remove",
            Self::LostWrite => "lost-write",
            Self::TornValue => "torn-value",
            Self::OtherKey => "other-key",
            Self::LostExpiry => "lost-expiry",
        })
    }
}

/// A fault that strikes once in `every` of the calls at which it can, at the first opportunity from
/// then on.
pub(crate) struct Plant {
    kind: PlantKind,
    every: u64,
    calls: AtomicU64,
    struck: AtomicU64,
    old: Mutex<HashMap<Vec<u8>, FirstValue>>,
}

/// The first value of a key.
struct FirstValue {
    value: Vec<u8>,
    /// Number of writes to the key.
    writes: u32,
}

/// Most keys whose first values are kept.
const MOST_OLD: usize = 4_096;

impl Plant {
    pub(crate) fn new(kind: PlantKind, every: u64) -> Self {
        let (calls, struck, old) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Self { kind, every: every.max(1), calls, struck, old }
    }

    /// Returns the number of calls at which the fault struck.
    pub(crate) fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// Counts a call at which a fault of this kind can strike, and says whether it is due.
    fn is_due(&self, kind: PlantKind) -> bool {
        self.kind == kind && (self.calls.fetch_add(1, Ordering::Relaxed) + 1) / self.every > self.struck()
    }

    fn strike(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the first value of a key.
    fn note_write(&self, key: &[u8], value: &[u8]) {
        if self.kind != PlantKind::StaleRead {
            return;
        }
        let mut old = self.old.lock();
        if let Some(first) = old.get_mut(key) {
            first.writes += 1;
        } else if old.len() < MOST_OLD {
            old.insert(key.to_vec(), FirstValue { value: value.to_vec(), writes: 1 });
        }
    }

    /// The first value of a key that was written often since.
    fn old_value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.old.lock().get(key).filter(|first| first.writes > 2).map(|first| first.value.clone())
    }
}

/// A caller whose calls go through a planted fault.
pub(crate) struct Planted<'a> {
    inner: Box<dyn Caller + 'a>,
    plant: Arc<Plant>,
    /// A value of another key that was read before.
    other: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Planted<'a> {
    pub(crate) fn new(inner: Box<dyn Caller + 'a>, plant: Arc<Plant>) -> Self {
        Self { inner, plant, other: None }
    }
}

impl Caller for Planted<'_> {
    fn get(&mut self, pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let (plant, other) = (&self.plant, &mut self.other);
        let (stale, torn) = (plant.is_due(PlantKind::StaleRead), plant.is_due(PlantKind::TornValue));
        let mixed = plant.is_due(PlantKind::OtherKey);
        let mut struck = false;
        self.inner.get(pool, keys, &mut |i, value| {
            let another = other.as_ref().filter(|(key, _)| *key != keys[i]).map(|(_, value)| value);
            let replaced = match another {
                _ if struck => None,
                _ if stale => plant.old_value(keys[i]),
                Some(another) if mixed => Some(another.clone()),
                _ if torn && value.len() > LEAST_VALUE_BYTES as usize => {
                    let mut value = value.to_vec();
                    value.iter_mut().rev().take(8).for_each(|byte| *byte ^= 0x5a);
                    Some(value)
                }
                _ => None,
            };
            struck |= replaced.is_some();
            seen(i, replaced.as_deref().unwrap_or(value));
            if plant.kind == PlantKind::OtherKey {
                *other = Some((keys[i].to_vec(), value.to_vec()));
            }
        })?;
        if struck {
            plant.strike();
        }
        Ok(())
    }

    fn set(&mut self, pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        if self.plant.is_due(PlantKind::LostWrite) {
            self.plant.strike();
            return Ok(true);
        }
        let forget = ttl_secs > 0 && self.plant.is_due(PlantKind::LostExpiry);
        let stored = self.inner.set(pool, key, value, if forget { 0 } else { ttl_secs })?;
        if forget && stored {
            self.plant.strike();
        }
        if stored {
            self.plant.note_write(key, value);
        }
        Ok(stored)
    }

    fn delete(&mut self, pool: u16, key: &[u8]) -> Result<bool> {
        if self.plant.is_due(PlantKind::LostRemove) {
            let mut is_there = false;
            self.inner.get(pool, &[key], &mut |_, _| is_there = true)?;
            if is_there {
                self.plant.strike();
                return Ok(true);
            }
        }
        self.inner.delete(pool, key)
    }

    fn touch(&mut self, pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        self.inner.touch(pool, key, ttl_secs)
    }

    fn refusal(&self) -> Option<&str> {
        self.inner.refusal()
    }

    fn look_again(&mut self, seen: &mut dyn FnMut(&[u8], bool)) -> bool {
        self.inner.look_again(seen)
    }
}
