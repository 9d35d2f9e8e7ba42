//! Runs that have left their classes and whose memory is not given back yet.

use std::sync::atomic::{AtomicUsize, Ordering};

use base::pin::Grace;
use evict::PolicyKind;
use parking_lot::Mutex;
use slab::{Run, SlabInfo};

use crate::allocate::metadata_x100_of;

/// Runs that have left their classes and that readers may still be looking at. They are on the bill
/// yet.
#[derive(Default)]
pub(crate) struct RetiredRuns {
    pub(super) runs: Mutex<Vec<RetiredRun>>,
    /// The number of retired runs.
    count: AtomicUsize,
}

pub(super) struct RetiredRun {
    pub(super) run: Run,
    pub(super) info: SlabInfo,
    pub(super) grace: Grace,
    /// Its chunks, and the policy by which metadata is expected for them.
    pub(super) expected: (u64, PolicyKind),
}

impl RetiredRuns {
    pub(super) fn note(&self, runs: &[RetiredRun]) {
        self.count.store(runs.len(), Ordering::Relaxed);
    }

    /// Returns the number of retired runs.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns whether one of them was the pool's; or the class's, if that is asked for.
    pub(crate) fn has_one_of(&self, pool: u16, class: Option<u8>) -> bool {
        let is_of = |retired: &RetiredRun| {
            retired.info.pool == pool && class.is_none_or(|class| class == retired.info.class)
        };
        self.count() > 0 && self.runs.lock().iter().any(is_of)
    }

    /// Metadata that is expected for all of them, in hundredths of a byte.
    pub(crate) fn metadata_x100(&self) -> u64 {
        let of = |retired: &RetiredRun| metadata_x100_of(retired.expected.0, retired.expected.1);
        self.runs.lock().iter().map(of).sum()
    }

    /// Memory of all of them, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.lock().iter().map(|retired| retired.run.bytes()).sum()
    }
}
