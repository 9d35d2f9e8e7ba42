//! The free units of split slabs, and those of them that have memory.
//!
//! A free unit without memory is *bare*: the system holds nothing for it, and nobody is charged for
//! it. A slab that is opened while there is little memory left begins with bare units, and free
//! units become bare when their memory is wanted elsewhere.
//!
//! A plain value: the arena keeps it behind a lock of its own, which is taken when a class is given
//! a run or gives one back.

use std::collections::{BTreeSet, HashMap};

use crate::ptr::SlabId;
use crate::run::{FREE_UNITS, TABLE_UNITS, UNITS};

const WORDS: usize = UNITS as usize / 64;

/// The free units of all split slabs.
#[derive(Default)]
pub(crate) struct Units {
    maps: HashMap<SlabId, Map>,
    /// Slabs with free units that have memory, by the length of the longest row of them; without
    /// those that are withdrawn.
    by_room: BTreeSet<(u32, SlabId)>,
    /// Slabs with bare units.
    with_bare: BTreeSet<SlabId>,
    /// Free units that have memory, and bare ones.
    free: u64,
    bare: u64,
}

/// Neighbouring units of a slab: the first, and how many.
pub(crate) type Row = (u32, u32);

/// A bit for each unit of a slab.
type Bits = [u64; WORDS];

/// The units of one slab.
struct Map {
    /// Those that are free and have memory.
    free: Bits,
    /// Those that are bare.
    bare: Bits,
    count: u32,
    bare_count: u32,
    /// Of the rows of those that are free and have memory.
    longest: u32,
    /// True if no more runs are made of its units, as all of them are to become free.
    is_withdrawn: bool,
}

fn has(bits: &Bits, unit: u32) -> bool {
    bits[unit as usize / 64] >> (unit % 64) & 1 == 1
}

/// Flips `units` bits from `first` on, all of which must have the same value.
fn flip(bits: &mut Bits, first: u32, units: u32) {
    let (mut at, end) = (first, first + units);
    while at < end {
        let count = (64 - at % 64).min(end - at);
        bits[at as usize / 64] ^= (u64::MAX >> (64 - count)) << (at % 64);
        at += count;
    }
}

/// The first unit from `from` on that is among the bits, or is not if `flipped` is all ones;
/// `UNITS` if there is none.
fn next(bits: &Bits, from: u32, flipped: u64) -> u32 {
    let mut at = from;
    while at < UNITS {
        let word = (bits[at as usize / 64] ^ flipped) >> (at % 64);
        if word != 0 {
            return at + word.trailing_zeros();
        }
        at = at / 64 * 64 + 64;
    }
    UNITS
}

/// The rows of units that are among the bits: the first and how many.
fn rows(bits: &Bits) -> impl Iterator<Item = Row> + '_ {
    let mut end = TABLE_UNITS;
    std::iter::from_fn(move || {
        let first = next(bits, end, 0);
        end = next(bits, first, u64::MAX);
        (end > first).then_some((first, end - first))
    })
}

/// The first unit of the shortest row that has room.
fn best_row(bits: &Bits, units: u32) -> Option<u32> {
    let fitting = rows(bits).filter(|(_, len)| *len >= units);
    fitting.min_by_key(|(_, len)| *len).map(|(first, _)| first)
}

impl Map {
    /// One whose units are free, with memory or `bare`.
    fn new(bare: bool) -> Self {
        let none = [0; WORDS];
        let mut map =
            Self { free: none, bare: none, count: 0, bare_count: 0, longest: 0, is_withdrawn: false };
        if bare {
            flip(&mut map.bare, TABLE_UNITS, FREE_UNITS);
            map.bare_count = FREE_UNITS;
        } else {
            map.set(TABLE_UNITS, FREE_UNITS, true);
        }
        map
    }

    fn set(&mut self, first: u32, units: u32, free: bool) {
        debug_assert!((first..first + units).all(|unit| has(&self.free, unit) != free));
        flip(&mut self.free, first, units);
        self.count = if free { self.count + units } else { self.count - units };
        self.longest = rows(&self.free).map(|(_, units)| units).max().unwrap_or(0);
    }

    /// The bits of all free units, bare or not.
    fn vacant(&self) -> Bits {
        std::array::from_fn(|word| self.free[word] | self.bare[word])
    }

    fn is_empty(&self) -> bool {
        self.count + self.bare_count == FREE_UNITS
    }
}

impl Units {
    /// Returns the number of units that are free and have memory.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Returns the number of bare units.
    pub(crate) fn bare(&self) -> u64 {
        self.bare
    }

    /// Returns the number of split slabs.
    pub(crate) fn slabs(&self) -> usize {
        self.maps.len()
    }

    /// Adds a slab whose units are free and have memory.
    pub(crate) fn add(&mut self, slab: SlabId) {
        let map = Map::new(false);
        self.by_room.insert((map.longest, slab));
        self.free += u64::from(map.count);
        self.maps.insert(slab, map);
    }

    /// Adds a slab whose units are bare.
    pub(crate) fn add_bare(&mut self, slab: SlabId) {
        let map = Map::new(true);
        self.with_bare.insert(slab);
        self.bare += u64::from(map.bare_count);
        self.maps.insert(slab, map);
    }

    /// Takes a row of free units that have memory from the slab in which it fits best, and says
    /// where it begins.
    pub(crate) fn take(&mut self, units: u32) -> Option<(SlabId, u32)> {
        let &(_, slab) = self.by_room.range((units, SlabId(0))..).next()?;
        let first = best_row(&self.maps.get(&slab)?.free, units)?;
        self.change(slab, first, units, false);
        Some((slab, first))
    }

    /// Takes a row of free units of a slab that has bare ones, and says where it begins; and which
    /// of them are bare.
    pub(crate) fn take_with_bare(&mut self, units: u32) -> Option<(SlabId, u32, Vec<Row>)> {
        let in_slab = |slab: &SlabId| {
            let map = self.maps.get(slab).filter(|map| !map.is_withdrawn)?;
            best_row(&map.vacant(), units).map(|first| (*slab, first))
        };
        let (slab, first) = self.with_bare.iter().find_map(in_slab)?;
        let map = self.maps.get(&slab)?;
        let of_row = |rows: &mut dyn Iterator<Item = Row>| -> Vec<Row> {
            let cut = |(from, len): Row| (from.max(first), (from + len).min(first + units));
            rows.map(cut).filter(|(from, to)| from < to).map(|(from, to)| (from, to - from)).collect()
        };
        let (bare, free) = (of_row(&mut rows(&map.bare)), of_row(&mut rows(&map.free)));
        free.into_iter().for_each(|(first, len)| self.change(slab, first, len, false));
        bare.iter().for_each(|(first, len)| self.change_bare(slab, *first, *len, false));
        Some((slab, first, bare))
    }

    /// Takes free units that have memory, up to `most`, so that they can be made bare: rows of one
    /// slab. The caller has each become bare ([`Self::give_bare`]) or gives it back.
    pub(crate) fn take_to_bare(&mut self, most: u32) -> Option<(SlabId, Vec<Row>)> {
        let emptiest = self.by_room.iter().filter_map(|(_, slab)| Some((self.maps.get(slab)?.count, *slab)));
        let (_, slab) = emptiest.max()?;
        let mut left = most;
        let mut taken = Vec::new();
        // The last ones first, so that what is handed out next has memory.
        let mut all: Vec<_> = rows(&self.maps.get(&slab)?.free).collect();
        while let Some((first, len)) = all.pop().filter(|_| left > 0) {
            let units = len.min(left);
            taken.push((first + len - units, units));
            left -= units;
        }
        taken.iter().for_each(|(first, units)| self.change(slab, *first, *units, false));
        Some((slab, taken))
    }

    /// Gives units back that have no memory any more.
    pub(crate) fn give_bare(&mut self, slab: SlabId, first: u32, units: u32) {
        self.change_bare(slab, first, units, true);
    }

    fn change_bare(&mut self, slab: SlabId, first: u32, units: u32, bare: bool) {
        let Some(map) = self.maps.get_mut(&slab) else {
            debug_assert!(false, "{slab:?} is split");
            return;
        };
        debug_assert!((first..first + units).all(|unit| has(&map.bare, unit) != bare));
        flip(&mut map.bare, first, units);
        if bare {
            map.bare_count += units;
            self.bare += u64::from(units);
            self.with_bare.insert(slab);
        } else {
            map.bare_count -= units;
            self.bare -= u64::from(units);
            if map.bare_count == 0 {
                self.with_bare.remove(&slab);
            }
        }
    }

    /// Returns the number of bare units of a slab.
    pub(crate) fn bare_of(&self, slab: SlabId) -> u32 {
        self.maps.get(&slab).map_or(0, |map| map.bare_count)
    }

    /// Takes units that are in use already.
    pub(crate) fn take_these(&mut self, slab: SlabId, first: u32, units: u32) {
        self.change(slab, first, units, false);
    }

    /// Takes bare units that are in use already, and have memory.
    pub(crate) fn take_bare(&mut self, slab: SlabId, first: u32, units: u32) {
        self.change_bare(slab, first, units, false);
    }

    /// Gives units back that have memory, of a slab of which others are in the caller's hand.
    pub(crate) fn give_free(&mut self, slab: SlabId, first: u32, units: u32) {
        self.change(slab, first, units, true);
    }

    /// Gives a row back that [`Self::take_with_bare`] gave, of which these are bare.
    pub(crate) fn give_back_with_bare(&mut self, slab: SlabId, first: u32, units: u32, bare: &[Row]) {
        let mut next = first;
        for (from, len) in bare.iter().copied().chain([(first + units, 0)]) {
            if from > next {
                self.change(slab, next, from - next, true);
            }
            if len > 0 {
                self.change_bare(slab, from, len, true);
            }
            next = from + len;
        }
    }

    /// Gives units back that have memory. Says of how many the slab had memory if all of them are
    /// free now: then it is not among them any more.
    pub(crate) fn give_back(&mut self, slab: SlabId, first: u32, units: u32) -> Option<u32> {
        self.change(slab, first, units, true);
        self.maps.get(&slab).is_some_and(Map::is_empty).then(|| self.forget(slab))
    }

    /// Forgets a slab, all of whose units are free. Says how many of them had memory.
    pub(crate) fn forget(&mut self, slab: SlabId) -> u32 {
        let Some(map) = self.maps.remove(&slab) else { return 0 };
        self.by_room.remove(&(map.longest, slab));
        self.with_bare.remove(&slab);
        self.free -= u64::from(map.count);
        self.bare -= u64::from(map.bare_count);
        map.count
    }

    /// Returns whether all units of a slab are free.
    pub(crate) fn is_empty(&self, slab: SlabId) -> bool {
        self.maps.get(&slab).is_some_and(Map::is_empty)
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

    /// The slabs, those with fewest units in use first, and how many of each are free and have
    /// memory, and are in use; without those that are withdrawn.
    pub(crate) fn emptiest(&self) -> Vec<(SlabId, u32, u32)> {
        let there = self.maps.iter().filter(|(_, map)| !map.is_withdrawn);
        let in_use = |map: &Map| FREE_UNITS - map.count - map.bare_count;
        let mut slabs: Vec<_> = there.map(|(slab, map)| (*slab, map.count, in_use(map))).collect();
        slabs.sort_unstable_by_key(|(slab, _, in_use)| (*in_use, *slab));
        slabs
    }

    /// Returns the numbers of free units, with memory and bare, of a slab that is withdrawn.
    pub(crate) fn free_of_withdrawn(&self, slab: SlabId) -> Option<(u32, u32)> {
        self.maps.get(&slab).filter(|map| map.is_withdrawn).map(|map| (map.count, map.bare_count))
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
    use base::rng::{RngExt, seeded};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_those_that_are_found_bit_by_bit() {
        let mut rng = seeded(3);
        for round in 0..2_000 {
            let mut bits: Bits = [0; WORDS];
            for _ in 0..rng.random_range(0..20) {
                let first = rng.random_range(TABLE_UNITS..UNITS);
                let most = 1 << rng.random_range(0..10);
                let units = rng.random_range(1..=(UNITS - first).min(most));
                let before = bits;
                flip(&mut bits, first, units);
                let is_flipped = |unit| has(&bits, unit) != has(&before, unit);
                assert!((0..UNITS).all(|unit| is_flipped(unit) == (first..first + units).contains(&unit)));
            }
            let mut slow: Vec<Row> = Vec::new();
            for unit in (TABLE_UNITS..UNITS).filter(|unit| has(&bits, *unit)) {
                match slow.last_mut() {
                    Some((first, len)) if *first + *len == unit => *len += 1,
                    _ => slow.push((unit, 1)),
                }
            }
            assert_eq!(rows(&bits).collect::<Vec<_>>(), slow, "round {round}");
        }
    }

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
        assert_eq!(
            units.give_back(SlabId(4), TABLE_UNITS, FREE_UNITS),
            Some(FREE_UNITS),
            "nothing of it is in use"
        );
        assert_eq!(units.slabs(), 2);
    }

    #[test]
    fn no_run_is_made_of_a_withdrawn_slab() {
        let mut units = Units::default();
        units.add(SlabId(1));
        let (_, first) = units.take(10).expect("free");
        units.withdraw(SlabId(1), true);
        assert_eq!(units.take(1), None);
        assert_eq!(units.give_back(SlabId(1), first, 10), Some(FREE_UNITS));
        units.add(SlabId(1));
        units.withdraw(SlabId(1), true);
        units.withdraw(SlabId(1), false);
        assert!(units.take(1).is_some());
    }

    proptest! {
        #[test]
        fn runs_never_overlap(steps in prop::collection::vec((0_u32..6, 1_u32..1022, any::<prop::sample::Index>()), 1..200)) {
            let mut units = Units::default();
            let mut runs: Vec<(SlabId, u32, u32)> = Vec::new();
            let mut slabs = 0;
            for (step, len, which) in steps {
                let len = len % 64 + 1;
                let taken = match step {
                    0 if slabs < 6 => {
                        if which.index(2) == 0 { units.add(SlabId(slabs)) } else { units.add_bare(SlabId(slabs)) }
                        slabs += 1;
                        None
                    }
                    1 if !runs.is_empty() => {
                        let (slab, first, len) = runs.swap_remove(which.index(runs.len()));
                        if units.give_back(slab, first, len).is_some() {
                            prop_assert!(runs.iter().all(|run| run.0 != slab));
                            units.add(slab);
                        }
                        None
                    }
                    2 => {
                        let before = (units.free(), units.bare());
                        if let Some((slab, rows)) = units.take_to_bare(len) {
                            let taken: u32 = rows.iter().map(|(_, units)| units).sum();
                            prop_assert!(taken > 0 && taken <= len);
                            rows.into_iter().for_each(|(first, units_)| units.give_bare(slab, first, units_));
                            let after = (before.0 - u64::from(taken), before.1 + u64::from(taken));
                            prop_assert_eq!((units.free(), units.bare()), after);
                        }
                        None
                    }
                    3 => {
                        let before = units.bare();
                        let taken = units.take_with_bare(len);
                        let bare = taken.iter().flat_map(|(.., bare)| bare).map(|(_, len)| u64::from(*len)).sum::<u64>();
                        prop_assert_eq!(before - units.bare(), bare);
                        if let (Some((slab, first, bare)), 0) = (&taken, which.index(4)) {
                            units.give_back_with_bare(*slab, *first, len, bare);
                            prop_assert_eq!(units.bare(), before);
                            None
                        } else {
                            taken.map(|(slab, first, _)| (slab, first))
                        }
                    }
                    _ => units.take(len),
                };
                if let Some((slab, first)) = taken {
                    prop_assert!(first >= TABLE_UNITS && first + len <= UNITS);
                    let apart = |run: &(SlabId, u32, u32)| run.0 != slab || run.1 + run.2 <= first || first + len <= run.1;
                    prop_assert!(runs.iter().all(apart));
                    runs.push((slab, first, len));
                }
            }
            let used: u64 = runs.iter().map(|run| u64::from(run.2)).sum();
            prop_assert_eq!(units.free() + units.bare() + used, u64::from(slabs) * u64::from(FREE_UNITS));
        }
    }
}
