//! The interface of all estimators, which turn a stream of accesses into a curve.

use crate::mrc::MissRatioCurve;

/// The effect of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A read, which hits or misses, and counts in a curve. A key that missed is present from then
    /// on, as a look-aside cache fills it.
    Read,
    /// A read that does not fill the cache: it counts like [`Self::Read`], but an absent key stays
    /// absent until it is written or read. Such misses need not become hits, however often the key
    /// is looked up.
    Lookup,
    /// A write: the key becomes the most recent and takes its new size. Not counted.
    Write,
    /// A removal, or an expiry: the next read of the key misses at every size. Not counted.
    Remove,
}

impl Kind {
    /// Returns whether the access counts as a request.
    #[inline]
    pub fn counts(self) -> bool {
        matches!(self, Self::Read | Self::Lookup)
    }
}

/// An access to a key, as [`Estimator::record`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The key's hash.
    pub hash: u64,
    /// The item's size in bytes; 0 if unknown.
    pub size: u32,
    /// The kind of access.
    pub kind: Kind,
}

/// Learns a miss-ratio curve from accesses.
///
/// ```
/// use millpond_curve::{Estimator, Kind, StackDistance, Unit};
///
/// let mut estimator = StackDistance::new(Unit::Items);
/// for key in [1, 2, 1, 2, 3, 1] {
///     estimator.record(key, 1, Kind::Read);
/// }
/// // Three keys come for the first time; two come back after one other, one after two others.
/// assert_eq!(estimator.curve().miss_ratio(2.0), 4.0 / 6.0);
/// assert_eq!(estimator.curve().miss_ratio(3.0), 3.0 / 6.0);
/// ```
pub trait Estimator {
    /// Records an access to the key with this hash, whose 64 bits must be evenly distributed (such
    /// as those of `base::hash::key_hash`).
    ///
    /// `size` is the item's size in bytes, including the cache's overhead for it. 0 means unknown,
    /// as on a miss: the key's last size then applies, or the mean of all. Estimators of items
    /// ignore it.
    fn record(&mut self, hash: u64, size: u32, kind: Kind);

    /// Records accesses one after the other. A caller with several accesses at hand, such as a live
    /// pool with a buffer of them, spares the estimator most cache misses, as it can prefetch.
    fn record_all(&mut self, accesses: &[Access]) {
        accesses.iter().for_each(|access| self.record(access.hash, access.size, access.kind));
    }

    /// Counts reads that the caller did not record because [`Self::follows`] returned false for
    /// their hashes. Without this count, the estimator cannot correct for hot keys that are in the
    /// sample, or missing from it, by chance.
    fn count_unsampled(&mut self, reads: u64);

    /// Returns whether accesses to the key with this hash are recorded. May become false as keys
    /// are added; it then stays false, except through [`Self::age`].
    fn follows(&self, hash: u64) -> bool;

    /// The present estimate of the curve, with its [`crate::Confidence`]. Before the first read, a
    /// curve that misses everything.
    fn curve(&self) -> MissRatioCurve;

    /// Halves the weight of everything counted so far, so that a curve follows a change of phase
    /// within a few ageings. Recency is kept.
    fn age(&mut self);

    /// Memory taken, in bytes.
    fn bytes(&self) -> usize;
}
