//! A neighbour whose single commands are expensive, and one that tries what is not its to do.

use anyhow::Result;
use bench::targets::resp::command;

use super::Scene;
use super::peer::{Moved, connect, converse, prepare as ask, read, write};

/// Entries of each collection.
const ENTRIES: usize = 20_000;
/// Keys beside.
const KEYS: usize = 50_000;
/// The reply to `ECHO` that ends a conversation.
const MARK: &[u8] = b"$4\r\ndone\r\n";

/// Commands of RESP that are for operators.
const RESP: &[&str] = &[
    "CONFIG SET maxmemory 8mb",
    "CONFIG SET maxclients 1",
    "CONFIG SET limits.max_line_bytes 64",
    "CONFIG SET limits.max_output_buffer_bytes 1024",
    "CONFIG SET tenant.victim.max_connections 1",
    "CONFIG REWRITE",
    "CONFIG RESETSTAT",
    "ACL SETUSER default off",
    "ACL SETUSER default resetkeys -@all",
    "ACL SETUSER default resetpass >secret",
    "ACL DELUSER default",
    "ACL LOG RESET",
    "CLIENT KILL TYPE normal",
    "CLIENT KILL ID 1",
    "CLIENT PAUSE 10000",
    "CLIENT NO-EVICT on",
    "DEBUG SLEEP 5",
    "DEBUG SEGFAULT",
    "SHUTDOWN NOSAVE",
    "SLAVEOF 127.0.0.1 1",
    "FAILOVER",
    "SWAPDB 0 1",
    "SELECT 1",
    "MONITOR",
    "FLUSHALL",
    "FLUSHDB ASYNC",
    "SLOWLOG RESET",
    "SAVE",
    "BGREWRITEAOF",
    "MODULE LOAD /nowhere",
    "SCRIPT KILL",
];
/// And such of memcached.
const TEXT: &[&str] = &[
    "flush_all",
    "cache_memlimit 8",
    "shutdown",
    "shutdown graceful",
    "verbosity 9",
    "slabs reassign 1 2",
    "slabs automove 0",
    "lru mode flat",
    "lru_crawler disable",
    "stats reset",
    "stats detail on",
    "watch fetchers",
    "me key",
    "debugtime 99",
];

/// Writes keys and collections.
pub(super) fn prepare(scene: &Scene) -> Result<()> {
    let mut requests = Vec::new();
    command(&[b"FLUSHALL"], &mut requests);
    for i in 0..KEYS {
        command(&[b"SET", format!("key:{i}").as_bytes(), b"value"], &mut requests);
    }
    let names: Vec<String> = (0..ENTRIES).map(|i| format!("member:{i}")).collect();
    for part in names.chunks(1_000) {
        let with = |head: &[&'static [u8]], each: &dyn Fn(&str) -> Vec<Vec<u8>>| {
            let mut words: Vec<Vec<u8>> = head.iter().map(|word| word.to_vec()).collect();
            words.extend(part.iter().flat_map(|name| each(name)));
            words
        };
        let plain = |name: &str| vec![name.as_bytes().to_vec()];
        let pair = |name: &str| vec![name.as_bytes().to_vec(), b"some value".to_vec()];
        let score = |name: &str| vec![name.len().to_string().into_bytes(), name.as_bytes().to_vec()];
        for words in [
            with(&[b"HSET", b"hash"], &pair),
            with(&[b"RPUSH", b"list"], &plain),
            with(&[b"SADD", b"set:a"], &plain),
            with(&[b"SADD", b"set:b"], &pair),
            with(&[b"ZADD", b"sorted"], &score),
        ] {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            command(&words, &mut requests);
        }
    }
    ask(scene, requests)
}

/// Commands that look at all of something, one after the other.
pub(super) fn expensive(scene: &Scene) -> Result<u64> {
    let mut requests = Vec::new();
    let names: Vec<String> = (0..10_000).map(|i| format!("key:{i}")).collect();
    let mut many: Vec<&[u8]> = vec![b"MGET"];
    many.extend(names.iter().map(|name| name.as_bytes()));
    let all: [&[&[u8]]; 9] = [
        &[b"HGETALL", b"hash"],
        &[b"LRANGE", b"list", b"0", b"-1"],
        &[b"LPOS", b"list", b"no such entry"],
        &[b"SUNION", b"set:a", b"set:b"],
        &[b"SINTERSTORE", b"both", b"set:a", b"set:b"],
        &[b"SDIFF", b"set:a", b"set:b"],
        &[b"ZUNIONSTORE", b"sum", b"2", b"sorted", b"set:a"],
        &[b"ZRANGE", b"sorted", b"0", b"-1", b"WITHSCORES"],
        &many,
    ];
    all.iter().for_each(|words| command(words, &mut requests));
    repeat(scene, requests, all.len() as u64)
}

/// Walks over all keys.
pub(super) fn walks(scene: &Scene) -> Result<u64> {
    let mut requests = Vec::new();
    let all: [&[&[u8]]; 4] =
        [&[b"KEYS", b"*"], &[b"SCAN", b"0", b"COUNT", b"1000000"], &[b"KEYS", b"*a*b*c*d*"], &[b"DBSIZE"]];
    all.iter().for_each(|words| command(words, &mut requests));
    repeat(scene, requests, all.len() as u64)
}

fn repeat(scene: &Scene, mut requests: Vec<u8>, count: u64) -> Result<u64> {
    command(&[b"ECHO", b"done"], &mut requests);
    let mut stream = connect(scene.neighbour)?;
    let mut done = 0;
    while converse(&mut stream, (&requests, MARK), scene, done)? {
        done += count;
    }
    Ok(done)
}

/// Listings of all keys by memcached's protocol.
pub(super) fn dumps(scene: &Scene) -> Result<u64> {
    let mut stream = connect(scene.neighbour)?;
    let mut done = 0;
    let listing = (&b"lru_crawler metadump all\r\nmn\r\n"[..], &b"MN\r\n"[..]);
    while converse(&mut stream, listing, scene, done)? {
        done += 1;
    }
    Ok(done)
}

/// Writes, and flushes what was written.
pub(super) fn flushes(scene: &Scene) -> Result<u64> {
    let mut requests = Vec::new();
    for i in 0..200 {
        command(&[b"SET", format!("key:{i}").as_bytes(), b"value"], &mut requests);
    }
    command(&[b"FLUSHALL"], &mut requests);
    repeat(scene, requests, 201)
}

/// Sends commands that are for operators. Those that aren't refused may concern this tenant alone.
pub(super) fn operators(scene: &Scene) -> Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut done = 0;
    while !scene.is_over(done) {
        for (lines, is_resp) in [(RESP, true), (TEXT, false)] {
            for line in lines {
                let mut request = Vec::new();
                if is_resp {
                    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                    command(&words, &mut request);
                } else {
                    request.extend_from_slice(format!("{line}\r\n").as_bytes());
                }
                let mut stream = connect(scene.neighbour)?;
                if write(&mut stream, &request) != Moved::Ended {
                    read(&mut stream, &mut buffer);
                }
                done += 1;
            }
        }
    }
    Ok(done)
}
