//! Users: the names that clients authenticate with, and what each may do.

use std::collections::HashSet;
use std::fmt;

use protocol::resp::commands::{Category, SPECS};
use serde::{Deserialize, Serialize};

use super::Config;
use super::error::hint;
use crate::acl::{DEFAULT_USER, Password, Rules, hidden};

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

settings! {
    /// A user that clients can authenticate as.
    pub struct UserSettings in "user." {
        /// The user's name in AUTH (docs/security.md). Without any `[[user]]` every client may do
        /// everything. With users, an unauthenticated client may do what "default" may, and nothing
        /// if there is no such user.
        online name: String = String::new();

        /// "sha256:" and the SHA-256 of its password, as `millpond hash-password` prints it. Empty:
        /// `rules` sets its passwords.
        online password_hash: Secret = Secret::default();

        /// Its tenant, whatever the listener. Not for a "default" without a password: such a client
        /// has its listener's tenant. Empty: the listener's.
        online tenant: String = String::new();

        /// Other tenants that it may select by SELECT; "*" is all. Empty: none if `tenant` is set,
        /// else those of the listener.
        online tenants: Vec<String> = Vec::new();

        /// Its permissions, in the syntax of Redis's ACLs; docs/security.md gives their meaning for
        /// memcached's commands. Shown without passwords.
        online rules: Secret = Secret("allkeys allcommands".to_owned());
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
}

/// Reports users that cannot work together with the other settings.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    let mut names = HashSet::new();
    let is_tenant = |name: &str| config.tenants.iter().any(|known| known.name == name);
    let known = || config.tenants.iter().map(|known| known.name.as_str());
    for user in &config.users {
        let UserSettings { name, tenant, tenants, .. } = user;
        if name.is_empty() || name.len() > 64 || name.contains(char::is_whitespace) {
            problems.push(format!("user.name: `{name}` is not 1 to 64 bytes without spaces"));
        }
        if !names.insert(name) {
            problems.push(format!("user.name: two users are called `{name}`; give each its own name"));
        }
        let of_rules = user.rules().err().unwrap_or_default();
        problems.extend(of_rules.iter().map(|problem| format!("user.{name}.{problem}")));
        if !tenant.is_empty() && !is_tenant(tenant) {
            problems.push(format!(
                "user.{name}.tenant: there is no tenant `{tenant}`; {}",
                hint(tenant, known(), "tenants")
            ));
        }
        if name == DEFAULT_USER && !tenant.is_empty() && user.is_open() {
            problems.push(format!(
                "user.{name}.tenant: who authenticates as nobody is its listener's tenant; set listener.NAME.tenant = \
                 \"{tenant}\" instead, or give `{name}` a password"
            ));
        }
        for other in tenants.iter().filter(|other| *other != "*" && !is_tenant(other)) {
            problems.push(format!(
                "user.{name}.tenants: there is no tenant `{other}`; {}",
                hint(other, known(), "tenants")
            ));
        }
    }
}
