//! Commands of lists.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::{Cost, Few};
use super::super::group::group;
use super::super::keys::{DELETES, INSERTS, KeySpec, LOOKS, READS, TAKES, UPDATES};
use super::super::spec::{Group, Spec};

group! {
    /// A command of lists.
    List = Group { name: "list", categories: &[Category::List] };
    LIndex("lindex", "1.0.0", 3, "readonly", READS)
        .summary("Returns the element of a list at an index."),
    LInsert("linsert", "2.2.0", 5, "write denyoom", INSERTS)
        .summary("Inserts an element before or after another element of a list.")
        .cost(Cost::Collections(Few::Never)),
    LLen("llen", "1.0.0", 2, "readonly fast", LOOKS)
        .summary("Counts the elements of a list."),
    LMove("lmove", "6.2.0", 5, "write denyoom", &[KeySpec::at(1, "RW access delete"), KeySpec::at(2, "RW insert")])
        .summary("Moves an element from one end of a list to an end of another list.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    LMPop("lmpop", "7.0.0", -4, "write movablekeys", &[KeySpec::counted_at(1, "RW access delete")])
        .summary("Removes and returns elements of the first list that is not empty.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    LPop("lpop", "1.0.0", -2, "write fast", TAKES)
        .summary("Removes and returns the first elements of a list."),
    LPos("lpos", "6.0.6", -3, "readonly", READS)
        .summary("Returns the indices at which a list has an element.")
        .cost(Cost::Collections(Few::Never)),
    LPush("lpush", "1.0.0", -3, "write denyoom fast", INSERTS)
        .summary("Prepends elements to a list."),
    LPushX("lpushx", "2.2.0", -3, "write denyoom fast", INSERTS)
        .summary("Prepends elements to a list that exists."),
    LRange("lrange", "1.0.0", 4, "readonly", READS)
        .summary("Returns a range of the elements of a list.")
        .cost(Cost::Collections(Few::Range)),
    LRem("lrem", "1.0.0", 4, "write", DELETES)
        .summary("Removes the elements of a list that equal a value.")
        .cost(Cost::Collections(Few::Never)),
    LSet("lset", "1.0.0", 4, "write denyoom", UPDATES)
        .summary("Sets the element of a list at an index."),
    LTrim("ltrim", "1.0.0", 4, "write", DELETES)
        .summary("Trims a list to a range of its elements.")
        .cost(Cost::Collections(Few::Never)),
    RPop("rpop", "1.0.0", -2, "write fast", TAKES)
        .summary("Removes and returns the last elements of a list."),
    RPopLPush("rpoplpush", "1.2.0", 3, "write denyoom", &[KeySpec::at(1, "RW access delete"), KeySpec::at(2, "RW insert")])
        .summary("Moves the last element of a list to the front of another list.")
        .exclusive()
        .cost(Cost::Collections(Few::Never)),
    RPush("rpush", "1.0.0", -3, "write denyoom fast", INSERTS)
        .summary("Appends elements to a list."),
    RPushX("rpushx", "2.2.0", -3, "write denyoom fast", INSERTS)
        .summary("Appends elements to a list that exists."),
}
