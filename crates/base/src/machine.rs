//! The machine: the memory available to the process, on it or in its container, its name, and the
//! limit on open files.

use std::fs;

/// Bytes of memory: the machine's, or the container's limit if that is lower. 1 GiB if neither can
/// be read.
pub fn memory_bytes() -> u64 {
    let machine = meminfo("MemTotal:");
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

/// The machine's memory and swap space together, in bytes. `None` if the system does not report
/// them.
pub fn total_bytes() -> Option<u64> {
    Some(meminfo("MemTotal:")?.saturating_add(meminfo("SwapTotal:").unwrap_or(0)))
}

/// The name of this machine, `localhost` if it has none: the same for all programs that ask.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// Raises the limit on open files to `wanted` or as near as the hard limit allows, and returns the
/// new limit.
pub fn raise_open_files(wanted: u64) -> u64 {
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

fn meminfo(label: &str) -> Option<u64> {
    parse_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, label)
}

fn parse_meminfo(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(label))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Makes the allocator return its free memory to the system, if it is glibc's, which may keep that
/// memory for a long time. Takes time that grows with the heap, so call it rarely.
pub fn give_free_heap_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: the call takes no pointer, and changes no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_kib() {
        let text = "MemTotal:       24576 kB\nMemFree: 1 kB\nSwapTotal: 2 kB\n";
        assert_eq!(parse_meminfo(text, "MemTotal:"), Some(24576 * 1024));
        assert_eq!(parse_meminfo(text, "SwapTotal:"), Some(2048));
        assert_eq!(parse_meminfo("MemFree: 1 kB\n", "MemTotal:"), None);
        assert_eq!(parse_meminfo("MemTotal: x kB\n", "MemTotal:"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(memory_bytes() > 1 << 20);
        assert!(total_bytes().is_some_and(|total| total >= memory_bytes()));
    }

    #[test]
    fn the_limit_on_open_files_is_raised_and_never_lowered() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile);
        let current = before.current.expect("a limit");
        assert_eq!(raise_open_files(16), current.max(16));
        let wanted = before.maximum.map_or(current + 1, |most| most.min(current + 1));
        assert_eq!(raise_open_files(current + 1), wanted);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(wanted));
    }
}
