//! What the configuration has sampled: latencies, hot keys, miss-ratio curves, and events that are written to a file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millpond::Cache;
use millpond::watch::{CurveConfig, EventConfig, EventThread, HotKeysConfig, TraceWriter};

use crate::config::Watch;
use crate::error::{Error, ErrorKind};
use crate::shared::Pool;

/// How often events are written out.
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// What is being sampled.
#[derive(Default)]
pub(crate) struct Watching(Mutex<State>);

#[derive(Default)]
struct State {
    /// What was asked for last, as far as it could be had.
    settings: Option<Watch>,
    trace: Option<EventThread<TraceWriter<BufWriter<File>>>>,
}

impl Watching {
    /// Has sampled what `wanted` says from now on. What does not change goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] where the cache has no room for it, [`ErrorKind::System`] where the file cannot be made.
    pub(crate) fn apply(&self, cache: &Cache, pools: &[Arc<Pool>], wanted: &Watch) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.settings.clone().unwrap_or_else(|| Watch { trace_one_in: 0, ..Watch::default() });
        let refused =
            |error| Error::with_source(ErrorKind::Engine, "what [watch] asks for is not to be had", error);
        if wanted.latency_one_in != before.latency_one_in {
            cache.time_calls(wanted.latency_one_in).map_err(refused)?;
        }
        if (wanted.hot_keys, wanted.hot_keys_one_in) != (before.hot_keys, before.hot_keys_one_in) {
            let config = hot_keys(wanted);
            for pool in pools {
                cache.set_hot_keys(pool.id, (wanted.hot_keys > 0).then_some(config)).map_err(refused)?;
            }
        }
        if (wanted.curve_keys, wanted.curve_one_in) != (before.curve_keys, before.curve_one_in) {
            let config = curve(wanted);
            for pool in pools {
                cache.set_curve(pool.id, (wanted.curve_keys > 0).then_some(config)).map_err(refused)?;
            }
        }
        if wanted.trace_file != before.trace_file {
            end(state.trace.take());
            if !wanted.trace_file.as_os_str().is_empty() {
                state.trace = Some(begin(cache, &wanted.trace_file, wanted.trace_one_in)?);
            }
        } else if wanted.trace_one_in != before.trace_one_in {
            cache.set_events_one_in(wanted.trace_one_in);
        }
        state.settings = Some(wanted.clone());
        Ok(())
    }

    /// Has a pool that came later sampled as the others are.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] where the cache has no room for it.
    pub(crate) fn apply_to(&self, cache: &Cache, pool: &Pool) -> Result<(), Error> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(settings) = &state.settings else { return Ok(()) };
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

    /// Ends what writes to a file.
    pub(crate) fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end(state.trace.take());
    }
}

fn hot_keys(wanted: &Watch) -> HotKeysConfig {
    HotKeysConfig { keys: wanted.hot_keys, one_in: wanted.hot_keys_one_in, ..HotKeysConfig::default() }
}

fn curve(wanted: &Watch) -> CurveConfig {
    let rate = 1.0 / f64::from(wanted.curve_one_in);
    CurveConfig { keys: wanted.curve_keys, rate, ..CurveConfig::default() }
}

fn begin(
    cache: &Cache,
    path: &Path,
    one_in: u32,
) -> Result<EventThread<TraceWriter<BufWriter<File>>>, Error> {
    let failed = |error: std::io::Error| {
        let context = format!("watch.trace_file: {} cannot be written", path.display());
        Error::with_source(ErrorKind::System, context, error)
    };
    let trace = TraceWriter::new(BufWriter::new(File::create(path).map_err(failed)?)).map_err(failed)?;
    let config = EventConfig { one_in, ..EventConfig::default() };
    let reader = cache.events(config).map_err(|error| {
        Error::with_source(ErrorKind::Engine, "watch.trace_file: events cannot be recorded", error)
    })?;
    tracing::info!(file = %path.display(), one_in, "Writing the events of a sample of keys.");
    EventThread::start(reader, trace, WRITE_EVERY).map_err(failed)
}

fn end(trace: Option<EventThread<TraceWriter<BufWriter<File>>>>) {
    let Some(trace) = trace.and_then(EventThread::stop) else { return };
    let events = trace.events();
    match trace.finish() {
        Ok(_) => tracing::info!(events, "The trace of events is complete."),
        Err(error) => tracing::warn!(events, %error, "The trace of events broke off."),
    }
}
