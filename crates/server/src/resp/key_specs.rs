//! Where the keys of commands stand and what becomes of them, and what proxies should know of
//! commands: as `COMMAND INFO` of Redis 7.0 has it.

use super::arguments::is;
use super::table::{Command as C, Spec};
use super::writer::Writer;

/// Where a search for keys begins.
#[derive(Clone, Copy, Debug)]
enum Begin {
    /// At this argument.
    Index(i8),
    /// Wherever the note says.
    Unknown,
}

/// Which arguments from there on are keys.
#[derive(Clone, Copy, Debug)]
enum Find {
    /// Up to the last one, by its place or, below zero, from the end; the step from key to key;
    /// what part of them, 0 for all.
    Range(i8, i8, i8),
    /// As many as the argument in the first place says, from the second on; the step from key to
    /// key.
    Counted(i8, i8, i8),
    /// As the note says.
    Unknown,
}

/// Keys of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    /// What is done to them, with a space between the words.
    pub(super) flags: &'static str,
    begin: Begin,
    find: Find,
    /// None where it is empty.
    note: &'static str,
}

const fn key(flags: &'static str, begin: Begin, find: Find, note: &'static str) -> Keys {
    Keys { flags, begin, find, note }
}

/// Commands, and their keys.
static KEYS: &[(&[C], &[Keys])] = &[
    (
        &[C::Append, C::HSetNx, C::LInsert, C::LPush, C::LPushX, C::RPush, C::RPushX, C::SAdd],
        &[key("RW insert", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (
        &[
            C::BitCount,
            C::BitFieldRo,
            C::BitPos,
            C::ExpireTime,
            C::Get,
            C::GetBit,
            C::GetRange,
            C::HGet,
            C::HGetAll,
            C::HKeys,
            C::HMGet,
            C::HRandField,
            C::HScan,
            C::HVals,
            C::LIndex,
            C::LPos,
            C::LRange,
            C::PExpireTime,
            C::PTtl,
            C::SMembers,
            C::SMIsMember,
            C::SRandMember,
            C::SScan,
            C::Substr,
            C::Ttl,
            C::ZCount,
            C::ZLexCount,
            C::ZMScore,
            C::ZRandMember,
            C::ZRange,
            C::ZRangeByLex,
            C::ZRangeByScore,
            C::ZRank,
            C::ZRevRange,
            C::ZRevRangeByLex,
            C::ZRevRangeByScore,
            C::ZRevRank,
            C::ZScan,
            C::ZScore,
        ],
        &[key("RO access", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (
        &[C::BitField],
        &[key(
            "RW access update variable_flags",
            Begin::Index(1),
            Find::Range(0, 1, 0),
            "This command allows both access and modification of the key",
        )],
    ),
    (
        &[C::BitOp],
        &[
            key("OW update", Begin::Index(2), Find::Range(0, 1, 0), ""),
            key("RO access", Begin::Index(3), Find::Range(-1, 1, 0), ""),
        ],
    ),
    (
        &[C::Copy],
        &[
            key("RO access", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("OW update", Begin::Index(2), Find::Range(0, 1, 0), ""),
        ],
    ),
    (
        &[
            C::Decr,
            C::DecrBy,
            C::GetSet,
            C::HIncrBy,
            C::HIncrByFloat,
            C::Incr,
            C::IncrBy,
            C::IncrByFloat,
            C::SetBit,
            C::ZIncrBy,
        ],
        &[key("RW access update", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (&[C::Del, C::Unlink], &[key("RM delete", Begin::Index(1), Find::Range(-1, 1, 0), "")]),
    (&[C::Exists, C::Touch, C::Watch], &[key("RO", Begin::Index(1), Find::Range(-1, 1, 0), "")]),
    (
        &[
            C::Expire,
            C::ExpireAt,
            C::HMSet,
            C::HSet,
            C::LSet,
            C::Persist,
            C::PExpire,
            C::PExpireAt,
            C::SetRange,
            C::ZAdd,
        ],
        &[key("RW update", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (
        &[C::GetDel, C::LPop, C::RPop, C::SPop, C::ZPopMax, C::ZPopMin],
        &[key("RW access delete", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (
        &[C::GetEx],
        &[key(
            "RW access update",
            Begin::Index(1),
            Find::Range(0, 1, 0),
            "RW and UPDATE because it changes the TTL",
        )],
    ),
    (
        &[
            C::HDel,
            C::LRem,
            C::LTrim,
            C::SRem,
            C::ZRem,
            C::ZRemRangeByLex,
            C::ZRemRangeByRank,
            C::ZRemRangeByScore,
        ],
        &[key("RW delete", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (
        &[C::HExists, C::HLen, C::HStrLen, C::LLen, C::SCard, C::SIsMember, C::StrLen, C::Type, C::ZCard],
        &[key("RO", Begin::Index(1), Find::Range(0, 1, 0), "")],
    ),
    (&[C::Lcs], &[key("RO access", Begin::Index(1), Find::Range(1, 1, 0), "")]),
    (
        &[C::LMove, C::RPopLPush, C::SMove],
        &[
            key("RW access delete", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("RW insert", Begin::Index(2), Find::Range(0, 1, 0), ""),
        ],
    ),
    (&[C::LMPop, C::ZMPop], &[key("RW access delete", Begin::Index(1), Find::Counted(0, 1, 1), "")]),
    (
        &[C::MGet, C::SDiff, C::SInter, C::SUnion],
        &[key("RO access", Begin::Index(1), Find::Range(-1, 1, 0), "")],
    ),
    (&[C::MSet], &[key("OW update", Begin::Index(1), Find::Range(-1, 2, 0), "")]),
    (&[C::MSetNx], &[key("OW insert", Begin::Index(1), Find::Range(-1, 2, 0), "")]),
    (&[C::PSetEx, C::SetEx], &[key("OW update", Begin::Index(1), Find::Range(0, 1, 0), "")]),
    (
        &[C::Rename],
        &[
            key("RW access delete", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("OW update", Begin::Index(2), Find::Range(0, 1, 0), ""),
        ],
    ),
    (
        &[C::RenameNx],
        &[
            key("RW access delete", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("OW insert", Begin::Index(2), Find::Range(0, 1, 0), ""),
        ],
    ),
    (
        &[C::SDiffStore, C::SUnionStore],
        &[
            key("OW update", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("RO access", Begin::Index(2), Find::Range(-1, 1, 0), ""),
        ],
    ),
    (
        &[C::Set],
        &[key(
            "RW access update variable_flags",
            Begin::Index(1),
            Find::Range(0, 1, 0),
            "RW and ACCESS due to the optional `GET` argument",
        )],
    ),
    (&[C::SetNx], &[key("OW insert", Begin::Index(1), Find::Range(0, 1, 0), "")]),
    (
        &[C::SInterCard, C::ZDiff, C::ZInter, C::ZInterCard, C::ZUnion],
        &[key("RO access", Begin::Index(1), Find::Counted(0, 1, 1), "")],
    ),
    (
        &[C::SInterStore],
        &[
            key("RW update", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("RO access", Begin::Index(2), Find::Range(-1, 1, 0), ""),
        ],
    ),
    (
        &[C::Sort],
        &[
            key("RO access", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key(
                "RO access",
                Begin::Unknown,
                Find::Unknown,
                "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
            ),
            key(
                "OW update",
                Begin::Unknown,
                Find::Unknown,
                "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
            ),
        ],
    ),
    (
        &[C::SortRo],
        &[
            key("RO access", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key(
                "RO access",
                Begin::Unknown,
                Find::Unknown,
                "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
            ),
        ],
    ),
    (
        &[C::ZDiffStore, C::ZInterStore, C::ZUnionStore],
        &[
            key("OW update", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("RO access", Begin::Index(2), Find::Counted(0, 1, 1), ""),
        ],
    ),
    (
        &[C::ZRangeStore],
        &[
            key("OW update", Begin::Index(1), Find::Range(0, 1, 0), ""),
            key("RO access", Begin::Index(2), Find::Range(0, 1, 0), ""),
        ],
    ),
];

/// What a request does to its `nth` key.
pub(super) fn flags_of(spec: &Spec, nth: usize, request: &[&[u8]]) -> &'static str {
    // Behind the key, and the value of `SET`.
    let behind = if spec.command == C::Set { 3 } else { 2 };
    let has =
        |words: &[&str]| request.iter().skip(behind).any(|option| words.iter().any(|word| is(option, word)));
    match spec.command {
        C::Set if !has(&["GET"]) => "OW update",
        C::Set => "RW access update",
        C::BitField if !has(&["SET", "INCRBY"]) => "RO access",
        C::BitField => "RW access update",
        C::Object | C::Memory => "RO",
        // The first key, where there is another specification than that of the others, is the one
        // that it is of.
        command => {
            let all = keys_of(command);
            let found = if nth == 0 { all.first() } else { all.last() };
            let unknown = if spec.writes() { "RW access update" } else { "RO access" };
            found.map_or(unknown, |keys| keys.flags)
        }
    }
}

/// Commands, and hints on their replies and on how a proxy asks several servers.
static TIPS: &[(&[C], &[&str])] = &[
    (
        &[C::Command, C::HGetAll, C::HKeys, C::HVals, C::SDiff, C::SInter, C::SMembers, C::SUnion],
        &["nondeterministic_output_order"],
    ),
    (&[C::DbSize], &["request_policy:all_shards", "response_policy:agg_sum"]),
    (&[C::Del, C::Exists, C::Touch, C::Unlink], &["request_policy:multi_shard", "response_policy:agg_sum"]),
    (&[C::FlushAll, C::FlushDb, C::Ping], &["request_policy:all_shards", "response_policy:all_succeeded"]),
    (
        &[
            C::HRandField,
            C::HScan,
            C::PTtl,
            C::SPop,
            C::SRandMember,
            C::SScan,
            C::Time,
            C::Ttl,
            C::ZRandMember,
            C::ZScan,
        ],
        &["nondeterministic_output"],
    ),
    (&[C::Info], &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    (&[C::Keys], &["request_policy:all_shards", "nondeterministic_output_order"]),
    (&[C::MGet], &["request_policy:multi_shard"]),
    (&[C::MSet], &["request_policy:multi_shard", "response_policy:all_succeeded"]),
    (&[C::MSetNx], &["request_policy:multi_shard", "response_policy:agg_min"]),
    (&[C::RandomKey], &["request_policy:all_shards", "nondeterministic_output"]),
    (&[C::Scan], &["nondeterministic_output", "request_policy:special"]),
];

/// What is known under a command in a table.
fn of<T>(table: &'static [(&'static [C], &'static [T])], command: C) -> &'static [T] {
    table.iter().find(|(commands, _)| commands.contains(&command)).map_or(&[], |(_, known)| known)
}

/// The keys of a command.
pub(super) fn keys_of(command: C) -> &'static [Keys] {
    of(KEYS, command)
}

/// Writes the tips on a command, and where its keys are.
pub(super) fn tell(command: C, w: &mut Writer<'_, '_>) {
    let tips = of(TIPS, command);
    w.set(tips.len());
    tips.iter().for_each(|tip| w.bulk(tip.as_bytes()));
    let all = keys_of(command);
    w.set(all.len());
    all.iter().for_each(|keys| tell_keys(keys, w));
}

fn tell_keys(keys: &Keys, w: &mut Writer<'_, '_>) {
    w.map(if keys.note.is_empty() { 3 } else { 4 });
    if !keys.note.is_empty() {
        w.bulk(b"notes");
        w.bulk(keys.note.as_bytes());
    }
    w.bulk(b"flags");
    tell_flags(keys.flags, w);
    w.bulk(b"begin_search");
    match keys.begin {
        Begin::Index(index) => tell_how("index", &[("index", index)], w),
        Begin::Unknown => tell_how("unknown", &[], w),
    }
    w.bulk(b"find_keys");
    match keys.find {
        Find::Range(last, step, limit) => {
            tell_how("range", &[("lastkey", last), ("keystep", step), ("limit", limit)], w);
        }
        Find::Counted(count, first, step) => {
            tell_how("keynum", &[("keynumidx", count), ("firstkey", first), ("keystep", step)], w);
        }
        Find::Unknown => tell_how("unknown", &[], w),
    }
}

/// Writes words as a set.
pub(super) fn tell_flags(flags: &str, w: &mut Writer<'_, '_>) {
    w.set(flags.split(' ').count());
    flags.split(' ').for_each(|flag| w.simple(flag));
}

fn tell_how(kind: &str, numbers: &[(&str, i8)], w: &mut Writer<'_, '_>) {
    w.map(2);
    w.bulk(b"type");
    w.bulk(kind.as_bytes());
    w.bulk(b"spec");
    w.map(numbers.len());
    for (name, number) in numbers {
        w.bulk(name.as_bytes());
        w.integer(i64::from(*number));
    }
}
