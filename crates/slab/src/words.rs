//! Words that outlive the process, or do not.
//!
//! A cache keeps a few tables of 64-bit words: what each slab holds, which pool has which number,
//! what was flushed. They lie on the heap, or in a file in memory (`/dev/shm`) beside the slabs,
//! where the next process finds them as they were at the last instruction of this one. Each word
//! changes by one atomic store, so that there is no moment at which a death would leave half of
//! one.
//!
//! Invariant 1: a [`Words`] owns `len` initialised words from `at` on, in a leaked box of that
//! length or in a mapping of its own. The words stay there until it is dropped, and this process
//! touches them as atomics alone.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{self, MapFlags, ProtFlags};

use crate::shared::{reserve, set_len};

/// A fixed number of words.
pub struct Words {
    at: NonNull<AtomicU64>,
    len: usize,
    /// 0 on the heap.
    mapped_bytes: usize,
}

// SAFETY: the words are atomics that belong to this value alone (invariant 1).
unsafe impl Send for Words {}
// SAFETY: as for `Send` (invariant 1).
unsafe impl Sync for Words {}

impl Words {
    /// `len` zeros on the heap.
    pub fn on_heap(len: usize) -> Self {
        // SAFETY: a word of zeros is an initialised atomic, as invariant 1 requires. Words that
        // nobody touches take no memory, if there are many.
        let words: Box<[AtomicU64]> = unsafe { Box::new_zeroed_slice(len).assume_init() };
        Self { at: NonNull::from(Box::leak(words)).cast(), len, mapped_bytes: 0 }
    }

    /// The first `len` words of a file of such pages, which is made as long as that; what was not
    /// there is zero.
    ///
    /// # Errors
    /// If the file cannot be made longer or mapped, or its file system has no memory for it.
    pub(crate) fn in_file(file: &File, len: usize, page_bytes: usize) -> io::Result<Self> {
        let bytes = (len * size_of::<AtomicU64>()).next_multiple_of(page_bytes);
        if file.metadata()?.len() < bytes as u64 {
            set_len(file, bytes as u64)?;
        }
        // To touch a hole for which there is no memory would end the process.
        reserve(file, 0, bytes)?;
        // SAFETY: a mapping at an address of the kernel's choice replaces no other, and becomes
        // this value's own (invariant 1).
        let at = unsafe {
            mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Self { at, len, mapped_bytes: bytes })
    }

    /// The address and the length in bytes of the mapping, if there is one.
    pub(crate) fn mapped(&self) -> Option<(NonNull<u8>, usize)> {
        (self.mapped_bytes > 0).then_some((self.at.cast(), self.mapped_bytes))
    }
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `len` initialised words lie at `at`, and stay there while `self` is borrowed
        // (invariant 1).
        unsafe { NonNull::slice_from_raw_parts(self.at, self.len).as_ref() }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if self.mapped_bytes > 0 {
            // SAFETY: the mapping is this value's own (invariant 1), and nobody borrows from a
            // value that is being dropped.
            let _ = unsafe { mm::munmap(self.at.as_ptr().cast(), self.mapped_bytes) };
        } else {
            // SAFETY: the words are a leaked box of this length (invariant 1), and nobody borrows
            // from a value that is being dropped.
            drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(self.at, self.len).as_ptr()) });
        }
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("len", &self.len).field("mapped_bytes", &self.mapped_bytes).finish()
    }
}
