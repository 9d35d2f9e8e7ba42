//! The sizes of keys, for requests that do not tell them.
//!
//! A read that missed has no size in the log of a server: the write that fills it tells it, a
//! moment later. So a trace of which some requests tell sizes and others do not is read once
//! before, and a key has the first size that any of its requests tells.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::Source;
use crate::reference::{KeyMap, key_id};
use crate::trace::{Op, TraceKey};

/// In the place of a size that no request told yet.
const UNKNOWN: u32 = u32::MAX;
/// A trace whose first requests, this many, all tell sizes is taken for one in which all do.
const FIRST_REQUESTS: u64 = 1 << 20;

/// The known sizes of a trace's keys: some 20 to 40 bytes of memory for each.
#[derive(Clone, Debug, Default)]
pub struct KeySizes {
    sizes: KeyMap<u32>,
}

/// Keys whose size no request tells, and what is assumed of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unsized {
    /// Number of these keys.
    pub keys: u64,
    /// All keys of the trace.
    pub of_keys: u64,
    /// The size of their values that is assumed, in bytes; `None` where nothing fills them.
    pub assumed_bytes: Option<u32>,
}

impl KeySizes {
    /// Reads the sizes out of a trace; `None` of one whose requests all tell them.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    pub fn of(trace: &Path, source: &Source) -> Result<Option<Self>> {
        let mut reader = source.open(trace)?;
        let (mut known, mut all_tell, mut requests) = (Self::default(), true, 0);
        let most = source.limit.unwrap_or(u64::MAX);
        while requests < most
            && let Some(request) = reader.next_request()?
        {
            requests += 1;
            if let Some(size) = request.size {
                let size = u32::try_from(size).unwrap_or(u32::MAX).min(UNKNOWN - 1);
                let known = known.sizes.entry(key_id(request.key)).or_insert(size);
                *known = if *known == UNKNOWN { size } else { *known };
            } else if matches!(request.op, Op::Get | Op::Set) {
                all_tell = false;
                known.sizes.entry(key_id(request.key)).or_insert(UNKNOWN);
            }
            if all_tell && requests >= FIRST_REQUESTS {
                break;
            }
        }
        Ok((!all_tell).then_some(known))
    }

    /// The size of a key's value, in bytes, if any of its requests tells it.
    pub fn get(&self, key: TraceKey<'_>) -> Option<u32> {
        self.sizes.get(&key_id(key)).copied().filter(|size| *size != UNKNOWN)
    }

    /// Counts the keys without a size, for which `assumed` is taken.
    pub(super) fn without(&self, assumed: Option<u32>) -> Option<Unsized> {
        let keys = self.sizes.values().filter(|size| **size == UNKNOWN).count() as u64;
        (keys > 0).then_some(Unsized { keys, of_keys: self.sizes.len() as u64, assumed_bytes: assumed })
    }
}
