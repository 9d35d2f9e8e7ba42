//! The protocols, as far as the comparison speaks them: reads and writes of one key, and the
//! counters that say what a server holds.
//!
//! Taking in a reply costs next to nothing, since its length follows from its first bytes: the load
//! must cost less than the servers, or it would hide their differences.

use std::io::Write as _;

use anyhow::{Result, bail};

use crate::keys::Key;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Wire {
    /// memcached's classic text commands.
    Memcached,
    /// Redis's arrays of bulk strings.
    Redis,
    /// Lines with a key, which come back as they are: reads and writes alike.
    Echo,
}

/// A reply, without what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The value.
    Hit,
    /// There is none.
    Miss,
    /// The value was written.
    Stored,
}

impl Wire {
    /// Appends a read.
    pub(crate) fn get(self, key: &Key, out: &mut Vec<u8>) {
        match self {
            Self::Memcached => out.extend_from_slice(b"get "),
            Self::Redis => out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$16\r\n"),
            Self::Echo => {}
        }
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends a write.
    pub(crate) fn set(self, key: &Key, value: &[u8], out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = match self {
            Self::Memcached => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(key);
                write!(out, " 0 0 {}\r\n", value.len())
            }
            Self::Redis => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                out.extend_from_slice(key);
                write!(out, "\r\n${}\r\n", value.len())
            }
            Self::Echo => return self.get(key, out),
        };
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    /// Takes the reply at the beginning of `input`, when values are `value_len` bytes long; with
    /// it, how many bytes it takes up. `None` where it has not arrived in full.
    ///
    /// # Errors
    /// Where the server refuses or says what was not asked for.
    #[inline]
    pub(crate) fn reply(self, input: &[u8], value_len: usize) -> Result<Option<(Reply, usize)>> {
        let expected: &[(Reply, &[u8])] = match self {
            Self::Echo => {
                let length = size_of::<Key>() + 2;
                return Ok((input.len() >= length).then_some((Reply::Hit, length)));
            }
            Self::Memcached => &[(Reply::Miss, b"END\r\n"), (Reply::Stored, b"STORED\r\n")],
            Self::Redis => &[(Reply::Miss, b"$-1\r\n"), (Reply::Stored, b"+OK\r\n")],
        };
        let (head, tail) = match self {
            // VALUE key 0 length, the value, an empty line's end, END
            Self::Memcached => ("VALUE ".len() + size_of::<Key>() + " 0 ".len() + digits(value_len) + 2, 7),
            Self::Redis | Self::Echo => ("$".len() + digits(value_len) + 2, 2),
        };
        let all = head + value_len + tail;
        let Some(first) = input.first() else { return Ok(None) };
        for (reply, text) in expected {
            if input.starts_with(text) {
                return Ok(Some((*reply, text.len())));
            }
            if text.starts_with(input) {
                return Ok(None);
            }
        }
        let value_start = if self == Self::Memcached { b'V' } else { b'$' };
        if *first != value_start {
            bail!("the server answered {:?}", String::from_utf8_lossy(&input[..input.len().min(80)]));
        }
        if input.len() < all {
            return Ok(None);
        }
        if input[head - 2..head] != *b"\r\n" || input[all - 2..all] != *b"\r\n" {
            bail!("a value is not {value_len} bytes long");
        }
        Ok(Some((Reply::Hit, all)))
    }

    /// The request for a server's counters.
    pub(crate) fn counters(self) -> &'static [u8] {
        match self {
            Self::Memcached => b"stats\r\n",
            Self::Redis => b"*1\r\n$4\r\nINFO\r\n",
            Self::Echo => b"there?\r\n",
        }
    }

    /// Returns whether `text` is the whole answer to [`Self::counters`].
    pub(crate) fn is_whole(self, text: &[u8]) -> bool {
        match self {
            Self::Memcached => text.ends_with(b"END\r\n"),
            Self::Redis => {
                let text = String::from_utf8_lossy(text);
                let Some((head, rest)) = text.split_once("\r\n") else { return false };
                head.strip_prefix('$')
                    .and_then(|n| n.parse::<usize>().ok())
                    .is_some_and(|n| rest.len() >= n + 2)
            }
            Self::Echo => text.ends_with(b"\n"),
        }
    }

    /// Items held and items evicted, from the answer to [`Self::counters`].
    pub(crate) fn holdings(self, text: &str) -> (u64, u64) {
        let (items, evictions) = match self {
            Self::Memcached => ("STAT curr_items ", "STAT evictions "),
            Self::Redis => ("db0:keys=", "evicted_keys:"),
            Self::Echo => return (0, 0),
        };
        let number = |start: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or("0");
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().unwrap_or(0)
        };
        (number(items), number(evictions))
    }
}

/// Decimal digits of a number.
fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = *b"0123456789abcdef";

    #[test]
    fn replies_are_taken_whole_or_not_at_all() {
        let cases: [(Wire, &[u8]); 2] = [
            (Wire::Memcached, b"VALUE 0123456789abcdef 0 3\r\nxyz\r\nEND\r\nEND\r\nSTORED\r\n"),
            (Wire::Redis, b"$3\r\nxyz\r\n$-1\r\n+OK\r\n"),
        ];
        for (wire, text) in cases {
            let (mut rest, mut replies) = (text, Vec::new());
            while let Some((reply, length)) = wire.reply(rest, 3).expect("well-formed") {
                for cut in 0..length {
                    assert_eq!(wire.reply(&rest[..cut], 3).expect("a part"), None, "{wire:?} {cut}");
                }
                replies.push(reply);
                rest = &rest[length..];
            }
            assert_eq!(replies, [Reply::Hit, Reply::Miss, Reply::Stored]);
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn refusals_and_surprises_are_errors() {
        assert!(Wire::Memcached.reply(b"SERVER_ERROR out of memory\r\n", 3).is_err());
        assert!(Wire::Redis.reply(b"-OOM command not allowed\r\n", 3).is_err());
        assert!(Wire::Redis.reply(b"$4\r\nwxyz\r\n", 3).is_err());
    }

    #[test]
    fn requests_are_as_the_protocols_have_them() {
        let mut out = Vec::new();
        Wire::Memcached.get(&KEY, &mut out);
        Wire::Memcached.set(&KEY, b"xyz", &mut out);
        assert_eq!(out, b"get 0123456789abcdef\r\nset 0123456789abcdef 0 0 3\r\nxyz\r\n");
        out.clear();
        Wire::Redis.set(&KEY, b"xyz", &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$16\r\n0123456789abcdef\r\n$3\r\nxyz\r\n");
    }

    #[test]
    fn counters_are_found() {
        let stats = "STAT curr_items 12\r\nSTAT evictions 3\r\nEND\r\n";
        assert!(Wire::Memcached.is_whole(stats.as_bytes()));
        assert_eq!(Wire::Memcached.holdings(stats), (12, 3));
        let info = "evicted_keys:3\r\ndb0:keys=12,expires=0\r\n";
        assert_eq!(Wire::Redis.holdings(info), (12, 3));
        let whole = format!("${}\r\n{info}\r\n", info.len());
        assert!(Wire::Redis.is_whole(whole.as_bytes()) && !Wire::Redis.is_whole(&whole.as_bytes()[..20]));
    }
}
