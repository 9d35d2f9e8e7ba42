//! Commands on lists.

use millpond::structured::{CollectionKind, Corrupt, Edit, Member, View};
use protocol::resp::commands::List;

use super::arguments::{arg, integer, is};
use super::collections::{count_of, counted_keys, places};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};

const LIST: CollectionKind = CollectionKind::List;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

impl Side {
    fn parse(text: &[u8]) -> Result<Self, Failure> {
        if is(text, "LEFT") {
            Ok(Self::Front)
        } else if is(text, "RIGHT") {
            Ok(Self::Back)
        } else {
            Err(Failure::SYNTAX)
        }
    }

    fn push(self, value: &[u8]) -> Edit<'_> {
        match self {
            Self::Front => Edit::push_front(value),
            Self::Back => Edit::push_back(value),
        }
    }

    /// Up to `count` elements of this end, those nearest to it first, and where they begin.
    fn nearest(self, view: View<'_>, count: usize) -> Result<(usize, Vec<Member>), Corrupt> {
        let from = match self {
            Self::Front => 0,
            Self::Back => view.len()?.saturating_sub(count),
        };
        let mut found = view.range(from, count)?;
        if self == Self::Back {
            found.reverse();
        }
        Ok((from, found))
    }
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_list(&mut self, command: List, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        match command {
            List::LPush => return self.list_push(Side::Front, false, args, w),
            List::RPush => return self.list_push(Side::Back, false, args, w),
            List::LPushX => return self.list_push(Side::Front, true, args, w),
            List::RPushX => return self.list_push(Side::Back, true, args, w),
            List::LPop => return self.list_pop(Side::Front, "lpop", args, w),
            List::RPop => return self.list_pop(Side::Back, "rpop", args, w),
            List::LLen => w.integer(self.look(key, LIST, |view| view.len())?.unwrap_or(0) as i64),
            List::LRange => {
                let (start, end) = (integer(arg(args, 2))?, integer(arg(args, 3))?);
                let found = self.look(key, LIST, |view| {
                    let (from, count) = places(start, end, view.len()?);
                    view.range(from, count)
                })?;
                w.keys(&found.unwrap_or_default());
            }
            List::LIndex => {
                let index = integer(arg(args, 2));
                let at = |len| index.as_ref().ok().and_then(|index| place(*index, len));
                let found = self.look(key, LIST, |view| match at(view.len()?) {
                    Some(at) => Ok(view.range(at, 1)?.pop()),
                    None => Ok(None),
                })?;
                // A key that is not there has no place that is none.
                if found.is_some() {
                    index?;
                }
                match found.flatten() {
                    Some(found) => w.bulk(&found.key),
                    None => w.null(),
                }
            }
            List::LSet => self.list_set(args, w)?,
            List::LInsert => self.list_insert(args, w)?,
            List::LRem => self.list_remove(args, w)?,
            List::LTrim => return self.list_trim(args, w),
            List::LPos => return self.list_position(args, w),
            List::LMove => {
                let (from, to) = (Side::parse(arg(args, 3))?, Side::parse(arg(args, 4))?);
                return self.list_move((key, from), (arg(args, 2), to), w);
            }
            List::RPopLPush => {
                return self.list_move((key, Side::Back), (arg(args, 2), Side::Front), w);
            }
            List::LMPop => return self.list_pop_any(args, w),
        }
        Ok(())
    }

    fn list_push(
        &mut self,
        side: Side,
        only_if_there: bool,
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        let values = args.get(2..).unwrap_or_default();
        let len = self.change(
            arg(args, 1),
            LIST,
            |view| view.len(),
            |len| match len {
                None if only_if_there => Ok((Vec::new(), 0)),
                len => {
                    let edits = values.iter().map(|value| side.push(value)).collect();
                    Ok((edits, len.unwrap_or(0) + values.len()))
                }
            },
        )?;
        w.integer(len as i64);
        Ok(())
    }

    fn list_trim(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (start, end) = (integer(arg(args, 2))?, integer(arg(args, 3))?);
        self.change(
            arg(args, 1),
            LIST,
            |view| view.len(),
            |len| {
                let len = len.unwrap_or(0);
                let (from, count) = places(start, end, len);
                let behind = Edit::RemoveRange { from: from + count, count: len - from - count };
                let before = Edit::RemoveRange { from: 0, count: from };
                let edits = [behind, before].into_iter();
                let does = |edit: &Edit<'_>| !matches!(edit, Edit::RemoveRange { count: 0, .. });
                Ok((edits.filter(does).collect(), ()))
            },
        )?;
        w.ok();
        Ok(())
    }

    /// Takes up to `count` elements off an end.
    fn take(&self, key: &[u8], side: Side, count: usize) -> Result<Option<Vec<Member>>, Failure> {
        self.change(
            key,
            LIST,
            |view| side.nearest(view, count),
            |found| {
                let Some((from, found)) = found else { return Ok((Vec::new(), None)) };
                let edits = match found.len() {
                    0 => Vec::new(),
                    count => vec![Edit::RemoveRange { from, count }],
                };
                Ok((edits, Some(found)))
            },
        )
    }

    fn list_pop(&mut self, side: Side, name: &str, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        if args.len() > 3 {
            return Err(Failure::wrong_number(name));
        }
        let count = args.get(2).map(|count| count_of(count)).transpose()?;
        match (self.take(arg(args, 1), side, count.unwrap_or(1))?, count) {
            (None, Some(_)) => w.null_array(),
            (Some(found), Some(_)) => w.keys(&found),
            (found, None) => match found.unwrap_or_default().pop() {
                Some(found) => w.bulk(&found.key),
                None => w.null(),
            },
        }
        Ok(())
    }

    fn list_pop_any(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        const BAD_COUNT: Failure = Failure::new("ERR count should be greater than 0");
        let (keys, rest) = counted_keys(args, 1, Failure::SYNTAX)?;
        let (side, count) = match rest {
            [side] => (Side::parse(side)?, 1),
            [side, option, count] if is(option, "COUNT") => {
                let side = Side::parse(side)?;
                let count = protocol::resp::number(count).and_then(|count| usize::try_from(count).ok());
                (side, count.filter(|count| *count > 0).ok_or(BAD_COUNT)?)
            }
            _ => return Err(Failure::SYNTAX),
        };
        for key in keys {
            if let Some(found) = self.take(key, side, count)? {
                w.array(2);
                w.bulk(key);
                w.keys(&found);
                return Ok(());
            }
        }
        w.null_array();
        Ok(())
    }

    fn list_set(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let value = arg(args, 3);
        self.change(
            arg(args, 1),
            LIST,
            |view| view.len(),
            |len| {
                let len = len.ok_or(Failure::NO_SUCH_KEY)?;
                let index =
                    place(integer(arg(args, 2))?, len).ok_or(Failure::new("ERR index out of range"))?;
                Ok((vec![Edit::Set { index, value: value.into() }], ()))
            },
        )?;
        w.ok();
        Ok(())
    }

    fn list_insert(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let behind = match arg(args, 2) {
            place if is(place, "BEFORE") => 0,
            place if is(place, "AFTER") => 1,
            _ => return Err(Failure::SYNTAX),
        };
        let (pivot, value) = (arg(args, 3), arg(args, 4));
        let len = self.change(
            arg(args, 1),
            LIST,
            |view| view.all(),
            |all| {
                let Some(all) = all else { return Ok((Vec::new(), 0)) };
                let Some(at) = all.iter().position(|element| element.key == pivot) else {
                    return Ok((Vec::new(), -1));
                };
                Ok((vec![Edit::Insert { index: at + behind, value: value.into() }], all.len() as i64 + 1))
            },
        )?;
        w.integer(len);
        Ok(())
    }

    fn list_remove(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (count, value) = (integer(arg(args, 2))?, arg(args, 3));
        let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
        let removed = self.change(
            arg(args, 1),
            LIST,
            |view| view.all(),
            |all| {
                let all = all.unwrap_or_default();
                let same = all.iter().enumerate().filter(|(_, element)| element.key == value);
                let mut at: Vec<usize> = same.map(|(at, _)| at).collect();
                if count < 0 {
                    at.drain(..at.len().saturating_sub(most));
                } else {
                    at.truncate(most);
                }
                let removed = at.len();
                Ok((if at.is_empty() { Vec::new() } else { vec![Edit::RemoveAt(at)] }, removed))
            },
        )?;
        w.integer(removed as i64);
        Ok(())
    }

    fn list_position(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let value = arg(args, 2);
        let (mut rank, mut count, mut most) = (1_i64, None, 0);
        let mut rest = args.get(3..).unwrap_or_default();
        while let [option, number, behind @ ..] = rest {
            rest = behind;
            let not_below_zero = |text| {
                let number = protocol::resp::number(number).and_then(|number| usize::try_from(number).ok());
                number.ok_or(Failure::new(text))
            };
            if is(option, "RANK") {
                // The one without a negative is its own in Redis, and passes nothing over.
                rank = Some(integer(number)?).filter(|rank| *rank != i64::MIN).unwrap_or(-1);
                if rank == 0 {
                    return Err(Failure::new(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                         negative to start from the end of the list",
                    ));
                }
            } else if is(option, "COUNT") {
                count = Some(not_below_zero("ERR COUNT can't be negative")?);
            } else if is(option, "MAXLEN") {
                most = not_below_zero("ERR MAXLEN can't be negative")?;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if !rest.is_empty() {
            return Err(Failure::SYNTAX);
        }
        let all = self.look(arg(args, 1), LIST, |view| view.all())?.unwrap_or_default();
        let most = if most == 0 { usize::MAX } else { most };
        let is_same = |at: &usize| all.get(*at).is_some_and(|element| element.key == value);
        let skipped = rank.unsigned_abs() as usize - 1;
        let wanted = match count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        let found: Vec<usize> = if rank > 0 {
            (0..all.len()).take(most).filter(is_same).skip(skipped).take(wanted).collect()
        } else {
            (0..all.len()).rev().take(most).filter(is_same).skip(skipped).take(wanted).collect()
        };
        match (count, found.first()) {
            (Some(_), _) => {
                w.array(found.len());
                found.iter().for_each(|at| w.integer(*at as i64));
            }
            (None, Some(at)) => w.integer(*at as i64),
            (None, None) => w.null(),
        }
        Ok(())
    }

    /// Takes an element off the end of one list and puts it to one of another. The key space is
    /// closed.
    fn list_move(
        &mut self,
        (from, from_side): (&[u8], Side),
        (to, to_side): (&[u8], Side),
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        let found = self.look(from, LIST, |view| from_side.nearest(view, 1))?;
        let Some((at, mut found)) = found else {
            w.null();
            return Ok(());
        };
        let Some(element) = found.pop() else { return Err(Failure::NO_SUCH_KEY) };
        let removal = Edit::RemoveRange { from: at, count: 1 };
        let push = to_side.push(&element.key);
        if from == to {
            self.change(from, LIST, |_| Ok(()), |_| Ok((vec![removal.clone(), push.clone()], ())))?;
        } else {
            self.change(to, LIST, |_| Ok(()), |_| Ok((vec![push.clone()], ())))?;
            self.change(from, LIST, |_| Ok(()), |_| Ok((vec![removal.clone()], ())))?;
        }
        w.bulk(&element.key);
        Ok(())
    }
}

/// The place that an index names, which counts from the end below zero.
fn place(index: i64, len: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < len)
}
