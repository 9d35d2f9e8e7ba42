//! memcached's text protocol as a client sees it: `get`, `set`, `delete`, `touch`.
//!
//! It is the classic protocol and not the meta one because every server and proxy in the field
//! answers it, and because a bench must not share its parser with the server under test. Source:
//! memcached `doc/protocol.txt`.

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;

use super::{Event, Wire, WireError};

/// The classic text protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcached;

/// The longest line that a server may answer, in bytes: a key, flags, a length and a CAS token are
/// far shorter.
const MAX_REPLY_LINE: usize = 2_048;

impl Wire for Memcached {
    #[inline]
    fn get(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        out.extend_from_slice(b"get");
        for key in keys {
            out.push(b' ');
            out.extend_from_slice(key);
        }
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8], ttl_secs: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"set ");
        out.extend_from_slice(key);
        // Writing into a vector cannot fail.
        let _ = write!(out, " 0 {ttl_secs} {}\r\n", value.len());
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn delete(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"delete ");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
    }

    fn touch(&self, key: &[u8], ttl_secs: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"touch ");
        out.extend_from_slice(key);
        let _ = write!(out, " {ttl_secs}\r\n");
    }

    #[inline]
    fn event<'a>(&self, input: &'a [u8]) -> Result<Option<(Event<'a>, usize)>, WireError> {
        let Some(end) = input.iter().take(MAX_REPLY_LINE).position(|byte| *byte == b'\n') else {
            return if input.len() >= MAX_REPLY_LINE { Err(no_reply(input)) } else { Ok(None) };
        };
        let (line, rest) = input.split_at(end + 1);
        let line = line.trim_ascii_end();
        let event = match line {
            b"END" => Event::End,
            b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" => Event::Done,
            b"NOT_FOUND" | b"NOT_STORED" | b"EXISTS" => Event::NotDone,
            [b'V', b'A', b'L', b'U', b'E', b' ', header @ ..] => return value(header, rest, end + 1),
            b"ERROR" => Event::Refused(line),
            _ if line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR") => {
                Event::Refused(line)
            }
            _ => return Err(no_reply(line)),
        };
        Ok(Some((event, end + 1)))
    }
}

/// `KEY FLAGS LENGTH [CAS]`, then the value and a line end.
#[inline]
fn value<'a>(
    header: &'a [u8],
    rest: &'a [u8],
    header_bytes: usize,
) -> Result<Option<(Event<'a>, usize)>, WireError> {
    let mut fields = header.split(|byte| *byte == b' ');
    let (key, _flags, length) = (fields.next(), fields.next(), fields.next());
    let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u32>().ok());
    let (Some(key), Some(length)) = (key, length) else { return Err(no_reply(header)) };
    let length = length as usize;
    let Some((data, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    match rest {
        [b'\r', b'\n', ..] => Ok(Some((Event::Value(key, data), header_bytes + length + 2))),
        [] | [b'\r'] => Ok(None),
        _ => Err(no_reply(header)),
    }
}

fn no_reply(bytes: &[u8]) -> WireError {
    WireError(String::from_utf8_lossy(bytes).chars().take(60).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_as_the_protocol_wants_them() {
        let mut out = Vec::new();
        Memcached.get(&[b"a", b"bc"], &mut out);
        Memcached.set(b"k", b"12345", 60, &mut out);
        Memcached.delete(b"k", &mut out);
        Memcached.touch(b"k", 7, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "get a bc\r\nset k 0 60 5\r\n12345\r\ndelete k\r\ntouch k 7\r\n");
    }

    #[test]
    fn replies_are_taken_apart_wherever_they_are_cut() {
        let input = b"VALUE k 0 4\r\na\r\nb\r\nVALUE kk 1 0 99\r\n\r\nEND\r\nSTORED\r\nNOT_FOUND\r\n\
                      SERVER_ERROR out of memory\r\nTOUCHED\r\n";
        let wanted = [
            Event::Value(b"k", b"a\r\nb"),
            Event::Value(b"kk", b""),
            Event::End,
            Event::Done,
            Event::NotDone,
            Event::Refused(b"SERVER_ERROR out of memory"),
            Event::Done,
        ];
        for cut in 0..=input.len() {
            let (mut at, mut found) = (0, Vec::new());
            for until in [cut, input.len()] {
                while let Some((event, bytes)) = Memcached.event(&input[at..until]).unwrap() {
                    found.push(event);
                    at += bytes;
                }
            }
            assert_eq!(found, wanted, "cut at {cut}");
            assert_eq!(at, input.len());
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for input in ["HELLO\r\n", "VALUE k 0\r\n", "VALUE k 0 x\r\n", "VALUE k 0 1\r\nabc\r\n", "\r\n"] {
            assert!(Memcached.event(input.as_bytes()).is_err(), "{input}");
        }
        assert!(Memcached.event(&[b'x'; MAX_REPLY_LINE]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(input in prop::collection::vec(any::<u8>(), 0..200), value in any::<bool>()) {
            let input = if value { [b"VALUE k 0 ".to_vec(), input].concat() } else { input };
            if let Ok(Some((_, bytes))) = Memcached.event(&input) {
                prop_assert!(bytes > 0 && bytes <= input.len());
            }
        }
    }
}
