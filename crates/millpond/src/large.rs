//! Values of any length up to 1 GiB: what does not fit into one chunk continues in links ([`crate::chain`]), in order.

use base::ByteSize;
use slab::item::link::{CHAIN_BYTES, link_item_bytes};

use crate::allocate::layout_for;
use crate::cache::{Cache, PoolId};
use crate::chain::Link;
use crate::config::ItemOptions;
use crate::error::{Error, ErrorKind};
use crate::handle::{ReadHandle, WriteHandle};

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
    /// Makes an item for `key` with a value of `len` bytes, at most 1 GiB, to be written piece by piece. A value that fits into a
    /// chunk of the pool becomes a plain item; of a longer one the item holds the beginning, and its
    /// links ([`ReadHandle::links`]) the rest in order. All of its memory is taken at once, in the place of what is evicted.
    ///
    /// # Errors
    /// As [`Self::allocate`]; [`ErrorKind::TooLarge`] beyond 1 GiB, or the memory of the cache or the limit of the pool.
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
        let options = ItemOptions { chainable: true, ..*options };
        let around = layout_for(&options).item_bytes(key.len(), CHAIN_BYTES);
        let (of_item, of_link) = (largest.saturating_sub(around), largest.saturating_sub(link_item_bytes(0)));
        // As many links as possible are full; the item has what remains.
        let count = (len - of_item.min(len)).div_ceil(of_link);
        let first = len.saturating_sub(count * of_link);
        let item = self.allocate(pool, key, first, &options)?;
        let links = (0..count)
            .map(|i| item.allocate_link(of_link.min(len - first - i * of_link)))
            .collect::<Result<_, _>>()?;
        Ok(ValueWriter { item, links, written: 0, len })
    }

    /// Puts a value of at most 1 GiB, in the place of what its key has: see [`Self::allocate_value`].
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
    /// let mut whole = Vec::new();
    /// found.read_whole(&mut whole);
    /// assert!(whole == image);
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

    /// The next bytes to be written, as far as they lie together; empty once all are written. What was written there
    /// counts once [`Self::advance`] says so.
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

    /// Says that so many more bytes are written, at most as many as [`Self::unwritten`] has.
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
            let pushed = self.item.push_link(link);
            debug_assert!(pushed.is_ok(), "links were allocated for this item");
        }
        Ok(self.item)
    }
}

impl ReadHandle<'_> {
    /// The length of a value that continues in links, in bytes; of another one that of [`Self::value`].
    pub fn whole_len(&self) -> usize {
        self.value().len() + self.links().map(|link| link.len()).sum::<usize>()
    }

    /// Appends a value to `out`, with what continues in links. To read it in place, use [`Self::value`] and
    /// then [`Self::links`].
    pub fn read_whole(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.value());
        for link in self.links() {
            out.extend_from_slice(&link);
        }
    }
}
