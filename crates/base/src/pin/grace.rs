//! Grace periods that are asked about instead of waited for.

use super::Pins;
use super::crowd::Waiting;
use crate::sync::atomic::Ordering;

/// A grace period that began when it was made: see [`Pins::grace`].
#[derive(Clone, Debug)]
pub struct Grace {
    /// Slots whose threads were pinned then and may be yet, with their counts.
    readers: Vec<(usize, u64)>,
    /// The same for the threads without a slot.
    crowd: Waiting,
}

impl Grace {
    /// Whether every thread that was pinned when the period began has unpinned since. Once it says
    /// so, it goes on to. Never waits; costs a look at the slots of those that had not when it was
    /// asked last. What it is asked is what moves it on: a period of threads without a slot passes
    /// by the third question after they have unpinned.
    pub fn has_passed(&mut self, pins: &Pins) -> bool {
        self.readers.retain(|(slot, before)| pins.slots[*slot].count.load(Ordering::Acquire) == *before);
        self.crowd.has_drained(&pins.crowd) && self.readers.is_empty()
    }
}

impl Pins {
    /// Begins a grace period: what the caller made unreachable before may be reached, once it has
    /// passed, by nobody. For those that must not wait, as when they may be pinned themselves.
    /// Costs a system call that interrupts the other processors, and a look at each slot.
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
