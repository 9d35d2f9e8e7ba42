//! Operations that commands on hashes, lists, sets and sorted sets share.
//!
//! A change reads the collection, makes a plan with no lock held, and attempts to carry it out. If
//! another thread has changed the collection meanwhile, the attempt fails and all of this is
//! repeated ([`millpond::structured`]).

use std::cell::RefCell;

use base::rng::{RngExt, SeededRng, entropy_seed, seeded};
use millpond::structured::{Collection, CollectionKind, Corrupt, Edit, Member, View};
use millpond::{Error, ErrorKind, ReadHandle};
use protocol::resp::number;

use super::arguments::{arg, integer, is};
use super::commands::Commands;
use super::listing::cursor;
use super::writer::{Failure, Outcome, Writer};
use protocol::resp::glob::matches;
use tenancy::metrics::Counter;

/// Bytes that a reply with members may have which are not all of one collection.
pub(super) const MAX_REPLY_BYTES: usize = 16 << 20;
/// Members of a hash that Redis keeps in one piece, of a set of whole numbers, and of a sorted set.
const MAX_HASH_FIELDS: usize = 512;
const MAX_INTEGERS: usize = 512;
const MAX_SORTED_MEMBERS: usize = 128;
/// Longest field, value and member of what Redis keeps in one piece.
const MAX_COMPACT_BYTES: usize = 64;
/// The mark of a collection that Redis would not keep in one piece, nor would again.
const SPREAD: u32 = 1;

/// The edits to a collection, and the material for the reply. Without edits nothing changes.
pub(super) type Plan<'x, R> = Result<(Vec<Edit<'x>>, R), Failure>;

/// Options of a scan.
struct ScanOptions<'x> {
    pattern: Option<&'x [u8]>,
    count: usize,
}

impl<'x> ScanOptions<'x> {
    fn parse(args: &[&'x [u8]]) -> Result<Self, Failure> {
        let mut this = Self { pattern: None, count: 10 };
        let mut rest = args;
        while let [option, value, behind @ ..] = rest {
            rest = behind;
            if is(option, "COUNT") {
                let count = usize::try_from(integer(value)?).ok();
                this.count = count.filter(|count| *count > 0).ok_or(Failure::SYNTAX)?;
            } else if is(option, "MATCH") {
                this.pattern = Some(*value);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if rest.is_empty() { Ok(this) } else { Err(Failure::SYNTAX) }
    }
}

impl<'c> Commands<'_, 'c> {
    /// The collection in an item; an error where it is another thing.
    fn expect<'i>(
        &self,
        item: &'i ReadHandle<'c>,
        kind: CollectionKind,
    ) -> Result<Option<Collection<'i>>, Failure>
    where
        'c: 'i,
    {
        if !item.is_structured() {
            return Err(Failure::WRONG_TYPE);
        }
        match Collection::of(&self.shared.cache, item) {
            Some(other) if other.kind() != kind => Err(Failure::WRONG_TYPE),
            found => Ok(found),
        }
    }

    /// Returns the result of `look` on a snapshot of the key's collection; `None` if there is none.
    pub(super) fn look<R>(
        &self,
        key: &[u8],
        kind: CollectionKind,
        look: impl Fn(View<'_>) -> Result<R, Corrupt>,
    ) -> Result<Option<R>, Failure> {
        loop {
            let Some(item) = self.read(key) else { return Ok(None) };
            let Some(collection) = self.expect(&item, kind)? else { continue };
            if let Some((_, seen)) = collection.read(&look).map_err(refused)? {
                return Ok(Some(seen));
            }
        }
    }

    /// Changes the collection of a key by what `plan` makes of what `look` sees; `None`: there is
    /// none, and where edits come of that, one is made.
    pub(super) fn change<'x, I, R>(
        &self,
        key: &[u8],
        kind: CollectionKind,
        look: impl Fn(View<'_>) -> Result<I, Corrupt>,
        mut plan: impl FnMut(Option<I>) -> Plan<'x, R>,
    ) -> Result<R, Failure> {
        loop {
            let Some(item) = self.peek(key) else {
                let (mut edits, result) = plan(None)?;
                if edits.is_empty() {
                    return Ok(result);
                }
                mark(kind, &mut edits, 0, 0);
                let made = Collection::make(&self.shared.cache, self.pool.id, key, kind, &edits);
                if self.place(key, None, made.map_err(|error| self.refuse(error))?).is_ok() {
                    self.counters.add(Counter::Stored, 1);
                    return Ok(result);
                }
                continue;
            };
            let Some(collection) = self.expect(&item, kind)? else { continue };
            let read = collection.read(|view| Ok((look(view)?, view.mark()?, view.len()?)));
            let Some((sequence, (seen, marked, len))) = read.map_err(refused)? else { continue };
            let (mut edits, result) = plan(Some(seen))?;
            if edits.is_empty() {
                return Ok(result);
            }
            mark(kind, &mut edits, marked, len);
            if collection.apply(sequence, &edits).map_err(|error| self.refuse(error))? {
                self.counters.add(Counter::Stored, 1);
                return Ok(result);
            }
        }
    }

    /// Puts a new collection in the place of whatever a key has; one of no edits removes it.
    pub(super) fn store(&self, key: &[u8], kind: CollectionKind, mut edits: Vec<Edit<'_>>) -> Outcome {
        if edits.is_empty() {
            self.remove(key);
            return Ok(());
        }
        mark(kind, &mut edits, 0, 0);
        let made = Collection::make(&self.shared.cache, self.pool.id, key, kind, &edits);
        self.shared.cache.put(made.map_err(|error| self.refuse(error))?);
        self.counters.add(Counter::Stored, 1);
        Ok(())
    }

    fn refuse(&self, error: Error) -> Failure {
        let counter = match error.kind() {
            ErrorKind::OutOfMemory => Counter::RefusedMemory,
            _ => Counter::RefusedSize,
        };
        self.counters.add(counter, 1);
        refused(error)
    }

    /// Returns the reply of `TYPE` for an item; `None`: it had a collection, which is not in it any
    /// more.
    pub(super) fn type_of(&self, item: &ReadHandle<'_>) -> Option<&'static str> {
        if !item.is_structured() {
            return Some("string");
        }
        Some(type_name(Collection::of(&self.shared.cache, item)?.kind()))
    }

    /// Sets the end of the collection of a key to what `decide` makes of the one that it has;
    /// `None`: it stays, and of what is over the collection is removed. Says whether it was set.
    /// `None`: the key has no collection.
    pub(super) fn end_collection(
        &self,
        key: &[u8],
        decide: impl Fn(Option<u64>) -> Option<Option<u64>>,
    ) -> Result<Option<bool>, Failure> {
        loop {
            let Some(item) = self.peek(key).filter(ReadHandle::is_structured) else { return Ok(None) };
            let Some(collection) = Collection::of(&self.shared.cache, &item) else { continue };
            let Some((sequence, deadline)) = collection.read(|view| view.deadline()).map_err(refused)? else {
                continue;
            };
            let is_done = match decide(deadline) {
                None => return Ok(Some(false)),
                Some(Some(end)) if end <= self.now_millis() => self.shared.cache.remove_matching(&item),
                Some(end) => collection.apply(sequence, &[Edit::Deadline(end)]).map_err(refused)?,
            };
            if is_done {
                return Ok(Some(true));
            }
        }
    }

    /// The kind of a key's collection; an error where it has a string.
    pub(super) fn kind_of(&self, key: &[u8]) -> Result<Option<CollectionKind>, Failure> {
        let kind = self.of_item(key, |item| {
            if !item.is_structured() {
                return Some(Err(Failure::WRONG_TYPE));
            }
            Some(Ok(Collection::of(&self.shared.cache, item)?.kind()))
        });
        kind.transpose()
    }

    /// `HSCAN`, `SSCAN` and `ZSCAN`: a part of the entries, each told by `tell` as one or two
    /// strings.
    pub(super) fn scan_collection(
        &mut self,
        kind: CollectionKind,
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
        tell: impl Fn(&mut Writer<'_, 'c>, &Member) -> usize,
    ) -> Outcome {
        let place = cursor(arg(args, 2)).ok_or(Failure::new("ERR invalid cursor"))?;
        let options = ScanOptions::parse(args.get(3..).unwrap_or_default());
        let count = options.as_ref().map_or(1, |options| options.count);
        // What Redis keeps in one piece it tells in one piece.
        let part = self.look(arg(args, 1), kind, |view| {
            if is_spread(view)? { view.scan(place, count) } else { Ok((view.all()?, 0)) }
        })?;
        let Some((mut part, next)) = part else {
            w.array(2);
            w.bulk(b"0");
            w.array(0);
            return Ok(());
        };
        // As in Redis, wrong options are ignored if the key is not there.
        let ScanOptions { pattern, .. } = options?;
        part.retain(|member| pattern.is_none_or(|pattern| matches(pattern, &member.key)));
        w.array(2);
        w.bulk(next.to_string().as_bytes());
        let strings = if kind == CollectionKind::Set { 1 } else { 2 };
        w.array(part.len() * strings);
        part.iter().for_each(|member| {
            tell(w, member);
        });
        Ok(())
    }

    /// Which of the entries of a key are drawn for a count: below zero with repetition. `None`:
    /// there are none.
    pub(super) fn draw(
        &self,
        key: &[u8],
        kind: CollectionKind,
        count: i64,
    ) -> Result<Option<Vec<Member>>, Failure> {
        let Some(mut all) = self.look(key, kind, |view| view.all())? else { return Ok(None) };
        if all.is_empty() {
            return Ok(None);
        }
        let mut rng = seeded(entropy_seed());
        let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        if count >= 0 {
            shuffle_front(&mut all, wanted, &mut rng);
            all.truncate(wanted);
            return Ok(Some(all));
        }
        let longest = all.iter().map(|member| member.key.len() + member.value.len()).max().unwrap_or(0);
        if wanted.saturating_mul(longest + 64) > MAX_REPLY_BYTES {
            return Err(Failure::REPLY_TOO_LONG);
        }
        Ok(Some((0..wanted).filter_map(|_| all.get(rng.random_range(0..all.len())).cloned()).collect()))
    }
}

/// Returns whether Redis would have used a hash table, a list of nodes or the like for the
/// collection.
fn is_spread(view: View<'_>) -> Result<bool, Corrupt> {
    Ok(view.mark()? & SPREAD != 0 || view.len()? > most_compact(view.kind()))
}

fn most_compact(kind: CollectionKind) -> usize {
    match kind {
        CollectionKind::Hash => MAX_HASH_FIELDS,
        CollectionKind::Set => MAX_INTEGERS,
        CollectionKind::Sorted => MAX_SORTED_MEMBERS,
        CollectionKind::List => usize::MAX,
    }
}

/// Notes with the changes that Redis would spread the collection, which has had `len` entries, from
/// now on.
fn mark(kind: CollectionKind, edits: &mut Vec<Edit<'_>>, marked: u32, len: usize) {
    let is_long = |bytes: &[u8]| bytes.len() > MAX_COMPACT_BYTES;
    let spreads = |edit: &Edit<'_>| match (edit, kind) {
        (Edit::Put { key, value }, CollectionKind::Hash) => is_long(key) || is_long(value),
        (Edit::Put { key, .. }, CollectionKind::Set) => number(key).is_none(),
        (Edit::Score { member, .. }, _) => is_long(member),
        _ => false,
    };
    if marked & SPREAD == 0 && (len > most_compact(kind) || edits.iter().any(spreads)) {
        edits.push(Edit::Mark(marked | SPREAD));
    }
}

/// The name of the encoding that Redis would have.
pub(super) fn encoding_of(collection: &Collection<'_>) -> Result<Option<&'static str>, Failure> {
    let seen = collection.read(is_spread).map_err(refused)?;
    Ok(seen.map(|(_, is_spread)| match (collection.kind(), is_spread) {
        (CollectionKind::List, _) => "quicklist",
        (CollectionKind::Set, false) => "intset",
        (CollectionKind::Hash | CollectionKind::Sorted, false) => "listpack",
        (CollectionKind::Sorted, true) => "skiplist",
        (_, true) => "hashtable",
    }))
}

/// Returns the reply of `TYPE`.
pub(super) const fn type_name(kind: CollectionKind) -> &'static str {
    match kind {
        CollectionKind::Hash => "hash",
        CollectionKind::Set => "set",
        CollectionKind::List => "list",
        CollectionKind::Sorted => "zset",
    }
}

fn refused(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::TooLarge => Failure::COLLECTION_TOO_LARGE,
        _ => Failure::from(error),
    }
}

/// Brings `count` entries, drawn at random, to the front.
fn shuffle_front(all: &mut [Member], count: usize, rng: &mut SeededRng) {
    for at in 0..count.min(all.len()) {
        all.swap(at, rng.random_range(at..all.len()));
    }
}

/// Draws of numbers below one that is given.
pub(super) fn draws() -> impl Fn(usize) -> usize {
    let rng = RefCell::new(seeded(entropy_seed()));
    move |below| rng.borrow_mut().random_range(0..below.max(1))
}

/// The places that a range from `start` to `end` names, both included, below zero counted from the
/// end: the first, and how many.
pub(super) fn places(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let at = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, end) = (at(start).max(0), at(end).min(len - 1));
    if start > end { (0, 0) } else { (start as usize, (end - start + 1) as usize) }
}

/// A whole number that is not below zero.
pub(super) fn count_of(text: &[u8]) -> Result<usize, Failure> {
    number(text)
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(Failure::new("ERR value is out of range, must be positive"))
}

/// A whole number of which there is the negative, too.
pub(super) fn signed_count(text: &[u8]) -> Result<i64, Failure> {
    match integer(text)? {
        i64::MIN => Err(Failure::from_text(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        count => Ok(count),
    }
}

/// Keys, and the arguments behind them.
type Split<'s, 'x> = (&'s [&'x [u8]], &'s [&'x [u8]]);

/// A count of keys and those keys, from argument `at` on; and the arguments behind them.
pub(super) fn counted_keys<'s, 'x>(
    args: &'s [&'x [u8]],
    at: usize,
    too_many: Failure,
) -> Result<Split<'s, 'x>, Failure> {
    const TOO_FEW: Failure = Failure::new("ERR numkeys should be greater than 0");
    let count = number(arg(args, at)).filter(|count| *count > 0).ok_or(TOO_FEW)?;
    let rest = args.get(at + 1..).unwrap_or_default();
    usize::try_from(count).ok().and_then(|count| rest.split_at_checked(count)).ok_or(too_many)
}
