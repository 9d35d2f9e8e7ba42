//! The sampling that the configuration asks for: latencies, hot keys, miss-ratio curves, and events
//! that are written to a file.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::{Error, ErrorKind, Watch};
use millpond::Cache;
use millpond::watch::{CurveConfig, Event, EventConfig, EventSink, EventThread, HotKeysConfig, TraceWriter};
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
        let most = watched_pools(cache, wanted);
        if most < pools.len() {
            let (sampled, pools) = (most, pools.len());
            tracing::info!(
                sampled,
                pools,
                "There are too many pools to learn curves and hot keys of all; the first are sampled."
            );
        }
        if (wanted.hot_keys, wanted.hot_keys_one_in) != (before.hot_keys, before.hot_keys_one_in) {
            let config = hot_keys(wanted);
            for (at, pool) in pools.iter().enumerate() {
                let config = (wanted.hot_keys > 0 && at < most).then_some(config);
                cache.set_hot_keys(pool.id, config).map_err(refused)?;
            }
        }
        if (wanted.curve_keys, wanted.curve_one_in) != (before.curve_keys, before.curve_one_in) {
            let config = curve(wanted);
            for (at, pool) in pools.iter().enumerate() {
                let config = (wanted.curve_keys > 0 && at < most).then_some(config);
                cache.set_curve(pool.id, config).map_err(refused)?;
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

    /// Samples a pool that was added after the first `before` ones as those are sampled.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if the cache has no room for it.
    pub fn apply_to(&self, cache: &Cache, pool: &Pool, before: usize) -> Result<(), Error> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(settings) = &state.settings else { return Ok(()) };
        if before >= watched_pools(cache, settings) {
            return Ok(());
        }
        let refused =
            |error| Error::with_source(ErrorKind::Engine, "what [watch] asks for is not to be had", error);
        if settings.hot_keys > 0 {
            cache.set_hot_keys(pool.id, Some(hot_keys(settings))).map_err(refused)?;
        }
        if settings.curve_keys > 0 {
            cache.set_curve(pool.id, Some(curve(settings))).map_err(refused)?;
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

/// The sizes of a pool's curve, of each key that it follows, and of a hot key, in bytes.
const CURVE_BYTES: u64 = 166 << 10;
const CURVE_KEY_BYTES: u64 = 52;
const HOT_KEY_BYTES: u64 = 780;
/// All pools together take one part in this many of the memory for samples: if there are many
/// pools, only the first are sampled.
const SHARE_OF_MEMORY: u64 = 64;

/// Returns the number of pools that can be sampled as `wanted` says.
fn watched_pools(cache: &Cache, wanted: &Watch) -> usize {
    if wanted.curve_keys == 0 && wanted.hot_keys == 0 {
        return usize::MAX;
    }
    let of_curve = match wanted.curve_keys as u64 {
        0 => 0,
        keys => CURVE_BYTES + keys * CURVE_KEY_BYTES,
    };
    let of_pool = of_curve + wanted.hot_keys as u64 * HOT_KEY_BYTES;
    let most = cache.ledger().limit() / SHARE_OF_MEMORY / of_pool.max(1);
    usize::try_from(most).unwrap_or(usize::MAX).max(1)
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
