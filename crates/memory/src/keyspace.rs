//! Key spaces: which keys are the same key, and what was flushed.
//!
//! A flush costs nothing but a time stamp: items made before it count as gone, and leave when they
//! are met or evicted, or in the next rounds of maintenance (`flushed`). Times are whole seconds,
//! so a flush lends the key space a clock that is ahead by enough to tell before from after: items
//! made later in the same second are stamped with the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::counter::Counters;
use slab::Words;

/// One key space.
pub(crate) struct Keyspace {
    /// Distinguishes the hashes of this key space from those of others.
    pub(crate) salt: u64,
    /// Two words, of which the first is at `first_word`: items made before that Unix second are
    /// gone; and when the second one comes, what was made before it goes (0 = none). They outlive
    /// the process where the items do.
    words: Arc<Words>,
    first_word: usize,
    /// True if a word may be other than 0. Set before a word is, so that a thread that sees a word
    /// finds this set: a look at most items asks for nothing else.
    may_be_flushed: AtomicBool,
    /// True if something may have been written to it by this process.
    is_written: AtomicBool,
    counters: Counters<1>,
    /// Misses that pools before had, which had the same number.
    misses_before: AtomicU64,
}

impl Keyspace {
    /// One that ends with the process.
    pub(crate) fn new(id: u16) -> Self {
        Self::kept(id, Arc::new(Words::on_heap(2)), 0)
    }

    /// One whose words are `words[first_word]` and the next.
    pub(crate) fn kept(id: u16, words: Arc<Words>, first_word: usize) -> Self {
        let may_be_flushed = words[first_word..][..2].iter().any(|word| word.load(Ordering::Acquire) != 0);
        Self {
            salt: base::hash::mix64(u64::from(id)),
            words,
            first_word,
            may_be_flushed: AtomicBool::new(may_be_flushed),
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

    fn flushed_before(&self) -> &AtomicU64 {
        &self.words[self.first_word]
    }

    fn flushing_at(&self) -> &AtomicU64 {
        &self.words[self.first_word + 1]
    }

    /// Forgets all flushes and misses: another pool has it now.
    pub(crate) fn reset(&self) {
        self.misses_before.store(self.counters.sum(0), Ordering::Relaxed);
        self.flushing_at().store(0, Ordering::Release);
        self.flushed_before().store(0, Ordering::Release);
    }

    /// Takes over the flushes of the key space that its items were in before.
    pub(crate) fn inherit(&self, before: (u64, u64)) {
        self.note_flush();
        self.flushed_before().fetch_max(before.0, Ordering::AcqRel);
        self.flushing_at().fetch_max(before.1, Ordering::AcqRel);
    }

    /// The creation time of an item made now.
    #[inline]
    pub(crate) fn stamp(&self, now: u32) -> u32 {
        if !self.may_be_flushed() {
            return now;
        }
        self.fire(|| now);
        now.max(self.flushed_before().load(Ordering::Acquire) as u32)
    }

    /// Returns whether an item made at `created` was flushed.
    #[inline]
    pub(crate) fn is_flushed(&self, created: u32, now: impl Fn() -> u32) -> bool {
        self.may_be_flushed() && {
            self.fire(now);
            u64::from(created) < self.flushed_before().load(Ordering::Acquire)
        }
    }

    /// Returns whether anything may have been flushed, or is to be.
    #[inline]
    pub(crate) fn may_be_flushed(&self) -> bool {
        self.may_be_flushed.load(Ordering::Acquire)
    }

    /// Returns the Unix second of which all items made before are flushed. 0: none are.
    pub(crate) fn flushed_until(&self, now: impl Fn() -> u32) -> u64 {
        if !self.may_be_flushed() {
            return 0;
        }
        self.fire(now);
        self.flushed_before().load(Ordering::Acquire)
    }

    fn note_flush(&self) {
        self.may_be_flushed.store(true, Ordering::Release);
    }

    /// Carries out a scheduled flush whose time has come. Called before anything is stamped or
    /// checked, so that nothing is made between its time and its being carried out.
    #[inline]
    fn fire(&self, now: impl Fn() -> u32) {
        let flush_at = self.flushing_at().load(Ordering::Acquire);
        // One thread carries it out. What others do meanwhile overlaps with it, and counts as
        // before it.
        if flush_at != 0
            && u64::from(now()) >= flush_at
            && self.flushing_at().compare_exchange(flush_at, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            self.raise(now());
        }
    }

    /// Flushes all that was made until now; cancels a flush to come.
    pub(crate) fn flush(&self, now: u32) {
        self.note_flush();
        self.flushing_at().store(0, Ordering::Release);
        self.raise(now);
    }

    fn raise(&self, now: u32) {
        let _ = self
            .flushed_before()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| Some(before.max(now.into()) + 1));
    }

    /// Flushes at Unix second `at` all that was made before it.
    pub(crate) fn flush_at(&self, at: u32) {
        self.note_flush();
        self.flushing_at().store(at.into(), Ordering::Release);
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
        space.flush_at(110);
        let late = space.stamp(109);
        assert!(!space.is_flushed(early, || 109));
        assert!(space.is_flushed(early, || 110) && space.is_flushed(late, || 110));
        assert!(!space.is_flushed(space.stamp(110), || 110));
    }

    #[test]
    fn a_delayed_flush_takes_what_flushes_before_it_stamped_ahead() {
        let space = Keyspace::new(0);
        for _ in 0..50 {
            space.flush(100);
        }
        let ahead = space.stamp(100);
        assert!(ahead > 102);
        space.flush_at(102);
        assert!(!space.is_flushed(ahead, || 101));
        let after = space.stamp(102);
        assert!(space.is_flushed(ahead, || 102) && !space.is_flushed(after, || 102));
    }
}
