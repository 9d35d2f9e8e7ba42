//! Runs: the memory that one class of one pool has been given in one piece.
//!
//! A run is either a whole slab, or a few neighbouring *units* of 4 KiB of a *split* slab, which
//! classes and pools share. A class begins with runs of a few units that grow with it, and gets
//! whole slabs once a slab is a small part of its memory. So a pool pays only for what it stores,
//! while a large class still takes 8 bytes of the arena's table for 4 MiB.
//!
//! A split slab begins with its own table ([`UNIT_TABLE_BYTES`]): for each unit, a word that leads
//! to the first unit of its run, and the ordinal (number in the class) of the run that begins
//! there. In a split slab, the 16 bits of an [`ItemPtr`] that name the chunk are `64 * u + n`, with
//! `u` the first unit of the run and `n` the number of the chunk within the run. As no chunk is
//! shorter than 64 bytes, no two chunks have the same bits, and the bits divided by 64 name a unit
//! of the run.

use crate::arena::SlabInfo;
use crate::ptr::{ItemPtr, SlabId};
use crate::{MIN_CHUNK_BYTES, SLAB_BYTES};

/// Size of a unit, in bytes.
pub const UNIT_BYTES: usize = 4096;
/// Units of a slab, those of its table included.
pub const UNITS: u32 = (SLAB_BYTES / UNIT_BYTES) as u32;
/// Chunk numbers reserved for each unit: the most chunks that can begin in one.
pub(crate) const NUMBERS_PER_UNIT: u32 = UNIT_BYTES as u32 / MIN_CHUNK_BYTES;
/// Bytes of the table at the start of a split slab: a word of 8 and an ordinal of 4 for each unit.
pub const UNIT_TABLE_BYTES: usize = UNITS as usize * 12;
/// Units that the table takes.
pub const TABLE_UNITS: u32 = (UNIT_TABLE_BYTES / UNIT_BYTES) as u32;
/// Units of a split slab that runs can be made of.
pub const FREE_UNITS: u32 = UNITS - TABLE_UNITS;

const _: () = assert!(UNIT_TABLE_BYTES.is_multiple_of(UNIT_BYTES));
const _: () = assert!(UNITS * NUMBERS_PER_UNIT == 1 << 16);

/// Names a run of the arena: the bits of the pointer to its first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u32);

impl RunId {
    /// A whole slab.
    #[inline]
    pub const fn whole(slab: SlabId) -> Self {
        Self(ItemPtr::new(slab, 0).to_bits())
    }

    /// The run of a split slab that begins at this unit.
    #[inline]
    pub(crate) const fn at_unit(slab: SlabId, unit: u32) -> Self {
        Self(ItemPtr::new(slab, (unit * NUMBERS_PER_UNIT) as u16).to_bits())
    }

    /// Returns the run whose [`Self::to_bits`] is `bits`.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The 32 bits that are stored.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The slab that the run is, or lies in.
    #[inline]
    pub const fn slab(self) -> SlabId {
        ItemPtr::from_bits(self.0).slab()
    }

    /// The first of its units: 0 for a whole slab.
    #[inline]
    pub(crate) const fn unit(self) -> u32 {
        ItemPtr::from_bits(self.0).number() as u32 / NUMBERS_PER_UNIT
    }

    /// Names its chunk with this number.
    #[inline]
    pub const fn chunk(self, number: u32) -> ItemPtr {
        ItemPtr::from_bits(self.0 + number)
    }
}

/// A run and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// Its units: [`UNITS`] for a whole slab.
    pub units: u32,
}

impl Run {
    /// A whole slab.
    #[inline]
    pub const fn whole(slab: SlabId) -> Self {
        Self { id: RunId::whole(slab), units: UNITS }
    }

    /// Returns whether the run is a whole slab.
    #[inline]
    pub const fn is_whole(self) -> bool {
        self.units == UNITS
    }

    /// Its length, in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.units as u64 * UNIT_BYTES as u64
    }

    /// Returns the number of chunks of `info`'s size that it has.
    #[inline]
    pub const fn chunks(self, info: SlabInfo) -> u32 {
        self.units * UNIT_BYTES as u32 / info.chunk_bytes
    }

    /// Names its chunk with this number.
    #[inline]
    pub const fn chunk(self, number: u32) -> ItemPtr {
        self.id.chunk(number)
    }

    /// The number within the run of a chunk that lies in it; `None` for a chunk of another run.
    #[inline]
    pub const fn number_of(self, ptr: ItemPtr) -> Option<u32> {
        // A run has no more chunks than reserved numbers: a smaller difference is a chunk of this
        // run.
        let number = ptr.to_bits().wrapping_sub(self.id.to_bits());
        if number < self.units * NUMBERS_PER_UNIT { Some(number) } else { None }
    }

    /// Returns whether the chunk lies in the run.
    #[inline]
    pub const fn has(self, ptr: ItemPtr) -> bool {
        self.number_of(ptr).is_some()
    }
}

/// A class grows by a run of about one part in this many of its memory.
const CLASS_DIVISOR: u64 = 4;
/// A run of units takes about one part in this many of the memory left in the pool and the cache,
/// so that many classes share it. Shortest runs and whole slabs may take more.
const ROOM_DIVISOR: u64 = 16;
/// Chunks are large if a slab has no more than this many.
const LARGE_CHUNKS: u64 = 16;
/// Room from which on there is plenty: a slab is a small part of it.
const PLENTY_BYTES: u64 = 256 << 20;
/// The length of a run is good if at most one part in this many is left over behind its last chunk.
const MOST_LEFT_OVER: u32 = 32;

/// The units that a class of such chunks should be given next, if it has `held_bytes` and
/// `room_bytes` are left: [`UNITS`] for a whole slab.
pub fn units_to_grow(chunk_bytes: u32, held_bytes: u64, room_bytes: u64) -> u32 {
    if held_bytes == 0 {
        // It may stay the only one.
        return least_units(chunk_bytes);
    }
    let by_class = held_bytes / CLASS_DIVISOR;
    // Few large chunks fit into what the table leaves of a split slab: one less than into a whole
    // one.
    let is_large = u64::from(chunk_bytes) * LARGE_CHUNKS >= SLAB_BYTES as u64;
    let has_room = room_bytes >= PLENTY_BYTES && held_bytes >= 2 * u64::from(chunk_bytes);
    if by_class >= SLAB_BYTES as u64 || (is_large && has_room) {
        return UNITS;
    }
    let wanted = by_class.min(room_bytes / ROOM_DIVISOR);
    let wanted = (wanted / UNIT_BYTES as u64) as u32;
    fitting_units(chunk_bytes, wanted)
}

/// Memory moves in steps of one part in this many of the pool, of at least [`LEAST_STEP_BYTES`] and
/// at most a slab.
const STEPS_OF_POOL: u64 = 16;
const LEAST_STEP_BYTES: u64 = 64 << 10;

/// Returns what moves at a time in a pool with this much memory, in bytes: a slab, or in a small
/// pool a sixteenth of it, and 64 KiB at least.
pub fn step_for(pool_bytes: u64) -> u64 {
    let step = (pool_bytes / STEPS_OF_POOL).clamp(LEAST_STEP_BYTES, SLAB_BYTES as u64);
    step / UNIT_BYTES as u64 * UNIT_BYTES as u64
}

/// A class keeps one part in this many of its chunks free, and at least [`LEAST_KEPT`] chunks. If
/// that many exceed [`LEAST_KEPT_BYTES`], the least is what fits into those bytes, and one chunk in
/// any case.
const KEPT_PART: u64 = 16;
const LEAST_KEPT: u64 = 4;
const LEAST_KEPT_BYTES: u64 = 64 << 10;
/// The vacant memory of a class is rounded down to steps of about one part in this many of its
/// memory, so that sums over classes seldom change. A step is at most 64 KiB, and so small that a
/// single vacant run counts.
const STEPS_OF_VACANT: u64 = 16;
const MOST_VACANT_STEP_BYTES: u64 = 64 << 10;
const LEAST_VACANT_STEP_BYTES: u64 = UNIT_BYTES as u64 / 2;
/// A class takes one part in this many of its memory at a time, as when it grows.
const TAKE_DIVISOR: u64 = 4;

/// Returns the number of vacant chunks of a class: those of its `free` chunks, out of `chunks` in
/// all, that it does not keep for its next items. It keeps all `filling` chunks, those of runs that
/// it has just received. If it has items, it also keeps at least a sixteenth of its chunks, and at
/// least four or as many as fit into 64 KiB, but always one.
pub fn vacant_chunks(chunk_bytes: u32, chunks: u64, free: u64, filling: u64) -> u64 {
    let least = (LEAST_KEPT_BYTES / u64::from(chunk_bytes)).clamp(1, LEAST_KEPT);
    let kept = if free == chunks { 0 } else { (chunks / KEPT_PART).max(least) };
    free.saturating_sub(kept.max(filling))
}

/// Returns the size of `vacant` chunks in bytes, rounded down to steps of about a sixteenth of the
/// memory of the class, which has `chunks` chunks. A step has between 2 and 64 KiB.
pub fn vacant_bytes(chunk_bytes: u32, chunks: u64, vacant: u64) -> u64 {
    let step = (chunks * u64::from(chunk_bytes) / STEPS_OF_VACANT).max(1);
    let step = (1 << step.ilog2()).clamp(LEAST_VACANT_STEP_BYTES, MOST_VACANT_STEP_BYTES);
    vacant * u64::from(chunk_bytes) / step * step
}

/// Returns how much vacant memory of other classes a class of `chunks` takes at a time, in bytes: a
/// quarter of its own, at least its shortest run and at most a slab.
pub fn bytes_to_take(chunk_bytes: u32, chunks: u64) -> u64 {
    let least = u64::from(least_units(chunk_bytes)) * UNIT_BYTES as u64;
    (chunks * u64::from(chunk_bytes) / TAKE_DIVISOR).clamp(least, SLAB_BYTES as u64)
}

/// The fewest units that a chunk fits into: [`UNITS`] if nothing less than a slab does.
pub fn least_units(chunk_bytes: u32) -> u32 {
    let units = chunk_bytes.div_ceil(UNIT_BYTES as u32);
    if units > FREE_UNITS { UNITS } else { units }
}

/// About `wanted` units, and no fewer than a chunk needs, of which little is left over behind the
/// last chunk.
fn fitting_units(chunk_bytes: u32, wanted: u32) -> u32 {
    let least = least_units(chunk_bytes);
    let from = wanted.max(least);
    if from > FREE_UNITS {
        return UNITS;
    }
    let left_over = |units: u32| units * UNIT_BYTES as u32 % chunk_bytes;
    let is_good = |units: &u32| left_over(*units) <= *units * UNIT_BYTES as u32 / MOST_LEFT_OVER;
    // Up to a quarter more, or one chunk's worth: else the best of these.
    let to = (from + (from / CLASS_DIVISOR as u32).max(least)).min(FREE_UNITS);
    let best = || (from..=to).min_by_key(|units| u64::from(left_over(*units)) * 1024 / u64::from(*units));
    (from..=to).find(is_good).or_else(best).unwrap_or(from)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::SizeClasses;

    #[test]
    fn a_new_class_takes_few_units_and_a_large_one_whole_slabs() {
        let plenty = 1 << 30;
        assert_eq!(units_to_grow(64, 0, plenty), 1);
        assert_eq!(units_to_grow(4096, 0, plenty), 1);
        assert_eq!(units_to_grow(4104, 0, plenty), 2);
        assert_eq!(units_to_grow(64, 1 << 20, plenty), 64);
        assert_eq!(units_to_grow(64, 16 << 20, plenty), UNITS);
        assert_eq!(units_to_grow(64, 16 << 20, 0), UNITS, "of a large class a slab is a small part");
        assert_eq!(units_to_grow(64, 8 << 20, 1 << 20), 16, "the rest is shared finely");
        assert_eq!(units_to_grow(SLAB_BYTES as u32, 0, 0), UNITS);
        assert_eq!(units_to_grow(2 << 20, 0, plenty), 512);
    }

    #[test]
    fn each_run_of_a_class_counts_as_vacant_if_it_is() {
        for units in 1..=FREE_UNITS {
            for chunk_bytes in [64, 72, 1_000, 2_048, 2_056, 4_096, 4_104, 12_000, 100_000] {
                let chunks = u64::from(units * UNIT_BYTES as u32 / chunk_bytes);
                // Of one run, and of one of sixteen.
                for all in [chunks, 16 * chunks] {
                    let counted = vacant_bytes(chunk_bytes, all, chunks);
                    assert_eq!(counted > 0, chunks > 0, "{units} units of chunks of {chunk_bytes}");
                    assert!(counted <= chunks * u64::from(chunk_bytes));
                }
            }
        }
        assert_eq!(vacant_bytes(100, 1 << 20, 1_000), 65_536, "a large class counts in large steps");
    }

    proptest! {
        #[test]
        fn a_run_holds_a_chunk_and_grows_with_its_class(
            class in 0_usize..47,
            held in 0_u64..(64 << 20),
            room in 0_u64..(1 << 30),
        ) {
            let classes = SizeClasses::by_factor(1.25, 64, SLAB_BYTES as u32).expect("defaults");
            let chunk = classes.sizes()[class.min(classes.sizes().len() - 1)];
            let units = units_to_grow(chunk, held, room);
            prop_assert!(units <= FREE_UNITS || units == UNITS);
            prop_assert!(units >= least_units(chunk) && units * UNIT_BYTES as u32 >= chunk);
            let bytes = u64::from(units) * UNIT_BYTES as u64;
            prop_assert!(units < UNITS || held >= 15 << 20 || u64::from(chunk) * 16 >= SLAB_BYTES as u64);
            let small = (held / 4 + held / 16 + 2 * u64::from(least_units(chunk)) * UNIT_BYTES as u64).max(1 << 12);
            prop_assert!(bytes <= small || units == UNITS, "{bytes} for {chunk} with {held}");
        }

        #[test]
        fn chunks_of_runs_have_names_of_their_own(first in 3_u32..1000, units in 1_u32..24, other in 0_u32..1024) {
            let run = Run { id: RunId::at_unit(SlabId(7), first), units };
            let info = SlabInfo { chunk_bytes: 64, pool: 0, class: 0, keyspace: 0 };
            let last = run.chunk(run.chunks(info) - 1);
            prop_assert!(run.has(run.chunk(0)) && run.has(last) && last.slab() == SlabId(7));
            let outside = !(first..first + units).contains(&other);
            prop_assert_eq!(!run.has(RunId::at_unit(SlabId(7), other).chunk(0)), outside);
            prop_assert!(!run.has(RunId::at_unit(SlabId(8), first).chunk(0)));
        }
    }
}
