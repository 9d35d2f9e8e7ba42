//! Decisions of strategies, formula by formula and threshold by threshold; then whole runs.

#[path = "strategy/pools.rs"]
mod pools;

use base::rng::{Rng, seeded};
use millpond_rebalance::strategy::{
    ClassView, ClearGain, Counts, FreeMemory, HillClimbing, HitsPerSlab, Manual, MarginalHits, Move,
    PoolView, Random, Rebalancer, Strategy, TailAge, VictimRule,
};

const SLAB_BYTES: u64 = 4 << 20;

/// A class with chunks of 1 KiB, ten slabs and nothing going on.
fn class(number: u8) -> ClassView {
    ClassView { number, chunk_bytes: 1_024, slabs: 10, items: 40_960, ..ClassView::default() }
}

fn evicting(number: u8) -> ClassView {
    ClassView { counts: Counts { evictions: 1, ..Counts::default() }, ..class(number) }
}

fn full(classes: &[ClassView]) -> PoolView {
    PoolView { is_full: true, classes: classes.to_vec(), ..PoolView::default() }
}

/// The pool before anything was counted.
fn before(pool: &PoolView) -> PoolView {
    let mut before = pool.clone();
    before.classes.iter_mut().for_each(|class| class.counts = Counts::default());
    before
}

/// Returns the decision of the second round, in the first of which nothing was counted.
fn decide(strategy: Strategy, pool: &PoolView) -> Option<Move> {
    let mut rebalancer = Rebalancer::new(strategy);
    assert_eq!(rebalancer.decide(&before(pool)), None, "the first round only looks");
    rebalancer.decide(pool)
}

fn ends(decided: Option<Move>) -> Option<(u8, Option<u8>)> {
    decided.map(|decided| (decided.victim, decided.receiver))
}

fn failing(number: u8, allocation_failures: u64, slabs: u64) -> ClassView {
    ClassView { slabs, counts: Counts { allocation_failures, ..Counts::default() }, ..class(number) }
}

fn shadowed(number: u8, shadow_hits: u64) -> ClassView {
    ClassView { counts: Counts { shadow_hits, evictions: 1, ..Counts::default() }, ..class(number) }
}

/// Adds counts to those of a pool.
fn after(pool: &PoolView, shadow_hits: &[u64]) -> PoolView {
    let mut after = pool.clone();
    let added = after.classes.iter_mut().zip(shadow_hits);
    added.for_each(|(class, hits)| class.counts.shadow_hits += hits);
    after
}

#[test]
fn hill_climbing_pays_for_hits_in_shadows() {
    type Case<'a> = (&'a str, &'a [u64], Option<(u8, Option<u8>)>);
    let cases: [Case<'_>; 5] = [
        ("a slab for 256 hits", &[0, 256], Some((0, Some(1)))),
        ("not for one less", &[0, 255], None),
        ("nobody gains", &[5_000, 5_000], None),
        ("who gains least gives", &[500, 1_250, 25], Some((2, Some(1)))),
        ("others pay in equal parts", &[150, 331, 0], Some((2, Some(1)))),
    ];
    for (what, hits, expected) in cases {
        let classes: Vec<ClassView> = (0..).zip(hits).map(|(number, &hits)| shadowed(number, hits)).collect();
        let decided = decide(Strategy::HillClimbing(HillClimbing::default()), &full(&classes));
        assert_eq!(ends(decided), expected, "{what}");
    }
    let free = ClassView { free_chunks: 4_096, ..shadowed(1, 9_000) };
    let decided = decide(Strategy::HillClimbing(HillClimbing::default()), &full(&[shadowed(0, 0), free]));
    assert_eq!(decided, None, "it has a slab that it does not use");
}

#[test]
fn nothing_is_owed_from_before_hill_climbing() {
    let mut rebalancer = Rebalancer::new(Strategy::Random(Random::default()));
    let pool = full(&[shadowed(0, 0), shadowed(1, 0)]);
    assert!((0..50).any(|_| rebalancer.decide(&pool).is_some()), "slabs move");
    rebalancer.set_strategy(Strategy::HillClimbing(HillClimbing::default()));
    assert!((0..10).all(|_| rebalancer.decide(&pool).is_none()), "and nobody gains");
}

#[test]
fn a_class_that_is_new_has_no_hits_in_its_shadow_yet() {
    let mut rebalancer = Rebalancer::new(Strategy::HillClimbing(HillClimbing::default()));
    let pool = full(&[shadowed(0, 0), shadowed(1, 0)]);
    assert_eq!(rebalancer.decide(&pool), None, "the first round only looks");
    // Its number had another class, whose hits still count.
    let pool = full(&[shadowed(0, 0), shadowed(1, 0), shadowed(2, 1_000_000)]);
    assert_eq!(rebalancer.decide(&pool), None);
    assert_eq!(ends(rebalancer.decide(&after(&pool, &[0, 0, 512]))), Some((0, Some(2))));
}

#[test]
fn hill_climbing_keeps_what_is_owed() {
    let mut rebalancer = Rebalancer::new(Strategy::HillClimbing(HillClimbing::default()));
    let mut pool = full(&[shadowed(0, 0), shadowed(1, 0)]);
    assert_eq!(rebalancer.decide(&pool), None, "the first round only looks");
    for expected in [None, Some((0, Some(1))), None, Some((0, Some(1)))] {
        pool = after(&pool, &[0, 128]);
        assert_eq!(ends(rebalancer.decide(&pool)), expected);
    }
    // A slab that could not be moved is owed still, and the hits count once.
    rebalancer.failed();
    assert_eq!(ends(rebalancer.decide(&pool)), Some((0, Some(1))));
    assert_eq!(rebalancer.decide(&pool), None);
    // No more is owed than a few slabs, however many hits there were.
    pool = after(&pool, &[0, 1_000_000]);
    let moves = (0..20).filter(|_| rebalancer.decide(&pool).is_some()).count();
    assert_eq!(moves, 4);
}

/// A class of ten slabs that evicts, with these hits and tail hits.
fn earning(number: u8, hits: u64, tail_hits: u64) -> ClassView {
    ClassView { counts: Counts { hits, tail_hits, evictions: 1, ..Counts::default() }, ..class(number) }
}

#[test]
fn clear_gain_moves_what_gains_more_than_it_costs() {
    type Case<'a> = (&'a str, &'a [(u64, u64)], Option<(u8, Option<u8>)>);
    let cases: [Case<'_>; 8] = [
        ("slabs that nobody reads", &[(0, 0), (500, 40)], Some((0, Some(1)))),
        ("too few hits to tell", &[(0, 0), (500, 9)], None),
        ("nobody gains", &[(0, 0), (900, 0)], None),
        ("a quarter more", &[(100, 4_000), (500, 5_000)], Some((0, Some(1)))),
        ("less than a quarter more", &[(100, 4_000), (500, 4_999)], None),
        // Ten slabs of 800 hits each: half of that.
        ("hits whose loss the tail does not show", &[(8_000, 0), (9_000, 499)], None),
        ("the same, but for more", &[(8_000, 0), (9_000, 500)], Some((0, Some(1)))),
        ("who loses least gives, who gains most gets", &[(50, 10), (9, 1), (70, 30)], Some((1, Some(2)))),
    ];
    for (what, hits, expected) in cases {
        let classes: Vec<ClassView> =
            (0..).zip(hits).map(|(number, &(hits, tail))| earning(number, hits, tail)).collect();
        let strategy = Strategy::ClearGain(ClearGain::default());
        assert_eq!(ends(decide(strategy.clone(), &full(&classes))), expected, "{what}");
        let roomy = PoolView { is_full: false, ..full(&classes) };
        assert_eq!(decide(strategy, &roomy), None, "{what}, in a pool that has room");
    }
    let gains = [earning(0, 0, 0), earning(1, 500, 40)];
    let unlike = [
        ("it evicts nothing", Counts { evictions: 0, ..gains[1].counts }, 0),
        ("it has a slab that it does not use", gains[1].counts, 4_096),
    ];
    for (why, counts, free_chunks) in unlike {
        let classes = [gains[0].clone(), ClassView { counts, free_chunks, ..gains[1].clone() }];
        assert_eq!(decide(Strategy::ClearGain(ClearGain::default()), &full(&classes)), None, "{why}");
    }
}

/// LRU has no tail hits.
#[test]
fn clear_gain_goes_by_hits_per_slab_if_there_is_nothing_else() {
    // Of ten slabs: half of the mean against the mean.
    for (hits, expected) in [(2_499, None), (2_500, Some((0, Some(1))))] {
        let classes = [earning(0, 10_000, 0), earning(1, 10 * hits, 0)];
        let pool = PoolView { lacks_tail_hits: true, ..full(&classes) };
        assert_eq!(ends(decide(Strategy::ClearGain(ClearGain::default()), &pool)), expected, "{hits}");
        assert_eq!(decide(Strategy::ClearGain(ClearGain::default()), &full(&classes)), None);
    }
}

/// Classes that earn alike but for chance, and one that was busy for an hour and is idle since.
#[test]
fn clear_gain_keeps_still_and_wakes_up() {
    let mut rng = seeded(8);
    for rate in [2, 5, 20, 100] {
        let mut rebalancer = Rebalancer::new(Strategy::ClearGain(ClearGain::default()));
        let mut pool = full(&[earning(0, 0, 0), earning(1, 0, 0)]);
        let moves = (0..3_600).filter(|_| {
            for class in &mut pool.classes {
                // About this many, as chance has it.
                let tail = (0..10 * rate).filter(|_| rng.next_u64().is_multiple_of(10)).count() as u64;
                let counts = &mut class.counts;
                (counts.hits, counts.tail_hits) = (counts.hits + 15 * tail, counts.tail_hits + tail);
                counts.evictions += 1;
            }
            rebalancer.decide(&pool).is_some()
        });
        let moves = moves.count();
        assert!(moves < 40, "{moves} moves in an hour at {rate} hits a round");
    }
    for tail in [1, 10] {
        let mut rebalancer = Rebalancer::new(Strategy::ClearGain(ClearGain::default()));
        let mut pool = full(&[earning(0, 0, 0), earning(1, 0, 0)]);
        for _ in 0..3_600 {
            pool.classes[0].counts.hits += 100_000;
            assert_eq!(rebalancer.decide(&pool), None);
        }
        let rounds = (1..).take_while(|_| {
            let counts = &mut pool.classes[1].counts;
            (counts.hits, counts.tail_hits) = (counts.hits + 5 * tail, counts.tail_hits + tail);
            counts.evictions += 1;
            rebalancer.decide(&pool).is_none()
        });
        let rounds = rounds.count();
        assert!(rounds < 40, "{rounds} rounds until a slab moves, at {tail} hits a round");
    }
}

/// In a small pool less than a slab moves at a time, and tail hits are still those of a slab.
#[test]
fn clear_gain_compares_steps_with_steps() {
    let step_bytes = SLAB_BYTES / 16;
    let moves = |tail_hits| {
        let classes = [(0, 0, 0), (1, 100, tail_hits)]
            .map(|(number, hits, tail)| ClassView { slabs: 40, ..earning(number, hits, tail) });
        let pool = PoolView { step_bytes, ..full(&classes) };
        ends(decide(Strategy::ClearGain(ClearGain::default()), &pool))
    };
    assert_eq!([moves(16 * 10 - 1), moves(16 * 10)], [None, Some((0, Some(1)))]);
}

/// A class may have to give a longer piece than what moves at a time: that costs more, and one that
/// would keep less than a slab gives nothing.
#[test]
fn clear_gain_counts_all_that_leaves_a_class() {
    let step_bytes = SLAB_BYTES / 16;
    for (gives, hits, expected) in [(1, 1_000, true), (4, 1_000, false), (4, 0, true), (10, 0, false)] {
        // A mean of 100 hits for each of ten steps, half of which is what one costs.
        let giver = ClassView { gives_bytes: gives * step_bytes, ..earning(0, hits, 0) };
        let pool = PoolView { step_bytes, ..full(&[giver, ClassView { slabs: 16, ..earning(1, 0, 1_600) }]) };
        let decided = ends(decide(Strategy::ClearGain(ClearGain::default()), &pool));
        assert_eq!(decided, expected.then_some((0, Some(1))), "{gives} slabs leave, of {hits} hits");
    }
}

#[test]
fn clear_gain_adds_up_few_hits_and_forgets_after_a_move() {
    let mut rebalancer = Rebalancer::new(Strategy::ClearGain(ClearGain::default()));
    let mut pool = full(&[earning(0, 0, 0), earning(1, 0, 0)]);
    assert_eq!(rebalancer.decide(&pool), None, "the first round only looks");
    let mut round = |rebalancer: &mut Rebalancer| {
        let counts = &mut pool.classes[1].counts;
        (counts.hits, counts.tail_hits, counts.evictions) =
            (counts.hits + 20, counts.tail_hits + 3, counts.evictions + 1);
        ends(rebalancer.decide(&pool))
    };
    let decided: Vec<bool> = (0..8).map(|_| round(&mut rebalancer).is_some()).collect();
    // 3, 6, 9, 12; then half of that and 3, and so on.
    assert_eq!(decided, [false, false, false, true, false, true, false, true]);
    rebalancer.failed();
    assert_eq!(round(&mut rebalancer), Some((0, Some(1))));
}

#[test]
fn the_victim_of_an_idle_pool_is_the_class_with_most_slabs() {
    let mut pool = full(&[class(0), ClassView { slabs: 30, ..class(1) }, class(2)]);
    let mut rebalancer = Rebalancer::new(Strategy::default());
    assert_eq!(rebalancer.decide(&pool), None);
    assert_eq!(rebalancer.victim_for_resizing(&pool).map(|decided| decided.victim), Some(1));
    pool.classes[2].counts.allocation_failures = 1;
    assert_eq!(ends(rebalancer.decide(&pool)), Some((1, Some(2))));
}

#[test]
fn base_helps_the_class_whose_allocations_fail_most() {
    type Case<'a> = (&'a str, &'a [(u64, u64)], Option<(u8, Option<u8>)>);
    let cases: [Case<'_>; 7] = [
        ("nobody fails", &[(0, 10), (0, 3)], None),
        ("the richest gives", &[(0, 10), (7, 3), (0, 11)], Some((2, Some(1)))),
        ("most failures win", &[(8, 1), (9, 1), (0, 2)], Some((2, Some(1)))),
        ("a tie goes to the smaller number", &[(9, 1), (9, 1), (0, 2)], Some((2, Some(0)))),
        ("the last slab stays", &[(5, 0), (0, 1)], None),
        ("nobody gives to itself", &[(5, 99), (0, 2)], Some((1, Some(0)))),
        ("the only class has nobody to take from", &[(5, 99)], None),
    ];
    for (case, classes, expected) in cases {
        let classes: Vec<_> =
            (0..).zip(classes).map(|(number, (failed, slabs))| failing(number, *failed, *slabs)).collect();
        let mut pool = full(&classes);
        assert_eq!(ends(decide(Strategy::OnFailures, &pool)), expected, "{case}");
        pool.is_full = false;
        assert_eq!(ends(decide(Strategy::OnFailures, &pool)), expected, "{case}, in a pool that is not full");
    }
}

#[test]
fn failures_come_first_under_every_strategy() {
    let mut classes = [class(0), evicting(1), failing(2, 3, 1)];
    classes[0].slabs = 30;
    classes[0].tail_age_secs = Some(10_000);
    classes[1].tail_age_secs = Some(10);
    classes[1].counts.hits = 1 << 20;
    classes[1].counts.tail_hits = 1 << 10;
    let strategies = [
        Strategy::OnFailures,
        Strategy::ClearGain(ClearGain::default()),
        Strategy::TailAge(TailAge::default()),
        Strategy::HitsPerSlab(HitsPerSlab::default()),
        Strategy::MarginalHits(MarginalHits::default()),
        Strategy::FreeMemory(FreeMemory::default()),
        Strategy::Manual(Manual { slabs: vec![(1, 20)] }),
    ];
    for strategy in strategies {
        let name = strategy.name();
        let decided = decide(strategy, &full(&classes)).expect(name);
        assert_eq!((decided.victim, decided.receiver), (0, Some(2)), "{name}");
        assert!(
            decided.reason.starts_with("3 allocations of class 2 (1KiB) failed, and class 0"),
            "{decided:?}"
        );
    }
}

#[test]
fn the_other_rule_for_victims_draws_among_large_chunks() {
    let mut classes: Vec<_> = (0..20).map(class).collect();
    for class in &mut classes {
        class.chunk_bytes = 64 * (u32::from(class.number) + 1);
        class.slabs = if class.number == 19 { 9 } else { 10 };
    }
    classes[0].counts.allocation_failures = 1;
    let rule = VictimRule::LARGEST_CHUNKS;
    let mut drawn: Vec<_> = (0..200)
        .map(|seed| {
            let mut rebalancer = Rebalancer::with(Strategy::OnFailures, rule.clone(), seed);
            rebalancer.decide(&before(&full(&classes)));
            rebalancer.decide(&full(&classes)).expect("a victim").victim
        })
        .collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn, (9..19).collect::<Vec<_>>(), "the ten largest of those with ten slabs");
    classes.iter_mut().for_each(|class| class.slabs = 9);
    let mut rebalancer = Rebalancer::with(Strategy::OnFailures, rule, 0);
    rebalancer.decide(&before(&full(&classes)));
    assert_eq!(rebalancer.decide(&full(&classes)), None);
}

#[test]
fn free_memory_takes_from_who_evicts_nothing_and_has_most_free() {
    let chunks = |slabs: u64| slabs * SLAB_BYTES / 1_024;
    // Slabs, free chunks, whether it evicts.
    type Classes<'a> = &'a [(u64, u64, bool)];
    let cases: [(&str, Classes<'_>, Option<u8>); 6] = [
        ("just three slabs", &[(10, chunks(3), false)], None),
        ("more than three", &[(10, chunks(3) + 1, false)], Some(0)),
        ("it evicts", &[(10, chunks(9), true)], None),
        ("all evict", &[(10, chunks(9), true), (10, chunks(8), true)], None),
        ("most free memory wins", &[(10, chunks(4), false), (10, chunks(5), false)], Some(1)),
        ("the last slab stays", &[(1, chunks(4), false)], None),
    ];
    for (case, classes, expected) in cases {
        let make = |(number, &(slabs, free_chunks, evicts)): (u8, &(u64, u64, bool))| ClassView {
            slabs,
            free_chunks,
            ..if evicts { evicting(number) } else { class(number) }
        };
        let mut pool = full(&(0..).zip(classes).map(make).collect::<Vec<_>>());
        let strategy = || Strategy::FreeMemory(FreeMemory::default());
        let expected = expected.map(|victim| (victim, None));
        assert_eq!(ends(decide(strategy(), &pool)), expected, "{case}");
        pool.free_slabs = 1_000;
        assert_eq!(ends(decide(strategy(), &pool)), expected, "{case}, 1,000 slabs unassigned");
        pool.free_slabs = 1_001;
        assert_eq!(decide(strategy(), &pool), None, "{case}, 1,001 slabs unassigned");
    }
}

fn aged(number: u8, age: u32) -> ClassView {
    ClassView { tail_age_secs: Some(age), ..evicting(number) }
}

#[test]
fn tail_ages_must_differ_by_both_thresholds() {
    let cases = [
        (3_600, 60, true),
        (199, 100, false),
        (200, 100, true),
        (400, 300, true),
        (401, 301, false),
        (10_000, 7_500, true),
        (10_000, 7_501, false),
        (100, 100, false),
        (u32::MAX, 0, true),
    ];
    for (old, young, moves) in cases {
        let pool = full(&[aged(0, young), aged(1, old)]);
        let decided = decide(Strategy::TailAge(TailAge::default()), &pool);
        assert_eq!(ends(decided), moves.then_some((1, Some(0))), "{old} and {young}");
    }
}

#[test]
fn tail_age_knows_its_victims_and_receivers() {
    let default = || Strategy::TailAge(TailAge::default());
    let pool = full(&[aged(0, 500), aged(1, 60), aged(2, 9_000)]);
    assert_eq!(ends(decide(default(), &pool)), Some((2, Some(1))));

    let mut not_full = pool.clone();
    not_full.is_full = false;
    assert_eq!(decide(default(), &not_full), None, "a pool that can grow needs no move");

    let mut idle = pool.clone();
    idle.classes[1].counts.evictions = 0;
    assert_eq!(ends(decide(default(), &idle)), Some((2, Some(0))), "who evicts nothing needs nothing");

    let mut poor = pool.clone();
    poor.classes[2].slabs = 1;
    assert_eq!(ends(decide(default(), &poor)), Some((0, Some(1))), "the last slab stays");

    let mut projected = pool.clone();
    projected.classes[2].projected_age_secs = Some(70);
    assert_eq!(ends(decide(default(), &projected)), Some((0, Some(1))), "the age with a slab less counts");

    let mut free = pool.clone();
    free.classes[0].counts.evictions = 0;
    free.classes[0].free_chunks = 5 * SLAB_BYTES / 1_024;
    assert_eq!(ends(decide(default(), &free)), Some((0, Some(1))), "free memory first");
    free.classes[0].tail_age_secs = None;
    assert_eq!(ends(decide(default(), &free)), Some((0, Some(1))), "also where its age is not known");

    let weigh = |weights| Strategy::TailAge(TailAge { weights, ..TailAge::default() });
    assert_eq!(ends(decide(weigh(vec![(2, 0.01)]), &pool)), Some((0, Some(1))), "9,000 s count as 90");
    let near = full(&[aged(0, 100), aged(1, 101)]);
    assert_eq!(decide(default(), &near), None);
    assert_eq!(
        ends(decide(weigh(vec![(1, 2.0)]), &near)),
        Some((1, Some(0))),
        "weights set thresholds aside"
    );

    let unknown = full(&[evicting(0), evicting(1)]);
    assert_eq!(decide(default(), &unknown), None);
}

fn hit(number: u8, hits: u64, slabs: u64) -> ClassView {
    ClassView { slabs, counts: Counts { hits, evictions: 1, ..Counts::default() }, ..class(number) }
}

#[test]
fn hits_per_slab_must_differ_by_both_thresholds() {
    // Victim's hits and slabs, receiver's hits and slabs. The receiver's only slab makes it no
    // victim.
    let cases = [
        (0, 2, 100, 1, true),
        (0, 2, 99, 1, false),
        (1_000, 2, 1_100, 1, true),
        (1_000, 2, 1_099, 1, false),
        (2_000, 2, 2_199, 1, false),
        (2_000, 2, 2_200, 1, true),
        // 199 ÷ 2 is 99: whole hits per slab.
        (199, 3, 199, 1, true),
        (200, 3, 199, 1, false),
        (500, 2, 400, 1, false),
    ];
    for (little, slabs, much, others, moves) in cases {
        let pool = full(&[hit(0, much, others), hit(1, little, slabs)]);
        let decided = decide(Strategy::HitsPerSlab(HitsPerSlab::default()), &pool);
        assert_eq!(
            ends(decided),
            moves.then_some((1, Some(0))),
            "{little} in {slabs} slabs and {much} in {others}"
        );
    }
}

#[test]
fn hits_per_slab_knows_its_victims_and_receivers() {
    let aged = |number, hits, age| ClassView { tail_age_secs: Some(age), ..hit(number, hits, 2) };
    let pool = full(&[aged(0, 100, 50), aged(1, 1_000, 500), aged(2, 5_000, 5_000), aged(3, 9_000, 200)]);
    let config = HitsPerSlab::default();
    let decide = |config: HitsPerSlab, pool: &PoolView| ends(decide(Strategy::HitsPerSlab(config), pool));
    assert_eq!(decide(config.clone(), &pool), Some((0, Some(3))));
    assert_eq!(decide(config.clone(), &PoolView { is_full: false, ..pool.clone() }), None);

    let young = HitsPerSlab { min_tail_age_secs: 100, ..config.clone() };
    assert_eq!(decide(young.clone(), &pool), None, "class 0 is preferred as receiver, and earns too little");
    let pays = HitsPerSlab { weights: vec![(0, 1_000.0)], ..young };
    assert_eq!(decide(pays, &pool), Some((1, Some(0))), "and is no victim");

    let old = HitsPerSlab { max_tail_age_secs: 1_000, ..config.clone() };
    assert_eq!(decide(old, &pool), None, "class 2 is preferred as victim, and earns too much");
    let oldest = HitsPerSlab { max_tail_age_secs: 1_000, weights: vec![(2, 0.01)], ..config.clone() };
    assert_eq!(decide(oldest, &pool), Some((2, Some(3))));

    let target = HitsPerSlab { target_tail_age_secs: vec![(0, 51), (1, 500)], ..config.clone() };
    let poor = HitsPerSlab { weights: vec![(0, 1_000.0)], ..target.clone() };
    assert_eq!(decide(target, &pool), None, "class 0 is below its target: the first receiver and no victim");
    assert_eq!(decide(poor, &pool), Some((1, Some(0))));

    let mut idle = pool.clone();
    idle.classes[3].counts.evictions = 0;
    assert_eq!(decide(config.clone(), &idle), Some((0, Some(2))), "who evicts nothing needs nothing");
    idle.classes[3].free_chunks = 5 * SLAB_BYTES / 1_024;
    idle.classes[3].counts.hits = 0;
    assert_eq!(decide(config.clone(), &idle), Some((3, Some(2))), "free memory first");
    let off = HitsPerSlab { by_free_memory: false, ..config };
    idle.classes[0].counts.hits = 0;
    assert_eq!(decide(off, &idle), Some((0, Some(2))), "unless that is off");
}

/// Rounds of two classes of which the first gains 60 hits per slab and round and the second none.
fn first_move(config: HitsPerSlab) -> Option<u64> {
    let mut rebalancer = Rebalancer::new(Strategy::HitsPerSlab(config));
    (0..20).find(|round| {
        let mut pool = full(&[hit(0, round * 60, 1), hit(1, 0, 5)]);
        pool.classes.iter_mut().for_each(|class| class.counts.evictions = *round);
        rebalancer.decide(&pool).is_some()
    })
}

#[test]
fn hits_count_from_the_last_move_on() {
    assert_eq!(first_move(HitsPerSlab::default()), Some(2), "60 are too few, 120 enough");
    assert_eq!(first_move(HitsPerSlab { reset_hits_always: true, ..HitsPerSlab::default() }), None);
}

#[test]
fn who_received_is_no_victim_until_it_evicts() {
    let strategy = || Strategy::TailAge(TailAge::default());
    // In the third round and later, class 0 has far older items than class 1, and evicts in round
    // `evicts_in`.
    let first_give = |evicts_in: u64| {
        let mut rebalancer = Rebalancer::new(strategy());
        let mut pool = full(&[aged(0, 10), aged(1, 9_000)]);
        pool.classes.iter_mut().for_each(|class| class.counts.evictions = 0);
        rebalancer.decide(&pool);
        pool.classes[0].counts.evictions = 1;
        assert_eq!(ends(rebalancer.decide(&pool)), Some((1, Some(0))));
        pool.classes[0].tail_age_secs = Some(9_000);
        pool.classes[1].tail_age_secs = Some(10);
        (1..=20).find(|round| {
            pool.classes[0].counts.evictions += u64::from(*round == evicts_in);
            pool.classes[1].counts.evictions += 1;
            ends(rebalancer.decide(&pool)) == Some((0, Some(1)))
        })
    };
    assert_eq!(first_give(99), Some(11), "ten rounds without evictions");
    assert_eq!(first_give(1), Some(1));
    assert_eq!(first_give(4), Some(4));
}

#[test]
fn a_move_that_failed_is_no_move() {
    let mut rebalancer = Rebalancer::new(Strategy::HitsPerSlab(HitsPerSlab::default()));
    let at = |victim_hits, receiver_hits, evictions| {
        let mut pool = full(&[hit(0, victim_hits, 10), hit(1, receiver_hits, 10)]);
        pool.classes[1].counts.evictions = evictions;
        pool
    };
    assert_eq!(rebalancer.decide(&at(0, 0, 0)), None);
    let decided = rebalancer.decide(&at(0, 9_000, 1)).expect("class 1 has all hits");
    rebalancer.failed();
    // With nothing new, the same is decided: hits count from the last move on, which there was
    // none.
    assert_eq!(rebalancer.decide(&at(0, 9_000, 1)), Some(decided));
    assert_eq!(rebalancer.decide(&at(0, 9_000, 1)), None, "this one was carried out");
}

fn tail(number: u8, tail_hits: u64) -> ClassView {
    ClassView { counts: Counts { tail_hits, ..Counts::default() }, ..class(number) }
}

#[test]
fn marginal_hits_move_toward_the_highest_rank() {
    let decide = |config, pool: &PoolView| ends(decide(Strategy::MarginalHits(config), pool));
    let pool = full(&[tail(0, 500), tail(1, 20), tail(2, 900)]);
    assert_eq!(decide(MarginalHits::default(), &pool), Some((1, Some(2))));
    assert_eq!(decide(MarginalHits::default(), &PoolView { is_full: false, ..pool.clone() }), None);

    let mut free = pool.clone();
    free.classes[2].free_chunks = SLAB_BYTES / 1_024;
    assert_eq!(decide(MarginalHits::default(), &free), Some((1, Some(0))), "a free slab is enough for now");
    free.classes[2].free_chunks -= 1;
    assert_eq!(decide(MarginalHits::default(), &free), Some((1, Some(2))));

    let mut poor = pool.clone();
    poor.classes[1].slabs = 1;
    assert_eq!(decide(MarginalHits::default(), &poor), Some((0, Some(2))), "the last slab stays");

    let cases = [
        (0, 10, true),
        (0, 9, false),
        (90, 100, true),
        (91, 101, false),
        (900, 1_000, true),
        (901, 1_000, false),
    ];
    for (little, much, moves) in cases {
        let pool = full(&[tail(0, much), tail(1, little)]);
        let expected = moves.then_some((1, Some(0)));
        assert_eq!(decide(MarginalHits::default(), &pool), expected, "{little} and {much}");
        assert_eq!(decide(MarginalHits::as_in_cachelib(), &pool), Some((1, Some(0))), "{little} and {much}");
    }
    let even = full(&[tail(0, 7), tail(1, 7)]);
    assert_eq!(decide(MarginalHits::as_in_cachelib(), &even), None, "a tie is no reason");
}

#[test]
fn random_choices_come_from_the_seed() {
    let mut classes: Vec<_> = (0..5).map(class).collect();
    classes[4].slabs = 1;
    let pool = full(&classes);
    let run = |seed| {
        let strategy = Strategy::Random(Random::default());
        let mut rebalancer = Rebalancer::with(strategy, VictimRule::default(), seed);
        rebalancer.decide(&pool);
        (0..300).filter_map(|_| ends(rebalancer.decide(&pool))).collect::<Vec<_>>()
    };
    let moves = run(7);
    assert_eq!((moves.len(), &moves), (300, &run(7)));
    assert_ne!(moves, run(8));
    for victim in 0..5 {
        for receiver in 0..5 {
            let is_drawn = moves.contains(&(victim, Some(receiver)));
            assert_eq!(is_drawn, victim != receiver && victim != 4, "{victim} to {receiver}");
        }
    }
}

/// A number that is often small, sometimes large and now and then extreme.
fn any_number(rng: &mut impl Rng) -> u64 {
    match rng.next_u64() % 16 {
        0 => u64::MAX,
        1..4 => rng.next_u64() % 100_000,
        _ => rng.next_u64() % 8,
    }
}

fn any_pool(rng: &mut impl Rng) -> PoolView {
    let classes = rng.next_u64() % 6;
    let any_age = |rng: &mut _| (!any_number(rng).is_multiple_of(3)).then(|| any_number(rng) as u32);
    let class = |number| ClassView {
        number,
        chunk_bytes: 64 << number,
        slabs: any_number(rng) % 50,
        gives_bytes: any_number(rng),
        free_chunks: any_number(rng),
        items: any_number(rng),
        tail_age_secs: any_age(rng),
        projected_age_secs: any_age(rng),
        counts: Counts {
            hits: any_number(rng),
            tail_hits: any_number(rng),
            shadow_hits: any_number(rng),
            evictions: any_number(rng),
            allocation_failures: any_number(rng) % 2 * (any_number(rng) % 2),
        },
    };
    let classes = (0..classes as u8).map(class).collect();
    PoolView {
        number: 3,
        free_slabs: any_number(rng),
        is_full: !rng.next_u64().is_multiple_of(4),
        classes,
        step_bytes: 0,
        lacks_tail_hits: rng.next_u64().is_multiple_of(2),
    }
}

#[test]
fn whatever_a_pool_looks_like_a_move_can_be_carried_out() {
    let mut decided_by = [0; 8];
    for seed in 0..3_000 {
        let mut rng = seeded(seed);
        let strategies = [
            Strategy::OnFailures,
            Strategy::ClearGain(ClearGain::default()),
            Strategy::TailAge(TailAge::default()),
            Strategy::HitsPerSlab(HitsPerSlab::default()),
            Strategy::MarginalHits(MarginalHits::as_in_cachelib()),
            Strategy::FreeMemory(FreeMemory { max_unassigned_slabs: u64::MAX, ..FreeMemory::default() }),
            Strategy::Random(Random::default()),
            Strategy::Manual(Manual {
                slabs: (0..4).map(|number| (number, any_number(&mut rng) % 9)).collect(),
            }),
        ];
        for (strategy, decided_by) in strategies.into_iter().zip(&mut decided_by) {
            let name = strategy.name();
            let mut rebalancer = Rebalancer::with(strategy, VictimRule::default(), seed);
            for round in 0..4 {
                let pool = any_pool(&mut rng);
                let slabs_of = |number| {
                    pool.classes.iter().find(|class| class.number == number).map(|class| class.slabs)
                };
                if let Some(decided) = rebalancer.victim_for_resizing(&pool) {
                    assert!(slabs_of(decided.victim) > Some(0), "{name}, seed {seed}: {decided:?}");
                }
                let Some(decided) = rebalancer.decide(&pool) else { continue };
                assert!(round > 0, "{name}, seed {seed}: the first round only looks");
                assert!(slabs_of(decided.victim) > Some(1), "{name}, seed {seed}: {decided:?}");
                let is_other = decided.receiver != Some(decided.victim);
                let is_there = decided.receiver.is_none_or(|receiver| slabs_of(receiver).is_some());
                assert!(
                    is_other && is_there && !decided.reason.is_empty(),
                    "{name}, seed {seed}: {decided:?}"
                );
                *decided_by += 1;
            }
        }
    }
    assert!(decided_by.iter().all(|moves| *moves > 100), "each has something to do: {decided_by:?}");
}

/// Carries moves out on the numbers of slabs.
fn carry_out(pool: &mut PoolView, decided: &Move) {
    for class in &mut pool.classes {
        if class.number == decided.victim {
            class.slabs -= 1;
        } else if Some(class.number) == decided.receiver {
            class.slabs += 1;
        }
    }
}

#[test]
fn manual_targets_are_reached_and_kept() {
    let mut pool = full(&[class(0), class(1), class(2), class(3)]);
    let target = vec![(0, 1), (1, 17), (2, 12)];
    let mut rebalancer = Rebalancer::new(Strategy::Manual(Manual { slabs: target }));
    let mut moves = 0;
    for _ in 0..30 {
        if let Some(decided) = rebalancer.decide(&pool) {
            carry_out(&mut pool, &decided);
            moves += 1;
        }
    }
    let slabs: Vec<_> = pool.classes.iter().map(|class| class.slabs).collect();
    assert_eq!((slabs, moves), (vec![1, 17, 12, 10], 9));
    let nothing = Manual { slabs: vec![(9, 4)] };
    assert_eq!(decide(Strategy::Manual(nothing), &pool), None);
}

/// A pool whose classes have `demand ÷ slabs` tail hits per round: concave hit curves, on which
/// marginal hits are even where slabs are in proportion to demand.
fn run_marginal(config: MarginalHits, rounds: usize) -> (Vec<u64>, usize, usize) {
    let demands = [100_u64, 2_000, 9_000, 400];
    let mut pool = full(&[class(0), class(1), class(2), class(3)]);
    let mut rebalancer = Rebalancer::new(Strategy::MarginalHits(config));
    let (mut moves, mut late) = (0, 0);
    for round in 0..rounds {
        for (class, demand) in pool.classes.iter_mut().zip(demands) {
            class.counts.tail_hits += demand * 10 / class.slabs;
            class.counts.evictions += 1;
        }
        if let Some(decided) = rebalancer.decide(&pool) {
            carry_out(&mut pool, &decided);
            moves += 1;
            late += usize::from(round >= rounds / 2);
        }
    }
    (pool.classes.iter().map(|class| class.slabs).collect(), moves, late)
}

#[test]
fn marginal_hits_come_to_rest_and_as_in_cachelib_do_not() {
    let (slabs, moves, late) =
        run_marginal(MarginalHits { min_difference_ratio: 0.5, ..MarginalHits::default() }, 400);
    assert_eq!(slabs.iter().sum::<u64>(), 40);
    assert_eq!(late, 0, "slabs {slabs:?} after {moves} moves");
    assert!(slabs[2] > slabs[1] && slabs[1] > slabs[3] && slabs[3] >= slabs[0], "{slabs:?}");
    let (_, _, late) = run_marginal(MarginalHits::as_in_cachelib(), 400);
    assert!(late > 150, "it moved in {late} of the last 200 rounds");
}

#[test]
fn a_run_reads_as_it_always_did() {
    let mut log = String::new();
    let mut pool = full(&[hit(0, 0, 6), hit(1, 0, 3), hit(2, 0, 1)]);
    pool.classes[1].chunk_bytes = 4 << 10;
    pool.classes[2].chunk_bytes = 1 << 20;
    let mut rebalancer = Rebalancer::new(Strategy::HitsPerSlab(HitsPerSlab::default()));
    for round in 0..6 {
        for (class, hits) in pool.classes.iter_mut().zip([10, 600, 50]) {
            class.counts.hits += hits;
            class.counts.evictions += 3;
        }
        pool.classes[2].counts.allocation_failures += u64::from(round == 3) * 4;
        if let Some(decided) = rebalancer.decide(&pool) {
            log += &format!("{round}: {} to {:?}: {}\n", decided.victim, decided.receiver, decided.reason);
            carry_out(&mut pool, &decided);
        }
    }
    let expected = "\
1: 0 to Some(1): class 0 (1KiB) would have 2 hits per slab with one less, and class 1 (4KiB) has 200
2: 0 to Some(1): class 0 (1KiB) would have 2 hits per slab with one less, and class 1 (4KiB) has 150
3: 0 to Some(2): 4 allocations of class 2 (1MiB) failed, and class 0 (1KiB) would have 3 hits per slab with one less
4: 0 to Some(1): class 0 (1KiB) would have 5 hits per slab with one less, and class 1 (4KiB) has 120
";
    assert_eq!(log, expected);
}
