//! `LCS`: the longest string that two strings have in common, their bytes in order but not
//! necessarily side by side.
//!
//! The usual table of lengths is filled, and walked back from its end as Redis does, so that of
//! several longest strings the same is found.

use super::arguments::{arg, integer, is};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};

/// Bytes that a table may have: others wait while it is filled.
const MAX_TABLE_BYTES: usize = 16 << 20;

/// The options of the command.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    wants_len: bool,
    wants_matches: bool,
    with_len: bool,
    least_len: i64,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Self, Failure> {
        let mut this = Self::default();
        let mut rest = args;
        while let [option, behind @ ..] = rest {
            rest = behind;
            match behind {
                _ if is(option, "IDX") => this.wants_matches = true,
                _ if is(option, "LEN") => this.wants_len = true,
                _ if is(option, "WITHMATCHLEN") => this.with_len = true,
                [len, behind @ ..] if is(option, "MINMATCHLEN") => {
                    this.least_len = integer(len)?.max(0);
                    rest = behind;
                }
                _ => return Err(Failure::SYNTAX),
            }
        }
        if this.wants_matches && this.wants_len {
            return Err(Failure::new("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(this)
    }
}

/// A piece that both strings have, by its first and last place in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

impl Match {
    fn len(self) -> i64 {
        (self.a.1 - self.a.0 + 1) as i64
    }
}

/// The lengths of the longest common strings of all beginnings of two strings.
struct Table<'s> {
    a: &'s [u8],
    b: &'s [u8],
    lens: Vec<u32>,
}

impl<'s> Table<'s> {
    /// `None`: it would be too large.
    fn new(a: &'s [u8], b: &'s [u8]) -> Option<Self> {
        let cells = (a.len() + 1).checked_mul(b.len() + 1)?;
        if cells > MAX_TABLE_BYTES / size_of::<u32>() {
            return None;
        }
        let width = b.len() + 1;
        let mut lens = vec![0_u32; cells];
        for (row, left) in a.iter().enumerate() {
            let (above, below) = lens.split_at_mut((row + 1) * width);
            let above = above.get(row * width..).unwrap_or_default();
            let mut before = 0;
            let cells = below.iter_mut().skip(1).zip(above.windows(2)).zip(b);
            for ((cell, above), right) in cells {
                let &[diagonal, over] = above else { continue };
                *cell = if left == right { diagonal + 1 } else { over.max(before) };
                before = *cell;
            }
        }
        Some(Self { a, b, lens })
    }

    fn at(&self, a: usize, b: usize) -> u32 {
        self.lens.get(a * (self.b.len() + 1) + b).copied().unwrap_or(0)
    }

    fn len(&self) -> usize {
        self.at(self.a.len(), self.b.len()) as usize
    }

    /// The longest common string, and the pieces that it lies in, the last first.
    fn walk(&self) -> (Vec<u8>, Vec<Match>) {
        let (mut common, mut matches) = (Vec::with_capacity(self.len()), Vec::new());
        let mut open: Option<Match> = None;
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while let (Some(a), Some(b)) = (i.checked_sub(1), j.checked_sub(1)) {
            let same = self.a.get(a).filter(|byte| self.b.get(b) == Some(byte));
            if let Some(byte) = same {
                common.push(*byte);
                let found = match open {
                    Some(piece) => Match { a: (a, piece.a.1), b: (b, piece.b.1) },
                    None => Match { a: (a, a), b: (b, b) },
                };
                open = Some(found);
                (i, j) = (a, b);
            } else {
                if self.at(a, j) > self.at(i, b) {
                    i = a
                } else {
                    j = b
                }
                matches.extend(open.take());
            }
        }
        matches.extend(open);
        common.reverse();
        (common, matches)
    }
}

impl<'c> Commands<'_, 'c> {
    /// The key space is closed, so that both values are of one moment.
    pub(super) fn lcs(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let items = [self.read(arg(args, 1)), self.read(arg(args, 2))];
        if items.iter().flatten().any(|item| item.is_structured()) {
            return Err(Failure::new("ERR The specified keys must contain string values"));
        }
        let options = Options::parse(args.get(3..).unwrap_or_default())?;
        let [a, b] = items.each_ref().map(|item| item.as_ref().map_or(&[][..], |item| item));
        let table = Table::new(a, b).ok_or(Failure::new(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ))?;
        if options.wants_len {
            w.integer(table.len() as i64);
            return Ok(());
        }
        let (common, mut matches) = table.walk();
        if !options.wants_matches {
            w.bulk(&common);
            return Ok(());
        }
        matches.retain(|piece| piece.len() >= options.least_len);
        w.map(2);
        w.bulk(b"matches");
        w.array(matches.len());
        for piece in matches {
            w.array(if options.with_len { 3 } else { 2 });
            for (first, last) in [piece.a, piece.b] {
                w.array(2);
                w.integer(first as i64);
                w.integer(last as i64);
            }
            if options.with_len {
                w.integer(piece.len());
            }
        }
        w.bulk(b"len");
        w.integer(common.len() as i64);
        Ok(())
    }
}
