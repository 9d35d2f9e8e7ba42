//! Requests and answers of the binary protocol, as cases write them.

use protocol::memcached::binary::{Answer, Frame, Opcode};

use crate::script::{Numbers, Piece, Template, fill, matches};

/// The opaque bytes of every request.
const OPAQUE: u32 = 0xC0FF_EE00;

/// A request or an answer: what stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    opcode: u8,
    /// Of an answer.
    status: u16,
    extras: Vec<u8>,
    key: Template,
    value: Template,
    /// A number, 0 where there is none.
    cas: Template,
}

/// The words of an expected answer, or of a request.
pub(crate) type Words<'a> = std::str::SplitWhitespace<'a>;

impl Packet {
    /// Reads what follows the mark of a request (`OPCODE [NAME=TEXT]…`) or, with `answer`,
    /// `OPCODE STATUS [NAME=TEXT]…`.
    pub(crate) fn parse(
        mut words: Words<'_>,
        answer: bool,
        text: impl Fn(&str) -> Option<Template>,
    ) -> Option<Self> {
        let nothing = || vec![Piece::Bytes(Vec::new())];
        let opcode = opcode(words.next()?)?;
        let status = if answer { status(words.next()?)? } else { 0 };
        let mut packet = Self {
            opcode,
            status,
            extras: Vec::new(),
            key: nothing(),
            value: nothing(),
            cas: vec![Piece::Bytes(b"0".to_vec())],
        };
        for word in words {
            match word.split_once('=')? {
                ("key", rest) => packet.key = text(rest)?,
                ("value", rest) => packet.value = text(rest)?,
                ("cas", rest) => packet.cas = text(rest)?,
                ("extras", rest) => packet.extras = hex(rest)?,
                _ => return None,
            }
        }
        Some(packet)
    }

    /// Returns whether the packet can be written before any answer is read.
    pub(crate) fn is_known(&self) -> bool {
        [&self.key, &self.value, &self.cas]
            .iter()
            .all(|template| template.iter().all(|piece| matches!(piece, Piece::Bytes(_))))
    }

    /// The bytes of a request.
    pub(crate) fn bytes(&self, numbers: &Numbers) -> Vec<u8> {
        let cas = String::from_utf8(fill(&self.cas, numbers)).expect("digits");
        let mut out = Vec::new();
        Frame {
            opcode: self.opcode,
            opaque: OPAQUE,
            cas: cas.parse().expect("a number"),
            extras: &self.extras,
            key: &fill(&self.key, numbers),
            value: &fill(&self.value, numbers),
        }
        .write(&mut out);
        out
    }

    /// Returns whether `answer` is as expected; records the numbers in it.
    pub(crate) fn matches(&self, answer: &Answer<'_>, numbers: &mut Numbers) -> bool {
        (answer.head.opcode.0, answer.head.opaque) == (self.opcode, OPAQUE)
            && (answer.status, answer.extras) == (self.status, &self.extras[..])
            && matches(&self.key, answer.key, numbers)
            && matches(&self.value, answer.value, numbers)
            && matches(&self.cas, answer.cas.to_string().as_bytes(), numbers)
    }
}

fn opcode(word: &str) -> Option<u8> {
    let named = Opcode::ALL.iter().find(|(_, name)| *name == word);
    named.map(|(opcode, _)| opcode.0).or_else(|| hex(word)?.first().copied())
}

/// The names that cases give to what is in an answer's status.
fn status(word: &str) -> Option<u16> {
    Some(match word {
        "ok" => 0,
        "not_found" => 1,
        "exists" => 2,
        "too_large" => 3,
        "invalid" => 4,
        "not_stored" => 5,
        "non_numeric" => 6,
        "unknown" => 0x81,
        _ => return None,
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
