//! Values of any length up to 1 GiB: one that does not fit into a chunk is *long*, and lies in
//! links ([`crate::chain`]), in order. The item itself has none of it, and its header says so, so
//! that a part is never taken for the whole.

use std::ops::Deref;

use base::ByteSize;
use slab::ItemPtr;
use slab::item::link::{CHAIN_BYTES, link_item_bytes};

use crate::allocate::{Body, layout_for};
use crate::cache::{Cache, Core};
use crate::chain::{Link, LinkHandle, Links};
use crate::config::ItemOptions;
use crate::error::{Error, ErrorKind};
use crate::handle::{ReadHandle, WriteHandle};
use crate::pools::PoolId;

/// Longest value, in bytes: 1 GiB.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// A value that is being written, from its beginning to its end. Dropping it frees what it has.
#[derive(Debug)]
pub struct ValueWriter<'c> {
    item: WriteHandle<'c>,
    links: Vec<Link<'c>>,
    written: usize,
    len: usize,
}

impl Cache {
    /// Makes an item for `key` with a value of `len` bytes, at most 1 GiB, to be written piece by
    /// piece. A value that fits into a chunk of the pool becomes a plain item; a longer one lies in
    /// links ([`ReadHandle::pieces`]), which nobody else changes. All of its memory is taken at
    /// once, in the place of what is evicted.
    ///
    /// # Errors
    /// As [`Self::allocate`]; [`ErrorKind::TooLarge`] beyond 1 GiB, or the memory of the cache or
    /// the limit of the pool.
    pub fn allocate_value(
        &self,
        pool: PoolId,
        key: &[u8],
        len: usize,
        options: &ItemOptions,
    ) -> Result<ValueWriter<'_>, Error> {
        let core = self.core();
        let room = core.pool(pool)?.limit_bytes().min(core.ledger.limit());
        if len > MAX_VALUE_BYTES || len as u64 > room {
            let (len, most) = (ByteSize::new(len as u64), ByteSize::new(room.min(MAX_VALUE_BYTES as u64)));
            let context = format!("a value of {len}: here values have at most {most}");
            return Err(Error::new(ErrorKind::TooLarge, context));
        }
        let largest = core.pool(pool)?.sizes().largest() as usize;
        let plain = layout_for(options).item_bytes(key.len(), len);
        if plain + if options.chainable { CHAIN_BYTES } else { 0 } <= largest {
            let item = self.allocate(pool, key, len, options)?;
            return Ok(ValueWriter { item, links: Vec::new(), written: 0, len });
        }
        let of_link = largest.saturating_sub(link_item_bytes(0)).max(1);
        let options = ItemOptions { chainable: true, ..*options };
        let item = core.make_item(pool, key, Body::Long, &options)?;
        let links = (0..len.div_ceil(of_link))
            .map(|i| core.allocate_link(item.ptr(), of_link.min(len - i * of_link)))
            .collect::<Result<_, _>>()?;
        Ok(ValueWriter { item, links, written: 0, len })
    }

    /// Puts a value of at most 1 GiB, in the place of what its key has: see
    /// [`Self::allocate_value`].
    ///
    /// ```
    /// # use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// # let cache = Cache::new(CacheConfig::default())?;
    /// # let pool = cache.add_pool(PoolConfig::named("images"))?;
    /// let image = vec![7; 10_000_000];
    /// cache.put_value(pool, b"image", &image, &ItemOptions::default())?;
    /// let found = cache.find(b"image").expect("just put");
    /// assert_eq!(found.whole_len(), image.len());
    /// // Piece by piece, where they lie.
    /// assert_eq!(found.pieces().map(|piece| piece.len()).sum::<usize>(), image.len());
    /// // Together, in a copy that is made now.
    /// assert!(*found == image[..]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn put_value(
        &self,
        pool: PoolId,
        key: &[u8],
        value: &[u8],
        options: &ItemOptions,
    ) -> Result<(), Error> {
        let mut writer = self.allocate_value(pool, key, value.len(), options)?;
        writer.write(value);
        if let Ok(item) = writer.finish() {
            self.put(item);
        }
        Ok(())
    }
}

impl<'c> ValueWriter<'c> {
    /// Bytes that are yet to be written.
    pub fn remaining(&self) -> usize {
        self.len - self.written
    }

    /// The next bytes to be written, as far as they lie together; empty once all are written. What
    /// was written there counts once [`Self::advance`] says so.
    pub fn unwritten(&mut self) -> &mut [u8] {
        let of_item = self.item.value().len();
        let Some(in_links) = self.written.checked_sub(of_item) else {
            return &mut self.item.value_mut()[self.written..];
        };
        let full = self.links.first().map_or(1, |link| link.value().len()).max(1);
        match self.links.get_mut(in_links / full) {
            Some(link) => &mut link.value_mut()[in_links % full..],
            None => &mut [],
        }
    }

    /// Says that `len` more bytes are written, at most as many as [`Self::unwritten`] has.
    pub fn advance(&mut self, len: usize) {
        self.written += len.min(self.unwritten().len());
    }

    /// Writes the next bytes. Returns how many: fewer than there are where the value ends before.
    pub fn write(&mut self, mut bytes: &[u8]) -> usize {
        let before = bytes.len();
        while !bytes.is_empty() {
            let room = self.unwritten();
            let len = room.len().min(bytes.len());
            if len == 0 {
                break;
            }
            let (now, later) = bytes.split_at(len);
            room[..len].copy_from_slice(now);
            self.advance(len);
            bytes = later;
        }
        before - bytes.len()
    }

    /// The item, to be inserted.
    ///
    /// # Errors
    /// The writer, where bytes are missing.
    pub fn finish(mut self) -> Result<WriteHandle<'c>, Self> {
        if self.remaining() > 0 {
            return Err(self);
        }
        // The first link is the one that is pushed last.
        while let Some(link) = self.links.pop() {
            let pushed = self.item.core().push_link(self.item.ptr(), link);
            debug_assert!(pushed.is_ok(), "links were allocated for this item");
        }
        Ok(self.item)
    }
}

impl ReadHandle<'_> {
    /// The length of the value, in bytes, without a copy of one that is long.
    pub fn whole_len(&self) -> usize {
        self.pieces().map(|piece| piece.len()).sum()
    }

    /// Appends the value to `out`: one that is long piece by piece, without a copy besides.
    pub fn read_whole(&self, out: &mut Vec<u8>) {
        self.pieces().for_each(|piece| out.extend_from_slice(&piece));
    }

    /// The value, as it lies there: in one piece, or a long one in several, in order.
    pub fn pieces(&self) -> Pieces<'_> {
        let (core, ptr) = self.parts();
        // SAFETY: the handle holds a reference (invariant 2 of `handle`), for as long as the result
        // borrows from it.
        unsafe { Pieces::of(core, ptr) }
    }
}

/// The pieces of a value: see [`ReadHandle::pieces`].
#[derive(Debug)]
pub struct Pieces<'c>(Rest<'c>);

#[derive(Debug)]
enum Rest<'c> {
    One(Option<&'c [u8]>),
    Several(Links<'c>),
}

impl<'c> Pieces<'c> {
    /// Those of an item.
    ///
    /// # Safety
    /// As for [`slab::Item::value`], for as long as the result and what comes from it is used.
    pub(crate) unsafe fn of(core: &'c Core, ptr: ItemPtr) -> Self {
        let item = core.arena.item(ptr).0;
        // SAFETY: the caller meets the duties of `value`, so that the item is not freed and its
        // lengths do not change (invariants 2, 3 and 5 of `slab::item`).
        Self(match unsafe { item.is_long() } {
            true => Rest::Several(Links::of(core, ptr)),
            // SAFETY: the caller meets the duties of `value`, so that the item is not freed
            // (invariants 2 and 5 of `slab::item`).
            false => Rest::One(Some(unsafe { item.value() })),
        })
    }
}

impl<'c> Iterator for Pieces<'c> {
    type Item = Piece<'c>;

    fn next(&mut self) -> Option<Piece<'c>> {
        Some(Piece(match &mut self.0 {
            Rest::One(bytes) => Bytes::Own(bytes.take()?),
            Rest::Several(links) => Bytes::Link(links.next()?),
        }))
    }
}

/// A piece of a value: its bytes, where they lie.
#[derive(Clone, Debug)]
pub struct Piece<'c>(Bytes<'c>);

#[derive(Clone, Debug)]
enum Bytes<'c> {
    Own(&'c [u8]),
    Link(LinkHandle<'c>),
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Link(link) => link,
        }
    }
}
