//! A sample trace, made of published statistics alone, so that the project's examples work
//! anywhere.
//!
//! Each of the [`CLUSTERS`] gets requests by its rate. Its objects are those that are used once, as
//! many as its published share says, and others, each used at least twice, among which the
//! remaining requests follow its Zipf law. Sizes, times to live and operations are drawn from its
//! published means and shares. What the statistics do not tell is not there: no recency, no bursts,
//! no new objects coming up. **Such a trace shows that the tools work; it cannot rank eviction
//! policies.**
//!
//! The same options and seed give the same bytes before compression on every machine: draws use
//! integers, and the only real numbers, the weights of the ranks, are rounded before use.

mod clusters;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use base::rng::{Rng, SeededRng};

pub use clusters::{CLUSTERS, Cluster};

/// The kind of sample to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Number of requests. Default 80,000.
    pub requests: u32,
    /// Number of seconds that the requests span. Default 3,600.
    pub span_secs: u32,
    /// Published numbers of the clusters to take; empty for all of [`CLUSTERS`]. Default empty.
    pub clusters: Vec<u32>,
    /// At most how many requests an object gets on average. The clusters were watched for a week
    /// and have up to 660; in a short sample that would leave a handful of objects. Default 10.
    pub max_frequency: f64,
    /// Names the sample. Default 1.
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { requests: 80_000, span_secs: 3_600, clusters: Vec::new(), max_frequency: 10.0, seed: 1 }
    }
}

/// The result of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// Number of requests written.
    pub requests: u64,
    /// Number of different keys.
    pub keys: u64,
    /// The sum of the sizes of the keys and values of these, in bytes.
    pub footprint_bytes: u64,
}

/// The first line of the file.
const HEADER: &str = "ts,key,key_size,size,op,ttl\n";

/// Value sizes of a cluster in thousandths of their mean: the middles of sixteen equal slices of a
/// log-normal distribution with sigma 0.7, which sum to 16,000.
const SPREAD: [u64; 16] =
    [218, 318, 395, 465, 534, 605, 679, 758, 846, 946, 1_062, 1_202, 1_380, 1_625, 2_016, 2_951];

/// An object of the sample.
struct Object {
    cluster: &'static Cluster,
    size: u32,
    ttl: u32,
    /// Its key; 0 until it is first used.
    key: u32,
}

/// Writes a sample trace as plain CSV with the columns `ts,key,key_size,size,op,ttl`. Keys are
/// numbered by first use, from 1; `ttl` is empty but on writes.
///
/// # Errors
/// Where `out` cannot be written, or no cluster has one of the numbers asked for (`InvalidInput`).
pub fn generate(options: &GenerateOptions, out: &mut dyn Write) -> io::Result<Generated> {
    let clusters = chosen(&options.clusters)?;
    let mut rng = base::rng::seeded(options.seed);
    let mut objects: Vec<Object> = Vec::new();
    let mut uses: Vec<u32> = Vec::new();
    for (cluster, requests) in clusters.iter().zip(shares(&clusters, options.requests)) {
        add_cluster(cluster, requests, options.max_frequency, &mut rng, &mut objects, &mut uses);
    }
    for i in (1..uses.len()).rev() {
        uses.swap(i, below(&mut rng, i as u64 + 1) as usize);
    }
    let mut done = Generated::default();
    out.write_all(HEADER.as_bytes())?;
    let mut line = String::new();
    for (i, object) in uses.iter().enumerate() {
        let object = &mut objects[*object as usize];
        let cluster = object.cluster;
        if object.key == 0 {
            done.keys += 1;
            done.footprint_bytes += u64::from(object.size) + u64::from(cluster.key_size);
            object.key = done.keys as u32;
        }
        let op = *pick(cluster.ops, &mut rng);
        let ts = i as u64 * u64::from(options.span_secs) / uses.len() as u64;
        line.clear();
        line.push_str(&format!("{ts},{},{},{},{op},", object.key, cluster.key_size, object.size));
        if !matches!(op, "get" | "gets" | "delete") {
            line.push_str(&object.ttl.to_string());
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
        done.requests += 1;
    }
    Ok(done)
}

/// Like [`generate`], compressed by zstd.
///
/// # Errors
/// As [`generate`].
pub fn generate_zstd(options: &GenerateOptions, out: &mut dyn Write) -> io::Result<Generated> {
    const LEVEL: i32 = 19;
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    let done = generate(options, &mut encoder)?;
    encoder.finish()?;
    Ok(done)
}

fn chosen(numbers: &[u32]) -> io::Result<Vec<&'static Cluster>> {
    if numbers.is_empty() {
        return Ok(CLUSTERS.iter().collect());
    }
    let find = |number: &u32| {
        CLUSTERS.iter().find(|cluster| cluster.number == *number).ok_or_else(|| {
            let known: Vec<String> = CLUSTERS.iter().map(|cluster| cluster.number.to_string()).collect();
            let problem = format!("cluster {number} is not among {}", known.join(", "));
            io::Error::new(io::ErrorKind::InvalidInput, problem)
        })
    };
    numbers.iter().map(find).collect()
}

/// Divides `requests` among the clusters by their rates; the shares sum to `requests`.
fn shares(clusters: &[&Cluster], requests: u32) -> Vec<u32> {
    let total: f64 = clusters.iter().map(|cluster| cluster.kqps).sum();
    let (mut seen, mut given) = (0.0, 0);
    let mut shares = Vec::new();
    for cluster in clusters {
        seen += cluster.kqps;
        let until = (seen / total * f64::from(requests)).round() as u32;
        shares.push(until - given);
        given = until;
    }
    shares
}

/// Adds a cluster's objects, and each of its requests as the number of the object it is for.
fn add_cluster(
    cluster: &'static Cluster,
    requests: u32,
    max_frequency: f64,
    rng: &mut SeededRng,
    objects: &mut Vec<Object>,
    uses: &mut Vec<u32>,
) {
    // Each object that is not used once needs two requests, hence the least frequency.
    let least = 2.0 - cluster.one_hit_share;
    let frequency = cluster.mean_frequency.min(max_frequency).max(least);
    let count = (f64::from(requests) / frequency) as u32;
    let lone = ((f64::from(count) * cluster.one_hit_share).round() as u32).min(requests);
    let popular = (count - lone.min(count)).min((requests - lone) / 2);
    // A cluster with next to no requests has objects that are used once, and no others.
    let lone = if popular == 0 { requests } else { lone };
    let first = objects.len() as u32;
    for _ in 0..lone + popular {
        let spread = SPREAD[below(rng, SPREAD.len() as u64) as usize];
        let size = (u64::from(cluster.value_size) * spread + 500) / 1_000;
        objects.push(Object { cluster, size: (size as u32).max(1), ttl: *pick(cluster.ttls, rng), key: 0 });
    }
    uses.extend(first..first + lone);
    let ranked = first + lone;
    if popular == 0 {
        return;
    }
    uses.extend((ranked..ranked + popular).flat_map(|object| [object, object]));
    let weights = cumulative_weights(popular, cluster.zipf_alpha);
    let total = weights[weights.len() - 1];
    for _ in 0..requests - lone - 2 * popular {
        let at = below(rng, total);
        uses.push(ranked + weights.partition_point(|until| *until <= at) as u32);
    }
}

/// The sums of `rank^-alpha`, in units of 2^-40 so that no machine rounds them differently.
fn cumulative_weights(ranks: u32, alpha: f64) -> Vec<u64> {
    const ONE: f64 = (1_u64 << 40) as f64;
    let mut sum = 0;
    (1..=ranks)
        .map(|rank| {
            sum += ((f64::from(rank).powf(-alpha) * ONE) as u64).max(1);
            sum
        })
        .collect()
}

/// One of `choices` by its share, in steps of a hundredth.
fn pick<'a, T>(choices: &'a [(T, f64)], rng: &mut SeededRng) -> &'a T {
    let hundredths = |share: f64| (share * 100.0).round() as u64;
    let total = choices.iter().map(|(_, share)| hundredths(*share)).sum();
    let mut at = below(rng, total);
    for (choice, share) in choices {
        if at < hundredths(*share) {
            return choice;
        }
        at -= hundredths(*share);
    }
    &choices[0].0
}

/// A number below `n`.
fn below(rng: &mut SeededRng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}
