//! Commands of channels.

use super::super::Command;
use super::super::group::group;
use super::super::keys::NO_KEYS;
use super::super::spec::{Group, Spec};
use super::super::subcommand::{MANY, Subcommand};

group! {
    /// A command of channels.
    PubSub = Group { name: "pubsub", categories: &[] };
    PubSub("pubsub", "2.8.0", -2, "", NO_KEYS)
        .summary("Describes channels.")
        .subcommands(&[
            Subcommand::new("channels", 0, MANY, "pubsub"),
            Subcommand::new("help", 0, 0, ""),
            Subcommand::new("numpat", 0, 0, "pubsub"),
            Subcommand::new("numsub", 0, MANY, "pubsub"),
            Subcommand::new("shardchannels", 0, MANY, "pubsub"),
            Subcommand::new("shardnumsub", 0, MANY, "pubsub"),
        ]),
    Subscribe("subscribe", "2.0.0", -2, "pubsub noscript loading stale", NO_KEYS)
        .summary("Subscribes to the channel of invalidated keys."),
    Unsubscribe("unsubscribe", "2.0.0", -1, "pubsub noscript loading stale", NO_KEYS)
        .summary("Unsubscribes from the channel of invalidated keys."),
}
