//! The source of a thread's operations, and the end of each phase of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Clock;
use workload::{Operation, Sampler, Workload};

use super::pace::Pace;

/// Operations for one thread.
pub(crate) enum Source {
    /// Writes of all keys, shared among the threads.
    Load { workload: Arc<Workload>, next: u64, step: u64 },
    /// Draws from the workload, without end.
    Draw(Sampler),
}

impl Source {
    #[inline]
    fn next(&mut self) -> Option<Operation> {
        match self {
            Self::Draw(sampler) => Some(sampler.draw()),
            Self::Load { workload, next, step } => {
                let operation = workload.load(*next)?;
                *next += *step;
                Some(operation)
            }
        }
    }
}

/// A phase of a run, as one thread sees it.
pub(crate) struct Phase<'a> {
    pub(crate) source: &'a mut Source,
    /// Number of operations that this thread may still start.
    pub(crate) left: u64,
    /// Time after which no more operations are started, in nanoseconds of the clock.
    pub(crate) deadline: u64,
    /// Open loop, if any.
    pub(crate) pace: Option<Pace>,
    pub(crate) look_aside: bool,
    /// After how many operations to pause, and for how long.
    pub(crate) pause: Option<(u64, Duration)>,
    /// Requests in flight per connection, or calls per batch.
    pub(crate) pipeline: usize,
    /// Reads that go into one request.
    pub(crate) multi_get: usize,
    /// One operation in this many is timed, where timing costs as much as the operation.
    pub(crate) sample: u64,
    pub(crate) clock: Clock,
    pub(crate) progress: &'a AtomicU64,
    started: u64,
}

/// Operations between two looks at the clock for the end of the phase, and updates of progress.
const LOOK_EVERY: u64 = 64;

impl<'a> Phase<'a> {
    pub(crate) fn new(source: &'a mut Source, clock: Clock, progress: &'a AtomicU64) -> Self {
        Self {
            source,
            left: u64::MAX,
            deadline: u64::MAX,
            pace: None,
            look_aside: false,
            pause: None,
            pipeline: 1,
            multi_get: 1,
            sample: 1,
            clock,
            progress,
            started: 0,
        }
    }

    /// The next operation to be started; `None` once the phase is over.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Operation> {
        if self.left == 0 {
            return None;
        }
        if self.started.is_multiple_of(LOOK_EVERY) {
            self.progress.fetch_add(LOOK_EVERY, Ordering::Relaxed);
            if self.deadline != u64::MAX && self.clock.monotonic_nanos() >= self.deadline {
                self.left = 0;
                return None;
            }
        }
        if let Some((operations, time)) = self.pause
            && self.started > 0
            && self.started.is_multiple_of(operations.max(1))
        {
            base::thread::sleep(time);
        }
        let operation = self.source.next();
        self.left = if operation.is_some() { self.left - 1 } else { 0 };
        self.started += 1;
        operation
    }

    /// Returns whether no more operations will be started.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Returns whether the next operation is to be timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.started.is_multiple_of(self.sample)
    }
}
