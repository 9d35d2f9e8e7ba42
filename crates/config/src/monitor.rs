//! When memory is given back and taken back: [`millpond::monitor`].

use std::time::Duration;

use base::ByteSize;
use millpond::monitor::{Mode, MonitorConfig};

use super::MonitorMode;

settings! {
    /// When memory is given back and taken back: [`millpond::monitor`].
    pub struct MonitorSettings in "monitor." {
        /// The memory that is monitored, so that the cache gives memory back when the machine or
        /// container is short of it (docs/memory-monitor.md): "off", "free-memory" (of the
        /// machine), "resident-memory" (of this process) or "cgroup".
        online mode: MonitorMode = MonitorMode::Off;

        /// Milliseconds between two checks.
        online interval_millis: u32 = MonitorConfig::default().interval.as_millis() as u32;

        /// Below this much available memory the cache gives memory back; below this much resident
        /// memory it retakes memory.
        online lower_bytes: ByteSize = MonitorConfig::default().lower;

        /// Above this much available memory the cache retakes memory; above this much resident
        /// memory it gives memory back.
        online upper_bytes: ByteSize = MonitorConfig::default().upper;

        /// Amount given back at once, in percent of the distance between lower and upper.
        online give_percent: u32 = MonitorConfig::default().give_percent;

        /// Amount retaken at once, in percent of the distance between lower and upper.
        online take_percent: u32 = MonitorConfig::default().take_percent;

        /// The most memory given back, in percent of `memory`.
        online max_given_percent: u32 = MonitorConfig::default().max_given_percent;

        /// Seconds over which the rate of decline of memory is measured, by which retaking is
        /// slowed. 0: not slowed.
        online take_window_secs: u32 = MonitorConfig::default().take_window.as_secs() as u32;

        /// In mode "cgroup": memory is given back while tasks waited for memory for more than this
        /// percentage of the last ten seconds (PSI). 0: pressure is not read.
        online max_pressure_percent: f64 =
            MonitorConfig::default().max_pressure_percent.unwrap_or(0.0);
    }
}

impl MonitorSettings {
    /// As the engine wants it; `None` = there is no monitor.
    pub fn engine(&self) -> Option<MonitorConfig> {
        let mode = match self.mode {
            MonitorMode::Off => return None,
            MonitorMode::FreeMemory => Mode::FreeMemory,
            MonitorMode::ResidentMemory => Mode::ResidentMemory,
            MonitorMode::Cgroup => Mode::Cgroup,
        };
        Some(MonitorConfig {
            mode,
            interval: Duration::from_millis(self.interval_millis.into()),
            lower: self.lower_bytes,
            upper: self.upper_bytes,
            give_percent: self.give_percent,
            take_percent: self.take_percent,
            max_given_percent: self.max_given_percent,
            take_window: Duration::from_secs(self.take_window_secs.into()),
            max_pressure_percent: (self.max_pressure_percent != 0.0).then_some(self.max_pressure_percent),
        })
    }
}
