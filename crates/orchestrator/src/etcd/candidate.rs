//! An orchestrator that is to be elected, as a plain value: no clock, and no sockets.
//!
//! It grants itself a lease and creates the leader's key with it, if there is none. Then it reads
//! all records, saves the next term (`guard`), and leads in that. It renews the lease three times
//! while that runs. If no answer comes it stops deciding when the lease is over by its own clock,
//! and goes on in the same term once etcd says that the lease lives: nobody has led meanwhile.
//! While it leads it looks at its key, whose revision falls if etcd was restored from a backup.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::guard::{Guard, Saved};
use super::keys::{self, Contender, Keys, get, put, read_by};
use super::messages::compare::{CompareTarget, TargetUnion};
use super::messages::{
    Compare, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest,
    TxnRequest, TxnResponse,
};
use super::{Ask, AskError, Reply};
use crate::Nanos;
use crate::exchange::Record;
#[cfg(test)]
use crate::fleet::Planted;

/// A lease counts here for one part in this many shorter, as clocks differ.
const DRIFT_PART: Nanos = 8;
/// A lease is renewed when this part of it is over.
const RENEW_PART: Nanos = 3;
/// Without an answer, the next attempt comes after this part of a lease.
const RETRY_PART: Nanos = 12;
/// A follower looks for the leader's key this many times in a lease.
const LOOK_PART: Nanos = 6;
const SECOND: Nanos = 1_000_000_000;

/// An orchestrator in the election.
#[derive(Debug)]
pub(crate) struct Candidate {
    keys: Keys,
    own: Contender,
    ttl_secs: u32,
    lease: Option<Lease>,
    state: State,
    /// The leader, as etcd said last.
    leader: Option<Contender>,
    /// Terms that agents know: the next one is not earlier.
    at_least: u64,
    /// Nothing is asked before, but to renew the lease.
    next_at: Nanos,
    /// The request that has no answer yet, and when it was made.
    asked: Option<(Asked, Nanos)>,
    #[cfg(test)]
    pub(crate) planted: Planted,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    /// It is over then at the latest, by the own clock.
    until: Nanos,
    renew_at: Nanos,
}

#[derive(Debug)]
enum State {
    /// Another orchestrator leads, or nobody.
    Follows,
    /// There is no leader's key: it is to be created.
    Campaigns,
    /// It may have created the key: that is to be looked at.
    Checks,
    /// It has the key, and reads the records.
    Reads(Reading),
    /// It has all records, and is to save its term.
    Begins(Reading),
    Leads {
        /// Of the leader's key: its last change, as far as this orchestrator knows.
        known: Arc<AtomicI64>,
    },
}

#[derive(Clone, Debug, Default)]
struct Reading {
    /// Of the leader's key: its last change.
    revision: i64,
    #[cfg(test)]
    created: i64,
    /// The last term.
    term: u64,
    records: Vec<Record>,
    /// The next page begins at this key.
    from: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Asked {
    Look,
    /// Looks at its own key, whose last change was this one or comes later.
    LookAgain(i64),
    Grant,
    KeepAlive,
    Campaign,
    Check,
    Read,
    Begin(Box<Guard>, u64),
}

/// The next step of a candidate's driver.
#[derive(Debug)]
pub(crate) enum Step {
    /// Asks etcd, and tells the candidate the outcome before it asks for another step.
    Ask(Ask),
    /// Waits until then.
    Wait(Nanos),
}

/// A change of the leadership.
#[derive(Debug)]
pub(crate) enum Event {
    /// This orchestrator leads in a term from now on; all records are there.
    Begun { term: u64, records: Vec<Record>, guard: Box<Guard> },
    /// etcd was restored while it leads: what it has saved may be lost.
    Restored,
    /// It leads no more.
    Ended,
}

impl Candidate {
    pub(crate) fn new(keys: Keys, own: Contender, ttl_secs: u32) -> Self {
        Self {
            keys,
            own,
            ttl_secs,
            lease: None,
            state: State::Follows,
            leader: None,
            at_least: 0,
            next_at: 0,
            asked: None,
            #[cfg(test)]
            planted: Planted::None,
        }
    }

    /// The time until which this orchestrator leads; 0: it does not.
    pub(crate) fn leads_until(&self) -> Nanos {
        match (&self.state, self.lease) {
            (State::Leads { .. }, Some(lease)) => lease.until,
            _ => 0,
        }
    }

    /// The leader, as etcd said last.
    pub(crate) fn leader(&self) -> Option<&Contender> {
        self.leader.as_ref()
    }

    /// The next step.
    pub(crate) fn next(&mut self, now: Nanos) -> Step {
        if self.asked.is_some() {
            // The driver's last request was dropped without an outcome.
            self.asked = None;
        }
        let renew = self.lease.filter(|_| !matches!(self.state, State::Follows | State::Campaigns));
        let (asked, ask) = match renew.filter(|lease| now >= lease.renew_at) {
            Some(lease) => (Asked::KeepAlive, Ask::KeepAlive(LeaseKeepAliveRequest { id: lease.id })),
            None if now < self.next_at => {
                return Step::Wait(renew.map_or(self.next_at, |lease| lease.renew_at.min(self.next_at)));
            }
            None => self.ask(now),
        };
        self.asked = Some((asked, now));
        Step::Ask(ask)
    }

    fn ask(&mut self, now: Nanos) -> (Asked, Ask) {
        let leader = self.keys.leader();
        match &self.state {
            State::Follows | State::Leads { .. } => {
                let asked = match &self.state {
                    State::Leads { known } => Asked::LookAgain(known.load(Ordering::Relaxed)),
                    _ => Asked::Look,
                };
                (asked, Ask::Range(RangeRequest { key: leader, ..RangeRequest::default() }))
            }
            State::Campaigns => match self.lease.filter(|lease| now < lease.until) {
                None => (Asked::Grant, Ask::Grant(LeaseGrantRequest { ttl: i64::from(self.ttl_secs) })),
                Some(lease) => {
                    let compare = Compare {
                        target: CompareTarget::Create.into(),
                        key: leader.clone(),
                        target_union: Some(TargetUnion::CreateRevision(0)),
                        ..Compare::default()
                    };
                    let own = put(leader.clone(), self.own.to_bytes(), lease.id);
                    let (compare, success) = (vec![compare], vec![own]);
                    (Asked::Campaign, Ask::Txn(TxnRequest { compare, success, failure: vec![get(leader)] }))
                }
            },
            State::Checks => {
                let success = vec![get(leader), get(self.keys.term())];
                (Asked::Check, Ask::Txn(TxnRequest { success, ..TxnRequest::default() }))
            }
            State::Reads(reading) => (Asked::Read, Ask::Range(self.keys.page(reading.from.clone()))),
            State::Begins(reading) => {
                let term = reading.term.saturating_add(1).max(self.at_least);
                #[cfg(test)]
                let term = if self.planted == Planted::RepeatTerm { reading.term.max(1) } else { term };
                let lease = self.lease.map_or(0, |lease| lease.id);
                let mut guard = Guard::new(self.keys.clone(), self.own.clone(), lease, reading.revision);
                #[cfg(test)]
                {
                    guard.planted = self.planted;
                    guard.note_created(reading.created);
                }
                let ask = guard.begin(term);
                (Asked::Begin(Box::new(guard), term), ask)
            }
        }
    }

    /// Takes the outcome of the request of the last step.
    pub(crate) fn note(&mut self, outcome: Result<Reply, AskError>, now: Nanos) -> Option<Event> {
        let (asked, made_at) = self.asked.take()?;
        #[cfg(test)]
        let made_at = if self.planted == Planted::LeaseLate { now } else { made_at };
        match (asked, outcome) {
            (Asked::LookAgain(known), Ok(Reply::Range(range))) => self.looked(range.kvs.first(), known, now),
            (Asked::Look, Ok(Reply::Range(range))) => {
                self.leader = range.kvs.first().map(|pair| Contender::from_bytes(&pair.value));
                match self.leader {
                    Some(_) => self.next_at = now + self.part(LOOK_PART),
                    None => self.state = State::Campaigns,
                }
                None
            }
            (Asked::Grant, Ok(Reply::Granted(granted))) => {
                self.hold(granted.id, granted.ttl, made_at);
                None
            }
            (Asked::KeepAlive, Ok(Reply::KeptAlive(kept))) if kept.ttl > 0 => {
                self.hold(kept.id, kept.ttl, made_at);
                None
            }
            (Asked::KeepAlive, Ok(_)) | (_, Err(AskError::NoLease)) => self.lose(now),
            (Asked::Campaign, Ok(Reply::Txn(response))) => self.campaigned(&response, now),
            (Asked::Check, Ok(Reply::Txn(response))) => self.checked(&response, now),
            (Asked::Read, Ok(Reply::Range(page))) => {
                self.read(&page, now);
                None
            }
            (Asked::Begin(guard, term), Ok(Reply::Txn(response))) => self.begun(guard, term, &response, now),
            (asked, outcome) => {
                self.failed(&asked, outcome.err(), now);
                None
            }
        }
    }

    fn failed(&mut self, asked: &Asked, error: Option<AskError>, now: Nanos) {
        let again = now + self.part(RETRY_PART);
        if let Some(error) = error {
            tracing::debug!(%error, ?asked, "A step of the election failed.");
        }
        if let (Asked::KeepAlive, Some(lease)) = (asked, &mut self.lease) {
            lease.renew_at = again;
        }
        self.next_at = self.next_at.max(again);
    }

    /// Takes the leader's key, which is to be this orchestrator's own.
    fn looked(&mut self, pair: Option<&KeyValue>, before: i64, now: Nanos) -> Option<Event> {
        if !matches!(self.state, State::Leads { .. }) {
            return None;
        }
        let own = self.lease.map_or(0, |lease| lease.id);
        let Some(pair) = pair.filter(|pair| pair.lease == own) else { return self.lose(now) };
        self.next_at = now + self.part(RENEW_PART);
        let State::Leads { known } = &self.state else { return None };
        if pair.mod_revision >= before {
            return None;
        }
        known.store(pair.mod_revision, Ordering::Relaxed);
        Some(Event::Restored)
    }

    fn campaigned(&mut self, response: &TxnResponse, now: Nanos) -> Option<Event> {
        let own = self.lease.map_or(0, |lease| lease.id);
        let is_own = response.succeeded || read_by(response, 0).is_some_and(|pair| pair.lease == own);
        if is_own {
            self.state = State::Checks;
            return None;
        }
        self.leader = read_by(response, 0).map(|pair| Contender::from_bytes(&pair.value));
        self.lose(now)
    }

    fn checked(&mut self, response: &TxnResponse, now: Nanos) -> Option<Event> {
        let own = self.lease.map_or(0, |lease| lease.id);
        let Some(pair) = read_by(response, 0).filter(|pair| pair.lease == own) else {
            return self.lose(now);
        };
        self.leader = Some(self.own.clone());
        self.state = State::Reads(Reading {
            revision: pair.mod_revision,
            #[cfg(test)]
            created: pair.create_revision,
            term: read_by(response, 1).map_or(0, |pair| keys::term(&pair.value)),
            records: Vec::new(),
            from: self.keys.instances().0,
        });
        None
    }

    fn read(&mut self, page: &super::messages::RangeResponse, now: Nanos) {
        let State::Reads(reading) = &mut self.state else { return };
        match keys::records(page) {
            Ok(records) => reading.records.extend(records),
            Err(error) => {
                // To lead without knowing what an instance can have would be to give it away.
                tracing::error!(error, "The registry in etcd cannot be read.");
                self.next_at = now + self.part(1);
                return;
            }
        }
        match page.kvs.last().filter(|_| page.more) {
            Some(last) => reading.from = [&last.key, &b"\0"[..]].concat(),
            None => self.state = State::Begins(std::mem::take(reading)),
        }
    }

    fn begun(
        &mut self,
        mut guard: Box<Guard>,
        term: u64,
        response: &TxnResponse,
        now: Nanos,
    ) -> Option<Event> {
        match guard.note(response) {
            // The answer came late: another may lead already.
            Saved::Done if self.lease.is_none_or(|lease| now >= lease.until) => {
                self.state = State::Checks;
                None
            }
            Saved::Done => {
                let State::Begins(reading) = &mut self.state else { return None };
                let records = std::mem::take(&mut reading.records);
                self.state = State::Leads { known: guard.known() };
                self.next_at = now + self.part(RENEW_PART);
                // Not again by this one, whatever an etcd that was restored says.
                self.at_least = self.at_least.max(term.saturating_add(1));
                self.leader = Some(Contender { term, ..self.own.clone() });
                Some(Event::Begun { term, records, guard })
            }
            Saved::Overtaken | Saved::Restored => {
                // One that was not answered has saved a term: the next one is later.
                self.state = State::Checks;
                None
            }
            Saved::Lost => self.lose(now),
        }
    }

    fn hold(&mut self, id: i64, ttl_secs: i64, from: Nanos) {
        let ttl = Nanos::try_from(ttl_secs).unwrap_or(0).saturating_mul(SECOND);
        let until = from + (ttl - ttl / DRIFT_PART);
        #[cfg(test)]
        let until = if self.planted == Planted::LeaseLate { from + ttl + ttl / DRIFT_PART } else { until };
        self.lease = Some(Lease { id, until, renew_at: from + ttl / RENEW_PART });
    }

    /// Leads no more, as etcd says: another orchestrator may.
    pub(crate) fn lose(&mut self, now: Nanos) -> Option<Event> {
        let led = matches!(self.state, State::Leads { .. });
        if led {
            self.leader = None;
        }
        (self.state, self.lease) = (State::Follows, None);
        self.next_at = now + self.part(RETRY_PART);
        led.then_some(Event::Ended)
    }

    /// Begins another term, which is no earlier than this: agents know later ones than etcd does.
    pub(crate) fn begin_again(&mut self, at_least: u64) -> Option<Event> {
        if !matches!(self.state, State::Leads { .. }) {
            return None;
        }
        self.at_least = self.at_least.max(at_least);
        (self.state, self.next_at) = (State::Checks, 0);
        Some(Event::Ended)
    }

    /// The request by which it gives its leadership back.
    pub(crate) fn resign(&mut self) -> Option<Ask> {
        self.state = State::Follows;
        self.lease.take().map(|lease| Ask::Revoke(LeaseRevokeRequest { id: lease.id }))
    }

    fn part(&self, part: Nanos) -> Nanos {
        Nanos::from(self.ttl_secs) * SECOND / part
    }
}
