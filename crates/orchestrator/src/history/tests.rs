use curve::{MissRatioCurve, Point, Unit};

use super::*;
use crate::decide::Move;

const MIB: u64 = 1 << 20;

fn pool(name: &str, granted_bytes: u64, missed: f64) -> DecidedPool {
    let points = [(MIB, 0.5), (4 * MIB, 0.1)].map(|(size, miss_ratio)| Point { size, miss_ratio });
    DecidedPool {
        name: name.into(),
        before_bytes: granted_bytes,
        granted_bytes,
        used_bytes: granted_bytes,
        reads_per_sec: 100.0,
        missed: Some(missed),
        predicted: Some(missed),
        expected: Some(missed),
        floor_bytes: 0,
        promised_per_sec: 0.0,
        miss_cost_secs: None,
        missed_since: None,
        curve: MissRatioCurve::new(Unit::Bytes, points).ok().map(Arc::new),
    }
}

fn decided(node: &str, moves: usize, pools: Vec<DecidedPool>) -> Decided {
    let step = |i| Move {
        from: None,
        to: Some(format!("i{i}")),
        bytes: MIB + i as u64,
        saved_misses_per_sec: 1.0,
        reason: "it misses most".to_owned(),
    };
    Decided {
        node: node.to_owned(),
        memory_bytes: 64 * MIB,
        is_short: true,
        idle: None,
        moves: (0..moves).map(step).collect(),
        pools,
        unmet: Vec::new(),
    }
}

#[test]
fn outcomes_of_pools_of_one_name_on_two_nodes_are_told_apart() {
    let mut history = History::default();
    let round = |moves, missed: [f64; 2]| {
        let nodes = ["here", "rack-7"].into_iter().zip(missed);
        nodes.map(|(node, missed)| decided(node, moves, vec![pool("a/all", 8 * MIB, missed)])).collect()
    };
    history.note(round(1, [0.5, 0.5]), "most-hits", 10, 9);
    history.note(round(0, [0.2, 0.4]), "most-hits", 11, 9);
    let kept = history.decisions();
    let outcomes: Vec<_> =
        kept.iter().map(|told| (&*told.decided.node, told.decided.pools[0].missed_since)).collect();
    assert_eq!(outcomes, [("rack-7", Some(0.4)), ("here", Some(0.2))]);
}

#[test]
fn a_decision_of_which_a_part_is_kept_has_the_totals_of_all() {
    let mut history = History::default();
    let pools = (0..100).map(|i| pool(&format!("i{i}"), MIB, 0.5)).collect();
    history.note(vec![decided("here", 100, pools)], "most-hits", 10, 9);
    let told = history.decision(1).expect("it is kept");
    assert_eq!((told.decided.moves.len(), told.decided.pools.len()), (64, 64));
    assert_eq!((told.totals.moves, told.totals.pools), (100, 100));
    assert_eq!(told.totals.moved_bytes, 100 * MIB + 99 * 100 / 2);
    assert_eq!(history.figures.moved_bytes, told.totals.moved_bytes);
}

#[test]
fn a_reader_keeps_what_it_took_while_the_next_round_is_noted() {
    let mut history = History::default();
    let round = |moves, missed| vec![decided("here", moves, vec![pool("a", 8 * MIB, missed)])];
    history.note(round(1, 0.5), "most-hits", 10, 9);
    let taken = history.decisions();
    history.note(round(0, 0.2), "most-hits", 11, 9);
    assert_eq!(taken[0].decided.pools[0].missed_since, None);
    let shared = history.decisions();
    assert_eq!(shared[0].decided.pools[0].missed_since, Some(0.2));
    assert!(Arc::ptr_eq(&shared[0], &history.decisions()[0]), "readers share what is kept");
}

#[test]
fn a_decision_is_the_same_after_it_was_stored() {
    let mut history = History::default();
    let round = |moves, missed| vec![decided("here", moves, vec![pool("a", 8 * MIB, missed)])];
    history.note(round(3, 0.5), "most-hits", 10, 9);
    history.note(round(0, 0.2), "most-hits", 11, 9);
    let told = history.decision(1).expect("it is kept");
    let stored = serde_json::to_string(&*told).expect("JSON");
    let mut read: Told = serde_json::from_str(&stored).expect("a decision");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), stored);
    let points = |told: &Told| told.decided.pools[0].curve.as_ref().map(|curve| curve.points().to_vec());
    assert_eq!(points(&read), points(&told));
    assert!(points(&read).is_some_and(|points| points.len() >= 2));
    // The mean goes on where it was.
    read.measure(0, 0.4);
    assert!(read.decided.pools[0].missed_since.is_some_and(|mean| (mean - 0.3).abs() < 1e-9));
}

#[test]
fn without_a_store_no_more_is_to_be_saved_than_is_kept() {
    let mut history = History::default();
    for second in 0..100 {
        let pools = vec![pool("a/all", 8 * MIB, 0.5)];
        history.note(vec![decided("here", 1, pools)], "most-hits", second, 9);
    }
    assert!(history.unsaved.len() <= 9, "{:?}", history.unsaved);
    let (unsaved, oldest) = history.take_unsaved();
    assert_eq!((oldest, unsaved.len()), (92, 9));
    assert!(history.take_unsaved().0.is_empty());
    history.note_unsaved(&unsaved);
    assert_eq!(history.take_unsaved().0.len(), 9, "another attempt saves all");
}
