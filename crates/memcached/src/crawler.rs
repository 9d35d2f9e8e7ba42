//! `lru_crawler`: listing what is stored, and what memcached's crawler is told otherwise.
//!
//! memcached's crawler takes expired items out. Here the cache does that by itself, so that most of
//! these commands have nothing to change, and answer as if they had. A listing goes through the
//! items of the listener's pool while others change them, some in each turn of the connection.

use frontend::output::Output;
use frontend::turn::Next;
use millpond::{Items, ReadHandle, Step};
use protocol::memcached::{Reply, Tokens, WireError, reply};

use super::commands::Commands;
use super::stats::class_number;
use super::store::cas_of;

/// The most item memory that a walk may hold between two turns: the items that it has looked at
/// ahead, all of one slab.
const MAX_HELD_BYTES: usize = 4 << 20;
/// The highest number that a class can have.
const MAX_CLASS: u16 = 255;

const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
const SLEEP_TOO_LONG: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
const MAX_SLEEP_MICROS: u32 = 1_000_000;

/// The form of a list of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A line of facts for each.
    Facts,
    /// For each the `mg` that would get it.
    Gets,
}

/// A listing on its way.
pub(super) struct Dump<'c> {
    items: Items<'c>,
    /// The numbers of the classes that are wanted; none are all.
    classes: Vec<u16>,
    form: Form,
}

impl Dump<'_> {
    /// Item memory that cannot be evicted meanwhile, at most.
    pub(super) const fn held_bytes(&self) -> usize {
        MAX_HELD_BYTES
    }
}

impl<'c> Commands<'_, 'c> {
    /// Acts on `lru_crawler`. A listing is only begun.
    pub(super) fn crawler(
        &mut self,
        mut arguments: Tokens<'_>,
        output: &mut Output<ReadHandle<'c>>,
    ) -> Option<Dump<'c>> {
        let (order, argument, more) = (arguments.next(), arguments.next(), arguments.next());
        if more.is_some() {
            output.write(WireError::UnknownCommand.as_bytes());
            return None;
        }
        let answer = match (order, argument) {
            (Some(b"enable" | b"disable"), None) => Reply::Ok.as_bytes(),
            (Some(b"sleep"), Some(micros)) => match number(micros) {
                Some(micros) if micros > MAX_SLEEP_MICROS => SLEEP_TOO_LONG,
                Some(_) => Reply::Ok.as_bytes(),
                None => WireError::BadFormat.as_bytes(),
            },
            (Some(b"tocrawl"), Some(count)) => match number(count) {
                Some(_) => Reply::Ok.as_bytes(),
                None => WireError::BadFormat.as_bytes(),
            },
            (Some(b"crawl"), Some(classes)) => match parse_classes(classes, false) {
                Some(_) => {
                    // What the maintenance thread does is done for all tenants, and at its own pace
                    // where there are several.
                    if !self.shared.has_several_tenants() {
                        self.shared.maintenance.wake();
                    }
                    Reply::Ok.as_bytes()
                }
                None => BAD_CLASS,
            },
            (Some(order @ (b"metadump" | b"mgdump")), Some(classes)) => {
                let form = if order == b"mgdump" { Form::Gets } else { Form::Facts };
                match self.begin_dump(classes, form) {
                    Some(dump) => return Some(dump),
                    None => BAD_CLASS,
                }
            }
            _ => WireError::UnknownCommand.as_bytes(),
        };
        output.write(answer);
        None
    }

    fn begin_dump(&self, classes: &[u8], form: Form) -> Option<Dump<'c>> {
        let classes = parse_classes(classes, true)?;
        let items = self.shared.cache.items(self.pool.id).ok()?;
        Some(Dump { items, classes, form })
    }

    /// Lists up to `max_items` more, until the output has `max_output_bytes`. Returns how many
    /// items were looked at, and what is needed to go on; nothing where the listing is complete.
    pub(super) fn continue_dump(
        &mut self,
        dump: &mut Dump<'c>,
        max_items: usize,
        output: &mut Output<ReadHandle<'c>>,
    ) -> (usize, Option<Next>) {
        let mut chunks = self.settings.max_listed_chunks;
        for looked_at in 0..max_items {
            if output.len() >= self.settings.max_output_bytes {
                return (looked_at, Some(Next::AwaitSend));
            }
            let item = match dump.items.step(&mut chunks) {
                Step::Item(item) => item,
                Step::Later => return (looked_at, Some(Next::Again)),
                Step::End => {
                    let end = match dump.form {
                        Form::Facts => Reply::End.as_bytes(),
                        Form::Gets => b"EN\r\n",
                    };
                    output.write(end);
                    return (looked_at, None);
                }
            };
            let class = class_number(item.class_number());
            if dump.classes.is_empty() || dump.classes.contains(&class) {
                output.compose(|out| match dump.form {
                    Form::Facts => reply::dump_facts(out, &self.dump_facts(&item, class)),
                    Form::Gets => reply::dump_get(out, item.key()),
                });
            }
        }
        (max_items, Some(Next::Again))
    }

    fn dump_facts<'a>(&self, item: &'a ReadHandle<'_>, class: u16) -> reply::DumpFacts<'a> {
        reply::DumpFacts {
            key: item.key(),
            expires_at: item.expires_at(),
            last_access: item.last_access().unwrap_or(self.now_secs),
            cas: cas_of(item).unwrap_or(0),
            fetched: item.was_fetched(),
            class: u32::from(class),
            size_bytes: item.size_bytes() as u64,
        }
    }
}

/// `all`, `hash` for a listing, or class numbers with commas between them. Nothing where it is
/// neither.
fn parse_classes(text: &[u8], listing: bool) -> Option<Vec<u16>> {
    if text == b"all" || (listing && text == b"hash") {
        return Some(Vec::new());
    }
    text.split(|byte| *byte == b',')
        .map(|text| {
            let number = u16::try_from(number(text)?).ok()?;
            (1..=MAX_CLASS).contains(&number).then_some(number)
        })
        .collect()
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_numbers_from_one() {
        assert_eq!(parse_classes(b"1,5,255", false), Some(vec![1, 5, 255]));
        assert_eq!(parse_classes(b"all", false), Some(Vec::new()));
        assert_eq!(parse_classes(b"hash", true), Some(Vec::new()));
        for bad in ["0", "256", "1,x", "", "1,", "hash", "-1", "99999"] {
            assert_eq!(parse_classes(bad.as_bytes(), false), None, "{bad}");
        }
    }
}
