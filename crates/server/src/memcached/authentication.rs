//! Who a memcached client is, where it must say so: as memcached with `-Y`, by a first `set` of any key whose value is `user password`.
//!
//! memcached's commands have no rules of their own, so who speaks it must be allowed everything. The binary protocol has no way in here.

use millpond::ReadHandle;
use protocol::memcached::Reply;
use protocol::memcached::binary::REQUEST_MAGIC;

use super::Session;
use crate::metrics::Counter;
use crate::net::{Output, Peer};
use crate::session::{Next, Turn};
use crate::shared::Shared;

/// The longest line, and the longest value, of one who is not known.
const MAX_BYTES: usize = 1024;
const FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
const UNKNOWN: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";

/// What stands at the front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim<'i> {
    /// Not yet a whole claim.
    Partial,
    /// None.
    None,
    Is {
        user: &'i [u8],
        password: &'i [u8],
        consumed: usize,
    },
}

fn claim(input: &[u8]) -> Claim<'_> {
    let Some(end) = input.iter().take(MAX_BYTES).position(|byte| *byte == b'\n') else {
        return if input.len() < MAX_BYTES { Claim::Partial } else { Claim::None };
    };
    let line = input.get(..end).unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let (name, len) = (words.next(), words.nth(3));
    let len = len.and_then(|len| std::str::from_utf8(len).ok()?.parse::<usize>().ok());
    let Some(len) = len.filter(|len| *len <= MAX_BYTES && name == Some(b"set")) else { return Claim::None };
    let behind = input.get(end + 1..).unwrap_or_default();
    let (Some(value), Some(tail)) = (behind.get(..len), behind.get(len..len + 2)) else {
        return Claim::Partial;
    };
    let Some(space) = value.iter().position(|byte| *byte == b' ').filter(|_| tail == b"\r\n") else {
        return Claim::None;
    };
    let (user, rest) = value.split_at(space);
    let password = rest.get(1..).unwrap_or_default();
    // Clients that end their password with a line end mean it without.
    let password = password.strip_suffix(b"\r\n").unwrap_or(password);
    Claim::Is { user, password, consumed: end + 1 + len + 2 }
}

impl<'c> Session<'c> {
    /// Answers one who is not known, or not allowed everything: only saying who it is helps.
    pub(super) fn ask_who(
        &mut self,
        shared: &Shared,
        input: &[u8],
        output: &mut Output<ReadHandle<'c>>,
    ) -> Turn {
        let closed =
            |answered| Turn { consumed: input.len(), answered, next: Next::Close(Counter::ClosedRefused) };
        if input.first() == Some(&REQUEST_MAGIC) {
            self.account.counters.add(Counter::RefusedNobody, 1);
            return closed(0);
        }
        let Claim::Is { user, password, consumed } = claim(input) else {
            if claim(input) == Claim::Partial {
                return Turn { consumed: 0, answered: 0, next: Next::Input };
            }
            self.account.counters.add(Counter::RefusedNobody, 1);
            output.write(UNKNOWN);
            return closed(1);
        };
        if self.become_user(shared, user, password) {
            output.write(Reply::Stored.as_bytes());
            return Turn { consumed, answered: 1, next: Next::Turn };
        }
        self.account.counters.add(Counter::RefusedPassword, 1);
        output.write(FAILED);
        Turn { consumed, answered: 1, next: Next::Turn }
    }

    /// Makes the connection that user's and its tenant's, if that is the password and the user may do everything.
    fn become_user(&mut self, shared: &Shared, name: &[u8], password: &[u8]) -> bool {
        let from = match self.info.peer {
            Peer::Tcp(address) => Some(address.ip()),
            Peer::Unix => None,
        };
        let now = shared.clock.monotonic_nanos();
        let user = shared.users.authenticate(name, password, from, now);
        let Some(user) = user.ok().filter(|user| user.rules.is_everything()) else { return false };
        if let Some(tenant) = shared.directory().tenant(&user.tenant) {
            let account = self.info.listener.account(tenant);
            if !std::sync::Arc::ptr_eq(&account, &self.account) {
                if tenant.open().is_err() {
                    return false;
                }
                self.account.tenant.close();
                self.info.named().tenant.clone_from(&tenant.name);
                self.account = account;
            }
        }
        self.info.named().user.clone_from(&user.name);
        self.identity.become_user(user);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_set_with_two_words() {
        let is = |user, password, consumed| Claim::Is { user, password, consumed };
        assert_eq!(claim(b"set k 0 0 6\r\nbob pw\r\nget"), is(b"bob", b"pw", 21));
        assert_eq!(claim(b"set k 0 0 8\r\nbob pw\r\n\r\n"), is(b"bob", b"pw", 23));
        assert_eq!(claim(b"set k 0 0 9\r\nbob p w x\r\n"), is(b"bob", b"p w x", 24));
        for partial in [&b""[..], b"set k 0 0 6", b"set k 0 0 6\r\nbob p", b"set k 0 0 6\r\nbob pw\r"] {
            assert_eq!(claim(partial), Claim::Partial, "{partial:?}");
        }
        for none in [
            &b"get k\r\n"[..],
            b"set k 0 0 x\r\n",
            b"set k 0 0 3\r\nbob\r\n",
            b"set k 0 0 9999\r\n",
            &[b'x'; 1024],
        ] {
            assert_eq!(claim(none), Claim::None, "{none:?}");
        }
    }
}
