//! Entries of memcached's log of fetches and stores, as 1.6 writes them:
//!
//! ```text
//! ts=1795967049.857025 gid=2 type=item_get key=a status=found clsid=1 cfd=24 size=5
//! ts=1795967049.8573 gid=3 type=item_store key=a status=stored cmd=set ttl=0 clsid=1 cfd=24 size=5
//! [skipped: 17]
//! ```
//!
//! Keys are percent-encoded, always in the same way, so that they need not be decoded to tell them
//! apart. `size` is that of the value.

use super::Outcome;

/// The part of an entry that says which item, of which connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetch<'a> {
    pub(super) key: &'a [u8],
    pub(super) outcome: Outcome,
    /// 0 on a miss.
    pub(super) class: u8,
    pub(super) connection: u32,
    pub(super) size: u32,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Fetch(Fetch<'a>),
    /// A store, and whether the item was stored.
    Store(Fetch<'a>, bool),
    /// Entries that memcached dropped, as they were not read or written fast enough.
    Skipped(u64),
}

/// Reads an entry; `None` if it is of another kind, or damaged.
pub(super) fn parse(line: &[u8]) -> Option<Entry<'_>> {
    if let Some(rest) = line.strip_prefix(b"[skipped:") {
        return Some(Entry::Skipped(number(rest.trim_ascii().strip_suffix(b"]")?)?));
    }
    let mut fetch = Fetch { key: &[], outcome: Outcome::Unknown, class: 0, connection: 0, size: 0 };
    let (mut is_fetch, mut is_store, mut status) = (false, false, &[][..]);
    for word in line.split(|&byte| byte == b' ') {
        let equals = word.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (word.get(..equals)?, word.get(equals + 1..)?);
        match name {
            b"type" if value == b"item_get" => is_fetch = true,
            b"type" if value == b"item_store" => is_store = true,
            b"type" => return None,
            b"key" => fetch.key = value,
            b"status" => status = value,
            b"clsid" => fetch.class = u8::try_from(number(value)?).ok()?,
            b"cfd" => fetch.connection = u32::try_from(number(value)?).ok()?,
            b"size" => fetch.size = u32::try_from(number(value)?).ok()?,
            _ => {}
        }
    }
    if fetch.key.is_empty() {
        return None;
    }
    if is_store {
        return Some(Entry::Store(fetch, status == b"stored"));
    }
    // A key that has expired or was flushed is a miss as well.
    fetch.outcome = if status == b"found" { Outcome::Hit } else { Outcome::Miss };
    is_fetch.then_some(Entry::Fetch(fetch))
}

/// Digits, and nothing else.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
