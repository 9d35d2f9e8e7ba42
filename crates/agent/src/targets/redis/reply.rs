//! Redis's protocol as a client needs it: commands, and answers of bounded size.

use std::io;

use super::super::wire::{Deadline, Wire, garbled};

/// Bytes of a line.
const LINE: usize = 64 << 10;
/// Bytes of a string: `INFO` has some thousands, and a key that is longer is an error.
const BULK: u64 = 4 << 20;
/// Elements of an answer, and how deep they may be nested.
const ELEMENTS: u64 = 65_536;
const DEPTH: u32 = 4;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Simple(Vec<u8>),
    Error(String),
    Int(i64),
    /// `None` is nil.
    Bulk(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

impl Reply {
    /// A number that is not negative.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The answer in words, for an error message.
    pub(super) fn shown(&self) -> String {
        let text = match self {
            Self::Simple(text) | Self::Bulk(Some(text)) => text.escape_ascii().to_string(),
            Self::Error(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Bulk(None) => "nil".to_owned(),
            Self::Array(_) => "an array".to_owned(),
        };
        text.chars().take(200).collect()
    }
}

/// Appends a command.
pub(super) fn compose(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads an answer.
pub(super) fn read(wire: &mut Wire, deadline: Deadline) -> io::Result<Reply> {
    read_nested(wire, deadline, DEPTH, &mut ELEMENTS.clone())
}

fn read_nested(wire: &mut Wire, deadline: Deadline, depth: u32, left: &mut u64) -> io::Result<Reply> {
    let line = wire.line(LINE, deadline)?;
    let wrong = || garbled(format!("it answered `{}`", beginning(&line).escape_ascii()));
    let (&kind, rest) = line.split_first().ok_or_else(wrong)?;
    Ok(match kind {
        b'+' => Reply::Simple(rest.to_vec()),
        b'-' => Reply::Error(String::from_utf8_lossy(rest).into_owned()),
        b':' => Reply::Int(integer(rest).ok_or_else(wrong)?),
        b'$' | b'*' => {
            let len = integer(rest).ok_or_else(wrong)?;
            match (kind, u64::try_from(len)) {
                // -1 is nil, of both kinds.
                (_, Err(_)) if len == -1 => Reply::Bulk(None),
                (b'$', Ok(len)) if len <= BULK => {
                    let bytes = wire.bytes(usize::try_from(len).map_err(|_| wrong())?, deadline)?;
                    if wire.bytes(2, deadline)? != b"\r\n" {
                        return Err(garbled("a string of its answer does not end where it says"));
                    }
                    Reply::Bulk(Some(bytes))
                }
                (b'*', Ok(len)) if len <= *left && depth > 0 => {
                    *left -= len;
                    let mut elements = Vec::new();
                    for _ in 0..len {
                        elements.push(read_nested(wire, deadline, depth - 1, left)?);
                    }
                    Reply::Array(elements)
                }
                _ => return Err(garbled("its answer is too long")),
            }
        }
        _ => return Err(wrong()),
    })
}

fn beginning(line: &[u8]) -> &[u8] {
    line.get(..line.len().min(100)).unwrap_or_default()
}

fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
