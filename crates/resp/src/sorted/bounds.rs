//! Bounds of scores and of names.

use millpond::structured::{Corrupt, View};

use super::super::numbers::loose_float;
use super::super::writer::Failure;

/// Scores within bounds; `true`: that one is not in itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    min: (f64, bool),
    max: (f64, bool),
}

/// A bound of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name<'a> {
    /// Before all.
    Least,
    /// Behind all.
    Most,
    /// `true`: it is not in itself.
    At(&'a [u8], bool),
}

/// Names within bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    min: Name<'a>,
    max: Name<'a>,
}

/// Which members are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range<'a> {
    Places(i64, i64),
    Scores(Scores),
    Names(Names<'a>),
}

impl Scores {
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, Failure> {
        let bound = |text: &[u8]| {
            let (text, is_open) = match text {
                [b'(', rest @ ..] => (rest, true),
                text => (text, false),
            };
            loose_float(text)
                .map(|number| (number, is_open))
                .ok_or(Failure::new("ERR min or max is not a float"))
        };
        Ok(Self { min: bound(min)?, max: bound(max)? })
    }
}

impl<'a> Names<'a> {
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<Self, Failure> {
        let bound = |text: &'a [u8]| match text {
            b"-" => Ok(Name::Least),
            b"+" => Ok(Name::Most),
            [b'(', rest @ ..] => Ok(Name::At(rest, true)),
            [b'[', rest @ ..] => Ok(Name::At(rest, false)),
            _ => Err(Failure::new("ERR min or max not valid string range item")),
        };
        Ok(Self { min: bound(min)?, max: bound(max)? })
    }
}

impl Range<'_> {
    /// The place of the first that is meant, and how many are.
    pub(super) fn of(self, view: View<'_>) -> Result<(usize, usize), Corrupt> {
        let (from, to) = match self {
            Self::Places(start, end) => {
                return Ok(super::super::collections::places(start, end, view.len()?));
            }
            Self::Scores(Scores { min, max }) => (
                view.count_before(|score, _| Ok(if min.1 { score <= min.0 } else { score < min.0 }))?,
                view.count_before(|score, _| Ok(if max.1 { score < max.0 } else { score <= max.0 }))?,
            ),
            Self::Names(Names { min, max }) => (
                view.count_before(|_, name| match min {
                    Name::Least => Ok(false),
                    Name::Most => Ok(true),
                    Name::At(bound, is_open) => {
                        let name = name()?;
                        Ok(if is_open { *name <= *bound } else { *name < *bound })
                    }
                })?,
                view.count_before(|_, name| match max {
                    Name::Least => Ok(false),
                    Name::Most => Ok(true),
                    Name::At(bound, is_open) => {
                        let name = name()?;
                        Ok(if is_open { *name < *bound } else { *name <= *bound })
                    }
                })?,
            ),
        };
        Ok((from, to.saturating_sub(from)))
    }
}
