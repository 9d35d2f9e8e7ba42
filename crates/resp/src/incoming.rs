//! A large value on its way, received straight into the item it will be.
//!
//! What of the request came before the value is kept; what comes behind it is parsed when the value
//! is there.

use millpond::WriteHandle;
use protocol::resp::PendingBulk;

use super::active_turn::{ActiveTurn, Done};
use super::client::Replies;
use super::set::{NewValue, Setter};
use super::writer::{Failure, Writer};
use frontend::deadline::{ROOM, StoredExpiry};
use frontend::turn::{MIN_DIRECT_BYTES, Next};
use protocol::resp::commands::Spec;

/// A command that sets a value which has not arrived whole.
pub(crate) struct Incoming<'c> {
    spec: &'static Spec,
    setter: Setter,
    /// The arguments before the value.
    before: Vec<Vec<u8>>,
    /// The item, or an error where there is no room, and the value is dropped.
    item: Result<WriteHandle<'c>, Failure>,
    value_len: usize,
    /// Bytes of the value and its line end that have come.
    filled: usize,
}

impl Incoming<'_> {
    /// Item memory that cannot be evicted meanwhile.
    pub(super) fn held_bytes(&self) -> usize {
        if self.item.is_ok() { self.value_len } else { 0 }
    }

    /// Returns the buffer for the missing bytes; `None` if they are dropped or complete.
    pub(super) fn buffer(&mut self) -> Option<&mut [u8]> {
        let Ok(item) = &mut self.item else { return None };
        item.value_mut().get_mut(self.filled..).filter(|rest| !rest.is_empty())
    }

    /// Notes that `bytes` were put into [`Self::buffer`].
    pub(super) fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// Returns whether the value and its line end have arrived.
    pub(super) fn is_filled(&self) -> bool {
        self.filled == self.value_len + 2
    }

    /// Takes what belongs to it from the front of `input`, and returns how much that was.
    fn take(&mut self, input: &[u8]) -> usize {
        let part = input.get(..self.value_len + 2 - self.filled).unwrap_or(input);
        if let Some(place) = self.buffer() {
            let len = place.len().min(part.len());
            if let (Some(to), Some(from)) = (place.get_mut(..len), part.get(..len)) {
                to.copy_from_slice(from);
            }
        }
        self.filled += part.len();
        part.len()
    }
}

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Returns whether a large value at the front must wait for the end of the pause of the
    /// tenant's clients.
    pub(super) fn must_wait_with_value(&self) -> bool {
        self.commands.paused.get().is_some()
            && self.parser.pending().is_some_and(|pending| pending.len >= MIN_DIRECT_BYTES)
    }

    /// If the front of `input` is a command that sets a large value, of which a part has arrived:
    /// makes the item, so that the rest is received into it.
    pub(super) fn begin_incoming(&mut self, input: &'i [u8]) -> bool {
        let Some(PendingBulk { index, len, start, .. }) = self.parser.pending() else { return false };
        // Over a cache beneath memory, the command waits for its item once it is whole.
        if len < MIN_DIRECT_BYTES
            || self.commands.client.transaction.is_some()
            || self.commands.shared.cache.has_secondary()
        {
            return false;
        }
        let name = self.parser.arg(input, 0).unwrap_or_default();
        let Some(spec) = Spec::find(name) else { return false };
        let Some(setter) = Setter::of(spec.command).filter(|setter| index == setter.value_index()) else {
            return false;
        };
        if self.commands.identity.is_restricted {
            let args: Vec<&[u8]> = (0..index).filter_map(|index| self.parser.arg(input, index)).collect();
            // It is received as others are, and then refused.
            if !self.commands.identity.allows(spec, &args) {
                return false;
            }
        }
        let before: Vec<Vec<u8>> =
            (0..index).filter_map(|index| self.parser.arg(input, index)).map(<[u8]>::to_vec).collect();
        let key = before.get(1).map(Vec::as_slice).unwrap_or_default();
        self.moves_to = self.commands.elsewhere(Some(key));
        if self.moves_to.is_some() {
            return false;
        }
        let stamp = StoredExpiry { expires_at: None, client_flags: ROOM };
        let item = self.commands.allocate(key, len, stamp);
        *self.incoming = Some(Incoming { spec, setter, before, item, value_len: len, filled: 0 });
        self.parser.leave_pending();
        self.position += start;
        true
    }

    /// Goes on with a large value. `Some` where it is not complete.
    pub(super) fn receive_value(&mut self) -> Option<Next> {
        let incoming = self.incoming.as_mut()?;
        if incoming.is_filled() {
            return None;
        }
        self.position += incoming.take(self.input.get(self.position..).unwrap_or_default());
        (!incoming.is_filled()).then_some(Next::Input)
    }

    /// Carries out a command whose value has arrived, and the arguments behind it, which are of
    /// `consumed` bytes.
    pub(super) fn finish_incoming(&mut self, input: &'i [u8], consumed: usize) -> Option<Next> {
        let Incoming { spec, setter, before, item, value_len, .. } = self.incoming.take()?;
        let behind: Vec<&[u8]> =
            (0..self.parser.arg_count()).filter_map(|index| self.parser.arg(input, index)).collect();
        let before: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        self.position += consumed;
        self.answered += 1;
        let replies = self.commands.client.replies;
        let end = self.output.end();
        let clock = &self.commands.shared.clock;
        let since = self.commands.is_timed.then(|| clock.monotonic_nanos());
        let takes = spec.takes(before.len() + 1 + behind.len());
        let outcome = if takes && self.commands.present.tenant.is_being_removed() {
            // The item would be nowhere: its pool goes, too.
            Err(Failure::TENANT_REMOVED)
        } else if takes {
            let mut writer = Writer { output: &mut *self.output, version: self.commands.client.version };
            item.and_then(|item| {
                let value = NewValue::Item(Some(item));
                self.commands.set_command(setter, (&before, &behind), value, &mut writer)
            })
        } else {
            Err(Failure::wrong_number(spec.name))
        };
        if takes {
            self.commands.count_call(spec.number, &outcome);
            let nanos = since.map(|since| clock.monotonic_nanos().saturating_sub(since));
            nanos.into_iter().for_each(|nanos| self.commands.note_time(&before, nanos));
        } else {
            self.commands.count_rejected(spec.number);
        }
        self.commands.note_request(spec, &before, Some(value_len), outcome.is_ok());
        if let Err(failure) = outcome {
            self.fail(&failure);
        }
        if replies != Replies::On {
            self.withhold(replies, end, &Done::Yes);
        }
        None
    }
}
