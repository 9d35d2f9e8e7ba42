//! Logging to standard error, with a level that can be changed while running.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::LogLevel;

/// Changes what is logged.
#[derive(Clone)]
pub struct LogControl(reload::Handle<LevelFilter, Registry>);

impl LogControl {
    /// Begins to log. Does nothing, and has no effect later, where something else in the process logs already.
    pub fn start(level: LogLevel) -> Self {
        let (filter, handle) = reload::Layer::new(filter(level));
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(is_terminal).with_target(false);
        let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
        Self(handle)
    }

    /// Changes the least important level that is shown.
    pub fn set_level(&self, level: LogLevel) {
        let _ = self.0.reload(filter(level));
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
