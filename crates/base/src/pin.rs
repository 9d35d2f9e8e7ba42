//! Safe reads of memory that another thread may reclaim: grace periods and protected words, at the
//! cost of a few plain stores.
//!
//! - A reader *pins* while it follows pointers without taking a reference. A thread that reclaims
//!   an object behind such pointers first makes the object unreachable and then calls
//!   [`Pins::synchronize`], which returns when every reader that was pinned at that moment has
//!   unpinned. This waits, so it is for rare events.
//! - A reader *protects* one object: it publishes the object's 32-bit name in the thread's hazard
//!   slot, and then checks that the object is still reachable. A thread that reclaims such objects
//!   makes a batch of them unreachable and calls [`Pins::protected`] once: no thread reads an
//!   object that is not in the answer. No thread waits, and a reader that sleeps keeps only one
//!   object from being reused. (Michael: "Hazard pointers", IEEE TPDS 2004.) A thread that needs
//!   the batch only later marks the moment ([`Pins::mark`]) and asks then
//!   ([`Pins::protected_since`]): if any thread has asked meanwhile, its barrier serves both.
//!
//! In both, the reader's store must be visible before its loads. Instead of a fence in each reader,
//! the reclaiming side makes all threads of the process pass one (`membarrier`, Linux 4.14). If the
//! kernel lacks that call, readers fence themselves.
//!
//! Invariants:
//! 1. A slot belongs to one thread at a time (it is the thread's counter stripe) and its count is
//!    odd while that thread is pinned. The pinned threads without a slot are counted in `crowd`;
//!    they protect nothing.
//! 2. After the barrier, a slot that reads as unpinned, or as protecting another word, belongs to a
//!    thread that sees everything the caller did before the barrier, whenever that thread pins or
//!    protects again.
//!
//! Other invariants are in the modules: 3, of barriers that serve several callers, in `shared`; 4
//! and 5, of retired objects, in `retire`; 6 and 7, of gates, in `gate`; 8 and 9, of threads
//! without a slot, in `crowd`.

mod crowd;
mod gate;
mod grace;
mod retire;
mod shared;

use std::marker::PhantomData;
#[cfg(not(loom))]
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::counter::{STRIPES, stripe};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crowd::Crowd;
pub use gate::{Closed, Gate, Passed};
pub use grace::Grace;
pub use retire::RetireList;
use shared::Barriers;
pub use shared::Mark;

const SHARED: usize = STRIPES - 1;
/// Set in a slot's `word` while the lower half is protected.
const TAKEN: u64 = 1 << 32;

/// The state that one thread shows the others.
#[derive(Default)]
struct Slot {
    /// Odd while the thread is pinned.
    count: AtomicU64,
    /// The word that the thread protects.
    word: AtomicU64,
}

/// The slots of one group of readers.
pub struct Pins {
    slots: Box<[CachePadded<Slot>]>,
    /// The pinned threads without a slot.
    crowd: Crowd,
    /// True if readers fence themselves, as when the kernel has no `membarrier`.
    readers_fence: bool,
    barriers: Barriers,
}

impl Default for Pins {
    fn default() -> Self {
        Self::new()
    }
}

impl Pins {
    /// Creates a group without readers. Registers the process with the kernel, which takes some
    /// time at the first call.
    pub fn new() -> Self {
        Self {
            slots: (0..SHARED).map(|_| CachePadded::default()).collect(),
            crowd: Crowd::default(),
            readers_fence: !membarrier::register(),
            barriers: Barriers::default(),
        }
    }

    /// One with few slots, whose readers fence themselves: for models.
    #[cfg(all(test, loom))]
    fn fenced(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| CachePadded::default()).collect(),
            crowd: Crowd::default(),
            readers_fence: true,
            barriers: Barriers::default(),
        }
    }

    /// Pins the calling thread until the result is dropped. Calls must not be nested.
    #[inline]
    pub fn pin(&self) -> Pinned<'_> {
        self.pin_at(stripe())
    }

    #[inline]
    fn pin_at(&self, stripe: usize) -> Pinned<'_> {
        if stripe == SHARED {
            let count = self.crowd.enter();
            self.reader_fence();
            return Pinned { count, shared: true, thread_bound: PhantomData };
        }
        self.pin_in(&self.slots[stripe])
    }

    /// Pins the thread that owns `slot`, which is the calling one.
    #[inline]
    fn pin_in<'a>(&'a self, Slot { count, .. }: &'a Slot) -> Pinned<'a> {
        let before = count.load(Ordering::Relaxed);
        debug_assert!(before.is_multiple_of(2), "a thread pinned twice");
        // Releases the reads of the previous pinned period: a thread that waits for its end may see
        // this count and never the even one between.
        count.store(before + 1, Ordering::Release);
        self.reader_fence();
        Pinned { count, shared: false, thread_bound: PhantomData }
    }

    /// Pins the calling thread unless it is already pinned. In that case the outer caller must keep
    /// the thread pinned for as long as this caller needs it, as in nested calls.
    #[inline]
    pub fn pin_if_not(&self) -> Option<Pinned<'_>> {
        let stripe = stripe();
        // A thread without a slot is counted each time it pins.
        let is_pinned = stripe != SHARED && self.slots[stripe].count.load(Ordering::Relaxed) % 2 == 1;
        (!is_pinned).then(|| self.pin())
    }

    /// The calling thread's hazard slot. `None` if the thread already protects an object, or has no
    /// slot of its own, being one of more than 63 threads.
    #[inline]
    pub fn guard(&self) -> Option<HazardGuard<'_>> {
        let stripe = stripe();
        (stripe != SHARED).then(|| self.guard_at(stripe)).flatten()
    }

    #[inline]
    fn guard_at(&self, stripe: usize) -> Option<HazardGuard<'_>> {
        let slot = &*self.slots[stripe];
        let place = Hazard { pins: self, slot, thread_bound: PhantomData };
        (slot.word.load(Ordering::Relaxed) == 0).then(|| HazardGuard(place))
    }

    #[inline]
    fn reader_fence(&self) {
        if self.readers_fence {
            fence(Ordering::SeqCst);
        } else {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        }
    }

    fn others_fence(&self) {
        if self.readers_fence {
            fence(Ordering::SeqCst);
        } else {
            membarrier::pass();
        }
    }

    /// Returns the words that threads protect, after a barrier. If the caller made an object
    /// unreachable before the call, and the result lacks its word, no thread reads the object.
    /// Costs a system call that interrupts the other processors, and a read of each slot.
    pub fn protected(&self) -> Protected {
        self.protected_since(self.mark())
    }

    /// This moment, for [`Self::protected_since`]. Costs a fence.
    pub fn mark(&self) -> Mark {
        self.barriers.mark()
    }

    /// The words protected by threads that may have found the named objects before the caller made
    /// those unreachable, which it must do before it takes the mark. Costs as much as
    /// [`Self::protected`], without the system call if any thread has asked for another batch since
    /// the mark.
    pub fn protected_since(&self, mark: Mark) -> Protected {
        self.barriers.pass_since(mark, || self.others_fence());
        let mut protected = Protected { words: [0; STRIPES], len: 0 };
        for slot in &self.slots {
            let word = slot.word.load(Ordering::Acquire);
            if word != 0 {
                protected.words[protected.len] = word as u32;
                protected.len += 1;
            }
        }
        protected
    }

    /// Returns when every thread that is pinned now has unpinned. Costs a system call that
    /// interrupts the other processors, and the wait.
    pub fn synchronize(&self) {
        let mut grace = self.grace();
        wait_while(|| !grace.has_passed(self));
    }
}

/// Spins a little, then sleeps, while `busy` returns true.
#[cfg(not(loom))]
fn wait_while(mut busy: impl FnMut() -> bool) {
    let mut waits = 0_u32;
    while busy() {
        waits += 1;
        if waits < 100 {
            std::hint::spin_loop();
        } else {
            crate::thread::sleep(Duration::from_micros(50));
        }
    }
}

#[cfg(loom)]
fn wait_while(mut busy: impl FnMut() -> bool) {
    while busy() {
        crate::sync::spin_hint();
    }
}

/// A pinned thread; unpins when dropped.
pub struct Pinned<'a> {
    count: &'a AtomicU64,
    shared: bool,
    /// The slot is the thread's own, so the value must be dropped where it was made.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.shared {
            self.count.fetch_sub(1, Ordering::Release);
        } else {
            self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }
}

/// The hazard slot of a thread. The protection ends when this is dropped.
pub struct HazardGuard<'a>(Hazard<'a>);

/// The slot that a [`HazardGuard`] keeps, for calls under it. A value that is copied stays in
/// registers, where a reference to the guard would put the guard into memory.
///
/// ```compile_fail
/// let pins = millpond_base::pin::Pins::new();
/// let guard = pins.guard().unwrap();
/// let hazard = guard.hazard();
/// drop(guard);
/// hazard.protect(1);
/// ```
#[derive(Clone, Copy)]
pub struct Hazard<'a> {
    pins: &'a Pins,
    slot: &'a Slot,
    /// The slot is the thread's own.
    thread_bound: PhantomData<*const ()>,
}

impl<'a> HazardGuard<'a> {
    /// [`Pins::pin`], without looking for the thread's slot again.
    #[inline]
    pub fn pin(&self) -> Pinned<'a> {
        self.0.pins.pin_in(self.0.slot)
    }

    /// The slot itself.
    #[inline]
    pub fn hazard(&self) -> Hazard<'_> {
        self.0
    }
}

impl Hazard<'_> {
    /// Protects `word` from now on, and nothing else. The named object may already be gone: after
    /// this call, the caller must check by an acquiring load that the object is still reachable,
    /// and read it only then.
    #[inline]
    pub fn protect(self, word: u32) {
        // Releases the reads under the previous word.
        self.slot.word.store(TAKEN | u64::from(word), Ordering::Release);
        self.pins.reader_fence();
    }
}

impl Drop for HazardGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.slot.word.store(0, Ordering::Release);
    }
}

/// The words protected at some moment: see [`Pins::protected`].
pub struct Protected {
    words: [u32; STRIPES],
    len: usize,
}

impl Protected {
    /// Returns whether `word` was protected.
    #[inline]
    pub fn contains(&self, word: u32) -> bool {
        self.words[..self.len].contains(&word)
    }
}

/// The system call that makes every running thread of this process pass a fence.
#[cfg(not(loom))]
mod membarrier {
    /// Returns whether the kernel has this call.
    pub(super) fn register() -> bool {
        call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_ok()
    }

    pub(super) fn pass() {
        if let Err(error) = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            unreachable!("membarrier is registered and yet fails: {error}");
        }
    }

    fn call(command: libc::c_int) -> std::io::Result<()> {
        // SAFETY: membarrier takes a command, flags and a processor number, and touches no memory
        // of ours.
        let rc = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}

/// The model checker only knows fences.
#[cfg(loom)]
mod membarrier {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn pass() {
        unreachable!("readers fence themselves")
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// A thing that is there until it is taken away and overwritten.
    struct Thing {
        pins: Pins,
        there: AtomicBool,
        content: UnsafeCell<u32>,
    }

    impl Thing {
        fn read(&self, stripe: usize) {
            let guard = self.pins.guard_at(stripe).expect("nothing is protected");
            // As a look-up does: what it follows is pinned, what it finds is protected.
            let pinned = guard.pin();
            guard.hazard().protect(7);
            let is_there = self.there.load(Ordering::Acquire);
            drop(pinned);
            if is_there {
                // SAFETY: what this model checks: nobody writes while the word is protected and the
                // thing is there (invariant 2).
                self.content
                    .with(|content| assert_eq!(unsafe { *content }, 1, "read after it was overwritten"));
            }
        }

        fn take_away(&self) {
            self.there.store(false, Ordering::Release);
            if !self.pins.protected().contains(7) {
                // SAFETY: what this model checks: nobody writes while the word is protected and the
                // thing is there (invariant 2).
                self.content.with_mut(|content| unsafe { *content = 2 });
            }
        }
    }

    #[test]
    fn loom_what_is_pinned_by_a_guard_ends_no_grace_period() {
        loom::model(|| {
            let pins = Pins::fenced(2);
            let thing = Arc::new(Thing { pins, there: AtomicBool::new(true), content: UnsafeCell::new(1) });
            let reader = {
                let thing = Arc::clone(&thing);
                thread::spawn(move || {
                    let guard = thing.pins.guard_at(0).expect("nothing is protected");
                    let pinned = guard.pin();
                    if thing.there.load(Ordering::Acquire) {
                        // SAFETY: what this model checks: nobody writes while a thread is pinned
                        // that has seen the thing (invariant 1).
                        thing.content.with(|content| assert_eq!(unsafe { *content }, 1));
                    }
                    drop((pinned, guard));
                })
            };
            thing.there.store(false, Ordering::Release);
            thing.pins.synchronize();
            // SAFETY: what this model checks: nobody is pinned any more that has seen the thing
            // (invariant 1).
            thing.content.with_mut(|content| unsafe { *content = 2 });
            reader.join().expect("no panic");
        });
    }

    #[test]
    fn loom_what_is_protected_and_there_is_not_overwritten() {
        loom::model(|| {
            let pins = Pins::fenced(2);
            let thing = Arc::new(Thing { pins, there: AtomicBool::new(true), content: UnsafeCell::new(1) });
            let reader = {
                let thing = Arc::clone(&thing);
                thread::spawn(move || {
                    thing.read(0);
                    thing.read(0);
                })
            };
            thing.take_away();
            reader.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_thread_protects_one_word_at_a_time() {
        let pins = Pins::new();
        let guard = pins.guard_at(3).expect("nothing is protected");
        guard.hazard().protect(0);
        assert!(pins.guard_at(3).is_none(), "not to be nested");
        assert!(pins.protected().contains(0) && !pins.protected().contains(9));
        guard.hazard().protect(9);
        assert!(!pins.protected().contains(0) && pins.protected().contains(9));
        drop(guard);
        assert!(!pins.protected().contains(9));
        assert!(pins.guard_at(3).is_some());
    }

    #[test]
    fn nobody_reads_what_was_taken_away_unprotected() {
        let pins = Arc::new(Pins::new());
        // Two cells take turns: which one is there, and what each holds; a cell that is overwritten
        // holds 0 for a while.
        let there = Arc::new(AtomicU64::new(0));
        let cells = Arc::new([const { AtomicU64::new(1) }; 2]);
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3)
            .map(|stripe| {
                let (pins, there, cells, stop) =
                    (Arc::clone(&pins), Arc::clone(&there), Arc::clone(&cells), Arc::clone(&stop));
                crate::thread::spawn("reader", move || {
                    while !stop.load(Ordering::Relaxed) {
                        let cell = there.load(Ordering::Relaxed);
                        let guard = pins.guard_at(stripe).expect("nothing is protected");
                        guard.hazard().protect(cell as u32);
                        if there.load(Ordering::Acquire) == cell {
                            for _ in 0..20 {
                                assert_eq!(cells[cell as usize].load(Ordering::Relaxed), 1, "overwritten");
                            }
                        }
                    }
                })
                .expect("a thread")
            })
            .collect();
        let mut overwritten = 0;
        for round in 0..20_000_u64 {
            let old = round % 2;
            there.store(1 - old, Ordering::Release);
            if !pins.protected().contains(old as u32) {
                overwritten += 1;
                cells[old as usize].store(0, Ordering::Relaxed);
                cells[old as usize].store(1, Ordering::Release);
            }
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no panic");
        }
        assert!(overwritten > 0);
    }

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
