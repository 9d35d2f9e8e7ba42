//! The threads of a check: callers, one that disturbs, and one that administers.
//!
//! A caller tells the history, calls, and tells again; it stops at the end of the run, or when
//! enough violations were found. The disturber moves limits and the clock and flushes, at random
//! moments; the administrator, if one is asked for, makes calls of the admin API. Nothing is waited
//! for but the end, and a restart: then all callers stop, the cache ends and is taken over, and
//! callers begin anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use base::Clock;
use base::rng::{RngExt, SeededRng};
use bench::run::Bar;
use parking_lot::Mutex;
use workload::length::Length;
use workload::{OpKind, Operation, Sampler, Sizes, Workload, WorkloadSpec};

use super::admin::Administration;
use super::embedded::clock_step;
use super::history::{Found, History};
use super::plant::{Plant, Planted};
use super::record::CallKind;
use super::report::{CheckReport, Disturbances, Violation};
use super::subject::{Caller, LimitMove, Subject};
use super::value::{LEAST_VALUE_BYTES, Stamp, Values, read};
use super::{CheckOptions, CheckSpec};

/// Gets that go into one call at most.
const MOST_GETS: usize = 8;
/// Calls between two checks for the end of the run.
const LOOK_EVERY: u64 = 64;
/// A flush is one disturbance in this many, and costs a walk over all keys.
const FLUSH_SHARE: u32 = 40;
/// Before a look at the end of the run.
const PAUSE: Duration = Duration::from_millis(20);

/// State that all threads of a run share.
struct Shared {
    subject: Box<dyn Subject>,
    history: History,
    workload: Arc<Workload>,
    plant: Option<Arc<Plant>>,
    ttl: (Sizes, f64),
    pause: Duration,
    options: CheckOptions,
    threads: usize,
    stop: AtomicBool,
    calls: AtomicU64,
    /// Length of this part of the run: the whole run, or the part until a restart.
    length: Length,
    /// The number of the part.
    part: u64,
    /// End of this part, in nanoseconds of the system's monotonic clock.
    deadline: u64,
    violations: Mutex<Vec<Violation>>,
}

/// Counts of one caller.
#[derive(Default)]
struct Counts {
    done: [u64; OpKind::ALL.len()],
    hits: u64,
    refused: u64,
    held: u64,
}

pub(crate) fn run(
    subject: Box<dyn Subject>,
    spec: &CheckSpec,
    options: &CheckOptions,
) -> Result<CheckReport> {
    let workload = Arc::new(Workload::in_pools(&declaration(spec), &spec.pools, options.seed)?);
    let start = Clock::System.monotonic_nanos();
    let mut shared = Arc::new(Shared {
        history: History::new(spec.keys, subject.slack_secs()),
        subject,
        plant: options.plant.map(|(kind, every)| Arc::new(Plant::new(kind, every))),
        ttl: (spec.ttl_secs.clone(), spec.ttl_share),
        pause: Duration::from_millis(spec.pause_ms),
        options: options.clone(),
        threads: spec.threads,
        stop: AtomicBool::new(false),
        calls: AtomicU64::new(0),
        length: options.length,
        part: 0,
        deadline: u64::MAX,
        violations: Mutex::default(),
        workload,
    });
    let (mut counts, mut disturbances) = (Counts::default(), Disturbances::default());
    let mut administration = Administration::default();
    for part in 0..=options.restarts {
        let own = Arc::get_mut(&mut shared).context("a thread of the check has not ended")?;
        if part > 0 {
            disturbances.restarts += u64::from(whole(|| own.subject.restart())?);
        }
        own.begin(part);
        let done = drive(&shared)?;
        counts.add(&done.0);
        disturbances.add(&done.1);
        administration.merge(done.2);
        if !shared.violations.lock().is_empty() {
            break;
        }
    }
    let mut violations = std::mem::take(&mut *shared.violations.lock());
    violations.truncate(options.max_violations.max(1));
    if violations.is_empty() {
        whole(|| {
            shared.subject.validate();
            Ok(())
        })?;
    }
    Ok(CheckReport {
        name: spec.name.clone(),
        target: shared.subject.describe(),
        workload: shared.workload.description().to_owned(),
        seed: options.seed,
        threads: spec.threads,
        seconds: (Clock::System.monotonic_nanos() - start) as f64 / 1e9,
        operations: counts.done.iter().sum(),
        kinds: CheckReport::name_kinds(counts.done),
        hits: counts.hits,
        refused: counts.refused,
        held_values: counts.held,
        disturbances,
        administration: administration.into_calls(),
        evictions: shared.subject.holdings().map(|held| held.evictions),
        planted: shared.plant.as_ref().map(|plant| plant.struck()),
        not_expressed: spec.not_expressed.clone(),
        violations,
    })
}

/// Starts all threads, shows progress, and adds up what they counted.
fn drive(shared: &Arc<Shared>) -> Result<(Counts, Disturbances, Administration)> {
    let disturber = {
        let shared = Arc::clone(shared);
        base::thread::spawn("disturber", move || shared.disturb()).context("starting a thread")?
    };
    let administrator = {
        let shared = Arc::clone(shared);
        base::thread::spawn("administrator", move || Stops(&shared).guard(|| Ok(shared.administer())))
            .context("starting a thread")?
    };
    let mut callers = Vec::new();
    for thread in 0..shared.threads {
        let shared = Arc::clone(shared);
        let body = move || Stops(&shared).guard(|| shared.call(thread));
        callers.push(base::thread::spawn(format!("caller-{thread}"), body).context("starting a thread")?);
    }
    let mut bar = Bar::new(shared.options.progress, "check");
    let start = Clock::System.monotonic_nanos();
    while callers.iter().any(|caller| !caller.is_finished()) {
        let secs = (Clock::System.monotonic_nanos() - start) as f64 / 1e9;
        let done = shared.calls.load(Ordering::Relaxed) as f64;
        bar.show(shared.length.share_done(done, secs), done / secs.max(1e-3));
        base::thread::sleep(PAUSE);
    }
    bar.finish();
    shared.stop.store(true, Ordering::Relaxed);
    let mut total = Counts::default();
    for caller in callers {
        let counts = caller.join().map_err(|_| anyhow!("a caller panicked; its message is above"))??;
        total.add(&counts);
    }
    let disturbances =
        disturber.join().map_err(|_| anyhow!("the disturber panicked; its message is above"))??;
    let administration =
        administrator.join().map_err(|_| anyhow!("the administrator panicked; its message is above"))??;
    Ok((total, disturbances, administration))
}

/// Translates the check into the declaration of a workload.
fn declaration(spec: &CheckSpec) -> WorkloadSpec {
    WorkloadSpec {
        keys: spec.keys,
        key_size: spec.key_size.clone(),
        value_size: spec.value_size.clone(),
        popularity: spec.popularity,
        mix: spec.mix,
        look_aside: false,
        ttl_secs: 0,
    }
}

/// A walk over the cache's structures that panics is an error of the check.
fn whole<T>(walk: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(walk))
        .unwrap_or_else(|_| Err(anyhow!("the cache's structures are not whole; what is wrong is above")))
}

/// Ends the run for all when a thread of it fails or panics.
struct Stops<'a>(&'a Shared);

impl Stops<'_> {
    fn guard<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let done = body();
        if done.is_err() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.done.iter_mut().zip(other.done).for_each(|(sum, done)| *sum += done);
        self.hits += other.hits;
        self.refused += other.refused;
        self.held += other.held;
    }
}

impl Shared {
    /// Begins a part of the run, with no thread under way.
    fn begin(&mut self, part: u64) {
        let parts = self.options.restarts + 1;
        self.part = part;
        self.calls = AtomicU64::new(0);
        self.stop = AtomicBool::new(false);
        (self.length, self.deadline) = match self.options.length {
            Length::Operations(all) => {
                let share = all / parts + u64::from(part < all % parts);
                (Length::Operations(share), u64::MAX)
            }
            Length::Time(time) => {
                let share = time / u32::try_from(parts).unwrap_or(u32::MAX);
                let now = Clock::System.monotonic_nanos();
                (Length::Time(share), now.saturating_add(share.as_nanos() as u64))
            }
        };
    }

    /// The seed of the part.
    fn seed(&self) -> u64 {
        self.options.seed ^ (self.part << 40)
    }

    /// Makes the calls of one caller until the run ends.
    fn call(&self, thread: usize) -> Result<Counts> {
        let inner = self.subject.caller()?;
        let caller: Box<dyn Caller + '_> = match &self.plant {
            Some(plant) => Box::new(Planted::new(inner, Arc::clone(plant))),
            None => inner,
        };
        let seed = base::hash::mix64(self.seed() ^ ((thread as u64) << 20) ^ 0x0063_6865_636b);
        let mut calling = Calling {
            shared: self,
            caller,
            thread: thread as u16,
            rng: base::rng::seeded(seed),
            sampler: Sampler::new(Arc::clone(&self.workload), self.seed(), thread, self.threads),
            values: Values::new(),
            key: Vec::new(),
            counts: Counts::default(),
        };
        let mut left = match self.length {
            Length::Operations(all) => {
                let (threads, thread) = (self.threads as u64, thread as u64);
                all / threads + u64::from(thread < all % threads)
            }
            Length::Time(_) => u64::MAX,
        };
        let mut turn = 0_u64;
        while left > 0 {
            if turn.is_multiple_of(LOOK_EVERY) {
                let over = Clock::System.monotonic_nanos() >= self.deadline;
                if over || self.stop.load(Ordering::Relaxed) {
                    break;
                }
                if !self.pause.is_zero() {
                    base::thread::sleep(self.pause);
                }
            }
            turn += 1;
            let done = calling.turn(left)?;
            left -= done;
            self.calls.fetch_add(done, Ordering::Relaxed);
        }
        Ok(calling.counts)
    }

    /// Calls the operations of an administrator one after the other, until the run is over.
    fn administer(&self) -> Administration {
        let mut rng = base::rng::seeded(base::hash::mix64(self.seed() ^ 0x0061_646d_696e));
        let mut done = Administration::default();
        for turn in 0.. {
            if !self.options.administers || self.stop.load(Ordering::Relaxed) {
                break;
            }
            base::thread::sleep(Duration::from_millis(self.options.disturb_every_ms));
            let Some(call) = self.subject.administer(turn, &mut rng) else { break };
            done.add(call);
        }
        done
    }

    /// Moves limits, slabs and the clock, and flushes, until the run is over.
    fn disturb(&self) -> Result<Disturbances> {
        let mut rng = base::rng::seeded(base::hash::mix64(self.seed() ^ 0x6469_7374));
        let mut done = Disturbances::default();
        let stops = Stops(self);
        while !self.stop.load(Ordering::Relaxed) {
            base::thread::sleep(Duration::from_millis(self.options.disturb_every_ms));
            match self.subject.move_limit(&mut rng) {
                LimitMove::None => {}
                LimitMove::Pool(reached) => {
                    done.pool_limits += 1;
                    done.unreached += u64::from(!reached);
                }
                LimitMove::Memory(reached) => {
                    done.memory_limits += 1;
                    done.unreached += u64::from(!reached);
                }
            }
            done.slabs_traded += self.subject.rebalance();
            if let Clock::Manual(_) = self.subject.clock() {
                let before = self.subject.clock().unix_secs();
                self.subject.clock().advance(clock_step(&mut rng));
                done.clock_secs += u64::from(self.subject.clock().unix_secs() - before);
            }
            if self.options.flushes && rng.random_ratio(1, FLUSH_SHARE) {
                let mut flushed = false;
                let told = stops.guard(|| {
                    self.history.flush(|| -> Result<()> {
                        flushed = self.subject.flush()?;
                        Ok(())
                    })
                })?;
                done.flushes += u64::from(flushed);
                if let Err(violation) = told {
                    self.found(*violation);
                }
            }
        }
        Ok(done)
    }

    /// Takes a violation down, and ends the run if it was the last one wanted.
    fn found(&self, mut violation: Violation) {
        violation.key_text = self.workload.key_text(violation.key);
        let mut violations = self.violations.lock();
        violations.push(violation);
        if violations.len() >= self.options.max_violations.max(1) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// One thread's calls.
struct Calling<'a> {
    shared: &'a Shared,
    caller: Box<dyn Caller + 'a>,
    thread: u16,
    rng: SeededRng,
    sampler: Sampler,
    values: Values,
    key: Vec<u8>,
    counts: Counts,
}

impl Calling<'_> {
    /// Makes one call, of at most `left` gets. How many operations it was.
    fn turn(&mut self, left: u64) -> Result<u64> {
        let operation = self.sampler.draw();
        let done = match operation.kind {
            OpKind::Get => self.get(operation, left)?,
            OpKind::Set => self.set(operation)?,
            OpKind::Delete => self.delete(operation)?,
            OpKind::Touch => self.touch(operation)?,
        };
        self.counts.done[operation.kind as usize] += done;
        self.look_again();
        Ok(done)
    }

    fn judge(&self, told: Result<(), Box<Violation>>) {
        if let Err(violation) = told {
            self.shared.found(*violation);
        }
    }

    /// One get, or one in eight times several in one call.
    fn get(&mut self, first: Operation, left: u64) -> Result<u64> {
        let mut operations = vec![first];
        if self.rng.random_ratio(1, 8) {
            for _ in 1..self.rng.random_range(2..=MOST_GETS).min(left as usize) {
                let next = self.sampler.draw();
                // A key stands once in a call, so that every answer has its own history.
                let fits = next.pool == first.pool && operations.iter().all(|other| other.key != next.key);
                if fits {
                    operations.push(Operation { kind: OpKind::Get, ..next });
                }
            }
        }
        let mut keys = vec![Vec::new(); operations.len()];
        operations.iter().zip(&mut keys).for_each(|(operation, key)| operation.write_key(key));
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let history = &self.shared.history;
        let now = self.shared.subject.clock().unix_secs();
        let tickets: Vec<_> = operations
            .iter()
            .map(|operation| history.begin(operation.key, CallKind::Get, self.thread, (0, 0), now))
            .collect();
        let mut found = vec![Found::Nothing; operations.len()];
        self.caller.get(first.pool, &keys, &mut |i, value| found[i] = what_is(value, operations[i].key))?;
        self.counts.hits += found.iter().filter(|found| **found != Found::Nothing).count() as u64;
        for (ticket, found) in tickets.into_iter().zip(found) {
            self.judge(history.end_get(ticket, found));
        }
        Ok(operations.len() as u64)
    }

    fn set(&mut self, operation: Operation) -> Result<u64> {
        operation.write_key(&mut self.key);
        let ttl = self.ttl();
        let pool = &self.shared.workload.pools()[usize::from(operation.pool)];
        let size = pool.value_size_at(self.rng.random()).max(LEAST_VALUE_BYTES);
        let clock = self.shared.subject.clock();
        let history = &self.shared.history;
        let ticket = history.begin(operation.key, CallKind::Set, self.thread, (size, ttl), clock.unix_secs());
        let stamp = Stamp { key: operation.key, version: ticket.record.version };
        let value = self.values.make(stamp, size);
        let stored = self.caller.set(operation.pool, &self.key, value, ttl)?;
        self.counts.refused += u64::from(!stored);
        self.judge(history.end_set(ticket, stored, clock.unix_secs()));
        Ok(1)
    }

    fn delete(&mut self, operation: Operation) -> Result<u64> {
        operation.write_key(&mut self.key);
        let history = &self.shared.history;
        let now = self.shared.subject.clock().unix_secs();
        let ticket = history.begin(operation.key, CallKind::Delete, self.thread, (0, 0), now);
        let found = self.caller.delete(operation.pool, &self.key)?;
        self.judge(history.end_delete(ticket, found));
        Ok(1)
    }

    fn touch(&mut self, operation: Operation) -> Result<u64> {
        operation.write_key(&mut self.key);
        let (ttl, clock) = (self.ttl(), self.shared.subject.clock());
        let history = &self.shared.history;
        let ticket = history.begin(operation.key, CallKind::Touch, self.thread, (0, ttl), clock.unix_secs());
        let touched = self.caller.touch(operation.pool, &self.key, ttl)?;
        self.judge(history.end_touch(ticket, touched, clock.unix_secs()));
        Ok(1)
    }

    /// Values that were held for long enough are looked at again, and let go.
    fn look_again(&mut self) {
        let mut changed = None;
        let mut looked = 0;
        while self.caller.look_again(&mut |value, same| {
            looked += 1;
            if !same {
                changed = Some(read(value));
            }
        }) {}
        self.counts.held += looked;
        if let Some(stamp) = changed {
            let Stamp { key, version } = stamp.unwrap_or(Stamp { key: 0, version: 0 });
            let key = key.min(self.shared.history.last_key());
            self.shared.found(*self.shared.history.held_value_changed(key, version));
        }
    }

    fn ttl(&mut self) -> u32 {
        let (sizes, share) = &self.shared.ttl;
        if self.rng.random_bool(*share) { sizes.quantile(self.rng.random_range(0.0..1.0)).max(1) } else { 0 }
    }
}

/// Classifies the value that a get of `key` returned.
fn what_is(value: &[u8], key: u64) -> Found {
    match read(value) {
        None => Found::Damaged(value.len()),
        Some(stamp) if stamp.key != key => Found::OtherKey(stamp),
        Some(stamp) => Found::Version(stamp.version),
    }
}
