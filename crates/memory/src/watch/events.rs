//! Events: what happens to a sample of keys, one call after the other.
//!
//! A key is sampled by its hash, so that of a sampled key every event is seen, and what is sampled
//! at one rate is sampled at every higher one. A call that meets a sampled key writes a record into
//! a buffer of fixed size; where that is full the event is dropped, and counted. Whoever reads
//! takes the whole buffer at once and sees the events in the order in which they were recorded,
//! with no lock of the cache held. (CacheLib's EventTracker, with a queue of fixed size and a
//! thread.)

mod reader;

pub use reader::{EventReader, EventThread};

use base::ByteSize;

use crate::pools::PoolId;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// Memory was asked for, for an item of this key.
    Allocate,
    /// An item was made visible, of a key that had none.
    Insert,
    /// An item was made visible in the place of another.
    Replace,
    /// A key was looked up, but not by `peek`.
    Find,
    /// An item was removed by its key or by a handle of it.
    Remove,
    /// An item left because its memory was wanted.
    Evict,
    /// An item that had expired or was flushed left.
    Expire,
    /// The expiry time of an item was changed.
    Touch,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Allocate,
        Self::Insert,
        Self::Replace,
        Self::Find,
        Self::Remove,
        Self::Evict,
        Self::Expire,
        Self::Touch,
    ];

    /// Its name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Insert => "insert",
            Self::Replace => "replace",
            Self::Find => "find",
            Self::Remove => "remove",
            Self::Evict => "evict",
            Self::Expire => "expire",
            Self::Touch => "touch",
        }
    }
}

/// The results of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventResult {
    /// It was done: a find found the item.
    Done,
    /// There was no item of this key.
    Miss,
    /// It was refused: no memory was to be had, or the key's item was not the expected one.
    Refused,
}

impl EventResult {
    const ALL: [Self; 3] = [Self::Done, Self::Miss, Self::Refused];

    /// Its name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Miss => "miss",
            Self::Refused => "refused",
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The kind of the event.
    pub kind: EventKind,
    /// Its result.
    pub result: EventResult,
    /// To which key.
    pub key: &'a [u8],
    /// In which pool; `None` where there was no item and pools share the key space.
    pub pool: Option<PoolId>,
    /// In which size class, as in [`crate::ClassStats::number`]; `None` where there was no item.
    pub class: Option<u8>,
    /// Bytes of the value; `None` where there was no item, and for an allocation that failed what
    /// was asked for.
    pub value_bytes: Option<u64>,
    /// Seconds until the item expires, at the time of the event; `None` = never, or there was no
    /// item.
    pub ttl_secs: Option<u32>,
    /// The time, in nanoseconds since the Unix epoch, by the cache's clock. Never less than that of
    /// the event before.
    pub time_nanos: u64,
}

/// The events that are recorded, and their buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventConfig {
    /// The events of one key in this many are recorded; 1 = of all, 0 = of none. Default 1,000.
    pub one_in: u32,
    /// Memory of the events that were not read yet, at most. Twice that is charged to the ledger,
    /// for events that are being read. An event takes 32 bytes and its key. Default 1 MiB.
    pub buffer: ByteSize,
}

impl Default for EventConfig {
    fn default() -> Self {
        Self { one_in: 1_000, buffer: ByteSize::mib(1) }
    }
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventStats {
    /// One key in this many is sampled; 0 = none.
    pub one_in: u32,
    /// Events that were recorded since this reader began.
    pub recorded: u64,
    /// Events of sampled keys that found the buffer full.
    pub dropped: u64,
}

/// A receiver of events.
pub trait EventSink {
    /// Takes an event. Called by the thread that reads, with no lock held: it may call the cache.
    fn event(&mut self, event: &Event<'_>);

    /// Called after the last event that was there.
    fn flush(&mut self) {}
}

impl<F: FnMut(&Event<'_>)> EventSink for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// Events on their way from those who record to the one who reads: records one after the other.
pub(super) struct Buffer {
    records: Vec<u8>,
    capacity: usize,
    last_nanos: u64,
    stats: EventStats,
}

const NO_CLASS: u16 = u16::MAX;
const NO_POOL: u16 = u16::MAX;
const NO_NUMBER: u32 = u32::MAX;
const NO_BYTES: u64 = u64::MAX;
/// Kind, result, key length, pool, class, time to live, generation of the pool's number, nothing,
/// value length, time: 1, 1, 2, 2, 2, 4, 2, 2, 8 and 8 bytes.
const RECORD_BYTES: usize = 32;

impl Buffer {
    fn new(config: &EventConfig) -> Self {
        let capacity = config.buffer.as_usize();
        let stats = EventStats { one_in: config.one_in, ..EventStats::default() };
        Self { records: Vec::with_capacity(capacity), capacity, last_nanos: 0, stats }
    }

    /// Appends an event, or drops it.
    pub(super) fn record(&mut self, event: &Event<'_>) {
        if self.records.len() + RECORD_BYTES + event.key.len() > self.capacity {
            self.stats.dropped += 1;
            return;
        }
        self.stats.recorded += 1;
        self.last_nanos = self.last_nanos.max(event.time_nanos);
        let mut record = [0_u8; RECORD_BYTES];
        record[0] = event.kind as u8;
        record[1] = event.result as u8;
        record[2..4].copy_from_slice(&(event.key.len() as u16).to_le_bytes());
        record[4..6].copy_from_slice(&event.pool.map_or(NO_POOL, PoolId::number).to_le_bytes());
        record[6..8].copy_from_slice(&event.class.map_or(NO_CLASS, u16::from).to_le_bytes());
        record[12..16].copy_from_slice(&event.pool.map_or(0, |pool| pool.1).to_le_bytes());
        record[8..12].copy_from_slice(&event.ttl_secs.unwrap_or(NO_NUMBER).to_le_bytes());
        record[16..24].copy_from_slice(&event.value_bytes.unwrap_or(NO_BYTES).to_le_bytes());
        record[24..32].copy_from_slice(&self.last_nanos.to_le_bytes());
        self.records.extend_from_slice(&record);
        self.records.extend_from_slice(event.key);
    }
}

/// The first event of `records`, and what comes after it.
fn first(records: &[u8]) -> Option<(Event<'_>, &[u8])> {
    let (record, rest) = records.split_first_chunk::<RECORD_BYTES>()?;
    let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    let double =
        |at: usize| record[at..at + 8].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (key, rest) = rest.split_at_checked(usize::from(half(2)))?;
    let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
    let ttl = word(8);
    let event = Event {
        kind: *EventKind::ALL.get(usize::from(record[0]))?,
        result: *EventResult::ALL.get(usize::from(record[1]))?,
        key,
        pool: (half(4) != NO_POOL).then(|| PoolId(half(4), word(12))),
        class: (half(6) != NO_CLASS).then(|| half(6) as u8),
        value_bytes: (double(16) != NO_BYTES).then(|| double(16)),
        ttl_secs: (ttl != NO_NUMBER).then_some(ttl),
        time_nanos: double(24),
    };
    Some((event, rest))
}
