//! Names, flushes and runs that the last process left, and what of them is unclaimed.
//!
//! The invariants are those of [`super`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::hash::key_hash;
use slab::{Run, SlabInfo, Words};

use crate::keyspace::{Flushes, Keyspace, LATEST};
use crate::pools::MAX_POOLS;

/// A seed of its own for the hashes of names, which outlive processes.
const NAME_SEED: u64 = 0x6d69_6c6c_706f_6e64;

/// The engine's words in shared memory: names of pools by number, then a word for each key space.
pub(crate) struct EngineWords {
    words: Arc<Words>,
    first_word: usize,
}

/// Returns the hash by which the words know a pool's name; zero means that there is none.
pub(crate) fn name_hash(name: &str) -> u64 {
    key_hash(NAME_SEED, name.as_bytes()).max(1)
}

/// The word of a key space's flushes, among the engine's.
pub(crate) fn flush_word(keyspace: u16) -> usize {
    MAX_POOLS + usize::from(keyspace)
}

impl EngineWords {
    pub(crate) fn new((words, first_word): (Arc<Words>, usize)) -> Self {
        Self { words, first_word }
    }

    pub(crate) fn note_name(&self, id: u16, name: &str) {
        self.words[self.first_word + usize::from(id)].store(name_hash(name), Ordering::Release);
    }

    /// Forgets the pool with this number, which has no slab any more.
    pub(crate) fn forget_name(&self, id: u16) {
        self.words[self.first_word + usize::from(id)].store(0, Ordering::Release);
    }

    pub(crate) fn keyspace(&self, id: u16) -> Keyspace {
        Keyspace::kept(id, Arc::clone(&self.words), self.word_of(id))
    }

    fn word_of(&self, keyspace: u16) -> usize {
        self.first_word + flush_word(keyspace)
    }

    /// Returns whether the word of a key space's flushes holds times that cannot be right: then
    /// nobody knows what was flushed. Forgets them.
    pub(super) fn take_damage(&self, keyspace: u16) -> bool {
        let Flushes { before, at } = self.flushes(keyspace);
        let damaged = before.max(at) > LATEST;
        if damaged {
            self.words[self.word_of(keyspace)].store(0, Ordering::Release);
        }
        damaged
    }

    /// Returns whether the word of a slab names a pool, and a key space that the pool may have.
    pub(super) fn is_plausible(&self, info: SlabInfo) -> bool {
        let has_name = |pool: usize| self.words[self.first_word + pool].load(Ordering::Acquire) != 0;
        usize::from(info.pool) < MAX_POOLS
            && (info.keyspace == 0 || info.keyspace == info.pool + 1)
            && has_name(usize::from(info.pool))
    }

    /// Returns the flushes of a key space, as the last process left them.
    pub(super) fn flushes(&self, keyspace: u16) -> Flushes {
        Flushes::of_word(self.words[self.word_of(keyspace)].load(Ordering::Acquire))
    }
}

/// The pools and slabs that the last process left and no pool has taken over yet.
#[derive(Default)]
pub(crate) struct Unclaimed {
    /// Numbers of pools by the hash of their names.
    ids: HashMap<u64, u16>,
    pub(super) runs: HashMap<u16, Vec<(Run, SlabInfo)>>,
}

impl Unclaimed {
    /// Records what the last process left, but for runs that no pool can have left: those are
    /// returned.
    pub(crate) fn new(kept: &EngineWords, found: Vec<(Run, SlabInfo)>) -> (Self, Vec<Run>) {
        let (mut unclaimed, mut damaged) = (Self::default(), Vec::new());
        let unknown: HashSet<u16> = (0..=MAX_POOLS as u16).filter(|id| kept.take_damage(*id)).collect();
        for (run, info) in found {
            if kept.is_plausible(info) && !unknown.contains(&info.keyspace) {
                unclaimed.runs.entry(info.pool).or_default().push((run, info));
            } else {
                damaged.push(run);
            }
        }
        for id in unclaimed.runs.keys() {
            let hash = kept.words[kept.first_word + usize::from(*id)].load(Ordering::Acquire);
            unclaimed.ids.insert(hash, *id);
        }
        (unclaimed, damaged)
    }

    /// Takes those runs out that are in a key space.
    pub(super) fn take_keyspace(&mut self, keyspace: u16) -> Vec<Run> {
        let runs = self.runs.values_mut();
        let taken = runs.flat_map(|runs| runs.extract_if(.., |(_, info)| info.keyspace == keyspace));
        let taken = taken.map(|(run, _)| run).collect();
        self.runs.retain(|_, runs| !runs.is_empty());
        taken
    }

    /// Takes one run out of the pool that left most.
    pub(super) fn take_run(&mut self) -> Option<Run> {
        let most = self.runs.values_mut().max_by_key(|runs| runs.len())?;
        let run = most.pop().map(|(run, _)| run);
        self.runs.retain(|_, runs| !runs.is_empty());
        run
    }

    /// The number that the pool of this name had, if it left slabs.
    pub(crate) fn id_of(&self, name: &str) -> Option<u16> {
        self.ids.get(&name_hash(name)).copied()
    }

    /// Returns whether slabs of the pool that had this number are unclaimed.
    pub(crate) fn reserves(&self, id: u16) -> bool {
        self.runs.contains_key(&id)
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.runs.values().flatten().map(|(run, info)| u64::from(run.chunks(*info))).sum()
    }

    /// Memory of all runs, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.values().flatten().map(|(run, _)| run.bytes()).sum()
    }
}

/// Counts of what was taken over: see [`crate::Cache::recovered`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Items that were in the cache again when their pools had been added, also those that have
    /// expired or were flushed and leave as such items do. With less memory than before, some are
    /// evicted as further pools are added, which is not taken off here.
    pub items: u64,
    /// Items that are not, because they, or what is chained to them, were being replaced or
    /// written, because their pool had chunks of more than 255 sizes, or because no class of it
    /// holds them any more.
    pub dropped: u64,
    /// Memory that the last process had in use and that was given up without a look at its items,
    /// in bytes: there is less memory now, or the files were cut short. Slabs that were damaged, or
    /// whose pool is not added again, are in none of the three counts.
    pub lost_bytes: u64,
}
