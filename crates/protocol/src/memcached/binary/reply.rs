//! The responses of a server. Everything is appended to a buffer.

use super::{HEADER_BYTES, Head, RESPONSE_MAGIC, Status};

/// The lengths in the header of a response.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    extras: u8,
    key: usize,
    body: usize,
}

fn header(out: &mut Vec<u8>, head: Head, status: Status, lengths: Lengths, cas: u64) {
    let [k0, k1] = u16::try_from(lengths.key).unwrap_or(u16::MAX).to_be_bytes();
    let [s0, s1] = (status as u16).to_be_bytes();
    let [b0, b1, b2, b3] = u32::try_from(lengths.body).unwrap_or(u32::MAX).to_be_bytes();
    let [o0, o1, o2, o3] = head.opaque.to_be_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = cas.to_be_bytes();
    // The sixth byte is the data type, of which there is one.
    let bytes: [u8; HEADER_BYTES] = [
        RESPONSE_MAGIC,
        head.opcode.0,
        k0,
        k1,
        lengths.extras,
        0,
        s0,
        s1,
        b0,
        b1,
        b2,
        b3,
        o0,
        o1,
        o2,
        o3,
        c0,
        c1,
        c2,
        c3,
        c4,
        c5,
        c6,
        c7,
    ];
    out.extend_from_slice(&bytes);
}

/// It is done, and nothing more is to be said than the compare-and-swap token, if there is one.
pub fn done(out: &mut Vec<u8>, head: Head, cas: u64) {
    header(out, head, Status::Ok, Lengths { extras: 0, key: 0, body: 0 }, cas);
}

/// Writes a success with a text.
pub fn text(out: &mut Vec<u8>, head: Head, text: &[u8]) {
    header(out, head, Status::Ok, Lengths { extras: 0, key: 0, body: text.len() }, 0);
    out.extend_from_slice(text);
}

/// It could not be done, for the reason that `status` has a text for.
pub fn error(out: &mut Vec<u8>, head: Head, status: Status) {
    error_text(out, head, status, status.text());
}

/// It could not be done, in other words than those of `status`.
pub fn error_text(out: &mut Vec<u8>, head: Head, status: Status, text: &[u8]) {
    header(out, head, status, Lengths { extras: 0, key: 0, body: text.len() }, 0);
    out.extend_from_slice(text);
}

/// Writes a miss, with the key if the request wants it.
pub fn miss(out: &mut Vec<u8>, head: Head, key: Option<&[u8]>) {
    let Some(key) = key else { return error(out, head, Status::NotFound) };
    header(out, head, Status::NotFound, Lengths { extras: 0, key: key.len(), body: key.len() }, 0);
    out.extend_from_slice(key);
}

/// Writes the part of a response before a value of `value_len` bytes. A touch has no value.
#[inline]
pub fn value_header(
    out: &mut Vec<u8>,
    head: Head,
    key: Option<&[u8]>,
    client_flags: u32,
    value_len: usize,
    cas: u64,
) {
    let key = key.unwrap_or_default();
    let body = value_len.saturating_add(key.len()).saturating_add(4);
    header(out, head, Status::Ok, Lengths { extras: 4, key: key.len(), body }, cas);
    out.extend_from_slice(&client_flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// Writes the result of an increment or decrement.
pub fn number(out: &mut Vec<u8>, head: Head, number: u64, cas: u64) {
    header(out, head, Status::Ok, Lengths { extras: 0, key: 0, body: 8 }, cas);
    out.extend_from_slice(&number.to_be_bytes());
}

/// One statistic. After the last one comes [`done`].
pub fn stat(out: &mut Vec<u8>, head: Head, name: &[u8], value: &[u8]) {
    let lengths = Lengths { extras: 0, key: name.len(), body: name.len().saturating_add(value.len()) };
    header(out, head, Status::Ok, lengths, 0);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}
