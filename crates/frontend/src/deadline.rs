//! Expiry times to the millisecond, which Redis clients set, on an engine that counts seconds.
//!
//! The engine gets the expiry time rounded up to a second. The difference is kept in the item's
//! client flags, next to a mark that distinguishes it from flags of a memcached client; such a
//! client sees these flags as 0. Every command of RESP asks [`is_over`]; memcached's commands see
//! such an item for up to a second longer. An item that has flags of a memcached client keeps them,
//! and expires on the second.

/// The lower 22 bits of flags that hold milliseconds: a number that no client is known to use.
const MARK: u32 = 0x2A_51B7;
const MARK_BITS: u32 = 22;
const MARK_MASK: u32 = (1 << MARK_BITS) - 1;

/// The latest expiry time that the engine can hold, in Unix milliseconds: in the year 2106.
const MAX_MILLIS: u64 = u32::MAX as u64 * 1000;

/// The expiry time of an item, as the engine stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredExpiry {
    /// Unix seconds; `None` is never.
    pub expires_at: Option<u32>,
    /// The client's flags.
    pub client_flags: u32,
}

impl StoredExpiry {
    /// For an item that expires at that Unix millisecond, and had those flags. It expires in the
    /// year 2106 at the latest, and its client is then told that time.
    pub fn new(deadline: Option<u64>, flags_before: u32) -> Self {
        let kept = shown_flags(flags_before);
        let Some(deadline) = deadline.map(|deadline| deadline.min(MAX_MILLIS)) else {
            return Self { expires_at: None, client_flags: kept };
        };
        // Second 0 is the engine's word for never.
        let secs = deadline.div_ceil(1000).max(1);
        let early = secs * 1000 - deadline;
        let client_flags = if kept == 0 && early > 0 && early < 1000 { marked(early as u32) } else { kept };
        Self { expires_at: Some(secs as u32), client_flags }
    }
}

const fn marked(early: u32) -> u32 {
    early << MARK_BITS | MARK
}

/// Flags that have room for milliseconds, and none of them: for an item whose expiry time is not
/// known yet.
pub const ROOM: u32 = marked(0);

/// Returns the flags as a memcached client sees them.
#[inline]
pub const fn shown_flags(client_flags: u32) -> u32 {
    if client_flags & MARK_MASK == MARK { 0 } else { client_flags }
}

/// Returns when an item expires, in Unix milliseconds.
#[inline]
pub fn deadline(expires_at: Option<u32>, client_flags: u32) -> Option<u64> {
    let end = u64::from(expires_at?) * 1000;
    let early = if client_flags & MARK_MASK == MARK { u64::from(client_flags >> MARK_BITS) } else { 0 };
    Some(end.saturating_sub(early.min(999)))
}

/// Returns whether an item that the engine still has is expired. Asks for the time only if a second
/// is not precise enough.
#[inline]
pub fn is_over(expires_at: Option<u32>, client_flags: u32, now_millis: impl FnOnce() -> u64) -> bool {
    client_flags & MARK_MASK == MARK
        && deadline(expires_at, client_flags).is_some_and(|end| end <= now_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_kept_to_the_millisecond() {
        for millis in
            [1, 999, 1000, 1001, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_999, MAX_MILLIS]
        {
            let stamp = StoredExpiry::new(Some(millis), 0);
            assert_eq!(deadline(stamp.expires_at, stamp.client_flags), Some(millis));
            assert!(u64::from(stamp.expires_at.expect("an end")) * 1000 >= millis, "never early");
            assert_eq!(shown_flags(stamp.client_flags), 0);
            if !millis.is_multiple_of(1000) {
                assert!(is_over(stamp.expires_at, stamp.client_flags, || millis));
                assert!(!is_over(stamp.expires_at, stamp.client_flags, || millis - 1));
            }
        }
        assert_eq!(StoredExpiry::new(None, ROOM), StoredExpiry { expires_at: None, client_flags: 0 });
        let last = StoredExpiry::new(Some(u64::MAX), 0);
        assert_eq!(
            (deadline(last.expires_at, last.client_flags), last),
            (Some(MAX_MILLIS), StoredExpiry::new(Some(MAX_MILLIS), 0))
        );
        assert_eq!(shown_flags(ROOM), 0);
    }

    #[test]
    fn flags_of_other_clients_stay() {
        let stamp = StoredExpiry::new(Some(1_500), 7);
        assert_eq!(stamp, StoredExpiry { expires_at: Some(2), client_flags: 7 });
        assert_eq!(deadline(stamp.expires_at, stamp.client_flags), Some(2_000));
        assert_eq!(shown_flags(u32::MAX), u32::MAX);
    }
}
