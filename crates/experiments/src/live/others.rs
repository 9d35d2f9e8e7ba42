//! Three unchanged memcacheds and three unchanged Redis servers, which an orchestrator leads by
//! agents beside them (L5). First with equal memory, then with the orchestrator.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base::ByteSize;
use trial::lookaside::{Keys, Load, Tenant, Wire};
use trial::served::{Served, free_port};

use super::fleet::{as_decisions, orchestrator, watch_led};
use super::tenants::{EQUAL_SECS, MOVED_SECS, Scene, replay, tell, watch};
use crate::report::{Criterion, Report};
use crate::{Context, Experiment, OURS};

/// Servers of others that replay traces.
pub(super) const L5: Experiment = Experiment {
    name: "L5",
    paper: OURS,
    figure: "live",
    title: "three memcacheds and three Redis servers share a memory under agents",
    run: |context| {
        let mut report = Report::new();
        if let Err(error) = measure(context, &SCENE, &mut report) {
            report.check(Criterion::holds("it runs", false, format!("{error:#}"), "no error"));
        }
        report
    },
};

/// A fifteenth of what all traces together ask for. The first three are memcacheds.
const SCENE: Scene = Scene {
    names: &["twlike_c18", "twlike_c34", "twlike_c19", "twlike_c8", "twlike_c40", "twlike_c53"],
    keys: trace,
    memory: "192MiB",
    value_bytes: 4_000,
    backend_per_sec: 300.0,
    promised: 0.0,
    least_gain: None,
    least_part: 1.0 / 16.0,
};

fn trace(context: &Context, tenant: usize) -> Result<Keys> {
    replay(context, SCENE.names[tenant])
}

fn wire(tenant: usize) -> Wire {
    if tenant < 3 { Wire::Memcached } else { Wire::Redis }
}

/// The most that servers can have together, of the memory: Redis exceeds its limit by itself for a
/// moment.
const MOST_HELD: f64 = 1.01;

/// A process of somebody else. Dropping it kills it.
struct Process(Child);

impl Process {
    fn start(program: &std::ffi::OsStr, arguments: &[String]) -> Result<Self> {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}: is its package installed?", program.display()))?;
        Ok(Self(child))
    }

    /// A server of others, with a limit.
    fn server(wire: Wire, port: u16, memory: ByteSize) -> Result<Self> {
        let (port, user) = (port.to_string(), "nobody".to_owned());
        let mib = (memory.as_u64() >> 20).to_string();
        let arguments = match wire {
            Wire::Memcached => {
                ["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", &user, "-p", &port, "-m", &mib]
                    .map(str::to_owned)
                    .to_vec()
            }
            Wire::Redis => {
                let bytes = memory.as_u64().to_string();
                let policy = ["--maxmemory-policy", "allkeys-lru", "--maxmemory", &bytes];
                let rest = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
                rest.into_iter().chain(policy).map(str::to_owned).collect()
            }
        };
        Self::start(if wire == Wire::Memcached { "memcached" } else { "redis-server" }.as_ref(), &arguments)
    }

    fn agent(wire: Wire, name: &str, port: u16, orchestrator: u16) -> Result<Self> {
        let scheme = if wire == Wire::Memcached { "memcached" } else { "redis" };
        let target = format!("{scheme}://127.0.0.1:{port}");
        let orchestrator = format!("127.0.0.1:{orchestrator}");
        let arguments =
            ["agent", "--target", &target, "--orchestrator", &orchestrator, "--name", name, "--node", "here"];
        Self::start(Served::own_program()?.as_os_str(), &arguments.map(str::to_owned))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until somebody listens.
fn wait_for(address: SocketAddr) -> Result<()> {
    for _ in 0..200 {
        if std::net::TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        base::thread::sleep(Duration::from_millis(50));
    }
    bail!("nobody listens at {address}")
}

fn measure(context: &Context, scene: &Scene, report: &mut Report) -> Result<()> {
    let memory: ByteSize = scene.memory.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let each = ByteSize::new(memory.as_u64() / scene.names.len() as u64);
    let (mut servers, mut tenants, mut ports) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in scene.names.iter().enumerate() {
        let (port, wire) = (free_port()?, wire(number));
        servers.push(Process::server(wire, port, each)?);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        wait_for(address)?;
        let (keys, backend_per_sec) = ((scene.keys)(context, number)?, scene.backend_per_sec);
        let tenant = Tenant { name, keys, value_bytes: scene.value_bytes, backend_per_sec, wire };
        tenants.push((tenant, address));
        ports.push(port);
    }
    let load = Load::start(tenants)?;
    let all = f64::from(EQUAL_SECS + MOVED_SECS);
    let equal = watch(&load, EQUAL_SECS, |second| context.progress(f64::from(second) / all))?;
    let port = free_port()?;
    let orchestrator = orchestrator(port, memory, scene)?;
    let agents = scene.names.iter().zip(&ports).enumerate();
    let agents: Vec<Process> = agents
        .map(|(number, (name, &at))| Process::agent(wire(number), name, at, port))
        .collect::<Result<_>>()?;
    let (moved, fleet) = watch_led(context, &load, &orchestrator, (memory, MOST_HELD), report)?;
    load.stop()?;
    drop((agents, servers));
    tell(report, scene, (&equal, &moved), &as_decisions(&fleet, memory));
    Ok(())
}
