//! The agent by which an orchestrator leads the server.

use std::net::SocketAddr;
use std::path::PathBuf;

use base::ByteSize;

use super::Config;
use super::values::Auto;

settings! {
    /// The agent by which an orchestrator leads the server (docs/fleet.md).
    pub struct Fleet in "fleet." {
        /// The orchestrators, as in `["10.0.0.7:11220"]`, one of which sets the server's memory,
        /// and what its pools are granted. Several must share an etcd, by which they elect the one
        /// (docs/fleet.md). Empty: nobody does.
        restart orchestrators: Vec<String> = Vec::new();

        /// The name of this server among all of the orchestrator. Empty: the host's name and the
        /// port of the first listener.
        restart name: String = String::new();

        /// The machine, within which memory moves between servers. Empty: the host's name.
        restart node: String = String::new();

        /// The address at which the orchestrator reaches the agent, IP:PORT; port 0 is any free
        /// one. One that other machines reach needs a token or certificates.
        restart listen: String = "127.0.0.1:0".to_owned();

        /// That address as the orchestrator sees it, HOST:PORT. Empty: `fleet.listen`.
        restart advertise: String = String::new();

        /// The least memory that the orchestrator leaves the server. "auto": the sum of the
        /// reserves, but at least 8MiB. The most is `max_memory`.
        restart least_memory: Auto<ByteSize> = Auto::Auto;

        /// A file with the token that agents and orchestrators show one another. Empty: none.
        restart token_file: PathBuf = PathBuf::new();

        /// A file with the agent's certificate, in PEM. Empty: no TLS.
        restart cert_file: PathBuf = PathBuf::new();

        /// The file with the private key of the certificate, in PEM.
        restart key_file: PathBuf = PathBuf::new();

        /// A file with the authority of the orchestrators' certificates, in PEM. With it, agents
        /// and orchestrators must show certificates to one another.
        restart authority_file: PathBuf = PathBuf::new();
    }
}

impl Fleet {
    /// The address that the agent listens on; `None` if there are no orchestrators, or it is none.
    pub fn address(&self) -> Option<SocketAddr> {
        if self.orchestrators.is_empty() { None } else { self.listen.parse().ok() }
    }
}

/// Reports an agent that cannot work.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    let fleet = &config.fleet;
    if fleet.orchestrators.is_empty() {
        return;
    }
    let addresses = fleet.orchestrators.iter().map(|text| base::address::host_and_port(text));
    problems.extend(addresses.filter_map(Result::err).map(|error| format!("fleet.orchestrators: {error}")));
    if let Some(listen) = fleet.address().filter(|_| fleet.advertise.is_empty()) {
        let reach = base::address::check_reach(&fleet.orchestrators, listen);
        problems.extend(reach.err().map(|error| format!("fleet.listen: orchestrator {error}")));
    }
    match fleet.address() {
        None => problems.push(format!("fleet.listen: `{}` is not IP:PORT", fleet.listen)),
        Some(address) if address.ip().is_unspecified() && fleet.advertise.is_empty() => {
            problems.push(format!(
                "fleet.listen: {address} is all addresses; say in fleet.advertise at which the orchestrator reaches the agent"
            ));
        }
        Some(address) => {
            let shows =
                !fleet.token_file.as_os_str().is_empty() || !fleet.authority_file.as_os_str().is_empty();
            if !address.ip().is_loopback() && !shows {
                problems.push(format!(
                    "fleet.listen: {address} can be reached from other machines; set fleet.token_file, or the certificates"
                ));
            }
        }
    }
    if config.monitor.engine().is_some() {
        problems.push(
            "fleet.orchestrators, monitor.mode: both would change the memory; set monitor.mode to \"off\""
                .to_owned(),
        );
    }
    let certificate = [&fleet.cert_file, &fleet.key_file].map(|file| !file.as_os_str().is_empty());
    if certificate[0] != certificate[1] || !certificate[0] && !fleet.authority_file.as_os_str().is_empty() {
        problems.push(
            "fleet.cert_file, fleet.key_file, fleet.authority_file: TLS needs a certificate and its key"
                .to_owned(),
        );
    }
    let least = fleet.least_memory.or(|| ByteSize::new(0));
    if least > config.max_memory() {
        problems.push(format!(
            "fleet.least_memory: {least} is more than max_memory, {}; lower it",
            config.max_memory()
        ));
    }
}
