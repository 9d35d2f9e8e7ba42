//! The ratchet: what is longer than the house allows, with the length that each may have at most,
//! and how often each room may have what the house does not want.
//!
//! Its numbers may only shrink. It exists so that a limit can be set before everything keeps it,
//! and so that nothing gets worse meanwhile; an empty ratchet is the aim.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

/// The path of the ratchet, relative to the repository.
pub(crate) const PATH: &str = "xtask/ratchet.toml";

const PREAMBLE: &str = "\
# What is longer than the house allows, and how long each may be at most: split it. Below, what is counted in each crate, or
# folder at the top, and how many there may be: `cargo xtask house --places NAME ROOM` lists them. A number never grows,
# and nothing is added. `cargo xtask tidy --tighten` lowers the numbers to what they are, and `--moved` moves counts between
# crates after code has moved.
";

/// The listed lengths, in lines, and the listed counts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ratchet {
    /// By path.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, usize>,
    /// By path and name, as in `crates/slab/src/pool.rs::Pool::grow`.
    #[serde(default)]
    pub(crate) functions: BTreeMap<String, usize>,
    /// By measure and room.
    #[serde(default)]
    pub(crate) counts: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Ratchet {
    /// Reads the file.
    ///
    /// # Errors
    /// The parser's own message, with the place.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The file that holds this ratchet.
    pub(crate) fn render(&self) -> String {
        let mut text = PREAMBLE.to_owned();
        for (table, entries) in [("files", &self.files), ("functions", &self.functions)] {
            let _ = write!(text, "\n[{table}]\n");
            for (name, lines) in entries {
                let _ = writeln!(text, "\"{name}\" = {lines}");
            }
        }
        for (measure, rooms) in &self.counts {
            let _ = write!(text, "\n[counts.{measure}]\n");
            for (room, count) in rooms {
                let _ = writeln!(text, "{room} = {count}");
            }
        }
        text
    }
}

/// The line of a room's number in the table of a measure, or else of the table; 1 if it has
/// neither.
pub(crate) fn line_of(text: &str, measure: &str, room: &str) -> usize {
    let header = format!("[counts.{measure}]");
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| *line != header);
    let Some((table, _)) = lines.next() else { return 1 };
    let is_room = |line: &str| line.split(" = ").next() == Some(room);
    let row = lines.take_while(|(_, line)| !line.starts_with('[')).find(|(_, line)| is_room(line));
    1 + row.map_or(table, |(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_reads_back() {
        let mut ratchet = Ratchet::default();
        ratchet.files.insert("crates/slab/src/lib.rs".to_owned(), 1_234);
        ratchet.functions.insert("crates/slab/src/pool.rs::Pool::grow".to_owned(), 71);
        ratchet.counts.insert("width".to_owned(), BTreeMap::from([("slab".to_owned(), 3)]));
        assert_eq!(Ratchet::parse(&ratchet.render()), Ok(ratchet));
    }

    #[test]
    fn an_unknown_table_is_refused() {
        assert!(Ratchet::parse("[folders]\n").expect_err("unknown").contains("folders"));
    }

    #[test]
    fn a_number_is_found_in_its_table() {
        let text = "[counts.prose]\nslab = 1\n\n[counts.width]\nindex = 2\n\n[counts.x]\nslab = 3\n";
        let line_of = |measure, room| line_of(text, measure, room);
        assert_eq!(line_of("prose", "slab"), 2);
        assert_eq!(line_of("width", "index"), 5);
        assert_eq!((line_of("width", "slab"), line_of("y", "slab")), (4, 1));
    }
}
