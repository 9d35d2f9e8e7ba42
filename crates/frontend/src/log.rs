//! Logging to standard error, with a level that can be changed while running.
//!
//! Lines go to a thread of their own, which writes them out. Standard error may be a pipe without a
//! reader: then lines are dropped and counted, and no thread that logs has to wait.

mod lossy;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::LogLevel;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

pub use self::lossy::{LossyLines, dropped_lines};

/// Longest time for which the end of the process waits for the last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Keeps events that others can cause from filling the log.
pub struct Seldom {
    every_nanos: u64,
    /// Not before then, in nanoseconds of the monotonic clock.
    next: AtomicU64,
}

impl Seldom {
    /// Creates one that lets an event be logged once in this many seconds.
    pub const fn once_in(secs: u64) -> Self {
        Self { every_nanos: secs * 1_000_000_000, next: AtomicU64::new(0) }
    }

    /// Returns whether the message may be logged now; if so, not again for that long.
    pub fn is_due(&self, now: u64) -> bool {
        let later = |next: u64| (now >= next).then(|| now.saturating_add(self.every_nanos));
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }
}

/// Writes out the last lines of a log as it is dropped, before the process exits.
pub struct LastLines(LossyLines);

impl Drop for LastLines {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

impl LossyLines {
    /// A guard for the end of the process, which waits for the last lines.
    pub fn last_lines(&self) -> LastLines {
        LastLines(self.clone())
    }
}

/// Changes the level of the log.
#[derive(Clone)]
pub struct LogControl {
    level: reload::Handle<LevelFilter, Registry>,
    lines: LossyLines,
}

impl LogControl {
    /// Begins to log. Does nothing, and has no effect later, if something else in the process logs
    /// already.
    pub fn start(level: LogLevel) -> Self {
        let (filter, handle) = reload::Layer::new(filter(level));
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let lines = LossyLines::start(std::io::stderr());
        let layer = fmt::layer().with_writer(lines.clone()).with_ansi(is_terminal).with_target(false);
        let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
        Self { level: handle, lines }
    }

    /// Changes the least important level that is shown.
    pub fn set_level(&self, level: LogLevel) {
        let _ = self.level.reload(filter(level));
    }

    /// Waits, for a limited time, until all lines are written, before a reload of the
    /// configuration is reported.
    pub fn flush(&self) {
        self.lines.flush(LAST_LINES);
    }

    /// A guard for the end of the process, which waits for the last lines.
    pub fn last_lines(&self) -> LastLines {
        self.lines.last_lines()
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
