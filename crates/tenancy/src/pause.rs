//! The clients of a tenant wait, because one of them asked for it: `CLIENT PAUSE`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Clock;

/// The clients that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Requests that write.
    Writes,
    /// All requests.
    All,
}

/// Until when, and who. Both are told apart from one another by no lock: who looks between two
/// changes sees one of them.
#[derive(Debug, Default)]
pub struct Pause {
    /// In nanoseconds of the monotonic clock; 0 = nobody waits.
    until_nanos: AtomicU64,
    writes_alone: AtomicBool,
}

impl Pause {
    /// Has requests wait until then, in place of what they were to wait for before.
    pub fn begin(&self, until_nanos: u64, paused: Paused) {
        self.writes_alone.store(paused == Paused::Writes, Ordering::Relaxed);
        self.until_nanos.store(until_nanos, Ordering::Relaxed);
    }

    /// Has nobody wait any more.
    pub fn end(&self) {
        self.until_nanos.store(0, Ordering::Relaxed);
    }

    /// Until when requests wait; 0 = none does, or none did for some time.
    pub fn until_nanos(&self) -> u64 {
        self.until_nanos.load(Ordering::Relaxed)
    }

    /// Returns which clients wait now, if any. Reads the clock only if a pause was set.
    #[inline]
    pub fn now(&self, clock: &Clock) -> Option<Paused> {
        let until = self.until_nanos();
        if until == 0 || until <= clock.monotonic_nanos() {
            return None;
        }
        Some(if self.writes_alone.load(Ordering::Relaxed) { Paused::Writes } else { Paused::All })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_by_time_or_by_word() {
        let (pause, clock) = (Pause::default(), Clock::manual(1_700_000_000));
        assert_eq!(pause.now(&clock), None);
        pause.begin(clock.monotonic_nanos() + 10, Paused::Writes);
        assert_eq!(pause.now(&clock), Some(Paused::Writes));
        pause.begin(clock.monotonic_nanos() + 20, Paused::All);
        clock.advance(std::time::Duration::from_nanos(19));
        assert_eq!(pause.now(&clock), Some(Paused::All));
        clock.advance(std::time::Duration::from_nanos(1));
        assert_eq!(pause.now(&clock), None);
        pause.begin(u64::MAX, Paused::All);
        pause.end();
        assert_eq!(pause.now(&clock), None);
    }
}
