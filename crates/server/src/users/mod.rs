//! Who a client is: users with passwords, and what each may do.
//!
//! A connection begins as the user `default`. Where nobody is configured that user may do everything without a password, and nothing of this
//! costs anything; where somebody is, and no `default` among them, it is off: who does not say who it is may do nothing.
//!
//! A user is replaced, never changed: a connection has its user by reference and looks whether there is another version of it when its next
//! turn begins.
//!
//! Invariants:
//! 1. No password and no hash of one is logged, or shown by anything but `ACL LIST` and `ACL GETUSER`, which show digests.
//! 2. Comparing takes as long for a wrong password, and a user that there is not, as for the right one.

mod log;
mod password;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use self::log::{AccessLog, Entry};
pub use self::password::hash_password;
pub(crate) use self::password::{Password, random};
pub(crate) use self::rules::{CATEGORIES, Denied, Rules, hidden, of_category};
use crate::config::{Config, UserSettings};
use crate::resp::CommandSpec;
use crate::tenants::Rate;

/// The user that a connection begins as.
pub(crate) const DEFAULT_USER: &str = "default";
/// Most users, and the longest name of one: `ACL SETUSER` makes them.
const MAX_USERS: usize = 10_000;
const MAX_NAME_BYTES: usize = 256;
/// Wrong passwords that an address may send: so many at once, and then one a second.
const ATTEMPTS: Rate = Rate { per_sec: 1, burst_nanos: 20_000_000_000 };
/// Addresses that are remembered for having sent wrong ones.
const MAX_ADDRESSES: usize = 4_096;

/// A user.
pub(crate) struct User {
    pub(crate) name: String,
    /// The tenant that it is; empty: the listener's.
    pub(crate) tenant: String,
    /// Others that it may turn to.
    pub(crate) tenants: Vec<String>,
    pub(crate) rules: Rules,
}

/// Why somebody is not who it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No such user, it is off, or that is not its password.
    Wrong,
    /// Too many wrong passwords came from that address.
    TooMany,
}

/// All users.
pub(crate) struct Users {
    table: RwLock<BTreeMap<String, Arc<User>>>,
    version: AtomicU64,
    /// Addresses that sent wrong passwords, each with the time at which it may send [`ATTEMPTS`] again.
    attempts: Mutex<HashMap<IpAddr, u64>>,
    pub(crate) log: AccessLog,
}

impl User {
    fn of(settings: &UserSettings) -> Result<Self, String> {
        Ok(Self {
            name: settings.name.clone(),
            tenant: settings.tenant.clone(),
            tenants: settings.tenants.clone(),
            rules: settings.rules()?,
        })
    }

    /// Whether one may be this user without a password.
    fn is_open(&self) -> bool {
        self.rules.is_on && self.rules.needs_no_password
    }
}

impl Users {
    /// Those of a configuration that was checked.
    pub(crate) fn new(config: &Config) -> Self {
        let users = Self {
            table: RwLock::default(),
            version: AtomicU64::new(1),
            attempts: Mutex::default(),
            log: AccessLog::default(),
        };
        users.replace(config);
        users
    }

    /// Has those of a configuration be all there are.
    pub(crate) fn replace(&self, config: &Config) {
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
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<User>> {
        self.read().get(name).cloned()
    }

    /// All, by name.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.read().values().cloned().collect()
    }

    /// Adds rules to a user, which is made where it is not there. Nothing changes where one of them is none.
    ///
    /// # Errors
    /// The rule as it may be shown, and in Redis's words what is wrong with it.
    pub(crate) fn set(&self, name: &str, rules: &[&[u8]]) -> Result<(), (String, &'static str)> {
        let mut table = self.write();
        let known = table.get(name);
        if known.is_none()
            && (table.len() >= MAX_USERS || name.len() > MAX_NAME_BYTES || name.contains([' ', '\0']))
        {
            return Err((String::new(), "there are too many users, or its name cannot be that"));
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
        for rule in rules {
            let shown = || hidden(&String::from_utf8_lossy(rule)).to_owned();
            user.rules.apply(rule).map_err(|problem| (shown(), problem))?;
        }
        table.insert(name.to_owned(), Arc::new(user));
        drop(table);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a user, whose connections end; says whether there was one.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let removed = self.write().remove(name).is_some();
        self.version.fetch_add(1, Ordering::Release);
        removed
    }

    /// The user of that name, if that is its password. `now` in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn authenticate(
        &self,
        name: &[u8],
        password: &[u8],
        from: Option<IpAddr>,
        now: u64,
    ) -> Result<Arc<User>, Refused> {
        if from.is_some_and(|from| self.has_too_many(from, now)) {
            return Err(Refused::TooMany);
        }
        let user = std::str::from_utf8(name).ok().and_then(|name| self.get(name));
        // All passwords are compared, and one where there is none.
        let nobodys = [Password::of_plain(b"")];
        let passwords = user.as_ref().map_or(&nobodys[..], |user| &user.rules.passwords);
        let fits = passwords.iter().fold(false, |fits, known| known.is(password) | fits);
        match user {
            Some(user) if user.rules.is_on && (user.rules.needs_no_password || fits) => Ok(user),
            _ => {
                if let Some(from) = from {
                    self.count_attempt(from, now);
                }
                Err(Refused::Wrong)
            }
        }
    }

    fn has_too_many(&self, from: IpAddr, now: u64) -> bool {
        let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.get(&from).is_some_and(|full_at| ATTEMPTS.wait(*full_at, now) > 0)
    }

    fn count_attempt(&self, from: IpAddr, now: u64) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() >= MAX_ADDRESSES {
            attempts.retain(|_, full_at| *full_at > now);
        }
        if attempts.len() < MAX_ADDRESSES || attempts.contains_key(&from) {
            let full_at = attempts.entry(from).or_insert(0);
            *full_at = ATTEMPTS.take(*full_at, now, 1);
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

/// Who a connection is.
pub(crate) struct Identity {
    pub(crate) user: Arc<User>,
    /// Whether it has said so, or need not.
    pub(crate) is_known: bool,
    /// Whether there is anything that it may not do.
    pub(crate) is_bound: bool,
    version: u64,
}

impl Identity {
    /// What a connection begins as.
    pub(crate) fn new(users: &Users) -> Self {
        let version = users.version();
        let user = users.get(DEFAULT_USER).unwrap_or_else(|| Arc::new(named(DEFAULT_USER, Rules::default())));
        let is_known = user.is_open();
        let is_bound = !is_known || !user.rules.is_everything();
        Self { user, is_known, is_bound, version }
    }

    /// Whether it may call that.
    pub(crate) fn allows(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        self.is_known && self.user.rules.check(spec, args).is_ok()
    }

    /// It is this user from now on.
    pub(crate) fn become_user(&mut self, user: Arc<User>) {
        self.is_known = true;
        self.is_bound = !user.rules.is_everything();
        self.user = user;
    }

    /// Takes over what has changed; false where the user is no more.
    #[inline]
    #[must_use]
    pub(crate) fn refresh(&mut self, users: &Users) -> bool {
        if self.version == users.version() {
            return true;
        }
        self.version = users.version();
        match users.get(&self.user.name) {
            None => false,
            Some(user) if self.is_known => {
                self.become_user(user);
                true
            }
            Some(_) => {
                *self = Self::new(users);
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
            rules: crate::config::Secret((*rules).to_owned()),
            ..UserSettings::default()
        });
        Users::new(&Config { users: users.collect(), ..Config::default() })
    }

    #[test]
    fn nobody_is_anybody_only_where_there_are_no_users() {
        let (open, closed) = (users(&[]), users(&[("bob", ">pw")]));
        assert!(Identity::new(&open).is_known && !Identity::new(&open).is_bound);
        assert!(!Identity::new(&closed).is_known && Identity::new(&closed).is_bound);
        let partly = users(&[("default", "nopass -@all +get ~*")]);
        assert!(Identity::new(&partly).is_known && Identity::new(&partly).is_bound);
    }

    #[test]
    fn passwords_are_asked_for_and_guesses_counted() {
        let users = users(&[("bob", "+@all ~* >pw"), ("off", "off nopass")]);
        let from = Some(IpAddr::from([10, 0, 0, 1]));
        assert!(users.authenticate(b"bob", b"pw", from, 0).is_ok());
        for _ in 0..20 {
            assert_eq!(users.authenticate(b"bob", b"no", from, 0).map(drop), Err(Refused::Wrong));
        }
        assert_eq!(users.authenticate(b"bob", b"pw", from, 0).map(drop), Err(Refused::TooMany));
        let other = Some(IpAddr::from([10, 0, 0, 2]));
        assert!(users.authenticate(b"bob", b"pw", other, 0).is_ok(), "another address");
        assert!(users.authenticate(b"bob", b"pw", from, 2_000_000_000).is_ok(), "a while later");
        for (name, password) in [("nobody", ""), ("off", ""), ("default", "")] {
            let refused = users.authenticate(name.as_bytes(), password.as_bytes(), None, 0).map(drop);
            assert_eq!(refused, Err(Refused::Wrong), "{name}");
        }
    }

    #[test]
    fn a_connection_sees_its_user_change_and_go() {
        let users = users(&[("bob", "+@all ~* >pw")]);
        let mut identity = Identity::new(&users);
        identity.become_user(users.get("bob").expect("bob"));
        assert!(!identity.is_bound && identity.refresh(&users));
        users.set("bob", &[b"-flushall"]).expect("a rule");
        assert!(identity.refresh(&users) && identity.is_bound);
        assert_eq!(
            users.set("bob", &[b"-get", b">x", b"<secret"]).map_err(|(shown, _)| shown),
            Err("(hidden)".to_owned())
        );
        assert_eq!(users.get("bob").expect("bob").rules.passwords.len(), 1, "all or nothing");
        assert!(users.remove("bob") && !identity.refresh(&users));
    }
}
