//! The proof: in one cgroup with a limit, a cache that fills most of it and a neighbour that grows
//! until both together need more than there is. With the monitor nobody is killed, and without it
//! somebody is.
//!
//! Needs to make cgroups, so it runs only when asked for (`docs/memory-monitor.md`). The cache and
//! the neighbour are processes of their own, started from this very test program. They and this
//! test talk through files in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::thread::sleep;
use millpond::monitor::{Mode, Monitor, MonitorConfig, MonitorThread, Source};
use millpond::{ByteSize, Cache, CacheConfig, ItemOptions, PoolConfig};

/// The cgroup's limit, and what the cache and the neighbour want of it, in MiB.
const LIMIT: u64 = 400;
const CACHE: u64 = 288;
const NEIGHBOUR: u64 = 240;

const MIB: u64 = 1 << 20;
/// The interval between two looks at something, and the number of looks until it is given up: two
/// minutes.
const TICK: Duration = Duration::from_millis(20);
const TICKS: u32 = 6_000;

/// Names the folder, for the other processes.
const FOLDER: &str = "MILLPOND_SQUEEZE_FOLDER";
/// Tells a process whether its cache has a monitor.
const MONITORED: &str = "MILLPOND_SQUEEZE_MONITORED";
/// The cgroup in which the proof makes its own, for whoever runs the proof. Default: below this
/// process's own memory cgroup.
const PARENT: &str = "MILLPOND_SQUEEZE_CGROUP";

/// A cgroup with a limit, which is removed in the end.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> io::Result<Self> {
        let parent = match std::env::var_os(PARENT) {
            Some(parent) => PathBuf::from(parent),
            None => own_cgroup()?,
        };
        let folder = parent.join(format!("millpond-{name}-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let cgroup = Self(folder);
        let limit = (LIMIT * MIB).to_string();
        fs::write(cgroup.file("memory.limit_in_bytes", "memory.max"), limit)?;
        Ok(cgroup)
    }

    /// The file of version 1 where there is one, else of version 2.
    fn file(&self, one: &str, two: &str) -> PathBuf {
        let path = self.0.join(one);
        if path.exists() { path } else { self.0.join(two) }
    }

    /// Returns the number of processes that were killed in it for want of memory.
    fn kills(&self) -> u64 {
        let text =
            fs::read_to_string(self.file("memory.oom_control", "memory.events")).expect("the kernel has it");
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|kills| kills.parse().ok()).expect("a count of kills")
    }

    fn peak_mib(&self) -> u64 {
        let peak =
            fs::read_to_string(self.file("memory.max_usage_in_bytes", "memory.peak")).unwrap_or_default();
        peak.trim().parse::<u64>().unwrap_or(0) / MIB
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that has just ended may still be counted.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(TICK);
        }
    }
}

/// The folder of this process's memory cgroup, of version 1.
fn own_cgroup() -> io::Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let memory = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_memory = fields.next()?.split(',').any(|controller| controller == "memory");
        is_memory.then(|| fields.next()).flatten().map(str::to_owned)
    };
    let own = text.lines().find_map(memory).ok_or_else(|| {
        io::Error::other(format!("no memory cgroup of version 1: name a parent of version 2 by {PARENT}"))
    })?;
    Ok(Path::new("/sys/fs/cgroup/memory").join(own.trim_start_matches('/')))
}

/// A process in the cgroup, which is ended in the end.
struct Member(Child);

impl Member {
    /// Starts a role: a shell joins the cgroup and becomes this program.
    fn start(cgroup: &Cgroup, role: &str, folder: &Path, monitored: bool) -> io::Result<Self> {
        let child = Command::new("/bin/sh")
            .arg("-c")
            .arg("echo $$ > \"$1/cgroup.procs\" && exec \"$2\" --ignored --exact \"$3\"")
            .arg("sh")
            .arg(&cgroup.0)
            .arg(std::env::current_exe()?)
            .arg(format!("squeeze::{role}"))
            .env(FOLDER, folder)
            .env(MONITORED, monitored.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for signals between the processes: a file that is there, with a text.
struct Signals(PathBuf);

impl Signals {
    fn of_role() -> Self {
        Self(PathBuf::from(std::env::var_os(FOLDER).expect("started by the proof")))
    }

    fn set(&self, name: &str, text: &str) {
        let draft = self.0.join(format!("{name}.draft"));
        let result = fs::write(&draft, text).and_then(|()| fs::rename(&draft, self.0.join(name)));
        result.expect("a file of our own");
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    fn mib(&self, name: &str) -> u64 {
        fs::read_to_string(self.0.join(name)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

fn wait_until(mut what: impl FnMut() -> bool) -> bool {
    for _ in 0..TICKS {
        if what() {
            return true;
        }
        sleep(TICK);
    }
    false
}

/// The events in the cgroup.
struct Seen {
    kills: u64,
    is_neighbour_alive: bool,
    is_cache_alive: bool,
    squeezed_mib: u64,
    restored_mib: u64,
    peak_mib: u64,
}

fn squeeze(name: &str, monitored: bool) -> io::Result<Seen> {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("squeeze-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let signals = Signals(folder.clone());
    let cgroup = Cgroup::new(name)?;
    let mut cache = Member::start(&cgroup, "the_cache", &folder, monitored)?;
    assert!(wait_until(|| signals.is_set("filled") || !cache.is_alive()), "the cache fills up");
    assert!(signals.is_set("filled"), "the cache has room while it is alone");
    let mut neighbour = Member::start(&cgroup, "the_neighbour", &folder, monitored)?;
    assert!(
        wait_until(|| signals.is_set("grown") || cgroup.kills() > 0),
        "the neighbour grows or somebody dies"
    );
    let mut seen = Seen {
        kills: cgroup.kills(),
        is_neighbour_alive: neighbour.is_alive(),
        is_cache_alive: cache.is_alive(),
        squeezed_mib: signals.mib("memory"),
        restored_mib: 0,
        peak_mib: cgroup.peak_mib(),
    };
    drop(neighbour);
    if seen.kills == 0 {
        wait_until(|| signals.mib("memory") == CACHE || !cache.is_alive());
        seen.restored_mib = signals.mib("memory");
        seen.is_cache_alive = cache.is_alive();
        seen.kills = cgroup.kills();
    }
    drop(cache);
    drop(cgroup);
    fs::remove_dir_all(folder)?;
    Ok(seen)
}

#[test]
#[ignore = "makes cgroups, for which it must be root: see docs/memory-monitor.md"]
fn a_neighbour_squeezes_the_cgroup_and_nobody_is_killed() {
    let with = squeeze("with", true).expect("a cgroup can be made");
    println!(
        "with the monitor: {} killed; limit {LIMIT} MiB, peak {} MiB; the cache went from {CACHE} to {} MiB while the \
         neighbour took {NEIGHBOUR}, and back to {}",
        with.kills, with.peak_mib, with.squeezed_mib, with.restored_mib
    );
    let without = squeeze("without", false).expect("a cgroup can be made");
    println!("without: {} killed; peak {} MiB", without.kills, without.peak_mib);
    assert_eq!(with.kills, 0);
    assert!(with.is_cache_alive && with.is_neighbour_alive);
    assert!(with.squeezed_mib < CACHE && with.restored_mib == CACHE);
    assert!(without.kills > 0, "the squeeze is one: without the monitor somebody is killed");
}

/// The process of the cache: fills it, says so, and goes on writing while the monitor works.
#[test]
#[ignore = "a role in the proof above, which starts it"]
fn the_cache() {
    let Some(signals) = std::env::var_os(FOLDER).map(|_| Signals::of_role()) else { return };
    let memory = ByteSize::mib(CACHE);
    let cache =
        Cache::new(CacheConfig { memory, huge_pages: false, ..CacheConfig::default() }).expect("valid");
    let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
    let put = |number: u64| {
        let options = ItemOptions::default();
        if let Ok(mut item) = cache.allocate(pool, &number.to_le_bytes(), 10_000, &options) {
            item.value_mut().fill(number as u8);
            cache.put(item);
        }
    };
    let config = MonitorConfig {
        mode: Mode::Cgroup,
        interval: TICK,
        lower: ByteSize::mib(32),
        upper: ByteSize::mib(64),
        give_percent: 50,
        take_percent: 50,
        max_given_percent: 80,
        // Version 1 tells no pressure of one cgroup, and that of the machine is not ours.
        max_pressure_percent: None,
        ..MonitorConfig::default()
    };
    let is_monitored = std::env::var(MONITORED).is_ok_and(|value| value == "true");
    let items = 2 * CACHE * MIB / 10_000;
    (0..items).for_each(put);
    let _monitor = is_monitored.then(|| {
        let monitor = Monitor::new(&cache, config, Source::default()).expect("a cgroup of our own");
        MonitorThread::start(monitor).expect("a thread")
    });
    signals.set("filled", "");
    let mut number = items;
    wait_until(|| {
        (0..200).for_each(|_| {
            number += 1;
            put(number);
        });
        signals.set("memory", &(cache.ledger().limit() / MIB).to_string());
        false
    });
}

/// The process of the neighbour: takes 4 MiB every 20 ms, says when it has all, and keeps it.
#[test]
#[ignore = "a role in the proof above, which starts it"]
fn the_neighbour() {
    let Some(signals) = std::env::var_os(FOLDER).map(|_| Signals::of_role()) else { return };
    let mut taken = Vec::new();
    for number in 0..NEIGHBOUR / 4 {
        taken.push(vec![number as u8 + 1; 4 << 20]);
        sleep(TICK);
    }
    signals.set("grown", "");
    wait_until(|| std::hint::black_box(&taken).is_empty());
}
