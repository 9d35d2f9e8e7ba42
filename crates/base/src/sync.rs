//! The atomics that lock-free code uses: the standard library's, or loom's when a model is checked
//! (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(loom)]
pub use loom::sync::atomic;

/// Tells the processor, or the model checker, that this thread waits for another one.
#[inline]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
