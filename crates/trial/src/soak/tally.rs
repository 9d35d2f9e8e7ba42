//! The counts of clients: calls, latencies, errors of each kind with an example, violations.

use std::collections::BTreeMap;

use serde::Serialize;
use workload::histogram::Latencies;

use crate::check::Violation;

/// Most violations that are kept.
const MOST_VIOLATIONS: usize = 20;

/// The counts of all clients.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) refused: u64,
    /// Reads that a client's own copy answered.
    pub(super) local_hits: u64,
    /// Copies that were told to be forgotten.
    pub(super) invalidations: u64,
    /// Copies that were held against the history.
    pub(super) audits: u64,
    pub(super) vanished: u64,
    pub(super) connections: u64,
    by_client: BTreeMap<&'static str, u64>,
    /// Since the last sample.
    pub(super) recent: Latencies,
    pub(super) latencies: Latencies,
    errors: BTreeMap<(bool, String), (u64, String)>,
    violations: Vec<Violation>,
    violations_found: u64,
}

/// Errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorKind {
    /// True if a disturbance of the server explains the errors.
    pub expected: bool,
    /// The kind.
    pub kind: String,
    /// Number of errors.
    pub count: u64,
    /// The first of them.
    pub example: String,
}

impl Tally {
    /// A client's calls that were answered together.
    pub(super) fn answered(&mut self, client: &'static str, calls: u64, nanos: u64) {
        self.operations += calls;
        *self.by_client.entry(client).or_default() += calls;
        self.recent.record(nanos);
        self.latencies.record(nanos);
    }

    pub(super) fn failed(&mut self, expected: bool, kind: impl Into<String>, example: impl Into<String>) {
        self.errors.entry((expected, kind.into())).or_insert_with(|| (0, example.into())).0 += 1;
    }

    pub(super) fn found(&mut self, violation: Violation) {
        self.violations_found += 1;
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(violation);
        }
    }

    /// Returns the numbers of expected errors and of others.
    pub(super) fn error_counts(&self) -> (u64, u64) {
        let sum = |wanted: bool| {
            let counts = self.errors.iter().filter(|((expected, _), _)| *expected == wanted);
            counts.map(|(_, (count, _))| count).sum()
        };
        (sum(true), sum(false))
    }

    pub(super) fn errors(&self) -> Vec<ErrorKind> {
        let kinds = self.errors.iter().map(|((expected, kind), (count, example))| ErrorKind {
            expected: *expected,
            kind: kind.clone(),
            count: *count,
            example: example.clone(),
        });
        kinds.collect()
    }

    pub(super) fn by_client(&self) -> Vec<(&'static str, u64)> {
        self.by_client.iter().map(|(client, calls)| (*client, *calls)).collect()
    }

    /// Those that are kept, and how many there were.
    pub(super) fn violations(&self) -> (&[Violation], u64) {
        (&self.violations, self.violations_found)
    }
}
