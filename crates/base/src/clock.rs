//! Time, injected.
//!
//! All code reads the time from a [`Clock`], so that a test can move it by hand. The system clock
//! reads the kernel's coarse clocks: they cost a few nanoseconds, are never ahead of the fine ones,
//! and lag by at most one tick (4 ms at 250 Hz).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of wall-clock and monotonic time. Cloning is cheap; clones of a manual clock share
/// their time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The kernel's clocks.
    #[default]
    System,
    /// A clock that moves only when told to; holds nanoseconds since the Unix epoch.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that stands at `secs` seconds since the Unix epoch until it is moved.
    pub fn manual(secs: u64) -> Self {
        Self::Manual(Arc::new(AtomicU64::new(secs * 1_000_000_000)))
    }

    /// Moves a manual clock forward.
    ///
    /// # Panics
    /// On the system clock, which cannot be moved.
    pub fn advance(&self, by: Duration) {
        match self {
            Self::System => panic!("the system clock cannot be moved"),
            Self::Manual(nanos) => {
                nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
            }
        }
    }

    /// Seconds since the Unix epoch, cut to 32 bits (good until 2106). Costs a few nanoseconds.
    #[inline]
    pub fn unix_secs(&self) -> u32 {
        match self {
            Self::System => read(libc::CLOCK_REALTIME_COARSE).0 as u32,
            Self::Manual(nanos) => (nanos.load(Ordering::Relaxed) / 1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since the Unix epoch; fine resolution.
    pub fn unix_nanos(&self) -> u64 {
        match self {
            Self::System => {
                let (secs, nanos) = read(libc::CLOCK_REALTIME);
                secs as u64 * 1_000_000_000 + nanos as u64
            }
            Self::Manual(nanos) => nanos.load(Ordering::Relaxed),
        }
    }

    /// Nanoseconds on a clock that never goes back, from an arbitrary start; fine resolution (23–42
    /// ns to read).
    #[inline]
    pub fn monotonic_nanos(&self) -> u64 {
        match self {
            Self::System => {
                let (secs, nanos) = read(libc::CLOCK_MONOTONIC);
                secs as u64 * 1_000_000_000 + nanos as u64
            }
            Self::Manual(nanos) => nanos.load(Ordering::Relaxed),
        }
    }
}

#[inline]
fn read(id: libc::clockid_t) -> (i64, i64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to, and both clock ids exist on every Linux since
    // 2.6.32.
    unsafe { libc::clock_gettime(id, &mut time) };
    (time.tv_sec, time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = Clock::manual(1_000);
        let twin = clock.clone();
        assert_eq!(twin.unix_secs(), 1_000);
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(twin.unix_secs(), 1_001);
        assert_eq!(twin.monotonic_nanos(), 1_001_500_000_000);
    }

    #[test]
    fn the_system_clock_is_after_the_year_2025() {
        assert!(Clock::System.unix_secs() > 1_735_689_600);
        let before = Clock::System.monotonic_nanos();
        assert!(Clock::System.monotonic_nanos() >= before);
    }
}
