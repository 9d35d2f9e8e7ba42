//! Words of a command line.

use std::fmt;

use memchr::memchr;

/// The words of a command line, without copying. Words are separated by one or more spaces and by
/// nothing else: a tab is part of a word, as in memcached.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// The words of `line`, which has no line end.
    pub const fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// The next word, which stays to be read.
    pub fn first(mut self) -> Option<&'a [u8]> {
        self.next()
    }

    /// Returns the bytes that have not been read yet, spaces included.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some((b' ', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(word)
    }
}

impl fmt::Debug for Tokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.map(Text)).finish()
    }
}

/// Bytes that are mostly text, for `Debug`.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// At most `N` words, how many there are in all (counting stops at `N + 1`), and the last of those
/// counted.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a, const N: usize> {
    words: [&'a [u8]; N],
    count: usize,
}

impl<'a, const N: usize> Words<'a, N> {
    /// Reads up to `N` words; `None` if there are more.
    #[inline]
    pub(crate) fn collect(mut tokens: Tokens<'a>) -> Option<Self> {
        let mut words: [&[u8]; N] = [b""; N];
        let mut count = 0_usize;
        for slot in &mut words {
            let Some(word) = tokens.next() else { return Some(Self { words, count }) };
            *slot = word;
            count = count.saturating_add(1);
        }
        if tokens.next().is_some() { None } else { Some(Self { words, count }) }
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The word at `index`, or nothing at all.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// Returns whether the last word is `noreply`.
    #[inline]
    pub(crate) fn noreply(&self) -> bool {
        self.get(self.count.wrapping_sub(1)) == b"noreply"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_spaces_alone() {
        let words = |line: &'static [u8]| Tokens::new(line).collect::<Vec<_>>();
        assert_eq!(words(b"get a"), [b"get".as_slice(), b"a"]);
        assert_eq!(words(b"  get   a  b "), [b"get".as_slice(), b"a", b"b"]);
        assert_eq!(words(b"get\ta\rb"), [b"get\ta\rb"]);
        assert!(words(b"").is_empty());
        assert!(words(b"    ").is_empty());
    }

    #[test]
    fn too_many_words_are_none() {
        let words = Words::<3>::collect(Tokens::new(b"a noreply")).unwrap();
        assert_eq!(
            (words.count(), words.noreply(), words.get(0), words.get(2)),
            (2, true, &b"a"[..], &b""[..])
        );
        assert!(Words::<3>::collect(Tokens::new(b"a b c d")).is_none());
        let none = Words::<3>::collect(Tokens::new(b" ")).unwrap();
        assert_eq!((none.count(), none.noreply()), (0, false));
    }

    #[test]
    fn debug_shows_text() {
        assert_eq!(format!("{:?}", Tokens::new(b"a  \xff")), r#"["a", "\xff"]"#);
    }
}
