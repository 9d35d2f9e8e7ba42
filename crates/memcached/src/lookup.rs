//! Retrievals, many at a time.

use frontend::deadline::shown_flags;
use frontend::lookup::{Batch, Value};
use frontend::output::{MIN_IN_PLACE_BYTES, Output};
use frontend::requests::Asked;
use millpond::{ItemRef, ReadHandle};
use protocol::memcached::{Exptime, KEY_MAX_BYTES, MetaFlags, MetaRequest, Reply, reply};
use tenancy::KeyEffect;
use tenancy::metrics::Counter;

use super::binary::BinaryGet;
use super::commands::{Commands, ExpiresAt};

/// The most that an answer with a small value takes: the value, the key, and what else stands in a
/// line or a header.
const MAX_SMALL_ANSWER_BYTES: usize = MIN_IN_PLACE_BYTES + KEY_MAX_BYTES + 256;

/// The form of a lookup's answer.
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
    /// Placeholder for no lookup.
    pub(super) const NONE: Self = Self::Value { with_cas: false, touch: None, last: false };

    /// Returns whether the lookup needs the compare-and-swap token of the item.
    fn wants_cas(&self) -> bool {
        match self {
            Self::Value { with_cas, .. } => *with_cas,
            Self::Meta(flags) => flags.has(b'c'),
            Self::Binary(_) => true,
        }
    }

    /// The new end that what is found gets.
    fn touch(&self) -> Option<Exptime> {
        match self {
            Self::Value { touch, .. } => *touch,
            Self::Meta(_) => None,
            Self::Binary(get) => get.touch,
        }
    }
}

/// Returns whether an `mg` can be answered from the item as it was found: the request neither
/// changes anything nor asks for the state of the item before the lookup.
pub(super) fn is_plain(request: &MetaRequest<'_>) -> bool {
    !request.key.is_base64() && !b"NRThluIE".iter().any(|flag| request.flags.has(*flag))
}

/// The results of a batch, for the statistics.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    answered: usize,
    hits: u64,
    touched: u64,
    touch_hits: u64,
}

impl<'c> Commands<'_, 'c> {
    /// Makes the lookups of `batch` and answers them in order until the output has
    /// `max_output_bytes`. Returns how many were answered.
    pub(super) fn lookup(
        &mut self,
        batch: &Batch<'_, Answer<'_>>,
        output: &mut Output<ReadHandle<'c>>,
        max_output_bytes: usize,
    ) -> usize {
        let mut tally = Tally::default();
        let bounds = (max_output_bytes, MAX_SMALL_ANSWER_BYTES);
        batch.look_up(self.keys(), output, bounds, |key, answer, found, output| {
            self.answer(key, answer, found, &mut tally, output);
        });
        self.counters.add(Counter::GetHits, tally.hits);
        self.counters.add(Counter::GetMisses, tally.answered as u64 - tally.hits);
        if tally.touched > 0 {
            self.counters.add(Counter::Touches, tally.touched);
            self.counters.add(Counter::TouchHits, tally.touch_hits);
            self.counters.add(Counter::TouchMisses, tally.touched - tally.touch_hits);
        }
        tally.answered
    }

    /// Logs a lookup, with the length of the value that was found and the expiry that it was to
    /// get, where requests are logged.
    #[inline]
    pub(super) fn note_read(
        &self,
        command: &'static str,
        key: &[u8],
        value_bytes: Option<usize>,
        touch: Option<Exptime>,
    ) {
        let outcome = if value_bytes.is_some() { "hit" } else { "miss" };
        let ttl_secs = touch.and_then(|exptime| self.ttl_secs(exptime));
        self.note(&Asked { command, does: KeyEffect::Read, key, value_bytes, ttl_secs, outcome });
    }

    #[inline]
    fn answer(
        &mut self,
        key: &[u8],
        answer: Answer<'_>,
        found: Option<ItemRef<'_>>,
        tally: &mut Tally,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let touch = answer.touch();
        let wants_cas = answer.wants_cas();
        // Only a handle can change an item.
        let mut value = found.and_then(|found| {
            let changes = touch.is_some() || (wants_cas && found.tag().is_none());
            Value::of(found, self.keys(), key, changes)
        });
        tally.answered += 1;
        tally.hits += u64::from(value.is_some());
        let command = match answer {
            Answer::Value { touch: Some(_), .. } => "gat",
            Answer::Meta(_) => "mg",
            Answer::Value { .. } | Answer::Binary(_) => "get",
        };
        self.note_read(command, key, value.as_ref().map(|value| value.len()), touch);
        // First, as one that is removed gets none any more.
        if wants_cas {
            value = value.map(|value| self.with_token(value));
        }
        if let Some(exptime) = touch {
            tally.touched += 1;
            value = value.map(|value| match value {
                Value::Held(item) => {
                    tally.touch_hits += 1;
                    Value::Held(self.set_expiration(item, ExpiresAt::new(exptime, self.now_secs)))
                }
                shown => shown,
            });
        }
        match answer {
            Answer::Value { with_cas, last, .. } => {
                if let Some(value) = value {
                    let cas = with_cas.then(|| self.cas_of(&value));
                    write_value(key, value, cas, output);
                }
                if last {
                    output.write(Reply::End.as_bytes());
                }
            }
            Answer::Meta(flags) => {
                self.counters.add(Counter::Meta, 1);
                self.answer_meta_get(key, &flags, value, output);
            }
            Answer::Binary(get) => {
                let value = value.map(|value| {
                    let cas = self.cas_of(&value);
                    (value, cas)
                });
                get.write(key, value, output);
            }
        }
    }
}

/// Writes `VALUE`, the data and its line end.
#[inline]
fn write_value<'c>(key: &[u8], value: Value<'_, 'c>, cas: Option<u64>, output: &mut Output<ReadHandle<'c>>) {
    let flags = shown_flags(value.client_flags());
    output.compose(|out| reply::value_header(out, key, flags, value.len(), cas));
    value.send(output);
    output.write(b"\r\n");
}
