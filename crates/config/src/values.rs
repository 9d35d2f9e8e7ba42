//! The types of single settings, each with the text that people write for it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use base::ByteSize;
use serde::de::{IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The smallest chunk that the engine can have.
pub(super) const MIN_CHUNK: ByteSize = ByteSize::new(64);
/// The largest item that the engine can hold: one slab.
pub(super) const MAX_ITEM: ByteSize = ByteSize::mib(4);

/// A setting that may be left to the server by writing `"auto"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auto<T> {
    /// Chosen by the server.
    #[default]
    Auto,
    /// Chosen by the operator.
    Set(T),
}

impl<T: Clone> Auto<T> {
    /// Returns the operator's choice, or the result of `choose`.
    pub fn or(&self, choose: impl FnOnce() -> T) -> T {
        match self {
            Self::Auto => choose(),
            Self::Set(value) => value.clone(),
        }
    }

    /// The operator's choice, if there is one.
    pub fn set(&self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Set(value) => Some(value.clone()),
        }
    }
}

impl<T: Serialize> Serialize for Auto<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Auto<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AutoVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for AutoVisitor<T> {
            type Value = Auto<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a value")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Auto<T>, E> {
                T::deserialize(value.into_deserializer()).map(Auto::Set)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Auto<T>, E> {
                T::deserialize(value.into_deserializer()).map(Auto::Set)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Auto<T>, E> {
                T::deserialize(value.into_deserializer()).map(Auto::Set)
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Auto<T>, E> {
                if value == "auto" {
                    return Ok(Auto::Auto);
                }
                T::deserialize(value.into_deserializer()).map(Auto::Set)
            }
        }
        deserializer.deserialize_any(AutoVisitor(std::marker::PhantomData))
    }
}

/// Implements serde through `FromStr` and `Display`, for settings that are texts.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `tcp://127.0.0.1:11211`
    Tcp(SocketAddr),
    /// `unix:///run/millpond.sock`
    Unix(PathBuf),
}

impl Address {
    /// TCP on this machine only.
    pub const fn loopback(port: u16) -> Self {
        Self::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    /// Returns whether only one of the two can be listened on.
    pub(crate) fn clashes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(two)) => {
                // A socket for all IPv6 addresses takes those of IPv4 as well.
                let has = |all: &SocketAddr, one: &SocketAddr| {
                    all.ip() == one.ip() || all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
                };
                one.port() != 0 && one.port() == two.port() && (has(one, two) || has(two, one))
            }
            (Self::Unix(one), Self::Unix(two)) => one == two,
            _ => false,
        }
    }

    /// Returns whether another machine could connect to it.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl Default for Address {
    fn default() -> Self {
        Self::loopback(MEMCACHED_PORT)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(format!("`{text}` names no absolute path: write unix:///run/millpond.sock"));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        if let Some((scheme @ ("redis" | "resp" | "memcached"), rest)) = text.split_once("://") {
            let protocol = if scheme == "memcached" { scheme } else { "resp" };
            return Err(format!(
                "`{text}` says more than where: write tcp://{rest} and protocol = \"{protocol}\""
            ));
        }
        let host_port = text.strip_prefix("tcp://").unwrap_or(text);
        let host_port = match host_port.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => host_port.to_owned(),
        };
        host_port.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{text}` is not an address: write tcp://127.0.0.1:11211 (an IP address and a port) or \
                 unix:///run/millpond.sock"
            )
        })
    }
}

serde_as_text!(Address);

/// A listener as it is given on a command line: an address, whose scheme may state the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: Address,
    /// The protocol.
    pub protocol: Protocol,
}

impl Listen {
    /// A port on this machine only, for clients of both protocols.
    pub const fn port(port: u16) -> Self {
        Self { address: Address::loopback(port), protocol: Protocol::Auto }
    }

    /// An address for Redis clients alone, which may be a port only.
    ///
    /// # Errors
    /// As those of [`Address`].
    pub fn redis(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse() {
            return Ok(Self { address: Address::loopback(port), protocol: Protocol::Resp });
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("redis://{text}") };
        Ok(Self { protocol: Protocol::Resp, ..text.parse()? })
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, port, rest) = match text.split_once("://") {
            Some(("redis" | "resp", rest)) => (Protocol::Resp, REDIS_PORT, rest),
            Some(("memcached", rest)) => (Protocol::Memcached, MEMCACHED_PORT, rest),
            _ => return Ok(Self { address: text.parse()?, protocol: Protocol::Auto }),
        };
        // A URL of a client may end in a slash, and leave the usual port out.
        let host = rest.trim_end_matches('/');
        let address = match host.rsplit_once(':') {
            Some((_, digits)) if !digits.is_empty() && !digits.contains(']') => host.parse(),
            _ => format!("{host}:{port}").parse(),
        };
        Ok(Self { address: address?, protocol })
    }
}

/// The port on which memcached's clients expect a server.
pub(super) const MEMCACHED_PORT: u16 = 11211;
/// The port on which operators expect the admin server.
pub(super) const ADMIN_PORT: u16 = 11212;
/// The port on which Redis's clients expect a server.
pub(super) const REDIS_PORT: u16 = 6379;

/// The permissions of a unix socket, written in octal: `"0770"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Default for FileMode {
    fn default() -> Self {
        Self(0o700)
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| *mode <= 0o777)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a file mode: write octal permissions, as in \"0770\""))
    }
}

serde_as_text!(FileMode);

/// Declares an enum of named choices with `FromStr`, `Display` and serde by those names.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal $(| $alias:literal)*),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_meta])* $variant),+
        }

        impl $name {
            /// The names of all choices.
            pub const NAMES: &'static [&'static str] = &[$($text),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $text),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(match base::suggest::nearest(text, Self::NAMES.iter().copied()) {
                        Some(near) => format!(
                            "`{text}` is none of {}; did you mean \"{near}\"?", Self::NAMES.join(", ")
                        ),
                        None => format!("`{text}` is none of {}", Self::NAMES.join(", ")),
                    }),
                }
            }
        }

        serde_as_text!($name);
    };
}

choices! {
    /// The protocol of a listener.
    Protocol {
        /// memcached's protocols and RESP; the first request of a connection decides.
        Auto = "auto",
        /// RESP2 and RESP3, the protocol of Redis, alone: also as lines of words.
        Resp = "resp" | "redis",
        /// memcached's text and binary protocols; the first byte of a connection decides.
        Memcached = "memcached",
        /// memcached's classic text and meta commands alone.
        MemcachedText = "memcached-text",
        /// memcached's binary protocol alone.
        MemcachedBinary = "memcached-binary",
    }
}

#[expect(clippy::derivable_impls, reason = "the enum comes from a macro")]
impl Default for Protocol {
    fn default() -> Self {
        Self::Auto
    }
}

choices! {
    /// How a pool's size classes adapt.
    Classes {
        /// They stay as they are.
        Fixed = "fixed",
        /// They follow the pool's items.
        Tuned = "tuned",
    }
}

choices! {
    /// How important a message must be to be logged.
    LogLevel {
        /// Failures of the server or a connection.
        Error = "error",
        /// Conditions that an operator should look at.
        Warn = "warn",
        /// Start, stop, reload.
        Info = "info",
        /// Connections that are opened and closed.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choices! {
    /// The use of a policy that moves memory between pools.
    ControlMode {
        /// It does not.
        Off = "off",
        /// It does if there are several pools and none has a limit.
        Auto = "auto",
        /// It decides, and moves nothing.
        DryRun = "dry-run",
        /// It does.
        On = "on",
    }
}

choices! {
    /// The aim of a policy that moves memory between pools.
    ControlObjective {
        /// Misses.
        Hits = "hits",
        /// The time that clients wait for misses.
        Time = "time",
    }
}

choices! {
    /// The memory that the memory monitor watches.
    MonitorMode {
        /// None: the monitor is off.
        Off = "off",
        /// The machine's available memory.
        FreeMemory = "free-memory",
        /// This process's resident memory.
        ResidentMemory = "resident-memory",
        /// The memory available to this process's cgroup and those above it, and memory pressure.
        Cgroup = "cgroup",
    }
}

impl Address {
    /// Returns why the address, which other machines can reach, is refused as the value of a
    /// setting.
    pub fn remote_problem(&self, setting: &str) -> String {
        format!(
            "{setting}: {self} can be reached from other machines, and no authentication is required: whoever connects can \
             read, write and flush. Use a loopback address or a unix socket, add [[user]] with a password for listeners, or set \
             allow_remote = true if the network is trusted"
        )
    }
}
