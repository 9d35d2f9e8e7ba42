//! An item that was found, wherever its bytes are to be sent from.

use std::ops::Deref;

use millpond::{Found, ItemTag, ReadHandle};

use crate::net::Output;

/// An item that is shown for as long as it is copied, or one that is held until it is sent.
pub(super) enum Value<'a, 'c> {
    /// In place, without a reference: for small values.
    Shown(Found<'a>),
    /// With a reference.
    Held(ReadHandle<'c>),
}

impl<'c> Value<'_, 'c> {
    pub(super) fn tag(&self) -> ItemTag {
        match self {
            Self::Shown(found) => found.tag(),
            Self::Held(item) => item.tag(),
        }
        .unwrap_or_default()
    }

    pub(super) fn expires_at(&self) -> Option<u32> {
        match self {
            Self::Shown(found) => found.expires_at(),
            Self::Held(item) => item.expires_at(),
        }
    }

    /// Appends the bytes of the value.
    #[inline]
    pub(super) fn send(self, output: &mut Output<ReadHandle<'c>>) {
        match self {
            Self::Shown(found) => output.write(&found),
            Self::Held(item) => output.value(item),
        }
    }
}

impl Deref for Value<'_, '_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Shown(found) => found,
            Self::Held(item) => item,
        }
    }
}
