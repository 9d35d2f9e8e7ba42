//! A set of rules about commands, keys and channels: the form of a user's rules, and of each of its
//! selectors.

use protocol::resp::commands::{Category, NUMBERS, Spec, categories_of, numbers_named};
use protocol::resp::glob::matches;

/// Keys that may be read, written, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    glob: Vec<u8>,
    read: bool,
    write: bool,
}

/// See the module.
#[derive(Clone)]
pub(super) struct Selector {
    /// By the numbers of commands and subcommands.
    allowed: Vec<bool>,
    /// The rules about commands as they were given, without those that later ones undid.
    told: Vec<String>,
    keys: Vec<Pattern>,
    channels: Vec<String>,
}

/// Why something is not allowed; of several selectors the greatest is reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command, whatever its arguments are.
    Command,
    /// The key.
    Key(Vec<u8>),
}

impl Default for Selector {
    /// One that allows nothing.
    fn default() -> Self {
        Self {
            allowed: vec![false; NUMBERS],
            told: vec!["-@all".to_owned()],
            keys: Vec::new(),
            channels: Vec::new(),
        }
    }
}

impl Selector {
    /// Returns whether nothing is denied.
    pub(super) fn is_everything(&self) -> bool {
        self.allowed.iter().all(|allowed| *allowed) && self.has_all_keys()
    }

    /// Returns whether the selector allows reading and writing every key.
    pub(super) fn has_all_keys(&self) -> bool {
        self.keys.iter().any(|pattern| pattern.glob == b"*" && pattern.read && pattern.write)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// In Redis's words, why it is none.
    pub(super) fn apply(&mut self, text: &str) -> Result<(), &'static str> {
        const UNKNOWN: &str = "Unknown command or category name in ACL";
        match text.to_ascii_lowercase().as_str() {
            "allkeys" => self.add_key("*", true, true)?,
            "resetkeys" => self.keys.clear(),
            "allchannels" => self.add_channel("&*")?,
            "resetchannels" => self.channels.clear(),
            "allcommands" => self.set_commands("+@all").ok_or(UNKNOWN)?,
            "nocommands" => self.set_commands("-@all").ok_or(UNKNOWN)?,
            lower => match text.split_at_checked(1) {
                Some(("+" | "-", rest)) if !rest.is_empty() => self.set_commands(lower).ok_or(UNKNOWN)?,
                Some(("~", glob)) => self.add_key(glob, true, true)?,
                Some(("%", rest)) => {
                    let (how, glob) = rest.split_once('~').ok_or(SYNTAX)?;
                    let how = how.to_ascii_uppercase();
                    if how.is_empty() || how.chars().any(|flag| !"RW".contains(flag)) {
                        return Err(SYNTAX);
                    }
                    self.add_key(glob, how.contains('R'), how.contains('W'))?;
                }
                Some(("&", _)) => self.add_channel(text)?,
                _ => return Err(SYNTAX),
            },
        }
        Ok(())
    }

    fn add_key(&mut self, glob: &str, read: bool, write: bool) -> Result<(), &'static str> {
        if self.has_all_keys() && glob != "*" {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                        effect. Try 'resetkeys' to start with an empty list of patterns",
            );
        }
        let pattern = Pattern { glob: glob.as_bytes().to_vec(), read, write };
        match self.keys.iter_mut().find(|known| known.glob == pattern.glob) {
            // Keys that one rule may read and another may write may be both.
            Some(known) => (known.read, known.write) = (known.read | read, known.write | write),
            None => self.keys.push(pattern),
        }
        if self.has_all_keys() {
            self.keys.retain(|known| known.glob == b"*");
        }
        Ok(())
    }

    fn add_channel(&mut self, rule: &str) -> Result<(), &'static str> {
        if rule == "&*" {
            self.channels = vec![rule.to_owned()];
        } else if self.channels.iter().any(|known| known == "&*") {
            return Err(
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                        effect. Try 'resetchannels' to start with an empty list of channels",
            );
        } else if !self.channels.iter().any(|known| known == rule) {
            self.channels.push(rule.to_owned());
        }
        Ok(())
    }

    /// Allows or denies the commands that `rule`, in lower case with its sign, names; `None` if it
    /// names nothing.
    fn set_commands(&mut self, rule: &str) -> Option<()> {
        let (sign, name) = rule.split_at_checked(1)?;
        let allow = sign == "+";
        if name == "@all" {
            self.allowed.fill(allow);
            self.told.clear();
        } else if let Some(category) = name.strip_prefix('@') {
            let category = Category::named(category)?;
            for (number, allowed) in self.allowed.iter_mut().enumerate() {
                if categories_of(number).is_some_and(|own| own.has(category)) {
                    *allowed = allow;
                }
            }
        } else {
            let numbers = numbers_named(name.as_bytes());
            if numbers.is_empty() {
                return None;
            }
            for number in numbers {
                *self.allowed.get_mut(number)? = allow;
            }
        }
        // A later rule for the same command undoes the earlier one, as does a rule for a command
        // those for its subcommands.
        let within = format!("{name}|");
        self.told.retain(|told| told.get(1..).is_some_and(|told| told != name && !told.starts_with(&within)));
        self.told.push(rule.to_owned());
        Some(())
    }

    /// Checks that a command may be called with these arguments, its name the first.
    ///
    /// # Errors
    /// The part of the call that is denied.
    pub(super) fn check(&self, spec: &Spec, args: &[&[u8]]) -> Result<(), Denied> {
        if !self.may_call(spec, args.get(1).copied()) {
            return Err(Denied::Command);
        }
        if self.has_all_keys() {
            return Ok(());
        }
        for (nth, place) in spec.guarded_places(args).into_iter().enumerate() {
            let (read, write) = spec.access(nth, args);
            let Some(key) = args.get(place) else { continue };
            let fits = |pattern: &Pattern| {
                (!read || pattern.read) && (!write || pattern.write) && matches(&pattern.glob, key)
            };
            if !self.keys.iter().any(fits) {
                return Err(Denied::Key(key.to_vec()));
            }
        }
        Ok(())
    }

    fn may_call(&self, spec: &Spec, sub: Option<&[u8]>) -> bool {
        let number = sub.and_then(|sub| spec.number_of(&[spec.name.as_bytes(), sub])).unwrap_or(spec.number);
        self.allowed.get(number).copied().unwrap_or(false)
    }

    /// The rules about commands.
    pub(super) fn commands_text(&self) -> String {
        self.told.join(" ")
    }

    /// The rules about keys.
    pub(super) fn keys_text(&self) -> String {
        let of = |pattern: &Pattern| {
            let how = match (pattern.read, pattern.write) {
                (true, false) => "%R",
                (false, true) => "%W",
                _ => "",
            };
            format!("{how}~{}", String::from_utf8_lossy(&pattern.glob))
        };
        self.keys.iter().map(of).collect::<Vec<_>>().join(" ")
    }

    /// The rules about channels.
    pub(super) fn channels_text(&self) -> String {
        self.channels.join(" ")
    }

    /// All of it as in a line of an ACL file.
    pub(super) fn line(&self) -> String {
        let channels =
            if self.channels.is_empty() { "resetchannels".to_owned() } else { self.channels_text() };
        // Channels that are not all of them are added to none.
        let channels = if channels.starts_with('&') && channels != "&*" {
            format!("resetchannels {channels}")
        } else {
            channels
        };
        let parts = [self.keys_text(), channels, self.commands_text()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

pub(super) const SYNTAX: &str = "Syntax error";
