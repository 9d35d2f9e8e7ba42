//! The miss-ratio curve of a pool, learnt while it serves: what it would miss with less memory, and
//! with more.
//!
//! The accesses of a sample of keys go to SHARDS (`curve::shards`). Which keys is a comparison on
//! the hash that a call has at hand anyway. An access to one of them is put into a buffer of the
//! pool; the call that fills it hands it to the estimator. No call waits: where another thread has
//! the buffer, or the estimator, what was to be put there is left out and counted as lost, which
//! the correction of the curve makes good.
//!
//! What counts as a request:
//! - A find that finds something, for the pool of the item. A find that finds nothing, for the pool
//!   that has its keys to itself; the key is there, and has a size, once its item comes. One whose
//!   item never comes is a miss each time.
//! - In the key space that pools share, a find that finds nothing belongs to no pool. There, the
//!   insertion of a key that was absent stands for it.
//! - Other insertions make the key recent and are not counted.
//! - A removal, or an expiry, takes the key out: the next find misses with any memory. The expiry
//!   of an item that was evicted before is not seen.
//!
//! Sizes are those of chunks: what an item takes of a pool's memory.
//!
//! That is the curve of LRU. Other policies have no stack distance; of them miniatures run beside
//! the estimator, on a sample of their own (`curve::ladder`), once somebody has asked for a curve.
//! Accesses that are lost count as hits there: there is no correction for them.

mod cost;
mod policy_queue;
mod switch;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use curve::sample::place;
use curve::{Access, Estimator, Kind, Ladder, MissRatioCurve, Shards, Unit};
use evict::PolicyKind;
use parking_lot::Mutex;

use self::cost::Costs;
pub use self::cost::MissCost;
pub use self::policy_queue::PolicyQueue;

use crate::error::{Error, ErrorKind};

/// Accesses of the buffer.
const BUFFER: usize = 128;
/// Points of a curve that is handed out.
const POINTS: usize = 128;
/// The largest cache that is asked about is this many times the present one, if nothing else is
/// said: HopperKV's bound.
const TIMES_MEMORY: u64 = 4;

/// The largest miniature has at most one key for this many of the curve's, and no more than this:
/// all of its keys may be queued anew in one call.
const KEYS_PER_MINIATURE_KEY: usize = 3;
const MOST_MINIATURE_KEYS: usize = 1 << 14;

/// The keys of the largest miniature for a curve from this many.
fn miniature_keys(keys: usize) -> usize {
    (keys / KEYS_PER_MINIATURE_KEY).min(MOST_MINIATURE_KEYS)
}

/// The memory that miniatures of this policy take at most for a curve from this many keys, in
/// bytes. LRU needs none, and a sketch of frequencies is worth nothing in one of some hundred keys:
/// of TinyLFU, LRU's curve is nearer (experiment X42).
fn miniature_bytes(policy: PolicyKind, keys: usize) -> u64 {
    // Found by running them: the queues of a miniature come in blocks.
    let (fixed, of_key) = match policy {
        PolicyKind::Lru { .. } | PolicyKind::LruSplit => return 0,
        PolicyKind::TinyLfu { .. } | PolicyKind::WTinyLfu { .. } => return 0,
        PolicyKind::S3Fifo { .. } | PolicyKind::Sieve => (36 << 10, 64),
        _ => (150 << 10, 80),
    };
    (fixed + miniature_keys(keys) * KEYS_PER_MINIATURE_KEY * of_key) as u64
}

/// The configuration of learning a pool's curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveConfig {
    /// The number of keys that are followed at most, 64 to 1,048,576. Each takes about 55 bytes,
    /// and as much again under another policy than LRU ([`Self::bytes`]): 1 MiB for the default of
    /// 8192 under S3-FIFO, whatever the number of keys in the pool.
    pub keys: usize,
    /// The largest share of all keys that is followed, above 0 and at most 1. Decides the cost, and
    /// what a small pool can know: at the default of 1/64, one of 64,000 items has a sample of
    /// 1,000. Default 1/64.
    pub rate: f64,
    /// The largest size that is asked about, in bytes; keys that only a larger cache would hold are
    /// given up. 0, the default, stands for four times the memory of the cache.
    pub max_bytes: u64,
    /// After this time a request counts half; whole seconds, at least 1. Default 300 s.
    pub half_life: Duration,
}

impl Default for CurveConfig {
    fn default() -> Self {
        Self {
            keys: curve::shards::DEFAULT_KEYS,
            rate: 1.0 / 64.0,
            max_bytes: 0,
            half_life: Duration::from_secs(300),
        }
    }
}

impl CurveConfig {
    /// The memory that learning takes at most for a pool of this policy in a cache of this much
    /// memory, in bytes.
    pub fn bytes(&self, memory: u64, policy: PolicyKind) -> u64 {
        self.bytes_of_lru(memory) + miniature_bytes(policy, self.keys)
    }

    /// The memory that the curve of LRU takes at most, in bytes.
    fn bytes_of_lru(&self, memory: u64) -> u64 {
        let buffers = 2 * BUFFER * size_of::<Access>() + size_of::<Learner>() + size_of::<Costs>();
        (buffers + Shards::bytes_for(self.keys, self.most_bytes(memory))) as u64
    }

    /// The same with fewer keys, but not below `least`, if it takes more than `room` for a pool of
    /// this policy in a cache of this much memory, in bytes. `None`: there is no room for these
    /// either.
    #[must_use]
    pub fn fitting(self, room: u64, least: usize, (memory, policy): (u64, PolicyKind)) -> Option<Self> {
        let halved = |config: &Self| {
            (config.keys > least).then(|| Self { keys: (config.keys / 2).max(least), ..*config })
        };
        std::iter::successors(Some(self), halved).find(|config| config.bytes(memory, policy) <= room)
    }

    /// The largest size that is asked about in a cache of this much memory, in bytes.
    fn most_bytes(&self, memory: u64) -> u64 {
        if self.max_bytes == 0 { memory.saturating_mul(TIMES_MEMORY) } else { self.max_bytes }
    }

    fn check(&self) -> Result<(), Error> {
        let problem = if !(64..=1 << 20).contains(&self.keys) {
            format!("a curve from {} keys: follow 64 to 1,048,576", self.keys)
        } else if !(self.rate > 0.0 && self.rate <= 1.0) {
            format!("a curve from a share of {} of all keys: give one above 0 and at most 1", self.rate)
        } else if self.half_life < Duration::from_secs(1) {
            "a half-life of curves of less than a second: give it one or more".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, problem))
    }
}

/// A pool's curve, and how it came about.
#[derive(Clone, Debug)]
pub struct PoolCurve {
    /// Misses by the pool's memory in chunks, in bytes, at 128 points at most. Its
    /// [`curve::Confidence`] tells how far it can be trusted. It is that of LRU, whatever the
    /// pool's policy.
    pub curve: MissRatioCurve,
    /// The same of the pool's policy, as miniatures of it have it from 0.6 of the present size to
    /// 1.7. `None` for LRU and TinyLFU, in pools of which the sample has but some dozen keys, and
    /// before the miniatures have seen enough: they begin when the curve is first asked for.
    pub of_policy: Option<MissRatioCurve>,
    /// Bytes of the cache's memory for a byte of chunks, as the pool's slabs are used now: at
    /// least 1.
    pub memory_per_byte: f64,
    /// The pool's part of the cache's memory, in bytes: its slabs, and what index, queues and
    /// ghosts take when all of its chunks are in use.
    pub memory_bytes: u64,
    /// The share of keys that is followed now.
    pub rate: f64,
    /// Reads of followed keys that it was learnt from, since [`crate::Cache::set_curve`].
    pub samples: u64,
    /// Accesses that were left out because another thread was at it.
    pub lost: u64,
    /// Memory that learning takes, in bytes.
    pub bytes: usize,
    /// The cost of a miss; `None` if no followed key was stored after a miss yet.
    pub miss_cost: Option<MissCost>,
}

impl PoolCurve {
    /// The curve of the pool's policy, or if that is not known, of LRU.
    pub fn best(&self) -> &MissRatioCurve {
        self.of_policy.as_ref().unwrap_or(&self.curve)
    }

    /// Misses by the cache's memory that the pool has ([`Self::memory_bytes`]), in bytes, by
    /// [`Self::best`].
    pub fn in_memory(&self) -> MissRatioCurve {
        self.best().scaled(Unit::Bytes, self.memory_per_byte)
    }
}

/// The state of learning so far.
struct Learner {
    shards: Shards,
    /// Miniatures of the pool's policy, unless that is LRU, and what they were charged for.
    miniatures: Option<(PolicyKind, Ladder<PolicyQueue>)>,
    charged_for_miniatures: u64,
    config: CurveConfig,
    /// Empty, with room for a buffer: what the next full one is exchanged for.
    spare: Vec<Access>,
    /// Reads of the pool before it began.
    reads_before: u64,
    /// Reads since then that it was handed, and those that were reported to it.
    recorded: u64,
    passed: u64,
    aged_at_secs: u32,
    charged: u64,
}

/// A pool's part of learning its curve.
#[derive(Default)]
pub(crate) struct Curves {
    /// Keys whose place lies below are followed; 0 = nobody learns.
    below: AtomicU32,
    buffer: Mutex<Vec<Access>>,
    learner: Mutex<Option<Box<Learner>>>,
    /// Missed keys that are followed, and how long they take.
    costs: Mutex<Option<Box<Costs>>>,
    lost: AtomicU64,
}

impl Curves {
    /// Notes an access, if the key is followed.
    #[inline]
    pub(crate) fn note(&self, hash: u64, size: u32, kind: Kind) {
        if place(hash) >= self.below.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut buffer) = self.buffer.try_lock() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if buffer.len() < BUFFER {
            buffer.push(Access { hash, size, kind });
            if buffer.len() < BUFFER {
                return;
            }
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        // Under the learner's lock the buffer is exchanged; what is in it is learnt without the
        // buffer's.
        let Some(mut learner) = self.learner.try_lock() else { return };
        let Some(learner) = &mut *learner else { return };
        let full = std::mem::replace(&mut *buffer, std::mem::take(&mut learner.spare));
        drop(buffer);
        self.learn(learner, full);
    }

    /// Notes that a followed key was missed, or stored. Samples are lost while another thread notes
    /// one.
    pub(crate) fn note_cost(&self, hash: u64, now_nanos: u64, is_stored: bool) {
        if place(hash) >= self.below.load(Ordering::Relaxed) {
            return;
        }
        if let Some(mut costs) = self.costs.try_lock()
            && let Some(costs) = &mut *costs
        {
            if is_stored { costs.stored(hash, now_nanos) } else { costs.missed(hash, now_nanos) }
        }
    }

    fn learn(&self, learner: &mut Learner, mut accesses: Vec<Access>) {
        learner.shards.record_all(&accesses);
        if let Some((_, miniatures)) = &mut learner.miniatures {
            miniatures.record_all(&accesses);
        }
        learner.recorded += accesses.iter().filter(|access| access.kind.counts()).count() as u64;
        accesses.clear();
        learner.spare = accesses;
        self.below.store(learner.threshold(), Ordering::Relaxed);
    }

    /// Learns what is in the buffer.
    fn drain(&self, learner: &mut Learner) {
        let accesses = std::mem::replace(&mut *self.buffer.lock(), std::mem::take(&mut learner.spare));
        self.learn(learner, accesses);
    }

    /// Keys are followed whose place lies below.
    pub(crate) fn below(&self) -> u32 {
        self.below.load(Ordering::Relaxed)
    }

    /// Returns its memory, in bytes, as charged.
    pub(crate) fn bytes(&self) -> usize {
        self.learner.lock().as_ref().map_or(0, |learner| learner.bytes() as usize)
    }
}

impl Learner {
    /// Memory as charged, in bytes.
    fn bytes(&self) -> u64 {
        self.charged + self.charged_for_miniatures
    }

    /// Keys whose place lies below are followed.
    fn threshold(&self) -> u32 {
        let of_miniatures = self.miniatures.as_ref().map_or(0, |(_, miniatures)| miniatures.threshold());
        self.shards.threshold().max(of_miniatures)
    }

    /// Has miniatures of this policy follow a pool that has this many bytes of chunks now, and
    /// chunks, if they need no more memory than they were charged for.
    fn follow(&mut self, policy: PolicyKind, (chunk_bytes, chunks): (u64, u64)) {
        let bytes = miniature_bytes(policy, self.config.keys);
        let is_to_be = bytes > 0 && bytes <= self.charged_for_miniatures;
        if !is_to_be || self.miniatures.as_ref().is_some_and(|(of, _)| *of != policy) {
            self.miniatures = None;
        }
        if !is_to_be || chunk_bytes == 0 {
            return;
        }
        let CurveConfig { rate, keys, .. } = self.config;
        let (_, miniatures) = self.miniatures.get_or_insert_with(|| {
            (policy, Ladder::new(rate, miniature_keys(keys), move || PolicyQueue::new(policy)))
        });
        miniatures.follow(chunk_bytes, chunks);
    }

    /// Has what was learnt so far count half.
    fn age(&mut self) {
        self.shards.age();
        if let Some((_, miniatures)) = &mut self.miniatures {
            miniatures.age();
        }
    }

    /// Tells the estimator how many reads there were besides those that it was handed, and ages it
    /// when its time has come.
    /// Returns how often it was aged.
    fn catch_up(&mut self, pool_reads: u64, now_secs: u32) -> u32 {
        // By sums from the beginning on: a read that another thread has counted and not handed over
        // yet, or the other way round, is made up for the next time.
        let besides = pool_reads.saturating_sub(self.reads_before).saturating_sub(self.recorded);
        let more = besides.saturating_sub(self.passed);
        self.shards.count_unsampled(more);
        if let Some((_, miniatures)) = &mut self.miniatures {
            miniatures.count(more);
        }
        self.passed += more;
        let half_life_secs = self.config.half_life.as_secs().try_into().unwrap_or(u32::MAX);
        let halvings = now_secs.saturating_sub(self.aged_at_secs) / half_life_secs;
        (0..halvings.min(32)).for_each(|_| self.age());
        self.aged_at_secs =
            if halvings > 32 { now_secs } else { self.aged_at_secs + halvings * half_life_secs };
        halvings.min(32)
    }
}
