//! Declared workloads: which keys are asked for how often, how large their values are, what is done
//! with them.
//!
//! A workload is declared by a TOML file or by flags ([`WorkloadSpec`]), or taken from a CacheBench
//! configuration with Meta's published distributions. From the same declaration and seed the same
//! requests follow on every machine. Drawing one is a few nanoseconds: all distributions are tables
//! that stay in a core's cache.
//!
//! Invariants:
//! 1. The size of a key and of its value depends on the key's number and the workload's seed alone.
//! 2. Keys of lone requests, which are requested once and never again, are numbered after all other
//!    keys, and no two threads share one.

mod alias;
mod cachelib;
mod keys;
mod popularity;
mod sizes;
mod spec;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use base::rng::SeededRng;

pub use keys::{MAX_KEY_BYTES, write_key};
pub use popularity::{Popularity, Ranks};
pub use sizes::Sizes;
pub use spec::{Mix, WorkloadSpec};

use alias::Alias;
use popularity::Popular;

/// The reason why a workload's declaration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A text is not what its place wants.
    #[error("`{text}` is not a {what}: write {wanted}")]
    Text {
        /// The kind of text that is expected.
        what: &'static str,
        /// The text.
        text: String,
        /// The forms that are allowed.
        wanted: &'static str,
    },
    /// A file cannot be read or makes no sense.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// A description of the problem.
        problem: String,
    },
    /// A TOML text has an unknown key or an invalid value. The message has the line and what is
    /// allowed there.
    #[error("{0}")]
    Toml(String),
    /// The declaration contradicts itself.
    #[error("{0}")]
    Meaningless(String),
}

impl WorkloadError {
    fn text(what: &'static str, text: &str, wanted: &'static str) -> Self {
        Self::Text { what, text: text.to_owned(), wanted }
    }

    fn file(path: &Path, problem: impl ToString) -> Self {
        Self::File { file: path.display().to_string(), problem: problem.to_string() }
    }
}

/// The kinds of operations on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Read the value.
    Get,
    /// Write the value.
    Set,
    /// Remove the key.
    Delete,
    /// Give the key a new expiry.
    Touch,
}

impl OpKind {
    /// All kinds, in the order in which reports name them.
    pub const ALL: [Self; 4] = [Self::Get, Self::Set, Self::Delete, Self::Touch];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Delete => "delete",
            Self::Touch => "touch",
        }
    }
}

/// One operation to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The kind of operation.
    pub kind: OpKind,
    /// The number of the workload's pool, from 0.
    pub pool: u16,
    /// The size of the key in bytes, as far as its number fits.
    pub key_size: u16,
    /// The key's number.
    pub key: u64,
    /// The size of the value in bytes.
    pub value_size: u32,
    /// The time to live of what is written, in seconds; 0 is for ever.
    pub ttl_secs: u32,
}

impl Operation {
    /// Writes the key as text into `out` (cleared first).
    #[inline]
    pub fn write_key(&self, out: &mut Vec<u8>) {
        write_key(self.key, usize::from(self.key_size), out);
    }
}

/// A pool of a workload before its tables are built.
struct PoolPlan {
    name: String,
    first_key: u64,
    keys: u64,
    popular: Popular,
    key_sizes: Sizes,
    least_key_size: u32,
    value_sizes: Sizes,
    ttl_secs: Sizes,
    mix: Mix,
    op_weight: f64,
}

/// A pool of a workload: its own keys, sizes and mix.
#[derive(Debug)]
pub struct Pool {
    name: String,
    first_key: u64,
    popular: Popular,
    mix: Alias,
    key_sizes: Vec<u32>,
    value_sizes: Vec<u32>,
    ttl_secs: Vec<u32>,
    values: Sizes,
}

impl Pool {
    /// The name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of different keys that can be asked for, lone ones aside.
    pub fn distinct_keys(&self) -> u64 {
        self.popular.distinct()
    }

    /// The distribution of value sizes over keys.
    pub fn value_sizes(&self) -> &Sizes {
        &self.values
    }

    /// A size of the pool's distribution, by any number.
    #[inline]
    pub fn value_size_at(&self, number: u64) -> u32 {
        self.value_sizes[number as usize & (self.value_sizes.len() - 1)]
    }

    #[inline]
    fn operation(&self, kind: OpKind, pool: u16, key: u64) -> Operation {
        let of = |table: &[u32]| table[key as usize & (table.len() - 1)];
        Operation {
            kind,
            pool,
            key,
            key_size: of(&self.key_sizes) as u16,
            value_size: of(&self.value_sizes),
            ttl_secs: of(&self.ttl_secs),
        }
    }
}

/// A workload with all its tables. Shared by the threads that draw from it.
#[derive(Debug)]
pub struct Workload {
    description: String,
    notes: Vec<String>,
    look_aside: bool,
    pools: Vec<Pool>,
    pick: Alias,
    keys: u64,
}

/// The most keys a workload may have.
const MAX_KEYS: u64 = 1 << 60;

impl Workload {
    /// Builds the tables of a declared workload.
    ///
    /// # Errors
    /// Where there are no keys, or more than 2^60.
    pub fn new(spec: &WorkloadSpec, seed: u64) -> Result<Self, WorkloadError> {
        Self::in_pools(spec, &[1.0], seed)
    }

    /// Builds the tables of a declared workload whose keys and operations are shared out among
    /// pools.
    ///
    /// # Errors
    /// As [`Workload::new`], and where a pool gets no key.
    pub fn in_pools(spec: &WorkloadSpec, shares: &[f64], seed: u64) -> Result<Self, WorkloadError> {
        if spec.keys == 0 || spec.keys > MAX_KEYS {
            return Err(WorkloadError::Meaningless(format!("{} keys: give 1 to 2^60 of them", spec.keys)));
        }
        let ranges = split(spec.keys, shares);
        if ranges.iter().any(std::ops::Range::is_empty) {
            return Err(WorkloadError::Meaningless("a pool without keys".into()));
        }
        let plan = |(i, (keys, share)): (usize, (std::ops::Range<u64>, &f64))| PoolPlan {
            name: if shares.len() == 1 { "default".into() } else { format!("pool{i}") },
            popular: Popular::new(spec.popularity, keys.end - keys.start),
            first_key: keys.start,
            keys: keys.end - keys.start,
            key_sizes: spec.key_size.clone(),
            least_key_size: 1,
            value_sizes: spec.value_size.clone(),
            ttl_secs: Sizes::fixed(spec.ttl_secs),
            mix: spec.mix,
            op_weight: *share,
        };
        let plans = ranges.into_iter().zip(shares).enumerate().map(plan).collect();
        let description = format!(
            "{} keys of {} B, {}, values of {} B, {}",
            spec.keys, spec.key_size, spec.popularity, spec.value_size, spec.mix
        );
        Self::build(plans, spec.look_aside, description, Vec::new(), seed)
    }

    /// Reads a CacheBench configuration: a folder with a `config.json`, or such a file. `keys`
    /// overrides its number of keys.
    ///
    /// # Errors
    /// Where a file cannot be read, is not as CacheBench has it, or asks for operations that are
    /// not driven here.
    pub fn from_cachebench(path: &Path, keys: Option<u64>, seed: u64) -> Result<Self, WorkloadError> {
        let config = cachelib::load(path, keys)?;
        let description = format!("CacheBench configuration {}", path.display());
        Self::build(config.pools, config.look_aside, description, config.notes, seed)
    }

    /// The requests of a CacheBench `test_config` that stands in `file`, with the share `scale`
    /// (above 0, at most 1) of its keys.
    ///
    /// # Errors
    /// As [`Workload::from_cachebench`].
    pub fn of_cachebench(
        file: &Path,
        config: &serde_json::Map<String, serde_json::Value>,
        keys: Option<u64>,
        scale: f64,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let config = cachelib::requests(file, config, keys, scale)?;
        let description = format!("CacheBench configuration {}", file.display());
        Self::build(config.pools, config.look_aside, description, config.notes, seed)
    }

    /// Adds what a reader should know.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes);
    }

    /// Reads JSON with `//` comments, as CacheBench has it.
    ///
    /// # Errors
    /// If the file can't be read or isn't valid JSON.
    pub fn read_cachebench_json(path: &Path) -> Result<serde_json::Value, WorkloadError> {
        cachelib::read_json(path)
    }

    fn build(
        plans: Vec<PoolPlan>,
        look_aside: bool,
        description: String,
        notes: Vec<String>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let weights: Vec<f64> = plans.iter().map(|plan| plan.op_weight).collect();
        let meaningless = |what: &str| {
            WorkloadError::Meaningless(format!("{what} must be finite, not negative and not all 0"))
        };
        let pick = Alias::new(&weights).ok_or_else(|| meaningless("the shares of the pools"))?;
        let keys = plans.iter().map(|plan| plan.first_key + plan.keys).max().unwrap_or(0);
        let mut pools = Vec::with_capacity(plans.len());
        for (i, plan) in plans.into_iter().enumerate() {
            let seed = base::hash::mix64(seed.wrapping_add(i as u64));
            let key_sizes = plan.key_sizes.table(seed);
            let most = MAX_KEY_BYTES as u32;
            pools.push(Pool {
                name: plan.name,
                first_key: plan.first_key,
                popular: plan.popular,
                mix: Alias::new(&plan.mix.weights())
                    .ok_or_else(|| meaningless("the shares of the operations"))?,
                key_sizes: key_sizes.into_iter().map(|size| size.clamp(plan.least_key_size, most)).collect(),
                value_sizes: plan.value_sizes.table(seed ^ 1),
                ttl_secs: plan.ttl_secs.table(seed ^ 2),
                values: plan.value_sizes,
            });
        }
        Ok(Self { description, notes, look_aside, pools, pick, keys })
    }

    /// The text of a key by its number.
    pub fn key_text(&self, key: u64) -> String {
        let pool = self.pools.iter().rev().find(|pool| pool.first_key <= key);
        let mut text = Vec::new();
        if let Some(pool) = pool {
            pool.operation(OpKind::Get, 0, key).write_key(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The workload in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns notes for the reader, such as fields of a file that are not used.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns whether a get that misses is followed by a set of the same key.
    pub fn look_aside(&self) -> bool {
        self.look_aside
    }

    /// Turns look-aside on or off.
    pub fn set_look_aside(&mut self, on: bool) {
        self.look_aside = on;
    }

    /// The pools; at least one.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Returns the number of different keys that can be asked for, lone ones aside.
    pub fn distinct_keys(&self) -> u64 {
        self.pools.iter().map(Pool::distinct_keys).sum()
    }

    /// The largest value that can be written, in bytes.
    pub fn largest_value(&self) -> u32 {
        self.pools.iter().map(|pool| pool.values.largest()).max().unwrap_or(0)
    }

    /// A set of the `i`-th key that can be asked for, `i` below [`Workload::distinct_keys`]; for
    /// loading them all.
    pub fn load(&self, mut i: u64) -> Option<Operation> {
        for (number, pool) in self.pools.iter().enumerate() {
            let distinct = pool.distinct_keys();
            if i < distinct {
                let key = pool.first_key + i;
                return Some(pool.operation(OpKind::Set, number as u16, key));
            }
            i -= distinct;
        }
        None
    }
}

/// The numbers below `keys`, cut in proportion to `shares`.
fn split(keys: u64, shares: &[f64]) -> Vec<std::ops::Range<u64>> {
    let total: f64 = shares.iter().sum();
    let (mut seen, mut from) = (0.0, 0);
    shares
        .iter()
        .map(|share| {
            seen += share;
            let until = ((keys as f64 * (seen / total)) as u64).min(keys);
            let range = from..until;
            from = until;
            range
        })
        .collect()
}

/// A stream of operations for one thread.
pub struct Sampler {
    workload: Arc<Workload>,
    rng: SeededRng,
    /// Each pool's place in a scan.
    cursors: Vec<u64>,
    next_lone: u64,
    lone_step: u64,
}

impl Sampler {
    /// The stream of thread `thread` of `threads` under `seed`.
    pub fn new(workload: Arc<Workload>, seed: u64, thread: usize, threads: usize) -> Self {
        let threads = threads.max(1) as u64;
        let share = |pool: &Pool| pool.distinct_keys() / threads * thread as u64;
        Self {
            rng: base::rng::seeded(base::hash::mix64(seed ^ ((thread as u64 + 1) << 32))),
            cursors: workload.pools.iter().map(share).collect(),
            next_lone: workload.keys + thread as u64,
            lone_step: threads,
            workload,
        }
    }

    /// The next operation.
    #[inline]
    pub fn draw(&mut self) -> Operation {
        let workload = &*self.workload;
        let number = if workload.pools.len() == 1 { 0 } else { workload.pick.sample(&mut self.rng) };
        let pool = &workload.pools[number];
        let kind = match pool.mix.sample(&mut self.rng) {
            0 => OpKind::Get,
            1 => OpKind::Set,
            2 => OpKind::Delete,
            3 => OpKind::Touch,
            lone => {
                let key = self.next_lone;
                self.next_lone += self.lone_step;
                let kind = if lone == 4 { OpKind::Get } else { OpKind::Set };
                return pool.operation(kind, number as u16, key);
            }
        };
        let key = pool.first_key + pool.popular.sample(&mut self.rng, &mut self.cursors[number]);
        pool.operation(kind, number as u16, key)
    }
}
