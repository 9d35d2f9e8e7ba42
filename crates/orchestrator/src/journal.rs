//! The records that are not saved yet, in order.
//!
//! A store takes time, and may fail without saying whether it has saved. So records wait here, and
//! a call that depends on them has a *ticket*: the call may be made once everything up to the
//! ticket is saved.
//!
//! Invariants:
//! 1. A ticket is saved only after every record that was added up to it, or a later one of the same
//!    key, has reached the store.
//! 2. One batch is under way at a time: a store that is asked to save a batch has finished the last
//!    one, or can never carry it out any more.

use std::collections::BTreeMap;

use crate::exchange::{Key, Record};

/// The records to save, by key.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Each with the ticket that it was added by.
    pending: BTreeMap<Key, (u64, Option<Record>)>,
    last: u64,
    progress: Progress,
}

/// The tickets that are saved, and those for which an attempt has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Everything up to this ticket is saved.
    pub(crate) saved: u64,
    /// Everything up to this ticket was in an attempt that has ended.
    pub(crate) tried: u64,
}

impl Progress {
    /// The outcome for a ticket; `None`: not known yet.
    pub(crate) fn of(self, ticket: u64) -> Option<bool> {
        (ticket <= self.tried.max(self.saved)).then_some(ticket <= self.saved)
    }
}

/// Records that are saved together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    up_to: u64,
    /// At most one of each key; `None`: the former one is deleted.
    pub(crate) records: Vec<(Key, Option<Record>)>,
}

impl Journal {
    /// Adds records, and returns the ticket for everything that was added so far.
    pub(crate) fn add(&mut self, records: Vec<(Key, Option<Record>)>) -> u64 {
        // After a failure, whoever depends on the records waits for another attempt.
        if !records.is_empty() || !self.pending.is_empty() {
            self.last += 1;
        }
        let ticket = self.last;
        self.pending.extend(records.into_iter().map(|(key, record)| (key, (ticket, record))));
        ticket
    }

    /// The tickets so far.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// The records to save now; `None`: there are none.
    pub(crate) fn batch(&self) -> Option<Batch> {
        let records = self.pending.iter().map(|(key, (_, record))| (key.clone(), record.clone()));
        (!self.pending.is_empty()).then(|| Batch { up_to: self.last, records: records.collect() })
    }

    /// Notes the end of the attempt to save a batch. After a failure, which may have saved all the
    /// same, its records remain to be saved.
    pub(crate) fn note(&mut self, batch: &Batch, is_saved: bool) {
        self.progress.tried = self.progress.tried.max(batch.up_to);
        if is_saved {
            self.pending.retain(|_, (ticket, _)| *ticket > batch.up_to);
            // A ticket that was drawn meanwhile without records waited for these alone.
            let up_to = if self.pending.is_empty() { self.last } else { batch.up_to };
            self.progress.saved = self.progress.saved.max(up_to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::Instance;

    fn record(name: &str, held_bytes: u64) -> (Key, Option<Record>) {
        let instance = Instance { name: name.to_owned(), ..Instance::default() };
        let key = Key::of(&instance);
        (key, Some(Record { instance, session: 1, address: String::new(), held_bytes }))
    }

    fn held(batch: &Batch) -> Vec<u64> {
        batch.records.iter().flat_map(|(_, record)| record.as_ref().map(|record| record.held_bytes)).collect()
    }

    #[test]
    fn a_ticket_is_saved_once_all_before_it_are() {
        let mut journal = Journal::default();
        assert_eq!((journal.add(Vec::new()), journal.progress().of(0)), (0, Some(true)));
        let first = journal.add(vec![record("a", 1), record("b", 1)]);
        let batch = journal.batch().expect("there are some");
        // Added while the first ones are under way.
        let second = journal.add(vec![record("a", 2)]);
        assert_eq!((journal.progress().of(first), journal.progress().of(second)), (None, None));
        journal.note(&batch, true);
        assert_eq!((journal.progress().of(first), journal.progress().of(second)), (Some(true), None));
        let batch = journal.batch().expect("the later one of a");
        assert_eq!(held(&batch), [2]);
        journal.note(&batch, true);
        assert!(journal.batch().is_none());
        assert_eq!((journal.add(Vec::new()), journal.progress().of(second)), (second, Some(true)));
    }

    #[test]
    fn a_ticket_without_records_waits_for_those_that_are_under_way() {
        let mut journal = Journal::default();
        journal.add(vec![record("a", 1)]);
        let batch = journal.batch().expect("there is one");
        let ticket = journal.add(Vec::new());
        assert_eq!(journal.progress().of(ticket), None);
        journal.note(&batch, true);
        assert_eq!(journal.progress().of(ticket), Some(true));
    }

    #[test]
    fn records_of_a_failed_attempt_are_saved_with_the_next() {
        let mut journal = Journal::default();
        let first = journal.add(vec![record("a", 1)]);
        let batch = journal.batch().expect("there is one");
        journal.note(&batch, false);
        assert_eq!(journal.progress().of(first), Some(false));
        let second = journal.add(Vec::new());
        assert_eq!(journal.progress().of(second), None, "it depends on the record of before");
        let batch = journal.batch().expect("it is there still");
        journal.note(&batch, true);
        assert_eq!((journal.progress().of(second), held(&batch)), (Some(true), vec![1]));
    }
}
