//! The way from the limits that are to those that were decided.

use control::amounts;
use control::v1::ResizeRequest;

use crate::Nanos;
use crate::exchange::{Call, Key, Request};
use crate::fleet::Fleet;
#[cfg(test)]
use crate::fleet::Planted;
use crate::member::Member;

/// Memory that donors have to free moves in steps of one byte in this many of a node's memory.
const CHUNK_PART: u64 = 64;
/// An instance has filled what it has if all but one byte in this many is used.
const FILLED_PART: u64 = 8;

impl Fleet {
    /// The memory that the instances of a node may have together.
    pub(crate) fn memory(&self, node: &str) -> u64 {
        let all = match self.led.as_ref().filter(|led| led.node == node) {
            None => self.config.budget.of(node).unwrap_or(0),
            Some(led) => match led.in_force() {
                // None was set: with what they have, nothing is raised, nor lowered to fit.
                None => return self.held(node),
                Some(bytes) => bytes,
            },
        };
        all.saturating_sub(self.spare())
    }

    /// The memory of each node that no instance gets.
    pub(crate) fn spare(&self) -> u64 {
        self.config.budget.spare
    }

    /// Returns whether limits on a node may be raised.
    pub(crate) fn may_raise(&self, node: &str, now: Nanos) -> bool {
        let is_unset = self.led.as_ref().is_some_and(|led| led.node == node && led.in_force().is_none());
        now >= self.raises_from && !is_unset
    }

    /// Asks again those of a node that have not answered an earlier request, so that it is known
    /// what they have: for nothing beyond what they can have already.
    pub(crate) fn repeat(&mut self, node: &str, now: Nanos) -> Vec<Call> {
        let open = self.members.on(node).filter(|(_, member)| member.is_present && member.hold.is_open());
        let limits = open.map(|(key, member)| {
            let target = member.target.unwrap_or(member.hold.limit());
            (key.clone(), target.min(member.hold.held()))
        });
        let limits = limits.collect();
        self.resize_all(node, limits, now)
    }

    /// Brings the limits of a node nearer to those that were decided: lowers those of donors as far
    /// as receivers have filled what they have, and raises those of receivers by what nobody can
    /// have.
    pub(crate) fn advance(&mut self, node: &str, now: Nanos) -> Vec<Call> {
        let limits = self.steps(node, now);
        self.resize_all(node, limits, now)
    }

    /// Tells instances of a node whose limit stays that their pools are to have other parts of it.
    /// Once in a round is enough: this looks at all pools.
    pub(crate) fn share_out(&mut self, node: &str, now: Nanos) -> Vec<Call> {
        let others = self.members.on(node).filter(|(_, member)| {
            member.is_present && !member.hold.is_open() && member.target.is_some() && member.grants_differ()
        });
        let limits = others.map(|(key, member)| (key.clone(), member.hold.limit())).collect();
        self.resize_all(node, limits, now)
    }

    fn resize_all(&mut self, node: &str, limits: Vec<(Key, u64)>, now: Nanos) -> Vec<Call> {
        if limits.is_empty() {
            return Vec::new();
        }
        let mut held = self.held(node);
        limits.into_iter().filter_map(|(key, limit)| self.resize(&key, limit, &mut held, now)).collect()
    }

    /// The limits of a node that are to be changed now.
    fn steps(&self, node: &str, now: Nanos) -> Vec<(Key, u64)> {
        let (memory, held) = (self.memory(node), self.held(node));
        let chunk = (memory / CHUNK_PART).max(1);
        let mut free = memory.saturating_sub(held);
        #[cfg(test)]
        if self.planted == Planted::GrowFirst {
            free = free.max(chunk);
        }
        let idle = self.members.on(node).filter(|(_, member)| member.is_present && !member.hold.is_open());
        let mut gaps: Vec<(&Key, &Member, u64)> =
            idle.filter_map(|(key, member)| Some((key, member, member.target?))).collect();
        // Those who lack most come first.
        let lacks = |member: &Member, target: u64| target.saturating_sub(member.hold.limit());
        gaps.sort_by(|a, b| lacks(b.1, b.2).cmp(&lacks(a.1, a.2)).then_with(|| a.0.cmp(b.0)));
        let may_raise = self.may_raise(node, now);
        let mut steps = Vec::new();
        let mut lacking = 0;
        for &(key, member, target) in &gaps {
            let limit = member.hold.limit();
            let wanted = target.saturating_sub(limit);
            if wanted == 0 || !may_raise {
                continue;
            }
            let given = wanted.min(free);
            // Less than that is not worth a request, unless it is all.
            let is_new = member.asked_limit != Some(limit + given);
            if is_new && (given == wanted || given >= chunk) {
                free -= given;
                steps.push((key.clone(), limit + given));
            } else if member.hold.used() >= limit - limit / FILLED_PART {
                lacking = wanted.min(chunk).saturating_sub(given).saturating_add(lacking);
            }
        }
        // What is on its way to be free already, and what there is not.
        let coming: u64 = self
            .members
            .on(node)
            .filter(|(_, member)| member.is_present)
            .map(|(_, member)| member.hold.held().saturating_sub(member.hold.asked()))
            .fold(0, u64::saturating_add);
        let mut needed = lacking.saturating_add(held.saturating_sub(memory)).saturating_sub(coming);
        for &(key, member, target) in gaps.iter().rev() {
            let surplus = member.hold.limit().saturating_sub(target).min(needed);
            if surplus > 0 && member.asked_limit != Some(member.hold.limit() - surplus) {
                needed -= surplus;
                steps.push((key.clone(), member.hold.limit() - surplus));
            }
        }
        steps
    }

    /// The request to set a limit. Whatever the caller wants, it allows no more than nobody can
    /// have (invariant 1). `held` is the most that the instances of the node can have, and is kept
    /// true.
    fn resize(&mut self, key: &Key, limit: u64, held: &mut u64, now: Nanos) -> Option<Call> {
        let memory = self.memory(&self.members.get(key)?.instance.node);
        let at = (self.leader.term, self.sequence + 1);
        let member = self.members.get_mut(key)?;
        let others = *held - member.hold.held();
        let most = memory.saturating_sub(others).max(member.hold.held());
        #[cfg(test)]
        let most = if self.planted == Planted::GrowFirst { u64::MAX } else { most };
        let limit = limit.min(most);
        member.hold.send(at, limit);
        *held = others.saturating_add(member.hold.held());
        member.asked_limit = Some(limit);
        member.note_told_grants();
        self.sequence += 1;
        let request = ResizeRequest {
            leader: Some(self.leader),
            session: member.session,
            sequence: self.sequence,
            limits: amounts::of_memory(limit),
            grants: member.grants(),
        };
        Some(member.call(key, Request::Resize(request), now))
    }
}
