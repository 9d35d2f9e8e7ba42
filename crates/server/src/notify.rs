//! Messages to a service manager: when the server is ready, reloads its settings, stops, and that
//! it is alive.
//!
//! Without a service manager, that is if `NOTIFY_SOCKET` is not set, nothing is sent.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use frontend::mailbox::Message;
use frontend::shared::{Shared, WorkerState};
use sd_notify::NotifyState;

/// It serves.
pub(crate) fn ready(addresses: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("Serving on {addresses}"))]);
}

/// It reads its settings again; [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// It stops.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("Answering what has arrived")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, states) {
        tracing::warn!(%error, "The service manager cannot be told what the server does.");
    }
}

/// Reports to a service manager that asks for it that the server is alive, for as long as every
/// worker answers or goes on with a transaction.
pub(crate) fn start_watchdog(shared: &Arc<Shared>) {
    let mut micros = 0;
    if !sd_notify::watchdog_enabled(false, &mut micros) {
        return;
    }
    let pause = Duration::from_micros(micros / 3);
    let shared = Arc::downgrade(shared);
    if let Err(error) = base::thread::spawn("watchdog", move || watch(&shared, pause)) {
        tracing::error!(%error, "The watchdog's thread cannot be started; the service manager will end the server.");
    }
}

fn watch(shared: &Weak<Shared>, pause: Duration) {
    let mut signs = Signs::default();
    // The thread keeps nothing alive: it exits when the server does.
    while let Some(shared) = shared.upgrade() {
        match signs.look(&shared.workers) {
            Seen::AllAnswered => {
                tell(&[NotifyState::Watchdog]);
                shared.workers.iter().for_each(|worker| worker.mailbox.send(Message::Beat));
            }
            Seen::AllWork => tell(&[NotifyState::Watchdog]),
            Seen::Silence => {}
        }
        drop(shared);
        base::thread::sleep(pause);
    }
}

/// The workers' answers and steps that were seen.
#[derive(Default)]
struct Signs {
    /// Number of times that they were asked.
    asked: u64,
    /// The steps of each when it was last looked at.
    steps: Vec<u64>,
}

/// The state of the workers.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// All have answered, and are to be asked again.
    AllAnswered,
    /// Those that have not answered are in the middle of a transaction, and go on with it.
    AllWork,
    /// At least one does neither.
    Silence,
}

impl Signs {
    fn look(&mut self, workers: &[WorkerState]) -> Seen {
        self.steps.resize(workers.len(), 0);
        let (mut all_answered, mut all_work) = (true, true);
        for (worker, before) in workers.iter().zip(&mut self.steps) {
            let has_answered = worker.beats.load(Ordering::Relaxed) >= self.asked;
            let steps = worker.steps.load(Ordering::Relaxed);
            all_work &= has_answered || steps != *before;
            all_answered &= has_answered;
            *before = steps;
        }
        if all_answered {
            self.asked += 1;
            Seen::AllAnswered
        } else if all_work {
            Seen::AllWork
        } else {
            Seen::Silence
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use frontend::mailbox::Mailbox;

    use super::*;

    fn worker() -> WorkerState {
        WorkerState {
            mailbox: Arc::new(Mailbox::new().expect("a mailbox")),
            connections: AtomicUsize::new(0),
            beats: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    #[test]
    fn a_worker_that_goes_on_with_a_transaction_lives_and_one_that_is_stuck_does_not() {
        let (workers, mut signs) = ([worker(), worker()], Signs::default());
        assert_eq!(signs.look(&workers), Seen::AllAnswered, "nobody was asked yet");
        assert_eq!(signs.look(&workers), Seen::Silence);
        workers[0].beats.fetch_add(1, Ordering::Relaxed);
        workers[1].steps.fetch_add(7, Ordering::Relaxed);
        assert_eq!(signs.look(&workers), Seen::AllWork);
        assert_eq!(signs.look(&workers), Seen::Silence, "it has done nothing since");
        workers[1].beats.fetch_add(1, Ordering::Relaxed);
        assert_eq!(signs.look(&workers), Seen::AllAnswered);
        assert_eq!(signs.look(&workers), Seen::Silence, "they were asked again");
    }
}
