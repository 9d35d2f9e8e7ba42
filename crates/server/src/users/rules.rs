//! What a user may do: the rules of Redis's ACLs, from their text and back to it.
//!
//! Commands are allowed and denied by name, by subcommand (`client|list`) and by category, the later over the earlier; keys by patterns, for
//! reading, writing or both. What a rule of Redis means that there is nothing of here – channels – is kept and shown.

use std::fmt::Write as _;

use super::password::Password;
use crate::resp::{COUNT, CommandSpec, SPECS, matches};

/// Subcommands that are in other categories than the command that contains them: command, subcommand, categories.
const SUBCOMMANDS: &[(&str, &str, &str)] = &[
    ("acl", "cat", "slow"),
    ("acl", "deluser", "admin slow dangerous"),
    ("acl", "dryrun", "admin slow dangerous"),
    ("acl", "genpass", "slow"),
    ("acl", "getuser", "admin slow dangerous"),
    ("acl", "help", "slow"),
    ("acl", "list", "admin slow dangerous"),
    ("acl", "load", "admin slow dangerous"),
    ("acl", "log", "admin slow dangerous"),
    ("acl", "save", "admin slow dangerous"),
    ("acl", "setuser", "admin slow dangerous"),
    ("acl", "users", "admin slow dangerous"),
    ("acl", "whoami", "slow"),
    ("client", "caching", "slow connection"),
    ("client", "getname", "slow connection"),
    ("client", "getredir", "slow connection"),
    ("client", "help", "slow connection"),
    ("client", "id", "slow connection"),
    ("client", "info", "slow connection"),
    ("client", "kill", "admin slow dangerous connection"),
    ("client", "list", "admin slow dangerous connection"),
    ("client", "no-evict", "admin slow dangerous connection"),
    ("client", "no-touch", "slow connection"),
    ("client", "reply", "slow connection"),
    ("client", "setinfo", "slow connection"),
    ("client", "setname", "slow connection"),
    ("client", "tracking", "slow connection"),
    ("client", "trackinginfo", "slow connection"),
    ("config", "get", "admin slow dangerous"),
    ("config", "help", "slow"),
    ("config", "resetstat", "admin slow dangerous"),
    ("config", "rewrite", "admin slow dangerous"),
    ("config", "set", "admin slow dangerous"),
];

/// All categories, in Redis's order.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Keys that may be read, written, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    glob: Vec<u8>,
    read: bool,
    write: bool,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) is_on: bool,
    pub(crate) needs_no_password: bool,
    pub(crate) passwords: Vec<Password>,
    commands: Vec<bool>,
    subcommands: Vec<bool>,
    /// The rules about commands as they were given, without those that later ones undid.
    told: Vec<String>,
    keys: Vec<Pattern>,
    channels: Vec<String>,
}

/// Why something is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Command,
    /// The key.
    Key(Vec<u8>),
}

impl Default for Rules {
    /// A user that may do nothing.
    fn default() -> Self {
        Self {
            is_on: false,
            needs_no_password: false,
            passwords: Vec::new(),
            commands: vec![false; COUNT],
            subcommands: vec![false; SUBCOMMANDS.len()],
            told: vec!["-@all".to_owned()],
            keys: Vec::new(),
            channels: Vec::new(),
        }
    }
}

impl Rules {
    /// Of one who may do everything, without a password.
    pub(crate) fn everything() -> Self {
        let mut rules = Self::default();
        for word in ["on", "nopass", "allkeys", "allchannels", "allcommands"] {
            let _ = rules.apply(word.as_bytes());
        }
        rules
    }

    /// The rules of a text, over none.
    ///
    /// # Errors
    /// The first rule that is none, and why.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for word in text.split_whitespace() {
            rules.apply(word.as_bytes()).map_err(|problem| format!("`{}`: {problem}", hidden(word)))?;
        }
        Ok(rules)
    }

    /// Whether nothing is denied.
    pub(crate) fn is_everything(&self) -> bool {
        let all = |set: &[bool]| set.iter().all(|allowed| *allowed);
        all(&self.commands) && all(&self.subcommands) && self.has_all_keys()
    }

    /// Whether it may read and write whatever the key.
    pub(crate) fn has_all_keys(&self) -> bool {
        self.keys.iter().any(|pattern| pattern.glob == b"*" && pattern.read && pattern.write)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// In Redis's words, why it is none.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        const UNKNOWN: &str = "Unknown command or category name in ACL";
        const SYNTAX: &str = "Syntax error";
        let text = std::str::from_utf8(rule).map_err(|_| SYNTAX)?;
        match text.to_ascii_lowercase().as_str() {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            "resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            "allkeys" => self.add_key("*", true, true)?,
            "resetkeys" => self.keys.clear(),
            "allchannels" => self.channels = vec!["&*".to_owned()],
            "resetchannels" => self.channels.clear(),
            "allcommands" => self.set_commands("+@all").ok_or(UNKNOWN)?,
            "nocommands" => self.set_commands("-@all").ok_or(UNKNOWN)?,
            "sanitize-payload" | "skip-sanitize-payload" | "clearselectors" => {}
            "reset" => *self = Self::default(),
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
                Some(("&", _)) => self.channels.push(text.to_owned()),
                Some((">", plain)) => self.add_password(Password::of_plain(plain.as_bytes())),
                Some(("#", hex)) => self.add_password(Password::of_hex(hex).ok_or(BAD_HASH)?),
                Some(("<", plain)) => self.remove_password(&Password::of_plain(plain.as_bytes()))?,
                Some(("!", hex)) => self.remove_password(&Password::of_hex(hex).ok_or(BAD_HASH)?)?,
                _ => return Err(SYNTAX),
            },
        }
        Ok(())
    }

    pub(crate) fn add_password(&mut self, password: Password) {
        self.needs_no_password = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove_password(&mut self, password: &Password) -> Result<(), &'static str> {
        let before = self.passwords.len();
        self.passwords.retain(|known| known != password);
        if self.passwords.len() < before {
            return Ok(());
        }
        Err("The password you are trying to remove from the user does not exist")
    }

    fn add_key(&mut self, glob: &str, read: bool, write: bool) -> Result<(), &'static str> {
        if self.has_all_keys() && glob != "*" {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                        effect. Try 'resetkeys' to start with an empty list of patterns",
            );
        }
        let pattern = Pattern { glob: glob.as_bytes().to_vec(), read, write };
        if glob == "*" && read && write {
            self.keys = vec![pattern];
        } else if !self.keys.contains(&pattern) {
            self.keys.push(pattern);
        }
        Ok(())
    }

    /// Allows or denies what `rule`, in lower case with its sign, names; nothing where it names nothing.
    fn set_commands(&mut self, rule: &str) -> Option<()> {
        let (sign, name) = rule.split_at_checked(1)?;
        let allow = sign == "+";
        let has = |categories: &str, wanted: &str| categories.split(' ').any(|category| category == wanted);
        if name == "@all" {
            self.commands.fill(allow);
            self.subcommands.fill(allow);
            self.told.clear();
        } else if let Some(category) = name.strip_prefix('@') {
            if !CATEGORIES.contains(&category) {
                return None;
            }
            let commands = SPECS.iter().map(|spec| spec.categories).zip(&mut self.commands);
            let subcommands = SUBCOMMANDS.iter().map(|(.., own)| *own).zip(&mut self.subcommands);
            for (_, bit) in commands.chain(subcommands).filter(|(own, _)| has(own, category)) {
                *bit = allow;
            }
        } else if let Some((container, sub)) = name.split_once('|') {
            let at = SUBCOMMANDS.iter().position(|(of, own, _)| *of == container && *own == sub)?;
            *self.subcommands.get_mut(at)? = allow;
        } else {
            let spec = CommandSpec::find(name.as_bytes())?;
            *self.commands.get_mut(spec.number())? = allow;
            set_within(&mut self.subcommands, spec.name, allow);
        }
        // What is said of the same again undoes what was said before, as does what is said of a command of its subcommands.
        let within = format!("{name}|");
        self.told.retain(|told| told.get(1..).is_some_and(|told| told != name && !told.starts_with(&within)));
        self.told.push(rule.to_owned());
        Some(())
    }

    /// Whether a command may be called with these arguments, its name the first.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn check(&self, spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Denied> {
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

    fn may_call(&self, spec: &CommandSpec, sub: Option<&[u8]>) -> bool {
        let is_it = |(of, own, _): &(&str, &str, &str)| {
            *of == spec.name && sub.is_some_and(|sub| sub.eq_ignore_ascii_case(own.as_bytes()))
        };
        let bit = match SUBCOMMANDS.iter().position(is_it) {
            Some(at) => self.subcommands.get(at),
            None => self.commands.get(spec.number()),
        };
        bit.copied().unwrap_or(false)
    }

    /// The flags, as `ACL GETUSER` shows them.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        flags
    }

    /// The rules about commands.
    pub(crate) fn commands_text(&self) -> String {
        self.told.join(" ")
    }

    /// The rules about keys.
    pub(crate) fn keys_text(&self) -> String {
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
    pub(crate) fn channels_text(&self) -> String {
        self.channels.join(" ")
    }

    /// All of it as a line of an ACL file, without the user's name.
    pub(crate) fn line(&self) -> String {
        let mut line = self.flags().join(" ");
        for password in &self.passwords {
            let _ = write!(line, " #{}", password.shown());
        }
        let keys = self.keys_text();
        let channels =
            if self.channels.is_empty() { "resetchannels".to_owned() } else { self.channels_text() };
        for part in [keys, channels, self.commands_text()].iter().filter(|part| !part.is_empty()) {
            let _ = write!(line, " {part}");
        }
        line
    }
}

const BAD_HASH: &str =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";

fn set_within(bits: &mut [bool], container: &str, allow: bool) {
    for (_, bit) in SUBCOMMANDS.iter().zip(bits).filter(|((of, ..), _)| *of == container) {
        *bit = allow;
    }
}

/// A rule as it may be shown: passwords and hashes are not.
pub(crate) fn hidden(rule: &str) -> &str {
    if rule.starts_with(['>', '<', '#', '!']) { "(hidden)" } else { rule }
}

/// The commands, and subcommands, of a category.
pub(crate) fn of_category(category: &str) -> Vec<String> {
    let has = |categories: &str| categories.split(' ').any(|own| own == category);
    let commands = SPECS.iter().filter(|spec| has(spec.categories)).map(|spec| spec.name.to_owned());
    let subs = SUBCOMMANDS.iter().filter(|(.., own)| has(own)).map(|(of, sub, _)| format!("{of}|{sub}"));
    commands.chain(subs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &str, command: &str) -> Result<(), Denied> {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let spec = CommandSpec::find(args[0]).expect("a command");
        Rules::parse(rules).expect("rules").check(spec, &args)
    }

    #[test]
    fn the_later_rule_goes_over_the_earlier() {
        assert_eq!(check("on ~* +get", "get k"), Ok(()));
        assert_eq!(check("on ~* +get", "set k v"), Err(Denied::Command));
        assert_eq!(check("~* +@all -get", "get k"), Err(Denied::Command));
        assert_eq!(check("~* +@read -@string +get", "get k"), Ok(()));
        assert_eq!(check("~* +@read -@string +get", "mget k"), Err(Denied::Command));
        assert_eq!(check("~* +get reset", "get k"), Err(Denied::Command));
    }

    #[test]
    fn subcommands_are_apart() {
        assert_eq!(check("+@all -@dangerous", "acl setuser bob on"), Err(Denied::Command));
        assert_eq!(check("+@all -@dangerous", "ACL WhoAmI"), Ok(()));
        assert_eq!(check("+@all -@admin", "client list"), Err(Denied::Command));
        assert_eq!(check("+client|list", "client list"), Ok(()));
        assert_eq!(check("+client|list", "client id"), Err(Denied::Command));
        assert_eq!(check("+client -client|list", "client list"), Err(Denied::Command));
    }

    #[test]
    fn keys_are_for_reading_and_writing() {
        let rules = "+@all ~both:* %R~in:* %W~out:*";
        assert_eq!(check(rules, "get in:1"), Ok(()));
        assert_eq!(check(rules, "set out:1 v"), Ok(()));
        assert_eq!(check(rules, "get out:1"), Err(Denied::Key(b"out:1".to_vec())));
        assert_eq!(check(rules, "set in:1 v"), Err(Denied::Key(b"in:1".to_vec())));
        assert_eq!(check(rules, "incr out:1"), Err(Denied::Key(b"out:1".to_vec())), "it reads, too");
        assert_eq!(check(rules, "copy in:1 out:1"), Ok(()));
        assert_eq!(check(rules, "copy out:1 in:1"), Err(Denied::Key(b"out:1".to_vec())));
        assert_eq!(check(rules, "mget both:1 other"), Err(Denied::Key(b"other".to_vec())));
        assert_eq!(check("+@all", "dbsize"), Ok(()));
    }

    #[test]
    fn rules_are_shown_as_they_are_told() {
        let rules = Rules::parse("on nopass %R~a ~b +get -get +set +client|list +client").expect("rules");
        assert_eq!(rules.line(), "on nopass %R~a ~b resetchannels -@all -get +set +client");
        assert_eq!(Rules::everything().line(), "on nopass ~* &* +@all");
        assert!(Rules::everything().is_everything() && !rules.is_everything());
    }

    #[test]
    fn what_is_no_rule_is_refused_and_no_secret_shown() {
        for (rule, problem) in [
            ("+nosuch", "Unknown command or category name in ACL"),
            ("+@nosuch", "Unknown command or category name in ACL"),
            ("xyz", "Syntax error"),
            ("%Q~a", "Syntax error"),
            ("#zz", BAD_HASH),
        ] {
            assert_eq!(Rules::default().apply(rule.as_bytes()), Err(problem), "{rule}");
        }
        let error = Rules::parse("on <secret").map(drop).expect_err("there is no such password");
        assert!(!error.contains("secret"), "{error}");
    }
}
