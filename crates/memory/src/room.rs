//! Room on the bill for what grows besides slabs: queues, ghosts, wheels, the index, classes and
//! magazines.
//!
//! A run is given to a class only if its items' metadata finds room, too. But estimates are for
//! many items: a class of few takes more for each, a queue grows by blocks, and nobody knows how
//! many items will expire. So some memory is kept spare ([`Core::spare_bytes`]). What grows takes
//! it, under whatever lock; and the next allocation, which holds none, takes as much from slabs:
//! from free units, or else from the pool that should give first.

pub(crate) mod search;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slab::SLAB_BYTES;
use slab::run::UNIT_BYTES;

use crate::cache::Core;
use crate::long_lock::Alone;
use crate::release::{Amount, Taking, Why};

/// The part of the limit that is kept spare, and its bounds in bytes.
const SPARE_PART: u64 = 128;
const LEAST_SPARE: u64 = 64 << 10;
const MOST_SPARE: u64 = 1 << 20;
/// Pools that are asked for memory at a time, at most.
const MOST_ASKED: usize = 8;
/// Allocations that do without room after one has looked for it in vain.
const AFTER_VAIN: u32 = 64;

/// Longest time that an allocation waits for another one that looks for room: without any it would
/// be refused.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// True if this thread looks for room, in whichever cache.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

impl Core {
    /// Memory that runs leave free for what grows, in bytes.
    #[inline]
    pub(crate) fn spare_bytes(&self) -> u64 {
        (self.ledger.limit() / SPARE_PART).clamp(LEAST_SPARE, MOST_SPARE)
    }

    /// Brings what is spare up to what should be, if half of it is used up. The caller holds no
    /// lock.
    #[inline]
    pub(crate) fn keep_room(&self) {
        let spare = self.spare_bytes();
        if self.ledger.free() < spare / 2 {
            self.find_room(spare);
        }
    }

    /// Frees `bytes` of the limit, if that is possible without a wait except for another thread
    /// that does the same. The caller holds no lock.
    #[cold]
    pub(crate) fn find_room(&self, bytes: u64) {
        self.index.check_unlocked();
        let waits = |waits: u32| waits.checked_sub(1);
        if self.room.waits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, waits).is_ok() {
            return;
        }
        let Some(_alone) = Alone::enter(&LOOKS) else { return };
        let Some(_looking) = self.room.looking.try_lock_for(PATIENCE) else { return };
        let (mut refused, mut has_vacant) = (HashSet::new(), self.arena.has_bare_units());
        self.retire_idle_classes();
        loop {
            self.free_retired_runs();
            let used = self.ledger.total();
            let lacking = (used + bytes).saturating_sub(self.ledger.limit());
            if lacking == 0 || self.release_free_units(lacking) >= lacking {
                return;
            }
            // What readers keep will be free without more being taken. Classes that left may be
            // looked at for long, by this very thread among others.
            if self.retired_runs.bytes() >= lacking {
                return;
            }
            has_vacant = has_vacant && self.release_vacant(lacking) > 0;
            if has_vacant {
                continue;
            }
            let Some(number) = self.first_to_give(&refused) else { break };
            if !self.give_for_room(number, lacking) && (!refused.insert(number) || refused.len() > MOST_ASKED)
            {
                break;
            }
        }
        self.room.waits.store(AFTER_VAIN, Ordering::Relaxed);
    }

    /// Has the pool with this number give about this much memory, but no more than a slab: if the
    /// limit was lowered by much, others are to give their part. `false`: it gave none.
    fn give_for_room(&self, number: u16, bytes: u64) -> bool {
        let pools = self.pools.all();
        let Some(pool) = pools.numbered(number) else { return false };
        let Some(_resizing) = pool.resizing.try_lock() else { return false };
        let amount = Amount::about(bytes.clamp(UNIT_BYTES as u64, SLAB_BYTES as u64));
        self.take_bytes(pool, None, 1, amount, &mut Taking::new(Why::Limit, 0)).is_some()
    }
}
