//! Commands of keys of any type.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::{Cost, Few};
use super::super::group::group;
use super::super::keys::{KeySpec, LOOKS, NO_KEYS, READS, UPDATES};
use super::super::spec::{Group, Spec};
use super::super::subcommand::Subcommand;

group! {
    /// A command of keys of any type.
    Generic = Group { name: "generic", categories: &[Category::Keyspace] };
    Copy("copy", "6.2.0", -3, "write denyoom", &[KeySpec::at(1, "RO access"), KeySpec::at(2, "OW update").depends_without(&["REPLACE"])])
        .summary("Copies the value of a key to another key.")
        .exclusive(),
    Del("del", "1.0.0", -2, "write", &[KeySpec::all_from(1, "RM delete")])
        .summary("Removes keys.")
        .writes_several()
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    Exists("exists", "1.0.0", -2, "readonly fast", &[KeySpec::all_from(1, "RO")])
        .summary("Counts the keys that exist.")
        .reads_several()
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    Expire("expire", "1.0.0", -3, "write fast", UPDATES)
        .summary("Sets the expiration time of a key in seconds from now."),
    ExpireAt("expireat", "1.2.0", -3, "write fast", UPDATES)
        .summary("Sets the expiration time of a key as a Unix time in seconds."),
    ExpireTime("expiretime", "7.0.0", 2, "readonly fast", READS)
        .summary("Returns the expiration time of a key as a Unix time in seconds."),
    Keys("keys", "1.0.0", 2, "readonly", NO_KEYS)
        .summary("Returns all keys that match a pattern.")
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    Object("object", "2.2.3", -2, "", NO_KEYS)
        .summary("Describes how the value of a key is stored.")
        .categories(&[])
        .subcommands(&[
            Subcommand::new("encoding", "2.2.3", 1, 1, "readonly")
                .does("<key>", "Returns the encoding that Redis would have for the value.").with_key(),
            Subcommand::new("freq", "4.0.0", 1, 1, "readonly")
                .does("<key>", "Always refused: no policy counts as Redis's LFU does.").with_key(),
            Subcommand::help("6.2.0"),
            Subcommand::new("idletime", "2.2.3", 1, 1, "readonly")
                .does("<key>", "Returns the seconds since the key was last read or written.").with_key(),
            Subcommand::new("refcount", "2.2.3", 1, 1, "readonly")
                .does("<key>", "Returns 1.").with_key(),
        ]),
    Persist("persist", "2.2.0", 2, "write fast", UPDATES)
        .summary("Removes the expiration time of a key."),
    PExpire("pexpire", "2.6.0", -3, "write fast", UPDATES)
        .summary("Sets the expiration time of a key in milliseconds from now."),
    PExpireAt("pexpireat", "2.6.0", -3, "write fast", UPDATES)
        .summary("Sets the expiration time of a key as a Unix time in milliseconds."),
    PExpireTime("pexpiretime", "7.0.0", 2, "readonly fast", READS)
        .summary("Returns the expiration time of a key as a Unix time in milliseconds."),
    PTtl("pttl", "2.6.0", 2, "readonly fast", READS)
        .summary("Returns the time to live of a key in milliseconds.")
        .tips(&["nondeterministic_output"]),
    RandomKey("randomkey", "1.0.0", 1, "readonly", NO_KEYS)
        .summary("Returns a random key.")
        .tips(&["request_policy:all_shards", "nondeterministic_output"]),
    Rename("rename", "1.0.0", 3, "write", &[KeySpec::at(1, "RW access delete"), KeySpec::at(2, "OW update")])
        .summary("Renames a key, replacing the key of the new name.")
        .exclusive(),
    RenameNx("renamenx", "1.0.0", 3, "write fast", &[KeySpec::at(1, "RW access delete"), KeySpec::at(2, "OW insert")])
        .summary("Renames a key if no key has the new name.")
        .exclusive(),
    Scan("scan", "2.8.0", -2, "readonly", NO_KEYS)
        .summary("Iterates over the keys.")
        .tips(&["nondeterministic_output", "request_policy:special"]),
    Sort("sort", "1.0.0", -2, "write denyoom movablekeys", &[KeySpec::at(1, "RO access"), KeySpec::BY_OR_GET, KeySpec::STORE])
        .summary("Sorts the elements of a list, a set or a sorted set, and returns or stores them.")
        .categories(&[Category::Set, Category::SortedSet, Category::List, Category::Dangerous])
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    SortRo("sort_ro", "7.0.0", -2, "readonly movablekeys", &[KeySpec::at(1, "RO access"), KeySpec::BY_OR_GET])
        .summary("Sorts the elements of a list, a set or a sorted set, and returns them.")
        .categories(&[Category::Set, Category::SortedSet, Category::List, Category::Dangerous])
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    Touch("touch", "3.2.1", -2, "readonly fast", &[KeySpec::all_from(1, "RO")])
        .summary("Counts the keys that exist and notes an access to each.")
        .reads_several()
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    Ttl("ttl", "1.0.0", 2, "readonly fast", READS)
        .summary("Returns the time to live of a key in seconds.")
        .tips(&["nondeterministic_output"]),
    Type("type", "1.0.0", 2, "readonly fast", LOOKS)
        .summary("Returns the type of the value of a key."),
    Unlink("unlink", "4.0.0", -2, "write fast", &[KeySpec::all_from(1, "RM delete")])
        .summary("Removes keys.")
        .writes_several()
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
}
