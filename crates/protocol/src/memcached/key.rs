//! Keys, plain or base64, and base64 itself.
//!
//! The alphabet is that of RFC 4648 section 4, with padding. As in memcached, the bits after the
//! last byte are ignored; unlike in memcached, nothing may follow the padding, and padding is only
//! at the end (memcached makes up some bytes there).

use std::fmt;

use super::token::Text;

/// Longest key in bytes, as it is on the wire: a base64 key holds up to 186 bytes.
pub const KEY_MAX_BYTES: usize = 250;

/// Room for the bytes of a base64 key: three for every four characters begun.
const DECODED_MAX_BYTES: usize = 189;

/// A key as it is written in the request.
///
/// A plain key is 1 to [`KEY_MAX_BYTES`] bytes without a space; control characters are let through,
/// as memcached does. A base64 key has been checked to be base64 and decodes to 1 to 186 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    wire: &'a [u8],
    base64: bool,
}

/// A buffer into which base64 keys are decoded, so that nothing is allocated. Create one and use it
/// for every request.
#[derive(Clone, Debug)]
pub struct KeyBuf([u8; DECODED_MAX_BYTES]);

impl Default for KeyBuf {
    fn default() -> Self {
        Self([0; DECODED_MAX_BYTES])
    }
}

impl<'a> Key<'a> {
    /// Creates a plain key; `None` if its length is not 1 to [`KEY_MAX_BYTES`].
    #[inline]
    pub(crate) const fn plain(wire: &'a [u8]) -> Option<Self> {
        if wire.is_empty() || wire.len() > KEY_MAX_BYTES { None } else { Some(Self { wire, base64: false }) }
    }

    /// Converts the same characters to a base64 key; `None` if they are not valid base64.
    pub(crate) fn into_base64(self) -> Option<Self> {
        let mut scratch = KeyBuf::default();
        decode(self.wire, &mut scratch.0)?;
        Some(Self { wire: self.wire, base64: true })
    }

    /// The characters on the wire.
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Returns whether the key is base64 on the wire (meta flag `b`).
    pub const fn is_base64(&self) -> bool {
        self.base64
    }

    /// The length in bytes of the key itself.
    #[inline]
    pub fn byte_len(&self) -> usize {
        if !self.base64 {
            return self.wire.len();
        }
        let padding = self.wire.iter().rev().take_while(|&&character| character == b'=').count();
        (self.wire.len() / 4).saturating_mul(3).saturating_sub(padding)
    }

    /// Returns the key itself: borrowed from the request if it is plain, decoded into `scratch` if
    /// it is base64.
    ///
    /// ```
    /// use millpond_protocol::memcached::{KeyBuf, Limits, Parse, Parser, Request};
    /// let mut parser = Parser::new(Limits::default());
    /// let Parse::Request { request: Request::Meta(get), .. } =
    ///     parser.parse(b"mg bWlsbCBwb25k b v\r\n")
    /// else {
    ///     panic!("a well-formed meta get");
    /// };
    /// assert_eq!(get.key.bytes(&mut KeyBuf::default()), b"mill pond");
    /// ```
    #[inline]
    pub fn bytes<'b>(&self, scratch: &'b mut KeyBuf) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.base64 {
            return self.wire;
        }
        let decoded = decode(self.wire, &mut scratch.0).unwrap_or_default();
        scratch.0.get(..decoded).unwrap_or_default()
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", if self.base64 { "base64 " } else { "" }, Text(self.wire))
    }
}

/// The characters of base64 in order of value.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the six bits of a character.
const fn sextet(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character.wrapping_sub(b'A'),
        b'a'..=b'z' => character.wrapping_sub(b'a').wrapping_add(26),
        b'0'..=b'9' => character.wrapping_sub(b'0').wrapping_add(52),
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value as u32)
}

/// Decodes `text` into the front of `out` and returns the number of bytes.
fn decode(text: &[u8], out: &mut [u8; DECODED_MAX_BYTES]) -> Option<usize> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let unpadded = match text {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] => rest,
        _ => text,
    };
    let mut written = 0_usize;
    for (group, slot) in unpadded.chunks(4).zip(out.chunks_exact_mut(3)) {
        let mut bits = 0_u32;
        for &character in group {
            bits = bits << 6 | sextet(character)?;
        }
        // Missing characters count as zero bits on the right.
        let missing = 4_usize.saturating_sub(group.len());
        bits = bits.wrapping_shl(u32::try_from(missing).ok()?.wrapping_mul(6));
        let [_, bytes @ ..] = bits.to_be_bytes();
        slot.copy_from_slice(&bytes);
        written = written.saturating_add(group.len().saturating_sub(1));
    }
    Some(written)
}

/// Appends `bytes` in base64, with padding.
pub(crate) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        let missing = 3_usize.saturating_sub(group.len());
        let bits = bits << [0, 8, 16].get(missing).copied().unwrap_or(0);
        let mut characters = [b'='; 4];
        for (slot, shift) in characters.iter_mut().zip([18, 12, 6, 0]).take(4_usize.saturating_sub(missing)) {
            *slot = ALPHABET.get((bits >> shift & 63) as usize).copied().unwrap_or(b'=');
        }
        out.extend_from_slice(&characters);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let key = Key::plain(text)?.into_base64()?;
        assert!(key.is_base64());
        let bytes = key.bytes(&mut KeyBuf::default()).to_vec();
        assert_eq!(key.byte_len(), bytes.len());
        Some(bytes)
    }

    #[test]
    fn base64_keys_decode() {
        assert_eq!(decoded(b"YQ==").unwrap(), b"a");
        assert_eq!(decoded(b"YWE=").unwrap(), b"aa");
        assert_eq!(decoded(b"YWFh").unwrap(), b"aaa");
        assert_eq!(decoded(b"+/+/").unwrap(), b"\xfb\xff\xbf");
        // The bits after the last byte are not looked at.
        assert_eq!(decoded(b"YR==").unwrap(), b"a");
        assert_eq!(decoded(&b"YWFh".repeat(62)).unwrap(), b"aaa".repeat(62));
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in [
            "Y", "YQ", "YQ=", "====", "=", "==", "Y===", "!!!!", "YQ==YQ==", "=YQ=", "YW=h", "YQ= =", "YQ-_",
            "YQ==\r",
        ] {
            assert_eq!(decoded(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn keys_have_a_length() {
        assert!(Key::plain(b"").is_none());
        assert!(Key::plain(&[b'k'; KEY_MAX_BYTES]).is_some());
        assert!(Key::plain(&[b'k'; KEY_MAX_BYTES + 1]).is_none());
        assert_eq!(format!("{:?}", Key::plain(b"a\n").unwrap()), r#""a\n""#);
    }

    proptest! {
        #[test]
        fn base64_there_and_back(bytes in prop::collection::vec(any::<u8>(), 1..=186)) {
            let mut text = Vec::new();
            write_base64(&mut text, &bytes);
            prop_assert_eq!(text.len(), bytes.len().div_ceil(3) * 4);
            prop_assert_eq!(decoded(&text), Some(bytes));
        }
    }
}
