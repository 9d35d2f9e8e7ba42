//! The disturbances of the server in progress, by which a client tells an expected end of its
//! connection from a fault.
//!
//! A disturbance is announced before it is made. A client notes the standing before it connects,
//! and an end of its connection is a fault only if the standing is the same as then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::tenants::Tenant;

/// Between looks at whether the server is back.
const LOOK: Duration = Duration::from_millis(10);

/// The disturbances in progress and the counts of those that were made.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    down: AtomicBool,
    restarts: AtomicU64,
    guest_is_away: AtomicBool,
    guest_changes: AtomicU64,
    over: AtomicBool,
}

/// The counts of disturbances at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    restarts: u64,
    guest_changes: u64,
}

impl Conditions {
    /// Waits until the server is up and has the tenant, and notes how things stand; `None` when the
    /// run is over.
    pub(super) fn settled(&self, tenant: Tenant) -> Option<Standing> {
        loop {
            if self.is_over() {
                return None;
            }
            let standing = self.now();
            let away = tenant == Tenant::Guest && self.guest_is_away.load(Ordering::SeqCst);
            if !away && !self.down.load(Ordering::SeqCst) {
                return Some(standing);
            }
            base::thread::sleep(LOOK);
        }
    }

    /// Returns the counts at this moment.
    pub(super) fn now(&self) -> Standing {
        Standing {
            restarts: self.restarts.load(Ordering::SeqCst),
            guest_changes: self.guest_changes.load(Ordering::SeqCst),
        }
    }

    /// Names the disturbance since `since` that explains an end of a tenant's connections, if there
    /// is one.
    pub(super) fn explain(&self, since: Standing, tenant: Tenant) -> Option<&'static str> {
        let now = self.now();
        match tenant {
            _ if now.restarts != since.restarts => Some("restart"),
            Tenant::Guest if now.guest_changes != since.guest_changes => Some("tenant removed"),
            _ => None,
        }
    }

    /// The server is about to end.
    pub(super) fn goes_down(&self) {
        self.down.store(true, Ordering::SeqCst);
        self.restarts.fetch_add(1, Ordering::SeqCst);
    }

    /// The server serves again.
    pub(super) fn is_up(&self) {
        self.down.store(false, Ordering::SeqCst);
    }

    /// The tenant that comes and goes is about to go.
    pub(super) fn guest_leaves(&self) {
        self.guest_is_away.store(true, Ordering::SeqCst);
        self.guest_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// It is there.
    pub(super) fn guest_is_there(&self) {
        self.guest_is_away.store(false, Ordering::SeqCst);
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}
