//! A client that calls: each call is told to the history of its tenant before and after.
//!
//! When its connection ends in the middle of a call, nobody knows whether the call was carried out.
//! Nothing will be done for it any more, since the end was seen, so that the history is told just
//! that.

use std::sync::Arc;

use anyhow::Result;
use base::Clock;
use base::rng::{RngExt, SeededRng};
use workload::{OpKind, Sampler};

use super::Scene;
use super::clients::{Client, Speech, Work};
use super::conditions::Standing;
use super::settings::BOB;
use super::tenants::{Holding, write_key};
use crate::check::Violation;
use crate::check::history::{Found, Ticket};
use crate::check::plant::Planted;
use crate::check::record::CallKind;
use crate::check::subject::Caller;
use crate::check::value::{LEAST_VALUE_BYTES, Values};

/// Gets that go into one call at most.
const MOST_GETS: usize = 16;
/// The share of writes that set a lifetime, and between what.
const TTL_SHARE: f64 = 0.3;
const TTL_SECS: std::ops::RangeInclusive<u32> = 1..=60;

/// A client at work.
pub(super) struct Calling {
    pub(super) scene: Arc<Scene>,
    pub(super) client: &'static Client,
    pub(super) number: u16,
    pub(super) rng: SeededRng,
    sampler: Sampler,
    values: Values,
    caller: Option<(Box<dyn Caller>, Standing)>,
    turns: u32,
    key: Vec<u8>,
}

impl Calling {
    pub(super) fn new(scene: Arc<Scene>, client: &'static Client, number: u16) -> Self {
        let seed = base::hash::mix64(scene.seed ^ u64::from(number) << 32);
        let sampler = Sampler::new(Arc::clone(&scene.workload), seed, usize::from(number), 1);
        Self {
            scene,
            client,
            number,
            rng: base::rng::seeded(seed ^ 1),
            sampler,
            values: Values::new(),
            caller: None,
            turns: 0,
            key: Vec::new(),
        }
    }

    /// One call, on a new connection where there is none.
    pub(super) fn turn(&mut self) {
        let Work::Calls(holding, turns) = self.client.work else { return };
        self.turns += 1;
        if turns > 0 && self.turns.is_multiple_of(turns) {
            self.caller = None;
        }
        let Some((caller, standing)) = self.caller.take().or_else(|| self.connect()) else { return };
        let operation = self.sampler.draw();
        let key = holding.near(operation.key);
        let mut connected = caller;
        let before = Clock::System.monotonic_nanos();
        let done = match operation.kind {
            OpKind::Get => self.get(&mut *connected, key, holding),
            OpKind::Set => self.set(&mut *connected, key),
            OpKind::Delete => self.delete(&mut *connected, key),
            OpKind::Touch => self.touch(&mut *connected, key),
        };
        match done {
            Ok(calls) => {
                let nanos = Clock::System.monotonic_nanos() - before;
                self.scene.tally.lock().answered(self.client.name, calls, nanos);
                self.caller = Some((connected, standing));
            }
            Err(error) => self.scene.failed(self.client, standing, &error),
        }
    }

    fn connect(&mut self) -> Option<(Box<dyn Caller>, Standing)> {
        let standing = self.scene.conditions.settled(self.client.tenant)?;
        match self.scene.network.open(self.client) {
            Ok(caller) => {
                self.scene.tally.lock().connections += 1;
                Some((self.plant(caller), standing))
            }
            Err(error) => {
                self.scene.failed(self.client, standing, &error);
                None
            }
        }
    }

    fn plant(&self, caller: Box<dyn Caller>) -> Box<dyn Caller> {
        match &self.scene.plant {
            Some(plant) => Box::new(Planted::new(caller, Arc::clone(plant))),
            None => caller,
        }
    }

    fn begin(&self, key: u64, kind: CallKind, wanted: (u32, u32)) -> Ticket {
        self.scene.book(self.client).history.begin(key, kind, self.number, wanted, now())
    }

    fn judge(&self, told: Result<(), Box<Violation>>, found: Option<Found>) {
        if let Err(violation) = told {
            self.scene.found(self.client, *violation, found);
        }
    }

    /// Passes on the result of a call, and ends its tickets as unknown if the call failed.
    fn settle<T>(&self, done: Result<T>, tickets: Vec<Ticket>) -> Result<(T, Vec<Ticket>)> {
        match done {
            Ok(done) => Ok((done, tickets)),
            Err(error) => {
                let history = &self.scene.book(self.client).history;
                tickets.into_iter().for_each(|ticket| history.end_unknown(ticket));
                Err(error)
            }
        }
    }

    /// One get, or one in four times several in one call.
    fn get(&mut self, caller: &mut dyn Caller, first: u64, holding: Holding) -> Result<u64> {
        let mut numbers = vec![first];
        if self.rng.random_ratio(1, 4) {
            for _ in 1..self.rng.random_range(2..=MOST_GETS) {
                let next = holding.near(self.sampler.draw().key);
                // A key stands once in a call, so that every answer has its own history.
                if !numbers.contains(&next) {
                    numbers.push(next);
                }
            }
        }
        let mut texts = vec![Vec::new(); numbers.len()];
        numbers.iter().zip(&mut texts).for_each(|(number, text)| write_key(*number, text));
        let keys: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let tickets = numbers.iter().map(|key| self.begin(*key, CallKind::Get, (0, 0))).collect();
        let mut found = vec![Found::Nothing; numbers.len()];
        let book = self.scene.book(self.client);
        let done = caller.get(0, &keys, &mut |i, value| found[i] = book.what_is(value, numbers[i]));
        let ((), tickets) = self.settle(done, tickets)?;
        let hits = found.iter().filter(|found| **found != Found::Nothing).count() as u64;
        for (ticket, found) in tickets.into_iter().zip(found) {
            self.judge(book.history.end_get(ticket, found), Some(found));
        }
        let mut tally = self.scene.tally.lock();
        tally.gets += numbers.len() as u64;
        tally.hits += hits;
        Ok(numbers.len() as u64)
    }

    fn set(&mut self, caller: &mut dyn Caller, key: u64) -> Result<u64> {
        let size = self.scene.workload.pools()[0].value_size_at(self.rng.random()).max(LEAST_VALUE_BYTES);
        let ttl = self.ttl();
        let ticket = self.begin(key, CallKind::Set, (size, ttl));
        write_key(key, &mut self.key);
        let book = self.scene.book(self.client);
        let value = self.values.make(book.stamp(key, ticket.record.version), size);
        let done = caller.set(0, &self.key, value, ttl);
        let (stored, tickets) = self.settle(done, vec![ticket])?;
        if !stored {
            self.scene.refused(self.client, caller.refusal().unwrap_or("without a reason"));
        }
        for ticket in tickets {
            self.judge(book.history.end_set(ticket, stored, now()), None);
        }
        Ok(1)
    }

    fn delete(&mut self, caller: &mut dyn Caller, key: u64) -> Result<u64> {
        if self.client.user == Some(BOB) {
            // Who may not delete learns nothing of whether there was something.
            return Ok(0);
        }
        let ticket = self.begin(key, CallKind::Delete, (0, 0));
        write_key(key, &mut self.key);
        let done = caller.delete(0, &self.key);
        let (found, tickets) = self.settle(done, vec![ticket])?;
        for ticket in tickets {
            self.judge(self.scene.book(self.client).history.end_delete(ticket, found), None);
        }
        Ok(1)
    }

    fn touch(&mut self, caller: &mut dyn Caller, key: u64) -> Result<u64> {
        let ttl = self.ttl();
        let ticket = self.begin(key, CallKind::Touch, (0, ttl));
        write_key(key, &mut self.key);
        let done = caller.touch(0, &self.key, ttl);
        let (touched, tickets) = self.settle(done, vec![ticket])?;
        if let Some(why) = caller.refusal() {
            self.scene.refused(self.client, why);
        }
        for ticket in tickets {
            self.judge(self.scene.book(self.client).history.end_touch(ticket, touched, now()), None);
        }
        Ok(1)
    }

    fn ttl(&mut self) -> u32 {
        if self.rng.random_bool(TTL_SHARE) { self.rng.random_range(TTL_SECS) } else { 0 }
    }
}

/// A client that changes parts of collections.
pub(super) struct Parts {
    scene: Arc<Scene>,
    client: &'static Client,
    rng: SeededRng,
    connection: Option<(crate::check::resp::Client, Standing)>,
}

impl Parts {
    pub(super) fn new(scene: Arc<Scene>, client: &'static Client, number: u16) -> Self {
        debug_assert_eq!(client.speech, Speech::Resp);
        let rng = base::rng::seeded(base::hash::mix64(scene.seed ^ u64::from(number) << 33));
        Self { scene, client, rng, connection: None }
    }

    pub(super) fn turn(&mut self) {
        let (mut connection, standing) = match self.connection.take() {
            Some(connected) => connected,
            None => {
                let Some(standing) = self.scene.conditions.settled(self.client.tenant) else { return };
                match self.scene.network.open_resp(self.client) {
                    Ok(connection) => (connection, standing),
                    Err(error) => return self.scene.failed(self.client, standing, &error),
                }
            }
        };
        let before = Clock::System.monotonic_nanos();
        match super::collections::change_a_part(&mut connection, self.rng.random()) {
            Ok(()) => {
                let nanos = Clock::System.monotonic_nanos() - before;
                self.scene.tally.lock().answered(self.client.name, 1, nanos);
                self.connection = Some((connection, standing));
            }
            Err(error) => self.scene.failed(self.client, standing, &error),
        }
    }
}

pub(super) fn now() -> u32 {
    Clock::System.unix_secs()
}
