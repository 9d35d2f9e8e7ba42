//! `millpond orchestrate`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use allocate::cost::Objective;
use allocate::guard::Rails;
use base::{ByteSize, Clock};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use control::access::{Access, AccessArguments, causes};

use crate::etcd::EtcdConfig;
use crate::fleet::{Budget, FleetConfig};
use crate::service::{Service, ServiceConfig};

/// etcd counts no shorter lease.
const LEAST_ETCD_LEASE_SECS: u32 = 2;
/// The least memory of a node.
const LEAST_MEMORY: ByteSize = ByteSize::mib(8);

/// Flags of `millpond orchestrate`.
#[derive(Clone, Debug, Args)]
pub struct OrchestrateArguments {
    /// The memory of each node that --node does not name, for all instances on it together; without
    /// it, instances on other nodes are refused
    #[arg(long, value_name = "SIZE", env = "MILLPOND_FLEET_MEMORY", required_unless_present = "node")]
    pub memory: Option<ByteSize>,
    /// The memory of a node; can be given several times
    #[arg(long, value_name = "NAME=SIZE", value_parser = node)]
    pub node: Vec<(String, ByteSize)>,
    /// Memory of each node that no instance gets: for those that are started with memory of their
    /// own, before the others have been lowered
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize::new(0))]
    pub spare: ByteSize,
    /// The address at which agents register
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:11220")]
    pub listen: SocketAddr,
    /// The address of the figures and of the commands of operators
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:11221")]
    pub admin: SocketAddr,
    /// The policy, by its name in docs/allocation.md
    #[arg(long, value_name = "NAME", default_value = "most-hits")]
    pub policy: String,
    /// The aim of policies that save misses: `hits` saves most misses, and `time` most of the time
    /// that clients wait for them, by the cost of a miss that agents tell
    #[arg(
        long,
        value_name = "AIM",
        default_value = "hits",
        value_parser = PossibleValuesParser::new(["hits", "time"]).map(|name| objective(&name))
    )]
    pub objective: Objective,
    /// The time between two rounds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub period: Duration,
    /// The time without an answer after which an instance is not counted on; at least three periods
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub lease: Duration,
    /// The least that a pool keeps, in percent of an equal share
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub least_share_percent: u32,
    /// The most that changes hands in a round, in percent of a node's memory
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub step_percent: u32,
    /// The gain below which nothing moves, in percent of the misses
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub hysteresis_percent: u32,
    /// The file of the state; without it, a restart waits for a lease, until agents have registered
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_STATE")]
    pub state: Option<PathBuf>,
    /// The members of the etcd by which several orchestrators elect one, and where the state is
    /// kept: `http://HOST:PORT` or `https://HOST:PORT`, with commas between them
    #[arg(
        long,
        value_name = "URLS",
        env = "MILLPOND_FLEET_ETCD",
        value_delimiter = ',',
        conflicts_with = "state"
    )]
    pub etcd: Vec<String>,
    /// The prefix of the keys in etcd: the orchestrators of one fleet have the same, and no others
    #[arg(long, value_name = "PREFIX", default_value = "/millpond/", requires = "etcd")]
    pub etcd_prefix: String,
    /// The lease of the leader in etcd, which counts seconds: another one leads after it
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time, requires = "etcd")]
    pub etcd_lease: Duration,
    /// The user that etcd asks for
    #[arg(long, value_name = "NAME", env = "MILLPOND_FLEET_ETCD_USER", requires = "etcd_password_file")]
    pub etcd_user: Option<String>,
    /// A file with the user's password
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_ETCD_PASSWORD_FILE", requires = "etcd_user")]
    pub etcd_password_file: Option<PathBuf>,
    /// The authority of the certificates of etcd, in PEM, for https
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_ETCD_CA", requires = "etcd")]
    pub etcd_ca: Option<PathBuf>,
    /// The certificate that etcd asks for, in PEM
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_ETCD_CERT", requires = "etcd_key")]
    pub etcd_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_ETCD_KEY", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,
    /// With --etcd: the address at which agents register, as they see it, which the other
    /// orchestrators tell them [default: --listen]
    #[arg(long, value_name = "HOST:PORT", requires = "etcd")]
    pub advertise: Option<String>,
    /// The orchestrators of the fleet, one of which leads, with commas between them: they set the
    /// memory of the node that --node names, whose SIZE is the most that it can have. No limit is
    /// raised until they have set it once. Needs --state, which keeps what they have set
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "MILLPOND_FLEET_ABOVE",
        value_delimiter = ',',
        value_parser = base::address::host_and_port,
        requires_all = ["state", "node"],
        conflicts_with_all = ["etcd", "memory"]
    )]
    pub above: Vec<String>,
    /// With --above: the name of the fleet's node, whose memory its orchestrators divide
    #[arg(long, value_name = "NAME", default_value = "fleet", requires = "above")]
    pub above_node: String,
    /// With --above: the address at which the fleet's orchestrators call this one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0", requires = "above")]
    pub above_listen: SocketAddr,
    /// With --above: that address as the fleet's orchestrators reach it [default: --above-listen]
    #[arg(long, value_name = "HOST:PORT", requires = "above")]
    pub above_advertise: Option<String>,
    /// Decisions that are kept to be shown
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub history: u16,
    /// The credentials
    #[command(flatten)]
    pub access: AccessArguments,
}

fn node(text: &str) -> Result<(String, ByteSize), String> {
    let (name, size) = text.split_once('=').ok_or("write NAME=SIZE, as in rack-7=64GiB")?;
    if name.is_empty() {
        return Err("the name is missing: write NAME=SIZE, as in rack-7=64GiB".to_owned());
    }
    Ok((name.to_owned(), size.parse().map_err(|error: base::bytes::ParseByteSizeError| error.to_string())?))
}

fn objective(name: &str) -> Objective {
    if name == "time" { Objective::TimeSaved } else { Objective::Hits }
}

/// A time such as `500ms` or `5s`.
fn time(text: &str) -> Result<Duration, String> {
    let error = || format!("`{text}` is not a time such as 5s or 500ms");
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').ok_or_else(error)?, 1_000),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(unit).filter(|&millis| millis > 0).map(Duration::from_millis).ok_or_else(error)
}

impl OrchestrateArguments {
    fn etcd(&self) -> Result<Option<EtcdConfig>, String> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        let lease_secs = u32::try_from(self.etcd_lease.as_secs()).unwrap_or(u32::MAX);
        if lease_secs < LEAST_ETCD_LEASE_SECS || self.etcd_lease.subsec_nanos() > 0 {
            return Err(format!(
                "--etcd-lease: {:?} is not a number of seconds, {LEAST_ETCD_LEASE_SECS} or more",
                self.etcd_lease
            ));
        }
        Ok(Some(EtcdConfig {
            endpoints: self.etcd.clone(),
            prefix: self.etcd_prefix.clone(),
            lease_secs,
            user: self.etcd_user.clone().zip(self.etcd_password_file.clone()),
            authority: self.etcd_ca.clone(),
            certificate: self.etcd_cert.clone().zip(self.etcd_key.clone()),
            advertise: self.advertise.clone(),
        }))
    }

    /// The memory of nodes.
    fn budget(&self) -> Result<Budget, String> {
        let mut nodes = BTreeMap::new();
        let named = self.node.iter().map(|(name, size)| (format!("--node {name}"), *size));
        for (flag, size) in named.chain(self.memory.map(|size| ("--memory".to_owned(), size))) {
            if size < LEAST_MEMORY {
                return Err(format!(
                    "{flag}: {size} is too little for any server; write a size of {LEAST_MEMORY} or more, as in 64GiB"
                ));
            }
            if size <= self.spare {
                return Err(format!("--spare: {} leaves nothing of {flag}, {size}", self.spare));
            }
        }
        for (name, size) in &self.node {
            if nodes.insert(name.clone(), size.as_u64()).is_some() {
                return Err(format!("--node: {name} is named twice"));
            }
        }
        Ok(Budget { each: self.memory.map(ByteSize::as_u64), nodes, spare: self.spare.as_u64() })
    }

    /// The node whose memory the orchestrators of a fleet set.
    pub fn led_node(&self) -> Option<String> {
        let node = self.node.first().map(|(name, _)| name.clone());
        node.filter(|_| !self.above.is_empty())
    }

    /// Starts the orchestrator.
    ///
    /// # Errors
    /// In words, if a flag is wrong, an address is taken, or the state cannot be read.
    pub fn start(&self) -> Result<Service, String> {
        if self.lease < self.period * 3 {
            return Err(format!(
                "--lease: {:?} is less than three periods of {:?}: one lost answer would end it",
                self.lease, self.period
            ));
        }
        if self.lease.as_millis() > control::LONGEST_LEASE_MILLIS.into() {
            return Err(format!(
                "--lease: {:?} is more than an hour, the longest that agents follow",
                self.lease
            ));
        }
        if !self.above.is_empty() && self.node.len() != 1 {
            return Err("--above: give --node once, as the fleet's orchestrators set the memory of one node"
                .to_owned());
        }
        if self.above_advertise.is_none() {
            base::address::check_reach(&self.above, self.above_listen)
                .map_err(|error| format!("--above-listen: orchestrator {error}"))?;
        }
        let share = |percent: u32| f64::from(percent) / 100.0;
        let rails = Rails {
            least_share: share(self.least_share_percent),
            step: share(self.step_percent),
            hysteresis: share(self.hysteresis_percent),
            smoothing: 0.3,
            ..Rails::default()
        };
        let fleet = FleetConfig {
            id: base::rng::entropy_seed() | 1,
            budget: self.budget()?,
            lease: u64::try_from(self.lease.as_nanos()).unwrap_or(u64::MAX),
            policy: self.policy.clone(),
            objective: self.objective,
            rails,
        };
        let config = ServiceConfig {
            listen: self.listen,
            admin: Some(self.admin),
            period: self.period,
            fleet,
            state: self.state.clone(),
            etcd: self.etcd()?,
            history: self.history.into(),
            led_node: self.led_node(),
        };
        let access = Access::read(&self.access.files()).map_err(|error| causes(&error))?;
        Service::start(config, access, Clock::System).map_err(|error| causes(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: OrchestrateArguments,
    }

    fn parse(line: &[&str]) -> Result<OrchestrateArguments, String> {
        let line = [&["orchestrate"], line].concat();
        Line::try_parse_from(line).map(|line| line.arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn wrong_flags_are_refused_by_name() {
        assert!(parse(&[]).unwrap_err().contains("--memory"));
        assert!(parse(&["--node", "a"]).unwrap_err().contains("NAME=SIZE"));
        assert!(parse(&["--node", "a=lots"]).unwrap_err().contains("lots"));
        assert!(parse(&["--memory", "1GiB", "--period", "soon"]).unwrap_err().contains("such as 5s"));
        let start = |more: &[&str]| {
            let mut arguments =
                parse(&[&["--memory", "1GiB", "--admin", "127.0.0.1:0"], more].concat()).unwrap();
            if arguments.listen.ip().is_loopback() {
                arguments.listen.set_port(0);
            }
            arguments.start().map(|_| ()).unwrap_err()
        };
        assert!(start(&["--lease", "2s"]).contains("three periods"));
        assert!(start(&["--lease", "3601s"]).contains("more than an hour"));
        assert!(start(&["--node", "a=1GiB", "--node", "a=2GiB"]).contains("a is named twice"));
        assert!(start(&["--node", "a=48"]).contains("--node a: 48B is too little"));
        assert!(start(&["--spare", "2GiB"]).contains("leaves nothing of --memory"));
        assert!(parse(&["--memory", "1GiB", "--etcd-prefix", "/m"]).unwrap_err().contains("--etcd"));
        let both = ["--memory", "1GiB", "--etcd", "http://a:1", "--state", "file"];
        assert!(parse(&both).unwrap_err().contains("--state"));
        let led = ["--node", "a=1GiB", "--above", "b:1"];
        assert!(parse(&led).unwrap_err().contains("--state"));
        let led = ["--above", "b:1", "--state", "/nowhere/state"];
        let both = [&["--memory", "1GiB", "--node", "a=1GiB"][..], &led].concat();
        assert!(parse(&both).unwrap_err().contains("--memory"));
        let two = [&["--node", "a=1GiB", "--node", "b=1GiB"][..], &led].concat();
        assert!(parse(&two).unwrap().start().map(|_| ()).unwrap_err().contains("--node once"));
        let far = [&["--node", "a=1GiB", "--above", "10.0.0.1:1"][..], &led[2..]].concat();
        assert!(parse(&far).unwrap().start().map(|_| ()).unwrap_err().contains("--above-listen: "));
        assert!(start(&["--etcd", "a:2379"]).contains("http://"));
        assert!(start(&["--etcd", "http://a:1,https://b:1"]).contains("--etcd-ca"));
        assert!(start(&["--etcd", "http://a:1", "--etcd-lease", "1s"]).contains("2 or more"));
        assert!(start(&["--etcd", "http://a:1", "--etcd-lease", "2500ms"]).contains("seconds"));
        assert!(start(&["--policy", "best"]).contains("most-hits"));
        assert!(start(&["--listen", "0.0.0.0:0"]).contains("token"));
        assert!(start(&["--token-file", "/nowhere/token"]).contains("/nowhere/token"));
    }
}
