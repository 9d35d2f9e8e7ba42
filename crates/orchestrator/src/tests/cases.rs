//! Single cases, which attackers found: names that are used twice, answers that cannot be, and
//! requests without an end.

use std::collections::BTreeMap;

use allocate::cost::Objective;
use allocate::guard::Rails;
use base::rng::{RngExt, seeded};
use control::amounts::{memory, of_memory};
use control::v1::register_response::Standing;
use control::v1::{
    Curve, Holding, Instance, Leader, PoolReport, RegisterRequest, ResizeResponse, StatsResponse,
};

use super::world::SECOND;
use crate::fleet::Presence;
use crate::{
    Answer, Budget, Call, Failure, Fleet, FleetConfig, Nanos, Outgoing, PoolName, Request, Unanswered,
};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 1_000 * MIB;

pub(super) fn fleet(policy: &str) -> Fleet {
    fleet_for(policy, Objective::Hits)
}

fn fleet_for(policy: &str, objective: Objective) -> Fleet {
    let config = FleetConfig {
        id: 1,
        budget: Budget { each: Some(MEMORY), ..Budget::default() },
        lease: 5 * SECOND,
        policy: policy.to_owned(),
        objective,
        rails: Rails { least_share: 0.1, step: 0.1, hysteresis: 0.01, smoothing: 0.3, ..Rails::default() },
    };
    Fleet::new(config, 1, [], 0).expect("the policy is there")
}

fn registration(name: &str, session: u64, limit: u64) -> RegisterRequest {
    RegisterRequest {
        revision: control::REVISION,
        instance: Some(Instance {
            name: name.to_owned(),
            node: "here".to_owned(),
            incarnation: session,
            ..Instance::default()
        }),
        session,
        address: format!("127.0.0.1:{session}"),
        holding: Some(Holding { limits: of_memory(limit), used: of_memory(limit), ..Holding::default() }),
        ..RegisterRequest::default()
    }
}

/// Honest agents by session: limit, sequence, and the pools that each reports.
#[derive(Default)]
struct Agents {
    limits: BTreeMap<u64, (u64, u64)>,
    pools: BTreeMap<u64, Vec<PoolReport>>,
    requests: usize,
}

impl Agents {
    fn sum(&self) -> u64 {
        self.limits.values().map(|agent| agent.0).sum()
    }

    fn answer(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (session, leader) = match &call.request {
            Request::Stats(request) => (request.session, request.leader),
            Request::Resize(request) => (request.session, request.leader),
        };
        let agent = self.limits.get_mut(&session).ok_or(Failure::Silent)?;
        if let Request::Resize(request) = &call.request {
            *agent = (memory(&request.limits), request.sequence.max(agent.1));
        }
        let (limit, sequence) = *agent;
        let holding = Some(Holding { limits: of_memory(limit), used: of_memory(limit), term: 1, sequence });
        Ok(match &call.request {
            Request::Stats(_) => {
                let all = PoolReport { id: 1, used: of_memory(limit), weight: 1.0, ..PoolReport::default() };
                let pools = self.pools.get(&session).cloned().unwrap_or_else(|| vec![all]);
                let (accepted, number, is_whole) = (true, 1, true);
                let answer = StatsResponse {
                    accepted,
                    session,
                    leader,
                    holding,
                    number,
                    is_whole,
                    pools,
                    ..StatsResponse::default()
                };
                Answer::Stats(answer)
            }
            Request::Resize(_) => {
                let accepted = true;
                Answer::Resize(ResizeResponse {
                    accepted,
                    session,
                    leader,
                    holding,
                    ..ResizeResponse::default()
                })
            }
        })
    }

    fn carry_out(&mut self, fleet: &mut Fleet, outgoing: Outgoing, now: Nanos) {
        let mut calls = outgoing.calls;
        let mut made = 0;
        while let Some(call) = calls.pop() {
            made += 1;
            assert!(made < 1_000, "requests without an end");
            self.requests += 1;
            let answer = self.answer(&call);
            let answer = answer.as_ref().map_err(|failure| *failure);
            calls.extend(fleet.note_answer(&call, answer, now).calls);
        }
    }

    fn round(&mut self, fleet: &mut Fleet, second: u64) {
        let now = second * SECOND;
        let outgoing = fleet.begin(now);
        self.carry_out(fleet, outgoing, now);
        let (decided, outgoing) = fleet.decide(now + SECOND / 2);
        assert_eq!(decided.len(), 1, "a policy panicked");
        self.carry_out(fleet, outgoing, now + SECOND / 2);
        assert!(self.sum() <= MEMORY, "at {second} s: {:?}", self.limits);
    }
}

#[test]
fn an_instance_that_answers_is_not_forgotten_with_its_dead_namesake() {
    let (mut fleet, mut agents) = (fleet("most-hits"), Agents::default());
    // The first machine of "a" is gone; it was started elsewhere.
    for (name, session, limit) in [("a", 11, 10 * MIB), ("a", 12, 400 * MIB), ("b", 13, 100 * MIB)] {
        fleet.register(&registration(name, session, limit), SECOND);
        if session != 11 {
            agents.limits.insert(session, (limit, 0));
        }
    }
    (2..20).for_each(|second| agents.round(&mut fleet, second));
    let (forgotten, outgoing) = fleet.forget_instance("here", "a", 20 * SECOND);
    assert_eq!(forgotten, 1);
    agents.carry_out(&mut fleet, outgoing, 20 * SECOND);
    (20..40).for_each(|second| agents.round(&mut fleet, second));
    assert_eq!(fleet.members(40 * SECOND).len(), 2);
    assert_eq!(fleet.forget_instance("here", "a", 40 * SECOND).0, 0, "it answers");
}

#[test]
fn two_of_a_name_are_both_counted_while_both_answer() {
    let (mut fleet, mut agents) = (fleet("most-hits"), Agents::default());
    for second in 0..60 {
        for session in [21, 22] {
            let limit = agents.limits.entry(session).or_insert((200 * MIB, 0)).0;
            let mut request = registration("a", session, limit);
            request.instance.iter_mut().for_each(|instance| instance.is_alone = true);
            if second % 6 == session % 2 * 3 {
                fleet.register(&request, second * SECOND);
            }
        }
        agents.round(&mut fleet, second);
    }
    assert_eq!(fleet.members(60 * SECOND).len(), 2);
}

#[test]
fn a_request_without_an_effect_is_not_repeated_before_the_next_round() {
    let (mut fleet, mut agents) = (fleet("most-hits"), Agents::default());
    // Says that it was granted nothing, whatever it is granted.
    let pool = |id| PoolReport { id, used: of_memory(100 * MIB), weight: 1.0, ..PoolReport::default() };
    agents.limits.insert(31, (200 * MIB, 0));
    agents.pools.insert(31, vec![pool(1), pool(2)]);
    fleet.register(&registration("a", 31, 200 * MIB), 0);
    (1..30).for_each(|second| agents.round(&mut fleet, second));
    assert!(agents.requests < 30 * 5, "{} requests in 30 rounds", agents.requests);
}

#[test]
fn another_leader_counts_as_long_as_its_lease_and_terms_have_a_bound() {
    let mut fleet = fleet("most-hits");
    fleet.register(&registration("a", 41, MIB), 0);
    let call = fleet.begin(SECOND).calls.remove(0);
    let refused = |term| {
        let leader = Some(Leader { term, id: 7 });
        let lease_left_millis = 3_000;
        Answer::Stats(StatsResponse { leader, lease_left_millis, session: 41, ..StatsResponse::default() })
    };
    fleet.note_answer(&call, Ok(&refused(u64::MAX)), SECOND);
    assert_eq!(fleet.superseded(), None, "there cannot have been as many");
    fleet.note_answer(&call, Ok(&refused(9)), SECOND);
    assert_eq!(fleet.superseded().map(|other| (other.term, other.until)), Some((9, 4 * SECOND)));
    let request = RegisterRequest { seen_term: u64::MAX, ..registration("b", 42, MIB) };
    assert_eq!(fleet.register(&request, SECOND).0.standing(), Standing::Refused);
}

#[test]
fn names_that_a_terminal_would_obey_are_refused() {
    let mut fleet = fleet("most-hits");
    for name in ["a\nb", "\u{1b}[31m", &"x".repeat(300)] {
        let (response, _) = fleet.register(&registration(name, 51, MIB), 0);
        assert_eq!(response.standing(), Standing::Refused, "{name:?}");
    }
}

#[test]
fn a_pool_of_another_agent_has_nothing_of_the_one_that_had_its_number() {
    let (mut fleet, mut agents) = (fleet("most-hits"), Agents::default());
    let curve = Curve { samples: 1e4, ..control::curve::write([(MIB, 0.5), (MEMORY, 0.1)]) };
    for (session, name, curve, from) in [(81, "x", Some(curve), 0), (82, "y", None, 20)] {
        let mut request = registration("a", session, 200 * MIB);
        request.instance.iter_mut().for_each(|instance| instance.incarnation = 81);
        assert_eq!(fleet.register(&request, from * SECOND).0.standing(), Standing::Accepted);
        let (name, used) = (name.to_owned(), of_memory(100 * MIB));
        let pool = PoolReport { id: 1, name, used, weight: 1.0, curve, ..PoolReport::default() };
        agents.limits = [(session, (200 * MIB, 0))].into();
        agents.pools.insert(session, vec![pool]);
        (from + 1..from + 4).for_each(|second| agents.round(&mut fleet, second));
    }
    let unknown = fleet.what_if(PoolName { node: None, pool: "a/y" }, MIB, 24 * SECOND);
    assert_eq!(unknown, Err(Unanswered::NotLearnt("a/y".to_owned())));
}

/// A restarted agent has learnt nothing yet: its pool had its share by weight then, which others
/// lost.
#[test]
fn a_restarted_agent_goes_on_with_the_grant_and_the_curve_of_its_pool() {
    let (mut fleet, mut agents) = (fleet("most-hits"), Agents::default());
    // Memory is of use to the first; the second one misses whatever it has.
    let curves = [[(MIB, 0.9), (MEMORY, 0.0)], [(MIB, 1.0), (MEMORY, 0.999)]];
    let curves = curves.map(|points| Curve { samples: 1e4, ..control::curve::write(points) });
    let pool = |curve: Option<&Curve>, reads| PoolReport {
        id: 1,
        name: "all".to_owned(),
        used: of_memory(400 * MIB),
        weight: 1.0,
        reads,
        misses: reads / 2,
        curve: curve.cloned(),
        ..PoolReport::default()
    };
    let register = |fleet: &mut Fleet, name: &str, session: u64, limit, second| {
        let mut request = registration(name, session, limit);
        request.instance.iter_mut().for_each(|instance| instance.incarnation = 7);
        assert_eq!(fleet.register(&request, second * SECOND).0.standing(), Standing::Accepted);
    };
    for (name, session) in [("a", 91), ("b", 92)] {
        agents.limits.insert(session, (MEMORY / 4, 0));
        register(&mut fleet, name, session, MEMORY / 4, 0);
    }
    for second in 1..60 {
        for (session, curve) in [(91, &curves[0]), (92, &curves[1])] {
            agents.pools.insert(session, vec![pool(Some(curve), 1_000 * second)]);
        }
        agents.round(&mut fleet, second);
    }
    let (first, second) = (agents.limits[&91].0, agents.limits[&92].0);
    assert!(first > 2 * second, "{:?}", agents.limits);
    // The second one's agent is killed, and is back once its lease is over.
    let limit = agents.limits.remove(&92).expect("it is there");
    (60..70).for_each(|second| agents.round(&mut fleet, second));
    agents.limits.insert(93, limit);
    register(&mut fleet, "b", 93, limit.0, 70);
    for second in 71..90 {
        agents.pools.insert(91, vec![pool(Some(&curves[0]), 1_000 * second)]);
        agents.pools.insert(93, vec![pool(None, 1_000 * second)]);
        agents.round(&mut fleet, second);
    }
    assert!(agents.limits[&91].0 >= first - first / 16, "{first} before: {:?}", agents.limits);
    // Until its own says something else: that a part of the memory is enough for it.
    let other = PoolName { node: None, pool: "b/all" };
    assert!(fleet.what_if(other, MIB, 90 * SECOND).is_ok_and(|told| told.would_miss > 0.4));
    let curve = Curve { samples: 1e4, ..control::curve::write([(MIB, 0.9), (MEMORY / 4, 0.0)]) };
    for second in 90..130 {
        agents.pools.insert(91, vec![pool(Some(&curves[0]), 1_000 * second)]);
        agents.pools.insert(93, vec![pool(Some(&curve), 1_000 * second)]);
        agents.round(&mut fleet, second);
    }
    assert!(agents.limits[&93].0 > second + second / 4, "{second} before: {:?}", agents.limits);
}

/// Another orchestrator, which knows nothing of former grants, begins with what pools say.
#[test]
fn another_orchestrator_begins_with_what_pools_were_granted() {
    let (mut fleet, mut agents) = (fleet("most-hits"), Agents::default());
    let curve = Curve { samples: 1e4, ..control::curve::write([(MIB, 0.5), (MEMORY, 0.1)]) };
    for (name, session, granted) in [("a", 95, MEMORY / 8), ("b", 96, MEMORY / 4 * 3)] {
        agents.limits.insert(session, (granted, 0));
        let [used, granted] = [granted - MIB, granted].map(of_memory);
        let curve = Some(curve.clone());
        let pool = PoolReport { id: 1, used, granted, weight: 1.0, curve, ..PoolReport::default() };
        agents.pools.insert(session, vec![pool]);
        fleet.register(&registration(name, session, agents.limits[&session].0), 0);
    }
    let outgoing = fleet.begin(SECOND);
    agents.carry_out(&mut fleet, outgoing, SECOND);
    let decided = fleet.decide(SECOND).0;
    let before: Vec<u64> = decided[0].pools.iter().map(|pool| pool.before_bytes).collect();
    assert!(before[0] < MEMORY / 6 && before[1] > MEMORY / 2, "{before:?} of {MEMORY}");
}

/// Figures that an agent cannot have measured.
fn odd_pools(seed: u64) -> Vec<PoolReport> {
    let mut rng = seeded(seed);
    let amounts = [0, 1, MIB, MEMORY, MEMORY + 1, 1 << 50, u64::MAX / 2, u64::MAX];
    let rates = [0.0, -1.0, 0.5, 1e3, 1e300, f64::NAN, f64::INFINITY];
    let mut odd = |id| {
        let mut amount = || of_memory(amounts[rng.random_range(0..amounts.len())]);
        let (granted, used, floors, ceilings) = (amount(), amount(), amount(), amount());
        let counted_at_millis = memory(&amount());
        let mut rate = || rates[rng.random_range(0..rates.len())];
        let curve =
            Curve { samples: rate(), error: rate(), ..control::curve::write([(MIB, 0.5), (MEMORY, 0.1)]) };
        PoolReport {
            id,
            name: "p".to_owned(),
            granted,
            used,
            floors,
            ceilings,
            weight: rate(),
            reads: memory(&amount_of(id)),
            misses: 7,
            promised_per_sec: rate(),
            backend_per_sec: rate(),
            miss_cost_micros: rate(),
            curve: Some(curve),
            counted_at_millis,
        }
    };
    (1..=3).map(&mut odd).collect()
}

fn amount_of(id: u32) -> Vec<control::v1::Amount> {
    of_memory(1_000 * u64::from(id))
}

#[test]
fn no_figure_of_an_agent_stops_the_decisions_about_others() {
    for entry in allocate::registry::policies() {
        for seed in 0..40 {
            let (mut fleet, mut agents) = (fleet(entry.name), Agents::default());
            agents.limits.extend([(61, (100 * MIB, 0)), (62, (100 * MIB, 0))]);
            agents.pools.insert(61, odd_pools(seed));
            for session in [61, 62] {
                fleet.register(&registration(&format!("i{session}"), session, 100 * MIB), 0);
            }
            (1..12).for_each(|second| agents.round(&mut fleet, second));
        }
    }
}

/// Two pools of equal curves, of which the first one's misses cost a hundred times as much.
#[test]
fn time_saved_counts_misses_by_what_they_cost() {
    let first_has = |objective| {
        let (mut fleet, mut agents) = (fleet_for("most-hits", objective), Agents::default());
        for session in [71, 72] {
            agents.limits.insert(session, (MEMORY / 2, 0));
            fleet.register(&registration(&format!("i{session}"), session, MEMORY / 2), 0);
        }
        let points = (1..=64).map(|i| (MEMORY / 64 * i, 1.0 - (i as f64 / 64.0).sqrt()));
        let curve = Curve { samples: 1e4, ..control::curve::write(points) };
        for second in 1..40 {
            for (&session, &(limit, _)) in &agents.limits {
                let missed = 1.0 - (limit as f64 / MEMORY as f64).sqrt();
                let pool = PoolReport {
                    id: 1,
                    used: of_memory(limit),
                    weight: 1.0,
                    reads: 10_000 * second,
                    misses: (10_000.0 * second as f64 * missed) as u64,
                    miss_cost_micros: if session == 71 { 10_000.0 } else { 100.0 },
                    curve: Some(curve.clone()),
                    ..PoolReport::default()
                };
                agents.pools.insert(session, vec![pool]);
            }
            agents.round(&mut fleet, second);
        }
        agents.limits[&71].0
    };
    let (by_hits, by_time) = (first_has(Objective::Hits), first_has(Objective::TimeSaved));
    assert!(by_hits.abs_diff(MEMORY / 2) < MEMORY / 20, "alike: {by_hits}");
    assert!(by_time > MEMORY / 4 * 3, "{by_time} of {MEMORY}");
}

#[test]
fn each_change_of_an_instance_s_presence_is_told_once() {
    let mut fleet = fleet("most-hits");
    let mut agents = Agents::default();
    agents.limits.insert(1, (MEMORY / 2, 0));
    let (_, outgoing) = fleet.register(&registration("a", 1, MEMORY / 2), 0);
    agents.carry_out(&mut fleet, outgoing, 0);
    agents.round(&mut fleet, 1);
    let told = |fleet: &mut Fleet, second: u64| {
        let changes = fleet.presence_changes(second * SECOND);
        changes.into_iter().map(|(name, _, presence)| (name, presence)).collect::<Vec<_>>()
    };
    let one = |presence| vec![("a".to_owned(), presence)];
    assert_eq!(told(&mut fleet, 1), one(Presence::Answers));
    assert_eq!(told(&mut fleet, 2), []);
    assert_eq!(told(&mut fleet, 60), one(Presence::Silent));
    assert_eq!(fleet.forget_instance("here", "a", 61 * SECOND).0, 1);
    assert_eq!(told(&mut fleet, 61), one(Presence::Ended));
    assert_eq!(told(&mut fleet, 62), []);
}
