//! The election with a clock and sockets, and the leaderships that come of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::access::causes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::candidate::{Candidate, Event, Step};
use super::client::Client;
use super::guard::{Guard, MOST_RECORDS, Saved};
use super::{AskError, Reply};
use crate::exchange::{Key, Record};
use crate::fleet::{Fleet, FleetConfig};
use crate::journal::Batch;
use crate::keeper::Keeper;
use crate::shared::{KnownLeader, Shared, lock};

/// Attempts to carry out a transaction that earlier ones have overtaken.
const MOST_ATTEMPTS: u32 = 4;
/// The longest that a leader takes to give its leadership back as it ends.
const LONGEST_RESIGNATION: Duration = Duration::from_secs(1);

/// An orchestrator that takes part in an election.
pub(crate) struct Election {
    pub(crate) candidate: Candidate,
    pub(crate) client: Arc<Client>,
    /// The fleet in which it leads.
    pub(crate) fleet: FleetConfig,
    /// Terms that agents know, while this orchestrator leads in an earlier one.
    pub(crate) later_terms: mpsc::Receiver<u64>,
}

/// The reason why records are not saved.
enum Unsaved {
    Failed(AskError),
    Restored,
    Lost,
}

impl Election {
    /// Takes part until it is stopped.
    pub(crate) async fn run(mut self, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
        // The saves of a leadership: they end with it.
        let mut saves = JoinSet::new();
        let (lost, mut losses) = mpsc::channel(1);
        let mut last_error = None;
        loop {
            let event = match self.candidate.next(shared.now()) {
                Step::Ask(ask) => {
                    let outcome = self.client.ask(&ask).await;
                    note_error(&mut last_error, outcome.as_ref().err());
                    self.candidate.note(outcome, shared.now())
                }
                Step::Wait(until) => {
                    let wait = Duration::from_nanos(until.saturating_sub(shared.now()));
                    tokio::select! {
                        _ = stopped.wait_for(|stopped| *stopped) => break,
                        () = tokio::time::sleep(wait) => None,
                        Some(at_least) = self.later_terms.recv() => self.candidate.begin_again(at_least),
                        Some(term) = losses.recv() => {
                            // It may be about an earlier leadership of this process.
                            let is_present = term == shared.fleet().leader().term;
                            is_present.then(|| self.candidate.lose(shared.now())).flatten()
                        }
                    }
                }
            };
            match event {
                Some(Event::Begun { term, records, guard }) => {
                    self.begin(&shared, term, records, *guard, &mut saves, lost.clone());
                }
                Some(Event::Restored) => {
                    tracing::warn!("etcd was restored: all instances are saved again.");
                    shared.save_again();
                }
                Some(Event::Ended) => {
                    tracing::warn!("This orchestrator leads no more.");
                    saves.abort_all();
                    shared.end_leadership(Fleet::follower(&self.fleet));
                }
                None => {}
            }
            shared.leads_until.store(self.candidate.leads_until(), Ordering::Relaxed);
            *lock(&shared.leader) = self.candidate.leader().map(|leader| KnownLeader {
                address: leader.address.clone(),
                is_own: leader.id == self.fleet.id,
            });
            if *stopped.borrow() {
                break;
            }
        }
        shared.leads_until.store(0, Ordering::Relaxed);
        saves.shutdown().await;
        if let Some(ask) = self.candidate.resign() {
            let _ = tokio::time::timeout(LONGEST_RESIGNATION, self.client.ask(&ask)).await;
        }
    }

    fn begin(
        &self,
        shared: &Arc<Shared>,
        term: u64,
        records: Vec<Record>,
        guard: Guard,
        saves: &mut JoinSet<()>,
        lost: mpsc::Sender<u64>,
    ) {
        tracing::info!(term, instances = records.len(), "This orchestrator leads.");
        let fleet = match Fleet::new(self.fleet.clone(), term, records, shared.now()) {
            Ok(fleet) => fleet,
            // It was checked when the orchestrator was started.
            Err(error) => return tracing::error!(error = causes(&error), "The fleet cannot be led."),
        };
        while saves.try_join_next().is_some() {}
        let keeper = Keeper::new();
        shared.begin_leadership(fleet, Arc::clone(&keeper));
        let (shared, client) = (Arc::clone(shared), Arc::clone(&self.client));
        saves.spawn(async move {
            let guard = Arc::new(tokio::sync::Mutex::new(guard));
            let save = |batch: Batch| {
                let (shared, client, guard) = (Arc::clone(&shared), Arc::clone(&client), Arc::clone(&guard));
                let lost = lost.clone();
                async move {
                    match save(&client, &mut *guard.lock().await, &batch.records).await {
                        Ok(()) => return true,
                        Err(Unsaved::Failed(error)) => shared.note_unsaved(&causes(&error)),
                        Err(Unsaved::Restored) => {
                            shared.note_unsaved("etcd was restored: all instances are saved again");
                            shared.save_again();
                        }
                        Err(Unsaved::Lost) => {
                            shared.note_unsaved("another orchestrator leads, or nobody");
                            let _ = lost.try_send(term);
                        }
                    }
                    false
                }
            };
            keeper.run(save).await;
        });
    }
}

/// Logs an error of etcd once, and that it is over.
fn note_error(last: &mut Option<AskError>, error: Option<&AskError>) {
    match (&last, error) {
        (None, Some(error)) => tracing::warn!(%error, "The election does not go on."),
        (Some(_), None) => tracing::info!("etcd answers again."),
        _ => {}
    }
    *last = error.cloned();
}

/// Saves records, in as few transactions as etcd allows.
async fn save(client: &Client, guard: &mut Guard, records: &[(Key, Option<Record>)]) -> Result<(), Unsaved> {
    for some in records.chunks(MOST_RECORDS) {
        let mut attempts = 0;
        loop {
            let reply = client.ask(&guard.save(some)).await;
            let saved = match reply {
                Ok(Reply::Txn(response)) => guard.note(&response),
                Ok(_) => return Err(Unsaved::Failed(AskError::Silent("another answer came".to_owned()))),
                Err(AskError::NoLease) => return Err(Unsaved::Lost),
                Err(error) => return Err(Unsaved::Failed(error)),
            };
            attempts += 1;
            match saved {
                Saved::Done => break,
                Saved::Overtaken if attempts < MOST_ATTEMPTS => {}
                Saved::Overtaken => {
                    let words = "earlier transactions came before".to_owned();
                    return Err(Unsaved::Failed(AskError::Silent(words)));
                }
                Saved::Restored => return Err(Unsaved::Restored),
                Saved::Lost => return Err(Unsaved::Lost),
            }
        }
    }
    Ok(())
}
