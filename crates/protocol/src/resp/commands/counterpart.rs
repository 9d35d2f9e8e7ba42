//! Commands of RESP that stand for requests of another protocol.

use super::spec::Spec;
use super::table::{SPECS, has, number};

/// A command, and perhaps a subcommand, whose permission a request of another protocol needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart {
    words: &'static [&'static str],
    number: usize,
}

impl Counterpart {
    /// The counterpart of these words: a command, and perhaps its subcommand. For constants: words
    /// that no row has do not compile there.
    ///
    /// # Panics
    /// If there is no such command.
    #[must_use]
    #[expect(clippy::panic, reason = "evaluated by the compiler")]
    pub const fn new(words: &'static [&'static str]) -> Self {
        assert!(has(words), "no command has this name");
        match words {
            [command, ..] => Self { words, number: number(command) },
            [] => panic!("no words"),
        }
    }

    /// The row of the command.
    #[must_use]
    pub fn spec(self) -> Option<&'static Spec> {
        SPECS.get(self.number)
    }

    /// The command, and the subcommand if it is one.
    #[must_use]
    pub const fn words(self) -> &'static [&'static str] {
        self.words
    }
}
