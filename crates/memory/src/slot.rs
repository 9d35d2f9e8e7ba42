//! A place for a value that many look at, without a lock, while somebody may put another there.
//!
//! Invariants:
//! 1. What is in a slot was made by `Box::into_raw`, and belongs to the slot.
//! 2. What was taken out is freed ([`Retired::free`]) only when nobody who saw it in the slot looks
//!    at it any more: by a grace period of those who look ([`crate::pools`]), or because all that
//!    they can have reached it by is gone.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for a value.
pub(crate) struct Slot<T> {
    at: AtomicPtr<T>,
    owns: PhantomData<T>,
}

impl<T> Slot<T> {
    /// An empty one.
    pub(crate) const fn empty() -> Self {
        Self { at: AtomicPtr::new(std::ptr::null_mut()), owns: PhantomData }
    }

    /// One with a value.
    pub(crate) fn with(value: Box<T>) -> Self {
        Self { at: AtomicPtr::new(Box::into_raw(value)), owns: PhantomData }
    }

    /// Returns the value that is there now. The result is looked at no longer than invariant 2 lets
    /// it live.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: what is in the slot is there, by invariant 1, and is not freed while it is looked
        // at, by invariant 2.
        unsafe { self.at.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the value that is there; `make` makes it if there is none. `unused` is shown a value
    /// that was made in vain, as another thread was quicker.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T, unused: impl FnOnce(&T)) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let made = Box::into_raw(Box::new(make()));
        match self.at.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the value was made a moment ago and belongs to the slot now (invariant 1). It
            // is not freed while it is looked at (invariant 2).
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: the value was made a moment ago, and as the slot has another (invariant
                // 1), nobody has seen it.
                let made = unsafe { Box::from_raw(made) };
                unused(&made);
                // SAFETY: what is in the slot was made by `Box::into_raw` (invariant 1), and is not
                // freed while it is looked at (invariant 2).
                unsafe { &*other }
            }
        }
    }

    /// Puts `value` there and takes out what was.
    pub(crate) fn put(&self, value: Box<T>) -> Option<Retired<T>> {
        Retired::new(self.at.swap(Box::into_raw(value), Ordering::AcqRel))
    }

    /// Takes out what is there.
    pub(crate) fn take(&self) -> Option<Retired<T>> {
        Retired::new(self.at.swap(std::ptr::null_mut(), Ordering::AcqRel))
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        if let Some(last) = self.take() {
            // SAFETY: nobody looks at the slot any more, and what outlives the slot was taken out
            // before (invariant 2).
            drop(unsafe { last.free() });
        }
    }
}

/// A value that was taken out of a slot, which others may look at yet. To be freed by
/// [`Self::free`]: dropped, it stays for ever.
pub(crate) struct Retired<T>(NonNull<T>);

// SAFETY: the value is a box (invariant 1) of which others may have shared references until it is
// freed (invariant 2).
unsafe impl<T: Send + Sync> Send for Retired<T> {}
// SAFETY: as for `Send` (invariants 1 and 2).
unsafe impl<T: Send + Sync> Sync for Retired<T> {}

impl<T> Retired<T> {
    fn new(at: *mut T) -> Option<Self> {
        NonNull::new(at).map(Self)
    }

    /// The value for its last owner.
    ///
    /// # Safety
    /// Nobody who saw the value in its slot looks at it any more (invariant 2).
    pub(crate) unsafe fn free(self) -> Box<T> {
        // SAFETY: made by `Box::into_raw` (invariant 1), taken out once, and looked at by nobody
        // else (caller's duty).
        unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}

impl<T> std::ops::Deref for Retired<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is freed only by a call that consumes `self` (invariant 2).
        unsafe { self.0.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_value_is_dropped_once_wherever_it_ends() {
        let count = Arc::new(());
        let slot = Slot::empty();
        assert!(slot.get().is_none() && slot.take().is_none());
        let unused = |_: &_| unreachable!("no other thread makes one");
        slot.get_or_make(|| Arc::clone(&count), unused);
        slot.get_or_make(|| unreachable!("it is there"), unused);
        let first = slot.put(Box::new(Arc::clone(&count))).expect("was there");
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&count)), (3, 3));
        // SAFETY: this thread alone looks at it (invariant 2).
        drop(unsafe { first.free() });
        assert_eq!(Arc::strong_count(&count), 2);
        drop(slot);
        assert_eq!(Arc::strong_count(&count), 1);
        drop(Slot::with(Box::new(Arc::clone(&count))));
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
