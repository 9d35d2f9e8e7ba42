//! The storage of values: `OBJECT`, `MEMORY USAGE`.

use millpond::structured::Collection;
use protocol::resp::number;

use super::arguments::{arg, integer, is, subcommand};
use super::collections::encoding_of;
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};

/// Longest value that Redis keeps in one piece with its object.
const MAX_EMBEDDED_BYTES: usize = 44;
const NO_LFU: Failure = Failure::new(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between \
     policies at runtime LRU and LFU data will take some time to adjust.",
);

impl<'c> Commands<'_, 'c> {
    pub(super) fn object(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let known = subcommand(args);
        if known == "help" {
            w.help(args);
            return Ok(());
        }
        let Some(item) = self.peek(arg(args, 2)) else {
            w.null();
            return Ok(());
        };
        match known {
            "encoding" => {
                let encoding = self.of_item(arg(args, 2), |item| {
                    if !item.is_structured() {
                        return Some(Ok(encoding(item)));
                    }
                    let collection = Collection::of(&self.shared.cache, item)?;
                    encoding_of(&collection).transpose()
                });
                match encoding.transpose()? {
                    Some(encoding) => w.bulk(encoding.as_bytes()),
                    None => w.null(),
                }
            }
            "refcount" => w.integer(1),
            "freq" => return Err(NO_LFU),
            _ => {
                let now = self.shared.clock.unix_secs();
                w.integer(i64::from(now.saturating_sub(item.last_access().unwrap_or(now))));
                // From now on there is somebody who asks.
                let _ = self.keys().give_tag(item, || self.shared.next_cas());
            }
        }
        Ok(())
    }

    pub(super) fn memory(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        if subcommand(args) == "help" {
            w.help(args);
            return Ok(());
        }
        match args.get(3..).unwrap_or_default() {
            [] => {}
            [option, samples] if is(option, "SAMPLES") => {
                if integer(samples)? < 0 {
                    return Err(Failure::SYNTAX);
                }
            }
            _ => return Err(Failure::SYNTAX),
        }
        match self.peek(arg(args, 2)) {
            Some(item) => w.integer(i64::from(item.chunk_bytes())),
            None => w.null(),
        }
        Ok(())
    }
}

/// The encoding that Redis gives a value that is set.
fn encoding(value: &[u8]) -> &'static str {
    if number(value).is_some() {
        "int"
    } else if value.len() <= MAX_EMBEDDED_BYTES {
        "embstr"
    } else {
        "raw"
    }
}
