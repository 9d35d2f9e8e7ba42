//! Hill climbing, cliff scaling, Talus, Memshare: partitions of one cache.
//!
//! Requests come from distributions of stack distances with known curves
//! ([`workload::queues::distances`]) or from Zipf's law, whose curves Che's approximation gives;
//! the paper's own traces (Memcachier) are not public. Hit ratios are those of the second half of a
//! run.

mod cliffs;
pub(crate) mod engine;
mod hills;
mod many;
mod overhead;
mod policies;
mod slabs;
pub(crate) mod splits;

use workload::queues::QueueCache;

use super::{Experiment, median};

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[
    cliffs::ARITHMETIC,
    cliffs::STATIC,
    cliffs::DYNAMIC,
    cliffs::NO_HARM,
    hills::CLIMBING,
    hills::COMBINED,
    many::STEP,
    policies::MEMSHARE,
    overhead::OVERHEAD,
    policies::POLICIES,
    many::MANY,
    slabs::SLABS,
    engine::ENGINE,
    splits::SPLITS,
];

/// The results of a run.
#[derive(Clone, Debug, Default)]
struct Run {
    /// Hits per request of all queues in the second half.
    total: f64,
    /// The same by queue.
    by_queue: Vec<f64>,
    /// Hits per request by hundredths of the run, as share of the run and ratio.
    over_time: Vec<(f64, f64)>,
}

/// Runs `requests` of `stream`, pairs of a queue and a key, and looks at the cache after each
/// hundredth.
fn run(
    cache: &mut QueueCache,
    stream: impl Iterator<Item = (usize, u64)>,
    requests: usize,
    mut look: impl FnMut(f64, &QueueCache),
) -> Run {
    let queues = cache.items().len();
    let (mut hits, mut asked) = (vec![0_u64; queues], vec![0_u64; queues]);
    let mut over_time = Vec::with_capacity(100);
    let (mut lately, step) = (0_u64, requests.div_ceil(100));
    for (i, (queue, key)) in stream.take(requests).enumerate() {
        let is_hit = u64::from(cache.access(queue, key));
        lately += is_hit;
        if i >= requests / 2 {
            hits[queue] += is_hit;
            asked[queue] += 1;
        }
        if (i + 1) % step == 0 {
            let share = (i + 1) as f64 / requests as f64;
            over_time.push((share, lately as f64 / step as f64));
            lately = 0;
            look(share, cache);
        }
    }
    let ratio = |hits: u64, asked: u64| hits as f64 / asked.max(1) as f64;
    Run {
        total: ratio(hits.iter().sum(), asked.iter().sum()),
        by_queue: hits.iter().zip(&asked).map(|(&hits, &asked)| ratio(hits, asked)).collect(),
        over_time,
    }
}
