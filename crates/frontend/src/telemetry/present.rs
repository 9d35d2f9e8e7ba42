//! Which turns are in the sample, and the buffers between workers and the thread that sends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use base::hash::mix64;
use base::thread::Repeating;
use base::{Clock, Ledger, Part, rng};
use config::{Error, ErrorKind, Telemetry};
use tenancy::latency::ProtocolFamily;

use super::export::{self, Exporter};
use super::{Over, Step};

/// Interval at which buffers are emptied, and number of spans that a buffer holds.
const SEND_EVERY: Duration = Duration::from_millis(500);
pub(super) const BUFFERED: usize = 1_024;
/// Commands of one turn that have spans of their own.
const MAX_STEPS: usize = 16;
/// The size of a buffered turn's names of tenant and listener, about, in bytes.
const NAMES_BYTES: usize = 64;

/// A turn in the sample while it runs.
pub struct Sampled {
    began_nanos: u64,
    unix_nanos: u64,
    one_in: u32,
    slow_nanos: u64,
    /// The first of the slow commands.
    steps: Vec<Step>,
    /// Number of all slow commands.
    slow: usize,
}

impl Sampled {
    /// Returns whether a command of this duration is kept.
    pub const fn is_slow(&self, took_nanos: u64) -> bool {
        took_nanos >= self.slow_nanos
    }

    /// Keeps a slow command.
    pub fn note(&mut self, step: Step) {
        self.slow += 1;
        if self.steps.len() < MAX_STEPS {
            self.steps.push(step);
        }
    }
}

/// A turn that waits to be sent.
pub(super) struct Turn {
    pub(super) began_nanos: u64,
    pub(super) unix_nanos: u64,
    pub(super) took_nanos: u64,
    pub(super) one_in: u32,
    pub(super) worker: usize,
    pub(super) spoken: ProtocolFamily,
    pub(super) tenant: Box<str>,
    pub(super) listener: Box<str>,
    pub(super) requests: usize,
    pub(super) received_bytes: usize,
    pub(super) sent_bytes: usize,
    pub(super) steps: Vec<Step>,
    pub(super) slow: usize,
}

impl Turn {
    pub(super) const fn spans(&self) -> usize {
        1 + self.steps.len()
    }
}

/// The tracer of the server.
pub struct Tracing {
    /// One turn in this many is in the sample; 0: none.
    one_in: AtomicU32,
    slow_nanos: AtomicU64,
    seed: u64,
    clock: Clock,
    /// One for each worker.
    buffers: Box<[Mutex<Buffer>]>,
    sent: AtomicU64,
    dropped: AtomicU64,
    /// Locked while settings change, and for a moment by the thread that sends.
    state: Mutex<State>,
}

#[derive(Default)]
struct Buffer {
    turns: Vec<Turn>,
    spans: usize,
    /// Spans that may be there.
    room: usize,
}

#[derive(Default)]
struct State {
    settings: Telemetry,
    /// The exporter to use from now on, until the thread has taken it.
    next: Option<Exporter>,
    thread: Option<Repeating<Sender>>,
}

impl Tracing {
    /// Creates the tracing of a server, which samples nothing yet.
    pub fn new(clock: Clock, workers: usize) -> Self {
        Self {
            one_in: AtomicU32::new(0),
            slow_nanos: AtomicU64::new(0),
            seed: rng::entropy_seed(),
            clock,
            buffers: (0..workers).map(|_| Mutex::default()).collect(),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Traces as `wanted` says from now on. Does not wait: the thread that sends to the old
    /// collector gives it up.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if spans cannot be sent as the settings, or OpenTelemetry's own
    /// variables, say; [`ErrorKind::System`] if no thread can be started. Nothing is changed then.
    pub fn apply(self: &Arc<Self>, ledger: &Ledger, wanted: &Telemetry) -> Result<(), Error> {
        let mut state = lock(&self.state);
        if state.settings == *wanted {
            return Ok(());
        }
        let exporter = match wanted.url() {
            Some(url) if wanted.sample_one_in > 0 => Some(Exporter::new(&url, wanted)?),
            _ => None,
        };
        if exporter.is_some() && state.thread.is_none() {
            let sender = Sender { tracing: Arc::clone(self), exporter: None, has_failed: false };
            let thread = Repeating::start("telemetry", SEND_EVERY, sender, |sender, _| sender.turn());
            state.thread = Some(thread.map_err(|error| {
                Error::with_source(ErrorKind::System, "the thread that sends spans cannot be started", error)
            })?);
            ledger.charge(Part::Fixed, self.held_bytes());
        }
        let slow_nanos = u64::from(wanted.slow_command_micros) * 1_000;
        let one_in = if exporter.is_some() { wanted.sample_one_in } else { 0 };
        let room = if exporter.is_some() { BUFFERED } else { 0 };
        self.slow_nanos.store(slow_nanos, Ordering::Relaxed);
        self.buffers.iter().for_each(|buffer| lock(buffer).room = room);
        self.one_in.store(one_in, Ordering::Relaxed);
        state.next = exporter;
        state.settings = wanted.clone();
        Ok(())
    }

    /// Sends the buffered spans, and traces no more. Waits for the collector, if there is one.
    pub fn stop(&self, ledger: &Ledger) {
        self.one_in.store(0, Ordering::Relaxed);
        // The thread locks the state itself.
        let thread = lock(&self.state).thread.take();
        if thread.and_then(Repeating::stop).is_some() {
            self.buffers.iter().for_each(|buffer| *lock(buffer) = Buffer::default());
            ledger.release(Part::Fixed, self.held_bytes());
        }
    }

    /// Returns the size of the buffers, and of the spans that are made of them to be sent.
    fn held_bytes(&self) -> u64 {
        let buffered = (self.buffers.len() + 1) * BUFFERED * (size_of::<Turn>() + NAMES_BYTES);
        (buffered + export::HELD_BYTES) as u64
    }

    /// Spans that were sent, and those that were not: they found no room, or the collector did not
    /// take them.
    pub fn figures(&self) -> Option<(u64, u64)> {
        Some((self.sent.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed)))
    }

    /// The turn of that number of a worker, if it is in the sample.
    #[inline]
    pub fn begin(&self, worker: usize, turn: u32) -> Option<Sampled> {
        match self.one_in.load(Ordering::Relaxed) {
            0 => None,
            one_in => self.draw(worker, turn, one_in),
        }
    }

    /// At random, so that clients whose turns follow each other in a pattern are all seen.
    fn draw(&self, worker: usize, turn: u32, one_in: u32) -> Option<Sampled> {
        let drawn = mix64(self.seed ^ ((worker as u64) << 32 | u64::from(turn)));
        (drawn <= u64::MAX / u64::from(one_in)).then(|| Sampled {
            began_nanos: self.clock.monotonic_nanos(),
            unix_nanos: self.clock.unix_nanos(),
            one_in,
            slow_nanos: self.slow_nanos.load(Ordering::Relaxed),
            steps: Vec::new(),
            slow: 0,
        })
    }

    /// Keeps a finished turn until it is sent.
    pub fn end(&self, sampled: Sampled, over: &Over<'_>) {
        let Sampled { began_nanos, unix_nanos, one_in, steps, slow, .. } = sampled;
        let Over { worker, spoken, tenant, listener, requests, received_bytes, sent_bytes } = *over;
        let took_nanos = self.clock.monotonic_nanos().saturating_sub(began_nanos);
        let spans = 1 + steps.len();
        let buffer = self.buffers.get(worker).map(Mutex::try_lock);
        let mut buffer = match buffer {
            Some(Ok(buffer)) => buffer,
            Some(Err(TryLockError::Poisoned(buffer))) => buffer.into_inner(),
            Some(Err(TryLockError::WouldBlock)) | None => return self.drop_spans(spans),
        };
        if buffer.spans + spans > buffer.room {
            return self.drop_spans(spans);
        }
        buffer.spans += spans;
        buffer.turns.push(Turn {
            began_nanos,
            unix_nanos,
            took_nanos,
            one_in,
            worker,
            spoken,
            tenant: tenant.into(),
            listener: listener.into(),
            requests,
            received_bytes,
            sent_bytes,
            steps,
            slow,
        });
    }

    fn drop_spans(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that sends.
struct Sender {
    tracing: Arc<Tracing>,
    exporter: Option<Exporter>,
    /// True if the collector did not take the last spans, which is logged once.
    has_failed: bool,
}

impl Sender {
    fn turn(&mut self) {
        if let Some(next) = lock(&self.tracing.state).next.take() {
            self.exporter = Some(next);
            self.has_failed = false;
        }
        // One buffer after the other, so that no more than one is made into spans at a time.
        let mut is_lost = false;
        for buffer in &self.tracing.buffers {
            let (turns, spans) = {
                let mut buffer = lock(buffer);
                (std::mem::take(&mut buffer.turns), std::mem::take(&mut buffer.spans))
            };
            if turns.is_empty() {
                continue;
            }
            // A collector that did not take one buffer's spans is not waited for with the next.
            let sent = match &mut self.exporter {
                Some(exporter) if !is_lost => exporter.send(&turns),
                _ => Err("it did not take those before".to_owned()),
            };
            match sent {
                Ok(()) => {
                    self.tracing.sent.fetch_add(spans as u64, Ordering::Relaxed);
                    if std::mem::take(&mut self.has_failed) {
                        tracing::info!("The collector takes spans again.");
                    }
                }
                Err(error) => {
                    self.tracing.drop_spans(spans);
                    is_lost = true;
                    if !std::mem::replace(&mut self.has_failed, true) {
                        let url = self.exporter.as_ref().map_or("", Exporter::url);
                        tracing::warn!(
                            url,
                            error,
                            "The collector does not take spans, which are dropped until it does."
                        );
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracing(one_in: u32, room: usize) -> Tracing {
        let tracing = Tracing::new(Clock::manual(1_000), 1);
        tracing.one_in.store(one_in, Ordering::Relaxed);
        tracing.slow_nanos.store(5_000, Ordering::Relaxed);
        lock(&tracing.buffers[0]).room = room;
        tracing
    }

    fn over(worker: usize) -> Over<'static> {
        Over {
            worker,
            spoken: ProtocolFamily::Resp,
            tenant: "t",
            listener: "l",
            requests: 3,
            received_bytes: 10,
            sent_bytes: 20,
        }
    }

    fn step(took_nanos: u64) -> Step {
        Step { name: "get", began_nanos: 0, took_nanos, lookups: 0, key: None }
    }

    #[test]
    fn about_one_turn_in_so_many_is_in_the_sample() {
        assert!((0..1_000).all(|turn| tracing(0, 9).begin(0, turn).is_none()));
        assert!((0..1_000).all(|turn| tracing(1, 9).begin(0, turn).is_some()));
        let tracing = tracing(10, 9);
        for worker in 0..4 {
            let drawn = (0..10_000).filter(|turn| tracing.begin(worker, *turn).is_some()).count();
            assert!((800..1_200).contains(&drawn), "{drawn} of 10000");
        }
        let odd = (0..10_000).filter(|turn| turn % 2 == 1 && tracing.begin(0, *turn).is_some()).count();
        assert!(
            (400..600).contains(&odd),
            "a client that has every second turn is seen as often as another: {odd}"
        );
    }

    #[test]
    fn what_finds_no_room_is_counted_and_forgotten() {
        let tracing = tracing(1, 3);
        let turn = |steps: usize| {
            let mut sampled = tracing.begin(0, 0).expect("every turn");
            (0..steps).for_each(|_| sampled.note(step(6_000)));
            sampled
        };
        tracing.end(turn(1), &over(0));
        tracing.end(turn(1), &over(0));
        assert_eq!(tracing.figures(), Some((0, 2)), "four spans, room for three");
        tracing.end(turn(0), &over(0));
        assert_eq!(lock(&tracing.buffers[0]).turns.len(), 2);
        let held = lock(&tracing.buffers[0]);
        tracing.end(turn(0), &over(0));
        assert_eq!(tracing.figures(), Some((0, 3)), "nobody waits for a buffer");
        drop(held);
        tracing.end(turn(0), &over(7));
        assert_eq!(tracing.figures(), Some((0, 4)), "there is no such worker");
    }

    #[test]
    fn slow_commands_are_bounded_and_counted() {
        let tracing = tracing(1, BUFFERED);
        let mut sampled = tracing.begin(0, 0).expect("every turn");
        assert!(!sampled.is_slow(4_999) && sampled.is_slow(5_000));
        (0..100).for_each(|_| sampled.note(step(5_000)));
        tracing.end(sampled, &over(0));
        let buffer = lock(&tracing.buffers[0]);
        assert_eq!((buffer.turns[0].spans(), buffer.turns[0].slow), (1 + MAX_STEPS, 100));
    }
}
