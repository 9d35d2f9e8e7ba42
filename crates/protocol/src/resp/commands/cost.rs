//! The cost of a command, known before it is executed, which distinguishes slow requests from
//! others.

use super::is;
use crate::resp::number;

/// Entries of a collection that count as few, wherever they are in it.
const FEW_ENTRIES: i64 = 128;

/// The quantity that the time of a command grows with, besides the number of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Nothing else.
    Arguments,
    /// The bytes of the collections under its keys, unless the request asks for few entries.
    Collections(Few),
    /// The bytes of the strings under its keys.
    Strings,
    /// The product of the lengths of two strings.
    Pairs,
    /// The commands that the transaction has queued.
    Queued,
    /// The state of the server, of which a request makes a long answer, in ten microseconds or
    /// more.
    Report,
}

/// The requests of a command that ask for few entries, which are found without looking at the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Few {
    /// Never.
    Never,
    /// If it has a key and no count.
    WithoutCount,
    /// If `COUNT` is absent, or small.
    Count,
    /// If `LIMIT` has a small offset and a small count.
    Limit,
    /// If both ends of its range are close to one end of the collection, and to each other.
    Range,
    /// As [`Self::Limit`] with `BYSCORE` or `BYLEX`, and as [`Self::Range`] without.
    RangeOrLimit,
}

impl Few {
    /// Returns whether a request asks for few entries.
    #[must_use]
    pub fn holds(self, args: &[&[u8]]) -> bool {
        let option = |name: &str| args.iter().position(|argument| is(argument, name));
        match self {
            Self::Never => false,
            Self::WithoutCount => args.len() == 2,
            Self::Count => option("COUNT").is_none_or(|at| is_few(args, at, 1)),
            Self::Limit => option("LIMIT").is_some_and(|at| is_few(args, at, 1) && is_few(args, at, 2)),
            Self::Range => is_short_range(args),
            Self::RangeOrLimit if option("BYSCORE").or(option("BYLEX")).is_some() => Self::Limit.holds(args),
            Self::RangeOrLimit => is_short_range(args),
        }
    }
}

/// Returns whether the argument `behind` the one at `at` is a small number.
fn is_few(args: &[&[u8]], at: usize, behind: usize) -> bool {
    let text = args.get(at.saturating_add(behind));
    text.and_then(|text| number(text)).is_some_and(|count| (0..=FEW_ENTRIES).contains(&count))
}

/// Returns whether the arguments behind the key are the bounds of a short range.
fn is_short_range(args: &[&[u8]]) -> bool {
    let at = |place: usize| args.get(place).and_then(|text| number(text));
    at(2)
        .zip(at(3))
        .is_some_and(|(start, end)| (start < 0) == (end < 0) && end.saturating_sub(start) < FEW_ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::commands::Spec;

    #[test]
    fn requests_for_few_entries_are_told_from_others() {
        let asks_for_few = |request: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            match Spec::find(args[0]).expect("a command").cost {
                Cost::Collections(few) => few.holds(&args),
                Cost::Arguments => true,
                cost => panic!("{request}: {cost:?}"),
            }
        };
        for request in [
            "LRANGE k 0 9",
            "LRANGE k -10 -1",
            "LRANGE k 5000 5100",
            "ZRANGE k 0 99 WITHSCORES",
            "ZRANGE k 0 +inf BYSCORE LIMIT 0 10",
            "ZRANGEBYSCORE k -inf +inf WITHSCORES LIMIT 100 20",
            "HSCAN k 0",
            "SSCAN k 17 MATCH a* COUNT 100",
            "LINDEX k 7",
            "SRANDMEMBER k",
        ] {
            assert!(asks_for_few(request), "{request}");
        }
        for request in [
            "LRANGE k 0 -1",
            "LRANGE k 0 128",
            "LRANGE k x y",
            "ZRANGE k 0 99 BYSCORE",
            "ZRANGE k 0 +inf BYSCORE LIMIT 0 -1",
            "ZRANGEBYSCORE k -inf +inf LIMIT 100000 1",
            "HSCAN k 0 COUNT 100000",
            "HGETALL k",
            "SRANDMEMBER k 1",
            "SMEMBERS k",
            "SUNION a b",
            "ZUNIONSTORE d 2 a b",
        ] {
            assert!(!asks_for_few(request), "{request}");
        }
    }
}
