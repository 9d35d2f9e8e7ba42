//! The bounds of what agents say of themselves: names, addresses, terms and their number.

use control::v1::{Instance, RegisterRequest};

use crate::Nanos;
use crate::exchange::Key;
use crate::fleet::Fleet;
use crate::names::is_hidden;

/// The longest name or address of an instance, in bytes.
const LONGEST_NAME: usize = 256;
/// Most instances that are counted.
pub(crate) const MOST_INSTANCES: usize = 10_000;

impl Fleet {
    /// The instance of a registration that can be accepted.
    pub(crate) fn checked(&self, request: &RegisterRequest) -> Result<Instance, String> {
        if request.revision != control::REVISION {
            let (theirs, ours) = (request.revision, control::REVISION);
            return Err(format!(
                "the agent speaks revision {theirs} of the format, and this orchestrator {ours}: update the older one"
            ));
        }
        let instance = request.instance.clone().unwrap_or_default();
        if instance.name.is_empty() || request.session == 0 || request.address.is_empty() {
            return Err("a registration needs a name, a session and an address".to_owned());
        }
        let words = [&instance.name, &instance.node, &instance.kind, &instance.version, &request.address];
        if words.iter().any(|word| word.len() > LONGEST_NAME || word.chars().any(is_hidden)) {
            return Err(format!(
                "names and addresses have at most {LONGEST_NAME} bytes, and no control characters"
            ));
        }
        base::address::host_and_port(&request.address)
            .map_err(|error| format!("the agent's address: {error}"))?;
        if self.members.len() >= MOST_INSTANCES && self.members.get(&Key::of(&instance)).is_none() {
            return Err(format!(
                "the orchestrator counts {MOST_INSTANCES} instances, the most that it can: `millpond fleet forget` those \
                 that have ended"
            ));
        }
        if self.config.budget.of(&instance.node).is_none() {
            let node = &instance.node;
            return Err(format!(
                "the orchestrator has no memory for node {node:?}: add it to its configuration"
            ));
        }
        if request.seen_term > self.leader.term
            && !control::is_later_term(request.seen_term, self.leader.term)
        {
            return Err(format!("there cannot have been a term {}", request.seen_term));
        }
        Ok(instance)
    }

    /// Warns if the agent is new, and another one speaks for what seems to be the same server.
    pub(crate) fn warn_of_twin(&self, instance: &Instance, session: u64, now: Nanos) {
        // Agents that register again and again are not compared with all others.
        let is_new = self.members.get(&Key::of(instance)).is_none_or(|member| member.session != session);
        if is_new && let Some(other) = self.twin(instance, now) {
            let Instance { name, node, .. } = instance;
            tracing::warn!(
                name,
                other,
                node,
                "Two agents speak for what seems to be one server, which is counted twice: stop one of them, and \
                 `millpond fleet forget` its name."
            );
        }
    }

    /// The name of another instance of the node that is the same process, by what its agent says.
    fn twin(&self, instance: &Instance, now: Nanos) -> Option<&str> {
        if instance.incarnation == 0 {
            return None;
        }
        let is_twin = |other: &&Instance| {
            other.name != instance.name
                && (&other.node, &other.kind, other.incarnation)
                    == (&instance.node, &instance.kind, instance.incarnation)
        };
        let leased = self.members.values().filter(|member| member.is_leased(now));
        let twin = leased.map(|member| &member.instance).find(is_twin);
        twin.map(|twin| twin.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use control::v1::{Holding, PoolReport, StatsResponse};

    use super::*;
    use crate::hold::Hold;
    use crate::member::Member;

    #[test]
    fn what_an_agent_reports_of_a_pool_is_bounded() {
        let points = (1..=60_000_u64).map(|size| (size << 12, 1.0 / size as f64));
        let pool = PoolReport {
            id: 1,
            name: "\u{1b}c".to_owned(),
            curve: Some(control::curve::write(points)),
            ..PoolReport::default()
        };
        let held = Hold::of(&Holding::default());
        let mut member = Member::new(Instance::default(), "a:1".to_owned(), held);
        member.report(&StatsResponse { pools: vec![pool], ..StatsResponse::default() }, 1);
        let pool = &member.pools[&1];
        assert_eq!(pool.report.name, "?c");
        let points = pool.curve.as_ref().map_or(0, |curve| curve.points().len());
        assert!((2..=control::MOST_CURVE_POINTS + 1).contains(&points), "{points} points");
    }
}
