//! Combinations of several sorted sets: `ZUNION`, `ZINTER`, `ZDIFF` and their relatives. Sets count
//! as sorted sets with scores of 1.

use std::collections::HashMap;

use millpond::structured::{CollectionKind, Edit, Member};

use protocol::resp::commands::Spec;

use super::super::arguments::{arg, integer, is};
use super::super::commands::Commands;
use super::super::numbers::float;
use super::super::sets::{Budget, Together, limit};
use super::super::writer::{Failure, Outcome, Writer};
use super::SORTED;

/// The function that combines the scores of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => number(a + b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// Returns the score, or 0 for NaN: infinity minus infinity, and zero times infinity.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A key, with what it has.
type Source<'x> = (&'x [u8], Option<CollectionKind>);

struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl Options {
    fn parse(
        args: &[&[u8]],
        keys: usize,
        (how, keeps, counts): (Together, bool, bool),
    ) -> Result<Self, Failure> {
        let mut this =
            Self { weights: vec![1.0; keys], aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        if counts {
            this.limit = limit(args)?;
            return Ok(this);
        }
        let mut rest = args;
        while let [option, behind @ ..] = rest {
            rest = match behind {
                _ if how != Together::Diff && is(option, "WEIGHTS") && behind.len() >= keys => {
                    let (weights, behind) = behind.split_at(keys);
                    let weights: Option<Vec<f64>> = weights.iter().map(|weight| float(weight)).collect();
                    this.weights = weights.ok_or(Failure::new("ERR weight value is not a float"))?;
                    behind
                }
                [how_to, behind @ ..] if how != Together::Diff && is(option, "AGGREGATE") => {
                    this.aggregate = match how_to.to_ascii_uppercase().as_slice() {
                        b"SUM" => Aggregate::Sum,
                        b"MIN" => Aggregate::Min,
                        b"MAX" => Aggregate::Max,
                        _ => return Err(Failure::SYNTAX),
                    };
                    behind
                }
                _ if !keeps && is(option, "WITHSCORES") => {
                    this.with_scores = true;
                    behind
                }
                _ => return Err(Failure::SYNTAX),
            };
        }
        Ok(this)
    }
}

/// The use of the members found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Tell,
    Store,
    Count,
}

impl<'c> Commands<'_, 'c> {
    /// The key space is closed.
    pub(super) fn sorted_together(
        &mut self,
        how: Together,
        then: Then,
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        let (keeps, counts) = (then == Then::Store, then == Then::Count);
        let at = if keeps { 2 } else { 1 };
        let count = integer(arg(args, at))?;
        if count < 1 {
            let name = Spec::find(arg(args, 0)).map_or("", |spec| spec.name);
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(Failure::from_text(text));
        }
        let rest = args.get(at + 1..).unwrap_or_default();
        let (keys, options) = usize::try_from(count)
            .ok()
            .and_then(|count| rest.split_at_checked(count))
            .ok_or(Failure::SYNTAX)?;
        let kinds = self.kinds_of(keys)?;
        let options = Options::parse(options, keys.len(), (how, keeps, counts))?;
        let mut found = self.put_together(how, &kinds, &options)?;
        if counts {
            let count = if options.limit == 0 { found.len() } else { found.len().min(options.limit) };
            w.integer(count as i64);
            return Ok(());
        }
        if keeps {
            let edits = found.iter().map(|member| Edit::score(&member.key, member.score)).collect();
            self.store(arg(args, 1), SORTED, edits)?;
            w.integer(found.len() as i64);
            return Ok(());
        }
        found.sort_unstable_by(|a, b| a.score.total_cmp(&b.score).then_with(|| a.key.cmp(&b.key)));
        w.scored(&found, options.with_scores);
        Ok(())
    }

    /// The keys, each with its kind: sets, sorted sets, or none.
    fn kinds_of<'x>(&self, keys: &[&'x [u8]]) -> Result<Vec<Source<'x>>, Failure> {
        let kind = |key: &&'x [u8]| match self.kind_of(key)? {
            Some(CollectionKind::Hash | CollectionKind::List) => Err(Failure::WRONG_TYPE),
            kind => Ok((*key, kind)),
        };
        keys.iter().map(kind).collect()
    }

    fn members(&self, (key, kind): Source<'_>, budget: &mut Budget) -> Result<Vec<Member>, Failure> {
        let Some(kind) = kind else { return Ok(Vec::new()) };
        let mut all = self.look(key, kind, |view| view.all())?.unwrap_or_default();
        if kind == CollectionKind::Set {
            all.iter_mut().for_each(|member| member.score = 1.0);
        }
        budget.gather(&all)?;
        Ok(all)
    }

    /// The scores that members have in a set or a sorted set.
    fn scores(
        &self,
        (key, kind): Source<'_>,
        members: &[Member],
        budget: &mut Budget,
    ) -> Result<Vec<Option<f64>>, Failure> {
        budget.spend(members.len(), 0)?;
        let Some(kind) = kind else { return Ok(vec![None; members.len()]) };
        let scores = self.look(key, kind, |view| {
            let score = |member: &Member| match kind {
                CollectionKind::Set => Ok(view.contains(&member.key)?.then_some(1.0)),
                _ => view.score(&member.key),
            };
            members.iter().map(score).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(scores.unwrap_or_else(|| vec![None; members.len()]))
    }

    fn put_together(
        &self,
        how: Together,
        sets: &[Source<'_>],
        options: &Options,
    ) -> Result<Vec<Member>, Failure> {
        let mut budget = Budget::new();
        let weighed = |score: f64, at: usize| number(score * options.weights.get(at).copied().unwrap_or(1.0));
        let Some((first, others)) = sets.split_first() else { return Ok(Vec::new()) };
        let mut found = self.members(*first, &mut budget)?;
        if how != Together::Diff {
            found.iter_mut().for_each(|member| member.score = weighed(member.score, 0));
        }
        if how == Together::Union {
            let mut scores: HashMap<Vec<u8>, f64> =
                found.into_iter().map(|member| (member.key, member.score)).collect();
            for (at, set) in others.iter().enumerate() {
                for member in self.members(*set, &mut budget)? {
                    let score = weighed(member.score, at + 1);
                    scores
                        .entry(member.key)
                        .and_modify(|sum| *sum = options.aggregate.of(*sum, score))
                        .or_insert(score);
                }
            }
            return Ok(scores
                .into_iter()
                .map(|(key, score)| Member { key, score, ..Member::default() })
                .collect());
        }
        for (at, set) in others.iter().enumerate() {
            if found.is_empty() {
                break;
            }
            let mut scores = self.scores(*set, &found, &mut budget)?.into_iter();
            found.retain_mut(|member| match scores.next().flatten() {
                Some(score) if how == Together::Inter => {
                    member.score = options.aggregate.of(member.score, weighed(score, at + 1));
                    true
                }
                score => score.is_none() && how == Together::Diff,
            });
        }
        Ok(found)
    }
}
