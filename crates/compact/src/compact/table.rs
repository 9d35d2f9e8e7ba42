//! The memory of a compact cache: address space for as many buckets as there may ever be, of which
//! those in use are backed by memory.
//!
//! Invariants:
//! 1. The mapping belongs to the table alone, lives as long, and begins as zeros, which are
//!    unlocked, empty buckets.
//! 2. Whoever looks at a bucket is pinned from before it loaded the shape until after it is done
//!    with the bucket. Memory of buckets that are nobody's home any more is given back only after a
//!    grace period, and reads as zeros from then on.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use super::bucket::{Bucket, BucketLayout};
use memory::cells::Cells;

/// Memory is given back in pages.
const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// The buckets.
#[derive(Debug)]
pub(super) struct Table {
    base: NonNull<AtomicU32>,
    bytes: usize,
    form: BucketLayout,
}

// SAFETY: the words are atomics, and the mapping belongs to this table alone (invariant 1).
unsafe impl Send for Table {}
// SAFETY: as for `Send` (invariant 1).
unsafe impl Sync for Table {}

impl Table {
    /// Reserves `buckets` buckets.
    ///
    /// # Errors
    /// The system's error, if it refuses this much address space.
    pub(super) fn reserve(form: BucketLayout, buckets: u32) -> io::Result<Self> {
        let bytes = (buckets as usize * form.bucket_bytes).next_multiple_of(PAGE);
        // SAFETY: a mapping at an address of the kernel's choice replaces no other, and becomes
        // this table's own (invariant 1).
        let base = unsafe {
            mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Self { base, bytes, form })
    }

    /// A bucket.
    ///
    /// # Panics
    /// Where there is none of this number.
    #[inline]
    pub(super) fn bucket(&self, number: u32) -> Bucket<'_> {
        let words = self.form.bucket_words();
        let first = number as usize * words;
        assert!((first + words) * size_of::<AtomicU32>() <= self.bytes, "bucket {number} is out of range");
        // SAFETY: within the mapping, which is aligned to pages, lives as long as `self`, and holds
        // words that are touched as atomics alone (invariant 1).
        let cells = unsafe { NonNull::slice_from_raw_parts(self.base.add(first), words).as_ref() };
        Bucket { cells: Cells(cells), form: self.form }
    }

    /// Asks for large pages for the first `buckets` buckets, as far as they fill them: no page is
    /// to be larger than what is paid for.
    pub(super) fn use_huge_pages(&self, buckets: u32) {
        let bytes = buckets as usize * self.form.bucket_bytes / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies within the table's own mapping (invariant 1). A refusal only means
        // small pages.
        let _ = unsafe { mm::madvise(self.base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }

    /// Gives the memory of the buckets from `first` on back to the system, but for the page that
    /// the one before lies in.
    pub(super) fn give_back(&self, first: u32) {
        let start = (first as usize * self.form.bucket_bytes).next_multiple_of(PAGE);
        if start >= self.bytes {
            return;
        }
        // SAFETY: the range lies within our own mapping. Nobody reads it (invariant 2), and who
        // should do so all the same reads zeros. A refusal leaves what is there, which is empty
        // buckets.
        let _ = unsafe {
            mm::madvise(
                self.base.as_ptr().cast::<u8>().add(start).cast(),
                self.bytes - start,
                Advice::LinuxDontNeed,
            )
        };
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this table alone (invariant 1), and nobody borrows from a
        // table that is being dropped.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
