//! The sampling of calls and keys.

use std::path::PathBuf;

use base::ByteSize;

settings! {
    /// The sampling of calls and keys.
    pub struct Watch in "watch." {
        /// One call of the engine in this many is timed: find, allocate, insert and remove, shown
        /// as percentiles in /metrics and /stats.json. 0: none. 1000 costs about 1 %.
        online latency_one_in: u32 = 0;

        /// A RESP request that takes at least this many microseconds is kept for SLOWLOG GET. 0:
        /// every request. -1: none. Below 1000, lookups are no longer batched, so that each can be
        /// timed, which costs speed.
        online slow_log_micros: i64 = 10_000, in -1..;

        /// Number of requests in the slow log.
        online slow_log_entries: usize = 128, in ..=65_536;

        /// A RESP command that takes at least this many milliseconds is kept as an event for
        /// LATENCY HISTORY. 0: none.
        online latency_monitor_millis: u32 = 0;

        /// Number of hot keys per pool, shown by `stats hotkeys` and in /hotkeys.json. Hot keys and
        /// curves of all pools take about a 64th of the memory at most, and those of pools that are
        /// added while serving as much again: if pools are many, each has 4 hot keys, and a curve
        /// from fewer keys, down to 512; if that is still too much, only the first have them. 0:
        /// none.
        online hot_keys: usize = 16, in ..=1024;

        /// One find in this many is sampled for hot keys.
        online hot_keys_one_in: u32 = 1_000, in 1..;

        /// Number of keys of each pool that are followed to learn its miss-ratio curve, 64 to
        /// 1048576, shown in /curves.json: its misses with less memory and with more
        /// (docs/curves.md). 2048 take up to 350 KiB per pool. 0: no curves.
        online curve_keys: usize = 2_048;

        /// At most one key in this many is followed for that.
        online curve_one_in: u32 = 64, in 1..;

        /// A file for the events of a sample of keys, for `millpond bench replay`
        /// (docs/watching.md). It is overwritten, and grows as long as this is set. Empty: none.
        online trace_file: PathBuf = PathBuf::new();

        /// The events of one key in this many are written there.
        online trace_one_in: u32 = 1_000, in 1..;

        /// A file for the requests for a sample of keys, for `millpond bench replay` and `curve`
        /// (docs/watching.md). It is appended to, and reopened on SIGHUP. Empty: none.
        online request_log: PathBuf = PathBuf::new();

        /// The requests for one key in this many are written there.
        online request_log_one_in: u32 = 100, in 1..;

        /// Writes keys there in plain text, instead of as numbers that do not reveal them.
        online request_log_plain_keys: bool = false;

        /// Size at which the request log is renamed with ".1" appended, replacing the previous one.
        online request_log_max_bytes: ByteSize = ByteSize::mib(256);
    }
}

/// Reports samples that cannot be taken.
pub(super) fn check(watch: &Watch, problems: &mut Vec<String>) {
    if watch.curve_keys != 0 && !(64..=1 << 20).contains(&watch.curve_keys) {
        problems.push(format!("watch.curve_keys: {} is neither 0 nor 64 to 1048576", watch.curve_keys));
    }
}
