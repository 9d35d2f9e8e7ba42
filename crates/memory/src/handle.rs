//! Handles: an item's memory, kept alive and in place.
//!
//! Invariants:
//! 1. As long as a [`View`] and what came from it is used, its item is initialised, and somebody
//!    holds a reference to it, owns its chunk or protects it (invariants 2 and 5 of `slab::item`).
//! 2. A [`ReadHandle`] holds a reference to its item.
//! 3. A [`WriteHandle`] holds the first reference to its item. The item enters the index only in a
//!    call that consumes the handle. Before, nobody else has a reference (invariant 1 of
//!    `slab::item`), and others touch at most the state word and, under the lock of its chain, the
//!    chain's ends.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use slab::{Item, ItemPtr};

use crate::cache::Core;
use crate::chain::Links;
use crate::config::{Expiry, ItemTag};
use crate::pools::PoolId;

/// An item that is there to be read: what [`ReadHandle`] has, and what [`crate::Keys::find_with`]
/// shows.
#[derive(Clone, Copy)]
pub(crate) struct View<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
    /// The place to which the bytes of a long value are copied to lie together. `None`: the view is
    /// used only for a moment.
    whole: Option<&'c Whole>,
    /// True if the thread has locks with which it must not lock a chain.
    has_locks: bool,
}

/// The bytes of a long value, once somebody has asked for them.
type Whole = OnceLock<Box<Vec<u8>>>;

impl<'c> View<'c> {
    /// # Safety
    /// For as long as the view and what comes from it are used, somebody holds a reference to the
    /// item or protects it (invariant 5 of `slab::item`), and it is initialised.
    #[inline]
    pub(crate) unsafe fn new(core: &'c Core, item: Item<'c>, ptr: ItemPtr) -> Self {
        Self { core, item, ptr, whole: None, has_locks: false }
    }

    /// A view for somebody who is called with locks of the engine held.
    ///
    /// # Safety
    /// As for [`Self::new`].
    pub(crate) unsafe fn with_locks(core: &'c Core, item: Item<'c>, ptr: ItemPtr) -> Self {
        // SAFETY: the caller meets the duties of `new`, which are those of invariant 1.
        Self { has_locks: true, ..unsafe { Self::new(core, item, ptr) } }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        // SAFETY: whoever made the view keeps invariant 1; the value, unlike a tail, is not written
        // after publication (invariant 3 of `slab::item`).
        let (value, is_long) = unsafe { (self.item.value(), self.item.is_long()) };
        match self.whole {
            Some(whole) if is_long => gathered(whole, self.core, self.ptr),
            _ => value,
        }
    }

    /// The length of the value. Of a long one only where somebody holds or owns the item; 0 if
    /// its chain must not be locked.
    fn len(&self) -> usize {
        // SAFETY: whoever made the view keeps invariant 1.
        let (value, is_long) = unsafe { (self.item.value(), self.item.is_long()) };
        let is_walked = is_long && !self.has_locks;
        if is_walked { Links::of(self.core, self.ptr).map(|link| link.len()).sum() } else { value.len() }
    }
}

/// The bytes of a long value, together. Somebody holds a reference to its item.
#[cold]
fn gathered<'a>(whole: &'a Whole, core: &Core, ptr: ItemPtr) -> &'a [u8] {
    whole.get_or_init(|| {
        let mut bytes = Vec::with_capacity(Links::of(core, ptr).map(|link| link.len()).sum());
        Links::of(core, ptr).for_each(|link| bytes.extend_from_slice(&link));
        Box::new(bytes)
    })
}

/// The questions that can be asked of an item, for [`ReadHandle`] and [`ItemRef`] alike. `$view` is
/// the [`View`].
macro_rules! item_questions {
    ($view:tt) => {
        /// The key.
        #[inline]
        pub fn key(&self) -> &[u8] {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe { self.$view.item.key() }
        }

        /// Returns whether its value is longer than a chunk, and lies in several
        /// ([`crate::Cache::put_value`]).
        #[inline]
        pub fn is_long(&self) -> bool {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe { self.$view.item.is_long() }
        }

        /// Returns whether it is a structured item (`millpond::structured`), whose content is read
        /// through its type: its value is empty.
        pub fn is_structured(&self) -> bool {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe { self.$view.item.has_tail() }
        }

        /// The words of a structured item.
        #[inline]
        pub(crate) fn words(&self) -> Option<&[AtomicU32]> {
            // SAFETY: whoever made the view keeps invariant 1. The words are atomics, and only
            // holders of a reference write to them (invariant 6 of `slab::item`).
            unsafe { self.$view.item.tail() }
        }

        /// Returns the time at which it was made, in Unix seconds. After flushes up to as many
        /// seconds ahead of the clock.
        pub fn created_at(&self) -> u32 {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe { self.$view.item.created() }
        }

        /// Returns its expiry time, in Unix seconds; `None` = never.
        pub fn expires_at(&self) -> Option<u32> {
            // SAFETY: whoever made the view keeps invariant 1.
            let time = unsafe { self.$view.item.expiry() }?.load(Ordering::Relaxed);
            (time != 0).then_some(time)
        }

        /// Seconds until it expires, at least 0; `None` = never.
        pub fn ttl_secs_left(&self) -> Option<u32> {
            Some(self.expires_at()?.saturating_sub(self.$view.core.now()))
        }

        /// The tag, if it was made with one.
        #[inline]
        pub fn tag(&self) -> Option<ItemTag> {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe {
                Some(ItemTag { cas: self.$view.item.cas()?, client_flags: self.$view.item.client_flags() })
            }
        }

        /// The client's flags; 0 unless it was made with some.
        #[inline]
        pub fn client_flags(&self) -> u32 {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe { self.$view.item.client_flags() }
        }

        /// Returns the time at which it was last found, in Unix seconds: the time of its making if
        /// it never was. `None`: it was found, and has no tag, in which that time would stand.
        pub fn last_access(&self) -> Option<u32> {
            // SAFETY: whoever made the view keeps invariant 1.
            match unsafe { self.$view.item.last_access() } {
                Some(time) => Some(time.load(Ordering::Relaxed)),
                None => (!self.was_fetched()).then(|| self.created_at()),
            }
        }

        /// Sets the time of the last access to now, for items with a tag, and returns what it was.
        pub fn note_access(&self) -> Option<u32> {
            // SAFETY: whoever made the view keeps invariant 1.
            let field = unsafe { self.$view.item.last_access() }?;
            let (before, now) = (field.load(Ordering::Relaxed), self.$view.core.now());
            if before != now {
                field.store(now, Ordering::Relaxed);
            }
            Some(before)
        }

        /// Returns whether it was found before (by [`crate::Keys::find`]; a find sees its own
        /// access).
        pub fn was_fetched(&self) -> bool {
            self.$view.item.state().is_fetched()
        }

        /// Returns whether it still is the item of its key.
        #[inline]
        pub fn is_current(&self) -> bool {
            self.$view.item.state().is_indexed()
        }

        /// The item's two user bits, which all who read it share.
        pub fn user_bits(&self) -> u8 {
            self.$view.item.state().user_bits()
        }

        /// The pool that it is in.
        pub fn pool(&self) -> PoolId {
            self.$view.core.pools.id_of(self.$view.core.arena.info_of(self.$view.ptr).pool)
        }

        /// The number of its size class, as in [`crate::ClassStats::number`].
        pub fn class_number(&self) -> u8 {
            self.$view.core.arena.info_of(self.$view.ptr).class
        }

        /// Bytes of the chunk that the item lies in: what it takes of its pool's memory, but for
        /// what is chained to it.
        pub fn chunk_bytes(&self) -> u32 {
            self.$view.core.arena.info_of(self.$view.ptr).chunk_bytes
        }

        /// Bytes that header, key and value take.
        pub fn size_bytes(&self) -> usize {
            // SAFETY: whoever made the view keeps invariant 1.
            unsafe { self.$view.item.used_bytes() }
        }
    };
}

/// An item that was found, for as long as [`crate::Keys::find_with`] shows it.
#[derive(Clone, Copy)]
pub struct ItemRef<'a>(pub(crate) View<'a>);

impl ItemRef<'_> {
    item_questions!(0);

    /// The value, whole: one that is long is copied together when it is first asked for. What a
    /// [`crate::Lifecycle`] is shown of a long value is empty: see [`crate::RemovedItem::pieces`].
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.0.value()
    }

    pub(crate) fn item(&self) -> Item<'_> {
        self.0.item
    }

    /// The length of the value, without a copy of a long one. [`crate::Lifecycle::may_evict`] is
    /// told 0 of a long one.
    pub fn whole_len(&self) -> usize {
        self.0.len()
    }
}

impl Deref for ItemRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.value()
    }
}

impl std::fmt::Debug for ItemRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show(f, "ItemRef", self.key(), self.0.len())
    }
}

fn show(f: &mut std::fmt::Formatter<'_>, what: &str, key: &[u8], value_len: usize) -> std::fmt::Result {
    f.debug_struct(what).field("key", &key.escape_ascii().to_string()).field("value_len", &value_len).finish()
}

/// A reference to an item: its value, without a copy.
///
/// The item is not evicted, moved or reused while the handle lives; it may be replaced or removed
/// meanwhile, and the handle then still shows the old value. At most 16,382 handles of one item
/// live at once: a find is a miss then, [`Self::try_clone`] gives nothing, and [`Clone::clone`]
/// panics before it has changed anything.
pub struct ReadHandle<'c> {
    view: View<'c>,
    whole: Whole,
}

// SAFETY: a handle only reads what is not written while it lives, or uses atomics (invariant 3 of
// `slab::item`).
unsafe impl Send for ReadHandle<'_> {}
// SAFETY: as for `Send` (invariant 3 of `slab::item`).
unsafe impl Sync for ReadHandle<'_> {}

impl<'c> ReadHandle<'c> {
    /// A handle that takes over one reference, which the caller has.
    #[inline]
    pub(crate) fn adopt(core: &'c Core, ptr: ItemPtr) -> Self {
        Self {
            view: View { core, item: core.arena.item(ptr).0, ptr, whole: None, has_locks: false },
            whole: Whole::new(),
        }
    }

    pub(crate) fn ptr(&self) -> ItemPtr {
        self.view.ptr
    }

    pub(crate) fn item(&self) -> Item<'c> {
        self.view.item
    }

    pub(crate) fn parts(&self) -> (&'c Core, ItemPtr) {
        (self.view.core, self.view.ptr)
    }

    pub(crate) fn found(&self) -> ItemRef<'_> {
        ItemRef(View { whole: Some(&self.whole), ..self.view })
    }

    /// Returns whether the item lies in the cache of `core`. A pointer to an item of another cache
    /// names some chunk of this one.
    #[inline]
    pub(crate) fn is_of(&self, core: &Core) -> bool {
        std::ptr::eq(self.view.core, core)
    }

    item_questions!(view);

    /// The value, whole. One that is [long](Self::is_long) is copied together when this handle is
    /// first asked for it, and the copy stays with the handle; [`Self::pieces`] has it without a
    /// copy.
    #[inline]
    pub fn value(&self) -> &[u8] {
        // SAFETY: the handle holds a reference (invariant 2); the value, unlike a tail, is not
        // written after publication (invariant 3 of `slab::item`).
        let (value, is_long) = unsafe { (self.view.item.value(), self.view.item.is_long()) };
        if is_long { gathered(&self.whole, self.view.core, self.view.ptr) } else { value }
    }

    /// Another handle of the same item. `None`: 16,382 are held, and nothing has changed.
    pub fn try_clone(&self) -> Option<Self> {
        self.view.item.state().duplicate().then(|| Self { view: self.view, whole: Whole::new() })
    }

    /// Changes when it expires, in place. `false`: the item has no room for an expiry time (see
    /// [`crate::ItemOptions::expirable`]); [`crate::Keys::touch`] copies such an item.
    pub fn set_expiry(&self, expiry: Expiry) -> bool {
        // SAFETY: the handle holds a reference (invariant 2), and the time is an atomic.
        match unsafe { self.view.item.expiry() } {
            Some(field) => {
                self.view.core.change_expiry(self.view.ptr, field, expiry);
                true
            }
            None => expiry == Expiry::Never,
        }
    }

    /// Changes when it expires from one Unix time to another, 0 for never, unless somebody else has
    /// changed it.
    pub(crate) fn change_expiry_from(&self, from: u32, to: u32) {
        // SAFETY: the handle holds a reference (invariant 2), and the time is an atomic.
        if let Some(field) = unsafe { self.view.item.expiry() } {
            self.view.core.change_expiry_from(self.view.ptr, field, from, to);
        }
    }

    /// Sets user bits atomically and returns what they were.
    pub fn set_user_bits(&self, bits: u8) -> u8 {
        self.view.item.state().set_user_bits(bits)
    }

    /// Clears user bits atomically and returns what they were.
    pub fn clear_user_bits(&self, bits: u8) -> u8 {
        self.view.item.state().clear_user_bits(bits)
    }
}

impl Deref for ReadHandle<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.value()
    }
}

impl Clone for ReadHandle<'_> {
    /// Another handle of the same item.
    ///
    /// # Panics
    /// Where 16,382 are held, with nothing changed: see [`Self::try_clone`].
    fn clone(&self) -> Self {
        self.try_clone().expect(MOST_HELD)
    }
}

impl Drop for ReadHandle<'_> {
    #[inline]
    fn drop(&mut self) {
        self.view.core.release(self.view.ptr);
    }
}

impl std::fmt::Debug for ReadHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show(f, "ReadHandle", self.key(), self.view.len())
    }
}

/// The message if a handle cannot be cloned.
pub(crate) const MOST_HELD: &str =
    "at most 16,382 handles of one item are held at once: `try_clone` says where";

/// An item that is being made: nobody sees it until it is inserted. Dropping it frees it.
pub struct WriteHandle<'c> {
    core: &'c Core,
    item: Item<'c>,
    ptr: ItemPtr,
    hash: u64,
}

// SAFETY: nobody else has a reference to the item of such a handle (invariant 3).
unsafe impl Send for WriteHandle<'_> {}
// SAFETY: what `&self` gives access to is only read, or written as atomics; nobody else writes the
// item (invariant 3).
unsafe impl Sync for WriteHandle<'_> {}

impl<'c> WriteHandle<'c> {
    /// A handle of a freshly initialised chunk with its first reference.
    pub(crate) fn new(core: &'c Core, (ptr, item): (ItemPtr, Item<'c>), hash: u64) -> Self {
        Self { core, item, ptr, hash }
    }

    pub(crate) fn item(&self) -> Item<'c> {
        self.item
    }

    pub(crate) fn ptr(&self) -> ItemPtr {
        self.ptr
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn core(&self) -> &'c Core {
        self.core
    }

    pub(crate) fn found(&self) -> ItemRef<'_> {
        // SAFETY: the handle holds a reference (invariant 3), and `&self` keeps `value_mut` away.
        ItemRef(unsafe { View::new(self.core, self.item, self.ptr) })
    }

    pub(crate) fn parts(&self) -> (&'c Core, ItemPtr) {
        (self.core, self.ptr)
    }

    /// Turns into a handle for reading; the item is in the index now.
    pub(crate) fn into_read(self) -> ReadHandle<'c> {
        let this = std::mem::ManuallyDrop::new(self);
        let view = View { core: this.core, item: this.item, ptr: this.ptr, whole: None, has_locks: false };
        ReadHandle { view, whole: Whole::new() }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        // SAFETY: the handle holds a reference (invariant 3), and the key does not change
        // (invariant 3 of `slab::item`).
        unsafe { self.item.key() }
    }

    /// The value as written so far. What was not written yet is arbitrary, and may be what another
    /// item left. Of a long value ([`crate::Cache::allocate_value`]) nothing: it is written by
    /// then.
    pub fn value(&self) -> &[u8] {
        // SAFETY: the handle holds a reference (invariant 3), and `&self` keeps `value_mut` away.
        unsafe { self.item.value() }
    }

    /// The value, to be written. All of it should be: what is not keeps what another item left
    /// there.
    #[inline]
    pub fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: the handle holds the only reference to an item that is not in the index
        // (invariant 3), and `&mut self` keeps other views away.
        unsafe { self.item.value_mut() }
    }

    /// The words of a structured item.
    #[inline]
    pub(crate) fn words(&self) -> Option<&[AtomicU32]> {
        // SAFETY: the handle holds a reference (invariant 3), and the words are atomics (invariant
        // 6 of `slab::item`).
        unsafe { self.item.tail() }
    }

    /// Sets the CAS token of an item with a tag. `false`: it has none.
    pub fn set_cas(&mut self, cas: u64) -> bool {
        // SAFETY: the handle holds the only reference to an item that is not in the index
        // (invariant 3); the layout is checked first.
        unsafe {
            let tagged = self.item.layout().has_tag();
            if tagged {
                self.item.set_cas(cas);
            }
            tagged
        }
    }

    /// Changes the client's flags of its tag. `false`: it was made without any, so that there is no
    /// room.
    pub fn set_client_flags(&mut self, client_flags: u32) -> bool {
        // SAFETY: the handle holds the only reference to an item that is not in the index
        // (invariant 3).
        unsafe { self.item.set_client_flags(client_flags) }
    }

    /// Lets it count as made when, and found if, another was.
    pub(crate) fn age_as(&mut self, other: &ReadHandle<'_>) {
        // SAFETY: the handle holds the only reference to an item that is not in the index
        // (invariant 3).
        unsafe { self.item.set_created(other.created_at()) };
        // What was found, nobody knows when, counts as found now.
        let used = other.last_access().unwrap_or_else(|| self.core.now());
        // SAFETY: the handle holds the only reference to an item that is not in the index
        // (invariant 3).
        if let Some(time) = unsafe { self.item.last_access() } {
            time.store(used, Ordering::Relaxed);
        }
        if other.was_fetched() {
            self.item.state().record_access(|bits, _| bits);
        }
    }

    /// Lets it count as last found at this time, and as found before if so.
    pub(crate) fn age_to(&mut self, used_at: u32, was_fetched: bool) {
        // SAFETY: the handle holds the only reference to the item (invariant 3), and the time is an
        // atomic.
        if let Some(time) = unsafe { self.item.last_access() } {
            time.store(used_at, Ordering::Relaxed);
        }
        if was_fetched {
            self.item.state().record_access(|bits, _| bits);
        }
    }

    /// Changes when it will expire. `false`: it has no room for an expiry time.
    pub fn set_expiry(&mut self, expiry: Expiry) -> bool {
        // SAFETY: the handle holds the only reference to the item (invariant 3), and the time is an
        // atomic.
        match unsafe { self.item.expiry() } {
            Some(field) => {
                field.store(expiry.to_unix_secs(|| self.core.now()), Ordering::Relaxed);
                true
            }
            None => expiry == Expiry::Never,
        }
    }

    /// Sets user bits.
    pub fn set_user_bits(&mut self, bits: u8) {
        self.item.state().set_user_bits(bits);
    }

    /// The pool that it was allocated in.
    pub fn pool(&self) -> PoolId {
        self.core.pools.id_of(self.core.arena.info_of(self.ptr).pool)
    }
}

impl Drop for WriteHandle<'_> {
    fn drop(&mut self) {
        self.core.release(self.ptr);
    }
}

impl std::fmt::Debug for WriteHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show(f, "WriteHandle", self.key(), self.value().len())
    }
}
