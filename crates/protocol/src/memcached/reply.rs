//! Answers of a server, appended to an output buffer.
//!
//! Nothing here formats: fixed answers are slices, numbers are written by hand. Whether to answer
//! at all (`noreply`, quiet meta commands) is decided by the caller, which alone knows the outcome;
//! [`MetaStatus::is_nominal`] helps.

use super::key::write_base64;
use super::meta::{MetaFlags, MetaToken};
use super::number::write_u64;

/// The fixed answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// A storage command stored.
    Stored,
    /// A storage command did not, because its condition did not hold.
    NotStored,
    /// `cas`: the item has changed since.
    Exists,
    /// No such item.
    NotFound,
    /// `delete` removed it.
    Deleted,
    /// `touch` found it.
    Touched,
    /// Done.
    Ok,
    /// The end of the values or the statistics.
    End,
    /// `stats reset` is done.
    Reset,
    /// `mn`.
    MetaNoop,
}

impl Reply {
    /// The whole line, `\r\n` included.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Stored => b"STORED\r\n",
            Self::NotStored => b"NOT_STORED\r\n",
            Self::Exists => b"EXISTS\r\n",
            Self::NotFound => b"NOT_FOUND\r\n",
            Self::Deleted => b"DELETED\r\n",
            Self::Touched => b"TOUCHED\r\n",
            Self::Ok => b"OK\r\n",
            Self::End => b"END\r\n",
            Self::Reset => b"RESET\r\n",
            Self::MetaNoop => b"MN\r\n",
        }
    }
}

/// Appends the line that announces a value: `VALUE key flags length [cas]`. The data and another
/// `\r\n` follow it.
#[inline]
pub fn value_header(out: &mut Vec<u8>, key: &[u8], client_flags: u32, data_len: usize, cas: Option<u64>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    write_u64(out, u64::from(client_flags));
    out.push(b' ');
    write_u64(out, data_len as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        write_u64(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a value with its announcement.
#[inline]
pub fn value(out: &mut Vec<u8>, key: &[u8], client_flags: u32, data: &[u8], cas: Option<u64>) {
    value_header(out, key, client_flags, data.len(), cas);
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the answer to `incr` and `decr`.
pub fn number(out: &mut Vec<u8>, value: u64) {
    write_u64(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends one statistic: `STAT name value`. [`Reply::End`] follows the last.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends one statistic that is a number.
pub fn stat_number(out: &mut Vec<u8>, name: &str, value: u64) {
    for part in ["STAT ", name, " "] {
        out.extend_from_slice(part.as_bytes());
    }
    number(out, value);
}

/// Appends the answer to `version`.
pub fn version(out: &mut Vec<u8>, version: &str) {
    for part in ["VERSION ", version, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// The outcome of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaStatus {
    /// `HD`: done, or found, and no value is sent.
    Done,
    /// `VA`: a value of this many bytes follows the line.
    Value {
        /// Its length.
        len: usize,
    },
    /// `EN`: `mg` and `me` found nothing.
    Miss,
    /// `NS`: not stored, because the condition of the mode did not hold.
    NotStored,
    /// `EX`: the item has another compare-and-swap token.
    Exists,
    /// `NF`: nothing there to change.
    NotFound,
}

impl MetaStatus {
    /// Returns whether flag `q` suppresses this response: `EN` of a get, and `HD` of everything
    /// else. A hit of a get is always answered, and so are all other outcomes and all errors.
    pub const fn is_nominal(self, get: bool) -> bool {
        match self {
            Self::Miss => get,
            Self::Done | Self::Value { .. } => !get,
            Self::NotStored | Self::Exists | Self::NotFound => false,
        }
    }

    const fn code(self) -> &'static [u8; 2] {
        match self {
            Self::Done => b"HD",
            Self::Value { .. } => b"VA",
            Self::Miss => b"EN",
            Self::NotStored => b"NS",
            Self::Exists => b"EX",
            Self::NotFound => b"NF",
        }
    }
}

/// The remaining time to live of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remaining {
    /// It does not end; written as -1.
    Forever,
    /// This many seconds.
    Secs(u32),
}

/// The known facts of the item that a meta command met. A flag that requests a fact is answered if
/// the fact is known here, and skipped if it is `None`: a miss answers only `O` and `k`, a store
/// also `c`, a get everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaFacts<'a> {
    /// The bytes of the key, decoded if they were base64 in the request. Sent back for `k`.
    pub key: &'a [u8],
    /// Send the key as base64, and mark it. memcached goes by the item if there is one and else by
    /// the request.
    pub key_is_base64: bool,
    /// `s`: length of the value in bytes.
    pub size: Option<u64>,
    /// `t`: the remaining time to live.
    pub ttl: Option<Remaining>,
    /// `c`: compare-and-swap token. A store that failed answers 0.
    pub cas: Option<u64>,
    /// `f`: client flags.
    pub client_flags: Option<u32>,
    /// `l`: seconds since the last access.
    pub idle_secs: Option<u32>,
    /// `h`: whether it was fetched since it was stored.
    pub fetched: Option<bool>,
    /// The marks that follow the flags, requested or not.
    pub marks: MetaMarks,
}

/// The marks that `mg` sends unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaMarks {
    /// `Z`: another client was told to recache.
    pub already_won: bool,
    /// `X`: stale.
    pub stale: bool,
    /// `W`: this client is to recache.
    pub won: bool,
}

/// Appends the line that answers `mg`, `ms`, `md` or `ma`: status, the requested facts in the order
/// of the flags, marks. With [`MetaStatus::Value`] the data and another `\r\n` follow it.
pub fn meta(out: &mut Vec<u8>, status: MetaStatus, flags: &MetaFlags<'_>, facts: &MetaFacts<'_>) {
    out.extend_from_slice(status.code());
    if let MetaStatus::Value { len } = status {
        out.push(b' ');
        write_u64(out, len as u64);
    }
    for flag in flags.iter() {
        meta_flag(out, flag, facts);
    }
    let MetaMarks { already_won, stale, won } = facts.marks;
    for (mark, is_set) in [(b" Z", already_won), (b" X", stale), (b" W", won)] {
        if is_set {
            out.extend_from_slice(mark);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a value behind the line that [`meta`] wrote for it.
pub fn meta_data(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

fn meta_flag(out: &mut Vec<u8>, flag: MetaToken<'_>, facts: &MetaFacts<'_>) {
    let MetaToken { letter, argument } = flag;
    let value = match letter {
        b's' => facts.size,
        b'c' => facts.cas,
        b'f' => facts.client_flags.map(u64::from),
        b'l' => facts.idle_secs.map(u64::from),
        b'h' => facts.fetched.map(u64::from),
        b't' => match facts.ttl {
            Some(Remaining::Forever) => return out.extend_from_slice(b" t-1"),
            Some(Remaining::Secs(secs)) => Some(u64::from(secs)),
            None => None,
        },
        b'O' => {
            out.extend_from_slice(b" O");
            return out.extend_from_slice(argument);
        }
        b'k' => return key(out, facts),
        _ => None,
    };
    if let Some(value) = value {
        out.extend_from_slice(&[b' ', letter]);
        write_u64(out, value);
    }
}

fn key(out: &mut Vec<u8>, facts: &MetaFacts<'_>) {
    out.extend_from_slice(b" k");
    if facts.key_is_base64 {
        write_base64(out, facts.key);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(facts.key);
    }
}

/// The facts of an item that `me` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugFacts<'a> {
    /// The bytes of the key.
    pub key: &'a [u8],
    /// Send the key as base64.
    pub key_is_base64: bool,
    /// The remaining time to live.
    pub ttl: Remaining,
    /// Seconds since the last access.
    pub idle_secs: u32,
    /// Compare-and-swap token.
    pub cas: u64,
    /// True if the item was fetched since it was stored.
    pub fetched: bool,
    /// Its size class.
    pub class: u32,
    /// The size of the item in memory, in bytes.
    pub size_bytes: u64,
}

/// Appends the answer to `me`. A miss is [`MetaStatus::Miss`] without flags.
///
/// `exp` counts down to the expiry in negative numbers, as in memcached, and is also -1 if the item
/// has no expiry.
pub fn meta_debug(out: &mut Vec<u8>, facts: &DebugFacts<'_>) {
    out.extend_from_slice(b"ME ");
    if facts.key_is_base64 {
        write_base64(out, facts.key);
    } else {
        out.extend_from_slice(facts.key);
    }
    let left = match facts.ttl {
        Remaining::Forever => 1,
        Remaining::Secs(secs) => secs,
    };
    out.extend_from_slice(if left == 0 { b" exp=" } else { b" exp=-" });
    write_u64(out, u64::from(left));
    for (name, value) in [(&b" la="[..], u64::from(facts.idle_secs)), (b" cas=", facts.cas)] {
        out.extend_from_slice(name);
        write_u64(out, value);
    }
    out.extend_from_slice(if facts.fetched { b" fetch=yes" } else { b" fetch=no" });
    for (name, value) in [(&b" cls="[..], u64::from(facts.class)), (b" size=", facts.size_bytes)] {
        out.extend_from_slice(name);
        write_u64(out, value);
    }
    out.extend_from_slice(b"\r\n");
}

/// The facts of an item that `lru_crawler metadump` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpFacts<'a> {
    /// The bytes of the key.
    pub key: &'a [u8],
    /// Expiry time of the item, Unix seconds; `None` = never.
    pub expires_at: Option<u32>,
    /// Time of the last hit, Unix seconds.
    pub last_access: u32,
    /// Compare-and-swap token.
    pub cas: u64,
    /// True if the item was fetched since it was stored.
    pub fetched: bool,
    /// Its size class.
    pub class: u32,
    /// The size of the item in memory, in bytes.
    pub size_bytes: u64,
}

/// Appends a line of `lru_crawler metadump`, which as in memcached ends in `\n` alone.
/// [`Reply::End`] comes after the last.
pub fn dump_facts(out: &mut Vec<u8>, facts: &DumpFacts<'_>) {
    out.extend_from_slice(b"key=");
    write_percent_encoded(out, facts.key);
    match facts.expires_at {
        Some(at) => {
            out.extend_from_slice(b" exp=");
            write_u64(out, u64::from(at));
        }
        None => out.extend_from_slice(b" exp=-1"),
    }
    for (name, value) in [(&b" la="[..], u64::from(facts.last_access)), (b" cas=", facts.cas)] {
        out.extend_from_slice(name);
        write_u64(out, value);
    }
    out.extend_from_slice(if facts.fetched { b" fetch=yes" } else { b" fetch=no" });
    for (name, value) in [(&b" cls="[..], u64::from(facts.class)), (b" size=", facts.size_bytes)] {
        out.extend_from_slice(name);
        write_u64(out, value);
    }
    out.push(b'\n');
}

/// Appends a line of `lru_crawler mgdump`: the `mg` that gets the item, with its key in base64 if a
/// line cannot contain it otherwise. `EN` comes after the last.
pub fn dump_get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    if key.iter().all(|byte| *byte > b' ' && *byte != 0x7f) {
        out.extend_from_slice(key);
    } else {
        write_base64(out, key);
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(b"\r\n");
}

/// A key as it is written in listings: all but letters, digits, `-`, `.`, `_` and `~` as `%` and
/// two digits.
pub fn shown_key(key: &[u8]) -> String {
    let mut shown = Vec::new();
    write_percent_encoded(&mut shown, key);
    String::from_utf8(shown).unwrap_or_default()
}

/// Appends `bytes` with all but letters, digits, `-`, `.`, `_` and `~` as `%` and two digits (RFC
/// 3986, section 2.1).
fn write_percent_encoded(out: &mut Vec<u8>, bytes: &[u8]) {
    let digit = |value: u8| *b"0123456789ABCDEF".get(usize::from(value & 15)).unwrap_or(&b'0');
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]);
        }
    }
}

#[cfg(test)]
mod tests;
