//! Cliff scaling of one queue: Algorithms 2 and 3 of Cliffhanger (NSDI '16, section 4.2).
//!
//! The queue is split into a left and a right partition as in [`crate::talus`], but the curve is
//! unknown. Two pointers search for the ends of the cliff: each partition behaves as a queue of its
//! pointer's size, and counts hits just before its end (a window of its last items) and just behind
//! it (a shadow of as many keys). If the curve is convex there are more hits behind, and the
//! pointer moves on: the right one to the right, the left one to the left.
//!
//! | the paper | here |
//! |---|---|
//! | Algorithm 2, `INIT` | [`SplitQueue::new`] |
//! | Algorithm 2, `UPDATEPOINTERS`, lines 2 to 16 | [`SplitQueue::update_pointers`]; whether a request is in the left or the right half of a shadow queue is its [`Edge`], as section 5.1 implements it |
//! | lines 17 and 18 | the end of the same; as printed only where the request is in the left shadow queue |
//! | Algorithm 3, `COMPUTERATIO` | `compute_ratio` |
//! | Algorithm 3, `UPDATEPHYSICALQUEUES` | `update_physical_queues` |
//! | "the ratio of requests going to each physical queue" | [`SplitQueue::route`] |
//!
//! As printed, the algorithm reduces hits ([`Form::Printed`]; measured in the experiments C3 and
//! C4). The differences of [`Form::Repaired`]:
//!
//! | printed | repaired |
//! |---|---|
//! | the ratio is computed from any distance of the pointers, so that their jitter swings it | both pointers must be farther away than a dead band |
//! | the ratio is computed only after events of the left partition | after each event |
//! | with one distance at 0, partitions are half a pointer's size: they do not add up to the queue | the queue is halved |
//! | pointers and partitions have no bounds | left pointer between 0 and the queue, right one from the queue to 64 times that; each partition has room for its window |
//! | a credit of 1 to 4 KB whatever the queue | a thousandth of the queue |
//! | a queue too small to be scaled is in halves | it is whole |
//! | a key whose partition changes with the ratio is missed, and lies in both | [`SplitQueue::route`] says where a key *belongs*: search both, and move a key that is found to the right one |

use base::hash::mix64;

use crate::talus::Split;

/// The rules to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The rules as printed in the paper.
    Printed,
    /// The repaired rules.
    #[default]
    Repaired,
}

/// The parameters of a queue's search for its cliff. Sizes are in items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CliffConfig {
    /// The rules to follow. Default: repaired.
    pub form: Form,
    /// The distance that a pointer moves at a hit. Default (`None`): a thousandth of the queue, at
    /// least 1; twice that if keys are sampled.
    pub credit: Option<u64>,
    /// The pointers' least distance from the queue's size at which the repaired rules split the
    /// queue. Default (`None`): 32 credits, at least 256 items, which is far more than pointers
    /// wander without a cliff.
    pub dead_band: Option<u64>,
    /// Items at the end of a partition, and keys in the shadow behind it, whose hits move pointers.
    /// Default 192; paper: 128. The difference of the hits behind and before grows with the square
    /// of the window, and its noise with the square root: with 128 items a queue of 8,000 needs
    /// about twice as many requests to find its cliff (experiment C3).
    pub window: u64,
    /// The most items of a queue that is not split. Default 1,000, as in the paper.
    pub min_queue: u64,
    /// The sampling at the edges: one key in `one_in`, a power of two, is watched
    /// ([`SplitQueue::watches`]). The shadow and the window then hold fewer keys, by the same
    /// factor, for the same items. Default 1: all keys. Fewer hits give less information, which a
    /// window twice as wide and twice the credit make up for at one key in 8 ([`Self::sampled`],
    /// experiment C3).
    pub one_in: u64,
}

impl CliffConfig {
    /// One key in 8 at the edges, and windows of 384 items, which 48 keys represent. This reduces
    /// the cost of cliff scaling to a fraction when nearly all requests miss (experiment C9).
    pub fn sampled() -> Self {
        Self { one_in: 8, window: 384, ..Self::default() }
    }
}

impl Default for CliffConfig {
    fn default() -> Self {
        Self { form: Form::Repaired, credit: None, dead_band: None, window: 192, min_queue: 1000, one_in: 1 }
    }
}

/// One of the two partitions of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The partition that behaves as a smaller queue.
    Left,
    /// The partition that behaves as a larger queue.
    Right,
}

/// The position of a hit at a pointer, which shows the side of the pointer on which the curve is
/// steeper. Algorithm 2 has a shadow queue around each pointer, in a left and a right half; the
/// keys to the left of the pointer are already in the partition itself (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Among the last items of the partition: left of the pointer.
    Tail,
    /// In the shadow right behind the partition: right of the pointer.
    Shadow,
}

/// Largest multiple of the queue's size for the right pointer, so that the right partition's share
/// stays measurable.
const MAX_REACH: i64 = 64;

/// A queue that is split in two: the partition of each key, the sizes of both partitions, and their
/// changes on hits.
///
/// The cache does the rest: it looks a key up in both partitions, inserts it into the one where it
/// belongs, moves it there if it finds it in the other, and resizes partitions on insertions (not
/// on hits, to avoid thrashing). It makes no call for a hit that is not at an edge.
///
/// ```
/// use millpond_allocate::cliffhanger::{CliffConfig, Edge, Side, SplitQueue};
///
/// let mut queue = SplitQueue::new(8000, CliffConfig::default());
/// assert_eq!((queue.split().left, queue.split().right), (4000, 4000));
/// for _ in 0..100 {
///     queue.update_pointers(Side::Left, Edge::Shadow); // Convex on both sides of 8,000 items:
///     queue.update_pointers(Side::Right, Edge::Shadow); // the pointers walk apart.
/// }
/// assert_eq!(queue.pointers(), (7200, 8800));
/// assert_eq!((queue.split().left, queue.split().right), (3600, 4400));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitQueue {
    config: CliffConfig,
    size: u64,
    left_pointer: i64,
    right_pointer: i64,
    split: Split,
    /// A key belongs to the left partition if 32 bits of its hash are below this: `ratio` times
    /// 2^32.
    threshold: u64,
}

impl SplitQueue {
    /// `INIT`: creates a queue of `size` items, in two halves; a queue that is too small to search
    /// for a cliff stays whole.
    pub fn new(size: u64, config: CliffConfig) -> Self {
        let at = size as i64;
        let split = unsplit(size, &config);
        Self { config, size, left_pointer: at, right_pointer: at, split, threshold: threshold(split.ratio) }
    }

    /// The size of the whole queue.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The sizes of the partitions, and the left one's share of the requests.
    pub fn split(&self) -> Split {
        self.split
    }

    /// Returns whether the partitions behave as queues of different sizes.
    pub fn is_split(&self) -> bool {
        self.split != Split::half(self.size) && self.split != Split::whole(self.size)
    }

    /// The size of one partition.
    pub fn size_of(&self, side: Side) -> u64 {
        match side {
            Side::Left => self.split.left,
            Side::Right => self.split.right,
        }
    }

    /// The left and the right pointer: the sizes of the queues that the partitions should behave
    /// as.
    pub fn pointers(&self) -> (i64, i64) {
        (self.left_pointer, self.right_pointer)
    }

    /// The partition that a key belongs to, by 64 bits of its hash. They are mixed first, so that
    /// the same bits may choose a shard or a sample elsewhere.
    #[inline]
    pub fn route(&self, hash: u64) -> Side {
        if mix64(hash) >> 32 < self.threshold { Side::Left } else { Side::Right }
    }

    /// Returns whether hits of a key at an edge count, and the shadow holds the key. Uses bits of
    /// the hash without mixing, as it is called at each miss.
    #[inline]
    pub fn watches(&self, hash: u64) -> bool {
        (hash >> 40) & (self.config.one_in - 1) == 0
    }

    /// `UPDATEPOINTERS`: records a hit at an edge of a partition, by a watched key that belongs
    /// there. Returns `Some` with the new partitions if they change; the cache resizes at its next
    /// insertions.
    #[inline]
    pub fn update_pointers(&mut self, side: Side, edge: Edge) -> Option<Split> {
        if self.size <= self.config.min_queue {
            return None;
        }
        let (queue, credit) = (self.size as i64, self.credit() as i64);
        match (side, edge) {
            // Lines 3 to 5.
            (Side::Right, Edge::Shadow) => self.right_pointer += credit,
            // Lines 6 to 8.
            (Side::Right, Edge::Tail) if self.right_pointer > queue => self.right_pointer -= credit,
            // Lines 11 to 13.
            (Side::Left, Edge::Shadow) => self.left_pointer -= credit,
            // Lines 14 to 16.
            (Side::Left, Edge::Tail) if self.left_pointer < queue => self.left_pointer += credit,
            (_, Edge::Tail) => {}
        }
        // Lines 17 and 18. As printed they stand in the branch of the left shadow queue.
        match self.config.form {
            Form::Printed if side == Side::Right => None,
            Form::Printed | Form::Repaired => self.update_ratio(),
        }
    }

    /// Resizes the whole queue, as for hill climbing. The pointers stay, as the ends of a cliff do
    /// not depend on the queue's size, except that the size stays between them.
    pub fn resize(&mut self, size: u64) -> Split {
        self.size = size;
        self.update_ratio();
        self.split
    }

    /// Applies `split`, which comes from a curve ([`crate::talus::Talus`]) rather than from hits.
    pub fn steer(&mut self, split: Split) {
        self.size = split.left + split.right;
        let (left, right) = split.simulated();
        let whole = self.size as i64;
        self.left_pointer = left.map_or(whole, |size| size as i64);
        self.right_pointer = right.map_or(whole, |size| size as i64);
        self.split = split;
        self.threshold = threshold(split.ratio);
    }

    fn credit(&self) -> u64 {
        let times = if self.config.one_in > 1 { 2 } else { 1 };
        self.config.credit.unwrap_or_else(|| (times * self.size / 1000).max(1))
    }

    /// Algorithm 2, lines 17 and 18: the ratio from the present pointers, and the resulting
    /// partitions. The repaired rules first keep the queue's size between the pointers.
    fn update_ratio(&mut self) -> Option<Split> {
        if self.config.form == Form::Repaired {
            let queue = self.size as i64;
            self.left_pointer = self.left_pointer.clamp(0, queue);
            self.right_pointer = self.right_pointer.clamp(queue, queue.saturating_mul(MAX_REACH));
        }
        let ratio = self.compute_ratio();
        self.update_physical_queues(ratio)
    }

    /// `COMPUTERATIO`: the share of the requests that goes to the left partition, the inverse of
    /// the pointers' distances from the queue's size; `None` if there is no cliff. As printed, any
    /// distance above 0 counts as a cliff; the repaired rules require both beyond the dead band.
    fn compute_ratio(&self) -> Option<f64> {
        let queue = self.size as i64;
        let (distance_right, distance_left) = (self.right_pointer - queue, queue - self.left_pointer);
        let least = match self.config.form {
            Form::Printed => 0,
            Form::Repaired => self.config.dead_band.unwrap_or_else(|| (32 * self.credit()).max(256)) as i64,
        };
        let is_cliff = self.size > self.config.min_queue && distance_right > least && distance_left > least;
        is_cliff.then(|| distance_right as f64 / (distance_right + distance_left) as f64)
    }

    /// `UPDATEPHYSICALQUEUES`: partitions in proportion to the pointers and to their requests. As
    /// printed, they need not add up to the queue, and without a cliff each is half a pointer; a
    /// size below 0, which is possible, becomes 0. Repaired, they add up, each has room for its
    /// window, and without a cliff the queue is halved.
    fn update_physical_queues(&mut self, ratio: Option<f64>) -> Option<Split> {
        let part = |pointer: i64, share: f64| (pointer as f64 * share).round() as u64;
        let split = match (self.config.form, ratio) {
            (Form::Printed, _) if self.size <= self.config.min_queue => Split::half(self.size),
            (Form::Printed, _) => {
                let ratio = ratio.unwrap_or(0.5);
                let (left, right) = (part(self.left_pointer, ratio), part(self.right_pointer, 1.0 - ratio));
                Split { ratio, left, right }
            }
            (Form::Repaired, None) => unsplit(self.size, &self.config),
            (Form::Repaired, Some(ratio)) => {
                let least = self.config.window.min(self.size / 2);
                let left = part(self.left_pointer, ratio).clamp(least, self.size - least);
                Split { ratio, left, right: self.size - left }
            }
        };
        self.change_to(split)
    }

    fn change_to(&mut self, split: Split) -> Option<Split> {
        let changes = split != self.split;
        self.split = split;
        self.threshold = threshold(split.ratio);
        changes.then_some(split)
    }
}

/// The queue without a cliff: two halves. But few items divide unevenly, so a small queue has fewer
/// hits in halves than whole, and the repaired rules keep it whole.
fn unsplit(size: u64, config: &CliffConfig) -> Split {
    let is_small = config.form == Form::Repaired && size <= config.min_queue;
    if is_small { Split::whole(size) } else { Split::half(size) }
}

fn threshold(ratio: f64) -> u64 {
    (ratio * (1_u64 << 32) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(credit: u64) -> CliffConfig {
        CliffConfig { form: Form::Printed, credit: Some(credit), ..CliffConfig::default() }
    }

    fn at(left: i64, right: i64, size: u64, config: CliffConfig) -> SplitQueue {
        let mut queue = SplitQueue::new(size, config);
        (queue.left_pointer, queue.right_pointer) = (left, right);
        queue
    }

    /// Section 4.2: a queue of 8,000 items whose cliff begins at 2,000 and ends at 13,500.
    #[test]
    fn both_forms_compute_the_papers_example() {
        for config in [CliffConfig::default(), printed(1)] {
            let mut queue = at(2000, 13_500, 8000, config);
            let split = queue.resize(8000);
            assert_eq!((split.left, split.right), (957, 7043));
            assert!((split.ratio - 0.478).abs() < 0.001);
        }
    }

    #[test]
    fn pointers_within_the_dead_band_split_nothing() {
        let mut queue = SplitQueue::new(8000, CliffConfig::default());
        for _ in 0..32 {
            assert_eq!(queue.update_pointers(Side::Left, Edge::Shadow), None);
            assert_eq!(queue.update_pointers(Side::Right, Edge::Shadow), None);
        }
        assert_eq!(queue.pointers(), (7744, 8256));
        assert_eq!(queue.split(), Split::half(8000));
        assert_eq!(queue.update_pointers(Side::Right, Edge::Shadow), None);
        let split = queue.update_pointers(Side::Left, Edge::Shadow).unwrap();
        assert_eq!((split.left, split.right), (3868, 4132));
    }

    #[test]
    fn a_steeper_curve_before_the_end_leads_pointers_back() {
        let mut queue = SplitQueue::new(8000, CliffConfig::default());
        queue.update_pointers(Side::Right, Edge::Shadow);
        for _ in 0..3 {
            queue.update_pointers(Side::Right, Edge::Tail);
            queue.update_pointers(Side::Left, Edge::Tail);
        }
        assert_eq!(queue.pointers(), (8000, 8000));
    }

    #[test]
    fn the_printed_form_swings_its_ratio_on_jitter_and_loses_its_sum() {
        let mut queue = SplitQueue::new(1500, printed(8));
        queue.update_pointers(Side::Right, Edge::Shadow);
        assert_eq!(queue.split().ratio, 0.5, "events of the right partition compute no ratio");
        queue.update_pointers(Side::Right, Edge::Shadow);
        queue.update_pointers(Side::Right, Edge::Shadow);
        let split = queue.update_pointers(Side::Left, Edge::Shadow).unwrap();
        assert_eq!(split.ratio, 0.75, "32 items of 1,500 decide on a quarter of the requests");
        let mut queue = at(1500, 1700, 1500, printed(8));
        let split = queue.update_pointers(Side::Left, Edge::Tail).unwrap();
        assert_eq!(split.left + split.right, 1600, "half of each pointer");
    }

    #[test]
    fn small_queues_are_not_split() {
        let mut queue = SplitQueue::new(1000, CliffConfig::default());
        assert_eq!(queue.update_pointers(Side::Left, Edge::Shadow), None);
        assert_eq!((queue.pointers(), queue.split()), ((1000, 1000), Split::whole(1000)));
        assert_eq!(queue.resize(1001), Split::half(1001));
    }

    #[test]
    fn a_queue_that_outgrows_its_cliff_is_halved() {
        let mut queue = at(2000, 13_500, 8000, CliffConfig::default());
        assert!(queue.resize(10_000).left < 957);
        assert_eq!(queue.resize(14_000), Split::half(14_000));
        assert_eq!(queue.pointers(), (2000, 14_000));
    }

    #[test]
    fn a_curve_can_steer_it() {
        let mut queue = SplitQueue::new(8000, CliffConfig::default());
        queue.steer(Split::between(2000.0, 13_500.0, 8000));
        assert_eq!((queue.size_of(Side::Left), queue.size_of(Side::Right)), (957, 7043));
        let (left, right) = queue.pointers();
        assert!((left - 2000).abs() <= 2 && (right - 13_500).abs() <= 2);
    }

    #[test]
    fn keys_are_routed_by_the_ratio() {
        let mut queue = SplitQueue::new(8000, CliffConfig::default());
        queue.steer(Split::between(2000.0, 13_500.0, 8000));
        let left = (0..100_000).filter(|key| queue.route(*key) == Side::Left).count();
        // 47,826 expected, 158 standard deviations.
        assert!((46_200..49_400).contains(&left), "{left} of 100,000");
        queue.steer(Split { ratio: 1.0, left: 8000, right: 0 });
        assert!((0..1000).all(|key| queue.route(key) == Side::Left));
    }

    proptest! {
        #[test]
        fn repaired_partitions_add_up_and_keep_their_windows(
            size in 0_u64..100_000, credit in prop::option::of(1_u64..500), resizes in prop::collection::vec(0_u64..100_000, 1..8),
            hits in prop::collection::vec((any::<bool>(), 0..100), 0..500),
        ) {
            let config = CliffConfig { credit, ..CliffConfig::default() };
            let mut queue = SplitQueue::new(size, config);
            for (i, (left, edge)) in hits.into_iter().enumerate() {
                if i % 64 == 63 {
                    queue.resize(resizes[i / 64 % resizes.len()]);
                }
                let side = if left { Side::Left } else { Side::Right };
                queue.update_pointers(side, if edge < 25 { Edge::Tail } else { Edge::Shadow });
                let Split { ratio, left, right } = queue.split();
                prop_assert_eq!(left + right, queue.size());
                prop_assert!((0.0..=1.0).contains(&ratio));
                prop_assert!(queue.size() <= 1000 || left.min(right) >= 192);
                let (l, r) = queue.pointers();
                prop_assert!(queue.size() <= 1000 || (0 <= l && l <= queue.size() as i64 && queue.size() as i64 <= r));
            }
        }
    }
}
