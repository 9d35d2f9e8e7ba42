//! The details of a request for the log of requests ([`frontend::requests`]) and for spans
//! ([`frontend::telemetry`]).

use super::arguments::End;
use super::commands::Commands;
use super::set::Setter;
use tenancy::KeyEffect;

use frontend::requests::Asked;
use frontend::telemetry::Step;
use protocol::resp::commands::{Command, Generic, Spec, Str};

/// The results of the present command for the log of requests that its arguments do not show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// The new expiry time, in Unix milliseconds.
    deadline: Option<u64>,
    /// The length of the whole value that is there now, where a string was changed or copied.
    value_bytes: Option<usize>,
    /// The result of a lookup of one key: true for a hit.
    is_hit: Option<bool>,
}

impl Commands<'_, '_> {
    /// Keeps the expiry time that the present command sets, for the log of requests.
    #[inline]
    pub(super) fn tell_end(&self, end: End) {
        if let (Some(_), End::At(millis)) = (&self.notes, end) {
            self.told.set(Told { deadline: Some(millis), ..self.told.get() });
        }
    }

    /// Keeps the length that the present command gives a value, for the log of requests.
    #[inline]
    pub(super) fn tell_length(&self, value_bytes: usize) {
        if self.notes.is_some() {
            self.told.set(Told { value_bytes: Some(value_bytes), ..self.told.get() });
        }
    }

    /// Keeps what the lookup that the present command is has found, for the log of requests.
    #[inline]
    pub(super) fn tell_found(&self, value_bytes: Option<usize>) {
        if self.notes.is_some() {
            self.told.set(Told { value_bytes, is_hit: Some(value_bytes.is_some()), ..self.told.get() });
        }
    }

    /// The time to live that the present command sets; at least 1, as 0 is for ever in traces.
    fn ttl_secs(&self, told: Told) -> Option<u32> {
        let secs = told.deadline?.saturating_sub(self.now_millis()).div_ceil(1000);
        Some(u32::try_from(secs).unwrap_or(u32::MAX).max(1))
    }

    /// Logs a lookup, with the length of the value that was found, where requests are logged.
    #[inline]
    pub(super) fn note_read(&self, command: &'static str, key: &[u8], value_bytes: Option<usize>) {
        if let Some(notes) = &self.notes {
            let outcome = if value_bytes.is_some() { "hit" } else { "miss" };
            notes.note(&Asked { command, does: KeyEffect::Read, key, value_bytes, ttl_secs: None, outcome });
        }
    }

    /// Logs a command for each of its keys, where requests are logged. A value that came apart from
    /// the arguments has `value_bytes`.
    #[inline]
    pub(super) fn note_request(
        &self,
        spec: &Spec,
        args: &[&[u8]],
        value_bytes: Option<usize>,
        is_answered: bool,
    ) {
        let Some(notes) = &self.notes else { return };
        let told = self.told.take();
        // Each of its keys was logged as it was looked up.
        if spec.command == Command::Str(Str::MGet) && is_answered {
            return;
        }
        let outcome = match told.is_hit {
            _ if !is_answered => "error",
            Some(true) => "hit",
            Some(false) => "miss",
            None => "ok",
        };
        let ttl_secs = self.ttl_secs(told);
        for (nth, place) in spec.guarded_places(args).into_iter().enumerate() {
            let Some(key) = args.get(place).filter(|key| !key.is_empty()) else { continue };
            let (command, does) = (spec.name, does(spec, nth, args));
            let known = value_bytes.or(told.value_bytes).filter(|_| does != KeyEffect::Remove);
            let value_bytes = known.or_else(|| Some(args.get(value_place(spec.command, place)?)?.len()));
            notes.note(&Asked { command, does, key, value_bytes, ttl_secs, outcome });
        }
    }

    /// The time, in a turn that is traced.
    #[inline]
    pub(super) fn traced_since(&self) -> Option<u64> {
        self.sampled.as_ref().map(|_| self.shared.clock.monotonic_nanos())
    }

    /// Traces a slow command, in a turn that is traced.
    #[inline]
    pub(super) fn trace(&mut self, args: &[&[u8]], began_nanos: u64) {
        if self.sampled.is_some() {
            let spec = args.first().and_then(|name| Spec::find(name));
            let place = spec.and_then(|spec| spec.guarded_places(args).first().copied());
            let key = place.and_then(|place| args.get(place)).copied();
            self.trace_step(spec.map_or("unknown", |spec| spec.name), key, 0, began_nanos);
        }
    }

    /// As [`Self::trace`], for a step that isn't a single command: `lookups` lookups that were made
    /// together, or a part of a listing.
    pub(super) fn trace_step(
        &mut self,
        name: &'static str,
        key: Option<&[u8]>,
        lookups: usize,
        began_nanos: u64,
    ) {
        let took_nanos = self.shared.clock.monotonic_nanos().saturating_sub(began_nanos);
        let Some(sampled) = self.sampled.as_mut().filter(|sampled| sampled.is_slow(took_nanos)) else {
            return;
        };
        let key = key.map(|key| (self.shared.request_log.number_of(key), key.len()));
        sampled.note(Step { name, began_nanos, took_nanos, lookups, key });
    }
}

/// The place of the value for the key at a place, in commands that set whole values.
const fn value_place(command: Command, key: usize) -> Option<usize> {
    match (command, Setter::of(command)) {
        (Command::Str(Str::MSet | Str::MSetNx), _) => Some(key + 1),
        (_, Some(setter)) => Some(setter.value_index()),
        _ => None,
    }
}

/// Returns the effect of a command on its `nth` key.
fn does(spec: &Spec, nth: usize, args: &[&[u8]]) -> KeyEffect {
    use Generic as G;
    match spec.command {
        Command::Generic(G::Del | G::Unlink) | Command::Str(Str::GetDel) => KeyEffect::Remove,
        Command::Generic(G::Rename | G::RenameNx) if nth == 0 => KeyEffect::Remove,
        Command::Generic(G::Touch | G::Expire | G::PExpire | G::ExpireAt | G::PExpireAt | G::Persist) => {
            KeyEffect::Touch
        }
        // Its value is read, and stays.
        Command::Str(Str::GetEx) => KeyEffect::Read,
        _ if spec.access(nth, args).1 => KeyEffect::Write,
        _ => KeyEffect::Read,
    }
}
