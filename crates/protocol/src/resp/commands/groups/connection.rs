//! Commands of connections.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::Cost;
use super::super::group::group;
use super::super::keys::NO_KEYS;
use super::super::spec::{Group, Spec};
use super::super::subcommand::{MANY, Subcommand};

group! {
    /// A command of connections.
    Connection = Group { name: "connection", categories: &[Category::Connection] };
    Auth("auth", "1.0.0", -2, "noscript loading stale fast no_auth allow_busy", NO_KEYS)
        .summary("Authenticates the connection."),
    Client("client", "2.4.0", -2, "", NO_KEYS)
        .summary("Describes and controls connections.")
        .categories(&[])
        .cost(Cost::Report)
        .subcommands(&[
            Subcommand::new("caching", 1, 1, ""),
            Subcommand::new("getname", 0, 0, ""),
            Subcommand::new("getredir", 0, 0, ""),
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("id", 0, 0, ""),
            Subcommand::new("info", 0, 0, ""),
            Subcommand::new("kill", 1, MANY, "admin"),
            Subcommand::new("list", 0, MANY, "admin"),
            Subcommand::new("no-evict", 1, 1, "admin"),
            Subcommand::new("no-touch", 1, 1, ""),
            Subcommand::new("pause", 1, MANY, "admin"),
            Subcommand::new("reply", 1, 1, ""),
            Subcommand::new("setinfo", 2, 2, ""),
            Subcommand::new("setname", 1, 1, ""),
            Subcommand::new("tracking", 1, MANY, ""),
            Subcommand::new("trackinginfo", 0, 0, ""),
            Subcommand::new("unblock", 1, MANY, "admin"),
            Subcommand::new("unpause", 0, 0, "admin"),
        ]),
    Echo("echo", "1.0.0", 2, "loading stale fast", NO_KEYS)
        .summary("Returns its argument."),
    Hello("hello", "6.0.0", -1, "noscript loading stale fast no_auth allow_busy", NO_KEYS)
        .summary("Selects the protocol version and describes the server."),
    Ping("ping", "1.0.0", -1, "fast", NO_KEYS)
        .summary("Tests whether the server answers.")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Quit("quit", "1.0.0", -1, "noscript loading stale fast no_auth allow_busy", NO_KEYS)
        .summary("Closes the connection.")
        .immediate(),
    Reset("reset", "6.2.0", 1, "noscript loading stale fast no_auth allow_busy", NO_KEYS)
        .summary("Resets the state of the connection.")
        .immediate(),
    Select("select", "1.0.0", 2, "loading stale fast", NO_KEYS)
        .summary("Selects a database. Only database 0 exists."),
}
