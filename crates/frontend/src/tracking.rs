//! Client-side caching: which connections have copies of which keys, and the reports to them when
//! one of those changes.
//!
//! The engine reports changes of keys that are followed (`millpond::watch::ChangeReader`), whatever
//! made them: a command of either protocol, eviction, or expiry. This module adds the table of the
//! connections that read each key ([`Tracking::remember`], before the value is read), and the way
//! to the worker that has the connection ([`Tracking::deliver`], which every worker calls after
//! each round of turns). A change of a key is reported to a client once; the next report follows
//! only after the client has read the key again.
//!
//! While no connection tracks, this costs a load per round. While one does, the locks here are held
//! for a few instructions each, and never by a thread that waits for anything.
//!
//! Invariants:
//! 1. A key is remembered before it is read for a client, so that a change is either read or
//!    reported.
//! 2. A copy is in the table as often as its key is followed, and the table has at most
//!    `limits.max_tracked_keys` copies: if one has to leave it, its client is notified as if the
//!    key had changed.
//! 3. Of the locks, that of a shard is taken last. Nothing is sent with one held.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use base::{ByteSize, Part};
use millpond::watch::{Change, ChangeReader};
use protocol::resp::{Version, reply};
use tenancy::key_space::Pool;

use crate::connections::ConnectionInfo;
use crate::mailbox::{Message, Token};
use crate::shared::Shared;

/// The channel on which a connection that speaks RESP2 receives the changes to another one's
/// copies.
pub const CHANNEL: &[u8] = b"__redis__:invalidate";
const SHARDS: usize = 64;
/// Changes that are kept until a worker has time for them; if there are more, every client is told
/// to forget everything.
const BUFFER: ByteSize = ByteSize::mib(1);
/// The bytes that a copy is charged with besides its key.
const COPY_BYTES: usize = 96;

/// The changes that a client wants reported, and the connection that receives them.
#[derive(Clone)]
pub struct Wish {
    /// All changes of keys that begin with one of these, rather than those of keys it has read.
    pub broadcast: Option<Vec<Box<[u8]>>>,
    /// True if the client's own changes are not reported.
    pub no_loop: bool,
    /// The connection that receives the reports in its stead.
    pub redirect: Option<Arc<ConnectionInfo>>,
    /// The key space: that of the pool it works with.
    pub space: Space,
}

/// A key space. Pools that share their keys share their gate as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Space(usize);

impl Space {
    /// Returns the key space of a pool.
    pub fn of(pool: &Pool) -> Self {
        Self(Arc::as_ptr(&pool.gate).addr())
    }
}

struct Follower {
    info: Arc<ConnectionInfo>,
    wish: Wish,
}

/// Which connections have a copy of a key.
type Shard = HashMap<Box<[u8]>, Vec<(Space, u64)>>;

/// See the module.
pub struct Tracking {
    /// True if any connection tracks.
    is_on: AtomicBool,
    followers: RwLock<HashMap<u64, Follower>>,
    /// Created for the first client that tracks, with `followers` locked.
    reader: OnceLock<ChangeReader>,
    shards: Box<[Mutex<Shard>]>,
    copies: AtomicUsize,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            followers: RwLock::default(),
            reader: OnceLock::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            copies: AtomicUsize::new(0),
        }
    }
}

/// The messages to be sent, by worker.
#[derive(Default)]
struct Mail(HashMap<usize, Vec<(Token, Vec<u8>)>>);

impl Mail {
    /// Adds the report of a key, or of all keys, to a client.
    fn add(&mut self, follower: &Follower, key: Option<&[u8]>) {
        let Follower { info, wish } = follower;
        let Some(target) = &wish.redirect else { return self.put(info, |out| compose(out, info, key)) };
        if !target.is_closed() {
            return self.put(target, |out| compose(out, target, key));
        }
        if info.named().resp == 3 {
            self.put(info, |out| {
                reply::push(out, Version::Resp3, 2);
                reply::bulk(out, b"tracking-redir-broken");
                reply::integer(out, target.id as i64);
            });
        }
    }

    fn put(&mut self, info: &ConnectionInfo, compose: impl FnOnce(&mut Vec<u8>)) {
        let Some((worker, token)) = info.place.get() else { return };
        let letters = self.0.entry(*worker).or_default();
        match letters.last_mut() {
            Some((last, bytes)) if last == token => compose(bytes),
            _ => {
                let mut bytes = Vec::new();
                compose(&mut bytes);
                if !bytes.is_empty() {
                    letters.push((*token, bytes));
                }
            }
        }
    }

    /// Sends it, but for the letters to connections of the worker `here`, which are returned.
    fn send_others(mut self, shared: &Shared, here: usize) -> Vec<(Token, Vec<u8>)> {
        let own = self.0.remove(&here).unwrap_or_default();
        self.send(shared);
        own
    }

    fn send(self, shared: &Shared) {
        for (worker, letters) in self.0 {
            if let Some(worker) = shared.workers.get(worker) {
                worker.mailbox.send(Message::Push(letters));
            }
        }
    }
}

/// Writes the message to a connection: a push, or a message of the channel that it has subscribed
/// to.
fn compose(out: &mut Vec<u8>, to: &ConnectionInfo, key: Option<&[u8]>) {
    let version = if to.named().resp == 3 { Version::Resp3 } else { Version::Resp2 };
    match version {
        Version::Resp3 => {
            reply::push(out, Version::Resp3, 2);
            reply::bulk(out, b"invalidate");
        }
        Version::Resp2 if to.is_subscribed() => {
            reply::array(out, 3);
            reply::bulk(out, b"message");
            reply::bulk(out, CHANNEL);
        }
        Version::Resp2 => return,
    }
    match key {
        Some(key) => {
            reply::array(out, 1);
            reply::bulk(out, key);
        }
        None => reply::null(out, version),
    }
}

/// Removes the connections that have a copy of a key of `space`.
fn take_copies(who: &mut Vec<(Space, u64)>, space: Space) -> impl Iterator<Item = u64> {
    who.extract_if(.., move |(other, _)| *other == space).map(|(_, id)| id)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracking {
    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        let hash = base::hash::key_hash(0, key);
        &self.shards[(hash >> 58) as usize % SHARDS]
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<u64, Follower>> {
        self.followers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<u64, Follower>> {
        self.followers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of connections that track, and of the copies of keys that they have.
    pub fn figures(&self) -> (usize, usize) {
        (self.read().len(), self.copies.load(Ordering::Relaxed))
    }

    /// Returns the number of keys of which they have copies.
    pub fn tracked_keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Reports changes to the client as it wishes from now on; the earlier wish is replaced.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn begin(
        &self,
        shared: &Shared,
        info: &Arc<ConnectionInfo>,
        wish: Wish,
    ) -> Result<(), millpond::Error> {
        let mut followers = self.write();
        match self.reader.get() {
            None => {
                let _ = self.reader.set(shared.cache.changes(BUFFER)?);
            }
            Some(reader) if followers.is_empty() => reader.resume(),
            Some(_) => {}
        }
        followers.insert(info.id, Follower { info: Arc::clone(info), wish });
        self.follow_all(&followers);
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn follow_all(&self, followers: &HashMap<u64, Follower>) {
        if let Some(reader) = self.reader.get() {
            reader.follow_all(followers.values().any(|follower| follower.wish.broadcast.is_some()));
        }
    }

    /// Stops all reports to the client.
    pub fn end(&self, shared: &Shared, id: u64) {
        let mut followers = self.write();
        if followers.remove(&id).is_none() {
            return;
        }
        self.follow_all(&followers);
        if followers.is_empty() {
            self.is_on.store(false, Ordering::Relaxed);
            for shard in &self.shards {
                let copies = std::mem::take(&mut *lock(shard));
                copies.iter().for_each(|(key, who)| self.uncount(shared, key, who.len()));
            }
            if let Some(reader) = self.reader.get() {
                reader.pause();
            }
        }
    }

    /// The client works with another pool now.
    pub fn turn(&self, id: u64, space: Space) {
        if let Some(follower) = self.write().get_mut(&id) {
            follower.wish.space = space;
        }
    }

    fn uncount(&self, shared: &Shared, key: &[u8], copies: usize) {
        self.copies.fetch_sub(copies, Ordering::Relaxed);
        shared.cache.ledger().release(Part::Connections, (copies * (COPY_BYTES + key.len())) as u64);
    }

    /// The client is about to read `key`.
    pub fn remember(&self, shared: &Shared, pool: &Pool, key: &[u8], id: u64, max: usize) {
        let Some(reader) = self.reader.get() else { return };
        let copy = (Space::of(pool), id);
        let mut out = None;
        {
            let mut shard = lock(self.shard(key));
            let who = match shard.get_mut(key) {
                Some(who) => who,
                None => shard.entry(key.into()).or_default(),
            };
            if who.contains(&copy) {
                return;
            }
            who.push(copy);
            reader.follow(shared.cache.keys(pool.id), key);
            shared.cache.ledger().charge(Part::Connections, (COPY_BYTES + key.len()) as u64);
            if self.copies.fetch_add(1, Ordering::Relaxed) >= max {
                let other = shard.keys().find(|other| &***other != key).cloned();
                out = other.and_then(|other| shard.remove_entry(&other));
            }
        }
        if let Some((key, who)) = out {
            self.uncount(shared, &key, who.len());
            let mut mail = Mail::default();
            let followers = self.read();
            let directory = shared.directory();
            for (space, id) in who {
                if let Some(pool) = directory.pools.iter().find(|pool| Space::of(pool) == space) {
                    reader.unfollow(shared.cache.keys(pool.id), &key);
                }
                if let Some(follower) = followers.get(&id) {
                    mail.add(follower, Some(&key));
                }
            }
            mail.send(shared);
        }
    }

    /// Reports the pending changes to clients, and returns the messages for connections of the
    /// worker that asks.
    #[inline]
    pub fn deliver(&self, shared: &Shared, worker: Option<usize>) -> Vec<(Token, Vec<u8>)> {
        if self.is_on.load(Ordering::Relaxed) {
            self.deliver_now(shared).send_others(shared, worker.unwrap_or(usize::MAX))
        } else {
            Vec::new()
        }
    }

    #[cold]
    fn deliver_now(&self, shared: &Shared) -> Mail {
        let Some(reader) = self.reader.get().filter(|reader| reader.is_waiting()) else {
            return Mail::default();
        };
        let directory = shared.directory();
        let mut mail = Mail::default();
        let lost = reader.drain(|change| {
            // A removed pool took its keys along.
            if let Some(pool) = directory.pools.iter().find(|pool| pool.id == change.pool) {
                self.tell(shared, reader, Space::of(pool), &change, &mut mail);
            }
        });
        if lost > 0 {
            let spaces: HashSet<Space> = directory.pools.iter().map(|pool| Space::of(pool)).collect();
            spaces.into_iter().for_each(|space| self.forget(shared, space, &mut mail));
        }
        mail
    }

    fn tell(
        &self,
        shared: &Shared,
        reader: &ChangeReader,
        space: Space,
        change: &Change<'_>,
        mail: &mut Mail,
    ) {
        let Change { pool, key, author } = *change;
        let mut told = Vec::new();
        {
            let mut shard = lock(self.shard(key));
            if let Some(who) = shard.get_mut(key) {
                told.extend(take_copies(who, space));
                if who.is_empty() {
                    shard.remove(key);
                }
                told.iter().for_each(|_| reader.unfollow(shared.cache.keys(pool), key));
                self.uncount(shared, key, told.len());
            }
        }
        let followers = self.read();
        let is_own = |follower: &Follower| follower.wish.no_loop && follower.info.id == author;
        for follower in told.iter().filter_map(|id| followers.get(id)) {
            if follower.wish.broadcast.is_none() && !is_own(follower) {
                mail.add(follower, Some(key));
            }
        }
        for follower in followers.values() {
            let Some(prefixes) = &follower.wish.broadcast else { continue };
            let is_wanted = prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix));
            if is_wanted && follower.wish.space == space && !is_own(follower) {
                mail.add(follower, Some(key));
            }
        }
    }

    /// All keys of a pool were flushed.
    pub fn flushed(&self, shared: &Shared, pool: &Pool) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut mail = Mail::default();
            self.forget(shared, Space::of(pool), &mut mail);
            mail.send(shared);
        }
    }

    /// Tells every client that tracks keys of a key space to forget all.
    fn forget(&self, shared: &Shared, space: Space, mail: &mut Mail) {
        let reader = self.reader.get();
        let directory = shared.directory();
        let pool = directory.pools.iter().find(|pool| Space::of(pool) == space);
        let mut told = HashSet::new();
        for shard in &self.shards {
            lock(shard).retain(|key, who| {
                let mut gone = 0;
                for id in take_copies(who, space) {
                    if let (Some(reader), Some(pool)) = (reader, pool) {
                        reader.unfollow(shared.cache.keys(pool.id), key);
                    }
                    told.insert(id);
                    gone += 1;
                }
                self.uncount(shared, key, gone);
                !who.is_empty()
            });
        }
        for (id, follower) in &*self.read() {
            if follower.wish.space == space || told.contains(id) {
                mail.add(follower, None);
            }
        }
    }
}
