//! Three LRU orders in one byte per item, kept by hits without a lock.
//!
//! The policies that divide their items into parts ([`crate::lists`]) need two things of a hit: it
//! moves the item to the top of a part, and it changes the number of items of the parts. Here the
//! byte is a *stamp*: a part and a *generation* of that part, as the generations of [`crate::lru`]
//! are for a plain LRU. A hit gives the item the present generation of its new part, and updates
//! the counts: one item less with the old stamp, one more with the new. So the sizes of the parts
//! are known at once, while the item's entry moves only when an eviction reaches it.
//!
//! | part | stamps | a hit moves the item to | in 2Q | in ARC | in W-TinyLFU | in LRU with an insertion point |
//! |---|---|---|---|---|---|---|
//! | young | 1–95 | the top of young | hot | – | window | – |
//! | trial | 96–127 | the top of proven | cold | T1 | probation | below the insertion point |
//! | proven | 128–255 | the top of proven | warm | T2 | protected | above it |
//!
//! Between three quarters and seven eighths of the generations of a part are alive (proven: 96 to
//! 112), so that many ages are distinct. With few items a generation is one access, and the order
//! is exact. The trial part needs few generations: its items do not change places, so its order is
//! always exact.
//!
//! Invariants:
//! 1. Alive generations of a part are `oldest ..= present`, fewer than its stamps; a stamp of a
//!    dead generation is not counted.
//! 2. `live[stamp]` is the number of items with that stamp, and `len` of a part the sum over its
//!    alive generations — except that hits that race with each other or with a removal may be
//!    counted twice or not at all. Such an error ends when its generation dies. So sizes only guide
//!    decisions, and no other invariant depends on them.

use std::ops::Index;

use base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

/// A generation has at most one in this many items of its part.
const LONGEST_PART: usize = 16;

/// The stamp of an item that is not queued yet; hits do not change it.
const UNQUEUED: u8 = 0;

/// A part of the items of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Young = 0,
    Trial = 1,
    Proven = 2,
}

pub(crate) const PARTS: [Part; 3] = [Part::Young, Part::Trial, Part::Proven];

impl Part {
    /// The part of a stamp.
    #[inline]
    pub(crate) const fn of(stamp: u8) -> Self {
        match stamp {
            0..96 => Self::Young,
            96..128 => Self::Trial,
            128.. => Self::Proven,
        }
    }

    /// The first stamp. Stamp 0 of young does not belong to a generation.
    const fn first(self) -> u8 {
        match self {
            Self::Young => 0,
            Self::Trial => 96,
            Self::Proven => 128,
        }
    }

    /// The number of stamps.
    const fn count(self) -> u8 {
        match self {
            Self::Young => 96,
            Self::Trial => 32,
            Self::Proven => 128,
        }
    }

    /// Most generations alive at once.
    const fn window(self) -> u8 {
        self.count() - 4
    }

    /// The generations of a part are made longer above this many …
    const fn many(self) -> u8 {
        self.count() / 4 * 3
    }

    /// … and shorter below this many.
    const fn few(self) -> u8 {
        self.count() / 8 * 5
    }

    /// The place of a stamp among those of its part.
    const fn offset(stamp: u8) -> u8 {
        stamp - Self::of(stamp).first()
    }

    /// The generation after that of `offset`.
    const fn following(self, offset: u8) -> u8 {
        let next = if offset + 1 == self.count() { 0 } else { offset + 1 };
        if self.first() + next == UNQUEUED { next + 1 } else { next }
    }

    /// The generation before that of `offset`.
    const fn preceding(self, offset: u8) -> u8 {
        let before = if offset == 0 { self.count() } else { offset } - 1;
        if self.first() + before == UNQUEUED { self.count() - 1 } else { before }
    }

    /// The number of generations from `from` up to `to`.
    const fn distance(self, from: u8, to: u8) -> u8 {
        if to >= from { to - from } else { to + (self.count() - from) }
    }
}

/// The generations of one part, by their offset from its first stamp.
#[repr(align(64))]
pub(crate) struct Clock {
    present: AtomicU8,
    /// Changed under the lock of the class.
    oldest: AtomicU8,
    /// Number of the oldest generations that lie in the tail; 0 = the tail is not tracked.
    tail_generations: AtomicU8,
    /// Items that a generation may have before the next one begins.
    quantum: AtomicU32,
    len: AtomicU32,
    /// The weight of a hit in those generations, in 256ths.
    tail_weight: AtomicU32,
    tail_hits: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            present: AtomicU8::new(1),
            oldest: AtomicU8::new(1),
            tail_generations: AtomicU8::new(0),
            quantum: AtomicU32::new(1),
            len: AtomicU32::new(0),
            tail_weight: AtomicU32::new(0),
            tail_hits: AtomicU64::new(0),
        }
    }
}

impl Clock {
    fn copy(&self) -> Self {
        Self {
            present: AtomicU8::new(self.present.load(Relaxed)),
            oldest: AtomicU8::new(self.oldest.load(Relaxed)),
            tail_generations: AtomicU8::new(self.tail_generations.load(Relaxed)),
            quantum: AtomicU32::new(self.quantum.load(Relaxed)),
            len: AtomicU32::new(self.len.load(Relaxed)),
            tail_weight: AtomicU32::new(self.tail_weight.load(Relaxed)),
            tail_hits: AtomicU64::new(self.tail_hits.load(Relaxed)),
        }
    }
}

/// The generations of all parts: read and advanced by hits without a lock.
pub(crate) struct Generations {
    clocks: [Clock; 3],
    live: [AtomicU32; 256],
    /// The time at which each generation began, in seconds.
    began: [AtomicU32; 256],
    /// The time when an item was last queued, in seconds.
    now: AtomicU32,
}

impl Default for Generations {
    fn default() -> Self {
        Self {
            clocks: std::array::from_fn(|_| Clock::default()),
            live: std::array::from_fn(|_| AtomicU32::new(0)),
            began: std::array::from_fn(|_| AtomicU32::new(0)),
            now: AtomicU32::new(0),
        }
    }
}

impl Index<Part> for Generations {
    type Output = Clock;

    fn index(&self, part: Part) -> &Clock {
        &self.clocks[part as usize]
    }
}

/// A count that races may have made negative.
fn not_negative(count: u32) -> usize {
    (count as i32).max(0) as usize
}

impl Generations {
    /// Returns a copy with the same state.
    pub(crate) fn copy(&self) -> Self {
        Self {
            clocks: std::array::from_fn(|part| self.clocks[part].copy()),
            live: std::array::from_fn(|stamp| AtomicU32::new(self.live[stamp].load(Relaxed))),
            began: std::array::from_fn(|stamp| AtomicU32::new(self.began[stamp].load(Relaxed))),
            now: AtomicU32::new(self.now()),
        }
    }

    /// Resets to the state without items; `expected` items are about to be queued.
    pub(crate) fn reset(&self, expected: usize, now: u32) {
        for part in PARTS {
            let clock = &self[part];
            clock.present.store(1, Relaxed);
            clock.oldest.store(1, Relaxed);
            clock.len.store(0, Relaxed);
            clock.quantum.store((expected / usize::from(part.many())).max(1) as u32, Relaxed);
        }
        self.live.iter().for_each(|live| live.store(0, Relaxed));
        self.began.iter().for_each(|began| began.store(now, Relaxed));
        self.set_now(now);
    }

    /// Records the time, in seconds.
    pub(crate) fn set_now(&self, now: u32) {
        self.now.store(now, Relaxed);
    }

    /// The last recorded time.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Relaxed)
    }

    /// The stamp of an item after a hit; updates the counts.
    #[inline]
    pub(crate) fn hit(&self, stamp: u8, now: impl Fn() -> u32) -> u8 {
        let present = self.after_hit(stamp);
        if stamp == present { stamp } else { self.restamp(stamp, present, now) }
    }

    /// Updates the counts for an item whose stamp a hit changes. Not a part of `hit`, so that a hit
    /// that changes nothing saves no registers.
    #[inline(never)]
    fn restamp(&self, stamp: u8, present: u8, now: impl Fn() -> u32) -> u8 {
        let from = Part::of(stamp);
        if self[from].tail_generations.load(Relaxed) > 0 {
            self.note_tail_hit(from, stamp);
        }
        self.uncount(stamp);
        self.count(present, now);
        present
    }

    /// The same without counting, for an item that is not queued yet.
    #[inline]
    pub(crate) fn after_hit(&self, stamp: u8) -> u8 {
        match Part::of(stamp) {
            _ if stamp == UNQUEUED => UNQUEUED,
            Part::Young => self.present(Part::Young),
            Part::Trial | Part::Proven => self.present(Part::Proven),
        }
    }

    /// The stamp of an item that moves to the top of `part`.
    #[inline]
    pub(crate) fn present(&self, part: Part) -> u8 {
        part.first() + self[part].present.load(Ordering::Acquire)
    }

    /// The stamp of the least recently used items of `part`.
    pub(crate) fn oldest(&self, part: Part) -> u8 {
        part.first() + self[part].oldest.load(Ordering::Acquire)
    }

    /// The stamp of an item that moves to the bottom of `part`. Under the lock.
    pub(crate) fn below_oldest(&self, part: Part) -> u8 {
        let clock = &self[part];
        let oldest = clock.oldest.load(Relaxed);
        let alive = part.distance(oldest, clock.present.load(Ordering::Acquire));
        let is_full =
            self.live[usize::from(part.first() + oldest)].load(Relaxed) >= clock.quantum.load(Relaxed);
        if is_full && alive < part.window() {
            let older = part.preceding(oldest);
            self.live[usize::from(part.first() + older)].store(0, Relaxed);
            self.began[usize::from(part.first() + older)].store(self.now(), Relaxed);
            clock.oldest.store(older, Ordering::Release);
        }
        self.oldest(part)
    }

    /// The stamp of the generation after that of `stamp`; `None` for the present one.
    pub(crate) fn next(&self, stamp: u8) -> Option<u8> {
        let part = Part::of(stamp);
        (stamp != self.present(part)).then(|| part.first() + part.following(Part::offset(stamp)))
    }

    /// The number of generations by which the stamp's is younger than the oldest of its part.
    #[inline]
    pub(crate) fn age(&self, stamp: u8) -> u8 {
        let part = Part::of(stamp);
        part.distance(self[part].oldest.load(Ordering::Acquire), Part::offset(stamp))
    }

    /// Returns whether the stamp's generation is alive.
    #[inline]
    pub(crate) fn is_alive(&self, stamp: u8) -> bool {
        stamp != UNQUEUED && self.age(stamp) <= self.age(self.present(Part::of(stamp)))
    }

    /// Counts an item with the new stamp `stamp`, and begins the next generation if this one is
    /// full.
    #[inline]
    pub(crate) fn count(&self, stamp: u8, now: impl Fn() -> u32) {
        let part = Part::of(stamp);
        let clock = &self[part];
        clock.len.fetch_add(1, Relaxed);
        let live = self.live[usize::from(stamp)].fetch_add(1, Relaxed).wrapping_add(1) as i32;
        if live >= clock.quantum.load(Relaxed) as i32 && stamp == self.present(part) {
            self.advance(part, Part::offset(stamp), now());
        }
    }

    /// Removes an item with `stamp` from the counts.
    #[inline]
    pub(crate) fn uncount(&self, stamp: u8) {
        if self.is_alive(stamp) {
            self.live[usize::from(stamp)].fetch_sub(1, Relaxed);
            self[Part::of(stamp)].len.fetch_sub(1, Relaxed);
        }
    }

    /// Begins the generation after `present`, unless another thread did or the window is full.
    fn advance(&self, part: Part, present: u8, now: u32) {
        let clock = &self[part];
        let alive = part.distance(clock.oldest.load(Ordering::Acquire), present);
        if alive >= part.window() {
            return;
        }
        let quantum = clock.quantum.load(Relaxed);
        if alive > part.many() {
            let most = (self.len(part) / LONGEST_PART).max(1) as u32;
            clock.quantum.store((quantum + quantum / 8 + 1).min(most), Relaxed);
        } else if alive < part.few() {
            clock.quantum.store((quantum - quantum / 8).max(1), Relaxed);
        }
        let next = part.following(present);
        self.began[usize::from(part.first() + next)].store(now, Relaxed);
        // Only one of several threads that saw the same generation succeeds, and the present
        // generation never goes back.
        let _ = clock.present.compare_exchange(present, next, Ordering::AcqRel, Relaxed);
    }

    /// Ends the oldest generation of `part`, which must not be the present one: its items are no
    /// longer counted. Under the lock.
    pub(crate) fn let_oldest_die(&self, part: Part) {
        let clock = &self[part];
        let oldest = clock.oldest.load(Relaxed);
        clock.oldest.store(part.following(oldest), Ordering::Release);
        let left = self.live[usize::from(part.first() + oldest)].swap(0, Relaxed);
        clock.len.fetch_sub(left, Relaxed);
    }

    /// Lets a generation of `part` have one in this many of its items from now on.
    pub(crate) fn set_quantum(&self, part: Part, one_in: usize) {
        self[part].quantum.store((self.len(part) / one_in).max(1) as u32, Relaxed);
    }

    /// The number of items with a stamp.
    pub(crate) fn live(&self, stamp: u8) -> usize {
        not_negative(self.live[usize::from(stamp)].load(Relaxed))
    }

    /// The number of items of a part.
    pub(crate) fn len(&self, part: Part) -> usize {
        not_negative(self[part].len.load(Relaxed))
    }

    /// The seconds since the oldest generation of `part` began.
    pub(crate) fn age_secs(&self, part: Part, now: u32) -> u32 {
        now.saturating_sub(self.began[usize::from(self.oldest(part))].load(Relaxed))
    }

    /// Counts hits of the last `items` items of `part` as tail hits from now on; 0 = none. The
    /// content of the tail changes, so this is called now and then. Under the lock.
    pub(crate) fn set_tail(&self, part: Part, items: usize) {
        let clock = &self[part];
        let (mut stamp, mut generations, mut covered) = (self.oldest(part), 0, 0);
        while covered < items {
            covered += self.live(stamp);
            generations += 1;
            match self.next(stamp) {
                Some(next) => stamp = next,
                None => break,
            }
        }
        // If a generation is longer than the requested tail, a hit counts in proportion.
        let weight = (items * 256).checked_div(covered).unwrap_or(256).min(256);
        clock.tail_weight.store(weight as u32, Relaxed);
        clock.tail_generations.store(generations, Relaxed);
    }

    /// The seconds since the last use of the item behind the last `items` of `part`, as if the
    /// items of a generation had arrived evenly. The error is the number of items of the part, if
    /// it has no more than that.
    pub(crate) fn age_behind_secs(&self, part: Part, items: usize, now: u32) -> Result<u32, usize> {
        let began = |stamp: u8| self.began[usize::from(stamp)].load(Relaxed);
        let (mut stamp, mut covered) = (self.oldest(part), 0);
        loop {
            let (live, next) = (self.live(stamp), self.next(stamp));
            if covered + live > items {
                let until = next.map_or(now, began);
                let lasted = u64::from(until.saturating_sub(began(stamp)));
                let passed = lasted * (items - covered) as u64 / live as u64;
                return Ok(now.saturating_sub(began(stamp)).saturating_sub(passed as u32));
            }
            covered += live;
            match next {
                Some(next) => stamp = next,
                None => return Err(covered),
            }
        }
    }

    #[cold]
    fn note_tail_hit(&self, part: Part, stamp: u8) {
        let clock = &self[part];
        if self.age(stamp) < clock.tail_generations.load(Relaxed) {
            clock.tail_hits.fetch_add(u64::from(clock.tail_weight.load(Relaxed)), Relaxed);
        }
    }

    /// The number of hits in the tail of `part` since its creation.
    pub(crate) fn tail_hits(&self, part: Part) -> u64 {
        self[part].tail_hits.load(Relaxed) / 256
    }

    /// Checks invariant 1; and invariant 2 in this crate's own tests, where no hit races with the
    /// policy: `stamps` are those of all items.
    pub(crate) fn validate(&self, stamps: &[u8]) {
        for part in PARTS {
            let clock = &self[part];
            let alive = part.distance(clock.oldest.load(Relaxed), clock.present.load(Relaxed));
            // A hit that races with the policy may begin one generation beyond the window, for
            // which there is room.
            let most = if cfg!(test) { part.window() } else { part.count() - 2 };
            assert!(alive <= most, "invariant 1: {alive} generations of {part:?}, at most {most}");
            if !cfg!(test) {
                continue;
            }
            let sum: usize = (0..part.count())
                .map(|offset| part.first() + offset)
                .filter(|stamp| self.is_alive(*stamp))
                .map(|stamp| self.live(stamp))
                .sum();
            assert_eq!(self.len(part), sum, "invariant 2: {part:?}");
        }
        if !cfg!(test) {
            return;
        }
        let mut counted = [0; 256];
        stamps.iter().for_each(|stamp| counted[usize::from(*stamp)] += 1);
        for (stamp, counted) in (0..=255).zip(counted).filter(|(stamp, _)| self.is_alive(*stamp)) {
            // An item of a dead generation whose stamp is in use again is not counted.
            assert!(self.live(stamp) <= counted, "invariant 2: stamp {stamp}");
        }
    }
}
