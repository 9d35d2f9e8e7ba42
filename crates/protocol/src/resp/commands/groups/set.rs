//! Commands of sets.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::{Cost, Few};
use super::super::group::group;
use super::super::keys::{DELETES, INSERTS, KeySpec, LOOKS, READS, TAKES};
use super::super::spec::{Group, Spec};

group! {
    /// A command of sets.
    Set = Group { name: "set", categories: &[Category::Set] };
    SAdd("sadd", "1.0.0", -3, "write denyoom fast", INSERTS)
        .summary("Adds members to a set."),
    SCard("scard", "1.0.0", 2, "readonly fast", LOOKS)
        .summary("Counts the members of a set."),
    SDiff("sdiff", "1.0.0", -2, "readonly", &[KeySpec::all_from(1, "RO access")])
        .summary("Returns the difference of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
    SDiffStore("sdiffstore", "1.0.0", -3, "write denyoom", &[KeySpec::at(1, "OW update"), KeySpec::all_from(2, "RO access")])
        .summary("Stores the difference of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    SInter("sinter", "1.0.0", -2, "readonly", &[KeySpec::all_from(1, "RO access")])
        .summary("Returns the intersection of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
    SInterCard("sintercard", "7.0.0", -3, "readonly movablekeys", &[KeySpec::counted_at(1, "RO access")])
        .summary("Counts the members of the intersection of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    SInterStore("sinterstore", "1.0.0", -3, "write denyoom", &[KeySpec::at(1, "RW update"), KeySpec::all_from(2, "RO access")])
        .summary("Stores the intersection of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    SIsMember("sismember", "1.0.0", 3, "readonly fast", LOOKS)
        .summary("Tests whether a set has a member."),
    SMembers("smembers", "1.0.0", 2, "readonly", READS)
        .summary("Returns all members of a set.")
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
    SMIsMember("smismember", "6.2.0", -3, "readonly fast", READS)
        .summary("Tests which of several members a set has."),
    SMove("smove", "1.0.0", 4, "write fast", &[KeySpec::at(1, "RW access delete"), KeySpec::at(2, "RW insert")])
        .summary("Moves a member from one set to another.")
        .exclusive(),
    SPop("spop", "1.0.0", -2, "write fast", TAKES)
        .summary("Removes and returns random members of a set.")
        .tips(&["nondeterministic_output"]),
    SRandMember("srandmember", "1.0.0", -2, "readonly", READS)
        .summary("Returns random members of a set.")
        .cost(Cost::Collections(Few::WithoutCount))
        .tips(&["nondeterministic_output"]),
    SRem("srem", "1.0.0", -3, "write fast", DELETES)
        .summary("Removes members from a set."),
    SScan("sscan", "2.8.0", -3, "readonly", READS)
        .summary("Iterates over the members of a set.")
        .cost(Cost::Collections(Few::Count))
        .tips(&["nondeterministic_output"]),
    SUnion("sunion", "1.0.0", -2, "readonly", &[KeySpec::all_from(1, "RO access")])
        .summary("Returns the union of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never))
        .tips(&["nondeterministic_output_order"]),
    SUnionStore("sunionstore", "1.0.0", -3, "write denyoom", &[KeySpec::at(1, "OW update"), KeySpec::all_from(2, "RO access")])
        .summary("Stores the union of sets.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
}
