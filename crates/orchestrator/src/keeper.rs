//! Saves records apart from the decisions: a store that is slow, or away, delays the calls that
//! depend on it, and nothing else.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::exchange::{Key, Record};
use crate::journal::{Batch, Journal, Progress};

/// The journal of a leadership, with those who wait for it.
#[derive(Debug)]
pub(crate) struct Keeper {
    journal: Mutex<Journal>,
    wake: Notify,
    progress: watch::Sender<Progress>,
}

/// The records on which a call depends.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    number: u64,
    progress: watch::Receiver<Progress>,
}

impl Ticket {
    /// Waits until the records are saved. Returns false if they could not be, or not in time.
    pub(crate) async fn saved(mut self) -> bool {
        // An error: nothing is saved any more, as the leadership is over.
        let known = self.progress.wait_for(|progress| progress.of(self.number).is_some()).await;
        known.ok().and_then(|progress| progress.of(self.number)).unwrap_or(false)
    }
}

impl Keeper {
    pub(crate) fn new() -> Arc<Self> {
        let progress = watch::Sender::new(Progress::default());
        Arc::new(Self { journal: Mutex::default(), wake: Notify::new(), progress })
    }

    /// Adds records to be saved. The caller adds them in the order in which the fleet returned
    /// them.
    pub(crate) fn add(&self, records: Vec<(Key, Option<Record>)>) -> Ticket {
        let number = self.lock().add(records);
        self.wake.notify_one();
        Ticket { number, progress: self.progress.subscribe() }
    }

    /// Saves batch after batch, for as long as the caller polls this: `save` saves one, and returns
    /// whether it has reached the store.
    pub(crate) async fn run<F: Future<Output = bool>>(&self, mut save: impl FnMut(Batch) -> F) {
        loop {
            self.wake.notified().await;
            loop {
                let Some(batch) = self.lock().batch() else { break };
                let is_saved = save(batch.clone()).await;
                let progress = {
                    let mut journal = self.lock();
                    journal.note(&batch, is_saved);
                    journal.progress()
                };
                self.progress.send_replace(progress);
                if !is_saved {
                    // The next call tries again.
                    break;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
