//! One thread's load on a cache inside the process.

use workload::value::{Values, is_value_of};
use workload::{OpKind, Operation};

use super::pace::wait_until;
use super::source::Phase;
use super::tally::{Outcome, Tally};
use crate::targets::DirectSession;

/// A thread's session and buffers.
pub(crate) struct DirectThread<S> {
    session: S,
    values: Values,
    key: Vec<u8>,
    /// The keys and operations of a batch of reads.
    keys: Vec<Vec<u8>>,
    batch: Vec<Operation>,
}

impl<S: DirectSession> DirectThread<S> {
    pub(crate) fn new(session: S, largest_value: usize) -> Self {
        Self {
            session,
            values: Values::new(largest_value),
            key: Vec::new(),
            keys: Vec::new(),
            batch: Vec::new(),
        }
    }

    /// Drives a phase to its end.
    pub(crate) fn drive(&mut self, phase: &mut Phase<'_>) -> Tally {
        let mut tally = Tally::default();
        let start = phase.clock.monotonic_nanos();
        if phase.pace.is_some() {
            self.open_loop(phase, &mut tally);
        } else if phase.pipeline > 1 {
            self.batches(phase, &mut tally);
        } else {
            self.closed_loop(phase, &mut tally);
        }
        tally.nanos = phase.clock.monotonic_nanos() - start;
        tally
    }

    fn closed_loop(&mut self, phase: &mut Phase<'_>, tally: &mut Tally) {
        while let Some(operation) = phase.next() {
            if phase.is_timed() {
                let before = phase.clock.monotonic_nanos();
                let outcome = self.execute(&operation);
                tally.count(&operation, outcome, Some(phase.clock.monotonic_nanos() - before));
                self.after(phase, &operation, outcome, tally);
            } else {
                let outcome = self.execute(&operation);
                tally.count(&operation, outcome, None);
                self.after(phase, &operation, outcome, tally);
            }
        }
    }

    /// Latency runs from the due time, so that an operation that had to wait for an earlier one is
    /// charged for it.
    fn open_loop(&mut self, phase: &mut Phase<'_>, tally: &mut Tally) {
        while let Some(due) = phase.pace.as_ref().map(super::pace::Pace::due) {
            if due >= phase.deadline {
                return;
            }
            wait_until(&phase.clock, due);
            let Some(operation) = phase.next() else { return };
            let outcome = self.execute(&operation);
            tally.count(&operation, outcome, Some(phase.clock.monotonic_nanos().saturating_sub(due)));
            self.after(phase, &operation, outcome, tally);
            if let Some(pace) = &mut phase.pace {
                pace.advance();
            }
        }
    }

    /// Reads that follow each other go to the cache together, up to the depth of the pipeline.
    fn batches(&mut self, phase: &mut Phase<'_>, tally: &mut Tally) {
        let mut held = None;
        loop {
            self.batch.clear();
            let mut timed = false;
            while self.batch.len() < phase.pipeline {
                let Some(operation) = held.take().or_else(|| phase.next()) else { break };
                timed |= phase.is_timed();
                let follows = self.batch.last().is_none_or(|last| {
                    last.kind == OpKind::Get && operation.kind == OpKind::Get && last.pool == operation.pool
                });
                if !follows {
                    held = Some(operation);
                    break;
                }
                self.batch.push(operation);
            }
            let Some(first) = self.batch.first().copied() else { return };
            let before = if timed { phase.clock.monotonic_nanos() } else { 0 };
            if first.kind == OpKind::Get && self.batch.len() > 1 {
                let latency = |clock: &base::Clock| timed.then(|| clock.monotonic_nanos() - before);
                let outcomes = self.get_batch(first.pool);
                let nanos = latency(&phase.clock);
                for (i, outcome) in outcomes.into_iter().enumerate() {
                    let operation = self.batch[i];
                    tally.count(&operation, outcome, nanos);
                    self.after(phase, &operation, outcome, tally);
                }
            } else {
                let outcome = self.execute(&first);
                let nanos = timed.then(|| phase.clock.monotonic_nanos() - before);
                tally.count(&first, outcome, nanos);
                self.after(phase, &first, outcome, tally);
            }
        }
    }

    fn get_batch(&mut self, pool: u16) -> Vec<Outcome> {
        self.keys.resize_with(self.keys.len().max(self.batch.len()), Vec::new);
        for (operation, key) in self.batch.iter().zip(&mut self.keys) {
            operation.write_key(key);
        }
        let keys: Vec<&[u8]> = self.keys.iter().take(self.batch.len()).map(Vec::as_slice).collect();
        let mut outcomes = vec![Outcome::Miss; keys.len()];
        let batch = &self.batch;
        self.session.get_many(pool, &keys, |i, value| {
            outcomes[i] = if is_value_of(&batch[i], value) { Outcome::Hit } else { Outcome::WrongValue };
        });
        outcomes
    }

    #[inline]
    fn execute(&mut self, operation: &Operation) -> Outcome {
        operation.write_key(&mut self.key);
        let found = |found| if found { Outcome::Done } else { Outcome::NotFound };
        match operation.kind {
            OpKind::Get => {
                let mut right = true;
                let seen = |value: &[u8]| right = is_value_of(operation, value);
                match (self.session.get(operation.pool, &self.key, seen), right) {
                    (false, _) => Outcome::Miss,
                    (true, true) => Outcome::Hit,
                    (true, false) => Outcome::WrongValue,
                }
            }
            OpKind::Set => {
                let value = self.values.of(operation);
                let stored = self.session.set(operation.pool, &self.key, value, operation.ttl_secs);
                if stored { Outcome::Done } else { Outcome::Refused }
            }
            OpKind::Delete => found(self.session.delete(operation.pool, &self.key)),
            OpKind::Touch => found(self.session.touch(operation.pool, &self.key, operation.ttl_secs)),
        }
    }

    /// Look-aside: what was not there is written.
    #[inline]
    fn after(&mut self, phase: &Phase<'_>, operation: &Operation, outcome: Outcome, tally: &mut Tally) {
        if phase.look_aside && outcome == Outcome::Miss {
            operation.write_key(&mut self.key);
            let value = self.values.of(operation);
            let stored = self.session.set(operation.pool, &self.key, value, operation.ttl_secs);
            tally.count_fill(operation, stored);
        }
    }
}
