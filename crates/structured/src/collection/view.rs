//! A collection's content, as a reader sees it.

use super::bag::Bag;
use super::{CollectionKind, Member};
use crate::header::{DEADLINE, MARK};
use crate::value::read;
use memory::cells::{CellResult, Corrupt};

/// Slots of a directory that are tried before a draw takes the next entry there is.
const DRAWS: u64 = 64;
/// Bits of a hash that a scan's place is told in.
const PLACE_BITS: u32 = 48;

/// A collection at one moment: see [`super::Collection::read`].
///
/// While somebody writes, a view may show what never was, or fail with [`Corrupt`]; what was made
/// of it is thrown away then.
#[derive(Clone, Copy)]
pub struct View<'t>(pub(super) Bag<'t>);

/// Copies of entries, of no more bytes than there can be.
struct Copies<'t> {
    bag: Bag<'t>,
    room: usize,
    copies: Vec<Member>,
}

impl<'t> Copies<'t> {
    fn of(bag: Bag<'t>) -> Self {
        Self { bag, room: bag.tail.len() * size_of::<u32>(), copies: Vec::new() }
    }

    fn add(&mut self, entry: usize) -> CellResult<()> {
        let (key, value) = (self.bag.key(entry)?.1, self.bag.value(entry)?.1);
        // Lengths that are torn must not become allocations.
        self.room = self.room.checked_sub(key.saturating_add(value)).ok_or(Corrupt)?;
        self.copies.push(member(self.bag, entry)?);
        Ok(())
    }
}

fn member(bag: Bag<'_>, entry: usize) -> CellResult<Member> {
    let ((key_at, key_len), (value_at, value_len)) = (bag.key(entry)?, bag.value(entry)?);
    Ok(Member {
        key: read::<[u8]>(bag.tail, key_at, key_len)?,
        value: read::<[u8]>(bag.tail, value_at, value_len)?,
        score: if bag.kind == CollectionKind::Sorted { bag.score(entry)? } else { 0.0 },
    })
}

impl View<'_> {
    /// Returns its kind.
    pub fn kind(self) -> CollectionKind {
        self.0.kind
    }

    /// Returns the number of its entries.
    ///
    /// # Errors
    /// As all of them: [`Corrupt`].
    #[expect(clippy::len_without_is_empty, reason = "a collection without entries is none")]
    pub fn len(self) -> Result<usize, Corrupt> {
        self.0.len()
    }

    /// The word that is the caller's.
    pub fn mark(self) -> Result<u32, Corrupt> {
        self.0.tail.get(MARK)
    }

    /// Returns its expiry time, in Unix milliseconds; `None` is never.
    pub fn deadline(self) -> Result<Option<u64>, Corrupt> {
        let (low, high) = (self.0.tail.get(DEADLINE)?, self.0.tail.get(DEADLINE + 1)?);
        Ok(Some(u64::from(low) | u64::from(high) << 32).filter(|end| *end != 0))
    }

    fn entry(self, key: &[u8]) -> CellResult<Option<usize>> {
        if !self.0.kind.is_hashed() {
            return Ok(None);
        }
        Ok(self.0.find(self.0.hash(key), key)?.map(|(_, entry)| entry))
    }

    /// Returns whether there is such a field or member. Lists have none.
    pub fn contains(self, key: &[u8]) -> Result<bool, Corrupt> {
        Ok(self.entry(key)?.is_some())
    }

    /// A field or member, with what it has. Lists have none.
    pub fn get(self, key: &[u8]) -> Result<Option<Member>, Corrupt> {
        self.entry(key)?.map(|entry| member(self.0, entry)).transpose()
    }

    /// The length of a field's value in bytes.
    pub fn value_len(self, key: &[u8]) -> Result<Option<usize>, Corrupt> {
        self.entry(key)?.map(|entry| Ok(self.0.value(entry)?.1)).transpose()
    }

    /// The score of a sorted set's member.
    pub fn score(self, member: &[u8]) -> Result<Option<f64>, Corrupt> {
        if self.0.kind != CollectionKind::Sorted {
            return Ok(None);
        }
        self.entry(member)?.map(|entry| self.0.score(entry)).transpose()
    }

    /// Returns the place of a sorted set's member in the order; 0 is the first.
    pub fn rank(self, member: &[u8]) -> Result<Option<usize>, Corrupt> {
        let Some(score) = self.score(member)? else { return Ok(None) };
        self.0.place(score, member).map(Some)
    }

    /// Returns the number of a sorted set's members before the first for which `is_before` does not
    /// hold. `is_before` is told scores and, if it asks for them, members; once false, it stays so.
    /// Looks at log n.
    pub fn count_before(
        self,
        is_before: impl Fn(f64, &dyn Fn() -> Result<Vec<u8>, Corrupt>) -> Result<bool, Corrupt>,
    ) -> Result<usize, Corrupt> {
        let bag = self.0;
        if bag.kind != CollectionKind::Sorted {
            return Ok(0);
        }
        bag.count_before(|entry| {
            let member = || {
                let (at, len) = bag.key(entry)?;
                read::<[u8]>(bag.tail, at, len)
            };
            is_before(bag.score(entry)?, &member)
        })
    }

    /// All entries: of lists and sorted sets in order.
    pub fn all(self) -> Result<Vec<Member>, Corrupt> {
        if self.0.kind.is_ringed() {
            return self.range(0, usize::MAX);
        }
        let mut copies = Copies::of(self.0);
        for slot in 0..self.0.slots()? {
            if let Some(entry) = self.0.in_slot(slot)? {
                copies.add(entry)?;
            }
        }
        Ok(copies.copies)
    }

    /// `count` entries from a place in the order on, as far as there are. Hashes and sets have no
    /// order.
    pub fn range(self, from: usize, count: usize) -> Result<Vec<Member>, Corrupt> {
        let mut copies = Copies::of(self.0);
        if self.0.kind.is_ringed() {
            let end = self.0.len()?.min(from.saturating_add(count));
            (from..end).try_for_each(|index| copies.add(self.0.at(index)?))?;
        }
        Ok(copies.copies)
    }

    /// Some entry, each with the same chance unless most of them were removed: `draw` is asked for
    /// a number below its argument.
    pub fn any(self, mut draw: impl FnMut(usize) -> usize) -> Result<Option<Member>, Corrupt> {
        let (bag, len) = (self.0, self.0.len()?);
        if len == 0 {
            return Ok(None);
        }
        if bag.kind.is_ringed() {
            return member(bag, bag.at(draw(len))?).map(Some);
        }
        let slots = bag.slots()?;
        for _ in 0..DRAWS {
            if let Some(entry) = bag.in_slot(draw(slots.max(1)))? {
                return member(bag, entry).map(Some);
            }
        }
        let first = draw(slots.max(1));
        for slot in (first..slots).chain(0..first) {
            if let Some(entry) = bag.in_slot(slot)? {
                return member(bag, entry).map(Some);
            }
        }
        Err(Corrupt)
    }

    /// Entries from a place on, at least `count` of them if there are as many, and the place to go
    /// on from; 0 at first, and at the end.
    ///
    /// Places are of the keys' hashes: who goes on until the end meets every entry that was there
    /// all the time, whatever is added and removed meanwhile, and however the collection grows.
    /// Lists have none.
    pub fn scan(self, place: u64, count: usize) -> Result<(Vec<Member>, u64), Corrupt> {
        let mut copies = Copies::of(self.0);
        if !self.0.kind.is_hashed() {
            return Ok((copies.copies, 0));
        }
        let slots = self.0.slots()?;
        if place >> PLACE_BITS != 0 || slots == 0 {
            return Ok((copies.copies, 0));
        }
        let first = crate::map::home(place << (u64::BITS - PLACE_BITS), slots);
        // Entries stand at their home or behind it, up to the next empty slot, and begin again at
        // the start.
        for at in first..2 * slots {
            let slot = at % slots;
            match self.0.in_slot(slot)? {
                Some(entry) => {
                    let hash = self.0.hash_of(entry)?;
                    let is_wrapped = at >= slots;
                    // What is met at the start although its home is near the end comes with the
                    // end.
                    let home = crate::map::home(hash, slots);
                    let is_due = if is_wrapped { home > slot } else { home <= slot };
                    if is_due && hash >> (u64::BITS - PLACE_BITS) >= place {
                        copies.add(entry)?;
                    }
                }
                None if at + 1 >= slots => break,
                None if copies.copies.len() >= count => {
                    let next = ((at as u64 + 1) << PLACE_BITS) / slots as u64;
                    return Ok((copies.copies, next));
                }
                None => {}
            }
        }
        Ok((copies.copies, 0))
    }
}
