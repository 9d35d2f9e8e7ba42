//! Rounds in which contestants take turns.

use anyhow::Result;
use serde::Serialize;

use super::{Measurement, load};
use crate::child::{Child, Measured, Plan, Task};
use crate::contestant::Name;
use crate::machine::{Patience, Watch};
use crate::report::{Middle, ratio};

/// The results of one contestant in all rounds of a measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(super) name: Name,
    /// Millions of operations per second.
    pub(super) mops: Middle,
    /// Processor time of an operation, in nanoseconds.
    pub(super) cpu_nanos: Middle,
    /// Millpond's throughput over this one's, of each round. `None` for Millpond and for nothing.
    pub(super) millpond_is: Option<Middle>,
    /// The least share of operations that found something, of all rounds.
    pub(super) hit_ratio: f64,
    /// The share of the processors that others took.
    pub(super) foreign: Middle,
}

impl Row {
    /// Throughput, the ratio where there is one, and a mark where not everything was found.
    pub(super) fn show(&self) -> String {
        let mut text = self.mops.show(2);
        if let Some(ratio) = self.millpond_is {
            text += &format!(", {} x", ratio.show(2));
        }
        if self.hit_ratio < 0.999 {
            text += &format!(", only {:.1} % done", self.hit_ratio * 100.0);
        }
        text
    }
}

/// One turn.
struct Turn {
    measured: Measured,
    foreign: f64,
}

/// Measures `plan` on all children, `count` times.
pub(super) fn rounds(
    children: &mut [Child],
    plan: Plan,
    count: usize,
    patience: &mut Patience,
) -> Result<Measurement> {
    let mut turns: Vec<Vec<Turn>> = children.iter().map(|_| Vec::new()).collect();
    for round in 0..count {
        for turn in 0..children.len() {
            let i = (round + turn) % children.len();
            patience.wait();
            let watch = Watch::start(&[children[i].pid()]);
            let measured = children[i].measure(plan)?;
            turns[i].push(Turn { measured, foreign: watch.stop().foreign });
        }
    }
    let mops = |turns: &[Turn]| turns.iter().map(|turn| turn.measured.mops()).collect::<Vec<f64>>();
    let ours = children.iter().position(|child| child.name() == Name::Millpond).map(|i| mops(&turns[i]));
    let rows = children.iter().zip(&turns).map(|(child, turns)| {
        let compared = !matches!(child.name(), Name::Nothing | Name::Millpond);
        let own = mops(turns);
        Row {
            name: child.name(),
            millpond_is: ours.as_ref().filter(|_| compared).map(|ours| ratio(ours, &own)),
            mops: Middle::of(own),
            cpu_nanos: Middle::of(turns.iter().map(|turn| turn.measured.cpu_nanos_each())),
            hit_ratio: turns.iter().map(|turn| turn.measured.hit_ratio()).fold(1.0, f64::min),
            foreign: Middle::of(turns.iter().map(|turn| turn.foreign)),
        }
    });
    // Peers have no batched find: their row is the same as for single finds.
    let rows = rows
        .filter(|row| plan.task != Task::FindMany || matches!(row.name, Name::Millpond | Name::Nothing))
        .collect();
    Ok(Measurement { plan, load_average: load(), rows })
}
