//! The seam to a cache under test: its callers, and the disturbances that it supports.
//!
//! The seam is narrow on purpose: a caller's four calls, and disturbances that are not calls on a
//! key. A subject that doesn't support a disturbance says so, and the check continues without it.

use anyhow::Result;
use base::Clock;
use base::rng::SeededRng;
use bench::targets::Holdings;

use super::admin::AdminCalls;

/// A cache under check. Callers of several threads use it at once.
pub(crate) trait Subject: Send + Sync {
    /// A caller for one thread.
    ///
    /// # Errors
    /// Where the cache cannot be reached.
    fn caller(&self) -> Result<Box<dyn Caller + '_>>;

    /// The subject in words.
    fn describe(&self) -> String;

    /// The clock that expiry goes by. A manual one is moved by the check.
    fn clock(&self) -> &Clock;

    /// Seconds by which a value may be returned after its expiry by that clock.
    fn slack_secs(&self) -> u64 {
        0
    }

    /// Removes all keys at once. False where it cannot.
    ///
    /// # Errors
    /// Where the cache cannot be reached.
    fn flush(&self) -> Result<bool> {
        Ok(false)
    }

    /// Moves a limit, up or down.
    fn move_limit(&self, _rng: &mut SeededRng) -> LimitMove {
        LimitMove::None
    }

    /// Lets size classes trade slabs, once. How many slabs moved.
    fn rebalance(&self) -> u64 {
        0
    }

    /// Carries out the operation of an administrator whose turn it is. `None` if there are none.
    fn administer(&self, _turn: u64, _rng: &mut SeededRng) -> Option<AdminCalls> {
        None
    }

    /// Ends the cache and takes it over again, with nobody calling it. False where it cannot.
    ///
    /// # Errors
    /// Where it cannot be taken over.
    fn restart(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// The contents of the cache, if the subject can count them.
    fn holdings(&self) -> Option<Holdings> {
        None
    }

    /// Walks the whole cache at rest, after the last call, where that is possible.
    ///
    /// # Panics
    /// Where an invariant does not hold.
    fn validate(&self) {}
}

/// The outcome of moving a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitMove {
    /// There are none.
    None,
    /// That of a pool; false where it was set but could not be reached at once.
    Pool(bool),
    /// That of the whole cache; likewise.
    Memory(bool),
}

/// The outcome of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The key was there, and has the new lifetime.
    Done,
    /// The key was not there.
    Nothing,
    /// The key was not there, or could not be touched for lack of memory.
    NothingOrRefused,
}

/// The calls of one thread. `pool` is the number of the workload's pool.
pub(crate) trait Caller {
    /// Reads one or several keys; `seen` is called for each that is there, with its place among
    /// them.
    fn get(&mut self, pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()>;

    /// Writes a value that lives for `ttl_secs` seconds, 0 for ever. False where it is refused.
    fn set(&mut self, pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool>;

    /// Removes a key; true when it was there.
    fn delete(&mut self, pool: u16, key: &[u8]) -> Result<bool>;

    /// Gives a key a new lifetime.
    fn touch(&mut self, pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched>;

    /// The server's words for the refusal of the last call, if that was refused.
    fn refusal(&self) -> Option<&str> {
        None
    }

    /// Looks again at a value that was read a while ago and held since, and lets it go; `None`
    /// where none was held for long enough. The value's bytes as they are now, and whether they are
    /// as they were.
    fn look_again(&mut self, _seen: &mut dyn FnMut(&[u8], bool)) -> bool {
        false
    }
}
