//! A stock Redis 7 or Valkey 8.
//!
//! *Limits* are set by `CONFIG SET maxmemory`. Redis evicts at once, and frees what exceeds a
//! lowered limit within the next milliseconds to seconds. The setting is not written to the
//! server's file: a restarted server has that of its file again, and is another incarnation.
//!
//! - With `maxmemory-policy noeviction`, the default, a lowered limit would make writes fail. Such
//!   a server is refused, with the remedy.
//! - With `maxmemory 0` the server has no limit: [`Look::limits`] is empty until the first resize,
//!   which limits it, and evicts if it has more.
//! - A replica is refused: its memory follows that of its primary.
//!
//! *In use* is `used_memory`: all that Redis has allocated, without what the allocator wastes
//! (`mem_fragmentation_ratio`).
//!
//! *The curve* is learnt in one of two ways, or both ([`RedisLearning`]): from idle times up to the
//! memory in use (`ages`), and from `MONITOR` in windows (`monitor`), which sees keys that were
//! evicted too, and so what more memory would help. Under an LFU policy there are no idle times.
//!
//! `OBJECT IDLETIME` counts as a hit or a miss in Redis's own statistics; the target subtracts what
//! it caused.

mod ages;
mod info;
mod monitor;
mod reply;
mod sample;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base::Clock;
use base::hash::key_hash;
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};
use curve::{MissRatioCurve, Point, Unit};
use parking_lot::Mutex;

use self::info::Info;
use self::reply::Reply;
use super::Identity;
use super::background::{Background, Reports, read_in_windows};
use super::learn::{self, Learner, RedisLearning, Sampling};
use super::wire::{Address, Deadline, Feed, PATIENCE, Wire};
use crate::{Instance, InstanceError, Look};

const MIB: u64 = 1 << 20;
/// Bytes of an entry of `MONITOR` that are looked at.
const ENTRY: usize = 4096;
/// Bytes of a password file.
const PASSWORD: u64 = 4096;
/// The pool that all of Redis is.
const POOL: u32 = 1;
/// For an incarnation, which is no secret.
const SEED: u64 = 0;

/// The user and the password file.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
}

/// An answer that refuses a command.
#[derive(Debug, thiserror::Error)]
#[error("{command} was answered with `{words}`")]
struct Refused {
    command: String,
    words: String,
}

/// A Redis or Valkey server.
#[derive(Debug)]
pub(super) struct Redis {
    client: Client,
    identity: Identity,
    learnt: Arc<Mutex<Learnt>>,
    learning: RedisLearning,
    granted: Option<u64>,
    _background: Vec<Background>,
}

/// A connection that is opened when it is needed.
#[derive(Debug)]
struct Client {
    address: Address,
    login: Login,
    wire: Option<Wire>,
}

/// What all threads know.
#[derive(Debug)]
struct Learnt {
    /// From `MONITOR`.
    learner: Learner,
    /// The mean memory of a key, for reads of keys of unknown size.
    mean: u32,
    /// From idle times.
    by_age: Option<MissRatioCurve>,
    /// Look-ups that the sampling of idle times has caused in a server's run.
    caused: Caused,
}

/// Hits and misses that are not those of clients, in one run of the server.
#[derive(Clone, Debug, Default)]
struct Caused {
    run_id: String,
    hits: u64,
    misses: u64,
}

impl Caused {
    /// The reads and the misses of clients.
    fn without(&self, info: &Info) -> (u64, u64) {
        let (hits, misses) = if self.run_id == info.run_id { (self.hits, self.misses) } else { (0, 0) };
        let misses = info.misses.saturating_sub(misses);
        (info.hits.saturating_sub(hits).saturating_add(misses), misses)
    }
}

impl Client {
    fn new(address: Address, login: Login) -> Self {
        Self { address, login, wire: None }
    }

    /// Opens a connection and authenticates.
    fn connect(&self, deadline: Deadline) -> io::Result<Wire> {
        let mut wire = self.address.connect(deadline)?;
        let Login { user, password_file } = &self.login;
        let password = password_file.as_ref().map(read_password).transpose()?;
        if user.is_some() || password.is_some() {
            let password = password.unwrap_or_default();
            let mut words: Vec<&[u8]> = vec![b"AUTH"];
            words.extend(user.as_ref().map(|user| user.as_bytes()));
            words.push(&password);
            ask(&mut wire, &words, deadline)?;
        }
        Ok(wire)
    }

    /// Runs `work` on the connection, and closes it on an error. A connection that was open may
    /// have been closed by the server since: then it is tried once more on a new one.
    fn talk<T>(&mut self, mut work: impl FnMut(&mut Wire, Deadline) -> io::Result<T>) -> io::Result<T> {
        let deadline = Deadline::after(PATIENCE);
        if let Some(mut wire) = self.wire.take() {
            match work(&mut wire, deadline) {
                Ok(done) => {
                    self.wire = Some(wire);
                    return Ok(done);
                }
                Err(error) if is_closed(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut wire = self.connect(deadline)?;
        let done = work(&mut wire, deadline)?;
        self.wire = Some(wire);
        Ok(done)
    }

    fn info(&mut self) -> io::Result<Info> {
        self.talk(|wire, deadline| match ask(wire, &[b"INFO"], deadline)? {
            Reply::Bulk(Some(text)) => Info::parse(&text),
            other => Err(refused("INFO", &other)),
        })
    }

    /// An error in words, with the remedy.
    fn failed(&self, error: io::Error) -> InstanceError {
        let words = match error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()) {
            Some(refused) => refused.words.clone(),
            None => return self.address.failed("Redis", error),
        };
        let remedy = match words.split(' ').next().unwrap_or_default() {
            "NOAUTH" => "give the agent a user and a password file",
            "WRONGPASS" => "correct the agent's user or its password file",
            "NOPERM" => {
                "allow its user `+info +config|set +monitor +randomkey +select +object|idletime \
                 +memory|usage` and the keys `~*`"
            }
            "LOADING" | "BUSY" | "MASTERDOWN" => "wait",
            _ => "see that the server lets its clients use this command",
        };
        InstanceError::because(format!("Redis at {} refuses the agent; {remedy}", self.address), error)
    }
}

/// Sends a command and reads its answer. An error of the server is an error.
fn ask(wire: &mut Wire, words: &[&[u8]], deadline: Deadline) -> io::Result<Reply> {
    let mut bytes = Vec::new();
    reply::compose(words, &mut bytes);
    wire.send(&bytes, deadline)?;
    let answer = reply::read(wire, deadline)?;
    match answer {
        // The password is not repeated.
        Reply::Error(_) => {
            Err(refused(&String::from_utf8_lossy(words.first().unwrap_or(&&b""[..])), &answer))
        }
        _ => Ok(answer),
    }
}

fn refused(command: &str, answer: &Reply) -> io::Error {
    io::Error::other(Refused { command: command.to_owned(), words: answer.shown() })
}

fn read_password(path: &PathBuf) -> io::Result<Vec<u8>> {
    use io::Read;
    let file = |error: io::Error| {
        io::Error::new(error.kind(), format!("the password file {} cannot be read: {error}", path.display()))
    };
    let mut password = Vec::new();
    std::fs::File::open(path).map_err(file)?.take(PASSWORD).read_to_end(&mut password).map_err(file)?;
    let end = password.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    password.truncate(end);
    Ok(password)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

impl Redis {
    pub(super) fn open(
        address: Address,
        login: Login,
        identity: Identity,
        sampling: Sampling,
    ) -> Result<Self, InstanceError> {
        let learner = Learner::new(&sampling, Clock::System.monotonic_nanos());
        let learnt = Learnt { learner, mean: 0, by_age: None, caused: Caused::default() };
        let learnt = Arc::new(Mutex::new(learnt));
        let client = || Client::new(address.clone(), login.clone());
        let name = format!("Redis at {address}");
        let mut background = Vec::new();
        if sampling.redis != RedisLearning::Ages && !sampling.window.is_zero() {
            let monitor = Monitor { client: client(), learnt: Arc::clone(&learnt) };
            let name = name.clone();
            background.push(Background::start("monitor", move |stop| {
                read_in_windows(stop, &sampling, &name, monitor);
            })?);
        }
        if sampling.redis != RedisLearning::Monitor && !sampling.window.is_zero() {
            let sampler = sample::Sampler::new(client(), Arc::clone(&learnt), &sampling);
            background.push(Background::start("ages", move |stop| sampler.run(stop, &name))?);
        }
        let client = client();
        Ok(Self {
            client,
            identity,
            learnt,
            learning: sampling.redis,
            granted: None,
            _background: background,
        })
    }

    fn info(&mut self) -> Result<Info, InstanceError> {
        let info = self.client.info().map_err(|error| self.client.failed(error))?;
        let problem = if info.is_replica {
            "is a replica, whose memory follows that of its primary; give the agent the primary's address"
        } else if info.policy == "noeviction" {
            "evicts nothing, so that a lower limit would make writes fail; set a policy, such as \
             `CONFIG SET maxmemory-policy allkeys-lru`"
        } else {
            return Ok(info);
        };
        Err(InstanceError::new(format!("Redis at {} {problem}", self.client.address)))
    }

    /// The curve as far as it is known.
    fn curve(&self, info: &Info, measured: f64) -> Option<v1::Curve> {
        let mut learnt = self.learnt.lock();
        let limit = info.limit.saturating_sub(info.startup).min(u64::MAX / 8);
        learnt.learner.resize(info.in_keys(), limit);
        learnt.learner.age(Clock::System.monotonic_nanos());
        let mean = info.in_keys().checked_div(info.keys()).unwrap_or(0);
        learnt.mean = u32::try_from(mean).unwrap_or(u32::MAX);
        let monitored = learnt.learner.curve();
        let by_age = learnt.by_age.clone();
        drop(learnt);
        // A server without keys has `startup` in use.
        let monitored = monitored.map(|curve| {
            curve.resized(|size| match size {
                0 => 0,
                size => size.saturating_add(info.startup),
            })
        });
        let curve = match (self.learning, by_age, monitored) {
            (RedisLearning::Monitor, _, monitored) => monitored?,
            (_, Some(by_age), Some(monitored)) => join(&by_age, &monitored, info.used, measured)?,
            (_, by_age, monitored) => by_age.or(monitored)?,
        };
        Some(learn::message(&curve, 1.0))
    }

    /// The least limit: that of a server without keys, and a little for its clients.
    fn least(info: &Info) -> u64 {
        (info.startup.saturating_add(MIB)).next_multiple_of(MIB)
    }
}

/// The curve by age up to the memory in use, and the monitored one beyond it, which is scaled so
/// that they meet.
fn join(
    by_age: &MissRatioCurve,
    monitored: &MissRatioCurve,
    used: u64,
    measured: f64,
) -> Option<MissRatioCurve> {
    let here = by_age.miss_ratio(used as f64).max(measured.min(1.0));
    let there = monitored.miss_ratio(used as f64);
    let scale = if there > 0.0 { here / there } else { 0.0 };
    let below = by_age.points().iter().filter(|point| point.size < used).copied();
    let at = [Point { size: used, miss_ratio: here }];
    let above = monitored.points().iter().filter(|point| point.size > used);
    let above = above.map(|point| Point { miss_ratio: (point.miss_ratio * scale).clamp(0.0, 1.0), ..*point });
    let joined = MissRatioCurve::new(Unit::Bytes, below.chain(at).chain(above)).ok()?;
    Some(match by_age.confidence() {
        Some(known) => joined.with_confidence(known),
        None => joined,
    })
}

impl Instance for Redis {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let info = self.info()?;
        let (reads, misses) = self.learnt.lock().caused.without(&info);
        let measured = if reads > 0 { misses as f64 / reads as f64 } else { 1.0 };
        let least = self.identity.least(Self::least(&info));
        let used = amounts::of_memory(info.used);
        let limits = if info.limit == 0 { Vec::new() } else { amounts::of_memory(info.limit) };
        let granted = self.granted.map_or_else(|| limits.clone(), amounts::of_memory);
        let pool = PoolReport {
            id: POOL,
            name: "all".to_owned(),
            granted,
            used: used.clone(),
            floors: least.clone(),
            ceilings: self.identity.most(),
            weight: 1.0,
            reads,
            misses,
            curve: self.curve(&info, measured),
            ..PoolReport::default()
        };
        Ok(Look {
            instance: v1::Instance {
                name: self.identity.name.clone(),
                node: self.identity.node.clone(),
                // 0 stands for none.
                incarnation: key_hash(SEED, info.run_id.as_bytes()).max(1),
                kind: info.kind.to_owned(),
                version: info.version,
                outlives_agent: true,
                is_alone: true,
            },
            limits,
            used,
            least,
            most: self.identity.most(),
            pools: vec![pool],
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        if let Some(grant) = grants.iter().find(|grant| grant.id == POOL) {
            self.granted = Some(amounts::memory(&grant.amounts));
        }
        let limit = amounts::memory(limits);
        if limit == 0 {
            return Ok(());
        }
        // The policy may have been changed since: then nothing is set.
        let info = self.info()?;
        let least = self.identity.least.unwrap_or(0).max(Self::least(&info));
        let most = self.identity.most.unwrap_or(u64::MAX);
        if !(least..=most).contains(&limit) {
            return Err(InstanceError::new(format!(
                "Redis at {}: a limit of {limit} bytes is outside of its bounds, {least} to {most}; give one within",
                self.client.address
            )));
        }
        let bytes = limit.to_string();
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"maxmemory", bytes.as_bytes()];
        let set = self.client.talk(|wire, deadline| match ask(wire, &words, deadline)? {
            Reply::Simple(ok) if ok == b"OK" => Ok(()),
            other => Err(refused("CONFIG SET maxmemory", &other)),
        });
        set.map_err(|error| self.client.failed(error))
    }
}

/// Reads `MONITOR`.
struct Monitor {
    client: Client,
    learnt: Arc<Mutex<Learnt>>,
}

impl Reports for Monitor {
    fn open(&mut self, deadline: Deadline) -> io::Result<Feed> {
        let mut wire = self.client.connect(deadline)?;
        ask(&mut wire, &[b"MONITOR"], deadline)?;
        Ok(wire.into_feed(ENTRY))
    }

    fn line(&mut self, line: &[u8], len: usize) {
        let learnt = &mut *self.learnt.lock();
        monitor::learn(line, len, learnt.mean, &mut learnt.learner);
    }

    fn pause(&mut self) {}
}

#[cfg(test)]
mod tests;
