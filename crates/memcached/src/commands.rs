//! The engine as a client of one listener sees it, and the commands that need no more than a call
//! of it.

use std::sync::Arc;

use config::{Auto, Config};
use frontend::connections::ConnectionInfo;
use frontend::instance::Instance as _;
use frontend::lookup::{TAGGED_FROM_BYTES, Value};
use frontend::output::Output;
use frontend::requests::{Asked, Notes};
use frontend::settings::Settings;
use frontend::shared::Shared;
use frontend::telemetry::{Sampled, Step};
use millpond::{ItemOptions, ItemTag, Keys, ReadHandle};
use protocol::memcached::{
    DeleteRequest, Expiry, Exptime, Key, KeyBuf, Reply, StoreCommand, StoreHeader, TouchRequest, WireError,
};
use tenancy::key_space::Pool;
use tenancy::metrics::{Counter, ListenerCounters};
use tenancy::users::User;
use tenancy::{KeyEffect, Tenant};

use super::store::cas_of;
use super::wire::respond;

/// The state that a command works with.
pub(super) struct Commands<'a, 'c> {
    pub(super) shared: &'c Shared,
    pub(super) settings: &'a Settings,
    pub(super) tenant: &'a Arc<Tenant>,
    pub(super) pool: &'a Pool,
    pub(super) info: &'a ConnectionInfo,
    /// The user, if its permissions are restricted.
    pub(super) bound: Option<&'a User>,
    pub(super) counters: &'a ListenerCounters,
    pub(super) now_secs: u32,
    pub(super) key_buffer: &'a mut KeyBuf,
    /// There while requests are logged.
    pub(super) notes: Option<Notes<'a>>,
    /// True if requests are counted by the prefixes of their keys.
    pub(super) has_details: bool,
    /// There while this turn is traced.
    pub(super) sampled: &'a mut Option<Sampled>,
}

/// The expiry time of an item, in the engine's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiresAt {
    /// At this Unix time; `None` is never.
    Later(Option<u32>),
    /// The time has passed already.
    Past,
}

/// The outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    Yes,
    /// There is no item.
    NotFound,
    /// It has another compare-and-swap token.
    Exists,
}

/// Converts an expiry time (Unix seconds; `None` is never) for the engine.
pub(super) fn engine_expiry(expires_at: Option<u32>) -> millpond::Expiry {
    expires_at.map_or(millpond::Expiry::Never, millpond::Expiry::At)
}

impl ExpiresAt {
    pub(super) fn new(exptime: Exptime, now_secs: u32) -> Self {
        match exptime.expiry(now_secs) {
            Expiry::Never => Self::Later(None),
            Expiry::At(unix_secs) => Self::Later(Some(unix_secs)),
            Expiry::Past => Self::Past,
        }
    }
}

impl<'c> Commands<'_, 'c> {
    /// The keys of the listener's pool.
    #[inline]
    pub(super) fn keys(&self) -> Keys<'c> {
        self.shared.cache.keys(self.pool.id)
    }

    /// Returns the options for a new item. The item has a token at once if it `has_cas`, or if it
    /// is so large that the size of a token does not matter.
    pub(super) fn options(
        &self,
        (expires_at, client_flags): (Option<u32>, u32),
        (cas, has_cas): (u64, bool),
        value_len: usize,
    ) -> ItemOptions {
        let is_tagged = has_cas || value_len >= TAGGED_FROM_BYTES;
        ItemOptions {
            expiry: engine_expiry(expires_at),
            client_flags,
            tag: is_tagged.then_some(ItemTag { cas, client_flags }),
            ..ItemOptions::default()
        }
    }

    /// Returns the item with a compare-and-swap token, which an item gets when a client first asks
    /// for it; without one if it could not be added.
    pub(super) fn tagged(&self, item: ReadHandle<'c>) -> ReadHandle<'c> {
        let (Ok(item) | Err(item)) = self.keys().give_tag(item, || self.shared.next_cas());
        item
    }

    /// Returns the value found, with its compare-and-swap token if its handle is held.
    pub(super) fn with_token<'a>(&self, value: Value<'a, 'c>) -> Value<'a, 'c> {
        match value {
            Value::Held(item) => Value::Held(self.tagged(item)),
            shown => shown,
        }
    }

    /// Returns the compare-and-swap token of a value, for the reply. If the item was replaced or
    /// removed before it got a token, returns a new token, which no item has.
    pub(super) fn cas_of(&self, value: &Value<'_, 'c>) -> u64 {
        value.cas().unwrap_or_else(|| self.shared.next_cas())
    }

    /// Returns the time to live in seconds, for the request log; `None` if it is unlimited. It is
    /// at least 1, because 0 means unlimited in traces.
    pub(super) fn ttl_secs(&self, exptime: Exptime) -> Option<u32> {
        match exptime.expiry(self.now_secs) {
            Expiry::Never => None,
            Expiry::At(unix_secs) => Some(unix_secs.saturating_sub(self.now_secs).max(1)),
            Expiry::Past => Some(1),
        }
    }

    /// Sets the expiration time of an item that was found, or removes the item if that time is
    /// past. An item stored under the key meanwhile keeps its own time. Returns the item, or the
    /// copy that has replaced it.
    pub(super) fn set_expiration(&self, item: ReadHandle<'c>, end: ExpiresAt) -> ReadHandle<'c> {
        let set = |item: ReadHandle<'c>| match end {
            ExpiresAt::Later(expires_at) => self.keys().touch_item(item, engine_expiry(expires_at)),
            ExpiresAt::Past if self.shared.cache.remove_matching(&item) => Ok(item),
            ExpiresAt::Past => Err(item),
        };
        let item = match set(item) {
            Ok(item) => return item,
            Err(item) => item,
        };
        // A copy of it with a token, which another client has asked for.
        let is_copy = |present: &ReadHandle<'_>| !present.is_structured() && present[..] == item[..];
        while let Some(present) = self.keys().peek(item.key()).filter(is_copy) {
            match set(present) {
                Ok(present) => return present,
                // There is no memory for the change.
                Err(present) if present.is_current() => return present,
                Err(_) => {}
            }
        }
        item
    }

    /// Calls `act` with the bytes of `key`, decoded where the wire has base64.
    pub(super) fn with_key<R>(&mut self, key: Key<'_>, act: impl FnOnce(&mut Self, &[u8]) -> R) -> R {
        if !key.is_base64() {
            return act(self, key.wire());
        }
        let mut scratch = std::mem::take(self.key_buffer);
        let result = act(self, key.bytes(&mut scratch));
        *self.key_buffer = scratch;
        result
    }

    /// The time, in a turn that is traced.
    #[inline]
    pub(super) fn traced_since(&self) -> Option<u64> {
        self.sampled.as_ref().map(|_| self.shared.clock.monotonic_nanos())
    }

    /// Traces a slow command, in a turn that is traced.
    pub(super) fn trace_command(&mut self, name: &'static str, key: Option<Key<'_>>, began_nanos: u64) {
        match key {
            Some(key) => {
                let mut scratch = KeyBuf::default();
                self.trace(name, Some(key.bytes(&mut scratch)), 0, began_nanos);
            }
            None => self.trace(name, None, 0, began_nanos),
        }
    }

    /// Traces `lookups` look-ups that were made together, or a slow command if `lookups` is 0.
    pub(super) fn trace(&mut self, name: &'static str, key: Option<&[u8]>, lookups: usize, began_nanos: u64) {
        let took_nanos = self.shared.clock.monotonic_nanos().saturating_sub(began_nanos);
        let Some(sampled) = self.sampled.as_mut().filter(|sampled| sampled.is_slow(took_nanos)) else {
            return;
        };
        let key = key.map(|key| (self.shared.request_log.number_of(key), key.len()));
        sampled.note(Step { name, began_nanos, took_nanos, lookups, key });
    }

    /// Has a request logged, where requests are.
    #[inline]
    pub(super) fn note(&self, asked: &Asked<'_>) {
        if let Some(notes) = &self.notes {
            notes.note(asked);
        }
        if self.has_details {
            self.note_prefix(asked);
        }
    }

    /// Counts a request by the prefix of its key. Numbers that are counted up or down are not among
    /// them, as in memcached.
    #[cold]
    fn note_prefix(&self, asked: &Asked<'_>) {
        if !matches!(asked.command, "incr" | "decr") {
            let ledger = self.shared.cache.ledger();
            self.tenant.prefix_counts.note(asked.key, asked.does, asked.value_bytes.is_some(), ledger);
        }
    }

    /// Removes the item under `key`. With `compare_cas`, removes it only if it has that
    /// compare-and-swap token.
    pub(super) fn remove(&self, key: &[u8], compare_cas: Option<u64>) -> Removed {
        let removed = self.remove_item(key, compare_cas);
        let outcome = match removed {
            Removed::Yes => "deleted",
            Removed::NotFound => "not_found",
            Removed::Exists => "exists",
        };
        let (command, does) = ("delete", KeyEffect::Remove);
        self.note(&Asked { command, does, key, value_bytes: None, ttl_secs: None, outcome });
        removed
    }

    fn remove_item(&self, key: &[u8], compare_cas: Option<u64>) -> Removed {
        let Some(cas) = compare_cas else {
            return if self.keys().remove(key) { Removed::Yes } else { Removed::NotFound };
        };
        loop {
            let Some(old) = self.keys().peek(key) else { return Removed::NotFound };
            if Some(cas) != cas_of(&old) {
                return Removed::Exists;
            }
            if self.shared.cache.remove_matching(&old) {
                return Removed::Yes;
            }
        }
    }

    pub(super) fn count_removal(&self, removed: bool) {
        self.counters.add(if removed { Counter::DeleteHits } else { Counter::DeleteMisses }, 1);
    }

    pub(super) fn delete(&mut self, request: DeleteRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        let removed = self.remove(request.key.wire(), None) == Removed::Yes;
        self.count_removal(removed);
        let answer = if removed { Reply::Deleted } else { Reply::NotFound };
        respond(output, request.noreply, answer.as_bytes());
    }

    pub(super) fn touch(&mut self, request: TouchRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        let touched = self.touch_item(request.key.wire(), request.exptime);
        let answer = if touched.is_some() { Reply::Touched } else { Reply::NotFound };
        respond(output, request.noreply, answer.as_bytes());
    }

    /// Gives an item a new end, and counts that.
    pub(super) fn touch_item(&mut self, key: &[u8], exptime: Exptime) -> Option<ReadHandle<'c>> {
        let end = ExpiresAt::new(exptime, self.now_secs);
        // The access is recorded, as memcached does.
        let item = self.keys().find(key).filter(|item| !item.is_structured());
        let item = item.map(|item| {
            item.note_access();
            self.set_expiration(item, end)
        });
        self.counters.add(Counter::Touches, 1);
        self.counters.add(if item.is_some() { Counter::TouchHits } else { Counter::TouchMisses }, 1);
        let outcome = if item.is_some() { "hit" } else { "miss" };
        let (command, does, ttl_secs) = ("touch", KeyEffect::Touch, self.ttl_secs(exptime));
        self.note(&Asked { command, does, key, value_bytes: None, ttl_secs, outcome });
        item
    }

    pub(super) fn flush_all(&mut self, delay: Exptime) {
        self.counters.add(Counter::Flushes, 1);
        match delay.expiry(self.now_secs) {
            Expiry::At(unix_secs) => self.keys().flush_at(unix_secs),
            Expiry::Never | Expiry::Past => {
                self.keys().flush();
                self.shared.tracking.flushed(self.shared, self.pool);
            }
        }
    }

    /// `cache_memlimit`.
    pub(super) fn set_memory(&mut self, mebibytes: u64) -> &'static [u8] {
        if self.shared.has_several_tenants() {
            return b"CLIENT_ERROR memory is shared by several tenants; only the operator can change it\r\n";
        }
        if self.shared.control.was_led() {
            return b"CLIENT_ERROR an orchestrator sets the memory of this server\r\n";
        }
        if mebibytes < 8 {
            return WireError::MemlimitTooSmall.as_bytes();
        }
        if mebibytes > 1_000_000_000 {
            return WireError::MemlimitNotMegabytes.as_bytes();
        }
        let memory = base::ByteSize::mib(mebibytes);
        let by = format!("cache_memlimit by {}", self.info.peer);
        let edit = |old: &Config| {
            let mut new = old.clone();
            new.memory = Auto::Set(memory);
            new.into()
        };
        match self.shared.change(&by, &edit) {
            Ok(_) => Reply::Ok.as_bytes(),
            Err(error) => {
                tracing::info!(by, %error, "The memory was not changed.");
                WireError::MemlimitOutOfBounds.as_bytes()
            }
        }
    }

    /// Removes the item under the key of a storage command that was refused for its size, so that
    /// no client reads the old value any more. As in memcached, only for `set` and `ms`.
    pub(super) fn forget_refused(&mut self, header: &StoreHeader<'_>) {
        if header.command == StoreCommand::Set || header.meta.is_some() {
            self.with_key(header.key, |commands, key| commands.keys().remove(key));
        }
    }
}
