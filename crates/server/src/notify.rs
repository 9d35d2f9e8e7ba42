//! Messages to a service manager: when the server is ready, reloads its settings, stops, and that
//! it is alive.
//!
//! Without a service manager, that is if `NOTIFY_SOCKET` is not set, nothing is sent.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use frontend::mailbox::Message;
use frontend::shared::Shared;
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
/// worker answers.
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
    let mut asked = 0;
    // The thread keeps nothing alive: it exits when the server does.
    while let Some(shared) = shared.upgrade() {
        if shared.workers.iter().all(|worker| worker.beats.load(Ordering::Relaxed) >= asked) {
            tell(&[NotifyState::Watchdog]);
            asked += 1;
            shared.workers.iter().for_each(|worker| worker.mailbox.send(Message::Beat));
        }
        drop(shared);
        base::thread::sleep(pause);
    }
}
