//! The machine under a measurement: what is done to keep it steady, and what to write beside a
//! figure.
//!
//! On a quiet virtual machine, waking the other processor costs tens of microseconds, and loopback
//! figures are several times worse than on a busy one. While `/dev/cpu_dma_latency` is held open at
//! 0 the processors do not sleep deeply, and figures can be repeated. Only root may; whether it was
//! possible is part of every report.

use std::fs::{File, OpenOptions};
use std::io::Write;

use serde::Serialize;

/// The file through which the kernel is asked to wake processors fast.
const WAKE_FILE: &str = "/dev/cpu_dma_latency";

/// Keeps processors from sleeping deeply while it lives.
#[derive(Debug)]
pub struct WakeFast(Option<File>);

impl WakeFast {
    /// Asks for it, where this process may.
    pub fn hold() -> Self {
        let held = OpenOptions::new()
            .write(true)
            .open(WAKE_FILE)
            .and_then(|mut file| file.write_all(&0_i32.to_ne_bytes()).map(|()| file));
        Self(held.ok())
    }

    /// Leaves the processors alone.
    pub fn not_held() -> Self {
        Self(None)
    }

    /// Returns whether the setting is in force.
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

/// The facts about the machine to show beside a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cpus: usize,
    /// The processor's name as the kernel has it.
    pub cpu_model: String,
    /// The kernel's release.
    pub kernel: String,
    /// True if processors were kept from sleeping deeply during the run.
    pub wakes_fast: bool,
    /// The processors to which the bench's threads were pinned, in the order of the threads.
    pub pinned_to: Option<Vec<usize>>,
}

impl Machine {
    /// Looks at this machine.
    pub fn here(wake: &WakeFast, pinned_to: Option<Vec<usize>>) -> Self {
        let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpus: base::thread::available_cpus(),
            cpu_model: model.map_or_else(|| "unknown".into(), |(_, name)| name.trim().into()),
            kernel: kernel.trim().into(),
            wakes_fast: wake.is_held(),
            pinned_to,
        }
    }

    /// Returns a caution for the reader of a figure, as a sentence.
    pub fn caution(&self) -> Option<&'static str> {
        (!self.wakes_fast).then_some(
            "processors were allowed to sleep (no access to /dev/cpu_dma_latency): figures over sockets may be \
             several times too low and do not repeat",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_may_sleep_is_said_to() {
        let machine = Machine::here(&WakeFast::not_held(), Some(vec![1]));
        assert!(machine.cpus > 0 && !machine.kernel.is_empty());
        assert!(machine.caution().is_some());
        assert!(Machine { wakes_fast: true, ..machine }.caution().is_none());
    }
}
