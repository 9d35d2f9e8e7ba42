//! The report of a soak.

use std::fmt;

use serde::Serialize;
use workload::histogram::LatencySummary;

use super::samples::{Flatness, Sample};
use super::tally::ErrorKind;
use crate::check::Violation;

/// The report of a soak.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Names the run's random numbers.
    pub seed: u64,
    /// True if the run was interrupted before its time.
    pub interrupted: bool,
    /// Calls that were answered.
    pub operations: u64,
    /// The same by client.
    pub by_client: Vec<(&'static str, u64)>,
    /// Keys that were asked for.
    pub gets: u64,
    /// Those that were found.
    pub hits: u64,
    /// Writes that were refused.
    pub refused: u64,
    /// Reads that a client's own copy answered.
    pub local_hits: u64,
    /// Copies that clients were told to forget.
    pub invalidations: u64,
    /// Copies that were held against the history.
    pub audits: u64,
    /// Clients that left in the middle of a request.
    pub vanished: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Latency of the calls.
    pub latency: Option<LatencySummary>,
    /// Number of events, by kind.
    pub events: Vec<(String, u64)>,
    /// Processes that served one after the other.
    pub lives: u64,
    /// Errors by kind.
    pub errors: Vec<ErrorKind>,
    /// The trend of the resident memory.
    pub memory: Flatness,
    /// Open descriptors before the first client came, and after the last one left, where the server
    /// was there to be asked.
    pub open_files: (u64, Option<u64>),
    /// The process over time.
    pub samples: Vec<Sample>,
    /// Number of calls at which the planted fault struck, if one was planted.
    pub planted: Option<u64>,
    /// Violations of the histories; the first ones of them.
    pub violations: Vec<Violation>,
    /// Number of violations that were found.
    pub violations_found: u64,
}

impl SoakReport {
    /// Lists the faults in words; empty if there are none.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.violations_found > 0 {
            faults.push(format!("{} violations", self.violations_found));
        }
        let unexpected = self.errors.iter().filter(|error| !error.expected);
        match unexpected.map(|error| error.count).sum::<u64>() {
            0 => {}
            errors => faults.push(format!("{errors} errors that nothing explains")),
        }
        if self.memory.is_flat == Some(false) {
            faults.push("memory that grows".to_owned());
        }
        faults
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let early = if self.interrupted { ", ended early" } else { "" };
        writeln!(f, "soak         {} of mixed load, seed {}{early}", clock(self.seconds), self.seed)?;
        let rate = self.operations as f64 / self.seconds.max(1e-9);
        writeln!(f, "calls        {} ({rate:.0}/s), {} refused", self.operations, self.refused)?;
        let clients: Vec<String> =
            self.by_client.iter().map(|(name, calls)| format!("{name} {calls}")).collect();
        writeln!(f, "by client    {}", clients.join(", "))?;
        let ratio = self.hits as f64 * 100.0 / (self.gets as f64).max(1.0);
        writeln!(f, "gets         {}, {ratio:.1} % found", self.gets)?;
        writeln!(
            f,
            "copies       {} reads of them, {} were to be forgotten, {} held against the history",
            self.local_hits, self.invalidations, self.audits
        )?;
        writeln!(f, "connections  {} opened, {} clients vanished", self.connections, self.vanished)?;
        if let Some(latency) = &self.latency {
            writeln!(
                f,
                "latency      p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, most {:.0} us",
                latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us
            )?;
        }
        let events: Vec<String> = self.events.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        writeln!(f, "events       {}; {} processes", events.join(", "), self.lives)?;
        self.fmt_process(f)?;
        for error in &self.errors {
            let sort = if error.expected { "expected    " } else { "UNEXPECTED  " };
            writeln!(f, "{sort} {} × {}; the first: {}", error.count, error.kind, error.example)?;
        }
        if let Some(planted) = self.planted {
            writeln!(f, "planted      the fault struck {planted} times")?;
        }
        for violation in &self.violations {
            write!(f, "{violation}")?;
        }
        match &self.faults()[..] {
            [] => writeln!(f, "result       nothing wrong was found"),
            faults => writeln!(f, "result       {}", faults.join(", ")),
        }
    }
}

impl SoakReport {
    fn fmt_process(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = &self.memory;
        let verdict = match memory.is_flat {
            None => "too short for a verdict",
            Some(true) => "flat",
            Some(false) => "GROWS",
        };
        writeln!(
            f,
            "memory       {verdict}: resident without shared at most {} in the first quarter, {} in the last; slope {:+.0} KiB/h over \
             the second half, {:+.0} KiB in the longest lifetime ({} samples)",
            mib(memory.first_max_bytes),
            mib(memory.last_max_bytes),
            memory.slope_bytes_per_hour / 1024.0,
            memory.growth_bytes / 1024.0,
            memory.samples
        )?;
        if let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) {
            let shared = self.samples.iter().map(|sample| sample.shared_bytes).max().unwrap_or(0);
            let threads = self.samples.iter().map(|sample| sample.threads).max().unwrap_or(0);
            let last_files =
                self.open_files.1.map_or_else(String::new, |files| format!(", {files} after the last"));
            writeln!(
                f,
                "process      resident {} at first, {} at last; shared at most {}; at most {threads} threads; descriptors {} before \
                 the first client{last_files}",
                mib(first.resident_bytes),
                mib(last.resident_bytes),
                mib(shared),
                self.open_files.0,
            )?;
        }
        Ok(())
    }
}

pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

/// Hours, minutes and seconds.
pub(super) fn clock(secs: f64) -> String {
    let secs = secs as u64;
    format!("{}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}
