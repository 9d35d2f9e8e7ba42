//! The same for callers that must not block: futures of the standard library, bound to no runtime.
//!
//! A future here waits by leaving its waker with the flight. Time-outs need a timer, which every
//! runtime has its own of, so the caller brings it. Dropping a future is a cancellation: one that
//! waits just leaves; one that leads ends its flight, and one of those who wait leads in its place.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use super::flight::{Ended, LeaderDuty, Outcome};
use super::store::Found;
use super::turn::{Held, Patience, Step, Turn};
use super::value::{Fetched, LoadError, LoadOptions, Loaded, Origin, Value};
use super::{Loader, STALE};

/// A future to be run elsewhere: a load anew of a stale value.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

impl Loader {
    /// [`Self::get_or_load`] for futures: `load` is polled only if this caller is the one that
    /// loads. `timer` makes a future that is ready after a time, such as `tokio::time::sleep`; it
    /// is asked only where there is something to wait for and [`LoadOptions::wait`] is set.
    /// `|_| std::future::pending::<()>()` waits for ever.
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, LoadError, LoadOptions, Loaded, Loader};
    /// # async fn example(loader: &Loader) -> Result<(), LoadError> {
    /// let fetch = async { Ok::<_, std::io::Error>(Loaded::value("Alice")) };
    /// let timer = |_wait| std::future::pending::<()>();
    /// let user =
    ///     loader.get_or_load_async(b"user:1", &LoadOptions::default(), timer, fetch).await?;
    /// assert_eq!(user.value.as_deref(), Some(&b"Alice"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Self::get_or_load`].
    pub async fn get_or_load_async<E, T>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        timer: impl Fn(Duration) -> T,
        load: impl Future<Output = Result<Loaded, E>>,
    ) -> Result<Fetched<'_>, LoadError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
        T: Future,
    {
        let found = match self.look_up(key, options) {
            Found::Fresh(fetched) => return Ok(fetched),
            found => found,
        };
        match self.turn_async(key, options, found, timer).await? {
            Turn::Answer(fetched) => Ok(fetched),
            Turn::Lead(claim, held) => self.lead_async(claim, options, held, load).await,
        }
    }

    /// [`Self::get_or_spawn`] for futures: a stale value is returned at once, and loading it anew
    /// is a future that is handed to `spawn`, such as `|task| drop(tokio::spawn(task))`.
    ///
    /// # Errors
    /// As for [`Self::get_or_load`].
    pub async fn get_or_spawn_async<E, T>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        timer: impl Fn(Duration) -> T,
        spawn: impl FnOnce(Task),
        load: impl Future<Output = Result<Loaded, E>> + Send + 'static,
    ) -> Result<Fetched<'_>, LoadError>
    where
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        T: Future,
    {
        let found = match self.look_up(key, options) {
            Found::Fresh(fetched) => return Ok(fetched),
            found => found,
        };
        match self.turn_async(key, options, found, timer).await? {
            Turn::Answer(fetched) => Ok(fetched),
            Turn::Lead(claim, Some(Held { handle, is_stale: true })) => {
                let (loader, options) = (self.clone(), *options);
                spawn(Box::pin(async move {
                    // No caller is there to handle an error; it is counted, and reported to those
                    // who joined.
                    let _ = loader.lead_async(claim, &options, None, load).await;
                }));
                self.count(STALE);
                Ok(Fetched { value: Some(Value::Item(handle)), origin: Origin::Stale })
            }
            Turn::Lead(claim, held) => self.lead_async(claim, options, held, load).await,
        }
    }

    /// Waits for the caller's loader and ends the flight.
    async fn lead_async<'c, E: Into<Box<dyn Error + Send + Sync>>>(
        &'c self,
        mut claim: LeaderDuty,
        options: &LoadOptions,
        held: Option<Held<'c>>,
        load: impl Future<Output = Result<Loaded, E>>,
    ) -> Result<Fetched<'c>, LoadError> {
        match self.begin(&mut claim, options) {
            Ok(lease) => {
                let result = load.await;
                self.settle(claim, lease, options, held, result)
            }
            Err(fetched) => {
                claim.finish(Outcome::Again);
                Ok(fetched)
            }
        }
    }

    /// Answers from the cache or from another caller's flight; or lets the caller lead one.
    async fn turn_async<'c, T: Future>(
        &'c self,
        key: &[u8],
        options: &LoadOptions,
        mut found: Found<'c>,
        timer: impl Fn(Duration) -> T,
    ) -> Result<Turn<'c>, LoadError> {
        self.check(key)?;
        let mut patience = Patience::new(self, options);
        loop {
            let (flight, held) = match self.step(key, found) {
                Step::Take(turn) => return Ok(turn),
                Step::Wait(flight, held) => (flight, held),
            };
            let ended = self.inner.flights.ended(flight.clone());
            let outcome = match patience.left() {
                Some(left) => first(ended, timer(left)).await,
                None => Some(ended.await),
            };
            if let Some(turn) = self.after_wait(&flight, held, outcome, options, &mut patience)? {
                return Ok(turn);
            }
            found = self.look_up(key, options);
        }
    }
}

/// The end of a flight, or `None` if the timer is ready first.
async fn first(ended: Ended, timer: impl Future) -> Option<Outcome> {
    let (mut ended, mut timer) = (pin!(ended), pin!(timer));
    poll_fn(|context| {
        if let Poll::Ready(outcome) = ended.as_mut().poll(context) {
            return Poll::Ready(Some(outcome));
        }
        timer.as_mut().poll(context).map(|_| None)
    })
    .await
}
