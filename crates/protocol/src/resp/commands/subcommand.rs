//! Subcommands of commands that contain some.

use super::categories::{Categories, Category};
use super::is;
use super::spec::{Group, Spec};

/// As many arguments as a request may have.
pub(super) const MANY: usize = usize::MAX;

/// A subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Subcommand {
    /// The name, in lower case.
    pub name: &'static str,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// The fewest arguments behind its name.
    pub least: usize,
    /// The most arguments behind its name.
    pub most: usize,
    flags: &'static str,
    /// Categories, if they are not those of the group.
    own: Option<&'static [Category]>,
    /// True if its first argument is a key, of which it reads neither value nor type.
    pub has_key: bool,
    /// The arguments behind its name, as `HELP` writes them.
    pub arguments: &'static str,
    /// A sentence that says what it does.
    pub summary: &'static str,
}

impl Subcommand {
    pub(super) const fn new(
        name: &'static str,
        since: &'static str,
        least: usize,
        most: usize,
        flags: &'static str,
    ) -> Self {
        Self { name, since, least, most, flags, own: None, has_key: false, arguments: "", summary: "" }
    }

    /// The one that lists the others.
    pub(super) const fn help(since: &'static str) -> Self {
        Self::new("help", since, 0, 0, "").does("", "Prints this help.")
    }

    /// With its arguments, and what it does, as a sentence.
    pub(super) const fn does(mut self, arguments: &'static str, summary: &'static str) -> Self {
        (self.arguments, self.summary) = (arguments, summary);
        self
    }

    /// In these categories, and not those of its group.
    pub(super) const fn categories(mut self, own: &'static [Category]) -> Self {
        self.own = Some(own);
        self
    }

    /// With a key as its first argument.
    pub(super) const fn with_key(mut self) -> Self {
        self.has_key = true;
        self
    }

    /// The categories, as a subcommand of a command of that group.
    #[must_use]
    pub const fn categories_in(&self, group: Group) -> Categories {
        let own = match self.own {
            Some(own) => own,
            None => group.categories,
        };
        Categories::of(own, self.flags)
    }
}

/// The reason why a request of a command with subcommands is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSubcommand {
    /// No subcommand has the name.
    Unknown,
    /// The subcommand of this name takes another number of arguments.
    WrongNumber(&'static str),
}

impl Spec {
    /// Checks the subcommand that a request names, if its command has some, and the number of its
    /// arguments.
    ///
    /// # Errors
    /// The fault of the request.
    pub fn check_subcommand(&self, args: &[&[u8]]) -> Result<(), BadSubcommand> {
        let ([_, ..], [_, name, values @ ..]) = (self.subcommands, args) else { return Ok(()) };
        let found = self.subcommands.iter().find(|known| is(name, known.name));
        let known = found.ok_or(BadSubcommand::Unknown)?;
        if (known.least..=known.most).contains(&values.len()) {
            Ok(())
        } else {
            Err(BadSubcommand::WrongNumber(known.name))
        }
    }

    /// The place among the command's subcommands of the one that a request names.
    #[must_use]
    pub fn subcommand_place(&self, args: &[&[u8]]) -> Option<usize> {
        let name = args.get(1)?;
        self.subcommands.iter().position(|known| is(name, known.name))
    }

    /// The name of the subcommand that a request names; empty if it names none.
    #[must_use]
    pub fn subcommand_name(&self, args: &[&[u8]]) -> &'static str {
        let known = self.subcommand_place(args).and_then(|place| self.subcommands.get(place));
        known.map_or("", |known| known.name)
    }

    /// The name that refusals give a request: the command's, with the subcommand's if the command
    /// has some, whether known or not.
    #[must_use]
    pub fn full_name(&self, args: &[&[u8]]) -> String {
        match args.get(1) {
            Some(sub) if !self.subcommands.is_empty() => {
                format!("{}|{}", self.name, String::from_utf8_lossy(sub).to_ascii_lowercase())
            }
            _ => self.name.to_owned(),
        }
    }
}
