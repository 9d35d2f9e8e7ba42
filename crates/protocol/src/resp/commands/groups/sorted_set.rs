//! Commands of sorted sets.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::{Cost, Few};
use super::super::group::group;
use super::super::keys::{DELETES, KeySpec, LOOKS, MODIFIES, READS, TAKES, UPDATES};
use super::super::spec::{Group, Spec};

group! {
    /// A command of sorted sets.
    SortedSet = Group { name: "sorted-set", categories: &[Category::SortedSet] };
    ZAdd("zadd", "1.2.0", -4, "write denyoom fast", UPDATES)
        .summary("Adds members to a sorted set, or updates their scores."),
    ZCard("zcard", "1.2.0", 2, "readonly fast", LOOKS)
        .summary("Counts the members of a sorted set."),
    ZCount("zcount", "2.0.0", 4, "readonly fast", READS)
        .summary("Counts the members of a sorted set within a range of scores."),
    ZDiff("zdiff", "6.2.0", -3, "readonly movablekeys", &[KeySpec::counted_at(1, "RO access")])
        .summary("Returns the difference of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZDiffStore("zdiffstore", "6.2.0", -4, "write denyoom movablekeys", &[KeySpec::at(1, "OW update"), KeySpec::counted_at(2, "RO access")])
        .summary("Stores the difference of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZIncrBy("zincrby", "1.2.0", 4, "write denyoom fast", MODIFIES)
        .summary("Increments the score of a member of a sorted set."),
    ZInter("zinter", "6.2.0", -3, "readonly movablekeys", &[KeySpec::counted_at(1, "RO access")])
        .summary("Returns the intersection of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZInterCard("zintercard", "7.0.0", -3, "readonly movablekeys", &[KeySpec::counted_at(1, "RO access")])
        .summary("Counts the members of the intersection of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZInterStore("zinterstore", "2.0.0", -4, "write denyoom movablekeys", &[KeySpec::at(1, "OW update"), KeySpec::counted_at(2, "RO access")])
        .summary("Stores the intersection of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZLexCount("zlexcount", "2.8.9", 4, "readonly fast", READS)
        .summary("Counts the members of a sorted set within a lexicographical range."),
    ZMPop("zmpop", "7.0.0", -4, "write movablekeys", &[KeySpec::counted_at(1, "RW access delete")])
        .summary("Removes and returns the members with the highest or lowest scores of the first sorted set that is not empty.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZMScore("zmscore", "6.2.0", -3, "readonly fast", READS)
        .summary("Returns the scores of several members of a sorted set."),
    ZPopMax("zpopmax", "5.0.0", -2, "write fast", TAKES)
        .summary("Removes and returns the members with the highest scores of a sorted set."),
    ZPopMin("zpopmin", "5.0.0", -2, "write fast", TAKES)
        .summary("Removes and returns the members with the lowest scores of a sorted set."),
    ZRandMember("zrandmember", "6.2.0", -2, "readonly", READS)
        .summary("Returns random members of a sorted set.")
        .cost(Cost::Collections(Few::WithoutCount))
        .tips(&["nondeterministic_output"]),
    ZRange("zrange", "1.2.0", -4, "readonly", READS)
        .summary("Returns members of a sorted set by rank, score or lexicographical order.")
        .cost(Cost::Collections(Few::RangeOrLimit)),
    ZRangeByLex("zrangebylex", "2.8.9", -4, "readonly", READS)
        .summary("Returns the members of a sorted set within a lexicographical range.")
        .cost(Cost::Collections(Few::Limit)),
    ZRangeByScore("zrangebyscore", "1.0.5", -4, "readonly", READS)
        .summary("Returns the members of a sorted set within a range of scores.")
        .cost(Cost::Collections(Few::Limit)),
    ZRangeStore("zrangestore", "6.2.0", -5, "write denyoom", &[KeySpec::at(1, "OW update"), KeySpec::at(2, "RO access")])
        .summary("Stores members of a sorted set by rank, score or lexicographical order.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZRank("zrank", "2.0.0", 3, "readonly fast", READS)
        .summary("Returns the rank of a member of a sorted set."),
    ZRem("zrem", "1.2.0", -3, "write fast", DELETES)
        .summary("Removes members from a sorted set."),
    ZRemRangeByLex("zremrangebylex", "2.8.9", 4, "write", DELETES)
        .summary("Removes the members of a sorted set within a lexicographical range.")
        .cost(Cost::Collections(Few::Never)),
    ZRemRangeByRank("zremrangebyrank", "2.0.0", 4, "write", DELETES)
        .summary("Removes the members of a sorted set within a range of ranks.")
        .cost(Cost::Collections(Few::Never)),
    ZRemRangeByScore("zremrangebyscore", "1.2.0", 4, "write", DELETES)
        .summary("Removes the members of a sorted set within a range of scores.")
        .cost(Cost::Collections(Few::Never)),
    ZRevRange("zrevrange", "1.2.0", -4, "readonly", READS)
        .summary("Returns members of a sorted set by rank, highest scores first.")
        .cost(Cost::Collections(Few::Range)),
    ZRevRangeByLex("zrevrangebylex", "2.8.9", -4, "readonly", READS)
        .summary("Returns the members of a sorted set within a lexicographical range, last first.")
        .cost(Cost::Collections(Few::Limit)),
    ZRevRangeByScore("zrevrangebyscore", "2.2.0", -4, "readonly", READS)
        .summary("Returns the members of a sorted set within a range of scores, highest first.")
        .cost(Cost::Collections(Few::Limit)),
    ZRevRank("zrevrank", "2.0.0", 3, "readonly fast", READS)
        .summary("Returns the rank of a member of a sorted set, counted from the highest score."),
    ZScan("zscan", "2.8.0", -3, "readonly", READS)
        .summary("Iterates over the members of a sorted set.")
        .cost(Cost::Collections(Few::Count))
        .tips(&["nondeterministic_output"]),
    ZScore("zscore", "1.2.0", 3, "readonly fast", READS)
        .summary("Returns the score of a member of a sorted set."),
    ZUnion("zunion", "6.2.0", -3, "readonly movablekeys", &[KeySpec::counted_at(1, "RO access")])
        .summary("Returns the union of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    ZUnionStore("zunionstore", "2.0.0", -4, "write denyoom movablekeys", &[KeySpec::at(1, "OW update"), KeySpec::counted_at(2, "RO access")])
        .summary("Stores the union of sorted sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
}
