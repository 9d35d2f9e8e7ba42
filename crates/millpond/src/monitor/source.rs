//! Reading what the kernel tells about memory: `/proc` and the cgroup file systems of both
//! versions.
//!
//! All paths start at two roots, so that tests read folders of their own. What is read comes from
//! the kernel, but nothing is taken for granted: a file that is missing or does not read as it
//! should is an error that names it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::policy::Mode;

/// Limits of cgroup version 1 from here on mean none: the kernel writes the largest multiple of a
/// page.
const NO_LIMIT: u64 = 1 << 62;

/// The error of memory that cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The configuration makes no sense. Change it; a retry does not help.
    #[error("{0}")]
    Config(String),
    /// A file of the kernel's cannot be read. Choose a mode that does without it, or mount it.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of the kernel's does not say what it should. A retry does not help.
    #[error("{} has no {what} that can be read", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The entry that was looked for.
        what: &'static str,
    },
    /// No cgroup of this process has a memory controller. Choose another mode.
    #[error("{} names no cgroup with a memory controller below {}", path.display(), root.display())]
    NoController {
        /// The file that names this process's cgroups.
        path: PathBuf,
        /// The folder where cgroup file systems are mounted.
        root: PathBuf,
    },
    /// The cache refused the new memory, or the thread could not be started.
    #[error("{0}")]
    Cache(String),
}

/// The files that memory is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    proc: PathBuf,
    cgroups: PathBuf,
}

impl Default for Source {
    /// `/proc` and `/sys/fs/cgroup`.
    fn default() -> Self {
        Self::at("/proc", "/sys/fs/cgroup")
    }
}

/// The names that a version of cgroups has for the same things.
struct Names {
    /// Limits; the least counts.
    limits: &'static [&'static str],
    usage: &'static str,
    /// In `memory.stat`: page cache that the kernel drops first.
    inactive: &'static str,
}

const VERSION_1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};

const VERSION_2: Names =
    Names { limits: &["memory.max", "memory.high"], usage: "memory.current", inactive: "inactive_file" };

/// The memory cgroup of this process.
struct Cgroup {
    names: &'static Names,
    root: PathBuf,
    folder: PathBuf,
}

impl Source {
    /// With other roots.
    pub fn at(proc: impl Into<PathBuf>, cgroups: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), cgroups: cgroups.into() }
    }

    /// Returns the value of [`super::Readings::watched_bytes`] under a mode.
    ///
    /// # Errors
    /// [`MonitorError::Unreadable`], [`MonitorError::Malformed`]; [`MonitorError::NoController`]
    /// under [`Mode::Cgroup`].
    pub fn watched_bytes(&self, mode: Mode) -> Result<u64, MonitorError> {
        match mode {
            Mode::FreeMemory => self.machine_available_bytes(),
            Mode::ResidentMemory => self.resident_bytes(),
            Mode::Cgroup => {
                let machine = self.machine_available_bytes()?;
                Ok(self.cgroup_available_bytes()?.map_or(machine, |cgroup| cgroup.min(machine)))
            }
        }
    }

    /// Returns the memory that the machine could give to a process without swapping:
    /// `MemAvailable`.
    ///
    /// # Errors
    /// [`MonitorError::Unreadable`], [`MonitorError::Malformed`].
    pub fn machine_available_bytes(&self) -> Result<u64, MonitorError> {
        kib_after(&self.proc.join("meminfo"), "MemAvailable:")
    }

    /// Returns the memory that this process has resident: `VmRSS`.
    ///
    /// # Errors
    /// [`MonitorError::Unreadable`], [`MonitorError::Malformed`].
    pub fn resident_bytes(&self) -> Result<u64, MonitorError> {
        kib_after(&self.proc.join("self/status"), "VmRSS:")
    }

    /// Returns the memory that this process's cgroup and all above it could still use before one of
    /// them reaches its limit, the page cache that the kernel drops first not counted as used.
    /// `None`: no limit.
    ///
    /// # Errors
    /// [`MonitorError::Unreadable`], [`MonitorError::Malformed`], [`MonitorError::NoController`].
    pub fn cgroup_available_bytes(&self) -> Result<Option<u64>, MonitorError> {
        let cgroup = self.cgroup()?;
        let mut least = None::<u64>;
        let mut folder = cgroup.folder.as_path();
        loop {
            if let Some(available) = available_in(folder, cgroup.names)? {
                least = Some(least.map_or(available, |least| least.min(available)));
            }
            match folder.parent() {
                Some(above) if folder != cgroup.root => folder = above,
                _ => return Ok(least),
            }
        }
    }

    /// For how much of the last ten seconds some task waited for memory, in percent: in this
    /// process's cgroup where it is told (version 2), else on the machine.
    ///
    /// # Errors
    /// [`MonitorError::Unreadable`] where the kernel was built or started without pressure stall
    /// information; [`MonitorError::Malformed`].
    pub fn pressure_percent(&self) -> Result<f64, MonitorError> {
        let own = self.cgroup().ok().map(|cgroup| cgroup.folder.join("memory.pressure"));
        let path = own.filter(|path| path.exists()).unwrap_or_else(|| self.proc.join("pressure/memory"));
        let text = read(&path)?;
        let percent = text
            .lines()
            .find_map(|line| line.strip_prefix("some "))
            .and_then(|some| some.split_whitespace().find_map(|field| field.strip_prefix("avg10=")))
            .and_then(|value| value.parse().ok())
            .filter(|percent: &f64| percent.is_finite());
        percent.ok_or(MonitorError::Malformed { path, what: "`some avg10`" })
    }

    /// Finds the memory cgroup: in version 1 where a hierarchy has the memory controller, else in
    /// version 2. In a container the path that the kernel names may not be visible; then the root
    /// of the hierarchy is this process's own cgroup.
    fn cgroup(&self) -> Result<Cgroup, MonitorError> {
        let path = self.proc.join("self/cgroup");
        let text = read(&path)?;
        let (mut one, mut two) = (None, None);
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(cgroup)) = (fields.next(), fields.next()) else { continue };
            if controllers.split(',').any(|controller| controller == "memory") {
                one = Some(cgroup);
            } else if controllers.is_empty() {
                two = Some(cgroup);
            }
        }
        let at = |names: &'static Names, root: PathBuf, cgroup: &str| {
            // What the kernel names starts with a slash; a path with `..` lies outside of this
            // namespace.
            let below = root.join(cgroup.trim_start_matches('/'));
            let is_visible = !cgroup.contains("..") && below.join(names.usage).exists();
            let folder = if is_visible { below } else { root.clone() };
            folder.is_dir().then_some(Cgroup { names, root, folder })
        };
        let unified = self.cgroups.join("unified");
        let two_root = if unified.is_dir() { unified } else { self.cgroups.clone() };
        one.and_then(|cgroup| at(&VERSION_1, self.cgroups.join("memory"), cgroup))
            .or_else(|| two.and_then(|cgroup| at(&VERSION_2, two_root, cgroup)))
            .filter(|cgroup| {
                cgroup.folder.join(cgroup.names.usage).exists() || cgroup.folder.join("memory.stat").exists()
            })
            .ok_or(MonitorError::NoController { path, root: self.cgroups.clone() })
    }
}

/// Returns the memory that one cgroup could still use. `None`: it has no limit.
fn available_in(folder: &Path, names: &Names) -> Result<Option<u64>, MonitorError> {
    let mut limit = None::<u64>;
    for name in names.limits {
        let path = folder.join(name);
        // The root of version 2 has no limits, nor has a cgroup without the controller.
        if !path.exists() {
            continue;
        }
        let text = read(&path)?;
        let value = match text.trim() {
            "max" => continue,
            value => value.parse().map_err(|_| MonitorError::Malformed { path, what: "limit" })?,
        };
        if value < NO_LIMIT {
            limit = Some(limit.map_or(value, |limit: u64| limit.min(value)));
        }
    }
    let Some(limit) = limit else { return Ok(None) };
    let path = folder.join(names.usage);
    let usage: u64 =
        read(&path)?.trim().parse().map_err(|_| MonitorError::Malformed { path, what: "usage" })?;
    let path = folder.join("memory.stat");
    let stat = read(&path)?;
    let inactive = stat
        .lines()
        .find_map(|line| line.strip_prefix(names.inactive)?.strip_prefix(' '))
        .and_then(|value| value.trim().parse::<u64>().ok())
        .ok_or(MonitorError::Malformed { path, what: "inactive page cache" })?;
    Ok(Some(limit.saturating_sub(usage.saturating_sub(inactive))))
}

/// The number of KiB after `label`, in bytes.
fn kib_after(path: &Path, label: &'static str) -> Result<u64, MonitorError> {
    let text = read(path)?;
    text.lines()
        .find_map(|line| line.strip_prefix(label))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .and_then(|kib| kib.checked_mul(1_024))
        .ok_or(MonitorError::Malformed { path: path.to_owned(), what: label })
}

fn read(path: &Path) -> Result<String, MonitorError> {
    fs::read_to_string(path).map_err(|source| MonitorError::Unreadable { path: path.to_owned(), source })
}
