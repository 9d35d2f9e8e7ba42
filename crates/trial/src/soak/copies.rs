//! A client that keeps copies of what it reads, and learns through `CLIENT TRACKING` which to
//! forget.
//!
//! A copy that is kept for some time after a moment, with all messages since then processed, is as
//! good as a get that began at that moment: so it is checked against the history. If its value was
//! gone before that moment, the server failed to notify the client.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anyhow::{Result, bail};
use base::Clock;
use base::rng::{RngExt, SeededRng};
use bench::targets::resp::Reply;
use workload::Sampler;

use super::Scene;
use super::calls::now;
use super::clients::Client;
use super::conditions::Standing;
use super::tenants::{Book, Holding, write_key};
use crate::check::Violation;
use crate::check::history::{Found, History, Ticket};
use crate::check::record::CallKind;
use crate::check::resp;

/// Number of the most popular keys whose copies are kept.
const COPIED_KEYS: u64 = 512;
/// Longest time after which the server must have reported a change: workers report after their
/// rounds, the remaining changes are reported once a second.
const DELAY_NANOS: u64 = 5_000_000_000;
/// The same for what expires, with the slack of expiry.
const EXPIRY_DELAY_SECS: u32 = 10;
/// One turn in this many begins to check a copy against the history.
const AUDIT_EVERY: u32 = 4;
/// One turn in this many only reads the messages of the server.
const LISTEN_EVERY: u32 = 10;

/// Copies of values by the number of their key, and those that are being held against the history.
#[derive(Default)]
pub(super) struct Copies {
    versions: BTreeMap<u64, u64>,
    audits: VecDeque<Audit>,
}

struct Audit {
    ticket: Ticket,
    version: u64,
    /// The time at which the copy is checked.
    due: u64,
}

impl Copies {
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        self.versions.get(&key).copied()
    }

    /// The first key from `key` on of which there is a copy.
    fn near(&self, key: u64) -> Option<u64> {
        self.versions.range(key..).next().map(|(key, _)| *key)
    }

    pub(super) fn keep(&mut self, key: u64, version: u64) {
        self.versions.insert(key, version);
    }

    /// The server says that a key has changed.
    pub(super) fn forget(&mut self, key: u64, history: &History) {
        self.versions.remove(&key);
        let (over, kept) = self.audits.drain(..).partition(|audit| audit.ticket.key == key);
        self.audits = kept;
        Self::abandon(over, history);
    }

    /// The server says that all may have changed, or will say nothing more.
    pub(super) fn forget_all(&mut self, history: &History) {
        self.versions.clear();
        Self::abandon(std::mem::take(&mut self.audits), history);
    }

    fn abandon(audits: VecDeque<Audit>, history: &History) {
        audits.into_iter().for_each(|audit| history.end_unknown(audit.ticket));
    }

    /// Begins to check a key's copy against the history, which ends at `due`.
    pub(super) fn begin_audit(&mut self, key: u64, thread: u16, due: u64, history: &History) {
        let under_way = self.audits.iter().any(|audit| audit.ticket.key == key);
        if let (Some(version), false) = (self.get(key), under_way) {
            let long_ago = now().saturating_sub(EXPIRY_DELAY_SECS);
            let ticket = history.begin(key, CallKind::Get, thread, (0, 0), long_ago);
            self.audits.push_back(Audit { ticket, version, due });
        }
    }

    /// Returns whether an audit is due.
    pub(super) fn is_due(&self, nanos: u64) -> bool {
        self.audits.front().is_some_and(|audit| audit.due <= nanos)
    }

    /// Ends the audits that are due and whose copies were not forgotten meanwhile. Returns how many
    /// there were.
    pub(super) fn end_audits(
        &mut self,
        nanos: u64,
        history: &History,
        mut wrong: impl FnMut(Violation),
    ) -> u64 {
        let mut judged = 0;
        while self.is_due(nanos) {
            let Some(audit) = self.audits.pop_front() else { break };
            judged += 1;
            let key = audit.ticket.key;
            if let Err(violation) = history.end_get(audit.ticket, Found::Version(audit.version)) {
                let mut violation = *violation;
                violation.what = format!("nobody told a client to forget its copy: {}", violation.what);
                self.versions.remove(&key);
                wrong(violation);
            }
        }
        judged
    }
}

/// The client.
pub(super) struct Copying {
    scene: Arc<Scene>,
    client: &'static Client,
    number: u16,
    rng: SeededRng,
    sampler: Sampler,
    copies: Copies,
    connection: Option<(resp::Client, Standing)>,
    turns: u32,
    key: Vec<u8>,
}

impl Copying {
    pub(super) fn new(scene: Arc<Scene>, client: &'static Client, number: u16) -> Self {
        let seed = base::hash::mix64(scene.seed ^ u64::from(number) << 34);
        let sampler = Sampler::new(Arc::clone(&scene.workload), seed, usize::from(number), 1);
        let rng = base::rng::seeded(seed);
        let (connection, turns, key) = (None, 0, Vec::new());
        Self { scene, client, number, rng, sampler, copies: Copies::default(), connection, turns, key }
    }

    /// One read, of the copy where there is one.
    pub(super) fn turn(&mut self) {
        let (mut connection, standing) = match self.connection.take() {
            Some(connected) => connected,
            None => {
                let Some(standing) = self.scene.conditions.settled(self.client.tenant) else { return };
                match self.scene.network.open_resp(self.client) {
                    Ok(connection) => {
                        self.scene.tally.lock().connections += 1;
                        (connection, standing)
                    }
                    Err(error) => return self.scene.failed(self.client, standing, &error),
                }
            }
        };
        let before = Clock::System.monotonic_nanos();
        match self.read(&mut connection) {
            Ok(()) => {
                let nanos = Clock::System.monotonic_nanos() - before;
                self.scene.tally.lock().answered(self.client.name, 1, nanos);
                self.connection = Some((connection, standing));
            }
            Err(error) => {
                // Nobody will say any more what to forget.
                self.copies.forget_all(&self.scene.book(self.client).history);
                self.scene.failed(self.client, standing, &error);
            }
        }
    }

    fn read(&mut self, connection: &mut resp::Client) -> Result<()> {
        let scene = Arc::clone(&self.scene);
        let book = scene.book(self.client);
        self.turns += 1;
        let nanos = Clock::System.monotonic_nanos();
        if self.turns.is_multiple_of(LISTEN_EVERY) || self.copies.is_due(nanos) {
            connection.demand(&[b"PING"])?;
            self.hear(connection, book)?;
        }
        let judged = self.copies.end_audits(nanos, &book.history, |violation| {
            scene.found(self.client, violation, None);
        });
        scene.tally.lock().audits += judged;
        if self.rng.random_ratio(1, AUDIT_EVERY)
            && let Some(key) = self.copies.near(self.rng.random_range(0..COPIED_KEYS))
        {
            self.copies.begin_audit(key, self.number, nanos + DELAY_NANOS, &book.history);
        }
        let key = Holding::Strings.near(self.sampler.draw().key % COPIED_KEYS);
        if self.copies.get(key).is_some() {
            scene.tally.lock().local_hits += 1;
            return Ok(());
        }
        self.read_there(connection, key, book)
    }

    fn read_there(&mut self, connection: &mut resp::Client, key: u64, book: &Book) -> Result<()> {
        write_key(key, &mut self.key);
        let ticket = book.history.begin(key, CallKind::Get, self.number, (0, 0), now());
        let value = match connection.demand(&[b"GET", &self.key]) {
            Ok(Reply::Text(value)) => Some(value),
            Ok(Reply::Nothing) => None,
            other => {
                book.history.end_unknown(ticket);
                bail!("the server answered {:?} to a get", other?);
            }
        };
        // Messages that arrive with the reply may be of changes after it.
        let told = self.hear(connection, book)?;
        let found = value.map_or(Found::Nothing, |value| book.what_is(&value, key));
        if let Err(violation) = book.history.end_get(ticket, found) {
            self.scene.found(self.client, *violation, Some(found));
        } else if let Found::Version(version) = found
            && !told.contains(&key)
        {
            self.copies.keep(key, version);
        }
        let mut tally = self.scene.tally.lock();
        tally.gets += 1;
        tally.hits += u64::from(found != Found::Nothing);
        Ok(())
    }

    /// Forgets what the server has said since the last time. Which keys these were.
    fn hear(&mut self, connection: &mut resp::Client, book: &Book) -> Result<Vec<u64>> {
        let mut told = Vec::new();
        for push in connection.pushes.drain(..) {
            match &push[..] {
                [Reply::Text(what), Reply::Nothing] if what == b"invalidate" => {
                    self.copies.forget_all(&book.history);
                }
                [Reply::Text(what), Reply::List(keys)] if what == b"invalidate" => {
                    told.extend(keys.iter().filter_map(number_of));
                }
                other => bail!("the server said {other:?} of its own accord"),
            }
        }
        told.iter().for_each(|key| self.copies.forget(*key, &book.history));
        self.scene.tally.lock().invalidations += told.len() as u64;
        Ok(told)
    }
}

/// The number of a key that is told.
fn number_of(key: &Reply) -> Option<u64> {
    let Reply::Text(text) = key else { return None };
    let text = std::str::from_utf8(text).ok()?.get(1..)?;
    text.trim_end_matches('.').parse().ok()
}
