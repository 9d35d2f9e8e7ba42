//! `SET` and its relatives, and the commands that read a value and do something to its key.

use frontend::deadline::{StoredExpiry, shown_flags};
use frontend::lookup::Value;
use millpond::{ReadHandle, WriteHandle};
use protocol::resp::commands::{Command, Str};
use tenancy::metrics::Counter;

use super::arguments::{End, Unit, arg, is, positive_end};
use super::commands::{Change, Commands, flags_of, stamp_of};
use super::writer::{Failure, Outcome, Writer};

/// The condition for setting a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Any,
    /// Nothing.
    Absent,
    /// Something.
    Present,
}

/// The options of a `SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetOptions {
    pub(super) condition: Condition,
    pub(super) end: End,
    /// True if the reply is the old value.
    pub(super) wants_old: bool,
}

impl SetOptions {
    pub(super) const PLAIN: Self = Self { condition: Condition::Any, end: End::Never, wants_old: false };
}

/// A value that is to be set.
pub(super) enum NewValue<'v, 'c> {
    /// These bytes.
    Bytes(&'v [u8]),
    /// An item that has it already, with room for an end.
    Item(Option<WriteHandle<'c>>),
}

/// The outcome of setting a value.
pub(super) struct WasSet<'c> {
    pub(super) is_set: bool,
    pub(super) old: Option<ReadHandle<'c>>,
}

/// A command that sets the value of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setter {
    Set,
    GetSet,
    SetNx,
    SetEx,
    PSetEx,
}

impl Setter {
    /// The setter that a command is, if it is one.
    pub(super) const fn of(command: Command) -> Option<Self> {
        let Command::Str(command) = command else { return None };
        match command {
            Str::Set => Some(Self::Set),
            Str::GetSet => Some(Self::GetSet),
            Str::SetNx => Some(Self::SetNx),
            Str::SetEx => Some(Self::SetEx),
            Str::PSetEx => Some(Self::PSetEx),
            _ => None,
        }
    }

    /// The place of the value among the arguments.
    pub(super) const fn value_index(self) -> usize {
        match self {
            Self::Set | Self::GetSet | Self::SetNx => 2,
            Self::SetEx | Self::PSetEx => 3,
        }
    }
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn get(&self, key: &[u8], w: &mut Writer<'_, 'c>) -> Outcome {
        let found = self.read_string(key)?;
        self.tell_found(found.as_ref().map(|item| item.len()));
        w.value(found.map(Value::Held));
        Ok(())
    }

    pub(super) fn get_and_delete(&self, key: &[u8], w: &mut Writer<'_, 'c>) -> Outcome {
        let is_there = self.read_string(key)?.is_some();
        let removed = if is_there { self.modify(key, |old| Ok(Change::Remove(old.cloned())))? } else { None };
        w.value(removed.map(Value::Held));
        Ok(())
    }

    pub(super) fn run_setter(&mut self, setter: Setter, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let index = setter.value_index();
        let (before, behind) = (args.get(..index), args.get(index + 1..));
        let around = (before.unwrap_or_default(), behind.unwrap_or_default());
        self.set_command(setter, around, NewValue::Bytes(arg(args, index)), w)
    }

    /// A command that sets `value`, with the arguments before and behind it.
    pub(super) fn set_command(
        &mut self,
        setter: Setter,
        (before, behind): (&[&[u8]], &[&[u8]]),
        value: NewValue<'_, 'c>,
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        let key = arg(before, 1);
        let expiring = |unit, name| {
            let end = positive_end(arg(before, 2), unit, self.now_millis(), name)?;
            Ok::<_, Failure>(SetOptions { end, ..SetOptions::PLAIN })
        };
        let options = match setter {
            Setter::Set => self.set_options(behind)?,
            Setter::SetNx => SetOptions { condition: Condition::Absent, ..SetOptions::PLAIN },
            Setter::GetSet => SetOptions { wants_old: true, ..SetOptions::PLAIN },
            Setter::SetEx => expiring(Unit::SECONDS, "setex")?,
            Setter::PSetEx => expiring(Unit::MILLIS, "psetex")?,
        };
        self.tell_end(options.end);
        let WasSet { is_set, old } = self.set(key, value, options)?;
        match setter {
            Setter::SetNx => w.truth(is_set),
            _ if options.wants_old => w.value(old.map(Value::Held)),
            _ if is_set => w.ok(),
            _ => w.null(),
        }
        Ok(())
    }

    fn set_options(&self, args: &[&[u8]]) -> Result<SetOptions, Failure> {
        let mut options = SetOptions::PLAIN;
        let mut keeps = false;
        let mut end = None;
        let mut rest = args;
        while let [option, behind @ ..] = rest {
            rest = behind;
            if is(option, "NX") && options.condition != Condition::Present {
                options.condition = Condition::Absent;
            } else if is(option, "XX") && options.condition != Condition::Absent {
                options.condition = Condition::Present;
            } else if is(option, "GET") {
                options.wants_old = true;
            } else if is(option, "KEEPTTL") && end.is_none() {
                keeps = true;
            } else if let (Some(unit), [time, behind @ ..], false) = (Unit::of_option(option), rest, keeps)
                && end.is_none_or(|(known, _)| known == unit)
            {
                rest = behind;
                // The last of several counts, and is the only one that is looked at.
                end = Some((unit, *time));
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        options.end = match end {
            Some((unit, time)) => positive_end(time, unit, self.now_millis(), "set")?,
            None if keeps => End::Keep,
            None => End::Never,
        };
        Ok(options)
    }

    /// Sets the value of a key.
    pub(super) fn set(
        &mut self,
        key: &[u8],
        mut value: NewValue<'_, 'c>,
        options: SetOptions,
    ) -> Result<WasSet<'c>, Failure> {
        let SetOptions { condition, end, wants_old } = options;
        let is_past = matches!(end, End::At(millis) if millis <= self.now_millis());
        if condition == Condition::Any && !wants_old && end != End::Keep {
            if is_past {
                self.keys().remove(key);
            } else {
                let item = self.new_item(key, &mut value, self.stamp(end, None))?;
                self.shared.cache.put(item);
            }
            self.counters.add(Counter::Stored, 1);
            return Ok(WasSet { is_set: true, old: None });
        }
        loop {
            let old = self.peek(key);
            if wants_old && old.as_ref().is_some_and(ReadHandle::is_structured) {
                return Err(Failure::WRONG_TYPE);
            }
            let holds = match condition {
                Condition::Any => true,
                Condition::Absent => old.is_none(),
                Condition::Present => old.is_some(),
            };
            if !holds {
                self.counters.add(Counter::NotStored, 1);
                return Ok(WasSet { is_set: false, old });
            }
            let is_placed = if is_past {
                old.as_ref().is_none_or(|old| self.shared.cache.remove_matching(old))
            } else {
                let item = self.new_item(key, &mut value, self.stamp(end, old.as_ref()))?;
                match self.place(key, old.as_ref(), item) {
                    Ok(()) => true,
                    Err(item) => {
                        value.give_back(item);
                        false
                    }
                }
            };
            if is_placed {
                self.counters.add(Counter::Stored, 1);
                return Ok(WasSet { is_set: true, old });
            }
        }
    }

    fn stamp(&self, end: End, old: Option<&ReadHandle<'_>>) -> StoredExpiry {
        match end {
            End::Keep if old.is_some_and(ReadHandle::is_structured) => {
                StoredExpiry::new(old.and_then(|old| self.deadline_of(old).flatten()), 0)
            }
            End::Keep => {
                let kept = stamp_of(old);
                // Flags are of the value that goes.
                if shown_flags(kept.client_flags) == 0 {
                    kept
                } else {
                    StoredExpiry { client_flags: 0, ..kept }
                }
            }
            End::Never => StoredExpiry::new(None, 0),
            End::At(millis) => StoredExpiry::new(Some(millis), 0),
        }
    }

    /// The item to put in place.
    fn new_item(
        &self,
        key: &[u8],
        value: &mut NewValue<'_, 'c>,
        stamp: StoredExpiry,
    ) -> Result<WriteHandle<'c>, Failure> {
        match value {
            NewValue::Bytes(bytes) => self.item_of(key, &[bytes], stamp),
            NewValue::Item(item) => {
                let mut item = item.take().ok_or(Failure::OUT_OF_MEMORY)?;
                item.set_expiry(stamp.expires_at.map_or(millpond::Expiry::Never, millpond::Expiry::At));
                item.set_client_flags(stamp.client_flags);
                // Tokens ascend in the order of what is stored.
                item.set_cas(self.shared.next_cas());
                Ok(item)
            }
        }
    }

    pub(super) fn get_and_expire(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (unit, time) = match args.get(2..).unwrap_or_default() {
            [] => (None, None),
            [option] if is(option, "PERSIST") => (None, Some(())),
            [option, _] => (Some(Unit::of_option(option).ok_or(Failure::SYNTAX)?), Some(())),
            _ => return Err(Failure::SYNTAX),
        };
        let key = arg(args, 1);
        let mut found = self.read_string(key)?;
        if found.is_some() && time.is_some() {
            let end = match unit {
                Some(unit) => positive_end(arg(args, 3), unit, self.now_millis(), "getex")?,
                None => End::Never,
            };
            self.tell_end(end);
            while let Some(item) = &found
                && !self.set_end_of(key, item, end)?
            {
                // Another client was faster: the value that is answered is the one that expires.
                found = self.peek(key);
                if found.as_ref().is_some_and(ReadHandle::is_structured) {
                    return Err(Failure::WRONG_TYPE);
                }
            }
        }
        self.tell_found(found.as_ref().map(|item| item.len()));
        w.value(found.map(Value::Held));
        Ok(())
    }

    /// Puts a copy that expires at `end` in the place of an item with a string, or removes the item
    /// if that is past. False: it is not the item of its key any more.
    fn set_end_of(&self, key: &[u8], item: &ReadHandle<'_>, end: End) -> Result<bool, Failure> {
        let millis = match end {
            End::At(millis) if millis <= self.now_millis() => {
                return Ok(self.shared.cache.remove_matching(item));
            }
            End::At(millis) => Some(millis),
            _ => None,
        };
        let copy = self.item_of(key, &[item], StoredExpiry::new(millis, flags_of(item)))?;
        let is_placed = self.place(key, Some(item), copy).is_ok();
        self.counters.add(Counter::Stored, u64::from(is_placed));
        Ok(is_placed)
    }
}

impl<'c> NewValue<'_, 'c> {
    fn give_back(&mut self, item: WriteHandle<'c>) {
        if let Self::Item(place) = self {
            *place = Some(item);
        }
    }
}
