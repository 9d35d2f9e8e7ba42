//! A scenario as a TOML file: what a user writes to ask "what would each tenant get?". Every key,
//! with its default and unit, is in `docs/simulation.md`; a commented example is
//! `config/simulation.toml`.
//!
//! Faults are reported with the file's name, the line, the key, and the nearest valid value.

mod check;
mod guard;
mod refusal;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use base::ByteSize;
use serde::Deserialize;
use toml::Spanned;
use workload::replay::TimeUnit;
use workload::trace::Column;

pub use guard::{Guard, WrittenAim};
pub use refusal::FileError;

use crate::scenario::{
    Backend, Change, Control, ItemCost, Load, Pattern, Resource, Scenario, Source, Tenant, TraceSource,
};
use crate::world::{Eviction, Setup};

/// A file that was read and checked.
#[derive(Clone, Debug)]
pub struct SimulationFile {
    /// The simulated scenario.
    pub scenario: Scenario,
    /// The policies that are compared, by name; the first is the baseline.
    pub policies: Vec<String>,
    /// Rails for every policy that decides.
    pub guard: Guard,
    /// Names all random sequences.
    pub seed: u64,
    /// True if the engine is asked for the memory of items, once the sizes of items are known.
    pub asks_engine: bool,
}

/// The policies that are modes of the simulation rather than advice: tenants share for real.
const SHARED: [(&str, &str); 2] = [
    ("non-partitioned", "one cache and one queue for all"),
    ("non-partitioned-drf", "one cache for all, and DRF for the other resources"),
];

/// All names that `policies` may have, with the effect of each.
pub fn policies() -> Vec<(&'static str, &'static str)> {
    let decided = allocate::registry::policies().iter().map(|entry| (entry.name, entry.summary));
    let decided = decided.filter(|(name, _)| SHARED.iter().all(|(shared, _)| shared != name));
    decided.chain(SHARED).collect()
}

/// The setup of a policy by its name, between rails; `None` if there is no such policy.
pub fn setup(name: &str, guard: Guard) -> Option<Setup> {
    let named = match name {
        "non-partitioned" => Some(Setup::non_partitioned()),
        "non-partitioned-drf" => guard.policy("drf").map(Setup::shared_cache),
        other => guard.policy(other).map(Setup::of),
    };
    named.map(|setup| Setup { name: name.to_owned(), ..setup })
}

impl SimulationFile {
    /// Reads and checks a file. Paths of traces and CacheBench configurations are relative to its
    /// folder.
    ///
    /// # Errors
    /// If the file cannot be read, or something in it is invalid.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| FileError::unreadable(&name, &error))?;
        Self::parse(&name, &text, path.parent().unwrap_or(Path::new("")))
    }

    /// As [`Self::read`], from a text that is called `name`; files that it names are relative to
    /// `folder`.
    ///
    /// # Errors
    /// If something in the text is invalid.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, FileError> {
        let written: Written =
            toml::from_str(text).map_err(|error| FileError::of_toml(name, text, &error))?;
        check::check(&written).map_err(|problem| problem.at(name, text))?;
        Ok(written.into_simulation(folder))
    }
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    seed: u64,
    duration_secs: f64,
    warm_up_secs: Option<f64>,
    record_secs: f64,
    memory: ByteSize,
    item_overhead_bytes: Option<u32>,
    eviction: Eviction,
    admit_writes: bool,
    policies: Vec<Spanned<String>>,
    backend: Backend,
    control: Control,
    guard: Guard,
    resource: Vec<Resource>,
    tenant: Vec<WrittenTenant>,
}

impl Default for Written {
    fn default() -> Self {
        let scenario = Scenario::default();
        Self {
            seed: 1,
            duration_secs: scenario.duration_secs,
            warm_up_secs: None,
            record_secs: scenario.record_secs,
            memory: scenario.memory,
            item_overhead_bytes: None,
            eviction: scenario.eviction,
            admit_writes: scenario.admit_writes,
            policies: Vec::new(),
            backend: scenario.backend,
            control: scenario.control,
            guard: Guard::default(),
            resource: Vec::new(),
            tenant: Vec::new(),
        }
    }
}

/// The policies to compare if the file names none.
const DEFAULT_POLICIES: [&str; 3] = ["equal", "drf", "hare"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTenant {
    name: Spanned<String>,
    workload: Option<Pattern>,
    cachebench: Option<PathBuf>,
    cachebench_keys: Option<u64>,
    trace: Option<PathBuf>,
    trace_requests: Option<usize>,
    trace_object_bytes: Option<u32>,
    trace_passes: Option<u32>,
    trace_times: Option<String>,
    trace_columns: Option<Vec<String>>,
    trace_tenant: Option<String>,
    clients: Option<Spanned<u32>>,
    think_ms: Option<f64>,
    rate_per_sec: Option<f64>,
    weight: Option<f64>,
    floor: Option<ByteSize>,
    ceiling: Option<ByteSize>,
    min_requests_per_sec: Option<f64>,
    #[serde(default)]
    change: Vec<Change>,
}

impl WrittenTenant {
    fn source(&self, folder: &Path) -> Source {
        if let Some(path) = &self.cachebench {
            return Source::CacheBench { path: folder.join(path), keys: self.cachebench_keys };
        }
        match &self.trace {
            Some(path) => Source::Trace(TraceSource {
                path: folder.join(path),
                requests: self.trace_requests.unwrap_or(0),
                default_size: self.trace_object_bytes.unwrap_or(1_000),
                passes: self.trace_passes.unwrap_or(0),
                time_unit_nanos: self.time_unit().map(|unit| unit.nanos),
                columns: self.columns(),
                tenant: self.trace_tenant.clone(),
            }),
            None => Source::Pattern(self.workload.clone().unwrap_or_default()),
        }
    }

    /// The unit of its trace's times; `None` if they do not count, or the unit is invalid.
    fn time_unit(&self) -> Option<TimeUnit> {
        self.trace_times.as_deref()?.parse().ok()
    }

    /// The columns of its trace; those that are none were refused before.
    fn columns(&self) -> Option<Vec<Column>> {
        Some(self.trace_columns.as_ref()?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn into_tenant(self, folder: &Path) -> Tenant {
        let default = Tenant::new("", Source::Pattern(Pattern::default()));
        let clients = self.clients.as_ref().map_or(16, |clients| *clients.get_ref());
        let load = match self.rate_per_sec {
            _ if self.trace_times.is_some() => Load::Timed,
            Some(rate_per_sec) => Load::Open { rate_per_sec },
            None => Load::Closed { clients, think_ms: self.think_ms.unwrap_or(0.0) },
        };
        Tenant {
            source: self.source(folder),
            load,
            weight: self.weight.unwrap_or(default.weight),
            floor: self.floor.unwrap_or(default.floor),
            ceiling: self.ceiling.unwrap_or(default.ceiling),
            min_request_rate: self.min_requests_per_sec.unwrap_or(default.min_request_rate),
            changes: self.change,
            name: self.name.into_inner(),
        }
    }
}

impl Written {
    fn into_simulation(self, folder: &Path) -> SimulationFile {
        let policies = match self.policies.is_empty() {
            true => DEFAULT_POLICIES.map(str::to_owned).to_vec(),
            false => self.policies.into_iter().map(Spanned::into_inner).collect(),
        };
        let asks_engine = self.item_overhead_bytes.is_none();
        // If a trace is replayed a stated number of times, all of it is measured.
        let counts = self.tenant.iter().any(|tenant| tenant.trace_passes.is_some_and(|passes| passes > 0));
        let warm_up = if counts { 0.0 } else { self.duration_secs / 4.0 };
        let scenario = Scenario {
            duration_secs: self.duration_secs,
            warm_up_secs: self.warm_up_secs.unwrap_or(warm_up),
            record_secs: self.record_secs,
            memory: self.memory,
            item_cost: self.item_overhead_bytes.map_or(Scenario::default().item_cost, ItemCost::Bytes),
            eviction: self.eviction,
            admit_writes: self.admit_writes,
            resources: self.resource,
            backend: self.backend,
            control: self.control,
            tenants: self.tenant.into_iter().map(|tenant| tenant.into_tenant(folder)).collect(),
        };
        SimulationFile { scenario, policies, guard: self.guard, seed: self.seed, asks_engine }
    }
}
