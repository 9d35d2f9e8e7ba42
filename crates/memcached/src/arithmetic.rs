//! Numbers: `incr`, `decr` and what `ma` does.

use frontend::output::Output;
use frontend::requests::Asked;
use millpond::{ReadHandle, WriteHandle};
use protocol::memcached::{ArithmeticRequest, Direction, Exptime, Reply, WireError, reply, write_u64};
use tenancy::KeyEffect;
use tenancy::metrics::Counter;

use super::commands::{Commands, ExpiresAt};
use super::store::{allocation_error, cas_of};
use super::wire::respond;

/// A change of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) direction: Direction,
    pub(super) delta: u64,
    /// Only where the item has this compare-and-swap token.
    pub(super) compare_cas: Option<u64>,
    /// The token that the changed item gets, if the client chose it.
    pub(super) new_cas: Option<u64>,
    /// True if the answer includes the compare-and-swap token.
    pub(super) wants_cas: bool,
    /// The expiry time and the number of the item created on a miss.
    pub(super) create: Option<(Exptime, u64)>,
    /// The new end.
    pub(super) touch: Option<Exptime>,
}

impl Change {
    /// Returns whether the changed item has a token from the start.
    fn keeps_cas(&self) -> bool {
        self.wants_cas || self.new_cas.is_some()
    }
}

/// The outcome of an increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The item is this now.
    Yes { number: u64, cas: u64, expires_at: Option<u32>, created: bool },
    /// There is no item.
    NotFound,
    /// It has another compare-and-swap token.
    Exists,
    /// The value isn't a number, or there is no memory.
    Failed(WireError),
}

/// The command that changes a number in that direction.
pub(super) const fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Increment => "incr",
        Direction::Decrement => "decr",
    }
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn arithmetic(&mut self, request: ArithmeticRequest<'_>, output: &mut Output<ReadHandle<'c>>) {
        let change = Change {
            direction: request.direction,
            delta: request.delta,
            compare_cas: None,
            new_cas: None,
            wants_cas: false,
            create: None,
            touch: None,
        };
        let changed = self.with_key(request.key, |commands, key| commands.change(key, &change));
        match changed {
            Changed::Yes { number, .. } if !request.noreply => {
                output.compose(|out| reply::number(out, number));
            }
            Changed::Yes { .. } => {}
            Changed::NotFound => respond(output, request.noreply, Reply::NotFound.as_bytes()),
            Changed::Exists => respond(output, request.noreply, Reply::Exists.as_bytes()),
            Changed::Failed(error) => respond(output, request.noreply, error.as_bytes()),
        }
    }

    /// Changes the number under `key`, and counts it.
    pub(super) fn change(&mut self, key: &[u8], change: &Change) -> Changed {
        let changed = loop {
            let attempt = match self.keys().peek(key) {
                Some(old) => self.change_item(key, &old, change),
                None => self.create_number(key, change),
            };
            match attempt {
                Ok(Some(changed)) => break changed,
                // Another client was faster.
                Ok(None) => {}
                Err(error) => break Changed::Failed(error),
            }
        };
        self.note(&Asked {
            command: name(change.direction),
            does: KeyEffect::Write,
            key,
            value_bytes: None,
            ttl_secs: self.ttl_of_change(change, changed),
            outcome: match changed {
                Changed::Yes { .. } => "stored",
                Changed::NotFound => "not_found",
                Changed::Exists => "exists",
                Changed::Failed(_) => "error",
            },
        });
        let counter = match (change.direction, changed) {
            (Direction::Increment, Changed::Yes { created: false, .. }) => Counter::IncrHits,
            (Direction::Increment, Changed::Yes { .. } | Changed::NotFound) => Counter::IncrMisses,
            (Direction::Decrement, Changed::Yes { created: false, .. }) => Counter::DecrHits,
            (Direction::Decrement, Changed::Yes { .. } | Changed::NotFound) => Counter::DecrMisses,
            _ => return changed,
        };
        self.counters.add(counter, 1);
        changed
    }

    /// The time to live that a change gives the number, for the log of requests.
    fn ttl_of_change(&self, change: &Change, changed: Changed) -> Option<u32> {
        let exptime = match changed {
            Changed::Yes { created: true, .. } => change.create.map(|(exptime, _)| exptime),
            _ => change.touch,
        };
        exptime.and_then(|exptime| self.ttl_secs(exptime))
    }

    /// Changes `old`; nothing where it has been replaced meanwhile.
    fn change_item(
        &mut self,
        key: &[u8],
        old: &ReadHandle<'_>,
        change: &Change,
    ) -> Result<Option<Changed>, WireError> {
        // As in memcached, an empty value is found before the token is compared, and any other
        // value that isn't a number after it.
        if old.is_empty() {
            return Err(WireError::NonNumeric);
        }
        if change.compare_cas.is_some_and(|cas| Some(cas) != cas_of(old)) {
            return Ok(Some(Changed::Exists));
        }
        let number = parse_number(old).ok_or(WireError::NonNumeric)?;
        let number = change.direction.apply(number, change.delta);
        let end = match change.touch {
            Some(exptime) => ExpiresAt::new(exptime, self.now_secs),
            None => ExpiresAt::Later(old.expires_at()),
        };
        let cas = change.new_cas.unwrap_or_else(|| self.shared.next_cas());
        let ExpiresAt::Later(expires_at) = end else {
            let expires_at = Some(self.now_secs);
            let removed = self.shared.cache.remove_matching(old);
            return Ok(removed.then_some(Changed::Yes { number, cas, expires_at, created: false }));
        };
        let has_cas = change.keeps_cas() || old.tag().is_some();
        let stamp = (expires_at, old.client_flags());
        let mut new = self.make_number(key, (number, old.len()), stamp, (cas, has_cas))?;
        new.set_user_bits(old.user_bits());
        let replaced = self.shared.cache.replace_matching(old, new).is_ok();
        Ok(replaced.then_some(Changed::Yes { number, cas, expires_at, created: false }))
    }

    /// Creates the number that the client asked for, if it did; nothing if there is already an
    /// item.
    fn create_number(&mut self, key: &[u8], change: &Change) -> Result<Option<Changed>, WireError> {
        let Some((exptime, number)) = change.create else { return Ok(Some(Changed::NotFound)) };
        let expires_at = match ExpiresAt::new(exptime, self.now_secs) {
            ExpiresAt::Later(expires_at) => expires_at,
            ExpiresAt::Past => Some(self.now_secs),
        };
        let cas = change.new_cas.unwrap_or_else(|| self.shared.next_cas());
        let new = self.make_number(key, (number, 0), (expires_at, 0), (cas, change.keeps_cas()))?;
        let created = self.shared.cache.insert(new).is_ok();
        Ok(created.then_some(Changed::Yes { number, cas, expires_at, created: true }))
    }

    /// An item with `number` in decimal, padded with spaces to `min_len` bytes: as in memcached, a
    /// number that gets shorter keeps its length.
    fn make_number(
        &self,
        key: &[u8],
        (number, min_len): (u64, usize),
        stamp: (Option<u32>, u32),
        cas: (u64, bool),
    ) -> Result<WriteHandle<'c>, WireError> {
        let mut digits = Vec::with_capacity(20);
        write_u64(&mut digits, number);
        let options = self.options(stamp, cas, digits.len().max(min_len));
        let mut item = self
            .shared
            .cache
            .allocate(self.pool.id, key, digits.len().max(min_len), &options)
            .map_err(|error| allocation_error(&error))?;
        let (front, padding) = item.value_mut().split_at_mut(digits.len());
        front.copy_from_slice(&digits);
        padding.fill(b' ');
        Ok(item)
    }
}

/// Reads a number as C's `strtoull` does, with memcached's conditions: white space before it, and
/// white space or nothing after it.
fn parse_number(value: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = value.iter().position(|byte| !is_space(byte))?;
    let rest = value.get(start..)?;
    let rest = rest.strip_prefix(b"+").unwrap_or(rest);
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at_checked(end)?;
    if digits.is_empty() || !after.first().is_none_or(is_space) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that memcached 1.6.18 was observed to take for a number, and others.
    #[test]
    fn numbers_are_read_as_memcached_does() {
        for (value, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            (" 12", Some(12)),
            ("12 ", Some(12)),
            ("12\r\n", Some(12)),
            ("1 2", Some(1)),
            ("+5", Some(5)),
            ("00012", Some(12)),
            ("5                        ", Some(5)),
            ("", None),
            (" ", None),
            ("+", None),
            ("-1", None),
            ("12abc", None),
            ("0x10", None),
            ("18446744073709551616", None),
            ("123456789012345678901", None),
        ] {
            assert_eq!(parse_number(value.as_bytes()), number, "{value:?}");
        }
    }
}
