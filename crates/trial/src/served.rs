//! A `millpond serve` of our own, as a process that is measured, attacked, told to change and
//! restarted from outside.
//!
//! Whatever the configuration leaves open is settled when the process first starts: a port 0
//! becomes a port that stays over restarts, so that clients can connect again. Ports lie below
//! those that the kernel gives to clients: or else a client that connects while nobody listens
//! could be given the very port, and be connected to itself. The server tells by the protocol of
//! systemd when it is ready, at the start and after each reload.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::Clock;
use base::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest time in which the process must start, reload its configuration, or exit.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time in which the admin server must answer.
const ADMIN_PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two looks at a process that is waited for.
const LOOK: Duration = Duration::from_millis(20);
/// The range from which free ports are chosen.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
/// Number of the log's last lines that an error quotes.
const QUOTED_LINES: usize = 15;
/// The admin server among the ports; no listener is called so.
const ADMIN: &str = "[admin]";

/// A running server. Dropping it kills it, and it ends if this process does.
#[derive(Debug)]
pub struct Served {
    program: PathBuf,
    /// Configuration, log and the socket on which the server says that it is ready.
    folder: TempDir,
    ready: UnixDatagram,
    ports: BTreeMap<String, u16>,
    addresses: BTreeMap<String, SocketAddr>,
    child: Child,
    http: ureq::Agent,
}

impl Served {
    /// Starts `program serve` with the configuration, and waits until it serves. Each listener has
    /// a name and an address of TCP; where port 0 is written, a free one is taken. The admin server
    /// has one in any case.
    ///
    /// # Errors
    /// If the configuration is refused or the program doesn't become ready; the error
    /// quotes its log.
    pub fn start(program: &Path, config_toml: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("making a folder for the server")?;
        let ready = UnixDatagram::bind(folder.path().join("ready")).context("binding a socket")?;
        ready.set_read_timeout(Some(LOOK))?;
        let mut ports = BTreeMap::new();
        let addresses = write_config(folder.path(), config_toml, &mut ports)?;
        let child = spawn(program, folder.path())?;
        let http = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(ADMIN_PATIENCE))
            .build()
            .new_agent();
        let program = program.to_owned();
        let mut served = Self { program, folder, ready, ports, addresses, child, http };
        served.wait_until_ready()?;
        Ok(served)
    }

    /// The program that runs as the server unless told otherwise: this one.
    ///
    /// # Errors
    /// Where it cannot be found.
    pub fn own_program() -> Result<PathBuf> {
        std::env::current_exe().context("finding this program")
    }

    /// Returns the address of a listener.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn address(&self, listener: &str) -> Result<SocketAddr> {
        self.addresses.get(listener).copied().with_context(|| format!("there is no listener `{listener}`"))
    }

    /// Returns the address of the admin server, as `http://IP:PORT`.
    ///
    /// # Errors
    /// If the configuration has none.
    pub fn admin(&self) -> Result<String> {
        Ok(format!("http://{}", self.address(ADMIN)?))
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process runs.
    pub fn is_up(&mut self) -> bool {
        self.exit_status().is_none()
    }

    /// Returns the status with which the process exited, `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("signalling the server")
    }

    /// Gives the server another configuration by SIGHUP, and waits until it has read it. Its
    /// workers follow a moment later.
    ///
    /// # Errors
    /// Where the server refuses it or is gone.
    pub fn rewrite(&mut self, config_toml: &str) -> Result<()> {
        let logged = self.log()?.len();
        self.addresses = write_config(self.folder.path(), config_toml, &mut self.ports)?;
        self.signal(Signal::HUP)?;
        self.wait_until_ready()?;
        let log = self.log()?;
        match log.get(logged..).unwrap_or_default().lines().find(|line| line.contains("was not reloaded")) {
            Some(line) => bail!("the server refused the configuration: {line}"),
            None => Ok(()),
        }
    }

    /// Ends the process by the signal and starts it again with the same configuration, at the same
    /// addresses. Returns the status with which the old process exited.
    ///
    /// # Errors
    /// If the old process doesn't exit, or the new one doesn't become ready.
    pub fn restart(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.signal(signal)?;
        let until = Clock::System.monotonic_nanos() + PATIENCE.as_nanos() as u64;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Clock::System.monotonic_nanos() > until {
                bail!("the server did not end within {} s{}", PATIENCE.as_secs(), self.quoted_log());
            }
            base::thread::sleep(LOOK);
        };
        self.child = spawn(&self.program, self.folder.path())?;
        self.wait_until_ready()?;
        Ok(status)
    }

    /// Memory of the process that is resident, in bytes: its own, that of files, and what it
    /// shares.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn resident_bytes(&self) -> Result<u64> {
        Ok(self.status("VmRSS")? * 1024)
    }

    /// The part of it that is shared memory, in bytes: the items, where the configuration says
    /// `shared_memory`.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn shared_bytes(&self) -> Result<u64> {
        Ok(self.status("RssShmem")? * 1024)
    }

    /// The part of it that is pages of files, in bytes: the program and its libraries.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn file_bytes(&self) -> Result<u64> {
        Ok(self.status("RssFile")? * 1024)
    }

    /// Its threads.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn threads(&self) -> Result<u64> {
        self.status("Threads")
    }

    /// Its descriptors.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn open_files(&self) -> Result<u64> {
        let folder = format!("/proc/{}/fd", self.pid());
        Ok(std::fs::read_dir(&folder).with_context(|| folder.clone())?.count() as u64)
    }

    /// Reads `/stats.json`.
    ///
    /// # Errors
    /// If the admin server doesn't answer.
    pub fn stats(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.page("/stats.json")?).context("reading /stats.json")
    }

    /// Reads `/decisions.json`.
    ///
    /// # Errors
    /// If the admin server doesn't answer.
    pub fn decisions(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.page("/decisions.json")?).context("reading /decisions.json")
    }

    /// The sum of a metric's lines that have these labels; nothing where there is none.
    ///
    /// # Errors
    /// Where the admin server does not answer.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<Option<f64>> {
        Ok(sum_of(&self.page("/metrics")?, name, labels))
    }

    /// All that the server has logged and printed.
    ///
    /// # Errors
    /// Where the log cannot be read.
    pub fn log(&self) -> Result<String> {
        let bytes = std::fs::read(self.folder.path().join("log")).context("reading the server's log")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn page(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.admin()?);
        let mut answer = self.http.get(&url).call().with_context(|| url.clone())?;
        let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string();
        let text = text.with_context(|| url.clone())?;
        if answer.status().is_success() { Ok(text) } else { Err(anyhow!("{url}: {}", text.trim_end())) }
    }

    fn status(&self, field: &str) -> Result<u64> {
        let file = format!("/proc/{}/status", self.pid());
        let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("{file} has no {field}"))
    }

    /// Waits for the word of the server that it is ready.
    fn wait_until_ready(&mut self) -> Result<()> {
        let until = Clock::System.monotonic_nanos() + PATIENCE.as_nanos() as u64;
        let mut message = [0; 4096];
        loop {
            match self.ready.recv(&mut message) {
                Ok(bytes) if message[..bytes].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") => {
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error).context("waiting for the server"),
            }
            if let Some(status) = self.exit_status() {
                bail!("the server ended with {status}{}", self.quoted_log());
            }
            if Clock::System.monotonic_nanos() > until {
                bail!("the server was not ready within {} s{}", PATIENCE.as_secs(), self.quoted_log());
            }
        }
    }

    /// The last lines that the server has logged, to be put behind an error; empty if there are
    /// none.
    pub fn quoted_log(&self) -> String {
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(QUOTED_LINES)..).unwrap_or_default();
        if tail.is_empty() { String::new() } else { format!("; its log ends:\n{}", tail.join("\n")) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the process; what it says goes to the end of the log.
fn spawn(program: &Path, folder: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(folder.join("log")).context("opening a log")?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(folder.join("millpond.toml"));
    // `Child` holds the other end, so that no server outlives this process, however it ends.
    command.arg("--until-input-ends").stdin(Stdio::piped());
    // Nothing that was said to this process is meant for the server.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("MILLPOND_") || text.starts_with("LISTEN_") || text.starts_with("WATCHDOG_") {
            command.env_remove(&name);
        }
    }
    command.env("NOTIFY_SOCKET", folder.join("ready"));
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("starting {}", program.display()))
}

/// Writes the configuration with ports for those that it leaves open, and returns who listens
/// where.
fn write_config(
    folder: &Path,
    config_toml: &str,
    ports: &mut BTreeMap<String, u16>,
) -> Result<BTreeMap<String, SocketAddr>> {
    let mut config: toml::Table = config_toml.parse().context("the server's configuration")?;
    let mut addresses = BTreeMap::new();
    let listeners = config.get_mut("listener").and_then(toml::Value::as_array_mut);
    for listener in listeners.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
        let name = listener.get("name").and_then(toml::Value::as_str).context("a listener has no name")?;
        let name = name.to_owned();
        let address = settle(listener, &name, ports)?;
        addresses.insert(name, address);
    }
    let admin = config.entry("admin").or_insert_with(|| toml::Value::Table(toml::Table::new()));
    let admin = admin.as_table_mut().context("`admin` is not a table")?;
    if admin.get("enabled").and_then(toml::Value::as_bool) != Some(false) {
        addresses.insert(ADMIN.to_owned(), settle(admin, ADMIN, ports)?);
    }
    std::fs::write(folder.join("millpond.toml"), config.to_string()).context("writing a configuration")?;
    Ok(addresses)
}

/// Gives the table's `address` a port, where it has none: the one that it had before, or a free
/// one.
fn settle(table: &mut toml::Table, name: &str, ports: &mut BTreeMap<String, u16>) -> Result<SocketAddr> {
    let text = table.get("address").and_then(toml::Value::as_str).unwrap_or("tcp://127.0.0.1:0");
    let parsed = text.strip_prefix("tcp://").and_then(|address| address.parse::<SocketAddr>().ok());
    let mut address = parsed.with_context(|| format!("{name}: `{text}` is not a TCP address"))?;
    if address.port() == 0 {
        if !ports.contains_key(name) {
            let port = free_port_beside(ports)?;
            ports.insert(name.to_owned(), port);
        }
        address.set_port(ports.get(name).copied().unwrap_or_default());
    }
    table.insert("address".to_owned(), toml::Value::String(format!("tcp://{address}")));
    Ok(address)
}

/// Returns a port of the loopback interface on which nobody listens at this moment, below those
/// that the kernel gives to clients.
///
/// # Errors
/// If none is found.
pub fn free_port() -> Result<u16> {
    free_port_beside(&BTreeMap::new())
}

fn free_port_beside(taken: &BTreeMap<String, u16>) -> Result<u16> {
    let mut rng = base::rng::seeded(base::rng::entropy_seed());
    let mut tries = (0..1_000).map(|_| PORTS.start + (rng.next_u64() % PORTS.len() as u64) as u16);
    let is_free = |port: &u16| {
        !taken.values().any(|other| other == port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
    };
    tries.find(is_free).context("no port is free")
}

/// The sum of a metric's lines in OpenMetrics text that have these labels.
fn sum_of(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut sum = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        let Some((block, value)) = rest.rsplit_once(' ') else { continue };
        let block = match block.strip_prefix('{') {
            Some(block) => block.strip_suffix('}').unwrap_or(block),
            // A metric whose name is longer, or one without labels.
            None if !block.is_empty() => continue,
            None => "",
        };
        let has = |(label, value): &(&str, &str)| {
            let wanted = format!("{label}=\"{value}\"");
            block.split("\",").any(|pair| pair.trim_end_matches('"') == wanted.trim_end_matches('"'))
        };
        if labels.iter().all(has)
            && let Ok(value) = value.parse::<f64>()
        {
            sum = Some(sum.unwrap_or(0.0) + value);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_once_and_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "memory = \"32MiB\"\n[[listener]]\nname = \"a\"\naddress = \"tcp://127.0.0.1:0\"\n\
                      [[listener]]\nname = \"b\"\n[[listener]]\nname = \"c\"\naddress = \"tcp://[::1]:7\"";
        let mut ports = BTreeMap::new();
        let first = write_config(folder.path(), config, &mut ports).expect("a configuration");
        let again = write_config(folder.path(), config, &mut ports).expect("a configuration");
        assert_eq!(first, again);
        assert_eq!(first["c"], "[::1]:7".parse().expect("an address"));
        let mut given: Vec<u16> = ["a", "b", ADMIN].map(|name| first[name].port()).into();
        assert!(given.iter().all(|port| PORTS.contains(port)), "{given:?}");
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 3);
        let written = std::fs::read_to_string(folder.path().join("millpond.toml")).expect("a file");
        assert!(written.contains(&format!("tcp://{}", first["a"])), "{written}");
        for wrong in [
            "[[listener]]\naddress = \"tcp://127.0.0.1:0\"",
            "[[listener]]\nname = \"u\"\naddress = \"unix:///x\"",
        ] {
            assert!(write_config(folder.path(), wrong, &mut ports).is_err(), "{wrong}");
        }
    }

    #[test]
    fn metrics_are_summed_by_their_labels() {
        let text = "# HELP m_bytes a m\nm_bytes{part=\"a\",pool=\"x\"} 3\nm_bytes{part=\"b\",pool=\"x\"} 4\n\
                    m_bytes{part=\"b\",pool=\"y\"} 0.5\nm_bytes_more{part=\"b\"} 100\nplain 7\n# EOF\n";
        for (name, labels, sum) in [
            ("m_bytes", &[][..], Some(7.5)),
            ("m_bytes", &[("pool", "x")], Some(7.0)),
            ("m_bytes", &[("part", "b")], Some(4.5)),
            ("m_bytes", &[("part", "b"), ("pool", "y")], Some(0.5)),
            ("m_bytes", &[("part", "c")], None),
            ("m_bytes_more", &[], Some(100.0)),
            ("plain", &[], Some(7.0)),
            ("m", &[], None),
        ] {
            assert_eq!(sum_of(text, name, labels), sum, "{name} {labels:?}");
        }
    }
}
