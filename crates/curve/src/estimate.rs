//! The seam of all estimators: a stream of accesses in, a curve out.

use crate::mrc::MissRatioCurve;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A read, which hits or misses: what a curve counts. What missed is there from then on, as
    /// look-aside fills it.
    Read,
    /// A read that fills nothing: it counts as [`Self::Read`] does, but a key that is absent stays
    /// so until it is written or read. Its misses are not promised to become hits, however often
    /// the key is asked for.
    Lookup,
    /// A write: the key becomes the most recent and takes its new size, and nothing is counted.
    Write,
    /// A removal, or an expiry: the next read of the key misses at every size, and nothing is
    /// counted.
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
    /// The item's size in bytes; 0 = not known.
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
    /// Looks at an access to the key with this hash, whose 64 bits must be spread evenly (such as
    /// those of `base::hash::key_hash`).
    ///
    /// `size` is the item's, in bytes, with what its cache spends on it. 0 says that it is not
    /// known, as on a miss: then the key's last one holds, or the mean of all. Estimators of items
    /// take no notice of it.
    fn record(&mut self, hash: u64, size: u32, kind: Kind);

    /// Looks at accesses one after the other. Whoever has several at hand spares the estimator most
    /// of the waiting for memory, which it can ask for ahead: such as a live pool, whose accesses
    /// wait in a buffer.
    fn record_all(&mut self, accesses: &[Access]) {
        accesses.iter().for_each(|access| self.record(access.hash, access.size, access.kind));
    }

    /// Counts reads that the caller did not hand over because [`Self::follows`] said no to their
    /// hashes. Without, the estimator cannot correct for hot keys that the sample has by chance or
    /// lacks.
    fn pass(&mut self, reads: u64);

    /// Returns whether accesses to the key with this hash are looked at. May turn to no while keys
    /// come; it is then no for ever, but for [`Self::age`].
    fn follows(&self, hash: u64) -> bool;

    /// The curve as known by now, with its [`crate::Confidence`]. Before the first read: one that
    /// misses everything.
    fn curve(&self) -> MissRatioCurve;

    /// Halves the weight of everything counted so far, so that a curve follows a change of phase
    /// within a few ageings. What is known of recency stays.
    fn age(&mut self);

    /// Memory taken, in bytes.
    fn bytes(&self) -> usize;
}
