//! Servers that end with their tests, clients, and loads whose curves are known.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::Clock;
use base::rng::{RngExt, SeededRng, seeded};
use control::amounts;
use curve::{MissRatioCurve, Point, Unit, che};
use millpond_agent::targets::{Sampling, Target, TargetSettings};
use millpond_agent::{Instance, Look};

pub(crate) const MIB: u64 = 1 << 20;

/// A server that ends with the test.
pub(crate) struct Server {
    binary: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
    pub(crate) address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Server {
    /// Starts `program`, if there is one, with `arguments` and a free port.
    pub(crate) fn start(program: &str, variable: &str, arguments: &[&str]) -> Option<Self> {
        let binary = match std::env::var_os(variable) {
            Some(path) => PathBuf::from(path),
            None => std::env::split_paths(&std::env::var_os("PATH")?)
                .map(|folder| folder.join(program))
                .find(|binary| binary.is_file())?,
        };
        for _ in 0..5 {
            // The port may be taken between this and the server's own bind: then another is tried.
            let listener = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let mut server =
                Self { binary: binary.clone(), arguments, child: None, address: listener.expect("a port") };
            if server.run() {
                return Some(server);
            }
        }
        panic!("{} does not listen", binary.display());
    }

    /// Starts it, again if need be, and returns whether it listens.
    pub(crate) fn run(&mut self) -> bool {
        self.stop();
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments).arg(self.address.port().to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let is_up = poll(Duration::from_secs(10), || {
            let has_ended = child.try_wait().expect("a child").is_some();
            (has_ended || TcpStream::connect(self.address).is_ok()).then_some(!has_ended)
        });
        self.child = Some(child);
        is_up == Some(true)
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let child = self.child.as_ref().expect("a server");
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("a signal");
        // On a busy machine a thread may yet answer a request before it stops.
        if signal == rustix::process::Signal::STOP {
            let tasks = format!("/proc/{}/task", child.id());
            let has_stopped = || {
                std::fs::read_dir(&tasks).expect("a process").flatten().all(|task| {
                    let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
                })
            };
            poll(Duration::from_secs(10), || has_stopped().then_some(())).expect("all threads stop");
        }
    }
}

/// Tries until there is an answer, or time is up.
pub(crate) fn poll<T>(patience: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Clock::System.monotonic_nanos() + patience.as_nanos() as u64;
    loop {
        if let Some(answer) = attempt() {
            return Some(answer);
        }
        if Clock::System.monotonic_nanos() > until {
            return None;
        }
        base::thread::sleep(Duration::from_millis(10));
    }
}

/// Learning without pauses.
pub(crate) fn always() -> Sampling {
    Sampling { pause: Some(Duration::ZERO), ages_every: Duration::from_millis(500), ..Sampling::default() }
}

pub(crate) fn open(scheme: &str, address: SocketAddr, settings: TargetSettings) -> Box<dyn Instance> {
    Target::parse(&format!("{scheme}://{address}")).expect("an address").open(settings).expect("a target")
}

/// A look's only pool, its limit and what is in use.
pub(crate) fn holding(look: &Look) -> (u64, u64) {
    assert_eq!(look.pools.len(), 1);
    (amounts::memory(&look.limits), amounts::memory(&look.used))
}

/// An error with its causes, and the seconds that it took.
pub(crate) fn failure(instance: &mut dyn Instance) -> (String, f64) {
    let begun = Clock::System.monotonic_nanos();
    let error = instance.look().expect_err("an error");
    let secs = (Clock::System.monotonic_nanos() - begun) as f64 / 1e9;
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    (format!("{error}: {cause}"), secs)
}

/// The curve of a look's pool.
pub(crate) fn curve_of(look: &Look) -> Option<(MissRatioCurve, f64)> {
    let told = look.pools[0].curve.as_ref()?;
    let points = control::curve::read(told).expect("a curve").into_iter();
    let points = points.map(|(size, miss_ratio)| Point { size, miss_ratio });
    Some((MissRatioCurve::new(Unit::Bytes, points).expect("a curve"), told.samples))
}

/// The mean distance of a curve from LRU's under Zipf's law, at sizes up to `most`.
pub(crate) fn mean_error(learnt: &MissRatioCurve, keys: u64, exponent: f64, item: f64, most: f64) -> f64 {
    let keys = che::zipf(keys, exponent, item);
    let sizes = (1..=40).map(|i| most * f64::from(i) / 40.0);
    sizes.map(|size| (learnt.miss_ratio(size) - che::miss_ratio(&keys, size)).abs()).sum::<f64>() / 40.0
}

/// Ranks under Zipf's law.
pub(crate) struct Zipf {
    sums: Vec<f64>,
    rng: SeededRng,
}

impl Zipf {
    pub(crate) fn new(keys: u64, exponent: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let sums = che::zipf(keys, exponent, 1.0).into_iter().map(|key| {
            sum += key.weight;
            sum
        });
        Self { sums: sums.collect(), rng: seeded(seed) }
    }

    pub(crate) fn draw(&mut self) -> usize {
        let total = self.sums.last().copied().expect("a key");
        let drawn = self.rng.random::<f64>() * total;
        self.sums.partition_point(|&sum| sum <= drawn).min(self.sums.len() - 1)
    }
}

/// A client of either protocol.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("a server");
        socket.set_nodelay(true).expect("an option");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        Self { reader: BufReader::with_capacity(1 << 16, socket) }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.reader.get_mut().write_all(text.as_bytes()).expect("a server");
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, text: &str) -> String {
        self.send(&format!("{text}\r\n"));
        self.line()
    }

    pub(crate) fn skip(&mut self, bytes: usize) {
        self.reader.read_exact(&mut vec![0; bytes]).expect("an answer");
    }
}
