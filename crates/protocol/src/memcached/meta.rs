//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.
//!
//! All of them take flags of one letter, some with a token right behind the letter. Every command
//! accepts every known flag and ignores those that mean nothing to it, as memcached does. The flags
//! are checked once, while parsing, and are later read from the command line on demand: most
//! requests carry two or three and a server reads each once.
//!
//! If a line has several faults, the one that memcached 1.6.18 reports is reported.

use std::fmt;

use super::error::WireError;
use super::expiry::Exptime;
use super::key::Key;
use super::limits::Limits;
use super::number::{signed, unsigned};
use super::parser::{Command, Refused};
use super::request::{Direction, MetaCommand, MetaRequest, Request, StoreCommand, StoreHeader};
use super::token::{Text, Tokens};

/// Flags that memcached reads of a meta command without a length; `ms` takes one less.
const MAX_FLAGS: usize = 17;
/// Longest opaque token in bytes, its letter not included.
const OPAQUE_MAX_BYTES: usize = 31;
/// Longest data block that has a legal length.
const DATA_MAX_BYTES: i64 = i32::MAX as i64 - 2;

/// The flags of a meta command, in the order in which the client gave them, each at most once and
/// each legal.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    words: Tokens<'a>,
    seen: u64,
}

/// One flag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MetaToken<'a> {
    /// Which.
    pub letter: u8,
    /// The argument behind the letter; usually empty.
    pub argument: &'a [u8],
}

impl fmt::Debug for MetaToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", char::from(self.letter), Text(self.argument))
    }
}

/// Flags in the order of the line. Made by [`MetaFlags::iter`] and found in the answers of a
/// server.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MetaTokens<'a>(Tokens<'a>);

impl<'a> MetaTokens<'a> {
    pub(crate) const fn new(words: Tokens<'a>) -> Self {
        Self(words)
    }

    /// Returns the argument behind `letter` if that flag is present. Cost: one pass over the flags.
    pub fn find(mut self, letter: u8) -> Option<&'a [u8]> {
        self.find_map(|token| (token.letter == letter).then_some(token.argument))
    }
}

impl<'a> Iterator for MetaTokens<'a> {
    type Item = MetaToken<'a>;

    #[inline]
    fn next(&mut self) -> Option<MetaToken<'a>> {
        let (&letter, argument) = self.0.next()?.split_first()?;
        Some(MetaToken { letter, argument })
    }
}

impl fmt::Debug for MetaTokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl fmt::Debug for MetaFlags<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

/// The bit of a letter of ASCII.
#[inline]
const fn bit(letter: u8) -> Option<u64> {
    if letter.is_ascii_alphabetic() { Some(1 << letter.wrapping_sub(b'A')) } else { None }
}

impl<'a> MetaFlags<'a> {
    /// The flags in the order of the line.
    pub const fn iter(&self) -> MetaTokens<'a> {
        MetaTokens(self.words)
    }

    /// Returns whether the flag `letter` was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        bit(letter).is_some_and(|bit| self.seen & bit != 0)
    }

    /// Returns the argument behind `letter` if that flag was given.
    #[inline]
    pub fn argument(&self, letter: u8) -> Option<&'a [u8]> {
        if self.has(letter) { self.iter().find(letter) } else { None }
    }

    fn unsigned(&self, letter: u8) -> Option<u64> {
        unsigned(self.argument(letter)?)
    }

    fn exptime(&self, letter: u8) -> Option<Exptime> {
        signed(self.argument(letter)?).map(Exptime::written)
    }

    /// `q`: leave out the answers that say nothing new (`HD` of a store, a delete or an increment,
    /// `EN` of a get).
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// `v`: answer with the value.
    pub fn value(&self) -> bool {
        self.has(b'v')
    }

    /// `u` of `mg`: leave the item's place in the eviction order alone.
    pub fn no_bump(&self) -> bool {
        self.has(b'u')
    }

    /// `I` of `md` and `ms`: mark as stale.
    pub fn invalidate(&self) -> bool {
        self.has(b'I')
    }

    /// `x` of `md`: remove the value, keep the item.
    pub fn remove_value(&self) -> bool {
        self.has(b'x')
    }

    /// `O`: the token to send back, at most 31 bytes.
    pub fn opaque(&self) -> Option<&'a [u8]> {
        self.argument(b'O')
    }

    /// `T`: the new expiration time.
    pub fn ttl(&self) -> Option<Exptime> {
        self.exptime(b'T')
    }

    /// `N`: create the item if it is missing, with this expiration time.
    pub fn vivify(&self) -> Option<Exptime> {
        self.exptime(b'N')
    }

    /// `R`: let one client recache if the remaining time to live is less than this.
    pub fn recache(&self) -> Option<Exptime> {
        self.exptime(b'R')
    }

    /// `F`: client flags.
    pub fn client_flags(&self) -> Option<u32> {
        self.unsigned(b'F').map(|flags| flags as u32)
    }

    /// `C`: continue only if the item has this compare-and-swap token.
    pub fn compare_cas(&self) -> Option<u64> {
        self.unsigned(b'C')
    }

    /// `E`: give the item this compare-and-swap token.
    pub fn new_cas(&self) -> Option<u64> {
        self.unsigned(b'E')
    }

    /// `D` of `ma`: by how much; 1 if it was not given.
    pub fn delta(&self) -> u64 {
        self.unsigned(b'D').unwrap_or(1)
    }

    /// `J` of `ma`: the value of an item that `N` creates; 0 if it was not given.
    pub fn initial(&self) -> u64 {
        self.unsigned(b'J').unwrap_or(0)
    }

    /// `M`: the mode.
    pub fn mode(&self) -> Option<u8> {
        self.argument(b'M')?.first().copied()
    }

    fn opaque_fits(&self) -> bool {
        self.opaque().is_none_or(|opaque| opaque.len() <= OPAQUE_MAX_BYTES)
    }
}

/// Checks the flags and, if `b` is among them, the key. More than `most` flags are `too_many`,
/// whatever they are.
fn check<'a>(
    words: Tokens<'a>,
    key: Key<'a>,
    sized: bool,
    most: usize,
    too_many: WireError,
) -> Result<(MetaFlags<'a>, Key<'a>), WireError> {
    match check_each(words, key, sized) {
        Ok((flags, key)) if flags.seen.count_ones() as usize <= most => Ok((flags, key)),
        Err(error) if words.count() <= most => Err(error),
        _ => Err(too_many),
    }
}

/// Checks flag by flag. `sized` lets flag `S` in.
fn check_each<'a>(
    words: Tokens<'a>,
    mut key: Key<'a>,
    sized: bool,
) -> Result<(MetaFlags<'a>, Key<'a>), WireError> {
    let mut seen = 0_u64;
    // memcached continues after a wrong token and reports the last of them, but stops at a wrong
    // flag.
    let mut fault = None;
    for token in MetaTokens(words) {
        let letter = token.letter;
        if letter >= 127 {
            return Err(WireError::DuplicateFlag);
        }
        let bit = bit(letter).ok_or(WireError::InvalidFlag)?;
        if seen & bit != 0 {
            return Err(WireError::DuplicateFlag);
        }
        seen |= bit;
        if letter == b'b' {
            match key.into_base64() {
                Some(decodable) => key = decodable,
                None => fault = Some(WireError::BadBase64Key),
            }
        } else if let Some(wrong) = wrong_token(token, sized, fault)? {
            fault = Some(wrong);
        }
    }
    match fault {
        Some(fault) => Err(fault),
        None => Ok((MetaFlags { words, seen }, key)),
    }
}

/// Returns the fault in a flag's token, if any.
///
/// # Errors
/// If the flag itself is invalid.
#[inline]
fn wrong_token(
    MetaToken { letter, argument }: MetaToken<'_>,
    sized: bool,
    earlier: Option<WireError>,
) -> Result<Option<WireError>, WireError> {
    let (fine, wrong) = match letter {
        b'k' | b's' | b't' | b'c' | b'f' | b'v' | b'h' | b'l' | b'u' | b'q' | b'x' | b'I' | b'O' | b'P'
        | b'L' => return Ok(None),
        b'T' | b'N' | b'R' => (signed(argument).is_some(), WireError::BadToken),
        b'C' | b'E' => (unsigned(argument).is_some(), WireError::BadToken),
        b'D' => (unsigned(argument).is_some(), WireError::InvalidMetaDelta),
        b'J' => (unsigned(argument).is_some(), WireError::InvalidMetaInitial),
        b'M' => (argument.len() == 1, WireError::ModeTokenLength),
        // Has no text of its own: an earlier fault stays.
        b'F' => (unsigned(argument).is_some(), earlier.unwrap_or(WireError::BadFormat)),
        b'S' if sized => return Ok(None),
        _ => return Err(WireError::InvalidFlag),
    };
    Ok((!fine).then_some(wrong))
}

/// Splits off the key.
fn split_key<'a>(words: &mut Tokens<'a>, missing: WireError) -> Result<Key<'a>, WireError> {
    Key::plain(words.next().ok_or(missing)?).ok_or(WireError::BadFormat)
}

/// Parses the words behind `mg`.
pub(crate) fn get(mut words: Tokens<'_>) -> Result<Command<'_>, Refused> {
    let key = split_key(&mut words, WireError::UnknownCommand)?;
    let (flags, key) = check(words, key, false, MAX_FLAGS, WireError::GetFlagsTooLong)?;
    if !flags.opaque_fits() {
        return Err(WireError::OpaqueTooLong.into());
    }
    Ok(request(MetaCommand::Get, key, flags))
}

/// Parses the words behind `md`.
pub(crate) fn delete(words: Tokens<'_>) -> Result<Command<'_>, Refused> {
    let (flags, key) = changing(words)?;
    if !flags.opaque_fits() {
        return Err(WireError::OpaqueTooLong.into());
    }
    Ok(request(MetaCommand::Delete, key, flags))
}

/// Parses the words behind `ma`.
pub(crate) fn arithmetic(words: Tokens<'_>) -> Result<Command<'_>, Refused> {
    let (flags, key) = changing(words)?;
    let direction = match flags.mode() {
        None | Some(b'I' | b'+') => Direction::Increment,
        Some(b'D' | b'-') => Direction::Decrement,
        Some(_) => return Err(WireError::InvalidArithmeticMode.into()),
    };
    if !flags.opaque_fits() {
        return Err(WireError::OpaqueTooLong.into());
    }
    Ok(request(MetaCommand::Arithmetic(direction), key, flags))
}

/// Parses the part that `md` and `ma` have in common.
fn changing(mut words: Tokens<'_>) -> Result<(MetaFlags<'_>, Key<'_>), WireError> {
    let key = split_key(&mut words, WireError::UnknownCommand)?;
    check(words, key, false, MAX_FLAGS, WireError::FlagsTooLong).map_err(|error| match error {
        WireError::FlagsTooLong => error,
        _ => WireError::InvalidOrDuplicateFlag,
    })
}

/// Parses the words behind `me`, whose flags are not checked.
pub(crate) fn debug(mut words: Tokens<'_>) -> Result<Command<'_>, Refused> {
    let mut key = split_key(&mut words, WireError::BadFormat)?;
    if words.first() == Some(b"b") {
        key = key.into_base64().ok_or(WireError::BadFormat)?;
    }
    let seen = MetaTokens(words).filter_map(|token| bit(token.letter)).fold(0, |seen, bit| seen | bit);
    Ok(request(MetaCommand::Debug, key, MetaFlags { words, seen }))
}

fn request<'a>(command: MetaCommand, key: Key<'a>, flags: MetaFlags<'a>) -> Command<'a> {
    Command::Request(Request::Meta(MetaRequest { command, key, flags }))
}

/// Parses the words behind `ms`: a key, the length of the data, flags.
pub(crate) fn set<'a>(mut words: Tokens<'a>, limits: &Limits) -> Result<Command<'a>, Refused> {
    let key = words.next().ok_or(WireError::UnknownCommand)?;
    let at_length = words;
    let length = words.next().ok_or(WireError::BadFormat)?;
    // The first releases had the length as flag `S` anywhere in the line.
    let (data_len, words, sized) = match signed(length) {
        Some(length) => (data_len(length), words, false),
        None => (legacy_data_len(at_length), at_length, true),
    };
    let skip = data_len.map_or(0, |len| len.saturating_add(2));
    let Some(key) = Key::plain(key) else {
        return Err(Refused::line(WireError::BadFormat, false, skip, limits));
    };
    let most = if sized { MAX_FLAGS } else { MAX_FLAGS - 1 };
    let checked = check(words, key, sized, most, WireError::FlagsTooLong);
    if matches!(checked, Err(WireError::FlagsTooLong)) {
        return Err(Refused::line(WireError::FlagsTooLong, false, skip, limits));
    }
    let data_len = data_len.ok_or(WireError::BadFormat)?;
    let header = checked.and_then(|(flags, key)| set_header(flags, key, data_len));
    header.map(Command::Store).map_err(|error| Refused::skipping(error, false, skip))
}

fn set_header<'a>(flags: MetaFlags<'a>, key: Key<'a>, data_len: usize) -> Result<StoreHeader<'a>, WireError> {
    let compare_cas = flags.compare_cas();
    let command = match flags.mode() {
        None | Some(b'S') => StoreCommand::Set,
        Some(b'E') => StoreCommand::Add,
        Some(b'A') => StoreCommand::Append,
        Some(b'P') => StoreCommand::Prepend,
        Some(b'R') => StoreCommand::Replace,
        Some(_) => return Err(WireError::InvalidSetMode),
    };
    if !flags.opaque_fits() {
        return Err(WireError::OpaqueTooLong);
    }
    let command = match command {
        StoreCommand::Set | StoreCommand::Replace if compare_cas.is_some() => StoreCommand::Cas,
        other => other,
    };
    Ok(StoreHeader {
        command,
        key,
        client_flags: flags.client_flags().unwrap_or(0),
        exptime: flags.ttl().unwrap_or_default(),
        compare_cas,
        wants_cas: compare_cas.is_some() || flags.has(b'c'),
        data_len,
        noreply: false,
        meta: Some(flags),
    })
}

/// Returns the length of a data block, if it is possible.
pub(crate) fn data_len(length: i64) -> Option<usize> {
    if (0..=DATA_MAX_BYTES).contains(&length) { usize::try_from(length).ok() } else { None }
}

fn legacy_data_len(words: Tokens<'_>) -> Option<usize> {
    signed(MetaTokens(words).find(b'S')?).and_then(data_len)
}

#[cfg(test)]
mod tests;
