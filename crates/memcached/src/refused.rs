//! Input that is not a request, and values that have to be waited for.

use super::active_turn::ActiveTurn;
use super::wire::refusal_counter;
use frontend::turn::{MIN_DIRECT_BYTES, Next};
use protocol::memcached::{Parse, Refusal, StoreCommand, StoreHeader, WireError};
use tenancy::metrics::Counter;

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Handles a parser result that is not a whole request.
    pub(super) fn other(&mut self, parse: Parse<'i>) -> Option<Next> {
        if let Some(next) = self.answer_batch() {
            return Some(next);
        }
        if let Parse::NeedData { header, .. } | Parse::TooLarge { header, .. } = &parse
            && let Some(next) = self.switch_tenant(Some(header.key))
        {
            return Some(next);
        }
        match parse {
            Parse::Incomplete { .. } => return Some(Next::Input),
            Parse::NeedData { header, header_len, .. } => {
                return self.wait_for_value(&header, header_len);
            }
            Parse::TooLarge { header, refusal, consumed } => {
                self.commands.counters.add(Counter::RefusedSize, 1);
                if self.commands.denies_store(&header).is_none() {
                    self.commands.forget_refused(&header);
                }
                self.position += consumed;
                return self.refuse(refusal);
            }
            Parse::Refused { refusal, consumed } => {
                self.position += consumed;
                self.commands.counters.add(refusal_counter(refusal.error), 1);
                return self.refuse(refusal);
            }
            Parse::Skipped { consumed } => self.position += consumed,
            Parse::Request { .. } => {}
        }
        None
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) -> Option<Next> {
        self.answered += 1;
        if refusal.error == WireError::Http {
            self.commands.shared.warn_of_http(self.commands.info);
        }
        if !refusal.quiet {
            self.output.write(refusal.error.as_bytes());
        }
        refusal.close.then_some(Next::Close(Counter::ClosedRefused))
    }

    /// Makes the item for a large value, so that it is received there; a small one is waited for.
    pub(super) fn wait_for_value(&mut self, header: &StoreHeader<'_>, header_len: usize) -> Option<Next> {
        let appends = matches!(header.command, StoreCommand::Append | StoreCommand::Prepend);
        // What depends on an item beneath memory waits for that once it is whole.
        let depends = self.commands.shared.cache.has_secondary() && !header.overwrites();
        if header.data_len < MIN_DIRECT_BYTES || appends || depends {
            return Some(Next::Input);
        }
        let line =
            self.input.get(self.position..).and_then(|rest| rest.get(..header_len)).unwrap_or_default();
        *self.incoming = Some(self.commands.begin_incoming(*self.wire, line, header));
        self.position += header_len;
        None
    }
}
