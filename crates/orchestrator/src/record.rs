//! The bytes of a record, as every store keeps them.

use control::v1::Instance;
use prost::Message;

use crate::exchange::Record;

/// A record in a store. Fields may be added; a reader ignores those that are unknown to it.
#[derive(Clone, PartialEq, prost::Message)]
struct Saved {
    #[prost(message, optional, tag = "1")]
    instance: Option<Instance>,
    #[prost(fixed64, tag = "2")]
    session: u64,
    #[prost(string, tag = "3")]
    address: String,
    #[prost(uint64, tag = "4")]
    held_bytes: u64,
}

impl Record {
    /// The record's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let saved = Saved {
            instance: Some(self.instance.clone()),
            session: self.session,
            address: self.address.clone(),
            held_bytes: self.held_bytes,
        };
        saved.encode_to_vec()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// In words, if the bytes are something else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let saved = Saved::decode(bytes).map_err(|error| format!("a record: {error}"))?;
        Ok(Self {
            instance: saved.instance.unwrap_or_default(),
            session: saved.session,
            address: saved.address,
            held_bytes: saved.held_bytes,
        })
    }
}
