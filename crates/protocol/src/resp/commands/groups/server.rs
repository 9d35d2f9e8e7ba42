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
            Subcommand::new("cat", "6.0.0", 0, 1, "")
                .does("[<category>]", "Lists the categories, or the commands of one."),
            Subcommand::new("deluser", "6.0.0", 1, MANY, "admin")
                .does("<username> [<username> ...]", "Removes users."),
            Subcommand::new("dryrun", "7.0.0", 2, MANY, "admin")
                .does("<username> <command> [<arg> ...]", "Tells whether the user may call the command, which is not carried out."),
            Subcommand::new("genpass", "6.0.0", 0, 1, "")
                .does("[<bits>]", "Makes a password of 256 bits, or of this many."),
            Subcommand::new("getuser", "6.0.0", 1, 1, "admin")
                .does("<username>", "Describes a user."),
            Subcommand::help("6.0.0"),
            Subcommand::new("list", "6.0.0", 0, 0, "admin")
                .does("", "Lists all users with their rules."),
            Subcommand::new("load", "6.0.0", 0, 0, "admin")
                .does("", "Always refused: users are in the configuration file."),
            Subcommand::new("log", "6.0.0", 0, 1, "admin")
                .does("[<count> | RESET]", "Lists what was refused, or forgets that."),
            Subcommand::new("save", "6.0.0", 0, 0, "admin")
                .does("", "Always refused: CONFIG REWRITE writes the users."),
            Subcommand::new("setuser", "6.0.0", 1, MANY, "admin")
                .does("<username> [<rule> ...]", "Makes a user, or adds rules to one."),
            Subcommand::new("users", "6.0.0", 0, 0, "admin")
                .does("", "Lists the names of all users."),
            Subcommand::new("whoami", "6.0.0", 0, 0, "")
                .does("", "Returns the user of this connection."),
        ]),
    Command("command", "2.8.13", -1, "loading stale", NO_KEYS)
        .summary("Describes commands.")
        .categories(&[Category::Connection])
        .cost(Cost::Report)
        .tips(&["nondeterministic_output_order"])
        .subcommands(&[
            Subcommand::new("count", "2.8.13", 0, 0, "")
                .does("", "Counts the commands.").categories(&[Category::Connection]),
            Subcommand::new("docs", "7.0.0", 0, MANY, "")
                .does("[<command-name> ...]", "Documents commands, all by default.").categories(&[Category::Connection]),
            Subcommand::new("getkeys", "2.8.13", 2, MANY, "")
                .does("<full-command>", "Returns the keys of a request.").categories(&[Category::Connection]),
            Subcommand::new("getkeysandflags", "7.0.0", 2, MANY, "")
                .does("<full-command>", "Returns the keys of a request, and what becomes of each.").categories(&[Category::Connection]),
            Subcommand::help("5.0.0").categories(&[Category::Connection]),
            Subcommand::new("info", "2.8.13", 0, MANY, "")
                .does("[<command-name> ...]", "Describes commands, all by default.").categories(&[Category::Connection]),
            Subcommand::new("list", "7.0.0", 0, MANY, "")
                .does("[FILTERBY MODULE <name>|ACLCAT <category>|PATTERN <pattern>]", "Lists the names of commands.").categories(&[Category::Connection]),
        ]),
    Config("config", "2.0.0", -2, "", NO_KEYS)
        .summary("Reads and changes settings.")
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("get", "2.0.0", 1, MANY, "admin")
                .does("<pattern> [<pattern> ...]", "Returns settings, under their own names and those that Redis has for them."),
            Subcommand::help("5.0.0"),
            Subcommand::new("resetstat", "2.0.0", 0, 0, "admin")
                .does("", "Resets the statistics of INFO and LATENCY HISTOGRAM."),
            Subcommand::new("rewrite", "2.8.0", 0, 0, "admin")
                .does("", "Writes settings that were changed into the configuration file."),
            Subcommand::new("set", "2.0.0", 2, MANY, "admin")
                .does("<name> <value> [<name> <value> ...]", "Changes settings, all of them or none."),
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
            Subcommand::new("doctor", "2.8.13", 0, 0, "admin")
                .does("", "Explains the events in words."),
            Subcommand::new("graph", "2.8.13", 1, 1, "admin")
                .does("<event>", "Draws the times of an event."),
            Subcommand::help("2.8.13"),
            Subcommand::new("histogram", "7.0.0", 0, MANY, "admin")
                .does("[<command> ...]", "Counts the calls of commands by the time that they took, in microseconds."),
            Subcommand::new("history", "2.8.13", 1, 1, "admin")
                .does("<event>", "Lists the slowest request of each second that had a slow one: time, and milliseconds."),
            Subcommand::new("latest", "2.8.13", 0, 0, "admin")
                .does("", "Lists the latest of each event: time, milliseconds, and those of the slowest of all."),
            Subcommand::new("reset", "2.8.13", 0, MANY, "admin")
                .does("[<event> ...]", "Forgets events, all by default."),
        ]),
    Memory("memory", "4.0.0", -2, "", NO_KEYS)
        .summary("Reports memory use.")
        .subcommands(&[
            Subcommand::help("4.0.0"),
            Subcommand::new("usage", "4.0.0", 1, MANY, "readonly")
                .does("<key> [SAMPLES <count>]", "Returns the bytes that a key and its value take of their pool.").with_key(),
        ]),
    Role("role", "2.8.12", 1, "noscript loading stale fast", NO_KEYS)
        .summary("Returns the role in replication: always that of a primary without replicas.")
        .categories(&[Category::Admin, Category::Dangerous]),
    SlowLog("slowlog", "2.2.12", -2, "", NO_KEYS)
        .summary("Reports slow commands.")
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("get", "2.2.12", 0, MANY, "admin")
                .does("[<count>]", "Lists the latest slow requests, 10 by default, all for -1: number, time, microseconds, arguments, address and name of the client."),
            Subcommand::help("6.2.0"),
            Subcommand::new("len", "2.2.12", 0, 0, "admin")
                .does("", "Counts the requests that are kept."),
            Subcommand::new("reset", "2.2.12", 0, 0, "admin")
                .does("", "Forgets them."),
        ]),
    SwapDb("swapdb", "4.0.0", 3, "write fast", NO_KEYS)
        .summary("Swaps two databases. Only database 0 exists.")
        .categories(&[Category::Keyspace, Category::Dangerous]),
    Time("time", "2.6.0", 1, "loading stale fast", NO_KEYS)
        .summary("Returns the time of the server.")
        .tips(&["nondeterministic_output"]),
}
