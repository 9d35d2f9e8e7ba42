//! Authentication and permissions: users with passwords, and what each may do.
//!
//! A connection begins as the user `default`. If no users are configured, that user may do
//! everything without a password, and permissions cost nothing. If users are configured and none is
//! called `default`, that user is off: an unauthenticated client may do nothing.
//!
//! A user is replaced, never changed: a connection has its user by reference and checks for a new
//! version of it at the beginning of each turn.
//!
//! Invariants:
//! 1. No password and no hash of one is logged, or shown by anything but `ACL LIST` and
//!    `ACL GETUSER`, which show digests.
//! 2. Comparing takes as long for a wrong password, and for an unknown user, as for the right one.

mod attempts;
mod log;

use config::acl::{DEFAULT_USER, Password, Rules, hidden, joined};
use config::{Auto, Config, UserSettings};
use protocol::resp::commands::Spec;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::attempts::Attempts;
pub use self::attempts::Delay;
pub use self::log::{AccessLog, Entry};

/// Most users, and the longest name of one: `ACL SETUSER` makes them.
const MAX_USERS: usize = 10_000;
const MAX_NAME_BYTES: usize = 256;

/// A user.
pub struct User {
    /// The name by which it authenticates.
    pub name: String,
    /// The tenant that it is; empty: the listener's.
    pub tenant: String,
    /// Other tenants to which the user may switch.
    pub tenants: Vec<String>,
    /// Its passwords, and what it may do.
    pub rules: Rules,
}

/// All users.
pub struct Users {
    table: RwLock<BTreeMap<String, Arc<User>>>,
    /// The user of a client that need not authenticate: `default`, with all permissions.
    anybody: Arc<User>,
    version: AtomicU64,
    attempts: Attempts,
    /// Requests that were refused.
    pub log: AccessLog,
}

impl User {
    fn of(settings: &UserSettings) -> Result<Self, String> {
        Ok(Self {
            name: settings.name.clone(),
            tenant: settings.tenant.clone(),
            tenants: settings.tenants.clone(),
            rules: settings.rules().map_err(|problems| problems.join("; "))?,
        })
    }

    /// Returns whether a client may be this user without a password.
    fn is_open(&self) -> bool {
        self.rules.is_on && self.rules.needs_no_password
    }
}

impl Users {
    /// Those of a configuration that was checked.
    pub fn new(config: &Config) -> Self {
        let users = Self {
            table: RwLock::default(),
            anybody: Arc::new(named(DEFAULT_USER, Rules::everything())),
            version: AtomicU64::new(1),
            attempts: Attempts::default(),
            log: AccessLog::default(),
        };
        users.replace(config);
        users
    }

    /// Has those of a configuration be all there are.
    pub fn replace(&self, config: &Config) {
        let mut table: BTreeMap<String, Arc<User>> = BTreeMap::new();
        for user in config.users.iter().filter_map(|settings| User::of(settings).ok()) {
            table.insert(user.name.clone(), Arc::new(user));
        }
        let rules = if config.users.is_empty() { Rules::everything() } else { Rules::default() };
        table.entry(DEFAULT_USER.to_owned()).or_insert_with(|| Arc::new(named(DEFAULT_USER, rules)));
        *self.write() = table;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes when any user does.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the user of this name.
    pub fn get(&self, name: &str) -> Option<Arc<User>> {
        self.read().get(name).cloned()
    }

    /// All, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.read().values().cloned().collect()
    }

    /// Adds rules to a user, which is created if it does not exist. Nothing changes if one of the
    /// rules is invalid.
    ///
    /// # Errors
    /// In Redis's words, which rule, as it may be shown, is invalid, and why.
    pub fn set(&self, name: &str, rules: &[&[u8]]) -> Result<(), String> {
        let in_rule =
            |rule: &str, problem: &str| format!("Error in ACL SETUSER modifier '{rule}': {problem}");
        let rules = joined(rules)?;
        let mut table = self.write();
        let known = table.get(name);
        if known.is_none()
            && (table.len() >= MAX_USERS || name.len() > MAX_NAME_BYTES || name.contains([' ', '\0']))
        {
            return Err(in_rule("", "there are too many users, or its name cannot be that"));
        }
        let mut user = known.map_or_else(
            || named(name, Rules::default()),
            |user| User {
                name: user.name.clone(),
                tenant: user.tenant.clone(),
                tenants: user.tenants.clone(),
                rules: user.rules.clone(),
            },
        );
        for rule in &rules {
            let shown = || hidden(&String::from_utf8_lossy(rule));
            user.rules.apply(rule).map_err(|problem| in_rule(&shown(), problem))?;
        }
        table.insert(name.to_owned(), Arc::new(user));
        drop(table);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a user, whose connections are closed; returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.write().remove(name).is_some();
        self.version.fetch_add(1, Ordering::Release);
        removed
    }

    /// The user of that name, if that is its password. `now` in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// When to say that there is no such user, that it is off, or that this is not its password.
    pub fn authenticate(
        &self,
        name: &[u8],
        password: &[u8],
        from: Option<IpAddr>,
        now: u64,
    ) -> Result<Arc<User>, Delay> {
        let user = std::str::from_utf8(name).ok().and_then(|name| self.get(name));
        // All passwords are compared, and one if there is none.
        let nobodys = [Password::of_plain(b"")];
        let passwords = user.as_ref().map_or(&nobodys[..], |user| &user.rules.passwords);
        let fits = passwords.iter().fold(false, |fits, known| known.is(password) | fits);
        match user {
            Some(user) if user.rules.is_on && (user.rules.needs_no_password || fits) => Ok(user),
            _ => Err(self.attempts.note(name, from, now)),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<User>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<User>>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named(name: &str, rules: Rules) -> User {
    User { name: name.to_owned(), tenant: String::new(), tenants: Vec::new(), rules }
}

/// The user of a connection.
pub struct Identity {
    /// The user that it is.
    pub user: Arc<User>,
    /// True if the connection has authenticated, or need not.
    pub is_authenticated: bool,
    /// True if there is anything that the user may not do.
    pub is_restricted: bool,
    /// The listener's setting of whether clients must authenticate.
    auth: Auto<bool>,
    version: u64,
}

impl Identity {
    /// Creates the identity with which a connection begins, at a listener of which `auth` says
    /// whether clients must authenticate.
    pub fn new(users: &Users, auth: Auto<bool>) -> Self {
        let version = users.version();
        if auth == Auto::Set(false) {
            let user = Arc::clone(&users.anybody);
            return Self { user, is_authenticated: true, is_restricted: false, auth, version };
        }
        let user = users.get(DEFAULT_USER).unwrap_or_else(|| Arc::new(named(DEFAULT_USER, Rules::default())));
        let is_authenticated = user.is_open() && auth == Auto::Auto;
        let is_restricted = !is_authenticated || !user.rules.is_everything();
        Self { user, is_authenticated, is_restricted, auth, version }
    }

    /// Returns whether there are keys that the user may not `set`: such a `set` of a memcached
    /// client carries its user and password.
    pub fn takes_passwords(&self) -> bool {
        let may_set = |spec| self.allows(spec, &[b"set", b""]);
        self.is_restricted && !Spec::find(b"set").is_some_and(may_set)
    }

    /// Returns whether the user may call that command.
    pub fn allows(&self, spec: &Spec, args: &[&[u8]]) -> bool {
        self.is_authenticated && self.user.rules.check(spec, args).is_ok()
    }

    /// It is this user from now on.
    pub fn become_user(&mut self, user: Arc<User>) {
        self.is_authenticated = true;
        self.is_restricted = !user.rules.is_everything();
        self.user = user;
    }

    /// Takes over changes of the user; false if the user has been removed.
    #[inline]
    #[must_use]
    pub fn refresh(&mut self, users: &Users) -> bool {
        if self.version == users.version() {
            return true;
        }
        self.version = users.version();
        if Arc::ptr_eq(&self.user, &users.anybody) {
            return true;
        }
        match users.get(&self.user.name) {
            None => false,
            Some(user) if self.is_authenticated => {
                self.become_user(user);
                true
            }
            Some(_) => {
                *self = Self::new(users, self.auth);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(list: &[(&str, &str)]) -> Users {
        let users = list.iter().map(|(name, rules)| UserSettings {
            name: (*name).to_owned(),
            rules: config::Secret((*rules).to_owned()),
            ..UserSettings::default()
        });
        Users::new(&Config { users: users.collect(), ..Config::default() })
    }

    #[test]
    fn nobody_is_anybody_only_where_there_are_no_users() {
        let (open, closed) = (users(&[]), users(&[("bob", ">pw")]));
        assert!(
            Identity::new(&open, Auto::Auto).is_authenticated
                && !Identity::new(&open, Auto::Auto).is_restricted
        );
        assert!(
            !Identity::new(&closed, Auto::Auto).is_authenticated
                && Identity::new(&closed, Auto::Auto).is_restricted
        );
        let partly = users(&[("default", "nopass -@all +get ~*")]);
        assert!(
            Identity::new(&partly, Auto::Auto).is_authenticated
                && Identity::new(&partly, Auto::Auto).is_restricted
        );
    }

    #[test]
    fn a_listener_may_ask_for_more_or_less_than_the_users_do() {
        let (closed, partly) =
            (users(&[("bob", ">pw")]), users(&[("default", "nopass +get ~*"), ("bob", ">pw")]));
        let mut anybody = Identity::new(&closed, Auto::Set(false));
        assert!(anybody.is_authenticated && !anybody.is_restricted);
        closed.set("eve", &[b"on"]).expect("a user");
        assert!(
            anybody.refresh(&closed) && anybody.is_authenticated && !anybody.is_restricted,
            "other users are not its"
        );
        anybody.become_user(closed.get("bob").expect("bob"));
        assert!(anybody.is_restricted, "whoever authenticates is that user");
        assert!(
            Identity::new(&partly, Auto::Auto).is_authenticated
                && !Identity::new(&partly, Auto::Set(true)).is_authenticated
        );
    }

    #[test]
    fn right_passwords_are_taken_however_many_wrong_ones_came() {
        let users = users(&[("bob", "+@all ~* >pw"), ("off", "off nopass")]);
        let from = Some(IpAddr::from([10, 0, 0, 1]));
        let wrong = |name: &str| users.authenticate(name.as_bytes(), b"no", from, 0).map(drop);
        let delays: Vec<u64> =
            (0..1_000).filter_map(|_| wrong("bob").err()).map(|delay| delay.until).collect();
        assert_eq!((delays.len(), delays[0]), (1_000, 0), "each is wrong, and the first is told so at once");
        assert!(delays[999] > 0, "the last waits for the answer");
        assert!(users.authenticate(b"bob", b"pw", from, 0).is_ok());
        for name in ["nobody", "off", "default"] {
            assert!(users.authenticate(name.as_bytes(), b"", None, 0).is_err(), "{name}");
        }
    }

    #[test]
    fn a_connection_sees_its_user_change_and_go() {
        let users = users(&[("bob", "+@all ~* >pw")]);
        let mut identity = Identity::new(&users, Auto::Auto);
        identity.become_user(users.get("bob").expect("bob"));
        assert!(!identity.is_restricted && identity.refresh(&users));
        users.set("bob", &[b"-flushall"]).expect("a rule");
        assert!(identity.refresh(&users) && identity.is_restricted);
        assert_eq!(
            users.set("bob", &[b"-get", b">x", b"<secret"]).map_err(|error| error.contains("'(hidden)'")),
            Err(true)
        );
        assert_eq!(users.get("bob").expect("bob").rules.passwords.len(), 1, "all or nothing");
        assert!(users.remove("bob") && !identity.refresh(&users));
    }
}
