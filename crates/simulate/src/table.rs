//! Tables of figures as aligned text.

use std::fmt::Write as _;

use serde::Serialize;

/// A table of figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new<C: Into<String>>(title: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// The table as aligned text, figures to the right, each line after `indent` spaces.
    pub fn render(&self, indent: usize) -> String {
        let columns = self.columns.len().max(self.rows.iter().map(Vec::len).max().unwrap_or(0));
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let all = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |column: usize| all().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
        let numeric = |column: usize| {
            let starts_as_number =
                |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || "+-−∞".contains(c));
            let mut cells =
                self.rows.iter().map(|row| cell(row, column)).filter(|text| !text.is_empty()).peekable();
            cells.peek().is_some() && cells.all(|text| starts_as_number(&text))
        };
        let shape: Vec<(usize, bool)> = (0..columns).map(|column| (width(column), numeric(column))).collect();
        let mut text = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(text, "{:indent$}{}", "", self.title);
        }
        for row in all() {
            let mut line = " ".repeat(indent);
            for (column, &(width, right)) in shape.iter().enumerate() {
                let cell = cell(row, column);
                let _ =
                    if right { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_figures_to_the_right() {
        let mut table = Table::new("sizes", ["tenant", "MB"]);
        table.row(["a", "4.0"]).row(["longer", "16.0"]);
        assert_eq!(table.render(1), " sizes\n tenant    MB\n a        4.0\n longer  16.0\n");
    }
}
