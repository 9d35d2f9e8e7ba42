//! The server under attack: its configuration, set as a platform team would, and the addresses of
//! its tenants.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use base::ByteSize;
use serde_json::Value;
use tempfile::TempDir;

use crate::served::Served;

/// The most connections that each tenant may have, and all together.
pub(super) const VICTIM_CONNECTIONS: u64 = 100;
pub(super) const NEIGHBOUR_CONNECTIONS: u64 = 300;
const ALL_CONNECTIONS: u64 = 500;
/// The neighbour's rate limit, in requests a second, for attacks that have one.
pub(super) const NEIGHBOUR_RATE: u64 = 20_000;
/// Resident memory that is in no bill, beside the pages of the program's file: stacks, the admin
/// server, heap that the allocator keeps for connections to come, and slabs taken from the system
/// ahead, whose room connections may spend within a second. It does not grow with the cache.
pub(super) const BESIDE_BILL: ByteSize = ByteSize::mib(32);

/// A server with two tenants, the certificate of one of its listeners, and where they are.
pub(super) struct Place {
    pub(super) served: Served,
    memory: ByteSize,
    workers: usize,
    certificate: TempDir,
    /// Address of the victim's listener.
    pub(super) victim: SocketAddr,
    /// Address of the neighbour's listener for memcached's protocols and Redis's.
    pub(super) neighbour: SocketAddr,
    /// Address of the neighbour's TLS listener.
    pub(super) tls: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Place {
    /// Starts the server with `memory`, of which each tenant may have three eighths, and with
    /// `workers` workers, pinned to the first processors.
    pub(super) fn start(program: &Path, memory: ByteSize, workers: usize) -> Result<Self> {
        let certificate = tempfile::tempdir().context("making a folder for a certificate")?;
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .context("making a certificate")?;
        std::fs::write(certificate.path().join("server.pem"), pair.cert.pem())?;
        std::fs::write(certificate.path().join("server.key"), pair.signing_key.serialize_pem())?;
        let served = Served::start(program, &config(memory, workers, certificate.path(), 0))?;
        let address = |name| served.address(name);
        let (victim, neighbour, tls) = (address("victim")?, address("neighbour")?, address("tls")?);
        let admin = served.admin()?.trim_start_matches("http://").parse().context("the admin address")?;
        Ok(Self { memory, workers, certificate, victim, neighbour, tls, admin, served })
    }

    /// Gives the neighbour a rate, or takes it away.
    pub(super) fn set_rate(&mut self, is_on: bool) -> Result<()> {
        let rate = if is_on { NEIGHBOUR_RATE } else { 0 };
        self.served.rewrite(&config(self.memory, self.workers, self.certificate.path(), rate))
    }

    /// The most that may be resident, without the pages of files.
    pub(super) fn resident_bound(&self) -> u64 {
        self.memory.as_u64() + BESIDE_BILL.as_u64()
    }
}

/// The memory limit of each tenant.
pub(super) fn tenant_limit(memory: ByteSize) -> ByteSize {
    ByteSize::new(memory.as_u64() / 8 * 3)
}

/// Time-outs are short, so that what they are to end is seen to end.
fn config(memory: ByteSize, workers: usize, certificate: &Path, rate: u64) -> String {
    let (limit, folder) = (tenant_limit(memory).as_u64(), certificate.display());
    format!(
        r#"
memory = {}
threads = {workers}
pin_threads = true
[limits]
max_connections = {ALL_CONNECTIONS}
stall_timeout_secs = 2
handshake_timeout_secs = 2
idle_timeout_secs = 5
[log]
level = "warn"
[[tenant]]
name = "victim"
limit = {limit}
max_connections = {VICTIM_CONNECTIONS}
[[tenant]]
name = "neighbour"
limit = {limit}
max_connections = {NEIGHBOUR_CONNECTIONS}
operations_per_sec = {rate}
[[listener]]
name = "victim"
tenant = "victim"
[[listener]]
name = "neighbour"
tenant = "neighbour"
protocol = "auto"
[[listener]]
name = "tls"
tenant = "neighbour"
protocol = "auto"
tls_certificate = "{folder}/server.pem"
tls_key = "{folder}/server.key"
"#,
        memory.as_u64()
    )
}

/// A number of `/stats.json`, 0 where it is missing.
pub(super) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// The part of `/stats.json` about a tenant.
pub(super) fn tenant<'a>(stats: &'a Value, name: &str) -> &'a Value {
    let all = stats.get("tenants").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|tenant| tenant.get("name").and_then(Value::as_str) == Some(name)).unwrap_or(&Value::Null)
}
