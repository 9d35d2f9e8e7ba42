//! The clients of a soak: their protocols, tenants and work, and how they connect.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::ClientConfig;

use super::certificates::TlsStream;
use super::settings::{ALICE, BOB, MEMCACHED, REDIS, TLS};
use super::tenants::{Holding, Tenant};
use super::{binary, collections, meta};
use crate::check::line::Line;
use crate::check::server::ServerCaller as _;
use crate::check::subject::Caller;
use crate::check::{memcached, resp};

/// Longest time in which a server must reply before it is taken for dead.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    Text,
    Meta,
    Binary,
    Resp,
}

/// The work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Gets, sets, deletes and touches keys, and closes its connection after this many turns, 0 for
    /// never.
    Calls(Holding, u32),
    /// Keeps copies of what it reads.
    Copies,
    /// Is gone in the middle of requests.
    Vanishes,
    /// Changes parts of collections.
    Parts,
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) listener: &'static str,
    pub(super) speech: Speech,
    /// The tenant whose keys the client uses, by the listener, by `SELECT`, or because the user is
    /// the tenant's.
    pub(super) tenant: Tenant,
    pub(super) user: Option<[&'static str; 2]>,
    pub(super) work: Work,
}

use Holding::{Collections, Strings};

/// All of them.
pub(super) const CLIENTS: [Client; 19] = [
    client("text", MEMCACHED, Speech::Text, Tenant::Shop, Work::Calls(Strings, 0)),
    client("meta", MEMCACHED, Speech::Meta, Tenant::Shop, Work::Calls(Strings, 0)),
    client("binary", MEMCACHED, Speech::Binary, Tenant::Shop, Work::Calls(Strings, 0)),
    client("redis", REDIS, Speech::Resp, Tenant::Shop, Work::Calls(Strings, 0)),
    client("collections", REDIS, Speech::Resp, Tenant::Shop, Work::Calls(Collections, 0)),
    client("blog", REDIS, Speech::Resp, Tenant::Blog, Work::Calls(Strings, 0)),
    client("guest", REDIS, Speech::Resp, Tenant::Guest, Work::Calls(Strings, 0)),
    client("guest collections", REDIS, Speech::Resp, Tenant::Guest, Work::Calls(Collections, 0)),
    client("tls text", TLS, Speech::Text, Tenant::Blog, Work::Calls(Strings, 0)),
    client("tls redis", TLS, Speech::Resp, Tenant::Blog, Work::Calls(Strings, 0)),
    client("tls collections", TLS, Speech::Resp, Tenant::Blog, Work::Calls(Collections, 0)),
    Client {
        user: Some(ALICE),
        ..client("alice", REDIS, Speech::Resp, Tenant::Blog, Work::Calls(Strings, 0))
    },
    Client { user: Some(BOB), ..client("bob", REDIS, Speech::Resp, Tenant::Shop, Work::Calls(Strings, 0)) },
    client("comes and goes", MEMCACHED, Speech::Meta, Tenant::Shop, Work::Calls(Strings, 20)),
    client("tls comes and goes", TLS, Speech::Resp, Tenant::Blog, Work::Calls(Strings, 10)),
    client("copies", REDIS, Speech::Resp, Tenant::Shop, Work::Copies),
    client("copies of blog", REDIS, Speech::Resp, Tenant::Blog, Work::Copies),
    client("vanishes", REDIS, Speech::Resp, Tenant::Shop, Work::Vanishes),
    client("parts", REDIS, Speech::Resp, Tenant::Shop, Work::Parts),
];

const fn client(
    name: &'static str,
    listener: &'static str,
    speech: Speech,
    tenant: Tenant,
    work: Work,
) -> Client {
    Client { name, listener, speech, tenant, user: None, work }
}

/// The addresses of the server, and the certificates that a client trusts.
#[derive(Clone)]
pub(super) struct Network {
    pub(super) memcached: SocketAddr,
    pub(super) redis: SocketAddr,
    pub(super) tls: SocketAddr,
    pub(super) trust: Arc<ClientConfig>,
}

impl Network {
    /// A socket to a listener.
    pub(super) fn socket(&self, listener: &str) -> Result<TcpStream> {
        let address = match listener {
            MEMCACHED => self.memcached,
            REDIS => self.redis,
            _ => self.tls,
        };
        let socket = TcpStream::connect(address).with_context(|| format!("connecting to {listener}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
        socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(socket)
    }

    fn line(&self, listener: &str) -> Result<Line> {
        let socket = self.socket(listener)?;
        Ok(if listener == TLS { Line::new(TlsStream::open(&self.trust, socket)?) } else { Line::new(socket) })
    }

    /// A client's connection, for calls.
    pub(super) fn open(&self, client: &Client) -> Result<Box<dyn Caller>> {
        let line = self.line(client.listener)?;
        Ok(match (client.speech, client.work) {
            (Speech::Text, _) => Box::new(memcached::Client::over(line)),
            (Speech::Meta, _) => Box::new(meta::Client::over(line)),
            (Speech::Binary, _) => Box::new(binary::Client::over(line)),
            (Speech::Resp, Work::Calls(Collections, _)) => {
                let mut caller = collections::Client::over(line);
                introduce(caller.resp(), client)?;
                Box::new(caller)
            }
            (Speech::Resp, _) => {
                // Ends to the millisecond are not for memcached's clients, which use the same keys.
                let mut caller = resp::Client::over(line).ending_on_seconds();
                introduce(&mut caller, client)?;
                Box::new(caller)
            }
        })
    }

    /// A client's connection, for commands of RESP.
    pub(super) fn open_resp(&self, client: &Client) -> Result<resp::Client> {
        let mut caller = resp::Client::over(self.line(client.listener)?);
        introduce(&mut caller, client)?;
        Ok(caller)
    }
}

/// Says who the client is. Those with collections and copies speak version 3.
fn introduce(connection: &mut resp::Client, client: &Client) -> Result<()> {
    if matches!(client.work, Work::Calls(Collections, _) | Work::Copies) {
        connection.demand(&[b"HELLO", b"3"])?;
    }
    if let Some([name, password]) = client.user {
        connection.demand(&[b"AUTH", name.as_bytes(), password.as_bytes()])?;
    }
    let home = if client.listener == TLS { Tenant::Blog } else { Tenant::Shop };
    if client.user.is_none() && client.tenant != home {
        connection.demand(&[b"SELECT", client.tenant.database().to_string().as_bytes()])?;
    }
    if client.work == Work::Copies {
        connection.demand(&[b"CLIENT", b"TRACKING", b"ON"])?;
    }
    Ok(())
}
