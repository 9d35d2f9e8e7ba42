//! Access control: `AUTH`, the check before each command, and `ACL`.

use std::sync::Arc;

use config::acl::{DEFAULT_USER, Denied, random};

use super::arguments::{arg, integer, is, subcommand};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use protocol::resp::commands::{Category, Spec, names_with};
use tenancy::metrics::Counter;
use tenancy::users::User;

/// The flags of `ACL GENPASS`: bits by default, and at most.
const PASSWORD_BITS: i64 = 256;
const MAX_PASSWORD_BITS: i64 = 4096;
/// The answer to `ACL` commands about all users if several tenants share the server: a client has
/// no business with other tenants' users, and changing one could lock others out.
const SHARED: &str = "ERR several tenants share the server: its users are the operator's to see and change, in the configuration";
/// Entries that `ACL LOG` shows where it is not told how many.
const LOG_ENTRIES: usize = 10;

impl<'c> Commands<'_, 'c> {
    /// Checks that the client may call this command now.
    ///
    /// # Errors
    /// As Redis refuses it.
    pub(super) fn may(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Outcome {
        let identity = &*self.identity;
        if !identity.is_authenticated {
            if spec.has_flag("no_auth") {
                return Ok(());
            }
            self.counters.add(Counter::RefusedNobody, 1);
            return Err(Failure::new("NOAUTH Authentication required."));
        }
        let Err(denied) = identity.user.rules.check(spec, args) else { return Ok(()) };
        // Commands for authentication are always allowed, as in Redis.
        if spec.has_flag("no_auth") {
            return Ok(());
        }
        self.counters.add(Counter::RefusedPermission, 1);
        self.publish(args);
        Err(match denied {
            Denied::Command => {
                let name = spec.full_name(args);
                self.note("command", name.clone().into_bytes());
                Failure::from_text(format!("NOPERM this user has no permissions to run the '{name}' command"))
            }
            Denied::Key(key) => {
                self.note("key", key);
                Failure::new(
                    "NOPERM this user has no permissions to access one of the keys used as arguments",
                )
            }
        })
    }

    /// As [`Self::may`], of a command within a transaction: its user may have changed since it was
    /// queued.
    ///
    /// # Errors
    /// As there.
    pub(super) fn may_within(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Outcome {
        if self.identity.is_restricted { self.may(spec, args) } else { Ok(()) }
    }

    /// Keeps for `ACL LOG` that something was refused.
    fn note(&self, reason: &'static str, object: Vec<u8>) {
        self.note_of(reason, object, self.identity.user.name.as_bytes());
    }

    fn note_of(&self, reason: &'static str, object: Vec<u8>, user: &[u8]) {
        let context = if self.client.is_executing { "multi" } else { "toplevel" };
        self.shared.note_refusal(self.info, context, (reason, object), user);
    }

    /// `AUTH`, and `HELLO` with it.
    ///
    /// # Errors
    /// As Redis refuses it. The answer to a wrong password may be held back.
    pub(super) fn authenticate(&mut self, words: &[&[u8]]) -> Outcome {
        let (name, password) = match words {
            [password] => {
                let default = self.shared.users.get(DEFAULT_USER);
                if default.is_some_and(|user| user.rules.needs_no_password) {
                    return Err(Failure::new(
                        "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                         configuration is correct?",
                    ));
                }
                (DEFAULT_USER.as_bytes(), *password)
            }
            [name, password] => (*name, *password),
            _ => return Err(Failure::SYNTAX),
        };
        let from = self.info.peer.ip();
        let now = self.shared.clock.monotonic_nanos();
        match self.shared.users.authenticate(name, password, from, now) {
            Ok(user) => {
                self.counters.add(Counter::LoggedIn, 1);
                self.become_user(user)
            }
            Err(delay) => {
                self.client.delay = Some(self.client.delay.unwrap_or_default().max(delay));
                self.counters.add(Counter::RefusedPassword, 1);
                self.note_of("auth", b"AUTH".to_vec(), name);
                Err(Failure::new("WRONGPASS invalid username-password pair or user is disabled."))
            }
        }
    }

    /// Makes the connection that user's, and its tenant's where the user is one.
    fn become_user(&mut self, user: Arc<User>) -> Outcome {
        let before = std::mem::replace(&mut self.identity.user, Arc::clone(&user));
        if let Err(failure) = self.select(0) {
            self.identity.user = before;
            return Err(failure);
        }
        self.info.named().user.clone_from(&user.name);
        self.identity.become_user(user);
        Ok(())
    }

    pub(super) fn acl(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let known = subcommand(args);
        let values = args.get(2..).unwrap_or_default();
        let own = self.identity.user.name.as_bytes();
        let concerns_others = match known {
            "deluser" | "list" | "log" | "setuser" | "users" => true,
            "dryrun" | "getuser" => arg(values, 0) != own,
            _ => false,
        };
        if concerns_others {
            self.check_alone(SHARED)?;
        }
        match known {
            "whoami" => w.bulk(self.identity.user.name.as_bytes()),
            "cat" => return category(values, w),
            "genpass" => return generate(values, w),
            "help" => w.help(args),
            "log" => return self.acl_log(values, w),
            "load" | "save" => {
                return Err(Failure::new(
                    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
                     ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) \
                     in order to store users in the Redis configuration.",
                ));
            }
            _ => return self.acl_users(known, values, w),
        }
        Ok(())
    }

    /// Handles subcommands about users, whom everyone who may use the command may see.
    fn acl_users(&mut self, command: &str, values: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let users = &self.shared.users;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match command {
            "users" | "list" => {
                let all = users.all();
                w.array(all.len());
                for user in all {
                    let line = format!("user {} {}", user.name, user.rules.line());
                    w.bulk(if command == "list" { line.as_bytes() } else { user.name.as_bytes() });
                }
            }
            "getuser" => match users.get(&text(arg(values, 0))) {
                Some(user) => describe_user(&user, w),
                None => w.null(),
            },
            "setuser" => {
                let name = text(arg(values, 0));
                users
                    .set(&name, values.get(1..).unwrap_or_default())
                    .map_err(|problem| Failure::from_text(format!("ERR {problem}")))?;
                w.ok();
            }
            "deluser" => {
                if values.iter().any(|name| *name == DEFAULT_USER.as_bytes()) {
                    return Err(Failure::new("ERR The 'default' user cannot be removed"));
                }
                w.integer(values.iter().filter(|name| users.remove(&text(name))).count() as i64);
            }
            _ => return self.dry_run(values, w),
        }
        Ok(())
    }

    /// Reports the outcome if that user called the command.
    fn dry_run(&self, values: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let name = String::from_utf8_lossy(arg(values, 0)).into_owned();
        let user = self.shared.users.get(&name);
        let user = user.ok_or_else(|| Failure::from_text(format!("ERR User '{name}' not found")))?;
        let args = values.get(1..).unwrap_or_default();
        let spec = Spec::find(arg(args, 0)).ok_or_else(|| {
            let command = String::from_utf8_lossy(arg(args, 0)).into_owned();
            Failure::from_text(format!("ERR Command '{command}' not found"))
        })?;
        if !spec.takes(args.len()) {
            return Err(Failure::wrong_number(spec.name));
        }
        match user.rules.check(spec, args) {
            Ok(()) => w.ok(),
            Err(Denied::Command) => {
                let text =
                    format!("This user has no permissions to run the '{}' command", spec.full_name(args));
                w.bulk(text.as_bytes());
            }
            Err(Denied::Key(key)) => {
                let text =
                    [b"This user has no permissions to access the '".as_slice(), &key, b"' key"].concat();
                w.bulk(&text);
            }
        }
        Ok(())
    }

    fn acl_log(&self, values: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let log = &self.shared.users.log;
        let count = match values {
            [what] if is(what, "RESET") => {
                log.clear();
                w.ok();
                return Ok(());
            }
            [count] => usize::try_from(integer(count)?).unwrap_or(0),
            _ => LOG_ENTRIES,
        };
        let entries = log.newest(count);
        let now_secs = self.shared.clock.unix_secs();
        w.array(entries.len());
        for entry in entries {
            w.map(7);
            w.bulk(b"count");
            w.integer(entry.count as i64);
            let age = format!("{:.3}", f64::from(now_secs.saturating_sub(entry.at_secs)));
            for (name, value) in [
                ("reason", entry.reason.as_bytes()),
                ("context", entry.context.as_bytes()),
                ("object", &entry.object),
                ("username", &entry.user),
                ("age-seconds", age.as_bytes()),
                ("client-info", entry.client.as_bytes()),
            ] {
                w.bulk(name.as_bytes());
                w.bulk(value);
            }
        }
        Ok(())
    }
}

fn describe_user(user: &User, w: &mut Writer<'_, '_>) {
    let rules = &user.rules;
    w.map(6);
    w.bulk(b"flags");
    w.set(rules.flags().len());
    rules.flags().iter().for_each(|flag| w.bulk(flag.as_bytes()));
    w.bulk(b"passwords");
    w.array(rules.passwords.len());
    rules.passwords.iter().for_each(|password| w.bulk(password.shown().as_bytes()));
    let texts = rules.texts();
    let (own, selectors) = texts.split_first().map_or((None, &[][..]), |(own, rest)| (Some(own), rest));
    let tell = |texts: &[String; 3], w: &mut Writer<'_, '_>| {
        for (name, text) in ["commands", "keys", "channels"].into_iter().zip(texts) {
            w.bulk(name.as_bytes());
            w.bulk(text.as_bytes());
        }
    };
    own.into_iter().for_each(|own| tell(own, w));
    w.bulk(b"selectors");
    w.array(selectors.len());
    for selector in selectors {
        w.map(3);
        tell(selector, w);
    }
}

fn category(values: &[&[u8]], w: &mut Writer<'_, '_>) -> Outcome {
    let Some(wanted) = values.first() else {
        w.array(Category::ALL.len());
        Category::ALL.iter().for_each(|category| w.bulk(category.name().as_bytes()));
        return Ok(());
    };
    let Some(known) = Category::ALL.into_iter().find(|known| is(wanted, known.name())) else {
        return Err(Failure::from_text(format!(
            "ERR Unknown category '{}'",
            String::from_utf8_lossy(wanted)
        )));
    };
    let commands = names_with(known);
    w.array(commands.len());
    commands.iter().for_each(|name| w.bulk(name.as_bytes()));
    Ok(())
}

fn generate(values: &[&[u8]], w: &mut Writer<'_, '_>) -> Outcome {
    let bits = values.first().map_or(Ok(PASSWORD_BITS), |bits| integer(bits))?;
    if !(1..=MAX_PASSWORD_BITS).contains(&bits) {
        return Err(Failure::new(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let bytes = random::<{ MAX_PASSWORD_BITS as usize / 8 }>()
        .map_err(|error| Failure::from_text(format!("ERR the system gives no randomness: {error}")))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = (bits as usize).div_ceil(4);
    w.bulk(digits.as_bytes().get(..wanted).unwrap_or_default());
    Ok(())
}
