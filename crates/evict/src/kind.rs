//! Which policy, with its parameters, and how it is written in configuration and on the command
//! line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::arc::Arc;
use crate::hits::Hits;
use crate::insertion::LruInsertion;
use crate::lru::Lru;
use crate::order::Order;
use crate::s3fifo::S3Fifo;
use crate::sieve::Sieve;
use crate::tiny_lfu::TinyLfu;
use crate::two_q::TwoQ;

/// Which policy, with its parameters. As text, in `serde` too: see each variant; `docs/policies.md`
/// has them in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// LRU with lazy promotion: `lru`, `lru:REFRESH_SECS`.
    Lru {
        /// An item is not promoted again before this many seconds; 0 = promoted by every hit.
        /// Default 60, as in CacheLib.
        refresh_secs: u32,
    },
    /// LRU into which new items are put below the top: `lru+mid` (the middle), `lru+N`.
    LruInsertion {
        /// A new item has `items >> shift` items below it (1–8): 1 is the middle, 2 a quarter from
        /// the tail.
        shift: u8,
    },
    /// 2Q with hot, warm and cold queues: `2q`, `2q:HOT:COLD`.
    TwoQ {
        /// Share of the hot queue, which new items enter, in percent (1–98). Default 30, as in
        /// CacheLib.
        hot_percent: u8,
        /// Share of the cold queue, which is evicted from, in percent (1–98). Default 30, as in
        /// CacheLib. Both together are at most 99; the rest is warm.
        cold_percent: u8,
    },
    /// TinyLFU: `tinylfu`, `tinylfu:WINDOW_PERCENT`.
    TinyLfu {
        /// Share of the window, which new items enter, in percent (1–50). Default 1, as in
        /// CacheLib.
        window_percent: u8,
    },
    /// W-TinyLFU: `w-tinylfu`, `w-tinylfu:WINDOW_PERCENT`.
    WTinyLfu {
        /// Share of the window, which new items enter, in percent (1–50). Default 1, as in
        /// CacheLib.
        window_percent: u8,
    },
    /// S3-FIFO: `s3-fifo`, `s3-fifo:SMALL_PERCENT`.
    S3Fifo {
        /// Share of the small queue, in percent (1–50). Default 10.
        small_percent: u8,
    },
    /// SIEVE: `sieve`.
    Sieve,
    /// ARC: `arc`.
    Arc,
}

/// Entries of unrolled queues, a quarter of them stale, in hundredths of a byte per item: in blocks
/// of 15 and of 63.
const QUEUED_15: u64 = 427 * 4 / 3;
const QUEUED_63: u64 = 406 * 4 / 3;

impl PolicyKind {
    /// LRU with CacheLib's refresh time of 60 s.
    pub const LRU: Self = Self::Lru { refresh_secs: 60 };
    /// LRU with insertion in the middle.
    pub const LRU_MID: Self = Self::LruInsertion { shift: 1 };
    /// 2Q with CacheLib's shares: 30 % hot, 30 % cold.
    pub const TWO_Q: Self = Self::TwoQ { hot_percent: 30, cold_percent: 30 };
    /// TinyLFU with a window of 1 %.
    pub const TINY_LFU: Self = Self::TinyLfu { window_percent: 1 };
    /// W-TinyLFU with a window of 1 %.
    pub const W_TINY_LFU: Self = Self::WTinyLfu { window_percent: 1 };
    /// S3-FIFO with its authors' small queue of 10 %.
    pub const S3_FIFO: Self = Self::S3Fifo { small_percent: 10 };

    /// One of each, with its default parameters.
    pub const ALL: [Self; 8] = [
        Self::LRU,
        Self::LRU_MID,
        Self::TWO_Q,
        Self::TINY_LFU,
        Self::W_TINY_LFU,
        Self::S3_FIFO,
        Self::Sieve,
        Self::Arc,
    ];

    /// Memory that queues, ghosts and sketches take per item, at most, in hundredths of a byte:
    /// entries with a quarter of stale ones, and what is remembered besides.
    pub const fn bytes_per_item_x100(self) -> u64 {
        match self {
            Self::Lru { .. } | Self::LruInsertion { .. } | Self::TwoQ { .. } => QUEUED_15,
            Self::TinyLfu { .. } | Self::WTinyLfu { .. } => QUEUED_15 + crate::sketch::BYTES_PER_ITEM_X100,
            Self::S3Fifo { .. } => QUEUED_63 + 440,
            Self::Sieve => QUEUED_63,
            Self::Arc => QUEUED_15 + 490,
        }
    }

    /// Makes an empty order that `expected` items are about to enter. The clocks of `hits` begin
    /// anew. `now` in seconds.
    pub(crate) fn order(self, hits: &Hits, expected: usize, now: u32) -> Order {
        match self {
            Self::Lru { refresh_secs } => Lru::new(refresh_secs, hits, expected, now).into(),
            Self::LruInsertion { shift } => LruInsertion::new(shift, hits, expected, now).into(),
            Self::TwoQ { hot_percent, cold_percent } => {
                TwoQ::new(hot_percent, cold_percent, hits, expected, now).into()
            }
            Self::TinyLfu { window_percent } => {
                TinyLfu::new(window_percent, false, hits, expected, now).into()
            }
            Self::WTinyLfu { window_percent } => {
                TinyLfu::new(window_percent, true, hits, expected, now).into()
            }
            Self::S3Fifo { small_percent } => S3Fifo::new(small_percent).into(),
            Self::Sieve => Sieve::default().into(),
            Self::Arc => Arc::new(hits, expected, now).into(),
        }
    }

    /// Whether the parameters are within their bounds. Kinds that were parsed are; others are
    /// clamped where used.
    pub const fn is_valid(self) -> bool {
        match self {
            Self::Lru { .. } | Self::Sieve | Self::Arc => true,
            Self::LruInsertion { shift } => shift >= 1 && shift <= 8,
            Self::TwoQ { hot_percent, cold_percent } => {
                hot_percent >= 1 && cold_percent >= 1 && hot_percent as u16 + cold_percent as u16 <= 99
            }
            Self::TinyLfu { window_percent: percent }
            | Self::WTinyLfu { window_percent: percent }
            | Self::S3Fifo { small_percent: percent } => percent >= 1 && percent <= 50,
        }
    }
}

impl Default for PolicyKind {
    fn default() -> Self {
        Self::S3_FIFO
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lru { refresh_secs: 60 } => f.write_str("lru"),
            Self::Lru { refresh_secs } => write!(f, "lru:{refresh_secs}"),
            Self::LruInsertion { shift: 1 } => f.write_str("lru+mid"),
            Self::LruInsertion { shift } => write!(f, "lru+{shift}"),
            Self::TwoQ { hot_percent: 30, cold_percent: 30 } => f.write_str("2q"),
            Self::TwoQ { hot_percent, cold_percent } => write!(f, "2q:{hot_percent}:{cold_percent}"),
            Self::TinyLfu { window_percent: 1 } => f.write_str("tinylfu"),
            Self::TinyLfu { window_percent } => write!(f, "tinylfu:{window_percent}"),
            Self::WTinyLfu { window_percent: 1 } => f.write_str("w-tinylfu"),
            Self::WTinyLfu { window_percent } => write!(f, "w-tinylfu:{window_percent}"),
            Self::S3Fifo { small_percent: 10 } => f.write_str("s3-fifo"),
            Self::S3Fifo { small_percent } => write!(f, "s3-fifo:{small_percent}"),
            Self::Sieve => f.write_str("sieve"),
            Self::Arc => f.write_str("arc"),
        }
    }
}

/// A text that names no policy, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    text: String,
    /// What the policy that was named takes, or all policies where none was.
    expected: &'static str,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no eviction policy: use {}", self.text, self.expected)
    }
}

impl std::error::Error for UnknownPolicy {}

const NAMES: &str = "s3-fifo, sieve, lru, lru+mid, 2q, tinylfu, w-tinylfu or arc";
const LRU: &str = "lru, or lru:REFRESH_SECONDS (0 = promoted by every hit)";
const INSERTION: &str =
    "lru+mid, or lru+N (N from 1 to 8: a new item enters at 1/2^N of the items from the tail)";
const TWO_Q: &str = "2q, or 2q:HOT_PERCENT:COLD_PERCENT (each at least 1, both together at most 99)";
const TINY_LFU: &str = "tinylfu, or tinylfu:WINDOW_PERCENT (1-50)";
const W_TINY_LFU: &str = "w-tinylfu, or w-tinylfu:WINDOW_PERCENT (1-50)";
const S3_FIFO: &str = "s3-fifo, or s3-fifo:SMALL_PERCENT (1-50)";
const SIEVE: &str = "sieve, which has no parameter";
const ARC: &str = "arc, which has no parameter";

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    /// Reads what [`fmt::Display`] writes, in any case; a parameter that is left out has its
    /// default.
    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let lower = text.trim().to_ascii_lowercase();
        let mut fields = lower.split(':');
        let name = fields.next().unwrap_or_default();
        let (kind, expected) = parse(name, &fields.collect::<Vec<_>>());
        kind.filter(|kind| kind.is_valid()).ok_or_else(|| UnknownPolicy { text: text.to_owned(), expected })
    }
}

/// The policy of `name` with `parameters`, where they have the right form, and what was expected.
fn parse(name: &str, parameters: &[&str]) -> (Option<PolicyKind>, &'static str) {
    let percent = |default| match parameters {
        [] => Some(default),
        [percent] => percent.parse::<u8>().ok(),
        _ => None,
    };
    match name {
        "lru" => {
            let refresh = match parameters {
                [] => Some(60),
                [refresh] => refresh.parse().ok(),
                _ => None,
            };
            (refresh.map(|refresh_secs| PolicyKind::Lru { refresh_secs }), LRU)
        }
        "2q" => {
            let shares = match parameters {
                [] => Some((30, 30)),
                [hot, cold] => hot.parse().ok().zip(cold.parse().ok()),
                _ => None,
            };
            let kind = |(hot_percent, cold_percent)| PolicyKind::TwoQ { hot_percent, cold_percent };
            (shares.map(kind), TWO_Q)
        }
        "tinylfu" => (percent(1).map(|window_percent| PolicyKind::TinyLfu { window_percent }), TINY_LFU),
        "w-tinylfu" | "wtinylfu" => {
            (percent(1).map(|window_percent| PolicyKind::WTinyLfu { window_percent }), W_TINY_LFU)
        }
        "s3-fifo" | "s3fifo" => {
            (percent(10).map(|small_percent| PolicyKind::S3Fifo { small_percent }), S3_FIFO)
        }
        "sieve" => (parameters.is_empty().then_some(PolicyKind::Sieve), SIEVE),
        "arc" => (parameters.is_empty().then_some(PolicyKind::Arc), ARC),
        _ => match name.strip_prefix("lru+") {
            Some(place) => {
                let shift = if place == "mid" { Some(1) } else { place.parse().ok() };
                let shift = shift.filter(|_| parameters.is_empty());
                (shift.map(|shift| PolicyKind::LruInsertion { shift }), INSERTION)
            }
            None => (None, NAMES),
        },
    }
}

impl Serialize for PolicyKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PolicyKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    #[test]
    fn text_and_kind_are_the_same_both_ways() {
        let others = [
            PolicyKind::Lru { refresh_secs: 0 },
            PolicyKind::LruInsertion { shift: 3 },
            PolicyKind::TwoQ { hot_percent: 10, cold_percent: 40 },
            PolicyKind::TinyLfu { window_percent: 5 },
            PolicyKind::WTinyLfu { window_percent: 20 },
            PolicyKind::S3Fifo { small_percent: 25 },
        ];
        for kind in PolicyKind::ALL.into_iter().chain(others) {
            let text = kind.to_string();
            assert_eq!(text.parse(), Ok(kind));
            assert_eq!(text.to_uppercase().parse(), Ok(kind));
            let from: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
            assert_eq!(PolicyKind::deserialize(from), Ok(kind));
        }
        assert_eq!("lru+1".parse(), Ok(PolicyKind::LRU_MID));
        assert_eq!(PolicyKind::default().to_string(), "s3-fifo");
    }

    #[test]
    fn what_is_no_policy_is_refused_with_what_would_be_one() {
        for (text, expected) in [
            ("", "s3-fifo, sieve,"),
            ("fifo", "s3-fifo, sieve,"),
            ("lru:", "lru:REFRESH_SECONDS"),
            ("lru:-1", "lru:REFRESH_SECONDS"),
            ("lru:60:1", "lru:REFRESH_SECONDS"),
            ("lru+0", "lru+N (N from 1 to 8"),
            ("lru+9", "lru+N (N from 1 to 8"),
            ("lru+mid:1", "lru+N (N from 1 to 8"),
            ("2q:30", "2q:HOT_PERCENT:COLD_PERCENT"),
            ("2q:60:40", "at most 99"),
            ("2q:0:40", "each at least 1"),
            ("tinylfu:51", "WINDOW_PERCENT (1-50)"),
            ("w-tinylfu:0", "WINDOW_PERCENT (1-50)"),
            ("s3-fifo:256", "SMALL_PERCENT (1-50)"),
            ("sieve:1", "no parameter"),
            ("arc:1", "no parameter"),
        ] {
            let error = text.parse::<PolicyKind>().expect_err(text).to_string();
            assert!(error.contains(expected) && error.starts_with(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn metadata_stays_small() {
        for kind in PolicyKind::ALL {
            assert!(kind.bytes_per_item_x100() <= 1_080, "{kind}: {}", kind.bytes_per_item_x100());
        }
    }
}
