//! The same requests through plain simulators, and what makes the engine differ from them.
//!
//! For traces without sizes the rival holds exactly as many objects as the engine does at the end.
//! For traces with sizes, one rival has as many bytes of keys and values as the engine holds at the
//! end, which leaves the policy and the size classes as causes; a second has all of the cache's
//! memory for keys and values, which adds what the engine spends on headers, slack, free chunks and
//! metadata.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use millpond::PolicyKind;
use serde::Serialize;

use super::{Counts, ReplayOptions, ReplayReport};
use crate::reference::{ExactLru, Simulator, key_id, simulator};
use crate::trace::Op;

/// The results of plain simulators on the same requests.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The simulators.
    pub rivals: Vec<Rival>,
    /// The causes of the engine's difference, in words and figures.
    pub causes: Vec<String>,
}

/// A simulator's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Rival {
    /// The name of the simulator.
    pub name: String,
    /// Its capacity: objects, or bytes of keys and values.
    pub capacity: u64,
    /// Hits among requests.
    pub hit_ratio: f64,
    /// Bytes that hit among those asked for.
    pub byte_hit_ratio: f64,
    /// The engine's hit ratio less the rival's, in points (hundredths).
    pub engine_is_ahead_points: f64,
}

/// A simulator and what it has counted.
struct Runner {
    name: String,
    capacity: u64,
    simulator: Box<dyn Simulator>,
    counts: Counts,
}

impl Runner {
    fn new(name: &str, capacity: u64, simulator: impl Simulator + 'static) -> Self {
        Self { name: name.into(), capacity, simulator: Box::new(simulator), counts: Counts::default() }
    }
}

/// Replays `trace` through the rivals that suit it, one of which holds as many `items` as the
/// engine did.
pub(super) fn compare(
    trace: &Path,
    options: &ReplayOptions,
    engine: &ReplayReport,
    items: u64,
) -> Result<Comparison> {
    let mut runners = rivals(options, engine, items);
    let mut reader = options.open(trace)?;
    let mut key = Vec::new();
    let mut requests = 0;
    while let Some(request) = reader.next_request()? {
        if options.limit.is_some_and(|limit| requests >= limit) {
            break;
        }
        requests += 1;
        let id = key_id(request.key);
        request.write_key(&mut key);
        let value = options.size_of(&request);
        let space = value + key.len() as u64;
        for runner in &mut runners {
            let counts = &mut runner.counts;
            let hit = match request.op {
                Op::Delete => runner.simulator.remove(id),
                Op::Get | Op::Set if options.fills(&request) => runner.simulator.access(id, space),
                _ => runner.simulator.access_if_held(id),
            };
            if matches!(request.op, Op::Get | Op::Set) {
                counts.lookups += 1;
                counts.hits += u64::from(hit);
                counts.bytes_requested += value;
                counts.bytes_hit += if hit { value } else { 0 };
            }
        }
    }
    let rivals = runners.iter().map(|runner| rival(runner, engine)).collect();
    Ok(Comparison { rivals, causes: causes(options, engine) })
}

fn rivals(options: &ReplayOptions, engine: &ReplayReport, items: u64) -> Vec<Runner> {
    let (name, simulator) = simulator(options.policy, items);
    let name = format!("{name} of as many objects");
    let mut runners = vec![Runner { name, capacity: items, simulator, counts: Counts::default() }];
    if engine.has_sizes {
        let (held, all) = (engine.memory.payload_bytes, engine.memory_bytes);
        runners.push(Runner::new(
            "exact LRU of as many bytes of keys and values",
            held,
            ExactLru::by_bytes(held),
        ));
        runners.push(Runner::new(
            "exact LRU with all memory for keys and values",
            all,
            ExactLru::by_bytes(all),
        ));
    }
    runners
}

fn rival(runner: &Runner, engine: &ReplayReport) -> Rival {
    let counts = &runner.counts;
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let hit_ratio = ratio(counts.hits, counts.lookups);
    Rival {
        name: runner.name.clone(),
        capacity: runner.capacity,
        hit_ratio,
        byte_hit_ratio: ratio(counts.bytes_hit, counts.bytes_requested),
        engine_is_ahead_points: (engine.hit_ratio - hit_ratio) * 100.0,
    }
}

fn causes(options: &ReplayOptions, engine: &ReplayReport) -> Vec<String> {
    let bill = &engine.memory;
    let mut causes = Vec::new();
    if let PolicyKind::Lru { refresh_secs } = options.policy
        && refresh_secs > 0
    {
        causes.push(format!(
            "a hit within {refresh_secs} s of the last one promotes nothing (`--lru-refresh 0`)"
        ));
    }
    if options.writes_replace {
        causes.push("writes make new items, which begin anew in their queue".into());
    }
    if options.trace_time.is_some() {
        causes.push("items expire, which the simulators do not know".into());
    }
    let share = |bytes: u64| bytes as f64 * 100.0 / engine.memory_bytes.max(1) as f64;
    causes.push(format!(
        "of the memory, {:.1} % holds keys and values; headers take {:.1} %, slack in chunks and slabs {:.1} %, free \
         chunks {:.1} %, metadata {:.1} %, and {:.1} % is unused",
        share(bill.payload_bytes),
        share(bill.header_bytes),
        share(bill.slack_bytes + bill.slab_end_bytes),
        share(bill.free_chunk_bytes),
        share(bill.metadata_bytes),
        share(bill.unused_bytes)
    ));
    if bill.bytes_by_class.len() > 1 {
        let most = bill.bytes_by_class.iter().max_by_key(|(_, bytes)| *bytes);
        let (chunk, bytes) = most.copied().unwrap_or_default();
        causes.push(format!(
            "{} size classes evict each on its own; memory stays where it was first needed (most, {}, with \
             chunks of {chunk} bytes)",
            bill.bytes_by_class.len(),
            base::ByteSize::new(bytes)
        ));
    }
    if engine.too_large > 0 {
        causes.push(format!("{} objects are larger than the largest chunk", engine.too_large));
    }
    if engine.out_of_memory > 0 {
        causes.push(format!("{} objects found no room in their class", engine.out_of_memory));
    }
    causes
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rival in &self.rivals {
            let ahead = rival.engine_is_ahead_points;
            let (points, place) = (ahead.abs(), if ahead < 0.0 { "behind" } else { "ahead" });
            writeln!(
                f,
                "rival           {} ({}): hit ratio {:.6}, bytes {:.6}; the engine is {points:.3} points {place}",
                rival.name, rival.capacity, rival.hit_ratio, rival.byte_hit_ratio
            )?;
        }
        for cause in &self.causes {
            writeln!(f, "cause           {cause}")?;
        }
        Ok(())
    }
}
