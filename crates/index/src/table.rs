//! The array of buckets: address space for the largest index, of which only the used part takes
//! memory.

use std::io;

use crate::bucket::{Bucket, MAX_REACH};

/// Fewest buckets of an index.
pub const MIN_BUCKETS: u32 = if cfg!(loom) { 1 } else { 8 };
/// Most buckets of an index: 3.2 billion entries.
pub const MAX_BUCKETS: u32 = 1 << 28;

/// Memory of `buckets` buckets and of the spill space behind the last, in bytes.
pub fn bytes(buckets: u32) -> u64 {
    (u64::from(buckets) + u64::from(MAX_REACH)) * size_of::<Bucket>() as u64
}

#[cfg(not(any(loom, miri)))]
pub use mapped::Table;
#[cfg(any(loom, miri))]
pub use modelled::Table;

#[cfg(not(any(loom, miri)))]
mod mapped {
    use super::*;
    use rustix::mm::{self, MapFlags, ProtFlags};
    use slab::arena::PAGE_BYTES;
    use std::ptr::NonNull;

    /// Reserved buckets. Invariant 1: the mapping belongs to the table, lives as long, and
    /// starts as zeros, which are empty, unlocked buckets.
    pub struct Table {
        base: NonNull<Bucket>,
        buckets: usize,
    }

    // SAFETY: buckets are made of atomics only, and the mapping belongs to the table alone
    // (invariant 1).
    unsafe impl Send for Table {}
    // SAFETY: as for `Send` (invariant 1).
    unsafe impl Sync for Table {}

    impl Table {
        /// Reserves `max` buckets and the spill space behind them.
        ///
        /// # Errors
        /// If the system refuses that much address space.
        pub fn reserve(max: u32) -> io::Result<Self> {
            let buckets = max as usize + MAX_REACH as usize;
            // SAFETY: a mapping at an address of the kernel's choice replaces no other, and becomes
            // this table's own (invariant 1).
            let base = unsafe {
                mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    buckets * size_of::<Bucket>(),
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            }?;
            let base =
                NonNull::new(base.cast::<Bucket>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
            // SAFETY: the range is the mapping just made, which belongs to the table alone
            // (invariant 1). A refusal only means small pages.
            let _ = unsafe {
                mm::madvise(base.as_ptr().cast(), buckets * size_of::<Bucket>(), mm::Advice::LinuxHugepage)
            };
            Ok(Self { base, buckets })
        }

        /// Takes memory from the system for the buckets from `from` up to `to`, page by page. A
        /// single call for all (`MADV_POPULATE_WRITE`) would lock the address space for other
        /// threads during the whole call.
        pub fn touch(&self, from: u32, to: u32) {
            let to = to.min(self.buckets as u32);
            for i in (from..to).step_by(PAGE_BYTES / size_of::<Bucket>()) {
                self.get(i).touch();
            }
        }

        /// The bucket at `i`.
        ///
        /// # Panics
        /// If `i` lies behind the spill space.
        #[inline]
        pub fn get(&self, i: u32) -> &Bucket {
            if i as usize >= self.buckets {
                out_of_range(i);
            }
            // SAFETY: within the mapping, which is page-aligned, lives as long as `self` and holds
            // zeros or what bucket operations wrote (invariant 1).
            unsafe { self.base.add(i as usize).as_ref() }
        }
    }

    #[cold]
    fn out_of_range(i: u32) -> ! {
        panic!("bucket {i} is out of range")
    }

    impl Drop for Table {
        fn drop(&mut self) {
            // SAFETY: the mapping belongs to the table alone (invariant 1), which is dropped, so
            // that no borrow of a bucket remains.
            let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.buckets * size_of::<Bucket>()) };
        }
    }
}

#[cfg(any(loom, miri))]
mod modelled {
    use super::*;

    /// Buckets on the heap, for the model checker and for Miri, which knows few kinds of mappings.
    pub struct Table(Box<[Bucket]>);

    impl Table {
        /// As the real one.
        pub fn reserve(max: u32) -> io::Result<Self> {
            let spill = if cfg!(loom) { 2 } else { MAX_REACH };
            Ok(Self((0..max + spill).map(|_| Bucket::new()).collect()))
        }

        /// As the real one: all of it has memory.
        pub fn touch(&self, _from: u32, _to: u32) {}

        /// As the real one.
        pub fn get(&self, i: u32) -> &Bucket {
            &self.0[i as usize]
        }
    }
}
