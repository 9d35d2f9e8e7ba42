//! Evicted items on their way to the cache beneath.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Secondary;
use crate::cache::{Cache, Core};
use crate::handle::ReadHandle;
use crate::lifecycle::Departed;
use crate::owned::OwnedHandle;

/// The part of a cache's memory that held items may take: one byte in 16.
const SHARE: u64 = 16;

/// An evicted item that is handed down, for as long as [`super::SecondaryCache::insert`] is shown
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Departing<'a> {
    item: Departed<'a>,
    outgoing: &'a Outgoing,
}

impl<'a> Departing<'a> {
    pub(super) fn new(item: Departed<'a>, outgoing: &'a Outgoing) -> Self {
        Self { item, outgoing }
    }

    /// Holds the item in memory beyond its eviction, out of sight, so that it can be written from
    /// where it lies. `None`: its memory is wanted now, as it is to be given away, or what is held
    /// so takes a sixteenth of the cache's memory. Then there is [`Departed::image`], a copy.
    pub fn hold(&self) -> Option<OutgoingHandle> {
        let (core, ptr) = self.item.place();
        let info = core.arena.info_of(ptr);
        // SAFETY: whoever hands the item down holds a reference (invariant 5 of `slab::item`).
        let leaving = unsafe { core.class_of(info) }.leaving_run();
        if leaving.is_some_and(|run| run.has(ptr)) {
            return None;
        }
        let bytes = (self.item.whole_len() + self.item.key().len()) as u64;
        self.outgoing.begin(bytes, core.ledger.limit() / SHARE).then_some(())?;
        // The reference of whoever hands it down, which is not given back here.
        let held = ManuallyDrop::new(ReadHandle::adopt(core, ptr));
        // Nobody could use what is held of a cache that is going.
        let Some((core, handle)) = core.me.upgrade().zip(held.try_clone()) else {
            self.outgoing.end(bytes);
            return None;
        };
        let handle = handle.into_owned();
        Some(OutgoingHandle { handle, _counted: Counted { core, bytes } })
    }
}

impl<'a> Deref for Departing<'a> {
    type Target = Departed<'a>;

    fn deref(&self) -> &Departed<'a> {
        &self.item
    }
}

/// An evicted item that a [`super::SecondaryCache`] holds.
///
/// Keeps the cache in use. To be dropped on
/// a thread that holds no lock of the cache: not by a method of `SecondaryCache`.
pub struct OutgoingHandle {
    handle: OwnedHandle,
    /// Given back after the handle.
    _counted: Counted,
}

/// Bytes that are counted as held.
struct Counted {
    core: Arc<Core>,
    bytes: u64,
}

impl OutgoingHandle {
    /// The item: its key, value, times and tag, and a copy of it.
    pub fn item(&self) -> Departed<'_> {
        let (core, ptr) = self.handle.as_handle().parts();
        // SAFETY: the handle holds a reference (invariant 5 of `slab::item`).
        unsafe { core.departed(ptr) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(secondary) = Secondary::of(&self.core) {
            secondary.outgoing.end(self.bytes);
        }
    }
}

impl std::fmt::Debug for OutgoingHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutgoingHandle").field("item", &self.item()).finish_non_exhaustive()
    }
}

/// Counts the bytes of keys and values that are held.
#[derive(Debug, Default)]
pub(super) struct Outgoing(AtomicU64);

impl Outgoing {
    /// Counts an item of `bytes`, unless `most` or more are held already.
    fn begin(&self, bytes: u64, most: u64) -> bool {
        let add = |held: u64| (held < most).then(|| held.saturating_add(bytes));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn end(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Cache {
    /// Returns the bytes of keys and values of evicted items that the cache beneath holds.
    #[doc(hidden)]
    pub fn outgoing_bytes(&self) -> u64 {
        Secondary::of(self.core()).map_or(0, |secondary| secondary.outgoing.0.load(Ordering::Relaxed))
    }
}
