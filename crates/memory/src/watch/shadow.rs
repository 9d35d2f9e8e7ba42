//! Shadow queues of a pool's size classes: the keys that each would still have with a slab more.
//!
//! Cliffhanger (NSDI 2016, section 4.1) keeps, behind each queue, the keys that it evicted last,
//! and counts the finds that miss them: hits that more memory would have brought. Here one table
//! serves all classes of a pool. A key of the sample that is evicted is noted in the slot of its
//! hash, with its class and the number of that eviction in the class. A find that misses it counts
//! if the class has since evicted no more keys than a slab holds. So nothing is queued or moved,
//! and all is done with single words, without a lock; what another key of the slot replaces is
//! forgotten earlier, by chance and whatever its class.
//!
//! A find that hits pays nothing. A miss of the pool that has its keys to itself counts; in a key
//! space that pools share a miss is nobody's, and no shadow is ever hit. A key that comes back
//! without a find, by a write, stays noted until its next eviction.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use curve::sample::{place, threshold};

/// One key in this many is in the sample.
const ONE_IN: u32 = 32;
/// Slots of the table.
const SLOTS: usize = 1 << 14;
/// Numbers of classes.
const CLASSES: usize = 256;
/// Bits of the number of an eviction that a slot has.
const SEQUENCE_BITS: u32 = 24;
const SEQUENCE: u32 = (1 << SEQUENCE_BITS) - 1;

/// The shadow queues of a pool. Off at the start.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    is_on: AtomicBool,
    table: OnceLock<Box<Table>>,
}

#[derive(Debug)]
struct Table {
    /// Evicted keys: tag, class and number; 0 = none.
    slots: Box<[AtomicU64]>,
    classes: Box<[Shadow]>,
}

/// The counts of a class.
#[derive(Debug, Default)]
struct Shadow {
    /// Evicted keys of the sample.
    evicted: AtomicU32,
    /// Misses of keys that a slab more would hold.
    hits: AtomicU64,
    /// Keys of the sample that a slab holds.
    reach: AtomicU32,
    /// Misses that one of the sample stands for.
    worth: AtomicU32,
}

impl Table {
    fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            classes: (0..CLASSES).map(|_| Shadow::default()).collect(),
        }
    }

    fn slot(&self, hash: u64) -> &AtomicU64 {
        &self.slots[(hash >> 8) as usize % SLOTS]
    }
}

/// The bits that tell keys of a slot apart; never 0.
fn tag(hash: u64) -> u64 {
    (hash >> 32) | 1
}

impl Shadows {
    /// Keys whose place lies below are in the sample; 0 = it is off.
    pub(crate) fn below(&self) -> u32 {
        if self.is_on.load(Ordering::Relaxed) { threshold(1.0 / f64::from(ONE_IN)) } else { 0 }
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        if self.table.get().is_some() { Self::bytes_wanted() } else { 0 }
    }

    /// Memory that it takes once it is on.
    pub(crate) fn bytes_wanted() -> usize {
        SLOTS * size_of::<AtomicU64>() + CLASSES * size_of::<Shadow>() + size_of::<Table>()
    }

    /// Switches it on, without what was noted before, or off. Its memory stays when it is off.
    /// Returns true if it was taken now.
    pub(crate) fn switch(&self, is_on: bool) -> bool {
        let mut is_new = false;
        if is_on {
            let table = self.table.get_or_init(|| {
                is_new = true;
                Box::new(Table::new())
            });
            if !self.is_on.load(Ordering::Relaxed) {
                table.slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
            }
        }
        self.is_on.store(is_on, Ordering::Relaxed);
        is_new
    }

    fn table(&self, hash: u64) -> Option<&Table> {
        if place(hash) < self.below() { self.table.get().map(Box::as_ref) } else { None }
    }

    /// Notes that a key was evicted from a class.
    pub(crate) fn note_eviction(&self, hash: u64, class: u8) {
        let Some(table) = self.table(hash) else { return };
        let number = table.classes[usize::from(class)].evicted.fetch_add(1, Ordering::Relaxed) & SEQUENCE;
        let noted = tag(hash) << 32 | u64::from(class) << SEQUENCE_BITS | u64::from(number);
        table.slot(hash).store(noted, Ordering::Relaxed);
    }

    /// Notes that a find missed a key.
    pub(crate) fn note_miss(&self, hash: u64) {
        let Some(table) = self.table(hash) else { return };
        let slot = table.slot(hash);
        let noted = slot.load(Ordering::Relaxed);
        if noted >> 32 != tag(hash)
            || slot.compare_exchange(noted, 0, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let shadow = &table.classes[(noted >> SEQUENCE_BITS) as usize % CLASSES];
        let since = shadow.evicted.load(Ordering::Relaxed).wrapping_sub(noted as u32) & SEQUENCE;
        if since <= shadow.reach.load(Ordering::Relaxed) {
            shadow.hits.fetch_add(shadow.worth.load(Ordering::Relaxed).into(), Ordering::Relaxed);
        }
    }

    /// The misses of a class's shadow so far, of all keys as the sample tells. From now on it holds
    /// the keys of `step_bytes`.
    pub(crate) fn hits(&self, class: u8, chunk_bytes: u32, step_bytes: u64) -> u64 {
        let Some(table) = self.table.get() else { return 0 };
        let shadow = &table.classes[usize::from(class)];
        let keys = u32::try_from(step_bytes / u64::from(chunk_bytes.max(1))).unwrap_or(SEQUENCE);
        // One key of the sample follows as many others: where a slab holds fewer, each counts less.
        shadow.worth.store(keys.clamp(1, ONE_IN), Ordering::Relaxed);
        shadow.reach.store((keys / ONE_IN).clamp(1, SEQUENCE), Ordering::Relaxed);
        shadow.hits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use base::hash::mix64;

    use super::*;

    /// Hashes of keys of the sample.
    fn sampled() -> impl Iterator<Item = u64> {
        let below = threshold(1.0 / f64::from(ONE_IN));
        (0_u64..).map(mix64).filter(move |hash| place(*hash) < below)
    }

    fn on() -> Shadows {
        let shadows = Shadows::default();
        assert!(shadows.switch(true));
        // Shadows of 100 keys of the sample.
        assert_eq!(shadows.hits(3, 100, 100 * 100 * u64::from(ONE_IN)), 0);
        shadows
    }

    fn hits(shadows: &Shadows) -> u64 {
        shadows.hits(3, 100, 100 * 100 * u64::from(ONE_IN)) / u64::from(ONE_IN)
    }

    #[test]
    fn a_miss_of_a_key_that_was_evicted_lately_counts_once() {
        let shadows = on();
        let key = sampled().next().expect("a key");
        shadows.note_miss(key);
        assert_eq!(hits(&shadows), 0, "it was never here");
        shadows.note_eviction(key, 3);
        shadows.note_miss(key);
        shadows.note_miss(key);
        assert_eq!(hits(&shadows), 1);
        assert_eq!(shadows.hits(4, 100, 1 << 20), 0, "another class");
    }

    #[test]
    fn what_a_slab_more_would_not_hold_does_not_count() {
        let shadows = on();
        let keys: Vec<u64> = sampled().take(300).collect();
        keys.iter().for_each(|key| shadows.note_eviction(*key, 3));
        keys.iter().for_each(|key| shadows.note_miss(*key));
        // The last hundred, but for those whose slot another one has taken.
        assert!((90..=101).contains(&hits(&shadows)), "{}", hits(&shadows));
    }

    #[test]
    fn a_hit_of_a_slab_that_holds_few_keys_counts_for_few() {
        let shadows = on();
        let key = sampled().next().expect("a key");
        let hits = || shadows.hits(3, 1 << 19, 4 << 20);
        assert_eq!(hits(), 0);
        shadows.note_eviction(key, 3);
        shadows.note_miss(key);
        assert_eq!(hits(), 8, "a slab of 4 MiB holds 8 chunks of 512 KiB");
    }

    #[test]
    fn numbers_of_evictions_begin_anew() {
        let shadows = on();
        let table = shadows.table.get().expect("it is on");
        table.classes[3].evicted.store(SEQUENCE, Ordering::Relaxed);
        let key = sampled().next().expect("a key");
        shadows.note_eviction(key, 3);
        shadows.note_miss(key);
        assert_eq!(hits(&shadows), 1);
    }

    #[test]
    fn nothing_is_noted_of_other_keys_and_while_it_is_off() {
        let shadows = on();
        let other = (0_u64..).map(mix64).find(|hash| place(*hash) >= shadows.below()).expect("a key");
        shadows.note_eviction(other, 3);
        shadows.note_miss(other);
        let key = sampled().next().expect("a key");
        assert!(!shadows.switch(false));
        shadows.note_eviction(key, 3);
        shadows.switch(true);
        shadows.note_miss(key);
        assert_eq!(hits(&shadows), 0);
        shadows.note_eviction(key, 3);
        shadows.switch(false);
        shadows.switch(true);
        shadows.note_miss(key);
        assert_eq!(hits(&shadows), 0, "what was noted before it was off");
    }
}
