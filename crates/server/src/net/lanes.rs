//! Fair scheduling: connections with work stand in the lane of their tenant, and lanes are served
//! in turn.
//!
//! Deficit round robin ([`limit::drr`]): in a round each lane may spend its weight in [`QUANTUM`]s,
//! and the cost of a turn beyond that is deducted from its next rounds. If a worker has connections
//! of one tenant only, each connection that stood in the lane when the round began has one turn.
//! The round ends earlier if it takes too much time, because another tenant may be about to arrive.
//!
//! A lane whose tenant's rate is spent is skipped until a given time. Its connections stay in it,
//! in their order.
//!
//! Invariant 1: a lane is among the active ones, once, exactly if it has connections.

use std::collections::VecDeque;
use std::sync::Arc;

use frontend::mailbox::Token;
use limit::DeficitRoundRobin;
use tenancy::{Spent, Tenant};

/// The cost that a lane of weight 1 may spend in a round.
const QUANTUM: i64 = 48;
/// The cost in time that a lane may spend in a round while it is the only one: too little for a
/// tenant that arrives meanwhile to notice.
const ALONE: i64 = 1000;
/// The fixed cost of a turn: a receive and a send.
const TURN_COST: u64 = 4;
/// So many bytes cost as much as a request.
const COST_BYTES: u64 = 1024;
/// Time that costs as much as a request, in nanoseconds.
const COST_NANOS: u64 = 1000;
/// The most that time costs. A turn that seems to have taken longer may have lost the processor
/// meanwhile.
const MOST_TIME_COST: u64 = 1000;

/// Returns the cost of the time of a turn.
fn time_cost(nanos: u64) -> u64 {
    (nanos / COST_NANOS).min(MOST_TIME_COST)
}

/// Returns the cost of a turn while there are several lanes: the work done, or the time taken if
/// the requests were expensive.
fn cost(spent: Spent, nanos: u64) -> i64 {
    let bytes = spent.received + spent.sent + spent.parsed_again;
    let done = TURN_COST + spent.requests + bytes / COST_BYTES;
    i64::try_from(done.max(time_cost(nanos))).unwrap_or(i64::MAX)
}

/// Turns that may find their key space closed, one after the other, before the lane waits for
/// `RETRY_NANOS`.
const MOST_VAIN: u32 = 64;
const RETRY_NANOS: u64 = 50_000;

/// Short turns of a lane for which a slow one waits, if there are this many.
const SHORT_TURNS: u32 = 16;

/// Names a lane of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId(usize);

/// The connections of one tenant that have something to do.
struct Lane {
    tenant: Arc<Tenant>,
    ready: VecDeque<Token>,
    /// Those of them whose last turn was slow: they wait behind the others.
    slow: VecDeque<Token>,
    /// Turns since one of `slow` had its turn.
    since_slow: u32,
    /// Number of connections at the front that have been told to wait for the rate.
    paused: usize,
    /// Not served before, in nanoseconds of the monotonic clock.
    closed_until: u64,
    /// Turns, one after the other, that found their key space closed, and not served before, after
    /// many.
    vain: u32,
    retry_at: u64,
    /// Connections of the worker that are the tenant's.
    connections: usize,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Vec<Option<Lane>>,
    /// Number of connections.
    count: usize,
    /// By the number of the lane.
    turns: DeficitRoundRobin,
}

impl Lanes {
    /// Returns whether several tenants have connections here.
    pub(crate) fn are_several(&self) -> bool {
        self.count > 1
    }

    /// The lane for a new connection of the tenant.
    pub(crate) fn join(&mut self, tenant: &Arc<Tenant>) -> LaneId {
        if let Some(id) = self.find(tenant) {
            if let Some(lane) = self.lane_mut(id) {
                lane.connections += 1;
            }
            return id;
        }
        let lane = Lane {
            tenant: Arc::clone(tenant),
            ready: VecDeque::new(),
            slow: VecDeque::new(),
            since_slow: 0,
            paused: 0,
            closed_until: 0,
            vain: 0,
            retry_at: 0,
            connections: 1,
        };
        self.count += 1;
        let at = self.lanes.iter().position(Option::is_none).unwrap_or(self.lanes.len());
        match self.lanes.get_mut(at) {
            Some(place) => *place = Some(lane),
            None => self.lanes.push(Some(lane)),
        }
        self.turns.open(at);
        LaneId(at)
    }

    /// One of its connections is no more its.
    pub(crate) fn leave(&mut self, id: LaneId) {
        let Some(place) = self.lanes.get_mut(id.0) else { return };
        let Some(lane) = place else { return };
        lane.connections -= 1;
        if lane.connections == 0 {
            *place = None;
            self.count -= 1;
            self.turns.close(id.0);
        }
    }

    /// The lane of the tenant, where it has connections here.
    pub(crate) fn find(&self, tenant: &Arc<Tenant>) -> Option<LaneId> {
        let is_its =
            |lane: &Option<Lane>| lane.as_ref().is_some_and(|lane| Arc::ptr_eq(&lane.tenant, tenant));
        self.lanes.iter().position(is_its).map(LaneId)
    }

    /// Those who have connections here.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.lanes.iter().flatten().map(|lane| &lane.tenant)
    }

    /// Returns the tenant of a lane.
    pub(crate) fn tenant(&self, id: LaneId) -> Option<&Arc<Tenant>> {
        Some(&self.lane(id)?.tenant)
    }

    /// A connection has something to do.
    pub(crate) fn push(&mut self, id: LaneId, token: Token) {
        let Some(Some(lane)) = self.lanes.get_mut(id.0) else { return };
        if lane.ready.is_empty() && lane.slow.is_empty() {
            self.turns.activate(id.0);
        }
        lane.ready.push_back(token);
    }

    /// Returns the number of lanes in a round.
    pub(crate) fn active(&self) -> usize {
        self.turns.active()
    }

    /// The next lane of the round, and how many of its connections stand in it. It is to be
    /// [given back](Self::end).
    pub(crate) fn begin(&mut self) -> Option<(LaneId, usize)> {
        let id = LaneId(self.turns.begin()?);
        let lane = self.lanes.get(id.0)?.as_ref()?;
        // A lane saves nothing up, not even while it may not be served. It owes what it overdrew,
        // unless no other lane competes with it.
        if self.are_several() {
            self.turns.grant(id.0, QUANTUM * i64::from(lane.tenant.weight()));
        } else {
            self.turns.grant_anew(id.0, ALONE);
        }
        // Events are fetched after one slow turn, so that a connection which has something short to
        // do does not wait for more.
        Some((id, lane.ready.len() + lane.slow.len().min(1)))
    }

    /// The next connection of a lane that was begun, unless the lane has spent what it may.
    pub(crate) fn next(&mut self, id: LaneId) -> Option<Token> {
        if !self.turns.may_spend(id.0) {
            return None;
        }
        let lane = self.lane_mut(id)?;
        if lane.ready.is_empty() || lane.since_slow >= SHORT_TURNS {
            lane.since_slow = 0;
            if let Some(token) = lane.slow.pop_front() {
                return Some(token);
            }
        }
        let token = lane.ready.pop_front()?;
        lane.since_slow += 1;
        lane.paused = lane.paused.saturating_sub(1);
        Some(token)
    }

    /// Charges the lane for a turn of a connection: its work and its time.
    pub(crate) fn spend(&mut self, id: LaneId, spent: Spent, nanos: u64) {
        let cost = if self.are_several() { cost(spent, nanos) } else { time_cost(nanos) as i64 };
        self.turns.spend(id.0, cost);
    }

    /// A connection of a lane that was begun has more to do.
    pub(crate) fn push_again(&mut self, id: LaneId, token: Token) {
        if let Some(lane) = self.lane_mut(id) {
            lane.ready.push_back(token);
        }
    }

    /// As [`Self::push_again`], of a connection whose turn was slow: it waits behind those whose
    /// turns are short.
    pub(crate) fn push_slow(&mut self, id: LaneId, token: Token) {
        if let Some(lane) = self.lane_mut(id) {
            lane.slow.push_back(token);
        }
    }

    /// Nothing of the lane is served before that time, and connections that stand in it and do not
    /// know yet are told.
    pub(crate) fn close_until(&mut self, id: LaneId, until: u64, mut tell: impl FnMut(Token)) {
        let Some(lane) = self.lane_mut(id) else { return };
        lane.closed_until = until;
        lane.ready.append(&mut lane.slow);
        lane.ready.iter().skip(lane.paused).for_each(|token| tell(*token));
        lane.paused = lane.ready.len();
    }

    /// The lane may be served again.
    pub(crate) fn open(&mut self, id: LaneId) {
        if let Some(lane) = self.lane_mut(id) {
            lane.closed_until = 0;
        }
    }

    /// A turn found its key space closed, or did not: who closes it is soon through, or else not
    /// for long, and then the lane waits for a moment.
    pub(crate) fn note_vain(&mut self, id: LaneId, is_vain: bool, now: impl FnOnce() -> u64) {
        let Some(lane) = self.lane_mut(id) else { return };
        if !is_vain {
            lane.vain = 0;
            return;
        }
        lane.vain += 1;
        if lane.vain > MOST_VAIN {
            lane.retry_at = now().saturating_add(RETRY_NANOS);
        }
    }

    /// Returns whether the lane waits for a key space.
    pub(crate) fn waits(&mut self, id: LaneId, now: impl FnOnce() -> u64) -> bool {
        let Some(lane) = self.lane_mut(id).filter(|lane| lane.retry_at > 0) else { return false };
        if lane.retry_at > now() {
            return true;
        }
        lane.retry_at = 0;
        false
    }

    /// The lane has been served in this round.
    pub(crate) fn end(&mut self, id: LaneId) {
        let Some(lane) = self.lane_mut(id) else { return };
        if !(lane.ready.is_empty() && lane.slow.is_empty()) {
            self.turns.activate(id.0);
        }
    }

    /// Returns the time at which the next lane is to be served: 0 = now; `None` if there is none.
    pub(crate) fn next_at(&self) -> Option<u64> {
        let not_before = |id| self.lane(LaneId(id)).map(|lane| lane.closed_until.max(lane.retry_at));
        self.turns.iter().filter_map(not_before).min()
    }

    fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get(id.0)?.as_ref()
    }

    fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.0)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use config::TenantSettings;
    use tenancy::key_space::Pool;

    use super::*;

    fn tenants<const N: usize>(weights: [u32; N]) -> [Arc<Tenant>; N] {
        let cache = millpond::Cache::new(millpond::CacheConfig {
            memory: base::ByteSize::mib(16),
            ..millpond::CacheConfig::default()
        });
        let id = cache.expect("a cache").add_pool(millpond::PoolConfig::default()).expect("a pool");
        let pool = Arc::new(Pool { name: "p".to_owned(), id, gate: Arc::default() });
        weights.map(|weight| {
            let settings = TenantSettings { weight, ..TenantSettings::unlimited("t") };
            Arc::new(Tenant::new(&settings, Arc::clone(&pool)))
        })
    }

    /// Serves a round in which every connection has more to do after each turn of `cost`, and
    /// returns whose turns there were.
    fn round(lanes: &mut Lanes, cost: u64) -> Vec<u64> {
        let mut turns = Vec::new();
        for _ in 0..lanes.active() {
            let Some((id, standing)) = lanes.begin() else { break };
            let several = lanes.are_several();
            let mut served = 0;
            while (several || served < standing)
                && let Some(token) = lanes.next(id)
            {
                turns.push(token.0);
                served += 1;
                lanes.spend(id, Spent::default(), cost * COST_NANOS);
                lanes.push_again(id, token);
            }
            lanes.end(id);
        }
        turns
    }

    #[test]
    fn many_connections_of_one_are_worth_as_much_as_one_of_another() {
        let [flood, victim] = tenants([1, 1]);
        let mut lanes = Lanes::default();
        for token in 0..100 {
            let id = lanes.join(&flood);
            lanes.push(id, Token(token));
        }
        let id = lanes.join(&victim);
        lanes.push(id, Token(1000));
        let (mut theirs, mut its) = (0, 0);
        for _ in 0..100 {
            let turns = round(&mut lanes, 10);
            its += turns.iter().filter(|token| **token == 1000).count();
            theirs += turns.iter().filter(|token| **token != 1000).count();
            let behind = turns.iter().position(|token| *token == 1000).expect("each round has its turn");
            assert!(behind <= 6, "{behind} turns of the other came first");
        }
        assert!(theirs.abs_diff(its) <= 10, "{theirs} turns against {its}");
    }

    #[test]
    fn requests_that_take_long_cost_more_than_their_number() {
        let spent = Spent { requests: 32, received: 1_000, sent: 4_000, ..Spent::default() };
        assert_eq!(cost(spent, 20_000), 40, "what was done");
        assert_eq!(cost(spent, 500_000), 500, "the time");
        assert_eq!(cost(spent, 10_000_000_000), 1_000);
    }

    #[test]
    fn turns_follow_the_weights_whatever_they_cost() {
        let [heavy, light] = tenants([3, 1]);
        for cost in [4, 37, 200] {
            let mut lanes = Lanes::default();
            for (token, tenant) in [&heavy, &light].into_iter().enumerate() {
                let id = lanes.join(tenant);
                lanes.push(id, Token(token as u64));
            }
            let turns: Vec<u64> = (0..1_000).flat_map(|_| round(&mut lanes, cost)).collect();
            let heavy = turns.iter().filter(|token| **token == 0).count() as f64;
            let ratio = heavy / (turns.len() as f64 - heavy);
            assert!((2.9..3.1).contains(&ratio), "{ratio} at a cost of {cost}");
        }
    }

    #[test]
    fn alone_each_connection_has_one_turn_in_a_round() {
        let [only] = tenants([1]);
        let mut lanes = Lanes::default();
        for token in 0..50 {
            let id = lanes.join(&only);
            lanes.push(id, Token(token));
        }
        assert_eq!(round(&mut lanes, 20), (0..50).collect::<Vec<_>>());
        assert_eq!(round(&mut lanes, 20), (0..50).collect::<Vec<_>>());
        // Where turns are long, each still comes in its order.
        let turns: Vec<u64> = (0..50).flat_map(|_| round(&mut lanes, 1_000)).collect();
        assert_eq!(turns, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn who_may_not_be_served_saves_nothing_up() {
        let [waiting, other] = tenants([1, 1]);
        let mut lanes = Lanes::default();
        for (token, tenant) in [&waiting, &other].into_iter().enumerate() {
            let id = lanes.join(tenant);
            lanes.push(id, Token(token as u64));
        }
        let id = lanes.find(&waiting).expect("it has a connection");
        for _ in 0..2_000 {
            let (lane, _) = lanes.begin().expect("both have something to do");
            lanes.end(lane);
        }
        let its = round(&mut lanes, 10).iter().filter(|token| **token == 0).count();
        assert!(lanes.tenant(id).is_some() && its <= 5, "{its} turns at once");
    }

    /// Some connections have slow turns for ever; others come with a short one each.
    #[test]
    fn a_short_turn_waits_for_one_slow_turn_at_most_and_slow_ones_come_in_their_order() {
        let [only, other] = tenants([1, 1]);
        for several in [false, true] {
            let mut lanes = Lanes::default();
            let id = lanes.join(&only);
            if several {
                lanes.join(&other);
            }
            lanes.push(id, Token(0));
            (1..100).for_each(|token| lanes.push_slow(id, Token(token)));
            let (mut slow_turns, mut short_turns) = (Vec::new(), 0);
            for round in 0..500 {
                // A short one has the number of slow turns before it came, beyond 1,000.
                let short = Token(1_000 + slow_turns.len() as u64);
                lanes.push(id, short);
                let Some((_, standing)) = lanes.begin() else { panic!("nothing to do in {round}") };
                let mut served = 0;
                while (several || served < standing)
                    && let Some(Token(token)) = lanes.next(id)
                {
                    served += 1;
                    if let Some(before) = token.checked_sub(1_000) {
                        let meanwhile = slow_turns.len() as u64 - before;
                        assert!(meanwhile <= 1, "{meanwhile} slow turns came first in {round}");
                        short_turns += 1;
                        lanes.spend(id, Spent::default(), 0);
                    } else {
                        slow_turns.push(token);
                        lanes.spend(id, Spent::default(), 50 * COST_NANOS);
                        lanes.push_slow(id, Token(token));
                    }
                }
                lanes.end(id);
            }
            let expected: Vec<u64> = (0..100).cycle().take(slow_turns.len()).collect();
            assert!(slow_turns.len() >= 100 && slow_turns == expected, "{slow_turns:?}");
            assert!(short_turns >= 490, "{short_turns} of 500");
        }
    }

    #[test]
    fn slow_turns_come_although_short_ones_never_end() {
        let [only] = tenants([1]);
        let mut lanes = Lanes::default();
        let id = lanes.join(&only);
        (0..40).for_each(|token| lanes.push(id, Token(token)));
        lanes.push_slow(id, Token(99));
        let mut turns = Vec::new();
        for _ in 0..3 {
            let Some((_, standing)) = lanes.begin() else { break };
            for _ in 0..standing {
                let Some(token) = lanes.next(id) else { break };
                turns.push(token.0);
                if token.0 == 99 { lanes.push_slow(id, token) } else { lanes.push_again(id, token) }
            }
            lanes.end(id);
        }
        assert!(turns.iter().filter(|token| **token == 99).count() >= 3, "{turns:?}");
    }

    #[test]
    fn what_a_lane_may_do_alone_it_may_not_when_another_comes() {
        let [first, second] = tenants([1, 1]);
        let mut lanes = Lanes::default();
        let id = lanes.join(&first);
        lanes.push(id, Token(1));
        lanes.begin();
        lanes.end(id);
        let other = lanes.join(&second);
        lanes.push(other, Token(2));
        let turns = round(&mut lanes, 10);
        assert_eq!(turns.iter().filter(|token| **token == 1).count(), 5, "{turns:?}");
    }

    #[test]
    fn a_lane_is_there_for_as_long_as_it_has_connections() {
        let [a, b] = tenants([1, 1]);
        let mut lanes = Lanes::default();
        let (first, second, other) = (lanes.join(&a), lanes.join(&a), lanes.join(&b));
        assert!(first == second && first != other && lanes.are_several());
        lanes.push(first, Token(7));
        lanes.leave(first);
        assert_eq!(lanes.active(), 1);
        lanes.leave(second);
        assert!(!lanes.are_several() && lanes.active() == 0 && lanes.next_at().is_none());
        assert_eq!(lanes.join(&a), first, "its place is used again");
    }

    #[test]
    fn who_finds_its_key_space_closed_again_and_again_waits_for_a_moment() {
        let [a] = tenants([1]);
        let mut lanes = Lanes::default();
        let id = lanes.join(&a);
        lanes.push(id, Token(1));
        for _ in 0..MOST_VAIN {
            lanes.note_vain(id, true, || 1_000);
        }
        assert!(!lanes.waits(id, || 1_000) && lanes.next_at() == Some(0));
        lanes.note_vain(id, true, || 1_000);
        assert!(lanes.waits(id, || 1_000) && lanes.next_at() == Some(1_000 + RETRY_NANOS));
        assert!(!lanes.waits(id, || 1_000 + RETRY_NANOS) && lanes.next_at() == Some(0));
        lanes.note_vain(id, false, || 2_000);
        lanes.note_vain(id, true, || 2_000);
        assert!(!lanes.waits(id, || 2_000), "counted from the start");
    }

    #[test]
    fn who_waits_for_the_rate_is_told_once_and_keeps_its_place() {
        let [a] = tenants([1]);
        let mut lanes = Lanes::default();
        let id = lanes.join(&a);
        let mut told = Vec::new();
        for token in [1, 2] {
            lanes.push(id, Token(token));
        }
        let begun = lanes.begin();
        lanes.close_until(id, 500, |token| told.push(token.0));
        lanes.end(id);
        assert_eq!((begun, lanes.next_at()), (Some((id, 2)), Some(500)));
        lanes.push(id, Token(3));
        lanes.begin();
        lanes.close_until(id, 600, |token| told.push(token.0));
        lanes.end(id);
        assert_eq!((told, lanes.next_at()), (vec![1, 2, 3], Some(600)));
        lanes.begin();
        assert_eq!(lanes.next(id), Some(Token(1)));
    }
}
