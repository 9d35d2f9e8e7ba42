//! The atomics and locks of code that has models: the standard library's atomics and
//! `parking_lot`'s locks, or loom's when a model is checked (`RUSTFLAGS="--cfg loom"`). (The thread
//! sanitizer sees into `parking_lot`, and not into the standard library's locks.)

#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(loom)]
pub use loom::sync::atomic;

#[cfg(not(loom))]
pub use parking_lot::{Mutex, MutexGuard};

#[cfg(loom)]
pub use of_loom::{Mutex, MutexGuard};

/// Locks with the interface of `parking_lot`.
#[cfg(loom)]
mod of_loom {
    pub use loom::sync::MutexGuard;

    /// A lock.
    #[derive(Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// A lock around `value`.
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        /// Waits until no other thread has it.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model ends with the first panic")
        }

        /// `None` while another thread has it.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

/// Tells the processor, or the model checker, that this thread waits for another thread.
#[inline]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Asks the processor to fetch the cache line that `at` begins in. Never a fault, never a change.
#[inline]
pub fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on memory and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(std::ptr::from_ref(at).cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
