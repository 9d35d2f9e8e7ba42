//! RESP as a client sees it: commands, and replies in versions 2 and 3.
//!
//! A bench must not share its parser with the server under test. Source: Redis's protocol
//! specification.

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;

use super::WireError;

/// The longest line that a server may answer, in bytes.
const MAX_LINE: usize = 4_096;
/// More than any string or list that is asked for.
const MAX_LENGTH: usize = 64 << 20;
/// Deepest nesting of replies.
const MAX_DEPTH: u32 = 8;

/// A reply. What version 3 tells apart beyond version 2 is not: a map is a list of keys and values,
/// a set a list, and numbers with a point are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string.
    Text(Vec<u8>),
    /// An error.
    Error(String),
    /// A whole number, or a truth value as 0 or 1.
    Number(i64),
    /// Null.
    Nothing,
    /// Several replies.
    List(Vec<Self>),
    /// A push message from the server.
    Push(Vec<Self>),
}

impl Reply {
    /// Returns whether the reply is the status `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Text(text) if text == b"OK")
    }
}

/// Appends a command.
pub fn command(parts: &[&[u8]], out: &mut Vec<u8>) {
    // Writing into a vector cannot fail.
    let _ = write!(out, "*{}\r\n", parts.len());
    for part in parts {
        let _ = write!(out, "${}\r\n", part.len());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// Parses the reply at the start of `input`, and returns it with its number of bytes; `None` until
/// it is whole.
///
/// # Errors
/// If the bytes aren't a valid reply of RESP: the connection is of no further use.
pub fn reply(input: &[u8]) -> Result<Option<(Reply, usize)>, WireError> {
    let mut rest = input;
    let taken = take(&mut rest, MAX_DEPTH)?;
    Ok(taken.map(|reply| (reply, input.len() - rest.len())))
}

fn take(rest: &mut &[u8], depth: u32) -> Result<Option<Reply>, WireError> {
    let input = *rest;
    let Some(end) = input.iter().take(MAX_LINE).position(|byte| *byte == b'\n') else {
        return if input.len() >= MAX_LINE { Err(no_reply(input)) } else { Ok(None) };
    };
    let (line, after) = input.split_at(end + 1);
    let Some((kind, text)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
        return Err(no_reply(line));
    };
    *rest = after;
    let number = || std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    let length = || number().filter(|length| (-1..=MAX_LENGTH as i64).contains(length));
    Ok(Some(match kind {
        b'+' | b',' | b'(' => Reply::Text(text.to_vec()),
        b'-' => Reply::Error(String::from_utf8_lossy(text).into_owned()),
        b':' => Reply::Number(number().ok_or_else(|| no_reply(line))?),
        b'_' => Reply::Nothing,
        b'#' => Reply::Number(i64::from(text == b"t")),
        b'$' => match usize::try_from(length().ok_or_else(|| no_reply(line))?) {
            Err(_) => Reply::Nothing,
            Ok(length) => match string(rest, length)? {
                Some(text) => Reply::Text(text),
                None => return Ok(None),
            },
        },
        b'*' | b'~' | b'%' | b'>' if depth > 0 => {
            match usize::try_from(length().ok_or_else(|| no_reply(line))?) {
                Err(_) => Reply::Nothing,
                Ok(length) => {
                    let parts = if *kind == b'%' { length * 2 } else { length };
                    match list(rest, parts, depth - 1)? {
                        Some(parts) if *kind == b'>' => Reply::Push(parts),
                        Some(parts) => Reply::List(parts),
                        None => return Ok(None),
                    }
                }
            }
        }
        _ => return Err(no_reply(line)),
    }))
}

fn string(rest: &mut &[u8], length: usize) -> Result<Option<Vec<u8>>, WireError> {
    let Some((text, after)) = rest.split_at_checked(length) else { return Ok(None) };
    let after = match after {
        [b'\r', b'\n', after @ ..] => after,
        [] | [b'\r'] => return Ok(None),
        _ => return Err(no_reply(text)),
    };
    *rest = after;
    Ok(Some(text.to_vec()))
}

fn list(rest: &mut &[u8], parts: usize, depth: u32) -> Result<Option<Vec<Reply>>, WireError> {
    let mut list = Vec::new();
    for _ in 0..parts {
        match take(rest, depth)? {
            Some(part) => list.push(part),
            None => return Ok(None),
        }
    }
    Ok(Some(list))
}

fn no_reply(bytes: &[u8]) -> WireError {
    WireError(String::from_utf8_lossy(bytes).chars().take(60).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")]

    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Reply {
        Reply::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn commands_are_as_the_protocol_wants_them() {
        let mut out = Vec::new();
        command(&[b"SET", b"k", b"\r\n"], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn replies_are_taken_apart_wherever_they_are_cut() {
        let input = b"+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n_\r\n$4\r\na\r\nb\r\n*2\r\n$0\r\n\r\n*-1\r\n%1\r\n+a\r\n#t\r\n,1.5\r\n\
                      >2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";
        let wanted = [
            text("OK"),
            Reply::Error("ERR no".into()),
            Reply::Number(-7),
            Reply::Nothing,
            Reply::Nothing,
            text("a\r\nb"),
            Reply::List(vec![text(""), Reply::Nothing]),
            Reply::List(vec![text("a"), Reply::Number(1)]),
            text("1.5"),
            Reply::Push(vec![text("invalidate"), Reply::List(vec![text("k")])]),
        ];
        for cut in 0..=input.len() {
            let (mut at, mut found) = (0, Vec::new());
            for until in [cut, input.len()] {
                while let Some((reply, bytes)) = reply(&input[at..until]).unwrap() {
                    found.push(reply);
                    at += bytes;
                }
            }
            assert_eq!(found, wanted, "cut at {cut}");
            assert_eq!(at, input.len());
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let nested = "*1\r\n".repeat(20);
        for input in
            ["HELLO\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$99999999999\r\n", "$1\r\nabc", "+a\n", &nested]
        {
            assert!(reply(input.as_bytes()).is_err(), "{input:?}");
        }
        assert!(reply(&[b'+'; MAX_LINE]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(input in prop::collection::vec(any::<u8>(), 0..200), kind in "[*$>%~+:]?[0-9]{0,3}(\r\n)?") {
            let input = [kind.into_bytes(), input].concat();
            if let Ok(Some((_, bytes))) = reply(&input) {
                prop_assert!(bytes > 0 && bytes <= input.len());
            }
        }
    }
}
