//! Users: who clients say they are, and what each may do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Config;
use crate::users::{Password, Rules};

/// What stands in place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// A text that is never shown or logged, only written where the configuration itself is.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { HIDDEN })
    }
}

/// One whom clients may say they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSettings {
    /// What it is called in `AUTH`.
    pub name: String,
    /// `sha256:` and the digest of its password; empty: `rules` says how it is known.
    pub password_hash: Secret,
    /// The tenant that it is. Empty: its listener's.
    pub tenant: String,
    /// Others that it may turn to by `SELECT`; `*` = all.
    pub tenants: Vec<String>,
    /// What it may do, as Redis's ACLs say it; it is `on` without that being said.
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
    /// What it may do, and by which passwords it is known.
    pub(crate) fn rules(&self) -> Result<Rules, String> {
        let mut rules =
            Rules::parse(&format!("on {}", self.rules.0)).map_err(|problem| format!("rules: {problem}"))?;
        if !self.password_hash.0.is_empty() {
            let password = Password::of_setting(&self.password_hash.0);
            rules.add_password(password.map_err(|problem| format!("password_hash: {problem}"))?);
        }
        if rules.is_on && !rules.needs_no_password && rules.passwords.is_empty() {
            return Err("password_hash: it has none; make one with `millpond hash-password`, or set rules = \"nopass …\" if \
                        everybody may be this user"
                .to_owned());
        }
        Ok(rules)
    }
}

impl Config {
    /// Whether a client must say who it is before it may do anything.
    pub(crate) fn needs_users(&self) -> bool {
        let is_open =
            |user: &UserSettings| user.rules().is_ok_and(|rules| rules.is_on && rules.needs_no_password);
        !self.users.is_empty() && !self.users.iter().any(is_open)
    }
}
