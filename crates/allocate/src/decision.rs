//! The result of an allocation policy: the grant of each pool, its difference from the present one,
//! its expected outcome, and the reason.

use crate::view::{Pool, View};

/// The allocation of one pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grant {
    /// Memory, in bytes.
    pub memory: u64,
    /// For each of the view's resources, units per second.
    pub resources: Vec<f64>,
}

impl Grant {
    /// The present allocation of `pool`.
    pub fn present(pool: &Pool) -> Self {
        Self { memory: pool.size, resources: pool.grants.clone() }
    }
}

/// The expected performance of a pool with a grant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Misses per request, of memory and flash together.
    pub miss_ratio: f64,
    /// Requests per second that its grants carry; infinite if it needs only memory.
    pub throughput: f64,
}

impl Outcome {
    /// The outcome of `grant` for `pool`, by its curve and its demands.
    pub fn of(pool: &Pool, grant: &Grant) -> Self {
        let misses = pool.misses(grant.memory, &grant.resources);
        Self { miss_ratio: misses.all, throughput: pool.carried(misses, &grant.resources) }
    }
}

/// The smallest move that is told to people, in bytes; others are made all the same.
pub const LEAST_TOLD: u64 = 64 << 10;

/// A transfer of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The pool that gives, by its place in the view; `None` = unallocated memory.
    pub from: Option<usize>,
    /// The pool that receives; `None` = memory that becomes unallocated.
    pub to: Option<usize>,
    /// Bytes.
    pub bytes: u64,
    /// The misses per second that the move saves at the request rates of the view; negative if it
    /// adds misses.
    pub gain: f64,
    /// The reason, in words.
    pub reason: String,
}

/// A promise that no allocation of the view's totals can keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmet {
    /// The pool, by its place in the view.
    pub pool: usize,
    /// The reason, in words, with figures.
    pub reason: String,
}

/// The grant of each pool, and the reasons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One for each pool of the view, in its order.
    pub grants: Vec<Grant>,
    /// The transfers that lead from the present sizes to the grants.
    pub moves: Vec<Move>,
    /// The present outcome of each pool, by its curve.
    pub before: Vec<Outcome>,
    /// The expected outcome of each pool with its grant.
    pub after: Vec<Outcome>,
    /// Promises that cannot be kept.
    pub unmet: Vec<Unmet>,
    /// For each pool the ends of the cliff that its grant lies on, in bytes. A cache that supports
    /// it splits its queue so that both parts behave as queues of these sizes
    /// ([`Split`](crate::talus::Split)). Outcomes are those of split queues. Empty if the policy
    /// splits no queue.
    pub cliffs: Vec<Option<(u64, u64)>>,
    /// True if the reason of a move is what that saves and costs.
    pub is_by_worth: bool,
}

impl Decision {
    /// The decision that leads to `grants`: pairs pools that give memory with pools that receive
    /// it, the largest with the largest, and predicts the outcomes. `reason` returns the reason of
    /// each move.
    ///
    /// # Panics
    /// If there is not exactly one grant for each pool.
    pub fn to(
        view: &View,
        grants: Vec<Grant>,
        reason: impl Fn(Option<&Pool>, Option<&Pool>) -> String,
    ) -> Self {
        let pool = |place: Option<usize>| place.map(|i| &view.pools[i]);
        Self::by_place(view, grants, |from, to| reason(pool(from), pool(to)))
    }

    /// The same, with `reason` taking the places of both pools in the view.
    ///
    /// # Panics
    /// If there is not exactly one grant for each pool.
    pub fn by_place(
        view: &View,
        grants: Vec<Grant>,
        reason: impl Fn(Option<usize>, Option<usize>) -> String,
    ) -> Self {
        Self::by_step(view, grants, |from, to, _| reason(from, to))
    }

    /// The same, with the reasons of a policy that goes by worth: the misses per second that each
    /// move saves and costs. `more` returns words to add, given the places of both pools.
    ///
    /// # Panics
    /// If there is not exactly one grant for each pool.
    pub(crate) fn by_worth(
        view: &View,
        grants: Vec<Grant>,
        more: impl Fn(Option<usize>, Option<usize>) -> String,
    ) -> Self {
        let pool = |place: Option<usize>| place.map(|i| &view.pools[i]);
        let decision = Self::by_step(view, grants, |from, to, step| {
            format!("{}{}", worth(pool(from), pool(to), step), more(from, to))
        });
        Self { is_by_worth: true, ..decision }
    }

    /// The same, with words on the queues that are to be split: `cliffs` has their ends, or is
    /// empty.
    ///
    /// # Panics
    /// If there is not exactly one grant for each pool.
    pub(crate) fn by_worth_on_cliffs(
        view: &View,
        grants: Vec<Grant>,
        cliffs: Vec<Option<(u64, u64)>>,
    ) -> Self {
        let decision = Self::by_worth(view, grants, |from, to| {
            let split = |place: usize| {
                let (a, b) = cliffs.get(place).copied().flatten()?;
                let name = &view.pools[place].name;
                Some(format!("; {name} is on a cliff and is split between {a} and {b} bytes"))
            };
            from.into_iter().chain(to).filter_map(split).collect()
        });
        Self { cliffs, ..decision }
    }

    fn by_step(
        view: &View,
        grants: Vec<Grant>,
        reason: impl Fn(Option<usize>, Option<usize>, Step) -> String,
    ) -> Self {
        assert_eq!(grants.len(), view.pools.len(), "each pool has one grant");
        let present: Vec<Grant> = view.pools.iter().map(Grant::present).collect();
        let outcomes = |grants: &[Grant]| {
            view.pools.iter().zip(grants).map(|(pool, grant)| Outcome::of(pool, grant)).collect::<Vec<_>>()
        };
        let moves = moves(view, &grants, reason);
        Self {
            before: outcomes(&present),
            after: outcomes(&grants),
            moves,
            grants,
            unmet: Vec::new(),
            cliffs: Vec::new(),
            is_by_worth: false,
        }
    }

    /// The decision to leave everything as it is.
    pub fn stay(view: &View) -> Self {
        Self::to(view, view.pools.iter().map(Grant::present).collect(), |_, _| String::new())
    }

    /// Bytes that move between pools.
    pub fn moved_bytes(&self) -> u64 {
        self.moves.iter().map(|step| step.bytes).sum()
    }
}

/// The misses per second that a move saves in the pool that receives, and costs the one that gives.
#[derive(Clone, Copy, Debug)]
struct Step {
    saved: f64,
    lost: f64,
}

/// The reason of a move by what it saves and costs, and how much more a miss of one of the pools
/// counts, by weight or by what it costs.
fn worth(from: Option<&Pool>, to: Option<&Pool>, Step { saved, lost }: Step) -> String {
    match (from, to) {
        (Some(from), Some(to)) => {
            let (more, less) = if to.weight >= from.weight { (to, from) } else { (from, to) };
            let counts = match more.weight / less.weight {
                ratio if ratio < 1.005 || !ratio.is_finite() => String::new(),
                ratio => format!("; a miss in {} counts {ratio:.2} times as much", more.name),
            };
            // Memory that several give and several receive is paired by amounts alone.
            let beside = if to.weight * saved < from.weight * lost {
                "; the moves of this decision pay together"
            } else {
                ""
            };
            format!(
                "saves {saved:.3} misses/s in {}, and costs {lost:.3} in {}{counts}{beside}",
                to.name, from.name
            )
        }
        (None, Some(to)) => format!("nobody had it, and it saves {saved:.3} misses/s in {}", to.name),
        (Some(from), None) => format!("nobody may have what {} gives", from.name),
        (None, None) => String::new(),
    }
}

/// Pairs givers with takers. Memory that is or becomes unallocated is a partner without a pool.
fn moves(
    view: &View,
    grants: &[Grant],
    reason: impl Fn(Option<usize>, Option<usize>, Step) -> String,
) -> Vec<Move> {
    let (mut givers, mut takers) = (Vec::new(), Vec::new());
    for (i, (pool, grant)) in view.pools.iter().zip(grants).enumerate() {
        if grant.memory < pool.size {
            givers.push((pool.size - grant.memory, Some(i)));
        } else if grant.memory > pool.size {
            takers.push((grant.memory - pool.size, Some(i)));
        }
    }
    let sum = |side: &[(u64, Option<usize>)]| side.iter().map(|&(bytes, _)| bytes).sum::<u64>();
    let (given, taken) = (sum(&givers), sum(&takers));
    givers.extend((taken > given).then(|| (taken - given, None)));
    takers.extend((given > taken).then(|| (given - taken, None)));
    givers.sort_unstable_by(|a, b| b.cmp(a));
    takers.sort_unstable_by(|a, b| b.cmp(a));

    let mut sizes: Vec<u64> = view.pools.iter().map(|pool| pool.size).collect();
    let mut moves = Vec::new();
    let (mut giver, mut taker) = (0, 0);
    while giver < givers.len() && taker < takers.len() {
        let bytes = givers[giver].0.min(takers[taker].0);
        let (from, to) = (givers[giver].1, takers[taker].1);
        let mut step = Step { saved: 0.0, lost: 0.0 };
        if let Some(i) = from {
            step.lost = misses_saved(&view.pools[i], sizes[i] - bytes, sizes[i]);
            sizes[i] -= bytes;
        }
        if let Some(i) = to {
            step.saved = misses_saved(&view.pools[i], sizes[i], sizes[i] + bytes);
            sizes[i] += bytes;
        }
        let gain = step.saved - step.lost;
        moves.push(Move { from, to, bytes, gain, reason: reason(from, to, step) });
        givers[giver].0 -= bytes;
        takers[taker].0 -= bytes;
        giver += usize::from(givers[giver].0 == 0);
        taker += usize::from(takers[taker].0 == 0);
    }
    moves
}

/// The misses per second that `pool` saves with `large` rather than `small` bytes.
fn misses_saved(pool: &Pool, small: u64, large: u64) -> f64 {
    pool.request_rate * (pool.curve.miss_ratio(small as f64) - pool.curve.miss_ratio(large as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{MissRatioCurve, Point, Unit};

    fn view(sizes: &[u64]) -> View {
        let pools = sizes.iter().enumerate().map(|(i, &size)| {
            let mut pool = Pool::new(format!("p{i}"), MissRatioCurve::uniform(Unit::Bytes, 1000), size);
            pool.request_rate = 100.0;
            pool
        });
        View { memory: 1000, resources: Vec::new(), pools: pools.collect(), ..View::default() }
    }

    fn to(view: &View, sizes: &[u64]) -> Decision {
        let grants = sizes.iter().map(|&memory| Grant { memory, resources: Vec::new() }).collect();
        Decision::to(view, grants, |from, to| {
            format!(
                "{} to {}",
                from.map_or("nobody", |pool| &pool.name),
                to.map_or("nobody", |pool| &pool.name)
            )
        })
    }

    #[test]
    fn moves_lead_from_what_is_to_what_should_be() {
        let view = view(&[500, 300, 200]);
        let decision = to(&view, &[100, 450, 450]);
        let words: Vec<_> = decision.moves.iter().map(|step| (step.bytes, step.reason.as_str())).collect();
        assert_eq!(words, [(250, "p0 to p2"), (150, "p0 to p1")]);
        assert_eq!(decision.moved_bytes(), 400);
        assert!((decision.after[0].miss_ratio - 0.9).abs() < 1e-12);
    }

    #[test]
    fn memory_that_nobody_had_or_gets_has_no_pool() {
        let grown = to(&view(&[100, 100]), &[300, 200]);
        assert_eq!(
            grown.moves.iter().map(|step| (step.from, step.to)).collect::<Vec<_>>(),
            [(None, Some(0)), (None, Some(1))]
        );
        let shrunk = to(&view(&[100, 100]), &[50, 100]);
        assert_eq!((shrunk.moves[0].to, shrunk.moves[0].bytes), (None, 50));
        assert!((shrunk.moves[0].gain + 5.0).abs() < 1e-9, "100 requests a second miss 5 % more");
    }

    /// The reasons of moves to these sizes, by worth.
    fn reasons(view: &View, sizes: &[u64]) -> Vec<String> {
        let grants = sizes.iter().map(|&memory| Grant { memory, resources: Vec::new() }).collect();
        let decision = Decision::by_worth(view, grants, |_, _| String::new());
        decision.moves.into_iter().map(|step| step.reason).collect()
    }

    #[test]
    fn reasons_are_of_the_whole_move_and_not_of_its_first_bytes() {
        let mut view = view(&[500, 300]);
        // A cliff: the first 100 bytes more save nothing.
        let points = [(399, 1.0), (400, 0.0)].map(|(size, miss_ratio)| Point { size, miss_ratio });
        view.pools[1].curve = MissRatioCurve::new(Unit::Bytes, points).unwrap().into();
        let saved = reasons(&view, &[300, 500]);
        assert!(saved[0].starts_with("saves ") && saved[0].ends_with("costs 20.000 in p0"), "{saved:?}");
        let saved: f64 = saved[0].split(' ').nth(1).unwrap().parse().unwrap();
        assert!(saved > 20.0, "the cliff is climbed");
        view.pools[0].weight = 3.5;
        let counts = "; a miss in p0 counts 3.50 times as much";
        assert!(reasons(&view, &[300, 500])[0].ends_with(counts));
        assert!(
            reasons(&view, &[450, 350])[0]
                .ends_with(&format!("{counts}; the moves of this decision pay together"))
        );
    }

    #[test]
    fn staying_moves_nothing() {
        let view = view(&[400, 600]);
        let decision = Decision::stay(&view);
        assert!(decision.moves.is_empty());
        assert_eq!(decision.before, decision.after);
    }
}
