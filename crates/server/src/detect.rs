//! The protocol of a client, detected by its first request: for listeners that serve all protocols.
//!
//! RESP begins with `*`, memcached's binary protocol with a byte of its own, and both have lines of
//! words besides. Of these, memcached's are recognised by their first word, as memcached spells it:
//! in lower case. If Redis has a command of the same name whose shape memcached's cannot have, as
//! `set KEY VALUE`, the shape decides; if both are possible, as in `get KEY`, it is memcached.

use protocol::memcached::binary::REQUEST_MAGIC;
use protocol::resp::commands::Spec;

/// The first byte of a request of RESP. No request of memcached begins with it.
const RESP_FIRST: u8 = b'*';
/// Longer than any name of a command.
const MAX_WORD_BYTES: usize = 32;
/// A longer first line is memcached's, as Redis has none without an array.
const MAX_LINE_BYTES: usize = 512;

/// memcached's commands, each with its least number of words: a shorter line is not a valid request
/// of memcached but may be one of Redis.
const MEMCACHED: &[(&str, usize)] = &[
    ("get", 0),
    ("gets", 0),
    ("gat", 0),
    ("gats", 0),
    ("mg", 0),
    ("ms", 0),
    ("md", 0),
    ("ma", 0),
    ("me", 0),
    ("mn", 0),
    ("set", 4),
    ("add", 0),
    ("replace", 0),
    ("append", 4),
    ("prepend", 0),
    ("cas", 0),
    ("incr", 3),
    ("decr", 3),
    ("touch", 3),
    ("delete", 0),
    ("flush_all", 0),
    ("stats", 0),
    ("version", 0),
    ("verbosity", 0),
    ("quit", 0),
    ("shutdown", 0),
    ("watch", 0),
    ("slabs", 0),
    ("lru", 0),
    ("lru_crawler", 0),
    ("cache_memlimit", 0),
];

/// The requests by which memcached's clients ask a node of ElastiCache for its others, the second
/// as pylibmc spells it. The answer `ERROR` tells them that there are none. No setting of Redis has
/// that name.
const DISCOVERY: [&[u8]; 2] = [b"config get cluster", b"config get b'cluster'"];

/// The detected protocol, as far as it is distinguished here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detected {
    Memcached,
    Resp,
}

/// Returns the protocol of a connection that begins with `input`; `None` while it may be either.
pub(crate) fn detect(input: &[u8]) -> Option<Detected> {
    let first = *input.first()?;
    if first == RESP_FIRST {
        return Some(Detected::Resp);
    }
    if first == REQUEST_MAGIC || !first.is_ascii_alphabetic() {
        return Some(Detected::Memcached);
    }
    let Some(end) = input.iter().take(MAX_WORD_BYTES).position(u8::is_ascii_whitespace) else {
        return (input.len() >= MAX_WORD_BYTES).then_some(Detected::Memcached);
    };
    let word = input.get(..end).unwrap_or_default();
    if word == b"config" {
        let line = first_line(input)?;
        return Some(if DISCOVERY.contains(&line) { Detected::Memcached } else { Detected::Resp });
    }
    let Some((_, least)) = MEMCACHED.iter().find(|(name, _)| name.as_bytes() == word) else {
        return Some(if is_of_redis(word) { Detected::Resp } else { Detected::Memcached });
    };
    if *least == 0 {
        return Some(Detected::Memcached);
    }
    let line = first_line(input)?;
    if line.len() >= MAX_LINE_BYTES {
        return Some(Detected::Memcached);
    }
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    // A command's name alone is an error of either.
    Some(if words > 1 && words < *least { Detected::Resp } else { Detected::Memcached })
}

/// Returns the first line, without its end, or as much of it as there may be. `None`: more is
/// needed.
fn first_line(input: &[u8]) -> Option<&[u8]> {
    let most = input.get(..MAX_LINE_BYTES).unwrap_or(input);
    match most.iter().position(|byte| *byte == b'\n') {
        Some(end) => Some(most.get(..end)?.trim_ascii_end()),
        None => (most.len() == MAX_LINE_BYTES).then_some(most),
    }
}

fn is_of_redis(word: &[u8]) -> bool {
    Spec::find(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_tells() {
        use Detected::{Memcached, Resp};
        for (input, spoken) in [
            (&b"*1\r\n$4\r\nPING\r\n"[..], Resp),
            (b"PING\r\n", Resp),
            (b"ping\r\n", Resp),
            (b"GET k\r\n", Resp),
            (b"SET k v\r\n", Resp),
            (b"set k v\r\n", Resp),
            (b"append k v\r\n", Resp),
            (b"incr k\r\n", Resp),
            (b"touch k\r\n", Resp),
            (b"hello 3\r\n", Resp),
            (b"AUTH alice secret\r\n", Resp),
            (b"info\n", Resp),
            (b"hgetall k\r\n", Resp),
            (b"config get maxmemory\r\n", Resp),
            (b"config get cluster*\r\n", Resp),
            (b"CONFIG GET cluster\r\n", Resp),
            (b"config get cluster\r\n", Memcached),
            (b"config get b'cluster'\r\n", Memcached),
            (b"get k\r\n", Memcached),
            (b"gets k", Memcached),
            (b"set k 0 0 5\r\nworld\r\n", Memcached),
            (b"set k 0 0 5 noreply\r\n", Memcached),
            (b"set\r\n", Memcached),
            (b"incr k 1\r\n", Memcached),
            (b"touch k 10\r\n", Memcached),
            (b"quit\r\n", Memcached),
            (b"mg k v\r\n", Memcached),
            (b"mn\r\n", Memcached),
            (b"stats\r\n", Memcached),
            (b"nonsense\r\n", Memcached),
            (b"POST / HTTP/1.1\r\n", Memcached),
            (b"\x80\x0a", Memcached),
            (b"\r\n", Memcached),
            (&[b'x'; MAX_WORD_BYTES], Memcached),
        ] {
            assert_eq!(detect(input), Some(spoken), "{:?}", String::from_utf8_lossy(input));
        }
        let long = [&b"set "[..], &[b'k'; MAX_LINE_BYTES]].concat();
        assert_eq!(detect(&long), Some(Memcached));
    }

    #[test]
    fn what_may_be_either_waits_for_more() {
        for input in [&b""[..], b"g", b"PIN", b"set", b"set k ", b"set k v", b"incr k", b"config get cluster"]
        {
            assert_eq!(detect(input), None, "{:?}", String::from_utf8_lossy(input));
        }
    }

    /// However the bytes come in, a connection is what its whole first line says.
    #[test]
    fn a_decision_holds_when_more_comes() {
        for line in [
            &b"set k v\r\n"[..],
            b"set k 0 0 1\r\n",
            b"PING\r\n",
            b"get k\r\n",
            b"incr k 1\r\n",
            b"config get cluster\r\n",
        ] {
            let whole = detect(line);
            for at in 0..line.len() {
                let part = detect(&line[..at]);
                assert!(part.is_none() || part == whole, "{:?}", String::from_utf8_lossy(&line[..at]));
            }
        }
    }
}
