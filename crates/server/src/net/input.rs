//! Received bytes that wait for the rest of their request.

/// A buffer that is only there while it holds something.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// Everything before it has been answered.
    start: usize,
}

impl Input {
    /// Returns the input that has not been answered.
    #[inline]
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Returns whether no input is pending.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Memory of the buffer.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Appends `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Drops `consumed` bytes from the front, and the buffer with the last of them.
    pub(crate) fn consume(&mut self, consumed: usize) {
        self.start = (self.start + consumed).min(self.bytes.len());
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_consumed_is_gone_and_an_empty_buffer_too() {
        let mut input = Input::default();
        input.append(b"get a\r\nge");
        input.consume(7);
        assert_eq!(input.pending(), b"ge");
        input.append(b"t b\r\n");
        assert_eq!(input.pending(), b"get b\r\n");
        assert!(!input.is_empty());
        input.consume(100);
        assert!(input.is_empty());
        assert_eq!(input.buffer_bytes(), 0);
    }
}
