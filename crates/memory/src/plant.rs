//! Faults that a test plants in the engine, to see that its checks find them.
//!
//! An item that leaves is *unlinked*: its entry leaves the index, or its link the chain, before its
//! chunk is used again. What is forgotten there shows much later and elsewhere, as a find that
//! reads a chunk that nobody keeps. Each kind of end has its own code for it, so each has a fault
//! here.

mod strike;

#[cfg(test)]
pub(crate) use strike::Planted;

/// The effect of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Plant {
    /// An item that is evicted is unlinked under the hash of the one before.
    EvictedUnderAnother,
    /// So is an item that has expired.
    ExpiredUnderAnother,
    /// So is an item of a slab that leaves.
    ReleasedUnderAnother,
    /// An item that ends with a chain, or with hooks, keeps its entry.
    FinishedStays,
    /// An item that is removed by key keeps its entry.
    RemovedStays,
    /// One that is removed by handle, with its pool, or because a find sees that it has expired,
    /// keeps its entry.
    HeldStays,
    /// A replaced item keeps its entry beside that of the new one.
    ReplacedStays,
    /// The entry of an item that was moved leads to where it was.
    MovedStays,
    /// The links of an item that ends stay in their chain.
    LinksStay,
    /// The first link of a chain stays in it when another one takes its place: it was replaced, or
    /// moved.
    ExchangedLinkStays,
    /// A write leaves the fences of its key as they are.
    PutLeavesFences,
    /// So does a removal by key.
    RemovalLeavesFences,
    /// A write leaves what is beneath memory of its key.
    PutLeavesBeneath,
    /// So does a removal by key.
    RemovalLeavesBeneath,
    /// An item that was brought from beneath is stored although the key was written meanwhile.
    BroughtOverAWrite,
}

#[cfg(test)]
mod tests;
