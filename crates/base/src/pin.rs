//! Waiting until no reader is in the middle of something: a grace period that costs readers two plain stores.
//!
//! A reader *pins* while it follows pointers that it did not take a reference to. Whoever is about to reuse the memory
//! behind such pointers first makes them unreachable and then calls [`Pins::synchronize`], which returns when every
//! reader that was pinned at that moment has unpinned.
//!
//! The readers' store must be visible before their loads. Instead of a fence in each reader, `synchronize` makes all
//! threads of the process pass one (`membarrier`, Linux 4.14); where the kernel has none, readers fence themselves.
//!
//! Invariants:
//! 1. A slot below the last belongs to one thread at a time (it is the thread's counter stripe) and is odd while that
//!    thread is pinned. The last slot counts the pinned among all other threads.
//! 2. After the barrier in `synchronize`, a slot that reads as unpinned belongs to a thread that sees everything the
//!    caller did before, whenever it pins again.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::counter::{STRIPES, stripe};

const SHARED: usize = STRIPES - 1;

/// The slots of one group of readers.
pub struct Pins {
    slots: Box<[CachePadded<AtomicU64>]>,
    /// The kernel has no `membarrier`.
    readers_fence: bool,
}

impl Default for Pins {
    fn default() -> Self {
        Self::new()
    }
}

impl Pins {
    /// A group without readers. Registers the process with the kernel, which costs a moment the first time.
    pub fn new() -> Self {
        Self {
            slots: (0..STRIPES).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            readers_fence: membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_err(),
        }
    }

    /// Pins the calling thread until the result is dropped. Not to be nested.
    #[inline]
    pub fn pin(&self) -> Pinned<'_> {
        let stripe = stripe();
        let slot = &self.slots[stripe];
        if stripe == SHARED {
            slot.fetch_add(1, Ordering::SeqCst);
        } else {
            let count = slot.load(Ordering::Relaxed);
            debug_assert!(count.is_multiple_of(2), "a thread pinned twice");
            slot.store(count + 1, Ordering::Relaxed);
        }
        if self.readers_fence {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
        Pinned { slot, shared: stripe == SHARED, thread_bound: PhantomData }
    }

    /// Returns when every thread that is pinned now has unpinned. Costs a system call that interrupts the other
    /// processors, and the wait.
    pub fn synchronize(&self) {
        if self.readers_fence {
            fence(Ordering::SeqCst);
        } else if let Err(error) = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            unreachable!("membarrier is registered and yet fails: {error}");
        }
        for (i, slot) in self.slots.iter().enumerate() {
            let before = slot.load(Ordering::Acquire);
            let is_pinned = |now: u64| {
                if i == SHARED { now != 0 } else { before % 2 == 1 && now == before }
            };
            let mut waits = 0_u32;
            while is_pinned(slot.load(Ordering::Acquire)) {
                waits += 1;
                if waits < 100 {
                    std::hint::spin_loop();
                } else {
                    crate::thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }
}

/// A pinned thread; unpins when dropped.
pub struct Pinned<'a> {
    slot: &'a AtomicU64,
    shared: bool,
    /// The slot is the thread's own, so the value must be dropped where it was made.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.shared {
            self.slot.fetch_sub(1, Ordering::Release);
        } else {
            self.slot.store(self.slot.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }
}

fn membarrier(command: libc::c_int) -> std::io::Result<()> {
    // SAFETY: membarrier takes a command, flags and a processor number, and touches no memory of ours.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn nobody_reads_what_was_retired() {
        let pins = Arc::new(Pins::new());
        // Two cells take turns: the index of the valid one, and whether each is poisoned.
        let valid = Arc::new(AtomicU64::new(0));
        let poisoned = Arc::new([const { AtomicBool::new(false) }; 2]);
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (pins, valid, poisoned, stop) =
                    (Arc::clone(&pins), Arc::clone(&valid), Arc::clone(&poisoned), Arc::clone(&stop));
                crate::thread::spawn("reader", move || {
                    while !stop.load(Ordering::Relaxed) {
                        let _pinned = pins.pin();
                        let cell = valid.load(Ordering::Acquire) as usize;
                        for _ in 0..20 {
                            assert!(!poisoned[cell].load(Ordering::Relaxed), "read after the grace period");
                        }
                    }
                })
                .expect("a thread")
            })
            .collect();
        for round in 0..2_000_u64 {
            let old = (round % 2) as usize;
            poisoned[1 - old].store(false, Ordering::Relaxed);
            valid.store(1 - old as u64, Ordering::Release);
            pins.synchronize();
            poisoned[old].store(true, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no panic");
        }
    }
}
