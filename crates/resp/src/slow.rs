//! The slow commands: those that others should not wait for.
//!
//! They are known before they are carried out, by the data that they would look at: the commands
//! that Redis calls slow, since they look at all of a collection, by the bytes of it; others by the
//! number of keys or entries that they name.

use protocol::resp::commands::{Cost, Spec};

use super::commands::Commands;
use super::transaction::for_each_request;

/// Bytes of its keys' items that a command may look at: some 50 µs.
const MOST_BYTES: usize = 8 << 10;
/// Arguments that it may have.
pub(super) const MOST_ARGS: usize = 128;
/// Commands of a transaction.
const MOST_QUEUED: usize = 32;
/// The largest product of the lengths of two values that are compared byte for byte in a turn.
const MOST_PAIRS: usize = 64 << 10;

impl Commands<'_, '_> {
    /// Returns whether the command may take longer than a turn should.
    pub(super) fn is_slow(&self, spec: &Spec, args: &[&[u8]]) -> bool {
        if spec.cost == Cost::Queued {
            return self.is_slow_transaction();
        }
        if args.len() > MOST_ARGS {
            return true;
        }
        match spec.cost {
            Cost::Pairs => self.sizes(spec, args).product::<usize>() > MOST_PAIRS,
            Cost::Collections(few) if few.holds(args) => false,
            Cost::Collections(_) | Cost::Strings => self.sizes(spec, args).sum::<usize>() > MOST_BYTES,
            Cost::Arguments | Cost::Queued | Cost::Report => false,
        }
    }

    fn is_slow_transaction(&self) -> bool {
        let Some(transaction) = &self.client.transaction else { return false };
        let mut is_slow = transaction.count > MOST_QUEUED;
        if !is_slow {
            for_each_request(&transaction.requests, |args| {
                let spec = args.first().and_then(|name| Spec::find(name));
                is_slow |= spec.is_some_and(|spec| spec.cost != Cost::Queued && self.is_slow(spec, args));
            });
        }
        is_slow
    }

    /// The sizes of the items that its keys have.
    fn sizes<'k>(&'k self, spec: &Spec, args: &'k [&'k [u8]]) -> impl Iterator<Item = usize> + 'k {
        let looks_at_strings = matches!(spec.cost, Cost::Strings | Cost::Pairs);
        spec.guarded_places(args).into_iter().filter_map(move |place| {
            let item = self.keys().peek(args.get(place)?)?;
            Some(if item.is_structured() || looks_at_strings { item.size_bytes() } else { 0 })
        })
    }
}
