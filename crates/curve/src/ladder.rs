//! The curve of a policy near the present size of a cache: miniatures at a few sizes around it,
//! which follow it, and beyond them the curve of LRU.
//!
//! Sizes are powers of the fourth root of two, so that a cache that grows or shrinks keeps most of
//! its miniatures: from 0.6 of the present size to 1.7, or nearly. They share a sample of the keys,
//! whose rate follows the number of keys that the cache has, and one table of these: an access is
//! one search, whatever the number of miniatures. A miniature is counted once it is full, or has
//! seen several times its keys: what it missed before says nothing of its size.
//!
//! Miniatures of unlike age have seen unlike requests, so the curve is not made of the misses of
//! each: from the one that has seen most, it goes from size to size by the reads that only the
//! larger of two has hit, while both were counted. While these are few, LRU's curve counts beside
//! them.
//!
//! If the rate changes, all begin anew. To thin out their keys instead leaves the order of a policy
//! as no policy would make it, and some never come out of that: SIEVE keeps a part of a loop then,
//! of which it would keep nothing.
//!
//! Between two sizes the curve falls half as a straight line does, and half as that of LRU does: a
//! cliff of LRU is one of other policies too, or becomes a slope.
//!
//! Invariants:
//! 1. A slot is free, or it is in the table and a miniature holds or queues it.
//! 2. A miniature that holds a slot queues it. One that only queues it has lost the key by a
//!    removal, and drops it when its policy comes by.
//! 3. The size used by a miniature is the sum of those of the slots that it holds.

mod told;

use crate::estimate::{Access, Kind};
use crate::sample::{PLACES, place, threshold};
use crate::table::{Search, Table};

/// Miniatures on either side of the middle one.
const BESIDE: i32 = 3;
/// The number of miniatures.
#[cfg(test)]
pub(crate) const RUNGS: usize = 2 * BESIDE as usize + 1;
/// How far the size may be from that of the middle miniature, in powers.
const OFF_CENTRE: f64 = 1.0;
/// A miniature that does not become full is counted after this many reads for each of its keys.
const READS_PER_KEY: u64 = 4;
/// The fewest keys that the largest miniature has at most.
const LEAST_KEYS: usize = 64;
/// Keys are queued anew if more than a third of the slots, and this many, are of keys that went
/// without being evicted: in miniatures that are not full, they stay in the queues.
const MOST_GONE: usize = 64;
/// The mark of slots of such keys, among the bits of those that queue a slot.
const GONE: u16 = 1 << 15;
/// A miniature that uses less than this part of its capacity has its queue renewed.
const NEARLY_FULL: f64 = 0.9;
/// The part of its most keys that the largest miniature is to have.
const FILLED: f64 = 0.6;
/// The sample's rate changes if another would be better by this factor.
const OTHER_RATE: f64 = 2.0;

/// The order in which a policy evicts keys, which are named by slots.
pub trait Eviction {
    /// Counts a hit on a queued key.
    fn hit(&mut self, slot: u32, hash: u64);

    /// Queues a key. `hashes` returns the hash of a slot, here and below.
    fn push(&mut self, slot: u32, hashes: &dyn Fn(u32) -> u64);

    /// Takes the key out that is to be evicted next; `None` if none is queued.
    fn pop(&mut self, hashes: &dyn Fn(u32) -> u64) -> Option<u32>;

    /// Memory taken, in bytes.
    fn bytes(&self) -> usize;
}

/// A key of the sample.
#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    size: u32,
    /// The bits of the miniatures that hold it, and of those that queue it.
    held: u16,
    queued: u16,
}

/// A cache of one size.
struct Rung<E> {
    /// The size is the fourth root of two to this power.
    power: i32,
    /// Its bit in slots.
    bit: u16,
    order: E,
    capacity: u64,
    used: u64,
    keys: usize,
    has_evicted: bool,
    /// True once its misses say something of its size; they are counted from the next
    /// [`Ladder::count`] on, as reads are that are not recorded.
    is_warm: bool,
    is_counted: bool,
    /// Reads of the sample since it was made, until it is warm.
    warming: u64,
    /// Misses and requests that the sample stands for, and its reads, since it is counted.
    misses: f64,
    requests: f64,
    reads: f64,
    /// The way to the next larger one.
    step: Step,
}

/// The way from a miniature to the next larger one, since both are counted: hits that only the
/// larger one had, requests that the sample stands for, and its reads.
#[derive(Clone, Copy, Default)]
struct Step {
    hits: f64,
    requests: f64,
    reads: f64,
}

impl<E: Eviction> Rung<E> {
    fn new(power: i32, bit: u16, order: E, capacity: u64) -> Self {
        Self {
            power,
            bit,
            order,
            capacity,
            used: 0,
            keys: 0,
            has_evicted: false,
            is_warm: false,
            is_counted: false,
            warming: 0,
            misses: 0.0,
            requests: 0.0,
            reads: 0.0,
            step: Step::default(),
        }
    }

    fn count(&mut self, is_hit: bool, weight: f64) {
        if self.is_counted {
            self.reads += 1.0;
            self.misses += if is_hit { 0.0 } else { weight };
        } else if !self.is_warm {
            self.warming += 1;
            self.is_warm = self.has_evicted || self.warming > READS_PER_KEY * self.keys as u64 + 64;
        }
    }

    /// Evicts until this size fits. Returns whether it does.
    fn make_room(&mut self, slots: &mut [Slot], size: u32, lost: &mut Vec<u32>) -> bool {
        while self.used + u64::from(size) > self.capacity {
            let evicted = self.order.pop(&|slot| slots[slot as usize].hash);
            let Some(number) = evicted else { return false };
            let slot = &mut slots[number as usize];
            slot.queued &= !self.bit;
            if slot.held & self.bit != 0 {
                self.let_go(slot);
                self.has_evicted = true;
            }
            if slot.held | slot.queued & !GONE == 0 {
                lost.push(number);
            }
        }
        true
    }

    /// Lets a slot go that it holds.
    fn let_go(&mut self, slot: &mut Slot) {
        slot.held &= !self.bit;
        self.used -= u64::from(slot.size);
        self.keys -= 1;
    }

    /// Inserts a key that it does not hold.
    fn insert(&mut self, slots: &mut [Slot], number: u32, lost: &mut Vec<u32>) {
        let size = slots[number as usize].size;
        if u64::from(size) > self.capacity || !self.make_room(slots, size, lost) {
            return;
        }
        // One that is still queued takes its former place.
        if slots[number as usize].queued & self.bit == 0 {
            self.order.push(number, &|slot| slots[slot as usize].hash);
        }
        let slot = &mut slots[number as usize];
        slot.queued |= self.bit;
        slot.held |= self.bit;
        self.used += u64::from(size);
        self.keys += 1;
    }
}

/// Miniatures of one policy around the present size of a cache.
pub struct Ladder<E> {
    make: Box<dyn Fn() -> E + Send>,
    rungs: Vec<Rung<E>>,
    table: Table,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots that nobody may hold or queue any more, while an access is recorded.
    lost: Vec<u32>,
    /// Slots with the mark [`GONE`], and the number of these at which queues are renewed.
    gone: usize,
    most_gone: usize,
    /// The highest rate of the sample: as it was made, and since there were too many keys.
    most_rate: f64,
    rate_that_fits: f64,
    /// Keys whose place lies below are followed.
    threshold: u32,
    weight: f64,
    max_keys: usize,
}

fn size_of_power(power: i32) -> f64 {
    2.0_f64.powf(f64::from(power) / 4.0)
}

impl<E: Eviction> Ladder<E> {
    /// Creates one without miniatures, which follows at most this share of all keys, and has at
    /// most `max_keys` in the largest miniature. `make` returns the order of an empty one.
    ///
    /// # Panics
    /// If the rate is not above 0 and at most 1.
    pub fn new(rate: f64, max_keys: usize, make: impl Fn() -> E + Send + 'static) -> Self {
        let threshold = threshold(rate);
        Self {
            make: Box::new(make),
            rungs: Vec::new(),
            table: Table::default(),
            slots: Vec::new(),
            free: Vec::new(),
            lost: Vec::new(),
            gone: 0,
            most_gone: MOST_GONE,
            most_rate: rate,
            rate_that_fits: rate,
            threshold,
            weight: f64::from(PLACES) / f64::from(threshold),
            max_keys: max_keys.max(LEAST_KEYS),
        }
    }

    /// The threshold: keys whose place ([`crate::sample::place`]) lies below it are followed.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    fn capacity(&self, power: i32) -> u64 {
        ((size_of_power(power) / self.weight).round() as u64).max(1)
    }

    /// Has the miniatures follow a cache that has this size, and this many keys, now.
    pub fn follow(&mut self, size: u64, keys: u64) {
        let largest = keys.max(1) as f64 * size_of_power(BESIDE);
        // If keys in use are smaller than those of the whole cache, there are more of them.
        if self.rungs.last().is_some_and(|rung| rung.has_evicted && rung.keys * 4 < self.max_keys) {
            self.rate_that_fits = (self.rate_that_fits * OTHER_RATE).min(self.most_rate);
        }
        let rate = (FILLED * self.max_keys as f64 / largest).min(self.rate_that_fits);
        let times = rate * self.weight;
        if self.rungs.is_empty() || !(1.0 / OTHER_RATE..=OTHER_RATE).contains(&times) {
            self.begin_with(rate);
        }
        let power = 4.0 * (size.max(1) as f64).log2();
        let is_near = |rung: &Rung<E>| (power - f64::from(rung.power)).abs() <= OFF_CENTRE;
        if self.rungs.get(BESIDE as usize).is_some_and(is_near) {
            return;
        }
        let wanted = power.round() as i32 - BESIDE..=power.round() as i32 + BESIDE;
        for gone in self.rungs.extract_if(.., |rung| !wanted.contains(&rung.power)) {
            for slot in &mut self.slots {
                (slot.held, slot.queued) = (slot.held & !gone.bit, slot.queued & !gone.bit);
            }
        }
        let missing: Vec<i32> =
            wanted.filter(|power| self.rungs.iter().all(|rung| rung.power != *power)).collect();
        self.add(missing);
        self.sweep();
    }

    /// Records accesses, of which those to followed keys count.
    pub fn record_all(&mut self, accesses: &[Access]) {
        for access in accesses {
            if place(access.hash) < self.threshold {
                self.record(access);
            }
        }
        self.add_requests(accesses.iter().filter(|access| access.kind.counts()).count() as u64);
        if self.rungs.iter().any(|rung| rung.keys > self.max_keys) {
            let powers: Vec<i32> = self.rungs.iter().map(|rung| rung.power).collect();
            self.rate_that_fits = 1.0 / (OTHER_RATE * self.weight);
            self.begin_with(self.rate_that_fits);
            self.add(powers);
        }
    }

    /// Forgets all, and follows this share of the keys.
    #[cold]
    fn begin_with(&mut self, rate: f64) {
        self.threshold = threshold(rate.clamp(f64::MIN_POSITIVE, self.most_rate));
        self.weight = f64::from(PLACES) / f64::from(self.threshold);
        (self.rungs, self.slots, self.free) = (Vec::new(), Vec::new(), Vec::new());
        self.table = Table::default();
        (self.gone, self.most_gone) = (0, MOST_GONE);
    }

    /// Adds miniatures of these sizes.
    fn add(&mut self, powers: impl IntoIterator<Item = i32>) {
        for power in powers {
            let taken = self.rungs.iter().fold(0_u16, |bits, rung| bits | rung.bit);
            let bit = 1 << taken.trailing_ones();
            let rung = Rung::new(power, bit, (self.make)(), self.capacity(power));
            self.rungs.push(rung);
        }
        self.rungs.sort_by_key(|rung| rung.power);
        // Of those whose next larger one is new nothing is known.
        let mut is_next_new = true;
        for rung in self.rungs.iter_mut().rev() {
            if is_next_new {
                rung.step = Step::default();
            }
            is_next_new = !rung.is_counted;
        }
    }

    fn record(&mut self, access: &Access) {
        let Access { hash, size, kind } = *access;
        let found = match self.table.search(hash) {
            Search::Found(entry) => Some(self.table.get(entry).0),
            Search::Absent(_) => None,
        };
        if let Some(number) = found {
            self.resize(number, size);
        }
        let held = found.map_or(0, |number| self.slots[number as usize].held);
        if let Some(number) = found.filter(|_| matches!(kind, Kind::Read | Kind::Write)) {
            let slot = &mut self.slots[number as usize];
            self.gone -= usize::from(slot.queued & GONE != 0);
            slot.queued &= !GONE;
        }
        match kind {
            Kind::Remove => {
                if let Some(number) = found {
                    self.drop_key(number);
                }
            }
            Kind::Read | Kind::Lookup => {
                let number = if kind == Kind::Read { Some(self.slot_of(found, access)) } else { found };
                for rung in &mut self.rungs {
                    let is_hit = held & rung.bit != 0;
                    match number {
                        Some(number) if is_hit => rung.order.hit(number, hash),
                        Some(number) if kind == Kind::Read => {
                            rung.insert(&mut self.slots, number, &mut self.lost);
                        }
                        _ => {}
                    }
                    rung.count(is_hit, self.weight);
                }
                self.count_steps(held);
            }
            Kind::Write => {
                let number = self.slot_of(found, access);
                for rung in self.rungs.iter_mut().filter(|rung| held & rung.bit == 0) {
                    rung.insert(&mut self.slots, number, &mut self.lost);
                }
                self.lost.push(number);
            }
        }
        self.free_lost();
        if self.gone > self.most_gone {
            self.renew();
        }
    }

    /// Counts a read of a key that these miniatures held, between each two of them.
    fn count_steps(&mut self, held: u16) {
        let hits = |bit: u16| if held & bit == 0 { 0.0 } else { self.weight };
        let mut larger: Option<(u16, bool)> = None;
        for rung in self.rungs.iter_mut().rev() {
            if let Some((bit, true)) = larger.filter(|_| rung.is_counted) {
                rung.step.reads += 1.0;
                rung.step.hits += hits(bit) - hits(rung.bit);
            }
            larger = Some((rung.bit, rung.is_counted));
        }
    }

    /// The slot of a key, a new one if it has none.
    fn slot_of(&mut self, found: Option<u32>, access: &Access) -> u32 {
        if let Some(number) = found {
            return number;
        }
        let slot = Slot { hash: access.hash, size: access.size.max(1), held: 0, queued: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        if self.table.is_full() {
            self.table.grow(|_, _| {});
        }
        if let Search::Absent(entry) = self.table.search(access.hash) {
            self.table.take(entry, access.hash, number, 0);
        }
        // If nobody has room for it.
        self.lost.push(number);
        number
    }

    /// Has a key take this size; 0 = as before.
    fn resize(&mut self, number: u32, size: u32) {
        let slot = &mut self.slots[number as usize];
        if size == 0 || size == slot.size {
            return;
        }
        let before = std::mem::replace(&mut slot.size, size);
        let held = slot.held;
        for rung in self.rungs.iter_mut().filter(|rung| held & rung.bit != 0) {
            rung.used = rung.used - u64::from(before) + u64::from(size);
            rung.make_room(&mut self.slots, 0, &mut self.lost);
        }
    }

    /// Has all miniatures lose a key; their queues keep it.
    fn drop_key(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        for rung in &mut self.rungs {
            if slot.held & rung.bit != 0 {
                rung.let_go(slot);
            }
        }
        if slot.queued & GONE == 0 {
            slot.queued |= GONE;
            self.gone += 1;
        }
        self.lost.push(number);
    }

    /// Frees the slots among the lost ones that nobody holds or queues.
    fn free_lost(&mut self) {
        while let Some(number) = self.lost.pop() {
            let slot = self.slots[number as usize];
            if slot.held | slot.queued & !GONE == 0
                && let Search::Found(entry) = self.table.search(slot.hash)
                && self.table.get(entry).0 == number
            {
                self.table.remove(entry, |_, _| {});
                self.gone -= usize::from(slot.queued & GONE != 0);
                self.slots[number as usize].queued = 0;
                self.free.push(number);
            }
        }
    }

    /// Frees all slots that nobody holds or queues.
    fn sweep(&mut self) {
        self.lost.extend(0..self.slots.len() as u32);
        self.free_lost();
    }

    /// Queues the keys of miniatures that are not full anew, so that these forget what they have
    /// lost. Those that are full come by such keys as they evict.
    #[cold]
    fn renew(&mut self) {
        for rung in &mut self.rungs {
            if rung.used as f64 > NEARLY_FULL * rung.capacity as f64 {
                continue;
            }
            rung.order = (self.make)();
            for number in 0..self.slots.len() {
                let slot = &mut self.slots[number];
                slot.queued = slot.queued & !rung.bit | slot.held & rung.bit;
                if slot.held & rung.bit != 0 {
                    rung.order.push(number as u32, &|slot| self.slots[slot as usize].hash);
                }
            }
        }
        self.sweep();
        let used = self.slots.len() - self.free.len();
        self.most_gone = self.gone + (used - self.gone) / 3 + MOST_GONE;
    }

    /// Counts reads that were not recorded, of the time since the last call. Miniatures that are
    /// warm are counted from now on.
    pub fn count(&mut self, reads: u64) {
        self.add_requests(reads);
        self.rungs.iter_mut().for_each(|rung| rung.is_counted |= rung.is_warm);
    }

    fn add_requests(&mut self, reads: u64) {
        let mut is_next_counted = false;
        for rung in self.rungs.iter_mut().rev() {
            if rung.is_counted {
                rung.requests += reads as f64;
                rung.step.requests += if is_next_counted { reads as f64 } else { 0.0 };
            }
            is_next_counted = rung.is_counted;
        }
    }

    /// Has all counts so far count half.
    pub fn age(&mut self) {
        for rung in &mut self.rungs {
            (rung.misses, rung.requests, rung.reads) =
                (rung.misses / 2.0, rung.requests / 2.0, rung.reads / 2.0);
            let Step { hits, requests, reads } = rung.step;
            rung.step = Step { hits: hits / 2.0, requests: requests / 2.0, reads: reads / 2.0 };
        }
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> usize {
        let of_rungs = self.rungs.iter().map(|rung| size_of::<Rung<E>>() + rung.order.bytes()).sum::<usize>();
        size_of::<Self>()
            + of_rungs
            + self.table.bytes()
            + self.slots.capacity() * size_of::<Slot>()
            + (self.free.capacity() + self.lost.capacity()) * size_of::<u32>()
    }
}
