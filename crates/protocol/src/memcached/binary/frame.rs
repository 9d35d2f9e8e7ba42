//! Requests and answers as a client sees them.

use super::{HEADER_BYTES, Head, Opcode, REQUEST_MAGIC, RESPONSE_MAGIC};

/// A request to be written, right or wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The operation to request.
    pub opcode: u8,
    /// An opaque value that the response repeats.
    pub opaque: u32,
    /// The token to compare with; 0 is none.
    pub cas: u64,
    /// Numbers that the opcode wants.
    pub extras: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl Frame<'_> {
    /// Appends it. Lengths beyond what the header has room for are cut down to that.
    pub fn write(&self, out: &mut Vec<u8>) {
        let body = self.extras.len().saturating_add(self.key.len()).saturating_add(self.value.len());
        out.extend_from_slice(&[REQUEST_MAGIC, self.opcode]);
        out.extend_from_slice(&u16::try_from(self.key.len()).unwrap_or(u16::MAX).to_be_bytes());
        // Then the data type and the partition, which are nothing.
        out.extend_from_slice(&[u8::try_from(self.extras.len()).unwrap_or(u8::MAX), 0, 0, 0]);
        out.extend_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&self.opaque.to_be_bytes());
        out.extend_from_slice(&self.cas.to_be_bytes());
        for part in [self.extras, self.key, self.value] {
            out.extend_from_slice(part);
        }
    }
}

/// An answer, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The fields repeated from its request.
    pub head: Head,
    /// Result of the request: see [`super::Status`].
    pub status: u16,
    /// The item's token, if it has something to say of one.
    pub cas: u64,
    /// Client flags, if there is a value.
    pub extras: &'a [u8],
    /// The key, if it was requested, or the name of a statistic.
    pub key: &'a [u8],
    /// The value, or the text of an error.
    pub value: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Reads the response at the front of `buf`, and returns it with its length. `Ok(None)`: more
    /// bytes are needed.
    ///
    /// # Errors
    /// If the bytes are not a response, or one whose lengths contradict each other.
    pub fn read(buf: &'a [u8]) -> Result<Option<(Self, usize)>, MalformedAnswer> {
        let Some((header, rest)) = buf.split_first_chunk::<HEADER_BYTES>() else {
            let begins = buf.first().is_none_or(|magic| *magic == RESPONSE_MAGIC);
            return if begins { Ok(None) } else { Err(MalformedAnswer) };
        };
        let [magic, opcode, k0, k1, extras_len, _, s0, s1, after @ ..] = *header;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = after;
        if magic != RESPONSE_MAGIC {
            return Err(MalformedAnswer);
        }
        let body_len = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        let key_len = usize::from(u16::from_be_bytes([k0, k1]));
        if key_len.saturating_add(usize::from(extras_len)) > body_len {
            return Err(MalformedAnswer);
        }
        let Some(body) = rest.get(..body_len) else { return Ok(None) };
        let (extras, body) = body.split_at_checked(usize::from(extras_len)).ok_or(MalformedAnswer)?;
        let (key, value) = body.split_at_checked(key_len).ok_or(MalformedAnswer)?;
        let head = Head { opcode: Opcode(opcode), opaque: u32::from_be_bytes([o0, o1, o2, o3]) };
        let (status, cas) = (u16::from_be_bytes([s0, s1]), u64::from_be_bytes(cas));
        Ok(Some((Self { head, status, cas, extras, key, value }, HEADER_BYTES.saturating_add(body_len))))
    }
}

/// The error for bytes that are not a valid response of the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedAnswer;

impl std::fmt::Display for MalformedAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not an answer of memcached's binary protocol")
    }
}

impl std::error::Error for MalformedAnswer {}
