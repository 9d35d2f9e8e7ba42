//! The amount of memory that moves at a time.

use slab::SLAB_BYTES;
use slab::run::UNIT_BYTES;

/// A pool moves at least this part of its memory at a time, and no more than a slab.
const STEPS_OF_POOL: u64 = 16;
const LEAST_STEP_BYTES: u64 = 64 << 10;

/// Returns what moves at a time in a pool with this much memory, in bytes: a slab, or in a small
/// pool a sixteenth of it, and 64 KiB at least.
pub(crate) fn step_for(pool_bytes: u64) -> u64 {
    let step = (pool_bytes / STEPS_OF_POOL).clamp(LEAST_STEP_BYTES, SLAB_BYTES as u64);
    step / UNIT_BYTES as u64 * UNIT_BYTES as u64
}
