//! Handles that borrow nothing: for tasks, response bodies and whatever outlives the call that
//! found the item.
//!
//! Invariant 1: the `handle` of an [`OwnedHandle`] is dropped before its `core`, which keeps the
//! cache where it is.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::cache::{Cache, Core};
use crate::find::Keys;
use crate::handle::ReadHandle;

/// A [`ReadHandle`] that keeps the cache alive instead of borrowing it: `'static`, so that it can
/// go into a spawned task or an HTTP body. Costs one atomic count more.
///
/// As long as one lives, the memory of the cache stays, and the folder of a cache in files is in
/// use.
///
/// ```
/// # use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Cache::new(CacheConfig::default())?;
/// let pages = cache.add_pool(PoolConfig::named("pages"))?;
/// cache.put_value(pages, b"/index", b"hello", &ItemOptions::default())?;
///
/// let page = cache.keys(pages).find_owned(b"/index").expect("just put");
/// drop(cache);
/// let sent = std::thread::scope(|scope| scope.spawn(move || page.len()).join());
/// assert_eq!(sent.expect("no panic"), 5);
/// # Ok(())
/// # }
/// ```
///
/// It is `AsRef<[u8]> + Send + 'static`, all that `bytes::Bytes::from_owner` asks for: a body
/// without a copy.
pub struct OwnedHandle {
    /// Given back before the cache is.
    handle: ReadHandle<'static>,
    core: Arc<Core>,
}

impl OwnedHandle {
    /// The handle, to ask it all that a [`ReadHandle`] is asked.
    pub fn as_handle(&self) -> &ReadHandle<'_> {
        &self.handle
    }

    /// Another handle of the same item. `None`: as many are held as one item can have.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self { handle: self.handle.try_clone()?, core: Arc::clone(&self.core) })
    }
}

impl ReadHandle<'_> {
    /// The same handle, borrowing nothing.
    pub fn into_owned(self) -> OwnedHandle {
        let (core, ptr) = self.parts();
        let core = core.me.upgrade().expect("it is borrowed, and so alive");
        std::mem::forget(self);
        // SAFETY: the core stays where it is until the last count is given back, and the handle,
        // which takes over the reference to the item, is dropped before this one is (invariant 1).
        let handle = ReadHandle::adopt(unsafe { &*Arc::as_ptr(&core) }, ptr);
        OwnedHandle { handle, core }
    }
}

impl Keys<'_> {
    /// [`Keys::find`], with a handle that borrows nothing.
    pub fn find_owned(self, key: &[u8]) -> Option<OwnedHandle> {
        self.find(key).map(ReadHandle::into_owned)
    }
}

impl Cache {
    /// [`Cache::find`], with a handle that borrows nothing.
    pub fn find_owned(&self, key: &[u8]) -> Option<OwnedHandle> {
        self.find(key).map(ReadHandle::into_owned)
    }
}

impl Deref for OwnedHandle {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.handle
    }
}

impl AsRef<[u8]> for OwnedHandle {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for OwnedHandle {
    /// Another handle of the same item.
    ///
    /// # Panics
    /// As [`ReadHandle::clone`].
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), core: Arc::clone(&self.core) }
    }
}

impl fmt::Debug for OwnedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}
