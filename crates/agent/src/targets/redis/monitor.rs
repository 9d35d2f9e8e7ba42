//! Entries of `MONITOR`: which keys a command reads and writes.
//!
//! ```text
//! 1795967252.977481 [0 127.0.0.1:47600] "set" "b" "x\"\\"
//! 1795967253.010200 [0 lua] "get" "b"
//! ```
//!
//! Arguments are escaped, always in the same way, so that keys need not be decoded to tell them
//! apart.

use super::super::learn::{Learner, Outcome};

/// Bytes of an item besides key and value: the entry of the hash table, the object, and what the
/// allocator rounds up.
const ITEM_OVERHEAD: usize = 80;
/// Arguments that are looked at.
const ARGUMENTS: usize = 512;

/// The effect of a command on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Reads the key that follows.
    Read,
    /// Reads all keys that follow.
    ReadAll,
    /// Writes the key that follows. The value is the argument with this number; 0 = it is not known
    /// how large the item is.
    Write(usize),
    /// Writes keys and values in turns.
    WriteAll,
    /// Removes all keys that follow.
    RemoveAll,
}

/// Reads, besides those with several keys.
const READS: &[&str] = &[
    "get",
    "getrange",
    "substr",
    "strlen",
    "getex",
    "getbit",
    "bitcount",
    "bitpos",
    "hget",
    "hmget",
    "hgetall",
    "hexists",
    "hlen",
    "hkeys",
    "hvals",
    "hstrlen",
    "hrandfield",
    "hscan",
    "lrange",
    "lindex",
    "llen",
    "lpos",
    "smembers",
    "sismember",
    "smismember",
    "scard",
    "srandmember",
    "sscan",
    "zrange",
    "zrevrange",
    "zscore",
    "zmscore",
    "zcard",
    "zcount",
    "zrank",
    "zrevrank",
    "zrangebyscore",
    "zrevrangebyscore",
    "zrangebylex",
    "zrevrangebylex",
    "zlexcount",
    "zscan",
    "zrandmember",
    "dump",
    "geodist",
    "geohash",
    "geopos",
    "geosearch",
    "xrange",
    "xrevrange",
    "xlen",
    "sort_ro",
    "bitfield_ro",
];
/// Writes of items whose size the command does not tell.
const WRITES: &[&str] = &[
    "append",
    "setrange",
    "setbit",
    "bitfield",
    "incr",
    "decr",
    "incrby",
    "decrby",
    "incrbyfloat",
    "hset",
    "hmset",
    "hsetnx",
    "hincrby",
    "hincrbyfloat",
    "hdel",
    "lpush",
    "rpush",
    "lpushx",
    "rpushx",
    "lpop",
    "rpop",
    "lset",
    "ltrim",
    "lrem",
    "linsert",
    "sadd",
    "srem",
    "spop",
    "zadd",
    "zrem",
    "zincrby",
    "zpopmin",
    "zpopmax",
    "zremrangebyrank",
    "zremrangebyscore",
    "zremrangebylex",
    "xadd",
    "xdel",
    "xtrim",
    "pfadd",
    "geoadd",
];

fn effect(command: &str) -> Option<Effect> {
    Some(match command {
        "mget" | "exists" | "touch" | "pfcount" | "sinter" | "sunion" | "sdiff" => Effect::ReadAll,
        "set" | "setnx" | "getset" => Effect::Write(2),
        "setex" | "psetex" => Effect::Write(3),
        "mset" | "msetnx" => Effect::WriteAll,
        "del" | "unlink" | "getdel" => Effect::RemoveAll,
        _ if READS.contains(&command) => Effect::Read,
        _ if WRITES.contains(&command) => Effect::Write(0),
        _ => return None,
    })
}

/// Tells `learner` what an entry says, whose end may be cut; `len` is its full length. A read of a
/// key of unknown size counts as `mean` bytes.
pub(super) fn learn(line: &[u8], len: usize, mean: u32, learner: &mut Learner) {
    let Some((database, arguments)) = parse(line) else { return };
    let mut words = Words { rest: arguments, is_cut: len > line.len() };
    let Some(Word { text: command, .. }) = words.next() else { return };
    let Ok(command) = std::str::from_utf8(command) else { return };
    let Some(effect) = effect(&command.to_ascii_lowercase()) else { return };
    let hash = |learner: &Learner, key: &[u8]| learner.hash(key) ^ base::hash::mix64(u64::from(database));
    let size = |key: &Word<'_>, value: &Word<'_>, rest: usize| {
        // A value that was cut goes on to the end of the line, about.
        let value = value.len + if value.is_cut { value.of(rest) } else { 0 };
        u32::try_from(key.len.saturating_add(value).saturating_add(ITEM_OVERHEAD)).unwrap_or(u32::MAX)
    };
    let unseen = len.saturating_sub(line.len());
    let whole = |word: &Word<'_>| !word.is_cut;
    match effect {
        Effect::Read => {
            if let Some(key) = words.next().filter(whole) {
                let hash = hash(learner, key.text);
                let size = if learner.knows(hash) { 0 } else { mean };
                learner.read(hash, size, Outcome::Unknown);
            }
        }
        Effect::ReadAll => {
            for key in words.take(ARGUMENTS).take_while(whole) {
                let hash = hash(learner, key.text);
                let size = if learner.knows(hash) { 0 } else { mean };
                learner.read(hash, size, Outcome::Unknown);
            }
        }
        Effect::Write(value) => {
            if let Some(key) = words.next().filter(whole) {
                let value = value.checked_sub(2).and_then(|skipped| words.nth(skipped));
                let hash = hash(learner, key.text);
                learner.write(hash, value.map_or(0, |value| size(&key, &value, unseen)));
            }
        }
        Effect::WriteAll => {
            for _ in 0..ARGUMENTS {
                let (Some(key), Some(value)) = (words.next().filter(whole), words.next()) else { break };
                // Of a value that was cut it is not known whether it is the last one.
                let known = if value.is_cut { 0 } else { size(&key, &value, 0) };
                let hash = hash(learner, key.text);
                learner.write(hash, known);
            }
        }
        Effect::RemoveAll => {
            for key in words.take(ARGUMENTS).take_while(whole) {
                let hash = hash(learner, key.text);
                learner.remove(hash);
            }
        }
    }
}

/// Splits an entry into the number of the database and the arguments.
fn parse(line: &[u8]) -> Option<(u32, &[u8])> {
    let open = line.iter().take(40).position(|&byte| byte == b'[')?;
    let rest = line.get(open + 1..)?;
    let close = rest.iter().take(80).position(|&byte| byte == b']')?;
    let database = rest.get(..close)?.split(|&byte| byte == b' ').next()?;
    let database = std::str::from_utf8(database).ok()?.parse().ok()?;
    Some((database, rest.get(close + 1..)?))
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word<'a> {
    /// As it stands there.
    text: &'a [u8],
    /// Its bytes, without escapes.
    len: usize,
    /// True if its end is missing.
    is_cut: bool,
}

impl Word<'_> {
    /// The bytes in `more` bytes of text, if they are escaped as those before.
    fn of(&self, more: usize) -> usize {
        if self.text.is_empty() {
            return more;
        }
        usize::try_from(more as u128 * self.len as u128 / self.text.len() as u128).unwrap_or(more)
    }
}

/// Arguments in quotes.
struct Words<'a> {
    rest: &'a [u8],
    is_cut: bool,
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let text = self.rest.trim_ascii_start().strip_prefix(b"\"")?;
        let (mut at, mut len) = (0, 0);
        loop {
            match text.get(at) {
                Some(b'"') => {
                    let word = Word { text: text.get(..at)?, len, is_cut: false };
                    self.rest = text.get(at + 1..)?;
                    return Some(word);
                }
                Some(b'\\') => at += if text.get(at + 1) == Some(&b'x') { 4 } else { 2 },
                Some(_) => at += 1,
                None => {
                    self.rest = &[];
                    return self.is_cut.then_some(Word { text, len, is_cut: true });
                }
            }
            len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::learn::Sampling;
    use super::*;
    use proptest::prelude::*;

    fn words(text: &[u8], is_cut: bool) -> Vec<(String, usize, bool)> {
        let words = Words { rest: text, is_cut };
        words.map(|word| (word.text.escape_ascii().to_string(), word.len, word.is_cut)).collect()
    }

    fn missed(lines: &[&str], size: f64) -> Option<f64> {
        let mut learner = Learner::new(&Sampling::default(), 0);
        learner.warm_up();
        for line in lines {
            learn(line.as_bytes(), line.len(), 100, &mut learner);
        }
        learner.curve().map(|curve| curve.miss_ratio(size))
    }

    #[test]
    fn arguments_are_split_and_counted_without_escapes() {
        let text = br#" "set" "a\"b\\" "\x00\n""#;
        let expected = [("set", 3, false), (r#"a\\\"b\\\\"#, 4, false), (r"\\x00\\n", 2, false)];
        assert_eq!(words(text, false), expected.map(|(text, len, cut)| (text.to_owned(), len, cut)));
        assert_eq!(words(br#" "set" "abc"#, true).last(), Some(&("abc".to_owned(), 3, true)));
        assert_eq!(words(br#" "set" "abc"#, false).len(), 1);
    }

    #[test]
    fn reads_count_and_writes_do_not() {
        let set = r#"1.1 [0 127.0.0.1:47600] "SET" "k" "0123456789""#;
        let get = r#"1.2 [0 lua] "get" "k""#;
        assert_eq!(missed(&[set], 1e9), None);
        assert_eq!(missed(&[set, get], 1e9), Some(0.0));
        assert_eq!(missed(&[set, get], 80.0), Some(1.0), "the item has 91 bytes");
        assert_eq!(missed(&[set, &get.replace("[0", "[1")], 1e9), Some(1.0), "another database");
        let del = r#"1.1 [0 127.0.0.1:47600] "unlink" "x" "k""#;
        assert_eq!(missed(&[set, del, get], 1e9), Some(1.0));
        let mget = r#"1.1 [0 127.0.0.1:47600] "mget" "k" "other""#;
        assert_eq!(missed(&[set, mget], 1e9), Some(0.5));
        assert_eq!(missed(&[r#"1.1 [0 127.0.0.1:47600] "config" "get" "k""#], 1e9), None);
    }

    #[test]
    fn a_value_that_was_cut_has_its_length() {
        let line = format!(r#"1.1 [0 127.0.0.1:47600] "set" "k" "{}""#, "v".repeat(9_000));
        let mut learner = Learner::new(&Sampling::default(), 0);
        learner.warm_up();
        let kept = line.get(..1000).expect("a beginning");
        learn(kept.as_bytes(), line.len(), 100, &mut learner);
        let get = r#"1.2 [0 127.0.0.1:47600] "get" "k""#;
        learn(get.as_bytes(), get.len(), 100, &mut learner);
        let curve = learner.curve().expect("a curve");
        assert!(curve.miss_ratio(9_050.0) > 0.5 && curve.miss_ratio(9_090.0) < 0.5, "{curve:?}");
    }

    proptest! {
        #[test]
        fn whatever_is_monitored_is_read_or_left_out(
            line in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "[0-9.]{1,9} \\[[0-9]{1,3} lua\\]( \"(get|set|mset|del|mget|setex|x|\\\\x0|\\\\)?\"){0,6}.{0,4}"
                    .prop_map(String::into_bytes),
            ],
            cut in 0_usize..1000,
        ) {
            let mut learner = Learner::new(&Sampling::default(), 0);
            learn(&line, line.len() + cut, 100, &mut learner);
            let _ = learner.curve();
        }
    }
}
