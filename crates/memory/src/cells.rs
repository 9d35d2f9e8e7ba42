//! Words that some threads read while others write to them: of structured items and of compact
//! caches.
//!
//! All accesses are atomic and relaxed. What orders them, and says whether what was read is whole,
//! is the sequence or the lock of whatever the words belong to.

use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::Pod;

/// Words of a structure that was looked at are not what they should be: they are being written to,
/// and what was seen does not count, or they are corrupt. Which of the two, their sequence tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// The result of looking at words that others may be writing to.
pub type CellResult<T> = Result<T, Corrupt>;

const WORD: usize = size_of::<u32>();

/// Words that `bytes` bytes take.
pub const fn words_for(bytes: usize) -> usize {
    bytes.div_ceil(WORD)
}

/// Words in a row.
#[derive(Clone, Copy)]
pub struct Cells<'a>(pub &'a [AtomicU32]);

impl<'a> Cells<'a> {
    /// Returns the number of words.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// A word.
    #[inline]
    pub fn word(self, at: usize) -> CellResult<&'a AtomicU32> {
        self.0.get(at).ok_or(Corrupt)
    }

    /// The value of a word.
    #[inline]
    pub fn get(self, at: usize) -> CellResult<u32> {
        Ok(self.word(at)?.load(Ordering::Relaxed))
    }

    /// Sets a word.
    #[inline]
    pub fn set(self, at: usize, value: u32) -> CellResult<()> {
        self.word(at)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// The words from `at` on that `bytes` bytes take.
    #[inline]
    fn span(self, at: usize, bytes: usize) -> CellResult<&'a [AtomicU32]> {
        let end = at.checked_add(words_for(bytes)).ok_or(Corrupt)?;
        self.0.get(at..end).ok_or(Corrupt)
    }

    /// Reads bytes that begin with word `at`.
    #[inline]
    pub fn read(self, at: usize, out: &mut [u8]) -> CellResult<()> {
        let words = self.span(at, out.len())?;
        let mut chunks = out.chunks_exact_mut(WORD);
        for (bytes, word) in chunks.by_ref().zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        if let ([_, ..], Some(last)) = (chunks.into_remainder(), words.last()) {
            let (rest, bytes) = (out.len() % WORD, last.load(Ordering::Relaxed).to_ne_bytes());
            let start = out.len() - rest;
            out[start..].copy_from_slice(&bytes[..rest]);
        }
        Ok(())
    }

    /// Writes bytes that begin with word `at`, and zeros to the end of their last word.
    #[inline]
    pub fn write(self, at: usize, bytes: &[u8]) -> CellResult<()> {
        for (word, bytes) in self.span(at, bytes.len())?.iter().zip(bytes.chunks(WORD)) {
            let mut all = [0; WORD];
            all[..bytes.len()].copy_from_slice(bytes);
            word.store(u32::from_ne_bytes(all), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns whether the bytes that begin with word `at` are `bytes`. What follows them in their
    /// last word is zero.
    #[inline]
    pub fn equals(self, at: usize, bytes: &[u8]) -> CellResult<bool> {
        let words = self.span(at, bytes.len())?;
        Ok(words.iter().zip(bytes.chunks(WORD)).all(|(word, bytes)| {
            let mut all = [0; WORD];
            all[..bytes.len()].copy_from_slice(bytes);
            word.load(Ordering::Relaxed) == u32::from_ne_bytes(all)
        }))
    }

    /// Compares the `len` bytes that begin with word `at` with `other`. What follows them in their
    /// last word is zero.
    pub fn compare(self, at: usize, len: usize, other: &[u8]) -> CellResult<std::cmp::Ordering> {
        for (word, bytes) in self.span(at, len)?.iter().zip(other.chunks(WORD)) {
            let mut all = [0; WORD];
            all[..bytes.len()].copy_from_slice(bytes);
            let (ours, theirs) = (word.load(Ordering::Relaxed).to_ne_bytes(), all);
            if ours != theirs {
                return Ok(ours.cmp(&theirs));
            }
        }
        Ok(len.cmp(&other.len()))
    }

    /// Copies `words` words.
    pub fn copy(self, from: usize, to: Cells<'_>, at: usize, words: usize) -> CellResult<()> {
        for (from, to) in self.span(from, words * WORD)?.iter().zip(to.span(at, words * WORD)?) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    }

    /// The value that begins with word `at`.
    #[inline]
    pub fn pod<T: Pod>(self, at: usize) -> CellResult<T> {
        let mut value = T::zeroed();
        self.read(at, bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Reads bytes from byte `at` on.
    pub fn read_bytes(self, at: usize, out: &mut [u8]) -> CellResult<()> {
        if at.is_multiple_of(WORD) {
            return self.read(at / WORD, out);
        }
        for (i, byte) in out.iter_mut().enumerate() {
            let at = at.checked_add(i).ok_or(Corrupt)?;
            *byte = self.get(at / WORD)?.to_ne_bytes()[at % WORD];
        }
        Ok(())
    }

    /// Writes bytes from byte `at` on, and leaves those around them as they are.
    pub fn write_bytes(self, at: usize, bytes: &[u8]) -> CellResult<()> {
        if at.is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD) {
            return self.write(at / WORD, bytes);
        }
        for (i, byte) in bytes.iter().enumerate() {
            let at = at.checked_add(i).ok_or(Corrupt)?;
            let mut word = self.get(at / WORD)?.to_ne_bytes();
            word[at % WORD] = *byte;
            self.set(at / WORD, u32::from_ne_bytes(word))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_were_written_wherever_they_begin() {
        let words: Vec<AtomicU32> = (0..16).map(|_| AtomicU32::new(u32::MAX)).collect();
        let cells = Cells(&words);
        let bytes: Vec<u8> = (1..=64).collect();
        for at in 0..20 {
            for len in 0..30 {
                cells.write(0, &[0xff; 64]).expect("inside");
                cells.write_bytes(at, &bytes[..len]).expect("inside");
                let (mut out, mut all) = (vec![0; len], [0; 64]);
                cells.read_bytes(at, &mut out).expect("inside");
                assert_eq!(out, bytes[..len]);
                cells.read(0, &mut all).expect("inside");
                let others = all.iter().enumerate().filter(|(i, _)| !(at..at + len).contains(i));
                assert!(others.map(|(_, byte)| *byte).all(|byte| byte == 0xff), "{at} {len}");
            }
        }
        for len in 0..=12 {
            cells.write(3, &bytes[..len]).expect("inside");
            assert!(cells.equals(3, &bytes[..len]).expect("inside"));
            if len > 0 {
                assert!(!cells.equals(3, &[&bytes[..len - 1], &[0xff]].concat()).expect("inside"));
            }
        }
        assert!(cells.get(16).is_err() && cells.write(15, &[0; 5]).is_err());
        assert!(cells.read(usize::MAX, &mut [0]).is_err() && cells.read_bytes(usize::MAX, &mut [0]).is_err());
    }
}
