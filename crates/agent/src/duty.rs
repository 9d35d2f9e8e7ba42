//! The leader, the lease and the order of the requests that an agent carries out.

use control::v1::{Leader, ResizeRequest};

use crate::Nanos;

/// The leaders, as far as an agent knows.
#[derive(Debug, Default)]
pub(crate) struct Duty {
    /// The latest known leader; term 0 = none.
    leader: Leader,
    lease_until: Nanos,
    /// The term and the sequence of the latest request that was carried out.
    done: (u64, u64),
}

impl Duty {
    pub(crate) fn leader(&self) -> Leader {
        self.leader
    }

    pub(crate) fn done(&self) -> (u64, u64) {
        self.done
    }

    /// The time that is left of the lease.
    pub(crate) fn lease_left(&self, now: Nanos) -> Nanos {
        self.lease_until.saturating_sub(now)
    }

    /// Follows a leader. Returns false if a later one is known, or another one of the same term.
    pub(crate) fn follow(&mut self, leader: Leader) -> bool {
        let is_later = control::is_later_term(leader.term, self.leader.term);
        if is_later {
            // The lease of the former leader is void.
            (self.leader, self.lease_until) = (leader, 0);
        }
        is_later || leader == self.leader && leader.term > 0
    }

    /// Has a lease of the present leader until then.
    pub(crate) fn renew(&mut self, until: Nanos) {
        self.lease_until = self.lease_until.max(until);
    }

    /// Gives the lease back, as the instance is another one now.
    pub(crate) fn give_up(&mut self) {
        self.lease_until = 0;
    }

    /// Returns whether a request is the leader's who gave the lease.
    pub(crate) fn obeys(&self, leader: Leader, now: Nanos) -> bool {
        leader == self.leader && leader.term > 0 && now < self.lease_until
    }

    /// Returns whether a request, which it obeys, is to be carried out: it was not yet, nor was a
    /// later one.
    pub(crate) fn begin(&mut self, request: &ResizeRequest) -> bool {
        let at = (self.leader.term, request.sequence);
        let is_new = at > self.done;
        self.done = self.done.max(at);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(term: u64, id: u64) -> Leader {
        Leader { term, id }
    }

    #[test]
    fn a_later_term_supersedes_and_ends_the_lease() {
        let mut duty = Duty::default();
        assert!(!duty.follow(leader(0, 1)), "term 0 is nobody's");
        assert!(duty.follow(leader(1, 1)));
        duty.renew(100);
        assert!(duty.obeys(leader(1, 1), 99) && !duty.obeys(leader(1, 1), 100));
        assert!(!duty.follow(leader(1, 2)), "there is one leader in a term");
        assert!(duty.follow(leader(2, 2)));
        assert!(!duty.obeys(leader(1, 1), 50) && !duty.obeys(leader(2, 2), 50));
        assert!(!duty.follow(leader(1, 1)));
        assert!(!duty.follow(leader(u64::MAX, 3)), "there cannot have been so many terms");
        assert!(duty.follow(leader(2 + (1 << 32), 3)));
    }

    #[test]
    fn a_request_is_carried_out_once_and_in_order_also_over_terms() {
        let mut duty = Duty::default();
        let request = |sequence| ResizeRequest { sequence, ..ResizeRequest::default() };
        duty.follow(leader(1, 1));
        assert!(duty.begin(&request(5)));
        assert!(!duty.begin(&request(5)) && !duty.begin(&request(4)));
        duty.follow(leader(2, 2));
        assert!(duty.begin(&request(1)), "each leader counts anew");
        assert_eq!(duty.done(), (2, 1));
    }
}
