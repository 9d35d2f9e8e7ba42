//! The hash index: from a key's hash to the item, in cache-line buckets, growing while it serves.
//!
//! - [`bucket`]: one cache line of 12 tagged pointers and the word that locks and versions it;
//! - [`table`]: the reserved array of buckets;
//! - [`Index`]: look-ups without a lock, changes under the lock of a key's home bucket, growth in
//!   place.
//!
//! The index does not know keys: the caller decides, for each candidate, whether it is a match.

pub mod bucket;
mod grow;
mod guard;
mod lookup;
mod shape;
pub mod table;

use std::io;
use std::sync::Arc;

use base::counter::Counters;
use base::sync::atomic::AtomicU32;
use base::{Ledger, Part};
use parking_lot::Mutex;

pub use guard::{BucketGuard, Full, Slot};

use shape::Shape;
use table::Table;

/// Entries per bucket, times 100, that growth aims at: 68 % of 12, where after long churn 91 % of
/// entries lie in their home and a miss reads 1.6 adjacent lines (docs/design/0002-index.md).
/// Growth starts at 72 %.
const TARGET_PER_BUCKET_X100: u64 = 816;
const TRIGGER_PER_BUCKET_X100: u64 = 864;
/// The entries per bucket, times 100, from which a full home lets growth start early: half of the
/// slots. At 70 %, before growth starts otherwise, about one in 300 indexes of 4,096 buckets has 16
/// full buckets in a row, and so has no room for the next entry of the first.
const EARLY_PER_BUCKET_X100: u64 = 600;

/// The index.
///
/// A key's *home* is the bucket that its hash names; if the home is full, the key's entry *spills*
/// into one of the next 15 buckets. A home counts its spilled entries and records how far they lie,
/// so that a look-up reads one cache line unless the home has spilled entries.
///
/// Invariants:
/// 1. Whether a key is present changes only under the lock of its home, and each such change raises
///    the home's version. A reader that saw the home unlocked, found nothing, and finds the home
///    unlocked at the same version afterwards has therefore seen that the key was absent.
/// 2. A slot changes only under the lock of the bucket it lies in. A chunk is freed only after the
///    slot that points to it was cleared, so that a thread that holds a bucket's lock may read the
///    keys of all items it points to.
/// 3. Locks are taken in ascending order of buckets.
/// 4. A key's home changes only under the lock of its old home, and the new mapping is visible
///    before that lock is released.
/// 5. An entry's old slot is cleared only after its new slot is filled.
pub struct Index {
    table: Table,
    shape: Shape,
    /// Held by the one thread that moves buckets.
    grower: Mutex<()>,
    ledger: Arc<Ledger>,
    /// Entries added and removed, by stripe.
    counts: Counters<2>,
    /// All buckets below this are backed by memory.
    touched: AtomicU32,
}

const ADDED: usize = 0;
const REMOVED: usize = 1;

impl Index {
    /// Creates an index for `initial_entries` that may grow to `max_entries`; the address space for
    /// the latter is reserved now. Its memory is charged to [`Part::Index`] of `ledger`, 64 bytes
    /// per bucket.
    ///
    /// # Errors
    /// If the system refuses the address space.
    pub fn new(initial_entries: u64, max_entries: u64, ledger: Arc<Ledger>) -> io::Result<Self> {
        let max = buckets_for(max_entries.max(initial_entries));
        let initial = buckets_for(initial_entries).min(max);
        let table = Table::reserve(max)?;
        ledger.charge(Part::Index, table::bytes(initial));
        Ok(Self {
            table,
            shape: Shape::new(initial, max),
            grower: Mutex::new(()),
            ledger,
            counts: Counters::default(),
            touched: AtomicU32::new(0),
        })
    }

    /// The number of entries; exact while no thread changes the index.
    pub fn len(&self) -> u64 {
        self.counts.sum(ADDED).saturating_sub(self.counts.sum(REMOVED))
    }

    /// Returns whether the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the buckets take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.ledger.part(Part::Index)
    }

    /// The number of entries that the present buckets are meant for.
    pub fn capacity(&self) -> u64 {
        u64::from(self.shape.largest()) * TARGET_PER_BUCKET_X100 / 100
    }

    /// Memory of buckets for one more entry, in hundredths of a byte.
    pub const BYTES_PER_ENTRY_X100: u64 =
        (size_of::<bucket::Bucket>() as u64 * 10_000).div_ceil(TARGET_PER_BUCKET_X100);

    /// Memory, in bytes, that buckets for `entries` entries take.
    pub fn bytes_for(entries: u64) -> u64 {
        table::bytes(buckets_for(entries))
    }

    /// Returns whether the index is growing.
    pub fn is_growing(&self) -> bool {
        self.shape.load().is_growing()
    }
}

/// The bits of a hash that a slot keeps: never 0, which marks an empty slot.
#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

fn buckets_for(entries: u64) -> u32 {
    let buckets = (entries * 100).div_ceil(TARGET_PER_BUCKET_X100).max(table::MIN_BUCKETS.into());
    u32::try_from(buckets).unwrap_or(u32::MAX).min(table::MAX_BUCKETS)
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
