//! Commands of hashes.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::{Cost, Few};
use super::super::group::group;
use super::super::keys::{DELETES, INSERTS, LOOKS, MODIFIES, READS, UPDATES};
use super::super::spec::{Group, Spec};

group! {
    /// A command of hashes.
    Hash = Group { name: "hash", categories: &[Category::Hash] };
    HDel("hdel", "2.0.0", -3, "write fast", DELETES)
        .summary("Removes fields from a hash."),
    HExists("hexists", "2.0.0", 3, "readonly fast", LOOKS)
        .summary("Tests whether a hash has a field."),
    HGet("hget", "2.0.0", 3, "readonly fast", READS)
        .summary("Returns the value of a field of a hash."),
    HGetAll("hgetall", "2.0.0", 2, "readonly", READS)
        .summary("Returns all fields of a hash with their values.")
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
    HIncrBy("hincrby", "2.0.0", 4, "write denyoom fast", MODIFIES)
        .summary("Increments the integer value of a field of a hash."),
    HIncrByFloat("hincrbyfloat", "2.6.0", 4, "write denyoom fast", MODIFIES)
        .summary("Increments the floating-point value of a field of a hash."),
    HKeys("hkeys", "2.0.0", 2, "readonly", READS)
        .summary("Returns all fields of a hash.")
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
    HLen("hlen", "2.0.0", 2, "readonly fast", LOOKS)
        .summary("Counts the fields of a hash."),
    HMGet("hmget", "2.0.0", -3, "readonly fast", READS)
        .summary("Returns the values of several fields of a hash."),
    HMSet("hmset", "2.0.0", -4, "write denyoom fast", UPDATES)
        .summary("Sets fields of a hash. Superseded by HSET."),
    HRandField("hrandfield", "6.2.0", -2, "readonly", READS)
        .summary("Returns random fields of a hash.")
        .cost(Cost::Collections(Few::WithoutCount))
        .tips(&["nondeterministic_output"]),
    HScan("hscan", "2.8.0", -3, "readonly", READS)
        .summary("Iterates over the fields of a hash.")
        .cost(Cost::Collections(Few::Count))
        .tips(&["nondeterministic_output"]),
    HSet("hset", "2.0.0", -4, "write denyoom fast", UPDATES)
        .summary("Sets fields of a hash."),
    HSetNx("hsetnx", "2.0.0", 4, "write denyoom fast", INSERTS)
        .summary("Sets a field of a hash if the hash does not have it."),
    HStrLen("hstrlen", "3.2.0", 3, "readonly fast", LOOKS)
        .summary("Returns the length of the value of a field of a hash."),
    HVals("hvals", "2.0.0", 2, "readonly", READS)
        .summary("Returns the values of all fields of a hash.")
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
}
