//! The decision: how much memory the cache gives back or takes back, from what was read.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use base::ByteSize;
use slab::SLAB_BYTES;

use super::source::MonitorError;

/// Least memory of a cache, in bytes.
const LEAST_MEMORY: u64 = 8 << 20;

/// The memory that is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Memory that the machine has available: `MemAvailable` of `/proc/meminfo`.
    #[default]
    FreeMemory,
    /// Memory that this process has resident: `VmRSS` of `/proc/self/status`.
    ResidentMemory,
    /// Memory that is available to this process's cgroup and all above it, and on the machine,
    /// whichever is least; and the time that tasks wait for memory (PSI).
    Cgroup,
}

/// Settings that decide when memory is given and taken back.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorConfig {
    /// The memory that is watched. Default: free memory.
    pub mode: Mode,
    /// The interval between two runs. Default 1 second; CacheLib: off.
    pub interval: Duration,
    /// Below this much available memory the cache gives back; below this much resident memory it
    /// takes back. Default 10 GiB.
    pub lower: ByteSize,
    /// Above this much available memory the cache takes back; above this much resident memory it
    /// gives back. Default 15 GiB.
    pub upper: ByteSize,
    /// Memory that is given back in one run, in percent of `upper` − `lower`. Default 5.
    pub give_percent: u32,
    /// Memory that is taken back in one run, in percent of `upper` − `lower`. Default 5.
    pub take_percent: u32,
    /// The most that may ever be given back, in percent of the cache's memory. Default 20.
    pub max_given_percent: u32,
    /// Over how long the rate is measured at which memory is getting short, by which taking back is
    /// slowed. Default 0: it is not slowed.
    pub take_window: Duration,
    /// In [`Mode::Cgroup`]: give back, and take nothing back, while in the last ten seconds some
    /// task waited for memory for more than this many percent of the time. `None` = pressure is not
    /// read. Default 10.
    pub max_pressure_percent: Option<f64>,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            interval: Duration::from_secs(1),
            lower: ByteSize::gib(10),
            upper: ByteSize::gib(15),
            give_percent: 5,
            take_percent: 5,
            max_given_percent: 20,
            take_window: Duration::ZERO,
            max_pressure_percent: Some(10.0),
        }
    }
}

impl MonitorConfig {
    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// [`MonitorError::Config`], naming the field.
    pub fn check(&self) -> Result<(), MonitorError> {
        let refuse = |what: String| Err(MonitorError::Config(what));
        if self.interval.is_zero() {
            return refuse("interval is 0: give a time, or start no monitor".to_owned());
        }
        let span = self.upper.as_u64().saturating_sub(self.lower.as_u64());
        if span < SLAB_BYTES as u64 {
            let (lower, upper) = (self.lower, self.upper);
            return refuse(format!(
                "upper is {upper} and lower {lower}: there must be a slab, 4MiB, between them"
            ));
        }
        let percents = [
            ("give_percent", self.give_percent),
            ("take_percent", self.take_percent),
            ("max_given_percent", self.max_given_percent),
        ];
        for (name, percent) in percents {
            if !(1..=100).contains(&percent) {
                return refuse(format!("{name} is {percent}: it must be from 1 to 100"));
            }
        }
        match self.max_pressure_percent {
            Some(percent) if !(percent > 0.0 && percent <= 100.0) => {
                refuse(format!("max_pressure_percent is {percent}: it must be above 0 and at most 100"))
            }
            _ => Ok(()),
        }
    }
}

/// The readings of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Readings {
    /// Available memory, or resident memory where that is watched, in bytes.
    pub watched_bytes: u64,
    /// For how much of the last ten seconds some task waited for memory, in percent, if it was
    /// read.
    pub pressure_percent: Option<f64>,
    /// Memory that the cache may use now, in bytes.
    pub memory_bytes: u64,
    /// Memory that the cache does use now, in bytes.
    pub spent_bytes: u64,
}

/// The decision of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Stay,
    /// Lower the cache's memory.
    GiveBack {
        /// Memory that this frees, in bytes: what the cache uses above its new memory. 0 if it uses
        /// less anyway and only may no longer grow so far.
        bytes: u64,
        /// Memory that the cache may use from now on, in bytes.
        memory_bytes: u64,
        /// The reason, for people.
        reason: String,
    },
    /// Raise the cache's memory.
    TakeBack {
        /// By how much, in bytes.
        bytes: u64,
        /// Memory that the cache may use from now on, in bytes.
        memory_bytes: u64,
        /// The reason, for people.
        reason: String,
    },
    /// Memory is short, and the cache has given all that it may: this should be reported to
    /// somebody, for a kill may follow.
    Exhausted {
        /// The reason, for people.
        reason: String,
    },
}

/// The supply of memory: short, plenty or enough.
enum Supply {
    Short(String),
    Plenty(String),
    Enough,
}

/// Decides by what was read, and remembers what the cache had before. No lock, clock, thread or
/// I/O.
#[derive(Clone, Debug)]
pub struct Policy {
    config: MonitorConfig,
    /// Memory of the cache when nothing is given back, in bytes.
    full_bytes: u64,
    /// Memory that was decided last, in bytes.
    memory_bytes: u64,
    rate: Rate,
}

impl Policy {
    /// A policy for a cache that has `memory` now.
    ///
    /// # Errors
    /// As for [`MonitorConfig::check`].
    pub fn new(config: MonitorConfig, memory: ByteSize) -> Result<Self, MonitorError> {
        config.check()?;
        let rate = Rate::new(&config);
        Ok(Self { config, full_bytes: memory.as_u64(), memory_bytes: memory.as_u64(), rate })
    }

    /// Returns the configuration that it decides by.
    pub fn config(&self) -> &MonitorConfig {
        &self.config
    }

    /// Returns the memory that the cache has given back so far, in bytes.
    pub fn given_bytes(&self) -> u64 {
        self.full_bytes - self.memory_bytes
    }

    /// One run. Where the cache's memory is not what was decided last, somebody else has set it,
    /// and that is from now on what the cache has when nothing is given back.
    pub fn observe(&mut self, readings: &Readings) -> Decision {
        if readings.memory_bytes != self.memory_bytes {
            self.full_bytes = readings.memory_bytes;
            self.memory_bytes = readings.memory_bytes;
        }
        self.rate.add(readings.watched_bytes);
        match self.supply(readings) {
            Supply::Short(reason) => self.give(readings, reason),
            Supply::Plenty(reason) if self.given_bytes() > 0 => self.take(reason),
            _ => Decision::Stay,
        }
    }

    fn supply(&self, readings: &Readings) -> Supply {
        let limit = self.config.max_pressure_percent.filter(|_| self.config.mode == Mode::Cgroup);
        let pressure = limit.zip(readings.pressure_percent);
        if let Some((limit, pressure)) = pressure.filter(|(limit, pressure)| pressure > limit) {
            return Supply::Short(format!(
                "tasks wait for memory {pressure:.1}% of the time, more than {limit}%"
            ));
        }
        let (watched, lower, upper) =
            (readings.watched_bytes, self.config.lower.as_u64(), self.config.upper.as_u64());
        let size = ByteSize::new(watched);
        let below = || format!("{size} {}, below {}", self.watched(), self.config.lower);
        let above = || format!("{size} {}, above {}", self.watched(), self.config.upper);
        match self.config.mode {
            Mode::ResidentMemory if watched > upper => Supply::Short(above()),
            Mode::ResidentMemory if watched < lower => Supply::Plenty(below()),
            Mode::FreeMemory | Mode::Cgroup if watched < lower => Supply::Short(below()),
            Mode::FreeMemory | Mode::Cgroup if watched > upper => Supply::Plenty(above()),
            _ => Supply::Enough,
        }
    }

    fn watched(&self) -> &'static str {
        match self.config.mode {
            Mode::FreeMemory => "are available on the machine",
            Mode::Cgroup => "are available to the cgroup",
            Mode::ResidentMemory => "are resident",
        }
    }

    /// Returns this many percent of the distance between the limits.
    fn part_of_span(&self, percent: u32) -> u64 {
        let span = self.config.upper.as_u64().saturating_sub(self.config.lower.as_u64());
        span * u64::from(percent) / 100
    }

    fn give(&mut self, readings: &Readings, reason: String) -> Decision {
        let slab = SLAB_BYTES as u64;
        let span = self.config.upper.as_u64().saturating_sub(self.config.lower.as_u64());
        let slabs = (span / slab * u64::from(self.config.give_percent) / 100).max(1);
        let most = self.full_bytes / slab * u64::from(self.config.max_given_percent) / 100 * slab;
        let least = (self.full_bytes - most).max(LEAST_MEMORY).min(self.memory_bytes);
        // Memory that the cache does not use cannot be given: what it uses is where the step
        // begins.
        let used = readings.spent_bytes.min(self.memory_bytes);
        let memory_bytes = used.saturating_sub(slabs * slab).max(least);
        if memory_bytes >= self.memory_bytes {
            let given = ByteSize::new(self.given_bytes());
            let percent = self.config.max_given_percent;
            let reason = format!("{reason}, and the cache has given {given}, all that {percent}% allow");
            return Decision::Exhausted { reason };
        }
        self.memory_bytes = memory_bytes;
        let bytes = readings.spent_bytes.saturating_sub(memory_bytes);
        Decision::GiveBack { bytes, memory_bytes, reason }
    }

    fn take(&mut self, reason: String) -> Decision {
        let slab = SLAB_BYTES as u64;
        let wanted = self.part_of_span(self.config.take_percent).max(slab);
        let slabs = self.rate.throttle(wanted) / slab;
        let bytes = (slabs * slab).min(self.given_bytes());
        if bytes == 0 {
            return Decision::Stay;
        }
        self.memory_bytes += bytes;
        Decision::TakeBack { bytes, memory_bytes: self.memory_bytes, reason }
    }
}

/// The rate at which memory is getting short, in bytes per run, over a window of runs; and how much
/// taking back is slowed by it.
#[derive(Clone, Debug)]
struct Rate {
    /// Runs; below 2 nothing is slowed.
    window: usize,
    /// True if a rise of the value is what makes memory short.
    rises: bool,
    values: VecDeque<u64>,
    per_run: i128,
}

impl Rate {
    fn new(config: &MonitorConfig) -> Self {
        let runs = config.take_window.as_millis() / config.interval.as_millis().max(1);
        let window = if config.take_window.is_zero() { 0 } else { runs.clamp(1, 1 << 20) as usize };
        Self { window, rises: config.mode == Mode::ResidentMemory, values: VecDeque::new(), per_run: 0 }
    }

    fn add(&mut self, value: u64) {
        if self.window < 2 {
            return;
        }
        self.values.push_back(value);
        let before = self.values.front().copied().unwrap_or(value);
        while self.values.len() > self.window {
            self.values.pop_front();
        }
        let rise = (i128::from(value) - i128::from(before)) / self.window as i128;
        self.per_run = if self.rises { rise } else { -rise };
    }

    /// Returns the part of `wanted` bytes that may be taken back now.
    fn throttle(&self, wanted: u64) -> u64 {
        if self.window < 2 || self.per_run < 0 {
            return wanted;
        }
        if self.values.len() < self.window {
            return 0;
        }
        u64::try_from(i128::from(wanted) - self.per_run).unwrap_or(0)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stay => f.write_str("nothing to do"),
            Self::GiveBack { bytes, memory_bytes, reason } => {
                let (bytes, memory) = (ByteSize::new(*bytes), ByteSize::new(*memory_bytes));
                write!(f, "giving {bytes} back, to {memory}: {reason}")
            }
            Self::TakeBack { bytes, memory_bytes, reason } => {
                let (bytes, memory) = (ByteSize::new(*bytes), ByteSize::new(*memory_bytes));
                write!(f, "taking {bytes} back, to {memory}: {reason}")
            }
            Self::Exhausted { reason } => f.write_str(reason),
        }
    }
}
