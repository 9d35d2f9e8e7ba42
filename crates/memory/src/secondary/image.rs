//! Copies of items that have left memory.

use std::sync::atomic::Ordering;

use crate::allocate::Body;
use crate::cache::Cache;
use crate::config::{Expiry, ItemOptions};
use crate::error::Error;
use crate::handle::WriteHandle;
use crate::lifecycle::RemovedItem;
use crate::magazine::has_image;
use crate::pools::PoolId;

/// A copy of an item without its key, from which [`crate::secondary::Request::hit`] makes it again:
/// value, tag, user bits, and the times of creation, last access and expiration.
#[derive(Clone, Debug)]
pub struct ItemImage {
    pool: PoolId,
    content: Content,
    options: ItemOptions,
    created_at: u32,
    used_at: u32,
    was_fetched: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Value(Box<[u8]>),
    /// Of a structured item.
    Words(Box<[u32]>),
}

impl ItemImage {
    /// The length of the content, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an image of an empty value is one, too")]
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Value(bytes) => bytes.len(),
            Content::Words(words) => size_of_val::<[u32]>(words),
        }
    }

    /// The pool that the item was in.
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// The time at which the item was made, in Unix seconds.
    pub fn created_at(&self) -> u32 {
        self.created_at
    }

    /// The expiry time, in Unix seconds; `None` = never.
    pub fn expires_at(&self) -> Option<u32> {
        match self.options.expiry {
            Expiry::At(time) => Some(time),
            Expiry::Never | Expiry::After(_) => None,
        }
    }

    /// Makes the item again. It is not inserted yet, and counts as made now.
    pub(super) fn make<'c>(&self, cache: &'c Cache, key: &[u8]) -> Result<WriteHandle<'c>, Error> {
        let mut item = match &self.content {
            Content::Value(bytes) => {
                let mut writer = cache.allocate_value(self.pool, key, bytes.len(), &self.options)?;
                writer.write(bytes);
                writer.finish().expect("all bytes are written")
            }
            Content::Words(words) => {
                let body = Body::Tail(self.len());
                let item = cache.core().make_item(self.pool, key, body, &self.options)?;
                for (to, from) in item.words().unwrap_or_default().iter().zip(words) {
                    to.store(*from, Ordering::Relaxed);
                }
                item
            }
        };
        item.age_to(self.used_at, self.was_fetched);
        Ok(item)
    }
}

impl RemovedItem<'_> {
    /// A copy, for a [`crate::secondary::SecondaryCache`]. `None`: there are links chained to the
    /// item, of which there are no copies.
    pub fn image(&self) -> Option<ItemImage> {
        if !has_image(self.item()) {
            return None;
        }
        let content = match self.words() {
            Some(words) => Content::Words(words.iter().map(|word| word.load(Ordering::Relaxed)).collect()),
            None => {
                let mut bytes = Vec::with_capacity(self.whole_len());
                self.pieces().for_each(|piece| bytes.extend_from_slice(&piece));
                Content::Value(bytes.into())
            }
        };
        let options = ItemOptions {
            expiry: self.expires_at().map_or(Expiry::Never, Expiry::At),
            // SAFETY: as long as the item is shown, somebody holds or owns it (invariant 5 of
            // `slab::item`).
            expirable: unsafe { self.item().expiry() }.is_some(),
            chainable: false,
            client_flags: self.client_flags(),
            tag: self.tag(),
            user_bits: self.user_bits(),
        };
        Some(ItemImage {
            pool: self.pool(),
            content,
            options,
            created_at: self.created_at(),
            used_at: self.last_access().unwrap_or(0),
            was_fetched: self.was_fetched(),
        })
    }
}
