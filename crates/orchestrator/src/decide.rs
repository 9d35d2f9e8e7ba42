//! A policy's decision about the pools of a node, and its view of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use allocate::cost::{self, Objective};
use allocate::decision::LEAST_TOLD;
use allocate::guard::{self, Aim, Guarded, Rails};
use allocate::pace::{Idle, Pace};
use allocate::registry::{Entry, Registered};
use allocate::{Decision, Place, Policy, Pool, View, partition};
use curve::MissRatioCurve;
use serde::{Deserialize, Serialize};

use crate::member::{Member, PoolState};
use crate::members::OnNode;
use crate::{MILLI, Nanos};

/// One byte in this many of the memory of a node is for what grows beside pools: index,
/// connections.
const GROWTH_PART: u64 = 32;
/// A pool has filled what it has if all but one byte in this many is used; until one has, nothing
/// is decided.
const FILLED_PART: u64 = 8;
/// A pool of which nothing is known has at least one byte in this many, and then up to twice what
/// it has filled.
const BEGIN_PART: u64 = 64;
/// The time for which a pool keeps what it came with while its curve is not known.
const NEW: Nanos = 120_000 * MILLI;

/// The state of a pool's curve: known, known soon, or perhaps never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    Soon,
    No,
}

/// A decision about the pools of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decided {
    /// The node.
    pub node: String,
    /// The memory that its pools can have together, in bytes.
    pub memory_bytes: u64,
    /// True if a pool had filled what it has, so that the policy was asked.
    pub is_short: bool,
    /// The reason why nothing moves; `None` if memory does.
    #[serde(skip)]
    pub idle: Option<Idle>,
    /// The moves, each with its reason.
    pub moves: Vec<Move>,
    /// All pools of the instances that answered.
    pub pools: Vec<DecidedPool>,
    /// Bounds and promises that cannot be kept, in words.
    pub unmet: Vec<String>,
}

impl Decided {
    /// The memory that all moves together move, in bytes.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moves.iter().map(|step| step.bytes).fold(0, u64::saturating_add)
    }
}

/// A move of memory that was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The pool that gives, as `instance/pool`; `None` for memory that nobody had.
    pub from: Option<String>,
    /// The pool that receives; `None` for memory that nobody has any more.
    pub to: Option<String>,
    /// Bytes.
    pub bytes: u64,
    /// The misses per second that the move saves, as predicted.
    pub saved_misses_per_sec: f64,
    /// The reason, in words.
    pub reason: String,
}

/// A pool in a decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedPool {
    /// `instance/pool`.
    pub name: Arc<str>,
    /// Its grant before and since, in bytes.
    pub before_bytes: u64,
    /// In bytes.
    pub granted_bytes: u64,
    /// The memory that it uses, in bytes.
    pub used_bytes: u64,
    /// Reads per second.
    pub reads_per_sec: f64,
    /// The miss ratio since the last round.
    pub missed: Option<f64>,
    /// The one that was predicted for that time, if the pool had its grant.
    pub predicted: Option<f64>,
    /// The one that is predicted from now on; `None` if its curve is not known.
    pub expected: Option<f64>,
    /// The least that it may be granted, in bytes.
    pub floor_bytes: u64,
    /// Requests per second that it is promised; 0 = none.
    pub promised_per_sec: f64,
    /// The mean cost of a miss, in seconds; `None` if it is not known.
    pub miss_cost_secs: Option<f64>,
    /// In decisions that are kept: the mean miss ratio in the rounds since in which it had this
    /// grant; `None` if there was none.
    pub missed_since: Option<f64>,
    /// Its curve when this was decided, if it was known.
    #[serde(skip)]
    pub curve: Option<Arc<MissRatioCurve>>,
}

/// Decides about a node, one time after the other.
pub(crate) struct Decider {
    policy: Guarded<Registered>,
    /// The aim of the policy by curves. `None`: it divides memory by another rule.
    aim: Option<Aim>,
    objective: Objective,
    /// The progress of measuring what pools miss with the memory that they have, until this time.
    pace: Pace,
    last: Option<Nanos>,
}

impl Decider {
    pub(crate) fn new(entry: &'static Entry, rails: &Rails, objective: Objective) -> Self {
        // Nodes and instances are the fleet's own.
        let policy = Guarded::new(entry.registered(), rails.clone().for_aim(entry.aim));
        Self { policy, aim: entry.aim, objective, pace: Pace::default(), last: None }
    }

    /// Decides about the pools of those instances of the node that answered, and notes what was
    /// decided in them. `memory` is what all of these together may have.
    pub(crate) fn decide(&mut self, node: &str, members: &mut OnNode, memory: u64, now: Nanos) -> Decided {
        let secs = self.last.replace(now).map_or(0.0, |last| now.saturating_sub(last) as f64 / 1e9);
        let pools = members.values_mut().filter(|member| member.is_present);
        let compared = pools.flat_map(|member| member.pools.values_mut()).map(PoolState::compare);
        if compared.fold(false, |is_surprised, one| is_surprised | one) {
            self.pace.forget();
        }
        let here = || members.values().filter(|member| member.is_present);
        let overhead = here().map(Member::overhead).fold(0, u64::saturating_add);
        let memory_bytes = without_growth(memory.saturating_sub(overhead));
        let is_steady = here().flat_map(|member| member.pools.values()).all(|pool| pool.is_steady);
        let (view, mut unmet) = self.view(members, memory_bytes, now);
        // An instance cannot use what another one leaves, so one that has filled what it has is
        // enough.
        let is_filled = |pool: &Pool| pool.size > 0 && pool.used >= pool.size - pool.size / FILLED_PART;
        let is_short = view.pools.iter().any(is_filled);
        self.pace.pass(secs, is_steady);
        let is_paced = self.pace.has_settled() || !guard::possible(&view, &Decision::stay(&view).grants);
        let decision = if is_short && is_paced { self.policy.decide(&view) } else { self.policy.stay(&view) };
        self.pace.decided(&view, &decision);
        let full = |pool: usize| view.pools[pool].name.to_string();
        unmet.extend(decision.unmet.iter().map(|unmet| unmet.reason.clone()));
        let moves = decision.moves.iter().filter(|step| step.bytes >= LEAST_TOLD).map(|step| Move {
            from: step.from.map(full),
            to: step.to.map(full),
            bytes: step.bytes,
            saved_misses_per_sec: step.gain,
            reason: step.reason.clone(),
        });
        let moves = moves.collect();
        let pools = note(members, &view, &decision);
        let idle = Idle::of(secs > 0.0, is_short, is_paced, &decision);
        Decided { node: node.to_owned(), memory_bytes, is_short, idle, moves, pools, unmet }
    }

    /// The pools of those instances that answered, in their order, with this memory together, and
    /// what cannot be had, in words.
    fn view(&mut self, members: &OnNode, memory: u64, now: Nanos) -> (View, Vec<String>) {
        let mut view = View { memory, ..View::default() };
        let (mut known, mut backends, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        let here = || members.values().filter(|member| member.is_present);
        self.policy.rails.instances.clear();
        for (i, member) in here().enumerate() {
            let place = Place { node: 0, instance: i as u32 };
            let most = match member.most {
                u64::MAX => u64::MAX,
                most => without_growth(most.saturating_sub(member.overhead())),
            };
            if most < u64::MAX {
                self.policy.rails.instances.push((place, most));
            }
            for pool in member.pools.values() {
                let doubt = if self.aim == Some(Aim::Misses) { pool.off() } else { 0.0 };
                let mut seen = Pool { doubt, ..pool.seen(place) };
                // Alone it could not have more.
                seen.ceiling = seen.ceiling.min(most).max(seen.floor);
                view.pools.push(seen);
                known.push(match pool.is_known() {
                    true => Known::Yes,
                    false if now.saturating_sub(pool.curve_at) < NEW => Known::Soon,
                    false => Known::No,
                });
                backends.push(pool.backend_per_sec());
                costs.push((pool.misses_per_sec, pool.miss_cost_secs()));
            }
        }
        tell_apart(&mut view.pools);
        let unmet = fit_floors(&mut view);
        let weights: Vec<f64> = view.pools.iter().map(|pool| pool.weight).collect();
        let shares = partition::shares(&view, &weights);
        let reported = here().flat_map(|member| member.pools.values());
        for ((pool, share), reported) in view.pools.iter_mut().zip(shares).zip(reported) {
            if reported.granted.is_none() {
                pool.size = reported.present(share.memory);
            }
        }
        if self.aim.is_some() {
            pin_unknown(&mut view, &known, &weights);
        }
        let sizes = self.policy.rails.present(&view);
        view.pools.iter_mut().zip(sizes).for_each(|(pool, size)| pool.size = size);
        if self.objective == Objective::TimeSaved && self.aim == Some(Aim::Misses) {
            let factors = cost::factors(&costs);
            view.pools.iter_mut().zip(factors).for_each(|(pool, factor)| pool.weight *= factor);
        }
        if self.aim == Some(Aim::Throughput) {
            view.add_backends(&backends);
        }
        (view, unmet)
    }
}

/// Notes the grants in the pools of the view, which stand in the order of the instances that
/// answered, with what is predicted, and tells them.
fn note(members: &mut OnNode, view: &View, decision: &Decision) -> Vec<DecidedPool> {
    let mut told = Vec::with_capacity(view.pools.len());
    let mut decided = view.pools.iter().zip(&decision.grants);
    for member in members.values_mut().filter(|member| member.is_present) {
        // The pools come first: they end before a decision of another instance is taken.
        for (pool, (seen, grant)) in member.pools.values_mut().zip(&mut decided) {
            told.push(pool.decided(seen, grant.memory));
        }
        member.note_target();
    }
    told
}

impl PoolState {
    /// Takes a grant in place of the present one, which `seen` has.
    fn decided(&mut self, seen: &Pool, granted_bytes: u64) -> DecidedPool {
        let predicted = self.prediction();
        let before_bytes = self.granted.unwrap_or(seen.size);
        self.expected = self.would_miss(granted_bytes);
        self.granted = Some(granted_bytes);
        self.decided_name = Arc::clone(&seen.name);
        DecidedPool {
            name: Arc::clone(&seen.name),
            before_bytes,
            granted_bytes,
            used_bytes: seen.used,
            reads_per_sec: self.reads_per_sec,
            missed: self.missed,
            predicted,
            expected: self.expected,
            floor_bytes: self.floor(),
            promised_per_sec: seen.min_request_rate,
            miss_cost_secs: self.miss_cost_secs(),
            missed_since: None,
            curve: self.known_curve().cloned(),
        }
    }
}

impl Member {
    /// The limit that its pools' grants add up to, with what it uses beside them: that alone if it
    /// has no pools, such as a node without servers.
    fn note_target(&mut self) {
        let grants: u64 = self.pools.values().filter_map(|pool| pool.granted).fold(0, u64::saturating_add);
        let target = (grants / (GROWTH_PART - 1)).saturating_mul(GROWTH_PART).saturating_add(self.overhead());
        self.target = Some(target.clamp(self.least, self.most.max(self.least)));
    }
}

fn without_growth(bytes: u64) -> u64 {
    bytes / GROWTH_PART * (GROWTH_PART - 1)
}

/// Gives pools of equal names others: a policy tells pools apart by theirs.
fn tell_apart(pools: &mut [Pool]) {
    let all: HashSet<Arc<str>> = pools.iter().map(|pool| Arc::clone(&pool.name)).collect();
    if all.len() == pools.len() {
        return;
    }
    let mut seen: HashMap<Arc<str>, u32> = HashMap::with_capacity(pools.len());
    for pool in pools {
        let times = seen.entry(Arc::clone(&pool.name)).or_default();
        *times += 1;
        if *times == 1 {
            continue;
        }
        // Somebody may have named a pool like that.
        let mut other: Arc<str> = format!("{} ({times})", pool.name).into();
        while all.contains(&other) {
            *times += 1;
            other = format!("{} ({times})", pool.name).into();
        }
        pool.name = other;
    }
}

/// Lowers floors that add up to more than there is, and says so.
fn fit_floors(view: &mut View) -> Vec<String> {
    let all = view.memory;
    view.pools.iter_mut().for_each(|pool| pool.floor = pool.floor.min(all));
    let floors: u128 = view.pools.iter().map(|pool| u128::from(pool.floor)).sum();
    if floors <= u128::from(view.memory) {
        return Vec::new();
    }
    let memory = u128::from(view.memory);
    view.pools.iter_mut().for_each(|pool| pool.floor = (u128::from(pool.floor) * memory / floors) as u64);
    let memory = view.memory;
    vec![format!(
        "the least sizes of pools add up to {floors} bytes, and pools can have {memory} together: they count in part"
    )]
}

/// Gives pools whose curve is not known their shares by weight, as far as they will soon fill them,
/// and no policy may change that. Those that came lately with more keep what they use, as far as
/// there is room beside the shares of others: their curves will soon say whether they need it.
fn pin_unknown(view: &mut View, known: &[Known], weights: &[f64]) {
    if known.iter().all(|known| *known == Known::Yes) {
        return;
    }
    let shares = partition::shares(view, weights);
    let least = view.memory / BEGIN_PART;
    for ((pool, share), known) in view.pools.iter_mut().zip(shares).zip(known) {
        let soon = pool.used.saturating_mul(2).max(least).max(pool.floor);
        let size = share.memory.min(soon);
        let kept = if *known == Known::Soon { pool.used.min(pool.size).min(pool.ceiling) } else { 0 };
        if *known != Known::Yes {
            (pool.floor, pool.ceiling) = (size, size.max(kept));
        }
    }
    let sizes = partition::present(view);
    for ((pool, size), known) in view.pools.iter_mut().zip(sizes).zip(known) {
        if *known != Known::Yes {
            (pool.floor, pool.ceiling) = (size, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_of_one_name_get_names_that_no_other_has() {
        let curve = Arc::new(MissRatioCurve::uniform(curve::Unit::Bytes, 100));
        let names = ["a", "a (2)", "a", "b", "a", "a (2)"];
        let mut pools: Vec<Pool> = names.map(|name| Pool::new(name, Arc::clone(&curve), 0)).to_vec();
        tell_apart(&mut pools);
        let told: Vec<&str> = pools.iter().map(|pool| &*pool.name).collect();
        assert_eq!(told, ["a", "a (2)", "a (3)", "b", "a (4)", "a (2) (2)"]);
    }

    /// A cache that has run for long joins one that has all of the memory.
    #[test]
    fn a_pool_that_comes_with_more_than_its_share_keeps_it_while_its_curve_is_learnt() {
        let curve = Arc::new(MissRatioCurve::uniform(curve::Unit::Bytes, 100));
        let sizes = |of_new: Known, used: u64| {
            let mut pools =
                ["a", "b", "c", "new"].map(|name| Pool::new(name, Arc::clone(&curve), 36)).to_vec();
            (pools[3].size, pools[3].used) = (64, used);
            let mut view = View { memory: 144, pools, ..View::default() };
            pin_unknown(&mut view, &[Known::Yes, Known::Yes, Known::Yes, of_new], &[1.0; 4]);
            assert_eq!(view.pools[3].floor, view.pools[3].ceiling);
            (view.pools[3].floor, partition::present(&view))
        };
        let (kept, all) = sizes(Known::Soon, 64);
        assert!(kept >= 53 && all.iter().sum::<u64>() == 144, "{kept} of {all:?}");
        assert_eq!(sizes(Known::No, 64).0, 36);
        // What it does not use is not kept for it.
        assert_eq!((sizes(Known::Soon, 10).0, sizes(Known::No, 10).0), (20, 20));
    }

    #[test]
    fn a_floor_of_more_than_there_is_leaves_others_their_part() {
        let curve = Arc::new(MissRatioCurve::uniform(curve::Unit::Bytes, 100));
        let mut pools = ["a", "b"].map(|name| Pool::new(name, Arc::clone(&curve), 0)).to_vec();
        (pools[0].floor, pools[1].floor) = (1 << 50, 250);
        let mut view = View { memory: 1_000, pools, ..View::default() };
        assert_eq!(fit_floors(&mut view).len(), 1);
        assert_eq!((view.pools[0].floor, view.pools[1].floor), (800, 200));
    }
}
