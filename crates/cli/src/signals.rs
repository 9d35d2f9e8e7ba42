//! The end of a command that runs until it is told to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The time after which a signal is noticed.
const TICK: Duration = Duration::from_millis(100);

/// Becomes true at SIGTERM or Ctrl-C.
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Receives the signals from now on.
    ///
    /// # Errors
    /// In words, if they cannot be received.
    pub(crate) fn on_signal() -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|error| format!("signals cannot be received: {error}"))?;
        }
        Ok(Self(stop))
    }

    /// Waits for this many tenths of a second, or until a signal comes; returns whether one came.
    pub(crate) fn wait(&self, ticks: u64) -> bool {
        for _ in 0..ticks {
            if self.0.load(Ordering::Relaxed) {
                break;
            }
            base::thread::sleep(TICK);
        }
        self.0.load(Ordering::Relaxed)
    }
}

/// Sends this process SIGTERM once standard input ends.
///
/// # Errors
/// If the system gives no thread for it.
pub(crate) fn stop_at_end_of_input() -> io::Result<()> {
    base::thread::spawn("input", || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    })
    .map(drop)
}
