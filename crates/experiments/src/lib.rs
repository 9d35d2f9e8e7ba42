//! The papers' figures as experiments, each with criteria that were seen to be reachable, and the
//! experiments that go beyond the papers.
//!
//! | family | subject |
//! |---|---|
//! | [`hare`] | HARE's allocations, by model (FAST '26) |
//! | [`dynamics`] | HARE's applications over time, by simulation (FAST '26); all policies on traces |
//! | [`holpaca`] | HOLPACA's throughput and service levels (ICPE '26) |
//! | [`cliffhanger`] | hill climbing, cliffs, partitions of one cache (NSDI '16) |
//! | [`curves`] | how well curves are learnt |
//! | [`live`] | real processes, in real time |
//!
//! An experiment is a constant beside its code, and one line in the list of its family. It runs on
//! the simulator, or on the models of the crates below.
//!
//! | module | contents |
//! |---|---|
//! | [`report`] | the findings of an experiment: criteria with verdicts, tables, charts |
//! | [`runner`] | runs experiments in parallel |
//! | [`command`] | `millpond experiment list` and `run` |

#![forbid(unsafe_code)]

pub mod cliffhanger;
pub mod command;
pub mod curves;
pub mod dynamics;
pub mod expected;
mod experiment;
pub mod hare;
pub mod holpaca;
pub mod live;
pub mod report;
pub mod runner;
mod zipf;

use experiment::median;
pub use experiment::{CLIFFHANGER, Context, Experiment, HARE, HOLPACA, OURS};

/// All experiments that run on the simulator or on models, family by family.
pub const ALL: [&[Experiment]; 5] = [
    hare::EXPERIMENTS,
    dynamics::EXPERIMENTS,
    holpaca::EXPERIMENTS,
    cliffhanger::EXPERIMENTS,
    curves::EXPERIMENTS,
];

/// All of [`ALL`] in the order of their names: by letters, then by number.
pub fn all() -> Vec<Experiment> {
    let mut all: Vec<Experiment> = ALL.concat();
    all.sort_by_key(|experiment| order(experiment.name));
    all
}

/// Experiments that take seconds at most and need no trace. `millpond experiment run quick` runs
/// them, and so do the tests, with three seeds.
pub const QUICK: [&str; 8] = ["C1", "H1", "H2", "H3", "H4", "H6", "H11", "H13"];

fn order(name: &str) -> (&str, u32) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (letters, number) = name.split_at(digits);
    (letters, number.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_order() {
        let all = all();
        for pair in all.windows(2) {
            assert!(order(pair[0].name) < order(pair[1].name), "{} and {}", pair[0].name, pair[1].name);
        }
        for experiment in &all {
            let Experiment { name, paper, figure, title, .. } = *experiment;
            assert!(order(name).1 < 1000, "{name} has no number");
            assert!(![paper, figure, title].contains(&""), "{name} does not say what it shows");
        }
    }

    #[test]
    fn parts_have_seeds_of_their_own() {
        let context = Context::new(1, None);
        assert_ne!(context.seed(0), context.seed(1));
        assert_eq!(context.seed(3), Context::new(1, None).seed(3));
        assert_ne!(context.seed(0), Context::new(2, None).seed(0));
    }
}
