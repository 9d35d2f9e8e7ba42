use proptest::prelude::*;

use super::*;

fn curve(points: &[(u64, f64)]) -> MissRatioCurve {
    let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
    MissRatioCurve::new(Unit::Bytes, points).unwrap()
}

fn any_curve() -> impl Strategy<Value = MissRatioCurve> {
    proptest::collection::btree_map(1_u64..10_000, 0.0..=1.0_f64, 1..40).prop_map(|points| {
        let points = points.into_iter().map(|(size, miss_ratio)| Point { size, miss_ratio });
        MissRatioCurve::new(Unit::Bytes, points).unwrap()
    })
}

#[test]
fn a_cliff_is_where_the_hull_lies_below() {
    let curve = curve(&[(100, 0.5), (200, 0.49), (300, 0.48), (310, 0.1), (400, 0.1)]);
    let [cliff] = curve.cliffs(0.02)[..] else { panic!("{:?}", curve.cliffs(0.02)) };
    assert_eq!((cliff.from, cliff.to, cliff.at), (100, 310, 300));
    assert!((cliff.depth - (0.48 - (0.5 - 0.4 * 200.0 / 210.0))).abs() < 1e-9);
    assert!(curve.cliffs(0.5).is_empty());
    assert!(MissRatioCurve::uniform(Unit::Bytes, 100).cliffs(0.0).is_empty());
}

#[test]
fn a_merge_needs_one_unit_and_some_weight() {
    let (bytes, items) = (MissRatioCurve::uniform(Unit::Bytes, 10), MissRatioCurve::uniform(Unit::Items, 10));
    assert_eq!(MissRatioCurve::merge([(&bytes, 1.0), (&items, 1.0)]), Err(CurveError::Units));
    assert_eq!(MissRatioCurve::merge([(&bytes, 0.0)]), Err(CurveError::Empty));
}

#[test]
fn ageing_lowers_the_weight_and_nothing_else() {
    let known = Confidence { keys: 5, samples: 100.0, requests: 1000.0, seen: 4000, error: 0.01 };
    let aged = curve(&[(10, 0.5)]).with_confidence(known).aged(0.5);
    let expected = Confidence { samples: 50.0, requests: 500.0, ..known };
    assert_eq!(aged.confidence(), Some(expected));
    assert_eq!(aged.points(), curve(&[(10, 0.5)]).points());
}

#[test]
fn it_is_linear_between_points_and_flat_beyond_the_last() {
    let curve = curve(&[(10, 0.5), (20, 0.1)]);
    assert_eq!(curve.miss_ratio(5.0), 0.75);
    assert!((curve.miss_ratio(15.0) - 0.3).abs() < 1e-12);
    assert_eq!(curve.miss_ratio(20.0), 0.1);
    assert_eq!(curve.miss_ratio(1e12), 0.1);
    assert_eq!(curve.miss_ratio(-1.0), 1.0);
}

#[test]
fn noise_does_not_make_it_rise() {
    let curve = curve(&[(10, 0.5), (20, 0.6), (30, 0.2)]);
    assert_eq!(curve.miss_ratio(20.0), 0.5);
}

#[test]
fn one_more_unit_saves_what_the_slope_to_the_right_says() {
    let curve = curve(&[(10, 0.5), (20, 0.1)]);
    assert!((curve.gain_per_unit(0.0) - 0.05).abs() < 1e-12);
    assert!((curve.gain_per_unit(10.0) - 0.04).abs() < 1e-12);
    assert_eq!(curve.gain_per_unit(20.0), 0.0);
}

#[test]
fn the_hull_spans_a_cliff() {
    let cliff = curve(&[(100, 0.9), (500, 0.9), (600, 0.1), (700, 0.1)]);
    let hull = cliff.hull();
    assert_eq!(hull.points().iter().map(|point| point.size).collect::<Vec<_>>(), [0, 600, 700]);
    for size in 0..800 {
        assert!(hull.miss_ratio(f64::from(size)) <= cliff.miss_ratio(f64::from(size)) + 1e-12);
    }
}

#[test]
fn points_that_are_no_curve_are_refused_by_name() {
    let refuse = |points: &[(u64, f64)]| {
        let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        MissRatioCurve::new(Unit::Bytes, points).unwrap_err().to_string()
    };
    assert_eq!(refuse(&[]), "a curve needs at least one point");
    assert_eq!(refuse(&[(5, 1.5)]), "the miss ratio 1.5 at size 5 is not between 0 and 1");
    assert_eq!(refuse(&[(5, 0.5), (5, 0.4)]), "the size 5 does not exceed the size before it, 5");
    assert!(refuse(&[(5, f64::NAN)]).contains("NaN"));
}

proptest! {
    #[test]
    fn a_merge_is_the_weighted_mean_everywhere(a in any_curve(), b in any_curve(), share in 0.01..0.99_f64, size in 0.0..12_000.0_f64) {
        let merged = MissRatioCurve::merge([(&a, share), (&b, 1.0 - share)]).unwrap();
        let mean = share * a.miss_ratio(size) + (1.0 - share) * b.miss_ratio(size);
        prop_assert!((merged.miss_ratio(size) - mean).abs() < 1e-9);
    }

    #[test]
    fn scaling_up_moves_what_is_missed_to_larger_sizes(curve in any_curve(), factor in 1.0..50.0_f64) {
        let scaled = curve.scaled(Unit::Bytes, factor);
        for point in curve.points() {
            let there = scaled.miss_ratio((point.size as f64 * factor).round());
            prop_assert!((there - point.miss_ratio).abs() < 1e-9);
        }
    }

    #[test]
    fn thinning_keeps_ends_and_some_of_the_points(curve in any_curve(), points in 2_usize..20) {
        let thin = curve.thinned(points);
        prop_assert_eq!(thin.points().len(), points.min(curve.points().len()));
        prop_assert!(thin.points().iter().all(|point| curve.points().contains(point)));
        prop_assert_eq!(thin.points()[0], curve.points()[0]);
        prop_assert_eq!(thin.max_size(), curve.max_size());
    }

    #[test]
    fn a_smooth_curve_keeps_its_points_and_does_not_rise(curve in any_curve()) {
        let smooth = curve.smooth();
        for point in curve.points() {
            prop_assert!((smooth.value(point.size as f64) - point.miss_ratio).abs() < 1e-9);
        }
        let values: Vec<f64> = (0..2_000).map(|i| smooth.value(f64::from(i) * 5.0)).collect();
        prop_assert!(values.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9));
    }

    #[test]
    fn a_gain_is_what_the_slope_adds_up_to(curve in any_curve(), size in 0_u32..9_000, more in 1_u32..3_000) {
        let sum: f64 = (size..size + more).map(|at| curve.gain_per_unit(f64::from(at))).sum();
        prop_assert!((curve.gain(f64::from(size), f64::from(more)) - sum).abs() < 1e-6);
    }
}

#[test]
fn the_size_for_a_miss_ratio_is_the_smallest_that_has_it() {
    let curve = MissRatioCurve::new(
        Unit::Items,
        [(100, 0.6), (300, 0.2), (400, 0.2)].map(|(size, miss_ratio)| Point { size, miss_ratio }),
    )
    .unwrap();
    assert_eq!(
        [1.0, 0.8, 0.6, 0.4, 0.2].map(|ratio| curve.size_for(ratio)),
        [0, 50, 100, 200, 300].map(Some)
    );
    assert_eq!(curve.size_for(0.19), None);
    let doubled = curve.resized(|size| 2 * size + 10);
    assert_eq!(doubled.size_for(0.4), Some(410));
    assert_eq!(doubled.miss_ratio(0.0), 1.0);
}

proptest! {
    #[test]
    fn an_adjusted_curve_is_the_curve_through_all_its_sizes(
        curve in any_curve(),
        mut further in proptest::collection::vec(0..12_000_u64, 0..8),
        offset in -0.5..0.5_f64,
    ) {
        further.sort_unstable();
        let adjusted = curve.adjusted(&further, |size, missed| missed + offset * size / 12_000.0);
        let own = curve.points().iter().map(|point| point.size);
        let mut sizes: Vec<u64> = own.chain(further).filter(|&size| size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let points = sizes.into_iter().map(|size| {
            let missed = curve.miss_ratio(size as f64) + offset * size as f64 / 12_000.0;
            Point { size, miss_ratio: missed.clamp(0.0, 1.0) }
        });
        let expected = MissRatioCurve::new(Unit::Bytes, [curve.points()[0]].into_iter().chain(points)).unwrap();
        prop_assert_eq!(adjusted.points().len(), expected.points().len());
        for (a, b) in adjusted.points().iter().zip(expected.points()) {
            prop_assert_eq!(a.size, b.size);
            prop_assert!((a.miss_ratio - b.miss_ratio).abs() < 1e-9, "{:?} and {:?}", a, b);
        }
    }
}
