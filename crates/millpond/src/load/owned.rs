//! Answers of a loader that borrow nothing.

use std::ops::Deref;
use std::sync::Arc;

use memory::OwnedHandle;

use super::value::{Fetched, Value};

/// The value of a loader's answer, borrowing nothing: see [`Fetched::into_owned`].
#[derive(Clone, Debug)]
pub enum OwnedValue {
    /// The item's own memory.
    Item(OwnedHandle),
    /// Memory that all who waited for the value share.
    Shared(Arc<Vec<u8>>),
}

impl Value<'_> {
    /// The same value, borrowing nothing.
    pub fn into_owned(self) -> OwnedValue {
        match self {
            Value::Item(handle) => OwnedValue::Item(handle.into_owned()),
            Value::Shared(bytes) => OwnedValue::Shared(bytes),
        }
    }
}

impl Fetched<'_> {
    /// The value, borrowing nothing. `None` if it is known that there is none.
    pub fn into_owned(self) -> Option<OwnedValue> {
        self.value.map(Value::into_owned)
    }
}

impl Deref for OwnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Item(handle) => handle,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for OwnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
