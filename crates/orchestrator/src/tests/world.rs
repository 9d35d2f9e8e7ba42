//! Agents, orchestrators, and the network between them, in virtual time.
//!
//! One seed is one history. Messages are lost, late and doubled, links are cut, processes are
//! stopped, killed and started, and so are orchestrators, of which one leads: an election (of etcd,
//! in reality) gives terms and a lease, and refuses what is saved by another than the leader.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::{Arc, Mutex};

use agent::{Agent, AgentConfig, Next};
use base::rng::{RngExt, SeededRng, seeded};
use control::amounts;
use control::v1::register_response::Standing;
use control::v1::{
    LeaveRequest, RegisterRequest, RegisterResponse, ResizeRequest, ResizeResponse, StatsRequest,
    StatsResponse,
};

use super::site::{Cache, Handle, Process, START, Site};
use crate::fleet::Planted;
use crate::{
    Answer, Budget, Call, Failure, Fleet, FleetConfig, Key, MILLI, Nanos, Outgoing, Record, Request,
};

pub(super) const SECOND: Nanos = 1_000 * MILLI;
pub(super) const PERIOD: Nanos = SECOND;
pub(super) const LEASE: Nanos = 5 * SECOND;
/// The lease of the election.
pub(super) const ELECTED: Nanos = 3 * SECOND;
/// The time after which a call has no answer.
const DEADLINE: Nanos = 800 * MILLI;
/// The memory of a node.
pub(super) const MEMORY: u64 = 256 << 20;

/// The faults that happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// The share of messages that are lost, and that come twice.
    pub(super) lost: f64,
    pub(super) doubled: f64,
    /// The longest time that a message takes; most take a hundredth.
    pub(super) longest: Nanos,
    /// Between two disturbances (a cut, a pause, a crash, a start), on average.
    pub(super) disturbed_every: Nanos,
    /// A fault of the fleet, or of agents, that is to be found.
    pub(super) planted: Planted,
    pub(super) lax_agents: bool,
}

impl Faults {
    pub(super) const NONE: Self = Self {
        lost: 0.0,
        doubled: 0.0,
        longest: 100 * MILLI,
        disturbed_every: Nanos::MAX,
        planted: Planted::None,
        lax_agents: false,
    };

    pub(super) const ALL: Self =
        Self { lost: 0.05, doubled: 0.02, longest: 4 * SECOND, disturbed_every: 2 * SECOND, ..Self::NONE };
}

#[derive(Clone, Debug)]
enum Message {
    Register(usize, RegisterRequest),
    Leave(LeaveRequest),
    Stats(StatsRequest),
    Resize(ResizeRequest),
    Registered(RegisterResponse),
    Told(StatsResponse),
    Resized(ResizeResponse),
    /// Nobody listens.
    Refused,
}

#[derive(Clone, Debug)]
enum Event {
    /// To an agent, from a seat.
    ToSite {
        site: usize,
        seat: usize,
        call: u64,
        message: Message,
    },
    /// To a seat, from an agent.
    ToSeat {
        site: usize,
        seat: usize,
        call: u64,
        message: Message,
    },
    /// A call of a seat has taken too long.
    Deadline {
        seat: usize,
        start: u64,
        call: u64,
    },
    /// An agent looks whether it must register.
    Wake {
        site: usize,
        session: u64,
    },
    /// A seat begins a round, or ends it.
    Begin {
        seat: usize,
        start: u64,
    },
    End {
        seat: usize,
        start: u64,
        round: u64,
    },
    /// A seat asks to lead, or to go on leading.
    Campaign {
        seat: usize,
        start: u64,
    },
    Disturb,
    Heal {
        seat: usize,
        node: usize,
    },
}

/// An orchestrator's process.
pub(super) struct Seat {
    /// Counts starts; events of an earlier start are void.
    start: u64,
    is_up: bool,
    pub(super) fleet: Option<Fleet>,
    waiting: HashMap<u64, Call>,
    round: u64,
    paused_until: Nanos,
}

/// The election and the store that all seats share.
#[derive(Default)]
struct Shared {
    leader: Option<(usize, u64)>,
    until: Nanos,
    term: u64,
    records: BTreeMap<Key, Record>,
}

pub(super) struct World {
    rng: SeededRng,
    pub(super) faults: Faults,
    pub(super) now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    scheduled: HashMap<u64, Event>,
    next: u64,
    pub(super) sites: Vec<Site>,
    pub(super) seats: Vec<Seat>,
    nodes: Vec<String>,
    cut: Vec<(usize, usize)>,
    shared: Shared,
    /// A digest of all events, so that two runs of a seed can be compared.
    pub(super) digest: u64,
    /// When each decision was made.
    pub(super) decided_at: Vec<Nanos>,
    pub(super) steps: u64,
}

impl World {
    pub(super) fn new(seed: u64, seats: usize, nodes: usize, sites: usize, faults: Faults) -> Self {
        let names: Vec<String> = (0..nodes).map(|node| format!("node-{node}")).collect();
        let mut world = Self {
            rng: seeded(seed),
            faults,
            now: SECOND,
            events: BinaryHeap::new(),
            scheduled: HashMap::new(),
            next: 0,
            sites: (0..sites)
                .map(|site| Site {
                    name: format!("instance-{site}"),
                    node: names[site % nodes].clone(),
                    outlives_agent: site % 3 == 2,
                    cache: None,
                    process: None,
                })
                .collect(),
            seats: (0..seats)
                .map(|_| Seat {
                    start: 0,
                    is_up: false,
                    fleet: None,
                    waiting: HashMap::new(),
                    round: 0,
                    paused_until: 0,
                })
                .collect(),
            nodes: names,
            cut: Vec::new(),
            shared: Shared::default(),
            digest: 0,
            decided_at: Vec::new(),
            steps: 0,
        };
        (0..seats).for_each(|seat| world.start_seat(seat));
        (0..sites).for_each(|site| world.start_site(site));
        world.disturb_later();
        world
    }

    /// Runs until then, and checks after each event that no node's memory is exceeded.
    pub(super) fn run(&mut self, until: Nanos) -> Result<(), String> {
        while let Some(&Reverse((at, id))) = self.events.peek()
            && at <= until
        {
            self.events.pop();
            let event = self.scheduled.remove(&id).expect("scheduled");
            self.now = at;
            self.steps += 1;
            self.digest = base::hash::mix64(self.digest ^ at.wrapping_mul(31) ^ id);
            self.sites.iter().for_each(|site| site.advance(at));
            self.handle(event);
            self.check()?;
        }
        self.now = until;
        Ok(())
    }

    /// The invariant that is the whole point: what instances can have never exceeds what there is.
    fn check(&self) -> Result<(), String> {
        for node in &self.nodes {
            let here = || self.sites.iter().filter(|site| site.node == *node);
            let sum: u64 = here().map(Site::has).sum();
            if sum > MEMORY {
                let each: Vec<String> =
                    here().map(|site| format!("{}: {} MiB", site.name, site.has() >> 20)).collect();
                let secs = self.now as f64 / 1e9;
                return Err(format!("at {secs:.3} s {node} has {} MiB: {}", sum >> 20, each.join(", ")));
            }
        }
        Ok(())
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.next += 1;
        self.events.push(Reverse((time, self.next)));
        self.scheduled.insert(self.next, event);
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.random_bool(share)
    }

    fn node(&self, site: usize) -> usize {
        site % self.nodes.len()
    }

    /// Sends a message, if the link is there, as the network does.
    fn send(&mut self, seat: usize, site: usize, event: Event) {
        if self.cut.contains(&(seat, self.node(site))) || self.chance(self.faults.lost) {
            return;
        }
        let copies = 1 + usize::from(self.chance(self.faults.doubled));
        for _ in 0..copies {
            let longest = self.faults.longest.max(2);
            let most = if self.rng.random_bool(0.9) { longest / 100 } else { longest };
            let delay = self.rng.random_range(1..most.max(2));
            self.at(self.now + delay, event.clone());
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ToSite { site, seat, call, message } => self.at_site(site, seat, call, message),
            Event::ToSeat { site, seat, call, message } => self.at_seat(site, seat, call, message),
            Event::Wake { site, session } => self.wake(site, session),
            Event::Deadline { seat, start, call } => {
                if self.seats[seat].start == start {
                    self.answer(seat, call, None);
                }
            }
            Event::Begin { seat, start } => self.begin(seat, start),
            Event::End { seat, start, round } => self.end(seat, start, round),
            Event::Campaign { seat, start } => self.campaign(seat, start),
            // Not one that was to come when all was healed.
            Event::Disturb if self.faults.disturbed_every == Nanos::MAX => {}
            Event::Disturb => {
                self.disturb();
                self.disturb_later();
            }
            Event::Heal { seat, node } => self.cut.retain(|cut| *cut != (seat, node)),
        }
    }

    // Agents.

    pub(super) fn start_site(&mut self, site: usize) {
        let (incarnation, session) = (self.rng.random(), self.rng.random_range(1..u64::MAX));
        let clock_rate = self.rng.random_range(0.95..1.05);
        let now = self.now;
        let place = &mut self.sites[site];
        let (name, node, outlives) = (&place.name, &place.node, place.outlives_agent);
        let cache = place.cache.get_or_insert_with(|| {
            Handle(Arc::new(Mutex::new(Cache::new(name, node, incarnation, outlives, now))))
        });
        let config = AgentConfig { address: format!("site {site}"), session };
        let agent = Agent::new(config, cache.clone());
        place.process = Some(Process { agent, clock_rate, paused_until: 0 });
        self.at(now + MILLI, Event::Wake { site, session });
    }

    /// The process is killed: with the cache, if that is in it.
    pub(super) fn kill_site(&mut self, site: usize, with_cache: bool) {
        let place = &mut self.sites[site];
        place.process = None;
        if !place.outlives_agent || with_cache {
            place.cache = None;
        }
    }

    fn session(&self, site: usize) -> Option<u64> {
        self.sites[site].process.as_ref().map(|process| process.agent.departure().session)
    }

    fn clock(&self, site: usize) -> Nanos {
        let rate = self.sites[site].process.as_ref().map_or(1.0, |process| process.clock_rate);
        (self.now as f64 * rate) as Nanos
    }

    fn wake(&mut self, site: usize, session: u64) {
        if self.session(site) != Some(session) {
            return;
        }
        let clock = self.clock(site);
        let Some(process) = &mut self.sites[site].process else { return };
        if process.paused_until > self.now {
            let at = process.paused_until;
            return self.at(at, Event::Wake { site, session });
        }
        let wait = match process.agent.next(clock) {
            Next::Wait(left) => left + MILLI,
            Next::Register => {
                let request = process.agent.registration(clock).expect("the cache answers");
                let seat = self.rng.random_range(0..self.seats.len());
                let message = Message::Register(site, request);
                self.send(seat, site, Event::ToSeat { site, seat, call: session, message });
                SECOND / 2
            }
        };
        self.at(self.now + wait, Event::Wake { site, session });
    }

    fn at_site(&mut self, site: usize, seat: usize, call: u64, message: Message) {
        let clock = self.clock(site);
        let lax = self.faults.lax_agents;
        let now = self.now;
        let Some(process) = &mut self.sites[site].process else {
            if !matches!(message, Message::Registered(_)) {
                let event = Event::ToSeat { site, seat, call, message: Message::Refused };
                self.send(seat, site, event);
            }
            return;
        };
        if process.paused_until > now {
            let at = process.paused_until;
            return self.at(at, Event::ToSite { site, seat, call, message });
        }
        let answer = match message {
            Message::Stats(request) => {
                Message::Told(process.agent.stats(&request, clock).expect("the cache answers"))
            }
            Message::Resize(request) => {
                if lax {
                    // Carries out whatever comes.
                    process.agent.instance().0.lock().expect("no panic").limit =
                        amounts::memory(&request.limits);
                }
                Message::Resized(process.agent.resize(&request, clock).expect("the cache answers"))
            }
            Message::Registered(response) => {
                process.agent.registered(&response);
                return;
            }
            _ => return,
        };
        self.send(seat, site, Event::ToSeat { site, seat, call, message: answer });
    }

    // Orchestrators.

    pub(super) fn start_seat(&mut self, seat: usize) {
        self.seats[seat].start += 1;
        self.seats[seat].is_up = true;
        let start = self.seats[seat].start;
        let delay = self.rng.random_range(1..SECOND);
        self.at(self.now + delay, Event::Campaign { seat, start });
    }

    pub(super) fn kill_seat(&mut self, seat: usize) {
        let seat = &mut self.seats[seat];
        seat.start += 1;
        seat.is_up = false;
        seat.fleet = None;
        seat.waiting.clear();
    }

    pub(super) fn leader(&self) -> Option<usize> {
        let (seat, start) = self.shared.leader.filter(|_| self.now < self.shared.until)?;
        (self.seats[seat].start == start && self.seats[seat].fleet.is_some()).then_some(seat)
    }

    fn paused(&self, seat: usize) -> bool {
        self.seats[seat].paused_until > self.now
    }

    fn campaign(&mut self, seat: usize, start: u64) {
        if self.seats[seat].start != start {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::Campaign { seat, start });
        }
        let leads = self.shared.leader == Some((seat, start));
        if leads && self.now < self.shared.until {
            self.shared.until = self.now + ELECTED;
        } else {
            // Whoever led does not any more.
            self.seats[seat].fleet = None;
            self.seats[seat].waiting.clear();
            if self.now >= self.shared.until {
                self.shared.leader = Some((seat, start));
                self.shared.until = self.now + ELECTED;
                self.shared.term += 1;
                self.take_the_lead(seat, start);
            }
        }
        self.at(self.now + ELECTED / 3, Event::Campaign { seat, start });
    }

    fn take_the_lead(&mut self, seat: usize, start: u64) {
        let config = FleetConfig {
            id: seat as u64 + 1,
            budget: Budget {
                each: Some(MEMORY),
                nodes: BTreeMap::new(),
                spare: START * self.sites.len() as u64,
            },
            lease: LEASE,
            policy: "most-hits".to_owned(),
            rails: allocate::guard::Rails {
                least_share: 0.1,
                step: 0.1,
                hysteresis: 0.01,
                ..Default::default()
            },
        };
        let records: Vec<Record> = self.shared.records.values().cloned().collect();
        let mut fleet = Fleet::new(config, self.shared.term, records, self.now).expect("the policy is there");
        fleet.planted = self.faults.planted;
        self.seats[seat].fleet = Some(fleet);
        self.seats[seat].waiting.clear();
        self.at(self.now, Event::Begin { seat, start });
    }

    /// Saves, and then makes the calls. Whoever does not lead any more can save nothing.
    fn carry_out(&mut self, seat: usize, outgoing: Outgoing) {
        let start = self.seats[seat].start;
        if self.shared.leader != Some((seat, start)) {
            self.seats[seat].fleet = None;
            return;
        }
        for (key, record) in outgoing.save {
            match record {
                Some(record) => self.shared.records.insert(key, record),
                None => self.shared.records.remove(&key),
            };
        }
        for call in outgoing.calls {
            let message = match &call.request {
                Request::Stats(request) => Message::Stats(*request),
                Request::Resize(request) => Message::Resize(request.clone()),
            };
            let site: usize = call.address.trim_start_matches("site ").parse().expect("a site");
            self.next += 1;
            let id = self.next;
            self.seats[seat].waiting.insert(id, call);
            self.send(seat, site, Event::ToSite { site, seat, call: id, message });
            self.at(self.now + DEADLINE, Event::Deadline { seat, start, call: id });
        }
    }

    fn begin(&mut self, seat: usize, start: u64) {
        if self.seats[seat].start != start || self.seats[seat].fleet.is_none() {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::Begin { seat, start });
        }
        self.seats[seat].round += 1;
        let round = self.seats[seat].round;
        let now = self.now;
        let outgoing = self.seats[seat].fleet.as_mut().map(|fleet| fleet.begin(now));
        self.carry_out(seat, outgoing.unwrap_or_default());
        self.at(self.now + DEADLINE + MILLI, Event::End { seat, start, round });
        self.at(self.now + PERIOD, Event::Begin { seat, start });
    }

    fn end(&mut self, seat: usize, start: u64, round: u64) {
        if self.seats[seat].start != start || self.seats[seat].round != round {
            return;
        }
        if self.paused(seat) {
            return self.at(self.seats[seat].paused_until, Event::End { seat, start, round });
        }
        let now = self.now;
        let Some(fleet) = &mut self.seats[seat].fleet else { return };
        let (decided, outgoing) = fleet.decide(now);
        if !decided.is_empty() {
            self.decided_at.push(now);
        }
        self.carry_out(seat, outgoing);
    }

    fn at_seat(&mut self, site: usize, seat: usize, call: u64, message: Message) {
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
        let response = match &mut self.seats[seat].fleet {
            None => RegisterResponse { standing: Standing::NotLeader.into(), ..RegisterResponse::default() },
            Some(fleet) => {
                let (response, outgoing) = fleet.register(request, now);
                self.carry_out(seat, outgoing);
                response
            }
        };
        if self.seats[seat].fleet.is_some() || response.standing() == Standing::NotLeader {
            let message = Message::Registered(response);
            self.send(seat, site, Event::ToSite { site, seat, call: 0, message });
        }
    }

    /// A call is answered, or was not in time.
    fn answer(&mut self, seat: usize, call: u64, message: Option<Message>) {
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

    // Disturbances.

    fn disturb_later(&mut self) {
        if self.faults.disturbed_every < Nanos::MAX {
            let wait = self.rng.random_range(1..2 * self.faults.disturbed_every);
            self.at(self.now + wait, Event::Disturb);
        }
    }

    fn disturb(&mut self) {
        let site = self.rng.random_range(0..self.sites.len());
        let seat = self.rng.random_range(0..self.seats.len());
        let node = self.rng.random_range(0..self.nodes.len());
        let until = self.now + self.rng.random_range(SECOND / 10..3 * LEASE);
        match self.rng.random_range(0..10) {
            0 | 1 if self.sites[site].process.is_some() => {
                let with_cache = self.rng.random_bool(0.5);
                self.kill_site(site, with_cache);
            }
            0..=3 if self.sites[site].process.is_none() => self.start_site(site),
            2 => self.leave(site, seat),
            3 | 4 => {
                if let Some(process) = &mut self.sites[site].process {
                    process.paused_until = until;
                }
            }
            5 if self.seats[seat].is_up => self.kill_seat(seat),
            5 | 6 if !self.seats[seat].is_up => self.start_seat(seat),
            6 => self.seats[seat].paused_until = until,
            _ => {
                self.cut.push((seat, node));
                self.at(until, Event::Heal { seat, node });
            }
        }
    }

    fn leave(&mut self, site: usize, seat: usize) {
        let Some(process) = &self.sites[site].process else { return };
        let request = process.agent.departure();
        // The cache is gone before anybody knows.
        self.kill_site(site, false);
        self.send(seat, site, Event::ToSeat { site, seat, call: 0, message: Message::Leave(request) });
    }

    /// Nothing fails from now on, and who was down starts.
    pub(super) fn heal(&mut self) {
        self.faults = Faults { planted: self.faults.planted, ..Faults::NONE };
        self.cut.clear();
        for seat in 0..self.seats.len() {
            self.seats[seat].paused_until = 0;
            if !self.seats[seat].is_up {
                self.start_seat(seat);
            }
        }
        self.sites
            .iter_mut()
            .filter_map(|site| site.process.as_mut())
            .for_each(|process| process.paused_until = 0);
    }
}
