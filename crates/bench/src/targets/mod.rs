//! The targets of a load.
//!
//! A cache inside the process is a [`Direct`] target: a call is an operation. A server is reached
//! through a [`Wire`]: the text of its requests and replies, apart from sockets and time. Both are
//! small, so that a peer is a file.

pub mod embedded;
pub mod memcached;
pub mod null;
pub mod resp;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

/// A cache inside this process. Methods may be called by many threads at once.
///
/// Keys are text of 1 to 250 bytes; `pool` is the number of the workload's pool. A target with
/// fewer pools than the workload puts several into one.
pub trait Direct: Sync {
    /// The state that a thread needs for its calls.
    type Session<'a>: DirectSession
    where
        Self: 'a;

    /// A session for one thread.
    fn session(&self) -> Self::Session<'_>;

    /// The target in words.
    fn describe(&self) -> String;

    /// Returns the contents of the cache, if the target reports them.
    fn holdings(&self) -> Option<Holdings> {
        None
    }
}

/// The calls of one thread to a [`Direct`] target.
pub trait DirectSession {
    /// Reads a value: `seen` is called with it on a hit, while it is still in the cache. True on a
    /// hit.
    fn get(&mut self, pool: u16, key: &[u8], seen: impl FnOnce(&[u8])) -> bool;

    /// Reads many values of one pool; `seen` is called for each hit with its place among `keys`.
    fn get_many(&mut self, pool: u16, keys: &[&[u8]], mut seen: impl FnMut(usize, &[u8])) {
        for (i, key) in keys.iter().enumerate() {
            self.get(pool, key, |value| seen(i, value));
        }
    }

    /// Writes a value that lives for `ttl_secs` seconds, 0 for ever. False where the cache refuses
    /// it.
    fn set(&mut self, pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> bool;

    /// Removes a key; true when it was there.
    fn delete(&mut self, pool: u16, key: &[u8]) -> bool;

    /// Gives a key a new lifetime; true when it was there.
    fn touch(&mut self, pool: u16, key: &[u8], ttl_secs: u32) -> bool;
}

/// The contents of a cache at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holdings {
    /// Items in the cache.
    pub items: u64,
    /// Items that were pushed out to make room, since the start.
    pub evictions: u64,
    /// Memory in use by the cache, all parts together, in bytes.
    pub memory_bytes: u64,
}

/// The text of requests and replies of a server.
pub trait Wire: Send {
    /// Appends a read of `keys`, at least one.
    fn get(&self, keys: &[&[u8]], out: &mut Vec<u8>);

    /// Appends a write.
    fn set(&self, key: &[u8], value: &[u8], ttl_secs: u32, out: &mut Vec<u8>);

    /// Appends a removal.
    fn delete(&self, key: &[u8], out: &mut Vec<u8>);

    /// Appends a change of lifetime.
    fn touch(&self, key: &[u8], ttl_secs: u32, out: &mut Vec<u8>);

    /// Parses the event at the start of `input`, and returns it with its number of bytes; `None`
    /// until it is whole.
    ///
    /// # Errors
    /// If the bytes aren't a valid reply of this protocol: the connection is of no further
    /// use.
    fn event<'a>(&self, input: &'a [u8]) -> Result<Option<(Event<'a>, usize)>, WireError>;
}

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// One of the values that were asked for; more may follow until [`Event::End`].
    Value(&'a [u8], &'a [u8]),
    /// No more values follow.
    End,
    /// A write, removal or touch was done.
    Done,
    /// A removal or touch found no such key, or a conditional write did not apply.
    NotDone,
    /// The server refused the request.
    Refused(&'a [u8]),
}

/// An invalid reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server answered `{0}`, which is not a reply of its protocol")]
pub struct WireError(pub String);

/// The target of a load. Parses from `embedded`, `null`, `memcached://host:port`,
/// `redis://host:port` and, for sockets in the file system, `memcached+unix:///path` and
/// `redis+unix:///path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetUrl {
    /// Millpond inside this process.
    Embedded,
    /// Nothing: what the bench itself costs.
    Null,
    /// A server that speaks memcached's text protocol.
    Memcached(Address),
    /// A server that speaks RESP, as Redis does.
    Redis(Address),
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The port on which memcached listens when nothing else is said.
const MEMCACHED_PORT: &str = "11211";
/// And Redis.
const REDIS_PORT: &str = "6379";

impl Address {
    /// Parses the part after `scheme://`, or after `scheme+unix://`.
    fn parse(place: &str, is_unix: bool, default_port: &str) -> Option<Self> {
        if is_unix {
            return place.starts_with('/').then(|| Self::Unix(place.into()));
        }
        // A path, as for a database, or a password are not understood.
        if place.is_empty() || place.contains(['/', '@']) {
            return None;
        }
        let port = place.rsplit_once(':').map(|(_, port)| port);
        let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
        Some(Self::Tcp(if has_port { place.to_owned() } else { format!("{place}:{default_port}") }))
    }

    /// As a target of this scheme.
    fn show(&self, scheme: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(_) => write!(f, "{scheme}://{self}"),
            Self::Unix(_) => write!(f, "{scheme}+unix://{self}"),
        }
    }
}

impl FromStr for TargetUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let target = match text.split_once("://") {
            None if text == "embedded" => Some(Self::Embedded),
            None if text == "null" => Some(Self::Null),
            None => None,
            Some((scheme, place)) => {
                let (protocol, is_unix) =
                    scheme.strip_suffix("+unix").map_or((scheme, false), |it| (it, true));
                match protocol {
                    "memcached" => Address::parse(place, is_unix, MEMCACHED_PORT).map(Self::Memcached),
                    "redis" => Address::parse(place, is_unix, REDIS_PORT).map(Self::Redis),
                    _ => None,
                }
            }
        };
        target.ok_or_else(|| {
            format!(
                "`{text}` is not a target: write `embedded`, `null`, `memcached://host:port`, `redis://host:port`, or for a \
                 socket in the file system `memcached+unix:///path/to/socket`, `redis+unix:///path/to/socket`"
            )
        })
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Null => f.write_str("null"),
            Self::Memcached(address) => address.show("memcached", f),
            Self::Redis(address) => address.show("redis", f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let whole =
            ["memcached://h:1", "memcached+unix:///run/m.sock", "redis://h:1", "redis+unix:///run/r.sock"];
        for text in ["embedded", "null"].into_iter().chain(whole) {
            assert_eq!(text.parse::<TargetUrl>().expect(text).to_string(), text);
        }
        for (scheme, port) in [("memcached", 11_211), ("redis", 6_379)] {
            let without = format!("{scheme}://cache.example");
            let default_port = without.parse::<TargetUrl>().expect("a target");
            assert_eq!(default_port.to_string(), format!("{without}:{port}"));
        }
        let wrong = [
            "",
            "memcached",
            "memcached://",
            "memcached+unix://x",
            "http://h/",
            "redis://h:1/0",
            "redis://:pw@h",
        ];
        for text in wrong {
            assert!(text.parse::<TargetUrl>().expect_err(text).contains("embedded"));
        }
    }
}
