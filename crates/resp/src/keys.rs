//! Commands on keys, whatever their values are.

use millpond::ReadHandle;
use millpond::structured::Collection;
use protocol::resp::commands::Generic;
use tenancy::metrics::Counter;

use super::arguments::{Unit, arg, integer, is};
use super::commands::{Commands, stamp_of};
use super::listing::Walk;
use super::writer::{Failure, Outcome, Writer};

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_key(&mut self, command: Generic, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let keys = args.get(1..).unwrap_or_default();
        let count = |is_there: &dyn Fn(&[u8]) -> bool| keys.iter().filter(|key| is_there(key)).count();
        match command {
            Generic::Del | Generic::Unlink => {
                let removed = count(&|key| self.remove(key));
                self.counters.add(Counter::DeleteHits, removed as u64);
                self.counters.add(Counter::DeleteMisses, (keys.len() - removed) as u64);
                w.integer(removed as i64);
            }
            Generic::Exists => w.integer(count(&|key| self.peek(key).is_some()) as i64),
            Generic::Touch => {
                let touched = count(&|key| self.find(key).map(|item| item.note_access()).is_some());
                w.integer(touched as i64);
            }
            Generic::Type => {
                w.simple(self.of_item(arg(args, 1), |item| self.type_of(item)).unwrap_or("none"));
            }
            Generic::Copy => self.copy(args, w)?,
            Generic::Rename => {
                self.rename(arg(args, 1), arg(args, 2), false)?;
                w.ok();
            }
            Generic::RenameNx => w.truth(self.rename(arg(args, 1), arg(args, 2), true)?),
            Generic::Expire => self.expire((Unit::SECONDS, "expire"), args, w)?,
            Generic::PExpire => self.expire((Unit::MILLIS, "pexpire"), args, w)?,
            Generic::ExpireAt => self.expire((Unit::UNIX_SECONDS, "expireat"), args, w)?,
            Generic::PExpireAt => self.expire((Unit::UNIX_MILLIS, "pexpireat"), args, w)?,
            Generic::Ttl => self.ttl(Unit::SECONDS, arg(args, 1), w)?,
            Generic::PTtl => self.ttl(Unit::MILLIS, arg(args, 1), w)?,
            Generic::ExpireTime => self.ttl(Unit::UNIX_SECONDS, arg(args, 1), w)?,
            Generic::PExpireTime => self.ttl(Unit::UNIX_MILLIS, arg(args, 1), w)?,
            Generic::Persist => self.persist(args, w)?,
            Generic::Sort => self.sort(true, args, w)?,
            Generic::SortRo => self.sort(false, args, w)?,
            Generic::Object => self.object(args, w)?,
            Generic::Keys => self.list_at_once(Walk::Keys, args, w)?,
            Generic::Scan => self.list_at_once(Walk::Scan, args, w)?,
            Generic::RandomKey => self.list_at_once(Walk::RandomKey, args, w)?,
        }
        Ok(())
    }

    /// Gives the value of `from` to `to`; false where there is one that is to stay. The key space
    /// is closed.
    fn rename(&mut self, from: &[u8], to: &[u8], only_if_absent: bool) -> Result<bool, Failure> {
        let Some(item) = self.peek(from) else { return Err(Failure::NO_SUCH_KEY) };
        if from == to {
            return Ok(!only_if_absent);
        }
        if only_if_absent && self.peek(to).is_some() {
            return Ok(false);
        }
        self.put_copy(&item, to)?;
        self.shared.cache.remove_matching(&item);
        Ok(true)
    }

    fn copy(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (from, to) = (arg(args, 1), arg(args, 2));
        let mut replaces = false;
        let mut rest = args.get(3..).unwrap_or_default();
        while let [option, behind @ ..] = rest {
            rest = behind;
            if is(option, "REPLACE") {
                replaces = true;
            } else if let (true, [database, behind @ ..]) = (is(option, "DB"), rest) {
                rest = behind;
                if integer(database)? != 0 {
                    return Err(Failure::BAD_DATABASE);
                }
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if from == to {
            return Err(Failure::new("ERR source and destination objects are the same"));
        }
        let copied = match self.peek(from) {
            Some(item) if replaces || self.peek(to).is_none() => {
                self.put_copy(&item, to)?;
                true
            }
            _ => false,
        };
        w.truth(copied);
        Ok(())
    }

    /// Gives what an item holds to another key. The key space is closed.
    fn put_copy(&self, item: &ReadHandle<'c>, to: &[u8]) -> Outcome {
        if !item.is_structured() {
            self.shared.cache.put(self.item_of(to, &[item], stamp_of(Some(item)))?);
            self.tell_length(item.len());
            return Ok(());
        }
        let collection = Collection::of(&self.shared.cache, item).ok_or(Failure::NO_SUCH_KEY)?;
        let copy = collection.copy(self.pool.id, to)?.ok_or(Failure::NO_SUCH_KEY)?;
        self.shared.cache.put(copy);
        Ok(())
    }

    pub(super) fn flush(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match args.get(1..).unwrap_or_default() {
            [] => {}
            [how] if is(how, "ASYNC") || is(how, "SYNC") => {}
            _ => return Err(Failure::SYNTAX),
        }
        self.counters.add(Counter::Flushes, 1);
        self.keys().flush();
        self.shared.tracking.flushed(self.shared, self.pool);
        w.ok();
        Ok(())
    }
}
