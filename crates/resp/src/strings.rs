//! Commands on parts of values, and on the values of several keys.

use frontend::lookup::Value;
use millpond::ReadHandle;
use protocol::resp::commands::Str;

use super::arguments::{arg, integer};
use super::commands::{Change, Commands, stamp_of};
use super::set::{NewValue, SetOptions, Setter};
use super::writer::{Failure, Outcome, Writer};

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_string(&mut self, command: Str, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        match command {
            Str::Get => self.get(key, w)?,
            Str::GetDel => self.get_and_delete(key, w)?,
            Str::GetEx => self.get_and_expire(args, w)?,
            Str::Set => self.run_setter(Setter::Set, args, w)?,
            Str::GetSet => self.run_setter(Setter::GetSet, args, w)?,
            Str::SetNx => self.run_setter(Setter::SetNx, args, w)?,
            Str::SetEx => self.run_setter(Setter::SetEx, args, w)?,
            Str::PSetEx => self.run_setter(Setter::PSetEx, args, w)?,
            Str::Lcs => self.lcs(args, w)?,
            Str::Incr => self.add_number(key, 1, w)?,
            Str::Decr => self.add_number(key, -1, w)?,
            Str::IncrBy => self.add_number(key, integer(arg(args, 2))?, w)?,
            Str::DecrBy => self.subtract(args, w)?,
            Str::IncrByFloat => self.add_fraction(args, w)?,
            Str::MGet => {
                let keys = args.get(1..).unwrap_or_default();
                w.array(keys.len());
                keys.iter().for_each(|key| {
                    let item = self.read(key).filter(|item| !item.is_structured());
                    self.note_read("mget", key, item.as_ref().map(|item| item.len()));
                    w.value(item.map(Value::Held));
                });
            }
            Str::MSet => self.set_all(args, w)?,
            Str::MSetNx => {
                let (pairs, []) = args.get(1..).unwrap_or_default().as_chunks::<2>() else {
                    return Err(Failure::wrong_number("msetnx"));
                };
                let is_free = pairs.iter().all(|[key, _]| self.peek(key).is_none());
                if is_free {
                    self.put_all(pairs)?;
                }
                w.truth(is_free);
            }
            Str::Append => {
                let more = arg(args, 2);
                let len = self.modify(key, |old| {
                    let before: &[u8] = old.map_or(&[], |old| old);
                    let new = self.item_of(key, &[before, more], stamp_of(old))?;
                    Ok(Change::Put(new, before.len() + more.len()))
                })?;
                self.tell_length(len);
                w.integer(len as i64);
            }
            Str::StrLen => w.integer(self.read_string(key)?.map_or(0, |item| item.len() as i64)),
            Str::GetRange | Str::Substr => {
                let (start, end) = (integer(arg(args, 2))?, integer(arg(args, 3))?);
                let item = self.read_string(key)?;
                let value: &[u8] = item.as_ref().map_or(&[], |item| item);
                w.bulk(range(value, start, end));
            }
            Str::SetRange => self.set_range(args, w)?,
        }
        Ok(())
    }

    fn set_all(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (pairs, []) = args.get(1..).unwrap_or_default().as_chunks::<2>() else {
            return Err(Failure::wrong_number("mset"));
        };
        self.put_all(pairs)?;
        w.ok();
        Ok(())
    }

    /// Sets all of them, or none where one of them cannot be: all items are made first.
    fn put_all(&mut self, pairs: &[[&[u8]; 2]]) -> Outcome {
        // Few at a time are held back, as they cannot be evicted.
        if let [[key, value]] = pairs {
            self.set(key, NewValue::Bytes(value), SetOptions::PLAIN)?;
            return Ok(());
        }
        let stamp = stamp_of(None::<&ReadHandle<'_>>);
        let items: Result<Vec<_>, Failure> =
            pairs.iter().map(|[key, value]| self.item_of(key, &[value], stamp)).collect();
        for item in items? {
            self.shared.cache.put(item);
        }
        self.counters.add(tenancy::metrics::Counter::Stored, pairs.len() as u64);
        Ok(())
    }

    fn set_range(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        let offset = integer(arg(args, 2))?;
        let Ok(offset) = usize::try_from(offset) else {
            return Err(Failure::new("ERR offset is out of range"));
        };
        let part = arg(args, 3);
        let len = self.modify(key, |old| {
            let before: &[u8] = old.map_or(&[], |old| old);
            if part.is_empty() {
                return Ok(Change::Leave(before.len()));
            }
            let Some(end) = offset.checked_add(part.len()) else { return Err(Failure::TOO_LONG) };
            let len = end.max(before.len());
            let mut new = self.allocate(key, len, stamp_of(old))?;
            let value = new.value_mut();
            let (front, back) = value.split_at_mut(before.len());
            front.copy_from_slice(before);
            back.fill(0);
            if let Some(place) = value.get_mut(offset..end) {
                place.copy_from_slice(part);
            }
            Ok(Change::Put(new, len))
        })?;
        self.tell_length(len);
        w.integer(len as i64);
        Ok(())
    }
}

/// The bytes from `start` to `end`, both included; below zero they count from the end.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let at = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (at(start), at(end).min(len - 1));
    if start > end || len == 0 {
        return &[];
    }
    value.get(start as usize..=end as usize).unwrap_or_default()
}
