//! Redis 7 and Valkey 8.
//!
//! *Limits* are set by `CONFIG SET maxmemory`. Redis evicts at once, and frees what exceeds a
//! lowered limit within the next milliseconds to seconds. The setting is not written to the
//! server's file: a restarted server has that of its file again, and is another incarnation.
//!
//! - With `maxmemory-policy noeviction`, the default, a lowered limit would make writes fail. Such
//!   a server is refused, with the remedy, unless it is only looked at.
//! - With `maxmemory 0` the server has no limit: [`Look::limits`] is empty until the first resize,
//!   which limits it, and evicts if it has more.
//! - A replica is refused likewise: its memory follows that of its primary.
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
mod client;
mod info;
mod learnt;
mod monitor;
mod reply;
mod sample;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use base::hash::key_hash;
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};
use curve::{MissRatioCurve, Point, Unit};
use parking_lot::Mutex;

pub(super) use self::client::Login;
use self::client::{Client, ask, refused};
use self::info::Info;
use self::learnt::{Caused, Learnt};
use self::reply::Reply;
use super::background::{Background, Reports, Windows, read_in_windows};
use super::identity::Identity;
use super::learn::{Learner, RedisLearning, Sampling};
use super::wire::{Address, Deadline, Feed, PATIENCE};
use crate::report;
use crate::{Instance, InstanceError, Look};

const MIB: u64 = 1 << 20;
/// Bytes of an entry of `MONITOR` that are looked at.
const ENTRY: usize = 4096;
/// A busy Redis is slower by half while it is monitored; without pipelines, because it wakes the
/// agent for nearly every command. So it is monitored for 2 % of the time at most.
const WINDOWS: Windows = Windows {
    window: Duration::from_millis(250),
    pause: None,
    per_sec: 1000,
    busy_pause: Duration::from_secs(12),
};
/// The pool that all of Redis is.
const POOL: u32 = 1;
/// For an incarnation, which is not a secret.
const SEED: u64 = 0;

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
        let windows = WINDOWS.or(&sampling);
        let mut background = Vec::new();
        if sampling.redis != RedisLearning::Ages && !windows.are_empty() {
            let monitor = Monitor { client: client(), learnt: Arc::clone(&learnt) };
            let name = name.clone();
            background.push(Background::start("monitor", move |stop| {
                read_in_windows(stop, windows, &name, monitor);
            })?);
        }
        if sampling.redis != RedisLearning::Monitor && !windows.are_empty() {
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

    fn info(&mut self, deadline: Deadline) -> Result<Info, InstanceError> {
        let info = self.client.info(deadline).map_err(|error| self.client.failed(error))?;
        if self.identity.reads_only {
            return Ok(info);
        }
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
    fn curve(&self, info: &Info) -> Option<v1::Curve> {
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
            (_, Some(by_age), Some(monitored)) => join(&by_age, &monitored, info.used)?,
            (_, by_age, monitored) => by_age.or(monitored)?,
        };
        Some(report::curve(&curve, 1.0))
    }

    /// The least limit: that of a server without keys, and a little for its clients.
    fn least(info: &Info) -> u64 {
        (info.startup.saturating_add(MIB)).next_multiple_of(MIB)
    }
}

/// The curve by age up to the memory in use, and the monitored one beyond it, which is scaled so
/// that they meet.
fn join(by_age: &MissRatioCurve, monitored: &MissRatioCurve, used: u64) -> Option<MissRatioCurve> {
    let here = by_age.miss_ratio(used as f64);
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
        let info = self.info(Deadline::after(PATIENCE))?;
        let (reads, misses) = self.learnt.lock().caused.without(&info);
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
            curve: self.curve(&info),
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
            learning: self.learnt.lock().learner.progress().filter(|_| pool.curve.is_none()),
            pools: vec![pool],
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        if let Some(grant) = grants.iter().find(|grant| grant.id == POOL) {
            self.granted = Some(amounts::memory(&grant.amounts));
        }
        // Redis shows more as a negative number.
        let limit = amounts::memory(limits).min(i64::MAX as u64);
        if limit == 0 {
            return Ok(());
        }
        // The policy may have been changed since: then nothing is set.
        let deadline = Deadline::after(PATIENCE);
        let info = self.info(deadline)?;
        let outside = |words| InstanceError::new(format!("Redis at {}: {words}", self.client.address));
        self.identity.check(limit, Self::least(&info)).map_err(outside)?;
        let bytes = limit.to_string();
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"maxmemory", bytes.as_bytes()];
        let set = self.client.talk(deadline, |wire, deadline| match ask(wire, &words, deadline)? {
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
