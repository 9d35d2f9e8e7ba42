//! The threads that learn: each can be stopped at once, unless it is connecting.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::Clock;
use base::rng::{RngExt, entropy_seed, seeded};
use parking_lot::{Condvar, Mutex};

use super::learn::Sampling;
use super::wire::{Deadline, Feed, PATIENCE};
use crate::InstanceError;

/// The first time to wait after a failure, and the longest.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The time for which reports are read before it is looked whether to stop.
const PIECE: Duration = Duration::from_millis(100);

/// A window with more bytes ends early: the server may keep in memory what is not read yet.
const WINDOW_BYTES: u64 = 64 << 20;
/// A report of more bytes counts as several.
const REPORT_BYTES: u64 = 1024;
/// The longest pause between two windows.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A pause that is not worth another connection.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The order to stop, and a way to wait that it ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    pub(super) fn is_ordered(&self) -> bool {
        *self.0.0.lock()
    }

    /// Waits. Returns true if it is to stop.
    pub(super) fn wait(&self, duration: Duration) -> bool {
        let mut is_ordered = self.0.0.lock();
        if !*is_ordered {
            self.0.1.wait_while_for(&mut is_ordered, |is_ordered| !*is_ordered, duration);
        }
        *is_ordered
    }

    fn order(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

/// The time to wait after failures, which doubles.
#[derive(Debug, Default)]
pub(super) struct Backoff(Option<Duration>);

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.0.map_or(FIRST_RETRY, |last| (last * 2).min(LAST_RETRY));
        self.0 = Some(wait);
        wait
    }

    pub(super) fn reset(&mut self) {
        self.0 = None;
    }
}

/// A thread that ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Background {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(
        name: &str,
        body: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<Self, InstanceError> {
        let stop = Stop::default();
        let theirs = stop.clone();
        let thread = base::thread::spawn(name, move || body(&theirs)).map_err(|error| {
            InstanceError::because("cannot start a thread that learns; raise the limit of threads", error)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.order();
        if let Some(thread) = self.thread.take() {
            // A panic there was printed; there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

/// The times for which reports are read, and the times between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    pub(super) window: Duration,
    /// `None`: as long as [`Self::per_sec`] asks for.
    pub(super) pause: Option<Duration>,
    /// Reports in a second that the server may be asked for on average: so what they cost it does
    /// not grow with its load.
    pub(super) per_sec: u32,
    /// The least pause of a server that reports more than that. Without it, a server that is slower
    /// while it reports would earn itself shorter pauses.
    pub(super) busy_pause: Duration,
}

impl Windows {
    /// Those that are asked for, or else these.
    pub(super) fn or(self, sampling: &Sampling) -> Self {
        let window = sampling.window.unwrap_or(self.window);
        Self { window, pause: sampling.pause.or(self.pause), ..self }
    }

    /// Returns whether nothing is to be read.
    pub(super) fn are_empty(&self) -> bool {
        self.window.is_zero()
    }

    /// The pause after a window with these reports.
    fn pause(&self, seen: Seen) -> Duration {
        self.pause.unwrap_or_else(|| {
            // A large report costs as several do.
            let reports = seen.reports.max(seen.bytes / REPORT_BYTES);
            let earned = reports as f64 / f64::from(self.per_sec.max(1));
            let pause = (earned - self.window.as_secs_f64()).clamp(0.0, LONGEST_PAUSE.as_secs_f64());
            let pause = Duration::from_secs_f64(pause);
            if pause < SHORTEST_PAUSE { pause } else { pause.max(self.busy_pause) }
        })
    }
}

/// The reports of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    reports: u64,
    bytes: u64,
}

/// A source of reports, and what is made of them.
pub(super) trait Reports {
    /// Connects, and asks for reports.
    fn open(&mut self, deadline: Deadline) -> io::Result<Feed>;

    /// Takes a line, whose end may be cut, with its full length.
    fn line(&mut self, line: &[u8], len: usize);

    /// Called a few times in a second, and when a window ends.
    fn pause(&mut self);
}

/// Reads reports in windows until it is to stop. The time between windows varies by a fifth, so
/// that the windows do not keep step with something that recurs.
pub(super) fn read_in_windows(stop: &Stop, windows: Windows, name: &str, mut reports: impl Reports) {
    let mut rng = seeded(entropy_seed());
    let mut backoff = Backoff::default();
    let mut is_failing = false;
    while !windows.are_empty() && !stop.is_ordered() {
        let opened = reports.open(Deadline::after(PATIENCE));
        if opened.is_ok() {
            backoff.reset();
        }
        let read = opened.and_then(|feed| read_window(stop, windows, feed, &mut reports));
        reports.pause();
        let wait = match &read {
            Ok(seen) => windows.pause(*seen).mul_f64(rng.random_range(0.8..1.2)),
            Err(_) => backoff.next(),
        };
        match (&read, is_failing) {
            (Err(error), false) => {
                tracing::warn!(server = name, %error, "The curve cannot be learnt now; it is tried again.");
            }
            (Ok(_), true) => tracing::info!(server = name, "The curve is learnt again."),
            _ => {}
        }
        is_failing = read.is_err();
        if stop.wait(wait) {
            return;
        }
    }
}

/// Reads until a window is over after which there is a pause. Returns the reports of this window.
fn read_window(
    stop: &Stop,
    windows: Windows,
    mut feed: Feed,
    reports: &mut impl Reports,
) -> io::Result<Seen> {
    let now = || Duration::from_nanos(Clock::System.monotonic_nanos());
    let (mut until, mut seen) = (now() + windows.window, Seen::default());
    while !stop.is_ordered() {
        let piece = (now() + PIECE).min(until);
        // A busy server always has something to say: so the time ends the inner loop.
        while let Some(wait) = piece.checked_sub(now()).filter(|wait| !wait.is_zero()) {
            let bytes = feed.read(wait, |line, len| {
                seen.reports = seen.reports.saturating_add(1);
                reports.line(line, len);
            })?;
            seen.bytes = seen.bytes.saturating_add(bytes as u64);
            if seen.bytes > WINDOW_BYTES {
                break;
            }
        }
        reports.pause();
        if now() >= until || seen.bytes > WINDOW_BYTES {
            if windows.pause(seen) >= SHORTEST_PAUSE {
                break;
            }
            (until, seen) = (now() + windows.window, Seen::default());
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..8).map(|_| backoff.next().as_millis() as u64).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        backoff.reset();
        assert_eq!(backoff.next(), FIRST_RETRY);
    }

    #[test]
    fn pauses_are_as_long_as_reports_ask_for() {
        let windows = Windows {
            window: Duration::from_secs(1),
            pause: None,
            per_sec: 1000,
            busy_pause: Duration::from_secs(3),
        };
        let secs = |reports, bytes| windows.pause(Seen { reports, bytes }).as_secs_f64();
        assert_eq!([secs(0, 0), secs(1000, 9), secs(5000, 9), secs(u64::MAX, 9)], [0.0, 0.0, 4.0, 60.0]);
        assert_eq!(secs(2000, 9), 3.0, "it is busy");
        assert_eq!(secs(10, 5000 * REPORT_BYTES), 4.0, "a few large ones");
        let sampling = Sampling { pause: Some(Duration::from_secs(7)), ..Sampling::default() };
        assert_eq!(windows.or(&sampling).pause(Seen::default()), Duration::from_secs(7));
    }

    #[test]
    fn a_waiting_thread_stops_when_it_is_dropped() {
        let background = Background::start("test", |stop| while !stop.wait(Duration::from_secs(3600)) {});
        drop(background.expect("a thread"));
    }
}
