//! When the queues of a pool are split in two, and how: Talus on the pool's live curve.
//!
//! LRU wastes memory where its miss-ratio curve has a cliff: on the plateau before it, more memory
//! saves nothing. Queues that are split by key reach the line between the two ends of the cliff
//! ([`allocate::talus`]; Beckmann and Sanchez, HPCA 2015; Cidon et al., "Cliffhanger", NSDI 2016,
//! section 4.2). Cliffhanger finds the ends by pointers that follow hits at the edges of queues;
//! here they are those of the curve's hull. `docs/design/0020-splits.md` has the reasons.
//!
//! A split costs hits if the curve is wrong, and it is a little wrong always: it is learnt from a
//! sample, and its requests are those of the last minutes. So
//!
//! 1. the right partition is to behave as a queue that is larger than the upper end of the cliff,
//!    by [`CliffScaler::MARGIN`]: just below the edge it would hold nothing for long enough;
//! 2. a split is made only if it saves [`CliffScaler::LEAST_GAIN`] of all requests by the curve,
//!    that margin included, and beyond what chance explains: a curve of few keys has steps. It is
//!    changed only if the change saves half of that;
//! 3. what the pool misses while it is split is compared with the curve at its sizes, which is what
//!    LRU would miss at that very time, over all changes of the split. If it misses more than
//!    chance explains in two windows in a row, the split ends, and no other is made for a while:
//!    [`CliffScaler::PAUSE_SECS`], twice as long each time; a window that went well halves that.

use allocate::talus::{Split, Talus};
use curve::MissRatioCurve;

/// A pool at one moment, for [`CliffScaler::decide`].
#[derive(Clone, Copy, Debug)]
pub struct CliffView<'c> {
    /// Its miss-ratio curve under LRU, in bytes of chunks.
    pub curve: &'c MissRatioCurve,
    /// Reads that the curve was learnt from, as far as they count still.
    pub samples: f64,
    /// The standard error of the curve.
    pub error: f64,
    /// The memory of its items, in bytes of chunks.
    pub bytes: u64,
    /// Its items.
    pub items: u64,
    /// Reads and misses since the pool was created, as the curve counts them.
    pub reads: u64,
    /// The misses among them.
    pub misses: u64,
    /// The time, in seconds.
    pub now_secs: u32,
}

/// The split in force, by shares of the left partition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// The share of the keys; 0 = no split.
    pub keys: f64,
    /// The share of the memory.
    pub memory: f64,
}

/// The number of times that a pool's split was changed, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CliffCounts {
    /// Splits that were made or changed.
    pub made: u64,
    /// Splits that ended, as the curve shows no cliff any more.
    pub ended: u64,
    /// Splits that ended, as the pool missed more than LRU would have.
    pub failed: u64,
}

/// The reads of a pool while it is split, against what its curve says at each look.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// The reads and misses of the pool at the last look.
    seen: (u64, u64),
    /// The time at which the pool was split.
    since_secs: u32,
    /// True once the items that were there then may be gone.
    is_settled: bool,
    /// Since it was settled, or since the last window: reads, misses, and the misses of LRU.
    reads: u64,
    misses: u64,
    expected: f64,
    /// Windows in a row in which the pool missed more than LRU.
    bad: u32,
}

impl Trial {
    fn at(view: &CliffView<'_>) -> Self {
        Self { seen: (view.reads, view.misses), since_secs: view.now_secs, ..Self::default() }
    }

    /// Adds the reads since the last look.
    fn look(&mut self, view: &CliffView<'_>) {
        let (reads, misses) = self.seen;
        self.seen = (view.reads, view.misses);
        let (reads, misses) = (view.reads.saturating_sub(reads), view.misses.saturating_sub(misses));
        self.reads += reads;
        self.misses += misses;
        self.expected += reads as f64 * view.curve.miss_ratio(view.bytes as f64);
    }

    fn begin_window(&mut self) {
        (self.reads, self.misses, self.expected) = (0, 0, 0.0);
    }
}

/// The decider of a pool's split: a plain value.
#[derive(Clone, Debug, Default)]
pub struct CliffScaler {
    shares: Shares,
    /// The course since the pool was split.
    trial: Trial,
    /// No split is made before this time, in seconds.
    resumes_at: u32,
    /// Length of the next pause, in seconds; 0 = [`Self::PAUSE_SECS`].
    pause_secs: u32,
    counts: CliffCounts,
}

impl CliffScaler {
    /// The right partition behaves as a queue larger than the upper end of the cliff by this share.
    pub const MARGIN: f64 = 0.05;
    /// The least share of all requests that a new split saves.
    pub const LEAST_GAIN: f64 = 0.02;
    /// A split whose pool misses this share of requests more than LRU would have ends, if chance
    /// does not explain it.
    pub const TOLERANCE: f64 = 0.005;
    /// The first pause after a split that failed, in seconds.
    pub const PAUSE_SECS: u32 = 300;
    /// The longest pause, in seconds.
    const MOST_PAUSE_SECS: u32 = 4 * 3600;
    /// Reads from which a curve is learnt before it counts, and items of a pool that is split: the
    /// paper's bound.
    const LEAST_SAMPLES: f64 = 1_000.0;
    const LEAST_ITEMS: u64 = 1_000;
    /// Standard errors that a gain or a loss exceeds.
    const BEYOND_CHANCE: f64 = 2.0;
    /// The longest that the items of before a split are waited for, in seconds.
    const MOST_SETTLING_SECS: u32 = 600;

    /// The split in force.
    pub fn shares(&self) -> Shares {
        self.shares
    }

    /// The changes so far.
    pub fn counts(&self) -> CliffCounts {
        self.counts
    }

    /// Forgets all but the counts: another rule has decided, and now there is no split.
    pub fn reset(&mut self) {
        *self = Self { counts: self.counts, ..Self::default() };
    }

    /// Looks at the pool, and returns the split that it shall have from now on, if another one.
    pub fn decide(&mut self, view: &CliffView<'_>) -> Option<Shares> {
        let is_split = self.shares.keys > 0.0;
        // A split outlasts a new curve, and a pool whose items are about as many as they may be.
        if is_split && view.items < Self::LEAST_ITEMS / 2 {
            self.counts.ended += 1;
            return self.change(Shares::default(), view);
        }
        let least_items = if is_split { 0 } else { Self::LEAST_ITEMS };
        if view.samples < Self::LEAST_SAMPLES || view.items < least_items {
            return None;
        }
        if self.has_failed(view) {
            self.counts.failed += 1;
            let pause = self.pause_secs.max(Self::PAUSE_SECS);
            self.resumes_at = view.now_secs.saturating_add(pause);
            self.pause_secs = (2 * pause).min(Self::MOST_PAUSE_SECS);
            return self.change(Shares::default(), view);
        }
        if view.now_secs < self.resumes_at {
            return None;
        }
        let whole = view.curve.miss_ratio(view.bytes as f64);
        let now = whole - self.misses_with(self.shares, view);
        let (best, gain) = self.best(view, whole);
        let least = Self::LEAST_GAIN + Self::BEYOND_CHANCE * view.error;
        if gain >= least && gain - now >= Self::LEAST_GAIN / 2.0 {
            self.counts.made += 1;
            return self.change(best, view);
        }
        // A quarter of the least, so that a split at the bound does not come and go.
        if self.shares.keys > 0.0 && now < Self::LEAST_GAIN / 4.0 {
            self.counts.ended += 1;
            return self.change(Shares::default(), view);
        }
        None
    }

    /// The split between the ends of the cliff that the pool is on, and its gain.
    fn best(&self, view: &CliffView<'_>, whole: f64) -> (Shares, f64) {
        let anchors = Talus::new(view.curve.clone(), 0.0).anchors(view.bytes);
        let Some((alpha, beta)) = anchors else { return (Shares::default(), 0.0) };
        let split = Split::between(alpha as f64, beta as f64 * (1.0 + Self::MARGIN), view.bytes);
        let shares = Shares { keys: split.ratio, memory: split.left as f64 / view.bytes.max(1) as f64 };
        (shares, whole - split.miss_ratio(view.curve))
    }

    /// The miss ratio of the pool with this split, by its curve.
    fn misses_with(&self, shares: Shares, view: &CliffView<'_>) -> f64 {
        let left = (view.bytes as f64 * shares.memory).round() as u64;
        let right = view.bytes.saturating_sub(left);
        Split { ratio: shares.keys, left, right }.miss_ratio(view.curve)
    }

    /// Returns whether the pool misses more with its split than it would without. The first misses
    /// do not count, as the partitions fill: as many as the pool has items.
    fn has_failed(&mut self, view: &CliffView<'_>) -> bool {
        if self.shares.keys == 0.0 {
            return false;
        }
        let trial = &mut self.trial;
        trial.look(view);
        if !trial.is_settled {
            let secs = view.now_secs.saturating_sub(trial.since_secs);
            if trial.misses >= view.items || secs >= Self::MOST_SETTLING_SECS {
                trial.is_settled = true;
                trial.begin_window();
            }
            return false;
        }
        let reads = trial.reads as f64;
        if reads < (view.items as f64).max(Self::LEAST_SAMPLES) {
            return false;
        }
        let expected = trial.expected / reads;
        let chance = (expected * (1.0 - expected) / reads).max(0.0).sqrt();
        let tolerance = Self::TOLERANCE + Self::BEYOND_CHANCE * chance;
        let is_bad = trial.misses as f64 / reads > expected + tolerance;
        trial.begin_window();
        trial.bad = if is_bad { trial.bad + 1 } else { 0 };
        if !is_bad {
            self.pause_secs /= 2;
        }
        trial.bad >= 2
    }

    fn change(&mut self, shares: Shares, view: &CliffView<'_>) -> Option<Shares> {
        if shares == self.shares {
            return None;
        }
        // From one split to another the comparison goes on.
        if self.shares.keys == 0.0 {
            self.trial = Trial::at(view);
        }
        self.shares = shares;
        Some(shares)
    }
}

#[cfg(test)]
mod tests {
    use curve::{Point, Unit};

    use super::*;

    /// A plateau at 0.6 from 100 to 500 KiB, and a cliff down to 0.1 at 600.
    fn cliff() -> MissRatioCurve {
        let points = [(100, 0.6), (500, 0.6), (600, 0.1), (900, 0.1)];
        let points = points.map(|(kib, miss_ratio)| Point { size: kib << 10, miss_ratio });
        MissRatioCurve::new(Unit::Bytes, points).expect("a valid curve")
    }

    fn view(curve: &MissRatioCurve) -> CliffView<'_> {
        let (samples, error, bytes, items) = (1e4, 0.0, 350 << 10, 3_500);
        CliffView { curve, samples, error, bytes, items, reads: 0, misses: 0, now_secs: 10_000 }
    }

    #[test]
    fn pool_on_a_cliff_is_split_between_its_ends() {
        let curve = cliff();
        let mut scaler = CliffScaler::default();
        let shares = scaler.decide(&view(&curve)).expect("a split");
        // Between 100 and 630: 280 of 530.
        assert!((shares.keys - 280.0 / 530.0).abs() < 0.001, "{shares:?}");
        assert!((shares.memory - 280.0 / 530.0 * 100.0 / 350.0).abs() < 0.001, "{shares:?}");
        assert_eq!(scaler.decide(&view(&curve)), None, "it stays");
        assert_eq!(scaler.counts(), CliffCounts { made: 1, ..CliffCounts::default() });
    }

    #[test]
    fn concave_curve_is_never_split() {
        let points = (1..=100).map(|i| Point { size: i << 13, miss_ratio: 1.0 / (1.0 + i as f64 / 10.0) });
        let curve = MissRatioCurve::new(Unit::Bytes, points).expect("a valid curve");
        assert_eq!(CliffScaler::default().decide(&view(&curve)), None);
    }

    #[test]
    fn small_pools_and_unknown_curves_are_not_split() {
        let curve = cliff();
        let unknown = [
            CliffView { samples: 999.0, ..view(&curve) },
            CliffView { items: 999, ..view(&curve) },
            CliffView { error: 0.2, ..view(&curve) },
        ];
        for few in unknown {
            assert_eq!(CliffScaler::default().decide(&few), None);
        }
        // But a split that there is stays, unless the pool is much smaller.
        let mut scaler = CliffScaler::default();
        scaler.decide(&view(&curve)).expect("a split");
        assert_eq!(scaler.decide(&CliffView { samples: 0.0, items: 900, ..view(&curve) }), None);
        let small = CliffView { items: 499, ..view(&curve) };
        assert_eq!(scaler.decide(&small), Some(Shares::default()));
    }

    #[test]
    fn split_follows_the_size_in_steps_and_ends_beyond_the_cliff() {
        let curve = cliff();
        let mut scaler = CliffScaler::default();
        scaler.decide(&view(&curve)).expect("a split");
        let at = |kib: u64| CliffView { bytes: kib << 10, ..view(&curve) };
        assert_eq!(scaler.decide(&at(352)), None, "too little to be gained");
        let more = scaler.decide(&at(450)).expect("a change");
        assert!(more.keys < 0.4, "{more:?}");
        assert_eq!(scaler.decide(&at(800)), Some(Shares::default()));
        assert_eq!(scaler.counts(), CliffCounts { made: 2, ended: 1, failed: 0 });
    }

    /// The pool misses 0.66 of its reads, LRU 0.6.
    #[test]
    fn split_that_misses_more_than_lru_ends_for_longer_each_time() {
        let curve = cliff();
        let (mut scaler, mut pauses) = (CliffScaler::default(), Vec::new());
        let (mut now_secs, mut reads, mut failed_at) = (10_000, 0, None);
        while pauses.len() < 3 {
            (now_secs, reads) = (now_secs + 10, reads + 2_000);
            let misses = reads * 66 / 100;
            let shares = scaler.decide(&CliffView { reads, misses, now_secs, ..view(&curve) });
            match shares {
                Some(shares) if shares.keys == 0.0 => failed_at = Some(now_secs),
                Some(_) => pauses.extend(failed_at.take().map(|at| now_secs - at)),
                None => {}
            }
        }
        assert_eq!(pauses, [300, 600, 1_200]);
    }

    /// A size that wanders has the split changed at each look, and it is compared all the same.
    #[test]
    fn split_that_changes_all_the_time_can_fail() {
        let curve = cliff();
        let mut scaler = CliffScaler::default();
        for round in 0..200_u64 {
            let (reads, now_secs) = (round * 2_000, 10_000 + round as u32 * 10);
            let bytes = [320_u64, 380][(round % 2) as usize] << 10;
            let looked = CliffView { reads, misses: reads * 66 / 100, now_secs, bytes, ..view(&curve) };
            scaler.decide(&looked);
        }
        assert!(scaler.counts().failed > 0, "{:?}", scaler.counts());
    }

    /// By chance a window misses a point more than the curve says; the next does not.
    #[test]
    fn noise_ends_no_split() {
        let curve = cliff();
        let mut scaler = CliffScaler::default();
        let mut misses = 0;
        for round in 0..500_u64 {
            let (reads, now_secs) = (round * 2_000, 10_000 + round as u32 * 10);
            misses += if round / 2 % 2 == 0 { 1_225 } else { 1_140 };
            scaler.decide(&CliffView { reads, misses, now_secs, ..view(&curve) });
        }
        assert_eq!(scaler.counts().failed, 0);
    }

    #[test]
    fn split_that_pays_stays() {
        let curve = cliff();
        let mut scaler = CliffScaler::default();
        let mut changes = 0;
        for round in 0..1_000_u64 {
            let (reads, now_secs) = (round * 2_000, 10_000 + round as u32 * 10);
            let looked = CliffView { reads, misses: reads * 40 / 100, now_secs, ..view(&curve) };
            changes += u32::from(scaler.decide(&looked).is_some());
        }
        assert_eq!(changes, 1);
    }
}
