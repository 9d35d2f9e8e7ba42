//! The sampling that the configuration asks for: latencies, hot keys, miss-ratio curves, and events
//! that are written to a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::{Error, ErrorKind, Watch};
use millpond::watch::{CurveConfig, Event, EventConfig, EventSink, EventThread, HotKeysConfig, TraceWriter};
use millpond::{Cache, PolicyKind, PoolId};
use tenancy::key_space::Pool;

use crate::requests::refuse_pipe;

/// Interval at which events are written out.
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// The sampling in force.
#[derive(Default)]
pub struct Watching {
    state: Mutex<State>,
    /// Events that could not be written to the file.
    lost: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    /// The last settings, as far as they could be applied.
    settings: Option<Watch>,
    trace: Option<EventThread<TraceFile>>,
    /// The most that samples of pools take that were added since, in bytes.
    later: HashMap<PoolId, u64>,
}

/// The file that events are written to. Once it cannot be written it stays as it is, which is
/// logged, and events are counted as lost.
struct TraceFile {
    writer: TraceWriter<BufWriter<File>>,
    path: PathBuf,
    /// Events that are in the buffer and may yet be lost.
    buffered: u64,
    has_failed: bool,
    lost: Arc<AtomicU64>,
}

impl TraceFile {
    /// Checks whether something has gone wrong.
    fn check(&mut self) {
        let Some(error) = self.writer.error().filter(|_| !self.has_failed) else { return };
        tracing::warn!(
            file = %self.path.display(),
            %error,
            "The trace of events cannot be written and ends; events are counted as dropped. Set watch.trace_file anew to begin another."
        );
        self.has_failed = true;
        self.lost.fetch_add(std::mem::take(&mut self.buffered), Ordering::Relaxed);
    }
}

impl EventSink for TraceFile {
    fn event(&mut self, event: &Event<'_>) {
        if self.has_failed {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.writer.event(event);
        self.buffered += 1;
        self.check();
    }

    fn flush(&mut self) {
        self.writer.flush();
        self.check();
        self.buffered = 0;
    }
}

impl Watching {
    /// Samples as `wanted` says from now on. Unchanged samples continue.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if the cache has no room for it, [`ErrorKind::System`] if the file
    /// cannot be made.
    pub fn apply(&self, cache: &Cache, pools: &[Arc<Pool>], wanted: &Watch) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = || Watch { hot_keys: 0, curve_keys: 0, trace_one_in: 0, ..Watch::default() };
        let before = state.settings.clone().unwrap_or_else(nothing);
        let refused =
            |error| Error::with_source(ErrorKind::Engine, "what [watch] asks for is not to be had", error);
        if wanted.latency_one_in != before.latency_one_in {
            cache.time_calls(wanted.latency_one_in).map_err(refused)?;
        }
        let samples = samples_of(cache, wanted, pools);
        tell(wanted, &samples);
        if (wanted.hot_keys, wanted.hot_keys_one_in) != (before.hot_keys, before.hot_keys_one_in) {
            state.later.clear();
            for (pool, samples) in pools.iter().zip(&samples) {
                cache.set_hot_keys(pool.id, samples.hot_keys).map_err(refused)?;
            }
        }
        if (wanted.curve_keys, wanted.curve_one_in) != (before.curve_keys, before.curve_one_in) {
            state.later.clear();
            for (pool, samples) in pools.iter().zip(&samples) {
                cache.set_curve(pool.id, samples.curve).map_err(refused)?;
            }
        }
        if wanted.trace_file != before.trace_file {
            end(state.trace.take());
            if !wanted.trace_file.as_os_str().is_empty() {
                state.trace = Some(begin(cache, wanted, &self.lost)?);
            }
        } else if wanted.trace_one_in != before.trace_one_in {
            cache.set_events_one_in(wanted.trace_one_in);
        }
        state.settings = Some(wanted.clone());
        Ok(())
    }

    /// Samples a pool that was added later. All of those together take at most as much as the pools
    /// that were there before, and each at most half of what the others have left.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if the cache has no room for it.
    pub fn apply_to(&self, cache: &Cache, pool: &Pool) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { settings: Some(settings), later, .. } = &mut *state else { return Ok(()) };
        later.retain(|&id, _| cache.pool_policy(id).is_ok());
        let left = (cache.ledger().limit() / SHARE_OF_MEMORY).saturating_sub(later.values().sum());
        let (samples, bytes) = Samples::of(cache, pool, left / 2, settings);
        if bytes > left && !later.is_empty() {
            tracing::info!(pool = %pool.name, "No room to learn its curve and hot keys: pools are too many.");
            return Ok(());
        }
        later.insert(pool.id, bytes);
        let refused =
            |error| Error::with_source(ErrorKind::Engine, "what [watch] asks for is not to be had", error);
        if samples.hot_keys.is_some() {
            cache.set_hot_keys(pool.id, samples.hot_keys).map_err(refused)?;
        }
        if samples.curve.is_some() {
            cache.set_curve(pool.id, samples.curve).map_err(refused)?;
        }
        Ok(())
    }

    /// Events that could not be written to the file.
    pub fn lost_events(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Stops the thread that writes to a file.
    pub fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        end(state.trace.take());
    }
}

/// All pools that are there at the start take one part in this many of the memory for samples
/// together, and those that are added later as much.
const SHARE_OF_MEMORY: u64 = 64;
/// The fewest keys from which curves are learnt, and the fewest hot keys that are kept, if pools
/// are many.
const LEAST_CURVE_KEYS: usize = 512;
const LEAST_HOT_KEYS: usize = 4;

/// The samples that are taken of a pool.
#[derive(Clone, Copy, Default)]
struct Samples {
    curve: Option<CurveConfig>,
    hot_keys: Option<HotKeysConfig>,
}

impl Samples {
    /// Those of a pool, smaller ones if they take more than `room`, and what they take at most, in
    /// bytes.
    fn of(cache: &Cache, pool: &Pool, room: u64, wanted: &Watch) -> (Self, u64) {
        let memory = cache.ledger().limit();
        // One that is gone meanwhile is sampled by nobody.
        let policy = cache.pool_policy(pool.id).unwrap_or(PolicyKind::S3_FIFO);
        let samples = Self::within(room, wanted, (memory, policy));
        (samples, samples.bytes(memory, policy))
    }

    /// Those of a pool of this policy as `wanted` says, or smaller ones if these take more than
    /// `room` in a cache of this much memory, in bytes. The smallest may take more as well.
    fn within(room: u64, wanted: &Watch, (memory, policy): (u64, PolicyKind)) -> Self {
        let mut samples = Self {
            curve: (wanted.curve_keys > 0).then(|| curve(wanted)),
            hot_keys: (wanted.hot_keys > 0).then(|| hot_keys(wanted)),
        };
        if samples.bytes(memory, policy) > room {
            // Decisions need curves; nothing needs hot keys.
            let fewest =
                |config: HotKeysConfig| HotKeysConfig { keys: config.keys.min(LEAST_HOT_KEYS), ..config };
            samples.hot_keys = samples.hot_keys.map(fewest);
            let left = room.saturating_sub(samples.hot_keys.map_or(0, |config| config.bytes()));
            samples.curve = samples.curve.map(|config| {
                let least = config.keys.min(LEAST_CURVE_KEYS);
                let fitting = config.fitting(left, least, (memory, policy));
                fitting.unwrap_or(CurveConfig { keys: least, ..config })
            });
        }
        samples
    }

    /// The memory that they take at most, in bytes.
    fn bytes(&self, memory: u64, policy: PolicyKind) -> u64 {
        let of_curve = self.curve.map_or(0, |config| config.bytes(memory, policy));
        of_curve + self.hot_keys.map_or(0, |config| config.bytes())
    }
}

/// The samples of each pool: none of the last ones if there is no room for those of all.
fn samples_of(cache: &Cache, wanted: &Watch, pools: &[Arc<Pool>]) -> Vec<Samples> {
    let mut room = cache.ledger().limit() / SHARE_OF_MEMORY;
    let of_each = room / pools.len().max(1) as u64;
    let of_pool = |(at, pool): (usize, &Arc<Pool>)| {
        let (samples, bytes) = Samples::of(cache, pool, of_each, wanted);
        let left = room.checked_sub(bytes);
        let has_room = left.is_some() || at == 0;
        room = left.unwrap_or(0);
        if has_room { samples } else { Samples::default() }
    };
    pools.iter().enumerate().map(of_pool).collect()
}

/// Says if samples are not as `wanted`.
fn tell(wanted: &Watch, samples: &[Samples]) {
    let pools = samples.len();
    let is_sampled = |samples: &&Samples| samples.curve.is_some() || samples.hot_keys.is_some();
    let sampled = samples.iter().filter(is_sampled).count();
    if sampled < pools && wanted.curve_keys + wanted.hot_keys > 0 {
        tracing::info!(
            sampled,
            pools,
            "There are too many pools to learn curves and hot keys of all; the first are sampled."
        );
    }
    let curve_keys = samples.iter().filter_map(|samples| Some(samples.curve?.keys)).min();
    if let Some(curve_keys) = curve_keys.filter(|&keys| keys < wanted.curve_keys) {
        tracing::info!(
            curve_keys,
            wanted = wanted.curve_keys,
            "Curves are learnt from fewer keys than watch.curve_keys, as they would take over a 64th of the memory."
        );
    }
}

fn hot_keys(wanted: &Watch) -> HotKeysConfig {
    HotKeysConfig { keys: wanted.hot_keys, one_in: wanted.hot_keys_one_in, ..HotKeysConfig::default() }
}

fn curve(wanted: &Watch) -> CurveConfig {
    let rate = 1.0 / f64::from(wanted.curve_one_in);
    CurveConfig { keys: wanted.curve_keys, rate, ..CurveConfig::default() }
}

fn begin(cache: &Cache, wanted: &Watch, lost: &Arc<AtomicU64>) -> Result<EventThread<TraceFile>, Error> {
    let (path, one_in) = (&wanted.trace_file, wanted.trace_one_in);
    let failed = |error: std::io::Error| {
        let context = format!("watch.trace_file: {} cannot be written", path.display());
        Error::with_source(ErrorKind::System, context, error)
    };
    // Opening one would wait for its reader.
    refuse_pipe(path).map_err(failed)?;
    let writer = TraceWriter::new(BufWriter::new(File::create(path).map_err(failed)?)).map_err(failed)?;
    let lost = Arc::clone(lost);
    let trace = TraceFile { writer, path: path.clone(), buffered: 0, has_failed: false, lost };
    let config = EventConfig { one_in, ..EventConfig::default() };
    let reader = cache.events(config).map_err(|error| {
        Error::with_source(ErrorKind::Engine, "watch.trace_file: events cannot be recorded", error)
    })?;
    tracing::info!(file = %path.display(), one_in, "Writing the events of a sample of keys.");
    EventThread::start(reader, trace, WRITE_EVERY).map_err(failed)
}

fn end(trace: Option<EventThread<TraceFile>>) {
    let Some(trace) = trace.and_then(EventThread::stop).map(|trace| trace.writer) else { return };
    let events = trace.events();
    match trace.finish() {
        Ok(_) => tracing::info!(events, "The trace of events is complete."),
        Err(error) => tracing::warn!(events, %error, "The trace of events broke off."),
    }
}
