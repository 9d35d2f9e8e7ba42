//! memcached's rules for expiration times.

/// Up to this many seconds (30 days) an expiration time counts from now; above, it is a Unix time.
pub const RELATIVE_EXPTIME_MAX_SECS: i64 = 60 * 60 * 24 * 30;

/// An expiration time as the client wrote it. Its meaning depends on the time of day: see
/// [`Self::expiry`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exptime(pub i64);

/// The expiry time of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// Not by age.
    Never,
    /// At this Unix time, in seconds; it is in the future.
    At(u32),
    /// It has expired already: store nothing, and remove the present item.
    Past,
}

impl Exptime {
    /// Converts the number of a text command. The last 30 days of 32 unsigned bits, in the year
    /// 2106, are a negative number that the client wrote without its sign: libmemcached sends -1,
    /// "at once", as 4294967295. (memcached takes all of the upper half for negative, and with it
    /// each time after January 2038.)
    ///
    /// ```
    /// use millpond_protocol::memcached::Exptime;
    /// assert_eq!(Exptime::written(4_294_967_295), Exptime(-1));
    /// assert_eq!(Exptime::written(2_500_000_000), Exptime(2_500_000_000));
    /// ```
    pub const fn written(number: i64) -> Self {
        const END: i64 = 1 << 32;
        if END - RELATIVE_EXPTIME_MAX_SECS <= number && number < END {
            Self(number.saturating_sub(END))
        } else {
            Self(number)
        }
    }

    /// Returns the expiry that this expiration time means at the Unix time `now_secs`.
    ///
    /// 0 is never, a negative number is already over, up to [`RELATIVE_EXPTIME_MAX_SECS`] counts
    /// from now, and anything larger is a Unix time. Unix times are held in 32 unsigned bits, so
    /// that they are valid until 2106; a larger one is taken for the largest. (memcached keeps 32
    /// signed bits and takes a time after January 2038 for one long past.)
    ///
    /// ```
    /// use millpond_protocol::memcached::{Expiry, Exptime};
    /// assert_eq!(Exptime(60).expiry(1_700_000_000), Expiry::At(1_700_000_060));
    /// assert_eq!(Exptime(1_600_000_000).expiry(1_700_000_000), Expiry::Past);
    /// ```
    pub const fn expiry(self, now_secs: u32) -> Expiry {
        let at = match self.0 {
            0 => return Expiry::Never,
            i64::MIN..0 => return Expiry::Past,
            1..=RELATIVE_EXPTIME_MAX_SECS => (now_secs as i64).saturating_add(self.0),
            unix_secs => unix_secs,
        };
        if at <= now_secs as i64 {
            Expiry::Past
        } else if at >= u32::MAX as i64 {
            Expiry::At(u32::MAX)
        } else {
            Expiry::At(at as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_negative_relative_and_absolute() {
        const NOW: u32 = 1_700_000_000;
        let month = RELATIVE_EXPTIME_MAX_SECS;
        for (exptime, expiry) in [
            (0, Expiry::Never),
            (-1, Expiry::Past),
            (i64::MIN, Expiry::Past),
            (1, Expiry::At(NOW + 1)),
            (month, Expiry::At(NOW + 2_592_000)),
            // One second more is a day in January 1970.
            (month + 1, Expiry::Past),
            (i64::from(NOW) - 1, Expiry::Past),
            (i64::from(NOW), Expiry::Past),
            (i64::from(NOW) + 1, Expiry::At(NOW + 1)),
            (1 << 31, Expiry::At(1 << 31)),
            (i64::from(u32::MAX), Expiry::At(u32::MAX)),
            (i64::from(u32::MAX) + 1, Expiry::At(u32::MAX)),
            (i64::MAX, Expiry::At(u32::MAX)),
        ] {
            assert_eq!(Exptime(exptime).expiry(NOW), expiry, "exptime {exptime}");
        }
    }

    #[test]
    fn a_negative_number_without_its_sign_is_told_from_a_day() {
        let end = 1 << 32;
        for (number, meant) in [
            (-1, -1),
            (end - 1, -1),
            (end - RELATIVE_EXPTIME_MAX_SECS, -RELATIVE_EXPTIME_MAX_SECS),
            (end - RELATIVE_EXPTIME_MAX_SECS - 1, end - RELATIVE_EXPTIME_MAX_SECS - 1),
            (end, end),
            (1 << 31, 1 << 31),
            (i64::MAX, i64::MAX),
        ] {
            assert_eq!(Exptime::written(number), Exptime(meant), "{number}");
        }
    }

    #[test]
    fn a_relative_time_does_not_pass_the_end_of_the_clock() {
        assert_eq!(Exptime(100).expiry(u32::MAX - 10), Expiry::At(u32::MAX));
        assert_eq!(Exptime(100).expiry(0), Expiry::At(100));
    }
}
