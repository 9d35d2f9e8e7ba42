//! Members of a sorted set by place, score or name.

use millpond::structured::{Corrupt, Edit, Member, View};

use super::super::arguments::{arg, integer, is};
use super::super::commands::Commands;
use super::super::writer::{Failure, Outcome, Writer};
use super::SORTED;
use super::bounds::{Names, Range, Scores};

/// The kind of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Place,
    Score,
    Name,
}

/// The range that a command asks for.
struct Wanted<'a> {
    range: Range<'a>,
    is_reverse: bool,
    /// Number of members to skip, and number to take then; below zero: none, and all.
    limit: (i64, i64),
    with_scores: bool,
}

impl<'a> Wanted<'a> {
    /// Bounds and options. `by` and `is_reverse` are those that the command's name says; else
    /// options do.
    fn parse(
        args: &[&'a [u8]],
        is_kept: bool,
        (mut by, mut is_reverse): (Option<By>, Option<bool>),
    ) -> Result<Self, Failure> {
        let (mut limit, mut with_scores) = ((0, -1), false);
        let mut rest = args.get(2..).unwrap_or_default();
        while let [option, behind @ ..] = rest {
            rest = match behind {
                _ if !is_kept && is(option, "WITHSCORES") => {
                    with_scores = true;
                    behind
                }
                [offset, count, behind @ ..] if is(option, "LIMIT") => {
                    limit = (integer(offset)?, integer(count)?);
                    behind
                }
                _ if is_reverse.is_none() && is(option, "REV") => {
                    is_reverse = Some(true);
                    behind
                }
                _ if by.is_none() && is(option, "BYLEX") => {
                    by = Some(By::Name);
                    behind
                }
                _ if by.is_none() && is(option, "BYSCORE") => {
                    by = Some(By::Score);
                    behind
                }
                _ => return Err(Failure::SYNTAX),
            };
        }
        let (by, is_reverse) = (by.unwrap_or(By::Place), is_reverse.unwrap_or(false));
        if limit.1 != -1 && by == By::Place {
            return Err(Failure::new(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Name {
            return Err(Failure::new("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (first, second) = (arg(args, 0), arg(args, 1));
        let (min, max) = if is_reverse && by != By::Place { (second, first) } else { (first, second) };
        Ok(Self { range: range(by, min, max)?, is_reverse, limit, with_scores })
    }

    /// The members that are wanted.
    fn look(&self, view: View<'_>) -> Result<Vec<Member>, Corrupt> {
        let (from, count) = match self.range {
            // Places are counted from the other end.
            Range::Places(..) if self.is_reverse => {
                let (from, count) = self.range.of(view)?;
                (view.len()?.saturating_sub(from).saturating_sub(count), count)
            }
            range => range.of(view)?,
        };
        let (offset, most) = self.limit;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(count);
        let taken = usize::try_from(most).unwrap_or(usize::MAX).min(count - offset);
        if !self.is_reverse {
            return view.range(from + offset, taken);
        }
        let mut found = view.range(from + count - offset - taken, taken)?;
        found.reverse();
        Ok(found)
    }
}

fn range<'a>(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Range<'a>, Failure> {
    Ok(match by {
        By::Place => Range::Places(integer(min)?, integer(max)?),
        By::Score => Range::Scores(Scores::parse(min, max)?),
        By::Name => Range::Names(Names::parse(min, max)?),
    })
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn sorted_count(&mut self, by: By, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let range = range(by, arg(args, 2), arg(args, 3))?;
        let count = self.look(arg(args, 1), SORTED, |view| Ok(range.of(view)?.1))?;
        w.integer(count.unwrap_or(0) as i64);
        Ok(())
    }

    pub(super) fn sorted_remove_range(&mut self, by: By, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let range = range(by, arg(args, 2), arg(args, 3))?;
        let removed = self.change(
            arg(args, 1),
            SORTED,
            |view| range.of(view),
            |found| match found {
                Some((from, count)) if count > 0 => Ok((vec![Edit::RemoveRange { from, count }], count)),
                _ => Ok((Vec::new(), 0)),
            },
        )?;
        w.integer(removed as i64);
        Ok(())
    }

    pub(super) fn sorted_store_range(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let wanted = Wanted::parse(args.get(3..).unwrap_or_default(), true, (None, None))?;
        let found = self.look(arg(args, 2), SORTED, |view| wanted.look(view))?.unwrap_or_default();
        let edits = found.iter().map(|member| Edit::score(&member.key, member.score)).collect();
        self.store(arg(args, 1), SORTED, edits)?;
        w.integer(found.len() as i64);
        Ok(())
    }

    /// Answers with members. `named` is what the command's name says of bounds and order.
    pub(super) fn sorted_range(
        &mut self,
        named: (Option<By>, Option<bool>),
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        let wanted = Wanted::parse(args.get(2..).unwrap_or_default(), false, named)?;
        let found = self.look(arg(args, 1), SORTED, |view| wanted.look(view))?.unwrap_or_default();
        w.scored(&found, wanted.with_scores);
        Ok(())
    }
}
