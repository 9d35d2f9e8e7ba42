//! A curve from the accesses that a server reports: those of a sample of keys, selected by hash,
//! go to SHARDS ([`curve::Shards`], which the engine uses as well).
//!
//! The estimator's sizes are those of items, in a unit in which the server's memory is a multiple
//! of them; the caller says which.
//!
//! Three things distinguish a reported stream from the accesses of a cache of one's own:
//! - It is not whole. The server drops reports, or they are asked for in windows only. Accesses
//!   that are not seen neither count nor move keys. If requests are independent of each other, as
//!   under Zipf's law, a part of the stream has the curve of the whole; a loop's curve would come
//!   out too low.
//! - It begins late: a key that is seen for the first time may have been used before. If the server
//!   says that it was a hit, it is one with the present memory, and a miss with less than all keys
//!   take that were seen; of the sizes between, each is as likely as another, and the curve's bound
//!   of error says how much hangs on that. If the server does not say, such a read is not counted
//!   until some reads of each followed key were seen; then the early counts are dropped, and later
//!   it is a miss at every size.
//! - Removals and expiries are not seen. If the server says that a key was a miss whose place is
//!   well within the cache's present size, it was removed: the access misses at every size.

use std::time::Duration;

use base::hash::key_hash;
use base::rng::entropy_seed;
use curve::{Access, Confidence, Estimator, Kind, MissRatioCurve, Shards, Unit};

use super::wire::Address;
use crate::{InstanceError, Nanos};

/// The largest cache that is asked about, in times of the present one.
const TIMES_MEMORY: u64 = 4;
/// A key that was a miss though less than this share of the cache was used since was removed.
const REMOVED_WITHIN: f64 = 0.5;

/// Reads of followed keys from which there is a curve, in all; and for each key, if the server does
/// not say what hit.
const WARM_READS_PER_KEY: u64 = 3;
const LEAST_WARM_READS: u64 = 4096;
/// The steps by which any number of places lie evenly between 0 and 1.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;
/// Halvings by which early reads are forgotten.
const FORGETTING: u32 = 5;

/// The way in which the curve of a Redis is learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisLearning {
    /// From the idle times of a random sample of keys: the curve up to the present size.
    Ages,
    /// From `MONITOR` in windows.
    Monitor,
    /// Idle times up to the present size, and `MONITOR` beyond it.
    #[default]
    Both,
}

/// How the curve of another server is learnt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The largest share of all keys that is followed, above 0 and at most 1. Decides the agent's
    /// work, and not the server's, which reports all keys. Default 1.
    pub rate: f64,
    /// The number of keys that are followed at most, 64 to 1,048,576, about 60 bytes each: if there
    /// are more, the share falls. Default 8192.
    pub keys: usize,
    /// After this time a read counts half. Default 600 s.
    pub half_life: Duration,
    /// The time for which the server reports its accesses, again and again. 0: it never does, and
    /// nothing is learnt. Default: 1 s for memcached, 0.25 s for Redis and Valkey.
    pub window: Option<Duration>,
    /// The time between two windows. 0: the server always reports. Default: so that the server
    /// reports 15,000 accesses in a second on average, and a Redis or Valkey 1000, in 2 % of
    /// the time at most; up to a minute.
    pub pause: Option<Duration>,
    /// Redis and Valkey: the way. Default [`RedisLearning::Both`].
    pub redis: RedisLearning,
    /// Redis and Valkey: the time between two samples of idle times. Default 10 s.
    pub ages_every: Duration,
    /// Redis and Valkey: the number of keys of a sample of idle times. Default 2048.
    pub ages_keys: usize,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            rate: 1.0,
            keys: curve::shards::DEFAULT_KEYS,
            half_life: Duration::from_secs(600),
            window: None,
            pause: None,
            redis: RedisLearning::default(),
            ages_every: Duration::from_secs(10),
            ages_keys: 2048,
        }
    }
}

impl Sampling {
    pub(super) fn check(&self, address: &Address) -> Result<(), InstanceError> {
        let problem = if !(self.rate > 0.0 && self.rate <= 1.0) {
            format!("a share of {} of all keys: give one above 0 and at most 1", self.rate)
        } else if !(64..=1 << 20).contains(&self.keys) {
            format!("a curve from {} keys: follow 64 to 1,048,576", self.keys)
        } else if self.half_life < Duration::from_secs(1) {
            "a half-life of less than a second: give it one or more".to_owned()
        } else if !(1..=1 << 20).contains(&self.ages_keys) {
            format!("idle times of {} keys: ask for 1 to 1,048,576", self.ages_keys)
        } else if self.ages_every < Duration::from_millis(100) {
            "idle times more than ten times in a second: ask less often".to_owned()
        } else {
            return Ok(());
        };
        Err(InstanceError::new(format!("{address}: {problem}")))
    }
}

/// The effect of a read in the server, if it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Hit,
    Miss,
    Unknown,
}

/// Learns a curve from reports.
#[derive(Debug)]
pub(super) struct Learner {
    shards: Shards,
    seed: u64,
    /// The present size of the cache, in the estimator's unit; 0 = unknown.
    present: u64,
    /// The size up to which the estimator follows keys.
    most: u64,
    half_life: Nanos,
    aged_at: Nanos,
    /// Reads of keys that are not followed, and were not handed to the estimator.
    besides: f64,
    /// Reads of followed keys, until there are enough to tell a new key from one that was not seen
    /// yet.
    recorded: u64,
    is_warm: bool,
    /// True if the server says whether a read was a hit.
    tells: bool,
    /// Reads of keys that were hits though they had not been seen before; halved like the
    /// estimator's counts.
    unplaced: f64,
    /// The place between the two sizes at which the next such read is counted, from 0 to 1.
    spread: f64,
    /// The size of all keys that had been seen when early counts were halved last.
    halved_at: f64,
    /// Reads that revealed a removal.
    pub(super) removals: u64,
    /// Reports that the server dropped.
    pub(super) skipped: u64,
}

impl Learner {
    pub(super) fn new(sampling: &Sampling, now: Nanos) -> Self {
        Self {
            shards: Shards::new(Unit::Bytes, sampling.rate, sampling.keys),
            seed: entropy_seed(),
            present: 0,
            most: 0,
            half_life: u64::try_from(sampling.half_life.as_nanos()).unwrap_or(u64::MAX),
            aged_at: now,
            besides: 0.0,
            recorded: 0,
            is_warm: false,
            tells: false,
            unplaced: 0.0,
            spread: 0.0,
            halved_at: 0.0,
            removals: 0,
            skipped: 0,
        }
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        key_hash(self.seed, key)
    }

    pub(super) fn follows(&self, hash: u64) -> bool {
        self.shards.follows(hash)
    }

    /// Says how large the cache is, and how large it may become, in the estimator's unit.
    pub(super) fn resize(&mut self, present: u64, limit: u64) {
        self.present = present;
        let most = present.max(limit).saturating_mul(TIMES_MEMORY);
        // Small changes are not worth it.
        if most.abs_diff(self.most) > self.most / 8 {
            self.most = most;
            let shards = std::mem::replace(&mut self.shards, Shards::fixed_size(Unit::Bytes, 64));
            self.shards = shards.with_max_size(most.max(1));
        }
    }

    /// Records a read; `size` 0 is unknown.
    pub(super) fn read(&mut self, hash: u64, size: u32, outcome: Outcome) {
        if !self.shards.follows(hash) {
            self.besides += 1.0;
            return;
        }
        self.tells |= outcome != Outcome::Unknown;
        let kind = match (outcome, self.shards.locate(hash)) {
            (Outcome::Hit, None) if self.present > 0 => {
                self.read_unseen(&Access { hash, size, kind: Kind::Read });
                return self.note_recorded();
            }
            (Outcome::Hit, None) => Kind::Write,
            (Outcome::Unknown, None) if !self.is_warm => Kind::Write,
            (Outcome::Miss, Some(place)) if (place as f64) < self.present as f64 * REMOVED_WITHIN => {
                self.removals += 1;
                self.shards.record(hash, 0, Kind::Remove);
                Kind::Read
            }
            _ => Kind::Read,
        };
        self.shards.record(hash, size, kind);
        if kind == Kind::Write {
            // It stands for as many other keys as any followed one, whose reads do not count
            // either: else they would be taken for hits that the sample lacks.
            self.besides -= 1.0 / self.shards.rate() - 1.0;
        }
        self.note_recorded();
    }

    /// Counts a read of a key that had not been seen, and yet was a hit: at a size between that of
    /// all keys that had been, which did not have it, and the present one, which has.
    fn read_unseen(&mut self, access: &Access) {
        let seen = self.shards.footprint();
        // Earlier ones were placed knowing less.
        if seen > 2.0 * self.halved_at {
            self.halved_at = seen;
            self.halve();
        }
        let least = (seen as u64).min(self.present);
        self.spread = (self.spread + GOLDEN_RATIO).fract();
        let distance = least + (self.spread * (self.present - least) as f64) as u64;
        self.unplaced += 1.0;
        self.shards.record_known(access, distance);
    }

    /// Notes a read of a followed key.
    fn note_recorded(&mut self) {
        if !self.is_warm {
            self.recorded += 1;
            if self.recorded >= self.enough() {
                self.warm_up();
            }
        }
    }

    /// Reads of followed keys after which there is a curve.
    fn enough(&self) -> u64 {
        let of_keys = if self.tells { 0 } else { self.shards.keys() as u64 };
        of_keys.saturating_mul(WARM_READS_PER_KEY).max(LEAST_WARM_READS)
    }

    /// The reads of followed keys so far, and those from which there is a curve; `None` once there
    /// were enough.
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        (!self.is_warm).then(|| (self.recorded, self.enough()))
    }

    /// Ends the time in which there is no curve. If keys that were seen for the first time did not
    /// count in it, what was counted weighs next to nothing from now on.
    pub(super) fn warm_up(&mut self) {
        self.is_warm = true;
        if !self.tells {
            self.besides = 0.0;
            (0..FORGETTING).for_each(|_| self.halve());
        }
    }

    fn halve(&mut self) {
        self.unplaced /= 2.0;
        self.shards.age();
    }

    /// Records a write; `size` 0 is unknown.
    pub(super) fn write(&mut self, hash: u64, size: u32) {
        self.shards.record(hash, size, Kind::Write);
    }

    pub(super) fn remove(&mut self, hash: u64) {
        self.shards.record(hash, 0, Kind::Remove);
    }

    /// Returns whether a key is in the stack, so that its size is known.
    pub(super) fn knows(&self, hash: u64) -> bool {
        self.shards.locate(hash).is_some()
    }

    /// Takes back a read of a key that is not followed: it was part of a write.
    pub(super) fn take_back(&mut self) {
        self.besides -= 1.0;
    }

    /// Ages the estimator, if it is time.
    pub(super) fn age(&mut self, now: Nanos) {
        for _ in 0..32 {
            if now.saturating_sub(self.aged_at) < self.half_life {
                return;
            }
            self.aged_at = self.aged_at.saturating_add(self.half_life);
            self.halve();
        }
        self.aged_at = now;
    }

    /// The curve so far, in the estimator's unit; `None` as long as keys that are seen for the
    /// first time do not count, as then most of the misses are missing.
    pub(super) fn curve(&mut self) -> Option<MissRatioCurve> {
        if self.besides >= 1.0 {
            let whole = self.besides.floor();
            self.shards.count_unsampled(whole as u64);
            self.besides -= whole;
        }
        let curve = self.shards.curve();
        let known = curve.confidence().filter(|known| self.is_warm && known.samples > 0.0)?;
        // If all of them were at one end of the sizes at which they may be, and not evenly between.
        let unplaced = self.unplaced / known.samples / 2.0;
        Some(curve.with_confidence(Confidence { error: (known.error + unplaced).min(1.0), ..known }))
    }

    #[cfg(test)]
    pub(super) fn samples(&self) -> f64 {
        self.shards.curve().confidence().map_or(0.0, |known| known.samples)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    fn learner() -> Learner {
        let mut learner = Learner::new(&Sampling::default(), 0);
        learner.resize(1_000, 1_000);
        learner.warm_up();
        learner
    }

    #[test]
    fn a_first_hit_is_one_with_the_present_memory_and_a_first_miss_with_none() {
        let mut learner = learner();
        let key = learner.hash(b"key");
        learner.read(key, 10, Outcome::Hit);
        let curve = learner.curve().expect("a curve");
        assert!(curve.miss_ratio(1_000.0) == 0.0 && curve.miss_ratio(10.0) > 0.9);
        assert!(curve.confidence().expect("it is learnt").error >= 0.5);
        learner.read(key, 10, Outcome::Hit);
        assert_eq!(learner.curve().expect("a curve").miss_ratio(10.0), 0.5);
        let other = learner.hash(b"other");
        learner.read(other, 0, Outcome::Miss);
        assert!((learner.curve().expect("a curve").miss_ratio(1e9) - 1.0 / 3.0).abs() < 1e-9);
        // If it is not known how much memory there is, nothing is known of it.
        let mut unsized_yet = Learner::new(&Sampling::default(), 0);
        unsized_yet.warm_up();
        unsized_yet.read(key, 10, Outcome::Hit);
        assert!(unsized_yet.curve().is_none());
    }

    /// Popularity, of which a server reports one window in ten: most hits are of keys that were not
    /// seen before.
    #[test]
    fn a_curve_from_few_reads_is_as_far_off_as_it_says() {
        const KEYS: u64 = 40_000;
        const PRESENT: u64 = KEYS / 2;
        let mut exact = Shards::fixed_rate(Unit::Items, 1.0);
        let sampling = Sampling { keys: 1 << 20, ..Sampling::default() };
        let mut learner = Learner::new(&sampling, 0);
        learner.resize(PRESENT, PRESENT);
        let mut rng = base::rng::seeded(7);
        let mut read = |exact: &mut Shards, learner: Option<&mut Learner>| {
            // Rather more are read of low numbers.
            let key = (rng.random::<f64>().powi(3) * KEYS as f64) as u64;
            let hash = key_hash(1, &key.to_le_bytes());
            let has = exact.locate(hash).is_some_and(|distance| distance <= PRESENT);
            exact.record(hash, 1, Kind::Read);
            if let Some(learner) = learner {
                learner.read(hash, 1, if has { Outcome::Hit } else { Outcome::Miss });
            }
        };
        for _ in 0..400_000 {
            read(&mut exact, None);
        }
        (0..FORGETTING).for_each(|_| exact.age());
        let mut compared = 0;
        for round in 0..100 {
            for number in 0..10_000 {
                read(&mut exact, (number < 1_000).then_some(&mut learner));
            }
            let (known, curve) = (exact.curve(), learner.curve());
            let Some(curve) = curve else { continue };
            let sizes = || (1..=20).map(|part| (part * PRESENT / 20) as f64);
            let off =
                sizes().map(|size| (curve.miss_ratio(size) - known.miss_ratio(size)).abs()).sum::<f64>();
            let off = off / 20.0;
            let told = curve.confidence().expect("it is learnt").error;
            assert!(off <= told, "{round}: {off} of {told}");
            let here = curve.miss_ratio(PRESENT as f64) - known.miss_ratio(PRESENT as f64);
            assert!(here.abs() < 0.05, "{round}: {here}");
            compared += 1;
        }
        assert!(compared > 10 && learner.progress().is_none(), "{compared}");
    }

    #[test]
    fn there_is_no_curve_until_keys_were_seen_a_few_times() {
        let mut learner = Learner::new(&Sampling::default(), 0);
        for key in 0..LEAST_WARM_READS {
            assert!(learner.curve().is_none(), "after {key} reads");
            let hash = learner.hash(&(key % 100).to_le_bytes());
            learner.read(hash, 10, Outcome::Unknown);
        }
        let hash = learner.hash(b"new");
        learner.read(hash, 10, Outcome::Unknown);
        let missed = learner.curve().expect("a curve").miss_ratio(1e9);
        assert!(missed > 0.0 && missed < 0.1, "{missed}");
    }

    #[test]
    fn a_miss_of_a_key_that_must_be_there_reveals_a_removal() {
        let mut learner = learner();
        let key = learner.hash(b"key");
        learner.write(key, 10);
        learner.read(key, 0, Outcome::Miss);
        assert_eq!(learner.removals, 1);
        assert_eq!(learner.curve().expect("a curve").miss_ratio(1e9), 1.0);
        // One that may have been evicted is none.
        learner.write(learner.hash(b"large"), 800);
        learner.read(key, 0, Outcome::Miss);
        assert_eq!(learner.removals, 1);
        assert_eq!(learner.curve().expect("a curve").miss_ratio(1e9), 0.5);
    }

    #[test]
    fn reads_that_were_writes_are_taken_back() {
        let sampling = Sampling { rate: 1e-6, ..Sampling::default() };
        let mut learner = Learner::new(&sampling, 0);
        for key in 0..100_u32 {
            let hash = learner.hash(&key.to_le_bytes());
            learner.read(hash, 1, Outcome::Hit);
            learner.take_back();
        }
        assert_eq!(learner.besides, 0.0);
    }

    #[test]
    fn ageing_catches_up_and_does_not_take_for_ever() {
        let mut learner = learner();
        let key = learner.hash(b"key");
        learner.write(key, 10);
        learner.read(key, 10, Outcome::Hit);
        learner.age(600 * 1_000_000_000);
        assert_eq!(learner.samples(), 0.5);
        learner.age(u64::MAX);
        assert_eq!(learner.aged_at, u64::MAX);
    }
}
