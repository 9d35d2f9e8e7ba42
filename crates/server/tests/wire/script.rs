//! Reads the cases; `cases/README.md` has their format.

use std::collections::HashMap;
use std::path::Path;

use crate::frame::Packet;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// A number that is known by a name.
    Number(String),
    /// The rest of the line.
    Anything,
}

/// A line, or bytes to send.
pub(crate) type Template = Vec<Piece>;

/// One thing to do or to expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Template),
    Expect(Template),
    SendPacket(Packet),
    ExpectPacket(Packet),
    ExpectEnd,
    Connect,
    Sleep(u64),
}

/// One case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// memcached is known to differ.
    pub(crate) millpond_only: bool,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// Returns whether all requests can be sent before an answer is read.
    pub(crate) fn can_be_pipelined(&self) -> bool {
        let ends = self.steps.iter().position(|step| *step == Step::ExpectEnd);
        ends.is_none_or(|at| at + 1 == self.steps.len())
            && self.steps.iter().all(|step| match step {
                Step::Send(template) => !template.iter().any(|piece| matches!(piece, Piece::Number(_))),
                Step::SendPacket(packet) => packet.is_known(),
                Step::Connect | Step::Sleep(_) => false,
                Step::Expect(_) | Step::ExpectPacket(_) | Step::ExpectEnd => true,
            })
    }

    /// Returns whether the case uses the binary protocol.
    pub(crate) fn is_binary(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::SendPacket(_)))
    }

    pub(crate) fn sleeps(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Sleep(_)))
    }
}

/// All cases of all files, in a fixed order.
pub(crate) fn load_all() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/cases");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
        .iter()
        .flat_map(|file| {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            parse(&name, &std::fs::read_to_string(file).expect("a readable file"))
        })
        .collect()
}

fn parse(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            let (title, millpond_only) = match title.strip_suffix(" [millpond]") {
                Some(title) => (title, true),
                None => (title, false),
            };
            cases.push(Case { name: format!("{file}: {title}"), millpond_only, steps: Vec::new() });
            continue;
        }
        let step =
            parse_step(line).unwrap_or_else(|| panic!("{file}.txt:{}: {line:?} means nothing", number + 1));
        cases.last_mut().expect("a case begins with ==").steps.push(step);
    }
    cases
}

fn parse_step(line: &str) -> Option<Step> {
    if line == "<EOF" {
        return Some(Step::ExpectEnd);
    }
    if let Some(raw) = line.strip_prefix(">> ") {
        return Some(Step::Send(template(&unescape(raw)?)));
    }
    let packet = |rest: &str, answer: bool| {
        Packet::parse(rest.split_whitespace(), answer, |text| Some(template(&unescape(text)?)))
    };
    if let Some(rest) = line.strip_prefix(">b ") {
        return packet(rest, false).map(Step::SendPacket);
    }
    if let Some(rest) = line.strip_prefix("<b ") {
        return packet(rest, true).map(Step::ExpectPacket);
    }
    if let Some(rest) = line.strip_prefix("<n ") {
        return Some(Step::Expect(template(&[rest.as_bytes(), b"\n"].concat())));
    }
    let (mark, rest) = line.split_at(1);
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let with_end = || template(&[rest.as_bytes(), b"\r\n"].concat());
    match mark {
        ">" => Some(Step::Send(with_end())),
        "<" => Some(Step::Expect(with_end())),
        "!" => match rest.split_once(' ') {
            Some(("sleep", millis)) => Some(Step::Sleep(millis.parse().ok()?)),
            _ => (rest == "new").then_some(Step::Connect),
        },
        _ => None,
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            let mut buffer = [0; 4];
            bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        bytes.push(match rest.next()? {
            'r' => b'\r',
            'n' => b'\n',
            '0' => 0,
            '\\' => b'\\',
            'x' => u8::from_str_radix(&rest.by_ref().take(2).collect::<String>(), 16).ok()?,
            _ => return None,
        });
    }
    Some(bytes)
}

/// Splits at `{…}`.
fn template(bytes: &[u8]) -> Template {
    let mut pieces = vec![Piece::Bytes(Vec::new())];
    let mut rest = bytes;
    while let Some(open) = rest.iter().position(|b| *b == b'{') {
        let close = rest[open..].iter().position(|b| *b == b'}').expect("a closing brace") + open;
        append(&mut pieces, &rest[..open]);
        let inner = std::str::from_utf8(&rest[open + 1..close]).expect("text in braces");
        match inner.split_once('*') {
            Some(("", "")) => pieces.push(Piece::Anything),
            Some((text, count)) => {
                append(&mut pieces, text.repeat(count.parse().expect("a count")).as_bytes());
            }
            None => pieces.push(Piece::Number(inner.to_owned())),
        }
        rest = &rest[close + 1..];
    }
    append(&mut pieces, rest);
    pieces
}

fn append(pieces: &mut Template, bytes: &[u8]) {
    match pieces.last_mut() {
        Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
        _ => pieces.push(Piece::Bytes(bytes.to_vec())),
    }
}

/// The numbers that were met, by name.
pub(crate) type Numbers = HashMap<String, Vec<u8>>;

/// The bytes of a template whose numbers are known.
pub(crate) fn fill(template: &Template, numbers: &Numbers) -> Vec<u8> {
    template
        .iter()
        .flat_map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Number(name) => {
                numbers.get(name).unwrap_or_else(|| panic!("{{{name}}} was not met yet")).clone()
            }
            Piece::Anything => panic!("{{*}} cannot be sent"),
        })
        .collect()
}

/// Returns whether `line` is as the template says; records the numbers in it.
pub(crate) fn matches(template: &Template, mut line: &[u8], numbers: &mut Numbers) -> bool {
    for piece in template {
        match piece {
            Piece::Bytes(bytes) => match line.strip_prefix(bytes.as_slice()) {
                Some(rest) => line = rest,
                None => return false,
            },
            Piece::Number(name) => {
                let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
                let (number, rest) = line.split_at(digits);
                if number.is_empty()
                    || numbers.entry(name.clone()).or_insert_with(|| number.to_vec()) != number
                {
                    return false;
                }
                line = rest;
            }
            Piece::Anything => return true,
        }
    }
    line.is_empty()
}

#[test]
fn lines_are_matched_and_numbers_kept() {
    let mut numbers = Numbers::new();
    let line = |text: &str| template(text.as_bytes());
    assert!(matches(&line("VALUE {k*3} {cas}"), b"VALUE kkk 17", &mut numbers));
    assert!(matches(&line("c{cas} {*}"), b"c17 whatever\r\n", &mut numbers));
    assert!(!matches(&line("c{cas}"), b"c18", &mut numbers), "another number under the same name");
    assert!(!matches(&line("c{cas}"), b"c17 ", &mut numbers), "more than was expected");
    assert!(!matches(&line("{other}"), b"", &mut numbers));
    assert_eq!(fill(&line("C{cas}!"), &numbers), b"C17!");
}
