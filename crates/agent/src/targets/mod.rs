//! Servers that Millpond does not own: memcached, Redis and Valkey as their makers ship them, each
//! spoken to with its own protocol ([`docs/agents.md`](../../../../docs/agents.md) has the prices).
//!
//! | module | holds |
//! |---|---|
//! | [`memcached`] | memcached 1.6: `stats`, `cache_memlimit`, `slabs reassign`, `watch` |
//! | [`redis`] | Redis 7 and Valkey 8: `INFO`, `CONFIG SET maxmemory`, idle times, `MONITOR` |
//! | `learn` | a curve from the accesses that a server reports |
//! | `background` | the threads that learn |
//! | `wire` | connections with deadlines and limits |
//!
//! A target asks and sets in the caller's thread, over one connection that is kept, and opened
//! again after an error. It learns the curve in a thread of its own, over a connection of its own,
//! so that a server which reports slowly delays nobody.

mod background;
mod identity;
mod learn;
pub mod memcached;
pub mod redis;
mod wire;

use std::path::PathBuf;

use control::v1::{Amount, PoolGrant};

use self::identity::Identity;
pub use self::learn::{RedisLearning, Sampling};
use self::memcached::Memcached;
use self::redis::Redis;
use self::wire::Address;
use crate::{Instance, InstanceError, Look};

/// The reason why an address is not one of a server that an agent can speak for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The scheme is missing or unknown.
    #[error(
        "`{0}` does not name a server: write memcached://HOST:PORT, redis://[USER@]HOST:PORT or valkey://[USER@]HOST:PORT"
    )]
    Scheme(String),
    /// The scheme is one that is known not to work.
    #[error("`{address}`: {reason}")]
    Unsupported {
        /// The address as given, without a password.
        address: String,
        /// The reason, and the remedy.
        reason: &'static str,
    },
    /// The host or the port is missing or wrong.
    #[error("`{address}`: {reason}")]
    Place {
        /// The address as given.
        address: String,
        /// The reason.
        reason: &'static str,
    },
}

/// The program that answers at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memcached,
    Redis,
}

/// A server that an agent can speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    kind: Kind,
    address: Address,
    user: Option<String>,
}

/// The settings of a target. The default asks for nothing but the address.
#[derive(Clone, Debug, Default)]
pub struct TargetSettings {
    /// The name of the instance. Default: `host:port`.
    pub name: Option<String>,
    /// The machine whose memory the server takes. Default: this machine's host name.
    pub node: Option<String>,
    /// The least memory that it can have, in bytes. Default: the least that the server accepts or
    /// can work with.
    pub least: Option<u64>,
    /// The most memory that it can have, in bytes. Default: no bound.
    pub most: Option<u64>,
    /// Redis and Valkey: a file with the password, which is read each time that a connection is
    /// opened. Default: none.
    pub password_file: Option<PathBuf>,
    /// True if the server is only looked at: nothing is changed, so that one that could not be led
    /// is not refused. Default: false.
    pub reads_only: bool,
    /// How the curve is learnt.
    pub sampling: Sampling,
}

impl Target {
    /// Reads `memcached://HOST[:PORT]`, `redis://[USER@]HOST[:PORT]` or
    /// `valkey://[USER@]HOST[:PORT]`. An IPv6 address stands in brackets. The default ports are
    /// 11211 and 6379.
    ///
    /// ```
    /// use millpond_agent::targets::Target;
    ///
    /// assert!(Target::parse("memcached://cache-1:11211").is_ok());
    /// assert!(Target::parse("redis://agent@[::1]:6379").is_ok());
    /// assert!(Target::parse("http://cache-1").is_err());
    /// ```
    ///
    /// # Errors
    /// If the text is no such address; the error says what to write.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let scheme = || TargetError::Scheme(without_password(text));
        let (name, rest) = text.split_once("://").ok_or_else(scheme)?;
        let unsupported = |reason| TargetError::Unsupported { address: without_password(text), reason };
        let (kind, port) = match name {
            "memcached" => (Kind::Memcached, 11_211),
            "redis" | "valkey" => (Kind::Redis, 6379),
            "rediss" | "valkeys" | "memcacheds" => {
                return Err(unsupported(
                    "TLS is not supported: run the agent on the server's machine and use a plain port on loopback",
                ));
            }
            "unix" | "redis+unix" | "redis+socket" => {
                return Err(unsupported("Unix sockets are not supported: use a port on loopback"));
            }
            _ => return Err(scheme()),
        };
        let place = |reason| TargetError::Place { address: without_password(text), reason };
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(unsupported("a password in an address can be read by all: put it into a file"));
            }
            Some(_) if kind == Kind::Memcached => {
                return Err(unsupported("memcached's users are not supported: leave the user out"));
            }
            Some(("", _)) => return Err(place("the user before `@` is missing")),
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, rest),
        };
        let host = host.strip_suffix('/').unwrap_or(host);
        let (host, port) = split_port(host, port).map_err(place)?;
        Ok(Self { kind, address: Address { host: host.to_owned(), port }, user })
    }

    /// Returns whether Redis or Valkey is expected at the address.
    pub fn is_redis(&self) -> bool {
        self.kind == Kind::Redis
    }

    /// Opens the target: starts its learning thread, if it learns. The server need not be there
    /// yet: that is found out by [`Instance::look`].
    ///
    /// # Errors
    /// If the settings contradict each other, or no thread can be started.
    pub fn open(self, settings: TargetSettings) -> Result<Box<dyn Instance>, InstanceError> {
        settings.sampling.check(&self.address)?;
        let (least, most) = (settings.least.unwrap_or(0), settings.most.unwrap_or(u64::MAX));
        if least > most {
            return Err(InstanceError::new(format!(
                "{}: the least memory, {least} bytes, exceeds the most, {most} bytes; correct one of them",
                self.address
            )));
        }
        let identity = Identity {
            name: settings.name.clone().unwrap_or_else(|| self.address.to_string()),
            node: settings.node.clone().unwrap_or_else(base::machine::host_name),
            least: settings.least,
            most: settings.most,
            reads_only: settings.reads_only,
        };
        Ok(match self.kind {
            Kind::Memcached if settings.password_file.is_some() => {
                return Err(InstanceError::new(format!(
                    "memcached at {} takes no password: leave the file out",
                    self.address
                )));
            }
            Kind::Memcached => Box::new(Memcached::open(self.address, identity, settings.sampling)?),
            Kind::Redis => {
                let login = redis::Login { user: self.user, password_file: settings.password_file };
                Box::new(Redis::open(self.address, login, identity, settings.sampling)?)
            }
        })
    }
}

impl Instance for Box<dyn Instance> {
    fn look(&mut self) -> Result<Look, InstanceError> {
        (**self).look()
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        (**self).resize(limits, grants)
    }

    fn set_led(&mut self, is_led: bool) {
        (**self).set_led(is_led);
    }
}

/// Splits `host`, `host:port` or `[host]:port`.
fn split_port(text: &str, default: u16) -> Result<(&str, u16), &'static str> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| "the brackets hold an invalid IPv6 address")?;
        (host, port)
    } else {
        match text.find(':') {
            Some(colon) => text.split_at(colon),
            None => (text, ""),
        }
    };
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != '?' && c != '#';
    if host.is_empty() {
        return Err("the host is missing");
    }
    if !host.chars().all(is_plain) {
        return Err("after the port nothing follows: leave the path out");
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default,
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| "a port is a number from 1 to 65535")?
        }
        _ => return Err("a port is a number from 1 to 65535; an IPv6 address stands in brackets"),
    };
    if port == 0 {
        return Err("a port is a number from 1 to 65535");
    }
    Ok((host, port))
}

/// An address for an error message: without what may be a password.
fn without_password(text: &str) -> String {
    let shown = match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => {
            let user = text.get(scheme + 3..at).unwrap_or_default();
            let user = user.split_once(':').map_or(user.to_owned(), |(user, _)| format!("{user}:***"));
            format!(
                "{}{user}{}",
                text.get(..scheme + 3).unwrap_or_default(),
                text.get(at..).unwrap_or_default()
            )
        }
        _ => text.to_owned(),
    };
    shown.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        Target::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| {
            let target = Target::parse(text).expect(text);
            (target.kind, target.user.unwrap_or_default(), target.address.to_string())
        };
        assert_eq!(read("memcached://a:1"), (Kind::Memcached, String::new(), "a:1".to_owned()));
        assert_eq!(read("memcached://a"), (Kind::Memcached, String::new(), "a:11211".to_owned()));
        assert_eq!(read("redis://u@[::1]:7/"), (Kind::Redis, "u".to_owned(), "[::1]:7".to_owned()));
        assert_eq!(read("valkey://[fe80::1]"), (Kind::Redis, String::new(), "[fe80::1]:6379".to_owned()));
    }

    #[test]
    fn other_addresses_are_refused_in_words() {
        assert!(refusal("cache:1").contains("write memcached://HOST:PORT"));
        assert!(refusal("http://cache:1").contains("`http://cache:1` does not name a server"));
        assert!(refusal("rediss://cache:1").contains("TLS is not supported"));
        assert!(refusal("unix:///run/redis").contains("use a port on loopback"));
        assert!(refusal("memcached://me@cache:1").contains("leave the user out"));
        assert!(refusal("redis://@cache:1").contains("the user before `@` is missing"));
        assert!(refusal("redis://").contains("the host is missing"));
        assert!(refusal("redis://a:0").contains("1 to 65535"));
        assert!(refusal("redis://a:65536").contains("1 to 65535"));
        assert!(refusal("redis://a:+7").contains("1 to 65535"));
        assert!(refusal("redis://::1:7").contains("the host is missing"));
        assert!(refusal("redis://fe80::1").contains("stands in brackets"));
        assert!(refusal("redis://[::1").contains("not closed"));
        assert!(refusal("redis://a/0").contains("leave the path out"));
    }

    #[test]
    fn a_password_is_not_repeated() {
        let words = refusal("redis://me:secret@cache:1");
        assert!(words.contains("redis://me:***@cache:1") && words.contains("put it into a file"), "{words}");
        assert!(!refusal("http://me:secret@cache:1").contains("secret"));
    }

    #[test]
    fn contradictory_settings_are_refused() {
        let open = |text: &str, settings| Target::parse(text).expect(text).open(settings).err();
        let bounds = TargetSettings { least: Some(2), most: Some(1), ..TargetSettings::default() };
        assert!(open("redis://a:1", bounds).expect("an error").to_string().contains("exceeds the most"));
        let file = TargetSettings { password_file: Some("x".into()), ..TargetSettings::default() };
        assert!(open("memcached://a:1", file).expect("an error").to_string().contains("takes no password"));
    }

    proptest! {
        #[test]
        fn whatever_is_given_is_read_or_refused(text in "(redis|memcached|valkey)://.{0,30}") {
            if let Ok(target) = Target::parse(&text) {
                prop_assert!(target.address.port > 0 && !target.address.host.is_empty());
            }
        }
    }
}
