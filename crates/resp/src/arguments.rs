//! Arguments as numbers and options.

use protocol::resp::commands::Spec;
use protocol::resp::number;

use super::writer::Failure;

/// Argument `index`; empty where there is none, which the arity excludes.
pub(super) fn arg<'a>(args: &[&'a [u8]], index: usize) -> &'a [u8] {
    args.get(index).copied().unwrap_or_default()
}

/// A whole number.
pub(super) fn integer(text: &[u8]) -> Result<i64, Failure> {
    number(text).ok_or(Failure::NOT_AN_INTEGER)
}

/// Returns whether an argument is that word, ignoring case.
pub(super) fn is(text: &[u8], word: &str) -> bool {
    text.eq_ignore_ascii_case(word.as_bytes())
}

/// The name of the subcommand that a request names; empty if it names none.
pub(super) fn subcommand(args: &[&[u8]]) -> &'static str {
    Spec::find(arg(args, 0)).map_or("", |spec| spec.subcommand_name(args))
}

/// The expiry time to give an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it was.
    Keep,
    Never,
    /// This Unix millisecond, which may have passed.
    At(u64),
}

/// The unit that a time is given in, and what it counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) is_seconds: bool,
    pub(super) is_absolute: bool,
}

impl Unit {
    /// Seconds from now.
    pub(super) const SECONDS: Self = Self { is_seconds: true, is_absolute: false };
    /// Milliseconds from now.
    pub(super) const MILLIS: Self = Self { is_seconds: false, is_absolute: false };
    /// Unix time in seconds.
    pub(super) const UNIX_SECONDS: Self = Self { is_seconds: true, is_absolute: true };
    /// Unix time in milliseconds.
    pub(super) const UNIX_MILLIS: Self = Self { is_seconds: false, is_absolute: true };

    /// The unit of an option of that name.
    pub(super) fn of_option(name: &[u8]) -> Option<Self> {
        match name.to_ascii_uppercase().as_slice() {
            b"EX" => Some(Self::SECONDS),
            b"PX" => Some(Self::MILLIS),
            b"EXAT" => Some(Self::UNIX_SECONDS),
            b"PXAT" => Some(Self::UNIX_MILLIS),
            _ => None,
        }
    }

    /// The Unix millisecond that `time` of this unit is; `None` where that is beyond what 64 bits
    /// count.
    pub(super) fn millis(self, time: i64, now_millis: u64) -> Option<i64> {
        let millis = if self.is_seconds { time.checked_mul(1000)? } else { time };
        if self.is_absolute { Some(millis) } else { millis.checked_add(now_millis as i64) }
    }
}

/// The expiry time at a positive time of `unit`.
pub(super) fn positive_end(time: &[u8], unit: Unit, now_millis: u64, command: &str) -> Result<End, Failure> {
    let time = integer(time)?;
    let millis = if time > 0 { unit.millis(time, now_millis) } else { None };
    millis.map(|millis| End::At(millis as u64)).ok_or_else(|| Failure::expire_time(command))
}
