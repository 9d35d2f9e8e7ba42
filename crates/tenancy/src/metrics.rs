//! The server's counters, declared in one place with the names under which they are shown.
//!
//! Every tenant at every listener has its own block of counters, so that each figure can be split
//! by tenant and by listener. memcached's `stats` shows sums over all listeners, less what they
//! were at the last `stats reset`; Prometheus shows the plain sums, which never go back.

use protocol::resp::commands::NUMBERS;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Ledger;
use base::counter::Counters;

use crate::times::{CallTimes, TimeSum};

/// A group of counters with one name and help in Prometheus; its members differ by labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, without `_total`.
    pub name: &'static str,
    /// The help text: what the family counts.
    pub help: &'static str,
}

const REQUESTS: Family = Family {
    name: "millpond_server_requests",
    help: "Requests answered, by command and outcome; each key of a retrieval is one.",
};
const REFUSALS: Family = Family {
    name: "millpond_server_refusals",
    help: "Requests refused, by the limit or rule that they broke.",
};
const CLOSES: Family = Family { name: "millpond_server_closes", help: "Connections closed, by reason." };
const ACCEPTED: Family =
    Family { name: "millpond_server_accepted_connections", help: "Connections accepted." };
const ANSWERED: Family = Family {
    name: "millpond_server_answered_requests",
    help: "Requests answered, whatever they were; each key of a retrieval is one.",
};
const PAUSES: Family = Family {
    name: "millpond_server_pauses",
    help: "Times that a connection had to wait, by reason: others' turn, its client not reading, its tenant's rate, CLIENT PAUSE, a slow command, a wrong password.",
};
const RECEIVED: Family =
    Family { name: "millpond_server_received_bytes", help: "Bytes received from clients." };
const SENT: Family = Family { name: "millpond_server_sent_bytes", help: "Bytes sent to clients." };

const SPIKES: Family = Family {
    name: "millpond_server_latency_events",
    help: "Commands of RESP that took as long as watch.latency_monitor_millis or longer, by whether they should be fast.",
};

const TLS_HANDSHAKES: Family =
    Family { name: "millpond_server_tls_handshakes", help: "Handshakes of TLS that succeeded, by kind." };
const TLS_FAILURES: Family = Family {
    name: "millpond_server_tls_failures",
    help: "Handshakes of TLS that failed, and connections that broke its rules, by reason.",
};

/// How one counter is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The family that it is one of.
    pub family: Family,
    /// The labels that distinguish it within the family.
    pub labels: &'static [(&'static str, &'static str)],
}

/// Declares the counters: variant, doc, family, labels.
macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident: $family:ident { $($label:ident = $value:literal),* },)+) => {
        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "family and labels say what a counter counts")]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $variant),+ }

        impl Counter {
            /// All counters, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Family and labels.
            pub const fn shown(self) -> Shown {
                match self {
                    $(Self::$variant => Shown { family: $family, labels: &[$((stringify!($label), $value)),*] }),+
                }
            }
        }
    };
}

counters! {
    GetHits: REQUESTS { command = "get", outcome = "hit" },
    GetMisses: REQUESTS { command = "get", outcome = "miss" },
    TouchHits: REQUESTS { command = "touch", outcome = "hit" },
    TouchMisses: REQUESTS { command = "touch", outcome = "miss" },
    Stored: REQUESTS { command = "set", outcome = "stored" },
    NotStored: REQUESTS { command = "set", outcome = "not_stored" },
    CasHits: REQUESTS { command = "cas", outcome = "hit" },
    CasMisses: REQUESTS { command = "cas", outcome = "miss" },
    CasBadValue: REQUESTS { command = "cas", outcome = "changed" },
    DeleteHits: REQUESTS { command = "delete", outcome = "hit" },
    DeleteMisses: REQUESTS { command = "delete", outcome = "miss" },
    IncrHits: REQUESTS { command = "incr", outcome = "hit" },
    IncrMisses: REQUESTS { command = "incr", outcome = "miss" },
    DecrHits: REQUESTS { command = "decr", outcome = "hit" },
    DecrMisses: REQUESTS { command = "decr", outcome = "miss" },
    Flushes: REQUESTS { command = "flush_all", outcome = "done" },
    /// Right passwords.
    LoggedIn: REQUESTS { command = "auth", outcome = "accepted" },
    /// Meta commands, which are also counted as the command that they stand for.
    Meta: REQUESTS { command = "meta", outcome = "any" },
    /// Touches, by `touch`, `gat` and `mg` with `T`, whatever came of them.
    Touches: REQUESTS { command = "touch", outcome = "any" },
    RefusedLine: REFUSALS { reason = "malformed" },
    RefusedLineLength: REFUSALS { reason = "line_too_long" },
    RefusedHttp: REFUSALS { reason = "http" },
    RefusedKeys: REFUSALS { reason = "too_many_keys" },
    RefusedSize: REFUSALS { reason = "item_too_large" },
    RefusedNobody: REFUSALS { reason = "not_authenticated" },
    RefusedPassword: REFUSALS { reason = "wrong_password" },
    RefusedPermission: REFUSALS { reason = "no_permission" },
    RefusedMemory: REFUSALS { reason = "out_of_memory" },
    RefusedConnection: REFUSALS { reason = "too_many_connections" },
    RefusedDescriptor: REFUSALS { reason = "no_descriptor" },
    ClosedByClient: CLOSES { reason = "client" },
    ClosedByQuit: CLOSES { reason = "quit" },
    ClosedRefused: CLOSES { reason = "refused" },
    ClosedIdle: CLOSES { reason = "idle" },
    ClosedStalled: CLOSES { reason = "stalled" },
    ClosedMemory: CLOSES { reason = "memory" },
    ClosedBroken: CLOSES { reason = "broken" },
    ClosedDrained: CLOSES { reason = "drained" },
    ClosedTls: CLOSES { reason = "tls" },
    Accepted: ACCEPTED {},
    Answered: ANSWERED {},
    PausedTurn: PAUSES { reason = "turn" },
    PausedOutput: PAUSES { reason = "output" },
    PausedRate: PAUSES { reason = "rate" },
    PausedByClient: PAUSES { reason = "client" },
    PausedSlow: PAUSES { reason = "slow" },
    PausedLogin: PAUSES { reason = "login" },
    ReceivedBytes: RECEIVED {},
    SentBytes: SENT {},
    SlowCommand: SPIKES { event = "command" },
    SlowFastCommand: SPIKES { event = "fast-command" },
    TlsFull: TLS_HANDSHAKES { kind = "full" },
    TlsResumed: TLS_HANDSHAKES { kind = "resumed" },
    TlsTimeout: TLS_FAILURES { reason = "timeout" },
    /// The bytes are not TLS: usually from a client that does not use it.
    TlsNotTls: TLS_FAILURES { reason = "not_tls" },
    /// No version or cipher that both have.
    TlsIncompatible: TLS_FAILURES { reason = "incompatible" },
    TlsClientCertificate: TLS_FAILURES { reason = "client_certificate" },
    /// The client does not accept the server's certificate, or something else.
    TlsRefusedByClient: TLS_FAILURES { reason = "refused_by_client" },
    TlsClosed: TLS_FAILURES { reason = "closed" },
    TlsOther: TLS_FAILURES { reason = "other" },
}

const COUNT: usize = Counter::ALL.len();
const ENDS: usize = 3;
const CALLS: usize = ENDS * NUMBERS;
/// The first words of errors, by which clients distinguish them and `INFO errorstats` counts them.
pub const ERROR_CODES: [&str; 9] =
    ["ERR", "CROSSSLOT", "EXECABORT", "NOAUTH", "NOPERM", "NOPROTO", "OOM", "WRONGPASS", "WRONGTYPE"];

const ERRORS: usize = ERROR_CODES.len();

/// The outcome of a call of a command of RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was answered without an error.
    Well,
    /// It was carried out, and answered by an error.
    Failed,
    /// It was answered by an error before it was carried out: for its arguments, or its user.
    Rejected,
}

/// The family of the counters of calls of RESP.
pub const RESP_COMMANDS: Family = Family {
    name: "millpond_server_resp_commands",
    help: "Commands of RESP carried out, by command and by whether an error was the answer.",
};

/// The counters of one tenant at one listener.
#[derive(Default)]
pub struct ListenerCounters {
    counters: Counters<COUNT>,
    /// Calls of commands of RESP, by number, and by how they ended.
    calls: Counters<CALLS>,
    /// Errors that clients of RESP were answered, by the code that they begin with.
    errors: Counters<ERRORS>,
    /// The durations of commands of RESP.
    pub times: CallTimes,
    /// The counts at the last `stats reset`.
    baseline: Mutex<Option<Box<Baseline>>>,
}

/// Counts that are hidden: those of before the last `stats reset`.
struct Baseline {
    counters: [u64; COUNT],
    calls: [u64; CALLS],
    errors: [u64; ERRORS],
}

impl Default for Baseline {
    fn default() -> Self {
        Self { counters: [0; COUNT], calls: [0; CALLS], errors: [0; ERRORS] }
    }
}

/// The figures of a command of RESP since the last `stats reset`.
#[derive(Clone, Debug, Default)]
pub struct CommandFigures {
    /// By how they ended, in the order of [`Ended`].
    ended: [u64; ENDS],
    /// The durations of those calls that were timed.
    pub times: TimeSum,
}

impl CommandFigures {
    /// Calls that were carried out.
    pub fn calls(&self) -> u64 {
        self.count(Ended::Well) + self.count(Ended::Failed)
    }

    /// Returns the calls that ended so.
    pub fn count(&self, ended: Ended) -> u64 {
        self.ended.get(ended as usize).copied().unwrap_or(0)
    }
}

impl ListenerCounters {
    /// Counts `n` more. No lock, no shared cache line.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.counters.add(counter as usize, n);
    }

    /// Counts `n` calls of a command of RESP, by its [number](NUMBERS).
    #[inline]
    pub fn add_calls(&self, number: usize, ended: Ended, n: u64) {
        self.calls.add(place(number, ended), n);
    }

    /// How often a command of RESP, by its number, ended so since the start.
    pub fn calls_of(&self, number: usize, ended: Ended) -> u64 {
        self.calls.sum(place(number, ended))
    }

    /// Counts an error that a client of RESP was answered, by the place of its code in
    /// [`ERROR_CODES`].
    pub fn add_error(&self, code: usize) {
        self.errors.add(code, 1);
    }

    /// How often that was since the last [`Self::reset`].
    pub fn errors_since_reset(&self, code: usize) -> u64 {
        let before = self.baseline().as_ref().map_or(0, |before| before.errors[code]);
        self.errors.sum(code).wrapping_sub(before)
    }

    /// Adds the figures of all commands of RESP since the last [`Self::reset`] to `sums`.
    pub fn add_to(&self, sums: &mut [CommandFigures]) {
        let baseline = self.baseline();
        for (number, sum) in sums.iter_mut().enumerate().take(NUMBERS) {
            for (slot, ended) in sum.ended.iter_mut().zip([Ended::Well, Ended::Failed, Ended::Rejected]) {
                let before = baseline.as_ref().map_or(0, |before| before.calls[place(number, ended)]);
                *slot += self.calls_of(number, ended).wrapping_sub(before);
            }
            self.times.add_to(number, &mut sum.times);
        }
    }

    /// Adds the counts of `other`, which counts no more; except for the times, whose memory is
    /// released from the ledger.
    pub fn take_over(&self, other: &Self, ledger: &Ledger) {
        other.times.release(ledger);
        let hidden = other.baseline().take().unwrap_or_default();
        let mut baseline = self.baseline();
        let sums = baseline.get_or_insert_default();
        for (at, (slot, before)) in sums.counters.iter_mut().zip(hidden.counters).enumerate() {
            self.counters.add(at, other.counters.sum(at));
            *slot += before;
        }
        for (at, (slot, before)) in sums.calls.iter_mut().zip(hidden.calls).enumerate() {
            self.calls.add(at, other.calls.sum(at));
            *slot += before;
        }
        for (at, (slot, before)) in sums.errors.iter_mut().zip(hidden.errors).enumerate() {
            self.errors.add(at, other.errors.sum(at));
            *slot += before;
        }
    }

    /// All commands of RESP that were carried out since the last [`Self::reset`].
    pub fn calls_since_reset(&self) -> u64 {
        let baseline = self.baseline();
        let of = |at: usize| self.calls.sum(at) - baseline.as_ref().map_or(0, |before| before.calls[at]);
        (0..place(0, Ended::Rejected)).map(of).sum()
    }

    /// The count since the start.
    pub fn total(&self, counter: Counter) -> u64 {
        self.counters.sum(counter as usize)
    }

    /// The count since the last [`Self::reset`].
    pub fn since_reset(&self, counter: Counter) -> u64 {
        let before = self.baseline().as_ref().map_or(0, |before| before.counters[counter as usize]);
        self.total(counter).wrapping_sub(before)
    }

    /// Lets the figures since the last reset begin at zero.
    pub fn reset(&self) {
        let mut before = Box::<Baseline>::default();
        before.counters.iter_mut().enumerate().for_each(|(at, slot)| *slot = self.counters.sum(at));
        before.calls.iter_mut().enumerate().for_each(|(at, slot)| *slot = self.calls.sum(at));
        before.errors.iter_mut().enumerate().for_each(|(at, slot)| *slot = self.errors.sum(at));
        self.times.reset();
        *self.baseline() = Some(before);
    }

    fn baseline(&self) -> MutexGuard<'_, Option<Box<Baseline>>> {
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the index of the counter of a command's calls with this outcome.
const fn place(number: usize, ended: Ended) -> usize {
    ended as usize * NUMBERS + number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_counters_are_shown_alike() {
        let mut shown: Vec<String> = Counter::ALL
            .iter()
            .map(|counter| format!("{} {:?}", counter.shown().family.name, counter.shown().labels))
            .collect();
        shown.sort();
        let all = shown.len();
        shown.dedup();
        assert_eq!(shown.len(), all);
        for counter in Counter::ALL {
            assert_eq!(Counter::ALL[*counter as usize], *counter);
        }
    }

    #[test]
    fn what_is_taken_over_is_counted_as_it_was() {
        let (past, gone) = (ListenerCounters::default(), ListenerCounters::default());
        gone.add(Counter::GetHits, 3);
        gone.reset();
        gone.add(Counter::GetHits, 2);
        gone.add_calls(1, Ended::Well, 1);
        let ledger = Ledger::new(1 << 20);
        gone.times.add(1, 5, 1, &ledger);
        past.take_over(&gone, &ledger);
        assert_eq!((past.since_reset(Counter::GetHits), past.total(Counter::GetHits)), (2, 5));
        assert_eq!((past.calls_of(1, Ended::Well), past.calls_of(1, Ended::Failed)), (1, 0));
        assert_eq!((past.calls_since_reset(), ledger.total()), (1, 0));
    }

    #[test]
    fn a_reset_hides_what_was_and_nothing_more() {
        let counters = ListenerCounters::default();
        counters.add(Counter::GetHits, 3);
        assert_eq!(counters.since_reset(Counter::GetHits), 3);
        counters.reset();
        counters.add(Counter::GetHits, 2);
        assert_eq!((counters.since_reset(Counter::GetHits), counters.total(Counter::GetHits)), (2, 5));
    }

    #[test]
    fn a_reset_hides_calls_and_errors_and_forgets_times() {
        let (counters, ledger) = (ListenerCounters::default(), Ledger::new(1 << 20));
        counters.add_calls(2, Ended::Well, 7);
        counters.add_error(1);
        counters.times.add(2, 1_000, 7, &ledger);
        counters.reset();
        counters.add_calls(2, Ended::Failed, 2);
        counters.add_calls(2, Ended::Rejected, 3);
        let mut sums = vec![CommandFigures::default(); NUMBERS];
        counters.add_to(&mut sums);
        let figures = &sums[2];
        assert_eq!(
            (figures.calls(), figures.count(Ended::Failed), figures.count(Ended::Rejected)),
            (2, 2, 3)
        );
        assert_eq!((figures.times.timed(), counters.calls_since_reset()), (0, 2));
        assert_eq!((counters.errors_since_reset(1), counters.calls_of(2, Ended::Well)), (0, 7));
    }
}
