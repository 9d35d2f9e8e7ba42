//! Slow commands: each worker has them carried out by a thread of its own, which yields to the
//! worker.
//!
//! Turns are short, but a command is carried out whole, and one on a large collection can take
//! milliseconds, in which nobody else's request would be answered. If several tenants share a
//! worker, it hands a connection whose next command is slow to that thread, with all that the
//! connection holds. The connection has one turn there, and comes back. The scheduler does what the
//! worker can't do by itself: it stops the command whenever the worker has something to do
//! (`SCHED_IDLE`). A worker that is never idle sleeps briefly now and then, so that the command
//! finishes and releases its locks.
//!
//! One connection is there at a time; the others wait, and tenants take turns.
//!
//! Invariants:
//! 1. A connection is in its worker's table, waits here, or is with the thread. While it is away,
//!    nothing else touches it, and its token stays its own.
//! 2. While connections of a key space are away, its gate is marked
//!    ([`base::pin::Gate::has_slow`]), and no worker closes the gate: it would wait for the
//!    command.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Scope;
use std::time::Duration;

use base::Part;
use frontend::context::{Context, RECEIVE_BYTES};
use frontend::mailbox::Message;
use frontend::mailbox::Token;
use frontend::output::KEEP_BYTES;
use frontend::settings::Settings;
use frontend::shared::Shared;
use frontend::tls::TlsBuffers;
use tenancy::key_space::Pool;
use tenancy::metrics::Counter;

use super::connection::{Connection, Step};
use super::lanes::LaneId;

/// Pause of the thread between two attempts to enter a closed key space.
const RETRY: Duration = Duration::from_micros(50);

/// A connection that is away.
pub(super) struct Job<'c> {
    pub(super) token: Token,
    pub(super) lane: LaneId,
    pub(super) connection: Box<Connection<'c>>,
    /// The next step that the connection needs after its turn.
    pub(super) step: Step,
    /// The pool in which its next command looks for keys.
    pool: Arc<Pool>,
    settings: Arc<Settings>,
    now_secs: u32,
}

impl<'c> Job<'c> {
    pub(super) fn new(
        token: Token,
        lane: LaneId,
        connection: Connection<'c>,
        (settings, now_secs): (&Arc<Settings>, u32),
    ) -> Self {
        let pool = Arc::clone(&connection.account().tenant.pool);
        pool.gate.begin_slow();
        connection.account().counters.add(Counter::PausedSlow, 1);
        Self {
            token,
            lane,
            connection: Box::new(connection),
            step: Step::Again,
            pool,
            settings: Arc::clone(settings),
            now_secs,
        }
    }

    /// Tells the gate that the slow command is over, and returns the connection to its worker with
    /// the step that it needs next.
    pub(super) fn end(self) -> (Token, LaneId, Connection<'c>, Step) {
        self.pool.gate.end_slow();
        (self.token, self.lane, *self.connection, self.step)
    }
}

/// Starts the thread with the channel of its jobs and the channel on which it returns them.
type Start<'c> = Box<dyn Fn(Receiver<Job<'c>>, Sender<Job<'c>>) -> io::Result<()> + 'c>;

/// A worker's side.
pub(crate) struct SlowThread<'c> {
    start: Start<'c>,
    /// To the thread and back, once there is one.
    thread: Option<(Sender<Job<'c>>, Receiver<Job<'c>>)>,
    /// True if the thread has a job.
    is_busy: bool,
    /// The jobs that wait, by lane; the first lane's are next.
    waiting: VecDeque<(LaneId, VecDeque<Job<'c>>)>,
}

impl<'c> SlowThread<'c> {
    /// For worker number `index`. The thread is started when it is first needed, and ends with the
    /// worker, in `scope`.
    pub(crate) fn new<'e>(scope: &'c Scope<'c, 'e>, shared: &'c Shared, index: usize) -> Self {
        let start = move |jobs: Receiver<Job<'c>>, done: Sender<Job<'c>>| {
            let body = move || serve(shared, index, &jobs, done);
            base::thread::spawn_in(scope, format!("slow-{index}"), body).map(drop)
        };
        Self { start: Box::new(start), thread: None, is_busy: false, waiting: VecDeque::new() }
    }

    /// Has a connection's next command carried out.
    ///
    /// # Errors
    /// The job comes back where there can be no thread.
    pub(super) fn add(&mut self, job: Job<'c>) -> Result<(), Job<'c>> {
        if self.thread.is_none() {
            let ((jobs, to_do), (done, results)) = (channel(), channel());
            if let Err(error) = (self.start)(to_do, done) {
                tracing::error!(%error, "No thread for slow commands could be started; connections that send one are closed.");
                return Err(job);
            }
            self.thread = Some((jobs, results));
        }
        match self.waiting.iter_mut().find(|(lane, _)| *lane == job.lane) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.waiting.push_back((job.lane, VecDeque::from([job]))),
        }
        self.send_next();
        Ok(())
    }

    /// Returns whether a command is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Returns a job that is done, if there is one.
    ///
    /// # Errors
    /// If the thread has died.
    pub(super) fn take_done(&mut self) -> Result<Option<Job<'c>>, TryRecvError> {
        let Some((_, results)) = &self.thread else { return Ok(None) };
        match results.try_recv() {
            Ok(job) => {
                self.is_busy = false;
                self.send_next();
                Ok(Some(job))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the thread, and returns whatever is away.
    pub(super) fn end(&mut self) -> Vec<Job<'c>> {
        let mut left: Vec<Job<'c>> = self.waiting.drain(..).flat_map(|(_, jobs)| jobs).collect();
        if let Some((jobs, results)) = self.thread.take() {
            drop(jobs);
            left.extend(results);
        }
        left
    }

    fn send_next(&mut self) {
        if self.is_busy {
            return;
        }
        let Some((jobs, _)) = &self.thread else { return };
        let Some((lane, mut its)) = self.waiting.pop_front() else { return };
        let next = its.pop_front();
        if !its.is_empty() {
            self.waiting.push_back((lane, its));
        }
        // If the thread has died, its `Wake` has notified the worker, which then stops.
        self.is_busy = next.is_some_and(|job| jobs.send(job).is_ok());
    }
}

/// Wakes the worker, when a job is done and when the thread ends, in whatever way.
struct Wake<'c>(&'c Shared, usize);

impl Wake<'_> {
    fn wake(&self) {
        if let Some(worker) = self.0.workers.get(self.1) {
            worker.mailbox.send(Message::Returned);
        }
    }
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.wake();
    }
}

/// The thread's: carries out what it is sent.
fn serve<'c>(shared: &'c Shared, index: usize, jobs: &Receiver<Job<'c>>, done: Sender<Job<'c>>) {
    let wake = Wake(shared, index);
    // Dropped before `wake`, so that the worker that it wakes finds the channel closed.
    let done = done;
    if let Err(error) = base::thread::run_when_idle() {
        tracing::warn!(
            worker = index,
            %error,
            "Cannot set SCHED_IDLE; slow commands will compete with other requests."
        );
    }
    let bytes = (RECEIVE_BYTES + KEEP_BYTES) as u64 + TlsBuffers::BYTES;
    shared.cache.ledger().charge(Part::Connections, bytes);
    let mut context = Context::new(shared, index);
    context.is_slow_thread = true;
    for mut job in jobs {
        context.settings = Arc::clone(&job.settings);
        context.now_secs = job.now_secs;
        job.step = loop {
            match job.connection.drive(&mut context) {
                Step::AwaitGate => base::thread::sleep(RETRY),
                step => break step,
            }
        };
        if done.send(job).is_err() {
            break;
        }
        wake.wake();
    }
    shared.cache.ledger().release(Part::Connections, bytes);
}
