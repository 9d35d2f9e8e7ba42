//! `SORT` and `SORT_RO`: the elements of a list, a set or a sorted set in an order, or what other
//! keys have for them.
//!
//! Patterns of `BY` and `GET` name keys that the arguments do not: they are looked up in the
//! client's own key space, and only for users that may read all of it.

use std::cmp::Ordering;

use millpond::structured::{Collection, CollectionKind, Edit, Member};

use super::arguments::{arg, integer, is};
use super::commands::Commands;
use super::numbers::loose_float;
use super::sets::Budget;
use super::writer::{Failure, Outcome, Writer};

/// The value that a pattern names for an element.
enum Pattern<'x> {
    /// The element.
    Itself,
    /// Nothing: a pattern without a star.
    Nothing,
    /// The value of a key, which has the element between two parts, or a field of the hash there.
    Key { before: &'x [u8], behind: &'x [u8], field: Option<&'x [u8]> },
}

impl<'x> Pattern<'x> {
    fn parse(text: &'x [u8]) -> Self {
        if text == b"#" {
            return Self::Itself;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Self::Nothing };
        let (before, rest) = text.split_at(star);
        let rest = rest.get(1..).unwrap_or_default();
        let arrow = rest.windows(2).position(|bytes| bytes == b"->");
        let split = arrow.and_then(|at| Some((rest.get(..at)?, rest.get(at + 2..)?)));
        match split.filter(|(_, field)| !field.is_empty()) {
            Some((behind, field)) => Self::Key { before, behind, field: Some(field) },
            None => Self::Key { before, behind: rest, field: None },
        }
    }
}

impl<'x> Pattern<'x> {
    /// The parts of the key around an element.
    fn around(&self) -> Option<(&'x [u8], &'x [u8])> {
        match self {
            Self::Key { before, behind, .. } => Some((before, behind)),
            Self::Itself | Self::Nothing => None,
        }
    }
}

/// The options of the command.
struct Options<'x> {
    by: Option<Pattern<'x>>,
    gets: Vec<Pattern<'x>>,
    limit: (i64, i64),
    is_reverse: bool,
    is_text: bool,
    destination: Option<&'x [u8]>,
}

impl<'x> Options<'x> {
    /// `may_read_all`: the client may read every key.
    fn parse(args: &[&'x [u8]], may_store: bool, may_read_all: bool) -> Result<Self, Failure> {
        let mut this = Self {
            by: None,
            gets: Vec::new(),
            limit: (0, -1),
            is_reverse: false,
            is_text: false,
            destination: None,
        };
        let refused = |option| {
            Failure::from_text(format!(
                "ERR {option} option of SORT denied due to insufficient ACL permissions"
            ))
        };
        let mut rest = args;
        while let [option, behind @ ..] = rest {
            rest = match behind {
                _ if is(option, "ASC") || is(option, "DESC") => {
                    this.is_reverse = is(option, "DESC");
                    behind
                }
                _ if is(option, "ALPHA") => {
                    this.is_text = true;
                    behind
                }
                [first, count, behind @ ..] if is(option, "LIMIT") => {
                    this.limit = (integer(first)?, integer(count)?);
                    behind
                }
                [key, behind @ ..] if may_store && is(option, "STORE") => {
                    this.destination = Some(*key);
                    behind
                }
                [pattern, behind @ ..] if is(option, "BY") => {
                    // Redis looks for a star alone here.
                    let has_star = pattern.contains(&b'*');
                    if has_star && !may_read_all {
                        return Err(refused("BY"));
                    }
                    this.by = Some(if has_star { Pattern::parse(pattern) } else { Pattern::Nothing });
                    behind
                }
                [pattern, behind @ ..] if is(option, "GET") => {
                    if !may_read_all {
                        return Err(refused("GET"));
                    }
                    this.gets.push(Pattern::parse(pattern));
                    behind
                }
                _ => return Err(Failure::SYNTAX),
            };
        }
        Ok(this)
    }

    /// The part of so many elements that `LIMIT` names: the first, and how many.
    fn part(&self, len: usize) -> (usize, usize) {
        let first = usize::try_from(self.limit.0.max(0)).unwrap_or(usize::MAX).min(len);
        let most = usize::try_from(self.limit.1).unwrap_or(usize::MAX);
        (first, most.min(len - first))
    }
}

/// The rank by which an element is sorted.
enum Rank {
    Number(f64),
    /// Nothing comes first.
    Text(Option<Vec<u8>>),
}

impl Rank {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

impl<'c> Commands<'_, 'c> {
    /// The key space is closed.
    pub(super) fn sort(&mut self, may_store: bool, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let may_read_all = self.identity.user.rules.has_all_keys();
        let options = Options::parse(args.get(2..).unwrap_or_default(), may_store, may_read_all)?;
        let mut budget = Budget::new();
        let all = self.in_order(arg(args, 1), &options, &mut budget)?;
        let (first, count) = options.part(all.len());
        let part = all.get(first..first + count).unwrap_or_default();
        let mut found: Vec<Option<Vec<u8>>> = Vec::new();
        for member in part {
            if options.gets.is_empty() {
                found.push(Some(member.key.to_vec()));
            }
            for pattern in &options.gets {
                found.push(self.named(pattern, &member.key, &mut budget)?);
            }
        }
        if let Some(destination) = options.destination {
            let edits = found.iter().map(|value| Edit::push_back(value.as_deref().unwrap_or_default()));
            self.store(destination, CollectionKind::List, edits.collect())?;
            w.integer(found.len() as i64);
            return Ok(());
        }
        w.array(found.len());
        for value in found {
            match value {
                Some(value) => w.bulk(&value),
                None => w.null(),
            }
        }
        Ok(())
    }

    /// The keys that the patterns of a `SORT` name for the elements that its collection has now, as
    /// far as that is in memory. Counts no access.
    pub(super) fn keys_of_patterns(&self, args: &[&[u8]]) -> Vec<Vec<u8>> {
        let may_read_all = self.identity.user.rules.has_all_keys();
        let Ok(options) = Options::parse(args.get(2..).unwrap_or_default(), true, may_read_all) else {
            return Vec::new();
        };
        let mut patterns: Vec<(&[u8], &[u8])> =
            options.by.iter().chain(&options.gets).filter_map(Pattern::around).collect();
        patterns.sort_unstable();
        patterns.dedup();
        let elements = if patterns.is_empty() { None } else { self.elements_now(arg(args, 1), &options) };
        // What is more, the command refuses.
        let around: usize = patterns.iter().map(|(before, behind)| before.len() + behind.len()).sum();
        let is_affordable = |elements: &Vec<Member>| {
            let own: usize = elements.iter().map(|element| element.key.len()).sum();
            let bytes = own.saturating_mul(patterns.len()).saturating_add(around * elements.len());
            Budget::new().spend(elements.len().saturating_mul(patterns.len()), bytes).is_ok()
        };
        let elements = elements.filter(is_affordable).unwrap_or_default();
        let key =
            |(before, behind): &(&[u8], &[u8]), element: &Member| [before, &*element.key, behind].concat();
        elements.iter().flat_map(|element| patterns.iter().map(move |around| key(around, element))).collect()
    }

    /// The elements of a key about which the command asks: all of them, or without an order to
    /// compute, those that `LIMIT` names.
    fn elements_now(&self, key: &[u8], options: &Options<'_>) -> Option<Vec<Member>> {
        let item = self.peek(key)?;
        let collection = Collection::of(&self.shared.cache, &item)?;
        let (_, mut all) = collection.read(|view| view.all()).ok()??;
        if matches!(options.by, Some(Pattern::Nothing)) && collection.kind() != CollectionKind::Set {
            if options.is_reverse {
                all.reverse();
            }
            let (first, count) = options.part(all.len());
            all = all.into_iter().skip(first).take(count).collect();
        }
        Some(all)
    }

    /// The elements of a key in the order that is wanted.
    fn in_order(
        &self,
        key: &[u8],
        options: &Options<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<Member>, Failure> {
        let kind = match self.kind_of(key)? {
            None => return Ok(Vec::new()),
            Some(CollectionKind::Hash) => return Err(Failure::WRONG_TYPE),
            Some(kind) => kind,
        };
        let mut all = self.look(key, kind, |view| view.all())?.unwrap_or_default();
        budget.spend(all.len(), 0)?;
        let (mut by, mut is_text) = (options.by.as_ref(), options.is_text);
        // A set has no order of its own that could be kept.
        if kind == CollectionKind::Set
            && options.destination.is_some()
            && matches!(by, Some(Pattern::Nothing))
        {
            (by, is_text) = (None, true);
        }
        if matches!(by, Some(Pattern::Nothing)) {
            if options.is_reverse && kind != CollectionKind::Set {
                all.reverse();
            }
            return Ok(all);
        }
        let mut ranked = Vec::with_capacity(all.len());
        let mut is_wrong = false;
        for member in all {
            let value = match by {
                Some(pattern) => self.named(pattern, &member.key, budget)?,
                None => Some(member.key.to_vec()),
            };
            let rank = if is_text {
                Rank::Text(value)
            } else {
                let score = value.map_or(Some(0.0), |value| loose_float(&value));
                is_wrong |= score.is_none();
                Rank::Number(score.unwrap_or_default())
            };
            ranked.push((rank, member));
        }
        if is_wrong {
            return Err(Failure::new("ERR One or more scores can't be converted into double"));
        }
        ranked.sort_by(|(a, first), (b, second)| {
            let order = a.compare(b).then_with(|| first.key.cmp(&second.key));
            if options.is_reverse { order.reverse() } else { order }
        });
        Ok(ranked.into_iter().map(|(_, member)| member).collect())
    }

    /// Returns the value that a pattern names for an element.
    fn named(
        &self,
        pattern: &Pattern<'_>,
        element: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let found = match pattern {
            Pattern::Nothing => None,
            Pattern::Itself => Some(element.to_vec()),
            Pattern::Key { before, behind, field: None } => {
                let item = self.read(&[before, element, behind].concat());
                item.filter(|item| !item.is_structured()).map(|item| item.to_vec())
            }
            Pattern::Key { before, behind, field: Some(field) } => {
                let key = [before, element, behind].concat();
                match self.look(&key, CollectionKind::Hash, |view| view.get(field)) {
                    Ok(found) => found.flatten().map(|member| member.value.to_vec()),
                    Err(failure) if failure == Failure::WRONG_TYPE => None,
                    Err(failure) => return Err(failure),
                }
            }
        };
        budget.spend(1, found.as_ref().map_or(0, Vec::len))?;
        Ok(found)
    }
}
