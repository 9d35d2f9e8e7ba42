//! The figures that memcached is asked for.

use std::collections::HashMap;
use std::io;

use super::super::wire::{Deadline, Wire, garbled};
use super::log::number;

pub(super) const MIB: u64 = 1 << 20;
/// Bytes of a line of an answer.
pub(super) const LINE: usize = 4096;
/// memcached's classes are numbered below this.
pub(super) const CLASSES: usize = 64;

/// Lines of an answer: `stats slabs` has 14 for each of 63 classes.
const LINES: usize = 4096;

/// A size class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SlabClass {
    pub(super) number: u8,
    /// Bytes of a chunk.
    pub(super) chunk: u64,
    pub(super) pages: u64,
    per_page: u64,
    used: u64,
    /// The time since the least recently used item was used, in seconds.
    age: f64,
}

impl SlabClass {
    /// Pages that would fit into its free chunks.
    fn free_pages(&self) -> u64 {
        let chunks = self.pages.saturating_mul(self.per_page);
        chunks.saturating_sub(self.used) / self.per_page.max(1)
    }

    /// Has one page less.
    pub(super) fn shrink(&mut self) {
        if self.free_pages() == 0 {
            self.age *= 1.0 - 1.0 / self.pages.max(1) as f64;
            self.used = self.used.saturating_sub(self.per_page);
        }
        self.pages = self.pages.saturating_sub(1);
    }
}

/// The class that is to give a page: the one with the most free pages, and if none has one, the one
/// whose items have been unused for longest. Each keeps one page.
pub(super) fn next_to_shrink(classes: &mut [SlabClass]) -> Option<&mut SlabClass> {
    let candidates = classes.iter_mut().filter(|class| class.pages > 1);
    candidates.max_by(|a, b| {
        (a.free_pages(), a.age).partial_cmp(&(b.free_pages(), b.age)).unwrap_or(std::cmp::Ordering::Equal)
    })
}

/// The statistics of a memcached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) version: String,
    pub(super) pid: u64,
    /// When it was started, in seconds on its own clock.
    pub(super) started: u64,
    pub(super) limit: u64,
    /// Bytes of pages.
    pub(super) malloced: u64,
    pub(super) reads: u64,
    pub(super) misses: u64,
    pub(super) reassigns: bool,
    pub(super) evicts: bool,
    pub(super) classes: Vec<SlabClass>,
}

impl Figures {
    /// Asks for all of them at once.
    pub(super) fn ask(wire: &mut Wire, deadline: Deadline) -> io::Result<Self> {
        wire.send(b"version\r\nstats\r\nstats settings\r\nstats slabs\r\nstats items\r\n", deadline)?;
        let version = wire.line(LINE, deadline)?;
        let version = version
            .strip_prefix(b"VERSION ")
            .ok_or_else(|| garbled(format!("it answered {} to version", shown(&version))))?;
        let version = String::from_utf8_lossy(version).into_owned();
        let mut tables = [(); 4].map(|()| HashMap::new());
        for table in &mut tables {
            *table = read_table(wire, deadline)?;
        }
        let [general, settings, slabs, items] = &tables;
        Self::from_tables(version, general, settings, slabs, items)
    }

    pub(super) fn from_tables(
        version: String,
        general: &Table,
        settings: &Table,
        slabs: &Table,
        items: &Table,
    ) -> io::Result<Self> {
        let sum = |names: &[&str]| -> io::Result<u64> {
            names.iter().try_fold(0_u64, |sum, name| Ok(sum.saturating_add(figure(general, name)?)))
        };
        let misses = sum(&["get_misses", "touch_misses"])?;
        let hits = sum(&["get_hits", "touch_hits"])?;
        Ok(Self {
            version,
            pid: figure(general, "pid")?,
            // Both are of the same clock, so that the difference does not move.
            started: figure(general, "time")?.saturating_sub(figure(general, "uptime")?),
            limit: figure(general, "limit_maxbytes")?,
            malloced: figure(slabs, "total_malloced")?,
            reads: hits.saturating_add(misses),
            misses,
            reassigns: settings.get("slab_reassign").is_some_and(|value| value == "yes"),
            evicts: settings.get("evictions").is_none_or(|value| value != "off"),
            classes: (1..CLASSES as u8).filter_map(|number| class(number, slabs, items)).collect(),
        })
    }

    /// Bytes of chunks that hold an item.
    pub(super) fn in_chunks(&self) -> u64 {
        let of = |class: &SlabClass| class.used.saturating_mul(class.chunk);
        self.classes.iter().map(of).fold(0, u64::saturating_add).min(self.malloced)
    }
}

/// Names and values.
pub(super) type Table = HashMap<String, String>;

fn read_table(wire: &mut Wire, deadline: Deadline) -> io::Result<Table> {
    let mut table = Table::new();
    for _ in 0..LINES {
        let line = wire.line(LINE, deadline)?;
        if line == b"END" {
            return Ok(table);
        }
        let (name, value) =
            pair(&line).ok_or_else(|| garbled(format!("it answered {} to stats", shown(&line))))?;
        table.insert(name, value);
    }
    Err(garbled("its statistics do not end"))
}

/// Reads `STAT name value`, whose value may have blanks or be empty.
pub(super) fn pair(line: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("STAT ")?;
    let (name, value) = text.split_once(' ').unwrap_or((text, ""));
    Some((name.to_owned(), value.to_owned()))
}

fn figure(table: &Table, name: &str) -> io::Result<u64> {
    let value = table.get(name).ok_or_else(|| garbled(format!("its statistics have no `{name}`")))?;
    number(value.as_bytes()).ok_or_else(|| {
        garbled(format!("in its statistics `{name}` is not a number: {}", shown(value.as_bytes())))
    })
}

/// A class that has pages.
fn class(number: u8, slabs: &Table, items: &Table) -> Option<SlabClass> {
    let of = |name: &str| figure(slabs, &format!("{number}:{name}")).ok();
    let age = figure(items, &format!("items:{number}:age")).unwrap_or(0);
    Some(SlabClass {
        number,
        chunk: of("chunk_size")?.min(1 << 40),
        pages: of("total_pages")?.min(u64::MAX / MIB),
        per_page: of("chunks_per_page")?.max(1),
        used: of("used_chunks")?,
        age: age as f64,
    })
}

/// A line of an answer, for an error message.
pub(super) fn shown(line: &[u8]) -> String {
    format!("`{}`", line.get(..line.len().min(100)).unwrap_or_default().escape_ascii())
}
