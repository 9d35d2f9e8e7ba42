//! Limits on what a client can make the parser hold or do.

/// Bounds on one request. The defaults are memcached 1.6.18's, where it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest command line in bytes, counted up to its `\n`, of every command but the retrievals.
    /// Default 2,048.
    pub max_line_bytes: usize,
    /// Longest line of `get`, `gets`, `gat` and `gats`, in bytes. Default 1 MiB (memcached:
    /// unbounded).
    pub max_get_line_bytes: usize,
    /// Most keys in one retrieval. Default 65,536 (memcached: unbounded).
    pub max_keys: usize,
    /// Largest item in bytes, counted as memcached counts for its `-I`: key, value and
    /// [`Self::item_overhead`]. Default 1 MiB, so that a value of exactly 1 MiB is refused as
    /// memcached refuses it.
    pub max_item_bytes: usize,
    /// True if the data block of a storage command is skipped when its *line* was rejected but its
    /// length was legible.
    ///
    /// memcached skips it only if the item is too large or a meta flag is wrong. For an overlong
    /// key or a wrong number it goes on to read the data as commands: a client that does not check
    /// its keys can then be made to send commands hidden in values. Default false, as in memcached.
    pub skip_refused_data: bool,
}

/// Header, key terminator, line end and compare-and-swap token of an item in memcached, in bytes.
const ITEM_OVERHEAD_BYTES: usize = 59;
/// The size that non-zero client flags add to an item.
const CLIENT_FLAGS_BYTES: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line_bytes: 2_048,
            max_get_line_bytes: 1 << 20,
            max_keys: 65_536,
            max_item_bytes: 1 << 20,
            skip_refused_data: false,
        }
    }
}

impl Limits {
    /// Returns the bytes that memcached adds to key and value when it compares an item with its
    /// size limit: 59, and 4 more if the client flags are not zero.
    pub const fn item_overhead(client_flags: u32) -> usize {
        if client_flags == 0 {
            ITEM_OVERHEAD_BYTES
        } else {
            ITEM_OVERHEAD_BYTES.saturating_add(CLIENT_FLAGS_BYTES)
        }
    }

    /// Returns whether an item of this key, these flags and this value is within
    /// [`Self::max_item_bytes`].
    pub const fn item_fits(&self, key_bytes: usize, client_flags: u32, value_bytes: usize) -> bool {
        let overhead = Self::item_overhead(client_flags).saturating_add(key_bytes);
        overhead.saturating_add(value_bytes) <= self.max_item_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest values that memcached 1.6.18 was seen to store at its default item size.
    #[test]
    fn the_largest_value_is_memcacheds() {
        let limits = Limits::default();
        for (key_bytes, client_flags, largest) in [(3, 0, 1_048_514), (3, 5, 1_048_510), (250, 0, 1_048_267)]
        {
            assert!(limits.item_fits(key_bytes, client_flags, largest));
            assert!(!limits.item_fits(key_bytes, client_flags, largest + 1));
        }
        assert!(!limits.item_fits(250, 1, usize::MAX));
    }
}
