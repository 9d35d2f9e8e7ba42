//! Agents, orchestrators, and the network between them, in virtual time.
//!
//! One seed is one history. Messages are lost, late and doubled, links are cut, processes are
//! stopped, killed and started, and so are orchestrators (`seat`), which elect one by a simulated
//! etcd (`etcd`). Requests to that are lost, late and carried out twice as well, its members stop,
//! and its clock differs from that of the orchestrators.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex};

use agent::{Agent, AgentConfig, Next};
use base::rng::{RngExt, SeededRng, seeded};
use control::amounts;
use control::v1::{
    LeaveRequest, RegisterRequest, RegisterResponse, ResizeRequest, ResizeResponse, StatsRequest,
    StatsResponse,
};

use super::etcd::Etcd;
use super::seat::{MEMBERS, Seat};
use super::site::{Cache, Handle, Process, Site};
use crate::etcd::{Ask, AskError, Reply};
use crate::fleet::Planted;
use crate::{MILLI, Nanos};

pub(super) const SECOND: Nanos = 1_000 * MILLI;
pub(super) const PERIOD: Nanos = SECOND;
pub(super) const LEASE: Nanos = 5 * SECOND;
/// The lease of the election.
pub(super) const ELECTED: Nanos = ELECTED_SECS as Nanos * SECOND;
pub(super) const ELECTED_SECS: u32 = 3;
/// The time after which a call has no answer.
pub(super) const DEADLINE: Nanos = 800 * MILLI;
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
pub(super) enum Message {
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
pub(super) enum Event {
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
        term: u64,
    },
    /// A seat takes the next step of the election.
    Elect {
        seat: usize,
        start: u64,
    },
    /// To etcd, and back; also if no answer has come in time.
    ToEtcd {
        seat: usize,
        start: u64,
        request: u64,
        ask: Ask,
    },
    FromEtcd {
        seat: usize,
        start: u64,
        request: u64,
        outcome: Result<Reply, AskError>,
    },
    /// The members of etcd have elected one.
    EtcdElected,
    Disturb,
    Heal {
        seat: usize,
        node: usize,
    },
}

pub(super) struct World {
    pub(super) rng: SeededRng,
    pub(super) faults: Faults,
    pub(super) now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    scheduled: HashMap<u64, Event>,
    pub(super) next: u64,
    pub(super) sites: Vec<Site>,
    pub(super) seats: Vec<Seat>,
    nodes: Vec<String>,
    cut: Vec<(usize, usize)>,
    pub(super) etcd: Etcd,
    /// The times until which the members of etcd are away, of which the first leads at first.
    pub(super) members_away: [Nanos; MEMBERS],
    etcd_leader: usize,
    pub(super) etcd_elects_until: Nanos,
    /// Until then the registry may be the one of a backup.
    pub(super) restored_until: Nanos,
    /// True if the registry or a limit may be another one since the last check.
    pub(super) is_changed: bool,
    pub(super) last_term: u64,
    /// An error that was seen during an event.
    pub(super) wrong: Option<String>,
    /// A digest of all events, so that two runs of a seed can be compared.
    pub(super) digest: u64,
    /// When each decision was made.
    pub(super) decided_at: Vec<Nanos>,
    pub(super) steps: u64,
}

impl World {
    pub(super) fn new(seed: u64, seats: usize, nodes: usize, sites: usize, faults: Faults) -> Self {
        let names: Vec<String> = (0..nodes).map(|node| format!("node-{node}")).collect();
        let mut rng = seeded(seed);
        let etcd = Etcd::new(rng.random_range(0.92..1.08));
        let mut world = Self {
            rng,
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
            seats: (0..seats).map(|_| Seat::new()).collect(),
            nodes: names,
            cut: Vec::new(),
            etcd,
            members_away: [0; MEMBERS],
            etcd_leader: 0,
            etcd_elects_until: 0,
            restored_until: 0,
            is_changed: false,
            last_term: 0,
            wrong: None,
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
            self.check_election()?;
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

    pub(super) fn at(&mut self, time: Nanos, event: Event) {
        self.next += 1;
        self.events.push(Reverse((time, self.next)));
        self.scheduled.insert(self.next, event);
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.random_bool(share)
    }

    fn node(&self, site: usize) -> usize {
        site % self.nodes.len()
    }

    /// Sends a message, if the link is there, as the network does.
    pub(super) fn send(&mut self, seat: usize, site: usize, event: Event) {
        if self.cut.contains(&(seat, self.node(site))) || self.chance(self.faults.lost) {
            return;
        }
        let copies = 1 + usize::from(self.chance(self.faults.doubled));
        for _ in 0..copies {
            let delay = self.delay();
            self.at(self.now + delay, event.clone());
        }
    }

    /// The time that a message takes.
    pub(super) fn delay(&mut self) -> Nanos {
        let longest = self.faults.longest.max(2);
        let most = if self.rng.random_bool(0.9) { longest / 100 } else { longest };
        self.rng.random_range(1..most.max(2))
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
            Event::End { seat, start, round, term } => self.end(seat, start, round, term),
            Event::Elect { seat, start } => self.elect(seat, start),
            Event::ToEtcd { seat, start, request, ask } => self.at_etcd(seat, start, request, ask),
            Event::FromEtcd { seat, start, request, outcome } => {
                self.etcd_answered(seat, start, request, outcome);
            }
            Event::EtcdElected => self.etcd.change_leader(self.now),
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
        let config = AgentConfig { address: format!("site:{}", site + 1), session };
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
                self.is_changed = true;
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
        match self.rng.random_range(0..13) {
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
            10 => self.seats[seat].apart_until = until,
            11 | 12 => {
                let member = self.rng.random_range(0..MEMBERS);
                self.stop_member(member, until);
            }
            _ => {
                self.cut.push((seat, node));
                self.at(until, Event::Heal { seat, node });
            }
        }
    }

    /// A member of etcd stops until then. If it leads the others, these elect another one, and
    /// carry nothing out before.
    /// Has etcd start again from a backup, with all its leases from then, and gives leaders a lease
    /// to save again what they have saved since.
    pub(super) fn restore_etcd(&mut self, backup: Etcd) {
        self.etcd = backup;
        self.etcd.change_leader(self.now);
        self.restored_until = self.now + ELECTED;
        self.is_changed = true;
    }

    pub(super) fn stop_member(&mut self, member: usize, until: Nanos) {
        self.members_away[member] = until;
        if member == self.etcd_leader {
            self.etcd_elects_until = self.now + self.rng.random_range(SECOND..2 * SECOND);
            self.at(self.etcd_elects_until, Event::EtcdElected);
            self.etcd_leader = (member + 1) % MEMBERS;
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
        self.members_away = [0; MEMBERS];
        for seat in 0..self.seats.len() {
            self.seats[seat].paused_until = 0;
            self.seats[seat].apart_until = 0;
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
