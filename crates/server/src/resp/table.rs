//! The commands, as data: what drives arity, dispatch, metrics and `COMMAND`.
//!
//! Flags and categories are those that Redis 7.0 has for them.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(clippy::enum_variant_names, reason = "one of them is called COMMAND")]
pub(super) enum Command {
    Acl,
    Append,
    Auth,
    BitCount,
    BitField,
    BitFieldRo,
    BitOp,
    BitPos,
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
    GetBit,
    GetDel,
    GetEx,
    GetRange,
    GetSet,
    HDel,
    Hello,
    HExists,
    HGet,
    HGetAll,
    HIncrBy,
    HIncrByFloat,
    HKeys,
    HLen,
    HMGet,
    HMSet,
    HRandField,
    HScan,
    HSet,
    HSetNx,
    HStrLen,
    HVals,
    Incr,
    IncrBy,
    IncrByFloat,
    Info,
    Keys,
    Latency,
    Lcs,
    LIndex,
    LInsert,
    LLen,
    LMove,
    LMPop,
    LPop,
    LPos,
    LPush,
    LPushX,
    LRange,
    LRem,
    LSet,
    LTrim,
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
    PubSub,
    Quit,
    RandomKey,
    Rename,
    RenameNx,
    Reset,
    RPop,
    RPopLPush,
    RPush,
    RPushX,
    SAdd,
    Scan,
    SCard,
    SDiff,
    SDiffStore,
    Select,
    Set,
    SetBit,
    SetEx,
    SetNx,
    SetRange,
    SInter,
    SInterCard,
    SInterStore,
    SIsMember,
    SlowLog,
    SMembers,
    SMIsMember,
    SMove,
    Sort,
    SortRo,
    SPop,
    SRandMember,
    SRem,
    SScan,
    StrLen,
    Subscribe,
    Substr,
    SUnion,
    SUnionStore,
    SwapDb,
    Time,
    Touch,
    Ttl,
    Type,
    Unlink,
    Unsubscribe,
    Unwatch,
    Watch,
    ZAdd,
    ZCard,
    ZCount,
    ZDiff,
    ZDiffStore,
    ZIncrBy,
    ZInter,
    ZInterCard,
    ZInterStore,
    ZLexCount,
    ZMPop,
    ZMScore,
    ZPopMax,
    ZPopMin,
    ZRandMember,
    ZRange,
    ZRangeByLex,
    ZRangeByScore,
    ZRangeStore,
    ZRank,
    ZRem,
    ZRemRangeByLex,
    ZRemRangeByRank,
    ZRemRangeByScore,
    ZRevRange,
    ZRevRangeByLex,
    ZRevRangeByScore,
    ZRevRank,
    ZScan,
    ZScore,
    ZUnion,
    ZUnionStore,
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
    pub(crate) flags: &'static str,
    /// The first key's place, the last one's (below zero: from the end), and the step from key to
    /// key; 0: there are none.
    pub(super) keys: (i8, i8, i8),
    /// Categories, without `@`.
    pub(crate) categories: &'static str,
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
pub(crate) static SPECS: [Spec; 163] = [
    spec(Command::Acl, "acl", -2, "", (0, 0, 0), "slow", ("server", "6.0.0"), "About users and what they may do."),
    spec(Command::Append, "append", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "2.0.0"), "Puts bytes behind the value of a key."),
    spec(Command::Auth, "auth", -2, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Says who the client is."),
    spec(Command::BitCount, "bitcount", -2, "readonly", (1, 1, 1), "read bitmap slow", ("bitmap", "2.6.0"), "How many bits of the value of a key are set."),
    spec(Command::BitField, "bitfield", -2, "write denyoom", (1, 1, 1), "write bitmap slow", ("bitmap", "3.2.0"), "Reads and changes numbers in the bits of the value of a key."),
    spec(Command::BitFieldRo, "bitfield_ro", -2, "readonly fast", (1, 1, 1), "read bitmap fast", ("bitmap", "6.0.0"), "Reads numbers in the bits of the value of a key."),
    spec(Command::BitOp, "bitop", -4, "write denyoom", (2, -1, 1), "write bitmap slow", ("bitmap", "2.6.0"), "Combines the bits of values, and keeps what comes of it."),
    spec(Command::BitPos, "bitpos", -3, "readonly", (1, 1, 1), "read bitmap slow", ("bitmap", "2.8.7"), "Where the value of a key has the first bit that is set, or not set."),
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
    spec(Command::GetBit, "getbit", 3, "readonly fast", (1, 1, 1), "read bitmap fast", ("bitmap", "2.2.0"), "A bit of the value of a key."),
    spec(Command::GetDel, "getdel", 2, "write fast", (1, 1, 1), "write string fast", ("string", "6.2.0"), "The value of a key, which is removed."),
    spec(Command::GetEx, "getex", -2, "write fast", (1, 1, 1), "write string fast", ("string", "6.2.0"), "The value of a key, which is given a new end."),
    spec(Command::GetRange, "getrange", 4, "readonly", (1, 1, 1), "read string slow", ("string", "2.4.0"), "A part of the value of a key."),
    spec(Command::GetSet, "getset", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Sets the value of a key and returns the one it had."),
    spec(Command::HDel, "hdel", -3, "write fast", (1, 1, 1), "write hash fast", ("hash", "2.0.0"), "Removes fields of a hash."),
    spec(Command::Hello, "hello", -1, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "6.0.0"), "Chooses the version of the protocol, and says what the server is."),
    spec(Command::HExists, "hexists", 3, "readonly fast", (1, 1, 1), "read hash fast", ("hash", "2.0.0"), "Whether a hash has a field."),
    spec(Command::HGet, "hget", 3, "readonly fast", (1, 1, 1), "read hash fast", ("hash", "2.0.0"), "The value of a field of a hash."),
    spec(Command::HGetAll, "hgetall", 2, "readonly", (1, 1, 1), "read hash slow", ("hash", "2.0.0"), "All fields of a hash and their values."),
    spec(Command::HIncrBy, "hincrby", 4, "write denyoom fast", (1, 1, 1), "write hash fast", ("hash", "2.0.0"), "Adds to the number of a field of a hash."),
    spec(Command::HIncrByFloat, "hincrbyfloat", 4, "write denyoom fast", (1, 1, 1), "write hash fast", ("hash", "2.6.0"), "Adds a fraction to the number of a field of a hash."),
    spec(Command::HKeys, "hkeys", 2, "readonly", (1, 1, 1), "read hash slow", ("hash", "2.0.0"), "All fields of a hash."),
    spec(Command::HLen, "hlen", 2, "readonly fast", (1, 1, 1), "read hash fast", ("hash", "2.0.0"), "How many fields a hash has."),
    spec(Command::HMGet, "hmget", -3, "readonly fast", (1, 1, 1), "read hash fast", ("hash", "2.0.0"), "The values of several fields of a hash."),
    spec(Command::HMSet, "hmset", -4, "write denyoom fast", (1, 1, 1), "write hash fast", ("hash", "2.0.0"), "Sets fields of a hash: the old name of HSET."),
    spec(Command::HRandField, "hrandfield", -2, "readonly", (1, 1, 1), "read hash slow", ("hash", "6.2.0"), "Some fields of a hash, drawn at random."),
    spec(Command::HScan, "hscan", -3, "readonly", (1, 1, 1), "read hash slow", ("hash", "2.8.0"), "A part of the fields of a hash, and where the next begins."),
    spec(Command::HSet, "hset", -4, "write denyoom fast", (1, 1, 1), "write hash fast", ("hash", "2.0.0"), "Sets fields of a hash."),
    spec(Command::HSetNx, "hsetnx", 4, "write denyoom fast", (1, 1, 1), "write hash fast", ("hash", "2.0.0"), "Sets a field of a hash that it does not have."),
    spec(Command::HStrLen, "hstrlen", 3, "readonly fast", (1, 1, 1), "read hash fast", ("hash", "3.2.0"), "The length of the value of a field of a hash."),
    spec(Command::HVals, "hvals", 2, "readonly", (1, 1, 1), "read hash slow", ("hash", "2.0.0"), "The values of all fields of a hash."),
    spec(Command::Incr, "incr", 2, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Adds one to the number of a key."),
    spec(Command::IncrBy, "incrby", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Adds to the number of a key."),
    spec(Command::IncrByFloat, "incrbyfloat", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "2.6.0"), "Adds a fraction to the number of a key."),
    spec(Command::Info, "info", -1, "loading stale", (0, 0, 0), "slow dangerous", ("server", "1.0.0"), "What the server is and does, as text."),
    spec(Command::Keys, "keys", 2, "readonly", (0, 0, 0), "keyspace read slow dangerous", ("generic", "1.0.0"), "All keys that a pattern matches."),
    spec(Command::Latency, "latency", -2, "", (0, 0, 0), "slow", ("server", "2.8.13"), "About how long commands take."),
    spec(Command::Lcs, "lcs", -3, "readonly", (1, 2, 1), "read string slow", ("string", "7.0.0"), "What two values have in common."),
    spec(Command::LIndex, "lindex", 3, "readonly", (1, 1, 1), "read list slow", ("list", "1.0.0"), "The element of a list at a place."),
    spec(Command::LInsert, "linsert", 5, "write denyoom", (1, 1, 1), "write list slow", ("list", "2.2.0"), "Puts an element before or behind another one of a list."),
    spec(Command::LLen, "llen", 2, "readonly fast", (1, 1, 1), "read list fast", ("list", "1.0.0"), "How many elements a list has."),
    spec(Command::LMove, "lmove", 5, "write denyoom", (1, 2, 1), "write list slow", ("list", "6.2.0"), "Takes an element off one end of a list and puts it to an end of another."),
    spec(Command::LMPop, "lmpop", -4, "write movablekeys", (0, 0, 0), "write list slow", ("list", "7.0.0"), "Takes elements off the first list that has some."),
    spec(Command::LPop, "lpop", -2, "write fast", (1, 1, 1), "write list fast", ("list", "1.0.0"), "Takes elements off the front of a list."),
    spec(Command::LPos, "lpos", -3, "readonly", (1, 1, 1), "read list slow", ("list", "6.0.6"), "Where a list has an element."),
    spec(Command::LPush, "lpush", -3, "write denyoom fast", (1, 1, 1), "write list fast", ("list", "1.0.0"), "Puts elements before a list."),
    spec(Command::LPushX, "lpushx", -3, "write denyoom fast", (1, 1, 1), "write list fast", ("list", "2.2.0"), "Puts elements before a list that is there."),
    spec(Command::LRange, "lrange", 4, "readonly", (1, 1, 1), "read list slow", ("list", "1.0.0"), "The elements of a list between two places."),
    spec(Command::LRem, "lrem", 4, "write", (1, 1, 1), "write list slow", ("list", "1.0.0"), "Removes elements of a list that are the same as one."),
    spec(Command::LSet, "lset", 4, "write denyoom", (1, 1, 1), "write list slow", ("list", "1.0.0"), "Sets the element of a list at a place."),
    spec(Command::LTrim, "ltrim", 4, "write", (1, 1, 1), "write list slow", ("list", "1.0.0"), "Removes the elements of a list but those between two places."),
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
    spec(Command::PubSub, "pubsub", -2, "", (0, 0, 0), "slow", ("pubsub", "2.8.0"), "About channels."),
    spec(Command::Quit, "quit", -1, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Closes the connection."),
    spec(Command::RandomKey, "randomkey", 1, "readonly", (0, 0, 0), "keyspace read slow", ("generic", "1.0.0"), "Some key."),
    spec(Command::Rename, "rename", 3, "write", (1, 2, 1), "keyspace write slow", ("generic", "1.0.0"), "Gives the value of a key to another key."),
    spec(Command::RenameNx, "renamenx", 3, "write fast", (1, 2, 1), "keyspace write fast", ("generic", "1.0.0"), "Gives the value of a key to another key that has none."),
    spec(Command::Reset, "reset", 1, "noscript loading stale fast no_auth allow_busy", (0, 0, 0), "fast connection", ("connection", "6.2.0"), "Brings the connection into the state that it began in."),
    spec(Command::RPop, "rpop", -2, "write fast", (1, 1, 1), "write list fast", ("list", "1.0.0"), "Takes elements off the end of a list."),
    spec(Command::RPopLPush, "rpoplpush", 3, "write denyoom", (1, 2, 1), "write list slow", ("list", "1.2.0"), "Takes the last element of a list and puts it before another."),
    spec(Command::RPush, "rpush", -3, "write denyoom fast", (1, 1, 1), "write list fast", ("list", "1.0.0"), "Puts elements behind a list."),
    spec(Command::RPushX, "rpushx", -3, "write denyoom fast", (1, 1, 1), "write list fast", ("list", "2.2.0"), "Puts elements behind a list that is there."),
    spec(Command::SAdd, "sadd", -3, "write denyoom fast", (1, 1, 1), "write set fast", ("set", "1.0.0"), "Adds members to a set."),
    spec(Command::Scan, "scan", -2, "readonly", (0, 0, 0), "keyspace read slow", ("generic", "2.8.0"), "A part of all keys, and where the next begins."),
    spec(Command::SCard, "scard", 2, "readonly fast", (1, 1, 1), "read set fast", ("set", "1.0.0"), "How many members a set has."),
    spec(Command::SDiff, "sdiff", -2, "readonly", (1, -1, 1), "read set slow", ("set", "1.0.0"), "The members of the first set that no other has."),
    spec(Command::SDiffStore, "sdiffstore", -3, "write denyoom", (1, -1, 1), "write set slow", ("set", "1.0.0"), "Keeps the members of the first set that no other has."),
    spec(Command::Select, "select", 2, "loading stale fast", (0, 0, 0), "fast connection", ("connection", "1.0.0"), "Chooses a database; there is one."),
    spec(Command::Set, "set", -3, "write denyoom", (1, 1, 1), "write string slow", ("string", "1.0.0"), "Sets the value of a key, whatever it was."),
    spec(Command::SetBit, "setbit", 4, "write denyoom", (1, 1, 1), "write bitmap slow", ("bitmap", "2.2.0"), "Sets a bit of the value of a key."),
    spec(Command::SetEx, "setex", 4, "write denyoom", (1, 1, 1), "write string slow", ("string", "2.0.0"), "Sets the value of a key, and its end in seconds."),
    spec(Command::SetNx, "setnx", 3, "write denyoom fast", (1, 1, 1), "write string fast", ("string", "1.0.0"), "Sets the value of a key that has none."),
    spec(Command::SetRange, "setrange", 4, "write denyoom", (1, 1, 1), "write string slow", ("string", "2.2.0"), "Overwrites a part of the value of a key."),
    spec(Command::SInter, "sinter", -2, "readonly", (1, -1, 1), "read set slow", ("set", "1.0.0"), "The members that all sets have."),
    spec(Command::SInterCard, "sintercard", -3, "readonly movablekeys", (0, 0, 0), "read set slow", ("set", "7.0.0"), "How many members all sets have."),
    spec(Command::SInterStore, "sinterstore", -3, "write denyoom", (1, -1, 1), "write set slow", ("set", "1.0.0"), "Keeps the members that all sets have."),
    spec(Command::SIsMember, "sismember", 3, "readonly fast", (1, 1, 1), "read set fast", ("set", "1.0.0"), "Whether a set has a member."),
    spec(Command::SlowLog, "slowlog", -2, "", (0, 0, 0), "slow", ("server", "2.2.12"), "About requests that took long."),
    spec(Command::SMembers, "smembers", 2, "readonly", (1, 1, 1), "read set slow", ("set", "1.0.0"), "All members of a set."),
    spec(Command::SMIsMember, "smismember", -3, "readonly fast", (1, 1, 1), "read set fast", ("set", "6.2.0"), "Which of several members a set has."),
    spec(Command::SMove, "smove", 4, "write fast", (1, 2, 1), "write set fast", ("set", "1.0.0"), "Moves a member from one set to another."),
    spec(Command::Sort, "sort", -2, "write denyoom movablekeys", (1, 1, 1), "write set sortedset list slow dangerous", ("generic", "1.0.0"), "The elements of a list, a set or a sorted set in an order, which may be kept."),
    spec(Command::SortRo, "sort_ro", -2, "readonly movablekeys", (1, 1, 1), "read set sortedset list slow dangerous", ("generic", "7.0.0"), "The elements of a list, a set or a sorted set in an order."),
    spec(Command::SPop, "spop", -2, "write fast", (1, 1, 1), "write set fast", ("set", "1.0.0"), "Takes members out of a set at random."),
    spec(Command::SRandMember, "srandmember", -2, "readonly", (1, 1, 1), "read set slow", ("set", "1.0.0"), "Some members of a set, drawn at random."),
    spec(Command::SRem, "srem", -3, "write fast", (1, 1, 1), "write set fast", ("set", "1.0.0"), "Removes members of a set."),
    spec(Command::SScan, "sscan", -3, "readonly", (1, 1, 1), "read set slow", ("set", "2.8.0"), "A part of the members of a set, and where the next begins."),
    spec(Command::StrLen, "strlen", 2, "readonly fast", (1, 1, 1), "read string fast", ("string", "2.2.0"), "The length of the value of a key."),
    spec(Command::Subscribe, "subscribe", -2, "pubsub noscript loading stale", (0, 0, 0), "pubsub slow", ("pubsub", "2.0.0"), "Subscribes to the channel of invalidated keys."),
    spec(Command::Substr, "substr", 4, "readonly", (1, 1, 1), "read string slow", ("string", "1.0.0"), "A part of the value of a key: the old name of GETRANGE."),
    spec(Command::SUnion, "sunion", -2, "readonly", (1, -1, 1), "read set slow", ("set", "1.0.0"), "The members that any of the sets has."),
    spec(Command::SUnionStore, "sunionstore", -3, "write denyoom", (1, -1, 1), "write set slow", ("set", "1.0.0"), "Keeps the members that any of the sets has."),
    spec(Command::SwapDb, "swapdb", 3, "write fast", (0, 0, 0), "keyspace write fast dangerous", ("server", "4.0.0"), "Swaps two databases; there is one."),
    spec(Command::Time, "time", 1, "loading stale fast", (0, 0, 0), "fast", ("server", "2.6.0"), "The time of the server."),
    spec(Command::Touch, "touch", -2, "readonly fast", (1, -1, 1), "keyspace read fast", ("generic", "3.2.1"), "Counts keys that there are, and notes an access to each."),
    spec(Command::Ttl, "ttl", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "1.0.0"), "Seconds until a key ends."),
    spec(Command::Type, "type", 2, "readonly fast", (1, 1, 1), "keyspace read fast", ("generic", "1.0.0"), "What the value of a key is."),
    spec(Command::Unlink, "unlink", -2, "write fast", (1, -1, 1), "keyspace write fast", ("generic", "4.0.0"), "Removes keys."),
    spec(Command::Unsubscribe, "unsubscribe", -1, "pubsub noscript loading stale", (0, 0, 0), "pubsub slow", ("pubsub", "2.0.0"), "Ends the subscription."),
    spec(Command::Unwatch, "unwatch", 1, "noscript loading stale fast allow_busy", (0, 0, 0), "fast transaction", ("transactions", "2.2.0"), "Forgets the watched keys."),
    spec(Command::Watch, "watch", -2, "noscript loading stale fast allow_busy", (1, -1, 1), "fast transaction", ("transactions", "2.2.0"), "Lets the next transaction fail if one of the keys changes."),
    spec(Command::ZAdd, "zadd", -4, "write denyoom fast", (1, 1, 1), "write sortedset fast", ("sorted-set", "1.2.0"), "Gives members of a sorted set scores."),
    spec(Command::ZCard, "zcard", 2, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "1.2.0"), "How many members a sorted set has."),
    spec(Command::ZCount, "zcount", 4, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "2.0.0"), "How many members of a sorted set have scores within bounds."),
    spec(Command::ZDiff, "zdiff", -3, "readonly movablekeys", (0, 0, 0), "read sortedset slow", ("sorted-set", "6.2.0"), "The members of the first sorted set that no other has."),
    spec(Command::ZDiffStore, "zdiffstore", -4, "write denyoom movablekeys", (1, 1, 1), "write sortedset slow", ("sorted-set", "6.2.0"), "Keeps the members of the first sorted set that no other has."),
    spec(Command::ZIncrBy, "zincrby", 4, "write denyoom fast", (1, 1, 1), "write sortedset fast", ("sorted-set", "1.2.0"), "Adds to the score of a member of a sorted set."),
    spec(Command::ZInter, "zinter", -3, "readonly movablekeys", (0, 0, 0), "read sortedset slow", ("sorted-set", "6.2.0"), "The members that all sorted sets have."),
    spec(Command::ZInterCard, "zintercard", -3, "readonly movablekeys", (0, 0, 0), "read sortedset slow", ("sorted-set", "7.0.0"), "How many members all sorted sets have."),
    spec(Command::ZInterStore, "zinterstore", -4, "write denyoom movablekeys", (1, 1, 1), "write sortedset slow", ("sorted-set", "2.0.0"), "Keeps the members that all sorted sets have."),
    spec(Command::ZLexCount, "zlexcount", 4, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "2.8.9"), "How many members of a sorted set lie within bounds."),
    spec(Command::ZMPop, "zmpop", -4, "write movablekeys", (0, 0, 0), "write sortedset slow", ("sorted-set", "7.0.0"), "Takes members off an end of the first sorted set that has some."),
    spec(Command::ZMScore, "zmscore", -3, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "6.2.0"), "The scores of several members of a sorted set."),
    spec(Command::ZPopMax, "zpopmax", -2, "write fast", (1, 1, 1), "write sortedset fast", ("sorted-set", "5.0.0"), "Takes the members with the highest scores off a sorted set."),
    spec(Command::ZPopMin, "zpopmin", -2, "write fast", (1, 1, 1), "write sortedset fast", ("sorted-set", "5.0.0"), "Takes the members with the lowest scores off a sorted set."),
    spec(Command::ZRandMember, "zrandmember", -2, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "6.2.0"), "Some members of a sorted set, drawn at random."),
    spec(Command::ZRange, "zrange", -4, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "1.2.0"), "Members of a sorted set by place, score or name."),
    spec(Command::ZRangeByLex, "zrangebylex", -4, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "2.8.9"), "Members of a sorted set within bounds."),
    spec(Command::ZRangeByScore, "zrangebyscore", -4, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "1.0.5"), "Members of a sorted set with scores within bounds."),
    spec(Command::ZRangeStore, "zrangestore", -5, "write denyoom", (1, 2, 1), "write sortedset slow", ("sorted-set", "6.2.0"), "Keeps members of a sorted set by place, score or name."),
    spec(Command::ZRank, "zrank", 3, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "2.0.0"), "Which place a member of a sorted set has."),
    spec(Command::ZRem, "zrem", -3, "write fast", (1, 1, 1), "write sortedset fast", ("sorted-set", "1.2.0"), "Removes members of a sorted set."),
    spec(Command::ZRemRangeByLex, "zremrangebylex", 4, "write", (1, 1, 1), "write sortedset slow", ("sorted-set", "2.8.9"), "Removes the members of a sorted set within bounds."),
    spec(Command::ZRemRangeByRank, "zremrangebyrank", 4, "write", (1, 1, 1), "write sortedset slow", ("sorted-set", "2.0.0"), "Removes the members of a sorted set between two places."),
    spec(Command::ZRemRangeByScore, "zremrangebyscore", 4, "write", (1, 1, 1), "write sortedset slow", ("sorted-set", "1.2.0"), "Removes the members of a sorted set with scores within bounds."),
    spec(Command::ZRevRange, "zrevrange", -4, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "1.2.0"), "Members of a sorted set by place, the last first."),
    spec(Command::ZRevRangeByLex, "zrevrangebylex", -4, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "2.8.9"), "Members of a sorted set within bounds, the last first."),
    spec(Command::ZRevRangeByScore, "zrevrangebyscore", -4, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "2.2.0"), "Members of a sorted set with scores within bounds, the highest first."),
    spec(Command::ZRevRank, "zrevrank", 3, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "2.0.0"), "Which place a member of a sorted set has, counted from the last."),
    spec(Command::ZScan, "zscan", -3, "readonly", (1, 1, 1), "read sortedset slow", ("sorted-set", "2.8.0"), "A part of the members of a sorted set, and where the next begins."),
    spec(Command::ZScore, "zscore", 3, "readonly fast", (1, 1, 1), "read sortedset fast", ("sorted-set", "1.2.0"), "The score of a member of a sorted set."),
    spec(Command::ZUnion, "zunion", -3, "readonly movablekeys", (0, 0, 0), "read sortedset slow", ("sorted-set", "6.2.0"), "The members that any of the sorted sets has."),
    spec(Command::ZUnionStore, "zunionstore", -4, "write denyoom movablekeys", (1, 1, 1), "write sortedset slow", ("sorted-set", "2.0.0"), "Keeps the members that any of the sorted sets has."),
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
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
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

    /// Its number: its place in [`SPECS`].
    pub(crate) fn number(&self) -> usize {
        self.command as usize
    }

    /// The numbers under which it is counted: with those of its subcommands.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        super::subcommands::numbers(self)
    }

    /// Whether it may change something.
    pub(super) fn writes(&self) -> bool {
        self.flags.split(' ').any(|flag| flag == "write")
    }

    /// Whether the request is one of a subcommand that has a key.
    pub(super) fn has_subcommand_with_key(&self, args: &[&[u8]]) -> bool {
        let known: &[&str] = match self.command {
            Command::Object => &["encoding", "freq", "idletime", "refcount"],
            Command::Memory => &["usage"],
            _ => &[],
        };
        let named = |sub: &&[u8]| known.iter().any(|name| sub.eq_ignore_ascii_case(name.as_bytes()));
        args.len() > 2 && args.get(1).is_some_and(named)
    }

    /// The places of its keys as far as a user must be allowed them: those of commands that contain
    /// others, too.
    pub(crate) fn guarded_places(&self, args: &[&[u8]]) -> Vec<usize> {
        if matches!(self.command, Command::Object | Command::Memory) {
            return if args.len() > 2 { vec![2] } else { Vec::new() };
        }
        // Where it counts them wrongly it will be refused.
        self.places_in(args).unwrap_or_default()
    }

    /// Whether a request reads what is under its `nth` key, and whether it changes it. Neither is
    /// so where it only asks whether there is something, of what kind and how much.
    pub(crate) fn access(&self, nth: usize, args: &[&[u8]]) -> (bool, bool) {
        let flags = super::key_specs::flags_of(self, nth, args);
        let has = |wanted: &[&str]| flags.split(' ').any(|flag| wanted.contains(&flag));
        (has(&["access"]), has(&["update", "insert", "delete"]))
    }

    /// Where the count of its keys stands, behind which they come.
    pub(super) const fn counts_keys_at(&self) -> Option<usize> {
        use Command as C;
        match self.command {
            C::LMPop | C::SInterCard | C::ZMPop | C::ZUnion | C::ZInter | C::ZInterCard | C::ZDiff => Some(1),
            C::ZUnionStore | C::ZInterStore | C::ZDiffStore => Some(2),
            _ => None,
        }
    }

    /// The places of its keys in a request. `None`: it counts them wrongly.
    pub(super) fn places_in(&self, args: &[&[u8]]) -> Option<Vec<usize>> {
        let mut places: Vec<usize> = self.key_places(args.len()).collect();
        if let Some(at) = self.counts_keys_at() {
            let count = protocol::resp::number(args.get(at)?)?;
            let end = usize::try_from(count).ok().filter(|count| *count > 0)?.checked_add(at + 1)?;
            if end > args.len() {
                return None;
            }
            places.extend(at + 1..end);
        }
        if self.command == Command::Sort {
            places.extend(destination_of_sort(args));
        }
        Some(places)
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

/// The place of the key in which `SORT` keeps what it finds: behind the last `STORE` that is no
/// argument of another option.
fn destination_of_sort(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while let Some(option) = args.get(at) {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("STORE") && at + 1 < args.len() {
            found = Some(at + 1);
        }
        at += if is("LIMIT") {
            3
        } else if is("BY") || is("GET") || is("STORE") {
            2
        } else {
            1
        };
    }
    found
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
