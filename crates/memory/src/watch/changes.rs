//! Changes: which of the followed keys have another value than before, for whoever keeps copies of
//! values.
//!
//! What is followed is counted by the hash of the key, in a table of fixed size: two keys may share
//! a counter, so that now and then a change is reported for a key that is not followed. None that
//! happened after the key was followed is missing: either the follower reads the new value, or the
//! thread that changes it sees the counter (invariant 2). If changes come faster than they are
//! read, what does not fit is counted as lost, and the reader has to take every key for changed.
//!
//! Invariants:
//! 1. A change is noted after it can be read, and a key is followed before it is read; between the
//!    two steps of either lies a sequentially consistent fence.
//! 2. So of two that do both at once, at least one sees the other: the change is noted, or its
//!    value is read.
//! 3. The lock of the buffer is taken last, and nothing is called under it.

mod reader;

pub use reader::ChangeReader;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::pools::PoolId;

/// Counters of followed keys: half a MiB.
const COUNTERS: usize = 1 << 19;
/// A record before its key: the pool's number, the generation of that number, the key's length,
/// nothing, the author; 2, 2, 2, 2 and 8 bytes.
const RECORD_BYTES: usize = 16;

thread_local! {
    /// On whose behalf this thread changes what it changes: see [`set_author`].
    static AUTHOR: Cell<u64> = const { Cell::new(0) };
}

/// Says on whose behalf this thread makes changes from now on: a number that
/// [`ChangeReader::drain`] tells with each of them; 0, as at the start, = of nobody in particular.
/// What a call evicts or finds to have expired is of nobody.
pub fn set_author(author: u64) {
    AUTHOR.set(author);
}

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The pool of the item that is there now, or that was.
    pub pool: PoolId,
    /// Its key.
    pub key: &'a [u8],
    /// On whose behalf: see [`set_author`].
    pub author: u64,
}

/// Counters, and changes on their way to the reader.
pub(super) struct Changes {
    counters: Box<[AtomicU8]>,
    follows_all: AtomicBool,
    /// True if there is anything to be read.
    is_waiting: AtomicBool,
    buffer: Mutex<Buffer>,
}

struct Buffer {
    records: Vec<u8>,
    capacity: usize,
    lost: u64,
    has_reader: bool,
}

impl Changes {
    fn new() -> Self {
        Self {
            counters: (0..COUNTERS).map(|_| AtomicU8::new(0)).collect(),
            follows_all: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            buffer: Mutex::new(Buffer { records: Vec::new(), capacity: 0, lost: 0, has_reader: false }),
        }
    }

    fn counter(&self, hash: u64) -> &AtomicU8 {
        // The upper half: the lower bits choose the bucket of the index.
        &self.counters[(hash >> 32) as usize % COUNTERS]
    }

    fn follows(&self, hash: u64) -> bool {
        self.counter(hash).load(Ordering::Relaxed) != 0 || self.follows_all.load(Ordering::Relaxed)
    }

    fn note(&self, change: Change<'_>) {
        let Change { pool, key, author } = change;
        let mut buffer = self.buffer.lock();
        if !buffer.has_reader {
            return;
        }
        if buffer.records.len() + RECORD_BYTES + key.len() > buffer.capacity {
            buffer.lost += 1;
        } else {
            buffer.records.extend_from_slice(&pool.0.to_le_bytes());
            buffer.records.extend_from_slice(&(key.len() as u16).to_le_bytes());
            buffer.records.extend_from_slice(&pool.1.to_le_bytes());
            buffer.records.extend_from_slice(&author.to_le_bytes());
            buffer.records.extend_from_slice(key);
        }
        self.is_waiting.store(true, Ordering::Release);
    }
}

/// The first record, and what comes after it.
fn first(records: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (record, rest) = records.split_first_chunk::<RECORD_BYTES>()?;
    let number = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    let author = record[8..].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let generation = u32::from(number(4)) | u32::from(number(6)) << 16;
    let (key, rest) = rest.split_at_checked(usize::from(number(2)))?;
    Some((Change { pool: PoolId(number(0), generation), key, author }, rest))
}
