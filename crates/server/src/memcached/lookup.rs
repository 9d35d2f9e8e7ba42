//! Retrievals, many at a time.

use millpond::{Found, ReadHandle};
use protocol::memcached::{Exptime, KEY_MAX_BYTES, MetaFlags, MetaRequest, Reply, reply};

use super::binary::BinaryGet;
use super::commands::{Commands, EndsAt};
use super::value::Value;
use crate::metrics::Counter;
use crate::net::{MIN_IN_PLACE_BYTES, Output};

/// Lookups that are made at once. Enough to overlap their memory latency, few enough to stay in the first-level cache.
const BATCH: usize = 32;

/// The most that an answer with a small value takes: the value, the key, and what else stands in a line or a header.
const MAX_SMALL_ANSWER_BYTES: usize = MIN_IN_PLACE_BYTES + KEY_MAX_BYTES + 256;

/// How a lookup is answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'i> {
    /// As a key of a classic retrieval.
    Value {
        /// With its compare-and-swap token.
        with_cas: bool,
        /// And given a new end.
        touch: Option<Exptime>,
        /// As the last of its request.
        last: bool,
    },
    /// As an `mg` that changes nothing.
    Meta(MetaFlags<'i>),
    /// As a retrieval of the binary protocol.
    Binary(BinaryGet),
}

impl Answer<'_> {
    /// The new end that what is found gets.
    fn touch(&self) -> Option<Exptime> {
        match self {
            Self::Value { touch, .. } => *touch,
            Self::Meta(_) => None,
            Self::Binary(get) => get.touch,
        }
    }
}

/// Lookups that wait to be made together.
pub(super) struct Batch<'i> {
    keys: [&'i [u8]; BATCH],
    answers: [Answer<'i>; BATCH],
    /// Where its request begins in the input, and which of that request's keys it is.
    places: [(usize, usize); BATCH],
    len: usize,
}

impl<'i> Batch<'i> {
    pub(super) fn new() -> Self {
        let nothing = Answer::Value { with_cas: false, touch: None, last: false };
        Self { keys: [&[]; BATCH], answers: [nothing; BATCH], places: [(0, 0); BATCH], len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a lookup; there must be room.
    pub(super) fn push(&mut self, key: &'i [u8], answer: Answer<'i>, position: usize, key_index: usize) {
        let at = self.len;
        if let (Some(a), Some(b), Some(c)) =
            (self.keys.get_mut(at), self.answers.get_mut(at), self.places.get_mut(at))
        {
            (*a, *b, *c) = (key, answer, (position, key_index));
            self.len += 1;
        }
    }

    /// Where lookup number `index` stands in the input; nothing where there is none.
    pub(super) fn place_of(&self, index: usize) -> Option<(usize, usize)> {
        self.places.get(..self.len)?.get(index).copied()
    }
}

/// Whether an `mg` can be answered from the item as it was found: it neither changes anything nor asks what was so before it
/// was looked up.
pub(super) fn is_plain(request: &MetaRequest<'_>) -> bool {
    !request.key.is_base64() && !b"NRThluIE".iter().any(|flag| request.flags.has(*flag))
}

/// What a batch came to, for the statistics.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    answered: usize,
    hits: u64,
    touched: u64,
    touch_hits: u64,
}

impl<'c> Commands<'_, 'c> {
    /// Makes the lookups of `batch` and answers them in order until the output has `max_output_bytes`. Returns how many
    /// were answered.
    ///
    /// Small values are copied to the output from where they lie, without a reference: connections of several threads that
    /// read one hot item do not wait for each other. What was found behind the place where the output got full is looked up
    /// again by the next turn, so as many lookups are made at once as small values fit for sure.
    pub(super) fn lookup(
        &mut self,
        batch: &Batch<'_>,
        output: &mut Output<ReadHandle<'c>>,
        max_output_bytes: usize,
    ) -> usize {
        let keys = batch.keys.get(..batch.len).unwrap_or_default();
        let mut tally = Tally::default();
        while let Some(rest) = keys.get(tally.answered..).filter(|rest| !rest.is_empty()) {
            let room = max_output_bytes.saturating_sub(output.len());
            let together = (room / MAX_SMALL_ANSWER_BYTES).clamp(1, rest.len());
            let first = tally.answered;
            let mut full = false;
            self.keys().find_many_with(rest.get(..together).unwrap_or(rest), |i, found| {
                if full {
                    return;
                }
                let Some((key, answer)) = keys.get(first + i).zip(batch.answers.get(first + i)) else {
                    return;
                };
                self.answer(key, *answer, found, &mut tally, output);
                full = output.len() >= max_output_bytes;
            });
            if full {
                break;
            }
        }
        self.counters.add(Counter::GetHits, tally.hits);
        self.counters.add(Counter::GetMisses, tally.answered as u64 - tally.hits);
        if tally.touched > 0 {
            self.counters.add(Counter::Touches, tally.touched);
            self.counters.add(Counter::TouchHits, tally.touch_hits);
            self.counters.add(Counter::TouchMisses, tally.touched - tally.touch_hits);
        }
        tally.answered
    }

    #[inline]
    fn answer(
        &mut self,
        key: &[u8],
        answer: Answer<'_>,
        found: Option<Found<'_>>,
        tally: &mut Tally,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let touch = answer.touch();
        let value = match found {
            // A large value is sent from where it lies, and only a handle can change an item.
            Some(found) if found.len() < MIN_IN_PLACE_BYTES && touch.is_none() && found.user_bits() == 0 => {
                found.note_access();
                Some(Value::Shown(found))
            }
            // It may have been removed since.
            Some(_) => self.keys().peek(key).map(|item| {
                item.note_access();
                Value::Held(item)
            }),
            None => None,
        };
        tally.answered += 1;
        tally.hits += u64::from(value.is_some());
        if let Some(exptime) = touch {
            tally.touched += 1;
            if let Some(Value::Held(item)) = &value {
                tally.touch_hits += 1;
                self.set_end(item, EndsAt::new(exptime, self.now_secs));
            }
        }
        match answer {
            Answer::Value { with_cas, last, .. } => {
                if let Some(value) = value {
                    write_value(key, value, with_cas, output);
                }
                if last {
                    output.write(Reply::End.as_bytes());
                }
            }
            Answer::Meta(flags) => {
                self.counters.add(Counter::Meta, 1);
                self.answer_meta_get(key, &flags, value, output);
            }
            Answer::Binary(get) => get.write(key, value, output),
        }
    }
}

/// Writes `VALUE`, the data and its line end.
#[inline]
fn write_value<'c>(key: &[u8], value: Value<'_, 'c>, with_cas: bool, output: &mut Output<ReadHandle<'c>>) {
    let tag = value.tag();
    let cas = with_cas.then_some(tag.cas);
    output.compose(|out| reply::value_header(out, key, tag.client_flags, value.len(), cas));
    value.send(output);
    output.write(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_knows_where_its_lookups_stand() {
        let mut batch = Batch::new();
        for index in 0..BATCH {
            assert!(!batch.is_full());
            let answer = Answer::Value { with_cas: false, touch: None, last: false };
            batch.push(b"k", answer, 100 + index, index);
        }
        assert!(batch.is_full());
        assert_eq!(batch.place_of(3), Some((103, 3)));
        assert_eq!(batch.place_of(BATCH), None);
        batch.clear();
        assert_eq!((batch.len(), batch.place_of(0)), (0, None));
    }
}
