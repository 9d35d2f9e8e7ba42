//! Rails that any policy runs between.
//!
//! [`Guarded`] wraps a policy. The policy sees a smoothed view. Its decision is limited to the
//! bounds, to the hierarchy, and to the amount that may move in one round; a decision that is
//! hardly better than the present state is dropped. HOLPACA (ICPE 2026, section 3) moves at most 1
//! % of the memory at a time and keeps three tenths of the previous figure; HARE (FAST 2026,
//! section 4.3) applies decisions that are at least 5 % better. If predictions for pools were off
//! lately ([`Pool::doubt`]), nothing moves between these that saves no more misses than that. A
//! pool of which that is true does not hold up the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::ByteSize;

use crate::decision::LEAST_TOLD;
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Move, Outcome, Place, Policy, Pool, Unmet, View, fairness, partition};

/// With hysteresis, nothing moves for a smaller part of all requests.
const LEAST_PART: f64 = 1e-6;

/// The measure of an improvement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// The misses per second of all pools, each times its weight.
    #[default]
    Misses,
    /// The requests per second that the grants of all pools carry, up to the present request rates.
    Throughput,
    /// The least normalised throughput of any pool ([`fairness`]).
    Fairness,
}

/// The rails. By default only the view's own bounds apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rails {
    /// The least memory of any pool as a share of the mean memory per pool, whatever the pool's
    /// floor. 0.1 serves as HOLPACA's "no starvation", for which the paper gives no figure.
    /// Default: 0.
    pub least_share: f64,
    /// The most memory of any pool as a share of all memory, whatever the pool's ceiling; 0 = no
    /// such bound. Default: 0.
    pub most_share: f64,
    /// The share of all memory that one pool may gain or lose in a round; 0 = any. Default: 0.
    pub pool_step: f64,
    /// The share of all memory that may change hands in a round; 0 = any. Default: 0.
    pub step: f64,
    /// The weight of the previous request rate against a new one, from 0 to 1. Default: 0.
    pub smoothing: f64,
    /// The least relative improvement of the aim for anything to move; 0 = any improvement.
    /// Default: 0.
    pub hysteresis: f64,
    /// The measure of that improvement. Default: misses.
    pub aim: Aim,
    /// The memory of nodes by number, in bytes. A node that is not listed has the present memory of
    /// its pools. Default: none.
    pub nodes: Vec<(u32, u64)>,
    /// The most memory of instances, in bytes. An instance that is not listed has no bound of its
    /// own. Default: none.
    pub instances: Vec<(Place, u64)>,
}

/// A policy between rails.
#[derive(Clone, Debug)]
pub struct Guarded<P> {
    /// The wrapped policy.
    pub policy: P,
    /// The limits on its decisions.
    pub rails: Rails,
    /// The smoothed request rate of each pool, by name.
    rates: HashMap<Arc<str>, f64>,
    /// With several nodes, a policy for each, by number: a policy's state concerns the pools that
    /// it sees, and it forgets pools that are missing from a view.
    nodes: HashMap<u32, P>,
}

impl<P: Policy + Clone> Guarded<P> {
    /// Wraps `policy` in `rails`. With several nodes, each gets its own copy of the policy.
    pub fn new(policy: P, rails: Rails) -> Self {
        Self { policy, rails, rates: HashMap::new(), nodes: HashMap::new() }
    }
}

impl<P> Guarded<P> {
    /// The decision to leave everything as it is, with the bounds and promises that this does not
    /// keep.
    pub fn stay(&self, view: &View) -> Decision {
        let (_, mut refused) = self.rails.narrowed(view);
        let mut decision = Decision::stay(view);
        refused.extend(unmet(view, &decision));
        decision.unmet = refused;
        decision
    }
}

impl<P: Policy + Clone> Policy for Guarded<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let (seen, mut refused) = self.rails.narrowed(view);
            let mut seen = self.smoothed(seen);
            let present: Vec<Grant> = view.pools.iter().map(Grant::present).collect();
            let (mut wanted, mut grants) = self.wanted(&seen);
            let mut part = 1.0;
            if possible(&seen, &present) && self.rails.instances_hold(&seen, &present) {
                let mut is_held = is_doubtful(&seen, &present, &grants);
                if is_held && pin_doubtful(&mut seen, &present, &grants) {
                    (wanted, grants) = self.wanted(&seen);
                    is_held = is_doubtful(&seen, &present, &grants);
                }
                // A step by itself may save nothing: to the end of a plateau it takes several.
                if is_held || !self.rails.worthwhile(&seen, &present, &grants) {
                    grants = present;
                } else {
                    part = self.rails.part(&seen, &present, &grants);
                    step(&present, &mut grants, part);
                }
            }
            let mut decision = explained(view, grants, wanted, part);
            refused.extend(unmet(view, &decision));
            decision.unmet = refused;
            decision
        })
    }
}

impl<P: Policy + Clone> Guarded<P> {
    /// The decision that the policy wants, and its grants within the bounds of instances.
    fn wanted(&mut self, view: &View) -> (Decision, Vec<Grant>) {
        let mut wanted = self.by_node(view);
        let mut grants = std::mem::take(&mut wanted.grants);
        self.rails.fit_instances(view, &mut grants);
        (wanted, grants)
    }

    /// The view with smoothed request rates. A new pool starts with its present rate.
    fn smoothed(&mut self, mut view: View) -> View {
        let weight = self.rails.smoothing;
        for pool in &mut view.pools {
            if let Some(rate) = self.rates.get_mut(&pool.name) {
                *rate = weight * *rate + (1.0 - weight) * pool.request_rate;
                pool.request_rate = *rate;
            } else {
                self.rates.insert(Arc::clone(&pool.name), pool.request_rate);
            }
        }
        if self.rates.len() != view.pools.len() {
            // Some have gone.
            let here: HashSet<&str> = view.pools.iter().map(|pool| &*pool.name).collect();
            self.rates.retain(|name, _| here.contains(&**name));
        }
        view
    }

    /// The decision of the policy, node by node: memory does not move between machines. Each node
    /// gets a part of the other resources by the weight of its pools.
    fn by_node(&mut self, view: &View) -> Decision {
        let mut nodes: Vec<u32> = view.pools.iter().map(|pool| pool.place.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() <= 1 && self.rails.nodes.is_empty() {
            return self.policy.decide(view);
        }
        self.nodes.retain(|node, _| nodes.contains(node));
        let all_weights: f64 = view.pools.iter().map(|pool| pool.weight).sum();
        let mut grants: Vec<Grant> = view.pools.iter().map(Grant::present).collect();
        let mut reasons = vec![String::new(); grants.len()];
        let (mut unmet, mut cliffs) = (Vec::new(), vec![None; grants.len()]);
        let mut is_by_worth = true;
        for node in nodes {
            let places: Vec<usize> =
                (0..view.pools.len()).filter(|&place| view.pools[place].place.node == node).collect();
            let pools: Vec<Pool> = places.iter().map(|&place| view.pools[place].clone()).collect();
            let stated =
                self.rails.nodes.iter().find(|&&(named, _)| named == node).map(|&(_, memory)| memory);
            let floors: u64 = pools.iter().map(|pool| pool.floor).sum();
            let memory = stated.unwrap_or_else(|| pools.iter().map(|pool| pool.size).sum()).max(floors);
            let weights: f64 = pools.iter().map(|pool| pool.weight).sum();
            let part = if all_weights > 0.0 {
                weights / all_weights
            } else {
                pools.len() as f64 / grants.len() as f64
            };
            let mut resources = view.resources.clone();
            resources.iter_mut().for_each(|resource| resource.total *= part);
            let policy = self.nodes.entry(node).or_insert_with(|| self.policy.clone());
            let decision =
                policy.decide(&View { memory, resources, pools, interval_secs: view.interval_secs });
            is_by_worth &= decision.is_by_worth;
            for step in &decision.moves {
                for side in [step.from, step.to].into_iter().flatten() {
                    reasons[places[side]].clone_from(&step.reason);
                }
            }
            unmet.extend(decision.unmet.into_iter().map(|unmet| Unmet { pool: places[unmet.pool], ..unmet }));
            for (&place, grant) in places.iter().zip(decision.grants) {
                grants[place] = grant;
            }
            for (&place, ends) in places.iter().zip(decision.cliffs) {
                cliffs[place] = ends;
            }
        }
        let mut decision = Decision::to(view, grants, |_, _| String::new());
        for step in &mut decision.moves {
            let side = step.to.or(step.from).expect("a move has a side");
            step.reason.clone_from(&reasons[side]);
        }
        Decision { unmet, cliffs, is_by_worth, ..decision }
    }
}

impl Rails {
    /// The rails of a policy that goes by `aim` ([`crate::registry::Entry::aim`]), without nodes
    /// and instances. The gain of policies with another aim than misses cannot be measured live, so
    /// that their decisions have no hysteresis.
    #[must_use]
    pub fn for_aim(self, aim: Option<Aim>) -> Self {
        let hysteresis = if aim == Some(Aim::Misses) { self.hysteresis } else { 0.0 };
        Self { hysteresis, aim: Aim::Misses, nodes: Vec::new(), instances: Vec::new(), ..self }
    }

    /// The view with narrower bounds, and the bounds that do not fit.
    fn narrowed(&self, view: &View) -> (View, Vec<Unmet>) {
        let mut view = view.clone();
        let mut refused = Vec::new();
        if let Err((least, raised)) = self.raise_floors(&mut view) {
            refused.extend(view.pools.iter().enumerate().filter(|(_, pool)| pool.floor < least).map(
                |(i, pool)| Unmet {
                    pool: i,
                    reason: format!(
                        "{} cannot be kept at {}: with the floors of the others that would be {} of {}",
                        pool.name,
                        ByteSize::new(least),
                        ByteSize::new(u64::try_from(raised).unwrap_or(u64::MAX)),
                        ByteSize::new(view.memory)
                    ),
                },
            ));
        }
        if self.most_share > 0.0 {
            let most = (self.most_share * view.memory as f64) as u64;
            view.pools.iter_mut().for_each(|pool| pool.ceiling = pool.ceiling.min(most.max(pool.floor)));
        }
        (view, refused)
    }

    /// The present sizes of a view, fitted to its memory and bounds, and to the least share that
    /// each pool has: a new pool shall not cause all memory to move at once.
    pub fn present(&self, view: &View) -> Vec<u64> {
        let mut raised = view.clone();
        // If that does not fit, the floors are those of the view.
        let _ = self.raise_floors(&mut raised);
        partition::present(&raised)
    }

    /// Raises each pool's floor to the least share, as far as its ceiling allows.
    ///
    /// # Errors
    /// If the floors would add up to more than the memory: that share, and their sum. The view
    /// stays as it is.
    fn raise_floors(&self, view: &mut View) -> Result<(), (u64, u128)> {
        let pools = view.pools.len() as u64;
        let least = (self.least_share * view.memory as f64 / pools.max(1) as f64) as u64;
        let floor = |pool: &Pool| pool.floor.max(least.min(pool.ceiling));
        let raised = view.pools.iter().map(|pool| u128::from(floor(pool))).sum::<u128>();
        if raised > u128::from(view.memory) {
            return Err((least, raised));
        }
        view.pools.iter_mut().for_each(|pool| pool.floor = floor(pool));
        Ok(())
    }

    fn bound_of(&self, place: Place) -> Option<u64> {
        self.instances.iter().find(|(named, _)| *named == place).map(|&(_, most)| most)
    }

    fn instances_hold(&self, view: &View, grants: &[Grant]) -> bool {
        self.instances.iter().all(|&(place, most)| {
            let members = view.pools.iter().zip(grants).filter(|(pool, _)| pool.place == place);
            members.map(|(_, grant)| u128::from(grant.memory)).sum::<u128>() <= u128::from(most)
        })
    }

    /// Takes from each instance the memory above its bound, in proportion to what its pools have
    /// above their floors, and gives it to pools of the same node that have room. Memory that fits
    /// nowhere stays unallocated.
    fn fit_instances(&self, view: &View, grants: &mut [Grant]) {
        for &(place, most) in &self.instances {
            let members: Vec<usize> = (0..grants.len()).filter(|&i| view.pools[i].place == place).collect();
            let sum: u64 = members.iter().map(|&i| grants[i].memory).sum();
            // A policy that knows no bounds may grant less than a floor.
            let above_floor =
                |grants: &[Grant], i: usize| grants[i].memory.saturating_sub(view.pools[i].floor);
            let spare: u64 = members.iter().map(|&i| above_floor(grants, i)).sum();
            let over = sum.saturating_sub(most).min(spare);
            if over == 0 {
                continue;
            }
            let mut freed = 0;
            for &i in &members {
                let own = above_floor(grants, i);
                let cut = ((u128::from(over) * u128::from(own)).div_ceil(u128::from(spare)) as u64).min(own);
                grants[i].memory -= cut;
                freed += cut;
            }
            self.give(view, grants, place, freed);
        }
    }

    /// Gives `bytes` to pools on the node of `place`, but not in it, one after the other as far as
    /// they have room.
    fn give(&self, view: &View, grants: &mut [Grant], place: Place, mut bytes: u64) {
        let mut held: HashMap<Place, u64> = HashMap::new();
        for (pool, grant) in view.pools.iter().zip(&*grants) {
            *held.entry(pool.place).or_default() += grant.memory;
        }
        for i in crate::rank::by_name(view) {
            let pool = &view.pools[i];
            if pool.place.node != place.node || pool.place == place {
                continue;
            }
            let held = held.get_mut(&pool.place).expect("each place was counted");
            let room = self.bound_of(pool.place).map_or(u64::MAX, |most| most.saturating_sub(*held));
            let more = bytes.min(room).min(pool.ceiling - grants[i].memory);
            grants[i].memory += more;
            *held += more;
            bytes -= more;
        }
    }

    fn worthwhile(&self, view: &View, present: &[Grant], grants: &[Grant]) -> bool {
        if self.hysteresis <= 0.0 {
            return true;
        }
        let (now, then) = (self.aim.of(view, present), self.aim.of(view, grants));
        // If nothing is missed, any rounding is a large part of it.
        let least = match self.aim {
            Aim::Misses => {
                LEAST_PART * view.pools.iter().map(|pool| pool.weight * pool.request_rate).sum::<f64>()
            }
            Aim::Throughput | Aim::Fairness => 0.0,
        };
        then > now + (self.hysteresis * now.abs()).max(least)
    }

    /// The part of the way from the present grants to the wanted ones that one round may cover.
    ///
    /// All grants are scaled by the same factor: any point between two allocations that keep all
    /// bounds and totals keeps them too, and rates keep pace with the memory that they were chosen
    /// for.
    fn part(&self, view: &View, present: &[Grant], grants: &[Grant]) -> f64 {
        let memory = view.memory as f64;
        let moved = |(before, after): (&Grant, &Grant)| after.memory.abs_diff(before.memory) as f64;
        let largest = present.iter().zip(grants).map(moved).fold(0.0, f64::max);
        let given: f64 = present
            .iter()
            .zip(grants)
            .map(|(before, after)| before.memory.saturating_sub(after.memory) as f64)
            .sum();
        let mut part: f64 = 1.0;
        if self.pool_step > 0.0 && largest > 0.0 {
            part = part.min(self.pool_step * memory / largest);
        }
        if self.step > 0.0 && given > 0.0 {
            part = part.min(self.step * memory / given);
        }
        part
    }
}

impl Aim {
    /// The value of an allocation; more is better.
    pub fn of(self, view: &View, grants: &[Grant]) -> f64 {
        let outcomes = view.pools.iter().zip(grants).map(|(pool, grant)| (pool, Outcome::of(pool, grant)));
        match self {
            Self::Misses => {
                outcomes.map(|(pool, outcome)| -pool.weight * pool.request_rate * outcome.miss_ratio).sum()
            }
            Self::Throughput => {
                outcomes.map(|(pool, outcome)| outcome.throughput.min(pool.request_rate)).sum()
            }
            Self::Fairness => fairness::least_normalised(view, grants),
        }
    }
}

/// Returns whether grants save no more misses than predictions for the pools that change were off
/// lately.
fn is_doubtful(view: &View, present: &[Grant], grants: &[Grant]) -> bool {
    let changes = view.pools.iter().zip(present).zip(grants);
    let changes = changes.filter(|((_, before), after)| before.memory.abs_diff(after.memory) >= LEAST_TOLD);
    let doubt: f64 = changes.map(|((pool, _), _)| pool.weight * pool.request_rate * pool.doubt).sum();
    doubt > 0.0 && Aim::Misses.of(view, grants) - Aim::Misses.of(view, present) <= doubt
}

/// Has pools keep what they have whose misses would change by less than predictions for them were
/// off, so that they do not hold up the others. Returns whether there are such pools.
fn pin_doubtful(view: &mut View, present: &[Grant], grants: &[Grant]) -> bool {
    let mut pinned = false;
    for ((pool, before), after) in view.pools.iter_mut().zip(present).zip(grants) {
        let miss_ratio = |grant| Outcome::of(pool, grant).miss_ratio;
        if before.memory != after.memory && (miss_ratio(after) - miss_ratio(before)).abs() < pool.doubt {
            (pool.floor, pool.ceiling) = (before.memory, before.memory);
            pinned = true;
        }
    }
    pinned
}

/// Goes `part` of the way from `present` to `grants`. Rounds gains down and losses up, so that sums
/// stay within totals.
fn step(present: &[Grant], grants: &mut [Grant], part: f64) {
    if part >= 1.0 {
        return;
    }
    for (before, after) in present.iter().zip(grants) {
        let way = after.memory.abs_diff(before.memory) as f64 * part;
        after.memory = if after.memory >= before.memory {
            before.memory + way as u64
        } else {
            before.memory - way.ceil() as u64
        };
        for (before, after) in before.resources.iter().zip(&mut after.resources) {
            *after = before + part * (*after - before);
        }
    }
}

/// The decision to these grants, `part` of the way to those that the policy wanted. Reasons by
/// worth are those of the moves that are made; others are the policy's, of the same pools if it
/// wanted such a move.
fn explained(view: &View, grants: Vec<Grant>, wanted: Decision, part: f64) -> Decision {
    let mut decision = if wanted.is_by_worth {
        Decision::by_worth_on_cliffs(view, grants, wanted.cliffs)
    } else {
        let (mut of_pairs, mut of_sides) = (HashMap::new(), HashMap::new());
        for step in &wanted.moves {
            of_pairs.insert((step.from, step.to), &*step.reason);
            for side in [step.to, step.from].into_iter().flatten() {
                of_sides.entry(side).or_insert(&*step.reason);
            }
        }
        let mut decision = Decision::by_place(view, grants, |from, to| {
            let of_side = || to.into_iter().chain(from).find_map(|side| of_sides.get(&side));
            let reason = of_pairs.get(&(from, to)).or_else(of_side).copied();
            reason.unwrap_or("to keep the bounds of instances").to_owned()
        });
        decision.cliffs = wanted.cliffs;
        decision
    };
    if part < 1.0 {
        let note =
            |step: &mut Move| step.reason += &format!("; {:.1} % of the way in this round", 100.0 * part);
        decision.moves.iter_mut().for_each(note);
    }
    decision
}

/// Returns whether grants stay within the totals and the bounds of a view.
pub fn possible(view: &View, grants: &[Grant]) -> bool {
    let memory = grants.iter().try_fold(0_u64, |sum, grant| sum.checked_add(grant.memory));
    let mut bounded = view.pools.iter().zip(grants);
    memory.is_some_and(|memory| memory <= view.memory)
        && bounded.all(|(pool, grant)| (pool.floor..=pool.ceiling).contains(&grant.memory))
        && view.resources.iter().enumerate().all(|(k, resource)| {
            let given: f64 = grants.iter().map(|grant| grant.resources[k]).sum();
            given <= resource.total * (1.0 + 1e-9)
        })
}

/// The promises that a decision does not keep, each with the reason: that no decision could keep
/// it, or what this one lacks.
pub fn unmet(view: &View, decision: &Decision) -> Vec<Unmet> {
    let broken = |i: &usize| {
        let promise = view.pools[*i].min_request_rate;
        decision.after[*i].throughput < promise * (1.0 - 1e-6)
    };
    let floors: u64 = view.pools.iter().map(|pool| pool.floor).sum();
    let reasons = (0..view.pools.len()).filter(broken).map(|i| {
        let pool = &view.pools[i];
        let most = view.memory.saturating_sub(floors).saturating_add(pool.floor).min(pool.ceiling);
        let all: Vec<f64> = view.resources.iter().map(|resource| resource.total).collect();
        let best = Grant { memory: most, resources: all };
        let reason = if Outcome::of(pool, &best).throughput < pool.min_request_rate {
            lacks(view, pool, &best, " even alone")
        } else {
            lacks(view, pool, &decision.grants[i], "")
        };
        Unmet { pool: i, reason }
    });
    reasons.collect()
}

/// The shortfall of a pool with this grant against its promise.
fn lacks(view: &View, pool: &Pool, grant: &Grant, how: &str) -> String {
    let outcome = Outcome::of(pool, grant);
    let misses = pool.misses(grant.memory, &grant.resources);
    let carried = |k: usize| grant.resources[k] / pool.cost(k, misses);
    let needed = (0..view.resources.len()).filter(|&k| pool.cost(k, misses) > 0.0);
    let scarce = needed.min_by(|&a, &b| carried(a).total_cmp(&carried(b)));
    let scarce = scarce.expect("a pool that needs nothing has no limit");
    let resource = &view.resources[scarce];
    format!(
        "{} was promised {:.1} requests/s and can have {:.1}{how}: with {} it misses {:.1} %, for which it needs {:.1} {}/s and has \
         {:.1}",
        pool.name,
        pool.min_request_rate,
        outcome.throughput,
        ByteSize::new(grant.memory),
        100.0 * outcome.miss_ratio,
        pool.cost(scarce, misses) * pool.min_request_rate,
        resource.name,
        grant.resources[scarce],
    )
}

#[cfg(test)]
mod tests;
