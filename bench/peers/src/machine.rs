//! The machine under a measurement, and who else is using it.
//!
//! Other work on the machine is part of every figure. Before each measurement the bench waits a
//! while for the processors to be idle, and it writes down how much of them others took while it
//! measured.

use std::fs;

use anyhow::{Context, Result};
use base::Clock;

/// Clock ticks a second in `/proc`: 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/statm");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.with_context(|| format!("{path} has no resident pages"))? * rustix::param::page_size() as u64)
}

/// Load averages of the last 1, 5 and 15 minutes, as the kernel writes them.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Processor time that a process has used, in ticks; 0 where it is gone.
fn process_ticks(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks_of_stat(&text)
}

/// User and system ticks in the text of a `/proc/PID/stat`. The name in brackets may hold anything.
fn ticks_of_stat(text: &str) -> f64 {
    let Some((_, fields)) = text.rsplit_once(") ") else { return 0.0 };
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// Ticks that processors were busy, all together, in the text of `/proc/stat`.
fn busy_of_stat(text: &str) -> f64 {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("cpu ")) else { return 0.0 };
    let fields: Vec<f64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, [idle, iowait,] irq, softirq, steal
    let at = |i: usize| fields.get(i).copied().unwrap_or(0.0);
    at(0) + at(1) + at(2) + at(5) + at(6) + at(7)
}

fn busy_ticks() -> f64 {
    busy_of_stat(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Watches how processors are used during a measurement.
pub(crate) struct Watch {
    pids: Vec<u32>,
    start_nanos: u64,
    busy: f64,
    ours: Vec<f64>,
}

/// The use of processors during a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// The share of all processors that was used by others.
    pub(crate) foreign: f64,
    /// Processor time of the first watched process, in seconds.
    pub(crate) first_secs: f64,
}

impl Watch {
    /// Starts to watch; `pids` and this process are not others.
    pub(crate) fn start(pids: &[u32]) -> Self {
        let pids: Vec<u32> = pids.iter().copied().chain([std::process::id()]).collect();
        let ours = pids.iter().map(|pid| process_ticks(*pid)).collect();
        Self { pids, start_nanos: Clock::System.monotonic_nanos(), busy: busy_ticks(), ours }
    }

    /// Returns the usage since the start.
    pub(crate) fn stop(self) -> Usage {
        let ours: Vec<f64> =
            self.pids.iter().zip(&self.ours).map(|(pid, before)| process_ticks(*pid) - before).collect();
        let busy = busy_ticks() - self.busy;
        let wall = (Clock::System.monotonic_nanos() - self.start_nanos) as f64 / 1e9;
        let all = wall * TICKS * base::thread::available_cpus() as f64;
        let foreign = (busy - ours.iter().sum::<f64>()).max(0.0) / all.max(1.0);
        Usage { foreign: foreign.min(1.0), first_secs: ours.first().copied().unwrap_or(0.0) / TICKS }
    }
}

/// Waits for idle processors, up to a limit that shrinks while waiting is in vain.
pub(crate) struct Patience {
    limit_ms: u64,
    in_vain: u32,
}

/// Duration of one look at the processors, in milliseconds.
const LOOK_MS: u64 = 60;

impl Patience {
    /// Patience for `limit_ms` milliseconds before each measurement.
    pub(crate) fn new(limit_ms: u64) -> Self {
        Self { limit_ms, in_vain: 0 }
    }

    /// Waits until others leave the processors alone, or until patience ends.
    pub(crate) fn wait(&mut self) {
        let mut left = self.limit_ms >> self.in_vain.min(6);
        while left >= LOOK_MS {
            let before = busy_ticks();
            base::thread::sleep(std::time::Duration::from_millis(LOOK_MS));
            if busy_ticks() - before <= 1.0 {
                self.in_vain = 0;
                return;
            }
            left -= LOOK_MS;
        }
        self.in_vain += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_past_any_name() {
        let stat = "12 (a ) b) S 1 1 1 0 -1 4194304 5 0 0 0 70 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks_of_stat(stat), 100.0);
        assert_eq!(ticks_of_stat("nonsense"), 0.0);
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(busy_of_stat("cpu  10 1 5 1000 50 2 3 4 0 0\ncpu0 1 1 1 1\n"), 25.0);
        assert_eq!(busy_of_stat(""), 0.0);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes(std::process::id()).expect("statm") > 100_000);
    }
}
