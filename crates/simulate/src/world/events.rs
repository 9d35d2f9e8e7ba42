//! The pending events, by time, and at equal times by the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use limit::Nanos;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A client of a tenant sends a request.
    Send { tenant: u32, client: u32 },
    /// A request of an open loop arrives.
    Arrive { tenant: u32 },
    /// The first in a limiter's queue may go.
    LimiterQueue { gate: u32 },
    /// The backend has answered a request.
    Answered { request: u32 },
    /// A tenant's workload changes.
    Change { tenant: u32, change: u32 },
    /// An interval of the record ends.
    Record,
    /// A round of decisions.
    Decide,
    /// It is looked whether receivers are warm.
    Poll { migration: u32 },
}

/// A queue of events.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    planned: u64,
}

impl Events {
    pub(super) fn plan(&mut self, at: Nanos, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, event)));
    }

    pub(super) fn next(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
