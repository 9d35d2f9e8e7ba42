//! Bytes of a trace file, decompressed where their first bytes say that they are compressed.

use std::io::{self, Chain, Cursor, Read};

use super::TraceError;

/// The widest zstd window that is accepted (`zstd --long=31`); the decoder allocates it only if the
/// file asks for it.
const MAX_ZSTD_WINDOW_LOG: u32 = 31;

type Peeked = Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>;

/// The plain bytes of `source`: zstd and gzip are recognised by their magic numbers and unpacked.
pub(crate) fn decompressed(
    name: &str,
    mut source: Box<dyn Read + Send>,
) -> Result<Box<dyn Read + Send>, TraceError> {
    let broken =
        |error: &io::Error| TraceError::io(name, None, error, "check that the file is complete and readable");
    let mut magic = Vec::with_capacity(6);
    source.by_ref().take(6).read_to_end(&mut magic).map_err(|error| broken(&error))?;
    let kind = compression(&magic);
    let peeked: Peeked = Cursor::new(magic).chain(source);
    match kind {
        Compression::None => Ok(Box::new(peeked)),
        Compression::Gzip => Ok(Box::new(flate2::read::MultiGzDecoder::new(peeked))),
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::new(peeked).map_err(|error| broken(&error))?;
            decoder.window_log_max(MAX_ZSTD_WINDOW_LOG).map_err(|error| broken(&error))?;
            Ok(Box::new(decoder))
        }
        Compression::Unread(packer) => Err(TraceError {
            file: name.into(),
            line: None,
            column: None,
            problem: format!("the file is packed by {packer}, which is not read here"),
            advice: "unpack it, or pack it with zstd or gzip".into(),
        }),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Compression {
    None,
    Zstd,
    Gzip,
    Unread(&'static str),
}

fn compression(magic: &[u8]) -> Compression {
    match magic {
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Unread("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Unread("bzip2"),
        [b'P', b'K', 3, 4, ..] => Compression::Unread("zip"),
        [4, 0x22, 0x4d, 0x18, ..] => Compression::Unread("lz4"),
        _ => Compression::None,
    }
}
