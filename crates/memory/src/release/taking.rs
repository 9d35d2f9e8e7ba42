//! Amounts of memory that operations take, with the reason, and the waits that each may spend.

use std::time::Duration;

/// Held items of a run that an operation which does not wait tries to empty, at most.
pub(super) const FEW_HELD: u32 = 8;
/// Number of waits for held items in one operation before it gets a slab, and how long each time.
pub(crate) const WAITS: u32 = 10;
/// The same when slabs are rebalanced, which another round may do as well.
pub(crate) const MOVE_WAITS: u32 = 2;
/// Number of waits for held items in one operation, or one round for all pools, however many slabs
/// it gets.
pub(super) const WAITS_IN_ALL: u32 = 50;
pub(crate) const WAIT: Duration = Duration::from_millis(1);

/// The reason that a slab leaves its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// For another class or pool, or because the class or its pool goes.
    Moved,
    /// A limit was lowered.
    Limit,
}

/// The amount of memory that is to be given back. As runs are given back whole, it may become more
/// or less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    /// More is never given back, in bytes.
    pub(crate) most_bytes: u64,
}

impl Amount {
    /// About `bytes`, or one run if none is as short.
    pub(crate) fn about(bytes: u64) -> Self {
        Self { bytes, most_bytes: u64::MAX }
    }
}

/// One operation that takes memory.
pub(crate) struct Taking {
    pub(super) why: Why,
    /// Number of waits for held items between two slabs that it gets.
    waits: u32,
    waits_left: u32,
    /// Number of times that it may yet wait, whatever it gets.
    left_in_all: u32,
}

impl Taking {
    /// An operation that waits up to `waits` times, in all slabs together that it tries until it
    /// gets one.
    pub(crate) fn new(why: Why, waits: u32) -> Self {
        Self { why, waits, waits_left: waits, left_in_all: WAITS_IN_ALL }
    }

    /// Has it wait up to `waits` times from here on until it gets a slab, as far as it may yet.
    pub(crate) fn waiting(&mut self, waits: u32) -> &mut Self {
        self.waits = waits;
        self.got_one();
        self
    }

    /// Notes that it got a slab.
    pub(super) fn got_one(&mut self) {
        self.waits_left = self.waits.min(self.left_in_all);
    }

    /// Takes one of the waits that are left. `false`: there is none.
    pub(super) fn take_wait(&mut self) -> bool {
        let is_left = self.waits_left > 0;
        self.waits_left -= u32::from(is_left);
        self.left_in_all -= u32::from(is_left);
        is_left
    }

    /// Returns whether it may yet wait for held items.
    pub(crate) fn waits_for_holders(&self) -> bool {
        self.waits_left > 0
    }

    /// Returns whether a run with `held` held items is worth an attempt: all others of it would be
    /// moved or evicted, in vain if the held ones stay. Operations that never wait try where a few
    /// are, which may be let go of meanwhile.
    pub(super) fn tries(&self, held: u32) -> bool {
        held == 0 || self.waits_left > 0 || (self.waits == 0 && held <= FEW_HELD)
    }
}
