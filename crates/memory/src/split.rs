//! Splits of a pool's queues, for the policy that has partitions ([`evict::PolicyKind::LruSplit`]).
//!
//! The classes of a pool follow one [`SplitTarget`], which they read at insertions and evictions.
//! Finds know nothing of it: an item of any partition is found by the index, and a hit changes the
//! item's stamp within its partition. So a split may change at any moment. Nothing is moved then;
//! the policy, behind the lock of each class, follows with its next evictions ([`evict::split`]).
//!
//! The split is that which a caller has set, or the one that a [`CliffScaler`] chooses by the
//! pool's live curve, about each [`EVERY_SECS`]. All classes of a pool have the same split, as the
//! curve is that of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use evict::split::{Split, SplitTarget};
use parking_lot::Mutex;
use rebalance::cliff::{CliffScaler, CliffView};

/// The time between two looks at a pool's curve, in seconds.
const EVERY_SECS: u32 = 10;

/// The split of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SplitStats {
    /// The split in force.
    pub split: Split,
    /// Splits that were made or changed by the pool's curve.
    pub made: u64,
    /// Those that ended as the curve shows no cliff any more.
    pub ended: u64,
    /// Those that ended as the pool missed more than LRU would have.
    pub failed: u64,
}

/// A pool's split, and what chooses it.
#[derive(Default)]
pub(crate) struct Splits {
    /// Followed by the pool's classes.
    pub(crate) target: Arc<SplitTarget>,
    chooser: Mutex<Chooser>,
    /// The time of the next look, in seconds.
    due_at: AtomicU32,
    /// True if the pool's curve was begun for its split.
    has_begun_curve: AtomicBool,
}

#[derive(Default)]
struct Chooser {
    scaler: CliffScaler,
    /// True if a caller has set the split.
    is_set: bool,
}

impl Splits {
    /// Returns whether a look at the curve is due; if so, the next one is due later.
    pub(crate) fn take_due(&self, now: u32) -> bool {
        let at = self.due_at.load(Ordering::Relaxed);
        let is_due = now >= at || at - now > EVERY_SECS;
        // Of two threads one looks.
        let next = now.saturating_add(EVERY_SECS);
        let order = Ordering::Relaxed;
        is_due && self.due_at.compare_exchange(at, next, order, order).is_ok()
    }

    /// Returns whether a curve is to be begun for the split: it was not before.
    pub(crate) fn begin_curve(&self) -> bool {
        !self.has_begun_curve.swap(true, Ordering::Relaxed)
    }

    /// Returns whether a curve was begun for the split, and forgets that.
    pub(crate) fn take_begun(&self) -> bool {
        self.has_begun_curve.load(Ordering::Relaxed) && self.has_begun_curve.swap(false, Ordering::Relaxed)
    }

    /// Fixes the split, or leaves it to the pool's curve again.
    pub(crate) fn set(&self, split: Option<Split>) {
        let mut chooser = self.chooser.lock();
        // Without a change of who decides, what is known of the split stays.
        if split.is_some() || chooser.is_set {
            chooser.scaler.reset();
            chooser.is_set = split.is_some();
        } else {
            return;
        }
        self.target.set(split.unwrap_or(Split::NONE));
    }

    /// Ends the split, as the pool gets another policy, or has had another one.
    pub(crate) fn end(&self) {
        let mut chooser = self.chooser.lock();
        chooser.scaler.reset();
        chooser.is_set = false;
        self.target.set(Split::NONE);
    }

    /// Splits the queues as the pool's curve says, unless the split is fixed.
    pub(crate) fn choose(&self, view: &CliffView<'_>) {
        let mut chooser = self.chooser.lock();
        if !chooser.is_set
            && let Some(shares) = chooser.scaler.decide(view)
        {
            self.target.set(Split { keys: shares.keys, memory: shares.memory });
        }
    }

    pub(crate) fn stats(&self) -> SplitStats {
        let counts = self.chooser.lock().scaler.counts();
        let split = self.target.get();
        SplitStats { split, made: counts.made, ended: counts.ended, failed: counts.failed }
    }

    /// Memory that is not in the pool itself, in bytes.
    pub(crate) fn bytes() -> usize {
        size_of::<SplitTarget>() + 2 * size_of::<usize>()
    }
}
