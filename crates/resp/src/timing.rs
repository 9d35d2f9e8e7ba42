//! Counters of each command: calls, their outcomes, and the time that they took.
//!
//! Batched lookups share their time equally.

use super::commands::Commands;
use super::gather::Answer;
use super::writer::{Failure, Outcome};
use frontend::slow;
use protocol::resp::commands::{SPECS, number};
use tenancy::metrics::{Counter, Ended};
use tenancy::spikes::{Event, Spike};

const EXEC: usize = number("exec");
const GET: usize = number("get");
const MGET: usize = number("mget");

/// The commands in a batch of lookups.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The number of the command that was gathered last.
    pub(super) last: usize,
    gets: u64,
    failed_gets: u64,
    mgets: u64,
    keys_of_mgets: u64,
    /// Time of the keys of an `MGET` that is not at its end.
    nanos_before: u64,
}

impl Gathered {
    /// A lookup was answered.
    #[inline]
    pub(super) fn note(&mut self, answer: Answer, has_failed: bool) {
        if answer.is_single {
            self.gets += 1;
            self.failed_gets += u64::from(has_failed);
        } else {
            self.keys_of_mgets += 1;
            self.mgets += u64::from(answer.is_last);
        }
    }
}

impl Commands<'_, '_> {
    /// Counts a call that was carried out, by its number.
    pub(super) fn count_call(&self, number: usize, outcome: &Outcome) {
        let ended = if outcome.is_ok() { Ended::Well } else { Ended::Failed };
        self.counters.add_calls(number, ended, 1);
        self.info.figures.note_command(number);
        self.untimed.set(Some(number));
    }

    /// Counts a call that was refused before it was carried out.
    pub(super) fn count_rejected(&self, number: usize) {
        self.counters.add_calls(number, Ended::Rejected, 1);
    }

    /// Counts an error that is the answer to something.
    pub(super) fn count_error(&self, failure: &Failure) {
        self.counters.add_error(failure.code());
    }

    /// Notes that the call that was carried out last took `nanos`, if one was.
    pub(super) fn note_time(&self, args: &[&[u8]], nanos: u64) {
        self.note_time_of(|| slow::shortened(args), nanos);
    }

    /// As [`Self::note_time`], where `args` makes what the slow log keeps of the request.
    pub(super) fn note_time_of(&self, args: impl FnOnce() -> Vec<Vec<u8>>, nanos: u64) {
        let Some(number) = self.untimed.take() else { return };
        self.counters.times.add(number, nanos, 1, self.shared.cache.ledger());
        let is_fast = SPECS.get(number).is_some_and(|spec| spec.has_flag("fast"));
        self.note_spike(if is_fast { Event::FastCommand } else { Event::Command }, nanos);
        // Of a transaction the slow log has the slow commands, as Redis's does.
        if number != EXEC {
            self.note_slow(args, nanos);
        }
    }

    /// Keeps that a command took `nanos`, if that is long.
    fn note_spike(&self, event: Event, nanos: u64) {
        if self.settings.latency_nanos.is_none_or(|least| nanos < least) {
            return;
        }
        self.counters.add(
            match event {
                Event::Command => Counter::SlowCommand,
                Event::FastCommand => Counter::SlowFastCommand,
            },
            1,
        );
        let spike = Spike { at_secs: self.shared.clock.unix_secs(), millis: nanos / 1_000_000 };
        self.account.tenant.spikes.add(event, spike, self.shared.cache.ledger());
    }

    /// Counts lookups that were made together, in `nanos`, if they were timed, and forgets them.
    pub(super) fn count_gathered(&self, gathered: &mut Gathered, nanos: Option<u64>) {
        let Gathered { last, gets, failed_gets, mgets, keys_of_mgets, nanos_before } =
            std::mem::take(gathered);
        gathered.last = last;
        self.info.figures.note_command(last);
        for (number, ended, calls) in [
            (GET, Ended::Well, gets - failed_gets),
            (GET, Ended::Failed, failed_gets),
            (MGET, Ended::Well, mgets),
        ] {
            if calls > 0 {
                self.counters.add_calls(number, ended, calls);
            }
        }
        (0..failed_gets).for_each(|_| self.count_error(&Failure::WRONG_TYPE));
        let Some(each) = nanos.and_then(|nanos| nanos.checked_div(gets + keys_of_mgets)) else { return };
        self.note_spike(Event::FastCommand, each);
        let ledger = self.shared.cache.ledger();
        if gets > 0 {
            self.counters.times.add(GET, each, gets, ledger);
        }
        let of_mgets = nanos_before + each * keys_of_mgets;
        match of_mgets.checked_div(mgets) {
            Some(each) => self.counters.times.add(MGET, each, mgets, ledger),
            None => gathered.nanos_before = of_mgets,
        }
    }
}
