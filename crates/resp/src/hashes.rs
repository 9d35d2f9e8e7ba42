//! Commands on hashes.

use std::collections::HashSet;

use millpond::structured::{CollectionKind, Edit};
use protocol::resp::commands::Hash;
use protocol::resp::{Version, number, reply};

use super::arguments::{arg, integer, is};
use super::collections::{MAX_REPLY_BYTES, draws, signed_count};
use super::commands::Commands;
use super::numbers::{add, float};
use super::writer::{Failure, Outcome, Writer};

const HASH: CollectionKind = CollectionKind::Hash;

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_hash(&mut self, command: Hash, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (key, field) = (arg(args, 1), arg(args, 2));
        match command {
            Hash::HSet => {
                let created = self.hash_set("hset", args)?;
                w.integer(created as i64);
            }
            Hash::HMSet => {
                self.hash_set("hmset", args)?;
                w.ok();
            }
            Hash::HSetNx => {
                let is_set = self.change(
                    key,
                    HASH,
                    |view| view.contains(field),
                    |found| match found {
                        Some(true) => Ok((Vec::new(), false)),
                        _ => Ok((vec![Edit::put(field, arg(args, 3))], true)),
                    },
                )?;
                w.truth(is_set);
            }
            Hash::HGet => match self.look(key, HASH, |view| view.get(field))?.flatten() {
                Some(found) => w.bulk(&found.value),
                None => w.null(),
            },
            Hash::HMGet => return self.hash_get_many(args, w),
            Hash::HDel => return self.hash_remove(args, w),
            Hash::HExists => w.truth(self.look(key, HASH, |view| view.contains(field))?.unwrap_or(false)),
            Hash::HLen => w.integer(self.look(key, HASH, |view| view.len())?.unwrap_or(0) as i64),
            Hash::HStrLen => {
                let len = self.look(key, HASH, |view| view.value_len(field))?.flatten();
                w.integer(len.unwrap_or(0) as i64);
            }
            Hash::HKeys | Hash::HVals | Hash::HGetAll => {
                let all = self.look(key, HASH, |view| view.all())?.unwrap_or_default();
                if command == Hash::HGetAll {
                    w.map(all.len())
                } else {
                    w.array(all.len())
                }
                for found in &all {
                    if command != Hash::HVals {
                        w.bulk(&found.key);
                    }
                    if command != Hash::HKeys {
                        w.bulk(&found.value);
                    }
                }
            }
            Hash::HIncrBy => return self.hash_add(args, w),
            Hash::HIncrByFloat => return self.hash_add_fraction(args, w),
            Hash::HRandField => return self.hash_draw(args, w),
            Hash::HScan => {
                return self.scan_collection(HASH, args, w, |w, member| {
                    w.bulk(&member.key);
                    w.bulk(&member.value);
                    2
                });
            }
        }
        Ok(())
    }

    fn hash_remove(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let fields: HashSet<&[u8]> = args.iter().skip(2).copied().collect();
        let removed = self.change(
            arg(args, 1),
            HASH,
            |view| {
                fields.iter().map(|field| Ok((*field, view.contains(field)?))).collect::<Result<Vec<_>, _>>()
            },
            |found| {
                let found = found.unwrap_or_default().into_iter().filter(|(_, is_there)| *is_there);
                let edits: Vec<_> = found.map(|(field, _)| Edit::remove(field)).collect();
                let count = edits.len();
                Ok((edits, count))
            },
        )?;
        w.integer(removed as i64);
        Ok(())
    }

    /// Sets fields, and returns the number of those that are new.
    fn hash_set(&mut self, name: &str, args: &[&[u8]]) -> Result<usize, Failure> {
        let (pairs, []) = args.get(2..).unwrap_or_default().as_chunks::<2>() else {
            return Err(Failure::wrong_number(name));
        };
        self.change(
            arg(args, 1),
            HASH,
            |view| pairs.iter().map(|[field, _]| view.contains(field)).collect::<Result<Vec<_>, _>>(),
            |found| {
                let found = found.unwrap_or_else(|| vec![false; pairs.len()]);
                let new: HashSet<&[u8]> = pairs
                    .iter()
                    .zip(found)
                    .filter(|(_, is_there)| !is_there)
                    .map(|([field, _], _)| *field)
                    .collect();
                Ok((pairs.iter().map(|[field, value]| Edit::put(*field, *value)).collect(), new.len()))
            },
        )
    }

    fn hash_get_many(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let fields = args.get(2..).unwrap_or_default();
        let found = self.look(arg(args, 1), HASH, |view| {
            // One field may be asked for many times.
            let add = |sum, field: &&[u8]| Ok(sum + view.value_len(field)?.unwrap_or(0));
            if fields.iter().try_fold(0, add)? > MAX_REPLY_BYTES {
                return Ok(None);
            }
            fields.iter().map(|field| view.get(field)).collect::<Result<Vec<_>, _>>().map(Some)
        })?;
        let found = found.map(|found| found.ok_or(Failure::REPLY_TOO_LONG)).transpose()?;
        let found = found.unwrap_or_else(|| vec![None; fields.len()]);
        w.array(found.len());
        found.iter().for_each(|found| match found {
            Some(found) => w.bulk(&found.value),
            None => w.null(),
        });
        Ok(())
    }

    fn hash_add(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (field, by) = (arg(args, 2), integer(arg(args, 3))?);
        let sum = self.change(
            arg(args, 1),
            HASH,
            |view| view.get(field),
            |found| {
                let before = match found.flatten() {
                    Some(found) => {
                        number(&found.value).ok_or(Failure::new("ERR hash value is not an integer"))?
                    }
                    None => 0,
                };
                let sum = before
                    .checked_add(by)
                    .ok_or(Failure::new("ERR increment or decrement would overflow"))?;
                let mut digits = Vec::new();
                reply::decimal(&mut digits, sum);
                Ok((vec![Edit::put(field, digits)], sum))
            },
        )?;
        w.integer(sum);
        Ok(())
    }

    fn hash_add_fraction(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (field, by) = (arg(args, 2), arg(args, 3));
        let parsed = float(by).ok_or(Failure::NOT_A_FLOAT)?;
        if parsed.is_infinite() {
            return Err(Failure::new("ERR value is NaN or Infinity"));
        }
        let sum = self.change(
            arg(args, 1),
            HASH,
            |view| view.get(field),
            |found| {
                let before = found.flatten().map_or_else(|| b"0".to_vec(), |found| found.value);
                if float(&before).is_none() {
                    return Err(Failure::new("ERR hash value is not a float"));
                }
                let sum =
                    add(&before, by).ok_or(Failure::new("ERR increment would produce NaN or Infinity"))?;
                Ok((vec![Edit::put(field, sum.clone().into_bytes())], sum))
            },
        )?;
        w.bulk(sum.as_bytes());
        Ok(())
    }

    fn hash_draw(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        let Some(count) = args.get(2) else {
            let draw = draws();
            match self.look(key, HASH, |view| view.any(&draw))?.flatten() {
                Some(found) => w.bulk(&found.key),
                None => w.null(),
            }
            return Ok(());
        };
        let (count, with_values) = drawn(count, args.get(3..).unwrap_or_default(), "WITHVALUES")?;
        let found = self.draw(key, HASH, count)?.unwrap_or_default();
        let nests = with_values && w.version == Version::Resp3;
        w.array(if with_values && !nests { found.len() * 2 } else { found.len() });
        for found in &found {
            if nests {
                w.array(2);
            }
            w.bulk(&found.key);
            if with_values {
                w.bulk(&found.value);
            }
        }
        Ok(())
    }
}

/// The count of `HRANDFIELD` and `ZRANDMEMBER`, and whether what belongs to the names is wanted,
/// too.
pub(super) fn drawn(count: &[u8], options: &[&[u8]], with: &str) -> Result<(i64, bool), Failure> {
    let count = signed_count(count)?;
    let with_values = match options {
        [] => false,
        [option] if is(option, with) => true,
        _ => return Err(Failure::SYNTAX),
    };
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(Failure::new("ERR value is out of range"));
    }
    Ok((count, with_values))
}
