//! Contents of an item, and the room in a chunk that they need.

use slab::Layout;
use slab::item::{MAX_KEY_BYTES, MAX_VALUE_BYTES, TAILED};

use crate::config::{Expiry, ItemOptions};
use crate::error::{Error, ErrorKind};

/// The part of an item behind its key.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// A value of this many bytes.
    Value(usize),
    /// A tail of at least this many bytes (invariant 6 of `slab::item`).
    Tail(usize),
    /// A long value, in links.
    Long,
}

impl Body {
    /// Bytes behind the key.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Value(bytes) | Self::Tail(bytes) => bytes,
            Self::Long => 0,
        }
    }

    /// Bytes of a chunk that an item needs, `ends` bytes for a chain among them; as many as there
    /// are numbers for where there is no such item.
    pub(super) fn item_bytes(self, layout: Layout, key_len: usize, ends: usize) -> usize {
        let around = match self {
            Self::Value(_) | Self::Long => layout.item_bytes(key_len, 0),
            Self::Tail(_) => layout.tailed_item_bytes(key_len, 0),
        };
        self.bytes().saturating_add(around + ends)
    }

    /// The length of the value that stands in the header; `None`: no header has room for it.
    pub(super) fn value_len(self) -> Option<usize> {
        match self {
            Self::Value(len) => (len <= MAX_VALUE_BYTES).then_some(len),
            Self::Tail(_) | Self::Long => Some(TAILED),
        }
    }
}

/// # Errors
/// [`ErrorKind::KeyLength`].
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let context = format!("a key of {} bytes: keys have 1 to {MAX_KEY_BYTES}", key.len());
        return Err(Error::new(ErrorKind::KeyLength, context));
    }
    Ok(())
}

pub(crate) fn layout_for(options: &ItemOptions) -> Layout {
    match options.tag {
        Some(_) => Layout::Tagged,
        None if options.client_flags != 0 => Layout::Flagged,
        None if options.expirable || options.chainable || options.expiry != Expiry::Never => Layout::Expiring,
        None => Layout::Plain,
    }
}
