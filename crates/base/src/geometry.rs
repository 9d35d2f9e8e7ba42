//! Sizes of slabs and chunks.
//!
//! The arena cuts its memory by these numbers. Policies calculate with them too, without access to
//! an arena: which chunk sizes are useful, how much of a slab a chunk takes, and how much memory
//! moves at a time.

/// Size of a slab, in bytes: CacheLib's (OSDI'20, section 4.2).
pub const SLAB_BYTES: usize = 4 << 20;

/// Smallest chunk, in bytes. A slab then holds at most 65,536 chunks, which a pointer's lower 16
/// bits can name.
pub const MIN_CHUNK_BYTES: u32 = 64;

/// Chunk sizes are multiples of this, so that headers are aligned.
pub const CHUNK_ALIGN: u32 = 8;

/// The largest multiple of 8 of which a slab holds as many as of `size` rounded up to one: a chunk
/// size that wastes nothing. `size` must be from 1 to [`SLAB_BYTES`].
pub fn best_size(size: u32) -> u32 {
    let rounded = size.next_multiple_of(CHUNK_ALIGN);
    let per_slab = SLAB_BYTES as u32 / rounded;
    SLAB_BYTES as u32 / per_slab / CHUNK_ALIGN * CHUNK_ALIGN
}

/// All useful chunk sizes, ascending, in bytes: each is the largest with its number of chunks per
/// slab. There are about 1,440.
pub fn useful_sizes() -> impl Iterator<Item = u32> {
    let next = |size: &u32| (*size < SLAB_BYTES as u32).then(|| best_size(size + 1));
    std::iter::successors(Some(best_size(MIN_CHUNK_BYTES)), next)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn useful_sizes_ascend_to_the_slab_and_are_their_own_best() {
        let useful: Vec<u32> = useful_sizes().collect();
        assert!((1_400..1_500).contains(&useful.len()), "{}", useful.len());
        assert!(useful.is_sorted_by(|a, b| a < b));
        assert!(useful.iter().all(|size| best_size(*size) == *size));
        assert_eq!(useful.last(), Some(&(SLAB_BYTES as u32)));
    }
}
