//! The memory monitor: what it decides, what it reads from folders of its own, and what becomes of
//! a cache.
//!
//! The proof in a real cgroup, with a neighbour that squeezes it, is in `monitor/squeeze.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use millpond::monitor::{
    Decision, Mode, Monitor, MonitorConfig, MonitorError, MonitorThread, Policy, Readings, Source,
};
use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig};

#[path = "monitor/squeeze.rs"]
mod squeeze;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn readings(watched_bytes: u64, memory_bytes: u64) -> Readings {
    Readings { watched_bytes, pressure_percent: None, memory_bytes, spent_bytes: memory_bytes }
}

/// Runs a policy over readings of a cache that uses all it may, and says what it did: negative
/// bytes were given back.
fn run(config: MonitorConfig, memory: u64, watched: &[u64]) -> Vec<i64> {
    let mut policy = Policy::new(config, ByteSize::new(memory)).expect("a valid configuration");
    let mut now = memory;
    let mut did = Vec::new();
    for watched in watched {
        did.push(match policy.observe(&readings(*watched, now)) {
            Decision::Stay => 0,
            Decision::GiveBack { bytes, memory_bytes, .. } => {
                assert_eq!(memory_bytes, now - bytes);
                now = memory_bytes;
                -(bytes as i64)
            }
            Decision::TakeBack { bytes, memory_bytes, .. } => {
                assert_eq!(memory_bytes, now + bytes);
                now = memory_bytes;
                bytes as i64
            }
            Decision::Exhausted { .. } => i64::MIN,
        });
        assert_eq!(policy.given_bytes(), memory - now);
    }
    did
}

const STEP: i64 = 256 * MIB as i64;

#[test]
fn the_defaults_move_256_mib_between_10_and_15_gib() {
    let cases = [
        (10 * GIB - 1, -STEP),
        (10 * GIB, 0),
        (12 * GIB, 0),
        (15 * GIB, 0),
        // Nothing was given.
        (15 * GIB + 1, 0),
    ];
    for (available, expected) in cases {
        assert_eq!(
            run(MonitorConfig::default(), 100 * GIB, &[available]),
            [expected],
            "{available} available"
        );
        let resident = MonitorConfig { mode: Mode::ResidentMemory, ..MonitorConfig::default() };
        let mirrored = 25 * GIB - available;
        assert_eq!(run(resident, 100 * GIB, &[mirrored]), [expected], "{mirrored} resident");
    }
    let low = GIB;
    let high = 20 * GIB;
    assert_eq!(
        run(MonitorConfig::default(), 100 * GIB, &[low, low, 12 * GIB, high, high, high]),
        [-STEP, -STEP, 0, STEP, STEP, 0],
        "no more is taken back than was given"
    );
}

#[test]
fn a_fifth_of_the_cache_is_all_that_goes() {
    let did = run(MonitorConfig::default(), 100 * GIB, &[0; 82]);
    assert_eq!(did[..80], [-STEP; 80], "20 GiB in steps of 256 MiB");
    assert_eq!(did[80..], [i64::MIN; 2]);
    let did = run(MonitorConfig { max_given_percent: 1, ..MonitorConfig::default() }, 10 * GIB, &[0; 2]);
    assert_eq!(did, [-(100 * MIB as i64), i64::MIN], "25 of 2,560 slabs");
    let all = MonitorConfig { max_given_percent: 100, ..MonitorConfig::default() };
    assert_eq!(run(all, 20 * MIB, &[0; 2]), [-(12 * MIB as i64), i64::MIN], "a cache keeps 8 MiB");
}

#[test]
fn a_step_is_at_least_a_slab() {
    let close =
        MonitorConfig { lower: ByteSize::mib(100), upper: ByteSize::mib(104), ..MonitorConfig::default() };
    let slab = 4 * MIB as i64;
    assert_eq!(run(close, GIB, &[99 * MIB, 99 * MIB, 105 * MIB]), [-slab, -slab, slab]);
}

#[test]
fn a_step_begins_at_what_the_cache_uses() {
    let config = MonitorConfig { max_given_percent: 50, ..MonitorConfig::default() };
    let decide = |spent_bytes| {
        let mut policy = Policy::new(config.clone(), ByteSize::gib(10)).expect("valid");
        policy.observe(&Readings { spent_bytes, ..readings(0, 10 * GIB) })
    };
    let give = |spent: u64| match decide(spent) {
        Decision::GiveBack { bytes, memory_bytes, .. } => (bytes, memory_bytes),
        other => panic!("{other}"),
    };
    assert_eq!(give(10 * GIB), (256 * MIB, 10 * GIB - 256 * MIB));
    assert_eq!(give(8 * GIB), (256 * MIB, 8 * GIB - 256 * MIB));
    assert_eq!(give(2 * GIB), (0, 5 * GIB), "it may only no longer grow so far");
}

#[test]
fn who_else_sets_the_memory_sets_what_is_all() {
    let mut policy = Policy::new(MonitorConfig::default(), ByteSize::gib(10)).expect("valid");
    assert!(matches!(policy.observe(&readings(0, 10 * GIB)), Decision::GiveBack { .. }));
    assert_eq!(policy.observe(&readings(20 * GIB, 4 * GIB)), Decision::Stay);
    assert_eq!(policy.given_bytes(), 0);
}

#[test]
fn taking_back_is_slowed_while_memory_is_getting_short() {
    let config = MonitorConfig { take_window: Duration::from_secs(3), ..MonitorConfig::default() };
    let mib = |mib: u64| mib * MIB;
    // 9,000 MiB are short. After that, the rate over three runs is what was lost since the value
    // that leaves the window, divided by three; whole slabs of what 256 MiB exceed it by are taken.
    let available =
        [9_000, 9_000, 9_000, 16_000, 16_000, 16_000, 16_000, 15_850, 15_700, 15_460, 15_460, 15_460, 15_460];
    let did = run(config, 100 * GIB, &available.map(mib));
    let mib: Vec<_> = did.iter().map(|bytes| bytes / MIB as i64).collect();
    assert_eq!(mib, [-256, -256, -256, 256, 256, 256, 0, 0, 0, 0, 0, 0, 0], "all is back by then");

    let config = MonitorConfig { take_window: Duration::from_secs(3), ..MonitorConfig::default() };
    let mut watched = vec![9_000 * MIB; 12];
    watched.extend(
        [20_000, 20_000, 20_000, 20_000, 19_850, 19_700, 19_000, 19_000, 19_000, 19_000].map(|mib| mib * MIB),
    );
    let did = run(config, 100 * GIB, &watched);
    let mib: Vec<_> = did[12..].iter().map(|bytes| bytes / MIB as i64).collect();
    // Lost over the window: gains, 0, 150, 300, 1,000 (slower than that: nothing), 850, 700, 0.
    assert_eq!(mib, [256, 256, 256, 256, 204, 156, 0, 0, 20, 256]);
}

#[test]
fn pressure_counts_in_a_cgroup() {
    let decide = |mode, pressure_percent, watched_bytes| {
        let config = MonitorConfig { mode, ..MonitorConfig::default() };
        let mut policy = Policy::new(config, ByteSize::gib(100)).expect("valid");
        policy.observe(&readings(0, 100 * GIB));
        let memory_bytes = 100 * GIB - policy.given_bytes();
        let readings = Readings { pressure_percent, ..readings(watched_bytes, memory_bytes) };
        match policy.observe(&readings) {
            Decision::Stay => "stay",
            Decision::GiveBack { .. } => "give",
            Decision::TakeBack { .. } => "take",
            Decision::Exhausted { .. } => "exhausted",
        }
    };
    assert_eq!(decide(Mode::Cgroup, Some(10.1), 12 * GIB), "give");
    assert_eq!(decide(Mode::Cgroup, Some(10.1), 20 * GIB), "give", "though there seems to be plenty");
    assert_eq!(decide(Mode::Cgroup, Some(10.0), 12 * GIB), "stay");
    assert_eq!(decide(Mode::Cgroup, Some(9.9), 20 * GIB), "take");
    assert_eq!(decide(Mode::Cgroup, None, 20 * GIB), "take");
    assert_eq!(decide(Mode::FreeMemory, Some(99.0), 20 * GIB), "take", "only there");
}

#[test]
fn nonsense_is_refused_by_name() {
    let default = MonitorConfig::default;
    let cases = [
        (MonitorConfig { interval: Duration::ZERO, ..default() }, "interval"),
        (MonitorConfig { upper: ByteSize::gib(9), ..default() }, "upper is 9GiB and lower 10GiB"),
        (MonitorConfig { upper: default().lower, ..default() }, "upper"),
        (MonitorConfig { give_percent: 0, ..default() }, "give_percent"),
        (MonitorConfig { take_percent: 101, ..default() }, "take_percent is 101"),
        (MonitorConfig { max_given_percent: 0, ..default() }, "max_given_percent"),
        (MonitorConfig { max_pressure_percent: Some(f64::NAN), ..default() }, "max_pressure_percent"),
    ];
    for (config, expected) in cases {
        let error = Policy::new(config, ByteSize::gib(1)).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// A folder of files like the kernel's.
struct Kernel(PathBuf);

impl Kernel {
    fn new(name: &str) -> Self {
        let root =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("monitor-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let kernel = Self(root);
        kernel.write(
            "proc/self/status",
            "Name:\tcache\nVmPeak:\t  999999 kB\nVmRSS:\t    2048 kB\nThreads:\t4\n",
        );
        kernel.available(1_000);
        kernel.write("proc/pressure/memory", &pressure("3.50"));
        fs::create_dir_all(kernel.0.join("cgroup")).expect("a folder of our own");
        kernel
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder of our own");
        // At once, for a thread that reads it meanwhile.
        let draft = self.0.join("draft");
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).expect("a file of our own");
    }

    /// Writes how much the machine has available.
    fn available(&self, mib: u64) {
        let kib = mib << 10;
        self.write(
            "proc/meminfo",
            &format!("MemTotal: 64000000 kB\nMemFree: 1 kB\nMemAvailable:   {kib} kB\n"),
        );
    }

    fn version_1(&self, folder: &str, limit_mib: Option<u64>, usage_mib: u64, inactive_mib: u64) {
        let folder = format!("cgroup/memory{folder}");
        let limit = limit_mib.map_or(9_223_372_036_854_771_712, |mib| mib * MIB);
        self.write(&format!("{folder}/memory.limit_in_bytes"), &format!("{limit}\n"));
        self.write(&format!("{folder}/memory.usage_in_bytes"), &format!("{}\n", usage_mib * MIB));
        let stat =
            format!("cache 1\ninactive_file 7\ntotal_cache 5\ntotal_inactive_file {}\n", inactive_mib * MIB);
        self.write(&format!("{folder}/memory.stat"), &stat);
    }

    fn version_2(&self, folder: &str, limit: &str, usage_mib: u64, inactive_mib: u64) {
        let folder = format!("cgroup{folder}");
        self.write(&format!("{folder}/memory.max"), &format!("{limit}\n"));
        self.write(&format!("{folder}/memory.current"), &format!("{}\n", usage_mib * MIB));
        let stat = format!("anon 1\nfile 2\ninactive_file {}\n", inactive_mib * MIB);
        self.write(&format!("{folder}/memory.stat"), &stat);
    }

    fn source(&self) -> Source {
        Source::at(self.0.join("proc"), self.0.join("cgroup"))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pressure(avg10: &str) -> String {
    format!(
        "some avg10={avg10} avg60=9.00 avg300=1.00 total=12345\nfull avg10=77.00 avg60=0.00 avg300=0.00 total=1\n"
    )
}

#[test]
fn the_machine_and_the_process_are_read() {
    let kernel = Kernel::new("machine");
    let source = kernel.source();
    assert_eq!(source.watched_bytes(Mode::FreeMemory).expect("written"), 1_000 * MIB);
    assert_eq!(source.watched_bytes(Mode::ResidentMemory).expect("written"), 2 * MIB);
    let real = Source::default();
    assert!(real.machine_available_bytes().expect("Linux has it") > 0);
    assert!(real.resident_bytes().expect("Linux has it") > 0);
}

#[test]
fn the_tightest_cgroup_on_the_way_up_counts() {
    let kernel = Kernel::new("version-1");
    kernel.write("proc/self/cgroup", "9:name=systemd:/\n4:hugetlb,memory:/a/b\n0::/other\n");
    let source = kernel.source();
    kernel.version_1("", None, 5_000, 0);
    kernel.version_1("/a", None, 400, 0);
    kernel.version_1("/a/b", Some(500), 300, 100);
    assert_eq!(
        source.cgroup_available_bytes().expect("written"),
        Some(300 * MIB),
        "page cache is not counted"
    );
    kernel.version_1("/a", Some(450), 400, 0);
    assert_eq!(source.cgroup_available_bytes().expect("written"), Some(50 * MIB), "the one above is tighter");
    kernel.version_1("/a", Some(300), 400, 0);
    assert_eq!(source.watched_bytes(Mode::Cgroup).expect("written"), 0, "over its limit");
    kernel.version_1("/a", None, 400, 0);
    kernel.version_1("/a/b", None, 300, 100);
    assert_eq!(source.cgroup_available_bytes().expect("written"), None);
    assert_eq!(source.watched_bytes(Mode::Cgroup).expect("written"), 1_000 * MIB, "then the machine counts");
    kernel.version_1("/a/b", Some(9_000), 300, 0);
    assert_eq!(source.watched_bytes(Mode::Cgroup).expect("written"), 1_000 * MIB, "it is tighter");
    assert!((source.pressure_percent().expect("written") - 3.5).abs() < 1e-9, "the machine's");
}

#[test]
fn both_limits_of_version_2_count() {
    let kernel = Kernel::new("version-2");
    kernel.write("proc/self/cgroup", "0::/app/cache\n");
    let source = kernel.source();
    // The root has neither a limit nor a count of its own.
    kernel.version_2("/app", "max", 700, 0);
    kernel.version_2("/app/cache", "629145600", 200, 50);
    assert_eq!(source.cgroup_available_bytes().expect("written"), Some(450 * MIB));
    kernel.write("cgroup/app/cache/memory.high", "419430400\n");
    assert_eq!(source.cgroup_available_bytes().expect("written"), Some(250 * MIB));
    kernel.write("cgroup/app/cache/memory.pressure", &pressure("41.25"));
    assert!((source.pressure_percent().expect("written") - 41.25).abs() < 1e-9, "the cgroup's own");
    // Where version 1 is mounted too, version 2 has a folder of its own.
    fs::rename(kernel.0.join("cgroup"), kernel.0.join("moved")).expect("ours");
    fs::create_dir_all(kernel.0.join("cgroup")).expect("ours");
    fs::rename(kernel.0.join("moved"), kernel.0.join("cgroup/unified")).expect("ours");
    assert_eq!(source.cgroup_available_bytes().expect("written"), Some(250 * MIB));
}

#[test]
fn in_a_container_the_root_is_the_own_cgroup() {
    for (name, own) in [("hidden", "/docker/0123"), ("outside", "/../../other")] {
        let kernel = Kernel::new(name);
        kernel.write("proc/self/cgroup", &format!("5:memory:{own}\n"));
        kernel.version_1("", Some(64), 60, 0);
        assert_eq!(kernel.source().cgroup_available_bytes().expect("written"), Some(4 * MIB), "{own}");
    }
}

#[test]
fn what_is_missing_or_mangled_is_named() {
    let kernel = Kernel::new("errors");
    let source = kernel.source();
    let fails = |result: Result<u64, MonitorError>, expected: &str| {
        let error = result.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should contain {expected}");
    };
    fails(source.watched_bytes(Mode::Cgroup), "proc/self/cgroup");
    kernel.write("proc/self/cgroup", "garbage\n3:cpu:/\n");
    fails(source.watched_bytes(Mode::Cgroup), "names no cgroup with a memory controller below");
    kernel.write("proc/self/cgroup", "3:memory:/\n");
    fails(source.watched_bytes(Mode::Cgroup), "names no cgroup with a memory controller below");
    kernel.version_1("", Some(1), 1, 1);
    let broken = [
        ("memory.limit_in_bytes", "12 parsecs\n", "limit_in_bytes has no limit that can be read"),
        ("memory.usage_in_bytes", "-1\n", "usage_in_bytes has no usage that can be read"),
        ("memory.stat", "total_cache 5\n", "memory.stat has no inactive page cache"),
    ];
    for (file, text, expected) in broken {
        kernel.version_1("", Some(1), 1, 1);
        kernel.write(&format!("cgroup/memory/{file}"), text);
        fails(source.watched_bytes(Mode::Cgroup), expected);
    }
    for text in
        ["", "MemAvailable: many kB\n", "MemAvailable: 5 MB\n", "MemAvailable: 99999999999999999999 kB\n"]
    {
        kernel.write("proc/meminfo", text);
        fails(source.watched_bytes(Mode::FreeMemory), "meminfo has no MemAvailable: that can be read");
    }
    fs::remove_file(kernel.0.join("proc/meminfo")).expect("written");
    fails(source.watched_bytes(Mode::FreeMemory), "cannot read");
    for text in ["", "full avg10=1.00\n", "some avg10=much\n", "some avg10=NaN\n"] {
        kernel.write("proc/pressure/memory", text);
        let error = source.pressure_percent().expect_err(text);
        assert!(error.to_string().contains("`some avg10`"), "{error}");
    }
}

/// A cache of 64 MiB that is full.
fn full_cache() -> Cache {
    let config = CacheConfig {
        memory: ByteSize::mib(64),
        clock: Clock::manual(1_000_000),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
    for number in 0_u32..3_000 {
        let mut item =
            cache.allocate(pool, &number.to_le_bytes(), 30_000, &ItemOptions::default()).expect("room");
        item.value_mut().fill(number as u8);
        cache.put(item);
    }
    cache
}

/// Short below 100 MiB, plenty above 200; steps of 20 MiB, half of the cache at most.
fn config() -> MonitorConfig {
    MonitorConfig {
        lower: ByteSize::mib(100),
        upper: ByteSize::mib(200),
        give_percent: 20,
        take_percent: 20,
        max_given_percent: 50,
        interval: Duration::from_millis(1),
        ..MonitorConfig::default()
    }
}

#[test]
fn a_cache_shrinks_and_grows_with_what_is_available() {
    let kernel = Kernel::new("cache");
    let cache = full_cache();
    let mut monitor = Monitor::new(&cache, config(), kernel.source()).expect("all is there");
    assert_eq!(monitor.run().expect("read"), Decision::Stay);
    assert!(cache.ledger().total() > 58 * MIB, "{:?}", cache.ledger());
    kernel.available(50);
    for _ in 0..2 {
        assert!(matches!(monitor.run().expect("read"), Decision::GiveBack { .. }));
        assert!(cache.ledger().total() <= cache.ledger().limit());
        cache.validate();
    }
    let exhausted = monitor.run().expect("read");
    assert!(matches!(exhausted, Decision::Exhausted { .. }), "{exhausted}");
    assert!(exhausted.to_string().contains("all that 50% allow"), "{exhausted}");
    assert_eq!((cache.ledger().limit(), monitor.given_bytes()), (32 * MIB, 32 * MIB));
    kernel.available(150);
    assert_eq!(monitor.run().expect("read"), Decision::Stay);
    kernel.available(250);
    let takes: Vec<_> = (0..3).map(|_| monitor.run().expect("read") != Decision::Stay).collect();
    assert_eq!((takes, cache.ledger().limit()), (vec![true, true, false], 64 * MIB));
    kernel.write("proc/meminfo", "nonsense");
    assert!(monitor.run().is_err());
    assert_eq!(cache.ledger().limit(), 64 * MIB, "an error changes nothing");
    let error = Monitor::new(&cache, config(), kernel.source()).expect_err("it reads once");
    assert!(matches!(error, MonitorError::Malformed { .. }));
    cache.validate();
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_does_so_by_itself_and_stops() {
    let kernel = Kernel::new("thread");
    let cache = full_cache();
    let monitor = Monitor::new(&cache, config(), kernel.source()).expect("all is there");
    let thread = MonitorThread::start(monitor).expect("a thread");
    kernel.available(50);
    wait_until(|| thread.status().exhausted > 0);
    assert_eq!(cache.ledger().limit(), 32 * MIB);
    kernel.available(250);
    wait_until(|| thread.status().takes == 2);
    assert_eq!(cache.ledger().limit(), 64 * MIB);
    kernel.write("proc/meminfo", "nonsense");
    wait_until(|| thread.status().errors > 0);
    let status = thread.status();
    assert!(status.gives >= 2 && status.takes >= 2 && status.given_bytes == 0, "{status}");
    assert!(status.to_string().contains("meminfo has no MemAvailable"), "{status}");
    drop(thread);
    cache.validate();
}
