//! `millpond agent`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::{ByteSize, Clock};
use clap::Args;
use control::access::{Access, AccessArguments, causes};
use control::v1::Curve;
use control::{amounts, curve};

use crate::instance::{Instance, Look};
use crate::report::read;
use crate::service::{Service, ServiceConfig};
use crate::targets::{RedisLearning, Sampling, Target, TargetSettings};

/// Flags of `millpond agent`.
#[derive(Clone, Debug, Args)]
pub struct AgentArguments {
    /// The server: `memcached://HOST:PORT`, `redis://[USER@]HOST:PORT` or
    /// `valkey://[USER@]HOST:PORT`
    #[arg(long, value_name = "URL", env = "MILLPOND_AGENT_TARGET")]
    pub target: String,
    /// The orchestrator, or several with commas between them, if these share an etcd; without one,
    /// what the server has and its curve are printed, and nothing is changed
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "MILLPOND_AGENT_ORCHESTRATOR",
        value_delimiter = ',',
        value_parser = base::address::host_and_port
    )]
    pub orchestrator: Vec<String>,
    /// The name of the server among all of the orchestrator [default: its host and port]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// With an orchestrator: the machine whose memory the server takes [default: this one's name]
    #[arg(long, value_name = "NAME", requires = "orchestrator")]
    pub node: Option<String>,
    /// The least memory that the orchestrator leaves the server [default: what the server needs]
    #[arg(long, value_name = "SIZE", requires = "orchestrator")]
    pub least: Option<ByteSize>,
    /// With an orchestrator: the most memory that the server can have [default: any]
    #[arg(long, value_name = "SIZE", requires = "orchestrator")]
    pub most: Option<ByteSize>,
    /// Redis and Valkey: a file with the password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Redis and Valkey: the source of the curve, which is `ages` (idle times of a sample of keys),
    /// `monitor` (MONITOR, in windows) or `both` [default: both]
    #[arg(long, value_name = "WAY", value_parser = learning)]
    pub learn: Option<RedisLearning>,
    /// The time for which the server reports its accesses, again and again; 0 is never [default: 1
    /// for memcached, 0.25 for Redis and Valkey]
    #[arg(long, value_name = "SECS")]
    pub window_secs: Option<f64>,
    /// The time between two such windows; 0: the server always reports [default: by its load, so
    /// that the server is slowed down little]
    #[arg(long, value_name = "SECS")]
    pub pause_secs: Option<f64>,
    /// The address at which the orchestrator reaches the agent; port 0 is any free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0", requires = "orchestrator")]
    pub listen: SocketAddr,
    /// With an orchestrator: that address as the orchestrator sees it [default: --listen]
    #[arg(long, value_name = "HOST:PORT", requires = "orchestrator")]
    pub advertise: Option<String>,
    /// Without an orchestrator: the seconds between two reports
    #[arg(long, value_name = "SECS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400), conflicts_with = "orchestrator")]
    pub every_secs: u64,
    /// Without an orchestrator: ends after this many reports, with an error if none could be made
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "orchestrator")]
    pub reports: Option<u64>,
    /// Without an orchestrator: prints JSON, a line for each report
    #[arg(long, conflicts_with = "orchestrator")]
    pub json: bool,
    /// The credentials
    #[command(flatten)]
    pub access: AccessArguments,
}

fn learning(text: &str) -> Result<RedisLearning, String> {
    match text {
        "ages" => Ok(RedisLearning::Ages),
        "monitor" => Ok(RedisLearning::Monitor),
        "both" => Ok(RedisLearning::Both),
        _ => Err("write ages, monitor or both".to_owned()),
    }
}

impl AgentArguments {
    /// Opens the server.
    ///
    /// # Errors
    /// In words, if the address or a setting is wrong, or the server cannot be led.
    pub fn open(&self) -> Result<Box<dyn Instance>, String> {
        // Somebody who left out the unit may mean MiB, as memcached's -m does.
        if let Some(most) = self.most.filter(|most| *most < ByteSize::mib(1)) {
            return Err(format!(
                "--most: {most} is too little for a server; give a size with a unit, such as 64MiB"
            ));
        }
        if let Some((least, most)) = self.least.zip(self.most).filter(|(least, most)| least > most) {
            return Err(format!("--least: {least} is more than --most, {most}"));
        }
        let target = Target::parse(&self.target).map_err(|error| error.to_string())?;
        if self.learn.is_some() && !target.is_redis() {
            return Err("--learn: memcached has one way to learn a curve; leave the flag out".to_owned());
        }
        let secs = |what: &str, secs: Option<f64>| {
            let time = secs.map(std::time::Duration::try_from_secs_f64).transpose();
            time.map_err(|error| format!("{what}: {error}"))
        };
        let sampling = Sampling {
            window: secs("--window-secs", self.window_secs)?,
            pause: secs("--pause-secs", self.pause_secs)?,
            redis: self.learn.unwrap_or_default(),
            ..Sampling::default()
        };
        let settings = TargetSettings {
            name: self.name.clone(),
            node: self.node.clone(),
            least: self.least.map(ByteSize::as_u64),
            most: self.most.map(ByteSize::as_u64),
            password_file: self.password_file.clone(),
            reads_only: self.orchestrator.is_empty(),
            sampling,
        };
        target.open(settings).map_err(|error| causes(&error))
    }

    /// Starts an agent that orchestrators lead.
    ///
    /// # Errors
    /// In words, as [`Self::open`], or if the address cannot be listened on.
    pub fn start(&self) -> Result<Service, String> {
        if self.advertise.is_none() {
            base::address::check_reach(&self.orchestrator, self.listen)
                .map_err(|error| format!("--listen: orchestrator {error}"))?;
        }
        let access = Access::read(&self.access.files()).map_err(|error| causes(&error))?;
        let config = ServiceConfig {
            listen: self.listen,
            advertise: self.advertise.clone(),
            orchestrators: self.orchestrator.clone(),
        };
        let instance = self.open()?;
        Service::start(config, access, instance, Clock::System).map_err(|error| causes(&error))
    }
}

/// Parts of the present limit, or of the memory in use if there is none, for which a report says
/// what the server would miss.
const PARTS: [f64; 7] = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0];

/// The memory and the misses of a server, and those that it would have with other memory, for a
/// terminal.
pub fn report(look: &Look, before: Option<&Look>) -> String {
    let mut shown = format!("{} {} {}", look.instance.kind, look.instance.version, look.instance.name);
    let (limit, used) = (amounts::memory(&look.limits), amounts::memory(&look.used));
    let (whole, shown_limit) = match limit {
        0 => (used, "none".to_owned()),
        limit => (limit, ByteSize::new(limit).to_string()),
    };
    let _ = writeln!(shown, ": limit {shown_limit}, in use {}", ByteSize::new(used));
    for pool in &look.pools {
        let last = before.and_then(|before| before.pools.iter().find(|last| last.id == pool.id));
        let since = |now: u64, last: Option<u64>| now.saturating_sub(last.unwrap_or(0));
        let reads = since(pool.reads, last.map(|last| last.reads));
        let misses = since(pool.misses, last.map(|last| last.misses));
        if reads > 0 {
            let share = misses as f64 / reads as f64 * 100.0;
            let _ = writeln!(shown, "  missed {share:.2} % of {reads} reads");
        }
        match pool.curve.as_ref().and_then(read) {
            None => {
                shown.push_str("  its curve is not known yet");
                if let Some((reads, enough)) = look.learning {
                    let _ = write!(shown, ": {reads} of {enough} reads were seen");
                }
                shown.push('\n');
            }
            Some(curve) => {
                for part in PARTS {
                    let bytes = (whole as f64 * part) as u64;
                    let missed = curve.miss_ratio(bytes as f64) * 100.0;
                    // Nothing was seen that would need more.
                    let most = if bytes > curve.max_size() { " at most" } else { "" };
                    let _ = writeln!(
                        shown,
                        "  with {:>10} {most} {missed:>6.2} % missed",
                        ByteSize::new(bytes).to_string()
                    );
                }
                let _ = writeln!(shown, "  {}", confidence(pool.curve.as_ref()));
            }
        }
    }
    shown
}

/// The bound on the error of a pool's curve, in words.
fn confidence(curve: Option<&Curve>) -> String {
    match curve {
        Some(curve) if curve.samples > 0.0 && curve.error > 0.0 => format!(
            "learnt from {:.0} reads; off by at most {:.1} points on average, in 95 of 100 cases",
            curve.samples,
            100.0 * curve.error
        ),
        _ => "how far this is off is not known".to_owned(),
    }
}

/// The same as JSON; samples and error of a curve are null if they are not known.
pub fn report_json(look: &Look) -> String {
    let pools = look.pools.iter().map(|pool| {
        let points = pool.curve.as_ref().and_then(|curve| curve::read(curve).ok()).unwrap_or_default();
        let points: Vec<_> = points
            .into_iter()
            .map(|(size, missed)| serde_json::json!({ "bytes": size, "miss_ratio": missed }))
            .collect();
        let known = pool.curve.as_ref().filter(|curve| curve.samples > 0.0);
        serde_json::json!({
            "name": pool.name,
            "reads": pool.reads,
            "misses": pool.misses,
            "curve": points,
            "samples": known.map(|curve| curve.samples),
            "error": known.map(|curve| curve.error).filter(|error| *error > 0.0),
        })
    });
    let json = serde_json::json!({
        "name": look.instance.name,
        "kind": look.instance.kind,
        "version": look.instance.version,
        "limit_bytes": amounts::memory(&look.limits),
        "used_bytes": amounts::memory(&look.used),
        "pools": pools.collect::<Vec<_>>(),
    });
    format!("{json}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::{Instance as Named, PoolReport};

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: AgentArguments,
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused_by_name() {
        use clap::Parser as _;
        let refused = |more: &[&str]| {
            let line = [&["agent", "--target", "memcached://localhost"], more].concat();
            let arguments = Line::try_parse_from(line).map(|line| line.arguments);
            arguments.map_err(|error| error.to_string()).and_then(|read| read.open().map(|_| ())).unwrap_err()
        };
        assert!(refused(&["--learn", "ages"]).contains("--learn: memcached"));
        assert!(refused(&["--listen", "127.0.0.1:1"]).contains("--orchestrator"));
        assert!(refused(&["--advertise", "a:1"]).contains("--orchestrator"));
        assert!(refused(&["--orchestrator", "a:1", "--every-secs", "3"]).contains("--every-secs"));
        assert!(refused(&["--most", "1MiB"]).contains("--orchestrator"));
        let bounds = ["--orchestrator", "a:1", "--most", "1MiB", "--least", "2MiB"];
        assert!(refused(&bounds).contains("--least: 2MiB"));
    }

    #[test]
    fn a_report_says_what_other_memory_would_give() {
        let pool = PoolReport {
            reads: 1_000,
            misses: 400,
            curve: Some(curve::write([(100 << 20, 0.4), (200 << 20, 0.1)])),
            ..PoolReport::default()
        };
        let look = Look {
            instance: Named { name: "a:1".to_owned(), kind: "memcached".to_owned(), ..Named::default() },
            limits: amounts::of_memory(100 << 20),
            used: amounts::of_memory(90 << 20),
            pools: vec![pool],
            ..Look::default()
        };
        let shown = report(&look, None);
        for part in
            ["limit 100MiB", "missed 40.00 % of 1000 reads", "200MiB   10.00 % missed", "150MiB   25.00 %"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let unlimited = Look { limits: Vec::new(), ..look.clone() };
        let shown = report(&unlimited, None);
        assert!(shown.contains("limit none") && shown.contains(" 180MiB"), "{shown}");
        assert!(shown.contains("how far this is off is not known"), "{shown}");
        let mut learning = Look { learning: Some((70, 4_096)), ..look.clone() };
        learning.pools[0].curve = None;
        assert!(report(&learning, None).contains("not known yet: 70 of 4096 reads were seen"));
        learning.pools[0].curve = Some(curve::write([(100 << 20, 0.4)]));
        assert!(report(&learning, None).contains("200MiB  at most  40.00 % missed"));
        let mut sampled = look.clone();
        let curve = sampled.pools[0].curve.as_mut().expect("it has one");
        (curve.samples, curve.error) = (5_000.0, 0.0123);
        let shown = report(&sampled, None);
        assert!(shown.contains("learnt from 5000 reads; off by at most 1.2 points"), "{shown}");
        let json: serde_json::Value = serde_json::from_str(&report_json(&sampled)).expect("JSON");
        assert_eq!(json["pools"][0]["curve"][1]["bytes"], 200 << 20);
        assert_eq!(json["pools"][0]["samples"], 5_000.0);
    }
}
