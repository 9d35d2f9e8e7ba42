//! Which units of split slabs are free.
//!
//! A plain value: the arena keeps it behind a lock of its own, which is taken when a class is given a run or gives one back.

use std::collections::{BTreeSet, HashMap};

use crate::ptr::SlabId;
use crate::run::{FREE_UNITS, TABLE_UNITS, UNITS};

const WORDS: usize = UNITS as usize / 64;

/// The free units of all split slabs.
#[derive(Default)]
pub(crate) struct Units {
    maps: HashMap<SlabId, Map>,
    /// Slabs with free units, by the length of the longest row of them; without those that are withdrawn.
    by_room: BTreeSet<(u32, SlabId)>,
    free: u64,
}

/// The units of one slab.
struct Map {
    /// A bit for each unit that is free.
    free: [u64; WORDS],
    count: u32,
    longest: u32,
    /// Whether no more runs are made of its units, as they are all to get free.
    is_withdrawn: bool,
}

impl Map {
    fn new() -> Self {
        let mut map = Self { free: [0; WORDS], count: 0, longest: 0, is_withdrawn: false };
        map.set(TABLE_UNITS, FREE_UNITS, true);
        map
    }

    fn is_free(&self, unit: u32) -> bool {
        self.free[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    fn set(&mut self, first: u32, units: u32, free: bool) {
        for unit in first..first + units {
            debug_assert_ne!(self.is_free(unit), free, "unit {unit}");
            self.free[unit as usize / 64] ^= 1 << (unit % 64);
        }
        self.count = if free { self.count + units } else { self.count - units };
        self.longest = self.gaps().map(|(_, units)| units).max().unwrap_or(0);
    }

    /// The rows of free units: the first and how many.
    fn gaps(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = TABLE_UNITS;
        std::iter::from_fn(move || {
            while next < UNITS && !self.is_free(next) {
                next += 1;
            }
            let first = next;
            while next < UNITS && self.is_free(next) {
                next += 1;
            }
            (next > first).then_some((first, next - first))
        })
    }

    /// The first unit of the shortest row that has room.
    fn best_gap(&self, units: u32) -> Option<u32> {
        let fitting = self.gaps().filter(|(_, len)| *len >= units);
        fitting.min_by_key(|(_, len)| *len).map(|(first, _)| first)
    }
}

impl Units {
    /// How many are free.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// How many slabs are split.
    pub(crate) fn slabs(&self) -> usize {
        self.maps.len()
    }

    /// Adds a slab whose units are free.
    pub(crate) fn add(&mut self, slab: SlabId) {
        let map = Map::new();
        self.by_room.insert((map.longest, slab));
        self.free += u64::from(map.count);
        self.maps.insert(slab, map);
    }

    /// Takes a row of free units from the slab in which it fits best, and says where it begins.
    pub(crate) fn take(&mut self, units: u32) -> Option<(SlabId, u32)> {
        let &(_, slab) = self.by_room.range((units, SlabId(0))..).next()?;
        let first = self.maps.get(&slab)?.best_gap(units)?;
        self.change(slab, first, units, false);
        Some((slab, first))
    }

    /// Takes units that are in use already.
    pub(crate) fn take_these(&mut self, slab: SlabId, first: u32, units: u32) {
        self.change(slab, first, units, false);
    }

    /// Gives units back. Returns whether all of the slab are free now: then the slab is not among them any more.
    pub(crate) fn give_back(&mut self, slab: SlabId, first: u32, units: u32) -> bool {
        self.change(slab, first, units, true);
        let is_empty = self.maps.get(&slab).is_some_and(|map| map.count == FREE_UNITS);
        if is_empty {
            self.forget(slab);
        }
        is_empty
    }

    /// Forgets a slab, all of whose units are free.
    fn forget(&mut self, slab: SlabId) {
        if let Some(map) = self.maps.remove(&slab) {
            self.by_room.remove(&(map.longest, slab));
            self.free -= u64::from(map.count);
        }
    }

    fn change(&mut self, slab: SlabId, first: u32, units: u32, free: bool) {
        let Some(map) = self.maps.get_mut(&slab) else {
            debug_assert!(false, "{slab:?} is split");
            return;
        };
        self.by_room.remove(&(map.longest, slab));
        map.set(first, units, free);
        if map.longest > 0 && !map.is_withdrawn {
            self.by_room.insert((map.longest, slab));
        }
        self.free = if free { self.free + u64::from(units) } else { self.free - u64::from(units) };
    }

    /// The slabs, those with most free units first; without those that are withdrawn.
    pub(crate) fn emptiest(&self) -> Vec<(SlabId, u32)> {
        let there = self.maps.iter().filter(|(_, map)| !map.is_withdrawn);
        let mut slabs: Vec<_> = there.map(|(slab, map)| (*slab, map.count)).collect();
        slabs.sort_unstable_by_key(|(slab, count)| (std::cmp::Reverse(*count), *slab));
        slabs
    }

    /// How many units of a slab that is withdrawn are free.
    pub(crate) fn free_of_withdrawn(&self, slab: SlabId) -> Option<u32> {
        self.maps.get(&slab).filter(|map| map.is_withdrawn).map(|map| map.count)
    }

    /// Has no more runs be made of a slab's units, or has them be made again.
    pub(crate) fn withdraw(&mut self, slab: SlabId, is_withdrawn: bool) {
        let Some(map) = self.maps.get_mut(&slab) else { return };
        map.is_withdrawn = is_withdrawn;
        if is_withdrawn {
            self.by_room.remove(&(map.longest, slab));
        } else if map.longest > 0 {
            self.by_room.insert((map.longest, slab));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_comes_from_the_slab_in_which_it_fits_best() {
        let mut units = Units::default();
        assert_eq!(units.take(1), None);
        units.add(SlabId(4));
        let whole = units.take(FREE_UNITS).expect("an empty slab has them all");
        assert_eq!((whole, units.take(1)), ((SlabId(4), TABLE_UNITS), None));
        units.add(SlabId(9));
        assert_eq!(units.take(1000), Some((SlabId(9), TABLE_UNITS)));
        units.add(SlabId(2));
        assert_eq!(units.take(21), Some((SlabId(9), TABLE_UNITS + 1000)), "where least is left");
        assert_eq!(units.take(1), Some((SlabId(2), TABLE_UNITS)));
        assert!(units.give_back(SlabId(4), TABLE_UNITS, FREE_UNITS), "nothing of it is in use");
        assert_eq!(units.slabs(), 2);
    }

    #[test]
    fn no_run_is_made_of_a_withdrawn_slab() {
        let mut units = Units::default();
        units.add(SlabId(1));
        let (_, first) = units.take(10).expect("free");
        units.withdraw(SlabId(1), true);
        assert_eq!(units.take(1), None);
        assert!(units.give_back(SlabId(1), first, 10));
        units.add(SlabId(1));
        units.withdraw(SlabId(1), true);
        units.withdraw(SlabId(1), false);
        assert!(units.take(1).is_some());
    }

    proptest! {
        #[test]
        fn runs_never_overlap(steps in prop::collection::vec((0_u32..4, 1_u32..1022, any::<prop::sample::Index>()), 1..200)) {
            let mut units = Units::default();
            let mut runs: Vec<(SlabId, u32, u32)> = Vec::new();
            let mut slabs = 0;
            for (step, len, which) in steps {
                if step == 0 && slabs < 6 {
                    units.add(SlabId(slabs));
                    slabs += 1;
                } else if step == 1 && !runs.is_empty() {
                    let (slab, first, len) = runs.swap_remove(which.index(runs.len()));
                    if units.give_back(slab, first, len) {
                        prop_assert!(runs.iter().all(|run| run.0 != slab));
                        units.add(slab);
                    }
                } else if let Some((slab, first)) = units.take(len % 64 + 1) {
                    let len = len % 64 + 1;
                    prop_assert!(first >= TABLE_UNITS && first + len <= UNITS);
                    let apart = |run: &(SlabId, u32, u32)| run.0 != slab || run.1 + run.2 <= first || first + len <= run.1;
                    prop_assert!(runs.iter().all(apart));
                    runs.push((slab, first, len));
                }
            }
            let used: u64 = runs.iter().map(|run| u64::from(run.2)).sum();
            prop_assert_eq!(units.free() + used, u64::from(slabs) * u64::from(FREE_UNITS));
        }
    }
}
