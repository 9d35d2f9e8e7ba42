//! memcached 1.6.
//!
//! *Limits* are set by `cache_memlimit`, in whole MiB, at least 8. memcached stops growing then and
//! frees nothing: 1.6.18, whose limit was lowered below what it had, kept all of its memory for as
//! long as it was watched, idle and under load, with `slab_automove` at 1 and at 2. The limit
//! only counts when a page is moved to the global pool, which the automover does not do for this
//! reason. So the target moves pages itself, by `slabs reassign CLASS 0`, until memcached has no
//! more than its limit: some 6 ms for each MiB, and at most `RELEASE` in one call; the next calls
//! go on. The items of such a page are lost, unless their class has free chunks for them. Each
//! class keeps one page. A memcached that was started with `-o no_slab_reassign` or `-L` cannot be
//! shrunk: [`Instance::resize`] says so.
//!
//! *In use* is `total_malloced`: the pages of the slabs, which are all that the limit counts. The
//! hash table (`hash_bytes`) and the buffers of connections come on top.
//!
//! *The curve* is learnt from `watch fetchers mutations`, in windows ([`super::Sampling`]).
//! memcached logs a fetch with the item's class, and so its chunk, which is what the curve counts.
//! Sizes are multiplied by the present ratio of `total_malloced` to chunks in use, so that the
//! curve at the memory in use is about the present miss ratio. The curve is that of LRU over all
//! items; memcached has a segmented LRU for each class.
//!
//! memcached logs a fetch for each store as well; the store's own entry, which follows on the same
//! connection, tells the two apart. Deletions and increments are logged as fetches, and count as
//! reads.

mod log;
mod stats;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use base::hash::key_hash;
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};
use parking_lot::Mutex;

use self::log::{Entry, Fetch};
use self::stats::{CLASSES, Figures, LINE, MIB, SlabClass, shown};
use super::background::{Background, Reports, Windows, read_in_windows};
use super::identity::Identity;
use super::learn::{Learner, Outcome, Sampling};
use super::wire::{Address, Deadline, Feed, PATIENCE, Wire, garbled};
use crate::report;
use crate::{Instance, InstanceError, Look, MILLI, Nanos};

/// memcached accepts no lower limit.
const LEAST: u64 = 8 * MIB;
/// The time in one call for which pages are released.
const RELEASE: Nanos = 300 * MILLI;
/// The time that memcached takes for a page, about.
const PAGE_TIME: Duration = Duration::from_millis(1);
/// Bytes of a log entry that are looked at: a key has 250 at most, of three characters each.
const ENTRY: usize = 1200;
/// Fetches that wait for the next entry of their connections.
const MOST_WAITING: usize = 4096;
/// Bytes of an item besides key and value: its header, a CAS number and three ends.
const ITEM_OVERHEAD: u32 = 60;
/// A fetch costs memcached 1.6 us more while it is logged: these are some 2 % of a processor.
const WINDOWS: Windows =
    Windows { window: Duration::from_secs(1), pause: None, per_sec: 15_000, busy_pause: Duration::ZERO };
/// The pool that all of memcached is.
const POOL: u32 = 1;
/// For an incarnation, which is not a secret.
const SEED: u64 = 0;

/// A memcached server.
#[derive(Debug)]
pub(super) struct Memcached {
    address: Address,
    identity: Identity,
    wire: Option<Wire>,
    learnt: Arc<Mutex<Learnt>>,
    granted: Option<u64>,
    /// Memory that cannot be freed, as of the last look.
    stuck: u64,
    is_led: bool,
    /// The limit that was set last. Down to another one, its owner's, nothing is released unless
    /// an orchestrator leads it.
    set: Option<u64>,
    _background: Background,
}

/// The state that both threads share.
#[derive(Debug)]
struct Learnt {
    learner: Learner,
    /// The chunks of each class; 0 = unknown.
    chunks: [u32; CLASSES],
}

impl Memcached {
    pub(super) fn open(
        address: Address,
        identity: Identity,
        sampling: Sampling,
    ) -> Result<Self, InstanceError> {
        let learner = Learner::new(&sampling, Clock::System.monotonic_nanos());
        let learnt = Arc::new(Mutex::new(Learnt { learner, chunks: [0; CLASSES] }));
        let watcher =
            Watcher { address: address.clone(), learnt: Arc::clone(&learnt), waiting: HashMap::new() };
        let name = format!("memcached at {address}");
        let windows = WINDOWS.or(&sampling);
        let background =
            Background::start("watch", move |stop| read_in_windows(stop, windows, &name, watcher))?;
        Ok(Self {
            address,
            identity,
            wire: None,
            learnt,
            granted: None,
            stuck: 0,
            is_led: false,
            set: None,
            _background: background,
        })
    }

    /// Runs `work` on the connection, which is opened if there is none, and closed on an error.
    fn talk<T>(
        &mut self,
        deadline: Deadline,
        work: impl FnOnce(&mut Wire, Deadline) -> io::Result<T>,
    ) -> Result<T, InstanceError> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.address.connect(deadline).map_err(|error| self.failed(error))?,
        };
        let done = work(&mut wire, deadline).map_err(|error| self.failed(error))?;
        self.wire = Some(wire);
        Ok(done)
    }

    fn failed(&self, error: io::Error) -> InstanceError {
        self.address.failed("memcached", error)
    }

    fn refused(&self, what: &str) -> InstanceError {
        InstanceError::new(format!("memcached at {}: {what}", self.address))
    }

    fn figures(&mut self, deadline: Deadline) -> Result<Figures, InstanceError> {
        let figures = match self.talk(deadline, Figures::ask) {
            // The connection may have been closed since the last call, as by a restart.
            Err(error) if is_closed(&error) => self.talk(deadline, Figures::ask)?,
            figures => figures?,
        };
        if !figures.evicts && !self.identity.reads_only {
            return Err(self.refused("it was started with -M and evicts nothing; start it without"));
        }
        Ok(figures)
    }

    /// Has pages released, as long as memcached has more than its limit and there is time. Returns
    /// whether it released one.
    fn release(&mut self, figures: &Figures, deadline: Deadline) -> Result<bool, InstanceError> {
        let over = figures.malloced.saturating_sub(figures.limit);
        let is_ours = self.is_led || self.set == Some(figures.limit);
        // Without a limit memcached says 0.
        if over == 0 || !figures.reassigns || figures.limit == 0 || !is_ours {
            return Ok(false);
        }
        let classes = figures.classes.clone();
        self.talk(deadline, |wire, deadline| release_pages(wire, classes, over.div_ceil(MIB), deadline))
    }

    /// Tells the learner how large the cache is, and asks for the curve.
    fn curve(&self, figures: &Figures) -> Option<v1::Curve> {
        let in_chunks = figures.in_chunks();
        // A small cache has nearly empty pages, which says nothing of a large one.
        let scale = (figures.malloced as f64 / in_chunks.max(1) as f64).clamp(1.0, 2.0);
        let mut learnt = self.learnt.lock();
        for class in &figures.classes {
            if let Some(chunk) = learnt.chunks.get_mut(usize::from(class.number)) {
                *chunk = u32::try_from(class.chunk).unwrap_or(u32::MAX);
            }
        }
        let limit = (figures.limit as f64 / scale) as u64;
        learnt.learner.resize(in_chunks, limit.min(u64::MAX / 8));
        learnt.learner.age(Clock::System.monotonic_nanos());
        let curve = learnt.learner.curve()?;
        drop(learnt);
        Some(report::curve(&curve, scale))
    }
}

impl Instance for Memcached {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let deadline = Deadline::after(PATIENCE);
        let mut figures = self.figures(deadline)?;
        if self.release(&figures, deadline)? {
            figures = self.figures(deadline)?;
        }
        self.stuck = if figures.reassigns { 0 } else { figures.malloced };
        let least = self.identity.least(LEAST);
        let used = amounts::of_memory(figures.malloced);
        let pool = PoolReport {
            id: POOL,
            name: "all".to_owned(),
            granted: amounts::of_memory(self.granted.unwrap_or(figures.limit)),
            used: used.clone(),
            floors: least.clone(),
            ceilings: self.identity.most(),
            weight: 1.0,
            reads: figures.reads,
            misses: figures.misses,
            curve: self.curve(&figures),
            ..PoolReport::default()
        };
        let started = figures.started.to_le_bytes();
        let incarnation = key_hash(SEED, &[&figures.pid.to_le_bytes()[..], &started].concat());
        Ok(Look {
            instance: v1::Instance {
                name: self.identity.name.clone(),
                node: self.identity.node.clone(),
                // 0 stands for none.
                incarnation: incarnation.max(1),
                kind: "memcached".to_owned(),
                version: figures.version,
                outlives_agent: true,
                is_alone: true,
            },
            limits: amounts::of_memory(figures.limit),
            used,
            least,
            most: self.identity.most(),
            learning: self.learnt.lock().learner.progress(),
            pools: vec![pool],
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        if let Some(grant) = grants.iter().find(|grant| grant.id == POOL) {
            self.granted = Some(amounts::memory(&grant.amounts));
        }
        let limit = amounts::memory(limits);
        if limit == 0 {
            return Ok(());
        }
        self.identity.check(limit, LEAST).map_err(|words| self.refused(&words))?;
        let command = format!("cache_memlimit {}\r\n", limit / MIB);
        let deadline = Deadline::after(PATIENCE);
        let ask = |wire: &mut Wire, deadline| {
            wire.send(command.as_bytes(), deadline)?;
            wire.line(LINE, deadline)
        };
        let answer = match self.talk(deadline, ask) {
            // Setting the same limit twice does no harm.
            Err(error) if is_closed(&error) => self.talk(deadline, ask)?,
            answer => answer?,
        };
        if answer != b"OK" {
            let words = shown(&answer);
            let remedy = if answer.starts_with(b"MEMLIMIT_ADJUST_FAILED") {
                "it was started with -L, which fixes its memory: start it without"
            } else {
                "see that it is memcached 1.6, and that this user may set its limit"
            };
            return Err(self.refused(&format!("it answered {words} to {}; {remedy}", command.trim_end())));
        }
        self.set = Some(limit / MIB * MIB);
        if limit < self.stuck {
            return Err(self.refused(
                "it grows no further, but frees nothing, as it was started with -o no_slab_reassign; \
                 start it without",
            ));
        }
        Ok(())
    }

    fn set_led(&mut self, is_led: bool) {
        self.is_led = is_led;
    }
}

/// Returns whether a server closed the connection, which may be older than the server.
fn is_closed(error: &InstanceError) -> bool {
    let kind = error.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
    kind.is_some_and(|error| {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    })
}

/// Moves pages to the global pool, from which memcached frees them as long as it has more than its
/// limit.
fn release_pages(
    wire: &mut Wire,
    mut classes: Vec<SlabClass>,
    mut pages: u64,
    deadline: Deadline,
) -> io::Result<bool> {
    let budget = Deadline::after(RELEASE);
    let mut has_released = false;
    while pages > 0 && budget.left().is_ok() {
        let Some(class) = stats::next_to_shrink(&mut classes) else { break };
        wire.send(format!("slabs reassign {} 0\r\n", class.number).as_bytes(), deadline)?;
        let answer = wire.line(LINE, deadline)?;
        if answer == b"OK" {
            class.shrink();
            pages -= 1;
            has_released = true;
        } else if answer.starts_with(b"BUSY") {
            base::thread::sleep(PAGE_TIME);
        } else if answer.starts_with(b"CLIENT_ERROR") || answer.starts_with(b"ERROR") {
            return Err(garbled(format!("it answered {} to slabs reassign", shown(&answer))));
        } else {
            // Such as NOSPARE: this class has none to give.
            class.pages = 0;
        }
    }
    Ok(has_released)
}

/// Reads the log of fetches.
struct Watcher {
    address: Address,
    learnt: Arc<Mutex<Learnt>>,
    /// Fetches of followed keys, by connection, until it is known what each was for.
    waiting: HashMap<u32, (u64, u32, Outcome)>,
}

impl Watcher {
    /// Lets the fetch that waits on a connection count as a read.
    fn settle(learner: &mut Learner, waiting: Option<(u64, u32, Outcome)>) {
        if let Some((hash, size, outcome)) = waiting {
            learner.read(hash, size, outcome);
        }
    }
}

impl Learnt {
    /// The memory of an item: its chunk, or chunks.
    fn size(&self, fetch: &Fetch<'_>) -> u32 {
        if fetch.class == 0 {
            return 0;
        }
        let chunk = self.chunks.get(usize::from(fetch.class)).copied().unwrap_or(0);
        let key = u32::try_from(fetch.key.len()).unwrap_or(0);
        let item = fetch.size.saturating_add(key).saturating_add(ITEM_OVERHEAD);
        // An item in several chunks is of the largest class.
        if chunk >= fetch.size { chunk } else { item }
    }
}

impl Reports for Watcher {
    fn open(&mut self, deadline: Deadline) -> io::Result<Feed> {
        let mut wire = self.address.connect(deadline)?;
        wire.send(b"watch fetchers mutations\r\n", deadline)?;
        let answer = wire.line(LINE, deadline)?;
        if answer != b"OK" {
            return Err(garbled(format!("memcached answered {} to watch", shown(&answer))));
        }
        Ok(wire.into_feed(ENTRY))
    }

    fn line(&mut self, line: &[u8], _len: usize) {
        let learnt = &mut *self.learnt.lock();
        match log::parse(line) {
            Some(Entry::Fetch(fetch)) => {
                let before = self.waiting.remove(&fetch.connection);
                Self::settle(&mut learnt.learner, before);
                let (hash, size) = (learnt.learner.hash(fetch.key), learnt.size(&fetch));
                if learnt.learner.follows(hash) && self.waiting.len() < MOST_WAITING {
                    self.waiting.insert(fetch.connection, (hash, size, fetch.outcome));
                } else {
                    learnt.learner.read(hash, size, fetch.outcome);
                }
            }
            Some(Entry::Store(store, is_stored)) => {
                let hash = learnt.learner.hash(store.key);
                let before = self.waiting.remove(&store.connection);
                let is_same = before.is_some_and(|waiting| waiting.0 == hash);
                if !is_same {
                    Self::settle(&mut learnt.learner, before);
                }
                if !learnt.learner.follows(hash) {
                    learnt.learner.take_back();
                } else if is_stored {
                    let size = learnt.size(&store);
                    learnt.learner.write(hash, size);
                }
            }
            Some(Entry::Skipped(entries)) => {
                learnt.learner.skipped = learnt.learner.skipped.saturating_add(entries);
            }
            None => {}
        }
    }

    fn pause(&mut self) {
        let learner = &mut self.learnt.lock().learner;
        for (_, waiting) in self.waiting.drain() {
            Self::settle(learner, Some(waiting));
        }
    }
}

#[cfg(test)]
mod tests;
