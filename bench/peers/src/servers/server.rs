//! Servers as processes: started with what suits each best, pinned, and stopped.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustls::{ClientConfig, RootCertStore};

use super::Shape;
use super::stream::{SERVER_NAME, Stream, TLS_RECORD_BYTES, Target};
use super::wire::Wire;

/// Which server, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Kind {
    /// `millpond serve` with this many workers.
    Millpond {
        /// Workers.
        threads: usize,
        /// Time that a worker looks for more work before it sleeps, in microseconds.
        busy_poll_micros: u32,
        /// The protocol.
        wire: Wire,
        /// True with TLS.
        tls: bool,
    },
    /// memcached with this many workers.
    Memcached {
        /// Workers.
        threads: usize,
        /// The aim of the settings.
        set_for: Aim,
        /// True with TLS.
        tls: bool,
    },
    /// Redis with this many threads for sockets.
    Redis {
        /// Threads; 1 is the main thread alone.
        io_threads: usize,
        /// The aim of the settings.
        set_for: Aim,
        /// True with TLS.
        tls: bool,
    },
    /// This program, sending back what comes.
    Echo,
}

/// The aim of a peer's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Aim {
    /// Nothing in particular: its defaults.
    Defaults,
    /// Speed: 2 MiB pages, which Millpond asks for by default.
    Speed,
    /// Many small items: for memcached no CAS tokens and finer size classes.
    Density,
}

impl Kind {
    /// The name in tables.
    pub(crate) fn name(self) -> String {
        let name = match self {
            Self::Millpond { threads, busy_poll_micros, wire, .. } => {
                let wire = if wire == Wire::Redis { "RESP" } else { "memcached" };
                let poll = match busy_poll_micros {
                    0 => String::new(),
                    micros => format!(" poll {micros}"),
                };
                format!("millpond -t {threads} {wire}{poll}")
            }
            Self::Memcached { threads, set_for, .. } => {
                let aim = match set_for {
                    Aim::Defaults => "",
                    Aim::Speed => " -L",
                    Aim::Density => " -C -f 1.05",
                };
                format!("memcached -t {threads}{aim}")
            }
            Self::Redis { io_threads, set_for, .. } => {
                let threads =
                    if io_threads > 1 { format!(" io-threads {io_threads}") } else { String::new() };
                format!("redis{threads}{}", if set_for == Aim::Speed { " 2M pages" } else { "" })
            }
            Self::Echo => "echo".to_owned(),
        };
        if self.tls() { name + " TLS" } else { name }
    }

    /// The protocol of the server.
    pub(crate) fn wire(self) -> Wire {
        match self {
            Self::Millpond { wire, .. } => wire,
            Self::Memcached { .. } => Wire::Memcached,
            Self::Redis { .. } => Wire::Redis,
            Self::Echo => Wire::Echo,
        }
    }

    /// Returns whether the server uses TLS.
    pub(crate) fn tls(self) -> bool {
        match self {
            Self::Millpond { tls, .. } | Self::Memcached { tls, .. } | Self::Redis { tls, .. } => tls,
            Self::Echo => false,
        }
    }

    /// Returns whether the server answers batches of this shape. memcached 1.6.18 forgets the input
    /// that OpenSSL has read ahead, which may happen if a batch needs more than one record of TLS,
    /// and then waits for ever.
    pub(crate) fn takes(self, shape: Shape) -> bool {
        !(self.tls() && matches!(self, Self::Memcached { .. }) && shape.batch_bytes() > TLS_RECORD_BYTES)
    }

    /// Returns whether this is the Millpond that `other` is compared with: that of its protocol,
    /// and for the echo server the one with the shorter requests.
    pub(crate) fn answers_to(self, other: Self) -> bool {
        let wire = if other == Self::Echo { Wire::Memcached } else { other.wire() };
        let compared = !matches!(other, Self::Millpond { .. });
        compared && matches!(self, Self::Millpond { .. }) && self.wire() == wire && self.tls() == other.tls()
    }

    /// The environment variable with the allocator's settings: memcached's tables come from glibc's
    /// allocator, Redis is built with jemalloc.
    fn environment(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Memcached { set_for: Aim::Speed, .. } => Some(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")),
            Self::Redis { set_for: Aim::Speed, .. } => {
                Some(("MALLOC_CONF", "thp:always,metadata_thp:always"))
            }
            _ => None,
        }
    }

    /// Program and arguments. `folder` has `server.pem` and `server.key`, and room for a
    /// configuration.
    fn command(self, millpond: &Path, memory_mib: u64, port: u16, folder: &Path) -> Result<Vec<String>> {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
        let (certificate, key) = (certificate.display(), key.display());
        Ok(match self {
            Self::Millpond { threads, busy_poll_micros, wire, tls } => {
                let file = folder.join("millpond.toml");
                let protocol = if wire == Wire::Redis { "resp" } else { "memcached" };
                let mut text = format!(
                    "[[listener]]\naddress = \"tcp://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\n"
                );
                if tls {
                    text += &format!("tls_certificate = \"{certificate}\"\ntls_key = \"{key}\"\n");
                }
                std::fs::write(&file, text)?;
                let mut command = vec![millpond.display().to_string()];
                command.extend(words(format!(
                    "serve --config {} --memory {memory_mib}MiB --threads {threads} --set admin.enabled=false \
                     --set log.level=warn --set busy_poll_micros={busy_poll_micros}",
                    file.display()
                )));
                command
            }
            // More requests of a connection in a row than the default of 20, and a table that need
            // not grow.
            Self::Memcached { threads, set_for, tls } => words(format!(
                "memcached -u root -l 127.0.0.1 -U 0 -p {port} -m {memory_mib} -t {threads} -R 512 -o hashpower=21{}{}",
                match set_for {
                    Aim::Defaults => "",
                    Aim::Speed => " -L",
                    Aim::Density => " -C -f 1.05",
                },
                if tls {
                    format!(" -Z -o ssl_chain_cert={certificate},ssl_key={key}")
                } else {
                    String::new()
                }
            )),
            Self::Redis { io_threads, set_for, tls } => {
                let listen = if tls {
                    format!(
                        "--port 0 --tls-port {port} --tls-cert-file {certificate} --tls-key-file {key} \
                         --tls-auth-clients no"
                    )
                } else {
                    format!("--port {port}")
                };
                let mut command = words(format!(
                    "redis-server --bind 127.0.0.1 {listen} --maxmemory {memory_mib}mb \
                     --maxmemory-policy allkeys-lru --appendonly no --io-threads {io_threads} \
                     --io-threads-do-reads yes --disable-thp {} --save",
                    if set_for == Aim::Speed { "no" } else { "yes" }
                ));
                command.push(String::new());
                command
            }
            Self::Echo => {
                let program = std::env::current_exe().context("finding this program")?;
                vec![program.display().to_string(), "--echo".to_owned(), port.to_string()]
            }
        })
    }
}

/// A running server.
pub(crate) struct Server {
    kind: Kind,
    process: Child,
    target: Target,
    command: String,
    /// Its certificate and configuration, for as long as it runs.
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server on the processors `cpus` (as `taskset -c` takes them) and waits until it
    /// answers.
    pub(crate) fn start(kind: Kind, millpond: &Path, memory_mib: u64, cpus: &str) -> Result<Self> {
        let port = free_port()?;
        let folder = tempfile::tempdir()?;
        let trust = if kind.tls() { Some(certificate(folder.path())?) } else { None };
        let words = kind.command(millpond, memory_mib, port, folder.path())?;
        let environment = kind.environment();
        let set = environment.map_or_else(String::new, |(name, value)| format!("{name}={value} "));
        let command = format!("{set}taskset -c {cpus} {}", words.join(" "));
        let process = Command::new("taskset")
            .args(["-c", cpus])
            .args(&words)
            .envs(environment)
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting `{command}`"))?;
        let target = Target { address: (Ipv4Addr::LOCALHOST, port).into(), trust };
        let mut server = Self { kind, process, target, command, _folder: folder };
        for _ in 0..200 {
            if server.counters().is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.process.try_wait()? {
                bail!("`{}` ended with {status}", server.command);
            }
            base::thread::sleep(Duration::from_millis(50));
        }
        bail!("`{}` does not answer", server.command)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Reads the server's own statistics.
    fn counters(&self) -> Result<String> {
        let mut stream = Stream::open(&self.target, Duration::from_secs(5))?;
        stream.write_all(self.kind.wire().counters())?;
        stream.flush()?;
        let (mut text, mut part) = (Vec::new(), [0; 16 << 10]);
        while !self.kind.wire().is_whole(&text) {
            match stream.read(&mut part)? {
                0 => bail!("{} closed the connection", self.kind.name()),
                n => text.extend_from_slice(&part[..n]),
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Items it holds and items it evicted.
    pub(crate) fn holdings(&self) -> Result<(u64, u64)> {
        Ok(self.kind.wire().holdings(&self.counters()?))
    }

    /// Stops it from running until [`Self::resume`], so that it takes nothing of the processors
    /// while others are measured.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it run again.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.process), signal)
            .with_context(|| format!("signalling {}", self.kind.name()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes a certificate of its own, P-256, and its key into `folder`; with them a client that
/// trusts it.
fn certificate(folder: &Path) -> Result<Arc<ClientConfig>> {
    let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    std::fs::write(folder.join("server.pem"), made.cert.pem())?;
    std::fs::write(folder.join("server.key"), made.signing_key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// A port that nobody listens on at this moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
