//! Key spaces: which keys are the same key, and what was flushed.
//!
//! A flush costs nothing but a time stamp: items made before it count as gone, and leave when they
//! are met or evicted, or in the next rounds of maintenance (`flushed`). Times are whole seconds,
//! so a flush lends the key space a clock that is ahead by enough to tell before from after: items
//! made later in the same second are stamped with the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use base::counter::Counters;
use slab::Words;

/// The flushes of a key space. They are one word, so that each change of them is one step: no item
/// is stamped, and no process ends, in the middle of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flushes {
    /// Items made before this Unix second are gone; [`u32::MAX`]: all are.
    pub(crate) before: u32,
    /// When this Unix second comes, items made before it go; 0: none is to come.
    pub(crate) at: u32,
}

impl Flushes {
    pub(crate) fn of_word(word: u64) -> Self {
        Self { before: word as u32, at: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.at) << 32 | u64::from(self.before)
    }

    /// Returns whether an item made at `created` is gone.
    pub(crate) fn has(self, created: u32, now: u32) -> bool {
        // If a flush is due that nobody has carried out, nothing was made since it was due.
        created < self.before || self.is_due(now)
    }

    fn is_due(self, now: u32) -> bool {
        self.at != 0 && self.at <= now
    }
}

/// The latest time of a flush, and of an item that another process left: the year 2106. What is
/// later is damage.
pub(crate) const LATEST: u32 = u32::MAX - (1 << 20);

/// One key space.
pub(crate) struct Keyspace {
    /// Distinguishes the hashes of this key space from those of others.
    pub(crate) salt: u64,
    /// [`Flushes`] are at `word`. They outlive the process where the items do.
    words: Arc<Words>,
    word: usize,
    /// True if the word may be other than 0. Set before it is, so that a thread that sees the word
    /// finds this set: a look at most items asks for nothing else.
    may_be_flushed: AtomicBool,
    /// The latest time with which something was stamped. A flush need not go further beyond it than
    /// a second, whatever the clock does and however many flushes there are.
    stamped: AtomicU32,
    /// True if something may have been written to it by this process.
    is_written: AtomicBool,
    counters: Counters<1>,
    /// Misses that pools before had, which had the same number.
    misses_before: AtomicU64,
}

impl Keyspace {
    /// One that ends with the process.
    pub(crate) fn new(id: u16) -> Self {
        Self::kept(id, Arc::new(Words::on_heap(1)), 0)
    }

    /// One whose flushes are `words[word]`.
    pub(crate) fn kept(id: u16, words: Arc<Words>, word: usize) -> Self {
        let flushes = Flushes::of_word(words[word].load(Ordering::Acquire));
        Self {
            salt: base::hash::mix64(u64::from(id)),
            words,
            word,
            may_be_flushed: AtomicBool::new(flushes != Flushes::default()),
            stamped: AtomicU32::new(0),
            is_written: AtomicBool::new(false),
            counters: Counters::default(),
            misses_before: AtomicU64::new(0),
        }
    }

    /// Returns whether something may have been written to it by this process.
    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Acquire)
    }

    pub(crate) fn note_written(&self) {
        self.is_written.store(true, Ordering::Release);
    }

    fn flushes(&self) -> Flushes {
        Flushes::of_word(self.words[self.word].load(Ordering::Acquire))
    }

    /// Changes the flushes in one step.
    fn update(&self, change: impl Fn(Flushes) -> Flushes) {
        let change = |word| Some(change(Flushes::of_word(word)).word());
        let _ = self.words[self.word].fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    /// Forgets all flushes and misses: another pool has it now.
    pub(crate) fn reset(&self) {
        self.misses_before.store(self.counters.sum(0), Ordering::Relaxed);
        self.update(|_| Flushes::default());
    }

    /// Takes over the flushes of the key space that its items were in before.
    pub(crate) fn inherit(&self, flushes: Flushes) {
        self.note_flush();
        self.update(|own| Flushes {
            before: own.before.max(flushes.before),
            at: if own.at == 0 || flushes.at == 0 { own.at.max(flushes.at) } else { own.at.min(flushes.at) },
        });
    }

    /// The creation time of an item made now.
    #[inline]
    pub(crate) fn stamp(&self, now: u32) -> u32 {
        let time = if self.may_be_flushed() { now.max(self.fire(|| now)).min(u32::MAX - 1) } else { now };
        self.note_made(time);
        time
    }

    /// Notes that something has been stamped with that time. A flush that follows sees it; one that
    /// overlaps may take the item or not.
    #[inline]
    pub(crate) fn note_made(&self, time: u32) {
        if self.stamped.load(Ordering::Relaxed) < time {
            self.stamped.fetch_max(time, Ordering::AcqRel);
        }
    }

    /// Returns whether an item made at `created` was flushed.
    #[inline]
    pub(crate) fn is_flushed(&self, created: u32, now: impl Fn() -> u32) -> bool {
        self.may_be_flushed() && created < self.fire(now)
    }

    /// Returns whether anything may have been flushed, or is to be.
    #[inline]
    pub(crate) fn may_be_flushed(&self) -> bool {
        self.may_be_flushed.load(Ordering::Acquire)
    }

    /// Returns the Unix second of which all items made before are flushed. 0: none are.
    pub(crate) fn flushed_until(&self, now: impl Fn() -> u32) -> u32 {
        if self.may_be_flushed() { self.fire(now) } else { 0 }
    }

    fn note_flush(&self) {
        self.may_be_flushed.store(true, Ordering::Release);
    }

    /// The flushes, after one of all that was made until now.
    fn raised(&self, flushes: Flushes, now: u32) -> Flushes {
        // What another process left may not be noted yet, but was made before now.
        let last = self.stamped.load(Ordering::Acquire).max(now);
        Flushes { before: flushes.before.max(last.saturating_add(1)), at: 0 }
    }

    /// Carries out a scheduled flush whose time has come, and returns the Unix second of which all
    /// items made before are gone. Called before anything is stamped or checked, so that nothing is
    /// made between its time and its being carried out.
    #[inline]
    fn fire(&self, now: impl Fn() -> u32) -> u32 {
        loop {
            let flushes = self.flushes();
            if flushes.at == 0 {
                return flushes.before;
            }
            let now = now();
            if !flushes.is_due(now) {
                return flushes.before;
            }
            // One thread carries it out. Others see what it did, or were before it.
            let raised = self.raised(flushes, now);
            let (from, to) = (flushes.word(), raised.word());
            if self.words[self.word].compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return raised.before;
            }
        }
    }

    /// Flushes all that was made until now; cancels a flush to come.
    pub(crate) fn flush(&self, now: u32) {
        // With that of `Fence::new`: what is read elsewhere under a fence whose stamp is not seen
        // here is not older than the flush.
        fence(Ordering::SeqCst);
        self.note_flush();
        self.update(|flushes| self.raised(flushes, now));
    }

    /// Flushes at Unix second `at` all that was made before it: now, if that has come. Replaces a
    /// flush to come, but not one that was due.
    pub(crate) fn flush_at(&self, at: u32, now: u32) {
        fence(Ordering::SeqCst);
        self.note_flush();
        let at = at.min(LATEST);
        self.update(|flushes| {
            let flushes = if at <= now || flushes.is_due(now) { self.raised(flushes, now) } else { flushes };
            Flushes { at: if at <= now { 0 } else { at }, ..flushes }
        });
    }

    #[inline]
    pub(crate) fn count_miss(&self) {
        self.counters.add(0, 1);
    }

    pub(crate) fn misses(&self) -> u64 {
        self.counters.sum(0).saturating_sub(self.misses_before.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_flush_parts_before_from_after_within_one_second() {
        let space = Keyspace::new(0);
        let before = space.stamp(100);
        space.flush(100);
        let after = space.stamp(100);
        assert!(space.is_flushed(before, || 100) && !space.is_flushed(after, || 100));
        space.flush(100);
        assert!(space.is_flushed(after, || 100) && !space.is_flushed(space.stamp(100), || 100));
    }

    #[test]
    fn a_delayed_flush_takes_what_is_there_when_it_comes() {
        let space = Keyspace::new(0);
        let early = space.stamp(100);
        space.flush_at(110, 100);
        let late = space.stamp(109);
        assert!(!space.is_flushed(early, || 109));
        assert!(space.is_flushed(early, || 110) && space.is_flushed(late, || 110));
        assert!(!space.is_flushed(space.stamp(110), || 110));
    }

    #[test]
    fn a_delayed_flush_takes_what_flushes_before_it_stamped_ahead() {
        let space = Keyspace::new(0);
        for _ in 0..50 {
            space.stamp(100);
            space.flush(100);
        }
        let ahead = space.stamp(100);
        assert!(ahead > 102);
        space.flush_at(102, 100);
        assert!(!space.is_flushed(ahead, || 101));
        let after = space.stamp(102);
        assert!(space.is_flushed(ahead, || 102) && !space.is_flushed(after, || 102));
    }

    /// Another thread carries it out, and stores, after this one has found that it is due.
    #[test]
    fn a_delayed_flush_takes_nothing_that_another_thread_makes_meanwhile() {
        for which in 1..=2 {
            let space = Keyspace::new(0);
            let old = space.stamp(100);
            space.flush_at(105, 100);
            let (calls, fresh) = (Cell::new(0), Cell::new(None));
            let now = || {
                calls.set(calls.get() + 1);
                if calls.get() == which {
                    assert!(space.is_flushed(old, || 110));
                    fresh.set(Some(space.stamp(110)));
                }
                110
            };
            assert!(space.is_flushed(old, now));
            let fresh = fresh.get().unwrap_or_else(|| space.stamp(110));
            assert!(!space.is_flushed(fresh, || 110), "asked {which} times");
        }
    }

    /// A thread may work with a time that it read long ago.
    #[test]
    fn a_flush_whose_time_has_come_takes_what_is_there() {
        let space = Keyspace::new(0);
        let made = space.stamp(106);
        space.flush_at(1, 106);
        space.stamp(105);
        assert!(space.is_flushed(made, || 106) && !space.is_flushed(space.stamp(106), || 106));
    }

    #[test]
    fn a_flush_that_was_due_is_not_lost_to_the_next_one() {
        let space = Keyspace::new(0);
        let made = space.stamp(100);
        space.flush_at(105, 100);
        space.flush_at(300, 110);
        let later = space.stamp(110);
        assert!(space.is_flushed(made, || 110) && !space.is_flushed(later, || 110));
        assert!(space.is_flushed(later, || 300));
        // One that had not come is replaced.
        let last = space.stamp(300);
        space.flush_at(310, 300);
        space.flush_at(400, 305);
        assert!(!space.is_flushed(last, || 399) && space.is_flushed(last, || 400));
    }

    #[test]
    fn a_flush_takes_what_was_made_before_the_clock_was_set_back() {
        let space = Keyspace::new(0);
        let made = space.stamp(1_000);
        space.flush(900);
        assert!(space.is_flushed(made, || 900) && !space.is_flushed(space.stamp(900), || 900));
        // Found by the next process, which begins before its clock.
        let again = Keyspace::kept(0, Arc::clone(&space.words), 0);
        again.note_made(2_000);
        again.flush(900);
        assert!(again.is_flushed(2_000, || 900) && !again.is_flushed(again.stamp(900), || 900));
    }

    #[test]
    fn times_of_flushes_are_no_damage() {
        let space = Keyspace::new(0);
        space.flush_at(u32::MAX, 100);
        assert_eq!(space.flushes(), Flushes { before: 0, at: LATEST });
    }

    #[test]
    fn flushes_of_what_is_flushed_move_no_clock() {
        let space = Keyspace::new(0);
        space.stamp(100);
        (0..1_000).for_each(|_| space.flush(100));
        let ahead = space.stamp(100);
        assert_eq!(ahead, 101);
        space.flush(100);
        assert!(space.is_flushed(ahead, || 100));
        (0..1_000).for_each(|_| space.flush(100));
        assert_eq!(space.stamp(100), 102);
    }

    #[test]
    fn a_clock_that_has_come_to_its_end_leaves_nothing_to_find() {
        let space = Keyspace::new(0);
        space.flush(u32::MAX - 3);
        for _ in 0..3 {
            let made = space.stamp(100);
            space.flush(100);
            assert!(space.is_flushed(made, || 100));
        }
        assert!(space.is_flushed(space.stamp(100), || 100));
        space.reset();
        assert!(!space.is_flushed(space.stamp(100), || 100));
    }

    /// Whatever two threads do, with a clock that goes on and back, a flush takes all that was
    /// stored before it began, and nothing that was begun after it had ended.
    #[test]
    fn flushes_of_several_threads_take_all_before_and_nothing_after() {
        for round in 0..200_u32 {
            let space = Keyspace::new(0);
            // The numbers of flushes that have begun and ended.
            let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
            let clock = AtomicU32::new(1_000);
            let now = || clock.load(Ordering::Relaxed);
            std::thread::scope(|scope| {
                for thread in 0..2_u32 {
                    let (space, begun, ended, clock, now) = (&space, &begun, &ended, &clock, &now);
                    scope.spawn(move || {
                        let mut made = Vec::new();
                        for step in 0..300_u32 {
                            match base::hash::mix64(u64::from(step << 9 | thread << 8 | round)) % 8 {
                                0 => {
                                    begun.fetch_add(1, Ordering::SeqCst);
                                    space.flush(now());
                                    ended.fetch_add(1, Ordering::SeqCst);
                                }
                                1 => _ = clock.fetch_add(1, Ordering::SeqCst),
                                2 if round % 2 == 0 => _ = clock.fetch_sub(1, Ordering::SeqCst),
                                _ => {
                                    let all_ended = ended.load(Ordering::SeqCst);
                                    let time = space.stamp(now());
                                    made.push((all_ended, time, begun.load(Ordering::SeqCst)));
                                }
                            }
                            for (before, time, after) in &made {
                                let ends = ended.load(Ordering::SeqCst);
                                let is_flushed = space.is_flushed(*time, now);
                                let begins = begun.load(Ordering::SeqCst);
                                // `ends` flushes have ended, of which `after` may have begun before
                                // it was made.
                                assert!(is_flushed || ends <= *after, "{ends} ended, made at {after}");
                                assert!(!is_flushed || begins > *before, "none began since it was made");
                            }
                        }
                    });
                }
            });
        }
    }
}
