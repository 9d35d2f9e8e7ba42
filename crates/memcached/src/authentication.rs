//! Authentication of memcached clients: as memcached with `-Y`, by a first `set` of any key whose
//! value is `user password`.
//!
//! If `default` has permissions without a password, a client authenticates with a `set` that
//! `default` may not carry out ([`super::permission`]). The binary protocol has no authentication.

use frontend::output::Output;
use frontend::shared::Shared;
use frontend::turn::{Next, Turn};
use millpond::ReadHandle;
use protocol::http;
use protocol::memcached::Reply;
use protocol::memcached::binary::REQUEST_MAGIC;
use tenancy::metrics::Counter;
use tenancy::users::Delay;

use super::Session;

/// The longest line, and the longest value, of an unauthenticated client.
const MAX_BYTES: usize = 1024;
const FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
const UNKNOWN: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
const NO_END: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
const NO_PAIR: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";

/// The request at the front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthRequest<'i> {
    /// Not yet a whole claim.
    Partial,
    /// No claim, for this reason and in this many bytes. The client may try again.
    Invalid(&'static [u8], usize),
    /// More than a claim can be.
    TooLong,
    /// A request of HTTP.
    Http,
    /// A claim, in this many bytes.
    Complete(Credentials<'i>, usize),
}

/// The user and password that a client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Credentials<'i> {
    user: &'i [u8],
    password: &'i [u8],
}

impl<'i> Credentials<'i> {
    /// Reads `user password`.
    pub(super) fn of(value: &'i [u8]) -> Option<Self> {
        let space = value.iter().position(|byte| *byte == b' ')?;
        let (user, rest) = value.split_at_checked(space)?;
        let password = rest.get(1..)?;
        // Clients that end their password with a line end mean it without.
        Some(Self { user, password: password.strip_suffix(b"\r\n").unwrap_or(password) })
    }
}

fn parse_auth_request(input: &[u8]) -> AuthRequest<'_> {
    let Some(end) = input.iter().take(MAX_BYTES).position(|byte| *byte == b'\n') else {
        return if input.len() < MAX_BYTES { AuthRequest::Partial } else { AuthRequest::TooLong };
    };
    let line = input.get(..end).unwrap_or_default();
    let words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    if http::is_line(words.clone()) {
        return AuthRequest::Http;
    }
    let mut words = words;
    let (name, len) = (words.next(), words.nth(3));
    let len = len.and_then(|len| std::str::from_utf8(len).ok()?.parse::<usize>().ok());
    let Some(len) = len.filter(|_| name == Some(b"set")) else {
        return AuthRequest::Invalid(UNKNOWN, end + 1);
    };
    if len > MAX_BYTES {
        return AuthRequest::TooLong;
    }
    let behind = input.get(end + 1..).unwrap_or_default();
    let (Some(value), Some(tail)) = (behind.get(..len), behind.get(len..len + 2)) else {
        return AuthRequest::Partial;
    };
    let consumed = end + 1 + len + 2;
    if tail != b"\r\n" {
        return AuthRequest::Invalid(NO_END, consumed);
    }
    Credentials::of(value).map_or(AuthRequest::Invalid(NO_PAIR, consumed), |credentials| {
        AuthRequest::Complete(credentials, consumed)
    })
}

impl<'c> Session<'c> {
    /// Answers an unauthenticated client, from which only authentication is accepted.
    pub(super) fn serve_unauthenticated(
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
        let (consumed, next) = match parse_auth_request(input) {
            AuthRequest::Partial => return Turn { consumed: 0, answered: 0, next: Next::Input },
            AuthRequest::Http => {
                self.account.counters.add(Counter::RefusedHttp, 1);
                shared.warn_of_http(&self.info);
                return closed(0);
            }
            AuthRequest::TooLong => {
                self.account.counters.add(Counter::RefusedNobody, 1);
                output.write(UNKNOWN);
                return closed(1);
            }
            AuthRequest::Invalid(answer, consumed) => {
                self.account.counters.add(Counter::RefusedNobody, 1);
                output.write(answer);
                (consumed, Next::Again)
            }
            AuthRequest::Complete(credentials, consumed) => {
                (consumed, self.authenticate(shared, credentials, output))
            }
        };
        Turn { consumed, answered: 1, next }
    }

    /// Answers a claim, and returns how to continue. Authenticates the client as the claimed user
    /// if the password is right.
    pub(super) fn authenticate(
        &mut self,
        shared: &Shared,
        credentials: Credentials<'_>,
        output: &mut Output<ReadHandle<'c>>,
    ) -> Next {
        let refused = match self.become_user(shared, credentials) {
            Ok(()) => {
                self.account.counters.add(Counter::LoggedIn, 1);
                output.write(Reply::Stored.as_bytes());
                return Next::Again;
            }
            Err(refused) => refused,
        };
        self.account.counters.add(Counter::RefusedPassword, 1);
        shared.note_refusal(&self.info, "toplevel", ("auth", b"AUTH".to_vec()), credentials.user);
        output.write(FAILED);
        refused.map_or(Next::Again, Next::Delay)
    }

    /// Makes the connection that user's and its tenant's, if that is the password.
    ///
    /// # Errors
    /// When to say that it is not; nothing where it is, and there is no room for the connection
    /// with the tenant.
    fn become_user(&mut self, shared: &Shared, credentials: Credentials<'_>) -> Result<(), Option<Delay>> {
        let from = self.info.peer.ip();
        let now = shared.clock.monotonic_nanos();
        let user =
            shared.users.authenticate(credentials.user, credentials.password, from, now).map_err(Some)?;
        if let Some(tenant) = shared.directory().tenant(&user.tenant) {
            let account = self.info.listener.accounts.account(tenant);
            self.info.turn(&mut self.account, account).map_err(|_| None)?;
        }
        self.info.named().user.clone_from(&user.name);
        self.identity.become_user(user);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_set_with_two_words() {
        let is = |user, password, consumed| AuthRequest::Complete(Credentials { user, password }, consumed);
        assert_eq!(parse_auth_request(b"set k 0 0 6\r\nbob pw\r\nget"), is(b"bob", b"pw", 21));
        assert_eq!(parse_auth_request(b"set k 0 0 8\r\nbob pw\r\n\r\n"), is(b"bob", b"pw", 23));
        assert_eq!(parse_auth_request(b"set k 0 0 9\r\nbob p w x\r\n"), is(b"bob", b"p w x", 24));
        for partial in [&b""[..], b"set k 0 0 6", b"set k 0 0 6\r\nbob p", b"set k 0 0 6\r\nbob pw\r"] {
            assert_eq!(parse_auth_request(partial), AuthRequest::Partial, "{partial:?}");
        }
        for (none, answer, consumed) in [
            (&b"get k\r\nset"[..], UNKNOWN, 7),
            (b"set k 0 0 x\r\n", UNKNOWN, 13),
            (b"set k 0 0\r\n", UNKNOWN, 11),
            (b"set k 0 0 3\r\nbob\r\n", NO_PAIR, 18),
            (b"set k 0 0 6\r\nbob pwxx", NO_END, 21),
        ] {
            assert_eq!(parse_auth_request(none), AuthRequest::Invalid(answer, consumed), "{none:?}");
        }
        for too_long in [&b"set k 0 0 9999\r\n"[..], &[b'x'; 1024]] {
            assert_eq!(parse_auth_request(too_long), AuthRequest::TooLong, "{too_long:?}");
        }
        assert_eq!(parse_auth_request(b"GET / HTTP/1.1\r\n"), AuthRequest::Http);
        assert_eq!(parse_auth_request(b"host: x\r\n"), AuthRequest::Http);
    }
}
