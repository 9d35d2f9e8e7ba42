//! The size classes that a pool allocates from, and the table of all that it has.
//!
//! A class is known by its number, which stands in the table of slabs; the numbers that a pool
//! allocates from are in the order of their chunk sizes at first, and in any order once its sizes
//! have changed. A class that is none of them any more takes no new items, and goes when its last
//! slab has left.

use std::sync::OnceLock;

use slab::SizeClasses;

use crate::class::Class;
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::slot::{Retired, Slot};

/// The classes that a pool allocates from: chunk sizes, ascending, each with the number of its
/// class.
#[derive(Debug)]
pub(crate) struct Sizes {
    classes: SizeClasses,
    numbers: Box<[u8]>,
}

impl Sizes {
    /// Classes that are numbered in the order of their sizes.
    pub(crate) fn new(classes: SizeClasses) -> Self {
        let numbers = (0..classes.sizes().len()).map(|number| number as u8).collect();
        Self::numbered(classes, numbers)
    }

    /// Classes with these numbers, in the order of their sizes.
    pub(crate) fn numbered(classes: SizeClasses, numbers: Box<[u8]>) -> Self {
        debug_assert_eq!(classes.sizes().len(), numbers.len());
        Self { classes, numbers }
    }

    /// The place of the smallest class whose chunks hold `bytes`.
    #[inline]
    pub(crate) fn place_for(&self, bytes: usize) -> Option<usize> {
        self.classes.class_for(bytes).map(usize::from)
    }

    /// The place of the smallest class whose chunks hold `bytes`, if they fit otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], naming `pool`.
    pub(crate) fn place_within(&self, bytes: usize, fits: bool, pool: &Pool) -> Result<usize, Error> {
        self.place_for(bytes).filter(|_| fits).ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format!(
                    "an item of {bytes} bytes is larger than the largest chunk of pool `{}`, {} bytes",
                    pool.name,
                    self.largest()
                ),
            )
        })
    }

    /// Size of the largest chunks, in bytes.
    pub(crate) fn largest(&self) -> u32 {
        self.classes.sizes().last().copied().unwrap_or(0)
    }

    /// The number of the class at `place`.
    #[inline]
    pub(crate) fn number(&self, place: usize) -> u8 {
        self.numbers[place]
    }

    /// The place of the class with this number.
    pub(crate) fn place_of(&self, number: u8) -> Option<usize> {
        self.numbers.iter().position(|other| *other == number)
    }

    /// The place of the class with this chunk size.
    pub(crate) fn place_of_size(&self, chunk_bytes: u32) -> Option<usize> {
        self.classes.sizes().binary_search(&chunk_bytes).ok()
    }

    /// Chunk sizes, ascending, in bytes.
    pub(crate) fn sizes(&self) -> &[u32] {
        self.classes.sizes()
    }

    /// Memory of the tables, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        size_of::<Self>() + self.classes.table_bytes() + self.numbers.len()
    }
}

/// The classes of a pool by number, each made when first used. There is room for as many as the
/// pool begins with; that for other numbers is made when chunk sizes change.
pub(crate) struct Classes {
    first: Box<[Slot<Class>]>,
    rest: OnceLock<Box<[Slot<Class>]>>,
}

/// Numbers of classes.
const NUMBERS: usize = 256;

impl Classes {
    /// Room for a pool of `count` classes.
    pub(crate) fn new(count: usize) -> Self {
        Self { first: slots(count.min(NUMBERS)), rest: OnceLock::new() }
    }

    #[inline]
    fn slot(&self, number: u8) -> Option<&Slot<Class>> {
        let number = usize::from(number);
        match self.first.get(number) {
            Some(slot) => Some(slot),
            None => self.rest.get()?.get(number - self.first.len()),
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u8) -> Option<&Class> {
        self.slot(number)?.get()
    }

    /// The class with this number; `make` makes it where there is none, and `drop` is shown one
    /// that another thread was quicker than. How many bytes the table grew by.
    pub(crate) fn get_or_make(
        &self,
        number: u8,
        make: impl FnOnce() -> Class,
        drop: impl FnOnce(&Class),
    ) -> (&Class, usize) {
        let mut grown = 0;
        if usize::from(number) >= self.first.len() {
            self.rest.get_or_init(|| {
                let rest = slots(NUMBERS - self.first.len());
                grown = size_of_val::<[Slot<Class>]>(&rest);
                rest
            });
        }
        let slot = self.slot(number).expect("there is room for all numbers");
        (slot.get_or_make(make, drop), grown)
    }

    /// All that there are, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &Class)> {
        let slots = self.first.iter().chain(self.rest.get().into_iter().flatten());
        (0..=u8::MAX).zip(slots).filter_map(|(number, slot)| slot.get().map(|class| (number, class)))
    }

    /// Takes a class out that has no slab and gets none any more.
    pub(crate) fn take(&self, number: u8) -> Option<Retired<Class>> {
        self.slot(number)?.take()
    }

    /// Memory of the table, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        let rest = self.rest.get().map_or(0, |rest| size_of_val::<[Slot<Class>]>(rest));
        size_of_val::<[Slot<Class>]>(&self.first) + rest
    }
}

fn slots(count: usize) -> Box<[Slot<Class>]> {
    (0..count).map(|_| Slot::empty()).collect()
}
