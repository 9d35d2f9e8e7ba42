//! Tenants that read through the cache from a backend of limited rate.
//!
//! Each is a client of one connection that asks for a batch of keys, fetches those that it misses
//! from its backend, stores them, and goes on: as fast as the backend lets it, as HOLPACA's
//! benchmark does.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base::Clock;
use limit::TokenBucket;

/// Keys of a batch.
const BATCH: usize = 64;
/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The keys that a tenant asks for, one after the other.
pub type Keys = Box<dyn FnMut() -> u64 + Send>;

/// A tenant.
pub struct Tenant {
    /// The name, which is that of its listener too.
    pub name: &'static str,
    /// Its keys.
    pub keys: Keys,
    /// Size of its values, in bytes.
    pub value_bytes: usize,
    /// Fetches per second that its backend carries.
    pub backend_per_sec: f64,
    /// The protocol of its server.
    pub wire: Wire,
}

/// A protocol of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// memcached's meta commands.
    Memcached,
    /// RESP, as of Redis.
    Redis,
}

impl Wire {
    fn write_get(self, key: u64, request: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Memcached => write!(request, "mg {key} v\r\n"),
            Self::Redis => {
                let key = key.to_string();
                write!(request, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())
            }
        }
    }

    fn write_set(self, key: u64, value: &[u8], request: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Memcached => write!(request, "ms {key} {}\r\n", value.len())?,
            Self::Redis => {
                let key = key.to_string();
                let (of_key, of_value) = (key.len(), value.len());
                write!(request, "*3\r\n$3\r\nSET\r\n${of_key}\r\n{key}\r\n${of_value}\r\n")?;
            }
        }
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// The bytes of the value that follows this line; `None`: the key is missed.
    fn found(self, line: &str) -> Result<Option<usize>> {
        let (miss, hit) = match self {
            Self::Memcached => ("EN", "VA "),
            Self::Redis => ("$-1", "$"),
        };
        if line == miss {
            return Ok(None);
        }
        let bytes = line.strip_prefix(hit).with_context(|| format!("the server answered `{line}`"))?;
        Ok(Some(bytes.parse().context("the size of a value")?))
    }

    /// The answer to a value that is stored.
    fn stored(self) -> &'static str {
        match self {
            Self::Memcached => "HD",
            Self::Redis => "+OK",
        }
    }
}

/// Reads and misses of a tenant so far.
#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    misses: AtomicU64,
}

impl Counts {
    fn now(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

/// The running load; ends when it is dropped.
pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Vec<Arc<Counts>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// Starts a thread for each tenant, whose server listens at its address.
    ///
    /// # Errors
    /// If a server cannot be reached, or the system refuses a thread.
    pub fn start(tenants: Vec<(Tenant, SocketAddr)>) -> Result<Self> {
        let mut load = Self { stop: Arc::default(), counts: Vec::new(), threads: Vec::new() };
        for (tenant, address) in tenants {
            let stream = TcpStream::connect(address).context("connecting to the server")?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let (counts, stop) = (Arc::new(Counts::default()), Arc::clone(&load.stop));
            load.counts.push(Arc::clone(&counts));
            let drive = move || Client::new(tenant, stream, counts)?.run(&stop);
            load.threads.push(base::thread::spawn("tenant", drive)?);
        }
        Ok(load)
    }

    /// Reads and misses of each tenant so far.
    ///
    /// # Errors
    /// If a tenant has ended, which none does by itself but for an error.
    pub fn counts(&self) -> Result<Vec<(u64, u64)>> {
        if self.threads.iter().any(JoinHandle::is_finished) {
            bail!("a tenant's connection has ended");
        }
        Ok(self.counts.iter().map(|counts| counts.now()).collect())
    }

    /// Ends the load.
    ///
    /// # Errors
    /// The first error of a tenant.
    pub fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().unwrap_or_else(|_| bail!("a tenant has panicked"))?;
        }
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A tenant's client.
struct Client {
    tenant: Tenant,
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    counts: Arc<Counts>,
    value: Vec<u8>,
}

impl Client {
    fn new(tenant: Tenant, stream: TcpStream, counts: Arc<Counts>) -> Result<Self> {
        let answers = BufReader::with_capacity(1 << 17, stream.try_clone()?);
        let value = vec![b'v'; tenant.value_bytes];
        Ok(Self { tenant, stream, answers, counts, value })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<()> {
        let mut backend = TokenBucket::new(self.tenant.backend_per_sec, TokenBucket::BURST_SECS);
        while !stop.load(Ordering::Relaxed) {
            let keys: Vec<u64> = (0..BATCH).map(|_| (self.tenant.keys)()).collect();
            let mut missing = self.get(&keys)?;
            self.counts.reads.fetch_add(keys.len() as u64, Ordering::Relaxed);
            self.counts.misses.fetch_add(missing.len() as u64, Ordering::Relaxed);
            // A key that the batch has twice is fetched once.
            missing.sort_unstable();
            missing.dedup();
            let now = Clock::System.monotonic_nanos();
            backend.take(now, missing.len() as f64);
            let fetched = backend.ready_at(now, 1.0).unwrap_or(now);
            base::thread::sleep(Duration::from_nanos(fetched.saturating_sub(now)));
            self.set(&missing)?;
        }
        Ok(())
    }

    /// Asks for keys, and returns those that are missed.
    fn get(&mut self, keys: &[u64]) -> Result<Vec<u64>> {
        let mut request = Vec::with_capacity(keys.len() * 24);
        let wire = self.tenant.wire;
        keys.iter().try_for_each(|&key| wire.write_get(key, &mut request))?;
        self.stream.write_all(&request)?;
        let (mut missing, mut line, mut data) = (Vec::new(), String::new(), Vec::new());
        for key in keys {
            line.clear();
            self.answers.read_line(&mut line)?;
            let found = wire.found(line.trim_end()).with_context(|| self.tenant.name.to_owned())?;
            let Some(bytes) = found else {
                missing.push(*key);
                continue;
            };
            data.resize(bytes + 2, 0);
            self.answers.read_exact(&mut data)?;
        }
        Ok(missing)
    }

    fn set(&mut self, keys: &[u64]) -> Result<()> {
        let mut request = Vec::with_capacity(keys.len() * (self.value.len() + 32));
        let wire = self.tenant.wire;
        keys.iter().try_for_each(|&key| wire.write_set(key, &self.value, &mut request))?;
        self.stream.write_all(&request)?;
        let mut line = String::new();
        for _ in keys {
            line.clear();
            self.answers.read_line(&mut line)?;
            if line.trim_end() != wire.stored() {
                bail!("{}: the server answered `{}`", self.tenant.name, line.trim_end());
            }
        }
        Ok(())
    }
}
