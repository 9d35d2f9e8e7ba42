//! What the server counts, declared in one place with the names under which it is shown.
//!
//! Every tenant at every listener has its own block of counters, so that each figure can be told apart by whose it is and where
//! its clients come in.
//! memcached's `stats` shows sums over all listeners, less what they were at the last `stats reset`; Prometheus shows the
//! plain sums, which never go back.

use std::sync::Mutex;

use base::counter::Counters;

use crate::resp;

/// A group of counters with one name and help in Prometheus; its members differ by labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The name, without `_total`.
    pub(crate) name: &'static str,
    /// What it counts.
    pub(crate) help: &'static str,
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
    help: "Times that a connection had to wait, by reason: others' turn, its client not reading, its tenant's rate.",
};
const RECEIVED: Family =
    Family { name: "millpond_server_received_bytes", help: "Bytes received from clients." };
const SENT: Family = Family { name: "millpond_server_sent_bytes", help: "Bytes sent to clients." };

const TLS_HANDSHAKES: Family =
    Family { name: "millpond_server_tls_handshakes", help: "Handshakes of TLS that succeeded, by kind." };
const TLS_FAILURES: Family = Family {
    name: "millpond_server_tls_failures",
    help: "Handshakes of TLS that failed, and connections that broke its rules, by reason.",
};

/// How one counter is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) family: Family,
    pub(crate) labels: &'static [(&'static str, &'static str)],
}

/// Declares the counters: variant, doc, family, labels.
macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident: $family:ident { $($label:ident = $value:literal),* },)+) => {
        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Counter { $($(#[$doc])* $variant),+ }

        impl Counter {
            /// All counters, in order.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Family and labels.
            pub(crate) const fn shown(self) -> Shown {
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
    /// Meta commands, which are also counted as what they do.
    Meta: REQUESTS { command = "meta", outcome = "any" },
    /// Touches, by `touch`, `gat` and `mg` with `T`, whatever came of them.
    Touches: REQUESTS { command = "touch", outcome = "any" },
    RefusedLine: REFUSALS { reason = "malformed" },
    RefusedLineLength: REFUSALS { reason = "line_too_long" },
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
    ReceivedBytes: RECEIVED {},
    SentBytes: SENT {},
    TlsFull: TLS_HANDSHAKES { kind = "full" },
    TlsResumed: TLS_HANDSHAKES { kind = "resumed" },
    TlsTimeout: TLS_FAILURES { reason = "timeout" },
    /// What came is no TLS: a client that does not use it, mostly.
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
const CALLS: usize = 2 * resp::COUNT;

/// The family of [`ListenerCounters::calls`].
pub(crate) const RESP_COMMANDS: Family = Family {
    name: "millpond_server_resp_commands",
    help: "Commands of RESP carried out, by command and by whether an error was the answer.",
};

/// The counters of one tenant at one listener.
#[derive(Default)]
pub(crate) struct ListenerCounters {
    counters: Counters<COUNT>,
    /// Commands of RESP that were answered by what they are to answer, and then those that were answered by an error.
    calls: Counters<CALLS>,
    /// What they were at the last `stats reset`.
    baseline: Mutex<Option<Box<[u64; COUNT]>>>,
}

impl ListenerCounters {
    /// Counts `n` more. No lock, no shared cache line.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        self.counters.add(counter as usize, n);
    }

    /// Counts a command of RESP, by its number in the table.
    #[inline]
    pub(crate) fn add_call(&self, command: usize, is_answered: bool) {
        self.calls.add(command + if is_answered { 0 } else { resp::COUNT }, 1);
    }

    /// How often a command of RESP, by its number in the table, was carried out with or without an error.
    pub(crate) fn calls_of(&self, command: usize, is_answered: bool) -> u64 {
        self.calls.sum(command + if is_answered { 0 } else { resp::COUNT })
    }

    /// Adds what `other`, which counts no more, has counted.
    pub(crate) fn take_over(&self, other: &Self) {
        for counter in Counter::ALL {
            self.counters.add(*counter as usize, other.total(*counter));
        }
        for place in 0..CALLS {
            self.calls.add(place, other.calls.sum(place));
        }
        let hidden = |counters: &Self, counter| counters.total(counter) - counters.since_reset(counter);
        let mut baseline = self.baseline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let counts = baseline.get_or_insert_with(|| Box::new([0; COUNT]));
        for (slot, counter) in counts.iter_mut().zip(Counter::ALL) {
            *slot += hidden(other, *counter);
        }
    }

    /// All commands of RESP that were carried out.
    pub(crate) fn all_calls(&self) -> u64 {
        (0..CALLS).map(|place| self.calls.sum(place)).sum()
    }

    /// The count since the start.
    pub(crate) fn total(&self, counter: Counter) -> u64 {
        self.counters.sum(counter as usize)
    }

    /// The count since the last [`Self::reset`].
    pub(crate) fn since_reset(&self, counter: Counter) -> u64 {
        let baseline = self.baseline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = baseline.as_ref().map_or(0, |counts| counts[counter as usize]);
        self.total(counter).wrapping_sub(before)
    }

    /// Lets [`Self::since_reset`] begin at zero.
    pub(crate) fn reset(&self) {
        let counts = Counter::ALL.iter().map(|counter| self.total(*counter));
        let mut baseline = Box::new([0; COUNT]);
        baseline.iter_mut().zip(counts).for_each(|(slot, count)| *slot = count);
        *self.baseline.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(baseline);
    }
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
        gone.add_call(1, true);
        past.take_over(&gone);
        assert_eq!((past.since_reset(Counter::GetHits), past.total(Counter::GetHits)), (2, 5));
        assert_eq!((past.calls_of(1, true), past.calls_of(1, false), past.all_calls()), (1, 0, 1));
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
}
