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
            Subcommand::new("caching", "6.0.0", 1, 1, "")
                .does("(YES|NO)", "Tells whether the keys of the next command are tracked, with OPTIN or OPTOUT."),
            Subcommand::new("getname", "2.6.9", 0, 0, "")
                .does("", "Returns the name of this connection."),
            Subcommand::new("getredir", "6.0.0", 0, 0, "")
                .does("", "Returns the connection that receives this one's invalidations."),
            Subcommand::help("5.0.0"),
            Subcommand::new("id", "5.0.0", 0, 0, "")
                .does("", "Returns the number of this connection."),
            Subcommand::new("info", "6.2.0", 0, 0, "")
                .does("", "Returns the fields of this connection."),
            Subcommand::new("kill", "2.4.0", 1, MANY, "admin")
                .does("(<ip:port> | [ID <id>] [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [USER <name>] [ADDR <ip:port>] [LADDR <ip:port>] [SKIPME (YES|NO)])", "Closes the connection from there, or those that match all filters."),
            Subcommand::new("list", "2.4.0", 0, MANY, "admin")
                .does("[TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <id> ...]", "Returns the fields of each connection."),
            Subcommand::new("no-evict", "7.0.0", 1, 1, "admin")
                .does("(ON|OFF)", "Accepted; changes nothing."),
            Subcommand::new("no-touch", "7.2.0", 1, 1, "")
                .does("(ON|OFF)", "Accepted; changes nothing."),
            Subcommand::new("pause", "3.0.0", 1, MANY, "admin")
                .does("<milliseconds> [WRITE|ALL]", "Lets the requests of all clients of the tenant wait, or those that write."),
            Subcommand::new("reply", "3.2.0", 1, 1, "")
                .does("(ON|OFF|SKIP)", "Sets whether commands are answered."),
            Subcommand::new("setinfo", "7.2.0", 2, 2, "")
                .does("(LIB-NAME|LIB-VER) <value>", "Sets the name or version of the client's library."),
            Subcommand::new("setname", "2.6.9", 1, 1, "")
                .does("<name>", "Names this connection."),
            Subcommand::new("tracking", "6.0.0", 1, MANY, "")
                .does("(ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [PREFIX <prefix> ...]] [OPTIN] [OPTOUT] [NOLOOP]", "Sets whether this connection receives invalidations of keys that it has read."),
            Subcommand::new("trackinginfo", "6.2.0", 0, 0, "")
                .does("", "Returns the options of tracking."),
            Subcommand::new("unblock", "5.0.0", 1, MANY, "admin")
                .does("<id> [TIMEOUT|ERROR]", "Returns 0: nobody waits for a key."),
            Subcommand::new("unpause", "6.2.0", 0, 0, "admin")
                .does("", "Ends a pause."),
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
        .summary("Selects a database: 0, or one that a tenant has in its settings."),
}
