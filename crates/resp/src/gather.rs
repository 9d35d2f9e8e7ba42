//! Look-ups of `GET`s that follow one another, and of the keys of `MGET`, which are gathered and
//! made together, so that they wait for memory together.

use frontend::deadline::is_over;
use frontend::lookup::Value;
use frontend::output::MIN_IN_PLACE_BYTES;
use frontend::turn::Next;
use protocol::resp::commands::{Command, Str, number};
use protocol::resp::reply;

use super::active_turn::ActiveTurn;
use super::several::Whole;
use super::slow::MOST_ARGS;
use super::writer::{Failure, Writer};

/// The most that an answer with a small value takes, with the head of an array before it.
const MAX_SMALL_ANSWER_BYTES: usize = MIN_IN_PLACE_BYTES + 64;

/// The form of a lookup's answer: a value, with the head of an array of this length before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) array: Option<u32>,
    /// It is not one of several keys.
    pub(super) is_single: bool,
    /// No key of the same command comes behind it.
    pub(super) is_last: bool,
}

impl<'i> ActiveTurn<'_, '_, 'i> {
    /// Gathers the keys of a `GET`, or of an `MGET` of this many.
    pub(super) fn gather(&mut self, input: &'i [u8], consumed: usize, array: Option<u32>) -> Option<Next> {
        if self.hands_over() && self.parser.arg_count() > MOST_ARGS {
            return self.answer_batch().or_else(|| {
                self.parser.restart();
                Some(Next::Slow)
            });
        }
        let mut whole = match self.begin_whole(self.parser.arg_count() - 1) {
            Ok(whole) => whole,
            Err(next) => return Some(next),
        };
        loop {
            if let Some(next) = self.gather_keys(input, consumed, array, whole.as_ref()) {
                return Some(next);
            }
            match whole.as_mut().map_or(Ok(true), |whole| self.end_whole(whole)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(next) => return Some(next),
            }
        }
        *self.answered_keys = 0;
        self.position += consumed;
        const GET: usize = number("get");
        const MGET: usize = number("mget");
        let (command, number) = if array.is_some() { (Str::MGet, MGET) } else { (Str::Get, GET) };
        self.gathered.last = number;
        self.commands.end_caching(Command::Str(command));
        None
    }

    /// Gathers the keys that are not answered yet.
    pub(super) fn gather_keys(
        &mut self,
        input: &'i [u8],
        consumed: usize,
        array: Option<u32>,
        whole: Option<&Whole>,
    ) -> Option<Next> {
        for index in *self.answered_keys..self.parser.arg_count() - 1 {
            if self.batch.is_full()
                && let Some(next) = self.answer_part(whole).or_else(|| self.pause_within(index, whole))
            {
                return Some(whole.map_or(next, |whole| self.drain_whole(whole, next)));
            }
            let key = self.parser.arg(input, index + 1).unwrap_or_default();
            if let Some(account) = self.commands.elsewhere(Some(key)) {
                if let Some(next) = self.answer_batch() {
                    return Some(next);
                }
                *self.answered_keys = index;
                self.moves_to = Some(account);
                return Some(self.move_on(consumed));
            }
            self.commands.remember(key);
            let (is_single, is_last) = (array.is_none(), index + 2 == self.parser.arg_count());
            let answer = Answer { array: array.filter(|_| index == 0), is_single, is_last };
            self.batch.push(key, answer, self.position, index);
        }
        None
    }

    /// Has the turn end before this key of the request at the front, where it has answered as many
    /// as it may.
    pub(super) fn pause_within(&mut self, index: usize, whole: Option<&Whole>) -> Option<Next> {
        if whole.is_some() || self.answered < self.commands.settings.max_requests_per_turn {
            return None;
        }
        *self.answered_keys = index;
        self.parser.restart();
        Some(Next::Again)
    }

    /// Answers the lookups that were gathered. Where the output gets too large meanwhile, the turn
    /// ends, and goes on from there with the next.
    pub(super) fn answer_batch(&mut self) -> Option<Next> {
        self.answer_up_to(self.commands.settings.max_output_bytes)
    }

    /// As [`Self::answer_batch`], for keys of a request that is answered as a whole, if so.
    pub(super) fn answer_part(&mut self, whole: Option<&Whole>) -> Option<Next> {
        match whole {
            Some(_) => self.answer_up_to(self.commands.settings.max_whole_bytes),
            None => self.answer_batch(),
        }
    }

    fn answer_up_to(&mut self, max_output_bytes: usize) -> Option<Next> {
        if self.batch.is_empty() {
            return None;
        }
        let commands = &self.commands;
        let clock = &commands.shared.clock;
        let is_timed = commands.is_timed || !commands.counters.times.knows(self.gathered.last);
        let since = self.mark.take().filter(|_| is_timed);
        let since = since.or_else(|| is_timed.then(|| clock.monotonic_nanos()));
        let gathered = &mut self.gathered;
        let version = commands.client.version;
        let space = commands.keys();
        let (mut hits, mut misses) = (0, 0);
        let bounds = (max_output_bytes, MAX_SMALL_ANSWER_BYTES);
        let done = self.batch.look_up(space, self.output, bounds, |key, answer, found, output| {
            if let Some(len) = answer.array {
                output.compose(|out| reply::array(out, len as usize));
            }
            let mut value = found
                .and_then(|found| Value::of(found, space, key, false))
                .filter(|value| !is_over(value.expires_at(), value.client_flags(), || commands.now_millis()));
            if answer.is_single && found.is_some() && value.is_none() {
                // A collection, or something that was replaced meanwhile.
                value = match commands.peek(key) {
                    Some(item) if item.is_structured() => {
                        hits += 1;
                        gathered.note(answer, true);
                        return Writer { output, version }.failure(&Failure::WRONG_TYPE);
                    }
                    item => item.map(Value::Held),
                };
            }
            *if value.is_some() { &mut hits } else { &mut misses } += 1;
            gathered.note(answer, false);
            let command = if answer.is_single { "get" } else { "mget" };
            commands.note_read(command, key, value.as_ref().map(|value| value.len()));
            Writer { output, version }.value(value);
        });
        commands.count_reads(hits, misses);
        self.mark = since.map(|_| clock.monotonic_nanos());
        let nanos = since.zip(self.mark).map(|(since, now)| now.saturating_sub(since));
        commands.count_gathered(gathered, nanos);
        self.answered += done;
        if self.commands.sampled.is_some()
            && let Some(since) = since
        {
            self.commands.trace_step("get", self.batch.first_key(), done, since);
        }
        if let Some((position, key_index)) = self.batch.place_of(done) {
            *self.answered_keys = key_index;
            // What was parsed beyond that place is parsed again; the request at the front, of
            // however many keys, is not.
            if self.position != position {
                self.position = position;
            }
            self.parser.restart();
            return Some(Next::AwaitSend);
        }
        self.batch.clear();
        None
    }
}
