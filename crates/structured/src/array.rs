//! An array in an item.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::access::{Change, OpenStructure};
use super::header::{HEADER, Kind, LEN, Shape};
use super::{StructureOptions, Usage};
use memory::Cache;
use memory::PoolId;
use memory::cells::{CellResult, Cells as Tail, Corrupt, words_for};
use memory::{Error, ErrorKind};

/// A number of elements of plain data, in an item of the cache: see [the module](crate).
///
/// ```
/// use millpond::structured::{Array, StructureOptions};
/// # use millpond::{Cache, CacheConfig, PoolConfig};
/// # fn main() -> Result<(), millpond::Error> {
/// # let cache = Cache::new(CacheConfig::default())?;
/// # let pool = cache.add_pool(PoolConfig::named("default"))?;
/// let hours =
///     Array::<u32>::create(&cache, pool, b"hits-by-hour", 24, &StructureOptions::default())?
///         .expect("the key has no item yet");
/// hours.update(7, |hits| hits + 1)?;
/// assert_eq!(hours.get(7)?, Some(1));
/// assert_eq!(hours.get(24)?, None);
/// # Ok(())
/// # }
/// ```
pub struct Array<T> {
    handle: OpenStructure,
    elements: PhantomData<fn() -> T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), elements: PhantomData }
    }
}

impl<T> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Array").field(&self.handle).finish()
    }
}

/// The offset of the first element, in bytes.
const FIRST: usize = HEADER * size_of::<u32>();

impl<T: Pod> Array<T> {
    const SHAPE: Shape = Shape { kind: Kind::Array, key_bytes: 0, value_bytes: size_of::<T>() as u32 };

    /// Makes an array of `len` zeros. `None`: the key has an item already.
    ///
    /// # Errors
    /// As for [`Cache::allocate`].
    pub fn create(
        cache: &Cache,
        pool: PoolId,
        key: &[u8],
        len: usize,
        options: &StructureOptions,
    ) -> Result<Option<Self>, Error> {
        let words = len.checked_mul(size_of::<T>()).map(words_for).filter(|_| len <= u32::MAX as usize);
        let Some(words) = words.filter(|words| *words < usize::MAX / 8) else {
            let context = format!("an array of {len} elements of {} bytes fits no item", size_of::<T>());
            return Err(Error::new(ErrorKind::TooLarge, context));
        };
        let fill = |tail: Tail<'_>| {
            tail.set(LEN, len as u32)?;
            (HEADER..HEADER + words).try_for_each(|at| tail.set(at, 0))
        };
        let handle = OpenStructure::create(cache, pool, key, Self::SHAPE, (options, HEADER + words), fill)?;
        Ok(handle.map(|handle| Self { handle, elements: PhantomData }))
    }

    /// The array that the key has. `None`: it has no item.
    ///
    /// # Errors
    /// [`ErrorKind::WrongType`] where its item is no array of such elements.
    pub fn open(cache: &Cache, pool: PoolId, key: &[u8]) -> Result<Option<Self>, Error> {
        let handle = OpenStructure::open(cache, pool, key, Self::SHAPE)?;
        Ok(handle.map(|handle| Self { handle, elements: PhantomData }))
    }

    /// The array that the key has, or a new one of `len` zeros; `true`: a new one. One that is
    /// there may have another length.
    ///
    /// # Errors
    /// As for [`Self::open`] and [`Self::create`].
    pub fn open_or_create(
        cache: &Cache,
        pool: PoolId,
        key: &[u8],
        len: usize,
        options: &StructureOptions,
    ) -> Result<(Self, bool), Error> {
        loop {
            if let Some(array) = Self::open(cache, pool, key)? {
                return Ok((array, false));
            }
            if let Some(array) = Self::create(cache, pool, key, len, options)? {
                return Ok((array, true));
            }
        }
    }

    super::all_structures!();

    /// The element at `index`; `None` = it is beyond the end.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`].
    pub fn get(&self, index: usize) -> Result<Option<T>, Error> {
        Ok(self.handle.read(|tail| element(tail, index))?.1)
    }

    /// Sets the element at `index` and returns what it was; `None` = it is beyond the end.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`].
    pub fn set(&self, index: usize, value: T) -> Result<Option<T>, Error> {
        self.change(None, |tail| store(tail, index, value)).map(Option::flatten)
    }

    /// Sets the element at `index` to what `update` makes of it, as one step, and returns what it
    /// was; `None` = it is beyond the end. `update` runs with no lock held, and again where another
    /// thread was quicker.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`].
    pub fn update(&self, index: usize, mut update: impl FnMut(T) -> T) -> Result<Option<T>, Error> {
        loop {
            let (sequence, Some(old)) = self.handle.read(|tail| element(tail, index))? else {
                return Ok(None);
            };
            let new = update(old);
            if let Some(old) = self.change(Some(sequence), |tail| store(tail, index, new))? {
                return Ok(old);
            }
        }
    }

    /// Sets the elements from `index` on, as one step. `false`, and nothing is set: they go beyond
    /// the end.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`].
    pub fn set_range(&self, index: usize, values: &[T]) -> Result<bool, Error> {
        let set = |tail: Tail<'_>| {
            let fits = index
                .checked_add(values.len())
                .is_some_and(|end| tail.get(LEN).is_ok_and(|len| end <= len as usize));
            if fits {
                tail.write_bytes(FIRST + index * size_of::<T>(), bytemuck::cast_slice(values))?;
            }
            Ok(fits)
        };
        Ok(self.change(None, set)?.unwrap_or(false))
    }

    /// All elements, as they were at one moment.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`].
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let look = |tail: Tail<'_>| {
            let len = tail.get(LEN)? as usize;
            if len.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > tail.len() * 4) {
                return Err(Corrupt);
            }
            let mut elements = vec![T::zeroed(); len];
            tail.read_bytes(FIRST, bytemuck::cast_slice_mut(&mut elements))?;
            Ok(elements)
        };
        Ok(self.handle.read(look)?.1)
    }

    /// Returns the memory that it takes.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`].
    pub fn usage(&self) -> Result<Usage, Error> {
        self.handle.usage(|tail| {
            let len = tail.get(LEN)? as usize;
            Ok((len, HEADER + words_for(len.saturating_mul(size_of::<T>())), 0))
        })
    }

    fn change<R>(
        &self,
        expected: Option<u32>,
        change: impl Fn(Tail<'_>) -> CellResult<R>,
    ) -> Result<Option<R>, Error> {
        // It never grows.
        self.handle.write(expected, |tail| change(tail).map(Change::Done), |_, _, _| Err(Corrupt))
    }
}

/// Returns the offset of an element, if it is there.
fn place<T>(tail: Tail<'_>, index: usize) -> CellResult<Option<usize>> {
    let inside = index < tail.get(LEN)? as usize;
    Ok(inside.then(|| index.saturating_mul(size_of::<T>()).saturating_add(FIRST)))
}

fn element<T: Pod>(tail: Tail<'_>, index: usize) -> CellResult<Option<T>> {
    let Some(at) = place::<T>(tail, index)? else { return Ok(None) };
    let mut value = T::zeroed();
    tail.read_bytes(at, bytemuck::bytes_of_mut(&mut value))?;
    Ok(Some(value))
}

fn store<T: Pod>(tail: Tail<'_>, index: usize, value: T) -> CellResult<Option<T>> {
    let old = element(tail, index)?;
    if let Some(at) = place::<T>(tail, index)? {
        tail.write_bytes(at, bytemuck::bytes_of(&value))?;
    }
    Ok(old)
}
