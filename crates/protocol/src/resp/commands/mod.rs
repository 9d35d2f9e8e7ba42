//! The commands of RESP as data: one row for each, from which everything about it is derived.
//!
//! A row ([`Spec`]) has a command's name, arity, flags, key positions, categories, isolation, cost,
//! subcommands, group, version and summary. `COMMAND`, `COMMAND DOCS`, the categories and rules of
//! users, the permissions of memcached's verbs, metrics, `docs/resp-commands.md` and the dictionary
//! of the fuzzer come from the rows; a server dispatches by [`Command`], an enum of enums, so that
//! a command without a handler does not compile.
//!
//! To add a command: its row in the file of its group in `groups/`, its arm in the crate `resp`,
//! its test (ARCHITECTURE.md). Flags, categories, key specifications and tips are those that Redis
//! 7.0 has for the command.
//!
//! Absences: nothing here executes a command, knows a connection, or allocates, other than for a
//! requested list of places or names.

mod categories;
mod cost;
mod counterpart;
mod group;
mod groups;
mod keys;
mod spec;
mod subcommand;
mod table;

pub use categories::{Categories, Category};
pub use cost::{Cost, Few};
pub use counterpart::Counterpart;
pub use groups::bitmap::Bitmap;
pub use groups::connection::Connection;
pub use groups::generic::Generic;
pub use groups::hash::Hash;
pub use groups::list::List;
pub use groups::pubsub::PubSub;
pub use groups::server::Server;
pub use groups::set::Set;
pub use groups::sorted_set::SortedSet;
pub use groups::string::Str;
pub use groups::transactions::Transactions;
pub use keys::{Begin, Find, KeySpec};
pub use spec::{Group, Isolation, Spec};
pub use subcommand::{BadSubcommand, Subcommand};
pub use table::{
    COUNT, NUMBERS, SPECS, categories_of, name_of, names_with, number, numbers_named, of_number,
};

/// A command, by its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// A command of bitmaps.
    Bitmap(Bitmap),
    /// A command of connections.
    Connection(Connection),
    /// A command of keys of any type.
    Generic(Generic),
    /// A command of hashes.
    Hash(Hash),
    /// A command of lists.
    List(List),
    /// A command of channels.
    PubSub(PubSub),
    /// A command of the server.
    Server(Server),
    /// A command of sets.
    Set(Set),
    /// A command of sorted sets.
    SortedSet(SortedSet),
    /// A command of strings.
    Str(Str),
    /// A command of transactions.
    Transactions(Transactions),
}

/// Returns whether two words are the same but for the case of their letters.
fn is(text: &[u8], word: &str) -> bool {
    text.eq_ignore_ascii_case(word.as_bytes())
}
