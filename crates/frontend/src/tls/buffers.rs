//! The buffers with which a worker encrypts and decrypts for its connections.

/// The most that a record holds.
const RECORD_BYTES: usize = 16 << 10;
/// The most that a record is larger than its contents.
const RECORD_OVERHEAD_BYTES: usize = 256;
/// Records that are decrypted or encrypted at a time.
pub const RECORDS: usize = 4;
/// Received bytes that are kept at most: a message of the handshake, which rustls bounds by 64 KiB,
/// and a record.
const CIPHER_BYTES: usize = (RECORDS + 1) * (RECORD_BYTES + RECORD_OVERHEAD_BYTES);
/// The buffers for encryption of a worker, used for one connection after the other.
pub struct TlsBuffers {
    /// Received records.
    pub cipher: Box<[u8]>,
    /// The decrypted contents.
    pub plain: Vec<u8>,
    /// Answers that are put together for a record.
    pub chunk: Box<[u8]>,
    /// Records to send.
    pub outgoing: Box<[u8]>,
}

impl TlsBuffers {
    /// The size of all buffers, in bytes.
    pub const BYTES: u64 = (2 * CIPHER_BYTES
        + RECORD_BYTES
        + RECORDS * (RECORD_BYTES + RECORD_OVERHEAD_BYTES)
        + size_of::<Self>()) as u64;
}

impl Default for TlsBuffers {
    fn default() -> Self {
        let buffer = |bytes: usize| vec![0; bytes].into_boxed_slice();
        Self {
            cipher: buffer(CIPHER_BYTES),
            // No record holds more than it takes itself.
            plain: Vec::with_capacity(CIPHER_BYTES),
            chunk: buffer(RECORD_BYTES),
            outgoing: buffer(RECORDS * (RECORD_BYTES + RECORD_OVERHEAD_BYTES)),
        }
    }
}
