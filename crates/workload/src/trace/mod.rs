//! Traces: one request after another out of the files in which they are published.
//!
//! A trace is read as a stream, whatever its size: CSV with named columns, plain lists of keys, ARC
//! `.lis` files, JSON lines of LLM prompt blocks, and the two CSV dialects of CacheLib's trace
//! replay. Compression (zstd, gzip) is recognised by the first bytes of the file, never by its
//! name. `docs/formats/traces.md` describes the formats.
//!
//! Invariants:
//! 1. No input makes the reader panic or grow without bound: a line longer than [`MAX_LINE_BYTES`]
//!    is an error. A line stands for at most 2^32 requests.
//! 2. Every error names the file and, where there is one, the line and the column, and says what to
//!    do.
//! 3. Reading a request allocates nothing once the buffers have grown to the longest line (JSON
//!    lines excepted).

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod arc;
mod csv;
mod error;
mod json;
mod lines;
mod marks;
mod source;
mod tenants;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use csv::Column;
pub use error::TraceError;
pub use lines::MAX_LINE_BYTES;
pub use marks::LogMarks;

use arc::ArcRows;
pub(crate) use source::decompressed;

use csv::CsvRows;
use json::JsonRows;
use lines::Lines;

/// The longest key that a request hands out, in bytes; longer ones are shortened by
/// [`Request::write_key`].
pub const MAX_KEY_BYTES: usize = 250;

/// The most requests that a line may stand for; more is a mistake of the file, not a trace.
pub(crate) const MAX_REQUESTS_PER_LINE: u64 = 1 << 32;

/// A key as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TraceKey<'a> {
    /// A key that is a canonical decimal number (no sign, no leading zeros) below 2^64.
    Number(u64),
    /// Any other key, byte by byte.
    Text(&'a [u8]),
    /// A piece of a larger object: the object's name and the number of the piece.
    Piece(&'a [u8], u64),
}

/// The operation of a request. Commands that the trace distinguishes more finely are mapped to the
/// nearest of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A read: `get`, `gets`, `gat`, `r`, `read`, `GET_LEASE`, `getChunkData…`.
    Get,
    /// A write: `set`, `add`, `replace`, `cas`, `append`, `prepend`, `incr`, `decr`, `w`,
    /// `SET_LEASE`, `putChunk…`.
    Set,
    /// A new expiry without a new value: `touch`.
    Touch,
    /// A removal: `delete`, `del`, `d`.
    Delete,
}

/// One request of a trace. It borrows from the reader and is gone at the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The key requested.
    pub key: TraceKey<'a>,
    /// The length that the key had where the trace was taken, in bytes, when the trace tells.
    pub key_size: Option<u32>,
    /// The size of the value in bytes, when the trace tells.
    pub size: Option<u64>,
    /// The operation. If a trace does not name operations, all are reads.
    pub op: Op,
    /// The time of the request in the trace's own unit, when the trace tells.
    pub ts: Option<u64>,
    /// The time to live that a write asks for, in seconds, when the trace tells; 0 is for ever.
    pub ttl_secs: Option<u32>,
}

impl Request<'_> {
    /// The length of what [`Self::write_key`] writes, in bytes.
    pub fn key_len(&self) -> usize {
        let len = match self.key {
            TraceKey::Number(_) => size_of::<u64>(),
            TraceKey::Text(text) => text.len(),
            TraceKey::Piece(object, piece) => {
                object.len() + 2 + piece.checked_ilog10().map_or(0, |digits| digits as usize)
            }
        };
        len.max(self.key_size.map_or(1, |size| size as usize)).clamp(1, MAX_KEY_BYTES)
    }

    /// Writes the key into `out` (cleared first) as the bytes under which a cache may store it: 1
    /// to [`MAX_KEY_BYTES`] of them. Keys of one kind get different bytes; keys of two kinds can
    /// get the same, as the number 0x6161616161616161 and the text `aaaaaaaa` do.
    ///
    /// A number becomes its eight little-endian bytes, a text itself. Where the trace tells a
    /// longer original length, the key is padded to it with `0`, as CacheBench does. A text that is
    /// too long keeps its beginning and ends in 16 hexadecimal digits of its hash.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        out.clear();
        match self.key {
            TraceKey::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
            TraceKey::Text(text) => out.extend_from_slice(text),
            TraceKey::Piece(object, piece) => {
                out.extend_from_slice(object);
                out.push(b'/');
                out.extend_from_slice(piece.to_string().as_bytes());
            }
        }
        if out.len() > MAX_KEY_BYTES {
            let hash = base::hash::key_hash(0, out);
            out.truncate(MAX_KEY_BYTES - 16);
            out.extend_from_slice(format!("{hash:016x}").as_bytes());
        } else if let Some(size) = self.key_size {
            out.resize(out.len().max(size as usize).min(MAX_KEY_BYTES), b'0');
        }
        if out.is_empty() {
            out.push(b'0');
        }
    }
}

/// Options for reading a trace, for all that the file itself doesn't define.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The columns of a CSV without a header line, in order. `None`: the first line names them.
    pub columns: Option<Vec<Column>>,
    /// The tenant whose requests alone are read, of a file with a column `tenant`. `None`: all
    /// requests, whose keys are told apart by tenant.
    pub tenant: Option<String>,
}

/// A trace being read.
pub struct TraceReader {
    name: String,
    lines: Lines,
    rows: Rows,
}

enum Rows {
    Empty,
    Csv(Box<CsvRows>),
    Arc(ArcRows),
    Json(JsonRows),
}

impl TraceReader {
    /// Opens a trace file and finds out its compression and format.
    ///
    /// # Errors
    /// Where the file cannot be read, or its first line fits no format.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::open_with(path, &TraceOptions::default())
    }

    /// Like [`TraceReader::open`], with what the file does not say.
    ///
    /// # Errors
    /// Where the file cannot be read, or its first line fits no format.
    pub fn open_with(path: &Path, options: &TraceOptions) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_source(name, Box::new(file), options),
            Err(error) => Err(TraceError::io(&name, None, &error, "check the path and the permissions")),
        }
    }

    /// Reads a trace out of any byte stream; `name` is what errors call it.
    ///
    /// # Errors
    /// Where the stream cannot be read, or its first line fits no format.
    pub fn from_source(
        name: impl Into<String>,
        source: Box<dyn Read + Send>,
        options: &TraceOptions,
    ) -> Result<Self, TraceError> {
        let name = name.into();
        let source = decompressed(&name, source)?;
        let mut lines = Lines::new(source);
        let rows = detect(&name, &mut lines, options)?;
        Ok(Self { name, lines, rows })
    }

    /// Returns the name of this trace in errors: the path it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format, in words.
    pub fn format(&self) -> &'static str {
        match &self.rows {
            Rows::Empty => "empty file",
            Rows::Csv(rows) => rows.dialect(),
            Rows::Arc(_) => "ARC .lis",
            Rows::Json(_) => "JSON lines with hash_ids",
        }
    }

    /// Returns whether this is a log of a server's requests, or of a cache's events: its times are
    /// microseconds, a read tells a size exactly if it hit, and what fills a miss is a write of its
    /// own.
    pub fn has_own_fills(&self) -> bool {
        matches!(&self.rows, Rows::Csv(rows) if rows.has_own_fills())
    }

    /// Returns the marks in the request log of a server, up to the line that was read last: how it
    /// was sampled, and what is missing in it. `None` if the trace is not such a log.
    pub fn marks(&self) -> Option<&LogMarks> {
        match &self.rows {
            Rows::Csv(rows) => rows.marks(),
            _ => None,
        }
    }

    /// Warns on standard error if what was read of a server's request log is not whole, is a
    /// sample, or is of several runs of the server.
    pub fn warn_of_marks(&self) {
        for warning in self.marks().map(LogMarks::warnings).unwrap_or_default() {
            eprintln!("millpond: {}: {warning}", self.name);
        }
    }

    /// The next request; `None` at the end of the trace.
    ///
    /// # Errors
    /// Where the stream breaks off or a line cannot be understood. The reader may be asked again:
    /// it goes on after the bad line.
    #[inline]
    pub fn next_request(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        match &mut self.rows {
            Rows::Empty => Ok(None),
            Rows::Csv(rows) => rows.next_request(&self.name, &mut self.lines),
            Rows::Arc(rows) => rows.next_request(&self.name, &mut self.lines),
            Rows::Json(rows) => rows.next_request(&self.name, &mut self.lines),
        }
    }
}

/// Refuses a line that stands for more requests than any trace has.
fn check_count(name: &str, line: u64, requests: u64) -> Result<u64, TraceError> {
    if requests <= MAX_REQUESTS_PER_LINE {
        return Ok(requests);
    }
    let problem = format!("the line stands for {requests} requests, more than 2^32");
    Err(TraceError::line(name, line, problem, "correct or remove the line"))
}

/// Looks at the first line that is not blank. A line that already is data is left to be read again.
fn detect(name: &str, lines: &mut Lines, options: &TraceOptions) -> Result<Rows, TraceError> {
    if !lines.advance(name)? {
        return Ok(Rows::Empty);
    }
    let tenant = options.tenant.as_deref();
    if let Some(columns) = &options.columns {
        lines.hold();
        return Ok(Rows::Csv(Box::new(CsvRows::headless(name, columns)?.of_tenant(name, tenant)?)));
    }
    let first = lines.line().trim_ascii();
    if first.first() == Some(&b'{') {
        lines.hold();
        return Ok(Rows::Json(JsonRows::default()));
    }
    if arc::looks_like(first) {
        lines.hold();
        return Ok(Rows::Arc(ArcRows::default()));
    }
    if !first.is_empty() && first.iter().all(u8::is_ascii_digit) {
        lines.hold();
        return Ok(Rows::Csv(Box::new(CsvRows::headless(name, &[Column::Key])?)));
    }
    Ok(Rows::Csv(Box::new(CsvRows::from_header(name, lines.number(), first)?.of_tenant(name, tenant)?)))
}
