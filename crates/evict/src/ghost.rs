//! Ghost queues: recently evicted keys.
//!
//! A queue of hashes with an index over it would cost 12 bytes and more per entry. Here a cache
//! line is a *set* of 21 slots with 16 bits of a key's hash and the 8-bit *epoch* in which it was
//! evicted; a key's set follows from its hash. The table has half as many slots again as the queue
//! has entries, so that a set is rarely full: 4.6 bytes per entry. S3-FIFO has one such queue; ARC
//! has two, which share a table, and one bit of the tag names the queue of a key.
//!
//! An epoch is a 64th of the capacity. The number of live entries is kept per epoch, and the oldest
//! epoch dies as a whole when there are more entries than the capacity: a FIFO queue, exact up to
//! an epoch (and exact for up to 14 entries). A key that is found is removed, and its place becomes
//! free. An unknown key is mistaken for an entry about once in 4,700 times (with two queues 2,350),
//! by a hash collision: it then enters the main queue of S3-FIFO, or T2 of ARC.
//!
//! A key's set is `hash * sets >> 32`, so a table of another size takes over the contents of the
//! sets that its own sets begin in: more than half of the entries survive a change of size.
//!
//! An entry inserted into a large ghost waits in a short ring until its set, which is prefetched at
//! once, has arrived from memory; meanwhile it counts as remembered.
//!
//! Invariants, for each queue:
//! 1. Alive epochs are `oldest ..= present`, at most `WINDOW` of 256.
//! 2. `alive[e]` is the number of slots with epoch `e`, for alive epochs, and `total` their sum.
//! 3. A slot of a dead epoch is emptied before its epoch's number is used again, at least
//!    `256 - WINDOW` epochs later: every 8th insertion cleans a set, and more of them if the table
//!    is large for its epochs.

const SLOTS: usize = 21;
const EPOCHS_PER_CAPACITY: usize = 64;
const WINDOW: u8 = 200;
const INSERTIONS_PER_CLEANING: usize = 8;
/// Epochs in which all sets are cleaned: fewer than lie between the death of an epoch and the reuse
/// of its number.
const EPOCHS_PER_ROUND: usize = 48;
const _: () = assert!(EPOCHS_PER_ROUND + WINDOW as usize <= 250);
/// Most insertions that wait for their set at a time.
const WAITING: usize = 16;
/// Ghosts of fewer entries insert at once, as they are in the processor's caches.
const LARGE: usize = 4_096;

/// A cache line of slots. Tag 0 = vacant.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Set {
    tags: [u16; SLOTS],
    epochs: [u8; SLOTS],
}

const _: () = assert!(size_of::<Set>() == 64);

impl Set {
    const EMPTY: Self = Self { tags: [0; SLOTS], epochs: [0; SLOTS] };
}

/// The epochs of one queue.
#[derive(Default)]
struct Epochs {
    /// Live entries by epoch; empty until the first insertion.
    alive: Vec<u32>,
    total: usize,
    oldest: u8,
    present: u8,
    inserted_in_epoch: usize,
}

impl Epochs {
    fn is_alive(&self, epoch: u8) -> bool {
        epoch.wrapping_sub(self.oldest) <= self.present.wrapping_sub(self.oldest)
    }

    fn forget(&mut self, epoch: u8) {
        self.alive[usize::from(epoch)] -= 1;
        self.total -= 1;
    }

    fn begin_next(&mut self) {
        self.inserted_in_epoch = 0;
        if self.present.wrapping_sub(self.oldest) >= WINDOW - 1 {
            self.let_oldest_die();
        }
        self.present = self.present.wrapping_add(1);
    }

    /// Ends the oldest epochs until at most `most` entries are alive, or only the present epoch is.
    fn bury(&mut self, most: usize) {
        while self.total > most && self.oldest != self.present {
            self.let_oldest_die();
        }
    }

    fn let_oldest_die(&mut self) {
        let oldest = usize::from(self.oldest);
        self.total -= self.alive[oldest] as usize;
        self.alive[oldest] = 0;
        self.oldest = self.oldest.wrapping_add(1);
    }
}

/// Recently evicted keys, in one or two queues.
pub struct GhostQueue<const QUEUES: usize = 1> {
    sets: Vec<Set>,
    capacity: usize,
    is_closed: bool,
    queues: [Epochs; QUEUES],
    /// Remaining insertions until the next set is cleaned.
    until_cleaning: usize,
    clean_at: usize,
    waiting: Waiting,
}

/// The newest insertions into a large ghost; once full, a ring whose oldest is at `next`.
#[derive(Default)]
struct Waiting {
    hashes: [u32; WAITING],
    /// A bit for each: its queue.
    queues: u16,
    len: usize,
    next: usize,
}

const _: () = assert!(WAITING == u16::BITS as usize);

impl Waiting {
    /// Adds a key, and returns the oldest one if there are too many.
    fn push(&mut self, queue: usize, hash: u32) -> Option<(usize, u32)> {
        let at = if self.len < WAITING { self.len } else { self.next };
        let oldest = (self.len == WAITING).then(|| self.get(at));
        self.hashes[at] = hash;
        self.queues = self.queues & !(1 << at) | (queue as u16) << at;
        if oldest.is_some() {
            self.next = (at + 1) % WAITING;
        } else {
            self.len += 1;
        }
        oldest
    }

    fn get(&self, at: usize) -> (usize, u32) {
        (usize::from(self.queues >> at & 1), self.hashes[at])
    }

    /// All, the oldest first.
    fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        (0..self.len).map(|i| self.get((self.next + i) % WAITING))
    }

    /// Returns whether a key may be among them: true for each that is, and perhaps for hash 0.
    /// Compares all, without a branch, which is faster than to stop at the first.
    #[inline]
    fn may_have(&self, hash: u32) -> bool {
        self.hashes.iter().fold(false, |any, waiting| any | (*waiting == hash))
    }
}

impl<const QUEUES: usize> Default for GhostQueue<QUEUES> {
    fn default() -> Self {
        const { assert!(QUEUES == 1 || QUEUES == 2, "a tag has one bit for the queue") };
        Self {
            sets: Vec::new(),
            capacity: 0,
            is_closed: false,
            queues: std::array::from_fn(|_| Epochs::default()),
            until_cleaning: 0,
            clean_at: 0,
            waiting: Waiting::default(),
        }
    }
}

impl<const QUEUES: usize> GhostQueue<QUEUES> {
    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        let epochs: usize = self.queues.iter().map(|queue| queue.alive.capacity() * size_of::<u32>()).sum();
        self.sets.capacity() * size_of::<Set>() + epochs
    }

    /// The most entries in all queues together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of entries of a queue.
    pub fn len(&self, queue: usize) -> usize {
        self.queues[queue].total + self.waiting.iter().filter(|(of, _)| *of == queue).count()
    }

    /// Returns whether no queue has an entry.
    pub fn is_empty(&self) -> bool {
        self.waiting.len == 0 && self.queues.iter().all(|queue| queue.total == 0)
    }

    /// Opens or closes the ghost. A closed ghost forgets insertions, has no capacity and gets none;
    /// after it is opened again, the caller must set its capacity.
    pub fn set_open(&mut self, is_open: bool) {
        self.is_closed = !is_open;
        self.capacity = 0;
    }

    /// Makes room for `capacity` entries, unless the ghost is closed. Copies the table only if it
    /// is too small or more than a quarter too large.
    pub fn set_capacity(&mut self, capacity: usize) {
        if self.is_closed {
            return;
        }
        if capacity < LARGE {
            self.settle();
        }
        self.capacity = capacity;
        let wanted = (capacity * 3 / 2).div_ceil(SLOTS).max(1);
        if wanted > self.sets.len() || wanted * 5 / 4 + 1 < self.sets.len() {
            // A sixteenth more than needed, so that a growing class does not copy the table at
            // every slab.
            self.rebuild(wanted + wanted / 16);
        }
        self.bury();
    }

    fn rebuild(&mut self, count: usize) {
        let old = std::mem::take(&mut self.sets);
        self.sets = (0..count)
            .map(|i| if old.is_empty() { Set::EMPTY } else { old[i * old.len() / count] })
            .collect();
        for queue in &mut self.queues {
            queue.alive.resize(256, 0);
            queue.alive.fill(0);
            queue.total = 0;
        }
        self.clean_at = 0;
        for i in 0..count {
            self.clean(i);
            let Set { tags, epochs } = self.sets[i];
            for (tag, epoch) in tags.iter().zip(epochs).filter(|(tag, _)| **tag != 0) {
                let queue = &mut self.queues[Self::queue_of(*tag)];
                queue.alive[usize::from(epoch)] += 1;
                queue.total += 1;
            }
        }
    }

    /// The set of a key, and its tag without the bit of the queue.
    fn place(&self, hash: u32) -> (usize, u16) {
        let set = ((u64::from(hash) * self.sets.len() as u64) >> 32) as usize;
        let tag = if QUEUES == 1 { hash as u16 } else { hash as u16 & 0x7fff };
        (set, tag.max(1))
    }

    fn queue_of(tag: u16) -> usize {
        if QUEUES == 1 { 0 } else { usize::from(tag >> 15) }
    }

    fn is_alive(&self, tag: u16, epoch: u8) -> bool {
        tag != 0 && self.queues[Self::queue_of(tag)].is_alive(epoch)
    }

    /// Adds a key to a queue; beyond the capacity, the oldest keys are dropped.
    pub fn insert(&mut self, queue: usize, hash: u32) {
        if self.capacity == 0 || self.sets.is_empty() {
            return;
        }
        if self.capacity < LARGE {
            return self.insert_now(queue, hash);
        }
        self.prefetch(hash);
        if let Some((queue, hash)) = self.waiting.push(queue, hash) {
            self.insert_now(queue, hash);
        }
    }

    /// Prefetches the set that [`Self::remove`] of this key will read.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        if let Some(set) = self.sets.get(self.place(hash).0) {
            base::sync::prefetch(set);
        }
    }

    /// Inserts the waiting entries.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (queue, hash) in waiting.iter() {
            self.insert_now(queue, hash);
        }
    }

    /// The age of each slot of a set: 255 if it is vacant or dead.
    #[inline]
    fn ages(&self, set: &Set) -> [u8; SLOTS] {
        let mut ages = [u8::MAX; SLOTS];
        for ((age, tag), epoch) in ages.iter_mut().zip(set.tags).zip(set.epochs) {
            let queue = &self.queues[Self::queue_of(tag)];
            let dead = tag == 0 || !queue.is_alive(epoch);
            *age = if dead { u8::MAX } else { queue.present.wrapping_sub(epoch) };
        }
        ages
    }

    fn insert_now(&mut self, queue: usize, hash: u32) {
        let (set, tag) = self.place(hash);
        // The first slot that is vacant or dead, or else the oldest.
        let ages = self.ages(&self.sets[set]);
        let most = ages.iter().copied().max().unwrap_or(u8::MAX);
        let slot = ages.iter().position(|age| *age == most).unwrap_or(0);
        if most != u8::MAX {
            let Set { tags, epochs } = &self.sets[set];
            self.queues[Self::queue_of(tags[slot])].forget(epochs[slot]);
        }
        let into = &mut self.queues[queue];
        self.sets[set].tags[slot] = tag | (queue as u16) << 15;
        self.sets[set].epochs[slot] = into.present;
        into.alive[usize::from(into.present)] += 1;
        into.total += 1;
        into.inserted_in_epoch += 1;
        let in_epoch = (self.capacity / EPOCHS_PER_CAPACITY).max(1);
        if into.inserted_in_epoch >= in_epoch {
            into.begin_next();
        }
        self.bury();
        if self.until_cleaning > 0 {
            self.until_cleaning -= 1;
            return;
        }
        self.clean(self.clean_at);
        self.clean_at = (self.clean_at + 1) % self.sets.len();
        let most = EPOCHS_PER_ROUND * in_epoch / self.sets.len();
        self.until_cleaning = most.clamp(1, INSERTIONS_PER_CLEANING) - 1;
    }

    /// Removes a key, and returns the queue that it was in.
    pub fn remove(&mut self, hash: u32) -> Option<usize> {
        if self.sets.is_empty() {
            return None;
        }
        if self.waiting.may_have(hash) {
            self.settle();
        }
        let (set, tag) = self.place(hash);
        let Set { tags, epochs } = &self.sets[set];
        let bits_of_tag = if QUEUES == 1 { 0xffff } else { 0x7fff };
        // Most keys are not there, which one comparison of all tags tells.
        if !tags.iter().fold(false, |any, other| any | (other & bits_of_tag == tag)) {
            return None;
        }
        let slot = (0..SLOTS)
            .find(|slot| tags[*slot] & bits_of_tag == tag && self.is_alive(tags[*slot], epochs[*slot]))?;
        let (queue, epoch) = (Self::queue_of(tags[slot]), epochs[slot]);
        self.sets[set].tags[slot] = 0;
        self.queues[queue].forget(epoch);
        Some(queue)
    }

    /// Drops the oldest keys of a queue until it has at most `most`, or only those of the present
    /// epoch.
    pub fn shrink(&mut self, queue: usize, most: usize) {
        self.queues[queue].bury(most);
    }

    /// Drops the oldest keys until at most the capacity remains.
    fn bury(&mut self) {
        let others: usize = self.queues.iter().skip(1).map(|queue| queue.total).sum();
        self.queues[0].bury(self.capacity.saturating_sub(others));
        if QUEUES > 1 {
            let most = self.capacity.saturating_sub(self.queues[0].total);
            self.queues[1].bury(most);
        }
    }

    /// Empties the dead slots of a set.
    fn clean(&mut self, set: usize) {
        let Set { mut tags, epochs } = self.sets[set];
        for (tag, epoch) in tags.iter_mut().zip(epochs) {
            if !self.is_alive(*tag, epoch) {
                *tag = 0;
            }
        }
        self.sets[set].tags = tags;
    }

    #[cfg(test)]
    fn validate(&mut self) {
        self.settle();
        for (number, queue) in self.queues.iter().enumerate() {
            assert!(queue.present.wrapping_sub(queue.oldest) < WINDOW, "invariant 1");
            let mut alive = vec![0; 256];
            for set in &self.sets {
                for (_, epoch) in
                    set.tags.iter().zip(set.epochs).filter(|(tag, epoch)| {
                        Self::queue_of(**tag) == number && self.is_alive(**tag, *epoch)
                    })
                {
                    alive[usize::from(epoch)] += 1;
                }
            }
            assert_eq!(alive.iter().sum::<u32>() as usize, queue.total, "invariant 2");
            assert!(queue.alive.is_empty() || alive == queue.alive, "invariant 2");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::mix64;
    use std::collections::VecDeque;

    fn hash(i: u64) -> u32 {
        mix64(i) as u32
    }

    #[test]
    fn a_small_ghost_is_an_exact_fifo_in_which_a_found_key_makes_room() {
        for capacity in [1, 9, 14] {
            let mut ghost = GhostQueue::<1>::default();
            ghost.set_capacity(capacity);
            let mut model = VecDeque::new();
            for step in 0..20_000_u64 {
                let key = mix64(step) % (3 * capacity as u64);
                let expected = model.iter().position(|k| *k == key).map(|i| model.remove(i)).is_some();
                assert_eq!(ghost.remove(hash(key)).is_some(), expected, "capacity {capacity}, step {step}");
                if !mix64(step + 1).is_multiple_of(3) {
                    ghost.insert(0, hash(key));
                    model.push_back(key);
                    if model.len() > capacity {
                        model.pop_front();
                    }
                }
            }
            ghost.validate();
        }
    }

    #[test]
    fn a_large_ghost_remembers_the_recent_and_rarely_errs() {
        const CAPACITY: u64 = 100_000;
        let mut ghost = GhostQueue::<1>::default();
        ghost.set_capacity(CAPACITY as usize);
        (0..10 * CAPACITY).for_each(|i| ghost.insert(0, hash(i)));
        ghost.validate();
        let remembered = |ghost: &mut GhostQueue<1>, from: u64, to: u64| {
            (from..to).filter(|&i| ghost.remove(hash(i)).is_some()).count() as f64 / (to - from) as f64
        };
        let strange = remembered(&mut ghost, 20 * CAPACITY, 21 * CAPACITY);
        assert!(strange < 0.001, "{strange}");
        let recent = remembered(&mut ghost, 9 * CAPACITY + CAPACITY / 20, 10 * CAPACITY);
        assert!(recent > 0.98, "{recent}");
        let old = remembered(&mut ghost, 0, 9 * CAPACITY - CAPACITY / 20);
        assert!(old < 0.002, "{old}");
        assert!(ghost.bytes() as u64 <= CAPACITY * 5, "{}", ghost.bytes());
        ghost.validate();
    }

    #[test]
    fn the_waiting_are_a_ring_that_gives_the_oldest_away() {
        let (mut waiting, mut model) = (Waiting::default(), VecDeque::new());
        for step in 0..100_u64 {
            let (queue, hash) = (mix64(step) as usize & 1, hash(step % 40));
            let oldest = (model.len() == WAITING).then(|| model.pop_front()).flatten();
            model.push_back((queue, hash));
            assert_eq!(waiting.push(queue, hash), oldest, "step {step}");
            assert!(waiting.iter().eq(model.iter().copied()), "step {step}");
            for key in 0..40 {
                let hash = super::tests::hash(key);
                assert_eq!(waiting.may_have(hash), model.iter().any(|(_, waiting)| *waiting == hash));
            }
        }
    }

    #[test]
    fn what_waits_counts_and_is_found_in_its_queue() {
        for (added, settles) in [(1, false), (15, false), (16, false), (17, false), (40, false), (40, true)] {
            let mut ghost = GhostQueue::<2>::default();
            ghost.set_capacity(LARGE);
            // Hash 0 among them.
            let hash = |i: u64| if i == added - 1 { 0 } else { hash(i + 1) };
            (0..added).for_each(|i| ghost.insert((i % 2) as usize, hash(i)));
            if settles {
                ghost.set_capacity(LARGE - 1);
            }
            assert_eq!((ghost.len(0), ghost.len(1)), (added.div_ceil(2) as usize, added as usize / 2));
            for i in (0..added).rev() {
                assert_eq!(ghost.remove(hash(i)), Some((i % 2) as usize), "{i} of {added}");
            }
            assert!(ghost.is_empty());
            ghost.validate();
        }
    }

    #[test]
    fn growth_keeps_more_than_half_of_what_is_remembered() {
        let mut ghost = GhostQueue::<1>::default();
        ghost.set_capacity(1_000);
        (0..800).for_each(|i| ghost.insert(0, hash(i)));
        ghost.set_capacity(1_700);
        ghost.validate();
        let kept = (0..800).filter(|&i| ghost.remove(hash(i)).is_some()).count();
        assert!(kept > 400, "{kept}");
        ghost.set_capacity(10);
        ghost.validate();
    }

    /// Most keys are found soon, so that epochs die of age alone, and few insertions lie between
    /// their death and the return of their numbers.
    #[test]
    fn epochs_that_die_of_age_are_empty_when_their_numbers_return() {
        for capacity in (16..4_200).step_by(37).flat_map(|capacity| [capacity, capacity + capacity / 6]) {
            let mut ghost = GhostQueue::<1>::default();
            // The table is a little larger than it has to be.
            ghost.set_capacity(capacity + capacity / 5);
            ghost.set_capacity(capacity);
            for step in 0..40 * capacity as u64 {
                ghost.insert(0, hash(step));
                if !mix64(step).is_multiple_of(8) {
                    ghost.remove(hash(step));
                }
                if step.is_multiple_of(1_000) {
                    ghost.validate();
                }
            }
            ghost.validate();
        }
    }

    #[test]
    fn two_queues_share_a_table_and_shrink_apart() {
        const EACH: u64 = 20_000;
        let mut ghost = GhostQueue::<2>::default();
        ghost.set_capacity(2 * EACH as usize);
        for i in 0..3 * EACH {
            ghost.shrink(0, EACH as usize);
            ghost.shrink(1, EACH as usize);
            ghost.insert((i % 2) as usize, hash(i));
        }
        ghost.validate();
        let held = |ghost: &GhostQueue<2>| (ghost.len(0) as u64, ghost.len(1) as u64);
        let (first, second) = held(&ghost);
        assert!(first.abs_diff(EACH) < EACH / 40 && second.abs_diff(EACH) < EACH / 40, "{first} {second}");
        ghost.shrink(0, EACH as usize / 4);
        ghost.validate();
        assert!(held(&ghost).0 <= EACH / 4 && held(&ghost).0 > EACH / 5 && held(&ghost).1 == second);
        let right =
            (0..3 * EACH).rev().take(4_000).filter(|&i| ghost.remove(hash(i)) == Some((i % 2) as usize));
        assert!(right.count() > 3_950);
        ghost.validate();
        assert!(!ghost.is_empty());
    }
}
