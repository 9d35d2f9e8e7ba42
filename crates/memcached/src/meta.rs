//! Meta commands other than `ms`: `mg`, `md`, `me`, and the answer to `ma`.

use frontend::lookup::Value;
use frontend::output::Output;
use millpond::{ReadHandle, WriteHandle};
use protocol::memcached::{
    Exptime, MetaCommand, MetaFacts, MetaFlags, MetaMarks, MetaRequest, MetaStatus, Remaining, WireError,
    reply,
};
use tenancy::metrics::Counter;

use super::arithmetic::{Change, Changed};
use super::commands::{Commands, ExpiresAt, Removed};
use super::stats;
use super::store::{allocation_error, cas_of};

/// User bit of an item that is to be recached, though it may be served meanwhile.
pub(super) const STALE: u8 = 1;
/// User bit of an item that some client was told to recache.
pub(super) const TOKEN_SENT: u8 = 2;

/// The state of an item before the present command looked it up.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    fetched: bool,
    last_access: Option<u32>,
}

impl<'c> Commands<'_, 'c> {
    /// `mg` with flags that change something or ask what was before, `md`, `ma`, `me`.
    pub(super) fn meta(&mut self, request: MetaRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        self.counters.add(Counter::Meta, 1);
        self.with_key(request.key, |commands, key| match request.command {
            MetaCommand::Get => commands.meta_get(key, &request, output),
            MetaCommand::Delete => commands.meta_delete(key, &request, output),
            MetaCommand::Arithmetic(direction) => {
                let flags = &request.flags;
                let change = Change {
                    direction,
                    delta: flags.delta(),
                    compare_cas: flags.compare_cas(),
                    new_cas: flags.new_cas(),
                    wants_cas: flags.has(b'c'),
                    create: flags.vivify().map(|exptime| (exptime, flags.initial())),
                    touch: flags.ttl(),
                };
                let changed = commands.change(key, &change);
                commands.answer_meta_arithmetic(key, &request, changed, output);
            }
            MetaCommand::Debug => commands.meta_debug(key, &request, output),
        });
    }

    fn meta_get(&mut self, key: &[u8], request: &MetaRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        let flags = &request.flags;
        let (found, before) = self.find_for_meta(key, flags);
        let counter = if found.is_some() { Counter::GetHits } else { Counter::GetMisses };
        self.counters.add(counter, 1);
        self.note_read("mg", key, found.as_ref().map(|item| item.len()), flags.ttl());
        match (found, flags.vivify()) {
            (None, Some(exptime)) => match self.vivify(key, exptime, flags) {
                Ok(Some((item, created))) => self.answer_hit(key, request, item, before, created, output),
                Ok(None) => answer_miss(key, request, output),
                Err(error) => output.write(error.as_bytes()),
            },
            (None, None) => answer_miss(key, request, output),
            (Some(item), _) => self.answer_hit(key, request, item, before, false, output),
        }
    }

    /// Returns the item and, if a flag asks for it, its state before this lookup. With flag `u`,
    /// the lookup does not count as a use.
    fn find_for_meta(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> (Option<ReadHandle<'c>>, Before) {
        let before =
            |item: &ReadHandle<'_>| Before { fetched: item.was_fetched(), last_access: item.last_access() };
        let wants_tag = flags.has(b'c') || flags.has(b'l');
        let tag = |item: ReadHandle<'c>| if wants_tag { self.tagged(item) } else { item };
        let asks = flags.no_bump() || flags.has(b'h') || flags.has(b'l');
        // Finding marks an item as fetched, so what was so before is asked first.
        let peeked = if asks { self.keys().peek(key).filter(|item| !item.is_structured()) } else { None };
        let told = peeked.as_ref().map(before).unwrap_or_default();
        if flags.no_bump() {
            return (peeked.map(tag), told);
        }
        let item = self.keys().find(key).filter(|item| !item.is_structured()).map(tag);
        if let Some(item) = &item {
            item.note_access();
        }
        (item, told)
    }

    /// The answer to a batched `mg`.
    pub(super) fn answer_meta_get(
        &mut self,
        key: &[u8],
        flags: &MetaFlags<'_>,
        value: Option<Value<'_, 'c>>,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        match value {
            Some(Value::Held(item)) if item.user_bits() != 0 => {
                let (item, told) = self.tell(item, flags, false);
                self.write_hit(key, false, flags, Value::Held(item), told, output);
            }
            Some(value) => self.write_hit(key, false, flags, value, Told::default(), output),
            None if flags.quiet() => {}
            None => {
                let facts = MetaFacts { key, ..MetaFacts::default() };
                output.compose(|out| reply::meta(out, MetaStatus::Miss, flags, &facts));
            }
        }
    }

    /// Creates the empty item that `N` asks for on a miss; true if it was this command that did.
    /// `None`: the key has a collection of a Redis client.
    fn vivify(
        &mut self,
        key: &[u8],
        exptime: Exptime,
        flags: &MetaFlags<'_>,
    ) -> Result<Option<(ReadHandle<'c>, bool)>, WireError> {
        loop {
            let expires_at = match ExpiresAt::new(exptime, self.now_secs) {
                ExpiresAt::Later(expires_at) => expires_at,
                ExpiresAt::Past => Some(self.now_secs),
            };
            let cas = flags.new_cas().unwrap_or_else(|| self.shared.next_cas());
            // The client that recaches it compares tokens, as a rule.
            let options = self.options((expires_at, 0), (cas, true), 0);
            let mut item = self
                .shared
                .cache
                .allocate(self.pool.id, key, 0, &options)
                .map_err(|error| allocation_error(&error))?;
            item.set_user_bits(TOKEN_SENT);
            if let Ok(created) = self.shared.cache.insert(item) {
                return Ok(Some((created, true)));
            }
            if let Some(item) = self.keys().find(key) {
                return Ok((!item.is_structured()).then_some((item, false)));
            }
        }
    }

    fn answer_hit(
        &mut self,
        key: &[u8],
        request: &MetaRequest<'_>,
        item: ReadHandle<'c>,
        before: Before,
        created: bool,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let flags = &request.flags;
        let (item, mut told) = self.tell(item, flags, created);
        told.before = before;
        if flags.ttl().is_some() {
            self.counters.add(Counter::Touches, 1);
            self.counters.add(Counter::TouchHits, 1);
        }
        self.write_hit(key, request.key.is_base64(), flags, Value::Held(item), told, output);
    }

    /// Applies, in their order, the flags that change the item or depend on its present state, and
    /// decides whether this client is to recache the item.
    fn tell(&self, mut item: ReadHandle<'c>, flags: &MetaFlags<'_>, created: bool) -> (ReadHandle<'c>, Told) {
        let mut told = Told::default();
        let mut expires_at = item.expires_at();
        let bits = item.user_bits();
        let mut wins = bits & STALE != 0;
        for flag in flags.iter() {
            match flag.letter {
                b'T' => {
                    if let Some(exptime) = flags.ttl() {
                        let end = ExpiresAt::new(exptime, self.now_secs);
                        item = self.set_expiration(item, end);
                        expires_at = match end {
                            ExpiresAt::Later(expires_at) => expires_at,
                            ExpiresAt::Past => Some(self.now_secs),
                        };
                    }
                }
                b't' => told.ttl = Some(self.remaining(expires_at)),
                b'R' => wins |= flags.recache().is_some_and(|left| self.ends_before(expires_at, left)),
                _ => {}
            }
        }
        if created {
            told.marks.won = true;
            return (item, told);
        }
        // The bit is set atomically, so that of all who ask at once exactly one is told to recache.
        let sent = if wins { item.set_user_bits(TOKEN_SENT) } else { bits } & TOKEN_SENT != 0;
        told.marks = MetaMarks { already_won: sent, stale: bits & STALE != 0, won: wins && !sent };
        (item, told)
    }

    fn ends_before(&self, expires_at: Option<u32>, left: Exptime) -> bool {
        let Some(expires_at) = expires_at else { return false };
        match ExpiresAt::new(left, self.now_secs) {
            ExpiresAt::Later(Some(at)) => expires_at < at,
            ExpiresAt::Later(None) | ExpiresAt::Past => false,
        }
    }

    fn remaining(&self, expires_at: Option<u32>) -> Remaining {
        expires_at.map_or(Remaining::Forever, |at| Remaining::Secs(at.saturating_sub(self.now_secs)))
    }

    fn write_hit(
        &self,
        key: &[u8],
        key_is_base64: bool,
        flags: &MetaFlags<'_>,
        item: Value<'_, 'c>,
        told: Told,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let idle = |last_access: u32| self.now_secs.saturating_sub(last_access);
        let facts = MetaFacts {
            key,
            key_is_base64,
            size: Some(item.len() as u64),
            ttl: told.ttl.or_else(|| Some(self.remaining(item.expires_at()))),
            cas: flags.has(b'c').then(|| self.cas_of(&item)),
            client_flags: Some(frontend::deadline::shown_flags(item.client_flags())),
            idle_secs: Some(told.before.last_access.map_or(0, idle)),
            fetched: Some(told.before.fetched),
            marks: told.marks,
        };
        if flags.value() {
            let status = MetaStatus::Value { len: item.len() };
            output.compose(|out| reply::meta(out, status, flags, &facts));
            item.send(output);
            output.write(b"\r\n");
        } else {
            output.compose(|out| reply::meta(out, MetaStatus::Done, flags, &facts));
        }
    }

    fn meta_delete(&mut self, key: &[u8], request: &MetaRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        let flags = &request.flags;
        let status = match self.delete_or_invalidate(key, flags) {
            Ok(status) => status,
            Err(error) => return output.write(error.as_bytes()),
        };
        self.count_removal(status == MetaStatus::Done);
        if flags.quiet() && status.is_nominal(false) {
            return;
        }
        let facts = MetaFacts { key, key_is_base64: request.key.is_base64(), ..MetaFacts::default() };
        output.compose(|out| reply::meta(out, status, flags, &facts));
    }

    fn delete_or_invalidate(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Result<MetaStatus, WireError> {
        if !flags.invalidate() && !flags.remove_value() {
            return Ok(match self.remove(key, flags.compare_cas()) {
                Removed::Yes => MetaStatus::Done,
                Removed::NotFound => MetaStatus::NotFound,
                Removed::Exists => MetaStatus::Exists,
            });
        }
        loop {
            let Some(old) = self.keys().peek(key).filter(|old| !old.is_structured()) else {
                return Ok(MetaStatus::NotFound);
            };
            if flags.compare_cas().is_some_and(|cas| Some(cas) != cas_of(&old)) {
                return Ok(MetaStatus::Exists);
            }
            let done = match self.invalidated(key, &old, flags)? {
                Some(new) => self.shared.cache.replace_matching(&old, new).is_ok(),
                None => self.shared.cache.remove_matching(&old),
            };
            if done {
                return Ok(MetaStatus::Done);
            }
        }
    }

    /// Returns the copy that replaces `old`: stale with flag `I`, without its value with flag `x`.
    /// `None` if the copy would be expired already.
    fn invalidated(
        &mut self,
        key: &[u8],
        old: &ReadHandle<'_>,
        flags: &MetaFlags<'_>,
    ) -> Result<Option<WriteHandle<'c>>, WireError> {
        let end = match flags.ttl() {
            Some(exptime) => ExpiresAt::new(exptime, self.now_secs),
            // As in memcached, the item without its value is another item, and has no expiry time
            // of its own.
            None if flags.remove_value() => ExpiresAt::Later(None),
            None => ExpiresAt::Later(old.expires_at()),
        };
        let ExpiresAt::Later(expires_at) = end else { return Ok(None) };
        let cas = flags.new_cas().unwrap_or_else(|| self.shared.next_cas());
        let (value, client_flags): (&[u8], u32) =
            if flags.remove_value() { (&[], 0) } else { (old, old.client_flags()) };
        // Clients that invalidate items compare tokens, so the copy has one at once.
        let options = self.options((expires_at, client_flags), (cas, true), value.len());
        let mut new = self
            .shared
            .cache
            .allocate(self.pool.id, key, value.len(), &options)
            .map_err(|error| allocation_error(&error))?;
        new.value_mut().copy_from_slice(value);
        new.set_user_bits(if flags.invalidate() { STALE } else { old.user_bits() });
        Ok(Some(new))
    }

    fn answer_meta_arithmetic(
        &mut self,
        key: &[u8],
        request: &MetaRequest<'_>,
        changed: Changed,
        output: &mut Output<ReadHandle<'c>>,
    ) {
        let flags = &request.flags;
        let mut facts = MetaFacts { key, key_is_base64: request.key.is_base64(), ..MetaFacts::default() };
        let (status, number) = match changed {
            Changed::Yes { number, cas, expires_at, created } => {
                // As memcached, only a number that was there is passed over in silence.
                if flags.quiet() && !created {
                    return;
                }
                facts.cas = Some(cas);
                facts.ttl = Some(self.remaining(expires_at));
                (MetaStatus::Done, number)
            }
            Changed::NotFound => (MetaStatus::NotFound, 0),
            Changed::Exists => (MetaStatus::Exists, 0),
            Changed::Failed(error) => return output.write(error.as_bytes()),
        };
        if status != MetaStatus::Done || !flags.value() {
            return output.compose(|out| reply::meta(out, status, flags, &facts));
        }
        let mut digits = Vec::with_capacity(20);
        protocol::memcached::write_u64(&mut digits, number);
        output.compose(|out| {
            reply::meta(out, MetaStatus::Value { len: digits.len() }, flags, &facts);
            reply::meta_data(out, &digits);
        });
    }

    fn meta_debug(&mut self, key: &[u8], request: &MetaRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        let key_is_base64 = request.key.is_base64();
        let Some(item) = self.keys().peek(key) else {
            let flags = MetaFlags::default();
            return output.compose(|out| reply::meta(out, MetaStatus::Miss, &flags, &MetaFacts::default()));
        };
        let facts = reply::DebugFacts {
            key,
            key_is_base64,
            ttl: self.remaining(item.expires_at()),
            idle_secs: self.now_secs.saturating_sub(item.last_access().unwrap_or(self.now_secs)),
            cas: cas_of(&item).unwrap_or(0),
            fetched: item.was_fetched(),
            class: u32::from(stats::class_number(item.class_number())),
            size_bytes: item.size_bytes() as u64,
        };
        output.compose(|out| reply::meta_debug(out, &facts));
    }
}

/// The results and effects of [`Commands::tell`].
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    ttl: Option<Remaining>,
    before: Before,
    marks: MetaMarks,
}

fn answer_miss(key: &[u8], request: &MetaRequest<'_>, output: &mut Output<ReadHandle<'_>>) {
    if request.flags.quiet() {
        return;
    }
    let facts = MetaFacts { key, key_is_base64: request.key.is_base64(), ..MetaFacts::default() };
    output.compose(|out| reply::meta(out, MetaStatus::Miss, &request.flags, &facts));
}
