//! Taking memory from the system before somebody waits for it.
//!
//! Memory that is used for the first time costs a fault: 0.1 ms for a large page, and several
//! milliseconds where a virtual machine's host must find it first. A thread of the background takes
//! it ahead, so that an insertion that needs a slab, or lets the index grow, finds it there.

pub(crate) mod touched;

use std::sync::atomic::Ordering;

use base::Part;
use slab::SLAB_BYTES;

use crate::cache::Cache;

/// Most slabs that are made ready in one round.
const MAX_SLABS: u64 = 64;

impl Cache {
    /// Takes memory from the system for what the cache will use before the next call, going by what
    /// came since the last: for twice as many slabs and index entries, one slab at least and 64 at
    /// most, and never more than the limit. For a thread of its own, about once a second, or more
    /// often where the cache fills faster than 256 MiB a second and must not stall. Taking 256 MiB
    /// can cost a processor a second, so that thread should yield to others (nice 10): one that is
    /// kept from running costs those who insert no more than there being none.
    ///
    /// Takes no lock for long, and holds up no other call. Does nothing once the cache is full.
    pub fn touch_ahead(&self) {
        let core = self.core();
        let slab_bytes = SLAB_BYTES as u64;
        let slabs = core.ledger.part(Part::Slabs) / slab_bytes;
        let came = slabs.saturating_sub(core.touched.slabs.swap(slabs, Ordering::Relaxed));
        let room = core.ledger.free() / slab_bytes;
        core.arena.touch_ahead((2 * came).clamp(1, MAX_SLABS) as u32, room.min(MAX_SLABS) as u32);

        let entries = core.index.len();
        let came = entries.saturating_sub(core.touched.entries.swap(entries, Ordering::Relaxed));
        core.index.touch_ahead(2 * came, core.expected_entries());
    }

    /// Gives back what was taken ahead beyond what there is still room for.
    pub(crate) fn give_back_touched(&self) {
        let core = self.core();
        let room = core.ledger.free() / SLAB_BYTES as u64;
        core.arena.touch_ahead(0, room.min(MAX_SLABS) as u32);
    }
}
