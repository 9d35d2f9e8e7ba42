//! The report of a check: each violation in words with the calls that prove it, and the figures of
//! the run.

use std::fmt::{self, Write as _};

use serde::Serialize;
use workload::OpKind;

use super::admin::AdminCalls;
use super::lives::{Life, Wrong};
use super::record::{Answer, CallKind, Record};
use super::value::Stamp;

/// Most calls that a report of one violation shows.
const MOST_SHOWN: usize = 30;

/// The kind of a violation.
pub(crate) enum ViolationKind {
    /// No order of the calls explains the answers.
    Order(Wrong),
    /// A value is not whole; its size.
    Damaged(usize),
    /// A value is that of another key.
    OtherKey(Stamp),
    /// A value changed while its handle was held; its version.
    HeldChanged(u64),
}

/// The history of a key at the moment of a violation.
pub(crate) struct Place<'a> {
    pub(crate) key: u64,
    pub(crate) recent: Vec<Record>,
    pub(crate) under_way: &'a [Record],
}

/// Something that a cache may not do, and the calls that prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The kind, as one word: `torn`, `other-key`, `stale`, `resurrected`, `never-written`,
    /// `refused-but-seen`, `expired`, `nothing-there` or `held-changed`.
    pub kind: &'static str,
    /// The number of the key.
    pub key: u64,
    /// The key as the cache knows it; filled in by who knows its size.
    pub key_text: String,
    /// A description of the violation, as a sentence.
    pub what: String,
    /// The calls on the key around it, in the order in which they began, with logical times of
    /// begin and end.
    pub calls: Vec<String>,
}

impl Violation {
    pub(crate) fn new(kind: &ViolationKind, record: Record, place: Place<'_>) -> Self {
        let (name, what, proof) = match kind {
            ViolationKind::Order(wrong) => (wrong.name(), explain(wrong, record), proof(wrong)),
            ViolationKind::Damaged(size) => {
                let what = format!("a get returned {size} bytes whose checksum is wrong");
                ("torn", what, Vec::new())
            }
            ViolationKind::OtherKey(stamp) => {
                let what = format!("a get returned v{} of key number {}", stamp.version, stamp.key);
                ("other-key", what, Vec::new())
            }
            ViolationKind::HeldChanged(version) => (
                "held-changed",
                format!("the bytes of v{version} changed while a handle held it"),
                Vec::new(),
            ),
        };
        Self { kind: name, key: place.key, key_text: String::new(), what, calls: calls(record, proof, place) }
    }
}

/// The calls that prove it, beside the last ones.
fn proof(wrong: &Wrong) -> Vec<Record> {
    match wrong {
        Wrong::Gone(life) => [Some(life.written), life.ended_by].into_iter().flatten().collect(),
        Wrong::Expired(life, _) | Wrong::RefusedButSeen(life) => vec![life.written],
        Wrong::NeverWritten(_) | Wrong::LongGone(_) | Wrong::NothingWasThere => Vec::new(),
    }
}

fn explain(wrong: &Wrong, record: Record) -> String {
    match wrong {
        Wrong::NeverWritten(version) => format!("a get returned v{version}, which nobody has begun to write"),
        Wrong::LongGone(version) => format!(
            "a get returned v{version}, which was refused, or replaced or gone before the get began at {} and even \
             before all calls that were under way then",
            record.begin
        ),
        Wrong::Gone(life) => gone(life),
        Wrong::Expired(life, now) => format!(
            "a get that began at Unix second {now} or later returned v{}, which had expired by then",
            life.version
        ),
        Wrong::NothingWasThere => {
            let call = if record.kind == CallKind::Touch { "touch" } else { "delete" };
            format!("a {call} says that something was there, but every version was gone before it began")
        }
        Wrong::RefusedButSeen(life) => {
            format!("v{} was returned by a get, but its set was refused", life.version)
        }
    }
}

fn gone(life: &Life) -> String {
    let by = match life.ended_by {
        Some(by) if by.kind == CallKind::Set => format!("v{} was written", by.version),
        Some(by) if by.kind == CallKind::Get && by.answer == Answer::Value => {
            format!("v{} was there", by.version)
        }
        Some(by) if by.kind == CallKind::Get => "a get had found nothing".to_owned(),
        Some(by) if by.kind == CallKind::Delete => "it was deleted".to_owned(),
        Some(by) if by.kind == CallKind::Flush => "all keys were flushed".to_owned(),
        _ => "nothing was there".to_owned(),
    };
    format!(
        "v{} was there by {}, and no longer at {}, because after it {by}; yet a get that began at {} returned it",
        life.version, life.first_end, life.dead_after, life.last_begin
    )
}

/// The calls in the order in which they began: those that prove it, and the last ones before it.
fn calls(record: Record, proof: Vec<Record>, place: Place<'_>) -> Vec<String> {
    let mut all: Vec<Record> = place.recent;
    all.extend(place.under_way);
    let since = proof.iter().map(|call| call.begin).min().unwrap_or(0);
    all.retain(|call| call.end >= since);
    all.extend(&proof);
    all.push(record);
    all.sort_by_key(|call| (call.begin, call.end));
    all.dedup_by_key(|call| call.begin);
    // What proves it stays; of the others, the latest.
    let mut spare = all.len().saturating_sub(MOST_SHOWN);
    let is_proof = |call: &Record| call.begin == record.begin || proof.iter().any(|p| p.begin == call.begin);
    all.retain(|call| {
        let dropped = spare > 0 && !is_proof(call);
        spare -= usize::from(dropped);
        !dropped
    });
    all.iter()
        .map(|call| {
            let mark = if call.begin == record.begin {
                "=> "
            } else if is_proof(call) {
                " * "
            } else {
                "   "
            };
            format!("{mark}{call}")
        })
        .collect()
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "VIOLATION    {}: {}", self.kind, self.what)?;
        writeln!(f, "key          number {}, `{}`", self.key, self.key_text)?;
        writeln!(f, "calls on it  [begin, end] in logical time; * proves it, => is the call that is wrong")?;
        for call in &self.calls {
            writeln!(f, "  {call}")?;
        }
        Ok(())
    }
}

/// The figures and violations of a check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The preset or declaration.
    pub name: String,
    /// The cache under test.
    pub target: String,
    /// The workload in words.
    pub workload: String,
    /// The seed of the run.
    pub seed: u64,
    /// Calling threads.
    pub threads: usize,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Calls that were made and checked.
    pub operations: u64,
    /// Gets, sets, deletes and touches.
    pub kinds: Vec<(&'static str, u64)>,
    /// Gets that found something.
    pub hits: u64,
    /// Sets that were refused.
    pub refused: u64,
    /// Values that were held for a while and looked at again.
    pub held_values: u64,
    /// Disturbances of the cache during the run.
    pub disturbances: Disturbances,
    /// Operations of an administrator during the run, if one was asked for.
    pub administration: Vec<AdminCalls>,
    /// Items that were evicted, where the target tells.
    pub evictions: Option<u64>,
    /// Number of calls at which the planted fault struck, if one was planted.
    pub planted: Option<u64>,
    /// Parts of the preset's original that have no equivalent here.
    pub not_expressed: Vec<String>,
    /// The violations; empty if the check found none.
    pub violations: Vec<Violation>,
}

/// Disturbances of the cache while it was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disturbances {
    /// Pool limits that were moved.
    pub pool_limits: u64,
    /// Memory limits that were moved.
    pub memory_limits: u64,
    /// Limits that could not be reached at once, because values were held.
    pub unreached: u64,
    /// Slabs that size classes traded.
    pub slabs_traded: u64,
    /// Flushes of all keys.
    pub flushes: u64,
    /// Times that the cache ended and was taken over again.
    pub restarts: u64,
    /// Seconds by which the cache's clock was moved forward, where it is moved by hand.
    pub clock_secs: u64,
}

impl Disturbances {
    /// Adds what was done in another part of the run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.pool_limits += other.pool_limits;
        self.memory_limits += other.memory_limits;
        self.unreached += other.unreached;
        self.slabs_traded += other.slabs_traded;
        self.flushes += other.flushes;
        self.restarts += other.restarts;
        self.clock_secs += other.clock_secs;
    }
}

impl CheckReport {
    pub(crate) fn name_kinds(done: [u64; OpKind::ALL.len()]) -> Vec<(&'static str, u64)> {
        OpKind::ALL.iter().zip(done).map(|(kind, done)| (kind.name(), done)).collect()
    }

    /// Returns whether the check found no violation.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "check        {}", self.name)?;
        writeln!(f, "target       {}", self.target)?;
        writeln!(f, "workload     {}", self.workload)?;
        let rate = self.operations as f64 / self.seconds.max(1e-9);
        writeln!(
            f,
            "checked      {} calls by {} threads in {:.1} s ({rate:.0}/s), seed {}",
            self.operations, self.threads, self.seconds, self.seed
        )?;
        let mut kinds = String::new();
        for (kind, done) in &self.kinds {
            write!(kinds, "{done} {kind}, ")?;
        }
        write!(f, "calls        {kinds}{} hits, {} refused", self.hits, self.refused)?;
        writeln!(f, ", {} values held and looked at again", self.held_values)?;
        let done = &self.disturbances;
        write!(
            f,
            "meanwhile    {} pool limits and {} memory limits moved ({} not reached at once), {} slabs traded, {} flushes, {} restarts, clock moved by {} s",
            done.pool_limits,
            done.memory_limits,
            done.unreached,
            done.slabs_traded,
            done.flushes,
            done.restarts,
            done.clock_secs
        )?;
        match self.evictions {
            Some(evictions) => writeln!(f, ", {evictions} evictions")?,
            None => writeln!(f)?,
        }
        for calls in &self.administration {
            writeln!(
                f,
                "administered {:<24} {} calls, {} refused, mean {:.2} ms, slowest {:.1} ms: ran {:.1}, waited {:.1} for a processor, {:.1} otherwise",
                calls.operation,
                calls.calls,
                calls.refused,
                calls.total_ms / calls.calls.max(1) as f64,
                calls.slowest_ms,
                calls.slowest_ran_ms,
                calls.slowest_queued_ms,
                (calls.slowest_ms - calls.slowest_ran_ms - calls.slowest_queued_ms).max(0.0)
            )?;
        }
        if let Some(planted) = self.planted {
            writeln!(f, "planted      the fault struck {planted} times")?;
        }
        for note in &self.not_expressed {
            writeln!(f, "not covered  {note}")?;
        }
        if self.is_clean() {
            writeln!(f, "result       nothing wrong was found")?;
        }
        for violation in &self.violations {
            write!(f, "{violation}")?;
        }
        Ok(())
    }
}
