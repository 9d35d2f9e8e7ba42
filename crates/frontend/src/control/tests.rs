use std::time::Duration;

use super::*;

#[test]
fn a_decision_of_which_a_part_is_kept_has_the_totals_of_all() {
    let step = |i: u64| Move {
        from: None,
        to: Some(format!("pool-{i}")),
        bytes: 1_000 + i,
        saved_misses_per_sec: 1.0,
        reason: "it misses most".to_owned(),
    };
    let round = Round {
        pools: Vec::new(),
        memory_bytes: 1 << 30,
        moves: (0..100).map(step).collect(),
        unmet: Vec::new(),
        is_decided: true,
        idle: None,
        is_applied: true,
        fitted: Vec::new(),
        next: Duration::from_secs(1),
    };
    // Moves that no policy decided are told apart.
    let bounds = Round { fitted: vec![step(7)], ..round.clone() };
    let bounds = Decision::fitted(&bounds, 1, 10);
    assert_eq!((&*bounds.policy, bounds.moves_count, bounds.moved_bytes), ("bounds", 1, 1_007));
    let decision = Decision::of(&round, 1, 10, &ControlConfig::default());
    assert_eq!(decision.moves.len(), MAX_KEPT);
    assert_eq!(decision.moves.first().map(|step| step.bytes), Some(1_099));
    assert_eq!((decision.moves_count, decision.moved_bytes), (100, 100 * 1_000 + 99 * 100 / 2));
}
