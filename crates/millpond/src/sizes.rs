//! The size classes that a pool allocates from, and the table of all that it has.
//!
//! A class is known by its number, which stands in the table of slabs; the numbers that a pool allocates from are in the
//! order of their chunk sizes at first, and in any order once its sizes have changed. A class that is none of them any more
//! takes no new items, and goes when its last slab has left.

use slab::SizeClasses;

use crate::class::Class;
use crate::error::{Error, ErrorKind};
use crate::pool::Pool;
use crate::slot::{Retired, Slot};

/// The classes that a pool allocates from: chunk sizes, ascending, each with the number of its class.
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

/// The classes of a pool by number, each made when first used.
pub(crate) struct Classes(Box<[Slot<Class>; NUMBERS]>);

/// Numbers of classes.
const NUMBERS: usize = 256;

impl Classes {
    pub(crate) fn new() -> Self {
        Self(Box::new([const { Slot::empty() }; NUMBERS]))
    }

    #[inline]
    pub(crate) fn get(&self, number: u8) -> Option<&Class> {
        self.0[usize::from(number)].get()
    }

    /// The class with this number; `make` makes it where there is none. Says whether this call did.
    pub(crate) fn get_or_make(&self, number: u8, make: impl FnOnce() -> Class) -> (&Class, bool) {
        self.0[usize::from(number)].get_or_make(make)
    }

    /// All that there are, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &Class)> {
        (0..=u8::MAX).zip(&*self.0).filter_map(|(number, slot)| slot.get().map(|class| (number, class)))
    }

    /// Takes a class out that has no slab and gets none any more.
    pub(crate) fn take(&self, number: u8) -> Option<Retired<Class>> {
        self.0[usize::from(number)].take()
    }

    /// Memory of the table, in bytes.
    pub(crate) const fn table_bytes() -> usize {
        size_of::<[Slot<Class>; NUMBERS]>()
    }
}
