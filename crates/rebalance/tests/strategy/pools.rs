//! Decisions about whole pools: what they give back, and limits that move between them.

use millpond_rebalance::strategy::{
    ClassView, HitsPerSlab, LimitMove, Optimizer, OptimizerConfig, PoolSize, PoolView, Rebalancer, Shrink,
    Strategy, resize,
};

use super::{SLAB_BYTES, before, ends, full, hit, tail};

#[test]
fn pools_over_their_limit_shrink_by_a_few_slabs_per_run() {
    let pool = |number, slabs: u64, limit: Option<u64>| PoolSize {
        number,
        bytes: slabs * SLAB_BYTES,
        limit_bytes: limit,
    };
    let mib = |mib: u64| Some(mib << 20);
    let pools = [
        pool(0, 10, mib(40)),
        pool(1, 11, mib(40)),
        pool(2, 30, mib(40)),
        pool(3, 99, None),
        pool(4, 3, mib(0)),
        // Every byte counts.
        pool(5, 10, mib(39)),
    ];
    let shrinks: Vec<_> =
        resize(&pools, 5 * SLAB_BYTES).into_iter().map(|shrink| (shrink.pool, shrink.bytes >> 20)).collect();
    assert_eq!(shrinks, [(1, 4), (2, 20), (4, 12), (5, 1)]);
    assert_eq!(resize(&pools, 0), []);
    let reason = "pool 2 is 80MiB over its limit".to_owned();
    assert_eq!(resize(&pools[2..3], 7), [Shrink { pool: 2, bytes: 7, reason }]);
}

#[test]
fn the_strategy_chooses_who_shrinks() {
    let pool = full(&[hit(0, 100, 20), hit(1, 900_000, 30), hit(2, 0, 1)]);
    let victim = |strategy| {
        let mut rebalancer = Rebalancer::new(strategy);
        let blind = rebalancer.victim_for_resizing(&pool).map(|decided| decided.victim);
        assert_eq!(blind, Some(1), "with nothing to compare, who has most");
        rebalancer.decide(&before(&pool));
        let decided = rebalancer.victim_for_resizing(&pool).expect("there are slabs");
        assert!(decided.receiver.is_none() && decided.reason.starts_with("the pool is over its limit, and "));
        decided.victim
    };
    assert_eq!(victim(Strategy::OnFailures), 1);
    assert_eq!(victim(Strategy::HitsPerSlab(HitsPerSlab::default())), 0);
    let only = full(&[hit(0, 100, 1), hit(1, 1, 0)]);
    let last = Rebalancer::new(Strategy::OnFailures).victim_for_resizing(&only);
    assert_eq!(ends(last), Some((0, None)), "here the last slab may go");
    assert_eq!(Rebalancer::new(Strategy::OnFailures).victim_for_resizing(&full(&[])), None);
}

fn numbered(number: u16, classes: &[ClassView]) -> PoolView {
    let mut pool = PoolView { number, ..full(classes) };
    pool.classes.iter_mut().for_each(|class| class.counts.evictions = 5);
    pool
}

fn optimize(config: OptimizerConfig, pools: &[PoolView]) -> Option<LimitMove> {
    let mut optimizer = Optimizer::new(config);
    let first: Vec<_> = pools.iter().map(before).collect();
    assert_eq!(optimizer.decide(&first), None, "the first round only looks");
    optimizer.decide(pools)
}

#[test]
fn limits_move_toward_the_best_class_of_any_pool() {
    let pools = [
        numbered(0, &[tail(0, 300), tail(1, 300)]),
        numbered(1, &[tail(0, 0), tail(1, 500)]),
        numbered(2, &[tail(0, 10), tail(1, 20)]),
    ];
    let expected = LimitMove {
        victim: 2,
        receiver: 1,
        bytes: SLAB_BYTES,
        reason: "pool 2 has 20 hits in its last slab, and pool 1 has 500".to_owned(),
    };
    let ends = |pools: &[PoolView]| {
        optimize(OptimizerConfig::default(), pools).map(|decided| (decided.victim, decided.receiver))
    };
    assert_eq!(optimize(OptimizerConfig::default(), &pools), Some(expected));

    let mut idle = pools.clone();
    idle[2].classes.iter_mut().for_each(|class| class.counts.evictions = 0);
    assert_eq!(ends(&idle), Some((0, 1)), "who evicts nothing gives nothing");

    let mut small = pools.clone();
    small[2].classes.iter_mut().for_each(|class| class.slabs = u64::from(class.number));
    assert_eq!(ends(&small), Some((0, 1)), "a pool's last slab stays");

    let mut free = pools.clone();
    free[1].free_slabs = 1;
    assert_eq!(ends(&free), Some((2, 1)));
    free[1].classes[0].free_chunks = SLAB_BYTES / 1_024;
    assert_eq!(ends(&free), Some((2, 0)), "two free slabs are enough for now");

    let even = [numbered(0, &[tail(0, 100)]), numbered(1, &[tail(0, 109)])];
    assert_eq!(ends(&even), None, "below the thresholds");
    let eager =
        OptimizerConfig { min_difference: 0, min_difference_ratio: 0.0, ..OptimizerConfig::default() };
    assert!(optimize(eager, &even).is_some());
    assert_eq!(ends(&pools[..1]), None);
    assert_eq!(ends(&[]), None);
}
