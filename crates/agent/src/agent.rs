//! The agent as a plain value.

use base::ByteSize;
use control::amounts;
use control::v1::register_response::Standing;
use control::v1::{
    Amount, Holding, LeaveRequest, RegisterRequest, RegisterResponse, ResizeRequest, ResizeResponse,
    StatsRequest, StatsResponse,
};

use crate::duty::Duty;
use crate::instance::{Instance, InstanceError, Look};
use crate::report::Reports;
use crate::{MILLI, Nanos};

/// An instance registers its bounds again if one differs by more than one unit in this many.
const BOUND_PART: u64 = 16;
/// A limit is much lower than another one if it lacks more than one byte in this many.
const LOWER_PART: u64 = 8;

/// The settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// `host:port` at which orchestrators reach the agent.
    pub address: String,
    /// A number that no other agent has: drawn at random.
    pub session: u64,
}

/// An agent: the instance, and whose requests it carries out. The caller serves it, and has it
/// register as [`Self::next`] says.
#[derive(Debug)]
pub struct Agent<I> {
    config: AgentConfig,
    instance: I,
    duty: Duty,
    reports: Reports,
    /// The name and the incarnation that were registered last; 0 = none.
    name: String,
    incarnation: u64,
    /// When the registration that is under way was sent.
    asked_at: Nanos,
    /// The limit when it registered, until it is told that there is less; 0 = none.
    brought: u64,
    /// The least and the most that the instance can have, as that registration has them.
    asked_bounds: Bounds,
    /// The same, as they are now, if they differ from those that are registered.
    is_outdated: bool,
    /// True if the instance knows that it is led.
    is_led: bool,
}

/// The least and the most that an instance can have.
type Bounds = [Vec<Amount>; 2];

/// The next step of an agent's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Registers with an orchestrator.
    Register,
    /// Waits for this time, as there is a lease.
    Wait(Nanos),
}

/// The time of a lease, which is an hour at most: nobody else leads the instance meanwhile.
fn lease(millis: u32) -> Nanos {
    Nanos::from(millis.min(control::LONGEST_LEASE_MILLIS)) * MILLI
}

impl<I: Instance> Agent<I> {
    /// An agent without a lease.
    pub fn new(config: AgentConfig, instance: I) -> Self {
        Self {
            config,
            instance,
            duty: Duty::default(),
            reports: Reports::default(),
            name: String::new(),
            incarnation: 0,
            asked_at: 0,
            brought: 0,
            asked_bounds: Bounds::default(),
            is_outdated: false,
            is_led: false,
        }
    }

    /// The instance.
    pub fn instance(&self) -> &I {
        &self.instance
    }

    /// Says whether it is time to register: there is no lease, or the instance can have more or
    /// less than was registered. Tells the instance if its lease is over.
    pub fn next(&mut self, now: Nanos) -> Next {
        let left = self.duty.lease_left(now);
        self.note_led(left > 0);
        if left > 0 && !self.is_outdated { Next::Wait(left) } else { Next::Register }
    }

    /// Returns whether there was a lease when that was looked at last.
    pub fn is_led(&self) -> bool {
        self.is_led
    }

    /// The term of the latest leader that was followed; 0 = none.
    pub fn term(&self) -> u64 {
        self.duty.leader().term
    }

    fn note_led(&mut self, is_led: bool) {
        if std::mem::replace(&mut self.is_led, is_led) != is_led {
            self.instance.set_led(is_led);
        }
    }

    /// Begins to register.
    ///
    /// # Errors
    /// If the instance does not answer.
    pub fn registration(&mut self, now: Nanos) -> Result<RegisterRequest, InstanceError> {
        let look = self.instance.look()?;
        self.note_incarnation(look.instance.incarnation);
        self.name.clone_from(&look.instance.name);
        self.asked_at = now;
        self.asked_bounds = [look.least.clone(), look.most.clone()];
        self.brought = amounts::memory(&look.limits);
        Ok(RegisterRequest {
            revision: control::REVISION,
            instance: Some(look.instance.clone()),
            session: self.config.session,
            address: self.config.address.clone(),
            holding: Some(self.holding(&look)),
            least: look.least,
            most: look.most,
            seen_term: self.duty.leader().term,
        })
    }

    /// Has the answer to the registration that was begun last. Returns false if it is refused by
    /// one who does not lead any more.
    pub fn registered(&mut self, response: &RegisterResponse) -> bool {
        let leader = response.leader.unwrap_or_default();
        let is_accepted = response.standing() == Standing::Accepted && self.duty.follow(leader);
        if is_accepted {
            self.duty.renew(self.asked_at + lease(response.lease_millis));
            self.note_led(true);
            self.is_outdated = false;
        }
        is_accepted
    }

    /// The request by which the instance leaves, as it ends.
    pub fn departure(&self) -> LeaveRequest {
        LeaveRequest { name: self.name.clone(), incarnation: self.incarnation, session: self.config.session }
    }

    /// The session in an answer. It is a secret between this agent and those who were told it: with
    /// it anybody could lead the instance, so that others get 0.
    fn session_for(&self, asked: u64) -> u64 {
        if asked == self.config.session { asked } else { 0 }
    }

    /// Answers what changed, and has its lease renewed.
    ///
    /// # Errors
    /// If the instance does not answer: the lease is not renewed then.
    pub fn stats(&mut self, request: &StatsRequest, now: Nanos) -> Result<StatsResponse, InstanceError> {
        let leader = request.leader.unwrap_or_default();
        let is_led = request.session == self.config.session && self.duty.follow(leader);
        let session = self.session_for(request.session);
        let mut response = StatsResponse { session, ..StatsResponse::default() };
        if is_led {
            let look = self.instance.look()?;
            if self.note_incarnation(look.instance.incarnation) {
                // Who was registered is not there any more.
                self.duty.give_up();
            } else {
                self.duty.renew(now + lease(request.lease_millis));
                self.note_led(self.duty.lease_left(now) > 0);
                self.is_outdated = differ(&self.asked_bounds, &[&look.least, &look.most]);
                response.accepted = true;
                response.holding = Some(self.holding(&look));
                self.reports.write(&look.pools, request.known, &mut response);
            }
        }
        response.leader = Some(self.duty.leader());
        response.lease_left_millis = self.lease_left_millis(now);
        Ok(response)
    }

    /// Sets limits, if nothing later was carried out (invariants 1 and 2).
    ///
    /// # Errors
    /// If the instance does not say what it has now.
    pub fn resize(&mut self, request: &ResizeRequest, now: Nanos) -> Result<ResizeResponse, InstanceError> {
        let leader = request.leader.unwrap_or_default();
        let session = self.session_for(request.session);
        let mut response = ResizeResponse { session, ..ResizeResponse::default() };
        if request.session == self.config.session && self.duty.obeys(leader, now) {
            if self.duty.begin(request)
                && let Err(error) = self.instance.resize(&request.limits, &request.grants)
            {
                response.failure = control::access::causes(&error);
            }
            self.note_limit(amounts::memory(&request.limits));
            let look = self.instance.look()?;
            if self.note_incarnation(look.instance.incarnation) {
                self.duty.give_up();
            } else {
                response.accepted = true;
                response.holding = Some(self.holding(&look));
            }
        }
        response.leader = Some(self.duty.leader());
        response.lease_left_millis = self.lease_left_millis(now);
        Ok(response)
    }

    /// Logs the first limit that is much lower than the one that it brought.
    fn note_limit(&mut self, limit: u64) {
        if limit > 0 && limit < self.brought - self.brought / LOWER_PART {
            let [from, to] = [self.brought, limit].map(ByteSize::new);
            tracing::info!(%from, %to, "The instance has less memory than it came with, as others share it.");
            self.brought = 0;
        }
    }

    /// Returns whether the instance is another one than was registered.
    fn note_incarnation(&mut self, now: u64) -> bool {
        let before = std::mem::replace(&mut self.incarnation, now);
        let is_another = before != 0 && before != now;
        if is_another {
            self.reports = Reports::default();
        }
        is_another
    }

    fn holding(&self, look: &Look) -> Holding {
        let (term, sequence) = self.duty.done();
        Holding { limits: look.limits.clone(), used: look.used.clone(), term, sequence }
    }

    fn lease_left_millis(&self, now: Nanos) -> u32 {
        u32::try_from(self.duty.lease_left(now) / MILLI).unwrap_or(u32::MAX)
    }
}

/// Returns whether bounds differ by more than is worth a registration: those of some instances
/// change a little with each report.
fn differ(before: &Bounds, now: &[&Vec<Amount>; 2]) -> bool {
    let differs = |before: &Amount, now: &Amount| {
        before.resource != now.resource
            || before.units.abs_diff(now.units) > before.units.max(now.units) / BOUND_PART
    };
    before.iter().zip(now).any(|(before, now)| {
        before.len() != now.len() || before.iter().zip(now.iter()).any(|(before, now)| differs(before, now))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::amounts;
    use control::v1::{Instance as Named, Leader, PoolGrant};

    const LEADER: Leader = Leader { term: 1, id: 9 };
    const LEASE: Nanos = 1_000 * MILLI;

    /// A server that can be restarted.
    #[derive(Debug, Default)]
    struct Model {
        incarnation: u64,
        limit: u64,
        least: u64,
        resizes: u32,
        led: Vec<bool>,
    }

    impl Instance for Model {
        fn look(&mut self) -> Result<Look, InstanceError> {
            let instance = Named { incarnation: self.incarnation, ..Named::default() };
            let (limits, least) = (amounts::of_memory(self.limit), amounts::of_memory(self.least));
            Ok(Look { instance, limits, least, ..Look::default() })
        }

        fn resize(&mut self, limits: &[Amount], _: &[PoolGrant]) -> Result<(), InstanceError> {
            (self.limit, self.resizes) = (amounts::memory(limits), self.resizes + 1);
            Ok(())
        }

        fn set_led(&mut self, is_led: bool) {
            self.led.push(is_led);
        }
    }

    fn agent() -> Agent<Model> {
        let config = AgentConfig { address: "here:1".to_owned(), session: 5 };
        Agent::new(config, Model { incarnation: 1, limit: 10, ..Model::default() })
    }

    fn stats(lease: Nanos) -> StatsRequest {
        let lease_millis = u32::try_from(lease / MILLI).expect("short");
        StatsRequest { leader: Some(LEADER), session: 5, lease_millis, known: 0 }
    }

    fn resize(sequence: u64, limit: u64) -> ResizeRequest {
        let limits = amounts::of_memory(limit);
        ResizeRequest { leader: Some(LEADER), session: 5, sequence, limits, ..ResizeRequest::default() }
    }

    #[test]
    fn limits_are_set_during_a_lease_once_and_in_order() {
        let mut agent = agent();
        assert!(!agent.resize(&resize(1, 20), 0).unwrap().accepted, "there is no lease");
        assert!(agent.stats(&stats(LEASE), 0).unwrap().accepted);
        for (sequence, limit, now) in [(2, 20, 1), (2, 20, 2), (1, 30, 3)] {
            let answer = agent.resize(&resize(sequence, limit), now).unwrap();
            let holding = answer.holding.expect("what it has");
            assert_eq!((amounts::memory(&holding.limits), holding.sequence), (20, 2));
        }
        assert_eq!(agent.instance().resizes, 1);
        assert!(!agent.resize(&resize(3, 40), LEASE).unwrap().accepted, "the lease is over");
        assert_eq!(agent.next(LEASE), Next::Register);
        assert_eq!(agent.instance().led, [true, false]);
    }

    #[test]
    fn a_question_without_a_lease_is_answered_and_leads_nothing() {
        let mut agent = agent();
        let answer = agent.stats(&stats(0), 7).unwrap();
        assert!(answer.accepted && answer.holding.is_some());
        assert_eq!((agent.next(7), agent.is_led()), (Next::Register, false));
        assert!(agent.instance().led.is_empty());
    }

    #[test]
    fn a_server_that_was_restarted_registers_again() {
        let mut agent = agent();
        agent.stats(&stats(LEASE), 0).unwrap();
        agent.instance.incarnation = 2;
        assert!(!agent.resize(&resize(1, 20), 1).unwrap().accepted);
        assert!(!agent.resize(&resize(2, 30), 2).unwrap().accepted, "the lease was given up");
        assert_eq!(agent.next(3), Next::Register);
        let named = agent.registration(3).unwrap().instance.expect("it has a name");
        assert_eq!(named.incarnation, 2);
    }

    #[test]
    fn requests_to_another_agent_change_nothing() {
        let mut agent = agent();
        agent.stats(&stats(LEASE), 0).unwrap();
        let other = ResizeRequest { session: 6, ..resize(1, 20) };
        let answer = agent.resize(&other, 1).unwrap();
        assert!(!answer.accepted && answer.session == 0);
        assert!(!agent.stats(&StatsRequest { session: 6, ..stats(LEASE) }, 1).unwrap().accepted);
        assert_eq!(agent.instance().limit, 10);
    }

    #[test]
    fn nobody_leads_for_longer_than_an_hour_without_asking() {
        let mut agent = agent();
        let answer = agent.stats(&StatsRequest { lease_millis: u32::MAX, ..stats(LEASE) }, 0).unwrap();
        assert_eq!((answer.accepted, answer.lease_left_millis), (true, 3_600_000));
    }

    #[test]
    fn other_bounds_are_registered_again_during_the_lease() {
        let mut agent = agent();
        agent.instance.least = 1_600;
        let answer = RegisterResponse {
            standing: Standing::Accepted.into(),
            leader: Some(LEADER),
            lease_millis: 1_000,
            ..RegisterResponse::default()
        };
        let register = |agent: &mut Agent<Model>, now| {
            let least = amounts::memory(&agent.registration(now).unwrap().least);
            assert!(agent.registered(&answer));
            least
        };
        assert_eq!(register(&mut agent, 0), 1_600);
        agent.stats(&stats(LEASE), 1).unwrap();
        assert_eq!(agent.next(1), Next::Wait(LEASE));
        agent.instance.least = 1_650;
        agent.stats(&stats(LEASE), 2).unwrap();
        assert_eq!(agent.next(2), Next::Wait(LEASE), "about the same");
        agent.instance.least = 800;
        agent.stats(&stats(LEASE), 3).unwrap();
        assert_eq!((agent.next(3), agent.is_led()), (Next::Register, true), "the lease runs");
        assert_eq!(register(&mut agent, 3), 800);
        agent.stats(&stats(LEASE), 4).unwrap();
        assert_eq!(agent.next(4), Next::Wait(LEASE));
        assert_eq!(agent.instance().led, [true]);
    }
}
