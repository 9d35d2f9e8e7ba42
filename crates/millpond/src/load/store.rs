//! A loader's operations on the cache: it looks a key up and tells its age, takes a lease, and
//! stores what was loaded.

use std::sync::Arc;

use compact::negative::Ticket;
use memory::Error;
use memory::check_place;
use memory::{Expiry, ItemOptions};
use memory::{ReadHandle, WriteHandle};

use super::flight::LeaderDuty;
use super::value::{Fetched, LoadError, LoadOptions, Loaded, Origin, Value};
use super::{Loader, OVERTAKEN, REFUSED};

/// The age of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Fresh,
    Stale,
    Fallback,
}

impl Age {
    /// The age of a value that expires in `left_secs`; `None` = never.
    fn of(left_secs: Option<u32>, options: &LoadOptions) -> Self {
        match left_secs {
            Some(left) if left <= options.fallback_secs => Self::Fallback,
            Some(left) if left - options.fallback_secs <= options.stale_secs => Self::Stale,
            _ => Self::Fresh,
        }
    }
}

/// The cache's content for a key.
pub(super) enum Found<'c> {
    Fresh(Fetched<'c>),
    Stale(ReadHandle<'c>),
    Fallback(ReadHandle<'c>),
    Nothing,
}

/// With a negative cache, what the leader of a flight may note there, and the item that is no
/// longer fresh, if there was one.
pub(super) struct Lease<'c>(Option<(Ticket, Option<ReadHandle<'c>>)>);

impl Loader {
    /// Looks a key up as an access to it.
    #[inline]
    pub(super) fn look_up(&self, key: &[u8], options: &LoadOptions) -> Found<'_> {
        self.judge(key, self.inner.cache.keys(self.inner.pool).find(key), options)
    }

    #[inline]
    fn judge<'c>(&self, key: &[u8], found: Option<ReadHandle<'c>>, options: &LoadOptions) -> Found<'c> {
        let Some(handle) = found else {
            let is_absent = self.inner.negative.as_ref().is_some_and(|negative| negative.is_absent(key));
            return if is_absent {
                Found::Fresh(Fetched { value: None, origin: Origin::Fresh })
            } else {
                Found::Nothing
            };
        };
        if handle.user_bits() & self.inner.absent_mark != 0 {
            return Found::Fresh(Fetched { value: None, origin: Origin::Fresh });
        }
        match Age::of(handle.ttl_secs_left(), options) {
            Age::Fresh => Found::Fresh(Fetched { value: Some(Value::Item(handle)), origin: Origin::Fresh }),
            Age::Stale => Found::Stale(handle),
            Age::Fallback => Found::Fallback(handle),
        }
    }

    /// A lease for the leader of a flight, who calls this before the loader runs.
    ///
    /// # Errors
    /// The value, if it is fresh already: another flight ended between the look-up and the start of
    /// this one.
    pub(super) fn lease(
        &self,
        claim: &mut LeaderDuty,
        options: &LoadOptions,
    ) -> Result<Lease<'_>, Fetched<'_>> {
        let (key, keys) = (claim.key(), self.inner.cache.keys(self.inner.pool));
        // Both are begun before the cache is looked at, and so before the backend is asked. Without
        // a fence, as another flight is in the place of this one, nothing is stored.
        let _ = claim.begin(|| keys.fence(&key));
        let ticket = self.inner.negative.as_ref().map(|negative| negative.begin(&key));
        let old = match self.judge(&key, keys.peek(&key), options) {
            Found::Fresh(fetched) => return Err(fetched),
            Found::Stale(handle) | Found::Fallback(handle) => Some(handle),
            Found::Nothing => None,
        };
        Ok(Lease(ticket.map(|ticket| (ticket, old))))
    }

    /// An item of a loaded value; `None` where it is not to be kept.
    pub(super) fn make_item(
        &self,
        key: &[u8],
        options: &LoadOptions,
        loaded: &Loaded,
    ) -> Result<Option<WriteHandle<'_>>, Error> {
        let Some(expiry) = expiry_of(options, loaded) else { return Ok(None) };
        let value = loaded.value.as_deref().unwrap_or_default();
        let user_bits = if loaded.value.is_none() { self.inner.absent_mark } else { 0 };
        let item_options = ItemOptions { expiry, user_bits, ..ItemOptions::default() };
        let mut writer = self.inner.cache.allocate_value(self.inner.pool, key, value.len(), &item_options)?;
        writer.write(value);
        // It is written to its end.
        Ok(writer.finish().ok())
    }

    /// Checks that what is loaded for a key could be kept: called before a loader runs whose work
    /// would be done again for each caller.
    ///
    /// # Errors
    /// [`LoadError::Failed`], for an invalid key and for a pool that is gone.
    pub(super) fn check(&self, key: &[u8]) -> Result<(), LoadError> {
        let refused = |error: Error| LoadError::Failed(Arc::new(error));
        check_place(&self.inner.cache, self.inner.pool, key).map_err(refused)
    }

    /// Stores what was loaded, if the key was not written meanwhile and nobody has taken the flight
    /// over. Whatever becomes of it, the callers get the value.
    pub(super) fn store<'c>(
        &'c self,
        claim: &LeaderDuty,
        lease: Lease<'c>,
        options: &LoadOptions,
        loaded: &Loaded,
    ) -> Option<ReadHandle<'c>> {
        if let (None, Lease(Some((ticket, old)))) = (&loaded.value, lease) {
            self.store_absent(claim, old.as_ref(), (ticket, options), loaded);
            return None;
        }
        let item = match self.make_item(&claim.key(), options, loaded) {
            Ok(item) => item?,
            Err(_) => {
                self.count(REFUSED);
                return None;
            }
        };
        let stored = claim.fence().and_then(|fence| self.inner.cache.put_fenced(fence, item).ok());
        if stored.is_none() {
            self.count(OVERTAKEN);
        } else {
            self.void_negative(&claim.key());
        }
        stored
    }

    /// Notes that there is no value, if the key was not written meanwhile and nobody has taken the
    /// flight over; an older value goes.
    fn store_absent(
        &self,
        claim: &LeaderDuty,
        old: Option<&ReadHandle<'_>>,
        (ticket, options): (Ticket, &LoadOptions),
        loaded: &Loaded,
    ) {
        if expiry_of(options, loaded).is_none() {
            return;
        }
        // A value that is put before the note makes the ticket void, and one that is put after it
        // voids the note. The old one goes after that, so that whoever finds none finds the note.
        if claim.fence().is_some() && self.note_absent(ticket, options, loaded) {
            old.map(|old| self.inner.cache.remove_matching(old));
        } else {
            self.count(OVERTAKEN);
        }
    }

    /// Notes that there is no value for as long as a loaded absence is kept. `false`: it is not
    /// noted.
    pub(super) fn note_absent(&self, ticket: Ticket, options: &LoadOptions, loaded: &Loaded) -> bool {
        let secs = match expiry_of(options, loaded) {
            Some(Expiry::After(secs)) => secs,
            _ => return false,
        };
        self.inner.negative.as_ref().is_some_and(|negative| negative.note_for(ticket, Some(secs)))
    }

    /// Forgets that there is no value. `false`: that was not known to the negative cache.
    pub(super) fn void_negative(&self, key: &[u8]) -> bool {
        self.inner.negative.as_ref().is_some_and(|negative| negative.void(key))
    }
}

/// Returns the expiry time of an item of a loaded value; `None` = it is not to be kept.
fn expiry_of(options: &LoadOptions, loaded: &Loaded) -> Option<Expiry> {
    let secs = if loaded.value.is_some() {
        let Some(fresh_secs) = loaded.fresh_secs.or(options.fresh_secs) else {
            return loaded.keep.then_some(Expiry::Never);
        };
        fresh_secs.saturating_add(options.stale_secs).saturating_add(options.fallback_secs)
    } else {
        loaded.fresh_secs.unwrap_or(options.negative_secs)
    };
    (loaded.keep && secs > 0).then_some(Expiry::After(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_is_counted_back_from_the_expiry() {
        let options = LoadOptions { stale_secs: 30, fallback_secs: 100, ..LoadOptions::default() };
        let cases = [
            (None, Age::Fresh),
            (Some(u32::MAX), Age::Fresh),
            (Some(131), Age::Fresh),
            (Some(130), Age::Stale),
            (Some(101), Age::Stale),
            (Some(100), Age::Fallback),
            (Some(1), Age::Fallback),
        ];
        for (left, age) in cases {
            assert_eq!(Age::of(left, &options), age, "{left:?}");
        }
        assert_eq!(Age::of(Some(1), &LoadOptions::default()), Age::Fresh);
        let huge = LoadOptions { stale_secs: u32::MAX, fallback_secs: u32::MAX, ..options };
        assert_eq!(Age::of(Some(u32::MAX), &huge), Age::Fallback, "no sum overflows");
    }

    #[test]
    fn an_item_expires_when_its_last_use_is_over() {
        let options = LoadOptions {
            fresh_secs: Some(60),
            stale_secs: 30,
            fallback_secs: 10,
            negative_secs: 5,
            ..LoadOptions::default()
        };
        let forever = LoadOptions { fresh_secs: None, negative_secs: 0, ..options };
        let value = || Loaded::value("v");
        let cases = [
            (options, value(), Some(Expiry::After(100))),
            (options, value().fresh_for(1), Some(Expiry::After(41))),
            (options, value().not_kept(), None),
            (options, value().fresh_for(u32::MAX), Some(Expiry::After(u32::MAX))),
            (options, Loaded::absent(), Some(Expiry::After(5))),
            (options, Loaded::absent().fresh_for(7), Some(Expiry::After(7))),
            (forever, value(), Some(Expiry::Never)),
            (forever, value().not_kept(), None),
            (forever, Loaded::absent(), None),
            (LoadOptions { fresh_secs: Some(0), ..LoadOptions::default() }, value(), None),
        ];
        for (options, loaded, expiry) in cases {
            assert_eq!(expiry_of(&options, &loaded), expiry, "{options:?} {loaded:?}");
        }
    }
}
