//! Grace periods that are asked about instead of waited for.

use super::Pins;
use super::crowd::Waiting;
use crate::sync::atomic::Ordering;

/// A grace period that began when it was made: see [`Pins::grace`].
#[derive(Clone, Debug)]
pub struct Grace {
    /// Slots whose threads were pinned then and may still be, with their counts.
    readers: Vec<(usize, u64)>,
    /// The same for the threads without a slot.
    crowd: Waiting,
}

impl Grace {
    /// Returns whether every thread that was pinned when the period began has unpinned since. Once
    /// true, the answer stays true. Never waits; costs a read of the slots of those threads that
    /// were still pinned at the last call. The calls themselves advance the period: a period of
    /// threads without a slot passes by the third call after they have unpinned.
    pub fn has_passed(&mut self, pins: &Pins) -> bool {
        self.readers.retain(|(slot, before)| pins.slots[*slot].count.load(Ordering::Acquire) == *before);
        self.crowd.has_drained(&pins.crowd) && self.readers.is_empty()
    }
}

impl Pins {
    /// Begins a grace period: once it has passed, no thread can reach the objects that the caller
    /// made unreachable before. For callers that must not wait, for instance because they may be
    /// pinned themselves. Costs a system call that interrupts the other processors, and a read of
    /// each slot.
    pub fn grace(&self) -> Grace {
        self.others_fence();
        let counts = self.slots.iter().map(|slot| slot.count.load(Ordering::Acquire)).enumerate();
        let readers = counts.filter(|(_, count)| count % 2 == 1).collect();
        Grace { readers, crowd: self.crowd.wait() }
    }
}
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_period_passes_when_those_that_were_pinned_have_unpinned() {
        let pins = Pins::new();
        assert!(pins.grace().has_passed(&pins), "nobody was pinned");
        let first = pins.pin();
        let mut period = pins.grace();
        assert!(!period.has_passed(&pins));
        let nested = pins.pin_if_not();
        assert!(nested.is_none() && !period.has_passed(&pins));
        drop(first);
        let second = pins.pin_if_not();
        assert!(second.is_some());
        assert!(period.has_passed(&pins), "who pins later does not count");
        assert!(!pins.grace().has_passed(&pins));
        drop(second);
        assert!(pins.grace().has_passed(&pins));
    }
}
