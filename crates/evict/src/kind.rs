//! The kind of a policy, with its parameters and its text form in configuration and on the command
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
use crate::split::{LruSplit, SplitTarget};
use crate::tiny_lfu::TinyLfu;
use crate::two_q::TwoQ;

/// The kind of a policy, with its parameters. Each variant documents its text form, which `serde`
/// uses too; `docs/policies.md` has a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// LRU with lazy promotion: `lru`, `lru:REFRESH_SECS`.
    Lru {
        /// Seconds before an item can be promoted again; 0 = every hit promotes. Default 60, as in
        /// CacheLib.
        refresh_secs: u32,
    },
    /// LRU with insertion of new items below the top: `lru+mid` (the middle), `lru+N`.
    LruInsertion {
        /// A new item has `items >> shift` items below it (1–8): 1 is the middle, 2 a quarter from
        /// the tail.
        shift: u8,
    },
    /// LRU in two partitions by key, so that it has no cliffs: `lru+split` ([`crate::split`]).
    LruSplit,
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

/// All facts about a kind.
struct Facts {
    /// The names; the first is used for output.
    names: &'static [&'static str],
    /// The form of the text, for error messages.
    form: &'static str,
    bytes_per_item_x100: u64,
    parameters: Parameters,
    /// Creates the kind with the first of these parameters. `None` if one is too large.
    with: fn([u32; 2]) -> Option<PolicyKind>,
}

impl Facts {
    /// Facts about a kind without parameters.
    const fn plain(
        names: &'static [&'static str],
        form: &'static str,
        bytes_per_item_x100: u64,
        with: fn([u32; 2]) -> Option<PolicyKind>,
    ) -> Self {
        Self { names, form, bytes_per_item_x100, parameters: Parameters::NONE, with }
    }

    /// Returns the rest of `text` after a name of the kind, if it begins with one.
    fn parameters_in<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut rests = self.names.iter().filter_map(|name| text.strip_prefix(name));
        rests.find(|rest| rest.is_empty() || rest.starts_with(self.parameters.separator))
    }

    /// Returns the kind with the parameters in `rest`, if they have the right form.
    fn parse(&self, rest: &str) -> Option<PolicyKind> {
        let Parameters { mut values, defaults, count, separator, default_text, .. } = self.parameters;
        if rest.is_empty() || rest == default_text {
            return (self.with)(defaults);
        }
        let fields: Vec<&str> = rest.strip_prefix(separator)?.split(':').collect();
        if fields.len() != count {
            return None;
        }
        for (value, field) in values.iter_mut().zip(fields) {
            *value = field.parse().ok()?;
        }
        (self.with)(values)
    }
}

/// Up to two numeric parameters of a kind, with their defaults, bounds and text form.
#[derive(Clone, Copy)]
struct Parameters {
    values: [u32; 2],
    defaults: [u32; 2],
    count: usize,
    /// The least and the greatest value of each.
    bounds: (u32, u32),
    most_together: u64,
    /// The separator before the first; a colon separates the second.
    separator: &'static str,
    /// The text for the defaults.
    default_text: &'static str,
}

impl Parameters {
    const NONE: Self = Self {
        values: [0; 2],
        defaults: [0; 2],
        count: 0,
        bounds: (0, u32::MAX),
        most_together: u64::MAX,
        separator: ":",
        default_text: "",
    };

    const fn one(value: u32, default: u32, bounds: (u32, u32)) -> Self {
        Self { values: [value, 0], defaults: [default, 0], count: 1, bounds, ..Self::NONE }
    }

    /// Two shares in percent, which leave a part for a third.
    const fn shares([first, second]: [u8; 2], defaults: [u32; 2]) -> Self {
        let values = [first as u32, second as u32];
        Self { values, defaults, count: 2, bounds: (1, 98), most_together: 99, ..Self::NONE }
    }

    const fn written(self, separator: &'static str, default_text: &'static str) -> Self {
        Self { separator, default_text, ..self }
    }

    const fn are_valid(&self) -> bool {
        let (mut at, mut sum) = (0, 0);
        while at < self.count {
            let value = self.values[at];
            if value < self.bounds.0 || value > self.bounds.1 {
                return false;
            }
            sum += value as u64;
            at += 1;
        }
        sum <= self.most_together
    }
}

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
    pub const ALL: [Self; 9] = [
        Self::LRU,
        Self::LruSplit,
        Self::LRU_MID,
        Self::TWO_Q,
        Self::TINY_LFU,
        Self::W_TINY_LFU,
        Self::S3_FIFO,
        Self::Sieve,
        Self::Arc,
    ];

    /// All facts about the kind and its parameters.
    const fn facts(self) -> Facts {
        match self {
            Self::Lru { refresh_secs } => Facts {
                names: &["lru"],
                form: "lru, or lru:REFRESH_SECONDS (0 = promoted by every hit)",
                bytes_per_item_x100: QUEUED_15,
                parameters: Parameters::one(refresh_secs, 60, (0, u32::MAX)),
                with: |[refresh_secs, _]| Some(Self::Lru { refresh_secs }),
            },
            Self::LruInsertion { shift } => Facts {
                names: &["lru"],
                form: "lru+mid, or lru+N (N from 1 to 8: a new item enters at 1/2^N of the items from the tail)",
                bytes_per_item_x100: QUEUED_15,
                parameters: Parameters::one(shift as u32, 1, (1, 8)).written("+", "+mid"),
                with: |[shift, _]| Some(Self::LruInsertion { shift: shift.try_into().ok()? }),
            },
            Self::LruSplit => Facts::plain(&["lru+split"], SPLIT_FORM, QUEUED_15, |_| Some(Self::LruSplit)),
            Self::TwoQ { hot_percent, cold_percent } => Facts {
                names: &["2q"],
                form: "2q, or 2q:HOT_PERCENT:COLD_PERCENT (each at least 1, both together at most 99)",
                bytes_per_item_x100: QUEUED_15,
                parameters: Parameters::shares([hot_percent, cold_percent], [30, 30]),
                with: |[hot, cold]| {
                    Some(Self::TwoQ {
                        hot_percent: hot.try_into().ok()?,
                        cold_percent: cold.try_into().ok()?,
                    })
                },
            },
            Self::TinyLfu { window_percent } => Facts {
                names: &["tinylfu"],
                form: "tinylfu, or tinylfu:WINDOW_PERCENT (1-50)",
                bytes_per_item_x100: QUEUED_15 + crate::sketch::BYTES_PER_ITEM_X100,
                parameters: Parameters::one(window_percent as u32, 1, (1, 50)),
                with: |[percent, _]| Some(Self::TinyLfu { window_percent: percent.try_into().ok()? }),
            },
            Self::WTinyLfu { window_percent } => Facts {
                names: &["w-tinylfu", "wtinylfu"],
                form: "w-tinylfu, or w-tinylfu:WINDOW_PERCENT (1-50)",
                bytes_per_item_x100: QUEUED_15 + crate::sketch::BYTES_PER_ITEM_X100,
                parameters: Parameters::one(window_percent as u32, 1, (1, 50)),
                with: |[percent, _]| Some(Self::WTinyLfu { window_percent: percent.try_into().ok()? }),
            },
            Self::S3Fifo { small_percent } => Facts {
                names: &["s3-fifo", "s3fifo"],
                form: "s3-fifo, or s3-fifo:SMALL_PERCENT (1-50)",
                bytes_per_item_x100: QUEUED_63 + 440,
                parameters: Parameters::one(small_percent as u32, 10, (1, 50)),
                with: |[percent, _]| Some(Self::S3Fifo { small_percent: percent.try_into().ok()? }),
            },
            Self::Sieve => {
                let form = "sieve, which has no parameter";
                Facts::plain(&["sieve"], form, QUEUED_63, |_| Some(Self::Sieve))
            }
            Self::Arc => {
                let form = "arc, which has no parameter";
                Facts::plain(&["arc"], form, QUEUED_15 + 490, |_| Some(Self::Arc))
            }
        }
    }

    /// Creates an empty order that `expected` items are about to enter. Resets the clocks of
    /// `hits`. `split` is followed by policies that split queues. `now` in seconds.
    pub(crate) fn order(
        self,
        (hits, split): (&Hits, &std::sync::Arc<SplitTarget>),
        expected: usize,
        now: u32,
    ) -> Order {
        match self {
            Self::Lru { refresh_secs } => Lru::new(refresh_secs, hits, expected, now).into(),
            Self::LruInsertion { shift } => LruInsertion::new(shift, hits, expected, now).into(),
            Self::LruSplit => LruSplit::new(split, hits, expected, now).into(),
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

    /// Returns the memory that queues, ghosts and sketches take per item, at most, in hundredths of
    /// a byte: entries with a quarter of stale ones, and the memory of ghosts and sketches.
    pub const fn bytes_per_item_x100(self) -> u64 {
        self.facts().bytes_per_item_x100
    }

    /// Returns whether the parameters are within their bounds. Parsed kinds always are; the
    /// parameters of others are clamped at their use.
    pub const fn is_valid(self) -> bool {
        self.facts().parameters.are_valid()
    }
}

impl Default for PolicyKind {
    fn default() -> Self {
        Self::S3_FIFO
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { names, parameters, .. } = self.facts();
        f.write_str(names[0])?;
        if parameters.values == parameters.defaults {
            return f.write_str(parameters.default_text);
        }
        let mut separator = parameters.separator;
        for value in parameters.values.iter().take(parameters.count) {
            write!(f, "{separator}{value}")?;
            separator = ":";
        }
        Ok(())
    }
}

/// A text that is not a policy, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    text: String,
    /// The form of the named policy, or of all policies if none was named.
    expected: &'static str,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an eviction policy: use {}", self.text, self.expected)
    }
}

impl std::error::Error for UnknownPolicy {}

const NAMES: &str = "s3-fifo, sieve, lru, lru+mid, lru+split, 2q, tinylfu, w-tinylfu or arc";
const SPLIT_FORM: &str =
    "lru+split, which has no parameter; no other policy is split, as splits follow the curve of LRU";

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    /// Parses the output of [`fmt::Display`], ignoring case; an omitted parameter has its default.
    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let lower = text.trim().to_ascii_lowercase();
        // Both LRUs have the same name. The plain one comes first, so that the name alone means it.
        let named = PolicyKind::ALL.iter().find_map(|kind| {
            let facts = kind.facts();
            let rest = facts.parameters_in(&lower)?;
            Some((facts.parse(rest), facts.form))
        });
        let unnamed = if lower.ends_with("+split") { SPLIT_FORM } else { NAMES };
        let (kind, expected) = named.unwrap_or((None, unnamed));
        kind.filter(|kind| kind.is_valid()).ok_or_else(|| UnknownPolicy { text: text.to_owned(), expected })
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
            ("lru+split:2", "no parameter"),
            ("s3-fifo+split", "no other policy is split"),
        ] {
            let error = text.parse::<PolicyKind>().expect_err(text).to_string();
            assert!(error.contains(expected) && error.starts_with(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn an_unknown_name_lists_all_names() {
        let error = "fifo".parse::<PolicyKind>().expect_err("no policy").to_string();
        let listed: Vec<&str> = error.split(&[' ', ','][..]).collect();
        for kind in PolicyKind::ALL {
            assert!(listed.contains(&kind.to_string().as_str()), "{kind} is missing in {error}");
        }
    }

    #[test]
    fn parameters_beyond_their_bounds_are_invalid() {
        for kind in PolicyKind::ALL {
            assert!(kind.is_valid(), "{kind}");
        }
        for kind in [
            PolicyKind::LruInsertion { shift: 0 },
            PolicyKind::LruInsertion { shift: 9 },
            PolicyKind::TwoQ { hot_percent: 0, cold_percent: 50 },
            PolicyKind::TwoQ { hot_percent: 50, cold_percent: 50 },
            PolicyKind::TwoQ { hot_percent: 200, cold_percent: 200 },
            PolicyKind::TinyLfu { window_percent: 51 },
            PolicyKind::WTinyLfu { window_percent: 0 },
            PolicyKind::S3Fifo { small_percent: 255 },
        ] {
            assert!(!kind.is_valid(), "{kind}");
        }
        assert!(PolicyKind::Lru { refresh_secs: u32::MAX }.is_valid());
    }

    #[test]
    fn metadata_stays_small() {
        for kind in PolicyKind::ALL {
            assert!(kind.bytes_per_item_x100() <= 1_080, "{kind}: {}", kind.bytes_per_item_x100());
        }
    }
}
