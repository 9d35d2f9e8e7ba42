//! A caller's part: it answers from the cache, waits for another caller's flight, or leads one.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use memory::ReadHandle;

use super::flight::{Flight, Joined, LeaderDuty, Outcome};
use super::store::{Found, Lease};
use super::value::{Fetched, LoadError, LoadOptions, Loaded, OnTimeout, Origin, Value};
use super::{FAILURES, FALLBACKS, JOINED, LOADS, Loader, STALE, TIMEOUTS};

/// A value that is no longer fresh, in the caller's hand.
pub(super) struct Held<'c> {
    pub(super) handle: ReadHandle<'c>,
    /// True if it may be returned without waiting.
    pub(super) is_stale: bool,
}

/// The next action of a caller.
pub(super) enum Turn<'c> {
    /// Return this.
    Answer(Fetched<'c>),
    /// Run its loader.
    Lead(LeaderDuty, Option<Held<'c>>),
}

/// The next step of a caller.
pub(super) enum Step<'c> {
    Take(Turn<'c>),
    Wait(Arc<Flight>, Option<Held<'c>>),
}

/// The time that a caller may still wait.
pub(super) struct Patience<'c> {
    loader: &'c Loader,
    wait: Option<Duration>,
    /// The time at which it began to wait, on the cache's monotonic clock.
    since_nanos: Option<u64>,
}

impl<'c> Patience<'c> {
    pub(super) fn new(loader: &'c Loader, options: &LoadOptions) -> Self {
        Self { loader, wait: options.wait, since_nanos: None }
    }

    fn now_nanos(&self) -> u64 {
        self.loader.inner.cache.clock().monotonic_nanos()
    }

    /// For how long it may still wait; begins to count when first asked.
    pub(super) fn left(&mut self) -> Option<Duration> {
        let wait = self.wait?;
        let now = self.now_nanos();
        let since = *self.since_nanos.get_or_insert(now);
        Some(wait.saturating_sub(Duration::from_nanos(now.saturating_sub(since))))
    }

    /// Begins anew, for another flight.
    fn renew(&mut self) {
        self.since_nanos = None;
    }
}

impl Loader {
    /// Answers from the cache or from another caller's flight, waiting on this thread; or lets the
    /// caller lead one.
    ///
    /// `found` is what the cache had for the key.
    pub(super) fn turn<'c>(
        &'c self,
        key: &[u8],
        options: &LoadOptions,
        mut found: Found<'c>,
    ) -> Result<Turn<'c>, LoadError> {
        self.check(key)?;
        let mut patience = Patience::new(self, options);
        loop {
            let (flight, held) = match self.step(key, found) {
                Step::Take(turn) => return Ok(turn),
                Step::Wait(flight, held) => (flight, held),
            };
            let outcome = self.inner.flights.wait(&flight, patience.left());
            if let Some(turn) = self.after_wait(&flight, held, outcome, options, &mut patience)? {
                return Ok(turn);
            }
            found = self.look_up(key, options);
        }
    }

    /// Joins or starts a flight if what the cache had is not enough.
    pub(super) fn step<'c>(&'c self, key: &[u8], found: Found<'c>) -> Step<'c> {
        let held = match found {
            Found::Fresh(fetched) => return Step::Take(Turn::Answer(fetched)),
            Found::Stale(handle) => Some(Held { handle, is_stale: true }),
            Found::Fallback(handle) => Some(Held { handle, is_stale: false }),
            Found::Nothing => None,
        };
        match (self.inner.flights.join(key), held) {
            (Joined::Leads(mut claim), held) => {
                // Before the load is handed to another thread, where it may wait: a write in the
                // meantime lets the next caller load.
                let _ = claim.begin(|| self.inner.cache.keys(self.inner.pool).fence(key));
                Step::Take(Turn::Lead(claim, held))
            }
            (Joined::Waits(_), Some(Held { handle, is_stale: true })) => {
                self.count(STALE);
                let value = Some(Value::Item(handle));
                Step::Take(Turn::Answer(Fetched { value, origin: Origin::Stale }))
            }
            (Joined::Waits(flight), held) => Step::Wait(flight, held),
        }
    }

    /// Returns the next step of a caller after its wait, whose `outcome` is `None` if the time was
    /// over first. `None`: it looks again.
    pub(super) fn after_wait<'c>(
        &'c self,
        flight: &Arc<Flight>,
        held: Option<Held<'c>>,
        outcome: Option<Outcome>,
        options: &LoadOptions,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Turn<'c>>, LoadError> {
        let fail = |error| self.fall_back(held, error).map(|fetched| Some(Turn::Answer(fetched)));
        match outcome {
            Some(Outcome::Value(value)) => {
                self.count(JOINED);
                let value = value.map(Value::Shared);
                Ok(Some(Turn::Answer(Fetched { value, origin: Origin::Joined })))
            }
            Some(Outcome::Failed(error)) => fail(error),
            Some(Outcome::Again) => Ok(None),
            None => {
                self.count(TIMEOUTS);
                let take_over = options.on_timeout == OnTimeout::Load;
                match fail(LoadError::TimedOut { waited: options.wait.unwrap_or_default() }) {
                    Err(_) if take_over => {
                        // If it cannot be taken over, it has just ended, or somebody else has
                        // taken it over.
                        patience.renew();
                        Ok(self.inner.flights.take_over(flight).map(|claim| Turn::Lead(claim, None)))
                    }
                    answer => answer,
                }
            }
        }
    }

    /// The value that the caller holds in the place of an error, if it holds one.
    fn fall_back<'c>(&self, held: Option<Held<'c>>, error: LoadError) -> Result<Fetched<'c>, LoadError> {
        let Some(held) = held else { return Err(error) };
        self.count(FALLBACKS);
        Ok(Fetched { value: Some(Value::Item(held.handle)), origin: Origin::Fallback })
    }

    /// Runs the caller's loader and ends the flight.
    pub(super) fn lead<'c, E: Into<Box<dyn Error + Send + Sync>>>(
        &'c self,
        mut claim: LeaderDuty,
        options: &LoadOptions,
        held: Option<Held<'c>>,
        load: impl FnOnce(&[u8]) -> Result<Loaded, E>,
    ) -> Result<Fetched<'c>, LoadError> {
        let key = claim.key();
        let lease = match self.begin(&mut claim, options) {
            Ok(lease) => lease,
            Err(fetched) => {
                claim.finish(Outcome::Again);
                return Ok(fetched);
            }
        };
        let result = load(&key);
        self.settle(claim, lease, options, held, result)
    }

    /// Takes the lease of a flight whose loader is about to run.
    pub(super) fn begin(
        &self,
        claim: &mut LeaderDuty,
        options: &LoadOptions,
    ) -> Result<Lease<'_>, Fetched<'_>> {
        let lease = self.lease(claim, options)?;
        self.count(LOADS);
        Ok(lease)
    }

    /// Stores the result of a loader, if it is one, and ends the flight.
    pub(super) fn settle<'c, E: Into<Box<dyn Error + Send + Sync>>>(
        &'c self,
        claim: LeaderDuty,
        lease: Lease<'c>,
        options: &LoadOptions,
        held: Option<Held<'c>>,
        result: Result<Loaded, E>,
    ) -> Result<Fetched<'c>, LoadError> {
        match result {
            Ok(loaded) => {
                let stored = self.store(&claim, lease, options, &loaded);
                let shared = loaded.value.map(Arc::new);
                claim.finish(Outcome::Value(shared.clone()));
                let value = match stored {
                    // A long one lies together where it was loaded, and nowhere in the cache.
                    Some(handle) if shared.is_some() && !handle.is_long() => Some(Value::Item(handle)),
                    _ => shared.map(Value::Shared),
                };
                Ok(Fetched { value, origin: Origin::Loaded })
            }
            Err(error) => {
                self.count(FAILURES);
                let error = LoadError::Failed(Arc::from(error.into()));
                claim.finish(Outcome::Failed(error.clone()));
                self.fall_back(held, error)
            }
        }
    }
}
