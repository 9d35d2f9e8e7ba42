//! Memory that chunks take besides their own: queues, ghosts and the index.

use evict::PolicyKind;
use index::Index;

/// The part of the limit that classes leave to chunks: a change of policy and a restart at least,
/// allocations as far as a pool can give up a class for another.
pub(crate) const LEAST_FOR_CHUNKS: u64 = 2;

/// Memory that queues, ghosts and index take for this many chunks, in bytes.
pub(crate) fn metadata_of(chunks: u64, policy: PolicyKind) -> u64 {
    metadata_x100_of(chunks, policy).div_ceil(100)
}

/// The same in hundredths of a byte.
pub(crate) fn metadata_x100_of(chunks: u64, policy: PolicyKind) -> u64 {
    chunks * (policy.bytes_per_item_x100() + Index::BYTES_PER_ENTRY_X100)
}
