//! The classic commands. Numbers of words, orders of checks and error texts are memcached 1.6.18's.

use super::error::WireError;
use super::expiry::Exptime;
use super::key::{KEY_MAX_BYTES, Key};
use super::limits::Limits;
use super::meta;
use super::number::{signed, unsigned};
use super::parser::{Command, Refused};
use super::request::{
    ArithmeticRequest, DeleteRequest, Direction, GetRequest, Keys, Request, ShutdownMode, StoreCommand,
    StoreHeader, TouchRequest,
};
use super::token::{Tokens, Words};
use crate::http;

type Parsed<'a> = Result<Command<'a>, Refused>;

/// Parses a command line, whose line end has been removed.
#[inline]
pub(crate) fn parse<'a>(line: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let mut words = Tokens::new(line);
    let name = words.next().unwrap_or_default();
    match name {
        b"get" => get(words, false, limits),
        b"gets" => get(words, true, limits),
        b"set" => store(StoreCommand::Set, words, limits),
        b"mg" => meta::get(words),
        b"ms" => meta::set(words, limits),
        b"md" => meta::delete(words),
        b"ma" => meta::arithmetic(words),
        b"me" => meta::debug(words),
        b"mn" => Ok(Command::Request(Request::MetaNoop)),
        _ => less_common(name, words, limits),
    }
}

fn less_common<'a>(name: &'a [u8], words: Tokens<'a>, limits: &Limits) -> Parsed<'a> {
    let request = match name {
        b"add" => return store(StoreCommand::Add, words, limits),
        b"replace" => return store(StoreCommand::Replace, words, limits),
        b"append" => return store(StoreCommand::Append, words, limits),
        b"prepend" => return store(StoreCommand::Prepend, words, limits),
        b"cas" => return store(StoreCommand::Cas, words, limits),
        b"gat" => return get_and_touch(words, false, limits),
        b"gats" => return get_and_touch(words, true, limits),
        b"bget" => return get(words, false, limits),
        b"delete" => return delete(words),
        b"incr" => return arithmetic(Direction::Increment, words),
        b"decr" => return arithmetic(Direction::Decrement, words),
        b"touch" => return touch(words),
        b"flush_all" => return flush_all(words),
        b"verbosity" => return verbosity(words),
        b"cache_memlimit" => return cache_memlimit(words),
        b"stats" => Request::Stats(words),
        b"version" => Request::Version,
        b"quit" => Request::Quit,
        b"shutdown" => Request::Shutdown(shutdown_mode(words)),
        b"slabs" | b"lru" | b"lru_crawler" | b"watch" | b"extstore" | b"refresh_certs" => {
            Request::Unsupported { name, arguments: words }
        }
        _ if http::is_line(std::iter::once(name).chain(words)) => return Err(Refused::http()),
        _ => return Err(WireError::UnknownCommand.into()),
    };
    Ok(Command::Request(request))
}

/// Checks and counts the keys of a retrieval, so that nothing is answered before all are known to
/// be good.
#[inline]
fn keys<'a>(words: Tokens<'a>, limits: &Limits) -> Result<Keys<'a>, WireError> {
    let mut count = 0_usize;
    for key in words {
        if key.len() > KEY_MAX_BYTES {
            return Err(WireError::BadFormat);
        }
        count = count.saturating_add(1);
    }
    if count > limits.max_keys { Err(WireError::TooManyKeys) } else { Ok(Keys::new(words, count)) }
}

/// `get key*`, `gets key*`
#[inline]
fn get<'a>(words: Tokens<'a>, with_cas: bool, limits: &Limits) -> Parsed<'a> {
    let keys = keys(words, limits)?;
    if keys.len() == 0 {
        return Err(WireError::UnknownCommand.into());
    }
    Ok(Command::Request(Request::Get(GetRequest { keys, with_cas, touch: None })))
}

/// `gat exptime key*`, `gats exptime key*`; no keys at all are answered with `END`.
fn get_and_touch<'a>(mut words: Tokens<'a>, with_cas: bool, limits: &Limits) -> Parsed<'a> {
    let exptime = words.next().ok_or(WireError::UnknownCommand)?;
    let exptime = signed(exptime).ok_or(WireError::InvalidExptime)?;
    let keys = keys(words, limits)?;
    Ok(Command::Request(Request::Get(GetRequest { keys, with_cas, touch: Some(Exptime::written(exptime)) })))
}

/// `set key flags exptime bytes [noreply]`, and `cas` with a token before `noreply`. Any other last
/// word is let through.
fn store<'a>(command: StoreCommand, words: Tokens<'a>, limits: &Limits) -> Parsed<'a> {
    let words = Words::<6>::collect(words).ok_or(WireError::UnknownCommand)?;
    let is_cas = matches!(command, StoreCommand::Cas);
    if !(if is_cas { 5..=6 } else { 4..=5 }).contains(&words.count()) {
        return Err(WireError::UnknownCommand.into());
    }
    let noreply = words.noreply();
    let data_len = signed(words.get(3)).and_then(meta::data_len);
    let header = || {
        Some(StoreHeader {
            command,
            key: Key::plain(words.get(0))?,
            client_flags: unsigned(words.get(1))? as u32,
            exptime: Exptime::written(signed(words.get(2))?),
            compare_cas: if is_cas { Some(unsigned(words.get(4))?) } else { None },
            wants_cas: is_cas,
            data_len: data_len?,
            noreply,
            meta: None,
        })
    };
    header().map(Command::Store).ok_or_else(|| {
        let skip = data_len.map_or(0, |len| len.saturating_add(2));
        Refused::line(WireError::BadFormat, noreply, skip, limits)
    })
}

/// `delete key [0] [noreply]`
fn delete(words: Tokens<'_>) -> Parsed<'_> {
    let words = Words::<3>::collect(words).ok_or(WireError::UnknownCommand)?;
    let noreply = words.count() > 1 && words.noreply();
    let zero = words.get(1) == b"0";
    match words.count() {
        0 => return Err(WireError::UnknownCommand.into()),
        1 => {}
        2 if zero || noreply => {}
        3 if zero && noreply => {}
        _ => return Err(Refused::new(WireError::DeleteUsage, noreply)),
    }
    let key = Key::plain(words.get(0)).ok_or(Refused::new(WireError::BadFormat, noreply))?;
    Ok(Command::Request(Request::Delete(DeleteRequest { key, noreply })))
}

/// `incr key delta [noreply]`, `decr key delta [noreply]`
fn arithmetic(direction: Direction, words: Tokens<'_>) -> Parsed<'_> {
    let (words, noreply) = two_or_three(words)?;
    let key = Key::plain(words.get(0)).ok_or(Refused::new(WireError::BadFormat, noreply))?;
    let delta = unsigned(words.get(1)).ok_or(Refused::new(WireError::InvalidDelta, noreply))?;
    Ok(Command::Request(Request::Arithmetic(ArithmeticRequest { key, direction, delta, noreply })))
}

/// `touch key exptime [noreply]`
fn touch(words: Tokens<'_>) -> Parsed<'_> {
    let (words, noreply) = two_or_three(words)?;
    let key = Key::plain(words.get(0)).ok_or(Refused::new(WireError::BadFormat, noreply))?;
    let exptime = signed(words.get(1)).ok_or(Refused::new(WireError::InvalidExptime, noreply))?;
    Ok(Command::Request(Request::Touch(TouchRequest { key, exptime: Exptime::written(exptime), noreply })))
}

fn two_or_three(words: Tokens<'_>) -> Result<(Words<'_, 3>, bool), WireError> {
    let words = Words::collect(words).filter(|words| words.count() >= 2).ok_or(WireError::UnknownCommand)?;
    Ok((words, words.noreply()))
}

/// `flush_all [delay] [noreply]`
fn flush_all(words: Tokens<'_>) -> Parsed<'_> {
    let words = Words::<2>::collect(words).ok_or(WireError::UnknownCommand)?;
    let noreply = words.noreply();
    let delay = if words.count() == usize::from(noreply) {
        0
    } else {
        signed(words.get(0)).ok_or(Refused::new(WireError::InvalidExptime, noreply))?
    };
    Ok(Command::Request(Request::FlushAll { delay: Exptime::written(delay), noreply }))
}

/// `verbosity level [noreply]`
fn verbosity(words: Tokens<'_>) -> Parsed<'_> {
    let (level, noreply) = one_or_two(words)?;
    let level = unsigned(level).ok_or(Refused::new(WireError::BadFormat, noreply))? as u32;
    Ok(Command::Request(Request::Verbosity { level, noreply }))
}

/// `cache_memlimit mebibytes [noreply]`
fn cache_memlimit(words: Tokens<'_>) -> Parsed<'_> {
    let (mebibytes, noreply) = one_or_two(words)?;
    let mebibytes = unsigned(mebibytes).ok_or(Refused::new(WireError::UnknownCommand, noreply))?;
    Ok(Command::Request(Request::CacheMemlimit { mebibytes, noreply }))
}

fn one_or_two(words: Tokens<'_>) -> Result<(&[u8], bool), WireError> {
    let words =
        Words::<2>::collect(words).filter(|words| words.count() >= 1).ok_or(WireError::UnknownCommand)?;
    Ok((words.get(0), words.noreply()))
}

fn shutdown_mode(words: Tokens<'_>) -> ShutdownMode {
    match Words::<1>::collect(words) {
        Some(words) if words.count() == 0 => ShutdownMode::Immediate,
        Some(words) if words.get(0) == b"graceful" => ShutdownMode::Graceful,
        _ => ShutdownMode::Unknown,
    }
}

#[cfg(test)]
mod tests;
