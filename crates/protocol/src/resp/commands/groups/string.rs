//! Commands of strings.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::Cost;
use super::super::group::group;
use super::super::keys::{INSERTS, KeySpec, LOOKS, MODIFIES, OVERWRITES, READS, TAKES, UPDATES};
use super::super::spec::{Group, Spec};

group! {
    /// A command of strings.
    Str = Group { name: "string", categories: &[Category::String] };
    Append("append", "2.0.0", 3, "write denyoom fast", INSERTS)
        .summary("Appends bytes to the value of a key."),
    Decr("decr", "1.0.0", 2, "write denyoom fast", MODIFIES)
        .summary("Decrements the integer value of a key by one."),
    DecrBy("decrby", "1.0.0", 3, "write denyoom fast", MODIFIES)
        .summary("Decrements the integer value of a key."),
    Get("get", "1.0.0", 2, "readonly fast", READS)
        .summary("Returns the value of a key."),
    GetDel("getdel", "6.2.0", 2, "write fast", TAKES)
        .summary("Returns the value of a key and removes the key."),
    GetEx("getex", "6.2.0", -2, "write fast", &[KeySpec::at(1, "RW access update")
            .note("RW and UPDATE because it changes the TTL")])
        .summary("Returns the value of a key and sets its expiration time."),
    GetRange("getrange", "2.4.0", 4, "readonly", READS)
        .summary("Returns a part of the value of a key."),
    GetSet("getset", "1.0.0", 3, "write denyoom fast", MODIFIES)
        .summary("Sets the value of a key and returns its old value."),
    Incr("incr", "1.0.0", 2, "write denyoom fast", MODIFIES)
        .summary("Increments the integer value of a key by one."),
    IncrBy("incrby", "1.0.0", 3, "write denyoom fast", MODIFIES)
        .summary("Increments the integer value of a key."),
    IncrByFloat("incrbyfloat", "2.6.0", 3, "write denyoom fast", MODIFIES)
        .summary("Increments the floating-point value of a key."),
    Lcs("lcs", "7.0.0", -3, "readonly", &[KeySpec::two_from(1, "RO access")])
        .summary("Finds the longest common subsequence of two values.")
        .exclusive()
        .cost(Cost::Pairs),
    MGet("mget", "1.0.0", -2, "readonly fast", &[KeySpec::all_from(1, "RO access")])
        .summary("Returns the values of several keys.")
        .reads_several()
        .tips(&["request_policy:multi_shard"]),
    MSet("mset", "1.0.1", -3, "write denyoom", &[KeySpec::every_second_from(1, "OW update")])
        .summary("Sets the values of several keys.")
        .writes_several()
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    MSetNx("msetnx", "1.0.1", -3, "write denyoom", &[KeySpec::every_second_from(1, "OW insert")])
        .summary("Sets the values of several keys if none of them exists.")
        .exclusive()
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"]),
    PSetEx("psetex", "2.6.0", 4, "write denyoom", OVERWRITES)
        .summary("Sets the value of a key and its time to live in milliseconds."),
    Set("set", "1.0.0", -3, "write denyoom", &[KeySpec::at(1, "RW access update variable_flags")
            .varies(&["GET"], 3, "RW access update", "OW update")
            .depends_with(&["NX", "XX", "KEEPTTL"])
            .note("RW and ACCESS due to the optional `GET` argument")])
        .summary("Sets the value of a key, whatever its type was."),
    SetEx("setex", "2.0.0", 4, "write denyoom", OVERWRITES)
        .summary("Sets the value of a key and its time to live in seconds."),
    SetNx("setnx", "1.0.0", 3, "write denyoom fast", &[KeySpec::at(1, "OW insert")])
        .summary("Sets the value of a key that does not exist."),
    SetRange("setrange", "2.2.0", 4, "write denyoom", UPDATES)
        .summary("Overwrites a part of the value of a key."),
    StrLen("strlen", "2.2.0", 2, "readonly fast", LOOKS)
        .summary("Returns the length of the value of a key."),
    Substr("substr", "1.0.0", 4, "readonly", READS)
        .summary("Returns a part of the value of a key. Superseded by GETRANGE."),
}
