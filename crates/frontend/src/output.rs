//! The output of a connection: composed bytes, with large values in between that are sent from
//! where they lie.
//!
//! Invariants:
//! 1. The stream to send is `bytes` with the value `values[i].1` inserted before position
//!    `values[i].0`; the positions ascend.
//! 2. `sent_bytes` of `bytes`, the values before `next_value`, and `sent_of_value` bytes of that
//!    one have been sent. A value begins to be sent only when the bytes before its position are.

use std::io::IoSlice;
use std::ops::Deref;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

/// Values of at least this many bytes are sent from where they lie; smaller ones are cheaper to
/// copy.
pub const MIN_IN_PLACE_BYTES: usize = 4096;
/// Pieces that one system call is given at most.
const MAX_PIECES: usize = 64;
/// A buffer that grew beyond this is not kept once it has been sent.
pub const KEEP_BYTES: usize = 64 << 10;

/// The outcome of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything is with the kernel.
    All,
    /// The kernel takes no more for now.
    Blocked,
    /// As much as was allowed.
    Part,
}

/// Bytes to send; `V` holds a value in place.
#[derive(Debug)]
pub struct Output<V> {
    bytes: Vec<u8>,
    values: Vec<(usize, V)>,
    sent_bytes: usize,
    next_value: usize,
    sent_of_value: usize,
    unsent: usize,
}

/// An end that an output had: see [`Output::end`].
#[derive(Clone, Copy, Debug)]
pub struct End {
    bytes: usize,
    values: usize,
    unsent: usize,
}

impl End {
    /// Returns whether nothing was to be sent.
    pub const fn is_start(self) -> bool {
        self.unsent == 0
    }
}

impl<V> Default for Output<V> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            values: Vec::new(),
            sent_bytes: 0,
            next_value: 0,
            sent_of_value: 0,
            unsent: 0,
        }
    }
}

impl<V: Deref<Target = [u8]>> Output<V> {
    /// Bytes that are not yet with the kernel.
    #[inline]
    pub fn len(&self) -> usize {
        self.unsent
    }

    /// Returns whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unsent == 0
    }

    /// Values in place that are not sent yet.
    pub fn value_count(&self) -> usize {
        self.values.len() - self.next_value
    }

    /// Memory that is held: buffers, and values that cannot be evicted meanwhile.
    pub fn held_bytes(&self) -> usize {
        self.buffer_bytes()
            + self.values.iter().skip(self.next_value).map(|(_, value)| value.len()).sum::<usize>()
    }

    /// Memory of the buffers alone.
    pub fn buffer_bytes(&self) -> usize {
        self.bytes.capacity() + self.values.capacity() * size_of::<(usize, V)>()
    }

    /// Appends `bytes`.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.unsent += bytes.len();
    }

    /// Appends what `compose` appends to the buffer it is given.
    #[inline]
    pub fn compose<R>(&mut self, compose: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = self.bytes.len();
        let result = compose(&mut self.bytes);
        self.unsent += self.bytes.len() - before;
        result
    }

    /// Appends a value: by copying a small one, by holding a large one.
    #[inline]
    pub fn value(&mut self, value: V) {
        if value.len() < MIN_IN_PLACE_BYTES {
            self.write(&value);
        } else {
            self.unsent += value.len();
            self.values.push((self.bytes.len(), value));
        }
    }

    /// Returns the present end, for [`Self::rewind`].
    pub fn end(&self) -> End {
        End { bytes: self.bytes.len(), values: self.values.len(), unsent: self.unsent }
    }

    /// Removes everything appended since `end`; nothing was sent meanwhile.
    pub fn rewind(&mut self, end: End) {
        self.bytes.truncate(end.bytes);
        self.values.truncate(end.values);
        self.unsent = end.unsent;
    }

    /// Hands as much as possible to the kernel, and no more than `most` bytes.
    ///
    /// # Errors
    /// If the connection is broken; the unsent bytes never will be sent.
    pub fn send(&mut self, socket: impl AsFd, most: usize) -> Result<Sent, Errno> {
        let mut room = most;
        while self.unsent > 0 {
            if room == 0 {
                return Ok(Sent::Part);
            }
            let sent = if self.next_value == self.values.len() {
                let rest = self.bytes.get(self.sent_bytes..).unwrap_or_default();
                send(&socket, rest.get(..rest.len().min(room)).unwrap_or_default(), SendFlags::NOSIGNAL)
            } else {
                self.send_pieces(&socket, room)
            };
            match sent {
                Ok(n) => {
                    self.advance(n);
                    room -= n.min(room);
                }
                Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.reset();
        Ok(Sent::All)
    }

    fn send_pieces(&self, socket: impl AsFd, mut room: usize) -> Result<usize, Errno> {
        let mut control = SendAncillaryBuffer::default();
        let mut slices = [IoSlice::new(&[]); MAX_PIECES];
        let mut count = 0;
        self.for_each_piece(|piece| {
            let piece = piece.get(..piece.len().min(room)).unwrap_or_default();
            room -= piece.len();
            if let Some(slot) = slices.get_mut(count) {
                *slot = IoSlice::new(piece);
                count += 1;
            }
            count < MAX_PIECES && room > 0
        });
        sendmsg(socket, slices.get(..count).unwrap_or_default(), &mut control, SendFlags::NOSIGNAL)
    }

    /// Returns the next bytes to send, in one piece of at most `chunk.len()` bytes: in place, or
    /// put together in `chunk` from several.
    pub fn next_chunk<'a>(&'a self, chunk: &'a mut [u8]) -> &'a [u8] {
        let most = chunk.len();
        let mut only: Option<&'a [u8]> = None;
        let mut filled = 0;
        self.for_each_piece(|piece| {
            let piece = piece.get(..piece.len().min(most - filled)).unwrap_or_default();
            match only.take() {
                None if filled == 0 => {
                    only = Some(piece);
                    // Nothing was copied yet, and if this is all, nothing will be.
                    return piece.len() < most;
                }
                first => {
                    for piece in first.into_iter().chain([piece]) {
                        let piece = piece.get(..piece.len().min(most - filled)).unwrap_or_default();
                        if let Some(place) = chunk.get_mut(filled..filled + piece.len()) {
                            place.copy_from_slice(piece);
                        }
                        filled += piece.len();
                    }
                }
            }
            filled < most
        });
        match only {
            Some(piece) => piece,
            None => chunk.get(..filled).unwrap_or_default(),
        }
    }

    /// Calls `visit` with the unsent pieces in order until it returns false.
    fn for_each_piece<'a>(&'a self, mut visit: impl FnMut(&'a [u8]) -> bool) {
        let mut position = self.sent_bytes;
        let mut skip = self.sent_of_value;
        for (at, value) in self.values.iter().skip(self.next_value) {
            if *at > position && !visit(self.bytes.get(position..*at).unwrap_or_default()) {
                return;
            }
            if !visit(value.get(skip..).unwrap_or_default()) {
                return;
            }
            (position, skip) = (*at, 0);
        }
        if position < self.bytes.len() {
            visit(self.bytes.get(position..).unwrap_or_default());
        }
    }

    /// Notes that `sent` more bytes are with the kernel, or encrypted for it, and lets go of values
    /// that are sent.
    pub fn advance(&mut self, mut sent: usize) {
        self.unsent -= sent;
        while let Some((at, value)) = self.values.get(self.next_value) {
            let before = at - self.sent_bytes;
            if sent < before {
                break;
            }
            self.sent_bytes = *at;
            sent -= before;
            let rest = value.len() - self.sent_of_value;
            if sent < rest {
                self.sent_of_value += sent;
                return;
            }
            sent -= rest;
            self.sent_of_value = 0;
            self.next_value += 1;
        }
        self.sent_bytes += sent;
        // Sent values are dropped in bulk: a drain from the front moves the others.
        if self.next_value >= 16 {
            self.values.drain(..self.next_value);
            self.next_value = 0;
        }
    }

    /// Begins anew, with everything sent.
    pub fn reset(&mut self) {
        self.values.clear();
        self.bytes.clear();
        (self.sent_bytes, self.next_value, self.sent_of_value) = (0, 0, 0);
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        }
        if self.values.capacity() > 1024 {
            self.values = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
