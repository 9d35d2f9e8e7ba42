//! A forked child of a process that has a cache in files.
//!
//! It would have the files mapped, as its parent has, and change items, queues and free lists of
//! which the parent knows nothing; and it would keep the lock for as long as it lives. So in the
//! child, before `fork` returns there, the slabs become zeros of its own, in which there is no
//! item; the words a copy of its own; and the files `/dev/null`, which gives its part in the lock
//! back. The cache of the child is empty and stays so ([`crate::Arena::is_parted`]).
//!
//! Invariants:
//! 1. An entry is in the list while its mappings and files are there, which its owner sees to.
//! 2. The list is touched only by the thread that has set `locked`. A thread that forks holds it
//!    from before until after the fork, so that the child finds the list whole. The child's handler
//!    takes no lock and no memory from the heap.

use std::cell::UnsafeCell;
use std::os::fd::{AsRawFd as _, RawFd};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The mappings and files that a cache in files has in this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) slabs: (NonNull<u8>, usize),
    pub(crate) words: (NonNull<u8>, usize),
    pub(crate) files: [RawFd; 2],
}

struct List {
    locked: AtomicBool,
    entries: UnsafeCell<Vec<Mapped>>,
}

// SAFETY: the entries are touched by one thread at a time (invariant 2), and are addresses and
// numbers.
unsafe impl Sync for List {}

static LIST: List = List { locked: AtomicBool::new(false), entries: UnsafeCell::new(Vec::new()) };
static FORKS: AtomicU32 = AtomicU32::new(0);

impl List {
    fn lock(&self) {
        while self.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Mapped>)) {
        self.lock();
        // SAFETY: invariant 2.
        change(unsafe { &mut *self.entries.get() });
        self.unlock();
    }
}

/// Returns the number of forks between the first process and this one: a cache in files that was
/// opened before the last is empty here.
#[inline]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

pub(crate) fn register(mapped: Mapped) {
    static HANDLERS: Once = Once::new();
    // SAFETY: the handlers do what may be done there (invariant 2). Without memory for them a fork
    // is as harmful as ever.
    HANDLERS.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
    });
    LIST.change(|entries| entries.push(mapped));
}

pub(crate) fn unregister(mapped: Mapped) {
    LIST.change(|entries| entries.retain(|other| *other != mapped));
}

extern "C" fn before() {
    LIST.lock();
}

extern "C" fn after_in_parent() {
    LIST.unlock();
}

extern "C" fn after_in_child() {
    // SAFETY: this thread has the list since `before` (invariant 2).
    let entries = unsafe { &*LIST.entries.get() };
    FORKS.fetch_add(1, Ordering::Relaxed);
    for mapped in entries {
        // SAFETY: the mappings and files are the entry's (invariant 1), and no other thread is
        // there that could use them.
        unsafe { part_from(mapped) };
    }
    LIST.unlock();
}

/// # Safety
/// As for the entry, and nobody else uses what it names.
unsafe fn part_from(mapped: &Mapped) {
    let map = |at: Option<NonNull<u8>>, bytes: usize| {
        let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
        let at = at.map_or(std::ptr::null_mut(), |at| at.as_ptr().cast());
        // SAFETY: nothing is in the place, or what the entry names (invariant 1), which nobody else
        // uses (the caller's duty).
        let mapped = unsafe { libc::mmap(at, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            // Better no child than one that changes its parent's memory.
            // SAFETY: `_exit` takes no lock and no memory from the heap (invariant 2), and runs
            // nothing of this process any more, which has nothing to clean up yet.
            unsafe { libc::_exit(libc::EXIT_FAILURE) }
        }
        mapped.cast::<u8>()
    };
    // SAFETY: the mappings and files are those of the entry (invariant 1), and nobody else uses
    // them (the caller's duty). What is copied is as long as both places, and files are replaced by
    // one of our own.
    unsafe {
        let (words, bytes) = mapped.words;
        let copy = map(None, bytes);
        copy.copy_from_nonoverlapping(words.as_ptr(), bytes);
        map(Some(words), bytes).copy_from_nonoverlapping(copy, bytes);
        libc::munmap(copy.cast(), bytes);
        map(Some(mapped.slabs.0), mapped.slabs.1);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for file in mapped.files {
            if null < 0 || libc::dup3(null, file, libc::O_CLOEXEC) < 0 {
                libc::close(file);
            }
        }
        libc::close(null);
    }
}

/// The numbers of two files.
pub(crate) fn numbers(files: [&std::fs::File; 2]) -> [RawFd; 2] {
    files.map(|file| file.as_raw_fd())
}
