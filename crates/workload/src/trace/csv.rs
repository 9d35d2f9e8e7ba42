//! CSV traces: the project's own named columns, and the two dialects of CacheLib's trace replay.
//!
//! Fields are separated by commas and are not quoted; columns that mean nothing here are passed
//! over.
//!
//! - With `op_count`, a line stands for that many equal requests (CacheLib kvcache traces).
//! - With `cache_hits`, a read of size 0 was a miss where the trace was taken, and its size is
//!   unknown.
//! - With `block_id`, `io_offset` and `io_size`, a line is an access to a range of a block, which
//!   is cut into pieces of [`PIECE_BYTES`], each a request of its own (CacheLib block traces;
//!   CacheBench's `chunkSizeKB`).

use std::ops::Range;
use std::str::FromStr;

use super::error::excerpt;
use super::lines::Lines;
use super::marks::LogMarks;
use super::tenants::Tenants;
use super::{Op, Request, TraceError, TraceKey, check_count};

/// The size of a piece of a block, in bytes.
pub(super) const PIECE_BYTES: u32 = 128 << 10;

/// The content of a column. Parses from the names that published traces use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The key: a number or any text without a comma.
    Key,
    /// The original length of the key, in bytes.
    KeySize,
    /// The size of the value, in bytes.
    Size,
    /// The operation; see [`Op`] for the words.
    Op,
    /// Number of equal requests that the line stands for.
    OpCount,
    /// Number of them that were hits when the trace was taken.
    CacheHits,
    /// The time, in the trace's own unit.
    Ts,
    /// The time to live, in seconds.
    Ttl,
    /// The block of which a range is accessed.
    BlockId,
    /// The start of the range, in bytes.
    IoOffset,
    /// The length of the range, in bytes.
    IoSize,
    /// The shard of the block, a part of its name.
    ShardId,
    /// The tenant of the request, in a server's own request log.
    Tenant,
    /// A column that is passed over.
    Ignored,
}

/// Names of columns, in lower case, and what they hold.
const NAMES: [(&str, Column); 26] = [
    ("key", Column::Key),
    ("obj_id", Column::Key),
    ("object_id", Column::Key),
    ("id", Column::Key),
    ("key_size", Column::KeySize),
    ("size", Column::Size),
    ("value_size", Column::Size),
    ("obj_size", Column::Size),
    ("op", Column::Op),
    ("op_name", Column::Op),
    ("operation", Column::Op),
    ("op_count", Column::OpCount),
    ("cache_hits", Column::CacheHits),
    ("ts", Column::Ts),
    ("time", Column::Ts),
    ("timestamp", Column::Ts),
    ("op_time", Column::Ts),
    ("ttl", Column::Ttl),
    ("ttl_secs", Column::Ttl),
    ("block_id", Column::BlockId),
    ("io_offset", Column::IoOffset),
    ("io_size", Column::IoSize),
    ("rs_shard_id", Column::ShardId),
    ("tenant", Column::Tenant),
    ("-", Column::Ignored),
    ("_", Column::Ignored),
];

impl Column {
    fn named(name: &[u8]) -> Self {
        let name = name.trim_ascii().to_ascii_lowercase();
        NAMES.iter().find(|(known, _)| known.as_bytes() == name).map_or(Self::Ignored, |(_, column)| *column)
    }

    fn name(self) -> &'static str {
        NAMES.iter().find(|(_, column)| *column == self).map_or("-", |(name, _)| name)
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        NAMES.iter().find(|(name, _)| *name == lower).map(|(_, column)| *column).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not a column; the columns are {} (`-` passes one over)", known.join(", "))
        })
    }
}

/// The columns of a file and the line that is being handed out.
pub(super) struct CsvRows {
    /// The content of each field, up to the last that matters.
    columns: Vec<Column>,
    key_only: bool,
    blocks: bool,
    misses_have_no_size: bool,
    row: Row,
    /// The name of the block of the current row.
    object: Vec<u8>,
    /// Number of requests of the current row that are still to come.
    left: u64,
    /// The tenants, where a column names them. In a box, as few traces have any.
    tenants: Option<Box<Tenants>>,
    has_own_fills: bool,
    /// True if the file may be the log of a server, the only format with comments.
    is_log: bool,
    /// The marks in the log of a server.
    marks: LogMarks,
    /// The line that names the columns, if there is one.
    header: Option<Box<[u8]>>,
}

#[derive(Clone, Default)]
struct Row {
    key: Key,
    /// The range of the tenant's name in the line.
    tenant: Range<usize>,
    key_size: Option<u32>,
    size: Option<u64>,
    op: Option<Op>,
    count: Option<u64>,
    ts: Option<u64>,
    ttl_secs: Option<u32>,
    io_offset: u64,
    io_size: u64,
    shard: Option<u64>,
    piece: u64,
}

#[derive(Clone, Default)]
enum Key {
    #[default]
    None,
    Number(u64),
    /// The range of the key in the line.
    Text(Range<usize>),
}

impl CsvRows {
    /// Columns as the first line names them.
    pub(super) fn from_header(name: &str, line: u64, header: &[u8]) -> Result<Self, TraceError> {
        let columns: Vec<Column> = header.split(|byte| *byte == b',').map(Column::named).collect();
        let named =
            |name: &str| header.split(|byte| *byte == b',').any(|it| it.trim_ascii() == name.as_bytes());
        let of_server = ["tenant", "command", "outcome", "latency_us"];
        let of_cache = ["event", "result", "pool", "class"];
        let has_own_fills = [of_server, of_cache].iter().any(|names| names.iter().all(|name| named(name)));
        let named = Self::new(columns).map(|rows| Self { has_own_fills, ..rows }).map_err(|missing| {
            let problem = format!("the first line `{}` names no column `{missing}`", excerpt(header));
            let advice = "give the file a header line such as `ts,key,size,op`, or name the columns \
                          yourself (`--columns ts,key,size,op`)";
            TraceError::line(name, line, problem, advice)
        })?;
        Ok(Self { header: Some(header.into()), ..named })
    }

    /// Columns as the caller names them, for a file without a header.
    pub(super) fn headless(name: &str, columns: &[Column]) -> Result<Self, TraceError> {
        Self::new(columns.to_vec()).map_err(|missing| TraceError {
            file: name.into(),
            line: None,
            column: Some(missing.into()),
            problem: "the columns that were named lack this one".into(),
            advice: "name all columns in the order in which the file has them".into(),
        })
    }

    /// Reads the requests of one tenant alone, or of all.
    pub(super) fn of_tenant(mut self, name: &str, tenant: Option<&str>) -> Result<Self, TraceError> {
        match (&mut self.tenants, tenant) {
            (Some(tenants), tenant) => tenants.only = tenant.map(str::to_owned),
            (None, None) => {}
            (None, Some(_)) => {
                return Err(TraceError {
                    file: name.into(),
                    line: None,
                    column: Some("tenant".into()),
                    problem: "one tenant's requests are asked for, and no column names tenants".into(),
                    advice: "leave the tenant out, or name the columns yourself".into(),
                });
            }
        }
        Ok(self)
    }

    fn new(mut columns: Vec<Column>) -> Result<Self, &'static str> {
        let has = |column| columns.contains(&column);
        let blocks = has(Column::BlockId);
        if blocks {
            for needed in [Column::IoOffset, Column::IoSize] {
                if !has(needed) {
                    return Err(needed.name());
                }
            }
        } else if !has(Column::Key) {
            return Err(Column::Key.name());
        }
        let misses_have_no_size = has(Column::CacheHits);
        let tenants = has(Column::Tenant).then(Box::default);
        while columns.last() == Some(&Column::Ignored) {
            columns.pop();
        }
        let key_only = columns == [Column::Key];
        let is_log = columns.contains(&Column::Tenant);
        let (row, object) = (Row::default(), Vec::new());
        Ok(Self {
            columns,
            key_only,
            blocks,
            misses_have_no_size,
            row,
            object,
            left: 0,
            tenants,
            has_own_fills: false,
            is_log,
            marks: LogMarks::default(),
            header: None,
        })
    }

    pub(super) fn dialect(&self) -> &'static str {
        if self.blocks {
            "CacheLib block CSV"
        } else if self.misses_have_no_size {
            "CacheLib kvcache CSV"
        } else if self.key_only {
            "list of keys"
        } else {
            "CSV"
        }
    }

    #[inline]
    pub(super) fn next_request<'a>(
        &'a mut self,
        name: &str,
        lines: &'a mut Lines,
    ) -> Result<Option<Request<'a>>, TraceError> {
        while self.left == 0 {
            if !lines.advance(name)? {
                return self.tenants.as_ref().map_or(Ok(()), |tenants| tenants.check(name)).map(|()| None);
            }
            if self.key_only {
                return Ok(Some(key_only(lines.line())));
            }
            // Files that were joined have a header line each.
            if self.header.as_deref() == Some(lines.line()) {
                continue;
            }
            if self.is_log && self.marks.take(lines.line()) {
                continue;
            }
            self.row = self.parse(name, lines)?;
            if !self.admit(lines.line()) {
                continue;
            }
            let requests = self.begin_row(name, lines)?;
            self.left = check_count(name, lines.number(), requests)?;
        }
        self.left -= 1;
        let row = &mut self.row;
        let key = match (&row.key, self.blocks) {
            (_, true) => {
                row.piece += 1;
                TraceKey::Piece(&self.object, row.piece - 1)
            }
            (Key::Number(number), _) => TraceKey::Number(*number),
            (Key::Text(range), _) => TraceKey::Text(lines.line().get(range.clone()).unwrap_or_default()),
            (Key::None, _) => TraceKey::Text(&[]),
        };
        Ok(Some(Request {
            key,
            key_size: row.key_size,
            size: row.size,
            op: row.op.unwrap_or(Op::Get),
            ts: row.ts,
            ttl_secs: row.ttl_secs,
        }))
    }

    /// Returns whether the row is to be read. Where those of all tenants are, it gets a key that no
    /// other tenant has.
    #[inline]
    fn admit(&mut self, line: &[u8]) -> bool {
        let Some(tenants) = &mut self.tenants else { return true };
        let tenant = line.get(self.row.tenant.clone()).unwrap_or_default();
        let Some(seed) = tenants.seed_of(tenant) else { return tenants.admit(tenant) };
        let row = &mut self.row;
        row.key = match &row.key {
            Key::Number(number) => Key::Number(base::hash::key_hash(seed, &number.to_le_bytes())),
            Key::Text(range) => {
                // The key keeps its length.
                row.key_size.get_or_insert(u32::try_from(range.len()).unwrap_or(u32::MAX));
                let text = line.get(range.clone()).unwrap_or_default();
                Key::Number(base::hash::key_hash(seed.wrapping_add(1), text))
            }
            Key::None => Key::None,
        };
        true
    }

    /// Returns whether the columns are those that the server, or the engine, writes of its own
    /// requests.
    pub(super) fn has_own_fills(&self) -> bool {
        self.has_own_fills
    }

    /// Returns the marks in the log of a server, up to here; `None` if the file is not such a log.
    pub(super) fn marks(&self) -> Option<&LogMarks> {
        self.is_log.then_some(&self.marks)
    }

    /// Makes the row that was parsed ready to be handed out; how many requests it stands for.
    fn begin_row(&mut self, name: &str, lines: &Lines) -> Result<u64, TraceError> {
        let row = &mut self.row;
        if !self.blocks {
            if self.misses_have_no_size && row.op == Some(Op::Get) && row.size == Some(0) {
                row.size = None;
            }
            return Ok(row.count.unwrap_or(1));
        }
        self.object.clear();
        match &row.key {
            Key::Number(number) => self.object.extend_from_slice(number.to_string().as_bytes()),
            Key::Text(range) => {
                self.object.extend_from_slice(lines.line().get(range.clone()).unwrap_or_default());
            }
            Key::None => {}
        }
        if let Some(shard) = row.shard {
            self.object.extend_from_slice(format!("_{shard:03}").as_bytes());
        }
        row.size = Some(u64::from(PIECE_BYTES));
        let Some(end) = row.io_offset.checked_add(row.io_size) else {
            let problem = "`io_offset` and `io_size` together go past 2^64";
            return Err(TraceError::line(name, lines.number(), problem, "correct or remove the line"));
        };
        let piece_bytes = u64::from(PIECE_BYTES);
        row.piece = row.io_offset / piece_bytes;
        Ok(if row.io_size == 0 { 0 } else { (end - 1) / piece_bytes - row.piece + 1 })
    }

    fn parse(&self, name: &str, lines: &Lines) -> Result<Row, TraceError> {
        let mut row = Row::default();
        let mut at = 0;
        let mut fields = lines.line().split(|byte| *byte == b',');
        for column in &self.columns {
            let Some(field) = fields.next() else {
                let problem = format!("the line ends before column `{}`", column.name());
                return Err(TraceError::line(name, lines.number(), problem, "complete or remove the line"));
            };
            row.set(*column, field, at)
                .map_err(|wanted| TraceError::field(name, lines.number(), column.name(), field, wanted))?;
            at += field.len() + 1;
        }
        Ok(row)
    }
}

impl Row {
    /// Takes one field in; what the column wants instead where it does not fit.
    #[inline]
    fn set(&mut self, column: Column, field: &[u8], at: usize) -> Result<(), &'static str> {
        const WHOLE: &str = "a whole number";
        const SMALL: &str = "a whole number below 2^32";
        match column {
            Column::Key | Column::BlockId => {
                self.key = match canonical_number(field) {
                    Some(number) => Key::Number(number),
                    None => Key::Text(at..at + field.len()),
                };
            }
            Column::KeySize => self.key_size = optional(field, SMALL)?,
            Column::Size => self.size = optional(field, WHOLE)?,
            Column::Op => self.op = Some(parse_op(field).ok_or("an operation (get, set, touch, delete, …)")?),
            Column::OpCount => self.count = optional(field, WHOLE)?,
            Column::Ts => self.ts = optional_time(field)?,
            Column::Ttl => self.ttl_secs = optional(field, SMALL)?,
            Column::IoOffset => self.io_offset = parse_u64(field).ok_or(WHOLE)?,
            Column::IoSize => self.io_size = parse_u64(field).ok_or(WHOLE)?,
            Column::ShardId => self.shard = optional(field, WHOLE)?,
            Column::Tenant => self.tenant = at..at + field.len(),
            Column::CacheHits | Column::Ignored => {}
        }
        Ok(())
    }
}

#[inline]
fn key_only(line: &[u8]) -> Request<'_> {
    let key = canonical_number(line).map_or(TraceKey::Text(line), TraceKey::Number);
    Request { key, key_size: None, size: None, op: Op::Get, ts: None, ttl_secs: None }
}

/// The number that `text` is the only way to write; `007` and `+7` stay texts, so that they differ
/// from `7`.
#[inline]
fn canonical_number(text: &[u8]) -> Option<u64> {
    if text.len() > 1 && text.first() == Some(&b'0') { None } else { parse_u64(text) }
}

#[inline]
pub(super) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut number = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

/// A number that may be left out.
#[inline]
fn optional<T: TryFrom<u64>>(field: &[u8], wanted: &'static str) -> Result<Option<T>, &'static str> {
    if field.is_empty() {
        return Ok(None);
    }
    parse_u64(field).and_then(|number| T::try_from(number).ok()).map(Some).ok_or(wanted)
}

/// A time that may be left out and whose fraction is cut off.
fn optional_time(field: &[u8]) -> Result<Option<u64>, &'static str> {
    const WANTED: &str = "a time that is not negative";
    let whole = field.split(|byte| *byte == b'.').next().unwrap_or_default();
    let fraction = field.get(whole.len()..).and_then(|rest| rest.get(1..)).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(WANTED);
    }
    optional(whole, WANTED)
}

/// The operation that a word names, whatever its case; what follows a dot is passed over.
fn parse_op(field: &[u8]) -> Option<Op> {
    let word = field.split(|byte| *byte == b'.').next().unwrap_or_default();
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["r", "get", "gets", "read", "gat", "gats", "get_lease", "getchunkdata", "getchunk"]) {
        Some(Op::Get)
    } else if is(&["w", "set", "write", "add", "replace", "cas", "append", "prepend", "incr", "decr"])
        || is(&["set_lease", "putchunk", "put"])
    {
        Some(Op::Set)
    } else if is(&["touch"]) {
        Some(Op::Touch)
    } else if is(&["d", "del", "delete", "remove", "deletechunk"]) {
        Some(Op::Delete)
    } else {
        None
    }
}
