//! The engine as a client sees it, and which command is what.

use std::cell::Cell;
use std::sync::Arc;

use millpond::structured::Collection;
use millpond::{Expiry, ItemOptions, ItemTag, Keys, ReadHandle, WriteHandle};

use super::client::Client;
use super::notes::Told;
use super::writer::{Failure, Outcome, Writer};
use frontend::connections::ConnectionInfo;
use frontend::deadline::{StoredExpiry, deadline, is_over};
use frontend::lookup::TAGGED_FROM_BYTES;
use frontend::output::Output;
use frontend::requests::Notes;
use frontend::settings::Settings;
use frontend::shared::Shared;
use frontend::telemetry::Sampled;
use frontend::turn::Next;
use protocol::resp::commands::{Command, Spec};
use tenancy::key_space::Pool;
use tenancy::metrics::{Counter, ListenerCounters};
use tenancy::users::Identity;
use tenancy::{Account, Directory, Paused};

/// The state that a command works with.
pub(super) struct Commands<'a, 'c> {
    pub(super) shared: &'c Shared,
    pub(super) settings: &'a Settings,
    pub(super) info: &'a Arc<ConnectionInfo>,
    pub(super) pool: &'a Pool,
    pub(super) counters: &'a ListenerCounters,
    /// The account charged for this turn.
    pub(super) present: &'a Arc<Account>,
    /// The account of the connection when the turn began.
    pub(super) own: &'a Arc<Account>,
    /// The tenants by prefixes, if prefixes matter.
    pub(super) directory: Option<&'a Directory>,
    /// The account of the connection from the next turn on.
    pub(super) account: &'a mut Arc<Account>,
    pub(super) identity: &'a mut Identity,
    /// True if the client was authenticated when the turn began.
    pub(super) was_authenticated: bool,
    pub(super) client: &'a mut Client,
    /// The time of this turn in Unix milliseconds, once it was asked for.
    pub(super) now: Cell<Option<u64>>,
    /// There while requests are logged.
    pub(super) notes: Option<Notes<'a>>,
    /// The results for the notes of the present command that its arguments do not show.
    pub(super) told: Cell<Told>,
    /// There while this turn is traced.
    pub(super) sampled: &'a mut Option<Sampled>,
    /// True if every command of this turn is timed.
    pub(super) is_timed: bool,
    /// The number of the call that was carried out last, until its time is noted.
    pub(super) untimed: Cell<Option<usize>>,
    /// Which requests are to wait, where some are.
    pub(super) paused: Cell<Option<Paused>>,
}

/// The change to make to an item, given the old one: see [`Commands::modify`].
pub(super) enum Change<'c, R> {
    /// Nothing.
    Leave(R),
    /// This in its place.
    Put(WriteHandle<'c>, R),
    /// Remove it.
    Remove(R),
}

impl<'c> Commands<'_, 'c> {
    /// The keys of the listener's pool.
    #[inline]
    pub(super) fn keys(&self) -> Keys<'c> {
        self.shared.cache.keys(self.pool.id)
    }

    /// Returns whether the connection has switched tenants or authenticated in this turn, which the
    /// next turn must take into account.
    pub(super) fn has_moved(&self) -> bool {
        !Arc::ptr_eq(self.own, self.account) || self.was_authenticated != self.identity.is_authenticated
    }

    /// Closes the connection of a client that speaks HTTP, without an answer.
    pub(super) fn refuse_http(&self) -> Next {
        self.counters.add(Counter::RefusedHttp, 1);
        self.shared.warn_of_http(self.info);
        Next::Close(Counter::ClosedRefused)
    }

    /// Unix milliseconds; the same for all of a turn.
    pub(super) fn now_millis(&self) -> u64 {
        self.now.get().unwrap_or_else(|| {
            let now = self.shared.clock.unix_nanos() / 1_000_000;
            self.now.set(Some(now));
            now
        })
    }

    /// Returns whether an item that the engine still holds has expired.
    pub(super) fn is_over(&self, item: &ReadHandle<'_>) -> bool {
        if item.is_structured() {
            // One without entries is none.
            return self.deadline_of(item).is_none_or(|end| end.is_some_and(|end| end <= self.now_millis()));
        }
        is_over(item.expires_at(), flags_of(item), || self.now_millis())
    }

    /// The expiration time of an item in Unix milliseconds, `Some(None)` for never. `None`: the
    /// item's collection is not in it any more.
    pub(super) fn deadline_of(&self, item: &ReadHandle<'_>) -> Option<Option<u64>> {
        if !item.is_structured() {
            return Some(deadline(item.expires_at(), flags_of(item)));
        }
        // What is corrupt does not expire; whoever reads it is told so.
        Collection::of(&self.shared.cache, item)?.deadline().unwrap_or(Some(None))
    }

    /// Returns a token that tells the present state of a key from its other ones; `None` if the key
    /// has no value.
    pub(super) fn token(&self, key: &[u8]) -> Option<(u64, u32)> {
        self.of_item(key, |item| self.token_of(item))
    }

    /// Returns such a token, of which states that come later are told apart.
    pub(super) fn lasting_token(&self, key: &[u8]) -> Option<(u64, u32)> {
        let item = self.peek(key)?;
        if item.is_structured() {
            let token = self.token_of(&item);
            // Grown or removed meanwhile.
            return if token.is_none() && !item.is_current() { self.lasting_token(key) } else { token };
        }
        match self.keys().give_tag(item, || self.shared.next_cas()) {
            Ok(item) => self.token_of(&item),
            // It has none, and there is no memory to give it one: what comes counts as another.
            Err(_) => Some((self.shared.next_cas(), 0)),
        }
    }

    fn token_of(&self, item: &ReadHandle<'_>) -> Option<(u64, u32)> {
        if !item.is_structured() {
            // An item without a token was stored after all that were given out.
            return Some((item.tag().map_or(0, |tag| tag.cas), 0));
        }
        // What is corrupt is not changed.
        Collection::of(&self.shared.cache, item)?.version().unwrap_or(Some((0, 0)))
    }

    /// Returns the result of `look` for the item of `key`; `None` if the key has no value. `look`
    /// answers `None` if the item's collection is not in it any more.
    pub(super) fn of_item<R>(&self, key: &[u8], look: impl Fn(&ReadHandle<'c>) -> Option<R>) -> Option<R> {
        loop {
            let item = self.peek(key)?;
            let seen = look(&item);
            if seen.is_some() || item.is_current() {
                return seen;
            }
        }
    }

    /// The item that `find` finds, unless it has expired. A collection that has grown out of the
    /// item is looked for again.
    fn unexpired(&self, find: impl Fn() -> Option<ReadHandle<'c>>) -> Option<ReadHandle<'c>> {
        loop {
            let item = find()?;
            if !self.is_over(&item) {
                return Some(item);
            }
            if !item.is_structured() || item.is_current() {
                return None;
            }
        }
    }

    /// The item of `key`; counts nothing.
    pub(super) fn peek(&self, key: &[u8]) -> Option<ReadHandle<'c>> {
        self.unexpired(|| self.keys().peek(key))
    }

    /// The item of `key`, which counts neither as a hit nor as a miss of this listener.
    pub(super) fn find(&self, key: &[u8]) -> Option<ReadHandle<'c>> {
        self.unexpired(|| self.keys().find(key))
    }

    /// The item of `key`, which is being read.
    pub(super) fn read(&self, key: &[u8]) -> Option<ReadHandle<'c>> {
        let item = self.find(key);
        match &item {
            Some(item) => {
                item.note_access();
                self.count_reads(1, 0);
            }
            None => self.count_reads(0, 1),
        }
        item
    }

    /// The item of `key`, which is being read, with a string; an error where it is a collection.
    pub(super) fn read_string(&self, key: &[u8]) -> Result<Option<ReadHandle<'c>>, Failure> {
        match self.read(key) {
            Some(item) if item.is_structured() => Err(Failure::WRONG_TYPE),
            item => Ok(item),
        }
    }

    pub(super) fn count_reads(&self, hits: u64, misses: u64) {
        self.counters.add(Counter::GetHits, hits);
        self.counters.add(Counter::GetMisses, misses);
    }

    /// An item that nobody sees yet, with room for a value of `len` bytes.
    pub(super) fn allocate(
        &self,
        key: &[u8],
        len: usize,
        stamp: StoredExpiry,
    ) -> Result<WriteHandle<'c>, Failure> {
        if len > self.settings.resp.max_kept_bulk_bytes {
            self.counters.add(Counter::RefusedSize, 1);
            return Err(Failure::TOO_LONG);
        }
        let StoredExpiry { expires_at, client_flags } = stamp;
        let tag = || ItemTag { cas: self.shared.next_cas(), client_flags };
        let options = ItemOptions {
            expiry: expires_at.map_or(Expiry::Never, Expiry::At),
            client_flags,
            tag: (len >= TAGGED_FROM_BYTES).then(tag),
            ..ItemOptions::default()
        };
        self.shared.cache.allocate(self.pool.id, key, len, &options).map_err(|error| {
            let failure = Failure::from(error);
            let counter =
                if failure == Failure::OUT_OF_MEMORY { Counter::RefusedMemory } else { Counter::RefusedSize };
            self.counters.add(counter, 1);
            failure
        })
    }

    /// As [`Self::allocate`], with a value of these pieces.
    pub(super) fn item_of(
        &self,
        key: &[u8],
        pieces: &[&[u8]],
        stamp: StoredExpiry,
    ) -> Result<WriteHandle<'c>, Failure> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let mut item = self.allocate(key, len, stamp)?;
        let mut rest = item.value_mut();
        for piece in pieces {
            let (place, behind) = rest.split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = behind;
        }
        Ok(item)
    }

    /// Puts `new` in the place of `old`, or where there is nothing. The item comes back where that
    /// is not so any more.
    pub(super) fn place(
        &self,
        key: &[u8],
        old: Option<&ReadHandle<'_>>,
        new: WriteHandle<'c>,
    ) -> Result<(), WriteHandle<'c>> {
        let cache = &self.shared.cache;
        if let Some(old) = old {
            return cache.replace_matching(old, new).map(drop);
        }
        let new = match cache.insert(new) {
            Ok(_) => return Ok(()),
            Err(new) => new,
        };
        // What is there may be over by milliseconds, which the engine does not know of.
        match self.keys().peek(key) {
            Some(over) if self.is_over(&over) => cache.replace_matching(&over, new).map(drop),
            _ => Err(new),
        }
    }

    /// Changes the string under `key` depending on what it is: `change` is asked again with what is
    /// there now where another client was faster.
    pub(super) fn modify<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&ReadHandle<'c>>) -> Result<Change<'c, R>, Failure>,
    ) -> Result<R, Failure> {
        loop {
            let old = self.peek(key);
            if old.as_ref().is_some_and(ReadHandle::is_structured) {
                return Err(Failure::WRONG_TYPE);
            }
            match change(old.as_ref())? {
                Change::Leave(result) => return Ok(result),
                Change::Put(new, result) => {
                    if self.place(key, old.as_ref(), new).is_ok() {
                        self.counters.add(Counter::Stored, 1);
                        return Ok(result);
                    }
                }
                Change::Remove(result) => {
                    if old.is_none_or(|old| self.shared.cache.remove_matching(&old)) {
                        return Ok(result);
                    }
                }
            }
        }
    }

    /// Removes what is under `key`, and says whether there was something.
    pub(super) fn remove(&self, key: &[u8]) -> bool {
        loop {
            let Some(old) = self.keys().peek(key) else {
                // An item beneath memory, which an overwriting command has not brought, goes too.
                return self.shared.cache.has_secondary() && self.keys().remove(key);
            };
            let is_over = self.is_over(&old);
            if self.shared.cache.remove_matching(&old) {
                return !is_over;
            }
        }
    }

    /// Carries out a command whose arity was checked, and counts it.
    pub(super) fn run(&mut self, spec: &'static Spec, args: &[&[u8]], output: &mut Output<ReadHandle<'c>>) {
        let version = self.client.version;
        let end = output.end();
        self.remember_all(spec, args);
        let outcome = self.dispatch(spec.command, args, &mut Writer { output: &mut *output, version });
        self.end_caching(spec.command);
        self.count_call(spec.number_of(args).unwrap_or(spec.number), &outcome);
        self.note_request(spec, args, None, outcome.is_ok());
        if let Err(failure) = outcome {
            self.count_error(&failure);
            output.rewind(end);
            Writer { output, version }.failure(&failure);
        }
    }

    fn dispatch(&mut self, command: Command, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match command {
            Command::Bitmap(command) => self.run_bits(command, args, w),
            Command::Connection(command) => self.run_connection(command, args, w),
            Command::Generic(command) => self.run_key(command, args, w),
            Command::Hash(command) => self.run_hash(command, args, w),
            Command::List(command) => self.run_list(command, args, w),
            Command::PubSub(command) => self.run_pubsub(command, args, w),
            Command::Server(command) => self.run_server(command, args, w),
            Command::Set(command) => self.run_set(command, args, w),
            Command::SortedSet(command) => self.run_sorted(command, args, w),
            Command::Str(command) => self.run_string(command, args, w),
            Command::Transactions(command) => self.run_transaction(command, args, w),
        }
    }
}

/// The client flags of an item.
pub(super) fn flags_of(item: &ReadHandle<'_>) -> u32 {
    item.client_flags()
}

/// The expiry time and flags of `old`, for the item that replaces it.
pub(super) fn stamp_of(old: Option<&ReadHandle<'_>>) -> StoredExpiry {
    old.map_or(StoredExpiry::new(None, 0), |old| StoredExpiry {
        expires_at: old.expires_at(),
        client_flags: flags_of(old),
    })
}
