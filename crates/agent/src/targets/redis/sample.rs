//! Asks for the idle times and sizes of a random sample of keys, again and again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use parking_lot::Mutex;

use super::super::background::{Backoff, Stop};
use super::super::learn::Sampling;
use super::super::wire::{Deadline, PATIENCE, Wire};
use super::ages::{self, Age, Rates};
use super::client::{Client, refused};
use super::info::Info;
use super::learnt::{Caused, Learnt};
use super::reply;
use crate::Nanos;

/// Keys that are asked for at once: each such batch keeps the server from other work for some tens
/// of microseconds.
const BATCH: usize = 32;
/// The time that the agent waits after a batch, in times of what the batch took: so the sampling
/// takes a part of the server's time that is bounded, however slow the server is.
const REST: u32 = 4;
/// The time to the second sample, at most.
const SECOND: Duration = Duration::from_secs(2);
/// Samples that make up the curve.
const SAMPLES: usize = 4;
/// If nine of ten keys were used within this time, whole seconds tell them apart too badly.
const LEAST_AGE: u64 = 8;
/// Measurements of the rate of reads that are kept.
const MOMENTS: usize = 360;

/// The server's counters at a time.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Nanos,
    reads: u64,
    misses: u64,
}

/// Samples idle times.
pub(super) struct Sampler {
    client: Client,
    learnt: Arc<Mutex<Learnt>>,
    every: Duration,
    keys: usize,
    samples: VecDeque<Vec<Age>>,
    moments: VecDeque<Moment>,
    run_id: String,
}

impl Sampler {
    pub(super) fn new(client: Client, learnt: Arc<Mutex<Learnt>>, sampling: &Sampling) -> Self {
        let (every, keys) = (sampling.ages_every, sampling.ages_keys);
        let (samples, moments) = (VecDeque::new(), VecDeque::new());
        Self { client, learnt, every, keys, samples, moments, run_id: String::new() }
    }

    /// Samples until it is to stop.
    pub(super) fn run(mut self, stop: &Stop, name: &str) {
        let mut backoff = Backoff::default();
        let mut is_failing = false;
        loop {
            let sampled = self.sample(stop);
            let wait = match &sampled {
                Ok(()) => {
                    backoff.reset();
                    // The rate of reads is known from two samples on.
                    if self.moments.len() < 2 { self.every.min(SECOND) } else { self.every }
                }
                Err(_) => backoff.next().max(self.every),
            };
            match (&sampled, is_failing) {
                (Err(error), false) => {
                    tracing::warn!(server = name, %error, "Idle times cannot be learnt now; they are asked for again.");
                }
                (Ok(()), true) => tracing::info!(server = name, "Idle times are learnt again."),
                _ => {}
            }
            is_failing = sampled.is_err();
            if is_failing {
                self.learnt.lock().by_age = None;
            }
            if stop.wait(wait) {
                return;
            }
        }
    }

    fn sample(&mut self, stop: &Stop) -> io::Result<()> {
        let info = self.client.info(Deadline::after(PATIENCE))?;
        if info.policy.contains("lfu") {
            return Err(io::Error::other("under an LFU policy, Redis has no idle times"));
        }
        self.note(&info);
        let mut sample = Vec::new();
        for &(database, keys) in &info.databases {
            let share = keys as f64 / info.keys().max(1) as f64;
            let mut left = (self.keys as f64 * share).round() as usize;
            while left > 0 && !stop.is_ordered() {
                let batch = left.min(BATCH);
                left -= batch;
                let begun = Clock::System.monotonic_nanos();
                let (ages, hits, misses) =
                    self.client.talk(Deadline::after(PATIENCE), |wire, deadline| {
                        ask_ages(wire, database, batch, deadline)
                    })?;
                sample.extend(ages);
                self.cause(hits, misses);
                let took = Clock::System.monotonic_nanos().saturating_sub(begun);
                let rest = Duration::from_nanos(took).saturating_mul(REST).min(Duration::from_millis(100));
                if stop.wait(rest) {
                    return Ok(());
                }
            }
        }
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        let pooled: Vec<Age> = self.samples.iter().flatten().copied().collect();
        let curve = self.rates(&info, &pooled).and_then(|rates| ages::curve(pooled, &rates));
        self.learnt.lock().by_age = curve;
        Ok(())
    }

    /// Notes the counters. Those of another run of the server are forgotten.
    fn note(&mut self, info: &Info) {
        let mut learnt = self.learnt.lock();
        if learnt.caused.run_id != info.run_id {
            learnt.caused = Caused { run_id: info.run_id.clone(), ..Caused::default() };
        }
        let (reads, misses) = learnt.caused.without(info);
        drop(learnt);
        let is_reset = self.moments.back().is_some_and(|last| last.reads > reads || last.misses > misses);
        if self.run_id != info.run_id || is_reset {
            self.run_id.clone_from(&info.run_id);
            self.samples.clear();
            self.moments.clear();
        }
        self.moments.push_back(Moment { at: Clock::System.monotonic_nanos(), reads, misses });
        if self.moments.len() > MOMENTS {
            self.moments.pop_front();
        }
    }

    fn cause(&self, hits: u64, misses: u64) {
        let caused = &mut self.learnt.lock().caused;
        if caused.run_id == self.run_id {
            caused.hits = caused.hits.saturating_add(hits);
            caused.misses = caused.misses.saturating_add(misses);
        }
    }

    /// The rates over the time in which nine of ten keys were used, as far back as it is known;
    /// `None` if that time is too short.
    fn rates(&self, info: &Info, ages: &[Age]) -> Option<Rates> {
        let mut idle: Vec<u64> = ages.iter().map(|age| age.idle).collect();
        let last = idle.len().checked_sub(1)?;
        let (_, &mut most, _) = idle.select_nth_unstable(last * 9 / 10);
        if most < LEAST_AGE {
            return None;
        }
        let now = self.moments.back()?;
        let horizon = now.at.saturating_sub(most.saturating_mul(1_000_000_000));
        let then = self.moments.iter().find(|moment| moment.at >= horizon).filter(|then| then.at < now.at);
        let then = then.or_else(|| self.moments.iter().rev().nth(1))?;
        let secs = now.at.saturating_sub(then.at) as f64 / 1e9;
        let (reads, misses) = (now.reads.saturating_sub(then.reads), now.misses.saturating_sub(then.misses));
        (secs > 0.0 && reads > 0).then(|| Rates {
            keys: info.keys(),
            used: info.used,
            startup: info.startup,
            reads_per_sec: reads as f64 / secs,
            miss_ratio: misses as f64 / reads as f64,
        })
    }
}

/// Asks for `count` random keys of a database, and for the idle times and sizes of these. Returns
/// them, with the hits and misses that this caused.
fn ask_ages(
    wire: &mut Wire,
    database: u32,
    count: usize,
    deadline: Deadline,
) -> io::Result<(Vec<Age>, u64, u64)> {
    let mut bytes = Vec::new();
    reply::compose(&[b"SELECT", database.to_string().as_bytes()], &mut bytes);
    (0..count).for_each(|_| reply::compose(&[b"RANDOMKEY"], &mut bytes));
    wire.send(&bytes, deadline)?;
    let selected = reply::read(wire, deadline)?;
    let mut keys = Vec::new();
    for _ in 0..count {
        match reply::read(wire, deadline)? {
            reply::Reply::Bulk(Some(key)) => keys.push(key),
            reply::Reply::Bulk(None) => {}
            other => return Err(refused("RANDOMKEY", &other)),
        }
    }
    if let reply::Reply::Error(_) = selected {
        return Err(refused("SELECT", &selected));
    }
    bytes.clear();
    for key in &keys {
        reply::compose(&[b"MEMORY", b"USAGE", key], &mut bytes);
        reply::compose(&[b"OBJECT", b"IDLETIME", key], &mut bytes);
    }
    wire.send(&bytes, deadline)?;
    let (mut ages, mut misses) = (Vec::new(), 0);
    for _ in &keys {
        let (size, idle) = (reply::read(wire, deadline)?, reply::read(wire, deadline)?);
        for (command, answer) in [("MEMORY USAGE", &size), ("OBJECT IDLETIME", &idle)] {
            if let reply::Reply::Error(_) = answer {
                return Err(refused(command, answer));
            }
        }
        match (size.number(), idle.number()) {
            (Some(bytes), Some(idle)) => ages.push(Age { idle, bytes }),
            // It was evicted, or expired, meanwhile.
            (None, _) | (_, None) => misses += u64::from(idle.number().is_none()),
        }
    }
    let hits = (keys.len() as u64).saturating_sub(misses);
    Ok((ages, hits, misses))
}
