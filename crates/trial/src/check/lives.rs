//! The rule that decides which versions of one key a get may still return.
//!
//! A cache is a register per key that may lose its value at any time. Every write has a version of
//! its own, so that a get says which write it saw. For such a register, Gibbons and Korach
//! ("Testing Shared Memories", SIAM Journal on Computing 26(4), 1997, section 4) decide in one sort
//! whether some legal order explains a history; this is their test, carried out while the history
//! goes on.
//!
//! Take a version with the calls that wrote and returned it. Let `first_end` be the earliest end
//! among them and `last_begin` the latest begin: the version was there at some moment up to
//! `first_end`, and at some moment from `last_begin` on. Two versions cannot both be explained if
//! each was still there after the other was: `a.last_begin > b.first_end` and
//! `b.last_begin > a.first_end`. A history in which no two collide has a legal order. A miss, a
//! removal and a flush are versions of their own ("nothing is there") with one call each; since an
//! eviction may happen at any time, nothing more is asked of them, and nothing that was there
//! before such a call may come back after it.
//!
//! Seen from a version: once another one was there after it (that one's `last_begin` is past this
//! one's `first_end`), no call that begins after the other's `first_end` may return it. That is its
//! `dead_after`.
//!
//! Invariants:
//! 1. Calls are told in the order of their ends; flushes, which touch all keys, may be told late.
//! 2. A version is forgotten only when every call that is under way or to come began after its
//!    `dead_after`: returning it would be wrong whatever else happens. What is kept is therefore
//!    bounded by the calls that overlap, plus one.

use super::record::{Answer, CallKind, Record, Tick};

const NEVER: Tick = Tick::MAX;
/// The Unix second at which what lives for ever expires.
pub(crate) const FOR_EVER: u64 = u64::MAX;
/// Versions of a key that are kept at once, but for those that may be there yet. More can only be
/// possible at once while a call is stuck.
const MOST_KEPT: usize = 1_024;

/// A version that may still be returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) version: u64,
    /// The call that wrote it.
    pub(crate) written: Record,
    pub(crate) first_end: Tick,
    pub(crate) last_begin: Tick,
    pub(crate) dead_after: Tick,
    /// The call that proves `dead_after`.
    pub(crate) ended_by: Option<Record>,
    /// The latest Unix second at which it may expire, as far as it is known.
    expires: u64,
}

/// A result that no legal order of the calls explains.
#[derive(Clone, Debug)]
pub(crate) enum Wrong {
    /// The version was never written, or its write was refused.
    NeverWritten(u64),
    /// The version was gone, and was forgotten since.
    LongGone(u64),
    /// The version was gone before it was returned.
    Gone(Box<Life>),
    /// The version had expired at this Unix second before the call began.
    Expired(Box<Life>, u64),
    /// A delete or touch says that something was there, but nothing was.
    NothingWasThere,
    /// A set was refused, but its value was returned.
    RefusedButSeen(Box<Life>),
}

/// The versions of one key.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    kept: Vec<Life>,
    next_version: u64,
    /// Tick before which a get isn't checked if it returns an unknown version, because versions
    /// were dropped for lack of room.
    blind_until: Tick,
}

impl Lives {
    /// A set begins. The record gets its version.
    pub(crate) fn begin_set(&mut self, record: &mut Record) {
        record.version = self.next_version;
        self.next_version += 1;
        // A version that is not yet written, by a call that is stuck, comes later.
        let is_gone = |life: &Life| life.dead_after < record.begin;
        if self.kept.len() >= MOST_KEPT
            && let Some(gone) = self.kept.iter().position(is_gone)
        {
            self.kept.remove(gone);
            self.blind_until = record.begin;
        }
        self.kept.push(Life {
            version: record.version,
            written: *record,
            first_end: NEVER,
            last_begin: record.begin,
            dead_after: NEVER,
            ended_by: None,
            expires: 0,
        });
    }

    /// A set ends. `expires` is the Unix second at which its value expires at the latest.
    pub(crate) fn end_set(&mut self, record: Record, expires: u64) -> Result<(), Wrong> {
        let Some(place) = self.place(record.version) else { return Ok(()) };
        if record.answer == Answer::Refused {
            let life = self.kept.remove(place);
            return if life.first_end == NEVER { Ok(()) } else { Err(Wrong::RefusedButSeen(Box::new(life))) };
        }
        let life = &mut self.kept[place];
        life.expires = life.expires.max(expires);
        life.written = record;
        life.first_end = life.first_end.min(record.end);
        self.was_there(place, record)
    }

    /// Ends a set whose answer is unknown: its value is already written, or never will be. Until a
    /// get returns that value, the set neither ends another version nor is ended by one.
    pub(crate) fn end_unknown_set(&mut self, record: Record) {
        let Some(place) = self.place(record.version) else { return };
        let life = &mut self.kept[place];
        life.expires = FOR_EVER;
        life.written = record;
        if life.first_end == NEVER {
            life.first_end = record.end;
            life.last_begin = 0;
        }
    }

    /// Ends a get that returned a version.
    ///
    /// `now` is the Unix second at which it began, `None` if expiry can't be checked.
    pub(crate) fn read(&mut self, record: Record, now: Option<u64>) -> Result<(), Wrong> {
        let version = record.version;
        let Some(place) = self.place(version) else {
            return match version {
                _ if version >= self.next_version => Err(Wrong::NeverWritten(version)),
                _ if record.begin < self.blind_until => Ok(()),
                _ => Err(Wrong::LongGone(version)),
            };
        };
        let life = &mut self.kept[place];
        life.first_end = life.first_end.min(record.end);
        life.last_begin = life.last_begin.max(record.begin).max(life.written.begin);
        let life = *life;
        self.was_there(place, record)?;
        let settled = life.written.answer != Answer::Open;
        match now.filter(|now| settled && *now >= life.expires) {
            Some(now) => Err(Wrong::Expired(Box::new(life), now)),
            None => Ok(()),
        }
    }

    /// A call ends that found nothing, or that removed what was there.
    pub(crate) fn nothing(&mut self, record: Record) -> Result<(), Wrong> {
        self.ends_others(None, record.begin, record.end, record)
    }

    /// A call ends that says that something was there, at a moment since `begin`.
    pub(crate) fn something(&self, begin: Tick) -> Result<(), Wrong> {
        let possible = self.kept.iter().any(|life| life.dead_after >= begin) || begin < self.blind_until;
        if possible { Ok(()) } else { Err(Wrong::NothingWasThere) }
    }

    /// Whatever is there may expire as late as at Unix second `expires`, but not later if `exact`
    /// and only one version can be there.
    pub(crate) fn touched(&mut self, begin: Tick, expires: u64, exact: bool) {
        let mut possible = self.kept.iter().filter(|life| life.dead_after >= begin);
        let first = possible.next().is_some_and(|life| life.first_end < begin);
        let exact = exact && first && possible.next().is_none();
        for life in self.kept.iter_mut().filter(|life| life.dead_after >= begin) {
            life.expires = if exact { expires } else { life.expires.max(expires) };
        }
    }

    /// Forgets what no call that began at or after `oldest_begin` may return, but for the newest of
    /// it, which reports can then explain.
    pub(crate) fn forget(&mut self, oldest_begin: Tick) {
        let gone = |life: &Life| life.dead_after < oldest_begin;
        let newest = self.kept.iter().filter(|life| gone(life)).map(|life| life.version).max();
        self.kept.retain(|life| !gone(life) || Some(life.version) == newest);
    }

    fn place(&self, version: u64) -> Option<usize> {
        self.kept.iter().position(|life| life.version == version)
    }

    /// Checks the version at `place`, which was there in a call that has just ended, and marks the
    /// versions that it ends.
    fn was_there(&mut self, place: usize, record: Record) -> Result<(), Wrong> {
        let life = self.kept[place];
        if life.last_begin > life.dead_after {
            return Err(Wrong::Gone(Box::new(life)));
        }
        self.ends_others(Some(life.version), life.last_begin, life.first_end, record)
    }

    /// Something (a version, or that nothing is there) was there from `first_end` at the latest to
    /// `last_begin` at least.
    fn ends_others(
        &mut self,
        version: Option<u64>,
        last_begin: Tick,
        first_end: Tick,
        record: Record,
    ) -> Result<(), Wrong> {
        for life in &mut self.kept {
            let after = last_begin > life.first_end && Some(life.version) != version;
            if after && first_end < life.dead_after {
                life.dead_after = first_end;
                life.ended_by = Some(record);
                if life.last_begin > life.dead_after {
                    return Err(Wrong::Gone(Box::new(*life)));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of versions that are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }
}

impl Wrong {
    /// The kind of fault, as one word for tools.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NeverWritten(_) => "never-written",
            Self::LongGone(_) => "stale",
            Self::Gone(life) => match life.ended_by.map(|by| (by.kind, by.answer)) {
                Some((CallKind::Set, _) | (CallKind::Get, Answer::Value)) => "stale",
                _ => "resurrected",
            },
            Self::Expired(..) => "expired",
            Self::NothingWasThere => "nothing-there",
            Self::RefusedButSeen(_) => "refused-but-seen",
        }
    }
}
