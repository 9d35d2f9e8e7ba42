//! What the machine, or the container the process runs in, has to offer.

use std::fs;

/// Bytes of memory: the machine's, or the container's limit where that is lower. 1 GiB where neither can be read.
pub(crate) fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text));
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let container = limits
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
        .filter(|bytes| *bytes > 0)
        .min();
    match (machine, container) {
        (Some(machine), Some(container)) => machine.min(container),
        (Some(bytes), None) | (None, Some(bytes)) => bytes,
        (None, None) => 1 << 30,
    }
}

fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Raises the limit on open files to `wanted` or as near as the hard limit allows, and returns what it is then.
pub(crate) fn raise_open_files(wanted: u64) -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    limit.current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.current.unwrap_or(u64::MAX),
        Err(_) => current,
    }
}

/// Seconds of processor time in user and in system mode, with six decimals.
pub(crate) fn processor_seconds() -> (String, String) {
    let read = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The second field, the name, may hold anything; after its closing bracket come plain numbers.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
        Some((ticks.next()??, ticks.next()??))
    };
    let (user, system) = read().unwrap_or((0, 0));
    // Linux gives ticks of 1/100 s to user space on every architecture.
    let seconds = |ticks: u64| format!("{}.{:02}0000", ticks / 100, ticks % 100);
    (seconds(user), seconds(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_kib() {
        assert_eq!(parse_meminfo("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24576 * 1024));
        assert_eq!(parse_meminfo("MemFree: 1 kB\n"), None);
        assert_eq!(parse_meminfo("MemTotal: x kB\n"), None);
    }

    #[test]
    fn this_machine_has_memory_and_files() {
        assert!(memory_bytes() > 1 << 20);
        assert!(raise_open_files(16) >= 16);
    }
}
