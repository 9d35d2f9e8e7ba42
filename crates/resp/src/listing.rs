//! Walks over all keys: `KEYS`, `SCAN`, `RANDOMKEY`, and `DBSIZE`.
//!
//! They go on turn by turn, between the requests of other connections, until the walk is over.
//! `SCAN` does a part of a walk and tells the client where the next begins; nothing is kept for it.

use base::rng;
use millpond::{Cursor, Items, ReadHandle, Step};
use protocol::resp::reply;

use super::arguments::{arg, integer, is};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use frontend::slow;
use protocol::resp::commands::{Command, Generic, Server, number};
use protocol::resp::glob::matches;

/// The most item memory that a walk may hold between two turns: the items that it has looked at
/// ahead, all of one slab.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Chunks beyond which the size of the key space is taken from the counts instead of from a walk:
/// some 50 ms.
const MAX_COUNTED_CHUNKS: u64 = 1 << 20;

/// Chunks that one `SCAN` goes past at most, over all its turns.
const MAX_SCANNED_CHUNKS: u32 = 1 << 20;

/// Random looks for an item before the pool is walked over, some 50 ns each; and items that may be
/// found to be over meanwhile.
const TRIES: u32 = 256;
const PICKS: u32 = 16;

/// Keys that match a pattern, put together as replies.
struct Found {
    pattern: Vec<u8>,
    replies: Vec<u8>,
    count: usize,
}

impl Found {
    fn note(&mut self, key: &[u8]) {
        if matches(&self.pattern, key) {
            reply::bulk(&mut self.replies, key);
            self.count += 1;
        }
    }

    fn send(&self, w: &mut Writer<'_, '_>) {
        w.array(self.count);
        w.output.write(&self.replies);
    }
}

/// The purpose of a walk.
enum Wanted {
    /// All keys that match.
    Keys(Found),
    /// The matching keys among the next `left` items, within `chunks` chunks.
    Part { found: Found, wanted_type: Option<Vec<u8>>, left: usize, chunks: u32 },
    /// The number of keys.
    Count(u64),
    /// One of them, each with the same chance: `chosen` of the `seen` so far.
    Any { seen: u64, chosen: Vec<u8> },
}

/// A walk on its way.
pub(crate) struct Listing<'c> {
    items: Items<'c>,
    wanted: Wanted,
    /// Which command it is of, and what the slow log would have of that.
    number: usize,
    said: Vec<Vec<u8>>,
    /// Time that its turns have taken, in nanoseconds.
    nanos: u64,
}

impl<'c> Listing<'c> {
    /// Item memory that cannot be evicted meanwhile, at most.
    pub(super) const fn held_bytes(&self) -> usize {
        MAX_HELD_BYTES
    }

    /// Memory of its own, in bytes.
    pub(super) fn buffer_bytes(&self) -> usize {
        match &self.wanted {
            Wanted::Keys(found) | Wanted::Part { found, .. } => {
                found.pattern.capacity() + found.replies.capacity()
            }
            _ => 0,
        }
    }

    /// Advances to the next item within `chunks` chunks.
    fn step(&mut self, chunks: &mut u32) -> Step<'c> {
        let Wanted::Part { left, chunks: all, .. } = &mut self.wanted else { return self.items.step(chunks) };
        if *left == 0 || *all == 0 {
            return Step::End;
        }
        let before = (*chunks).min(*all);
        let mut within = before;
        let step = self.items.step(&mut within);
        *all -= before - within;
        *chunks -= before - within;
        match step {
            Step::Later if *all == 0 => Step::End,
            step => step,
        }
    }
}

/// A command that walks over the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    Keys,
    Scan,
    DbSize,
    RandomKey,
}

impl Walk {
    /// The walk that a command is, if it is one.
    pub(super) const fn of(command: Command) -> Option<Self> {
        match command {
            Command::Generic(Generic::Keys) => Some(Self::Keys),
            Command::Generic(Generic::Scan) => Some(Self::Scan),
            Command::Generic(Generic::RandomKey) => Some(Self::RandomKey),
            Command::Server(Server::DbSize) => Some(Self::DbSize),
            _ => None,
        }
    }

    /// The number of the command.
    const fn number(self) -> usize {
        const NUMBERS: [usize; 4] = [number("keys"), number("scan"), number("dbsize"), number("randomkey")];
        match self {
            Self::Keys => NUMBERS[0],
            Self::Scan => NUMBERS[1],
            Self::DbSize => NUMBERS[2],
            Self::RandomKey => NUMBERS[3],
        }
    }
}

impl<'c> Commands<'_, 'c> {
    /// Begins the walk of a command, whose arity was checked.
    pub(super) fn begin_listing(&mut self, walk: Walk, args: &[&[u8]]) -> Result<Listing<'c>, Failure> {
        let (wanted, place) = match walk {
            Walk::Keys => {
                let found = Found { pattern: arg(args, 1).to_vec(), replies: Vec::new(), count: 0 };
                (Wanted::Keys(found), Cursor::START)
            }
            Walk::Scan => self.scan(args)?,
            Walk::DbSize => (Wanted::Count(0), Cursor::START),
            Walk::RandomKey => (Wanted::Any { seen: 0, chosen: Vec::new() }, Cursor::START),
        };
        let items = self.shared.cache.items_from(self.pool.id, place).map_err(Failure::from)?;
        Ok(Listing { items, wanted, number: walk.number(), said: slow::shortened(args), nanos: 0 })
    }

    /// As [`Self::continue_listing`], and counts the walk, and the time that it took, once it is
    /// over.
    pub(super) fn time_listing(
        &mut self,
        listing: &mut Listing<'c>,
        chunks: u32,
        w: &mut Writer<'_, 'c>,
    ) -> bool {
        let clock = &self.shared.clock;
        let since = clock.monotonic_nanos();
        let is_over = self.continue_listing(listing, chunks, w);
        listing.nanos += clock.monotonic_nanos().saturating_sub(since);
        if is_over {
            self.count_call(listing.number, &Ok(()));
            self.note_time_of(|| std::mem::take(&mut listing.said), listing.nanos);
        }
        is_over
    }

    /// Answers what needs no walk: a count that is known, a key that is found at random.
    fn answer_without_a_walk(&self, wanted: &Wanted, w: &mut Writer<'_, 'c>) -> bool {
        match wanted {
            Wanted::Count(0) => {
                if let Some(count) = self.counted() {
                    w.integer(count as i64);
                    return true;
                }
            }
            Wanted::Any { seen: 0, .. } => {
                if let Some(item) = self.pick() {
                    w.bulk(item.key());
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    /// Continues a walk past at most `chunks` chunks, and answers at its end. Returns whether the
    /// walk is over.
    pub(super) fn continue_listing(
        &mut self,
        listing: &mut Listing<'c>,
        mut chunks: u32,
        w: &mut Writer<'_, 'c>,
    ) -> bool {
        if self.answer_without_a_walk(&listing.wanted, w) {
            return true;
        }
        loop {
            let item = match listing.step(&mut chunks) {
                Step::Later => return false,
                Step::Item(item) => Some(item),
                Step::End => None,
            };
            let is_there = item.as_ref().is_some_and(|item| item.is_current() && !self.is_over(item));
            if let Wanted::Part { left, .. } = &mut listing.wanted
                && item.is_some()
            {
                *left -= 1;
            }
            if item.is_some() && !is_there {
                continue;
            }
            match (&mut listing.wanted, item) {
                (Wanted::Keys(found), Some(item)) => found.note(item.key()),
                (Wanted::Part { found, wanted_type, .. }, Some(item)) => {
                    if wanted_type
                        .as_ref()
                        .is_none_or(|wanted| self.type_of(&item).is_some_and(|name| is(wanted, name)))
                    {
                        found.note(item.key());
                    }
                }
                (Wanted::Count(count), Some(_)) => *count += 1,
                (Wanted::Any { seen, chosen }, Some(item)) => {
                    // Each that is seen takes the place of the one before with a chance that is
                    // fair to all of them.
                    *seen += 1;
                    if draw().is_multiple_of(*seen) {
                        chosen.clear();
                        chosen.extend_from_slice(item.key());
                    }
                }
                (Wanted::Keys(found), None) => {
                    found.send(w);
                    return true;
                }
                (Wanted::Part { found, .. }, None) => {
                    let next = listing.items.cursor().map_or(0, |place| place.to_number() + 1);
                    w.array(2);
                    w.bulk(next.to_string().as_bytes());
                    found.send(w);
                    return true;
                }
                (Wanted::Count(count), None) => {
                    w.integer(*count as i64);
                    return true;
                }
                (Wanted::Any { seen, chosen }, None) => {
                    if *seen == 0 {
                        w.null()
                    } else {
                        w.bulk(chosen)
                    }
                    return true;
                }
            }
        }
    }

    /// A walk from its beginning to its end, within a transaction.
    pub(super) fn list_at_once(&mut self, walk: Walk, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let mut listing = self.begin_listing(walk, args)?;
        while !self.continue_listing(&mut listing, u32::MAX, w) {}
        Ok(())
    }

    /// Returns the number of keys by the counters, if there are too many to be walked over.
    fn counted(&self) -> Option<u64> {
        let pool = self.shared.cache.pool_stats(self.pool.id).ok()?;
        let chunks = pool.sum(|class| class.chunks);
        (chunks > MAX_COUNTED_CHUNKS).then(|| pool.sum(|class| class.items))
    }

    /// Some key's item, if one is found by a few looks at random places: each has as much chance as
    /// any other. A walk finds one in a pool that is nearly empty.
    fn pick(&self) -> Option<ReadHandle<'c>> {
        let is_there = |item: &ReadHandle<'_>| item.is_current() && !self.is_over(item);
        let picked = (0..PICKS).map_while(|_| self.shared.cache.pick(self.pool.id, TRIES, draw).ok()?);
        picked.into_iter().find(is_there)
    }

    /// Parses the filter of a `SCAN` and the place where it begins.
    fn scan(&self, args: &[&[u8]]) -> Result<(Wanted, Cursor), Failure> {
        let cursor = cursor(arg(args, 1)).ok_or(Failure::new("ERR invalid cursor"))?;
        let (mut pattern, mut count, mut wanted_type) = (None, 10_usize, None);
        let mut rest = args.get(2..).unwrap_or_default();
        while let [option, value, behind @ ..] = rest {
            rest = behind;
            if is(option, "COUNT") {
                let number = integer(value)?;
                count = usize::try_from(number).ok().filter(|count| *count > 0).ok_or(Failure::SYNTAX)?;
            } else if is(option, "MATCH") {
                pattern = Some(value.to_vec());
            } else if is(option, "TYPE") {
                wanted_type = Some(value.to_vec());
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if !rest.is_empty() {
            return Err(Failure::SYNTAX);
        }
        let left = count.min(self.settings.max_output_bytes / 32).max(1);
        let pattern = pattern.unwrap_or_else(|| b"*".to_vec());
        let found = Found { pattern, replies: Vec::new(), count: 0 };
        let wanted = Wanted::Part { found, wanted_type, left, chunks: MAX_SCANNED_CHUNKS };
        Ok((wanted, Cursor::from_number(cursor.saturating_sub(1))))
    }
}

/// A random number.
fn draw() -> u64 {
    u64::from(rng::draw()) << 32 | u64::from(rng::draw())
}

/// A cursor as C's `strtoul` reads it.
pub(super) fn cursor(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix('-') {
        Some(digits) => digits.parse().ok().map(u64::wrapping_neg),
        None => text.parse().ok(),
    }
}
