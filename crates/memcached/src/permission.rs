//! Permissions for memcached's commands, derived from the rules for the equivalent commands of
//! Redis.
//!
//! Rules name commands, categories and keys as Redis does, so that one set of rules holds for a
//! user in either protocol. Each request of memcached is checked as if its counterparts of Redis
//! had been sent; `docs/security.md` lists them. Requests that reveal nothing of keys or settings
//! and keep the wire in step (`version`, `mn`, the binary no-op, `quit`) need no permission.

use std::ops::ControlFlow;

use config::acl::{DEFAULT_USER, Denied};
use frontend::output::Output;
use frontend::turn::Next;
use millpond::ReadHandle;
use protocol::memcached::binary::{Head, Packet, Status, reply as binary_reply};
use protocol::memcached::{
    Direction, Key, KeyBuf, MetaCommand, MetaRequest, Request, StoreCommand, StoreHeader, Tokens, binary,
};
use protocol::resp::commands::Counterpart;
use tenancy::metrics::Counter;
use tenancy::users::User;

use super::active_turn::{ActiveTurn, key_of};
use super::authentication::Credentials;
use super::binary::key_of as binary_key_of;
use super::commands::Commands;
use super::wire::respond;

/// The commands that all must be allowed for a request.
type Counterparts = &'static [Counterpart];

const APPEND: Counterpart = Counterpart::new(&["append"]);
const CLIENT_LIST: Counterpart = Counterpart::new(&["client", "list"]);
const CONFIG_GET: Counterpart = Counterpart::new(&["config", "get"]);
const CONFIG_RESETSTAT: Counterpart = Counterpart::new(&["config", "resetstat"]);
const CONFIG_SET: Counterpart = Counterpart::new(&["config", "set"]);
const DECRBY: Counterpart = Counterpart::new(&["decrby"]);
const DEL: Counterpart = Counterpart::new(&["del"]);
const EXPIRE: Counterpart = Counterpart::new(&["expire"]);
const FLUSHALL: Counterpart = Counterpart::new(&["flushall"]);
const GET: Counterpart = Counterpart::new(&["get"]);
const GETEX: Counterpart = Counterpart::new(&["getex"]);
const INCRBY: Counterpart = Counterpart::new(&["incrby"]);
const INFO: Counterpart = Counterpart::new(&["info"]);
const KEYS: Counterpart = Counterpart::new(&["keys"]);
const OBJECT_IDLETIME: Counterpart = Counterpart::new(&["object", "idletime"]);
const SET: Counterpart = Counterpart::new(&["set"]);
const SETNX: Counterpart = Counterpart::new(&["setnx"]);

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    /// The counterpart that is not allowed, as rules name it.
    name: String,
    what: Denied,
}

impl Denial {
    fn text(&self) -> String {
        match self.what {
            Denied::Command => format!("this user has no permissions to run the '{}' command", self.name),
            Denied::Key(_) => {
                "this user has no permissions to access one of the keys used as arguments".to_owned()
            }
        }
    }
}

/// Checks that the user may call all of these commands with this key.
fn check(user: &User, counterparts: Counterparts, key: Option<&[u8]>) -> Result<(), Denial> {
    for counterpart in counterparts {
        let args: Vec<&[u8]> = counterpart.words().iter().map(|word| word.as_bytes()).chain(key).collect();
        let Some(spec) = counterpart.spec() else { continue };
        let denial = |what| Denial { name: spec.full_name(&args), what };
        user.rules.check(spec, &args).map_err(denial)?;
    }
    Ok(())
}

const fn of_arithmetic(direction: Direction) -> Counterparts {
    match direction {
        Direction::Increment => &[INCRBY],
        Direction::Decrement => &[DECRBY],
    }
}

const fn of_store(command: StoreCommand) -> Counterparts {
    match command {
        StoreCommand::Set | StoreCommand::Replace | StoreCommand::Cas => &[SET],
        StoreCommand::Add => &[SETNX],
        StoreCommand::Append | StoreCommand::Prepend => &[APPEND],
    }
}

fn of_meta(request: &MetaRequest<'_>) -> Counterparts {
    let (ends, creates) = (request.flags.ttl().is_some(), request.flags.vivify().is_some());
    match request.command {
        MetaCommand::Get => match (ends, creates) {
            (false, false) => &[GET],
            (true, false) => &[GETEX],
            (false, true) => &[GET, SET],
            (true, true) => &[GETEX, SET],
        },
        MetaCommand::Delete => &[DEL],
        MetaCommand::Arithmetic(direction) if !ends => of_arithmetic(direction),
        MetaCommand::Arithmetic(Direction::Increment) => &[INCRBY, EXPIRE],
        MetaCommand::Arithmetic(Direction::Decrement) => &[DECRBY, EXPIRE],
        MetaCommand::Debug => &[OBJECT_IDLETIME],
    }
}

fn of_stats(mut arguments: Tokens<'_>) -> Counterparts {
    match arguments.next() {
        Some(b"settings") => &[CONFIG_GET],
        Some(b"conns") => &[CLIENT_LIST],
        Some(b"reset") => &[CONFIG_RESETSTAT],
        Some(b"hotkeys" | b"cachedump" | b"detail") => &[KEYS],
        _ => &[INFO],
    }
}

fn of_request(request: &Request<'_>) -> Counterparts {
    match request {
        Request::Get(get) => {
            if get.touch.is_some() {
                &[GETEX]
            } else {
                &[GET]
            }
        }
        Request::Store(request) => of_store(request.header.command),
        Request::Delete(_) => &[DEL],
        Request::Arithmetic(request) => of_arithmetic(request.direction),
        Request::Touch(_) => &[EXPIRE],
        Request::Meta(request) => of_meta(request),
        Request::FlushAll { .. } => &[FLUSHALL],
        Request::Stats(arguments) => of_stats(*arguments),
        Request::Verbosity { .. } | Request::CacheMemlimit { .. } | Request::Shutdown(_) => &[CONFIG_SET],
        Request::Unsupported { name: b"lru_crawler", arguments } => {
            let mut arguments = *arguments;
            if matches!(arguments.next(), Some(b"metadump" | b"mgdump")) { &[KEYS] } else { &[CONFIG_SET] }
        }
        Request::Unsupported { .. } | Request::MetaNoop | Request::Version | Request::Quit => &[],
    }
}

fn of_binary(request: &binary::Request<'_>) -> Counterparts {
    match request {
        binary::Request::Get(get) => {
            if get.touch.is_some() {
                &[GETEX]
            } else {
                &[GET]
            }
        }
        binary::Request::Touch { .. } => &[EXPIRE],
        binary::Request::Store(store) => of_store(store.header.command),
        binary::Request::Delete { .. } => &[DEL],
        binary::Request::Arithmetic(request) => of_arithmetic(request.direction),
        binary::Request::Flush { .. } => &[FLUSHALL],
        binary::Request::Stat(arguments) => of_stats(*arguments),
        binary::Request::Noop | binary::Request::Version | binary::Request::Quit => &[],
    }
}

/// Returns whether the client wants no answer, not even an error.
const fn is_silent(request: &Request<'_>) -> bool {
    match request {
        Request::Store(request) => request.header.noreply,
        Request::Delete(request) => request.noreply,
        Request::Arithmetic(request) => request.noreply,
        Request::Touch(request) => request.noreply,
        Request::FlushAll { noreply, .. }
        | Request::Verbosity { noreply, .. }
        | Request::CacheMemlimit { noreply, .. } => *noreply,
        _ => false,
    }
}

impl<'c> Commands<'_, 'c> {
    fn denies(&self, counterparts: Counterparts, key: Option<Key<'_>>) -> Option<Denial> {
        let user = self.bound?;
        let mut scratch = KeyBuf::default();
        check(user, counterparts, key.as_ref().map(|key| key.bytes(&mut scratch))).err()
    }

    /// Returns the reason why the client may not have this request carried out, if it may not.
    fn denies_request(&self, request: &Request<'_>) -> Option<Denial> {
        let user = self.bound?;
        let counterparts = of_request(request);
        match request {
            Request::Get(get) => {
                let of_key = |key| check(user, counterparts, Some(key)).err();
                // Without a key it is the command alone.
                get.keys.map(Some).chain([None]).find_map(|key| match key {
                    Some(key) => of_key(key),
                    None => check(user, counterparts, None).err(),
                })
            }
            _ => self.denies(counterparts, key_of(request).flatten()),
        }
    }

    /// As [`Self::denies_request`], of a storage command whose data is still to come.
    pub(super) fn denies_store(&self, header: &StoreHeader<'_>) -> Option<Denial> {
        self.denies(of_store(header.command), Some(header.key))
    }

    /// Counts that something was refused, and keeps it for `ACL LOG`.
    fn note_denial(&self, denial: &Denial) {
        self.counters.add(Counter::RefusedPermission, 1);
        let Some(user) = self.bound else { return };
        let refused = match &denial.what {
            Denied::Command => ("command", denial.name.clone().into_bytes()),
            Denied::Key(key) => ("key", key.clone()),
        };
        self.shared.note_refusal(self.info, "toplevel", refused, user.name.as_bytes());
    }

    /// Answers a request of the text protocols that is not carried out.
    pub(super) fn answer_denied_line(
        &self,
        is_silent: bool,
        denial: &Denial,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        self.note_denial(denial);
        respond(output, is_silent, format!("CLIENT_ERROR {}\r\n", denial.text()).as_bytes());
    }

    /// Answers a request of the binary protocol that is not carried out.
    pub(super) fn answer_denied(&self, head: Head, denial: &Denial, output: &mut Output<ReadHandle<'c>>) {
        self.note_denial(denial);
        let text = denial.text();
        output.compose(|out| binary_reply::error_text(out, head, Status::NotAllowed, text.as_bytes()));
    }

    /// Returns the credentials in a `set` that is not allowed, if the `set` could be an attempt to
    /// authenticate: a client that is not authenticated may be trying to.
    fn credentials<'i>(&self, request: &Request<'i>) -> Option<Credentials<'i>> {
        let Request::Store(request) = request else { return None };
        let is_set = request.header.command == StoreCommand::Set && request.header.meta.is_none();
        let is_nobody = self.bound.is_some_and(|user| user.name == DEFAULT_USER);
        if is_set && is_nobody { Credentials::of(request.data) } else { None }
    }
}

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Refuses a request of `consumed` bytes that the client may not make. Goes on where it may
    /// make it, or else breaks with what ends the turn, if something does.
    pub(super) fn deny(&mut self, request: &Request<'i>, consumed: usize) -> ControlFlow<Option<Next>> {
        let Some(denial) = self.commands.denies_request(request) else { return ControlFlow::Continue(()) };
        if let Some(next) = self.answer_batch() {
            return ControlFlow::Break(Some(next));
        }
        self.position += consumed;
        self.answered += 1;
        *self.answered_keys = 0;
        self.credentials = self.commands.credentials(request);
        if self.credentials.is_some() {
            return ControlFlow::Break(Some(Next::Again));
        }
        self.commands.answer_denied_line(is_silent(request), &denial, self.output);
        ControlFlow::Break(None)
    }

    /// As [`Self::deny`], in the binary protocol, in which clients can't authenticate.
    pub(super) fn deny_binary(&mut self, packet: &Packet<'_>, consumed: usize) -> ControlFlow<Option<Next>> {
        let key = match &packet.request {
            binary::Request::Get(get) => Some(get.key),
            request => binary_key_of(request).flatten(),
        };
        let Some(denial) = self.commands.denies(of_binary(&packet.request), key) else {
            return ControlFlow::Continue(());
        };
        if let Some(next) = self.answer_batch() {
            return ControlFlow::Break(Some(next));
        }
        self.position += consumed;
        self.answered += 1;
        self.commands.answer_denied(packet.head, &denial, self.output);
        ControlFlow::Break(None)
    }
}

#[cfg(test)]
mod tests {
    use config::{Config, Secret, UserSettings};
    use protocol::memcached::{Limits, Parse, Parser};

    use super::*;
    use tenancy::users::Users;

    /// Returns the commands as which a request is checked.
    fn counterparts(line: &str) -> String {
        let text = format!("{line}\r\n");
        let mut parser = Parser::new(Limits::default());
        let Parse::Request { request, .. } = parser.parse(text.as_bytes()) else { panic!("{line}") };
        let of = of_request(&request);
        of.iter().map(|counterpart| counterpart.words().join("|")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_command_has_the_counterparts_that_do_the_same() {
        for (line, expected) in [
            ("get a b", "get"),
            ("gets a", "get"),
            ("gat 10 a", "getex"),
            ("set a 0 0 1\r\nv", "set"),
            ("replace a 0 0 1\r\nv", "set"),
            ("cas a 0 0 1 5\r\nv", "set"),
            ("add a 0 0 1\r\nv", "setnx"),
            ("append a 0 0 1\r\nv", "append"),
            ("prepend a 0 0 1\r\nv", "append"),
            ("ms a 1 ME\r\nv", "setnx"),
            ("ms a 1\r\nv", "set"),
            ("delete a", "del"),
            ("incr a 1", "incrby"),
            ("decr a 1", "decrby"),
            ("touch a 10", "expire"),
            ("mg a v", "get"),
            ("mg a v T10", "getex"),
            ("mg a v N10", "get set"),
            ("mg a v N10 T10", "getex set"),
            ("md a", "del"),
            ("ma a", "incrby"),
            ("ma a MD", "decrby"),
            ("ma a T10", "incrby expire"),
            ("me a", "object|idletime"),
            ("flush_all", "flushall"),
            ("stats", "info"),
            ("stats items", "info"),
            ("stats settings", "config|get"),
            ("stats conns", "client|list"),
            ("stats reset", "config|resetstat"),
            ("stats hotkeys", "keys"),
            ("stats detail dump", "keys"),
            ("lru_crawler metadump all", "keys"),
            ("lru_crawler crawl all", "config|set"),
            ("verbosity 1", "config|set"),
            ("cache_memlimit 100", "config|set"),
            ("mn", ""),
            ("version", ""),
        ] {
            assert_eq!(counterparts(line), expected, "{line}");
        }
    }

    #[test]
    fn a_request_needs_all_of_its_counterparts_and_its_key() {
        let rules = "on nopass ~in:* %R~shown:* +get +set";
        let bob = UserSettings {
            name: "bob".to_owned(),
            rules: Secret(rules.to_owned()),
            ..UserSettings::default()
        };
        let users = Users::new(&Config { users: vec![bob], ..Config::default() });
        let user = users.get("bob").expect("bob");
        let denied = |counterparts, key: &str| {
            check(&user, counterparts, Some(key.as_bytes())).map_err(|denial| denial.text())
        };
        assert_eq!(denied(&[GET], "in:1"), Ok(()));
        assert_eq!(denied(&[GET, SET], "in:1"), Ok(()));
        let no_key = "this user has no permissions to access one of the keys used as arguments";
        assert_eq!(denied(&[GET], "out:1"), Err(no_key.to_owned()));
        assert_eq!(denied(&[GET, SET], "shown:1"), Err(no_key.to_owned()));
        let no_command = "this user has no permissions to run the 'getex' command";
        assert_eq!(denied(&[GETEX, SET], "in:1"), Err(no_command.to_owned()));
    }
}
