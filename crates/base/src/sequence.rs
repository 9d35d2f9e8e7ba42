//! Reading words without a lock while other threads write to them. A sequence word beside them says
//! by its value whether a write is in progress; if it is unchanged after the reads, nothing was
//! written meanwhile.
//!
//! The order of the accesses is that of Boehm, "Can Seqlocks Get Along with Programming Language
//! Memory Models?", MSPC 2012, figures 6 and 7. The words themselves are atomics that are read and
//! written with relaxed order. The owner of the sequence word defines the meaning of its values,
//! such as odd while a write is in progress, or a bit for a lock.
//!
//! Invariants, on the owner's side:
//! 1. Between [`open`] or [`try_open`] and [`close`] one thread writes, and the word has a value
//!    that readers take for "being written".
//! 2. [`close`] gives the word a value that it did not have while any reader may still remember it,
//!    unless nothing was written.

use crate::sync::atomic::{AtomicU32, Ordering, fence};

/// Reads the sequence word, before the words that it covers are read.
#[inline]
pub fn current(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire)
}

/// Returns whether nothing was written from the moment when the sequence word was `before` until
/// the reads that the calling thread has done.
#[inline]
pub fn is_still(word: &AtomicU32, before: u32) -> bool {
    // Orders the earlier reads before this one: a thread that has read something written after
    // `open` finds the word opened, or later.
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == before
}

/// Begins a write by giving the sequence word the value `opened`. The caller is the only writer,
/// for instance because it holds a lock.
#[inline]
pub fn open(word: &AtomicU32, opened: u32) {
    word.store(opened, Ordering::Relaxed);
    // Orders that store before the stores that follow.
    fence(Ordering::Release);
}

/// Begins a write if the sequence word is `before`, by giving it the value `opened`. This acts as a
/// lock.
#[inline]
pub fn try_open(word: &AtomicU32, before: u32, opened: u32) -> bool {
    let taken = word.compare_exchange(before, opened, Ordering::Acquire, Ordering::Relaxed).is_ok();
    // As above.
    fence(Ordering::Release);
    taken
}

/// Ends the write.
#[inline]
pub fn close(word: &AtomicU32, closed: u32) {
    word.store(closed, Ordering::Release);
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two words that are always the same to who reads them as one, and how often they were
    /// changed.
    #[derive(Default)]
    struct Pair {
        word: AtomicU32,
        data: [AtomicU32; 2],
    }

    impl Pair {
        fn write(&self, value: u32) {
            self.data.iter().for_each(|word| word.store(value, Ordering::Relaxed));
        }

        /// The value of both, with the sequence word that it belongs to; `None` if a write is in
        /// progress, or was during the reads.
        fn read(&self) -> Option<(u32, u32)> {
            let before = current(&self.word);
            let seen = [&self.data[0], &self.data[1]].map(|word| word.load(Ordering::Relaxed));
            if before % 2 == 1 || !is_still(&self.word, before) {
                return None;
            }
            assert_eq!(seen[0], seen[1], "torn");
            Some((seen[0], before))
        }
    }

    #[test]
    fn loom_what_is_read_was_there_at_one_moment() {
        loom::model(|| {
            let pair = Arc::new(Pair::default());
            let writer = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || {
                    for change in 1..=2 {
                        open(&pair.word, 2 * change - 1);
                        pair.write(change);
                        close(&pair.word, 2 * change);
                    }
                })
            };
            if let Some((value, word)) = pair.read() {
                assert_eq!(word, value * 2, "the word tells which change it was");
            }
            writer.join().expect("no panic");
            assert_eq!(pair.read(), Some((2, 4)));
        });
    }

    #[test]
    fn loom_writers_that_open_the_word_exclude_each_other() {
        loom::model(|| {
            let pair = Arc::new(Pair::default());
            let add = |pair: &Pair| {
                let before = current(&pair.word);
                if before % 2 == 1 || !try_open(&pair.word, before, before + 1) {
                    return 0;
                }
                let value = pair.data[0].load(Ordering::Relaxed);
                assert_eq!(value, before / 2, "what the last writer wrote is seen");
                pair.write(value + 1);
                close(&pair.word, before + 2);
                1
            };
            let other = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || add(&pair))
            };
            let mine = add(&pair);
            let _ = pair.read();
            let all = mine + other.join().expect("no panic");
            assert_eq!(pair.read(), Some((all, 2 * all)));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_noticed_and_its_absence_too() {
        let word = AtomicU32::new(4);
        let before = current(&word);
        assert!(is_still(&word, before));
        open(&word, 5);
        assert!(!is_still(&word, before) && !try_open(&word, before, 5));
        close(&word, before);
        assert!(is_still(&word, before), "nothing was written");
        assert!(try_open(&word, before, 5));
        close(&word, 6);
        assert!(!is_still(&word, before));
    }
}
