//! Servers as processes: started with what suits each best, pinned, and stopped.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::wire::Wire;

/// Which server, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Kind {
    /// `millpond serve` with this many workers.
    Millpond {
        /// Workers.
        threads: usize,
        /// For so many microseconds a worker looks for more work before it sleeps.
        busy_poll_micros: u32,
    },
    /// memcached with this many workers.
    Memcached {
        /// Workers.
        threads: usize,
        /// What it is set for.
        set_for: Aim,
    },
    /// Redis with this many threads for sockets.
    Redis {
        /// Threads; 1 is the main thread alone.
        io_threads: usize,
        /// What it is set for.
        set_for: Aim,
    },
}

/// What a peer is set for.
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
        match self {
            Self::Millpond { threads, busy_poll_micros: 0 } => format!("millpond -t {threads}"),
            Self::Millpond { threads, busy_poll_micros } => {
                format!("millpond -t {threads} poll {busy_poll_micros}")
            }
            Self::Memcached { threads, set_for } => {
                let aim = match set_for {
                    Aim::Defaults => "",
                    Aim::Speed => " -L",
                    Aim::Density => " -C -f 1.05",
                };
                format!("memcached -t {threads}{aim}")
            }
            Self::Redis { io_threads, set_for } => {
                let threads =
                    if io_threads > 1 { format!(" io-threads {io_threads}") } else { String::new() };
                format!("redis{threads}{}", if set_for == Aim::Speed { " 2M pages" } else { "" })
            }
        }
    }

    /// What it speaks.
    pub(crate) fn wire(self) -> Wire {
        match self {
            Self::Millpond { .. } | Self::Memcached { .. } => Wire::Memcached,
            Self::Redis { .. } => Wire::Redis,
        }
    }

    /// What its allocator is told: memcached's tables come from glibc's, Redis is built with jemalloc.
    fn environment(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Memcached { set_for: Aim::Speed, .. } => Some(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")),
            Self::Redis { set_for: Aim::Speed, .. } => {
                Some(("MALLOC_CONF", "thp:always,metadata_thp:always"))
            }
            _ => None,
        }
    }

    /// Program and arguments.
    fn command(self, millpond: &Path, memory_mib: u64, port: u16) -> Vec<String> {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        match self {
            Self::Millpond { threads, busy_poll_micros } => {
                let mut command = vec![millpond.display().to_string()];
                command.extend(words(format!(
                    "serve --memory {memory_mib}MiB --threads {threads} --listen tcp://127.0.0.1:{port} \
                     --set admin.enabled=false --set log.level=warn --set busy_poll_micros={busy_poll_micros}"
                )));
                command
            }
            // More requests of a connection in a row than the default of 20, and a table that need not grow.
            Self::Memcached { threads, set_for } => words(format!(
                "memcached -u root -l 127.0.0.1 -U 0 -p {port} -m {memory_mib} -t {threads} -R 512 -o hashpower=21{}",
                match set_for {
                    Aim::Defaults => "",
                    Aim::Speed => " -L",
                    Aim::Density => " -C -f 1.05",
                }
            )),
            Self::Redis { io_threads, set_for } => {
                let mut command = words(format!(
                    "redis-server --bind 127.0.0.1 --port {port} --maxmemory {memory_mib}mb \
                     --maxmemory-policy allkeys-lru --appendonly no --io-threads {io_threads} \
                     --io-threads-do-reads yes --disable-thp {} --save",
                    if set_for == Aim::Speed { "no" } else { "yes" }
                ));
                command.push(String::new());
                command
            }
        }
    }
}

/// A running server.
pub(crate) struct Server {
    kind: Kind,
    process: Child,
    address: SocketAddr,
    command: String,
}

impl Server {
    /// Starts a server on the processors `cpus` (as `taskset -c` takes them) and waits until it answers.
    pub(crate) fn start(kind: Kind, millpond: &Path, memory_mib: u64, cpus: &str) -> Result<Self> {
        let port = free_port()?;
        let words = kind.command(millpond, memory_mib, port);
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
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Self { kind, process, address, command };
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

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// What it tells about itself.
    fn counters(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(self.kind.wire().counters())?;
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

    /// Stops it from running until [`Self::resume`], so that it takes nothing of the processors while others are
    /// measured.
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

/// A port that nobody listens on at this moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
