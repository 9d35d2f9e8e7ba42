//! The expiry wheel of a class: which items are due, without looking at the others.
//!
//! An entry lies in a *slot* that covers some seconds and is due when the slot has ended. Level 0
//! has slots of one second, each further level slots four times as long; a level has 64. An entry
//! goes to the first level that reaches as far as its expiry, and stays there. Of the level before
//! it more than 63 slots did not suffice, so that a slot is shorter than 4/63 of the time that was
//! left: an item is reaped late by less than a 15th of its time to live (and is never found
//! meanwhile). An entry costs four bytes and a little, and is looked at once.
//!
//! Entries name items as those of eviction queues do, and turn stale as those do: when an item
//! leaves by another way, or is given another expiry. An item whose expiry is brought forward gets
//! one more entry; one that is put off keeps its entry, which moves when it is due. Stale entries
//! are swept out before they outnumber the items.
//!
//! A plain value without a lock or a clock: the engine keeps it behind the lock of the class.
//! (Varghese and Lauck: "Hashed and hierarchical timing wheels", SOSP'87, scheme 7 without its
//! moves between levels.)
//!
//! Invariants, for each level:
//! 1. All entries lie in slots `next .. next + 64`.
//! 2. An entry for time `t` lies in a slot that ends at `t` or later.

use evict::Entry;
use evict::fifo::{Blocks, Fifo};

const SLOTS: usize = 64;
/// Slots of level `l` cover `4^l` seconds.
const SHIFT: u32 = 2;
/// Enough for 2^32 seconds.
const LEVELS: usize = 14;
/// Stale entries that are always tolerated.
const TOLERATED: usize = 1_024;
/// Entries that are looked at for each one that is inserted, when sweeping is due.
const SWEPT_PER_INSERT: usize = 4;

/// A level of the wheel.
struct Level {
    /// The number of the first slot that is not empty for good: its beginning in seconds, shifted.
    next: u32,
    slots: [Fifo; SLOTS],
}

/// The entries of a class by the time when they are due.
pub(crate) struct Wheel {
    blocks: Blocks<15>,
    levels: [Option<Box<Level>>; LEVELS],
    entries: usize,
    /// No entry is due before this.
    done_until: u32,
    /// No slot with an entry ends before this.
    next_due: u32,
    sweep_credit: usize,
    sweep_at: usize,
}

impl Wheel {
    /// A wheel without entries, to which all before `now` (Unix seconds) is past.
    pub(crate) fn new(now: u32) -> Self {
        Self {
            blocks: Blocks::default(),
            levels: std::array::from_fn(|_| None),
            entries: 0,
            done_until: now,
            next_due: u32::MAX,
            sweep_credit: 0,
            sweep_at: 0,
        }
    }

    /// Memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.bytes() + self.levels.iter().flatten().count() * size_of::<Level>()
    }

    /// Returns the number of entries, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Adds an entry that is due at `time`; both are Unix seconds. A second at which it is due, or
    /// the end of its slot.
    pub(crate) fn insert(&mut self, entry: Entry, time: u32, now: u32) -> u32 {
        // Nobody asks what is due while nothing is; without this the entry would go to the level
        // for a time that has long begun.
        if now < self.next_due {
            self.done_until = self.done_until.max(now);
        }
        for (l, level) in self.levels.iter_mut().enumerate() {
            // What lies before this slot was taken out.
            let first = self.done_until >> (SHIFT * l as u32);
            let next = level.as_ref().map_or(first, |level| level.next.max(first));
            let slot = (time >> (SHIFT * l as u32)).max(next);
            if slot - next < SLOTS as u32 || l + 1 == LEVELS {
                let level =
                    level.get_or_insert_with(|| Box::new(Level { next, slots: [Fifo::default(); SLOTS] }));
                level.next = next;
                level.slots[slot as usize % SLOTS].push(&mut self.blocks, entry);
                self.entries += 1;
                let due = end_of(slot, l);
                self.next_due = self.next_due.min(due);
                return due;
            }
        }
        unreachable!("the last level takes what the others do not reach")
    }

    /// A second at which the first slot that has entries has ended, or an earlier one; `u32::MAX`:
    /// there is none.
    pub(crate) fn next_due(&self) -> u32 {
        self.next_due
    }

    /// Takes an entry whose slot has ended at `now`, Unix seconds; once there is none, time before
    /// that is past.
    pub(crate) fn pop_due(&mut self, now: u32) -> Option<Entry> {
        if self.entries > 0 && now >= self.done_until {
            for (l, level) in self.levels.iter_mut().enumerate() {
                let Some(level) = level else { continue };
                // Slots from here on have not ended.
                let open = now.saturating_add(1) >> (SHIFT * l as u32);
                while level.next < open {
                    if let Some(entry) = level.slots[level.next as usize % SLOTS].pop(&mut self.blocks) {
                        self.entries -= 1;
                        return Some(entry);
                    }
                    // After a leap of the clock there is nothing left once all slots were seen.
                    level.next = (level.next + 1).max(open.saturating_sub(SLOTS as u32));
                }
            }
        }
        self.done_until = self.done_until.max(now.saturating_add(1));
        self.next_due = self.first_end();
        None
    }

    /// The end of the first slot that has entries.
    fn first_end(&self) -> u32 {
        let ends = self.levels.iter().enumerate().filter_map(|(l, level)| {
            let level = level.as_ref().filter(|_| self.entries > 0)?;
            let mut slots = level.next..level.next.saturating_add(SLOTS as u32);
            slots.find(|slot| !level.slots[*slot as usize % SLOTS].is_empty()).map(|slot| end_of(slot, l))
        });
        ends.min().unwrap_or(u32::MAX)
    }

    /// Sweeps a little, where there are many more entries than `items`: called once for each
    /// insertion.
    pub(crate) fn sweep(&mut self, items: usize, prefetch: impl Fn(Entry), is_alive: impl Fn(Entry) -> bool) {
        if self.entries <= items * 2 + TOLERATED {
            return;
        }
        self.sweep_credit += SWEPT_PER_INSERT;
        let mut idle = 0;
        while self.sweep_credit >= 16 && idle < LEVELS * SLOTS {
            let (l, slot) = (self.sweep_at / SLOTS % LEVELS, self.sweep_at % SLOTS);
            let queue = self.levels[l].as_mut().map(|level| &mut level.slots[slot]);
            let (looked_at, dropped) =
                queue.map_or((0, 0), |queue| queue.sweep(&mut self.blocks, &prefetch, &is_alive));
            self.entries -= dropped;
            if looked_at == 0 {
                self.sweep_at = (self.sweep_at + 1) % (LEVELS * SLOTS);
                idle += 1;
            } else {
                self.sweep_credit = self.sweep_credit.saturating_sub(looked_at.max(16));
            }
        }
        if idle == LEVELS * SLOTS {
            self.sweep_credit = 0;
        }
    }
}

/// The last second of a slot of level `l`, at which it counts as ended.
fn end_of(slot: u32, l: usize) -> u32 {
    let shift = SHIFT * l as u32;
    // The last slots reach beyond what can be said.
    (((u64::from(slot) + 1) << shift) - 1).min(u32::MAX.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::mix64;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn due(wheel: &mut Wheel, now: u32) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_due(now)).map(|entry| entry.0).collect()
    }

    /// The seconds after its expiry at which an item with this time to live may be reaped.
    fn late(ttl: u32) -> u32 {
        (u64::from(ttl) * 4 / 63) as u32
    }

    #[test]
    fn lateness_is_greatest_just_beyond_the_reach_of_a_level() {
        for level in 1..8 {
            let (slot, before) = (1_u32 << (SHIFT * level), 1_u32 << (SHIFT * (level - 1)));
            let mut greatest = 0.0_f64;
            // In the last second of a slot of the level before, 63 more of them are within reach.
            for now in [64 * slot - 1, 64 * slot, 65 * slot - 2, 64 * slot + before - 1] {
                for ttl in 62 * before..66 * before {
                    let end = Wheel::new(now).insert(Entry(0), now + ttl, now);
                    assert!(end - (now + ttl) <= late(ttl), "{ttl} s from {now} on, due at {end}");
                    greatest = greatest.max(f64::from(end - (now + ttl)) / f64::from(ttl));
                }
            }
            assert!((0.7 / 16.0..4.0 / 63.0).contains(&greatest), "level {level}: {greatest}");
        }
    }

    #[test]
    fn near_entries_are_due_to_the_second() {
        let mut wheel = Wheel::new(1_000);
        for i in 0..60 {
            wheel.insert(Entry(i), 1_000 + i, 0);
        }
        for i in 0..60 {
            assert_eq!(due(&mut wheel, 1_000 + i), [i]);
        }
        assert_eq!((wheel.len(), wheel.pop_due(u32::MAX)), (0, None));
    }

    #[test]
    fn what_is_past_is_due_at_once_and_the_farthest_future_is_kept() {
        let mut wheel = Wheel::new(1_000_000);
        wheel.insert(Entry(1), 5, 0);
        wheel.insert(Entry(2), u32::MAX, 0);
        assert_eq!(due(&mut wheel, 1_000_000), [1]);
        assert_eq!(due(&mut wheel, u32::MAX - 400_000_000), []);
        assert_eq!(wheel.len(), 1);
    }

    proptest! {
        #[test]
        fn entries_are_due_once_never_early_and_little_late(
            steps in proptest::collection::vec((0_u32..200_000, 0_u32..3_000), 1..300)
        ) {
            let mut wheel = Wheel::new(5_000);
            let mut now = 5_000;
            // By entry: when it was inserted, and when it is due.
            let mut model = BTreeMap::new();
            for (i, (ttl, wait)) in steps.into_iter().enumerate() {
                // Most times to live are short.
                let ttl = ttl >> (mix64(i as u64) % 18);
                wheel.insert(Entry(i as u32), now + ttl, now);
                model.insert(i as u32, (now, now + ttl));
                now += wait >> (mix64(i as u64 + 7) % 12);
                // Nobody asks before something is due, as the wheel says.
                let entries = if now < wheel.next_due() { Vec::new() } else { due(&mut wheel, now) };
                for entry in entries {
                    let (_, time) = model.remove(&entry).expect("due once");
                    prop_assert!(time <= now, "early");
                }
                for (inserted, time) in model.values() {
                    prop_assert!(now <= time + late(time - inserted) + 1, "late");
                }
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }

    #[test]
    fn stale_entries_do_not_outnumber_the_items_by_much() {
        let mut wheel = Wheel::new(0);
        // Of what is inserted only the newest thousand is alive.
        for i in 0..200_000_u32 {
            wheel.insert(Entry(i), 1_000_000 + i % 4_000, 0);
            wheel.sweep(1_000, |_| (), |entry| entry.0 + 1_000 > i);
        }
        assert!(wheel.len() < 2 * (2_000 + TOLERATED), "{}", wheel.len());
        let left = due(&mut wheel, 2_000_000);
        assert!((199_000..200_000).all(|i| left.contains(&i)), "what is alive is kept");
    }
}
