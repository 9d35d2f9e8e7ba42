//! Expiration of keys: `EXPIRE`, `TTL`, `PERSIST` and their relatives.

use frontend::deadline::StoredExpiry;
use millpond::ReadHandle;

use super::arguments::{End, Unit, arg, integer, is};
use super::commands::{Change, Commands, flags_of};
use super::writer::{Failure, Outcome, Writer};

/// The conditions under which an expiry time is set.
#[derive(Clone, Copy, Debug, Default)]
struct Unless {
    absent_only: bool,
    present_only: bool,
    later_only: bool,
    earlier_only: bool,
}

impl Unless {
    fn parse(options: &[&[u8]]) -> Result<Self, Failure> {
        let mut this = Self::default();
        for option in options {
            if is(option, "NX") {
                this.absent_only = true;
            } else if is(option, "XX") {
                this.present_only = true;
            } else if is(option, "GT") {
                this.later_only = true;
            } else if is(option, "LT") {
                this.earlier_only = true;
            } else {
                return Err(Failure([b"ERR Unsupported option ".as_slice(), option].concat().into()));
            }
        }
        if this.absent_only && (this.present_only || this.later_only || this.earlier_only) {
            return Err(Failure::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if this.later_only && this.earlier_only {
            return Err(Failure::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(this)
    }

    /// Returns whether the expiry time `new` may replace `old`. No expiration is later than any
    /// time.
    fn holds(self, old: Option<u64>, new: i64) -> bool {
        let old_end = old.map_or(i64::MAX, |old| old as i64);
        !(self.absent_only && old.is_some()
            || self.present_only && old.is_none()
            || self.later_only && (old.is_none() || new <= old_end)
            || self.earlier_only && new >= old_end)
    }
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn expire(
        &mut self,
        (unit, name): (Unit, &str),
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        let unless = Unless::parse(args.get(3..).unwrap_or_default())?;
        let time = integer(arg(args, 2))?;
        let now = self.now_millis();
        let end = unit.millis(time, now).ok_or_else(|| Failure::expire_time(name))?;
        self.tell_end(End::At(u64::try_from(end).unwrap_or(0)));
        let key = arg(args, 1);
        let as_of = |deadline| unless.holds(deadline, end).then_some(u64::try_from(end).ok());
        let of_collection =
            || self.end_collection(key, |deadline| as_of(deadline).map(|end| Some(end.unwrap_or(0))));
        let of_string = |old: Option<&ReadHandle<'c>>| {
            let Some(old) = old.filter(|old| unless.holds(self.deadline_of(old).flatten(), end)) else {
                return Ok(Change::Leave(false));
            };
            match u64::try_from(end).ok().filter(|end| *end > now) {
                None => Ok(Change::Remove(true)),
                Some(end) => {
                    let stamp = StoredExpiry::new(Some(end), flags_of(old));
                    Ok(Change::Put(self.item_of(key, &[old], stamp)?, true))
                }
            }
        };
        w.truth(self.change_either(key, of_collection, of_string)?);
        Ok(())
    }

    pub(super) fn persist(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        let of_collection = || self.end_collection(key, |deadline| deadline.map(|_| None));
        let of_string = |old: Option<&ReadHandle<'c>>| {
            let Some(old) = old.filter(|old| old.expires_at().is_some()) else {
                return Ok(Change::Leave(false));
            };
            let stamp = StoredExpiry::new(None, flags_of(old));
            Ok(Change::Put(self.item_of(key, &[old], stamp)?, true))
        };
        w.truth(self.change_either(key, of_collection, of_string)?);
        Ok(())
    }

    /// Changes the collection of a key, or its string; anew if another client has put the one in
    /// the place of the other meanwhile.
    fn change_either(
        &self,
        key: &[u8],
        of_collection: impl Fn() -> Result<Option<bool>, Failure>,
        of_string: impl Fn(Option<&ReadHandle<'c>>) -> Result<Change<'c, bool>, Failure>,
    ) -> Result<bool, Failure> {
        loop {
            if let Some(changed) = of_collection()? {
                return Ok(changed);
            }
            match self.modify(key, &of_string) {
                Err(failure) if failure == Failure::WRONG_TYPE => {}
                changed => return changed,
            }
        }
    }

    /// Answers with the time to live, or the expiration time, of a key.
    pub(super) fn ttl(&mut self, unit: Unit, key: &[u8], w: &mut Writer<'_, 'c>) -> Outcome {
        let Some(end) = self.of_item(key, |item| self.deadline_of(item)) else {
            w.integer(-2);
            return Ok(());
        };
        let Some(end) = end else {
            w.integer(-1);
            return Ok(());
        };
        let millis = if unit.is_absolute { end } else { end.saturating_sub(self.now_millis()) };
        w.integer(if unit.is_seconds { (millis + 500) / 1000 } else { millis } as i64);
        Ok(())
    }
}
