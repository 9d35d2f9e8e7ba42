//! Words of the table of slabs, and of the tables of units at the starts of split slabs.
//!
//! The layout is that of the files as well (`docs/formats/shared-memory.md`).

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::ptr::SlabId;
use crate::run::{Run, RunId, UNITS};
use crate::{CHUNK_ALIGN, MIN_CHUNK_BYTES, SLAB_BYTES};

/// The size and the owner of the chunks of a run (a whole slab or a part of a split one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabInfo {
    /// Size of its chunks in bytes; 0 for a free slab or unit.
    pub chunk_bytes: u32,
    /// The pool that holds it.
    pub pool: u16,
    /// The size class within the pool.
    pub class: u8,
    /// The key space of the pool.
    pub keyspace: u16,
}

impl SlabInfo {
    /// [`LEAVING`], 23 bits of chunk size, 8 of class, 16 of pool, 16 of key space.
    pub(super) const fn pack(self) -> u64 {
        (self.chunk_bytes as u64) << 40
            | (self.class as u64) << 32
            | (self.pool as u64) << 16
            | self.keyspace as u64
    }

    #[inline]
    pub(crate) const fn unpack(bits: u64) -> Self {
        Self {
            chunk_bytes: (bits >> 40) as u32 & 0x7f_ffff,
            class: (bits >> 32) as u8,
            pool: (bits >> 16) as u16,
            keyspace: bits as u16,
        }
    }

    /// A word of a split slab's table: [`LEAVING`], 19 bits of chunk size in multiples of 8, 8 of
    /// class, 13 of pool, 13 of key space, and 10 that say how many units before this one the run
    /// begins.
    pub(crate) const fn pack_unit(self, back: u32) -> u64 {
        debug_assert!(self.pool < 1 << 13 && self.keyspace < 1 << 13 && back < UNITS);
        (self.chunk_bytes as u64 / 8) << 44
            | (self.class as u64) << 36
            | (self.pool as u64) << 23
            | (self.keyspace as u64) << 10
            | back as u64
    }

    /// Takes apart what [`Self::pack_unit`] gave.
    #[inline]
    pub(crate) const fn unpack_unit(bits: u64) -> (Self, u32) {
        let info = Self {
            chunk_bytes: (bits >> 44) as u32 % (1 << 19) * 8,
            class: (bits >> 36) as u8,
            pool: (bits >> 23) as u16 & 0x1fff,
            keyspace: (bits >> 10) as u16 & 0x1fff,
        };
        (info, bits as u32 & (UNITS - 1))
    }

    /// Decodes a word of a table that another process left. `None`: the slab is free or split, or
    /// there is no such slab.
    pub(crate) fn checked(bits: u64) -> Option<Self> {
        let info = Self::unpack(bits);
        let is_size = (MIN_CHUNK_BYTES..=SLAB_BYTES as u32).contains(&info.chunk_bytes);
        (is_size && info.chunk_bytes.is_multiple_of(CHUNK_ALIGN)).then_some(info)
    }

    /// Returns the number of chunks in a whole slab of them.
    #[inline]
    pub const fn chunks_per_slab(self) -> u32 {
        SLAB_BYTES as u32 / self.chunk_bytes
    }
}

/// Set in the word of a slab, or of the first unit of a run, that has left its class: threads that
/// reach chunks by another way than the index must leave it alone.
pub(super) const LEAVING: u64 = 1 << 63;

/// The table's word for a split slab. No chunk has this size.
pub(crate) const SPLIT: u64 = SlabInfo { chunk_bytes: 1, pool: 0, class: 0, keyspace: 0 }.pack();

/// Returns whether the word of a slab's table is [`SPLIT`]. A single bit tells: chunk sizes are
/// multiples of 8.
#[inline]
pub(super) const fn is_split(word: u64) -> bool {
    word & SPLIT != 0
}

const _: () = assert!(SPLIT.is_power_of_two() && CHUNK_ALIGN.is_multiple_of(2));

/// The words of the units of a split slab, and the ordinals of the runs that begin there, as they
/// lie at its start.
#[repr(C)]
pub(super) struct UnitTable {
    pub(super) words: [AtomicU64; UNITS as usize],
    pub(super) ordinals: [AtomicU32; UNITS as usize],
}

const _: () = assert!(size_of::<UnitTable>() == crate::run::UNIT_TABLE_BYTES);

/// The runs in the words of a split slab's table. Units whose words make no sense belong to no run.
pub(crate) fn runs_of(slab: SlabId, words: impl Iterator<Item = u64>) -> Vec<(Run, SlabInfo)> {
    let mut runs: Vec<(Run, SlabInfo)> = Vec::new();
    for (unit, bits) in (0..UNITS).zip(words) {
        let (info, back) = SlabInfo::unpack_unit(bits);
        if unit < crate::run::TABLE_UNITS || info.chunk_bytes < MIN_CHUNK_BYTES {
            continue;
        }
        match runs.last_mut() {
            _ if back == 0 && info.chunk_bytes <= SLAB_BYTES as u32 => {
                runs.push((Run { id: RunId::at_unit(slab, unit), units: 1 }, info))
            }
            Some((run, of)) if *of == info && run.units == back && run.id.unit() + back == unit => {
                run.units += 1
            }
            _ => {}
        }
    }
    runs.retain(|(run, info)| run.bytes() >= u64::from(info.chunk_bytes));
    runs
}
