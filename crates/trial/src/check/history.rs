//! The histories of all keys: what is told about every call, and who is told what is wrong.
//!
//! A caller tells when a call begins and when it has ended; in between it calls the cache, and no
//! lock is held. Each key has its own lock, so that calls on different keys do not wait for each
//! other here.
//!
//! Memory: a key that was never called costs about 130 bytes; one that was, also a ring of its last
//! calls (40 bytes each, for reports) and what [`Lives`] keeps. Nothing grows with the length of a
//! run.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::lives::{FOR_EVER, Lives};
use super::record::{Answer, CallKind, Record, Tick};
use super::report::{Place, Violation, ViolationKind};
use super::subject::Touched;

/// Memory that all rings of last calls may take together.
const RING_BYTES: u64 = 192 << 20;
const RING_CALLS: Range<u64> = 6..33;

/// All keys of a run.
pub(crate) struct History {
    keys: Vec<Mutex<Key>>,
    clock: AtomicU64,
    ring_calls: usize,
    /// Seconds by which a value may be returned after its expiry.
    slack_secs: u64,
}

/// The versions of one key and the calls on it.
#[derive(Default)]
struct Key {
    lives: Lives,
    under_way: Vec<Record>,
    recent: VecDeque<Record>,
    /// Counts begins and ends of calls that are not gets.
    changes: u64,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) key: u64,
    pub(crate) record: Record,
    /// The Unix second at which it began.
    now: u64,
    changes: u64,
}

/// The result of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// The value says it is this version of the key.
    Version(u64),
    /// The value is whole, but of another key.
    OtherKey(super::value::Stamp),
    /// The value is not whole.
    Damaged(usize),
}

impl History {
    pub(crate) fn new(keys: u64, slack_secs: u64) -> Self {
        let ring = RING_BYTES / size_of::<Record>() as u64 / keys.max(1);
        Self {
            keys: (0..keys).map(|_| Mutex::default()).collect(),
            clock: AtomicU64::new(1),
            ring_calls: ring.clamp(RING_CALLS.start, RING_CALLS.end - 1) as usize,
            slack_secs,
        }
    }

    /// The number of the last key.
    pub(crate) fn last_key(&self) -> u64 {
        (self.keys.len() as u64).saturating_sub(1)
    }

    fn tick(&self) -> Tick {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn key(&self, key: u64) -> &Mutex<Key> {
        &self.keys[key as usize]
    }

    /// A call is about to be made. A set gets its version, in the ticket's record. `now` is the
    /// time of the cache.
    pub(crate) fn begin(
        &self,
        key: u64,
        kind: CallKind,
        thread: u16,
        wanted: (u32, u32),
        now: u32,
    ) -> Ticket {
        let (size, ttl_secs) = wanted;
        let mut entry = self.key(key).lock();
        let mut record = Record {
            begin: self.tick(),
            end: Tick::MAX,
            version: 0,
            size,
            ttl_secs,
            thread,
            kind,
            answer: Answer::Open,
        };
        if kind == CallKind::Set {
            entry.lives.begin_set(&mut record);
        }
        entry.changes += u64::from(kind != CallKind::Get);
        entry.under_way.push(record);
        Ticket { key, record, now: u64::from(now), changes: entry.changes }
    }

    /// A get has come back.
    pub(crate) fn end_get(&self, ticket: Ticket, found: Found) -> Result<(), Box<Violation>> {
        let (answer, version) = match found {
            Found::Nothing => (Answer::Nothing, 0),
            Found::Version(version) => (Answer::Value, version),
            Found::OtherKey(stamp) => (Answer::Value, stamp.version),
            Found::Damaged(_) => (Answer::Value, 0),
        };
        self.end(&ticket, Record { version, ..ticket.record }, answer, |key, record| match found {
            Found::Nothing => key.lives.nothing(record).map_err(ViolationKind::Order),
            Found::Version(_) => {
                // While a touch is under way, nobody can tell when the value expires.
                let judged = !key.under_way.iter().any(|call| call.kind == CallKind::Touch);
                let now = judged.then(|| ticket.now.saturating_sub(self.slack_secs));
                key.lives.read(record, now).map_err(ViolationKind::Order)
            }
            Found::OtherKey(stamp) => Err(ViolationKind::OtherKey(stamp)),
            Found::Damaged(size) => Err(ViolationKind::Damaged(size)),
        })
    }

    /// A set has come back. `now` is the time of the cache.
    pub(crate) fn end_set(&self, ticket: Ticket, stored: bool, now: u32) -> Result<(), Box<Violation>> {
        let answer = if stored { Answer::Done } else { Answer::Refused };
        let expires = expiry(ticket.record.ttl_secs, now);
        self.end(&ticket, ticket.record, answer, |key, record| {
            key.changes += 1;
            key.lives.end_set(record, expires).map_err(ViolationKind::Order)
        })
    }

    /// A delete has come back, and tells whether something was there.
    pub(crate) fn end_delete(&self, ticket: Ticket, found: bool) -> Result<(), Box<Violation>> {
        let answer = if found { Answer::Done } else { Answer::Nothing };
        self.end(&ticket, ticket.record, answer, |key, record| {
            key.changes += 1;
            let something = if found { key.lives.something(record.begin) } else { Ok(()) };
            something.and_then(|()| key.lives.nothing(record)).map_err(ViolationKind::Order)
        })
    }

    /// A touch has come back. `now` is the time of the cache.
    pub(crate) fn end_touch(&self, ticket: Ticket, touched: Touched, now: u32) -> Result<(), Box<Violation>> {
        let answer = match touched {
            Touched::Done => Answer::Done,
            Touched::Nothing => Answer::Nothing,
            Touched::NothingOrRefused => Answer::Refused,
        };
        let expires = expiry(ticket.record.ttl_secs, now);
        self.end(&ticket, ticket.record, answer, |key, record| {
            let alone = ticket.changes == key.changes && key.under_way.is_empty();
            key.changes += 1;
            match touched {
                Touched::Done => {
                    key.lives.touched(record.begin, expires, alone);
                    key.lives.something(record.begin).map_err(ViolationKind::Order)
                }
                Touched::Nothing => key.lives.nothing(record).map_err(ViolationKind::Order),
                Touched::NothingOrRefused => Ok(()),
            }
        })
    }

    /// A call has ended without an answer, and nothing will be done for it from now on: it was
    /// carried out or not. As a part of it may have been, nothing is known of when the value
    /// expires.
    pub(crate) fn end_unknown(&self, ticket: Ticket) {
        // What is not known cannot be wrong.
        let _ = self.end(&ticket, ticket.record, Answer::Unknown, |key, record| {
            key.changes += u64::from(record.kind != CallKind::Get);
            match record.kind {
                CallKind::Set => key.lives.end_unknown_set(record),
                CallKind::Touch => key.lives.touched(record.begin, FOR_EVER, false),
                CallKind::Get | CallKind::Delete | CallKind::Flush => {}
            }
            Ok(())
        });
    }

    /// Removes all keys through `flush`, and records that in the history of every key. Costs a walk
    /// over all keys.
    pub(crate) fn flush<E>(
        &self,
        flush: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), Box<Violation>>, E> {
        let begin = self.tick();
        flush()?;
        let record = Record {
            begin,
            end: self.tick(),
            version: 0,
            size: 0,
            ttl_secs: 0,
            thread: 0,
            kind: CallKind::Flush,
            answer: Answer::Done,
        };
        for (number, key) in self.keys.iter().enumerate() {
            let mut key = key.lock();
            if key.recent.is_empty() && key.under_way.is_empty() {
                continue;
            }
            let judged = key.lives.nothing(record).map_err(ViolationKind::Order);
            key.remember(record, self.ring_calls);
            if let Err(kind) = judged {
                return Ok(Err(key.violation(number as u64, kind, record)));
            }
            let oldest = key.oldest_under_way();
            key.lives.forget(oldest);
        }
        Ok(Ok(()))
    }

    /// A handle that was held shows other bytes than when it was taken.
    pub(crate) fn held_value_changed(&self, key: u64, version: u64) -> Box<Violation> {
        let entry = self.key(key).lock();
        let last = entry.recent.back().copied();
        let tick = self.clock.load(Ordering::SeqCst);
        let record = last.unwrap_or(Record {
            begin: tick,
            end: tick,
            version,
            size: 0,
            ttl_secs: 0,
            thread: 0,
            kind: CallKind::Get,
            answer: Answer::Value,
        });
        entry.violation(key, ViolationKind::HeldChanged(version), record)
    }

    /// Returns the number of versions that are kept of a key.
    #[cfg(test)]
    pub(crate) fn kept(&self, key: u64) -> usize {
        self.key(key).lock().lives.len()
    }

    fn end(
        &self,
        ticket: &Ticket,
        record: Record,
        answer: Answer,
        judge: impl FnOnce(&mut Key, Record) -> Result<(), ViolationKind>,
    ) -> Result<(), Box<Violation>> {
        let mut key = self.key(ticket.key).lock();
        let record = Record { end: self.tick(), answer, ..record };
        if let Some(place) = key.under_way.iter().position(|call| call.begin == record.begin) {
            key.under_way.swap_remove(place);
        }
        let judged = judge(&mut key, record);
        key.remember(record, self.ring_calls);
        if let Err(kind) = judged {
            return Err(key.violation(ticket.key, kind, record));
        }
        let oldest = key.oldest_under_way();
        key.lives.forget(oldest);
        Ok(())
    }
}

/// The Unix second at which what was written or touched by `now` expires at the latest.
fn expiry(ttl_secs: u32, now: u32) -> u64 {
    if ttl_secs == 0 { FOR_EVER } else { u64::from(now) + u64::from(ttl_secs) }
}

impl Key {
    /// Returns the begin of the oldest call in progress, or `Tick::MAX` without one. Every later
    /// call begins after all that have ended.
    fn oldest_under_way(&self) -> Tick {
        self.under_way.iter().map(|call| call.begin).min().unwrap_or(Tick::MAX)
    }

    fn remember(&mut self, record: Record, ring_calls: usize) {
        if self.recent.len() >= ring_calls {
            self.recent.pop_front();
        } else if self.recent.capacity() == self.recent.len() {
            // Grown by hand, so that no key has room for more than its ring.
            self.recent.reserve_exact((ring_calls - self.recent.len()).min(self.recent.len().max(2)));
        }
        self.recent.push_back(record);
    }

    fn violation(&self, key: u64, kind: ViolationKind, record: Record) -> Box<Violation> {
        let around = Place { key, recent: self.recent.iter().copied().collect(), under_way: &self.under_way };
        Box::new(Violation::new(&kind, record, around))
    }
}
