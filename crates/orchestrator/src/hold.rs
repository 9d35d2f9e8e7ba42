//! The most memory that an instance can have: what all sums are made of.
//!
//! A request to resize may be lost, late or carried out without the answer coming back. So what an
//! instance can have is the most of what it said last and of every request that it may yet carry
//! out.
//!
//! Invariants:
//! 1. The limit of the instance never exceeds [`Hold::held`], as long as no one else raises it.
//! 2. `held` falls only by what the instance itself said under this leader's term: whoever knows
//!    a term carries out nothing of an earlier one.

use std::collections::BTreeMap;

use control::amounts;
use control::v1::Holding;

/// The place of a request among all: its leader's term, and its sequence.
type At = (u64, u64);

/// The memory that an instance can have, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    limit: u64,
    used: u64,
    /// The request that was carried out last when the instance said so.
    at: At,
    /// The limits of requests that may yet be carried out.
    sent: BTreeMap<At, u64>,
    /// The most that an earlier orchestrator let it have, until the instance speaks for itself.
    before: u64,
}

impl Hold {
    /// Of an instance of which somebody says what it has.
    pub(crate) fn of(holding: &Holding) -> Self {
        let (limit, used) = (amounts::memory(&holding.limits), amounts::memory(&holding.used));
        Self { limit, used, at: (0, 0), sent: BTreeMap::new(), before: 0 }
    }

    /// Of an instance that an earlier orchestrator let have as much.
    pub(crate) fn remembered(bytes: u64) -> Self {
        Self { limit: 0, used: 0, at: (0, 0), sent: BTreeMap::new(), before: bytes }
    }

    /// The most that the instance can have.
    pub(crate) fn held(&self) -> u64 {
        let sent = self.sent.values().copied().max().unwrap_or(0);
        self.limit.max(self.used).max(sent).max(self.before)
    }

    /// The limit that it said last.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The memory that it uses, as it said last.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns whether a request may yet be carried out.
    pub(crate) fn is_open(&self) -> bool {
        !self.sent.is_empty()
    }

    /// The limit that was asked for last, if it is not known yet whether it was set; else the
    /// limit.
    pub(crate) fn asked(&self) -> u64 {
        self.sent.last_key_value().map_or(self.limit, |(_, &limit)| limit)
    }

    /// The last statement of the instance.
    #[cfg(test)]
    pub(crate) fn as_said(&self) -> Holding {
        let (limits, used) = (amounts::of_memory(self.limit), amounts::of_memory(self.used));
        Holding { limits, used, term: self.at.0, sequence: self.at.1 }
    }

    /// Notes a request before it is sent. It stands for earlier ones that ask for no more, which
    /// end with it.
    pub(crate) fn send(&mut self, at: At, limit: u64) {
        self.sent.retain(|earlier, asked| *earlier > at || *asked > limit);
        self.sent.insert(at, limit);
    }

    /// Takes the answer of the instance to a request of `term`.
    pub(crate) fn confirm(&mut self, holding: &Holding, term: u64) {
        let at = (holding.term, holding.sequence);
        if at < self.at {
            // Said before it carried out what it has confirmed since.
            return;
        }
        self.at = at;
        (self.limit, self.used) = (amounts::memory(&holding.limits), amounts::memory(&holding.used));
        self.sent.retain(|&of, _| of.0 >= term && of > at);
        self.before = 0;
    }

    /// Another agent speaks for the instance from now on, and the former has no lease any more: so
    /// nothing that was sent to that one is carried out.
    pub(crate) fn begin_session(&mut self, holding: &Holding) {
        self.witness(holding);
        self.sent.clear();
        self.at = (0, 0);
    }

    /// Takes a statement that was not asked for: the instance may carry out other requests
    /// meanwhile.
    pub(crate) fn witness(&mut self, holding: &Holding) {
        self.before = self.held().max(amounts::memory(&holding.limits)).max(amounts::memory(&holding.used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(limit: u64, used: u64, sequence: u64) -> Holding {
        let (limits, used) = (amounts::of_memory(limit), amounts::of_memory(used));
        Holding { limits, used, term: 1, sequence }
    }

    #[test]
    fn a_request_counts_until_it_is_known_not_to_be_carried_out() {
        let mut hold = Hold::of(&holding(100, 80, 0));
        hold.send((1, 1), 200);
        assert_eq!(hold.held(), 200);
        hold.confirm(&holding(100, 90, 0), 1);
        assert_eq!(hold.held(), 200, "it may be under way");
        hold.send((1, 2), 120);
        hold.confirm(&holding(120, 90, 2), 1);
        assert_eq!((hold.held(), hold.is_open()), (120, false), "the first would be too late");
    }

    #[test]
    fn requests_that_are_not_answered_do_not_pile_up() {
        let mut hold = Hold::of(&holding(100, 80, 0));
        (1..1_000).for_each(|sequence| hold.send((1, sequence), 200));
        assert_eq!((hold.sent.len(), hold.held()), (1, 200));
        hold.send((1, 1_000), 120);
        assert_eq!((hold.sent.len(), hold.held()), (2, 200), "the larger one may be under way");
        hold.confirm(&holding(120, 90, 1_000), 1);
        assert_eq!((hold.held(), hold.is_open()), (120, false));
    }

    #[test]
    fn memory_that_a_lowered_limit_has_not_freed_counts() {
        let mut hold = Hold::of(&holding(100, 100, 0));
        hold.send((1, 1), 50);
        hold.confirm(&holding(50, 100, 1), 1);
        assert_eq!(hold.held(), 100);
        hold.confirm(&holding(50, 50, 1), 1);
        assert_eq!(hold.held(), 50);
    }

    #[test]
    fn what_was_said_earlier_and_comes_later_is_not_believed() {
        let mut hold = Hold::of(&holding(100, 0, 0));
        hold.send((1, 1), 300);
        hold.confirm(&holding(300, 100, 1), 1);
        hold.confirm(&holding(100, 100, 0), 1);
        assert_eq!(hold.held(), 300);
    }

    #[test]
    fn what_an_earlier_leader_allowed_counts_until_the_instance_answers() {
        let mut hold = Hold::remembered(400);
        hold.witness(&holding(100, 50, 7));
        assert_eq!(hold.held(), 400, "it may not have heard of the new leader yet");
        hold.confirm(&Holding { term: 1, ..holding(150, 50, 8) }, 2);
        assert_eq!(hold.held(), 150);
    }
}
