use base::rng::{RngExt, seeded};
use proptest::prelude::*;
use slab::SizeClasses;

use super::choice::{Earning, Programme};
use super::histogram::useful_sizes;
use super::*;

const FULL: Range = Range { min_bytes: 64, max_bytes: SLAB_BYTES as u32, most_classes: 48 };

fn default_sizes() -> Vec<u32> {
    SizeClasses::by_factor(1.25, 64, SLAB_BYTES as u32).expect("valid").sizes().to_vec()
}

/// The least slack of all sets of useful sizes of `range`, tried one by one.
fn least_by_trial(items: &SizeHistogram, range: &Range, step: f64) -> Option<f64> {
    let in_range = |size: &&u32| (range.min_bytes..=range.max_bytes).contains(*size);
    let sizes: Vec<u32> = useful_sizes().iter().filter(in_range).copied().collect();
    let (last, others) = sizes.split_last()?;
    let sets = (0_u32..1 << others.len()).filter(|set| set.count_ones() < range.most_classes as u32);
    let slack = sets.filter_map(|set| {
        let chosen = others.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, size)| *size);
        let chosen: Vec<u32> = chosen.chain([*last]).collect();
        let from_min = chosen[0] == sizes[0] || f64::from(chosen[0]) <= f64::from(range.min_bytes) * step;
        let steps = chosen.windows(2).all(|pair| f64::from(pair[1]) <= f64::from(pair[0]) * step);
        (from_min && steps).then(|| items.slack(&chosen).bytes())
    });
    slack.reduce(f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_choice_is_the_best_of_all(
        seen in prop::collection::vec((0_u32..5 << 20, 1_u64..100_000), 0..40),
        min in 290_000_u32..1 << 20,
        most_classes in 1_usize..8,
        step in 1.1_f64..4.0,
    ) {
        let range = Range { min_bytes: min, max_bytes: SLAB_BYTES as u32, most_classes };
        let mut items = SizeHistogram::new();
        seen.iter().for_each(|(bytes, count)| items.add(*bytes, *count));
        let solved = Programme::new(&items, &range).solve(most_classes, step, &Earning { share: 0.0, bytes: 0.0 });
        let best = least_by_trial(&items, &range, step);
        prop_assert_eq!(solved.is_some(), best.is_some());
        if let (Some(sizes), Some(best)) = (solved, best) {
            prop_assert!(sizes.len() <= most_classes && sizes.is_sorted_by(|a, b| a < b), "{:?}", sizes);
            let found = items.slack(&sizes).bytes();
            prop_assert!((found - best).abs() <= 1e-9 * best.abs() + 1e-3, "{found} is not {best}: {sizes:?}");
        }
    }

    #[test]
    fn no_other_number_of_classes_is_worth_more(
        seen in prop::collection::vec((0_u32..5 << 20, 1_u64..1_000), 0..40),
        min_bytes in 4_000_u32..1 << 20,
        most_classes in 1_usize..16,
        step in 1.1_f64..4.0,
        price in 0.0_f64..1e8,
    ) {
        let range = Range { min_bytes, max_bytes: SLAB_BYTES as u32, most_classes };
        let mut items = SizeHistogram::new();
        seen.iter().for_each(|(bytes, count)| items.add(*bytes, *count));
        let programme = Programme::new(&items, &range);
        let solve = |most, bytes| programme.solve(most, step, &Earning { share: 0.0, bytes });
        let priced = |sizes: &[u32]| items.slack(sizes).bytes() + price * sizes.len() as f64;
        let best = (1..=most_classes).filter_map(|most| solve(most, 0.0)).map(|sizes| priced(&sizes));
        match (solve(most_classes, price).map(|sizes| priced(&sizes)), best.reduce(f64::min)) {
            (Some(found), Some(best)) => prop_assert!(found <= best * (1.0 + 1e-9) + 1e-3, "{found} is not {best}"),
            (found, best) => prop_assert_eq!(found, best),
        }
    }

    #[test]
    fn any_choice_holds_what_may_come(
        seen in prop::collection::vec((0_u32..5 << 20, 1_u64..100_000), 0..60),
        most_classes in 1_usize..=255,
        min_bytes in 64_u32..2_000,
        max_bytes in 2_000_u32..=4 << 20,
    ) {
        let mut items = SizeHistogram::new();
        seen.iter().for_each(|(bytes, count)| items.add(*bytes, *count));
        let sizes = choose(&items, &Range { min_bytes, max_bytes, most_classes });
        prop_assert!(sizes.len() <= most_classes && sizes[0] >= min_bytes && *sizes.last().expect("one") >= max_bytes);
        // They are what a list of classes makes of them, and so what a pool would have.
        let classes = SizeClasses::by_list(&sizes).expect("in range");
        prop_assert_eq!(classes.sizes(), &sizes[..]);
        if most_classes >= 24 {
            let steps = sizes.windows(2).all(|pair| f64::from(pair[1]) <= 2.0 * f64::from(pair[0]));
            prop_assert!(steps && sizes[0] <= 2 * min_bytes + 8, "{:?}", sizes);
        }
    }
}

#[test]
fn few_sizes_have_no_slack_but_the_ends_of_slabs() {
    let mut items = SizeHistogram::new();
    for (bytes, count) in [(136, 700_000), (1_048, 90_000), (20_960, 5_000)] {
        items.add(bytes, count);
    }
    let sizes = choose(&items, &FULL);
    let slack = items.slack(&sizes);
    assert!(slack.share() < 0.001, "{:.4} of {sizes:?}", slack.share());
    assert!(items.slack(&default_sizes()).share() > 0.05);
    // What saves next to nothing is not there: three sizes, and the steps of two between them and
    // up to the largest.
    assert!(sizes.len() <= 24, "{sizes:?}");
}

#[test]
fn a_broad_mix_has_half_the_slack_with_as_many_classes() {
    let mut rng = seeded(5);
    let mut items = SizeHistogram::new();
    // Log-normal around 400 bytes, the sum of uniforms for a normal.
    for _ in 0..100_000 {
        let normal: f64 = (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0;
        items.add((400.0 * (0.9 * normal).exp()) as u32 + 20, 100);
    }
    let before = items.slack(&default_sizes()).share();
    assert_eq!(default_sizes().len(), 47, "what `millpond bench slack` takes for as many");
    let range = Range { most_classes: default_sizes().len(), ..FULL };
    let after = items.slack(&choose(&items, &range)).share();
    assert!((0.08..0.13).contains(&before) && after < before / 2.0, "{before:.3} and {after:.3}");
}

#[test]
fn slack_counts_the_ends_of_slabs() {
    let mut items = SizeHistogram::new();
    items.add((SLAB_BYTES / 2 + 1) as u32, 3);
    // Each takes a whole slab.
    let slack = items.slack(&[2 << 20, 3 << 20, 4 << 20]);
    assert_eq!(
        (slack.chunk_bytes, slack.item_bytes),
        ((3 * SLAB_BYTES) as f64, (3 * (SLAB_BYTES / 2 + 1)) as f64)
    );
    assert_eq!(items.slack(&[2 << 20]), Slack::default());
    assert_eq!((items.items_between(2 << 20, 4 << 20), items.items_between(0, 2 << 20)), (3, 0));
    assert_eq!(items.items_between(4 << 20, 64), 0);
}

#[test]
fn ageing_forgets_by_halves_and_keeps_mean_sizes() {
    let mut items = SizeHistogram::new();
    items.add(100, 1_000);
    items.add(5_000, 1);
    items.age();
    assert_eq!((items.items(), items.slack(&[104]).item_bytes), (500, 50_000.0));
    items.add(5_000, 500);
    assert_eq!(items.items(), 1_000);
    (0..20).for_each(|_| items.age());
    assert_eq!(items, SizeHistogram::new());
}

#[test]
fn sizes_change_only_for_a_gain_and_on_evidence() {
    let tuning = Tuning { least_items: 100_000, ..Tuning::default() };
    let mut items = SizeHistogram::new();
    items.add(300, 99_999);
    let few = tuning.decide(&items, &default_sizes(), &FULL);
    assert!(!few.applies && few.reason.contains("99999 items"), "{}", few.reason);
    items.add(300, 1);
    let decided = tuning.decide(&items, &default_sizes(), &FULL);
    assert!(decided.applies && decided.now.share() > 0.02, "{}", decided.reason);
    // Once changed, there is nothing to gain.
    let again = tuning.decide(&items, &decided.sizes, &FULL);
    assert!(!again.applies && again.reason.contains("2.0 %"), "{}", again.reason);
    let greedy = Tuning { least_gain: 0.9, ..tuning };
    assert!(!greedy.decide(&items, &default_sizes(), &FULL).applies);
}
