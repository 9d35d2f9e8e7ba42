//! The other end of a connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A process on this machine.
    Unix,
}

impl Peer {
    /// Its address, if it came by TCP.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Unix => f.write_str("unix"),
        }
    }
}
