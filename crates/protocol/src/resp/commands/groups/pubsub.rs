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
            Subcommand::new("channels", "2.8.0", 0, MANY, "pubsub")
                .does("[<pattern>]", "Lists the channels that have subscribers."),
            Subcommand::help("6.2.0"),
            Subcommand::new("numpat", "2.8.0", 0, 0, "pubsub")
                .does("", "Returns 0: there are no subscriptions to patterns."),
            Subcommand::new("numsub", "2.8.0", 0, MANY, "pubsub")
                .does("[<channel> ...]", "Counts the subscribers of channels."),
            Subcommand::new("shardchannels", "7.0.0", 0, MANY, "pubsub")
                .does("[<pattern>]", "Returns an empty list: there are no shards."),
            Subcommand::new("shardnumsub", "7.0.0", 0, MANY, "pubsub")
                .does("[<channel> ...]", "Returns 0 for each channel: there are no shards."),
        ]),
    Subscribe("subscribe", "2.0.0", -2, "pubsub noscript loading stale", NO_KEYS)
        .summary("Subscribes to the channel of invalidated keys."),
    Unsubscribe("unsubscribe", "2.0.0", -1, "pubsub noscript loading stale", NO_KEYS)
        .summary("Unsubscribes from the channel of invalidated keys."),
}
