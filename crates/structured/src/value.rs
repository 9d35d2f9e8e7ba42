//! Types that a map may hold.

use std::borrow::Borrow;

use bytemuck::Pod;

use memory::cells::{CellResult, Cells as Tail, Corrupt};

/// The values of a [`super::Map`] or [`super::OrderedMap`]: plain data, or `[u8]` for byte strings
/// of any length. Not to be implemented elsewhere.
pub trait Value: sealed::Sealed {
    /// The type of what is returned of it: a copy.
    type Owned: Borrow<Self>;

    /// Its length in bytes, where all have the same.
    #[doc(hidden)]
    const BYTES: Option<usize>;

    /// Its bytes.
    #[doc(hidden)]
    fn bytes(&self) -> &[u8];

    /// A copy of a value of `len` bytes, which `read` copies out. `None`: it cannot.
    #[doc(hidden)]
    fn copied(len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> Option<Self::Owned>;
}

impl<T: Pod> Value for T {
    type Owned = T;
    const BYTES: Option<usize> = Some(size_of::<T>());

    fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }

    #[inline]
    fn copied(_len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> Option<T> {
        let mut value = T::zeroed();
        read(bytemuck::bytes_of_mut(&mut value)).then_some(value)
    }
}

impl Value for [u8] {
    type Owned = Vec<u8>;
    const BYTES: Option<usize> = None;

    fn bytes(&self) -> &[u8] {
        self
    }

    #[inline]
    fn copied(len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> Option<Vec<u8>> {
        let mut value = vec![0; len];
        read(&mut value).then_some(value)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T: bytemuck::Pod> Sealed for T {}
    impl Sealed for [u8] {}
}

/// Reads the value of `len` bytes that begins with word `at`.
#[inline]
pub(super) fn read<V: Value + ?Sized>(tail: Tail<'_>, at: usize, len: usize) -> CellResult<V::Owned> {
    // A length that is torn must not become an allocation.
    if len > tail.len() * 4 {
        return Err(Corrupt);
    }
    V::copied(len, |out| tail.read(at, out).is_ok()).ok_or(Corrupt)
}
