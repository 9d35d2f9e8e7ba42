//! The order to the maintenance thread: to look at once, or to end.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest sleep of the thread if it isn't woken.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Wakes and stops the maintenance thread.
#[derive(Default)]
pub struct Maintenance {
    order: Mutex<Order>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    None,
    Look,
    Stop,
}

impl Maintenance {
    /// Has the thread look at once.
    pub fn wake(&self) {
        self.give(Order::Look);
    }

    /// Has the thread end.
    pub fn stop(&self) {
        self.give(Order::Stop);
    }

    fn give(&self, order: Order) {
        let mut current = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != Order::Stop {
            *current = order;
        }
        drop(current);
        self.changed.notify_all();
    }

    /// Waits for an order, or for the interval to pass; false when it is to end.
    pub fn wait(&self) -> bool {
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(order, INTERVAL, |order| *order == Order::None);
        let (mut order, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *order == Order::Stop {
            return false;
        }
        *order = Order::None;
        true
    }
}
