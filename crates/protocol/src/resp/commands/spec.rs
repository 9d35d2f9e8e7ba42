//! A row of the table.

use super::Command;
use super::categories::{Categories, Category, has_word};
use super::cost::Cost;
use super::keys::{KeySpec, range_of};
use super::subcommand::Subcommand;

/// A group of commands, as Redis's documentation has them.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name.
    pub name: &'static str,
    /// The categories of its commands, besides those that their flags imply.
    pub categories: &'static [Category],
}

/// The extent to which the key space is shared while a command is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Anything: the command sees and changes one key at a time.
    Shared,
    /// Of the writes of several keys by others, none is seen in part, if the request has several
    /// keys.
    ReadsSeveral,
    /// Its writes are not seen in part by commands that read several keys, if it has several keys.
    WritesSeveral,
    /// Nothing.
    Exclusive,
}

/// A row: all that is known of a command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Which one it is, to dispatch by.
    pub command: Command,
    /// The place in [`SPECS`](super::SPECS).
    pub number: usize,
    /// The name, in lower case.
    pub name: &'static str,
    /// The version of Redis that introduced the command.
    pub since: &'static str,
    /// The number of arguments, the name among them; below zero: at least that many.
    pub arity: i8,
    /// Flags in Redis's words, with a space between the words.
    pub flags: &'static str,
    /// Its keys.
    pub keys: &'static [KeySpec],
    /// The first key's place, the last one's (below zero: from the end), and the step from key to
    /// key; zeros if no key is in a range.
    pub range: (i8, i8, i8),
    /// The group.
    pub group: Group,
    /// Categories.
    pub categories: Categories,
    /// A sentence that says what the command does.
    pub summary: &'static str,
    /// The isolation from other commands.
    pub isolation: Isolation,
    /// The quantity that its time grows with.
    pub cost: Cost,
    /// True if it is executed at once within a transaction, rather than queued.
    pub is_immediate: bool,
    /// Hints for proxies, in Redis's words.
    pub tips: &'static [&'static str],
    /// Its subcommands.
    pub subcommands: &'static [Subcommand],
}

impl Spec {
    pub(super) const fn new(
        group: Group,
        command: Command,
        name: &'static str,
        since: &'static str,
        arity: i8,
        flags: &'static str,
        keys: &'static [KeySpec],
    ) -> Self {
        Self {
            command,
            number: 0,
            name,
            since,
            arity,
            flags,
            keys,
            range: range_of(keys),
            group,
            categories: Categories::of(group.categories, flags),
            summary: "",
            isolation: Isolation::Shared,
            cost: Cost::Arguments,
            is_immediate: false,
            tips: &[],
            subcommands: &[],
        }
    }

    /// With what it does, as a sentence.
    pub(super) const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// In these categories, and not those of its group.
    pub(super) const fn categories(mut self, own: &[Category]) -> Self {
        self.categories = Categories::of(own, self.flags);
        self
    }

    /// Alone in the key space.
    pub(super) const fn exclusive(mut self) -> Self {
        self.isolation = Isolation::Exclusive;
        self
    }

    /// Seen as a whole.
    pub(super) const fn writes_several(mut self) -> Self {
        self.isolation = Isolation::WritesSeveral;
        self
    }

    /// Of one moment.
    pub(super) const fn reads_several(mut self) -> Self {
        self.isolation = Isolation::ReadsSeveral;
        self
    }

    /// At this cost.
    pub(super) const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Executed at once within a transaction.
    pub(super) const fn immediate(mut self) -> Self {
        self.is_immediate = true;
        self
    }

    /// With hints for proxies.
    pub(super) const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    /// With these subcommands.
    pub(super) const fn subcommands(mut self, subcommands: &'static [Subcommand]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Returns whether the command may have that many arguments, its name among them.
    #[must_use]
    pub fn takes(&self, args: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { args >= arity } else { args == arity }
    }

    /// Returns whether the command has a flag.
    #[must_use]
    pub const fn has_flag(&self, flag: &str) -> bool {
        has_word(self.flags, flag)
    }

    /// Returns whether the command may change keys.
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.has_flag("write")
    }

    /// Returns whether a request of that many arguments has several keys in a range.
    #[must_use]
    pub fn has_several_keys(&self, args: usize) -> bool {
        self.key_places(args).nth(1).is_some()
    }
}
