//! The experiments that take no time, with three seeds: what they show is checked at each change,
//! and not only when somebody runs them.

use millpond_experiments::expected::surprises;
use millpond_experiments::{Context, QUICK, all};

#[test]
fn quick_experiments_miss_just_what_is_listed_with_three_seeds() {
    let mut found = Vec::new();
    for seed in [1, 2, 3] {
        for experiment in all().iter().filter(|one| QUICK.contains(&one.name)) {
            let report = (experiment.run)(&mut Context::new(seed, None));
            assert!(!report.criteria().is_empty(), "{} demands nothing", experiment.name);
            let names = surprises(experiment.name, report.criteria());
            found.extend(names.into_iter().map(|name| format!("seed {seed}: {name}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
