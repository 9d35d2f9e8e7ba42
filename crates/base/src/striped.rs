//! A value for each counter stripe, made when the stripe first needs it.
//!
//! Most blocks of counters, and most stores of a thread, are used by few threads. So the value
//! itself (40 bytes) has room for the first stripes, which are handed out first; room for the
//! others is allocated when the first of them needs it.
//!
//! Invariant 1: a place is empty or holds a pointer that `Box::into_raw` made, and keeps it until
//! it is dropped.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::counter::STRIPES;

/// Stripes for which there is room without an allocation.
const FIRST: usize = 4;

/// A place for a value that stays once it is there.
struct Place<T>(AtomicPtr<T>);

impl<T> Default for Place<T> {
    fn default() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> Place<T> {
    #[inline]
    fn get(&self) -> Option<&T> {
        // SAFETY: invariant 1: the pointer was made by `Box::into_raw`, and stays valid while
        // `self` is borrowed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn make(&self, make: impl FnOnce() -> T) -> &T {
        let made = Box::into_raw(Box::new(make()));
        match self.0.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the pointer was made by `Box::into_raw` a moment ago, and the place keeps it
            // while `self` is borrowed (invariant 1).
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: the place keeps another pointer (invariant 1), so that no other thread
                // has seen this one.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: what the place holds was made by `Box::into_raw`, and stays while `self`
                // is borrowed (invariant 1).
                unsafe { &*other }
            }
        }
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        let last = *self.0.get_mut();
        if !last.is_null() {
            // SAFETY: invariant 1, and no thread reads a place that is being dropped.
            drop(unsafe { Box::from_raw(last) });
        }
    }
}

/// A `T` for each stripe that has needed one.
pub struct Striped<T> {
    first: [Place<T>; FIRST],
    rest: Place<[Place<T>; STRIPES - FIRST]>,
}

// SAFETY: its places own what they point to (invariant 1), and give out shared references to that.
unsafe impl<T: Send + Sync> Send for Striped<T> {}
// SAFETY: its places own what they point to (invariant 1), and give out shared references to that.
unsafe impl<T: Send + Sync> Sync for Striped<T> {}

impl<T> Default for Striped<T> {
    fn default() -> Self {
        Self { first: Default::default(), rest: Place::default() }
    }
}

impl<T> Striped<T> {
    /// The value of a stripe, if there is one.
    #[inline]
    pub fn get(&self, stripe: usize) -> Option<&T> {
        match self.first.get(stripe) {
            Some(place) => place.get(),
            None => self.rest.get()?.get(stripe - FIRST)?.get(),
        }
    }

    /// The value of a stripe. If there is none, `make` makes it; if two threads of the shared
    /// stripe do so at once, one of the two values is dropped.
    ///
    /// # Panics
    /// If `stripe` is not below [`STRIPES`].
    #[inline]
    pub fn get_or_make(&self, stripe: usize, make: impl FnOnce() -> T) -> &T {
        match self.get(stripe) {
            Some(value) => value,
            None => self.make(stripe, make),
        }
    }

    #[cold]
    fn make(&self, stripe: usize, make: impl FnOnce() -> T) -> &T {
        if let Some(place) = self.first.get(stripe) {
            return place.make(make);
        }
        let rest = match self.rest.get() {
            Some(rest) => rest,
            None => self.rest.make(|| std::array::from_fn(|_| Place::default())),
        };
        rest[stripe - FIRST].make(make)
    }

    /// All values, by stripe.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let rest = self.rest.get().into_iter().flatten();
        self.first.iter().chain(rest).filter_map(Place::get)
    }

    /// Memory of the values and of the room for them outside this value, in bytes. Memory that a
    /// value owns is not counted.
    pub fn bytes(&self) -> usize {
        let room = if self.rest.get().is_some() { size_of::<[Place<T>; STRIPES - FIRST]>() } else { 0 };
        room + self.iter().count() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_stripe_has_one_value_that_is_dropped_once() {
        assert_eq!(size_of::<Striped<u64>>(), 40);
        let count = Arc::new(());
        let striped = Striped::<(usize, Arc<()>)>::default();
        assert_eq!((striped.bytes(), striped.iter().count()), (0, 0));
        for stripe in [2, STRIPES - 1, 2, 0, FIRST] {
            let made = striped.get_or_make(stripe, || (stripe, Arc::clone(&count)));
            assert_eq!(made.0, stripe);
        }
        let stripes: Vec<usize> = striped.iter().map(|(stripe, _)| *stripe).collect();
        assert_eq!(stripes, [0, 2, FIRST, STRIPES - 1]);
        assert!(striped.get(1).is_none() && striped.get(FIRST + 1).is_none());
        assert_eq!(striped.bytes(), 4 * 16 + (STRIPES - FIRST) * 8);
        assert_eq!(Arc::strong_count(&count), 5);
        drop(striped);
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn threads_that_make_one_at_once_get_the_same() {
        let striped = Striped::<usize>::default();
        let addresses: Vec<usize> = std::thread::scope(|threads| {
            let work = |number| std::ptr::from_ref(striped.get_or_make(STRIPES - 1, || number)) as usize;
            let running: Vec<_> = (0..8).map(|number| threads.spawn(move || work(number))).collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(addresses.iter().all(|address| *address == addresses[0]));
    }
}
