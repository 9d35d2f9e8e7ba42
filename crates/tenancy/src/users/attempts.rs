//! How late a wrong password is answered.
//!
//! Passwords are compared at once, and a right one is never refused or held up, whatever came from
//! the same address before. The answer to a wrong one is held back: for longer, the more wrong ones
//! were sent for that user or from that address lately. The connection does nothing meanwhile, so
//! that guesses that follow each other on it are slow.
//!
//! Memory is constant: each user and each address has a slot by a keyed hash, shared with whatever
//! else falls there. To share a slot means to wait for longer after a wrong password, and nothing
//! else.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{hash, rng};
use limit::Rate;

/// Wrong passwords that are answered at once: three of them, and one more each second.
const ATTEMPTS: Rate = Rate { per_sec: 1, burst_nanos: 4_000_000_000 };
/// The longest that an answer is held back.
const MAX_DELAY_NANOS: u64 = 10_000_000_000;
/// Slots for users, and for addresses.
const SLOTS: usize = 4_096;

/// When a wrong password is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delay {
    /// Not before this moment of the monotonic clock, in nanoseconds.
    pub until: u64,
    /// The connection is closed after the answer: too many others wait for one.
    pub closes: bool,
}

impl Delay {
    /// The later of two.
    pub fn max(self, other: Self) -> Self {
        Self { until: self.until.max(other.until), closes: self.closes | other.closes }
    }
}

/// See the module. Each slot holds the time at which its bucket is full again.
pub(crate) struct Attempts {
    seed: u64,
    users: Box<[AtomicU64]>,
    addresses: Box<[AtomicU64]>,
}

impl Default for Attempts {
    fn default() -> Self {
        let slots = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { seed: rng::entropy_seed(), users: slots(), addresses: slots() }
    }
}

impl Attempts {
    /// Counts a wrong password for `user` at `now`, and says when it is answered.
    pub(crate) fn note(&self, user: &[u8], from: Option<IpAddr>, now: u64) -> Delay {
        let delay = self.take(&self.users, user, now);
        match from {
            // A client with one address of the sixth version has all of its network.
            Some(IpAddr::V6(address)) => {
                let network = address.octets();
                delay.max(self.take(&self.addresses, network.get(..8).unwrap_or_default(), now))
            }
            Some(IpAddr::V4(address)) => delay.max(self.take(&self.addresses, &address.octets(), now)),
            None => delay,
        }
    }

    fn take(&self, slots: &[AtomicU64], key: &[u8], now: u64) -> Delay {
        let at = hash::key_hash(self.seed, key) as usize % SLOTS;
        let Some(slot) = slots.get(at) else { return Delay::default() };
        let most = now.saturating_add(ATTEMPTS.burst_nanos + MAX_DELAY_NANOS);
        let later = |full_at| Some(ATTEMPTS.take(full_at, now, 1).min(most));
        let before = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or(0);
        let full_at = ATTEMPTS.take(before, now, 1);
        Delay { until: now.saturating_add(ATTEMPTS.wait(full_at.min(most), now)), closes: full_at > most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn wrong_passwords_are_answered_ever_later_up_to_a_limit_and_again_at_once_after_a_while() {
        let attempts = Attempts::default();
        let from = Some(IpAddr::from([10, 0, 0, 1]));
        let until: Vec<u64> = (0..20).map(|_| attempts.note(b"bob", from, 0).until).collect();
        assert!(until[..3] == [0, 0, 0] && until[3] > 0 && until.is_sorted(), "{until:?}");
        assert_eq!((until[5] / SECOND, until[19] / SECOND), (2, 10), "{until:?}");
        assert!(attempts.note(b"bob", from, 0).closes);
        let now = 60 * SECOND;
        assert_eq!(attempts.note(b"bob", from, now), Delay { until: now, closes: false });
    }

    #[test]
    fn user_and_address_count_apart() {
        let attempts = Attempts::default();
        let from = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        for last in 0..9 {
            attempts.note(b"bob", from(last), 0);
        }
        assert!(attempts.note(b"bob", from(100), 0).until > 0, "many addresses guess at one user");
        let users: Vec<String> = (0..9).map(|number| format!("user{number}")).collect();
        for user in &users {
            attempts.note(user.as_bytes(), from(200), 0);
        }
        assert!(attempts.note(b"eve", from(200), 0).until > 0, "one address guesses at many users");
        let network = |host: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]));
        for host in 0..9 {
            attempts.note(format!("u{host}").as_bytes(), network(host), 0);
        }
        assert!(attempts.note(b"last", network(1000), 0).until > 0, "one network of the sixth version");
    }
}
