//! A set of rules about commands, keys and channels: what the rules of a user are, and each of its
//! selectors.

use protocol::resp::glob::matches;

use crate::resp::{COUNT, CommandSpec, SPECS};

/// Subcommands, which have categories of their own: command, subcommand, categories, as in Redis
/// 7.0.
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
    ("client", "pause", "admin slow dangerous connection"),
    ("client", "reply", "slow connection"),
    ("client", "setinfo", "slow connection"),
    ("client", "setname", "slow connection"),
    ("client", "tracking", "slow connection"),
    ("client", "trackinginfo", "slow connection"),
    ("client", "unblock", "admin slow dangerous connection"),
    ("client", "unpause", "admin slow dangerous connection"),
    ("command", "count", "slow connection"),
    ("command", "docs", "slow connection"),
    ("command", "getkeys", "slow connection"),
    ("command", "getkeysandflags", "slow connection"),
    ("command", "help", "slow connection"),
    ("command", "info", "slow connection"),
    ("command", "list", "slow connection"),
    ("config", "get", "admin slow dangerous"),
    ("config", "help", "slow"),
    ("config", "resetstat", "admin slow dangerous"),
    ("config", "rewrite", "admin slow dangerous"),
    ("config", "set", "admin slow dangerous"),
    ("latency", "doctor", "admin slow dangerous"),
    ("latency", "graph", "admin slow dangerous"),
    ("latency", "help", "slow"),
    ("latency", "histogram", "admin slow dangerous"),
    ("latency", "history", "admin slow dangerous"),
    ("latency", "latest", "admin slow dangerous"),
    ("latency", "reset", "admin slow dangerous"),
    ("memory", "help", "slow"),
    ("memory", "usage", "read slow"),
    ("object", "encoding", "keyspace read slow"),
    ("object", "freq", "keyspace read slow"),
    ("object", "help", "keyspace slow"),
    ("object", "idletime", "keyspace read slow"),
    ("object", "refcount", "keyspace read slow"),
    ("pubsub", "channels", "pubsub slow"),
    ("pubsub", "help", "slow"),
    ("pubsub", "numpat", "pubsub slow"),
    ("pubsub", "numsub", "pubsub slow"),
    ("pubsub", "shardchannels", "pubsub slow"),
    ("pubsub", "shardnumsub", "pubsub slow"),
    ("slowlog", "get", "admin slow dangerous"),
    ("slowlog", "help", "slow"),
    ("slowlog", "len", "admin slow dangerous"),
    ("slowlog", "reset", "admin slow dangerous"),
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
pub(super) struct Selector {
    commands: Vec<bool>,
    subcommands: Vec<bool>,
    /// The rules about commands as they were given, without those that later ones undid.
    told: Vec<String>,
    keys: Vec<Pattern>,
    channels: Vec<String>,
}

/// Why something is not allowed; of several selectors the greatest is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    Command,
    /// The key.
    Key(Vec<u8>),
}

impl Default for Selector {
    /// One that allows nothing.
    fn default() -> Self {
        Self {
            commands: vec![false; COUNT],
            subcommands: vec![false; SUBCOMMANDS.len()],
            told: vec!["-@all".to_owned()],
            keys: Vec::new(),
            channels: Vec::new(),
        }
    }
}

impl Selector {
    /// Whether nothing is denied.
    pub(super) fn is_everything(&self) -> bool {
        let all = |set: &[bool]| set.iter().all(|allowed| *allowed);
        all(&self.commands) && all(&self.subcommands) && self.has_all_keys()
    }

    /// Whether it allows reading and writing whatever the key.
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
            // What may be read by one rule and written by another may be both.
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

    /// Allows or denies what `rule`, in lower case with its sign, names; nothing where it names
    /// nothing.
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
        // What is said of the same again undoes what was said before, as does what is said of a
        // command of its subcommands.
        let within = format!("{name}|");
        self.told.retain(|told| told.get(1..).is_some_and(|told| told != name && !told.starts_with(&within)));
        self.told.push(rule.to_owned());
        Some(())
    }

    /// Whether a command may be called with these arguments, its name the first.
    ///
    /// # Errors
    /// What is in the way.
    pub(super) fn check(&self, spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Denied> {
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

fn set_within(bits: &mut [bool], container: &str, allow: bool) {
    for (_, bit) in SUBCOMMANDS.iter().zip(bits).filter(|((of, ..), _)| *of == container) {
        *bit = allow;
    }
}

/// The commands, and subcommands, of a category.
pub(crate) fn of_category(category: &str) -> Vec<String> {
    let has = |categories: &str| categories.split(' ').any(|own| own == category);
    let commands = SPECS.iter().filter(|spec| has(spec.categories)).map(|spec| spec.name.to_owned());
    let subs = SUBCOMMANDS.iter().filter(|(.., own)| has(own)).map(|(of, sub, _)| format!("{of}|{sub}"));
    commands.chain(subs).collect()
}
