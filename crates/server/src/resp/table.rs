//! The commands, as data: what drives arity, dispatch, metrics and `COMMAND`.
//!
//! Flags and categories are those that Redis 7.0 has for them.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(clippy::enum_variant_names, reason = "one of them is called COMMAND")]
pub(super) enum Command {
    Append,
    Auth,
    Client,
    Command,
    Config,
    Copy,
    DbSize,
    Debug,
    Decr,
    DecrBy,
    Del,
    Discard,
    Echo,
    Exec,
    Exists,
    Expire,
    ExpireAt,
    ExpireTime,
    FlushAll,
    FlushDb,
    Get,
    GetDel,
    GetEx,
    GetRange,
    GetSet,
    Hello,
    Incr,
    IncrBy,
    IncrByFloat,
    Info,
    Keys,
    Memory,
    MGet,
    MSet,
    MSetNx,
    Multi,
    Object,
    Persist,
    PExpire,
    PExpireAt,
    PExpireTime,
    Ping,
    PSetEx,
    PTtl,
    Quit,
    RandomKey,
    Rename,
    RenameNx,
    Reset,
    Scan,
    Select,
    Set,
    SetEx,
    SetNx,
    SetRange,
    StrLen,
    Substr,
    SwapDb,
    Time,
    Touch,
    Ttl,
    Type,
    Unlink,
    Unwatch,
    Watch,
}

/// What is known of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(super) command: Command,
    /// In lower case.
    pub(crate) name: &'static str,
    /// How many arguments it has, with its name; below zero: at least so many.
    pub(super) arity: i8,
    /// With a space between them.
    pub(super) flags: &'static str,
    /// The first key's place, the last one's (below zero: from the end), and the step from key to key; 0: there are none.
    pub(super) keys: (i8, i8, i8),
    /// Categories, without `@`.
    pub(super) categories: &'static str,
    /// The group of its documentation, and the version of Redis that it came with.
    pub(super) group: (&'static str, &'static str),
    /// What it does.
    pub(super) summary: &'static str,
}

#[expect(clippy::too_many_arguments, reason = "the columns of a table")]
const fn spec(
    command: Command,
    name: &'static str,
    arity: i8,
    flags: &'static str,
    keys: (i8, i8, i8),
    categories: &'static str,
    group: (&'static str, &'static str),
    summary: &'static str,
) -> Spec {
    Spec { command, name, arity, flags, keys, categories, group, summary }
}

/// How many there are.
pub(crate) const COUNT: usize = SPECS.len();

/// All commands by name; each stands at the place of its number.
#[rustfmt::skip]
pub(crate) static SPECS: [Spec; 65] = [
    spec(Command::Append, "append", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "2.0.0"), "Puts bytes behind the value of a key."),
    spec(Command::Auth, "auth", -2, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Says who the client is."),
    spec(Command::Client, "client", -2, "", (0, 0, 0), "slow", ("connection", "2.4.0"), "About connections."),
    spec(Command::Command, "command", -1, "loading stale", (0, 0, 0), "slow connection", ("server", "2.8.13"), "About commands."),
    spec(Command::Config, "config", -2, "", (0, 0, 0), "slow", ("server", "2.0.0"), "About settings."),
    spec(Command::Copy, "copy", -3, "write denyoom", (1, 2, 1), "keyspace write slow", ("generic", "6.2.0"), "Copies the value of a key to another key."),
    spec(Command::DbSize, "dbsize", 1, "readonly fast", (0, 0, 0), "keyspace read fast", ("server", "1.0.0"), "How many keys there are."),
    spec(Command::Debug, "debug", -2, "admin noscript loading stale", (0, 0, 0), "admin slow dangerous", ("server", "1.0.0"), "Refused."),
    spec(Command::Decr, "decr", 2, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Takes one off the number of a key."),
    spec(Command::DecrBy, "decrby", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Takes off the number of a key."),
    spec(Command::Del, "del", -2, "write", (1, -1, 1), "keyspace write slow", ("generic", "1.0.0"), "Removes keys."),
    spec(Command::Discard, "discard", 1, "noscript loading stale fast allow_busy", (0, 0, 0), "fast transaction", ("transactions", "2.0.0"), "Forgets a transaction."),
    spec(Command::Echo, "echo", 2, "loading stale fast", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Returns what it is given."),
    spec(Command::Exec, "exec", 1, "noscript loading stale skip_slowlog", (0, 0, 0), "slow transaction", ("transactions", "1.2.0"), "Carries out a transaction."),
    spec(Command::Exists, "exists", -2, "readonly fast", (1, -1, 1), "keyspace read fast", ("generic", "1.0.0"), "How many of the keys there are."),
    spec(Command::Expire, "expire", -3, "write fast", (1, 1, 1), "keyspace write fast", ("generic", "1.0.0"), "Sets the end of a key, in seconds from now."),
    spec(Command::ExpireAt, "expireat", -3, "write fast", (1, 1, 1), "keyspace write fast", ("generic", "1.2.0"), "Sets the end of a key, in Unix seconds."),
    spec(Command::ExpireTime, "expiretime", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "7.0.0"), "When a key ends, in Unix seconds."),
    spec(Command::FlushAll, "flushall", -1, "write", (0, 0, 0), "keyspace write slow dangerous", ("server", "1.0.0"), "Removes all keys."),
    spec(Command::FlushDb, "flushdb", -1, "write", (0, 0, 0), "keyspace write slow dangerous", ("server", "1.0.0"), "Removes all keys."),
    spec(Command::Get, "get", 2, "readonly fast", (1, 1, 1), "read string fast", ("string", "1.0.0"), "The value of a key."),
    spec(Command::GetDel, "getdel", 2, "write fast", (1, 1, 1), "write string fast", ("string", "6.2.0"), "The value of a key, which is removed."),
    spec(Command::GetEx, "getex", -2, "write fast", (1, 1, 1), "write string fast", ("string", "6.2.0"), "The value of a key, which is given a new end."),
    spec(Command::GetRange, "getrange", 4, "readonly", (1, 1, 1), "read string slow", ("string", "2.4.0"), "A part of the value of a key."),
    spec(Command::GetSet, "getset", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Sets the value of a key and returns the one it had."),
    spec(Command::Hello, "hello", -1, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "6.0.0"), "Chooses the version of the protocol, and says what the server is."),
    spec(Command::Incr, "incr", 2, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Adds one to the number of a key."),
    spec(Command::IncrBy, "incrby", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Adds to the number of a key."),
    spec(Command::IncrByFloat, "incrbyfloat", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "2.6.0"), "Adds a fraction to the number of a key."),
    spec(Command::Info, "info", -1, "loading stale", (0, 0, 0), "slow dangerous", ("server", "1.0.0"), "What the server is and does, as text."),
    spec(Command::Keys, "keys", 2, "readonly", (0, 0, 0), "keyspace read slow dangerous", ("generic", "1.0.0"), "All keys that a pattern matches."),
    spec(Command::Memory, "memory", -2, "", (0, 0, 0), "slow", ("server", "4.0.0"), "About memory."),
    spec(Command::MGet, "mget", -2, "readonly fast", (1, -1, 1), "read string fast", ("string", "1.0.0"), "The values of several keys."),
    spec(Command::MSet, "mset", -3, "write denyoom", (1, -1, 2), "write string slow", ("string", "1.0.1"), "Sets the values of several keys."),
    spec(Command::MSetNx, "msetnx", -3, "write denyoom", (1, -1, 2), "write string slow", ("string", "1.0.1"), "Sets the values of several keys if none of them has one."),
    spec(Command::Multi, "multi", 1, "noscript loading stale fast allow_busy", (0, 0, 0), "fast transaction", ("transactions", "1.2.0"), "Begins a transaction."),
    spec(Command::Object, "object", -2, "", (0, 0, 0), "slow", ("generic", "2.2.3"), "About what holds a value."),
    spec(Command::Persist, "persist", 2, "write fast", (1, 1, 1), "keyspace write fast", ("generic", "2.2.0"), "Takes the end off a key."),
    spec(Command::PExpire, "pexpire", -3, "write fast", (1, 1, 1), "keyspace write fast", ("generic", "2.6.0"), "Sets the end of a key, in milliseconds from now."),
    spec(Command::PExpireAt, "pexpireat", -3, "write fast", (1, 1, 1), "keyspace write fast", ("generic", "2.6.0"), "Sets the end of a key, in Unix milliseconds."),
    spec(Command::PExpireTime, "pexpiretime", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "7.0.0"), "When a key ends, in Unix milliseconds."),
    spec(Command::Ping, "ping", -1, "fast", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Answers that the server is there."),
    spec(Command::PSetEx, "psetex", 4, "write denyoom", (1, 1, 1), "write string slow", ("string", "2.6.0"), "Sets the value of a key, and its end in milliseconds."),
    spec(Command::PTtl, "pttl", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "2.6.0"), "Milliseconds until a key ends."),
    spec(Command::Quit, "quit", -1, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Closes the connection."),
    spec(Command::RandomKey, "randomkey", 1, "readonly", (0, 0, 0), "keyspace read slow", ("generic", "1.0.0"), "Some key."),
    spec(Command::Rename, "rename", 3, "write", (1, 2, 1), "keyspace write slow", ("generic", "1.0.0"), "Gives the value of a key to another key."),
    spec(Command::RenameNx, "renamenx", 3, "write fast", (1, 2, 1), "keyspace write fast", ("generic", "1.0.0"), "Gives the value of a key to another key that has none."),
    spec(Command::Reset, "reset", 1, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "6.2.0"), "Brings the connection into the state that it began in."),
    spec(Command::Scan, "scan", -2, "readonly", (0, 0, 0), "keyspace read slow", ("generic", "2.8.0"), "A part of all keys, and where the next begins."),
    spec(Command::Select, "select", 2, "loading stale fast", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Chooses a database; there is one."),
    spec(Command::Set, "set", -3, "write denyoom", (1, 1, 1), "write string slow", ("string", "1.0.0"), "Sets the value of a key, whatever it was."),
    spec(Command::SetEx, "setex", 4, "write denyoom", (1, 1, 1), "write string slow", ("string", "2.0.0"), "Sets the value of a key, and its end in seconds."),
    spec(Command::SetNx, "setnx", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Sets the value of a key that has none."),
    spec(Command::SetRange, "setrange", 4, "write denyoom", (1, 1, 1), "write string slow", ("string", "2.2.0"), "Overwrites a part of the value of a key."),
    spec(Command::StrLen, "strlen", 2, "readonly fast", (1, 1, 1), "read string fast", ("string", "2.2.0"), "The length of the value of a key."),
    spec(Command::Substr, "substr", 4, "readonly", (1, 1, 1), "read string slow", ("string", "1.0.0"), "A part of the value of a key: the old name of GETRANGE."),
    spec(Command::SwapDb, "swapdb", 3, "write fast", (0, 0, 0), "keyspace write fast dangerous", ("server", "4.0.0"), "Swaps two databases; there is one."),
    spec(Command::Time, "time", 1, "loading stale fast", (0, 0, 0), "fast", ("server", "2.6.0"), "The time of the server."),
    spec(Command::Touch, "touch", -2, "readonly fast", (1, -1, 1), "keyspace read fast", ("generic", "3.2.1"), "Counts keys that there are, and notes an access to each."),
    spec(Command::Ttl, "ttl", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "1.0.0"), "Seconds until a key ends."),
    spec(Command::Type, "type", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "1.0.0"), "What the value of a key is."),
    spec(Command::Unlink, "unlink", -2, "write fast", (1, -1, 1), "keyspace write fast", ("generic", "4.0.0"), "Removes keys."),
    spec(Command::Unwatch, "unwatch", 1, "noscript loading stale fast allow_busy", (0, 0, 0), "fast transaction", ("transactions", "2.2.0"), "Forgets the watched keys."),
    spec(Command::Watch, "watch", -2, "noscript loading stale fast allow_busy", (1, -1, 1), "fast transaction", ("transactions", "2.2.0"), "Lets the next transaction fail if one of the keys changes."),
];

/// Their names as numbers, which ascend as the names do.
static NAMES: [u128; COUNT] = {
    let mut names = [0; COUNT];
    let mut i = 0;
    while i < COUNT {
        names[i] = packed(SPECS[i].name.as_bytes());
        i += 1;
    }
    names
};

/// A name of at most 16 bytes in lower case.
const fn packed(name: &[u8]) -> u128 {
    let mut number = 0;
    let mut i = 0;
    while i < 16 {
        let byte = if i < name.len() { name[i].to_ascii_lowercase() } else { 0 };
        number = number << 8 | byte as u128;
        i += 1;
    }
    number
}

impl Spec {
    /// The command of that name, in whatever case.
    #[inline]
    pub(super) fn find(name: &[u8]) -> Option<&'static Self> {
        if name.len() > 16 {
            return None;
        }
        let spec = SPECS.get(NAMES.binary_search(&packed(name)).ok()?)?;
        (spec.name.len() == name.len()).then_some(spec)
    }

    /// Whether it may have so many arguments, its name among them.
    pub(super) fn takes(&self, args: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { args >= arity } else { args == arity }
    }

    /// The places of its keys in a request of so many arguments.
    pub(super) fn key_places(&self, args: usize) -> impl Iterator<Item = usize> {
        let (first, last, step) = self.keys;
        let last = if last < 0 {
            args.saturating_sub(usize::from(last.unsigned_abs()))
        } else {
            usize::from(last.unsigned_abs())
        };
        let end = if first == 0 { 0 } else { last + 1 };
        (usize::from(first.unsigned_abs())..end).step_by(usize::from(step.unsigned_abs()).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        for (number, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.command as usize, number, "{}", spec.name);
            for name in [spec.name.to_owned(), spec.name.to_ascii_uppercase()] {
                assert_eq!(Spec::find(name.as_bytes()).map(|found| found.name), Some(spec.name));
            }
        }
        for name in ["", "g", "gets", "incrbyfloatx", "aaaaaaaaaaaaaaaaaaaaaaaa", "get\0"] {
            assert!(Spec::find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn keys_stand_where_the_table_says() {
        let places = |name: &str, args| {
            Spec::find(name.as_bytes())
                .map(|spec| spec.key_places(args).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        assert_eq!(places("get", 2), [1]);
        assert_eq!(places("mset", 5), [1, 3]);
        assert_eq!(places("del", 4), [1, 2, 3]);
        assert_eq!(places("copy", 3), [1, 2]);
        assert_eq!(places("ping", 1), [0; 0]);
    }
}
