//! `millpond inspect`: the contents of the shared memory of a cache, while its process works or
//! after it died.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use millpond::{AttachedPool, ByteSize, Clock, Error, ReadOnlyCache, Seen, Walked};
use serde::Serialize;

/// The arguments of `millpond inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The folder of the cache: `shared_memory` of a server, `CacheConfig::shared` of another
    /// program.
    folder: PathBuf,
    /// Show pools by this name if they have it; only hashes of names are kept. May be repeated;
    /// `default` is tried always.
    #[arg(long = "pool", value_name = "NAME")]
    pools: Vec<String>,
    /// Show this many of the largest items of each pool.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    largest: usize,
    /// Show the item of this key, in each pool.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The findings of `millpond inspect`.
#[derive(Debug, Serialize)]
struct Report {
    folder: PathBuf,
    /// Bytes of all slabs.
    slab_bytes: u64,
    pools: Vec<PoolReport>,
    /// Chunks and runs of chunks that changed while they were looked at.
    changing_chunks: u64,
    changing_runs: u64,
}

/// A pool.
#[derive(Debug, Default, Serialize)]
struct PoolReport {
    number: u16,
    /// The name, if it is one of the given ones.
    name: Option<String>,
    own_keys: bool,
    slab_bytes: u64,
    items: u64,
    item_bytes: u64,
    /// Items that have expired or were flushed, and whose memory was not used again yet.
    dead: u64,
    links: u64,
    /// Items that will expire.
    expiring: u64,
    classes: Vec<ClassReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    largest: Vec<ItemReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<ItemReport>,
}

/// A size of chunks.
#[derive(Clone, Debug, Default, Serialize)]
struct ClassReport {
    chunk_bytes: u32,
    bytes: u64,
    items: u64,
    item_bytes: u64,
    /// Items that were found at least once.
    found_items: u64,
    /// Seconds since the oldest and the newest item were made.
    oldest_secs: u32,
    newest_secs: u32,
}

/// An item.
#[derive(Clone, Debug, Serialize)]
struct ItemReport {
    key: String,
    value_bytes: usize,
    links: u32,
    age_secs: u32,
    ttl_secs: Option<u32>,
}

impl InspectArguments {
    /// Inspects the cache, and returns the report.
    ///
    /// # Errors
    /// Why the folder cannot be read as that of a cache.
    pub fn report(&self) -> Result<String, String> {
        let mut cache = ReadOnlyCache::attach(&self.folder).map_err(|error| error.to_string())?;
        let report = self.look(&mut cache).map_err(|error| error.to_string())?;
        if self.json {
            let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
            return Ok(text + "\n");
        }
        Ok(report.text())
    }

    fn look(&self, cache: &mut ReadOnlyCache) -> Result<Report, Error> {
        let now = Clock::System.unix_secs();
        let mut report = Report {
            folder: self.folder.clone(),
            slab_bytes: 0,
            pools: Vec::new(),
            changing_chunks: 0,
            changing_runs: 0,
        };
        for pool in cache.pools()? {
            let mut shown = PoolReport::new(&pool, self.name_of(&pool));
            let mut classes: BTreeMap<u32, ClassReport> = BTreeMap::new();
            let walked = cache.walk(Some(pool.number), |item| {
                shown.add(item);
                classes.entry(item.chunk_bytes()).or_default().add(item, now);
                if self.largest > 0 {
                    keep_largest(&mut shown.largest, self.largest, item, now);
                }
                if self.key.as_ref().is_some_and(|key| key.as_bytes() == item.key()) {
                    shown.found = Some(ItemReport::new(item, now));
                }
            })?;
            shown.classes = pool
                .classes
                .iter()
                .map(|(chunk_bytes, bytes)| {
                    let class = classes.remove(chunk_bytes).unwrap_or_default();
                    ClassReport { chunk_bytes: *chunk_bytes, bytes: *bytes, ..class }
                })
                .collect();
            let Walked { dead, links, changing, changing_runs, .. } = walked;
            (shown.dead, shown.links) = (dead, links);
            report.changing_chunks += changing;
            report.changing_runs += changing_runs;
            report.slab_bytes += shown.slab_bytes;
            report.pools.push(shown);
        }
        Ok(report)
    }

    fn name_of(&self, pool: &AttachedPool) -> Option<String> {
        let names = self.pools.iter().map(String::as_str).chain(["default"]);
        names.into_iter().find(|name| pool.is_named(name)).map(str::to_owned)
    }
}

impl PoolReport {
    fn new(pool: &AttachedPool, name: Option<String>) -> Self {
        let (number, own_keys, slab_bytes) = (pool.number, pool.own_keys, pool.slab_bytes());
        Self { number, name, own_keys, slab_bytes, ..Self::default() }
    }

    fn add(&mut self, item: Seen<'_>) {
        self.items += 1;
        self.item_bytes += item.size_bytes() as u64;
        self.expiring += u64::from(item.expires_at().is_some());
    }
}

impl ClassReport {
    fn add(&mut self, item: Seen<'_>, now: u32) {
        let age = now.saturating_sub(item.created_at());
        self.newest_secs = if self.items == 0 { age } else { self.newest_secs.min(age) };
        self.oldest_secs = self.oldest_secs.max(age);
        self.items += 1;
        self.item_bytes += item.size_bytes() as u64;
        self.found_items += u64::from(item.was_fetched());
    }
}

impl ItemReport {
    fn new(item: Seen<'_>, now: u32) -> Self {
        Self {
            key: item.key().escape_ascii().to_string(),
            value_bytes: item.value().len(),
            links: item.links(),
            age_secs: now.saturating_sub(item.created_at()),
            ttl_secs: item.expires_at().map(|time| time.saturating_sub(now)),
        }
    }
}

/// Puts an item among the `most` largest, the largest first, if it belongs there.
fn keep_largest(largest: &mut Vec<ItemReport>, most: usize, item: Seen<'_>, now: u32) {
    let bytes = item.value().len();
    let at = largest.partition_point(|other| other.value_bytes >= bytes);
    if at < most {
        largest.insert(at, ItemReport::new(item, now));
        largest.truncate(most);
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        let slabs = ByteSize::new(self.slab_bytes);
        let _ = writeln!(text, "{}: {} pools, {slabs} of slabs", self.folder.display(), self.pools.len());
        for pool in &self.pools {
            pool.write(&mut text);
        }
        if self.changing_chunks + self.changing_runs > 0 {
            let _ = writeln!(
                text,
                "\n{} chunks and {} runs of chunks changed while they were looked at, and are left out",
                self.changing_chunks, self.changing_runs
            );
        }
        text
    }
}

impl PoolReport {
    fn write(&self, text: &mut String) {
        let name = self.name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
        let keys = if self.own_keys { "keys of its own" } else { "shared keys" };
        let _ = writeln!(
            text,
            "\npool {}{name}, {keys}: {} items with {} in {} of slabs; {} will expire, {} have expired or were flushed, {} links",
            self.number,
            self.items,
            ByteSize::new(self.item_bytes),
            ByteSize::new(self.slab_bytes),
            self.expiring,
            self.dead,
            self.links,
        );
        let _ = writeln!(
            text,
            "{:>10} {:>10} {:>10} {:>12} {:>7} {:>7} {:>12} {:>12}",
            "chunk", "memory", "items", "item bytes", "filled", "found", "oldest s", "newest s"
        );
        for class in &self.classes {
            let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
            let _ = writeln!(
                text,
                "{:>10} {:>10} {:>10} {:>12} {:>6.1}% {:>6.1}% {:>12} {:>12}",
                class.chunk_bytes,
                ByteSize::new(class.bytes).to_string(),
                class.items,
                class.item_bytes,
                percent(class.item_bytes, class.bytes),
                percent(class.found_items, class.items),
                class.oldest_secs,
                class.newest_secs,
            );
        }
        for (what, items) in [("largest", &self.largest[..]), ("found", self.found.as_slice())] {
            for item in items {
                let ttl = item
                    .ttl_secs
                    .map_or_else(|| "never expires".to_owned(), |secs| format!("expires in {secs} s"));
                let links = if item.links > 0 { format!(", {} links", item.links) } else { String::new() };
                let (key, bytes, age) = (&item.key, item.value_bytes, item.age_secs);
                let _ = writeln!(text, "{what}: {key}: {bytes} bytes{links}, {age} s old, {ttl}");
            }
        }
    }
}
