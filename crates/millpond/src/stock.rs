//! Chunks of a class on their way from one use to the next, for all its threads together.
//!
//! Nobody finds them any more, and some may still be read: they *wait*. A *pass* asks who still reads, once for all that wait
//! then, and makes the others *clear* to be used. As all threads of the class draw on one stock, they pay together for one pass in as
//! many insertions as about half of the stock has chunks, however few each of them takes at a time.
//!
//! Invariants:
//! 1. A chunk gets clear only by a pass whose barrier began after it was made unreachable: the mark of what waits is taken with the lists
//!    locked, by whoever appends, so that it is no older than that of any chunk among them.
//! 2. A chunk of the stock is in one of the lists, or in the hand of the thread that passes and holds `passing`. Who holds that, and then
//!    the lists, sees all.

use std::sync::atomic::{AtomicUsize, Ordering};

use base::pin::{Mark, Pins};
use parking_lot::Mutex;
use slab::ItemPtr;

/// A class's chunks are divided by this for the number that its stock should have.
const PART_OF_CLASS: u64 = 128;
const MAX_TARGET: u64 = 2_048;
/// Memory of a stock, in bytes, at most about: what waits and is clear, up to twice the target, and what is in hand.
pub(crate) const STOCK_BYTES: u64 = 3 * MAX_TARGET * size_of::<ItemPtr>() as u64;

/// See the [module](self).
pub(crate) struct Stock {
    lists: Mutex<Lists>,
    /// Held by the thread that passes, with what it has in hand: empty but meanwhile.
    passing: Mutex<Vec<ItemPtr>>,
    /// How many chunks there are, in hand as well.
    level: AtomicUsize,
    /// How many there should be.
    target: AtomicUsize,
}

#[derive(Default)]
struct Lists {
    waiting: Vec<ItemPtr>,
    since: Mark,
    clear: Vec<ItemPtr>,
}

/// How many chunks the stock of a class of `chunks` should have.
fn target_for(chunks: u64) -> u64 {
    (chunks / PART_OF_CLASS).clamp(1, MAX_TARGET)
}

impl Default for Stock {
    /// That of a class without chunks.
    fn default() -> Self {
        Self {
            lists: Mutex::default(),
            passing: Mutex::default(),
            level: AtomicUsize::new(0),
            target: AtomicUsize::new(target_for(0) as usize),
        }
    }
}

impl Stock {
    /// Notes how many chunks the class has now.
    pub(crate) fn set_chunks(&self, chunks: u64) {
        self.target.store(target_for(chunks) as usize, Ordering::Relaxed);
    }

    /// How many chunks there are.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        self.level.load(Ordering::Relaxed)
    }

    /// How many chunks there should be.
    #[inline]
    pub(crate) fn target(&self) -> usize {
        self.target.load(Ordering::Relaxed)
    }

    /// Takes what nobody finds any more, and some may still read.
    pub(crate) fn append(&self, pins: &Pins, freed: &mut Vec<ItemPtr>) {
        if freed.is_empty() {
            return;
        }
        let mut lists = self.lists.lock();
        self.level.fetch_add(freed.len(), Ordering::Relaxed);
        lists.waiting.append(freed);
        lists.since = pins.mark();
    }

    /// Moves up to `wanted` clear chunks to `ready`.
    pub(crate) fn take(&self, wanted: usize, ready: &mut Vec<ItemPtr>) {
        let mut lists = self.lists.lock();
        let left = lists.clear.len().saturating_sub(wanted);
        self.level.fetch_sub(lists.clear.len() - left, Ordering::Relaxed);
        ready.extend(lists.clear.drain(left..));
    }

    /// Whether there is so little clear, and so much that waits, that it is time for a pass.
    pub(crate) fn is_low(&self) -> bool {
        let (lists, half) = (self.lists.lock(), self.target().div_ceil(2));
        lists.clear.len() < half && lists.waiting.len() >= half
    }

    /// Makes clear what waits and is not read, unless another thread is about it.
    pub(crate) fn pass_ahead(&self, pins: &Pins) {
        if let Some(mut hand) = self.passing.try_lock() {
            self.pass(pins, &mut hand);
        }
    }

    /// Makes clear what waits and is not read, unless there is a clear chunk by now.
    pub(crate) fn pass_now(&self, pins: &Pins) {
        let mut hand = self.passing.lock();
        let has_clear = !self.lists.lock().clear.is_empty();
        if !has_clear {
            self.pass(pins, &mut hand);
        }
    }

    /// Takes out all that nobody reads, but for `kept` chunks.
    pub(crate) fn take_out(&self, pins: &Pins, kept: usize) -> Vec<ItemPtr> {
        let mut hand = self.passing.lock();
        self.pass(pins, &mut hand);
        let mut out = Vec::new();
        self.take(self.level().saturating_sub(kept), &mut out);
        out
    }

    fn pass(&self, pins: &Pins, hand: &mut Vec<ItemPtr>) {
        let since = {
            let mut lists = self.lists.lock();
            std::mem::swap(&mut lists.waiting, hand);
            lists.since
        };
        if hand.is_empty() {
            return;
        }
        let protected = pins.protected_since(since);
        let mut lists = self.lists.lock();
        for ptr in hand.drain(..) {
            // What is still read waits with what was appended meanwhile, for longer than it must.
            let list = if protected.contains(ptr.to_bits()) { &mut lists.waiting } else { &mut lists.clear };
            list.push(ptr);
        }
    }
}

#[cfg(test)]
mod tests {
    use slab::SlabId;

    use super::*;

    fn chunks(numbers: std::ops::Range<u16>) -> Vec<ItemPtr> {
        numbers.map(|number| ItemPtr::new(SlabId(0), number)).collect()
    }

    #[test]
    fn a_stock_is_a_small_part_of_a_class() {
        assert_eq!(target_for(0), 1);
        assert_eq!(target_for(32_768), 256);
        assert_eq!(target_for(1 << 30), MAX_TARGET);
    }

    #[test]
    fn what_is_read_waits_and_the_rest_is_clear() {
        let (pins, stock) = (Pins::new(), Stock::default());
        stock.set_chunks(8 * PART_OF_CLASS);
        stock.append(&pins, &mut chunks(0..8));
        assert!(stock.is_low());
        let mut ready = Vec::new();
        stock.take(8, &mut ready);
        assert!(ready.is_empty(), "nobody has asked who reads them");
        let guard = pins.guard().expect("nothing is protected");
        guard.protect(chunks(3..4)[0].to_bits());
        stock.pass_ahead(&pins);
        assert!(!stock.is_low());
        stock.take(5, &mut ready);
        stock.take(5, &mut ready);
        ready.sort_unstable_by_key(|ptr| ptr.to_bits());
        assert_eq!(ready, [chunks(0..3), chunks(4..8)].concat());
        assert_eq!(stock.level(), 1);
        assert!(stock.take_out(&pins, 0).is_empty(), "it is read");
        drop(guard);
        stock.append(&pins, &mut chunks(8..12));
        assert_eq!(stock.take_out(&pins, 2).len(), 3);
        stock.pass_now(&pins);
        assert_eq!(stock.level(), 2);
    }
}
