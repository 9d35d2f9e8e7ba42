//! A limiter with the requests that wait before it, in the order in which they arrived.

use std::collections::VecDeque;

use limit::{Limiter, Nanos};

/// Lets requests through as its limiter has it.
#[derive(Debug, Default)]
pub(super) struct LimiterQueue {
    limiter: Limiter,
    /// Requests and the units that they need.
    waiting: VecDeque<(u32, f64)>,
    /// Time at which the first may pass, when the world returns to the limiter; `None` if none
    /// waits, or there is no such time.
    due: Option<Nanos>,
}

impl LimiterQueue {
    pub(super) fn new(limiter: Limiter) -> Self {
        Self { limiter, ..Self::default() }
    }

    /// Returns whether a request passes at once; otherwise it must [wait](Self::wait).
    #[inline]
    pub(super) fn pass(&mut self, now: Nanos, units: f64) -> bool {
        self.waiting.is_empty() && self.limiter.pass(now, units)
    }

    /// Puts a request behind the waiting ones.
    pub(super) fn wait(&mut self, request: u32, units: f64) {
        self.waiting.push_back((request, units));
    }

    /// A request that may go now, if the first one may.
    pub(super) fn next(&mut self, now: Nanos) -> Option<u32> {
        let &(request, units) = self.waiting.front()?;
        if self.limiter.ready_at(now, units) != Some(now) {
            return None;
        }
        self.waiting.pop_front();
        self.limiter.take(now, units);
        Some(request)
    }

    /// Returns the time at which the first may pass, if it differs from the last call's result.
    pub(super) fn new_due(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.waiting.front().and_then(|&(_, units)| self.limiter.ready_at(now, units));
        if due == self.due {
            return None;
        }
        self.due = due;
        due
    }

    /// Returns whether the time at which the world comes back is still that of the first request.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let is_due = self.due == Some(now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    pub(super) fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.limiter.set_rate(now, rate);
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
