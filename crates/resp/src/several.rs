//! Commands about several keys, which are seen, or see others, as a whole:
//! see [`tenancy::multi_key`].
//!
//! Reads of so many keys that their answer does not fit into the output of a connection
//! (`limits.max_output_buffer_bytes`) are the exception: they are answered part by part, and each
//! part is of one moment.

use super::active_turn::{ActiveTurn, Done};
use frontend::output::End;
use frontend::turn::Next;
use protocol::resp::commands::Spec;
use tenancy::multi_key::ReadMark;

/// Keys that are looked up in one turn, whatever a turn may have else.
const TOGETHER: usize = 1_024;
/// Reads that found that others wrote meanwhile, before the turn ends.
const TRIES: usize = 16;

/// An `MGET` that is being gathered, as it began.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    seen: ReadMark,
    end: End,
    answered: usize,
    tries: usize,
}

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Carries out a command that writes several keys.
    pub(super) fn write_several(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Done {
        // A thread that others preempt would let them wait for too long.
        if self.is_slow_thread {
            return self.exclusively(spec, args);
        }
        let Some(writing) = self.commands.pool.gate.several.write() else { return Done::Later };
        self.commands.run(spec, args, self.output);
        drop(writing);
        Done::Yes
    }

    /// Carries out a command that reads several keys.
    pub(super) fn read_several(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Done {
        let several = &self.commands.pool.gate.several;
        for _ in 0..TRIES {
            let Some(seen) = several.look() else { return Done::Later };
            let end = self.output.end();
            self.commands.run(spec, args, self.output);
            if several.is_as(seen) {
                return Done::Yes;
            }
            self.output.rewind(end);
        }
        if self.is_slow_thread { self.exclusively(spec, args) } else { Done::Later }
    }

    /// Begins with an `MGET` of `keys` keys, if it is one that is answered as a whole. `Err` ends
    /// the turn.
    pub(super) fn begin_whole(&mut self, keys: usize) -> Result<Option<Whole>, Next> {
        if !(2..=TOGETHER).contains(&keys) || *self.answered_keys > 0 {
            return Ok(None);
        }
        // What was gathered before it is answered before it is looked up.
        if let Some(next) = self.answer_batch() {
            return Err(next);
        }
        let Some(seen) = self.commands.pool.gate.several.look() else {
            self.parser.restart();
            return Err(Next::AwaitGate);
        };
        Ok(Some(Whole { seen, end: self.output.end(), answered: self.answered, tries: 0 }))
    }

    /// Ends an `MGET` whose keys were gathered, and looked up as far as there was no room for more.
    /// `Some` ends the turn, `Ok(false)`: it is to be gathered again.
    pub(super) fn end_whole(&mut self, whole: &mut Whole) -> Result<bool, Next> {
        if let Some(next) = self.answer_part(Some(whole)) {
            return Err(self.drain_whole(whole, next));
        }
        let several = &self.commands.pool.gate.several;
        if several.is_as(whole.seen) {
            return Ok(true);
        }
        self.output.rewind(whole.end);
        self.answered = whole.answered;
        whole.tries += 1;
        match several.look().filter(|_| whole.tries < TRIES) {
            Some(seen) => {
                whole.seen = seen;
                Ok(false)
            }
            None => {
                self.parser.restart();
                Err(Next::AwaitGate)
            }
        }
    }

    /// The output was full before the answer was complete: where there was something in it before,
    /// the answer begins with the next turn, which has more room.
    pub(super) fn drain_whole(&mut self, whole: &Whole, next: Next) -> Next {
        if next == Next::AwaitSend && !whole.end.is_start() {
            self.output.rewind(whole.end);
            self.answered = whole.answered;
            *self.answered_keys = 0;
            self.batch.clear();
            self.parser.restart();
        }
        next
    }
}
