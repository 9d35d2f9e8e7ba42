//! Retrievals, many at a time.

use millpond::ReadHandle;
use protocol::memcached::{Exptime, MetaFlags, MetaRequest, Reply, reply};

use super::commands::{Commands, EndsAt};
use crate::metrics::Counter;
use crate::net::Output;

/// Lookups that are made at once. Enough to overlap their memory latency, few enough to stay in the first-level cache.
const BATCH: usize = 32;

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

impl<'c> Commands<'_, 'c> {
    /// Makes the lookups of `batch` and answers them in order until the output has `max_output_bytes`. Returns how many
    /// were answered.
    pub(super) fn lookup(
        &mut self,
        batch: &Batch<'_>,
        output: &mut Output<ReadHandle<'c>>,
        max_output_bytes: usize,
    ) -> usize {
        let mut found = std::mem::take(self.found);
        let keys = batch.keys.get(..batch.len).unwrap_or_default();
        self.keys().find_many(keys, &mut found);
        let (mut done, mut hits, mut touched, mut touch_hits) = (0, 0, 0, 0);
        for (item, (key, answer)) in found.drain(..).zip(keys.iter().zip(&batch.answers)) {
            done += 1;
            hits += u64::from(item.is_some());
            if let Answer::Value { touch: Some(_), .. } = answer {
                touched += 1;
                touch_hits += u64::from(item.is_some());
            }
            self.answer(key, *answer, item, output);
            if output.len() >= max_output_bytes {
                break;
            }
        }
        *self.found = found;
        self.counters.add(Counter::GetHits, hits);
        self.counters.add(Counter::GetMisses, done as u64 - hits);
        if touched > 0 {
            self.counters.add(Counter::Touches, touched);
            self.counters.add(Counter::TouchHits, touch_hits);
            self.counters.add(Counter::TouchMisses, touched - touch_hits);
        }
        done
    }

    fn answer(
        &mut self,
        key: &[u8],
        answer: Answer<'_>,
        item: Option<ReadHandle<'c>>,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        match answer {
            Answer::Value { with_cas, touch, last } => {
                if let Some(item) = item {
                    item.note_access();
                    if let Some(exptime) = touch {
                        self.set_end(&item, EndsAt::new(exptime, self.now_secs));
                    }
                    write_value(key, item, with_cas, output);
                }
                if last {
                    output.write(Reply::End.as_bytes());
                }
            }
            Answer::Meta(flags) => {
                self.counters.add(Counter::Meta, 1);
                self.answer_meta_get(key, &flags, item, output);
            }
        }
    }
}

/// Writes `VALUE`, the data and its line end.
#[inline]
fn write_value<'c>(key: &[u8], item: ReadHandle<'c>, with_cas: bool, output: &mut Output<ReadHandle<'c>>) {
    let tag = item.tag().unwrap_or_default();
    let cas = with_cas.then_some(tag.cas);
    output.compose(|out| reply::value_header(out, key, tag.client_flags, item.len(), cas));
    output.value(item);
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
