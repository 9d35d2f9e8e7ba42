//! The atomics and locks of code that has models: the standard library's, or loom's when a model is checked
//! (`RUSTFLAGS="--cfg loom"`).

use std::sync::{PoisonError, TryLockError};

#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(loom)]
pub use loom::sync::atomic;

/// A lock: the standard library's or loom's. What a thread that panicked has left is handed on as it is.
#[derive(Default)]
pub struct Mutex<T>(#[cfg(not(loom))] std::sync::Mutex<T>, #[cfg(loom)] loom::sync::Mutex<T>);

/// The right to what a [`Mutex`] holds.
#[cfg(not(loom))]
pub use std::sync::MutexGuard;

#[cfg(loom)]
pub use loom::sync::MutexGuard;

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        #[cfg(not(loom))]
        return Self(std::sync::Mutex::new(value));
        #[cfg(loom)]
        return Self(loom::sync::Mutex::new(value));
    }

    /// Waits until no other thread has it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while another thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Tells the processor, or the model checker, that this thread waits for another one.
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
