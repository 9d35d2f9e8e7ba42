//! `millpond bench check`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use base::ByteSize;
use bench::command::print_json;
use bench::targets::TargetUrl;
use clap::Args;
use millpond::PolicyKind;
use workload::length::{Length, duration};
use workload::{Mix, Popularity, Sizes};

use crate::check::{CheckOptions, CheckReport, CheckSpec, PRESETS, PlantKind, Preset, check};

/// Flags of `millpond bench check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Cache under test: embedded, memcached://HOST:PORT, redis://HOST:PORT, memcached+unix:///PATH
    /// or redis+unix:///PATH; a server loses all its keys, one of Redis those of database 0
    #[arg(long, value_name = "TARGET", default_value = "embedded")]
    pub target: TargetUrl,
    /// A declared check, or `all` of them in turn, each for an equal part of the time; other flags
    /// change it [default: none, the flags declare the check]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Show the presets, and check nothing
    #[arg(long)]
    pub list_presets: bool,
    /// Check for this long: 10s, 5m, 1h; a bare number is seconds [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with = "operations", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Make this many calls instead, all threads together; of each preset where there are several
    #[arg(long, value_name = "N")]
    pub operations: Option<u64>,
    /// Names the run's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Calling threads [default: 4, or as the preset says]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Number of keys [default: 20000, or as the preset says]
    #[arg(long, value_name = "N")]
    pub keys: Option<u64>,
    /// Key sizes in bytes: 16, 8-64 or 8:30,64:70 [default: 8-64, or as the preset says]
    #[arg(long, value_name = "SIZES")]
    pub key_size: Option<Sizes>,
    /// Value sizes in bytes, at least 32; each write draws one
    /// [default: 32-16KiB, or as the preset says]
    #[arg(long, value_name = "SIZES")]
    pub value_size: Option<Sizes>,
    /// Distribution of calls over keys: zipf:ALPHA, uniform, scan or normal [default: zipf:0.9, or
    /// as the preset says]
    #[arg(long, value_name = "SHAPE")]
    pub popularity: Option<Popularity>,
    /// Calls by weight, of get, set, delete, touch
    /// [default: get=60,set=25,delete=10,touch=5, or as the preset says]
    #[arg(long, value_name = "MIX")]
    pub mix: Option<Mix>,
    /// Lifetimes in seconds, of those writes that set one [default: 1-20]
    #[arg(long, value_name = "SECS")]
    pub ttl: Option<Sizes>,
    /// The share of writes and touches that set a lifetime, 0 to 1 [default: 0.2, of presets 0.1]
    #[arg(long, value_name = "SHARE")]
    pub ttl_share: Option<f64>,
    /// Pools of an embedded cache, with equal shares of memory and keys
    /// [default: 1, or as the preset says]
    #[arg(long, value_name = "N")]
    pub pools: Option<usize>,
    /// All memory of an embedded cache; a preset that has more is scaled down to it, with its keys
    /// [default: 64MiB, of presets 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Eviction policy of an embedded cache [default: s3-fifo, of presets lru]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<PolicyKind>,
    /// Leave the limits of pools and memory alone
    #[arg(long)]
    pub no_resize: bool,
    /// Call every operation of an administrator meanwhile, one after the other, and print the
    /// slowest call of each; embedded only
    #[arg(long)]
    pub admin: bool,
    /// Let each thread sleep this long after every 64 calls or so, in milliseconds [default: 0]
    #[arg(long, value_name = "MS")]
    pub pause: Option<u64>,
    /// Never flush all keys, but for those of a server once at the start
    #[arg(long)]
    pub no_flush: bool,
    /// Close the cache and take it over again N times, at equal distances; embedded only, takes
    /// --shared
    #[arg(long, value_name = "N", default_value_t = 0, requires = "shared")]
    pub restarts: u64,
    /// Keep the slabs of an embedded cache in this folder in memory, such as /dev/shm/check; it
    /// must not be there yet, and is removed afterwards [default: none]
    #[arg(long, value_name = "FOLDER")]
    pub shared: Option<PathBuf>,
    /// Pause between two moves of a limit or of the clock, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = CheckOptions::default().disturb_every_ms)]
    pub disturb_every: u64,
    /// Plant a fault between checker and cache, to see that it is found [default: none]
    #[arg(long, value_enum, value_name = "FAULT")]
    pub plant: Option<PlantKind>,
    /// The planted fault strikes once in N of the calls at which it can
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub plant_every: u64,
    /// Go on until N violations were found
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub max_violations: usize,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The most memory that a preset gets where nothing is said.
const PRESET_MEMORY: ByteSize = ByteSize::gib(1);

impl CheckArgs {
    fn specs(&self) -> Result<Vec<CheckSpec>> {
        let mut specs = match self.preset.as_deref() {
            None => {
                vec![CheckSpec { memory: self.memory.unwrap_or(ByteSize::mib(64)), ..CheckSpec::default() }]
            }
            Some("all") => PRESETS.iter().map(Preset::spec).collect(),
            Some(name) => {
                let unknown = || anyhow!("there is no preset `{name}`: --list-presets shows them");
                vec![Preset::named(name).ok_or_else(unknown)?.spec()]
            }
        };
        for spec in &mut specs {
            spec.fit_into(self.memory.unwrap_or(PRESET_MEMORY));
            self.over(spec);
        }
        Ok(specs)
    }

    fn over(&self, spec: &mut CheckSpec) {
        fn put<T: Clone>(place: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                place.clone_from(value);
            }
        }
        put(&mut spec.threads, self.threads.as_ref());
        put(&mut spec.pause_ms, self.pause.as_ref());
        put(&mut spec.keys, self.keys.as_ref());
        put(&mut spec.key_size, self.key_size.as_ref());
        put(&mut spec.value_size, self.value_size.as_ref());
        put(&mut spec.popularity, self.popularity.as_ref());
        put(&mut spec.mix, self.mix.as_ref());
        put(&mut spec.ttl_secs, self.ttl.as_ref());
        put(&mut spec.ttl_share, self.ttl_share.as_ref());
        put(&mut spec.policy, self.policy.as_ref());
        put(&mut spec.pools, self.pools.map(|pools| vec![1.0; pools]).as_ref());
    }

    fn options(&self, checks: usize) -> CheckOptions {
        let time = self.duration.unwrap_or(Duration::from_secs(10));
        CheckOptions {
            target: self.target.clone(),
            length: match self.operations {
                Some(operations) => Length::Operations(operations),
                None => Length::Time(time / checks.max(1) as u32),
            },
            seed: self.seed,
            moves_limits: !self.no_resize,
            administers: self.admin,
            flushes: !self.no_flush,
            restarts: self.restarts,
            shared: self.shared.clone(),
            disturb_every_ms: self.disturb_every.max(1),
            plant: self.plant.map(|plant| (plant, self.plant_every)),
            max_violations: self.max_violations,
            progress: !self.json,
        }
    }
}

/// Does what the flags of `millpond bench check` say, and prints the report.
///
/// # Errors
/// Where flags contradict each other, the target cannot be used, or violations were found.
pub fn execute(args: &CheckArgs, out: &mut dyn Write) -> Result<()> {
    if args.list_presets {
        return list(out);
    }
    let specs = args.specs()?;
    let options = args.options(specs.len());
    let mut reports: Vec<CheckReport> = Vec::new();
    for spec in &specs {
        let report = check(spec, &options)?;
        if !args.json {
            write!(out, "{}{report}", if reports.is_empty() { "" } else { "\n" })?;
        }
        let found = !report.is_clean();
        reports.push(report);
        if found {
            break;
        }
    }
    if args.json {
        match &reports[..] {
            [report] if specs.len() == 1 => print_json(out, report)?,
            reports => print_json(out, &reports)?,
        }
    }
    let violations: usize = reports.iter().map(|report| report.violations.len()).sum();
    if violations > 0 {
        bail!("the cache is not consistent: violations found: {violations}");
    }
    Ok(())
}

fn list(out: &mut dyn Write) -> Result<()> {
    for preset in &PRESETS {
        let spec = preset.spec();
        writeln!(out, "{:<45} {}", preset.name, preset.about)?;
        writeln!(
            out,
            "{:<45} {}, {} pools, {} keys, {} threads, {}",
            "",
            spec.memory,
            spec.pools.len(),
            spec.keys,
            spec.threads,
            spec.mix
        )?;
    }
    Ok(())
}
