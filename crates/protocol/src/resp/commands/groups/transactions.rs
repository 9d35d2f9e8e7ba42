//! Commands of transactions.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::Cost;
use super::super::group::group;
use super::super::keys::{KeySpec, NO_KEYS};
use super::super::spec::{Group, Spec};

group! {
    /// A command of transactions.
    Transactions = Group { name: "transactions", categories: &[Category::Transaction] };
    Discard("discard", "2.0.0", 1, "noscript loading stale fast allow_busy", NO_KEYS)
        .summary("Discards the transaction.")
        .immediate(),
    Exec("exec", "1.2.0", 1, "noscript loading stale skip_slowlog", NO_KEYS)
        .summary("Executes the queued commands of the transaction.")
        .exclusive()
        .cost(Cost::Queued)
        .immediate(),
    Multi("multi", "1.2.0", 1, "noscript loading stale fast allow_busy", NO_KEYS)
        .summary("Begins a transaction.")
        .immediate(),
    Unwatch("unwatch", "2.2.0", 1, "noscript loading stale fast allow_busy", NO_KEYS)
        .summary("Stops watching all keys."),
    Watch("watch", "2.2.0", -2, "noscript loading stale fast allow_busy", &[KeySpec::all_from(1, "RO")])
        .summary("Watches keys: the next transaction fails if one of them changes.")
        .immediate(),
}
