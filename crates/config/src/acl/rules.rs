//! The permissions of a user: the rules of Redis's ACLs, from their text and back to it.
//!
//! Commands are allowed and denied by name, by subcommand (`client|list`) and by category, the
//! later over the earlier; keys by patterns, for reading, writing or both. A user may have further
//! sets of such rules, in parentheses: it may do what any one of them allows. Rules of Redis for
//! features that Millpond lacks – channels – are kept and shown.

use protocol::resp::commands::Spec;
use std::fmt::Write as _;

use super::password::Password;
use super::selector::{Denied, SYNTAX, Selector};

/// Most selectors of a user.
const MAX_SELECTORS: usize = 64;

/// The rules of a user: its own, and those of its selectors. By default they allow nothing.
#[derive(Clone, Default)]
pub struct Rules {
    /// True if clients may authenticate as the user.
    pub is_on: bool,
    /// True if any password authenticates the user.
    pub needs_no_password: bool,
    /// The passwords that authenticate the user.
    pub passwords: Vec<Password>,
    own: Selector,
    selectors: Vec<Selector>,
}

impl Rules {
    /// Returns the rules of a user that may do everything, without a password.
    pub fn everything() -> Self {
        let mut rules = Self::default();
        for word in ["on", "nopass", "allkeys", "allchannels", "allcommands"] {
            let _ = rules.apply(word.as_bytes());
        }
        rules
    }

    /// The rules of a text, over none.
    ///
    /// # Errors
    /// Each rule that is invalid, and why.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut rules = Self::default();
        let mut problems = Vec::new();
        let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        for rule in joined(&words).map_err(|problem| vec![problem])? {
            if let Err(problem) = rules.apply(&rule) {
                problems.push(format!("`{}`: {problem}", hidden(&String::from_utf8_lossy(&rule))));
            }
        }
        if problems.is_empty() { Ok(rules) } else { Err(problems) }
    }

    /// Returns whether nothing is denied.
    pub fn is_everything(&self) -> bool {
        self.own.is_everything()
    }

    /// Returns whether the user may read and write every key.
    pub fn has_all_keys(&self) -> bool {
        self.own.has_all_keys()
    }

    /// Adds a rule, or a selector in parentheses.
    ///
    /// # Errors
    /// In Redis's words, why it is none.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(rule).map_err(|_| SYNTAX)?;
        if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
            let mut selector = Selector::default();
            inner.split_whitespace().try_for_each(|rule| selector.apply(rule))?;
            if self.selectors.len() >= MAX_SELECTORS {
                return Err("There are too many selectors");
            }
            self.selectors.push(selector);
            return Ok(());
        }
        match text.to_ascii_lowercase().as_str() {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            "resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            "sanitize-payload" | "skip-sanitize-payload" => {}
            "clearselectors" => self.selectors.clear(),
            "reset" => *self = Self::default(),
            _ => match text.split_at_checked(1) {
                Some((">", plain)) => self.add_password(Password::of_plain(plain.as_bytes())),
                Some(("#", hex)) => self.add_password(Password::of_hex(hex).ok_or(BAD_HASH)?),
                Some(("<", plain)) => self.remove_password(&Password::of_plain(plain.as_bytes()))?,
                Some(("!", hex)) => self.remove_password(&Password::of_hex(hex).ok_or(BAD_HASH)?)?,
                _ => self.own.apply(text)?,
            },
        }
        Ok(())
    }

    /// Adds a password, which is needed from then on.
    pub fn add_password(&mut self, password: Password) {
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

    /// Checks that a command may be called with these arguments, its name the first: by the user's
    /// own rules, or by one of its selectors.
    ///
    /// # Errors
    /// The part of the call that is denied.
    pub fn check(&self, spec: &Spec, args: &[&[u8]]) -> Result<(), Denied> {
        let Err(mut denied) = self.own.check(spec, args) else { return Ok(()) };
        for selector in &self.selectors {
            match selector.check(spec, args) {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    /// The flags, as `ACL GETUSER` shows them.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        flags
    }

    /// The rules about commands, keys and channels: the user's own first, then those of each
    /// selector.
    pub fn texts(&self) -> Vec<[String; 3]> {
        let of =
            |selector: &Selector| [selector.commands_text(), selector.keys_text(), selector.channels_text()];
        std::iter::once(&self.own).chain(&self.selectors).map(of).collect()
    }

    /// All of it as a line of an ACL file, without the user's name.
    pub fn line(&self) -> String {
        let mut line = self.flags().join(" ");
        for password in &self.passwords {
            let _ = write!(line, " #{}", password.shown());
        }
        let _ = write!(line, " {}", self.own.line());
        for selector in &self.selectors {
            let _ = write!(line, " ({})", selector.line());
        }
        line
    }
}

/// Joins rules that stand together in parentheses into one.
///
/// # Errors
/// In Redis's words, that parentheses are not closed.
pub fn joined(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut is_open = false;
    for word in words {
        match rules.last_mut().filter(|_| is_open) {
            Some(selector) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
            }
            None => rules.push(word.to_vec()),
        }
        is_open = (is_open || word.starts_with(b"(")) && !word.ends_with(b")");
    }
    match rules.last().filter(|_| is_open) {
        Some(selector) => Err(format!(
            "Unmatched parenthesis in acl selector starting at '{}'.",
            hidden(&String::from_utf8_lossy(selector))
        )),
        None => Ok(rules),
    }
}

const BAD_HASH: &str =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";

/// A rule as it may be shown: without passwords and hashes, also of those that a selector has by
/// mistake.
pub fn hidden(rule: &str) -> String {
    let shown = |word: &str| {
        let is_secret = word.trim_start_matches('(').starts_with(['>', '<', '#', '!']);
        if is_secret { "(hidden)".to_owned() } else { word.to_owned() }
    };
    rule.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &str, command: &str) -> Result<(), Denied> {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let spec = Spec::find(args[0]).expect("a command");
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
    fn asking_whether_there_is_something_needs_any_access() {
        let rules = "+@all %R~in:* %W~out:*";
        let all =
            ["exists", "type", "strlen", "llen", "hlen", "scard", "zcard", "object encoding", "memory usage"];
        for command in all {
            for key in ["in:1", "out:1"] {
                assert_eq!(check(rules, &format!("{command} {key}")), Ok(()), "{command}");
            }
            let denied = Err(Denied::Key(b"other".to_vec()));
            assert_eq!(check(rules, &format!("{command} other")), denied, "{command}");
        }
        assert_eq!(check(rules, "bitfield in:1 GET u8 0"), Ok(()));
        assert_eq!(check(rules, "bitfield in:1 GET u8 0 SET u8 0 1"), Err(Denied::Key(b"in:1".to_vec())));
        assert_eq!(check(rules, "set out:1 GET"), Ok(()), "it is the value");
        assert_eq!(check(rules, "set out:1 v GET"), Err(Denied::Key(b"out:1".to_vec())));
        assert_eq!(check(rules, "ttl out:1"), Err(Denied::Key(b"out:1".to_vec())));
    }

    #[test]
    fn what_may_be_read_and_written_by_two_rules_may_be_both() {
        assert_eq!(check("+@all %R~k %W~k", "incr k"), Ok(()));
        assert_eq!(Rules::parse("%R~k %W~k %W~l").expect("rules").line(), "off ~k %W~l resetchannels -@all");
        assert!(Rules::parse("+@all %R~* %W~*").expect("rules").is_everything());
    }

    #[test]
    fn a_selector_allows_what_the_rules_before_it_do_not() {
        let rules = "on ~a +get (~k %R~z +set +get) ( ~* +@hash )";
        for command in ["get a", "get k", "set k v", "get z", "hget any f"] {
            assert_eq!(check(rules, command), Ok(()), "{command}");
        }
        let key = |key: &str| Err(Denied::Key(key.as_bytes().to_vec()));
        assert_eq!(check(rules, "set a v"), key("a"), "the key is what is told");
        assert_eq!(check(rules, "set z v"), key("z"));
        assert_eq!(check(rules, "get q"), key("q"));
        assert_eq!(check(rules, "del k"), Err(Denied::Command));
        let shown = Rules::parse("on nopass ~a ~q (~k %R~z +get) (~* &x +@read)").expect("rules");
        assert_eq!(
            shown.line(),
            "on nopass ~a ~q resetchannels -@all (~k %R~z resetchannels -@all +get) (~* resetchannels &x -@all +@read)"
        );
        assert_eq!(check(&format!("{rules} clearselectors"), "get k"), key("k"));
        assert_eq!(check(&format!("{rules} reset"), "get k"), Err(Denied::Command));
        let refused = |rules: &str| Rules::parse(rules).map(drop).expect_err("no rules").join("; ");
        assert_eq!(refused("(~k +get"), "Unmatched parenthesis in acl selector starting at '(~k +get'.");
        let of_secrets = refused("(~k >hunter2 #digest");
        assert_eq!(of_secrets, "Unmatched parenthesis in acl selector starting at '(~k (hidden) (hidden)'.");
        assert!(refused("(~k >hunter2)").starts_with("`(~k (hidden)`: "), "{}", refused("(~k >hunter2)"));
        assert!(refused("(on)").contains("Syntax error") && refused("(+foo)").contains("Unknown command"));
        assert!(refused("&* &b").contains("resetchannels"));
        let both = refused("~* +@reads +get +gett");
        assert!(both.contains("`+@reads`") && both.contains("`+gett`"), "{both}");
    }

    #[test]
    fn subcommands_are_in_the_categories_of_redis() {
        for denied in ["client pause 1", "client unpause", "latency reset", "slowlog get", "config get x"] {
            assert_eq!(check("+@all -@dangerous", denied), Err(Denied::Command), "{denied}");
        }
        assert_eq!(check("~* +@all -@dangerous", "object encoding k"), Ok(()));
        assert_eq!(check("~* +@read", "memory usage k"), Ok(()));
        assert_eq!(check("~* +@read", "memory help"), Err(Denied::Command));
        assert_eq!(check("~* +memory|usage", "memory usage k"), Ok(()));
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
        let error = Rules::parse("on <secret").map(drop).expect_err("there is no such password").join("; ");
        assert!(!error.contains("secret"), "{error}");
    }
}
