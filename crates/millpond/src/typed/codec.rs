//! Values as bytes.

use std::error::Error;

/// The error of a value that cannot be encoded or decoded.
pub type CodecError = Box<dyn Error + Send + Sync>;

/// Turns values into bytes and back. What [`super::TypedCache`] keeps is what `encode` wrote.
///
/// What cannot be decoded any more, as after a change of the type where the cache outlives the
/// process, counts as absent.
pub trait Codec<V> {
    /// Appends a value's bytes to `out`.
    ///
    /// # Errors
    /// If it cannot be encoded: then nothing is stored.
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The value that has these bytes.
    ///
    /// # Errors
    /// If they are none of a value's.
    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError>;
}

/// Byte strings and texts as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Codec<Vec<u8>> for Plain {
    fn encode(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }
}

impl Codec<String> for Plain {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, CodecError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

/// Whatever `serde` can write and read, in the compact format of the crate `postcard`. It says
/// nothing of the type: a value is read as the type that wrote it, or not at all.
#[cfg(feature = "postcard")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard;

#[cfg(feature = "postcard")]
impl<V: serde::Serialize + serde::de::DeserializeOwned> Codec<V> for Postcard {
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError> {
        *out = postcard::to_extend(value, std::mem::take(out))?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        match postcard::take_from_bytes(bytes)? {
            (value, []) => Ok(value),
            (_, more) => Err(format!("{} bytes more than the value has", more.len()).into()),
        }
    }
}
