//! A large value on its way, received straight into the item it will be.
//!
//! The command line is kept and parsed again at the end: what borrows from it cannot outlive the
//! receive buffer.

use frontend::output::Output;
use millpond::ReadHandle;
use protocol::memcached::{DataBlock, DataState, Limits, Parse, Parser, StoreHeader, WireError, binary};

use super::binary::report_binary;
use super::commands::Commands;
use super::permission::Denial;
use super::store::{Draft, Stored};
use super::wire::{Wire, refusal_counter, respond};

/// A storage command of which the data has not arrived whole.
pub(crate) struct Incoming<'c> {
    wire: Wire,
    /// The command line with its line end; in binary, header, extras and key.
    line: Vec<u8>,
    /// The item, or why there is none, and the data is dropped.
    draft: Result<Draft<'c>, Unready>,
    block: DataBlock,
    /// Bytes of the value that are in the item.
    filled: usize,
}

/// The reason why there is no item for a value.
enum Unready {
    /// There is no room.
    NoRoom(WireError),
    /// The client may not store it.
    Denied(Denial),
}

impl Incoming<'_> {
    /// Item memory that cannot be evicted meanwhile.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.draft {
            Ok(Draft { item: Some(_), .. }) => self.filled.saturating_add(self.block.data_left()),
            _ => 0,
        }
    }

    /// Returns the buffer for the missing bytes; `None` if they are dropped or complete.
    pub(crate) fn buffer(&mut self) -> Option<&mut [u8]> {
        let Ok(Draft { item: Some(item), .. }) = &mut self.draft else { return None };
        item.value_mut().get_mut(self.filled..).filter(|rest| !rest.is_empty())
    }

    /// Notes that `bytes` were put into [`Self::buffer`].
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.filled = self.filled.saturating_add(bytes);
        self.block.advance(bytes);
    }

    /// Takes what belongs to it from the front of `input`, and returns how much that was.
    pub(super) fn take(&mut self, input: &[u8]) -> usize {
        let part = self.block.take(input);
        if let Some(rest) = self.buffer()
            && let Some(place) = rest.get_mut(..part.data.len())
        {
            place.copy_from_slice(part.data);
        }
        self.filled = self.filled.saturating_add(part.data.len());
        part.consumed
    }

    /// Returns whether the data and its line end have arrived.
    pub(super) fn is_complete(&self) -> bool {
        !matches!(self.block.state(), DataState::Missing(_))
    }
}

impl<'c> Commands<'_, 'c> {
    /// Makes the item for a storage command whose data is still to come.
    pub(super) fn begin_incoming(
        &mut self,
        wire: Wire,
        line: &[u8],
        header: &StoreHeader<'_>,
    ) -> Incoming<'c> {
        let draft = match self.denies_store(header) {
            Some(denial) => Err(Unready::Denied(denial)),
            None => self
                .with_key(header.key, |commands, key| commands.draft(header, key, header.data_len))
                .map_err(Unready::NoRoom),
        };
        let block = match wire {
            Wire::Binary => DataBlock::bare(header.data_len),
            Wire::Text | Wire::Unknown => DataBlock::new(header.data_len),
        };
        Incoming { wire, line: line.to_vec(), draft, block, filled: 0 }
    }

    /// Carries out a storage command whose data has arrived.
    pub(super) fn finish_incoming(&mut self, incoming: Incoming<'c>, output: &mut Output<ReadHandle<'c>>) {
        let Incoming { wire, line, draft, block, .. } = incoming;
        // It was within its limits when it began; they may have changed since.
        let unbounded = Limits {
            max_line_bytes: usize::MAX,
            max_get_line_bytes: usize::MAX,
            max_keys: usize::MAX,
            max_item_bytes: usize::MAX,
            skip_refused_data: false,
        };
        if wire == Wire::Binary {
            if let binary::Parse::NeedData { store, .. } = binary::Parser::new(unbounded).parse(&line) {
                match self.commit_incoming(&store.header, draft) {
                    Ok(outcome) => report_binary(store.head, &store.header, outcome, output),
                    Err(denial) => self.answer_denied(store.head, &denial, output),
                }
            }
            return;
        }
        let mut parser = Parser::new(unbounded);
        let Parse::NeedData { header, .. } = parser.parse(&line) else { return };
        if block.state() == DataState::Bad {
            self.counters.add(refusal_counter(WireError::BadDataChunk), 1);
            return respond(output, header.noreply, WireError::BadDataChunk.as_bytes());
        }
        match self.commit_incoming(&header, draft) {
            Ok(outcome) => self.report(&header, outcome, output),
            Err(denial) => self.answer_denied_line(header.noreply, &denial, output),
        }
    }

    /// Puts what has arrived in its place.
    ///
    /// # Errors
    /// Why the client may not have it there.
    fn commit_incoming(
        &mut self,
        header: &StoreHeader<'_>,
        draft: Result<Draft<'c>, Unready>,
    ) -> Result<Stored, Denial> {
        let draft = match draft {
            // The item would be nowhere: its pool goes, too.
            Ok(_) if self.tenant.is_being_removed() => Err(WireError::OutOfMemoryStoring),
            Ok(draft) => Ok(draft),
            Err(Unready::NoRoom(error)) => Err(error),
            Err(Unready::Denied(denial)) => return Err(denial),
        };
        let outcome = self.with_key(header.key, |commands, key| match draft {
            Ok(mut draft) => {
                // Tokens ascend in the order of what is stored, so this one is drawn only now.
                draft.cas = commands.new_cas(header);
                if let Some(item) = &mut draft.item {
                    item.set_cas(draft.cas);
                }
                commands.commit(header, key, draft)
            }
            Err(error) => commands.fail(header, key, error),
        });
        self.count(header, header.data_len, outcome);
        Ok(outcome)
    }
}
