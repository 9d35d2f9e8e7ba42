//! Users: the names that clients authenticate with, and what each may do.

use protocol::resp::commands::{Category, SPECS};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Auto, Config, ListenerConfig};
use crate::acl::{Password, Rules, hidden};

/// The text shown in place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// A text that is never shown or logged, only written into the configuration itself.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { HIDDEN })
    }
}

/// The fault of a user that no client can authenticate as.
const NO_PASSWORD: &str = "password_hash: it has none; make one with `millpond hash-password`, or set rules = \"nopass …\" \
                           if everybody may be this user";

/// A user that clients can authenticate as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSettings {
    /// The user's name in `AUTH`.
    pub name: String,
    /// `sha256:` and the digest of its password; empty: `rules` has its passwords.
    pub password_hash: Secret,
    /// The user's tenant. Empty: its listener's.
    pub tenant: String,
    /// Other tenants to which the user may switch by `SELECT`; `*` = all.
    pub tenants: Vec<String>,
    /// The user's permissions, as rules of Redis's ACLs; `on` is implied.
    pub rules: Secret,
}

impl Default for UserSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            password_hash: Secret::default(),
            tenant: String::new(),
            tenants: Vec::new(),
            rules: Secret("allkeys allcommands".to_owned()),
        }
    }
}

impl UserSettings {
    /// Returns the user's permissions, and the passwords that authenticate it.
    ///
    /// # Errors
    /// All faults of the user, each beginning with the name of the setting.
    pub fn rules(&self) -> Result<Rules, Vec<String>> {
        let rules = Rules::parse(&format!("on {}", self.rules.0))
            .map_err(|problems| problems.into_iter().map(|it| format!("rules: {it}{}", nearest_rule(&it))));
        let hash = Some(self.password_hash.0.as_str()).filter(|hash| !hash.is_empty());
        let password = hash.map(Password::of_setting).transpose();
        let password = password.map_err(|problem| format!("password_hash: {problem}"));
        let (mut rules, password) = match (rules, password) {
            (Ok(rules), Ok(password)) => (rules, password),
            (rules, password) => {
                return Err(rules.err().into_iter().flatten().chain(password.err()).collect());
            }
        };
        if let Some(password) = password {
            rules.add_password(password);
        }
        if rules.is_on && !rules.needs_no_password && rules.passwords.is_empty() {
            return Err(vec![NO_PASSWORD.to_owned()]);
        }
        Ok(rules)
    }

    /// Returns whether a client may be this user without a password.
    pub fn is_open(&self) -> bool {
        self.rules().is_ok_and(|rules| rules.is_on && rules.needs_no_password)
    }
}

/// Returns the rule that was probably meant by the one in backticks in `problem`.
fn nearest_rule(problem: &str) -> String {
    let rule = problem.strip_prefix('`').and_then(|rest| rest.split_once('`')).map_or("", |(rule, _)| rule);
    let sign = ["+@", "-@", "+", "-"].into_iter().find(|sign| rule.starts_with(sign)).unwrap_or_default();
    let name = rule.get(sign.len()..).unwrap_or_default().to_ascii_lowercase();
    let near = match sign {
        "" => base::suggest::nearest(&name, WORDS),
        sign if sign.ends_with('@') => base::suggest::nearest(&name, Category::ALL.map(Category::name)),
        _ => base::suggest::nearest(&name, SPECS.iter().map(|spec| spec.name)),
    };
    near.map_or_else(String::new, |near| format!("; did you mean `{sign}{near}`?"))
}

/// The rules that are single words.
const WORDS: [&str; 10] = [
    "on",
    "off",
    "nopass",
    "resetpass",
    "allkeys",
    "resetkeys",
    "allcommands",
    "nocommands",
    "allchannels",
    "reset",
];

/// Rules as they may be shown: without passwords.
pub(crate) fn shown_rules(rules: &str) -> String {
    rules.split_whitespace().map(hidden).collect::<Vec<_>>().join(" ")
}

impl Config {
    /// Returns whether a client must authenticate before it may do anything, if its listener does
    /// not state it.
    pub(crate) fn needs_users(&self) -> bool {
        !self.users.is_empty() && !self.users.iter().any(UserSettings::is_open)
    }

    /// Returns whether a client of that listener must authenticate before it may do anything.
    pub fn needs_users_at(&self, listener: &ListenerConfig) -> bool {
        match listener.auth {
            Auto::Auto => self.needs_users(),
            Auto::Set(is_asked) => is_asked && !self.users.is_empty(),
        }
    }
}
