//! A client that keeps each value as a hash, a list, a set or a sorted set.
//!
//! A value is cut into pieces, each of which is a field's value, an element or a member, and
//! replaced by a transaction. Joined again, pieces of two values, too few or too many fail the
//! check of a value. The first letter of a key says what it holds.

use anyhow::{Context, Result, bail};
use bench::targets::resp::Reply;

use crate::check::line::Line;
use crate::check::resp::Client as Resp;
use crate::check::server::ServerCaller as _;
use crate::check::subject::{Caller, Touched};

/// Pieces of a value; a value has more bytes than that.
const PIECES: usize = 8;
/// The names of fields, and what makes members differ.
const NAMES: [&[u8]; PIECES] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7"];

/// A connection.
pub(super) struct Client(Resp);

impl Client {
    pub(super) fn over(line: Line) -> Self {
        Self(Resp::over(line))
    }

    pub(super) fn resp(&mut self) -> &mut Resp {
        &mut self.0
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (parts, is_hash): (&[&[u8]], bool) = match key.first() {
            Some(b'h') => (&[b"HGETALL", key], true),
            Some(b'l') => (&[b"LRANGE", key, b"0", b"-1"], false),
            Some(b'e') => (&[b"SMEMBERS", key], false),
            _ => (&[b"ZRANGE", key, b"0", b"-1"], false),
        };
        let Reply::List(parts) = self.0.demand(parts)? else { bail!("a collection came as no list") };
        if parts.is_empty() {
            return Ok(None);
        }
        let mut texts = Vec::new();
        for part in parts {
            match part {
                Reply::Text(text) => texts.push(text),
                other => bail!("a collection has {other:?} in it"),
            }
        }
        let mut pieces: Vec<Vec<u8>> =
            if is_hash { texts.chunks(2).map(<[Vec<u8>]>::concat).collect() } else { texts };
        // Lists and sorted sets have an order, which must be the right one.
        if matches!(key.first(), Some(b'h' | b'e')) {
            pieces.sort_unstable();
        }
        Ok(Some(pieces.iter().flat_map(|piece| piece.iter().skip(1)).copied().collect()))
    }
}

/// A value's pieces, each after its name.
fn pieces(value: &[u8]) -> Vec<Vec<u8>> {
    let bytes = value.len().div_ceil(PIECES).max(1);
    value.chunks(bytes).zip(NAMES).map(|(piece, name)| [name, piece].concat()).collect()
}

impl Caller for Client {
    fn get(&mut self, _pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = self.read(key)? {
                seen(place, &value);
            }
        }
        Ok(())
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        let pieces = pieces(value);
        let mut write: Vec<&[u8]> = match key.first() {
            Some(b'h') => vec![b"HSET", key],
            Some(b'l') => vec![b"RPUSH", key],
            Some(b'e') => vec![b"SADD", key],
            _ => vec![b"ZADD", key],
        };
        for (piece, name) in pieces.iter().zip(NAMES) {
            match key.first() {
                Some(b'h') => write.extend([name, &piece[1..]]),
                Some(b'l' | b'e') => write.push(piece),
                _ => write.extend([name, piece]),
            }
        }
        let ttl = ttl_secs.to_string();
        let mut commands = vec![vec![&b"DEL"[..], key], write];
        if ttl_secs > 0 {
            commands.push(vec![b"EXPIRE", key, ttl.as_bytes()]);
        }
        Ok(self.0.transaction(&commands)?.is_some())
    }

    fn delete(&mut self, pool: u16, key: &[u8]) -> Result<bool> {
        self.0.delete(pool, key)
    }

    fn touch(&mut self, pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        self.0.touch(pool, key, ttl_secs)
    }

    fn refusal(&self) -> Option<&str> {
        self.0.refusal()
    }
}

/// Changes parts of collections and strings at random, for what it does to the server: nothing is
/// told to a history.
pub(super) fn change_a_part(client: &mut Resp, draw: u64) -> Result<()> {
    let number = (draw >> 8) % 50;
    let text = (draw >> 16) % 400;
    let fill = "x".repeat(text as usize);
    let name = text.to_string();
    let commands: [&[&str]; 16] = [
        &["INCR", "count"],
        &["APPEND", "text", &name],
        &["SETRANGE", "range", &name, "y"],
        &["SETBIT", "bits", &name, "1"],
        &["HINCRBY", "numbers", &name, "3"],
        &["HSET", "hash", &name, &fill],
        &["HDEL", "hash", &name],
        &["RPUSH", "list", &fill],
        &["LPOP", "list"],
        &["LTRIM", "list", "0", "200"],
        &["SADD", "set", &name],
        &["SREM", "set", &name],
        &["ZINCRBY", "sorted", "1.5", &name],
        &["ZREMRANGEBYRANK", "sorted", "200", "-1"],
        &["EXPIRE", "text", "20"],
        &["SCAN", "0", "COUNT", "20"],
    ];
    let words = commands[(draw % commands.len() as u64) as usize];
    let key = words.get(1).map(|name| format!("part-{name}-{number}")).context("a command has a key")?;
    let mut parts: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    if words[0] != "SCAN" {
        parts[1] = key.as_bytes();
    }
    client.demand(&parts)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_value_again() {
        for size in [32, 33, 39, 40, 41, 500] {
            let value: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
            let pieces = pieces(&value);
            assert!(pieces.len() <= PIECES, "{size}");
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece[1..].to_vec()).collect();
            assert_eq!(joined, value);
            assert!(pieces.is_sorted());
        }
    }
}
