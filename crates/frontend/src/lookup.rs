//! Lookups, many at a time, whatever the protocol: keys that follow one another in the input of a
//! client are gathered, looked up together so that their memory latency overlaps, and answered in
//! order.

use std::ops::Deref;

use millpond::{ItemRef, Keys, ReadHandle};

use crate::output::{MIN_IN_PLACE_BYTES, Output};

/// Lookups that are made at once. Enough to overlap their memory latency, few enough to stay in the
/// first-level cache.
const BATCH: usize = 32;

/// Values this long have room for a compare-and-swap token from the start; a shorter one gets it,
/// with a copy, when a client asks for it: 12 to 20 bytes of them do not count.
pub const TAGGED_FROM_BYTES: usize = 1 << 10;

/// Lookups that wait to be made together, each with how it is answered.
pub struct Batch<'i, A> {
    keys: [&'i [u8]; BATCH],
    answers: [A; BATCH],
    /// The offset in the input at which its request begins, and its index among that request's
    /// keys.
    places: [(usize, usize); BATCH],
    len: usize,
}

impl<'i, A: Copy> Batch<'i, A> {
    /// An empty one; `nothing` fills the places.
    pub fn new(nothing: A) -> Self {
        Self { keys: [&[]; BATCH], answers: [nothing; BATCH], places: [(0, 0); BATCH], len: 0 }
    }

    /// Returns the number of lookups.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no lookups.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether there is no room for another lookup.
    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Removes all lookups.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a lookup; there must be room.
    pub fn push(&mut self, key: &'i [u8], answer: A, position: usize, key_index: usize) {
        let at = self.len;
        if let (Some(a), Some(b), Some(c)) =
            (self.keys.get_mut(at), self.answers.get_mut(at), self.places.get_mut(at))
        {
            (*a, *b, *c) = (key, answer, (position, key_index));
            self.len += 1;
        }
    }

    /// The key of the first lookup.
    pub fn first_key(&self) -> Option<&'i [u8]> {
        self.keys.get(..self.len)?.first().copied()
    }

    /// Returns the place in the input of lookup number `index`; `None` if there is no such lookup.
    pub fn place_of(&self, index: usize) -> Option<(usize, usize)> {
        self.places.get(..self.len)?.get(index).copied()
    }

    /// Makes the lookups and lets `answer` answer them in order, until the output has
    /// `max_output_bytes`. Returns how many were answered.
    ///
    /// `max_answer_bytes` is the most that the answer takes with a value that is copied. Items
    /// found behind the place where the output got full are looked up again by the next turn, so
    /// only as many lookups are made at once as small values fit for sure.
    #[inline]
    pub fn look_up<'c>(
        &self,
        space: Keys<'c>,
        output: &mut Output<ReadHandle<'c>>,
        (max_output_bytes, max_answer_bytes): (usize, usize),
        mut answer: impl FnMut(&'i [u8], A, Option<ItemRef<'_>>, &mut Output<ReadHandle<'c>>),
    ) -> usize {
        let keys = self.keys.get(..self.len).unwrap_or_default();
        let mut answered = 0;
        while let Some(rest) = keys.get(answered..).filter(|rest| !rest.is_empty()) {
            let room = max_output_bytes.saturating_sub(output.len());
            let together = (room / max_answer_bytes).clamp(1, rest.len());
            let first = answered;
            let mut full = false;
            space.find_many_with(rest.get(..together).unwrap_or(rest), |i, found| {
                if full {
                    return;
                }
                let Some((key, how)) = keys.get(first + i).zip(self.answers.get(first + i)) else {
                    return;
                };
                answer(key, *how, found, output);
                answered += 1;
                full = output.len() >= max_output_bytes;
            });
            if full {
                break;
            }
        }
        answered
    }
}

/// An item that was found: one that is shown for as long as it is copied, or one that is held until
/// it is sent.
pub enum Value<'a, 'c> {
    /// In place, without a reference: for small values.
    Shown(ItemRef<'a>),
    /// With a reference.
    Held(ReadHandle<'c>),
}

impl<'a, 'c> Value<'a, 'c> {
    /// Returns the value found under `key`, noted as an access. A small value is shown in place, so
    /// that connections of several threads that read one hot item do not wait for each other. A
    /// large one is sent from where it lies, and so held, as is one that is to be changed according
    /// to `hold`.
    #[inline]
    pub fn of(found: ItemRef<'a>, space: Keys<'c>, key: &[u8], hold: bool) -> Option<Self> {
        // A collection has no value.
        if found.is_structured() {
            return None;
        }
        if found.len() < MIN_IN_PLACE_BYTES && !hold && found.user_bits() == 0 {
            found.note_access();
            return Some(Self::Shown(found));
        }
        // It may have been removed since, or a collection put in its place.
        space.peek(key).filter(|item| !item.is_structured()).map(|item| {
            item.note_access();
            Value::Held(item)
        })
    }

    /// The client's flags.
    #[inline]
    pub fn client_flags(&self) -> u32 {
        match self {
            Self::Shown(found) => found.client_flags(),
            Self::Held(item) => item.client_flags(),
        }
    }

    /// Returns the compare-and-swap token; `None`: no client has asked for one yet.
    #[inline]
    pub fn cas(&self) -> Option<u64> {
        match self {
            Self::Shown(found) => found.tag(),
            Self::Held(item) => item.tag(),
        }
        .map(|tag| tag.cas)
    }

    /// Returns the expiry time in Unix seconds, if the item has one.
    pub fn expires_at(&self) -> Option<u32> {
        match self {
            Self::Shown(found) => found.expires_at(),
            Self::Held(item) => item.expires_at(),
        }
    }

    /// Appends the bytes of the value.
    #[inline]
    pub fn send(self, output: &mut Output<ReadHandle<'c>>) {
        match self {
            Self::Shown(found) => output.write(&found),
            Self::Held(item) => output.value(item),
        }
    }
}

impl Deref for Value<'_, '_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Shown(found) => found,
            Self::Held(item) => item,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_knows_where_its_lookups_stand() {
        let mut batch = Batch::new(());
        for index in 0..BATCH {
            assert!(!batch.is_full());
            batch.push(b"k", (), 100 + index, index);
        }
        assert!(batch.is_full());
        assert_eq!(batch.place_of(3), Some((103, 3)));
        assert_eq!(batch.place_of(BATCH), None);
        batch.clear();
        assert_eq!((batch.len(), batch.place_of(0)), (0, None));
    }
}
