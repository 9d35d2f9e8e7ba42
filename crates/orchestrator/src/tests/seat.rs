//! Orchestrators of the simulation: each is a candidate with a journal and, while it leads, a
//! fleet, and the world carries its requests to etcd and to agents.

use std::collections::{BTreeMap, HashMap};

use base::rng::RngExt;
use control::v1::register_response::Standing;
use control::v1::{RegisterRequest, RegisterResponse};

use super::site::START;
use super::world::{DEADLINE, ELECTED_SECS, Event, LEASE, MEMORY, Message, PERIOD, SECOND, World};
use crate::etcd::candidate::{Candidate, Event as Change, Step};
use crate::etcd::guard::{Guard, MOST_RECORDS, Saved};
use crate::etcd::keys::{Contender, Keys};
use crate::etcd::{Ask, AskError, Reply};
use crate::journal::{Batch, Journal};
use crate::{
    Answer, Budget, Call, Failure, Fleet, FleetConfig, Key, MILLI, Nanos, Outgoing, Record, Request,
};

/// The time after which a request to etcd has no answer.
const PATIENCE: Nanos = SECOND;
/// Members of etcd.
pub(super) const MEMBERS: usize = 3;
/// Attempts to save a part of a batch.
const MOST_ATTEMPTS: u32 = 4;

/// An orchestrator's process.
pub(super) struct Seat {
    /// Counts starts; events of an earlier start are void.
    pub(super) start: u64,
    pub(super) is_up: bool,
    pub(super) paused_until: Nanos,
    /// The process has no way to etcd until then.
    pub(super) apart_until: Nanos,
    candidate: Option<Candidate>,
    /// The election's request to etcd.
    asking: Option<u64>,
    id: u64,
    pub(super) fleet: Option<Fleet>,
    waiting: HashMap<u64, Call>,
    round: u64,
    saves: Saves,
}

/// The records that a leader saves, and what waits for them.
#[derive(Default)]
struct Saves {
    guard: Option<Guard>,
    journal: Journal,
    saving: Option<Saving>,
    orders: Vec<(u64, Vec<Call>)>,
    registered: Vec<(u64, usize, RegisterResponse)>,
}

struct Saving {
    request: u64,
    batch: Batch,
    done: usize,
    attempts: u32,
}

impl Seat {
    pub(super) fn new() -> Self {
        Self {
            start: 0,
            is_up: false,
            paused_until: 0,
            apart_until: 0,
            candidate: None,
            asking: None,
            id: 0,
            fleet: None,
            waiting: HashMap::new(),
            round: 0,
            saves: Saves::default(),
        }
    }

    /// Returns whether it leads at this moment, as far as it knows.
    pub(super) fn leads(&self, now: Nanos) -> bool {
        self.fleet.is_some() && self.candidate.as_ref().is_some_and(|candidate| now < candidate.leads_until())
    }
}

pub(super) fn keys() -> Keys {
    Keys::below("/millpond/")
}

impl World {
    pub(super) fn start_seat(&mut self, seat: usize) {
        let id = self.rng.random_range(1..u64::MAX);
        let address = format!("seat {seat}");
        let mut candidate = Candidate::new(keys(), Contender { id, address, term: 0 }, ELECTED_SECS);
        candidate.planted = self.faults.planted;
        let place = &mut self.seats[seat];
        let start = place.start + 1;
        *place = Seat {
            start,
            is_up: true,
            candidate: Some(candidate),
            id,
            apart_until: place.apart_until,
            ..Seat::new()
        };
        let delay = self.rng.random_range(1..SECOND);
        self.at(self.now + delay, Event::Elect { seat, start });
        self.at(self.now + delay, Event::Begin { seat, start });
    }

    pub(super) fn kill_seat(&mut self, seat: usize) {
        let start = self.seats[seat].start + 1;
        self.seats[seat] = Seat { start, apart_until: self.seats[seat].apart_until, ..Seat::new() };
    }

    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.seats.len()).find(|&seat| self.seats[seat].leads(self.now) && !self.paused(seat))
    }

    pub(super) fn paused(&self, seat: usize) -> bool {
        self.seats[seat].paused_until > self.now
    }

    // The way to etcd.

    fn ask(&mut self, seat: usize, ask: Ask) -> u64 {
        let start = self.seats[seat].start;
        self.next += 1;
        let request = self.next;
        // A client that has no answer asks another member, and the first may carry it out, too.
        let copies = 1 + usize::from(self.chance(self.faults.doubled * 2.0));
        for _ in 0..copies {
            let delay = self.delay();
            let event = Event::ToEtcd { seat, start, request, ask: ask.clone() };
            self.at(self.now + delay, event);
        }
        self.at(self.now + PATIENCE, Event::FromEtcd { seat, start, request, outcome: Err(silent()) });
        request
    }

    pub(super) fn at_etcd(&mut self, seat: usize, start: u64, request: u64, ask: Ask) {
        let is_apart = self.seats[seat].apart_until > self.now || self.chance(self.faults.lost);
        let away = self.etcd_away_until();
        if is_apart {
            return;
        }
        if away > self.now {
            // Most are lost; some wait in a member until the cluster is there again.
            if self.chance(0.3) {
                self.at(away, Event::ToEtcd { seat, start, request, ask });
            }
            return;
        }
        let outcome = self.etcd.answer(&ask, self.now);
        self.is_changed = true;
        if !self.chance(self.faults.lost) {
            let delay = self.delay();
            self.at(self.now + delay, Event::FromEtcd { seat, start, request, outcome });
        }
    }

    /// The time from which a majority of members can be asked again.
    fn etcd_away_until(&self) -> Nanos {
        let mut away: Vec<Nanos> = self.members_away.iter().map(|&until| until.max(self.now)).collect();
        away.sort_unstable();
        // All but one of the majority must be back.
        away[MEMBERS / 2].max(self.etcd_elects_until)
    }

    pub(super) fn etcd_answered(
        &mut self,
        seat: usize,
        start: u64,
        request: u64,
        outcome: Result<Reply, AskError>,
    ) {
        if self.seats[seat].start != start {
            return;
        }
        if self.paused(seat) {
            let at = self.seats[seat].paused_until;
            return self.at(at, Event::FromEtcd { seat, start, request, outcome });
        }
        let now = self.now;
        let place = &mut self.seats[seat];
        if place.asking == Some(request) {
            place.asking = None;
            let change = place.candidate.as_mut().and_then(|candidate| candidate.note(outcome, now));
            self.change(seat, change);
            self.elect(seat, start);
        } else if place.saves.saving.as_ref().is_some_and(|saving| saving.request == request) {
            self.saved(seat, outcome);
        }
    }

    // The election.

    pub(super) fn elect(&mut self, seat: usize, start: u64) {
        if self.seats[seat].start != start || self.seats[seat].asking.is_some() {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::Elect { seat, start });
        }
        let now = self.now;
        let Some(candidate) = &mut self.seats[seat].candidate else { return };
        match candidate.next(now) {
            Step::Wait(until) => self.at(until.max(now + MILLI), Event::Elect { seat, start }),
            Step::Ask(ask) => self.seats[seat].asking = Some(self.ask(seat, ask)),
        }
    }

    fn change(&mut self, seat: usize, change: Option<Change>) {
        match change {
            None => {}
            Some(Change::Ended) => {
                let place = &mut self.seats[seat];
                (place.fleet, place.saves) = (None, Saves::default());
                place.waiting.clear();
            }
            Some(Change::Restored) => self.save_again(seat),
            Some(Change::Begun { term, records, guard }) => {
                if term <= self.last_term {
                    let last = self.last_term;
                    self.wrong =
                        Some(format!("seat {seat} leads in term {term}, and the last one was {last}"));
                }
                self.last_term = term;
                let mut fleet =
                    Fleet::new(self.config(seat), term, records, self.now).expect("the policy is there");
                fleet.planted = self.faults.planted;
                let place = &mut self.seats[seat];
                place.fleet = Some(fleet);
                place.saves = Saves { guard: Some(*guard), ..Saves::default() };
                place.waiting.clear();
            }
        }
    }

    fn save_again(&mut self, seat: usize) {
        let fleet = self.seats[seat].fleet.as_mut();
        let outgoing = fleet.map(Fleet::save_again).unwrap_or_default();
        self.carry_out(seat, outgoing);
    }

    fn config(&self, seat: usize) -> FleetConfig {
        FleetConfig {
            id: self.seats[seat].id,
            budget: Budget {
                each: Some(MEMORY),
                nodes: BTreeMap::new(),
                spare: START * self.sites.len() as u64,
            },
            lease: LEASE,
            policy: "most-hits".to_owned(),
            objective: allocate::cost::Objective::Hits,
            rails: allocate::guard::Rails {
                least_share: 0.1,
                step: 0.1,
                hysteresis: 0.01,
                ..Default::default()
            },
        }
    }

    // What is saved, and what waits for it.

    /// Begins to save, and makes the calls that wait for nothing. Returns the ticket.
    fn carry_out(&mut self, seat: usize, outgoing: Outgoing) -> u64 {
        let ticket = self.seats[seat].saves.journal.add(outgoing.save);
        let is_question = |call: &Call| matches!(call.request, Request::Stats(_));
        let (questions, orders): (Vec<_>, Vec<_>) = outgoing.calls.into_iter().partition(is_question);
        for call in questions {
            self.call(seat, call);
        }
        if !orders.is_empty() {
            self.seats[seat].saves.orders.push((ticket, orders));
        }
        self.save(seat);
        self.release(seat);
        ticket
    }

    fn save(&mut self, seat: usize) {
        let saves = &mut self.seats[seat].saves;
        if saves.saving.is_none()
            && let Some(batch) = saves.journal.batch()
        {
            saves.saving = Some(Saving { request: 0, batch, done: 0, attempts: 0 });
            self.save_part(seat);
        }
    }

    fn save_part(&mut self, seat: usize) {
        let saves = &self.seats[seat].saves;
        let (Some(guard), Some(saving)) = (&saves.guard, &saves.saving) else { return };
        let rest = &saving.batch.records[saving.done..];
        let ask = guard.save(&rest[..rest.len().min(MOST_RECORDS)]);
        let request = self.ask(seat, ask);
        if let Some(saving) = &mut self.seats[seat].saves.saving {
            saving.request = request;
        }
    }

    fn saved(&mut self, seat: usize, outcome: Result<Reply, AskError>) {
        let now = self.now;
        let saves = &mut self.seats[seat].saves;
        let (Some(guard), Some(saving)) = (&mut saves.guard, &mut saves.saving) else { return };
        let saved = match outcome {
            Ok(Reply::Txn(response)) => Some(guard.note(&response)),
            Err(AskError::NoLease) => Some(Saved::Lost),
            _ => None,
        };
        saving.attempts += 1;
        match saved {
            Some(Saved::Done) => {
                saving.done = (saving.done + MOST_RECORDS).min(saving.batch.records.len());
                saving.attempts = 0;
                if saving.done < saving.batch.records.len() {
                    return self.save_part(seat);
                }
            }
            Some(Saved::Overtaken) if saving.attempts < MOST_ATTEMPTS => return self.save_part(seat),
            Some(Saved::Lost) => {
                let change = self.seats[seat].candidate.as_mut().and_then(|candidate| candidate.lose(now));
                return self.change(seat, change);
            }
            _ => {}
        }
        if let Some(saving) = saves.saving.take() {
            saves.journal.note(&saving.batch, saved == Some(Saved::Done));
        }
        self.release(seat);
        if saved == Some(Saved::Restored) {
            self.save_again(seat);
        }
        if saved == Some(Saved::Done) {
            self.save(seat);
        }
    }

    /// Makes the calls, and sends the answers, for which all is saved.
    fn release(&mut self, seat: usize) {
        let saves = &mut self.seats[seat].saves;
        let progress = saves.journal.progress();
        let mut calls = Vec::new();
        saves.orders.retain_mut(|(ticket, orders)| match progress.of(*ticket) {
            None => true,
            is_saved => {
                calls.extend(std::mem::take(orders).into_iter().filter(|_| is_saved == Some(true)));
                false
            }
        });
        let mut answers = Vec::new();
        saves.registered.retain(|(ticket, site, response)| match progress.of(*ticket) {
            None => true,
            Some(true) => {
                answers.push((*site, response.clone()));
                false
            }
            Some(false) => {
                let standing = Standing::Wait.into();
                answers.push((*site, RegisterResponse { standing, wait_millis: 1_000, ..response.clone() }));
                false
            }
        });
        for call in calls {
            self.call(seat, call);
        }
        for (site, response) in answers {
            let message = Message::Registered(response);
            self.send(seat, site, Event::ToSite { site, seat, call: 0, message });
        }
    }

    fn call(&mut self, seat: usize, call: Call) {
        if !self.seats[seat].leads(self.now) {
            return;
        }
        let start = self.seats[seat].start;
        let message = match &call.request {
            Request::Stats(request) => Message::Stats(*request),
            Request::Resize(request) => Message::Resize(request.clone()),
        };
        let port: usize = call.address.trim_start_matches("site:").parse().expect("a site");
        let site = port - 1;
        self.next += 1;
        let id = self.next;
        self.seats[seat].waiting.insert(id, call);
        self.send(seat, site, Event::ToSite { site, seat, call: id, message });
        self.at(self.now + DEADLINE, Event::Deadline { seat, start, call: id });
    }

    // Rounds, and what agents say.

    pub(super) fn begin(&mut self, seat: usize, start: u64) {
        if self.seats[seat].start != start {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::Begin { seat, start });
        }
        let now = self.now;
        if self.seats[seat].leads(now) {
            self.seats[seat].round += 1;
            let round = self.seats[seat].round;
            let fleet = self.seats[seat].fleet.as_mut();
            let (term, outgoing) =
                fleet.map(|fleet| (fleet.leader().term, fleet.begin(now))).unwrap_or_default();
            self.carry_out(seat, outgoing);
            self.at(now + DEADLINE + MILLI, Event::End { seat, start, round, term });
        }
        self.at(now + PERIOD, Event::Begin { seat, start });
    }

    pub(super) fn end(&mut self, seat: usize, start: u64, round: u64, term: u64) {
        if self.seats[seat].start != start || self.seats[seat].round != round {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::End { seat, start, round, term });
        }
        let now = self.now;
        if !self.seats[seat].leads(now) {
            return;
        }
        let Some(fleet) = self.seats[seat].fleet.as_mut().filter(|fleet| fleet.leader().term == term) else {
            return;
        };
        if let Some(other) = fleet.superseded().filter(|other| now >= other.until) {
            let again = self.seats[seat].candidate.as_mut();
            let change = again.and_then(|candidate| candidate.begin_again(other.term + 1));
            return self.change(seat, change);
        }
        let (decided, outgoing) = fleet.decide(now);
        if !decided.is_empty() {
            self.decided_at.push(now);
        }
        self.carry_out(seat, outgoing);
    }

    pub(super) fn at_seat(&mut self, site: usize, seat: usize, call: u64, message: Message) {
        if !self.seats[seat].is_up {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::ToSeat { site, seat, call, message });
        }
        match message {
            Message::Register(from, request) => self.register(seat, from, &request),
            Message::Leave(request) => {
                let now = self.now;
                let outgoing = self.seats[seat].fleet.as_mut().map(|fleet| fleet.leave(&request, now));
                self.carry_out(seat, outgoing.unwrap_or_default());
            }
            message => self.answer(seat, call, Some(message)),
        }
    }

    fn register(&mut self, seat: usize, site: usize, request: &RegisterRequest) {
        let now = self.now;
        let leads = self.seats[seat].leads(now);
        let response = match self.seats[seat].fleet.as_mut().filter(|_| leads) {
            None => RegisterResponse { standing: Standing::NotLeader.into(), ..RegisterResponse::default() },
            Some(fleet) => {
                let (response, outgoing) = fleet.register(request, now);
                let ticket = self.carry_out(seat, outgoing);
                if response.standing() == Standing::Accepted {
                    self.seats[seat].saves.registered.push((ticket, site, response));
                    return self.release(seat);
                }
                response
            }
        };
        let message = Message::Registered(response);
        self.send(seat, site, Event::ToSite { site, seat, call: 0, message });
    }

    /// A call is answered, or was not in time.
    pub(super) fn answer(&mut self, seat: usize, call: u64, message: Option<Message>) {
        let now = self.now;
        let Some(call) = self.seats[seat].waiting.remove(&call) else { return };
        let Some(fleet) = &mut self.seats[seat].fleet else { return };
        let answer = match message {
            Some(Message::Told(response)) => Ok(Answer::Stats(response)),
            Some(Message::Resized(response)) => Ok(Answer::Resize(response)),
            Some(Message::Refused) => Err(Failure::Refused),
            _ => Err(Failure::Silent),
        };
        let outgoing = fleet.note_answer(&call, answer.as_ref().map_err(|failure| *failure), now);
        self.carry_out(seat, outgoing);
    }

    // What must hold.

    /// One leads at a time, terms rise, and the registry has no less for any instance than it can
    /// have.
    pub(super) fn check_election(&mut self) -> Result<(), String> {
        let secs = self.now as f64 / 1e9;
        if let Some(wrong) = self.wrong.take() {
            return Err(format!("at {secs:.3} s {wrong}"));
        }
        let leaders: Vec<usize> =
            (0..self.seats.len()).filter(|&seat| self.seats[seat].leads(self.now)).collect();
        if leaders.len() > 1 {
            return Err(format!("at {secs:.3} s seats {leaders:?} lead"));
        }
        if self.now < self.restored_until || !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        for cache in self.sites.iter().filter_map(|site| site.cache.as_ref()) {
            let cache = cache.0.lock().expect("no panic");
            let key = Key { name: cache.name.as_str().into(), incarnation: cache.incarnation };
            let saved =
                self.etcd.value(&keys().instance(&key)).and_then(|value| Record::from_bytes(value).ok());
            if let Some(saved) = saved.filter(|saved| saved.held_bytes < cache.limit) {
                let (held, has, name) = (saved.held_bytes >> 20, cache.limit >> 20, &cache.name);
                return Err(format!("at {secs:.3} s {name} has {has} MiB, and {held} MiB in the registry"));
            }
        }
        Ok(())
    }
}

fn silent() -> AskError {
    AskError::Silent("no answer in time".to_owned())
}
