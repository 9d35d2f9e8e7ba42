//! Changes of a collection: each writes a few entries, in words that nobody else writes to.

use std::borrow::Cow;

use super::super::entries::Room;
use super::super::header::{DEADLINE, FIRST, Header, LEN, MARK, RING};
use super::CollectionKind;
use super::bag::Bag;
use memory::cells::{CellResult, Cells as Tail, Corrupt};

/// As many entries of a sorted set are put in order at the end rather than each by itself.
const MANY: usize = 1_024;

/// One change. Several are made as one step ([`super::Collection::apply`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Edit<'a> {
    /// Hashes: sets the value of a field. Sets: adds a member; the value is nothing.
    Put {
        /// Field or member.
        key: Cow<'a, [u8]>,
        /// Its value.
        value: Cow<'a, [u8]>,
    },
    /// Sorted sets: gives a member a score, which is a number.
    Score {
        /// The member.
        member: Cow<'a, [u8]>,
        /// Its score.
        score: f64,
    },
    /// All but lists: removes a field or member, if it is there.
    Remove(Cow<'a, [u8]>),
    /// Lists: puts an element before the one at a place; at the end where there is none.
    Insert {
        /// 0 is the first.
        index: usize,
        /// The element.
        value: Cow<'a, [u8]>,
    },
    /// Lists: sets the element at a place, if there is one.
    Set {
        /// 0 is the first.
        index: usize,
        /// The element.
        value: Cow<'a, [u8]>,
    },
    /// Lists and sorted sets: removes what stands in a row of places, as many as there are.
    RemoveRange {
        /// 0 is the first.
        from: usize,
        /// The number of entries.
        count: usize,
    },
    /// Lists: removes what stands at these places, which ascend.
    RemoveAt(Vec<usize>),
    /// Sets the end, in Unix milliseconds; `None` is never. The cache's own, in seconds, follows:
    /// rounded up, and never beyond the year 2106.
    Deadline(Option<u64>),
    /// Sets the word that is the caller's.
    Mark(u32),
}

impl<'a> Edit<'a> {
    /// Puts a field or member in.
    pub fn put(key: impl Into<Cow<'a, [u8]>>, value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Put { key: key.into(), value: value.into() }
    }

    /// Gives a member a score.
    pub fn score(member: impl Into<Cow<'a, [u8]>>, score: f64) -> Self {
        Self::Score { member: member.into(), score }
    }

    /// Removes a field or member.
    pub fn remove(key: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Remove(key.into())
    }

    /// Puts an element before the others.
    pub fn push_front(value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Insert { index: 0, value: value.into() }
    }

    /// Puts an element behind the others.
    pub fn push_back(value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Insert { index: usize::MAX, value: value.into() }
    }
}

/// The room that changes may take beside what is there.
pub(super) fn room_for(kind: CollectionKind, edits: &[Edit<'_>]) -> Room {
    edits.iter().fold(Room::default(), |room, edit| {
        let (entries, words) = match edit {
            Edit::Put { key, value } => (1, kind.words_of(key.len(), value.len())),
            Edit::Score { member, .. } => (1, kind.words_of(member.len(), 0)),
            Edit::Insert { value, .. } => (1, kind.words_of(value.len(), 0)),
            Edit::Set { value, .. } => (0, kind.words_of(value.len(), 0)),
            _ => (0, 0),
        };
        Room { entries: room.entries + entries, words: room.words + words }
    })
}

impl Bag<'_> {
    /// Makes the changes; there is room for them. What is not for this kind is passed over.
    pub(super) fn edit(self, edits: &[Edit<'_>]) -> CellResult<()> {
        let is_sorted = self.kind == CollectionKind::Sorted;
        // One by one, each would move a part of the ring.
        let keeps_order = !(is_sorted && edits.len() > MANY);
        for edit in edits {
            match edit {
                Edit::Put { key, value }
                    if matches!(self.kind, CollectionKind::Hash | CollectionKind::Set) =>
                {
                    self.put(key, value)?;
                }
                Edit::Score { member, score } if is_sorted && !score.is_nan() => {
                    self.set_member(member, *score, keeps_order)?;
                }
                Edit::Remove(key) if self.kind.is_hashed() => self.remove(key, keeps_order)?,
                Edit::Insert { index, value } if self.kind == CollectionKind::List => {
                    self.insert(*index, value)?;
                }
                Edit::Set { index, value } if self.kind == CollectionKind::List => self.set(*index, value)?,
                Edit::RemoveRange { from, count } if self.kind.is_ringed() => {
                    if !keeps_order {
                        self.sort()?;
                    }
                    self.remove_range(*from, *count)?;
                }
                Edit::RemoveAt(places) if self.kind == CollectionKind::List => self.remove_at(places)?,
                Edit::Deadline(end) => {
                    let end = end.unwrap_or(0);
                    self.tail.set(DEADLINE, end as u32)?;
                    self.tail.set(DEADLINE + 1, (end >> 32) as u32)?;
                }
                Edit::Mark(mark) => self.tail.set(MARK, *mark)?,
                _ => {}
            }
        }
        if keeps_order { Ok(()) } else { self.sort() }
    }

    fn put(self, key: &[u8], value: &[u8]) -> CellResult<()> {
        let value = if self.kind == CollectionKind::Hash { value } else { &[] };
        let hash = self.hash(key);
        let Some((slot, entry)) = self.find(hash, key)? else {
            let entry = self.append(key, value)?;
            self.link(hash, entry)?;
            return self.count(LEN, 1);
        };
        if self.kind == CollectionKind::Set {
            return Ok(());
        }
        if self.overwrite(entry, key, value)? {
            return Ok(());
        }
        self.give_back(entry)?;
        let entry = self.append(key, value)?;
        self.name(slot, hash, entry)
    }

    /// Writes other content into an entry. `false`: it is too long for that.
    fn overwrite(self, entry: usize, key: &[u8], value: &[u8]) -> CellResult<bool> {
        let (old, new) = (self.size(entry)?, self.kind.words_of(key.len(), value.len()));
        if new > old {
            return Ok(false);
        }
        self.write(entry, key, value)?;
        self.count(super::super::header::GARBAGE, (old - new) as i64)?;
        Ok(true)
    }

    fn set_member(self, member: &[u8], score: f64, keeps_order: bool) -> CellResult<()> {
        let hash = self.hash(member);
        let found = self.find(hash, member)?;
        let len = self.len()?;
        let (entry, others) = match found {
            Some((_, entry)) => {
                let old = self.score(entry)?;
                if old == score {
                    return Ok(());
                }
                if keeps_order {
                    self.take_from_ring(len, entry, old, member)?;
                }
                (entry, len.checked_sub(1).ok_or(Corrupt)?)
            }
            None => {
                let entry = self.append(member, &[])?;
                self.link(hash, entry)?;
                self.count(LEN, 1)?;
                (entry, len)
            }
        };
        self.set_score(entry, score)?;
        if !keeps_order {
            return Ok(());
        }
        // The order is of the others alone for now.
        let place = self.place_among(others, score, member)?;
        self.ring_insert(others, place, entry)
    }

    /// The place of a score and a member among the first `len` of the ring.
    fn place_among(self, len: usize, score: f64, member: &[u8]) -> CellResult<usize> {
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.compare(self.at(middle)?, score, member)?.is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn take_from_ring(self, len: usize, entry: usize, score: f64, member: &[u8]) -> CellResult<()> {
        let place = self.place_among(len, score, member)?;
        if self.at(place)? != entry {
            return Err(Corrupt);
        }
        self.ring_remove(len, place, 1)
    }

    fn remove(self, key: &[u8], keeps_order: bool) -> CellResult<()> {
        let Some((slot, entry)) = self.find(self.hash(key), key)? else { return Ok(()) };
        if self.kind == CollectionKind::Sorted && keeps_order {
            self.take_from_ring(self.len()?, entry, self.score(entry)?, key)?;
        }
        self.unlink(slot)?;
        self.give_back(entry)?;
        self.count(LEN, -1)
    }

    fn insert(self, index: usize, value: &[u8]) -> CellResult<()> {
        let (entry, len) = (self.append(value, &[])?, self.len()?);
        self.ring_insert(len, index.min(len), entry)?;
        self.count(LEN, 1)
    }

    fn set(self, index: usize, value: &[u8]) -> CellResult<()> {
        if index >= self.len()? {
            return Ok(());
        }
        let entry = self.at(index)?;
        if self.overwrite(entry, value, &[])? {
            return Ok(());
        }
        self.give_back(entry)?;
        self.set_at(index, self.append(value, &[])?)
    }

    fn remove_range(self, from: usize, count: usize) -> CellResult<()> {
        let len = self.len()?;
        let count = count.min(len.saturating_sub(from));
        for index in from..from.saturating_add(count) {
            let entry = self.at(index)?;
            if self.kind.is_hashed() {
                self.unlink(self.slot_of(entry)?)?;
            }
            self.give_back(entry)?;
        }
        self.ring_remove(len, from.min(len), count)?;
        self.count(LEN, -(count as i64))
    }

    fn remove_at(self, places: &[usize]) -> CellResult<()> {
        let len = self.len()?;
        let mut places = places.iter().copied().filter(|place| *place < len).peekable();
        let Some(first) = places.peek().copied() else { return Ok(()) };
        let mut kept = first;
        for index in first..len {
            let entry = self.at(index)?;
            if places.next_if_eq(&index).is_some() {
                self.give_back(entry)?;
            } else {
                self.set_at(kept, entry)?;
                kept += 1;
            }
        }
        self.tail.set(LEN, kept as u32)
    }

    /// Makes the ring of a sorted set anew.
    fn sort(self) -> CellResult<()> {
        let mut all = Vec::with_capacity(self.len()?.min(self.tail.len()));
        for slot in 0..self.slots()? {
            if let Some(entry) = self.in_slot(slot)? {
                let (at, len) = self.key(entry)?;
                let mut member = vec![0; len];
                self.tail.read(at, &mut member)?;
                all.push((self.score(entry)?, member, entry));
            }
        }
        all.sort_unstable_by(|a, b| {
            a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal).then(a.1.cmp(&b.1))
        });
        if all.len() != self.len()? || all.len() > self.tail.get(RING)? as usize {
            return Err(Corrupt);
        }
        self.tail.set(FIRST, 0)?;
        all.iter().enumerate().try_for_each(|(index, (_, _, entry))| self.set_at(index, *entry))
    }

    /// Copies all that is in `self` to a tail that is its collection's, with room for `more`
    /// besides. `false`: it does not fit.
    pub(super) fn copy_to(self, to: Tail<'_>, more: Room) -> CellResult<bool> {
        let to = Bag { tail: to, kind: self.kind, id: to.kind_and_id()?.1 };
        let taken = self.taken()?;
        let room = Room { entries: taken.entries + more.entries, words: taken.words + more.words };
        let (mark, end) = (self.tail.get(MARK)?, [self.tail.get(DEADLINE)?, self.tail.get(DEADLINE + 1)?]);
        if !to.lay_out(room)? {
            return Ok(false);
        }
        to.tail.set(MARK, mark)?;
        to.tail.set(DEADLINE, end[0])?;
        to.tail.set(DEADLINE + 1, end[1])?;
        let mut copied = 0;
        let mut copy = |entry: usize| -> CellResult<()> {
            let (words, next) = (self.size(entry)?, to.tail.get(super::super::header::NEXT)? as usize);
            self.tail.copy(entry, to.tail, next, words)?;
            to.tail.set(super::super::header::NEXT, (next + words) as u32)?;
            if to.kind.is_hashed() {
                to.link(to.hash_of(next)?, next)?;
            }
            if to.kind.is_ringed() {
                to.set_at(copied, next)?;
            }
            copied += 1;
            Ok(())
        };
        if self.kind.is_ringed() {
            (0..taken.entries).try_for_each(|index| copy(self.at(index)?))?;
        } else {
            (0..self.slots()?).try_for_each(|slot| self.in_slot(slot)?.map_or(Ok(()), &mut copy))?;
        }
        to.tail.set(LEN, copied as u32)?;
        Ok(copied == taken.entries)
    }
}
