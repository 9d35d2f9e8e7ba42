//! Storage commands: `set`, `add`, `replace`, `append`, `prepend`, `cas` and `ms`.

use frontend::output::Output;
use frontend::requests::Asked;
use millpond::{ErrorKind, ReadHandle, WriteHandle};
use protocol::memcached::{
    Exptime, MetaFacts, MetaFlags, MetaStatus, Reply, StoreCommand, StoreHeader, WireError, reply,
};
use tenancy::KeyEffect;
use tenancy::metrics::Counter;

use super::commands::{Commands, ExpiresAt};
use super::meta::{STALE, TOKEN_SENT};
use super::wire::respond;

/// The outcome of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is stored, with this compare-and-swap token.
    Yes(u64),
    /// Its condition did not hold.
    Refused,
    /// The item has another compare-and-swap token.
    Exists,
    /// There is no item to compare with.
    NotFound,
    /// It could not be: too large, or no memory.
    Failed(WireError),
}

/// The error for an item that could not be allocated.
pub(super) fn allocation_error(error: &millpond::Error) -> WireError {
    match error.kind() {
        ErrorKind::TooLarge => WireError::ObjectTooLarge,
        _ => WireError::OutOfMemoryStoring,
    }
}

/// An item that is not in the cache yet, and the compare-and-swap token that it has.
pub(super) struct Draft<'c> {
    /// None where its end has come already: it replaces, and is gone.
    pub(super) item: Option<WriteHandle<'c>>,
    pub(super) cas: u64,
}

impl<'c> Commands<'_, 'c> {
    /// A storage command with all of its data.
    pub(super) fn store(
        &mut self,
        header: &StoreHeader<'_>,
        data: &[u8],
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let outcome = self.store_item(header, data);
        self.report(header, outcome, output);
    }

    /// Carries out a storage command, and counts it.
    pub(super) fn store_item(&mut self, header: &StoreHeader<'_>, data: &[u8]) -> Stored {
        let mut value_len = data.len();
        let outcome = self.with_key(header.key, |commands, key| match header.command {
            StoreCommand::Append | StoreCommand::Prepend => {
                commands.extend(header, key, data, &mut value_len)
            }
            _ => match commands.draft(header, key, data.len()) {
                Ok(mut draft) => {
                    if let Some(item) = &mut draft.item {
                        item.value_mut().copy_from_slice(data);
                    }
                    commands.commit(header, key, draft)
                }
                Err(error) => commands.fail(header, key, error),
            },
        });
        self.count(header, value_len, outcome);
        outcome
    }

    /// An item for `value_len` bytes of data.
    ///
    /// # Errors
    /// What to tell the client.
    pub(super) fn draft(
        &mut self,
        header: &StoreHeader<'_>,
        key: &[u8],
        value_len: usize,
    ) -> Result<Draft<'c>, WireError> {
        let cas = self.new_cas(header);
        let ExpiresAt::Later(expires_at) = ExpiresAt::new(header.exptime, self.now_secs) else {
            return Ok(Draft { item: None, cas });
        };
        let stamp = (expires_at, header.client_flags);
        let options = self.options(stamp, (cas, keeps_cas(header)), value_len);
        let item = self.shared.cache.allocate(self.pool.id, key, value_len, &options);
        item.map(|item| Draft { item: Some(item), cas }).map_err(|error| allocation_error(&error))
    }

    /// The token that an item stored by this command gets.
    pub(super) fn new_cas(&self, header: &StoreHeader<'_>) -> u64 {
        let given = header.meta.as_ref().and_then(MetaFlags::new_cas);
        given.unwrap_or_else(|| self.shared.next_cas())
    }

    /// A storage command failed for want of room. A set leaves no old value behind, as in
    /// memcached.
    pub(super) fn fail(&mut self, header: &StoreHeader<'_>, key: &[u8], error: WireError) -> Stored {
        if header.command == StoreCommand::Set {
            self.keys().remove(key);
        }
        Stored::Failed(error)
    }

    /// Puts the draft in place if the command's condition holds.
    pub(super) fn commit(&mut self, header: &StoreHeader<'_>, key: &[u8], draft: Draft<'c>) -> Stored {
        let Draft { item, cas } = draft;
        match (header.command, item) {
            (StoreCommand::Set, Some(item)) => {
                self.shared.cache.put(item);
                Stored::Yes(cas)
            }
            (StoreCommand::Set, None) => {
                self.keys().remove(key);
                Stored::Yes(cas)
            }
            (StoreCommand::Add, Some(item)) => match self.shared.cache.insert(item) {
                Ok(_) => Stored::Yes(cas),
                Err(_) => Stored::Refused,
            },
            (StoreCommand::Add, None) => match self.keys().peek(key) {
                None => Stored::Yes(cas),
                Some(_) => Stored::Refused,
            },
            (_, item) => self.commit_over(header, key, Draft { item, cas }),
        }
    }

    /// `replace` and `cas`: puts the draft in place of what is there, if that is as the command
    /// says.
    fn commit_over(&mut self, header: &StoreHeader<'_>, key: &[u8], draft: Draft<'c>) -> Stored {
        let Draft { mut item, cas } = draft;
        loop {
            let Some(old) = self.keys().peek(key) else {
                return if header.compare_cas.is_some() { Stored::NotFound } else { Stored::Refused };
            };
            let stale = match compare(header, &old) {
                Ok(stale) => stale,
                Err(outcome) => return outcome,
            };
            let Some(mut new) = item.take() else {
                if self.shared.cache.remove_matching(&old) {
                    return Stored::Yes(cas);
                }
                continue;
            };
            if stale {
                new.set_user_bits(STALE | (old.user_bits() & TOKEN_SENT));
            }
            match self.shared.cache.replace_matching(&old, new) {
                Ok(stored) => {
                    if stale {
                        // A stale replacement keeps the end of what it replaces.
                        self.set_expiration(stored, ExpiresAt::Later(old.expires_at()));
                    }
                    return Stored::Yes(cas);
                }
                Err(new) => item = Some(new),
            }
        }
    }

    /// `append` and `prepend`: flags and end stay as they are. With `N` of `ms`, an item that is
    /// not there is created. `whole_len` becomes the length of the whole value.
    fn extend(&mut self, header: &StoreHeader<'_>, key: &[u8], data: &[u8], whole_len: &mut usize) -> Stored {
        let vivify = header.meta.as_ref().and_then(MetaFlags::vivify);
        loop {
            let Some(old) = self.keys().peek(key) else {
                let Some(exptime) = vivify else { return Stored::Refused };
                match self.seed(header, key, data, exptime) {
                    Some(outcome) => return outcome,
                    // Another client has created the item meanwhile.
                    None => continue,
                }
            };
            if old.is_structured() {
                return Stored::Refused;
            }
            if header.compare_cas.is_some_and(|cas| Some(cas) != cas_of(&old)) {
                return Stored::Exists;
            }
            let client_flags = old.client_flags();
            let value_len = old.len().saturating_add(data.len());
            let cas = self.new_cas(header);
            let has_cas = keeps_cas(header) || old.tag().is_some();
            let options = self.options((old.expires_at(), client_flags), (cas, has_cas), value_len);
            if value_len > self.max_value_bytes(key, client_flags) {
                return Stored::Refused;
            }
            let mut new = match self.shared.cache.allocate(self.pool.id, key, value_len, &options) {
                Ok(new) => new,
                Err(error) if error.kind() == ErrorKind::TooLarge => return Stored::Refused,
                Err(error) => return Stored::Failed(allocation_error(&error)),
            };
            let (front, back) = match header.command {
                StoreCommand::Prepend => (data, &*old),
                _ => (&*old, data),
            };
            let (first, second) = new.value_mut().split_at_mut(front.len());
            first.copy_from_slice(front);
            second.copy_from_slice(back);
            if self.shared.cache.replace_matching(&old, new).is_ok() {
                *whole_len = value_len;
                return Stored::Yes(cas);
            }
        }
    }

    /// Creates the missing item that is to be extended; nothing if another client has created it
    /// meanwhile.
    fn seed(
        &mut self,
        header: &StoreHeader<'_>,
        key: &[u8],
        data: &[u8],
        exptime: Exptime,
    ) -> Option<Stored> {
        let header = StoreHeader { command: StoreCommand::Add, exptime, compare_cas: None, ..*header };
        let mut draft = match self.draft(&header, key, data.len()) {
            Ok(draft) => draft,
            Err(error) => return Some(Stored::Failed(error)),
        };
        if let Some(item) = &mut draft.item {
            item.value_mut().copy_from_slice(data);
        }
        match self.commit(&header, key, draft) {
            Stored::Refused => None,
            outcome => Some(outcome),
        }
    }

    /// The largest value that the limits allow under `key`.
    fn max_value_bytes(&self, key: &[u8], client_flags: u32) -> usize {
        let limits = &self.settings.protocol;
        let overhead = protocol::memcached::Limits::item_overhead(client_flags);
        limits.max_item_bytes.saturating_sub(key.len().saturating_add(overhead))
    }

    /// Tells the client of the outcome.
    pub(super) fn report(
        &mut self,
        header: &StoreHeader<'_>,
        outcome: Stored,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        if let Some(flags) = &header.meta {
            return self.report_meta(header, flags, outcome, output);
        }
        let answer = match outcome {
            Stored::Yes(_) => Reply::Stored.as_bytes(),
            Stored::Refused => Reply::NotStored.as_bytes(),
            Stored::Exists => Reply::Exists.as_bytes(),
            Stored::NotFound => Reply::NotFound.as_bytes(),
            Stored::Failed(error) => error.as_bytes(),
        };
        respond(output, header.noreply, answer);
    }

    fn report_meta(
        &mut self,
        header: &StoreHeader<'_>,
        flags: &MetaFlags<'_>,
        outcome: Stored,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let (status, cas) = match outcome {
            Stored::Yes(cas) => (MetaStatus::Done, cas),
            Stored::Refused => (MetaStatus::NotStored, 0),
            Stored::Exists => (MetaStatus::Exists, 0),
            Stored::NotFound => (MetaStatus::NotFound, 0),
            Stored::Failed(error) => return output.write(error.as_bytes()),
        };
        if flags.quiet() && status.is_nominal(false) {
            return;
        }
        let key_is_base64 = header.key.is_base64();
        self.with_key(header.key, |_, key| {
            let facts = MetaFacts { key, key_is_base64, cas: Some(cas), ..MetaFacts::default() };
            output.compose(|out| reply::meta(out, status, flags, &facts));
        });
    }

    /// Counts a storage command after which the value has `value_len` bytes, and logs it.
    pub(super) fn count(&self, header: &StoreHeader<'_>, value_len: usize, outcome: Stored) {
        // What is extended keeps the end that it has.
        let keeps_end = matches!(header.command, StoreCommand::Append | StoreCommand::Prepend);
        self.note(&Asked {
            command: name(header.command),
            does: KeyEffect::Write,
            key: header.key.wire(),
            value_bytes: Some(value_len),
            ttl_secs: if keeps_end { None } else { self.ttl_secs(header.exptime) },
            outcome: match outcome {
                Stored::Yes(_) => "stored",
                Stored::Refused => "not_stored",
                Stored::Exists => "exists",
                Stored::NotFound => "not_found",
                Stored::Failed(_) => "error",
            },
        });
        let stored = match outcome {
            Stored::Yes(_) => Counter::Stored,
            Stored::Failed(WireError::ObjectTooLarge) => Counter::RefusedSize,
            Stored::Failed(_) => Counter::RefusedMemory,
            _ => Counter::NotStored,
        };
        self.counters.add(stored, 1);
        if header.meta.is_some() {
            self.counters.add(Counter::Meta, 1);
        }
        if header.command == StoreCommand::Cas {
            let counter = match outcome {
                Stored::Yes(_) => Counter::CasHits,
                Stored::Exists => Counter::CasBadValue,
                _ => Counter::CasMisses,
            };
            self.counters.add(counter, 1);
        }
    }
}

pub(super) const fn name(command: StoreCommand) -> &'static str {
    match command {
        StoreCommand::Set => "set",
        StoreCommand::Add => "add",
        StoreCommand::Replace => "replace",
        StoreCommand::Append => "append",
        StoreCommand::Prepend => "prepend",
        StoreCommand::Cas => "cas",
    }
}

/// Returns whether the new item is stale, if the command may replace `old`; otherwise the outcome
/// to report.
fn compare(header: &StoreHeader<'_>, old: &ReadHandle<'_>) -> Result<bool, Stored> {
    let Some(wanted) = header.compare_cas else { return Ok(false) };
    let has = cas_of(old);
    if Some(wanted) == has {
        return Ok(false);
    }
    // An older token may still replace the item when the client says that the result is to count as
    // stale.
    let invalidates = header.meta.as_ref().is_some_and(MetaFlags::invalidate);
    // An item without a token is younger than all that were given out.
    if invalidates && has.is_none_or(|has| wanted < has) { Ok(true) } else { Err(Stored::Exists) }
}

/// Returns whether the stored item has a token from the start.
fn keeps_cas(header: &StoreHeader<'_>) -> bool {
    header.wants_cas || header.meta.as_ref().is_some_and(|flags| flags.new_cas().is_some())
}

/// The compare-and-swap token of an item; `None`: nobody asked for one since it was stored.
pub(super) fn cas_of(item: &ReadHandle<'_>) -> Option<u64> {
    item.tag().map(|tag| tag.cas)
}
