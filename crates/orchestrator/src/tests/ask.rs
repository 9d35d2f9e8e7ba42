//! Questions about pools whose names are used twice.

use control::amounts::of_memory;
use control::v1::{Curve, Holding, Instance, PoolReport, RegisterRequest, StatsResponse};

use super::cases::fleet;
use super::world::SECOND;
use crate::{Answer, Call, Failure, Fleet, Nanos, PoolName, Request, Unanswered};

const MIB: u64 = 1 << 20;

fn register(fleet: &mut Fleet, node: &str, session: u64, now: Nanos) {
    let holding = Holding { limits: of_memory(64 * MIB), used: of_memory(64 * MIB), ..Holding::default() };
    let request = RegisterRequest {
        revision: control::REVISION,
        instance: Some(Instance {
            name: "a".to_owned(),
            node: node.to_owned(),
            incarnation: session,
            ..Instance::default()
        }),
        session,
        address: format!("127.0.0.1:{session}"),
        holding: Some(holding),
        ..RegisterRequest::default()
    };
    fleet.register(&request, now);
}

/// The answer of an agent whose curve falls to 0 at as many MiB as the number of its session.
fn answer(call: &Call) -> Option<Answer> {
    let Request::Stats(request) = &call.request else { return None };
    let most = request.session * MIB;
    let pool = PoolReport {
        id: 1,
        name: "all".to_owned(),
        used: of_memory(64 * MIB),
        weight: 1.0,
        curve: Some(Curve { samples: 1e4, ..control::curve::write([(most / 2, 0.5), (most, 0.0)]) }),
        ..PoolReport::default()
    };
    Some(Answer::Stats(StatsResponse {
        accepted: true,
        session: request.session,
        leader: request.leader,
        holding: Some(Holding {
            limits: of_memory(64 * MIB),
            used: of_memory(64 * MIB),
            ..Holding::default()
        }),
        number: 1,
        is_whole: true,
        pools: vec![pool],
        ..StatsResponse::default()
    }))
}

/// A round in which the agents of these sessions answer.
fn round(fleet: &mut Fleet, sessions: &[u64], now: Nanos) {
    for call in fleet.begin(now).calls {
        let Request::Stats(request) = &call.request else { continue };
        let answer = answer(&call).filter(|_| sessions.contains(&request.session));
        fleet.note_answer(&call, answer.as_ref().ok_or(Failure::Silent), now);
    }
    fleet.decide(now);
}

fn name<'a>(node: Option<&'a str>, pool: &'a str) -> PoolName<'a> {
    PoolName { node, pool }
}

/// The size at which the curve of a pool ends, in MiB, as it differs from pool to pool.
fn last(fleet: &Fleet, asked: PoolName<'_>, now: Nanos) -> Result<u64, Unanswered> {
    let curve = fleet.curve(asked, now)?.drawn(usize::MAX);
    Ok(curve.points.last().map_or(0, |point| point.0 / MIB))
}

#[test]
fn a_name_on_two_nodes_is_ambiguous_without_the_node() {
    let mut fleet = fleet("most-hits");
    register(&mut fleet, "here", 200, 0);
    register(&mut fleet, "rack-7", 300, 0);
    (1..4).for_each(|second| round(&mut fleet, &[200, 300], second * SECOND));
    let now = 4 * SECOND;
    assert_eq!(last(&fleet, name(Some("here"), "a/all"), now), Ok(200));
    assert_eq!(last(&fleet, name(Some("rack-7"), "a/all"), now), Ok(300));
    let nodes = vec!["here".to_owned(), "rack-7".to_owned()];
    let ambiguous = Unanswered::Ambiguous { pool: "a/all".to_owned(), nodes };
    assert_eq!(last(&fleet, name(None, "a/all"), now), Err(ambiguous.clone()));
    assert_eq!(fleet.what_if(name(None, "a/all"), MIB, now), Err(ambiguous));
    assert_eq!(
        fleet.what_if(name(Some("rack-7"), "a/all"), MIB, now).map(|answer| answer.node).as_deref(),
        Ok("rack-7")
    );
    let unknown = Unanswered::Unknown("a/all".to_owned());
    assert_eq!(last(&fleet, name(Some("rack-8"), "a/all"), now), Err(unknown));
    let curves: Vec<_> = fleet.curves(now).into_iter().map(|learnt| learnt.drawn(9).node).collect();
    assert_eq!(curves, ["here", "rack-7"]);
    // The one on the other node answers no more, so that the name is clear.
    (4..20).for_each(|second| round(&mut fleet, &[300], second * SECOND));
    assert_eq!(last(&fleet, name(None, "a/all"), 20 * SECOND), Ok(300));
    assert_eq!(last(&fleet, name(Some("here"), "a/all"), 20 * SECOND), Ok(200));
}

#[test]
fn an_instance_that_answers_is_asked_rather_than_a_former_one_of_its_name() {
    for [former, present] in [[200, 300], [300, 200]] {
        let mut fleet = fleet("most-hits");
        register(&mut fleet, "here", former, 0);
        (1..4).for_each(|second| round(&mut fleet, &[former], second * SECOND));
        // It hangs, and another one begins.
        register(&mut fleet, "here", present, 4 * SECOND);
        (4..20).for_each(|second| round(&mut fleet, &[present], second * SECOND));
        assert_eq!(fleet.members(20 * SECOND).len(), 2, "the former one is still known");
        assert_eq!(last(&fleet, name(Some("here"), "a/all"), 20 * SECOND), Ok(present));
        assert_eq!(last(&fleet, name(None, "a/all"), 20 * SECOND), Ok(present));
        assert_eq!(fleet.curves(20 * SECOND).len(), 1);
    }
}

#[test]
fn two_instances_of_a_name_that_answer_are_asked_as_decisions_name_them() {
    let mut fleet = fleet("most-hits");
    register(&mut fleet, "here", 200, 0);
    register(&mut fleet, "here", 300, 0);
    (1..4).for_each(|second| round(&mut fleet, &[200, 300], second * SECOND));
    assert_eq!(last(&fleet, name(None, "a/all"), 4 * SECOND), Ok(200));
    assert_eq!(last(&fleet, name(None, "a/all (2)"), 4 * SECOND), Ok(300));
    assert_eq!(fleet.curves(4 * SECOND).len(), 2);
}

#[test]
fn an_instance_is_forgotten_on_its_node_alone() {
    let mut fleet = fleet("most-hits");
    register(&mut fleet, "here", 200, 0);
    register(&mut fleet, "rack-7", 300, 0);
    (1..4).for_each(|second| round(&mut fleet, &[200, 300], second * SECOND));
    // Both are silent now; an operator knows that one has ended.
    let now = 60 * SECOND;
    assert_eq!(fleet.forget_instance("rack-7", "a", now).0, 1);
    let left: Vec<_> = fleet.members(now).into_iter().map(|member| member.instance.node).collect();
    assert_eq!(left, ["here"]);
}
