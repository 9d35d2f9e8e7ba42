//! Commands of the server.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::Cost;
use super::super::group::group;
use super::super::keys::NO_KEYS;
use super::super::spec::{Group, Spec};
use super::super::subcommand::{MANY, Subcommand};

group! {
    /// A command of the server.
    Server = Group { name: "server", categories: &[] };
    Acl("acl", "6.0.0", -2, "", NO_KEYS)
        .summary("Manages users and what they may do.")
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("cat", 0, 1, ""),
            Subcommand::new("deluser", 1, MANY, "admin"),
            Subcommand::new("dryrun", 2, MANY, "admin"),
            Subcommand::new("genpass", 0, 1, ""),
            Subcommand::new("getuser", 1, 1, "admin"),
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("list", 0, 0, "admin"),
            Subcommand::new("load", 0, 0, "admin"),
            Subcommand::new("log", 0, 1, "admin"),
            Subcommand::new("save", 0, 0, "admin"),
            Subcommand::new("setuser", 1, MANY, "admin"),
            Subcommand::new("users", 0, 0, "admin"),
            Subcommand::new("whoami", 0, 0, ""),
        ]),
    Command("command", "2.8.13", -1, "loading stale", NO_KEYS)
        .summary("Describes commands.")
        .categories(&[Category::Connection])
        .cost(Cost::Report)
        .tips(&["nondeterministic_output_order"])
        .subcommands(&[
            Subcommand::new("count", 0, 0, "").categories(&[Category::Connection]),
            Subcommand::new("docs", 0, MANY, "").categories(&[Category::Connection]),
            Subcommand::new("getkeys", 2, MANY, "").categories(&[Category::Connection]),
            Subcommand::new("getkeysandflags", 2, MANY, "").categories(&[Category::Connection]),
            Subcommand::new("help", 0, 0, "").categories(&[Category::Connection]),
            Subcommand::new("info", 0, MANY, "").categories(&[Category::Connection]),
            Subcommand::new("list", 0, MANY, "").categories(&[Category::Connection]),
        ]),
    Config("config", "2.0.0", -2, "", NO_KEYS)
        .summary("Reads and changes settings.")
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("get", 1, MANY, "admin"),
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("resetstat", 0, 0, "admin"),
            Subcommand::new("rewrite", 0, 0, "admin"),
            Subcommand::new("set", 2, MANY, "admin"),
        ]),
    DbSize("dbsize", "1.0.0", 1, "readonly fast", NO_KEYS)
        .summary("Counts the keys.")
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
    Debug("debug", "1.0.0", -2, "admin noscript loading stale", NO_KEYS)
        .summary("Always refused."),
    FlushAll("flushall", "1.0.0", -1, "write", NO_KEYS)
        .summary("Removes all keys.")
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    FlushDb("flushdb", "1.0.0", -1, "write", NO_KEYS)
        .summary("Removes all keys.")
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Info("info", "1.0.0", -1, "loading stale", NO_KEYS)
        .summary("Describes the state of the server as text.")
        .categories(&[Category::Dangerous])
        .cost(Cost::Report)
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    Latency("latency", "2.8.13", -2, "", NO_KEYS)
        .summary("Reports the latency of commands.")
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("doctor", 0, 0, "admin"),
            Subcommand::new("graph", 1, 1, "admin"),
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("histogram", 0, MANY, "admin"),
            Subcommand::new("history", 1, 1, "admin"),
            Subcommand::new("latest", 0, 0, "admin"),
            Subcommand::new("reset", 0, MANY, "admin"),
        ]),
    Memory("memory", "4.0.0", -2, "", NO_KEYS)
        .summary("Reports memory use.")
        .subcommands(&[
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("usage", 1, MANY, "readonly").with_key(),
        ]),
    SlowLog("slowlog", "2.2.12", -2, "", NO_KEYS)
        .summary("Reports slow commands.")
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("get", 0, MANY, "admin"),
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("len", 0, 0, "admin"),
            Subcommand::new("reset", 0, 0, "admin"),
        ]),
    SwapDb("swapdb", "4.0.0", 3, "write fast", NO_KEYS)
        .summary("Swaps two databases. Only database 0 exists.")
        .categories(&[Category::Keyspace, Category::Dangerous]),
    Time("time", "2.6.0", 1, "loading stale fast", NO_KEYS)
        .summary("Returns the time of the server.")
        .tips(&["nondeterministic_output"]),
}
