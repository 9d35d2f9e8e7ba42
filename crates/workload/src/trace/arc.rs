//! ARC's `.lis` traces: `start count ignored request`, one range of 512-byte sectors a line.
//!
//! Source: N. Megiddo and D. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003, section V. Each sector of a range is a request of its own, which is how the paper's Table
//! III counts them.

use super::error::excerpt;
use super::lines::Lines;
use super::{Op, Request, TraceError, TraceKey, check_count};

/// The unit of the ranges.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Returns whether a first line is three to five numbers between blanks.
pub(super) fn looks_like(line: &[u8]) -> bool {
    let mut fields = 0;
    for field in line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()) {
        fields += 1;
        if !field.iter().all(u8::is_ascii_digit) {
            return false;
        }
    }
    (3..=5).contains(&fields)
}

/// The range that is being expanded.
#[derive(Default)]
pub(super) struct ArcRows {
    next: u64,
    left: u64,
    request: Option<u64>,
}

impl ArcRows {
    pub(super) fn next_request(
        &mut self,
        name: &str,
        lines: &mut Lines,
    ) -> Result<Option<Request<'_>>, TraceError> {
        while self.left == 0 {
            if !lines.advance(name)? {
                return Ok(None);
            }
            self.read_range(name, lines)?;
        }
        let key = TraceKey::Number(self.next);
        self.next = self.next.wrapping_add(1);
        self.left -= 1;
        Ok(Some(Request {
            key,
            key_size: None,
            size: Some(SECTOR_BYTES),
            op: Op::Get,
            ts: self.request,
            ttl_secs: None,
        }))
    }

    fn read_range(&mut self, name: &str, lines: &Lines) -> Result<(), TraceError> {
        let mut fields = lines.line().split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let mut number = |column: &str| {
            let field = fields.next().unwrap_or_default();
            let parsed = std::str::from_utf8(field).ok().and_then(|text| text.parse::<u64>().ok());
            parsed.ok_or_else(|| TraceError::field(name, lines.number(), column, field, "a whole number"))
        };
        let start = number("start")?;
        let count = number("count")?;
        number("ignored")?;
        // Some of ARC's traces have no request number.
        let request = number("request").ok();
        if start.checked_add(count).is_none() {
            let problem = format!("the range `{}` goes past 2^64", excerpt(lines.line()));
            return Err(TraceError::line(name, lines.number(), problem, "correct or remove the line"));
        }
        check_count(name, lines.number(), count)?;
        (self.next, self.left, self.request) = (start, count, request);
        Ok(())
    }
}
