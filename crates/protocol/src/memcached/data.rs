//! A data block that is taken piece by piece, straight to where it is wanted.

/// The data of a storage command and the `\r\n` behind it, if it has one, however they are cut.
///
/// ```
/// use millpond_protocol::memcached::{DataBlock, DataState};
/// let mut block = DataBlock::new(5);
/// let part = block.take(b"hel");
/// assert_eq!((part.data, part.consumed, part.state), (&b"hel"[..], 3, DataState::Missing(4)));
/// let part = block.take(b"lo\r\nget a\r\n");
/// assert_eq!((part.data, part.consumed, part.state), (&b"lo"[..], 4, DataState::Good));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataBlock {
    /// Bytes of data that have not come yet.
    data_left: usize,
    /// Bytes of the line end that have not come yet.
    end_left: usize,
    /// True while the line end is right so far.
    good: bool,
}

/// The share of a piece of input that a [`DataBlock`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPart<'a> {
    /// The data in it, to be appended to what came before.
    pub data: &'a [u8],
    /// Number of bytes of the input to drop.
    pub consumed: usize,
    /// State of the block after this piece.
    pub state: DataState,
}

/// The state of a [`DataBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataState {
    /// This many bytes are missing, line end included.
    Missing(usize),
    /// Complete.
    Good,
    /// Complete, but it does not end in `\r\n`: store nothing, and answer
    /// [`super::WireError::BadDataChunk`].
    Bad,
}

impl DataBlock {
    /// A block of `data_len` bytes and a line end.
    pub const fn new(data_len: usize) -> Self {
        Self { data_left: data_len, end_left: 2, good: true }
    }

    /// A block of `data_len` bytes without a line end, as in the binary protocol.
    pub const fn bare(data_len: usize) -> Self {
        Self { data_left: data_len, end_left: 0, good: true }
    }

    /// Returns how many bytes of data, without the line end, are missing. A caller may read them
    /// itself, and then calls [`Self::advance`].
    pub const fn data_left(&self) -> usize {
        self.data_left
    }

    /// The caller has taken `bytes` of data past this block; more than are missing count as those
    /// that are.
    pub const fn advance(&mut self, bytes: usize) {
        self.data_left = self.data_left.saturating_sub(bytes);
    }

    /// Takes the part of the block that is at the front of `input`.
    pub fn take<'a>(&mut self, input: &'a [u8]) -> DataPart<'a> {
        let (data, rest) = input.split_at_checked(self.data_left).unwrap_or((input, b""));
        self.advance(data.len());
        let mut consumed = data.len();
        for &byte in rest.iter().take(self.end_left) {
            self.good &= byte == if self.end_left == 2 { b'\r' } else { b'\n' };
            self.end_left = self.end_left.saturating_sub(1);
            consumed = consumed.saturating_add(1);
        }
        DataPart { data, consumed, state: self.state() }
    }

    /// Returns the state of the block.
    pub const fn state(&self) -> DataState {
        match (self.data_left.saturating_add(self.end_left), self.good) {
            (0, true) => DataState::Good,
            (0, false) => DataState::Bad,
            (missing, _) => DataState::Missing(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(len: usize, pieces: &[&[u8]]) -> (Vec<u8>, usize, DataState) {
        let (mut block, mut data, mut consumed) = (DataBlock::new(len), Vec::new(), 0);
        for piece in pieces {
            let part = block.take(piece);
            data.extend_from_slice(part.data);
            consumed += part.consumed;
        }
        (data, consumed, block.state())
    }

    #[test]
    fn the_line_end_may_be_cut() {
        assert_eq!(taken(3, &[b"abc\r\n"]), (b"abc".to_vec(), 5, DataState::Good));
        assert_eq!(taken(3, &[b"abc\r", b"\nx"]), (b"abc".to_vec(), 5, DataState::Good));
        assert_eq!(taken(3, &[b"abc", b"", b"\r"]), (b"abc".to_vec(), 4, DataState::Missing(1)));
        assert_eq!(taken(0, &[b"\r\n\r\n"]), (vec![], 2, DataState::Good));
    }

    #[test]
    fn a_wrong_line_end_is_bad_only_when_it_is_whole() {
        assert_eq!(taken(1, &[b"12"]), (b"1".to_vec(), 2, DataState::Missing(1)));
        assert_eq!(taken(1, &[b"12\r\n"]), (b"1".to_vec(), 3, DataState::Bad));
        assert_eq!(taken(1, &[b"1\n\r"]), (b"1".to_vec(), 3, DataState::Bad));
        assert_eq!(taken(1, &[b"1\r\r"]), (b"1".to_vec(), 3, DataState::Bad));
    }

    #[test]
    fn data_may_be_read_past_it() {
        let mut block = DataBlock::new(100);
        block.advance(99);
        assert_eq!(block.data_left(), 1);
        assert_eq!(block.take(b"x\r\n").state, DataState::Good);
        block.advance(7);
        assert_eq!(block.state(), DataState::Good);
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing(
            input in prop::collection::vec(any::<u8>(), 0..64),
            len in 0_usize..70,
            cut in 0_usize..64,
        ) {
            let cut = cut.min(input.len());
            let (front, back) = input.split_at(cut);
            prop_assert_eq!(taken(len, &[&input]), taken(len, &[front, back]));
        }
    }
}
