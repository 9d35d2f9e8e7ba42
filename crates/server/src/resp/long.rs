//! Which commands take long: those that others should not wait for.
//!
//! Known before they are carried out, by what they would look at: the commands that Redis calls
//! slow, since they look at all of a collection, by the bytes of it; others by how many keys or
//! entries they name.

use protocol::resp::number;

use super::arguments::{arg, is};
use super::commands::Commands;
use super::table::{Command, Spec};
use super::transaction::for_each_request;

/// Bytes of its keys' items that a command may look at: some 50 µs.
const MOST_BYTES: usize = 8 << 10;
/// Arguments that it may have.
pub(super) const MOST_ARGS: usize = 128;
/// Commands of a transaction.
const MOST_QUEUED: usize = 32;
/// Entries that are few, wherever they are in a collection.
const FEW_ENTRIES: i64 = 128;
/// What the lengths of two values may come to, multiplied, which are compared byte for byte.
const MOST_PAIRS: usize = 64 << 10;

impl Commands<'_, '_> {
    /// Whether carrying it out may take longer than a turn should.
    pub(super) fn is_long(&self, spec: &Spec, args: &[&[u8]]) -> bool {
        match spec.command {
            Command::Exec => self.is_long_transaction(),
            _ if args.len() > MOST_ARGS => true,
            Command::Lcs => self.sizes(spec, args).product::<usize>() > MOST_PAIRS,
            _ if looks_at_all(spec) && !asks_for_little(spec.command, args) => {
                self.sizes(spec, args).sum::<usize>() > MOST_BYTES
            }
            _ => false,
        }
    }

    fn is_long_transaction(&self) -> bool {
        let Some(transaction) = &self.client.transaction else { return false };
        let mut is_long = transaction.count > MOST_QUEUED;
        if !is_long {
            for_each_request(&transaction.requests, |args| {
                let spec = args.first().and_then(|name| Spec::find(name));
                is_long |= spec.is_some_and(|spec| spec.command != Command::Exec && self.is_long(spec, args));
            });
        }
        is_long
    }

    /// The sizes of the items that its keys have.
    fn sizes<'k>(&'k self, spec: &Spec, args: &'k [&'k [u8]]) -> impl Iterator<Item = usize> + 'k {
        let looks_at_strings = matches!(spec.group.0, "bitmap" | "string");
        spec.guarded_places(args).into_iter().filter_map(move |place| {
            let item = self.keys().peek(args.get(place)?)?;
            Some(if item.is_structured() || looks_at_strings { item.size_bytes() } else { 0 })
        })
    }
}

/// Whether it may look at all of what its keys have.
fn looks_at_all(spec: &Spec) -> bool {
    let is = |wanted: &str| spec.categories.split(' ').any(|category| category == wanted);
    let is_about_contents = matches!(spec.group.0, "bitmap" | "hash" | "list" | "set" | "sorted-set")
        || matches!(spec.command, Command::Sort | Command::SortRo);
    is("slow") && is_about_contents
}

/// Whether it says itself that it is about a few entries, which are found without looking at the
/// others.
fn asks_for_little(command: Command, args: &[&[u8]]) -> bool {
    use Command as C;
    let option = |name: &str| args.iter().position(|argument| is(argument, name));
    let is_few = |at: usize| number(arg(args, at)).is_some_and(|count| (0..=FEW_ENTRIES).contains(&count));
    let has_few = |name: &str, behind: usize| option(name).is_some_and(|at| is_few(at + behind));
    match command {
        C::LIndex | C::LSet => true,
        C::HRandField | C::SRandMember | C::ZRandMember => args.len() == 2,
        C::HScan | C::SScan | C::ZScan => option("COUNT").is_none() || has_few("COUNT", 1),
        C::ZRangeByScore | C::ZRevRangeByScore | C::ZRangeByLex | C::ZRevRangeByLex => {
            has_few("LIMIT", 1) && has_few("LIMIT", 2)
        }
        C::ZRange if option("BYSCORE").or(option("BYLEX")).is_some() => {
            has_few("LIMIT", 1) && has_few("LIMIT", 2)
        }
        C::LRange | C::ZRange | C::ZRevRange => {
            let ends = number(arg(args, 2)).zip(number(arg(args, 3)));
            ends.is_some_and(|(start, end)| {
                (start < 0) == (end < 0) && end.saturating_sub(start) < FEW_ENTRIES
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_few_entries_is_known() {
        let little = |request: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let spec = Spec::find(args[0]).expect("a command");
            assert!(looks_at_all(spec), "{request}");
            asks_for_little(spec.command, &args)
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
            assert!(little(request), "{request}");
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
            assert!(!little(request), "{request}");
        }
    }
}
