//! Inputs and outputs of a loader: options, loaded values, answers, errors, counts.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use memory::ReadHandle;

/// Options by which [`crate::Loader`] treats a key.
///
/// A value is *fresh* for `fresh_secs` after it was loaded, then *stale* for `stale_secs`, then a
/// *fallback* for `fallback_secs`, and then gone. The cache keeps only when the value expires, so
/// that for an item which some other writer made, the same two times are counted back from its own
/// expiry; one without expiry is fresh for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// For how long a value is returned without a question, in seconds. `None` = for ever. Default
    /// `None`.
    pub fresh_secs: Option<u32>,
    /// For how long after that it is still returned at once, while one caller loads it anew, in
    /// seconds. Default 0.
    pub stale_secs: u32,
    /// For how long after that it is kept for callers whose load fails or is waited for in vain, in
    /// seconds. Default 0.
    pub fallback_secs: u32,
    /// For how long it is remembered that there is no value, in seconds. Default 0: it is not.
    pub negative_secs: u32,
    /// For how long a caller waits for another one's loader; `None` = for ever. A caller's own
    /// loader is not cut short. Default 10 seconds.
    pub wait: Option<Duration>,
    /// The result for a caller who has waited for `wait` and has no fallback. Default: fail.
    pub on_timeout: OnTimeout,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            fresh_secs: None,
            stale_secs: 0,
            fallback_secs: 0,
            negative_secs: 0,
            wait: Some(Duration::from_secs(10)),
            on_timeout: OnTimeout::Fail,
        }
    }
}

/// The result for a caller who has waited for [`LoadOptions::wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// Returns [`LoadError::TimedOut`].
    #[default]
    Fail,
    /// Runs its own loader in the place of the late one, whose value will not be stored; who comes
    /// later waits for this one. So at most one loader more runs for each `wait` that passes.
    Load,
}

/// A loader's finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The value; `None` = there is none.
    pub value: Option<Vec<u8>>,
    /// In the place of [`LoadOptions::fresh_secs`]: for how long this value is fresh, in seconds.
    pub fresh_secs: Option<u32>,
    /// True if the cache is to keep it. Default: yes.
    pub keep: bool,
}

impl Loaded {
    /// A value.
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(value.into()), fresh_secs: None, keep: true }
    }

    /// The knowledge that there is no value, kept for [`LoadOptions::negative_secs`].
    pub fn absent() -> Self {
        Self { value: None, fresh_secs: None, keep: true }
    }

    /// The same, fresh for this many seconds. For a value that is not there, in the place of
    /// [`LoadOptions::negative_secs`].
    #[must_use]
    pub fn fresh_for(self, secs: u32) -> Self {
        Self { fresh_secs: Some(secs), ..self }
    }

    /// The same, given to who asked and not kept.
    #[must_use]
    pub fn not_kept(self) -> Self {
        Self { keep: false, ..self }
    }
}

impl From<Vec<u8>> for Loaded {
    fn from(value: Vec<u8>) -> Self {
        Self::value(value)
    }
}

impl From<Option<Vec<u8>>> for Loaded {
    fn from(value: Option<Vec<u8>>) -> Self {
        value.map_or_else(Self::absent, Self::value)
    }
}

/// A value, where it lies: in the cache, or, where it was not stored or another caller loaded it,
/// beside it.
#[derive(Clone, Debug)]
pub enum Value<'c> {
    /// The item's own memory.
    Item(ReadHandle<'c>),
    /// Memory that all who waited for the value share.
    Shared(Arc<Vec<u8>>),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Item(handle) => handle,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The cache, where it was fresh.
    Fresh,
    /// The cache, where it was stale: another caller, or a job that this one has handed on, loads
    /// it anew.
    Stale,
    /// The cache, where it was stale or a fallback, after loading it had failed or was waited for
    /// in vain.
    Fallback,
    /// This caller's loader.
    Loaded,
    /// Another caller's loader.
    Joined,
}

/// An answer of a loader.
#[derive(Clone, Debug)]
pub struct Fetched<'c> {
    /// The value; `None` = it is known that there is none.
    pub value: Option<Value<'c>>,
    /// The origin of the answer.
    pub origin: Origin,
}

/// The error of a call that has no answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The loader returned this error: this caller's, or the one that it waited for. Whether a
    /// retry helps is for the loader to say: [`LoadError::source`] gives its own error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// The loader that this caller waited for panicked. A retry runs this caller's own.
    Panicked,
    /// Another caller's loader took longer than [`LoadOptions::wait`]. Retry later; it may have
    /// stored its value by then.
    TimedOut {
        /// For how long this caller has waited.
        waited: Duration,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "the loader failed: {error}"),
            Self::Panicked => f.write_str("the loader that was waited for panicked"),
            Self::TimedOut { waited } => {
                write!(f, "another caller's loader did not end within {waited:?}")
            }
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => Some(&**error),
            _ => None,
        }
    }
}

/// Counts of what a loader has done. Counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStats {
    /// Runs of a loader that were begun.
    pub loads: u64,
    /// Those that ended with an error.
    pub failures: u64,
    /// Answers that another caller's run gave.
    pub joined: u64,
    /// Stale answers that were given at once.
    pub stale: u64,
    /// Answers from a value that should have been loaded anew but could not be.
    pub fallbacks: u64,
    /// Waits that ended with the time.
    pub timeouts: u64,
    /// Loaded values that were not stored, because the key was written or removed meanwhile.
    pub overtaken: u64,
    /// Loaded values that were not stored, because the cache had no room for them or the key is
    /// invalid.
    pub refused: u64,
    /// Flights under way that may be joined, now.
    pub flights: u64,
    /// Callers who wait, now.
    pub waiting: u64,
}
