//! Commands on sets, and what several sets have together.

use std::collections::HashSet;

use millpond::structured::{CollectionKind, Edit, Member};
use protocol::resp::commands::Set;

use super::arguments::{arg, integer, is};
use super::collections::{count_of, counted_keys, draws, signed_count};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};

const SET: CollectionKind = CollectionKind::Set;
/// Members that one command may look at in several sets: they are looked at while others wait.
pub(super) const MAX_LOOKS: usize = 1 << 20;
/// Bytes of members that one command may gather from several sets.
pub(super) const MAX_GATHERED_BYTES: usize = 16 << 20;

/// The operation that combines sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    Union,
    Inter,
    Diff,
}

/// The remaining work that a command may do.
pub(super) struct Budget {
    looks: usize,
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { looks: MAX_LOOKS, bytes: MAX_GATHERED_BYTES }
    }

    /// Charges for this many members and bytes.
    pub(super) fn spend(&mut self, members: usize, bytes: usize) -> Outcome {
        let looks = self.looks.checked_sub(members);
        let bytes = self.bytes.checked_sub(bytes);
        (self.looks, self.bytes) = looks.zip(bytes).ok_or(Failure::TOO_MANY_MEMBERS)?;
        Ok(())
    }

    pub(super) fn gather(&mut self, members: &[Member]) -> Outcome {
        self.spend(members.len(), members.iter().map(|member| member.key.len()).sum())
    }
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_set(&mut self, command: Set, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (key, member) = (arg(args, 1), arg(args, 2));
        let members = args.get(2..).unwrap_or_default();
        match command {
            Set::SAdd => return self.set_change(true, args, w),
            Set::SRem => return self.set_change(false, args, w),
            Set::SMembers => {
                let all = self.look(key, SET, |view| view.all())?.unwrap_or_default();
                w.set(all.len());
                all.iter().for_each(|member| w.bulk(&member.key));
            }
            Set::SIsMember => w.truth(self.look(key, SET, |view| view.contains(member))?.unwrap_or(false)),
            Set::SMIsMember => {
                let found = self.look(key, SET, |view| {
                    members.iter().map(|member| view.contains(member)).collect::<Result<Vec<_>, _>>()
                })?;
                w.array(members.len());
                found.unwrap_or_else(|| vec![false; members.len()]).into_iter().for_each(|is| w.truth(is));
            }
            Set::SCard => w.integer(self.look(key, SET, |view| view.len())?.unwrap_or(0) as i64),
            Set::SPop => return self.set_pop(args, w),
            Set::SRandMember => return self.set_draw(args, w),
            Set::SMove => return self.set_move(args, w),
            Set::SInter => return self.set_together(Together::Inter, args, w),
            Set::SUnion => return self.set_together(Together::Union, args, w),
            Set::SDiff => return self.set_together(Together::Diff, args, w),
            Set::SInterStore => return self.set_store_together(Together::Inter, args, w),
            Set::SUnionStore => return self.set_store_together(Together::Union, args, w),
            Set::SDiffStore => return self.set_store_together(Together::Diff, args, w),
            Set::SInterCard => return self.set_inter_card(args, w),
            Set::SScan => {
                return self.scan_collection(SET, args, w, |w, member| {
                    w.bulk(&member.key);
                    1
                });
            }
        }
        Ok(())
    }

    /// Adds members, or removes them.
    fn set_change(&mut self, adds: bool, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let unique: HashSet<&[u8]> = args.iter().skip(2).copied().collect();
        let changed = self.change(
            arg(args, 1),
            SET,
            |view| unique.iter().map(|name| Ok((*name, view.contains(name)?))).collect::<Result<Vec<_>, _>>(),
            |found| {
                let found = found.unwrap_or_else(|| unique.iter().map(|name| (*name, false)).collect());
                let differ = found.into_iter().filter(|(_, is_there)| *is_there != adds);
                let edit = |name| if adds { Edit::put(name, &[][..]) } else { Edit::remove(name) };
                let edits: Vec<Edit<'_>> = differ.map(|(name, _)| edit(name)).collect();
                let count = edits.len();
                Ok((edits, count))
            },
        )?;
        w.integer(changed as i64);
        Ok(())
    }

    fn set_pop(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        let draw = draws();
        match args.get(2..).unwrap_or_default() {
            [] => {
                let popped = self.change(
                    key,
                    SET,
                    |view| view.any(&draw),
                    |found| match found.flatten() {
                        Some(found) => Ok((vec![Edit::remove(found.key.clone())], Some(found))),
                        None => Ok((Vec::new(), None)),
                    },
                )?;
                match popped {
                    Some(popped) => w.bulk(&popped.key),
                    None => w.null(),
                }
            }
            [count] => {
                let count = count_of(count)?;
                let popped = self.change(
                    key,
                    SET,
                    |view| view.all(),
                    |all| {
                        let mut all = all.unwrap_or_default();
                        for at in 0..count.min(all.len()) {
                            let other = at + draw(all.len() - at);
                            all.swap(at, other);
                        }
                        all.truncate(count);
                        Ok((all.iter().map(|member| Edit::remove(member.key.clone())).collect(), all))
                    },
                )?;
                w.set(popped.len());
                popped.iter().for_each(|member| w.bulk(&member.key));
            }
            _ => return Err(Failure::SYNTAX),
        }
        Ok(())
    }

    fn set_draw(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let key = arg(args, 1);
        match args.get(2..).unwrap_or_default() {
            [] => {
                let draw = draws();
                match self.look(key, SET, |view| view.any(&draw))?.flatten() {
                    Some(found) => w.bulk(&found.key),
                    None => w.null(),
                }
            }
            [count] => w.keys(&self.draw(key, SET, signed_count(count)?)?.unwrap_or_default()),
            _ => return Err(Failure::SYNTAX),
        }
        Ok(())
    }

    /// Moves a member. The key space is closed.
    fn set_move(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (from, to, member) = (arg(args, 1), arg(args, 2), arg(args, 3));
        let Some(is_there) = self.look(from, SET, |view| view.contains(member))? else {
            w.truth(false);
            return Ok(());
        };
        let is_set = self.kind_of(to)?.is_none_or(|kind| kind == SET);
        if !is_set {
            return Err(Failure::WRONG_TYPE);
        }
        if is_there && from != to {
            // A set that has it already does not change, which those who watch it would be told.
            if !self.look(to, SET, |view| view.contains(member))?.unwrap_or(false) {
                self.change(to, SET, |_| Ok(()), |_| Ok((vec![Edit::put(member, &[][..])], ())))?;
            }
            self.change(from, SET, |_| Ok(()), |_| Ok((vec![Edit::remove(member)], ())))?;
        }
        w.truth(is_there);
        Ok(())
    }

    fn set_together(&mut self, how: Together, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let found = self.sets_together(how, args.get(1..).unwrap_or_default())?;
        w.set(found.len());
        found.iter().for_each(|member| w.bulk(member));
        Ok(())
    }

    fn set_store_together(&mut self, how: Together, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let found = self.sets_together(how, args.get(2..).unwrap_or_default())?;
        let edits = found.iter().map(|member| Edit::put(member, &[][..])).collect();
        self.store(arg(args, 1), SET, edits)?;
        w.integer(found.len() as i64);
        Ok(())
    }

    fn set_inter_card(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let too_many = Failure::new("ERR Number of keys can't be greater than number of args");
        let (keys, rest) = counted_keys(args, 1, too_many)?;
        let limit = limit(rest)?;
        let found = self.sets_together(Together::Inter, keys)?.len();
        w.integer(if limit == 0 { found } else { found.min(limit) } as i64);
        Ok(())
    }

    /// Returns the combination of several sets. The key space is closed.
    fn sets_together(&self, how: Together, keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, Failure> {
        let mut budget = Budget::new();
        // The types of all of them are looked at first, as in Redis.
        let mut sets = Vec::with_capacity(keys.len());
        for key in keys {
            sets.push((*key, self.look(key, SET, |view| view.len())?.unwrap_or(0)));
        }
        let first = match how {
            Together::Inter => sets.iter().copied().min_by_key(|(_, len)| *len),
            Together::Union | Together::Diff => sets.first().copied(),
        };
        let Some((first, len)) = first else { return Ok(Vec::new()) };
        if len == 0 && how != Together::Union {
            return Ok(Vec::new());
        }
        let mut found = self.gather(first, &mut budget)?;
        if how == Together::Union {
            let mut known: HashSet<Vec<u8>> = found.into_iter().collect();
            for (key, _) in sets.iter().skip(1) {
                known.extend(self.gather(key, &mut budget)?);
            }
            return Ok(known.into_iter().collect());
        }
        // A key that is named twice says nothing new.
        let mut seen = HashSet::new();
        let others = sets.iter().enumerate().filter(|(index, (key, _))| match how {
            Together::Diff => *index > 0 && seen.insert(*key),
            _ => *key != first && seen.insert(*key),
        });
        let others: Vec<&[u8]> = others.map(|(_, (key, _))| *key).collect();
        for key in others {
            budget.spend(found.len(), 0)?;
            let there = self.look(key, SET, |view| {
                found.iter().map(|member| view.contains(member)).collect::<Result<Vec<_>, _>>()
            })?;
            let there = there.unwrap_or_else(|| vec![false; found.len()]);
            let mut is_kept = there.into_iter().map(|is_there| is_there == (how == Together::Inter));
            found.retain(|_| is_kept.next().unwrap_or(false));
            if found.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    fn gather(&self, key: &[u8], budget: &mut Budget) -> Result<Vec<Vec<u8>>, Failure> {
        let all = self.look(key, SET, |view| view.all())?.unwrap_or_default();
        budget.gather(&all)?;
        Ok(all.into_iter().map(|member| member.key).collect())
    }
}

/// `LIMIT` of `SINTERCARD` and `ZINTERCARD`; 0 is none.
pub(super) fn limit(options: &[&[u8]]) -> Result<usize, Failure> {
    let mut limit = 0;
    let mut rest = options;
    while let [option, value, behind @ ..] = rest {
        rest = behind;
        if !is(option, "LIMIT") {
            return Err(Failure::SYNTAX);
        }
        const NEGATIVE: Failure = Failure::new("ERR LIMIT can't be negative");
        limit = usize::try_from(integer(value).map_err(|_| NEGATIVE)?).map_err(|_| NEGATIVE)?;
    }
    if rest.is_empty() { Ok(limit) } else { Err(Failure::SYNTAX) }
}
