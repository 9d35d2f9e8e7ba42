//! A bucket of a compact cache: a word, and entries in the order of their last use.
//!
//! The word has the number of entries (8 bits), the lock (1 bit) and a version (23 bits) that each
//! change raises. An entry is its key and its value, each from a word's beginning.

use std::sync::atomic::AtomicU32;

use base::sequence;

use memory::cells::{CellResult, Cells, words_for};

const COUNT: u32 = 0xff;
const LOCK: u32 = 1 << 8;
const VERSION_ONE: u32 = 1 << 9;

/// Fewest entries of a bucket.
const LEAST_ENTRIES: usize = 8;
const MOST_ENTRIES: usize = COUNT as usize;
/// Bytes of a bucket, unless that is too little for eight entries: four cache lines.
const BUCKET_BYTES: usize = 256;
const CACHE_LINE: usize = 64;
const WORD: usize = size_of::<u32>();

/// Words of an entry that are moved at once.
const AT_ONCE: usize = 16;

/// The layout of entries in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketLayout {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Most entries of a bucket.
    pub(super) entries: usize,
    pub(super) bucket_bytes: usize,
}

impl BucketLayout {
    pub(super) const fn new(key_bytes: usize, value_bytes: usize) -> Self {
        assert!(key_bytes > 0, "keys of no bytes are all the same");
        let entry_bytes = (words_for(key_bytes) + words_for(value_bytes)) * WORD;
        let least = (WORD + LEAST_ENTRIES * entry_bytes).next_multiple_of(CACHE_LINE);
        let bucket_bytes = if least > BUCKET_BYTES { least } else { BUCKET_BYTES };
        let entries = (bucket_bytes - WORD) / entry_bytes;
        let entries = if entries < MOST_ENTRIES { entries } else { MOST_ENTRIES };
        Self { key_bytes, value_bytes, entries, bucket_bytes }
    }

    const fn key_words(self) -> usize {
        words_for(self.key_bytes)
    }

    pub(super) const fn entry_words(self) -> usize {
        self.key_words() + words_for(self.value_bytes)
    }

    pub(super) const fn bucket_words(self) -> usize {
        self.bucket_bytes / WORD
    }

    /// Returns the word at which an entry begins.
    const fn entry(self, number: usize) -> usize {
        1 + number * self.entry_words()
    }

    /// Returns the word at which the value of an entry begins.
    pub(super) const fn value(self, number: usize) -> usize {
        self.entry(number) + self.key_words()
    }
}

/// Waits a moment for another thread, and lets it run now and then, if it is not.
pub(super) fn pause(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(128) {
        std::thread::yield_now();
    }
    std::hint::spin_loop();
}

/// A bucket's word at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderWord(u32);

impl HeaderWord {
    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Returns the number of entries.
    pub(super) fn count(self) -> usize {
        (self.0 & COUNT) as usize
    }
}

/// A bucket.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'t> {
    pub(super) cells: Cells<'t>,
    pub(super) form: BucketLayout,
}

impl<'t> Bucket<'t> {
    fn word(self) -> &'t AtomicU32 {
        &self.cells.0[0]
    }

    #[inline]
    pub(super) fn head(self) -> HeaderWord {
        HeaderWord(sequence::current(self.word()))
    }

    /// Returns whether nothing was written since the head was `before`.
    #[inline]
    pub(super) fn is_still(self, before: HeaderWord) -> bool {
        sequence::is_still(self.word(), before.0)
    }

    /// The entry of a key among the first `count`.
    #[inline]
    pub(super) fn find(self, key: &[u8], count: usize) -> CellResult<Option<usize>> {
        // Most of those that are not the one differ in the first word.
        let first = first_word(key);
        for number in 0..count.min(self.form.entries) {
            let at = self.form.entry(number);
            if self.cells.get(at)? == first && self.cells.equals(at, key)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Takes the lock; spins while another thread has it, and lets others run now and then.
    pub(super) fn lock(self) -> Locked<'t> {
        let mut spins = 0_u32;
        loop {
            let head = self.head();
            if !head.is_locked()
                && let Some(locked) = self.try_lock(head)
            {
                return locked;
            }
            pause(&mut spins);
        }
    }

    /// Takes the lock if the head still is `head`, which is unlocked: what was read under it is so
    /// now.
    pub(super) fn try_lock(self, head: HeaderWord) -> Option<Locked<'t>> {
        sequence::try_open(self.word(), head.0, head.0 | LOCK).then(|| Locked {
            bucket: self,
            head,
            count: head.count(),
            changed: false,
        })
    }
}

/// The first word of a key, as it lies in its entry.
fn first_word(key: &[u8]) -> u32 {
    let mut word = [0; WORD];
    for (to, from) in word.iter_mut().zip(key) {
        *to = *from;
    }
    u32::from_ne_bytes(word)
}

/// A locked bucket.
pub(super) struct Locked<'t> {
    pub(super) bucket: Bucket<'t>,
    head: HeaderWord,
    count: usize,
    changed: bool,
}

impl Locked<'_> {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn find(&self, key: &[u8]) -> CellResult<Option<usize>> {
        self.bucket.find(key, self.count)
    }

    /// Moves an entry before all others.
    pub(super) fn promote(&mut self, number: usize) -> CellResult<()> {
        let form = self.bucket.form;
        let (first, end) = (form.entry(0), form.entry(number + 1));
        let (mut left, mut taken) = (form.entry_words(), [0; AT_ONCE]);
        self.changed = true;
        // The end of the entry goes to the front of all, then what was before it, which then stands
        // where that was.
        while left > 0 {
            let taken = &mut taken[..left.min(AT_ONCE)];
            let start = end - taken.len();
            for (word, at) in taken.iter_mut().zip(start..) {
                *word = self.bucket.cells.get(at)?;
            }
            self.shift(first, start, taken.len())?;
            for (word, at) in taken.iter().zip(first..) {
                self.bucket.cells.set(at, *word)?;
            }
            left -= taken.len();
        }
        Ok(())
    }

    /// Moves the words from `start` to before `end` behind by `by`.
    fn shift(&mut self, start: usize, end: usize, by: usize) -> CellResult<()> {
        for at in (start..end).rev() {
            self.bucket.cells.set(at + by, self.bucket.cells.get(at)?)?;
        }
        Ok(())
    }

    /// Puts an entry before all others. `true`: the last one had to go.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> CellResult<bool> {
        let (form, full) = (self.bucket.form, self.count == self.bucket.form.entries);
        self.changed = true;
        self.count -= usize::from(full);
        self.shift(form.entry(0), form.entry(self.count), form.entry_words())?;
        self.count += 1;
        self.bucket.cells.write(form.entry(0), key)?;
        self.set_value(0, value)?;
        Ok(full)
    }

    pub(super) fn set_value(&mut self, number: usize, value: &[u8]) -> CellResult<()> {
        self.changed = true;
        self.bucket.cells.write(self.bucket.form.value(number), value)
    }

    /// Takes an entry out; those behind it move up.
    pub(super) fn remove(&mut self, number: usize) -> CellResult<()> {
        let form = self.bucket.form;
        self.changed = true;
        for at in form.entry(number + 1)..form.entry(self.count) {
            self.bucket.cells.set(at - form.entry_words(), self.bucket.cells.get(at)?)?;
        }
        self.count -= 1;
        Ok(())
    }

    /// The words of all entries, one after the other.
    pub(super) fn words(&self) -> CellResult<Vec<Vec<u32>>> {
        let form = self.bucket.form;
        let entry = |number| {
            (form.entry(number)..form.entry(number + 1)).map(|at| self.bucket.cells.get(at)).collect()
        };
        (0..self.count).map(entry).collect()
    }

    /// Makes these the entries, in this order; those that there is no room for are left out.
    /// Returns how many.
    pub(super) fn replace(&mut self, entries: &[Vec<u32>]) -> CellResult<usize> {
        self.changed = true;
        self.count = entries.len().min(self.bucket.form.entries);
        for (at, word) in (1..).zip(entries.iter().take(self.count).flatten()) {
            self.bucket.cells.set(at, *word)?;
        }
        Ok(entries.len() - self.count)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let version = self.head.0 & !(COUNT | LOCK);
        let version = if self.changed { version.wrapping_add(VERSION_ONE) } else { version };
        sequence::close(self.bucket.word(), version | self.count as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_take_their_own_bytes_and_a_part_of_a_word() {
        let form = |key, value| {
            let form = BucketLayout::new(key, value);
            assert!(WORD + form.entries * form.entry_words() * WORD <= form.bucket_bytes);
            assert!(form.bucket_bytes.is_multiple_of(CACHE_LINE) && form.entries >= LEAST_ENTRIES);
            (form.entries, form.bucket_bytes)
        };
        assert_eq!(form(8, 8), (15, 256));
        assert_eq!(form(8, 0), (31, 256));
        assert_eq!(form(4, 0), (63, 256));
        assert_eq!(form(1, 1), (31, 256));
        assert_eq!(form(16, 48), (8, 576));
        assert_eq!(form(100, 1_000), (8, 8_832));
    }

    #[test]
    fn entries_keep_the_order_of_their_use() {
        let words: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let bucket = Bucket { cells: Cells(&words), form: BucketLayout::new(8, 8) };
        let keys = || -> Vec<u64> {
            (0..bucket.head().count())
                .map(|number| {
                    let [key, value] = [bucket.form.entry(number), bucket.form.value(number)]
                        .map(|at| bucket.cells.pod::<u64>(at).expect("inside"));
                    assert_eq!(value, key * 3, "an entry stays together");
                    key
                })
                .collect()
        };
        let push =
            |key: u64| bucket.lock().push(&key.to_ne_bytes(), &(key * 3).to_ne_bytes()).expect("inside");
        for key in 1..=15 {
            assert!(!push(key));
        }
        assert!(push(16));
        assert_eq!(keys(), (2..=16).rev().collect::<Vec<u64>>());
        bucket.lock().promote(14).expect("inside");
        bucket.lock().promote(0).expect("inside");
        bucket.lock().promote(3).expect("inside");
        let mut expected: Vec<u64> = vec![14, 2, 16, 15];
        expected.extend((3..=13).rev());
        assert_eq!(keys(), expected);
        bucket.lock().remove(14).expect("inside");
        bucket.lock().remove(0).expect("inside");
        assert_eq!(keys(), expected[1..14]);
        let before = bucket.head();
        drop(bucket.lock());
        assert!(bucket.is_still(before), "what changes nothing leaves no trace");
        assert!(bucket.try_lock(before).is_some());
        bucket.lock().promote(5).expect("inside");
        assert!(bucket.try_lock(before).is_none());
        let long: Vec<AtomicU32> = (0..2_048).map(|_| AtomicU32::new(0)).collect();
        let long = Bucket { cells: Cells(&long), form: BucketLayout::new(8, 100) };
        let value = |key: u64| [key as u8; 100];
        for key in 0..8_u64 {
            long.lock().push(&key.to_ne_bytes(), &value(key)).expect("inside");
        }
        for key in [3, 0, 0, 7] {
            let number = long.find(&u64::to_ne_bytes(key), 8).expect("inside").expect("there");
            long.lock().promote(number).expect("inside");
        }
        let keys = (0..8).map(|number| long.cells.pod::<u64>(long.form.entry(number)).expect("inside"));
        assert!(keys.eq([7, 0, 3, 6, 5, 4, 2, 1]));
        for (number, key) in [7, 0, 3, 6, 5, 4, 2, 1].into_iter().enumerate() {
            assert_eq!(long.cells.pod::<[u8; 100]>(long.form.value(number)).expect("inside"), value(key));
        }
        let all = bucket.lock().words().expect("inside");
        assert_eq!(bucket.lock().replace(&[&all[..], &all[..]].concat()).expect("inside"), 11);
        assert_eq!(bucket.head().count(), 15);
    }
}
