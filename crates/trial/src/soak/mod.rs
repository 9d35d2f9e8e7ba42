//! A long run of a server under mixed load while everything about it changes:
//! `millpond bench soak`.
//!
//! Clients of every protocol read and write the keys of several tenants at a modest rate. Meanwhile
//! tenants come and go, limits and settings move, certificates are replaced, and the server is
//! restarted and killed over and over, with its items in shared memory. Every answer is told to the
//! histories of `bench check`, which go on over restarts: a call whose connection ended has been
//! carried out or not, and nothing older than what was seen may come back. `docs/soak.md` is its
//! page.
//!
//! - `clients`: protocols, tenants and work. `calls`, `copies`, `vanishing`: what they do. `meta`,
//!   `binary`, `collections`: what they speak beside what `check` knows already.
//! - `tenants`: their keys and histories. `conditions`: what explains an end of a connection.
//! - `settings`, `certificates`: the server's configuration. `control`: what is done to it.
//! - `samples`: whether it grows. `tally`, `report`: what is said about it.

mod binary;
mod calls;
mod certificates;
mod clients;
mod collections;
mod conditions;
mod control;
mod copies;
mod meta;
mod report;
mod samples;
mod settings;
mod tally;
mod tenants;
#[cfg(test)]
mod tests;
mod vanishing;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::{ByteSize, Clock};
use parking_lot::Mutex;
use rustix::process::Signal;
use workload::{Mix, Popularity, Sizes, Workload, WorkloadSpec};

pub use control::EventKind;
pub use report::SoakReport;
pub use samples::{Flatness, Sample};
pub use tally::ErrorKind;

use crate::check::history::Found;
use crate::check::plant::Plant;
use crate::check::{PlantKind, Violation};
use crate::served::Served;
use calls::{Calling, Parts};
use certificates::Authority;
use clients::{CLIENTS, Client, Network, Work};
use conditions::{Conditions, Standing};
use control::Control;
use copies::Copying;
use report::{clock, mib};
use settings::{MEMCACHED, REDIS, Settings, TLS};
use tally::Tally;
use tenants::{Book, Tenant};
use vanishing::Vanishing;

/// The least memory: less leaves each tenant's size classes no slabs.
pub const LEAST_MEMORY: ByteSize = ByteSize::mib(128);
/// Keys of each tenant for each MiB of memory: more than it can hold.
const KEYS_PER_MIB: u64 = 200;
/// Interval between two turns of a vanishing client, as a multiple of that of others.
const VANISHING_TURNS: u32 = 20;
/// Between looks at what is due.
const LOOK: Duration = Duration::from_millis(20);
const MINUTE: f64 = 60.0;
/// Longest time for which the server may keep descriptors of clients that have disconnected.
const PATIENCE: Duration = Duration::from_secs(20);
/// Descriptors that may come beside those that were there at first.
const SPARE_FILES: u64 = 4;

/// Options of a soak.
#[derive(Clone, Debug)]
pub struct SoakOptions {
    /// The server's program.
    pub program: PathBuf,
    /// For how long.
    pub duration: Duration,
    /// Requests a second, all clients together; some ask for several keys.
    pub rate: f64,
    /// Memory of the server; at least [`LEAST_MEMORY`].
    pub memory: ByteSize,
    /// Names the run's random numbers; what comes first it does not name.
    pub seed: u64,
    /// Pause between two events.
    pub every: Duration,
    /// Lifetime of each process of the server.
    pub life: Duration,
    /// The events that may be made; empty for all.
    pub only: Vec<EventKind>,
    /// A fault to plant between clients and histories, and in how many of the calls at which it can
    /// strike it does so once.
    pub plant: Option<(PlantKind, u64)>,
}

/// State that all threads of a soak share.
struct Scene {
    seed: u64,
    keys: u64,
    books: [Book; 3],
    workload: Arc<Workload>,
    conditions: Conditions,
    tally: Mutex<Tally>,
    network: Network,
    plant: Option<Arc<Plant>>,
    /// Set when the run is to end early.
    stop: Arc<AtomicBool>,
}

/// Runs a soak, until its time is over or `stop` is set. What was found is in the report.
///
/// # Errors
/// Where the server does not start, or cannot be started again; or a client panics.
pub fn soak(options: &SoakOptions, stop: &Arc<AtomicBool>) -> Result<SoakReport> {
    if options.memory < LEAST_MEMORY {
        bail!("a soak takes at least {LEAST_MEMORY} of memory");
    }
    if !options.rate.is_finite() || options.rate <= 0.0 {
        bail!("give a rate above 0");
    }
    let folder = folder()?;
    let authority = Authority::new(folder.path())?;
    let settings =
        Settings::new(options.memory, folder.path().join("cache"), authority.certificate(), authority.key());
    let served = Served::start(&options.program, &settings.text())?;
    let network = Network {
        memcached: served.address(MEMCACHED)?,
        redis: served.address(REDIS)?,
        tls: served.address(TLS)?,
        trust: authority.client(),
    };
    let scene = Arc::new(Scene::new(options, network, Arc::clone(stop))?);
    let control = Control::new(served, Arc::clone(&scene), settings, authority, &options.only);
    Run::new(options, scene, control)?.drive()
}

/// A folder in memory, where there is one.
fn folder() -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("millpond-soak-");
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).context("making a folder")
}

impl Scene {
    fn new(options: &SoakOptions, network: Network, stop: Arc<AtomicBool>) -> Result<Self> {
        let keys = (options.memory.as_u64() >> 20) * KEYS_PER_MIB;
        let sizes = vec![(32, 512, 0.6), (512, 4 << 10, 0.3), (4 << 10, 32 << 10, 0.1)];
        let spec = WorkloadSpec {
            keys,
            key_size: Sizes::fixed(8),
            value_size: Sizes::weighted(sizes).context("sizes")?,
            popularity: Popularity::Zipf { alpha: 0.9 },
            mix: Mix { get: 60.0, set: 28.0, delete: 6.0, touch: 6.0, ..Mix::default() },
            look_aside: false,
            ttl_secs: 0,
        };
        Ok(Self {
            seed: options.seed,
            keys,
            books: Tenant::ALL.map(|tenant| Book::new(tenant, keys)),
            workload: Arc::new(Workload::new(&spec, options.seed)?),
            conditions: Conditions::default(),
            tally: Mutex::default(),
            network,
            plant: options.plant.map(|(kind, every)| Arc::new(Plant::new(kind, every))),
            stop,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn book(&self, client: &Client) -> &Book {
        &self.books[client.tenant as usize]
    }

    /// Counts a call of a client that failed, as expected if a disturbance since `since` explains
    /// it.
    fn failed(&self, client: &Client, since: Standing, error: &anyhow::Error) {
        let lost = error.chain().any(|cause| cause.is::<io::Error>());
        let why = self.conditions.explain(since, client.tenant);
        // A restart ends connections, and explains no other answers. The removal of a tenant
        // explains both.
        let why = why.filter(|why| lost || *why != "restart");
        // Ctrl-C at a terminal ends the server as well.
        let why = why.or(self.is_stopped().then_some("interrupted"));
        let kind = match why {
            Some(why) => why.to_owned(),
            None => error.root_cause().to_string(),
        };
        let example = format!("{}: {error:#}", client.name);
        self.tally.lock().failed(why.is_some(), kind, example);
    }

    /// A write was refused.
    fn refused(&self, client: &Client, why: &str) {
        // Whether a user may write changes from one moment to the next; and one tenant has fewer
        // slabs than size classes, which trade them only once a second.
        let forbidden = client.user == Some(settings::BOB) && why.starts_with("NOPERM");
        let full =
            client.tenant == Tenant::Guest && (why.starts_with("OOM") || why.contains("out of memory"));
        let kind: String = match (forbidden, full) {
            (true, _) => "refused: no permission".to_owned(),
            (_, true) => "refused: no slab for the size".to_owned(),
            _ => why.chars().take(60).collect(),
        };
        let mut tally = self.tally.lock();
        tally.refused += 1;
        tally.failed(forbidden || full, kind, format!("{}: {why}", client.name));
    }

    fn found(&self, client: &Client, violation: Violation, found: Option<Found>) {
        let violation = self.book(client).name(violation, found);
        self.tally.lock().found(violation);
    }

    /// Removes all keys of a tenant through `flush`.
    fn flush(&self, tenant: Tenant, flush: impl FnOnce() -> Result<()>) -> Result<()> {
        let book = &self.books[tenant as usize];
        if let Err(violation) = book.history.flush(flush)? {
            self.tally.lock().found(book.name(*violation, None));
        }
        Ok(())
    }
}

/// One client, until the run is over.
fn work(scene: &Arc<Scene>, client: &'static Client, number: u16, interval: Duration) {
    let own = Arc::clone(scene);
    let mut turn: Box<dyn FnMut()> = match client.work {
        Work::Calls(..) => {
            let mut calling = Calling::new(own, client, number);
            Box::new(move || calling.turn())
        }
        Work::Copies => {
            let mut copying = Copying::new(own, client, number);
            Box::new(move || copying.turn())
        }
        Work::Vanishes => {
            let mut vanishing = Vanishing::new(own, client, number);
            Box::new(move || vanishing.turn())
        }
        Work::Parts => {
            let mut parts = Parts::new(own, client, number);
            Box::new(move || parts.turn())
        }
    };
    let interval = if client.work == Work::Vanishes { interval * VANISHING_TURNS } else { interval };
    let interval = interval.as_nanos() as u64;
    let mut due = Clock::System.monotonic_nanos();
    while !scene.conditions.is_over() {
        turn();
        due += interval;
        let now = Clock::System.monotonic_nanos();
        if due > now {
            base::thread::sleep(Duration::from_nanos(due - now));
        } else {
            // What was missed while the server was away is not made up for.
            due = now;
        }
    }
}

/// A run under way.
struct Run<'a> {
    options: &'a SoakOptions,
    scene: Arc<Scene>,
    control: Control,
    start: u64,
    lives: u64,
    life_start: f64,
    samples: Vec<Sample>,
    /// Operations at the last sample, and when that was.
    sampled: (u64, f64),
    files_at_first: u64,
}

impl<'a> Run<'a> {
    fn new(options: &'a SoakOptions, scene: Arc<Scene>, control: Control) -> Result<Self> {
        let files_at_first = control.served.open_files()?;
        let start = Clock::System.monotonic_nanos();
        Ok(Self {
            options,
            scene,
            control,
            start,
            lives: 1,
            life_start: 0.0,
            samples: Vec::new(),
            sampled: (0, 0.0),
            files_at_first,
        })
    }

    fn secs(&self) -> f64 {
        (Clock::System.monotonic_nanos() - self.start) as f64 / 1e9
    }

    fn drive(mut self) -> Result<SoakReport> {
        let mut threads = Vec::new();
        let interval = Duration::from_secs_f64(CLIENTS.len() as f64 / self.options.rate);
        for (number, client) in CLIENTS.iter().enumerate() {
            let scene = Arc::clone(&self.scene);
            let body = move || work(&scene, client, number as u16, interval);
            threads.push(base::thread::spawn(client.name, body).context("starting a thread")?);
        }
        let driven = self.watch();
        self.scene.conditions.end();
        let seconds = self.secs();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a client panicked; its message is above"))?;
        }
        let interrupted = self.scene.is_stopped();
        if interrupted && !self.control.served.is_up() {
            return Ok(self.report(seconds, None, interrupted));
        }
        driven?;
        let files_at_last = self.settle()?;
        Ok(self.report(seconds, Some(files_at_last), interrupted))
    }

    /// Does what is due, until the run is over.
    fn watch(&mut self) -> Result<()> {
        let duration = self.options.duration.as_secs_f64();
        let (every, life) = (self.options.every.as_secs_f64(), self.options.life.as_secs_f64());
        let sample_every = (duration / 500.0).clamp(0.25, 5.0);
        let (mut next_event, mut next_end, mut next_sample, mut next_line) = (every, life, 0.0, MINUTE);
        while self.secs() < duration && !self.scene.is_stopped() {
            let now = self.secs();
            if now >= next_end {
                self.event(true)?;
                next_end = self.secs() + life;
            } else if now >= next_event {
                self.event(false)?;
                next_event = self.secs() + every;
            } else if now >= next_sample {
                self.sample()?;
                next_sample = now + sample_every;
            } else if now >= next_line {
                self.line();
                next_line += MINUTE;
            } else {
                base::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    fn event(&mut self, ends_a_life: bool) -> Result<()> {
        let Some(kind) = self.control.draw(ends_a_life) else { return Ok(()) };
        let at = clock(self.secs());
        match self.control.perform(kind) {
            Ok(what) => eprintln!("{at}  {}: {what}", kind.name()),
            Err(_) if self.scene.is_stopped() => {}
            Err(error) => {
                eprintln!("{at}  {}: FAILED: {error:#}", kind.name());
                let what = format!("event {}", kind.name());
                self.scene.tally.lock().failed(false, what, format!("at {at}: {error:#}"));
                if !self.control.served.is_up() {
                    return Err(error.context("the server is gone"));
                }
            }
        }
        if ends_a_life {
            self.lives += 1;
            self.life_start = self.secs();
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<()> {
        if let Some(status) = self.control.served.exit_status() {
            bail!("the server ended of its own accord with {status}");
        }
        let mut sample = Sample::take(&self.control.served)?;
        let at_secs = self.secs();
        let mut tally = self.scene.tally.lock();
        let (operations, since) = (tally.operations, at_secs - self.sampled.1);
        sample.at_secs = at_secs;
        sample.life = self.lives - 1;
        sample.age_secs = at_secs - self.life_start;
        sample.operations_per_sec = (operations - self.sampled.0) as f64 / since.max(1e-3);
        sample.p99_us = tally.recent.at(0.99) as f64 / 1e3;
        tally.recent.clear();
        self.sampled = (operations, at_secs);
        self.samples.push(sample);
        Ok(())
    }

    /// A line of progress.
    fn line(&self) {
        let Some(sample) = self.samples.last() else { return };
        let tally = self.scene.tally.lock();
        let (expected, unexpected) = tally.error_counts();
        let events: u64 = self.control.done.values().sum();
        eprintln!(
            "{}  {} calls, {:.0}/s, p99 {:.0} us, {:.0} % hits; resident {} and {} shared, {} descriptors; {events} events, process {}; \
             {expected} errors expected, {unexpected} not, {} violations",
            clock(sample.at_secs),
            tally.operations,
            sample.operations_per_sec,
            sample.p99_us,
            tally.hits as f64 * 100.0 / (tally.gets as f64).max(1.0),
            mib(sample.resident_bytes),
            mib(sample.shared_bytes),
            sample.open_files,
            self.lives,
            tally.violations().1,
        );
    }

    /// With all clients gone: descriptors are given back, nothing was logged that should not be,
    /// and the server stops in order. How many descriptors there were.
    fn settle(&mut self) -> Result<u64> {
        let until = Clock::System.monotonic_nanos() + PATIENCE.as_nanos() as u64;
        let mut files = self.control.served.open_files()?;
        while files > self.files_at_first + SPARE_FILES && Clock::System.monotonic_nanos() < until {
            base::thread::sleep(LOOK);
            files = self.control.served.open_files()?;
        }
        let mut tally = self.scene.tally.lock();
        if files > self.files_at_first + SPARE_FILES {
            let what = format!("{files} with no client, {} at first", self.files_at_first);
            tally.failed(false, "descriptors are not given back", what);
        }
        for line in self.control.served.log()?.lines().filter(|line| is_error(line)) {
            tally.failed(false, "an error in the server's log", line);
        }
        self.control.served.signal(Signal::TERM)?;
        while Clock::System.monotonic_nanos() < until + PATIENCE.as_nanos() as u64 {
            if let Some(status) = self.control.served.exit_status() {
                if !status.success() {
                    tally.failed(false, "the server did not stop in order", status.to_string());
                }
                return Ok(files);
            }
            base::thread::sleep(LOOK);
        }
        tally.failed(false, "the server did not stop", "");
        Ok(files)
    }

    fn report(self, seconds: f64, files_at_last: Option<u64>, interrupted: bool) -> SoakReport {
        let tally = self.scene.tally.lock();
        let (violations, violations_found) = tally.violations();
        SoakReport {
            seconds,
            seed: self.options.seed,
            interrupted,
            operations: tally.operations,
            by_client: tally.by_client(),
            gets: tally.gets,
            hits: tally.hits,
            refused: tally.refused,
            local_hits: tally.local_hits,
            invalidations: tally.invalidations,
            audits: tally.audits,
            vanished: tally.vanished,
            connections: tally.connections,
            latency: tally.latencies.summary(),
            events: self.control.done.iter().map(|(kind, count)| (kind.name(), *count)).collect(),
            lives: self.lives,
            errors: tally.errors(),
            memory: Flatness::of(&self.samples),
            open_files: (self.files_at_first, files_at_last),
            planted: self.scene.plant.as_ref().map(|plant| plant.struck()),
            violations: violations.to_vec(),
            violations_found,
            samples: self.samples.clone(),
        }
    }
}

/// Returns whether a line of the log reports a fault of the server itself.
fn is_error(line: &str) -> bool {
    line.contains(" ERROR ") || line.contains("panicked")
}
