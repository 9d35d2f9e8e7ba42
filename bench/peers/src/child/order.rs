//! The messages between the parent and a child.

use serde::{Deserialize, Serialize};

use crate::contestant::Spec;
use crate::keys::Spread;

/// A task for a child.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Draw the order of a spread over this many keys, this long; before the cache is built, so
    /// that it counts with the process and not with the cache.
    Draw {
        /// Keys that are asked for.
        keys: u32,
        /// Length of the order.
        length: usize,
        /// Distribution of requests over keys.
        spread: Spread,
    },
    /// Build an empty cache. What is resident now counts as the process itself.
    Build(Spec),
    /// Insert keys that are not there: from number 0 on, or keys that are never asked for.
    Fill {
        /// True for keys that are never asked for.
        fresh: bool,
        /// Number of keys.
        count: u64,
    },
    /// Say what is held.
    Count,
    /// Say what memory is spent on.
    Bill,
    /// Measure.
    Measure(Plan),
    /// Ask for keys by Zipf and insert what is missed; count hits after `warm_up` requests.
    LookAside {
        /// Keys that are asked for.
        keys: u32,
        /// Requests that are not counted.
        warm_up: u64,
        /// Requests that are.
        requests: u64,
    },
    /// Measure how long a load takes that depends on the one before, in a region of this size.
    Chase {
        /// Size of the region, in bytes.
        bytes: u64,
        /// Loads.
        steps: u64,
    },
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The operation that is timed.
    pub(crate) task: Task,
    /// Number of threads, each pinned to its processor.
    pub(crate) threads: usize,
    /// Distribution of requests over keys.
    pub(crate) spread: Spread,
    /// For how long, in milliseconds.
    pub(crate) millis: u64,
}

/// The operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Find a key that is there, and read a byte of its value. Finds are independent, so that the
    /// processor overlaps them as far as it can.
    Find,
    /// The same, but which key is next depends on the value: the time from one find to the next.
    FindNext,
    /// The same as [`Task::Find`] with batches of keys.
    FindMany,
    /// Find, and copy the value out.
    Copy,
    /// Insert keys that are not there.
    Insert,
    /// Replacements in this many of a hundred operations, evenly between the finds.
    Mixed(u8),
}

impl Task {
    /// The name in tables.
    pub(crate) fn name(self) -> String {
        let name = match self {
            Self::Find => "find",
            Self::FindNext => "find, each after the last",
            Self::FindMany => "find, batches of 16",
            Self::Copy => "find and copy out",
            Self::Insert => "insert",
            Self::Mixed(replaced) => return format!("{} % find, {replaced} % replace", 100 - replaced),
        };
        name.to_owned()
    }
}

/// A child's answer to an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// The items and memory of the contestant.
    Held(Held),
    /// The result of a measurement.
    Measured(Measured),
    /// The contestant's memory by part.
    Bill(Bill),
    /// It could not be done, and why.
    Failed(String),
}

/// The items and memory of a contestant.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Items.
    pub(crate) items: u64,
    /// Resident memory that was not there before the cache was built, in bytes.
    pub(crate) resident_bytes: u64,
}

/// A cache's own account of its memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bill {
    /// The configured memory, in bytes.
    pub(crate) limit_bytes: u64,
    /// Memory of each part, in bytes.
    pub(crate) parts: Vec<(String, u64)>,
    /// Headers, keys and values of all items, in bytes.
    pub(crate) item_bytes: u64,
}

impl Bill {
    /// Returns the memory of a part, in bytes.
    pub(crate) fn part(&self, name: &str) -> u64 {
        self.parts.iter().filter(|(part, _)| part == name).map(|(_, bytes)| bytes).sum()
    }
}

/// The outcome of a measurement.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Operations of all threads.
    pub(crate) operations: u64,
    /// Number of operations that found something.
    pub(crate) hits: u64,
    /// From the first thread's start to the last one's end, in nanoseconds.
    pub(crate) wall_nanos: u64,
    /// Processor time of all threads, in nanoseconds.
    pub(crate) cpu_nanos: u64,
}

impl Measured {
    /// Millions of operations per second.
    pub(crate) fn mops(&self) -> f64 {
        self.operations as f64 * 1e3 / self.wall_nanos.max(1) as f64
    }

    /// Processor time of an operation, in nanoseconds.
    pub(crate) fn cpu_nanos_each(&self) -> f64 {
        self.cpu_nanos as f64 / self.operations.max(1) as f64
    }

    /// The share of operations that found something.
    pub(crate) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.operations.max(1) as f64
    }
}
