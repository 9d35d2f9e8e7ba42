//! Commands on sorted sets.

mod bounds;
mod range;
mod together;

use std::collections::{HashMap, HashSet};

use millpond::structured::{CollectionKind, Edit, Member};
use protocol::resp::Version;
use protocol::resp::commands::SortedSet;

use super::arguments::{arg, is};
use super::collections::{count_of, counted_keys, draws};
use super::commands::Commands;
use super::hashes::drawn;
use super::numbers::float;
use super::sets::Together;
use super::writer::{Failure, Outcome, Writer};

use self::range::By;
use self::together::Then;

const SORTED: CollectionKind = CollectionKind::Sorted;
const NO_SCORE: Failure = Failure::new("ERR resulting score is not a number (NaN)");

/// The options of adding members with scores.
#[derive(Clone, Copy, Debug, Default)]
struct AddOptions {
    absent_only: bool,
    present_only: bool,
    greater_only: bool,
    less_only: bool,
    counts_changes: bool,
    adds: bool,
}

/// The outcome of adding scores.
#[derive(Default)]
struct Added {
    added: usize,
    changed: usize,
    /// The last one's score; `None`: it was left as it was.
    score: Option<f64>,
}

impl AddOptions {
    /// The options at the front of the arguments, and what follows them.
    fn parse<'s, 'x>(args: &'s [&'x [u8]]) -> (Self, &'s [&'x [u8]]) {
        let mut this = Self::default();
        let mut rest = args;
        while let [option, behind @ ..] = rest {
            let flag = match option.to_ascii_uppercase().as_slice() {
                b"NX" => &mut this.absent_only,
                b"XX" => &mut this.present_only,
                b"GT" => &mut this.greater_only,
                b"LT" => &mut this.less_only,
                b"CH" => &mut this.counts_changes,
                b"INCR" => &mut this.adds,
                _ => break,
            };
            *flag = true;
            rest = behind;
        }
        (this, rest)
    }

    fn check(self, pairs: usize) -> Outcome {
        if self.absent_only && self.present_only {
            return Err(Failure::new("ERR XX and NX options at the same time are not compatible"));
        }
        if (self.greater_only && self.less_only)
            || (self.absent_only && (self.greater_only || self.less_only))
        {
            return Err(Failure::new("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.adds && pairs > 1 {
            return Err(Failure::new("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// The score that a member gets; `None`: it stays as it is.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Failure> {
        let Some(old) = old else { return Ok((!self.present_only).then_some(given)) };
        if self.absent_only {
            return Ok(None);
        }
        let new = if self.adds { old + given } else { given };
        if new.is_nan() {
            return Err(NO_SCORE);
        }
        let is_left = (self.less_only && new >= old) || (self.greater_only && new <= old);
        Ok((!is_left).then_some(new))
    }
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_sorted(
        &mut self,
        command: SortedSet,
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        use SortedSet as C;
        let (key, member) = (arg(args, 1), arg(args, 2));
        match command {
            C::ZAdd => return self.sorted_add(args, w),
            C::ZIncrBy => {
                let options = AddOptions { adds: true, ..AddOptions::default() };
                let by = float(member).ok_or(Failure::NOT_A_FLOAT)?;
                let added = self.give_scores(key, options, &[(by, arg(args, 3))])?;
                w.double(added.score.unwrap_or_default());
            }
            C::ZRem => return self.sorted_remove(args, w),
            C::ZScore => match self.look(key, SORTED, |view| view.score(member))?.flatten() {
                Some(score) => w.double(score),
                None => w.null(),
            },
            C::ZMScore => self.sorted_scores(key, args.get(2..).unwrap_or_default(), w)?,
            C::ZCard => w.integer(self.look(key, SORTED, |view| view.len())?.unwrap_or(0) as i64),
            C::ZRank | C::ZRevRank => {
                let found = self.look(key, SORTED, |view| Ok((view.rank(member)?, view.len()?)))?;
                match found {
                    Some((Some(rank), len)) => {
                        w.integer(if command == C::ZRank { rank } else { len - 1 - rank } as i64);
                    }
                    _ => w.null(),
                }
            }
            C::ZPopMin | C::ZPopMax => return self.sorted_pop(command == C::ZPopMax, args, w),
            C::ZMPop => return self.sorted_pop_any(args, w),
            C::ZRandMember => return self.sorted_draw(args, w),
            C::ZUnion => return self.sorted_together(Together::Union, Then::Tell, args, w),
            C::ZInter => return self.sorted_together(Together::Inter, Then::Tell, args, w),
            C::ZDiff => return self.sorted_together(Together::Diff, Then::Tell, args, w),
            C::ZUnionStore => return self.sorted_together(Together::Union, Then::Store, args, w),
            C::ZInterStore => return self.sorted_together(Together::Inter, Then::Store, args, w),
            C::ZDiffStore => return self.sorted_together(Together::Diff, Then::Store, args, w),
            C::ZInterCard => return self.sorted_together(Together::Inter, Then::Count, args, w),
            C::ZScan => {
                return self.scan_collection(SORTED, args, w, |w, member| {
                    w.bulk(&member.key);
                    w.bulk(super::writer::whole_score_text(member.score).as_bytes());
                    2
                });
            }
            C::ZCount => return self.sorted_count(By::Score, args, w),
            C::ZLexCount => return self.sorted_count(By::Name, args, w),
            C::ZRemRangeByRank => return self.sorted_remove_range(By::Place, args, w),
            C::ZRemRangeByScore => return self.sorted_remove_range(By::Score, args, w),
            C::ZRemRangeByLex => return self.sorted_remove_range(By::Name, args, w),
            C::ZRangeStore => return self.sorted_store_range(args, w),
            C::ZRange => return self.sorted_range((None, None), args, w),
            C::ZRangeByScore => return self.sorted_range((Some(By::Score), Some(false)), args, w),
            C::ZRangeByLex => return self.sorted_range((Some(By::Name), Some(false)), args, w),
            C::ZRevRange => return self.sorted_range((Some(By::Place), Some(true)), args, w),
            C::ZRevRangeByScore => return self.sorted_range((Some(By::Score), Some(true)), args, w),
            C::ZRevRangeByLex => return self.sorted_range((Some(By::Name), Some(true)), args, w),
        }
        Ok(())
    }

    fn sorted_scores(&self, key: &[u8], members: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let found = self.look(key, SORTED, |view| {
            members.iter().map(|member| view.score(member)).collect::<Result<Vec<_>, _>>()
        })?;
        w.array(members.len());
        for score in found.unwrap_or_else(|| vec![None; members.len()]) {
            match score {
                Some(score) => w.double(score),
                None => w.null(),
            }
        }
        Ok(())
    }

    fn sorted_add(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (options, rest) = AddOptions::parse(args.get(2..).unwrap_or_default());
        let (pairs, []) = rest.as_chunks::<2>() else { return Err(Failure::SYNTAX) };
        if pairs.is_empty() {
            return Err(Failure::SYNTAX);
        }
        options.check(pairs.len())?;
        let scores: Option<Vec<(f64, &[u8])>> =
            pairs.iter().map(|[score, member]| Some((float(score)?, *member))).collect();
        let scores = scores.ok_or(Failure::NOT_A_FLOAT)?;
        let added = self.give_scores(arg(args, 1), options, &scores)?;
        match added.score {
            Some(score) if options.adds => w.double(score),
            None if options.adds => w.null(),
            _ => {
                let changed = if options.counts_changes { added.changed } else { 0 };
                w.integer((added.added + changed) as i64);
            }
        }
        Ok(())
    }

    fn give_scores(
        &self,
        key: &[u8],
        options: AddOptions,
        scores: &[(f64, &[u8])],
    ) -> Result<Added, Failure> {
        self.change(
            key,
            SORTED,
            |view| scores.iter().map(|(_, member)| view.score(member)).collect::<Result<Vec<_>, _>>(),
            |found| {
                let found = found.unwrap_or_else(|| vec![None; scores.len()]);
                let (mut added, mut edits) = (Added::default(), Vec::new());
                // What this very command has given before.
                let mut given: HashMap<&[u8], f64> = HashMap::new();
                for ((score, member), found) in scores.iter().zip(found) {
                    let old = given.get(member).copied().or(found);
                    added.score = options.score(old, *score)?;
                    let Some(new) = added.score else { continue };
                    match old {
                        None => added.added += 1,
                        Some(old) if old != new => added.changed += 1,
                        Some(_) => continue,
                    }
                    given.insert(member, new);
                    edits.push(Edit::score(*member, new));
                }
                Ok((edits, added))
            },
        )
    }

    fn sorted_remove(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let members: HashSet<&[u8]> = args.iter().skip(2).copied().collect();
        let removed = self.change(
            arg(args, 1),
            SORTED,
            |view| {
                members.iter().map(|name| Ok((*name, view.contains(name)?))).collect::<Result<Vec<_>, _>>()
            },
            |found| {
                let found = found.unwrap_or_default().into_iter().filter(|(_, is_there)| *is_there);
                let edits: Vec<Edit<'_>> = found.map(|(member, _)| Edit::remove(member)).collect();
                let count = edits.len();
                Ok((edits, count))
            },
        )?;
        w.integer(removed as i64);
        Ok(())
    }

    /// Takes up to `count` members off an end. `None`: there are none.
    fn take_members(&self, key: &[u8], is_max: bool, count: usize) -> Result<Option<Vec<Member>>, Failure> {
        self.change(
            key,
            SORTED,
            |view| {
                let from = if is_max { view.len()?.saturating_sub(count) } else { 0 };
                Ok((from, view.range(from, count)?))
            },
            |found| {
                let Some((from, mut found)) = found else { return Ok((Vec::new(), None)) };
                let edits = match found.len() {
                    0 => Vec::new(),
                    count => vec![Edit::RemoveRange { from, count }],
                };
                if is_max {
                    found.reverse();
                }
                Ok((edits, Some(found)))
            },
        )
    }

    fn sorted_pop(&mut self, is_max: bool, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        if args.len() > 3 {
            return Err(Failure::SYNTAX);
        }
        let count = args.get(2).map(|count| count_of(count)).transpose()?;
        let found = self.take_members(arg(args, 1), is_max, count.unwrap_or(1))?.unwrap_or_default();
        if count.is_some() {
            w.scored(&found, true);
            return Ok(());
        }
        w.array(found.len() * 2);
        for member in &found {
            w.bulk(&member.key);
            w.double(member.score);
        }
        Ok(())
    }

    fn sorted_pop_any(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        const BAD_COUNT: Failure = Failure::new("ERR count should be greater than 0");
        let (keys, rest) = counted_keys(args, 1, Failure::SYNTAX)?;
        let is_max = |end: &[u8]| {
            if is(end, "MIN") {
                Ok(false)
            } else if is(end, "MAX") {
                Ok(true)
            } else {
                Err(Failure::SYNTAX)
            }
        };
        let (is_max, count) = match rest {
            [end] => (is_max(end)?, 1),
            [end, option, count] if is(option, "COUNT") => {
                let is_max = is_max(end)?;
                let count = protocol::resp::number(count).and_then(|count| usize::try_from(count).ok());
                (is_max, count.filter(|count| *count > 0).ok_or(BAD_COUNT)?)
            }
            _ => return Err(Failure::SYNTAX),
        };
        for key in keys {
            if let Some(found) = self.take_members(key, is_max, count)? {
                w.array(2);
                w.bulk(key);
                w.array(found.len());
                for member in &found {
                    w.array(2);
                    w.bulk(&member.key);
                    w.double(member.score);
                }
                return Ok(());
            }
        }
        w.null_array();
        Ok(())
    }

    fn sorted_draw(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        let Some(count) = args.get(2) else {
            let draw = draws();
            match self.look(key, SORTED, |view| view.any(&draw))?.flatten() {
                Some(found) => w.bulk(&found.key),
                None => w.null(),
            }
            return Ok(());
        };
        let (count, with_scores) = drawn(count, args.get(3..).unwrap_or_default(), "WITHSCORES")?;
        let found = self.draw(key, SORTED, count)?.unwrap_or_default();
        w.scored(&found, with_scores);
        Ok(())
    }
}

impl<'c> Writer<'_, 'c> {
    /// Members, with their scores or without.
    pub(super) fn scored(&mut self, members: &[Member], with_scores: bool) {
        if !with_scores {
            return self.keys(members);
        }
        let nests = self.version == Version::Resp3;
        self.array(if nests { members.len() } else { members.len() * 2 });
        for member in members {
            if nests {
                self.array(2);
            }
            self.bulk(&member.key);
            self.double(member.score);
        }
    }
}
